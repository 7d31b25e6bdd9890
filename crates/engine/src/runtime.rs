// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a router keeps through all its configurations: workers' mailboxes, the clock, how devices are opened.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use packet::port::Provider;
use sync::mutex::lock;
use sync::padded::CachePadded;

use crate::clock::{Clock, TimeSource};
use crate::mailbox::{Mailbox, Trouble};
use crate::placer::{BetweenRounds, Placer};
use crate::pulse::Pulse;
use crate::remote::Reconfigure;
use crate::schedule::Common;
use crate::shared::Shared;
use crate::worker::Worker;
use element::Registry;
use element::drops::{DropCounts, Reason};

/// Takes a line that an element prints.
pub type Print = Box<dyn Fn(&str) + Send + Sync>;

/// Runs a job on a new thread of this name.
pub type Spawn = Box<dyn Fn(&str, Box<dyn FnOnce() + Send>) -> std::io::Result<()> + Send + Sync>;

/// How a router's threads are started where workers have fewer rights than other threads.
pub struct Threads {
    /// Called by each worker's thread before its first round, with the worker's number.
    pub enter_worker: Box<dyn Fn(usize) + Send + Sync>,
    /// Called by the thread that runs the router, when all workers have threads: from then on it waits for them.
    pub enter_main: Box<dyn Fn() + Send + Sync>,
    /// Starts the threads that workers ask for: those would otherwise inherit a worker's rights.
    pub spawn: Spawn,
}

/// What a router runs on and with.
pub struct Options {
    /// Opens devices.
    pub provider: Arc<dyn Provider>,
    /// Workers; at least one.
    pub workers: usize,
    /// Further ones that may be added while it runs. They sleep until then.
    pub reserve: usize,
    /// Cores to pin them to, in turn; empty leaves threads where the kernel puts them.
    pub cores: Vec<usize>,
    /// Packets that sources send and drains ask for at a time; 1 gives Click's exact order.
    pub burst: usize,
    /// Real or simulated time.
    pub time: TimeSource,
    /// Seed of the elements' randomness.
    pub seed: u64,
    /// Where elements print; standard error when `None`.
    pub print: Option<Print>,
    /// Places tasks elsewhere while the router runs; without one, handlers that do so are refused.
    pub placer: Option<Arc<dyn Placer>>,
}

/// Packets handled at a time unless configured: on the IP router, 64 cost 8 to 10 % less per packet than 32, and 128 cost
/// 1 to 2 % more than 64 (docs/measurements/engine.md).
pub const DEFAULT_BURST: usize = 64;

/// What a router keeps through all its configurations.
pub struct Runtime {
    pub(crate) registry: Registry,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) burst: usize,
    pub(crate) seed: u64,
    pub(crate) clock: Clock,
    /// There if the workers share simulated time.
    pub(crate) common: Option<Common>,
    pub(crate) rcu: sync::rcu::Domain,
    pub(crate) mailboxes: Arc<[Mailbox<Worker>]>,
    pub(crate) stopped: Arc<CachePadded<AtomicBool>>,
    /// How many of the workers, the first ones, take part.
    active: AtomicUsize,
    /// How many did at first.
    first: usize,
    pub(crate) print: Option<Arc<Print>>,
    /// The configuration that runs, or that will.
    current: Mutex<Option<Arc<Shared>>>,
    /// Held by the thread that stops all workers.
    pub(crate) changing: Mutex<()>,
    /// Places tasks elsewhere while the router runs.
    placer: Option<Arc<dyn Placer>>,
    /// What a write to `hotconfig` does, if it may do anything.
    pub(crate) reconfigure: OnceLock<Reconfigure>,
    /// Drops at elements that are gone since a swap.
    gone: Mutex<DropCounts>,
    /// What happens when the alarm's time has come.
    pub(crate) alarm: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Somebody watches the workers, so that one that stands still is left behind at the end.
    pub(crate) is_watched: AtomicBool,
    /// When a run on real time is to end.
    pub(crate) ends_at: Mutex<Option<std::time::Instant>>,
    /// How threads are started, if not as usual.
    pub(crate) threads: OnceLock<Threads>,
    /// What changes the router between rounds of simulated time, made anew for each run.
    pub(crate) between_rounds: Mutex<Option<BetweenRounds>>,
}

impl Runtime {
    pub(crate) fn new(registry: &Registry, options: Options) -> Runtime {
        let clock = Clock::new(options.time);
        let first = options.workers.max(1);
        let all = first + options.reserve;
        let common = (clock.is_simulated() && all > 1).then(Common::default);
        Runtime {
            registry: registry.clone(),
            provider: options.provider,
            burst: options.burst.max(1),
            seed: options.seed,
            clock,
            common,
            rcu: sync::rcu::Domain::default(),
            mailboxes: (0..all).map(|_| Mailbox::new()).collect(),
            stopped: Arc::default(),
            active: AtomicUsize::new(first),
            first,
            print: options.print.map(Arc::new),
            current: Mutex::new(None),
            changing: Mutex::new(()),
            placer: options.placer,
            reconfigure: OnceLock::new(),
            gone: Mutex::default(),
            alarm: Mutex::new(None),
            is_watched: AtomicBool::new(false),
            ends_at: Mutex::default(),
            between_rounds: Mutex::default(),
            threads: OnceLock::new(),
        }
    }

    /// Starts a thread for a worker.
    pub(crate) fn spawn(&self, name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        match self.threads.get() {
            Some(threads) => (threads.spawn)(name, Box::new(body)),
            None => std::thread::Builder::new().name(name.to_owned()).spawn(body).map(drop),
        }
    }

    /// The calling thread becomes that of a worker, and may lose rights.
    pub(crate) fn enter_worker(&self, worker: usize) {
        if let Some(threads) = self.threads.get() {
            crate::stall::open_account();
            (threads.enter_worker)(worker);
        }
    }

    /// The calling thread starts no further threads, and may lose rights.
    pub(crate) fn enter_main(&self) {
        if let Some(threads) = self.threads.get() {
            (threads.enter_main)();
        }
    }

    /// The configuration that runs.
    ///
    /// # Panics
    /// If there is none yet, which is so only while the router is built.
    pub fn current(&self) -> Arc<Shared> {
        let current = lock(&self.current);
        current.clone().expect("a router has a configuration from the time it is built")
    }

    /// From now on this one runs.
    pub fn set_current(&self, shared: &Arc<Shared>) {
        *lock(&self.current) = Some(shared.clone());
    }

    /// The classes of elements.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The clock as it was when the router was made.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What places tasks elsewhere while the router runs, if anything does.
    pub fn placer(&self) -> Option<&Arc<dyn Placer>> {
        self.placer.as_ref()
    }

    /// Counts packets that were dropped at an element that is gone.
    pub fn add_gone(&self, reason: Reason, n: u64) {
        if n > 0 {
            lock(&self.gone).add(reason, n);
        }
    }

    /// Workers, with those that do not take part.
    pub fn workers(&self) -> usize {
        self.mailboxes.len()
    }

    /// How many of the workers, the first ones, take part.
    pub fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// From now on so many of them take part.
    pub fn set_active(&self, active: usize) {
        self.active.store(active, Ordering::Relaxed);
    }

    /// How many a configuration may place its tasks on: those that take part, and the first ones, which may have been retired for a while.
    pub(crate) fn begun(&self) -> usize {
        self.active().max(self.first)
    }

    pub(crate) fn gone(&self) -> Vec<(Reason, u64)> {
        lock(&self.gone).iter().collect()
    }

    /// Whether workers share simulated time: they all run on one thread then, one after the other.
    pub fn shares_time(&self) -> bool {
        self.common.is_some()
    }

    /// What worker `w` publishes of itself.
    pub fn pulse(&self, w: usize) -> &Pulse {
        &self.mailboxes[w].pulse
    }

    /// Whether worker `w` has handed over all it had and waits for another configuration.
    pub fn is_away(&self, w: usize) -> bool {
        self.mailboxes[w].is_away()
    }

    /// Takes note that worker `w` is stuck, or that it goes on: nobody waits for one that is stuck.
    pub fn set_trouble(&self, w: usize, trouble: Option<Trouble>) {
        self.mailboxes[w].set_trouble(trouble);
    }
}
