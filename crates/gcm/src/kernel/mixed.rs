// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rounds of AES and products of GHASH, interleaved by hand.
//!
//! They use different ports of the processor. It takes instructions in their order and holds about a hundred that wait for operands,
//! so the two streams must be mixed finely in the code: after each round of all states comes one product.

use core::arch::x86_64::*;

use super::ghash::Sum;
use super::key::Key;
use super::vector::{broadcast, last_round, round};

/// Ciphertext of a group (or its additional data) that waits for its products: `K` vectors, bytes reversed, of each of `P` packets.
#[derive(Clone, Copy)]
pub(super) struct Hashed<'a, const P: usize, const K: usize> {
    pub(super) keys: [&'a Key; P],
    pub(super) data: [[__m512i; K]; P],
    /// The power of H for the first block, if the group is the last one of its packet. In other groups each vector gets the same power in all lanes.
    pub(super) first: [usize; P],
}

impl<const P: usize, const K: usize> Hashed<'_, P, K> {
    /// Adds the product of the `at`th vector of all; nothing after the last one.
    ///
    /// # Safety
    /// With `LAST`, the powers in `first` exist.
    #[inline(always)]
    unsafe fn add<const LAST: bool>(&self, sums: &mut [Sum; P], at: usize) {
        // SAFETY: the caller has the features, and says the rest.
        unsafe {
            if at < P * K {
                // The vector with the hash so far comes last, for it may still be on its way through the reduction.
                let (p, v) = (at / K, (at % K + 1) % K);
                let key = self.keys[p];
                let powers = if LAST { key.powers(self.first[p] - 4 * v) } else { key.power_of_all(K - v) };
                // Without a pin between them, two products of a packet are added by one instruction.
                if at.is_multiple_of(2) && v != 0 {
                    sums[p].add(self.data[p][v], powers);
                } else {
                    sums[p].add_here(self.data[p][v], powers);
                }
            }
        }
    }

    /// All products.
    ///
    /// # Safety
    /// With `LAST`, the powers in `first` exist.
    #[inline(always)]
    pub(super) unsafe fn sums<const LAST: bool>(&self) -> [Sum; P] {
        // SAFETY: the caller has the features, and says the rest.
        unsafe {
            let mut sums = [Sum::zero(); P];
            for at in 0..P * K {
                self.add::<LAST>(&mut sums, at);
            }
            sums
        }
    }
}

/// All rounds but the whitening, which [`super::vector::counters`] has done.
#[inline(always)]
pub(super) unsafe fn rounds<const P: usize, const K: usize, const R: usize>(
    keys: &[&Key; P],
    states: &mut [[__m512i; K]; P],
) {
    // SAFETY: the caller has the features.
    unsafe {
        for r in 1..R {
            one_round(keys, states, r);
        }
        end(keys, states, R);
    }
}

#[inline(always)]
unsafe fn one_round<const P: usize, const K: usize>(
    keys: &[&Key; P],
    states: &mut [[__m512i; K]; P],
    r: usize,
) {
    // SAFETY: the caller has the features.
    unsafe {
        for p in 0..P {
            round(&mut states[p], broadcast(keys[p].round(r)));
        }
    }
}

#[inline(always)]
unsafe fn end<const P: usize, const K: usize>(keys: &[&Key; P], states: &mut [[__m512i; K]; P], r: usize) {
    // SAFETY: the caller has the features.
    unsafe {
        for p in 0..P {
            last_round(&mut states[p], broadcast(keys[p].round(r)));
        }
    }
}

/// All rounds, and meanwhile the products of at most nine vectors.
///
/// # Safety
/// With `LAST`, the powers in `first` exist.
#[inline(always)]
pub(super) unsafe fn rounds_and_sums<
    const P: usize,
    const K: usize,
    const HP: usize,
    const HK: usize,
    const R: usize,
    const LAST: bool,
>(
    keys: &[&Key; P],
    states: &mut [[__m512i; K]; P],
    hashed: &Hashed<'_, HP, HK>,
) -> [Sum; HP] {
    // SAFETY: the caller has the features, and says the rest.
    unsafe {
        const { assert!(HP * HK <= 9 && R >= 10) };
        let mut sums = [Sum::zero(); HP];
        // Written out, so that each index is a constant and all sums stay in registers.
        macro_rules! steps {
            ($($r:literal)*) => {
                $(
                    one_round(keys, states, $r);
                    hashed.add::<LAST>(&mut sums, $r - 1);
                )*
            };
        }
        steps!(1 2 3 4 5 6 7 8 9);
        for r in 10..R {
            one_round(keys, states, r);
        }
        end(keys, states, R);
        sums
    }
}
