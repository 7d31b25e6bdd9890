// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who waited for which lock, how long, and because of whom.

use std::collections::BTreeMap;

use serde::Serialize;
use sync::events::{Event, EventKind};

use super::Trace;
use super::absence::Absences;
use crate::names::LockName;

/// A lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Lock {
    /// The element that it was made for.
    pub name: String,
    /// What waiters do.
    pub how: String,
    /// The line of the source that makes it.
    pub at: String,
    /// Times it was taken, as far as recorded: each time, or only after waits.
    pub acquisitions: u64,
    /// Times that somebody had to wait.
    pub contended: u64,
    /// Time waited in all, in microseconds, and the longest: without what a waiter could have gone on in, had it had a processor.
    pub wait_us: f64,
    /// See above.
    pub worst_wait_us: f64,
    /// The time that is left out there; nothing if the kernel did not tell of it, and so with the next.
    pub unready_us: Option<f64>,
    /// Of the time waited, how long the owner of the lock had no processor.
    pub owner_away_us: Option<f64>,
    /// How long it was held when that was recorded, mean and maximum, in nanoseconds.
    pub held_ns: f64,
    /// See above.
    pub worst_held_ns: f64,
    /// Threads that waited.
    pub waiters: Vec<String>,
    /// Time waited over the time of those threads.
    pub share: f64,
    /// Who waited for whom.
    pub pairs: Vec<Pair>,
}

/// Waits of one thread for another.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Pair {
    /// The thread that held the lock.
    pub owner: String,
    /// The thread that waited.
    pub waiter: String,
    /// How often.
    pub waits: u64,
    /// How long in all, in microseconds.
    pub wait_us: f64,
}

#[derive(Default)]
struct Sums {
    acquisitions: u64,
    contended: u64,
    wait: u64,
    /// Of this, as much as lies in the time of which all rings tell.
    wait_of_share: u64,
    worst_wait: u64,
    unready: u64,
    owner_away: u64,
    held: u64,
    worst_held: u64,
    /// Waits and cycles by owner and waiter.
    pairs: BTreeMap<(u32, u32), (u64, u64)>,
}

/// Locks that were recorded, the one most waited for first.
pub(super) fn table(trace: &Trace<'_>, absences: &Absences) -> Vec<Lock> {
    let mut sums: BTreeMap<u32, Sums> = BTreeMap::new();
    for event in trace.recording.events.iter().filter(|e| e.kind == EventKind::Lock) {
        let (wait, held) = (u64::from(event.first), u64::from(event.second));
        let lock = sums.entry(event.subject).or_default();
        lock.acquisitions += 1;
        (lock.held, lock.worst_held) = (lock.held + held, lock.worst_held.max(held));
        if wait > 0 {
            lock.contended += 1;
            // It was released at this time, and waited for before it was held.
            let waited = Event { at: event.at.saturating_sub(held), ..*event };
            let from = waited.at.saturating_sub(wait);
            let unready = absences.ready(event.thread, from, waited.at);
            lock.unready += unready;
            lock.owner_away += absences.away(event.other, from, waited.at).min(wait - unready);
            lock.wait_of_share += trace.window.part(&waited, wait).saturating_sub(unready);
            let wait = wait - unready;
            (lock.wait, lock.worst_wait) = (lock.wait + wait, lock.worst_wait.max(wait));
            let pair = lock.pairs.entry((event.other, event.thread)).or_default();
            *pair = (pair.0 + 1, pair.1 + wait);
        }
    }
    let lock = |(number, sums): (u32, Sums)| lock(trace, absences, number, &sums);
    let mut locks: Vec<Lock> = sums.into_iter().map(lock).collect();
    locks.sort_by(|a, b| b.wait_us.total_cmp(&a.wait_us));
    locks
}

fn lock(trace: &Trace<'_>, absences: &Absences, number: u32, sums: &Sums) -> Lock {
    let unnamed = || LockName {
        number,
        name: format!("lock {number}"),
        how: "gone before it was asked for its name".into(),
        ..LockName::default()
    };
    let LockName { name, how, at, .. } = trace.recording.lock(number).cloned().unwrap_or_else(unnamed);
    let ns = |cycles: u64| trace.time.span_ns(cycles);
    let mut waiters: Vec<u32> = sums.pairs.keys().map(|(_, waiter)| *waiter).collect();
    waiters.sort_unstable();
    waiters.dedup();
    let pair = |((owner, waiter), (waits, cycles)): (&(u32, u32), &(u64, u64))| Pair {
        // The owner may have released it by the time that the waiter looked.
        owner: if *owner == 0 { "already released".into() } else { trace.thread(*owner) },
        waiter: trace.thread(*waiter),
        waits: *waits,
        wait_us: ns(*cycles) / 1e3,
    };
    let known = |cycles: u64| waiters.iter().any(|t| absences.knows(*t)).then(|| ns(cycles) / 1e3);
    Lock {
        name,
        how,
        unready_us: known(sums.unready),
        owner_away_us: known(sums.owner_away),
        at,
        acquisitions: sums.acquisitions,
        contended: sums.contended,
        wait_us: ns(sums.wait) / 1e3,
        worst_wait_us: ns(sums.worst_wait) / 1e3,
        held_ns: ns(sums.held) / (sums.acquisitions as f64).max(1.0),
        worst_held_ns: ns(sums.worst_held),
        share: sums.wait_of_share as f64 / (trace.cycles() * (waiters.len() as f64).max(1.0)),
        waiters: waiters.iter().map(|t| trace.thread(*t)).collect(),
        pairs: sums.pairs.iter().map(pair).collect(),
    }
}
