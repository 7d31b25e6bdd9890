// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drops: each is counted, recorded and shown to observers.
//!
//! What elements drop packet by packet is freed together when the task's packets have been carried, for a frame costs less in a batch than alone.

use packet::{Batch, Packet};

use super::Worker;
use element::ElementId;
use element::drops::Reason;

impl Worker {
    /// Drops a packet of the running element.
    #[inline]
    pub(super) fn drop_one(&mut self, element: ElementId, reason: Reason, packet: Packet) {
        self.count_drops(element, reason, 1);
        if self.has_observers() {
            self.show_drops(element, reason, std::slice::from_ref(&packet));
        }
        self.carrier.add_dead(packet);
    }

    /// Drops a batch of the running element.
    #[inline]
    pub(super) fn drop_batch(&mut self, element: ElementId, reason: Reason, batch: Batch) {
        self.count_drops(element, reason, batch.len() as u64);
        if self.has_observers() {
            self.show_drops(element, reason, &batch);
        }
        drop(batch);
    }

    /// Drops packets that could not be sent.
    #[cold]
    pub(super) fn drop_unsent(&mut self, element: ElementId, reason: Reason, batch: Batch) {
        self.drop_batch(element, reason, batch);
    }

    /// Counts dropped packets that are not at hand.
    #[inline]
    pub(super) fn count_lost(&mut self, element: ElementId, reason: Reason, n: u64) {
        self.count_drops(element, reason, n);
        if self.has_observers() {
            self.show_lost(element, reason, n);
        }
    }

    #[inline]
    fn count_drops(&mut self, element: ElementId, reason: Reason, n: u64) {
        if n > 0 {
            self.accounts.add_drops(element, reason, n);
            self.record_drops(element, reason, n);
        }
    }
}
