// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flow table: which flow does this packet belong to, and in which direction does it go?
//!
//! For address translation. A flow has two keys, that of its packets as they arrive from the one side (*forward*) and that of
//! the answers as they arrive from the other (*reply*); both lead to the same record. Each worker has a table of
//! its own and needs no locks: packets reach the worker that owns their flow.
//!
//! # Layout
//!
//! ```text
//! key, 16 bytes: source, destination, source port, destination port, protocol, zone (40 bytes for IPv6)
//!
//!         hash, 64 bits --> two buckets (high and low half), tag (8 bits)
//! bucket, one line: | tag x 8, u8 | (record number, direction) x 8, u32 | 24 bytes free |
//!                                        |
//! records:   | forward key | reply key | expiry | value | ...     heap: soonest bound first
//! ```
//!
//! A lookup loads the first bucket, compares eight tags at once, and checks the key in the record: two lines for a packet of a known flow. An entry
//! goes to its first bucket, or, if that has two places left or less, to the emptier of the two (at 62 % load one in ten). The very few that find no
//! room in either go to a stash that is searched last. [`lookup_batch`](FlowTable::lookup_batch) does each step for all packets of a batch, so that
//! their cache misses overlap.
//!
//! # Size
//!
//! 26 bytes of buckets for each flow of the capacity, taken at once; 56 bytes (104 for IPv6) and the value, in whole lines, for
//! each flow there has been at the same time; 16 of heap or a little more.
//!
//! # Ageing
//!
//! Each flow has a time at which it expires, and every packet moves it. A heap ordered by expiry would be resifted with each
//! packet; here it holds a *bound*, a time before which the flow does not expire. Moving the expiry later touches the record
//! only; a flow that comes up with a later expiry goes back in with that as its bound.
//!
//! # Invariants
//!
//! 1. Each key leads to one record at most; each record's keys are in the index (once, as the reply, if both are the same).
//! 2. A [`FlowId`] names one flow for ever; when it is gone the id leads nowhere, also after the record is used again.
//! 3. Each flow that expires has one valid heap entry, with `bound_ns <= expires_ns`; entries for flows gone or moved earlier are skipped,
//!    and never outnumber the valid ones by more than two to one and 64.
//! 4. No flow comes when there are as many as the capacity. A refused insertion changes nothing.
//! 5. While another index is filled ([`Index`]), it has the keys of all flows in the records before its next one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{cmp::Reverse, collections::BinaryHeap, fmt};
use sync::prefetch::{prefetch, prefetch_at};

mod key;
mod resize;
mod state;
mod tally;

pub use key::{FlowKey, FlowKey6, Key};
pub use resize::Index;
pub use state::State;
pub use tally::Tally;

/// Names a flow; leads nowhere once the flow is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId {
    record: u32,
    generation: u32,
}

/// Which of a flow's keys a packet bears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// As the packet that began the flow.
    Forward,
    /// An answer.
    Reply,
}

/// A flow found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The flow.
    pub id: FlowId,
    /// The packet's direction in it.
    pub direction: Direction,
}

/// A flow and what the table's user keeps about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow<V, K = FlowKey> {
    /// The key of its packets as they arrive from the one side.
    pub forward: K,
    /// The key of the answers.
    pub reply: K,
    /// When it expires, unless moved.
    pub expires_ns: u64,
    /// The user's own.
    pub value: V,
}

/// Why a flow was not taken in. Gives the value back.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InsertError<V> {
    /// The table holds as many flows as it may.
    #[error("the flow table is full ({capacity} flows)")]
    Full {
        /// The value not inserted.
        value: V,
        /// Flows the table may hold.
        capacity: usize,
    },
    /// One of the keys leads to another flow.
    #[error("a flow with the same {direction:?} key exists")]
    Exists {
        /// The value not inserted.
        value: V,
        /// Which of the two keys.
        direction: Direction,
        /// The flow it leads to.
        other: FlowId,
    },
}

const WAYS: usize = 8;
/// When a flow expires that does not: it has no place in the heap.
pub const NEVER: u64 = u64::MAX;
/// Tag of an empty place.
const EMPTY: u8 = 0;
const BATCH: usize = 32;
/// By how much more than its idle time [`FlowTable::extend`] renews a flow at most.
const SLACK_NS: u64 = 1_000_000_000;

#[repr(C, align(64))]
#[derive(Clone)]
struct Bucket {
    /// A tag in each byte.
    tags: u64,
    /// Record number times two, plus one for the reply key.
    entries: [u32; WAYS],
}

const _: () = assert!(size_of::<Bucket>() == 64);

/// What a lookup needs stands in the first line.
#[repr(C, align(64))]
struct Record<V, K: Key> {
    words: [K::Words; 2],
    /// Readers move it, too: see [`FlowTable::renew`].
    expires_ns: AtomicU64,
    bound_ns: u64,
    generation: u32,
    value: Option<V>,
}

/// A key whose place has been asked for, so that a look-up finds it in the cache.
#[derive(Clone, Copy)]
pub struct Prepared<K: Key> {
    words: K::Words,
    spot: Spot,
}

impl<K: Key> Prepared<K> {
    /// The key.
    #[inline]
    pub fn key(&self) -> K {
        K::from_words(self.words)
    }
}

impl<K: Key> fmt::Debug for Prepared<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key().fmt(f)
    }
}

/// Where a key may stand.
#[derive(Clone, Copy)]
struct Spot {
    buckets: [u32; 2],
    tag: u8,
}

/// The table. See the module's documentation.
///
/// ```
/// use junctor_tables::flow::{Direction, FlowKey, FlowTable};
/// let mut table = FlowTable::new(1000, 42);
/// let inside = FlowKey { src: 0x0a000001, dst: 0x08080808, sport: 4000, dport: 53, proto: 17, zone: 0 };
/// let outside = FlowKey { dst: 0xc0000201, dport: 1024, ..inside.reversed() };
/// let id = table.insert(inside, outside, "rewrite to 192.0.2.1:1024", 5_000)?;
/// let hit = table.lookup(&outside).expect("an answer");
/// assert_eq!((hit.id, hit.direction), (id, Direction::Reply));
/// table.set_expiry(id, 9_000);
/// assert!(table.pop_expired(8_999).is_none());
/// assert!(table.pop_expired(9_000).is_some());
/// # Ok::<(), junctor_tables::flow::InsertError<&str>>(())
/// ```
pub struct FlowTable<V, K: Key = FlowKey> {
    seed: u64,
    capacity: usize,
    buckets: Box<[Bucket]>,
    stash: Vec<(u8, u32)>,
    records: Vec<Record<V, K>>,
    free: Vec<u32>,
    /// (bound, record, generation), soonest first.
    heap: BinaryHeap<Reverse<(u64, u32, u32)>>,
    count: usize,
    /// The index of another capacity.
    filling: Option<Box<resize::Filling>>,
}

impl<V, K: Key> FlowTable<V, K> {
    /// A table for up to `capacity` flows; `seed` should be random.
    pub fn new(capacity: usize, seed: u64) -> Self {
        let Index { buckets, stash, .. } = Index::new(capacity, 0, seed);
        Self {
            seed,
            capacity: capacity.min(1 << 30),
            buckets,
            stash,
            records: Vec::new(),
            free: Vec::new(),
            heap: BinaryHeap::new(),
            count: 0,
            filling: None,
        }
    }

    /// The flow that `key` leads to.
    #[inline]
    pub fn lookup(&self, key: &K) -> Option<Hit> {
        let words = key.words();
        self.find(words, self.spot(words))
    }

    /// Asks for the place of a key. The steps of many keys overlap their cache misses: this one for all of them, then [`approach`](Self::approach), then
    /// [`lookup_prepared`](Self::lookup_prepared).
    #[inline]
    pub fn prepare(&self, key: K) -> Prepared<K> {
        let words = key.words();
        let spot = self.spot(words);
        prefetch(&self.buckets[spot.buckets[0] as usize]);
        Prepared { words, spot }
    }

    /// Asks for the record that a key most likely leads to. Returns its number, and the direction of the packet.
    #[inline]
    pub fn approach(&self, prepared: &Prepared<K>) -> Option<(u32, Direction)> {
        let bucket = self.buckets.get(prepared.spot.buckets[0] as usize)?;
        let way = first(bucket.matching(prepared.spot.tag));
        let entry = *bucket.entries.get(way)?;
        let record = self.records.get((entry >> 1) as usize)?;
        prefetch(record);
        if size_of::<Record<V, K>>() > 64 {
            prefetch_at(std::ptr::from_ref(record).cast::<u8>().wrapping_add(64));
        }
        Some((entry >> 1, direction(entry)))
    }

    /// The flow that a key leads to now.
    #[inline]
    pub fn lookup_prepared(&self, prepared: &Prepared<K>) -> Option<Hit> {
        self.find(prepared.words, prepared.spot)
    }

    /// As [`lookup`](Self::lookup) for each of `keys`.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn lookup_batch(&self, keys: &[K], hits: &mut [Option<Hit>]) {
        assert_eq!(keys.len(), hits.len(), "one answer for each key");
        for (keys, hits) in keys.chunks(BATCH).zip(hits.chunks_mut(BATCH)) {
            let mut words = [K::Words::default(); BATCH];
            let mut spots = [Spot { buckets: [0; 2], tag: EMPTY }; BATCH];
            for ((key, words), spot) in keys.iter().zip(&mut words).zip(&mut spots) {
                *words = key.words();
                *spot = self.spot(*words);
                prefetch(&self.buckets[spot.buckets[0] as usize]);
            }
            // The most likely entry of each; a wrong guess costs one look more.
            let mut guesses = [u32::MAX; BATCH];
            for (guess, spot) in guesses.iter_mut().zip(&spots).take(keys.len()) {
                let bucket = &self.buckets[spot.buckets[0] as usize];
                let way = first(bucket.matching(spot.tag));
                // An entry of no match would confirm by chance, and with the wrong direction.
                *guess = if way < WAYS { bucket.entries[way] } else { u32::MAX };
                if let Some(record) = self.records.get((*guess >> 1) as usize) {
                    prefetch(record);
                }
            }
            for (((hit, guess), words), spot) in hits.iter_mut().zip(&guesses).zip(&words).zip(&spots) {
                *hit = match self.confirm(*guess, *words) {
                    None => self.find(*words, *spot),
                    hit => hit,
                };
            }
        }
    }

    /// Takes a flow in, with its two keys, until `expires_ns`.
    ///
    /// # Errors
    /// See [`InsertError`]; nothing has changed then.
    pub fn insert(
        &mut self,
        forward: K,
        reply: K,
        value: V,
        expires_ns: u64,
    ) -> Result<FlowId, InsertError<V>> {
        for (direction, key) in [(Direction::Forward, &forward), (Direction::Reply, &reply)] {
            if let Some(hit) = self.lookup(key) {
                return Err(InsertError::Exists { value, direction, other: hit.id });
            }
        }
        if self.count >= self.capacity {
            return Err(InsertError::Full { value, capacity: self.capacity });
        }
        let words = [forward.words(), reply.words()];
        let mut new = Record {
            words,
            expires_ns: AtomicU64::new(expires_ns),
            bound_ns: expires_ns,
            generation: 0,
            value: Some(value),
        };
        let record = match self.free.pop() {
            Some(record) => {
                let place = &mut self.records[record as usize];
                new.generation = place.generation;
                *place = new;
                record
            }
            None => {
                self.records.push(new);
                (self.records.len() - 1) as u32
            }
        };
        self.count += 1;
        if words[0] != words[1] {
            self.index(self.spot(words[0]), record << 1);
        }
        self.index(self.spot(words[1]), record << 1 | 1);
        self.fill_in(record);
        let id = FlowId { record, generation: self.records[record as usize].generation };
        self.push_bound(expires_ns, id);
        Ok(id)
    }

    /// What the user keeps about the flow, if it is still there.
    #[inline]
    pub fn get(&self, id: FlowId) -> Option<&V> {
        self.record(id)?.value.as_ref()
    }

    /// The number of the record that a flow is in: another flow may have it later.
    #[inline]
    pub fn number(id: FlowId) -> u32 {
        id.record
    }

    /// The name of the flow that is in the record with this number.
    pub fn id(&self, number: u32) -> Option<FlowId> {
        let record = self.records.get(number as usize).filter(|record| record.value.is_some())?;
        Some(FlowId { record: number, generation: record.generation })
    }

    /// The flow in the record with this number.
    pub fn numbered(&self, number: u32) -> Option<Flow<&V, K>> {
        self.records.get(number as usize)?.flow()
    }

    /// As [`get`](Self::get), to change it.
    #[inline]
    pub fn get_mut(&mut self, id: FlowId) -> Option<&mut V> {
        let record = self.records.get_mut(id.record as usize)?;
        if record.generation == id.generation { record.value.as_mut() } else { None }
    }

    /// All about the flow, if it is still there.
    pub fn flow(&self, id: FlowId) -> Option<Flow<&V, K>> {
        self.record(id)?.flow()
    }

    /// Lets the flow expire at `expires_ns` instead. Does nothing if it is gone.
    #[inline]
    pub fn set_expiry(&mut self, id: FlowId, expires_ns: u64) {
        let Some(record) = self.records.get_mut(id.record as usize) else { return };
        if record.generation == id.generation && record.value.is_some() {
            *record.expires_ns.get_mut() = expires_ns;
            if expires_ns < record.bound_ns {
                self.push_bound(expires_ns, id);
            }
        }
    }

    /// Lets the flow expire at `until_ns` if it would expire before `least_ns`. For readers that share the table: a flow that is
    /// renewed by a little more than it needs is seldom written to, so that its line stays with all of them.
    ///
    /// Returns whether the flow expires at `least_ns` or later now. It does not if it is gone, or if its heap entry would have to move: then a
    /// [`set_expiry`](Self::set_expiry) by the table's owner is needed.
    #[inline]
    pub fn renew(&self, id: FlowId, least_ns: u64, until_ns: u64) -> bool {
        let Some(record) = self.record(id).filter(|record| record.value.is_some()) else { return false };
        if record.expires_ns.load(Relaxed) < least_ns {
            if until_ns < record.bound_ns {
                return false;
            }
            record.expires_ns.store(until_ns, Relaxed);
        }
        true
    }

    /// Lets the flow live for its idle time from now on, and a second or a 64th of that longer: see [`renew`](Self::renew). `expires_ns` is when it would
    /// expire now.
    ///
    /// Returns whether it does. It does not if it would live longer still: see [`extends`](Self::extends).
    #[inline]
    pub fn extend(&self, id: FlowId, expires_ns: u64, now_ns: u64, idle_ns: u64) -> bool {
        let [least_ns, most_ns] = times(now_ns, idle_ns);
        Self::extends(expires_ns, now_ns, idle_ns) && self.renew(id, least_ns, most_ns)
    }

    /// Whether [`extend`](Self::extend) renews a flow. It does not if the flow has had another idle time, or never expires. The clock of the
    /// worker that renewed it last may be a little later.
    #[inline]
    pub fn extends(expires_ns: u64, now_ns: u64, idle_ns: u64) -> bool {
        let [least_ns, most_ns] = times(now_ns, idle_ns);
        expires_ns <= most_ns.saturating_add(most_ns - least_ns)
    }

    /// No flow expires before this time.
    #[inline]
    pub fn next_bound(&self) -> u64 {
        self.heap.peek().map_or(NEVER, |Reverse((bound_ns, ..))| *bound_ns)
    }

    /// Takes the flow out.
    pub fn remove(&mut self, id: FlowId) -> Option<Flow<V, K>> {
        let record =
            self.records.get_mut(id.record as usize).filter(|record| record.generation == id.generation)?;
        let value = record.value.take()?;
        // After 2^32 flows in one record an id would come again: such a record is retired.
        if let Some(next) = record.generation.checked_add(1) {
            record.generation = next;
            self.free.push(id.record);
        }
        let (words, expires_ns) = (record.words, *record.expires_ns.get_mut());
        self.count -= 1;
        if words[0] != words[1] {
            self.unindex(self.spot(words[0]), id.record << 1);
        }
        self.unindex(self.spot(words[1]), id.record << 1 | 1);
        self.fill_out(id.record);
        self.trim_heap();
        let [forward, reply] = words.map(K::from_words);
        Some(Flow { forward, reply, expires_ns, value })
    }

    /// Takes out a flow whose time has come at `now_ns` (expiry at `now_ns` or before). Call it until it returns nothing, or
    /// a bounded number of times for each batch.
    pub fn pop_expired(&mut self, now_ns: u64) -> Option<Flow<V, K>> {
        let mut looks = usize::MAX;
        let id = self.expired(now_ns, &mut looks)?;
        self.remove(id)
    }

    /// A flow whose time has come at `now_ns`. At most `looks` entries of the heap are looked at, which is counted down: of very many flows that have been moved, the
    /// others are for the next call.
    #[inline]
    pub fn expired(&mut self, now_ns: u64, looks: &mut usize) -> Option<FlowId> {
        // No flow expires before its bound, so most calls look at one entry.
        loop {
            let Reverse((bound_ns, record, generation)) = *self.heap.peek()?;
            if bound_ns > now_ns || *looks == 0 {
                return None;
            }
            *looks -= 1;
            if self.settle().is_some() {
                return Some(FlowId { record, generation });
            }
        }
    }

    /// The flow that expires first and when: the one to give up when the table is full.
    pub fn soonest(&mut self) -> Option<(FlowId, u64)> {
        loop {
            let Reverse((_, record, generation)) = *self.heap.peek()?;
            if let Some(expires_ns) = self.settle() {
                return Some((FlowId { record, generation }, expires_ns));
            }
        }
    }

    /// Looks at the first entry of the heap. If its bound is when the flow expires, returns that. Otherwise the entry goes, or comes back with a later bound.
    fn settle(&mut self) -> Option<u64> {
        let Reverse((bound_ns, record, generation)) = *self.heap.peek()?;
        let id = FlowId { record, generation };
        let expires_ns = self.flow(id).map(|flow| flow.expires_ns);
        let valid = self.records[record as usize].bound_ns == bound_ns;
        match expires_ns {
            Some(expires_ns) if valid && expires_ns == bound_ns => return Some(expires_ns),
            Some(expires_ns) if valid => {
                self.heap.pop();
                self.push_bound(expires_ns, id);
            }
            _ => drop(self.heap.pop()),
        }
        None
    }

    /// All flows, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (FlowId, Flow<&V, K>)> {
        self.records.iter().enumerate().filter_map(|(at, record)| {
            let id = FlowId { record: at as u32, generation: record.generation };
            record.flow().map(|flow| (id, flow))
        })
    }

    /// Passes the flows of up to `most` records to `take`, from record number `from` on. Returns where to go on, or `None` at the end. So
    /// a holder of a lock can let go of it now and then; what comes or goes meanwhile may be passed or not.
    pub fn some(&self, from: usize, most: usize, mut take: impl FnMut(FlowId, Flow<&V, K>)) -> Option<usize> {
        let next = from.saturating_add(most).min(self.records.len());
        for (at, record) in self.records.get(from..next)?.iter().enumerate() {
            if let Some(flow) = record.flow() {
                take(FlowId { record: (from + at) as u32, generation: record.generation }, flow);
            }
        }
        (next < self.records.len()).then_some(next)
    }

    /// Looks at up to `most` records from number `hand` on, which moves, for a flow that may go.
    pub fn sweep(
        &self,
        hand: &mut usize,
        most: usize,
        mut may_go: impl FnMut(Flow<&V, K>) -> bool,
    ) -> Option<FlowId> {
        for _ in 0..most.min(self.records.len()) {
            let at = *hand % self.records.len();
            *hand = at + 1;
            let record = &self.records[at];
            if record.flow().is_some_and(&mut may_go) {
                return Some(FlowId { record: at as u32, generation: record.generation });
            }
        }
        None
    }

    /// Takes out every flow.
    pub fn clear(&mut self) {
        let ids: Vec<FlowId> = self.iter().map(|(id, _)| id).collect();
        ids.into_iter().for_each(|id| drop(self.remove(id)));
    }

    /// Number of flows.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many flows the table may hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    #[inline(always)]
    fn record(&self, id: FlowId) -> Option<&Record<V, K>> {
        self.records.get(id.record as usize).filter(|record| record.generation == id.generation)
    }

    #[inline(always)]
    fn spot(&self, words: K::Words) -> Spot {
        Spot::of::<K>(self.seed, self.buckets.len(), words)
    }

    #[inline]
    fn find(&self, words: K::Words, spot: Spot) -> Option<Hit> {
        for at in spot.buckets {
            // A spot that was prepared before the index changed may be beyond its end.
            let Some(bucket) = self.buckets.get(at as usize) else { continue };
            let mut matching = bucket.matching(spot.tag);
            while matching != 0 {
                if let Some(hit) = self.confirm(bucket.entries[first(matching) % WAYS], words) {
                    return Some(hit);
                }
                matching &= matching - 1;
            }
        }
        self.stash
            .iter()
            .filter(|(tag, _)| *tag == spot.tag)
            .find_map(|(_, entry)| self.confirm(*entry, words))
    }

    /// The entry as a hit, if its key is the one sought.
    #[inline(always)]
    fn confirm(&self, entry: u32, words: K::Words) -> Option<Hit> {
        let record = self.records.get((entry >> 1) as usize)?;
        let id = FlowId { record: entry >> 1, generation: record.generation };
        let key = record.words[(entry & 1) as usize];
        let same = K::is_same(key, words) && record.value.is_some();
        same.then_some(Hit { id, direction: direction(entry) })
    }

    fn index(&mut self, spot: Spot, entry: u32) {
        enter(&mut self.buckets, &mut self.stash, spot, entry);
    }

    fn unindex(&mut self, spot: Spot, entry: u32) {
        leave(&mut self.buckets, &mut self.stash, spot, entry);
    }

    fn push_bound(&mut self, bound_ns: u64, id: FlowId) {
        self.records[id.record as usize].bound_ns = bound_ns;
        if bound_ns == NEVER {
            return;
        }
        self.heap.push(Reverse((bound_ns, id.record, id.generation)));
        self.trim_heap();
    }

    /// Builds the heap anew when most of it is stale.
    fn trim_heap(&mut self) {
        if self.heap.len() > 3 * self.count + 64 {
            let valid = self.records.iter().enumerate().filter(|(_, record)| record.value.is_some());
            self.heap =
                valid.map(|(at, record)| Reverse((record.bound_ns, at as u32, record.generation))).collect();
        }
    }
}

impl Spot {
    #[inline(always)]
    fn of<K: Key>(seed: u64, count: usize, words: K::Words) -> Spot {
        let hash = K::hash(seed, words);
        // A multiplication and a shift map 32 bits to any number of buckets (Lemire 2019).
        let bucket = |half: u64| (((half & 0xffff_ffff) * count as u64) >> 32) as u32;
        Spot { buckets: [bucket(hash >> 32), bucket(hash)], tag: ((hash >> 32) as u8).max(EMPTY + 1) }
    }
}

/// Enters it in the first bucket, so that most lookups end there, unless that is getting full: then in the emptier of
/// the two, which keeps any from overflowing (Azar et al., *Balanced Allocations*, 1999).
fn enter(buckets: &mut [Bucket], stash: &mut Vec<(u8, u32)>, spot: Spot, entry: u32) {
    let room = |at: u32| buckets[at as usize].matching(EMPTY).count_ones();
    let [one, two] = spot.buckets;
    let at = if room(one) > 2 || room(one) >= room(two) { one } else { two };
    let bucket = &mut buckets[at as usize];
    match bucket.matching(EMPTY) {
        0 => stash.push((spot.tag, entry)),
        empty => bucket.set(first(empty), spot.tag, entry),
    }
}

/// Takes an entry out.
fn leave(buckets: &mut [Bucket], stash: &mut Vec<(u8, u32)>, spot: Spot, entry: u32) {
    for at in spot.buckets {
        let bucket = &mut buckets[at as usize];
        let tagged = |way: &usize| bucket.tags >> (8 * way) & 0xff == u64::from(spot.tag);
        if let Some(way) = (0..WAYS).filter(tagged).find(|way| bucket.entries[*way] == entry) {
            return bucket.set(way, EMPTY, 0);
        }
    }
    stash.retain(|(_, other)| *other != entry);
}

impl<V, K: Key> Record<V, K> {
    fn flow(&self) -> Option<Flow<&V, K>> {
        let [forward, reply] = self.words.map(K::from_words);
        let expires_ns = self.expires_ns.load(Relaxed);
        self.value.as_ref().map(|value| Flow { forward, reply, expires_ns, value })
    }
}

impl Bucket {
    /// The high bit of each byte whose tag this is.
    #[inline(always)]
    fn matching(&self, tag: u8) -> u64 {
        const LOW: u64 = u64::from_ne_bytes([0x7f; WAYS]);
        let other = self.tags ^ (u64::from(tag) * u64::from_ne_bytes([1; WAYS]));
        // Zero bytes become 0x80, all others 0 (Warren, Hacker's Delight, 6-1); no carry passes a byte's edge.
        !(((other & LOW) + LOW) | other | LOW)
    }

    fn set(&mut self, way: usize, tag: u8, entry: u32) {
        self.tags = self.tags & !(0xff << (8 * way)) | u64::from(tag) << (8 * way);
        self.entries[way] = entry;
    }
}

/// When a flow that is renewed now expires: not before, and not after.
#[inline(always)]
fn times(now_ns: u64, idle_ns: u64) -> [u64; 2] {
    let least_ns = now_ns.saturating_add(idle_ns);
    [least_ns, least_ns.saturating_add((idle_ns / 64).min(SLACK_NS))]
}

/// The direction of packets whose key an entry is for.
#[inline(always)]
fn direction(entry: u32) -> Direction {
    if entry & 1 == 0 { Direction::Forward } else { Direction::Reply }
}

/// The place of the first match; [`WAYS`] where there is none.
#[inline(always)]
fn first(matching: u64) -> usize {
    (matching.trailing_zeros() / 8) as usize
}

impl<V, K: Key> fmt::Debug for FlowTable<V, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowTable")
            .field("len", &self.count)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
