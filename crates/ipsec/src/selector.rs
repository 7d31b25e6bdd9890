// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a packet is to policies, and which packets a policy is about (RFC 4301, 4.4.1.1).

use std::net::IpAddr;
use std::ops::RangeInclusive;

use wire::{Prefix, Protocol, ipv4, ipv6};

/// What policies look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// The protocol behind the IP headers.
    pub protocol: Protocol,
    /// Source and destination port, or ICMP type and code. `None` in fragments but the first, and where the protocol has none.
    pub ports: Option<(u16, u16)>,
}

impl Flow {
    /// Reads it from the packet at the front of `packet`. `None` if that is no whole IP header, or its ports are missing.
    // Inlined where it is used: a copy of what was just written in small pieces waits until they have left the processor.
    #[inline(always)]
    pub fn read(packet: &[u8]) -> Option<Flow> {
        match packet.first()? >> 4 {
            4 => Flow::read4(packet),
            6 => Flow::read6(packet),
            _ => None,
        }
    }

    #[inline(always)]
    fn read4(packet: &[u8]) -> Option<Flow> {
        let header = ipv4::Header::from_chunk(packet.first_chunk()?);
        let at = header.header_len();
        if at < ipv4::HEADER_LEN {
            return None;
        }
        let protocol = header.protocol();
        let ports = ports(packet, at, (protocol, Protocol::ICMP), header.is_first_fragment())?;
        Some(Flow { src: header.src().into(), dst: header.dst().into(), protocol, ports })
    }

    #[inline(never)]
    fn read6(packet: &[u8]) -> Option<Flow> {
        let header = ipv6::Header::from_chunk(packet.first_chunk()?);
        let upper = ipv6::upper_layer(header.next_header(), packet.get(ipv6::HEADER_LEN..)?).ok()?;
        let is_first = upper.fragment.is_none_or(|fragment| fragment.offset == 0);
        let ports =
            ports(packet, ipv6::HEADER_LEN + upper.offset, (upper.protocol, Protocol::ICMPV6), is_first)?;
        Some(Flow { src: header.src().into(), dst: header.dst().into(), protocol: upper.protocol, ports })
    }

    /// Whether it is of IPv6.
    pub fn is_six(&self) -> bool {
        self.dst.is_ipv6()
    }

    /// Whether it is of a later fragment, so that its ports are unknown, or even its protocol.
    #[inline]
    pub fn lacks_ports(&self) -> bool {
        self.ports.is_none()
            && (self.protocol.has_ports()
                || self.protocol == if self.is_six() { Protocol::ICMPV6 } else { Protocol::ICMP }
                || self.lacks_protocol())
    }

    /// Whether it is of a later fragment behind whose first part there are extension headers, before the protocol's.
    #[inline]
    fn lacks_protocol(&self) -> bool {
        self.is_six() && ipv6::is_extension(self.protocol)
    }
}

/// The ports of what begins at byte `at`, or type and code of the family's `icmp`. `Some(None)` where it has none, `None` where they are cut off.
#[inline(always)]
fn ports(
    packet: &[u8],
    at: usize,
    (protocol, icmp): (Protocol, Protocol),
    is_first: bool,
) -> Option<Option<(u16, u16)>> {
    let upper = packet.get(at..);
    Some(match protocol {
        _ if !is_first => None,
        _ if protocol == icmp => {
            let &[kind, code] = upper?.first_chunk()?;
            Some((kind.into(), code.into()))
        }
        _ if protocol.has_ports() => {
            let &[src, src_low, dst, dst_low] = upper?.first_chunk()?;
            Some((u16::from_be_bytes([src, src_low]), u16::from_be_bytes([dst, dst_low])))
        }
        _ => None,
    })
}

/// Which packets a policy or an association is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    /// Source addresses.
    pub src: Prefix,
    /// Destination addresses, of the same family.
    pub dst: Prefix,
    /// The protocol; `None` for any.
    pub protocol: Option<Protocol>,
    /// Source ports, or ICMP types. A packet without ports is only in the whole range.
    pub sports: RangeInclusive<u16>,
    /// Destination ports, or ICMP codes.
    pub dports: RangeInclusive<u16>,
}

/// Every port.
pub const ANY_PORT: RangeInclusive<u16> = 0..=u16::MAX;

impl Selector {
    /// All packets between two prefixes.
    pub fn between(src: Prefix, dst: Prefix) -> Selector {
        Selector { src, dst, protocol: None, sports: ANY_PORT, dports: ANY_PORT }
    }

    /// Whether a packet is one of them.
    pub fn contains(&self, flow: &Flow) -> bool {
        self.src.contains(flow.src) && self.dst.contains(flow.dst) && self.contains_upper(flow)
    }

    /// The same, of a packet whose addresses are.
    #[inline]
    pub fn contains_upper(&self, flow: &Flow) -> bool {
        let ports = |range: &RangeInclusive<u16>, port: Option<u16>| match port {
            Some(port) => range.contains(&port),
            None => *range == ANY_PORT,
        };
        self.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && ports(&self.sports, flow.ports.map(|(src, _)| src))
            && ports(&self.dports, flow.ports.map(|(_, dst)| dst))
    }

    /// Whether a packet without ports, whose addresses are, could be one of them if it had.
    pub fn could_contain_upper(&self, flow: &Flow) -> bool {
        flow.lacks_ports()
            && (flow.lacks_protocol() || self.protocol.is_none_or(|protocol| protocol == flow.protocol))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str, len: u8) -> Prefix {
        Prefix::new(text.parse().unwrap(), len).unwrap()
    }

    fn udp4(fragment: u16) -> Vec<u8> {
        let mut bytes = vec![0; 28];
        let repr = ipv4::Repr {
            src: [10, 1, 0, 1].into(),
            dst: [10, 2, 0, 1].into(),
            protocol: Protocol::UDP,
            payload_len: 8,
            ttl: 64,
            tos: 0,
            id: 1,
            fragment,
        };
        repr.emit(&mut bytes).unwrap();
        bytes[20..24].copy_from_slice(&[0x12, 0x34, 0, 53]);
        bytes
    }

    proptest::proptest! {
        /// Another reader of the same packets.
        #[test]
        fn it_reads_what_flow_keys_read(mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..80), is_six: bool) {
            use wire::flow::{FlowKey, FlowKey6};
            if let Some(first) = bytes.first_mut() {
                *first = if is_six { 0x60 } else { 0x40 | *first & 0xf };
            }
            let key = match is_six {
                false => FlowKey::from_ipv4(&bytes).map(|k| (k.src.into(), k.dst.into(), k.proto, (k.sport, k.dport))),
                true => FlowKey6::from_ipv6(&bytes).map(|k| (k.src.into(), k.dst.into(), k.proto, (k.sport, k.dport))),
            };
            let is_icmp = |protocol| matches!(protocol, Protocol::ICMP | Protocol::ICMPV6);
            match Flow::read(&bytes) {
                Some(flow) => {
                    let ports = flow.ports.filter(|_| !is_icmp(flow.protocol)).unwrap_or_default();
                    proptest::prop_assert_eq!(key, Some((flow.src, flow.dst, flow.protocol, ports)));
                }
                // Type and code of ICMP may be cut off.
                None => proptest::prop_assert!(key.is_none_or(|(_, _, protocol, _): (IpAddr, IpAddr, _, _)| is_icmp(protocol))),
            }
        }
    }

    #[test]
    fn ports_are_those_of_whole_packets_and_first_fragments() {
        let flow = Flow::read(&udp4(0)).unwrap();
        assert_eq!((flow.protocol, flow.ports), (Protocol::UDP, Some((0x1234, 53))));
        assert_eq!(Flow::read(&udp4(ipv4::FLAG_MF)).unwrap().ports, Some((0x1234, 53)));
        let later = Flow::read(&udp4(1)).unwrap();
        assert_eq!(later.ports, None);
        let mut selector = Selector::between(prefix("10.1.0.0", 16), prefix("10.2.0.0", 16));
        assert!(selector.contains(&flow) && selector.contains(&later));
        selector.protocol = Some(Protocol::UDP);
        assert!(selector.contains(&flow) && selector.contains(&later));
        selector.dports = 53..=53;
        assert!(selector.contains(&flow) && !selector.contains(&later), "its ports are unknown");
        selector.sports = 1..=9;
        assert!(!selector.contains(&flow));
        assert_eq!(Flow::read(&udp4(0)[..22]), None, "cut off before its ports");
        assert_eq!(Flow::read(&[0x50; 40]), None);
    }
}
