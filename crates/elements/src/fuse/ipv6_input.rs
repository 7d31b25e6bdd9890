// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a received IPv6 packet goes through before its route is looked up: `Paint`, `Strip`, `CheckIP6Header`,
//! `IP6HopByHop`, `GetIP6Address`.
//!
//! Ordinary is a packet in which CheckIP6Header finds no fault, without hop-by-hop options where somebody looks at them.

use element::Element;
use element::clock::Nanos;
use element::fuse::{Chain, Fusion, Offer, Pass, member};
use packet::{Packet, anno};

use crate::basic::paint::Paint;
use crate::basic::strip::Strip;
use crate::ip6::HEADER_LEN;
use crate::ip6::check_ip6_header::{CheckIp6Header, Rules};
use crate::ip6::get_ip6_address::GetIp6Address;
use crate::ip6::ip6_hop_by_hop::Ip6HopByHop;

pub(super) const FUSION: Fusion = Fusion { name: "IPv6 input", find };

/// Where the elements stand in the chain.
pub(super) struct Input {
    paint: Option<usize>,
    strip: Option<usize>,
    check: usize,
    /// Whether hop-by-hop options make a packet extraordinary.
    options: bool,
}

/// Finds the elements of the input, and says how many there are.
pub(super) fn place(chain: &[&dyn Element]) -> Option<(usize, Input)> {
    let mut at = 0;
    let mut take = |fits: &dyn Fn(&dyn Element) -> bool| {
        let here = chain.get(at).filter(|e| fits(**e)).map(|_| at);
        at += usize::from(here.is_some());
        here
    };
    let paint = take(&|e| member(e).is_some_and(Paint::is_common));
    let strip = take(&|e| member::<Strip>(e).is_some());
    let check = take(&|e| member::<CheckIp6Header>(e).is_some())?;
    let mut input = Input { paint, strip, check, options: false };
    // The check sets the destination annotation, so there is nothing left to do for who reads the same bytes.
    let plain = input.offset(chain) == Some(0);
    let read = |e: &dyn Element| plain && member(e).is_some_and(GetIp6Address::is_destination);
    let before = take(&read);
    input.options = take(&|e| member::<Ip6HopByHop>(e).is_some()).is_some();
    if before.is_none() {
        take(&read);
    }
    Some((at, input))
}

fn find(chain: &[&dyn Element]) -> Option<Offer> {
    let (elements, input) = place(chain)?;
    Some(Offer { elements, pass: Box::new(input) })
}

/// The elements' settings during a batch.
#[derive(Clone, Copy)]
pub(super) struct Live<'a> {
    /// The paint, if there is one.
    pub(super) color: Option<u8>,
    /// Bytes to be stripped.
    pub(super) strip: usize,
    /// Whether hop-by-hop options make a packet extraordinary.
    pub(super) options: bool,
    pub(super) rules: &'a Rules,
}

impl Input {
    /// Bytes before the IP header that stay.
    pub(super) fn offset(&self, chain: &[&dyn Element]) -> Option<usize> {
        member::<CheckIp6Header>(*chain.get(self.check)?).map(|c| c.rules.offset)
    }

    #[inline]
    pub(super) fn live<'a>(&self, chain: &'a Chain<'_>) -> Option<Live<'a>> {
        let check = chain.get::<CheckIp6Header>(self.check)?;
        Some(Live {
            color: self.paint.and_then(|at| chain.get(at)).map(Paint::color),
            strip: self.strip.and_then(|at| chain.get(at)).map_or(0, Strip::length),
            options: self.options,
            rules: &check.rules,
        })
    }
}

impl Pass for Input {
    fn run(&mut self, chain: &Chain<'_>, batch: &mut [Packet], _: Nanos) -> usize {
        let Some(live) = self.live(chain) else { return 0 };
        let fault = batch.iter_mut().position(|p| !live.admit(p));
        fault.unwrap_or(batch.len())
    }
}

impl Live<'_> {
    /// Does what the chain does to an ordinary packet; false, with the packet untouched, if it is none.
    #[inline]
    fn admit(&self, packet: &mut Packet) -> bool {
        let Live { color, strip, options, rules } = *self;
        let Some(header) = rules.admit(packet, strip).filter(|h| !options || h.next_header != 0) else {
            return false;
        };
        packet.enter_network(strip, rules.offset + header.ip_len, rules.offset, HEADER_LEN);
        packet.set_anno(anno::DST_IP, header.destination);
        if let Some(color) = color {
            packet.set_paint(color);
        }
        true
    }
}
