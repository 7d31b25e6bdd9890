// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements of IPv6 forwarding.

use std::net::Ipv6Addr;

use element::args::{FromArg, Names};

mod address_translator;
mod check_icmp6_header;
pub(crate) mod check_ip6_header;
pub(crate) mod check_ip6_scope;
pub(crate) mod dec_ip6_hlim;
pub(crate) mod get_ip6_address;
mod icmp6_error;
mod icmp6_ping_responder;
mod ip6_encap;
mod ip6_extensions;
pub(crate) mod ip6_fragmenter;
pub(crate) mod ip6_hop_by_hop;
mod ip6_mirror;
mod ip6_nd;
mod ip6_nd_advertiser;
mod ip6_nd_router_advertiser;
mod ip6_nd_router_check;
pub(crate) mod ip6_nd_solicitor;
mod ip6_nd_table;
mod ip6_print;
mod ip6_reassembler;
mod mark_ip6_header;
mod nptv6;
mod options;
mod protocol_translator;
mod set_ip6_address;
mod set_ip6_field;
pub(crate) mod siit;
mod store_ip6_address;
mod translated_icmp;

/// The classes of this kind.
// One line each, so that changes to this list merge.
#[rustfmt::skip]
pub static CLASSES: &[element::Class] = &[
    address_translator::CLASS,
    check_icmp6_header::CLASS,
    check_ip6_header::CLASS,
    check_ip6_scope::CLASS,
    dec_ip6_hlim::CLASS,
    get_ip6_address::CLASS,
    icmp6_error::CLASS,
    icmp6_ping_responder::CLASS,
    ip6_encap::CLASS,
    ip6_extensions::CLASS,
    ip6_fragmenter::CLASS,
    ip6_hop_by_hop::CLASS,
    ip6_mirror::CLASS,
    ip6_nd_advertiser::CLASS,
    ip6_nd_router_advertiser::CLASS,
    ip6_nd_router_check::CLASS,
    ip6_nd_solicitor::CLASS,
    ip6_nd_table::CLASS,
    ip6_print::CLASS,
    ip6_reassembler::CLASS,
    mark_ip6_header::CLASS,
    nptv6::CLASS,
    protocol_translator::TO_IP4,
    protocol_translator::TO_IP6,
    set_ip6_address::CLASS,
    set_ip6_field::DSCP,
    set_ip6_field::ECN,
    set_ip6_field::FLOW_LABEL,
    set_ip6_field::HLIM,
    store_ip6_address::CLASS,
];

/// Bytes of the fixed header.
pub(crate) const HEADER_LEN: usize = wire::ipv6::HEADER_LEN;

/// An address argument that must be given; `::` until then.
#[derive(Clone, Copy)]
pub(crate) struct Address(pub(crate) Ipv6Addr);

impl Default for Address {
    fn default() -> Self {
        Address(Ipv6Addr::UNSPECIFIED)
    }
}

impl FromArg for Address {
    const EXPECTED: &'static str = Ipv6Addr::EXPECTED;

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        Ipv6Addr::from_arg(text, names).map(Address)
    }
}

/// A list of addresses, separated by spaces.
#[derive(Clone, Default)]
pub(crate) struct Addresses(pub(crate) Vec<Ipv6Addr>);

impl FromArg for Addresses {
    const EXPECTED: &'static str = "a list of IPv6 addresses";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        let text = String::from_utf8_lossy(&lang::config::unquote(text)).into_owned();
        text.split_ascii_whitespace()
            .map(|word| Ipv6Addr::from_arg(word, names))
            .collect::<Result<_, _>>()
            .map(Addresses)
    }
}

/// The fixed header that the packet's network position marks.
#[inline]
pub(crate) fn header(packet: &packet::Packet) -> Option<&[u8; HEADER_LEN]> {
    packet.network_chunk()
}

/// The same, to be changed.
#[inline]
pub(crate) fn header_mut(packet: &mut packet::Packet) -> Option<&mut [u8; HEADER_LEN]> {
    packet.network_chunk_mut()
}

/// The source address in a header.
#[inline]
pub(crate) fn source(header: &[u8; HEADER_LEN]) -> Ipv6Addr {
    Ipv6Addr::from(*header[8..24].first_chunk::<16>().expect("sixteen bytes"))
}

/// The destination address in a header.
#[inline]
pub(crate) fn destination(header: &[u8; HEADER_LEN]) -> Ipv6Addr {
    Ipv6Addr::from(*header[24..].first_chunk::<16>().expect("sixteen bytes"))
}

#[cfg(test)]
pub(crate) mod samples {
    use packet::Packet;
    use wire::{Protocol, ipv6};

    /// The bytes of an IPv6 packet.
    pub(crate) fn bytes(src: &str, dst: &str, next: u8, hop_limit: u8, payload: &[u8]) -> Vec<u8> {
        let repr = ipv6::Repr {
            src: src.parse().unwrap(),
            dst: dst.parse().unwrap(),
            next_header: Protocol(next),
            payload_len: payload.len() as u16,
            hop_limit,
            ..ipv6::Repr::default()
        };
        let mut bytes = vec![0; 40];
        repr.emit(&mut bytes).unwrap();
        bytes.extend(payload);
        bytes
    }

    /// An IPv6 packet with marked header.
    pub(crate) fn packet(src: &str, dst: &str, next: u8, hop_limit: u8, payload: &[u8]) -> Packet {
        marked(&bytes(src, dst, next, hop_limit, payload))
    }

    /// A packet that begins with an IPv6 header, marked.
    pub(crate) fn marked(bytes: &[u8]) -> Packet {
        let mut packet = Packet::copy_of(bytes).unwrap();
        packet.set_network(0, 40);
        packet
    }
}

#[cfg(test)]
mod tests {
    use packet::Packet;
    use proptest::prelude::*;

    use crate::testing::Rig;

    /// All elements at once, without a header check before those that must not rely on one.
    const ALL: &str = "
        i :: TestIn -> MarkIP6Header -> t :: Tee;
        t[0] -> CheckIP6Header -> r :: IP6Reassembler -> x :: IP6Extensions -> CheckICMP6Header
             -> ICMP6PingResponder -> Discard;
        r[1] -> Discard; r[2] -> Discard; r[3] -> Discard;
        x[1] -> ICMP6Error(::9, parameterproblem, header) -> Discard;
        x[2] -> ICMP6Error(::9, parameterproblem, nextheader) -> Discard;
        x[3] -> ICMP6Error(::9, parameterproblem, option) -> Discard;
        t[1] -> ICMP6Error(::9, toobig, RATE 0) -> CheckIP6Header -> c :: CheckICMP6Header(DETAILS true) -> Discard;
        t[2] -> IP6HopByHop -> CheckIP6Scope -> DecIP6HLIM -> IP6Fragmenter(1280, LOCAL true) -> Discard;
        t[3] -> IP6Mirror -> SetIP6DSCP(1) -> StoreIP6Address(::7, src) -> IP6Print(CONTENTS true) -> Discard;
        t[4] -> CheckICMP6Header -> ICMP6PingResponder -> Discard;
        t[5] -> IP6Reassembler -> IP6Extensions -> IP6HopByHop -> Discard;
        t[6] -> ICMP6Error(::9, redirect, RATE 0) -> CheckIP6Header -> Discard;
    ";

    /// Extension headers and what may stand behind them, more or less as they should be.
    fn chain() -> impl Strategy<Value = Vec<u8>> {
        let kinds = prop::sample::select(vec![0u8, 43, 44, 50, 51, 58, 59, 60, 135, 6, 17, 128]);
        let header = (kinds, 0u8..3, any::<[u8; 22]>()).prop_map(|(next, units, rest)| {
            let mut header = vec![next, units];
            header.extend(&rest[..usize::from(units) * 8 + 6]);
            header
        });
        prop::collection::vec(header, 0..6).prop_map(|headers| headers.concat())
    }

    fn sample() -> impl Strategy<Value = Vec<u8>> {
        let first = prop::sample::select(vec![0u8, 43, 44, 51, 58, 60, 17]);
        let lie = prop_oneof![4 => Just(0i16), 1 => -9i16..9];
        (first, any::<[u8; 2]>(), chain(), lie, 0usize..2000).prop_map(|(first, ends, chain, lie, more)| {
            let mut bytes = super::samples::bytes("2001:db8::1", "2001:db8::2", first, ends[0], &chain);
            (bytes[8], bytes[24]) = (ends[0], ends[1]);
            bytes.resize(bytes.len() + more.saturating_sub(1000), ends[1]);
            let payload_len = (bytes.len() as i16 - 40 + lie).max(0);
            bytes[4..6].copy_from_slice(&payload_len.to_be_bytes());
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn nothing_fails_on_any_packet(
            packets in prop::collection::vec(sample(), 1..20),
            noise in prop::collection::vec(any::<u8>(), 0..60),
            burst in prop::sample::select(vec![1usize, 32]),
        ) {
            let all = packets.iter().chain([&noise]);
            let packets = all.map(|b| Packet::copy_of(b).unwrap()).collect();
            let mut run = Rig::text(ALL).burst(burst).packets(packets).run();
            // Our own messages are always sound.
            prop_assert!(run.read("c.drop_details").lines().all(|l| l.starts_with("0\t")), "{}", run.read("c.drop_details"));
        }
    }
}
