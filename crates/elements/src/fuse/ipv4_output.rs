// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an IPv4 packet goes through between its route and its device: `DropBroadcasts`, `PaintTee` or `CheckPaint`,
//! `IPGWOptions`, `FixIPSrc`, `DecIPTTL`, `IPFragmenter`, and `ARPQuerier` or `EtherEncap` last.
//!
//! Ordinary is a packet with a header of 20 bytes, time to live, a length within the MTU and a known neighbour, that no element
//! has to copy, repair or drop.

use engine::Element;
use engine::clock::Nanos;
use engine::fuse::{Chain, Fusion, Offer, Pass, member};
use packet::{Packet, anno};
use wire::checksum::decrement_ttl;
use wire::ethernet::HEADER_LEN;

use crate::basic::check_paint::CheckPaint;
use crate::basic::paint_tee::PaintTee;
use crate::ethernet::arp_querier::ArpQuerier;
use crate::ethernet::ether_encap::EtherEncap;
use crate::ip::dec_ip_ttl::DecIpTtl;
use crate::ip::drop_broadcasts::DropBroadcasts;
use crate::ip::fix_ip_src::FixIpSrc;
use crate::ip::ip_fragmenter::IpFragmenter;
use crate::ip::ip_gw_options::IpGwOptions;

pub(super) const FUSION: Fusion = Fusion { name: "IPv4 output", find };

/// Where the elements stand in the chain.
#[derive(Default)]
struct Output {
    broadcasts: Option<usize>,
    paint_tee: Option<usize>,
    check_paint: Option<usize>,
    options: Option<usize>,
    fix: Option<usize>,
    ttl: Option<usize>,
    mtu: Option<usize>,
    arp: Option<usize>,
    ether: Option<usize>,
}

impl Output {
    /// The place for an element of this kind, if the pass knows the kind.
    fn place(&mut self, element: &dyn Element) -> Option<&mut Option<usize>> {
        Some(if member::<DropBroadcasts>(element).is_some() {
            &mut self.broadcasts
        } else if member(element).is_some_and(PaintTee::is_common) {
            &mut self.paint_tee
        } else if member(element).is_some_and(CheckPaint::is_common) {
            &mut self.check_paint
        } else if member::<IpGwOptions>(element).is_some() {
            &mut self.options
        } else if member::<FixIpSrc>(element).is_some() {
            &mut self.fix
        } else if member::<DecIpTtl>(element).is_some() {
            &mut self.ttl
        } else if member::<IpFragmenter>(element).is_some() {
            &mut self.mtu
        } else if member::<ArpQuerier>(element).is_some() {
            &mut self.arp
        } else if member::<EtherEncap>(element).is_some() {
            &mut self.ether
        } else {
            return None;
        })
    }
}

fn find(chain: &[&dyn Element]) -> Option<Offer> {
    let mut output = Output::default();
    let mut n = 0;
    for element in chain {
        match output.place(*element) {
            Some(place) if place.is_none() => *place = Some(n),
            _ => break,
        }
        n += 1;
        if output.arp.is_some() || output.ether.is_some() {
            break;
        }
    }
    Some(Offer { elements: n, pass: Box::new(output) })
}

/// What makes a packet ordinary, read from the elements for each batch. Each demand is a few bits, so that all are asked in
/// one go.
struct Demands {
    /// Link-level broadcast and multicast are refused.
    refuse_groups: bool,
    /// The paint that is refused; beyond a byte for none.
    refused_paint: u32,
    /// The paint that is asked for, in the bits of `painted_mask`.
    painted: u8,
    painted_mask: u8,
    /// Bits of the annotation for FixIPSrc that must be zero.
    fix_mask: u8,
    /// Longest datagram in bytes.
    mtu: usize,
    /// Least time to live, and what is taken from it.
    ttl_min: u8,
    /// Time to live is taken from packets.
    ttl: bool,
    /// Multicast destinations are refused, since their time to live is left alone.
    unicast: bool,
    /// Headroom for the link header in bytes.
    headroom: usize,
}

impl Output {
    fn demands(&self, chain: &Chain<'_>) -> Demands {
        let ttl = self.ttl.and_then(|at| chain.get::<DecIpTtl>(at)).filter(|t| t.active);
        let refused = self.paint_tee.and_then(|at| chain.get(at)).map(PaintTee::color);
        let painted = self.check_paint.and_then(|at| chain.get(at)).map(CheckPaint::color);
        let link = self.arp.is_some() || self.ether.is_some();
        Demands {
            refuse_groups: self.broadcasts.is_some(),
            refused_paint: refused.map_or(u32::MAX, u32::from),
            painted: painted.unwrap_or(0),
            painted_mask: if painted.is_some() { 0xff } else { 0 },
            fix_mask: if self.fix.is_some() { 0xff } else { 0 },
            mtu: self.mtu.and_then(|at| chain.get(at)).map_or(usize::MAX, IpFragmenter::mtu),
            ttl_min: if ttl.is_some() { 2 } else { 0 },
            ttl: ttl.is_some(),
            unicast: ttl.is_some_and(|t| !t.multicast),
            headroom: if link { HEADER_LEN } else { 0 },
        }
    }
}

impl Pass for Output {
    fn run(&mut self, chain: &Chain<'_>, batch: &mut [Packet], now: Nanos) -> usize {
        let demands = self.demands(chain);
        if let Some(arp) = self.arp.and_then(|at| chain.get::<ArpQuerier>(at)) {
            let Some(known) = arp.known(now) else { return 0 };
            let rest = arp.header_rest();
            return ordinary(batch, |p| {
                let mac = known.get(u32::from_be_bytes(p.dst_ip()))?;
                demands.carry(p)?;
                p.push_link_header(mac, &rest).then_some(())
            });
        }
        if let Some(ether) = self.ether.and_then(|at| chain.get::<EtherEncap>(at)) {
            let [a, b, c, d, e, f, rest @ ..] = ether.header();
            let dst = [a, b, c, d, e, f];
            return ordinary(batch, |p| {
                demands.carry(p)?;
                p.push_link_header(&dst, &rest).then_some(())
            });
        }
        ordinary(batch, |p| demands.carry(p))
    }
}

/// How many packets `carry` takes before the first it does not.
#[inline]
fn ordinary(batch: &mut [Packet], mut carry: impl FnMut(&mut Packet) -> Option<()>) -> usize {
    batch.iter_mut().position(|p| carry(p).is_none()).unwrap_or(batch.len())
}

impl Demands {
    /// Does what the chain does to a packet up to the link header; `None`, with the packet untouched, if it is not ordinary.
    #[inline]
    fn carry(&self, p: &mut Packet) -> Option<()> {
        let paint = p.paint();
        let refused = p.is_group() & self.refuse_groups
            || u32::from(paint) == self.refused_paint
            || (paint ^ self.painted) & self.painted_mask != 0
            || p.anno_u8(anno::FIX_IP_SRC) & self.fix_mask != 0
            || p.headroom() < self.headroom;
        if refused {
            return None;
        }
        let (header, len) = p.sole_network::<20>()?;
        if len > self.mtu
            || header[0] != 0x45
            || header[8] < self.ttl_min
            || (self.unicast && header[16] & 0xf0 == 0xe0)
        {
            return None;
        }
        if self.ttl {
            decrement_ttl(header);
        }
        Some(())
    }
}
