// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hot swap: another configuration in place of the one that runs, without closing devices and without losing packets.
//!
//! ```text
//!  thread that swaps    check, open, make, initialise beside | wait | exchange          | resume | finish what is gone
//!  each worker          ... forwards ........ forwards ...... | park | hands over, waits | forwards with the new one ...
//! ```
//!
//! *Beside.* All that can go wrong goes wrong before the running configuration is touched: the new one is checked, opens
//! what the old one has not open, and its instances are initialised, on workers that are not on duty. A device queue that
//! the old one uses is only promised ([`Holdings`]).
//!
//! *Park.* A message asks each worker to stop where no packet is on its way and no element runs: between two rounds. While
//! it waits for the others, it goes on answering their calls, so that none of them waits for one that is parked. When all
//! have come, each hands over its whole [`Worker`], by a channel; there is no other synchronisation.
//!
//! *Exchange.* The one thread that now owns both generations pairs elements of the same name and class, worker by worker:
//! their counters are added, [`Element::take_state`] moves what they hold, device queues go through a [`Depot`]. Packets
//! that find no successor are dropped and counted as `hot-swap`. Each worker gets its new self and goes on.

mod binds;
mod exchange;
mod holdings;
#[cfg(test)]
mod model;
mod placement;
mod rehome;
mod telling;

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use lang::{Diagnostic, Graph};

use crate::build::{Plant, lock};
use crate::clock::Clock;
use crate::remote::Control;
use crate::router::{Router, Shared};
use crate::watchdog::ASK_AGAIN;
use crate::worker::Worker;
use element::{HandlerError, IndexVec};

pub use element::swap::{Depot, same};
pub(crate) use holdings::{Heritage, Holdings};
pub use placement::{Moved, MovedTask, PlaceError, Placement};
pub(crate) use rehome::{Wanted, hulls};

/// How often a parked worker looks for calls of those who have not parked yet.
pub(crate) const LOOK_EVERY: Duration = Duration::from_micros(20);

/// How often, and how long each time, somebody waits for another who has stopped all workers.
const MOMENTS: u32 = 100;
const MOMENT: Duration = Duration::from_millis(1);

/// What a swap did.
#[derive(Clone, Debug, Default)]
pub struct Swapped {
    /// Elements of the new configuration that have a predecessor of the same name and class, whose counters go on.
    pub kept: usize,
    /// Of these, how many took over state of their own: packets, tables, counts.
    pub moved: usize,
    /// Elements that are new.
    pub added: usize,
    /// Elements that are gone.
    pub removed: usize,
    /// Device queues handed over without closing.
    pub queues: usize,
    /// Packets that no element of the new configuration could take, by the element that held them.
    pub dropped: Vec<(String, u64)>,
    /// From the moment that the first worker stopped until the last went on.
    pub pause: Duration,
}

impl Swapped {
    /// Packets dropped.
    pub fn lost(&self) -> u64 {
        self.dropped.iter().map(|d| d.1).sum()
    }
}

impl fmt::Display for Swapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} elements kept, {} of them with state, {} added, {} removed; {} device queues handed over; ",
            self.kept, self.moved, self.added, self.removed, self.queues
        )?;
        write!(f, "{} packets dropped", self.lost())?;
        for (i, (name, n)) in self.dropped.iter().enumerate() {
            write!(f, "{}{n} at {name}", if i == 0 { " (" } else { ", " })?;
        }
        let end = if self.dropped.is_empty() { "" } else { ")" };
        write!(f, "{end}; pause {} us", self.pause.as_micros())
    }
}

/// Why a configuration was not swapped in. The old one runs on untouched.
#[derive(Debug)]
pub enum SwapError {
    /// It cannot be built: all that is wrong with it.
    Refused(Vec<Diagnostic>),
    /// Another configuration is being built or exchanged this moment.
    Busy,
    /// The router has stopped.
    Stopped,
    /// A worker is stuck, so that it cannot be handed over: which, where, and for how long.
    Stalled(String),
}

/// A configuration that was built beside the running one.
struct Prepared {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
}

impl Prepared {
    fn build(plant: &Arc<Plant>, graph: &Arc<Graph>, clock: &Clock) -> Result<Prepared, Vec<Diagnostic>> {
        let heritage = Heritage::of(plant.current(), graph);
        let (shared, workers) = plant.construct(graph, Some(heritage), clock)?;
        Ok(Prepared { shared, workers })
    }

    /// Ends what was built in vain.
    fn discard(mut self) {
        self.workers.iter_mut().for_each(Worker::finish);
    }
}

impl Plant {
    /// Whether all workers will come when asked, as far as known.
    fn all_move(&self) -> Result<(), SwapError> {
        let stuck = self.mailboxes.iter().enumerate().find_map(|(w, m)| Some((w, m.trouble()?)));
        stuck.map_or(Ok(()), |(w, trouble)| Err(SwapError::Stalled(trouble.refusal(w))))
    }

    /// The right to stop all workers. Who else has it gets a moment to be done, and no more: a worker may wait for whoever asks
    /// here, while the other waits for that worker.
    fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        for _ in 0..MOMENTS {
            match self.swapping.try_lock() {
                Ok(turn) => return Some(turn),
                Err(TryLockError::Poisoned(turn)) => return Some(turn.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(MOMENT),
            }
        }
        None
    }
}

impl Control {
    /// Puts another configuration in place of the one that runs. `ready` is called when it has been built and the workers
    /// have been asked to stop for the exchange, which nothing can prevent any more but the router's end.
    ///
    /// # Errors
    /// What is wrong with it, or that the router has stopped.
    pub fn swap(&self, graph: &Graph, ready: impl FnOnce()) -> Result<Swapped, SwapError> {
        self.swap_shared(&Arc::new(graph.clone()), ready)
    }

    /// The same with a graph that need not be copied.
    ///
    /// # Errors
    /// As for [`Control::swap`].
    pub fn swap_shared(&self, graph: &Arc<Graph>, ready: impl FnOnce()) -> Result<Swapped, SwapError> {
        let plant = &self.plant;
        let _turn = plant.turn().ok_or(SwapError::Busy)?;
        let mut clock = plant.clock.clone();
        if clock.is_simulated() {
            clock = self.simulated_clock().ok_or(SwapError::Stopped)?;
        }
        let mut prepared = Prepared::build(plant, graph, &clock).map_err(SwapError::Refused)?;
        let asked = plant.all_move().and_then(|()| Halted::ask(plant).ok_or(SwapError::Stopped));
        let halted = match asked {
            Ok(halted) => halted,
            Err(why) => {
                prepared.discard();
                return Err(why);
            }
        };
        ready();
        let hulls = (0..prepared.workers.len()).map(|w| {
            let clock = plant.clock.clone();
            Box::new(Worker::new(
                w,
                prepared.shared.clone(),
                clock,
                IndexVec::new(),
                false,
                plant.common.as_ref(),
            ))
        });
        let hulls = hulls.collect();
        let (mut old, since) = match halted.take(plant, hulls) {
            Ok(taken) => taken,
            Err(why) => {
                prepared.discard();
                return Err(why);
            }
        };
        let (mut swapped, left) = exchange::exchange(plant, &mut old, &mut prepared.workers);
        plant.set_current(&prepared.shared);
        *lock(&plant.wanted) = Wanted::default();
        let at = halted.resume(plant, prepared.workers);
        swapped.pause = since.elapsed();
        telling::swap(at, &swapped);
        exchange::retire(old, left);
        Ok(swapped)
    }

    /// Checks, opens and builds a configuration beside the one that runs, and ends it again.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn rehearse(&self, graph: &Graph) -> Result<(), Vec<Diagnostic>> {
        let _turn = lock(&self.plant.swapping);
        Prepared::build(&self.plant, &Arc::new(graph.clone()), &self.plant.clock).map(Prepared::discard)
    }

    fn simulated_clock(&self) -> Option<Clock> {
        let (tx, rx) = channel();
        let posted = self.plant.mailboxes[0].post(Box::new(move |w| drop(tx.send(w.clock.clone()))));
        if posted { rx.recv().ok() } else { None }
    }
}

impl Router {
    /// Puts another configuration in place of this one while the router does not run.
    ///
    /// # Errors
    /// All that is wrong; the router is as it was.
    pub fn swap(&mut self, graph: &Graph) -> Result<Swapped, Vec<Diagnostic>> {
        let plant = self.plant.clone();
        let since = Instant::now();
        let mut prepared = Prepared::build(&plant, &Arc::new(graph.clone()), &self.workers[0].clock)?;
        let (mut swapped, left) = exchange::exchange(&plant, &mut self.workers, &mut prepared.workers);
        plant.set_current(&prepared.shared);
        let old = std::mem::replace(&mut self.workers, prepared.workers);
        self.adopt();
        swapped.pause = since.elapsed();
        exchange::retire(old, left);
        Ok(swapped)
    }
}

/// A worker's end of the exchange.
pub(crate) struct Halt {
    /// When it parked; `None` when it has ended instead.
    pub(crate) here: Sender<Option<Instant>>,
    pub(crate) orders: Receiver<Order>,
    pub(crate) selves: Sender<Box<Worker>>,
}

/// What the thread that swaps tells a parked worker.
pub(crate) enum Order {
    /// Hand over yourself; this empty one stays meanwhile.
    HandOver(Box<Worker>),
    /// Be this one.
    Become(Box<Worker>),
    /// Go on as you are.
    GoOn,
}

/// The other end, for all workers.
struct Halted {
    here: Receiver<Option<Instant>>,
    orders: Vec<Sender<Order>>,
    selves: Receiver<Box<Worker>>,
}

impl Halted {
    /// Asks all workers to park. `None` when one has ended.
    fn ask(plant: &Plant) -> Option<Halted> {
        let (arrive, here) = channel();
        let (give, selves) = channel();
        let mut halted = Halted { here, orders: Vec::new(), selves };
        for mailbox in plant.mailboxes.iter() {
            let (order, orders) = channel();
            let halt = Halt { here: arrive.clone(), orders, selves: give.clone() };
            if !mailbox.post(Box::new(move |w: &mut Worker| w.halt = Some(halt))) {
                halted.orders.iter().for_each(|o| drop(o.send(Order::GoOn)));
                return None;
            }
            halted.orders.push(order);
        }
        Some(halted)
    }

    /// Waits until all have parked, and takes them, with the time when the first one came.
    #[expect(clippy::vec_box, reason = "a worker is large, and goes through a channel in its box")]
    fn take(&self, plant: &Plant, hulls: Vec<Box<Worker>>) -> Result<(Vec<Worker>, Instant), SwapError> {
        let mut since = None;
        for _ in &self.orders {
            let at = match self.arrival(plant) {
                Ok(at) => at,
                Err(why) => {
                    // One that is stuck finds this when it goes on.
                    self.orders.iter().for_each(|o| drop(o.send(Order::GoOn)));
                    return Err(why);
                }
            };
            since = Some(since.map_or(at, |s: Instant| s.min(at)));
        }
        plant.mailboxes.iter().for_each(|m| m.set_away(true));
        for (order, hull) in self.orders.iter().zip(hulls) {
            let _ = order.send(Order::HandOver(hull));
        }
        let mut workers: Vec<Worker> =
            self.orders.iter().filter_map(|_| self.selves.recv().ok()).map(|w| *w).collect();
        workers.sort_by_key(|w| w.index);
        debug_assert_eq!(workers.len(), self.orders.len());
        Ok((workers, since.ok_or(SwapError::Stopped)?))
    }

    /// Waits until one more has parked, as long as none is stuck.
    fn arrival(&self, plant: &Plant) -> Result<Instant, SwapError> {
        loop {
            match self.here.recv_timeout(ASK_AGAIN) {
                Ok(at) => return at.ok_or(SwapError::Stopped),
                Err(RecvTimeoutError::Disconnected) => return Err(SwapError::Stopped),
                Err(RecvTimeoutError::Timeout) => plant.all_move()?,
            }
        }
    }

    /// Lets them go on as these; returns when, in cycles.
    fn resume(&self, plant: &Plant, workers: Vec<Worker>) -> u64 {
        let at = sync::tsc();
        plant.mailboxes.iter().for_each(|m| m.set_away(false));
        for (order, worker) in self.orders.iter().zip(workers) {
            let _ = order.send(Order::Become(Box::new(worker)));
        }
        at
    }
}

impl Worker {
    /// Waits, between two rounds, until a new configuration has come.
    #[cold]
    pub(crate) fn park(&mut self) {
        let Some(halt) = self.halt.take() else { return };
        let _ = halt.here.send(Some(Instant::now()));
        loop {
            let order = self.rcu.offline(|| halt.orders.recv_timeout(LOOK_EVERY));
            match order {
                Err(RecvTimeoutError::Timeout) => {
                    self.pulse.beat();
                    self.serve_parked();
                }
                Ok(Order::HandOver(hull)) => {
                    let old = std::mem::replace(self, *hull);
                    let _ = halt.selves.send(Box::new(old));
                    match self.rcu.offline(|| halt.orders.recv()) {
                        Ok(Order::Become(new)) => *self = *new,
                        // Whoever swaps has come to grief, and this worker has nothing left to do.
                        _ => self.shared.stop(),
                    }
                    return self.drain();
                }
                Ok(_) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Ends without having parked.
    pub(crate) fn refuse_halt(&mut self) {
        if let Some(halt) = self.halt.take() {
            let _ = halt.here.send(None);
        }
    }

    /// `hotconfig TEXT`, written by an element: the new configuration is built by another thread while this worker goes on,
    /// and comes when the element has returned.
    pub(crate) fn hotconfig(&mut self, text: &str) -> Result<(), HandlerError> {
        let plant = self.shared.plant.upgrade().filter(|p| p.reconfigure.get().is_some());
        let plant = plant.ok_or_else(crate::builtin::not_reconfigurable)?;
        let text = text.to_owned();
        self.beside(plant.clone(), move |control, ready| match plant.reconfigure.get() {
            Some(reconfigure) => reconfigure(control, &text, ready),
            None => Ok(String::new()),
        })
    }

    /// Lets another thread do what will stop all workers, and goes on until it has asked for that, or has given up.
    pub(crate) fn beside(
        &mut self,
        plant: Arc<Plant>,
        job: impl FnOnce(&Control, &mut dyn FnMut()) -> Result<String, String> + Send + 'static,
    ) -> Result<(), HandlerError> {
        let (tx, rx) = channel();
        let body = move || {
            // Without it, it might come when the workers rest.
            let _ = sync::priority::before_workers();
            let control = Control::new(plant);
            let ready = tx.clone();
            let done = job(&control, &mut || drop(ready.send(Ok(()))));
            let _ = tx.send(done.map(drop));
        };
        std::thread::Builder::new()
            .name("swap".into())
            .spawn(body)
            .map_err(|e| HandlerError::failed(e.to_string()))?;
        // On a path of packets what follows would overtake; and simulated time has to stand still.
        let goes_on = !self.clock.is_simulated() && self.is_empty();
        let answer = loop {
            match rx.recv_timeout(LOOK_EVERY) {
                Ok(answer) => break answer,
                Err(RecvTimeoutError::Disconnected) => break Err("the router has stopped".into()),
                Err(RecvTimeoutError::Timeout) if goes_on => self.side_round(),
                Err(RecvTimeoutError::Timeout) => match self.turns.clone() {
                    // Whoever builds asks some worker, and all of them wait on this thread.
                    Some(turns) => (0..self.shared.workers()).for_each(|w| self.lend_turn(&turns, w)),
                    None => {
                        self.pulse.wait();
                        self.serve();
                    }
                },
            }
        };
        // The wish to halt lies in the mailbox: from now on it is known.
        self.serve();
        answer.map_err(HandlerError::Failed)
    }
}
