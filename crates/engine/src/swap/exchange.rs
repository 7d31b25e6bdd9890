// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exchange itself: one thread owns the workers of both configurations, and moves what is worth keeping.

use std::sync::Arc;

use super::{Depot, Swapped};
use crate::build::Plant;
use crate::locked::Locked;
use crate::router::Shared;
use crate::worker::{CycleStats, PortStats, TaskStats, Worker};
use element::account::Deeds;
use element::drops::Reason;
use element::ports::Processing;
use element::{Element, ElementId, ElementInfo, IndexVec, Mode, Place, Target, first_ids};

/// Moves everything from the `old` workers to the `new` ones. Returns what was done, and the device queues that nobody
/// wants any more.
pub(super) fn exchange(plant: &Plant, old: &mut [Worker], new: &mut [Worker]) -> (Swapped, Depot) {
    let (was, is) = (old[0].shared.clone(), new[0].shared.clone());
    let pairs = pairs(&was, &is);
    let mut swapped = Swapped {
        kept: pairs.len(),
        added: is.elements.len() - pairs.len(),
        removed: was.elements.len() - pairs.len(),
        ..Swapped::default()
    };
    for (old, new) in old.iter_mut().zip(&mut *new) {
        relieve(old, new);
        pairs.iter().for_each(|pair| add_counters(old, new, pair.old, pair.new));
    }
    swapped.moved = pairs.iter().filter(|pair| take_state(old, new, pair.old, pair.new)).count();
    let depot = hand_over_queues(old, new, &mut swapped);
    count_lost(plant, old, new, &pairs, &mut swapped);
    if let Some(lock) = was.big_lock.get() {
        let _ = is.big_lock.set(lock.clone());
    }
    for worker in new {
        worker.fuse(&plant.registry);
        worker.on_duty = true;
        for watch in std::mem::take(&mut worker.wishes) {
            worker.watch(watch);
        }
    }
    is.holdings.settle();
    (swapped, depot)
}

/// Ends what the exchange has left: elements without successor, devices that nobody uses any more.
pub(super) fn retire(mut old: Vec<Worker>, left: Depot) {
    old.iter_mut().for_each(Worker::finish);
    drop(old);
    drop(left);
}

/// An element and its successor, which have the same name and class.
#[derive(Clone, Copy)]
struct Pair {
    old: ElementId,
    new: ElementId,
}

fn pairs(was: &Shared, is: &Shared) -> Vec<Pair> {
    let successor = |(old, before): (ElementId, &ElementInfo)| {
        let new = is.named(&before.name)?;
        (is.elements[new].class.name == before.class.name).then_some(Pair { old, new })
    };
    was.elements.iter_enumerated().filter_map(successor).collect()
}

/// What belongs to the worker rather than to its configuration.
pub(super) fn relieve(old: &mut Worker, new: &mut Worker) {
    let poll = old.take_poll();
    if let Some(poll) = &poll {
        for watch in old.watched.drain(..) {
            let _ = poll.registry().deregister(&mut mio::unix::SourceFd(&watch.fd));
        }
    }
    new.poll = poll;
    old.on_duty = false;
    new.cpu_ns = old.cpu_ns;
    new.big_lock = old.big_lock.take();
    new.clock = old.clock.clone();
    std::mem::swap(&mut old.random, &mut new.random);
    for timer in [crate::builtin::END_TIMER, crate::builtin::ALARM_TIMER] {
        if let Some(at) = old.timers.expiry(Target::Router, timer) {
            new.timers.set(Target::Router, timer, at);
        }
    }
}

/// Lets the engine's own counters go on.
pub(super) fn add_counters(old: &mut Worker, new: &mut Worker, o: ElementId, n: ElementId) {
    for (reason, count) in old.drops[o].iter() {
        new.drops[n].add(reason, count);
    }
    // Counters of which there is nothing to add stay untouched: they take no memory until then.
    if old.deeds[o] != Deeds::default() {
        new.deeds[n] += old.deeds[o];
    }
    for (new, old) in [(&mut new.cycles, &old.cycles), (&mut new.pulls, &old.pulls)] {
        if old[o] != CycleStats::default() {
            new[n].add(old[o]);
        }
    }
    for (new, old) in [(&mut new.task_stats, &old.task_stats), (&mut new.call_stats, &old.call_stats)] {
        if old[o] != TaskStats::default() {
            new[n].add(old[o]);
        }
    }
    let is = new.shared.clone();
    let outputs = is.elements[n].outputs().processing();
    for (port, processing) in first_ids(outputs.len()).zip(outputs) {
        let before = old.output_stats(o, port);
        if before == PortStats::default() {
            continue;
        }
        let Some(at) = new.outputs.at(n, port) else { continue };
        let edge = new.outputs.edges[at];
        // A pull output is counted where it is asked.
        *match new.inputs.at(edge.element, edge.port) {
            Some(fed) if *processing == Processing::Pull => &mut new.fetched[fed],
            _ => &mut new.sent[at],
        } += before;
    }
}

/// Workers that have an instance of their own.
fn bearers(place: &Place) -> Vec<usize> {
    if place.mode == Mode::Locked { vec![place.home()] } else { place.workers.clone() }
}

/// Pairs the instances of an element with their predecessors: on the same worker where there is one, else the first.
fn take_state(old: &mut [Worker], new: &mut [Worker], o: ElementId, n: ElementId) -> bool {
    let (was, is): (Arc<Shared>, Arc<Shared>) = (old[0].shared.clone(), new[0].shared.clone());
    let (before, after) = (bearers(&was.elements[o].place), bearers(&is.elements[n].place));
    let (first_before, first_after) = (was.elements[o].place.home(), is.elements[n].place.home());
    let partner = |w: &usize| if before.contains(w) { *w } else { first_before };
    let own = after.iter().map(|w| (partner(w), *w));
    let others = before.iter().filter(|w| !after.contains(w)).map(|w| (*w, first_after));
    let mut any = false;
    for (from, to) in own.chain(others) {
        let Some(mut instance) = old[from].slots[o].take() else { continue };
        let moved = match super::same::<Locked>(&mut *instance) {
            Some(locked) => give_state(&mut **locked.get(), &mut new[to], n),
            None => give_state(&mut *instance, &mut new[to], n),
        };
        old[from].slots[o] = Some(instance);
        any |= moved;
    }
    any
}

fn give_state(old: &mut dyn Element, worker: &mut Worker, n: ElementId) -> bool {
    worker.with(n, |instance, cx| instance.take_state(cx, old)).unwrap_or(false)
}

fn hand_over_queues(old: &mut [Worker], new: &mut [Worker], swapped: &mut Swapped) -> Depot {
    let mut depot = Depot::default();
    for worker in old {
        for e in worker.slots.ids() {
            worker.with(e, |instance, cx| instance.release(cx, &mut depot));
        }
    }
    let released = depot.queues();
    for worker in new {
        for e in worker.slots.ids() {
            let shared = worker.shared.clone();
            let mut acquire = || worker.with(e, |instance, cx| instance.acquire(cx, &mut depot));
            sync::lock::naming(&shared.elements[e].name, &mut acquire);
        }
    }
    swapped.queues = released - depot.queues();
    depot
}

/// Counts the packets that stay behind, and keeps the drops of elements that are gone for the router's account.
fn count_lost(plant: &Plant, old: &mut [Worker], new: &mut [Worker], pairs: &[Pair], swapped: &mut Swapped) {
    let was = old[0].shared.clone();
    let mut successors = IndexVec::filled(None, was.elements.len());
    pairs.iter().for_each(|pair| successors[pair.old] = Some(pair.new));
    for ((o, info), successor) in was.elements.iter_enumerated().zip(successors) {
        let mut lost = 0;
        for (old, new) in old.iter_mut().zip(&mut *new) {
            let held = old.slots[o].as_ref().map_or(0, |i| i.held()) as u64;
            lost += held;
            match successor {
                Some(n) if held > 0 => new.drops[n].add(Reason::HotSwap, held),
                Some(_) => {}
                None => {
                    old.drops[o].iter().for_each(|(reason, n)| plant.add_gone(reason, n));
                    plant.add_gone(Reason::HotSwap, held);
                }
            }
        }
        if lost > 0 {
            swapped.dropped.push((info.name.to_string(), lost));
        }
    }
}
