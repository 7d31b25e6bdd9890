// SPDX-License-Identifier: MIT OR Apache-2.0
//! SipHash-2-4 of whole words (Aumasson and Bernstein, *SipHash: a fast short-input PRF*, 2012).

fn round([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    a = a.rotate_left(32);
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.wrapping_add(d);
    d = d.rotate_left(21) ^ a;
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    c = c.rotate_left(32);
    [a, b, c, d]
}

/// The keyed hash of words, which stand for their bytes from the lowest on.
pub(crate) fn hash([low, high]: [u64; 2], words: &[u64]) -> u64 {
    let mut state = [
        low ^ 0x736f_6d65_7073_6575,
        high ^ 0x646f_7261_6e64_6f6d,
        low ^ 0x6c79_6765_6e65_7261,
        high ^ 0x7465_6462_7974_6573,
    ];
    let length = (words.len() as u64 * 8) << 56;
    for word in words.iter().copied().chain([length]) {
        state[3] ^= word;
        state = round(round(state));
        state[0] ^= word;
    }
    state[2] ^= 0xff;
    (0..4).for_each(|_| state = round(state));
    state.into_iter().fold(0, |all, one| all ^ one)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        /// The standard library has the same function, without a way to use it that is not deprecated.
        #[test]
        #[allow(deprecated)]
        fn it_is_the_function_of_the_standard_library(key: [u64; 2], words in proptest::collection::vec(any::<u64>(), 0..9)) {
            use std::hash::{Hasher, SipHasher};
            let mut theirs = SipHasher::new_with_keys(key[0], key[1]);
            words.iter().for_each(|word| theirs.write(&word.to_le_bytes()));
            prop_assert_eq!(super::hash(key, &words), theirs.finish());
        }
    }
}
