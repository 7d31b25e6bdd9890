// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way out: a packet gets its ESP and outer headers and its trailer, and is then ready to be sealed.
//!
//! ```text
//! tunnel      | outer IP header | UDP | ESP | IV | inner packet, zeros | padding, pad length, next header | ICV |
//! transport   | IP header with what belongs to it | UDP | ESP | IV | payload | padding, pad length, next header | ICV |
//! ```
//!
//! UDP is there for associations that go by UDP.

use std::net::IpAddr;

use packet::Packet;
use wire::{Protocol, checksum, ipv4, ipv6, udp};

use crate::header::{Header, Unfit};
use crate::inbound::KEEP_ALIVE;
use crate::sa::{Mode, Sa};
use crate::suite::{HEADER_LEN, LENT, Part};

/// Where a packet's ESP header begins, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EspAt(pub usize);

/// Bytes of trailer and check value for a payload of so many bytes.
struct Trailer {
    zeros: usize,
    padding: usize,
    len: usize,
}

impl Trailer {
    /// Payloads are padded to `pad_to` bytes with zeros.
    #[inline]
    fn of(sa: &Sa, payload_len: usize, pad_to: usize) -> Trailer {
        let zeros = pad_to.saturating_sub(payload_len);
        let padding = sa.suite.padding(payload_len + zeros);
        Trailer { zeros, padding, len: zeros + padding + 2 + sa.suite.icv_len() }
    }

    /// Writes all but the check value, which takes at least eight bytes (RFC 4303, 2.4: padding counts from 1).
    #[inline]
    fn write(&self, to: &mut [u8], next: Protocol) {
        let (zeros, rest) = to.split_at_mut(self.zeros);
        if !zeros.is_empty() {
            zeros.fill(0);
        }
        // One store for padding of up to six bytes: what is too much lies in the check value, which comes later.
        const COUNT: u64 = u64::from_le_bytes([1, 2, 3, 4, 5, 6, 7, 8]);
        match rest.first_chunk_mut() {
            Some(first) if self.padding <= 6 => {
                let (at, end) = (8 * self.padding, u16::from_le_bytes([self.padding as u8, next.0]));
                let counted = COUNT & ((1 << at) - 1);
                *first = (counted | u64::from(end) << at).to_le_bytes();
            }
            _ => {
                let (padding, rest) = rest.split_at_mut(self.padding);
                padding.iter_mut().zip(1..).for_each(|(byte, count)| *byte = count);
                rest[..2].copy_from_slice(&[self.padding as u8, next.0]);
            }
        }
    }
}

/// The longest packet that has at most `most` bytes when it is protected: the path MTU that a sender should be given. In transport mode,
/// its IP header has `header_len` bytes.
#[inline]
pub fn inner_mtu(sa: &Sa, most: usize, header_len: usize) -> usize {
    let kept = if sa.mode == Mode::Transport { header_len } else { 0 };
    let room = most.saturating_sub(kept + before(sa) + sa.suite.icv_len());
    // Whole blocks, of which the last has pad length and next header. The size of a block is a power of two: no division.
    kept + (room & !(sa.suite.align() - 1)).saturating_sub(2)
}

/// The length to which a tunnel's payloads are padded so that no packet has more than `most` bytes.
#[inline]
fn pad_to(sa: &Sa, most: usize) -> usize {
    match sa.front.pad_to() {
        0 => 0,
        pad_to => pad_to.min(inner_mtu(sa, most, 0)),
    }
}

/// Bytes that are put in front of the payload.
#[inline]
fn before(sa: &Sa) -> usize {
    sa.front.len() + sa.suite.iv_len()
}

/// Puts ESP around a packet that begins with its IP header: headers, padding and room for the check value. Nothing is encrypted yet. Bytes behind the
/// packet's own length, as Ethernet pads short frames, are cut off.
///
/// Link and path take packets of `most` bytes. Padding that hides lengths makes no packet longer, as Linux and libreswan have it.
///
/// # Errors
/// Why it is unfit. The packet's bytes are as they were.
#[inline]
pub fn encapsulate(packet: &mut Packet, sa: &Sa, number: u64, most: usize) -> Result<EspAt, Unfit> {
    if sa.front.ip_len() == 0 {
        return enter_transport(packet, sa, number);
    }
    let inner = Header::read_fixed(packet.data())?;
    let trailer = Trailer::of(sa, inner.packet_len, pad_to(sa, most));
    enter_tunnel(packet, sa, number, &inner, (trailer, inner.as_payload()))
}

/// Makes a dummy packet from `src` to `dst` with `len` zeros, which the receiver drops: it hides how much is sent (RFC 4303, 2.6). It is padded as other packets are. Both
/// addresses are of one family; a tunnel has its own.
///
/// # Errors
/// [`Unfit::NotIp`], [`Unfit::TooLong`] or [`Unfit::NoMemory`].
pub fn dummy(
    sa: &Sa,
    (src, dst): (IpAddr, IpAddr),
    number: u64,
    (len, most): (usize, usize),
) -> Result<(Packet, EspAt), Unfit> {
    if len > DUMMY_MOST {
        return Err(Unfit::TooLong);
    }
    let header_len = if sa.mode == Mode::Transport { ip_len(dst) } else { 0 };
    let mut packet = Packet::alloc(packet::HEADROOM, header_len + len).ok_or(Unfit::NoMemory)?;
    packet.data_mut().fill(0);
    if sa.mode == Mode::Transport {
        write_ip(packet.data_mut(), (src, dst), sa.rules.ttl, (Protocol::IPV6_NO_NEXT, len))?;
        let at = enter_transport(&mut packet, sa, number)?;
        return Ok((packet, at));
    }
    let trailer = Trailer::of(sa, len, pad_to(sa, most));
    let at =
        enter_tunnel(&mut packet, sa, number, &Header::of_dummy(len), (trailer, Protocol::IPV6_NO_NEXT))?;
    Ok((packet, at))
}

/// Makes a keep-alive from `src` to `dst`: a datagram of one byte by the association's UDP ports, so that translators on the way keep their mapping (RFC 3948, 2.3). `None` if the
/// association does not go by UDP.
///
/// # Errors
/// [`Unfit::NotIp`] or [`Unfit::NoMemory`].
pub fn keep_alive(sa: &Sa, (src, dst): (IpAddr, IpAddr)) -> Option<Result<Packet, Unfit>> {
    let ports = sa.udp()?;
    let header_len = ip_len(dst);
    let make = || {
        let mut packet =
            Packet::alloc(packet::HEADROOM, header_len + udp::HEADER_LEN + 1).ok_or(Unfit::NoMemory)?;
        let bytes = packet.data_mut();
        bytes.fill(0);
        write_ip(bytes, (src, dst), sa.rules.ttl, (Protocol::UDP, udp::HEADER_LEN + 1))?;
        let datagram = &mut bytes[header_len..];
        let repr = udp::Repr { src_port: ports.from, dst_port: ports.to, payload_len: 1 };
        repr.emit(datagram).map_err(|_| Unfit::NotIp)?;
        datagram[udp::HEADER_LEN] = KEEP_ALIVE;
        // As that of ESP, the checksum stays zero with IPv4.
        fill_udp_checksum(&mut packet, EspAt(header_len + udp::HEADER_LEN));
        packet.set_network(0, header_len);
        Ok(packet)
    };
    Some(make())
}

/// The longest dummy packet: it fits an IP packet with all headers around it.
const DUMMY_MOST: usize = 65_000;

/// Bytes of the IP header of an address's family.
fn ip_len(address: IpAddr) -> usize {
    if address.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN }
}

/// Writes the header of a packet that the router itself makes, which carries `len` bytes of `next`.
fn write_ip(
    bytes: &mut [u8],
    ends: (IpAddr, IpAddr),
    ttl: u8,
    (next, len): (Protocol, usize),
) -> Result<(), Unfit> {
    let payload_len = len as u16;
    let written = match ends {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            ipv4::Repr { src, dst, protocol: next, payload_len, ttl, tos: 0, id: 0, fragment: ipv4::FLAG_DF }
                .emit(bytes)
                .is_ok()
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let hop_limit = ttl;
            ipv6::Repr { src, dst, next_header: next, payload_len, hop_limit, ..Default::default() }
                .emit(bytes)
                .is_ok()
        }
        _ => false,
    };
    if written { Ok(()) } else { Err(Unfit::NotIp) }
}

/// Puts headers and trailer of a tunnel around a packet whose header says `inner`.
#[inline]
fn enter_tunnel(
    packet: &mut Packet,
    sa: &Sa,
    number: u64,
    inner: &Header,
    (trailer, next): (Trailer, Protocol),
) -> Result<EspAt, Unfit> {
    let bytes = make_room(packet, inner.packet_len, before(sa), trailer.len)?;
    let end = bytes.len();
    trailer.write(&mut bytes[end - trailer.len..], next);
    // Associations between the same gateways begin at different numbers, so fragments of two seldom mix (RFC 6864).
    let id = sa.suite.first_id().wrapping_add(number as u16);
    sa.front.write(bytes, inner, number, id);
    packet.set_network(0, sa.front.ip_len());
    Ok(EspAt(sa.front.len() - HEADER_LEN))
}

/// Puts ESP between the IP header of a packet and its payload.
#[inline(never)]
fn enter_transport(packet: &mut Packet, sa: &Sa, number: u64) -> Result<EspAt, Unfit> {
    let header = Header::read(packet.data())?;
    if header.is_fragment {
        return Err(Unfit::Fragment);
    }
    let (len, before) = (header.packet_len, before(sa));
    let trailer = Trailer::of(sa, len - header.len, 0);
    let bytes = make_room(packet, len, before, trailer.len)?;
    let whole = bytes.len();
    trailer.write(&mut bytes[whole - trailer.len..], header.next);
    bytes.copy_within(before..before + header.len, 0);
    sa.front.write(&mut bytes[header.len..], &header, number, 0);
    header.rewrite(bytes, whole, if sa.front.has_udp() { Protocol::UDP } else { Protocol::ESP });
    packet.set_network(0, header.len);
    Ok(EspAt(header.len + sa.front.len() - HEADER_LEN))
}

/// Makes room before and behind a packet of `len` bytes. Bytes that are behind it give way. Returns the bytes of the whole.
#[inline]
fn make_room(packet: &mut Packet, len: usize, before: usize, behind: usize) -> Result<&mut [u8], Unfit> {
    let whole = before + len + behind;
    if whole > usize::from(u16::MAX) {
        return Err(Unfit::TooLong);
    }
    let added = behind.saturating_sub(packet.len() - len);
    packet.put(added).ok_or(Unfit::NoMemory)?;
    if packet.push(before).is_none() {
        packet.trim(added);
        return Err(Unfit::NoMemory);
    }
    packet.trim(packet.len() - whole);
    Ok(packet.data_mut())
}

/// The part of an [encapsulated](encapsulate) packet that is to be sealed.
#[inline]
pub fn part<'a>(packet: &'a mut Packet, sa: &'a Sa, EspAt(at): EspAt, number: u64) -> Part<'a> {
    let bytes = &mut packet.data_mut()[at - LENT..];
    Part { suite: &sa.suite, number, is_extended: sa.is_extended, bytes, is_genuine: false }
}

/// Finishes a packet that was [sealed](crate::seal). UDP over IPv6 gets its checksum, which covers the encrypted bytes (RFC 8200, 8.1). Other packets stay
/// as they are. A receiver ignores the checksum, since ESP's own check is stronger.
#[inline]
pub fn finish(packet: &mut Packet, sa: &Sa, at: EspAt) {
    if sa.front.has_udp() {
        fill_udp_checksum(packet, at);
    }
}

fn fill_udp_checksum(packet: &mut Packet, EspAt(at): EspAt) {
    let (front, datagram) = packet.data_mut().split_at_mut(at - udp::HEADER_LEN);
    if front.first().is_none_or(|first| first >> 4 != 6) {
        return;
    }
    let Some(ip) = front.first_chunk().map(ipv6::Header::from_chunk) else { return };
    datagram[udp::field::CHECKSUM..][..2].fill(0);
    let sum = checksum::never_zero(checksum::transport_v6(ip.src(), ip.dst(), Protocol::UDP, datagram));
    datagram[udp::field::CHECKSUM..][..2].copy_from_slice(&sum.to_be_bytes());
}
