// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which addresses a table may know, and whether it is crowded with those it does not: asked without its lock.
//!
//! A Bloom filter with one hash function (Bloom, 1970): a bit for each of 2^16 hashes, set when an address is noted. Who holds the
//! table's lock writes; others read, and may be late: then they take for unknown what has just become known, and hear better
//! when they bring the packet to the table. Bits of addresses that were forgotten stay until there are many of those.

use super::Address;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const WORDS: usize = 1024;
/// Addresses forgotten before the bits are set anew.
const FORGOTTEN: u64 = 4096;

pub(super) struct Filter {
    words: Box<[AtomicU64; WORDS]>,
    forgotten: AtomicU64,
    crowded: AtomicBool,
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Filter")
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            words: Box::new([const { AtomicU64::new(0) }; WORDS]),
            forgotten: AtomicU64::new(0),
            crowded: AtomicBool::new(false),
        }
    }
}

#[inline]
fn place<A: Address>(ip: A) -> (usize, u64) {
    let hash = ip.word().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48;
    (hash as usize / 64, 1 << (hash % 64))
}

impl Filter {
    /// Whether neighbours without an answer take most of their room.
    #[inline]
    pub(super) fn crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed)
    }

    /// Says so.
    #[inline]
    pub(super) fn crowd(&self, crowded: bool) {
        if self.crowded() != crowded {
            self.crowded.store(crowded, Ordering::Relaxed);
        }
    }

    /// Whether `ip` may be known; if not, it is not.
    #[inline]
    pub(super) fn may_hold<A: Address>(&self, ip: A) -> bool {
        let (word, bit) = place(ip);
        self.words[word].load(Ordering::Relaxed) & bit != 0
    }

    /// Notes an address. The table's lock is held, so nobody else writes.
    pub(super) fn note<A: Address>(&self, ip: A) {
        let (word, bit) = place(ip);
        let old = self.words[word].load(Ordering::Relaxed);
        if old & bit == 0 {
            self.words[word].store(old | bit, Ordering::Relaxed);
        }
    }

    /// Notes that an address is no longer known; says whether it is time to [`rebuild`](Self::rebuild).
    pub(super) fn forget(&self) -> bool {
        let forgotten = self.forgotten.load(Ordering::Relaxed) + 1;
        self.forgotten.store(forgotten, Ordering::Relaxed);
        forgotten >= FORGOTTEN
    }

    /// Sets the bits of these addresses and no others. No bit that stays is ever seen unset.
    pub(super) fn rebuild<A: Address>(&self, known: impl Iterator<Item = A>) {
        let mut words = vec![0u64; WORDS];
        for ip in known {
            let (word, bit) = place(ip);
            words[word] |= bit;
        }
        for (word, new) in self.words.iter().zip(words) {
            word.store(new, Ordering::Relaxed);
        }
        self.forgotten.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_misses_what_was_noted_and_forgets_by_rebuilding() {
        let filter = Filter::default();
        let known = |i: u32| 0x0a00_0000 + i * 7;
        assert!(!filter.may_hold(known(0)));
        (0..2000).for_each(|i| filter.note(known(i)));
        assert!((0..2000).all(|i| filter.may_hold(known(i))));
        let others = (0..10_000).filter(|i| filter.may_hold(0xc0a8_0000u32 + i)).count();
        assert!(others < 1000, "{others} of 10000 held by mistake");
        let mut due = 0;
        while !filter.forget() {
            due += 1;
        }
        assert_eq!(due, FORGOTTEN - 1);
        filter.rebuild((0..10).map(known));
        assert!((0..10).all(|i| filter.may_hold(known(i))));
        assert!((10..2000).filter(|i| filter.may_hold(known(*i))).count() < 20);
        assert!(!filter.forget());
    }
}
