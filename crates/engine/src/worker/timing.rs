// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a worker times its rounds while an observer waits for one that takes too long. See [`stall`](crate::stall).

use super::Worker;
use super::carrier::Job;
use crate::pulse::{Doing, Spot};
use crate::stall::Stopwatch;
use element::PortIndex;

impl Worker {
    fn stopwatch(&mut self) -> Option<&mut Stopwatch> {
        self.observers.as_mut()?.stopwatch()
    }

    /// A round begins, or something else that counts as one.
    #[inline(always)]
    pub(super) fn begin_stopwatch(&mut self) {
        if self.has_observers() {
            self.begin_timed_round();
        }
    }

    /// It has ended, and there was work or not.
    #[inline(always)]
    pub(super) fn end_stopwatch(&mut self, worked: bool) {
        if self.has_observers() {
            self.end_timed_round(worked);
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_timed_round(&mut self) {
        if let Some(watch) = self.stopwatch() {
            watch.begin();
        }
    }

    #[cold]
    #[inline(never)]
    fn end_timed_round(&mut self, worked: bool) {
        let Some(mut all) = self.observers.take() else { return };
        // It says when the round began until it is asked anew.
        let now = || {
            self.clock.expire();
            self.clock.wall()
        };
        let watch = all.stopwatch();
        let stall = watch.and_then(|watch| watch.end(self.index, &self.shared, worked, now));
        if let Some(stall) = stall {
            all.report_stall(&stall);
        }
        self.observers = Some(all);
    }

    /// An element is about to get a batch.
    pub(super) fn begin_step(&mut self, job: &Job) -> Option<Spot> {
        let is_pass = job.port == PortIndex::FIRST && self.instances.is_fused(job.element);
        self.stopwatch()?.take(&job.batch);
        Some(Spot::new(job.element, if is_pass { Doing::Pass } else { Doing::Push }, job.port))
    }

    /// It has processed the batch.
    pub(super) fn end_step(&mut self, spot: Option<Spot>) {
        if let (Some(spot), Some(watch)) = (spot, self.stopwatch()) {
            watch.step(spot);
        }
    }

    /// An element has returned from a call without a batch; what it has sent lies on the stack.
    #[cold]
    #[inline(never)]
    pub(super) fn end_own_step(&mut self, spot: Spot) {
        if let Some(watch) = self.observers.as_mut().and_then(|all| all.stopwatch()) {
            watch.own_step(spot, self.carrier.sent().iter().map(|job| job.batch.as_slice()));
        }
    }
}
