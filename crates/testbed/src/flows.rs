// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP packets of many flows, IPv4 or IPv6, as plain bytes: what hosts would send, with no part of the router in their making
//! but the checksum.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;

const UDP: u8 = 17;
/// Next header of a fragment (RFC 8200, 4.5).
const FRAGMENT6: u8 = 44;
const HOPS: u8 = 64;

/// A UDP flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow {
    /// Source.
    pub from: IpAddr,
    /// Destination, of the same family.
    pub to: IpAddr,
    /// Source port.
    pub from_port: u16,
    /// Destination port.
    pub to_port: u16,
}

/// A piece of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Which datagram of its source.
    pub identification: u32,
    /// Where it lies in the datagram, in bytes, a multiple of eight.
    pub offset: u16,
    /// Whether others follow.
    pub more: bool,
}

impl Flow {
    /// A frame of this flow for the station `ether`, with `payload`.
    pub fn frame(&self, ether: [u8; 6], payload: &[u8]) -> Vec<u8> {
        self.packed(ether, &self.datagram(payload), None)
    }

    /// A frame with a piece of the UDP datagram of `payload`: at most `length` bytes from the piece's offset.
    pub fn piece(&self, ether: [u8; 6], payload: &[u8], length: usize, piece: Piece) -> Vec<u8> {
        let whole = self.datagram(payload);
        let from = usize::from(piece.offset).min(whole.len());
        let part = &whole[from..whole.len().min(from + length)];
        self.packed(ether, part, Some(piece))
    }

    fn datagram(&self, payload: &[u8]) -> Vec<u8> {
        let length = (8 + payload.len()) as u16;
        let mut udp = [self.from_port, self.to_port, length, 0].map(u16::to_be_bytes).concat();
        udp.extend(payload);
        let sum = wire::checksum::internet(&[self.pseudo_header(length), udp.clone()].concat());
        // Zero would mean that there is no checksum (RFC 768).
        udp[6..8].copy_from_slice(&if sum == 0 { [0xff; 2] } else { sum.to_be_bytes() });
        udp
    }

    /// What the checksum covers in addition to the datagram (RFC 768; RFC 8200, 8.1).
    fn pseudo_header(&self, length: u16) -> Vec<u8> {
        let mut header = Vec::new();
        match (self.from, self.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => header.extend([from.octets(), to.octets()].concat()),
            (IpAddr::V6(from), IpAddr::V6(to)) => header.extend([from.octets(), to.octets()].concat()),
            _ => panic!("{self:?} has two families"),
        }
        header.extend([0, UDP]);
        header.extend(length.to_be_bytes());
        header
    }

    fn packed(&self, ether: [u8; 6], data: &[u8], piece: Option<Piece>) -> Vec<u8> {
        match (self.from, self.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => packed4(from, to, ether, data, piece),
            (IpAddr::V6(from), IpAddr::V6(to)) => packed6(from, to, ether, data, piece),
            _ => panic!("{self:?} has two families"),
        }
    }

    /// The flow that a whole UDP packet in an Ethernet frame belongs to.
    pub fn of(frame: &[u8]) -> Option<Flow> {
        let (ethertype, ip) = (frame.get(12..14)?, frame.get(ETHERNET..)?);
        let (from, to, data): (IpAddr, IpAddr, _) = match ethertype {
            [0x08, 0x00] if ip.len() >= 28 && ip[9] == UDP => {
                let at = |i: usize| -> [u8; 4] { ip[i..i + 4].try_into().expect("four bytes") };
                (at(12).into(), at(16).into(), &ip[usize::from(ip[0] & 15) * 4..])
            }
            [0x86, 0xdd] if ip.len() >= 48 && ip[6] == UDP => {
                let at = |i: usize| -> [u8; 16] { ip[i..i + 16].try_into().expect("16 bytes") };
                (at(8).into(), at(24).into(), &ip[40..])
            }
            _ => return None,
        };
        let port = |i: usize| Some(u16::from_be_bytes(data.get(i..i + 2)?.try_into().ok()?));
        Some(Flow { from, to, from_port: port(0)?, to_port: port(2)? })
    }
}

fn ethernet(to: [u8; 6], ethertype: u16) -> Vec<u8> {
    let mut frame = to.to_vec();
    frame.extend([2, 0, 0, 9, 9, 9]);
    frame.extend(ethertype.to_be_bytes());
    frame
}

fn packed4(from: Ipv4Addr, to: Ipv4Addr, ether: [u8; 6], data: &[u8], piece: Option<Piece>) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend(((20 + data.len()) as u16).to_be_bytes());
    let (identification, fragment) = piece
        .map_or((0, 0x4000), |p| (p.identification as u16, (p.offset / 8) | if p.more { 0x2000 } else { 0 }));
    header.extend(identification.to_be_bytes());
    header.extend(fragment.to_be_bytes());
    header.extend([HOPS, UDP, 0, 0]);
    header.extend([from.octets(), to.octets()].concat());
    let sum = wire::checksum::internet(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [ethernet(ether, 0x0800), header, data.to_vec()].concat()
}

fn packed6(from: Ipv6Addr, to: Ipv6Addr, ether: [u8; 6], data: &[u8], piece: Option<Piece>) -> Vec<u8> {
    let extension = piece.map_or(Vec::new(), |p| {
        let mut header = vec![UDP, 0];
        header.extend((p.offset | u16::from(p.more)).to_be_bytes());
        header.extend(p.identification.to_be_bytes());
        header
    });
    let mut header = vec![0x60, 0, 0, 0];
    header.extend(((extension.len() + data.len()) as u16).to_be_bytes());
    header.extend([if piece.is_some() { FRAGMENT6 } else { UDP }, HOPS]);
    header.extend([from.octets(), to.octets()].concat());
    [ethernet(ether, 0x86dd), header, extension, data.to_vec()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_say_their_flow_and_sum_to_nothing() {
        for [from, to] in [["10.0.0.1", "10.9.8.7"], ["2001:db8::1", "2001:db8:9::7"]] {
            let flow = Flow {
                from: from.parse().unwrap(),
                to: to.parse().unwrap(),
                from_port: 1025,
                to_port: 65535,
            };
            let frame = flow.frame([2; 6], b"hello");
            assert_eq!(Flow::of(&frame), Some(flow));
            assert_eq!(Flow::of(&frame[..40]), None);
            let udp = &frame[frame.len() - 13..];
            let covered = [flow.pseudo_header(13), udp.to_vec()].concat();
            assert_eq!(wire::checksum::internet(&covered), 0);
            // Two pieces hold the whole.
            let cut =
                |offset, more| flow.piece([2; 6], b"hello", 8, Piece { identification: 7, offset, more });
            let (first, last) = (cut(0, true), cut(8, false));
            assert_eq!([&first[first.len() - 8..], &last[last.len() - 5..]].concat(), udp);
        }
    }
}
