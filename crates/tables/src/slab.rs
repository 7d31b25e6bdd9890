// SPDX-License-Identifier: MIT OR Apache-2.0
//! Things by key, each in a place of its own, and in lists that cost nothing but two numbers in it.
//!
//! What a flood makes a table do, it makes it do for each packet: find a key, begin something under it, put it at the end of a
//! list by age, take the oldest one out. Here each of these touches a few cache lines and allocates nothing once the table has
//! been as full before: places are numbered and used again, keys are chained by hash through the places, and so are lists.
//!
//! ```text
//!   hash --> heads: | 2 | - | 0 | ...          places: 0            1 (free)      2
//!                                                      key, value   what was      key, value
//!                                                      chain: -     left there    chain: -
//!   List { first: 2, last: 0 }                         links: 2, -                links: -, 0
//! ```
//!
//! A value stays in its place when its key is removed, so that buffers in it serve the next one. The caller resets a value when it adds a key. When
//! it removes one, it empties the value of what should not be kept.
//!
//! # Invariants
//!
//! 1. Each used place is in exactly one chain, that of its key's hash; no key is in two places.
//! 2. A place is in at most one list of each kind, and in none when it is removed: its owner sees to that.

use crate::hash::Seed;
use std::hash::{BuildHasher, Hash};
use std::ops::{Index, IndexMut};

/// The number of a place.
pub type Id = u32;

const NONE: Id = Id::MAX;
/// Chains at the beginning; a power of two.
const CHAINS: usize = 64;

/// A list of places of a [`Slab`]: its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    first: Id,
    last: Id,
}

impl Default for List {
    fn default() -> Self {
        List { first: NONE, last: NONE }
    }
}

impl List {
    /// The first place.
    #[inline]
    pub fn first(&self) -> Option<Id> {
        some(self.first)
    }

    /// The last place.
    #[inline]
    pub fn last(&self) -> Option<Id> {
        some(self.last)
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

#[inline]
fn some(id: Id) -> Option<Id> {
    (id != NONE).then_some(id)
}

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: Id,
    next: Id,
}

#[derive(Debug)]
struct Place<K, V, const LISTS: usize> {
    key: K,
    /// The key's hash.
    hash: u32,
    /// The next of the same chain, or the next free one.
    chain: Id,
    links: [Link; LISTS],
    value: V,
}

/// Values by key, each in up to `LISTS` lists. See the module's documentation.
///
/// ```
/// use junctor_tables::slab::{List, Slab};
/// let (mut slab, mut ages) = (Slab::<u32, &str, 1>::new(42), List::default());
/// for (key, value) in [(7, "seven"), (9, "nine")] {
///     let id = slab.add(key);
///     slab[id] = value;
///     slab.link_last(0, &mut ages, id);
/// }
/// let oldest = ages.first().unwrap();
/// assert_eq!((slab.key(oldest), slab[oldest]), (7, "seven"));
/// slab.unlink(0, &mut ages, oldest);
/// slab.remove(oldest);
/// assert_eq!((slab.find(7), slab.len()), (None, 1));
/// ```
#[derive(Debug)]
pub struct Slab<K, V, const LISTS: usize> {
    seed: Seed,
    /// The first place of each chain; a power of two of them.
    heads: Vec<Id>,
    places: Vec<Place<K, V, LISTS>>,
    free: Id,
    len: usize,
}

impl<K, V, const LISTS: usize> Default for Slab<K, V, LISTS> {
    fn default() -> Self {
        Slab { seed: Seed(0), heads: vec![NONE; CHAINS], places: Vec::new(), free: NONE, len: 0 }
    }
}

impl<K: Copy + Eq + Hash, V: Default, const LISTS: usize> Slab<K, V, LISTS> {
    /// An empty one; `seed` should be random.
    pub fn new(seed: u64) -> Self {
        Slab { seed: Seed(seed), ..Self::default() }
    }

    /// Number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn hash(&self, key: &K) -> u32 {
        self.seed.hash_one(key) as u32
    }

    #[inline]
    fn chain_of(&self, hash: u32) -> usize {
        hash as usize & (self.heads.len() - 1)
    }

    /// The place of a key.
    #[inline]
    pub fn find(&self, key: K) -> Option<Id> {
        self.find_hashed(&key, self.hash(&key))
    }

    #[inline]
    fn find_hashed(&self, key: &K, hash: u32) -> Option<Id> {
        let mut at = self.heads[self.chain_of(hash)];
        while at != NONE {
            let place = &self.places[at as usize];
            if place.hash == hash && place.key == *key {
                return Some(at);
            }
            at = place.chain;
        }
        None
    }

    /// The key of a place in use.
    #[inline]
    pub fn key(&self, id: Id) -> K {
        self.places[id as usize].key
    }

    /// A place for a key that has none. Its value is what was left there, or a default.
    ///
    /// # Panics
    /// With four billion keys.
    #[inline]
    pub fn add(&mut self, key: K) -> Id {
        self.add_hashed(key, self.hash(&key))
    }

    /// The place of a key, and whether it is a new one, as [`add`](Self::add) makes it.
    ///
    /// # Panics
    /// With four billion keys.
    #[inline]
    pub fn find_or_add(&mut self, key: K) -> (Id, bool) {
        let hash = self.hash(&key);
        match self.find_hashed(&key, hash) {
            Some(id) => (id, false),
            None => (self.add_hashed(key, hash), true),
        }
    }

    fn add_hashed(&mut self, key: K, hash: u32) -> Id {
        debug_assert!(self.find(key).is_none(), "a key in two places");
        if self.len >= self.heads.len() {
            self.grow();
        }
        let chain = self.chain_of(hash);
        let id = if let Some(id) = some(self.free) {
            let place = &mut self.places[id as usize];
            self.free = place.chain;
            (place.key, place.hash) = (key, hash);
            id
        } else {
            let id = Id::try_from(self.places.len()).expect("fewer than four billion");
            let links = [Link { previous: NONE, next: NONE }; LISTS];
            self.places.push(Place { key, hash, chain: NONE, links, value: V::default() });
            id
        };
        self.places[id as usize].chain = std::mem::replace(&mut self.heads[chain], id);
        self.len += 1;
        id
    }

    /// Frees a place that is in no list any more. Its value stays for the next key.
    pub fn remove(&mut self, id: Id) {
        let chain = self.chain_of(self.places[id as usize].hash);
        let after = self.places[id as usize].chain;
        if self.heads[chain] == id {
            self.heads[chain] = after;
        } else {
            let mut at = self.heads[chain];
            while self.places[at as usize].chain != id {
                at = self.places[at as usize].chain;
            }
            self.places[at as usize].chain = after;
        }
        self.places[id as usize].chain = std::mem::replace(&mut self.free, id);
        self.len -= 1;
    }

    /// Twice as many chains.
    #[cold]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.heads);
        self.heads = vec![NONE; old.len() * 2];
        for mut at in old {
            while at != NONE {
                let chain = self.chain_of(self.places[at as usize].hash);
                let next = self.places[at as usize].chain;
                self.places[at as usize].chain = std::mem::replace(&mut self.heads[chain], at);
                at = next;
            }
        }
    }

    /// Puts a place at the end of a list of kind `kind`.
    #[inline]
    pub fn link_last(&mut self, kind: usize, list: &mut List, id: Id) {
        let last = list.last();
        self.link_after(kind, list, last, id);
    }

    /// Puts a place behind another one of a list, or first.
    #[inline]
    pub fn link_after(&mut self, kind: usize, list: &mut List, before: Option<Id>, id: Id) {
        let previous = before.unwrap_or(NONE);
        let next = match before {
            Some(before) => std::mem::replace(&mut self.places[before as usize].links[kind].next, id),
            None => std::mem::replace(&mut list.first, id),
        };
        match some(next) {
            Some(next) => self.places[next as usize].links[kind].previous = id,
            None => list.last = id,
        }
        self.places[id as usize].links[kind] = Link { previous, next };
    }

    /// Takes a place out of the list of kind `kind` that it is in.
    #[inline]
    pub fn unlink(&mut self, kind: usize, list: &mut List, id: Id) {
        let Link { previous, next } = self.places[id as usize].links[kind];
        match some(previous) {
            Some(previous) => self.places[previous as usize].links[kind].next = next,
            None => list.first = next,
        }
        match some(next) {
            Some(next) => self.places[next as usize].links[kind].previous = previous,
            None => list.last = previous,
        }
    }

    /// The place before this one in its list of kind `kind`.
    #[inline]
    pub fn previous(&self, kind: usize, id: Id) -> Option<Id> {
        some(self.places[id as usize].links[kind].previous)
    }

    /// The place after this one in its list of kind `kind`.
    #[inline]
    pub fn next(&self, kind: usize, id: Id) -> Option<Id> {
        some(self.places[id as usize].links[kind].next)
    }

    /// The places of a list, from the first.
    pub fn list(&self, kind: usize, list: List) -> impl Iterator<Item = Id> + '_ {
        std::iter::successors(list.first(), move |id| self.next(kind, *id))
    }

    /// Forgets all keys, and what was left in their places; the chains stay as many as they are.
    pub fn clear(&mut self) {
        self.heads.fill(NONE);
        self.places.clear();
        (self.free, self.len) = (NONE, 0);
    }
}

impl<K, V, const LISTS: usize> Index<Id> for Slab<K, V, LISTS> {
    type Output = V;

    #[inline]
    fn index(&self, id: Id) -> &V {
        &self.places[id as usize].value
    }
}

impl<K, V, const LISTS: usize> IndexMut<Id> for Slab<K, V, LISTS> {
    #[inline]
    fn index_mut(&mut self, id: Id) -> &mut V {
        &mut self.places[id as usize].value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..Default::default() })]

        /// Against a vector of keys in the order of their list.
        #[test]
        fn equals_a_vector(ops in prop::collection::vec((0..5u8, 0..200u32), 1..400)) {
            let (mut slab, mut list) = (Slab::<u32, u32, 2>::new(3), List::default());
            let mut want: Vec<u32> = vec![];
            for (op, key) in ops {
                let at = want.iter().position(|k| *k == key);
                prop_assert_eq!(slab.find(key).is_some(), at.is_some());
                match (op, slab.find(key)) {
                    (0..3, None) => {
                        let (id, new) = slab.find_or_add(key);
                        prop_assert!(new);
                        prop_assert_eq!(slab.find_or_add(key), (id, false));
                        slab[id] = key;
                        slab.link_last(1, &mut list, id);
                        want.push(key);
                    }
                    (3, None) => {
                        // Behind the first one, if there is one.
                        let id = slab.add(key);
                        slab[id] = key;
                        let first = list.first();
                        slab.link_after(1, &mut list, first, id);
                        want.insert(1.min(want.len()), key);
                    }
                    (0..2, Some(id)) => {
                        slab.unlink(1, &mut list, id);
                        slab.link_last(1, &mut list, id);
                        want.remove(at.unwrap());
                        want.push(key);
                    }
                    (2..4, Some(id)) => {
                        slab.unlink(1, &mut list, id);
                        slab.remove(id);
                        want.remove(at.unwrap());
                    }
                    _ if key < 2 => {
                        slab.clear();
                        list = List::default();
                        want.clear();
                    }
                    _ => {}
                }
                let got: Vec<u32> = slab.list(1, list).map(|id| slab.key(id)).collect();
                prop_assert_eq!(&got, &want);
                prop_assert!(slab.list(1, list).all(|id| slab[id] == slab.key(id)));
                let back: Vec<u32> = std::iter::successors(list.last(), |id| slab.previous(1, *id)).map(|id| slab.key(id)).collect();
                prop_assert!(back.iter().rev().eq(&want));
                prop_assert_eq!((slab.len(), slab.is_empty(), list.is_empty()), (want.len(), want.is_empty(), want.is_empty()));
            }
            // As many places as there were keys at one time, not as there were in all.
            prop_assert!(slab.places.len() <= 200);
        }
    }
}
