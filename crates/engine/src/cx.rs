// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an element sees of the engine while it is opened, initialised and run.

use std::collections::HashSet;
use std::os::fd::RawFd;
use std::sync::Arc;

use packet::filter::Filter;
use packet::port::{self, Provider};
use packet::{Batch, Packet};

use crate::clock::Nanos;
use crate::drops::Reason;
use crate::element::{Class, Element};
use crate::handler::HandlerError;
use crate::ids::{ElementId, PortIndex};
use crate::remote::Control;
use crate::router::{HandlerRef, Shared, Wish};
use crate::swap::Holdings;
use crate::watch::Watch;
use crate::worker::Worker;

/// The engine as an element sees it while it runs.
pub struct Cx<'a> {
    pub(crate) worker: &'a mut Worker,
    pub(crate) element: ElementId,
}

impl Cx<'_> {
    /// Sends a batch out of push output `port`. It is processed after the current element returns; batches sent
    /// earlier are processed, with all that follows from them, before batches sent later.
    #[inline]
    pub fn push(&mut self, port: usize, batch: Batch) {
        self.worker.emit(self.element, PortIndex::new(port), batch);
    }

    /// Sends a part of a batch out of push output `port`. What one call of an element sends there so, or packet by packet, leaves as one batch.
    #[inline]
    pub fn push_joined(&mut self, port: usize, batch: Batch) {
        self.worker.emit_joined(self.element, PortIndex::new(port), batch);
    }

    /// Sends one packet out of push output `port`. Packets that one call of an element sends there leave together, as one batch.
    #[inline]
    pub fn push_one(&mut self, port: usize, packet: Packet) {
        self.worker.emit_one(self.element, port, packet);
    }

    /// Sends out of push output `port` if it is connected, and otherwise drops and counts.
    #[inline]
    pub fn push_or_drop(&mut self, port: usize, batch: Batch, reason: Reason) {
        if self.connected(port) {
            self.push(port, batch);
        } else {
            self.drop_batch(reason, batch);
        }
    }

    /// Sends one packet out of `port` if it is connected, and otherwise drops and counts.
    #[inline]
    pub fn push_one_or_drop(&mut self, port: usize, packet: Packet, reason: Reason) {
        // Where one has just left by this output, it is connected.
        let Some(packet) = self.worker.add_to_open(self.element, port, packet) else { return };
        if self.connected(port) {
            self.push_one(port, packet);
        } else {
            self.drop(reason, packet);
        }
    }

    /// Asks pull input `port` for up to `max` packets.
    #[inline]
    pub fn pull(&mut self, port: usize, max: usize) -> Batch {
        self.worker.fetch(self.element, PortIndex::new(port), max)
    }

    /// Whether output `port` exists and is connected.
    #[inline]
    pub fn connected(&self, port: usize) -> bool {
        port < self.noutputs()
    }

    /// Outputs that the configuration uses.
    #[inline]
    pub fn noutputs(&self) -> usize {
        self.worker.noutputs(self.element)
    }

    /// Inputs that the configuration uses.
    #[inline]
    pub fn ninputs(&self) -> usize {
        self.worker.ninputs(self.element)
    }

    /// Drops a packet and counts it under `reason`. Its frame is free soon: with those of others that are dropped.
    #[inline]
    pub fn drop(&mut self, reason: Reason, packet: Packet) {
        self.worker.drop_one(self.element, reason, packet);
    }

    /// Drops a batch and counts its packets under `reason`.
    #[inline]
    pub fn drop_batch(&mut self, reason: Reason, batch: Batch) {
        self.worker.count_drops(self.element, reason, batch.len() as u64);
        if self.worker.is_witnessed() {
            self.worker.show_drops(self.element, reason, &batch);
        }
        drop(batch);
    }

    /// Counts `n` drops whose packets the caller frees.
    #[inline]
    pub fn count_drops(&mut self, reason: Reason, n: u64) {
        self.worker.count_drops(self.element, reason, n);
        if self.worker.is_witnessed() {
            self.worker.show_lost(self.element, reason, n);
        }
    }

    /// Says that the caller makes `n` packets that did not come to it: what a source sends, copies, requests, fragments. One that could not be made for
    /// want of memory is made, too, if it is counted as dropped. See [`crate::account`].
    #[inline]
    pub fn made(&mut self, n: usize) {
        self.worker.deeds[self.element].made += n as u64;
    }

    /// Says that the caller ends `n` packets by what it is for, which is no drop: what a device has sent, fragments that are joined.
    #[inline]
    pub fn took(&mut self, n: usize) {
        self.worker.deeds[self.element].taken += n as u64;
    }

    /// Says that there was no room in queue `queue`, by its index: this element itself, or one that it would have filled.
    #[inline]
    pub fn found_full(&mut self, queue: ElementId) {
        self.worker.tell_full(self.element, queue);
    }

    /// Says that queue `queue`, for room in which the caller has waited ([`Cx::found_full`]), has some again.
    #[inline]
    pub fn found_room(&mut self, queue: ElementId) {
        self.worker.tell_room(queue);
    }

    /// Says that the caller [takes](Cx::took) and frees a packet whose bytes are part of another, or wait to be: who follows it sees that it ends here, in what is made of it.
    /// If the caller sends that whole at once, it has taken the packet's annotations.
    #[inline]
    pub fn absorbed(&mut self, packet: &Packet) {
        self.took(1);
        if self.worker.is_witnessed() {
            self.worker.show_absorbed(self.element, packet);
        }
    }

    /// Says that the packet that has come is held from now on, in the place of another, so that [`Element::held`] does not tell.
    #[inline]
    pub fn holds(&mut self, packet: &Packet) {
        if self.worker.is_witnessed() {
            self.worker.show_held(packet);
        }
    }

    /// Drops counted for this element on this worker.
    pub fn drops(&self) -> u64 {
        self.worker.drops(self.element).total()
    }

    /// Nanoseconds since the router started; constant within a round of the worker.
    #[inline]
    pub fn now(&mut self) -> Nanos {
        self.worker.clock.now()
    }

    /// Nanoseconds since the epoch; constant within a round of the worker.
    #[inline]
    pub fn wall(&mut self) -> Nanos {
        self.worker.clock.wall()
    }

    /// The same, looked up anew: for who has found what came since the round began. The rest of the round has this time, too.
    pub fn look_at_clock(&mut self) -> Nanos {
        self.worker.clock.expire();
        self.worker.clock.wall()
    }

    /// Packets that a source should send, or a drain ask for, at a time.
    #[inline]
    pub fn burst(&self) -> usize {
        self.worker.burst
    }

    /// How many packets of `most` this source should take now, so that others have their share of the worker's time, too, if its packets cost more than
    /// theirs.
    #[inline]
    pub fn fair_burst(&mut self, most: usize) -> usize {
        self.worker.fairness.burst(self.element, most)
    }

    /// The worker's source of randomness; seeded, so simulated runs repeat exactly.
    #[inline]
    pub fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.worker.random
    }

    /// Sets timer `timer` of this instance to expire at `at` nanoseconds since the router started.
    pub fn set_timer(&mut self, timer: u32, at: Nanos) {
        if self.worker.only_tries {
            return;
        }
        match self.has_common_timers() {
            true => self.worker.set_common_timer(self.element, timer, Some(at)),
            false => self.worker.timers.set(self.element, timer, at),
        }
    }

    /// Sets timer `timer` to expire `after` nanoseconds from now.
    pub fn set_timer_after(&mut self, timer: u32, after: Nanos) {
        let at = self.now().saturating_add(after);
        self.set_timer(timer, at);
    }

    /// Stops timer `timer`.
    pub fn clear_timer(&mut self, timer: u32) {
        match self.has_common_timers() {
            true => self.worker.set_common_timer(self.element, timer, None),
            false => self.worker.timers.clear(self.element, timer),
        }
    }

    #[inline]
    fn has_common_timers(&self) -> bool {
        self.worker.shared.elements[self.element].timers.is_some()
    }

    /// When timer `timer` expires, if it is set.
    pub fn timer(&self, timer: u32) -> Option<Nanos> {
        match &self.worker.shared.elements[self.element].timers {
            Some(common) => common.get(timer),
            None => self.worker.timers.expiry(self.element, timer),
        }
    }

    /// Puts this instance's task in line. Returns whether it has a task: on this worker, or anywhere if the element is one
    /// instance for all.
    pub fn schedule(&mut self) -> bool {
        self.worker.set_scheduled(self.element, true)
    }

    /// Takes this instance's task out of line.
    pub fn unschedule(&mut self) {
        self.worker.set_scheduled(self.element, false);
    }

    /// Whether this instance's task is in line.
    pub fn is_scheduled(&mut self) -> bool {
        let element = self.element;
        self.worker.tasks.find(element).is_some_and(|t| t.scheduled)
    }

    /// Lets a sleeping worker wake when `fd` becomes readable; the element's task then finds its work.
    pub fn wake_on(&mut self, fd: RawFd) {
        self.worker.watch(Watch { fd, interest: (true, false), element: self.element, calls: false });
    }

    /// Calls [`Element::run_fd`](crate::Element::run_fd) when `fd` is readable (or writable), until
    /// [`Cx::unwatch`]. Readiness is reported once per change: read (or write) until the descriptor would block.
    pub fn watch(&mut self, fd: RawFd, read: bool, write: bool) {
        self.worker.watch(Watch { fd, interest: (read, write), element: self.element, calls: true });
    }

    /// Forgets a descriptor.
    pub fn unwatch(&mut self, fd: RawFd) {
        self.worker.unwatch(fd);
    }

    /// The handle by which other threads reach the router, for an element that starts one; `None` for one that is only checked.
    pub fn control(&self) -> Option<Control> {
        self.worker.shared.plant.upgrade().map(Control::new)
    }

    /// Whether the router has stopped.
    pub fn is_stopped(&self) -> bool {
        self.worker.shared.is_stopped()
    }

    /// Asks the driver to stop: the router ends, unless an element manages the driver and has other plans.
    pub fn please_stop(&mut self) {
        self.worker.please_stop();
    }

    /// Ends the router.
    pub fn stop(&mut self) {
        self.worker.shared.stop();
    }

    /// Writes a line where the user sees it, standard error unless redirected.
    pub fn print(&self, text: &str) {
        if self.worker.only_tries {
            return;
        }
        self.worker.shared.print(text);
    }

    /// Writes a line the first time that this element does, on whatever worker.
    pub fn print_once(&self, text: &str) {
        if self.worker.only_tries {
            return;
        }
        let told = &self.worker.shared.elements[self.element].told;
        if !told.swap(true, std::sync::atomic::Ordering::Relaxed) {
            self.print(text);
        }
    }

    /// Whether other workers run while this one does. On simulated time they wait for their turns.
    pub fn others_run(&self) -> bool {
        self.worker.shared.workers() > 1 && !self.worker.clock.is_simulated()
    }

    /// This element's name.
    pub fn name(&self) -> &str {
        &self.worker.shared.elements[self.element].name
    }

    /// This element as a configuration declares it, `NAME :: CLASS`, which is how Click's messages begin.
    pub fn declaration(&self) -> String {
        let element = &self.worker.shared.elements[self.element];
        format!("{} :: {}", element.name, element.class.name)
    }

    /// This element's index in the flat graph.
    pub fn index(&self) -> ElementId {
        self.element
    }

    /// This worker's licence to read tables of [`Args::rcu`](crate::args::Args::rcu)'s domain.
    #[inline]
    pub fn rcu(&self) -> &sync::rcu::Reader {
        &self.worker.rcu
    }

    /// The worker that this instance belongs to.
    pub fn worker(&self) -> usize {
        self.worker.index
    }

    /// Reads handler `element.handler` (or a global one) of this router, wherever its instances are. A name without
    /// an element is looked up first in this element's compound.
    ///
    /// # Errors
    /// See [`HandlerError`].
    pub fn read_handler(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        let target = self.worker.shared.resolve(name, Some(self.element))?;
        self.worker.read(&target, param)
    }

    /// Executes write handler `name`, see [`Cx::read_handler`].
    ///
    /// # Errors
    /// See [`HandlerError`].
    pub fn write_handler(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        let target = self.worker.shared.resolve(name, Some(self.element))?;
        self.worker.write(&target, value)
    }

    /// Finds the handler that `element.handler` means here, for repeated calls and to ask what it allows.
    ///
    /// # Errors
    /// See [`HandlerError`].
    pub fn resolve(&self, name: &str) -> Result<HandlerRef, HandlerError> {
        self.worker.shared.resolve(name, Some(self.element))
    }

    /// Reads a handler found by [`Cx::resolve`].
    ///
    /// # Errors
    /// See [`HandlerError`].
    pub fn read_target(&mut self, target: &HandlerRef, param: &str) -> Result<String, HandlerError> {
        self.worker.read(target, param)
    }

    /// Executes a write handler found by [`Cx::resolve`].
    ///
    /// # Errors
    /// See [`HandlerError`].
    pub fn write_target(&mut self, target: &HandlerRef, value: &str) -> Result<(), HandlerError> {
        self.worker.write(target, value)
    }

    /// Puts `deputy` in this instance's place until it returns, so that calls which come back to the element while it
    /// runs (a script that calls another that calls it) find somebody. Both must work on common state.
    pub fn lend(&mut self, deputy: Box<dyn Element>) {
        self.worker.slots[self.element] = Some(deputy);
    }

    /// Does `f` while `me` stands in its own place, so that handlers which `f` calls reach this instance, too. An element
    /// that calls a handler in the middle of its work calls it so: scripts ask for the count that made the call due.
    pub fn reachable<E: Element + Default>(&mut self, me: &mut E, f: impl FnOnce(&mut Self)) {
        self.lend(Box::new(std::mem::take(me)));
        f(self);
        let lent = self.worker.slots[self.element].take();
        if let Some(lent) = lent.and_then(|e| (e as Box<dyn std::any::Any>).downcast().ok()) {
            *me = *lent;
        }
    }

    /// Answers what other threads ask of this worker, for an element that waits for another worker. `deputy` stands in the element's
    /// place meanwhile.
    pub(crate) fn answer(&mut self, deputy: impl FnOnce() -> Box<dyn Element>) {
        let worker = &mut *self.worker;
        if !worker.shared.mailboxes[worker.index].has_mail() {
            return;
        }
        let here = worker.pulse.spot();
        worker.slots[self.element] = Some(deputy());
        worker.serve();
        worker.slots[self.element] = None;
        worker.pulse.enter(here);
    }

    /// Calls [`Element::signal`] when the process receives `signal`, in place of what would happen otherwise.
    pub fn on_signal(&mut self, signal: i32) {
        let (element, worker) = (self.element, self.worker.index);
        self.worker.shared.signals.set(signal, element, worker, true);
    }

    /// Leaves `signal` to others, or to what it does by default.
    pub fn ignore_signal(&mut self, signal: i32) {
        let (element, worker) = (self.element, self.worker.index);
        self.worker.shared.signals.set(signal, element, worker, false);
    }

    /// The router as others see it: names, classes, configuration, handlers.
    pub fn router(&self) -> &Arc<Shared> {
        &self.worker.shared
    }

    /// Carries on with what was pushed so far before the element returns. Only scripts need this, which promise
    /// that an instruction's effects are there before the next.
    pub fn settle(&mut self) {
        self.worker.settle();
    }
}

/// What an element sees while it opens what exists outside the process.
pub struct OpenCx<'a> {
    pub(crate) provider: &'a dyn Provider,
    pub(crate) holdings: &'a Holdings,
    pub(crate) class: &'static Class,
    pub(crate) config: &'a str,
    /// The element's name.
    pub name: &'a str,
    /// Workers that the router will have.
    pub workers: usize,
    /// Packets handled at a time.
    pub burst: usize,
    pub(crate) dry: bool,
}

impl OpenCx<'_> {
    /// Whether the router is only planned: devices that are opened are made up, and nothing else may be touched. The answer
    /// that [`Element::open`](crate::Element::open) gives is all that is wanted.
    pub fn is_dry(&self) -> bool {
        self.dry
    }

    /// Opens a device.
    ///
    /// # Errors
    /// What the device's driver says.
    pub fn open(&self, spec: &port::Spec) -> Result<Arc<dyn port::Device>, String> {
        self.holdings.open(self.name, spec, self.provider).map_err(|e| e.to_string())
    }

    /// State of type `T` that the element of this name and class provides to others in the running router in whose place
    /// this one will come. Both may use it at once until then, and if nothing comes of it the other goes on.
    pub fn predecessor<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.holdings.predecessor(self.name, self.class)?.downcast().ok()
    }

    /// State of type `T` that any element of the running router in whose place this one will come provides, whatever its name and class.
    pub fn predecessors<T: Send + Sync + 'static>(&self) -> Vec<Arc<T>> {
        self.holdings.predecessors()
    }

    /// Whether another router runs until this one takes its place.
    pub fn is_swap(&self) -> bool {
        self.holdings.is_heir()
    }

    /// Whether a running router has this very element, of the same configuration string, in whose place this one will
    /// come: what is open there (a file, a socket) is then left to [`Element::take_state`](crate::Element::take_state).
    pub fn inherits(&self) -> bool {
        self.holdings.inherits(self.name, self.class, self.config)
    }

    /// Compiles a filter expression for a device with this link type.
    ///
    /// # Errors
    /// What is wrong with the expression, or what is missing on this machine.
    pub fn filter(&self, expression: &str, link: u32) -> Result<Filter, String> {
        self.provider.filter(expression, link).map_err(|e| e.to_string())
    }
}

/// What an instance sees while it is initialised on its worker.
pub struct InitCx<'a> {
    pub(crate) cx: Cx<'a>,
    pub(crate) task: Option<usize>,
    pub(crate) tasks: usize,
}

impl InitCx<'_> {
    /// Which of the element's tasks this instance runs: 0 for an element with [`Tasks::One`](crate::Tasks::One) on
    /// its home worker, the queue number for a device, `None` for an instance that only takes packets.
    /// The task is not yet in line: [`Cx::schedule`] puts it there.
    pub fn task(&self) -> Option<usize> {
        self.task
    }

    /// How many tasks the element has over all workers; each then serves every so-manieth queue of its device.
    pub fn tasks(&self) -> usize {
        self.tasks
    }

    /// Which of the element's instances this is, and how many there are.
    pub fn instance(&self) -> (usize, usize) {
        let place = &self.cx.worker.shared.elements[self.cx.element].place;
        let index = place.workers.iter().position(|w| *w == self.cx.worker.index);
        (index.unwrap_or(0), place.instances())
    }

    /// Whether this is the instance that should act for the element as a whole (timers, files): the one with task 0,
    /// or the first one of an element without tasks.
    pub fn is_home(&self) -> bool {
        self.task == Some(0)
            || (self.task.is_none() && self.cx.worker.shared.home(self.cx.element) == self.cx.worker.index)
    }

    /// Takes receive queue `queue` of a device. `None` when the configuration that this one is to replace still uses it:
    /// then it comes by [`Element::acquire`](crate::Element::acquire).
    ///
    /// # Errors
    /// As [`Device::rx`](port::Device::rx).
    pub fn rx(
        &self,
        device: &Arc<dyn port::Device>,
        queue: usize,
    ) -> Result<Option<Box<dyn port::RxQueue>>, String> {
        self.cx.worker.shared.holdings.rx(device, queue).map_err(|e| e.to_string())
    }

    /// Takes transmit queue `queue` of a device, as [`InitCx::rx`] does.
    ///
    /// # Errors
    /// As [`Device::tx`](port::Device::tx).
    pub fn tx(
        &self,
        device: &Arc<dyn port::Device>,
        queue: usize,
    ) -> Result<Option<Box<dyn port::TxQueue>>, String> {
        self.cx.worker.shared.holdings.tx(device, queue).map_err(|e| e.to_string())
    }

    /// See [`OpenCx::inherits`].
    pub fn inherits(&self) -> bool {
        let shared = &self.cx.worker.shared;
        let info = &shared.elements[self.cx.element];
        shared.holdings.inherits(&info.name, info.class, &info.config)
    }

    /// Writes a handler, named as seen from this element, when all elements are initialised, and before any runs. What goes wrong
    /// is printed.
    pub fn write_when_ready(&mut self, handler: String, value: String) {
        let shared = &self.cx.worker.shared;
        let mut wishes = shared.when_ready.lock().unwrap_or_else(|e| e.into_inner());
        wishes.push(Wish { from: self.cx.element, handler, value });
    }

    /// Makes this element the driver's manager: [`Cx::please_stop`] calls its
    /// [`driver_stopped`](crate::Element::driver_stopped).
    pub fn manage_driver(&mut self) {
        let (element, worker) = (self.cx.element, self.cx.worker.index);
        self.cx.worker.shared.set_driver(element, worker);
    }

    /// Index of the element that manages the driver, if one does already.
    pub fn driver_manager(&self) -> Option<ElementId> {
        self.cx.worker.shared.driver().map(|(element, _)| element)
    }

    /// State of type `T` that element `name` provides to this worker. Names are looked up from the innermost
    /// compound of this element outwards.
    pub fn find<T: Send + Sync + 'static>(&mut self, name: &str) -> Option<Arc<T>> {
        let index = self.cx.worker.shared.lookup(name, Some(self.cx.element))?;
        self.provided(index)
    }

    /// State of type `T` that an element provides to this worker.
    pub fn provided<T: Send + Sync + 'static>(&mut self, element: ElementId) -> Option<Arc<T>> {
        self.cx.worker.provided(element)?.downcast().ok()
    }

    /// State of type `T` provided by the nearest elements downstream of output `port` (any output when `None`);
    /// the search ends at elements that provide it.
    pub fn downstream<T: Send + Sync + 'static>(&mut self, port: Option<usize>) -> Vec<Arc<T>> {
        self.search(port, true)
    }

    /// State of type `T` provided by the nearest elements upstream of input `port` (any input when `None`).
    pub fn upstream<T: Send + Sync + 'static>(&mut self, port: Option<usize>) -> Vec<Arc<T>> {
        self.search(port, false)
    }

    /// Like [`InitCx::downstream`], with the elements' indices, but `None` when a packet can come to an end without meeting such an element.
    pub fn downstream_all<T: Send + Sync + 'static>(
        &mut self,
        port: Option<usize>,
    ) -> Option<Vec<(ElementId, Arc<T>)>> {
        let shared = self.cx.worker.shared.clone();
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut todo: Vec<ElementId> = shared.neighbours(self.cx.element, port, true);
        while let Some(element) = todo.pop() {
            if !seen.insert(element) {
                continue;
            }
            match self.provided::<T>(element) {
                Some(state) => found.push((element, state)),
                None => {
                    let next = shared.neighbours(element, None, true);
                    if next.is_empty() {
                        return None;
                    }
                    todo.extend(next);
                }
            }
        }
        Some(found)
    }

    /// State of type `T` provided by the nearest elements upstream of input `port` of element number `element` from which comes all
    /// that comes in there: elements with several inputs end the search.
    pub fn sole_sources<T: Send + Sync + 'static>(&mut self, element: ElementId, port: usize) -> Vec<Arc<T>> {
        let shared = self.cx.worker.shared.clone();
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut todo: Vec<ElementId> = shared.neighbours(element, Some(port), false);
        while let Some(element) = todo.pop() {
            if !seen.insert(element) {
                continue;
            }
            match self.provided::<T>(element) {
                Some(state) => found.push(state),
                None if shared.elements[element].inputs().len() == 1 => {
                    todo.extend(shared.neighbours(element, None, false));
                }
                None => {}
            }
        }
        found
    }

    fn search<T: Send + Sync + 'static>(&mut self, port: Option<usize>, forward: bool) -> Vec<Arc<T>> {
        let shared = self.cx.worker.shared.clone();
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut todo: Vec<ElementId> = shared.neighbours(self.cx.element, port, forward);
        while let Some(element) = todo.pop() {
            if !seen.insert(element) {
                continue;
            }
            match self.provided::<T>(element) {
                Some(state) => found.push(state),
                None => todo.extend(shared.neighbours(element, None, forward)),
            }
        }
        found
    }
}

impl<'a> std::ops::Deref for InitCx<'a> {
    type Target = Cx<'a>;

    fn deref(&self) -> &Cx<'a> {
        &self.cx
    }
}

impl<'a> std::ops::DerefMut for InitCx<'a> {
    fn deref_mut(&mut self) -> &mut Cx<'a> {
        &mut self.cx
    }
}
