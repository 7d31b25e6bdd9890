// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last group of `P` packets: its text, its hash, the lengths, the tag.

use core::arch::x86_64::*;

use super::ghash::{Sum, lengths, totals};
use super::key::Key;
use super::mixed::Hashed;
use super::vector::{ones, reversal, reversed};
use crate::Job;
use crate::key::Inner;

/// The key of a job of this kernel.
///
/// # Safety
/// It is one.
#[inline]
pub(super) unsafe fn key_of<'a>(job: &Job<'a>) -> &'a Key {
    match &job.key.inner {
        Inner::Wide(key) => key,
        // SAFETY: the caller says so.
        Inner::Portable(_) => unsafe { core::hint::unreachable_unchecked() },
    }
}

/// The last groups of `P` packets, each of `K` vectors.
pub(super) struct Last<'a, 'j, const P: usize, const K: usize> {
    jobs: [&'j mut Job<'a>; P],
    /// The ciphertext, once [`Self::load`] or [`Self::apply_sealing`] have run.
    pub(super) hashed: Hashed<'a, P, K>,
    before: [__m512i; P],
    /// The vector of the text with which the group begins.
    begin: usize,
    /// E(J0) in each packet's lane 0.
    tag_masks: [__m128i; P],
}

impl<'a, 'j, const P: usize, const K: usize> Last<'a, 'j, P, K> {
    /// The groups that begin at vector `begin`, after what has the hash `before`.
    ///
    /// # Safety
    /// Only that of all functions with vectors.
    #[inline(always)]
    pub(super) unsafe fn new(
        jobs: [&'j mut Job<'a>; P],
        keys: [&'a Key; P],
        begin: usize,
        before: [__m512i; P],
    ) -> Self {
        // SAFETY: the caller has the features.
        unsafe {
            let data = [[_mm512_setzero_si512(); K]; P];
            let mut first = [0; P];
            for p in 0..P {
                // The last block of the text gets H^2, since the block of lengths comes after it.
                first[p] = jobs[p].text.len().div_ceil(16) + 2 - 4 * begin;
            }
            let hashed = Hashed { keys, data, first };
            Self { jobs, hashed, before, begin, tag_masks: [_mm_setzero_si128(); P] }
        }
    }

    /// Says with what the tags are masked, where the group is not the first one.
    #[inline(always)]
    pub(super) fn set_tag_masks(&mut self, masks: [__m128i; P]) {
        self.tag_masks = masks;
    }

    /// The address of a vector, which bytes of it are text, and whether that is not all.
    #[inline(always)]
    fn place<const FIRST: bool>(&mut self, p: usize, v: usize) -> (*mut u8, u64, bool) {
        let vector = self.begin + v;
        let text = &mut *self.jobs[p].text;
        let mut mask = if v == K - 1 { ones(text.len() + 16 - 64 * vector) } else { u64::MAX };
        if FIRST && v == 0 {
            mask &= u64::MAX << 16;
        }
        let place = text.as_mut_ptr().wrapping_add(64 * vector).wrapping_sub(16);
        (place, mask, (FIRST && v == 0) || v == K - 1)
    }

    #[inline(always)]
    unsafe fn hash(&mut self, p: usize, v: usize, ciphertext: __m512i) {
        // SAFETY: the caller has the features.
        unsafe {
            let data = reversed(ciphertext);
            self.hashed.data[p][v] = if v == 0 { _mm512_xor_si512(data, self.before[p]) } else { data };
        }
    }

    /// Loads the ciphertext that is to be opened.
    ///
    /// # Safety
    /// The texts take `K` vectors from `begin`; `FIRST` says that this is 0.
    #[inline(always)]
    pub(super) unsafe fn load<const FIRST: bool>(&mut self, aad: &[__m512i; P]) {
        // SAFETY: the caller has the features, and says the rest.
        unsafe {
            for p in 0..P {
                for v in 0..K {
                    let (place, mask, masked) = self.place::<FIRST>(p, v);
                    let other = if FIRST && v == 0 { aad[p] } else { _mm512_setzero_si512() };
                    // The mask leaves out what is before the text (in vector 0) and behind it (in the last one); other vectors lie inside.
                    let text = load(place, mask, masked, other);
                    self.hash(p, v, text);
                }
            }
        }
    }

    /// Applies the key stream after [`Self::load`].
    ///
    /// # Safety
    /// As for `load`.
    #[inline(always)]
    pub(super) unsafe fn apply_opening<const FIRST: bool>(&mut self, stream: &[[__m512i; K]; P]) {
        // SAFETY: the caller has the features, and says the rest.
        unsafe {
            for p in 0..P {
                for v in 0..K {
                    let (place, mask, masked) = self.place::<FIRST>(p, v);
                    let text = load(place, mask, masked, _mm512_setzero_si512());
                    store(place, mask, masked, _mm512_xor_si512(text, stream[p][v]));
                }
                if FIRST {
                    self.tag_masks[p] = _mm512_castsi512_si128(stream[p][0]);
                }
            }
        }
    }

    /// Applies the key stream and keeps the ciphertext for the hash.
    ///
    /// # Safety
    /// As for [`Self::load`].
    #[inline(always)]
    pub(super) unsafe fn apply_sealing<const FIRST: bool>(
        &mut self,
        stream: &[[__m512i; K]; P],
        aad: &[__m512i; P],
    ) {
        // SAFETY: the caller has the features, and says the rest.
        unsafe {
            for p in 0..P {
                for v in 0..K {
                    let (place, mask, masked) = self.place::<FIRST>(p, v);
                    let other = if FIRST && v == 0 { aad[p] } else { _mm512_setzero_si512() };
                    let text = load(place, mask, masked, _mm512_setzero_si512());
                    let text = _mm512_xor_si512(text, stream[p][v]);
                    store(place, mask, masked, text);
                    let text = if masked { _mm512_mask_mov_epi8(other, mask, text) } else { text };
                    self.hash(p, v, text);
                }
                if FIRST {
                    self.tag_masks[p] = _mm512_castsi512_si128(stream[p][0]);
                }
            }
        }
    }

    /// Adds the lengths to the products of the group, and writes or compares the tags.
    #[inline(always)]
    pub(super) unsafe fn finish<const SEAL: bool>(self, mut sums: [Sum; P]) {
        // SAFETY: the caller has the features; the masks leave out what is behind a tag.
        unsafe {
            for p in 0..P {
                let job = &self.jobs[p];
                sums[p].add_here(lengths(job.aad.len(), job.text.len()), self.hashed.keys[p].power_one());
            }
            let totals = totals(sums);
            for (p, job) in self.jobs.into_iter().enumerate() {
                let tag = _mm_xor_si128(_mm_shuffle_epi8(totals[p], reversal()), self.tag_masks[p]);
                let mask = ones(job.tag.len()) as __mmask16;
                if SEAL {
                    _mm_mask_storeu_epi8(job.tag.as_mut_ptr().cast(), mask, tag);
                    job.genuine = false;
                } else {
                    let expected = _mm_maskz_loadu_epi8(mask, job.tag.as_ptr().cast());
                    job.genuine = _mm_mask_cmpneq_epi8_mask(mask, tag, expected) == 0;
                    if !job.genuine {
                        job.text.fill(0);
                    }
                }
            }
        }
    }
}

/// Loads a vector; where `mask` is not set, its bytes are those of `other`.
///
/// # Safety
/// The bytes whose bits in `mask` are set may be read; without `masked`, all.
#[inline(always)]
pub(super) unsafe fn load(place: *const u8, mask: u64, masked: bool, other: __m512i) -> __m512i {
    // SAFETY: the caller says so.
    unsafe {
        if masked {
            _mm512_mask_loadu_epi8(other, mask, place.cast())
        } else {
            _mm512_loadu_si512(place.cast())
        }
    }
}

/// Stores the bytes of a vector whose bits in `mask` are set; without `masked`, all.
///
/// # Safety
/// They may be written.
#[inline(always)]
pub(super) unsafe fn store(place: *mut u8, mask: u64, masked: bool, v: __m512i) {
    // SAFETY: the caller has the features, and says the rest.
    unsafe {
        if masked {
            _mm512_mask_storeu_epi8(place.cast(), mask, v)
        } else {
            _mm512_storeu_si512(place.cast(), v)
        }
    }
}
