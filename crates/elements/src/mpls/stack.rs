// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of label stacks, and the models of the time to live (RFC 3443).

use std::net::IpAddr;

use element::Reason;
use element::args::{FromArg, Names};
use packet::{Packet, anno};
use wire::ipv4::HeaderMut;
use wire::mpls::{ENTRY_LEN, Entry, View, payload_type};
use wire::{EtherType, ipv4};

/// Where the time to live of labels comes from and goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Model {
    /// A label switched path is as many hops as it has routers: labels take over the TTL of what they are pushed on, and hand it back.
    #[default]
    Uniform,
    /// A label switched path is one hop: labels begin with 255, and what is below keeps its TTL.
    Pipe,
}

impl FromArg for Model {
    const EXPECTED: &'static str = "uniform, pipe or short-pipe";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        match text {
            "uniform" => Ok(Model::Uniform),
            "pipe" | "short-pipe" => Ok(Model::Pipe),
            _ => Err(String::new()),
        }
    }
}

impl Model {
    /// The model of an adjacency that may have its own.
    pub(super) fn or(self, propagates: Option<bool>) -> Model {
        match propagates {
            None => self,
            Some(true) => Model::Uniform,
            Some(false) => Model::Pipe,
        }
    }
}

/// The traffic class of labels that are pushed onto IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Class {
    /// The first three bits of the packet's DSCP.
    #[default]
    Copied,
    Fixed(u8),
}

impl FromArg for Class {
    const EXPECTED: &'static str = "a traffic class from 0 to 7, or 'copy'";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        if text == "copy" {
            return Ok(Class::Copied);
        }
        u8::from_arg(text, names).ok().filter(|tc| *tc < 8).map(Class::Fixed).ok_or_else(String::new)
    }
}

/// An IP packet's time to live and class selector, if its header is there.
fn ip_ttl(packet: &[u8]) -> Option<(u8, u8)> {
    match payload_type(packet)? {
        EtherType::IPV4 => packet.first_chunk::<{ ipv4::HEADER_LEN }>().map(|h| (h[8], h[1] >> 5)),
        _ => packet.first_chunk::<40>().map(|h| (h[7], h[0] << 4 >> 5)),
    }
}

/// Whether a packet begins with an IP header.
pub(super) fn is_ip(packet: &Packet) -> bool {
    ip_ttl(packet.data()).is_some()
}

/// Lowers the time to live of the IP packet to `ttl` if it is greater.
fn lower_ip_ttl(packet: &mut Packet, ttl: u8) {
    let Some((before, _)) = ip_ttl(packet.data()) else { return };
    if before <= ttl {
        return;
    }
    match payload_type(packet.data()) {
        Some(EtherType::IPV4) => {
            if let Some(header) = packet.data_mut().first_chunk_mut() {
                HeaderMut::from_chunk(header).rewrite_ttl(ttl);
            }
        }
        _ => packet.data_mut()[7] = ttl,
    }
}

/// The entry in front of a packet.
#[inline]
pub(super) fn top(packet: &Packet) -> Option<Entry> {
    packet.data().first_chunk().map(|bytes| Entry::from_bytes(*bytes))
}

#[inline]
fn write_entry(bytes: &mut [u8], at: usize, entry: Entry) {
    if let Some(place) = bytes.get_mut(at * ENTRY_LEN..).and_then(|b| b.first_chunk_mut()) {
        *place = entry.to_bytes();
    }
}

/// Takes the first `count` entries off, of which `outer` is the one whose TTL counts. In the uniform model what comes to light takes over `ttl`,
/// if that is less than its own; a label takes over the traffic class, too.
pub(super) fn pop(packet: &mut Packet, count: usize, is_bottom: bool, outer: Entry, ttl: u8, model: Model) {
    packet.strip(count * ENTRY_LEN);
    if model == Model::Pipe {
        return;
    }
    if is_bottom {
        lower_ip_ttl(packet, ttl);
    } else if let Some(inner) = top(packet) {
        let ttl = ttl.min(inner.ttl());
        write_entry(packet.data_mut(), 0, Entry::new(inner.label(), outer.tc(), inner.is_bottom(), ttl));
    }
}

/// Puts other labels in the place of the first, which had `ttl` left. `labels` has one at least.
pub(super) fn swap(
    packet: &mut Packet,
    old: Entry,
    ttl: u8,
    labels: &[u32],
    model: Model,
) -> Result<(), Reason> {
    let more = labels.len() - 1;
    if more > 0 && packet.push(more * ENTRY_LEN).is_none() {
        return Err(Reason::NoMemory);
    }
    let bytes = packet.data_mut();
    for (at, label) in labels.iter().enumerate() {
        let (is_swapped, tunnel) = (at == more, if model == Model::Pipe { 255 } else { ttl });
        let entry = match is_swapped {
            true => Entry::new(*label, old.tc(), old.is_bottom(), ttl),
            false => Entry::new(*label, old.tc(), false, tunnel),
        };
        write_entry(bytes, at, entry);
    }
    Ok(())
}

/// Puts labels onto an IP packet. The last label gets the S bit. With `entropy`, an entropy label follows, with its indicator
/// (RFC 6790).
pub(super) fn impose(
    packet: &mut Packet,
    labels: &[u32],
    model: Model,
    class: Class,
    entropy: Option<u32>,
) -> Result<(), Reason> {
    let (ip_ttl, selector) = ip_ttl(packet.data()).ok_or(Reason::BadVersion)?;
    let ttl = if model == Model::Pipe { 255 } else { ip_ttl };
    let tc = match class {
        Class::Copied => selector,
        Class::Fixed(tc) => tc,
    };
    let count = labels.len() + if entropy.is_some() { 2 } else { 0 };
    let bytes = packet.push(count * ENTRY_LEN).ok_or(Reason::NoMemory)?;
    for (at, label) in labels.iter().enumerate() {
        write_entry(bytes, at, Entry::new(*label, tc, at + 1 == count, ttl));
    }
    if let Some(entropy) = entropy {
        write_entry(bytes, labels.len(), Entry::new(wire::mpls::ENTROPY_INDICATOR, tc, false, ttl));
        // Its TTL is 0, so that nobody forwards by it.
        write_entry(bytes, labels.len() + 1, Entry::new(entropy, 0, true, 0));
    }
    Ok(())
}

/// Says where a packet goes on its link, and with which EtherType.
#[inline]
pub(super) fn address(packet: &mut Packet, gateway: Option<IpAddr>, ethertype: EtherType) {
    match gateway {
        Some(IpAddr::V4(gateway)) => packet.set_dst_ip(gateway.octets()),
        Some(IpAddr::V6(gateway)) => packet.set_anno(anno::DST_IP, gateway.octets()),
        None => {}
    }
    packet.set_anno(anno::ETHERTYPE, ethertype.0.to_be_bytes());
}

/// Marks the IP header below a whole label stack, and says what it is.
pub(super) fn mark_payload(packet: &mut Packet, depth: usize) -> Option<EtherType> {
    let view = View::new_checked(packet.data(), depth).ok()?;
    let (kind, at) = (view.payload_type()?, view.stack_len());
    packet.set_network_offset(at as i32);
    Some(kind)
}
