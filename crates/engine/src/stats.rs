// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a running router for programs that watch it: the statistics segment.
//!
//! Workers count in plain words that no other thread reads. A few times a second, a message asks each worker to copy its counters
//! between two rounds. No packet is then on its way, so all values are of one moment. The memory for the copy goes back and forth, and
//! the worker allocates nothing. Reading the counters from outside would see them half changed, and take their cache lines away from
//! the worker.
//!
//! Elements add values of their own at the same moment, such as the length of a queue ([`Statistics::stats`](element::Statistics::stats)).

use std::sync::Arc;

pub use element::stats::*;

use crate::cost::{CycleStats, TaskStats};
use crate::cpu_time::Used;
use crate::mailbox::Mailbox;
use crate::ports::PortStats;
use crate::remote::{Control, Missed};
use crate::shared::Shared;
use crate::worker::Worker;
use element::drops::Reason;
use element::{ElementId, IndexVec, Mode, Statistics, first_ids};

/// The counters of one worker at one moment.
#[derive(Clone, Debug, Default)]
pub struct WorkerSample {
    /// When, in cycles of the time stamp counter.
    pub cycles_at: u64,
    /// How many of these the worker took to tell.
    pub took_cycles: u64,
    /// What left by outputs: those of the first element, those of the second, and so on.
    pub outputs: Vec<PortStats>,
    /// Sampled cost of batches that came, by element.
    pub cost: IndexVec<ElementId, CycleStats>,
    /// Of packets that were fetched, by the element that they were fetched from.
    pub pulls: IndexVec<ElementId, CycleStats>,
    /// Of tasks, by element.
    pub tasks: IndexVec<ElementId, TaskStats>,
    /// Of timers and descriptors, by element.
    pub calls: IndexVec<ElementId, TaskStats>,
    /// Drops, where there are any: by element.
    pub drops: Vec<(ElementId, Reason, u64)>,
    /// What elements report.
    pub stats: Vec<(ElementId, &'static Stat, u64)>,
}

/// What can be seen of a worker without asking it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerState {
    /// The kernel's number of its thread; `None` while it does not run.
    pub thread: Option<u32>,
    /// Rounds that it has ended, also those in which there was nothing to do.
    pub rounds: u64,
    /// It has been found to stand still.
    pub stalled: bool,
    /// Time that its thread had a processor, and that it waited for one, in nanoseconds.
    pub ran_ns: u64,
    /// See above.
    pub waited_ns: u64,
}

/// The counters of all workers.
#[derive(Default)]
pub struct Samples {
    /// By worker. That of one which has stalled is as it was.
    pub workers: Vec<WorkerSample>,
    /// Of which configuration they are.
    of: Option<Arc<Shared>>,
    /// What the next samples are written over.
    spare: Vec<WorkerSample>,
}

impl Samples {
    /// Asks all workers. Returns the configuration and placement whose counters they are, `None` when the router has stopped.
    pub fn take(&mut self, control: &Control) -> Option<Arc<Shared>> {
        'anew: loop {
            let shared = control.shared();
            if !self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, &shared)) {
                self.workers.clear();
                self.workers.resize_with(shared.workers(), WorkerSample::default);
                self.of = Some(shared.clone());
            }
            // All are asked before the first answer is waited for: their moments lie close together.
            let mut asked = Vec::with_capacity(self.workers.len());
            for w in 0..self.workers.len() {
                let mut sample = self.spare.pop().unwrap_or_default();
                let answer = move |worker: &mut Worker| {
                    copy_counters(worker, &mut sample);
                    sample
                };
                asked.push(control.post(&shared, w, answer));
            }
            for (w, asked) in asked.into_iter().enumerate() {
                match asked.and_then(|asked| control.answer(w, &asked)) {
                    Ok(sample) => self.spare.push(std::mem::replace(&mut self.workers[w], sample)),
                    Err(Missed::Stalled(_)) => {}
                    Err(Missed::Replaced) => {
                        self.of = None;
                        continue 'anew;
                    }
                    Err(Missed::Stopped) => return None,
                }
            }
            return Some(shared);
        }
    }
}

impl Control {
    /// What can be seen of workers without asking them.
    pub fn worker_states(&self) -> Vec<WorkerState> {
        let state = |mailbox: &Mailbox<Worker>| {
            let thread = mailbox.pulse.thread();
            let used = thread.and_then(Used::of);
            WorkerState {
                thread,
                rounds: mailbox.pulse.beats(),
                stalled: mailbox.trouble().is_some(),
                ran_ns: used.map_or(0, |used| used.ran),
                waited_ns: used.map_or(0, |used| used.waited),
            }
        };
        self.runtime.mailboxes.iter().map(state).collect()
    }

    /// The last decisions of the balancer, in words, the latest last.
    pub fn decisions(&self, most: usize) -> Vec<String> {
        self.runtime.placer().map_or_else(Vec::new, |placer| placer.decisions(most))
    }

    /// Drops at elements that are gone since a hot swap.
    pub fn gone(&self) -> Vec<(Reason, u64)> {
        self.runtime.gone()
    }
}

/// Copies a worker's counters.
fn copy_counters(worker: &mut Worker, into: &mut WorkerSample) {
    // A worker without work that were kept awake by this would spin a while each time.
    worker.only_asked();
    into.cycles_at = sync::tsc();
    into.outputs.clear();
    into.drops.clear();
    into.stats.clear();
    let costs = worker.costs();
    into.cost.clone_from(costs.cycles());
    into.pulls.clone_from(costs.pulls());
    into.tasks.clone_from(costs.tasks());
    into.calls.clone_from(costs.calls());
    for (element, info) in worker.shared().elements.iter_enumerated() {
        let ports = first_ids(info.outputs().len());
        into.outputs.extend(ports.map(|port| worker.output_stats(element, port)));
        into.drops.extend(worker.drops(element).iter().map(|(reason, n)| (element, reason, n)));
        if worker.instance(element).is_none() {
            continue;
        }
        let mut put = |stat: &'static Stat, value| into.stats.push((element, stat, value));
        // What is behind a lock reports all it has to report itself, if it is free.
        if info.place.mode != Mode::Locked {
            put(&HELD, worker.held(element) as u64);
        }
        if let Some(instance) = worker.capability::<dyn Statistics>(element) {
            instance.stats(&mut put);
        }
    }
    into.took_cycles = sync::tsc().saturating_sub(into.cycles_at);
}
