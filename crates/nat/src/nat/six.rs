// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of IPv6 hosts (NAT64, RFC 6146). They come here with IPv4 headers, from the address that stands for their host.

use super::{Cause, Direction, INSIDE, Nat, Outcome};
use crate::hosts::Mark;
use crate::packet::source;
use crate::prefix::Prefix64;

impl Nat {
    /// Behind what IPv6 hosts see IPv4 addresses, if there are IPv6 hosts.
    pub fn prefix(&self) -> Option<Prefix64> {
        self.policy.prefix
    }

    /// The IPv4 address that stands for an inside host of IPv6, which is known from now on. It is forgotten with its last session, or by [`forget_idle`](Self::forget_idle).
    ///
    /// # Errors
    /// Its packets are not translated, or there is no room for more hosts.
    pub fn stand_in(&mut self, host: u128) -> Result<u32, Cause> {
        if let Some(known) = self.subscribers.hosts.number(host) {
            return Ok(known);
        }
        let by = self.policy.translation6(host).ok_or(Cause::NoMapping)?;
        // A host that has no session yet is the only one such.
        if self.subscribers.hosts.len() > self.sessions.capacity() + self.policy.hosts.len() {
            return Err(Cause::Full);
        }
        self.subscribers.hosts.enter(host, Some(by as u16)).ok_or(Cause::Full)
    }

    /// The address that stands for a host that is known.
    pub fn known_stand_in(&self, host: u128) -> Option<u32> {
        self.subscribers.hosts.number(host)
    }

    /// The IPv6 host that an address stands for.
    #[inline]
    pub fn host(&self, stand_in: u32) -> Option<u128> {
        self.subscribers.hosts.address(stand_in)
    }

    /// The mark of the host that an address stands for. Hosts that had this address before had other ones.
    #[inline]
    pub fn mark(&self, stand_in: u32) -> Option<Mark> {
        self.subscribers.hosts.mark(stand_in)
    }

    /// Forgets a host that has no session.
    pub fn forget_idle(&mut self, stand_in: u32) {
        self.subscribers.hosts.forget_idle(stand_in);
    }

    /// Translates a packet from an address that stands for an IPv6 host: its source. `tries`: it is a copy, and is forgotten.
    pub fn leaving_six(&mut self, now_ns: u64, ip: &mut [u8], tries: bool) -> Outcome {
        let ahead = self.ahead(ip, INSIDE);
        // The host stays while its packet is here, also if its last session gives way to this one.
        let source = source(ip).unwrap_or_default();
        self.subscribers.hosts.hold(source, 1);
        let leave = |nat: &mut Nat, ip: &mut [u8]| match ahead.view {
            Err(why) => Outcome::Drop(why.into()),
            Ok(view) => match nat.session_ahead(now_ns, &ahead, Direction::Forward) {
                Some(id) => nat.known(now_ns, ip, &view, id, 0),
                None => nat.leaving_unknown(now_ns, ip, &view),
            },
        };
        let outcome = match tries {
            true => self.trying(now_ns, |nat| leave(nat, ip)),
            false => leave(self, ip),
        };
        self.subscribers.hosts.hold(source, -1);
        // What nobody translates must not leave with an address that is no one's.
        if outcome == Outcome::Unchanged { Outcome::Drop(Cause::NoMapping) } else { outcome }
    }
}
