// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of more than one group, one at a time.
//!
//! The products of a group run during its own rounds when opening, and during the rounds of the next group when sealing. The products of
//! a packet's last group run during the rounds of the next packet's first group then.

use core::arch::x86_64::*;

use super::GROUP;
use super::ghash::additional;
use super::key::Key;
use super::last::{Last, key_of, load, store};
use super::mixed::{Hashed, rounds, rounds_and_sums};
use super::vector::{counters, reversed};
use crate::Job;

/// Does the jobs at `order`.
///
/// # Safety
/// The processor has the features. The keys are of this kernel and have `R` rounds, the texts take more than `LONGEST` vectors and `K` in their last group, and
/// the indices are different and in range.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
pub(super) unsafe fn run<const K: usize, const R: usize, const SEAL: bool>(
    jobs: &mut [Job<'_>],
    order: &[u8],
) {
    let jobs = jobs.as_mut_ptr();
    // SAFETY: as the caller says; no job is borrowed twice.
    unsafe {
        if !SEAL {
            for at in order {
                open::<K, R>(&mut *jobs.add(usize::from(*at)));
            }
            return;
        }
        let mut pending: Option<Last<'_, '_, 1, K>> = None;
        for at in order {
            pending = Some(seal::<K, R>(&mut *jobs.add(usize::from(*at)), pending));
        }
        if let Some(pending) = pending {
            let sums = pending.hashed.sums::<true>();
            pending.finish::<true>(sums);
        }
    }
}

/// A full group's place in the text, and what stands in its vector 0 instead of text.
#[derive(Clone, Copy)]
struct Group {
    place: *mut u8,
    /// Which bytes of the first vector are text.
    mask: u64,
    aad: __m512i,
}

impl Group {
    #[inline(always)]
    fn first(job: &mut Job<'_>, aad: __m512i) -> Self {
        Self { place: job.text.as_mut_ptr().wrapping_sub(16), mask: u64::MAX << 16, aad }
    }

    #[inline(always)]
    fn next(self) -> Self {
        Self { place: self.place.wrapping_add(64 * GROUP), mask: u64::MAX, aad: self.aad }
    }

    /// The ciphertext that is to be opened.
    ///
    /// # Safety
    /// The group lies in the text but for what its mask leaves out.
    #[inline(always)]
    unsafe fn ciphertext(&self) -> [__m512i; GROUP] {
        // SAFETY: the caller has the features, and says the rest.
        unsafe {
            let mut data = [_mm512_setzero_si512(); GROUP];
            for v in 0..GROUP {
                data[v] = load(self.place.wrapping_add(64 * v), self.mask, v == 0, self.aad);
            }
            data
        }
    }

    /// Applies the key stream, and returns the result.
    ///
    /// # Safety
    /// As for `ciphertext`.
    #[inline(always)]
    unsafe fn apply(&self, stream: &[__m512i; GROUP]) -> [__m512i; GROUP] {
        // SAFETY: the caller has the features, and says the rest.
        unsafe {
            let mut data = [_mm512_setzero_si512(); GROUP];
            for v in 0..GROUP {
                let place = self.place.wrapping_add(64 * v);
                let text = load(place, self.mask, v == 0, _mm512_setzero_si512());
                data[v] = _mm512_xor_si512(text, stream[v]);
                store(place, self.mask, v == 0, data[v]);
                if v == 0 {
                    data[v] = _mm512_mask_mov_epi8(self.aad, self.mask, data[v]);
                }
            }
            data
        }
    }
}

/// A full group's ciphertext, after what has the hash `before`, for products.
///
/// # Safety
/// Only that of all functions with vectors.
#[inline(always)]
unsafe fn hashed(key: &Key, ciphertext: [__m512i; GROUP], before: __m512i) -> Hashed<'_, 1, GROUP> {
    // SAFETY: the caller has the features.
    unsafe {
        let mut data = ciphertext;
        for v in 0..GROUP {
            data[v] = reversed(data[v]);
        }
        data[0] = _mm512_xor_si512(data[0], before);
        Hashed { keys: [key], data: [data], first: [0] }
    }
}

/// Seals a packet but for the hash of its last group, and ends the packet before it.
///
/// # Safety
/// As for [`run`].
#[inline(always)]
unsafe fn seal<'a, 'j, const K: usize, const R: usize>(
    job: &'j mut Job<'a>,
    pending: Option<Last<'a, 'j, 1, K>>,
) -> Last<'a, 'j, 1, K> {
    // SAFETY: the caller has the features; each group but the last one has eight vectors that lie in the text, and the last one has K, as the caller says.
    unsafe {
        let key = key_of(job);
        let (mut hash, aad) = additional(key, job.aad);
        let mut group = Group::first(job, aad);
        let mut states = [counters::<GROUP>(key, &job.counter, 0)];
        if let Some(pending) = pending {
            let sums = rounds_and_sums::<1, GROUP, 1, K, R, true>(&[key], &mut states, &pending.hashed);
            pending.finish::<true>(sums);
        } else {
            rounds::<1, GROUP, R>(&[key], &mut states);
        }
        let mut ciphertext = group.apply(&states[0]);
        let tag_mask = _mm512_castsi512_si128(states[0][0]);
        let groups = (super::vectors(job.text.len()) - 2) / GROUP;
        for number in 1..groups {
            let mut states = [counters::<GROUP>(key, &job.counter, number as u32)];
            let hashed = hashed(key, ciphertext, hash);
            let [sum] = rounds_and_sums::<1, GROUP, 1, GROUP, R, false>(&[key], &mut states, &hashed);
            hash = sum.reduced();
            group = group.next();
            ciphertext = group.apply(&states[0]);
        }
        let mut states = [counters::<K>(key, &job.counter, groups as u32)];
        let hashed = hashed(key, ciphertext, hash);
        let [sum] = rounds_and_sums::<1, K, 1, GROUP, R, false>(&[key], &mut states, &hashed);
        let mut last = Last::new([job], [key], GROUP * groups, [sum.reduced()]);
        last.set_tag_masks([tag_mask]);
        last.apply_sealing::<false>(&states, &[aad]);
        last
    }
}

/// Opens a packet.
///
/// # Safety
/// As for [`run`].
#[inline(always)]
unsafe fn open<const K: usize, const R: usize>(job: &mut Job<'_>) {
    // SAFETY: the caller has the features; each group but the last one has eight vectors that lie in the text, and the last one has K, as the caller says.
    unsafe {
        let key = key_of(job);
        let (mut hash, aad) = additional(key, job.aad);
        let mut group = Group::first(job, aad);
        let groups = (super::vectors(job.text.len()) - 2) / GROUP;
        let mut tag_mask = _mm_setzero_si128();
        for number in 0..groups {
            let mut states = [counters::<GROUP>(key, &job.counter, number as u32)];
            let hashed = hashed(key, group.ciphertext(), hash);
            let [sum] = rounds_and_sums::<1, GROUP, 1, GROUP, R, false>(&[key], &mut states, &hashed);
            hash = sum.reduced();
            group.apply(&states[0]);
            if number == 0 {
                tag_mask = _mm512_castsi512_si128(states[0][0]);
            }
            group = group.next();
        }
        let mut states = [counters::<K>(key, &job.counter, groups as u32)];
        let mut last = Last::<1, K>::new([job], [key], GROUP * groups, [hash]);
        last.set_tag_masks([tag_mask]);
        last.load::<false>(&[aad]);
        let sums = rounds_and_sums::<1, K, 1, K, R, true>(&[key], &mut states, &last.hashed);
        last.apply_opening::<false>(&states);
        last.finish::<false>(sums);
    }
}
