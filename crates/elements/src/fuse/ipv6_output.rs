// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an IPv6 packet goes through between its route and its device: `DropBroadcasts`, `CheckIP6Scope`, `PaintTee` or
//! `CheckPaint`, `DecIP6HLIM`, `IP6Fragmenter`, and `IP6NDSolicitor` or `EtherEncap` last.
//!
//! Ordinary is a packet between global addresses, with hops to go, a length within the MTU and a known neighbour, that no
//! element has to copy or drop.

use element::Element;
use element::clock::Nanos;
use element::fuse::{Chain, Fusion, Offer, Pass, member};
use packet::{Facts, Packet, anno};
use wire::ethernet::HEADER_LEN as LINK_HEADER_LEN;

use super::output::{self, Common, Link, Row, ordinary};
use crate::ethernet::resolver::Resolver;
use crate::ip6::HEADER_LEN;
use crate::ip6::check_ip6_header::Admitted;
use crate::ip6::check_ip6_scope::{CheckIp6Scope, are_global};
use crate::ip6::dec_ip6_hlim::DecIp6Hlim;
use crate::ip6::ip6_fragmenter::Ip6Fragmenter;
use crate::ip6::ip6_nd_solicitor::Solicitor;

pub(super) const FUSION: Fusion = Fusion { name: "IPv6 output", find };

/// Where the elements stand in the chain.
#[derive(Default)]
pub(super) struct Output {
    common: Common,
    scope: Option<usize>,
    limit: Option<usize>,
    mtu: Option<usize>,
    neighbours: Option<usize>,
}

impl Output {
    /// The place for an element of this kind, if the pass knows the kind.
    fn place(&mut self, element: &dyn Element) -> Option<&mut Option<usize>> {
        Some(if member::<CheckIp6Scope>(element).is_some() {
            &mut self.scope
        } else if member::<DecIp6Hlim>(element).is_some() {
            &mut self.limit
        } else if member::<Ip6Fragmenter>(element).is_some() {
            &mut self.mtu
        } else if member::<Solicitor>(element).is_some() {
            &mut self.neighbours
        } else {
            return self.common.place(element);
        })
    }

    /// Whether any of the elements is one for IPv6.
    fn is_ipv6(&self) -> bool {
        [self.scope, self.limit, self.mtu, self.neighbours].iter().any(Option::is_some)
    }

    /// Reads the settings of the elements, the first of which stands at `first` in the chain.
    fn demands(&self, chain: &Chain<'_>, first: usize) -> Demands {
        let link = self.neighbours.is_some() || self.common.ether.is_some();
        Demands {
            common: self.common.demands(chain, first),
            global: self.scope.is_some(),
            mtu: self.mtu.and_then(|at| chain.get(first + at)).map_or(usize::MAX, Ip6Fragmenter::mtu),
            hops: u8::from(self.limit.is_some()),
            headroom: if link { LINK_HEADER_LEN } else { 0 },
        }
    }

    /// The link header that is put in front; `None` when the element has something to say first.
    fn link<'a>(&self, chain: &'a Chain<'_>, first: usize, now: Nanos) -> Option<Link<'a, u128>> {
        if let Some(solicitor) = self.neighbours.and_then(|at| chain.get::<Solicitor>(first + at)) {
            return Some(Link::Known(solicitor.known(now)?, solicitor.header_rest()));
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
        Some(Live { mtu: demands.mtu, hops: demands.hops, link: self.link(chain, first, now)? })
    }
}

/// Finds the elements of the output, and says how many there are.
pub(super) fn place(chain: &[&dyn Element]) -> (usize, Output) {
    let mut output = Output::default();
    let ends = |o: &Output| o.neighbours.is_some() || o.common.ether.is_some();
    let n = output::place(chain, &mut output, Output::place, ends);
    (n, output)
}

fn find(chain: &[&dyn Element]) -> Option<Offer> {
    let (n, output) = place(chain);
    output.is_ipv6().then(|| Offer { elements: n, pass: Box::new(output) })
}

/// What an output does to [plain](is_plain) packets during a batch.
#[derive(Clone, Copy)]
pub(super) struct Live<'a> {
    /// Longest packet in bytes.
    mtu: usize,
    /// What is taken from the hop limit.
    hops: u8,
    link: Link<'a, u128>,
}

impl Live<'_> {
    /// Does what the chain does to plain packets in a row, up to the first that is not ordinary, which is untouched. Returns how many
    /// they are.
    #[inline]
    pub(super) fn send(&self, packets: &mut [Packet], row: Row<'_, u128>) -> usize {
        let hops = self.hops;
        let change = move |header: &mut [u8; HEADER_LEN], _| header[7] -= hops;
        self.link.send(packets, row, self.mtu, change, |p, to| p.set_anno(anno::DST_IP, to.to_be_bytes()))
    }
}

/// Whether no output, whatever elements it has, finds a fault with a packet of this header but for its length and its neighbour.
#[inline(always)]
pub(super) fn is_plain(p: &Packet, header: &Admitted) -> bool {
    header.hop_limit > 1 && header.global && !p.is_any(Facts::GROUP)
}

/// What makes a packet ordinary, read from the elements for each batch.
struct Demands {
    common: output::Demands,
    /// Both addresses must be global ones.
    global: bool,
    /// Longest packet in bytes.
    mtu: usize,
    /// What is taken from the hop limit, which must be more.
    hops: u8,
    /// Headroom for the link header in bytes.
    headroom: usize,
}

impl Pass for Output {
    fn run(&mut self, chain: &Chain<'_>, batch: &mut [Packet], now: Nanos) -> usize {
        let demands = self.demands(chain, 0);
        match self.link(chain, 0, now) {
            None => 0,
            Some(Link::None) => ordinary(batch, |p| demands.carry(p)),
            Some(Link::Fixed(mac, rest)) => ordinary(batch, |p| {
                demands.carry(p)?;
                p.push_link_header(&mac, &rest).then_some(())
            }),
            Some(Link::Known(known, rest)) => ordinary(batch, |p| {
                let mac = known.get(u128::from_be_bytes(p.anno(anno::DST_IP)))?;
                demands.carry(p)?;
                p.push_link_header(mac, &rest).then_some(())
            }),
        }
    }
}

impl Demands {
    /// Does what the chain does to a packet up to the link header; `None`, with the packet untouched, if it is not ordinary.
    #[inline]
    fn carry(&self, p: &mut Packet) -> Option<()> {
        let refused = self.common.refuse(p) || p.headroom() < self.headroom;
        if refused {
            return None;
        }
        let (header, len) = p.sole_network::<HEADER_LEN>()?;
        if len > self.mtu || header[7] <= self.hops || (self.global && !are_global(header)) {
            return None;
        }
        header[7] -= self.hops;
        Some(())
    }
}
