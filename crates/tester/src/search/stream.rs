// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams whose loss over time can be read: what recovery, reset and soak tests need beyond the totals of a trial.
//!
//! All times count from the start of the stream. Loss is put down to the time at which the lost frames were *sent*, which the tester knows from their
//! sequence numbers and schedule, for any delay of the device.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::trial::Invalid;

/// A part of a stream: one rate for a while.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Frames a second that each sending port offers.
    pub rate: f64,
    /// For how long.
    pub duration: Duration,
}

/// What was sent within one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Frames that the schedule held.
    pub intended: u64,
    /// Frames sent.
    pub sent: u64,
    /// Of these, lost.
    pub lost: u64,
}

/// A run of frames in sequence that were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// How many.
    pub frames: u64,
    /// When the first of them was sent.
    pub first_sent: Duration,
    /// When the last of them was sent.
    pub last_sent: Duration,
    /// When the last frame before them arrived; nothing if the stream began with them.
    pub arrived_before: Option<Duration>,
    /// When the first frame after them arrived; nothing if none did.
    pub arrived_after: Option<Duration>,
}

/// What a stream showed over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// When each step began.
    pub steps: Vec<Duration>,
    /// When the last frame was sent.
    pub end: Duration,
    /// When something was done to the device, if so.
    pub event: Option<Duration>,
    /// Width of the bins.
    pub bin: Duration,
    /// From the start of the stream.
    pub bins: Vec<Bin>,
    /// In order of sending. Of several flows, each has its own.
    pub gaps: Vec<Gap>,
    /// Frames that left the tester in lumps.
    pub late: u64,
}

impl Timeline {
    /// All bins together.
    pub fn total(&self) -> Bin {
        self.bins.iter().fold(Bin::default(), |sum, bin| Bin {
            intended: sum.intended + bin.intended,
            sent: sum.sent + bin.sent,
            lost: sum.lost + bin.lost,
        })
    }

    /// Leaves out the bins that were not over when the last frame was sent.
    pub fn cut(&mut self) {
        let over = self.end.as_nanos().checked_div(self.bin.as_nanos());
        self.bins.truncate(over.unwrap_or(0) as usize);
    }

    /// Whether the tester sent all that it should have sent.
    pub fn tester_kept_up(&self) -> bool {
        self.bins.iter().all(|bin| bin.sent >= bin.intended)
    }

    /// Whether so many lost frames are no more than left in lumps: at an even rate the device might have lost none.
    pub fn is_doubtful(&self, lost: u64) -> bool {
        lost > 0 && lost <= self.late
    }

    /// The gaps of which a frame was sent at `time` or later.
    pub fn gaps_from(&self, time: Duration) -> impl Iterator<Item = &Gap> {
        self.gaps.iter().filter(move |gap| gap.last_sent >= time)
    }
}

/// Sends streams and says what became of them over time.
pub trait Streams {
    /// Sends the steps without a pause between them, and counts in bins of this width.
    ///
    /// # Errors
    /// Something other than the device's speed decided it.
    fn stream(&mut self, steps: &[Step], bin: Duration) -> Result<Timeline, Invalid>;
}

/// Resets the device while a stream runs.
pub trait Resets {
    /// Sends `rate` frames a second for `before`, then resets the device (and notes when, as [`Timeline::event`]), and goes on sending
    /// for `after`.
    ///
    /// # Errors
    /// Something other than the reset decided it, such as that it could not be done.
    fn reset(&mut self, rate: f64, before: Duration, after: Duration) -> Result<Timeline, Invalid>;
}
