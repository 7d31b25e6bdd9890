// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stopping all workers where no packet is on its way, to take them and to let others go on in their places.
//!
//! ```text
//!  thread that changes   ask ......................... | take        | resume
//!  each worker           ... forwards ...... forwards  | park | hands over, waits | goes on as another ...
//! ```
//!
//! A message asks each worker to stop between two rounds: no packet is then on its way, and no element runs. While it waits for
//! the others, it goes on answering their calls, so that none of them waits for one that is parked. When all have come, each hands
//! over its whole [`Worker`], by a channel. There is no other synchronisation.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use sync::mutex::lock;

use crate::mailbox::ASK_AGAIN;
use crate::runtime::Runtime;
use crate::shared::Shared;
use crate::worker::{Halt, Order, Worker};
use element::IndexVec;

pub use crate::worker::LOOK_EVERY;

/// How often, and how long each time, a thread waits for another one that has stopped all workers.
const MOMENTS: u32 = 100;
const MOMENT: Duration = Duration::from_millis(1);

/// Why workers could not be taken. They go on as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HaltError {
    /// The router has stopped.
    Stopped,
    /// A worker is stuck, so that it cannot be handed over: which, where, and for how long.
    Stalled(String),
}

impl Runtime {
    /// Whether all workers will come when asked, as far as known.
    fn all_move(&self) -> Result<(), HaltError> {
        let stuck = self.mailboxes.iter().enumerate().find_map(|(w, m)| Some((w, m.trouble()?)));
        stuck.map_or(Ok(()), |(w, trouble)| Err(HaltError::Stalled(trouble.refusal(w))))
    }

    /// The right to stop all workers, when nobody else has it.
    pub fn exclusive(&self) -> MutexGuard<'_, ()> {
        lock(&self.changing)
    }

    /// The same, or nothing after a moment: a worker may wait for the thread that asks here, while the other waits for that worker.
    pub fn try_exclusive(&self) -> Option<MutexGuard<'_, ()>> {
        for _ in 0..MOMENTS {
            match self.changing.try_lock() {
                Ok(turn) => return Some(turn),
                Err(TryLockError::Poisoned(turn)) => return Some(turn.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(MOMENT),
            }
        }
        None
    }

    /// Asks all workers to park.
    ///
    /// # Errors
    /// They cannot be taken.
    pub fn halt(self: &Arc<Runtime>) -> Result<Halted, HaltError> {
        self.all_move()?;
        Halted::ask(self).ok_or(HaltError::Stopped)
    }

    /// Workers of a configuration that have nothing, in the place of others: with room for instances, or without.
    pub fn placeholders(&self, shared: &Arc<Shared>, with_slots: bool) -> Vec<Worker> {
        let n = if with_slots { shared.elements.len() } else { 0 };
        let none = || (0..n).map(|_| None).collect::<IndexVec<_, _>>();
        let clock = || self.clock.clone();
        let worker = |w| Worker::new(w, shared.clone(), clock(), none(), false, self.common.as_ref());
        (0..shared.workers()).map(worker).collect()
    }
}

/// The other end, for all workers.
pub struct Halted {
    runtime: Arc<Runtime>,
    here: Receiver<Option<Instant>>,
    orders: Vec<Sender<Order>>,
    selves: Receiver<Box<Worker>>,
}

impl Halted {
    /// Asks all workers to park. `None` when one has ended.
    fn ask(runtime: &Arc<Runtime>) -> Option<Halted> {
        let (arrive, here) = channel();
        let (give, selves) = channel();
        let mut halted = Halted { runtime: runtime.clone(), here, orders: Vec::new(), selves };
        for mailbox in runtime.mailboxes.iter() {
            let (order, orders) = channel();
            let halt = Halt { here: arrive.clone(), orders, selves: give.clone() };
            if !mailbox.post(Box::new(move |w: &mut Worker| w.ask_to_halt(halt))) {
                halted.orders.iter().for_each(|o| drop(o.send(Order::GoOn)));
                return None;
            }
            halted.orders.push(order);
        }
        Some(halted)
    }

    /// Waits until all have parked, and takes them, with the time when the first one came. Placeholders of this configuration stay
    /// meanwhile.
    ///
    /// # Errors
    /// They cannot be taken.
    pub fn take(&self, shared: &Arc<Shared>) -> Result<(Vec<Worker>, Instant), HaltError> {
        let placeholders = self.runtime.placeholders(shared, false);
        let mut since = None;
        for _ in &self.orders {
            let at = match self.arrival() {
                Ok(at) => at,
                Err(why) => {
                    // One that is stuck finds this when it goes on.
                    self.orders.iter().for_each(|o| drop(o.send(Order::GoOn)));
                    return Err(why);
                }
            };
            since = Some(since.map_or(at, |s: Instant| s.min(at)));
        }
        self.runtime.mailboxes.iter().for_each(|m| m.set_away(true));
        for (order, placeholder) in self.orders.iter().zip(placeholders) {
            let _ = order.send(Order::HandOver(Box::new(placeholder)));
        }
        let mut workers: Vec<Worker> =
            self.orders.iter().filter_map(|_| self.selves.recv().ok()).map(|w| *w).collect();
        workers.sort_by_key(|w| w.index());
        debug_assert_eq!(workers.len(), self.orders.len());
        Ok((workers, since.ok_or(HaltError::Stopped)?))
    }

    /// Waits until one more has parked, as long as none is stuck.
    fn arrival(&self) -> Result<Instant, HaltError> {
        loop {
            match self.here.recv_timeout(ASK_AGAIN) {
                Ok(at) => return at.ok_or(HaltError::Stopped),
                Err(RecvTimeoutError::Disconnected) => return Err(HaltError::Stopped),
                Err(RecvTimeoutError::Timeout) => self.runtime.all_move()?,
            }
        }
    }

    /// Lets them go on as these; returns when, in cycles.
    pub fn resume(&self, workers: Vec<Worker>) -> u64 {
        let at = sync::tsc();
        self.runtime.mailboxes.iter().for_each(|m| m.set_away(false));
        for (order, worker) in self.orders.iter().zip(workers) {
            let _ = order.send(Order::Become(Box::new(worker)));
        }
        at
    }
}
