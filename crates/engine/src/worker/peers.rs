// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a worker gets along with the others where not all of them run at will.
//!
//! There may be one lock around all processing of packets. Workers may go [round by round](super::alternate). And they may share
//! [simulated time](super::turns).

use std::sync::Arc;
use std::time::Instant;

use sync::lock::AdaptiveLock;

use super::{TurnPlace, Turns, Worker};

/// See the module.
#[derive(Default)]
pub(super) struct Peers {
    /// The lock around all processing of packets, if there is one; absent while it is held.
    big_lock: Option<Arc<AdaptiveLock<()>>>,
    /// Whose round it is, if workers go one after the other.
    turn: Option<TurnPlace>,
    /// How it shares simulated time with others.
    turns: Option<Arc<Turns>>,
}

impl Peers {
    #[inline]
    pub(super) fn has_big_lock(&self) -> bool {
        self.big_lock.is_some()
    }

    #[inline]
    pub(super) fn turn(&self) -> Option<TurnPlace> {
        self.turn.clone()
    }

    pub(super) fn turns(&self) -> Option<&Arc<Turns>> {
        self.turns.as_ref()
    }

    /// Takes over the lock of the worker before.
    pub(super) fn take_over_lock(&mut self, old: &mut Peers) {
        self.big_lock = old.big_lock.take();
    }
}

impl Worker {
    /// From now on it goes through its rounds with this lock held.
    pub(crate) fn set_big_lock(&mut self, lock: Arc<AdaptiveLock<()>>) {
        self.peers.big_lock = Some(lock);
    }

    /// From now on it goes through its rounds in its turn.
    pub(crate) fn set_turn(&mut self, place: TurnPlace) {
        self.peers.turn = Some(place);
    }

    /// Says how it shares simulated time with others, if it does.
    pub(crate) fn set_turns(&mut self, turns: Option<Arc<Turns>>) {
        self.peers.turns = turns;
    }

    /// A round with the lock held.
    #[inline(never)]
    pub(super) fn round_with_lock(&mut self) -> bool {
        let Some(lock) = self.peers.big_lock.take() else { return false };
        let clock = Instant::now();
        // The holder may wait for this worker to answer a handler.
        let meanwhile = || {
            self.pulse.wait();
            if self.mailbox().has_mail() {
                self.serve();
            }
            std::thread::yield_now();
        };
        let held = lock.lock_meanwhile(|| clock.elapsed().as_nanos() as u64, meanwhile);
        let worked = self.round_without_lock();
        drop(held);
        self.peers.big_lock = Some(lock);
        worked
    }
}
