// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which locks a configuration will take: what elements say of theirs ([`Locking`]), and the one that the engine puts around an
//! element of which several workers need the only instance. They are known before anything runs, so that a plan can name who will wait for whom.
//! What they have then cost, `junctor ctl locks` says under the same names.

use std::collections::HashMap;

use sync::lock::How;

use crate::homes;
use crate::planned::Planned;
use element::{Class, Element, ElementId, ElementPlan, IndexVec, LockUse, Locking, Mode, When};

/// A lock in a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedLock {
    /// The name by which it is listed: its owner's.
    pub name: String,
    /// What the element says of it.
    pub lock: LockUse,
    /// Workers whose packets take it, here or at other elements with the same one; none if only handlers and timers do.
    pub workers: Vec<usize>,
}

impl PlannedLock {
    /// Whether workers may wait for each other.
    pub fn is_contended(&self) -> bool {
        self.workers.len() > 1 && !self.lock.per_worker
    }
}

/// What is said of the locks of an element that is placed so.
pub(crate) fn of(
    class: &Class,
    element: &dyn Element,
    place: &ElementPlan,
    why_one: &'static str,
) -> Vec<LockUse> {
    let locking = class.capability::<dyn Locking>(element);
    let mut locks = locking.map_or(Vec::new(), |element| element.locks());
    if place.mode == Mode::Locked {
        let why = if why_one.is_empty() { "its class allows one instance" } else { why_one };
        locks.push(LockUse::new(How::Adaptive, "the element itself", When::EachBatch, why));
    }
    locks
}

/// Joins what all elements say of the locks that they have in common.
pub(crate) fn join(
    all: &mut IndexVec<ElementId, Planned>,
    names: &IndexVec<ElementId, &str>,
    locks: IndexVec<ElementId, Vec<LockUse>>,
) {
    let index: HashMap<&str, ElementId> = names.iter_enumerated().map(|(e, name)| (*name, e)).collect();
    let named: IndexVec<ElementId, Vec<(String, LockUse)>> = locks
        .iter_enumerated()
        .map(|(e, of)| {
            let mut mine: Vec<(String, LockUse)> = Vec::new();
            for lock in of {
                let name = owner(&index, names, &locks, e, lock);
                // Names that mean one element, or elements that share, are one lock.
                if !mine.iter().any(|(n, l)| *n == name && l.guards == lock.guards) {
                    mine.push((name, lock.clone()));
                }
            }
            mine
        })
        .collect();
    let takers = |e: ElementId, lock: &LockUse| match lock.when {
        When::Control => &[][..],
        _ => &all[e].place.workers[..],
    };
    let workers = |name: &str, guards: &str| -> Vec<usize> {
        let uses = named.iter_enumerated().flat_map(|(e, of)| of.iter().map(move |l| (e, l)));
        let same = uses.filter(|(_, (n, l))| n == name && l.guards == guards);
        let mut workers: Vec<usize> = same.flat_map(|(e, (_, l))| takers(e, l).iter().copied()).collect();
        workers.sort_unstable();
        workers.dedup();
        workers
    };
    let planned = |(name, lock): &(String, LockUse)| {
        let workers = workers(name, lock.guards);
        PlannedLock { name: name.clone(), lock: lock.clone(), workers }
    };
    let joined: Vec<Vec<PlannedLock>> = named.iter().map(|of| of.iter().map(planned).collect()).collect();
    all.iter_mut().zip(joined).for_each(|(element, locks)| element.locks = locks);
}

/// Whose lock it is that element `e` speaks of. An owner may itself use another's; what is no element's name stands for itself.
fn owner(
    index: &HashMap<&str, ElementId>,
    names: &IndexVec<ElementId, &str>,
    locks: &IndexVec<ElementId, Vec<LockUse>>,
    mut e: ElementId,
    lock: &LockUse,
) -> String {
    let mut lock = lock;
    for _ in 0..names.len() {
        let Some(name) = &lock.owner else { break };
        let Some(found) = homes::lookup(index, name, names[e]) else { return name.clone() };
        e = found;
        // An owner that says nothing of it has it all the same.
        let Some(theirs) = locks[e].iter().find(|l| l.guards == lock.guards) else { break };
        lock = theirs;
    }
    names[e].to_owned()
}
