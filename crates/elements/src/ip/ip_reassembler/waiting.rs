// SPDX-License-Identifier: MIT OR Apache-2.0
//! A packet of which fragments are missing: the bytes that are there, where a further fragment belongs, and the whole packet.

use element::clock::Nanos;
use packet::Packet;

use super::super::vrf_names::VrfNames;
use super::super::{ecn, set_ip_checksum};
use crate::tools::alloc_like;

/// What a waiting packet costs in addition to its bytes.
const OVERHEAD: usize = 40;

/// What fragments of one packet have in common: addresses; VRF, identification and protocol in one (RFC 791, 3.2).
pub(super) type DatagramKey = (u64, u32);

/// A packet of which fragments are missing.
#[derive(Default)]
pub(super) struct Waiting {
    /// Everything up to the first fragment's transport header, or that of any until then: a fragment without its bytes. With
    /// them as long as it is the only one, as it is for most of a flood.
    pub(super) head: Option<Packet>,
    /// Where the head ends.
    pub(super) head_len: usize,
    pub(super) alone: bool,
    pub(super) has_first: bool,
    /// The payload so far, with holes.
    pub(super) payload: Vec<u8>,
    /// Stretches that are there, in order and apart from each other.
    pub(super) have: Vec<(usize, usize)>,
    /// The payload's length, once the last fragment came.
    pub(super) len: Option<usize>,
    pub(super) longest: u16,
    /// Congestion fields of the fragments that it is made of.
    pub(super) ecn: ecn::Seen,
    pub(super) last_seen: Nanos,
    /// Fragments overlapped: nothing will come of it.
    pub(super) spoilt: bool,
}

/// Where a fragment belongs.
pub(super) struct FragmentPlace {
    pub(super) key: DatagramKey,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) more: bool,
    /// Type of service.
    pub(super) tos: u8,
    pub(super) ip_len: u16,
    /// Of the packet, where the transport bytes begin.
    pub(super) transport: usize,
}

/// Reads where a fragment belongs; `None` for an impossible one.
pub(super) fn place(packet: &Packet, vrfs: &VrfNames) -> Option<FragmentPlace> {
    let ip = packet.network()?;
    let at = packet.len() - ip.len();
    let h = ip.first_chunk::<20>()?;
    let word = |i: usize| u16::from_be_bytes([h[i], h[i + 1]]);
    let (header_len, total) = (usize::from(h[0] & 15) * 4, usize::from(word(2)));
    let start = usize::from(word(6) & 0x1fff) * 8;
    let more = word(6) & 0x2000 != 0;
    let len = total.checked_sub(header_len).filter(|len| *len > 0 && header_len >= 20)?;
    let addresses = h[12..20].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    let end = start + len;
    let possible = end + header_len <= 0xffff && total <= ip.len() && (!more || len.is_multiple_of(8));
    let vrf = u32::from(vrfs.of(packet));
    let key = (addresses, vrf << 24 | u32::from(word(4)) << 8 | u32::from(h[9]));
    let (tos, ip_len, transport) = (h[1], total as u16, at + header_len);
    possible.then_some(FragmentPlace { key, start, end, more, tos, ip_len, transport })
}

impl Waiting {
    /// Makes it the packet of a fragment that is the first to come of it.
    pub(super) fn begin(&mut self, fragment: Packet, place: &FragmentPlace, now: Nanos) {
        let mut have = std::mem::take(&mut self.have);
        have.clear();
        have.push((place.start, place.end));
        *self = Waiting {
            head: Some(fragment),
            head_len: place.transport,
            alone: true,
            has_first: place.start == 0,
            have,
            len: (!place.more).then_some(place.end),
            longest: place.ip_len,
            last_seen: now,
            ..Waiting::default()
        };
        self.ecn.note(place.tos);
    }

    /// Takes the bytes out of the only fragment, because others come, or the packet is looked at.
    pub(super) fn open(&mut self, buffer: impl FnOnce() -> Vec<u8>) {
        if let (true, Some(head), Some((start, end))) = (self.alone, &mut self.head, self.have.first()) {
            self.payload = buffer();
            self.payload.resize(*start, 0);
            self.payload.extend_from_slice(&head.data()[self.head_len..][..end - start]);
            make_head(head, self.head_len);
            self.alone = false;
        }
    }

    /// Whether a fragment has bytes that are there already, and not alike.
    pub(super) fn overlaps(&self, place: &FragmentPlace, bytes: &[u8]) -> bool {
        self.have.iter().any(|&(start, end)| {
            let (from, to) = (start.max(place.start), end.min(place.end));
            from < to && self.payload[from..to] != bytes[from - place.start..to - place.start]
        })
    }

    /// Gives up the bytes, but remembers the packet, so that further fragments of it are known.
    pub(super) fn spoil(&mut self) {
        (self.spoilt, self.payload) = (true, Vec::new());
        self.have.clear();
    }

    pub(super) fn memory(&self) -> usize {
        let alone = self.have.first().filter(|_| self.alone);
        OVERHEAD + alone.map_or(self.payload.len(), |(_, end)| *end)
    }

    /// Adds a fragment's bytes; `false` where it contradicts what is known of the packet's end.
    pub(super) fn add(&mut self, place: &FragmentPlace, bytes: &[u8]) -> bool {
        let known_end = self.have.last().map_or(0, |(_, end)| *end);
        let fits = match self.len {
            Some(len) => place.end <= len && (place.more || place.end == len),
            None => place.more || place.end >= known_end,
        };
        if !fits {
            return false;
        }
        if !place.more {
            self.len = Some(place.end);
        }
        // A fragment that brings nothing new says nothing of congestion either.
        if !self.have.iter().any(|&(start, end)| start <= place.start && place.end <= end) {
            self.ecn.note(place.tos);
        }
        if self.payload.len() < place.end {
            self.payload.resize(place.end, 0);
        }
        self.payload[place.start..place.end].copy_from_slice(bytes);
        // Joins the stretches that touch the new one.
        let (mut start, mut end) = (place.start, place.end);
        self.have.retain(|&(s, e)| {
            let apart = e < start || s > end;
            if !apart {
                (start, end) = (start.min(s), end.max(e));
            }
            apart
        });
        let at = self.have.partition_point(|(s, _)| *s < start);
        self.have.insert(at, (start, end));
        true
    }

    pub(super) fn complete(&self) -> bool {
        self.has_first && self.len.is_some_and(|len| self.have == [(0, len)])
    }

    /// The same again, for a fragment that is only tried; `None` when memory is exhausted.
    pub(super) fn again(&self) -> Option<Waiting> {
        let mut head = self.head.as_ref()?.duplicate()?;
        head.follow(0);
        let (payload, have) = (self.payload.clone(), self.have.clone());
        Some(Waiting { head: Some(head), payload, have, ..*self })
    }

    /// The packet, with what is there of its payload, holes filled with zeros, and with `ecn` added to its congestion field;
    /// `None` when memory is exhausted.
    pub(super) fn packet(&self, ecn: u8) -> Option<Packet> {
        let head = self.head.as_ref()?;
        let ip_at = head.len() - head.network()?.len();
        // Without its first fragment it is a later fragment itself.
        let start = if self.has_first { 0 } else { self.have.first().map_or(0, |(start, _)| *start) };
        let payload = &self.payload[start..];
        let mut whole = alloc_like(head, head.len() + payload.len())?;
        whole.copy_annotations(head);
        let bytes = whole.data_mut();
        bytes[..head.len()].copy_from_slice(head.data());
        bytes[head.len()..].copy_from_slice(payload);
        let ip = &mut bytes[ip_at..];
        let total = (ip.len() as u16).to_be_bytes();
        ip[1] |= ecn;
        ip[2..4].copy_from_slice(&total);
        let [high, low] = ((start / 8) as u16).to_be_bytes();
        let more = if self.len.is_none() { 0x20 } else { 0 };
        (ip[6], ip[7]) = (ip[6] & 0xc0 | more | high, low);
        if let Some(mac) = head.mac_offset().filter(|mac| *mac >= 0) {
            whole.set_mac_offset(mac);
        }
        whole.set_network(ip_at, head.len() - ip_at);
        set_ip_checksum::seal(&mut whole)?;
        Some(whole)
    }
}

/// The source address of a packet.
pub(super) fn source(key: DatagramKey) -> u64 {
    u64::from(key.1 >> 24) << 32 | key.0 >> 32
}

/// The number of the VRF of a packet.
pub(super) fn vrf(key: DatagramKey) -> u8 {
    (key.1 >> 24) as u8
}

/// The same packet, whose VRF has another number.
pub(super) fn renumbered(key: DatagramKey, vrf: u8) -> DatagramKey {
    (key.0, u32::from(vrf) << 24 | key.1 & 0xff_ffff)
}

/// Leaves a fragment's headers only.
pub(super) fn make_head(packet: &mut Packet, len: usize) {
    packet.trim(packet.len() - len);
    if let Some(ip_at) = packet.network_offset().and_then(|at| usize::try_from(at).ok()) {
        packet.set_network(ip_at, len - ip_at);
    }
}
