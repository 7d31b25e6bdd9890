// SPDX-License-Identifier: MIT OR Apache-2.0
//! Vectors of four blocks: loads and stores with masks, counters, and the rounds of AES.

use core::arch::x86_64::*;

use super::key::Key;

/// Reverses the bytes of each block, as GHASH reads them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
pub(super) fn reversed(v: __m512i) -> __m512i {
    _mm512_shuffle_epi8(v, _mm512_broadcast_i32x4(reversal()))
}

/// The shuffle that reverses the bytes of a block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
pub(super) fn reversal() -> __m128i {
    _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
}

/// A block in all four lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
pub(super) fn broadcast(block: &[u8; 16]) -> __m512i {
    // SAFETY: sixteen bytes lie behind the reference; no alignment is needed.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(block.as_ptr().cast()) })
}

/// The first bytes of `from`, at most sixteen, as a block that zeros fill up, in lane 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
pub(super) fn first_block(from: &[u8]) -> __m512i {
    let mask = ones(from.len().min(16)) as __mmask16;
    // SAFETY: the mask keeps bytes beyond the slice from being read.
    _mm512_zextsi128_si512(unsafe { _mm_maskz_loadu_epi8(mask, from.as_ptr().cast()) })
}

/// A mask of the `count` lowest bits; all for 64 and more.
#[inline]
pub(super) fn ones(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

/// Counters 1 to 32 as they stand in the last bytes of counter blocks, four to a vector. The last one is 0 here: see [`counters`].
#[repr(align(64))]
struct Counters([[u32; 16]; 8]);

static COUNTERS: Counters = Counters({
    let mut vectors = [[0; 16]; 8];
    let mut counter = 1u32;
    while counter < 32 {
        vectors[(counter as usize - 1) / 4][(counter as usize - 1) % 4 * 4 + 3] = counter.to_be();
        counter += 1;
    }
    vectors
});

/// States before the first round: counter blocks `32 * group + 1` and following, exclusive or the first round key.
///
/// Counters of a group differ from its first one, less 1, in the lowest five bits alone, but for the 32nd, whose carry goes higher.
/// So one exclusive or makes a vector: with a constant that lies in memory.
#[inline(always)]
pub(super) unsafe fn counters<const K: usize>(key: &Key, counter: &[u8; 16], group: u32) -> [__m512i; K] {
    // SAFETY: the caller has the features; each vector of the table is 64 aligned bytes.
    unsafe {
        let nonce = _mm512_xor_si512(broadcast(counter), broadcast(key.round(0)));
        let base = group * 32;
        let start = if group == 0 { nonce } else { with_counter::<0x8888>(nonce, base) };
        let mut states = [start; K];
        for (v, state) in states.iter_mut().enumerate() {
            if v == 8 {
                *state = with_counter::<0x8888>(nonce, base + 32);
            }
            let constant = _mm512_load_si512(COUNTERS.0[v % 8].as_ptr().cast());
            *state = _mm512_xor_si512(*state, constant);
            if v == 7 {
                *state = with_counter::<0x8000>(*state, base ^ (base + 32));
            }
        }
        states
    }
}

/// Exclusive or of `number` to the words of `MASK`, in the order of bytes that counters have.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
fn with_counter<const MASK: __mmask16>(state: __m512i, number: u32) -> __m512i {
    _mm512_xor_si512(state, _mm512_maskz_set1_epi32(MASK, number.swap_bytes() as i32))
}

/// One round of AES on each state.
#[inline(always)]
pub(super) unsafe fn round<const K: usize>(state: &mut [__m512i; K], key: __m512i) {
    // SAFETY: the caller has the features.
    unsafe {
        for state in state {
            *state = pinned(_mm512_aesenc_epi128(*state, key));
        }
    }
}

/// The last round of AES on each state.
#[inline(always)]
pub(super) unsafe fn last_round<const K: usize>(state: &mut [__m512i; K], key: __m512i) {
    // SAFETY: the caller has the features.
    unsafe {
        for state in state {
            *state = pinned(_mm512_aesenclast_epi128(*state, key));
        }
    }
}

/// The value itself. The compiler keeps the order of all such values, and so the order in which we interleave independent chains; by itself it would put one chain after the other.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
pub(super) fn pinned(mut v: __m512i) -> __m512i {
    // SAFETY: no instruction is added, and the register keeps its content.
    unsafe { core::arch::asm!("/* {0} */", inout(zmm_reg) v, options(nomem, nostack, preserves_flags)) };
    v
}
