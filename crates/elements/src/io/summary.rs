// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets as lines of text: the fields that `FromIPSummaryDump` reads and `ToIPSummaryDump` writes.
//!
//! A dump is a text file. Lines that begin with `!` say what follows (`!data ip_src ip_dst` names the columns), lines
//! that begin with `#` say nothing, every other line is a packet. [`Field`] lists the columns; [`extract`] takes their
//! values from a packet, [`inject`] makes a packet of them.

pub mod extract;
pub mod icmp;
pub mod inject;
pub mod md5;
pub mod options;

/// Major version of the format.
pub const MAJOR_VERSION: u32 = 1;
/// Minor version. Before 1, fragment offsets were in units of 8 bytes.
pub const MINOR_VERSION: u32 = 3;

/// How a field looks in a binary record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// So many bytes in network order.
    Bytes(usize),
    /// A length byte, then so many bytes.
    Counted,
    /// The field has no binary form.
    None,
}

macro_rules! fields {
    ($($variant:ident $name:literal $width:expr, $order:expr;)*) => {
        /// A column of a dump.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Field {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl Field {
            const ALL: &'static [Field] = &[$(Field::$variant),*];

            /// The name, as `!data` lines give it.
            pub fn name(self) -> &'static str {
                match self { $(Field::$variant => $name),* }
            }

            /// The form in binary records.
            pub fn width(self) -> Width {
                match self { $(Field::$variant => $width),* }
            }

            /// When reading, fields are applied in ascending order; `None` marks those that cannot be read.
            pub fn order(self) -> Option<u16> {
                match self { $(Field::$variant => $order),* }
            }
        }
    };
}

use Width::{Bytes, Counted};

fields! {
    Timestamp "timestamp" Bytes(8), Some(100);
    NanoTimestamp "ntimestamp" Bytes(8), Some(100);
    Seconds "ts_sec" Bytes(4), Some(100);
    Microseconds "ts_usec" Bytes(4), Some(100);
    AllMicroseconds "ts_usec1" Bytes(8), Some(100);
    FirstTimestamp "first_timestamp" Bytes(8), Some(100);
    FirstNanoTimestamp "first_ntimestamp" Bytes(8), Some(100);
    Count "count" Bytes(4), Some(100);
    Link "link" Bytes(1), Some(100);
    Paint "paint" Bytes(1), Some(100);
    Direction "direction" Bytes(1), Some(100);
    Aggregate "aggregate" Bytes(4), Some(100);
    WireLen "wire_len" Bytes(4), Some(100);
    EthSrc "eth_src" Bytes(6), Some(200);
    EthDst "eth_dst" Bytes(6), Some(200);
    EthType "eth_type" Bytes(2), Some(200);
    IpSrc "ip_src" Bytes(4), Some(300);
    IpDst "ip_dst" Bytes(4), Some(300);
    IpTos "ip_tos" Bytes(1), Some(300);
    IpDscp "ip_dscp" Bytes(1), Some(300);
    IpEcn "ip_ecn" Bytes(1), Some(300);
    IpTtl "ip_ttl" Bytes(1), Some(300);
    IpFrag "ip_frag" Bytes(1), Some(298);
    IpFragOff "ip_fragoff" Bytes(2), Some(299);
    IpId "ip_id" Bytes(2), Some(300);
    IpSum "ip_sum" Bytes(2), Some(302);
    IpProto "ip_proto" Bytes(1), Some(300);
    IpHl "ip_hl" Bytes(1), Some(299);
    IpLen "ip_len" Bytes(4), Some(301);
    IpCaptureLen "ip_capture_len" Bytes(4), Some(502);
    IpOpt "ip_opt" Counted, Some(300);
    SrcPort "sport" Bytes(2), Some(400);
    DstPort "dport" Bytes(2), Some(400);
    TcpSeq "tcp_seq" Bytes(4), Some(400);
    TcpAck "tcp_ack" Bytes(4), Some(400);
    TcpOff "tcp_off" Bytes(1), Some(399);
    TcpFlags "tcp_flags" Bytes(1), Some(400);
    TcpWindow "tcp_window" Bytes(2), Some(400);
    TcpUrgent "tcp_urp" Bytes(2), Some(400);
    TcpOpt "tcp_opt" Counted, Some(403);
    TcpNtOpt "tcp_ntopt" Counted, Some(402);
    TcpSack "tcp_sack" Counted, Some(401);
    UdpLen "udp_len" Bytes(4), Some(400);
    IcmpType "icmp_type" Bytes(1), Some(400);
    IcmpCode "icmp_code" Bytes(1), Some(401);
    IcmpTypeName "icmp_type_name" Bytes(1), Some(400);
    IcmpCodeName "icmp_code_name" Bytes(1), Some(401);
    IcmpFlowId "icmp_flowid" Bytes(2), Some(402);
    IcmpSeq "icmp_seq" Bytes(2), Some(402);
    IcmpNextMtu "icmp_nextmtu" Bytes(2), Some(402);
    PayloadLen "payload_len" Bytes(4), Some(501);
    Payload "payload" Width::None, Some(500);
    PayloadMd5 "payload_md5" Bytes(16), None;
    PayloadMd5Hex "payload_md5_hex" Bytes(16), None;
    Nothing "none" Bytes(0), Some(600);
}

/// Other names of fields.
const SYNONYMS: [(&str, Field); 20] = [
    ("utimestamp", Field::Timestamp),
    ("ts", Field::Timestamp),
    ("sec", Field::Seconds),
    ("usec", Field::Microseconds),
    ("usec1", Field::AllMicroseconds),
    ("first_utimestamp", Field::FirstTimestamp),
    ("first_ts", Field::FirstTimestamp),
    ("pkt_count", Field::Count),
    ("packet_count", Field::Count),
    ("agg", Field::Aggregate),
    ("wire_length", Field::WireLen),
    ("ether_src", Field::EthSrc),
    ("ether_dst", Field::EthDst),
    ("ether_type", Field::EthType),
    ("length", Field::IpLen),
    ("ip_p", Field::IpProto),
    ("tcp_seqno", Field::TcpSeq),
    ("tcp_ackno", Field::TcpAck),
    ("tcp_win", Field::TcpWindow),
    ("payload_length", Field::PayloadLen),
];

impl Field {
    /// The field of this name: as it stands, with an underscore for a space, or without its `ip_`.
    pub fn find(name: &str) -> Option<Field> {
        let exact = |name: &str| {
            let synonym = SYNONYMS.iter().find(|(n, _)| *n == name).map(|(_, f)| *f);
            synonym.or_else(|| Field::ALL.iter().find(|f| f.name() == name).copied())
        };
        if let Some(field) = exact(name) {
            return Some(field);
        }
        if name.contains(' ') {
            return Field::find(&name.replacen(' ', "_", 1));
        }
        if name.contains('_') { None } else { exact(&format!("ip_{name}")) }
    }

    /// Names near one that is not known, for messages.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Field::ALL.iter().map(|f| f.name())
    }
}

/// Seconds with up to nine decimals as nanoseconds; further digits are cut off.
pub fn parse_time(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || whole.len() + fraction.len() == 0 {
        return None;
    }
    let seconds: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let ns = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let ns = ns.fold(0u64, |n, b| n * 10 + u64::from(b - b'0'));
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_all_their_forms() {
        for (name, want) in [
            ("src", Some(Field::IpSrc)),
            ("ip src", Some(Field::IpSrc)),
            ("ip_src", Some(Field::IpSrc)),
            ("tcp seq", Some(Field::TcpSeq)),
            ("len", Some(Field::IpLen)),
            ("ts", Some(Field::Timestamp)),
            ("payload len", Some(Field::PayloadLen)),
            ("ip_foo", None),
            ("foo", None),
        ] {
            assert_eq!(Field::find(name), want, "{name}");
        }
    }

    #[test]
    fn times() {
        for (text, ns) in [
            ("1.5", Some(1_500_000_000)),
            ("0.000000001", Some(1)),
            ("12", Some(12_000_000_000)),
            (".25", Some(250_000_000)),
            ("-1", None),
            (".", None),
            ("99999999999999", None),
        ] {
            assert_eq!(parse_time(text), ns, "{text}");
        }
    }
}
