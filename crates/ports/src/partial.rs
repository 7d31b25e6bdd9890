// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completes checksums that a sender left to hardware that is not there, in frames that bear no mark of it.
//!
//! On virtual interfaces (veth, tap, virtio) the sender's kernel leaves the transport checksum unfinished: its field holds the sum of
//! the pseudo-header alone, not complemented. Packet sockets say so ([`offload`](crate::offload)); XDP frames and raw sockets do not.
//! But the field itself says it: a finished checksum equals the pseudo-header's sum for one packet in 65,536, and such a packet
//! recomputes to itself. So completing is right wherever the field looks unfinished.
//!
//! Found are TCP and UDP (the pseudo-header's sum), GRE with a checksum (0) and SCTP (0 in place of the CRC). They may lie over IPv4, over IPv6 with
//! extension headers, behind VLAN tags and MPLS labels, and inside IP-in-IP, GRE, VXLAN and Geneve. A kernel that encapsulates leaves the innermost
//! checksum unfinished, and the outer ones already count with its completion.
//!
//! Fragments are left alone: the kernel completes a packet before it cuts it.

use wire::{checksum, crc32c};

/// VLAN tags, labels, extension headers or tunnels, one after the other at most.
const NESTED: usize = 8;

/// UDP ports of tunnels: VXLAN (IANA's and Linux' default), Geneve.
const VXLAN: [u16; 2] = [4789, 8472];
const GENEVE: u16 = 6081;

/// What a frame begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// An Ethernet header.
    Ethernet,
    /// An IP header.
    Ip,
}

/// Completes the checksum of a frame if it is unfinished; returns whether it was.
#[inline]
pub fn complete(frame: &mut [u8], front: Front) -> bool {
    match look(frame, front) {
        Some(missing) => {
            missing.complete(frame);
            true
        }
        None => false,
    }
}

#[inline]
fn look(frame: &[u8], front: Front) -> Option<Missing> {
    match front {
        Front::Ethernet => ethernet(frame, 0, NESTED),
        Front::Ip => ip(frame, 0, NESTED),
    }
}

/// An unfinished checksum: where its field is, and which bytes it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Missing {
    start: usize,
    end: usize,
    field: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Internet,
    /// Zero means "none", so all ones stand for it (RFC 768).
    Udp,
    Crc,
}

impl Missing {
    #[cold]
    fn complete(self, frame: &mut [u8]) {
        let Missing { start, end, field, kind } = self;
        if kind == Kind::Crc {
            let crc = crc32c::of(&frame[start..end]);
            frame[field..field + 4].copy_from_slice(&crc.to_le_bytes());
            return;
        }
        let sum = checksum::internet(&frame[start..end]);
        let sum = if kind == Kind::Udp { checksum::never_zero(sum) } else { sum };
        frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

#[inline]
fn bytes<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    frame.get(at..)?.first_chunk().copied()
}

#[inline]
fn half(frame: &[u8], at: usize) -> Option<u16> {
    bytes(frame, at).map(u16::from_be_bytes)
}

#[inline]
fn ethernet(frame: &[u8], at: usize, nested: usize) -> Option<Missing> {
    match half(frame, at + 12)? {
        0x0800 => v4(frame, at + 14, nested),
        kind => behind_type(frame, kind, at + 14, nested),
    }
}

/// What follows an EtherType.
fn behind_type(frame: &[u8], kind: u16, at: usize, nested: usize) -> Option<Missing> {
    let nested = nested.checked_sub(1)?;
    match kind {
        0x0800 => v4(frame, at, nested),
        0x86dd => v6(frame, at, nested),
        0x8100 | 0x88a8 | 0x9100 => behind_type(frame, half(frame, at + 2)?, at + 4, nested),
        // A label; the last one says so, and the packet's own version says what it is.
        0x8847 | 0x8848 if frame.get(at + 2)? & 1 == 1 => ip(frame, at + 4, nested),
        0x8847 | 0x8848 => behind_type(frame, kind, at + 4, nested),
        0x6558 => ethernet(frame, at, nested),
        _ => None,
    }
}

#[inline]
fn ip(frame: &[u8], at: usize, nested: usize) -> Option<Missing> {
    match frame.get(at)? >> 4 {
        4 => v4(frame, at, nested),
        6 => v6(frame, at, nested),
        _ => None,
    }
}

/// A segment: where it lies, and the folded sum of the addresses in its pseudo-header.
#[derive(Clone, Copy)]
struct Segment {
    start: usize,
    end: usize,
    addresses: u16,
}

#[inline]
fn v4(frame: &[u8], at: usize, nested: usize) -> Option<Missing> {
    let header: [u8; 20] = bytes(frame, at)?;
    let len = usize::from(header[0] & 15) * 4;
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
    let (start, end) = (at + len, at + usize::from(u16::from_be_bytes([header[2], header[3]])));
    if header[0] >> 4 != 4 || len < 20 || fragment != 0 || end > frame.len() || start > end {
        return None;
    }
    let addresses = checksum::sum_array::<8>(header[12..].first_chunk()?);
    segment(frame, header[9], Segment { start, end, addresses }, nested)
}

fn v6(frame: &[u8], at: usize, nested: usize) -> Option<Missing> {
    let header: [u8; 40] = bytes(frame, at)?;
    let end = at + 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[0] >> 4 != 6 || end > frame.len() {
        return None;
    }
    let source = checksum::sum_array::<16>(header[8..].first_chunk()?);
    let mut destination = checksum::sum_array::<16>(header[24..].first_chunk()?);
    let (mut next, mut start) = (header[6], at + 40);
    for _ in 0..=NESTED {
        let extension: [u8; 8] = match next {
            // Hop-by-hop, routing, fragment, authentication, destination options.
            0 | 43 | 44 | 51 | 60 => bytes(frame, start)?,
            _ => {
                let addresses = checksum::add(source, destination);
                return segment(frame, next, Segment { start, end, addresses }, nested);
            }
        };
        let len = match next {
            44 if u16::from_be_bytes([extension[2], extension[3]]) & 0xfff9 == 0 => 8,
            44 => return None,
            51 => usize::from(extension[1]) * 4 + 8,
            _ => usize::from(extension[1]) * 8 + 8,
        };
        if next == 43 && extension[3] > 0 {
            // The pseudo-header has the last destination (RFC 8200 section 8.1).
            let last = last_destination(&extension, len)?;
            destination = checksum::sum_array(&bytes::<16>(frame, start + last)?);
        }
        next = extension[0];
        start += len;
        if start > end {
            return None;
        }
    }
    None
}

/// Where the last destination stands in a routing header that is not done with.
fn last_destination(header: &[u8; 8], len: usize) -> Option<usize> {
    match header[2] {
        // Source route, of which the last address counts; home address; segment routing, in reverse order (RFC 8754).
        0 => len.checked_sub(16).filter(|at| *at >= 8),
        2 | 4 => Some(8),
        _ => None,
    }
}

#[inline]
fn segment(frame: &[u8], protocol: u8, segment: Segment, nested: usize) -> Option<Missing> {
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    let Segment { start, end, addresses } = segment;
    let (at, kind) = match protocol {
        TCP => (16, Kind::Internet),
        UDP => (6, Kind::Udp),
        _ => return other(frame, protocol, start, end, nested),
    };
    let field = start + at;
    if field + 2 > end {
        return None;
    }
    let held = half(frame, field)?;
    let pseudo = checksum::add(checksum::add(addresses, u16::from(protocol)), (end - start) as u16);
    if held == pseudo && held != 0 {
        return Some(Missing { start, end, field, kind });
    }
    if protocol == UDP { tunnel(frame, start, end, nested) } else { None }
}

/// What a UDP tunnel carries, going by its port.
#[inline]
fn tunnel(frame: &[u8], start: usize, end: usize, nested: usize) -> Option<Missing> {
    let port = half(frame, start + 2)?;
    if port != GENEVE && !VXLAN.contains(&port) {
        return None;
    }
    inside_tunnel(&frame[..end], port, start + 8, nested)
}

#[cold]
fn inside_tunnel(frame: &[u8], port: u16, at: usize, nested: usize) -> Option<Missing> {
    let nested = nested.checked_sub(1)?;
    if port == GENEVE {
        let options = usize::from(frame.get(at)? & 0x3f) * 4;
        return behind_type(frame, half(frame, at + 2)?, at + 8 + options, nested);
    }
    ethernet(frame, at + 8, nested)
}

/// Protocols other than TCP and UDP.
fn other(frame: &[u8], protocol: u8, start: usize, end: usize, nested: usize) -> Option<Missing> {
    let nested = nested.checked_sub(1)?;
    let packet = &frame[..end];
    match protocol {
        4 => v4(packet, start, nested),
        41 => v6(packet, start, nested),
        47 => gre(packet, start, end, nested),
        132 if bytes::<4>(packet, start + 8)? == [0; 4] => {
            Some(Missing { start, end, field: start + 8, kind: Kind::Crc })
        }
        137 => behind_type(packet, 0x8847, start, nested),
        _ => None,
    }
}

fn gre(packet: &[u8], start: usize, end: usize, nested: usize) -> Option<Missing> {
    let [flags, version, kind @ ..] = bytes::<4>(packet, start)?;
    if version & 7 != 0 {
        return None;
    }
    let (checksum, key, sequence) = (flags & 0x80 != 0, flags & 0x20 != 0, flags & 0x10 != 0);
    if checksum && half(packet, start + 4)? == 0 {
        return Some(Missing { start, end, field: start + 4, kind: Kind::Internet });
    }
    let len = 4 + [checksum, key, sequence].into_iter().filter(|has| *has).count() * 4;
    behind_type(packet, u16::from_be_bytes(kind), start + len, nested)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use wire::Protocol;

    const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const TARGET: Ipv4Addr = Ipv4Addr::new(10, 9, 8, 7);

    fn segment_of(protocol: Protocol, payload: usize) -> Vec<u8> {
        let mut bytes = match protocol {
            Protocol::UDP => [0x12, 0x34, 0, 80, 0, 0, 0, 0].to_vec(),
            _ => [0x12, 0x34, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8, 0x50, 0x10, 4, 0, 0, 0, 0, 0].to_vec(),
        };
        bytes.extend((0..payload).map(|i| (i * 7 + 1) as u8));
        if protocol == Protocol::UDP {
            let len = bytes.len() as u16;
            bytes[4..6].copy_from_slice(&len.to_be_bytes());
        }
        bytes
    }

    fn field_of(protocol: Protocol) -> usize {
        if protocol == Protocol::UDP { 6 } else { 16 }
    }

    fn put(bytes: &mut [u8], at: usize, value: u16) {
        bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    /// The packet finished, and as its sender leaves it.
    fn packet4(protocol: Protocol, payload: usize, options: usize) -> [Vec<u8>; 2] {
        let mut segment = segment_of(protocol, payload);
        let len = segment.len() as u16;
        let sum = checksum::transport_v4(SOURCE, TARGET, protocol, &segment);
        let pseudo = checksum::pseudo_v4(SOURCE, TARGET, protocol, len);
        let header = 20 + options;
        let mut ip = vec![0x40 | (header / 4) as u8, 0, 0, 0, 0, 1, 0x40, 0, 64, protocol.0, 0, 0];
        ip.extend(SOURCE.octets());
        ip.extend(TARGET.octets());
        ip.resize(header, 1);
        put(&mut ip, 2, header as u16 + len);
        [checksum::never_zero(sum), pseudo].map(|value| {
            put(&mut segment, field_of(protocol), value);
            [&ip[..], &segment].concat()
        })
    }

    /// The same over IPv6, behind these extension headers, of which each names the next itself; `target` is what the checksum covers.
    fn packet6(
        protocol: Protocol,
        payload: usize,
        first: u8,
        extensions: &[u8],
        target: Ipv6Addr,
    ) -> [Vec<u8>; 2] {
        let (source, shown) =
            (Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2));
        let mut segment = segment_of(protocol, payload);
        let len = segment.len();
        let sum = checksum::transport_v6(source, target, protocol, &segment);
        let pseudo = checksum::pseudo_v6(source, target, protocol, len as u32);
        let mut ip = vec![0x60, 0, 0, 0, 0, 0, first, 64];
        put(&mut ip, 4, (len + extensions.len()) as u16);
        ip.extend(source.octets());
        ip.extend(shown.octets());
        ip.extend(extensions);
        [checksum::never_zero(sum), pseudo].map(|value| {
            put(&mut segment, field_of(protocol), value);
            [&ip[..], &segment].concat()
        })
    }

    fn framed(kind: u16, packet: &[u8]) -> Vec<u8> {
        [&[2; 12][..], &kind.to_be_bytes(), packet].concat()
    }

    /// Both go through; the finished one stays as it is. Padding behind the packet counts for nothing.
    fn check(front: Front, [finished, left]: [Vec<u8>; 2]) {
        for pad in [0, 6] {
            let padded = |packet: &[u8]| [packet, &vec![0xaa; pad]].concat();
            let mut packet = padded(&finished);
            assert!(!complete(&mut packet, front));
            assert_eq!(packet, padded(&finished));
            let mut packet = padded(&left);
            assert!(complete(&mut packet, front), "{left:02x?}");
            assert_eq!(packet, padded(&finished));
            assert!(!complete(&mut packet, front));
        }
    }

    const BOTH: [Protocol; 2] = [Protocol::TCP, Protocol::UDP];
    const TARGET6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

    #[test]
    fn unfinished_segments_are_finished() {
        for protocol in BOTH {
            for payload in [0, 1, 2, 3, 100, 1401] {
                for options in [0, 4, 40] {
                    check(Front::Ip, packet4(protocol, payload, options));
                }
                check(Front::Ethernet, packet4(protocol, payload, 0).map(|p| framed(0x0800, &p)));
                let plain = packet6(protocol, payload, protocol.0, &[], TARGET6);
                check(Front::Ethernet, plain.clone().map(|p| framed(0x86dd, &p)));
                check(Front::Ip, plain);
            }
        }
    }

    #[test]
    fn extension_headers_are_passed() {
        let last = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 99);
        for protocol in BOTH {
            let options = [60, 0, 1, 4, 0, 0, 0, 0, protocol.0, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            check(Front::Ip, packet6(protocol, 33, 0, &options, TARGET6));
            let whole = [protocol.0, 0, 0, 0, 0, 0, 0, 7];
            check(Front::Ip, packet6(protocol, 33, 44, &whole, TARGET6));
            let authenticated = [&[protocol.0, 4, 0, 0][..], &[9; 20]].concat();
            check(Front::Ip, packet6(protocol, 33, 51, &authenticated, TARGET6));
            for kind in [0, 2, 4] {
                let route = [&[protocol.0, 2, kind, 1, 0, 0, 0, 0][..], &last.octets()].concat();
                check(Front::Ip, packet6(protocol, 33, 43, &route, last));
                let done = [&[protocol.0, 2, kind, 0, 0, 0, 0, 0][..], &last.octets()].concat();
                check(Front::Ip, packet6(protocol, 33, 43, &done, TARGET6));
            }
        }
    }

    #[test]
    fn tags_labels_and_tunnels_are_passed() {
        let inner = packet4(Protocol::TCP, 50, 0);
        let tagged = |p: &[u8]| [&[0, 100, 0x81, 0, 0, 11, 8, 0][..], p].concat();
        check(Front::Ethernet, inner.clone().map(|p| framed(0x88a8, &tagged(&p))));
        let labelled = |p: &[u8]| [&[0, 1, 0, 64, 0, 2, 1, 64][..], p].concat();
        check(Front::Ethernet, inner.clone().map(|p| framed(0x8847, &labelled(&p))));
        let over = |protocol: u8, header: &[u8], p: &[u8]| {
            let mut ip = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, protocol, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
            put(&mut ip, 2, (20 + header.len() + p.len()) as u16);
            [&ip[..], header, p].concat()
        };
        check(Front::Ip, inner.clone().map(|p| over(4, &[], &p)));
        check(Front::Ip, packet6(Protocol::UDP, 9, 17, &[], TARGET6).map(|p| over(41, &[], &p)));
        check(Front::Ip, inner.clone().map(|p| over(47, &[0x20, 0, 8, 0, 1, 2, 3, 4], &p)));
        let datagram = |port: u16, header: &[u8], p: &[u8]| {
            let mut udp = vec![0x12, 0x34, 0, 0, 0, 0, 0, 0];
            put(&mut udp, 2, port);
            put(&mut udp, 4, (8 + header.len() + p.len()) as u16);
            over(17, &[&udp[..], header].concat(), p)
        };
        check(
            Front::Ip,
            inner.clone().map(|p| datagram(4789, &[8, 0, 0, 0, 0, 0, 5, 0], &framed(0x0800, &p))),
        );
        let geneve = [1, 0, 0x65, 0x58, 0, 0, 5, 0, 1, 2, 3, 0];
        check(Front::Ip, inner.map(|p| datagram(6081, &geneve, &framed(0x0800, &p))));
    }

    #[test]
    fn other_checksums_left_at_zero() {
        let over = |protocol: u8, p: &[u8]| {
            let mut ip = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, protocol, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
            put(&mut ip, 2, (20 + p.len()) as u16);
            [&ip[..], p].concat()
        };
        // scapy: SCTP(sport=1, dport=2, tag=3)/SCTPChunkCookieAck().
        let sctp = [0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 11, 0, 0, 4];
        let mut packet = over(132, &sctp);
        assert!(complete(&mut packet, Front::Ip));
        assert_eq!(packet[20..], [0, 1, 0, 2, 0, 0, 0, 3, 0xc8, 0x66, 0x09, 0x0e, 11, 0, 0, 4]);
        let gre = [0x80, 0, 0x88, 0xb5, 0, 0, 0, 0, 1, 2, 3];
        let mut packet = over(47, &gre);
        assert!(complete(&mut packet, Front::Ip));
        assert_eq!(checksum::sum(&packet[20..]), 0xffff);
    }

    #[test]
    fn what_is_no_segment_is_left_alone() {
        let [_, left] = packet4(Protocol::UDP, 30, 0);
        let mut fragment = left.clone();
        fragment[6] = 0x20;
        assert!(!complete(&mut fragment.clone(), Front::Ip));
        fragment[6..8].copy_from_slice(&[0, 9]);
        assert!(!complete(&mut fragment.clone(), Front::Ip));
        let mut without = left.clone();
        put(&mut without, 26, 0);
        assert!(!complete(&mut without, Front::Ip), "a datagram without a checksum");
        let [_, left6] = packet6(Protocol::TCP, 30, 44, &[6, 0, 0, 1, 0, 0, 0, 7], TARGET6);
        assert!(!complete(&mut left6.clone(), Front::Ip));
        for cut in 0..left.len() {
            let mut short = left[..cut].to_vec();
            assert!(!complete(&mut short, Front::Ip));
            assert!(!complete(&mut framed(0x0800, &left[..cut]), Front::Ethernet));
        }
        // Endless nesting ends.
        assert!(!complete(&mut framed(0x8100, &[0x81, 0, 0x81, 0].repeat(400)), Front::Ethernet));
        assert!(!complete(&mut framed(0x8847, &[0; 1400]), Front::Ethernet));
    }
}
