// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a worker does when it finds no work: it spins for a while, then it sleeps.

use std::time::Duration;

use super::Worker;
use crate::watch::LONGEST_SLEEP;

/// Rounds without work after which a worker sleeps until a descriptor, a timer or a message wakes it.
const IDLE_ROUNDS: u32 = 2000;

/// Rounds between looks at watched descriptors while there is work.
pub(crate) const POLL_ROUNDS: u32 = 256;

/// How busy a worker is, and whether it may sleep.
#[derive(Debug, Default)]
pub(super) struct Pace {
    rounds: u32,
    /// Rounds without work in succession.
    idle: u32,
    /// Never sleep for want of work.
    awake: bool,
    /// The message that was executed only asked a question, for which one need not stay awake.
    only_asked: bool,
}

impl Pace {
    /// Rounds until now.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds
    }

    /// A round has ended. Returns whether to look at descriptors.
    #[inline]
    pub(super) fn count_round(&mut self) -> bool {
        self.rounds = self.rounds.wrapping_add(1);
        self.rounds.is_multiple_of(POLL_ROUNDS)
    }

    /// Begins to count anew, so that descriptors wait.
    pub(super) fn put_off_descriptors(&mut self) {
        self.rounds = 0;
    }

    /// There was work.
    #[inline]
    pub(super) fn set_busy(&mut self) {
        self.idle = 0;
    }

    /// Whether the message that was executed was work. To be asked once for each.
    pub(super) fn was_work(&mut self) -> bool {
        !std::mem::take(&mut self.only_asked)
    }
}

impl Worker {
    /// From now on it never sleeps for want of work.
    pub(crate) fn stay_awake(&mut self) {
        self.pace.awake = true;
    }

    /// The message that is executed is a question, and no work.
    pub(crate) fn only_asked(&mut self) {
        self.pace.only_asked = true;
    }

    /// Does what an idle worker does: advances simulated time, or spins, or sleeps. Returns false when nothing can
    /// ever happen again.
    pub(super) fn rest(&mut self) -> bool {
        self.pace.idle = self.pace.idle.saturating_add(1);
        if self.clock.is_simulated() {
            return self.advance_time();
        }
        let nothing_to_poll = self.tasks.scheduled() == 0;
        if (self.pace.idle < IDLE_ROUNDS && !nothing_to_poll) || self.pace.awake {
            std::hint::spin_loop();
            return true;
        }
        // Announce the sleep, look once more, then sleep: a worker that fills a queue of ours in between sees the
        // announcement and wakes us.
        let shared = self.shared.clone();
        shared.mailboxes[self.index].announce_sleep(true);
        if !self.round() && !shared.is_stopped() {
            let now = self.clock.now();
            let timeout = self
                .timers
                .next_at()
                .map_or(LONGEST_SLEEP, |at| Duration::from_nanos(at.saturating_sub(now)).min(LONGEST_SLEEP));
            self.record_pending();
            let begun = sync::tsc();
            self.wait(timeout);
            self.record_sleep(begun);
        }
        shared.mailboxes[self.index].announce_sleep(false);
        // Having slept, look around for a short while only.
        self.pace.idle = IDLE_ROUNDS - IDLE_ROUNDS / 20;
        true
    }

    /// Lets simulated time go on to what happens next. Returns false when nothing will.
    fn advance_time(&mut self) -> bool {
        // Tasks of few tickets may not have been scheduled in this round.
        if self.tasks.is_uneven() && self.run_each_task() {
            return true;
        }
        match self.timers.next_at() {
            Some(at) => {
                self.clock.advance_to(at);
                true
            }
            None if self.watches() => {
                self.wait(LONGEST_SLEEP);
                true
            }
            None => self.mailbox().has_mail(),
        }
    }
}
