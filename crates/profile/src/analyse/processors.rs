// SPDX-License-Identifier: MIT OR Apache-2.0
//! What processors and threads did over time, by what the kernel told.
//!
//! Each processor is at any time with one thread, with an interrupt or softirq on top of it, or idle; each thread runs, could run if it had a
//! processor, or waits for something. Before a processor's first event nothing is known of it, so shares are of the time from there on.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use sync::events::{Event, Kind};

use super::Trace;
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
    /// In tasks and timers that worked, of all time; scaled up from what was told.
    pub working: f64,
    /// Waiting for locks.
    pub waiting_for_locks: f64,
    /// Sleeping because there was nothing to do, as the worker itself tells.
    pub sleeping: f64,
    /// On a processor, as the kernel tells; nothing if it told nothing of this thread, and so with those that follow.
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
    /// Of the time in which the kernel told of the thread.
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
    running: u64,
    ready: u64,
    blocked: BTreeMap<Awaited, u64>,
    migrations: u64,
    preempted: u64,
    yielded: u64,
}

impl Follow {
    fn enter(&mut self, at: u64, state: State) {
        self.leave(at);
        self.since = Some((at, state));
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

/// What is known of a processor so far.
#[derive(Default)]
struct Cpu {
    first: Option<u64>,
    /// The thread there since when; 0 is idleness.
    thread: Option<(u32, u64)>,
    /// Interrupts and softirqs under way, the innermost last: since when, and whether it is a softirq.
    above: Vec<(u64, bool)>,
    /// Time taken from the present thread by these.
    taken: u64,
    interrupts: u64,
    softirqs: u64,
    by_thread: BTreeMap<u32, u64>,
}

impl Cpu {
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
        }
    }

    fn begin(&mut self, at: u64, softirq: bool) {
        // None lies in another of its kind: the end of that one was lost.
        self.drop_from(softirq);
        self.above.push((at, softirq));
    }

    /// Forgets what is under way of this kind, and what lies in it. Returns since when it was.
    fn drop_from(&mut self, softirq: bool) -> Option<u64> {
        let begun = self.above.iter().rposition(|(_, kind)| *kind == softirq)?;
        self.above.drain(begun..).next().map(|(since, _)| since)
    }

    fn end(&mut self, at: u64, softirq: bool) {
        // An end without a beginning began before the recording.
        let Some(since) = self.drop_from(softirq) else { return };
        let spent = at.saturating_sub(since);
        *(if softirq { &mut self.softirqs } else { &mut self.interrupts }) += spent;
        // What lies in another counts there only once.
        if let Some((outer, _)) = self.above.last_mut() {
            *outer += spent;
        }
        self.taken += spent;
    }
}

/// Processors and the router's threads.
pub(super) fn tables(trace: &Trace<'_>) -> (Vec<Processor>, Vec<Thread>) {
    let mut kernel: Vec<&KernelEvent> = trace.recording.kernel.iter().collect();
    kernel.sort_by_key(|e| e.at_ns);
    let end_ns = kernel.last().map_or(0, |e| e.at_ns);
    let mut cpus: BTreeMap<u16, Cpu> = BTreeMap::new();
    let mut follows: HashMap<u32, Follow> = HashMap::new();
    let mut reasons = Reasons::new(trace.recording);
    for event in kernel {
        reasons.see(event);
        let cpu = cpus.entry(event.cpu).or_default();
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
                left.enter(at, state);
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
    let mine = own_ids(trace);
    let processors = cpus.into_iter().map(|(cpu, state)| processor(trace, cpu, state, end_ns, &mine));
    (processors.collect(), threads(trace, &follows))
}

/// The kernel's numbers of the router's threads.
fn own_ids(trace: &Trace<'_>) -> HashMap<u32, String> {
    let threads = trace.recording.names.iter().flat_map(|n| &n.threads);
    threads.filter(|t| t.kernel_id != 0).map(|t| (t.kernel_id, t.name.clone())).collect()
}

fn processor(
    trace: &Trace<'_>,
    number: u16,
    mut cpu: Cpu,
    end_ns: u64,
    mine: &HashMap<u32, String>,
) -> Processor {
    cpu.settle(end_ns);
    let all = (end_ns.saturating_sub(cpu.first.unwrap_or(end_ns)) as f64).max(1.0);
    let share = |ns: u64| ns as f64 / all;
    let mut processor = Processor {
        cpu: number,
        interrupts: share(cpu.interrupts),
        softirqs: share(cpu.softirqs),
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

/// The router's threads, as far as they were told of.
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
            Kind::Task | Kind::Timer => {
                sums.worker = Some(event.second);
                sums.working += took;
            }
            // It was released at this time, and waited for before it was held.
            Kind::Lock => {
                let at = event.at.saturating_sub(u64::from(event.second));
                sums.waiting += trace.window.part(&Event { at, ..*event }, u64::from(event.first));
            }
            Kind::Sleep => {
                sums.worker = Some(event.subject);
                sums.sleeping += took;
            }
            _ => {}
        }
    }
    let all = trace.cycles();
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
            working: (sums.working as f64 * trace.one_in() / all).min(1.0),
            waiting_for_locks: sums.waiting as f64 / all,
            sleeping: sums.sleeping as f64 / all,
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
