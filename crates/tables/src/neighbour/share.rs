// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who takes up most of a table: first by interface, then by source, then by neighbour.
//!
//! A table that must make room takes it from whoever holds most of it. One scanner then competes with itself only, however
//! fast it is; many of them on one interface compete with each other. Among equals, the one that came first loses: it had
//! the longest time to get its answer, and a neighbour that is there answers within the first millisecond.

use super::Address;
use crate::hash::Seed;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::Hash,
};

/// On whose behalf something waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share {
    /// The interface that it came from.
    pub interface: u32,
    /// Who sent it: an address, or a number made of one.
    pub source: u64,
}

/// Weights of keys within parents, and the heaviest of each parent; among equals, the one noted first.
#[derive(Debug)]
struct Ranking<P, K> {
    /// Weight, and the serial number at which the key was first noted.
    weights: HashMap<(P, K), (usize, u64), Seed>,
    order: BTreeMap<P, BTreeSet<(usize, Reverse<u64>, K)>>,
}

impl<P: Copy + Ord + Hash, K: Copy + Ord + Hash> Ranking<P, K> {
    fn new(seed: u64) -> Self {
        Ranking { weights: HashMap::with_hasher(Seed(seed)), order: BTreeMap::new() }
    }

    /// Changes a weight. Keys of weight zero are forgotten.
    fn change(&mut self, parent: P, key: K, by: isize, serial: u64) {
        let (weight, since) = self.weights.get(&(parent, key)).copied().unwrap_or((0, serial));
        let order = self.order.entry(parent).or_default();
        if weight > 0 {
            order.remove(&(weight, Reverse(since), key));
        }
        let weight = weight.saturating_add_signed(by);
        if weight > 0 {
            order.insert((weight, Reverse(since), key));
            self.weights.insert((parent, key), (weight, since));
        } else {
            self.weights.remove(&(parent, key));
            if order.is_empty() {
                self.order.remove(&parent);
            }
        }
    }

    fn heaviest(&self, parent: P) -> Option<K> {
        self.order.get(&parent)?.last().map(|(.., key)| *key)
    }
}

/// Weights of neighbours, by interface and source.
#[derive(Debug)]
pub(super) struct Shares<A> {
    interfaces: Ranking<(), u32>,
    sources: Ranking<u32, u64>,
    neighbours: Ranking<Share, A>,
}

impl<A: Address> Shares<A> {
    pub(super) fn new(seed: u64) -> Self {
        Shares { interfaces: Ranking::new(seed), sources: Ranking::new(seed), neighbours: Ranking::new(seed) }
    }

    /// Changes the weight of `addr`, which belongs to `share`. `serial` rises from call to call.
    pub(super) fn change(&mut self, share: Share, addr: A, by: isize, serial: u64) {
        if by != 0 {
            self.interfaces.change((), share.interface, by, serial);
            self.sources.change(share.interface, share.source, by, serial);
            self.neighbours.change(share, addr, by, serial);
        }
    }

    /// The heaviest neighbour of the heaviest source of the heaviest interface.
    pub(super) fn heaviest(&self) -> Option<A> {
        let interface = self.interfaces.heaviest(())?;
        let source = self.sources.heaviest(interface)?;
        self.neighbours.heaviest(Share { interface, source })
    }

    /// The weights of a share's interface and of its source there.
    pub(super) fn weights(&self, share: Share) -> (usize, usize) {
        let interface = self.interfaces.weights.get(&((), share.interface));
        let source = self.sources.weights.get(&(share.interface, share.source));
        (interface.map_or(0, |w| w.0), source.map_or(0, |w| w.0))
    }

    pub(super) fn clear(&mut self) {
        self.interfaces.weights.clear();
        self.interfaces.order.clear();
        self.sources.weights.clear();
        self.sources.order.clear();
        self.neighbours.weights.clear();
        self.neighbours.order.clear();
    }

    /// How many neighbours have a weight.
    pub(super) fn len(&self) -> usize {
        self.neighbours.weights.len()
    }
}
