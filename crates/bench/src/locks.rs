// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench locks`: what it costs to look at a table that others may change, by ways of excluding each other.
//!
//! Ozaki and Nakahara (*Modernizing NetBSD Networking Facilities and Interrupt Handling*) take a bridge from one big lock to passive serialization
//! and name what lies between. Here a core does packet after packet: a section that reads one entry of a small table, and some other work that needs
//! no table. It does so alone, and while another core does the same. Changes to the table are made by the same cores between batches, at a given rate
//! in all, as a bridge's workers learn addresses.
//!
//! Time is elapsed time without that in which the core's thread was ready to run and another program had the core (Linux's
//! schedstat): waiting counts, spinning or asleep, other programs do not. Making the changes is timed apart.

mod ways;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use core_affinity::CoreId;
use serde_json::json;

use report::measure::Measured;

use crate::{Error, Failure, Findings};
use ways::{Adaptive, Alone, Big, Rcu, ReadersWriter, Spin, Way};

/// Sections between two looks at the clock, as many as the engine has packets in a batch.
const BATCH: u64 = engine::DEFAULT_BURST as u64;

/// A change that takes longer than this was interrupted, perhaps.
const SLOW_NS: u64 = 20_000;

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Ways to measure, of [`WAYS`].
    pub way: Vec<String>,
    /// Changes a second, of all cores together.
    pub writes: Vec<u64>,
    /// Steps of work outside the section, of about five cycles each.
    pub work: u32,
    /// The two cores; the first two that there are without it.
    pub cores: Option<[usize; 2]>,
    /// Rounds, in each of which everything is measured once.
    pub runs: usize,
    /// Length of a run in milliseconds.
    pub run_ms: u64,
}

/// The ways by their names.
pub const WAYS: [&str; 5] = ["big", "spin", "adaptive", "rwlock", "rcu"];

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Question {
    /// Ways, of [`WAYS`].
    pub ways: Vec<String>,
    /// Changes a second.
    pub rates: Vec<u64>,
    /// Steps of work for each packet.
    pub work: u32,
    /// One core or two.
    pub cores: Vec<usize>,
    /// Length of a run.
    pub length: Duration,
}

/// What rounds have shown so far.
pub struct Locks {
    question: Question,
    cycles_per_s: f64,
    results: Vec<Measured>,
}

impl Locks {
    /// Nothing measured yet.
    ///
    /// # Errors
    /// A way is unknown, or the processor has no clock that programs can read.
    pub fn new(question: Question) -> Result<Locks, Error> {
        if let Some(way) = question.ways.iter().find(|way| !WAYS.contains(&way.as_str())) {
            return Err(Error::Setting(format!("there is no way '{way}'; there are {}", WAYS.join(", "))));
        }
        let cycles_per_s = cycles_per_s().ok_or(Error::NO_TSC)?;
        Ok(Locks { question, cycles_per_s, results: Vec::new() })
    }

    /// Measures everything once, in turn.
    pub fn round(&mut self) {
        self.one(&Alone, "none", &[]);
        let rates = self.question.rates.clone();
        for way in self.question.ways.clone() {
            match way.as_str() {
                "big" => self.one(&Big::new(), &way, &rates),
                "spin" => self.one(&Spin::new(), &way, &rates),
                "adaptive" => self.one(&Adaptive::new(), &way, &rates),
                "rwlock" => self.one(&ReadersWriter::new(), &way, &rates),
                _ => self.one(&Rcu::new(), &way, &rates),
            }
        }
    }

    /// One way at each rate of changes; without any, if there are none.
    fn one(&mut self, way: &impl Way, name: &str, rates: &[u64]) {
        let bare = self.run(way, 0, 1, 0);
        self.note(format!("locks.bare_ns.{name}"), "ns", bare.ns_per_packet());
        if rates.is_empty() {
            self.at_rate(way, name, 0);
        }
        for rate in rates {
            self.at_rate(way, &format!("{name}.{rate}"), *rate);
        }
    }

    /// One way at one rate of changes, on one core and on all.
    fn at_rate(&mut self, way: &impl Way, suffix: &str, rate: u64) {
        let (cores, steps) = (self.question.cores.len(), self.question.work);
        let alone = self.run(way, rate, 1, steps);
        self.note(format!("locks.alone_ns.{suffix}"), "ns", alone.ns_per_packet());
        if cores < 2 {
            return;
        }
        let together = self.run(way, rate, cores, steps);
        self.note(format!("locks.contended_ns.{suffix}"), "ns", together.ns_per_packet());
        if rate > 0 {
            // None if the first was not due before the end.
            if together.writes > 0 {
                let ns = together.write_ns / together.writes as f64;
                self.note(format!("locks.write_ns.{suffix}"), "ns", ns);
            }
            let made = together.writes as f64 / self.question.length.as_secs_f64();
            self.note(format!("locks.writes_per_s.{suffix}"), "writes/s", made);
        }
    }

    fn note(&mut self, name: String, unit: &'static str, value: f64) {
        match self.results.iter_mut().find(|m| m.name == name) {
            Some(known) => known.runs.push(value),
            None => self.results.push(Measured::new(name, unit, vec![value])),
        }
    }

    /// Runs packets on so many cores at once, with so many steps of work.
    fn run(&self, way: &impl Way, rate: u64, cores: usize, steps: u32) -> Told {
        let question = &self.question;
        let (start, done) = (Barrier::new(cores + 1), AtomicBool::new(false));
        let pace = (rate > 0).then(|| (self.cycles_per_s * cores as f64 / rate as f64).max(1.0) as u64);
        let told = thread::scope(|scope| {
            let readers = question.cores.iter().take(cores).enumerate().map(|(at, core)| {
                let (start, done, id) = (&start, &done, *core);
                scope.spawn(move || {
                    core_affinity::set_for_current(CoreId { id });
                    let mut own = way.join();
                    start.wait();
                    packets(way, &mut own, steps, at as u64, pace, done)
                })
            });
            let readers: Vec<_> = readers.collect();
            start.wait();
            thread::sleep(question.length);
            done.store(true, Ordering::Relaxed);
            // A reader that panics has said why.
            readers.into_iter().filter_map(|one| one.join().ok()).collect::<Vec<Told>>()
        });
        told.into_iter().fold(Told::default(), Told::and)
    }

    /// All that was measured, by its name.
    pub fn results(self) -> Vec<Measured> {
        self.results
    }
}

/// What cores did.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    packets: u64,
    /// Time of all cores together, changes left out.
    ns: f64,
    writes: u64,
    write_ns: f64,
}

impl Told {
    fn and(self, other: Told) -> Told {
        Told {
            packets: self.packets + other.packets,
            ns: self.ns + other.ns,
            writes: self.writes + other.writes,
            write_ns: self.write_ns + other.write_ns,
        }
    }

    fn ns_per_packet(&self) -> f64 {
        self.ns / self.packets.max(1) as f64
    }
}

/// Packets in batches until it is done, one at least; between two of them a change, whenever as many cycles as `pace` are over.
fn packets<W: Way>(
    way: &W,
    own: &mut W::Own,
    steps: u32,
    at: u64,
    pace: Option<u64>,
    done: &AtomicBool,
) -> Told {
    let mut told = Told::default();
    let mut seed = at;
    let (start, waited) = (Instant::now(), waited_ns());
    let mut asked = waited;
    let mut due = pace.map(|pace| sync::tsc() + pace);
    loop {
        for _ in 0..BATCH {
            seed = way.packet(own, seed, steps);
        }
        told.packets += BATCH;
        way.between(own);
        if let (Some(at), Some(pace)) = (&mut due, pace)
            && sync::tsc() >= *at
        {
            *at += pace;
            let begun = Instant::now();
            told.writes += u64::from(way.write(own, seed));
            let mut ns = begun.elapsed().as_nanos() as u64;
            // Asking what of it was other programs' takes longer than most changes do.
            if ns > SLOW_NS {
                let now = waited_ns();
                ns -= ns.min(now.saturating_sub(asked));
                asked = now;
            }
            told.write_ns += ns as f64;
        }
        if done.load(Ordering::Relaxed) {
            break;
        }
    }
    let elapsed = start.elapsed().as_nanos() as f64;
    let others = waited_ns().saturating_sub(waited) as f64;
    std::hint::black_box(seed);
    told.ns = (elapsed - others - told.write_ns).max(0.0);
    told
}

/// How long this thread has been ready to run while its core ran something else; 0 where the kernel does not say.
fn waited_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_ascii_whitespace().nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Cycles of the time stamp counter in a second, if there is one.
fn cycles_per_s() -> Option<f64> {
    Some(1e9 * profile::clock::ghz()).filter(|cycles| *cycles > 0.0)
}

/// The first two cores that this process may use, or the one that there is.
pub fn usual_cores() -> Vec<usize> {
    super::fib::cores()
}

/// Measures what it costs to read a table that others change.
///
/// # Errors
/// A way is unknown, or the processor has no clock that programs can read.
pub fn measure(args: &Settings) -> Result<Findings, Failure> {
    let cores = args.cores.map_or_else(usual_cores, Vec::from);
    if cores.len() < 2 {
        errln!("junctor: there is one core; what two do at once is not measured");
    }
    let question = Question {
        ways: args.way.clone(),
        rates: args.writes.clone(),
        work: args.work,
        cores,
        length: Duration::from_millis(args.run_ms.max(1)),
    };
    let conditions = json!({
        "cores": question.cores, "writes_per_s": question.rates, "work_steps": question.work, "batch": BATCH,
        "run_ms": args.run_ms, "time": "elapsed, without other programs' time on the core",
    });
    let mut locks = Locks::new(question).map_err(Failure::Usage)?;
    for _ in 0..args.runs.max(1) {
        locks.round();
    }
    Ok(Findings { conditions, results: locks.results() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and units, in order, for these ways and rates on so many cores.
    fn names(ways: &[&str], rates: &[u64], cores: &[usize]) -> Vec<(String, &'static str)> {
        let question = Question {
            ways: ways.iter().map(|way| (*way).to_owned()).collect(),
            rates: rates.to_vec(),
            work: 1,
            cores: cores.to_vec(),
            length: Duration::from_millis(1),
        };
        let mut locks = Locks::new(question).expect("a way and a clock");
        locks.round();
        locks.round();
        let results = locks.results();
        assert!(results.iter().all(|m| m.runs.len() <= 2 && m.runs.iter().all(|v| v.is_finite())));
        results.into_iter().map(|m| (m.name, m.unit)).filter(|(name, _)| !name.contains("write_ns")).collect()
    }

    #[test]
    fn every_way_has_its_figures() {
        let expected = |ways: &[&str]| {
            let none = ["bare_ns", "alone_ns", "contended_ns"];
            let mut all = none.map(|what| (format!("locks.{what}.none"), "ns")).to_vec();
            for way in ways {
                all.push((format!("locks.bare_ns.{way}"), "ns"));
                all.extend(["alone_ns", "contended_ns"].map(|what| (format!("locks.{what}.{way}.0"), "ns")));
                all.extend(
                    ["alone_ns", "contended_ns"].map(|what| (format!("locks.{what}.{way}.5000"), "ns")),
                );
                all.push((format!("locks.writes_per_s.{way}.5000"), "writes/s"));
            }
            all
        };
        // Two readers on one core: a machine need not have two.
        assert_eq!(names(&WAYS, &[0, 5000], &[0, 0]), expected(&WAYS));
        let alone = names(&["rcu"], &[7], &[0]);
        let want = ["bare_ns.none", "alone_ns.none", "bare_ns.rcu", "alone_ns.rcu.7"];
        assert_eq!(alone, want.map(|name| (format!("locks.{name}"), "ns")));
    }

    #[test]
    fn an_unknown_way_is_refused() {
        let question = Question {
            ways: vec!["hope".into()],
            rates: vec![0],
            work: 0,
            cores: vec![0],
            length: Duration::ZERO,
        };
        assert!(Locks::new(question).err().is_some_and(|why| {
            let why = why.to_string();
            why.contains("'hope'") && why.contains("rcu")
        }));
    }
}
