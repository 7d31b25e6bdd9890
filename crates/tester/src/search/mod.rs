// SPDX-License-Identifier: MIT OR Apache-2.0
//! Procedures: which trials are asked for, and what their outcomes say.
//!
//! | module | answers | from |
//! |---|---|---|
//! | [`throughput`] | the greatest rate without loss | RFC 2544 26.1 |
//! | [`loss`] | how loss grows with the rate | RFC 2544 26.3 |
//! | [`back_to_back`] | the longest burst without loss, and the buffer it implies | RFC 2544 26.4, RFC 9004 |
//! | [`recovery`] | how long loss goes on after an overload ended | RFC 2544 26.5 |
//! | [`reset`] | how long forwarding stops for a reset | RFC 2544 26.6, RFC 6201 |
//! | [`mlr`] | rates for several loss ratios in one search | RFC 9971 |
//! | [`soak`] | when, over hours, frames were lost | |
//! | [`bridge`] | how many addresses a bridge remembers, and how fast it learns them | RFC 2889 5.7, 5.8 |
//! | [`delay`] | typical and worst latency, PDV, IPDV | RFC 8219 7.2, 7.3 |
//! | [`load`] | nothing, but whether a procedure ran at the throughput | RFC 2544 26.2, RFC 8219 7 |
//! | [`observe`] | which trials tell single frames' delays | RFC 2544 26.2, RFC 8219 7 |
//! | [`bridged`] | nothing, but which demands on tests of bridges are met | RFC 2889 |
//! | [`ipv6`] | nothing, but which demands on tests with IPv6 are met | RFC 5180 |
//! | [`transition`] | nothing, but which demands on devices between IPv4 and IPv6 are met | RFC 8219 |
//! | [`setup`] | nothing, but which demands on every test are met | RFC 2544 7 to 25 |
//! | [`mixes`] | nothing, but which demands on mixed sizes and bursts are met | RFC 2544 18, 21, RFC 6985 |
//! | [`contents`] | nothing, but which demands on what frames hold are met | RFC 2544 8, RFC 4814 |
//!
//! No procedure does I/O or looks at a clock: each asks a [`Measurer`] (or, where loss over time matters, a [`stream::Streams`]) and
//! computes. So each is tested on devices that are computed too, and a run can be replayed from its list of trials.
//!
//! Each procedure comes with the parameters of two profiles, `rfc` (the document's durations and repetitions) and `quick`, and
//! with a [`Ledger`]: which of the document's demands were met, and in which point the run departed from them.

pub mod back_to_back;
pub mod bridge;
pub mod bridged;
pub mod contents;
pub mod delay;
pub mod ipv6;
pub mod load;
pub mod loss;
pub mod medium;
pub mod mixes;
pub mod mlr;
pub mod observe;
pub mod recovery;
pub mod reset;
pub mod setup;
#[cfg(test)]
mod simulated;
mod sizes;
pub mod soak;
pub mod stream;
pub mod throughput;
pub mod transition;

use std::fmt::Display;
use std::time::Duration;

pub use sizes::{Sizes, Wanted};

use crate::trial::{Invalid, Measurer, Outcome, Trial};

/// Why a procedure has no result.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// A parameter makes no sense.
    #[error("{parameter} is {value}; it must be {allowed}")]
    Parameter {
        /// Which.
        parameter: &'static str,
        /// What it was.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// Something other than the device's speed ended a trial.
    #[error("{doing}: {cause}")]
    Trial {
        /// What was tried.
        doing: String,
        /// What happened, and how to fix it.
        cause: Invalid,
        /// What the trials before it say; nothing where they say nothing.
        so_far: String,
    },
}

impl Error {
    /// A trial that came to nothing while `doing`.
    fn trial(doing: impl Display, cause: Invalid) -> Error {
        Error::Trial { doing: doing.to_string(), cause, so_far: String::new() }
    }

    /// The same after trials that say this.
    fn after(self, said: impl FnOnce() -> String) -> Error {
        match self {
            Error::Trial { doing, cause, .. } => Error::Trial { doing, cause, so_far: said() },
            other => other,
        }
    }

    /// What the trials before the one that failed say.
    pub fn so_far(&self) -> Option<&str> {
        match self {
            Error::Trial { so_far, .. } if !so_far.is_empty() => Some(so_far),
            _ => None,
        }
    }
}

/// Checks a parameter.
fn require(
    holds: bool,
    parameter: &'static str,
    value: impl Display,
    allowed: &'static str,
) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::Parameter { parameter, value: value.to_string(), allowed }) }
}

/// A trial and what it showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Done {
    /// What was asked for.
    pub trial: Trial,
    /// What came of it.
    pub outcome: Outcome,
}

/// How binding a demand is (RFC 2119).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A requirement.
    Must,
    /// A recommendation.
    Should,
    /// A step that is described without such a word.
    Plain,
}

impl Level {
    /// As documents write it; nothing for a plain step.
    pub fn word(self) -> &'static str {
        match self {
            Level::Must => "MUST",
            Level::Should => "SHOULD",
            Level::Plain => "",
        }
    }
}

/// One demand of a document on a procedure, and whether it was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// Document and section: `RFC 2544 24`.
    pub section: &'static str,
    /// How binding it is.
    pub level: Level,
    /// What it asks, in short.
    pub asks: &'static str,
    /// What was done instead; nothing where the demand was met.
    pub deviation: Option<String>,
    /// The sizes, where it is frame sizes that are asked for.
    pub sizes: Option<Sizes>,
}

/// The demands on a procedure with what became of them: its part of the conformance statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// All demands that the procedure itself can meet or miss.
    pub clauses: Vec<Clause>,
}

impl Ledger {
    /// Notes a demand: met if `met`, else what was `done` instead.
    fn note(
        &mut self,
        section: &'static str,
        level: Level,
        asks: &'static str,
        met: bool,
        done: impl Display,
    ) {
        let deviation = (!met).then(|| done.to_string());
        self.clauses.push(Clause { section, level, asks, deviation, sizes: None });
    }

    /// Notes a demand that every run meets, independent of its options: the caller says why.
    fn always(&mut self, section: &'static str, level: Level, asks: &'static str) {
        self.note(section, level, asks, true, "");
    }

    /// Notes a demand that no run meets, and what is `done` instead.
    fn never(&mut self, section: &'static str, level: Level, asks: &'static str, done: impl Display) {
        self.note(section, level, asks, false, done);
    }

    /// Notes that results are asked for in a table with a row for each frame size. The report that is made of a record has it.
    fn note_table(&mut self, section: &'static str) {
        self.always(section, Level::Should, "the results are a table with a row for each frame size");
    }

    /// Only the demands of this document: `RFC 2544`.
    pub fn of(mut self, document: &str) -> Ledger {
        self.clauses.retain(|clause| clause.section.starts_with(document));
        self
    }

    /// The same where no trial was carried out, which meets no demand.
    pub fn untried(mut self) -> Ledger {
        for clause in &mut self.clauses {
            if clause.sizes.is_none() {
                clause.deviation = Some("not tried: no trial was carried out".to_owned());
            }
        }
        self
    }

    /// The demands that were not met.
    pub fn deviations(&self) -> impl Iterator<Item = &Clause> {
        self.clauses.iter().filter(|clause| clause.deviation.is_some())
    }
}

/// Carries trials out and keeps them for the report.
struct Log<'a> {
    measurer: &'a mut dyn Measurer,
    done: Vec<Done>,
}

impl<'a> Log<'a> {
    fn new(measurer: &'a mut dyn Measurer) -> Log<'a> {
        Log { measurer, done: Vec::new() }
    }

    fn measure(&mut self, trial: Trial) -> Result<Outcome, Error> {
        let outcome = self.measurer.measure(trial).map_err(|cause| {
            Error::trial(
                format_args!("{:.0} frames/s for {} s", trial.rate, trial.duration.as_secs_f64()),
                cause,
            )
        })?;
        self.done.push(Done { trial, outcome });
        Ok(outcome)
    }
}

/// What repeated measurements of one quantity say together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many there were.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// Standard deviation of the sample (divided by `count - 1`); zero for fewer than two.
    pub stdev: f64,
}

impl Summary {
    /// Of these values; nothing if there are none.
    pub fn of(values: &[f64]) -> Option<Summary> {
        if values.is_empty() {
            return None;
        }
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let stdev = if count < 2 { 0.0 } else { (squares / (count - 1) as f64).sqrt() };
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // The mean of equal values may differ from them in the last bit, and shall not lie outside of their range.
        Some(Summary { count, mean: mean.clamp(min, max), min, max, stdev })
    }
}

/// A duration in seconds, short: `60 s`, `0.5 s`.
fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::simulated::Device;
    use super::*;

    #[test]
    fn summary_of_known_values() {
        let summary = Summary::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((summary.count, summary.mean, summary.min, summary.max), (8, 5.0, 2.0, 9.0));
        assert!((summary.stdev - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(Summary::of(&[3.0]).unwrap().stdev, 0.0);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn a_log_keeps_what_was_done_before_a_failure() {
        let mut device = Device::sharp(1000.0);
        device.broken_after = Some(1);
        let mut log = Log::new(&mut device);
        log.measure(Trial::new(500.0, Duration::from_secs(1))).unwrap();
        let error = log.measure(Trial::new(700.0, Duration::from_secs(2))).unwrap_err();
        assert_eq!(error.to_string(), "700 frames/s for 2 s: link down; look at the cable");
        assert_eq!(log.done.len(), 1);
    }
}
