// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names for numbers: protocols, ports, ICMP types.

/// Protocols (IANA, *Protocol Numbers*).
pub const PROTOCOLS: &[(&str, u8)] = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("ipv6", 41),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmp6", 58),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("sctp", 132),
    ("udplite", 136),
];

/// Ports (IANA, *Service Name and Transport Protocol Port Number Registry*).
const PORTS: &[(&str, u16)] = &[
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("dhcp-server", 67),
    ("dhcp-client", 68),
    ("tftp", 69),
    ("http", 80),
    ("kerberos", 88),
    ("pop3", 110),
    ("ntp", 123),
    ("imap", 143),
    ("snmp", 161),
    ("snmptrap", 162),
    ("bgp", 179),
    ("ldap", 389),
    ("https", 443),
    ("smb", 445),
    ("submissions", 465),
    ("ike", 500),
    ("syslog", 514),
    ("dhcp6-client", 546),
    ("dhcp6-server", 547),
    ("submission", 587),
    ("ldaps", 636),
    ("domain-s", 853),
    ("imaps", 993),
    ("pop3s", 995),
    ("openvpn", 1194),
    ("mysql", 3306),
    ("rdp", 3389),
    ("ipsec-nat-t", 4500),
    ("sip", 5060),
    ("sips", 5061),
    ("postgresql", 5432),
    ("bfd", 3784),
    ("wireguard", 51820),
];

/// ICMP types (IANA, *ICMP Parameters*).
pub const ICMP_TYPES: &[(&str, u8)] = &[
    ("echo-reply", 0),
    ("unreachable", 3),
    ("redirect", 5),
    ("echo-request", 8),
    ("router-advertisement", 9),
    ("router-solicitation", 10),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
];

/// ICMPv6 types (IANA, *ICMPv6 Parameters*).
pub const ICMP6_TYPES: &[(&str, u8)] = &[
    ("unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("listener-query", 130),
    ("listener-report", 131),
    ("listener-done", 132),
    ("router-solicitation", 133),
    ("router-advertisement", 134),
    ("neighbour-solicitation", 135),
    ("neighbour-advertisement", 136),
    ("redirect", 137),
    ("listener2-report", 143),
];

fn named<T: Copy + std::str::FromStr>(names: &[(&str, T)], text: &str) -> Option<T> {
    text.parse().ok().or_else(|| names.iter().find(|(name, _)| *name == text).map(|(_, number)| *number))
}

/// A protocol by name or number.
pub fn protocol(text: &str) -> Option<u8> {
    named(PROTOCOLS, text)
}

/// A port by name or number.
pub fn port(text: &str) -> Option<u16> {
    named(PORTS, text)
}

/// A type of ICMP by name or number.
pub fn icmp_type(six: bool, text: &str) -> Option<u8> {
    named(if six { ICMP6_TYPES } else { ICMP_TYPES }, text)
}

/// The name of a protocol, or its number.
pub fn protocol_name(number: u8) -> String {
    let found = PROTOCOLS.iter().find(|(_, n)| *n == number);
    found.map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned())
}

/// Names of ports, for suggestions.
pub fn port_names() -> impl Iterator<Item = &'static str> {
    PORTS.iter().map(|(name, _)| *name)
}
