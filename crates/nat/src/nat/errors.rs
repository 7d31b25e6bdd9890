// SPDX-License-Identifier: MIT OR Apache-2.0
//! ICMP errors: they quote a packet as it was where they come from (RFC 5508, 4).

use tables::flow::{Direction, Flow, FlowKey};

use super::{Cause, Entry, INSIDE, Nat, OUTSIDE, Outcome};
use crate::hosts::is_stand_in;
use crate::packet::{End, Quoted, View, rewrite_address, rewrite_quoted};

/// The key of an answer to the packet that is quoted.
fn answer(quoted: &Quoted, zone: u16) -> FlowKey {
    let [sport, dport] = quoted.ports;
    FlowKey { src: quoted.source, dst: quoted.destination, sport, dport, proto: quoted.protocol, zone }
        .reversed()
}

impl Nat {
    /// The session with this key on a side, if it has not expired.
    fn session(&self, now_ns: u64, key: &FlowKey, direction: Direction) -> Option<Flow<&Entry>> {
        let hit = self.sessions.lookup(key).filter(|hit| hit.direction == direction)?;
        let flow = self.sessions.flow(hit.id)?;
        (flow.expires_ns > now_ns && !self.following.has_lost(flow.reply.dst)).then_some(flow)
    }

    /// An error from outside, about a packet that has left.
    pub(super) fn error_inward(&self, now_ns: u64, ip: &mut [u8], view: &View, quoted: &Quoted) -> Outcome {
        let inside = match self.session(now_ns, &answer(quoted, OUTSIDE), Direction::Reply) {
            Some(flow) => Some((flow.forward.src, Some(flow.forward.sport))),
            None => self.policy.static_inside(quoted.source).map(|inside| (inside, None)),
        };
        let Some((address, port)) = inside.filter(|_| quoted.source == view.destination) else {
            return self.unmapped(view.destination);
        };
        rewrite_quoted(ip, view, quoted, End::Source, address, port);
        rewrite_address(ip, view, End::Destination, address);
        Outcome::Translated
    }

    /// An error from inside, about a packet that has come in.
    pub(super) fn error_outward(&self, now_ns: u64, ip: &mut [u8], view: &View, quoted: &Quoted) -> Outcome {
        let key = answer(quoted, INSIDE);
        let mapping = || {
            let (_, (address, port)) = self.mapping_from(key.proto, (key.src, key.sport))?;
            Some((address, Some(port)))
        };
        let outside = match self.session(now_ns, &key, Direction::Forward) {
            Some(flow) => Some((flow.reply.dst, Some(flow.reply.dport))),
            None if self.policy.is_exempt(key.src, key.dst) => None,
            None => mapping().or_else(|| self.policy.static_outside(key.src).map(|outside| (outside, None))),
        };
        let is_inside = self.is_inside(view.source);
        let Some((address, port)) = outside.filter(|_| quoted.source == view.destination) else {
            let is_exempt = self.policy.is_exempt(view.source, view.destination);
            return if is_inside && !is_exempt {
                Outcome::Drop(Cause::NoMapping)
            } else {
                Outcome::Unchanged
            };
        };
        rewrite_quoted(ip, view, quoted, End::Destination, address, port);
        // Who speaks is nobody's business outside (RFC 5508, REQ-5): a router on the way, too.
        if is_inside || is_stand_in(view.source) {
            rewrite_address(ip, view, End::Source, address);
        }
        Outcome::Translated
    }
}
