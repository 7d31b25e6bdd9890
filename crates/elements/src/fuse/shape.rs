// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs of a chain's elements, composed to one.
//!
//! Ordinary packets pass every question, so questions may be asked in any order, and changes may be made at the end, as long as none
//! asks for what a change before it has written. Operations that would break this, or for which no pass has a form, are refused: the
//! chain ends before their element.

use std::ops::Range;

use arrayvec::ArrayVec;
use element::Element;
use element::clock::Nanos;
use element::program::{Counted, Header4, Header6, HeaderCheck, Neighbours, Op, Program, Sort, Version};
use packet::{Facts, Packet, anno};
use tables::neighbour::{PaddedMac, View, pad};

/// Questions of elements, and counters, in a chain at most.
const SOME: usize = 4;

/// See the module.
#[derive(Clone)]
pub(super) struct Shape<'a> {
    /// Bytes that are removed from the front.
    pub(super) strip: usize,
    /// Bytes that stay before a header that begins in this chain.
    pub(super) offset: usize,
    /// The IP version that any of the operations is for.
    pub(super) version: Option<Version>,
    /// The header that begins in this chain; without one, packets have marked headers when they come.
    pub(super) header: Option<Header<'a>>,
    /// The paint that packets get.
    pub(super) color: Option<u8>,
    /// The paint that is refused; beyond a byte for none.
    refused: u32,
    /// The paint that is asked for, in the bits of `painted_mask`.
    painted: u8,
    painted_mask: u8,
    /// Packets that are not [plain](super::found::NOT_PLAIN) are not ordinary.
    pub(super) plain: bool,
    /// Packets with hop-by-hop options are not ordinary.
    pub(super) no_options: bool,
    /// Bytes of annotations that must be zero.
    zeros: ArrayVec<Range<usize>, 2>,
    pub(super) checks: ArrayVec<&'a dyn HeaderCheck, SOME>,
    /// What is taken from the time to live, nothing or one.
    pub(super) hops: u8,
    /// Packets to multicast groups are not ordinary.
    pub(super) unicast: bool,
    /// Longest datagram in bytes.
    pub(super) mtu: usize,
    pub(super) link: Link<'a>,
    pub(super) counters: ArrayVec<Counter<'a>, SOME>,
    pub(super) sort: Option<&'a dyn Sort>,
    /// The chain lies behind the trunk of a fork.
    is_branch: bool,
    fit: Fit,
}

/// A header that begins in a chain.
#[derive(Clone, Copy)]
pub(super) enum Header<'a> {
    Four(Header4<'a>),
    Six(Header6<'a>),
}

/// Where the link header comes from that is put in front.
#[derive(Clone, Copy)]
pub(super) enum Link<'a> {
    None,
    Fixed(PaddedMac, [u8; 8]),
    Four(View<'a, u32>, [u8; 8]),
    Six(View<'a, u128>, [u8; 8]),
}

/// Who counts packets.
#[derive(Clone, Copy)]
pub(super) struct Counter<'a> {
    pub(super) counted: &'a dyn Counted,
    /// What a packet's length is there: that which it comes with, less so many bytes, ...
    pub(super) stripped: usize,
    /// ... or that of its datagram and so many bytes before it.
    pub(super) before: Option<usize>,
}

/// Whether a pass can run the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Fits,
    /// It could, but not over this batch.
    NotNow,
    No,
}

impl Default for Shape<'_> {
    #[inline(always)]
    fn default() -> Self {
        Shape {
            strip: 0,
            offset: 0,
            version: None,
            header: None,
            color: None,
            refused: u32::MAX,
            painted: 0,
            painted_mask: 0,
            plain: false,
            no_options: false,
            zeros: ArrayVec::new(),
            checks: ArrayVec::new(),
            hops: 0,
            unicast: false,
            mtu: usize::MAX,
            link: Link::None,
            counters: ArrayVec::new(),
            sort: None,
            is_branch: false,
            fit: Fit::Fits,
        }
    }
}

impl<'a> Shape<'a> {
    /// That of a branch behind a trunk with this shape.
    #[inline(always)]
    pub(super) fn behind(trunk: &Shape<'_>) -> Shape<'a> {
        let mut shape = Shape::default();
        (shape.version, shape.offset, shape.color) = (trunk.version, trunk.offset, trunk.color);
        shape.is_branch = true;
        shape
    }

    /// Adds the operations of elements; returns whether packets can be ordinary.
    #[inline]
    pub(super) fn extend(
        &mut self,
        elements: impl Iterator<Item = Option<&'a dyn Element>>,
        now: Nanos,
    ) -> bool {
        for element in elements {
            match element {
                Some(element) => element.program(now, self),
                None => return false,
            }
        }
        self.fit == Fit::Fits
    }

    /// Adds an element's operations if a pass can run them with those before, perhaps not at once; returns whether.
    pub(super) fn try_extend(&mut self, element: &'a dyn Element) -> bool {
        let mut more = self.clone();
        element.program(0, &mut more);
        let fits = more.fit != Fit::No;
        if fits {
            *self = more;
        }
        fits
    }

    /// Adds operations of the elements from the first on that a pass can run; returns of how many.
    pub(super) fn extend_while(&mut self, elements: &[&'a dyn Element]) -> usize {
        elements.iter().take_while(|element| self.sort.is_none() && self.try_extend(**element)).count()
    }

    /// Whether it is known where packets have their headers. One that is marked when packets come stays where it is.
    pub(super) fn has_headers(&self) -> bool {
        self.header.is_some() || self.strip == 0
    }

    /// Whether packets are changed so that only the end of a chain may do it.
    pub(super) fn is_final(&self) -> bool {
        self.hops != 0 || !matches!(self.link, Link::None)
    }

    /// Whether a packet is refused for the annotations with which it comes.
    #[inline]
    pub(super) fn refuses_annotations(&self, packet: &Packet) -> bool {
        let paint = packet.paint();
        u32::from(paint) == self.refused
            || (paint ^ self.painted) & self.painted_mask != 0
            || self.zeros.iter().any(|bytes| bytes.clone().any(|at| packet.anno_u8(at) != 0))
    }

    /// Whether [`refuses_annotations`](Self::refuses_annotations) may say yes.
    #[inline]
    pub(super) fn asks_annotations(&self) -> bool {
        self.refused != u32::MAX || self.painted_mask != 0 || !self.zeros.is_empty()
    }

    fn refuse(&mut self) {
        self.fit = Fit::No;
    }

    fn require(&mut self, is_possible: bool) {
        if !is_possible {
            self.refuse();
        }
    }

    fn wait_if(&mut self, not_now: bool) {
        if not_now && self.fit == Fit::Fits {
            self.fit = Fit::NotNow;
        }
    }

    /// An operation is for this version.
    fn of_version(&mut self, version: Version) {
        self.require(self.has_headers() && self.version.is_none_or(|known| known == version));
        self.version = Some(version);
    }

    fn strip(&mut self, bytes: usize) {
        self.strip = self.strip.saturating_add(bytes);
        match self.header {
            None => self.require(self.version.is_none()),
            Some(_) => match self.offset.checked_sub(bytes) {
                Some(offset) => self.offset = offset,
                None => self.refuse(),
            },
        }
        self.require(!self.is_branch && self.checks.is_empty() && !self.is_final());
    }

    fn begin(&mut self, version: Version, offset: usize, header: Header<'a>) {
        self.require(self.version.is_none() && self.header.is_none() && !self.is_branch);
        (self.version, self.header, self.offset) = (Some(version), Some(header), offset);
    }

    fn refuse_paint(&mut self, paint: u8) {
        match self.color {
            Some(color) => self.wait_if(color == paint),
            None => {
                self.require(self.refused == u32::MAX && !self.is_branch);
                self.refused = paint.into();
            }
        }
    }

    fn demand_paint(&mut self, paint: u8) {
        match self.color {
            Some(color) => self.wait_if(color != paint),
            None => {
                self.require(self.painted_mask == 0 && !self.is_branch);
                (self.painted, self.painted_mask) = (paint, 0xff);
            }
        }
    }

    /// The destination annotation is read from this byte of the packet: what a header that begins with the packet has set already.
    fn read_destination(&mut self, at: usize) {
        let known = match self.header {
            Some(Header::Four(_)) => 16,
            Some(Header::Six(_)) => 24,
            None => return self.refuse(),
        };
        self.require(at == known && self.offset == 0);
    }

    fn check(&mut self, version: Version, check: &'a dyn HeaderCheck) {
        self.of_version(version);
        // It may ask for the time to live.
        self.require(self.hops == 0);
        if self.checks.try_push(check).is_err() {
            self.refuse();
        }
    }

    fn take_hop(&mut self, version: Version, unicast: bool) {
        self.of_version(version);
        self.require(self.hops == 0);
        self.hops = 1;
        self.unicast |= unicast;
        self.plain |= !self.is_branch;
    }

    fn link(&mut self, link: Link<'a>) {
        self.require(self.offset == 0);
        self.link = link;
    }

    fn neighbours<A>(
        &mut self,
        version: Version,
        table: Neighbours<'a, A>,
        link: fn(View<'a, A>, [u8; 8]) -> Link<'a>,
    ) {
        self.of_version(version);
        self.require(self.offset == 0);
        match table.known {
            Some(known) => self.link = link(known, table.rest),
            None => {
                self.link = Link::Fixed([0; 8], table.rest);
                self.wait_if(true);
            }
        }
    }

    fn count(&mut self, counted: &'a dyn Counted) {
        let before = match self.is_branch || self.version.is_some() {
            true => Some(self.offset),
            false => None,
        };
        if self.counters.try_push(Counter { counted, stripped: self.strip, before }).is_err() {
            self.refuse();
        }
    }
}

impl<'a> Program<'a> for Shape<'a> {
    #[inline]
    fn add(&mut self, op: Op<'a>) {
        // What puts a link header in front is the last, and so is what sorts.
        self.require(matches!(self.link, Link::None) && self.sort.is_none());
        match op {
            Op::Strip(bytes) => self.strip(bytes),
            Op::Paint(color) => self.color = Some(color),
            Op::Refuse(facts) => {
                self.require(facts == Facts::GROUP);
                self.plain |= !self.is_branch;
            }
            Op::RefusePaint(paint) => self.refuse_paint(paint),
            Op::DemandPaint(paint) => self.demand_paint(paint),
            Op::DemandZero { at: anno::FIX_IP_SRC, bytes: 1 } => self.plain |= !self.is_branch,
            Op::DemandZero { at, bytes } => {
                if self.zeros.try_push(at..at + bytes).is_err() {
                    self.refuse();
                }
            }
            Op::Header4(header) => self.begin(Version::Four, header.offset, Header::Four(header)),
            Op::Header6(header) => self.begin(Version::Six, header.offset, Header::Six(header)),
            Op::Destination(at) => self.read_destination(at),
            Op::NoOptions(version) => {
                self.of_version(version);
                if version == Version::Six {
                    self.require(!self.is_branch);
                    self.no_options = true;
                }
            }
            Op::Check(version, check) => self.check(version, check),
            Op::Global => {
                self.of_version(Version::Six);
                self.plain |= !self.is_branch;
            }
            Op::TakeHop { version, unicast } => self.take_hop(version, unicast),
            Op::Longest(version, bytes) => {
                self.of_version(version);
                self.mtu = self.mtu.min(bytes);
            }
            Op::Link([a, b, c, d, e, f, rest @ ..]) => self.link(Link::Fixed(pad([a, b, c, d, e, f]), rest)),
            Op::Neighbours4(table) => self.neighbours(Version::Four, table, Link::Four),
            Op::Neighbours6(table) => self.neighbours(Version::Six, table, Link::Six),
            Op::Count(counted) => self.count(counted),
            Op::Sort(version, sort) => {
                self.of_version(version);
                self.require(!self.is_branch);
                self.sort = Some(sort);
            }
            Op::NotNow => self.wait_if(true),
            Op::Other => self.refuse(),
        }
    }
}
