// SPDX-License-Identifier: MIT OR Apache-2.0
//! What it costs to move a packet from one core to another through a Queue.
//!
//! Two workers of the real engine run `source -> Queue -> sink`. The source makes packets and writes their first line. The sink reads
//! it. Each side reads the time stamp counter around its own half, and only when it moved packets: waiting for room or for packets is
//! no cost, it is idleness. The same configuration on one worker, in turn with it, shows what of this is the queue and what is the
//! distance.

mod floor;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::args::Args as Arguments;
use engine::{
    Class, Cx, Element, InitCx, OpenCx, Options, Provide, Provided, Registry, Router, SharedState, Tasks,
};
use packet::port::{Device, Error, Provider, Spec};
use packet::{Batch, HEADROOM, Packet};
use sync::padded::CachePadded;

use crate::subject::lengths;

pub use floor::Floor;

/// More than any packet takes in any batch: the worker that had it was interrupted.
const INTERRUPTED_NS: f64 = 1e4;
/// Packets that one burst may have at most.
pub const MAX_BURST: usize = 256;

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

const SOURCE: Class = Class::new("HandoffSource", "0/1", || Box::new(Source::default()))
    .provide::<Source>()
    .shared_state::<Source>()
    .processing("h/h");
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
}

impl Provide for Source {
    fn provide(&self) -> Option<Provided> {
        Some(self.counts.clone())
    }
}

impl SharedState for Source {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(Source { counts: self.counts.clone() }))
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

/// A provider that has no devices.
#[derive(Clone, Copy, Debug)]
pub struct NoDevices;

impl Provider for NoDevices {
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        Err(Error::new(&spec.device, "there are no devices here", "use none"))
    }
}

/// A router over one or two cores that moves packets through a queue, with what its halves count.
pub struct Moving {
    router: Router,
    counts: Arc<Counts>,
}

impl Moving {
    /// A queue of this capacity and way of synchronisation, batches of so many packets, and the workers' cores.
    ///
    /// # Errors
    /// There is no such way of synchronisation.
    pub fn new(capacity: usize, way: &str, burst: usize, cores: Vec<usize>) -> Result<Moving, crate::Error> {
        let text = format!(
            "source :: HandoffSource -> q :: Queue({capacity}, SYNC {way}) -> HandoffSink; q[1] -> HandoffReturn"
        );
        let parsed = lang::load_str("bench handoff", &text, &elements::options());
        let graph = parsed.graph.ok_or(crate::Error::Configuration(parsed.diagnostics))?;
        let registry = Registry::new(elements::registry().iter().chain([&SOURCE, &RETURN, &SINK]));
        // What the queue refuses goes back to the source; it is full on purpose.
        let options = crate::options(Arc::new(NoDevices), (cores.len(), cores));
        let options = Options { burst, placer: None, ..options };
        let router = Router::build(&graph, &registry, options).map_err(crate::Error::Configuration)?;
        let counts = router.provided("source").ok_or(crate::Error::Lacks("the source has no counts"))?;
        Ok(Moving { router, counts })
    }

    /// Times that the queue's lock was taken, that it was not free, and nanoseconds of waiting, if there is one.
    pub fn contention(&mut self) -> Option<[f64; 3]> {
        let text = self.router.read("q.contention", "").ok()?;
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let number = |name| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1)?.parse().ok()
        };
        Some([number("acquisitions")?, number("contended")?, number("wait_ns")?])
    }

    /// Packets that the sink took in the last run.
    pub fn moved(&self) -> f64 {
        self.counts.sink.packets.load(Ordering::Relaxed) as f64
    }

    /// Nanoseconds for a packet: moving it, and its memory.
    pub fn run(&mut self, length: Duration) -> [f64; 2] {
        let [source, sink] = self.sides(length);
        [0, 1].map(|i| source[i] + sink[i])
    }

    /// The same of each side: source and sink.
    pub fn sides(&mut self, length: Duration) -> [[f64; 2]; 2] {
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
pub struct Distance {
    two: [Moving; 2],
    one: [Moving; 2],
    length: Duration,
}

/// Nanoseconds for a packet that moves, of the side that brings it and the one that takes it, in batches of each size.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    /// Between two cores.
    pub apart: [Ends; 2],
    /// On one.
    pub together: [Ends; 2],
}

/// What both sides pay for a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends {
    /// Moving it.
    pub moving: [f64; 2],
    /// Its memory: taking a frame, and freeing it.
    pub memory: [f64; 2],
}

impl Moved {
    /// Both sides' cost of moving a packet in the larger batches: between two cores, and on one.
    pub fn usual(&self) -> [f64; 2] {
        [self.apart[1], self.together[1]].map(|ends| ends.moving.iter().sum())
    }
}

impl Distance {
    /// The sizes of the batches: what is left of one that was split over some streams, and the engine's own.
    pub const BATCHES: [usize; 2] = [8, engine::DEFAULT_BURST];

    /// Between these cores, in runs of this length, with the queue that there is by default.
    ///
    /// # Errors
    /// The processor has no clock that programs can read.
    pub fn new(cores: [usize; 2], length: Duration) -> Result<Distance, crate::Error> {
        if sync::tsc() == 0 {
            return Err(crate::Error::Lacks(
                "this processor has no time stamp counter that programs can read",
            ));
        }
        let [small, large] = Distance::BATCHES;
        let moving = |cores: &[usize]| {
            let moving = |burst| Moving::new(1000, "lockfree", burst, cores.to_vec());
            Ok::<_, crate::Error>([moving(small)?, moving(large)?])
        };
        Ok(Distance { two: moving(&cores)?, one: moving(&cores[..1])?, length })
    }

    /// Runs all until each side had a turn, and none was interrupted for so long that its figure says nothing.
    pub fn run(&mut self) -> Option<Moved> {
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
