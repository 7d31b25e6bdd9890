// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reset: how long a device forwards nothing when it is reset (RFC 2544 26.6, RFC 6201).
//!
//! A stream of the least frame size runs at the device's throughput. The device is reset, and the stream goes on until
//! frames come through again. RFC 6201 has two ways to tell the time, and the report holds both:
//!
//! - *by loss*: the frames lost over the rate at which they were offered. It counts every interruption, also when forwarding comes and goes.
//! - *by timestamps*: from the arrival of the last frame before the interruption to that of the first one after it.
//!
//! Both are uncertain by the time between two frames.

use std::fmt;
use std::time::Duration;

use super::load::Origin;
use super::stream::{Resets, Timeline};
use super::{Error, Ledger, Level, Summary, require, seconds};

/// For how long a device forwards before it is reset (RFC 6201 4.1 to 4.3).
pub const RFC_BEFORE: Duration = Duration::from_secs(15);

/// What is reset (RFC 6201 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The route processor (RFC 6201 4.1.1).
    RouteProcessor,
    /// A line card, here: an interface or its driver (RFC 6201 4.1.2).
    LineCard,
    /// The whole operating system (RFC 6201 4.2.1).
    OperatingSystem,
    /// One process or component (RFC 6201 4.2.2).
    Process,
    /// The power is interrupted (RFC 6201 4.3.1).
    Power,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::RouteProcessor => "reset of the route processor",
            Kind::LineCard => "reset of a line card",
            Kind::OperatingSystem => "reset of the operating system",
            Kind::Process => "reset of a process",
            Kind::Power => "power interruption",
        })
    }
}

/// How the procedure is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// What is reset.
    pub kind: Kind,
    /// Frames a second for each sending port: the throughput at the least frame size.
    pub rate: f64,
    /// Where that rate comes from.
    pub origin: Origin,
    /// Bytes of the frames, with FCS.
    pub size: usize,
    /// Those of the least frames that these flows can have.
    pub least_size: usize,
    /// How many ports send.
    pub sending_ports: u32,
    /// How long the stream runs before.
    pub before: Duration,
    /// How long it goes on after.
    pub after: Duration,
    /// How often.
    pub repetitions: u32,
    /// How often all of this is done, for the ledger.
    pub repeats: u32,
}

impl Parameters {
    /// Time enough for a whole system to start. The documents leave the number of repetitions open, but want it reported.
    pub fn rfc(kind: Kind, rate: f64) -> Parameters {
        let after = Duration::from_secs(300);
        Parameters {
            kind,
            rate,
            origin: Origin::Found,
            size: 64,
            least_size: 64,
            sending_ports: 1,
            before: RFC_BEFORE,
            after,
            repetitions: 3,
            repeats: 1,
        }
    }

    /// For a process that starts within seconds.
    pub fn quick(kind: Kind, rate: f64) -> Parameters {
        let before = Duration::from_secs(1);
        let after = Duration::from_secs(10);
        Parameters { before, after, repetitions: 1, ..Parameters::rfc(kind, rate) }
    }
}

/// One repetition.
#[derive(Clone, Debug, PartialEq)]
pub struct Outage {
    /// Frames lost from the reset on.
    pub lost: u64,
    /// Interruptions from the reset on: 1 if forwarding stopped and came back for good. Those of several ports at the same time
    /// count as one.
    pub interruptions: usize,
    /// Frames lost over the rate offered (the loss method of RFC 6201); nothing if forwarding never came back.
    pub by_loss: Option<Duration>,
    /// From the last arrival before the first interruption to the first arrival after the last; nothing if forwarding never came
    /// back, or the stream never had come through.
    pub by_timestamps: Option<Duration>,
    /// The course of it.
    pub timeline: Timeline,
}

impl Outage {
    /// Whether forwarding came back.
    pub fn recovered(&self) -> bool {
        self.by_loss.is_some()
    }
}

/// What the procedure found.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// How it was done.
    pub parameters: Parameters,
    /// One for each repetition.
    pub outages: Vec<Outage>,
    /// What the documents ask, and whether it was done.
    pub ledger: Ledger,
}

impl Report {
    /// Reset times in seconds by loss. Nothing if in some repetition forwarding did not come back.
    pub fn by_loss_s(&self) -> Option<Summary> {
        self.summary(|outage| outage.by_loss)
    }

    /// Reset times in seconds by timestamps.
    pub fn by_timestamps_s(&self) -> Option<Summary> {
        self.summary(|outage| outage.by_timestamps)
    }

    /// How far off each time may be: the time between two frames of one port.
    pub fn uncertainty(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.parameters.rate)
    }

    fn summary(&self, time: impl Fn(&Outage) -> Option<Duration>) -> Option<Summary> {
        let times: Option<Vec<f64>> =
            self.outages.iter().map(|outage| Some(time(outage)?.as_secs_f64())).collect();
        Summary::of(&times?)
    }
}

/// Measures the reset time.
///
/// # Errors
/// A parameter makes no sense, or a stream was invalid.
pub fn run(resets: &mut dyn Resets, parameters: &Parameters) -> Result<Report, Error> {
    let Parameters { kind, rate, sending_ports, before, after, repetitions, .. } = *parameters;
    require(rate.is_finite() && rate > 0.0, "the rate", rate, "above 0 frames/s")?;
    require(sending_ports > 0, "the number of sending ports", sending_ports, "at least 1")?;
    require(!before.is_zero(), "the time before the reset", seconds(before), "above 0 s")?;
    require(!after.is_zero(), "the time after the reset", seconds(after), "above 0 s")?;
    require(repetitions > 0, "the number of repetitions", repetitions, "at least 1")?;
    let mut outages = Vec::new();
    for _ in 0..repetitions {
        let timeline = resets.reset(rate, before, after).map_err(|cause| Error::trial(kind, cause))?;
        outages.push(evaluate(timeline, parameters));
    }
    let ledger = ledger(parameters, &outages);
    Ok(Report { parameters: *parameters, outages, ledger })
}

fn evaluate(timeline: Timeline, parameters: &Parameters) -> Outage {
    let event = timeline.event.unwrap_or(parameters.before);
    let gaps: Vec<_> = timeline.gaps_from(event).collect();
    let lost = gaps.iter().map(|gap| gap.frames).sum();
    let recovered = gaps.iter().all(|gap| gap.arrived_after.is_some());
    let offered = parameters.rate * f64::from(parameters.sending_ports);
    let by_loss = recovered.then(|| Duration::from_secs_f64(lost as f64 / offered));
    let first = gaps.iter().map(|gap| gap.arrived_before).min().flatten();
    let last = gaps.iter().filter_map(|gap| gap.arrived_after).max();
    let by_timestamps = match (gaps.is_empty(), recovered, first, last) {
        (true, ..) => Some(Duration::ZERO),
        (false, true, Some(first), Some(last)) => Some(last.saturating_sub(first)),
        _ => None,
    };
    // In order of sending, one begins where a gap begins after the end of all before.
    let mut until = None;
    let mut interruptions = 0;
    for gap in &gaps {
        interruptions += usize::from(until.is_none_or(|until| gap.first_sent > until));
        until = until.max(Some(gap.last_sent));
    }
    Outage { lost, interruptions, by_loss, by_timestamps, timeline }
}

fn ledger(parameters: &Parameters, outages: &[Outage]) -> Ledger {
    let mut ledger = Ledger::default();
    let Parameters { size, least_size, .. } = *parameters;
    let mut done: Vec<String> = parameters.origin.doubt().map(str::to_owned).into_iter().collect();
    if size != least_size {
        done.push(format!("with frames of {size} bytes; {least_size} are the least"));
    }
    if !outages.iter().all(|outage| outage.timeline.tester_kept_up()) {
        done.push("the tester could not offer the rate".to_owned());
    }
    ledger.note(
        "RFC 2544 26.6",
        Level::Plain,
        "the stream runs at the throughput of the least frame size",
        done.is_empty(),
        done.join("; "),
    );
    ledger.note(
        "RFC 6201 1.4",
        Level::Should,
        "the test is repeated, the number of trials and their average reported",
        parameters.repetitions * parameters.repeats > 1,
        "it was done once",
    );
    ledger.note(
        "RFC 2544 26.6",
        Level::Plain,
        "the stream lasts until forwarding has come back",
        outages.iter().all(Outage::recovered),
        format_args!("it did not come back within {}", seconds(parameters.after)),
    );
    let clean = |outage: &Outage| {
        let event = outage.timeline.event.unwrap_or(parameters.before);
        outage.timeline.gaps.iter().all(|gap| gap.last_sent >= event)
    };
    ledger.note(
        "RFC 6201 4",
        Level::Plain,
        "before the reset the device forwards all of the traffic",
        outages.iter().all(clean),
        "frames were lost before the reset as well",
    );
    ledger.note(
        "RFC 6201 4",
        Level::Plain,
        "it does so for at least 15 s",
        parameters.before >= RFC_BEFORE,
        format_args!("for {}", seconds(parameters.before)),
    );
    ledger
}

#[cfg(test)]
mod tests {
    use super::super::stream::Gap;
    use super::*;
    use crate::trial::Invalid;

    /// Frames of one flow are lost in these intervals (milliseconds after the reset); a delay of 2 ms on all others.
    struct Device(Vec<(u64, u64)>);

    impl Resets for Device {
        fn reset(&mut self, rate: f64, before: Duration, after: Duration) -> Result<Timeline, Invalid> {
            let spacing = Duration::from_secs_f64(1.0 / rate);
            let delay = Duration::from_millis(2);
            let end = before + after;
            let gaps = self.0.iter().map(|(from, to)| {
                let first_sent = before + Duration::from_millis(*from);
                let until = before + Duration::from_millis(*to);
                Gap {
                    frames: ((until - first_sent).as_secs_f64() * rate).round() as u64,
                    first_sent,
                    last_sent: until - spacing,
                    arrived_before: Some(first_sent - spacing + delay),
                    arrived_after: (until < end).then(|| until + delay),
                }
            });
            let gaps = gaps.collect();
            Ok(Timeline {
                steps: vec![Duration::ZERO],
                end,
                event: Some(before),
                gaps,
                ..Timeline::default()
            })
        }
    }

    fn check(lost_ms: &[(u64, u64)], by_loss_ms: Option<u64>, by_timestamps_ms: Option<u64>) {
        let parameters = Parameters::rfc(Kind::Process, 1000.0);
        let report = run(&mut Device(lost_ms.to_vec()), &parameters).unwrap();
        let outage = &report.outages[0];
        assert_eq!(outage.by_loss, by_loss_ms.map(Duration::from_millis), "{lost_ms:?}");
        assert_eq!(outage.by_timestamps, by_timestamps_ms.map(Duration::from_millis), "{lost_ms:?}");
        assert_eq!((outage.interruptions, report.outages.len()), (lost_ms.len(), 3));
        assert_eq!(report.uncertainty(), Duration::from_millis(1));
        assert_eq!(report.by_loss_s().map(|s| (s.mean * 1000.0).round() as u64), by_loss_ms);
        assert_eq!(report.by_timestamps_s().is_some(), by_timestamps_ms.is_some());
        let came_back = by_loss_ms.is_some();
        assert_eq!(report.ledger.deviations().count(), usize::from(!came_back));
    }

    #[test]
    fn both_methods_agree_to_a_frame_unless_forwarding_comes_and_goes() {
        check(&[(0, 2500)], Some(2500), Some(2501));
        check(&[(10, 1010), (2010, 2510)], Some(1500), Some(2501));
        check(&[], Some(0), Some(0));
        check(&[(0, 300_000)], None, None);
    }

    #[test]
    fn two_ports_offer_twice_as_much() {
        let parameters = Parameters { sending_ports: 2, ..Parameters::quick(Kind::LineCard, 1000.0) };
        let report = run(&mut Device(vec![(0, 1000), (0, 1000)]), &parameters).unwrap();
        assert_eq!(
            (report.outages[0].by_loss, report.outages[0].interruptions),
            (Some(Duration::from_secs(1)), 1)
        );
        assert_eq!(report.ledger.deviations().next().unwrap().deviation.as_deref(), Some("it was done once"));
        let error = run(&mut Device(Vec::new()), &Parameters { rate: -1.0, ..parameters }).unwrap_err();
        assert_eq!(error.to_string(), "the rate is -1; it must be above 0 frames/s");
    }

    #[test]
    fn a_reset_is_one_of_least_frames_at_the_throughput() {
        let said = |origin, size| {
            let parameters = Parameters { origin, size, ..Parameters::rfc(Kind::Process, 1000.0) };
            let report = run(&mut Device(Vec::new()), &parameters).unwrap();
            report.ledger.deviations().filter_map(|c| c.deviation.clone()).collect::<String>()
        };
        assert_eq!(said(Origin::Found, 64), "");
        assert_eq!(said(Origin::Found, 512), "with frames of 512 bytes; 64 are the least");
        assert!(said(Origin::Named, 64).contains("this run did not determine the throughput"));
        assert!(said(Origin::Reached, 64).contains("the throughput may be higher"));
    }
}
