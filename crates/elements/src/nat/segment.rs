// SPDX-License-Identifier: MIT OR Apache-2.0
//! Segments of TCP and datagrams of UDP whose text is changed.

use std::ops::Range;

use packet::Packet;
use tables::flow::FlowKey;
use wire::checksum::{sum, update16};
use wire::tcp::Flags;

use super::kind::{TCP, UDP};

/// Where the parts of a segment lie in its packet, from the network header on.
pub(super) struct Segment {
    pub(super) flow: FlowKey,
    pub(super) transport: usize,
    pub(super) payload: Range<usize>,
    /// The sequence number of the payload's first byte.
    pub(super) seq: u32,
}

impl Segment {
    /// A TCP segment in one whole packet.
    pub(super) fn of(packet: &Packet) -> Option<Segment> {
        let bytes = packet.network()?;
        let ip = bytes.first_chunk::<20>()?;
        let transport = usize::try_from(packet.transport_offset()? - packet.network_offset()?).ok()?;
        let tcp = bytes.get(transport..)?.first_chunk::<20>()?;
        let payload = transport + usize::from(tcp[12] >> 4) * 4;
        let end = usize::from(u16::from_be_bytes([ip[2], ip[3]])).min(bytes.len());
        let later = u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff != 0;
        if ip[9] != TCP || later || payload < transport + 20 || payload > end || tcp[13] & Flags::SYN.0 != 0 {
            return None;
        }
        let word = |b: [u8; 4]| u32::from_be_bytes(b);
        let (src, dst) = (word([ip[12], ip[13], ip[14], ip[15]]), word([ip[16], ip[17], ip[18], ip[19]]));
        let (sport, dport) = (u16::from_be_bytes([tcp[0], tcp[1]]), u16::from_be_bytes([tcp[2], tcp[3]]));
        let flow = FlowKey { src, dst, sport, dport, proto: TCP, zone: 0 };
        let seq = word([tcp[4], tcp[5], tcp[6], tcp[7]]);
        Some(Segment { flow, transport, payload: payload..end, seq })
    }
}

/// Where the payload of a datagram lies that is in one whole packet: its transport header, and its bytes from the network header on.
pub(super) fn datagram(packet: &Packet) -> Option<(usize, Range<usize>)> {
    let bytes = packet.network()?;
    let ip = bytes.first_chunk::<20>()?;
    let transport = usize::try_from(packet.transport_offset()? - packet.network_offset()?).ok()?;
    let udp = bytes.get(transport..)?.first_chunk::<8>()?;
    let field = |bytes: &[u8], at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    let (end, is_fragment) = (field(ip, 2), field(ip, 6) & 0x3fff != 0);
    let is_whole = end <= bytes.len() && transport + field(udp, 4) == end && transport + 8 <= end;
    (ip[9] == UDP && !is_fragment && is_whole).then_some((transport, transport + 8..end))
}

/// Puts texts in places of the payload and updates lengths and checksums; wrong checksums stay wrong. Returns whether there was
/// memory for it.
pub(super) fn substitute(
    packet: &mut Packet,
    segment: &Segment,
    texts: &[(Range<usize>, Vec<u8>)],
) -> Option<()> {
    substitute_in(packet, segment.transport, &segment.payload, texts)
}

/// The same, in a segment of TCP or a datagram of UDP whose transport header and payload are there.
pub(super) fn substitute_in(
    packet: &mut Packet,
    transport: usize,
    payload: &Range<usize>,
    texts: &[(Range<usize>, Vec<u8>)],
) -> Option<()> {
    let start = usize::try_from(packet.network_offset()?).ok()?;
    let old = packet.data().get(start..start + payload.end)?;
    let old_sum = sum(&old[transport..]);
    let added: usize = texts.iter().map(|(_, text)| text.len()).sum();
    let mut new = Vec::with_capacity(payload.len() + added);
    let mut done = payload.start;
    for (place, text) in texts {
        new.extend_from_slice(&old[done..payload.start + place.start]);
        new.extend_from_slice(text);
        done = payload.start + place.end;
    }
    new.extend_from_slice(&old[done..]);
    if payload.start + new.len() > usize::from(u16::MAX) {
        return None;
    }
    // What lies behind the datagram, a link's padding, goes.
    let end = start + payload.start + new.len();
    match end.checked_sub(packet.len()) {
        Some(more) => drop(packet.put(more)?),
        None => packet.trim(packet.len() - end),
    }
    let ip = &mut packet.data_mut()[start..];
    ip[payload.start..].copy_from_slice(&new);
    let field = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let (old_len, len) = (field(ip, 2), ip.len() as u16);
    let ip_sum = update16(field(ip, 10), old_len, len);
    ip[2..4].copy_from_slice(&len.to_be_bytes());
    ip[10..12].copy_from_slice(&ip_sum.to_be_bytes());
    // The pseudo header's length is that of the segment (RFC 9293, section 3.1; RFC 768); both sums hold the old checksum.
    let is_udp = ip[9] == UDP;
    let (upper, place) = (&mut ip[transport..], if is_udp { 6 } else { 16 });
    if is_udp {
        let length = (upper.len() as u16).to_be_bytes();
        upper[4..6].copy_from_slice(&length);
    }
    let old_field = field(upper, place);
    if is_udp && old_field == 0 {
        return Some(());
    }
    let new_sum = update16(update16(old_field, old_sum, sum(upper)), old_len, len);
    // In UDP a checksum of zero says that there is none.
    let new_sum = if is_udp && new_sum == 0 { u16::MAX } else { new_sum };
    upper[place..place + 2].copy_from_slice(&new_sum.to_be_bytes());
    Some(())
}
