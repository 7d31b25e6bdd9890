// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of one group, several at a time.
//!
//! When opening, the products of the packets in hand run during their own rounds. When sealing, the ciphertext is there only after the rounds,
//! so its products run during the rounds of the next packets.

use core::arch::x86_64::*;

use super::ghash::additional;
use super::key::Key;
use super::last::{Last, key_of};
use super::mixed::{rounds, rounds_and_sums};
use super::vector::counters;
use crate::Job;

/// Does the jobs at `order`, `P` at a time.
///
/// # Safety
/// The processor has the features. The keys are of this kernel and have `R` rounds, the texts take `K` vectors, and the indices are different and in range.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
pub(super) unsafe fn run<const P: usize, const K: usize, const R: usize, const SEAL: bool>(
    jobs: &mut [Job<'_>],
    order: &[u8],
) {
    let (several, rest) = order.as_chunks::<P>();
    // SAFETY: as the caller says.
    unsafe {
        if !several.is_empty() {
            groups::<P, K, R, SEAL>(jobs.as_mut_ptr(), several);
        }
        if !rest.is_empty() {
            groups::<1, K, R, SEAL>(jobs.as_mut_ptr(), rest.as_chunks().0);
        }
    }
}

/// Does groups of `P` jobs. There is at least one.
///
/// # Safety
/// As for [`run`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
unsafe fn groups<const P: usize, const K: usize, const R: usize, const SEAL: bool>(
    jobs: *mut Job<'_>,
    order: &[[u8; P]],
) {
    // SAFETY: the caller says that the indices are in range and different, so that no job is borrowed twice, and that texts take K vectors.
    unsafe {
        let pick = |at: &[u8; P]| at.map(|at| &mut *jobs.add(usize::from(at)));
        if !SEAL {
            for at in order {
                let jobs = pick(at);
                let (keys, mut states, before, aad) = start(&jobs);
                let mut last = Last::<P, K>::new(jobs, keys, 0, before);
                last.load::<true>(&aad);
                let sums = rounds_and_sums::<P, K, P, K, R, true>(&keys, &mut states, &last.hashed);
                last.apply_opening::<true>(&states);
                last.finish::<false>(sums);
            }
            return;
        }
        let Some((first, others)) = order.split_first() else { return };
        let picked = pick(first);
        let (keys, mut states, before, aad) = start(&picked);
        rounds::<P, K, R>(&keys, &mut states);
        let mut pending = Last::<P, K>::new(picked, keys, 0, before);
        pending.apply_sealing::<true>(&states, &aad);
        for at in others {
            let picked = pick(at);
            let (keys, mut states, before, aad) = start(&picked);
            let sums = rounds_and_sums::<P, K, P, K, R, true>(&keys, &mut states, &pending.hashed);
            pending.finish::<true>(sums);
            pending = Last::new(picked, keys, 0, before);
            pending.apply_sealing::<true>(&states, &aad);
        }
        let sums = pending.hashed.sums::<true>();
        pending.finish::<true>(sums);
    }
}

type Start<'a, const P: usize, const K: usize> =
    ([&'a Key; P], [[__m512i; K]; P], [__m512i; P], [__m512i; P]);

/// Keys, states before the rounds, and additional data.
///
/// # Safety
/// The keys are of this kernel.
#[inline(always)]
unsafe fn start<'a, const P: usize, const K: usize>(jobs: &[&mut Job<'a>; P]) -> Start<'a, P, K> {
    // SAFETY: the caller has the features, and says the rest.
    unsafe {
        let zero = _mm512_setzero_si512();
        let keys = jobs.each_ref().map(|job| key_of(job));
        let (mut states, mut before, mut aad) = ([[zero; K]; P], [zero; P], [zero; P]);
        for p in 0..P {
            states[p] = counters(keys[p], &jobs[p].counter, 0);
            (before[p], aad[p]) = additional(keys[p], jobs[p].aad);
        }
        (keys, states, before, aad)
    }
}
