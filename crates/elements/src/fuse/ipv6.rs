// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv6.

use element::program::{Headers, Version};
use packet::{Facts, Packet, anno};

use super::found::{Found, HeaderPlace, Ip, NOT_PLAIN};
use super::send::{Link, Row};
use super::shape::{self, Header, Shape};
use crate::ip6::HEADER_LEN;
use crate::ip6::check_ip6_scope::are_global;
use crate::routing::lookup_ip6_route::{V6, flow_hash};

pub(super) struct Ipv6;

impl Ip for Ipv6 {
    type Family = V6;
    type Key = u128;
    type More = ();

    const VERSION: Version = Version::Six;
    const HEADER: usize = HEADER_LEN;

    fn admit(
        _: Option<Header<'_>>,
        no_options: bool,
        packets: &[Packet],
        at: usize,
        found: &mut Found<u128>,
        (): &mut (),
    ) -> (usize, bool) {
        // Each source is looked up.
        (read(no_options, packets, at, found), true)
    }

    fn headers<'p>(packets: &'p [Packet], place: HeaderPlace, _: &'p Found<u128>, (): &'p ()) -> Headers<'p> {
        Headers::new(packets, place.at)
    }

    #[inline]
    fn change(shape: &Shape<'_>, packet: &mut Packet, headroom: usize) -> Option<()> {
        if (shape.plain && packet.is_any(Facts::GROUP)) || packet.headroom() < headroom {
            return None;
        }
        let (header, len) = packet.sole_network::<HEADER_LEN>()?;
        let is_plain = header[7] > 1 && are_global(header);
        let has_options = shape.no_options && header[6] == 0;
        if len > shape.mtu || header[0] >> 4 != 6 || (shape.plain && !is_plain) || has_options {
            return None;
        }
        header[7] -= shape.hops;
        Some(())
    }

    fn link<'a>(shape: &Shape<'a>) -> Link<'a, u128> {
        match shape.link {
            shape::Link::Fixed(mac, rest) => Link::Fixed(mac, rest),
            shape::Link::Six(known, rest) => Link::Known(known, rest),
            _ => Link::None,
        }
    }

    #[inline]
    fn send(
        shape: &Shape<'_>,
        link: Link<'_, u128>,
        packets: &mut [Packet],
        row: Row<'_, u128>,
        (): &(),
    ) -> usize {
        let hops = shape.hops;
        let change = move |header: &mut [u8; HEADER_LEN], _| header[7] -= hops;
        link.send(packets, row, shape.mtu, change, |p, to| p.set_anno(anno::DST_IP, to.to_be_bytes()))
    }

    fn flow_hash(datagram: &[u8], to: u128) -> u32 {
        flow_hash(datagram, to)
    }
}

/// Reads headers, up to the first that is not ordinary; returns how many are.
// Apart, so that the loop has all registers to itself.
#[inline(never)]
fn read(no_options: bool, packets: &[Packet], at: usize, found: &mut Found<u128>) -> usize {
    found.ports.fill(0);
    let notes = found.to.iter_mut().zip(&mut found.behind).zip(&mut found.ports);
    let mut n = 0;
    for (packet, ((to, behind), port)) in packets.iter().zip(notes) {
        let Some(header) = packet.chunk_at::<HEADER_LEN>(at) else { break };
        let len = u16::from_be_bytes([header[4], header[5]]);
        let is_whole = usize::from(len) <= packet.len() - at - HEADER_LEN;
        if header[0] >> 4 != 6 || !is_whole || (no_options && header[6] == 0) {
            break;
        }
        let Some(destination) = header.last_chunk::<16>() else { break };
        (*to, *behind) = (u128::from_be_bytes(*destination), len);
        if header[7] <= 1 || !are_global(header) || packet.is_any(Facts::GROUP) {
            *port = NOT_PLAIN;
        }
        n += 1;
    }
    n
}
