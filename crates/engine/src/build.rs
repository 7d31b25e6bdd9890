// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a configuration is made into instances on workers.

use std::sync::Arc;

use element::host::Opener;
use lang::{Diagnostic, Graph};
use packet::filter::Filter;
use packet::port::{Device, Error, Provider, Spec};
use sync::heap::in_lines;
use sync::mutex::lock;

use crate::blueprint::{Blueprint, hows};
use crate::capability;
use crate::check::{Check, check_in, configured, is_error};
use crate::clock::Clock;
use crate::graph::Checked;
use crate::holdings::{Holdings, Previous};
use crate::homes;
use crate::locked::Locked;
use crate::runtime::Runtime;
use crate::shared::{Shared, Wish, share, writable};
use crate::worker::{Slot, Worker};
use element::args::Names;
use element::{
    Class, Cx, Element, ElementId, ElementPlan, HandlerError, IndexVec, InitCx, Mode, OpenCx, PlacementRules,
    Policy, Provided, Sharing, Tasks,
};

impl Runtime {
    /// Makes the instances of another configuration than the one that runs, on workers that are not on duty. It will take over open
    /// devices, and queues once the other has released them.
    ///
    /// # Errors
    /// All that is wrong with it; what was opened is closed again.
    pub fn build_next(
        self: &Arc<Runtime>,
        graph: &Arc<Graph>,
        clock: &Clock,
    ) -> Result<(Arc<Shared>, Vec<Worker>), Vec<Diagnostic>> {
        self.construct(graph, Some(self.current().as_previous(graph)), clock)
    }

    /// Makes the instances of a configuration and initialises them; `previous` is what it will take over.
    pub(crate) fn construct(
        self: &Arc<Runtime>,
        graph: &Arc<Graph>,
        previous: Option<Previous>,
        clock: &Clock,
    ) -> Result<(Arc<Shared>, Vec<Worker>), Vec<Diagnostic>> {
        let Check { warnings, checked, mut primaries } = check_in(graph, &self.registry, self.rcu.clone())?;
        let workers = self.mailboxes.len();
        let holdings = Holdings::new(previous);
        let opening = Opening {
            provider: &*self.provider,
            holdings: &holdings,
            workers,
            burst: self.burst,
            dry: false,
        };
        let tasks = open_all(graph, &checked, &mut primaries, &opening)?;
        let wished = homes::gather(graph, &checked, &primaries, &tasks, self.begun())?;
        let hows = hows(&checked, &primaries);
        let by_worker = primaries
            .iter_enumerated()
            .map(|(e, primary)| tells_workers_apart(checked.classes[e], &**primary))
            .collect();
        let blueprint = Arc::new(Blueprint { graph: graph.clone(), checked, tasks, hows, wished, by_worker });
        let places = blueprint.places(&blueprint.wished, self.active());
        let mut shared = share(&blueprint, &primaries, places, self, holdings);
        shared.warnings = warnings;
        let shared = in_lines(|| Arc::new(shared));
        let mut errors = Vec::new();
        let slots = slots(&blueprint, primaries, &shared, &mut errors);
        // What each worker's instance warns of, the first has.
        errors.retain(is_error);
        let on_duty = !shared.holdings.is_replacement();
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
        self.holdings.is_replacement()
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
        let class = checked.classes[e];
        let instances = || in_lines(|| instances(primary, place, class, &mut make));
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
    let together = shared.runtime.upgrade().is_some_and(|p| p.common.is_some());
    let mut random = together.then(|| workers[0].random().clone());
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
                in_lines(|| worker.add_task(e));
            }
            let Some(mut instance) = worker.take_instance(e) else { continue };
            if let Some(random) = random.clone() {
                *worker.random() = random;
            }
            let mut cx = InitCx::new(Cx::new(worker, e), task, place.tasks.len());
            let done = sync::lock::naming(&element.name, || in_lines(|| instance.initialize(&mut cx)));
            worker.set_instance(e, Some(instance));
            random = random.map(|_| worker.random().clone());
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
        *workers[0].random() = random;
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

fn tells_workers_apart(class: &Class, element: &dyn Element) -> bool {
    class.capability::<dyn PlacementRules>(element).is_some_and(|rules| rules.tells_workers_apart())
}

/// The instances of an element on its workers.
fn instances(
    primary: Box<dyn Element>,
    place: &ElementPlan,
    class: &'static Class,
    make: &mut dyn FnMut() -> Box<dyn Element>,
) -> Vec<(usize, Box<dyn Element>)> {
    let others = &place.workers[1..];
    let mut all: Vec<(usize, Box<dyn Element>)> = Vec::with_capacity(place.workers.len());
    match place.mode {
        Mode::Single => {}
        Mode::Locked => {
            let locked = Locked::for_workers(primary, class, place.workers.len());
            all.extend(place.workers.iter().zip(locked).map(|(w, l)| (*w, Box::new(l) as Box<dyn Element>)));
            return all;
        }
        Mode::Shared => {
            all.extend(others.iter().filter_map(|w| Some((*w, capability::share(class, &*primary)?))))
        }
        Mode::PerCore => {
            let share = || capability::share(class, &*primary).filter(|_| class.sharing == Sharing::PerCore);
            all.extend(others.iter().map(|w| (*w, share().unwrap_or_else(&mut *make))));
        }
    }
    all.push((place.workers[0], primary));
    all
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
    workers.iter_mut().for_each(Worker::quiescent);
    shared.answering(&target, true).into_iter().try_for_each(|w| workers[w].write_local(&target, value))
}
