// SPDX-License-Identifier: MIT OR Apache-2.0
//! One cell for each core, so that counting costs no sharing.
//!
//! A counter that two cores increment costs them a cache line's journey each time (BARS: 50 ns a packet for a shared packet counter). Here each
//! worker has a cell on lines of its own, and writes it with ordinary stores. A reader of the total adds the cells up: the sum of values each of
//! which was true a moment ago.

use crate::padded::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering};

/// A `T` for each core, padded apart.
///
/// ```
/// use junctor_sync::percore::{Counter, PerCore};
/// let packets: PerCore<Counter> = PerCore::new(2);
/// packets.of(0).add(32);
/// packets.of(1).add(10);
/// assert_eq!(packets.sum(), 42);
/// ```
#[derive(Debug)]
pub struct PerCore<T> {
    cells: Box<[CachePadded<T>]>,
}

impl<T: Default> PerCore<T> {
    /// Default cells for `cores` cores.
    pub fn new(cores: usize) -> Self {
        Self::from_fn(cores, |_| T::default())
    }
}

impl<T> PerCore<T> {
    /// A cell made by `make` for each core number.
    pub fn from_fn(cores: usize, mut make: impl FnMut(usize) -> T) -> Self {
        Self { cells: (0..cores).map(|core| CachePadded::new(make(core))).collect() }
    }

    /// The cell of `core`.
    ///
    /// # Panics
    /// When there is no such core.
    #[inline]
    pub fn of(&self, core: usize) -> &T {
        &self.cells[core]
    }

    /// The cell of `core`, exclusively.
    ///
    /// # Panics
    /// When there is no such core.
    #[inline]
    pub fn of_mut(&mut self, core: usize) -> &mut T {
        &mut self.cells[core]
    }

    /// How many cores.
    pub fn cores(&self) -> usize {
        self.cells.len()
    }

    /// All cells, by core.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.cells.iter().map(|cell| &**cell)
    }
}

impl PerCore<Counter> {
    /// The total over all cores; wraps like its parts.
    pub fn sum(&self) -> u64 {
        self.iter().map(Counter::get).fold(0, u64::wrapping_add)
    }
}

/// A count that one thread at a time writes and any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

crate::all_zero!(Counter { 0 });

impl Counter {
    /// Adds `count`. A load and a store, no read-modify-write: if two threads add at once, one addition may be lost.
    #[inline(always)]
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// The count now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the count, for its owner: what a `reset` handler does.
    #[inline]
    pub fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_apart_and_sum_up() {
        let cells: PerCore<Counter> = PerCore::new(3);
        let address = |core| std::ptr::from_ref(cells.of(core)) as usize;
        assert!(address(1) - address(0) >= 64 && address(2) - address(1) >= 64);
        std::thread::scope(|scope| {
            for core in 0..3 {
                let cells = &cells;
                scope.spawn(move || (0..1000).for_each(|_| cells.of(core).add(core as u64)));
            }
        });
        assert_eq!((cells.sum(), cells.cores()), (3000, 3));
        cells.of(2).set(u64::MAX);
        assert_eq!(cells.sum(), 999, "sums wrap");
        let mut own = PerCore::from_fn(2, |core| vec![core]);
        own.of_mut(1).push(7);
        assert_eq!(own.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
    }
}
