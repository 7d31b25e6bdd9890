// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connections of a family: their keys, their table, and how they end.

use std::net::IpAddr;

use tables::flow::{Direction, Flow, FlowId, FlowKey, FlowKey6, FlowTable, Key, Prepared, Tally};

use super::book::Book;
use super::{Entry, mirror};

/// Connections that are looked at for one that may go, when there is no room.
const SWEPT: usize = 128;

/// Where connections come from: their VRF and their source, or the network of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Source {
    pub(super) vrf: u16,
    pub(super) address: IpAddr,
}

/// An address that a key is made of.
pub(super) trait Addresses: Key {
    /// Whether it is of IPv6.
    const SIX: bool;
    fn make(vrf: u16, source: IpAddr, destination: IpAddr, protocol: u8, ports: [u16; 2]) -> Option<Self>;
    /// The key of answers that come in a VRF.
    fn back(self, vrf: u16) -> Self;
    fn parts(self) -> (IpAddr, IpAddr, u8, [u16; 2]);
    fn vrf(self) -> u16;
    /// Where its packets come from.
    fn source(self) -> Source {
        Source { vrf: self.vrf(), address: self.parts().0 }
    }
}

impl Addresses for FlowKey {
    const SIX: bool = false;

    fn make(
        zone: u16,
        source: IpAddr,
        destination: IpAddr,
        proto: u8,
        [sport, dport]: [u16; 2],
    ) -> Option<FlowKey> {
        match (source, destination) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                Some(FlowKey { src: src.into(), dst: dst.into(), sport, dport, proto, zone })
            }
            _ => None,
        }
    }

    fn back(self, vrf: u16) -> FlowKey {
        FlowKey { zone: vrf, ..self.reversed() }
    }

    fn vrf(self) -> u16 {
        self.zone
    }

    fn parts(self) -> (IpAddr, IpAddr, u8, [u16; 2]) {
        let address = |number: u32| IpAddr::V4(number.into());
        (address(self.src), address(self.dst), self.proto, [self.sport, self.dport])
    }
}

impl Addresses for FlowKey6 {
    const SIX: bool = true;

    fn make(
        zone: u16,
        source: IpAddr,
        destination: IpAddr,
        proto: u8,
        [sport, dport]: [u16; 2],
    ) -> Option<FlowKey6> {
        match (source, destination) {
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                Some(FlowKey6 { src: src.into(), dst: dst.into(), sport, dport, proto, zone })
            }
            _ => None,
        }
    }

    fn back(self, vrf: u16) -> FlowKey6 {
        FlowKey6 { zone: vrf, ..self.reversed() }
    }

    fn vrf(self) -> u16 {
        self.zone
    }

    fn parts(self) -> (IpAddr, IpAddr, u8, [u16; 2]) {
        let address = |number: u128| IpAddr::V6(number.into());
        (address(self.src), address(self.dst), self.proto, [self.sport, self.dport])
    }
}

/// The connections of a family.
#[derive(Debug)]
pub(super) struct Side<K: Key> {
    pub(super) table: FlowTable<Entry, K>,
    /// Packets and bytes of its connections.
    pub(super) tally: Tally,
    /// Where the next search for one that may go begins.
    pub(super) hand: usize,
}

impl<K: Addresses> Side<K> {
    pub(super) fn new(capacity: usize, seed: u64) -> Side<K> {
        Side { table: FlowTable::new(capacity, seed), tally: Tally::default(), hand: 0 }
    }

    /// Enters a connection by the keys of its packets there and back. Its first packet has so many bytes, if it has come by. Returns whether it is there.
    pub(super) fn insert(
        &mut self,
        [there, back]: [K; 2],
        entry: Entry,
        expires_ns: u64,
        first: Option<u32>,
    ) -> bool {
        let made = self.table.insert(there, back, entry, expires_ns);
        if let Ok(id) = &made {
            let bytes = first.unwrap_or(0).into();
            self.tally.begin(FlowTable::<Entry, K>::number(*id), [first.is_some().into(), 0], [bytes, 0]);
        }
        made.is_ok()
    }

    /// Asks for what a packet of a connection needs.
    #[inline]
    pub(super) fn approach(&self, key: &Prepared<K>) {
        if let Some((number, direction)) = self.table.approach(key) {
            self.tally.approach(number, usize::from(direction == Direction::Reply));
        }
    }

    /// Counts a packet of a connection: 0 for packets there, 1 for those back.
    #[inline]
    pub(super) fn count(&self, id: FlowId, way: usize, length: u32) {
        self.tally.count(FlowTable::<Entry, K>::number(id), way, length);
    }

    /// Ends a connection; returns whether it was there.
    pub(super) fn remove(&mut self, id: FlowId, book: &mut Book) -> bool {
        let gone = self.table.remove(id);
        gone.iter().for_each(|flow| mirror::ended(book, flow));
        gone.is_some()
    }

    /// Ends connections whose time is over, after so many looks at most.
    pub(super) fn reap(&mut self, now_ns: u64, mut looks: usize, book: &mut Book) {
        while let Some(id) = self.table.expired(now_ns, &mut looks) {
            self.remove(id, book);
        }
    }

    /// Ends the connection of a key, if it is there.
    pub(super) fn end(&mut self, key: &K, book: &mut Book) {
        if let Some(hit) = self.table.lookup(key) {
            self.remove(hit.id, book);
        }
    }
}

/// A table that may make room for another one's connection.
pub(super) trait Room {
    /// Ends a connection that is over, or that both sides have not agreed on yet or no more. Looks at some only.
    fn make(&mut self, now_ns: u64, book: &mut Book) -> bool;
}

impl<K: Addresses> Room for Side<K> {
    fn make(&mut self, now_ns: u64, book: &mut Book) -> bool {
        let may_go = |flow: Flow<&Entry, K>| !flow.value.is_settled() || flow.expires_ns <= now_ns;
        let found = self.table.sweep(&mut self.hand, SWEPT, may_go);
        found.is_some_and(|id| self.remove(id, book))
    }
}
