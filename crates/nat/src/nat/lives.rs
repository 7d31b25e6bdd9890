// SPDX-License-Identifier: MIT OR Apache-2.0
//! How sessions and mappings begin and end.

use std::sync::Arc;

use tables::flow::{Flow, FlowId, FlowKey, FlowTable, NEVER};

use super::subscribers::Grant;
use super::{Cause, Entry, INSIDE, Mapping, NO_MAPPING, Nat, OUTSIDE, SWEPT, key, mapping_keys};
use crate::hosts::{Hosts, is_stand_in};
use crate::journal::{Change, Log, What};
use crate::packet::{RST, Upper, View};
use crate::policy::{Allocation, Filter, SECOND, TCP, UDP};
use crate::ports::{Kind, Wanted};
use crate::track::Track;

/// That a session begins or ends.
pub(super) fn session_event(hosts: &Hosts, change: Change, forward: &FlowKey, outside: (u32, u16)) -> What {
    What::Session {
        change,
        protocol: forward.proto,
        inside: (hosts.name(forward.src), forward.sport),
        outside: (outside.0.into(), outside.1),
        peer: (forward.dst.into(), forward.dport),
    }
}

/// Whether a session says that a peer may come from any of its ports: see `alg.rs`.
fn is_expectation(forward: &FlowKey) -> bool {
    forward.dport == 0 && matches!(forward.proto, TCP | UDP)
}

impl Nat {
    /// Begins a session of a packet that leaves, by a translation, or by none for the router's own.
    pub(super) fn begin(&mut self, now_ns: u64, view: &View, by: Option<u16>) -> Result<FlowId, Cause> {
        self.begin_wanting(now_ns, view, by, Wanted::Any)
    }

    /// The same, with the outside port that is wanted, if the inside one has none yet.
    pub(super) fn begin_wanting(
        &mut self,
        now_ns: u64,
        view: &View,
        by: Option<u16>,
        wanted: Wanted,
    ) -> Result<FlowId, Cause> {
        self.may_have_address(view.source, by)?;
        self.make_room(now_ns, false)?;
        let forward = key(view, INSIDE);
        let inside = (forward.src, forward.sport);
        // The last session of an IPv6 host may have made this room.
        if is_stand_in(inside.0) && self.subscribers.hosts.mark(inside.0).is_none() {
            return Err(Cause::Full);
        }
        let policy = Arc::clone(&self.policy);
        let grant = Grant::by(&policy, by, || self.own_range(inside.0));
        self.subscribers.admit(inside.0, by, &grant, Kind::of(view.protocol), &mut self.rng)?;
        let Some(kind) = Kind::of(view.protocol) else {
            let outside = (self.subscribers.outside_of(inside.0).ok_or(Cause::NoPort)?, forward.sport);
            let begun = self.insert(now_ns, view, forward, outside, None, true);
            return begun.inspect_err(|_| self.subscribers.forget_idle(inside.0));
        };
        let (mapping, outside) = match self.mapping_from(view.protocol, inside) {
            Some(known) => known,
            None => {
                let outside = self.subscribers.take_port((kind, wanted), inside, &grant, &mut self.rng)?;
                let keys = mapping_keys(view.protocol, inside, outside);
                let value = Mapping { sessions: 0, translation: by };
                // There are no more mappings than sessions, and the port was free.
                let made = self.mappings.insert(keys[0], keys[1], value, NEVER);
                match made {
                    Ok(id) => (id, outside),
                    Err(_) => {
                        self.subscribers.give_back(kind, inside, outside, &grant, false);
                        return Err(Cause::Full);
                    }
                }
            }
        };
        let begun = self.insert(now_ns, view, forward, outside, Some(mapping), true);
        if begun.is_err() {
            self.leave_mapping(mapping, false);
        }
        begun
    }

    /// Begins a session of a packet that a forward leads to an inside address and port.
    pub(super) fn begin_forward(
        &mut self,
        now_ns: u64,
        view: &View,
        target: (u32, u16),
    ) -> Result<FlowId, Cause> {
        self.make_room(now_ns, true)?;
        let reply = key(view, OUTSIDE);
        let forward = FlowKey { src: target.0, sport: target.1, zone: INSIDE, ..reply.reversed() };
        // The server may have a session with this peer by another outside port: the peer decides which one it uses.
        if let Some(hit) = self.sessions.lookup(&forward) {
            self.remove(hit.id);
        }
        self.insert(now_ns, view, forward, (reply.dst, reply.dport), None, false)
    }

    /// Begins a session of a packet of a host with an outside address for itself, if its text is looked at; from a side. Sessions of such hosts count as those of forwards: outsiders may begin them.
    pub(super) fn begin_static(
        &mut self,
        now_ns: u64,
        view: &View,
        forward: FlowKey,
        outside: u32,
    ) -> Option<FlowId> {
        let is_end =
            matches!(view.upper, Upper::Ports { flags, .. } if view.protocol == TCP && flags & RST != 0);
        if is_end || !self.has_text(&forward) {
            return None;
        }
        self.make_room(now_ns, true).ok()?;
        self.insert(now_ns, view, forward, (outside, forward.sport), None, false).ok()
    }

    /// Begins a session of a packet that leaves from an inside address and port which a forward leads to.
    pub(super) fn begin_forwarded(
        &mut self,
        now_ns: u64,
        view: &View,
        outside: (u32, u16),
    ) -> Result<FlowId, Cause> {
        let policy = Arc::clone(&self.policy);
        let by = self.translation(view.source);
        self.may_have_address(view.source, by.map(|by| by as u16))?;
        self.make_room(now_ns, by.is_none())?;
        // It is a session like others of this host.
        if let Some(by) = by {
            let grant = Grant::Of(&policy.translations[by]);
            self.subscribers.admit(view.source, Some(by as u16), &grant, None, &mut self.rng)?;
        }
        let made = self.insert(now_ns, view, key(view, INSIDE), outside, None, by.is_some());
        made.inspect_err(|_| self.subscribers.forget_idle(view.source))
    }

    /// The ports that the router itself may get on an outside address in place of one that is taken.
    fn own_range(&self, outside: u32) -> Option<(u16, u16)> {
        let mut on =
            self.policy.translations.iter().filter(|one| one.pool.iter().any(|range| range.holds(outside)));
        on.find(|one| one.allocation == Allocation::Random).map(|one| one.ports)
    }

    /// Enters a session whose inside end has this outside address and port.
    fn insert(
        &mut self,
        now_ns: u64,
        view: &View,
        forward: FlowKey,
        outside: (u32, u16),
        mapping: Option<FlowId>,
        counts: bool,
    ) -> Result<FlowId, Cause> {
        let reply = FlowKey { dst: outside.0, dport: outside.1, zone: OUTSIDE, ..forward.reversed() };
        let track = Track::default();
        let began_s = (now_ns / SECOND) as u32;
        let is_watched = self.is_watched(&forward);
        let number = mapping.map_or(NO_MAPPING, FlowTable::<Mapping>::number);
        let entry = Entry { mapping: number, began_s, track, counts, is_watched };
        let idle = track.timeout(view.protocol, &self.policy.timeouts);
        // Two inside hosts may want the same: protocols without ports, and ports that are not translated.
        let id = self.sessions.insert(forward, reply, entry, now_ns + idle).map_err(|_| Cause::NoPort)?;
        self.tally.begin(Nat::number(id), [0; 2], [0; 2]);
        self.count(&forward, mapping, counts);
        self.note_session(Change::Begins, &forward, outside);
        if let Some(made) = &mut self.rehearsed {
            made.push(id);
        }
        Ok(id)
    }

    /// Counts a session that has started.
    pub(super) fn count(&mut self, forward: &FlowKey, mapping: Option<FlowId>, counts: bool) {
        if let Some(mapping) = mapping {
            self.mappings.get_mut(mapping).into_iter().for_each(|mapping| mapping.sessions += 1);
            if self.policy.filter == Filter::AddressDependent {
                *self.peers.entry((mapping, forward.dst)).or_default() += 1;
            }
        }
        if counts {
            self.subscribers.session(forward.src, 1);
        } else {
            self.of_forwards += 1;
        }
        if is_expectation(forward) {
            *self.expected.entry(forward.src).or_default() += 1;
        }
        self.subscribers.hosts.count(forward.src, 1);
    }

    /// Makes room for a session: those that both sides have not agreed on, or no more, give way. Those of forwards may be half of all, and
    /// give way to each other: outsiders make them. Of them those of UDP never count as agreed on.
    fn make_room(&mut self, now_ns: u64, is_of_forward: bool) -> Result<(), Cause> {
        let are_too_many = is_of_forward && self.of_forwards >= self.sessions.capacity().div_ceil(2);
        if self.sessions.len() < self.sessions.capacity() && !are_too_many {
            return Ok(());
        }
        if self.rehearsed.is_some() {
            return Err(Cause::Full);
        }
        let may_go = |flow: Flow<&Entry>| {
            let protocol = flow.forward.proto;
            let is_settled = flow.value.track.is_settled(protocol) && (flow.value.counts || protocol == TCP);
            (!is_settled || flow.expires_ns <= now_ns) && !(are_too_many && flow.value.counts)
        };
        let found = self.sessions.sweep(&mut self.hand, SWEPT, may_go).ok_or(Cause::Full)?;
        self.remove(found);
        Ok(())
    }

    /// Ends a session, and its mapping with the last one.
    pub(super) fn remove(&mut self, id: FlowId) {
        self.take_out(id, self.policy.filter == Filter::EndpointIndependent);
    }

    /// Ends a session. `waits`: a port that becomes free by it is nobody else's for a while.
    pub(super) fn take_out(&mut self, id: FlowId, waits: bool) {
        let Some(flow) = self.sessions.remove(id) else { return };
        self.note_end(&flow);
        let Flow { forward, reply, value, .. } = flow;
        self.note_session(Change::Ends, &forward, (reply.dst, reply.dport));
        if value.is_watched {
            self.streams.remove(&Nat::number(id));
            self.awaited.remove(&Nat::number(id));
        }
        if value.counts {
            self.subscribers.session(forward.src, -1);
        } else {
            self.of_forwards -= 1;
        }
        if let Some(mapping) = self.mappings.id(value.mapping) {
            if let Some(count) = self.peers.get_mut(&(mapping, forward.dst)) {
                *count -= 1;
                if *count == 0 {
                    self.peers.remove(&(mapping, forward.dst));
                }
            }
            if let Some(mapping) = self.mappings.get_mut(mapping) {
                mapping.sessions -= 1;
            }
            self.leave_mapping(mapping, waits);
        }
        if is_expectation(&forward)
            && let Some(count) = self.expected.get_mut(&forward.src)
        {
            *count -= 1;
            if *count == 0 {
                self.expected.remove(&forward.src);
            }
        }
        self.subscribers.forget_idle(forward.src);
        self.subscribers.hosts.count(forward.src, -1);
    }

    /// Notes that a session begins or ends.
    pub(super) fn note_session(&mut self, change: Change, forward: &FlowKey, outside: (u32, u16)) {
        self.subscribers.note(Log::Sessions, |hosts| session_event(hosts, change, forward, outside));
    }

    /// Ends a mapping that has no session.
    pub(super) fn leave_mapping(&mut self, id: FlowId, waits: bool) {
        if self.mappings.get(id).is_none_or(|mapping| mapping.sessions > 0) {
            return;
        }
        let Some(Flow { forward, reply, value, .. }) = self.mappings.remove(id) else { return };
        let policy = Arc::clone(&self.policy);
        let grant = Grant::by(&policy, value.translation, || None);
        if let Some(kind) = Kind::of(forward.proto) {
            let (inside, outside) = ((forward.src, forward.sport), (reply.dst, reply.dport));
            self.subscribers.give_back(kind, inside, outside, &grant, waits && kind != Kind::Tcp);
        }
    }
}
