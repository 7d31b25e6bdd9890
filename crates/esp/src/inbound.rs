// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way in: where ESP is in a packet, and what the packet was before it was protected.

use packet::Packet;
use wire::{Protocol, checksum, ipv4, ipv6, udp};

use crate::header::{Header, Unfit};
use crate::replay::{Refused, Window};
use crate::sa::{Mode, Sa};
use crate::suite::{HEADER_LEN, LENT, Part};
use crate::tunnel;

/// An ESP packet whose association is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The association's number.
    pub spi: u32,
    /// The low half of the sequence number.
    pub low: u32,
    /// UDP ports, if it came by UDP: source and destination.
    pub udp: Option<(u16, u16)>,
    /// The outer header's traffic class.
    pub class: u8,
    /// Where the ESP header begins, in bytes.
    at: u32,
    /// Where the check value ends.
    end: u32,
}

impl Arrived {
    #[inline]
    fn at(&self) -> usize {
        self.at as usize
    }

    #[inline]
    fn end(&self) -> usize {
        self.end as usize
    }
}

/// The only byte of a keep-alive (RFC 3948, 2.3).
pub(crate) const KEEP_ALIVE: u8 = 0xff;

/// What there is in a packet for this host that may be ESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// ESP.
    Esp(Arrived),
    /// A message of IKE, behind four zeros by UDP (RFC 3948, 2.2).
    Ike,
    /// A keep-alive for an address translator on the way (RFC 3948, 2.3).
    KeepAlive,
}

/// Why a packet is dropped: auditable events of RFC 4303, and what else can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Dropped {
    /// Too short for what it should have, or no IP packet, or of number 0.
    #[error("a truncated or malformed packet")]
    Malformed,
    /// A fragment.
    #[error("a fragment")]
    Fragment,
    /// Its number was there already.
    #[error("a replayed packet")]
    Replayed,
    /// Its number is older than the window.
    #[error("a packet older than the window")]
    TooOld,
    /// The check value is wrong.
    #[error("a packet that fails its integrity check")]
    Forged,
    /// What it carries is not what the association is for.
    #[error("a packet that does not fit its association")]
    WrongMode,
    /// A dummy packet, which says nothing (RFC 4303, 2.6).
    #[error("a dummy packet")]
    Dummy,
    /// Congestion was signalled to a sender who would not understand it (RFC 6040, 4.2).
    #[error("congestion signalled to a packet that cannot carry it")]
    Congestion,
}

impl From<Refused> for Dropped {
    fn from(why: Refused) -> Dropped {
        match why {
            Refused::Replayed => Dropped::Replayed,
            Refused::TooOld => Dropped::TooOld,
            Refused::Zero | Refused::TooFar => Dropped::Malformed,
        }
    }
}

/// Looks what a packet is that begins with its IP header and carries ESP, or UDP to a port for it.
///
/// # Errors
/// [`Dropped::Malformed`] or [`Dropped::Fragment`].
#[inline]
pub fn find(packet: &[u8]) -> Result<Found, Dropped> {
    let header = Header::read_fixed(packet).map_err(|_: Unfit| Dropped::Malformed)?;
    if header.is_six { find_in(packet, &outer(packet)?) } else { find_in(packet, &header) }
}

/// The header in front of ESP: with IPv6 up to the options for the destination, which a receiver takes for a part of it.
#[inline(never)]
fn outer(packet: &[u8]) -> Result<Header, Dropped> {
    let header = Header::read(packet).map_err(|_: Unfit| Dropped::Malformed)?;
    if header.next != Protocol::IPV6_DESTINATION || !header.is_six || header.is_fragment {
        return Ok(header);
    }
    let options = packet.get(header.len..).and_then(<[u8]>::first_chunk);
    let &[next, units] = options.ok_or(Dropped::Malformed)?;
    let behind = header.behind(Protocol(next), (usize::from(units) + 1) * 8);
    behind.filter(|header| header.len <= packet.len()).ok_or(Dropped::Malformed)
}

/// Looks what is behind this header.
#[inline]
fn find_in(packet: &[u8], outer: &Header) -> Result<Found, Dropped> {
    if outer.is_fragment {
        return Err(Dropped::Fragment);
    }
    let payload = packet.get(outer.len..outer.packet_len).ok_or(Dropped::Malformed)?;
    let (udp, esp, at) = match outer.next {
        Protocol::ESP => (None, payload, outer.len),
        Protocol::UDP => {
            let view = udp::View::new_checked(payload).map_err(|_| Dropped::Malformed)?;
            let len = usize::from(view.length());
            let carried = &payload[udp::HEADER_LEN..len];
            match carried {
                [KEEP_ALIVE] => return Ok(Found::KeepAlive),
                [0, 0, 0, 0, ..] => return Ok(Found::Ike),
                _ => {}
            }
            (Some((view.src_port(), view.dst_port())), carried, outer.len + udp::HEADER_LEN)
        }
        _ => return Err(Dropped::Malformed),
    };
    let [spi, low] = *esp.as_chunks::<4>().0.first_chunk::<2>().ok_or(Dropped::Malformed)?;
    let (spi, low) = (u32::from_be_bytes(spi), u32::from_be_bytes(low));
    let (at, end) = (at as u32, (at + esp.len()) as u32);
    Ok(Found::Esp(Arrived { spi, low, udp, class: outer.class, at, end }))
}

/// The part of a packet that is to be opened, once its association is known.
///
/// # Errors
/// It is too short, or its number does not pass, or it came by UDP and should not have, or the reverse.
#[inline]
pub fn part<'a>(packet: &'a mut Packet, sa: &'a Sa, arrived: &Arrived) -> Result<Part<'a>, Dropped> {
    let mut number = sa.window.passing(arrived.low)?;
    let leap = sa.leap(arrived.low);
    if leap > 0 {
        number = number.saturating_add(leap);
        sa.window.check(number)?;
    }
    let (at, end) = (arrived.at(), arrived.end());
    if sa.by_udp != arrived.udp.is_some() {
        return Err(Dropped::WrongMode);
    }
    if !sa.suite.fits(end - at) {
        return Err(Dropped::Malformed);
    }
    let bytes = &mut packet.data_mut()[at - LENT..end];
    Ok(Part { suite: &sa.suite, number, is_extended: sa.is_extended, bytes, is_genuine: false })
}

/// What an opened packet of a tunnel carries, with what is behind it: only to look ahead, since nothing is checked.
#[inline]
pub fn peek<'a>(packet: &'a Packet, sa: &Sa, arrived: &Arrived) -> Option<&'a [u8]> {
    let is_tunnel = matches!(sa.mode, Mode::Tunnel { .. });
    packet.data().get(arrived.at() + HEADER_LEN + sa.suite.iv_len()..).filter(|_| is_tunnel)
}

/// Makes of a packet that was opened and found genuine what it was: the packet that the tunnel carried, or the one with the outer header. It begins
/// with its IP header again.
///
/// The padding's bytes may be anything. RFC 4303 (2.4) would have a receiver inspect them, but peers pad with zeros or random bytes (`setkey -f zero-pad`), Linux
/// does not look either, and the check value has shown that the sender wrote them.
///
/// # Errors
/// Why it is dropped. The association has noted its number.
#[inline]
pub fn decapsulate(packet: &mut Packet, sa: &Sa, arrived: &Arrived, number: u64) -> Result<(), Dropped> {
    sa.window.accept(number)?;
    unpack(packet, sa, arrived)
}

/// Notes the numbers of genuine packets of one window, in their order, and calls `verdict` with the place of each and whether it passes. Each that does must
/// then be [unpacked](unpack). The two are [`decapsulate`] for many packets, with fewer atomic operations.
#[inline]
pub fn accept<E: From<Refused>>(
    window: &Window,
    numbers: &[u64],
    mut verdict: impl FnMut(usize, Result<(), E>),
) {
    if let [number] = numbers {
        return verdict(0, window.accept(*number).map_err(E::from));
    }
    let mut at = 0;
    while at < numbers.len() {
        match window.accept_first(&numbers[at..]) {
            Ok(count) => {
                (at..at + count).for_each(|place| verdict(place, Ok(())));
                at += count;
            }
            Err(why) => {
                verdict(at, Err(why.into()));
                at += 1;
            }
        }
    }
}

/// Does what [`decapsulate`] does, but for noting the number: see [`accept`].
///
/// # Errors
/// Why the packet is dropped.
#[inline]
pub fn unpack(packet: &mut Packet, sa: &Sa, arrived: &Arrived) -> Result<(), Dropped> {
    let begin = arrived.at() + HEADER_LEN + sa.suite.iv_len();
    let end = arrived.end() - sa.suite.icv_len();
    let text = packet.data().get(begin..end).and_then(<[u8]>::split_last_chunk);
    let (text, &[padding, next]) = text.ok_or(Dropped::Malformed)?;
    let (payload_len, next) = (text.len().checked_sub(padding.into()), Protocol(next));
    let end = begin + payload_len.ok_or(Dropped::Malformed)?;
    if next == Protocol::IPV6_NO_NEXT {
        return Err(Dropped::Dummy);
    }
    match sa.mode {
        Mode::Tunnel { .. } => leave_tunnel(packet, sa, arrived, next, begin..end),
        Mode::Transport => leave_transport(packet, arrived, next, begin..end),
    }
}

#[inline]
fn leave_tunnel(
    packet: &mut Packet,
    sa: &Sa,
    arrived: &Arrived,
    next: Protocol,
    payload: std::ops::Range<usize>,
) -> Result<(), Dropped> {
    if !matches!(next, Protocol::IPIP | Protocol::IPV6) {
        return Err(Dropped::WrongMode);
    }
    let carried = &packet.data()[payload.clone()];
    let inner = Header::read_fixed(carried).map_err(|_: Unfit| Dropped::Malformed)?;
    if inner.as_payload() != next {
        return Err(Dropped::Malformed);
    }
    let rules = &sa.rules;
    let class = tunnel::inner_class(inner.class, arrived.class, rules.decap_dscp, rules.ecn)
        .ok_or(Dropped::Congestion)?;
    // What is behind the inner packet hides how long it is.
    let end = payload.start + inner.packet_len;
    packet.trim(packet.len() - end);
    packet.strip(payload.start);
    inner.set_class(packet.data_mut(), class);
    packet.set_network(0, inner.len);
    Ok(())
}

#[inline(never)]
fn leave_transport(
    packet: &mut Packet,
    arrived: &Arrived,
    next: Protocol,
    payload: std::ops::Range<usize>,
) -> Result<(), Dropped> {
    let outer = outer(packet.data())?;
    packet.trim(packet.len() - payload.end);
    let moved = payload.start - outer.len;
    let bytes = packet.data_mut();
    bytes.copy_within(..outer.len, moved);
    packet.strip(moved);
    let len = packet.len();
    let bytes = packet.data_mut();
    outer.rewrite(bytes, len, next);
    if arrived.udp.is_some() {
        // A translator may have changed addresses, which the payload's checksum covers. The integrity check has taken its place (RFC 3948, 3.1.2).
        fill_transport_checksum(bytes, &outer, next);
    }
    packet.set_network(0, outer.len);
    Ok(())
}

/// Computes the checksum of TCP, UDP or ICMPv6 anew, behind extension headers of IPv6, too: those that cover addresses. A datagram of an impossible UDP length
/// stays as it is, and so does a fragment.
fn fill_transport_checksum(packet: &mut [u8], header: &Header, next: Protocol) {
    let (front, payload) = packet.split_at_mut(header.len);
    let Some((next, at)) = upper_layer(header, payload, next) else { return };
    let segment = &mut payload[at..];
    let at = match next {
        Protocol::TCP => wire::tcp::field::CHECKSUM,
        Protocol::UDP => udp::field::CHECKSUM,
        Protocol::ICMPV6 if header.is_six => wire::icmpv6::field::CHECKSUM,
        _ => return,
    };
    let len = match segment.get(udp::field::LEN..).and_then(<[u8]>::first_chunk) {
        Some(len) if next == Protocol::UDP => u16::from_be_bytes(*len).into(),
        _ => segment.len(),
    };
    // The UDP length may leave out bytes at the end, which the checksum does not cover.
    let Some(segment) = segment.get_mut(..len) else { return };
    let Some(place) = segment.get_mut(at..at + 2) else { return };
    if next == Protocol::UDP && *place == [0, 0] && !header.is_six {
        return;
    }
    place.fill(0);
    let sum = if header.is_six {
        front
            .first_chunk()
            .map(ipv6::Header::from_chunk)
            .map(|ip| checksum::transport_v6(ip.src(), ip.dst(), next, segment))
    } else {
        front
            .first_chunk()
            .map(ipv4::Header::from_chunk)
            .map(|ip| checksum::transport_v4(ip.src(), ip.dst(), next, segment))
    };
    let sum = sum.unwrap_or(0);
    let sum = if next == Protocol::UDP { checksum::never_zero(sum) } else { sum };
    segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// What a payload carries behind extension headers, and where; `None` if it is malformed or a fragment.
fn upper_layer(header: &Header, payload: &[u8], next: Protocol) -> Option<(Protocol, usize)> {
    if !header.is_six {
        return Some((next, 0));
    }
    let upper = ipv6::upper_layer(next, payload).ok()?;
    (upper.fragment.is_none() && upper.offset <= payload.len()).then_some((upper.protocol, upper.offset))
}
