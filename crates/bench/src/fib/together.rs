// SPDX-License-Identifier: MIT OR Apache-2.0
//! A reader on each core, and updates at a fixed pace by the last of them between its batches, as a router's worker runs handlers. (A thread for the
//! writer alone would have to share that core by the scheduler's leave: it does not reach its pace next to a reader that never sleeps, and none at
//! all where the two share a spinning lock.)
//!
//! A reader's rate is per second of processor time that it reads for. So the time that updates take does not count, but what they do to
//! caches, lines and locks does, and other work on the machine counts little. The pace is per second of processor time of the core that makes the updates.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use core_affinity::CoreId;
use sync::lock::{LockStats, SpinLock};
use sync::rcu::{self, Domain};
use tables::fib4::NextHopId;

use super::BATCH;
use super::data::Data;
use super::table::Table;
use crate::Error;

/// How readers and writer share the routes; see LookupIPRoute's `SYNC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    Rcu,
    PerCore,
    Lock,
}

/// The cores to measure on.
pub(in super::super) fn cores() -> Vec<usize> {
    let all = core_affinity::get_core_ids().unwrap_or_default();
    let some: Vec<usize> = all.into_iter().map(|core| core.id).take(2).collect();
    if some.is_empty() { vec![0] } else { some }
}

/// Processor time of the calling thread.
pub(in super::super) fn thread_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A table that belongs to the holder of the lock around it.
struct Owned<T: Table> {
    table: T,
    fib: T::Reader,
    reader: rcu::Reader,
    /// Lookups by next hop, as `SYNC percore` and `lock` count packets.
    hits: Vec<u64>,
}

enum Store<T: Table> {
    Rcu(Domain, Box<SpinLock<T>>, T::Reader),
    /// One for all, or one for each core.
    Locked(Vec<SpinLock<Owned<T>>>),
}

/// Readers and a writer over one table, or copies of it.
pub(super) struct Together<T: Table> {
    store: Store<T>,
    cores: Vec<usize>,
    /// Updates made, so that each run goes on where the last ended.
    made: usize,
}

/// What one run gave.
pub(super) struct Rates {
    /// Of each reader, million lookups in a second that it reads.
    pub(super) mlps: Vec<f64>,
    pub(super) updates_per_s: f64,
}

impl<T: Table> Together<T> {
    pub(super) fn new(strategy: Strategy, data: &Data<T>) -> Result<Self, Error> {
        let cores = cores();
        let filled = |domain: &Domain| {
            let mut table = T::open(domain)?;
            table.replace(&data.routes)?;
            Ok::<T, Error>(table)
        };
        let owned = |_| {
            let domain = Domain::default();
            let table = filled(&domain)?;
            let (fib, reader) = (table.reader(), domain.register("the lock's holder"));
            Ok::<_, Error>(SpinLock::new(Owned { table, fib, reader, hits: Vec::new() }))
        };
        let store = match strategy {
            Strategy::Rcu => {
                let domain = Domain::default();
                let table = filled(&domain)?;
                let fib = table.reader();
                Store::Rcu(domain, Box::new(SpinLock::new(table)), fib)
            }
            Strategy::PerCore => Store::Locked((0..cores.len()).map(owned).collect::<Result<_, _>>()?),
            Strategy::Lock => Store::Locked(vec![owned(0)?]),
        };
        Ok(Self { store, cores, made: 0 })
    }

    /// What the readers' locks have been through.
    pub(super) fn contention(&self) -> LockStats {
        let Store::Locked(copies) = &self.store else { return LockStats::default() };
        copies.iter().map(SpinLock::stats).fold(LockStats::default(), |sum, one| LockStats {
            acquisitions: sum.acquisitions + one.acquisitions,
            contended: sum.contended + one.contended,
            wait_ns: sum.wait_ns + one.wait_ns,
            worst_ns: sum.worst_ns.max(one.worst_ns),
        })
    }

    /// Runs for `length`, with `pace` updates a second if any.
    pub(super) fn run(
        &mut self,
        addrs: &[T::Addr],
        updates: &[(T::Prefix, Option<NextHopId>)],
        pace: Option<u64>,
        length: Duration,
    ) -> Result<Rates, Error> {
        let done = AtomicBool::new(false);
        let (this, last) = (&*self, self.cores.len() - 1);
        let told: Result<Vec<Told>, Error> = thread::scope(|scope| {
            let read = |(at, core): (usize, &usize)| {
                let (core, done) = (*core, &done);
                // Each begins elsewhere, so that they do not load lines for each other.
                let (before, after) = addrs.split_at(addrs.len() / this.cores.len() * at / BATCH * BATCH);
                let writer = pace.filter(|_| at == last).map(|pace| Writer { updates, pace, made: 0 });
                scope.spawn(move || {
                    core_affinity::set_for_current(CoreId { id: core });
                    this.read(at, [after, before], writer, done)
                })
            };
            let readers: Vec<_> = this.cores.iter().enumerate().map(read).collect();
            thread::sleep(length);
            done.store(true, Ordering::Relaxed);
            readers.into_iter().map(|one| one.join().map_err(|_| Error::Panicked("a reader"))?).collect()
        });
        let told = told?;
        self.made += told[last].made;
        Ok(Rates {
            mlps: told.iter().map(|one| one.mlps).collect(),
            updates_per_s: told[last].made as f64 / told[last].seconds,
        })
    }

    /// Looks up until done, and makes updates in between if it is to.
    fn read(
        &self,
        at: usize,
        addrs: [&[T::Addr]; 2],
        mut writer: Option<Writer<'_, T>>,
        done: &AtomicBool,
    ) -> Result<Told, Error> {
        let mut out = [0; BATCH];
        let mut reader = match &self.store {
            Store::Rcu(domain, ..) => Some(domain.register(format!("reader {at}"))),
            Store::Locked(_) => None,
        };
        let (start, mut looked, mut wrote) = (thread_seconds(), 0u64, 0.0);
        let batches = addrs.iter().flat_map(|addrs| addrs.chunks_exact(BATCH)).cycle();
        for (turn, batch) in batches.enumerate() {
            match (&self.store, &mut reader) {
                (Store::Rcu(_, _, fib), Some(reader)) => {
                    T::lookup(fib, reader, batch, &mut out);
                    reader.quiescent();
                }
                (Store::Locked(copies), _) => {
                    let own = at.min(copies.len() - 1);
                    let owned = &mut *copies[own].lock_timed(now_ns);
                    T::lookup(&owned.fib, &owned.reader, batch, &mut out);
                    count(&mut owned.hits, &out);
                }
                _ => unreachable!("registered above"),
            }
            std::hint::black_box(&out);
            looked += BATCH as u64;
            if turn % TURNS == 0 {
                // Readers without updates look at the clock, too.
                let now = thread_seconds();
                if let Some(writer) = &mut writer {
                    self.write(writer, now - start, &mut reader)?;
                    wrote += thread_seconds() - now;
                }
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
        let seconds = thread_seconds() - start;
        let made = writer.map_or(0, |writer| writer.made);
        Ok(Told { mlps: looked as f64 / (seconds - wrote) / 1e6, made, seconds })
    }

    /// Makes the updates that are due after so many seconds.
    fn write(
        &self,
        writer: &mut Writer<'_, T>,
        seconds: f64,
        reader: &mut Option<rcu::Reader>,
    ) -> Result<(), Error> {
        let due = (seconds * writer.pace as f64) as usize;
        while writer.made < due && !writer.updates.is_empty() {
            let (prefix, id) = writer.updates[(self.made + writer.made) % writer.updates.len()];
            match &self.store {
                Store::Rcu(_, table, _) => {
                    while !table.lock().change(prefix, id)? {
                        thread::yield_now(); // the other reader is not running just now
                        reader.iter_mut().for_each(rcu::Reader::quiescent);
                    }
                    reader.iter_mut().for_each(rcu::Reader::quiescent);
                }
                Store::Locked(copies) => {
                    for copy in copies {
                        let owned = &mut *copy.lock_timed(now_ns);
                        while !owned.table.change(prefix, id)? {
                            owned.reader.quiescent();
                        }
                        owned.reader.quiescent();
                    }
                }
            }
            writer.made += 1;
        }
        Ok(())
    }
}

/// Batches between two looks at the clock.
const TURNS: usize = 128;

/// Updates to make.
struct Writer<'a, T: Table> {
    updates: &'a [(T::Prefix, Option<NextHopId>)],
    pace: u64,
    made: usize,
}

/// What a reader reports at the end.
struct Told {
    mlps: f64,
    made: usize,
    /// Processor time, updates included.
    seconds: f64,
}

fn count(hits: &mut Vec<u64>, found: &[u32]) {
    for id in found.iter().filter(|id| **id != NextHopId::NONE.0) {
        let at = *id as usize;
        if at >= hits.len() {
            hits.resize(at + 1, 0);
        }
        hits[at] += 1;
    }
}

fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
