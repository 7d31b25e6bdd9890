// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stack of batches on their way, and the packets that wait to be freed.
//!
//! First sent, first taken, and all that follows from it before the next: with batches of one packet that is Click's depth-first order. While an
//! element runs, the *floor* marks where the part of the stack begins that it has sent.

use std::num::NonZeroUsize;
use std::vec::Drain;

use packet::{Batch, Packet};

use super::connections::Connections;
use crate::ports::Edge;
use element::{ElementId, PortIndex};

/// Packets that join to one batch at most: more would not fit its first memory.
const JOINED_MAX: usize = 256;

/// Batches among which one for the same output is looked for.
const LOOKS: usize = 32;

/// Dropped packets that may wait to be freed.
const DEAD_MAX: usize = 128;

/// A batch on its way to an input.
pub(super) struct Job {
    pub(super) element: ElementId,
    pub(super) port: PortIndex,
    /// The output that it has left by.
    pub(super) out: PortIndex,
    /// Observers have seen it where it is.
    pub(super) shown: bool,
    pub(super) batch: Batch,
}

impl Job {
    #[inline]
    pub(super) fn to(edge: Edge, out: PortIndex, batch: Batch) -> Job {
        Job { element: edge.element, port: edge.port, out, shown: false, batch }
    }

    /// Whether it has left by this output, to where the output leads.
    fn left_by(&self, edge: Edge, out: PortIndex) -> bool {
        (self.element, self.port, self.out) == (edge.element, edge.port, out)
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

/// See the module.
pub(super) struct Carrier {
    stack: Vec<Job>,
    /// What left a fused chain before its end, kept for its memory.
    aside: Vec<Job>,
    /// Where the part of the stack begins that the running element has sent.
    floor: usize,
    /// The batch that a packet was added to last.
    open: Option<Open>,
    /// Packets that an element sends one by one join.
    joins: bool,
    burst: usize,
    /// The element that ran last by itself, and not because a batch had come.
    acting: Option<ElementId>,
    /// Dropped packets, until nothing is left of what the task has sent that led to them.
    dead: Batch,
}

/// How packets joined before an element was only tried.
pub(super) struct Before {
    floor: usize,
    joins: bool,
}

impl Carrier {
    pub(super) fn new(burst: usize) -> Carrier {
        Carrier {
            stack: Vec::with_capacity(64),
            aside: Vec::new(),
            floor: 0,
            open: None,
            joins: burst > 1,
            burst,
            acting: None,
            dead: Batch::new(),
        }
    }

    /// Packets to be handled at a time.
    #[inline]
    pub(super) fn burst(&self) -> usize {
        self.burst
    }

    /// Whether no batch is on its way.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.stack.is_empty()
    }

    /// Whether no element that was given a batch is running.
    pub(super) fn is_at_ground(&self) -> bool {
        self.floor == 0
    }

    #[inline]
    pub(super) fn depth(&self) -> usize {
        self.stack.len()
    }

    /// Turns what the running element has sent so that what it sent first lies on top. Returns down to where that is to be carried.
    #[inline(always)]
    pub(super) fn begin(&mut self) -> usize {
        self.stack[self.floor..].reverse();
        self.floor
    }

    /// Takes the top batch, if it lies above the floor.
    #[inline(always)]
    pub(super) fn next(&mut self, floor: usize) -> Option<Job> {
        if self.stack.len() > floor { self.stack.pop() } else { None }
    }

    /// An element begins to run: what it sends lies above what is here. Returns the floor before, for [`Carrier::leave`].
    #[inline(always)]
    pub(super) fn enter(&mut self) -> usize {
        std::mem::replace(&mut self.floor, self.stack.len())
    }

    /// It has ended. The stack gives back the last first, so what was sent first has to lie on top.
    #[inline(always)]
    pub(super) fn leave(&mut self, floor: usize) {
        if self.stack.len() > self.floor + 1 {
            self.stack[self.floor..].reverse();
        }
        self.floor = floor;
    }

    /// Leaves a batch for the element that an output leads to.
    #[inline]
    pub(super) fn push(&mut self, edge: Edge, out: PortIndex, mut batch: Batch) {
        if self.burst == 1 && batch.len() > 1 {
            for packet in batch.drain(..) {
                self.stack.push(Job::to(edge, out, Batch::of(packet)));
            }
        } else {
            self.stack.push(Job::to(edge, out, batch));
        }
    }

    /// Puts a batch back that is to be taken next.
    pub(super) fn put_back(&mut self, job: Job) {
        self.stack.push(job);
    }

    /// Adds a packet to the batch that another one has just been added to, if it goes the same way and nothing was sent since. Gives it back if not.
    #[inline(always)]
    pub(super) fn add_to_open(
        &mut self,
        connections: &mut Connections,
        element: ElementId,
        port: usize,
        packet: Packet,
    ) -> Option<Packet> {
        if let Some(Open { element: sender, out, at, job, depth }) = self.open
            && sender == element
            && out.index() == port
            && job >= self.floor
            && depth.get() == self.stack.len()
            && let Some(job) = self.stack.get_mut(job)
            && job.out == out
            && job.batch.len() < JOINED_MAX
            && let Some((edge, stats)) = connections.output_mut(at)
            && (job.element, job.port) == (edge.element, edge.port)
        {
            stats.packets += 1;
            job.batch.push(packet);
            return None;
        }
        Some(packet)
    }

    /// Lets the next packet for this output join the batch at `job`.
    #[inline]
    pub(super) fn set_open(&mut self, (element, out): (ElementId, PortIndex), at: usize, job: usize) {
        if self.joins {
            let depth = NonZeroUsize::new(self.stack.len());
            self.open = depth.map(|depth| Open { element, out, at, job, depth });
        }
    }

    /// Where the batch lies that the running element has sent last by this output, if `n` packets more can join it. Who sends by many outputs in
    /// turn is better off with a `Splitter`: only the last [`LOOKS`] are looked at.
    pub(super) fn find_open(&self, edge: Edge, out: PortIndex, n: usize) -> Option<usize> {
        if !self.joins {
            return None;
        }
        let first = self.floor.max(self.stack.len().saturating_sub(LOOKS));
        let found = self.stack.get(first..)?.iter().rposition(|job| job.left_by(edge, out))? + first;
        (self.stack[found].batch.len() + n <= JOINED_MAX).then_some(found)
    }

    /// The batch at such a place.
    #[inline]
    pub(super) fn batch_mut(&mut self, job: usize) -> &mut Batch {
        &mut self.stack[job].batch
    }

    /// What the running element has sent so far.
    pub(super) fn sent(&self) -> &[Job] {
        &self.stack[self.floor..]
    }

    /// The same, in the order of the stack.
    pub(super) fn sent_mut(&mut self) -> &mut [Job] {
        &mut self.stack[self.floor..]
    }

    /// What lies above `depth`.
    pub(super) fn above_mut(&mut self, depth: usize) -> &mut [Job] {
        &mut self.stack[depth..]
    }

    /// Takes what lies above `depth`.
    pub(super) fn take_above(&mut self, depth: usize) -> Drain<'_, Job> {
        self.stack.drain(depth..)
    }

    /// Takes the top batch.
    pub(super) fn pop(&mut self) -> Option<Job> {
        self.stack.pop()
    }

    /// Forgets all batches.
    pub(super) fn clear(&mut self) {
        self.stack.clear();
    }

    /// An empty list of batches, for those that leave a fused chain before its end.
    pub(super) fn take_aside(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.aside)
    }

    /// Puts these on the stack, the first on top, and keeps the list's memory.
    pub(super) fn push_aside(&mut self, mut aside: Vec<Job>) {
        self.stack.extend(aside.drain(..).rev());
        self.aside = aside;
    }

    /// Says whether packets that are sent one by one may join.
    pub(super) fn let_join(&mut self, joins: bool) {
        (self.joins, self.open) = (joins && self.burst > 1, None);
    }

    /// An element is only tried: nothing joins what it sends.
    pub(super) fn begin_try(&mut self) -> Before {
        self.open = None;
        Before { floor: self.enter(), joins: std::mem::replace(&mut self.joins, false) }
    }

    /// Ends that; returns what the element has sent.
    pub(super) fn end_try(&mut self, before: &Before) -> Vec<Job> {
        let sent = self.stack.drain(self.floor..).collect();
        (self.joins, self.floor) = (before.joins, before.floor);
        sent
    }

    /// The element that ran last by itself.
    pub(super) fn acting(&self) -> Option<ElementId> {
        self.acting
    }

    #[inline(always)]
    pub(super) fn set_acting(&mut self, element: ElementId) {
        self.acting = Some(element);
    }

    /// Keeps a dropped packet until it is freed with others: a frame costs less in a batch than alone.
    #[inline]
    pub(super) fn add_dead(&mut self, packet: Packet) {
        self.dead.push(packet);
        if self.dead.len() >= DEAD_MAX {
            self.dead.free_all();
        }
    }

    /// Frees dropped packets.
    #[inline(always)]
    pub(super) fn free_dead(&mut self) {
        if !self.dead.is_empty() {
            self.free_all();
        }
    }

    #[cold]
    #[inline(never)]
    fn free_all(&mut self) {
        self.dead.free_all();
    }
}
