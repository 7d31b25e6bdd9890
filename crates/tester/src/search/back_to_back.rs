// SPDX-License-Identifier: MIT OR Apache-2.0
//! Back-to-back frames: the longest burst at the medium's rate of which the device loses nothing (RFC 1242 3.1, RFC 2544 26.4), with
//! the corrections of RFC 9004.
//!
//! The length of the burst is found by bisection between one frame and the longest burst, anew in each repetition, and the
//! average over the repetitions is the benchmark. Chance may take a frame of a burst that the device can hold in
//! general; with *loss verification* (ETSI GS NFV-TST 009 12.3.3) a burst fails only if it does so several times in a row.
//!
//! From the length follows how much the device buffers. The time that the burst takes, its frames over the medium's rate, is only the
//! *implied* buffer time: while the burst arrives, the device forwards. What accumulates is the difference, so with a throughput
//! *T* below the medium's rate *M* (RFC 9004 6.4)
//!
//! ```text
//! corrected = implied × (M − T) / M
//! ```
//!
//! A device whose throughput is the medium's rate needs no buffer for a burst, and has no such benchmark (RFC 9004 6.1).

use std::time::Duration;

use super::load::Origin;
use super::setup::ETHERNET_SIZES;
use super::{Error, Ledger, Level, Sizes, Summary, Wanted, require, seconds};
use crate::trial::{Invalid, Outcome};

/// Sends bursts.
pub trait Bursts {
    /// Sends `frames` frames with the least gap that the medium allows, and counts what arrives until nothing more has for `settle`.
    ///
    /// # Errors
    /// Something other than the device's buffers decided it.
    fn burst(&mut self, frames: u64, settle: Duration) -> Result<Outcome, Invalid>;
}

/// How the procedure is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Frames a second in a burst: the medium's rate.
    pub line_rate: f64,
    /// The device's throughput for frames of this size.
    pub throughput: f64,
    /// Where that comes from.
    pub origin: Origin,
    /// Whether the rate is a medium's, and not only what the tester reaches by itself.
    pub medium: bool,
    /// The longest burst.
    pub longest: Duration,
    /// If even that passes, the search is done once more up to this.
    pub longest_retry: Duration,
    /// How exactly the length is found, in frames.
    pub step_frames: u64,
    /// How often a burst must fail to count as failed.
    pub failures: u32,
    /// Wait after a burst, so that buffers are empty before the next; as long as the burst if that is longer.
    pub settle: Duration,
    /// How many searches.
    pub repetitions: u32,
}

impl Parameters {
    /// As RFC 2544 and RFC 9004 have it: bursts up to 2 s, if need be 30 s, 50 repetitions.
    pub fn rfc(line_rate: f64, throughput: f64) -> Parameters {
        Parameters {
            line_rate,
            throughput,
            origin: Origin::Found,
            medium: true,
            longest: Duration::from_secs(2),
            longest_retry: Duration::from_secs(30),
            step_frames: 1,
            failures: 1,
            settle: Duration::from_secs(2),
            repetitions: 50,
        }
    }

    /// A few repetitions with short bursts and waits.
    pub fn quick(line_rate: f64, throughput: f64) -> Parameters {
        Parameters {
            longest_retry: Duration::from_secs(2),
            step_frames: 16,
            settle: Duration::from_millis(100),
            repetitions: 5,
            ..Parameters::rfc(line_rate, throughput)
        }
    }

    fn check(&self) -> Result<(), Error> {
        let line = self.line_rate;
        require(line.is_finite() && line > 0.0, "the medium's rate", line, "above 0 frames/s")?;
        let throughput = self.throughput;
        let allowed = "0 to the medium's rate";
        require((0.0..=line).contains(&throughput), "the throughput", throughput, allowed)?;
        let longest = seconds(self.longest);
        require(self.frames(self.longest) >= 1, "the longest burst", longest, "at least one frame")?;
        require(self.step_frames > 0, "the step", self.step_frames, "at least 1 frame")?;
        require(self.failures > 0, "the number of failures", self.failures, "at least 1")?;
        require(self.repetitions > 0, "the number of repetitions", self.repetitions, "at least 1")
    }

    fn frames(&self, burst: Duration) -> u64 {
        (burst.as_secs_f64() * self.line_rate + 1e-6) as u64
    }
}

/// What the procedure found.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// How it was done.
    pub parameters: Parameters,
    /// The longest burst without loss in each repetition, in frames.
    pub bursts: Vec<u64>,
    /// Average, least, greatest, and standard deviation of these. The average is the benchmark.
    pub frames: Summary,
    /// The longest burst that was tried, in frames.
    pub longest_frames: u64,
    /// Repetitions in which that passed: their length says only that the device holds at least so much.
    pub at_longest: usize,
    /// Whether the tester failed to send a burst as it should, so that the lengths may be its own.
    pub limited_by_tester: bool,
    /// Number of bursts sent.
    pub trials: usize,
    /// What the documents ask, and whether it was done.
    pub ledger: Ledger,
}

impl Report {
    /// How long the average burst takes at the medium's rate (RFC 9004 6.4).
    pub fn implied_buffer_time(&self) -> Duration {
        Duration::from_secs_f64(self.frames.mean / self.parameters.line_rate)
    }

    /// The implied time less what the device forwarded while the burst arrived (RFC 9004 6.4).
    pub fn corrected_buffer_time(&self) -> Duration {
        let Parameters { line_rate, throughput, .. } = self.parameters;
        self.implied_buffer_time().mul_f64((line_rate - throughput) / line_rate)
    }

    /// The buffer that the corrected time comes to, in frames.
    pub fn buffer_frames(&self) -> f64 {
        self.corrected_buffer_time().as_secs_f64() * self.parameters.line_rate
    }

    /// Whether the result is about the device's buffers: the throughput is below the medium's rate, the searches ended below their
    /// longest burst, and the tester kept up.
    pub fn is_valid(&self) -> bool {
        self.parameters.throughput < self.parameters.line_rate
            && self.at_longest == 0
            && !self.limited_by_tester
    }
}

/// Finds the longest burst without loss.
///
/// # Errors
/// A parameter makes no sense, or a burst could not be measured.
pub fn run(bursts: &mut dyn Bursts, parameters: &Parameters) -> Result<Report, Error> {
    parameters.check()?;
    let mut search = Search {
        bursts,
        parameters,
        longest: parameters.frames(parameters.longest),
        trials: 0,
        unsent: false,
    };
    let retry = parameters.frames(parameters.longest_retry);
    let mut found = Vec::new();
    while found.len() < parameters.repetitions as usize {
        let frames = search.longest_burst()?;
        if frames == search.longest && retry > search.longest {
            // RFC 9004 6.2: results at the limit of the search are likely invalid; all is repeated with a higher one.
            search.longest = retry;
            found.clear();
            continue;
        }
        found.push(frames);
    }
    let lengths: Vec<f64> = found.iter().map(|frames| *frames as f64).collect();
    let Some(frames) = Summary::of(&lengths) else { unreachable!("there is at least one repetition") };
    let at_longest = found.iter().filter(|frames| **frames == search.longest).count();
    Ok(Report {
        parameters: *parameters,
        frames,
        longest_frames: search.longest,
        at_longest,
        limited_by_tester: search.unsent,
        trials: search.trials,
        ledger: ledger(parameters, at_longest, search.unsent),
        bursts: found,
    })
}

struct Search<'a> {
    bursts: &'a mut dyn Bursts,
    parameters: &'a Parameters,
    longest: u64,
    trials: usize,
    /// Some burst was not sent whole, or in lumps that were lost.
    unsent: bool,
}

impl Search<'_> {
    /// Bisects between no frame and the longest burst; the longest is tried first.
    fn longest_burst(&mut self) -> Result<u64, Error> {
        let (mut passed, mut failed) = (0, self.longest);
        if self.passes(failed)? {
            return Ok(failed);
        }
        while failed - passed > self.parameters.step_frames {
            let middle = passed + (failed - passed) / 2;
            *(if self.passes(middle)? { &mut passed } else { &mut failed }) = middle;
        }
        Ok(passed)
    }

    fn passes(&mut self, frames: u64) -> Result<bool, Error> {
        let sending = Duration::from_secs_f64(frames as f64 / self.parameters.line_rate);
        let settle = self.parameters.settle.max(sending);
        for _ in 0..self.parameters.failures {
            let outcome = self
                .bursts
                .burst(frames, settle)
                .map_err(|cause| Error::trial(format_args!("a burst of {frames} frames"), cause))?;
            self.trials += 1;
            self.unsent |= !outcome.is_of_device();
            if outcome.lost() == 0 && outcome.tester_kept_up() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn ledger(parameters: &Parameters, at_longest: usize, unsent: bool) -> Ledger {
    let mut ledger = Ledger::default();
    let two_seconds = Duration::from_secs(2);
    let section = "RFC 2544 26.4";
    ledger.note(
        section,
        Level::Should,
        "at least 50 repetitions, of which the average is reported",
        parameters.repetitions >= 50,
        format_args!("{} repetitions", parameters.repetitions),
    );
    ledger.note(
        section,
        Level::Must,
        "a trial lasts at least 2 s",
        parameters.settle >= two_seconds,
        format_args!("bursts with {} after them", seconds(parameters.settle)),
    );
    ledger.note(
        section,
        Level::Plain,
        "bursts are sent with the least gap of the medium",
        parameters.medium && !unsent,
        match unsent {
            true => "the tester could not send some bursts whole in their time, or evenly",
            false => "no link was named: the gap is the least of the tester's own",
        },
    );
    ledger.note_table(section);
    search(&mut ledger, parameters, at_longest);
    reported(&mut ledger, parameters);
    ledger
}

/// RFC 9004 6.1 to 6.3: how the longest burst is found.
fn search(ledger: &mut Ledger, parameters: &Parameters, at_longest: usize) {
    use Level::{Must, Plain, Should};
    ledger.note(
        "RFC 9004 5",
        Should,
        "loss that has nothing to do with buffers is avoided or made up for",
        parameters.failures > 1,
        "a burst failed at its first loss, and what else takes the device's time was not looked for",
    );
    ledger.note(
        "RFC 9004 6.1",
        Plain,
        "only for frame sizes whose throughput is below the medium's rate",
        parameters.throughput < parameters.line_rate,
        "the throughput is the medium's rate: bursts do not fill the device's buffers",
    );
    let section = "RFC 9004 6.2";
    ledger.note(
        section,
        Must,
        "at least 2 s after the last frame that came of a burst, for buffers to empty",
        parameters.settle >= Duration::from_secs(2),
        seconds(parameters.settle),
    );
    // The wait is at least as long as the burst.
    ledger.always(section, Must, "a longer wait after bursts of more than 2 s");
    // A number of seconds that the user gives, without a limit.
    ledger.always(section, Must, "the longest burst can be set to as much as 30 s");
    ledger.note(
        section,
        Must,
        "results at the search's upper limit are repeated with a higher one",
        at_longest == 0,
        format_args!("{at_longest} searches ended at the longest burst, which the device may exceed"),
    );
    // It bisects; whether a burst that fails is tried again is the second.
    ledger.always(
        section,
        Must,
        "binary search, or binary search with loss verification (ETSI GS NFV-TST 009)",
    );
    // There is one repetition at least, and each begins between no frame and the longest burst.
    ledger.always("RFC 9004 6.3", Must, "the test is repeated a number of times, each a search of its own");
}

/// RFC 9004 6.2, 6.3 and 7: what is reported. A record has all of it for each frame size, and the text most.
fn reported(ledger: &mut Ledger, parameters: &Parameters) {
    use Level::{Must, Should};
    ledger.always("RFC 9004 6.2", Must, "the parameters of the search are reported");
    ledger.always("RFC 9004 6.2", Must, "its step size is reported, in frames");
    ledger.always("RFC 9004 6.3", Must, "the value of each repetition is available");
    ledger.always("RFC 9004 7", Must, "the number of repetitions is reported");
    ledger.always("RFC 9004 7", Should, "least, greatest and standard deviation are reported");
    ledger.note(
        "RFC 9004 7",
        Should,
        "the corrected buffer time is reported",
        parameters.origin == Origin::Found,
        format_args!("it is, though {}", parameters.origin.doubt().unwrap_or_default()),
    );
    ledger.always("RFC 9004 7", Should, "the longest burst that was tried is reported");
    ledger.note_table("RFC 9004 7");
}

/// What RFC 9004 5 asks to be known before bursts of frames of this size are sent, or before it is said that none need be.
pub fn prerequisites_ledger(size: usize, origin: Origin, medium: bool) -> Ledger {
    let section = "RFC 9004 5";
    let mut ledger = Ledger::default();
    ledger.note(
        section,
        Level::Must,
        "the medium's speed and protocol are known, and make the greatest rate",
        medium,
        "no link was named: the greatest rate is what the tester reaches by itself",
    );
    ledger.note_sizes(
        section,
        Level::Must,
        "the throughput of all recommended frame sizes is known",
        Sizes::new(Wanted::All(ETHERNET_SIZES.to_vec()), &[size]),
    );
    let measured = origin == Origin::Found;
    ledger.note(
        section,
        Level::Must,
        "it is measured, without loss (RFC 2544 26.1)",
        measured,
        origin.doubt().unwrap_or_default(),
    );
    ledger.note(
        section,
        Level::Must,
        "with the same directions and flows as the bursts",
        // One plan serves both, unless the rate is not from here.
        origin != Origin::Named,
        origin.doubt().unwrap_or_default(),
    );
    ledger
}

#[cfg(test)]
mod tests {
    use super::super::simulated::Device;
    use super::*;
    use proptest::prelude::*;

    fn device(capacity: f64, buffer_frames: u64, line_rate: f64) -> Device {
        Device { buffer_frames, line_rate, ..Device::sharp(capacity) }
    }

    #[test]
    fn the_corrected_time_is_that_of_the_buffer() {
        let (line, capacity) = (1_488_095.0, 1_000_000.0);
        let mut device = device(capacity, 4096, line);
        let report = run(&mut device, &Parameters::rfc(line, capacity)).unwrap();
        // In the burst's time n/line the device forwards n·capacity/line, and the rest fits in the buffer.
        let longest = 4096.0 / (1.0 - capacity / line);
        assert!((report.frames.mean - longest).abs() <= 3.0, "{} {longest}", report.frames.mean);
        assert!((report.buffer_frames() - 4096.0).abs() <= 1.5, "{}", report.buffer_frames());
        assert!(report.corrected_buffer_time() < report.implied_buffer_time());
        assert_eq!((report.bursts.len(), report.frames.stdev, report.is_valid()), (50, 0.0, true));
        let missed: Vec<&str> = report.ledger.deviations().map(|clause| clause.section).collect();
        // Nothing makes up for other loss.
        assert_eq!(missed, ["RFC 9004 5"]);
    }

    #[test]
    fn what_must_be_known_before_is_judged_by_where_it_comes_from() {
        let missed = |origin, medium| prerequisites_ledger(64, origin, medium).deviations().count();
        // Other sizes do their part in their runs.
        assert_eq!([missed(Origin::Found, true), missed(Origin::Found, false)], [1, 2]);
        assert_eq!([missed(Origin::Named, true), missed(Origin::Reached, true)], [3, 2]);
    }

    #[test]
    fn a_burst_at_the_limit_is_tried_longer() {
        let line = 1e5;
        // Three seconds of buffer: two do not suffice.
        let mut deep = device(0.0, 300_000, line);
        let report = run(&mut deep, &Parameters { repetitions: 2, ..Parameters::rfc(line, 0.0) }).unwrap();
        assert_eq!(
            (report.bursts.as_slice(), report.longest_frames),
            ([300_000, 300_000].as_slice(), 3_000_000)
        );
        assert!(report.is_valid());
        assert_eq!(report.corrected_buffer_time(), Duration::from_secs(3));
        // No buffer is found where none is needed.
        let report = run(&mut device(line, 0, line), &Parameters::quick(line, line)).unwrap();
        assert_eq!((report.at_longest, report.is_valid()), (5, false));
        assert_eq!(report.corrected_buffer_time(), Duration::ZERO);
    }

    #[test]
    fn verification_forgives_what_chance_takes() {
        let line = 1e6;
        let mean = |failures| {
            let mut device = device(0.0, 10_000, line);
            device.loss = 1e-5;
            let parameters = Parameters { failures, repetitions: 50, ..Parameters::quick(line, 0.0) };
            run(&mut device, &parameters).unwrap().frames.mean
        };
        let (plain, verified) = (mean(1), mean(4));
        assert!(plain < 9_900.0 && verified > 9_900.0, "{plain} {verified}");
    }

    #[test]
    fn what_is_lost_of_bursts_in_lumps_bounds_the_result() {
        struct Lumps(u64);
        impl Bursts for Lumps {
            fn burst(&mut self, frames: u64, _: Duration) -> Result<Outcome, Invalid> {
                let received = frames - frames.min(5);
                Ok(Outcome { intended: frames, sent: frames, received, late: self.0, ..Outcome::default() })
            }
        }
        let limited = |late| run(&mut Lumps(late), &Parameters::quick(1e5, 0.0)).unwrap().limited_by_tester;
        assert_eq!([0, 4, 5].map(limited), [false, false, true]);
    }

    #[test]
    fn a_slow_tester_is_named() {
        let mut device = device(0.0, 10_000, 1e6);
        device.tester_rate_max = 1e5;
        let report = run(&mut device, &Parameters::quick(1e6, 0.0)).unwrap();
        assert!(report.limited_by_tester && !report.is_valid());
        assert!(run(&mut device, &Parameters::quick(1e6, 2e6)).is_err());
    }

    proptest! {
        #[test]
        fn the_longest_burst_is_found_to_the_step(buffer_frames in 0_u64..100_000, step_frames in 1_u64..100) {
            let line = 1e5;
            let parameters = Parameters { step_frames, repetitions: 1, ..Parameters::quick(line, 0.0) };
            let report = run(&mut device(0.0, buffer_frames, line), &parameters).unwrap();
            let found = report.bursts[0];
            prop_assert!(found <= buffer_frames && found + step_frames >= buffer_frames, "{found} {buffer_frames}");
            prop_assert!(report.trials <= 20);
        }
    }
}
