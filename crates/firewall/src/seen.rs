// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a packet's bytes say to a firewall.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::{Protocol, ipv6, tcp};

use crate::firewall::Arrival;
use crate::policy::{Facts, ICMP, ICMP6, TCP, UDP};
use crate::track::Segment;

/// Why a packet cannot be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unjudged {
    /// Its headers are cut off or wrong.
    Malformed,
    /// It is a fragment and not the first: what happens to that decides.
    Later(Fragment),
}

/// A fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// What all fragments of a packet have in common: source, destination, identification, with IPv4 the protocol, and the VRF.
    pub packet: (IpAddr, IpAddr, u32, u8, u16),
    /// Where its bytes begin and end in the packet's payload.
    pub bytes: (u32, u32),
}

/// What its protocol says of its part in a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A segment of TCP.
    Tcp(Segment),
    /// An ICMP query, with its identifier and type.
    Query(u16, u8),
    /// An answer to one, with the identifier, and the query's type.
    Answer(u16, u8),
    /// An ICMP error about a packet that this one's receiver has sent.
    Error(Quoted),
    /// A message of ICMP that stands alone.
    Alone,
    /// A packet of any other protocol.
    Other,
}

/// The packet that an ICMP error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Its source.
    pub source: IpAddr,
    /// Its destination.
    pub destination: IpAddr,
    /// Its protocol.
    pub protocol: u8,
    /// Its ports, or what stands for them.
    pub ports: [u16; 2],
    /// Its sequence number, of TCP.
    pub sequence: Option<u32>,
}

/// A packet, as a firewall sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What rules see.
    pub facts: Facts,
    /// Its part in a connection.
    pub part: Part,
    /// Bytes of the IP packet.
    pub length: u32,
    /// Its place, if it is the first fragment of a packet.
    pub fragment: Option<Fragment>,
}

/// Queries of ICMP and their answers.
const QUERIES: [(u8, u8); 4] = [(8, 0), (13, 14), (15, 16), (17, 18)];
/// The same of ICMPv6.
const QUERIES6: [(u8, u8); 2] = [(128, 129), (139, 140)];

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
}

/// Addresses, protocol, and what follows the headers.
struct Layers<'a> {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    /// Identification, offset and length, of a fragment.
    fragment: Option<(u32, u32, usize)>,
    rest: &'a [u8],
    length: u32,
}

fn layers(ip: &[u8], is_quoted: bool) -> Option<Layers<'_>> {
    match ip.first()? >> 4 {
        4 => {
            let header = ip.first_chunk::<20>()?;
            let at = usize::from(header[0] & 15) * 4;
            let total = usize::from(u16_at(ip, 2)?);
            if at < 20 || total < at || (total > ip.len() && !is_quoted) {
                return None;
            }
            let offset = u16_at(ip, 6)?;
            let id = u32::from(u16_at(ip, 4)?);
            Some(Layers {
                source: Ipv4Addr::from(u32_at(ip, 12)?).into(),
                destination: Ipv4Addr::from(u32_at(ip, 16)?).into(),
                protocol: header[9],
                fragment: (offset & 0x3fff != 0).then_some((id, u32::from(offset & 0x1fff) * 8, total - at)),
                rest: ip.get(at..total.min(ip.len()))?,
                length: total as u32,
            })
        }
        6 => {
            let header = ip.first_chunk::<40>()?;
            let total = 40 + usize::from(u16_at(ip, 4)?);
            if total > ip.len() && !is_quoted {
                return None;
            }
            let payload = ip.get(40..total.min(ip.len()))?;
            let upper = ipv6::upper_layer(Protocol(header[6]), payload).ok()?;
            let address =
                |at: usize| ip[at..].first_chunk::<16>().map(|bytes| IpAddr::from(Ipv6Addr::from(*bytes)));
            let fragment = upper.fragment.filter(|fragment| fragment.offset != 0 || fragment.more);
            Some(Layers {
                source: address(8)?,
                destination: address(24)?,
                protocol: upper.protocol.0,
                fragment: fragment.map(|fragment| {
                    (fragment.id, fragment.offset as u32, behind_fragment(header[6], payload))
                }),
                rest: payload.get(upper.offset..)?,
                length: total as u32,
            })
        }
        _ => None,
    }
}

/// How many bytes follow the fragment header: it counts headers behind it as payload, too.
fn behind_fragment(next: u8, payload: &[u8]) -> usize {
    let mut extensions = ipv6::Extensions::new(Protocol(next), payload).map_while(Result::ok);
    let header = extensions.find(|extension| extension.fragment().is_some());
    header.map_or(0, |header| payload.len().saturating_sub(header.offset + header.data.len()))
}

/// Where the header behind those of IP begins.
pub(crate) fn transport(ip: &[u8]) -> Option<usize> {
    let layers = layers(ip, false)?;
    (layers.length as usize).checked_sub(layers.rest.len())
}

/// The same of a packet of which an ICMP error quotes the beginning.
pub(crate) fn transport_of_quote(ip: &[u8]) -> Option<usize> {
    let layers = layers(ip, true)?;
    (layers.length as usize).min(ip.len()).checked_sub(layers.rest.len())
}

/// What a packet of TCP or UDP carries.
pub(crate) fn payload(ip: &[u8]) -> Option<&[u8]> {
    let Layers { protocol, rest, .. } = layers(ip, false)?;
    match protocol {
        TCP => rest.get(usize::from(rest.get(12)? >> 4) * 4..),
        UDP => rest.get(8..usize::from(u16_at(rest, 4)?)),
        _ => None,
    }
}

fn segment(bytes: &[u8]) -> Option<Segment> {
    let view = tcp::View::new_checked(bytes).ok()?;
    let scale = || {
        view.options().map_while(Result::ok).find_map(|(_, option)| match option {
            tcp::TcpOption::WindowScale(shift) => Some(shift),
            _ => None,
        })
    };
    let flags = view.flags();
    Some(Segment {
        flags: flags.0,
        sequence: view.seq(),
        acknowledgement: view.ack(),
        window: view.window(),
        length: view.payload().len() as u32,
        scale: if flags.contains(tcp::Flags::SYN) { scale() } else { None },
    })
}

/// A query of ICMP or the answer to one.
fn query(six: bool, message: &[u8]) -> Option<Part> {
    let kind = *message.first()?;
    let queries: &[(u8, u8)] = if six { &QUERIES6 } else { &QUERIES };
    let (query, _) = *queries.iter().find(|(query, answer)| [*query, *answer].contains(&kind))?;
    let id = u16_at(message, 4)?;
    Some(if kind == query { Part::Query(id, query) } else { Part::Answer(id, query) })
}

/// The part of an ICMP message that has its first four bytes.
fn icmp(six: bool, message: &[u8]) -> Option<Part> {
    let kind = *message.first()?;
    let is_error = if six { kind < 128 } else { matches!(kind, 3 | 4 | 5 | 11 | 12) };
    if is_error {
        return Some(message.get(8..).and_then(quoted).map_or(Part::Alone, Part::Error));
    }
    let queries: &[(u8, u8)] = if six { &QUERIES6 } else { &QUERIES };
    match queries.iter().any(|(query, answer)| [*query, *answer].contains(&kind)) {
        true => query(six, message),
        false => Some(Part::Alone),
    }
}

/// The packet that an error quotes. Errors about errors are about nothing that was sent.
fn quoted(ip: &[u8]) -> Option<Quoted> {
    let layers = layers(ip, true)?;
    if layers.fragment.is_some_and(|(_, offset, _)| offset != 0) {
        return None;
    }
    let (rest, protocol) = (layers.rest, layers.protocol);
    let ports = match protocol {
        ICMP | ICMP6 => query(protocol == ICMP6, rest)?.ports()?,
        _ if Protocol(protocol).has_ports() => [u16_at(rest, 0)?, u16_at(rest, 2)?],
        _ => [0; 2],
    };
    let sequence = if protocol == TCP { Some(u32_at(rest, 4)?) } else { None };
    Some(Quoted { source: layers.source, destination: layers.destination, protocol, ports, sequence })
}

impl Part {
    /// What stands for the ports of an ICMP query and its answer: identifier and type of the query, the other way round in the answer.
    fn ports(&self) -> Option<[u16; 2]> {
        match *self {
            Part::Query(id, kind) => Some([id, kind.into()]),
            Part::Answer(id, kind) => Some([kind.into(), id]),
            _ => None,
        }
    }
}

impl Seen {
    /// Looks at an IP packet between two zones.
    ///
    /// # Errors
    /// It cannot be judged.
    pub fn of(ip: &[u8], from: u8, to: u8) -> Result<Seen, Unjudged> {
        Seen::arrived(&Arrival { ip, from, to, vrfs: [0; 2], mac: None })
    }

    /// Looks at a packet that has arrived.
    ///
    /// # Errors
    /// It cannot be judged.
    pub fn arrived(&Arrival { ip, from, to, vrfs, mac }: &Arrival<'_>) -> Result<Seen, Unjudged> {
        let layers = layers(ip, false).ok_or(Unjudged::Malformed)?;
        let (rest, protocol) = (layers.rest, layers.protocol);
        let of_four = if layers.source.is_ipv4() { protocol } else { 0 };
        let fragment = layers.fragment.map(|(id, offset, length)| Fragment {
            packet: (layers.source, layers.destination, id, of_four, vrfs[0]),
            bytes: (offset, offset + length as u32),
        });
        if let Some(later) = fragment.filter(|fragment| fragment.bytes.0 != 0) {
            return Err(Unjudged::Later(later));
        }
        let mut facts = Facts {
            from,
            to,
            vrfs,
            source: layers.source,
            destination: layers.destination,
            protocol,
            ports: None,
            icmp: None,
            mac,
        };
        let six = facts.source.is_ipv6();
        let part = match protocol {
            ICMP if !six => icmp(false, rest),
            ICMP6 if six => icmp(true, rest),
            TCP => segment(rest).map(Part::Tcp),
            _ => Some(Part::Other),
        };
        let part = part.ok_or(Unjudged::Malformed)?;
        if Protocol(protocol).has_ports() {
            let both = u16_at(rest, 0).zip(u16_at(rest, 2)).ok_or(Unjudged::Malformed)?;
            facts.ports = Some([both.0, both.1]);
        }
        if !matches!(part, Part::Tcp(_) | Part::Other) {
            facts.icmp = Some([rest[0], *rest.get(1).ok_or(Unjudged::Malformed)?]);
        }
        Ok(Seen { facts, part, length: layers.length, fragment })
    }

    /// The ports of its connection, or what stands for them.
    pub fn flow_ports(&self) -> [u16; 2] {
        self.part.ports().or(self.facts.ports).unwrap_or_default()
    }
}
