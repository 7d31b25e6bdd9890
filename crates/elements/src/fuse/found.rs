// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of the packets of a step, in columns, and what the IP versions differ in.

use element::clock::Nanos;
use element::program::{Headers, ROWS, Rows, Version};
use packet::Packet;
use tables::neighbour::Address;

use super::send::{Link, Row};
use super::shape::{Counter, Header, Shape};
use crate::routing::Family;

/// What differs between the IP versions.
pub(super) trait Ip: Sized + Send + 'static {
    /// How routes are looked up.
    type Family: Family<Key = Self::Key>;
    /// An address.
    type Key: Address;
    /// What is known of the packets of a step besides [`Found`].
    type More: Default + Send;

    /// Which it is.
    const VERSION: Version;
    /// Length of an ordinary header in bytes.
    const HEADER: usize;

    /// Reads the headers that begin at byte `at` and checks them by `header`, if they begin there, up to the first packet that is not
    /// ordinary. Notes what is found but for routes. Returns how many are, and whether any of them has a source or marks for which it may
    /// not be ordinary.
    fn admit(
        header: Option<Header<'_>>,
        no_options: bool,
        packets: &[Packet],
        at: usize,
        found: &mut Found<Self::Key>,
        more: &mut Self::More,
    ) -> (usize, bool);
    /// The headers that [`admit`](Self::admit) has read.
    fn headers<'p>(
        packets: &'p [Packet],
        place: HeaderPlace,
        found: &'p Found<Self::Key>,
        more: &'p Self::More,
    ) -> Headers<'p>;
    /// Does all that there is to do to one packet with a marked header but for the link header, for which there is to be `headroom`; `None`,
    /// with the packet untouched, if it is not ordinary.
    fn change(shape: &Shape<'_>, packet: &mut Packet, headroom: usize) -> Option<()>;
    /// The link header that is put in front of packets.
    fn link<'a>(shape: &Shape<'a>) -> Link<'a, Self::Key>;
    /// Changes packets in a row, up to the first that is not ordinary, which is untouched. `packets` are all those of the step. Returns
    /// how many they are.
    fn send(
        shape: &Shape<'_>,
        link: Link<'_, Self::Key>,
        packets: &mut [Packet],
        row: Row<'_, Self::Key>,
        more: &Self::More,
    ) -> usize;
    /// Equal for all packets of a flow.
    fn flow_hash(datagram: &[u8], to: Self::Key) -> u32;
}

/// What is known of each packet of a step.
pub(super) struct Found<A> {
    /// Destination addresses, and once routes are known who the packets go to next.
    pub(super) to: [A; ROWS],
    /// Bytes of the datagrams behind their headers.
    pub(super) behind: [u16; ROWS],
    /// Numbers of next hops.
    pub(super) hops: [u32; ROWS],
    /// Outputs of what sends packets different ways, and [`NOT_PLAIN`].
    pub(super) ports: [u8; ROWS],
    /// Bits of the outputs that occur; of more than 64, several share one.
    pub(super) seen: u64,
    /// Lengths with which the packets came, for those who count.
    lengths: [u32; ROWS],
}

/// Set with the output of a packet that is not plain: its time to live ends, it came as a link-level broadcast or multicast, its source is
/// to be fixed, or its IPv6 addresses are not global. What elements ask besides for it are lengths and neighbours.
pub(super) const NOT_PLAIN: u8 = 128;

impl<A: Address> Default for Found<A> {
    fn default() -> Self {
        let to = [A::default(); ROWS];
        Found { to, behind: [0; ROWS], hops: [0; ROWS], ports: [0; ROWS], seen: 0, lengths: [0; ROWS] }
    }
}

/// Where packets' headers are.
#[derive(Clone, Copy)]
pub(super) struct HeaderPlace {
    /// Bytes before the header.
    pub(super) at: usize,
    /// How many of them are removed.
    pub(super) strip: usize,
    /// The header begins in the chain, and is to be marked.
    pub(super) begins: bool,
}

impl HeaderPlace {
    /// Where the headers of packets are to be, those of `packets` among them.
    #[inline]
    pub(super) fn of(shape: &Shape<'_>, packets: &[Packet]) -> Option<HeaderPlace> {
        let begins = shape.header.is_some();
        let at = match begins {
            true => shape.strip.saturating_add(shape.offset),
            // A shape that strips has a header.
            false => packets.first()?.network_offset()?.try_into().ok()?,
        };
        Some(HeaderPlace { at, strip: shape.strip, begins })
    }
}

impl<A: Address> Found<A> {
    /// Looks at packets, up to the first that is not ordinary up to the end of the shape's questions; returns how many are.
    #[inline]
    pub(super) fn look<K: Ip<Key = A>>(
        &mut self,
        shape: &Shape<'_>,
        place: HeaderPlace,
        packets: &[Packet],
        more: &mut K::More,
    ) -> usize {
        let (mut n, doubt) = K::admit(shape.header, shape.no_options, packets, place.at, self, more);
        if doubt {
            n = self.decide::<K>(shape, place, packets, n);
        }
        if shape.mtu != usize::MAX {
            let behind = self.behind[..n].iter();
            n = behind.take_while(|behind| usize::from(**behind) + K::HEADER <= shape.mtu).count();
        }
        if shape.plain {
            n = before(n, self.not_plain());
        }
        if shape.asks_annotations() {
            n = packets[..n].iter().take_while(|packet| !shape.refuses_annotations(packet)).count();
        }
        if !shape.checks.is_empty() {
            let headers = K::headers(packets, place, self, more);
            let all = Rows::first(n);
            n = shape.checks.iter().fold(all, |rows, check| check.while_ordinary(&headers, rows)).len();
        }
        if !shape.counters.is_empty() {
            self.lengths.iter_mut().zip(&packets[..n]).for_each(|(len, packet)| *len = packet.len() as u32);
        }
        n
    }

    /// Asks for the sources of packets, or for their marks, up to the first that is not ordinary; returns how many are.
    fn decide<K: Ip<Key = A>>(
        &mut self,
        shape: &Shape<'_>,
        place: HeaderPlace,
        packets: &[Packet],
        n: usize,
    ) -> usize {
        let check = match shape.header {
            Some(Header::Four(header)) => header.check,
            Some(Header::Six(header)) => header.check,
            None => return self.take_marks::<K>(place, &packets[..n]),
        };
        check.while_ordinary(&Headers::new(packets, place.at), Rows::first(n)).len()
    }

    /// Reads what packets are marked with, up to the first that is marked otherwise than by the element that checked its header.
    fn take_marks<K: Ip<Key = A>>(&mut self, place: HeaderPlace, packets: &[Packet]) -> usize {
        let (network, transport) = (place.at as i32, (place.at + K::HEADER) as i32);
        let mut n = 0;
        for (packet, (to, behind)) in packets.iter().zip(self.to.iter_mut().zip(&self.behind)) {
            let marked =
                packet.network_offset() == Some(network) && packet.transport_offset() == Some(transport);
            if !marked || packet.len() != place.at + K::HEADER + usize::from(*behind) {
                break;
            }
            *to = K::Family::destination(packet);
            n += 1;
        }
        n
    }

    /// The packets that are not plain.
    #[inline]
    pub(super) fn not_plain(&self) -> Rows {
        Rows::with(&self.ports, NOT_PLAIN, NOT_PLAIN)
    }

    /// Lets all count who count the first `n` packets.
    #[cold]
    pub(super) fn count<K: Ip<Key = A>>(
        &self,
        counters: &[Counter<'_>],
        place: HeaderPlace,
        n: usize,
        now: Nanos,
    ) {
        self.count_rows::<K>(counters, place, Rows::first(n), now);
    }

    /// The same for some packets.
    #[cold]
    pub(super) fn count_rows<K: Ip<Key = A>>(
        &self,
        counters: &[Counter<'_>],
        place: HeaderPlace,
        rows: Rows,
        now: Nanos,
    ) {
        for Counter { counted, stripped, before } in counters.iter().filter(|_| !rows.is_empty()) {
            let bytes = rows.iter().map(|row| match before {
                None => (self.lengths[row] as usize).saturating_sub(*stripped),
                Some(before) => {
                    let before = if place.begins { *before } else { place.at };
                    before + K::HEADER + usize::from(self.behind[row])
                }
            });
            counted.count(now, rows.len(), bytes.sum());
        }
    }
}

/// The first `n` packets before any of these.
#[inline]
fn before(n: usize, refused: Rows) -> usize {
    refused.lowest().map_or(n, |first| first.min(n))
}

/// Whether all of these are equal, as they most often are: asked without a branch for each.
#[inline(always)]
pub(super) fn is_alike<T: Copy + PartialEq>(list: &[T]) -> bool {
    let (Some(first), Some(last)) = (list.first(), list.last()) else { return true };
    first == last && list.iter().fold(true, |alike, one| alike & (one == first))
}
