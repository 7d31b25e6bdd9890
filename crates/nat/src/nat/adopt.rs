// SPDX-License-Identifier: MIT OR Apache-2.0
//! Another policy: what sessions go on?
//!
//! A session goes on if the new policy could have given it the same outside address and port.

use std::sync::Arc;

use tables::flow::{Flow, FlowId, FlowKey, FlowTable, NEVER};

use super::lives::session_event;
use super::subscribers::{Grant, port_event};
use super::{Entry, Mapping, NO_MAPPING, Nat, mapping_keys};
use crate::journal::{Change, Log, What};
use crate::policy::{Allocation, Filter, Policy};
use crate::ports::Kind;

impl Nat {
    /// Puts another policy in place, of which `own` are the router's own addresses. Returns how many sessions end. If addresses and ports are given as before,
    /// and there may be as many sessions or more, none is looked at; otherwise each is.
    pub fn replace(&mut self, policy: Arc<Policy>, own: &[u32], seed: u64) -> usize {
        let has_room = policy.sessions >= self.policy.sessions;
        let (policy, used) = self.following.fill(policy);
        let is_same = self.policy.gives_as(&policy) && self.written_own == own;
        if has_room && is_same && !self.is_stale && !self.is_following() {
            self.grow(policy.sessions, seed);
            self.following.use_only(used);
            self.subscribers.log = policy.log;
            self.subscribers.hold_ns = policy.timeouts.hold;
            self.policy = policy;
            return 0;
        }
        let mut new = Nat::new(policy, own, seed);
        new.following = self.following.anew(used);
        new.own = new.own_with(own);
        new.splits_hairpins = self.splits_hairpins;
        self.reserved.iter().for_each(|range| new.reserve_own(*range));
        let mut ended = Vec::new();
        let lost = new.adopt(self, &mut ended);
        if new.policy.log >= Log::Ports {
            self.ports_lost(&new, &mut ended);
        }
        new.subscribers.hosts.follow(&self.subscribers.hosts);
        new.subscribers.take_journal(&mut self.subscribers);
        ended.into_iter().for_each(|what| new.subscribers.note(what.level(), |_| what));
        let are_open = self.policy.filter == Filter::EndpointIndependent;
        new.subscribers.note_blocks_lost(&self.subscribers, are_open);
        if are_open {
            self.hold_lost(&mut new);
        }
        new.algs = self.algs;
        new.changes = self.changes.take();
        new.changes.iter_mut().for_each(|changes| changes.lose());
        *self = new;
        lost
    }

    /// Random ports that everyone could send to, and that no session has with another policy, are nobody else's for a while.
    fn hold_lost(&self, new: &mut Nat) {
        let is_random = |by: Option<u16>| {
            let translation = by.and_then(|by| self.policy.translations.get(usize::from(by)));
            translation.is_some_and(|one| one.allocation == Allocation::Random)
        };
        let now_ns = new.subscribers.now_ns();
        for (_, Flow { forward, reply, value, .. }) in self.mappings.iter() {
            let kind =
                Kind::of(forward.proto).filter(|kind| *kind != Kind::Tcp && is_random(value.translation));
            kind.into_iter().for_each(|kind| new.subscribers.wait(now_ns, kind, reply.dst, reply.dport));
        }
    }

    /// The ports that hosts have here, and have no more with another policy.
    fn ports_lost(&self, new: &Nat, lost: &mut Vec<What>) {
        for (_, Flow { forward, reply, .. }) in self.mappings.iter() {
            let outside = (reply.dst, reply.dport);
            let source = match self.host(forward.src) {
                None => Some(forward.src),
                Some(host) => new.known_stand_in(host),
            };
            let now = source.and_then(|source| new.mapping_from(forward.proto, (source, forward.sport)));
            if now.is_none_or(|(_, now)| now != outside) {
                let inside = (forward.src, forward.sport);
                let hosts = &self.subscribers.hosts;
                lost.push(port_event(hosts, Change::Ends, forward.proto, inside, outside));
            }
        }
    }

    /// Goes on with the sessions of another one, which stays as it is. Returns how many cannot; `ended` gets those to be noted.
    fn adopt(&mut self, other: &Nat, ended: &mut Vec<What>) -> usize {
        let notes = std::mem::take(&mut self.subscribers.log);
        // Sessions that are agreed on come first: there may be room for fewer.
        let rank = |entry: &Entry, key: &FlowKey| !entry.track.is_settled(key.proto);
        let mut lost = 0;
        for late in [false, true] {
            for (id, flow) in
                other.sessions.iter().filter(|(_, flow)| rank(flow.value, &flow.forward) == late)
            {
                let outside = (flow.reply.dst, flow.reply.dport);
                let source = match other.host(flow.forward.src) {
                    None => Some(flow.forward.src),
                    Some(host) => self.stand_in(host).ok(),
                };
                let account = other.subscribers.outside_of(flow.forward.src);
                let goes_on = source.and_then(|src| {
                    let forward = FlowKey { src, ..flow.forward };
                    self.go_on(forward, outside, account, *flow.value, flow.expires_ns)
                });
                if let Some(new) = goes_on {
                    self.tally.carry(Nat::number(new), &other.tally, Nat::number(id));
                }
                let streams = other.streams.get(&Nat::number(id)).cloned();
                if let Some((id, streams)) = goes_on.zip(streams) {
                    self.streams.insert(Nat::number(id), streams);
                }
                if goes_on.is_none() {
                    lost += 1;
                    if notes == Log::Sessions {
                        let hosts = &other.subscribers.hosts;
                        ended.push(session_event(hosts, Change::Ends, &flow.forward, outside));
                    }
                    source.into_iter().for_each(|source| self.subscribers.hosts.forget_idle(source));
                }
            }
        }
        self.subscribers.log = notes;
        lost
    }

    /// Enters a session that another one had.
    pub(super) fn go_on(
        &mut self,
        forward: FlowKey,
        outside: (u32, u16),
        account: Option<u32>,
        entry: Entry,
        expires_ns: u64,
    ) -> Option<FlowId> {
        let inside = (forward.src, forward.sport);
        let target = self.forwards.get(&(forward.proto, outside.0, outside.1));
        let is_of_forward = entry.mapping == NO_MAPPING && target.is_some_and(|target| *target == inside);
        let is_static = entry.mapping == NO_MAPPING
            && inside.1 == outside.1
            && self.policy.static_outside(inside.0) == Some(outside.0)
            && !self.policy.is_exempt(forward.src, forward.dst);
        let has_room = entry.counts || self.of_forwards < self.sessions.capacity().div_ceil(2);
        if self.sessions.len() >= self.sessions.capacity() || !has_room {
            return None;
        }
        let (mapping, counts) = match (is_of_forward, entry.counts) {
            (true, false) => (None, false),
            (true, true) => (None, self.enter_again(inside.0, account)),
            (false, true) => (self.mapping_again(&forward, outside)?, true),
            (false, false) if is_static => (None, false),
            (false, false) => return None,
        };
        let reply = FlowKey { dst: outside.0, dport: outside.1, zone: super::OUTSIDE, ..forward.reversed() };
        // Text that has changed stays so, even if no more is to change.
        let is_watched = entry.is_watched || self.is_watched(&forward);
        let number = mapping.map_or(NO_MAPPING, FlowTable::<Mapping>::number);
        let entry = Entry { mapping: number, counts, is_watched, ..entry };
        let made = self.sessions.insert(forward, reply, entry, expires_ns);
        let Ok(id) = made else {
            mapping.into_iter().for_each(|mapping| self.leave_mapping(mapping, false));
            self.subscribers.forget_idle(inside.0);
            return None;
        };
        self.tally.begin(Nat::number(id), [0; 2], [0; 2]);
        self.count(&forward, mapping, counts);
        Some(id)
    }

    /// Makes an account for an inside host that had one, if it is translated; with the same outside address, if that can be.
    fn enter_again(&mut self, inside: u32, outside: Option<u32>) -> bool {
        let policy = Arc::clone(&self.policy);
        let Some(by) = self.translation(inside) else { return false };
        let translation = &policy.translations[by];
        if let Some(outside) = outside.filter(|outside| translation.may_give(inside, *outside)) {
            self.subscribers.enter(inside, Some(by as u16), outside);
        }
        let grant = Grant::Of(translation);
        self.subscribers.admit(inside, Some(by as u16), &grant, None, &mut self.rng).is_ok()
    }

    /// The mapping of a session that another one had: made, if it can be. None inside for protocols without.
    fn mapping_again(&mut self, forward: &FlowKey, outside: (u32, u16)) -> Option<Option<FlowId>> {
        let (inside, policy) = ((forward.src, forward.sport), Arc::clone(&self.policy));
        let by = self.translation(inside.0).map(|by| by as u16);
        let translation = by.map(|by| &policy.translations[usize::from(by)]);
        let may_have = match translation {
            Some(_)
                if policy.is_exempt(forward.src, forward.dst)
                    || policy.static_outside(forward.src).is_some() =>
            {
                false
            }
            Some(translation) => translation.may_give(inside.0, outside.0),
            None => inside.0 == outside.0 && policy.is_outside(inside.0),
        };
        if !may_have {
            return None;
        }
        let grant = translation.map_or(Grant::Own(None), Grant::Of);
        self.subscribers.enter(inside.0, by, outside.0);
        if self.subscribers.outside_of(inside.0) != Some(outside.0) {
            return None;
        }
        let Some(kind) = Kind::of(forward.proto) else { return Some(None) };
        let keys = mapping_keys(forward.proto, inside, outside);
        if let Some(hit) = self.mappings.lookup(&keys[0]) {
            let has_same = self.mappings.flow(hit.id).is_some_and(|flow| flow.reply == keys[1]);
            return has_same.then_some(Some(hit.id));
        }
        if !self.subscribers.claim(kind, inside.0, outside.1, &grant) {
            self.subscribers.forget_idle(inside.0);
            return None;
        }
        match self.mappings.insert(keys[0], keys[1], Mapping { sessions: 0, translation: by }, NEVER) {
            Ok(id) => Some(Some(id)),
            Err(_) => {
                self.subscribers.give_back(kind, inside, outside, &grant, false);
                None
            }
        }
    }
}
