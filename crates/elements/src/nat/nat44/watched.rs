// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of sessions whose text says addresses. Segments that inside ends send get outside ones, and sequence numbers move with the length of the text. Messages of SIP change in both directions.

use element::clock::Nanos;
use nat::Nat;
use nat::ftp::{MOST_GROWTH, commands};
use packet::Packet;

use crate::nat::segment::{Segment, datagram, substitute, substitute_in};

/// Changes text and numbers of a segment, whose addresses and ports have been translated, of the session with this number; side 0 is inside.
pub(in crate::nat) fn edit(nat: &mut Nat, now: Nanos, number: u32, side: usize, packet: &mut Packet) {
    if nat.speaks_sip(number) {
        replace_in_datagram(nat, now, number, side, packet);
        return;
    }
    if side == 0 {
        replace(nat, now, number, packet);
    }
    let transport = packet.transport_offset().zip(packet.network_offset());
    let at = transport.and_then(|(transport, network)| usize::try_from(transport - network).ok());
    if let Some(segment) = at.and_then(|at| packet.network_mut()?.get_mut(at..)) {
        nat.shift(number, side, segment);
    }
}

/// Changes a message of SIP. One that a packet does not hold whole stays, and so does one for which there is no memory.
fn replace_in_datagram(
    nat: &mut Nat,
    now: Nanos,
    number: u32,
    side: usize,
    packet: &mut Packet,
) -> Option<()> {
    let (transport, payload) = datagram(packet)?;
    let edits = nat.sip(now, number, side, &packet.network()?[payload.clone()]);
    if edits.is_empty() { None } else { substitute_in(packet, transport, &payload, &edits) }
}

/// Puts outside addresses and ports in place of inside ones. Text that a packet does not hold whole stays.
fn replace(nat: &mut Nat, now: Nanos, number: u32, packet: &mut Packet) -> Option<()> {
    let speaker = nat.speaker(number)?;
    let segment = Segment::of(packet)?;
    let bytes = packet.network()?;
    let total = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
    // A fragment, or what a snapshot has cut: its checksum covers what is not here.
    if bytes[6] & 0x20 != 0 || total != segment.payload.end {
        return None;
    }
    let (commands, _) = commands(&bytes[segment.payload.clone()], speaker);
    let room = commands.len() * MOST_GROWTH;
    if commands.is_empty() || total + room > usize::from(u16::MAX) {
        return None;
    }
    packet.put(room)?;
    packet.trim(room);
    let texts: Vec<_> = commands
        .iter()
        .filter_map(|command| {
            let text = nat.replacement(now, number, segment.seq, command)?;
            Some((command.argument.clone(), text))
        })
        .collect();
    if texts.is_empty() { None } else { substitute(packet, &segment, &texts) }
}
