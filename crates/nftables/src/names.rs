// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words of nftables for numbers.

use rulefile::names;

/// Protocols that nftables names otherwise than rule files.
const PROTOCOLS: [(&str, u8); 12] = [
    ("hopopt", 0),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("ipv6-icmp", 58),
    ("icmpv6", 58),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("ospfigp", 89),
    ("ipencap", 4),
    ("l2tp", 115),
    ("comp", 108),
    ("ipcomp", 108),
];

/// Types of ICMP that nftables names otherwise.
const TYPES: [(&str, u8); 6] = [
    ("destination-unreachable", 3),
    ("source-quench", 4),
    ("info-request", 15),
    ("info-reply", 16),
    ("address-mask-request", 17),
    ("address-mask-reply", 18),
];

/// Types of ICMPv6 that nftables names otherwise.
const TYPES6: [(&str, u8); 15] = [
    ("destination-unreachable", 1),
    ("mld-listener-query", 130),
    ("mld-listener-report", 131),
    ("mld-listener-done", 132),
    ("mld-listener-reduction", 132),
    ("nd-router-solicit", 133),
    ("nd-router-advert", 134),
    ("nd-neighbor-solicit", 135),
    ("nd-neighbor-advert", 136),
    ("nd-redirect", 137),
    ("router-renumbering", 138),
    ("ind-neighbor-solicit", 141),
    ("ind-neighbor-advert", 142),
    ("mld2-listener-report", 143),
    ("certification-path-solicitation", 148),
];

/// Codes of ICMP, of "destination unreachable".
const CODES: [(&str, u8); 8] = [
    ("net-unreachable", 0),
    ("host-unreachable", 1),
    ("prot-unreachable", 2),
    ("port-unreachable", 3),
    ("frag-needed", 4),
    ("net-prohibited", 9),
    ("host-prohibited", 10),
    ("admin-prohibited", 13),
];

/// Codes of ICMPv6, of "destination unreachable".
const CODES6: [(&str, u8); 6] = [
    ("no-route", 0),
    ("admin-prohibited", 1),
    ("addr-unreachable", 3),
    ("port-unreachable", 4),
    ("policy-fail", 5),
    ("reject-route", 6),
];

fn named(names: &[(&str, u8)], text: &str) -> Option<u8> {
    names.iter().find(|(name, _)| *name == text).map(|(_, number)| *number)
}

/// A protocol.
pub(crate) fn protocol(text: &str) -> Option<u8> {
    named(&PROTOCOLS, text).or_else(|| names::protocol(text))
}

/// A type of ICMP.
pub(crate) fn icmp_type(six: bool, text: &str) -> Option<u8> {
    named(if six { &TYPES6 } else { &TYPES }, text).or_else(|| names::icmp_type(six, text))
}

/// A code of ICMP.
pub(crate) fn icmp_code(six: bool, text: &str) -> Option<u8> {
    text.parse().ok().or_else(|| named(if six { &CODES6 } else { &CODES }, text))
}
