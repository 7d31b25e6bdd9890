// SPDX-License-Identifier: MIT OR Apache-2.0
//! Another capacity: a second index is filled some records at a time, while the first one answers.
//!
//! Records stay where they are, so ids stay good. Until the second index is complete, new and removed flows are written to both, as far as the second one
//! has got; look-ups know the first one alone. A smaller capacity removes no flow: it keeps new ones out.

use super::{Bucket, FlowTable, Key, Spot, WAYS};

/// An empty index, made apart from the table: that takes its time for many flows.
#[derive(Clone)]
pub struct Index {
    pub(super) seed: u64,
    pub(super) buckets: Box<[Bucket]>,
    pub(super) stash: Vec<(u8, u32)>,
    /// Flows that the table may hold with it.
    capacity: usize,
    /// Flows that it has places for.
    room: usize,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("capacity", &self.capacity).field("room", &self.room).finish()
    }
}

impl Index {
    /// An index for up to `capacity` flows, of a table that has `present` ones. `seed` should be random.
    pub fn new(capacity: usize, present: usize, seed: u64) -> Index {
        let capacity = capacity.min(1 << 30);
        let room = capacity.max(present);
        // Two entries a flow, 62 % of the places filled when full.
        let buckets = (room * 2 * 16).div_ceil(WAYS * 10).max(1);
        let bucket = Bucket { tags: 0, entries: [0; WAYS] };
        Index { seed, buckets: vec![bucket; buckets].into(), stash: Vec::new(), capacity, room }
    }

    /// The same with another seed.
    pub fn seeded(self, seed: u64) -> Index {
        Index { seed, ..self }
    }

    /// Where the keys of a record stand, each with its entry.
    fn spots<K: Key>(
        &self,
        record: u32,
        words: &[K::Words; 2],
    ) -> impl Iterator<Item = (Spot, u32)> + use<K> {
        let spots = words.map(|words| Spot::of::<K>(self.seed, self.buckets.len(), words));
        let from = usize::from(words[0] == words[1]);
        (from..2).map(move |way| (spots[way], record << 1 | way as u32))
    }

    fn enter<K: Key>(&mut self, record: u32, words: &[K::Words; 2]) {
        for (spot, entry) in self.spots::<K>(record, words) {
            super::enter(&mut self.buckets, &mut self.stash, spot, entry);
        }
    }

    fn leave<K: Key>(&mut self, record: u32, words: &[K::Words; 2]) {
        for (spot, entry) in self.spots::<K>(record, words) {
            super::leave(&mut self.buckets, &mut self.stash, spot, entry);
        }
    }
}

/// An index that is being filled.
pub(super) struct Filling {
    index: Index,
    /// The number of the record that comes next.
    next: usize,
}

impl Filling {
    fn has(&self, record: u32) -> bool {
        (record as usize) < self.next
    }
}

impl<V, K: Key> FlowTable<V, K> {
    /// Begins to give the table another capacity. Until [`resize_some`](Self::resize_some) is done, it holds no more flows than before, and no more than
    /// afterwards. An index that was being filled is given back.
    pub fn begin_resize(&mut self, index: Index) -> Option<Index> {
        let fits = self.len() <= index.room + index.room / 4;
        // Flows have come since it was made.
        let index = if fits { index } else { Index::new(index.capacity, self.len(), index.seed) };
        self.capacity = self.capacity.min(index.capacity);
        let before = self.filling.replace(Box::new(Filling { index, next: 0 }));
        before.map(|before| before.index)
    }

    /// Whether there is more to do for another capacity.
    pub fn is_resizing(&self) -> bool {
        self.filling.is_some()
    }

    /// The capacity that the table has, or will have.
    pub fn capacity_to_be(&self) -> usize {
        self.filling.as_ref().map_or(self.capacity, |filling| filling.index.capacity)
    }

    /// Goes on with up to `most` records. Returns the index of before when that is done: to drop it takes its time. What was prepared before that is void.
    pub fn resize_some(&mut self, most: usize) -> Option<Index> {
        let filling = self.filling.as_mut()?;
        let end = filling.next.saturating_add(most).min(self.records.len());
        for at in filling.next..end {
            let record = &self.records[at];
            if record.value.is_some() {
                filling.index.enter::<K>(at as u32, &record.words);
            }
        }
        filling.next = end;
        if end < self.records.len() {
            return None;
        }
        let Filling { mut index, .. } = *self.filling.take()?;
        std::mem::swap(&mut self.seed, &mut index.seed);
        std::mem::swap(&mut self.buckets, &mut index.buckets);
        std::mem::swap(&mut self.stash, &mut index.stash);
        self.capacity = index.capacity;
        Some(index)
    }

    /// A flow has come.
    #[inline]
    pub(super) fn fill_in(&mut self, record: u32) {
        if let Some(filling) = self.filling.as_mut().filter(|filling| filling.has(record)) {
            filling.index.enter::<K>(record, &self.records[record as usize].words);
        }
    }

    /// A flow has gone.
    #[inline]
    pub(super) fn fill_out(&mut self, record: u32) {
        if let Some(filling) = self.filling.as_mut().filter(|filling| filling.has(record)) {
            filling.index.leave::<K>(record, &self.records[record as usize].words);
        }
    }
}
