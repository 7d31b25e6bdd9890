// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a router is built: what it keeps through all its configurations, and how one of these is made into instances.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use element::host::Opener;
use lang::{Diagnostic, Graph};
use packet::filter::Filter;
use packet::port::{Device, Error, Provider, Spec};
use sync::heap::in_lines;
use sync::padded::CachePadded;

use crate::adaptive::Live;
use crate::clock::Clock;
use crate::graph::Checked;
use crate::homes::{self, Wished};
use crate::locked::Locked;
use crate::mailbox::Mailbox;
use crate::plan::{self, How, Placed};
use crate::remote::Reconfigure;
use crate::router::{Check, Options, Print, Shared, Wish, check_in, configured, is_error, share, write};
use crate::swap::{Heritage, Holdings, Wanted};
use crate::turns::Common;
use crate::watchdog::Watched;
use crate::worker::{Slot, Worker};
use element::args::Names;
use element::drops::{DropCounts, Reason};
use element::{
    Class, Cx, Element, ElementId, IndexVec, InitCx, Mode, OpenCx, Place, Policy, Provided, Registry,
    Sharing, Tasks,
};

/// What a configuration was made from, kept so that its tasks can be placed anew.
pub(crate) struct Blueprint {
    pub(crate) graph: Arc<Graph>,
    pub(crate) checked: Checked,
    pub(crate) tasks: IndexVec<ElementId, Tasks>,
    pub(crate) hows: IndexVec<ElementId, How>,
    /// Workers that the configuration asks for.
    pub(crate) wished: Wished,
    /// Elements that treat packets by the worker that brings them ([`Element::tells_workers_apart`]).
    pub(crate) telling: IndexVec<ElementId, bool>,
}

/// What a router keeps through all its configurations.
pub(crate) struct Plant {
    pub(crate) registry: Registry,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) burst: usize,
    pub(crate) seed: u64,
    pub(crate) clock: Clock,
    /// There if the workers share simulated time.
    pub(crate) common: Option<Common>,
    pub(crate) rcu: sync::rcu::Domain,
    pub(crate) mailboxes: Arc<[Mailbox]>,
    pub(crate) stopped: Arc<CachePadded<AtomicBool>>,
    /// How many of the workers, the first ones, take part.
    pub(crate) active: AtomicUsize,
    /// How many did at first.
    first: usize,
    pub(crate) print: Option<Arc<Print>>,
    /// The configuration that runs, or that will.
    current: Mutex<Option<Arc<Shared>>>,
    /// Held by whoever replaces it, or places its tasks otherwise.
    pub(crate) swapping: Mutex<()>,
    /// Placements that elements have asked for.
    pub(crate) wanted: Mutex<Wanted>,
    /// Moves tasks to where they are best, if it is to.
    pub(crate) balancer: Live,
    /// What a write to `hotconfig` does, if it may do anything.
    pub(crate) reconfigure: OnceLock<Reconfigure>,
    /// Drops at elements that are gone since a swap.
    gone: Mutex<DropCounts>,
    /// What happens when the alarm's time has come.
    pub(crate) alarm: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// What of the workers is watched while they run.
    pub(crate) watched: Mutex<Watched>,
    /// When a run on real time is to end.
    pub(crate) ends_at: Mutex<Option<std::time::Instant>>,
    /// The seed of moves at random, for tests.
    pub(crate) restless: Mutex<Option<u64>>,
}

impl Plant {
    pub(crate) fn new(registry: &Registry, options: Options) -> Plant {
        let clock = Clock::new(options.time);
        let first = options.workers.max(1);
        let all = first + options.reserve;
        let common = (clock.is_simulated() && all > 1).then(Common::default);
        Plant {
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
            swapping: Mutex::new(()),
            wanted: Mutex::default(),
            balancer: Live::default(),
            reconfigure: OnceLock::new(),
            gone: Mutex::default(),
            alarm: Mutex::new(None),
            watched: Mutex::default(),
            ends_at: Mutex::default(),
            restless: Mutex::default(),
        }
    }

    /// The configuration that runs.
    pub(crate) fn current(&self) -> Arc<Shared> {
        let current = lock(&self.current);
        current.clone().expect("a router has a configuration from the time it is built")
    }

    pub(crate) fn set_current(&self, shared: &Arc<Shared>) {
        *lock(&self.current) = Some(shared.clone());
    }

    pub(crate) fn add_gone(&self, reason: Reason, n: u64) {
        if n > 0 {
            lock(&self.gone).add(reason, n);
        }
    }

    /// How many of the workers, the first ones, take part.
    pub(crate) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// How many a configuration may place its tasks on: those that take part, and the first ones, which may have been retired for a while.
    pub(crate) fn begun(&self) -> usize {
        self.active().max(self.first)
    }

    pub(crate) fn gone(&self) -> Vec<(Reason, u64)> {
        lock(&self.gone).iter().collect()
    }

    /// Makes the instances of a configuration and initialises them; `heritage` is what it will take over.
    pub(crate) fn construct(
        self: &Arc<Plant>,
        graph: &Arc<Graph>,
        heritage: Option<Heritage>,
        clock: &Clock,
    ) -> Result<(Arc<Shared>, Vec<Worker>), Vec<Diagnostic>> {
        let Check { warnings, checked, mut primaries } = check_in(graph, &self.registry, self.rcu.clone())?;
        let workers = self.mailboxes.len();
        let holdings = Holdings::new(heritage);
        let opening = Opening {
            provider: &*self.provider,
            holdings: &holdings,
            workers,
            burst: self.burst,
            dry: false,
        };
        let tasks = open_all(graph, &checked, &mut primaries, &opening)?;
        let wished = homes::gather(graph, &primaries, &tasks, self.begun())?;
        let hows = hows(&checked, &primaries);
        let telling = primaries.iter().map(|p| p.tells_workers_apart()).collect();
        let blueprint = Arc::new(Blueprint { graph: graph.clone(), checked, tasks, hows, wished, telling });
        let places = blueprint.places(&blueprint.wished, self.active());
        let mut shared = share(&blueprint, &primaries, places, self, holdings);
        shared.warnings = warnings;
        let shared = in_lines(|| Arc::new(shared));
        let mut errors = Vec::new();
        let slots = slots(&blueprint, primaries, &shared, &mut errors);
        // What each worker's instance warns of, the first has.
        errors.retain(is_error);
        let on_duty = !shared.holdings.is_heir();
        let worker = |(w, slots)| {
            in_lines(|| Worker::new(w, shared.clone(), clock.clone(), slots, on_duty, self.common.as_ref()))
        };
        let mut workers: Vec<Worker> = slots.into_iter().enumerate().map(worker).collect();
        initialize(graph, &shared, &mut workers, &mut errors);
        if !errors.is_empty() {
            workers.iter_mut().for_each(Worker::finish);
            return Err(errors);
        }
        in_lines(|| fulfil_wishes(&shared, &mut workers));
        Ok((shared, workers))
    }
}

impl Blueprint {
    /// Where everything runs if tasks run where they are wished, on the first `active` workers.
    pub(crate) fn places(&self, wished: &Wished, active: usize) -> Placed {
        let within = |wished: &Option<Vec<usize>>| -> Option<Vec<usize>> {
            let mut workers: Vec<usize> = Vec::new();
            for w in wished.as_ref()?.iter().map(|w| w % active) {
                if !workers.contains(&w) {
                    workers.push(w);
                }
            }
            Some(workers)
        };
        let wished: Wished = wished.iter().map(within).collect();
        plan::plan(&self.checked, &self.tasks, &wished, &self.hows, active)
    }
}

/// What a mutex guards, also after a thread that held it has panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How each element may be shared.
pub(crate) fn hows(
    checked: &Checked,
    primaries: &IndexVec<ElementId, Box<dyn Element>>,
) -> IndexVec<ElementId, How> {
    primaries.iter_enumerated().map(|(e, primary)| How::of(checked, e, &**primary)).collect()
}

/// How elements are opened.
pub(crate) struct Opening<'a> {
    pub(crate) provider: &'a dyn Provider,
    pub(crate) holdings: &'a Holdings,
    pub(crate) workers: usize,
    pub(crate) burst: usize,
    /// Only to know their tasks.
    pub(crate) dry: bool,
}

impl Opener for Opening<'_> {
    fn open(&self, element: &str, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        self.holdings.open(element, spec, self.provider)
    }

    fn filter(&self, expression: &str, link: u32) -> Result<Filter, Error> {
        self.provider.filter(expression, link)
    }

    fn is_swap(&self) -> bool {
        self.holdings.is_heir()
    }

    fn predecessor(&self, name: &str, class: &Class) -> Option<Provided> {
        self.holdings.predecessor(name, class)
    }

    fn predecessors(&self) -> Vec<Provided> {
        self.holdings.predecessors()
    }

    fn inherits(&self, name: &str, class: &Class, config: &str) -> bool {
        self.holdings.inherits(name, class, config)
    }
}

/// Opens all elements; returns their tasks.
pub(crate) fn open_all(
    graph: &Graph,
    checked: &Checked,
    primaries: &mut IndexVec<ElementId, Box<dyn Element>>,
    opening: &Opening<'_>,
) -> Result<IndexVec<ElementId, Tasks>, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let mut tasks = IndexVec::new();
    for ((element, class), instance) in graph.elements.iter().zip(&checked.classes).zip(primaries) {
        let mut cx = OpenCx {
            opener: opening,
            name: &element.name,
            class,
            config: &element.config,
            workers: opening.workers,
            burst: opening.burst,
            dry: opening.dry,
        };
        // Click tries no further.
        if Policy::of_process().as_click && !errors.is_empty() {
            break;
        }
        match sync::lock::naming(&element.name, || in_lines(|| instance.open(&mut cx))) {
            Ok(t) => {
                tasks.push(t);
            }
            Err(why) => errors.push(
                Diagnostic::error("E0400", format!("'{}' could not open: {why}", element.name))
                    .at(element.span)
                    .label(format!("this {}", element.class))
                    .during(
                        element.span,
                        format!("While initializing '{} :: {}'", element.name, element.class),
                        why,
                    ),
            ),
        }
    }
    if errors.is_empty() { Ok(tasks) } else { Err(errors) }
}

/// All instances, by worker and element.
fn slots(
    blueprint: &Blueprint,
    primaries: IndexVec<ElementId, Box<dyn Element>>,
    shared: &Shared,
    errors: &mut Vec<Diagnostic>,
) -> Vec<IndexVec<ElementId, Slot>> {
    let mut slots: Vec<IndexVec<ElementId, Slot>> =
        (0..shared.workers()).map(|_| in_lines(|| (0..primaries.len()).map(|_| None).collect())).collect();
    let Blueprint { graph, checked, .. } = blueprint;
    let names = Names::gather(graph);
    for (e, primary) in primaries.into_iter_enumerated() {
        let place = &*shared.elements[e].place;
        if place.mode == Mode::Single {
            slots[place.workers[0]][e] = Some(primary);
            continue;
        }
        let mut make = || configured(graph, checked, &names, &shared.rcu, e, errors);
        let sharing = checked.classes[e].sharing;
        let instances = || in_lines(|| instances(primary, place, sharing, &mut make));
        let all = sync::lock::naming(&graph.elements[e.index()].name, instances);
        for (worker, instance) in all {
            slots[worker][e] = Some(instance);
        }
    }
    slots
}

/// Initialises all instances, each on its worker.
fn initialize(graph: &Graph, shared: &Shared, workers: &mut [Worker], errors: &mut Vec<Diagnostic>) {
    // Where workers share simulated time, they share the sequence of random numbers, too.
    let together = shared.plant.upgrade().is_some_and(|p| p.common.is_some());
    let mut random = together.then(|| workers[0].random.clone());
    for (e, element) in shared.elements.ids().zip(&graph.elements) {
        // Click tries no further than to the first that fails.
        if Policy::of_process().as_click && !errors.is_empty() {
            break;
        }
        let place = shared.elements[e].place.clone();
        for w in &place.workers {
            let worker = &mut workers[*w];
            let task = place.tasks.iter().position(|t| t == w);
            if task.is_some() {
                in_lines(|| worker.tasks.add(e));
            }
            let Some(mut instance) = worker.slots[e].take() else { continue };
            if let Some(random) = random.clone() {
                worker.random = random;
            }
            let mut cx = InitCx::new(Cx::new(worker, e), task, place.tasks.len());
            let done = sync::lock::naming(&element.name, || in_lines(|| instance.initialize(&mut cx)));
            worker.slots[e] = Some(instance);
            random = random.map(|_| worker.random.clone());
            if let Err(why) = done {
                errors.push(
                    Diagnostic::error("E0401", format!("'{}' could not start: {why}", element.name))
                        .at(element.span)
                        .label(format!("this {}", element.class))
                        .during(
                            element.span,
                            format!("While initializing '{} :: {}'", element.name, element.class),
                            why,
                        ),
                );
                break;
            }
        }
    }
    if let Some(random) = random {
        workers[0].random = random;
    }
}

/// Writes the handlers that elements wanted written as soon as all are there.
fn fulfil_wishes(shared: &Shared, workers: &mut [Worker]) {
    for Wish { from, handler, value } in std::mem::take(&mut *lock(&shared.when_ready)) {
        if let Err(why) = write(shared, workers, Some(from), &handler, &value) {
            shared.print(&format!("{}: {handler}: {why}", shared.elements[from].name));
        }
    }
}

/// The instances of an element on its workers.
fn instances(
    primary: Box<dyn Element>,
    place: &Place,
    sharing: Sharing,
    make: &mut dyn FnMut() -> Box<dyn Element>,
) -> Vec<(usize, Box<dyn Element>)> {
    let others = &place.workers[1..];
    let mut all: Vec<(usize, Box<dyn Element>)> = Vec::with_capacity(place.workers.len());
    match place.mode {
        Mode::Single => {}
        Mode::Locked => {
            let locked = Locked::for_workers(primary, place.workers.len());
            all.extend(place.workers.iter().zip(locked).map(|(w, l)| (*w, Box::new(l) as Box<dyn Element>)));
            return all;
        }
        Mode::Shared => all.extend(others.iter().filter_map(|w| Some((*w, primary.share()?)))),
        Mode::PerCore => {
            let share = |p: &dyn Element| if sharing == Sharing::PerCore { p.share() } else { None };
            all.extend(others.iter().map(|w| (*w, share(&*primary).unwrap_or_else(&mut *make))));
        }
    }
    all.push((place.workers[0], primary));
    all
}
