// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a station is asked for: what it is to offer, and what is to be kept of what arrives.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::run::DUPLICATES_NS;
use super::{Plan, Sampling};
use crate::pace::Schedule;
use crate::search::stream::Step;
use crate::trial::{Invalid, Trial};

/// What is offered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Offer {
    /// Rates, one after the other.
    Steps(Vec<Step>),
    /// So many frames at a rate.
    Burst {
        /// Frames a second of each sending port.
        rate: f64,
        /// Frames of each sending port.
        frames: u64,
    },
}

impl From<Trial> for Offer {
    fn from(trial: Trial) -> Offer {
        Offer::Steps(vec![Step { rate: trial.rate, duration: trial.duration }])
    }
}

impl Offer {
    pub(super) fn steps(&self) -> &[Step] {
        match self {
            Offer::Steps(steps) => steps,
            Offer::Burst { .. } => &[],
        }
    }

    /// As a trial of one rate: that on average.
    pub(super) fn trial(&self) -> Trial {
        let (frames, duration) = match self {
            Offer::Steps(steps) => {
                let frames = steps.iter().map(|step| step.rate * step.duration.as_secs_f64()).sum();
                (frames, steps.iter().map(|step| step.duration).sum())
            }
            Offer::Burst { rate, frames } => {
                let frames = *frames as f64;
                (frames, Duration::try_from_secs_f64(frames / rate).unwrap_or_default())
            }
        };
        // Of one step, exactly its rate.
        let rate = match self {
            Offer::Burst { rate, .. } => *rate,
            Offer::Steps(steps) if steps.len() == 1 => steps[0].rate,
            Offer::Steps(_) => frames / duration.as_secs_f64(),
        };
        Trial::new(rate, duration)
    }

    /// The frames of the test in it: additional frames take the place of the others.
    pub(super) fn without_extras(self, plan: &Plan, ahead: Duration) -> Offer {
        let Trial { rate, duration } = self.trial();
        match self {
            Offer::Steps(mut steps) => {
                let frames = rate * duration.as_secs_f64();
                let share = plan.tests_own(frames, duration, ahead) / frames;
                // What is no rate is refused later, as it was asked for.
                steps.iter_mut().filter(|_| share.is_finite()).for_each(|step| step.rate *= share);
                Offer::Steps(steps)
            }
            Offer::Burst { rate, frames } => {
                let own = plan.tests_own(frames as f64, duration, ahead).round() as u64;
                Offer::Burst { rate, frames: own.max(1) }
            }
        }
    }

    pub(super) fn schedule(&self, burst: u64, start_ns: u64) -> Result<Schedule, Invalid> {
        let steps: Vec<(f64, Duration)> =
            self.steps().iter().map(|step| (step.rate, step.duration)).collect();
        let schedule = match self {
            Offer::Steps(_) => Schedule::steps(&steps, burst.max(1), start_ns),
            Offer::Burst { rate, frames } => Schedule::burst(*rate, *frames, start_ns),
        };
        schedule.ok_or_else(|| {
            let rates: Vec<String> = steps.iter().map(|(rate, _)| rate.to_string()).collect();
            Invalid::new(format!("a rate of {} frames a second cannot be", rates.join(", ")), "")
        })
    }
}

/// What all that have a part in a trial need to know of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// What is offered.
    pub offer: Offer,
    /// What the trial's key is made of.
    pub key: u64,
    /// The device's own addresses, as far as they are known: nothing is sent from or to them.
    pub own: Vec<IpAddr>,
    /// How long before the first frame updates of routes are sent.
    pub ahead: Duration,
    /// How much later than the schedule's end frames may leave, if that is not a hundredth of it.
    pub grace: Option<Duration>,
    /// Width of the timeline's bins, if there is to be one.
    pub bin: Option<Duration>,
    /// Whose delays are kept.
    pub sampling: Option<Sampling>,
    /// The device is reset meanwhile: links may go down.
    pub is_reset: bool,
    /// All ports are driven by one clock, so that a frame's travel time can be measured.
    pub is_timed: bool,
}

/// What a run is asked for.
pub(super) struct Job<'a> {
    pub(super) order: Order,
    /// For how long stragglers are waited for, instead of the plan's.
    pub(super) stragglers: Option<Duration>,
    /// For how long copies are waited for at least when all frames have arrived.
    pub(super) duplicates_ns: u64,
    /// Whether it lasts so long even if all frames have arrived.
    pub(super) is_patient: bool,
    /// Whether it only warms the device up.
    pub(super) is_warm_up: bool,
    /// Whether it is worth something if it is given up: what became of the frames that had left by then.
    pub(super) may_be_cut: bool,
    /// What is done at some time after the start; it must not take long.
    pub(super) event: Option<(Duration, &'a mut dyn FnMut())>,
}

impl<'a> Job<'a> {
    pub(super) fn new(offer: Offer) -> Job<'a> {
        let order = Order {
            offer,
            key: 0,
            own: Vec::new(),
            ahead: Duration::ZERO,
            grace: None,
            bin: None,
            sampling: None,
            is_reset: false,
            is_timed: true,
        };
        Job::of(order)
    }

    /// What such an order is about.
    pub(super) fn of(order: Order) -> Job<'a> {
        Job {
            order,
            stragglers: None,
            duplicates_ns: DUPLICATES_NS,
            is_patient: false,
            is_warm_up: false,
            may_be_cut: false,
            event: None,
        }
    }
}
