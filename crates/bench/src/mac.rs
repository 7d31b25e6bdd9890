// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench mac`: what the table of Ethernet addresses can do on this machine, without packets around it.
//!
//! For tables of 10,000, 65,536 and 1,048,576 stations: lookups of known stations in random order, and what a bridge asks for each frame, which is a
//! lookup and whether there is anything to learn. Then for the largest: reads while all of it is forgotten, again and again, compared with reads
//! while nothing is.
//!
//! A *read* is what a worker does between two quiescent states: a batch of frames, and if it falls due, a little of the table's upkeep. It is timed
//! by the clock that goes on while others have the processor. So reads are gathered by the hundred, and where the kernel took the processor away
//! meanwhile (it counts that for each thread) they are left out. What the machine's host takes is not seen, so the same is measured undisturbed.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use core_affinity::CoreId;
use fastrand::Rng;
use serde_json::json;
use sync::rcu::{Domain, Reader};
use tables::mac::fdb::{Config, Fdb, FdbKey, Places, UNKNOWN};

use super::fib::thread_seconds;
use report::measure::Measured;

use crate::{Error, Failure, Findings};

/// Stations, and how results name so many.
const SIZES: [(usize, &str); 3] = [(10_000, "10k"), (65_536, "64k"), (1 << 20, "1m")];
/// The default capacity of a bridge, in addresses.
const CAPACITY: usize = 65_536;
/// Frames that ask together.
const BATCH: usize = 32;
/// Lookups in a round.
const LOOKUPS: usize = 1 << 20;
const PORTS: usize = 4;
/// Short, so that the sweep is often at work.
const AGEING_NS: u64 = 20_000_000_000;
/// Reads that are kept or left out together.
const TOGETHER: usize = 256;
/// The percentiles of reads that are reported, by name.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("p9999", 0.9999)];

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Interleaved rounds, and flushes.
    pub runs: usize,
    /// How long reads are timed before each flush and after it, in milliseconds.
    pub run_ms: u64,
    /// Stations of the table that is flushed.
    pub flushed: usize,
}

/// Measures lookups, and reads while entries are flushed.
///
/// # Errors
/// Something did not work.
pub fn measure(args: &Settings) -> Result<Findings, Failure> {
    let mut results = lookups(args.runs.max(1))?;
    results.extend(flushes(args)?);
    let conditions = json!({
        "batch": BATCH, "run_ms": args.run_ms, "flushed": args.flushed,
        "time": "lookups: processor time of the thread; reads: elapsed time, without those in which the kernel took the processor away",
    });
    Ok(Findings { conditions, results })
}

/// A table and the stations that it knows.
struct Filled {
    fdb: Fdb,
    domain: Domain,
    stations: usize,
}

impl Filled {
    fn new(stations: usize) -> Result<Filled, Error> {
        let domain = Domain::default();
        let capacity = stations.max(CAPACITY);
        let config = Config { capacity, port_limit: 0, ports: PORTS, vlans: 0, ageing_ns: AGEING_NS };
        let fdb = Fdb::new(config, 42, &domain)?;
        let filled = Filled { fdb, domain, stations };
        let mut reader = filled.domain.register("who fills it");
        filled.learn_all(&mut reader);
        Ok(filled)
    }

    /// Stations by number: the addresses of a few makers.
    fn key(&self, station: usize) -> FdbKey {
        let maker = (station % 7) as u64;
        FdbKey::new((0x02_0000 + maker * 0x31_4500) << 24 | station as u64, self.fdb.salt(0))
    }

    fn learn_all(&self, reader: &mut Reader) {
        for station in 0..self.stations {
            self.fdb.learn(reader, self.key(station), station % PORTS, &mut 1);
            if station % BATCH == 0 {
                reader.quiescent();
            }
        }
    }

    /// Many of them, in no order. Each second one, beginning with the first, is behind port 0: sources of frames that come by it.
    fn some(&self, count: usize, seed: u64) -> Vec<FdbKey> {
        let mut rng = Rng::with_seed(seed);
        let mut station = |at| match at % 2 {
            0 => rng.usize(..self.stations / PORTS) * PORTS,
            _ => rng.usize(..self.stations),
        };
        (0..count).map(|at| self.key(station(at))).collect()
    }
}

/// Millions of lookups a second, and of frames of which the source is compared and the destination looked up.
fn lookups(runs: usize) -> Result<Vec<Measured>, Error> {
    let tables = SIZES.map(|(stations, _)| Filled::new(stations));
    let tables = tables.into_iter().collect::<Result<Vec<_>, _>>()?;
    let keys: Vec<Vec<FdbKey>> = tables.iter().map(|table| table.some(LOOKUPS, 7)).collect();
    let (mut lookups, mut frames) = (vec![Vec::new(); SIZES.len()], vec![Vec::new(); SIZES.len()]);
    for run in 0..=runs {
        for (at, (table, keys)) in tables.iter().zip(&keys).enumerate() {
            let mut reader = table.domain.register("bench");
            let rates = [timed(keys, |keys| look_up(table, &mut reader, keys)) / 1e6, {
                let mut asked = Asked::default();
                timed(keys, |keys| asked.ask(table, &mut reader, keys)) / 2e6
            }];
            // The first round warms up.
            if run > 0 {
                lookups[at].push(rates[0]);
                frames[at].push(rates[1]);
            }
        }
    }
    let named = |what: &'static str, unit, all: Vec<Vec<f64>>| {
        let results = all.into_iter().zip(SIZES);
        results.map(move |(runs, (_, size))| Measured::new(format!("mac.{what}.{size}"), unit, runs))
    };
    Ok(named("mlps", "Mlookups/s", lookups).chain(named("mfps", "Mframes/s", frames)).collect())
}

/// Keys a second.
fn timed(keys: &[FdbKey], mut go: impl FnMut(&[FdbKey])) -> f64 {
    let start = thread_seconds();
    go(keys);
    keys.len() as f64 / (thread_seconds() - start)
}

fn look_up(table: &Filled, reader: &mut Reader, keys: &[FdbKey]) {
    let mut ports = [0; BATCH];
    for batch in keys.chunks_exact(BATCH) {
        table.fdb.lookup_batch(reader, batch, &mut ports);
        std::hint::black_box(&ports);
        reader.quiescent();
    }
}

/// What a bridge keeps of a batch.
#[derive(Default)]
struct Asked {
    frames: Places,
}

impl Asked {
    /// Each two keys are the addresses of a frame.
    fn ask(&mut self, table: &Filled, reader: &mut Reader, keys: &[FdbKey]) {
        let mut ports = [0; BATCH];
        for batch in keys.chunks_exact(2 * BATCH) {
            self.answer(table, reader, batch, &mut ports);
            std::hint::black_box(&ports);
            reader.quiescent();
        }
    }

    /// A batch of frames that come by port 0. Sources are noted as seen, but no new ones are learned.
    fn answer(&mut self, table: &Filled, reader: &Reader, batch: &[FdbKey], ports: &mut [u16; BATCH]) {
        table.fdb.seek(batch.as_chunks().0, &mut self.frames);
        let frames = &self.frames;
        let mark = table.fdb.mark(reader, 0);
        let (mut at, mut strangers) = (0, false);
        loop {
            at += table.fdb.answer(reader, mark, None, (frames, at), &mut ports[at..]);
            let (Some([src, dst]), Some(mark)) = (frames.get(at), mark) else { return };
            if !std::mem::replace(&mut strangers, true) {
                table.fdb.seek_strangers(frames, at);
            }
            table.fdb.note(reader, src, mark, &mut 0);
            ports[at] = table.fdb.port(reader, table.fdb.find(dst));
            at += 1;
        }
    }
}

/// What reads are timed for.
const NOTHING: u8 = 0;
const ALONE: u8 = 1;
const FLUSHED: u8 = 2;
const OVER: u8 = 3;

/// Times reads next to flushes.
fn flushes(args: &Settings) -> Result<Vec<Measured>, Error> {
    let table = Filled::new(args.flushed.clamp(PORTS, 1 << 22))?;
    let keys = table.some(LOOKUPS, 3);
    let (phase, forgotten, ready) = (AtomicU8::new(NOTHING), AtomicU64::new(0), Barrier::new(2));
    let pause = Duration::from_millis(args.run_ms.max(1));
    let (mut calls, mut seen) = (Vec::new(), Vec::new());
    let times = thread::scope(|scope| {
        let reads = scope.spawn(|| {
            pin(1);
            ready.wait();
            Reads::new().run(&table, &keys, &phase, &forgotten)
        });
        pin(0);
        ready.wait();
        let mut reader = table.domain.register("who flushes");
        for _ in 0..args.runs.max(1) {
            table.learn_all(&mut reader);
            phase.store(ALONE, Ordering::Relaxed);
            thread::sleep(pause);
            phase.store(NOTHING, Ordering::Relaxed);
            forgotten.store(0, Ordering::Relaxed);
            phase.store(FLUSHED, Ordering::Release);
            let (start, cycles) = (Instant::now(), sync::tsc());
            table.fdb.flush_all(None);
            calls.push(start.elapsed().as_secs_f64() * 1e6);
            reader.quiescent();
            thread::sleep(pause);
            phase.store(NOTHING, Ordering::Relaxed);
            let last = forgotten.load(Ordering::Relaxed).saturating_sub(cycles);
            seen.push(last as f64 / cycles_per_us());
        }
        drop(reader);
        phase.store(OVER, Ordering::Relaxed);
        reads.join().map_err(|_| Error::Panicked("the thread that reads"))
    })?;
    let mut results = vec![
        Measured::new("mac.flush_us", "us", calls),
        Measured::new("mac.flush_last_found_us", "us", seen),
    ];
    for (name, mut times) in [("", times.of[0].clone()), (".flush", times.of[1].clone())] {
        times.sort_unstable();
        let at = |share: f64| times.get((times.len() as f64 * share) as usize).or(times.last());
        let ns = |cycles: Option<&u32>| cycles.map_or(0.0, |c| f64::from(*c) / cycles_per_us() * 1e3);
        for (percentile, share) in PERCENTILES.into_iter().chain([("worst", 1.0)]) {
            let name = format!("mac.read_ns.{percentile}{name}");
            results.push(Measured::new(name, "ns", vec![ns(at(share))]));
        }
        results.push(Measured::new(format!("mac.reads{name}"), "", vec![times.len() as f64]));
    }
    results.push(Measured::new("mac.reads_left_out", "", vec![times.left_out as f64]));
    Ok(results)
}

fn pin(nth: usize) {
    let all = core_affinity::get_core_ids().unwrap_or_default();
    if let Some(core) = all.get(nth % all.len().max(1)) {
        core_affinity::set_for_current(CoreId { id: core.id });
    }
}

/// How fast the time stamp counter goes.
fn cycles_per_us() -> f64 {
    static RATE: std::sync::OnceLock<f64> = std::sync::OnceLock::new();
    *RATE.get_or_init(|| {
        let (start, cycles) = (Instant::now(), sync::tsc());
        thread::sleep(Duration::from_millis(20));
        (sync::tsc() - cycles) as f64 / (start.elapsed().as_secs_f64() * 1e6)
    })
}

/// Times of reads, in cycles.
struct Reads {
    /// Undisturbed, and around flushes.
    of: [Vec<u32>; 2],
    left_out: usize,
}

impl Reads {
    fn new() -> Reads {
        Reads { of: [Vec::new(), Vec::new()], left_out: 0 }
    }

    /// Reads until that is over. `forgotten` becomes the moment of the last read that found one of the stations.
    fn run(mut self, table: &Filled, keys: &[FdbKey], phase: &AtomicU8, forgotten: &AtomicU64) -> Reads {
        let mut reader = table.domain.register("reads");
        let mut ports = [0; BATCH];
        let mut asked = Asked::default();
        let (began, mut lost) = (Instant::now(), preemptions());
        let mut batches = keys.chunks_exact(2 * BATCH).cycle();
        let mut together = Vec::with_capacity(TOGETHER);
        loop {
            let now = phase.load(Ordering::Acquire);
            if now == OVER {
                return self;
            }
            together.clear();
            let now_ns = began.elapsed().as_nanos() as u64;
            for batch in batches.by_ref().take(TOGETHER) {
                let start = sync::tsc();
                table.fdb.pass(now_ns);
                asked.answer(table, &reader, batch, &mut ports);
                reader.quiescent();
                let end = sync::tsc();
                together.push((end - start).min(u32::MAX.into()) as u32);
                if now == FLUSHED && ports.iter().any(|port| *port != UNKNOWN) {
                    forgotten.store(start, Ordering::Relaxed);
                }
            }
            let before = std::mem::replace(&mut lost, preemptions());
            if now == NOTHING || phase.load(Ordering::Relaxed) != now {
                continue;
            }
            match before == lost {
                true => self.of[usize::from(now - ALONE)].extend_from_slice(&together),
                false => self.left_out += together.len(),
            }
        }
    }
}

/// How often the kernel has taken the processor away from this thread.
fn preemptions() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_there_and_a_flush_ends_what_is_found() {
        let table = Filled::new(1000).expect("memory");
        let mut reader = table.domain.register("test");
        let keys = table.some(2 * BATCH, 1);
        let (mut asked, mut ports) = (Asked::default(), [UNKNOWN; BATCH]);
        let found = |table: &Filled, reader: &mut Reader| {
            let mut ports = [UNKNOWN; 2 * BATCH];
            table.fdb.lookup_batch(reader, &keys, &mut ports);
            ports.iter().filter(|port| **port != UNKNOWN).count()
        };
        assert_eq!(found(&table, &mut reader), 2 * BATCH);
        table.fdb.flush_all(None);
        assert_eq!(found(&table, &mut reader), 0);
        asked.answer(&table, &reader, &keys, &mut ports);
        drop(reader);
        let args = Settings { runs: 1, run_ms: 1, flushed: 1000 };
        let names: Vec<_> = flushes(&args).expect("a table").into_iter().map(|r| r.name).collect();
        for name in ["mac.flush_us", "mac.read_ns.p50", "mac.read_ns.worst.flush", "mac.reads_left_out"] {
            assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
        }
    }
}
