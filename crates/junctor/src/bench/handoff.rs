// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench handoff`: what it costs to move a packet from one core to another through a Queue.
//!
//! Two workers of the real engine run `source -> Queue -> sink`. The source makes packets and writes their first line, the
//! sink reads it. Each side reads the time stamp counter around its own half, and only when it moved packets: waiting for room or
//! for packets is no cost, it is idleness. The same configuration on one worker, in turn with it, shows what of this is
//! the queue and what is the distance.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::args::Args as Arguments;
use engine::clock::TimeSource;
use engine::{Class, Cx, Element, InitCx, OpenCx, Options, Provided, Registry, Router, Tasks};
use packet::port::{Device, Error, Provider, Spec};
use packet::{Batch, HEADROOM, Packet};
use serde_json::json;
use sync::padded::CachePadded;

use self::floor::Floor;
use super::subject::lengths;
use crate::cli;
use crate::measure::{self, Measured};

mod floor;

/// More than any packet takes in any batch: whoever had it was interrupted.
const INTERRUPTED_NS: f64 = 1e4;
/// Packets that one burst may have at most.
const MAX_BURST: usize = 256;

/// Measure what moving a packet between two cores through a Queue costs: the busy time of both sides over packets moved.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "What is counted, for each burst and way of synchronisation (names end in .WAY.BURST):
  handoff.ns_per_packet           pushing a batch into the Queue on one core, and on the other fetching it and reading
                                  each packet's descriptor and first 16 bytes of header
  handoff.one_core_ns_per_packet  the same with both on one core
  handoff.memory_ns_per_packet    beside it: taking frames and writing 64 bytes into each on the first core, and freeing
                                  them on the other; the frames return through the shared pool
  handoff.one_core_memory_ns_per_packet
  handoff.take_ns_per_packet      of the first, what the core pays that takes the packets
  handoff.floor_ns_per_packet     the same as the first without engine, queue and packets: two bare threads pass lists of
                                  frames, and the second reads the two lines that the first wrote for each of them
  handoff.lock_contended_share    with a lock: of the times it was taken, the share that had to wait
  handoff.lock_wait_ns_per_packet how long, over packets moved
handoff.ns_per_packet alone is that of the lock-free queue at burst 32. Times spent with a queue too full or empty to
move anything are left out; each side's two readings of the clock (about 16 ns) are in.

Examples:
  junctor bench handoff
  junctor bench handoff --json --sync lockfree,spin,adaptive --burst 32"
)]
pub(crate) struct Args {
    /// Packets handled at a time.
    #[arg(long, value_name = "PACKETS", value_delimiter = ',', default_values_t = [1, 8, 32, 64])]
    burst: Vec<usize>,
    /// Ways of synchronisation, as Queue's argument SYNC.
    #[arg(long, value_name = "WAY", value_delimiter = ',', default_values_t = ["lockfree".to_owned()])]
    sync: Vec<String>,
    /// The two cores.
    #[arg(long, value_name = "CORES", default_value = "0,1")]
    cores: String,
    /// Packets that the queue holds at most.
    #[arg(long, value_name = "PACKETS", default_value_t = 1000)]
    capacity: usize,
    /// Measured runs of each, after one to warm up.
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    runs: usize,
    /// Length of a run in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 50)]
    run_ms: u64,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// What the two sides have counted; each writes its own half.
#[derive(Debug, Default)]
struct Counts {
    source: CachePadded<Half>,
    sink: CachePadded<Half>,
    /// Packets that did not fit; the source tries them again.
    returned: CachePadded<Mutex<Vec<Packet>>>,
}

#[derive(Debug, Default)]
struct Half {
    /// Packets moved, and cycles of the time stamp counter spent on it.
    packets: AtomicU64,
    cycles: AtomicU64,
    /// The same for taking or freeing frames.
    frames: AtomicU64,
    memory_cycles: AtomicU64,
}

impl Half {
    fn moved(&self, packets: usize, cycles: u64) {
        add(&self.cycles, cycles);
        add(&self.packets, packets as u64);
    }

    fn kept(&self, frames: usize, cycles: u64) {
        add(&self.memory_cycles, cycles);
        add(&self.frames, frames as u64);
    }

    /// Cycles for a packet: moving it, and its memory.
    fn per_packet(&self) -> [f64; 2] {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
        let ratio = |cycles, of| get(cycles) / get(of).max(1.0);
        [ratio(&self.cycles, &self.packets), ratio(&self.memory_cycles, &self.frames)]
    }

    fn clear(&self) {
        let all = [&self.packets, &self.cycles, &self.frames, &self.memory_cycles];
        all.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

fn since(before: u64) -> u64 {
    sync::tsc().saturating_sub(before)
}

/// Only one side writes each count.
fn add(to: &AtomicU64, more: u64) {
    to.store(to.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl Counts {
    fn returned(&self) -> MutexGuard<'_, Vec<Packet>> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const SOURCE: Class = Class::new("HandoffSource", "0/1", || Box::new(Source::default())).processing("h/h");
const RETURN: Class = Class::new("HandoffReturn", "1/0", || Box::new(Return::default())).processing("h/h");
const SINK: Class = Class::new("HandoffSink", "1/0", || Box::new(Sink::default())).processing("l/h");

fn find(cx: &mut InitCx<'_>) -> Result<Arc<Counts>, String> {
    cx.find("source").ok_or_else(|| "there is no 'source'".to_owned())
}

/// Fills the queue.
#[derive(Default)]
struct Source {
    counts: Arc<Counts>,
}

impl Element for Source {
    fn configure(&mut self, _: &mut Arguments<'_>) {}

    /// A task on each worker, so that the sink, which goes where packets come from, is on the first of them, and
    /// the last does the source's work.
    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::Many(cx.workers))
    }

    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(Source { counts: self.counts.clone() }))
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if cx.worker() + 1 == cx.tasks() {
            cx.schedule();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let half = &self.counts.source;
        let mut batch: Batch = self.counts.returned().drain(..).collect();
        if batch.is_empty() {
            let before = sync::tsc();
            let made = Packet::alloc_bulk(cx.burst(), HEADROOM, 64, |mut packet| {
                packet.data_mut().fill(0x45);
                batch.push(packet);
            });
            half.kept(made, since(before));
        }
        let offered = batch.len();
        let before = sync::tsc();
        cx.push(0, batch);
        // The queue takes them now, not when this returns.
        cx.settle();
        let after = sync::tsc();
        if offered > 0 && self.counts.returned().is_empty() {
            half.moved(offered, after.saturating_sub(before));
        }
        true
    }

    fn provide(&self) -> Option<Provided> {
        Some(self.counts.clone())
    }
}

/// Keeps what did not fit for the source.
#[derive(Default)]
struct Return {
    counts: Arc<Counts>,
}

impl Element for Return {
    fn configure(&mut self, _: &mut Arguments<'_>) {}

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.counts = find(cx)?;
        Ok(())
    }

    fn push(&mut self, _: &mut Cx<'_>, _: usize, mut batch: Batch) {
        self.counts.returned().extend(batch.drain(..));
    }

    fn finish(&mut self, _: &mut Cx<'_>) {
        self.counts.returned().clear();
    }
}

/// Empties the queue and looks at each packet.
#[derive(Default)]
struct Sink {
    counts: Arc<Counts>,
    seen: u64,
}

impl Element for Sink {
    fn configure(&mut self, _: &mut Arguments<'_>) {}

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.counts = find(cx)?;
        cx.schedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let before = sync::tsc();
        let batch = cx.pull(0, cx.burst());
        if batch.is_empty() {
            return true;
        }
        let header =
            |packet: &Packet| packet.data().first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes));
        let sum: u64 = batch.iter().map(|p| header(p) as u64 ^ p.len() as u64).fold(0, u64::wrapping_add);
        self.seen = std::hint::black_box(self.seen ^ sum);
        self.counts.sink.moved(batch.len(), since(before));
        let (before, frames) = (sync::tsc(), batch.len());
        drop(batch);
        self.counts.sink.kept(frames, since(before));
        true
    }
}

pub(super) struct NoDevices;

impl Provider for NoDevices {
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        Err(Error::new(&spec.device, "there are no devices here", "use none"))
    }
}

/// A router over these cores, with what its halves count.
struct Moving {
    router: Router,
    counts: Arc<Counts>,
}

impl Moving {
    fn new(capacity: usize, way: &str, burst: usize, cores: Vec<usize>) -> Result<Moving, String> {
        let text = format!(
            "source :: HandoffSource -> q :: Queue({capacity}, SYNC {way}) -> HandoffSink; q[1] -> HandoffReturn"
        );
        let messages =
            |all: &[lang::Diagnostic]| all.iter().map(|d| d.message.clone()).collect::<Vec<_>>().join("; ");
        let parsed = lang::load_str("bench handoff", &text, &elements::options());
        let graph = parsed.graph.ok_or_else(|| messages(&parsed.diagnostics))?;
        let registry = Registry::new(elements::registry().iter().chain([&SOURCE, &RETURN, &SINK]));
        let options = Options {
            provider: Arc::new(NoDevices),
            workers: cores.len(),
            reserve: 0,
            cores,
            burst,
            time: TimeSource::Real,
            seed: 1,
            // The queue says when it is full first, which it is on purpose: what it refuses goes back to the source.
            print: Some(Box::new(|_| ())),
        };
        let router = Router::build(&graph, &registry, options).map_err(|e| messages(&e))?;
        let counts = router.provided("source").ok_or("the source has no counts")?;
        Ok(Moving { router, counts })
    }

    /// Times that the queue's lock was taken, that it was not free, and nanoseconds of waiting, if there is one.
    fn contention(&mut self) -> Option<[f64; 3]> {
        let text = self.router.read("q.contention", "").ok()?;
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let number = |name| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1)?.parse().ok()
        };
        Some([number("acquisitions")?, number("contended")?, number("wait_ns")?])
    }

    /// Packets that the sink took in the last run.
    fn moved(&self) -> f64 {
        self.counts.sink.packets.load(Ordering::Relaxed) as f64
    }

    /// Nanoseconds for a packet: moving it, and its memory.
    fn run(&mut self, length: Duration) -> [f64; 2] {
        let [source, sink] = self.sides(length);
        [0, 1].map(|i| source[i] + sink[i])
    }

    /// The same of each side: source and sink.
    fn sides(&mut self, length: Duration) -> [[f64; 2]; 2] {
        let halves = [&self.counts.source, &self.counts.sink];
        halves.iter().for_each(|half| half.clear());
        let (started, before) = (Instant::now(), sync::tsc());
        self.router.resume();
        self.router.stop_after(length);
        self.router.run();
        let cycles = sync::tsc().saturating_sub(before) as f64;
        let ns_per_cycle = started.elapsed().as_nanos() as f64 / cycles.max(1.0);
        halves.map(|half| half.per_packet().map(|cycles| cycles * ns_per_cycle))
    }
}

/// Queues between two cores, and the same on one, at two sizes of batches: what other commands ask of this one.
pub(crate) struct Distance {
    two: [Moving; 2],
    one: [Moving; 2],
    length: Duration,
}

/// Nanoseconds for a packet that moves, of the side that brings it and the one that takes it, in batches of each size.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    /// Between two cores.
    pub(crate) apart: [Ends; 2],
    /// On one.
    pub(crate) together: [Ends; 2],
}

/// What both sides pay for a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ends {
    /// Moving it.
    pub(crate) moving: [f64; 2],
    /// Its memory: taking a frame, and freeing it.
    pub(crate) memory: [f64; 2],
}

impl Moved {
    /// Both sides' cost of moving a packet in the larger batches: between two cores, and on one.
    pub(crate) fn usual(&self) -> [f64; 2] {
        [self.apart[1], self.together[1]].map(|ends| ends.moving.iter().sum())
    }
}

impl Distance {
    /// The sizes of the batches: what is left of one that was split over some streams, and the engine's own.
    pub(crate) const BATCHES: [usize; 2] = [8, engine::DEFAULT_BURST];

    /// Between these cores, in runs of this length, with the queue that there is by default.
    ///
    /// # Errors
    /// The processor has no clock that programs can read.
    pub(crate) fn new(cores: [usize; 2], length: Duration) -> Result<Distance, String> {
        if sync::tsc() == 0 {
            return Err("this processor has no time stamp counter that programs can read".to_owned());
        }
        let [small, large] = Distance::BATCHES;
        let moving = |cores: &[usize]| {
            let moving = |burst| Moving::new(1000, "lockfree", burst, cores.to_vec());
            Ok::<_, String>([moving(small)?, moving(large)?])
        };
        Ok(Distance { two: moving(&cores)?, one: moving(&cores[..1])?, length })
    }

    /// Runs all until each side had a turn, and none was interrupted for so long that its figure says nothing.
    pub(crate) fn run(&mut self) -> Option<Moved> {
        lengths(self.length).find_map(|length| self.run_for(length))
    }

    /// Runs all once. Nothing, if a side had no turn, or next to none.
    fn run_for(&mut self, length: Duration) -> Option<Moved> {
        let run = |moving: &mut Moving| {
            let [source, sink] = moving.sides(length);
            Ends { moving: [source[0], sink[0]], memory: [source[1], sink[1]] }
        };
        let moved = Moved { apart: self.two.each_mut().map(run), together: self.one.each_mut().map(run) };
        let all = moved.apart.iter().chain(&moved.together);
        all.flat_map(|ends| ends.moving).all(|ns| ns > 0.0 && ns < INTERRUPTED_NS).then_some(moved)
    }
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    if sync::tsc() == 0 {
        return cli::fail("this processor has no time stamp counter that programs can read");
    }
    let cores = match crate::run::parse_threads(&args.cores) {
        Ok((2, cores)) => cores,
        Ok(_) => return cli::usage(format!("--cores expects two cores such as 0,1, not '{}'", args.cores)),
        Err(why) => return cli::usage(why),
    };
    if args.burst.iter().any(|burst| !(1..=MAX_BURST).contains(burst)) {
        return cli::usage(format!("--burst must lie between 1 and {MAX_BURST}"));
    }
    let mut results = Vec::new();
    for way in &args.sync {
        for burst in &args.burst {
            match measure_one(args, way, *burst, &cores) {
                Ok(measured) => results.extend(measured),
                Err(why) => return cli::usage(why),
            }
        }
    }
    let headline = "handoff.ns_per_packet.lockfree.32";
    if let Some(measured) = results.iter().find(|m| m.name == headline) {
        results.insert(0, Measured::new("handoff.ns_per_packet", "ns", measured.runs.clone()));
    }
    let conditions = json!({ "cores": cores, "capacity": args.capacity, "run_ms": args.run_ms });
    measure::print("bench handoff", &conditions, &results, args.json)
}

/// Quantities of a run, in the order in which they are told.
const NAMES: [(&str, &str); 8] = [
    ("ns_per_packet", "ns"),
    ("memory_ns_per_packet", "ns"),
    ("one_core_ns_per_packet", "ns"),
    ("one_core_memory_ns_per_packet", "ns"),
    ("take_ns_per_packet", "ns"),
    ("floor_ns_per_packet", "ns"),
    ("lock_contended_share", ""),
    ("lock_wait_ns_per_packet", "ns"),
];

fn measure_one(args: &Args, way: &str, burst: usize, cores: &[usize]) -> Result<Vec<Measured>, String> {
    let mut runs = NAMES.map(|_| Vec::new());
    let length = Duration::from_millis(args.run_ms.max(1));
    let mut two = Moving::new(args.capacity, way, burst, cores.to_vec())?;
    let mut one = Moving::new(args.capacity, way, burst, cores[..1].to_vec())?;
    let floor = Floor::new([cores[1], cores[0]], burst);
    for run in 0..=args.runs.max(1) {
        let before = two.contention();
        let [source, sink] = two.sides(length);
        let [apart, apart_memory] = [0, 1].map(|i| source[i] + sink[i]);
        let after = two.contention();
        let [together, together_memory] = one.run(length);
        let floor = floor.sides(length).iter().sum();
        if run == 0 {
            continue;
        }
        let values = [apart, apart_memory, together, together_memory, sink[0], floor];
        runs.iter_mut().zip(values).for_each(|(runs, value)| runs.push(value));
        if let (Some(before), Some(after)) = (before, after) {
            let [taken, contended, wait_ns] = [0, 1, 2].map(|i| after[i] - before[i]);
            runs[6].push(contended / taken.max(1.0));
            runs[7].push(wait_ns / two.moved().max(1.0));
        }
    }
    let measured = NAMES.iter().zip(runs).filter(|(_, runs)| !runs.is_empty());
    let name = |name| format!("handoff.{name}.{way}.{burst}");
    Ok(measured.map(|((quantity, unit), runs)| Measured::new(name(quantity), unit, runs)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_move_between_two_workers_and_on_one() {
        for way in ["lockfree", "spin", "adaptive"] {
            for cores in [vec![0], vec![0, 1]] {
                let mut moving = Moving::new(64, way, 8, cores.clone()).unwrap();
                // On a busy machine a worker may have no turn in so short a time.
                let mut runs = (0..200).map(|_| moving.run(Duration::from_millis(5)));
                assert!(runs.any(|run| run.iter().all(|ns| *ns > 0.0)), "{way} on {cores:?}");
                let contention = moving.contention();
                assert_eq!(
                    contention.is_some_and(|c| c[0] > 0.0),
                    way != "lockfree",
                    "{way}: {contention:?}"
                );
            }
        }
        assert!(Moving::new(64, "none", 8, vec![0]).is_err());
    }
}
