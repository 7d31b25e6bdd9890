// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a received IPv4 packet goes through before its route is looked up: `Paint`, `Strip`, `CheckIPHeader`,
//! `GetIPAddress`.
//!
//! Ordinary is a packet with a header of 20 bytes in which CheckIPHeader finds no fault.

use engine::Element;
use engine::clock::Nanos;
use engine::fuse::{Chain, Fusion, Offer, Pass, member};
use packet::Packet;

use crate::basic::paint::Paint;
use crate::basic::strip::Strip;
use crate::ip::check_ip_header::{CheckIpHeader, Rules};
use crate::ip::get_ip_address::GetIpAddress;

pub(super) const FUSION: Fusion = Fusion { name: "IPv4 input", find };

/// Where the elements stand in the chain.
struct Input {
    paint: Option<usize>,
    strip: Option<usize>,
    check: usize,
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
    let check = take(&|e| member::<CheckIpHeader>(e).is_some())?;
    // The check sets the destination annotation, so there is nothing left to do for who reads the same bytes.
    let plain = member::<CheckIpHeader>(chain[check]).is_some_and(|c| c.rules.offset == 0);
    take(&|e| plain && member(e).is_some_and(GetIpAddress::is_plain_destination));
    Some(Offer { elements: at, pass: Box::new(Input { paint, strip, check }) })
}

impl Pass for Input {
    fn run(&mut self, chain: &Chain<'_>, batch: &mut [Packet], _: Nanos) -> usize {
        let color = self.paint.and_then(|at| chain.get(at)).map(Paint::color);
        let strip = self.strip.and_then(|at| chain.get(at)).map_or(0, Strip::length);
        let Some(check) = chain.get::<CheckIpHeader>(self.check) else { return 0 };
        let fault = batch.iter_mut().position(|p| !admit(p, color, strip, &check.rules));
        fault.unwrap_or(batch.len())
    }
}

/// Does what the chain does to an ordinary packet; false, with the packet untouched, if it is none.
#[inline]
fn admit(packet: &mut Packet, color: Option<u8>, strip: usize, rules: &Rules) -> bool {
    let Some(destination) = rules.admit(packet, strip) else { return false };
    packet.enter_network(strip, rules.offset + destination.ip_len, rules.offset, 20);
    packet.set_dst_ip(destination.address);
    if let Some(color) = color {
        packet.set_paint(color);
    }
    true
}
