// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exchange itself: one thread owns the workers of both configurations, and moves what is worth keeping.

use std::sync::Arc;

use element::drops::Reason;
use element::swap::{DevicePool, same};
use element::{DeviceQueues, Element, ElementId, ElementPlan, HotSwap, IndexVec, Mode};
use engine::{Locked, Runtime, Shared, Worker};

use crate::diff::{Action, Outline, diff};
use crate::outcome::Swapped;

/// Moves everything from the `old` workers to the `new` ones. Returns what was done, and the device queues that nobody
/// wants any more.
pub(super) fn exchange(
    runtime: &Runtime,
    Successions { pairs, added, removed }: Successions,
    old: &mut [Worker],
    new: &mut [Worker],
) -> (Swapped, DevicePool) {
    let (was, is) = (old[0].shared().clone(), new[0].shared().clone());
    let mut swapped = Swapped { kept: pairs.len(), added, removed, ..Swapped::default() };
    for (old, new) in old.iter_mut().zip(&mut *new) {
        new.take_over(old);
        pairs.iter().for_each(|pair| new.add_counters(pair.new, old, pair.old));
    }
    swapped.moved = pairs.iter().filter(|pair| take_state(old, new, pair.old, pair.new)).count();
    let pool = hand_over_queues(old, new, &mut swapped);
    count_lost(runtime, old, new, &pairs, &mut swapped);
    is.keep_big_lock(&was);
    new.iter_mut().for_each(|worker| worker.begin_duty(runtime.registry()));
    is.settle();
    (swapped, pool)
}

/// Ends what the exchange has left: elements without successor, devices that nobody uses any more.
pub(super) fn retire(mut old: Vec<Worker>, left: DevicePool) {
    old.iter_mut().for_each(Worker::finish);
    drop(old);
    drop(left);
}

/// An element and its successor, which have the same name and class.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    old: ElementId,
    new: ElementId,
}

/// Which elements go on in which, and how many have no part in that.
pub(super) struct Successions {
    pairs: Vec<Pair>,
    added: usize,
    removed: usize,
}

impl Successions {
    /// What the [difference](crate::diff) of two configurations says of their elements.
    pub(super) fn new(was: &Shared, is: &Shared) -> Successions {
        let mut all = Successions { pairs: Vec::new(), added: 0, removed: 0 };
        for action in diff(&outline(was), &outline(is)) {
            match action {
                Action::Carry { old, new } => {
                    all.pairs.push(Pair { old: ElementId::new(old), new: ElementId::new(new) });
                }
                Action::Create { .. } => all.added += 1,
                Action::Remove { .. } => all.removed += 1,
                Action::Replace { .. } => (all.added, all.removed) = (all.added + 1, all.removed + 1),
                _ => {}
            }
        }
        all.pairs.sort_unstable_by_key(|pair| pair.old);
        all
    }
}

/// The elements of a configuration. Connections are made when it is built, and device queues are handed over by themselves.
fn outline(shared: &Shared) -> Outline<'_> {
    let elements = shared.elements.iter().map(|info| (&*info.name, info.class.name)).collect();
    Outline { elements, ..Outline::default() }
}

/// Workers that have an instance of their own.
fn bearers(place: &ElementPlan) -> Vec<usize> {
    if place.mode == Mode::Locked { vec![place.home()] } else { place.workers.clone() }
}

/// Pairs the instances of an element with their predecessors: on the same worker where there is one, else the first.
fn take_state(old: &mut [Worker], new: &mut [Worker], o: ElementId, n: ElementId) -> bool {
    let (was, is): (Arc<Shared>, Arc<Shared>) = (old[0].shared().clone(), new[0].shared().clone());
    let (before, after) = (bearers(&was.elements[o].place), bearers(&is.elements[n].place));
    let (first_before, first_after) = (was.elements[o].place.home(), is.elements[n].place.home());
    let partner = |w: &usize| if before.contains(w) { *w } else { first_before };
    let own = after.iter().map(|w| (partner(w), *w));
    let others = before.iter().filter(|w| !after.contains(w)).map(|w| (*w, first_after));
    let mut any = false;
    for (from, to) in own.chain(others) {
        let Some(mut instance) = old[from].take_instance(o) else { continue };
        let moved = match same::<Locked>(&mut *instance) {
            Some(locked) => give_state(&mut **locked.get(), &mut new[to], n),
            None => give_state(&mut *instance, &mut new[to], n),
        };
        old[from].set_instance(o, Some(instance));
        any |= moved;
    }
    any
}

fn give_state(old: &mut dyn Element, worker: &mut Worker, n: ElementId) -> bool {
    worker.with_capability::<dyn HotSwap, _>(n, |heir, cx| heir.take_state(cx, old)).unwrap_or(false)
}

fn hand_over_queues(old: &mut [Worker], new: &mut [Worker], swapped: &mut Swapped) -> DevicePool {
    let mut pool = DevicePool::default();
    for worker in old {
        for e in worker.elements() {
            worker.with_capability::<dyn DeviceQueues, _>(e, |instance, cx| instance.release(cx, &mut pool));
        }
    }
    let released = pool.queues();
    for worker in new {
        for e in worker.elements() {
            let shared = worker.shared().clone();
            let mut acquire = || {
                worker
                    .with_capability::<dyn DeviceQueues, _>(e, |instance, cx| instance.acquire(cx, &mut pool))
            };
            sync::lock::naming(&shared.elements[e].name, &mut acquire);
        }
    }
    swapped.queues = released - pool.queues();
    pool
}

/// Counts the packets that stay behind, and keeps the drops of elements that are gone for the router's account.
fn count_lost(
    runtime: &Runtime,
    old: &mut [Worker],
    new: &mut [Worker],
    pairs: &[Pair],
    swapped: &mut Swapped,
) {
    let was = old[0].shared().clone();
    let mut successors = IndexVec::filled(None, was.elements.len());
    pairs.iter().for_each(|pair| successors[pair.old] = Some(pair.new));
    for ((o, info), successor) in was.elements.iter_enumerated().zip(successors) {
        let mut lost = 0;
        for (old, new) in old.iter_mut().zip(&mut *new) {
            let held = old.held(o) as u64;
            lost += held;
            match successor {
                Some(n) if held > 0 => new.add_drops(n, Reason::HotSwap, held),
                Some(_) => {}
                None => {
                    old.drops(o).iter().for_each(|(reason, n)| runtime.add_gone(reason, n));
                    runtime.add_gone(Reason::HotSwap, held);
                }
            }
        }
        if lost > 0 {
            swapped.dropped.push((info.name.to_string(), lost));
        }
    }
}
