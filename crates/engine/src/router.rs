// SPDX-License-Identifier: MIT OR Apache-2.0
//! A router: a configuration made into instances on workers.
//!
//! Others reach it by a [`Control`]. What outlives a configuration (workers, their mailboxes, the clock, how devices are
//! opened) is the router's [`Plant`]; what one configuration is, all see in its [`Shared`]. [`swap`](crate::swap) puts another
//! configuration in a running one's place.

mod check;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lang::{Diagnostic, Graph};
use packet::port::Provider;
use sync::events::{self, Kind, Mask};
use sync::heap::in_lines;
use sync::lock::AdaptiveLock;
use sync::padded::CachePadded;

use crate::build::{Blueprint, Plant, lock};
use crate::builtin;
use crate::clock::TimeSource;
use crate::ending;
use crate::fuse::{self, FusedChain};
use crate::mailbox::Mailbox;
use crate::plan::Placed;
use crate::remote::Control;
use crate::report::Report;
use crate::restless::Restless;
use crate::signals::Signals;
use crate::swap::{self, Holdings};
use crate::watchdog::{self, Watched};
use crate::witness::{Wants, Witness};
use crate::worker::{Edge, PortTable, Turn, TurnPlace, Worker};
use element::timers::CommonTimers;
use element::wiring::{End, Side, Wired};
use element::{
    Access, Element, ElementId, ElementInfo, HandlerError, HandlerRef, IndexVec, Layout, Merge, Mode,
    PortIndex, Provided, Registry, Target,
};

pub use check::{Check, check};
pub(crate) use check::{check_in, configured, is_error};

/// Takes a line that an element prints.
pub type Print = Box<dyn Fn(&str) + Send + Sync>;

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
}

/// Packets handled at a time unless configured: on the IP router, 64 cost 8 to 10 % less per packet than 32, and 128 cost
/// 1 to 2 % more than 64 (docs/measurements/engine.md).
pub const DEFAULT_BURST: usize = 64;

/// A handler that an element wants written when all elements are initialised.
pub(crate) struct Wish {
    /// Who wants it.
    pub(crate) from: ElementId,
    /// The handler's name, as that element sees it.
    pub(crate) handler: String,
    pub(crate) value: String,
}

/// The part of a router that all its workers, and those who control it, see.
pub struct Shared {
    /// Its elements.
    pub layout: Arc<Layout>,
    pub(crate) blueprint: Arc<Blueprint>,
    /// The same for all placements of one configuration.
    pub(crate) lineage: Arc<()>,
    /// Elements whose tasks were put where they are by hand, while the router ran.
    pub(crate) pinned: IndexVec<ElementId, bool>,
    pub(crate) outputs: PortTable,
    pub(crate) inputs: PortTable,
    pub(crate) burst: usize,
    pub(crate) seed: u64,
    pub(crate) rcu: sync::rcu::Domain,
    pub(crate) mailboxes: Arc<[Mailbox]>,
    pub(crate) plant: Weak<Plant>,
    pub(crate) provided: IndexVec<ElementId, Option<Provided>>,
    pub(crate) stopped: Arc<CachePadded<AtomicBool>>,
    pub(crate) big_lock: OnceLock<Arc<AdaptiveLock<()>>>,
    pub(crate) driver: Mutex<Option<(ElementId, usize)>>,
    pub(crate) signals: Signals,
    pub(crate) print: Option<Arc<Print>>,
    /// Devices and their queues that this configuration uses.
    pub(crate) holdings: Holdings,
    /// Handlers that elements want written when all are initialised.
    pub(crate) when_ready: Mutex<Vec<Wish>>,
    /// What will probably not do what it was meant to.
    pub warnings: Vec<Diagnostic>,
    /// What was written to `config` of elements.
    pub(crate) written_configs: Mutex<BTreeMap<ElementId, String>>,
    /// What the configuration requires: kind and name in turn, `package` and `foo` for instance.
    pub requirements: Vec<String>,
}

impl Deref for Shared {
    type Target = Layout;

    fn deref(&self) -> &Layout {
        &self.layout
    }
}

impl Shared {
    /// Ends the router.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.mailboxes.iter().for_each(Mailbox::wake);
    }

    /// Whether the router has been told to end.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// A timer of the router itself has expired: the end of its run, or its alarm.
    pub(crate) fn on_timer(&self, timer: u32) {
        if timer == builtin::END_TIMER {
            return self.stop();
        }
        let Some(plant) = self.plant.upgrade() else { return };
        let ring = lock(&plant.alarm).take();
        if let Some(ring) = ring {
            std::thread::spawn(ring);
        }
    }

    pub(crate) fn print(&self, text: &str) {
        match &self.print {
            Some(print) => print(text),
            // Where nobody listens any more, the router goes on.
            None => writeln!(std::io::stderr(), "{text}").unwrap_or_default(),
        }
    }

    /// The flat configuration as text, with its secrets.
    pub fn flat(&self) -> String {
        self.blueprint.graph.to_click()
    }

    /// Signals that elements ask for or asked for.
    pub fn signals(&self) -> Vec<i32> {
        self.signals.known()
    }

    /// The locks of this configuration's elements, and the one around all processing: who they are for, what they have been
    /// through, and where in the source they are made.
    pub fn locks(&self) -> Vec<sync::lock::Described> {
        let mine = |name: &str| self.named(name).is_some() || name == builtin::BIG_LOCK;
        sync::lock::all().into_iter().filter(|l| mine(&l.name)).collect()
    }

    /// What was written to an element's `config`, if anything was.
    pub(crate) fn config_of(&self, element: ElementId) -> Option<String> {
        lock(&self.written_configs).get(&element).cloned()
    }

    pub(crate) fn set_config_of(&self, element: ElementId, config: String) {
        lock(&self.written_configs).insert(element, config);
    }

    /// Lets the text that `config` shows have what was written to a handler, where that stands for an argument.
    pub(crate) fn note_written(&self, e: ElementId, target: &HandlerRef, value: &str) {
        if let Some((position, keyword)) = target.handler().argument {
            let config = self.config_of(e).unwrap_or_else(|| self.elements[e].config.to_string());
            self.set_config_of(e, element::with_argument(&config, position, keyword, value.trim()));
        }
    }

    /// Whether handlers may replace the configuration.
    pub(crate) fn is_reconfigurable(&self) -> bool {
        self.plant.upgrade().is_some_and(|p| p.reconfigure.get().is_some())
    }

    /// All state of type `T` that elements provide, for what serves them outside the workers.
    pub fn all_provided<T: Send + Sync + 'static>(&self) -> Vec<Arc<T>> {
        self.provided.iter().flatten().filter_map(|state| state.clone().downcast().ok()).collect()
    }

    pub(crate) fn provided(&self, index: ElementId) -> Option<Provided> {
        self.provided[index].clone()
    }

    pub(crate) fn set_driver(&self, element: ElementId, worker: usize) {
        *lock(&self.driver) = Some((element, worker));
    }

    pub(crate) fn driver(&self) -> Option<(ElementId, usize)> {
        *lock(&self.driver)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn wake_sleepers_after(&self, element: ElementId, by: usize) {
        for w in self.elements[element].place.drained_by.iter().filter(|w| **w != by) {
            let mailbox = &self.mailboxes[*w];
            if mailbox.is_asleep() {
                // Before it, for the woken may go on before this one does.
                let at = events::begin_span(Mask::CONTROL);
                mailbox.wake();
                if let Some(at) = at {
                    events::push(at, Kind::Wake, (*w as u32, element.number()), (0, by as u32));
                }
            }
        }
    }

    /// Workers whose instances answer a call.
    pub(crate) fn answering(&self, target: &HandlerRef, write: bool) -> Vec<usize> {
        let Target::Element(element) = target.target() else {
            return match target.handler().merge {
                // Any can, so one that is not stuck.
                Merge::First => vec![self.mailboxes.iter().position(|m| m.trouble().is_none()).unwrap_or(0)],
                _ => (0..self.mailboxes.len()).collect(),
            };
        };
        let place = &self.elements[element].place;
        let common = target.handler().common;
        let all = match place.mode {
            Mode::Single | Mode::Locked => common && target.handler().merge != Merge::First,
            Mode::PerCore => write || target.handler().merge != Merge::First,
            Mode::Shared if write => target.handler().everywhere,
            Mode::Shared => target.handler().merge != Merge::First,
        };
        if all { place.workers.clone() } else { vec![place.home()] }
    }
}

/// A router ready to run, running, or stopped.
pub struct Router {
    pub(crate) plant: Arc<Plant>,
    shared: Arc<Shared>,
    pub(crate) workers: Vec<Worker>,
    cores: Vec<usize>,
    left: Vec<usize>,
}

impl Router {
    /// Checks a configuration, opens what it names, makes the instances and initialises them.
    ///
    /// # Errors
    /// All that is wrong, each at its place in the configuration; whatever was opened is closed again.
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
        // What workers write to or read all the time must not lie beside what others write to.
        let plant = in_lines(|| Arc::new(Plant::new(registry, options)));
        let (shared, mut workers) = plant.construct(graph, None, &plant.clock)?;
        workers.iter_mut().for_each(|w| in_lines(|| w.fuse(registry)));
        plant.set_current(&shared);
        Ok(Router { plant, shared, workers, cores, left: Vec::new() })
    }

    /// The handle by which other threads read, write and stop this router.
    pub fn control(&self) -> Control {
        Control::new(self.plant.clone())
    }

    /// What is known of the router: elements, plan, flat text.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The chains of elements that run as one pass, on any worker.
    pub fn fused(&self) -> Vec<FusedChain> {
        fuse::longest(self.workers.iter().flat_map(Worker::fused))
    }

    /// Runs until something stops the router. The first worker runs on the calling thread when it is the only one and nobody watches it.
    pub fn run(&mut self) {
        for mailbox in self.plant.mailboxes.iter() {
            mailbox.set_open(true);
        }
        self.plant.balancer.set_running(true);
        self.plant.balancer.begin(&self.plant);
        self.run_workers();
        self.plant.balancer.set_running(false);
        self.adopt();
    }

    /// Takes note of the configuration that came with a swap.
    pub(crate) fn adopt(&mut self) {
        self.shared = self.plant.current();
    }

    fn run_workers(&mut self) {
        let watched = *lock(&self.plant.watched);
        let mut workers = std::mem::take(&mut self.workers);
        let count = workers.len();
        // Who is not watched and not pinned needs no thread of its own, nor do those who take turns.
        if watched == Watched::No && (self.plant.common.is_some() || (count == 1 && self.cores.is_empty())) {
            ending::run_group(&self.plant, &mut workers, None);
            self.workers = workers;
            return;
        }
        // Gone when the workers have ended.
        let (workers_run, over) = channel();
        let watchdog = self.beside("watchdog", watched != Watched::No, {
            let cores = self.cores.clone();
            move |plant| watchdog::watch(plant, watched, &cores, &over)
        });
        let (workers_roam, stay) = channel::<()>();
        let seed = (*lock(&self.plant.restless)).filter(|_| self.plant.common.is_none());
        let mover = self.beside("restless", seed.is_some(), move |plant| {
            Restless::new(seed.unwrap_or(0)).roam(plant, &stay)
        });
        let mut ended = ending::run(&self.plant, workers, &self.cores);
        drop::<(Sender<()>, Sender<()>)>((workers_run, workers_roam));
        self.left = (0..count).filter(|w| !ended.workers.contains_key(w)).collect();
        if self.left.is_empty() {
            [watchdog, mover].into_iter().flatten().for_each(|t| drop(t.join()));
        }
        if let Some(panic) = ended.panic {
            std::panic::resume_unwind(panic);
        }
        if !self.left.is_empty() {
            let shared = self.plant.current();
            let hulls = swap::hulls(&self.plant, &shared);
            for hull in hulls {
                ended.workers.entry(hull.index).or_insert(hull);
            }
        }
        self.workers = ended.workers.into_values().collect();
    }

    /// Starts a thread beside the workers, if it is wanted.
    fn beside(
        &self,
        name: &str,
        wanted: bool,
        body: impl FnOnce(&Arc<Plant>) + Send + 'static,
    ) -> Option<JoinHandle<()>> {
        let plant = self.plant.clone();
        let thread = std::thread::Builder::new().name(name.into());
        let body = move || {
            // Without it, it looks when the workers rest.
            let _ = sync::priority::before_workers();
            body(&plant);
        };
        match wanted.then(|| thread.spawn(body))? {
            Ok(thread) => Some(thread),
            Err(why) => {
                self.shared.print(&format!("nobody watches the workers: {why}"));
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
            .shared
            .big_lock
            .get_or_init(|| sync::lock::naming(builtin::BIG_LOCK, || Arc::new(AdaptiveLock::new(()))));
        self.workers.iter_mut().for_each(|w| w.big_lock = Some(lock.clone()));
    }

    /// From the next run on, a worker that stands still for this time is found and named, with the packets it has in hand, and
    /// nobody waits for it; a quarter of a second at least, and `None` for never. With or without that, workers are brought back to
    /// processors that were taken from them for a while, which is said. Without this call, and on simulated time, nobody watches.
    pub fn watch_workers(&mut self, patience: Option<Duration>) {
        *lock(&self.plant.watched) = patience.map_or(Watched::Processors, Watched::All);
    }

    /// Calls witnesses to all workers before they run; [`Control::call_witnesses`] does it while they run.
    pub fn call_witnesses(&mut self, key: u64, wants: &Wants, witness: &dyn Fn() -> Box<dyn Witness>) {
        self.workers.iter_mut().for_each(|w| w.call_witness(key, wants.clone(), witness()));
    }

    /// From now on no worker sleeps for want of work: for measurements with devices that wake nobody.
    pub fn stay_awake(&mut self) {
        self.workers.iter_mut().for_each(|w| w.awake = true);
    }

    /// From now on workers go through their rounds one after the other, each on its core, and never sleep: for measurements of what it
    /// costs that things move between cores, without waiting. Routers that share `turn` go in turn with each other, too: `first` is the
    /// place of this one's first worker among `of` in all.
    pub fn take_turns(&mut self, turn: &Turn, first: usize, of: usize) {
        for (i, worker) in self.workers.iter_mut().enumerate() {
            worker.turn = Some(TurnPlace { turn: turn.clone(), place: first + i, of });
        }
        self.stay_awake();
    }

    /// Runs one worker on the calling thread until something stops the router, and the others not at all: for tests and tools
    /// that ask what a worker touches.
    pub fn run_alone(&mut self, worker: usize) {
        self.shared.mailboxes[worker].set_open(true);
        self.workers[worker].run();
    }

    /// State of type `T` that the element of this name provides.
    pub fn provided<T: Send + Sync + 'static>(&self, name: &str) -> Option<Arc<T>> {
        self.shared.provided(self.shared.lookup(name, None)?)?.downcast().ok()
    }

    /// Reads a handler while the router does not run.
    ///
    /// # Errors
    /// See [`HandlerError`].
    pub fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        let target = self.shared.resolve(name, None)?;
        readable(&target)?;
        let mut answers = self.shared.answering(&target, false);
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
        write(&self.shared, &mut self.workers, None, name, value)
    }

    /// Stops the router when it has run for `limit` from now, by its own clock, simulated or real.
    pub fn stop_after(&mut self, limit: Duration) {
        let worker = &mut self.workers[0];
        // It may remember a time from its last run.
        worker.clock.expire();
        let at = worker.clock.now().saturating_add(limit.as_nanos() as u64);
        if !worker.clock.is_simulated() {
            *lock(&self.plant.ends_at) = Instant::now().checked_add(limit);
        }
        worker.timers.set(Target::Router, builtin::END_TIMER, at);
    }

    /// Lets a stopped router run again.
    pub fn resume(&mut self) {
        self.shared.stopped.store(false, Ordering::Relaxed);
    }

    /// Processor time of each worker while the router ran, in nanoseconds.
    pub fn cpu_ns(&self) -> Vec<u64> {
        self.workers.iter().map(|w| w.cpu_ns).collect()
    }

    /// Counters of the router as it stands, worker by worker.
    pub fn reports(&self) -> Vec<Report> {
        self.workers.iter().map(Worker::report).collect()
    }

    /// Counters of the router as it stands.
    pub fn report(&self) -> Report {
        let mut report = Report::default();
        self.workers.iter().for_each(|w| report.add(&w.report()));
        report.gone = self.plant.gone();
        report
    }
}

/// Executes a write handler, named as seen from element `from`, on workers that do not run.
pub(crate) fn write(
    shared: &Shared,
    workers: &mut [Worker],
    from: Option<ElementId>,
    name: &str,
    value: &str,
) -> Result<(), HandlerError> {
    let target = shared.resolve(name, from)?;
    writable(&target)?;
    workers.iter_mut().for_each(|w| w.rcu.quiescent());
    shared.answering(&target, true).into_iter().try_for_each(|w| workers[w].write_local(&target, value))
}

impl Drop for Router {
    fn drop(&mut self) {
        self.workers.iter_mut().for_each(Worker::finish);
    }
}

pub(crate) fn share(
    blueprint: &Arc<Blueprint>,
    primaries: &IndexVec<ElementId, Box<dyn Element>>,
    places: Placed,
    plant: &Arc<Plant>,
    holdings: Holdings,
) -> Shared {
    let Blueprint { graph, checked, .. } = &**blueprint;
    // Workers read this and the tables of ports while they run.
    let mut elements = in_lines(|| IndexVec::with_capacity(graph.elements.len()));
    let infos =
        graph.elements.iter().zip(places.into_iter_enumerated()).map(|(element, (e, place))| ElementInfo {
            name: element.name.clone(),
            class: checked.classes[e],
            config: element.config.clone(),
            wired: Wired { wiring: checked.wiring.clone(), element: e },
            own_handlers: primaries[e].own_handlers().into_iter().map(|(n, a)| (n.into(), a)).collect(),
            timers: (place.mode == Mode::Locked).then(|| in_lines(CommonTimers::default)),
            place,
            told: AtomicBool::new(false),
            touched: AtomicBool::new(false),
        });
    elements.extend(infos);
    let wakes = |e: ElementId| !elements[e].place.drained_by.is_empty();
    let outputs = port_table(&checked.wiring.outputs, wakes);
    let inputs = port_table(&checked.wiring.inputs, |_| false);
    let pinned = IndexVec::filled(false, elements.len());
    let layout = Layout::new(elements, plant.mailboxes.len(), plant.active(), plant.begun());
    Shared {
        layout: in_lines(|| Arc::new(layout)),
        blueprint: blueprint.clone(),
        lineage: Arc::default(),
        pinned,
        outputs,
        inputs,
        burst: plant.burst,
        seed: plant.seed,
        rcu: plant.rcu.clone(),
        mailboxes: plant.mailboxes.clone(),
        plant: Arc::downgrade(plant),
        provided: primaries.iter().map(|p| p.provide()).collect(),
        stopped: plant.stopped.clone(),
        big_lock: OnceLock::new(),
        driver: Mutex::new(None),
        signals: Signals::default(),
        print: plant.print.clone(),
        holdings,
        when_ready: Mutex::default(),
        warnings: Vec::new(),
        written_configs: Mutex::default(),
        requirements: graph.requirements.iter().flat_map(|r| [r.kind.clone(), r.value.clone()]).collect(),
    }
}

pub(crate) fn port_table(side: &Side, wakes: impl Fn(ElementId) -> bool) -> PortTable {
    let (mut base, mut edges) = (vec![0], Vec::with_capacity(side.ports()));
    for (_, ports) in side.each() {
        for port in ports.iter() {
            let End { element, port } = *port.peers.first().expect("a port of a checked graph is connected");
            edges.push(Edge { element, port: PortIndex::new(port), wakes: wakes(element) });
        }
        base.push(edges.len() as u32);
    }
    in_lines(|| PortTable { base: base.into(), edges: edges.into() })
}

pub(crate) fn readable(target: &HandlerRef) -> Result<(), HandlerError> {
    match target.handler().access {
        Access::Write => Err(HandlerError::Denied(format!("handler '{}' is write-only", target.name()))),
        _ => Ok(()),
    }
}

pub(crate) fn writable(target: &HandlerRef) -> Result<(), HandlerError> {
    match target.handler().access {
        Access::Read => Err(HandlerError::Denied(format!("handler '{}' is read-only", target.name()))),
        _ => Ok(()),
    }
}
