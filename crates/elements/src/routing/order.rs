// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order in which Click lists routes. Called as `click`, tables are shown in it, for scripts compare them.
//!
//! Click's tables are arrays. A new route takes a free place, or else one at the end, and places become free when routes
//! leave. The classes differ in which free place they take.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// Which of Click's tables an element is named after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Like {
    /// The first free place is taken; a route that is set again keeps its place.
    #[default]
    Linear,
    /// As `Linear`, under a name that Click advises against.
    Sorted,
    /// The place that became free last is taken, also by a route that is set again.
    Radix,
    /// Chains of a hash table, the newest route first. Packets without a route are dropped without a word.
    Direct,
    /// The IPv6 table: as `Linear`.
    Six,
}

/// The places of routes.
pub(super) struct Order<K> {
    like: Like,
    places: HashMap<K, u64>,
    free: BTreeSet<u64>,
    /// Free places, the one that became free last at the end.
    freed: Vec<u64>,
    next: u64,
}

impl<K: Copy + Eq + Hash> Order<K> {
    pub(super) fn new(like: Like) -> Self {
        Self { like, places: HashMap::new(), free: BTreeSet::new(), freed: Vec::new(), next: 0 }
    }

    fn take_place(&mut self) -> u64 {
        let free = match self.like {
            Like::Radix => self.freed.pop(),
            Like::Direct => None,
            _ => self.free.pop_first(),
        };
        free.unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    fn leave(&mut self, place: u64) {
        match self.like {
            Like::Radix => self.freed.push(place),
            Like::Direct => {}
            _ => drop(self.free.insert(place)),
        }
    }

    /// A route has come, or was set again.
    pub(super) fn set(&mut self, route: K) {
        let old = self.places.get(&route).copied();
        if old.is_some() && self.like != Like::Radix {
            return;
        }
        let place = self.take_place();
        self.places.insert(route, place);
        if let Some(old) = old {
            self.leave(old);
        }
    }

    /// A route has left.
    pub(super) fn remove(&mut self, route: &K) {
        if let Some(place) = self.places.remove(route) {
            self.leave(place);
        }
    }

    /// All routes have been replaced.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.like);
    }

    /// What to sort routes by. `chain` is the one that Click's hash table has a route in.
    pub(super) fn rank(&self, route: &K, chain: u32) -> (u32, u64) {
        let place = self.places.get(route).copied().unwrap_or(u64::MAX);
        match self.like {
            Like::Direct => (chain, u64::MAX - place),
            _ => (0, place),
        }
    }
}

/// The chain of Click's DirectIPLookup that a prefix is in.
pub(crate) fn chain(prefix: u32, len: u32) -> u32 {
    let shift = |n: u32, by: u32| n.checked_shr(by).unwrap_or(0);
    let mut hash = prefix ^ (len << 5) ^ shift(prefix, len >> 2).wrapping_sub(len);
    hash ^= (hash >> 23) ^ (hash >> 15).wrapping_mul(len) ^ (prefix >> 17).wrapping_mul(53);
    // A shift by 32 leaves a 32-bit word as it is on the machines that Click runs on.
    let term = (prefix >> 3) ^ (hash >> (len & 31)).wrapping_mul(7) ^ (hash >> 11).wrapping_mul(103);
    hash = hash.wrapping_sub(term);
    (hash ^ (hash >> 17)) & 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Routes in order after `text`: a capital letter sets a route, a small one removes it.
    fn listed(like: Like, text: &str) -> String {
        let mut order = Order::new(like);
        for c in text.chars() {
            match c.is_ascii_uppercase() {
                true => order.set(c),
                false => order.remove(&c.to_ascii_uppercase()),
            }
        }
        let mut routes: Vec<char> = order.places.keys().copied().collect();
        routes.sort_by_key(|route| order.rank(route, 0));
        routes.into_iter().collect()
    }

    #[test]
    fn each_class_takes_places_its_own_way() {
        for (text, linear, radix, direct) in [
            ("CAB", "CAB", "CAB", "BAC"),
            ("CABA", "CAB", "CBA", "BAC"),
            ("CABcaD", "DB", "DB", "DB"),
            ("CABcaDE", "DEB", "EDB", "EDB"),
            ("CABbC", "CA", "AC", "AC"),
        ] {
            assert_eq!(listed(Like::Linear, text), linear, "{text}");
            assert_eq!(listed(Like::Radix, text), radix, "{text}");
            assert_eq!(listed(Like::Direct, text), direct, "{text}");
        }
    }

    #[test]
    fn chains_are_within_the_table() {
        for len in 0..=32 {
            assert!(chain(0x0a01_0203, len) < 1 << 16);
        }
        assert_eq!(chain(0, 0), 0);
    }
}
