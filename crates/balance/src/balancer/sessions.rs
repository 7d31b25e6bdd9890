// SPDX-License-Identifier: MIT OR Apache-2.0
//! How sessions begin, go on and end.

use tables::flow::{Flow, FlowId, FlowKey6, InsertError};

use super::servers::Slot;
use super::{Balancer, Cause, Entry, Outcome, SERVERS, apply};
use crate::maglev::mix;
use crate::packet::{RST, Upper, View};
use crate::policy::{Mode, SECOND, TCP, UDP};
use crate::tally::{Marks, Tally};
use crate::track::{Side, Track, is_weak};

/// Sessions that are looked at when there is no room.
const SWEPT: usize = 128;
/// Other servers that are tried if the first one has a session with the same client port by another service.
const TRIES: u64 = 8;
/// A session that a stranger can have made gives way after so long without a packet.
const WEAK_IDLE_NS: u64 = 60 * SECOND;
/// So long a session that is not agreed on keeps its client port from other services.
const CLASH_IDLE_NS: u64 = 10 * SECOND;
/// Answers to packets without a session may come for so long after the last of them.
const ANSWERS_NS: u64 = 300 * SECOND;

/// If no session of the whole table gives way, nobody looks again for so long.
const REST_NS: u64 = SECOND / 10;

/// The search for a session that gives way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hand {
    /// Where it goes on.
    at: usize,
    /// Sessions that were looked at in vain, one after the other.
    vain: usize,
    /// Until then it would be in vain again.
    rest_until_ns: u64,
}

/// Why there is no session.
enum Refusal {
    /// There is no room.
    Full,
    /// The server could not tell its packets from those of another one.
    Taken(FlowId),
}

/// The key of answers; that of requests if none pass.
fn reply_key(forward: &FlowKey6, slot: &Slot) -> FlowKey6 {
    match slot.mode {
        Mode::Direct => *forward,
        Mode::Nat => {
            let has_ports = matches!(forward.proto, TCP | UDP);
            let port = slot.port.filter(|_| has_ports).unwrap_or(forward.dport);
            FlowKey6 { src: slot.address, sport: port, zone: SERVERS, ..forward.reversed() }
        }
    }
}

impl Balancer {
    /// A packet of a client that belongs to no session.
    pub(super) fn begin(&mut self, now_ns: u64, ip: &mut [u8], view: &View, key: &FlowKey6) -> Outcome {
        // Answers of ICMP are for the router, if it has asked.
        let is_answer = matches!(view.upper, Upper::Answer { .. });
        let service = self.service_of(view.protocol(), view.destination, key.dport);
        let Some(service) = service.filter(|_| !is_answer) else { return Outcome::Unchanged };
        let hash = self.hash(service, key);
        let Some(mut slot) = self.server_for(now_ns, service, key.src, hash) else {
            self.faces[service].refused += 1;
            return Outcome::Drop(Cause::NoServer);
        };
        if view.flags() & RST != 0 {
            // The end of a connection begins no session.
            self.count(slot, view, Side::Client);
            return apply::request(ip, view, &self.slots[slot as usize]);
        }
        let mut clash = None;
        for n in 1..=TRIES {
            match self.insert(now_ns, view, key, slot) {
                Ok(id) => {
                    self.bind_session(now_ns, service, id, slot);
                    self.note(now_ns, id, view, Side::Client);
                    return apply::request(ip, view, &self.slots[slot as usize]);
                }
                Err(Refusal::Full) => return self.by_hash(now_ns, ip, view, key, slot),
                Err(Refusal::Taken(id)) => clash = clash.or(Some((id, slot))),
            }
            slot = self.choose(service, mix(hash.wrapping_add(n))).unwrap_or(slot);
        }
        self.push_out(now_ns, ip, view, key, clash)
    }

    /// A session with a server starts: it may count for its client's bond.
    fn bind_session(&mut self, now_ns: u64, service: usize, id: FlowId, slot: u32) {
        let Some(client) = self.sessions.flow(id).map(|flow| flow.forward.src) else { return };
        if self.bind(now_ns, service, client, slot)
            && let Some(entry) = self.sessions.get_mut(id)
        {
            entry.marks.bind();
        }
    }

    /// All servers that were tried have a session with this client port. One that is not agreed on, and is idle, gives way.
    fn push_out(
        &mut self,
        now_ns: u64,
        ip: &mut [u8],
        view: &View,
        key: &FlowKey6,
        clash: Option<(FlowId, u32)>,
    ) -> Outcome {
        let Some((other, slot)) = clash.filter(|(other, _)| self.is_left(now_ns, *other)) else {
            return Outcome::Drop(Cause::Taken);
        };
        self.end(other);
        match self.insert(now_ns, view, key, slot) {
            Ok(id) => {
                if let Some(service) = self.slots[slot as usize].service {
                    self.bind_session(now_ns, service.into(), id, slot);
                }
                self.note(now_ns, id, view, Side::Client);
                apply::request(ip, view, &self.slots[slot as usize])
            }
            Err(_) => Outcome::Drop(Cause::Taken),
        }
    }

    /// Whether a session has ended, or nobody has gone on with it.
    fn is_left(&self, now_ns: u64, id: FlowId) -> bool {
        self.sessions.flow(id).is_none_or(|flow| {
            let is_idle = self.idle_ns(now_ns, &flow) >= CLASH_IDLE_NS;
            flow.expires_ns <= now_ns || (is_idle && !flow.value.track.is_settled())
        })
    }

    /// For how long a session has had no packet.
    fn idle_ns(&self, now_ns: u64, flow: &Flow<&Entry, FlowKey6>) -> u64 {
        let mode = self.mode(flow.value.slot);
        let whole = flow.value.track.timeout(flow.forward.proto, mode, &self.policy.timeouts);
        whole.saturating_sub(flow.expires_ns.saturating_sub(now_ns))
    }

    /// A packet goes without a session, if its answers will find their way back.
    fn by_hash(&mut self, now_ns: u64, ip: &mut [u8], view: &View, key: &FlowKey6, slot: u32) -> Outcome {
        if !self.has_way_back(now_ns, key, slot) {
            return Outcome::Drop(Cause::Full);
        }
        if let Some(service) = self.slots[slot as usize].service {
            self.faces[usize::from(service)].by_hash += 1;
        }
        self.expect_answers(now_ns, slot);
        self.count(slot, view, Side::Client);
        apply::request(ip, view, &self.slots[slot as usize])
    }

    /// Whether answers to a packet without a session get the address of its service, and not that of another one.
    fn has_way_back(&self, now_ns: u64, key: &FlowKey6, slot: u32) -> bool {
        if self.mode(slot) == Mode::Direct {
            return true;
        }
        let reply = reply_key(key, &self.slots[slot as usize]);
        self.sessions.lookup(&reply).is_none()
            && self.only_service_of(now_ns, &reply) == Some((key.dst, key.dport))
    }

    /// Answers of a server may come without a session.
    pub(super) fn expect_answers(&mut self, now_ns: u64, slot: u32) {
        if self.mode(slot) == Mode::Nat {
            self.by_hash_until_ns = now_ns.saturating_add(ANSWERS_NS);
        }
    }

    fn insert(&mut self, now_ns: u64, view: &View, key: &FlowKey6, slot: u32) -> Result<FlowId, Refusal> {
        self.make_room(now_ns)?;
        let reply = reply_key(key, &self.slots[slot as usize]);
        let began_s = (now_ns / SECOND) as u32;
        let (track, tally, marks) = (Track::default(), Tally::default(), Marks::default());
        let entry = Entry { slot, began_s, tally, epoch: self.epoch, track, marks };
        let idle = entry.track.timeout(view.protocol(), self.mode(slot), &self.policy.timeouts);
        match self.sessions.insert(*key, reply, entry, now_ns + idle) {
            Ok(id) => {
                let slot = &mut self.slots[slot as usize];
                slot.sessions += 1;
                slot.begun += 1;
                Ok(id)
            }
            Err(InsertError::Exists { other, .. }) => Err(Refusal::Taken(other)),
            Err(InsertError::Full { .. }) => Err(Refusal::Full),
        }
    }

    /// Makes room for a session: one that is not agreed on, or no more, gives way.
    fn make_room(&mut self, now_ns: u64) -> Result<(), Refusal> {
        if self.sessions.len() < self.sessions.capacity() {
            return Ok(());
        }
        if now_ns < self.hand.rest_until_ns {
            return Err(Refusal::Full);
        }
        let (found, at) = self.dispensable(now_ns);
        self.hand.at = at;
        self.hand.vain = if found.is_some() { 0 } else { self.hand.vain + SWEPT };
        if self.hand.vain >= self.sessions.len() {
            self.hand = Hand { at, vain: 0, rest_until_ns: now_ns + REST_NS };
        }
        let id = found.ok_or(Refusal::Full)?;
        if let Some(flow) = self.sessions.flow(id).filter(|flow| flow.expires_ns > now_ns) {
            // Its answer may be under way.
            self.expect_answers(now_ns, flow.value.slot);
        }
        self.end(id);
        // There may be more sessions than the file allows now.
        if self.sessions.len() < self.sessions.capacity() { Ok(()) } else { Err(Refusal::Full) }
    }

    /// A session that gives way, and where to look next time. If all are agreed on, it is one that a stranger can have made: the one that is idle for longest.
    fn dispensable(&self, now_ns: u64) -> (Option<FlowId>, usize) {
        let (mut hand, mut weakest) = (self.hand.at, None);
        if now_ns < self.hand.rest_until_ns {
            return (None, hand);
        }
        let found = self.sessions.sweep(&mut hand, SWEPT, |flow| {
            if flow.expires_ns <= now_ns || !flow.value.track.is_settled() {
                return true;
            }
            let idle_ns = self.idle_ns(now_ns, &flow);
            let is_longer = weakest.is_none_or(|(longest, _)| idle_ns > longest);
            let is_weak = is_weak(flow.forward.proto, self.mode(flow.value.slot));
            if is_weak && is_longer && idle_ns >= WEAK_IDLE_NS {
                weakest = Some((idle_ns, flow.forward));
            }
            false
        });
        let weakest = || self.sessions.lookup(&weakest?.1).map(|hit| hit.id);
        (found.or_else(weakest), hand)
    }

    /// Notes a packet of a session.
    #[inline]
    pub(super) fn note(&mut self, now_ns: u64, id: FlowId, view: &View, side: Side) {
        let Some(entry) = self.sessions.get_mut(id) else { return };
        let slot = &mut self.slots[entry.slot as usize];
        let was_settled = entry.track.is_settled();
        entry.track.note(view.protocol(), slot.mode, side, view.flags());
        entry.tally.note(&mut entry.marks, side as usize, view.length);
        slot.packets[side as usize] += 1;
        slot.bytes[side as usize] += u64::from(view.length);
        let idle = entry.track.timeout(view.protocol(), slot.mode, &self.policy.timeouts);
        let agrees = entry.marks.is_bound() && !was_settled && entry.track.is_settled();
        let number = entry.slot;
        self.sessions.set_expiry(id, now_ns + idle);
        if agrees {
            // Only the client's own packets agree.
            self.agree(view.source, number);
        }
    }

    fn count(&mut self, slot: u32, view: &View, side: Side) {
        let slot = &mut self.slots[slot as usize];
        slot.packets[side as usize] += 1;
        slot.bytes[side as usize] += u64::from(view.length);
    }

    /// Ends a session.
    pub(super) fn end(&mut self, id: FlowId) {
        let Some(flow) = self.sessions.remove(id) else { return };
        let number = flow.value.slot;
        if flow.value.marks.is_bound() {
            self.unbind(flow.forward.src, number);
        }
        let slot = &mut self.slots[number as usize];
        slot.sessions -= 1;
        if slot.sessions == 0 && slot.service.is_none() && !slot.is_free {
            slot.is_free = true;
            self.free.push(number);
        }
    }

    /// What would happen to a client's packet.
    pub(super) fn rehearse_client(&self, now_ns: u64, ip: &mut [u8], view: &View, key: &FlowKey6) -> Outcome {
        let own = self.sessions.lookup(key).map(|hit| hit.id);
        if let Some(slot) = own.and_then(|id| self.stays(now_ns, id, view.flags())) {
            return apply::request(ip, view, &self.slots[slot as usize]);
        }
        let is_answer = matches!(view.upper, Upper::Answer { .. });
        let service = self.service_of(view.protocol(), view.destination, key.dport);
        let Some(service) = service.filter(|_| !is_answer) else { return Outcome::Unchanged };
        let hash = self.hash(service, key);
        let Some(first) = self.server_for(now_ns, service, key.src, hash) else {
            return Outcome::Drop(Cause::NoServer);
        };
        let has_room = own.is_some() || self.sessions.len() < self.sessions.capacity();
        let is_over = self.sessions.len() > self.sessions.capacity();
        let gone = if has_room || is_over { None } else { self.dispensable(now_ns).0 };
        let slot = match () {
            () if view.flags() & RST != 0 => Ok(first),
            () if has_room || gone.is_some() => self.rehearse_tries(now_ns, service, key, [own, gone]),
            () if self.has_way_back(now_ns, key, first) => Ok(first),
            () => Err(Cause::Full),
        };
        match slot {
            Ok(slot) => apply::request(ip, view, &self.slots[slot as usize]),
            Err(cause) => Outcome::Drop(cause),
        }
    }

    /// The first server that could have a session of a client, if some sessions are gone.
    fn rehearse_tries(
        &self,
        now_ns: u64,
        service: usize,
        key: &FlowKey6,
        gone: [Option<FlowId>; 2],
    ) -> Result<u32, Cause> {
        let hash = self.hash(service, key);
        let mut clash = None;
        for n in 0..TRIES {
            let chosen = match n {
                0 => self.server_for(now_ns, service, key.src, hash),
                n => self.choose(service, mix(hash.wrapping_add(n))),
            };
            let Some(slot) = chosen.or(clash.map(|(_, slot)| slot)) else { break };
            let other = self.sessions.lookup(&reply_key(key, &self.slots[slot as usize])).map(|hit| hit.id);
            match other.filter(|_| !gone.contains(&other)) {
                None => return Ok(slot),
                Some(other) => clash = clash.or(Some((other, slot))),
            }
        }
        clash.filter(|(other, _)| self.is_left(now_ns, *other)).map(|(_, slot)| slot).ok_or(Cause::Taken)
    }
}
