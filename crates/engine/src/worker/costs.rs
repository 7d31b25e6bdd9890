// SPDX-License-Identifier: MIT OR Apache-2.0
//! What elements cost on one worker, by samples: which batches and runs are timed, and what was measured. See [`cost`](crate::cost).

use super::Worker;
use super::fairness::Fairness;
use super::traffic::Traffic;
use crate::cost::{CycleStats, Meter, Span, TaskStats};
use crate::pulse::Doing;
use crate::sample::Sampler;
use crate::shared::Shared;
use element::{ElementId, IndexVec};
use sync::zeros::zeros;

/// One in about so many dispatches is timed.
const SAMPLE: u32 = 128;

/// One in about so many runs of a task is timed, with all that follows from it.
const TASK_SAMPLE: u32 = 32;

/// The same of runs for timers and descriptors, which are rarer.
const CALL_SAMPLE: u32 = 8;

/// See the module.
pub(crate) struct Costs {
    /// Batches that came, by element.
    cycles: IndexVec<ElementId, CycleStats>,
    sampled: Sampler,
    /// Whose the time is that passes.
    meter: Meter,
    /// Fetching packets, by the element that they are fetched from.
    pulls: IndexVec<ElementId, CycleStats>,
    /// Runs of tasks, by element.
    tasks: IndexVec<ElementId, TaskStats>,
    sampled_tasks: Sampler,
    /// Runs for timers and descriptors, by element.
    calls: IndexVec<ElementId, TaskStats>,
    sampled_calls: Sampler,
    fairness: Fairness,
    traffic: Traffic,
}

/// A run that is timed.
pub(super) struct TimedRun {
    span: Span,
    /// Packets that its element had made before.
    made: u64,
    /// Cycles that were the element's own.
    own: u64,
}

impl Costs {
    pub(super) fn new(shared: &Shared) -> Costs {
        let count = shared.elements.len();
        Costs {
            cycles: zeros(count).into(),
            sampled: Sampler::one_in(SAMPLE),
            meter: Meter::default(),
            pulls: zeros(count).into(),
            tasks: zeros(count).into(),
            sampled_tasks: Sampler::one_in(TASK_SAMPLE),
            calls: zeros(count).into(),
            sampled_calls: Sampler::one_in(CALL_SAMPLE),
            fairness: Fairness::new(),
            traffic: Traffic::new(shared),
        }
    }

    /// Of batches that came, by element.
    pub(crate) fn cycles(&self) -> &IndexVec<ElementId, CycleStats> {
        &self.cycles
    }

    /// Of fetching packets, by the element that they are fetched from.
    pub(crate) fn pulls(&self) -> &IndexVec<ElementId, CycleStats> {
        &self.pulls
    }

    /// Of tasks, by element.
    pub(crate) fn tasks(&self) -> &IndexVec<ElementId, TaskStats> {
        &self.tasks
    }

    /// Of timers and descriptors, by element.
    pub(crate) fn calls(&self) -> &IndexVec<ElementId, TaskStats> {
        &self.calls
    }

    /// Which task hands packets to which.
    pub(super) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// How many packets of `most` a source may take now.
    #[inline]
    pub(super) fn fair_burst(&mut self, of: ElementId, most: usize) -> usize {
        self.fairness.burst(of, most)
    }

    /// Whether the batch that an element is about to get is to be timed.
    #[inline(always)]
    pub(super) fn picks_batch(&mut self) -> bool {
        self.sampled.picks()
    }

    /// Counts a timed batch.
    pub(super) fn time_batch(&mut self, element: ElementId, begun: u64, packets: usize) {
        self.cycles[element].time(sync::tsc().saturating_sub(begun), packets);
    }

    /// Whether the run that is under way is timed, and with it what it fetches.
    #[inline(always)]
    pub(super) fn is_timing(&self) -> bool {
        self.meter.is_on()
    }

    /// Packets are about to be fetched: begins to time that, within a timed run.
    pub(super) fn begin_fetch(&mut self) -> Option<Span> {
        self.meter.is_on().then(|| self.meter.begin(true))
    }

    /// They have been fetched from this element, so many.
    pub(super) fn end_fetch(&mut self, span: &Span, from: Option<ElementId>, packets: usize) {
        let cycles = self.meter.end(span);
        // A fetch that finds nothing says nothing of what packets cost.
        let stats = from.and_then(|from| self.pulls.get_mut(from)).filter(|_| packets > 0);
        stats.into_iter().for_each(|stats| stats.time(cycles, packets));
    }

    /// Begins something that is no part of what the running element costs.
    pub(super) fn begin_apart(&mut self) -> Option<Span> {
        self.meter.is_on().then(|| self.meter.begin(false))
    }

    pub(super) fn end_apart(&mut self, span: Option<&Span>) {
        if let Some(span) = span {
            self.meter.end(span);
        }
    }

    /// The element of a timed run has returned; what it sent is yet to be carried.
    #[inline]
    pub(super) fn end_own(&mut self, run: &mut TimedRun) {
        run.own = self.meter.end(&run.span);
    }

    /// Counts a run: a task's only if there was work.
    #[inline(always)]
    pub(super) fn count_run(&mut self, element: ElementId, doing: Doing, worked: bool) {
        if doing == Doing::Task {
            let stats = &mut self.tasks[element];
            stats.runs += u64::from(worked);
            stats.idle = !worked;
        } else {
            self.calls[element].runs += 1;
        }
    }

    /// Whether the last run of a task found nothing to do.
    pub(super) fn is_idle(&self, element: ElementId) -> bool {
        self.tasks[element].idle
    }

    /// A task was put in line, or taken out: one that is in line anew counts as busy.
    pub(super) fn set_scheduled(&mut self, element: ElementId, on: bool) {
        self.tasks[element].idle &= !on;
    }

    /// Adds what was measured of element `o` elsewhere.
    pub(super) fn add(&mut self, n: ElementId, old: &Costs, o: ElementId) {
        // Counters of which there is nothing to add stay untouched: they take no memory until then.
        fn add<S: Copy + Default + PartialEq>(into: &mut S, more: S, add: fn(&mut S, S)) {
            if more != S::default() {
                add(into, more);
            }
        }
        add(&mut self.cycles[n], old.cycles[o], CycleStats::add);
        add(&mut self.pulls[n], old.pulls[o], CycleStats::add);
        add(&mut self.tasks[n], old.tasks[o], TaskStats::add);
        add(&mut self.calls[n], old.calls[o], TaskStats::add);
    }
}

impl Worker {
    /// Begins to time a run of an element, if it is picked.
    #[inline(always)]
    pub(super) fn pick_run(&mut self, element: ElementId, doing: Doing) -> Option<TimedRun> {
        let costs = &mut self.costs;
        let sampled = if doing == Doing::Task { &mut costs.sampled_tasks } else { &mut costs.sampled_calls };
        if sampled.picks() { Some(self.time_run(element, doing)) } else { None }
    }

    #[inline(never)]
    fn time_run(&mut self, element: ElementId, doing: Doing) -> TimedRun {
        if doing == Doing::Task {
            self.costs.traffic.note(element, &self.shared, self.connections.counters());
        }
        let made = self.accounts.made(element);
        TimedRun { span: self.costs.meter.begin(true), made, own: 0 }
    }

    /// A timed run has ended, with all that followed from it, and there was work.
    #[inline(never)]
    pub(super) fn count_timed(&mut self, element: ElementId, doing: Doing, run: &TimedRun) {
        let cycles = sync::tsc().saturating_sub(run.span.begun);
        let costs = &mut self.costs;
        if doing != Doing::Task {
            return costs.calls[element].time(cycles, run.own);
        }
        costs.tasks[element].time(cycles, run.own);
        if costs.fairness.has_asked(element) && !self.clock.is_simulated() {
            let packets = self.accounts.made(element).saturating_sub(run.made);
            costs.fairness.note(element, (cycles, packets), self.pace.rounds());
        }
        costs.traffic.count(element, self.connections.counters());
    }
}
