// SPDX-License-Identifier: MIT OR Apache-2.0
//! A configuration on in-memory devices with traffic, to be built for any number of workers and measured.

use std::collections::HashMap;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use engine::clock::TimeSource;
use engine::{ElementId, IndexVec, Options, Report, Router, Turn};
use lang::Graph;
use packet::port::Provider;

use crate::error::Error;
use crate::traffic::{Bench, Pattern};

/// How often a run that says nothing is repeated.
const TRIES: usize = 12;
/// How long it gets at most by being repeated.
const LONGEST: Duration = Duration::from_millis(500);

/// Lengths of a run and of its repetitions, while it says nothing: on a busy machine a worker may have no turn in a short one, so
/// each is twice as long as the one before.
pub fn lengths(first: Duration) -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(first), move |length| Some((*length * 2).min(LONGEST.max(first)))).take(TRIES)
}

/// Options of a router on these devices that is measured or shown, on so many workers and these cores: its elements print nothing.
pub fn options(provider: Arc<dyn Provider>, (workers, cores): (usize, Vec<usize>)) -> Options {
    Options {
        provider,
        workers,
        reserve: 0,
        cores,
        burst: engine::DEFAULT_BURST,
        time: TimeSource::Real,
        seed: 1,
        // Which driver serves a device is no news here.
        print: Some(Box::new(|_| {})),
        placer: Some(reconfigure::placer()),
    }
}

/// A configuration with its traffic.
pub struct Subject<'a> {
    graph: &'a Graph,
    patterns: HashMap<String, Pattern>,
    /// Queues of each device, if not one for each worker.
    queues: Option<usize>,
    run: Duration,
}

impl<'a> Subject<'a> {
    /// A configuration, whose text says what its devices receive.
    pub fn new(graph: &'a Graph, text: &str) -> Result<Subject<'a>, Error> {
        let patterns = Pattern::gather(text)?;
        Ok(Subject { graph, patterns, queues: None, run: Duration::from_millis(60) })
    }

    /// Runs of so many milliseconds instead.
    pub fn with_run_ms(self, run_ms: u64) -> Subject<'a> {
        Subject { run: Duration::from_millis(run_ms.max(1)), ..self }
    }

    /// So many queues for each device instead of one for each worker.
    pub fn with_queues(self, queues: usize) -> Subject<'a> {
        Subject { queues: Some(queues.max(1)), ..self }
    }

    /// A router on this number of workers, not started.
    pub fn build(&self, workers: usize) -> Result<Router, Error> {
        self.on_cores(workers, (0..workers).collect()).map(|prepared| prepared.router)
    }

    /// A router on this number of workers, pinned to the first cores, that has run once.
    pub fn prepare(&self, workers: usize) -> Result<Prepared, Error> {
        let mut prepared = self.on_cores(workers, (0..workers).collect())?;
        prepared.warm_up();
        Ok(prepared)
    }

    fn on_cores(&self, workers: usize, cores: Vec<usize>) -> Result<Prepared, Error> {
        let bench = Arc::new(Bench::new(self.patterns.clone(), self.queues.unwrap_or(workers)));
        let router =
            Router::build(self.graph, &elements::registry(), options(bench.clone(), (workers, cores)));
        let length = self.run;
        router.map(|router| Prepared { router, bench, length }).map_err(Error::Configuration)
    }

    /// Two copies of it, each on one worker, pinned to the first two cores, that have run once.
    pub fn prepare_pair(&self) -> Result<[Prepared; 2], Error> {
        let mut copies = [self.on_cores(1, vec![0])?, self.on_cores(1, vec![1])?];
        copies.iter_mut().for_each(Prepared::warm_up);
        Ok(copies)
    }

    /// A router on two workers, pinned to the first two cores, that go round by round in turn, and that has run once.
    pub fn prepare_in_turn(&self) -> Result<Prepared, Error> {
        let mut prepared = self.prepare(2)?;
        prepared.router.take_turns(&Turn::default(), 0, 2);
        Ok(prepared)
    }

    /// Two copies as those of [`Subject::prepare_pair`] that do so with each other.
    pub fn prepare_pair_in_turn(&self) -> Result<[Prepared; 2], Error> {
        let (mut pair, turn) = (self.prepare_pair()?, Turn::default());
        pair.iter_mut().enumerate().for_each(|(i, copy)| copy.router.take_turns(&turn, i, 2));
        Ok(pair)
    }

    /// Whether what its devices receive keeps to fixed proportions.
    pub fn in_proportion(&self) -> bool {
        self.patterns.values().any(Pattern::has_share)
    }

    /// How long a run takes.
    pub fn length(&self) -> Duration {
        self.run
    }
}

/// A router on in-memory devices.
pub struct Prepared {
    router: Router,
    bench: Arc<Bench>,
    /// How long a run takes.
    length: Duration,
}

impl Prepared {
    /// A router that has not run yet.
    pub fn new(router: Router, bench: Arc<Bench>, length: Duration) -> Prepared {
        Prepared { router, bench, length }
    }

    /// The router.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// From now on one lock around all processing of packets.
    pub fn lock_all_processing(&mut self) {
        self.router.lock_all_processing();
    }

    /// Reads a handler.
    pub fn read(&mut self, handler: &str) -> Option<String> {
        self.router.read(handler, "").ok()
    }

    /// Runs while the devices answer for all neighbours: until next to nothing of what comes out is a question. On a busy machine
    /// that may take more than one run, and nobody answers later.
    pub fn warm_up(&mut self) {
        for length in lengths(self.length) {
            let asked = self.bench.asked();
            let packets = self.run_for(length).packets;
            if packets > 100 * (self.bench.asked() - asked) {
                break;
            }
        }
        self.bench.settle();
    }

    /// Writes a handler.
    pub fn write(&mut self, handler: &str, value: &str) -> Result<(), Error> {
        Ok(self.router.write(handler, value)?)
    }

    /// Runs once, for so long.
    pub fn run_for(&mut self, length: Duration) -> Run {
        if self.bench.has_shares() {
            self.router.stay_awake();
            self.bench.holds(self.router.report().elements.iter().map(|e| e.held).sum());
        }
        let (sent, before) = (self.bench.sent(), self.router.cpu_ns());
        let (reports, tsc) = (self.router.reports(), sync::tsc());
        let started = Instant::now();
        self.router.resume();
        self.router.stop_after(length);
        self.router.run();
        let wall_ns = started.elapsed().as_nanos() as f64;
        let ns_per_cycle = wall_ns / sync::tsc().saturating_sub(tsc).max(1) as f64;
        let now = self.router.reports();
        let both = || now.iter().zip(&reports);
        let in_ns = |cycles: Vec<f64>| -> IndexVec<ElementId, f64> {
            cycles.into_iter().map(|cycles| cycles * ns_per_cycle).collect()
        };
        let task_ns: Vec<IndexVec<ElementId, f64>> =
            both().map(|(now, then)| in_ns(task_cycles(now, then))).collect();
        let mut element_ns = IndexVec::filled(0.0, now.first().map_or(0, |report| report.elements.len()));
        for own in both().map(|(now, then)| in_ns(own_cycles(now, then))) {
            element_ns.iter_mut().zip(own).for_each(|(sum, ns)| *sum += ns);
        }
        let busy_ns = task_ns.iter().map(|tasks| tasks.iter().sum()).collect();
        let used = self.router.cpu_ns().into_iter().zip(before).map(|(now, then)| (now - then) as f64);
        Run {
            packets: self.bench.sent() - sent,
            worker_ns: used.collect(),
            busy_ns,
            task_ns,
            element_ns,
            wall_ns,
        }
    }

    /// Runs until packets come out.
    pub fn run_surely(&mut self) -> Result<Run, Error> {
        self.run_until(|run| run.packets > 0)
    }

    /// Runs until packets come out and tasks were timed, which only some of their turns are.
    pub fn run_timed(&mut self) -> Result<Run, Error> {
        self.run_until(|run| run.packets > 0 && run.busiest_ns() > 0.0)
    }

    fn run_until(&mut self, tells: impl Fn(&Run) -> bool) -> Result<Run, Error> {
        lengths(self.length).map(|length| self.run_for(length)).find(tells).ok_or(Error::Silent)
    }

    /// Packets that left it, those of the warm-up too.
    pub fn sent(&self) -> u64 {
        self.bench.sent() as u64
    }

    /// What its elements did meanwhile.
    pub fn report(&self) -> Report {
        self.router.report()
    }
}

/// Cycles that each element's tasks took between two reports, as far as they did work: by the runs that were timed. Where a task
/// has gone to another worker meanwhile, its counts may have gone with it: it then counts for nothing.
fn task_cycles(now: &Report, then: &Report) -> Vec<f64> {
    let both = now.elements.iter().zip(&then.elements);
    both.map(|(now, then)| now.tasks.since(&then.tasks).all_cycles()).collect()
}

/// Cycles that each element's own passes took between two reports, judged by those that were timed.
fn own_cycles(now: &Report, then: &Report) -> Vec<f64> {
    let sent = |e: &engine::ElementReport| e.outputs.iter().map(|o| o.packets).sum::<u64>();
    let both = now.elements.iter().zip(&then.elements);
    let own = both.map(|(now, then)| {
        let timed = now.cycles.packets.saturating_sub(then.cycles.packets);
        let cycles = now.cycles.cycles.saturating_sub(then.cycles.cycles);
        cycles as f64 / timed.max(1) as f64 * sent(now).saturating_sub(sent(then)) as f64
    });
    own.collect()
}

/// Runs several routers at once, until packets come out of each and tasks of each were timed.
pub fn run_together<const N: usize>(routers: &mut [Prepared; N]) -> Result<[Run; N], Error> {
    let length = routers.first().map_or(LONGEST, |router| router.length);
    let tell = |runs: &[Run; N]| runs.iter().all(|run| run.packets > 0 && run.busiest_ns() > 0.0);
    let mut tries = lengths(length).map(|length| <[Run; N]>::try_from(all_at_once(routers, length)));
    tries.find_map(|runs| runs.ok().filter(tell)).ok_or(Error::Silent)
}

fn all_at_once(routers: &mut [Prepared], length: Duration) -> Vec<Run> {
    let start = Barrier::new(routers.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = routers
            .iter_mut()
            .map(|router| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    router.run_for(length)
                })
            })
            .collect();
        // A worker that panics has said why.
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}

/// One measured run of a router.
pub struct Run {
    /// Packets sent by its devices.
    pub packets: usize,
    /// Processor time of each worker.
    worker_ns: Vec<f64>,
    /// The part of it in which its tasks did work.
    busy_ns: Vec<f64>,
    /// The same by worker and element.
    task_ns: Vec<IndexVec<ElementId, f64>>,
    /// What each element took by itself, on all workers, judged by the passes that were timed.
    element_ns: IndexVec<ElementId, f64>,
    /// Elapsed time.
    pub wall_ns: f64,
}

impl Run {
    /// Processor time of all workers.
    fn cpu_ns(&self) -> f64 {
        self.worker_ns.iter().sum()
    }

    /// Packets that left the router.
    pub fn packets(&self) -> f64 {
        self.packets as f64
    }

    /// Processor time of the worker that used least.
    pub fn least_ns(&self) -> f64 {
        self.worker_ns.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Processor time of all workers for each packet.
    pub fn ns_per_packet(&self) -> f64 {
        self.cpu_ns() / self.packets as f64
    }

    /// What the busiest worker's tasks took for each packet that left the router, in nanoseconds: what remains if waiting for others
    /// does not count.
    pub fn busiest_ns(&self) -> f64 {
        self.busy_ns.iter().copied().fold(0.0, f64::max) / self.packets.max(1) as f64
    }

    /// The same of each worker.
    pub fn loads_ns(&self) -> Vec<f64> {
        self.busy_ns.iter().map(|ns| ns / self.packets.max(1) as f64).collect()
    }

    /// What an element's tasks on a worker took for each packet that left the router.
    pub fn task_ns(&self, worker: usize, element: ElementId) -> f64 {
        self.task_ns[worker][element] / self.packets.max(1) as f64
    }

    /// How many elements there are.
    pub fn elements(&self) -> usize {
        self.element_ns.len()
    }

    /// What an element took by itself for each packet that left the router.
    pub fn element_ns(&self, element: ElementId) -> f64 {
        self.element_ns[element] / self.packets.max(1) as f64
    }

    /// How many times as busy the busiest worker is as all are in the mean.
    pub fn imbalance(&self) -> f64 {
        let all: f64 = self.busy_ns.iter().sum();
        self.busy_ns.iter().copied().fold(0.0, f64::max) * self.busy_ns.len() as f64 / all.max(1.0)
    }

    /// Millions of packets for each second of the busiest worker's processor time: who else uses the machine does not
    /// count.
    pub fn mpps(&self) -> f64 {
        self.packets as f64 / self.worker_ns.iter().copied().fold(1.0, f64::max) * 1e3
    }
}
