// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last step: packets are changed, each once.

use std::ops::Range;

use element::program::{ROWS, Rows};
use packet::Packet;
use tables::neighbour::{Address, PaddedMac, View};

use super::found::{Found, HeaderPlace, Ip, is_alike};
use crate::routing::Family;

/// Where a packet's link header comes from: who has its address, and what follows it.
#[derive(Clone, Copy)]
pub(super) enum Link<'a, A> {
    None,
    Fixed(PaddedMac, [u8; 8]),
    Known(View<'a, A>, [u8; 8]),
}

/// Packets that go the same way.
pub(super) struct Row<'a, A> {
    /// Where their headers are.
    pub(super) place: HeaderPlace,
    /// What is known of the packets of the step.
    pub(super) found: &'a Found<A>,
    /// Which ones these are among those.
    pub(super) rows: Rows,
    /// The paint they get, if any.
    pub(super) color: Option<u8>,
}

/// Marks the header of a packet, if it begins in the chain, and notes where the packet goes and its paint.
#[inline]
pub(super) fn enter<K: Ip>(
    packet: &mut Packet,
    place: HeaderPlace,
    behind: u16,
    to: K::Key,
    color: Option<u8>,
) {
    if place.begins {
        place.mark(packet, behind, K::HEADER);
    }
    K::Family::set_destination(packet, K::Family::show_key(to));
    if let Some(color) = color {
        packet.set_paint(color);
    }
}

impl HeaderPlace {
    /// Marks the header, of `header` bytes, and removes what is before and behind the datagram.
    #[inline(always)]
    fn mark(&self, packet: &mut Packet, behind: u16, header: usize) {
        let before = self.at - self.strip;
        packet.enter_network(self.strip, before + header + usize::from(behind), before, header);
    }
}

impl<A: Address> Row<'_, A> {
    /// Lets packets go on as they are, but for what is noted with them. Returns how many they are.
    pub(super) fn enter<K: Ip<Key = A>>(self, packets: &mut [Packet]) -> usize {
        for row in self.rows.iter() {
            enter::<K>(&mut packets[row], self.place, self.found.behind[row], self.found.to[row], self.color);
        }
        self.rows.len()
    }
}

impl<A: Address> Link<'_, A> {
    pub(super) fn is_none(&self) -> bool {
        matches!(self, Link::None)
    }

    /// Gives packets their link header, lets `change` change the `N` bytes of the header of each, whose number it gets, and notes where
    /// they go, up to the first that is longer than `mtu` or not ordinary, which is untouched. `packets` are all of which
    /// something was found. Returns how many packets they are.
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
            row.rows = row.rows.while_all(|row| !long(found.behind[row % ROWS]));
        }
        // No packet is longer.
        let place = row.place;
        let strip = place.strip as u32;
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
                if place.begins {
                    place.mark(p, behind, N);
                }
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
            let first = to[row.rows.lowest()? % ROWS];
            row.rows.iter().all(|row| to[row % ROWS] == first).then_some(first)?
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
    let end = range.end.min(packets.len()).min(ROWS);
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
        let i = i % ROWS;
        let packet = &mut packets[i];
        let to = found.to[i];
        let Some(header) = link(packet, found.behind[i], to) else { return done };
        change(header, i);
        note(packet, to);
    }
    rows.len()
}
