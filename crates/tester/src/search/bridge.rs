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

use super::{Error, Ledger, Level, require};
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
pub(super) fn destination(ledger: &mut Ledger, section: &'static str) {
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
