// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections that two firewalls both have, so that either can go on alone: see [`statesync::Table`].
//!
//! Sequence numbers are not sent: they change with each segment. A firewall that takes a connection over lets its segments pass until both sides agree on their numbers, and
//! checks them from then on. Connections with the router itself stay with it. A connection that the firewall has answered itself (see [`crate::proxy`]) has its offsets in its record, and one that was announced what announced it.

use statesync::{Change, Changes, NotTaken, Op, Pass, SLACK_NS, Table};
use tables::flow::{Flow, FlowId, FlowKey, FlowKey6, NEVER};

use super::book::Book;
use super::listing::SIX_FROM;
use super::proxied::Proxy;
use super::zones::{GONE, OWN};
use super::{Addresses, Connection, Entry, Firewall, FlowTable, Room, Side, Track, is_settled};
use crate::policy::{SELF, TCP, Timeouts};
use crate::record::{ConnectionRecord, name_number};
use crate::ruleset::Standing;
use crate::track::{State, Tcp, timeout};

const MS: u64 = 1_000_000;

/// A connection's name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    six: bool,
    id: FlowId,
}

/// What is kept of a connection that has ended or been left to the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gone {
    record: ConnectionRecord,
    zones: [u16; 2],
    vrfs: [u16; 2],
    expires_ns: u64,
}

/// See [`Changes`].
pub(super) type Told = Changes<Name, Gone>;

/// Whether a connection is the peer's.
fn is_mirrored(expires_ns: u64) -> bool {
    expires_ns == NEVER
}

/// Whether a connection is with the router itself. No other router can go on with it.
fn is_own(entry: &Entry) -> bool {
    entry.zones.contains(&OWN)
}

/// A packet has perhaps changed a connection, and its time is still what it was. States are reported from the one that both sides have agreed on to the first one after it that they have not; and a packet
/// of a connection that was the peer's.
pub(super) fn note_change<K: Addresses>(
    book: &mut Book,
    table: &FlowTable<Entry, K>,
    id: FlowId,
    before: State,
    renews: bool,
) {
    let Some((told, flow)) = book.told.as_mut().zip(table.flow(id)) else { return };
    if is_own(flow.value) {
        return;
    }
    let now = flow.value.track.state();
    let has_changed = before != now && (is_settled(before) || is_settled(now));
    if if is_mirrored(flow.expires_ns) { renews } else { has_changed } {
        told.push(Change::Put(Name { six: K::SIX, id }));
    }
}

/// A connection has ended: it is counted, and reported if the peer may know it.
pub(super) fn ended<K: Addresses>(book: &mut Book, flow: &Flow<Entry, K>) {
    let entry = &flow.value;
    if let Some(told) = book.told.as_mut().filter(|_| entry.is_told && !is_mirrored(flow.expires_ns)) {
        told.push(Change::End(gone([flow.forward, flow.reply], entry, flow.expires_ns)));
    }
    book.ended(entry.slot, flow.forward.source(), entry.counts_source);
}

fn gone<K: Addresses>([forward, reply]: [K; 2], entry: &Entry, expires_ns: u64) -> Gone {
    let (source, destination, protocol, ports) = forward.parts();
    let (scales, fins) = match &entry.track {
        Track::Tcp(tcp) => ([0, 1].map(|side| tcp.scale(side)), tcp.fins()),
        Track::Other(_) => ([0; 2], [false; 2]),
    };
    let record = ConnectionRecord {
        protocol,
        ends: [source, destination],
        ports,
        zones: [0; 2],
        vrfs: [0; 2],
        state: entry.track.state(),
        scales,
        fins,
        parent: entry.parent,
        shift: entry.proxy.and_then(|proxy| proxy.shift()),
        idle_ms: 0,
    };
    Gone { record, zones: entry.zones, vrfs: [forward.vrf(), reply.vrf()], expires_ns }
}

/// Whether a connection counts as one of its source no more.
fn is_over(state: State) -> bool {
    matches!(state, State::Closed | State::Reset)
}

/// For how long nothing has renewed a connection.
fn idle(now_ns: u64, timeouts: &Timeouts, protocol: u8, state: State, expires_ns: u64) -> u64 {
    now_ns.saturating_add(timeout(timeouts, protocol, state)).saturating_sub(expires_ns)
}

impl<K: Addresses> Side<K> {
    /// The connections at some places that are chosen.
    fn at(
        &self,
        from: usize,
        most: usize,
        chosen: impl Fn(&Flow<&Entry, K>) -> bool,
    ) -> (Vec<FlowId>, Option<usize>) {
        let mut ids = Vec::with_capacity(most);
        let next = self.table.some(from, most, |id, flow| {
            if chosen(&flow) {
                ids.push(id);
            }
        });
        (ids, next)
    }

    /// The connection is reported.
    fn tell(&mut self, id: FlowId) -> Option<Gone> {
        let flow = self.table.flow(id).filter(|flow| !is_mirrored(flow.expires_ns))?;
        // Nothing can go on that its server has not accepted.
        let is_asking = flow.value.proxy.is_some_and(|proxy| proxy.shift().is_none());
        if is_asking && !flow.value.is_told {
            return None;
        }
        let gone = gone([flow.forward, flow.reply], flow.value, flow.expires_ns);
        self.table.get_mut(id)?.is_told = true;
        Some(gone)
    }

    fn tell_owned(&mut self, now_ns: u64, from: usize, most: usize) -> (Vec<Gone>, Option<usize>) {
        let (ids, next) = self.at(from, most, |flow| {
            !is_mirrored(flow.expires_ns)
                && flow.expires_ns > now_ns
                && flow.value.is_settled()
                && !is_own(flow.value)
        });
        (ids.into_iter().filter_map(|id| self.tell(id)).collect(), next)
    }

    /// A mirrored connection is owned from now on, and has its whole time.
    fn own(&mut self, now_ns: u64, timeouts: &Timeouts, id: FlowId) {
        let Some(flow) = self.table.flow(id) else { return };
        let (_, _, protocol, _) = flow.forward.parts();
        let whole = timeout(timeouts, protocol, flow.value.track.state());
        self.table.set_expiry(id, now_ns.saturating_add(whole));
    }

    fn pass(
        &mut self,
        now_ns: u64,
        pass: Pass,
        (from, most): (usize, usize),
        timeouts: &Timeouts,
        book: &mut Book,
    ) -> Option<usize> {
        let (ids, next) = self.at(from, most, |flow| {
            is_mirrored(flow.expires_ns) && (pass != Pass::Sweep || flow.value.is_marked)
        });
        for id in ids {
            match pass {
                Pass::Adopt => self.own(now_ns, timeouts, id),
                Pass::Mark => self.table.get_mut(id).into_iter().for_each(|entry| entry.is_marked = true),
                Pass::Sweep => _ = self.remove(id, book),
            }
        }
        next
    }
}

/// The parts of a firewall that installing a connection needs.
struct Parts<'a> {
    now_ns: u64,
    record: &'a ConnectionRecord,
    /// The VRFs of its packets there and back.
    vrfs: [u16; 2],
    timeouts: &'a Timeouts,
    book: &'a mut Book,
    /// Whether there are as many connections as there may be.
    is_full: bool,
}

/// What is known of a connection of the peer.
fn track(record: &ConnectionRecord) -> Result<Track, NotTaken> {
    match (record.protocol, record.state) {
        (TCP, State::Asked | State::Single) => Err(NotTaken::Malformed),
        (TCP, state) => Ok(Track::Tcp(Tcp::resumed(state, record.scales, record.fins))),
        (_, State::Single | State::Open) if record.shift.is_none() => Ok(Track::Other(record.state)),
        _ => Err(NotTaken::Malformed),
    }
}

impl Track {
    /// What is known if packets go through both firewalls, or have done so until now: neither has seen all of them.
    fn merged(&self, theirs: Track) -> Track {
        match (self, theirs) {
            (Track::Tcp(own), Track::Tcp(theirs)) => Track::Tcp(own.merged(&theirs)),
            (Track::Other(State::Open), Track::Other(_)) => Track::Other(State::Open),
            (_, theirs) => theirs,
        }
    }
}

impl Parts<'_> {
    /// Puts a connection. `entry` is what would be kept of a new one, and tracks it.
    fn put<K: Addresses>(
        &mut self,
        side: &mut Side<K>,
        other: &mut dyn Room,
        track: Track,
        entry: Result<Entry, NotTaken>,
    ) -> Result<(), NotTaken> {
        let ConnectionRecord { protocol, ends, ports, .. } = *self.record;
        let [there, back] = self.vrfs;
        let key = K::make(there, ends[0], ends[1], protocol, ports).ok_or(NotTaken::Malformed)?;
        let keys = [key, key.back(back)];
        for known in keys {
            let Some(id) = side.table.lookup(&known).map(|hit| hit.id) else { continue };
            let Some(flow) = side.table.flow(id) else { continue };
            if [flow.forward, flow.reply] == keys {
                self.renew(side, id, track);
                return Ok(());
            }
            if !is_mirrored(flow.expires_ns) && flow.expires_ns > self.now_ns {
                return Err(NotTaken::Conflict);
            }
            side.remove(id, self.book);
        }
        let entry = entry?;
        if self.is_full && !side.make(self.now_ns, self.book) && !other.make(self.now_ns, self.book) {
            return Err(NotTaken::Full);
        }
        self.book.began(entry.slot, key.source(), entry.counts_source);
        let (slot, counts_source) = (entry.slot, entry.counts_source);
        if !side.insert(keys, entry, NEVER, None) {
            self.book.ended(slot, key.source(), counts_source);
            return Err(NotTaken::Full);
        }
        Ok(())
    }

    /// The peer puts a connection that is here.
    fn renew<K: Addresses>(&mut self, side: &mut Side<K>, id: FlowId, mut track: Track) {
        let Some(flow) = side.table.flow(id) else { return };
        if !is_mirrored(flow.expires_ns) {
            let state = flow.value.track.state();
            let here = idle(self.now_ns, self.timeouts, self.record.protocol, state, flow.expires_ns);
            // Theirs may be the next one from the same port.
            let is_next = is_over(state) && self.record.state == State::Open;
            let there = u64::from(self.record.idle_ms) * MS;
            let is_theirs = here > there.saturating_add(SLACK_NS);
            if is_next || is_theirs {
                let left = gone([flow.forward, flow.reply], flow.value, flow.expires_ns);
                self.book.told.iter_mut().for_each(|told| told.push(Change::Yield(left)));
                side.table.set_expiry(id, NEVER);
            } else {
                track = flow.value.track.merged(track);
                let whole = timeout(self.timeouts, self.record.protocol, track.state());
                let until = self.now_ns.saturating_add(whole).saturating_sub(here.min(there));
                side.table.set_expiry(id, until);
            }
        }
        let Some(source) = side.table.flow(id).map(|flow| flow.forward.source()) else { return };
        let Some(entry) = side.table.get_mut(id) else { return };
        (entry.track, entry.is_told, entry.is_marked) = (track, true, false);
        entry.proxy = self.record.shift.map(Proxy::resumed);
        if entry.counts_source && is_over(entry.track.state()) {
            entry.counts_source = false;
            self.book.left(entry.slot, source);
        }
    }

    /// The connection of the record, with the number of nanoseconds that it has been idle here; none if it is mirrored.
    fn known<K: Addresses>(&self, side: &Side<K>) -> Option<(FlowId, Option<u64>)> {
        let ConnectionRecord { protocol, ends, ports, .. } = *self.record;
        let id = side.table.lookup(&K::make(self.vrfs[0], ends[0], ends[1], protocol, ports)?)?.id;
        let flow = side.table.flow(id)?;
        let here = idle(self.now_ns, self.timeouts, protocol, flow.value.track.state(), flow.expires_ns);
        Some((id, (!is_mirrored(flow.expires_ns)).then_some(here)))
    }

    /// The peer has ended a connection. It goes on here if its packets went through here last; then that is reported.
    fn end<K: Addresses>(&mut self, side: &mut Side<K>) {
        match self.known(side) {
            None => {}
            Some((id, Some(idle))) if idle < u64::from(self.record.idle_ms) * MS => self.tell::<K>(id),
            Some((id, _)) => {
                // The peer knows that it has ended.
                side.table.get_mut(id).into_iter().for_each(|entry| entry.is_told = false);
                side.remove(id, self.book);
            }
        }
    }

    /// The peer leaves a connection to this firewall. If both have done so, it is owned again.
    fn yielded<K: Addresses>(&mut self, side: &mut Side<K>) {
        if let Some((id, None)) = self.known(side) {
            side.own(self.now_ns, self.timeouts, id);
            self.tell::<K>(id);
        }
    }

    fn tell<K: Addresses>(&mut self, id: FlowId) {
        self.book.told.iter_mut().for_each(|told| told.push(Change::Put(Name { six: K::SIX, id })));
    }
}

impl Firewall {
    /// What is kept of a connection becomes its record.
    fn finish(&self, now_ns: u64, gone: Gone) -> ConnectionRecord {
        let policy = &self.ruleset.policy;
        let number = |lasting: u16| {
            let present = usize::from(self.zones.present(lasting));
            policy.zones.get(present).map_or(u32::MAX, |one| name_number(&one.name))
        };
        let ConnectionRecord { protocol, state, .. } = gone.record;
        let idle_ms = idle(now_ns, &policy.timeouts, protocol, state, gone.expires_ns) / MS;
        let idle_ms = u32::try_from(idle_ms).unwrap_or(u32::MAX);
        let vrfs = gone.vrfs.map(|vrf| self.vrfs.name(vrf).map_or(0, name_number));
        ConnectionRecord { zones: gone.zones.map(number), vrfs, idle_ms, ..gone.record }
    }

    /// The VRFs of a record here.
    fn vrfs_of(&self, record: &ConnectionRecord) -> Result<[u16; 2], NotTaken> {
        let [there, back] = record.vrfs.map(|number| self.vrfs.numbered(number));
        Ok([there.ok_or(NotTaken::Policy)?, back.ok_or(NotTaken::Policy)?])
    }

    /// The number of a record's zone in the rules here.
    fn zone_of(&self, number: u32) -> Option<u8> {
        let at = self.ruleset.policy.zones.iter().position(|one| name_number(&one.name) == number)?;
        u8::try_from(at).ok().filter(|at| ![SELF, GONE].contains(at))
    }

    /// What is kept of a new connection of the peer, if the rules here accept its first packet, or that of the connection that announced it.
    fn entry_of(
        &self,
        now_ns: u64,
        record: &ConnectionRecord,
        vrfs: [u16; 2],
        track: Track,
    ) -> Result<Entry, NotTaken> {
        let [from, to] = record.zones.map(|number| self.zone_of(number));
        let zones = [from.ok_or(NotTaken::Policy)?, to.ok_or(NotTaken::Policy)?];
        let facts = Connection {
            vrfs,
            source: record.ends[0],
            destination: record.ends[1],
            protocol: record.protocol,
            ports: record.ports,
            zones,
            state: record.state,
            rule: None,
            parent: record.parent,
            packets: [0; 2],
            bytes: [0; 2],
            began_ns: now_ns,
            expires_ns: NEVER,
        }
        .facts();
        let rule = match self.ruleset.standing_of(&self.sets, &facts, now_ns) {
            Standing::Accepted(rule) => rule,
            Standing::Refused => return Err(NotTaken::Policy),
            // Its MAC address is not in the record, and the peer has accepted it.
            Standing::Unjudged => None,
        };
        let one = rule.and_then(|rule| self.ruleset.policy.rules.get(rule as usize));
        let is_stateless = one.is_some_and(|one| one.is_stateless);
        if is_stateless {
            return Err(NotTaken::Policy);
        }
        let counts_source = one.is_some_and(|one| one.counts_sources()) && record.parent.is_none();
        Ok(Entry {
            track,
            slot: self.book.slot(rule),
            zones: zones.map(|zone| self.zones.lasting(zone)),
            counts_source: counts_source && !is_over(record.state),
            parent: record.parent,
            proxy: record.shift.map(Proxy::resumed),
            is_told: true,
            is_marked: false,
            began_s: (now_ns / 1_000_000_000) as u32,
        })
    }

    /// Takes a connection of the peer.
    fn put(&mut self, now_ns: u64, record: &ConnectionRecord) -> Result<(), NotTaken> {
        let track = track(record)?;
        let vrfs = self.vrfs_of(record)?;
        let entry = self.entry_of(now_ns, record, vrfs, track.clone());
        let (present, bound) = (self.len(), self.bound());
        let entry = if present > bound { entry.and(Err(NotTaken::Full)) } else { entry };
        let Firewall { four, six, book, ruleset, .. } = self;
        let (timeouts, is_full) = (&ruleset.policy.timeouts, present >= bound);
        let mut parts = Parts { now_ns, record, vrfs, timeouts, book, is_full };
        if record.ends[0].is_ipv6() {
            parts.put::<FlowKey6>(six, four, track, entry)
        } else {
            parts.put::<FlowKey>(four, six, track, entry)
        }
    }
}

impl Table for Firewall {
    fn tells_changes(&self) -> bool {
        self.book.told.is_some()
    }

    fn tell_changes(&mut self, most: usize) {
        self.book.told = (most > 0).then(|| Told::new(most));
    }

    fn is_anew(&mut self) -> bool {
        self.book.told.as_mut().is_some_and(Changes::take_anew)
    }

    fn forget_changes(&mut self) {
        self.book.told.iter_mut().for_each(Changes::forget);
    }

    fn changes_waiting(&self) -> usize {
        self.book.told.as_ref().map_or(0, Changes::waiting)
    }

    fn changes(&mut self, now_ns: u64, most: usize, take: &mut dyn FnMut(Op, &[u8])) -> bool {
        for _ in 0..most {
            let Some(change) = self.book.told.as_mut().and_then(Changes::pop) else { break };
            let (op, one) = match change {
                Change::End(gone) => (Op::End, Some(gone)),
                Change::Yield(gone) => (Op::Yield, Some(gone)),
                Change::Put(Name { six: false, id }) => (Op::Put, self.four.tell(id)),
                Change::Put(Name { six: true, id }) => (Op::Put, self.six.tell(id)),
            };
            one.into_iter().for_each(|one| take(op, &self.finish(now_ns, one).to_bytes()));
        }
        self.book.told.as_mut().is_some_and(Changes::take_lost)
    }

    fn owned(&mut self, now_ns: u64, from: usize, most: usize, take: &mut dyn FnMut(&[u8])) -> Option<usize> {
        let (all, next) = match from.checked_sub(SIX_FROM) {
            None => {
                let (all, next) = self.four.tell_owned(now_ns, from, most);
                (all, Some(next.unwrap_or(SIX_FROM)))
            }
            Some(from) => {
                let (all, next) = self.six.tell_owned(now_ns, from, most);
                (all, next.map(|next| next + SIX_FROM))
            }
        };
        all.into_iter().for_each(|one| take(&self.finish(now_ns, one).to_bytes()));
        next
    }

    fn pass(&mut self, now_ns: u64, pass: Pass, from: usize, most: usize) -> Option<usize> {
        let timeouts = &self.ruleset.policy.timeouts;
        match from.checked_sub(SIX_FROM) {
            None => {
                let next = self.four.pass(now_ns, pass, (from, most), timeouts, &mut self.book);
                Some(next.unwrap_or(SIX_FROM))
            }
            Some(from) => {
                let next = self.six.pass(now_ns, pass, (from, most), timeouts, &mut self.book);
                next.map(|next| next + SIX_FROM)
            }
        }
    }

    fn apply(&mut self, now_ns: u64, op: Op, record: &[u8]) -> Result<(), NotTaken> {
        let record = &ConnectionRecord::from_bytes(record).ok_or(NotTaken::Malformed)?;
        if op == Op::Put {
            return self.put(now_ns, record);
        }
        let vrfs = self.vrfs_of(record)?;
        let timeouts = &self.ruleset.policy.timeouts;
        let mut parts = Parts { now_ns, record, vrfs, timeouts, book: &mut self.book, is_full: false };
        match (op, record.ends[0].is_ipv6()) {
            (Op::End, false) => parts.end(&mut self.four),
            (Op::End, true) => parts.end(&mut self.six),
            (Op::Yield, false) => parts.yielded(&mut self.four),
            (Op::Yield, true) => parts.yielded(&mut self.six),
            _ => return Err(NotTaken::Malformed),
        }
        Ok(())
    }
}
