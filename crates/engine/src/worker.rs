// SPDX-License-Identifier: MIT OR Apache-2.0
//! A worker: one thread, pinned to one core, that runs tasks, timers and messages and carries batches from element
//! to element.
//!
//! [`Worker::round`] is the heart: messages, timers, each task once, and after each of them [`Worker::drain`], which
//! takes batches from a stack until none is left. The stack holds what elements have sent: first sent, first taken,
//! and all that follows from it before the next; with batches of one packet that is Click's depth-first order.
//!
//! A worker owns its element instances outright, so no lock or atomic stands between a batch and its element. An
//! instance is taken out of its slot while it runs; who reaches an element that is already running (a pull loop)
//! finds the slot empty, which is counted, not a crash.

use std::num::NonZeroUsize;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::Events;
use packet::Batch;
use sync::events::Kind;
use sync::lock::AdaptiveLock;
use sync::zeros::zeros;

use crate::clock::{Clock, Nanos};
use crate::cost::{CycleStats, Meter, Span, TaskStats};
use crate::fuse::Fused;
use crate::ports::{Edge, PortStats, PortTable};
use crate::pulse::{Doing, Pulse, Spot};
use crate::sample::Sampler;
use crate::schedule::{Common, Tasks, Timer, Timers};
use crate::shared::Shared;
use crate::watch::{LONGEST_SLEEP, Poll, Watch};
use element::account::Deeds;
use element::drops::{DropCounts, Reason};
use element::timers::Due;
use element::{Cx, Element, ElementId, IndexVec, Mode, PortIndex, Provided, Target};

mod alternate;
mod calls;
mod carrying;
mod dropping;
mod fairness;
mod handlers;
mod handover;
mod holding_back;
mod hosting;
mod messages;
mod parking;
mod passes;
mod rehearsing;
mod reporting;
mod telling;
mod timing;
mod traffic;
mod turns;
mod watching;
mod witnessing;

pub(crate) use alternate::Place as TurnPlace;
pub use alternate::Turn;
pub(crate) use calls::Begun;
use fairness::Fairness;
pub use parking::LOOK_EVERY;
pub(crate) use parking::{Halt, Order};
use telling::Telling;
use traffic::Traffic;
pub use traffic::around_queue;
pub(crate) use turns::Turns;
use witnessing::Witnessing;

/// Rounds without work after which a worker sleeps until a descriptor, a timer or a message wakes it.
const IDLE_ROUNDS: u32 = 2000;
/// Rounds between looks at watched descriptors while there is work.
pub(crate) const POLL_ROUNDS: u32 = 256;
/// One in about so many dispatches is timed.
const SAMPLE: u32 = 128;

/// One in about so many runs of a task is timed, with all that follows from it.
const TASK_SAMPLE: u32 = 32;

/// The same of runs for timers and descriptors, which are rarer.
const CALL_SAMPLE: u32 = 8;

/// An instance in its place, absent while it runs.
pub(crate) type Slot = Option<Box<dyn Element>>;

/// A batch on its way to an input.
struct Job {
    element: ElementId,
    port: PortIndex,
    /// The output that it has left by.
    out: PortIndex,
    /// Whoever wants to see it has seen it where it is.
    shown: bool,
    batch: Batch,
}

impl Job {
    #[inline]
    fn to(edge: Edge, out: PortIndex, batch: Batch) -> Job {
        Job { element: edge.element, port: edge.port, out, shown: false, batch }
    }
}

/// A batch on the stack that packets are added to one by one.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// The element that sends them, and its output.
    element: ElementId,
    out: PortIndex,
    /// The output among all.
    at: usize,
    /// Where it lies on the stack, and how high that was.
    job: usize,
    depth: NonZeroUsize,
}

/// One worker with all it owns, on lines of its own: the workers of a router stand side by side.
#[repr(align(128))]
pub struct Worker {
    pub(crate) index: usize,
    /// What others see of it.
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) burst: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) slots: IndexVec<ElementId, Slot>,
    pub(crate) outputs: PortTable,
    pub(crate) inputs: PortTable,
    stack: Vec<Job>,
    /// What left a fused chain before its end, kept for its memory.
    aside: Vec<Job>,
    /// Where the part of the stack begins that the running element has sent.
    floor: usize,
    /// The batch that a packet was added to last.
    open: Option<Open>,
    /// Packets that an element sends one by one join.
    joins: bool,
    /// Dropped packets, until nothing is left of what the task has sent that led to them.
    dead: Batch,
    pub(crate) sent: Vec<PortStats>,
    pub(crate) fetched: Vec<PortStats>,
    /// What batches that came cost, by element.
    pub(crate) cycles: IndexVec<ElementId, CycleStats>,
    /// What fetching packets costs, by the element that they are fetched from.
    pub(crate) pulls: IndexVec<ElementId, CycleStats>,
    /// The pass over the chain that begins at an element, absent while it runs.
    fused: IndexVec<ElementId, Option<Box<Fused>>>,
    sampled: Sampler,
    pub(crate) task_stats: IndexVec<ElementId, TaskStats>,
    sampled_tasks: Sampler,
    /// What timers and descriptors cost, by element.
    pub(crate) call_stats: IndexVec<ElementId, TaskStats>,
    sampled_calls: Sampler,
    meter: Meter,
    pub(crate) fairness: Fairness,
    pub(crate) traffic: Traffic,
    telling: Telling,
    /// Those who want to see packets, if there are any.
    witnessing: Option<Box<Witnessing>>,
    /// The element that ran last by itself, and not because a batch had come.
    acting: Option<ElementId>,
    /// What elements do at the moment is to have no effect.
    pub(crate) only_tries: bool,
    pub(crate) drops: IndexVec<ElementId, DropCounts>,
    /// What elements make and end, as they say.
    pub(crate) deeds: IndexVec<ElementId, Deeds>,
    pub(crate) rcu: sync::rcu::Reader,
    pub(crate) clock: Clock,
    pub(crate) tasks: Tasks,
    pub(crate) timers: Timers,
    pub(crate) random: fastrand::Rng,
    pub(crate) poll: Option<Poll>,
    pub(crate) watched: Vec<Watch>,
    idle: u32,
    rounds: u32,
    /// Processor time this worker has used in [`Worker::run`], in nanoseconds.
    pub(crate) cpu_ns: u64,
    /// It runs, or will: it is neither built beside another that runs, nor has it been replaced.
    pub(crate) on_duty: bool,
    /// Descriptors to watch once on duty.
    pub(crate) wishes: Vec<Watch>,
    /// Somebody wants to exchange the configuration when no packet is on its way.
    pub(crate) halt: Option<Halt>,
    /// The lock around all processing of packets, if there is one; absent while it is held.
    pub(crate) big_lock: Option<Arc<AdaptiveLock<()>>>,
    /// Never sleep for want of work.
    pub(crate) awake: bool,
    /// Whose round it is, if workers go one after the other.
    pub(crate) turn: Option<TurnPlace>,
    /// The message that was executed only wanted to know something.
    pub(crate) only_told: bool,
    /// How it shares simulated time with others.
    pub(crate) turns: Option<Arc<Turns>>,
}

impl Worker {
    /// A worker; `common` is there if it is to share simulated time with others.
    pub(crate) fn new(
        index: usize,
        shared: Arc<Shared>,
        clock: Clock,
        slots: IndexVec<ElementId, Slot>,
        on_duty: bool,
        common: Option<&Common>,
    ) -> Worker {
        let (outputs, inputs) = (shared.outputs.clone(), shared.inputs.clone());
        let count = shared.elements.len();
        Worker {
            index,
            pulse: shared.mailboxes[index].pulse.clone(),
            burst: shared.burst,
            slots,
            stack: Vec::with_capacity(64),
            aside: Vec::new(),
            floor: 0,
            open: None,
            joins: shared.burst > 1,
            dead: Batch::new(),
            sent: zeros(outputs.edges.len()),
            fetched: zeros(inputs.edges.len()),
            cycles: zeros(count).into(),
            pulls: zeros(count).into(),
            fused: zeros(count).into(),
            sampled: Sampler::one_in(SAMPLE),
            task_stats: zeros(count).into(),
            sampled_tasks: Sampler::one_in(TASK_SAMPLE),
            call_stats: zeros(count).into(),
            sampled_calls: Sampler::one_in(CALL_SAMPLE),
            meter: Meter::default(),
            fairness: Fairness::new(),
            traffic: Traffic::new(&shared),
            telling: Telling::new(&shared),
            witnessing: None,
            acting: None,
            only_tries: false,
            drops: zeros(count).into(),
            deeds: zeros(count).into(),
            random: fastrand::Rng::with_seed(shared.seed.wrapping_add(index as u64)),
            rcu: shared.rcu.register(format!("worker {index}")),
            outputs,
            inputs,
            clock,
            tasks: common.cloned().map_or_else(Tasks::default, Tasks::in_common),
            timers: common.cloned().map_or_else(Timers::default, Timers::in_common),
            poll: None,
            watched: Vec::new(),
            idle: 0,
            rounds: 0,
            cpu_ns: 0,
            on_duty,
            wishes: Vec::new(),
            halt: None,
            big_lock: None,
            awake: false,
            turn: None,
            only_told: false,
            turns: None,
            shared,
        }
    }

    /// Its number.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The configuration that it runs.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Whether it runs, or will.
    pub fn is_on_duty(&self) -> bool {
        self.on_duty
    }

    /// Runs until the router stops.
    pub(crate) fn run(&mut self) {
        // What elements add to their state meanwhile is the worker's own, as what they began with.
        sync::heap::in_lines(|| self.run_until_stopped());
    }

    fn run_until_stopped(&mut self) {
        let before = crate::clock::thread_cpu_ns();
        self.pulse.begin();
        self.drain();
        while !self.shared.is_stopped() {
            if self.halt.is_some() {
                self.tell_untold();
                self.park();
            }
            let worked = match self.turn.clone() {
                None => self.round(),
                Some(place) => self.round_in_turn(&place),
            };
            if worked {
                self.idle = 0;
            } else if self.shared.is_stopped() || !self.rest() {
                // A stopped router must not rest: simulated time would go on to the next timer.
                break;
            }
        }
        self.shared.mailboxes[self.index].set_open(false);
        self.serve();
        self.tell_untold();
        self.refuse_halt();
        self.bury();
        self.pulse.end();
        self.cpu_ns += crate::clock::thread_cpu_ns().saturating_sub(before);
    }

    /// One round, under the big lock if there is one.
    pub(crate) fn round(&mut self) -> bool {
        let Some(lock) = self.big_lock.take() else { return self.free_round() };
        let clock = Instant::now();
        // The holder may wait for this worker to answer a handler.
        let meanwhile = || {
            self.pulse.wait();
            if self.shared.mailboxes[self.index].has_mail() {
                self.serve();
            }
            std::thread::yield_now();
        };
        let held = lock.lock_meanwhile(|| clock.elapsed().as_nanos() as u64, meanwhile);
        let worked = self.free_round();
        drop(held);
        self.big_lock = Some(lock);
        worked
    }

    /// One round: messages, expired timers, every scheduled task once. Returns whether there was work.
    fn free_round(&mut self) -> bool {
        if self.is_witnessed() { self.timed_round() } else { self.plain_round() }
    }

    #[inline]
    fn plain_round(&mut self) -> bool {
        self.pulse.beat();
        self.listen();
        self.clock.expire();
        self.rcu.quiescent();
        let mut worked = self.shared.mailboxes[self.index].has_mail() && self.serve();
        let mark = self.timers.mark();
        while let Some(timer) = self.due_timer(mark) {
            self.run_timer(timer);
            if timer.of == Target::Router {
                if self.shared.is_stopped() {
                    return true;
                }
                continue;
            }
            worked = true;
        }
        for _ in 0..self.tasks.scheduled() {
            if self.shared.is_stopped() {
                return true;
            }
            let Some(element) = self.tasks.next() else { break };
            worked |= self.run_task(element);
        }
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds.is_multiple_of(POLL_ROUNDS) && self.watches() {
            worked |= self.wait(Duration::ZERO);
        }
        worked
    }

    /// Whether somebody may want to know what this worker does, batch by batch. It is asked once for a run of a task: what carries batches
    /// is there twice, and where `TOLD` is false nothing asks again.
    #[inline(always)]
    fn is_attended(&self) -> bool {
        self.is_witnessed() || self.telling.is_asked()
    }

    /// Runs an element's task and carries what it sends. Returns whether there was work.
    #[inline]
    pub(crate) fn run_task(&mut self, element: ElementId) -> bool {
        if self.is_attended() { self.run_task_told(element) } else { self.run_task_as::<false>(element) }
    }

    #[cold]
    #[inline(never)]
    fn run_task_told(&mut self, element: ElementId) -> bool {
        self.run_task_as::<true>(element)
    }

    #[inline(always)]
    fn run_task_as<const TOLD: bool>(&mut self, element: ElementId) -> bool {
        if self.sampled_tasks.picks() {
            self.run_task_timed::<TOLD>(element)
        } else {
            self.run_task_of::<TOLD, false>(element)
        }
    }

    #[inline(never)]
    fn run_task_timed<const TOLD: bool>(&mut self, element: ElementId) -> bool {
        self.run_task_of::<TOLD, true>(element)
    }

    /// The body of these, which is there for each of them: what is not timed knows nothing of it.
    #[inline(always)]
    fn run_task_of<const TOLD: bool, const TIMED: bool>(&mut self, element: ElementId) -> bool {
        let span = TIMED.then(|| {
            self.traffic.note(element, &self.shared, (&self.sent, &self.fetched));
            (self.meter.begin(true), self.deeds[element].made)
        });
        let begun = if TOLD { self.tell_begin() } else { 0 };
        let run = |instance: &mut dyn Element, cx: &mut Cx<'_>| instance.run_task(cx);
        let mut worked = self.with_doing_as::<TOLD, _>(element, Doing::Task, run).unwrap_or(false);
        let own = span.as_ref().map_or(0, |(span, _)| self.meter.end(span));
        worked |= !self.stack.is_empty();
        if worked {
            if TOLD {
                self.tell_own(element, Doing::Task);
            }
            self.drain_as::<TOLD>();
            if TOLD {
                self.tell_end(Kind::Task, element, begun);
            }
        }
        let stats = &mut self.task_stats[element];
        stats.runs += u64::from(worked);
        stats.idle = !worked;
        // An idle run says nothing of what work costs.
        if let Some((span, made)) = span.filter(|_| worked) {
            let cycles = sync::tsc().saturating_sub(span.begun);
            stats.time(cycles, own);
            if self.fairness.has_asked(element) && !self.clock.is_simulated() {
                let packets = self.deeds[element].made.saturating_sub(made);
                self.fairness.note(element, (cycles, packets), self.rounds);
            }
            self.traffic.count(element, &self.sent, &self.fetched);
        }
        worked
    }

    /// A round while an element runs: descriptors that become ready wait, theirs among them.
    pub(crate) fn side_round(&mut self) {
        self.rounds = 0;
        let here = self.pulse.spot();
        self.apart(|worker| {
            worker.round();
        });
        self.pulse.enter(here);
    }

    /// Carries what the running element has sent so far.
    pub(crate) fn settle(&mut self) {
        self.apart(Worker::drain);
    }

    /// Does what is no part of what the running element costs.
    fn apart(&mut self, f: impl FnOnce(&mut Worker)) {
        let span = self.meter.is_on().then(|| self.meter.begin(false));
        f(self);
        if let Some(span) = span {
            self.meter.end(&span);
        }
    }

    /// Lets an element do what a timer or descriptor calls it for, and carries what it sends.
    fn run_called(
        &mut self,
        element: ElementId,
        (doing, kind): (Doing, Kind),
        f: impl FnOnce(&mut dyn Element, &mut Cx<'_>),
    ) {
        let span: Option<Span> = self.sampled_calls.picks().then(|| self.meter.begin(true));
        let begun = self.tell_begin();
        self.with_doing(element, doing, f);
        let own = span.as_ref().map_or(0, |span| self.meter.end(span));
        self.tell_own(element, doing);
        self.drain();
        self.tell_end(kind, element, begun);
        let stats = &mut self.call_stats[element];
        stats.runs += 1;
        if let Some(span) = span {
            stats.time(sync::tsc().saturating_sub(span.begun), own);
        }
    }

    /// Whether no packet is on its way.
    pub(crate) fn is_empty(&self) -> bool {
        self.stack.is_empty() && self.floor == 0
    }

    fn due_timer(&mut self, mark: u64) -> Option<Timer> {
        self.timers.next_at()?;
        let now = self.clock.now();
        self.timers.pop_due(now, mark)
    }

    fn run_timer(&mut self, Timer { of, timer }: Timer) {
        let Target::Element(element) = of else { return self.shared.on_timer(timer) };
        // An element of several workers has its timers in common, and may have changed them elsewhere.
        if let Some(timers) = &self.shared.elements[element].timers {
            match timers.due(timer, self.clock.now()) {
                Due::Now => {}
                Due::At(at) => return self.timers.set(element, timer, at),
                Due::Never => return,
            }
        }
        self.run_called(element, (Doing::Timer, Kind::Timer), |instance, cx| instance.run_timer(cx, timer));
    }

    /// Sets or clears a timer of an element that has them in common, on its home.
    pub(crate) fn set_common_timer(&mut self, element: ElementId, timer: u32, at: Option<Nanos>) {
        let shared = self.shared.clone();
        let Some(timers) = &shared.elements[element].timers else { return };
        timers.set(timer, at);
        let home = shared.home(element);
        if home == self.index {
            return self.arm(element, timer, at);
        }
        match &self.turns {
            Some(turns) => {
                turns.with(home, |w| w.arm(element, timer, at));
            }
            None => {
                // The home looks at what is set when it reads this: it may have been changed again. Whoever moves the element
                // to another home meanwhile looks, too.
                let meant = shared.clone();
                let message = Box::new(move |w: &mut Worker| {
                    if Arc::ptr_eq(&meant, &w.shared) {
                        let at = meant.elements[element].timers.as_ref().and_then(|t| t.get(timer));
                        w.arm(element, timer, at);
                    }
                });
                shared.mailboxes[home].post(message);
            }
        }
    }

    fn arm(&mut self, element: ElementId, timer: u32, at: Option<Nanos>) {
        match at {
            Some(at) => self.timers.set(element, timer, at),
            None => self.timers.clear(element, timer),
        }
    }

    /// Puts an element's task in line, or takes it out, wherever it is. Returns whether it has one.
    pub(crate) fn set_scheduled(&mut self, element: ElementId, on: bool) -> bool {
        let place = &self.shared.elements[element].place;
        let home = place.home();
        if place.mode != Mode::Locked || home == self.index || place.tasks.is_empty() {
            self.task_stats[element].idle &= !on;
            return self.tasks.set_scheduled(element, on);
        }
        let set = move |w: &mut Worker| {
            w.task_stats[element].idle &= !on;
            w.tasks.set_scheduled(element, on);
        };
        match &self.turns {
            Some(turns) => turns.with(home, set).is_some(),
            None => {
                let meant = self.shared.clone();
                let message = move |w: &mut Worker| {
                    if Arc::ptr_eq(&meant, &w.shared) {
                        set(w);
                    } else if Arc::ptr_eq(&meant.lineage, &w.shared.lineage) {
                        // Its task has another home by now.
                        w.set_scheduled(element, on);
                    }
                };
                self.shared.mailboxes[home].post(Box::new(message))
            }
        }
    }

    /// Runs the timer that is next, if it is due; returns whose it was.
    pub(crate) fn run_due_timer(&mut self) -> Option<Target> {
        let timer = self.due_timer(u64::MAX)?;
        self.run_timer(timer);
        Some(timer.of)
    }

    /// Runs the task that is next.
    pub(crate) fn run_next_task(&mut self) -> bool {
        self.tasks.next().is_some_and(|element| self.run_task(element))
    }

    /// Runs every scheduled task once, whatever its tickets. Returns whether there was work.
    pub(crate) fn run_each_task(&mut self) -> bool {
        let tasks = self.tasks.in_line();
        tasks.into_iter().fold(false, |worked, element| self.run_task(element) | worked)
    }

    /// Whether elements wait for descriptors here.
    pub(crate) fn watches(&self) -> bool {
        self.watched.iter().any(|w| w.calls)
    }

    /// Does what an idle worker does: advances simulated time, or spins, or sleeps. Returns false when nothing can
    /// ever happen again.
    fn rest(&mut self) -> bool {
        self.idle = self.idle.saturating_add(1);
        if self.clock.is_simulated() {
            // Tasks of few tickets may have had no turn in this round.
            if self.tasks.is_uneven() && self.run_each_task() {
                return true;
            }
            return match self.timers.next_at() {
                Some(at) => {
                    self.clock.advance_to(at);
                    true
                }
                None if self.watches() => {
                    self.wait(LONGEST_SLEEP);
                    true
                }
                None => self.shared.mailboxes[self.index].has_mail(),
            };
        }
        let nothing_to_poll = self.tasks.scheduled() == 0;
        if (self.idle < IDLE_ROUNDS && !nothing_to_poll) || self.awake {
            std::hint::spin_loop();
            return true;
        }
        // Announce the sleep, look once more, then sleep: a worker that fills a queue of ours in between sees the
        // announcement and wakes us.
        let shared = self.shared.clone();
        shared.mailboxes[self.index].announce_sleep(true);
        if !self.round() && !shared.is_stopped() {
            let now = self.clock.now();
            let timeout = self
                .timers
                .next_at()
                .map_or(LONGEST_SLEEP, |at| Duration::from_nanos(at.saturating_sub(now)).min(LONGEST_SLEEP));
            self.tell_untold();
            let begun = sync::tsc();
            self.wait(timeout);
            self.tell_sleep(begun);
        }
        shared.mailboxes[self.index].announce_sleep(false);
        // Having slept, look around for a short while only.
        self.idle = IDLE_ROUNDS - IDLE_ROUNDS / 20;
        true
    }

    /// Waits for watched descriptors and messages, and runs the elements whose descriptors are ready.
    pub(crate) fn wait(&mut self, timeout: Duration) -> bool {
        let Some(mut poll) = self.take_poll() else {
            let nap = timeout.min(Duration::from_millis(1));
            self.rcu.offline(|| std::thread::sleep(nap));
            return false;
        };
        let mut events = Events::with_capacity(64);
        let polled = self.rcu.offline(|| poll.poll(&mut events, timeout));
        self.poll = Some(poll);
        let mut worked = false;
        if polled.is_ok() {
            let slept = !timeout.is_zero();
            if slept {
                self.begin_timing();
            }
            self.clock.expire();
            for event in &events {
                let fd = event.token().0 as RawFd;
                if let Some(watch) = self.watched.iter().find(|w| w.fd == fd && w.calls).copied() {
                    let run = |instance: &mut dyn Element, cx: &mut Cx<'_>| instance.run_fd(cx, fd);
                    self.run_called(watch.element, (Doing::Descriptor, Kind::Task), run);
                    worked = true;
                }
            }
            if slept {
                self.end_timing(worked);
            }
        }
        worked
    }

    /// Runs `f` on an element's instance, if it has one here that is not running already. What it sends waits for
    /// [`Worker::drain`].
    pub fn with<R>(
        &mut self,
        element: ElementId,
        f: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let result = self.with_doing(element, Doing::Call, f);
        self.bury();
        result
    }

    /// As [`Worker::with`], saying what for.
    #[inline]
    pub(crate) fn with_doing<R>(
        &mut self,
        element: ElementId,
        doing: Doing,
        f: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        self.with_doing_as::<true, R>(element, doing, f)
    }

    #[inline]
    fn with_doing_as<const TOLD: bool, R>(
        &mut self,
        element: ElementId,
        doing: Doing,
        f: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let mut instance = self.slots[element].take()?;
        let before = self.pulse.spot();
        self.pulse.enter(Spot::new(element, doing, PortIndex::FIRST));
        self.acting = Some(element);
        let result = f(&mut *instance, &mut Cx::new(self, element));
        self.pulse.enter(before);
        if TOLD && self.is_witnessed() {
            self.end_own_step(Spot::new(element, doing, PortIndex::FIRST));
        }
        self.slots[element] = Some(instance);
        Some(result)
    }

    #[inline]
    pub(crate) fn noutputs(&self, element: ElementId) -> usize {
        self.outputs.count(element)
    }

    #[inline]
    pub(crate) fn ninputs(&self, element: ElementId) -> usize {
        self.inputs.count(element)
    }

    #[inline]
    pub(crate) fn count_drops(&mut self, element: ElementId, reason: Reason, n: u64) {
        if n > 0 {
            self.drops[element].add(reason, n);
            self.tell_drops(element, reason, n);
        }
    }

    pub(crate) fn please_stop(&mut self) {
        if !self.on_duty {
            return;
        }
        match self.shared.driver() {
            None => self.shared.stop(),
            Some((element, worker)) => {
                let shared = self.shared.clone();
                let message = Box::new(move |w: &mut Worker| {
                    if Arc::ptr_eq(&shared, &w.shared) {
                        w.with(element, |instance, cx| instance.driver_stopped(cx));
                    } else {
                        // Another configuration has come meanwhile, with a driver of its own.
                        w.please_stop();
                    }
                });
                let mailbox = &self.shared.mailboxes[worker];
                if mailbox.trouble().is_some() || !mailbox.post_unhurried(message) {
                    self.shared.stop();
                }
            }
        }
    }

    pub(crate) fn provided(&self, element: ElementId) -> Option<Provided> {
        match &self.slots[element] {
            Some(instance) => instance.provide(),
            None => self.shared.provided(element),
        }
    }

    /// Ends all instances: packets on the stack are dropped and counted, then each element finishes.
    pub fn finish(&mut self) {
        while let Some(job) = self.stack.pop() {
            self.drop_batch(job.element, Reason::RouterStopped, job.batch);
        }
        for element in self.slots.ids() {
            self.with(element, |instance, cx| instance.finish(cx));
        }
        self.stack.clear();
    }
}
