// SPDX-License-Identifier: MIT OR Apache-2.0
//! A worker's part in a change of the router: it parks, hands itself over, and goes on as another. See [`halt`](crate::halt).

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::Worker;
use crate::remote::Control;
use crate::runtime::Runtime;
use crate::shared::not_reconfigurable;
use element::HandlerError;

/// How often a parked worker looks for calls of those who have not parked yet.
pub const LOOK_EVERY: Duration = Duration::from_micros(20);

/// A worker's end of the exchange.
pub(crate) struct Halt {
    /// When it parked; `None` when it has ended instead.
    pub(crate) here: Sender<Option<Instant>>,
    pub(crate) orders: Receiver<Order>,
    pub(crate) selves: Sender<Box<Worker>>,
}

/// What the thread that changes the router wants of a parked worker.
pub(crate) enum Order {
    /// Hand over yourself; this placeholder stays meanwhile.
    HandOver(Box<Worker>),
    /// Be this one.
    Become(Box<Worker>),
    /// Go on as you are.
    GoOn,
}

/// Whether a worker runs, and since when it is to park.
#[derive(Default)]
pub(super) struct Duty {
    /// It runs, or will: it is neither built while another one runs, nor has it been replaced.
    on: bool,
    /// A thread wants to exchange the configuration when no packet is on its way.
    halt: Option<Halt>,
    /// Processor time that it has used while it ran, in nanoseconds.
    cpu_ns: u64,
}

impl Duty {
    pub(super) fn new(on: bool) -> Duty {
        Duty { on, ..Duty::default() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    pub(super) fn begin(&mut self) {
        self.on = true;
    }

    /// Goes on for the worker before, which is off duty from now on.
    pub(super) fn take_over(&mut self, old: &mut Duty) {
        old.on = false;
        self.cpu_ns = old.cpu_ns;
    }
}

impl Worker {
    /// Whether it runs, or will.
    pub fn is_on_duty(&self) -> bool {
        self.duty.on
    }

    /// Processor time that it has used while it ran, in nanoseconds.
    pub(crate) fn cpu_ns(&self) -> u64 {
        self.duty.cpu_ns
    }

    pub(crate) fn add_cpu_ns(&mut self, ns: u64) {
        self.duty.cpu_ns += ns;
    }

    /// Takes note that it is to park.
    pub(crate) fn ask_to_halt(&mut self, halt: Halt) {
        self.duty.halt = Some(halt);
    }

    /// Whether it is to park.
    #[inline]
    pub(crate) fn is_to_halt(&self) -> bool {
        self.duty.halt.is_some()
    }

    /// Its end of the exchange, if it is to park.
    pub(crate) fn take_halt(&mut self) -> Option<Halt> {
        self.duty.halt.take()
    }

    /// Waits, between two rounds, until a new configuration has come.
    #[cold]
    pub(crate) fn park(&mut self) {
        let Some(halt) = self.take_halt() else { return };
        let _ = halt.here.send(Some(Instant::now()));
        loop {
            let order = self.rcu.offline(|| halt.orders.recv_timeout(LOOK_EVERY));
            match order {
                Err(RecvTimeoutError::Timeout) => {
                    self.pulse.beat();
                    self.serve_parked();
                }
                Ok(Order::HandOver(placeholder)) => {
                    let old = std::mem::replace(self, *placeholder);
                    let _ = halt.selves.send(Box::new(old));
                    match self.rcu.offline(|| halt.orders.recv()) {
                        Ok(Order::Become(new)) => *self = *new,
                        // The thread that swaps has panicked, and this worker has nothing left to do.
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
        if let Some(halt) = self.take_halt() {
            let _ = halt.here.send(None);
        }
    }

    /// `hotconfig TEXT`, written by an element: the new configuration is built by another thread while this worker goes on,
    /// and comes when the element has returned.
    pub(crate) fn hotconfig(&mut self, text: &str) -> Result<(), HandlerError> {
        let runtime = self.shared.runtime.upgrade().filter(|p| p.reconfigure.get().is_some());
        let runtime = runtime.ok_or_else(not_reconfigurable)?;
        let text = text.to_owned();
        self.request_change(runtime.clone(), move |control, ready| match runtime.reconfigure.get() {
            Some(reconfigure) => reconfigure(control, &text, ready),
            None => Ok(String::new()),
        })
    }

    /// Lets another thread do what will stop all workers, and goes on until it has asked for that, or has given up. The job calls its
    /// last argument once it has asked.
    ///
    /// # Errors
    /// Why the job gave up.
    pub fn request_change(
        &mut self,
        runtime: Arc<Runtime>,
        job: impl FnOnce(&Control, &mut dyn FnMut()) -> Result<String, String> + Send + 'static,
    ) -> Result<(), HandlerError> {
        let (tx, rx) = channel();
        let starter = runtime.clone();
        let body = move || {
            // Without it, it might come when the workers rest.
            let _ = sync::priority::before_workers();
            let control = Control::new(runtime);
            let ready = tx.clone();
            let done = job(&control, &mut || drop(ready.send(Ok(()))));
            let _ = tx.send(done.map(drop));
        };
        starter.spawn("swap", body).map_err(|e| HandlerError::failed(e.to_string()))?;
        // On a path of packets what follows would overtake; and simulated time has to stand still.
        let goes_on = !self.clock.is_simulated() && self.is_empty();
        let answer = loop {
            match rx.recv_timeout(LOOK_EVERY) {
                Ok(answer) => break answer,
                Err(RecvTimeoutError::Disconnected) => break Err("the router has stopped".into()),
                Err(RecvTimeoutError::Timeout) if goes_on => self.side_round(),
                Err(RecvTimeoutError::Timeout) => match self.peers.turns().cloned() {
                    // The building thread asks some worker, and all of them wait on this thread.
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
