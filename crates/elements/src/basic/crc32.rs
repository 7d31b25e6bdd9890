// SPDX-License-Identifier: MIT OR Apache-2.0
//! # SetCRC32, CheckCRC32
//!
//! `SetCRC32()`
//! `CheckCRC32()`
//!
//! SetCRC32 appends a checksum of 4 bytes to each packet. CheckCRC32 lets packets pass that end with the right one, and
//! takes it off.
//!
//! It is Click's checksum: Ethernet's polynomial, but with the bits of each byte taken from the highest on and without
//! a final complement (known as CRC-32/MPEG-2), and its lowest byte comes first. It is not the frame check sequence that
//! Ethernet devices append.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Drops:** SetCRC32: `no-memory`. CheckCRC32: `bad-checksum`; `too-short`, packets of less than 4 bytes.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> SetCRC32 -> RandomBitErrors(0.01) -> CheckCRC32 -> Discard;
//! ```
//!
//! See also: RandomBitErrors, SetIPChecksum

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::{Batch, Packet};

/// The descriptor of the element that appends.
pub const SET: Class = Class::new("SetCRC32", "1/1", || Box::new(SetCrc32)).pure().file(file!());
/// The descriptor of the element that checks.
pub const CHECK: Class = Class::new("CheckCRC32", "1/1", || Box::new(CheckCrc32)).pure().file(file!());

const POLYNOMIAL: u32 = 0x04c1_1db7;

/// Remainders of a byte that is followed by `n` zero bytes, for n from 0 to 3: four bytes are folded in at a time
/// (Kounavis and Berry, "A systematic approach to building high performance, software-based, CRC generators", 2005).
static TABLES: [[u32; 256]; 4] = tables();

const fn tables() -> [[u32; 256]; 4] {
    let mut tables = [[0; 256]; 4];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut n) = ((byte as u32) << 24, 0);
        while n < 4 {
            let mut bit = 0;
            while bit < 8 {
                crc = if crc >> 31 == 1 { crc << 1 ^ POLYNOMIAL } else { crc << 1 };
                bit += 1;
            }
            tables[n][byte] = crc;
            n += 1;
        }
        byte += 1;
    }
    tables
}

/// The checksum of `bytes`.
fn crc32(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<4>();
    let crc = words.iter().fold(u32::MAX, |crc, word| {
        let [a, b, c, d] = (crc ^ u32::from_be_bytes(*word)).to_be_bytes().map(usize::from);
        TABLES[3][a] ^ TABLES[2][b] ^ TABLES[1][c] ^ TABLES[0][d]
    });
    rest.iter().fold(crc, |crc, byte| crc << 8 ^ TABLES[0][usize::from((crc >> 24) as u8 ^ byte)])
}

struct SetCrc32;

impl Element for SetCrc32 {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let append = |p: &mut Packet| {
            let crc = crc32(p.data()).to_le_bytes();
            p.put(4).and_then(|bytes| bytes.last_chunk_mut()).map(|end| *end = crc).is_some()
        };
        batch.partition(append, |p| cx.drop(Reason::NoMemory, p));
        batch
    }
}

struct CheckCrc32;

impl Element for CheckCrc32 {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let check = |p: &mut Packet| match p.data().split_last_chunk::<4>() {
            Some((bytes, crc)) if u32::from_le_bytes(*crc) == crc32(bytes) => {
                p.trim(4);
                true
            }
            _ => false,
        };
        batch.partition(check, |p| {
            let reason = if p.len() < 4 { Reason::TooShort } else { Reason::BadChecksum };
            cx.drop(reason, p);
        });
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    /// The definition, bit by bit.
    fn slow(bytes: &[u8]) -> u32 {
        let bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
        bits.fold(u32::MAX, |crc, bit| {
            let out = (crc >> 31) as u8 ^ bit;
            crc << 1 ^ if out == 1 { POLYNOMIAL } else { 0 }
        })
    }

    #[test]
    fn the_checksum_is_the_published_one() {
        // The check value of CRC-32/MPEG-2 in Greg Cook's catalogue of parametrised CRC algorithms.
        assert_eq!(crc32(b"123456789"), 0x0376_e6e7);
        let bytes: Vec<u8> = (0..70u32).map(|i| (i * 37) as u8).collect();
        for len in 0..bytes.len() {
            assert_eq!(crc32(&bytes[..len]), slow(&bytes[..len]), "{len}");
        }
    }

    #[test]
    fn appends_and_takes_off() {
        for burst in [1, 32] {
            let inputs: [&[u8]; 3] = [b"123456789", b"", b"x"];
            let run = Rig::new("SetCRC32").burst(burst).inputs(&inputs).run();
            let sealed = run.bytes("o0");
            assert_eq!(sealed[0], *b"123456789\xe7\xe6\x76\x03");
            assert_eq!(sealed[1], [0xff; 4]);
            let mut wrong = sealed[0].clone();
            wrong[3] ^= 1;
            let all: Vec<&[u8]> = sealed.iter().map(Vec::as_slice).chain([&wrong[..], b"abc"]).collect();
            let run = Rig::new("CheckCRC32").burst(burst).inputs(&all).run();
            assert_eq!(run.bytes("o0"), inputs);
            assert_eq!(run.drops("e"), [(Reason::TooShort, 1), (Reason::BadChecksum, 1)]);
        }
    }
}
