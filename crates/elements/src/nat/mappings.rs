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
//!
//! # Costs
//!
//! A batch of packets ends a bounded number of mappings whose time has come. One that is found first, by a packet of its flow,
//! ends there. A free value of a pattern's range, or that there is none, comes from [`Pools`]. So a flow that begins, or is
//! refused, costs the same however many there are.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use element::clock::Nanos;
use element::{ElementId, Reason};
use sync::lock::{AdaptiveGuard, AdaptiveLock};
use tables::flow::{Direction, Flow, FlowId, FlowKey, FlowTable, Hit, InsertError};

use super::kind::FlowKind;
use super::pool::{Part, Pools};
use nat::stream::Stream;

/// What the lock of mappings is said to guard.
pub(super) const MAPPINGS: &str = "the mappings";

/// Mappings of one or several rewriters.
pub(super) type Shared = Arc<AdaptiveLock<Mappings>>;

/// Takes hold of the mappings. A worker that panicked left them whole enough to go on.
pub(super) fn lock(shared: &Shared) -> AdaptiveGuard<'_, Mappings> {
    shared.lock()
}

/// What is kept about a mapping next to its flow keys. Pairs are forward side first.
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
    /// Whether the first answer may come from any port of the peer ([`Mappings::await_any_port`]).
    pub awaited: bool,
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
    element: ElementId,
    name: String,
    kind: FlowKind,
    /// Parts that patterns have asked free values of, for its answers.
    ranged: [bool; 2],
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
    /// By reply key without the peer's port: mappings whose first answer may come from any.
    awaited: HashMap<FlowKey, FlowId, RandomState>,
    pools: Pools,
    /// Mappings by the address that began them.
    hosts: HashMap<u32, usize, RandomState>,
}

/// Mappings that end at once before others get their turn.
const EXPIRY_BURST: usize = 64;

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
            awaited: HashMap::default(),
            pools: Pools::default(),
            hosts: HashMap::default(),
        }
    }

    /// The zone of element number `element`, which joins if it has not yet.
    pub fn join(&mut self, element: ElementId, name: &str, kind: FlowKind) -> Result<u16, String> {
        let found = self.members.iter().position(|m| m.element == element);
        let zone = found.unwrap_or_else(|| {
            let (name, ranged) = (name.to_owned(), [false; 2]);
            self.members.push(Member { element, name, kind, ranged, counts: Vec::new() });
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

    /// Mappings that this address has started.
    pub fn count_of(&self, host: u32) -> usize {
        self.hosts.get(&host).copied().unwrap_or(0)
    }

    /// Ends all that has been idle for its time.
    pub fn expire(&mut self, now: Nanos) {
        while self.expire_some(now, EXPIRY_BURST) {}
    }

    /// The same, up to so many mappings; returns whether there may be more.
    #[inline]
    pub fn expire_some(&mut self, now: Nanos, most: usize) -> bool {
        let mut looks = most;
        while let Some(id) = self.table.expired(now, &mut looks) {
            self.next_phase(id, now);
        }
        looks == 0
    }

    /// The mapping of a flow whose time has not come, as packets of `kind` show it.
    #[inline]
    pub fn find(&mut self, kind: FlowKind, flow: &FlowKey, now: Nanos) -> Option<Hit> {
        loop {
            let hit = kind.find(&self.table, flow)?;
            let found = self.table.flow(hit.id)?;
            if found.expires_ns > now || found.value.ends_ns > now {
                return Some(hit);
            }
            self.remove(hit.id);
        }
    }

    /// A value of a range whose reply key is free, the first from `start` on. See [`Pools::free`].
    pub fn free(
        &mut self,
        part: Part,
        range: (u32, u32),
        start: u32,
        reply: impl Fn(u32) -> FlowKey,
    ) -> Option<u32> {
        let member = self.members.get_mut(usize::from(reply(start).zone))?;
        member.ranged[part as usize] = true;
        self.pools.free((member.kind, part), range, start, reply, |key| self.table.lookup(key).is_some())
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

    /// Whether a mapping with this key is there that must not go yet.
    fn is_guaranteed(&self, key: &FlowKey, now: Nanos) -> bool {
        let flow = self.table.lookup(key).and_then(|hit| self.table.flow(hit.id));
        flow.is_some_and(|flow| flow.value.guaranteed && flow.expires_ns > now)
    }

    /// Enters a mapping. One that is in the way goes for it, and where there is no place, one that may.
    ///
    /// # Errors
    /// Why there is none: what would have to go is guaranteed.
    pub fn insert(
        &mut self,
        forward: FlowKey,
        reply: FlowKey,
        mut mapping: Mapping,
        now: Nanos,
        timing: Timing,
    ) -> Result<FlowId, Reason> {
        if self.is_guaranteed(&forward, now) || self.is_guaranteed(&reply, now) {
            return Err(Reason::MappingTaken);
        }
        let at = mapping.begin(now, timing);
        // Two keys may be in the way, and then a place may be missing.
        for _ in 0..4 {
            match self.table.insert(forward, reply, mapping, at) {
                Ok(id) => {
                    if !mapping.guaranteed {
                        self.may_give_way(id, at);
                    }
                    self.entered(id, &forward, &reply, &mapping);
                    return Ok(id);
                }
                Err(InsertError::Exists { other, .. }) => self.remove(other),
                Err(InsertError::Full { .. }) => {
                    self.expire_some(now, EXPIRY_BURST);
                    if self.table.len() < self.table.capacity() {
                        continue;
                    }
                    let (id, ends) = self.first_to_go().ok_or(Reason::MappingTableFull)?;
                    if !mapping.guaranteed && mapping.ends_ns < ends {
                        return Err(Reason::MappingTableFull);
                    }
                    self.remove(id);
                }
            }
        }
        Err(Reason::MappingTableFull)
    }

    /// Whether [`Mappings::insert`] would find a place for a new mapping.
    pub fn has_place(
        &mut self,
        forward: &FlowKey,
        reply: &FlowKey,
        now: Nanos,
        timing: Timing,
    ) -> Result<(), Reason> {
        if self.is_guaranteed(forward, now) || self.is_guaranteed(reply, now) {
            return Err(Reason::MappingTaken);
        }
        let in_the_way = |key| self.table.lookup(key).is_some();
        if self.table.len() < self.table.capacity() || in_the_way(forward) || in_the_way(reply) {
            return Ok(());
        }
        let ends = now.saturating_add(timing.idle_ns);
        let may_go = |(_, first): (FlowId, Nanos)| timing.guarantee_ns > 0 || ends >= first;
        if self.first_to_go().is_some_and(may_go) { Ok(()) } else { Err(Reason::MappingTableFull) }
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

    /// The first answer to this mapping may come from any port of the peer, and gets a mapping of its own then.
    pub fn await_any_port(&mut self, id: FlowId) {
        let Some(reply) = self.table.flow(id).map(|flow| flow.reply) else { return };
        if let Some(mapping) = self.table.get_mut(id) {
            mapping.awaited = true;
            self.awaited.insert(FlowKey { sport: 0, ..reply }, id);
        }
    }

    /// The mapping with this reply key has been answered, or is gone.
    pub fn no_longer_awaited(&mut self, reply: &FlowKey) {
        self.awaited.remove(&FlowKey { sport: 0, ..*reply });
    }

    /// The mapping for an answer that was awaited from any port.
    #[inline]
    pub fn answer_awaited(&mut self, flow: &FlowKey, now: Nanos, timing: Timing) -> Option<FlowId> {
        if self.awaited.is_empty() { None } else { self.answer(flow, now, timing) }
    }

    #[cold]
    fn answer(&mut self, flow: &FlowKey, now: Nanos, timing: Timing) -> Option<FlowId> {
        let id = *self.awaited.get(&FlowKey { sport: 0, ..*flow })?;
        let found = self.table.flow(id).filter(|found| found.value.ends_ns > now)?;
        let (forward, first) = (FlowKey { dport: flow.sport, ..found.forward }, *found.value);
        self.no_longer_awaited(flow);
        self.table.get_mut(id)?.awaited = false;
        let mapping = Mapping::new(first.outputs, first.input, first.reply_anno);
        self.insert(forward, *flow, mapping, now, timing).ok()
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
            if flow.value.awaited {
                self.no_longer_awaited(&flow.reply);
            }
            self.left(&flow.forward, &flow.reply, flow.value.input);
        }
    }

    /// Counts a mapping that has come, and notes the values that it takes.
    fn entered(&mut self, id: FlowId, forward: &FlowKey, reply: &FlowKey, mapping: &Mapping) {
        self.counted(forward.zone, mapping.input, |n| n + 1);
        if mapping.awaited {
            self.awaited.insert(FlowKey { sport: 0, ..*reply }, id);
        }
        *self.hosts.entry(forward.src).or_default() += 1;
        for (key, direction) in [(reply, Direction::Reply), (forward, Direction::Forward)] {
            let Some(member) = self.members.get(usize::from(key.zone)) else { continue };
            for part in Part::ALL.into_iter().filter(|part| member.ranged[*part as usize]) {
                match direction {
                    Direction::Reply => self.pools.take_reply(member.kind, part, key),
                    Direction::Forward => self.pools.take_forward(member.kind, part, key),
                }
            }
        }
    }

    /// The same for one that has gone.
    fn left(&mut self, forward: &FlowKey, reply: &FlowKey, input: u16) {
        self.counted(forward.zone, input, |n| n.saturating_sub(1));
        match self.hosts.get_mut(&forward.src) {
            Some(n) if *n > 1 => *n -= 1,
            _ => drop(self.hosts.remove(&forward.src)),
        }
        for key in [reply, forward] {
            let Some(member) = self.members.get(usize::from(key.zone)) else { continue };
            for part in Part::ALL.into_iter().filter(|part| member.ranged[*part as usize]) {
                self.pools.give(member.kind, part, key);
            }
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
        self.forget_counts();
    }

    fn forget_counts(&mut self) {
        self.members.iter_mut().for_each(|m| m.counts.clear());
        self.awaited.clear();
        self.pools.clear();
        self.hosts.clear();
    }

    fn same_kinds(&self, other: &Mappings) -> bool {
        self.members.iter().zip(&other.members).all(|(mine, theirs)| mine.kind == theirs.kind)
    }

    /// Takes over the mappings of rewriters of the same names.
    pub fn take(&mut self, other: &mut Mappings) {
        let zone = |name: &str| self.members.iter().position(|m| m.name == name);
        let zones: Vec<Option<usize>> = other.members.iter().map(|m| zone(&m.name)).collect();
        let capacity = self.table.capacity();
        if self.table.is_empty()
            && zones.iter().enumerate().all(|(i, z)| *z == Some(i))
            && self.same_kinds(other)
        {
            std::mem::swap(&mut self.table, &mut other.table);
            std::mem::swap(&mut self.best_effort, &mut other.best_effort);
            std::mem::swap(&mut self.streams, &mut other.streams);
            std::mem::swap(&mut self.awaited, &mut other.awaited);
            std::mem::swap(&mut self.pools, &mut other.pools);
            std::mem::swap(&mut self.hosts, &mut other.hosts);
            for (mine, theirs) in self.members.iter_mut().zip(&mut other.members) {
                std::mem::swap(&mut mine.counts, &mut theirs.counts);
                std::mem::swap(&mut mine.ranged, &mut theirs.ranged);
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
                self.entered(id, &forward, &reply, flow.value);
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
        self.forget_counts();
        for (guaranteed, at, forward, reply, mapping) in flows {
            let Ok(id) = self.table.insert(forward, reply, mapping, at) else {
                self.streams.remove(&forward);
                continue;
            };
            self.entered(id, &forward, &reply, &mapping);
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
            all.join(ElementId::new(7), "r", FlowKind::Ports).unwrap();
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
                        prop_assert_eq!((made.is_ok(), place.is_ok()), (want, want));
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

    /// The reply key of the flow from `host` to `peer` through a port, as [`FlowKind`] has it.
    fn through(kind: FlowKind, peer: u32, port: u32) -> FlowKey {
        let to = FlowKey { src: 99, dst: peer, sport: port as u16, dport: 80, proto: 17, zone: 0 };
        kind.reply(to, 0)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]
        /// A free port is the one that a look at each would find, with flows of patterns, others' and ones from outside in the way.
        #[test]
        fn free_ports_are_as_found_one_by_one(
            pings in any::<bool>(),
            range in prop::sample::select(vec![(0u32, 7u32), (1000, 1006), (65530, 65535)]),
            steps in prop::collection::vec((0u32..4, 0u32..3, any::<u32>(), 0u64..40), 1..120),
        ) {
            let kind = if pings { FlowKind::Pings } else { FlowKind::Ports };
            let mut all = Mappings::new(16);
            all.join(ElementId::new(7), "r", kind).unwrap();
            let timing = Timing { idle_ns: 300, guarantee_ns: 50 };
            let (low, high) = range;
            let mut now = 0;
            for (step, (what, peer, n, after)) in steps.into_iter().enumerate() {
                now += after;
                all.expire_some(now, 2);
                let at = low + n % (high - low + 1);
                let reply = through(kind, peer, at);
                match what {
                    // From outside to the port, or from inside through a port of its own.
                    0 => _ = all.insert(reply, key(step as u32), Mapping::default(), now, timing),
                    1 => _ = all.insert(key(step as u32), reply, Mapping::default(), now, timing),
                    2 if step % 9 == 0 => all.set_capacity(12 + step % 2),
                    _ => {
                        let taken = |v: &u32| all.table().lookup(&through(kind, peer, *v)).is_some();
                        let want = (at..=high).chain(low..at).find(|v| !taken(v));
                        let got = all.free(Part::Port, range, at, |v| through(kind, peer, v));
                        prop_assert_eq!(got, want);
                        if let Some(port) = got {
                            let reply = through(kind, peer, port);
                            _ = all.insert(key(step as u32), reply, Mapping::default(), now, timing);
                        }
                    }
                }
            }
            all.expire(now + 1000);
            prop_assert!(all.pools.is_empty() && all.hosts.is_empty() && all.table.is_empty());
        }
    }

    #[test]
    fn capacity_shrinks_to_the_guaranteed() {
        let mut all = Mappings::new(4);
        let zone = all.join(ElementId::new(3), "r", FlowKind::Ports).unwrap();
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
