// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers by which packets are followed: few, and shared by all who follow any.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use packet::followed::NUMBERS;

/// Those that packets have at the moment, a bit for each; none is 0.
static TAKEN: AtomicU8 = AtomicU8::new(1);
/// Those of packets that were still somewhere when the session that followed them ended.
static LEFT: AtomicU8 = AtomicU8::new(0);
/// These packets, by number and id, as far as is known.
static STRAYS: Mutex<Vec<(u8, usize)>> = Mutex::new(Vec::new());
/// How many follow packets.
static USERS: Mutex<usize> = Mutex::new(0);

const _: () = assert!(NUMBERS == 7, "a bit of TAKEN for each");

/// Takes numbers, and knows which are its own.
pub struct Numbers {
    mine: AtomicU8,
}

impl Numbers {
    /// For who wants so many at a time. Numbers of packets that were held when those who followed them ended are given out again
    /// when nobody else follows any, and too few are left.
    pub fn new(wanted: u32) -> Numbers {
        let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        if *users == 0 && TAKEN.load(Relaxed).count_zeros() < wanted {
            TAKEN.store(1, Relaxed);
            LEFT.store(0, Relaxed);
            strays().clear();
        }
        *users += 1;
        Numbers { mine: AtomicU8::new(0) }
    }

    /// A number that nobody has, or 0 if there is none.
    pub fn take(&self) -> u8 {
        let free = |taken: u8| (taken != u8::MAX).then(|| taken | 1 << taken.trailing_ones());
        let Ok(before) = TAKEN.fetch_update(Relaxed, Relaxed, free) else { return 0 };
        let number = before.trailing_ones() as u8;
        self.mine.fetch_or(1 << number, Relaxed);
        number
    }

    /// Whether none is left to take.
    pub fn are_all_taken() -> bool {
        TAKEN.load(Relaxed) == u8::MAX
    }

    /// How many numbers belong to others who follow packets, and how many to packets that were still somewhere when their session ended.
    pub fn elsewhere(&self) -> (u32, u32) {
        let (others, left) = (TAKEN.load(Relaxed) & !self.mine() & !1, LEFT.load(Relaxed));
        ((others & !left).count_ones(), (others & left).count_ones())
    }

    /// A packet's last copy has come to its end.
    pub fn give(&self, number: u8) {
        self.mine.fetch_and(!(1 << number), Relaxed);
        TAKEN.fetch_and(!(1 << number), Relaxed);
    }

    /// Those of its own, a bit for each.
    pub fn mine(&self) -> u8 {
        self.mine.load(Relaxed)
    }

    /// Whether it is one of its own, which 0 is not.
    pub fn has(&self, number: u8) -> bool {
        self.mine() & 1 << number != 0
    }

    /// Gives all back but those of packets that are still somewhere, which are passed by number and id. Each of these is given back when it
    /// is [found](Numbers::meet) that its packet has gone.
    pub fn end(&self, kept: impl Iterator<Item = (u8, usize)>) {
        let mut strays = strays();
        let before = strays.len();
        strays.extend(kept);
        let kept = strays[before..].iter().fold(0, |kept: u8, (number, _)| kept | 1 << number);
        (1..=NUMBERS).filter(|n| kept & 1 << n == 0 && self.has(*n)).for_each(|n| self.give(n));
        LEFT.fetch_or(self.mine(), Relaxed);
    }

    /// Whether packets are somewhere that nobody follows any more.
    #[inline]
    pub fn are_some_left() -> bool {
        LEFT.load(Relaxed) != 0
    }

    /// A packet with this id was seen, with its number if it has one, and whether it ended there. An earlier packet that had the id under
    /// another number has gone unseen. A number that no packet has any more is given back.
    pub fn meet(number: u8, id: usize, ends: bool) {
        let left = LEFT.load(Relaxed);
        let mut strays = strays();
        strays.retain(|(n, i)| *i != id || (*n == number && !ends));
        // A copy of one.
        if !ends && left & 1 << number != 0 && !strays.contains(&(number, id)) {
            strays.push((number, id));
        }
        let still = strays.iter().fold(0, |still: u8, (number, _)| still | 1 << number);
        let gone = left & !still;
        LEFT.fetch_and(!gone, Relaxed);
        TAKEN.fetch_and(!gone, Relaxed);
    }
}

fn strays() -> MutexGuard<'static, Vec<(u8, usize)>> {
    STRAYS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Numbers {
    fn drop(&mut self) {
        *USERS.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_that_stays_takes_only_its_own_number() {
        let first = Numbers::new(7);
        let numbers: Vec<u8> = (0..7).map(|_| first.take()).collect();
        assert_eq!((numbers, first.take()), ((1..=7).collect(), 0));
        first.end([(1, 10), (1, 11), (2, 20), (3, 30), (4, 40)].into_iter());
        drop(first);

        let second = Numbers::new(1);
        assert_eq!((second.elsewhere(), second.take()), ((0, 4), 5));
        assert!(Numbers::are_some_left());
        // One ends where it is seen, of another only one copy does; the third's frame has a new packet.
        Numbers::meet(2, 20, true);
        Numbers::meet(1, 10, true);
        Numbers::meet(0, 30, false);
        // The fourth goes on, and its copy ends.
        Numbers::meet(4, 40, false);
        Numbers::meet(4, 41, false);
        Numbers::meet(4, 40, true);
        assert_eq!(second.elsewhere(), (0, 2));
        assert_eq!([second.take(), second.take(), second.take()], [2, 3, 6]);
        Numbers::meet(5, 41, false);
        Numbers::meet(1, 11, true);
        assert_eq!((second.elsewhere(), Numbers::are_some_left()), ((0, 0), false));
        assert_eq!([second.take(), second.take()], [1, 4]);
        // Its own are not given back by this.
        Numbers::meet(2, 20, true);
        assert!(second.has(2));
        second.end(std::iter::empty());
    }
}
