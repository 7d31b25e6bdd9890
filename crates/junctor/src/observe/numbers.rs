// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers by which packets are followed: few, and shared by all who follow any.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use packet::followed::NUMBERS;

/// Those that packets have at the moment, a bit for each; none is 0.
static TAKEN: AtomicU8 = AtomicU8::new(1);
/// Those of packets that were still somewhere when whoever followed them ended.
static LEFT: AtomicU8 = AtomicU8::new(0);
/// How many follow packets.
static USERS: Mutex<usize> = Mutex::new(0);

const _: () = assert!(NUMBERS == 7, "a bit of TAKEN for each");

/// Takes numbers, and knows which are its own.
pub(crate) struct Numbers {
    mine: AtomicU8,
}

impl Numbers {
    /// For who wants so many at a time. Numbers of packets that were held when those who followed them ended are given out again
    /// when nobody else follows any, and too few are left.
    pub(crate) fn new(wanted: u32) -> Numbers {
        let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        if *users == 0 && TAKEN.load(Relaxed).count_zeros() < wanted {
            TAKEN.store(1, Relaxed);
            LEFT.store(0, Relaxed);
        }
        *users += 1;
        Numbers { mine: AtomicU8::new(0) }
    }

    /// A number that nobody has, or 0 if there is none.
    pub(crate) fn take(&self) -> u8 {
        let free = |taken: u8| (taken != u8::MAX).then(|| taken | 1 << taken.trailing_ones());
        let Ok(before) = TAKEN.fetch_update(Relaxed, Relaxed, free) else { return 0 };
        let number = before.trailing_ones() as u8;
        self.mine.fetch_or(1 << number, Relaxed);
        number
    }

    /// Whether none is left to take.
    pub(crate) fn are_all_taken() -> bool {
        TAKEN.load(Relaxed) == u8::MAX
    }

    /// How many others have who follow packets, and how many are of packets that were still somewhere when whoever followed them ended.
    pub(crate) fn elsewhere(&self) -> (u32, u32) {
        let (others, left) = (TAKEN.load(Relaxed) & !self.mine() & !1, LEFT.load(Relaxed));
        ((others & !left).count_ones(), (others & left).count_ones())
    }

    /// A packet's last copy has come to its end.
    pub(crate) fn give(&self, number: u8) {
        self.mine.fetch_and(!(1 << number), Relaxed);
        TAKEN.fetch_and(!(1 << number), Relaxed);
    }

    /// Those of its own, a bit for each.
    pub(crate) fn mine(&self) -> u8 {
        self.mine.load(Relaxed)
    }

    /// Whether it is one of its own, which 0 is not.
    pub(crate) fn has(&self, number: u8) -> bool {
        self.mine() & 1 << number != 0
    }

    /// Gives all back but those of packets that are still somewhere.
    pub(crate) fn end(&self, kept: impl Iterator<Item = u8>) {
        let kept = kept.fold(0, |kept: u8, number| kept | 1 << number);
        (1..=NUMBERS).filter(|n| kept & 1 << n == 0 && self.has(*n)).for_each(|n| self.give(n));
        LEFT.fetch_or(self.mine(), Relaxed);
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        *USERS.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
    }
}
