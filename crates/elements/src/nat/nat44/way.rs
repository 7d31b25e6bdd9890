// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way of a packet through the translator: by which function of [`Nat`] it is translated.

use element::clock::Nanos;
use nat::{Ahead, Cause, Nat, Outcome, PutOff};

/// What decides how a packet is translated, apart from its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Whether it has been routed, and leaves by an outside link.
    pub(super) leaves: bool,
    /// Whether it came by an outside link.
    pub(super) from_outside: bool,
    /// The number of its VRF; 0 for the main table.
    pub(super) vrf: u32,
}

impl Way {
    /// Translates a packet if that changes nothing that other workers look at.
    #[inline]
    pub(super) fn shared(
        self,
        nat: &Nat,
        now: Nanos,
        ip: &mut [u8],
        ahead: &Ahead,
        put_off: &mut PutOff,
    ) -> Option<Outcome> {
        match self {
            Way { leaves: true, vrf: 0, .. } => nat.leaving_shared(now, ip, ahead, put_off),
            Way { leaves: true, vrf, .. } => nat.leaving_vrf_shared(now, ip, vrf, ahead, put_off),
            Way { from_outside: false, vrf: 1.., .. } => {
                nat.arriving_vrf_shared(now, ip, self.vrf, ahead, put_off)
            }
            Way { vrf: 1.., .. } if nat.is_spoofed_in(ip, self.vrf) => Some(Outcome::Drop(Cause::Spoofed)),
            Way { from_outside, .. } => nat.arriving_shared(now, ip, ahead, from_outside, put_off),
        }
    }

    /// Translates any packet.
    pub(super) fn exclusive(self, nat: &mut Nat, now: Nanos, ip: &mut [u8], ahead: &Ahead) -> Outcome {
        match self {
            Way { leaves: true, vrf: 0, .. } => nat.leaving(now, ip, ahead),
            Way { leaves: true, vrf, .. } => nat.leaving_vrf(now, ip, vrf, false),
            Way { from_outside: false, vrf: 1.., .. } => nat.arriving_vrf(now, ip, self.vrf, false),
            Way { vrf: 1.., .. } if nat.is_spoofed_in(ip, self.vrf) => Outcome::Drop(Cause::Spoofed),
            Way { from_outside, .. } => nat.arriving(now, ip, ahead, from_outside),
        }
    }

    /// Does the same to a copy of a packet, and forgets it.
    pub(super) fn rehearse(self, nat: &mut Nat, now: Nanos, ip: &mut [u8]) -> Outcome {
        match self {
            Way { leaves: true, vrf: 1.., .. } => nat.leaving_vrf(now, ip, self.vrf, true),
            Way { leaves: false, from_outside: false, vrf: 1.. } => nat.arriving_vrf(now, ip, self.vrf, true),
            Way { leaves: false, vrf: 1.., .. } if nat.is_spoofed_in(ip, self.vrf) => {
                Outcome::Drop(Cause::Spoofed)
            }
            Way { leaves, from_outside, .. } => nat.rehearse(now, ip, leaves, from_outside),
        }
    }
}
