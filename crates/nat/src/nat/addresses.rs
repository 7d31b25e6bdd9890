// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other addresses of interfaces that statements name.
//!
//! Sessions of an address that an interface no longer has end. There may be many, so they end some at a time. Until all of them have:
//! * A packet that belongs to one of them ends it, and is translated as if it had never been.
//! * A host that has such sessions begins none by another address, because a host has one address (RFC 4787, REQ-2).
//! * The address is not used, also if another interface has got it. The next change waits.

use std::net::Ipv4Addr;
use std::sync::Arc;

use tables::flow::{FlowId, NEVER};

use super::{Cause, Nat};
use crate::interfaces::{Addresses, Unfit};
use crate::policy::Policy;
use crate::ports::Kind;

/// Addresses of interfaces, and how far the last change is.
#[derive(Debug, Default)]
pub(super) struct Following {
    /// Those that interfaces have.
    wanted: Addresses,
    /// Those of them that are used.
    used: Addresses,
    /// Those that are used no more, while they have sessions.
    lost: Vec<u32>,
    /// The session from which on the next ones are looked at.
    next: usize,
}

impl Following {
    /// Whether sessions of an outside address are over.
    #[inline(always)]
    pub(super) fn has_lost(&self, outside: u32) -> bool {
        !self.lost.is_empty() && self.lost.contains(&outside)
    }

    /// Whether sessions of addresses that are gone may be there.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        !self.lost.is_empty()
    }

    /// What a policy becomes where interfaces have the addresses that they have, and the addresses that it uses.
    pub(super) fn fill(&self, policy: Arc<Policy>) -> (Arc<Policy>, Addresses) {
        if policy.interfaces().is_empty() {
            return (policy, Addresses::default());
        }
        let (used, _) = policy.fitting(&self.wanted);
        (Arc::new(policy.with_addresses(&used)), used)
    }

    /// The same for another translator, which has no sessions of addresses that are gone.
    pub(super) fn anew(&self, used: Addresses) -> Following {
        Following { wanted: self.wanted.clone(), used, ..Following::default() }
    }

    /// Another policy uses these.
    pub(super) fn use_only(&mut self, used: Addresses) {
        self.used = used;
    }
}

impl Nat {
    /// Interfaces have these addresses from now on. Sessions of others end, some now, the rest by [`reap`](Self::reap).
    pub fn set_addresses(&mut self, now_ns: u64, addresses: Addresses) {
        self.subscribers.pass(now_ns);
        self.following.wanted = addresses;
        if !self.following.is_busy() {
            self.follow();
        }
    }

    /// The same before another policy is put in place by [`replace`](Self::replace), which ends sessions.
    pub fn addresses_instead(&mut self, addresses: Addresses) {
        self.following.wanted = addresses;
    }

    /// The addresses that interfaces have.
    pub fn addresses(&self) -> &Addresses {
        &self.following.wanted
    }

    /// Addresses of interfaces that statements name, which are not used, and why.
    pub fn unfit_addresses(&self) -> Vec<(String, Ipv4Addr, Unfit)> {
        self.policy.fitting(&self.following.wanted).1
    }

    /// Whether sessions of addresses that are gone are still to end.
    pub fn is_following(&self) -> bool {
        self.following.is_busy()
    }

    /// Uses the addresses that interfaces have, and no others.
    fn follow(&mut self) {
        let (mut used, _) = self.policy.fitting(&self.following.wanted);
        let lost = self.following.used.without(&used);
        // One that goes from an interface to another one has sessions of the former.
        used.forget(&lost);
        if used == self.following.used {
            return;
        }
        self.release(&lost);
        let gained = used.without(&self.following.used);
        self.policy = Arc::new(self.policy.with_addresses(&used));
        self.following =
            Following { used, lost, next: 0, wanted: std::mem::take(&mut self.following.wanted) };
        self.own = self.own_with(&self.written_own);
        self.forwards.clear();
        self.forwarded.clear();
        self.reserve();
        self.reserve_on(&gained);
    }

    /// The router's own addresses: these, and those of interfaces.
    pub(super) fn own_with(&self, written: &[u32]) -> Vec<u32> {
        written.iter().copied().chain(self.following.used.all()).collect()
    }

    /// Ports of addresses that are gone are kept for nothing any more.
    fn release(&mut self, lost: &[u32]) {
        let policy = Arc::clone(&self.policy);
        for address in lost.iter().filter(|address| !self.written_own.contains(address)) {
            let space = self.subscribers.space(*address);
            for (low, high) in &self.reserved {
                for kind in [Kind::Tcp, Kind::Udp] {
                    (*low..=*high).for_each(|port| space.free(kind, port));
                }
            }
        }
        for one in policy.forwards.iter().filter(|one| one.interface.is_some()) {
            for address in one.outside.iter().filter(|address| lost.contains(address)) {
                if let Some(kind) = Kind::of(one.protocol) {
                    let space = self.subscribers.space(*address);
                    (one.ports.0..=one.ports.1).for_each(|port| space.free(kind, port));
                }
            }
        }
    }

    /// Ends sessions of addresses that are gone; so many are looked at. When none is left, the next change follows.
    #[inline]
    pub(super) fn follow_along(&mut self, looks: usize) {
        if self.following.is_busy() {
            self.end_lost(looks);
        }
    }

    fn end_lost(&mut self, looks: usize) {
        let mut ids: Vec<(FlowId, bool)> = Vec::new();
        let following = &self.following;
        let next = self.sessions.some(following.next, looks, |id, flow| {
            if following.has_lost(flow.reply.dst) {
                ids.push((id, flow.expires_ns == NEVER));
            }
        });
        for (id, is_mirrored) in ids {
            if is_mirrored { self.drop_mirrored(id) } else { self.remove(id) }
        }
        match next {
            Some(next) => self.following.next = next,
            None => {
                self.following.lost.clear();
                let policy = Arc::clone(&self.policy);
                self.subscribers.tidy(|address| policy.is_outside(address));
                self.follow();
            }
        }
    }

    /// Whether a host can have an outside address by a translation, or needs none.
    ///
    /// # Errors
    /// Its interface has none, or the host still has sessions of one that is gone.
    #[inline]
    pub(super) fn may_have_address(&self, inside: u32, by: Option<u16>) -> Result<(), Cause> {
        let translation = by.and_then(|by| self.policy.translations.get(usize::from(by)));
        let is_over = self.following.is_busy()
            && self.subscribers.outside_of(inside).is_some_and(|outside| self.following.has_lost(outside));
        match is_over || translation.is_some_and(|one| one.pool.is_empty()) {
            true => Err(Cause::NoAddress),
            false => Ok(()),
        }
    }
}
