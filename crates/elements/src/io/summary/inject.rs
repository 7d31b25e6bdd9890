// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes packets from the values of fields.
//!
//! A [`Builder`] holds the bytes of the packet under construction; fields are applied in the order of
//! [`Field::order`], and a field that needs a header makes it.

use std::net::Ipv4Addr;

use packet::{HEADROOM, Packet, anno};
use wire::{MacAddr, Protocol, checksum};

use super::extract::{TCP_FLAGS, has_ports, tcp_set};
use super::options::{read_ip, read_tcp};
use super::{Field, Width, icmp, parse_time};

/// Addresses and ports of packets whose dump does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowId {
    /// Source and destination address.
    pub addresses: [Ipv4Addr; 2],
    /// Source and destination port.
    pub ports: [u16; 2],
}

/// What holds for all packets of a dump.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// IP protocol.
    pub protocol: u8,
    /// Addresses and ports.
    pub flow: Option<FlowId>,
    /// Aggregate annotation.
    pub aggregate: Option<u32>,
    /// Minor version of the dump.
    pub minor_version: u32,
    /// Set checksums, with bytes for the whole of the IP length.
    pub checksum: bool,
}

impl Default for Defaults {
    fn default() -> Self {
        Defaults {
            protocol: TCP,
            flow: None,
            aggregate: None,
            minor_version: super::MINOR_VERSION,
            checksum: false,
        }
    }
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const LINK: usize = 14;
/// Bytes that a packet may have; what a dump asks for beyond is extra length.
const MOST: usize = 0xffff;

/// The value of a field as read.
enum Value {
    Number(u64),
    Ip([u8; 4]),
    Mac([u8; 6]),
    Time(u64),
    Bytes(Vec<u8>),
}

/// A packet under construction; reused from packet to packet.
#[derive(Debug, Default)]
pub struct Builder {
    /// The link header, when a field asked for one.
    link: Option<[u8; LINK]>,
    /// Bytes from the network header on.
    bytes: Vec<u8>,
    has_ip: bool,
    not_ip: bool,
    /// Where the transport header begins in `bytes`.
    transport: usize,
    icmp_type: Option<u8>,
    icmp_code: Option<u8>,
    have_ip_hl: bool,
    have_tcp_hl: bool,
    /// Bytes the packet should have with its link header; 0 when nobody said.
    want_len: usize,
    timestamp_ns: u64,
    first_timestamp_ns: u64,
    count: u32,
    paint: u8,
    aggregate: Option<u32>,
}

impl Builder {
    /// Starts another packet.
    pub fn start(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        *self = Builder { bytes, ..Builder::default() };
    }

    fn link_len(&self) -> usize {
        if self.link.is_some() { LINK } else { 0 }
    }

    fn protocol(&self) -> u8 {
        self.bytes.get(9).copied().unwrap_or(0)
    }

    fn first_fragment(&self) -> bool {
        matches!(self.bytes.get(6..8), Some([high, low]) if high & 0x1f == 0 && *low == 0)
    }

    /// Makes an IP header if there is none; whether there is one that may be of `protocol` (0: of any).
    fn make_ip(&mut self, protocol: u8, defaults: &Defaults) -> bool {
        if self.not_ip {
            return false;
        }
        if !self.has_ip {
            self.has_ip = true;
            let mut header = [0; 20];
            (header[0], header[8], header[9]) = (0x45, 100, defaults.protocol);
            if let Some(flow) = defaults.flow {
                header[12..16].copy_from_slice(&flow.addresses[0].octets());
                header[16..20].copy_from_slice(&flow.addresses[1].octets());
            }
            self.bytes.clear();
            self.bytes.extend(header);
            self.transport = 20;
        }
        protocol == 0 || self.protocol() == 0 || self.protocol() == protocol
    }

    fn transport_len(&self) -> usize {
        self.bytes.len() - self.transport
    }

    fn transport_to(&mut self, len: usize) {
        if self.transport_len() < len {
            self.bytes.resize(self.transport + len, 0);
        }
    }

    /// Makes a transport header if there is none and the packet can have one.
    fn make_transport(&mut self, defaults: &Defaults) -> bool {
        if !self.first_fragment() {
            return false;
        }
        if self.transport_len() >= 8 {
            return true;
        }
        let mut len = match self.protocol() {
            TCP => 20,
            UDP | 136 => 8,
            33 => 12,
            ICMP => 8,
            _ => return true,
        };
        let before = self.link_len() + self.transport;
        if self.want_len > 0 && self.want_len < before + len {
            len = self.want_len.saturating_sub(before);
        }
        if self.transport_len() < len {
            self.transport_to(len);
            if self.protocol() == TCP && len >= 13 {
                self.bytes[self.transport + 12] = 5 << 4;
            }
            if let Some(flow) = defaults.flow
                && has_ports(self.protocol())
            {
                self.put(0, &flow.ports[0].to_be_bytes());
                self.put(2, &flow.ports[1].to_be_bytes());
            }
        }
        true
    }

    /// Writes at an offset of the transport header, as far as that reaches.
    fn put(&mut self, at: usize, value: &[u8]) {
        let at = self.transport + at;
        if let Some(place) = self.bytes.get_mut(at..at + value.len()) {
            place.copy_from_slice(value);
        }
    }

    fn put_ip(&mut self, at: usize, value: &[u8]) {
        if let Some(place) = self.bytes.get_mut(at..at + value.len()) {
            place.copy_from_slice(value);
        }
    }

    /// Reads a field from text and applies it. Whether the text was right.
    pub fn apply_text(&mut self, field: Field, text: &str, defaults: &Defaults) -> bool {
        match self.parse(field, text, defaults) {
            Some(value) => {
                self.apply(field, value, defaults);
                true
            }
            None => false,
        }
    }

    /// Applies a field that stands at the front of `record`'s bytes.
    pub fn apply_binary(&mut self, field: Field, bytes: &[u8], defaults: &Defaults) -> bool {
        let number = |b: &[u8]| b.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
        let value = match field {
            Field::Timestamp | Field::NanoTimestamp | Field::FirstTimestamp | Field::FirstNanoTimestamp => {
                let nano = matches!(field, Field::NanoTimestamp | Field::FirstNanoTimestamp);
                let (seconds, rest) = bytes.split_at(4.min(bytes.len()));
                Value::Time(number(seconds) * 1_000_000_000 + number(rest) * if nano { 1 } else { 1000 })
            }
            Field::IpSrc | Field::IpDst => match bytes.first_chunk() {
                Some(address) => Value::Ip(*address),
                None => return false,
            },
            Field::EthSrc | Field::EthDst => match bytes.first_chunk() {
                Some(address) => Value::Mac(*address),
                None => return false,
            },
            Field::IpFrag => Value::Number(fragment_letter(bytes).unwrap_or(0)),
            _ if field.width() == Width::Counted => Value::Bytes(bytes.get(1..).unwrap_or(&[]).to_vec()),
            _ => Value::Number(number(bytes)),
        };
        self.apply(field, value, defaults);
        true
    }

    fn parse(&self, field: Field, text: &str, defaults: &Defaults) -> Option<Value> {
        let integer = |text: &str| element::parse_integer(text).filter(|n| *n >= 0);
        let bounded = |width: usize| {
            let most = if width >= 8 { u64::MAX } else { (1 << (8 * width)) - 1 };
            integer(text).and_then(|n| u64::try_from(n).ok()).filter(|n| *n <= most)
        };
        let number = match field {
            Field::Timestamp | Field::NanoTimestamp | Field::FirstTimestamp | Field::FirstNanoTimestamp => {
                return parse_time(text).map(Value::Time);
            }
            Field::Link | Field::Paint | Field::Direction => match text {
                ">" | "L" => Some(0),
                "<" | "R" | "X" => Some(1),
                _ => bounded(4),
            },
            Field::EthSrc | Field::EthDst => return text.parse().ok().map(|m: MacAddr| Value::Mac(m.0)),
            Field::EthType => u16::from_str_radix(text.trim_start_matches("0x"), 16).ok().map(u64::from),
            Field::IpSrc | Field::IpDst => {
                return text.parse().ok().map(|a: Ipv4Addr| Value::Ip(a.octets()));
            }
            Field::IpFrag | Field::IpFragOff => parse_fragment(text, defaults.minor_version),
            Field::IpProto => match text {
                "T" => Some(u64::from(TCP)),
                "U" => Some(u64::from(UDP)),
                "I" => Some(u64::from(ICMP)),
                _ => bounded(1),
            },
            Field::IpEcn => match text {
                "no" => Some(0),
                "ect1" | "ECT(1)" => Some(1),
                "ect2" | "ECT(0)" => Some(2),
                "ce" | "CE" => Some(3),
                _ => bounded(1).filter(|n| *n < 4),
            },
            Field::IpOpt => return read_ip(text).map(Value::Bytes),
            Field::TcpFlags => parse_flags(text),
            Field::TcpOpt | Field::TcpNtOpt | Field::TcpSack => {
                return read_tcp(text, tcp_set(field)?).map(Value::Bytes);
            }
            Field::IcmpType | Field::IcmpTypeName => icmp::parse_type(text).map(u64::from),
            Field::IcmpCode | Field::IcmpCodeName => icmp::parse_code(self.icmp_type, text).map(u64::from),
            Field::Payload => return Some(Value::Bytes(lang::config::unquote(text))),
            _ => match field.width() {
                Width::Bytes(n) => bounded(n),
                _ => None,
            },
        };
        number.map(Value::Number)
    }

    fn apply(&mut self, field: Field, value: Value, defaults: &Defaults) {
        match (field.order().unwrap_or(0), value) {
            (0..=199, value) => self.apply_annotation(field, value),
            (200..=297, value) => self.apply_link(field, value),
            (298..=398, value) if self.make_ip(0, defaults) => self.apply_ip(field, value),
            (298..=398, _) => {}
            (399..=499, value) => self.apply_transport(field, value, defaults),
            (_, Value::Bytes(payload)) => self.apply_payload(payload.len(), Some(&payload), defaults),
            (_, Value::Number(len)) if field == Field::PayloadLen => {
                self.apply_payload(usize::try_from(len).unwrap_or(usize::MAX), None, defaults);
            }
            _ => {}
        }
    }

    fn apply_annotation(&mut self, field: Field, value: Value) {
        const SECOND: u64 = 1_000_000_000;
        match (field, value) {
            (Field::Timestamp | Field::NanoTimestamp, Value::Time(ns)) => self.timestamp_ns = ns,
            (Field::FirstTimestamp | Field::FirstNanoTimestamp, Value::Time(ns)) => {
                self.first_timestamp_ns = ns;
            }
            (Field::Seconds, Value::Number(s)) => self.timestamp_ns = s * SECOND + self.timestamp_ns % SECOND,
            (Field::Microseconds, Value::Number(us)) => {
                self.timestamp_ns = self.timestamp_ns / SECOND * SECOND + us * 1000;
            }
            (Field::AllMicroseconds, Value::Number(us)) => self.timestamp_ns = us.saturating_mul(1000),
            (Field::Count, Value::Number(n)) => self.count = n as u32,
            (Field::Link | Field::Paint | Field::Direction, Value::Number(n)) => self.paint = n as u8,
            (Field::Aggregate, Value::Number(n)) => self.aggregate = Some(n as u32),
            (Field::WireLen, Value::Number(n)) => self.want_len = n as usize,
            _ => {}
        }
    }

    fn apply_link(&mut self, field: Field, value: Value) {
        let link = self.link.get_or_insert([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
        match (field, value) {
            (Field::EthDst, Value::Mac(mac)) => link[..6].copy_from_slice(&mac),
            (Field::EthSrc, Value::Mac(mac)) => link[6..12].copy_from_slice(&mac),
            (_, Value::Number(kind)) => {
                link[12..].copy_from_slice(&(kind as u16).to_be_bytes());
                self.not_ip = !matches!(kind, 0x0800 | 0x86dd);
            }
            _ => {}
        }
    }

    fn apply_ip(&mut self, field: Field, value: Value) {
        let n = match value {
            Value::Ip(address) => {
                return self.put_ip(if field == Field::IpSrc { 12 } else { 16 }, &address);
            }
            Value::Bytes(options) => return self.apply_ip_options(&options),
            Value::Number(n) => n,
            _ => return,
        };
        let (byte, word) = (n as u8, (n as u16).to_be_bytes());
        match field {
            Field::IpTos => self.put_ip(1, &[byte]),
            Field::IpDscp => self.put_ip(1, &[self.bytes[1] & 3 | byte << 2]),
            Field::IpEcn => self.put_ip(1, &[self.bytes[1] & 0xfc | byte & 3]),
            Field::IpTtl => self.put_ip(8, &[byte]),
            Field::IpFrag | Field::IpFragOff => self.put_ip(6, &word),
            Field::IpId => self.put_ip(4, &word),
            Field::IpSum => self.put_ip(10, &word),
            Field::IpProto => self.put_ip(9, &[byte]),
            Field::IpLen => self.want_len = self.link_len() + n as usize,
            Field::IpHl => {
                self.have_ip_hl = true;
                let len = (n as usize + 3) & !3;
                self.grow_ip_header(len);
                self.put_ip(0, &[0x40 | (len / 4) as u8 & 15]);
            }
            _ => {}
        }
    }

    /// Makes the IP header `len` bytes long, with options of zeros, unless it is longer.
    fn grow_ip_header(&mut self, len: usize) {
        let old = usize::from(self.bytes[0] & 15) * 4;
        let len = len.min(60);
        if len > old && self.transport == old {
            self.bytes.splice(old..old, std::iter::repeat_n(0, len - old));
            self.transport = len;
            self.bytes[0] = 0x40 | (len / 4) as u8;
        }
    }

    fn apply_ip_options(&mut self, options: &[u8]) {
        self.have_ip_hl = true;
        if !options.is_empty() {
            self.grow_ip_header(20 + options.len().next_multiple_of(4));
            self.put_ip(20, options);
        }
    }

    fn apply_transport(&mut self, field: Field, value: Value, defaults: &Defaults) {
        match field {
            Field::SrcPort | Field::DstPort => {
                if !self.make_ip(0, defaults) || !self.make_transport(defaults) {
                    return;
                }
                if let Value::Number(port) = value
                    && (self.protocol() == 0 || has_ports(self.protocol()))
                {
                    self.put(if field == Field::SrcPort { 0 } else { 2 }, &(port as u16).to_be_bytes());
                }
            }
            Field::UdpLen => {
                if self.make_ip(0, defaults)
                    && self.make_transport(defaults)
                    && matches!(self.protocol(), 0 | UDP | 136)
                    && let Value::Number(len) = value
                {
                    self.transport_to(8);
                    self.put(4, &(len as u16).to_be_bytes());
                }
            }
            f if (Field::TcpSeq as u8..=Field::TcpSack as u8).contains(&(f as u8)) => {
                if self.make_ip(TCP, defaults) && self.make_transport(defaults) {
                    self.apply_tcp(field, value);
                }
            }
            _ => {
                if self.make_ip(ICMP, defaults)
                    && self.make_transport(defaults)
                    && let Value::Number(n) = value
                {
                    self.apply_icmp(field, n as u16);
                }
            }
        }
    }

    fn tcp_header_len(&self) -> usize {
        self.bytes.get(self.transport + 12).map_or(0, |b| usize::from(b >> 4) * 4)
    }

    fn apply_tcp(&mut self, field: Field, value: Value) {
        let n = match value {
            Value::Number(n) => n,
            Value::Bytes(options) => {
                self.have_tcp_hl = true;
                if !options.is_empty() {
                    let len = 20 + options.len().next_multiple_of(4);
                    self.transport_to(len);
                    if len > self.tcp_header_len() {
                        self.set_tcp_header_len(len);
                    }
                    self.put(20, &options);
                }
                return;
            }
            _ => return,
        };
        let (long, word) = ((n as u32).to_be_bytes(), (n as u16).to_be_bytes());
        match field {
            Field::TcpSeq => self.put(4, &long),
            Field::TcpAck => self.put(8, &long),
            Field::TcpFlags => {
                let high = self.bytes.get(self.transport + 12).copied().unwrap_or(0) & 0xf0;
                self.put(12, &[high | (n >> 8) as u8 & 15, n as u8]);
            }
            Field::TcpWindow => self.put(14, &word),
            Field::TcpUrgent => self.put(18, &word),
            Field::TcpOff => {
                let len = ((n as usize + 3) & !3).min(60);
                if len > self.tcp_header_len() {
                    self.transport_to(len);
                }
                self.set_tcp_header_len(len);
            }
            _ => {}
        }
    }

    fn set_tcp_header_len(&mut self, len: usize) {
        let low = self.bytes.get(self.transport + 12).copied().unwrap_or(0) & 15;
        self.put(12, &[((len / 4) as u8) << 4 | low]);
    }

    fn apply_icmp(&mut self, field: Field, n: u16) {
        self.transport_to(8);
        let flows = self.icmp_type.is_none_or(icmp::has_flow);
        match field {
            Field::IcmpType | Field::IcmpTypeName => {
                self.icmp_type = Some(n as u8);
                self.put(0, &[n as u8]);
                self.transport_to(icmp::header_len(n as u8));
            }
            Field::IcmpCode | Field::IcmpCodeName => {
                self.icmp_code = Some(n as u8);
                self.put(1, &[n as u8]);
            }
            Field::IcmpFlowId if flows => self.put(4, &n.to_be_bytes()),
            Field::IcmpSeq if flows => self.put(6, &n.to_be_bytes()),
            Field::IcmpNextMtu
                if self.icmp_type.is_none_or(|t| t == 3) && self.icmp_code.is_none_or(|c| c == 4) =>
            {
                self.put(6, &n.to_be_bytes());
            }
            _ => {}
        }
    }

    /// Where the payload begins in `bytes`.
    fn payload_start(&self) -> usize {
        if !self.has_ip {
            return 0;
        }
        let header = match self.protocol() {
            TCP if self.first_fragment() => self.tcp_header_len().max(20),
            UDP | 136 if self.first_fragment() => 8,
            _ => 0,
        };
        self.transport + header
    }

    fn apply_payload(&mut self, len: usize, payload: Option<&[u8]>, defaults: &Defaults) {
        if payload.is_some_and(<[u8]>::is_empty) {
            return;
        }
        if self.make_ip(0, defaults) {
            self.make_transport(defaults);
        }
        let end = self.link_len().saturating_add(self.payload_start()).saturating_add(len);
        if self.want_len == 0 {
            self.want_len = end;
        } else if self.has_ip && self.want_len > end {
            self.pad_headers(self.want_len - end);
        }
        if let Some(payload) = payload {
            let start = self.payload_start();
            if self.bytes.len() < start + len {
                self.bytes.resize(start + len, 0);
            }
            self.put_ip(start, payload);
        }
    }

    /// The dump gives an IP length and a shorter payload, so the headers must have been longer by `missing` bytes.
    fn pad_headers(&mut self, mut missing: usize) {
        if self.protocol() == TCP
            && self.first_fragment()
            && !self.have_tcp_hl
            && self.tcp_header_len() == 20
            && self.transport_len() >= 20
        {
            let more = (missing & !3).min(40);
            let at = self.transport + 20;
            self.bytes.splice(at..at, std::iter::repeat_n(0, more));
            self.set_tcp_header_len(20 + more);
            missing -= more;
        }
        if !self.have_ip_hl && self.bytes[0] & 15 == 5 {
            self.grow_ip_header(20 + (missing & !3).min(40));
        }
    }

    /// Completes the packet: lengths, checksums, annotations. `None` when packet memory is exhausted.
    pub fn finish(&mut self, defaults: &Defaults) -> Option<Packet> {
        if defaults.flow.is_some() {
            self.make_ip(0, defaults);
        }
        if self.has_ip {
            self.make_transport(defaults);
            self.set_lengths(defaults);
        }
        let len = self.link_len() + self.bytes.len();
        let mut packet = Packet::alloc(HEADROOM, len)?;
        let data = packet.data_mut();
        if let Some(link) = &self.link {
            data[..LINK].copy_from_slice(link);
        }
        data[self.link_len()..].copy_from_slice(&self.bytes);
        self.annotate(&mut packet, defaults);
        Some(packet)
    }

    fn set_lengths(&mut self, defaults: &Defaults) {
        let mut ip_len = self.want_len.saturating_sub(self.link_len()).min(MOST);
        if ip_len == 0 {
            ip_len = self.bytes.len().min(MOST);
        }
        self.put_ip(2, &(ip_len as u16).to_be_bytes());
        let unset = self.bytes.get(self.transport + 4..self.transport + 6) == Some(&[0, 0]);
        if self.protocol() == UDP && self.first_fragment() && unset {
            let len = ip_len.saturating_sub(self.transport) as u16;
            self.put(4, &len.to_be_bytes());
        }
        if defaults.checksum {
            if self.bytes.len() < ip_len {
                self.bytes.resize(ip_len, 0);
            }
            self.set_checksums();
        }
    }

    fn set_checksums(&mut self) {
        self.put_ip(10, &[0, 0]);
        let header = usize::from(self.bytes[0] & 15) * 4;
        let sum = checksum::internet(&self.bytes[..header.min(self.bytes.len())]);
        self.put_ip(10, &sum.to_be_bytes());
        let fragment = self.bytes[6] & 0x3f != 0 || self.bytes[7] != 0;
        let at = match self.protocol() {
            TCP => 16,
            UDP => 6,
            ICMP => 2,
            _ => return,
        };
        if fragment {
            return;
        }
        self.put(at, &[0, 0]);
        let segment = &self.bytes[self.transport..];
        let sum = if self.protocol() == ICMP {
            checksum::internet(segment)
        } else {
            let address = |at: usize| {
                Ipv4Addr::from_bits(u32::from_be_bytes(std::array::from_fn(|i| self.bytes[at + i])))
            };
            let sum = checksum::transport_v4(address(12), address(16), Protocol(self.protocol()), segment);
            if self.protocol() == UDP { checksum::never_zero(sum) } else { sum }
        };
        self.put(at, &sum.to_be_bytes());
    }

    fn annotate(&self, packet: &mut Packet, defaults: &Defaults) {
        if self.link.is_some() {
            packet.set_mac_offset(0);
            packet.set_network_offset(LINK as i32);
        }
        if self.has_ip {
            packet.set_network(self.link_len(), self.transport);
            if let Some(dst) = self.bytes.get(16..).and_then(|b| b.first_chunk()) {
                packet.set_dst_ip(*dst);
            }
        }
        if self.paint > 0 {
            packet.set_paint(self.paint);
        }
        if self.timestamp_ns > 0 {
            packet.set_timestamp_ns(self.timestamp_ns);
        }
        if self.first_timestamp_ns > 0 {
            packet.set_anno(anno::FIRST_TIMESTAMP, self.first_timestamp_ns.to_ne_bytes());
        }
        if self.count > 1 {
            packet.set_anno_u32(anno::EXTRA_PACKETS, self.count - 1);
        }
        if let Some(aggregate) = self.aggregate.or(defaults.aggregate) {
            packet.set_anno_u32(anno::AGGREGATE, aggregate);
        }
        if self.want_len > packet.len() {
            packet.set_anno_u32(anno::EXTRA_LENGTH, (self.want_len - packet.len()) as u32);
        }
    }
}

/// `.` whole, `!` whole and not to be fragmented, `F` a first fragment, `f` a later one.
fn fragment_letter(text: &[u8]) -> Option<u64> {
    Some(match text {
        b"." => 0,
        b"!" => 0x4000,
        b"F" => 0x2000,
        // Any offset but zero.
        b"f" => 100,
        _ => return None,
    })
}

/// A letter as above, or an offset in bytes with `+` (more fragments) and `!` (do not fragment).
fn parse_fragment(text: &str, minor_version: u32) -> Option<u64> {
    if let Some(letter) = fragment_letter(text.as_bytes()) {
        return Some(letter);
    }
    let digits = text.trim_end_matches(['!', '+']);
    let offset = u64::try_from(element::parse_integer(digits)?).ok()?;
    let offset = if minor_version > 0 { offset >> 3 } else { offset };
    let flag = |c, bit| if text[digits.len()..].contains(c) { bit } else { 0 };
    Some(offset & 0x1fff | flag('!', 0x4000) | flag('+', 0x2000))
}

/// Letters, `.` for none, or a number.
fn parse_flags(text: &str) -> Option<u64> {
    if text == "." {
        return Some(0);
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return element::parse_integer(text).and_then(|n| u64::try_from(n).ok()).filter(|n| *n < 0x1000);
    }
    let bit = |c| match c {
        'W' | 'Y' => Some(7),
        'X' => Some(6),
        c => TCP_FLAGS.find(c),
    };
    text.chars().try_fold(0, |flags, c| Some(flags | 1 << bit(c)?)).filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::summary::extract::{Summary, View};

    fn fields(names: &str) -> Vec<Field> {
        names.split(' ').map(|n| Field::find(n).unwrap_or_else(|| panic!("{n}"))).collect()
    }

    /// Makes a packet of a line under `names`, and says what the columns `shown` of it are.
    fn check(names: &str, line: &str, shown: &str, want: &str) {
        packet_of(names, line, &Defaults::default(), |p| {
            let mut summary = Summary::new(p, View { careful: true, extra_length: true });
            let mut out = String::new();
            for field in fields(shown) {
                summary.text(field, &mut out);
                out.push(' ');
            }
            assert_eq!(out.trim_end(), want, "{names}: {line}");
        });
    }

    fn packet_of<R>(names: &str, line: &str, defaults: &Defaults, look: impl FnOnce(&Packet) -> R) -> R {
        let mut builder = Builder::default();
        builder.start();
        let mut columns: Vec<_> = fields(names).into_iter().zip(line.split(' ')).collect();
        columns.sort_by_key(|(f, _)| f.order());
        for (field, text) in columns {
            assert!(builder.apply_text(field, text, defaults), "{field:?} {text}");
        }
        look(&builder.finish(defaults).unwrap())
    }

    #[test]
    fn what_is_read_is_written() {
        for (names, line) in [
            ("src dst proto ip_ttl ip_tos ip_id ip_sum", "1.2.3.4 5.6.7.8 U 64 8 77 1234"),
            ("src sport dst dport tcp_seq tcp_ack tcp_flags tcp_window", "1.0.0.1 1 2.0.0.2 2 3 4 SA 5"),
            ("ip_fragoff ip_frag", "0+ F"),
            ("ip_fragoff ip_frag", "800 f"),
            ("ip_fragoff ip_frag", "0! !"),
            ("proto icmp_type icmp_code icmp_flowid icmp_seq", "I 8 0 5 6"),
            ("proto icmp_type_name icmp_code_name icmp_nextmtu", "I unreachable needfrag 576"),
            ("timestamp paint aggregate count", "1.000001 3 99 2"),
            ("eth_src eth_dst eth_type ip_src", "00-01-02-03-04-05 0A-0B-0C-0D-0E-0F 0800 1.2.3.4"),
            ("ip_opt tcp_opt", "rr{1.2.3.4}+2 mss1400;wscale3"),
            ("ip_hl tcp_off", "32 28"),
            ("payload payload_len", "\"a\\nb\\\"\" 4"),
            ("proto sport dport udp_len payload", "U 5 6 13 \"hello\""),
            ("direction ip_ecn ip_dscp", "< ce 10"),
            ("tcp_flags", "FSRPAUECN"),
        ] {
            check(names, line, names, line);
        }
    }

    #[test]
    fn lengths_follow() {
        check("src", "1.2.3.4", "ip_len ip_hl proto ip_ttl payload_len", "40 20 T 100 0");
        check("proto ip_len", "U 100", "ip_len payload_len udp_len wire_len", "100 72 80 28");
        check("payload_len", "60", "ip_len payload_len", "100 60");
        check("timestamp", "1.5", "ip_src wire_len", "- 0");
        check("ip_len payload_len", "80 20", "ip_len payload_len tcp_off", "80 20 40");
        check("ip_len proto", "24 T", "sport dport tcp_seq wire_len", "0 0 - 24");
        check("proto payload", "99 \"xy\"", "ip_len payload sport", "22 \"xy\" -");
        check("eth_type payload", "0806 \"abc\"", "wire_len eth_type", "17 0806");
        check("payload", "\"abc\"", "payload_md5_hex", "900150983cd24fb0d6963f7d28e17f72");
    }

    #[test]
    fn flow_and_checksums() {
        let flow =
            FlowId { addresses: [Ipv4Addr::new(1, 0, 0, 1), Ipv4Addr::new(2, 0, 0, 2)], ports: [5, 6] };
        let defaults = Defaults { protocol: UDP, flow: Some(flow), checksum: true, ..Defaults::default() };
        packet_of("payload_len", "5", &defaults, |p| {
            let (head, udp) = p.data().split_at(20);
            assert!(checksum::header20_ok(head.first_chunk().unwrap()));
            assert_eq!(udp, [0, 5, 0, 6, 0, 13, 0xfc, 0xc6, 0, 0, 0, 0, 0]);
            assert!(checksum::transport_v4_ok(flow.addresses[0], flow.addresses[1], Protocol::UDP, udp));
            assert_eq!(p.dst_ip(), [2, 0, 0, 2]);
            assert_eq!(p.anno_u32(anno::EXTRA_LENGTH), 0);
        });
    }

    #[test]
    fn bad_values_are_refused() {
        for (name, text) in [
            ("ip_src", "1.2.3"),
            ("ip_ttl", "256"),
            ("sport", "65536"),
            ("proto", "X"),
            ("tcp_flags", "Q"),
            ("tcp_flags", "4096"),
            ("ip_fragoff", "x"),
            ("ip_opt", "rr{"),
            ("timestamp", "now"),
            ("eth_src", "1:2"),
        ] {
            let field = Field::find(name).unwrap();
            assert!(!Builder::default().apply_text(field, text, &Defaults::default()), "{name} {text}");
        }
    }
}
