// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a packet says to a load balancer, and how its addresses and ports are changed.
//!
//! Addresses are 128 bits, those of IPv4 mapped (RFC 4291, 2.5.5.2).

use std::net::{IpAddr, Ipv6Addr};

use wire::rewrite::{Change, Headers, icmp_query, u16_at, u32_at};
use wire::{Protocol, ipv6};

use crate::policy::{ICMP, ICMP6, TCP, UDP};

pub(crate) use wire::rewrite::End;

/// Flags of TCP.
pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const PSH: u8 = 8;
pub(crate) const ACK: u8 = 16;

/// Why a packet cannot be balanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// Its headers are cut off or wrong.
    Malformed,
    /// It is a fragment and not the first: it has no ports.
    Fragment,
}

/// An address as 128 bits.
#[inline]
pub(crate) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => mapped(address.into()),
        IpAddr::V6(address) => address.into(),
    }
}

#[inline(always)]
fn mapped(address: u32) -> u128 {
    0xffff << 32 | u128::from(address)
}

/// The address of 128 bits.
pub(crate) fn address(number: u128) -> IpAddr {
    Ipv6Addr::from(number).to_canonical()
}

/// Where a header of IP and what follows it stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    ip: u16,
    transport: u16,
    is_six: bool,
    protocol: u8,
}

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
    /// A message of ICMP that is for this router or its neighbours.
    Alone,
}

/// The packet that an ICMP error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quoted {
    pub(crate) source: u128,
    pub(crate) destination: u128,
    pub(crate) ports: [u16; 2],
    spot: Spot,
}

impl Quoted {
    pub(crate) fn protocol(&self) -> u8 {
        self.spot.protocol
    }
}

/// A packet, as a load balancer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) source: u128,
    pub(crate) destination: u128,
    pub(crate) upper: Upper,
    pub(crate) length: u32,
    spot: Spot,
}

/// Source and destination of a packet, if it is that long.
#[inline(always)]
pub(crate) fn addresses(ip: &[u8]) -> Option<[u128; 2]> {
    match ip.first()? >> 4 {
        4 => Some([mapped(u32_at(ip, 12)?), mapped(u32_at(ip, 16)?)]),
        6 => {
            let both = ip.get(8..40)?;
            let both = [0, 16].map(|at| u128::from_be_bytes(*both[at..].first_chunk().expect("32 bytes")));
            // Nobody sends from or to mapped addresses: they would pass for those of IPv4.
            both.iter().all(|address| address >> 32 != 0xffff).then_some(both)
        }
        _ => None,
    }
}

/// Whether a packet has the protocol of ICMP in its first header.
#[inline]
pub(crate) fn is_icmp(ip: &[u8]) -> bool {
    match ip.first().map(|first| first >> 4) {
        Some(4) => ip.get(9) == Some(&ICMP),
        Some(6) => ip.get(6) == Some(&ICMP6),
        _ => false,
    }
}

/// The layers of a packet: where they stand, how long the packet is, and whether it is a later fragment.
struct Layers<'a> {
    addresses: [u128; 2],
    spot: Spot,
    rest: &'a [u8],
    length: u32,
    is_later: bool,
}

#[inline]
fn layers(bytes: &[u8], at: usize, is_quoted: bool) -> Option<Layers<'_>> {
    let ip = bytes.get(at..)?;
    let addresses = addresses(ip)?;
    let (header, length, protocol, is_later) = match ip.first()? >> 4 {
        4 => {
            let fixed = ip.first_chunk::<20>()?;
            let header = usize::from(fixed[0] & 15) * 4;
            let length = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
            let offset = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff;
            (header, length, fixed[9], offset != 0)
        }
        _ => {
            let length = 40 + usize::from(u16_at(ip, 4)?);
            let payload = ip.get(40..length.min(ip.len()))?;
            let upper = ipv6::upper_layer(Protocol(ip[6]), payload).ok()?;
            let is_later = upper.fragment.is_some_and(|fragment| fragment.offset != 0);
            (40 + upper.offset, length, upper.protocol.0, is_later)
        }
    };
    if header < 20 || length < header || (length > ip.len() && !is_quoted) {
        return None;
    }
    let rest = ip.get(header..length.min(ip.len()))?;
    let is_six = ip[0] >> 4 == 6;
    let spot = Spot { ip: at as u16, transport: (at + header) as u16, is_six, protocol };
    Some(Layers { addresses, spot, rest, length: length as u32, is_later })
}

impl View {
    /// Looks at a packet.
    ///
    /// # Errors
    /// It cannot be balanced.
    #[inline]
    pub(crate) fn of(ip: &[u8]) -> Result<View, Unseen> {
        let layers = layers(ip, 0, false).ok_or(Unseen::Malformed)?;
        if layers.is_later {
            return Err(Unseen::Fragment);
        }
        let (rest, protocol) = (layers.rest, layers.spot.protocol);
        let both = || u16_at(rest, 0).zip(u16_at(rest, 2)).map(<[u16; 2]>::from);
        let upper = match protocol {
            TCP => Upper::Ports {
                ports: both().ok_or(Unseen::Malformed)?,
                flags: rest.first_chunk::<20>().ok_or(Unseen::Malformed)?[13],
            },
            UDP if rest.len() >= 8 => Upper::Ports { ports: both().ok_or(Unseen::Malformed)?, flags: 0 },
            UDP => return Err(Unseen::Malformed),
            ICMP | ICMP6 => icmp(ip, &layers).ok_or(Unseen::Malformed)?,
            _ if Protocol(protocol).has_ports() => Upper::Kept { ports: both().ok_or(Unseen::Malformed)? },
            _ => Upper::Kept { ports: [0; 2] },
        };
        let [source, destination] = layers.addresses;
        Ok(View { source, destination, upper, length: layers.length, spot: layers.spot })
    }

    /// The protocol.
    #[inline]
    pub(crate) fn protocol(&self) -> u8 {
        self.spot.protocol
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

    /// The flags of TCP.
    #[inline]
    pub(crate) fn flags(&self) -> u8 {
        if let Upper::Ports { flags, .. } = self.upper { flags } else { 0 }
    }

    /// What follows the headers of IP.
    pub(crate) fn transport<'a>(&self, ip: &'a [u8]) -> &'a [u8] {
        let end = (self.length as usize).min(ip.len());
        ip.get(usize::from(self.spot.transport)..end).unwrap_or_default()
    }
}

fn icmp(ip: &[u8], layers: &Layers<'_>) -> Option<Upper> {
    let message = layers.rest.first_chunk::<8>()?;
    let is_six = layers.spot.protocol == ICMP6;
    if let Some(asks) = icmp_query(Protocol(layers.spot.protocol), message[0]) {
        let id = u16::from_be_bytes([message[4], message[5]]);
        return Some(if asks { Upper::Query { id } } else { Upper::Answer { id } });
    }
    let is_error = if is_six { message[0] < 128 } else { matches!(message[0], 3 | 4 | 11 | 12) };
    let end = (layers.length as usize).min(ip.len());
    let quoted = if is_error { quoted(&ip[..end], usize::from(layers.spot.transport) + 8) } else { None };
    Some(quoted.map_or(Upper::Alone, Upper::Error))
}

/// The packet that an error quotes at `at`. Errors about errors are about nothing that is balanced.
fn quoted(bytes: &[u8], at: usize) -> Option<Quoted> {
    let Layers { addresses: [source, destination], spot, rest, is_later, .. } = layers(bytes, at, true)?;
    if is_later {
        return None;
    }
    let ports = match spot.protocol {
        ICMP | ICMP6 => {
            let id = u16_at(rest, 4)?;
            if icmp_query(Protocol(spot.protocol), *rest.first()?)? { [id, 0] } else { [0, id] }
        }
        protocol if Protocol(protocol).has_ports() => [u16_at(rest, 0)?, u16_at(rest, 2)?],
        _ => [0; 2],
    };
    Some(Quoted { source, destination, ports, spot })
}

impl Spot {
    /// Changes the address of a side, and its port, of TCP and UDP, if there is one to write.
    #[inline]
    fn rewrite(self, bytes: &mut [u8], end: End, address: u128, port: Option<u16>) -> Change {
        let protocol = Protocol(self.protocol);
        let headers = Headers { ip: self.ip.into(), transport: self.transport.into(), protocol };
        let has_ports = matches!(self.protocol, TCP | UDP);
        let place = if end == End::Source { 0 } else { 2 };
        let port = port.filter(|_| has_ports).map(|port| (place, port));
        match self.is_six {
            true => headers.rewrite6(bytes, end, address, port),
            false => headers.rewrite4(bytes, end, address as u32, port),
        }
    }
}

/// Changes the address of a side of a packet, and its port, of TCP and UDP.
#[inline]
pub(crate) fn rewrite(ip: &mut [u8], view: &View, end: End, address: u128, port: u16) {
    view.spot.rewrite(ip, end, address, Some(port));
}

/// Changes the address of a side of a packet that carries an ICMP error.
pub(crate) fn rewrite_address(ip: &mut [u8], view: &View, end: End, address: u128) {
    view.spot.rewrite(ip, end, address, None);
}

/// Changes a side of the packet that an ICMP error quotes, and the error's checksum with it.
pub(crate) fn rewrite_quoted(
    ip: &mut [u8],
    view: &View,
    quoted: &Quoted,
    end: End,
    address: u128,
    port: u16,
) {
    let change = quoted.spot.rewrite(ip, end, address, Some(port));
    change.adjust(ip, usize::from(view.spot.transport) + 2, false);
}
