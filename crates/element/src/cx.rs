// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an element sees of the engine while it is opened, initialised and run.

use std::collections::HashSet;
use std::os::fd::RawFd;
use std::sync::Arc;

use packet::filter::Filter;
use packet::port;
use packet::{Batch, Packet};

use crate::clock::Nanos;
use crate::drops::Reason;
use crate::element::{Class, Element};
use crate::error::HandlerError;
use crate::host::{Host, Opener};
use crate::ids::{ElementId, PortIndex};
use crate::layout::{HandlerRef, Layout};
use crate::remote::Remote;

/// The engine as an element sees it while it runs.
pub struct Cx<'a> {
    host: &'a mut dyn Host,
    element: ElementId,
}

impl<'a> Cx<'a> {
    /// The engine as element number `element` sees it on the worker `host`.
    #[inline]
    pub fn new(host: &'a mut dyn Host, element: ElementId) -> Cx<'a> {
        Cx { host, element }
    }
}

impl Cx<'_> {
    /// Sends a batch out of push output `port`. It is processed after the current element returns; batches sent
    /// earlier are processed, with all that follows from them, before batches sent later.
    #[inline]
    pub fn push(&mut self, port: usize, batch: Batch) {
        self.host.send(self.element, PortIndex::new(port), batch);
    }

    /// Sends a part of a batch out of push output `port`. What one call of an element sends there so, or packet by packet, leaves as one batch.
    #[inline]
    pub fn push_joined(&mut self, port: usize, batch: Batch) {
        self.host.send_joined(self.element, PortIndex::new(port), batch);
    }

    /// Sends one packet out of push output `port`. Packets that one call of an element sends there leave together, as one batch.
    #[inline]
    pub fn push_one(&mut self, port: usize, packet: Packet) {
        self.host.send_one(self.element, port, packet);
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
        self.host.send_one_or_drop(self.element, port, packet, reason);
    }

    /// Asks pull input `port` for up to `max` packets.
    #[inline]
    pub fn pull(&mut self, port: usize, max: usize) -> Batch {
        self.host.fetch(self.element, PortIndex::new(port), max)
    }

    /// Whether output `port` exists and is connected.
    #[inline]
    pub fn connected(&self, port: usize) -> bool {
        port < self.noutputs()
    }

    /// Outputs that the configuration uses.
    #[inline]
    pub fn noutputs(&self) -> usize {
        self.host.noutputs(self.element)
    }

    /// Inputs that the configuration uses.
    #[inline]
    pub fn ninputs(&self) -> usize {
        self.host.ninputs(self.element)
    }

    /// Drops a packet and counts it under `reason`. Its frame is free soon: with those of others that are dropped.
    #[inline]
    pub fn drop(&mut self, reason: Reason, packet: Packet) {
        self.host.drop_one(self.element, reason, packet);
    }

    /// Drops a batch and counts its packets under `reason`.
    #[inline]
    pub fn drop_batch(&mut self, reason: Reason, batch: Batch) {
        self.host.drop_batch(self.element, reason, batch);
    }

    /// Counts `n` drops whose packets the caller frees.
    #[inline]
    pub fn count_drops(&mut self, reason: Reason, n: u64) {
        self.host.count_drops(self.element, reason, n);
    }

    /// Says that the caller makes `n` packets that did not come to it: what a source sends, copies, requests, fragments. One that could not be made for
    /// want of memory is made, too, if it is counted as dropped. See [`crate::account`].
    #[inline]
    pub fn made(&mut self, n: usize) {
        self.host.account(self.element).made += n as u64;
    }

    /// Says that the caller ends `n` packets by what it is for, which is no drop: what a device has sent, fragments that are joined.
    #[inline]
    pub fn took(&mut self, n: usize) {
        self.host.account(self.element).taken += n as u64;
    }

    /// Says that there was no room in queue `queue`, by its index: this element itself, or one that it would have filled.
    #[inline]
    pub fn found_full(&mut self, queue: ElementId) {
        self.host.found_full(self.element, queue);
    }

    /// Says that queue `queue`, for room in which the caller has waited ([`Cx::found_full`]), has some again.
    #[inline]
    pub fn found_room(&mut self, queue: ElementId) {
        self.host.found_room(queue);
    }

    /// Says that the caller [takes](Cx::took) and frees a packet whose bytes are part of another, or wait to be: who follows it sees that it ends here, in what is made of it.
    /// If the caller sends that whole at once, it has taken the packet's annotations.
    #[inline]
    pub fn absorbed(&mut self, packet: &Packet) {
        self.took(1);
        self.host.show_absorbed(self.element, packet);
    }

    /// Says that the packet that has come is held from now on, in the place of another, so that [`PacketHolder::held`](crate::PacketHolder::held) does not tell.
    #[inline]
    pub fn holds(&mut self, packet: &Packet) {
        self.host.show_held(packet);
    }

    /// Drops counted for this element on this worker.
    pub fn drops(&self) -> u64 {
        self.host.drops(self.element)
    }

    /// Nanoseconds since the router started; constant within a round of the worker.
    #[inline]
    pub fn now(&mut self) -> Nanos {
        self.host.now()
    }

    /// Nanoseconds since the epoch; constant within a round of the worker.
    #[inline]
    pub fn wall(&mut self) -> Nanos {
        self.host.wall()
    }

    /// The same, looked up anew: for who has found what came since the round began. The rest of the round has this time, too.
    pub fn look_at_clock(&mut self) -> Nanos {
        self.host.expire_clock();
        self.host.wall()
    }

    /// Packets that a source should send, or a drain ask for, at a time.
    #[inline]
    pub fn burst(&self) -> usize {
        self.host.burst()
    }

    /// How many packets of `most` this source should take now, so that others have their share of the worker's time, too, if its packets cost more than
    /// theirs.
    #[inline]
    pub fn fair_burst(&mut self, most: usize) -> usize {
        self.host.fair_burst(self.element, most)
    }

    /// The worker's source of randomness; seeded, so simulated runs repeat exactly.
    #[inline]
    pub fn random(&mut self) -> &mut fastrand::Rng {
        self.host.random()
    }

    /// Sets timer `timer` of this instance to expire at `at` nanoseconds since the router started.
    pub fn set_timer(&mut self, timer: u32, at: Nanos) {
        if !self.host.only_tries() {
            self.host.set_timer(self.element, timer, Some(at));
        }
    }

    /// Sets timer `timer` to expire `after` nanoseconds from now.
    pub fn set_timer_after(&mut self, timer: u32, after: Nanos) {
        let at = self.now().saturating_add(after);
        self.set_timer(timer, at);
    }

    /// Stops timer `timer`.
    pub fn clear_timer(&mut self, timer: u32) {
        self.host.set_timer(self.element, timer, None);
    }

    /// When timer `timer` expires, if it is set.
    pub fn timer(&self, timer: u32) -> Option<Nanos> {
        self.host.timer(self.element, timer)
    }

    /// Puts this instance's task in line. Returns whether it has a task: on this worker, or anywhere if the element is one
    /// instance for all.
    pub fn schedule(&mut self) -> bool {
        self.host.set_scheduled(self.element, true)
    }

    /// Takes this instance's task out of line.
    pub fn unschedule(&mut self) {
        self.host.set_scheduled(self.element, false);
    }

    /// Whether this instance's task is in line.
    pub fn is_scheduled(&mut self) -> bool {
        self.host.is_scheduled(self.element)
    }

    /// Lets a sleeping worker wake when `fd` becomes readable; the element's task then finds its work.
    pub fn wake_on(&mut self, fd: RawFd) {
        self.host.watch(self.element, fd, (true, false), false);
    }

    /// Calls [`ProcessEvents::run_fd`](crate::ProcessEvents::run_fd) when `fd` is readable (or writable), until
    /// [`Cx::unwatch`]. Readiness is reported once per change: read (or write) until the descriptor would block.
    pub fn watch(&mut self, fd: RawFd, read: bool, write: bool) {
        self.host.watch(self.element, fd, (read, write), true);
    }

    /// Forgets a descriptor.
    pub fn unwatch(&mut self, fd: RawFd) {
        self.host.unwatch(fd);
    }

    /// The handle by which other threads reach the router, for an element that starts one; `None` for one that is only checked.
    pub fn control(&self) -> Option<Arc<dyn Remote>> {
        self.host.control()
    }

    /// Whether the router has stopped.
    pub fn is_stopped(&self) -> bool {
        self.host.is_stopped()
    }

    /// Asks the driver to stop: the router ends, unless an element manages the driver and has other plans.
    pub fn please_stop(&mut self) {
        self.host.please_stop();
    }

    /// Ends the router.
    pub fn stop(&mut self) {
        self.host.stop();
    }

    /// Writes a line where the user sees it, standard error unless redirected.
    pub fn print(&self, text: &str) {
        if self.host.only_tries() {
            return;
        }
        self.host.print(text);
    }

    /// Writes a line the first time that this element does, on any worker.
    pub fn print_once(&self, text: &str) {
        if self.host.only_tries() {
            return;
        }
        let told = &self.host.layout().elements[self.element].told;
        if !told.swap(true, std::sync::atomic::Ordering::Relaxed) {
            self.print(text);
        }
    }

    /// Whether other workers run while this one does. On simulated time they wait for their turns.
    pub fn others_run(&self) -> bool {
        self.host.layout().workers() > 1 && !self.host.is_simulated()
    }

    /// This element's name.
    pub fn name(&self) -> &str {
        &self.host.layout().elements[self.element].name
    }

    /// This element as a configuration declares it, `NAME :: CLASS`, which is how Click's messages begin.
    pub fn declaration(&self) -> String {
        let element = &self.host.layout().elements[self.element];
        format!("{} :: {}", element.name, element.class.name)
    }

    /// This element's index in the flat graph.
    pub fn index(&self) -> ElementId {
        self.element
    }

    /// Puts the element's task in line, or takes it out.
    pub fn schedule_if(&mut self, active: bool) {
        if active {
            self.schedule();
        } else {
            self.unschedule();
        }
    }

    /// This worker's licence to read tables of [`Args::rcu`](crate::args::Args::rcu)'s domain.
    #[inline]
    pub fn rcu(&self) -> &sync::rcu::Reader {
        self.host.rcu()
    }

    /// The worker that this instance belongs to.
    pub fn worker(&self) -> usize {
        self.host.index()
    }

    /// Reads handler `element.handler` (or a global one) of this router, wherever its instances are. A name without
    /// an element is looked up first in this element's compound.
    ///
    /// # Errors
    /// See [`HandlerError`].
    pub fn read_handler(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        let target = self.host.layout().resolve(name, Some(self.element))?;
        self.host.read(&target, param)
    }

    /// Executes write handler `name`, see [`Cx::read_handler`].
    ///
    /// # Errors
    /// See [`HandlerError`].
    pub fn write_handler(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        let target = self.host.layout().resolve(name, Some(self.element))?;
        self.host.write(&target, value)
    }

    /// Finds the handler that `element.handler` means here, for repeated calls and to ask what it allows.
    ///
    /// # Errors
    /// See [`HandlerError`].
    pub fn resolve(&self, name: &str) -> Result<HandlerRef, HandlerError> {
        self.host.layout().resolve(name, Some(self.element))
    }

    /// Reads a handler found by [`Cx::resolve`].
    ///
    /// # Errors
    /// See [`HandlerError`].
    pub fn read_target(&mut self, target: &HandlerRef, param: &str) -> Result<String, HandlerError> {
        self.host.read(target, param)
    }

    /// Executes a write handler found by [`Cx::resolve`].
    ///
    /// # Errors
    /// See [`HandlerError`].
    pub fn write_target(&mut self, target: &HandlerRef, value: &str) -> Result<(), HandlerError> {
        self.host.write(target, value)
    }

    /// Puts `deputy` in this instance's place until it returns, so that calls which come back to the element while it
    /// runs (a script that calls another that calls it) find somebody. Both must work on common state.
    pub fn lend(&mut self, deputy: Box<dyn Element>) {
        self.host.lend(self.element, Some(deputy));
    }

    /// Does `f` while `me` stands in its own place, so that handlers which `f` calls reach this instance, too. An element
    /// that calls a handler in the middle of its work calls it so: scripts ask for the count that made the call due.
    pub fn reachable<E: Element + Default>(&mut self, me: &mut E, f: impl FnOnce(&mut Self)) {
        self.lend(Box::new(std::mem::take(me)));
        f(self);
        let lent = self.host.lend(self.element, None);
        if let Some(lent) = lent.and_then(|e| (e as Box<dyn std::any::Any>).downcast().ok()) {
            *me = *lent;
        }
    }

    /// Answers what other threads ask of this worker, for an element that waits for another worker. `deputy` stands in the element's
    /// place meanwhile.
    pub fn answer(&mut self, mut deputy: impl FnMut() -> Box<dyn Element>) {
        self.host.answer(self.element, &mut deputy);
    }

    /// Calls [`ProcessEvents::signal`](crate::ProcessEvents::signal) when the process receives `signal`, in place of what would happen otherwise.
    pub fn on_signal(&mut self, signal: i32) {
        self.host.set_signal(self.element, signal, true);
    }

    /// Leaves `signal` to others, or to what it does by default.
    pub fn ignore_signal(&mut self, signal: i32) {
        self.host.set_signal(self.element, signal, false);
    }

    /// The router as others see it: names, classes, configuration, handlers.
    pub fn router(&self) -> &Arc<Layout> {
        self.host.layout()
    }

    /// Carries on with what was pushed so far before the element returns. Only scripts need this, which promise
    /// that an instruction's effects are there before the next.
    pub fn settle(&mut self) {
        self.host.settle();
    }
}

/// What an element sees while it opens what exists outside the process.
pub struct OpenCx<'a> {
    /// Opens devices, and knows the configuration before.
    pub opener: &'a dyn Opener,
    /// Its class.
    pub class: &'static Class,
    /// Its configuration string.
    pub config: &'a str,
    /// The element's name.
    pub name: &'a str,
    /// Workers that the router will have.
    pub workers: usize,
    /// Packets handled at a time.
    pub burst: usize,
    /// Whether the router is only planned.
    pub dry: bool,
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
        self.opener.open(self.name, spec).map_err(|e| e.to_string())
    }

    /// State of type `T` that the element of this name and class provides to others in the running router in whose place
    /// this one will come. Both may use it at once until then, and if nothing comes of it the other goes on.
    pub fn predecessor<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.opener.predecessor(self.name, self.class)?.downcast().ok()
    }

    /// State of type `T` that any element of the running router in whose place this one will come provides, of any name and class.
    pub fn predecessors<T: Send + Sync + 'static>(&self) -> Vec<Arc<T>> {
        self.opener.predecessors().into_iter().filter_map(|state| state.downcast().ok()).collect()
    }

    /// Whether another router runs until this one takes its place.
    pub fn is_swap(&self) -> bool {
        self.opener.is_swap()
    }

    /// Whether a running router has this very element, of the same configuration string, in whose place this one will
    /// come: what is open there (a file, a socket) is then left to [`HotSwap::take_state`](crate::HotSwap::take_state).
    pub fn inherits(&self) -> bool {
        self.opener.inherits(self.name, self.class, self.config)
    }

    /// Compiles a filter expression for a device with this link type.
    ///
    /// # Errors
    /// What is wrong with the expression, or what is missing on this machine.
    pub fn filter(&self, expression: &str, link: u32) -> Result<Filter, String> {
        self.opener.filter(expression, link).map_err(|e| e.to_string())
    }
}

/// What an instance sees while it is initialised on its worker.
pub struct InitCx<'a> {
    cx: Cx<'a>,
    task: Option<usize>,
    tasks: usize,
}

impl<'a> InitCx<'a> {
    /// For an instance that runs this of the element's tasks, of so many.
    pub fn new(cx: Cx<'a>, task: Option<usize>, tasks: usize) -> InitCx<'a> {
        InitCx { cx, task, tasks }
    }
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
        let place = &self.cx.host.layout().elements[self.cx.element].place;
        let index = place.workers.iter().position(|w| *w == self.cx.host.index());
        (index.unwrap_or(0), place.instances())
    }

    /// Whether this is the instance that should act for the element as a whole (timers, files): the one with task 0,
    /// or the first one of an element without tasks.
    pub fn is_home(&self) -> bool {
        self.task == Some(0)
            || (self.task.is_none() && self.cx.host.layout().home(self.cx.element) == self.cx.host.index())
    }

    /// Takes receive queue `queue` of a device. `None` when the configuration that this one is to replace still uses it:
    /// then it comes by [`DeviceQueues::acquire`](crate::DeviceQueues::acquire).
    ///
    /// # Errors
    /// As [`Device::rx`](port::Device::rx).
    pub fn rx(
        &self,
        device: &Arc<dyn port::Device>,
        queue: usize,
    ) -> Result<Option<Box<dyn port::RxQueue>>, String> {
        self.cx.host.rx(device, queue).map_err(|e| e.to_string())
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
        self.cx.host.tx(device, queue).map_err(|e| e.to_string())
    }

    /// See [`OpenCx::inherits`].
    pub fn inherits(&self) -> bool {
        self.cx.host.inherits(self.cx.element)
    }

    /// Writes a handler, named as seen from this element, when all elements are initialised, and before any runs. What goes wrong
    /// is printed.
    pub fn write_when_ready(&mut self, handler: String, value: String) {
        self.cx.host.write_when_ready(self.cx.element, handler, value);
    }

    /// Makes this element the driver's manager: [`Cx::please_stop`] calls its
    /// [`driver_stopped`](crate::ProcessEvents::driver_stopped).
    pub fn manage_driver(&mut self) {
        self.cx.host.manage_driver(self.cx.element);
    }

    /// Index of the element that manages the driver, if one does already.
    pub fn driver_manager(&self) -> Option<ElementId> {
        self.cx.host.driver_manager()
    }

    /// State of type `T` that element `name` provides to this worker. Names are looked up from the innermost
    /// compound of this element outwards.
    pub fn find<T: Send + Sync + 'static>(&mut self, name: &str) -> Option<Arc<T>> {
        let index = self.cx.host.layout().lookup(name, Some(self.cx.element))?;
        self.provided(index)
    }

    /// State of type `T` that an element provides to this worker.
    pub fn provided<T: Send + Sync + 'static>(&mut self, element: ElementId) -> Option<Arc<T>> {
        self.cx.host.provided(element)?.downcast().ok()
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
        let shared = self.cx.host.layout().clone();
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
        let shared = self.cx.host.layout().clone();
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
        let shared = self.cx.host.layout().clone();
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
