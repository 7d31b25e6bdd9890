// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frame loss rate: the share of frames lost at each rate, from the greatest rate down (RFC 1242 3.6, RFC 2544 26.3).
//!
//! The first trial is at the greatest rate of the medium, the next at 90 % of it, and so on in steps of at most 10 % of the greatest
//! rate, until two trials in succession lost nothing. Finer steps are welcome.

use std::time::Duration;

use super::{Done, Error, Ledger, Level, Log, require, seconds};
use crate::trial::{Measurer, Trial};

/// How the procedure is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// The greatest rate, frames a second for each sending port.
    pub rate_max: f64,
    /// Step downwards, as a share of the greatest rate.
    pub step: f64,
    /// Length of each trial.
    pub trial: Duration,
}

impl Parameters {
    /// As RFC 2544 has it: steps of 10 %, trials of 60 s.
    pub fn rfc(rate_max: f64) -> Parameters {
        Parameters { rate_max, step: 0.1, trial: Duration::from_secs(60) }
    }

    /// The same steps with short trials.
    pub fn quick(rate_max: f64) -> Parameters {
        Parameters { trial: Duration::from_secs(1), ..Parameters::rfc(rate_max) }
    }
}

/// What was lost at one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Share of the greatest rate, 0 to 1.
    pub share: f64,
    /// The trial and its outcome.
    pub done: Done,
}

impl Point {
    /// Share of the frames sent that was lost, 0 to 1. Of the tester's, not the device's making if the tester did not keep up.
    pub fn loss_ratio(&self) -> f64 {
        self.done.outcome.loss_ratio()
    }
}

/// What the procedure found.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// How it was done.
    pub parameters: Parameters,
    /// From the greatest rate down.
    pub points: Vec<Point>,
    /// Whether it ended with two trials without loss (and not at the lowest rate there is).
    pub reached_no_loss: bool,
    /// What the documents ask, and whether it was done.
    pub ledger: Ledger,
}

impl Report {
    /// Whether some trial offered less than it should have, or in lumps: there the loss is not that of the point's rate.
    pub fn limited_by_tester(&self) -> bool {
        self.points.iter().any(|point| !point.done.outcome.is_of_device())
    }
}

/// Measures loss at falling rates.
///
/// # Errors
/// A parameter makes no sense, or a trial was invalid.
pub fn run(measurer: &mut dyn Measurer, parameters: &Parameters) -> Result<Report, Error> {
    let Parameters { rate_max, step, trial } = *parameters;
    require(rate_max.is_finite() && rate_max > 0.0, "the greatest rate", rate_max, "above 0 frames/s")?;
    require((0.001..=0.5).contains(&step), "the step", step, "0.001 to 0.5 of the greatest rate")?;
    require(!trial.is_zero(), "the trial", seconds(trial), "above 0 s")?;
    let mut log = Log::new(measurer);
    let mut points: Vec<Point> = Vec::new();
    let mut reached_no_loss = false;
    // A rate below half a step would be a rounding error of what should be none.
    for index in 0..((1.0 - step / 2.0) / step) as u32 + 1 {
        let share = 1.0 - f64::from(index) * step;
        let trial = Trial::new(rate_max * share, trial);
        let outcome = log.measure(trial)?;
        points.push(Point { share, done: Done { trial, outcome } });
        let clean = |point: &Point| point.done.outcome.lost() == 0 && point.done.outcome.tester_kept_up();
        if let [.., before, last] = &points[..]
            && clean(before)
            && clean(last)
        {
            reached_no_loss = true;
            break;
        }
    }
    let ledger = ledger(parameters, &points, reached_no_loss);
    Ok(Report { parameters: *parameters, points, reached_no_loss, ledger })
}

fn ledger(parameters: &Parameters, points: &[Point], reached_no_loss: bool) -> Ledger {
    let mut ledger = Ledger::default();
    let trial = parameters.trial;
    ledger.note(
        "RFC 2544 24",
        Level::Should,
        "each trial lasts at least 60 s",
        trial >= Duration::from_secs(60),
        format_args!("each trial took {}", seconds(trial)),
    );
    ledger.note(
        "RFC 2544 26.3",
        Level::Must,
        "steps of at most 10 % of the greatest rate",
        parameters.step <= 0.1 + 1e-9,
        format_args!("steps of {} %", parameters.step * 100.0),
    );
    ledger.note(
        "RFC 2544 26.3",
        Level::Should,
        "down to two successive trials without loss",
        reached_no_loss,
        "no two successive trials were without loss down to the lowest rate",
    );
    let kept_up = points.iter().all(|point| point.done.outcome.tester_kept_up());
    ledger.note(
        "RFC 2544 26.3",
        Level::Should,
        "the first trial is at the greatest rate, and each offers its rate in full",
        kept_up,
        "the tester could not offer all rates",
    );
    ledger
}

/// What RFC 2544 26.3 asks of a report on loss, where a `medium`'s rate is known. The graph is that of the page which is made of a
/// record.
pub fn report_ledger(medium: bool) -> Ledger {
    let section = "RFC 2544 26.3";
    let mut ledger = Ledger::default();
    // Each run has the curve, over shares of the greatest rate, and in percent.
    ledger.always(section, Level::Should, "the results are a graph");
    ledger.always(section, Level::Must, "its Y axis is the percentage of frames lost");
    ledger.note(
        section,
        Level::Must,
        "its X axis is the percentage of the theoretical rate of the medium",
        medium,
        "no link was named: it is that of the rate that the tester reaches by itself",
    );
    ledger.always(section, Level::Must, "both axes go from 0 to 100 percent");
    ledger
}

#[cfg(test)]
mod tests {
    use super::super::simulated::Device;
    use super::*;

    #[test]
    fn steps_down_until_two_trials_are_clean() {
        let mut device = Device::sharp(7.2e5);
        let report = run(&mut device, &Parameters::rfc(1e6)).unwrap();
        let losses: Vec<f64> = report.points.iter().map(Point::loss_ratio).collect();
        let shares: Vec<f64> = report.points.iter().map(|point| (point.share * 100.0).round()).collect();
        assert_eq!(shares, [100.0, 90.0, 80.0, 70.0, 60.0]);
        for (found, truth) in losses.iter().zip([0.28, 0.2, 0.1, 0.0, 0.0]) {
            assert!((found - truth).abs() < 1e-6, "{found} {truth}");
        }
        assert!(report.reached_no_loss && !report.limited_by_tester());
        assert_eq!(report.ledger.deviations().count(), 0);
    }

    #[test]
    fn a_fast_device_needs_two_trials_and_a_dead_one_ten() {
        let trials = |capacity, step| {
            let parameters = Parameters { step, ..Parameters::quick(1e6) };
            run(&mut Device::sharp(capacity), &parameters).unwrap().points.len()
        };
        assert_eq!((trials(2e6, 0.1), trials(0.0, 0.1)), (2, 10));
        assert_eq!((trials(0.0, 0.05), trials(0.0, 0.3), trials(0.0, 0.001)), (20, 3, 1000));
    }

    #[test]
    fn deviations_are_named() {
        let parameters = Parameters { step: 0.2, ..Parameters::quick(1e6) };
        let mut device = Device::sharp(1e5);
        device.tester_rate_max = 9e5;
        let report = run(&mut device, &parameters).unwrap();
        assert!(report.limited_by_tester() && !report.reached_no_loss);
        let said: Vec<_> = report.ledger.deviations().filter_map(|clause| clause.deviation.clone()).collect();
        assert_eq!(said[0], "each trial took 1 s");
        assert_eq!(said[1], "steps of 20 %");
        assert_eq!(said.len(), 4);
        assert!(run(&mut device, &Parameters { step: 0.0, ..parameters }).is_err());
        assert_eq!([true, false].map(|medium| report_ledger(medium).deviations().count()), [0, 1]);
    }
}
