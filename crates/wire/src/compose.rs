// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets from a line of text: headers from the outside in, separated by slashes.
//!
//! ```text
//! eth 2:0:0:0:0:9 > 2:0:0:0:0:1 / ip 10.0.0.1 > 10.0.1.9 ttl 64 / udp 1000 > 53 / payload 20
//! ```
//!
//! | header | words behind its name, all but addresses with a default |
//! |---|---|
//! | `eth SRC > DST` | `type N`; without addresses both are 0 |
//! | `vlan ID` | `pcp N`, `type N` |
//! | `arp request SRC > DST`, `arp reply SRC > DST` | IPv4 addresses; `mac M`, `target M` |
//! | `ip SRC > DST` | `ttl N` (64), `tos N`, `id N`, `proto N`, `df`, `mf`, `offset BYTES`, `checksum N` |
//! | `ip6 SRC > DST` | `hlim N` (64), `class N`, `flow N`, `proto N` |
//! | `udp SRC > DST` | ports; `checksum N` |
//! | `tcp SRC > DST` | ports; `flags LETTERS` (of `FSRPAUEW`; S), `seq N`, `ack N`, `win N` (65535) |
//! | `icmp echo`, `icmp reply`, `icmp type N` | `code N`, `id N`, `seq N`; the same with `icmp6` |
//! | `payload N` | so many bytes, 0, 1, 2, ... |
//! | `hex DIGITS` | these bytes |
//!
//! Lengths, checksums and the numbers of what follows are filled in. Numbers are decimal, or hexadecimal behind `0x`. A line without `eth` begins with its
//! first header. In place of `>` there may be `to`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::fields::First;
use crate::{EtherType, MacAddr, Protocol, arp, ethernet, icmpv4, icmpv6, ipv4, ipv6, tcp, udp, vlan};

/// Bytes of a packet at most.
const LONGEST: usize = 65_535;
/// Headers of a packet at most.
const MOST_HEADERS: usize = 16;

/// A packet made of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composed {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What they begin with.
    pub first: First,
}

/// The settings of each header that has some, for people.
const SETTINGS: [(&str, &str); 9] = [
    ("eth", "type N"),
    ("vlan", "pcp N, type N"),
    ("arp", "mac M, target M"),
    ("ip", "ttl N, tos N, id N, proto N, df, mf, offset BYTES, checksum N"),
    ("ip6", "hlim N, class N, flow N, proto N"),
    ("udp", "checksum N"),
    ("tcp", "flags LETTERS, seq N, ack N, win N"),
    ("icmp", "code N, id N, seq N"),
    ("icmp6", "code N, id N, seq N"),
];

/// Makes the packet that a line describes.
///
/// # Errors
/// What is wrong with it, in words that name the header.
///
/// ```
/// let packet = junctor_wire::compose::compose("ip 10.0.0.1 > 10.0.1.9 ttl 3 / udp 1000 > 53").unwrap();
/// assert_eq!((packet.bytes.len(), packet.bytes[8]), (28, 3));
/// ```
pub fn compose(line: &str) -> Result<Composed, String> {
    let parts: Vec<&str> = line.split('/').map(str::trim).collect();
    if parts.len() > MOST_HEADERS {
        return Err(format!("{} headers are more than {MOST_HEADERS}", parts.len()));
    }
    let headers: Vec<Header> = parts.iter().map(|part| Header::read(part)).collect::<Result<_, _>>()?;
    let first = match headers.first() {
        Some(Header::Ip(_) | Header::Ip6(_)) => First::Ip,
        _ => First::Ethernet,
    };
    let mut bytes = Vec::new();
    for (at, header) in headers.iter().enumerate().rev() {
        let next = headers.get(at + 1);
        let outer = at.checked_sub(1).and_then(|at| headers.get(at));
        bytes = header.around(bytes, next, outer).map_err(|why| format!("{}: {why}", parts[at]))?;
        if bytes.len() > LONGEST {
            return Err(format!("{}: the packet is longer than {LONGEST} bytes", parts[at]));
        }
    }
    Ok(Composed { bytes, first })
}

struct Eth {
    repr: ethernet::Repr,
    ethertype: Option<u16>,
}

struct Vlan {
    tci: u16,
    ethertype: Option<u16>,
}

struct Ip {
    repr: ipv4::Repr,
    protocol: Option<u8>,
    checksum: Option<u16>,
}

struct Ip6 {
    repr: ipv6::Repr,
    protocol: Option<u8>,
}

struct Icmp {
    kind: u8,
    code: u8,
    id: u16,
    seq: u16,
}

enum Header {
    Eth(Eth),
    Vlan(Vlan),
    Arp(arp::Repr),
    Ip(Ip),
    Ip6(Ip6),
    Udp(udp::Repr, Option<u16>),
    Tcp(tcp::Repr),
    Icmp(Icmp),
    Icmp6(Icmp),
    Bytes(Vec<u8>),
}

/// The words of a header that have not been read.
struct Words<'a> {
    header: &'a str,
    words: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<&'a str, String> {
        if self.words.is_empty() {
            return Err(format!("{}: expected {what} at the end", self.header));
        }
        Ok(self.words.remove(0))
    }

    fn value<T: FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.next(what)?;
        word.parse().map_err(|_| format!("{}: expected {what}, not '{word}'", self.header))
    }

    fn number(&mut self, what: &str, most: u32) -> Result<u32, String> {
        let word = self.next(what)?;
        let number = match word.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        };
        let number = number.filter(|n| *n <= most);
        number.ok_or_else(|| format!("{}: expected {what}, a number up to {most}, not '{word}'", self.header))
    }

    /// `SRC > DST`, or `SRC to DST`.
    fn pair<T: FromStr>(&mut self, what: &str) -> Result<(T, T), String> {
        let from = self.value(what)?;
        match self.next("'>'")? {
            ">" | "to" => Ok((from, self.value(what)?)),
            word => Err(format!("{}: expected '>' between {what} and another, not '{word}'", self.header)),
        }
    }

    /// The word if it comes next.
    fn has(&mut self, word: &str) -> bool {
        let has = self.words.first() == Some(&word);
        if has {
            self.words.remove(0);
        }
        has
    }

    /// Reads settings until none is left; `set` says whether it knows one.
    fn settings(
        &mut self,
        mut set: impl FnMut(&mut Words<'a>, &str) -> Result<bool, String>,
    ) -> Result<(), String> {
        while !self.words.is_empty() {
            let name = self.next("a setting")?;
            if !set(self, name)? {
                let kind = self.header.split_ascii_whitespace().next().unwrap_or_default();
                let known = match SETTINGS.iter().find(|(header, _)| *header == kind) {
                    Some((_, settings)) => format!("which has {settings}"),
                    None => "which has none".to_owned(),
                };
                return Err(format!("{}: '{name}' is no setting of this header, {known}", self.header));
            }
        }
        Ok(())
    }
}

const U8: u32 = 0xff;
const U16: u32 = 0xffff;

impl Header {
    fn read(text: &str) -> Result<Header, String> {
        let mut words = Words { header: text, words: text.split_ascii_whitespace().collect() };
        let Some(name) = words.words.first().copied() else {
            return Err("a header is missing: the line is empty, or a slash too many".into());
        };
        words.words.remove(0);
        let w = &mut words;
        match name {
            "eth" => read_eth(w),
            "vlan" => read_vlan(w),
            "arp" => read_arp(w),
            "ip" => read_ip(w),
            "ip6" => read_ip6(w),
            "udp" => read_udp(w),
            "tcp" => read_tcp(w),
            "icmp" => Ok(Header::Icmp(read_icmp(w, (8, 0))?)),
            "icmp6" => Ok(Header::Icmp6(read_icmp(w, (128, 129))?)),
            "payload" => {
                let n = w.number("how many bytes", LONGEST as u32)?;
                w.settings(|_, _| Ok(false))?;
                Ok(Header::Bytes((0..n).map(|i| i as u8).collect()))
            }
            "hex" => Ok(Header::Bytes(from_hex(&std::mem::take(&mut w.words).concat())?)),
            other => Err(format!(
                "'{other}' is no header: there are eth, vlan, arp, ip, ip6, udp, tcp, icmp, icmp6, payload, hex"
            )),
        }
    }

    /// The header with its payload. What it says of the `next` and what the `outer` one is needed for are filled in.
    fn around(
        &self,
        payload: Vec<u8>,
        next: Option<&Header>,
        outer: Option<&Header>,
    ) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        let mut room = |len: usize| {
            bytes.resize(len, 0);
            bytes.extend_from_slice(&payload);
        };
        let done = match self {
            Header::Bytes(own) => {
                bytes.extend_from_slice(own);
                bytes.extend_from_slice(&payload);
                Ok(())
            }
            Header::Eth(eth) => {
                room(ethernet::HEADER_LEN);
                ethernet::Repr { ethertype: ethertype(eth.ethertype, next), ..eth.repr }.emit(&mut bytes)
            }
            Header::Vlan(tag) => {
                room(vlan::HEADER_LEN);
                let ethertype = ethertype(tag.ethertype, next);
                vlan::Repr { tag: vlan::Tag(tag.tci), ethertype }.emit(&mut bytes)
            }
            Header::Arp(repr) => {
                room(arp::HEADER_LEN);
                repr.emit(&mut bytes)
            }
            Header::Ip(ip) => {
                room(ipv4::HEADER_LEN);
                let repr = ipv4::Repr {
                    payload_len: length(&payload)?,
                    protocol: protocol(ip.protocol, next),
                    ..ip.repr
                };
                let done = repr.emit(&mut bytes);
                if let (Some(checksum), Some(at)) = (ip.checksum, bytes.get_mut(10..12)) {
                    at.copy_from_slice(&checksum.to_be_bytes());
                }
                done
            }
            Header::Ip6(ip) => {
                room(ipv6::HEADER_LEN);
                let next_header = protocol(ip.protocol, next);
                ipv6::Repr { payload_len: length(&payload)?, next_header, ..ip.repr }.emit(&mut bytes)
            }
            Header::Udp(repr, checksum) => {
                room(udp::HEADER_LEN);
                let done = udp::Repr { payload_len: length(&payload)?, ..*repr }.emit(&mut bytes);
                if let Ok(mut view) = udp::View::new_checked(&mut bytes[..]) {
                    match outer {
                        Some(Header::Ip(ip)) => view.fill_checksum_v4(ip.repr.src, ip.repr.dst),
                        Some(Header::Ip6(ip)) => view.fill_checksum_v6(ip.repr.src, ip.repr.dst),
                        _ => {}
                    }
                }
                if let (Some(checksum), Some(at)) = (checksum, bytes.get_mut(6..8)) {
                    at.copy_from_slice(&checksum.to_be_bytes());
                }
                done
            }
            Header::Tcp(repr) => {
                room(tcp::HEADER_LEN);
                let done = repr.emit(&mut bytes);
                if let Ok(mut view) = tcp::View::new_checked(&mut bytes[..]) {
                    match outer {
                        Some(Header::Ip(ip)) => view.fill_checksum_v4(ip.repr.src, ip.repr.dst),
                        Some(Header::Ip6(ip)) => view.fill_checksum_v6(ip.repr.src, ip.repr.dst),
                        _ => {}
                    }
                }
                done
            }
            Header::Icmp(icmp) => {
                room(icmpv4::HEADER_LEN);
                icmp.write(&mut bytes);
                icmpv4::View::new_checked(&mut bytes[..]).map(|mut view| view.fill_checksum())
            }
            Header::Icmp6(icmp) => {
                room(icmpv6::HEADER_LEN);
                icmp.write(&mut bytes);
                let addresses = match outer {
                    Some(Header::Ip6(ip)) => Some((ip.repr.src, ip.repr.dst)),
                    _ => None,
                };
                icmpv6::View::new_checked(&mut bytes[..])
                    .map(|mut view| addresses.into_iter().for_each(|(src, dst)| view.fill_checksum(src, dst)))
            }
        };
        done.map_err(|e| e.to_string())?;
        Ok(bytes)
    }
}

impl Icmp {
    fn write(&self, bytes: &mut [u8]) {
        let words = [u16::from(self.kind) << 8 | u16::from(self.code), 0, self.id, self.seq];
        for (at, word) in bytes.chunks_exact_mut(2).zip(words) {
            at.copy_from_slice(&word.to_be_bytes());
        }
    }
}

fn length(payload: &[u8]) -> Result<u16, String> {
    // With the header of either version in front it must still be a datagram.
    let most = LONGEST - ipv6::HEADER_LEN;
    u16::try_from(payload.len())
        .ok()
        .filter(|n| usize::from(*n) <= most)
        .ok_or_else(|| format!("its payload is longer than {most} bytes"))
}

fn ethertype(given: Option<u16>, next: Option<&Header>) -> EtherType {
    match (given, next) {
        (Some(given), _) => EtherType(given),
        (None, Some(Header::Vlan(_))) => EtherType::VLAN,
        (None, Some(Header::Arp(_))) => EtherType::ARP,
        (None, Some(Header::Ip6(_))) => EtherType::IPV6,
        // Of what comes without a header, IPv4 is the likeliest to be meant.
        (None, _) => EtherType::IPV4,
    }
}

fn protocol(given: Option<u8>, next: Option<&Header>) -> Protocol {
    match (given, next) {
        (Some(given), _) => Protocol(given),
        (None, Some(Header::Udp(..))) => Protocol::UDP,
        (None, Some(Header::Tcp(_))) => Protocol::TCP,
        (None, Some(Header::Icmp(_))) => Protocol::ICMP,
        (None, Some(Header::Icmp6(_))) => Protocol::ICMPV6,
        (None, Some(Header::Ip(_))) => Protocol::IPIP,
        (None, Some(Header::Ip6(_))) => Protocol::IPV6,
        // For experiments (RFC 3692 section 2.1).
        (None, _) => Protocol(253),
    }
}

fn read_eth(w: &mut Words<'_>) -> Result<Header, String> {
    let none = w.words.is_empty() || w.words.first() == Some(&"type");
    let (src, dst) =
        if none { Default::default() } else { w.pair::<MacAddr>("an Ethernet address such as 2:0:0:0:0:1")? };
    let mut ethertype = None;
    w.settings(|w, name| {
        if name == "type" {
            ethertype = Some(w.number("a type", U16)? as u16);
        }
        Ok(name == "type")
    })?;
    Ok(Header::Eth(Eth { repr: ethernet::Repr { dst, src, ethertype: EtherType::IPV4 }, ethertype }))
}

fn read_vlan(w: &mut Words<'_>) -> Result<Header, String> {
    let mut tag = Vlan { tci: w.number("a VLAN", 4095)? as u16, ethertype: None };
    w.settings(|w, name| {
        match name {
            "pcp" => tag.tci |= (w.number("a priority", 7)? as u16) << 13,
            "type" => tag.ethertype = Some(w.number("a type", U16)? as u16),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(Header::Vlan(tag))
}

fn read_arp(w: &mut Words<'_>) -> Result<Header, String> {
    let operation = match w.next("'request' or 'reply'")? {
        "request" => arp::Operation::REQUEST,
        "reply" => arp::Operation::REPLY,
        word => return Err(format!("arp: expected 'request' or 'reply', not '{word}'")),
    };
    let (sender_ip, target_ip) = w.pair::<Ipv4Addr>("an IPv4 address")?;
    let (mut sender_mac, mut target_mac) = (MacAddr([0; 6]), MacAddr([0; 6]));
    w.settings(|w, name| {
        match name {
            "mac" => sender_mac = w.value("an Ethernet address")?,
            "target" => target_mac = w.value("an Ethernet address")?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(Header::Arp(arp::Repr { operation, sender_mac, sender_ip, target_mac, target_ip }))
}

fn read_ip(w: &mut Words<'_>) -> Result<Header, String> {
    let (src, dst) = w.pair::<Ipv4Addr>("an IPv4 address")?;
    let repr = ipv4::Repr { src, dst, ttl: 64, ..Default::default() };
    let mut ip = Ip { repr, protocol: None, checksum: None };
    w.settings(|w, name| {
        match name {
            "ttl" => ip.repr.ttl = w.number("a TTL", U8)? as u8,
            "tos" => ip.repr.tos = w.number("a type of service", U8)? as u8,
            "id" => ip.repr.id = w.number("an identification", U16)? as u16,
            "proto" => ip.protocol = Some(w.number("a protocol", U8)? as u8),
            "df" => ip.repr.fragment |= 0x4000,
            "mf" => ip.repr.fragment |= 0x2000,
            "offset" => ip.repr.fragment |= (w.number("an offset in bytes", U16)? / 8) as u16,
            "checksum" => ip.checksum = Some(w.number("a checksum", U16)? as u16),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(Header::Ip(ip))
}

fn read_ip6(w: &mut Words<'_>) -> Result<Header, String> {
    let (src, dst) = w.pair::<Ipv6Addr>("an IPv6 address")?;
    let repr = ipv6::Repr {
        src,
        dst,
        next_header: Protocol::UDP,
        payload_len: 0,
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
    };
    let mut ip = Ip6 { repr, protocol: None };
    w.settings(|w, name| {
        match name {
            "hlim" => ip.repr.hop_limit = w.number("a hop limit", U8)? as u8,
            "class" => ip.repr.traffic_class = w.number("a traffic class", U8)? as u8,
            "flow" => ip.repr.flow_label = w.number("a flow label", 0xf_ffff)?,
            "proto" => ip.protocol = Some(w.number("a protocol", U8)? as u8),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(Header::Ip6(ip))
}

fn read_udp(w: &mut Words<'_>) -> Result<Header, String> {
    let (src_port, dst_port) = w.pair::<u16>("a port")?;
    let mut checksum = None;
    w.settings(|w, name| {
        if name == "checksum" {
            checksum = Some(w.number("a checksum", U16)? as u16);
        }
        Ok(name == "checksum")
    })?;
    Ok(Header::Udp(udp::Repr { src_port, dst_port, payload_len: 0 }, checksum))
}

fn read_tcp(w: &mut Words<'_>) -> Result<Header, String> {
    let (src_port, dst_port) = w.pair::<u16>("a port")?;
    let flags = tcp::Flags::SYN;
    let mut tcp = tcp::Repr { src_port, dst_port, seq: 0, ack: 0, flags, window: 65_535, urgent: 0 };
    w.settings(|w, name| {
        match name {
            "flags" => {
                let letters = w.next("flags")?;
                let bit = |letter: char| "FSRPAUEW".find(letter.to_ascii_uppercase()).map(|at| 1 << at);
                let bits: Option<Vec<u8>> = letters.chars().map(bit).collect();
                let bits = bits.ok_or_else(|| format!("tcp: flags are of FSRPAUEW, not '{letters}'"))?;
                tcp.flags = tcp::Flags(bits.into_iter().fold(0, |all, bit| all | bit));
            }
            "seq" => tcp.seq = w.number("a sequence number", u32::MAX)?,
            "ack" => tcp.ack = w.number("a sequence number", u32::MAX)?,
            "win" => tcp.window = w.number("a window", U16)? as u16,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(Header::Tcp(tcp))
}

fn read_icmp(w: &mut Words<'_>, (echo, reply): (u8, u8)) -> Result<Icmp, String> {
    let mut icmp = Icmp { kind: echo, code: 0, id: 1, seq: 1 };
    if w.has("reply") {
        icmp.kind = reply;
    } else if w.has("type") {
        icmp.kind = w.number("a type", U8)? as u8;
        (icmp.id, icmp.seq) = (0, 0);
    } else {
        w.has("echo");
    }
    w.settings(|w, name| {
        match name {
            "code" => icmp.code = w.number("a code", U8)? as u8,
            "id" => icmp.id = w.number("an identifier", U16)? as u16,
            "seq" => icmp.seq = w.number("a sequence number", U16)? as u16,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(icmp)
}

/// Bytes from hexadecimal digits; colons and blanks between them do not matter.
///
/// # Errors
/// It is something else, or half a byte is missing.
pub fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_ascii_whitespace() && *c != ':').collect();
    let value =
        |c: &char| c.to_digit(16).map(|n| n as u8).ok_or_else(|| format!("'{c}' is no hexadecimal digit"));
    if !digits.len().is_multiple_of(2) {
        return Err(format!("{} hexadecimal digits are half a byte too few", digits.len()));
    }
    digits.chunks_exact(2).map(|pair| Ok(value(&pair[0])? << 4 | value(&pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::fields;

    /// A field of the packet that a line makes.
    fn field(line: &str, name: &str) -> String {
        let packet = compose(line).unwrap_or_else(|why| panic!("{line}: {why}"));
        let all = fields(&packet.bytes, packet.first);
        all.iter().find(|f| f.name == name).unwrap_or_else(|| panic!("{line}: no {name}")).value.clone()
    }

    #[test]
    fn lines_become_packets() {
        let line = "eth 2:0:0:0:0:9 > 2:0:0:0:0:1 / vlan 7 pcp 3 / ip 10.0.0.1 > 10.0.1.9 ttl 9 df / udp 1000 > 53 / payload 20";
        for (name, want) in [
            ("eth.dst", "02:00:00:00:00:01"),
            ("eth.type", "0x8100"),
            ("vlan.id", "7"),
            ("vlan.etype", "0x0800"),
            ("ip.ttl", "9"),
            ("ip.len", "48"),
            ("ip.flags.df", "1"),
            ("ip.proto", "17"),
            ("udp.dstport", "53"),
            ("udp.length", "28"),
            ("data.len", "20"),
        ] {
            assert_eq!(field(line, name), want, "{name}");
        }
        assert_eq!(field("ip6 2001:db8::1 > 2001:db8::2 hlim 3 / icmp6 echo seq 9", "ipv6.nxt"), "58");
        assert_eq!(field("eth / arp request 10.0.0.1 > 10.0.0.2", "arp.opcode"), "1");
        assert_eq!(field("ip 1.2.3.4 > 5.6.7.8 / tcp 1 > 2 flags sa", "tcp.flags"), "0x0012");
        assert_eq!(compose("udp 1 to 2"), compose("udp 1 > 2"));
        assert_eq!(compose("hex 00:11 2a").unwrap().bytes, [0, 0x11, 0x2a]);
    }

    #[test]
    fn checksums_are_right() {
        let bytes = compose("ip 10.0.0.1 > 10.0.1.9 / tcp 1000 > 80 / payload 5").unwrap().bytes;
        let ip = ipv4::View::new_checked(&bytes[..]).unwrap();
        assert!(ip.checksum_ok());
        assert!(tcp::View::new_checked(ip.payload()).unwrap().checksum_ok_v4(ip.src(), ip.dst()));
        let bytes = compose("ip6 ::1 > ::2 / icmp6 echo / payload 5").unwrap().bytes;
        let ip = ipv6::View::new_checked(&bytes[..]).unwrap();
        assert!(icmpv6::View::new_checked(ip.payload()).unwrap().checksum_ok(ip.src(), ip.dst()));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, words) in [
            ("", "a header is missing"),
            ("ip 1.2.3.4 > 5.6.7.8 /", "a header is missing"),
            ("ipx 1 > 2", "'ipx' is no header"),
            ("ip 1.2.3.4 5.6.7.8", "expected '>'"),
            ("ip 1.2.3 > 5.6.7.8", "expected an IPv4 address, not '1.2.3'"),
            ("ip 1.2.3.4 > 5.6.7.8 ttl 300", "a number up to 255, not '300'"),
            ("ip 1.2.3.4 > 5.6.7.8 hops 3", "'hops' is no setting"),
            ("udp 1 >", "expected a port at the end"),
            ("tcp 1 > 2 flags x", "FSRPAUEW"),
            ("hex 123", "half a byte"),
            ("hex zz", "'z' is no hexadecimal digit"),
            ("ip 1.2.3.4 > 5.6.7.8 / payload 65535", "longer"),
        ] {
            let why = compose(line).expect_err(line);
            assert!(why.contains(words), "{line}: {why}");
        }
    }
}
