// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of hosts in VRFs: while they are looked at here, they have the address that stands for their host.

use super::{Cause, Nat, OUTSIDE, Outcome};
use crate::hosts::is_stand_in;
use crate::packet::{End, Upper, View, destination, rewrite_address, rewrite_quoted, source};
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
            Err(Cause::NoMapping) if matches!(view.upper, Upper::Error(_)) => {
                self.leave_unknown(now_ns, ip, &view, number)
            }
            Err(Cause::NoMapping) => self.stranger(view.source),
            Err(cause) => Outcome::Drop(cause),
        }
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
        self.rename_quoted(ip, view, number);
        rewrite_address(ip, view, End::Source, known);
        let outcome = self.leaving_six(now_ns, ip, tries);
        if let Outcome::Drop(_) = outcome {
            rewrite_address(ip, view, End::Source, view.source);
        }
        self.forget_idle(known);
        outcome
    }

    /// A router on the way to a host reports an error, and is no host whose packets are translated.
    fn leave_unknown(&mut self, now_ns: u64, ip: &mut [u8], view: &View, number: u32) -> Outcome {
        self.rename_quoted(ip, view, number);
        match View::of(ip) {
            Ok(View { upper: Upper::Error(quoted), .. }) => self.error_outward(now_ns, ip, view, &quoted),
            _ => Outcome::Drop(Cause::Malformed),
        }
    }

    /// An ICMP error from inside quotes a packet for a host, which gets the address that stands for the host.
    fn rename_quoted(&self, ip: &mut [u8], view: &View, number: u32) {
        if let Upper::Error(quoted) = &view.upper
            && let Some(known) = self.known_stand_in(vrf::host(number, quoted.destination))
        {
            rewrite_quoted(ip, view, quoted, End::Destination, known, None);
        }
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
        match self.policy.is_outside(source) && !self.own.contains(&source) {
            true => Outcome::Drop(Cause::Spoofed),
            false => Outcome::Unchanged,
        }
    }

    /// Translates a packet of a VRF that does not come by an outside link. If it is for an outside address, it goes from host to host.
    pub fn arriving_vrf(&mut self, now_ns: u64, ip: &mut [u8], number: u32, tries: bool) -> Outcome {
        if !self.is_for_outside(ip) {
            return self.passing(ip, false);
        }
        let view = match View::of(ip) {
            Ok(view) => view,
            Err(why) => return Outcome::Drop(why.into()),
        };
        if !self.leads_inside(&view) {
            return self.unmapped(view.destination);
        }
        let known = match self.stand_in(vrf::host(number, view.source)) {
            // A firewall would see the outside address of a host inside.
            Ok(_) if self.splits_hairpins => return Outcome::Drop(Cause::NoMapping),
            Ok(known) => Some(known),
            Err(Cause::NoMapping) => None,
            Err(cause) => return Outcome::Drop(cause),
        };
        if let Some(known) = known
            && let Outcome::Drop(cause) = self.leave_as(now_ns, ip, &view, (known, number), tries)
        {
            return Outcome::Drop(cause);
        }
        let ahead = self.ahead(ip, OUTSIDE);
        match tries {
            true => self.trying(now_ns, |nat| nat.arriving(now_ns, ip, &ahead, false)),
            false => self.arriving(now_ns, ip, &ahead, false),
        }
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
