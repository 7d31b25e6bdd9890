// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flow keys: the five numbers by which packets belong together, taken straight from a packet's bytes.
//!
//! Fragments: only the first carries ports. [`FlowKey::from_ipv4`] leaves the ports of later fragments zero and says so;
//! [`FlowKey::for_steering`] leaves them zero for *all* fragments, so that one packet's fragments stay on one core.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::hash::{Toeplitz, mix};
use crate::header::load_at;
use crate::{Protocol, ipv4, ipv6};

/// An IPv4 flow. Ports are zero for protocols that have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Protocol.
    pub proto: Protocol,
}

impl FlowKey {
    /// The flow of the IPv4 packet at the front of `packet`; `None` where the header is not IPv4 or not whole, or where a
    /// packet that should carry ports ends before them.
    ///
    /// Ports are read from whole packets and first fragments of TCP, UDP, SCTP, DCCP and UDP-Lite.
    #[inline]
    pub fn from_ipv4(packet: &[u8]) -> Option<FlowKey> {
        let header = ipv4::Header::from_chunk(packet.first_chunk()?);
        Self::extract(packet, header, header.is_first_fragment())
    }

    /// As [`from_ipv4`](Self::from_ipv4), but with zero ports for every fragment, the first included.
    #[inline]
    pub fn for_steering(packet: &[u8]) -> Option<FlowKey> {
        let header = ipv4::Header::from_chunk(packet.first_chunk()?);
        Self::extract(packet, header, !header.is_fragment())
    }

    #[inline(always)]
    fn extract(packet: &[u8], header: ipv4::Header<'_>, ports_present: bool) -> Option<FlowKey> {
        let proto = header.protocol();
        let start = header.header_len();
        if header.version() != 4 || start < ipv4::HEADER_LEN {
            return None;
        }
        let (sport, dport) = match ports_present && proto.has_ports() {
            true => ports(packet, start)?,
            false => (0, 0),
        };
        Some(FlowKey { src: header.src(), dst: header.dst(), sport, dport, proto })
    }

    /// The flow in the other direction.
    #[inline]
    #[must_use]
    pub fn reversed(self) -> FlowKey {
        FlowKey { src: self.dst, dst: self.src, sport: self.dport, dport: self.sport, proto: self.proto }
    }

    /// Addresses in one word and ports with protocol in another: an exact key for tables.
    #[inline]
    pub fn to_words(self) -> [u64; 2] {
        let addresses = u64::from(self.src.to_bits()) << 32 | u64::from(self.dst.to_bits());
        let ports = u64::from(self.sport) << 32 | u64::from(self.dport) << 16 | u64::from(self.proto.0);
        [addresses, ports]
    }

    /// A quick hash; `seed` differs between tables.
    #[inline]
    pub fn quick_hash(self, seed: u64) -> u64 {
        let [addresses, ports] = self.to_words();
        mix(addresses, ports, seed)
    }

    /// A quick hash that both directions share.
    #[inline]
    pub fn symmetric_hash(self, seed: u64) -> u64 {
        let (a, b) = (self.src.to_bits(), self.dst.to_bits());
        let a = u64::from(a) << 16 | u64::from(self.sport);
        let b = u64::from(b) << 16 | u64::from(self.dport);
        mix(a.min(b), a.max(b) << 8 | u64::from(self.proto.0), seed)
    }

    /// The hash that a network card computes for receive side scaling: over addresses and ports where the protocol has
    /// ports, else over addresses alone.
    #[inline]
    pub fn toeplitz(self, toeplitz: &Toeplitz) -> u32 {
        let mut input = [0; 12];
        input[..4].copy_from_slice(&self.src.octets());
        input[4..8].copy_from_slice(&self.dst.octets());
        input[8..10].copy_from_slice(&self.sport.to_be_bytes());
        input[10..].copy_from_slice(&self.dport.to_be_bytes());
        // Zero bytes add nothing, so zero ports hash as no ports.
        toeplitz.hash(&input)
    }
}

impl fmt::Display for FlowKey {
    /// As Click prints flow identifiers: `(10.0.0.1, 1025, 10.0.0.2, 80)`, here with the protocol in front.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {}, {}, {})", self.proto, self.src, self.sport, self.dst, self.dport)
    }
}

/// An IPv6 flow. Ports are zero for protocols that have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey6 {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Upper-layer protocol, behind the extension headers.
    pub proto: Protocol,
}

impl FlowKey6 {
    /// The flow of the IPv6 packet at the front of `packet`; `None` where the header is not IPv6 or not whole, the
    /// extension headers are malformed, or a packet that should carry ports ends before them.
    pub fn from_ipv6(packet: &[u8]) -> Option<FlowKey6> {
        Self::extract(packet, false)
    }

    /// As [`from_ipv6`](Self::from_ipv6), but with zero ports for every fragment, the first included.
    pub fn for_steering(packet: &[u8]) -> Option<FlowKey6> {
        Self::extract(packet, true)
    }

    fn extract(packet: &[u8], fragments_without_ports: bool) -> Option<FlowKey6> {
        let header = ipv6::Header::from_chunk(packet.first_chunk()?);
        if header.version() != 6 {
            return None;
        }
        let upper = ipv6::upper_layer(header.next_header(), packet.get(ipv6::HEADER_LEN..)?).ok()?;
        let ports_present = match upper.fragment {
            Some(fragment) => fragment.offset == 0 && !fragments_without_ports,
            None => true,
        };
        let (sport, dport) = match ports_present && upper.protocol.has_ports() {
            true => ports(packet, ipv6::HEADER_LEN + upper.offset)?,
            false => (0, 0),
        };
        Some(FlowKey6 { src: header.src(), dst: header.dst(), sport, dport, proto: upper.protocol })
    }

    /// The flow in the other direction.
    #[must_use]
    pub fn reversed(self) -> FlowKey6 {
        FlowKey6 { src: self.dst, dst: self.src, sport: self.dport, dport: self.sport, proto: self.proto }
    }

    /// A quick hash; `seed` differs between tables.
    #[inline]
    pub fn quick_hash(self, seed: u64) -> u64 {
        let ports = u64::from(self.sport) << 32 | u64::from(self.dport) << 16 | u64::from(self.proto.0);
        mix6(self.dst.to_bits(), mix6(self.src.to_bits(), mix(ports, 0, seed)))
    }

    /// A quick hash that both directions share.
    #[inline]
    pub fn symmetric_hash(self, seed: u64) -> u64 {
        let (a, b) = ((self.src.to_bits(), self.sport), (self.dst.to_bits(), self.dport));
        let (first, second) = (a.min(b), a.max(b));
        let ports = u64::from(first.1) << 32 | u64::from(second.1) << 16 | u64::from(self.proto.0);
        mix6(second.0, mix6(first.0, mix(ports, 0, seed)))
    }

    /// The hash that a network card computes for receive side scaling.
    pub fn toeplitz(self, toeplitz: &Toeplitz) -> u32 {
        let mut input = [0; 36];
        input[..16].copy_from_slice(&self.src.octets());
        input[16..32].copy_from_slice(&self.dst.octets());
        input[32..34].copy_from_slice(&self.sport.to_be_bytes());
        input[34..].copy_from_slice(&self.dport.to_be_bytes());
        toeplitz.hash(&input)
    }
}

impl fmt::Display for FlowKey6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {}, {}, {})", self.proto, self.src, self.sport, self.dst, self.dport)
    }
}

#[inline]
fn mix6(address: u128, seed: u64) -> u64 {
    mix((address >> 64) as u64, address as u64, seed)
}

/// The two 16-bit words at `at`; `None` where the packet ends before them.
#[inline(always)]
fn ports(packet: &[u8], at: usize) -> Option<(u16, u16)> {
    let bytes: &[u8; 4] = packet.get(at..)?.first_chunk()?;
    Some((load_at(bytes, 0), load_at(bytes, 2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{MICROSOFT_KEY, SYMMETRIC_KEY};
    use proptest::prelude::*;
    use std::sync::LazyLock;

    static SYMMETRIC: LazyLock<Toeplitz> = LazyLock::new(|| Toeplitz::new(&SYMMETRIC_KEY));

    fn packet(protocol: Protocol, fragment: u16, payload: &[u8]) -> Vec<u8> {
        let repr = ipv4::Repr {
            src: Ipv4Addr::new(66, 9, 149, 187),
            dst: Ipv4Addr::new(161, 142, 100, 80),
            protocol,
            payload_len: payload.len() as u16,
            fragment,
            ..Default::default()
        };
        let mut bytes = vec![0; ipv4::HEADER_LEN];
        repr.emit(&mut bytes).unwrap();
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn ports_are_read_where_they_are() {
        let check =
            |protocol, fragment, payload: &[u8], exact: Option<(u16, u16)>, steering: Option<(u16, u16)>| {
                let bytes = packet(protocol, fragment, payload);
                let ports = |key: FlowKey| (key.sport, key.dport);
                assert_eq!(FlowKey::from_ipv4(&bytes).map(ports), exact, "{protocol} {fragment:#x}");
                assert_eq!(FlowKey::for_steering(&bytes).map(ports), steering, "{protocol} {fragment:#x}");
            };
        let ports = [0x0a, 0xea, 0x06, 0xe6];
        let (some, none) = (Some((2794, 1766)), Some((0, 0)));
        check(Protocol::UDP, 0, &ports, some, some);
        check(Protocol::TCP, ipv4::FLAG_DF, &ports, some, some);
        check(Protocol::TCP, ipv4::FLAG_MF, &ports, some, none);
        check(Protocol::TCP, ipv4::FLAG_MF | 5, &ports, none, none);
        check(Protocol::TCP, 5, &ports, none, none);
        check(Protocol::ICMP, 0, &ports, none, none);
        check(Protocol::UDP, 0, &ports[..3], None, None);
        assert_eq!(FlowKey::from_ipv4(&[0x45; 19]), None);
        assert_eq!(FlowKey::from_ipv4(&[0x65; 40]), None);
        assert_eq!(FlowKey::from_ipv4(&[0x44; 40]), None);
    }

    #[test]
    fn microsoft_vector_from_bytes() {
        let key = FlowKey::from_ipv4(&packet(Protocol::TCP, 0, &[0x0a, 0xea, 0x06, 0xe6])).unwrap();
        assert_eq!(key.toeplitz(&Toeplitz::new(&MICROSOFT_KEY)), 0x51ccc178);
        assert_eq!(key.to_string(), "tcp (66.9.149.187, 2794, 161.142.100.80, 1766)");
        let icmp = FlowKey::from_ipv4(&packet(Protocol::ICMP, 0, &[])).unwrap();
        assert_eq!(icmp.toeplitz(&Toeplitz::new(&MICROSOFT_KEY)), 0x323e8fc2);
    }

    #[test]
    fn quick_hash_fills_buckets_evenly() {
        // 65536 flows that differ in a few low bits only, into 256 buckets by low and by high bits.
        for shift in [0, 56] {
            let mut buckets = [0u32; 256];
            for i in 0..65536u32 {
                let (port, host) = ((i & 0xff) as u16, i >> 8);
                let key = FlowKey {
                    src: (0x0a00_0000 + host).into(),
                    dst: Ipv4Addr::new(10, 1, 0, 1),
                    sport: 1024 + port,
                    dport: 80,
                    proto: Protocol::TCP,
                };
                buckets[(key.quick_hash(7) >> shift) as usize & 0xff] += 1;
            }
            // Chi-squared with 255 degrees of freedom: mean 255, standard deviation 22.6.
            let chi2: f64 = buckets.iter().map(|&n| (f64::from(n) - 256.0).powi(2) / 256.0).sum();
            assert!(chi2 < 255.0 + 6.0 * 22.6, "shift {shift}: {chi2}");
        }
    }

    proptest! {
        #[test]
        fn directions_share_symmetric_hashes(src: u32, dst: u32, sport: u16, dport: u16, proto: u8) {
            let key = FlowKey { src: src.into(), dst: dst.into(), sport, dport, proto: Protocol(proto) };
            prop_assert_eq!(key.symmetric_hash(1), key.reversed().symmetric_hash(1));
            prop_assert_eq!(key.reversed().reversed(), key);
            let toeplitz = &SYMMETRIC;
            prop_assert_eq!(key.toeplitz(toeplitz), key.reversed().toeplitz(toeplitz));
        }

        #[test]
        fn directions_share_symmetric_hashes6(src: u128, dst: u128, sport: u16, dport: u16, proto: u8) {
            let key = FlowKey6 { src: src.into(), dst: dst.into(), sport, dport, proto: Protocol(proto) };
            prop_assert_eq!(key.symmetric_hash(1), key.reversed().symmetric_hash(1));
            let toeplitz = &SYMMETRIC;
            prop_assert_eq!(key.toeplitz(toeplitz), key.reversed().toeplitz(toeplitz));
        }
    }
}
