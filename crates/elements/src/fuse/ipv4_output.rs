// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an IPv4 packet goes through between its route and its device: `DropBroadcasts`, `PaintTee` or `CheckPaint`,
//! `IPGWOptions`, `FixIPSrc`, `DecIPTTL`, `IPFragmenter`, and `ARPQuerier` or `EtherEncap` last.
//!
//! Ordinary is a packet with a header of 20 bytes, time to live, a length within the MTU and a known neighbour, that no element
//! has to copy, repair or drop.

use element::Element;
use element::clock::Nanos;
use element::fuse::{Chain, Fusion, Offer, Pass, member};
use packet::{Facts, Packet, anno};
use wire::checksum::decrement_ttl;
use wire::ethernet::HEADER_LEN;

use super::forward::STEP;
use super::output::{self, Common, Link, Row, ordinary};
use super::rows::Rows;
use crate::ethernet::arp_querier::ArpQuerier;
use crate::ethernet::resolver::Resolver;
use crate::ip::dec_ip_ttl::DecIpTtl;
use crate::ip::fix_ip_src::FixIpSrc;
use crate::ip::ip_fragmenter::IpFragmenter;
use crate::ip::ip_gw_options::IpGwOptions;

pub(super) const FUSION: Fusion = Fusion { name: "IPv4 output", find };

/// Where the elements stand in the chain.
#[derive(Default)]
pub(super) struct Output {
    common: Common,
    options: Option<usize>,
    fix: Option<usize>,
    ttl: Option<usize>,
    mtu: Option<usize>,
    arp: Option<usize>,
}

impl Output {
    /// The place for an element of this kind, if the pass knows the kind.
    fn place(&mut self, element: &dyn Element) -> Option<&mut Option<usize>> {
        Some(if member::<IpGwOptions>(element).is_some() {
            &mut self.options
        } else if member::<FixIpSrc>(element).is_some() {
            &mut self.fix
        } else if member::<DecIpTtl>(element).is_some() {
            &mut self.ttl
        } else if member::<IpFragmenter>(element).is_some() {
            &mut self.mtu
        } else if member::<ArpQuerier>(element).is_some() {
            &mut self.arp
        } else {
            return self.common.place(element);
        })
    }
}

/// Finds the elements of the output, and says how many there are.
pub(super) fn place(chain: &[&dyn Element]) -> (usize, Output) {
    let mut output = Output::default();
    let n = output::place(chain, &mut output, Output::place, |o| o.arp.is_some() || o.common.ether.is_some());
    (n, output)
}

fn find(chain: &[&dyn Element]) -> Option<Offer> {
    let (elements, output) = place(chain);
    Some(Offer { elements, pass: Box::new(output) })
}

/// What makes a packet ordinary, read from the elements for each batch.
#[derive(Clone, Copy)]
struct Demands {
    common: output::Demands,
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
}

impl Output {
    /// Reads the settings of the elements, the first of which stands at `first` in the chain.
    fn demands(&self, chain: &Chain<'_>, first: usize) -> Demands {
        let ttl = self.ttl.and_then(|at| chain.get::<DecIpTtl>(first + at)).filter(|t| t.active);
        Demands {
            common: self.common.demands(chain, first),
            fix_mask: if self.fix.is_some() { 0xff } else { 0 },
            mtu: self.mtu.and_then(|at| chain.get(first + at)).map_or(usize::MAX, IpFragmenter::mtu),
            ttl_min: if ttl.is_some() { 2 } else { 0 },
            ttl: ttl.is_some(),
            unicast: ttl.is_some_and(|t| !t.multicast),
        }
    }

    /// The link header that is put in front; `None` when the element has something to say first.
    fn link<'a>(&self, chain: &'a Chain<'_>, first: usize, now: Nanos) -> Option<Link<'a, u32>> {
        if let Some(arp) = self.arp.and_then(|at| chain.get::<ArpQuerier>(first + at)) {
            return Some(Link::Known(arp.known(now)?, arp.header_rest()));
        }
        Some(Link::fixed(self.common.ether.and_then(|at| chain.get(first + at))))
    }

    /// What there is to do for packets of this paint, if they can be ordinary, during a batch. The pass is one over a branch
    /// that begins at `first`.
    pub(super) fn live<'a>(
        &self,
        chain: &'a Chain<'_>,
        first: usize,
        color: Option<u8>,
        now: Nanos,
    ) -> Option<Live<'a>> {
        let demands = self.demands(chain, first);
        // Whether packets are painted right is asked once, or not here.
        if demands.common.may_refuse(color) {
            return None;
        }
        Some(Live { demands, link: self.link(chain, first, now)? })
    }
}

/// The elements' settings during a batch.
#[derive(Clone, Copy)]
pub(super) struct Live<'a> {
    demands: Demands,
    link: Link<'a, u32>,
}

impl Live<'_> {
    /// Does what the chain does to [plain](is_plain) packets that live, up to the first that is not ordinary, which is untouched. `aged` are the
    /// third words of all headers with one taken from their time to live, and `multicast` says which go to a group. Returns how many packets they are.
    #[inline]
    pub(super) fn send(
        &self,
        packets: &mut [Packet],
        mut row: Row<'_, u32>,
        aged: &[u32; STEP],
        multicast: impl FnOnce() -> Rows,
    ) -> usize {
        let Demands { mtu, ttl, unicast, .. } = self.demands;
        if unicast {
            row.rows = row.rows.before(multicast());
        }
        let note = |p: &mut Packet, to: u32| p.set_dst_ip(to.to_be_bytes());
        match ttl {
            false => self.link.send(packets, row, mtu, |_: &mut [u8; 20], _| {}, note),
            true => {
                let change = move |header: &mut [u8; 20], at: usize| {
                    [header[8], header[9], header[10], header[11]] = aged[at].to_le_bytes();
                };
                self.link.send(packets, row, mtu, change, note)
            }
        }
    }
}

/// Whether no output, whatever elements it has, finds a fault with a packet but for what its header says, its length and its neighbour.
#[inline(always)]
pub(super) fn is_plain(p: &Packet) -> bool {
    !p.is_any(Facts::GROUP) && p.anno_u8(anno::FIX_IP_SRC) == 0
}

impl Pass for Output {
    fn run(&mut self, chain: &Chain<'_>, batch: &mut [Packet], now: Nanos) -> usize {
        let demands = self.demands(chain, 0);
        match self.link(chain, 0, now) {
            None => 0,
            Some(Link::None) => ordinary(batch, |p| demands.carry(p, 0)),
            Some(Link::Fixed(mac, rest)) => ordinary(batch, |p| {
                demands.carry(p, HEADER_LEN)?;
                p.push_link_header(&mac, &rest).then_some(())
            }),
            Some(Link::Known(known, rest)) => ordinary(batch, |p| {
                let mac = known.get(u32::from_be_bytes(p.dst_ip()))?;
                demands.carry(p, HEADER_LEN)?;
                p.push_link_header(mac, &rest).then_some(())
            }),
        }
    }
}

impl Demands {
    /// Does what the chain does to a packet up to the link header, for which there is to be `headroom`; `None`, with the packet
    /// untouched, if it is not ordinary.
    #[inline]
    fn carry(&self, p: &mut Packet, headroom: usize) -> Option<()> {
        let refused = self.common.refuse(p)
            || p.anno_u8(anno::FIX_IP_SRC) & self.fix_mask != 0
            || p.headroom() < headroom;
        if refused {
            return None;
        }
        let (header, len) = p.sole_network::<20>()?;
        if len > self.mtu || header[0] != 0x45 || self.refuse_header(header) {
            return None;
        }
        if self.ttl {
            decrement_ttl(header);
        }
        Some(())
    }

    /// Whether a header must be seen by an element.
    #[inline(always)]
    fn refuse_header(&self, header: &[u8; 20]) -> bool {
        header[8] < self.ttl_min || (self.unicast && header[16] & 0xf0 == 0xe0)
    }
}
