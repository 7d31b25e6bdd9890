// SPDX-License-Identifier: MIT OR Apache-2.0
//! A router: a configuration made into instances on workers.
//!
//! Others reach it by a [`Control`]. What outlives a configuration (workers, their mailboxes, the clock, how devices are
//! opened) is the router's [`Runtime`]; what one configuration is, all see in its [`Shared`]. The crate `reconfigure` puts another
//! configuration in a running one's place.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lang::{Diagnostic, Graph};
use sync::heap::in_lines;
use sync::lock::AdaptiveLock;
use sync::mutex::lock;

use crate::build::write;
use crate::clock::Clock;
use crate::ending;
use crate::fuse::{self, FusedChain};
use crate::observer::{Observer, Wants};
use crate::placer::AfterRound;
use crate::remote::Control;
use crate::report::Report;
use crate::runtime::{Options, Runtime, Threads};
use crate::shared::{BIG_LOCK, Shared, readable};
use crate::worker::{Turn, TurnPlace, Worker};
use element::{HandlerError, Registry};

/// What runs along with the workers, on a thread of its own, until the other end of the receiver is gone. It is given the cores that
/// workers are pinned to.
type Companion = Arc<dyn Fn(&Control, &[usize], &Receiver<()>) + Send + Sync>;

/// A router ready to run, running, or stopped.
pub struct Router {
    runtime: Arc<Runtime>,
    /// The configuration, unless the router runs: others may take its place then, and it is not to outlive them.
    shared: Option<Arc<Shared>>,
    workers: Vec<Worker>,
    cores: Vec<usize>,
    left: Vec<usize>,
    companions: Vec<(&'static str, Companion)>,
}

impl Router {
    /// Checks a configuration, opens what it names, makes the instances and initialises them.
    ///
    /// # Errors
    /// All that is wrong, each at its place in the configuration; what was opened is closed again.
    pub fn build(graph: &Graph, registry: &Registry, options: Options) -> Result<Router, Vec<Diagnostic>> {
        Router::build_shared(&Arc::new(graph.clone()), registry, options)
    }

    /// The same with a graph that need not be copied.
    ///
    /// # Errors
    /// As for [`Router::build`].
    pub fn build_shared(
        graph: &Arc<Graph>,
        registry: &Registry,
        mut options: Options,
    ) -> Result<Router, Vec<Diagnostic>> {
        let cores = std::mem::take(&mut options.cores);
        // What workers write to or read all the time must not share lines with what others write to.
        let runtime = in_lines(|| Arc::new(Runtime::new(registry, options)));
        let (shared, mut workers) = runtime.construct(graph, None, &runtime.clock)?;
        workers.iter_mut().for_each(|w| in_lines(|| w.fuse(registry)));
        runtime.set_current(&shared);
        Ok(Router { runtime, shared: Some(shared), workers, cores, left: Vec::new(), companions: Vec::new() })
    }

    /// The handle by which other threads read, write and stop this router.
    pub fn control(&self) -> Control {
        Control::new(self.runtime.clone())
    }

    /// What is known of the router: elements, plan, flat text.
    pub fn shared(&self) -> &Arc<Shared> {
        self.shared.as_ref().expect("who runs the router has it alone")
    }

    /// The chains of elements that run as one pass, on any worker.
    pub fn fused(&self) -> Vec<FusedChain> {
        fuse::longest(self.workers.iter().flat_map(Worker::fused))
    }

    /// Runs until something stops the router. The first worker runs on the calling thread when it is the only one and nobody watches it.
    pub fn run(&mut self) {
        for mailbox in self.runtime.mailboxes.iter() {
            mailbox.set_open(true);
        }
        let placer = self.runtime.placer().cloned();
        placer.iter().for_each(|placer| placer.set_running(&self.runtime, true));
        self.shared = None;
        self.run_workers();
        placer.iter().for_each(|placer| placer.set_running(&self.runtime, false));
        self.shared = Some(self.runtime.current());
    }

    /// Changes the router while it does not run: its workers may be replaced by others, of the configuration that is the current one
    /// then. The clock is the workers'.
    pub fn change<R>(&mut self, f: impl FnOnce(&Arc<Runtime>, &Clock, &mut Vec<Worker>) -> R) -> R {
        let clock = self.workers[0].clock().clone();
        let done = f(&self.runtime, &clock, &mut self.workers);
        self.shared = Some(self.runtime.current());
        done
    }

    /// From the next run on, `body` runs along with the workers, on a thread of this name.
    pub fn accompany(
        &mut self,
        name: &'static str,
        body: impl Fn(&Control, &[usize], &Receiver<()>) + Send + Sync + 'static,
    ) {
        self.companions.retain(|(known, _)| *known != name);
        self.companions.push((name, Arc::new(body)));
    }

    /// From the next run on, a worker that does not end with the others is left behind: somebody watches the workers.
    pub fn expect_stalls(&mut self) {
        self.runtime.is_watched.store(true, Ordering::Relaxed);
    }

    /// From the next run on, threads are started so. It can be said once.
    pub fn start_threads_by(&mut self, threads: Threads) {
        let _ = self.runtime.threads.set(threads);
    }

    /// Whether workers share simulated time.
    pub fn shares_time(&self) -> bool {
        self.runtime.shares_time()
    }

    /// From the next run on, what this makes is asked for a change of the router after each round of simulated time that workers share.
    pub fn between_rounds(&mut self, make: impl Fn() -> AfterRound + Send + Sync + 'static) {
        *lock(&self.runtime.between_rounds) = Some(Arc::new(make));
    }

    fn run_workers(&mut self) {
        let is_watched = self.runtime.is_watched.load(Ordering::Relaxed);
        let mut workers = std::mem::take(&mut self.workers);
        let count = workers.len();
        // Who is not watched and not pinned needs no thread of its own, nor do those who take turns.
        if !is_watched
            && self.runtime.threads.get().is_none()
            && (self.shares_time() || (count == 1 && self.cores.is_empty()))
        {
            ending::run_group(&self.runtime, &mut workers, None);
            self.workers = workers;
            return;
        }
        // Gone when the workers have ended.
        let companions: Vec<(Sender<()>, JoinHandle<()>)> =
            self.companions.iter().filter_map(|(name, body)| self.start(name, body.clone())).collect();
        let mut ended = ending::run(&self.runtime, workers, &self.cores);
        let (over, companions): (Vec<_>, Vec<_>) = companions.into_iter().unzip();
        drop(over);
        self.left = (0..count).filter(|w| !ended.workers.contains_key(w)).collect();
        if self.left.is_empty() {
            companions.into_iter().for_each(|thread| drop(thread.join()));
        }
        if let Some(panic) = ended.panic {
            std::panic::resume_unwind(panic);
        }
        if !self.left.is_empty() {
            let shared = self.runtime.current();
            for placeholder in self.runtime.placeholders(&shared, true) {
                ended.workers.entry(placeholder.index()).or_insert(placeholder);
            }
        }
        self.workers = ended.workers.into_values().collect();
    }

    /// Starts a companion of the workers. It ends when the sender is gone.
    fn start(&self, name: &str, body: Companion) -> Option<(Sender<()>, JoinHandle<()>)> {
        let (control, cores) = (self.control(), self.cores.clone());
        let (workers_run, over) = channel();
        let body = move || {
            // Without it, it looks when the workers rest.
            let _ = sync::priority::before_workers();
            body(&control, &cores, &over);
        };
        match std::thread::Builder::new().name(name.into()).spawn(body) {
            Ok(thread) => Some((workers_run, thread)),
            Err(why) => {
                self.runtime.current().print(&format!("nobody watches the workers: {why}"));
                None
            }
        }
    }

    /// Workers that did not end with the router, and were left behind with all they own. What is asked of the rest goes without them.
    pub fn left_behind(&self) -> &[usize] {
        &self.left
    }

    /// From now on only one worker at a time goes through a round of its tasks: one big lock around all processing of packets, as
    /// the first multiprocessor systems had. For experiments that show what it costs; the handler `big_lock` counts.
    pub fn lock_all_processing(&mut self) {
        let lock = self
            .shared()
            .big_lock
            .get_or_init(|| sync::lock::naming(BIG_LOCK, || Arc::new(AdaptiveLock::new(()))))
            .clone();
        self.workers.iter_mut().for_each(|w| w.set_big_lock(lock.clone()));
    }

    /// Adds observers to all workers before they run; [`Control::add_observers`] does it while they run.
    pub fn add_observers(&mut self, key: u64, wants: &Wants, observer: &dyn Fn() -> Box<dyn Observer>) {
        self.workers.iter_mut().for_each(|w| w.add_observer(key, wants.clone(), observer()));
    }

    /// From now on no worker sleeps for want of work: for measurements with devices that wake nobody.
    pub fn stay_awake(&mut self) {
        self.workers.iter_mut().for_each(Worker::stay_awake);
    }

    /// From now on workers go through their rounds one after the other, each on its core, and never sleep: for measurements of what it
    /// costs that things move between cores, without waiting. Routers that share `turn` go in turn with each other, too: `first` is the
    /// place of this one's first worker among `of` in all.
    pub fn take_turns(&mut self, turn: &Turn, first: usize, of: usize) {
        for (i, worker) in self.workers.iter_mut().enumerate() {
            worker.set_turn(TurnPlace { turn: turn.clone(), place: first + i, of });
        }
        self.stay_awake();
    }

    /// Runs one worker on the calling thread until something stops the router, and the others not at all: for tests and tools
    /// that ask what a worker touches.
    pub fn run_alone(&mut self, worker: usize) {
        self.shared().mailboxes[worker].set_open(true);
        self.workers[worker].run();
    }

    /// State of type `T` that the element of this name provides.
    pub fn provided<T: Send + Sync + 'static>(&self, name: &str) -> Option<Arc<T>> {
        self.shared().provided(self.shared().lookup(name, None)?)?.downcast().ok()
    }

    /// Reads a handler while the router does not run.
    ///
    /// # Errors
    /// See [`HandlerError`].
    pub fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        let target = self.shared().resolve(name, None)?;
        readable(&target)?;
        let mut answers = self.shared().answering(&target, false);
        answers.retain(|w| !self.left.contains(w));
        if answers.is_empty() {
            return Err(HandlerError::failed(
                "the worker that could answer was left behind when the router stopped",
            ));
        }
        let answers = answers.into_iter().map(|w| self.workers[w].read_local(&target, param));
        Ok(element::merge(target.handler().merge, answers.collect::<Result<_, _>>()?))
    }

    /// Executes a write handler while the router does not run.
    ///
    /// # Errors
    /// See [`HandlerError`].
    pub fn write(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        let shared = self.shared().clone();
        write(&shared, &mut self.workers, None, name, value)
    }

    /// Stops the router when it has run for `limit` from now, by its own clock, simulated or real.
    pub fn stop_after(&mut self, limit: Duration) {
        let worker = &mut self.workers[0];
        worker.stop_after(limit);
        if !worker.clock().is_simulated() {
            *lock(&self.runtime.ends_at) = Instant::now().checked_add(limit);
        }
    }

    /// Lets a stopped router run again.
    pub fn resume(&mut self) {
        self.shared().stopped.store(false, Ordering::Relaxed);
    }

    /// Processor time of each worker while the router ran, in nanoseconds.
    pub fn cpu_ns(&self) -> Vec<u64> {
        self.workers.iter().map(Worker::cpu_ns).collect()
    }

    /// Counters of the router as it stands, worker by worker.
    pub fn reports(&self) -> Vec<Report> {
        self.workers.iter().map(Worker::report).collect()
    }

    /// Counters of the router as it stands.
    pub fn report(&self) -> Report {
        let mut report = Report::default();
        self.workers.iter().for_each(|w| report.add(&w.report()));
        report.gone = self.runtime.gone();
        report
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.workers.iter_mut().for_each(Worker::finish);
    }
}
