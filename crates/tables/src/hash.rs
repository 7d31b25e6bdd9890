// SPDX-License-Identifier: MIT OR Apache-2.0
//! A seeded hash for short keys: two multiplications of 64 by 64 bits, folded (the mixing step of Wang Yi's wyhash).
//!
//! The seed keeps strangers from choosing addresses that collide. It is passed in, so that tests repeat themselves.

use std::hash::{BuildHasher, Hasher};

const ODD_A: u64 = 0x9e37_79b9_7f4a_7c15;
const ODD_B: u64 = 0xd6e8_feb8_6659_fd93;

/// A 64-bit hash of 128 bits; all its bits are good.
#[inline(always)]
pub(crate) fn hash128(seed: u64, low: u64, high: u64) -> u64 {
    let inner = fold(low ^ seed ^ ODD_A, high ^ seed.rotate_left(32) ^ ODD_B);
    fold(inner ^ ODD_A, seed ^ low.rotate_left(29) ^ ODD_B)
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Makes `std`'s maps use [`hash128`] for keys that are one integer or a few.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seed(pub u64);

pub(crate) struct OneWord {
    seed: u64,
    hash: u64,
}

impl BuildHasher for Seed {
    type Hasher = OneWord;

    #[inline]
    fn build_hasher(&self) -> OneWord {
        OneWord { seed: self.0, hash: 0 }
    }
}

impl Hasher for OneWord {
    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.hash = hash128(self.seed, word, self.hash);
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    /// An IPv6 address.
    #[inline]
    fn write_u128(&mut self, word: u128) {
        self.hash = hash128(self.seed ^ self.hash, word as u64, (word >> 64) as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each input bit flips each output bit about half the time.
    #[test]
    fn every_bit_matters() {
        let keys: Vec<(u64, u64)> = (0..512u64).map(|i| (i * 0x1_0001, i << 40 | 6)).collect();
        for bit in 0..128 {
            let mut flips = [0u32; 64];
            for (low, high) in &keys {
                let (other_low, other_high) =
                    if bit < 64 { (low ^ 1 << bit, *high) } else { (*low, high ^ 1 << (bit - 64)) };
                let changed = hash128(7, *low, *high) ^ hash128(7, other_low, other_high);
                flips.iter_mut().enumerate().for_each(|(at, count)| *count += (changed >> at & 1) as u32);
            }
            assert!(flips.iter().all(|count| (128..384).contains(count)), "input bit {bit}: {flips:?}");
        }
    }
}
