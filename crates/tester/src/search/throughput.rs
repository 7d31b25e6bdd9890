// SPDX-License-Identifier: MIT OR Apache-2.0
//! Throughput: the greatest rate at which the device loses nothing (RFC 1242 3.17, RFC 2544 26.1).
//!
//! The search keeps a bracket, a rate that passed and a rate that failed, and narrows it to the resolution. It begins at the
//! greatest rate. When that fails, the rate at which frames came through is the best guess there is: a device that merely
//! forwards at its limit is bracketed with two more trials. Where the guess is bad, the search steps away from it with doubling
//! steps, but never past the middle of the bracket, so it is never much worse than bisection.
//!
//! With short trials while searching, the rate found is tried once more for the full time (RFC 2544 24); a device that merely
//! buffered for the short time fails there, and the search goes on downwards with full trials. The rate reported has
//! therefore always passed a trial of full length.
//!
//! A rate that the tester could not send is not the device's: such a trial bounds the search from above, and if this bound
//! is what remains in the end, the result says so ([`Limit::Tester`]) and [`Report::throughput`] has no value.

use std::time::Duration;

use super::{Done, Error, Ledger, Level, Log, Sizes, Summary, Wanted, require, seconds};
use crate::trial::{Measurer, Outcome, Trial};

/// How the search is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// The greatest rate, frames a second for each sending port: that of the medium ([`super::medium`]).
    pub rate_max: f64,
    /// Below this rate the search gives up.
    pub rate_min: f64,
    /// The bracket is narrow enough at this share of its upper end.
    pub resolution: f64,
    /// Length of trials while searching.
    pub search_trial: Duration,
    /// Length of the trial that the rate found must pass.
    pub final_trial: Duration,
    /// How many searches are made, each from the beginning.
    pub repetitions: u32,
}

impl Parameters {
    /// As RFC 2544 has it: every trial of 60 s.
    pub fn rfc(rate_max: f64) -> Parameters {
        let minute = Duration::from_secs(60);
        Parameters {
            rate_max,
            rate_min: rate_max.min(1.0),
            resolution: 0.001,
            search_trial: minute,
            final_trial: minute,
            repetitions: 1,
        }
    }

    /// A first impression within half a minute.
    pub fn quick(rate_max: f64) -> Parameters {
        Parameters {
            resolution: 0.005,
            search_trial: Duration::from_secs(1),
            final_trial: Duration::from_secs(5),
            ..Parameters::rfc(rate_max)
        }
    }

    fn check(&self) -> Result<(), Error> {
        let rate = self.rate_max;
        require(rate.is_finite() && rate > 0.0, "the greatest rate", rate, "above 0 frames/s")?;
        let least = self.rate_min;
        require(least > 0.0 && least <= rate, "the least rate", least, "above 0 and at most the greatest")?;
        let resolution = self.resolution;
        require((1e-6..=0.5).contains(&resolution), "the resolution", resolution, "0.000001 to 0.5")?;
        require(!self.search_trial.is_zero(), "the search trial", seconds(self.search_trial), "above 0 s")?;
        let longer = self.final_trial >= self.search_trial;
        require(
            longer,
            "the final trial",
            seconds(self.final_trial),
            "at least as long as the search trials",
        )?;
        require(self.repetitions > 0, "the number of repetitions", self.repetitions, "at least 1")
    }
}

/// What kept the rate from being higher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The device lost frames a step above.
    Device,
    /// Nothing: the rate is the greatest there is.
    Medium,
    /// The tester could not send a step above. The device may be faster.
    Tester,
}

/// The result of one search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The greatest rate that passed a trial of full length, frames a second for each sending port; 0 if none did.
    pub rate: f64,
    /// The least rate above that failed; the greatest rate if none did.
    pub failed_at: f64,
    /// What kept it there.
    pub limit: Limit,
}

/// What the procedure found.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// How it was done.
    pub parameters: Parameters,
    /// One for each repetition.
    pub found: Vec<Found>,
    /// The least rate at which the tester did not keep up, or sent in lumps that were lost, even if the result does not hang on it.
    pub tester_failed_at: Option<f64>,
    /// Every trial, in order.
    pub trials: Vec<Done>,
    /// What the documents ask, and whether it was done.
    pub ledger: Ledger,
}

impl Report {
    /// What limited the rate: the tester, if it did so in any repetition.
    pub fn limit(&self) -> Limit {
        let any = |limit| self.found.iter().any(|found| found.limit == limit);
        match () {
            () if any(Limit::Tester) => Limit::Tester,
            () if any(Limit::Device) => Limit::Device,
            () => Limit::Medium,
        }
    }

    /// The device's throughput in frames a second for each sending port: the median of the repetitions (the lower of the middle
    /// two). None if the tester was the limit.
    pub fn throughput(&self) -> Option<f64> {
        (self.limit() != Limit::Tester).then(|| self.rate())
    }

    /// The greatest rate without loss that was reached, limited by the device or the tester: a lower bound of the device's throughput.
    pub fn rate(&self) -> f64 {
        let mut rates: Vec<f64> = self.found.iter().map(|found| found.rate).collect();
        rates.sort_by(f64::total_cmp);
        rates[(rates.len() - 1) / 2]
    }

    /// How the repetitions spread.
    pub fn spread(&self) -> Option<Summary> {
        Summary::of(&self.found.iter().map(|found| found.rate).collect::<Vec<_>>())
    }
}

/// Finds the throughput.
///
/// # Errors
/// A parameter makes no sense, or a trial was invalid.
pub fn run(measurer: &mut dyn Measurer, parameters: &Parameters) -> Result<Report, Error> {
    parameters.check()?;
    let mut log = Log::new(measurer);
    let mut found = Vec::new();
    for _ in 0..parameters.repetitions {
        found.push(search(&mut log, parameters)?);
    }
    let failed = log.done.iter().filter(|done| !done.outcome.is_of_device()).map(|done| done.trial.rate);
    Ok(Report {
        parameters: *parameters,
        found,
        tester_failed_at: failed.min_by(f64::total_cmp),
        ledger: ledger(parameters, &log.done),
        trials: log.done,
    })
}

/// One search from the beginning.
fn search(log: &mut Log<'_>, parameters: &Parameters) -> Result<Found, Error> {
    let mut bracket = Bracket::new(parameters);
    let first = bracket.narrow(log, parameters.rate_max, parameters.search_trial);
    first.map_err(|why| why.after(|| bracket.told(parameters.search_trial)))?;
    if parameters.final_trial > parameters.search_trial && bracket.passed > 0.0 {
        // What passed a short trial must prove itself; what failed one has failed.
        let start = std::mem::replace(&mut bracket.passed, 0.0);
        bracket.step = start * parameters.resolution;
        bracket.guessed = false;
        let last = bracket.narrow(log, start, parameters.final_trial);
        last.map_err(|why| why.after(|| bracket.told(parameters.final_trial)))?;
    }
    let (failed_at, limit) = bracket.failed.unwrap_or((parameters.rate_max, Limit::Medium));
    Ok(Found { rate: bracket.passed, failed_at, limit })
}

/// A rate that passed, a rate that failed, and where to look next.
struct Bracket<'a> {
    parameters: &'a Parameters,
    /// The greatest rate that passed; 0 if none has.
    passed: f64,
    /// The least rate that failed, and who failed.
    failed: Option<(f64, Limit)>,
    /// How far from the last rate the next one lies, if that is not past the middle.
    step: f64,
    /// Whether the forwarding rate under overload was tried.
    guessed: bool,
}

impl Bracket<'_> {
    fn new(parameters: &Parameters) -> Bracket<'_> {
        Bracket { parameters, passed: 0.0, failed: None, step: parameters.rate_max, guessed: false }
    }

    /// Tries `rate` and then others, until the bracket is narrow.
    fn narrow(&mut self, log: &mut Log<'_>, mut rate: f64, duration: Duration) -> Result<(), Error> {
        loop {
            let outcome = log.measure(Trial::new(rate, duration))?;
            let next = match verdict(&outcome) {
                None => self.after_pass(rate),
                Some(limit) => self.after_failure(rate, limit, &outcome),
            };
            match next {
                Some(next) => rate = next,
                None => return Ok(()),
            }
        }
    }

    fn after_pass(&mut self, rate: f64) -> Option<f64> {
        self.passed = rate;
        let next = rate + self.step;
        self.step *= 2.0;
        match self.failed {
            Some(_) if self.is_narrow() => None,
            Some((failed, _)) => Some(next.min((rate + failed) / 2.0)),
            None if rate >= self.parameters.rate_max => None,
            None => Some(next.min(self.parameters.rate_max)),
        }
    }

    fn after_failure(&mut self, rate: f64, limit: Limit, outcome: &Outcome) -> Option<f64> {
        self.failed = Some((rate, limit));
        if self.is_narrow() || rate <= self.parameters.rate_min {
            return None;
        }
        let next = if self.guessed {
            let next = rate - self.step;
            self.step *= 2.0;
            next.max((self.passed + rate) / 2.0)
        } else {
            self.guessed = true;
            let through = rate * outcome.received as f64 / outcome.intended.max(1) as f64;
            let guess = through.min(rate * (1.0 - self.parameters.resolution));
            let is_useful = guess > self.passed;
            // A device that lets nothing through when overloaded may do well at half of it.
            self.step = if is_useful { guess * self.parameters.resolution } else { rate };
            if is_useful { guess } else { (self.passed + rate) / 2.0 }
        };
        Some(next.max(self.parameters.rate_min))
    }

    /// What is known after trials of this length; nothing before the first.
    fn told(&self, trial: Duration) -> String {
        let mpps = |rate: f64| format!("{:.4} Mpps", rate / 1e6);
        let passed = (self.passed > 0.0).then(|| format!("{} passed", mpps(self.passed)));
        let failed = self.failed.map(|(rate, limit)| {
            let whose = if limit == Limit::Tester { " (the tester did)" } else { "" };
            format!("{} failed{whose}", mpps(rate))
        });
        let told: Vec<String> = passed.into_iter().chain(failed).collect();
        if told.is_empty() {
            return String::new();
        }
        format!("throughput not found: in trials of {} up to here, {}", seconds(trial), told.join(" and "))
    }

    fn is_narrow(&self) -> bool {
        self.failed.is_some_and(|(failed, _)| failed - self.passed <= failed * self.parameters.resolution)
    }
}

/// Who failed, if somebody did. A tester behind its schedule sends its frames in lumps, so what is lost of them is not held against the
/// device.
fn verdict(outcome: &Outcome) -> Option<Limit> {
    match outcome {
        outcome if !outcome.is_of_device() => Some(Limit::Tester),
        outcome if outcome.lost() > 0 || outcome.sent == 0 => Some(Limit::Device),
        _ => None,
    }
}

fn ledger(parameters: &Parameters, trials: &[Done]) -> Ledger {
    let mut ledger = Ledger::default();
    let minute = Duration::from_secs(60);
    ledger.note(
        "RFC 2544 24",
        Level::Should,
        "the rate is determined by trials of at least 60 s (shorter ones only while searching)",
        parameters.final_trial >= minute,
        format_args!("the last trial took {}", seconds(parameters.final_trial)),
    );
    ledger.note(
        "RFC 2544 26.1",
        Level::Plain,
        "the number of frames offered is the number that the trial's rate and duration make",
        trials.iter().all(|done| done.outcome.tester_kept_up()),
        "in some trials the tester sent fewer; they count as failed by the tester, not by the device",
    );
    ledger
}

/// What RFC 2544 26.1 asks of a report on the throughput of frames of this size, where a `medium`'s rate is known. The graph is that of the
/// page which is made of a record.
pub fn report_ledger(size: usize, medium: bool) -> Ledger {
    let (section, level) = ("RFC 2544 26.1", Level::Should);
    let no_link = "no link was named";
    let mut ledger = Ledger::default();
    ledger.note_sizes(
        section,
        level,
        "the results are a graph of frame rates by frame sizes",
        Sizes::new(Wanted::AtLeast(2), &[size]),
    );
    let asks = "a line of the graph is the theoretical rate of the medium";
    ledger.note(
        section,
        level,
        asks,
        medium,
        format_args!("{no_link}: it is what the tester reaches by itself"),
    );
    ledger.note(section, level, "the text tells protocol, format and medium", medium, no_link);
    ledger
}

#[cfg(test)]
mod tests {
    use super::super::simulated::Device;
    use super::*;
    use proptest::prelude::*;

    const RATE_MAX: f64 = 14_880_952.0;

    fn quick(device: &mut Device) -> Report {
        run(device, &Parameters::quick(RATE_MAX)).unwrap()
    }

    #[test]
    fn a_device_that_forwards_at_its_limit_needs_few_trials() {
        let mut device = Device::sharp(1_234_567.0);
        let report = run(&mut device, &Parameters::rfc(RATE_MAX)).unwrap();
        let rate = report.throughput().unwrap();
        assert!((1_234_567.0 * 0.999..=1_234_567.1).contains(&rate), "{rate}");
        assert_eq!(report.limit(), Limit::Device);
        assert_eq!(report.trials.len(), 3);
        assert_eq!(report.ledger.deviations().count(), 0);
        assert!(report.trials.iter().all(|done| done.trial.duration == Duration::from_secs(60)));
    }

    #[test]
    fn a_graph_has_two_sizes_and_the_medium_s_rates() {
        let missed = |medium| report_ledger(64, medium).deviations().count();
        assert_eq!([missed(true), missed(false)], [1, 3]);
    }

    #[test]
    fn line_rate_is_the_medium_s_limit_and_never_exceeded() {
        let mut device = Device::sharp(f64::MAX);
        let report = quick(&mut device);
        assert_eq!((report.throughput(), report.limit()), (Some(RATE_MAX), Limit::Medium));
        assert_eq!(report.trials.len(), 2, "a short one and a full one");
        assert_eq!(report.ledger.deviations().count(), 1, "five seconds are not sixty");
    }

    #[test]
    fn what_the_tester_cannot_send_is_not_the_device_s_throughput() {
        let mut device = Device::sharp(2e6);
        device.tester_rate_max = 1e6;
        let report = quick(&mut device);
        assert_eq!((report.limit(), report.throughput()), (Limit::Tester, None));
        assert!((report.rate() - 1e6).abs() <= 5e3, "a lower bound all the same: {}", report.rate());
        assert_eq!(report.ledger.deviations().count(), 2);
        // The device is slower than the tester: the tester's failures higher up do not matter.
        device.capacity = 5e5;
        let report = quick(&mut device);
        assert_eq!(report.limit(), Limit::Device);
        assert!((report.throughput().unwrap() - 5e5).abs() <= 2.5e3);
        assert!(report.tester_failed_at.unwrap() > 1e6);
    }

    /// A tester without a turn now and then, before a device that loses what comes in lumps.
    #[test]
    fn what_is_lost_of_lumps_is_not_held_against_the_device() {
        struct Lumps(Device);
        impl Measurer for Lumps {
            fn measure(&mut self, trial: Trial) -> Result<Outcome, crate::trial::Invalid> {
                let mut outcome = self.0.measure(trial)?;
                outcome.late = outcome.sent / 10;
                outcome.received -= if trial.rate > 1e6 { outcome.received / 20 } else { 0 };
                Ok(outcome)
            }
        }
        let report = run(&mut Lumps(Device::sharp(f64::MAX)), &Parameters::quick(RATE_MAX)).unwrap();
        assert_eq!((report.limit(), report.throughput()), (Limit::Tester, None));
        // More than that is the device's own.
        let report = run(&mut Lumps(Device::sharp(5e5)), &Parameters::rfc(RATE_MAX)).unwrap();
        assert!(report.trials.iter().any(|done| done.outcome.lost() > done.outcome.late));
    }

    #[test]
    fn a_buffer_that_outlasts_short_trials_does_not_outlast_the_full_one() {
        let mut device = Device::sharp(1e6);
        device.buffer_frames = 100_000;
        let report = quick(&mut device);
        let rate = report.throughput().unwrap();
        // In 5 s the buffer takes 20,000 frames a second.
        assert!((1.02e6 * 0.995..=1.02e6).contains(&rate), "{rate}");
        let last = report.trials.iter().rfind(|done| done.trial.rate == rate).unwrap();
        assert_eq!((last.trial.duration, last.outcome.lost()), (Duration::from_secs(5), 0));
    }

    /// Overload makes it forward nothing (a livelock).
    #[test]
    fn a_device_that_collapses_under_overload_has_a_throughput() {
        struct Livelock(Device);
        impl Measurer for Livelock {
            fn measure(&mut self, trial: Trial) -> Result<Outcome, crate::trial::Invalid> {
                let mut outcome = self.0.measure(trial)?;
                outcome.received *= u64::from(outcome.received == outcome.sent);
                Ok(outcome)
            }
        }
        let report = run(&mut Livelock(Device::sharp(654_321.0)), &Parameters::rfc(RATE_MAX)).unwrap();
        let rate = report.throughput().unwrap();
        assert!((654_321.0 * 0.999..=654_321.1).contains(&rate), "{rate}");
        assert!(report.trials.len() < 20, "{} trials", report.trials.len());
    }

    #[test]
    fn a_device_that_always_loses_has_no_throughput_and_the_search_ends() {
        let mut device = Device::sharp(0.0);
        let report = quick(&mut device);
        assert_eq!((report.throughput(), report.limit()), (Some(0.0), Limit::Device));
        let mut device = Device::sharp(f64::MAX);
        device.loss = 0.5;
        let report = quick(&mut device);
        assert!(report.rate() < 100.0);
        assert!(report.trials.len() < 60, "{}", report.trials.len());
    }

    #[test]
    fn repetitions_are_separate_searches_and_their_median_counts() {
        let mut device = Device::sharp(1e6);
        device.noise = 0.02;
        let parameters = Parameters { repetitions: 5, ..Parameters::quick(RATE_MAX) };
        let report = run(&mut device, &parameters).unwrap();
        assert_eq!(report.found.len(), 5);
        let spread = report.spread().unwrap();
        assert!(spread.min >= 0.975e6 && spread.max <= 1.025e6, "{spread:?}");
        assert!(report.found.iter().filter(|found| found.rate <= report.rate()).count() >= 3);
    }

    #[test]
    fn senseless_parameters_and_invalid_trials_are_errors() {
        let good = Parameters::quick(RATE_MAX);
        let check = |parameters: Parameters, says: &str| {
            let error = run(&mut Device::sharp(1.0), &parameters).unwrap_err();
            assert_eq!(error.to_string(), says);
        };
        check(
            Parameters { rate_max: f64::NAN, ..good },
            "the greatest rate is NaN; it must be above 0 frames/s",
        );
        check(Parameters { resolution: 0.0, ..good }, "the resolution is 0; it must be 0.000001 to 0.5");
        check(
            Parameters { final_trial: Duration::ZERO, ..good },
            "the final trial is 0 s; it must be at least as long as the search trials",
        );
        check(Parameters { repetitions: 0, ..good }, "the number of repetitions is 0; it must be at least 1");
        let mut device = Device::sharp(1e6);
        device.broken_after = Some(2);
        let error = run(&mut device, &good).unwrap_err();
        assert_eq!(
            error.so_far(),
            Some(
                "throughput not found: in trials of 1 s up to here, 1.0000 Mpps passed and 14.8810 Mpps failed"
            ),
            "{error}"
        );
        let mut device = Device::sharp(1e6);
        device.broken_after = Some(0);
        let error = run(&mut device, &good).unwrap_err();
        assert!(matches!(error, Error::Trial { .. }) && error.so_far().is_none(), "{error}");
    }

    proptest! {
        /// Sharp devices, with and without what makes the first guess bad.
        #[test]
        fn the_truth_is_found_within_the_resolution(
            share in 0.0001_f64..1.5,
            resolution in 0.0005_f64..0.05,
            buffer_frames in 0_u64..20_000,
        ) {
            let mut device = Device::sharp(RATE_MAX * share);
            device.buffer_frames = buffer_frames;
            let parameters = Parameters { resolution, ..Parameters::quick(RATE_MAX) };
            let report = run(&mut device, &parameters).unwrap();
            let found = report.found[0];
            // Fewer frames than one in the full trial's time do not show.
            let truth = (device.capacity + buffer_frames as f64 / 5.0).min(RATE_MAX);
            prop_assert!(found.rate <= truth + 0.3, "{} above {truth}", found.rate);
            prop_assert!(found.rate >= truth * (1.0 - resolution) - 0.3, "{} below {truth}", found.rate);
            prop_assert!(found.rate <= RATE_MAX);
            prop_assert!(report.trials.iter().all(|done| done.trial.rate <= RATE_MAX));
            let bound = 2.0 * ((1.0 / resolution).log2() + 20.0) + 4.0;
            prop_assert!((report.trials.len() as f64) <= bound, "{} trials", report.trials.len());
        }

        /// For any behaviour of the device, the search ends, and the rate that it reports passed a full trial.
        #[test]
        fn chance_does_not_keep_it_from_ending(
            share in 0.001_f64..1.2, noise in 0.0_f64..0.5, loss in 0.0_f64..1e-4, tester in 0.01_f64..2.0, random: u64,
        ) {
            let mut device = Device::sharp(RATE_MAX * share);
            (device.noise, device.loss, device.random) = (noise, loss, random);
            device.tester_rate_max = RATE_MAX * tester;
            let report = quick(&mut device);
            prop_assert!(report.trials.len() < 120, "{} trials", report.trials.len());
            let rate = report.found[0].rate;
            let full = |done: &&Done| done.trial.rate == rate && done.trial.duration == report.parameters.final_trial;
            prop_assert!(rate == 0.0 || report.trials.iter().filter(full).any(|done| verdict(&done.outcome).is_none()));
        }
    }
}
