// SPDX-License-Identifier: MIT OR Apache-2.0
//! System recovery: how long loss goes on after an overload has ended (RFC 2544 26.5).
//!
//! A stream runs at 110 % of the throughput, or at the medium's rate if that is lower, for at least 60 s. At *timestamp A* its rate
//! falls to half. *Timestamp B* is when the last frame was lost. The recovery time is B less A.

use std::time::Duration;

use super::load::Origin;
use super::stream::{Step, Streams, Timeline};
use super::{Error, Ledger, Level, Summary, require, seconds};

/// How the procedure is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// The device's throughput for frames of this size, measured before; frames a second for each sending port.
    pub throughput: f64,
    /// The greatest rate that is offered.
    pub rate_max: f64,
    /// Whether that is the medium's, and not what the tester reaches.
    pub is_medium: bool,
    /// Where the throughput comes from.
    pub origin: Origin,
    /// How long the overload lasts.
    pub overload: Duration,
    /// How long the device is watched at half the rate.
    pub watch: Duration,
    /// The device has recovered if it lost nothing for so long at the end.
    pub quiet: Duration,
    /// How often.
    pub repetitions: u32,
    /// How often all of this is done, for the ledger.
    pub repeats: u32,
}

impl Parameters {
    /// As RFC 2544 has it: 60 s of overload. It asks for repetition but names no number; 20 is what it asks of latency.
    pub fn rfc(rate_max: f64, throughput: f64) -> Parameters {
        Parameters {
            throughput,
            rate_max,
            is_medium: true,
            origin: Origin::Found,
            overload: Duration::from_secs(60),
            watch: Duration::from_secs(60),
            quiet: Duration::from_secs(2),
            repetitions: 20,
            repeats: 1,
        }
    }

    /// A short overload, once.
    pub fn quick(rate_max: f64, throughput: f64) -> Parameters {
        let (overload, watch) = (Duration::from_secs(5), Duration::from_secs(5));
        Parameters {
            overload,
            watch,
            quiet: Duration::from_secs(1),
            repetitions: 1,
            ..Parameters::rfc(rate_max, throughput)
        }
    }

    /// The rate of the overload.
    pub fn overload_rate(&self) -> f64 {
        (self.throughput * 1.1).min(self.rate_max)
    }

    /// Whether the tester does not reach the rate of the overload.
    pub fn is_less(&self) -> bool {
        !self.is_medium && self.rate_max < self.throughput * 1.1
    }

    fn check(&self) -> Result<(), Error> {
        let rate = self.rate_max;
        require(rate.is_finite() && rate > 0.0, "the medium's rate", rate, "above 0 frames/s")?;
        let allowed = "above 0 and at most the medium's rate";
        let throughput = self.throughput;
        // More than the tester reaches may be known of a device.
        let is_allowed = throughput > 0.0 && (throughput <= rate || !self.is_medium);
        require(is_allowed, "the throughput", throughput, allowed)?;
        require(!self.overload.is_zero(), "the overload", seconds(self.overload), "above 0 s")?;
        require(
            self.watch > self.quiet,
            "the watch",
            seconds(self.watch),
            "longer than the time without loss that ends it",
        )?;
        require(self.repetitions > 0, "the number of repetitions", self.repetitions, "at least 1")
    }
}

/// One repetition.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovery {
    /// Time from the fall of the rate to the sending of the last frame that was lost; zero if none was, nothing if the device still
    /// lost frames near the end.
    pub time: Option<Duration>,
    /// Frames lost after the fall of the rate.
    pub lost_after: u64,
    /// Whether the overload made the device lose frames at all. If not, the time says nothing.
    pub overloaded: bool,
    /// The course of it.
    pub timeline: Timeline,
}

impl Recovery {
    /// Whether the loss after the fall may be the tester's, which sent frames in lumps.
    pub fn is_doubtful(&self) -> bool {
        self.timeline.is_doubtful(self.lost_after)
    }
}

/// What the procedure found.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// How it was done.
    pub parameters: Parameters,
    /// One for each repetition.
    pub recoveries: Vec<Recovery>,
    /// What the documents ask, and whether it was done.
    pub ledger: Ledger,
}

impl Report {
    /// Recovery times in seconds: the average is the benchmark. Nothing if in some repetition the device did not recover.
    pub fn time_s(&self) -> Option<Summary> {
        let times: Option<Vec<f64>> =
            self.recoveries.iter().map(|recovery| Some(recovery.time?.as_secs_f64())).collect();
        Summary::of(&times?)
    }
}

/// Measures the recovery time.
///
/// # Errors
/// A parameter makes no sense, or a stream was invalid.
pub fn run(streams: &mut dyn Streams, parameters: &Parameters) -> Result<Report, Error> {
    parameters.check()?;
    let rate = parameters.overload_rate();
    let steps =
        [Step { rate, duration: parameters.overload }, Step { rate: rate / 2.0, duration: parameters.watch }];
    let bin = Duration::from_millis(100);
    let mut recoveries = Vec::new();
    for _ in 0..parameters.repetitions {
        let doing = || format!("a stream of {rate:.0} frames/s and then half of it");
        let timeline = streams.stream(&steps, bin).map_err(|cause| Error::trial(doing(), cause))?;
        recoveries.push(evaluate(timeline, parameters));
    }
    let ledger = ledger(parameters, &recoveries);
    Ok(Report { parameters: *parameters, recoveries, ledger })
}

fn evaluate(timeline: Timeline, parameters: &Parameters) -> Recovery {
    let fall = timeline.steps.get(1).copied().unwrap_or(parameters.overload);
    let last_lost = timeline.gaps_from(fall).map(|gap| gap.last_sent).max();
    let recovered = |last: &Duration| *last + parameters.quiet <= timeline.end;
    let time = match last_lost {
        None => Some(Duration::ZERO),
        Some(last) => recovered(&last).then(|| last - fall),
    };
    let overloaded = timeline.gaps.iter().any(|gap| gap.first_sent < fall);
    // A gap that spans the fall of the rate is counted in full: it is not known apart.
    let lost_after = timeline.gaps_from(fall).map(|gap| gap.frames).sum();
    Recovery { time, lost_after, overloaded, timeline }
}

fn ledger(parameters: &Parameters, recoveries: &[Recovery]) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.note(
        "RFC 2544 26.5",
        Level::Plain,
        "the overload lasts at least 60 s",
        parameters.overload >= Duration::from_secs(60),
        format_args!("it lasted {}", seconds(parameters.overload)),
    );
    ledger.note(
        "RFC 2544 26.5",
        Level::Should,
        "the test is repeated and the average reported",
        parameters.repetitions * parameters.repeats > 1,
        "it was done once",
    );
    let kept_up = recoveries.iter().all(|recovery| recovery.timeline.tester_kept_up());
    let less = parameters.is_less().then_some("at the greatest rate that the tester reaches, which is less");
    let unsent = (!kept_up).then_some("the tester could not offer the rate");
    let in_lumps = recoveries.iter().any(Recovery::is_doubtful);
    let in_lumps =
        in_lumps.then_some("as many frames left the tester in lumps as were lost after the overload");
    let done: Vec<&str> = [parameters.origin.doubt(), less, unsent, in_lumps].into_iter().flatten().collect();
    ledger.note(
        "RFC 2544 26.5",
        Level::Plain,
        "the rate is 110 % of the throughput, or the medium's rate",
        done.is_empty(),
        done.join("; "),
    );
    // The second step of every stream.
    ledger.always("RFC 2544 26.5", Level::Plain, "then it falls to half of that");
    ledger.note(
        "RFC 2544 26.5",
        Level::Plain,
        "the time from the fall of the rate to the last frame lost is measured",
        recoveries.iter().all(|recovery| recovery.time.is_some()),
        format_args!("frames were still lost {} after it", seconds(parameters.watch)),
    );
    let overloaded = recoveries.iter().all(|recovery| recovery.overloaded);
    ledger.note(
        "RFC 2544 26.5",
        Level::Plain,
        "the device is overloaded before its recovery is timed",
        overloaded,
        "the device lost nothing at the greatest rate: there was nothing to recover from",
    );
    ledger.note_table("RFC 2544 26.5");
    ledger
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Invalid;

    /// Loses frames until some time after the overload.
    struct Device {
        recovers_after: Option<Duration>,
        loses_in_overload: bool,
        seen: Vec<[Step; 2]>,
    }

    impl Streams for Device {
        fn stream(&mut self, steps: &[Step], bin: Duration) -> Result<Timeline, Invalid> {
            self.seen.push([steps[0], steps[1]]);
            let (fall, end) = (steps[0].duration, steps[0].duration + steps[1].duration);
            let gap = |from, to| Gap { frames: 10, first_sent: from, last_sent: to, ..Gap::default() };
            let mut gaps = Vec::new();
            if self.loses_in_overload {
                gaps.push(gap(Duration::from_secs(1), fall - Duration::from_millis(1)));
            }
            if let Some(after) = self.recovers_after {
                gaps.push(gap(fall + after / 2, fall + after));
            }
            Ok(Timeline {
                steps: vec![Duration::ZERO, fall],
                end,
                event: None,
                bin,
                bins: Vec::new(),
                gaps,
                late: 0,
            })
        }
    }

    use super::super::stream::Gap;

    fn check(recovers_after: Option<u64>, loses_in_overload: bool) -> Report {
        let recovers_after = recovers_after.map(Duration::from_millis);
        let mut device = Device { recovers_after, loses_in_overload, seen: Vec::new() };
        let report = run(&mut device, &Parameters::rfc(1e6, 5e5)).unwrap();
        assert_eq!(device.seen.len(), 20);
        let [over, half] = device.seen[0];
        assert_eq!((over.rate.round(), half.rate.round()), (550_000.0, 275_000.0));
        assert_eq!(over.duration, Duration::from_secs(60));
        report
    }

    #[test]
    fn time_from_the_fall_of_the_rate_to_the_last_loss() {
        let report = check(Some(1500), true);
        assert_eq!(report.time_s().unwrap().mean, 1.5);
        assert_eq!(report.recoveries[0].lost_after, 10);
        assert_eq!(report.ledger.deviations().count(), 0);
        assert_eq!(check(None, true).time_s().unwrap().max, 0.0);
    }

    #[test]
    fn loss_near_the_end_is_no_recovery() {
        let report = check(Some(59_000), true);
        assert_eq!(report.time_s(), None);
        let said: Vec<_> = report.ledger.deviations().filter_map(|clause| clause.deviation.clone()).collect();
        assert_eq!(said, ["frames were still lost 60 s after it"]);
        assert!(check(Some(57_000), true).time_s().is_some());
    }

    #[test]
    fn a_device_that_was_not_overloaded_is_named() {
        let report = check(None, false);
        assert_eq!(report.ledger.deviations().count(), 1);
        let parameters = Parameters::rfc(1e6, 1e6);
        assert_eq!(parameters.overload_rate(), 1e6);
        let mut device = Device { recovers_after: None, loses_in_overload: false, seen: Vec::new() };
        assert!(run(&mut device, &Parameters { throughput: 0.0, ..parameters }).is_err());
    }

    #[test]
    fn loss_of_what_left_in_lumps_may_be_the_tester_s() {
        let doubtful = |late| {
            let gap = Gap { frames: 10, last_sent: Duration::from_secs(61), ..Gap::default() };
            let steps = vec![Duration::ZERO, Duration::from_secs(60)];
            let end = Duration::from_secs(120);
            let timeline = Timeline { steps, end, gaps: vec![gap], late, ..Timeline::default() };
            evaluate(timeline, &Parameters::rfc(1e6, 1e6)).is_doubtful()
        };
        assert_eq!([9, 10].map(doubtful), [false, true]);
    }

    #[test]
    fn an_overload_is_of_the_throughput_that_was_found() {
        let said = |change: fn(&mut Parameters)| {
            let mut device = Device { recovers_after: None, loses_in_overload: true, seen: Vec::new() };
            let mut parameters = Parameters::rfc(1e6, 1e6);
            change(&mut parameters);
            let report = run(&mut device, &parameters).unwrap();
            report.ledger.deviations().filter_map(|c| c.deviation.clone()).collect::<String>()
        };
        assert_eq!(said(|_| ()), "", "the medium carries no more");
        assert!(said(|p| p.is_medium = false).contains("reaches, which is less"));
        assert!(said(|p| p.origin = Origin::Named).contains("did not determine the throughput"));
        assert!(said(|p| (p.is_medium, p.throughput) = (false, 2e6)).contains("reaches, which is less"));
    }
}
