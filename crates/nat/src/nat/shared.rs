// SPDX-License-Identifier: MIT OR Apache-2.0
//! What several workers do at the same time, each with a shared reference.
//!
//! A packet of a known session that leaves its state as it is gets its other addresses here. So does one that begins no session. Each function returns
//! `None` for other packets. They have not been changed, and are for [`Nat::leaving`] and [`Nat::arriving`], after the others of the batch.
//!
//! The order within a session is kept: once a packet of a session has been put off, those behind it are, too ([`PutOff`]).

use tables::flow::{Direction, Flow, FlowId};

use super::{Ahead, Cause, Nat, Outcome, after, goes_well, translate};
use crate::packet::View;
use crate::track::Track;

/// Sessions of a batch of which a packet has been put off, as a set that may hold others, too.
#[derive(Clone, Copy, Debug, Default)]
pub struct PutOff(u64);

impl PutOff {
    #[inline(always)]
    fn bit(id: FlowId) -> u64 {
        1 << (Nat::number(id) % 64)
    }

    #[inline(always)]
    fn has(self, id: FlowId) -> bool {
        self.0 & PutOff::bit(id) != 0
    }

    fn insert(&mut self, id: FlowId) {
        self.0 |= PutOff::bit(id);
    }
}

impl Nat {
    /// Whether a session may have to end, a port becomes free, room for more sessions is being made, or an address has gone: then [`reap`](Self::reap) has something to do.
    #[inline]
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.sessions.next_bound() <= now_ns
            || self.subscribers.is_due(now_ns)
            || self.is_growing()
            || self.is_following()
    }

    /// Does as [`leaving`](Self::leaving), if that changes nothing that others look at.
    #[inline]
    pub fn leaving_shared(
        &self,
        now_ns: u64,
        ip: &mut [u8],
        ahead: &Ahead,
        put_off: &mut PutOff,
    ) -> Option<Outcome> {
        let view = match ahead.view {
            Ok(view) => view,
            Err(_) if !self.has_inside_source(ip) => return Some(Outcome::Unchanged),
            Err(why) => return Some(Outcome::Drop(why.into())),
        };
        match self.hit(ahead, Direction::Forward) {
            Some(id) => self.known_shared(now_ns, ip, &view, (id, 0), put_off),
            None => self.leaving_alone(now_ns, ip, &view),
        }
    }

    /// Does as [`arriving`](Self::arriving), if that changes nothing that others look at.
    #[inline]
    pub fn arriving_shared(
        &self,
        now_ns: u64,
        ip: &mut [u8],
        ahead: &Ahead,
        from_outside: bool,
        put_off: &mut PutOff,
    ) -> Option<Outcome> {
        if ahead.key.is_none() && !self.is_for_outside(ip) {
            return Some(self.passing(ip, from_outside));
        }
        let view = match ahead.view {
            Ok(view) => view,
            Err(why) => return Some(Outcome::Drop(why.into())),
        };
        match self.hit(ahead, Direction::Reply) {
            Some(id) => self.known_shared(now_ns, ip, &view, (id, 1), put_off),
            None if !self.is_inside(view.source) => self.arriving_alone(now_ns, ip, &view),
            None if from_outside && !self.policy.is_exempt(view.destination, view.source) => {
                Some(Outcome::Drop(Cause::Spoofed))
            }
            None => None,
        }
    }

    /// The session of a packet that was looked at, if it goes in this direction.
    #[inline]
    pub(super) fn hit(&self, ahead: &Ahead, direction: Direction) -> Option<FlowId> {
        let hit = self.sessions.lookup_prepared(ahead.key.as_ref()?)?;
        (hit.direction == direction).then_some(hit.id)
    }

    /// Renews a session by a packet of a side, if that needs no exclusive reference. Returns whether it lives for its idle time from now on. One that
    /// the peer owns does not: its first packet makes it this translator's.
    #[inline]
    pub(super) fn extend(
        &self,
        now_ns: u64,
        view: &View,
        (id, side): (FlowId, usize),
        expires_ns: u64,
        idle: u64,
    ) -> bool {
        // One that would live longer has had another timeout, or is the peer's.
        !Track::renews(view.protocol, side) || self.sessions.extend(id, expires_ns, now_ns, idle)
    }

    /// A packet of a session, from a side.
    #[inline]
    pub(super) fn known_shared(
        &self,
        now_ns: u64,
        ip: &mut [u8],
        view: &View,
        (id, side): (FlowId, usize),
        put_off: &mut PutOff,
    ) -> Option<Outcome> {
        let Flow { forward, reply, expires_ns, value } = self.sessions.flow(id)?;
        if expires_ns > now_ns && !goes_well(view, side) && !self.following.has_lost(reply.dst) {
            return Some(Outcome::Drop(Cause::NoMapping));
        }
        let stays = expires_ns > now_ns
            && !value.is_watched
            && !self.following.has_lost(reply.dst)
            && !put_off.has(id)
            && after(view, value.track, side) == value.track;
        let idle = value.track.timeout(view.protocol, &self.policy.timeouts);
        if !(stays && self.extend(now_ns, view, (id, side), expires_ns, idle)) {
            put_off.insert(id);
            return None;
        }
        self.tally.count(Nat::number(id), side, view.length.into());
        translate(ip, view, side, &forward, &reply);
        Some(Outcome::Translated)
    }
}
