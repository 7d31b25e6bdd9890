// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drops that are yet to be recorded.
//!
//! Where every packet is dropped, each by itself, a record for each costs more than the packet did, and the recorder cannot write as many as there are.
//! So a worker adds up the drops of the same element for the same reason. It records them together: every so many rounds, and before it sleeps, ends,
//! or stands still for a change.

use sync::events::{self, EventKind, short};

use element::ElementId;
use element::drops::Reason;

/// Pairs of element and reason that are added up at a time. With more, all are recorded earlier.
const KINDS: usize = 8;

/// See the module.
#[derive(Debug)]
pub(super) struct PendingDrops {
    drops: [(ElementId, Reason, u64); KINDS],
    used: usize,
    /// Rounds until they are recorded; 0 while there is nothing to record.
    rounds: u32,
}

impl PendingDrops {
    pub(super) const fn new() -> PendingDrops {
        PendingDrops { drops: [(ElementId::new(0), Reason::Discarded, 0); KINDS], used: 0, rounds: 0 }
    }

    /// Adds drops that are to be recorded after so many rounds at the latest.
    #[cold]
    #[inline(never)]
    pub(super) fn add(&mut self, element: ElementId, reason: Reason, n: u64, rounds: u32) {
        let known = self.drops[..self.used].iter_mut().find(|(e, r, _)| (*e, *r) == (element, reason));
        if let Some((.., sum)) = known {
            *sum += n;
            return;
        }
        if self.used == KINDS {
            self.record();
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
                self.record();
            }
        }
    }

    /// Records all.
    #[cold]
    #[inline(never)]
    pub(super) fn record(&mut self) {
        for (element, reason, n) in self.drops[..self.used].iter().copied() {
            events::push(sync::tsc(), EventKind::Drop, (element.number(), reason as u32), (0, short(n)));
        }
        (self.used, self.rounds) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use element::first_ids;

    #[test]
    fn drops_are_recorded_together_after_so_many_rounds() {
        let mut pending = PendingDrops::new();
        (0..100).for_each(|_| pending.add(ElementId::new(7), Reason::QueueFull, 2, 3));
        pending.add(ElementId::new(8), Reason::QueueFull, 1, 3);
        assert_eq!((pending.rounds, pending.used), (3, 2));
        assert_eq!(
            pending.drops[..2],
            [(ElementId::new(7), Reason::QueueFull, 200), (ElementId::new(8), Reason::QueueFull, 1)]
        );
        let mut pending = PendingDrops::new();
        pending.add(ElementId::new(1), Reason::QueueFull, 5, 2);
        pending.round();
        assert_eq!((pending.used, pending.drops[0].2), (1, 5));
        pending.round();
        assert_eq!((pending.used, pending.rounds), (0, 0));
        // More kinds than there are places: those before are recorded, none is lost.
        first_ids(KINDS + 1).for_each(|element| pending.add(element, Reason::QueueFull, 1, 2));
        assert_eq!((pending.used, pending.drops[0].0), (1, ElementId::new(KINDS)));
    }
}
