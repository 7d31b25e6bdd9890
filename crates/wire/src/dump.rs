// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets as text: the one line that Click's IPPrint prints, the hexadecimal and ASCII dumps of Print and IPPrint, and a
//! line for any Ethernet frame.
//!
//! Scripts parse these lines, so they match Click's byte for byte. [`IpSummary`] and [`Dump`] implement `Display` and allocate nothing;
//! the functions that return a `String` are for convenience.
//!
//! | packet | line |
//! |---|---|
//! | TCP | `10.0.0.1.1025 > 10.0.0.2.80: S 1:2(1,40,40) win 512`: flags, first and next sequence number, their distance, length of the packet, IP length |
//! | UDP | `10.0.0.1.1025 > 10.0.0.2.53: udp 28`: the UDP length |
//! | ICMP | `10.0.0.1 > 10.0.0.2: icmp echo (1, 2)` |
//! | other | `10.0.0.1 > 10.0.0.2: ip-proto-47` |
//! | fragment | the same, then ` (frag 7:8@1480+)`: identification, payload length, offset, more to come |

use std::fmt;

use crate::header::{load_at, range};
use crate::{EtherType, Protocol, arp, ethernet, icmpv4, icmpv6, ipv4, ipv6, llc, tcp, udp};

/// The line of an IPv4 packet, as `IPPrint` prints it.
#[derive(Debug, Clone, Copy)]
pub struct IpSummary<'a> {
    /// The packet from its IP header on.
    pub packet: &'a [u8],
    /// Length that a TCP line shows as the packet's: that of the whole buffer, link header included if it has one.
    pub packet_len: usize,
    /// Print the identification.
    pub id: bool,
    /// Print the TTL.
    pub ttl: bool,
    /// Print the type of service.
    pub tos: bool,
    /// Print the IP length.
    pub length: bool,
}

impl<'a> IpSummary<'a> {
    /// The plain line of a packet that starts with its IP header.
    pub fn new(packet: &'a [u8]) -> Self {
        IpSummary { packet, packet_len: packet.len(), id: false, ttl: false, tos: false, length: false }
    }

    fn transport(&self, f: &mut fmt::Formatter<'_>, header: ipv4::Header<'_>) -> fmt::Result {
        let segment = range(self.packet, header.header_len(), header.total_len().into());
        match header.protocol() {
            Protocol::TCP => self.tcp(f, header, segment),
            Protocol::UDP => udp_line(f, header, segment),
            Protocol::ICMP => icmp_line(f, header, segment),
            Protocol(other) => write!(f, "{} > {}: ip-proto-{other}", header.src(), header.dst()),
        }
    }

    fn tcp(&self, f: &mut fmt::Formatter<'_>, header: ipv4::Header<'_>, segment: &[u8]) -> fmt::Result {
        if !ports(f, header, segment, "tcp")? {
            return Ok(());
        }
        if segment.len() < 14 {
            return f.write_str("truncated-tcp");
        }
        let flags: tcp::Flags = load_at(segment, tcp::field::FLAGS);
        let data_offset: u8 = load_at(segment, tcp::field::DATA_OFFSET);
        let marks =
            [(tcp::Flags::SYN, "S"), (tcp::Flags::FIN, "F"), (tcp::Flags::RST, "R"), (tcp::Flags::PSH, "P")];
        let mut set =
            marks.iter().filter(|(flag, _)| flags.contains(*flag)).map(|&(_, letter)| letter).peekable();
        if set.peek().is_none() {
            f.write_str(".")?;
        }
        set.try_for_each(|letter| f.write_str(letter))?;
        let total_len = i64::from(header.total_len());
        let advance = total_len - header.header_len() as i64 - i64::from(data_offset >> 4) * 4
            + i64::from(flags.contains(tcp::Flags::SYN))
            + i64::from(flags.contains(tcp::Flags::FIN));
        let seq: u32 = load_at(segment, tcp::field::SEQ);
        let next = seq.wrapping_add(advance as u32);
        write!(f, " {seq}:{next}({advance},{},{total_len})", self.packet_len)?;
        if flags.contains(tcp::Flags::ACK) {
            write!(f, " ack {}", load_at::<u32>(segment, tcp::field::ACK))?;
        }
        match segment.len() {
            ..16 => f.write_str("truncated-tcp"),
            _ => write!(f, " win {}", load_at::<u16>(segment, tcp::field::WINDOW)),
        }
    }
}

impl fmt::Display for IpSummary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(header) = ipv4::Header::from_slice(self.packet) else {
            return f.write_str("truncated-ip");
        };
        if self.id {
            write!(f, "id {} ", header.id())?;
        }
        if self.ttl {
            write!(f, "ttl {} ", header.ttl())?;
        }
        if self.tos {
            write!(f, "tos {} ", header.tos())?;
        }
        if self.length {
            write!(f, "length {} ", header.total_len())?;
        }
        self.transport(f, header)?;
        if header.is_fragment() {
            let payload_len = i64::from(header.total_len()) - header.header_len() as i64;
            let more = if header.more_fragments() { "+" } else { "" };
            write!(f, " (frag {}:{payload_len}@{}{more})", header.id(), header.fragment_offset())?;
        }
        Ok(())
    }
}

/// Addresses with ports and a colon, where the ports are there; else addresses and what is missing, and `false`.
fn ports(
    f: &mut fmt::Formatter<'_>,
    header: ipv4::Header<'_>,
    segment: &[u8],
    name: &str,
) -> Result<bool, fmt::Error> {
    let (src, dst) = (header.src(), header.dst());
    if !header.is_first_fragment() {
        write!(f, "{src} > {dst}: {name}")?;
        return Ok(false);
    }
    if segment.len() < 4 {
        write!(f, "{src} > {dst}: truncated-{name}")?;
        return Ok(false);
    }
    write!(f, "{src}.{} > {dst}.{}: ", load_at::<u16>(segment, 0), load_at::<u16>(segment, 2))?;
    Ok(true)
}

fn udp_line(f: &mut fmt::Formatter<'_>, header: ipv4::Header<'_>, segment: &[u8]) -> fmt::Result {
    if !ports(f, header, segment, "udp")? {
        return Ok(());
    }
    match segment.len() {
        ..8 => f.write_str("truncated-udp"),
        _ => write!(f, "udp {}", load_at::<u16>(segment, udp::field::LEN)),
    }
}

fn icmp_line(f: &mut fmt::Formatter<'_>, header: ipv4::Header<'_>, segment: &[u8]) -> fmt::Result {
    write!(f, "{} > {}: ", header.src(), header.dst())?;
    if !header.is_first_fragment() {
        return f.write_str("icmp");
    }
    if segment.len() < 2 {
        return f.write_str("truncated-icmp");
    }
    let kind: icmpv4::Type = load_at(segment, icmpv4::field::TYPE);
    let code: u8 = load_at(segment, icmpv4::field::CODE);
    match kind {
        icmpv4::Type::ECHO | icmpv4::Type::ECHO_REPLY => {
            write!(f, "icmp {kind} ")?;
            if segment.len() < 8 {
                return f.write_str("truncated-icmp");
            }
            let identifier: u16 = load_at(segment, icmpv4::field::IDENTIFIER);
            write!(f, "({identifier}, {})", load_at::<u16>(segment, icmpv4::field::SEQUENCE))
        }
        icmpv4::Type::UNREACHABLE => unreachable_line(f, code, segment),
        _ => {
            write!(f, "icmp {kind}")?;
            match kind.code_name(code) {
                Some(name) => write!(f, " {name}"),
                None if code != 0 => write!(f, " code {code}"),
                None => Ok(()),
            }
        }
    }
}

/// "Destination unreachable" names the destination of the packet it quotes.
fn unreachable_line(f: &mut fmt::Formatter<'_>, code: u8, segment: &[u8]) -> fmt::Result {
    let name = icmpv4::Type::UNREACHABLE.code_name(code);
    let quoted = range(segment, icmpv4::HEADER_LEN, usize::MAX);
    let header = ipv4::Header::from_slice(quoted);
    f.write_str("icmp ")?;
    if let Ok(header) = header {
        write!(f, "{} ", header.dst())?;
    }
    match name {
        Some(name) => write!(f, "unreachable {name}")?,
        None => write!(f, "unreachable code {code}")?,
    }
    let Ok(header) = header else {
        return f.write_str(" truncated-icmp");
    };
    let protocol = header.protocol();
    match name.unwrap_or("") {
        "protocol" => match known_to_click(protocol) {
            Some(name) => write!(f, " {name}"),
            None => write!(f, " {}", protocol.0),
        },
        "port" => {
            match known_to_click(protocol) {
                Some(name) => write!(f, " {name}")?,
                None => write!(f, " protocol {}", protocol.0)?,
            }
            match range(quoted, header.header_len(), usize::MAX) {
                &[_, _, a, b, ..] => write!(f, "/{}", u16::from_be_bytes([a, b])),
                _ => f.write_str("truncated-icmp"),
            }
        }
        "needfrag" => match load_at::<u16>(segment, icmpv4::field::NEXT_HOP_MTU) {
            0 => Ok(()),
            mtu => write!(f, " (mtu {mtu})"),
        },
        _ => Ok(()),
    }
}

/// The protocols that Click calls by name.
fn known_to_click(protocol: Protocol) -> Option<&'static str> {
    let known = [Protocol::ICMP, Protocol::IGMP, Protocol::IPIP, Protocol::TCP, Protocol::UDP];
    known.contains(&protocol).then(|| protocol.name()).flatten()
}

/// The line of an IPv4 packet, as `IPPrint` prints it, without label and timestamp.
///
/// ```
/// assert_eq!(junctor_wire::dump::ip_summary(&[0x45]), "truncated-ip");
/// ```
pub fn ip_summary(packet: &[u8]) -> String {
    IpSummary::new(packet).to_string()
}

/// What `IPPrint`'s `PAYLOAD` shows of an IPv4 packet: what TCP or UDP carries, of anything else what IP carries. Bytes
/// beyond the IP length are shown as well.
pub fn ip_payload(packet: &[u8]) -> &[u8] {
    let Ok(header) = ipv4::Header::from_slice(packet) else {
        return &[];
    };
    let segment = range(packet, header.header_len(), usize::MAX);
    let skip = match header.protocol() {
        _ if !header.is_first_fragment() => 0,
        Protocol::TCP => usize::from(load_at::<u8>(segment, tcp::field::DATA_OFFSET) >> 4) * 4,
        Protocol::UDP => udp::HEADER_LEN,
        _ => 0,
    };
    range(segment, skip, usize::MAX)
}

/// Bytes as hexadecimal digits or as characters, in groups.
#[derive(Debug, Clone, Copy)]
pub struct Dump<'a> {
    data: &'a [u8],
    ascii: bool,
    lines: bool,
}

/// As `Print` shows contents: hexadecimal, a space between groups of 4 bytes.
pub fn hex(data: &[u8]) -> Dump<'_> {
    Dump { data, ascii: false, lines: false }
}

/// As `Print` shows contents with `CONTENTS ASCII`: a space before each group of 8 characters.
pub fn ascii(data: &[u8]) -> Dump<'_> {
    Dump { data, ascii: true, lines: false }
}

/// As `IPPrint` shows contents: hexadecimal, 24 bytes a line, each line on a new one behind two spaces.
pub fn hex_lines(data: &[u8]) -> Dump<'_> {
    Dump { data, ascii: false, lines: true }
}

/// As `IPPrint` shows contents with `CONTENTS ASCII`: 48 characters a line.
pub fn ascii_lines(data: &[u8]) -> Dump<'_> {
    Dump { data, ascii: true, lines: true }
}

impl fmt::Display for Dump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (group, line) = if self.ascii { (8, 48) } else { (4, 24) };
        for (i, &byte) in self.data.iter().enumerate() {
            if self.lines && i % line == 0 {
                f.write_str("\n  ")?;
            } else if i % group == 0 && (i > 0 || self.ascii) {
                f.write_str(" ")?;
            }
            match (self.ascii, byte) {
                (false, _) => write!(f, "{byte:02x}")?,
                (true, 32..=126) => write!(f, "{}", byte as char)?,
                (true, _) => f.write_str(".")?,
            }
        }
        Ok(())
    }
}

/// One line for any Ethernet frame: addresses, tags, and the line of what it carries. For people, not for scripts.
pub fn frame_summary(frame: &[u8]) -> String {
    let (Ok(header), Some(layer)) = (ethernet::Header::from_slice(frame), ethernet::network_layer(frame))
    else {
        return "truncated-ethernet".to_owned();
    };
    let tags: String =
        [layer.outer, layer.inner].into_iter().flatten().map(|tag| format!("{tag}, ")).collect();
    let network = range(frame, layer.offset, usize::MAX);
    let carried = match layer.ethertype {
        EtherType::IPV4 => format!("ip {}", ip_summary(network)),
        EtherType::IPV6 => ip6_summary(network),
        EtherType::ARP => {
            arp::View::new_checked(network).map_or_else(|e| e.to_string(), |arp| arp.to_string())
        }
        length if length.is_length() => {
            llc::View::new_checked(network).map_or_else(|e| e.to_string(), |llc| llc.to_string())
        }
        other => format!("ethertype {other}, length {}", network.len()),
    };
    format!("{} > {}, {tags}{carried}", header.src(), header.dst())
}

/// One line for an IPv6 packet. For people, not for scripts.
pub fn ip6_summary(packet: &[u8]) -> String {
    let view = match ipv6::View::new_header_checked(packet) {
        Ok(view) => view,
        Err(error) => return error.to_string(),
    };
    let Ok(upper) = view.upper_layer() else {
        return view.to_string();
    };
    let segment = range(view.payload(), upper.offset, usize::MAX);
    let first = upper.fragment.is_none_or(|fragment| fragment.offset == 0);
    let line = match upper.protocol {
        Protocol::TCP if first => tcp::View::new_checked(segment).ok().map(|v| v.to_string()),
        Protocol::UDP if first => udp::View::new_checked(segment).ok().map(|v| v.to_string()),
        Protocol::ICMPV6 if first => icmpv6::View::new_checked(segment).ok().map(|v| v.to_string()),
        _ => None,
    };
    match line {
        Some(line) => format!("ip6 {} > {}: {line}", view.src(), view.dst()),
        None => view.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MacAddr;

    fn packet(protocol: u8, fragment: u16, total_len: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 20];
        let repr = ipv4::Repr {
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            protocol: Protocol(protocol),
            payload_len: total_len - 20,
            id: 7,
            fragment,
            ..Default::default()
        };
        repr.emit(&mut bytes).unwrap();
        bytes.extend(payload);
        bytes
    }

    /// Lines as Click's IPPrint composes them (elements/ip/ipprint.cc, behaviour only).
    #[test]
    fn ipprint_lines() {
        let check = |bytes: &[u8], expected: &str| assert_eq!(ip_summary(bytes), expected);
        let tcp = |flags: u8| [4, 1, 0, 80, 0, 0, 0, 1, 0, 0, 0, 9, 0x50, flags, 2, 0, 0, 0, 0, 0];
        let pair = "10.0.0.1 > 10.0.0.2";
        let sockets = "10.0.0.1.1025 > 10.0.0.2.80";
        check(&packet(6, 0, 40, &tcp(2)), &format!("{sockets}: S 1:2(1,40,40) win 512"));
        check(&packet(6, 0, 40, &tcp(0x12)), &format!("{sockets}: S 1:2(1,40,40) ack 9 win 512"));
        check(&packet(6, 0, 40, &tcp(0x10)), &format!("{sockets}: . 1:1(0,40,40) ack 9 win 512"));
        check(&packet(6, 0, 44, &tcp(0x19)), &format!("{sockets}: FP 1:6(5,40,44) ack 9 win 512"));
        check(&packet(6, 0, 40, &tcp(2)[..15]), &format!("{sockets}: S 1:2(1,35,40)truncated-tcp"));
        check(&packet(6, 0, 40, &tcp(2)[..13]), &format!("{sockets}: truncated-tcp"));
        check(&packet(6, 0, 40, &tcp(2)[..3]), &format!("{pair}: truncated-tcp"));
        check(&packet(6, 185, 40, &tcp(2)), &format!("{pair}: tcp (frag 7:20@1480)"));
        check(&packet(17, 0, 28, &[4, 1, 0, 80, 0, 8, 0, 0]), &format!("{sockets}: udp 8"));
        check(
            &packet(17, 0x2000, 28, &[4, 1, 0, 80, 0, 99, 0, 0]),
            &format!("{sockets}: udp 99 (frag 7:8@0+)"),
        );
        check(&packet(17, 0, 24, &[4, 1, 0, 80, 0, 8, 0, 0]), &format!("{sockets}: truncated-udp"));
        check(&packet(47, 0, 20, &[]), &format!("{pair}: ip-proto-47"));
        check(&packet(6, 0, 40, &[])[..19], "truncated-ip");
        let mut summary = IpSummary::new(&[]);
        let bytes = packet(47, 0, 20, &[]);
        (summary.packet, summary.id, summary.ttl, summary.tos, summary.length) =
            (&bytes, true, true, true, true);
        assert_eq!(summary.to_string(), format!("id 7 ttl 64 tos 0 length 20 {pair}: ip-proto-47"));
    }

    #[test]
    fn ipprint_icmp_lines() {
        let check = |message: &[u8], expected: &str| {
            let bytes = packet(1, 0, 20 + message.len() as u16, message);
            assert_eq!(ip_summary(&bytes), format!("10.0.0.1 > 10.0.0.2: {expected}"));
        };
        let quoting =
            |head: [u8; 8], protocol: u8, tail: &[u8]| [&head[..], &packet(protocol, 0, 40, tail)].concat();
        check(&[8, 0, 0, 0, 0, 1, 0, 2], "icmp echo (1, 2)");
        check(&[0, 0, 0, 0, 0, 1, 0, 2], "icmp echo-reply (1, 2)");
        check(&[8, 0, 0, 0], "icmp echo truncated-icmp");
        check(&[8], "truncated-icmp");
        check(&[11, 0, 0, 0, 0, 0, 0, 0], "icmp timeexceeded transit");
        check(&[13, 0, 0, 0, 0, 0, 0, 0], "icmp timestamp");
        check(&[40, 3, 0, 0, 0, 0, 0, 0], "icmp type 40 code 3");
        check(&[3, 1, 0, 0, 0, 0, 0, 0], "icmp unreachable host truncated-icmp");
        check(&quoting([3, 1, 0, 0, 0, 0, 0, 0], 17, &[]), "icmp 10.0.0.2 unreachable host");
        check(&quoting([3, 2, 0, 0, 0, 0, 0, 0], 47, &[]), "icmp 10.0.0.2 unreachable protocol 47");
        check(
            &quoting([3, 3, 0, 0, 0, 0, 0, 0], 17, &[1, 2, 0, 53]),
            "icmp 10.0.0.2 unreachable port udp/53",
        );
        check(
            &quoting([3, 3, 0, 0, 0, 0, 0, 0], 132, &[1, 2, 0, 53]),
            "icmp 10.0.0.2 unreachable port protocol 132/53",
        );
        check(
            &quoting([3, 3, 0, 0, 0, 0, 0, 0], 17, &[1]),
            "icmp 10.0.0.2 unreachable port udptruncated-icmp",
        );
        check(
            &quoting([3, 4, 0, 0, 0, 0, 5, 0xdc], 17, &[]),
            "icmp 10.0.0.2 unreachable needfrag (mtu 1500)",
        );
        check(&quoting([3, 77, 0, 0, 0, 0, 0, 0], 17, &[]), "icmp 10.0.0.2 unreachable code 77");
    }

    #[test]
    fn dumps() {
        let data: Vec<u8> = (0x3d..0x3d + 50).collect();
        assert_eq!(hex(&data[..9]).to_string(), "3d3e3f40 41424344 45");
        assert_eq!(hex(&[]).to_string(), "");
        assert_eq!(ascii(&[b'a', 0, b'c', b'd', b'e', b'f', b'g', b'h', 0x7f]).to_string(), " a.cdefgh .");
        assert_eq!(
            hex_lines(&data[..26]).to_string(),
            "\n  3d3e3f40 41424344 45464748 494a4b4c 4d4e4f50 51525354\n  5556"
        );
        assert_eq!(
            ascii_lines(&data).to_string(),
            "\n  =>?@ABCD EFGHIJKL MNOPQRST UVWXYZ[\\ ]^_`abcd efghijkl\n  mn"
        );
    }

    #[test]
    fn payloads() {
        let udp = packet(17, 0, 30, &[4, 1, 0, 80, 0, 10, 0, 0, 8, 9]);
        assert_eq!(ip_payload(&udp), [8, 9]);
        assert_eq!(ip_payload(&packet(17, 1, 24, &[1, 2, 3, 4])), [1, 2, 3, 4]);
        assert_eq!(ip_payload(&packet(47, 0, 24, &[1, 2, 3, 4])), [1, 2, 3, 4]);
        assert_eq!(ip_payload(&[]), [0u8; 0]);
    }

    #[test]
    fn frames() {
        let check = |ethertype: u16, payload: &[u8], expected: &str| {
            let (dst, src) = (MacAddr::BROADCAST, MacAddr::new(2, 0, 0, 0, 0, 1));
            let link = ethernet::Repr { dst, src, ethertype: EtherType(ethertype) };
            let line = frame_summary(&[&link.to_bytes(), payload].concat());
            assert_eq!(line, format!("02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff, {expected}"));
        };
        let ip = packet(17, 0, 28, &[4, 1, 0, 80, 0, 8, 0, 0]);
        check(0x800, &ip, "ip 10.0.0.1.1025 > 10.0.0.2.80: udp 8");
        check(
            0x8100,
            &[&[0, 5, 8, 0], &ip[..]].concat(),
            "vlan 5, p 0, ip 10.0.0.1.1025 > 10.0.0.2.80: udp 8",
        );
        check(0x806, &[1], "ARP: truncated, 28 bytes needed but only 1 present");
        check(0x9000, &[1, 2], "ethertype 0x9000, length 2");
        let mut ip6 = vec![0; 40];
        let repr = ipv6::Repr { next_header: Protocol::ICMPV6, payload_len: 8, ..Default::default() };
        repr.emit(&mut ip6).unwrap();
        ip6.extend([128, 0, 0, 0, 0, 1, 0, 2]);
        check(0x86dd, &ip6, "ip6 :: > ::: icmp6 echo (1, 2)");
        assert_eq!(frame_summary(&[0; 13]), "truncated-ethernet");
    }
}
