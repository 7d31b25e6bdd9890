// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a packet of IPv4 says to a translator, and how its addresses and ports are changed.

use wire::Protocol;
use wire::rewrite::{Change, Headers, icmp_query, u16_at, u32_at};

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

pub(crate) use wire::rewrite::End;

/// Flags of TCP.
pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

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
    if let Some(asks) = icmp_query(Protocol::ICMP, header[0]) {
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
            if icmp_query(Protocol::ICMP, *rest.first()?)? { [id, 0] } else { [0, id] }
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

/// Where a port stands in a transport header, if the protocol has one that changes.
#[inline(always)]
fn port_of(protocol: u8, end: End) -> Option<usize> {
    match protocol {
        TCP | UDP => Some(if end == End::Source { 0 } else { 2 }),
        ICMP => Some(4),
        _ => None,
    }
}

/// Changes the address of a side in the headers at `at`, and its port, if there is one to write; returns how a sum over all of them changes.
#[inline(always)]
fn rewrite_at(ip: &mut [u8], at: [At; 2], protocol: u8, end: End, address: u32, port: Option<u16>) -> Change {
    let [header, transport] = at.map(usize::from);
    let headers = Headers { ip: header, transport, protocol: Protocol(protocol) };
    headers.rewrite4(ip, end, address, port_of(protocol, end).zip(port))
}

/// Changes address and port of a side of a packet. The port of an ICMP query is its identifier.
#[inline]
pub(crate) fn rewrite(ip: &mut [u8], view: &View, end: End, address: u32, port: u16) {
    rewrite_at(ip, [0, view.at], view.protocol, end, address, Some(port));
}

/// Changes the address of a side, and no port.
pub(crate) fn rewrite_address(ip: &mut [u8], view: &View, end: End, address: u32) {
    rewrite_at(ip, [0, view.at], view.protocol, end, address, None);
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
    let change = rewrite_at(ip, quoted.at, quoted.protocol, end, address, port);
    change.adjust(ip, usize::from(view.at) + 2, false);
}
