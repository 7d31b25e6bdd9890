// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of workers that do not run: instances, tasks, timers and counters go from one worker to another.
//!
//! A change of the router takes the workers ([`Halted`](crate::halt::Halted)), makes others of what they have, and lets these go on.

use element::drops::{DropCounts, Reason};
use element::ports::Processing;
use element::{Cx, Element, ElementId, InitCx, PacketHolder, Registry, Target, first_ids};

use super::Worker;
use crate::capability::{self, OnWorker};
use crate::clock::Nanos;
use crate::ports::PortStats;
use crate::schedule::Armed;
use crate::shared::{ALARM_TIMER, END_TIMER};
use crate::watch::Watch;

impl Worker {
    /// Takes over what belongs to the worker rather than to its configuration, and puts the old one off duty.
    pub fn take_over(&mut self, old: &mut Worker) {
        self.take_over_poll(old);
        self.duty.take_over(&mut old.duty);
        self.peers.take_over_lock(&mut old.peers);
        self.clock = old.clock.clone();
        std::mem::swap(&mut old.random, &mut self.random);
        for timer in [END_TIMER, ALARM_TIMER] {
            if let Some(at) = old.timers.expiry(Target::Router, timer) {
                self.timers.set(Target::Router, timer, at);
            }
        }
    }

    /// Comes on duty: it is complete, and will run.
    pub fn begin_duty(&mut self, registry: &Registry) {
        self.fuse(registry);
        self.duty.begin();
        self.watch_all();
    }

    /// Lets the engine's own counters of element `o` of another worker go on as those of `n` here.
    pub fn add_counters(&mut self, n: ElementId, old: &Worker, o: ElementId) {
        self.accounts.add(n, &old.accounts, o);
        self.costs.add(n, &old.costs, o);
        let outputs = self.shared.elements[n].outputs().processing();
        for (port, processing) in first_ids(outputs.len()).zip(outputs) {
            let before = old.connections.output_stats(o, port);
            if before != PortStats::default() {
                self.connections.add_output_stats(n, port, *processing == Processing::Pull, before);
            }
        }
    }

    /// Counts packets that were dropped at an element.
    pub fn add_drops(&mut self, element: ElementId, reason: Reason, n: u64) {
        self.accounts.add_drops(element, reason, n);
    }

    /// Packets that were dropped at an element.
    pub fn drops(&self, element: ElementId) -> &DropCounts {
        self.accounts.drops(element)
    }

    /// Its elements, whether or not it has instances of them.
    pub fn elements(&self) -> impl Iterator<Item = ElementId> + use<> {
        self.instances.ids()
    }

    /// Its instance of an element.
    pub fn instance(&self, element: ElementId) -> Option<&dyn Element> {
        self.instances.get(element)
    }

    /// A capability of its instance of an element.
    pub fn capability<C: OnWorker + ?Sized>(&self, element: ElementId) -> Option<&C> {
        capability::of(self.shared.elements[element].class, self.instance(element)?)
    }

    /// Packets that an element holds here.
    pub fn held(&self, element: ElementId) -> usize {
        self.capability::<dyn PacketHolder>(element).map_or(0, |instance| instance.held())
    }

    /// A further instance over the state of its instance of an element.
    pub fn share(&self, element: ElementId) -> Option<Box<dyn Element>> {
        capability::share(self.shared.elements[element].class, self.instance(element)?)
    }

    /// Takes its instance of an element away.
    pub fn take_instance(&mut self, element: ElementId) -> Option<Box<dyn Element>> {
        self.instances.take(element)
    }

    /// Gives it an instance of an element, or none, in the place of the one that it had.
    pub fn set_instance(&mut self, element: ElementId, instance: Option<Box<dyn Element>>) {
        drop(self.instances.replace(element, instance));
    }

    /// Initialises its instance of an element, which it keeps if that succeeds. Does nothing where it has none.
    ///
    /// # Errors
    /// What the element says.
    pub fn initialize(&mut self, element: ElementId) -> Result<(), String> {
        let Some(mut instance) = self.instances.take(element) else { return Ok(()) };
        let shared = self.shared.clone();
        let info = &shared.elements[element];
        let task = info.place.tasks.iter().position(|t| *t == self.index);
        let mut cx = InitCx::new(Cx::new(self, element), task, info.place.tasks.len());
        sync::lock::naming(&info.name, || instance.initialize(&mut cx))?;
        self.instances.put(element, instance);
        Ok(())
    }

    /// Elements that have a task here.
    pub fn task_elements(&self) -> Vec<ElementId> {
        self.tasks.elements()
    }

    /// Gives an element's task to another worker, if it is here.
    pub fn move_task(&mut self, element: ElementId, to: &mut Worker) {
        if let Some(task) = self.tasks.release(element) {
            to.tasks.adopt(task);
        }
    }

    /// Adds a task for an element that has none here.
    pub fn add_task(&mut self, element: ElementId) {
        self.tasks.add(element);
    }

    /// Lets its tasks be due as they would be on the other worker.
    pub fn keep_pass(&mut self, old: &Worker) {
        self.tasks.go_on_from(&old.tasks);
    }

    /// Runs an element's task once while the worker does not run. Returns whether there was work.
    pub fn run_parked(&mut self, element: ElementId) -> bool {
        self.rcu.quiescent();
        self.run_task(element)
    }

    /// Timers that are set.
    pub fn timers(&self) -> Vec<Armed> {
        self.timers.list()
    }

    /// Sets a timer of an element, also for the other workers if it has its timers in common.
    pub fn arm_timer(&mut self, element: ElementId, timer: u32, at: Nanos) {
        if let Some(common) = &self.shared.elements[element].timers {
            common.set(timer, Some(at));
        }
        self.timers.set(element, timer, at);
    }

    /// Descriptors that its elements wait for, or will.
    pub fn all_watches(&self) -> Vec<Watch> {
        self.watches.all()
    }

    /// Lets an element wait for a descriptor once the worker is on duty.
    pub fn watch_later(&mut self, watch: Watch) {
        self.watches.add_later(watch);
    }
}
