// SPDX-License-Identifier: MIT OR Apache-2.0
//! Segments of TCP whose text is changed.

use std::ops::Range;

use nat::ftp::MOST_GROWTH;
use packet::Packet;
use tables::flow::FlowKey;
use wire::checksum::{sum, update16};
use wire::tcp::Flags;

use super::kind::TCP;

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

/// Puts texts in places of the payload and updates lengths and checksums; wrong checksums stay wrong. Returns whether there was
/// memory for it.
pub(super) fn substitute(
    packet: &mut Packet,
    segment: &Segment,
    texts: &[(Range<usize>, Vec<u8>)],
) -> Option<()> {
    let start = usize::try_from(packet.network_offset()?).ok()?;
    let old = packet.data().get(start..start + segment.payload.end)?;
    let old_sum = sum(&old[segment.transport..]);
    let mut payload = Vec::with_capacity(segment.payload.len() + MOST_GROWTH * texts.len());
    let mut done = segment.payload.start;
    for (place, text) in texts {
        payload.extend_from_slice(&old[done..segment.payload.start + place.start]);
        payload.extend_from_slice(text);
        done = segment.payload.start + place.end;
    }
    payload.extend_from_slice(&old[done..]);
    // What lies behind the datagram, a link's padding, goes.
    let end = start + segment.payload.start + payload.len();
    match end.checked_sub(packet.len()) {
        Some(more) => drop(packet.put(more)?),
        None => packet.trim(packet.len() - end),
    }
    let ip = &mut packet.data_mut()[start..];
    ip[segment.payload.start..].copy_from_slice(&payload);
    let field = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let (old_len, len) = (field(ip, 2), ip.len() as u16);
    let ip_sum = update16(field(ip, 10), old_len, len);
    ip[2..4].copy_from_slice(&len.to_be_bytes());
    ip[10..12].copy_from_slice(&ip_sum.to_be_bytes());
    // The pseudo header's length is that of the segment (RFC 9293, section 3.1); both sums hold the old checksum.
    let tcp = &mut ip[segment.transport..];
    let tcp_sum = update16(update16(field(tcp, 16), old_sum, sum(tcp)), old_len, len);
    tcp[16..18].copy_from_slice(&tcp_sum.to_be_bytes());
    Some(())
}
