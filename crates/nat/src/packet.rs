// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a packet of IPv4 says to a translator, and how its addresses and ports are changed.
//!
//! Checksums are adjusted by what changes (RFC 1624), so a wrong one stays wrong and its receiver finds out.

use wire::{Protocol, checksum};

use crate::policy::{ICMP, TCP, UDP};

/// Why a packet cannot be translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// Its headers are cut off or wrong.
    Malformed,
    /// It is a fragment and not the first: it has no ports.
    Fragment,
}

/// Where something is, in a packet.
type At = u16;

/// What follows the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upper {
    /// TCP or UDP, with the flags of TCP.
    Ports { ports: [u16; 2], flags: u8 },
    /// A query of ICMP.
    Query { id: u16 },
    /// The answer to one.
    Answer { id: u16 },
    /// An ICMP error about a packet.
    Error(Quoted),
    /// Another protocol, whose ports, if it has any, stay as they are.
    Kept { ports: [u16; 2] },
    /// A message of ICMP about nothing that is translated.
    Alone,
}

/// The packet that an ICMP error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quoted {
    pub(crate) source: u32,
    pub(crate) destination: u32,
    pub(crate) protocol: u8,
    /// Its ports; of a query of ICMP the identifier on the side that asked.
    pub(crate) ports: [u16; 2],
    /// Where it begins, and where its transport header does.
    at: [At; 2],
}

/// A packet, as a translator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) source: u32,
    pub(crate) destination: u32,
    pub(crate) protocol: u8,
    pub(crate) upper: Upper,
    pub(crate) length: u16,
    /// Where the transport header is.
    at: At,
}

const UDP_LITE: u8 = 136;
/// Flags of TCP.
pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

#[inline(always)]
fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]))
}

#[inline(always)]
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
}

/// The source of a packet of IPv4, if it is that long.
#[inline]
pub(crate) fn source(ip: &[u8]) -> Option<u32> {
    u32_at(ip, 12)
}

/// The destination.
#[inline]
pub(crate) fn destination(ip: &[u8]) -> Option<u32> {
    u32_at(ip, 16)
}

/// Whether a message of ICMP is a query with an identifier, or the answer to one.
fn query(kind: u8) -> Option<bool> {
    match kind {
        8 | 13 | 15 | 17 => Some(true),
        0 | 14 | 16 | 18 => Some(false),
        _ => None,
    }
}

impl View {
    /// What the first packet of a session would say whose other port is not known yet.
    pub(crate) fn of_any_port(protocol: u8, inside: (u32, u16), peer: u32) -> View {
        let upper = Upper::Ports { ports: [inside.1, 0], flags: SYN };
        View { source: inside.0, destination: peer, protocol, upper, length: 0, at: 0 }
    }

    /// Looks at a packet of IPv4.
    ///
    /// # Errors
    /// It cannot be translated.
    #[inline]
    pub(crate) fn of(ip: &[u8]) -> Result<View, Unseen> {
        let header = ip.first_chunk::<20>().ok_or(Unseen::Malformed)?;
        let at = usize::from(header[0] & 15) * 4;
        let length = u16::from_be_bytes([header[2], header[3]]);
        if header[0] >> 4 != 4 || at < 20 || usize::from(length) < at || usize::from(length) > ip.len() {
            return Err(Unseen::Malformed);
        }
        if u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0 {
            return Err(Unseen::Fragment);
        }
        let protocol = header[9];
        let rest = &ip[at..usize::from(length)];
        let upper = match protocol {
            TCP => {
                let fixed = rest.first_chunk::<20>().ok_or(Unseen::Malformed)?;
                Upper::Ports { ports: ports(fixed), flags: fixed[13] }
            }
            UDP => {
                let fixed = rest.first_chunk::<8>().ok_or(Unseen::Malformed)?;
                Upper::Ports { ports: ports(fixed), flags: 0 }
            }
            ICMP => icmp(rest, at).ok_or(Unseen::Malformed)?,
            _ if Protocol(protocol).has_ports() => {
                let both = u16_at(rest, 0).zip(u16_at(rest, 2)).ok_or(Unseen::Malformed)?;
                Upper::Kept { ports: both.into() }
            }
            _ => Upper::Kept { ports: [0; 2] },
        };
        let address =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        Ok(View { source: address(12), destination: address(16), protocol, upper, length, at: at as At })
    }

    /// Where the transport header is.
    pub(crate) fn transport(&self) -> usize {
        usize::from(self.at)
    }

    /// The ports of its session. A query of ICMP has its identifier on the side that asks.
    #[inline]
    pub(crate) fn ports(&self) -> [u16; 2] {
        match self.upper {
            Upper::Ports { ports, .. } | Upper::Kept { ports } => ports,
            Upper::Query { id } => [id, 0],
            Upper::Answer { id } => [0, id],
            Upper::Error(_) | Upper::Alone => [0; 2],
        }
    }
}

#[inline(always)]
fn ports(header: &[u8]) -> [u16; 2] {
    [u16::from_be_bytes([header[0], header[1]]), u16::from_be_bytes([header[2], header[3]])]
}

fn icmp(message: &[u8], at: usize) -> Option<Upper> {
    let header = message.first_chunk::<8>()?;
    if let Some(asks) = query(header[0]) {
        let id = u16::from_be_bytes([header[4], header[5]]);
        return Some(if asks { Upper::Query { id } } else { Upper::Answer { id } });
    }
    let is_error = matches!(header[0], 3 | 4 | 5 | 11 | 12);
    let quoted = if is_error { quoted(&message[8..], at + 8) } else { None };
    Some(quoted.map_or(Upper::Alone, Upper::Error))
}

/// The packet that an error quotes at `at`. Errors about errors are about nothing that is translated.
fn quoted(ip: &[u8], at: usize) -> Option<Quoted> {
    let header = ip.first_chunk::<20>()?;
    let behind = usize::from(header[0] & 15) * 4;
    if header[0] >> 4 != 4 || behind < 20 || u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0 {
        return None;
    }
    let (rest, protocol) = (ip.get(behind..)?, header[9]);
    let ports = match protocol {
        ICMP => {
            let id = u16_at(rest, 4)?;
            if query(*rest.first()?)? { [id, 0] } else { [0, id] }
        }
        _ if Protocol(protocol).has_ports() => [u16_at(rest, 0)?, u16_at(rest, 2)?],
        _ => [0; 2],
    };
    Some(Quoted {
        source: u32_at(header, 12)?,
        destination: u32_at(header, 16)?,
        protocol,
        ports,
        at: [at, at + behind].map(|at| at as At),
    })
}

/// A side of a packet: where its address is in the header of IP, and its port in that of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Source,
    Destination,
}

/// What has changed, in the arithmetic of checksums (RFC 1624): to be subtracted from a checksum.
#[derive(Clone, Copy, Default)]
struct Change(u16);

impl Change {
    #[inline(always)]
    fn note(&mut self, old: u16, new: u16) {
        self.0 = checksum::add(self.0, checksum::add(!old, new));
    }

    /// Adjusts the checksum at `at`, if it is there; returns what it was and is.
    #[inline(always)]
    fn adjust(self, bytes: &mut [u8], at: usize) -> Option<(u16, u16)> {
        let old = u16_at(bytes, at)?;
        let new = !checksum::add(!old, self.0);
        bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
        Some((old, new))
    }
}

/// Writes a word; the change is noted in each of the accounts.
#[inline(always)]
fn put16(bytes: &mut [u8], at: usize, value: u16, changes: &mut [&mut Change]) {
    if let Some(old) = u16_at(bytes, at) {
        bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
        changes.iter_mut().for_each(|change| change.note(old, value));
    }
}

/// Where the checksum of a transport header stands, and whether it covers the addresses.
#[inline(always)]
fn checksum_of(protocol: u8) -> Option<(usize, bool)> {
    match protocol {
        TCP => Some((16, true)),
        // UDP-Lite and DCCP have theirs where UDP has it.
        UDP | UDP_LITE | 33 => Some((6, true)),
        ICMP => Some((2, false)),
        _ => None,
    }
}

/// Where a port stands in a transport header, if the protocol has one that changes.
#[inline(always)]
fn port_of(protocol: u8, end: End) -> Option<usize> {
    match protocol {
        TCP | UDP => Some(if end == End::Source { 0 } else { 2 }),
        ICMP => Some(4),
        _ => None,
    }
}

/// Changes the address of a side in the headers at `at`, and its port, if there is one to write; returns how sums over all of them change.
#[inline(always)]
fn rewrite_at(
    ip: &mut [u8],
    at: [usize; 2],
    protocol: u8,
    end: End,
    address: u32,
    port: Option<u16>,
) -> Change {
    let place = at[0] + if end == End::Source { 12 } else { 16 };
    let (mut header, mut transport, mut all) = (Change::default(), Change::default(), Change::default());
    let [high, low] = [(address >> 16) as u16, address as u16];
    let sum = checksum_of(protocol);
    let covers = sum.is_some_and(|(_, covers)| covers);
    let mut unused = Change::default();
    let of_transport = if covers { &mut transport } else { &mut unused };
    put16(ip, place, high, &mut [&mut header, of_transport, &mut all]);
    put16(ip, place + 2, low, &mut [&mut header, of_transport, &mut all]);
    if let Some((old, new)) = header.adjust(ip, at[0] + 10) {
        all.note(old, new);
    }
    if let Some((place, port)) = port_of(protocol, end).zip(port) {
        put16(ip, at[1] + place, port, &mut [&mut transport, &mut all]);
    }
    let Some((place, _)) = sum else { return all };
    let place = at[1] + place;
    let is_none = protocol == UDP && u16_at(ip, place) == Some(0);
    if !is_none && let Some((old, mut new)) = transport.adjust(ip, place) {
        // In UDP a checksum of zero says that there is none (RFC 768), and UDP-Lite has none of zero (RFC 3828).
        if matches!(protocol, UDP | UDP_LITE) && new == 0 {
            new = 0xffff;
            ip[place..place + 2].copy_from_slice(&new.to_be_bytes());
        }
        all.note(old, new);
    }
    all
}

/// Changes address and port of a side of a packet. The port of an ICMP query is its identifier.
#[inline]
pub(crate) fn rewrite(ip: &mut [u8], view: &View, end: End, address: u32, port: u16) {
    rewrite_at(ip, [0, usize::from(view.at)], view.protocol, end, address, Some(port));
}

/// Changes the address of a side, and no port.
pub(crate) fn rewrite_address(ip: &mut [u8], view: &View, end: End, address: u32) {
    rewrite_at(ip, [0, usize::from(view.at)], view.protocol, end, address, None);
}

/// Changes address and port of a side of the packet that an ICMP error quotes, and the error's checksum with it.
pub(crate) fn rewrite_quoted(
    ip: &mut [u8],
    view: &View,
    quoted: &Quoted,
    end: End,
    address: u32,
    port: Option<u16>,
) {
    let change = rewrite_at(ip, quoted.at.map(usize::from), quoted.protocol, end, address, port);
    change.adjust(ip, usize::from(view.at) + 2);
}
