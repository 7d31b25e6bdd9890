// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which locks a configuration will take: what elements say of theirs ([`Element::locks`]), and the one that the engine puts around an
//! element of which several workers need the only instance. Told before anything runs, so that a plan can name who will wait for whom;
//! what they have then cost is told by `junctor ctl locks`, under the same names.

use std::collections::HashMap;
use std::fmt;

use sync::lock::How;

use crate::element::Element;
use crate::homes;
use crate::ids::{ElementId, IndexVec};
use crate::plan::{Mode, Place};
use crate::planned::Planned;

/// When a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// With every batch, on the way of the packets.
    EachBatch,
    /// By some packets, those that the text tells.
    Exceptions,
    /// By handlers and timers alone: packets pass without it.
    Control,
}

impl When {
    /// In a word, as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            When::EachBatch => "batch",
            When::Exceptions => "exceptions",
            When::Control => "control",
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            When::EachBatch => "with each batch",
            When::Exceptions => "by some packets",
            When::Control => "by handlers and timers only",
        })
    }
}

/// A lock of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockUse {
    /// The element whose lock it is, and by whose name it is listed; `None` for the element's own.
    pub owner: Option<String>,
    /// What waiters do.
    pub how: How,
    /// What it guards.
    pub guards: &'static str,
    /// When it is taken.
    pub when: When,
    /// What takes it, reading or writing.
    pub why: &'static str,
    /// Each worker has one of its own, which only changes from outside take besides.
    pub per_worker: bool,
}

impl LockUse {
    /// An element's own lock, common to its workers.
    pub const fn new(how: How, guards: &'static str, when: When, why: &'static str) -> LockUse {
        LockUse { owner: None, how, guards, when, why, per_worker: false }
    }
}

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
pub(crate) fn of(element: &dyn Element, place: &Place, why_one: &'static str) -> Vec<LockUse> {
    let mut locks = element.locks();
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
