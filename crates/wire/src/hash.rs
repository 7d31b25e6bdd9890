// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hashes of flows: Toeplitz, as network cards compute it for receive side scaling, and a quick one for tables.
//!
//! The Toeplitz hash is linear over bits: the hash of an input is the exclusive-or, over its one bits, of 32-bit windows of
//! the key. So the contribution of each byte position is one of 256 words, looked up in a table of 1 KiB per position
//! (12 KiB for an IPv4 flow, 36 KiB for an IPv6 one), one exclusive-or a byte.

/// Bytes of key that [`Toeplitz`] takes: for 36 bytes of input and one more window.
pub const TOEPLITZ_KEY_LEN: usize = 40;
/// Longest input: two IPv6 addresses and two ports, in bytes.
pub const TOEPLITZ_INPUT_MAX: usize = 36;

/// The key of Microsoft's published examples, which most drivers use as their default.
pub const MICROSOFT_KEY: [u8; TOEPLITZ_KEY_LEN] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// A key of period 16 bits, under which both directions of a flow hash alike (Woo and Park, "Scalable TCP Session
/// Monitoring with Symmetric Receive-side Scaling", 2012).
pub const SYMMETRIC_KEY: [u8; TOEPLITZ_KEY_LEN] = {
    let mut key = [0x6d; TOEPLITZ_KEY_LEN];
    let mut i = 1;
    while i < TOEPLITZ_KEY_LEN {
        key[i] = 0x5a;
        i += 2;
    }
    key
};

/// The Toeplitz hash under one key, by tables.
#[derive(Clone)]
pub struct Toeplitz {
    /// For each input position, the hash of each byte there.
    tables: Box<[[u32; 256]; TOEPLITZ_INPUT_MAX]>,
}

impl std::fmt::Debug for Toeplitz {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Toeplitz").finish_non_exhaustive()
    }
}

impl Toeplitz {
    /// Prepares the tables of a key (36 KiB).
    pub fn new(key: &[u8; TOEPLITZ_KEY_LEN]) -> Self {
        let table = |position: usize| {
            let windows: [u32; 8] = std::array::from_fn(|bit| window(key, 8 * position + bit));
            let mut table = [0; 256];
            for (byte, hash) in table.iter_mut().enumerate() {
                *hash = (0..8).filter(|bit| byte >> (7 - bit) & 1 == 1).fold(0, |h, bit| h ^ windows[bit]);
            }
            table
        };
        let mut tables = Box::new([[0; 256]; TOEPLITZ_INPUT_MAX]);
        tables.iter_mut().enumerate().for_each(|(position, to)| *to = table(position));
        Toeplitz { tables }
    }

    /// The hash of `input`, of which the first 36 bytes count.
    #[inline]
    pub fn hash(&self, input: &[u8]) -> u32 {
        self.tables.iter().zip(input).fold(0, |hash, (table, &byte)| hash ^ table[usize::from(byte)])
    }
}

/// The 32 bits of the key that start at bit `at`; bits beyond the key are zero.
fn window(key: &[u8; TOEPLITZ_KEY_LEN], at: usize) -> u32 {
    (0..32).fold(0, |bits, i| {
        let byte = key.get((at + i) / 8).copied().unwrap_or(0);
        bits << 1 | u32::from(byte >> (7 - (at + i) % 8) & 1)
    })
}

/// Odd constants of no structure: the fractional parts of pi, as in Blowfish's first subkeys.
const K0: u64 = 0x243f_6a88_85a3_08d3;
const K1: u64 = 0x1319_8a2e_0370_7345;

/// Multiplies to 128 bits and folds the halves together, so that every input bit reaches every output bit.
#[inline(always)]
pub const fn folded_multiply(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

/// A quick hash of two words, for table slots: two multiplications. Not for use against an adversary who knows `seed`.
#[inline]
pub const fn mix(a: u64, b: u64, seed: u64) -> u64 {
    folded_multiply(folded_multiply(a ^ K0 ^ seed, b ^ K1) ^ seed, K1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::sync::LazyLock;

    /// "Verifying the RSS Hash Calculation", Microsoft's driver documentation: destination, source, and the hashes of
    /// addresses alone and of addresses with ports. The input order is source, destination, source port, destination port.
    #[test]
    fn microsoft_ipv4_vectors() {
        let toeplitz = Toeplitz::new(&MICROSOFT_KEY);
        let check = |dst: &str, dst_port: u16, src: &str, src_port: u16, plain: u32, with_ports: u32| {
            let octets = |text: &str| text.parse::<Ipv4Addr>().unwrap().octets();
            let mut input = [octets(src), octets(dst)].concat();
            assert_eq!(toeplitz.hash(&input), plain, "{src}");
            input.extend([src_port.to_be_bytes(), dst_port.to_be_bytes()].concat());
            assert_eq!(toeplitz.hash(&input), with_ports, "{src}");
        };
        check("161.142.100.80", 1766, "66.9.149.187", 2794, 0x323e8fc2, 0x51ccc178);
        check("65.69.140.83", 4739, "199.92.111.2", 14230, 0xd718262a, 0xc626b0ea);
        check("12.22.207.184", 38024, "24.19.198.95", 12898, 0xd2d0a5de, 0x5c2b394a);
        check("209.142.163.6", 2217, "38.27.205.30", 48228, 0x82989176, 0xafc7327f);
        check("202.188.127.2", 1303, "153.39.163.191", 44251, 0x5d1809c5, 0x10e828a2);
    }

    #[test]
    fn microsoft_ipv6_vectors() {
        let toeplitz = Toeplitz::new(&MICROSOFT_KEY);
        let check = |dst: &str, dst_port: u16, src: &str, src_port: u16, plain: u32, with_ports: u32| {
            let octets = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
            let mut input = [octets(src), octets(dst)].concat();
            assert_eq!(toeplitz.hash(&input), plain, "{src}");
            input.extend([src_port.to_be_bytes(), dst_port.to_be_bytes()].concat());
            assert_eq!(toeplitz.hash(&input), with_ports, "{src}");
        };
        check("3ffe:2501:200:3::1", 1766, "3ffe:2501:200:1fff::7", 2794, 0x2cc18cd5, 0x40207d3d);
        check("ff02::1", 4739, "3ffe:501:8::260:97ff:fe40:efab", 14230, 0x0f0c461c, 0xdde51bbf);
        check(
            "fe80::200:f8ff:fe21:67cf",
            38024,
            "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
            44251,
            0x4b61e985,
            0x02d1feef,
        );
    }

    #[test]
    fn mix_spreads_single_bits() {
        // Flipping any input bit should flip about half of the output bits.
        for bit in 0..128 {
            let (a, b) = if bit < 64 { (1u64 << bit, 0) } else { (0, 1u64 << (bit - 64)) };
            let flipped = (mix(0x1234, 0x5678, 9) ^ mix(0x1234 ^ a, 0x5678 ^ b, 9)).count_ones();
            assert!((12..=52).contains(&flipped), "bit {bit} flips {flipped}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn tables_agree_with_the_definition(key: [u8; 32], input in proptest::collection::vec(any::<u8>(), 0..=36)) {
            let mut long = [0; TOEPLITZ_KEY_LEN];
            long[..32].copy_from_slice(&key);
            // Shift register form, as Microsoft writes it.
            let mut hash = 0u32;
            for (i, byte) in input.iter().enumerate() {
                for bit in 0..8 {
                    if byte & (0x80 >> bit) != 0 {
                        hash ^= window(&long, 8 * i + bit);
                    }
                }
            }
            prop_assert_eq!(Toeplitz::new(&long).hash(&input), hash);
        }

        #[test]
        fn symmetric_key_is_symmetric(src: u32, dst: u32, sport: u16, dport: u16) {
            static SYMMETRIC: LazyLock<Toeplitz> = LazyLock::new(|| Toeplitz::new(&SYMMETRIC_KEY));
            let toeplitz = &SYMMETRIC;
            let input = |a: u32, b: u32, c: u16, d: u16| [&a.to_be_bytes()[..], &b.to_be_bytes(), &c.to_be_bytes(), &d.to_be_bytes()].concat();
            prop_assert_eq!(toeplitz.hash(&input(src, dst, sport, dport)), toeplitz.hash(&input(dst, src, dport, sport)));
        }
    }
}
