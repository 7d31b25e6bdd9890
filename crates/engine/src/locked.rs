// SPDX-License-Identifier: MIT OR Apache-2.0
//! One instance for several workers, behind a lock.
//!
//! Pushed batches never nest (an element returns before what it sent is processed), so a worker holds at most one
//! such lock on the push side; pulls go upstream only, in the graph's order. Hence no two workers can wait for each
//! other's locks. But an element may call a handler of another, and with its lock held wait for the worker that answers: so
//! a worker that waits for a lock answers calls meanwhile, and does not sleep.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use packet::{Batch, Packet};
use sync::lock::{AdaptiveGuard, AdaptiveLock};

use element::args::Args;
use element::stats::{self, Stat};
use element::swap::{DevicePool, same};
use element::{
    Class, Cx, DeviceQueues, Element, HandlerError, HotSwap, InitCx, LongHandlers, OpenCx, PacketHolder,
    ProcessEvents, Provide, Provided, Rehearsed, Rest, Statistics, Tasks, declare,
};

/// How often, and how long each time, a lock is looked at that may never be free.
const LOOKS: u32 = 1000;
const LOOK_EVERY: Duration = Duration::from_micros(100);

/// Looks at a lock before its waiter lets others have the processor.
const SPINS: u32 = 100;

type Guarded = Arc<AdaptiveLock<Box<dyn Element>>>;

/// See the module.
pub struct Locked {
    element: Guarded,
    class: &'static Class,
    /// The one that answers for the element where each worker is asked: what it holds, and its end.
    first: bool,
}

impl Locked {
    /// As many as there are workers, for an element of this class.
    pub fn for_workers(
        element: Box<dyn Element>,
        class: &'static Class,
        workers: usize,
    ) -> impl Iterator<Item = Locked> {
        let element = Arc::new(AdaptiveLock::new(element));
        (0..workers).map(move |i| Locked { element: element.clone(), class, first: i == 0 })
    }

    /// The element itself, from all that there are of it.
    pub fn unlock(all: Vec<Locked>) -> Option<Box<dyn Element>> {
        let element = all.first()?.element.clone();
        drop(all);
        Some(Arc::into_inner(element)?.into_inner())
    }

    /// Once the router has stopped, nobody frees a lock any more whose holder was left behind.
    fn get_at_end(&self, cx: &mut Cx<'_>) -> Option<AdaptiveGuard<'_, Box<dyn Element>>> {
        if cx.is_stopped() { self.element.try_lock() } else { Some(self.get_on(cx)) }
    }

    /// For those who hold it while nobody runs.
    pub fn get(&self) -> AdaptiveGuard<'_, Box<dyn Element>> {
        self.element.lock()
    }

    /// For a worker that runs: it answers calls while it waits, this element's among them.
    #[inline]
    fn get_on(&self, cx: &mut Cx<'_>) -> AdaptiveGuard<'_, Box<dyn Element>> {
        match self.element.try_lock() {
            Some(guard) => guard,
            None => self.wait_on(cx),
        }
    }

    /// Lets the element tell what it would do with a packet.
    pub(crate) fn rehearse(&self, cx: &mut Cx<'_>, port: usize, packet: Packet) -> Rehearsed {
        crate::rehearsal::rehearse(&mut **self.get_on(cx), cx, port, packet)
    }

    fn held_by_element(&self, element: &dyn Element) -> usize {
        self.class.capability::<dyn PacketHolder>(element).map_or(0, |element| element.held())
    }

    #[cold]
    fn wait_on(&self, cx: &mut Cx<'_>) -> AdaptiveGuard<'_, Box<dyn Element>> {
        let mut looks = 0;
        self.element.lock_meanwhile(sync::lock::now_ns, || {
            cx.answer(|| {
                Box::new(Locked { element: self.element.clone(), class: self.class, first: self.first })
            });
            // Most sections are over in less than it takes to give the processor away.
            looks += 1;
            if looks < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        })
    }
}

impl Element for Locked {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.get().configure(args);
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        self.get().open(cx)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        // Once for all workers: by the instance that acts for the element.
        if cx.is_home() { self.get().initialize(cx) } else { Ok(()) }
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) {
        self.get_on(cx).push(cx, port, batch);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) -> Batch {
        self.get_on(cx).pull(cx, port, max)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        self.get_on(cx).process(cx, batch)
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        self.get_on(cx).run_task(cx)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        self.get_on(cx).run_timer(cx, timer);
    }

    fn finish(&mut self, cx: &mut Cx<'_>) {
        if let (true, Some(mut element)) = (self.first, self.get_at_end(cx)) {
            element.finish(cx);
        }
    }
}

impl HotSwap for Locked {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let mut element = self.get();
        let element = self.class.capability_mut::<dyn HotSwap>(&mut **element);
        element.is_some_and(|element| element.take_state(cx, old))
    }
}

impl DeviceQueues for Locked {
    fn release(&mut self, cx: &mut Cx<'_>, pool: &mut DevicePool) {
        if !self.first {
            return;
        }
        if let Some(element) = self.class.capability_mut::<dyn DeviceQueues>(&mut **self.get()) {
            element.release(cx, pool);
        }
    }

    fn acquire(&mut self, cx: &mut Cx<'_>, pool: &mut DevicePool) {
        // On the worker that has initialised the element.
        if cx.router().home(cx.index()) != cx.worker() {
            return;
        }
        if let Some(element) = self.class.capability_mut::<dyn DeviceQueues>(&mut **self.get()) {
            element.acquire(cx, pool);
        }
    }
}

impl LongHandlers for Locked {
    fn read_apart(&mut self, cx: &mut Cx<'_>, name: &str, param: &str) -> Option<Rest<String>> {
        let mut element = self.get_at_end(cx)?;
        self.class.capability_mut::<dyn LongHandlers>(&mut **element)?.read_apart(cx, name, param)
    }

    fn write_apart(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Option<Rest<Option<String>>> {
        let mut element = self.get_on(cx);
        self.class.capability_mut::<dyn LongHandlers>(&mut **element)?.write_apart(cx, name, value)
    }
}

impl ProcessEvents for Locked {
    fn run_fd(&mut self, cx: &mut Cx<'_>, fd: RawFd) {
        let mut element = self.get_on(cx);
        if let Some(element) = self.class.capability_mut::<dyn ProcessEvents>(&mut **element) {
            element.run_fd(cx, fd);
        }
    }

    fn signal(&mut self, cx: &mut Cx<'_>, signal: i32) {
        let mut element = self.get_on(cx);
        if let Some(element) = self.class.capability_mut::<dyn ProcessEvents>(&mut **element) {
            element.signal(cx, signal);
        }
    }

    fn driver_stopped(&mut self, cx: &mut Cx<'_>) {
        let mut element = self.get_on(cx);
        if let Some(element) = self.class.capability_mut::<dyn ProcessEvents>(&mut **element) {
            element.driver_stopped(cx);
        }
    }
}

impl Provide for Locked {
    fn provide(&self) -> Option<Provided> {
        self.class.capability::<dyn Provide>(&**self.get())?.provide()
    }
}

impl PacketHolder for Locked {
    fn held(&self) -> usize {
        // The others would count the same packets again.
        if !self.first {
            return 0;
        }
        // This is asked even when the worker inside never returns.
        for _ in 0..LOOKS {
            match self.element.try_lock() {
                Some(element) => return self.held_by_element(&**element),
                None => std::thread::sleep(LOOK_EVERY),
            }
        }
        0
    }
}

impl Statistics for Locked {
    /// Nothing while another worker is in it: this one does not wait.
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        if !self.first {
            return;
        }
        let Some(element) = self.element.try_lock() else { return };
        put(&stats::HELD, self.held_by_element(&**element) as u64);
        if let Some(element) = self.class.capability::<dyn Statistics>(&**element) {
            element.stats(put);
        }
    }
}

/// Reads a handler of an instance, which may be behind a lock.
pub(crate) fn read(
    instance: &mut dyn Element,
    cx: &mut Cx<'_>,
    name: &str,
    param: &str,
) -> Result<String, HandlerError> {
    let Some(locked) = same::<Locked>(instance) else { return declare::read(instance, cx, name, param) };
    let held = || HandlerError::failed("a worker that was left behind is in it");
    declare::read(&mut **locked.get_at_end(cx).ok_or_else(held)?, cx, name, param)
}

/// Writes a handler of an instance, which may be behind a lock.
pub(crate) fn write(
    instance: &mut dyn Element,
    cx: &mut Cx<'_>,
    name: &str,
    value: &str,
) -> Result<(), HandlerError> {
    match same::<Locked>(instance) {
        Some(locked) => declare::write(&mut **locked.get_on(cx), cx, name, value),
        None => declare::write(instance, cx, name, value),
    }
}
