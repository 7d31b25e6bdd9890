// SPDX-License-Identifier: MIT OR Apache-2.0
//! How batches get from element to element: pushed ones by the worker's stack, pulled ones by asking.

use std::num::NonZeroUsize;

use packet::{Batch, Packet};

use super::{Job, Open, Worker};
use crate::ports::Edge;
use crate::pulse::{Doing, Spot};
use element::drops::Reason;
use element::{Cx, ElementId, PortIndex};

/// Packets that join to one batch at most: more would not fit its first memory.
const JOINED_MAX: usize = 256;

/// Batches among which one for the same output is looked for.
const LOOKS: usize = 32;

impl Worker {
    /// Carries what the running element has sent, or what lies there when none runs, until nothing is left of it.
    #[inline]
    pub(crate) fn drain(&mut self) {
        self.drain_as::<true>();
    }

    #[inline(always)]
    pub(super) fn drain_as<const TOLD: bool>(&mut self) {
        if TOLD && self.is_witnessed() && !self.drains_plainly() {
            return self.drain_witnessed();
        }
        let floor = self.floor;
        self.stack[floor..].reverse();
        while self.stack.len() > floor {
            if let Some(job) = self.stack.pop() {
                self.dispatch::<TOLD>(job);
            }
        }
        self.bury();
    }

    #[inline(always)]
    pub(super) fn dispatch<const TOLD: bool>(&mut self, job: Job) {
        let Job { element, port, batch, .. } = job;
        if self.fused[element].is_some() && port == PortIndex::FIRST {
            self.dispatch_fused::<TOLD>(element, batch);
        } else {
            self.dispatch_plain::<TOLD>(element, port, batch);
        }
    }

    /// Runs the element itself, whether or not a pass could replace it.
    #[inline]
    pub(super) fn dispatch_plain<const TOLD: bool>(
        &mut self,
        element: ElementId,
        port: PortIndex,
        batch: Batch,
    ) {
        let Some(mut instance) = self.slots[element].take() else {
            return self.drop_batch(element, Reason::LoopDetected, batch);
        };
        self.pulse.carry(Spot::new(element, Doing::Push, port), &batch);
        let floor = std::mem::replace(&mut self.floor, self.stack.len());
        let packets = batch.len();
        if self.sampled.picks() {
            let before = sync::tsc();
            instance.push(&mut Cx::new(self, element), port.index(), batch);
            let cycles = sync::tsc().saturating_sub(before);
            self.cycles[element].time(cycles, packets);
        } else {
            instance.push(&mut Cx::new(self, element), port.index(), batch);
        }
        self.slots[element] = Some(instance);
        // The stack gives back the last first, so what was sent first has to lie on top.
        if self.stack.len() > self.floor + 1 {
            self.stack[self.floor..].reverse();
        }
        self.floor = floor;
        if TOLD && self.telling.spans() {
            self.tell_batch(element, Doing::Push, port, packets);
        }
    }

    /// Puts a batch on its way out of push output `port`.
    #[inline]
    pub(crate) fn emit(&mut self, element: ElementId, port: PortIndex, batch: Batch) {
        if batch.is_empty() {
            return;
        }
        let Some(at) = self.outputs.at(element, port) else {
            return self.drop_batch(element, Reason::NoOutput, batch);
        };
        let edge = self.outputs.edges[at];
        let stats = &mut self.sent[at];
        stats.packets += batch.len() as u64;
        stats.batches += 1;
        self.send(edge, port, batch);
    }

    /// Puts one packet on its way out of push output `port`, with those that the running element has sent there before.
    #[inline]
    pub(crate) fn emit_one(&mut self, element: ElementId, port: usize, packet: Packet) {
        if let Some(packet) = self.add_to_open(element, port, packet) {
            self.emit_first(element, PortIndex::new(port), packet);
        }
    }

    /// Adds a packet to the batch that another one has just been added to, if it goes the same way and nothing was sent since. Gives it back if not.
    #[inline(always)]
    pub(crate) fn add_to_open(&mut self, element: ElementId, port: usize, packet: Packet) -> Option<Packet> {
        if let Some(Open { element: sender, out, at, job, depth }) = self.open
            && sender == element
            && out.index() == port
            && job >= self.floor
            && depth.get() == self.stack.len()
            && let Some(job) = self.stack.get_mut(job)
            && job.out == out
            && job.batch.len() < JOINED_MAX
            && let Some(stats) = self.sent.get_mut(at)
            && let Some(edge) = self.outputs.edges.get(at)
            && (job.element, job.port) == (edge.element, edge.port)
        {
            stats.packets += 1;
            job.batch.push(packet);
            return None;
        }
        Some(packet)
    }

    /// Puts one packet on its way by another output than the last one.
    #[inline(never)]
    fn emit_first(&mut self, element: ElementId, port: PortIndex, packet: Packet) {
        let Some(at) = self.outputs.at(element, port) else {
            return self.drop_one(element, Reason::NoOutput, packet);
        };
        let job = match self.open_job(at, port, 1) {
            Some(job) => {
                self.stack[job].batch.push(packet);
                self.sent[at].packets += 1;
                job
            }
            None => {
                self.emit(element, port, Batch::of(packet));
                self.stack.len() - 1
            }
        };
        if self.joins {
            let depth = NonZeroUsize::new(self.stack.len());
            self.open = depth.map(|depth| Open { element, out: port, at, job, depth });
        }
    }

    /// As [`Worker::emit`], with what the running element has sent there before.
    #[inline]
    pub(crate) fn emit_joined(&mut self, element: ElementId, port: PortIndex, mut batch: Batch) {
        let n = batch.len();
        let at = self.outputs.at(element, port).filter(|_| n > 0);
        match at.and_then(|at| Some((at, self.open_job(at, port, n)?))) {
            Some((at, job)) => {
                self.stack[job].batch.append(&mut batch);
                self.sent[at].packets += n as u64;
            }
            None => self.emit(element, port, batch),
        }
    }

    /// Where the batch lies on the stack that the running element has sent last by this output, if `n` packets more can join it. Who sends by many
    /// outputs in turn is better off with a `Splitter`: only the last [`LOOKS`] are looked at.
    fn open_job(&self, at: usize, out: PortIndex, n: usize) -> Option<usize> {
        if !self.joins {
            return None;
        }
        let edge = self.outputs.edges[at];
        let is_there = |job: &Job| (job.element, job.port, job.out) == (edge.element, edge.port, out);
        let first = self.floor.max(self.stack.len().saturating_sub(LOOKS));
        let found = self.stack.get(first..)?.iter().rposition(is_there)? + first;
        (self.stack[found].batch.len() + n <= JOINED_MAX).then_some(found)
    }

    /// Leaves a batch on the stack for the element that an output leads to.
    #[inline]
    pub(super) fn send(&mut self, edge: Edge, out: PortIndex, mut batch: Batch) {
        if self.burst == 1 && batch.len() > 1 {
            for packet in batch.drain(..) {
                self.stack.push(Job::to(edge, out, Batch::of(packet)));
            }
        } else {
            self.stack.push(Job::to(edge, out, batch));
        }
        if edge.wakes {
            self.shared.wake_sleepers_after(edge.element, self.index);
        }
    }

    /// Asks the element that feeds pull input `port` for packets.
    #[inline]
    pub(crate) fn fetch(&mut self, element: ElementId, port: PortIndex, max: usize) -> Batch {
        if self.is_attended() || self.meter.is_on() {
            self.fetch_told(element, port, max)
        } else {
            self.fetch_as::<false>(element, port, max)
        }
    }

    #[cold]
    #[inline(never)]
    fn fetch_told(&mut self, element: ElementId, port: PortIndex, max: usize) -> Batch {
        let span = self.meter.is_on().then(|| self.meter.begin(true));
        let batch = self.fetch_as::<true>(element, port, max);
        if let Some(span) = span {
            let cycles = self.meter.end(&span);
            let from = self.inputs.at(element, port).map(|at| self.inputs.edges[at].element);
            let stats = from.and_then(|from| self.pulls.get_mut(from));
            // One that finds nothing says nothing of what packets cost.
            stats.filter(|_| !batch.is_empty()).into_iter().for_each(|s| s.time(cycles, batch.len()));
        }
        batch
    }

    #[inline(always)]
    fn fetch_as<const TOLD: bool>(&mut self, element: ElementId, port: PortIndex, max: usize) -> Batch {
        let Some(at) = self.inputs.at(element, port) else { return Batch::new() };
        let edge = self.inputs.edges[at];
        let Some(Some(mut instance)) = self.slots.get_mut(edge.element).map(Option::take) else {
            return Batch::new();
        };
        let asker = self.pulse.spot();
        self.pulse.enter(Spot::new(edge.element, Doing::Pull, edge.port));
        let begun = (TOLD && self.telling.spans()).then(sync::tsc);
        let mut batch = instance.pull(&mut Cx::new(self, edge.element), edge.port.index(), max);
        self.pulse.enter(asker);
        self.slots[edge.element] = Some(instance);
        let stats = &mut self.fetched[at];
        stats.packets += batch.len() as u64;
        stats.batches += u64::from(!batch.is_empty());
        if let Some(begun) = begun {
            self.tell_pull(edge.element, edge.port, begun, batch.len());
        }
        if TOLD && self.is_witnessed() {
            self.show_fetched(edge, element, port, &mut batch);
        }
        batch
    }
}
