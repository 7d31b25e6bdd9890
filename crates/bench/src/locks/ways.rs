// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ways of keeping a small table whole while others change it: those that the study of the bridge compares, and none at all.
//!
//! The table stands for what a bridge looks at with each frame, its list of members and their addresses. A *packet* is one section
//! that reads an entry, and some work that needs no table.

use std::sync::{Mutex, PoisonError, RwLock};

use sync::lock::{AdaptiveLock, SpinLock};
use sync::rcu::{self, Cell, Domain};

/// Entries of the table; together 1 KiB.
const ENTRIES: usize = 64;
/// An odd constant with well mixed bits.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// What is read and written.
#[derive(Clone, Debug)]
pub(super) struct Table([[u64; 2]; ENTRIES]);

impl Table {
    fn new() -> Table {
        Table(std::array::from_fn(|i| [i as u64; 2]))
    }

    #[inline(always)]
    fn read(&self, seed: u64) -> u64 {
        let [address, port] = self.0[seed as usize % ENTRIES];
        seed.wrapping_add(address ^ port)
    }

    fn write(&mut self, seed: u64) {
        self.0[seed as usize % ENTRIES] = [seed, seed.rotate_left(32)];
    }
}

/// What a packet needs besides the section: steps of which each waits for the one before.
#[inline(always)]
fn work(mut seed: u64, steps: u32) -> u64 {
    for _ in 0..steps {
        seed = std::hint::black_box((seed ^ (seed >> 29)).wrapping_mul(MIX));
    }
    seed
}

/// One way, as the cores use it.
pub(super) trait Way: Sync {
    /// What each core has for itself.
    type Own;

    /// A core joins.
    fn join(&self) -> Self::Own;

    /// A section that reads.
    fn read(&self, own: &Self::Own, seed: u64) -> u64;

    /// The work of one packet: a read section, and some computation next to it.
    #[inline(always)]
    fn packet(&self, own: &Self::Own, seed: u64, steps: u32) -> u64 {
        work(self.read(own, seed), steps)
    }

    /// Changes an entry. Whether it did.
    fn write(&self, own: &mut Self::Own, seed: u64) -> bool;

    /// Between two batches.
    #[inline(always)]
    fn between(&self, _: &mut Self::Own) {}
}

/// A table of its own for each core.
pub(super) struct Alone;

impl Way for Alone {
    type Own = Box<Table>;

    fn join(&self) -> Box<Table> {
        Box::new(Table::new())
    }

    #[inline(always)]
    fn read(&self, own: &Box<Table>, seed: u64) -> u64 {
        own.read(seed)
    }

    fn write(&self, own: &mut Box<Table>, seed: u64) -> bool {
        own.write(seed);
        true
    }
}

/// One lock around everything, the work too.
pub(super) struct Big(AdaptiveLock<Table>);

impl Big {
    pub(super) fn new() -> Big {
        Big(AdaptiveLock::new(Table::new()))
    }
}

impl Way for Big {
    type Own = ();

    fn join(&self) {}

    #[inline(always)]
    fn read(&self, (): &(), seed: u64) -> u64 {
        self.0.lock().read(seed)
    }

    #[inline(always)]
    fn packet(&self, (): &(), seed: u64, steps: u32) -> u64 {
        let table = self.0.lock();
        work(table.read(seed), steps)
    }

    fn write(&self, (): &mut (), seed: u64) -> bool {
        self.0.lock().write(seed);
        true
    }
}

/// What keeps others out of a table.
pub(super) trait Lock: Send + Sync {
    fn around(table: Table) -> Self;

    fn reading(&self, section: impl FnOnce(&Table) -> u64) -> u64;

    fn writing(&self, section: impl FnOnce(&mut Table));
}

/// Waiters spin.
impl Lock for SpinLock<Table> {
    fn around(table: Table) -> Self {
        SpinLock::new(table)
    }

    #[inline(always)]
    fn reading(&self, section: impl FnOnce(&Table) -> u64) -> u64 {
        section(&self.lock())
    }

    fn writing(&self, section: impl FnOnce(&mut Table)) {
        section(&mut self.lock());
    }
}

/// Waiters spin shortly, then sleep.
impl Lock for AdaptiveLock<Table> {
    fn around(table: Table) -> Self {
        AdaptiveLock::new(table)
    }

    #[inline(always)]
    fn reading(&self, section: impl FnOnce(&Table) -> u64) -> u64 {
        section(&self.lock())
    }

    fn writing(&self, section: impl FnOnce(&mut Table)) {
        section(&mut self.lock());
    }
}

/// The standard library's lock for many readers or one writer; Junctor has none of its own.
impl Lock for RwLock<Table> {
    fn around(table: Table) -> Self {
        RwLock::new(table)
    }

    #[inline(always)]
    fn reading(&self, section: impl FnOnce(&Table) -> u64) -> u64 {
        section(&self.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn writing(&self, section: impl FnOnce(&mut Table)) {
        section(&mut self.write().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A lock around the section alone.
pub(super) struct Section<L>(L);

impl<L: Lock> Section<L> {
    pub(super) fn new() -> Section<L> {
        Section(L::around(Table::new()))
    }
}

impl<L: Lock> Way for Section<L> {
    type Own = ();

    fn join(&self) {}

    #[inline(always)]
    fn read(&self, (): &(), seed: u64) -> u64 {
        self.0.reading(|table| table.read(seed))
    }

    fn write(&self, (): &mut (), seed: u64) -> bool {
        self.0.writing(|table| table.write(seed));
        true
    }
}

pub(super) type Spin = Section<SpinLock<Table>>;
pub(super) type Adaptive = Section<AdaptiveLock<Table>>;
pub(super) type ReadersWriter = Section<RwLock<Table>>;

/// Readers follow a pointer. A writer publishes a new version; the old one is freed when every core has started another batch. The study
/// calls it passive serialization.
pub(super) struct Rcu {
    domain: Domain,
    cell: Cell<Table>,
    /// One writer at a time; it holds what the next version is made from.
    newest: Mutex<Table>,
}

impl Rcu {
    pub(super) fn new() -> Rcu {
        let domain = Domain::default();
        let cell = Cell::new(&domain, Table::new());
        Rcu { domain, cell, newest: Mutex::new(Table::new()) }
    }
}

impl Way for Rcu {
    type Own = rcu::Reader;

    fn join(&self) -> rcu::Reader {
        self.domain.register("reader")
    }

    #[inline(always)]
    fn read(&self, own: &rcu::Reader, seed: u64) -> u64 {
        self.cell.read(own).read(seed)
    }

    fn write(&self, _: &mut rcu::Reader, seed: u64) -> bool {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.write(seed);
        // Refused if too many old versions wait for a core that has had no turn for long.
        self.cell.publish(newest.clone()).is_ok()
    }

    #[inline(always)]
    fn between(&self, own: &mut rcu::Reader) {
        own.quiescent();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All cores that have started another batch since a change read that change.
    fn check<W: Way>(way: &W, shared: bool) {
        let (mut one, mut other) = (way.join(), way.join());
        let seed = 5 + 64 * 7;
        let before = way.read(&other, seed);
        assert!(way.write(&mut one, seed));
        way.between(&mut one);
        way.between(&mut other);
        assert_ne!(way.read(&one, seed), before);
        assert_eq!(way.read(&other, seed) != before, shared);
        // No work, and some.
        let read = way.read(&one, seed);
        assert_eq!(way.packet(&one, seed, 0), read);
        assert_ne!(way.packet(&one, seed, 1), read);
    }

    #[test]
    fn every_way_reads_and_writes() {
        check(&Alone, false);
        check(&Big::new(), true);
        check(&Spin::new(), true);
        check(&Adaptive::new(), true);
        check(&ReadersWriter::new(), true);
        check(&Rcu::new(), true);
    }
}
