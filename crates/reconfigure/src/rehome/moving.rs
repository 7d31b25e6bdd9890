// SPDX-License-Identifier: MIT OR Apache-2.0
//! Carries out a [`Plan`]: counters, timers, tasks, descriptors and instances go from the workers that have stopped to new ones.

use std::any::Any;
use std::time::Duration;

use element::ports::Processing;
use element::swap::{DevicePool, same};
use element::timers::CommonTimers;
use element::{DeviceQueues, ElementId, HotSwap, Mode, Sharing, Target};
use engine::clock::Nanos;
use engine::halt::LOOK_EVERY;
use engine::schedule::{Armed, Timer};
use engine::watch::Watch;
use engine::{Locked, Runtime, Worker};
use std::sync::Arc;

use super::plan::{Conveyance, Plan};
use crate::placement::Moved;

/// How often those who drain a queue are asked to, before its packets are left to be overtaken: a device that sends nothing must
/// not hold everything up.
const ROUNDS_TO_EMPTY: usize = 1000;

impl Plan {
    /// Makes new workers of those that are there.
    pub(super) fn carry_out(mut self, runtime: &Runtime, old: &mut [Worker]) -> (Vec<Worker>, Moved) {
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
    let mut pool = DevicePool::default();
    let mut made = Vec::new();
    for e in plan.steps.ids() {
        let was = plan.was.clone();
        // Locks that this makes are the element's.
        sync::lock::naming(&was.elements[e].name, || match plan.steps[e].conveyance {
            Conveyance::One => move_one(plan, e, old, new),
            Conveyance::Instances { .. } => made.extend(move_instances(plan, e, old, new)),
            Conveyance::Device => remake(plan, e, old, new, &mut pool),
        });
    }
    acquire(plan, new, &mut pool);
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
        let held = |old: &[Worker]| old.iter().any(|w| w.held(e) > 0);
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
    let class = plan.was.elements[e].class;
    for (w, handle) in place.workers.iter().zip(Locked::for_workers(element, class, place.workers.len())) {
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
    let Conveyance::Instances { moves, made, joined } = &step.conveyance else { return Vec::new() };
    for (from, to) in moves {
        new[*to].set_instance(e, old[*from].take_instance(e));
    }
    let first = step.place.workers[0];
    let were_shared = plan.was.elements[e].place.mode == Mode::Shared;
    for w in joined {
        let Some(mut instance) = old[*w].take_instance(e) else { continue };
        // Those over common state hold nothing that the first one does not.
        if !were_shared {
            new[first].with_capability::<dyn HotSwap, _>(e, |heir, cx| heir.take_state(cx, &mut *instance));
            old[*w].set_instance(e, Some(instance));
        }
    }
    let shares = step.place.mode == Mode::Shared || plan.was.how(e).sharing == Sharing::PerCore;
    let mut spares = plan.spares.remove(&e).unwrap_or_default();
    let mut done = Vec::new();
    for w in made {
        let shared = shares.then(|| new[first].share(e)).flatten();
        new[*w].set_instance(e, shared.or_else(|| spares.pop()));
        done.push((e, *w));
    }
    done
}

/// Makes a device's instances anew, and leaves its queues in the pool.
fn remake(plan: &Plan, e: ElementId, old: &mut [Worker], new: &mut [Worker], pool: &mut DevicePool) {
    let before = &plan.was.elements[e].place;
    let place = &plan.steps[e].place;
    let first = before.workers[0];
    for w in &place.workers {
        new[*w].set_instance(e, old[first].share(e));
        initialize(&mut new[*w], e);
    }
    for from in &before.workers {
        let to = if place.workers.contains(from) { *from } else { place.home() };
        let Some(mut instance) = old[*from].take_instance(e) else { continue };
        new[to].with_capability::<dyn HotSwap, _>(e, |heir, cx| heir.take_state(cx, &mut *instance));
        old[*from].set_instance(e, Some(instance));
        old[*from].with_capability::<dyn DeviceQueues, _>(e, |instance, cx| instance.release(cx, pool));
    }
}

/// Gives the queues of devices to the instances that were made for them.
fn acquire(plan: &Plan, new: &mut [Worker], pool: &mut DevicePool) {
    for (e, step) in plan.steps.iter_enumerated().filter(|(_, s)| matches!(s.conveyance, Conveyance::Device))
    {
        for w in &step.place.workers {
            let mut acquire = || {
                new[*w].with_capability::<dyn DeviceQueues, _>(e, |instance, cx| instance.acquire(cx, pool))
            };
            sync::lock::naming(&plan.was.elements[e].name, &mut acquire);
        }
    }
}

/// Initialises an instance that was made anew. It could when the router was built. If something has become scarce since then, the
/// others go on.
fn initialize(worker: &mut Worker, e: ElementId) {
    if let Err(why) = worker.initialize(e) {
        let (shared, w) = (worker.shared(), worker.index());
        let name = &shared.elements[e].name;
        shared.print(&format!("{name}: it cannot run on worker {w}, and drops what comes there: {why}"));
    }
}
