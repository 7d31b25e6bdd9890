// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the outputs of both families have in common: how their elements are found, and what those that know no family ask of
//! packets.

use std::ops::Range;

use element::Element;
use element::fuse::{Chain, member};
use packet::{Facts, Packet};
use tables::neighbour::{Address, PaddedMac, View, pad};

use super::forward::{Found, STEP, is_alike};
use super::rows::Rows;
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

/// Where a packet's link header comes from: who has its address, and what follows it.
#[derive(Clone, Copy)]
pub(super) enum Link<'a, A> {
    None,
    Fixed(PaddedMac, [u8; 8]),
    Known(View<'a, A>, [u8; 8]),
}

/// Plain packets, each with a header without options.
pub(super) struct Row<'a, A> {
    /// Bytes before the header.
    pub(super) strip: usize,
    /// What is known of the packets of the step.
    pub(super) found: &'a Found<A>,
    /// Which ones these are among those.
    pub(super) rows: Rows,
    /// The paint they get, if any.
    pub(super) color: Option<u8>,
}

impl<'a, A: Address> Link<'a, A> {
    /// The one that an [`EtherEncap`] puts in front, if there is one.
    pub(super) fn fixed(ether: Option<&EtherEncap>) -> Link<'a, A> {
        let Some([a, b, c, d, e, f, rest @ ..]) = ether.map(EtherEncap::header) else { return Link::None };
        Link::Fixed(pad([a, b, c, d, e, f]), rest)
    }

    /// Gives packets their link header, lets `change` change the `N` bytes of the header of each, whose number it gets, and notes where
    /// they go, up to the first that is longer than `mtu` or not ordinary, which is untouched. `packets` are all of which
    /// something was found. Returns how many they are.
    #[inline]
    pub(super) fn send<const N: usize>(
        self,
        packets: &mut [Packet],
        row: Row<'_, A>,
        mtu: usize,
        change: impl Fn(&mut [u8; N], usize) + Copy,
        note: impl Fn(&mut Packet, A) + Copy,
    ) -> usize {
        match row.color {
            None => self.send_noted(packets, row, mtu, change, note),
            Some(color) => self.send_noted(packets, row, mtu, change, move |p, to| {
                note(p, to);
                p.set_paint(color);
            }),
        }
    }

    /// As [`send`](Self::send), with the paint in what `note` notes.
    #[inline]
    fn send_noted<const N: usize>(
        self,
        packets: &mut [Packet],
        mut row: Row<'_, A>,
        mtu: usize,
        change: impl Fn(&mut [u8; N], usize),
        note: impl Fn(&mut Packet, A),
    ) -> usize {
        let found = row.found;
        // All lengths of the step at once, which is a few comparisons; what rows had before may still stand in some.
        let long = |behind: u16| usize::from(behind) + N > mtu;
        if long(found.behind.iter().fold(0, |longest, behind| longest.max(*behind))) {
            row.rows = row.rows.while_all(|row| !long(found.behind[row % STEP]));
        }
        // No packet is longer.
        let strip = row.strip as u32;
        match self {
            Link::Known(known, rest) => match common_neighbour(known, &row) {
                Some(mac) => {
                    each(packets, row, change, note, move |p, behind, _| p.relink(strip, behind, &mac, &rest))
                }
                None => each(packets, row, change, note, move |p, behind, to| {
                    p.relink(strip, behind, known.get(to)?, &rest)
                }),
            },
            Link::Fixed(mac, rest) => {
                each(packets, row, change, note, move |p, behind, _| p.relink(strip, behind, &mac, &rest))
            }
            Link::None => each(packets, row, change, note, move |p, behind, _| {
                if !p.is_sole() {
                    return None;
                }
                p.enter_network(strip as usize, usize::from(behind) + N, 0, N);
                Some(p.sole_network()?.0)
            }),
        }
    }
}

/// The address of the neighbour to which all these packets go, if it is one and known.
#[inline]
fn common_neighbour<A: Address>(known: View<'_, A>, row: &Row<'_, A>) -> Option<PaddedMac> {
    let to = &row.found.to;
    let first = match row.rows.range() {
        Some(range) => is_alike(&to[range.clone()]).then_some(to[range.start])?,
        None => {
            let first = to[row.rows.lowest()? % STEP];
            row.rows.iter().all(|row| to[row % STEP] == first).then_some(first)?
        }
    };
    known.get(first).copied()
}

/// Lets `link` give each packet its link header, and `change` change the header that this returns. Returns for how many it did.
#[inline]
fn each<A: Address, const N: usize>(
    packets: &mut [Packet],
    row: Row<'_, A>,
    change: impl Fn(&mut [u8; N], usize),
    note: impl Fn(&mut Packet, A),
    link: impl for<'p> Fn(&'p mut Packet, u16, A) -> Option<&'p mut [u8; N]>,
) -> usize {
    match row.rows.range() {
        Some(range) => each_in(packets, row.found, range, change, note, link),
        None => each_of(packets, row.found, row.rows, change, note, link),
    }
}

/// [`each`] of the packets in a range.
// Apart, so that the loop has all registers to itself; the closures have their settings by value for the same reason, and columns are
// reached by one place and one number.
#[allow(clippy::needless_range_loop)]
#[inline(never)]
fn each_in<A: Address, const N: usize>(
    packets: &mut [Packet],
    found: &Found<A>,
    range: Range<usize>,
    change: impl Fn(&mut [u8; N], usize),
    note: impl Fn(&mut Packet, A),
    link: impl for<'p> Fn(&'p mut Packet, u16, A) -> Option<&'p mut [u8; N]>,
) -> usize {
    let end = range.end.min(packets.len()).min(STEP);
    for i in range.start..end {
        let packet = &mut packets[i];
        let to = found.to[i];
        let Some(header) = link(packet, found.behind[i], to) else { return i - range.start };
        change(header, i);
        note(packet, to);
    }
    range.len()
}

/// [`each`] of packets with others between them.
#[inline(never)]
fn each_of<A: Address, const N: usize>(
    packets: &mut [Packet],
    found: &Found<A>,
    rows: Rows,
    change: impl Fn(&mut [u8; N], usize),
    note: impl Fn(&mut Packet, A),
    link: impl for<'p> Fn(&'p mut Packet, u16, A) -> Option<&'p mut [u8; N]>,
) -> usize {
    for (done, i) in rows.iter().enumerate() {
        let i = i % STEP;
        let packet = &mut packets[i];
        let to = found.to[i];
        let Some(header) = link(packet, found.behind[i], to) else { return done };
        change(header, i);
        note(packet, to);
    }
    rows.len()
}

/// How many packets `carry` takes before the first it does not.
#[inline]
pub(super) fn ordinary(batch: &mut [Packet], mut carry: impl FnMut(&mut Packet) -> Option<()>) -> usize {
    batch.iter_mut().position(|p| carry(p).is_none()).unwrap_or(batch.len())
}
