// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs: what elements do to ordinary packets, as operations of a closed set.
//!
//! An element that publishes its program ([`Element::program`](crate::Element::program)) can be part of a pass over any chain of such
//! elements: the programs are composed to one, which reads each header once, asks everything, and changes each packet once. The
//! rule itself stands in the element's file. A program says nothing of packets that are not ordinary: those go through the elements.
//!
//! An element publishes its program anew for each batch, so settings may change at any time. What it asks of packets must be what
//! [`Element::process`](crate::Element::process) does: a packet that passes every operation leaves by output 0, changed as the
//! operations say, and the element has nothing else to do with it.

use packet::{Facts, Packet};
use tables::neighbour::View;

use crate::clock::Nanos;

mod rows;

pub use rows::{ROWS, Rows};

/// What receives an element's operations, in order.
pub trait Program<'a> {
    /// Adds one.
    fn add(&mut self, op: Op<'a>);
}

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// IPv4: addresses are the `u32` of [`View`], headers of ordinary packets have 20 bytes.
    Four,
    /// IPv6.
    Six,
}

/// One operation on ordinary packets.
#[derive(Clone, Copy)]
pub enum Op<'a> {
    /// Removes bytes from the front; a shorter packet is not ordinary.
    Strip(usize),
    /// Writes the paint annotation.
    Paint(u8),
    /// Packets of which any of this is true are not ordinary.
    Refuse(Facts),
    /// Packets of this paint are not ordinary.
    RefusePaint(u8),
    /// Packets of any other paint are not ordinary.
    DemandPaint(u8),
    /// Packets with anything but zeros in these bytes of their annotations are not ordinary.
    DemandZero {
        /// The first byte.
        at: usize,
        /// How many.
        bytes: usize,
    },
    /// An IPv4 header begins: see [`Header4`].
    Header4(Header4<'a>),
    /// An IPv6 header begins: see [`Header6`].
    Header6(Header6<'a>),
    /// Copies the address at this byte of the packet to the destination annotation.
    Destination(usize),
    /// Packets with IPv4 options, or with IPv6 hop-by-hop options, are not ordinary.
    NoOptions(Version),
    /// The element looks at headers itself.
    Check(Version, &'a dyn HeaderCheck),
    /// IPv6 packets between addresses that are not both global (2000::/3) are not ordinary.
    Global,
    /// Takes one from the time to live, or hop limit; a packet that would not live is not ordinary.
    TakeHop {
        /// Of IP.
        version: Version,
        /// Packets to multicast groups are not ordinary.
        unicast: bool,
    },
    /// Datagrams of more bytes are not ordinary.
    Longest(Version, usize),
    /// Puts an Ethernet header in front.
    Link([u8; 14]),
    /// Puts an Ethernet header in front, to the neighbour that the destination annotation names; packets to an unknown one are not
    /// ordinary.
    Neighbours4(Neighbours<'a, u32>),
    /// The same for IPv6.
    Neighbours6(Neighbours<'a, u128>),
    /// Counts packets.
    Count(&'a dyn Counted),
    /// Sends packets different ways; the last operation of a program.
    Sort(Version, &'a dyn Sort),
    /// No packet of this batch is ordinary.
    NotNow,
    /// The element does what no program says.
    Other,
}

/// An IPv4 header is to begin at the packet's byte `offset`. Ordinary is one of 20 bytes, of a datagram that is all in the packet, with
/// a good source. Marks network and transport header, sets the destination annotation and removes what lies behind the datagram.
#[derive(Clone, Copy)]
pub struct Header4<'a> {
    /// Bytes before the header.
    pub offset: usize,
    /// The header's checksum must be right.
    pub checksum: bool,
    /// Whether a source address with this last byte may be a bad one, so that hardly any packet is asked for by `check`.
    pub suspects: &'a [bool; 256],
    /// Refuses bad sources.
    pub check: &'a dyn HeaderCheck,
}

/// An IPv6 header is to begin at the packet's byte `offset`. Ordinary is one of a packet that is all there, and that `check` does not
/// refuse. Marks the header, sets the destination annotation and removes what lies behind the payload.
#[derive(Clone, Copy)]
pub struct Header6<'a> {
    /// Bytes before the header.
    pub offset: usize,
    /// Refuses bad sources.
    pub check: &'a dyn HeaderCheck,
}

/// The answers of a table of neighbours.
#[derive(Clone, Copy)]
pub struct Neighbours<'a, A> {
    /// Addresses that are known; `None` while the element has something to do first.
    pub known: Option<View<'a, A>>,
    /// What follows the destination in the Ethernet header.
    pub rest: [u8; 8],
}

/// Packets with IP headers that begin at the same byte.
#[derive(Clone, Copy)]
pub struct Headers<'p> {
    packets: &'p [Packet],
    at: usize,
    addresses: Option<[&'p [u32; ROWS]; 2]>,
}

impl<'p> Headers<'p> {
    /// The headers at byte `at` of these packets, [`ROWS`] at most, all inside them.
    pub fn new(packets: &'p [Packet], at: usize) -> Headers<'p> {
        Headers { packets, at, addresses: None }
    }

    /// Of IPv4 headers: the same with columns of their sources, in network order, and of their destinations, in host
    /// order, which are read already.
    pub fn with_addresses(self, sources: &'p [u32; ROWS], destinations: &'p [u32; ROWS]) -> Headers<'p> {
        Headers { addresses: Some([sources, destinations]), ..self }
    }

    /// The columns of sources and destinations, if they are read already.
    pub fn addresses(&self) -> Option<[&'p [u32; ROWS]; 2]> {
        self.addresses
    }

    /// A packet's header, if it has `N` bytes.
    #[inline]
    pub fn header<const N: usize>(&self, row: usize) -> Option<&'p [u8; N]> {
        self.packets.get(row)?.chunk_at(self.at)
    }

    /// The Ethernet header of a packet, if it has one, an IPv4 datagram and what lies behind its header of 20 bytes, without what follows
    /// the datagram.
    #[inline]
    pub fn parts4(&self, row: usize) -> Option<(&'p [u8], &'p [u8], &'p [u8])> {
        let packet = self.packets.get(row)?;
        let header = packet.chunk_at::<20>(self.at)?;
        let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let datagram = packet.data().get(self.at..self.at + len)?;
        Some((packet.mac().unwrap_or_default(), datagram, datagram.get(20..)?))
    }

    /// Those among `rows` from the first on whose header `refuse` holds of.
    #[inline]
    pub fn refused<const N: usize>(&self, rows: Rows, refuse: impl Fn(&[u8; N]) -> bool) -> Rows {
        rows.without(self.while_all(rows, |header| !refuse(header)))
    }

    /// Those among `rows` before the first whose header `holds` does not hold of.
    #[inline]
    pub fn while_all<const N: usize>(&self, rows: Rows, holds: impl Fn(&[u8; N]) -> bool) -> Rows {
        rows.while_all(|row| self.header(row).is_some_and(&holds))
    }
}

/// What an element asks of headers.
pub trait HeaderCheck {
    /// Those among `rows` before the first that is not ordinary. Headers have passed the operations before.
    fn while_ordinary(&self, headers: &Headers<'_>, rows: Rows) -> Rows;
}

/// What counts packets. An element is on one worker, so a [`Cell`](std::cell::Cell) will do.
pub trait Counted {
    /// This many packets with so many bytes have passed.
    fn count(&self, now: Nanos, packets: usize, bytes: usize);
}

/// What sends packets different ways by their headers.
pub trait Sort {
    /// Writes the output of each packet, from the first on, up to one that none of the first `outputs` outputs is for; returns how many
    /// packets have one.
    fn sort(&self, headers: &Headers<'_>, outputs: usize, found: &mut [u8]) -> usize;
}
