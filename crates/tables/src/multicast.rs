// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multicast: source and group to what becomes of their packets, shared by all workers.
//!
//! An entry is for packets of one source to one group, (S, G), or of any source, (*, G). A lookup asks for both, in this order. Entries
//! are divided by a seeded hash into 256 shards, and a shard is a sorted list:
//!
//! ```text
//!  hash & 255    shards: 256 RCU cells     shard: keys in order, each with its entry
//!  +------+      +---+---+---+-----+       +---------------------+---------------------+----
//!  |  61  |----> | x | x | x | ... |       | table, source, group|  table, source, ... |
//!  +------+      +---+-|-+---+-----+       +----------|----------+----------|----------+----
//!                      +------------------->          +-> entry             +-> entry
//! ```
//!
//! A lookup is one hash, two loads and a binary search for each of both keys: with 16,384 entries, six steps. A place takes 64 bytes.
//!
//! # Trade-offs
//!
//! * A change makes a new list of a shard: with 16,384 entries, 4 KiB. Changes that come together share it.
//! * Outsiders choose sources and groups. The seed keeps them from choosing those that share a shard.
//!
//! # Invariants
//!
//! 1. A list is sorted by keys, and has each once.
//! 2. A reader sees a shard as it was before a commit or as it is after it, never between.
//! 3. An entry stays the same object while nobody replaces it, so what it counts lasts.

use std::sync::Arc;

use sync::rcu::{Cell, Domain, Reader};

use crate::hash::hash128;

/// Shards. A commit replaces each of them once at most.
const SHARDS: usize = 256;

/// Which packets an entry is for. IPv4 addresses are numbers below 2^32. In order of tables, groups and sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MulticastKey {
    /// The number of the table.
    pub table: u8,
    /// The address of the group.
    pub group: u128,
    /// The address of the source; 0 for any.
    pub source: u128,
}

impl MulticastKey {
    #[inline]
    fn shard(&self, seed: u64) -> usize {
        let MulticastKey { table, group, source } = *self;
        let hash = hash128(seed ^ u64::from(table), source as u64, (source >> 64) as u64);
        hash128(hash, group as u64, (group >> 64) as u64) as usize % SHARDS
    }
}

type Shard<T> = Vec<(MulticastKey, Arc<T>)>;

/// Why a change was refused. Some shards may have changed; the call may be repeated.
#[derive(Debug, thiserror::Error)]
#[error("the multicast table cannot be changed: {why}")]
pub struct Stalled {
    /// Who holds old versions.
    pub why: String,
}

/// Looks packets up. Cheap to clone; one for each worker.
#[derive(Debug)]
pub struct MulticastReader<T: Send + Sync + 'static> {
    shards: Arc<[Cell<Shard<T>>]>,
    seed: u64,
}

impl<T: Send + Sync + 'static> Clone for MulticastReader<T> {
    fn clone(&self) -> Self {
        MulticastReader { shards: self.shards.clone(), seed: self.seed }
    }
}

impl<T: Send + Sync + 'static> MulticastReader<T> {
    /// The entry of exactly this key.
    ///
    /// # Panics
    /// When `reader` belongs to another RCU domain than the table.
    #[inline]
    #[must_use]
    pub fn get<'a>(&'a self, reader: &'a Reader, key: &MulticastKey) -> Option<&'a T> {
        let shard = self.shards[key.shard(self.seed)].read(reader);
        let at = shard.binary_search_by(|(other, _)| other.cmp(key)).ok()?;
        Some(&shard[at].1)
    }
}

/// Changes the table. There is one for each; lookups go on undisturbed.
///
/// ```
/// use std::sync::Arc;
/// use junctor_tables::multicast::{MulticastKey, MulticastTable};
/// let domain = sync::rcu::Domain::default();
/// let mut table = MulticastTable::new(&domain, 7);
/// let key = MulticastKey { table: 0, group: 0xef01_0101, source: 0x0a00_0001 };
/// table.commit([(key, Some(Arc::new("to eth1")))])?;
///
/// let (reader, worker) = (table.reader(), domain.register("worker 0"));
/// assert_eq!(reader.get(&worker, &key), Some(&"to eth1"));
/// assert_eq!(reader.get(&worker, &MulticastKey { source: 0, ..key }), None);
/// # Ok::<(), junctor_tables::multicast::Stalled>(())
/// ```
#[derive(Debug)]
pub struct MulticastTable<T: Send + Sync + 'static> {
    published: Arc<[Cell<Shard<T>>]>,
    /// As they were published last.
    shards: Vec<Shard<T>>,
    seed: u64,
    len: usize,
}

impl<T: Send + Sync + 'static> MulticastTable<T> {
    /// An empty table, whose readers are those of `domain`. The seed should be a secret.
    #[must_use]
    pub fn new(domain: &Domain, seed: u64) -> MulticastTable<T> {
        let published = (0..SHARDS).map(|_| Cell::new(domain, Vec::new())).collect();
        MulticastTable { published, shards: (0..SHARDS).map(|_| Vec::new()).collect(), seed, len: 0 }
    }

    /// A way to look packets up.
    #[must_use]
    pub fn reader(&self) -> MulticastReader<T> {
        MulticastReader { shards: self.published.clone(), seed: self.seed }
    }

    /// Sets entries, or takes them away (`None`), in order.
    ///
    /// # Errors
    /// [`Stalled`]: readers hold too many old versions. What has been published stays.
    pub fn commit(
        &mut self,
        changes: impl IntoIterator<Item = (MulticastKey, Option<Arc<T>>)>,
    ) -> Result<(), Stalled> {
        let mut of_shards: Vec<_> =
            changes.into_iter().map(|(key, entry)| (key.shard(self.seed), key, entry)).collect();
        // Stable, so changes of a key keep their order.
        of_shards.sort_by_key(|(shard, ..)| *shard);
        for part in of_shards.chunk_by(|a, b| a.0 == b.0) {
            self.change(part[0].0, part)?;
        }
        Ok(())
    }

    fn change(
        &mut self,
        at: usize,
        changes: &[(usize, MulticastKey, Option<Arc<T>>)],
    ) -> Result<(), Stalled> {
        let mut shard = self.shards[at].clone();
        for (_, key, entry) in changes {
            match (shard.binary_search_by(|(other, _)| other.cmp(key)), entry) {
                (Ok(found), Some(entry)) => shard[found].1 = entry.clone(),
                (Ok(found), None) => _ = shard.remove(found),
                (Err(place), Some(entry)) => shard.insert(place, (*key, entry.clone())),
                (Err(_), None) => {}
            }
        }
        let bytes = self.shards[at].len() * size_of::<(MulticastKey, Arc<T>)>();
        let published = self.published[at].publish_sized(shard.clone(), bytes);
        published.map_err(|stalled| Stalled { why: stalled.to_string() })?;
        self.len = self.len - self.shards[at].len() + shard.len();
        self.shards[at] = shard;
        Ok(())
    }

    /// The entry of a key.
    #[must_use]
    pub fn get(&self, key: &MulticastKey) -> Option<&Arc<T>> {
        let shard = &self.shards[key.shard(self.seed)];
        shard.binary_search_by(|(other, _)| other.cmp(key)).ok().map(|at| &shard[at].1)
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&MulticastKey, &Arc<T>)> {
        self.shards.iter().flatten().map(|(key, entry)| (key, entry))
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that lookups can touch, but for the entries themselves.
    #[must_use]
    pub fn bytes(&self) -> usize {
        SHARDS * size_of::<Cell<Shard<T>>>() + self.len * size_of::<(MulticastKey, Arc<T>)>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn key() -> impl Strategy<Value = MulticastKey> {
        (0..3u8, 0..40u128, 0..40u128).prop_map(|(table, group, source)| MulticastKey {
            table,
            group,
            source,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Against a map, with any changes in one commit.
        #[test]
        fn it_holds_what_a_map_holds(
            commits in prop::collection::vec(prop::collection::vec((key(), any::<Option<u16>>()), 0..60), 1..12),
            seed: u64,
        ) {
            let domain = Domain::default();
            let mut table = MulticastTable::new(&domain, seed);
            let (reader, mut worker) = (table.reader(), domain.register("worker"));
            let mut map = BTreeMap::new();
            for changes in commits {
                for (key, value) in &changes {
                    match value {
                        Some(value) => _ = map.insert(*key, *value),
                        None => _ = map.remove(key),
                    }
                }
                let touched: Vec<MulticastKey> = changes.iter().map(|(key, _)| *key).collect();
                table.commit(changes.into_iter().map(|(key, value)| (key, value.map(Arc::new)))).unwrap();
                for key in touched.iter().chain(map.keys()) {
                    prop_assert_eq!(reader.get(&worker, key), map.get(key));
                    prop_assert_eq!(table.get(key).map(|value| **value), map.get(key).copied());
                }
                let all: BTreeMap<MulticastKey, u16> = table.iter().map(|(key, value)| (*key, **value)).collect();
                prop_assert_eq!(&all, &map);
                prop_assert_eq!((table.len(), table.is_empty()), (map.len(), map.is_empty()));
                worker.quiescent();
            }
        }
    }

    #[test]
    fn a_reader_that_stands_still_stops_changes_and_sees_what_it_saw() {
        let domain = Domain::new(sync::rcu::Limits { objects: 2, bytes: usize::MAX });
        let mut table = MulticastTable::new(&domain, 1);
        let (reader, mut worker) = (table.reader(), domain.register("worker"));
        let key = MulticastKey { table: 0, group: 1, source: 2 };
        let set = |table: &mut MulticastTable<u8>, value| table.commit([(key, Some(Arc::new(value)))]);
        set(&mut table, 1).unwrap();
        let seen = reader.get(&worker, &key);
        set(&mut table, 2).unwrap();
        let refused = set(&mut table, 3).expect_err("two old versions wait");
        assert!(refused.to_string().contains("worker (1 epochs behind)"), "{refused}");
        assert_eq!((seen, table.get(&key).map(|value| **value)), (Some(&1), Some(2)));
        worker.quiescent();
        set(&mut table, 3).unwrap();
        assert_eq!(reader.get(&worker, &key), Some(&3));
    }

    #[test]
    fn places_take_no_more_than_a_line() {
        assert_eq!(size_of::<(MulticastKey, Arc<u8>)>(), 64);
    }
}
