// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv4, whose headers are read and checked in [columns](packet::ipv4).

use element::program::{Header4, Headers, ROWS, Rows, Version};
use packet::{Facts, Packet, anno, ipv4};
use wire::checksum::decrement_ttl;

use super::found::{Found, HeaderPlace, Ip, NOT_PLAIN};
use super::send::{Link, Row};
use super::shape::{self, Header, Shape};
use crate::routing::lookup_ip_route::{V4, flow_hash};

pub(super) struct Ipv4;

/// What is known of the headers of a step besides what is known for every version.
pub(super) struct More {
    headers: ipv4::Headers,
    /// Third words of the headers, one hop further on.
    aged: [u32; ROWS],
    /// Their marks, and which ones there are.
    marks: [u8; ROWS],
    all_marks: u8,
}

/// Who is about to die is not plain.
const _: () = assert!(ipv4::DYING == NOT_PLAIN);

impl Default for More {
    fn default() -> Self {
        More { headers: ipv4::Headers::default(), aged: [0; ROWS], marks: [0; ROWS], all_marks: 0 }
    }
}

impl Ip for Ipv4 {
    type Family = V4;
    type Key = u32;
    type More = More;

    const VERSION: Version = Version::Four;
    const HEADER: usize = 20;

    #[inline]
    fn admit(
        header: Option<Header<'_>>,
        _: bool,
        packets: &[Packet],
        at: usize,
        found: &mut Found<u32>,
        more: &mut More,
    ) -> (usize, bool) {
        match header {
            Some(Header::Four(Header4 { checksum: true, suspects, .. })) => {
                let is_suspect = |_: &Packet, words: [u32; 5]| suspects[(words[3] >> 24) as usize];
                admit::<true>(packets, at, found, more, is_suspect)
            }
            Some(Header::Four(Header4 { suspects, .. })) => {
                let is_suspect = |_: &Packet, words: [u32; 5]| suspects[(words[3] >> 24) as usize];
                admit::<false>(packets, at, found, more, is_suspect)
            }
            _ => admit::<false>(packets, at, found, more, |p, words| !is_marked(p, at, words)),
        }
    }

    #[inline]
    fn headers<'p>(
        packets: &'p [Packet],
        place: HeaderPlace,
        found: &'p Found<u32>,
        more: &'p More,
    ) -> Headers<'p> {
        let headers = Headers::new(packets, place.at);
        // Where headers are marked when they come, destinations are those of annotations.
        if place.begins { headers.with_addresses(more.headers.sources(), &found.to) } else { headers }
    }

    #[inline]
    fn change(shape: &Shape<'_>, packet: &mut Packet, headroom: usize) -> Option<()> {
        let is_plain = !packet.is_any(Facts::GROUP) && packet.anno_u8(anno::FIX_IP_SRC) == 0;
        if (shape.plain && !is_plain) || packet.headroom() < headroom {
            return None;
        }
        let (header, len) = packet.sole_network::<20>()?;
        let is_dying = shape.hops != 0 && header[8] < 2;
        if len > shape.mtu || header[0] != 0x45 || is_dying || (shape.unicast && header[16] & 0xf0 == 0xe0) {
            return None;
        }
        if shape.hops != 0 {
            decrement_ttl(header);
        }
        Some(())
    }

    fn link<'a>(shape: &Shape<'a>) -> Link<'a, u32> {
        match shape.link {
            shape::Link::Fixed(mac, rest) => Link::Fixed(mac, rest),
            shape::Link::Four(known, rest) => Link::Known(known, rest),
            _ => Link::None,
        }
    }

    #[inline]
    fn send(
        shape: &Shape<'_>,
        link: Link<'_, u32>,
        packets: &mut [Packet],
        mut row: Row<'_, u32>,
        more: &More,
    ) -> usize {
        if shape.unicast && more.all_marks & ipv4::MULTICAST != 0 {
            row.rows = row.rows.before(Rows::with(&more.marks, ipv4::MULTICAST, ipv4::MULTICAST));
        }
        let note = |p: &mut Packet, to: u32| p.set_dst_ip(to.to_be_bytes());
        let (aged, mtu) = (&more.aged, shape.mtu);
        match shape.hops {
            0 => link.send(packets, row, mtu, |_: &mut [u8; 20], _| {}, note),
            _ => {
                let change = move |header: &mut [u8; 20], at: usize| {
                    [header[8], header[9], header[10], header[11]] = aged[at].to_le_bytes();
                };
                link.send(packets, row, mtu, change, note)
            }
        }
    }

    fn flow_hash(datagram: &[u8], to: u32) -> u32 {
        flow_hash(datagram, to)
    }
}

/// Whether a packet is marked as by the element that checked its header at byte `at`, and is for who the header says.
#[inline(always)]
fn is_marked(packet: &Packet, at: usize, words: [u32; 5]) -> bool {
    let len = usize::from(((words[0] >> 16) as u16).swap_bytes());
    packet.network_offset() == Some(at as i32)
        && packet.transport_offset() == Some(at as i32 + 20)
        && packet.len() == at + len
        && packet.dst_ip() == words[4].to_le_bytes()
}

/// [`Ip::admit`], with checksums or without; in doubt of packets that `is_suspect` holds of.
// Apart, so that the loop has all registers to itself.
#[inline(never)]
fn admit<const SUM: bool>(
    packets: &[Packet],
    at: usize,
    found: &mut Found<u32>,
    more: &mut More,
    is_suspect: impl Fn(&Packet, [u32; 5]) -> bool,
) -> (usize, bool) {
    let Found { to, behind, ports, .. } = found;
    let columns = ipv4::Columns { to, behind, aged: &mut more.aged, marks: &mut more.marks };
    // What hardly any packet has is asked for together, and only if one has it for each.
    let (mut facts, mut fix, mut doubt) = (Facts::NONE, 0, false);
    let survey = more.headers.survey::<SUM>(packets, at, columns, |packet, words| {
        facts = facts.and(packet.facts());
        fix |= packet.anno_u8(anno::FIX_IP_SRC);
        doubt |= is_suspect(packet, words);
    });
    more.all_marks = survey.marks;
    if survey.marks & ipv4::DYING == 0 {
        ports.fill(0);
    } else {
        ports.iter_mut().zip(&more.marks).for_each(|(port, mark)| *port = mark & NOT_PLAIN);
    }
    if fix != 0 || facts.has_any(Facts::GROUP) {
        for (port, packet) in ports.iter_mut().zip(&packets[..survey.rows]) {
            if packet.is_any(Facts::GROUP) || packet.anno_u8(anno::FIX_IP_SRC) != 0 {
                *port = NOT_PLAIN;
            }
        }
    }
    (survey.rows, doubt)
}
