// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many addresses a bridge remembers, and how fast it learns them (RFC 2889 5.7 and 5.8).
//!
//! Three ports take part. The *learning* port sends one frame from each of so many addresses; then the *test* port sends a frame to each of
//! these. What the bridge has learnt comes out of the learning port alone. What it has not learnt it floods, and that is seen at the
//! *monitoring* port. Before each attempt the bridge must have forgotten all that it knew.
//!
//! The capacity is searched for by doubling and then by bisection, to the address. The rate is searched for by bisection, with a number of
//! addresses that the bridge can hold.

use std::time::Duration;

use super::setup::ETHERNET_SIZES;
use super::{Error, Ledger, Level, Sizes, Wanted, contents, require, seconds};
use crate::trial::Invalid;

/// What came of one attempt to teach a bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lesson {
    /// Frames sent to the addresses, one each.
    pub sent: u64,
    /// Those that came out of the learning port.
    pub received: u64,
    /// Those that came out of another.
    pub flooded: u64,
    /// Frames that the tester failed to send, learning frames included.
    pub unsent: u64,
    /// Frames that left so late that others left right behind them, which is faster than was asked for.
    pub late: u64,
    /// Whether the last learning frame left after the time that the rate makes: it was slower than that.
    pub overran: bool,
}

impl Lesson {
    /// Whether all addresses were learnt.
    pub fn is_learnt(&self) -> bool {
        self.flooded == 0 && self.received == self.sent && self.unsent == 0
    }

    /// Whether it is the tester that failed: addresses were not taught, or not as was asked for and so not learnt.
    pub fn is_doubtful(&self) -> bool {
        self.unsent > 0 || self.late > 0 && !self.is_learnt()
    }
}

/// Teaches a bridge addresses.
pub trait Teacher {
    /// Makes the bridge forget, teaches it so many addresses at `rate` frames a second, and looks which of them it knows.
    ///
    /// # Errors
    /// Something other than the bridge decided it: it could not be made to forget, a link went down.
    fn teach(&mut self, addresses: u64, rate: f64) -> Result<Lesson, Invalid>;
}

/// How both are searched for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Addresses at first.
    pub first: u64,
    /// Addresses at most.
    pub most: u64,
    /// Learning frames a second while the capacity is searched for.
    pub rate: f64,
    /// Learning frames a second at most.
    pub rate_max: f64,
    /// The rate is found to this share of it.
    pub resolution: f64,
    /// After how long the bridge forgets an address that is not heard of, if that is known.
    pub ageing: Option<Duration>,
}

impl Parameters {
    /// To the address and to 1 % of the rate; addresses are offered at `rate` frames a second while they are counted.
    pub fn rfc(rate: f64, rate_max: f64) -> Parameters {
        Parameters { first: 1024, most: 1 << 18, rate, rate_max, resolution: 0.01, ageing: None }
    }

    /// Fewer addresses, and the rate to a tenth.
    pub fn quick(rate: f64, rate_max: f64) -> Parameters {
        Parameters { most: 1 << 14, resolution: 0.1, ..Parameters::rfc(rate, rate_max) }
    }

    fn check(&self) -> Result<(), Error> {
        let allowed = "1 to the greatest number of addresses";
        require((1..=self.most).contains(&self.first), "the first number of addresses", self.first, allowed)?;
        require(self.rate > 0.0, "the learning rate", self.rate, "above 0 frames/s")?;
        require(
            self.rate_max >= self.rate,
            "the greatest rate",
            self.rate_max,
            "at least the learning rate",
        )?;
        require((0.001..=0.5).contains(&self.resolution), "the resolution", self.resolution, "0.001 to 0.5")
    }
}

/// What the procedures found.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// How it was done.
    pub parameters: Parameters,
    /// The greatest number of addresses that were all learnt.
    pub capacity: u64,
    /// Whether that is the greatest number that was tried: the bridge may remember more.
    pub at_most: bool,
    /// Whether it is the tester that failed with more: the bridge may remember more.
    pub capacity_limited_by_tester: bool,
    /// The greatest rate in addresses a second at which all of `taught` were learnt; nothing if none were.
    pub rate: Option<f64>,
    /// Addresses with which the rate was found.
    pub taught: u64,
    /// Whether the tester could not have offered more.
    pub limited_by_tester: bool,
    /// Every attempt: addresses, rate, and what came of it.
    pub lessons: Vec<(u64, f64, Lesson)>,
    /// What the document asks, and whether it was done.
    pub ledger: Ledger,
}

/// Finds capacity and rate.
///
/// # Errors
/// A parameter makes no sense, or a bridge could not be taught.
pub fn run(teacher: &mut dyn Teacher, parameters: &Parameters) -> Result<Report, Error> {
    parameters.check()?;
    let mut school = School { teacher, lessons: Vec::new() };
    let (capacity, capacity_limited_by_tester) = capacity(&mut school, parameters)?;
    // Half of what it holds: tables that hash addresses are not filled evenly.
    let taught = (capacity / 2).max(1);
    let (rate, limited_by_tester) =
        if capacity == 0 { (None, false) } else { rate(&mut school, parameters, taught)? };
    let lessons = school.lessons;
    let ledger = ledger(parameters, &lessons, capacity, capacity_limited_by_tester);
    let at_most = capacity == parameters.most;
    Ok(Report {
        parameters: *parameters,
        capacity,
        at_most,
        capacity_limited_by_tester,
        rate,
        taught,
        limited_by_tester,
        lessons,
        ledger,
    })
}

/// How much more slowly addresses are taught where the tester failed.
const SLOWER: [f64; 3] = [2.0, 4.0, 8.0];

struct School<'a> {
    teacher: &'a mut dyn Teacher,
    lessons: Vec<(u64, f64, Lesson)>,
}

impl School<'_> {
    fn learns(&mut self, addresses: u64, rate: f64) -> Result<Lesson, Error> {
        let lesson = self.teacher.teach(addresses, rate).map_err(|cause| {
            Error::trial(format_args!("{addresses} addresses at {rate:.0} a second"), cause)
        })?;
        self.lessons.push((addresses, rate, lesson));
        Ok(lesson)
    }

    /// Teaches addresses whose number is asked for, and not how fast they are learnt: where the tester fails, more slowly.
    fn learns_slowly(&mut self, addresses: u64, rate: f64) -> Result<Lesson, Error> {
        let mut lesson = self.learns(addresses, rate)?;
        let mut slower = SLOWER.iter();
        while let (true, Some(by)) = (lesson.is_doubtful(), slower.next()) {
            lesson = self.learns(addresses, rate / by)?;
        }
        Ok(lesson)
    }
}

/// How many, and whether the tester failed with more.
fn capacity(school: &mut School<'_>, parameters: &Parameters) -> Result<(u64, bool), Error> {
    let (mut learnt, mut failed, mut next) = (0, None, parameters.first);
    loop {
        let lesson = school.learns_slowly(next, parameters.rate)?;
        if lesson.is_learnt() {
            learnt = next;
        } else if lesson.is_doubtful() {
            // Fewer would say no more of what the bridge remembers than those it has learnt.
            return Ok((learnt, true));
        } else {
            failed = Some(next);
        }
        next = match failed {
            None if learnt == parameters.most => return Ok((learnt, false)),
            None => (learnt * 2).min(parameters.most),
            Some(failed) if failed - learnt <= 1 => return Ok((learnt, false)),
            Some(failed) => learnt + (failed - learnt) / 2,
        };
    }
}

/// The rate, and whether the tester was its limit.
fn rate(
    school: &mut School<'_>,
    parameters: &Parameters,
    addresses: u64,
) -> Result<(Option<f64>, bool), Error> {
    let (mut passed, mut failed, mut next) = (None, None, parameters.rate_max);
    let mut limited = true;
    loop {
        let lesson = school.learns(addresses, next)?;
        if lesson.is_learnt() && !lesson.overran {
            passed = Some(next);
        } else {
            failed = Some(next);
            limited = lesson.overran || lesson.is_doubtful();
        }
        let (low, high): (f64, f64) = (passed.unwrap_or(0.0), failed.unwrap_or(next));
        if high - low <= high * parameters.resolution || high < 1.0 {
            return Ok((passed, limited));
        }
        next = low + (high - low) / 2.0;
    }
}

fn ledger(
    parameters: &Parameters,
    lessons: &[(u64, f64, Lesson)],
    capacity: u64,
    is_limited: bool,
) -> Ledger {
    use Level::{Must, Plain, Should};
    let mut ledger = Ledger::default();
    for section in ["RFC 2889 5.7.3", "RFC 2889 5.8.3"] {
        ageing(&mut ledger, section, parameters, lessons);
        // With fewer there is no lesson.
        ledger.always(section, Must, "a learning, a test and a monitoring port");
        // No lesson begins otherwise.
        ledger.always(section, Plain, "before each iteration the bridge forgets all addresses");
    }
    // What is counted as flooded has the tester's signature.
    ledger.always("RFC 2889 5.7.3", Must, "frames of the bridge's own are not counted as flooded");
    ledger.note(
        "RFC 2889 5.7.3",
        Plain,
        "the number of addresses is searched for until frames are lost or flooded",
        capacity < parameters.most && !is_limited,
        match is_limited {
            true => format!("the tester failed to offer more than {capacity} in time"),
            false => format!("no more than {} were tried", parameters.most),
        },
    );
    ledger.note(
        "RFC 2889 5.8.3",
        Plain,
        "learning frames are offered at the rate asked for",
        lessons.iter().all(|(_, _, lesson)| !lesson.is_doubtful() && !lesson.overran),
        "the tester could not offer some rates; they count as failed by the tester",
    );
    // The rate is searched for with one number, half of the capacity.
    ledger.always("RFC 2889 5.8.3", Must, "the number of addresses is the same in all iterations");
    ledger.always("RFC 2889 5.8.3", Should, "it is at most the caching capacity");
    let half = "half of it, for tables that hash addresses are not filled evenly";
    ledger.never("RFC 2889 5.8.3", Plain, "it is the caching capacity", half);
    for section in ["RFC 2889 5.7.5", "RFC 2889 5.8.5"] {
        ledger.never(
            section,
            Should,
            "a table of all iterations: addresses, load, frames offered and received, and those flooded by port",
            "the list of trials has frames sent, received and flooded, those of all ports together",
        );
        destination(&mut ledger, section);
    }
    ledger
}

/// The same where there were no lessons, and why.
pub fn no_addresses_ledger(why: &str) -> Ledger {
    let mut ledger = Ledger::default();
    for (section, what) in
        [("RFC 2889 5.7", "the address caching capacity"), ("RFC 2889 5.8", "the address learning rate")]
    {
        ledger.never(section, Level::Plain, what, format_args!("not tested: {why}"));
    }
    ledger
}

fn ageing(
    ledger: &mut Ledger,
    section: &'static str,
    parameters: &Parameters,
    lessons: &[(u64, f64, Lesson)],
) {
    let unknown = "how long it takes the bridge to forget was not told (--ageing)";
    let known = parameters.ageing.is_some();
    ledger.note(section, Level::Must, "the bridge's ageing time is known", known, unknown);
    let longest = lessons.iter().map(|(addresses, rate, _)| *addresses as f64 / rate).fold(0.0, f64::max);
    ledger.note(
        section,
        Level::Must,
        "it is longer than learning takes",
        parameters.ageing.is_some_and(|ageing| ageing.as_secs_f64() > longest),
        match known {
            true => format!("learning took up to {longest:.1} s"),
            false => unknown.to_owned(),
        },
    );
}

/// What is looked at of every frame: one with another address, or without the signature, is not received.
fn destination(ledger: &mut Ledger, section: &'static str) {
    ledger.always(section, Level::Must, "received frames have the right destination address");
    ledger.always(section, Level::Should, "received frames have the tester's signature");
}

/// Loads at which the forwarding rate is measured for the greatest one (RFC 2889 5.1.4), in frames a second of each port: from the
/// greatest load down to the throughput, a tenth of the greatest apart.
pub fn loads(greatest: f64, throughput: f64) -> Vec<f64> {
    let tenths = (1..=10).rev().map(|tenth| greatest * f64::from(tenth) / 10.0);
    let mut loads: Vec<f64> = tenths.filter(|load| *load > throughput).collect();
    loads.extend(Some(throughput).filter(|load| *load > 0.0));
    loads
}

/// How a bridge was loaded.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// How long trials were that are no search's.
    pub trial: Duration,
    /// Frame sizes in bytes with FCS.
    pub sizes: &'a [usize],
    /// Whether the link's rate is known.
    pub linked: bool,
    /// Whether one clock starts all ports.
    pub here: bool,
}

/// What RFC 2889 asks of the parameters of a test, in a `section`.
fn parameters(ledger: &mut Ledger, section: &'static str, load: &Load<'_>) {
    use Level::{Plain, Should};
    ledger.note_sizes(
        section,
        Plain,
        "frames of 64, 128, 256, 512, 1024, 1280 and 1518 bytes",
        Sizes::new(Wanted::All(ETHERNET_SIZES.to_vec()), load.sizes),
    );
    let trial = load.trial;
    let asks = "trials of 30 s";
    ledger.note(
        section,
        Plain,
        asks,
        trial >= Duration::from_secs(30),
        format_args!("trials of {}", seconds(trial)),
    );
    // A number of seconds that the user gives.
    ledger.always(section, Should, "the time of a trial can be set from 1 to 300 s");
}

/// The graph that RFC 2889 asks for, in a `section`: that of the page which is made of a record.
fn graph(ledger: &mut Ledger, section: &'static str, load: &Load<'_>) {
    let asks = "the results are a graph by frame sizes";
    ledger.note_sizes(section, Level::Should, asks, Sizes::new(Wanted::AtLeast(2), load.sizes));
    let asks = "a line of the graph is the theoretical rate";
    let done = "no link was named: it is what the tester reaches by itself";
    ledger.note(section, Level::Should, asks, load.linked, done);
}

/// RFC 2889 3 and 4: addresses, and the signature of frames.
fn frames(ledger: &mut Ledger, load: &Load<'_>) {
    use Level::{Must, Should};
    // They are made of a seed, which may be given.
    contents::mac_addresses(ledger, true);
    ledger.always("RFC 2889 3", Must, "the hosts' addresses can be chosen");
    ledger.never(
        "RFC 2889 3",
        Should,
        "the bridge is set to forget addresses later than learning and a trial take",
        "it forgets as it was set up to",
    );
    // Each sends all the time from when the bridge was shown it.
    ledger.always("RFC 2889 3", Must, "the bridge learns all addresses before the trials");
    ledger.always("RFC 2889 3", Should, "addresses are not forgotten before a trial ends");
    let done = "frames come through before; which are flooded is seen in the trials";
    ledger.never("RFC 2889 3", Should, "it is verified that they were learnt", done);
    ledger.always("RFC 2889 4", Must, "frames have a signature in their UDP data");
    ledger.note(
        "RFC 2889 4",
        Should,
        "it stands behind byte 56, or at the end",
        load.sizes.iter().all(|size| *size <= 64),
        "it stands in bytes 42 to 60",
    );
}

/// What RFC 2889 5.1 asks of forwarding, given whether the tester offered all of the greatest load.
pub fn forwarding_ledger(load: &Load<'_>, kept_up: bool) -> Ledger {
    let mut ledger = Ledger::default();
    frames(&mut ledger, load);
    let section = "RFC 2889 5.1.2";
    parameters(&mut ledger, section, load);
    // The plan has one host for each port, and no bursts.
    ledger.always(section, Level::Should, "the number of addresses of a port is a power of two");
    ledger.never(
        section,
        Level::Should,
        "bursts vary between 1 and 930 frames",
        "single frames, at a steady rate",
    );
    mesh(&mut ledger, load);
    rates(&mut ledger, kept_up);
    graph(&mut ledger, "RFC 2889 5.1.5", load);
    for (section, traffic) in [
        ("RFC 2889 5.2", "one port to many and many to one"),
        ("RFC 2889 5.3", "two bridges and the link between them"),
        ("RFC 2889 5.4", "half of the ports to the other half"),
        ("RFC 2889 5.5", "congestion control: head of line blocking and back pressure"),
        ("RFC 2889 5.6", "forward pressure: frames closer than the medium allows"),
    ] {
        ledger.never(section, Level::Plain, traffic, "there is no such test");
    }
    ledger
}

/// RFC 2889 5.1.3: who sends to whom.
fn mesh(ledger: &mut Ledger, load: &Load<'_>) {
    use Level::{Must, Should};
    let section = "RFC 2889 5.1.3";
    // A schedule has a number of frames, which are all sent, or named as unsent.
    ledger.always(section, Must, "ports send so many frames (frame based), or for so long (time based)");
    ledger.note(
        section,
        Should,
        "all ports start within 1 % of a trial",
        load.here,
        "agents start when they are told, and how far apart is not measured",
    );
    // So the plan has its flows, in the order of the document's table.
    ledger.always(section, Must, "each port sends to all others in turn, beginning with its neighbour");
    ledger.always(section, Must, "for every address learning frames are sent");
}

/// RFC 2889 5.1.4: what is counted and told.
fn rates(ledger: &mut Ledger, kept_up: bool) {
    use Level::{Must, Plain, Should};
    let section = "RFC 2889 5.1.4";
    destination(ledger, section);
    // What arrives at another port than the flow's has an account of its own, and what is not the tester's, too.
    ledger.always(section, Must, "frames that were flooded are not counted as received");
    ledger.always(section, Must, "frames of the bridge's own are not counted as received");
    // Of every trial.
    ledger.always(section, Should, "frame loss is reported");
    // They are what a search does, and what is measured behind it.
    ledger.always("RFC 2889 5.1.4.1", Must, "the load is varied to find the throughput");
    let section = "RFC 2889 5.1.4.2";
    ledger.always(section, Must, "the forwarding rate at the greatest load is told, with that load");
    let done = "the tester could not offer all of it: what it did offer is told";
    ledger.note(section, Plain, "the greatest load is the medium's", kept_up, done);
    ledger.always(section, Must, "the greatest forwarding rate of several loads is told, with its load");
}

/// What RFC 2889 5.10 asks of broadcast frames.
pub fn broadcast_ledger(load: &Load<'_>) -> Ledger {
    let mut ledger = Ledger::default();
    parameters(&mut ledger, "RFC 2889 5.10.2", load);
    let section = "RFC 2889 5.10.3";
    // The first port sends, and each other port has an account of its own.
    ledger.always(section, Level::Plain, "one port sends, and all others are measured");
    ledger.never(
        section,
        Level::Plain,
        "the latency to each port is that of a single frame",
        "it is that of all frames of a stream at the throughput, to all ports together",
    );
    // The list of trials has the first; the throughput is the second, of all that was offered.
    ledger.always("RFC 2889 5.10.4", Level::Should, "frame loss is reported");
    ledger.always("RFC 2889 5.10.4", Level::Should, "the forwarding rate is reported, with its load");
    graph(&mut ledger, "RFC 2889 5.10.5", load);
    ledger
}

/// What RFC 2889 5.9 asks of errored frames, as far as ports without access to the frame check sequence can do it: these
/// errors were sent. None where the ports send nothing of the kind.
pub fn errored_ledger(sent: Option<&[&str]>) -> Ledger {
    let mut ledger = Ledger::default();
    let done = match sent {
        None => "agents send what makes up flows only: none".to_owned(),
        // Linux takes a frame with an FCS of its own (SO_NOFCS) for few drivers; a virtual cable's refuses it, and its frames have none.
        Some(kinds) => {
            format!("the tester's ports send whole frames with a right FCS only: {}", kinds.join(" and "))
        }
    };
    ledger.note(
        "RFC 2889 5.9.3",
        Level::Must,
        "each of the errors is checked: oversize, undersize, CRC, dribble bit and alignment errors",
        false,
        done,
    );
    if sent.is_some() {
        let done = "a hundred of each, as fast as they are sent";
        ledger.never("RFC 2889 5.9.2", Level::Should, "the test is run with several loads", done);
        ledger.never("RFC 2889 5.9.2", Level::Plain, "trials of 30 s", done);
        // The text has the word, and the share of frames that came through.
        ledger.always(
            "RFC 2889 5.9.5",
            Level::Must,
            "for each error it is told whether the bridge passes or fails",
        );
    }
    ledger
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Demands on both searches that no run meets.
    const NEVER: usize = 3;

    /// Holds so many addresses, and learns so many a second.
    struct Bridge {
        capacity: u64,
        rate: f64,
        tester_rate_max: f64,
    }

    impl Teacher for Bridge {
        fn teach(&mut self, addresses: u64, rate: f64) -> Result<Lesson, Invalid> {
            let learnt =
                addresses.min(self.capacity).min((addresses as f64 * (self.rate / rate).min(1.0)) as u64);
            let overran = rate > self.tester_rate_max;
            let flooded = addresses - learnt;
            Ok(Lesson { sent: addresses, received: addresses, flooded, overran, ..Lesson::default() })
        }
    }

    #[test]
    fn loads_go_down_to_the_throughput() {
        assert_eq!(loads(10.0, 7.5), [10.0, 9.0, 8.0, 7.5]);
        assert_eq!((loads(10.0, 10.0), loads(10.0, 9.99)), (vec![10.0], vec![10.0, 9.99]));
        assert_eq!(loads(10.0, 0.0).len(), 10);
        let good = Load { trial: Duration::from_secs(30), sizes: &ETHERNET_SIZES, linked: true, here: true };
        let poor = Load { trial: Duration::from_secs(15), sizes: &[64], linked: false, here: false };
        let missed = |ledger: Ledger| ledger.deviations().count();
        // What no run does: tests, addresses, and bursts; and the signature is not at the end of long frames.
        let never = 5 + 1 + 2;
        assert_eq!(missed(forwarding_ledger(&good, true)), never + 1);
        // Sizes, twice, times, the link, the load, and the clocks.
        assert_eq!(missed(forwarding_ledger(&poor, false)), never + 6);
        assert_eq!((missed(broadcast_ledger(&good)), missed(broadcast_ledger(&poor))), (1, 5));
        assert_eq!([None, Some(&["oversize"][..])].map(|sent| missed(errored_ledger(sent))), [1, 3]);
    }

    #[test]
    fn a_bridge_that_learns_nothing_or_everything() {
        let parameters = Parameters::quick(1e3, 1e6);
        let none = run(&mut Bridge { capacity: 0, rate: 1e9, tester_rate_max: 1e9 }, &parameters).unwrap();
        assert_eq!((none.capacity, none.rate, none.at_most), (0, None, false));
        let all =
            run(&mut Bridge { capacity: u64::MAX, rate: 1e9, tester_rate_max: 1e9 }, &parameters).unwrap();
        assert_eq!((all.capacity, all.rate, all.at_most), (1 << 14, Some(1e6), true));
        assert!(all.limited_by_tester && all.ledger.deviations().count() == NEVER + 5);
        let error = run(
            &mut Bridge { capacity: 1, rate: 1.0, tester_rate_max: 1.0 },
            &Parameters { first: 0, ..parameters },
        );
        assert!(error.unwrap_err().to_string().starts_with("the first number of addresses is 0"));
    }

    #[test]
    fn a_slow_tester_is_named() {
        let mut bridge = Bridge { capacity: 3000, rate: 1e9, tester_rate_max: 1e5 };
        let report = run(&mut bridge, &Parameters::rfc(1e3, 1e6)).unwrap();
        assert!(report.limited_by_tester && report.capacity == 3000);
        assert!((0.98e5..=1e5).contains(&report.rate.unwrap()), "{:?}", report.rate);
        assert_eq!(report.ledger.deviations().count(), NEVER + 5);
        // 4096 addresses at 1000 a second.
        let mut missed = |ageing| {
            let parameters =
                Parameters { ageing: Some(Duration::from_secs(ageing)), ..Parameters::rfc(1e3, 1e6) };
            run(&mut bridge, &parameters).unwrap().ledger.deviations().count()
        };
        assert_eq!([4, 5].map(&mut missed), [NEVER + 3, NEVER + 1]);
    }

    /// Learns everything that is taught evenly; the tester has no turn in the first of so many lessons.
    struct Interrupted(usize);

    impl Teacher for Interrupted {
        fn teach(&mut self, addresses: u64, _: f64) -> Result<Lesson, Invalid> {
            let late = if self.0 > 0 { addresses / 4 } else { 0 };
            self.0 = self.0.saturating_sub(1);
            Ok(Lesson { sent: addresses, received: addresses, flooded: late, late, ..Lesson::default() })
        }
    }

    #[test]
    fn what_the_tester_failed_to_teach_is_no_table_that_is_full() {
        let parameters = Parameters { first: 16, most: 64, ..Parameters::quick(1e3, 1e6) };
        let report = |lessons| run(&mut Interrupted(lessons), &parameters).unwrap();
        let bounds = |report: &Report| (report.capacity, report.at_most, report.capacity_limited_by_tester);
        let patient = report(3);
        assert_eq!(bounds(&patient), (64, true, false));
        let rates: Vec<f64> = patient.lessons[..4].iter().map(|(_, rate, _)| *rate).collect();
        assert_eq!(rates, [1000.0, 500.0, 250.0, 125.0]);
        // Nothing is known then, and not that it remembers none.
        let never = report(usize::MAX);
        assert_eq!((bounds(&never), never.rate), ((0, false, true), None));
        assert!(
            never
                .ledger
                .deviations()
                .any(|c| c.deviation.as_deref().is_some_and(|d| d.contains("more than 0")))
        );
    }

    proptest! {
        #[test]
        fn capacity_to_the_address_and_rate_to_the_resolution(capacity in 1_u64..100_000, rate in 2e3..9e5_f64) {
            let mut bridge = Bridge { capacity, rate, tester_rate_max: 1e9 };
            let report = run(&mut bridge, &Parameters::rfc(1e3, 1e6)).unwrap();
            prop_assert_eq!((report.capacity, report.at_most, report.limited_by_tester), (capacity, false, false));
            let found = report.rate.unwrap();
            // Less than an address is not missed.
            prop_assert!(found <= rate * (1.0 + 1.0 / report.taught as f64) + 1e-6, "{found} {rate}");
            prop_assert!(found >= rate * 0.985, "{found} {rate}");
            prop_assert!(report.lessons.len() < 50);
        }
    }
}
