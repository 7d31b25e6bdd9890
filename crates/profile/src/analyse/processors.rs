// SPDX-License-Identifier: MIT OR Apache-2.0
//! What processors and threads did over time, by what the kernel recorded.
//!
//! Each processor is at any time with one thread, with an interrupt or softirq on top of it, or idle; each thread runs, could run if it had a
//! processor, or waits for something. Before a processor's first event nothing is known of it, so shares are of the time from there on.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use sync::events::{Event, EventKind, Mask};

use super::Trace;
use super::absence::{Absence, Absences};
use super::over_time::{Moment, OverTime, What};
use crate::awaited::{Awaited, Left, Reasons};
use crate::kernel::event::{KernelEvent, KernelKind};

/// A processor's time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Processor {
    /// Its number.
    pub cpu: u16,
    /// In threads of the router, of its time.
    pub router: f64,
    /// In other threads.
    pub others: f64,
    /// In handlers of interrupts.
    pub interrupts: f64,
    /// In softirqs.
    pub softirqs: f64,
    /// In nothing.
    pub idle: f64,
    /// Threads, the longest first.
    pub threads: Vec<Share>,
    /// The same over time, in parts that are equally long.
    pub over_time: Vec<Moment>,
}

/// A thread's share of a processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Share {
    /// The thread's name.
    pub name: String,
    /// The kernel's number for it.
    pub id: u32,
    /// Whether it is the router's.
    pub router: bool,
    /// Of the processor's time.
    pub share: f64,
}

/// A thread of the router.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// The kernel's number for it, 0 if unknown.
    pub id: u32,
    /// It runs tasks of elements: the numbers of its worker.
    pub worker: Option<u32>,
    /// In tasks and timers that worked, of all time; scaled up from what was recorded. Nothing if such was not recorded, and so with the
    /// next two.
    pub working: Option<f64>,
    /// Waiting for locks.
    pub waiting_for_locks: Option<f64>,
    /// Sleeping because there was nothing to do, as the worker itself reports.
    pub sleeping: Option<f64>,
    /// On a processor, as the kernel reports; nothing if it reported nothing of this thread, and so with those that follow.
    pub running: Option<f64>,
    /// Without a processor though it could run.
    pub ready: Option<f64>,
    /// Waiting for something else.
    pub blocked: Option<f64>,
    /// For what, the longest first.
    pub blocked_on: Vec<BlockedOn>,
    /// Times that it came to another processor.
    pub migrations: Option<u64>,
    /// Times that it was taken off a processor while it could run.
    pub preempted: Option<u64>,
    /// Times that it gave its processor up.
    pub yielded: Option<u64>,
}

/// What a thread waited for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BlockedOn {
    /// What.
    pub what: String,
    /// Of the time in which the kernel reported on the thread.
    pub share: f64,
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Ready,
    Blocked(Awaited),
    Ended,
}

/// What is known of a thread so far.
#[derive(Default)]
struct Follow {
    since: Option<(u64, State)>,
    /// Without a processor since then; not known where switches were lost.
    away_since: Option<u64>,
    absence: Absence,
    running: u64,
    ready: u64,
    blocked: BTreeMap<Awaited, u64>,
    migrations: u64,
    preempted: u64,
    yielded: u64,
}

impl Follow {
    fn enter(&mut self, at: u64, state: State) {
        if state == State::Running
            && let Some(from) = self.away_since.take()
        {
            let ready = self.since.filter(|(_, was)| *was == State::Ready).map_or(at, |(since, _)| since);
            self.absence.add(from, ready, at);
        }
        self.leave(at);
        self.since = Some((at, state));
    }

    /// It has left its processor. If it is not known that it had one, switches were lost, and nobody knows when it came back.
    fn off(&mut self, at: u64, state: State) {
        let ran = self.since.is_some_and(|(_, was)| was == State::Running);
        self.away_since = ran.then_some(at);
        self.enter(at, state);
    }

    fn leave(&mut self, at: u64) {
        if let Some((since, state)) = self.since.take() {
            let spent = at.saturating_sub(since);
            match state {
                State::Running => self.running += spent,
                State::Ready => self.ready += spent,
                State::Blocked(awaited) => *self.blocked.entry(awaited).or_default() += spent,
                State::Ended => {}
            }
        }
    }

    fn blocked(&self) -> u64 {
        self.blocked.values().sum()
    }

    fn share(&self, ns: u64) -> f64 {
        ns as f64 / ((self.running + self.ready + self.blocked()) as f64).max(1.0)
    }

    fn blocked_on(&self) -> Vec<BlockedOn> {
        let on = |(awaited, ns): (&Awaited, &u64)| BlockedOn {
            what: awaited.words().into(),
            share: self.share(*ns),
        };
        let mut all: Vec<BlockedOn> = self.blocked.iter().map(on).collect();
        all.sort_by(|a, b| b.share.total_cmp(&a.share));
        all
    }
}

/// An interrupt or a softirq under way.
#[derive(Clone, Copy)]
struct Above {
    begun: u64,
    /// The same, less what lies in it.
    since: u64,
    softirq: bool,
}

impl Above {
    fn what(self) -> What {
        if self.softirq { What::Softirq } else { What::Interrupt }
    }
}

/// What is known of a processor so far.
struct Cpu<'a> {
    /// The kernel's numbers of the router's threads.
    mine: &'a HashMap<u32, String>,
    over_time: OverTime,
    first: Option<u64>,
    /// The thread there since when; 0 is idleness.
    thread: Option<(u32, u64)>,
    /// The innermost last.
    above: Vec<Above>,
    /// Time taken from the present thread by these.
    taken: u64,
    interrupts: u64,
    softirqs: u64,
    by_thread: BTreeMap<u32, u64>,
}

impl<'a> Cpu<'a> {
    /// Of a recording from one time to the other.
    fn new(mine: &'a HashMap<u32, String>, (from, to): (u64, u64)) -> Cpu<'a> {
        Cpu {
            mine,
            over_time: OverTime::new(from, to),
            first: None,
            thread: None,
            above: Vec::new(),
            taken: 0,
            interrupts: 0,
            softirqs: 0,
            by_thread: BTreeMap::new(),
        }
    }

    fn switch(&mut self, at: u64, to: u32) {
        // No thread is left in the midst of these: ends were lost.
        self.above.clear();
        self.settle(at);
        self.thread = Some((to, at));
    }

    fn settle(&mut self, at: u64) {
        if let Some((thread, since)) = self.thread.take() {
            let spent = at.saturating_sub(since).saturating_sub(std::mem::take(&mut self.taken));
            *self.by_thread.entry(thread).or_default() += spent;
            self.over_time.add(since, at, self.what(thread));
        }
    }

    fn what(&self, thread: u32) -> What {
        match thread {
            0 => What::Idle,
            _ if self.mine.contains_key(&thread) => What::Router,
            _ => What::Others,
        }
    }

    fn begin(&mut self, at: u64, softirq: bool) {
        // None lies in another of its kind: the end of that one was lost.
        self.drop_from(softirq);
        self.above.push(Above { begun: at, since: at, softirq });
    }

    /// Forgets what is under way of this kind, and what lies in it. Returns the former.
    fn drop_from(&mut self, softirq: bool) -> Option<Above> {
        let at = self.above.iter().rposition(|above| above.softirq == softirq)?;
        self.above.drain(at..).next()
    }

    fn end(&mut self, at: u64, softirq: bool) {
        // An end without a beginning began before the recording.
        let Some(ended) = self.drop_from(softirq) else { return };
        let spent = at.saturating_sub(ended.since);
        *(if softirq { &mut self.softirqs } else { &mut self.interrupts }) += spent;
        // What lies in another counts there only once.
        let within = self.above.last().map(|outer| outer.what());
        if let Some(outer) = self.above.last_mut() {
            outer.since += spent;
        }
        let thread = self.thread.map(|(thread, _)| self.what(thread));
        match within.or(thread) {
            Some(of) => self.over_time.instead(ended.begun, at, ended.what(), of),
            None => self.over_time.add(ended.begun, at, ended.what()),
        }
        self.taken += spent;
    }
}

/// Processors and the router's threads, and when these had no processor.
pub(super) fn tables(trace: &Trace<'_>) -> (Vec<Processor>, Vec<Thread>, Absences) {
    let mut kernel: Vec<&KernelEvent> = trace.recording.kernel.iter().collect();
    kernel.sort_by_key(|e| e.at_ns);
    let end_ns = kernel.last().map_or(0, |e| e.at_ns);
    let whole = (kernel.first().map_or(0, |e| e.at_ns), end_ns);
    let mine = own_ids(trace);
    let mut cpus: BTreeMap<u16, Cpu> = BTreeMap::new();
    let mut follows: HashMap<u32, Follow> = HashMap::new();
    let mut reasons = Reasons::new(trace.recording);
    for event in kernel {
        reasons.see(event);
        let cpu = cpus.entry(event.cpu).or_insert_with(|| Cpu::new(&mine, whole));
        cpu.first.get_or_insert(event.at_ns);
        let at = event.at_ns;
        match event.kind {
            KernelKind::Switch => {
                if cpu.thread.is_none() {
                    // Until now it was with this one.
                    let first = cpu.first.unwrap_or(at);
                    cpu.thread = Some((event.thread, first));
                    let there = follows.entry(event.thread).or_default();
                    there.since.get_or_insert((first, State::Running));
                }
                // The kernel does not name a thread that ends when it leaves its processor.
                if let Some((there, _)) = cpu.thread
                    && there != event.thread
                    && there != event.b
                {
                    follows.entry(there).or_default().enter(at, State::Ended);
                }
                cpu.switch(at, event.b);
                let left = follows.entry(event.thread).or_default();
                let state = match Left::of(event.a) {
                    Left::Ready => State::Ready,
                    Left::Blocked { uninterruptibly } => {
                        State::Blocked(reasons.of(event.thread, at, uninterruptibly))
                    }
                    Left::Ended => State::Ended,
                };
                match state {
                    State::Ready => left.preempted += 1,
                    State::Ended => {}
                    _ => left.yielded += 1,
                }
                left.off(at, state);
                follows.entry(event.b).or_default().enter(at, State::Running);
            }
            KernelKind::Wakeup => {
                let woken = follows.entry(event.a).or_default();
                if woken.since.is_none_or(|(_, state)| matches!(state, State::Blocked(_))) {
                    woken.enter(at, State::Ready);
                }
            }
            KernelKind::Migrate => follows.entry(event.a).or_default().migrations += 1,
            KernelKind::IrqBegin | KernelKind::SoftirqBegin => {
                cpu.begin(at, event.kind == KernelKind::SoftirqBegin);
            }
            KernelKind::IrqEnd | KernelKind::SoftirqEnd => cpu.end(at, event.kind == KernelKind::SoftirqEnd),
            _ => {}
        }
    }
    follows.values_mut().for_each(|f| f.leave(end_ns));
    let processors = cpus.into_iter().map(|(cpu, state)| processor(trace, cpu, state, end_ns)).collect();
    let threads = threads(trace, &follows);
    // Of who never left a processor, nothing is known but that it had one.
    let told = follows.into_iter().filter(|(id, _)| mine.contains_key(id));
    let known = told.map(|(id, follow)| (id, follow.absence)).collect();
    let names = trace.recording.names.last().map_or(&[][..], |n| &n.threads);
    (processors, threads, Absences::new(trace.time.clone(), known, names))
}

/// The kernel's numbers of the router's threads.
fn own_ids(trace: &Trace<'_>) -> HashMap<u32, String> {
    let threads = trace.recording.names.iter().flat_map(|n| &n.threads);
    threads.filter(|t| t.kernel_id != 0).map(|t| (t.kernel_id, t.name.clone())).collect()
}

fn processor(trace: &Trace<'_>, number: u16, mut cpu: Cpu<'_>, end_ns: u64) -> Processor {
    cpu.settle(end_ns);
    let mine = cpu.mine;
    let all = (end_ns.saturating_sub(cpu.first.unwrap_or(end_ns)) as f64).max(1.0);
    let share = |ns: u64| ns as f64 / all;
    let mut processor = Processor {
        cpu: number,
        interrupts: share(cpu.interrupts),
        softirqs: share(cpu.softirqs),
        over_time: cpu.over_time.parts(),
        ..Processor::default()
    };
    for (id, ns) in cpu.by_thread {
        let share = share(ns);
        let router = mine.contains_key(&id);
        match id {
            0 => processor.idle += share,
            _ if router => processor.router += share,
            _ => processor.others += share,
        }
        let command = || trace.recording.commands.get(&id).cloned();
        let name = mine.get(&id).cloned().or_else(command).unwrap_or_else(|| format!("thread {id}"));
        if id != 0 {
            processor.threads.push(Share { name, id, router, share });
        }
    }
    processor.threads.sort_by(|a, b| b.share.total_cmp(&a.share));
    processor.threads.truncate(8);
    processor
}

/// The router's threads, as far as they were recorded.
fn threads(trace: &Trace<'_>, follows: &HashMap<u32, Follow>) -> Vec<Thread> {
    #[derive(Default)]
    struct Sums {
        worker: Option<u32>,
        working: u64,
        waiting: u64,
        sleeping: u64,
    }
    let mut sums: BTreeMap<u32, Sums> = BTreeMap::new();
    for event in &trace.recording.events {
        let sums = sums.entry(event.thread).or_default();
        let took = trace.window.part(event, u64::from(event.first));
        match event.kind {
            EventKind::Task | EventKind::Timer => {
                sums.worker = Some(event.second);
                sums.working += took;
            }
            // It was released at this time, and waited for before it was held.
            EventKind::Lock => {
                let at = event.at.saturating_sub(u64::from(event.second));
                sums.waiting += trace.window.part(&Event { at, ..*event }, u64::from(event.first));
            }
            EventKind::Sleep => {
                sums.worker = Some(event.subject);
                sums.sleeping += took;
            }
            _ => {}
        }
    }
    let all = trace.cycles();
    let recorded = |what: Mask, share: f64| trace.recording.events_asked().meets(what).then_some(share);
    let ids = trace.recording.names.last().map_or(&[][..], |n| &n.threads);
    let thread = |(number, sums): (u32, Sums)| {
        let id = ids.get((number as usize).wrapping_sub(1)).map_or(0, |t| t.kernel_id);
        let follow = follows.get(&id).filter(|_| id != 0);
        let share = |of: fn(&Follow) -> u64| follow.map(|follow| follow.share(of(follow)));
        Thread {
            name: trace.thread(number),
            id,
            worker: sums.worker,
            // Of a few runs it is concluded how long all took.
            working: recorded(Mask::TASKS, (sums.working as f64 * trace.one_in() / all).min(1.0)),
            waiting_for_locks: recorded(Mask::WAITS.with(Mask::LOCKS), sums.waiting as f64 / all),
            sleeping: recorded(Mask::CONTROL, sums.sleeping as f64 / all),
            running: share(|f| f.running),
            ready: share(|f| f.ready),
            blocked: share(Follow::blocked),
            blocked_on: follow.map(Follow::blocked_on).unwrap_or_default(),
            migrations: follow.map(|f| f.migrations),
            preempted: follow.map(|f| f.preempted),
            yielded: follow.map(|f| f.yielded),
        }
    };
    sums.into_iter().map(thread).collect()
}
