// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that elements of one worker made, ended and dropped.

use element::account::PacketAccount;
use element::drops::{DropCounts, Reason};
use element::{ElementId, IndexVec};
use sync::zeros::zeros;

/// See the module.
pub(super) struct Accounts {
    drops: IndexVec<ElementId, DropCounts>,
    /// What elements make and end, as they say.
    accounts: IndexVec<ElementId, PacketAccount>,
}

/// The accounts of an element that is only tried.
pub(super) struct Saved {
    drops: DropCounts,
    account: PacketAccount,
}

impl Accounts {
    pub(super) fn new(elements: usize) -> Accounts {
        Accounts { drops: zeros(elements).into(), accounts: zeros(elements).into() }
    }

    #[inline]
    pub(super) fn add_drops(&mut self, element: ElementId, reason: Reason, n: u64) {
        self.drops[element].add(reason, n);
    }

    #[inline]
    pub(super) fn drops(&self, element: ElementId) -> &DropCounts {
        &self.drops[element]
    }

    #[inline]
    pub(super) fn account(&self, element: ElementId) -> &PacketAccount {
        &self.accounts[element]
    }

    #[inline(always)]
    pub(super) fn account_mut(&mut self, element: ElementId) -> &mut PacketAccount {
        &mut self.accounts[element]
    }

    /// Packets that an element has made.
    pub(super) fn made(&self, element: ElementId) -> u64 {
        self.accounts[element].made
    }

    /// Adds the accounts of element `o` elsewhere.
    pub(super) fn add(&mut self, n: ElementId, old: &Accounts, o: ElementId) {
        for (reason, count) in old.drops[o].iter() {
            self.drops[n].add(reason, count);
        }
        // Counters of which there is nothing to add stay untouched: they take no memory until then.
        if old.accounts[o] != PacketAccount::default() {
            self.accounts[n] += old.accounts[o];
        }
    }

    /// Keeps the accounts of an element, to be put back by [`Accounts::restore`].
    pub(super) fn save(&self, element: ElementId) -> Saved {
        Saved { drops: self.drops[element].clone(), account: self.accounts[element] }
    }

    /// Forgets what was counted since; returns why a packet was dropped.
    pub(super) fn restore(&mut self, element: ElementId, saved: Saved) -> Option<Reason> {
        let dropped = self.drops[element].since(&saved.drops);
        (self.drops[element], self.accounts[element]) = (saved.drops, saved.account);
        dropped
    }
}
