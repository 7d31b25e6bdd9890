// SPDX-License-Identifier: MIT OR Apache-2.0
//! How sessions begin, go on and end.

use tables::flow::{FlowId, FlowKey6, InsertError};

use super::servers::Slot;
use super::{Balancer, Cause, Entry, Outcome, SERVERS, apply};
use crate::maglev::mix;
use crate::packet::{RST, Upper, View};
use crate::policy::{Mode, SECOND, TCP, UDP};
use crate::track::{Side, Track};

/// Sessions that are looked at when there is no room.
const SWEPT: usize = 128;
/// Other servers that are tried if the first one has a session with the same client port by another service.
const TRIES: u64 = 8;
/// Answers to packets without a session may come for so long after the last of them.
const ANSWERS_NS: u64 = 300 * SECOND;

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
        let Some(mut slot) = self.choose(service, hash) else {
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
                    self.note(now_ns, id, view, Side::Client);
                    return apply::request(ip, view, &self.slots[slot as usize]);
                }
                Err(Refusal::Full) => return self.by_hash(now_ns, ip, view, service, slot),
                Err(Refusal::Taken(id)) => clash = clash.or(Some((id, slot))),
            }
            slot = self.choose(service, mix(hash.wrapping_add(n))).unwrap_or(slot);
        }
        self.push_out(now_ns, ip, view, key, clash)
    }

    /// All servers that were tried have a session with this client port. One that is not agreed on gives way.
    fn push_out(
        &mut self,
        now_ns: u64,
        ip: &mut [u8],
        view: &View,
        key: &FlowKey6,
        clash: Option<(FlowId, u32)>,
    ) -> Outcome {
        let Some((other, slot)) = clash else { return Outcome::Drop(Cause::Taken) };
        let settled = self
            .sessions
            .flow(other)
            .is_some_and(|flow| flow.expires_ns > now_ns && flow.value.track.is_settled());
        if settled {
            return Outcome::Drop(Cause::Taken);
        }
        self.end(other);
        match self.insert(now_ns, view, key, slot) {
            Ok(id) => {
                self.note(now_ns, id, view, Side::Client);
                apply::request(ip, view, &self.slots[slot as usize])
            }
            Err(_) => Outcome::Drop(Cause::Taken),
        }
    }

    /// A packet goes without a session.
    fn by_hash(&mut self, now_ns: u64, ip: &mut [u8], view: &View, service: usize, slot: u32) -> Outcome {
        self.faces[service].by_hash += 1;
        if self.mode(slot) == Mode::Nat {
            self.by_hash_until_ns = now_ns.saturating_add(ANSWERS_NS);
        }
        self.count(slot, view, Side::Client);
        apply::request(ip, view, &self.slots[slot as usize])
    }

    fn insert(&mut self, now_ns: u64, view: &View, key: &FlowKey6, slot: u32) -> Result<FlowId, Refusal> {
        self.make_room(now_ns)?;
        let reply = reply_key(key, &self.slots[slot as usize]);
        let entry = Entry { slot, track: Track::default(), began_s: (now_ns / SECOND) as u32 };
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
        let found = self
            .sessions
            .sweep(&mut self.hand, SWEPT, |flow| !flow.value.track.is_settled() || flow.expires_ns <= now_ns);
        self.end(found.ok_or(Refusal::Full)?);
        Ok(())
    }

    /// Notes a packet of a session.
    #[inline]
    pub(super) fn note(&mut self, now_ns: u64, id: FlowId, view: &View, side: Side) {
        let Some(entry) = self.sessions.get_mut(id) else { return };
        let slot = &mut self.slots[entry.slot as usize];
        entry.track.note(view.protocol(), slot.mode, side, view.flags());
        slot.packets[side as usize] += 1;
        slot.bytes[side as usize] += u64::from(view.length);
        let idle = entry.track.timeout(view.protocol(), slot.mode, &self.policy.timeouts);
        self.sessions.set_expiry(id, now_ns + idle);
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
        let slot = &mut self.slots[number as usize];
        slot.sessions -= 1;
        if slot.sessions == 0 && slot.service.is_none() && !slot.is_free {
            slot.is_free = true;
            self.free.push(number);
        }
    }

    /// What would happen to a client's packet.
    pub(super) fn rehearse_client(&self, now_ns: u64, ip: &mut [u8], view: &View, key: &FlowKey6) -> Outcome {
        let known = self.sessions.lookup(key).and_then(|hit| self.stays(now_ns, hit.id, view.flags()));
        if let Some(slot) = known {
            return apply::request(ip, view, &self.slots[slot as usize]);
        }
        let is_answer = matches!(view.upper, Upper::Answer { .. });
        let service = self.service_of(view.protocol(), view.destination, key.dport);
        let Some(service) = service.filter(|_| !is_answer) else { return Outcome::Unchanged };
        match self.choose(service, self.hash(service, key)) {
            Some(slot) => apply::request(ip, view, &self.slots[slot as usize]),
            None => Outcome::Drop(Cause::NoServer),
        }
    }
}
