// SPDX-License-Identifier: MIT OR Apache-2.0
//! A reader on each core and a writer on the last of them, which it has to share. The writer works off its pace in
//! portions of a millisecond and sleeps in between. A reader's rate is per second of its own processor time, so what the
//! writer takes of the core does not count, but what it does to caches, lines and locks does.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use core_affinity::CoreId;
use sync::lock::{LockStats, SpinLock};
use sync::rcu::{self, Domain};
use tables::fib4::NextHopId;

use super::BATCH;
use super::data::Data;
use super::table::Table;

/// How readers and writer share the routes; see LookupIPRoute's `SYNC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    Rcu,
    PerCore,
    Lock,
}

/// The cores to measure on.
pub(super) fn cores() -> Vec<usize> {
    let all = core_affinity::get_core_ids().unwrap_or_default();
    let some: Vec<usize> = all.into_iter().map(|core| core.id).take(2).collect();
    if some.is_empty() { vec![0] } else { some }
}

/// Processor time of the calling thread.
pub(super) fn thread_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A table that belongs to whoever holds the lock around it.
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
    made: AtomicU64,
}

/// What one run gave.
pub(super) struct Rates {
    /// Of each reader, million lookups in a second of its processor time.
    pub(super) mlps: Vec<f64>,
    pub(super) updates_per_s: f64,
}

impl<T: Table> Together<T> {
    pub(super) fn new(strategy: Strategy, data: &Data<T>) -> Result<Self, String> {
        let cores = cores();
        let filled = |domain: &Domain| {
            let mut table = T::open(domain)?;
            table.replace(&data.routes)?;
            Ok::<T, String>(table)
        };
        let owned = |_| {
            let domain = Domain::default();
            let table = filled(&domain)?;
            let (fib, reader) = (table.reader(), domain.register("the lock's holder"));
            Ok::<_, String>(SpinLock::new(Owned { table, fib, reader, hits: Vec::new() }))
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
        Ok(Self { store, cores, made: AtomicU64::new(0) })
    }

    /// What the readers' locks have been through.
    pub(super) fn contention(&self) -> LockStats {
        let Store::Locked(copies) = &self.store else { return LockStats::default() };
        copies.iter().map(SpinLock::stats).fold(LockStats::default(), |sum, one| LockStats {
            acquisitions: sum.acquisitions + one.acquisitions,
            contended: sum.contended + one.contended,
            wait_ns: sum.wait_ns + one.wait_ns,
        })
    }

    /// Runs for `length`, with `pace` updates a second if any.
    pub(super) fn run(
        &mut self,
        addrs: &[T::Addr],
        updates: &[(T::Prefix, Option<NextHopId>)],
        pace: Option<u64>,
        length: Duration,
    ) -> Result<Rates, String> {
        let done = AtomicBool::new(false);
        let this = &*self;
        thread::scope(|scope| {
            let read = |(at, core): (usize, &usize)| {
                let (core, done) = (*core, &done);
                // Each begins elsewhere, so that they do not load lines for each other.
                let (before, after) = addrs.split_at(addrs.len() / this.cores.len() * at / BATCH * BATCH);
                scope.spawn(move || {
                    core_affinity::set_for_current(CoreId { id: core });
                    this.read(at, [after, before], done)
                })
            };
            let readers: Vec<_> = this.cores.iter().enumerate().map(read).collect();
            let core = this.cores[this.cores.len() - 1];
            let writer = scope.spawn(move || {
                core_affinity::set_for_current(CoreId { id: core });
                this.write(updates, pace, length)
            });
            let written = writer.join().map_err(|_| "the writer panicked".to_owned()).flatten();
            done.store(true, Ordering::Relaxed);
            let mlps: Result<Vec<f64>, String> =
                readers.into_iter().map(|one| one.join().map_err(|_| "a reader panicked".into())).collect();
            Ok(Rates { mlps: mlps?, updates_per_s: written? })
        })
    }

    /// Looks up until done; the rate.
    fn read(&self, at: usize, addrs: [&[T::Addr]; 2], done: &AtomicBool) -> f64 {
        let mut out = [0; BATCH];
        let mut reader = match &self.store {
            Store::Rcu(domain, ..) => Some(domain.register(format!("reader {at}"))),
            Store::Locked(_) => None,
        };
        let (start, mut looked) = (thread_seconds(), 0u64);
        for batch in addrs.iter().flat_map(|addrs| addrs.chunks_exact(BATCH)).cycle() {
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
            if done.load(Ordering::Relaxed) {
                break;
            }
        }
        looked as f64 / (thread_seconds() - start) / 1e6
    }

    /// Makes updates at the pace; how many a second it came to.
    fn write(
        &self,
        updates: &[(T::Prefix, Option<NextHopId>)],
        pace: Option<u64>,
        length: Duration,
    ) -> Result<f64, String> {
        let Some(pace) = pace else {
            thread::sleep(length);
            return Ok(0.0);
        };
        let (start, mut made) = (Instant::now(), 0u64);
        let before = self.made.load(Ordering::Relaxed);
        while start.elapsed() < length {
            let due = (start.elapsed().as_secs_f64() * pace as f64) as u64;
            while made < due && start.elapsed() < length {
                let (prefix, id) = updates[((before + made) % updates.len().max(1) as u64) as usize];
                self.change(prefix, id)?;
                made += 1;
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.made.store(before + made, Ordering::Relaxed);
        Ok(made as f64 / start.elapsed().as_secs_f64())
    }

    fn change(&self, prefix: T::Prefix, id: Option<NextHopId>) -> Result<(), String> {
        match &self.store {
            Store::Rcu(_, table, _) => {
                while !table.lock().change(prefix, id)? {
                    thread::yield_now(); // a reader on this very core has to get its turn
                }
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
        Ok(())
    }
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
