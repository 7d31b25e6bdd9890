// SPDX-License-Identifier: MIT OR Apache-2.0
//! # AggregateIP
//!
//! `AggregateIP(FIELD [, keywords INCREMENTAL, UNSHIFT_IP_ADDR])`
//!
//! Sets each packet's aggregate annotation to a field of its IP header, transport header or payload.
//!
//! **Ports:** 1 input, 1 to 2 outputs; the first is agnostic, the second one push.
//!
//! **Arguments**
//! * `FIELD` a field's name, or its place, with or without a mask.
//!   * `ip` with `vers`, `hl`, `tos`, `dscp`, `ecn`, `len`, `id`, `off`, `rf`, `df`, `mf`, `fragoff`, `ttl`, `proto`, `sum`, `src`, `dst`. `udp` with
//!     `sport`, `dport`, `len`, `sum`. `tcp` with `sport`, `dport`, `seq`, `ack`, `hl`, `flags`, `fin`, `syn`, `rst`, `psh`, `ackf`, `urg`, `win`,
//!     `sum`, `urp`. `icmp` with `type`, `code`, `sum`. `sport` or `dport` alone for UDP and TCP.
//!   * `ip[OFFSET:LENGTH]`, `ip[FIRST-LAST]` or `ip[OFFSET]` in bytes, and the same in bits with braces. In place of `ip`: `tcp`, `udp`, `icmp`,
//!     `transp` for any transport header, `data` for the payload of UDP and TCP.
//!   * `/N` behind it takes the upper N bits, `& MASK` the bits of a mask with one run of ones.
//! * `INCREMENTAL` boolean, default false: the field is appended to the annotation's bits.
//! * `UNSHIFT_IP_ADDR` boolean, default false: a part of an IP address keeps its place in the address, so that `ip src/8` of 10.1.2.3
//!   gives 10.0.0.0 and not 10.
//!
//! The field has at most 32 bits.
//!
//! **Metadata read:** network and transport header positions. **Set:** aggregate.
//!
//! **Drops:** `not-matched`, packets without the field, if there is no output 1. Later fragments have no transport header.
//!
//! **Handlers**
//! * `header` read: `ip`, `transp` or `payload`. `bit_offset`, `bit_length` read: the field's place, in bits. `field` read: the argument.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> AggregateIP(ip dst/16) -> AggregateCounter -> Discard;
//! ```
//!
//! See also: AggregateCounter, AggregateIPFlows, AggregateLength, AggregatePaint

use element::args::{Args, Raw};
use element::{Class, Cx, Element, Reason, handlers, parse_integer};
use packet::{Batch, Packet, anno};

/// The descriptor.
pub const CLASS: Class = Class::new("AggregateIP", "1/1-2", || Box::new(AggregateIp::default()))
    .processing("a/ah")
    .handlers(handlers! { AggregateIp:
        read "header" => |element| match element.field.header {
            Header::Ip => "ip",
            Header::Payload => "payload",
            _ => "transp",
        };
        read "bit_offset" => .field.offset;
        read "bit_length" => .field.length;
        read "field" => .text;
    })
    .pure()
    .file(file!());

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;

/// Where a field's offset counts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Header {
    #[default]
    Ip,
    /// Any transport header.
    Transport,
    /// That of one protocol.
    Of(u8),
    TcpOrUdp,
    Payload,
}

impl Header {
    fn named(name: &str) -> Option<Header> {
        Some(match name {
            "ip" => Header::Ip,
            "transp" => Header::Transport,
            "tcp" => Header::Of(TCP),
            "udp" => Header::Of(UDP),
            "icmp" => Header::Of(ICMP),
            "data" | "payload" => Header::Payload,
            _ => return None,
        })
    }

    /// Where it begins in a packet, from the network header.
    fn offset(self, ip: &[u8]) -> Option<usize> {
        let head: &[u8; 20] = ip.first_chunk()?;
        if self == Header::Ip {
            return Some(0);
        }
        let (protocol, transport) = (head[9], usize::from(head[0] & 15) * 4);
        let first = head[6] & 0x1f == 0 && head[7] == 0;
        let carries = match self {
            Header::Of(wanted) => protocol == wanted,
            Header::TcpOrUdp | Header::Payload => [TCP, UDP].contains(&protocol),
            Header::Ip | Header::Transport => true,
        };
        match self {
            _ if !first || !carries || transport < 20 => None,
            Header::Payload if protocol == TCP => {
                Some(transport + usize::from(ip.get(transport + 12)? >> 4) * 4)
            }
            Header::Payload => Some(transport + 8),
            _ => Some(transport),
        }
    }
}

/// Fields by header and name, with their offset and length in bits.
#[rustfmt::skip]
const FIELDS: &[(Header, &str, u32, u32)] = &[
    (Header::Ip, "vers", 0, 4), (Header::Ip, "hl", 4, 4), (Header::Ip, "tos", 8, 8), (Header::Ip, "dscp", 8, 6),
    (Header::Ip, "ecn", 14, 2), (Header::Ip, "len", 16, 16), (Header::Ip, "id", 32, 16), (Header::Ip, "off", 48, 16),
    (Header::Ip, "rf", 48, 1), (Header::Ip, "df", 49, 1), (Header::Ip, "mf", 50, 1), (Header::Ip, "fragoff", 51, 13),
    (Header::Ip, "ttl", 64, 8), (Header::Ip, "proto", 72, 8), (Header::Ip, "sum", 80, 16), (Header::Ip, "src", 96, 32),
    (Header::Ip, "dst", 128, 32),
    (Header::Of(UDP), "sport", 0, 16), (Header::Of(UDP), "dport", 16, 16), (Header::Of(UDP), "len", 32, 16),
    (Header::Of(UDP), "sum", 48, 16),
    (Header::Of(TCP), "sport", 0, 16), (Header::Of(TCP), "dport", 16, 16), (Header::Of(TCP), "seq", 32, 32),
    (Header::Of(TCP), "ack", 64, 32), (Header::Of(TCP), "hl", 96, 4), (Header::Of(TCP), "flags", 104, 8),
    (Header::Of(TCP), "urg", 106, 1), (Header::Of(TCP), "ackf", 107, 1), (Header::Of(TCP), "psh", 108, 1),
    (Header::Of(TCP), "rst", 109, 1), (Header::Of(TCP), "syn", 110, 1), (Header::Of(TCP), "fin", 111, 1),
    (Header::Of(TCP), "win", 112, 16), (Header::Of(TCP), "sum", 128, 16), (Header::Of(TCP), "urp", 144, 16),
    (Header::Of(ICMP), "type", 0, 8), (Header::Of(ICMP), "code", 8, 8), (Header::Of(ICMP), "sum", 16, 16),
    (Header::TcpOrUdp, "sport", 0, 16), (Header::TcpOrUdp, "dport", 16, 16),
];

/// A run of bits in a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Field {
    header: Header,
    offset: u32,
    length: u32,
}

fn small(text: &str) -> Option<u32> {
    parse_integer(text.trim()).and_then(|n| u16::try_from(n).ok()).map(u32::from)
}

impl Field {
    fn parse(text: &str) -> Result<Field, String> {
        let split = text.find(['/', '&']).unwrap_or(text.len());
        let (place, mask) = text.split_at(split);
        let unknown = || format!("unknown field '{}'", place.trim());
        let mut field = match place.find(['[', '{']) {
            Some(at) => Field::at_offset(&place[..at], place[at..].trim()).ok_or_else(unknown)?,
            None => Field::named(place).ok_or_else(unknown)?,
        };
        if !mask.is_empty() {
            field.mask(mask).ok_or_else(|| format!("bad mask '{mask}'"))?;
        }
        match field.length {
            1..=32 => Ok(field),
            length => Err(format!("a field has 1 to 32 bits, not {length}")),
        }
    }

    fn named(place: &str) -> Option<Field> {
        let mut words = place.split_whitespace();
        let (first, second) = (words.next()?, words.next());
        let (header, name) = match second {
            Some(name) => (Header::named(first)?, name),
            None => (Header::TcpOrUdp, first),
        };
        let known = FIELDS.iter().find(|(h, n, ..)| (*h, *n) == (header, name));
        let (header, _, offset, length) = *known.filter(|_| words.next().is_none())?;
        Some(Field { header, offset, length })
    }

    /// A place in brackets (bytes) or braces (bits).
    fn at_offset(header: &str, place: &str) -> Option<Field> {
        let header = Header::named(header.trim())?;
        let bytes = place.strip_prefix('[').and_then(|p| p.strip_suffix(']'));
        let bits = place.strip_prefix('{').and_then(|p| p.strip_suffix('}'));
        let unit = if bytes.is_some() { 8 } else { 1 };
        let place = bytes.or(bits)?;
        let (offset, length) = if let Some((offset, length)) = place.split_once([':', ',']) {
            (small(offset)?, small(length)?)
        } else if let Some((first, last)) = place.split_once('-') {
            let (first, last) = (small(first)?, small(last)?);
            (first, (last + 1).checked_sub(first)?)
        } else {
            (small(place)?, 1)
        };
        Some(Field { header, offset: offset * unit, length: length * unit })
    }

    /// Keeps a part of the bits.
    fn mask(&mut self, mask: &str) -> Option<()> {
        if let Some(upper) = mask.strip_prefix('/') {
            self.length = small(upper).filter(|n| (1..=self.length).contains(n))?;
            return Some(());
        }
        let mask = parse_integer(mask.strip_prefix('&')?.trim()).and_then(|n| u32::try_from(n).ok())?;
        let (low, ones) = (mask.trailing_zeros(), mask.count_ones());
        let high = low + ones;
        // One run of ones, within the field.
        if ones == 0 || u64::from(mask) != ((1u64 << ones) - 1) << low || high > self.length {
            return None;
        }
        self.offset += self.length - high;
        self.length = ones;
        Some(())
    }

    /// Its value, if a packet has it.
    fn read(self, packet: &Packet) -> Option<u32> {
        let ip = packet.network()?;
        let start = self.header.offset(ip)?;
        let (first, end) = (start + self.offset as usize / 8, self.offset + self.length);
        let bytes = ip.get(first..start + end.div_ceil(8) as usize)?;
        let value = bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        let value = value >> (end.div_ceil(8) * 8 - end);
        Some((value & ((1 << self.length) - 1)) as u32)
    }
}

#[derive(Default)]
struct AggregateIp {
    text: String,
    field: Field,
    incremental: bool,
    /// Bits by which a part of an address is moved back to its place.
    shift: u32,
}

impl AggregateIp {
    fn annotate(&self, packet: &mut Packet) -> Option<()> {
        let mut aggregate = self.field.read(packet)? << self.shift;
        if self.incremental {
            aggregate = aggregate.wrapping_add(packet.anno_u32(anno::AGGREGATE) << self.field.length);
        }
        packet.set_anno_u32(anno::AGGREGATE, aggregate);
        Some(())
    }
}

impl Element for AggregateIp {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.text = lang::config::unquote_string(&args.required::<Raw>("FIELD").0);
        self.incremental = args.keyword("INCREMENTAL", false);
        let unshift = args.keyword("UNSHIFT_IP_ADDR", false);
        if !args.errors().is_empty() {
            return;
        }
        match Field::parse(&self.text) {
            Ok(field) => self.field = field,
            Err(why) => return args.error(why),
        }
        if self.incremental && self.field.length == 32 {
            args.error("INCREMENTAL does not go with a field of 32 bits");
        }
        let Field { header, offset, length } = self.field;
        if unshift && header == Header::Ip && (96..160).contains(&offset) {
            self.shift = 31 - (offset + length - 1) % 32;
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let mut without = Batch::new();
        batch.partition(|p| self.annotate(p).is_some(), |p| without.push(p));
        cx.push_or_drop(1, without, Reason::NotMatched);
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    /// A packet of this protocol, from 10.1.2.3 to 20.4.5.6.
    fn packet(protocol: u8, fragment: u8, payload: &[u8]) -> Packet {
        let mut bytes =
            vec![0x45, 0xb9, 0, 20 + payload.len() as u8, 0, 7, 0x40, fragment, 64, protocol, 0, 0];
        bytes.extend([10, 1, 2, 3, 20, 4, 5, 6]);
        bytes.extend(payload);
        let mut packet = Packet::copy_of(&bytes).unwrap();
        packet.set_network(0, 20);
        packet
    }

    fn check(args: &str, packet: Packet, want: Option<u32>) {
        for burst in [1, 32] {
            let rig = Rig::new(&format!("AggregateIP({args})")).outputs(2).burst(burst);
            let run = rig.packets(vec![packet.duplicate().unwrap()]).run();
            let got = run.out("o0").first().map(|p| p.anno_u32(anno::AGGREGATE));
            assert_eq!((got, run.out("o1").len()), (want, usize::from(want.is_none())), "{args}");
        }
    }

    #[test]
    fn fields_by_name_and_place() {
        let udp = || packet(17, 0, &[0, 53, 1, 0, 0, 12, 0, 0, 1, 2, 3, 4]);
        for args in [
            "ip src/8",
            "ip src & 0xFF000000",
            "ip[12]",
            "\"ip[12, 1]\"",
            "\"ip{96, 8}\"",
            "ip{96-103}",
            "ip[12-12]",
            "ip[12:1]",
        ] {
            check(args, udp(), Some(10));
        }
        for (args, want) in [
            ("ip src", 0x0a01_0203),
            ("ip dst & 0xff00", 5),
            ("ip tos", 0xb9),
            ("ip dscp", 46),
            ("ip ecn", 1),
            ("ip df", 1),
            ("ip vers", 4),
            ("ip ttl", 64),
            ("sport", 53),
            ("udp dport", 256),
            ("udp len", 12),
            ("transp[0:2]", 53),
            ("data[0:4]", 0x0102_0304),
            ("data[1]", 2),
            ("data[3]", 4),
            ("ip src/8, UNSHIFT_IP_ADDR true", 0x0a00_0000),
            ("ip dst & 0xff00, UNSHIFT_IP_ADDR true", 0x500),
        ] {
            check(args, udp(), Some(want));
        }
        let tcp = packet(
            6,
            0,
            &[0, 80, 1, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0x60, 0x12, 0, 9, 0, 0, 0, 0, 7, 7, 7, 7, 0xab],
        );
        for (args, want) in [
            ("tcp flags", 0x12),
            ("tcp syn", 1),
            ("tcp fin", 0),
            ("tcp win", 9),
            ("tcp hl", 6),
            ("data[0]", 0xab),
        ] {
            check(args, tcp.duplicate().unwrap(), Some(want));
        }
        check("icmp type", packet(1, 0, &[8, 0, 0, 0]), Some(8));
    }

    #[test]
    fn packets_without_the_field_leave_by_the_second_output() {
        let udp = |fragment| packet(17, fragment, &[0, 53, 1, 0]);
        for args in ["tcp sport", "udp sum", "data[0]", "icmp type"] {
            check(args, udp(0), None);
        }
        check("sport", udp(1), None);
        check("ip len", Packet::copy_of(b"x").unwrap(), None);
        let run = Rig::new("AggregateIP(tcp sport)").packets(vec![udp(0)]).run();
        assert_eq!(run.drops("e"), [(Reason::NotMatched, 1)]);
    }

    #[test]
    fn increments_append_bits() {
        let text = "i :: TestIn -> AggregateIP(ip src/8) -> e :: AggregateIP(ip ttl, INCREMENTAL true) -> o :: TestOut;";
        let mut run = Rig::text(text).packets(vec![packet(17, 0, b"")]).run();
        assert_eq!(run.out("o")[0].anno_u32(anno::AGGREGATE), 10 * 256 + 64);
        assert_eq!(
            (run.read("e.header"), run.read("e.bit_offset"), run.read("e.bit_length")),
            ("ip".into(), "64".into(), "8".into())
        );
        assert_eq!(run.read("e.field"), "ip ttl");
    }

    #[test]
    fn wrong_fields_are_named() {
        for (args, want) in [
            ("ip colour", "unknown field 'ip colour'"),
            ("ip[9-8]", "a field has 1 to 32 bits, not 0"),
            ("ip[0:5]", "a field has 1 to 32 bits, not 40"),
            ("ip src & 0x101", "bad mask '& 0x101'"),
            ("ip src/33", "bad mask '/33'"),
            ("ip src, INCREMENTAL true", "INCREMENTAL does not go with a field of 32 bits"),
        ] {
            assert_eq!(Rig::new(&format!("AggregateIP({args})")).errors(), [format!("e: {want}")]);
        }
    }
}
