// SPDX-License-Identifier: MIT OR Apache-2.0
//! The routes themselves, as the control side knows them: what objects are built from.
//!
//! Prefixes of up to 16 bits stand in one array, numbered as the nodes of a binary tree (root 1, children 2n and 2n+1):
//! the cover of a /16 is the first node set on the way up. Longer ones stand in a sorted list for each /16.

use super::{SLOTS, boxed_array};
use wire::Prefix4;

/// Node without a route.
const EMPTY: u16 = u16::MAX;

/// A route longer than /16, within its /16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub low: u16,
    pub len: u8,
    pub leaf: u16,
}

const _: () = assert!(size_of::<Route>() == 6);

impl Route {
    fn key(self) -> (u16, u8) {
        (self.low, self.len)
    }
}

pub(super) struct Rib {
    short: Box<[u16; 2 * SLOTS]>,
    long: Box<[Vec<Route>; SLOTS]>,
    count: usize,
}

impl Rib {
    pub(super) fn new() -> Self {
        Self { short: boxed_array(|| EMPTY), long: boxed_array(Vec::new), count: 0 }
    }

    pub(super) fn get(&self, prefix: Prefix4) -> Option<u16> {
        if prefix.len() <= 16 {
            return present(self.short[node(prefix)]);
        }
        let (slot, key) = split(prefix);
        let list = &self.long[slot];
        list.binary_search_by_key(&key, |route| route.key()).ok().map(|at| list[at].leaf)
    }

    /// Sets or clears a route, and returns what it was.
    pub(super) fn set(&mut self, prefix: Prefix4, leaf: Option<u16>) -> Option<u16> {
        let old = if prefix.len() <= 16 {
            present(std::mem::replace(&mut self.short[node(prefix)], leaf.unwrap_or(EMPTY)))
        } else {
            let (slot, key) = split(prefix);
            let list = &mut self.long[slot];
            match (list.binary_search_by_key(&key, |route| route.key()), leaf) {
                (Ok(at), Some(leaf)) => Some(std::mem::replace(&mut list[at].leaf, leaf)),
                (Ok(at), None) => Some(list.remove(at).leaf),
                (Err(at), Some(leaf)) => {
                    list.insert(at, Route { low: key.0, len: key.1, leaf });
                    None
                }
                (Err(_), None) => None,
            }
        };
        self.count = self.count + usize::from(leaf.is_some()) - usize::from(old.is_some());
        old
    }

    /// Adds a route to a RIB being filled; [`settle`](Self::settle) must follow the last.
    pub(super) fn push(&mut self, prefix: Prefix4, leaf: u16) {
        if prefix.len() <= 16 {
            self.short[node(prefix)] = leaf;
        } else {
            let (slot, (low, len)) = split(prefix);
            self.long[slot].push(Route { low, len, leaf });
        }
    }

    /// Sorts what was pushed; of equal prefixes the last remains.
    pub(super) fn settle(&mut self) {
        for list in self.long.iter_mut().filter(|list| !list.is_empty()) {
            if !list.is_sorted_by(|a, b| a.key() < b.key()) {
                list.reverse();
                list.sort_by_key(|route| route.key());
                list.dedup_by_key(|route| route.key());
            }
            list.shrink_to_fit();
        }
        let short = self.short.iter().filter(|leaf| **leaf != EMPTY).count();
        self.count = short + self.long.iter().map(Vec::len).sum::<usize>();
    }

    /// The routes longer than /16 in a /16, sorted.
    pub(super) fn below(&self, slot: usize) -> &[Route] {
        &self.long[slot]
    }

    /// The leaf of the longest prefix that covers a whole /16.
    pub(super) fn covering(&self, slot: usize) -> u16 {
        self.covering_node(slot).map_or(super::LEAF_NONE, |node| self.short[node])
    }

    /// That prefix's length.
    pub(super) fn covering_len(&self, slot: usize) -> Option<u8> {
        self.covering_node(slot).map(|node| node.ilog2() as u8)
    }

    fn covering_node(&self, slot: usize) -> Option<usize> {
        std::iter::successors(Some(SLOTS + slot), |node| Some(node / 2))
            .take_while(|node| *node > 0)
            .find(|node| self.short[*node] != EMPTY)
    }

    pub(super) fn longest_match(&self, addr: u32) -> Option<(Prefix4, u16)> {
        let slot = (addr >> 16) as usize;
        let list = &self.long[slot];
        // Of those that begin no later, the last one that reaches as far is the longest.
        let begun = &list[..list.partition_point(|route| route.low <= addr as u16)];
        let mut prefixes = begun.iter().rev().map(|route| (join(slot, *route), route.leaf));
        let long = prefixes.find(|(prefix, _)| prefix.contains(addr.into()));
        long.or_else(|| self.covering_node(slot).map(|node| (prefix_of(node), self.short[node])))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Prefix4, u16)> + '_ {
        let short = (1..2 * SLOTS).filter(|node| self.short[*node] != EMPTY);
        let short = short.map(|node| (prefix_of(node), self.short[node]));
        let long = self.long.iter().enumerate();
        short.chain(
            long.flat_map(|(slot, list)| list.iter().map(move |route| (join(slot, *route), route.leaf))),
        )
    }

    /// The routes whose addresses are in a range.
    pub(super) fn range(&self, from: u32, to: u32) -> impl Iterator<Item = (Prefix4, u16)> + '_ {
        let of_len = move |len: u32| {
            let at = |addr: u32| (1 << len) + (u64::from(addr) >> (32 - len)) as usize;
            // The first node may begin before the range.
            (at(from)..=at(to)).filter(move |node| prefix_of(*node).bits() >= from)
        };
        let short = (0..=16).flat_map(of_len).filter(|node| self.short[*node] != EMPTY);
        let short = short.map(|node| (prefix_of(node), self.short[node]));
        let slots = (from >> 16) as usize..=(to >> 16) as usize;
        let long =
            slots.flat_map(|slot| self.long[slot].iter().map(move |route| (join(slot, *route), route.leaf)));
        short.chain(long.filter(move |(prefix, _)| (from..=to).contains(&prefix.bits())))
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn bytes(&self) -> usize {
        let lists: usize = self.long.iter().map(|list| list.capacity() * size_of::<Route>()).sum();
        size_of_val(&*self.short) + size_of_val(&*self.long) + lists
    }
}

fn present(leaf: u16) -> Option<u16> {
    (leaf != EMPTY).then_some(leaf)
}

/// The tree's node for a prefix of up to 16 bits.
fn node(prefix: Prefix4) -> usize {
    ((1u64 << 32 | u64::from(prefix.bits())) >> (32 - prefix.len())) as usize
}

fn prefix_of(node: usize) -> Prefix4 {
    let len = node.ilog2();
    let bits = node as u64 - (1 << len);
    Prefix4::from_bits((bits << (32 - len)) as u32, len as u8).expect("a node of at most 16 bits")
}

/// The slot and the key in its list.
fn split(prefix: Prefix4) -> (usize, (u16, u8)) {
    ((prefix.bits() >> 16) as usize, (prefix.bits() as u16, prefix.len()))
}

fn join(slot: usize, route: Route) -> Prefix4 {
    Prefix4::from_bits((slot as u32) << 16 | u32::from(route.low), route.len).expect("it was a prefix")
}
