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
pub enum ResetKind {
    /// The only route processor (RFC 6201 4.1.1.1).
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

impl ResetKind {
    /// Where RFC 6201 has it.
    fn section(self) -> &'static str {
        match self {
            ResetKind::RouteProcessor => "RFC 6201 4.1.1.1",
            ResetKind::LineCard => "RFC 6201 4.1.2",
            ResetKind::OperatingSystem => "RFC 6201 4.2.1",
            ResetKind::Process => "RFC 6201 4.2.2",
            ResetKind::Power => "RFC 6201 4.3.1",
        }
    }
}

impl fmt::Display for ResetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResetKind::RouteProcessor => "reset of the route processor",
            ResetKind::LineCard => "reset of a line card",
            ResetKind::OperatingSystem => "reset of the operating system",
            ResetKind::Process => "reset of a process",
            ResetKind::Power => "power interruption",
        })
    }
}

/// How the procedure is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// What is reset.
    pub kind: ResetKind,
    /// Frames a second for each sending port: the throughput at the least frame size.
    pub rate: f64,
    /// Where that rate comes from.
    pub origin: Origin,
    /// Bytes of the frames, with FCS.
    pub size: usize,
    /// Those of the least frames that these flows can have.
    pub least_size: usize,
    /// Whether the link's speed is known.
    pub linked: bool,
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
    pub fn rfc(kind: ResetKind, rate: f64) -> Parameters {
        let after = Duration::from_secs(300);
        Parameters {
            kind,
            rate,
            origin: Origin::Found,
            size: 64,
            least_size: 64,
            linked: true,
            sending_ports: 1,
            before: RFC_BEFORE,
            after,
            repetitions: 3,
            repeats: 1,
        }
    }

    /// For a process that starts within seconds.
    pub fn quick(kind: ResetKind, rate: f64) -> Parameters {
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

    /// Whether the loss may be the tester's, which sent frames in lumps.
    pub fn is_doubtful(&self) -> bool {
        self.timeline.is_doubtful(self.lost)
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
    rfc2544(&mut ledger, parameters, outages);
    reported(&mut ledger, parameters);
    surroundings(&mut ledger, parameters.kind);
    traffic(&mut ledger, parameters, outages);
    kinds(&mut ledger, parameters.kind);
    ledger
}

/// RFC 2544 26.6.
fn rfc2544(ledger: &mut Ledger, parameters: &Parameters, outages: &[Outage]) {
    use Level::{Plain, Should};
    let section = "RFC 2544 26.6";
    let kept_up = outages.iter().all(|outage| outage.timeline.tester_kept_up());
    let unsent = (!kept_up).then_some("the tester could not offer the rate");
    let in_lumps = outages.iter().any(Outage::is_doubtful);
    let in_lumps = in_lumps.then_some("as many frames left the tester in lumps as were lost");
    let done: Vec<&str> = [parameters.origin.doubt(), unsent, in_lumps].into_iter().flatten().collect();
    ledger.note(section, Plain, "the stream runs at the throughput", done.is_empty(), done.join("; "));
    smallest(ledger, section, parameters);
    ledger.note(
        section,
        Plain,
        "the stream lasts until forwarding has come back",
        outages.iter().all(Outage::recovered),
        format_args!("it did not come back within {}", seconds(parameters.after)),
    );
    let done = "the tester knows its flows, and not to which networks the device is connected";
    ledger.never(section, Should, "frames go to networks to which the device is connected", done);
    // A run has one kind.
    let asks = "resets of hardware and of software are tested, and an interruption of power";
    ledger.never(section, Should, asks, format_args!("a {} only", parameters.kind));
    if parameters.kind == ResetKind::Power {
        let done = "for as long as the command takes that does it, which is not told";
        ledger.never(section, Plain, "power is interrupted for 10 s", done);
    }
    // The text has such a line.
    ledger.always(section, Should, "the result is a simple statement for each kind of reset");
}

fn smallest(ledger: &mut Ledger, section: &'static str, parameters: &Parameters) {
    let Parameters { size, least_size: least, .. } = *parameters;
    let asks = "frames have the least size";
    ledger.note(
        section,
        Level::Plain,
        asks,
        size <= least,
        format_args!("{size} bytes, of {least} at least"),
    );
}

/// RFC 6201 1.3 and 1.4: how it is measured and reported.
fn reported(ledger: &mut Ledger, parameters: &Parameters) {
    use Level::{Must, Should};
    // Each run has both.
    ledger.always("RFC 6201 1.3", Should, "of loss and timestamps, the method that the tester does better");
    let again = parameters.repetitions * parameters.repeats > 1;
    ledger.note(
        "RFC 6201 1.4",
        Should,
        "the test is repeated, the number of trials and their average reported",
        again,
        "it was done once",
    );
    // Results have the times of all trials.
    let asks = "the report tells how repeatable the times are";
    ledger.note("RFC 6201 1.4", Must, asks, again, "there is one of them only");
    ledger.note(
        "RFC 6201 1.4",
        Should,
        "throughput in frames and bits a second, frames lost, time in ms, trials, protocol, frame size, and the ports' medium and speed",
        parameters.linked,
        "no link was named: the speed of the ports is not told",
    );
    ledger.never(
        "RFC 6201 3",
        Must,
        "all that may weigh on the time is reported",
        "the kind of reset and the command line are; what the device is made of, the tester does not know",
    );
}

/// RFC 6201 3: on what it depends that a device forwards again.
fn surroundings(ledger: &mut Ledger, kind: ResetKind) {
    let done = "the device asks for its neighbours, or learns them, unless its configuration has them";
    let asks = "forwarding comes back without others' help: addresses and routes are configured";
    ledger.never("RFC 6201 3", Level::Should, asks, done);
    if kind == ResetKind::LineCard {
        let done = "which one the command resets, and where the flows' hosts are, the tester does not know";
        let asks = "the line card is on the way of the frames, and all destinations are directly connected";
        ledger.never(kind.section(), Level::Must, asks, done);
    }
}

/// RFC 6201 4: what the device forwards before it is reset.
fn traffic(ledger: &mut Ledger, parameters: &Parameters, outages: &[Outage]) {
    use Level::Plain;
    let section = parameters.kind.section();
    let clean = |outage: &Outage| {
        let event = outage.timeline.event.unwrap_or(parameters.before);
        outage.timeline.gaps.iter().all(|gap| gap.last_sent >= event)
    };
    ledger.note(
        section,
        Plain,
        "before the reset the device forwards all of the traffic",
        outages.iter().all(clean),
        "frames were lost before the reset as well",
    );
    ledger.note(
        section,
        Plain,
        "it does so for at least 15 s",
        parameters.before >= RFC_BEFORE,
        format_args!("for {}", seconds(parameters.before)),
    );
    smallest(ledger, section, parameters);
    let doubt = parameters.origin.doubt();
    ledger.note(
        section,
        Plain,
        "the rate is the device's throughput",
        doubt.is_none(),
        doubt.unwrap_or_default(),
    );
}

/// RFC 6201 4.1 to 4.3: what is asked of some kinds.
fn kinds(ledger: &mut Ledger, kind: ResetKind) {
    use Level::{Must, Plain, Should};
    match kind {
        // A command or a handler performs every reset; none is done by hand.
        ResetKind::RouteProcessor | ResetKind::LineCard => {
            ledger.always("RFC 6201 4.1", Should, "no part is taken out and put in by hand");
        }
        ResetKind::OperatingSystem | ResetKind::Process => ledger.never(
            "RFC 6201 4.1",
            Must,
            "where a device has no route processor or line card to reset, its power is interrupted",
            format_args!("a {kind} only"),
        ),
        ResetKind::Power => ledger.never(
            kind.section(),
            Plain,
            "power is interrupted for at least 15 s, which are taken off the time",
            "the command decides how long, and nothing is taken off",
        ),
    }
    if kind == ResetKind::Process {
        // It is the device itself, or the command line has the command that resets it.
        ledger.always(kind.section(), Plain, "the report says which process it was");
    }
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

    /// Demands that no reset of a process meets.
    const NEVER: usize = 5;

    fn check(lost_ms: &[(u64, u64)], by_loss_ms: Option<u64>, by_timestamps_ms: Option<u64>) {
        let parameters = Parameters::rfc(ResetKind::Process, 1000.0);
        let report = run(&mut Device(lost_ms.to_vec()), &parameters).unwrap();
        let outage = &report.outages[0];
        assert_eq!(outage.by_loss, by_loss_ms.map(Duration::from_millis), "{lost_ms:?}");
        assert_eq!(outage.by_timestamps, by_timestamps_ms.map(Duration::from_millis), "{lost_ms:?}");
        assert_eq!((outage.interruptions, report.outages.len()), (lost_ms.len(), 3));
        assert_eq!(report.uncertainty(), Duration::from_millis(1));
        assert_eq!(report.by_loss_s().map(|s| (s.mean * 1000.0).round() as u64), by_loss_ms);
        assert_eq!(report.by_timestamps_s().is_some(), by_timestamps_ms.is_some());
        let came_back = by_loss_ms.is_some();
        assert_eq!(report.ledger.deviations().count(), NEVER + usize::from(!came_back));
    }

    #[test]
    fn both_methods_agree_to_a_frame_unless_forwarding_comes_and_goes() {
        check(&[(0, 2500)], Some(2500), Some(2501));
        check(&[(10, 1010), (2010, 2510)], Some(1500), Some(2501));
        check(&[], Some(0), Some(0));
        check(&[(0, 300_000)], None, None);
    }

    #[test]
    fn what_is_asked_depends_on_what_is_reset_and_how_it_is_loaded() {
        let missed = |parameters: &Parameters| -> Vec<String> {
            let all = ledger(parameters, &[]);
            all.deviations().map(|clause| format!("{}: {}", clause.section, clause.asks)).collect()
        };
        let of = |kind| missed(&Parameters::rfc(kind, 1000.0));
        assert!(
            of(ResetKind::Power)
                .iter()
                .any(|asks| asks.contains("4.3.1: power is interrupted for at least 15 s"))
        );
        assert!(
            of(ResetKind::LineCard).iter().any(|asks| asks.contains("4.1.2: the line card is on the way"))
        );
        assert!(!of(ResetKind::RouteProcessor).iter().any(|asks| asks.contains("line card")));
        let usual = of(ResetKind::Process).len();
        assert_eq!(usual, NEVER);
        let rfc = Parameters::rfc(ResetKind::Process, 1000.0);
        assert_eq!(missed(&Parameters { size: 512, ..rfc }).len(), usual + 2);
        assert_eq!(missed(&Parameters { origin: Origin::Named, ..rfc }).len(), usual + 2);
        assert_eq!(missed(&Parameters { origin: Origin::Reached, ..rfc }).len(), usual + 2);
    }

    #[test]
    fn loss_of_what_left_in_lumps_may_be_the_tester_s() {
        let parameters = Parameters::rfc(ResetKind::Process, 1000.0);
        let said = |late| {
            let gap = Gap { frames: 10, first_sent: RFC_BEFORE, last_sent: RFC_BEFORE, ..Gap::default() };
            let timeline = Timeline { event: Some(RFC_BEFORE), gaps: vec![gap], late, ..Timeline::default() };
            let outage = evaluate(timeline, &parameters);
            let all = ledger(&parameters, &[outage]);
            all.deviations()
                .filter(|c| c.deviation.as_ref().is_some_and(|why| why.contains("in lumps")))
                .count()
        };
        assert_eq!([9, 10].map(said), [0, 1]);
    }

    #[test]
    fn two_ports_offer_twice_as_much() {
        let parameters = Parameters { sending_ports: 2, ..Parameters::quick(ResetKind::LineCard, 1000.0) };
        let report = run(&mut Device(vec![(0, 1000), (0, 1000)]), &parameters).unwrap();
        assert_eq!(
            (report.outages[0].by_loss, report.outages[0].interruptions),
            (Some(Duration::from_secs(1)), 1)
        );
        let said: Vec<_> = report.ledger.deviations().filter_map(|clause| clause.deviation.clone()).collect();
        assert!(said.iter().any(|why| why == "it was done once"), "{said:?}");
        let error = run(&mut Device(Vec::new()), &Parameters { rate: -1.0, ..parameters }).unwrap_err();
        assert_eq!(error.to_string(), "the rate is -1; it must be above 0 frames/s");
    }
}
