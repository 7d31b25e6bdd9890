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
use crate::sa::{DontFragment, Mode, Sa};
use crate::suite::{HEADER_LEN, LENT, Part};
use crate::tunnel;

/// Where a packet's ESP header begins, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EspAt(pub usize);

/// Bytes of trailer and check value for a payload of so many bytes.
struct Trailer {
    zeros: usize,
    padding: usize,
    icv_len: usize,
}

impl Trailer {
    fn of(sa: &Sa, payload_len: usize, can_have_zeros: bool) -> Trailer {
        let zeros = if can_have_zeros { usize::from(sa.rules.pad_to).saturating_sub(payload_len) } else { 0 };
        let clear = payload_len + zeros + 2;
        let padding = clear.next_multiple_of(sa.suite.align()) - clear;
        Trailer { zeros, padding, icv_len: sa.suite.icv_len() }
    }

    fn len(&self) -> usize {
        self.zeros + self.padding + 2 + self.icv_len
    }

    /// Writes all but the check value (RFC 4303, 2.4: padding counts from 1).
    fn write(&self, to: &mut [u8], next: Protocol) {
        let (zeros, rest) = to.split_at_mut(self.zeros);
        zeros.fill(0);
        let (padding, rest) = rest.split_at_mut(self.padding);
        padding.iter_mut().zip(1..).for_each(|(byte, count)| *byte = count);
        rest[0] = self.padding as u8;
        rest[1] = next.0;
    }
}

/// The length that a packet of `len` bytes has in a tunnel.
pub fn tunnelled_len(sa: &Sa, len: usize) -> usize {
    let Mode::Tunnel { to, .. } = sa.mode else { return len };
    before(sa) + outer_len(to) + len + Trailer::of(sa, len, true).len()
}

/// The longest packet that has at most `most` bytes when it is protected: what a sender should be told of a path's MTU. In transport
/// mode, its IP header has `header_len` bytes.
pub fn inner_mtu(sa: &Sa, most: usize, header_len: usize) -> usize {
    let (outer, kept) = match sa.mode {
        Mode::Tunnel { to, .. } => (outer_len(to), 0),
        Mode::Transport => (header_len, header_len),
    };
    let room = most.saturating_sub(before(sa) + outer + sa.suite.icv_len());
    // Whole blocks, of which the last has pad length and next header.
    kept + (room / sa.suite.align() * sa.suite.align()).saturating_sub(2)
}

/// Bytes of ESP between the IP header and the payload.
fn before(sa: &Sa) -> usize {
    HEADER_LEN + sa.suite.iv_len() + if sa.udp.is_some() { udp::HEADER_LEN } else { 0 }
}

fn outer_len(to: IpAddr) -> usize {
    if to.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN }
}

/// Puts ESP around a packet that begins with its IP header: headers, padding and room for the check value. Nothing is encrypted yet. Bytes behind the
/// packet's own length, as Ethernet pads short frames, are cut off.
///
/// # Errors
/// Why it is unfit. The packet's bytes are as they were.
pub fn encapsulate(packet: &mut Packet, sa: &Sa, number: u64) -> Result<EspAt, Unfit> {
    let inner = Header::read(packet.data())?;
    let next = match sa.mode {
        Mode::Tunnel { .. } => inner.as_payload(),
        Mode::Transport if inner.is_fragment => return Err(Unfit::Fragment),
        Mode::Transport => inner.next,
    };
    wrap(packet, sa, number, &inner, next)
}

/// Makes a dummy packet with `len` zeros, which the receiver drops: it hides how much is sent (RFC 4303, 2.6). It is for tunnels. In transport mode,
/// [encapsulate] an IP packet whose next header is 59.
///
/// # Errors
/// [`Unfit::NoTunnel`], [`Unfit::TooLong`] or [`Unfit::NoMemory`].
pub fn dummy(sa: &Sa, number: u64, len: usize) -> Result<(Packet, EspAt), Unfit> {
    if sa.mode == Mode::Transport {
        return Err(Unfit::NoTunnel);
    }
    if len > usize::from(u16::MAX) {
        return Err(Unfit::TooLong);
    }
    let mut packet = Packet::alloc(packet::HEADROOM, len).ok_or(Unfit::NoMemory)?;
    packet.data_mut().fill(0);
    let at = wrap(&mut packet, sa, number, &Header::of_dummy(len), Protocol::IPV6_NO_NEXT)?;
    Ok((packet, at))
}

/// Puts headers and trailer around a packet whose header says `inner`.
fn wrap(packet: &mut Packet, sa: &Sa, number: u64, inner: &Header, next: Protocol) -> Result<EspAt, Unfit> {
    let (before, len) = (before(sa), inner.packet_len);
    // What goes in front, what of the packet is payload, and where the outer IP header will end.
    let (pushed, payload_len, header_len) = match sa.mode {
        Mode::Tunnel { to, .. } => (outer_len(to) + before, len, outer_len(to)),
        Mode::Transport => (before, len - inner.len, inner.len),
    };
    let trailer = Trailer::of(sa, payload_len, matches!(sa.mode, Mode::Tunnel { .. }));
    let whole = len + pushed + trailer.len();
    if whole > usize::from(u16::MAX) {
        return Err(Unfit::TooLong);
    }
    // The trailer takes the place of what is behind the packet.
    let added = trailer.len().saturating_sub(packet.len() - len);
    packet.put(added).ok_or(Unfit::NoMemory)?;
    if packet.push(pushed).is_none() {
        packet.trim(added);
        return Err(Unfit::NoMemory);
    }
    packet.trim(packet.len() - whole);
    let bytes = packet.data_mut();
    trailer.write(&mut bytes[whole - trailer.len()..], next);
    if sa.mode == Mode::Transport {
        bytes.copy_within(pushed..pushed + header_len, 0);
    }
    let at = header_len + before - sa.suite.iv_len() - HEADER_LEN;
    bytes[at..at + 4].copy_from_slice(&sa.spi.to_be_bytes());
    bytes[at + 4..at + HEADER_LEN].copy_from_slice(&(number as u32).to_be_bytes());
    let carried = if sa.udp.is_some() { Protocol::UDP } else { Protocol::ESP };
    if let Some(ports) = sa.udp {
        // A checksum of zero: IPv4 needs none (RFC 3948, 2.1). For IPv6, `finish` fills it.
        let words = [ports.from, ports.to, (whole - header_len) as u16, 0];
        for (place, word) in bytes[header_len..at].chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
    }
    match sa.mode {
        Mode::Tunnel { from, to } => write_outer(bytes, sa, inner, (from, to), carried, number),
        Mode::Transport => inner.rewrite(bytes, whole, carried),
    }
    packet.set_network(0, header_len);
    Ok(EspAt(at))
}

/// Writes a tunnel's header.
fn write_outer(
    bytes: &mut [u8],
    sa: &Sa,
    inner: &Header,
    ends: (IpAddr, IpAddr),
    carried: Protocol,
    number: u64,
) {
    let class = tunnel::outer_class(inner.class, sa.rules.copy_dscp, sa.rules.ecn);
    let written = match ends {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let is_set = match sa.rules.dont_fragment {
                DontFragment::Copy => inner.dont_fragment,
                DontFragment::Set => true,
                DontFragment::Clear => false,
            };
            ipv4::Repr {
                src,
                dst,
                protocol: carried,
                payload_len: (bytes.len() - ipv4::HEADER_LEN) as u16,
                ttl: sa.rules.ttl,
                tos: class,
                // Associations between the same gateways begin at different numbers, so fragments of two seldom mix (RFC 6864).
                id: sa.suite.first_id().wrapping_add(number as u16),
                fragment: if is_set { ipv4::FLAG_DF } else { 0 },
            }
            .emit(bytes)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => ipv6::Repr {
            src,
            dst,
            next_header: carried,
            payload_len: (bytes.len() - ipv6::HEADER_LEN) as u16,
            hop_limit: sa.rules.ttl,
            traffic_class: class,
            flow_label: 0,
        }
        .emit(bytes),
        // An association of two families is not made.
        _ => Ok(()),
    };
    debug_assert!(written.is_ok());
}

/// The part of an [encapsulated](encapsulate) packet that is to be sealed.
pub fn part<'a>(packet: &'a mut Packet, sa: &'a Sa, EspAt(at): EspAt, number: u64) -> Part<'a> {
    let bytes = &mut packet.data_mut()[at - LENT..];
    Part { suite: &sa.suite, number, is_extended: sa.is_extended, bytes, is_genuine: false }
}

/// Finishes a packet that was [sealed](crate::seal). UDP over IPv6 gets its checksum, which covers the encrypted bytes (RFC 8200, 8.1). Other packets stay
/// as they are. A receiver ignores the checksum, since ESP's own check is stronger.
pub fn finish(packet: &mut Packet, sa: &Sa, EspAt(at): EspAt) {
    if sa.udp.is_none() {
        return;
    }
    let (front, datagram) = packet.data_mut().split_at_mut(at - udp::HEADER_LEN);
    if front.first().is_none_or(|first| first >> 4 != 6) {
        return;
    }
    let Some(ip) = front.first_chunk().map(ipv6::Header::from_chunk) else { return };
    datagram[udp::field::CHECKSUM..][..2].fill(0);
    let sum = checksum::never_zero(checksum::transport_v6(ip.src(), ip.dst(), Protocol::UDP, datagram));
    datagram[udp::field::CHECKSUM..][..2].copy_from_slice(&sum.to_be_bytes());
}
