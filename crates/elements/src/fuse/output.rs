// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the outputs of both families have in common: how their elements are found, and what those that know no family ask of
//! packets.

use engine::Element;
use engine::fuse::{Chain, member};
use packet::{Facts, Packet};

use crate::basic::check_paint::CheckPaint;
use crate::basic::paint_tee::PaintTee;
use crate::ethernet::ether_encap::EtherEncap;
use crate::ip::drop_broadcasts::DropBroadcasts;

/// Where the elements that know no family stand in the chain.
#[derive(Default)]
pub(super) struct Common {
    broadcasts: Option<usize>,
    paint_tee: Option<usize>,
    check_paint: Option<usize>,
    pub(super) ether: Option<usize>,
}

impl Common {
    /// The place for an element of this kind, if it is one of these.
    pub(super) fn place(&mut self, element: &dyn Element) -> Option<&mut Option<usize>> {
        Some(if member::<DropBroadcasts>(element).is_some() {
            &mut self.broadcasts
        } else if member(element).is_some_and(PaintTee::is_common) {
            &mut self.paint_tee
        } else if member(element).is_some_and(CheckPaint::is_common) {
            &mut self.check_paint
        } else if member::<EtherEncap>(element).is_some() {
            &mut self.ether
        } else {
            return None;
        })
    }

    /// Reads the settings of the elements, the first of which stands at `first` in the chain.
    pub(super) fn demands(&self, chain: &Chain<'_>, first: usize) -> Demands {
        let refused = self.paint_tee.and_then(|at| chain.get(first + at)).map(PaintTee::color);
        let painted = self.check_paint.and_then(|at| chain.get(first + at)).map(CheckPaint::color);
        Demands {
            facts: if self.broadcasts.is_some() { Facts::GROUP } else { Facts::NONE },
            refused: refused.map_or(u32::MAX, u32::from),
            painted: painted.unwrap_or(0),
            painted_mask: if painted.is_some() { 0xff } else { 0 },
        }
    }
}

/// Notes where the elements of a chain stand, up to the first one of a kind that `place` has no free place for, or that `ends` says
/// is the last. Returns how many there are.
pub(super) fn place<T>(
    chain: &[&dyn Element],
    output: &mut T,
    place: impl for<'a> Fn(&'a mut T, &dyn Element) -> Option<&'a mut Option<usize>>,
    ends: impl Fn(&T) -> bool,
) -> usize {
    let mut n = 0;
    for element in chain {
        match place(output, *element) {
            Some(place) if place.is_none() => *place = Some(n),
            _ => break,
        }
        n += 1;
        if ends(output) {
            break;
        }
    }
    n
}

/// What makes a packet ordinary to elements that know no family, read from them for each batch.
#[derive(Clone, Copy)]
pub(super) struct Demands {
    /// What is refused: link-level broadcast and multicast, if anything.
    facts: Facts,
    /// The paint that is refused; beyond a byte for none.
    refused: u32,
    /// The paint that is asked for, in the bits of `painted_mask`.
    painted: u8,
    painted_mask: u8,
}

impl Demands {
    #[inline(always)]
    pub(super) fn refuse(&self, p: &Packet) -> bool {
        p.is_any(self.facts) || self.refuse_paint(p.paint())
    }

    #[inline(always)]
    fn refuse_paint(&self, paint: u8) -> bool {
        u32::from(paint) == self.refused || (paint ^ self.painted) & self.painted_mask != 0
    }

    /// Whether packets that come with this paint, or with any if it is not known, may be refused for it.
    pub(super) fn may_refuse(&self, paint: Option<u8>) -> bool {
        let asks = self.refused != u32::MAX || self.painted_mask != 0;
        paint.map_or(asks, |paint| self.refuse_paint(paint))
    }
}

/// How many packets `carry` takes before the first it does not.
#[inline]
pub(super) fn ordinary(batch: &mut [Packet], mut carry: impl FnMut(&mut Packet) -> Option<()>) -> usize {
    batch.iter_mut().position(|p| carry(p).is_none()).unwrap_or(batch.len())
}
