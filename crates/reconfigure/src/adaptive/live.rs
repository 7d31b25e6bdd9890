// SPDX-License-Identifier: MIT OR Apache-2.0
//! The balancer at work: a thread that reads the workers' counters in every period and moves tasks.
//!
//! It sleeps all the time, and when it wakes it goes before the workers, also where these run at a real-time priority and never sleep
//! ([`sync::priority`]). What it does costs each worker one message in a period, and a move the time for which workers
//! stop ([`rehome`]), tens of microseconds.

use std::fmt::Write as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use element::ports::Processing;
use element::{ElementId, HandlerError, parse_duration};
use engine::{Control, Handed, Report, Runtime, Shared, around_queue};
use sync::mutex::lock;

use super::{Balancer, Flow, Sample, TaskSample};
use crate::balance::Handoff;
use crate::binds::binds;
use crate::placement::Placement;
use crate::rehome;

/// The usual period.
const PERIOD: Duration = Duration::from_secs(1);
/// The shortest one: the task samples of less say nothing.
const LEAST_PERIOD: Duration = Duration::from_millis(10);

/// The balancer of a router, whether or not it works.
pub(crate) struct Live(Arc<Mutex<State>>);

struct State {
    balancer: Balancer,
    period: Duration,
    active: bool,
    /// Workers run that can be asked.
    running: bool,
    /// Wakes the thread, if there is one.
    thread: Option<Sender<()>>,
    /// Of the configuration that it knows.
    lineage: Option<Arc<()>>,
    /// What was measured last.
    last: Sample,
}

impl Default for Live {
    fn default() -> Self {
        let balancer = Balancer::default();
        Live(Arc::new(Mutex::new(State {
            balancer,
            period: PERIOD,
            active: false,
            running: false,
            thread: None,
            lineage: None,
            last: Sample::default(),
        })))
    }
}

impl Live {
    /// Answers `balancer.NAME`.
    pub(crate) fn read(&self, name: &str, shared: &Shared) -> Option<String> {
        let state = lock(&self.0);
        Some(match name {
            "balancer.active" => state.active.to_string(),
            "balancer.period" => format!("{:?}", state.period),
            "balancer.handoff_ns" => state.balancer.handoff().to_string(),
            "balancer.log" => state.balancer.log.to_string(),
            "balancer.placement" => placement(shared, &state.last),
            "balancer.trying" => state.balancer.is_trying().to_string(),
            _ => return None,
        })
    }

    /// The last decisions, in words.
    pub(crate) fn decisions(&self, most: usize) -> Vec<String> {
        let state = lock(&self.0);
        let mut last: Vec<String> =
            state.balancer.log.iter().rev().take(most).map(ToString::to_string).collect();
        last.reverse();
        last
    }

    /// Executes a write to `balancer.NAME`.
    pub(crate) fn write(&self, name: &str, value: &str) -> Option<Result<(), HandlerError>> {
        let mut state = lock(&self.0);
        let text = value.trim();
        let bad = |expected| Err(HandlerError::bad_value(name, value, expected));
        let done = match name {
            "balancer.active" => match element::args::parse_bool(text) {
                Some(active) => {
                    state.active = active;
                    Ok(())
                }
                None => bad("true or false"),
            },
            "balancer.period" => match parse_duration(text).filter(|p| *p >= LEAST_PERIOD) {
                Some(period) => {
                    state.period = period;
                    Ok(())
                }
                None => bad("a time of 10 ms at least"),
            },
            "balancer.handoff_ns" => match text.parse::<Handoff>() {
                Ok(handoff) => {
                    state.balancer.set_handoff(handoff);
                    Ok(())
                }
                Err(form) => bad(form),
            },
            _ => return None,
        };
        if let Some(thread) = &state.thread {
            let _ = thread.send(());
        }
        Some(done)
    }

    /// Takes note that the workers run, or have ended.
    pub(crate) fn set_running(&self, running: bool) {
        lock(&self.0).running = running;
    }

    /// Lets the thread begin, if there is something to do for it and it has not started.
    pub(crate) fn begin(&self, runtime: &Arc<Runtime>) {
        let mut state = lock(&self.0);
        if !(state.active && state.running)
            || state.thread.is_some()
            || runtime.clock().is_simulated()
            || runtime.workers() < 2
        {
            return;
        }
        let (wake, woken) = channel();
        let weak = Arc::downgrade(runtime);
        let own = Arc::downgrade(&self.0);
        let body = move || {
            if let (Err(why), Some(runtime)) = (sync::priority::before_workers(), weak.upgrade()) {
                runtime.current().print(&format!("the balancer may get no turn beside the workers: {why}"));
            }
            run(&own, &weak, &woken);
        };
        if std::thread::Builder::new().name("balancer".into()).spawn(body).is_ok() {
            state.thread = Some(wake);
        }
    }
}

/// The thread: until the router is gone, has stopped, or balancing is switched off.
fn run(own: &Weak<Mutex<State>>, runtime: &Weak<Runtime>, woken: &Receiver<()>) {
    let mut before: Option<Counters> = None;
    loop {
        let Some(period) = own.upgrade().map(|live| lock(&live).period) else { return };
        let slept = woken.recv_timeout(period);
        let (Some(live), Some(runtime)) = (own.upgrade(), runtime.upgrade()) else { return };
        let live = &*live;
        let over = !lock(live).running || matches!(slept, Err(RecvTimeoutError::Disconnected));
        if !over && !lock(live).active {
            give_up(live, &Control::new(runtime.clone()));
        }
        {
            // Who switches it on sees this thread, or none.
            let mut state = lock(live);
            if over || !state.active {
                state.thread = None;
                return;
            }
        }
        if slept.is_ok() {
            // Somebody has changed something: a period begins.
            before = None;
        }
        let control = Control::new(runtime.clone());
        let Some(now) = Counters::read(&control) else { continue };
        if let Some(before) = before.as_ref().filter(|b| Arc::ptr_eq(&b.shared, &now.shared)) {
            balance(live, &control, before, &now);
        } else {
            // Another configuration has other tasks.
            let mut state = lock(live);
            let known = state.lineage.replace(now.shared.lineage().clone());
            if known.is_none_or(|known| !Arc::ptr_eq(&known, now.shared.lineage())) {
                state.balancer.reset();
            }
        }
        // After a move the counters have other homes.
        before =
            if Arc::ptr_eq(&now.shared, &runtime.current()) { Some(now) } else { Counters::read(&control) };
    }
}

/// One period: measures, decides, moves. No lock is held while workers are asked.
fn balance(live: &Mutex<State>, control: &Control, before: &Counters, now: &Counters) {
    let (sample, elements) = now.since(before);
    let decided = {
        let mut state = lock(live);
        state.last = sample.clone();
        state.balancer.step(&sample)
    };
    if let Some(homes) = decided {
        place(live, control, now, (&sample, &elements), &homes);
    }
}

/// What was only tried goes back now that the balancer is switched off.
fn give_up(live: &Mutex<State>, control: &Control) {
    let Some(now) = Counters::read(control) else { return };
    let (sample, elements) = now.since(&now);
    let back = lock(live).balancer.give_up(&sample.homes());
    if let Some(homes) = back {
        place(live, control, &now, (&sample, &elements), &homes);
    }
}

/// Moves the tasks of a sample, which are those of these elements.
fn place(
    live: &Mutex<State>,
    control: &Control,
    now: &Counters,
    (sample, elements): (&Sample, &[ElementId]),
    homes: &[usize],
) {
    let moved = homes.iter().zip(&sample.tasks).zip(elements).filter(|((home, task), _)| **home != task.home);
    let homes = moved.map(|((home, _), element)| (*element, vec![*home])).collect();
    if let Err(why) = rehome::place(control, &now.shared, &Placement { homes, ..Placement::default() }) {
        lock(live).balancer.refused(&why.to_string());
    }
}

/// Counters of all workers at one moment.
struct Counters {
    shared: Arc<Shared>,
    at: Instant,
    tsc: u64,
    by_worker: Vec<Report>,
}

impl Counters {
    fn read(control: &Control) -> Option<Counters> {
        let (at, tsc) = (Instant::now(), sync::tsc());
        let (shared, by_worker) = control.reports()?;
        Some(Counters { shared, at, tsc, by_worker })
    }

    /// Cycles that tasks of element `e` took until now, and packets that they moved, on worker `w` or on all.
    fn of(&self, e: ElementId, w: Option<usize>) -> (f64, f64, f64) {
        let reports = || self.by_worker.iter().enumerate().filter(|(i, _)| w.is_none_or(|w| w == *i));
        let stats = reports().filter_map(|(_, r)| r.elements.get(e)).map(|r| r.tasks);
        let (runs, timed, cycles) = stats
            .fold((0, 0, 0), |(runs, timed, cycles), s| (runs + s.runs, timed + s.timed, cycles + s.cycles));
        (runs as f64, timed as f64, cycles as f64)
    }

    /// Packets that left by outputs of element `e`.
    fn sent(&self, e: ElementId, w: Option<usize>) -> f64 {
        let reports = self.by_worker.iter().enumerate().filter(|(i, _)| w.is_none_or(|w| w == *i));
        let outputs = reports.filter_map(|(_, r)| r.elements.get(e)).flat_map(|r| &r.outputs);
        outputs.map(|o| o.packets).sum::<u64>() as f64
    }

    /// Packets that a task of element `e` moved: what it sent, or fetched.
    fn moved(&self, e: ElementId, w: Option<usize>) -> f64 {
        let info = &self.shared.elements[e];
        let pulled = info.inputs().iter().filter(|p| p.processing == Processing::Pull);
        let fetched: f64 = pulled.flat_map(|p| p.peers).map(|peer| self.sent(peer.element, w)).sum();
        self.sent(e, w).max(fetched)
    }

    /// What happened since, and whose the tasks are.
    fn since(&self, before: &Counters) -> (Sample, Vec<ElementId>) {
        let shared = &self.shared;
        let seconds = self.at.duration_since(before.at).as_secs_f64().max(1e-9);
        let ticks = self.tsc.saturating_sub(before.tsc).max(1) as f64;
        let (mut tasks, mut elements) = (Vec::new(), Vec::new());
        for (e, info) in shared.elements.iter_enumerated() {
            let several = info.place.tasks.len() > 1;
            for home in &info.place.tasks {
                let w = several.then_some(*home);
                let (now, then) = (self.of(e, w), before.of(e, w));
                let (runs, timed, cycles) = (now.0 - then.0, now.1 - then.1, now.2 - then.2);
                // Few were timed in this period: what they always cost.
                let each = if timed >= 4.0 { cycles / timed } else { now.2 / now.1.max(1.0) };
                let asked = shared.wished(e).is_some() || shared.is_pinned(e);
                tasks.push(TaskSample {
                    name: info.name.to_string(),
                    home: *home,
                    fixed: several || asked || binds(shared, e).is_some(),
                    busy: runs * each / ticks,
                    packets: (self.moved(e, w) - before.moved(e, w)).max(0.0) / seconds,
                });
                elements.push(e);
            }
        }
        // Where something else interrupts workers, sampled times hold that, too; nobody is busier than always.
        let mut loads = vec![0.0; shared.workers()];
        tasks.iter().for_each(|t| loads[t.home] += t.busy);
        tasks.iter_mut().for_each(|t| t.busy /= f64::max(loads[t.home], 1.0));
        let sent = |e: ElementId| (self.sent(e, None) - before.sent(e, None)).max(0.0) / seconds;
        let handed = |i: usize, queue: ElementId| {
            let (e, w) = (elements[i], tasks[i].home);
            self.handed(e, w, queue).map_or([0.0; 3], |now| {
                let then = before.handed(e, w, queue).unwrap_or_default();
                let grown = |now: u64, then: u64| now.saturating_sub(then) as f64;
                let (given, taken) = (now.given, now.taken);
                [
                    grown(given.packets, then.given.packets),
                    grown(given.batches, then.given.batches),
                    grown(taken.packets, then.taken.packets),
                ]
            })
        };
        let flows = flows(shared, &tasks, &elements, sent, handed);
        let at = control_time(shared);
        (Sample { at, tasks, flows, workers: shared.active_workers() }, elements)
    }

    /// What the task of element `e` on worker `w` handed over by a queue, in timed runs.
    fn handed(&self, e: ElementId, w: usize, queue: ElementId) -> Option<Handed> {
        let element = self.by_worker.get(w)?.elements.get(e)?;
        element.handed.iter().find(|(q, _)| *q == queue).map(|(_, handed)| *handed)
    }
}

/// Seconds since the router was made.
fn control_time(shared: &Shared) -> f64 {
    let clock = shared.runtime().map(|runtime| runtime.clock().clone());
    clock.map_or(0.0, |mut c| {
        c.expire();
        c.now() as f64 / 1e9
    })
}

/// Which tasks hand packets to which others, by elements that are pushed into and pulled from. `handed` says how many packets a task gave
/// in how many batches, and how many it took, in its timed runs.
fn flows(
    shared: &Shared,
    tasks: &[TaskSample],
    elements: &[ElementId],
    sent: impl Fn(ElementId) -> f64,
    handed: impl Fn(usize, ElementId) -> [f64; 3],
) -> Vec<Flow> {
    let mut flows = Vec::new();
    for (queue, info) in shared.elements.iter_enumerated() {
        if !info.stores() || info.place.mode == element::Mode::PerCore {
            continue;
        }
        let all: Vec<[f64; 3]> = (0..tasks.len()).map(|i| handed(i, queue)).collect();
        let sum = |what: usize| all.iter().map(|handed| handed[what]).sum::<f64>();
        let batch = if sum(1) > 0.0 { sum(0) / sum(1) } else { shared.burst() as f64 };
        // No timed run in which it was used: who moves more packets moves more of these, as far as one can tell.
        let guessed = |behind: bool| -> Vec<f64> {
            let reached = around_queue(&shared.elements, queue, behind);
            let packets = |(task, e): (&TaskSample, &ElementId)| if reached[*e] { task.packets } else { 0.0 };
            tasks.iter().zip(elements).map(packets).collect()
        };
        let known = |what: usize| all.iter().map(|handed| handed[what]).collect();
        let given: Vec<f64> = if sum(0) > 0.0 { known(0) } else { guessed(false) };
        let taken: Vec<f64> = if sum(2) > 0.0 { known(2) } else { guessed(true) };
        let whole = (given.iter().sum::<f64>() * taken.iter().sum::<f64>()).max(1e-9);
        let packets = sent(queue);
        for (from, given) in given.iter().enumerate().filter(|(_, n)| **n > 0.0) {
            for (to, taken) in taken.iter().enumerate().filter(|(to, n)| **n > 0.0 && *to != from) {
                flows.push(Flow { from, to, packets: packets * given * taken / whole, batch });
            }
        }
    }
    flows
}

/// A line for each task: worker, load, packets, and whether it may be moved.
fn placement(shared: &Shared, last: &Sample) -> String {
    let mut text = String::new();
    for (e, info) in shared.elements.iter_enumerated() {
        for home in &info.place.tasks {
            let known = last.tasks.iter().find(|t| t.name == info.name && t.home == *home);
            let _ = write!(text, "{} {home}", info.name);
            if let Some(task) = known {
                let _ = write!(text, " {:.1}% {:.0}/s", task.busy * 100.0, task.packets);
            }
            let why = match info.place.tasks.len() {
                2.. => Some("a task for each queue".to_owned()),
                _ if shared.is_pinned(e) => Some("by hand".to_owned()),
                _ if shared.wished(e).is_some() => Some("as configured".to_owned()),
                _ => binds(shared, e),
            };
            let _ = writeln!(text, "{}", why.map_or(String::new(), |why| format!(" fixed: {why}")));
        }
    }
    text
}
