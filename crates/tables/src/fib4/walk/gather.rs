// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lookup by AVX-512: sixteen addresses at a time, for processors with a vector population count.
//!
//! Slots change while they are read, so each is loaded by itself, in order (Acquire), and its object's first line asked for. From
//! there on nothing that is read is being written, and the rest goes by four gathers for sixteen addresses.
//!
//! A processor may have the instructions and yet be slow at them: those with the leak of CVE-2022-40982 got gathers that are
//! several times slower. So both ways are timed, once.

use std::arch::x86_64::*;
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::{LEAF_LINES, LINE_BYTES, Level, Walk};
use crate::fib4::encode;
use sync::lines::{Line, Lines};
use sync::prefetch::prefetch;

/// Addresses whose slots are read before the first object is.
const STEP: usize = 64;
/// Addresses in a vector.
const LANES: usize = 16;
/// Gathers take their offsets as signed, so these are this much smaller, and counted from this far behind the slab's start.
const BIAS: u32 = 1 << 31;

/// Whether the processor has the instructions, and gathers by them faster than one by one.
pub(super) fn pays() -> bool {
    static PAYS: OnceLock<bool> = OnceLock::new();
    *PAYS.get_or_init(|| is_available() && measure().unwrap_or(false))
}

/// Whether the processor has the instructions.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vpopcntdq")
}

/// Looks up the same addresses both ways; whether gathers take less time. `None` without memory.
fn measure() -> Option<bool> {
    // Zeros are a complete object, and all slots name it.
    let walk = Walk::with_level(Lines::zeroed(1).ok()?, 0, Level::Avx2);
    let addrs: [u32; STEP] = std::array::from_fn(|at| (at as u32) << 20);
    let mut out = [0; STEP];
    let mut best = [u128::MAX; 2];
    for round in 0..16 {
        let start = Instant::now();
        for _ in 0..16 {
            // SAFETY: whoever has AVX-512 has the instructions of both, and nobody changes the table.
            unsafe {
                match round % 2 {
                    0 => walk.batches_avx2(black_box(&addrs), &mut out),
                    _ => walk.batches_avx512(black_box(&addrs), &mut out),
                }
            }
            black_box(&out);
        }
        let spent = &mut best[round % 2];
        *spent = start.elapsed().as_nanos().min(*spent);
    }
    Some(best[1] < best[0])
}

impl Walk {
    /// # Safety
    /// As [`lookup`](Self::lookup), on a processor that has the features.
    #[target_feature(enable = "popcnt,bmi1,bmi2,avx2,avx512f,avx512vpopcntdq")]
    pub(super) unsafe fn batches_avx512(&self, addrs: &[u32], out: &mut [u32]) {
        for (addrs, out) in addrs.chunks(STEP).zip(out.chunks_mut(STEP)) {
            let mut objects = [0; STEP];
            for (object, addr) in objects.iter_mut().zip(addrs) {
                *object = self.slots[(addr >> 16) as usize].load(Ordering::Acquire);
                // SAFETY: (a).
                prefetch(unsafe { &*self.at(*object).cast::<Line>() });
            }
            let (objects, _) = objects.as_chunks();
            for ((objects, addrs), out) in objects.iter().zip(addrs.chunks(LANES)).zip(out.chunks_mut(LANES))
            {
                // SAFETY: (a); (c) by the caller; the chunks are of one length.
                unsafe { self.vector(objects, addrs, out) };
            }
        }
    }

    /// Answers for up to [`LANES`] addresses with their objects.
    ///
    /// # Safety
    /// As [`batches_avx512`](Self::batches_avx512); both slices have the same length, which is not zero; the slots of these
    /// addresses named these objects.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vpopcntdq")]
    unsafe fn vector(&self, objects: &[u32; LANES], addrs: &[u32], out: &mut [u32]) {
        debug_assert!(addrs.len() == out.len() && (1..=LANES).contains(&addrs.len()));
        let lanes = u16::MAX >> (LANES - addrs.len());
        // SAFETY: of either slice no more lanes are touched than it has; (a), (b) and (c) for the gathers.
        unsafe {
            let addrs = _mm512_maskz_loadu_epi32(lanes, addrs.as_ptr().cast());
            let objects = _mm512_loadu_epi32(objects.as_ptr().cast());
            let objects = _mm512_sub_epi32(objects, _mm512_set1_epi32(BIAS.cast_signed()));
            let mut leaves = self.leaves(lanes, objects, _mm512_srli_epi32::<8>(addrs));
            let divided = _mm512_mask_cmplt_epi32_mask(lanes, leaves, _mm512_set1_epi32(-1));
            if divided != 0 {
                // The next levels of the same objects (b).
                let lines = _mm512_and_epi32(leaves, _mm512_set1_epi32(LEAF_LINES.cast_signed()));
                let lower = _mm512_slli_epi32::<{ LINE_BYTES.trailing_zeros() }>(lines);
                let lower = self.leaves(divided, _mm512_add_epi32(objects, lower), addrs);
                leaves = _mm512_mask_mov_epi32(leaves, divided, lower);
            }
            _mm512_mask_storeu_epi32(out.as_mut_ptr().cast(), lanes, leaves);
        }
    }

    /// The leaves, signs spread, that levels of objects have for the entries that the lowest octets of `bits` name, in these lanes.
    ///
    /// # Safety
    /// In these lanes a level of an object begins at each of `levels` and [`BIAS`], complete (a) and not being written (c).
    #[inline]
    #[target_feature(enable = "avx512f,avx512vpopcntdq")]
    unsafe fn leaves(&self, lanes: __mmask16, levels: __m512i, bits: __m512i) -> __m512i {
        let base = self.lines.as_ptr().cast::<u8>().wrapping_add(BIAS as usize);
        let zero = _mm512_setzero_si512();
        // Which word of run starts, and how far left to shift it: see `word` and `shift`.
        let words = _mm512_and_epi32(_mm512_srli_epi32::<6>(bits), _mm512_set1_epi32(3));
        let starts = _mm512_add_epi32(levels, _mm512_slli_epi32::<3>(words));
        let shifts = _mm512_andnot_epi32(bits, _mm512_set1_epi32(63));
        let counts = base.wrapping_add(encode::COUNTS_WORD * 8);
        // SAFETY: the head of a level, within the slab (a), and no concurrent store (c). A gather touches the given lanes only.
        let (low, high, counts) = unsafe {
            let low = _mm512_castsi512_si256(starts);
            let high = _mm512_extracti64x4_epi64::<1>(starts);
            (
                _mm512_mask_i32gather_epi64::<1>(zero, lanes as __mmask8, low, base.cast()),
                _mm512_mask_i32gather_epi64::<1>(zero, (lanes >> 8) as __mmask8, high, base.cast()),
                _mm512_mask_i32gather_epi32::<1>(zero, lanes, levels, counts.cast()),
            )
        };
        let low_shifts = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(shifts));
        let high_shifts = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64::<1>(shifts));
        let low = _mm512_popcnt_epi64(_mm512_sllv_epi64(low, low_shifts));
        let high = _mm512_popcnt_epi64(_mm512_sllv_epi64(high, high_shifts));
        let within = _mm512_castsi256_si512(_mm512_cvtepi64_epi32(low));
        let within = _mm512_inserti64x4::<1>(within, _mm512_cvtepi64_epi32(high));
        let before = _mm512_srlv_epi32(counts, _mm512_slli_epi32::<3>(words));
        let before = _mm512_and_epi32(before, _mm512_set1_epi32(0xff));
        let runs = _mm512_add_epi32(before, within);
        let places = _mm512_add_epi32(levels, _mm512_slli_epi32::<1>(runs));
        // With the two bytes before it, which are the level's too, so that the leaf comes to lie in the upper half.
        let leaves = base.wrapping_add(2 * encode::FIRST_LEAF_HALF as usize - 2);
        // SAFETY: within the level (b), and no concurrent store (c).
        let pairs = unsafe { _mm512_mask_i32gather_epi32::<1>(zero, lanes, places, leaves.cast()) };
        _mm512_srai_epi32::<16>(pairs)
    }
}
