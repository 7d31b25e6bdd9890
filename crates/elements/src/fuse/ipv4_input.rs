// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a received IPv4 packet goes through before its route is looked up: `Paint`, `Strip`, `CheckIPHeader`,
//! `CheckIPAddresses`, `GetIPAddress`.
//!
//! Ordinary is a packet with a header of 20 bytes in which CheckIPHeader and CheckIPAddresses find no fault.

use element::Element;
use element::clock::Nanos;
use element::fuse::{Chain, Fusion, Offer, Pass, member};
use packet::Packet;

use crate::basic::paint::Paint;
use crate::basic::strip::Strip;
use crate::ip::check_ip_addresses::{self, CheckIpAddresses};
use crate::ip::check_ip_header::{self, Admitted, CheckIpHeader};
use crate::ip::get_ip_address::GetIpAddress;

pub(super) const FUSION: Fusion = Fusion { name: "IPv4 input", find };

/// Where the elements stand in the chain.
pub(super) struct Input {
    paint: Option<usize>,
    strip: Option<usize>,
    check: usize,
    addresses: Option<usize>,
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
    let check = take(&|e| member::<CheckIpHeader>(e).is_some())?;
    let addresses = take(&|e| member::<CheckIpAddresses>(e).is_some());
    let input = Input { paint, strip, check, addresses };
    // The check sets the destination annotation, so there is nothing left to do for who reads the same bytes.
    let plain = input.offset(chain) == Some(0);
    take(&|e| plain && member(e).is_some_and(GetIpAddress::is_plain_destination));
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
    pub(super) rules: Rules<'a>,
}

/// What is asked of packets.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) header: &'a check_ip_header::Rules,
    pub(super) addresses: Option<&'a check_ip_addresses::Rules>,
}

impl Rules<'_> {
    /// Looks for a header without fault at byte `at`.
    #[inline(always)]
    pub(super) fn admit(&self, packet: &Packet, at: usize) -> Option<Admitted> {
        let found = match self.header.checksum {
            true => self.header.admit::<true>(packet, at)?,
            false => self.header.admit::<false>(packet, at)?,
        };
        match self.addresses {
            None => Some(found),
            Some(rules) => rules.pass(packet.chunk_at::<20>(at)?).then_some(found),
        }
    }
}

impl Input {
    /// Bytes before the IP header that stay.
    pub(super) fn offset(&self, chain: &[&dyn Element]) -> Option<usize> {
        member::<CheckIpHeader>(*chain.get(self.check)?).map(|c| c.rules.offset)
    }

    #[inline]
    pub(super) fn live<'a>(&self, chain: &'a Chain<'_>) -> Option<Live<'a>> {
        let check = chain.get::<CheckIpHeader>(self.check)?;
        let addresses = match self.addresses {
            Some(at) => Some(&chain.get::<CheckIpAddresses>(at)?.rules),
            None => None,
        };
        Some(Live {
            color: self.paint.and_then(|at| chain.get(at)).map(Paint::color),
            strip: self.strip.and_then(|at| chain.get(at)).map_or(0, Strip::length),
            rules: Rules { header: &check.rules, addresses },
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
        let offset = self.rules.header.offset;
        let Some(found) = self.rules.admit(packet, self.strip.saturating_add(offset)) else {
            return false;
        };
        packet.enter_network(self.strip, offset + usize::from(found.ip_len), offset, 20);
        packet.set_dst_ip(found.address);
        if let Some(color) = self.color {
            packet.set_paint(color);
        }
        true
    }
}
