// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trial: one rate, for one time, and what came of it.
//!
//! Frames that the tester failed to send are no loss of the device's. So an outcome has three numbers where others have two: how
//! many frames the schedule held ([`Outcome::intended`]), how many left the tester ([`Outcome::sent`]), and how many arrived
//! ([`Outcome::received`]). Loss is sent less received; what was not sent makes the tester the bottleneck, and the outcome
//! says so ([`Outcome::tester_kept_up`]).
//!
//! A tester that had no turn for a while sends what was due meanwhile in one lump. What a device loses of a lump says nothing of the rate,
//! so an outcome also counts the frames of lumps ([`Outcome::late`]).

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a trial shall do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// Frames a second that each sending port offers.
    pub rate: f64,
    /// For how long frames are sent. The time for stragglers to arrive comes on top.
    pub duration: Duration,
}

impl Trial {
    /// A trial of this rate in frames a second for each sending port.
    pub fn new(rate: f64, duration: Duration) -> Trial {
        Trial { rate, duration }
    }
}

/// What a trial showed, all ports and flows together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Frames that the schedule held.
    pub intended: u64,
    /// Frames that left the tester.
    pub sent: u64,
    /// Frames that arrived where they should, each counted once, undamaged.
    pub received: u64,
    /// For how long frames were sent.
    pub duration: Duration,
    /// Frames that left the tester so much later than they were due that they left in lumps which a device may have no room for.
    pub late: u64,
}

impl Outcome {
    /// Frames that left the tester and did not arrive.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// Share of the frames sent that was lost, 0 to 1. Nothing sent counts as all lost: it says nothing good of the device.
    pub fn loss_ratio(&self) -> f64 {
        if self.sent == 0 { 1.0 } else { self.lost() as f64 / self.sent as f64 }
    }

    /// Frames that the schedule held and that the tester did not send.
    pub fn unsent(&self) -> u64 {
        self.intended.saturating_sub(self.sent)
    }

    /// Adds another trial's.
    pub fn add(&mut self, other: &Outcome) {
        self.intended += other.intended;
        self.sent += other.sent;
        self.received += other.received;
        self.duration += other.duration;
        self.late += other.late;
    }

    /// Whether the tester sent all that it should have sent. If not, the rate is the tester's and not the device's.
    pub fn tester_kept_up(&self) -> bool {
        self.unsent() == 0
    }

    /// Whether frames were lost, but not more than left in lumps: whether the device would have lost them at an even rate is not known.
    pub fn is_doubtful(&self) -> bool {
        self.lost() > 0 && self.lost() <= self.late
    }

    /// Whether the device decided it: the tester kept up, and it is not its lumps that were lost.
    pub fn is_of_device(&self) -> bool {
        self.tester_kept_up() && !self.is_doubtful()
    }
}

/// Why a trial says nothing about the device.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq, Serialize, Deserialize)]
#[error("{what}{}{}", if .mend.is_empty() { "" } else { "; " }, .mend)]
pub struct Invalid {
    /// What happened.
    pub what: String,
    /// What to do about it, if that is known.
    pub mend: String,
}

impl Invalid {
    /// A trial that came to nothing by `what`; `mend` says what to do about it.
    pub fn new(what: impl ToString, mend: impl ToString) -> Invalid {
        Invalid { what: what.to_string(), mend: mend.to_string() }
    }
}

/// Carries out trials.
pub trait Measurer {
    /// Carries out one.
    ///
    /// # Errors
    /// Something other than the device's speed decided it: a link that went down, a device that is not there.
    fn measure(&mut self, trial: Trial) -> Result<Outcome, Invalid>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tester_did_not_send_is_not_lost() {
        let duration = Duration::from_secs(1);
        let outcome = Outcome { intended: 1000, sent: 900, received: 810, duration, late: 0 };
        assert_eq!((outcome.lost(), outcome.unsent(), outcome.tester_kept_up()), (90, 100, false));
        assert_eq!(outcome.loss_ratio(), 0.1);
        assert_eq!(Outcome::default().loss_ratio(), 1.0);
    }

    #[test]
    fn what_is_lost_of_lumps_is_not_the_device_s() {
        for (received, late, is_of_device) in [
            (1000, 0, true),
            (1000, 500, true),
            (900, 0, true),
            (900, 99, true),
            (900, 100, false),
            (0, 1000, false),
        ] {
            let outcome = Outcome { intended: 1000, sent: 1000, received, late, ..Outcome::default() };
            assert_eq!(outcome.is_of_device(), is_of_device, "{outcome:?}");
        }
    }
}
