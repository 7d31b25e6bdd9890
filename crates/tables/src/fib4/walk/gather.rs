// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lookup by AVX-512: sixteen addresses in a vector, for processors with a vector population count.
//!
//! Three gathers answer for sixteen addresses: their slots, the groups of run starts, the leaves. Each step is taken for up to 64 addresses
//! before the next one, so that the cache misses of all of them overlap; nothing is asked for ahead.
//!
//! *Slots change while they are read*, which no ordinary load may meet. So they are gathered by an instruction that the compiler cannot see into
//! ([`slots`]). To the processor it is sixteen loads of aligned words, each of which is one access, in any order among themselves. Towards other
//! instructions, a gather follows the ordering of ordinary loads (Intel SDM, VPGATHERDD). So a load behind it that depends on its result is as new as
//! that result: the Acquire that the parent's ordering argument asks for. From there on nothing that is read is being written.
//!
//! A processor may have the instructions and yet be slow at them: those with the leak of CVE-2022-40982 got gathers that are
//! several times slower. So both ways are timed, once.

use std::arch::asm;
use std::arch::x86_64::*;
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

use super::{LEAF_LINES, LINE_BYTES, Level, STARTS, Walk};
use crate::fib4::encode::{FIRST_LEAF, GROUP};
use sync::lines::Lines;

/// Addresses in a vector.
const LANES: usize = 16;
/// All lanes of a vector.
const ALL: __mmask16 = __mmask16::MAX;
/// Vectors that go step by step together.
const WIDE: usize = 4;
/// The same for what is left.
const NARROW: usize = 2;
/// Gathers take their offsets as signed, so these are this much smaller, and counted from this far behind the slab's start.
const BIAS: u32 = 1 << 31;

const _: () = assert!(GROUP == 16, "a group is found by four bits");

/// Whether the processor has the instructions, and gathers by them faster than one by one.
pub(super) fn pays() -> bool {
    static PAYS: OnceLock<bool> = OnceLock::new();
    *PAYS.get_or_init(|| is_available() && measure().unwrap_or(false))
}

/// Whether the processor has the instructions.
pub(super) fn is_available() -> bool {
    !cfg!(miri) && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vpopcntdq")
}

/// Looks up the same addresses both ways; whether gathers take less time. `None` without memory.
fn measure() -> Option<bool> {
    // Zeros are a complete object, and all slots name it.
    let walk = Walk::with_level(Lines::zeroed(1).ok()?, 0, Level::Avx2);
    let addrs: [u32; WIDE * LANES] = std::array::from_fn(|at| (at as u32) << 20);
    let mut out = [0; WIDE * LANES];
    let mut best = [u128::MAX; 2];
    for round in 0..16 {
        let start = Instant::now();
        for _ in 0..16 {
            // SAFETY: a processor with AVX-512 has the instructions of both, and nobody changes the table.
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

/// The slots of these addresses, in these lanes; zeros in the others.
///
/// # Safety
/// AVX-512.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn slots(walk: &Walk, lanes: __mmask16, addrs: __m512i) -> __m512i {
    let mut slots = _mm512_setzero_si512();
    // SAFETY: the high halves of addresses number the slots there are. The compiler forgets all that it knows of memory here, as at
    // an atomic load; what else is assumed of the instruction stands in the module's text.
    unsafe {
        asm!(
            "vpgatherdd {slots}{{{lanes}}}, [{base} + {at} * 4]",
            slots = inout(zmm_reg) slots,
            lanes = inout(kreg) lanes => _,
            base = in(reg) walk.slots.as_ptr(),
            at = in(zmm_reg) _mm512_srli_epi32::<16>(addrs),
            options(nostack, preserves_flags),
        );
    }
    slots
}

impl Walk {
    /// # Safety
    /// As [`lookup`](Self::lookup), on a processor that has the features.
    #[target_feature(enable = "popcnt,bmi1,bmi2,avx2,avx512f,avx512vpopcntdq")]
    pub(super) unsafe fn batches_avx512(&self, addrs: &[u32], out: &mut [u32]) {
        let (addrs, addrs_left) = addrs.as_chunks();
        let (out, out_left) = out.as_chunks_mut();
        // SAFETY: the caller's promise; what is left is of one length.
        unsafe {
            let (addrs, out) = self.groups::<WIDE>(addrs, out);
            let (addrs, out) = self.groups::<NARROW>(addrs, out);
            self.groups::<1>(addrs, out);
            if !addrs_left.is_empty() {
                self.part(addrs_left, out_left);
            }
        }
    }

    /// Answers for groups of `N` vectors, as many as there are; returns what is left.
    ///
    /// # Safety
    /// As [`batches_avx512`](Self::batches_avx512).
    #[inline]
    #[target_feature(enable = "avx512f,avx512vpopcntdq")]
    unsafe fn groups<'a, const N: usize>(
        &self,
        addrs: &'a [[u32; LANES]],
        out: &'a mut [[u32; LANES]],
    ) -> (&'a [[u32; LANES]], &'a mut [[u32; LANES]]) {
        let (addrs, addrs_left) = addrs.as_chunks();
        let (out, out_left) = out.as_chunks_mut();
        for (addrs, out) in addrs.iter().zip(out) {
            // SAFETY: the caller's promise.
            unsafe { self.vectors::<N>(addrs, out) };
        }
        (addrs_left, out_left)
    }

    /// Answers for `N` vectors of addresses, step by step.
    ///
    /// # Safety
    /// As [`batches_avx512`](Self::batches_avx512).
    #[inline]
    #[target_feature(enable = "avx512f,avx512vpopcntdq")]
    unsafe fn vectors<const N: usize>(&self, addrs: &[[u32; LANES]; N], out: &mut [[u32; LANES]; N]) {
        let mut least = _mm512_setzero_si512();
        // SAFETY: the arrays are as long as a vector; (a), (b), and (c) by the caller.
        unsafe {
            let addrs = addrs.map(|addrs| _mm512_loadu_epi32(addrs.as_ptr().cast()));
            let objects = addrs.map(|addrs| biased(slots(self, ALL, addrs)));
            let mut leaves = objects;
            for (leaves, addrs) in leaves.iter_mut().zip(addrs) {
                *leaves = self.places(ALL, *leaves, _mm512_srli_epi32::<8>(addrs));
            }
            for leaves in &mut leaves {
                *leaves = self.leaves(ALL, *leaves);
                least = _mm512_min_epi32(least, *leaves);
            }
            if divided(ALL, least) != 0 {
                for ((leaves, objects), addrs) in leaves.iter_mut().zip(objects).zip(addrs) {
                    *leaves = self.below(ALL, objects, *leaves, addrs);
                }
            }
            for (out, leaves) in out.iter_mut().zip(leaves) {
                _mm512_storeu_epi32(out.as_mut_ptr().cast(), leaves);
            }
        }
    }

    /// Answers for less than a vector of addresses.
    ///
    /// # Safety
    /// As [`batches_avx512`](Self::batches_avx512); both slices have the same length, from 1 to [`LANES`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512vpopcntdq")]
    unsafe fn part(&self, addrs: &[u32], out: &mut [u32]) {
        debug_assert!(addrs.len() == out.len() && (1..=LANES).contains(&addrs.len()));
        let lanes = ALL >> (LANES - addrs.len());
        // SAFETY: of either slice no more lanes are touched than it has; (a), (b), and (c) by the caller.
        unsafe {
            let addrs = _mm512_maskz_loadu_epi32(lanes, addrs.as_ptr().cast());
            let objects = biased(slots(self, lanes, addrs));
            let leaves = self.leaves(lanes, self.places(lanes, objects, _mm512_srli_epi32::<8>(addrs)));
            let leaves = self.below(lanes, objects, leaves, addrs);
            _mm512_mask_storeu_epi32(out.as_mut_ptr().cast(), lanes, leaves);
        }
    }

    /// The answers where `leaves`, found in `objects`, are of divided /24s, in these lanes; the others as they are.
    ///
    /// # Safety
    /// In these lanes the leaves are those of complete objects that are not being written (c).
    #[inline]
    #[target_feature(enable = "avx512f,avx512vpopcntdq")]
    unsafe fn below(&self, lanes: __mmask16, objects: __m512i, leaves: __m512i, addrs: __m512i) -> __m512i {
        let divided = divided(lanes, leaves);
        if divided == 0 {
            return leaves;
        }
        let lines = _mm512_and_epi32(leaves, _mm512_set1_epi32(LEAF_LINES.cast_signed()));
        let lower = _mm512_slli_epi32::<{ LINE_BYTES.trailing_zeros() }>(lines);
        // SAFETY: the next levels of the same objects (b); the caller's promise.
        let lower =
            unsafe { self.leaves(divided, self.places(divided, _mm512_add_epi32(objects, lower), addrs)) };
        _mm512_mask_mov_epi32(leaves, divided, lower)
    }

    /// Where the leaves stand for the entries that the lowest octets of `bits` name, in levels of objects, in these lanes: by how
    /// much farther than [`FIRST_LEAF`] behind the slab's start, less [`BIAS`].
    ///
    /// # Safety
    /// In these lanes a level of an object begins at each of `levels` and [`BIAS`], complete (a) and not being written (c).
    #[inline]
    #[target_feature(enable = "avx512f,avx512vpopcntdq")]
    unsafe fn places(&self, lanes: __mmask16, levels: __m512i, bits: __m512i) -> __m512i {
        let base = self.lines.as_ptr().cast::<u8>().wrapping_add(BIAS as usize);
        // See `group` and `kept` of the parent.
        let number = _mm512_and_epi32(_mm512_srli_epi32::<4>(bits), _mm512_set1_epi32(15));
        let thrice = _mm512_add_epi32(number, _mm512_slli_epi32::<1>(number));
        let starts = _mm512_set1_epi32(STARTS.cast_signed());
        let after = _mm512_andnot_epi32(bits, _mm512_set1_epi32(15));
        let kept = _mm512_and_epi32(_mm512_srlv_epi32(starts, after), starts);
        // SAFETY: within the level's first line (a), and no concurrent store (c). A gather touches the given lanes only.
        let group = unsafe {
            let zero = _mm512_setzero_si512();
            _mm512_mask_i32gather_epi32::<1>(zero, lanes, _mm512_add_epi32(levels, thrice), base.cast())
        };
        let before = _mm512_and_epi32(group, _mm512_set1_epi32(0xff));
        let run = _mm512_add_epi32(before, _mm512_popcnt_epi32(_mm512_and_epi32(group, kept)));
        _mm512_add_epi32(levels, _mm512_slli_epi32::<1>(run))
    }

    /// The leaves, signs spread, at these [`places`](Self::places), in these lanes.
    ///
    /// # Safety
    /// As [`places`](Self::places), which gave them.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn leaves(&self, lanes: __mmask16, places: __m512i) -> __m512i {
        // With the two bytes before it, which are the level's too, so that the leaf comes to lie in the upper half.
        let base = self.lines.as_ptr().cast::<u8>().wrapping_add(BIAS as usize + FIRST_LEAF - 2);
        // SAFETY: within the level (b), and no concurrent store (c).
        let pairs =
            unsafe { _mm512_mask_i32gather_epi32::<1>(_mm512_setzero_si512(), lanes, places, base.cast()) };
        _mm512_srai_epi32::<16>(pairs)
    }
}

/// Byte offsets less [`BIAS`].
#[inline]
#[target_feature(enable = "avx512f")]
fn biased(offsets: __m512i) -> __m512i {
    _mm512_sub_epi32(offsets, _mm512_set1_epi32(BIAS.cast_signed()))
}

/// The lanes, of these, whose leaf is that of a divided /24.
#[inline]
#[target_feature(enable = "avx512f")]
fn divided(lanes: __mmask16, leaves: __m512i) -> __mmask16 {
    _mm512_mask_cmplt_epi32_mask(lanes, leaves, _mm512_set1_epi32(-1))
}
