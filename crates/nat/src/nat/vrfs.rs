// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of hosts in VRFs: while they are looked at here, they have the address that stands for their host.

use tables::flow::Direction;

use super::{Ahead, Cause, INSIDE, Nat, OUTSIDE, Outcome, PutOff, key};
use crate::hosts::is_stand_in;
use crate::packet::{End, Quoted, Upper, View, destination, rewrite_address, rewrite_quoted, source};
use crate::vrf;

impl Nat {
    /// Translates a packet of a VRF that leaves by an outside link: its source. `tries`: it is a copy, and is forgotten.
    pub fn leaving_vrf(&mut self, now_ns: u64, ip: &mut [u8], number: u32, tries: bool) -> Outcome {
        let view = match View::of(ip) {
            Ok(view) => view,
            Err(why) => return self.unseen(ip, number, why.into()),
        };
        match self.stand_in(vrf::host(number, view.source)) {
            Ok(known) => self.leave_as(now_ns, ip, &view, (known, number), tries),
            Err(Cause::NoMapping) => match view.upper {
                Upper::Error(quoted) => self.leave_unknown(now_ns, ip, &view, &quoted, number),
                _ if self.is_own(view.source) => self.leave_own(now_ns, ip, tries),
                _ => self.stranger(view.source),
            },
            Err(cause) => Outcome::Drop(cause),
        }
    }

    /// Does as [`leaving_vrf`](Self::leaving_vrf), if that changes nothing that others look at. `ahead` is what was seen of the packet as it is.
    #[inline]
    pub fn leaving_vrf_shared(
        &self,
        now_ns: u64,
        ip: &mut [u8],
        number: u32,
        ahead: &Ahead,
        put_off: &mut PutOff,
    ) -> Option<Outcome> {
        let view = match ahead.view {
            Ok(view) => view,
            Err(why) => return Some(self.unseen(ip, number, why.into())),
        };
        let host = vrf::host(number, view.source);
        match (self.known_stand_in(host), view.upper) {
            (Some(known), Upper::Error(_)) => Some(self.leave_with_error(now_ns, ip, &view, (known, number))),
            (Some(known), _) => self.leave_as_shared(now_ns, ip, &view, known, put_off),
            (None, _) if self.policy.translation6(host).is_some() => None,
            (None, Upper::Error(quoted)) => Some(self.leave_unknown(now_ns, ip, &view, &quoted, number)),
            // The router's own ports are nobody else's, whichever VRF its link is in.
            (None, _) if self.is_own(view.source) => self.leaving_shared(now_ns, ip, ahead, put_off),
            (None, _) => Some(self.stranger(view.source)),
        }
    }

    /// A packet of the host that an address stands for leaves, if that changes nothing that others look at.
    #[inline]
    fn leave_as_shared(
        &self,
        now_ns: u64,
        ip: &mut [u8],
        view: &View,
        known: u32,
        put_off: &mut PutOff,
    ) -> Option<Outcome> {
        let mut view = *view;
        view.source = known;
        let is_asked_for = !matches!(view.upper, Upper::Alone);
        let hit = is_asked_for.then(|| self.sessions.lookup(&key(&view, INSIDE))).flatten();
        let outcome = match hit.filter(|hit| hit.direction == Direction::Forward) {
            Some(hit) => self.known_shared(now_ns, ip, &view, (hit.id, 0), put_off),
            None => self.leaving_alone(now_ns, ip, &view),
        };
        outcome.map(no_ones)
    }

    /// A packet of the host that an address stands for leaves. A packet that is dropped has its own source again, to which an error can go.
    fn leave_as(
        &mut self,
        now_ns: u64,
        ip: &mut [u8],
        view: &View,
        (known, number): (u32, u32),
        tries: bool,
    ) -> Outcome {
        let outcome = match view.upper {
            Upper::Error(_) => self.leave_with_error(now_ns, ip, view, (known, number)),
            _ => {
                rewrite_address(ip, view, End::Source, known);
                self.leaving_six(now_ns, ip, tries)
            }
        };
        if let Outcome::Drop(_) = outcome {
            rewrite_address(ip, view, End::Source, view.source);
        }
        self.forget_idle(known);
        outcome
    }

    /// A host reports an error about a packet that has come to it.
    fn leave_with_error(
        &self,
        now_ns: u64,
        ip: &mut [u8],
        view: &View,
        (known, number): (u32, u32),
    ) -> Outcome {
        self.rename_quoted(ip, view, number);
        rewrite_address(ip, view, End::Source, known);
        let outcome = match View::of(ip) {
            Ok(seen @ View { upper: Upper::Error(quoted), .. }) => {
                no_ones(self.error_outward(now_ns, ip, &seen, &quoted))
            }
            _ => Outcome::Drop(Cause::Malformed),
        };
        if let Outcome::Drop(_) = outcome {
            rewrite_address(ip, view, End::Source, view.source);
        }
        outcome
    }

    /// A packet of the router itself leaves: its port is no host's, or it gets another one.
    fn leave_own(&mut self, now_ns: u64, ip: &mut [u8], tries: bool) -> Outcome {
        let ahead = self.ahead(ip, INSIDE);
        match tries {
            true => self.trying(now_ns, |nat| nat.leaving(now_ns, ip, &ahead)),
            false => self.leaving(now_ns, ip, &ahead),
        }
    }

    /// A router on the way to a host reports an error, and is no host whose packets are translated. Nor is this router itself.
    fn leave_unknown(
        &self,
        now_ns: u64,
        ip: &mut [u8],
        view: &View,
        quoted: &Quoted,
        number: u32,
    ) -> Outcome {
        let is_renamed = self.rename_quoted(ip, view, number);
        // A host of the main table may have the same address.
        if !is_renamed && !self.is_own(quoted.destination) {
            return Outcome::Unchanged;
        }
        let outcome = match View::of(ip) {
            Ok(View { upper: Upper::Error(renamed), .. }) => self.error_outward(now_ns, ip, view, &renamed),
            _ => Outcome::Drop(Cause::Malformed),
        };
        if is_renamed && outcome != Outcome::Translated {
            rewrite_quoted(ip, view, quoted, End::Destination, quoted.destination, None);
        }
        outcome
    }

    /// An ICMP error from inside quotes a packet for a host, which gets the address that stands for the host. Returns whether there is one.
    fn rename_quoted(&self, ip: &mut [u8], view: &View, number: u32) -> bool {
        let Upper::Error(quoted) = &view.upper else { return false };
        let known = self.known_stand_in(vrf::host(number, quoted.destination));
        known.into_iter().for_each(|known| rewrite_quoted(ip, view, quoted, End::Destination, known, None));
        known.is_some()
    }

    /// A packet that cannot be looked at.
    fn unseen(&self, ip: &[u8], number: u32, cause: Cause) -> Outcome {
        let Some(source) = source(ip) else { return Outcome::Drop(cause) };
        match self.policy.translation6(vrf::host(number, source)) {
            Some(_) => Outcome::Drop(cause),
            None => self.stranger(source),
        }
    }

    /// A packet from an address that no statement translates. Nobody but the router sends from outside addresses.
    fn stranger(&self, source: u32) -> Outcome {
        match self.policy.is_outside(source) && !self.is_own(source) {
            true => Outcome::Drop(Cause::Spoofed),
            false => Outcome::Unchanged,
        }
    }

    /// Translates a packet of a VRF that does not come by an outside link. If it is for an outside address, it goes from host to host.
    pub fn arriving_vrf(&mut self, now_ns: u64, ip: &mut [u8], number: u32, tries: bool) -> Outcome {
        if !self.is_for_outside(ip) {
            return self.passing(ip, false);
        }
        let ahead = self.ahead(ip, OUTSIDE);
        let view = match ahead.view {
            Ok(view) if is_stand_in(view.source) => return Outcome::Drop(Cause::Malformed),
            Ok(view) => view,
            Err(why) => return Outcome::Drop(why.into()),
        };
        let host = vrf::host(number, view.source);
        if !self.is_host(host) {
            return match tries {
                true => self.trying(now_ns, |nat| nat.arrive_from_stranger(now_ns, ip, &view, &ahead)),
                false => self.arrive_from_stranger(now_ns, ip, &view, &ahead),
            };
        }
        if let Some(outcome) = self.arrive_in_vain(&view) {
            return outcome;
        }
        let left = match self.stand_in(host) {
            Ok(known) => self.leave_as(now_ns, ip, &view, (known, number), tries),
            Err(cause) => Outcome::Drop(cause),
        };
        if let Outcome::Drop(cause) = left {
            return Outcome::Drop(cause);
        }
        let ahead = self.ahead(ip, OUTSIDE);
        match tries {
            true => self.trying(now_ns, |nat| nat.arriving(now_ns, ip, &ahead, false)),
            false => self.arriving(now_ns, ip, &ahead, false),
        }
    }

    /// Does as [`arriving_vrf`](Self::arriving_vrf), if that changes nothing that others look at. `ahead` is what was seen of the packet as it is.
    #[inline]
    pub fn arriving_vrf_shared(
        &self,
        now_ns: u64,
        ip: &mut [u8],
        number: u32,
        ahead: &Ahead,
        put_off: &mut PutOff,
    ) -> Option<Outcome> {
        if ahead.key.is_none() && !self.is_for_outside(ip) {
            return Some(self.passing(ip, false));
        }
        let view = match ahead.view {
            Ok(view) => view,
            Err(why) => return Some(Outcome::Drop(why.into())),
        };
        if self.is_host(vrf::host(number, view.source)) {
            return self.arrive_in_vain(&view);
        }
        match self.hit(ahead, Direction::Reply) {
            Some(id) => self.known_shared(now_ns, ip, &view, (id, 1), put_off),
            None => self.arriving_alone(now_ns, ip, &view),
        }
    }

    /// What becomes of a host's packet to an outside address that leads to no host, or to none that it may reach.
    fn arrive_in_vain(&self, view: &View) -> Option<Outcome> {
        if !self.leads_inside(view) {
            return Some(self.unmapped(view.destination));
        }
        // A firewall would see the outside address of a host inside.
        self.splits_hairpins.then_some(Outcome::Drop(Cause::NoMapping))
    }

    /// A packet from an address of a VRF that no statement translates. Hosts of the main table may have the same one.
    fn arrive_from_stranger(&mut self, now_ns: u64, ip: &mut [u8], view: &View, ahead: &Ahead) -> Outcome {
        match self.session_ahead(now_ns, ahead, Direction::Reply) {
            Some(id) => self.known(now_ns, ip, view, id, 1),
            None => self.arriving_unknown(now_ns, ip, view),
        }
    }

    /// Whether a host is known, or would be with its first packet.
    fn is_host(&self, host: u128) -> bool {
        self.known_stand_in(host).is_some() || self.policy.translation6(host).is_some()
    }

    /// Whether a packet that comes by an outside link of a VRF has the address of a host in that VRF.
    #[inline]
    pub fn is_spoofed_in(&self, ip: &[u8], number: u32) -> bool {
        let is_inside = |address: u32| {
            let host = vrf::host(number, address);
            match self.known_stand_in(host) {
                Some(known) => self.is_inside(known),
                None => self.policy.translation6(host).is_some(),
            }
        };
        source(ip).is_some_and(is_inside) || destination(ip).is_some_and(is_inside)
    }

    /// Whether a packet is for an outside address that is the router's own.
    #[inline]
    pub fn is_for_own(&self, ip: &[u8]) -> bool {
        destination(ip).is_some_and(|address| self.is_own(address))
    }

    /// Whether an address is the router's own, and an outside one.
    #[inline]
    fn is_own(&self, address: u32) -> bool {
        self.own.contains(&address)
    }

    /// Gives a packet for a host in a VRF the host's own address, and returns the number of the VRF. An error that it gets quotes what it has sent.
    #[inline]
    pub fn into_vrf(&self, ip: &mut [u8]) -> Option<u32> {
        let known = destination(ip).filter(|address| is_stand_in(*address))?;
        let (number, address) = vrf::of(self.host(known)?)?;
        let view = View::of(ip).ok()?;
        if let Upper::Error(quoted) = &view.upper
            && quoted.source == known
        {
            rewrite_quoted(ip, &view, quoted, End::Source, address, None);
        }
        rewrite_address(ip, &view, End::Destination, address);
        Some(number)
    }
}

/// What nobody translates must not leave with an address that is no one's.
fn no_ones(outcome: Outcome) -> Outcome {
    if outcome == Outcome::Unchanged { Outcome::Drop(Cause::NoMapping) } else { outcome }
}
