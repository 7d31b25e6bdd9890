// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other homes for the tasks of the configuration that runs, and other numbers of workers.
//!
//! Workers park and are handed over as for a hot swap ([`swap`](crate::swap())), but nothing is built anew. The instances
//! themselves go to other workers, with their tasks, timers and descriptors. What was written to handlers stays, too.
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
//! [`binds`](crate::binds).

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use element::ports::Processing;
use element::swap::{Depot, same};
use element::timers::CommonTimers;
use element::{Element, ElementId, HandlerError, IndexVec, Mode, Place, Sharing, Target, Tasks};
use engine::clock::Nanos;
use engine::halt::{HaltError, Halted, LOOK_EVERY};
use engine::schedule::{Armed, Timer};
use engine::watch::Watch;
use engine::{Control, Locked, Router, Runtime, Shared, Wished, Worker};

use crate::placement::{Moved, MovedTask, PlaceError, Placement};
use crate::placer::with_wanted;
use crate::{events, exchange};

/// How often those who drain a queue are asked to, before its packets are left to be overtaken: a device that sends nothing must
/// not hold everything up.
const ROUNDS_TO_EMPTY: usize = 1000;

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
    let how = was.how(e);
    let one = match how.sharing {
        Sharing::Serial => true,
        Sharing::Shared | Sharing::Queue => !how.shares,
        Sharing::PerCore => false,
    };
    if one {
        return Step { place: wanted, kind: Kind::One };
    }
    let alike = before.workers.len() == wanted.workers.len() && before.tasks.len() == wanted.tasks.len();
    if was.has_opened(e) && !(alike && before.mode == wanted.mode) {
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
        let places = was.places(&wished, active);
        let steps: IndexVec<ElementId, Step> =
            places.into_iter_enumerated().map(|(e, place)| step(&was, e, place)).collect();
        let names = was.names();
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
                spares.insert(e, was.copies(e, made.len(), &names));
            }
        }
        let mut pinned = was.pinned().clone();
        placement.pins.iter().for_each(|(e, pin)| pinned[*e] = *pin);
        Ok(Plan { was, steps, active, spares, pinned, tasks })
    }

    fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.active == self.was.active_workers() && self.pinned == *self.was.pinned()
    }
}

/// The workers of an element's tasks if `active` workers are to take part and nobody says otherwise: where they are, or with
/// another number of workers what the router would have begun with.
fn kept(was: &Shared, e: ElementId, active: usize) -> Option<Vec<usize>> {
    let now = &was.elements[e].place.tasks;
    if active != was.active_workers() && !was.is_pinned(e) {
        return was.wished(e).cloned();
    }
    (!now.is_empty()).then(|| now.clone())
}

fn judge(was: &Shared, e: ElementId, workers: &[usize], active: usize) -> Result<(), PlaceError> {
    let info = &was.elements[e];
    let tasks = match was.tasks(e) {
        Tasks::None => return Err(PlaceError::NoTask(info.name.to_string())),
        Tasks::One => 1,
        Tasks::Many(n) => n,
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

/// Places tasks of the configuration that is meant otherwise, or changes how many workers take part. Packets, state and
/// settings stay as they are.
///
/// # Errors
/// Why it cannot be; everything is as it was.
pub fn place(control: &Control, meant: &Arc<Shared>, placement: &Placement) -> Result<Moved, PlaceError> {
    sync::heap::in_lines(|| place_when(control, meant, placement, || ()))
}

/// Does what is wished in `placement`, and by elements meanwhile. `ready` is called when the workers have been asked to stop.
fn place_when(
    control: &Control,
    meant: &Arc<Shared>,
    placement: &Placement,
    ready: impl FnOnce(),
) -> Result<Moved, PlaceError> {
    let runtime = control.runtime();
    let _turn = runtime.try_exclusive().ok_or(PlaceError::Busy)?;
    let was = runtime.current();
    if !was.is_same_configuration(meant) {
        return Err(PlaceError::Replaced);
    }
    let mut plan = Plan::new(was.clone(), placement)?;
    let is_nothing = with_wanted(runtime, |wanted| {
        wanted.coming = !plan.is_empty() || wanted.pending;
        !wanted.coming
    });
    if is_nothing {
        return Ok(Moved { active: (was.active_workers(), was.active_workers()), ..Moved::default() });
    }
    let (halted, mut old, since) = match gather(runtime, &was, ready) {
        Ok(all) => all,
        Err(why) => {
            with_wanted(runtime, std::mem::take);
            return Err(why.into());
        }
    };
    let wanted = with_wanted(runtime, std::mem::take).placement;
    if !wanted.is_empty() {
        let mut all = placement.clone();
        all.add(wanted);
        match Plan::new(was, &all) {
            Ok(all) => plan = all,
            Err(why) => {
                halted.resume(old);
                return Err(why);
            }
        }
    }
    let (new, mut moved) = plan.carry_out(runtime, &mut old);
    let at = halted.resume(new);
    moved.pause = since.elapsed();
    events::moves(at, meant, &moved);
    exchange::retire(old, Depot::default());
    Ok(moved)
}

/// `home_thread`, written: a worker, several for an element with several tasks, or `any`.
pub(crate) fn write_home(control: &Control, element: ElementId, value: &str) -> Result<String, HandlerError> {
    let shared = control.shared();
    let placement = home_value(&shared, element, value)?;
    place(control, &shared, &placement).map(said).map_err(failed)
}

/// `threads`, written: how many workers are to take part.
pub(crate) fn write_threads(control: &Control, value: &str) -> Result<String, HandlerError> {
    let shared = control.shared();
    place(control, &shared, &threads_value(&shared, value)?).map(said).map_err(failed)
}

/// Stops all workers, and takes them, with the time when the first one came.
fn gather(
    runtime: &Arc<Runtime>,
    was: &Arc<Shared>,
    ready: impl FnOnce(),
) -> Result<(Halted, Vec<Worker>, Instant), HaltError> {
    let halted = runtime.halt()?;
    ready();
    let (old, since) = halted.take(was)?;
    Ok((halted, old, since))
}

fn said(moved: Moved) -> String {
    if moved.tasks.is_empty() && moved.active.0 == moved.active.1 { String::new() } else { moved.to_string() }
}

fn failed(why: PlaceError) -> HandlerError {
    HandlerError::Failed(why.to_string())
}

/// What a value written to `threads` means.
pub(crate) fn threads_value(shared: &Shared, value: &str) -> Result<Placement, HandlerError> {
    let active = value.trim().parse();
    let active = active.map_err(|_| HandlerError::bad_value("threads", value, "a number of workers"))?;
    if !(1..=shared.workers()).contains(&active) {
        return Err(failed(PlaceError::Active(shared.workers())));
    }
    Ok(Placement { active: Some(active), ..Placement::default() })
}

/// How many workers take part when what is asked for has come.
fn to_come(shared: &Shared) -> usize {
    let wanted = shared.runtime().and_then(|runtime| with_wanted(&runtime, |w| w.placement.active));
    wanted.unwrap_or(shared.active_workers())
}

/// What a value written to `home_thread` means.
pub(crate) fn home_value(shared: &Shared, e: ElementId, value: &str) -> Result<Placement, HandlerError> {
    if value.trim() == "any" {
        return Ok(Placement { pins: vec![(e, false)], ..Placement::default() });
    }
    let numbers = value.split([',', ' ']).filter(|n| !n.is_empty()).map(|n| n.trim().parse().ok());
    let workers: Option<Vec<usize>> = numbers.collect();
    let expected = "a worker's number, several for an element with several tasks, or any";
    let workers = workers.ok_or_else(|| HandlerError::bad_value("home_thread", value, expected))?;
    judge(shared, e, &workers, to_come(shared)).map_err(failed)?;
    Ok(Placement { homes: vec![(e, workers)], active: None, pins: vec![(e, true)] })
}

/// A placement that an element on this worker asks for: it comes when the element has returned, with all that is asked for until then.
pub(crate) fn want(worker: &mut Worker, placement: Placement) -> Result<(), HandlerError> {
    let Some(runtime) = worker.shared().runtime() else { return Err(failed(PlaceError::Stopped)) };
    if !worker.is_on_duty() {
        return Err(HandlerError::failed("the router has not begun"));
    }
    let is_under_way = with_wanted(&runtime, |wanted| {
        wanted.placement.add(placement);
        // Nobody takes this before all workers have stopped, and this one runs.
        std::mem::replace(&mut wanted.pending, true) || wanted.coming
    });
    if is_under_way {
        return Ok(());
    }
    let meant = worker.shared().clone();
    let undone = runtime.clone();
    let done = worker.request_change(runtime, move |control, ready| {
        let done = sync::heap::in_lines(|| place_when(control, &meant, &Placement::default(), ready));
        if let Err(why) = &done {
            control.print(&format!("a task was to run elsewhere: {why}"));
        }
        done.map(|_| String::new()).map_err(|why| why.to_string())
    });
    if done.is_err() {
        with_wanted(&undone, std::mem::take);
    }
    done
}

/// Places tasks of a router otherwise that does not run.
///
/// # Errors
/// As [`place`].
pub fn place_stopped(router: &mut Router, placement: &Placement) -> Result<Moved, PlaceError> {
    let since = Instant::now();
    router.change(|runtime, _, workers| {
        let plan = Plan::new(runtime.current(), placement)?;
        if plan.is_empty() {
            return Ok(Moved { active: (plan.active, plan.active), ..Moved::default() });
        }
        let (new, mut moved) = plan.carry_out(runtime, workers);
        let old = std::mem::replace(workers, new);
        moved.pause = since.elapsed();
        exchange::retire(old, Depot::default());
        Ok(moved)
    })
}

impl Plan {
    /// Makes new workers of those that are there.
    fn carry_out(mut self, runtime: &Runtime, old: &mut [Worker]) -> (Vec<Worker>, Moved) {
        let home = |element: ElementId, w: usize| {
            let step = &self.steps[element];
            step.goes_to(w).unwrap_or_else(|| step.place.home())
        };
        let places = self.steps.iter().map(|step| step.place.clone());
        let shared = Arc::new(self.was.moved(places, self.active, self.pinned.clone(), home));
        let mut new = runtime.placeholders(&shared, true);
        let made = rehome(runtime, &mut self, old, &mut new);
        runtime.set_active(self.active);
        runtime.set_current(&shared);
        let active = (self.was.active_workers(), self.active);
        (new, Moved { tasks: self.tasks, active, made, pause: Duration::ZERO })
    }
}

/// Moves everything to the new workers; returns how many instances were made.
fn rehome(runtime: &Runtime, plan: &mut Plan, old: &mut [Worker], new: &mut [Worker]) -> usize {
    let is = new[0].shared().clone();
    empty_queues(plan, old);
    let watched: Vec<Vec<Watch>> = old.iter().map(Worker::all_watches).collect();
    for (old, new) in old.iter_mut().zip(&mut *new) {
        new.take_over(old);
        new.keep_pass(old);
    }
    move_counters(plan, old, new);
    move_timers(plan, old, new);
    move_tasks(plan, old, new);
    for (w, watch) in
        watched.into_iter().enumerate().flat_map(|(w, all)| all.into_iter().map(move |x| (w, x)))
    {
        let step = &plan.steps[watch.element];
        if let Some(to) = step.goes_to(w) {
            new[to].watch_later(watch);
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
    is.settle_placement();
    for (e, w) in &made {
        initialize(&mut new[*w], *e);
    }
    new.iter_mut().for_each(|worker| worker.begin_duty(runtime.registry()));
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
        let apart = was.how(e).sharing == Sharing::Queue && own;
        let moves = place.pushed_by != step.place.pushed_by || place.pulled_by != step.place.pulled_by;
        let held = |old: &[Worker]| old.iter().any(|w| w.instance(e).is_some_and(|i| i.held() > 0));
        if !moves || !(apart || was.tells_workers_apart(e)) || !held(old) {
            continue;
        }
        let search = search.get_or_insert_with(|| was.reached());
        let mut reaches = |t: ElementId| t != e && search.from(t).contains(&e);
        let pulls = |t: ElementId| was.elements[t].inputs().processing().contains(&Processing::Pull);
        let with_task = was.elements.ids().filter(|t| !was.elements[*t].place.tasks.is_empty());
        let drainers: Vec<ElementId> = with_task.filter(|t| pulls(*t) && reaches(*t)).collect();
        for _ in 0..ROUNDS_TO_EMPTY {
            let mut any = false;
            for t in &drainers {
                for w in &was.elements[*t].place.tasks {
                    any |= old[*w].run_parked(*t);
                }
            }
            if !held(old) {
                break;
            }
            if !any {
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }
}

/// Counters stay on their worker while it has an instance, else they go to the first.
fn move_counters(plan: &Plan, old: &[Worker], new: &mut [Worker]) {
    for (e, step) in plan.steps.iter_enumerated() {
        for (w, worker) in old.iter().enumerate() {
            let stays = step.place.workers.contains(&w);
            let to = if stays { w } else { step.goes_to(w).unwrap_or_else(|| step.place.home()) };
            new[to].add_counters(e, worker, e);
        }
    }
}

fn move_tasks(plan: &Plan, old: &mut [Worker], new: &mut [Worker]) {
    for (w, worker) in old.iter_mut().enumerate() {
        for element in worker.task_elements() {
            let (before, after) = (&plan.was.elements[element].place, &plan.steps[element].place);
            let number = before.tasks.iter().position(|t| *t == w);
            // What has fewer tasks than before leaves some behind.
            let Some(to) = number.and_then(|n| after.tasks.get(n)) else { continue };
            worker.move_task(element, &mut new[*to]);
        }
    }
    for (e, step) in plan.steps.iter_enumerated() {
        step.place.tasks.iter().for_each(|w| new[*w].add_task(e));
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
fn move_timers(plan: &Plan, old: &[Worker], new: &mut [Worker]) {
    let mut all: Vec<MovedTimer> = Vec::new();
    for (w, worker) in old.iter().enumerate() {
        for Armed { number, timer: Timer { of, timer }, at } in worker.timers() {
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
        new[to].arm_timer(element, timer, at);
    }
}

/// An element that is one: takes it out of its lock, and puts it into another if it needs one.
fn move_one(plan: &Plan, e: ElementId, old: &mut [Worker], new: &mut [Worker]) {
    let place = &plan.steps[e].place;
    let mut locked = Vec::new();
    let mut element = None;
    for worker in old {
        let Some(mut instance) = worker.take_instance(e) else { continue };
        if same::<Locked>(&mut *instance).is_some() {
            let any: Box<dyn Any> = instance;
            locked.extend(any.downcast::<Locked>().ok().map(|l| *l));
        } else {
            element = Some(instance);
        }
    }
    let Some(element) = element.or_else(|| Locked::unlock(locked)) else { return };
    if place.mode != Mode::Locked {
        new[place.workers[0]].set_instance(e, Some(element));
        return;
    }
    for (w, handle) in place.workers.iter().zip(Locked::for_workers(element, place.workers.len())) {
        new[*w].set_instance(e, Some(Box::new(handle)));
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
        new[*to].set_instance(e, old[*from].take_instance(e));
    }
    let first = step.place.workers[0];
    let were_shared = plan.was.elements[e].place.mode == Mode::Shared;
    for w in joined {
        let Some(mut instance) = old[*w].take_instance(e) else { continue };
        // Those over common state hold nothing that the first one does not.
        if !were_shared {
            new[first].with(e, |heir, cx| heir.take_state(cx, &mut *instance));
            old[*w].set_instance(e, Some(instance));
        }
    }
    let shares = step.place.mode == Mode::Shared || plan.was.how(e).sharing == Sharing::PerCore;
    let mut spares = plan.spares.remove(&e).unwrap_or_default();
    let mut done = Vec::new();
    for w in made {
        let shared = new[first].instance(e).filter(|_| shares).and_then(Element::share);
        new[*w].set_instance(e, shared.or_else(|| spares.pop()));
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
        new[*w].set_instance(e, old[first].instance(e).and_then(Element::share));
        initialize(&mut new[*w], e);
    }
    for from in &before.workers {
        let to = if place.workers.contains(from) { *from } else { place.home() };
        let Some(mut instance) = old[*from].take_instance(e) else { continue };
        new[to].with(e, |heir, cx| heir.take_state(cx, &mut *instance));
        old[*from].set_instance(e, Some(instance));
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

/// Initialises an instance that was made anew. It could when the router was built; whatever has become scarce since then, the others
/// go on.
fn initialize(worker: &mut Worker, e: ElementId) {
    if let Err(why) = worker.initialize(e) {
        let (shared, w) = (worker.shared(), worker.index());
        let name = &shared.elements[e].name;
        shared.print(&format!("{name}: it cannot run on worker {w}, and drops what comes there: {why}"));
    }
}
