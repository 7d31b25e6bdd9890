// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of the filter language: kinds of primitives, protocols, flags, ICMP types, and what they stand for.

/// "TCP or UDP".
pub(super) const TCP_OR_UDP: u32 = 256;
/// Any transport protocol.
pub(super) const TRANSPORT: u32 = 257;
pub(super) const ICMP: u32 = 1;
pub(super) const TCP: u32 = 6;
pub(super) const UDP: u32 = 17;
pub(super) const DCCP: u32 = 33;

/// What a test looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Kind {
    #[default]
    None,
    Host,
    Net,
    Proto,
    Port,
    TcpOpt,
    Ether,
    Frag,
    Unfrag,
    Ect,
    Ce,
    /// Bits of the IP header, or of the header of a transport protocol.
    Field {
        proto: Option<u32>,
        bit: u32,
        bits: u32,
    },
    /// A number, whose meaning is to be found.
    Int,
}

impl Kind {
    pub(super) fn name(self) -> String {
        match self {
            Kind::None => "none".into(),
            Kind::Host => "ip host".into(),
            Kind::Net => "ip net".into(),
            Kind::Proto => "proto".into(),
            Kind::Port => "port".into(),
            Kind::TcpOpt => "tcp opt".into(),
            Kind::Ether => "ether host".into(),
            Kind::Frag => "ip frag".into(),
            Kind::Unfrag => "ip unfrag".into(),
            Kind::Ect => "ip ect".into(),
            Kind::Ce => "ip ce".into(),
            Kind::Int => "number".into(),
            Kind::Field { proto, bit, bits } => {
                let known = FIELDS.iter().find(|(_, k)| *k == self).map(|(n, _)| (*n).to_owned());
                let header = proto.and_then(|p| PROTOCOLS.iter().find(|q| q.1 == p)).map_or("ip", |q| q.0);
                known.unwrap_or_else(|| format!("{header}[{}:{}]", bit / 8, bits / 8))
            }
        }
    }
}

pub(super) const fn field(proto: Option<u32>, bit: u32, bits: u32) -> Kind {
    Kind::Field { proto, bit, bits }
}

pub(super) const FIELDS: &[(&str, Kind)] = &[
    ("vers", field(None, 0, 4)),
    ("hl", field(None, 4, 4)),
    ("tos", field(None, 8, 8)),
    ("dscp", field(None, 8, 6)),
    ("len", field(None, 16, 16)),
    ("id", field(None, 32, 16)),
    ("ttl", field(None, 64, 8)),
    ("win", field(Some(TCP), 112, 16)),
    ("type", field(Some(ICMP), 0, 8)),
];

pub(super) const KINDS: &[(&str, Kind)] = &[
    ("host", Kind::Host),
    ("net", Kind::Net),
    ("proto", Kind::Proto),
    ("port", Kind::Port),
    ("opt", Kind::TcpOpt),
    ("frag", Kind::Frag),
    ("unfrag", Kind::Unfrag),
    ("ect", Kind::Ect),
    ("ce", Kind::Ce),
];

pub(super) const PROTOCOLS: &[(&str, u32)] = &[
    ("icmp", ICMP),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", TCP),
    ("egp", 8),
    ("udp", UDP),
    ("dccp", DCCP),
    ("ip6", 41),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("sctp", 132),
    ("udplite", 136),
    ("tcpudp", TCP_OR_UDP),
    ("transp", TRANSPORT),
];

pub(super) const TCP_FLAGS: &[(&str, u32)] =
    &[("fin", 1), ("syn", 2), ("rst", 4), ("psh", 8), ("ack", 16), ("urg", 32)];

/// Names of ICMP types (RFC 792, 950, 1256).
pub(crate) const ICMP_TYPES: &[(&str, u32)] = &[
    ("echo-reply", 0),
    ("unreachable", 3),
    ("sourcequench", 4),
    ("redirect", 5),
    ("echo", 8),
    ("routeradvert", 9),
    ("routersolicit", 10),
    ("timeexceeded", 11),
    ("parameterproblem", 12),
    ("timestamp", 13),
    ("timestamp-reply", 14),
    ("inforeq", 15),
    ("inforeq-reply", 16),
    ("maskreq", 17),
    ("maskreq-reply", 18),
];

pub(super) fn find<T: Copy>(table: &[(&str, T)], word: &str) -> Option<T> {
    table.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
}

/// Which of the two addresses or ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Src,
    Dst,
    Either,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Relation {
    #[default]
    Equal,
    Greater,
    Less,
}

/// The value of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Value {
    pub(super) kind: Kind,
    pub(super) number: u32,
    /// For prefixes.
    pub(super) mask: u32,
    pub(super) mac: [u8; 6],
}
