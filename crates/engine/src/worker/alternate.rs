// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workers that go round by round, one after the other, each on its core: for measurements.
//!
//! What a worker finds in the other's cache it has to fetch, as it would if both ran at once: packets, rings, tables, what lies
//! behind locks. But no worker waits for a lock or a queue, and no two use the memory at once. So these three costs can be separated.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sync::padded::CachePadded;

use super::Worker;

/// Whose round it is of all workers that share this, counted without end.
#[derive(Clone, Debug, Default)]
pub struct Turn(Arc<CachePadded<AtomicUsize>>);

/// A worker's place among those that take turns.
#[derive(Clone, Debug)]
pub(crate) struct TurnPlace {
    pub(crate) turn: Turn,
    pub(crate) place: usize,
    pub(crate) of: usize,
}

/// Looks at whose turn it is before a worker goes on anyway: the worker in turn may have ended, or be off its processor.
const PATIENCE: u32 = 1 << 12;

impl Worker {
    /// One round, when it is this worker's turn.
    #[cold]
    pub(super) fn round_in_turn(&mut self, place: &TurnPlace) -> bool {
        let TurnPlace { turn: Turn(turn), place, of } = place;
        let mut now = turn.load(Ordering::Acquire);
        for _ in 0..PATIENCE {
            if now % of == *place || self.shared.is_stopped() {
                break;
            }
            // A thread that asks for the workers, or for an answer of this one, has not to wait for its turn.
            if self.mailbox().has_mail() {
                return self.serve();
            }
            std::hint::spin_loop();
            now = turn.load(Ordering::Acquire);
        }
        let worked = self.round();
        if now % of != *place {
            return worked;
        }
        turn.store(now.wrapping_add(1), Ordering::Release);
        worked
    }
}
