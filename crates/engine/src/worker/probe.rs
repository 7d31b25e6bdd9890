// SPDX-License-Identifier: MIT OR Apache-2.0
//! Observation as a type: what carries batches is compiled once with it and once without.
//!
//! A worker chooses for each run of a task, timer or descriptor, and for each fetch: [`Observed`] if a [recording](super::recording) runs or there are
//! [observers](super::observing), else [`NoProbe`], of which nothing is left in the program.

use packet::Batch;

use super::Worker;
use super::carrier::Job;
use crate::ports::Edge;
use crate::pulse::{Doing, Spot};
use element::{ElementId, PortIndex};

/// Where what a worker does can be observed. Each hook does nothing unless a probe says otherwise.
pub(super) trait Probe: Sized {
    /// A run begins: returns when, in cycles, or 0 if it is not recorded.
    #[inline(always)]
    fn begin_run(_: &mut Worker) -> u64 {
        0
    }

    /// An element has returned from what it was called for. What it sent lies on the stack.
    #[inline(always)]
    fn returned(_: &mut Worker, _: Spot) {}

    /// The same of a run in which there was work. Nothing has been carried yet.
    #[inline(always)]
    fn begin_carrying(_: &mut Worker, _: ElementId, _: Doing) {}

    /// All that followed from a run that began then has been carried.
    #[inline(always)]
    fn end_run(_: &mut Worker, _: ElementId, _: Doing, _begun: u64) {}

    /// What lies on the stack is about to be carried.
    #[inline(always)]
    fn begin_drain(_: &mut Worker) {}

    /// Gives a batch to its element.
    #[inline(always)]
    fn carry(worker: &mut Worker, job: Job) {
        worker.dispatch::<Self>(job);
    }

    /// An element, or a pass, has processed a batch of so many packets.
    #[inline(always)]
    fn processed(_: &mut Worker, _: Spot, _packets: usize) {}

    /// An element is about to be asked for packets: returns when, in cycles, if that is recorded.
    #[inline(always)]
    fn begin_fetch(_: &Worker) -> Option<u64> {
        None
    }

    /// Packets were fetched from the element of this edge, for an input of another.
    #[inline(always)]
    fn fetched(_: &mut Worker, _from: Edge, _to: (ElementId, PortIndex), _begun: Option<u64>, _: &mut Batch) {
    }
}

/// Nobody observes.
pub(super) enum NoProbe {}

impl Probe for NoProbe {}

/// A recording runs, or there are observers.
pub(super) enum Observed {}

impl Probe for Observed {
    #[inline(always)]
    fn begin_run(worker: &mut Worker) -> u64 {
        worker.record_begin()
    }

    #[inline(always)]
    fn returned(worker: &mut Worker, spot: Spot) {
        if worker.has_observers() {
            worker.end_own_step(spot);
        }
    }

    #[inline(always)]
    fn begin_carrying(worker: &mut Worker, element: ElementId, doing: Doing) {
        worker.record_own(element, doing);
    }

    #[inline(always)]
    fn end_run(worker: &mut Worker, element: ElementId, doing: Doing, begun: u64) {
        worker.record_end(element, doing, begun);
    }

    #[inline(always)]
    fn begin_drain(worker: &mut Worker) {
        if worker.observes_packets() {
            worker.show_own();
        }
    }

    #[inline(always)]
    fn carry(worker: &mut Worker, job: Job) {
        if worker.observes_steps() {
            worker.carry_observed(job);
        } else {
            worker.dispatch::<Observed>(job);
        }
    }

    #[inline(always)]
    fn processed(worker: &mut Worker, spot: Spot, packets: usize) {
        worker.record_processed(spot, packets);
    }

    #[inline(always)]
    fn begin_fetch(worker: &Worker) -> Option<u64> {
        worker.record_begin_fetch()
    }

    #[inline(always)]
    fn fetched(
        worker: &mut Worker,
        from: Edge,
        to: (ElementId, PortIndex),
        begun: Option<u64>,
        batch: &mut Batch,
    ) {
        if let Some(begun) = begun {
            worker.record_fetch(from, begun, batch.len());
        }
        if worker.has_observers() {
            worker.show_fetched(from, to, batch);
        }
    }
}
