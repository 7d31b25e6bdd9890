// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets between inside hosts by outside addresses (RFC 4787, REQ-9).

use tables::flow::{Direction, FlowKey};

use super::{Cause, INSIDE, Nat, Outcome, key};
use crate::hosts::is_stand_in;
use crate::packet::{End, Upper, View, rewrite};
use crate::vrf;

impl Nat {
    /// Whether the outside address and port of a packet may be an inside host's.
    pub(super) fn leads_inside(&self, view: &View) -> bool {
        let [_, port] = view.ports();
        matches!(view.upper, Upper::Error(_))
            || self.policy.static_inside(view.destination).is_some()
            || self.forwards.contains_key(&(view.protocol, view.destination, port))
            || self.mapping_of(view.protocol, view.destination, port).is_some()
    }

    /// A packet from inside to an outside address.
    pub(super) fn hairpin(&mut self, now_ns: u64, ip: &mut [u8], view: &View) -> Outcome {
        if !self.leads_inside(view) {
            return self.unmapped(view.destination);
        }
        let again = |nat: &mut Nat, ip: &mut [u8], leaving: bool| -> Outcome {
            let mut ahead = Vec::with_capacity(1);
            nat.look_ahead(std::iter::once(&*ip), leaving, &mut ahead);
            let view = match ahead[0].view {
                Ok(view) => view,
                Err(why) => return Outcome::Drop(why.into()),
            };
            match leaving {
                true => nat.leaving(now_ns, ip, &ahead[0]),
                false => match nat.session_ahead(now_ns, &ahead[0], Direction::Reply) {
                    Some(id) => nat.known(now_ns, ip, &view, id, 1),
                    None => nat.arriving_unknown(now_ns, ip, &view),
                },
            }
        };
        let first = match again(self, ip, true) {
            Outcome::Drop(cause) => return Outcome::Drop(cause),
            // New text stays as it is, but the other end may say other text.
            Outcome::Watched(number) => self.shifted(number, 0, ip, view),
            first => first,
        };
        let second = match again(self, ip, false) {
            Outcome::Drop(cause) => return Outcome::Drop(cause),
            Outcome::Unchanged => first,
            Outcome::Watched(number) => self.shifted(number, 1, ip, view),
            second => second,
        };
        // A firewall would see the outside address of a host inside.
        let is_in_vrf = |to: u32| self.host(to).and_then(vrf::of).is_some();
        if self.splits_hairpins && View::of(ip).is_ok_and(|view| is_in_vrf(view.destination)) {
            return Outcome::Drop(Cause::NoMapping);
        }
        let outward =
            self.sessions.lookup(&key(view, INSIDE)).filter(|hit| hit.direction == Direction::Forward);
        let (Some(hit), true, Ok(translated)) = (outward, self.splits_hairpins, View::of(ip)) else {
            return second;
        };
        // Errors quote a packet, and stay translated as a whole. So do packets that become those of IPv6.
        if matches!(view.upper, Upper::Error(_)) || is_stand_in(translated.destination) {
            return second;
        }
        rewrite(ip, &translated, End::Source, view.source, view.ports()[0]);
        Outcome::Hairpin(Nat::number(hit.id))
    }

    /// A packet of a session whose text is looked at, with its sequence numbers moved.
    fn shifted(&mut self, number: u32, side: usize, ip: &mut [u8], view: &View) -> Outcome {
        if let Some(segment) = ip.get_mut(view.transport()..) {
            self.shift(number, side, segment);
        }
        Outcome::Translated
    }

    /// Gives a packet that leaves for the inside the source that [`Outcome::Hairpin`] has kept back, by its number.
    pub fn leaving_inside(&self, ip: &mut [u8], number: u32) -> Outcome {
        let Ok(view) = View::of(ip) else { return Outcome::Unchanged };
        if matches!(view.upper, Upper::Error(_)) {
            return Outcome::Unchanged;
        }
        let source = (view.source, view.ports()[0], view.protocol);
        let session = self.sessions.numbered(number).map(|flow| (flow.forward, flow.reply));
        let is_its =
            |(forward, _): &(FlowKey, FlowKey)| (forward.src, forward.sport, forward.proto) == source;
        let Some((_, reply)) = session.filter(is_its).or(self.tried.filter(is_its)) else {
            return Outcome::Unchanged;
        };
        rewrite(ip, &view, End::Source, reply.dst, reply.dport);
        Outcome::Translated
    }
}
