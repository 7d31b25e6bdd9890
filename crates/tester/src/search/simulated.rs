// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices that are computed, with a known truth for the procedures to find.

use std::time::Duration;

use super::back_to_back::Bursts;
use crate::trial::{Invalid, Measurer, Outcome, Trial};

/// A device between two ports of a tester.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    /// Frames a second that it forwards.
    pub capacity: f64,
    /// The capacity of each trial is this share of it higher or lower, at random.
    pub noise: f64,
    /// Share of frames that it loses at any rate, each at random.
    pub loss: f64,
    /// Frames that it can hold.
    pub buffer_frames: u64,
    /// Frames a second that the tester can send.
    pub tester_rate_max: f64,
    /// Frames a second of the medium, at which bursts are sent.
    pub line_rate: f64,
    /// The link goes down after so many trials.
    pub broken_after: Option<usize>,
    /// Trials so far.
    pub trials: usize,
    /// State of the random numbers.
    pub random: u64,
}

impl Device {
    /// Forwards up to `capacity` frames a second, and not one more.
    pub fn sharp(capacity: f64) -> Device {
        Device {
            capacity,
            noise: 0.0,
            loss: 0.0,
            buffer_frames: 0,
            tester_rate_max: f64::INFINITY,
            line_rate: f64::INFINITY,
            broken_after: None,
            trials: 0,
            random: 1,
        }
    }

    /// The next random number, 0 to 1 (splitmix64).
    fn draw(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Frames out of `frames` that chance takes, about `loss` of them, without drawing for each.
    fn taken_by_chance(&mut self, frames: u64) -> u64 {
        let expected = frames as f64 * self.loss;
        if expected == 0.0 {
            return 0;
        }
        if expected < 20.0 {
            // Poisson by waiting times: exact enough where none at all is the question.
            let (mut sum, mut count) = (0.0, 0);
            loop {
                sum -= self.draw().max(f64::MIN_POSITIVE).ln();
                if sum > expected {
                    return count.min(frames);
                }
                count += 1;
            }
        }
        let spread = (self.draw() + self.draw() + self.draw() - 1.5) * 2.0 * expected.sqrt();
        ((expected + spread).max(0.0) as u64).min(frames)
    }

    fn trial_begins(&mut self) -> Result<(), Invalid> {
        if self.broken_after.is_some_and(|after| self.trials >= after) {
            return Err(Invalid::new("link down", "look at the cable"));
        }
        self.trials += 1;
        Ok(())
    }
}

impl Measurer for Device {
    fn measure(&mut self, trial: Trial) -> Result<Outcome, Invalid> {
        self.trial_begins()?;
        let time_s = trial.duration.as_secs_f64();
        let intended = (trial.rate * time_s) as u64;
        let sent = intended.min((self.tester_rate_max * time_s) as u64);
        let capacity = self.capacity * (1.0 + self.noise * (2.0 * self.draw() - 1.0));
        // A little is added for products that are a rounding short of a whole number.
        let forwarded = sent.min((capacity * time_s + 1e-6) as u64 + self.buffer_frames);
        let received = forwarded - self.taken_by_chance(forwarded);
        Ok(Outcome { intended, sent, received, duration: trial.duration, late: 0 })
    }
}

impl Bursts for Device {
    fn burst(&mut self, frames: u64, _settle: Duration) -> Result<Outcome, Invalid> {
        self.trial_begins()?;
        let sent = if self.tester_rate_max < self.line_rate { frames.min(1000) } else { frames };
        let time_s = sent as f64 / self.line_rate;
        let capacity = self.capacity * (1.0 + self.noise * (2.0 * self.draw() - 1.0));
        let forwarded = sent.min((capacity * time_s) as u64 + self.buffer_frames);
        let received = forwarded - self.taken_by_chance(forwarded);
        Ok(Outcome { intended: frames, sent, received, duration: Duration::from_secs_f64(time_s), late: 0 })
    }
}
