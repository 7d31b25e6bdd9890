// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Internet checksum: full, incremental, and with pseudo-headers.
//!
//! All sums here are *folded ones-complement sums of big-endian 16-bit words*, returned as host numbers, so that
//! `sum.to_be_bytes()` is how they stand in a packet. The checksum field is the complement of such a sum; a region that
//! contains a right checksum sums to `0xffff`.
//!
//! Why native-endian loads are right: swapping the bytes of every word swaps the bytes of the ones-complement sum, and the
//! sum may be taken over wider words and folded later (RFC 1071 section 2, (B) and (C)). So the loop adds 64-bit words as
//! the machine reads them, and swaps once at the end.
//!
//! Adding up 32-bit halves into 64-bit lanes needs no carries, which lets the compiler use vector registers.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::Protocol;

/// Folds a sum of 16-bit words to 16 bits, adding the carries back in.
#[inline(always)]
const fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + sum) as u16
}

/// The folded sum of native-endian words, turned to network order.
#[inline(always)]
const fn finish_native(sum: u64) -> u16 {
    u16::from_be_bytes(fold(sum).to_ne_bytes())
}

/// Both 32-bit halves of a native 64-bit word, added; at most 2^33.
#[inline(always)]
fn halves(word: [u8; 8]) -> u64 {
    let word = u64::from_ne_bytes(word);
    (word & 0xffff_ffff) + (word >> 32)
}

/// Unfolded native-endian sum. Each 8 bytes add less than 2^33, so 2^31 words (16 GiB) cannot overflow.
#[inline]
fn native_sum(data: &[u8]) -> u64 {
    let (blocks, rest) = data.as_chunks::<{ 8 * LANES }>();
    let mut sum = if blocks.is_empty() { 0 } else { blocks_sum(blocks) };
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        sum += halves(*word);
    }
    if rest.is_empty() {
        return sum;
    }
    // RFC 1071 section 4.1: an odd last byte counts as if a zero byte followed.
    let last = match data.last_chunk::<8>() {
        Some(last) => (u64::from_le_bytes(*last) >> (64 - 8 * rest.len())).to_le_bytes(),
        None => {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            last
        }
    };
    sum + halves(last)
}

/// Words that are added up side by side.
const LANES: usize = 8;

/// The same of whole blocks.
fn blocks_sum(blocks: &[[u8; 8 * LANES]]) -> u64 {
    let mut lanes = [0u64; LANES];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane += halves(*word);
        }
    }
    lanes.iter().sum()
}

/// The folded ones-complement sum of so many bytes: without a loop where they are few.
#[inline(always)]
pub fn sum_array<const N: usize>(data: &[u8; N]) -> u16 {
    let (words, rest) = data.as_chunks::<4>();
    let mut sum = 0;
    for word in words {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    finish_native(sum + u64::from(u32::from_ne_bytes(last)))
}

/// The folded ones-complement sum of `data`.
///
/// ```
/// // The example of RFC 1071 section 3.
/// let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
/// assert_eq!(junctor_wire::checksum::sum(&data), 0xddf2);
/// ```
#[inline]
pub fn sum(data: &[u8]) -> u16 {
    finish_native(native_sum(data))
}

/// The Internet checksum of `data`: the complement of its sum (RFC 1071). The field itself must be zero or left out.
#[inline]
pub fn internet(data: &[u8]) -> u16 {
    !sum(data)
}

/// Adds two folded sums in ones-complement arithmetic.
#[inline]
pub const fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16
}

/// A sum taken piece by piece; pieces may have odd lengths, they count as one run of bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    folded: u16,
    odd: bool,
}

impl Sum {
    /// An empty sum.
    #[inline]
    pub const fn new() -> Self {
        Sum { folded: 0, odd: false }
    }

    /// Continues with `data`.
    #[inline]
    #[must_use]
    pub fn bytes(self, data: &[u8]) -> Self {
        let part = sum(data);
        // Bytes at odd positions fall into the other half of their words: RFC 1071 section 2 (B) again.
        let part = if self.odd { part.swap_bytes() } else { part };
        Sum { folded: add(self.folded, part), odd: self.odd ^ (data.len() % 2 == 1) }
    }

    /// The folded sum so far.
    #[inline]
    pub const fn folded(self) -> u16 {
        self.folded
    }

    /// The checksum: the complement.
    #[inline]
    pub const fn checksum(self) -> u16 {
        !self.folded
    }
}

/// The unfolded native sum of an IPv4 header without options: five 32-bit words into 64 bits, no carries, no loop.
#[inline(always)]
fn header20_native(header: &[u8; 20]) -> u64 {
    let word = |at: usize| {
        u64::from(u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]))
    };
    word(0) + word(4) + word(8) + word(12) + word(16)
}

/// The folded sum of a 20-byte header; `0xffff` where its checksum is right.
#[inline]
pub fn header20(header: &[u8; 20]) -> u16 {
    finish_native(header20_native(header))
}

/// Whether the checksum of a 20-byte IPv4 header is right.
#[inline]
pub fn header20_ok(header: &[u8; 20]) -> bool {
    // With carries brought round, a sum of any width keeps its remainder by 0xffff, and so does one of swapped bytes. The
    // header is right when that is none; only zeros sum to zero. Added to itself with the halves exchanged, a sum has in
    // its upper half what the halves add up to, the carry brought round.
    let (Some((first, rest)), Some(last)) = (header.split_first_chunk::<8>(), header.last_chunk::<4>())
    else {
        return false;
    };
    let Some(second) = rest.first_chunk::<8>() else { return false };
    let last = u32::from_ne_bytes(*last);
    let (sum, carry) = u64::from_ne_bytes(*first).overflowing_add(u64::from_ne_bytes(*second));
    let (sum, again) = sum.overflowing_add(u64::from(last) + u64::from(carry));
    // Having overflowed, the sum is small.
    let sum = sum + u64::from(again);
    let half = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    half.wrapping_add(half.rotate_left(16)) >= 0xffff_0000
}

/// The checksum that a 20-byte IPv4 header should carry, regardless of its checksum field now.
#[inline]
pub fn header20_checksum(header: &[u8; 20]) -> u16 {
    let mut copy = *header;
    copy[10] = 0;
    copy[11] = 0;
    !header20(&copy)
}

/// The checksum after a 16-bit word changed from `old` to `new`: RFC 1624 section 3, equation 3,
/// `HC' = ~(~HC + ~m + m')`.
///
/// ```
/// // The example of RFC 1624 section 4, which the older equation of RFC 1141 gets wrong.
/// assert_eq!(junctor_wire::checksum::update16(0xdd2f, 0x5555, 0x3285), 0x0000);
/// ```
#[inline]
pub const fn update16(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(!checksum as u64 + !old as u64 + new as u64)
}

/// The checksum after a 32-bit value (two aligned words, such as an address) changed: RFC 1624, equation 3.
#[inline]
pub const fn update32(checksum: u16, old: u32, new: u32) -> u16 {
    !fold(!checksum as u64 + !old as u64 + new as u64)
}

/// As [`update16`] for a UDP checksum, where zero means "none": zero stays zero, and a result of zero is sent as all ones
/// (RFC 768).
#[inline]
pub const fn update16_udp(checksum: u16, old: u16, new: u16) -> u16 {
    if checksum == 0 { 0 } else { never_zero(update16(checksum, old, new)) }
}

/// As [`update32`] for a UDP checksum; see [`update16_udp`].
#[inline]
pub const fn update32_udp(checksum: u16, old: u32, new: u32) -> u16 {
    if checksum == 0 { 0 } else { never_zero(update32(checksum, old, new)) }
}

/// The form in which UDP sends a checksum: all ones in place of zero (RFC 768).
#[inline]
pub const fn never_zero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

/// Takes one from the TTL of an IPv4 header and updates its checksum, without summing the header again.
///
/// The word changed is `m = TTL, protocol`, so `m' = m - 0x100` and `~m + m' = 0xfeff` always: RFC 1624's equation 3
/// becomes `HC' = ~(~HC + 0xfeff)`. The TTL must not be zero; if it is, it wraps to 255 and the checksum is wrong.
#[inline]
pub fn decrement_ttl(header: &mut [u8; 20]) {
    // `~(~HC + 0xfeff)` is `HC + 0x0100` with the carry brought round, and with the bytes swapped that is plus one.
    let sum = u32::from(u16::from_le_bytes([header[10], header[11]])) + 1;
    let mended = sum + u32::from(sum >= 0xffff);
    header[8] = header[8].wrapping_sub(1);
    [header[10], header[11]] = (mended as u16).to_le_bytes();
}

/// The folded sum of the IPv4 pseudo-header (RFC 768, RFC 9293 section 3.1). `len` is that of the segment in bytes.
#[inline]
pub const fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: Protocol, len: u16) -> u16 {
    fold(src.to_bits() as u64 + dst.to_bits() as u64 + protocol.0 as u64 + len as u64)
}

/// The folded sum of the IPv6 pseudo-header (RFC 8200 section 8.1). `len` is that of the segment in bytes.
#[inline]
pub const fn pseudo_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: Protocol, len: u32) -> u16 {
    add(add(fold_u128(src.to_bits()), fold_u128(dst.to_bits())), fold(protocol.0 as u64 + len as u64))
}

const fn fold_u128(bits: u128) -> u16 {
    add(fold((bits >> 64) as u64), fold(bits as u64))
}

/// The checksum of a TCP, UDP or other segment over IPv4, its checksum field zero. For UDP pass the result through
/// [`never_zero`]. Only the low 16 bits of the segment's length count.
#[inline]
pub fn transport_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: Protocol, segment: &[u8]) -> u16 {
    !add(pseudo_v4(src, dst, protocol, segment.len() as u16), sum(segment))
}

/// The checksum of a segment over IPv6, its checksum field zero.
#[inline]
pub fn transport_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: Protocol, segment: &[u8]) -> u16 {
    !add(pseudo_v6(src, dst, protocol, segment.len() as u32), sum(segment))
}

/// Whether a segment over IPv4 that carries a checksum carries the right one.
#[inline]
pub fn transport_v4_ok(src: Ipv4Addr, dst: Ipv4Addr, protocol: Protocol, segment: &[u8]) -> bool {
    transport_v4(src, dst, protocol, segment) == 0
}

/// Whether a segment over IPv6 that carries a checksum carries the right one.
#[inline]
pub fn transport_v6_ok(src: Ipv6Addr, dst: Ipv6Addr, protocol: Protocol, segment: &[u8]) -> bool {
    transport_v6(src, dst, protocol, segment) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 section 4.1, word by word.
    fn naive_sum(data: &[u8]) -> u16 {
        let mut sum = 0u64;
        for pair in data.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// A header published often (among others in Wikipedia's "Internet checksum"), checksum 0xb861.
    const HEADER: [u8; 20] =
        [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];

    #[test]
    fn published_examples() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2); // RFC 1071 section 3
        assert_eq!(update16(0xdd2f, 0x5555, 0x3285), 0x0000); // RFC 1624 section 4
        assert_eq!(header20_checksum(&HEADER), 0xb861);
        assert_eq!(header20(&HEADER), 0xffff);
        assert!(header20_ok(&HEADER));
        let mut wrong = HEADER;
        wrong[15] ^= 1;
        assert!(!header20_ok(&wrong));
        assert!(!header20_ok(&[0; 20]));
    }

    #[test]
    fn ttl_runs_down_to_zero() {
        let mut header = HEADER;
        for ttl in (0..64).rev() {
            decrement_ttl(&mut header);
            assert_eq!(header[8], ttl);
            assert_eq!(u16::from_be_bytes([header[10], header[11]]), header20_checksum(&header));
        }
    }

    #[test]
    fn long_runs_of_ones_do_not_overflow() {
        for len in [0, 1, 2, 63, 64, 65, 1500, 9216, 65535] {
            let data = vec![0xff; len];
            assert_eq!(sum(&data), naive_sum(&data), "{len}");
        }
    }

    #[test]
    fn udp_zero_means_none() {
        assert_eq!(update16_udp(0, 1, 2), 0);
        assert_eq!(update16_udp(0xdd2f, 0x5555, 0x3285), 0xffff);
    }

    proptest! {
        #[test]
        fn sums_agree_with_the_naive_one(data in proptest::collection::vec(any::<u8>(), 0..400), skip in 0usize..8) {
            let data = &data[skip.min(data.len())..];
            prop_assert_eq!(sum(data), naive_sum(data));
        }

        #[test]
        fn arrays_agree_with_the_naive_one(data: [u8; 32]) {
            fn check<const N: usize>(data: &[u8; 32]) {
                let part = data.first_chunk::<N>().expect("a shorter one");
                assert_eq!(sum_array(part), naive_sum(part), "{N} bytes");
            }
            check::<0>(&data);
            check::<1>(&data);
            check::<2>(&data);
            check::<3>(&data);
            check::<4>(&data);
            check::<18>(&data);
            check::<26>(&data);
            check::<31>(&data);
        }

        #[test]
        fn pieces_sum_like_the_whole(data in proptest::collection::vec(any::<u8>(), 0..200), a in 0usize..200, b in 0usize..200) {
            let (a, b) = (a.min(b).min(data.len()), a.max(b).min(data.len()));
            let pieces = Sum::new().bytes(&data[..a]).bytes(&data[a..b]).bytes(&data[b..]);
            prop_assert_eq!(pieces.folded(), naive_sum(&data));
        }

        #[test]
        fn header20_agrees(header: [u8; 20]) {
            prop_assert_eq!(header20(&header), naive_sum(&header));
            prop_assert_eq!(header20_ok(&header), naive_sum(&header) == 0xffff);
        }

        #[test]
        fn updates_agree_with_summing_again(mut header: [u8; 20], word in 0usize..8, new: u16, addr: u32) {
            header[0] = 0x45; // a sum of zero words alone cannot occur in a real header
            let set = |header: &mut [u8; 20]| {
                let checksum = header20_checksum(header);
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
                checksum
            };
            let before = set(&mut header);
            let at = [0, 2, 4, 6, 8, 12, 14, 18][word];
            let old = u16::from_be_bytes([header[at], header[at + 1]]);
            let mut changed = header;
            changed[at..at + 2].copy_from_slice(&new.to_be_bytes());
            if at != 0 || new != 0 {
                prop_assert_eq!(update16(before, old, new), set(&mut changed));
            }
            let old = u32::from_be_bytes(header[16..20].try_into().unwrap());
            let mut changed = header;
            changed[16..20].copy_from_slice(&addr.to_be_bytes());
            prop_assert_eq!(update32(before, old, addr), set(&mut changed));
            if header[8] > 0 {
                let mut changed = header;
                decrement_ttl(&mut changed);
                prop_assert_eq!(u16::from_be_bytes([changed[10], changed[11]]), header20_checksum(&changed));
            }
        }

        #[test]
        fn pseudo_headers_agree(src: [u8; 16], dst: [u8; 16], protocol: u8, len: u16) {
            let v6 = [&src[..], &dst, &[0, 0], &len.to_be_bytes(), &[0, 0, 0, protocol]].concat();
            prop_assert_eq!(pseudo_v6(src.into(), dst.into(), Protocol(protocol), len.into()), naive_sum(&v6));
            let (src, dst): ([u8; 4], [u8; 4]) = (src[..4].try_into().unwrap(), dst[..4].try_into().unwrap());
            let v4 = [&src[..], &dst, &[0, protocol], &len.to_be_bytes()].concat();
            prop_assert_eq!(pseudo_v4(src.into(), dst.into(), Protocol(protocol), len), naive_sum(&v4));
        }
    }
}
