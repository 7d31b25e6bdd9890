// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a received IPv6 packet goes through before its route is looked up: `Paint`, `Strip`, `CheckIP6Header`,
//! `IP6HopByHop`, `GetIP6Address`.
//!
//! Ordinary is a packet in which CheckIP6Header finds no fault, without hop-by-hop options where somebody looks at them.

use engine::Element;
use engine::clock::Nanos;
use engine::fuse::{Chain, Fusion, Offer, Pass, member};
use packet::{Packet, anno};

use crate::basic::paint::Paint;
use crate::basic::strip::Strip;
use crate::ip6::HEADER_LEN;
use crate::ip6::check_ip6_header::{CheckIp6Header, Rules};
use crate::ip6::get_ip6_address::GetIp6Address;
use crate::ip6::ip6_hop_by_hop::Ip6HopByHop;

pub(super) const FUSION: Fusion = Fusion { name: "IPv6 input", find };

/// Where the elements stand in the chain.
struct Input {
    paint: Option<usize>,
    strip: Option<usize>,
    check: usize,
    /// Whether hop-by-hop options make a packet extraordinary.
    options: bool,
}

fn find(chain: &[&dyn Element]) -> Option<Offer> {
    let mut at = 0;
    let mut take = |fits: &dyn Fn(&dyn Element) -> bool| {
        let here = chain.get(at).filter(|e| fits(**e)).map(|_| at);
        at += usize::from(here.is_some());
        here
    };
    let paint = take(&|e| member(e).is_some_and(Paint::is_common));
    let strip = take(&|e| member::<Strip>(e).is_some());
    let check = take(&|e| member::<CheckIp6Header>(e).is_some())?;
    // The check sets the destination annotation, so there is nothing left to do for who reads the same bytes.
    let plain = member::<CheckIp6Header>(chain[check]).is_some_and(|c| c.rules.offset == 0);
    let read = |e: &dyn Element| plain && member(e).is_some_and(GetIp6Address::is_destination);
    let before = take(&read);
    let options = take(&|e| member::<Ip6HopByHop>(e).is_some()).is_some();
    if before.is_none() {
        take(&read);
    }
    Some(Offer { elements: at, pass: Box::new(Input { paint, strip, check, options }) })
}

impl Pass for Input {
    fn run(&mut self, chain: &Chain<'_>, batch: &mut [Packet], _: Nanos) -> usize {
        let color = self.paint.and_then(|at| chain.get(at)).map(Paint::color);
        let strip = self.strip.and_then(|at| chain.get(at)).map_or(0, Strip::length);
        let Some(check) = chain.get::<CheckIp6Header>(self.check) else { return 0 };
        let options = self.options;
        let fault = batch.iter_mut().position(|p| !admit(p, color, strip, options, &check.rules));
        fault.unwrap_or(batch.len())
    }
}

/// Does what the chain does to an ordinary packet; false, with the packet untouched, if it is none.
#[inline]
fn admit(packet: &mut Packet, color: Option<u8>, strip: usize, options: bool, rules: &Rules) -> bool {
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
