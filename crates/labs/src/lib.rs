// SPDX-License-Identifier: MIT OR Apache-2.0
//! Published experiments with multicore packet processing, repeated on the machine that runs them.
//!
//! [`run`] carries out a [`Lab`] and returns its [`Report`]: prose, tables and plots. Every value there says whether it was measured
//! here, comes from a model, or was published. The labs run configurations in this process (crate `harness`), predict (`predict`),
//! search throughputs (`trials`), and start deployments in namespaces (`lab`). Two planes of such deployments are programs of ours:
//! [`planes::manager`] and [`interference::work`].
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
extern crate report;

mod bridge;
mod deployment;
mod error;
mod forwarding;
pub mod interference;
mod parallelism;
pub mod planes;
mod shared;
mod study;

use std::time::Duration;

pub use error::Error;
pub use study::Report;

/// Which experiment.
#[derive(Clone, Debug)]
pub enum Lab {
    /// Ozaki and Nakahara: a bridge under one big lock, and one that all cores run at once.
    Bridge,
    /// Marineau-Mes: a forwarding table that cores share.
    Forwarding,
    /// Garg and Sethi: what the user plane costs the control plane.
    Interference(interference::Settings),
    /// Chen and Morris: parallelism in a router.
    Parallelism,
    /// De Witte et al.: planes that share cores, and planes that do not.
    Planes(planes::Settings),
}

/// What all labs ask.
#[derive(Clone, Debug)]
pub struct Common {
    /// Whether everything is done once and short, to see that it works.
    pub quick: bool,
    /// Length of each run in milliseconds.
    pub time: u64,
    /// Rounds in each of which everything is measured once.
    pub rounds: u16,
    /// Cores to measure on, the first ones of the machine; all without it.
    pub cores: Option<usize>,
}

impl Common {
    /// For tests of what is made of values, which measure nothing.
    #[cfg(test)]
    fn quick() -> Common {
        Common { quick: true, time: 1, rounds: 1, cores: None }
    }

    fn length(&self) -> Duration {
        Duration::from_millis(if self.quick { 20 } else { self.time })
    }

    fn rounds(&self) -> usize {
        if self.quick { 1 } else { usize::from(self.rounds) }
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    /// What was asked for cannot be.
    #[error(transparent)]
    Usage(Error),
    /// It did not work.
    #[error(transparent)]
    Failure(#[from] Error),
}

/// Carries out an experiment.
///
/// # Errors
/// See [`Wrong`].
pub fn run(lab: &Lab, common: &Common) -> Result<Report, Wrong> {
    match lab {
        Lab::Bridge => bridge::run(common),
        Lab::Forwarding => forwarding::run(common),
        Lab::Interference(settings) => interference::run(settings, common),
        Lab::Parallelism => parallelism::run(common),
        Lab::Planes(settings) => planes::run(settings, common),
    }
}
