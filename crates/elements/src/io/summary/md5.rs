// SPDX-License-Identifier: MIT OR Apache-2.0
//! The MD5 digest (RFC 1321), to name payloads in dumps; it protects nothing.

const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

fn compress(state: &mut [u32; 4], block: &[u8; 64]) {
    let word = |i: usize| u32::from_le_bytes(std::array::from_fn(|k| block[i * 4 + k]));
    let [mut a, mut b, mut c, mut d] = *state;
    for i in 0..64usize {
        let (f, k) = match i / 16 {
            0 => (b & c | !b & d, i),
            1 => (d & b | !d & c, (5 * i + 1) % 16),
            2 => (b ^ c ^ d, (3 * i + 5) % 16),
            _ => (c ^ (b | !d), (7 * i) % 16),
        };
        // RFC 1321, section 3.4: the integer part of 2^32 times |sin(i + 1)|.
        let constant = (((i + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
        let sum = a.wrapping_add(f).wrapping_add(constant).wrapping_add(word(k));
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(SHIFTS[i / 16][i % 4]));
    }
    for (s, v) in state.iter_mut().zip([a, b, c, d]) {
        *s = s.wrapping_add(v);
    }
}

/// The digest of `data`.
pub fn digest(data: &[u8]) -> [u8; 16] {
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let (blocks, rest) = data.as_chunks::<64>();
    blocks.iter().for_each(|b| compress(&mut state, b));
    let mut tail = [0u8; 128];
    tail[..rest.len()].copy_from_slice(rest);
    tail[rest.len()] = 0x80;
    let end = if rest.len() < 56 { 64 } else { 128 };
    tail[end - 8..end].copy_from_slice(&(data.len() as u64).wrapping_mul(8).to_le_bytes());
    tail[..end].as_chunks::<64>().0.iter().for_each(|b| compress(&mut state, b));
    let mut digest = [0; 16];
    for (to, word) in digest.chunks_mut(4).zip(state) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

/// A digest as 22 characters of six bits each, the lowest bits of the first byte first.
pub fn text(digest: &[u8; 16]) -> String {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@";
    let bits = u128::from_le_bytes(*digest);
    (0..22).map(|i| char::from(LETTERS[(bits >> (6 * i) & 63) as usize])).collect()
}

/// A digest as 32 hexadecimal digits.
pub fn hex(digest: &[u8; 16]) -> String {
    digest.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suite_of_rfc_1321() {
        for (data, want) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
                "d174ab98d277d9f5a5611c2c9f419d9f",
            ),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            assert_eq!(hex(&digest(data.as_bytes())), want, "{data}");
        }
        assert_eq!(text(&[0; 16]), "a".repeat(22));
        assert_eq!(text(&[0xff; 16]), format!("{}d", "@".repeat(21)));
    }
}
