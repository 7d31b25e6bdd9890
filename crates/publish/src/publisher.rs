// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that gathers counters and describes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use engine::stats::{Samples, Stat, StatKind, WorkerState};
use engine::{Control, ElementId, Mode, Processing, Reason, Shared};
use profile::clock::monotonic_ns;
use stats::{Directory, Metric, MetricKind, Object, Series, Snapshot};

use observe::records;

use crate::sinks::{self, Sink};

/// Decisions of the balancer that are published.
const DECISIONS: usize = 20;
/// A worker reports its counters for a thousandth of its time at most: a larger configuration is published less often.
const MOST_OF_A_WORKER: u32 = 1000;
/// Elements of a configuration whose counters are published, at most. Each takes some two kilobytes, here and in the segment.
const MOST_ELEMENTS: usize = 100_000;
/// How long the end of a run waits for the publisher, which may be waiting for a worker that is stuck.
const PATIENCE: Duration = Duration::from_secs(1);

macro_rules! stats {
    ($($name:ident $kind:ident $full:literal $unit:literal $text:literal;)*) => {
        $(static $name: Stat =
            Stat { name: $full, kind: StatKind::$kind, unit: $unit, text: $text };)*
    };
}

stats! {
    CONFIGURATIONS Counter "router.configurations" "configurations" "Configurations that have run, with the present one.";
    MOVES Gauge "router.moves" "times" "Times that tasks were placed otherwise since the present configuration came.";
    WORKERS Gauge "router.workers" "workers" "Workers that take part.";
    FRAMES Gauge "memory.frames" "frames" "Frames of packet memory.";
    FRAMES_FREE Gauge "memory.frames_free" "frames" "Frames that no packet has.";
    W_ACTIVE Gauge "worker.active" "bool" "Whether the worker takes part.";
    W_STALLED Gauge "worker.stalled" "bool" "Whether it stands still; its counters are then those that it told last.";
    W_CPU Gauge "worker.cpu" "cpu" "The processor that it ran on last.";
    W_ROUNDS Counter "worker.rounds" "rounds" "Rounds that it has ended, also those in which there was nothing to do.";
    W_RAN Counter "worker.ran" "ns" "Time that its thread had a processor.";
    W_WAITED Counter "worker.waited" "ns" "Time that its thread was ready and had no processor.";
    W_BUSY Counter "worker.busy" "cycles" "Cycles that its tasks, timers and descriptors took with all that followed, judged by the runs that are timed.";
    W_RUNS Counter "worker.task_runs" "runs" "Runs of its tasks that found work.";
    W_PACKETS Counter "worker.packets" "packets" "Packets that its tasks moved; one that passes a queue is moved twice.";
    W_SAMPLED Counter "worker.sampled" "cycles" "The time stamp counter when the worker told its counters.";
    W_TOOK Gauge "worker.telling" "cycles" "Cycles that it took to tell them.";
    PACKETS Counter "element.packets" "packets" "Packets that left by an output, pushed or pulled.";
    BATCHES Counter "element.batches" "batches" "Batches that left by an output.";
    RECEIVED Counter "element.received" "packets" "Packets that left by the outputs that lead to its inputs, before it was there, too.";
    RECEIVED_BATCHES Counter "element.received_batches" "batches" "The same in batches.";
    CYCLES Counter "element.cycles" "cycles" "Cycles of the batches that came and were timed.";
    CYCLES_PACKETS Counter "element.cycles_packets" "packets" "Packets in the batches that were timed.";
    OWN_CYCLES Counter "element.own_cycles" "cycles" "Cycles that the element took otherwise, judged by what is timed: in runs for its tasks, timers and descriptors, without what followed, and while packets were fetched from it.";
    TASK_RUNS Counter "element.task_runs" "runs" "Runs of the element's task that found work.";
    TASK_CYCLES Counter "element.task_cycles" "cycles" "Cycles of all of these with all that followed, judged by the runs that are timed.";
    DROPS Counter "element.drops" "packets" "Packets that the element dropped, by reason.";
}

/// A publisher at work until this is dropped.
pub struct Published {
    /// The segment, if there is one.
    path: Option<PathBuf>,
    /// Gone when it is to end.
    over: Option<Sender<()>>,
    /// Gone when it has.
    ended: Receiver<()>,
}

impl Drop for Published {
    fn drop(&mut self) {
        self.over = None;
        let _ = self.ended.recv_timeout(PATIENCE);
        let _ = self.path.as_ref().map(std::fs::remove_file);
    }
}

/// Lets a router publish its counters so often: next to its control socket, and to the channels that its deployment gives it. What cannot be is said.
pub fn begin(
    control: Control,
    socket: Option<&Path>,
    interval: Duration,
    warn: impl Fn(String),
) -> Option<Published> {
    let path = socket.map(stats::path_of);
    let mut sinks = sinks::channels(interval);
    let file = path.as_ref().map(|path| sinks::file(path, interval));
    sinks.extend(file.and_then(|file| file.map_err(&warn).ok()));
    if sinks.is_empty() {
        return None;
    }
    let (over, until) = channel::<()>();
    let (ending, ended) = channel::<()>();
    let body = move || {
        // Without it, nothing comes while workers never rest.
        let _ = sync::priority::before_workers();
        run(&control, &mut sinks, interval, &until);
        drop((sinks, ending));
    };
    let thread = std::thread::Builder::new().name("statistics".into()).spawn(body);
    thread.map_err(|why| warn(why.to_string())).ok()?;
    Some(Published { path, over: Some(over), ended })
}

fn run(control: &Control, sinks: &mut [Sink], interval: Duration, until: &Receiver<()>) {
    let mut gathered = Gathered::default();
    let (mut told, mut period) = (false, interval);
    let first = (sync::tsc(), monotonic_ns());
    loop {
        let count = control.shared().elements.len();
        let too_many = count > MOST_ELEMENTS;
        if too_many {
            // What was gathered of another configuration takes memory, too.
            gathered = Gathered { described: gathered.described, ..Gathered::default() };
        } else if gathered.take(control).is_none() {
            return;
        } else {
            gathered.publish(control, sinks);
        }
        if too_many && !std::mem::replace(&mut told, too_many) {
            errln!(
                "junctor: warning: statistics are not published: the configuration has {count} elements, and at most {MOST_ELEMENTS} may have them"
            );
        }
        told = too_many;
        let ghz = (sync::tsc() - first.0) as f64 / (monotonic_ns() - first.1).max(1) as f64;
        let needed = interval.max(gathered.slowest(ghz) * MOST_OF_A_WORKER);
        // Not for every microsecond more or less.
        if needed > period || needed * 2 < period {
            period = needed;
            sinks.iter_mut().for_each(|sink| sink.set_interval(period));
        }
        if until.recv_timeout(period) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Which part of what an element counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    Output(usize),
    Reason(Reason),
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    metric: usize,
    object: usize,
    worker: Option<usize>,
    part: Part,
}

/// What elements reported: by element, worker if it is a worker's own, and metric.
type Told = BTreeMap<(usize, Option<usize>, usize), u64>;

/// What the workers reported, as a segment has it.
#[derive(Default)]
struct Gathered {
    samples: Samples,
    /// The placement that it is of, and where the outputs of each element begin among those of all.
    of: Option<(Arc<Shared>, Vec<usize>)>,
    configurations: u64,
    metrics: Vec<&'static Stat>,
    objects: Vec<Object>,
    keys: Vec<Key>,
    values: Vec<u64>,
    /// What elements reported last: one whose lock is taken reports nothing.
    told: Told,
    /// The keys that the newest directory has, and how many directories there were before.
    named: Vec<Key>,
    described: u64,
}

impl Gathered {
    /// Asks the workers; `None` when the router has stopped.
    fn take(&mut self, control: &Control) -> Option<()> {
        let shared = self.samples.take(control)?;
        let same = self.of.as_ref().is_some_and(|(of, _)| Arc::ptr_eq(of, &shared));
        if !same {
            self.renew(shared.clone());
        }
        self.keys.clear();
        self.values.clear();
        self.router(&shared);
        self.workers(&control.worker_states(), &shared);
        self.elements(&shared);
        self.gone(control, &shared);
        Some(())
    }

    /// Another configuration or placement has come.
    fn renew(&mut self, shared: Arc<Shared>) {
        // The same elements, differently placed, are the same configuration.
        let again = self.of.as_ref().is_some_and(|(of, _)| of.is_same_configuration(&shared));
        self.configurations += u64::from(!again);
        let object = |kind: &str, name: &str, detail: &str| Object {
            kind: kind.into(),
            name: name.into(),
            detail: detail.into(),
        };
        self.objects.clear();
        self.objects.extend(shared.elements.iter().map(|e| object("element", &e.name, e.class.name)));
        self.objects.push(object("element", engine::GONE, ""));
        self.objects.push(object("router", "router", env!("CARGO_PKG_VERSION")));
        self.objects.push(object("memory", "packets", ""));
        self.objects.extend((0..shared.workers()).map(|w| object("worker", &w.to_string(), "")));
        self.told.clear();
        self.named.clear();
        let first = |next: &mut usize, e: &engine::ElementInfo| {
            Some(std::mem::replace(next, *next + e.outputs().len()))
        };
        let bases = shared.elements.iter().scan(0, first).collect();
        self.of = Some((shared, bases));
    }

    fn put(&mut self, stat: &'static Stat, object: usize, worker: Option<usize>, part: Part, value: u64) {
        let metric = self.metric(stat);
        self.keys.push(Key { metric, object, worker, part });
        self.values.push(value);
    }

    fn metric(&mut self, stat: &'static Stat) -> usize {
        let known = self.metrics.iter().position(|m| std::ptr::eq(*m, stat));
        known.unwrap_or_else(|| {
            self.metrics.push(stat);
            self.metrics.len() - 1
        })
    }

    fn router(&mut self, shared: &Shared) {
        let router = shared.elements.len() + 1;
        let usage = packet::memory().usage();
        let all = [
            (&CONFIGURATIONS, router, self.configurations),
            (&MOVES, router, u64::from(shared.moves())),
            (&WORKERS, router, shared.active_workers() as u64),
            (&FRAMES, router + 1, usage.total as u64),
            (&FRAMES_FREE, router + 1, usage.free as u64),
        ];
        all.into_iter().for_each(|(stat, object, value)| self.put(stat, object, None, Part::Whole, value));
    }

    fn workers(&mut self, states: &[WorkerState], shared: &Shared) {
        for (w, state) in states.iter().enumerate() {
            let object = shared.elements.len() + 3 + w;
            let sample = &self.samples.workers[w];
            let busy: f64 = sample.tasks.iter().chain(&sample.calls).map(engine::TaskStats::all_cycles).sum();
            let runs = sample.tasks.iter().map(|t| t.runs).sum();
            let (sampled, took) = (sample.cycles_at, sample.took_cycles);
            let packets = self.moved(shared, w);
            let all = [
                (&W_ACTIVE, u64::from(w < shared.active_workers())),
                (&W_STALLED, u64::from(state.stalled)),
                (&W_CPU, state.thread.and_then(processor).unwrap_or(u64::MAX)),
                (&W_ROUNDS, state.rounds),
                (&W_RAN, state.ran_ns),
                (&W_WAITED, state.waited_ns),
                (&W_BUSY, busy as u64),
                (&W_RUNS, runs),
                (&W_PACKETS, packets),
                (&W_SAMPLED, sampled),
                (&W_TOOK, took),
            ];
            all.into_iter().for_each(|(stat, value)| self.put(stat, object, Some(w), Part::Whole, value));
        }
    }

    /// Packets and batches that left by an output on a worker.
    fn sent(&self, w: usize, e: ElementId, output: usize) -> (u64, u64) {
        let base = self.of.as_ref().map_or(0, |(_, bases)| bases[e.index()]);
        let stats = self.samples.workers[w].outputs.get(base + output);
        stats.map_or((0, 0), |stats| (stats.packets, stats.batches))
    }

    /// Packets and batches that came in on a worker.
    fn received(&self, shared: &Shared, w: usize, e: ElementId, only: Option<Processing>) -> (u64, u64) {
        let inputs =
            shared.elements[e].inputs().iter().filter(|p| only.is_none_or(|only| p.processing == only));
        let peers = inputs.flat_map(|p| p.peers);
        let all = peers.map(|peer| self.sent(w, peer.element, peer.port));
        all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Packets that a worker's tasks moved: what they sent, or fetched.
    fn moved(&self, shared: &Shared, w: usize) -> u64 {
        let of = |(e, info): (ElementId, &engine::ElementInfo)| {
            let sent = (0..info.outputs().len()).map(|output| self.sent(w, e, output).0).sum::<u64>();
            sent.max(self.received(shared, w, e, Some(Processing::Pull)).0)
        };
        let ran = |(e, info): &(ElementId, &engine::ElementInfo)| {
            info.place.tasks.contains(&w) || self.has_run(w, *e)
        };
        shared.elements.iter_enumerated().filter(ran).map(of).sum()
    }

    /// Whether a worker has done anything with an element.
    fn has_counted(&self, shared: &Shared, w: usize, e: ElementId) -> bool {
        let sample = &self.samples.workers[w];
        let has_run = self.has_run(w, e)
            || sample.cost.get(e).is_some_and(|cost| cost.cycles > 0)
            || sample.calls.get(e).is_some_and(|calls| calls.runs > 0);
        has_run
            || (0..shared.elements[e].outputs().len()).any(|output| self.sent(w, e, output).0 > 0)
            || self.received(shared, w, e, None).0 > 0
    }

    /// Whether a worker has run an element's task.
    fn has_run(&self, w: usize, e: ElementId) -> bool {
        self.samples.workers[w].tasks.get(e).is_some_and(|task| task.runs > 0)
    }

    fn elements(&mut self, shared: &Shared) {
        let told = self.told(shared);
        self.told.extend(told);
        for (e, info) in shared.elements.iter_enumerated() {
            for w in 0..self.samples.workers.len() {
                // What ran elsewhere before has counted there, and sums are never to fall.
                if info.place.workers.contains(&w) || self.has_counted(shared, w, e) {
                    self.element(shared, e, w);
                }
            }
        }
        for (&(element, worker, metric), value) in &self.told {
            self.keys.push(Key { metric, object: element, worker, part: Part::Whole });
            self.values.push(*value);
        }
        for w in 0..self.samples.workers.len() {
            for i in 0..self.samples.workers[w].drops.len() {
                let (element, reason, n) = self.samples.workers[w].drops[i];
                self.put(&DROPS, element.index(), Some(w), Part::Reason(reason), n);
            }
        }
    }

    /// What elements report now. Of what instances share, each reports the same.
    fn told(&mut self, shared: &Shared) -> Told {
        let mut told = Told::new();
        for w in 0..self.samples.workers.len() {
            for i in 0..self.samples.workers[w].stats.len() {
                let (element, stat, value) = self.samples.workers[w].stats[i];
                let common = shared.elements[element].place.mode == Mode::Shared;
                let own = !common || std::ptr::eq(stat, &engine::stats::HELD);
                let key = (element.index(), own.then_some(w), self.metric(stat));
                let known = told.entry(key).or_insert(value);
                *known = value.max(*known);
            }
        }
        told
    }

    /// Cycles that an element took on a worker otherwise than for batches that came.
    fn own_cycles(&self, shared: &Shared, e: ElementId, w: usize) -> u64 {
        let sample = &self.samples.workers[w];
        let runs: f64 =
            [&sample.tasks, &sample.calls].iter().filter_map(|s| s.get(e)).map(|s| s.all_own()).sum();
        let outputs = shared.elements[e].outputs().iter().enumerate();
        let pulled = outputs.filter(|(_, port)| port.processing == Processing::Pull);
        let fetched = pulled.map(|(output, _)| self.sent(w, e, output).0).sum();
        (runs + sample.pulls.get(e).map_or(0.0, |pulls| pulls.of(fetched))) as u64
    }

    /// What one worker counts of an element.
    fn element(&mut self, shared: &Shared, e: ElementId, w: usize) {
        let own_cycles = self.own_cycles(shared, e, w);
        let sample = &self.samples.workers[w];
        let cost = sample.cost.get(e).copied().unwrap_or_default();
        let task = sample.tasks.get(e).copied().unwrap_or_default();
        for output in 0..shared.elements[e].outputs().len() {
            let (packets, batches) = self.sent(w, e, output);
            self.put(&PACKETS, e.index(), Some(w), Part::Output(output), packets);
            self.put(&BATCHES, e.index(), Some(w), Part::Output(output), batches);
        }
        let has_task = shared.elements[e].place.tasks.contains(&w) || task.runs > 0;
        let mut put = |stat, value| self.put(stat, e.index(), Some(w), Part::Whole, value);
        put(&CYCLES, cost.cycles);
        put(&CYCLES_PACKETS, cost.packets);
        put(&OWN_CYCLES, own_cycles);
        if has_task {
            put(&TASK_RUNS, task.runs);
            put(&TASK_CYCLES, task.all_cycles() as u64);
        }
        if !shared.elements[e].inputs().is_empty() {
            let (packets, batches) = self.received(shared, w, e, None);
            self.put(&RECEIVED, e.index(), Some(w), Part::Whole, packets);
            self.put(&RECEIVED_BATCHES, e.index(), Some(w), Part::Whole, batches);
        }
    }

    /// What elements dropped that are no longer there.
    fn gone(&mut self, control: &Control, shared: &Shared) {
        for (reason, n) in control.gone() {
            self.put(&DROPS, shared.elements.len(), None, Part::Reason(reason), n);
        }
    }

    /// The most time that a worker took to tell.
    fn slowest(&self, ghz: f64) -> Duration {
        let cycles = self.samples.workers.iter().map(|s| s.took_cycles).max().unwrap_or(0);
        // Of a worker that lost its processor meanwhile this says nothing.
        Duration::from_nanos((cycles as f64 / ghz.max(0.1)) as u64).min(Duration::from_millis(10))
    }

    fn publish(&mut self, control: &Control, sinks: &mut [Sink]) {
        if self.named != self.keys {
            self.named.clone_from(&self.keys);
            self.described += 1;
        }
        if sinks.iter().any(|sink| !sink.has(self.described)) {
            let directory = self.directory();
            let lacking = sinks.iter_mut().filter(|sink| !sink.has(self.described));
            lacking.for_each(|sink| sink.describe(self.described, &directory));
        }
        let mut snapshot = Snapshot {
            directory: 0,
            wall_ns: records::now_ns(),
            monotonic_ns: monotonic_ns(),
            cycles: sync::tsc(),
            values: std::mem::take(&mut self.values),
            notes: control.decisions(DECISIONS),
        };
        sinks.iter_mut().for_each(|sink| sink.publish(self.described, &mut snapshot));
        self.values = snapshot.values;
    }

    fn directory(&self) -> Directory {
        let metric = |stat: &&'static Stat| {
            let part = match stat.name {
                "element.packets" | "element.batches" => "output",
                "element.drops" => "reason",
                _ => "",
            };
            let kind = match stat.kind {
                StatKind::Counter => MetricKind::Counter,
                StatKind::Gauge => MetricKind::Gauge,
            };
            let [name, unit, text, part] = [stat.name, stat.unit, stat.text, part].map(str::to_owned);
            Metric { name, kind, unit, text, part }
        };
        let series = |key: &Key| Series {
            metric: key.metric as u32,
            object: key.object as u32,
            worker: key.worker.map(|w| w as u32),
            part: match key.part {
                Part::Whole => String::new(),
                Part::Output(n) => n.to_string(),
                Part::Reason(reason) => reason.name().to_owned(),
            },
        };
        Directory {
            metrics: self.metrics.iter().map(metric).collect(),
            objects: self.objects.clone(),
            series: self.keys.iter().map(series).collect(),
        }
    }
}

/// The processor on which a thread ran last.
fn processor(thread: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    // Field 39, counted from behind the name, which may hold anything.
    stat.rsplit(')').next()?.split_ascii_whitespace().nth(36)?.parse().ok()
}
