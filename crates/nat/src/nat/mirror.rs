// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions that two translators both have, so that either can go on alone: see [`statesync::Table`].
//!
//! * A session is reported once both sides have agreed on it. So what outsiders or scans send does not load the peer.
//! * Both may own a session, for example while its two directions go through different routers. Each then ends it by its own clock, and the one that has seen the last packet prevails.
//! * What the translator owns is not given up for what the peer has: another session with the same outside port is refused.

use std::net::IpAddr;

use statesync::{Change, Changes, NotTaken, Op, Pass, SLACK_NS, Table};
use tables::flow::{Flow, FlowId, FlowKey, NEVER};

use super::{Entry, INSIDE, NO_MAPPING, Nat, OUTSIDE};
use crate::hosts::is_stand_in;
use crate::journal::Log;
use crate::policy::SECOND;
use crate::record::SessionRecord;
use crate::track::Track;

const MS: u64 = 1_000_000;

/// Changes that are to be reported to the peer.
pub(super) type Told = Changes<FlowId, SessionRecord>;

/// Whether a session is the peer's.
fn is_mirrored(expires_ns: u64) -> bool {
    expires_ns == NEVER
}

impl Nat {
    /// The record of a session that is owned, which the peer knows from now on.
    fn tell(&mut self, now_ns: u64, id: FlowId) -> Option<SessionRecord> {
        let flow = self.sessions.flow(id).filter(|flow| !is_mirrored(flow.expires_ns))?;
        let record = self.record(now_ns, &flow.forward, &flow.reply, flow.value, flow.expires_ns);
        self.sessions.get_mut(id)?.track.set_told();
        Some(record)
    }

    fn record(
        &self,
        now_ns: u64,
        forward: &FlowKey,
        reply: &FlowKey,
        entry: &Entry,
        expires_ns: u64,
    ) -> SessionRecord {
        SessionRecord {
            protocol: forward.proto,
            inside: (self.subscribers.hosts.name(forward.src), forward.sport),
            outside: (reply.dst.into(), reply.dport),
            peer: (forward.dst.into(), forward.dport),
            account: self.subscribers.outside_of(forward.src).map(Into::into),
            counts: entry.counts,
            idle_ms: (self.idle(now_ns, forward.proto, entry.track, expires_ns) / MS)
                .try_into()
                .unwrap_or(u32::MAX),
            track: entry.track,
        }
    }

    /// For how long nothing has renewed a session.
    fn idle(&self, now_ns: u64, protocol: u8, track: Track, expires_ns: u64) -> u64 {
        let whole = track.timeout(protocol, &self.policy.timeouts);
        now_ns.saturating_add(whole).saturating_sub(expires_ns)
    }

    /// The sessions at some places.
    fn at(
        &self,
        from: usize,
        most: usize,
        chosen: impl Fn(&Flow<&Entry>) -> bool,
    ) -> (Vec<FlowId>, Option<usize>) {
        let mut ids = Vec::with_capacity(most);
        let next = self.sessions.some(from, most, |id, flow| {
            if chosen(&flow) {
                ids.push(id);
            }
        });
        (ids, next)
    }

    /// A mirrored session is owned from now on, and has its whole time.
    fn own(&mut self, now_ns: u64, id: FlowId) {
        let Some(flow) = self.sessions.flow(id) else { return };
        let idle = flow.value.track.timeout(flow.forward.proto, &self.policy.timeouts);
        self.sessions.set_expiry(id, now_ns.saturating_add(idle));
    }

    /// Ends a mirrored session. Its owner has noted that, and lets its port wait.
    pub(super) fn drop_mirrored(&mut self, id: FlowId) {
        let log = std::mem::replace(&mut self.subscribers.log, Log::Nothing);
        self.take_out(id, false);
        self.subscribers.log = log;
    }

    /// A packet has changed a session. That is reported when both sides have agreed on it, or do no more; and when it was the peer's.
    /// Packets of outsiders that do not renew a session leave it to the peer.
    pub(super) fn note_change(&mut self, id: FlowId, protocol: u8, tracks: [Track; 2], renews: bool) {
        let Some(changes) = &mut self.changes else { return };
        let [before, now] = tracks.map(|track| track.is_settled(protocol));
        let is_theirs = self.sessions.flow(id).is_some_and(|flow| is_mirrored(flow.expires_ns));
        if if is_theirs { renews } else { before != now } {
            changes.push(Change::Put(id));
        }
    }

    /// A session has ended that the peer may know.
    pub(super) fn note_end(&mut self, flow: &Flow<Entry>) {
        if self.changes.is_none() || !flow.value.track.is_told() || is_mirrored(flow.expires_ns) {
            return;
        }
        let now_ns = self.subscribers.now_ns();
        let record = self.record(now_ns, &flow.forward, &flow.reply, &flow.value, flow.expires_ns);
        self.changes.iter_mut().for_each(|changes| changes.push(Change::End(record)));
    }

    /// The inside address of a record, if packets may have it; of an IPv6 host the one that stands for it.
    fn source_of(&mut self, record: &SessionRecord) -> Result<u32, NotTaken> {
        match record.inside.0 {
            IpAddr::V4(address) if is_stand_in(address.into()) => Err(NotTaken::Policy),
            IpAddr::V4(address) => Ok(address.into()),
            IpAddr::V6(host) => self.stand_in(host.into()).map_err(|cause| match cause {
                super::Cause::Full => NotTaken::Full,
                _ => NotTaken::Policy,
            }),
        }
    }

    /// Takes a session of the peer.
    ///
    /// # Errors
    /// It is not taken. Mirrored sessions that have its addresses and ports end all the same: the peer no longer has them.
    fn install(&mut self, now_ns: u64, record: &SessionRecord) -> Result<(), NotTaken> {
        self.subscribers.pass(now_ns);
        let source = self.source_of(record)?;
        // Its only session may end for this one.
        self.subscribers.hosts.count(source, 1);
        let log = std::mem::replace(&mut self.subscribers.log, Log::Nothing);
        let installed = self.install_from(now_ns, source, record);
        self.subscribers.log = log;
        self.subscribers.hosts.count(source, -1);
        installed
    }

    fn install_from(&mut self, now_ns: u64, source: u32, record: &SessionRecord) -> Result<(), NotTaken> {
        let outside = (u32::from(record.outside.0), record.outside.1);
        let forward = FlowKey {
            src: source,
            dst: record.peer.0.into(),
            sport: record.inside.1,
            dport: record.peer.1,
            proto: record.protocol,
            zone: INSIDE,
        };
        let reply = FlowKey { dst: outside.0, dport: outside.1, zone: OUTSIDE, ..forward.reversed() };
        for key in [&forward, &reply] {
            let Some(id) = self.sessions.lookup(key).map(|hit| hit.id) else { continue };
            let Some(flow) = self.sessions.flow(id) else { continue };
            if (flow.forward, flow.reply) == (forward, reply) {
                self.renew(now_ns, id, record);
                return Ok(());
            }
            // What the peer had before has gone.
            let may_go = is_mirrored(flow.expires_ns) || flow.expires_ns <= now_ns;
            if !may_go {
                return Err(NotTaken::Conflict);
            }
            self.take_out(id, false);
        }
        let mut track = record.track;
        track.set_told();
        let began_s = (now_ns / SECOND) as u32;
        let entry = Entry { mapping: NO_MAPPING, began_s, track, counts: record.counts, is_watched: false };
        let account = record.account.map(u32::from);
        match self.go_on(forward, outside, account, entry, NEVER) {
            Some(_) => Ok(()),
            None => Err(self.why_not(&forward, outside)),
        }
    }

    /// Why a session of the peer cannot go on here.
    fn why_not(&self, forward: &FlowKey, outside: (u32, u16)) -> NotTaken {
        let inside = (forward.src, forward.sport);
        let other_outside = self.mapping_from(forward.proto, inside).is_some_and(|(_, had)| had != outside);
        let other_inside =
            self.mapping_of(forward.proto, outside.0, outside.1).is_some_and(|(_, had)| had != inside);
        let other_address = self.subscribers.outside_of(inside.0).is_some_and(|had| had != outside.0);
        match self.sessions.len() >= self.sessions.capacity() {
            true => NotTaken::Full,
            _ if other_outside || other_inside || other_address => NotTaken::Conflict,
            _ => NotTaken::Policy,
        }
    }

    /// The peer puts a session that is here.
    fn renew(&mut self, now_ns: u64, id: FlowId, record: &SessionRecord) {
        let Some(flow) = self.sessions.flow(id) else { return };
        let (protocol, expires_ns, own) = (flow.forward.proto, flow.expires_ns, flow.value.track);
        if !is_mirrored(expires_ns) {
            let theirs = u64::from(record.idle_ms) * MS;
            if self.idle(now_ns, protocol, own, expires_ns) <= theirs.saturating_add(SLACK_NS) {
                return;
            }
            self.sessions.set_expiry(id, NEVER);
            self.changes.iter_mut().for_each(|changes| changes.push(Change::Yield(*record)));
        }
        if let Some(entry) = self.sessions.get_mut(id) {
            entry.track = record.track;
            entry.track.set_told();
        }
    }

    /// The session of a record, with the number of nanoseconds that it has been idle here; none if it is mirrored.
    fn known_to(&self, now_ns: u64, record: &SessionRecord) -> Option<(FlowId, Option<u64>)> {
        let src = match record.inside.0 {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(host) => self.known_stand_in(host.into())?,
        };
        let key = FlowKey {
            src,
            dst: record.peer.0.into(),
            sport: record.inside.1,
            dport: record.peer.1,
            proto: record.protocol,
            zone: INSIDE,
        };
        let id = self.sessions.lookup(&key)?.id;
        let flow = self.sessions.flow(id)?;
        let is_same = (flow.reply.dst, flow.reply.dport) == (record.outside.0.into(), record.outside.1);
        let idle = self.idle(now_ns, key.proto, flow.value.track, flow.expires_ns);
        is_same.then_some((id, (!is_mirrored(flow.expires_ns)).then_some(idle)))
    }

    /// The peer has ended a session. It goes on here if its packets went through here last; then that is reported.
    fn end_told(&mut self, now_ns: u64, record: &SessionRecord) {
        self.subscribers.pass(now_ns);
        match self.known_to(now_ns, record) {
            None => {}
            Some((id, None)) => self.drop_mirrored(id),
            Some((id, Some(idle))) if idle >= u64::from(record.idle_ms) * MS => self.remove(id),
            Some((id, Some(_))) => self.changes.iter_mut().for_each(|changes| changes.push(Change::Put(id))),
        }
    }

    /// The peer leaves a session to this translator. If both have done so, it is owned again.
    fn yielded(&mut self, now_ns: u64, record: &SessionRecord) {
        self.subscribers.pass(now_ns);
        if let Some((id, None)) = self.known_to(now_ns, record) {
            self.own(now_ns, id);
            self.changes.iter_mut().for_each(|changes| changes.push(Change::Put(id)));
        }
    }
}

impl Table for Nat {
    fn tells_changes(&self) -> bool {
        self.changes.is_some()
    }

    fn tell_changes(&mut self, most: usize) {
        self.changes = (most > 0).then(|| Told::new(most));
    }

    fn is_anew(&mut self) -> bool {
        self.changes.as_mut().is_some_and(Changes::take_anew)
    }

    fn forget_changes(&mut self) {
        self.changes.iter_mut().for_each(Changes::forget);
    }

    fn changes_waiting(&self) -> usize {
        self.changes.as_ref().map_or(0, Changes::waiting)
    }

    fn changes(&mut self, now_ns: u64, most: usize, take: &mut dyn FnMut(Op, &[u8])) -> bool {
        for _ in 0..most {
            let Some(change) = self.changes.as_mut().and_then(Changes::pop) else { break };
            let (op, record) = match change {
                Change::End(record) => (Op::End, Some(record)),
                Change::Yield(record) => (Op::Yield, Some(record)),
                Change::Put(id) => (Op::Put, self.tell(now_ns, id)),
            };
            record.into_iter().for_each(|record| take(op, &record.to_bytes()));
        }
        self.changes.as_mut().is_some_and(Changes::take_lost)
    }

    fn owned(&mut self, now_ns: u64, from: usize, most: usize, take: &mut dyn FnMut(&[u8])) -> Option<usize> {
        let (ids, next) = self.at(from, most, |flow| {
            !is_mirrored(flow.expires_ns)
                && flow.expires_ns > now_ns
                && flow.value.track.is_settled(flow.forward.proto)
        });
        ids.into_iter().filter_map(|id| self.tell(now_ns, id)).for_each(|record| take(&record.to_bytes()));
        next
    }

    fn pass(&mut self, now_ns: u64, pass: Pass, from: usize, most: usize) -> Option<usize> {
        let (ids, next) = self.at(from, most, |flow| {
            is_mirrored(flow.expires_ns) && (pass != Pass::Sweep || flow.value.track.is_marked())
        });
        for id in ids {
            match pass {
                Pass::Adopt => self.own(now_ns, id),
                Pass::Mark => self.sessions.get_mut(id).into_iter().for_each(|entry| entry.track.mark(true)),
                Pass::Sweep => self.drop_mirrored(id),
            }
        }
        next
    }

    fn apply(&mut self, now_ns: u64, op: Op, record: &[u8]) -> Result<(), NotTaken> {
        let record = SessionRecord::from_bytes(record).ok_or(NotTaken::Malformed)?;
        match op {
            Op::Put => return self.install(now_ns, &record),
            Op::End => self.end_told(now_ns, &record),
            Op::Yield => self.yielded(now_ns, &record),
            _ => return Err(NotTaken::Malformed),
        }
        Ok(())
    }
}
