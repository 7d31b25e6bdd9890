// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IP6Reassembler
//!
//! `IP6Reassembler([keywords HIMEM, TIMEOUT, MAX_FRAGMENTS, VRF_ANNO, VRF])`
//!
//! Puts the fragments of IPv6 packets together again; other packets pass unchanged.
//!
//! **Ports:** 1 input; output 0 for whole packets. The others, if connected, for fragments that deserve a message: output 1 for the first fragment of
//! a packet whose rest did not come in time (time exceeded, code 1). Output 2 is for fragments with impossible lengths (parameter problem, code 0);
//! output 3 for first fragments that do not hold all headers (parameter problem, code 3).
//!
//! **Arguments**
//! * `HIMEM` bytes that may wait for missing fragments, default 1,048,576. Beyond, packets are given up, oldest first.
//! * `TIMEOUT` time from a packet's first fragment after which it is given up, default 60 s.
//! * `MAX_FRAGMENTS` fragments that a packet may consist of, default 128.
//! * `VRF_ANNO` annotation of one byte, as `VRF`: fragments in which it differs are of different packets.
//! * `VRF NAME` a VRF, in the order of the values of `VRF_ANNO` from 1; may be repeated. By its name, fragments that wait stay in their VRF when another configuration takes over and
//!   numbers VRFs otherwise. Those are dropped whose VRF is gone, or had no name; 0 is the main table.
//!
//! **Metadata:** network header position and `VRF_ANNO` read; the whole has the annotations of its first fragment and the timestamp of
//! the one that completed it; on output 2 the parameter problem's pointer is set.
//!
//! **Drops:** `bad-fragment`: all fragments of a packet two of which overlap or contradict each other, exact copies of a
//! fragment, and what output 2 or 3 would take. `reassembly-limit`, when HIMEM or MAX_FRAGMENTS is reached. `hot-swap`, fragments of a VRF that is not in the new configuration.
//! `fragment-ecn`; `reassembly-timeout`; `no-memory`.
//!
//! A fragment that met congestion (CE) marks the whole, if all fragments are of a transport that takes such marks (ECT).
//! Packets of which only some fragments are Not-ECT are dropped, as Linux does (RFC 3168, 5.3).
//!
//! **Handlers**
//! * `dump` read: counts, and what waits. `joined` read: fragments that became part of the packet of another.
//!
//! A fragment that overlaps another condemns the whole packet, fragments still to come included. A "fragment" that is
//! the whole packet loses its fragment header and never meets others. One instance serves all workers, because the
//! fragments of one packet may come to any of them; packets that are no fragments cost one look at their header.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIP6Header -> r :: IP6Reassembler -> Discard;
//! r[1] -> ICMP6Error(2001:db8::1, timeexceeded, reassembly, LOCAL true) -> Discard;
//! r[2] -> ICMP6Error(2001:db8::1, parameterproblem, header, LOCAL true) -> Discard;
//! r[3] -> ICMP6Error(2001:db8::1, parameterproblem, chain, LOCAL true) -> Discard;
//! ```
//!
//! See also: IP6Fragmenter, IP6Extensions, IPReassembler. RFC 8200 (4.5), RFC 3168 (5.3), RFC 5722, RFC 6946, RFC 7112

use std::hash::{BuildHasher, RandomState};
use std::net::Ipv6Addr;

use element::args::Args;
use element::clock::{Nanos, SECOND};
use element::swap::Count;
use element::{Class, Cx, Element, HotSwap, PacketHolder, Reason, Rehearsal, Rehearsed, handlers, swap};
use packet::{Batch, Packet, anno};
use tables::slab::{Id, List, Slab};
use wire::{Protocol, ipv6};

use super::{HEADER_LEN, header};
use crate::ip::ecn;
use crate::ip::vrf_names::VrfNames;
use crate::tools::{Spare, alloc_like, look_again_at, time_ns};

/// The descriptor.
pub const CLASS: Class = Class::new("IP6Reassembler", "1/1-4", || Box::<Ip6Reassembler>::default())
    .processing("a/ah")
    .serial("the fragments of a packet meet in one place, whichever worker they come by")
    .handlers(handlers! { Ip6Reassembler:
        read "dump" => |reassembler| reassembler.dump();
        read "joined" => .joined;
    })
    .consumes()
    .hot_swap::<Ip6Reassembler>()
    .rehearsal::<Ip6Reassembler>()
    .packet_holder::<Ip6Reassembler>()
    .file(file!());

/// What a waiting packet costs in addition to its bytes.
const OVERHEAD: usize = 128;
/// What the first fragment costs, which waits as it came, in a frame.
const FRAME: usize = 2048 + 128;
/// Bytes of a fragment header.
const FRAGMENT_HEADER_LEN: usize = 8;
/// The longest payload that the length field can say.
const MAX_PAYLOAD: usize = 65_535;
/// Pieces for which a place keeps room when its packet is gone.
const KEPT_PIECES: usize = 8;

/// What fragments of one packet have in common: addresses and identification (RFC 8200, 4.5), and the VRF.
type Key = (u128, u128, u32, u8);

/// Where a fragment belongs. Offsets count from the IPv6 header's first byte.
struct Place {
    key: Key,
    /// Of the packet's first byte.
    ip_at: usize,
    /// Where the fragment header begins.
    header_at: usize,
    /// The field that names it.
    named_at: usize,
    start: usize,
    end: usize,
    more: bool,
}

/// A fragment's bytes.
#[derive(Clone, Copy)]
struct Piece {
    start: usize,
    len: usize,
    /// Where they are among all that came.
    at: usize,
}

impl Piece {
    fn end(&self) -> usize {
        self.start + self.len
    }
}

/// A packet of which fragments are missing.
#[derive(Default)]
struct Waiting {
    first: Option<Packet>,
    /// Whether the first fragment is all that came: its bytes are in its packet only.
    alone: bool,
    /// What came, in order of where it begins; the first fragment's bytes too.
    pieces: Vec<Piece>,
    /// Their bytes, in the order in which they came.
    bytes: Vec<u8>,
    /// The payload's length, once the last fragment came.
    len: Option<usize>,
    /// Whether two fragments contradicted each other: all further fragments are dropped.
    condemned: bool,
    /// Congestion fields of the fragments that it is made of.
    ecn: ecn::Seen,
    until: Nanos,
}

/// What came of adding a fragment.
enum Added {
    Waits,
    Completes,
    Copy,
    Contradicts,
}

#[derive(Default)]
struct Ip6Reassembler {
    himem: usize,
    timeout: Nanos,
    max_fragments: usize,
    vrfs: VrfNames,
    waiting: Slab<Key, Waiting, 1>,
    /// Those packets in the order in which their time runs out.
    order: List,
    spare: Spare,
    used: usize,
    /// Whether the timer is set.
    looks: bool,
    seen: Count,
    good: Count,
    failed: Count,
    bad: Count,
    /// Fragments whose bytes are, or were when it was whole, part of another's packet.
    joined: u64,
}

/// Why a fragment is refused at once.
enum Refusal {
    /// The field at this offset is impossible.
    Field(usize),
    /// The first fragment does not hold all headers.
    Chain,
    Drop,
}

/// Whether a packet may be a fragment: its first header is the fragment header or an extension header before it.
#[inline]
fn may_be_fragment(packet: &Packet) -> bool {
    header(packet).is_some_and(|h| h[6] != 58 && ipv6::is_extension(Protocol(h[6])))
}

/// The low half of a packet's traffic class, which holds the congestion field.
fn class(packet: &Packet) -> u8 {
    header(packet).map_or(0, |h| h[1] >> 4)
}

/// The fragment header of a packet, and where the payload ends; `None` for other packets.
fn place(packet: &Packet, vrfs: &VrfNames) -> Option<(Place, usize)> {
    let h = header(packet)?;
    let end = HEADER_LEN + usize::from(u16::from_be_bytes([h[4], h[5]]));
    let ip = packet.network()?;
    let payload = ip.get(HEADER_LEN..end)?;
    let vrf = vrfs.of(packet);
    let address = |at: usize| h[at..].first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes));
    let place = |fragment: ipv6::Fragment, header_at: usize, named_at: usize| {
        let place = Place {
            key: (address(8), address(24), fragment.id, vrf),
            ip_at: packet.len() - ip.len(),
            header_at,
            named_at,
            start: fragment.offset,
            end: fragment.offset + (end - header_at - FRAGMENT_HEADER_LEN),
            more: fragment.more,
        };
        Some((place, end))
    };
    // Nearly always it is the first header.
    if h[6] == Protocol::IPV6_FRAGMENT.0 {
        return place(ipv6::Fragment::read(payload.first_chunk()?), HEADER_LEN, 6);
    }
    let mut named_at = 6;
    for extension in ipv6::Extensions::new(Protocol(h[6]), payload) {
        let extension = extension.ok()?;
        let header_at = HEADER_LEN + extension.offset;
        if let Some(fragment) = extension.fragment() {
            return place(fragment, header_at, named_at);
        }
        named_at = header_at;
    }
    None
}

/// What RFC 8200, 4.5, asks of a single fragment; `ip` ends with the payload.
fn refuse(place: &Place, ip: &[u8]) -> Option<Refusal> {
    let len = place.end - place.start;
    if place.more && !len.is_multiple_of(8) {
        return Some(Refusal::Field(4));
    }
    if place.header_at - HEADER_LEN + place.end > MAX_PAYLOAD {
        return Some(Refusal::Field(place.header_at + 2));
    }
    if len == 0 {
        return Some(Refusal::Drop);
    }
    if place.start == 0 {
        let payload = &ip[place.header_at + FRAGMENT_HEADER_LEN..];
        let upper = match ipv6::upper_layer(Protocol(ip[place.header_at]), payload) {
            Ok(upper) if upper.fragment.is_none() => upper,
            _ => return Some(Refusal::Chain),
        };
        let needed = match upper.protocol {
            Protocol::TCP => 20,
            Protocol::UDP | Protocol::ICMPV6 => 8,
            _ => 0,
        };
        if upper.offset + needed > payload.len() {
            return Some(Refusal::Chain);
        }
    }
    None
}

impl Waiting {
    /// Makes it a packet of which nothing has come.
    fn begin(&mut self, until: Nanos, bytes: Vec<u8>) {
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        *self = Waiting { until, bytes, pieces, ..Waiting::default() };
    }

    /// Keeps the first fragment, of which no other has come, as it is.
    fn keep(&mut self, fragment: Packet, len: usize) {
        self.pieces.push(Piece { start: 0, len, at: 0 });
        (self.first, self.alone) = (Some(fragment), true);
    }

    /// Takes the bytes out of a fragment that was alone, because others come.
    fn open(&mut self) {
        if let (true, Some(first), Some(piece)) = (self.alone, &self.first, self.pieces.first())
            && let Some((place, _)) = place(first, &VrfNames::default())
        {
            let at = place.ip_at + place.header_at + FRAGMENT_HEADER_LEN;
            self.bytes.extend_from_slice(&first.data()[at..at + piece.len]);
        }
        self.alone = false;
    }

    fn memory(&self) -> usize {
        let frame = if self.first.is_some() { FRAME } else { 0 };
        OVERHEAD * (1 + self.pieces.len()) + self.bytes.len() + frame
    }

    /// The bytes of a piece.
    fn bytes_of(&self, piece: &Piece) -> &[u8] {
        &self.bytes[piece.at..piece.at + piece.len]
    }

    /// Adds a fragment's bytes.
    fn add(&mut self, place: &Place, bytes: &[u8]) -> Added {
        let after = self.pieces.partition_point(|piece| piece.start <= place.start);
        if let Some(before) = after.checked_sub(1).map(|at| &self.pieces[at]) {
            let again = before.start == place.start && self.bytes_of(before) == bytes;
            if again && (place.more || self.len == Some(place.end)) {
                return Added::Copy;
            }
            if before.end() > place.start {
                return Added::Contradicts;
            }
        }
        let known_end = self.pieces.last().map_or(0, Piece::end);
        let fits = match self.len {
            Some(len) => place.more && place.end <= len,
            None => place.more || place.end >= known_end,
        };
        if !fits || self.pieces.get(after).is_some_and(|piece| piece.start < place.end) {
            return Added::Contradicts;
        }
        if !place.more {
            self.len = Some(place.end);
        }
        let piece = Piece { start: place.start, len: bytes.len(), at: self.bytes.len() };
        self.pieces.insert(after, piece);
        self.bytes.extend_from_slice(bytes);
        // No two overlap, so the count alone says whether there is a hole.
        if self.len == Some(self.bytes.len()) { Added::Completes } else { Added::Waits }
    }

    /// Forgets what came and refuses what will come; returns the first fragment, and how many others there were, which were no packets any more.
    fn condemn(&mut self) -> (Option<Packet>, u64) {
        let joined = self.joined();
        self.alone = false;
        self.pieces.clear();
        (self.bytes, self.condemned) = (Vec::new(), true);
        (self.first.take(), joined)
    }

    /// Fragments that are here as bytes only: all but the first.
    fn joined(&self) -> u64 {
        (self.pieces.len() - usize::from(self.first.is_some())) as u64
    }

    /// The same again, for a fragment that is only tried; `None` when memory is exhausted.
    fn again(&self) -> Option<Waiting> {
        let mut first = None;
        if let Some(packet) = &self.first {
            first = Some(packet.duplicate()?);
        }
        first.iter_mut().for_each(|first| first.follow(0));
        Some(Waiting { first, pieces: self.pieces.clone(), bytes: self.bytes.clone(), ..*self })
    }

    /// The whole packet, unless its fragments contradict each other about congestion.
    fn whole(&self) -> Result<Packet, Reason> {
        let first = self.first.as_ref().map_or(0, class);
        let ecn = self.ecn.merged(first).ok_or(Reason::FragmentEcn)?;
        self.joined_bytes(ecn).ok_or(Reason::NoMemory)
    }

    /// The whole packet, with `ecn` added to its congestion field; `None` when it is too long or memory is exhausted.
    fn joined_bytes(&self, ecn: u8) -> Option<Packet> {
        let first = self.first.as_ref()?;
        let (place, _) = place(first, &VrfNames::default())?;
        let headers_end = place.ip_at + place.header_at;
        let payload_len = place.header_at - HEADER_LEN + self.bytes.len();
        if payload_len > MAX_PAYLOAD {
            return None;
        }
        let mut whole = alloc_like(first, headers_end + self.bytes.len())?;
        whole.copy_annotations(first);
        let next = first.network()?[place.header_at];
        let bytes = whole.data_mut();
        bytes[..headers_end].copy_from_slice(&first.data()[..headers_end]);
        let mut at = headers_end;
        for piece in &self.pieces {
            bytes[at..at + piece.len].copy_from_slice(self.bytes_of(piece));
            at += piece.len;
        }
        let ip = &mut bytes[place.ip_at..];
        ip[4..6].copy_from_slice(&(payload_len as u16).to_be_bytes());
        ip[place.named_at] = next;
        ip[1] |= ecn << 4;
        if let Some(mac) = first.mac_offset().filter(|mac| *mac >= 0) {
            whole.set_mac_offset(mac);
        }
        whole.set_network(place.ip_at, HEADER_LEN);
        Some(whole)
    }
}

/// Removes the fragment header of a packet that is whole (RFC 6946).
fn without_header(packet: &mut Packet, place: &Place) {
    let mac = packet.mac_offset();
    let ip_at = place.ip_at;
    let ip = &mut packet.data_mut()[ip_at..];
    ip[place.named_at] = ip[place.header_at];
    let payload_len = u16::from_be_bytes([ip[4], ip[5]]) - FRAGMENT_HEADER_LEN as u16;
    ip[4..6].copy_from_slice(&payload_len.to_be_bytes());
    // A link header in front of the packet moves along.
    let before = mac.and_then(|mac| usize::try_from(-mac).ok()).filter(|before| packet.unstrip(*before));
    let before = before.unwrap_or(0);
    packet.data_mut().copy_within(..before + ip_at + place.header_at, FRAGMENT_HEADER_LEN);
    packet.strip(before + FRAGMENT_HEADER_LEN);
    packet.set_network(ip_at, HEADER_LEN);
    if let Some(mac) = mac {
        packet.set_mac_offset(mac);
    }
}

impl Ip6Reassembler {
    /// Takes a packet that may be a fragment; what goes on in its place.
    fn take(&mut self, cx: &mut Cx<'_>, mut packet: Packet) -> Option<Packet> {
        let Some((place, end)) = place(&packet, &self.vrfs) else { return Some(packet) };
        self.seen += 1;
        if place.start == 0 && !place.more {
            without_header(&mut packet, &place);
            return Some(packet);
        }
        let ip = packet.network()?;
        if let Some(refusal) = refuse(&place, &ip[..end]) {
            self.bad += 1;
            match refusal {
                Refusal::Field(at) => {
                    packet.set_anno_u32(anno::ICMP6_POINTER, at as u32);
                    cx.push_one_or_drop(2, packet, Reason::BadFragment);
                }
                Refusal::Chain => cx.push_one_or_drop(3, packet, Reason::BadFragment),
                Refusal::Drop => cx.drop(Reason::BadFragment, packet),
            }
            return None;
        }
        self.add(cx, packet, &place, end)
    }

    fn add(&mut self, cx: &mut Cx<'_>, packet: Packet, place: &Place, end: usize) -> Option<Packet> {
        let now = cx.now();
        self.expire(cx, now);
        let class = class(&packet);
        let (id, new) = self.waiting.find_or_add(place.key);
        if new {
            self.begin(id, now);
        }
        let waiting = &mut self.waiting[id];
        if new && place.start == 0 && self.max_fragments > 0 {
            waiting.ecn.note(class);
            waiting.keep(packet, place.end);
            self.used += waiting.memory();
            self.settle(cx);
            return None;
        }
        if !new {
            self.used -= waiting.memory();
            waiting.open();
        }
        let bytes = &packet.network()?[place.header_at + FRAGMENT_HEADER_LEN..end];
        let added = match waiting.condemned {
            true => Added::Contradicts,
            false => waiting.add(place, bytes),
        };
        let mut done = None;
        match added {
            Added::Completes | Added::Waits if waiting.pieces.len() > self.max_fragments => {
                // This one is among them already, but did not wait yet.
                let (first, joined) = waiting.condemn();
                self.joined -= joined - 1;
                cx.made(joined as usize - 1);
                self.failed += 1;
                drop_all(cx, Reason::ReassemblyLimit, first, joined);
            }
            Added::Completes | Added::Waits => {
                let stamp = packet.timestamp_ns();
                waiting.ecn.note(class);
                if place.start == 0 {
                    waiting.first = Some(packet);
                } else {
                    cx.absorbed(&packet);
                    self.joined += 1;
                }
                done = matches!(added, Added::Completes).then_some(stamp);
            }
            Added::Copy => {
                self.bad += 1;
                cx.drop(Reason::BadFragment, packet);
            }
            Added::Contradicts => {
                self.bad += 1;
                self.failed += u64::from(!waiting.condemned);
                let (first, joined) = waiting.condemn();
                self.joined -= joined;
                cx.made(joined as usize);
                drop_all(cx, Reason::BadFragment, first, joined);
                cx.drop(Reason::BadFragment, packet);
            }
        }
        self.used += waiting.memory();
        if let Some(stamp) = done {
            return self.complete(cx, id, stamp);
        }
        self.settle(cx);
        None
    }

    /// Sees to it that what waits now is not too much and does not wait too long.
    #[inline]
    fn settle(&mut self, cx: &mut Cx<'_>) {
        self.relieve(cx);
        // The timer follows the first packet when it expires: those that come and go set nothing.
        if !self.looks {
            self.look_again(cx);
        }
    }

    /// Prepares the place of a packet of which nothing has come.
    fn begin(&mut self, id: Id, now: Nanos) {
        self.waiting.link_last(0, &mut self.order, id);
        self.waiting[id].begin(now.saturating_add(self.timeout), self.spare.take());
    }

    /// Sets the timer for when the time of the first packet runs out.
    fn look_again(&mut self, cx: &mut Cx<'_>) {
        let next = self.order.first().map(|id| self.waiting[id].until);
        self.looks = next.is_some();
        look_again_at(cx, next);
    }

    /// Forgets a packet, and returns its first fragment; its place keeps buffers for the next.
    fn remove(&mut self, id: Id) -> Option<Packet> {
        self.waiting.unlink(0, &mut self.order, id);
        self.waiting.remove(id);
        let waiting = &mut self.waiting[id];
        self.used -= waiting.memory();
        self.spare.give(std::mem::take(&mut waiting.bytes));
        // A flood of pieces must not leave its lists in every place.
        waiting.pieces.clear();
        waiting.pieces.shrink_to(KEPT_PIECES);
        waiting.first.take()
    }

    /// Makes the whole of a packet of which nothing is missing.
    fn complete(&mut self, cx: &mut Cx<'_>, id: Id, stamp: u64) -> Option<Packet> {
        let waiting = &self.waiting[id];
        let (whole, joined) = (waiting.whole(), waiting.joined());
        let first = self.remove(id);
        let mut whole = match whole {
            Ok(whole) => whole,
            Err(reason) => {
                self.failed += 1;
                self.joined -= joined;
                cx.made(joined as usize);
                drop_all(cx, reason, first, joined);
                return None;
            }
        };
        self.good += 1;
        cx.made(1);
        first.iter().for_each(|first| cx.absorbed(first));
        if stamp > 0 {
            whole.set_timestamp_ns(stamp);
        }
        Some(whole)
    }

    /// Gives up packets whose time has run out.
    fn expire(&mut self, cx: &mut Cx<'_>, now: Nanos) {
        while let Some(id) = self.order.first()
            && self.waiting[id].until <= now
        {
            self.give_up(cx, id, Reason::ReassemblyTimeout);
        }
    }

    /// Gives up the oldest until the memory suffices.
    fn relieve(&mut self, cx: &mut Cx<'_>) {
        while self.used > self.himem
            && let Some(id) = self.order.first()
        {
            self.give_up(cx, id, Reason::ReassemblyLimit);
        }
    }

    fn give_up(&mut self, cx: &mut Cx<'_>, id: Id, reason: Reason) {
        let waiting = &mut self.waiting[id];
        self.failed += u64::from(!waiting.condemned);
        let joined = waiting.joined();
        self.joined -= joined;
        // They have been taken, but are dropped now.
        cx.made(joined as usize);
        let reported = reason == Reason::ReassemblyTimeout && cx.connected(1);
        let mut first = self.remove(id);
        if let Some(first) = first.take_if(|_| reported) {
            cx.push_one(1, first);
        }
        drop_all(cx, reason, first, joined);
    }
}

/// Drops the first fragment, if it has come, and so many others, of which there are only bytes.
fn drop_all(cx: &mut Cx<'_>, reason: Reason, first: Option<Packet>, others: u64) {
    if let Some(first) = first {
        cx.drop(reason, first);
    }
    if others > 0 {
        cx.count_drops(reason, others);
    }
}

impl Ip6Reassembler {
    /// One that knows what this one does of a single packet.
    fn apart(&self, key: Key) -> Option<Ip6Reassembler> {
        let mut apart = Ip6Reassembler {
            himem: usize::MAX,
            timeout: self.timeout,
            max_fragments: self.max_fragments,
            vrfs: self.vrfs.clone(),
            waiting: Slab::new(0),
            looks: true,
            ..Ip6Reassembler::default()
        };
        if let Some(id) = self.waiting.find(key) {
            let waiting = self.waiting[id].again()?;
            let id = apart.waiting.add(key);
            apart.waiting.link_last(0, &mut apart.order, id);
            (apart.used, apart.joined) = (waiting.memory(), waiting.joined());
            apart.waiting[id] = waiting;
        }
        Some(apart)
    }

    fn try_fragment(&self, cx: &mut Cx<'_>, packet: Packet) -> Rehearsed {
        if self.used + packet.len() + 2 * OVERHEAD + FRAME > self.himem {
            return Rehearsed::Unknown(
                "the memory for fragments is used up, and others would be given up".into(),
            );
        }
        let key = place(&packet, &self.vrfs).map_or(Key::default(), |(place, _)| place.key);
        let Some(mut apart) = self.apart(key) else {
            return Rehearsed::Unknown("packet memory is exhausted".into());
        };
        let id = packet.id();
        match apart.take(cx, packet) {
            Some(mut whole) => {
                // Unless it came whole, it is a packet that was made.
                if whole.id() != id {
                    whole.follow(0);
                }
                Rehearsed::passes(whole)
            }
            None if apart.bad == 0
                && apart.waiting.find(key).is_some_and(|id| !apart.waiting[id].condemned) =>
            {
                Rehearsed::Keeps("until the other fragments of its packet have come".into())
            }
            None => Rehearsed::Done,
        }
    }
}

impl Ip6Reassembler {
    fn dump(&self) -> String {
        let mut lines: Vec<String> = self
            .waiting
            .list(0, self.order)
            .map(|id| {
                let ((from, to, number, _), w) = (self.waiting.key(id), &self.waiting[id]);
                let have: String = w.pieces.iter().map(|p| format!(" ({},{})", p.start, p.end())).collect();
                format!(" {} > {} {number:#x}{have}\n", Ipv6Addr::from_bits(from), Ipv6Addr::from_bits(to))
            })
            .collect();
        lines.sort_unstable();
        format!(
            "frags seen total:    {}\ngood reassemblies:   {}\nfailed reassemblies: {}\nbad fragments seen:  {}\n\
             memory:              {}\ncached chunk data:\n{}",
            self.seen,
            self.good,
            self.failed,
            self.bad,
            self.used,
            lines.concat()
        )
    }
}

impl Element for Ip6Reassembler {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.himem = args.keyword("HIMEM", 1 << 20);
        self.timeout = time_ns(args, "TIMEOUT", 60 * SECOND);
        self.max_fragments = args.keyword("MAX_FRAGMENTS", 128);
        self.vrfs = VrfNames::configure(args);
        self.waiting = Slab::new(RandomState::new().hash_one(0));
        self.spare = Spare::new(self.himem / 2);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        if !batch.iter().any(may_be_fragment) {
            return batch;
        }
        let mut out = Batch::new();
        for packet in batch.drain(..) {
            match may_be_fragment(&packet) {
                true => out.extend(self.take(cx, packet)),
                false => out.push(packet),
            }
        }
        out
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        let now = cx.now();
        self.expire(cx, now);
        self.look_again(cx);
    }
}

impl PacketHolder for Ip6Reassembler {
    fn held(&self) -> usize {
        self.waiting.list(0, self.order).filter(|id| self.waiting[*id].first.is_some()).count()
    }
}

impl Rehearsal for Ip6Reassembler {
    fn rehearse(&mut self, cx: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        if may_be_fragment(&packet) { self.try_fragment(cx, packet) } else { Rehearsed::passes(packet) }
    }
}

impl Ip6Reassembler {
    /// Takes over what waits in another one, of which nothing waits here. Each VRF is known by its name.
    fn take_waiting(&mut self, cx: &mut Cx<'_>, old: &mut Ip6Reassembler) {
        if self.vrfs.are_those(&old.vrfs) {
            std::mem::swap(&mut self.waiting, &mut old.waiting);
            std::mem::swap(&mut self.order, &mut old.order);
            std::mem::swap(&mut self.used, &mut old.used);
            return;
        }
        let mut theirs = std::mem::take(&mut old.waiting);
        let ids: Vec<Id> = theirs.list(0, std::mem::take(&mut old.order)).collect();
        old.used = 0;
        for id in ids {
            let ((from, to, number, vrf), mut waiting) = (theirs.key(id), std::mem::take(&mut theirs[id]));
            let Some(vrf) = self.vrfs.heir(&old.vrfs, vrf) else {
                let joined = waiting.joined();
                self.failed += u64::from(!waiting.condemned);
                self.joined -= joined;
                // They have been taken, but are dropped now.
                cx.made(joined as usize);
                drop_all(cx, Reason::HotSwap, waiting.first, joined);
                continue;
            };
            waiting.first.iter_mut().for_each(|first| self.vrfs.mark(first, vrf));
            let id = self.waiting.add((from, to, number, vrf));
            self.waiting.link_last(0, &mut self.order, id);
            self.used += waiting.memory();
            self.waiting[id] = waiting;
        }
    }
}

impl HotSwap for Ip6Reassembler {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<Ip6Reassembler>(old) else { return false };
        self.seen.take(&mut old.seen);
        self.good.take(&mut old.good);
        self.failed.take(&mut old.failed);
        self.bad.take(&mut old.bad);
        self.joined += std::mem::take(&mut old.joined);
        if self.waiting.is_empty() {
            self.take_waiting(cx, old);
            self.look_again(cx);
        }
        true
    }
}

#[cfg(test)]
mod tests;
