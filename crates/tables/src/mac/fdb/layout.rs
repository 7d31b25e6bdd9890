// SPDX-License-Identifier: MIT OR Apache-2.0
//! How an address and what is known of it fit one 64-bit word.
//!
//! Address and table number are up to 59 bits, too many for a word that holds a port and an age as well. But the bucket in which an entry stands says
//! something about its key already. So the key's low bits, less a hash of the others, choose the bucket, and the word holds the others as they are.
//! Nothing is lost, and a word found is that very key, not one with the same hash (Knuth's "quotienting", TAOCP 6.4, exercise 13; the form is one
//! round of a Feistel network, which undoes itself).
//!
//! ```text
//!  63              19   18   17        8 7        0
//! | 1 | rest of key | other | handle    | age      |      0: an empty place
//! ```
//!
//! The hash has secret multipliers, so that nobody can choose addresses that share a bucket. It takes two multiplications, the first
//! of them folded: with one, addresses that a maker or a tester deals out in steps gather in few buckets for one seed in twenty.

/// Bits of the moment of the last sighting, in ticks.
pub(super) const AGE_BITS: u32 = 8;
/// Bits that say behind which port.
const HANDLE_BITS: u32 = 10;
/// Handles that there are.
pub(super) const HANDLES: usize = 1 << HANDLE_BITS;
/// Set where an entry stands in the second of its two buckets.
pub(super) const OTHER: u64 = 1 << (AGE_BITS + HANDLE_BITS);
/// The bits below: handle and age.
pub(super) const PAYLOAD: u64 = OTHER - 1;
const REST_SHIFT: u32 = AGE_BITS + HANDLE_BITS + 1;
/// Always set in an entry.
const TOP: u64 = 1 << 63;
/// Bits of a key that the word has room for.
const REST_BITS: u32 = 63 - REST_SHIFT;
/// Bits of an address, of which one, that of groups, holds one of the table number.
const MAC_BITS: u32 = 48;
/// The bit by which groups differ from stations.
pub(super) const GROUP: u64 = 1 << 40;

/// Where a key belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketPlace {
    /// Its first bucket.
    pub(super) bucket: u32,
    /// The word without payload, for the first bucket.
    pub(super) want: u64,
}

impl BucketPlace {
    /// A number that distinguishes keys. Its low bits are well mixed.
    #[inline]
    pub fn mix(&self) -> u64 {
        self.want ^ u64::from(self.bucket)
    }
}

/// How a key is divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    bucket_bits: u32,
    bucket_mask: u32,
    seed: u64,
    multipliers: [u64; 2],
}

impl Layout {
    /// For about `slots` places in buckets of 8 and this many bits of table number.
    pub fn new(slots: usize, fid_bits: u32, seed: u64) -> Layout {
        let bits = MAC_BITS + fid_bits.saturating_sub(1);
        let buckets = slots.div_ceil(8).max(1).next_power_of_two();
        let least = if cfg!(loom) { 1 } else { bits - REST_BITS };
        let bucket_bits = buckets.trailing_zeros().clamp(least, 28);
        let word = |n: u64| crate::hash::hash128(seed, n, n);
        Layout {
            bucket_bits,
            bucket_mask: (1 << bucket_bits) - 1,
            seed: word(3),
            multipliers: [word(1) | 1, word(2) | 1],
        }
    }

    /// Buckets that this layout needs.
    pub fn buckets(&self) -> usize {
        1 << self.bucket_bits
    }

    /// Where a key belongs.
    #[inline(always)]
    pub fn place(&self, key: u64) -> BucketPlace {
        let rest = key >> self.bucket_bits;
        BucketPlace {
            bucket: key as u32 & self.bucket_mask ^ self.hash(rest),
            want: rest << REST_SHIFT | TOP,
        }
    }

    /// The second bucket of what belongs into `place` and the word to look for there; of that, in turn, the first.
    #[inline(always)]
    pub fn other(&self, place: BucketPlace) -> BucketPlace {
        BucketPlace { bucket: place.bucket ^ self.distance(place.want), want: place.want ^ OTHER }
    }

    /// The other one of the two buckets of a word in `bucket`.
    #[inline(always)]
    pub fn opposite(&self, bucket: u32, word: u64) -> u32 {
        bucket ^ self.distance(word)
    }

    #[inline(always)]
    fn distance(&self, word: u64) -> u32 {
        let rest = word >> REST_SHIFT;
        (rest.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 36) as u32 & self.bucket_mask | 1
    }

    /// The key of a word found in `bucket`.
    pub fn key(&self, bucket: u32, word: u64) -> u64 {
        let first = if word & OTHER == 0 { bucket } else { bucket ^ self.distance(word) };
        let rest = (word & !TOP) >> REST_SHIFT;
        rest << self.bucket_bits | u64::from(first ^ self.hash(rest))
    }

    /// What a key's bucket differs by from its low bits.
    #[inline(always)]
    fn hash(&self, rest: u64) -> u32 {
        let [a, b] = self.multipliers;
        let product = u128::from(rest ^ self.seed) * u128::from(a);
        let folded = product as u64 ^ (product >> 64) as u64;
        (folded.wrapping_mul(b) >> 36) as u32 & self.bucket_mask
    }
}

/// What a table number adds to its addresses' keys.
pub(super) fn salt(fid: u16) -> u64 {
    (u64::from(fid & 1) * GROUP) | (u64::from(fid >> 1) << MAC_BITS)
}

/// The table number in a key.
pub(super) fn fid(key: u64) -> u16 {
    (key >> MAC_BITS << 1) as u16 | u16::from(key & GROUP != 0)
}

/// The address in a key.
pub(super) fn mac(key: u64) -> [u8; 6] {
    let [_, _, mac @ ..] = (key & !GROUP).to_be_bytes();
    mac
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]
        #[test]
        fn a_word_and_its_bucket_are_the_key(
            mac in any::<u64>(), number in any::<u16>(), fid_bits in 0u32..=12, slots in 0usize..2_000_000, seed: u64,
        ) {
            let layout = Layout::new(slots, fid_bits, seed);
            let number = number & ((1 << fid_bits) - 1) as u16;
            let address = mac & ((1 << 48) - 1) & !GROUP;
            let key = address | salt(number);
            prop_assert_eq!(fid(key), number);
            let first = layout.place(key);
            let second = layout.other(first);
            prop_assert_ne!(first.bucket, second.bucket);
            prop_assert_eq!(layout.other(second), first);
            prop_assert_eq!(layout.key(first.bucket, first.want | 5), key);
            prop_assert_eq!(layout.key(second.bucket, second.want | PAYLOAD), key);
            prop_assert!((second.bucket as usize) < layout.buckets());
            let [_, _, bytes @ ..] = address.to_be_bytes();
            prop_assert_eq!(super::mac(key), bytes);
        }
    }

    #[test]
    fn neighbours_do_not_gather() {
        // Addresses as a vendor deals them out, and as testers make them: at random, a bucket of 8 would get more than 8 of an average
        // of 4 in 2 % of cases.
        for step in [1, 3, 64, 256, 1 << 12, 1 << 16, 0x1_0001, 1 << 24] {
            for seed in 0..8 {
                let layout = Layout::new(1 << 15, 0, seed);
                let mut load = vec![0; layout.buckets()];
                for n in 0..1u64 << 14 {
                    load[layout.place(n * step + (2u64 << 40)).bucket as usize] += 1;
                }
                let crowded = load.iter().filter(|n| **n > 8).count();
                assert!(crowded * 20 < layout.buckets(), "step {step}, seed {seed}: {crowded}");
            }
        }
    }
}
