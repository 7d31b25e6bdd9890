// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys of the kernel: round keys and powers of the hash key.

use core::arch::x86_64::*;
use std::sync::OnceLock;

use zeroize::Zeroize as _;

use super::LONGEST;
use super::ghash::product;
use super::vector::{broadcast, reversal};

/// Shows that the processor has what the kernel needs.
#[derive(Clone, Copy)]
pub(crate) struct Token(());

impl Token {
    /// `Some` where the processor and the system support all instructions of the kernel.
    pub(crate) fn detect() -> Option<Self> {
        static FOUND: OnceLock<bool> = OnceLock::new();
        let found = FOUND.get_or_init(|| {
            is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("vaes")
                && is_x86_feature_detected!("vpclmulqdq")
                && is_x86_feature_detected!("aes")
        });
        found.then_some(Self(()))
    }
}

/// The highest power of H that a group needs: it has 36 blocks, the last of which gets H^2.
pub(super) const HIGHEST: usize = 4 * LONGEST + 1;

/// Round keys and powers of H, for one security association.
///
/// A packet of up to 48 bytes touches five of its fourteen cache lines.
#[repr(C, align(64))]
pub(crate) struct Key {
    /// H^37 to H^1, each divided by x, and three zeros, so that a vector of powers can be loaded from every place up to H^1.
    powers: [[u8; 16]; HIGHEST + 3],
    /// Next to what every packet needs.
    kind: Kind,
    rounds: [[u8; 16]; 15],
}

/// Takes a block's place, so that round keys do not cross cache lines.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(align(16))]
enum Kind {
    Aes128,
    Aes256,
}

impl Key {
    /// A key of 16 or 32 bytes.
    pub(crate) fn new(_: Token, key: &[u8]) -> Option<Self> {
        let kind = match key.len() {
            16 => Kind::Aes128,
            32 => Kind::Aes256,
            _ => return None,
        };
        let mut made = Self { powers: [[0; 16]; HIGHEST + 3], kind, rounds: [[0; 16]; 15] };
        // SAFETY: the token shows that the processor has the features.
        unsafe {
            made.expand(key);
            made.fill_powers();
        }
        Some(made)
    }

    #[inline]
    pub(super) fn is_256(&self) -> bool {
        self.kind == Kind::Aes256
    }

    /// Where it has what a text of so many bytes needs, and how many bytes that are: powers of H, and all behind them.
    #[inline]
    pub(crate) fn bytes_for(&self, text_len: usize) -> (*const u8, usize) {
        let vectors = super::vectors(text_len).min(LONGEST);
        // Whole lines, and no round of longer keys than this one.
        let unused = (HIGHEST - 1 - 4 * vectors) * 16 / 64 * 64;
        let len = size_of::<Key>() - if self.is_256() { 0 } else { 64 };
        (std::ptr::from_ref(self).cast::<u8>().wrapping_add(unused), len - unused)
    }

    /// The key of a round; 0 is the one before the first.
    #[inline]
    pub(super) fn round(&self, round: usize) -> &[u8; 16] {
        &self.rounds[round]
    }

    /// H^(4 * vectors) / x in all lanes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
    pub(super) fn power_of_all(&self, vectors: usize) -> __m512i {
        broadcast(&self.powers[HIGHEST - 4 * vectors])
    }

    /// H^first / x to H^(first - 3) / x.
    ///
    /// # Safety
    /// `first` is at least 1 and at most [`HIGHEST`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
    pub(super) unsafe fn powers(&self, first: usize) -> __m512i {
        debug_assert!((1..=HIGHEST).contains(&first), "{first}");
        // SAFETY: three blocks lie behind H^1, so four blocks lie in the array from each power.
        unsafe { _mm512_loadu_si512(self.powers.as_ptr().add(HIGHEST - first).cast()) }
    }

    /// H / x in lane 0, and zeros.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
    pub(super) fn power_one(&self) -> __m512i {
        // SAFETY: sixteen bytes lie behind the reference.
        _mm512_zextsi128_si512(unsafe { _mm_loadu_si128(self.powers[HIGHEST - 1].as_ptr().cast()) })
    }

    /// Computes the round keys (FIPS 197, 5.2).
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq,aes")]
    fn expand(&mut self, key: &[u8]) {
        let words = key.len() / 4;
        let last = match self.kind {
            Kind::Aes128 => 10,
            Kind::Aes256 => 14,
        };
        let flat = self.rounds.as_flattened_mut();
        flat[..key.len()].copy_from_slice(key);
        let mut constant = 1u8;
        for word in words..4 * (last + 1) {
            let mut previous = [0; 4];
            previous.copy_from_slice(&flat[4 * word - 4..4 * word]);
            let mut add = u32::from_le_bytes(previous);
            if word % words == 0 {
                add = substituted(add).rotate_right(8) ^ u32::from(constant);
                constant = (constant << 1) ^ if constant & 0x80 != 0 { 0x1B } else { 0 };
            } else if words == 8 && word % 8 == 4 {
                add = substituted(add);
            }
            for (byte, add) in add.to_le_bytes().into_iter().enumerate() {
                flat[4 * word + byte] = flat[4 * (word - words) + byte] ^ add;
            }
            previous.zeroize();
        }
    }

    /// Computes the powers of H = E(0).
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq,aes")]
    fn fill_powers(&mut self) {
        let mut state = broadcast(&self.rounds[0]);
        let last = if self.is_256() { 14 } else { 10 };
        for round in 1..last {
            state = _mm512_aesenc_epi128(state, broadcast(&self.rounds[round]));
        }
        state = _mm512_aesenclast_epi128(state, broadcast(&self.rounds[last]));
        let h = divided(_mm_shuffle_epi8(_mm512_castsi512_si128(state), reversal()));
        let h = _mm512_zextsi128_si512(h);
        let mut power = h;
        for place in self.powers[..HIGHEST].iter_mut().rev() {
            // SAFETY: sixteen bytes lie behind the reference.
            unsafe { _mm_storeu_si128(place.as_mut_ptr().cast(), _mm512_castsi512_si128(power)) };
            power = product(power, h);
        }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.powers.zeroize();
        self.rounds.zeroize();
    }
}

/// The S-box on each byte of a word, by the processor.
#[inline]
#[target_feature(enable = "aes,sse2")]
fn substituted(word: u32) -> u32 {
    // The lowest word of the result is the S-box of the second word.
    let spread = _mm_set1_epi32(word as i32);
    _mm_cvtsi128_si32(_mm_aeskeygenassist_si128(spread, 0)) as u32
}

/// A residue divided by x. In the reflected form that is a shift to the left; the term x^0, if there is one, becomes x^-1 = x^127 + x^6 + x + 1.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
fn divided(block: __m128i) -> __m128i {
    let carries = _mm_srli_epi64(block, 63);
    let shifted = _mm_or_si128(_mm_slli_epi64(block, 1), _mm_slli_si128(carries, 8));
    let lost = _mm_sub_epi64(_mm_setzero_si128(), _mm_unpackhi_epi64(carries, carries));
    _mm_xor_si128(shifted, _mm_and_si128(lost, _mm_set_epi64x(0xC2 << 56, 1)))
}
