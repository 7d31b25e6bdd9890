// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a worker takes the time of its rounds while somebody waits for one that takes too long. See [`stall`](crate::stall).

use super::{Job, Worker};
use crate::pulse::{Doing, Spot};
use crate::stall::Stopwatch;
use element::PortIndex;

impl Worker {
    fn stopwatch(&mut self) -> Option<&mut Stopwatch> {
        self.witnessing.as_mut()?.stopwatch.as_mut()
    }

    /// A round, with somebody to see it.
    #[cold]
    #[inline(never)]
    pub(super) fn timed_round(&mut self) -> bool {
        self.begin_timing();
        let worked = self.plain_round();
        self.end_timing(worked);
        worked
    }

    /// A round begins, or what is none and is done as if it were one.
    pub(super) fn begin_timing(&mut self) {
        if let Some(watch) = self.stopwatch() {
            watch.begin();
        }
    }

    /// It has ended, and there was work or not.
    pub(super) fn end_timing(&mut self, worked: bool) {
        let Some(mut all) = self.witnessing.take() else { return };
        // It says when the round began until it is asked anew.
        let now = || {
            self.clock.expire();
            self.clock.wall()
        };
        let watch = all.stopwatch.as_mut();
        let stall = watch.and_then(|watch| watch.end(self.index, &self.shared, worked, now));
        if let Some(stall) = stall {
            let wants = |bound: Option<u64>| bound.is_some_and(|bound| stall.cycles > bound);
            let told = all.seats.iter_mut().filter(|seat| wants(seat.wants.rounds_above));
            told.for_each(|seat| seat.witness.stalled(&stall));
        }
        self.witnessing = Some(all);
    }

    /// An element is about to get a batch.
    pub(super) fn begin_step(&mut self, job: &Job) -> Option<Spot> {
        let doing = if self.runs_as_pass(job) { Doing::Pass } else { Doing::Push };
        self.stopwatch()?.take(&job.batch);
        Some(Spot::new(job.element, doing, job.port))
    }

    /// It has done it.
    pub(super) fn end_step(&mut self, spot: Option<Spot>) {
        if let (Some(spot), Some(watch)) = (spot, self.stopwatch()) {
            watch.step(spot);
        }
    }

    /// An element has done what it was asked for without a batch; what it has sent lies on the stack.
    #[cold]
    #[inline(never)]
    pub(super) fn end_own_step(&mut self, spot: Spot) {
        let Some(all) = &mut self.witnessing else { return };
        if let Some(watch) = &mut all.stopwatch {
            watch.own_step(spot, self.stack[self.floor..].iter().map(|job| job.batch.as_slice()));
        }
    }

    fn runs_as_pass(&self, job: &Job) -> bool {
        job.port == PortIndex::FIRST && self.fused[job.element].is_some()
    }
}
