// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workers that share simulated time: each lies in a slot, and is taken out for its turn.
//!
//! A worker that reads a handler of another one puts itself back meanwhile, so that the other can ask it in return.

use std::sync::{Arc, Mutex};

use sync::mutex::lock;

use super::Worker;
use crate::schedule::Common;

/// The workers of a router on simulated time, those that run none of their code just now.
pub(crate) struct Turns {
    slots: Vec<Mutex<Option<Box<Worker>>>>,
    common: Common,
}

impl Turns {
    /// Puts workers into their slots.
    pub(crate) fn new(workers: impl Iterator<Item = Worker>, common: &Common) -> Turns {
        let slots = workers.map(|w| Mutex::new(Some(Box::new(w)))).collect();
        Turns { slots, common: common.clone() }
    }

    /// What their schedules have in common.
    pub(crate) fn common(&self) -> &Common {
        &self.common
    }

    /// Takes a worker out of its slot, if it is there.
    pub(crate) fn take(&self, w: usize) -> Option<Box<Worker>> {
        lock(&self.slots[w]).take()
    }

    /// Puts a worker into its slot.
    pub(crate) fn put(&self, worker: Box<Worker>) {
        let w = worker.index;
        *lock(&self.slots[w]) = Some(worker);
    }

    /// Calls `f` with a worker that is in its slot.
    pub(crate) fn with<R>(&self, w: usize, f: impl FnOnce(&mut Worker) -> R) -> Option<R> {
        lock(&self.slots[w]).as_deref_mut().map(f)
    }
}

impl Worker {
    /// Lets worker `to` execute its messages, and itself be asked meanwhile.
    pub(crate) fn lend_turn(&mut self, turns: &Arc<Turns>, to: usize) {
        let slots = self.instances.ids().map(|_| None).collect();
        let stand_in = Worker::new(
            self.index,
            self.shared.clone(),
            self.clock.clone(),
            slots,
            self.duty.is_on(),
            Some(&turns.common),
        );
        let mut own = Box::new(std::mem::replace(self, stand_in));
        let mut random = own.random.clone();
        turns.put(own);
        if let Some(mut other) = turns.take(to) {
            std::mem::swap(&mut other.random, &mut random);
            other.clock.advance_to(self.clock.now());
            other.serve();
            std::mem::swap(&mut other.random, &mut random);
            turns.put(other);
        }
        if let Some(back) = turns.take(self.index) {
            own = back;
            own.random = random;
            *self = *own;
        }
    }
}
