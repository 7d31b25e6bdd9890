// SPDX-License-Identifier: MIT OR Apache-2.0
//! A worker: one thread, pinned to one core, that runs tasks, timers and messages and carries batches from element
//! to element.
//!
//! [`Worker::run_what_is_due`] is the heart: messages, timers, each task once. [`Worker::run_as`] runs an element and then carries what it sent:
//! [`Worker::drain_as`] takes batches from a [stack](carrier) until none is left. A [`Probe`] sees all this, and costs nothing where nobody observes.
//!
//! A worker is composed of parts, each in a file of its own with private fields. It owns its element instances outright, so no lock or atomic stands
//! between a batch and its element.

use std::sync::Arc;
use std::time::Duration;

use crate::capability::{self, OnWorker};
use crate::clock::Clock;
use crate::mailbox::Mailbox;
use crate::pulse::{Doing, Pulse, Spot};
use crate::schedule::{Common, Tasks, Timers};
use crate::shared::Shared;
use element::drops::Reason;
use element::{Cx, Element, ElementId, IndexVec, PortIndex, Target};

mod accounts;
mod alternate;
mod calls;
mod carrier;
mod carrying;
mod connections;
mod costs;
mod dropping;
mod fairness;
mod handlers;
mod handover;
mod holding_back;
mod hosting;
mod instances;
mod messages;
mod nested;
mod observing;
mod parking;
mod passes;
mod peers;
mod pending_drops;
mod probe;
mod recording;
mod rehearsing;
mod reporting;
mod resting;
mod scheduling;
mod timing;
mod traffic;
mod turns;
mod watching;

use accounts::Accounts;
pub use alternate::Turn;
pub(crate) use alternate::TurnPlace;
pub(crate) use calls::Begun;
use carrier::Carrier;
use connections::Connections;
pub(crate) use costs::Costs;
use instances::Instances;
pub(crate) use instances::Slot;
use observing::Observers;
use parking::Duty;
pub use parking::LOOK_EVERY;
pub(crate) use parking::{Halt, Order};
use peers::Peers;
use probe::{NoProbe, Observed, Probe};
use recording::Recorder;
pub(crate) use resting::POLL_ROUNDS;
use resting::Pace;
pub use traffic::around_queue;
pub(crate) use turns::Turns;
use watching::Watches;

/// One worker with all it owns, on lines of its own: the workers of a router stand side by side.
#[repr(align(128))]
pub struct Worker {
    index: usize,
    /// The configuration that it runs.
    shared: Arc<Shared>,
    /// What others see of it.
    pulse: Arc<Pulse>,
    clock: Clock,
    rcu: sync::rcu::Reader,
    random: fastrand::Rng,
    tasks: Tasks,
    timers: Timers,
    instances: Instances,
    connections: Connections,
    carrier: Carrier,
    accounts: Accounts,
    costs: Costs,
    recorder: Recorder,
    observers: Option<Box<Observers>>,
    /// What elements do at the moment is to have no effect.
    only_tries: bool,
    watches: Watches,
    pace: Pace,
    duty: Duty,
    peers: Peers,
}

impl Worker {
    /// A worker; `common` is there if it is to share simulated time with others.
    pub(crate) fn new(
        index: usize,
        shared: Arc<Shared>,
        clock: Clock,
        slots: IndexVec<ElementId, Slot>,
        on_duty: bool,
        common: Option<&Common>,
    ) -> Worker {
        let count = shared.elements.len();
        Worker {
            index,
            pulse: shared.mailboxes[index].pulse.clone(),
            clock,
            rcu: shared.rcu.register(format!("worker {index}")),
            random: fastrand::Rng::with_seed(shared.seed.wrapping_add(index as u64)),
            tasks: common.cloned().map_or_else(Tasks::default, Tasks::in_common),
            timers: common.cloned().map_or_else(Timers::default, Timers::in_common),
            instances: Instances::new(slots, count),
            connections: Connections::new(&shared),
            carrier: Carrier::new(shared.burst),
            accounts: Accounts::new(count),
            costs: Costs::new(&shared),
            recorder: Recorder::new(&shared),
            observers: None,
            only_tries: false,
            watches: Watches::default(),
            pace: Pace::default(),
            duty: Duty::new(on_duty),
            peers: Peers::default(),
            shared,
        }
    }

    /// Its number.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The configuration that it runs.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn clock(&mut self) -> &mut Clock {
        &mut self.clock
    }

    pub(crate) fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.random
    }

    /// It holds nothing that was read of shared tables.
    pub(crate) fn quiescent(&mut self) {
        self.rcu.quiescent();
    }

    #[inline]
    fn mailbox(&self) -> &Mailbox<Worker> {
        &self.shared.mailboxes[self.index]
    }

    /// Runs until the router stops.
    pub(crate) fn run(&mut self) {
        // What elements add to their state meanwhile is the worker's own, as what they began with.
        sync::heap::in_lines(|| self.run_until_stopped());
    }

    fn run_until_stopped(&mut self) {
        let before = crate::clock::thread_cpu_ns();
        self.pulse.begin();
        self.drain();
        while !self.shared.is_stopped() {
            if self.is_to_halt() {
                self.record_pending();
                self.park();
            }
            let worked = match self.peers.turn() {
                None => self.round(),
                Some(place) => self.round_in_turn(&place),
            };
            if worked {
                self.pace.set_busy();
            } else if self.shared.is_stopped() || !self.rest() {
                // A stopped router must not rest: simulated time would go on to the next timer.
                break;
            }
        }
        self.mailbox().set_open(false);
        self.serve();
        self.record_pending();
        self.refuse_halt();
        self.carrier.free_dead();
        self.pulse.end();
        self.add_cpu_ns(crate::clock::thread_cpu_ns().saturating_sub(before));
    }

    /// One round, under the big lock if there is one.
    pub(crate) fn round(&mut self) -> bool {
        if self.peers.has_big_lock() { self.round_with_lock() } else { self.round_without_lock() }
    }

    /// One round, timed if an observer waits for long ones.
    fn round_without_lock(&mut self) -> bool {
        self.begin_stopwatch();
        let worked = self.run_what_is_due();
        self.end_stopwatch(worked);
        worked
    }

    /// Messages, expired timers, every scheduled task once. Returns whether there was work.
    #[inline]
    fn run_what_is_due(&mut self) -> bool {
        self.pulse.beat();
        self.check_recording();
        self.clock.expire();
        self.rcu.quiescent();
        let mut worked = self.mailbox().has_mail() && self.serve();
        let mark = self.timers.mark();
        while let Some(timer) = self.due_timer(mark) {
            self.run_timer(timer);
            if timer.of != Target::Router {
                worked = true;
            } else if self.shared.is_stopped() {
                return true;
            }
        }
        for _ in 0..self.tasks.scheduled() {
            if self.shared.is_stopped() {
                return true;
            }
            let Some(element) = self.tasks.next() else { break };
            worked |= self.run_task(element);
        }
        if self.pace.count_round() && self.watches() {
            worked |= self.wait(Duration::ZERO);
        }
        worked
    }

    /// Runs an element's task and carries what it sends. Returns whether there was work.
    #[inline]
    pub(crate) fn run_task(&mut self, element: ElementId) -> bool {
        self.run_element(element, Doing::Task, |instance, cx| instance.run_task(cx))
    }

    /// Runs an element for its task, a timer or a descriptor, and carries what it sends. Chooses whether this is observed.
    #[inline(always)]
    fn run_element(
        &mut self,
        element: ElementId,
        doing: Doing,
        f: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> bool,
    ) -> bool {
        if self.is_observed() {
            self.run_observed(element, doing, f)
        } else {
            self.run_as::<NoProbe>(element, doing, f)
        }
    }

    /// Whether a recording runs, or there are observers.
    #[inline(always)]
    fn is_observed(&self) -> bool {
        self.has_observers() || self.recorder.is_asked()
    }

    #[cold]
    #[inline(never)]
    fn run_observed(
        &mut self,
        element: ElementId,
        doing: Doing,
        f: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> bool,
    ) -> bool {
        self.run_as::<Observed>(element, doing, f)
    }

    #[inline(always)]
    fn run_as<P: Probe>(
        &mut self,
        element: ElementId,
        doing: Doing,
        f: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> bool,
    ) -> bool {
        let mut timed = self.pick_run(element, doing);
        let begun = P::begin_run(self);
        let found = self.with_as::<P, _>(element, doing, f).unwrap_or(false);
        if let Some(timed) = &mut timed {
            self.costs.end_own(timed);
        }
        // A timer or a descriptor is work by itself.
        let worked = found || doing != Doing::Task || !self.carrier.is_empty();
        if worked {
            P::begin_carrying(self, element, doing);
            self.drain_as::<P>();
            P::end_run(self, element, doing, begun);
        }
        self.costs.count_run(element, doing, worked);
        // An idle run says nothing of what work costs.
        if let Some(timed) = timed.filter(|_| worked) {
            self.count_timed(element, doing, &timed);
        }
        worked
    }

    /// Whether no packet is on its way.
    pub(crate) fn is_empty(&self) -> bool {
        self.carrier.is_empty() && self.carrier.is_at_ground()
    }

    /// Runs `f` on an element's instance, if it has one here that is not running already. What it sends waits for
    /// [`Worker::drain`].
    pub fn with<R>(
        &mut self,
        element: ElementId,
        f: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let result = self.with_doing(element, Doing::Call, f);
        self.carrier.free_dead();
        result
    }

    /// Runs `f` on a capability of an element's instance, as [`Worker::with`] does; not where the element lacks it.
    pub fn with_capability<C: OnWorker + ?Sized, R>(
        &mut self,
        element: ElementId,
        f: impl FnOnce(&mut C, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let class = self.shared.elements[element].class;
        self.with(element, |instance, cx| Some(f(capability::of_mut(class, instance)?, cx))).flatten()
    }

    /// As [`Worker::with`], saying what for.
    #[inline]
    pub(crate) fn with_doing<R>(
        &mut self,
        element: ElementId,
        doing: Doing,
        f: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        self.with_as::<Observed, R>(element, doing, f)
    }

    #[inline]
    fn with_as<P: Probe, R>(
        &mut self,
        element: ElementId,
        doing: Doing,
        f: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let mut instance = self.instances.take(element)?;
        let before = self.pulse.spot();
        let spot = Spot::new(element, doing, PortIndex::FIRST);
        self.pulse.enter(spot);
        self.carrier.set_acting(element);
        let result = f(&mut *instance, &mut Cx::new(self, element));
        self.pulse.enter(before);
        P::returned(self, spot);
        self.instances.put(element, instance);
        Some(result)
    }

    /// Ends all instances: packets on the stack are dropped and counted, then each element finishes.
    pub fn finish(&mut self) {
        while let Some(job) = self.carrier.pop() {
            self.drop_unsent(job.element, Reason::RouterStopped, job.batch);
        }
        for element in self.instances.ids() {
            self.with(element, |instance, cx| instance.finish(cx));
        }
        self.carrier.clear();
    }
}
