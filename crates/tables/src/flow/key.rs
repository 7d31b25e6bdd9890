// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys of flows, of IPv4 and of IPv6.

use std::fmt;

use crate::hash::hash128;

/// What distinguishes flows. All fields in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowKey {
    /// IPv4 source address.
    pub src: u32,
    /// IPv4 destination address.
    pub dst: u32,
    /// Source port; for ICMP the identifier.
    pub sport: u16,
    /// Destination port; for ICMP the identifier or 0.
    pub dport: u16,
    /// IP protocol.
    pub proto: u8,
    /// Keeps equal addresses of separate worlds apart; 0 where there is one.
    pub zone: u16,
}

impl std::hash::Hash for FlowKey {
    /// Two words at once; field by field costs several times as much.
    #[inline]
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        let [addresses, ports] = self.words();
        state.write_u64(addresses);
        state.write_u64(ports);
    }
}

impl FlowKey {
    /// The key of packets going back, if nobody translates.
    #[inline]
    pub const fn reversed(self) -> Self {
        Self { src: self.dst, dst: self.src, sport: self.dport, dport: self.sport, ..self }
    }

    #[inline(always)]
    fn words(self) -> [u64; 2] {
        let addresses = u64::from(self.src) << 32 | u64::from(self.dst);
        let ports = u64::from(self.sport) << 48 | u64::from(self.dport) << 32;
        [addresses, ports | u64::from(self.zone) << 8 | u64::from(self.proto)]
    }

    #[inline(always)]
    fn from_words([addresses, ports]: [u64; 2]) -> Self {
        Self {
            src: (addresses >> 32) as u32,
            dst: addresses as u32,
            sport: (ports >> 48) as u16,
            dport: (ports >> 32) as u16,
            proto: ports as u8,
            zone: (ports >> 8) as u16,
        }
    }
}

/// What distinguishes flows: [`FlowKey`] for IPv4, [`FlowKey6`] for IPv6.
pub trait Key: Copy + Eq + fmt::Debug {
    /// The key as it is kept.
    type Words: Copy + PartialEq + Default;

    /// The key in words.
    fn words(self) -> Self::Words;

    /// The key of these words.
    fn from_words(words: Self::Words) -> Self;

    /// A hash of the words.
    fn hash(seed: u64, words: Self::Words) -> u64;

    /// Whether two keys are the same, without branches.
    fn is_same(one: Self::Words, other: Self::Words) -> bool;
}

impl Key for FlowKey {
    type Words = [u64; 2];

    #[inline(always)]
    fn words(self) -> [u64; 2] {
        self.words()
    }

    #[inline(always)]
    fn from_words(words: [u64; 2]) -> FlowKey {
        FlowKey::from_words(words)
    }

    #[inline(always)]
    fn hash(seed: u64, words: [u64; 2]) -> u64 {
        hash128(seed, words[0], words[1])
    }

    #[inline(always)]
    fn is_same(one: [u64; 2], other: [u64; 2]) -> bool {
        (one[0] ^ other[0]) | (one[1] ^ other[1]) == 0
    }
}

/// What distinguishes flows of IPv6. All fields in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey6 {
    /// IPv6 source address.
    pub src: u128,
    /// IPv6 destination address.
    pub dst: u128,
    /// Source port; for ICMP the identifier.
    pub sport: u16,
    /// Destination port; for ICMP the identifier or 0.
    pub dport: u16,
    /// IP protocol.
    pub proto: u8,
    /// Keeps equal addresses of separate worlds apart; 0 where there is one.
    pub zone: u16,
}

impl FlowKey6 {
    /// The key of packets going back, if nobody translates.
    #[inline]
    pub const fn reversed(self) -> Self {
        Self { src: self.dst, dst: self.src, sport: self.dport, dport: self.sport, ..self }
    }
}

impl Key for FlowKey6 {
    type Words = [u64; 5];

    #[inline(always)]
    fn words(self) -> [u64; 5] {
        let ports = u64::from(self.sport) << 48 | u64::from(self.dport) << 32;
        let [src, dst] = [self.src, self.dst].map(|address| [(address >> 64) as u64, address as u64]);
        [src[0], src[1], dst[0], dst[1], ports | u64::from(self.zone) << 8 | u64::from(self.proto)]
    }

    #[inline(always)]
    fn from_words(words: [u64; 5]) -> FlowKey6 {
        let address = |at: usize| u128::from(words[at]) << 64 | u128::from(words[at + 1]);
        let rest = words[4];
        FlowKey6 {
            src: address(0),
            dst: address(2),
            sport: (rest >> 48) as u16,
            dport: (rest >> 32) as u16,
            proto: rest as u8,
            zone: (rest >> 8) as u16,
        }
    }

    #[inline(always)]
    fn hash(seed: u64, words: [u64; 5]) -> u64 {
        hash128(hash128(hash128(seed, words[0], words[1]), words[2], words[3]), words[4], 0)
    }

    #[inline(always)]
    fn is_same(one: [u64; 5], other: [u64; 5]) -> bool {
        one.iter().zip(other).fold(0, |differing, (one, other)| differing | (one ^ other)) == 0
    }
}
