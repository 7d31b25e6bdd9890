// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workers that have been in one round for long, seen from outside.

use super::Control;
use crate::stall::{Account, Stall, Standing};

impl Control {
    /// The kernel's account of a worker's thread, if it has one and the kernel says so.
    pub fn account(&self, worker: usize) -> Option<Account> {
        Account::of(self.runtime.mailboxes.get(worker)?.pulse.thread()?)
    }

    /// Where a worker is, if it is in an element now. Two looks that find the same round say that it has not ended in between.
    pub fn standing(&self, worker: usize) -> Option<Standing> {
        let mailbox = self.runtime.mailboxes.get(worker)?;
        // Those that share simulated time wait for each other wherever they are.
        if self.runtime.shares_time() || mailbox.is_away() {
            return None;
        }
        Standing::of(&mailbox.pulse)
    }

    /// What there is to say about a worker that has been in one round for so long, in cycles until now.
    pub fn stall(&self, worker: usize, standing: Standing, cycles: u64, wall_ns: u64) -> Stall {
        standing.stall(worker, self.runtime.pulse(worker), &self.shared(), (cycles, wall_ns))
    }
}
