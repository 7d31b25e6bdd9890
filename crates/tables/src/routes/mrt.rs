// SPDX-License-Identifier: MIT OR Apache-2.0
//! MRT table dumps: TABLE_DUMP_V2 of RFC 6396, section 4.3, with the ADD-PATH records of RFC 8050.
//!
//! ```text
//! record:            time 4 | type 2 (13) | subtype 2 | length 4 | body
//! PEER_INDEX_TABLE:  collector 4 | name length 2, name | peers 2 | each: kind 1, BGP id 4, address 4 or 16, AS 2 or 4
//! RIB_IPV4_UNICAST:  sequence 4 | prefix length 1, prefix | entries 2 |
//!                    each: peer 2, time 4, [path id 4], attributes' length 2, attributes
//! ```
//!
//! A dump holds for each prefix what several peers said; a forwarding table wants one of them. It is the entry of the
//! peer asked for, or else the one with the shortest AS path, and of those the first (RFC 4271, 9.1.2.2 a, without the
//! policies that come before it and that no dump records).
//!
//! Bits of a prefix beyond its length are "irrelevant" (RFC 4271, 4.3), hence cleared rather than refused.

use super::{Hop, Leg, Options, Position, Problem, Routes};
use std::{
    io::{self, BufRead, Read as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};
use wire::Prefix;

/// No record is longer: 65,535 entries with attributes of 1 KB each.
const LONGEST_RECORD: u32 = 64 << 20;

/// What can be wrong with an MRT file; the place is that of the field's first byte.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MrtProblem {
    /// The file ends amid a record.
    #[error("the file ends here, {missing} bytes before the end of its last record: fetch it again")]
    Truncated {
        /// At least this many bytes are lacking.
        missing: u64,
    },
    /// A field reaches beyond what contains it.
    #[error("{field} needs {needed} bytes, but only {left} are left of {within}: the record is damaged")]
    Short {
        /// The field.
        field: &'static str,
        /// What it is part of.
        within: &'static str,
        /// Bytes it needs.
        needed: usize,
        /// Bytes there are.
        left: usize,
    },
    /// Bytes are left over at the end of a record.
    #[error("{0} bytes are left over at the end of the record: it is damaged")]
    LeftOver(usize),
    /// A length that no record has.
    #[error("a record of {0} bytes: this is no MRT file, or a damaged one")]
    LongRecord(u32),
    /// A type of record that is not part of a table dump.
    #[error("a record of type {kind}{name}: this reads table dumps (TABLE_DUMP_V2, type 13), often named rib.* or bview.*", name = type_name(*.0), kind = .0)]
    NotADump(u16),
    /// Routes before the table that says who the peers are.
    #[error("routes come before the PEER_INDEX_TABLE: the file lacks its beginning")]
    NoPeers,
    /// An entry of a peer that the peer table does not have.
    #[error("{prefix} is of peer {peer}, but the PEER_INDEX_TABLE has {peers} peers")]
    UnknownPeer {
        /// The route.
        prefix: Prefix,
        /// Its peer.
        peer: u16,
        /// How many there are.
        peers: usize,
    },
    /// The peer asked for is not in the dump.
    #[error("the dump has no peer {asked}; its peers are {peers}")]
    NoSuchPeer {
        /// The one asked for.
        asked: IpAddr,
        /// Those that are there.
        peers: String,
    },
    /// More bits than an address has.
    #[error("a prefix length of {len}; it can be 0 to {max}")]
    BadLength {
        /// As given.
        len: u8,
        /// The greatest.
        max: u8,
    },
    /// An entry without a next hop.
    #[error("{0} has neither a NEXT_HOP nor an MP_REACH_NLRI attribute with a next hop")]
    NoNextHop(Prefix),
    /// A next hop of odd length.
    #[error("a next hop of {0} bytes; it has 4 (IPv4), or 16 or 32 (IPv6)")]
    BadNextHop(usize),
}

fn type_name(kind: u16) -> &'static str {
    match kind {
        11 => " (OSPFv2)",
        12 => " (TABLE_DUMP of before 2011)",
        16 | 17 => " (BGP4MP, updates or states)",
        32 | 33 => " (ISIS)",
        48 | 49 => " (OSPFv3)",
        _ => "",
    }
}

type Placed<T> = Result<T, (Position, Problem)>;

fn at<T>(byte: u64, problem: MrtProblem) -> Placed<T> {
    Err((Position::Byte(byte), problem.into()))
}

/// Bytes yet to be read of a record or of a part of it.
#[derive(Clone, Copy)]
struct Field<'a> {
    bytes: &'a [u8],
    /// Where in the file they begin.
    at: u64,
    name: &'static str,
}

impl<'a> Field<'a> {
    fn take(&mut self, count: usize, field: &'static str) -> Placed<&'a [u8]> {
        let Some((taken, rest)) = self.bytes.split_at_checked(count) else {
            let (within, left) = (self.name, self.bytes.len());
            return at(self.at, MrtProblem::Short { field, within, needed: count, left });
        };
        self.bytes = rest;
        self.at += count as u64;
        Ok(taken)
    }

    fn part(&mut self, count: usize, name: &'static str) -> Placed<Field<'a>> {
        let at = self.at;
        Ok(Field { bytes: self.take(count, name)?, at, name })
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Placed<[u8; N]> {
        self.take(N, field).map(|bytes| bytes.try_into().expect("N bytes"))
    }

    fn u8(&mut self, field: &'static str) -> Placed<u8> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    fn u16(&mut self, field: &'static str) -> Placed<u16> {
        self.array(field).map(u16::from_be_bytes)
    }

    fn end(self) -> Placed<()> {
        if self.bytes.is_empty() { Ok(()) } else { at(self.at, MrtProblem::LeftOver(self.bytes.len())) }
    }
}

/// Reads up to `count` bytes; fewer only at the end of the file.
fn read_up_to(mut input: &mut dyn BufRead, count: u64, into: &mut Vec<u8>) -> io::Result<usize> {
    into.clear();
    (&mut input).take(count).read_to_end(into)
}

pub(super) fn read(routes: &mut Routes, input: &mut dyn BufRead, options: &Options) -> Placed<()> {
    let mut dump = Dump { routes, asked: options.peer, peers: None };
    let (mut offset, mut header, mut body) = (0, Vec::new(), Vec::new());
    loop {
        let failed = |error: io::Error| (Position::Byte(offset), error.into());
        let got = read_up_to(input, 12, &mut header).map_err(failed)?;
        if got == 0 {
            return Ok(());
        }
        let Ok([_, _, _, _, kind @ .., l0, l1, l2, l3]) = <[u8; 12]>::try_from(&header[..]) else {
            return at(offset + got as u64, MrtProblem::Truncated { missing: 12 - got as u64 });
        };
        let [kind, subtype] = [[kind[0], kind[1]], [kind[2], kind[3]]].map(u16::from_be_bytes);
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        if kind != 13 {
            return at(offset + 4, MrtProblem::NotADump(kind));
        }
        if length > LONGEST_RECORD {
            return at(offset + 8, MrtProblem::LongRecord(length));
        }
        offset += 12;
        let got = read_up_to(input, length.into(), &mut body)
            .map_err(|error| (Position::Byte(offset), error.into()))?;
        if got < length as usize {
            return at(
                offset + got as u64,
                MrtProblem::Truncated { missing: u64::from(length) - got as u64 },
            );
        }
        dump.record(subtype, Field { bytes: &body, at: offset, name: "the record" })?;
        offset += u64::from(length);
    }
}

struct Dump<'a> {
    routes: &'a mut Routes,
    asked: Option<IpAddr>,
    peers: Option<Vec<IpAddr>>,
}

/// What matters of one peer's entry.
struct Entry {
    next_hop: Option<IpAddr>,
    path_length: usize,
}

impl Dump<'_> {
    fn record(&mut self, subtype: u16, body: Field<'_>) -> Placed<()> {
        match subtype {
            1 => self.peer_index_table(body),
            2 => self.rib(body, false, false),
            4 => self.rib(body, true, false),
            8 => self.rib(body, false, true),
            10 => self.rib(body, true, true),
            3 | 5 | 9 | 11 => {
                self.routes.skip("multicast");
                Ok(())
            }
            _ => {
                self.routes.skip("records of another subtype");
                Ok(())
            }
        }
    }

    fn peer_index_table(&mut self, mut body: Field<'_>) -> Placed<()> {
        let start = body.at;
        body.take(4, "the collector's BGP id")?;
        let name = body.u16("the view name's length")?;
        body.take(name.into(), "the view name")?;
        let count = body.u16("the peer count")?;
        let mut peers = Vec::new();
        for _ in 0..count {
            let kind = body.u8("a peer's type")?;
            body.take(4, "a peer's BGP id")?;
            let (v6, long_as) = (kind & 1 != 0, kind & 2 != 0);
            peers.push(if v6 {
                IpAddr::from(body.array::<16>("a peer's address")?)
            } else {
                IpAddr::from(body.array::<4>("a peer's address")?)
            });
            body.take(if long_as { 4 } else { 2 }, "a peer's AS number")?;
        }
        body.end()?;
        if let Some(asked) = self.asked.filter(|asked| !peers.contains(asked)) {
            let mut shown: Vec<String> = peers.iter().take(20).map(IpAddr::to_string).collect();
            if peers.len() > shown.len() {
                shown.push(format!("{} more", peers.len() - shown.len()));
            }
            return at(start, MrtProblem::NoSuchPeer { asked, peers: shown.join(", ") });
        }
        self.peers = Some(peers);
        Ok(())
    }

    fn rib(&mut self, mut body: Field<'_>, v6: bool, add_path: bool) -> Placed<()> {
        let Some(peers) = &self.peers else { return at(body.at, MrtProblem::NoPeers) };
        body.take(4, "the sequence number")?;
        let place = body.at;
        let prefix = prefix(&mut body, v6)?;
        let count = body.u16("the entry count")?;
        let mut best: Option<(Entry, u64)> = None;
        for _ in 0..count {
            let place = body.at;
            let peer = body.u16("an entry's peer")?;
            body.take(4, "an entry's time")?;
            if add_path {
                body.take(4, "an entry's path id")?;
            }
            let length = body.u16("the attributes' length")?;
            let attributes = body.part(length.into(), "the attributes")?;
            let Some(address) = peers.get(usize::from(peer)) else {
                return at(place, MrtProblem::UnknownPeer { prefix, peer, peers: peers.len() });
            };
            if self.asked.is_some_and(|asked| asked != *address) {
                continue;
            }
            let entry = entry(attributes)?;
            if best.as_ref().is_none_or(|(best, _)| entry.path_length < best.path_length) {
                best = Some((entry, place));
            }
        }
        body.end()?;
        let Some((entry, entry_place)) = best else {
            self.routes.skip("without an entry of the peer");
            return Ok(());
        };
        let Some(gateway) = entry.next_hop else { return at(entry_place, MrtProblem::NoNextHop(prefix)) };
        let leg = Leg { gateway: Some(gateway), device: None, weight: 1 };
        let hop = self
            .routes
            .hops
            .intern(Hop::Legs(vec![leg]))
            .map_err(|problem| (Position::Byte(place), problem))?;
        self.routes.push(prefix, hop);
        Ok(())
    }
}

fn prefix(body: &mut Field<'_>, v6: bool) -> Placed<Prefix> {
    let (place, max) = (body.at, if v6 { 128 } else { 32 });
    let len = body.u8("the prefix length")?;
    if len > max {
        return at(place, MrtProblem::BadLength { len, max });
    }
    let bytes = body.take(usize::from(len).div_ceil(8), "the prefix")?;
    let mut addr = [0; 16];
    addr[..bytes.len()].copy_from_slice(bytes);
    let addr: IpAddr = if v6 {
        Ipv6Addr::from(addr).into()
    } else {
        Ipv4Addr::from([addr[0], addr[1], addr[2], addr[3]]).into()
    };
    Ok(Prefix::new(addr, len).expect("the length was checked"))
}

/// Reads path attributes as RFC 4271, 4.3 lays them out.
fn entry(mut attributes: Field<'_>) -> Placed<Entry> {
    const EXTENDED_LENGTH: u8 = 0x10;
    let mut entry = Entry { next_hop: None, path_length: 0 };
    while !attributes.bytes.is_empty() {
        let flags = attributes.u8("an attribute's flags")?;
        let kind = attributes.u8("an attribute's type")?;
        let length = if flags & EXTENDED_LENGTH != 0 {
            attributes.u16("an attribute's length")?.into()
        } else {
            attributes.u8("an attribute's length")?.into()
        };
        match kind {
            2 => entry.path_length = as_path_length(attributes.part(length, "the AS_PATH")?)?,
            3 => entry.next_hop = Some(next_hop(attributes.part(length, "the NEXT_HOP")?)?),
            14 => entry.next_hop = Some(mp_reach(attributes.part(length, "the MP_REACH_NLRI")?)?),
            _ => drop(attributes.take(length, "an attribute")?),
        }
    }
    Ok(entry)
}

/// Hops of an AS path: a set counts as one (RFC 4271, 9.1.2.2 a), confederation segments not at all (RFC 5065, 5.3).
fn as_path_length(mut path: Field<'_>) -> Placed<usize> {
    const SET: u8 = 1;
    const SEQUENCE: u8 = 2;
    let mut hops = 0;
    while !path.bytes.is_empty() {
        let kind = path.u8("a segment's type")?;
        let count: usize = path.u8("a segment's length")?.into();
        path.take(4 * count, "a segment's AS numbers")?; // four bytes each in dumps: RFC 6396, 4.3.4
        hops += match kind {
            SET => 1,
            SEQUENCE => count,
            _ => 0,
        };
    }
    Ok(hops)
}

/// The next hop in an MP_REACH_NLRI: dumps have only it and its length (RFC 6396, 4.3.4), but some programs write the
/// whole attribute, which begins with the family's number, whose first byte is 0.
fn mp_reach(mut reach: Field<'_>) -> Placed<IpAddr> {
    if reach.bytes.first() == Some(&0) {
        reach.take(3, "the address family")?;
    }
    let length = reach.u8("the next hop's length")?;
    next_hop(reach.part(length.into(), "the next hop")?)
}

fn next_hop(mut hop: Field<'_>) -> Placed<IpAddr> {
    let place = hop.at;
    match hop.bytes.len() {
        4 => hop.array::<4>("the next hop").map(IpAddr::from),
        // The second address, if there, is the link-local one (RFC 2545, 3).
        16 | 32 => hop.array::<16>("the next hop").map(IpAddr::from),
        length => at(place, MrtProblem::BadNextHop(length)),
    }
}
