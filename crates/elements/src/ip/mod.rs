// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements of IPv4 forwarding.

use std::net::Ipv4Addr;

use element::args::{FromArg, Names};

pub(crate) mod check_ip_addresses;
pub(crate) mod check_ip_header;
pub(crate) mod dec_ip_ttl;
pub(crate) mod drop_broadcasts;
pub(crate) mod ecn;
pub(crate) mod faults;
pub(crate) mod fix_ip_src;
pub(crate) mod fragmenter;
pub(crate) mod get_ip_address;
pub(crate) mod ip_encap;
pub(crate) mod ip_fragmenter;
pub(crate) mod ip_gw_options;
mod ip_input_combo;
mod ip_mirror;
mod ip_output_combo;
mod ip_print;
mod ip_rate_monitor;
mod ip_reassembler;
mod ip_source_route;
mod mark_ip_ce;
mod set_ip_address;
mod set_ip_checksum;
mod set_ip_dscp;
mod set_rand_ip_address;
pub(crate) mod source_route;
mod store_ip_address;
mod strip_ip_header;
pub(crate) mod vrf_names;

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[
    check_ip_addresses::CLASS,
    check_ip_header::CLASS,
    check_ip_header::WITHOUT_CHECKSUM,
    check_ip_header::MARK,
    dec_ip_ttl::CLASS,
    drop_broadcasts::CLASS,
    fix_ip_src::CLASS,
    get_ip_address::CLASS,
    ip_encap::CLASS,
    ip_fragmenter::CLASS,
    ip_gw_options::CLASS,
    ip_input_combo::CLASS,
    ip_mirror::CLASS,
    ip_output_combo::CLASS,
    ip_print::CLASS,
    ip_rate_monitor::CLASS,
    ip_reassembler::CLASS,
    ip_source_route::CLASS,
    mark_ip_ce::CLASS,
    set_ip_address::CLASS,
    set_ip_checksum::CLASS,
    set_ip_checksum::RESET,
    set_ip_dscp::DSCP,
    set_ip_dscp::ECN,
    set_rand_ip_address::CLASS,
    store_ip_address::CLASS,
    strip_ip_header::STRIP,
    strip_ip_header::UNSTRIP,
];

/// An address argument that must be given; 0.0.0.0 until then.
#[derive(Clone, Copy)]
pub(crate) struct Address(pub(crate) Ipv4Addr);

impl Default for Address {
    fn default() -> Self {
        Address(Ipv4Addr::UNSPECIFIED)
    }
}

impl FromArg for Address {
    const EXPECTED: &'static str = Ipv4Addr::EXPECTED;

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        Ipv4Addr::from_arg(text, names).map(Address)
    }
}

/// A list of addresses, separated by spaces.
#[derive(Clone, Default)]
pub(crate) struct Addresses(pub(crate) Vec<Ipv4Addr>);

impl FromArg for Addresses {
    const EXPECTED: &'static str = "a list of IPv4 addresses";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        text.split_ascii_whitespace()
            .map(|word| Ipv4Addr::from_arg(word, names))
            .collect::<Result<_, _>>()
            .map(Addresses)
    }
}

/// The fixed part of the IPv4 header that the packet's network position marks.
#[inline]
pub(crate) fn header(packet: &packet::Packet) -> Option<&[u8; 20]> {
    packet.network_chunk()
}

/// The same, to be changed.
#[inline]
pub(crate) fn header_mut(packet: &mut packet::Packet) -> Option<&mut [u8; 20]> {
    packet.network_chunk_mut()
}

#[cfg(test)]
pub(crate) mod samples {
    use packet::Packet;

    /// An IPv4 packet of protocol 17 with good checksum and marked header.
    pub(crate) fn datagram(ttl: u8, src: [u8; 4], dst: [u8; 4], options: &[u8], payload: usize) -> Packet {
        let header_len = 20 + options.len();
        let mut bytes = vec![0u8; header_len + payload];
        bytes[0] = 0x40 | (header_len / 4) as u8;
        let total = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        bytes[4..6].copy_from_slice(&[0x12, 0x34]);
        bytes[8] = ttl;
        bytes[9] = 17;
        bytes[12..16].copy_from_slice(&src);
        bytes[16..20].copy_from_slice(&dst);
        bytes[20..header_len].copy_from_slice(options);
        for (i, b) in bytes[header_len..].iter_mut().enumerate() {
            *b = i as u8;
        }
        seal(&mut bytes);
        let mut packet = Packet::copy_of(&bytes).unwrap();
        packet.set_network(0, header_len);
        packet
    }

    /// Sets the header checksum.
    pub(crate) fn seal(bytes: &mut [u8]) {
        let header_len = usize::from(bytes[0] & 15) * 4;
        bytes[10..12].fill(0);
        let sum = wire::checksum::internet(&bytes[..header_len]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    }

    /// Whether the header checksum is good.
    pub(crate) fn sealed(bytes: &[u8]) -> bool {
        wire::checksum::internet(&bytes[..usize::from(bytes[0] & 15) * 4]) == 0
    }
}

#[cfg(test)]
mod tests {
    use packet::Packet;
    use proptest::prelude::*;

    use crate::testing::Rig;

    /// Elements that read or change options and fragments, with all their ways out.
    const ELEMENTS: &[(&str, usize)] = &[
        ("IPGWOptions(7.7.7.7, 8.8.8.8, SOURCE_ROUTE forward)", 3),
        ("IPGWOptions(7.7.7.7, 8.8.8.8, SOURCE_ROUTE drop)", 3),
        ("IPSourceRoute(7.7.7.7, 8.8.8.8)", 2),
        ("IPFragmenter(60, HONOR_DF false)", 2),
        ("IPReassembler(OVERLAP drop, MAX_PACKETS 3, MAX_PER_SOURCE 2)", 2),
        ("IPReassembler", 2),
        ("CheckIPAddresses(INTERFACES 7.7.7.7/24)", 2),
        ("ICMPError(7.7.7.7, parameterproblem, TOS copy, RATE 5, DST_RATE 1)", 1),
        ("ICMPError(7.7.7.7, redirect, ONLINK 8.0.0.0/8)", 1),
        ("ICMPPingResponder", 2),
    ];

    /// A byte, mostly one that means something in options and addresses.
    fn byte() -> impl Strategy<Value = u8> {
        prop_oneof![Just(0), Just(1), 2u8..16, Just(7), Just(8), Just(68), Just(131), Just(137), any::<u8>()]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        /// No bytes make an element panic, whether their header has been checked or only marked.
        #[test]
        fn any_bytes(
            packets in prop::collection::vec((0usize..16, prop::collection::vec(byte(), 0..100)), 1..12),
            check in any::<bool>(),
        ) {
            let packet = |(words, mut bytes): (usize, Vec<u8>)| {
                if check && bytes.len() >= 20 {
                    let words = words.clamp(5, bytes.len() / 4);
                    bytes[0] = 0x40 | words as u8;
                    let len = (bytes.len() as u16).to_be_bytes();
                    bytes[2..4].copy_from_slice(&len);
                    super::samples::seal(&mut bytes);
                }
                Packet::copy_of(&bytes).unwrap()
            };
            let packets: Vec<_> = packets.into_iter().map(packet).collect();
            let mark = if check { "CheckIPHeader" } else { "MarkIPHeader" };
            for (element, outputs) in ELEMENTS {
                let mut text = format!("i :: TestIn -> {mark} -> e :: {element} -> o0 :: TestOut;");
                (1..*outputs).for_each(|n| text += &format!("e[{n}] -> o{n} :: TestOut;"));
                let packets = packets.iter().map(|p| p.duplicate().unwrap()).collect();
                let run = Rig::text(&text).packets(packets).run();
                if check {
                    for p in (0..*outputs).flat_map(|n| run.bytes(&format!("o{n}"))) {
                        prop_assert!(super::samples::sealed(&p), "{element}: {p:?}");
                    }
                }
            }
        }
    }
}
