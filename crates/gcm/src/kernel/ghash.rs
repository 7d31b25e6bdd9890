// SPDX-License-Identifier: MIT OR Apache-2.0
//! GHASH by carry-less products, of which many are added up before one reduction.
//!
//! # Representation
//! GCM writes the coefficient of x^0 as the first bit of the first byte. With its bytes reversed, a block is a number whose bit 127-i is the coefficient of x^i.
//! The carry-less product of two such numbers is that of the polynomials, times x, with bit 255-i for x^i. So powers of H are kept divided by x (`H^k / x`), and products need
//! no shift.
//!
//! # Reduction
//! The field's polynomial says x^128 = x^7 + x^2 + x + 1. In this representation, a low word w (64 bits) is removed by adding w to the word two places higher, and the product of w with `C2 << 56` to
//! the two words above w. Two such steps leave the upper 128 bits.
//!
//! Sources: NIST SP 800-38D, 6.3 and 6.4; S. Gueron, M. Kounavis, "Intel Carry-Less Multiplication Instruction and its Usage for Computing the GCM Mode" (for the
//! reflected form and for adding up products before reduction).

use core::arch::x86_64::*;

use super::key::Key;
use super::vector::{first_block, ones, pinned, reversed};

/// x^128 without its highest term, reflected, as the second word of a block.
const POLYNOMIAL: i64 = 0xC2 << 56;

/// A sum of products, lane by lane: their low, middle and high 128 bits (the middle ones overlap both).
#[derive(Clone, Copy)]
pub(super) struct Sum {
    low: __m512i,
    middle: __m512i,
    high: __m512i,
}

impl Sum {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
    pub(super) fn zero() -> Self {
        let zero = _mm512_setzero_si512();
        Self { low: zero, middle: zero, high: zero }
    }

    /// Adds `a * b`, lane by lane.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
    pub(super) fn add(&mut self, a: __m512i, b: __m512i) {
        let cross =
            _mm512_xor_si512(_mm512_clmulepi64_epi128(a, b, 0x01), _mm512_clmulepi64_epi128(a, b, 0x10));
        self.low = _mm512_xor_si512(self.low, _mm512_clmulepi64_epi128(a, b, 0x00));
        self.high = _mm512_xor_si512(self.high, _mm512_clmulepi64_epi128(a, b, 0x11));
        self.middle = _mm512_xor_si512(self.middle, cross);
    }

    /// Adds `a * b`, and keeps the compiler from moving that away from what stands around it.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
    pub(super) fn add_here(&mut self, a: __m512i, b: __m512i) {
        self.add(a, b);
        self.low = pinned(self.low);
        self.high = pinned(self.high);
        self.middle = pinned(self.middle);
    }

    /// The sum's residue, lane by lane.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
    pub(super) fn reduced(self) -> __m512i {
        let polynomial = _mm512_set1_epi64(POLYNOMIAL);
        // SAFETY: this function has the features.
        unsafe { folded(folded(self.low, self.middle, polynomial), self.high, polynomial) }
    }
}

/// The residues of the sums of all four lanes. Step by step for all packets, so that they hide each other's latency.
#[inline(always)]
pub(super) unsafe fn totals<const P: usize>(sums: [Sum; P]) -> [__m128i; P] {
    // SAFETY: the caller has the features.
    unsafe {
        let polynomial = _mm512_set1_epi64(POLYNOMIAL);
        let zero = _mm512_setzero_si512();
        let (mut middle, mut lanes, mut two) = ([zero; P], [zero; P], [_mm_setzero_si128(); P]);
        for p in 0..P {
            middle[p] = pinned(folded(sums[p].low, sums[p].middle, polynomial));
        }
        for p in 0..P {
            lanes[p] = pinned(folded(middle[p], sums[p].high, polynomial));
        }
        for p in 0..P {
            let pair =
                _mm256_xor_si256(_mm512_castsi512_si256(lanes[p]), _mm512_extracti64x4_epi64(lanes[p], 1));
            two[p] = _mm_xor_si128(_mm256_castsi256_si128(pair), _mm256_extracti128_si256(pair, 1));
        }
        two
    }
}

/// Removes the low word of `low` and returns the other three words, of which `above` are the upper two without what is added.
#[inline(always)]
unsafe fn folded(low: __m512i, above: __m512i, polynomial: __m512i) -> __m512i {
    // SAFETY: the caller has the features.
    unsafe {
        let swapped = _mm512_shuffle_epi32(low, 0b01_00_11_10);
        let product = _mm512_clmulepi64_epi128(low, polynomial, 0x00);
        _mm512_xor_si512(_mm512_xor_si512(above, swapped), product)
    }
}

/// The product of two residues of which one is divided by x.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
pub(super) fn product(a: __m512i, b: __m512i) -> __m512i {
    let mut sum = Sum::zero();
    sum.add(a, b);
    sum.reduced()
}

/// The block of lengths, bytes reversed, in lane 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
pub(super) fn lengths(aad_len: usize, text_len: usize) -> __m512i {
    _mm512_zextsi128_si512(_mm_set_epi64x((aad_len as i64) << 3, (text_len as i64) << 3))
}

/// Splits additional data into what [`prefix`] hashes and the last block, which stands in lane 0 of vector 0.
#[inline(always)]
pub(super) unsafe fn additional(key: &Key, aad: &[u8]) -> (__m512i, __m512i) {
    // SAFETY: the caller has the features.
    unsafe {
        if aad.len() <= 16 {
            return (_mm512_setzero_si512(), first_block(aad));
        }
        let (blocks, last) = aad.split_at((aad.len() - 1) / 16 * 16);
        (prefix(key, blocks), first_block(last))
    }
}

/// The hash of whole blocks that come before vector 0, to be added to its lane 0.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
fn prefix(key: &Key, blocks: &[u8]) -> __m512i {
    // Zeros before the first block change nothing, so the first vector is the short one.
    let (head, vectors) = blocks.split_at(blocks.len() % 64);
    let gap = 64 - head.len();
    // SAFETY: the mask leaves out the `gap` bytes before the slice, and the vector ends where the slice ends.
    let mut hash =
        reversed(unsafe { _mm512_maskz_loadu_epi8(!ones(gap), head.as_ptr().wrapping_sub(gap).cast()) });
    // Of what is hashed so far, the last vector is not multiplied yet.
    let (groups, rest) = vectors.as_chunks::<512>();
    for group in groups {
        let mut sum = Sum::zero();
        sum.add(hash, key.power_of_all(8));
        for (v, vector) in group.as_chunks::<64>().0.iter().enumerate() {
            let data = load_reversed(vector);
            if v < 7 {
                sum.add(data, key.power_of_all(7 - v));
            } else {
                hash = data;
            }
        }
        hash = _mm512_xor_si512(hash, sum.reduced());
    }
    for vector in rest.as_chunks::<64>().0 {
        hash = _mm512_xor_si512(load_reversed(vector), product(hash, key.power_of_all(1)));
    }
    let mut sum = Sum::zero();
    // SAFETY: the fourth power exists, and this function has the features.
    unsafe {
        sum.add(hash, key.powers(4));
        _mm512_zextsi128_si512(totals([sum])[0])
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
fn load_reversed(vector: &[u8; 64]) -> __m512i {
    // SAFETY: the array has 64 bytes.
    reversed(unsafe { _mm512_loadu_si512(vector.as_ptr().cast()) })
}
