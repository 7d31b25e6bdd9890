// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same with AVX-512, on registers of 32 bytes: comparisons take memory as it is and give a bit for each word.

use std::arch::asm;
use std::arch::x86_64::*;

use super::{Bucket, Eye, Fdb, FdbKey, Mark, PAYLOAD, Relaxed};

/// A bucket's words at once.
struct Avx512;

impl Eye for Avx512 {
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,avx512f,avx512vl")]
    unsafe fn best(bucket: &Bucket, want: u64) -> u64 {
        let wanted = _mm256_set1_epi64x(want.cast_signed());
        let rest = _mm256_set1_epi64x((!PAYLOAD).cast_signed());
        let (low, high): (u32, u32);
        // SAFETY: a bucket is 64 bytes, aligned to 64, which may be read. Others may write them meanwhile: see the parent's documentation.
        unsafe {
            asm!(
                "vpxorq {words}, {wanted}, [{at}]",
                "vptestnmq {bits}, {words}, {rest}",
                "kmovw {low:e}, {bits}",
                "vpxorq {words}, {wanted}, [{at} + 32]",
                "vptestnmq {bits}, {words}, {rest}",
                "kmovw {high:e}, {bits}",
                at = in(reg) bucket,
                wanted = in(ymm_reg) wanted,
                rest = in(ymm_reg) rest,
                words = out(ymm_reg) _,
                bits = out(kreg) _,
                low = out(reg) low,
                high = lateout(reg) high,
                options(readonly, nostack, preserves_flags),
            );
        }
        let place = (low | high << 4).trailing_zeros();
        // Any word, if it is none of them.
        bucket.0[place as usize % bucket.0.len()].load(Relaxed) ^ want
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,avx512f,avx512vl")]
    unsafe fn has(bucket: &Bucket, word: u64) -> bool {
        let wanted = _mm256_set1_epi64x(word.cast_signed());
        let (low, high): (__mmask8, __mmask8);
        // SAFETY: as in `best`.
        unsafe {
            asm!(
                "vpcmpeqq {low}, {wanted}, [{at}]",
                "vpcmpeqq {high}, {wanted}, [{at} + 32]",
                at = in(reg) bucket,
                wanted = in(ymm_reg) wanted,
                low = out(kreg) low,
                high = lateout(kreg) high,
                options(readonly, nostack, preserves_flags),
            );
        }
        low | high != 0
    }
}

/// As [`Fdb::places`].
///
/// # Safety
/// The processor has what this file needs: AVX2, BMI1, BMI2, AVX-512 F, DQ and VL.
#[target_feature(enable = "avx2,bmi1,bmi2,avx512f,avx512dq,avx512vl")]
pub(super) unsafe fn places(fdb: &Fdb, keys: &[FdbKey], buckets: &mut [u32], wants: &mut [u64]) {
    fdb.places(keys, buckets, wants);
}

/// As [`Fdb::frames`].
///
/// # Safety
/// The processor has what this file needs: AVX2, BMI1, BMI2, AVX-512 F, DQ and VL.
#[target_feature(enable = "avx2,bmi1,bmi2,avx512f,avx512vl")]
pub(super) unsafe fn frames<const LEARNS: bool>(
    fdb: &Fdb,
    mark: Mark,
    refused: Option<&mut u64>,
    frames: (&[[u32; 2]], &[[u64; 2]]),
    ports: &mut [u16],
) -> usize {
    // SAFETY: the caller's promise.
    unsafe { fdb.frames::<Avx512, LEARNS>(mark, refused, frames, ports) }
}

/// As [`Fdb::ports_of`].
///
/// # Safety
/// The processor has what this file needs: AVX2, BMI1, BMI2, AVX-512 F, DQ and VL.
#[target_feature(enable = "avx2,bmi1,bmi2,avx512f,avx512vl")]
pub(super) unsafe fn ports_of(fdb: &Fdb, keys: &[FdbKey], ports: &mut [u16]) {
    // SAFETY: the caller's promise.
    unsafe { fdb.ports_of::<Avx512>(keys, ports) }
}
