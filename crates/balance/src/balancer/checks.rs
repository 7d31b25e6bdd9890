// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens in time: probes leave, answers come or do not, and tables are built. Each call does a bounded part of it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use super::Balancer;
use crate::health::{Next, Watch};
use crate::maglev::Builder;
use crate::packet::{View, address};
use crate::policy::{Check, Kind};
use crate::probe::{Answer, Ask, Probe, make, read};

/// Events of a call at most: 64,000 in a second, and a probe has one or two. See [`PROBES_MAX`](crate::policy::PROBES_MAX).
const EVENTS: usize = 64;
/// Places of a table that a call looks at.
const LOOKS: usize = 8192;
/// Records of a table that a call looks at, if that gets another capacity.
const RECORDS: usize = 1024;
/// When the next call is due, if there is more to do.
const SOON_NS: u64 = 1_000_000;
/// The router's ports that probes come from.
const LOCAL: std::ops::RangeInclusive<u16> = 32_768..=60_999;

/// Checks and tables that are under way.
#[derive(Debug, Default)]
pub(super) struct Checks {
    /// When something is due for a slot. An entry that does not say what its slot says is void.
    agenda: BinaryHeap<Reverse<(u64, u32)>>,
    /// The slot that a probe was sent to: server, port, local port.
    waiting: HashMap<(u128, u16, u16), u32>,
    outbox: Vec<Probe>,
    /// The table that is being built, and for which service.
    building: Option<(usize, Builder)>,
    /// The service whose turn is next.
    next: usize,
    /// Whether some table is due.
    pub(super) has_stale: bool,
}

impl Balancer {
    /// Goes on with checks and tables, and sends probes. Returns when it should be called again.
    pub fn work(&mut self, now_ns: u64, mut send: impl FnMut(&Probe)) -> Option<u64> {
        let mut events = 0;
        while let Some(Reverse((at_ns, slot))) = self.checks.agenda.peek().copied() {
            if at_ns > now_ns || events == EVENTS {
                break;
            }
            self.checks.agenda.pop();
            events += 1;
            self.event(now_ns, at_ns, slot);
        }
        self.checks.outbox.drain(..).for_each(|probe| send(&probe));
        self.build();
        let is_resizing = self.resize_some(RECORDS);
        let next = self.checks.agenda.peek().map(|Reverse((at_ns, _))| *at_ns);
        match next {
            _ if self.checks.has_stale || is_resizing => Some(now_ns + SOON_NS),
            Some(at_ns) if at_ns <= now_ns => Some(now_ns + SOON_NS),
            next => next,
        }
    }

    /// Answers that the last packets have called for are to be sent.
    pub fn has_mail(&self) -> bool {
        !self.checks.outbox.is_empty()
    }

    /// The check of a slot.
    fn check_of(&self, slot: u32) -> Option<Check> {
        let service = self.slots.get(slot as usize)?.service?;
        self.policy.services[usize::from(service)].check
    }

    /// The port that a check of a slot asks; 0 for an echo.
    fn port_of(&self, slot: u32, check: &Check) -> u16 {
        let slot = &self.slots[slot as usize];
        match check.kind {
            Kind::Icmp => 0,
            Kind::Tcp(port) => {
                let service = slot.service.map(|at| &self.policy.services[usize::from(at)]);
                let first = || service.and_then(|service| service.ports.first()).map(|(low, _)| *low);
                port.or(slot.port).or_else(first).unwrap_or_default()
            }
        }
    }

    fn event(&mut self, now_ns: u64, at_ns: u64, slot: u32) {
        let Some(check) = self.check_of(slot) else { return };
        let next = self.slots[slot as usize].watch.next;
        if next.time() != Some(at_ns) {
            return;
        }
        match next {
            Next::Nothing => {}
            Next::Probe { .. } => self.probe(now_ns, slot, &check),
            Next::Answer { sent_ns, token, local, .. } => {
                self.forget(slot, &check, local);
                if matches!(check.kind, Kind::Tcp(_)) {
                    // The server may be about to answer.
                    self.ask(slot, Ask::Reset { local, port: self.port_of(slot, &check), token });
                }
                self.result(now_ns, slot, &check, sent_ns, false);
            }
        }
    }

    fn probe(&mut self, now_ns: u64, slot: u32, check: &Check) {
        let (port, server) = (self.port_of(slot, check), self.slots[slot as usize].address);
        let (token, mut local) = (self.rng.u32(..), 0);
        let is_free = (0..16).any(|_| {
            local = self.rng.u16(LOCAL);
            !self.checks.waiting.contains_key(&(server, port, local))
        });
        let until_ns = now_ns + check.timeout_ns;
        let next = match is_free {
            true => Next::Answer { sent_ns: now_ns, until_ns, token, local },
            false => Next::Probe { at_ns: until_ns },
        };
        self.plan(slot, next);
        if !is_free {
            return;
        }
        self.checks.waiting.insert((server, port, local), slot);
        self.ask(
            slot,
            match check.kind {
                Kind::Tcp(_) => Ask::Syn { local, port, token },
                Kind::Icmp => Ask::Echo { local, token },
            },
        );
    }

    fn ask(&mut self, slot: u32, ask: Ask) {
        let to = address(self.slots[slot as usize].address);
        let probe = self.policy.own_for(to).and_then(|from| make(from, to, ask));
        self.checks.outbox.extend(probe);
    }

    fn plan(&mut self, slot: u32, next: Next) {
        self.slots[slot as usize].watch.next = next;
        self.checks.agenda.extend(next.time().map(|at_ns| Reverse((at_ns, slot))));
    }

    fn forget(&mut self, slot: u32, check: &Check, local: u16) {
        let key = (self.slots[slot as usize].address, self.port_of(slot, check), local);
        self.checks.waiting.remove(&key);
    }

    /// Takes the result of a probe, and plans the next one: a tenth earlier or later, so that routers and servers do not fall into step.
    fn result(&mut self, now_ns: u64, slot: u32, check: &Check, sent_ns: u64, is_alive: bool) {
        let spread = check.every_ns / 5;
        let at_ns = sent_ns + check.every_ns - spread / 2 + self.rng.u64(0..=spread);
        self.plan(slot, Next::Probe { at_ns: at_ns.max(now_ns) });
        let changed = self.slots[slot as usize].watch.take(now_ns, is_alive, check);
        if let Some(service) = self.slots[slot as usize].service.filter(|_| changed) {
            self.outdate(usize::from(service));
        }
    }

    /// The slot of the probe that a packet from a server to the router answers, and whether it is alive.
    pub(super) fn answered(&self, ip: &[u8], view: &View) -> Option<(u32, Answer)> {
        let answer = read(view.protocol(), view.transport(ip))?;
        let slot = *self.checks.waiting.get(&(view.source, answer.port, answer.local))?;
        let to = self.policy.own_for(address(view.source)).map(crate::packet::number);
        let Next::Answer { token, local, .. } = self.slots[slot as usize].watch.next else { return None };
        let is_its = token == answer.token && local == answer.local && to == Some(view.destination);
        is_its.then_some((slot, answer))
    }

    /// Takes a packet from a server to the router. Returns whether it answers a probe.
    pub(super) fn answer(&mut self, now_ns: u64, ip: &[u8], view: &View) -> bool {
        let Some((slot, Answer { port, local, token, is_alive })) = self.answered(ip, view) else {
            return false;
        };
        let next = self.slots[slot as usize].watch.next;
        let (Some(check), Next::Answer { sent_ns, until_ns, .. }) = (self.check_of(slot), next) else {
            return false;
        };
        self.checks.waiting.remove(&(view.source, port, local));
        if is_alive && matches!(check.kind, Kind::Tcp(_)) {
            self.ask(slot, Ask::Reset { local, port, token });
        }
        // The timer may be late: an answer after the time is a failure all the same.
        self.result(now_ns, slot, &check, sent_ns, is_alive && now_ns < until_ns);
        true
    }

    /// Goes on with the table that is due.
    fn build(&mut self) {
        if self.checks.building.is_none() {
            let (services, next) = (self.faces.len(), self.checks.next.min(self.faces.len()));
            let Some(service) = (next..services).chain(0..next).find(|at| self.faces[*at].is_stale) else {
                self.checks.has_stale = false;
                return;
            };
            self.checks.next = service + 1;
            let size = self.policy.services[service].table_size();
            self.checks.building = Some((service, Builder::new(&self.members_now(service), size)));
        }
        let Some((service, builder)) = &mut self.checks.building else { return };
        let service = *service;
        if !builder.step(LOOKS) {
            return;
        }
        let Some((_, builder)) = self.checks.building.take() else { return };
        let size = self.policy.services[service].table_size();
        // Servers may have changed meanwhile: then it is still due.
        let is_due = builder.signature() != crate::maglev::signature(&self.members_now(service), size);
        let face = &mut self.faces[service];
        face.is_stale = is_due;
        face.table = Arc::new(builder.finish());
        self.checks.has_stale = self.faces.iter().any(|face| face.is_stale);
    }

    /// Another policy is in place: probes of before are void, but for those of servers whose checks go on.
    pub(super) fn restart_checks(&mut self, now_ns: u64) {
        self.checks.building = None;
        self.checks.agenda.clear();
        self.checks.waiting.clear();
        for slot in 0..self.slots.len() as u32 {
            let check = self.check_of(slot);
            let next = match (check, self.slots[slot as usize].watch.next) {
                (None, _) => Next::Nothing,
                (Some(_), Next::Nothing) => Next::Probe { at_ns: now_ns },
                // Checks may be more frequent now.
                (Some(check), Next::Probe { at_ns }) => {
                    Next::Probe { at_ns: at_ns.min(now_ns + check.every_ns) }
                }
                (Some(check), Next::Answer { sent_ns, until_ns, token, local }) => {
                    let until_ns = until_ns.min(sent_ns + check.timeout_ns);
                    Next::Answer { sent_ns, until_ns, token, local }
                }
            };
            self.plan(slot, next);
            match (check, next) {
                (None, _) => self.slots[slot as usize].watch = Watch::default(),
                (Some(check), Next::Answer { local, .. }) => {
                    let key = (self.slots[slot as usize].address, self.port_of(slot, &check), local);
                    self.checks.waiting.insert(key, slot);
                }
                _ => {}
            }
        }
        self.checks.has_stale = self.faces.iter().any(|face| face.is_stale);
    }
}
