// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes the values of fields from packets and writes them as text or binary.

use std::fmt::Write as _;

use packet::{Packet, anno};

use super::options::{TcpSet, copy_tcp, write_ip, write_tcp};
use super::{Field, Width, icmp, md5};
use crate::tools::seconds;

/// How packets are looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct View {
    /// Note packets whose bytes are fewer than their IP length says.
    pub careful: bool,
    /// Count the bytes that the extra length annotation says are missing.
    pub extra_length: bool,
}

/// The value of a field.
enum Value<'p> {
    Number(u64),
    Ip([u8; 4]),
    Mac([u8; 6]),
    /// Nanoseconds since the epoch.
    Time(u64),
    Options(&'p [u8]),
    Bytes(&'p [u8]),
}

/// What is missing when a field has no value.
#[derive(Clone, Copy)]
enum Needs {
    Ethernet,
    Ip,
    /// The header of this protocol, or of TCP or UDP when `None`, as far as this many bytes.
    Transport(Option<u8>, usize),
}

/// A packet with its headers found and judged once.
pub struct Summary<'p> {
    packet: &'p Packet,
    view: View,
    /// Bytes from the IP header to the end of the IP packet, when there is a sound header.
    ip: Option<&'p [u8]>,
    /// Whether the network header was found, sound or not.
    has_network: bool,
    /// Bytes from the transport header to the end.
    transport: &'p [u8],
    /// The transport header is there and belongs to this protocol.
    protocol: Option<u8>,
    /// Bytes after the end of the IP packet.
    padding: usize,
    extra: u32,
    /// The first thing found wrong, if anybody wants to know.
    bad: Option<String>,
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;

fn u16_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?)))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?)))
}

fn u8_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at).copied().map(u64::from)
}

/// Whether an IP header is that of a whole datagram or of its first fragment.
fn first_fragment(ip: &[u8]) -> bool {
    u16_at(ip, 6).is_some_and(|off| off & 0x1fff == 0)
}

/// Whether the protocol's header begins with two ports.
pub(super) fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | 33 | 136)
}

impl<'p> Summary<'p> {
    /// Looks at a packet.
    pub fn new(packet: &'p Packet, view: View) -> Summary<'p> {
        let mut summary = Summary {
            packet,
            view,
            ip: None,
            has_network: false,
            transport: &[],
            protocol: None,
            padding: 0,
            extra: packet.anno_u32(anno::EXTRA_LENGTH),
            bad: None,
        };
        if let Some(network) = packet.network() {
            summary.has_network = true;
            summary.judge_ip(network);
            summary.judge_transport();
        }
        summary
    }

    fn note(&mut self, bad: impl FnOnce() -> String) {
        if self.bad.is_none() {
            self.bad = Some(bad());
        }
    }

    fn judge_ip(&mut self, network: &'p [u8]) {
        let [first, _, high, low, ..] = *network else {
            return self.note(|| "truncated IP header".into());
        };
        let (version, words) = (first >> 4, usize::from(first & 15));
        let ip_len = usize::from(u16::from_be_bytes([high, low]));
        if version != 4 {
            return self.note(|| format!("IP version {version}"));
        }
        if words < 5 {
            return self.note(|| format!("IP header length {words}"));
        }
        if ip_len < words * 4 {
            return self.note(|| format!("IP length {ip_len}"));
        }
        let full = network.len() + self.extra as usize;
        if network.len() > ip_len {
            self.padding = network.len() - ip_len;
        } else if self.view.careful && full < ip_len {
            self.note(|| format!("truncated IP missing {}", ip_len - full));
        }
        self.ip = Some(&network[..network.len().min(ip_len)]);
        // Lengths come from the IP header; only what that cannot express is extra.
        self.extra = if ip_len == 0xffff { full.saturating_sub(0xffff) as u32 } else { 0 };
    }

    fn judge_transport(&mut self) {
        let (Some(ip), Some(at)) = (self.ip, self.packet.transport_offset()) else { return };
        let network = self.packet.network_offset().unwrap_or(0);
        let Some(transport) = usize::try_from(at - network).ok().and_then(|at| ip.get(at..)) else { return };
        self.transport = transport;
        if ip.len() <= usize::from(ip[0] & 15) * 4 || !first_fragment(ip) {
            return;
        }
        self.protocol = Some(ip[9]);
        if ip[9] == TCP
            && let Some(words) = transport.get(12).map(|b| b >> 4)
            && words < 5
        {
            self.note(|| format!("TCP header length {words}"));
            self.protocol = None;
        }
    }

    /// Bytes without padding after the IP packet.
    fn len(&self) -> usize {
        self.packet.len() - self.padding
    }

    /// What was found wrong so far, once.
    pub fn take_bad(&mut self) -> Option<String> {
        self.bad.take()
    }

    fn missing(&mut self, needs: Needs) {
        if self.bad.is_some() {
            return;
        }
        let ip_protocol = self.ip.and_then(|ip| ip.get(9)).copied();
        self.bad = match needs {
            Needs::Ethernet => Some("Ethernet header".into()),
            _ if !self.has_network || self.ip.is_none() => Some("no IP header".into()),
            Needs::Ip => Some("truncated IP header capture".into()),
            Needs::Transport(wanted, len) => {
                let wrong = match (wanted, ip_protocol) {
                    (Some(wanted), Some(is)) => wanted != is,
                    (None, Some(is)) => is != TCP && is != UDP,
                    _ => false,
                };
                if wrong {
                    // Another protocol is nothing bad.
                    return;
                }
                let name = match wanted {
                    Some(TCP) => "TCP",
                    Some(UDP) => "UDP",
                    Some(_) => "ICMP",
                    None => "TCP/UDP",
                };
                Some(if !self.ip.is_some_and(first_fragment) {
                    format!("fragmented {name} header")
                } else if self.transport.len() + self.extra as usize >= len {
                    format!("truncated {name} header capture")
                } else {
                    format!("truncated {name} header")
                })
            }
        };
    }

    fn value(&self, field: Field) -> Result<Value<'p>, Option<Needs>> {
        use Value::Number;
        let p = self.packet;
        let number = |n: u32| Ok(Number(u64::from(n)));
        match field {
            Field::Timestamp | Field::NanoTimestamp => Ok(Value::Time(p.timestamp_ns())),
            Field::Seconds => Ok(Number(p.timestamp_ns() / 1_000_000_000)),
            Field::Microseconds => Ok(Number(p.timestamp_ns() % 1_000_000_000 / 1000)),
            Field::AllMicroseconds => Ok(Number(p.timestamp_ns() / 1000)),
            Field::FirstTimestamp | Field::FirstNanoTimestamp => {
                Ok(Value::Time(u64::from_ne_bytes(p.anno(anno::FIRST_TIMESTAMP))))
            }
            Field::Count => number(p.anno_u32(anno::EXTRA_PACKETS).wrapping_add(1)),
            Field::Link | Field::Paint | Field::Direction => number(u32::from(p.paint())),
            Field::Aggregate => number(p.anno_u32(anno::AGGREGATE)),
            Field::WireLen => Ok(Number(p.len() as u64)),
            Field::EthSrc | Field::EthDst | Field::EthType => self.link(field).ok_or(Some(Needs::Ethernet)),
            Field::SrcPort | Field::DstPort => {
                let at = if field == Field::SrcPort { 0 } else { 2 };
                let ports = self.protocol.is_some_and(has_ports) || self.broken_tcp();
                let value = if ports { u16_at(self.transport, at) } else { None };
                value.map(Number).ok_or(Some(Needs::Transport(None, at + 2)))
            }
            Field::Nothing => Err(None),
            Field::UdpLen => self.number_of(UDP, 6, |t| u16_at(t, 4)),
            Field::PayloadLen | Field::Payload | Field::PayloadMd5 | Field::PayloadMd5Hex => {
                self.payload(field)
            }
            f if (Field::TcpSeq as u8..=Field::TcpSack as u8).contains(&(f as u8)) => self.tcp(field),
            f if (Field::IcmpType as u8..=Field::IcmpNextMtu as u8).contains(&(f as u8)) => self.icmp(field),
            _ => self.network(field).ok_or(Some(Needs::Ip)),
        }
    }

    /// A TCP header whose length field is impossible still shows its ports.
    fn broken_tcp(&self) -> bool {
        self.ip.is_some_and(|ip| ip.get(9) == Some(&TCP) && first_fragment(ip))
    }

    fn link(&self, field: Field) -> Option<Value<'p>> {
        let network = self.packet.network_offset();
        let at = match (self.packet.mac_offset(), network) {
            (Some(at), _) => at,
            (None, Some(network)) if network >= 0 => return None,
            _ => 0,
        };
        if network.unwrap_or(self.packet.len() as i32) != at + 14 {
            return None;
        }
        let bytes = if self.packet.mac_offset().is_some() { self.packet.mac()? } else { self.packet.data() };
        match field {
            Field::EthDst => Some(Value::Mac(*bytes.first_chunk()?)),
            Field::EthSrc => Some(Value::Mac(*bytes.get(6..)?.first_chunk()?)),
            _ => u16_at(bytes, 12).map(Value::Number),
        }
    }

    fn network(&self, field: Field) -> Option<Value<'p>> {
        let ip = self.ip;
        match field {
            Field::IpLen => {
                let len = ip.and_then(|ip| u16_at(ip, 2)).unwrap_or(self.len() as u64);
                return Some(Value::Number(
                    len + if self.view.extra_length { u64::from(self.extra) } else { 0 },
                ));
            }
            Field::IpCaptureLen => {
                let captured = ip.map_or(self.len(), <[u8]>::len) as u64;
                return Some(Value::Number(
                    ip.and_then(|ip| u16_at(ip, 2)).unwrap_or(captured).min(captured),
                ));
            }
            _ => {}
        }
        let ip = ip?;
        let flags = || u16_at(ip, 6);
        let value = match field {
            Field::IpSrc => return Some(Value::Ip(*ip.get(12..)?.first_chunk()?)),
            Field::IpDst => return Some(Value::Ip(*ip.get(16..)?.first_chunk()?)),
            Field::IpOpt => {
                let len = usize::from(ip[0] & 15) * 4;
                return Some(Value::Options(if len > 20 { ip.get(20..len)? } else { &[] }));
            }
            Field::IpTos => u8_at(ip, 1),
            Field::IpDscp => u8_at(ip, 1).map(|tos| tos >> 2),
            Field::IpEcn => u8_at(ip, 1).map(|tos| tos & 3),
            Field::IpTtl => u8_at(ip, 8),
            Field::IpFrag => flags().map(|off| {
                u64::from(match off {
                    off if off & 0x1fff > 0 => b'f',
                    off if off & 0x2000 > 0 => b'F',
                    off if off & 0x4000 > 0 => b'!',
                    _ => b'.',
                })
            }),
            Field::IpFragOff => flags(),
            Field::IpId => u16_at(ip, 4),
            Field::IpSum => u16_at(ip, 10),
            Field::IpProto => u8_at(ip, 9),
            Field::IpHl => u8_at(ip, 0).map(|b| (b & 15) * 4),
            _ => None,
        };
        value.map(Value::Number)
    }

    fn number_of(
        &self,
        protocol: u8,
        len: usize,
        get: impl Fn(&[u8]) -> Option<u64>,
    ) -> Result<Value<'p>, Option<Needs>> {
        let header = if self.protocol == Some(protocol) { get(self.transport) } else { None };
        header.map(Value::Number).ok_or(Some(Needs::Transport(Some(protocol), len)))
    }

    fn tcp(&self, field: Field) -> Result<Value<'p>, Option<Needs>> {
        match field {
            Field::TcpSeq => self.number_of(TCP, 8, |t| u32_at(t, 4)),
            Field::TcpAck => self.number_of(TCP, 12, |t| u32_at(t, 8)),
            Field::TcpOff => self.number_of(TCP, 13, |t| u8_at(t, 12).map(|b| (b >> 4) * 4)),
            Field::TcpFlags => self.number_of(TCP, 14, |t| u16_at(t, 12).map(|w| w & 0x0fff)),
            Field::TcpWindow => self.number_of(TCP, 16, |t| u16_at(t, 14)),
            Field::TcpUrgent => self.number_of(TCP, 20, |t| u16_at(t, 18)),
            _ => {
                let transport = if self.protocol == Some(TCP) { self.transport } else { &[] };
                let options = transport.get(12).and_then(|b| {
                    let len = usize::from(b >> 4) * 4;
                    let timestamp_only = || transport.get(20..24) == Some(&[1, 1, 8, 10]);
                    if len <= 20 || (field != Field::TcpOpt && len == 32 && timestamp_only()) {
                        return Some(&[][..]);
                    }
                    transport.get(20..len)
                });
                let needs = Needs::Transport(Some(TCP), self.transport.len() + 1);
                options.map(Value::Options).ok_or(Some(needs))
            }
        }
    }

    fn icmp(&self, field: Field) -> Result<Value<'p>, Option<Needs>> {
        let kind = if self.protocol == Some(ICMP) { self.transport.first().copied() } else { None };
        let flows = kind.is_none_or(icmp::has_flow);
        match field {
            Field::IcmpType | Field::IcmpTypeName => self.number_of(ICMP, 1, |t| u8_at(t, 0)),
            Field::IcmpCode | Field::IcmpCodeName => self.number_of(ICMP, 2, |t| u8_at(t, 1)),
            Field::IcmpFlowId if flows => self.number_of(ICMP, 6, |t| u16_at(t, 4)),
            Field::IcmpSeq if flows => self.number_of(ICMP, 8, |t| u16_at(t, 6)),
            Field::IcmpNextMtu if kind.is_none() || self.transport.starts_with(&[3, 4]) => {
                self.number_of(ICMP, 8, |t| u16_at(t, 6))
            }
            _ => Err(None),
        }
    }

    /// Where the payload should begin, as an offset in the packet, and how long it should be.
    fn payload_place(&self) -> (usize, usize) {
        let Some(ip) = self.ip else { return (0, self.len()) };
        let network = usize::try_from(self.packet.network_offset().unwrap_or(0)).unwrap_or(0);
        let hl = usize::from(ip[0] & 15) * 4;
        let transport = self.packet.transport_offset().and_then(|at| usize::try_from(at).ok());
        let mut at = transport.unwrap_or(network + hl);
        if first_fragment(ip) {
            at += match ip.get(9) {
                Some(&TCP) => match self.transport.get(12).map(|b| usize::from(b >> 4) * 4) {
                    Some(len) if len >= 20 => len,
                    _ => 20,
                },
                Some(&UDP | 136) => 8,
                _ => 0,
            };
        }
        let ip_len = u16_at(ip, 2).unwrap_or(0) as usize;
        (at, ip_len.saturating_sub(at - network))
    }

    fn payload(&self, field: Field) -> Result<Value<'p>, Option<Needs>> {
        let (at, len) = self.payload_place();
        if field == Field::PayloadLen {
            let extra = if self.ip.is_none() || self.view.extra_length { self.extra } else { 0 };
            return Ok(Value::Number(len as u64 + u64::from(extra)));
        }
        if len > 0 && at >= self.packet.len() {
            return Err(None);
        }
        let end = (at + len).min(self.len());
        Ok(Value::Bytes(self.packet.data().get(at..end).unwrap_or(&[])))
    }

    /// Writes a field as text; `-` when the packet does not have it.
    pub fn text(&mut self, field: Field, out: &mut String) {
        let kind = self.transport.first().copied().unwrap_or(0);
        let _ = match self.value(field) {
            Ok(Value::Number(n)) => number_text(field, n, kind, out),
            Ok(Value::Ip([a, b, c, d])) => write!(out, "{a}.{b}.{c}.{d}"),
            Ok(Value::Mac(mac)) => write!(out, "{:#}", wire::MacAddr(mac)),
            Ok(Value::Time(ns)) => write!(out, "{}", seconds(ns)),
            Ok(Value::Options(options)) => {
                match tcp_set(field) {
                    Some(set) => write_tcp(out, options, set),
                    None => write_ip(out, options),
                }
                Ok(())
            }
            Ok(Value::Bytes(bytes)) => match field {
                Field::Payload => write!(out, "{}", lang::config::quote_bytes(bytes)),
                Field::PayloadMd5 => write!(out, "{}", md5::text(&md5::digest(bytes))),
                _ => write!(out, "{}", md5::hex(&md5::digest(bytes))),
            },
            Err(needs) => {
                needs.into_iter().for_each(|n| self.missing(n));
                write!(out, "-")
            }
        };
    }

    /// Writes a field as in a binary record; zeros when the packet does not have it.
    pub fn binary(&mut self, field: Field, out: &mut Vec<u8>) {
        let width = match field.width() {
            Width::Bytes(n) => n,
            Width::Counted => 0,
            Width::None => return,
        };
        match self.value(field) {
            Ok(Value::Number(n)) => out.extend_from_slice(&n.to_be_bytes()[8 - width.min(8)..]),
            Ok(Value::Ip(address)) => out.extend(address),
            Ok(Value::Mac(address)) => out.extend(address),
            Ok(Value::Time(ns)) => {
                let nano = matches!(field, Field::NanoTimestamp | Field::FirstNanoTimestamp);
                let (seconds, rest) = (ns / 1_000_000_000, (ns % 1_000_000_000) as u32);
                out.extend((seconds as u32).to_be_bytes());
                out.extend((if nano { rest } else { rest / 1000 }).to_be_bytes());
            }
            Ok(Value::Options(options)) => {
                let at = out.len();
                out.push(0);
                copy_tcp(out, options, tcp_set(field).unwrap_or(TcpSet::All));
                out[at] = (out.len() - at - 1) as u8;
            }
            Ok(Value::Bytes(bytes)) => out.extend(md5::digest(bytes)),
            Err(_) if field == Field::Nothing => {}
            Err(needs) => {
                needs.into_iter().for_each(|n| self.missing(n));
                out.resize(out.len() + width.max(1), 0);
            }
        }
    }
}

/// Which TCP options a field shows.
pub(super) fn tcp_set(field: Field) -> Option<TcpSet> {
    match field {
        Field::TcpOpt => Some(TcpSet::All),
        Field::TcpNtOpt => Some(TcpSet::NoTimestamp),
        Field::TcpSack => Some(TcpSet::Sack),
        _ => None,
    }
}

/// Letters of the TCP flags, from the lowest bit up.
pub(super) const TCP_FLAGS: &str = "FSRPAUECN";

fn number_text(field: Field, n: u64, icmp_type: u8, out: &mut String) -> std::fmt::Result {
    let name = match field {
        Field::IpFrag => return write!(out, "{}", char::from(n as u8)),
        Field::IpFragOff => {
            let more = if n & 0x2000 > 0 { "+" } else { "" };
            let keep = if n & 0x4000 > 0 { "!" } else { "" };
            return write!(out, "{}{more}{keep}", (n & 0x1fff) << 3);
        }
        Field::EthType => return write!(out, "{n:04X}"),
        Field::TcpFlags => {
            let pushed = n == 0x18;
            match n {
                0 => out.push('.'),
                // The commonest pair is written the other way round by tradition.
                _ if pushed => out.push_str("PA"),
                _ => {
                    out.extend(TCP_FLAGS.chars().enumerate().filter(|(i, _)| n >> i & 1 == 1).map(|(_, c)| c))
                }
            }
            return Ok(());
        }
        Field::IpProto => match n {
            1 => Some("I"),
            6 => Some("T"),
            17 => Some("U"),
            _ => None,
        },
        Field::IpEcn => ["no", "ect1", "ect2", "ce"].get(n as usize).copied(),
        Field::Direction => match n {
            0 => Some(">"),
            1 => Some("<"),
            _ => None,
        },
        Field::IcmpTypeName => icmp::type_name(n as u8),
        Field::IcmpCodeName => icmp::code_name(icmp_type, n as u8),
        _ => None,
    };
    match name {
        Some(name) => write!(out, "{name}"),
        None => write!(out, "{n}"),
    }
}
