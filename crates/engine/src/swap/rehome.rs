// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other homes for the tasks of the configuration that runs, and other numbers of workers.
//!
//! Workers park and are handed over as for a hot swap ([`swap`](crate::swap)), but nothing is built anew: the instances
//! themselves go to other workers, with their tasks, timers and descriptors, so that nobody can tell but by who runs them.
//! Whatever was written to handlers stays, too.
//!
//! *Further instances* are made where more workers reach an element than before: over common state if its class works so,
//! else as copies from its text. (A copy would not know what was written to handlers. Where something was, the move is
//! refused.) Where fewer workers reach it, the instances that are left over stay where they are, idle, and still answer
//! handlers and timers: what they have counted remains. Only a queue's are joined, for nobody would drain them, and those
//! of a device, whose queues must all be served. What runs behind a lock is wrapped anew.
//!
//! *Order.* No packet is on its way while workers are parked, and what a queue holds stays in its order. A flow's later
//! packets therefore come behind its earlier ones. Queues with a ring for each worker are emptied before, by those who drain
//! them. That leaves packets that are already sent by different ways, to another transmit queue of a device for instance; see
//! [`Shared::binds`].

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::placement::{Moved, MovedTask, PlaceError, Placement};
use super::{Depot, Halted, Heritage, Holdings, SwapError, exchange, same, telling};
use crate::build::{Plant, lock};
use crate::clock::Nanos;
use crate::homes::Wished;
use crate::locked::Locked;
use crate::remote::Control;
use crate::router::{Router, Shared, configured, port_table};
use crate::schedule::{Armed, Timer};
use crate::watch::Watch;
use crate::worker::Worker;
use element::args::Names;
use element::ports::Processing;
use element::timers::CommonTimers;
use element::{
    Cx, Element, ElementId, ElementInfo, HandlerError, IndexVec, InitCx, Mode, Place, Sharing, Target,
};

/// How often those who drain a queue are asked to, before its packets are left to be overtaken: a device that sends nothing must
/// not hold everything up.
const ROUNDS_TO_EMPTY: usize = 1000;

/// Placements that elements have asked for, which come when those elements have returned.
#[derive(Default)]
pub(crate) struct Wanted {
    placement: Placement,
    /// Somebody will see to it.
    pending: bool,
    /// Somebody places tasks otherwise this moment, and will look here when all workers have stopped.
    coming: bool,
}

/// What becomes of an element's instances.
struct Step {
    place: Arc<Place>,
    kind: Kind,
}

enum Kind {
    /// Instances go from worker to worker, further ones are made there, and what is left of some is given to the first.
    Instances { moves: Vec<(usize, usize)>, made: Vec<usize>, joined: Vec<usize> },
    /// One instance, behind a lock if several workers reach it.
    One,
    /// A device's: all are made anew and take over its queues.
    Device,
}

impl Step {
    /// The worker that an instance goes to.
    fn goes_to(&self, from: usize) -> Option<usize> {
        match &self.kind {
            Kind::Instances { moves, .. } => moves.iter().find(|m| m.0 == from).map(|m| m.1),
            Kind::One => Some(self.place.home()),
            Kind::Device => None,
        }
    }
}

fn step(was: &Shared, e: ElementId, wanted: Arc<Place>) -> Step {
    let before = &was.elements[e].place;
    let how = was.blueprint.hows[e];
    let one = match how.sharing {
        Sharing::Serial => true,
        Sharing::Shared | Sharing::Queue => !how.shares,
        Sharing::PerCore => false,
    };
    if one {
        return Step { place: wanted, kind: Kind::One };
    }
    let alike = before.workers.len() == wanted.workers.len() && before.tasks.len() == wanted.tasks.len();
    if was.holdings.has_opened(&was.elements[e].name) && !(alike && before.mode == wanted.mode) {
        return Step { place: wanted, kind: Kind::Device };
    }
    let mut moves: Vec<(usize, usize)> = Vec::new();
    let mut left = before.workers.clone();
    let mut vacant = wanted.workers.clone();
    let tasks = before.tasks.iter().copied().zip(wanted.tasks.iter().copied());
    let stay = before.workers.iter().map(|w| (*w, *w));
    for (from, to) in tasks.chain(stay) {
        if left.contains(&from) && vacant.contains(&to) {
            left.retain(|w| *w != from);
            vacant.retain(|w| *w != to);
            moves.push((from, to));
        }
    }
    // A first one that has to go somewhere goes before the others.
    while !left.is_empty() && !vacant.is_empty() {
        moves.push((left.remove(0), vacant.remove(0)));
    }
    let own_queue = |place: &Place| how.sharing == Sharing::Queue && place.mode == Mode::PerCore;
    let mut joined = Vec::new();
    if own_queue(before) || own_queue(&wanted) {
        // The first one is the one that keeps what there is.
        joined = before.workers[1..].to_vec();
        let first = before.workers[0];
        let to = moves.iter().find(|m| m.0 == first).map_or(wanted.workers[0], |m| m.1);
        moves = vec![(first, to)];
        vacant = wanted.workers.iter().copied().filter(|w| *w != to).collect();
        left.clear();
    }
    moves.extend(left.iter().map(|w| (*w, *w)));
    let first = moves.iter().find(|m| m.0 == before.workers[0]).map_or(wanted.workers[0], |m| m.1);
    let mut workers: Vec<usize> = moves.iter().map(|m| m.1).chain(vacant.iter().copied()).collect();
    workers.sort_unstable();
    workers.retain(|w| *w != first);
    workers.insert(0, first);
    let mode = match (workers.len(), how.sharing) {
        (1, _) => Mode::Single,
        (_, Sharing::PerCore) => Mode::PerCore,
        (_, Sharing::Queue) if wanted.mode == Mode::PerCore => Mode::PerCore,
        _ => Mode::Shared,
    };
    let place = if workers == wanted.workers && mode == wanted.mode {
        wanted
    } else {
        Arc::new(Place { workers, mode, ..(*wanted).clone() })
    };
    Step { place, kind: Kind::Instances { moves, made: vacant, joined } }
}

/// A placement that can come.
struct Plan {
    was: Arc<Shared>,
    steps: IndexVec<ElementId, Step>,
    active: usize,
    /// Copies for workers that reach an element they did not reach before.
    spares: HashMap<ElementId, Vec<Box<dyn Element>>>,
    pinned: IndexVec<ElementId, bool>,
    tasks: Vec<MovedTask>,
}

impl Plan {
    fn new(was: Arc<Shared>, placement: &Placement) -> Result<Plan, PlaceError> {
        let blueprint = was.blueprint.clone();
        let count = was.workers();
        let active = placement.active.unwrap_or(was.active_workers());
        if !(1..=count).contains(&active) {
            return Err(PlaceError::Active(count));
        }
        let mut wished: Wished = was.elements.ids().map(|e| kept(&was, e, active)).collect();
        for (e, workers) in &placement.homes {
            judge(&was, *e, workers, count)?;
            wished[*e] = Some(workers.clone());
        }
        let places = blueprint.places(&wished, active);
        let steps: IndexVec<ElementId, Step> =
            places.into_iter_enumerated().map(|(e, place)| step(&was, e, place)).collect();
        let names = Names::gather(&blueprint.graph);
        let (mut spares, mut tasks) = (HashMap::new(), Vec::new());
        for (e, step) in steps.iter_enumerated() {
            let info = &was.elements[e];
            if info.place.tasks != step.place.tasks {
                let (before, now) = (info.place.tasks.clone(), step.place.tasks.clone());
                tasks.push(MovedTask { name: info.name.to_string(), before, now });
            }
            let Kind::Instances { made, .. } = &step.kind else { continue };
            let written = info.touched.load(Ordering::Relaxed);
            let owns = step.place.mode == Mode::PerCore || info.class.handlers.iter().any(|h| h.everywhere);
            if !made.is_empty() && written && owns {
                return Err(PlaceError::Settings(info.name.to_string()));
            }
            if step.place.mode == Mode::PerCore {
                let checked = &blueprint.checked;
                let copy =
                    |_: &usize| configured(&blueprint.graph, checked, &names, &was.rcu, e, &mut Vec::new());
                spares.insert(e, made.iter().map(copy).collect());
            }
        }
        let mut pinned = was.pinned.clone();
        placement.pins.iter().for_each(|(e, pin)| pinned[*e] = *pin);
        Ok(Plan { was, steps, active, spares, pinned, tasks })
    }

    fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.active == self.was.active_workers() && self.pinned == self.was.pinned
    }

    /// What all are to see of the new placement.
    fn shared(&self) -> Shared {
        let was = &self.was;
        let element = |(before, step): (&ElementInfo, &Step)| ElementInfo {
            name: before.name.clone(),
            class: before.class,
            config: before.config.clone(),
            wired: before.wired.clone(),
            place: step.place.clone(),
            own_handlers: before.own_handlers.clone(),
            timers: (step.place.mode == Mode::Locked).then(CommonTimers::default),
            told: AtomicBool::new(before.told.load(Ordering::Relaxed)),
            touched: AtomicBool::new(before.touched.load(Ordering::Relaxed)),
        };
        let elements: IndexVec<ElementId, ElementInfo> =
            was.elements.iter().zip(&self.steps).map(element).collect();
        let home = |element: ElementId, w: usize| {
            let step = &self.steps[element];
            step.goes_to(w).unwrap_or_else(|| step.place.home())
        };
        let driver = was.driver().map(|(element, w)| (element, home(element, w)));
        let checked = &was.blueprint.checked;
        let big_lock = std::sync::OnceLock::new();
        if let Some(lock) = was.big_lock.get() {
            let _ = big_lock.set(lock.clone());
        }
        let outputs = port_table(&checked.wiring.outputs, |e| !elements[e].place.drained_by.is_empty());
        Shared {
            layout: Arc::new(was.layout.moved(elements, self.active)),
            blueprint: was.blueprint.clone(),
            lineage: was.lineage.clone(),
            pinned: self.pinned.clone(),
            outputs,
            inputs: was.inputs.clone(),
            burst: was.burst,
            seed: was.seed,
            rcu: was.rcu.clone(),
            mailboxes: was.mailboxes.clone(),
            plant: was.plant.clone(),
            provided: was.provided.clone(),
            stopped: was.stopped.clone(),
            big_lock,
            driver: Mutex::new(driver),
            signals: was.signals.rehomed(home),
            print: was.print.clone(),
            holdings: Holdings::go_on(Heritage::of(was.clone(), &was.blueprint.graph)),
            when_ready: Mutex::default(),
            warnings: Vec::new(),
            written_configs: Mutex::new(lock(&was.written_configs).clone()),
            requirements: was.requirements.clone(),
        }
    }
}

/// The workers of an element's tasks if `active` workers are to take part and nobody says otherwise: where they are, or with
/// another number of workers what the router would have begun with.
fn kept(was: &Shared, e: ElementId, active: usize) -> Option<Vec<usize>> {
    let now = &was.elements[e].place.tasks;
    if active != was.active_workers() && !was.pinned[e] {
        return was.blueprint.wished[e].clone();
    }
    (!now.is_empty()).then(|| now.clone())
}

fn judge(was: &Shared, e: ElementId, workers: &[usize], active: usize) -> Result<(), PlaceError> {
    let info = &was.elements[e];
    let tasks = match was.blueprint.tasks[e] {
        element::Tasks::None => return Err(PlaceError::NoTask(info.name.to_string())),
        element::Tasks::One => 1,
        element::Tasks::Many(n) => n,
    };
    let twice = workers.iter().enumerate().any(|(i, w)| workers[..i].contains(w));
    let last = active - 1;
    if workers.is_empty() || workers.len() > tasks || twice || workers.iter().any(|w| *w > last) {
        let wished: Vec<String> = workers.iter().map(usize::to_string).collect();
        return Err(PlaceError::NoWorker {
            element: info.name.to_string(),
            wished: wished.join(","),
            tasks,
            last,
            most: was.workers() - 1,
        });
    }
    Ok(())
}

impl Control {
    /// Places tasks of the configuration that is meant otherwise, or changes how many workers take part. Packets, state and
    /// settings stay as they are.
    ///
    /// # Errors
    /// Why it cannot be; everything is as it was.
    pub fn place(&self, meant: &Arc<Shared>, placement: &Placement) -> Result<Moved, PlaceError> {
        sync::heap::in_lines(|| self.place_when(meant, placement, || ()))
    }

    /// Does what is wished in `placement`, and by elements meanwhile. `ready` is called when the workers have been asked to stop.
    fn place_when(
        &self,
        meant: &Arc<Shared>,
        placement: &Placement,
        ready: impl FnOnce(),
    ) -> Result<Moved, PlaceError> {
        let plant = &self.plant;
        let _turn = plant.turn().ok_or(PlaceError::Busy)?;
        let was = plant.current();
        if !Arc::ptr_eq(&was.lineage, &meant.lineage) {
            return Err(PlaceError::Replaced);
        }
        let mut plan = Plan::new(was.clone(), placement)?;
        {
            let mut wanted = lock(&plant.wanted);
            if plan.is_empty() && !wanted.pending {
                return Ok(Moved {
                    active: (was.active_workers(), was.active_workers()),
                    ..Moved::default()
                });
            }
            wanted.coming = true;
        }
        let (halted, mut old, since) = match gather(plant, &was, ready) {
            Ok(all) => all,
            Err(why) => {
                *lock(&plant.wanted) = Wanted::default();
                return Err(why.into());
            }
        };
        let wanted = std::mem::take(&mut *lock(&plant.wanted)).placement;
        if !wanted.is_empty() {
            let mut all = placement.clone();
            all.add(wanted);
            match Plan::new(was, &all) {
                Ok(all) => plan = all,
                Err(why) => {
                    halted.resume(plant, old);
                    return Err(why);
                }
            }
        }
        let (new, mut moved) = plan.carry_out(plant, &mut old);
        let at = halted.resume(plant, new);
        moved.pause = since.elapsed();
        telling::moves(at, meant, &moved);
        exchange::retire(old, Depot::default());
        Ok(moved)
    }

    /// `home_thread`, written: a worker, several for an element with several tasks, or `any`.
    pub(crate) fn write_home(&self, element: ElementId, value: &str) -> Result<String, HandlerError> {
        let shared = self.shared();
        let placement = shared.home_value(element, value)?;
        self.place(&shared, &placement).map(said).map_err(failed)
    }

    /// `threads`, written: how many workers are to take part.
    pub(crate) fn write_threads(&self, value: &str) -> Result<String, HandlerError> {
        let shared = self.shared();
        self.place(&shared, &shared.threads_value(value)?).map(said).map_err(failed)
    }
}

/// Stops all workers, and takes them, with the time when the first one came.
fn gather(
    plant: &Plant,
    was: &Arc<Shared>,
    ready: impl FnOnce(),
) -> Result<(Halted, Vec<Worker>, Instant), SwapError> {
    plant.all_move()?;
    let halted = Halted::ask(plant).ok_or(SwapError::Stopped)?;
    ready();
    let hulls = empty(plant, was, false).into_iter().map(Box::new).collect();
    let (old, since) = halted.take(plant, hulls)?;
    Ok((halted, old, since))
}

fn said(moved: Moved) -> String {
    if moved.tasks.is_empty() && moved.active.0 == moved.active.1 { String::new() } else { moved.to_string() }
}

fn failed(why: PlaceError) -> HandlerError {
    HandlerError::Failed(why.to_string())
}

impl Shared {
    /// What a value written to `threads` means.
    pub(crate) fn threads_value(&self, value: &str) -> Result<Placement, HandlerError> {
        let active = value.trim().parse();
        let active = active.map_err(|_| HandlerError::bad_value("threads", value, "a number of workers"))?;
        if !(1..=self.workers()).contains(&active) {
            return Err(failed(PlaceError::Active(self.workers())));
        }
        Ok(Placement { active: Some(active), ..Placement::default() })
    }

    /// How many workers take part when what is asked for has come.
    fn to_come(&self) -> usize {
        let wanted = self.plant.upgrade().and_then(|plant| lock(&plant.wanted).placement.active);
        wanted.unwrap_or(self.active_workers())
    }

    /// What a value written to `home_thread` means.
    pub(crate) fn home_value(&self, e: ElementId, value: &str) -> Result<Placement, HandlerError> {
        if value.trim() == "any" {
            return Ok(Placement { pins: vec![(e, false)], ..Placement::default() });
        }
        let numbers = value.split([',', ' ']).filter(|n| !n.is_empty()).map(|n| n.trim().parse().ok());
        let workers: Option<Vec<usize>> = numbers.collect();
        let expected = "a worker's number, several for an element with several tasks, or any";
        let workers = workers.ok_or_else(|| HandlerError::bad_value("home_thread", value, expected))?;
        judge(self, e, &workers, self.to_come()).map_err(failed)?;
        Ok(Placement { homes: vec![(e, workers)], active: None, pins: vec![(e, true)] })
    }
}

impl Worker {
    /// A placement that an element asks for: it comes when the element has returned, with all that is asked for until then.
    pub(crate) fn want(&mut self, placement: Placement) -> Result<(), HandlerError> {
        let Some(plant) = self.shared.plant.upgrade() else { return Err(failed(PlaceError::Stopped)) };
        if !self.on_duty {
            return Err(HandlerError::failed("the router has not begun"));
        }
        let mut wanted = lock(&plant.wanted);
        wanted.placement.add(placement);
        // Nobody takes this before all workers have stopped, and this one runs.
        if std::mem::replace(&mut wanted.pending, true) || wanted.coming {
            return Ok(());
        }
        drop(wanted);
        let meant = self.shared.clone();
        let undone = plant.clone();
        let done = self.beside(plant, move |control, ready| {
            let done = sync::heap::in_lines(|| control.place_when(&meant, &Placement::default(), ready));
            if let Err(why) = &done {
                control.shared().print(&format!("a task was to run elsewhere: {why}"));
            }
            done.map(|_| String::new()).map_err(|why| why.to_string())
        });
        if done.is_err() {
            *lock(&undone.wanted) = Wanted::default();
        }
        done
    }
}

impl Router {
    /// Places tasks otherwise while the router does not run.
    ///
    /// # Errors
    /// As [`Control::place`].
    pub fn place(&mut self, placement: &Placement) -> Result<Moved, PlaceError> {
        let plant = self.plant.clone();
        let since = Instant::now();
        let plan = Plan::new(plant.current(), placement)?;
        if plan.is_empty() {
            return Ok(Moved { active: (plan.active, plan.active), ..Moved::default() });
        }
        let (new, mut moved) = plan.carry_out(&plant, &mut self.workers);
        let old = std::mem::replace(&mut self.workers, new);
        self.adopt();
        moved.pause = since.elapsed();
        exchange::retire(old, Depot::default());
        Ok(moved)
    }
}

impl Plan {
    /// Makes new workers of those that are there.
    fn carry_out(mut self, plant: &Plant, old: &mut [Worker]) -> (Vec<Worker>, Moved) {
        let shared = Arc::new(self.shared());
        let mut new = empty(plant, &shared, true);
        let made = rehome(plant, &mut self, old, &mut new);
        plant.active.store(self.active, Ordering::Relaxed);
        plant.set_current(&shared);
        let active = (self.was.active_workers(), self.active);
        (new, Moved { tasks: self.tasks, active, made, pause: Duration::ZERO })
    }
}

/// Workers without instances, one in the place of each.
pub(crate) fn hulls(plant: &Plant, shared: &Arc<Shared>) -> Vec<Worker> {
    empty(plant, shared, true)
}

/// Workers without instances.
fn empty(plant: &Plant, shared: &Arc<Shared>, slots: bool) -> Vec<Worker> {
    let n = if slots { shared.elements.len() } else { 0 };
    let none = || (0..n).map(|_| None).collect();
    let clock = || plant.clock.clone();
    let worker = |w| Worker::new(w, shared.clone(), clock(), none(), false, plant.common.as_ref());
    (0..shared.workers()).map(worker).collect()
}

/// Moves everything to the new workers; returns how many instances were made.
fn rehome(plant: &Plant, plan: &mut Plan, old: &mut [Worker], new: &mut [Worker]) -> usize {
    let is = new[0].shared.clone();
    empty_queues(plan, old);
    let watched: Vec<Vec<Watch>> =
        old.iter().map(|w| w.watched.iter().chain(&w.wishes).copied().collect()).collect();
    for (old, new) in old.iter_mut().zip(&mut *new) {
        exchange::relieve(old, new);
        new.tasks.go_on_from(&old.tasks);
    }
    move_counters(plan, old, new);
    move_timers(plan, old, new);
    move_tasks(plan, old, new);
    for (w, watch) in
        watched.into_iter().enumerate().flat_map(|(w, all)| all.into_iter().map(move |x| (w, x)))
    {
        let step = &plan.steps[watch.element];
        if let Some(to) = step.goes_to(w) {
            new[to].wishes.push(watch);
        }
    }
    let mut depot = Depot::default();
    let mut made = Vec::new();
    for e in plan.steps.ids() {
        let was = plan.was.clone();
        // Locks that this makes are the element's.
        sync::lock::naming(&was.elements[e].name, || match plan.steps[e].kind {
            Kind::One => move_one(plan, e, old, new),
            Kind::Instances { .. } => made.extend(move_instances(plan, e, old, new)),
            Kind::Device => remake(plan, e, old, new, &mut depot),
        });
    }
    acquire(plan, new, &mut depot);
    is.holdings.settle_all();
    for (e, w) in &made {
        initialize(plan, new, *e, *w);
    }
    for worker in new {
        worker.fuse(&plant.registry);
        worker.on_duty = true;
        for watch in std::mem::take(&mut worker.wishes) {
            worker.watch(watch);
        }
    }
    made.len()
}

/// Lets the tasks that drain queues with a ring for each worker run until these are empty, for a while: what waits there must
/// be gone before a flow's next packets come by another ring.
fn empty_queues(plan: &Plan, old: &mut [Worker]) {
    let was = &plan.was;
    let mut search = None;
    for (e, step) in plan.steps.iter_enumerated() {
        let place = &was.elements[e].place;
        let own = place.mode == Mode::PerCore || step.place.mode == Mode::PerCore;
        let apart = was.blueprint.hows[e].sharing == Sharing::Queue && own;
        let moves = place.pushed_by != step.place.pushed_by || place.pulled_by != step.place.pulled_by;
        let held = |old: &[Worker]| old.iter().any(|w| w.slots[e].as_ref().is_some_and(|i| i.held() > 0));
        if !moves || !(apart || was.blueprint.telling[e]) || !held(old) {
            continue;
        }
        let search = search.get_or_insert_with(|| crate::plan::Reached::new(&was.blueprint.checked));
        let mut reaches = |t: ElementId| t != e && search.from(t).contains(&e);
        let pulls = |t: ElementId| was.elements[t].inputs().processing().contains(&Processing::Pull);
        let with_task = was.elements.ids().filter(|t| !was.elements[*t].place.tasks.is_empty());
        let drainers: Vec<ElementId> = with_task.filter(|t| pulls(*t) && reaches(*t)).collect();
        for _ in 0..ROUNDS_TO_EMPTY {
            let mut any = false;
            for t in &drainers {
                for w in &was.elements[*t].place.tasks {
                    old[*w].rcu.quiescent();
                    any |= old[*w].run_task(*t);
                }
            }
            if !held(old) {
                break;
            }
            if !any {
                std::thread::sleep(super::LOOK_EVERY);
            }
        }
    }
}

/// Counters stay on their worker while it has an instance, else they go to the first.
fn move_counters(plan: &Plan, old: &mut [Worker], new: &mut [Worker]) {
    for (e, step) in plan.steps.iter_enumerated() {
        for (w, worker) in old.iter_mut().enumerate() {
            let stays = step.place.workers.contains(&w);
            let to = if stays { w } else { step.goes_to(w).unwrap_or_else(|| step.place.home()) };
            exchange::add_counters(worker, &mut new[to], e, e);
        }
    }
}

fn move_tasks(plan: &Plan, old: &mut [Worker], new: &mut [Worker]) {
    for (w, worker) in old.iter_mut().enumerate() {
        for element in worker.tasks.elements() {
            let (before, after) = (&plan.was.elements[element].place, &plan.steps[element].place);
            let number = before.tasks.iter().position(|t| *t == w);
            // What has fewer tasks than before leaves some behind.
            let Some(to) = number.and_then(|n| after.tasks.get(n)) else { continue };
            if let Some(task) = worker.tasks.release(element) {
                new[*to].tasks.adopt(task);
            }
        }
    }
    for (e, step) in plan.steps.iter_enumerated() {
        step.place.tasks.iter().for_each(|w| new[*w].tasks.add(e));
    }
}

/// A timer and the worker that it goes to. They compare by when they were set; those in common come last.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct MovedTimer {
    number: u64,
    element: ElementId,
    timer: u32,
    at: Nanos,
    to: usize,
}

/// Timers go with their instances, and keep their order.
fn move_timers(plan: &Plan, old: &mut [Worker], new: &mut [Worker]) {
    let mut all: Vec<MovedTimer> = Vec::new();
    for (w, worker) in old.iter().enumerate() {
        for Armed { number, timer: Timer { of, timer }, at } in worker.timers.list() {
            let Target::Element(element) = of else { continue };
            if let Some(to) = plan.steps[element].goes_to(w) {
                all.push(MovedTimer { number, element, timer, at, to });
            }
        }
    }
    for (element, info) in plan.was.elements.iter_enumerated() {
        // These may have been set where a message to the home has not been read.
        for (timer, at) in info.timers.iter().flat_map(CommonTimers::list) {
            all.retain(|other| (other.element, other.timer) != (element, timer));
            let to = plan.steps[element].place.home();
            all.push(MovedTimer { number: u64::MAX, element, timer, at, to });
        }
    }
    all.sort_unstable();
    for MovedTimer { element, timer, at, to, .. } in all {
        if let Some(common) = &new[to].shared.elements[element].timers {
            common.set(timer, Some(at));
        }
        new[to].timers.set(element, timer, at);
    }
}

/// An element that is one: takes it out of its lock, and puts it into another if it needs one.
fn move_one(plan: &Plan, e: ElementId, old: &mut [Worker], new: &mut [Worker]) {
    let place = &plan.steps[e].place;
    let mut locked = Vec::new();
    let mut element = None;
    for worker in old {
        let Some(mut instance) = worker.slots[e].take() else { continue };
        if same::<Locked>(&mut *instance).is_some() {
            let any: Box<dyn Any> = instance;
            locked.extend(any.downcast::<Locked>().ok().map(|l| *l));
        } else {
            element = Some(instance);
        }
    }
    let Some(element) = element.or_else(|| Locked::unlock(locked)) else { return };
    if place.mode != Mode::Locked {
        new[place.workers[0]].slots[e] = Some(element);
        return;
    }
    for (w, handle) in place.workers.iter().zip(Locked::for_workers(element, place.workers.len())) {
        new[*w].slots[e] = Some(Box::new(handle));
    }
}

/// Moves an element's instances and makes those that are missing; returns these, as element and worker.
fn move_instances(
    plan: &mut Plan,
    e: ElementId,
    old: &mut [Worker],
    new: &mut [Worker],
) -> Vec<(ElementId, usize)> {
    let step = &plan.steps[e];
    let Kind::Instances { moves, made, joined } = &step.kind else { return Vec::new() };
    for (from, to) in moves {
        new[*to].slots[e] = old[*from].slots[e].take();
    }
    let first = step.place.workers[0];
    let were_shared = plan.was.elements[e].place.mode == Mode::Shared;
    for w in joined {
        let Some(mut instance) = old[*w].slots[e].take() else { continue };
        // Those over common state hold nothing that the first one does not.
        if !were_shared {
            new[first].with(e, |heir, cx| heir.take_state(cx, &mut *instance));
            old[*w].slots[e] = Some(instance);
        }
    }
    let shares = step.place.mode == Mode::Shared || plan.was.blueprint.hows[e].sharing == Sharing::PerCore;
    let mut spares = plan.spares.remove(&e).unwrap_or_default();
    let mut done = Vec::new();
    for w in made {
        let shared = new[first].slots[e].as_ref().filter(|_| shares).and_then(|i| i.share());
        new[*w].slots[e] = shared.or_else(|| spares.pop());
        done.push((e, *w));
    }
    done
}

/// Makes a device's instances anew, and leaves its queues in the depot.
fn remake(plan: &Plan, e: ElementId, old: &mut [Worker], new: &mut [Worker], depot: &mut Depot) {
    let before = &plan.was.elements[e].place;
    let place = &plan.steps[e].place;
    let first = before.workers[0];
    for w in &place.workers {
        new[*w].slots[e] = old[first].slots[e].as_ref().and_then(|i| i.share());
        initialize(plan, new, e, *w);
    }
    for from in &before.workers {
        let to = if place.workers.contains(from) { *from } else { place.home() };
        let Some(mut instance) = old[*from].slots[e].take() else { continue };
        new[to].with(e, |heir, cx| heir.take_state(cx, &mut *instance));
        old[*from].slots[e] = Some(instance);
        old[*from].with(e, |instance, cx| instance.release(cx, depot));
    }
}

/// Gives the queues of devices to the instances that were made for them.
fn acquire(plan: &Plan, new: &mut [Worker], depot: &mut Depot) {
    for (e, step) in plan.steps.iter_enumerated().filter(|(_, s)| matches!(s.kind, Kind::Device)) {
        for w in &step.place.workers {
            let mut acquire = || new[*w].with(e, |instance, cx| instance.acquire(cx, depot));
            sync::lock::naming(&plan.was.elements[e].name, &mut acquire);
        }
    }
}

fn initialize(plan: &Plan, new: &mut [Worker], e: ElementId, w: usize) {
    let place = &plan.steps[e].place;
    let worker = &mut new[w];
    let Some(mut instance) = worker.slots[e].take() else { return };
    let task = place.tasks.iter().position(|t| *t == w);
    let mut cx = InitCx::new(Cx::new(worker, e), task, place.tasks.len());
    match sync::lock::naming(&plan.was.elements[e].name, || instance.initialize(&mut cx)) {
        Ok(()) => worker.slots[e] = Some(instance),
        // It could when the router was built; whatever has become scarce since then, the others go on.
        Err(why) => worker.shared.print(&format!(
            "{}: it cannot run on worker {w}, and drops what comes there: {why}",
            worker.shared.elements[e].name
        )),
    }
}
