// SPDX-License-Identifier: MIT OR Apache-2.0
//! What procedures ask of a station besides plain trials: bursts, streams whose loss has its time, resets, delays of single frames.

use std::sync::mpsc;
use std::time::Duration;

use super::{Delays, Detail, Job, Offer, Order, Ran, Sampling, Station, go_on};
use crate::search::back_to_back::Bursts;
use crate::search::observe::Observer;
use crate::search::stream::{Resets, Step, Streams, Timeline};
use crate::trial::{Invalid, Measurer, Outcome, Trial};

/// A burst, or a trial in which the tester was interrupted, says nothing if not all was sent in its time, or what was lost left in lumps;
/// it is repeated so often.
const ATTEMPTS: usize = 3;
/// A tester that leaves out more than this share is not interrupted, but too slow;
const INTERRUPTED: f64 = 0.05;
/// and so is one of whose frames more than this share leave in lumps.
const LUMPS: f64 = 0.5;
/// Bins of a reset's timeline.
const RESET_BIN: Duration = Duration::from_millis(100);
/// Bins of a timeline at most.
const BINS_MAX: u128 = 1_000_000;

impl Measurer for Station {
    fn measure(&mut self, trial: Trial) -> Result<Outcome, Invalid> {
        self.undisturbed(&Job::new(Offer::from(trial)).order).map(|ran| ran.detail.outcome)
    }
}

/// Whether a tester that was interrupted spoiled this; one that is too slow would do so again.
fn is_spoiled(outcome: &Outcome) -> bool {
    let share = |frames: u64, most: f64| frames as f64 > most * outcome.intended as f64;
    let is_slow = share(outcome.unsent(), INTERRUPTED) || share(outcome.late, LUMPS);
    !outcome.is_of_device() && !is_slow
}

impl Observer for Station {
    type Detail = Detail;

    fn observe(&mut self, trial: Trial, sampling: Sampling) -> Result<(Detail, Delays), Invalid> {
        let mut job = Job::new(Offer::from(trial));
        job.order.sampling = Some(sampling);
        let ran = self.undisturbed(&job.order)?;
        Ok((ran.detail, ran.delays.unwrap_or_else(|| unreachable!("they were asked for"))))
    }
}

impl Station {
    /// Carries out a trial, anew if the tester was interrupted.
    fn undisturbed(&mut self, order: &Order) -> Result<Ran, Invalid> {
        let mut left = ATTEMPTS;
        loop {
            let ran = self.carry_out(Job::of(order.clone()))?;
            left -= 1;
            if left == 0 || !is_spoiled(&ran.detail.outcome) {
                return Ok(ran);
            }
        }
    }

    /// This station, sending bursts of so many frames a second for each sending port: the rate of a medium (`is_medium`), or what the
    /// tester itself reaches, whose frames leave as soon as they can.
    pub fn bursts(&mut self, line_rate: f64, is_medium: bool) -> BurstStation<'_> {
        BurstStation { station: self, line_rate, is_medium }
    }

    /// This station with a way to reset the device. `reset` runs in a thread of its own while the stream goes on, and returns when the
    /// reset is done, or could not be.
    pub fn resets<'a>(&'a mut self, reset: &'a mut Reset<'a>) -> ResetStation<'a> {
        ResetStation { station: self, reset }
    }

    fn timeline(&mut self, mut job: Job<'_>, bin: Duration) -> Result<Timeline, Invalid> {
        job.order.bin = Some(bin);
        let whole: Duration = job.order.offer.steps().iter().map(|step| step.duration).sum();
        if whole.as_nanos() / bin.as_nanos().max(1) > BINS_MAX {
            return Err(Invalid::new(
                format!(
                    "{} s have more than {BINS_MAX} bins of {} s",
                    whole.as_secs_f64(),
                    bin.as_secs_f64()
                ),
                "choose wider bins",
            ));
        }
        let ran = self.carry_out(job)?;
        let late = ran.detail.outcome.late;
        Ok(Timeline { late, ..ran.timeline.unwrap_or_default() })
    }
}

impl Streams for Station {
    /// Of one rate that is given up, it reports the bins until then.
    fn stream(&mut self, steps: &[Step], bin: Duration) -> Result<Timeline, Invalid> {
        let may_be_cut = steps.len() == 1;
        let job = Job { may_be_cut, ..Job::new(Offer::Steps(steps.to_vec())) };
        let mut timeline = self.timeline(job, bin)?;
        if let Err(why) = go_on(&self.given_up) {
            timeline.cut();
            return if timeline.bins.is_empty() { Err(why) } else { Ok(timeline) };
        }
        Ok(timeline)
    }
}

/// Resets the device.
pub type Reset<'a> = dyn FnMut() -> Result<(), Invalid> + Send + 'a;

/// A station that sends bursts.
pub struct BurstStation<'a> {
    station: &'a mut Station,
    line_rate: f64,
    is_medium: bool,
}

impl Bursts for BurstStation<'_> {
    fn burst(&mut self, frames: u64, settle: Duration) -> Result<Outcome, Invalid> {
        let offer = Offer::Burst { rate: self.line_rate, frames };
        let mut outcome = Outcome::default();
        for _ in 0..ATTEMPTS {
            let job = Job { stragglers: Some(settle), is_patient: true, ..Job::new(offer.clone()) };
            outcome = self.station.carry_out(job)?.detail.outcome;
            // Behind a stall, a medium would keep frames apart that here leave in a lump.
            outcome.late = if self.is_medium { outcome.late } else { 0 };
            if outcome.is_of_device() {
                break;
            }
        }
        Ok(outcome)
    }
}

/// A station that can reset the device.
pub struct ResetStation<'a> {
    station: &'a mut Station,
    reset: &'a mut Reset<'a>,
}

impl Resets for ResetStation<'_> {
    fn reset(&mut self, rate: f64, before: Duration, after: Duration) -> Result<Timeline, Invalid> {
        let (station, reset) = (&mut *self.station, &mut *self.reset);
        let step = Step { rate, duration: before + after };
        std::thread::scope(|scope| {
            let (go, wait) = mpsc::channel();
            // Started before, so that at the moment itself a thread need only be woken.
            let worker = scope.spawn(move || match wait.recv() {
                Ok(()) => reset(),
                Err(mpsc::RecvError) => Ok(()),
            });
            let mut begin = || {
                // Nobody listens any more only after a panic, which is seen below.
                let _ = go.send(());
            };
            let mut job = Job { event: Some((before, &mut begin)), ..Job::new(Offer::Steps(vec![step])) };
            job.order.is_reset = true;
            let timeline = station.timeline(job, RESET_BIN);
            drop(go);
            let done = worker.join().unwrap_or_else(|_| Err(Invalid::new("the reset panicked", "")));
            done.and(timeline)
        })
    }
}
