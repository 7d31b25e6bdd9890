// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fusion: a known chain of elements, run as one pass over a batch.
//!
//! A router's packets go through a dozen small elements one after the other, and each loads the packet's descriptor and
//! header again. A [`Fusion`] recognises such a chain when the router is built and offers a [`Pass`] that does the work of all
//! its elements for a packet at once.
//!
//! A pass handles *ordinary* packets only: those that every element of the chain would send on by output 0. It stops at the
//! first packet that needs more (an error, an option, a copy); that packet goes through the elements themselves, as if
//! there were no pass, and the pass goes on behind it. Where the chain ends, all are one batch again. So an element says what it means once, and a pass has nothing to decide but
//! whether a packet is ordinary. Packets keep their order along every path, as always, and with batches of one packet the order
//! of everything is that of the elements alone.
//!
//! The elements stay where they are, with their handlers, counters and drops: a pass reads their settings at each batch (so a
//! write handler acts at once) and the engine counts what went over each connection.

use std::any::Any;

use packet::Packet;

use crate::clock::Nanos;
use crate::element::Element;
use crate::worker::{Edge, PortTable, Slot};

/// Elements a pass may replace; longer chains are fused in part.
const LONGEST: usize = 16;

/// A way to run chains of some form.
#[derive(Clone, Copy, Debug)]
pub struct Fusion {
    /// What the pass does, for people: `IPv4 output`.
    pub name: &'static str,
    /// Looks at a chain, each element's output 0 leading to the next one's input 0, and offers a pass over its first elements.
    pub find: fn(&[&dyn Element]) -> Option<Offer>,
}

/// A pass over the first elements of a chain.
pub struct Offer {
    /// How many; an offer for fewer than two is not taken.
    pub elements: usize,
    /// The pass.
    pub pass: Box<dyn Pass>,
}

/// What runs in place of a chain's elements.
pub trait Pass: Send {
    /// Does to packets from the front of `batch` what the elements would do, until one is not ordinary; returns how many it
    /// did. The packet it stopped at must be untouched. `chain` are the elements, whose settings may have changed since
    /// the last call.
    fn run(&mut self, chain: &Chain<'_>, batch: &mut [Packet], now: Nanos) -> usize;
}

/// The elements of a chain as a pass sees them while it runs.
pub struct Chain<'a> {
    pub(crate) elements: &'a [u32],
    pub(crate) slots: &'a [Slot],
}

impl Chain<'_> {
    /// The element at this place of the chain, as the `T` it was when the pass was made.
    #[inline]
    pub fn get<T: Element>(&self, at: usize) -> Option<&T> {
        member(self.slots[self.elements[at] as usize].as_deref()?)
    }
}

/// An element of a chain as what it is, if it is a `T`.
#[inline]
pub fn member<T: Element>(element: &dyn Element) -> Option<&T> {
    (element as &dyn Any).downcast_ref()
}

/// A chain that a pass runs.
pub(crate) struct Fused {
    pub(crate) name: &'static str,
    /// Indices of the elements, in order.
    pub(crate) elements: Vec<u32>,
    /// Where the connections between them are counted: an index into the worker's output table for each but the last.
    pub(crate) links: Vec<usize>,
    pub(crate) pass: Box<dyn Pass>,
}

impl Fused {
    /// The element by whose output 0 packets leave the chain.
    #[inline]
    pub(crate) fn last(&self) -> u32 {
        self.elements[self.elements.len() - 1]
    }

    pub(crate) fn describe(&self) -> FusedChain {
        FusedChain { name: self.name, elements: self.elements.iter().map(|e| *e as usize).collect() }
    }
}

/// The elements that follow `head` by output 0 to input 0, itself first. `at` finds an element's instance, if it may be fused.
fn chain<'a>(
    head: u32,
    outputs: &PortTable,
    at: &impl Fn(u32) -> Option<&'a dyn Element>,
) -> (Vec<u32>, Vec<usize>, Vec<&'a dyn Element>) {
    let (mut indices, mut links, mut elements) = (Vec::new(), Vec::new(), Vec::new());
    let mut next = Some(head);
    while let Some(e) = next
        && indices.len() < LONGEST
        && !indices.contains(&e)
        && let Some(element) = at(e)
    {
        indices.push(e);
        elements.push(element);
        let link = outputs.at(e, 0);
        let edge = link.map_or(Edge::NONE, |at| outputs.edges[at]);
        links.extend(link);
        next = (edge.element != u32::MAX && edge.port == 0 && !edge.wakes).then_some(edge.element);
    }
    (indices, links, elements)
}

/// The pass for the chain that begins at `head`: of all that fit, the one over most elements.
pub(crate) fn find<'a>(
    head: u32,
    fusions: &[Fusion],
    outputs: &PortTable,
    at: &impl Fn(u32) -> Option<&'a dyn Element>,
) -> Option<Fused> {
    let (mut elements, mut links, members) = chain(head, outputs, at);
    let offers = fusions.iter().filter_map(|f| Some((f.name, (f.find)(&members)?)));
    let (name, Offer { elements: n, pass }) =
        offers.max_by_key(|(_, o)| o.elements).filter(|(_, o)| o.elements >= 2)?;
    elements.truncate(n);
    links.truncate(n - 1);
    Some(Fused { name, elements, links, pass })
}

/// A chain that is fused, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FusedChain {
    /// The name of its [`Fusion`].
    pub name: &'static str,
    /// Indices of its elements, in order.
    pub elements: Vec<usize>,
}

/// The chains among all elements, each in its longest form: without those that only begin inside another.
pub(crate) fn longest(fused: impl IntoIterator<Item = FusedChain>) -> Vec<FusedChain> {
    let mut all: Vec<FusedChain> = Vec::new();
    for chain in fused {
        if !all.contains(&chain) {
            all.push(chain);
        }
    }
    let inside = |c: &FusedChain| {
        all.iter().any(|o| o.elements.len() > c.elements.len() && o.elements.ends_with(&c.elements))
    };
    all.iter().filter(|c| !inside(c)).cloned().collect()
}
