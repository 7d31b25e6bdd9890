// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same with the instructions of x86-64-v3.

use std::arch::asm;
use std::arch::x86_64::*;

use super::{Bucket, Eye, Fdb, FdbKey, Mark, PAYLOAD, Relaxed};

/// A bucket's words at once.
struct Avx2;

/// The words of a bucket.
///
/// # Safety
/// The processor has AVX2.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
unsafe fn load(bucket: &Bucket) -> [__m256i; 2] {
    let (low, high);
    // SAFETY: a bucket is 64 bytes, aligned to 64, which may be read. Others may write them meanwhile: see the parent's documentation.
    unsafe {
        asm!(
            "vmovdqa {low}, [{at}]",
            "vmovdqa {high}, [{at} + 32]",
            at = in(reg) bucket,
            low = lateout(ymm_reg) low,
            high = out(ymm_reg) high,
            options(readonly, nostack, preserves_flags),
        );
    }
    [low, high]
}

/// A bit for each word whose lanes are all ones.
///
/// # Safety
/// The processor has AVX2.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
unsafe fn bits([low, high]: [__m256i; 2]) -> u32 {
    let (low, high) = (_mm256_castsi256_pd(low), _mm256_castsi256_pd(high));
    (_mm256_movemask_pd(low) | _mm256_movemask_pd(high) << 4).cast_unsigned()
}

impl Eye for Avx2 {
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn best(bucket: &Bucket, want: u64) -> u64 {
        // SAFETY: the caller's promise.
        let place = unsafe {
            let (wanted, none) = (_mm256_set1_epi64x(want.cast_signed()), _mm256_setzero_si256());
            let rest =
                |words| _mm256_srli_epi64::<{ PAYLOAD.count_ones() as i32 }>(_mm256_xor_si256(words, wanted));
            bits(load(bucket).map(|words| _mm256_cmpeq_epi64(rest(words), none))).trailing_zeros()
        };
        // Any word, if it is none of them.
        bucket.0[place as usize % bucket.0.len()].load(Relaxed) ^ want
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn has(bucket: &Bucket, word: u64) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            let wanted = _mm256_set1_epi64x(word.cast_signed());
            let [low, high] = load(bucket).map(|words| _mm256_cmpeq_epi64(words, wanted));
            _mm256_movemask_epi8(_mm256_or_si256(low, high)) != 0
        }
    }
}

/// As [`Fdb::places`].
///
/// # Safety
/// The processor has AVX2, BMI1 and BMI2.
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(super) unsafe fn places(fdb: &Fdb, keys: &[FdbKey], buckets: &mut [u32], wants: &mut [u64]) {
    fdb.places(keys, buckets, wants);
}

/// As [`Fdb::frames`].
///
/// # Safety
/// The processor has AVX2, BMI1 and BMI2.
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(super) unsafe fn frames<const LEARNS: bool>(
    fdb: &Fdb,
    mark: Mark,
    refused: Option<&mut u64>,
    frames: (&[[u32; 2]], &[[u64; 2]]),
    ports: &mut [u16],
) -> usize {
    // SAFETY: the caller's promise.
    unsafe { fdb.frames::<Avx2, LEARNS>(mark, refused, frames, ports) }
}

/// As [`Fdb::ports_of`].
///
/// # Safety
/// The processor has AVX2, BMI1 and BMI2.
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(super) unsafe fn ports_of(fdb: &Fdb, keys: &[FdbKey], ports: &mut [u16]) {
    // SAFETY: the caller's promise.
    unsafe { fdb.ports_of::<Avx2>(keys, ports) }
}
