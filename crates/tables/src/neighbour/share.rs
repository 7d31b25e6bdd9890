// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who takes up most of a table: first by interface, then by source, then by neighbour.
//!
//! A table that must make room takes it from the source that holds most of it. One scanner then competes with itself only, however fast it is; many
//! of them on one interface compete with each other. Among equals, the one that has held so much for the longest time loses: a neighbour that is
//! there answers within the first millisecond.
//!
//! A scan makes the table ask this question for every packet, so an answer, and a change by one, take a few steps however many
//! there are ([`Ranking`]).

use super::ranking::{Ranking, Ranks};
use crate::slab::{Id, Slab};

/// On whose behalf something waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share {
    /// The interface that it came from.
    pub interface: u32,
    /// Who sent it: an address, or a number made of one.
    pub source: u64,
}

/// What counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// Neighbours without an answer.
    Neighbours,
    /// Items that wait for those.
    Items,
}

const KINDS: usize = 2;

#[derive(Debug, Default)]
struct Interface {
    /// Sources by weight, for each that counts.
    ranks: [Ranks; KINDS],
    /// How many there are.
    sources: usize,
}

#[derive(Debug, Default)]
struct Source {
    interface: Id,
    /// Neighbours by weight.
    ranks: [Ranks; KINDS],
    /// How many there are.
    neighbours: usize,
}

/// Interfaces by weight, and all weights there are.
#[derive(Debug, Default)]
struct Weights {
    ranks: Ranks,
    interfaces: Ranking,
    sources: Ranking,
    neighbours: Ranking,
}

/// Weights of neighbours without an answer, by interface and source.
#[derive(Debug)]
pub(super) struct Shares {
    interfaces: Slab<u32, Interface, 0>,
    sources: Slab<Share, Source, 0>,
    weights: [Weights; KINDS],
    len: usize,
}

impl Shares {
    pub(super) fn new(seed: u64) -> Self {
        Shares { interfaces: Slab::new(seed), sources: Slab::new(seed), weights: Default::default(), len: 0 }
    }

    /// Counts neighbour `id` to a share; returns its source.
    pub(super) fn join(&mut self, share: Share, id: Id) -> Id {
        let source = match self.sources.find(share) {
            Some(source) => source,
            None => self.add(share),
        };
        self.sources[source].neighbours += 1;
        self.len += 1;
        self.change(Of::Neighbours, source, id, 1);
        source
    }

    fn add(&mut self, share: Share) -> Id {
        let interface = match self.interfaces.find(share.interface) {
            Some(interface) => interface,
            None => {
                let interface = self.interfaces.add(share.interface);
                self.interfaces[interface] = Interface::default();
                interface
            }
        };
        self.interfaces[interface].sources += 1;
        let source = self.sources.add(share);
        self.sources[source] = Source { interface, ..Source::default() };
        source
    }

    /// Takes out neighbour `id`, for which so many items wait.
    pub(super) fn leave(&mut self, source: Id, id: Id, items: usize) {
        self.change(Of::Neighbours, source, id, -1);
        self.change(Of::Items, source, id, -(items as isize));
        self.len -= 1;
        self.sources[source].neighbours -= 1;
        if self.sources[source].neighbours == 0 {
            let interface = self.sources[source].interface;
            self.sources.remove(source);
            self.interfaces[interface].sources -= 1;
            if self.interfaces[interface].sources == 0 {
                self.interfaces.remove(interface);
            }
        }
    }

    /// Changes the weight of neighbour `id`, which belongs to `source`.
    pub(super) fn change(&mut self, of: Of, source: Id, id: Id, by: isize) {
        let weights = &mut self.weights[of as usize];
        let Source { interface, ranks, .. } = &mut self.sources[source];
        weights.neighbours.change(&mut ranks[of as usize], id, by);
        weights.sources.change(&mut self.interfaces[*interface].ranks[of as usize], source, by);
        weights.interfaces.change(&mut weights.ranks, *interface, by);
    }

    /// The heaviest neighbour of the heaviest source of the heaviest interface.
    pub(super) fn heaviest(&self, of: Of) -> Option<Id> {
        let weights = &self.weights[of as usize];
        let interface = weights.interfaces.heaviest(&weights.ranks)?;
        let source = weights.sources.heaviest(&self.interfaces[interface].ranks[of as usize])?;
        weights.neighbours.heaviest(&self.sources[source].ranks[of as usize])
    }

    /// How many neighbours without an answer a source's interface has, and the source itself.
    pub(super) fn weights(&self, source: Id) -> (usize, usize) {
        let weights = &self.weights[Of::Neighbours as usize];
        (weights.interfaces.weight(self.sources[source].interface), weights.sources.weight(source))
    }

    pub(super) fn clear(&mut self) {
        self.interfaces.clear();
        self.sources.clear();
        self.weights = Default::default();
        self.len = 0;
    }

    /// How many neighbours there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}
