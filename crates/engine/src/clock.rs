// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time: read at most once per round of a worker, or simulated.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub use element::clock::{Nanos, SECOND, thread_cpu_ns};

/// Where simulated time begins by default: a billion seconds after the epoch, as in Click.
pub const SIMULATION_EPOCH: Nanos = 1_000_000_000 * SECOND;

/// Real or simulated time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSource {
    /// The machine's clocks.
    Real,
    /// Time stands still while there is work and jumps to the next timer when there is none; it begins at this many
    /// nanoseconds after the epoch.
    Simulated(Nanos),
}

/// A worker's clock.
#[derive(Clone, Debug)]
pub struct Clock {
    start: Instant,
    wall_at_start: Nanos,
    simulated: bool,
    now: Nanos,
    fresh: bool,
}

impl Clock {
    pub(crate) fn new(source: TimeSource) -> Clock {
        let (wall_at_start, simulated) = match source {
            TimeSource::Real => {
                (SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as Nanos), false)
            }
            TimeSource::Simulated(begin) => (begin, true),
        };
        Clock { start: Instant::now(), wall_at_start, simulated, now: 0, fresh: simulated }
    }

    /// Nanoseconds since the router started; the same value until [`Clock::expire`].
    #[inline]
    pub fn now(&mut self) -> Nanos {
        if !self.fresh {
            self.now = self.start.elapsed().as_nanos() as Nanos;
            self.fresh = true;
        }
        self.now
    }

    /// Nanoseconds since the epoch.
    #[inline]
    pub(crate) fn wall(&mut self) -> Nanos {
        self.wall_at_start + self.now()
    }

    /// Lets the next question read the machine's clock again.
    #[inline]
    pub fn expire(&mut self) {
        self.fresh = self.simulated;
    }

    /// Whether time is simulated.
    pub fn is_simulated(&self) -> bool {
        self.simulated
    }

    /// Moves simulated time forward.
    pub(crate) fn advance_to(&mut self, now: Nanos) {
        debug_assert!(self.simulated);
        self.now = self.now.max(now);
    }
}
