// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drops: packets that are yet to be freed, and those that a profiler is not yet told of.
//!
//! What elements drop packet by packet is freed together when the task's packets have been carried, for a frame costs less in a batch than alone.
//!
//! Where every packet is dropped, each by itself, a record for each costs more than the packet did, and the recorder cannot write as many as there are.
//! So a worker adds up the drops of the same element for the same reason, and tells of them together: every so many rounds, and before it sleeps, ends,
//! or stands still for a change.

use sync::events::{self, Kind, short};

use packet::Packet;

use super::Worker;
use element::ElementId;
use element::drops::Reason;

/// What is told apart at a time. With more, all are told of earlier.
const KINDS: usize = 8;

/// See the module.
#[derive(Debug)]
pub(super) struct Untold {
    drops: [(ElementId, Reason, u64); KINDS],
    used: usize,
    /// Rounds until they are told; 0 while there is nothing to tell.
    rounds: u32,
}

impl Untold {
    pub(super) const fn new() -> Untold {
        Untold { drops: [(ElementId::new(0), Reason::Discarded, 0); KINDS], used: 0, rounds: 0 }
    }

    /// Adds drops that are to be told of after so many rounds at the latest.
    #[cold]
    #[inline(never)]
    pub(super) fn add(&mut self, element: ElementId, reason: Reason, n: u64, rounds: u32) {
        let known = self.drops[..self.used].iter_mut().find(|(e, r, _)| (*e, *r) == (element, reason));
        if let Some((.., sum)) = known {
            *sum += n;
            return;
        }
        if self.used == KINDS {
            self.tell();
        }
        if self.used == 0 {
            self.rounds = rounds.max(1);
        }
        self.drops[self.used] = (element, reason, n);
        self.used += 1;
    }

    /// A round has ended.
    #[inline(always)]
    pub(super) fn round(&mut self) {
        if self.rounds > 0 {
            self.rounds -= 1;
            if self.rounds == 0 {
                self.tell();
            }
        }
    }

    /// Tells of all.
    #[cold]
    #[inline(never)]
    pub(super) fn tell(&mut self) {
        for (element, reason, n) in self.drops[..self.used].iter().copied() {
            events::push(sync::tsc(), Kind::Drop, (element.number(), reason as u32), (0, short(n)));
        }
        (self.used, self.rounds) = (0, 0);
    }
}

/// Dropped packets that may wait to be freed.
const DEAD_MAX: usize = 128;

impl Worker {
    /// Drops a packet of the running element.
    #[inline]
    pub(crate) fn drop_one(&mut self, element: ElementId, reason: Reason, packet: Packet) {
        self.count_drops(element, reason, 1);
        if self.is_witnessed() {
            self.show_drops(element, reason, std::slice::from_ref(&packet));
        }
        self.dead.push(packet);
        if self.dead.len() >= DEAD_MAX {
            self.dead.free_all();
        }
    }

    /// Frees what elements have dropped.
    #[inline(always)]
    pub(super) fn bury(&mut self) {
        if !self.dead.is_empty() {
            self.bury_all();
        }
    }

    #[cold]
    #[inline(never)]
    fn bury_all(&mut self) {
        self.dead.free_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use element::first_ids;

    #[test]
    fn drops_are_told_together_after_so_many_rounds() {
        let mut untold = Untold::new();
        (0..100).for_each(|_| untold.add(ElementId::new(7), Reason::QueueFull, 2, 3));
        untold.add(ElementId::new(8), Reason::QueueFull, 1, 3);
        assert_eq!((untold.rounds, untold.used), (3, 2));
        assert_eq!(
            untold.drops[..2],
            [(ElementId::new(7), Reason::QueueFull, 200), (ElementId::new(8), Reason::QueueFull, 1)]
        );
        let mut untold = Untold::new();
        untold.add(ElementId::new(1), Reason::QueueFull, 5, 2);
        untold.round();
        assert_eq!((untold.used, untold.drops[0].2), (1, 5));
        untold.round();
        assert_eq!((untold.used, untold.rounds), (0, 0));
        // More kinds than there are places: those before are told, none is lost.
        first_ids(KINDS + 1).for_each(|element| untold.add(element, Reason::QueueFull, 1, 2));
        assert_eq!((untold.used, untold.drops[0].0), (1, ElementId::new(KINDS)));
    }
}
