// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ports of all elements: how each works, and what it is connected to.
//!
//! A configuration may have a million elements with a port or two each, so all ports of one side lie one after the other in a few
//! vectors. A router has them once. [`Ports`] shows those of one element.

use std::ops::Range;
use std::sync::Arc;

use crate::ids::{ElementId, IndexVec, first_ids};
use crate::ports::Processing;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// The element.
    pub element: ElementId,
    /// Its input or output.
    pub port: usize,
}

impl From<lang::PortRef> for End {
    fn from(end: lang::PortRef) -> End {
        End { element: ElementId::new(end.element), port: end.port }
    }
}

/// A port of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port<'a> {
    /// How packets move through it.
    pub processing: Processing,
    /// The ports that it is connected to.
    pub peers: &'a [End],
}

/// The ports of one side of all elements: those of element `e` are the places `base[e]..base[e + 1]`.
#[derive(Clone, Debug, Default)]
pub struct Side {
    base: Vec<u32>,
    processing: Vec<Processing>,
    /// The peers of the port at place `p` are `peers[first[p]..first[p + 1]]`.
    first: Vec<u32>,
    peers: Vec<End>,
}

impl Side {
    /// The ports of elements that have so many each, connected by `links`: an end of this side, and its peer.
    pub fn new(counts: &IndexVec<ElementId, usize>, links: impl Iterator<Item = (End, End)> + Clone) -> Side {
        let mut base = Vec::with_capacity(counts.len() + 1);
        let mut all = 0u32;
        for count in counts {
            base.push(all);
            all += *count as u32;
        }
        base.push(all);
        let place = |end: End| base[end.element.index()] as usize + end.port;
        // First how many each has, then where the first of each lies.
        let mut first = vec![0u32; all as usize + 1];
        links.clone().for_each(|(here, _)| first[place(here)] += 1);
        let mut sum = 0;
        for n in &mut first {
            sum += std::mem::replace(n, sum);
        }
        let mut next = first.clone();
        let nothing = End { element: ElementId::new(0), port: 0 };
        let mut peers = vec![nothing; sum as usize];
        for (here, peer) in links {
            let next = &mut next[place(here)];
            peers[*next as usize] = peer;
            *next += 1;
        }
        Side { processing: vec![Processing::Agnostic; all as usize], base, first, peers }
    }

    /// How many ports there are in all.
    pub fn ports(&self) -> usize {
        self.processing.len()
    }

    /// Where the ports of an element lie.
    fn range(&self, element: ElementId) -> Range<usize> {
        let e = element.index();
        self.base[e] as usize..self.base[e + 1] as usize
    }

    /// The ports of an element.
    pub fn of(&self, element: ElementId) -> Ports<'_> {
        let Range { start: from, end: to } = self.range(element);
        Ports { side: self, from, to }
    }

    /// The ports of each element in turn.
    pub fn each(&self) -> impl Iterator<Item = (ElementId, Ports<'_>)> {
        first_ids(self.base.len().saturating_sub(1)).map(|e| (e, self.of(e)))
    }

    /// How a port works, if the element has it.
    pub fn processing(&self, end: End) -> Option<Processing> {
        self.of(end.element).get(end.port).map(|p| p.processing)
    }

    /// The processing of an element's ports, to be changed.
    pub fn processing_mut(&mut self, element: ElementId) -> &mut [Processing] {
        let range = self.range(element);
        &mut self.processing[range]
    }

    /// Of all ports.
    pub fn all_processing_mut(&mut self) -> &mut [Processing] {
        &mut self.processing
    }
}

/// The inputs or the outputs of an element.
#[derive(Clone, Copy, Debug)]
pub struct Ports<'a> {
    side: &'a Side,
    from: usize,
    to: usize,
}

impl<'a> Ports<'a> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.to - self.from
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// One by its number.
    pub fn get(&self, port: usize) -> Option<Port<'a>> {
        let place = self.from + port;
        (place < self.to).then(|| {
            let peers = self.side.first[place] as usize..self.side.first[place + 1] as usize;
            Port { processing: self.side.processing[place], peers: &self.side.peers[peers] }
        })
    }

    /// The first one.
    pub fn first(&self) -> Option<Port<'a>> {
        self.get(0)
    }

    /// All, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Port<'a>> + Clone + use<'a> {
        let ports = *self;
        (0..self.len()).map(move |port| ports.get(port).expect("a port of the element"))
    }

    /// How they work.
    pub fn processing(&self) -> &'a [Processing] {
        &self.side.processing[self.from..self.to]
    }
}

/// Both sides of all elements of a router.
#[derive(Debug, Default)]
pub struct Wiring {
    /// Inputs.
    pub inputs: Side,
    /// Outputs.
    pub outputs: Side,
}

/// The ports of one element of a router.
#[derive(Clone, Debug)]
pub struct Wired {
    /// All ports of the router.
    pub wiring: Arc<Wiring>,
    /// The element.
    pub element: ElementId,
}
