// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mappings of rewriters: who has how many, which ends when, and which must give way to a new one.
//!
//! Rewriters that share a capacity share one flow table. The key's zone says whose packets it belongs to: a flow's forward
//! key has the zone of the rewriter that made the mapping, its reply key that of the rewriter which takes the answers, mostly
//! the same one.
//!
//! # Guarantees
//!
//! For a while after each packet a mapping is *guaranteed*: it does not give way. Then it becomes *best effort* until it has
//! been idle for its whole timeout. The flow table's expiry is the end of the present phase. Where a place is needed, the best
//! effort mapping that would end first goes, which a second heap finds; like the table's, it holds bounds that are
//! put right when they come up. An entry of that heap is out of date when its mapping is gone or guaranteed again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use engine::clock::Nanos;
use sync::lock::{AdaptiveGuard, AdaptiveLock};
use tables::flow::{Flow, FlowId, FlowKey, FlowTable, InsertError};

use super::stream::Stream;

/// What the lock of mappings is said to guard.
pub(super) const MAPPINGS: &str = "the mappings";

/// Mappings of one or several rewriters.
pub(super) type Shared = Arc<AdaptiveLock<Mappings>>;

/// Takes hold of the mappings. A worker that panicked left them whole enough to go on.
pub(super) fn lock(shared: &Shared) -> AdaptiveGuard<'_, Mappings> {
    shared.lock()
}

/// What is kept about a mapping beside its flow keys. Pairs are forward side first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mapping {
    pub outputs: [u8; 2],
    /// The input that made it.
    pub input: u16,
    /// Sides that have closed the connection.
    pub done: [bool; 2],
    /// Sides that have sent data.
    pub data: [bool; 2],
    /// Packets so far, no more than 255.
    pub packets: u8,
    /// The annotation that answers get.
    pub reply_anno: u8,
    /// Whether the text of the connection's streams has changed on the way ([`Mappings::streams`]).
    pub edited: bool,
    guaranteed: bool,
    ends_ns: Nanos,
}

/// How long a mapping lasts after a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timing {
    pub idle_ns: u64,
    pub guarantee_ns: u64,
}

impl Mapping {
    /// A mapping that no packet has come for.
    pub fn new(outputs: [u8; 2], input: u16, reply_anno: u8) -> Mapping {
        Mapping { outputs, input, reply_anno, ..Mapping::default() }
    }

    /// When it ends if no packet comes.
    pub fn ends_ns(&self) -> Nanos {
        self.ends_ns
    }

    /// Counts its time from now; returns the end of the phase that begins.
    fn begin(&mut self, now: Nanos, timing: Timing) -> Nanos {
        self.guaranteed = timing.guarantee_ns > 0;
        self.ends_ns = now.saturating_add(timing.idle_ns);
        if self.guaranteed { now.saturating_add(timing.guarantee_ns) } else { self.ends_ns }
    }
}

/// A rewriter as its partners know it.
struct Member {
    element: usize,
    name: String,
    /// Mappings made by each input.
    counts: Vec<usize>,
}

/// See the module.
pub(super) struct Mappings {
    table: FlowTable<Mapping>,
    best_effort: BinaryHeap<Reverse<(Nanos, FlowId)>>,
    members: Vec<Member>,
    /// By forward key, for those few mappings that say so: the stream of each side.
    streams: BTreeMap<FlowKey, [Stream; 2]>,
}

fn table(capacity: usize) -> FlowTable<Mapping> {
    FlowTable::new(capacity, RandomState::new().hash_one(0))
}

impl Mappings {
    pub fn new(capacity: usize) -> Mappings {
        Mappings {
            table: table(capacity),
            best_effort: BinaryHeap::new(),
            members: Vec::new(),
            streams: BTreeMap::new(),
        }
    }

    /// The zone of element number `element`, which joins if it has not yet.
    pub fn join(&mut self, element: usize, name: &str) -> Result<u16, String> {
        let found = self.members.iter().position(|m| m.element == element);
        let zone = found.unwrap_or_else(|| {
            self.members.push(Member { element, name: name.to_owned(), counts: Vec::new() });
            self.members.len() - 1
        });
        u16::try_from(zone).map_err(|_| "too many rewriters share one MAPPING_CAPACITY".to_owned())
    }

    /// The name of the rewriter with this zone.
    pub fn name(&self, zone: u16) -> &str {
        self.members.get(usize::from(zone)).map_or("", |m| &m.name)
    }

    /// The flow table, to look things up.
    #[inline]
    pub fn table(&self) -> &FlowTable<Mapping> {
        &self.table
    }

    /// Mappings that `input` of the rewriter with this zone has made.
    pub fn count(&self, zone: u16, input: usize) -> usize {
        let member = self.members.get(usize::from(zone));
        member.and_then(|m| m.counts.get(input)).copied().unwrap_or(0)
    }

    /// Mappings that the rewriter with this zone has made.
    pub fn count_all(&self, zone: u16) -> usize {
        self.members.get(usize::from(zone)).map_or(0, |m| m.counts.iter().sum())
    }

    /// Ends what has been idle for its time.
    #[inline]
    pub fn expire(&mut self, now: Nanos) {
        while let Some((id, at)) = self.table.soonest() {
            if at > now {
                return;
            }
            self.next_phase(id, now);
        }
    }

    /// A phase of the mapping is over.
    fn next_phase(&mut self, id: FlowId, now: Nanos) {
        let ends = match self.table.get_mut(id) {
            Some(mapping) if mapping.guaranteed && mapping.ends_ns > now => {
                mapping.guaranteed = false;
                mapping.ends_ns
            }
            _ => return self.remove(id),
        };
        self.table.set_expiry(id, ends);
        self.may_give_way(id, ends);
    }

    fn may_give_way(&mut self, id: FlowId, ends: Nanos) {
        self.best_effort.push(Reverse((ends, id)));
        if self.best_effort.len() > 2 * self.table.len() + 64 {
            let left = self.table.iter().filter(|(_, flow)| !flow.value.guaranteed);
            self.best_effort = left.map(|(id, flow)| Reverse((flow.value.ends_ns, id))).collect();
        }
    }

    /// The best effort mapping that ends first, and when.
    fn first_to_go(&mut self) -> Option<(FlowId, Nanos)> {
        loop {
            let Reverse((bound, id)) = *self.best_effort.peek()?;
            match self.table.get(id) {
                Some(m) if !m.guaranteed && m.ends_ns == bound => return Some((id, bound)),
                Some(m) if !m.guaranteed => {
                    let ends = m.ends_ns;
                    self.best_effort.pop();
                    self.best_effort.push(Reverse((ends, id)));
                }
                _ => drop(self.best_effort.pop()),
            }
        }
    }

    /// Enters a mapping. One that is in the way goes for it, and where there is no place, one that may. Nothing if none may.
    pub fn insert(
        &mut self,
        forward: FlowKey,
        reply: FlowKey,
        mut mapping: Mapping,
        now: Nanos,
        timing: Timing,
    ) -> Option<FlowId> {
        let at = mapping.begin(now, timing);
        // Two keys may be in the way, and then a place may be missing.
        for _ in 0..4 {
            match self.table.insert(forward, reply, mapping, at) {
                Ok(id) => {
                    if !mapping.guaranteed {
                        self.may_give_way(id, at);
                    }
                    self.counted(forward.zone, mapping.input, |n| n + 1);
                    return Some(id);
                }
                Err(InsertError::Exists { other, .. }) => self.remove(other),
                Err(InsertError::Full { .. }) => {
                    let (id, ends) = self.first_to_go()?;
                    if !mapping.guaranteed && mapping.ends_ns < ends {
                        return None;
                    }
                    self.remove(id);
                }
            }
        }
        None
    }

    /// Whether [`Mappings::insert`] would find a place for a new mapping.
    pub fn has_place(&mut self, forward: &FlowKey, reply: &FlowKey, now: Nanos, timing: Timing) -> bool {
        let in_the_way = |key| self.table.lookup(key).is_some();
        if self.table.len() < self.table.capacity() || in_the_way(forward) || in_the_way(reply) {
            return true;
        }
        let ends = now.saturating_add(timing.idle_ns);
        let may_go = |(_, first): (FlowId, Nanos)| timing.guarantee_ns > 0 || ends >= first;
        self.first_to_go().is_some_and(may_go)
    }

    /// Replaces what is kept about a mapping of which a packet has come.
    #[inline]
    pub fn touch(&mut self, id: FlowId, mut mapping: Mapping, now: Nanos, timing: Timing) {
        let at = mapping.begin(now, timing);
        let Some(kept) = self.table.get_mut(id) else { return };
        let was_guaranteed = std::mem::replace(kept, mapping).guaranteed;
        self.table.set_expiry(id, at);
        if was_guaranteed && !mapping.guaranteed {
            self.may_give_way(id, at);
        }
    }

    /// The streams of a mapping whose text changes from now on, or has already.
    pub fn edited(&mut self, id: FlowId) -> Option<&mut [Stream; 2]> {
        let flow = self.table.flow(id)?;
        let (forward, edited) = (flow.forward, flow.value.edited);
        if !edited {
            self.table.get_mut(id)?.edited = true;
        }
        Some(self.streams.entry(forward).or_default())
    }

    /// The streams of the mapping with this forward key, where they have changed.
    pub fn streams(&mut self, forward: &FlowKey) -> Option<&mut [Stream; 2]> {
        self.streams.get_mut(forward)
    }

    /// A connection begins anew: its streams are as they are sent.
    pub fn forget_streams(&mut self, forward: &FlowKey) {
        self.streams.remove(forward);
    }

    fn remove(&mut self, id: FlowId) {
        if let Some(flow) = self.table.remove(id) {
            if flow.value.edited {
                self.streams.remove(&flow.forward);
            }
            self.counted(flow.forward.zone, flow.value.input, |n| n.saturating_sub(1));
        }
    }

    fn counted(&mut self, zone: u16, input: u16, change: impl Fn(usize) -> usize) {
        let Some(member) = self.members.get_mut(usize::from(zone)) else { return };
        let input = usize::from(input);
        if member.counts.len() <= input {
            member.counts.resize(input + 1, 0);
        }
        member.counts[input] = change(member.counts[input]);
    }

    /// Ends the mappings that `input` of the rewriter with this zone has made.
    pub fn remove_made_by(&mut self, zone: u16, input: usize) {
        let made = |f: &Flow<&Mapping>| f.forward.zone == zone && usize::from(f.value.input) == input;
        let ids: Vec<_> = self.table.iter().filter(|(_, f)| made(f)).map(|(id, _)| id).collect();
        ids.into_iter().for_each(|id| self.remove(id));
    }

    /// Ends all mappings.
    pub fn clear(&mut self) {
        self.table.clear();
        self.best_effort.clear();
        self.streams.clear();
        self.members.iter_mut().for_each(|m| m.counts.clear());
    }

    /// Takes over the mappings of rewriters of the same names.
    pub fn take(&mut self, other: &mut Mappings) {
        let zone = |name: &str| self.members.iter().position(|m| m.name == name);
        let zones: Vec<Option<usize>> = other.members.iter().map(|m| zone(&m.name)).collect();
        let capacity = self.table.capacity();
        if self.table.is_empty() && zones.iter().enumerate().all(|(i, z)| *z == Some(i)) {
            std::mem::swap(&mut self.table, &mut other.table);
            std::mem::swap(&mut self.best_effort, &mut other.best_effort);
            std::mem::swap(&mut self.streams, &mut other.streams);
            for (mine, theirs) in self.members.iter_mut().zip(&mut other.members) {
                std::mem::swap(&mut mine.counts, &mut theirs.counts);
            }
            if self.table.capacity() != capacity {
                self.set_capacity(capacity);
            }
            return;
        }
        let renamed = |key: FlowKey| {
            let zone = zones.get(usize::from(key.zone)).copied().flatten()?;
            Some(FlowKey { zone: zone as u16, ..key })
        };
        for (_, flow) in other.table.iter() {
            let (Some(forward), Some(reply)) = (renamed(flow.forward), renamed(flow.reply)) else { continue };
            if let Ok(id) = self.table.insert(forward, reply, *flow.value, flow.expires_ns) {
                self.counted(forward.zone, flow.value.input, |n| n + 1);
                if let Some(streams) = other.streams.remove(&flow.forward) {
                    self.streams.insert(forward, streams);
                }
                if !flow.value.guaranteed {
                    self.may_give_way(id, flow.expires_ns);
                }
            }
        }
        other.clear();
    }

    /// Changes how many there may be; those above go as if new ones had come.
    pub fn set_capacity(&mut self, capacity: usize) {
        let old = std::mem::replace(&mut self.table, table(capacity));
        let mut flows: Vec<_> = old
            .iter()
            .map(|(_, f)| (f.value.guaranteed, f.expires_ns, f.forward, f.reply, *f.value))
            .collect();
        flows.sort_by_key(|f| Reverse((f.0, f.1)));
        self.best_effort.clear();
        self.members.iter_mut().for_each(|m| m.counts.clear());
        for (guaranteed, at, forward, reply, mapping) in flows {
            let Ok(id) = self.table.insert(forward, reply, mapping, at) else {
                self.streams.remove(&forward);
                continue;
            };
            self.counted(forward.zone, mapping.input, |n| n + 1);
            if !guaranteed {
                self.may_give_way(id, at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(n: u32) -> FlowKey {
        FlowKey { src: n, dst: 1, sport: 1, dport: 1, proto: 17, zone: 0 }
    }

    /// What two lists, one guaranteed and one not, would hold: key, end of the guarantee, end.
    #[derive(Default)]
    struct Naive(Vec<(u32, Nanos, Nanos)>);

    impl Naive {
        fn begin(&mut self, n: u32, now: Nanos, timing: Timing) {
            self.0.retain(|f| f.0 != n);
            self.0.push((n, now + timing.guarantee_ns, now + timing.idle_ns));
        }

        fn expire(&mut self, now: Nanos) {
            self.0.retain(|f| f.1 > now || f.2 > now);
        }

        /// Whether there is a place for a new one that ends then.
        fn place(&mut self, capacity: usize, now: Nanos, timing: Timing) -> bool {
            if self.0.len() < capacity {
                return true;
            }
            let ends = now + timing.idle_ns;
            let Some(first) = self.0.iter().filter(|f| f.1 <= now).map(|f| f.2).min() else { return false };
            if timing.guarantee_ns == 0 && ends < first {
                return false;
            }
            let at = self.0.iter().position(|f| f.1 <= now && f.2 == first).unwrap();
            self.0.remove(at);
            true
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]
        /// Packets of flows with several timings: the same flows live as in the lists.
        #[test]
        fn places_go_as_guarantees_say(
            capacity in 1usize..6,
            packets in prop::collection::vec((0u32..10, 0u64..40), 1..120),
        ) {
            let mut all = Mappings::new(capacity);
            all.join(7, "r").unwrap();
            let mut naive = Naive::default();
            let mut now = 0;
            for (i, (n, after)) in packets.into_iter().enumerate() {
                now += after;
                // Ends are made unlike, so that it is always clear who goes.
                let idle_ns = 1000 + u64::from(n % 3) * 20_000 + i as u64;
                let timing = Timing { idle_ns, guarantee_ns: if n % 4 == 3 { 0 } else { 50 } };
                all.expire(now);
                naive.expire(now);
                match all.table().lookup(&key(n)) {
                    Some(hit) => {
                        let mapping = *all.table().get(hit.id).unwrap();
                        all.touch(hit.id, mapping, now, timing);
                        naive.begin(n, now, timing);
                    }
                    None => {
                        let place = all.has_place(&key(n), &key(n).reversed(), now, timing);
                        let made = all.insert(key(n), key(n).reversed(), Mapping::default(), now, timing);
                        let want = naive.place(capacity, now, timing);
                        prop_assert_eq!((made.is_some(), place), (want, want));
                        if want {
                            naive.begin(n, now, timing);
                        }
                    }
                }
                let mut live: Vec<u32> = all.table().iter().map(|(_, f)| f.forward.src).collect();
                let mut want: Vec<u32> = naive.0.iter().map(|f| f.0).collect();
                live.sort_unstable();
                want.sort_unstable();
                prop_assert_eq!(live, want);
                prop_assert_eq!(all.count_all(0), all.table().len());
            }
        }
    }

    #[test]
    fn capacity_shrinks_to_the_guaranteed() {
        let mut all = Mappings::new(4);
        let zone = all.join(3, "r").unwrap();
        let timing = Timing { idle_ns: 1000, guarantee_ns: 50 };
        for n in 0..4 {
            all.insert(key(n), key(n).reversed(), Mapping::default(), u64::from(n) * 20, timing).unwrap();
        }
        all.expire(80);
        all.set_capacity(3);
        let mut left: Vec<u32> = all.table().iter().map(|(_, f)| f.forward.src).collect();
        left.sort_unstable();
        assert_eq!((left, all.count(zone, 0), all.count(zone, 9)), (vec![1, 2, 3], 3, 0));
        all.set_capacity(0);
        assert_eq!(all.count_all(zone), 0);
    }
}
