// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPPrint
//!
//! `IPPrint([LABEL, keywords CONTENTS, PAYLOAD, MAXLENGTH, ETHER, ID, TIMESTAMP, PAINT, TOS, TTL, SWAP, LENGTH, AGGREGATE,
//! ACTIVE, OUTFILE, CHANNEL])`
//!
//! Prints a line about each IP packet, in the manner of tcpdump, and passes it on.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `LABEL` text before each line.
//! * `CONTENTS` `NONE` (default), `HEX` or `ASCII`: prints the packet's bytes on further lines. `PAYLOAD` prints in the same way only what TCP, UDP
//!   or IP carries.
//! * `MAXLENGTH` bytes of contents at most, default 1500; -1 for all. `NBYTES` is a synonym.
//! * `TIMESTAMP` boolean, default true. `ETHER`, `ID`, `PAINT`, `TOS`, `TTL`, `LENGTH`, `AGGREGATE` booleans, default false:
//!   what else to print.
//! * `SWAP` boolean, default true: prints ICMP identifiers and sequence numbers in network order.
//! * `ACTIVE` boolean, default true.
//! * `OUTFILE` file to print to instead of standard error. Only its owner may read it, and a symbolic link is not followed.
//! * `CHANNEL` accepted for compatibility.
//!
//! **Metadata read:** network header position, timestamp, paint, aggregate, link header position.
//!
//! **Drops:** none; packets without marked IP header pass silently.
//!
//! **Handlers**
//! * `active` read/write: the argument.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> IPPrint(in) -> Discard;
//! ```
//!
//! See also: Print, CheckIPHeader

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use element::args::{Args, parse_bool};
use element::{Class, Cx, Element, OpenCx, Rehearsal, SharedState, Tasks, handlers};
use packet::{Batch, Packet, anno};
use wire::icmpv4::Type;

use crate::tools::{Lines, seconds};

/// The descriptor.
pub const CLASS: Class = Class::new("IPPrint", "1/1", || Box::new(IpPrint::default()))
    .sharing(element::Sharing::Shared)
    .handlers(handlers! { IpPrint:
        both "active".everywhere() => .active;
    })
    .forwards()
    .shared_state::<IpPrint>()
    .rehearsal::<IpPrint>()
    .file(file!());

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Contents {
    #[default]
    None,
    Hex,
    Ascii,
}

#[derive(Clone, Default)]
struct IpPrint {
    label: String,
    show: Show,
    contents: Contents,
    payload_only: bool,
    max_length: Option<usize>,
    swap: bool,
    active: bool,
    lines: Lines,
}

/// What to print in addition to the packet itself.
#[derive(Clone, Default)]
struct Show {
    timestamp: bool,
    ether: bool,
    id: bool,
    paint: bool,
    tos: bool,
    ttl: bool,
    length: bool,
    aggregate: bool,
}

// Writing to a string cannot fail, so the results of `write!` are let go.
impl IpPrint {
    fn contents_argument(args: &mut Args<'_>, name: &'static str) -> Contents {
        let text: String = args.keyword(name, "NONE".into());
        match text.to_ascii_uppercase().as_str() {
            "NONE" => Contents::None,
            "HEX" => Contents::Hex,
            "ASCII" => Contents::Ascii,
            other => match parse_bool(other) {
                Some(true) => Contents::Hex,
                Some(false) => Contents::None,
                None => {
                    let should = "should be 'NONE', 'HEX', or 'ASCII'";
                    let click = match name {
                        "CONTENTS" => format!("bad contents value '{}'; {should}", text.to_ascii_uppercase()),
                        _ => "bad payload value 'no'; should be 'false', 'hex', or 'ascii'".to_owned(),
                    };
                    args.error_as(format!("bad {name} value '{text}'; {should}"), click);
                    Contents::None
                }
            },
        }
    }

    fn line(&self, packet: &Packet) -> Option<String> {
        let at = usize::try_from(packet.network_offset()?).ok()?;
        let mut line = String::new();
        self.prefix(&mut line, packet);
        let ip = packet.data().get(at..).unwrap_or(&[]);
        let Some(header) = ip.first_chunk::<20>() else {
            return Some(line + "truncated-ip");
        };
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let (total, fragment) = (usize::from(word(2)), word(6));
        for (shown, name, value) in [
            (self.show.id, "id", word(4).into()),
            (self.show.ttl, "ttl", header[8].into()),
            (self.show.tos, "tos", header[1].into()),
            (self.show.length, "length", total),
        ] {
            if shown {
                let _ = write!(line, "{name} {value} ");
            }
        }
        let header_len = usize::from(header[0] & 15) * 4;
        let payload_len = total.saturating_sub(header_len);
        let transport = ip.get(header_len..).unwrap_or(&[]);
        let transport = &transport[..transport.len().min(payload_len)];
        let text =
            Text { header, transport, first: fragment & 0x1fff == 0, payload_len, packet_len: packet.len() };
        match header[9] {
            6 => text.tcp(&mut line),
            17 => text.udp(&mut line),
            1 => text.icmp(&mut line, self.swap),
            other => {
                let _ = write!(line, "{}: ip-proto-{other}", text.pair());
            }
        }
        if fragment & 0x3fff != 0 {
            let more = if fragment & 0x2000 != 0 { "+" } else { "" };
            let offset = u32::from(fragment & 0x1fff) * 8;
            let _ = write!(line, " (frag {}:{payload_len}@{offset}{more})", word(4));
        }
        if self.contents != Contents::None {
            let skip = match (self.payload_only, header[9], text.first) {
                (false, ..) => 0,
                (true, 6, true) => at + header_len + transport.get(12).map_or(0, |b| usize::from(b >> 4) * 4),
                (true, 17, true) => at + header_len + 8,
                _ => at + header_len,
            };
            let shown = packet.data().get(skip..).unwrap_or(&[]);
            self.dump(&mut line, &shown[..shown.len().min(self.max_length.unwrap_or(usize::MAX))]);
        }
        Some(line)
    }

    /// Label, time, colour and link addresses.
    fn prefix(&self, line: &mut String, packet: &Packet) {
        if !self.label.is_empty() {
            let _ = write!(line, "{}: ", self.label);
        }
        if self.show.timestamp {
            let _ = write!(line, "{}: ", seconds(packet.timestamp_ns()));
        }
        if self.show.aggregate {
            let _ = write!(line, "#{}", packet.anno_u32(anno::AGGREGATE));
        }
        if self.show.paint {
            let _ = write!(line, "{}{}", if self.show.aggregate { "." } else { "paint " }, packet.paint());
        }
        if self.show.aggregate || self.show.paint {
            line.push_str(": ");
        }
        let before_ip = packet.network_offset().zip(packet.mac_offset()).is_some_and(|(n, m)| m + 14 <= n);
        if self.show.ether
            && before_ip
            && let Some([to @ .., _, _]) = packet.mac().and_then(|m| m.first_chunk::<14>())
        {
            let mac = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02X}")).collect::<Vec<_>>().join("-");
            let _ = write!(line, "{} > {}: ", mac(&to[6..]), mac(&to[..6]));
        }
    }

    /// Bytes on lines of their own.
    fn dump(&self, line: &mut String, bytes: &[u8]) {
        let (per_line, per_group) = if self.contents == Contents::Hex { (24, 4) } else { (48, 8) };
        for (i, byte) in bytes.iter().enumerate() {
            match (i % per_line, i % per_group) {
                (0, _) => line.push_str("\n  "),
                (_, 0) => line.push(' '),
                _ => {}
            }
            let _ = match self.contents {
                Contents::Hex => write!(line, "{byte:02x}"),
                _ => write!(line, "{}", if (32..=126).contains(byte) { char::from(*byte) } else { '.' }),
            };
        }
    }
}

/// A packet's headers, to be described.
struct Text<'a> {
    header: &'a [u8; 20],
    /// What IP carries, as far as it is there.
    transport: &'a [u8],
    /// Whether the transport header would be here: no fragment but the first.
    first: bool,
    payload_len: usize,
    packet_len: usize,
}

impl Text<'_> {
    fn addresses(&self) -> (Ipv4Addr, Ipv4Addr) {
        super::faults::addresses(self.header)
    }

    fn pair(&self) -> String {
        let (src, dst) = self.addresses();
        format!("{src} > {dst}")
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.transport[at], self.transport[at + 1]])
    }

    fn long(&self, at: usize) -> u32 {
        u32::from(self.word(at)) << 16 | u32::from(self.word(at + 2))
    }

    /// Addresses with ports, or what keeps them from being known.
    fn ports(&self, line: &mut String, name: &str) -> bool {
        if self.transport.len() < 4 || !self.first {
            let truncated = if self.first { "truncated-" } else { "" };
            let _ = write!(line, "{}: {truncated}{name}", self.pair());
            return false;
        }
        let (src, dst) = self.addresses();
        let _ = write!(line, "{src}.{} > {dst}.{}: ", self.word(0), self.word(2));
        true
    }

    fn tcp(&self, line: &mut String) {
        if !self.ports(line, "tcp") {
            return;
        }
        if self.transport.len() < 14 {
            line.push_str("truncated-tcp");
            return;
        }
        let flags = self.transport[13];
        let mut len = (self.payload_len as i32) - i32::from(self.transport[12] >> 4) * 4;
        for (flag, letter, counts) in [(2, 'S', 1), (1, 'F', 1), (4, 'R', 0), (8, 'P', 0)] {
            if flags & flag != 0 {
                line.push(letter);
                len += counts;
            }
        }
        if flags & 15 == 0 {
            line.push('.');
        }
        let sequence = self.long(4);
        let end = sequence.wrapping_add(len as u32);
        let total = u16::from_be_bytes([self.header[2], self.header[3]]);
        let _ = write!(line, " {sequence}:{end}({len},{},{total})", self.packet_len);
        if flags & 16 != 0 {
            let _ = write!(line, " ack {}", self.long(8));
        }
        if self.transport.len() < 16 {
            line.push_str("truncated-tcp");
        } else {
            let _ = write!(line, " win {}", self.word(14));
        }
    }

    fn udp(&self, line: &mut String) {
        if !self.ports(line, "udp") {
        } else if self.transport.len() < 8 {
            line.push_str("truncated-udp");
        } else {
            let _ = write!(line, "udp {}", self.word(4));
        }
    }

    fn icmp(&self, line: &mut String, swap: bool) {
        let _ = write!(line, "{}: ", self.pair());
        if !self.first {
            line.push_str("icmp");
            return;
        }
        let &[kind, code, ..] = self.transport else {
            line.push_str("truncated-icmp");
            return;
        };
        let kind = Type(kind);
        let number = |at| if swap { self.word(at) } else { self.word(at).swap_bytes() };
        match kind {
            Type::ECHO | Type::ECHO_REPLY => {
                let name = kind.name().unwrap_or_default();
                let _ = match self.transport.len() {
                    8.. => write!(line, "icmp {name} ({}, {})", number(4), number(6)),
                    _ => write!(line, "icmp {name} truncated-icmp"),
                };
            }
            Type::UNREACHABLE => self.unreachable(line, code),
            _ => {
                let _ = match kind.name() {
                    Some(name) => write!(line, "icmp {name}"),
                    None => write!(line, "icmp type {}", kind.0),
                };
                let _ = match kind.code_name(code) {
                    Some(name) => write!(line, " {name}"),
                    None if code != 0 => write!(line, " code {code}"),
                    None => Ok(()),
                };
            }
        }
    }

    /// An unreachable message, with what it says about the packet it quotes.
    fn unreachable(&self, line: &mut String, code: u8) {
        let name = Type::UNREACHABLE.code_name(code).map_or_else(|| format!("code {code}"), str::to_owned);
        let quoted = self.transport.get(8..).unwrap_or(&[]);
        let Some(header) = quoted.first_chunk::<20>() else {
            let _ = write!(line, "icmp unreachable {name} truncated-icmp");
            return;
        };
        let _ = write!(line, "icmp {} unreachable {name}", super::faults::addresses(header).1);
        let protocol = wire::Protocol(header[9]);
        let ports = quoted.get(usize::from(header[0] & 15) * 4..).unwrap_or(&[]);
        let _ = match (code, ports, protocol.name()) {
            (2, _, Some(name)) => write!(line, " {name}"),
            (2, _, None) => write!(line, " {}", protocol.0),
            (3, &[_, _, high, low, ..], Some(name)) => {
                write!(line, " {name}/{}", u16::from_be_bytes([high, low]))
            }
            (3, &[_, _, high, low, ..], None) => {
                write!(line, " protocol {}/{}", protocol.0, u16::from_be_bytes([high, low]))
            }
            (3, _, Some(name)) => write!(line, " {name}truncated-icmp"),
            (3, _, None) => write!(line, " protocol {}truncated-icmp", protocol.0),
            (4, ..) if self.word(6) != 0 => write!(line, " (mtu {})", self.word(6)),
            _ => Ok(()),
        };
    }
}

impl Element for IpPrint {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.label = String::from_utf8_lossy(&args.positional("LABEL", Vec::<u8>::new())).into_owned();
        self.contents = IpPrint::contents_argument(args, "CONTENTS");
        let payload = IpPrint::contents_argument(args, "PAYLOAD");
        if payload != Contents::None {
            if self.contents != Contents::None {
                args.error("specify at most one of PAYLOAD and CONTENTS");
            }
            (self.contents, self.payload_only) = (payload, true);
        }
        let nbytes = args.keyword("NBYTES", 1500i64);
        self.max_length = usize::try_from(args.keyword("MAXLENGTH", nbytes)).ok();
        self.show = Show {
            timestamp: args.keyword("TIMESTAMP", true),
            ether: args.keyword("ETHER", false),
            id: args.keyword("ID", false),
            paint: args.keyword("PAINT", false),
            tos: args.keyword("TOS", false),
            ttl: args.keyword("TTL", false),
            length: args.keyword("LENGTH", false),
            aggregate: args.keyword("AGGREGATE", false),
        };
        self.swap = args.keyword("SWAP", true);
        self.active = args.keyword("ACTIVE", true);
        self.lines.configure(args);
        let _: Option<String> = args.keyword_opt("CHANNEL");
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        if !cx.is_dry() {
            self.lines.open(cx)?;
        }
        Ok(Tasks::None)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        if self.active {
            batch.iter().filter_map(|p| self.line(p)).for_each(|line| self.lines.print(cx, &line));
        }
        batch
    }
}

impl Rehearsal for IpPrint {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

impl SharedState for IpPrint {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::datagram;
    use super::*;
    use crate::testing::Rig;

    /// A packet of this protocol with this payload.
    fn packet(protocol: u8, payload: &[u8]) -> Packet {
        let mut p = datagram(64, [1, 2, 3, 4], [5, 6, 7, 8], &[], payload.len());
        p.data_mut()[9] = protocol;
        p.data_mut()[20..].copy_from_slice(payload);
        p
    }

    fn check(config: &str, packet: Packet, want: &str) {
        let run = Rig::new(&format!("IPPrint({config})")).packets(vec![packet]).run();
        assert_eq!((run.printed(), run.out("o0").len()), (format!("{want}\n"), 1));
    }

    const TCP: [u8; 24] =
        [4, 210, 0, 80, 0, 0, 0, 9, 0, 0, 0, 5, 0x50, 0x12, 1, 0, 0, 0, 0, 0, b'a', b'b', b'c', b'd'];

    #[test]
    fn lines_by_protocol() {
        let quiet = "TIMESTAMP false";
        check(quiet, packet(6, &TCP), "1.2.3.4.1234 > 5.6.7.8.80: S 9:14(5,44,44) ack 5 win 256");
        check(quiet, packet(6, &TCP[..13]), "1.2.3.4.1234 > 5.6.7.8.80: truncated-tcp");
        check(quiet, packet(6, &TCP[..3]), "1.2.3.4 > 5.6.7.8: truncated-tcp");
        check(quiet, packet(17, &[4, 210, 0, 53, 0, 9, 0, 0, 7]), "1.2.3.4.1234 > 5.6.7.8.53: udp 9");
        check(quiet, packet(17, &[4, 210, 0, 53]), "1.2.3.4.1234 > 5.6.7.8.53: truncated-udp");
        check(quiet, packet(1, &[8, 0, 0, 0, 1, 2, 0, 3]), "1.2.3.4 > 5.6.7.8: icmp echo (258, 3)");
        check(quiet, packet(1, &[11, 0, 0, 0, 0, 0, 0, 0]), "1.2.3.4 > 5.6.7.8: icmp timeexceeded transit");
        check(quiet, packet(47, &[]), "1.2.3.4 > 5.6.7.8: ip-proto-47");
        let quoted = [&[3, 3, 0, 0, 0, 0, 0, 0][..], packet(17, &[4, 210, 0, 53]).data()].concat();
        check(quiet, packet(1, &quoted), "1.2.3.4 > 5.6.7.8: icmp 5.6.7.8 unreachable port udp/53");
    }

    #[test]
    fn fragments() {
        let mut p = packet(17, &[0; 8]);
        p.data_mut()[6..8].copy_from_slice(&[0x20, 2]);
        check("TIMESTAMP false", p, "1.2.3.4 > 5.6.7.8: udp (frag 4660:8@16+)");
    }

    #[test]
    fn extras() {
        let mut p = packet(47, &[0x41; 26]);
        p.set_timestamp_ns(1_500_000_000);
        p.set_paint(3);
        let all = "lab, ID true, PAINT true, TTL true, TOS true, LENGTH true, CONTENTS HEX, MAXLENGTH 26";
        let want = "lab: 1.500000: paint 3: id 4660 ttl 64 tos 0 length 46 1.2.3.4 > 5.6.7.8: ip-proto-47";
        let bytes: Vec<u8> = p.data()[..24].to_vec();
        let hex: Vec<String> =
            bytes.chunks(4).map(|c| c.iter().map(|b| format!("{b:02x}")).collect()).collect();
        check(all, p, &format!("{want}\n  {}\n  4141", hex.join(" ")));
        let want = "1.2.3.4 > 5.6.7.8: ip-proto-47\n  AAAAAAAA AA";
        check("TIMESTAMP false, PAYLOAD ASCII", packet(47, &[0x41; 10]), want);
    }

    #[test]
    fn silence() {
        let unmarked = Packet::copy_of(b"x").unwrap();
        let run = Rig::new("IPPrint").packets(vec![unmarked]).run();
        assert_eq!((run.printed().as_str(), run.out("o0").len()), ("", 1));
        let mut run = Rig::new("IPPrint(ACTIVE false)").packets(vec![packet(47, &[])]).run();
        assert_eq!((run.printed().as_str(), run.read("e.active").as_str()), ("", "false"));
        let error = "e: bad CONTENTS value 'x'; should be 'NONE', 'HEX', or 'ASCII'";
        assert_eq!(Rig::new("IPPrint(CONTENTS x)").errors(), [error]);
    }
}
