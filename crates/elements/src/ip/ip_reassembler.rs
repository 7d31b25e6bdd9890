// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPReassembler
//!
//! `IPReassembler([keywords HIMEM, MAX_MTU_ANNO])`
//!
//! Puts the fragments of IP packets together again; other packets pass unchanged.
//!
//! **Ports:** 1 input; output 0 for whole packets; output 1, if connected, for what was put together of packets that
//! cannot be completed.
//!
//! **Arguments**
//! * `HIMEM` bytes that may wait for missing fragments, default 262,144. Beyond, packets are given up, oldest
//!   first, until three quarters remain.
//! * `MAX_MTU_ANNO` 2-byte annotation that receives the length of the longest fragment.
//!
//! **Metadata:** network header position read; the whole has the annotations of its first fragment and the timestamp of
//! the one that completed it.
//!
//! **Drops:** `bad-fragment`, fragments with impossible lengths or offsets and those that contradict the end already known;
//! `reassembly-timeout`, after 30 seconds without a fragment; `reassembly-limit`; `no-memory`.
//!
//! **Handlers**
//! * `dump` read: counts, and what waits.
//!
//! Where fragments overlap, later bytes replace earlier ones, as in Click. One instance serves all workers, because the
//! fragments of one packet may come to any of them; packets that are no fragments cost one look at their header.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> IPReassembler -> Discard;
//! ```
//!
//! See also: IPFragmenter. RFC 791 (3.2), RFC 815, RFC 1122 (3.3.2)

use std::collections::HashMap;

use engine::args::Args;
use engine::clock::{Nanos, SECOND};
use engine::{Class, Cx, Element, Handler, HandlerError, Reason, Sharing};
use packet::{Batch, HEADROOM, Packet};

use super::header;
use crate::tools::Anno;

/// The descriptor.
pub const CLASS: Class = Class::new("IPReassembler", "1/1-2", || Box::<IpReassembler>::default())
    .processing("a/ah")
    .sharing(Sharing::Serial)
    .handlers(&[Handler::read("dump")])
    .file(file!());

/// Time without a fragment after which a packet is given up.
const TIMEOUT: Nanos = 30 * SECOND;
/// How often that is looked at.
const REAP_EVERY: Nanos = 10 * SECOND;
/// What a waiting packet costs beside its bytes.
const OVERHEAD: usize = 40;

/// What fragments of one packet have in common: addresses, identification, protocol (RFC 791, 3.2).
type Key = ([u8; 8], [u8; 2], u8);

/// A packet of which fragments are missing.
struct Waiting {
    /// Everything up to the first fragment's transport header, or that of any until then.
    head: Packet,
    has_first: bool,
    /// The payload so far, with holes.
    payload: Vec<u8>,
    /// Stretches that are there, in order and apart from each other.
    have: Vec<(usize, usize)>,
    /// The payload's length, once the last fragment came.
    len: Option<usize>,
    longest: u16,
    last_seen: Nanos,
}

/// Where a fragment belongs.
struct Place {
    key: Key,
    start: usize,
    end: usize,
    more: bool,
    ip_len: u16,
    /// Of the packet, where the transport bytes begin.
    transport: usize,
}

#[derive(Default)]
struct IpReassembler {
    himem: usize,
    mtu_anno: Option<usize>,
    waiting: HashMap<Key, Waiting>,
    used: usize,
    reap_at: Nanos,
    seen: u64,
    good: u64,
    failed: u64,
    bad: u64,
}

/// Reads where a fragment belongs; `None` for an impossible one.
fn place(packet: &Packet) -> Option<Place> {
    let ip = packet.network()?;
    let at = packet.len() - ip.len();
    let h = ip.first_chunk::<20>()?;
    let word = |i: usize| u16::from_be_bytes([h[i], h[i + 1]]);
    let (header_len, total) = (usize::from(h[0] & 15) * 4, usize::from(word(2)));
    let start = usize::from(word(6) & 0x1fff) * 8;
    let more = word(6) & 0x2000 != 0;
    let len = total.checked_sub(header_len).filter(|len| *len > 0 && header_len >= 20)?;
    let (mut addresses, end) = ([0; 8], start + len);
    addresses.copy_from_slice(&h[12..20]);
    let possible = end + header_len <= 0xffff && total <= ip.len() && (!more || len.is_multiple_of(8));
    let key = (addresses, [h[4], h[5]], h[9]);
    possible.then_some(Place { key, start, end, more, ip_len: total as u16, transport: at + header_len })
}

impl Waiting {
    fn new(head: Packet) -> Waiting {
        Waiting {
            head,
            has_first: false,
            payload: Vec::new(),
            have: Vec::new(),
            len: None,
            longest: 0,
            last_seen: 0,
        }
    }

    fn memory(&self) -> usize {
        OVERHEAD + self.payload.len()
    }

    /// Adds a fragment's bytes; `false` where it contradicts what is known of the packet's end.
    fn add(&mut self, place: &Place, bytes: &[u8]) -> bool {
        let known_end = self.have.last().map_or(0, |(_, end)| *end);
        let fits = match self.len {
            Some(len) => place.end <= len && (place.more || place.end == len),
            None => place.more || place.end >= known_end,
        };
        if !fits {
            return false;
        }
        if !place.more {
            self.len = Some(place.end);
        }
        if self.payload.len() < place.end {
            self.payload.resize(place.end, 0);
        }
        self.payload[place.start..place.end].copy_from_slice(bytes);
        // Joins the stretches that touch the new one.
        let (mut start, mut end) = (place.start, place.end);
        self.have.retain(|&(s, e)| {
            let apart = e < start || s > end;
            if !apart {
                (start, end) = (start.min(s), end.max(e));
            }
            apart
        });
        let at = self.have.partition_point(|(s, _)| *s < start);
        self.have.insert(at, (start, end));
        true
    }

    fn complete(&self) -> bool {
        self.has_first && self.len.is_some_and(|len| self.have == [(0, len)])
    }

    /// The packet, with what is there of its payload; `None` when memory is exhausted.
    fn packet(&self) -> Option<Packet> {
        let head = &self.head;
        let ip_at = head.len() - head.network()?.len();
        let mut whole = Packet::alloc(HEADROOM, head.len() + self.payload.len())?;
        whole.copy_annotations(head);
        let bytes = whole.data_mut();
        bytes[..head.len()].copy_from_slice(head.data());
        bytes[head.len()..].copy_from_slice(&self.payload);
        let ip = &mut bytes[ip_at..];
        let total = (ip.len() as u16).to_be_bytes();
        ip[2..4].copy_from_slice(&total);
        let more = if self.len.is_none() { 0x20 } else { 0 };
        (ip[6], ip[7]) = (ip[6] & 0xc0 | more, 0);
        if let Some(mac) = head.mac_offset() {
            whole.set_mac_offset(mac);
        }
        whole.set_network(ip_at, head.len() - ip_at);
        super::set_ip_checksum::seal(&mut whole)?;
        Some(whole)
    }
}

impl IpReassembler {
    /// Takes a fragment; the whole packet when it was the last one missing.
    fn take(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Option<Packet> {
        self.seen += 1;
        let now = cx.wall();
        self.reap(cx, now);
        let Some(place) = place(&packet) else {
            self.bad += 1;
            cx.drop(Reason::BadFragment, packet);
            return None;
        };
        if self.used > self.himem {
            self.relieve(cx);
        }
        let waiting = match self.waiting.get_mut(&place.key) {
            Some(waiting) => {
                self.used -= waiting.memory();
                waiting
            }
            None => {
                let Some(head) = head_of(&packet, &place) else {
                    cx.drop(Reason::NoMemory, packet);
                    return None;
                };
                self.waiting.entry(place.key).or_insert(Waiting::new(head))
            }
        };
        let end = place.transport + (place.end - place.start);
        let fits = waiting.add(&place, &packet.data()[place.transport..end]);
        if fits {
            if place.start == 0
                && let Some(head) = head_of(&packet, &place)
            {
                (waiting.head, waiting.has_first) = (head, true);
            }
            waiting.last_seen = now;
            waiting.longest = waiting.longest.max(place.ip_len);
        }
        if !waiting.complete() {
            self.used += waiting.memory();
            if !fits {
                self.bad += 1;
                cx.drop(Reason::BadFragment, packet);
            }
            return None;
        }
        let waiting = self.waiting.remove(&place.key)?;
        self.good += 1;
        match waiting.packet() {
            Some(mut whole) => {
                if packet.timestamp_ns() > 0 {
                    whole.set_timestamp_ns(packet.timestamp_ns());
                }
                if let Some(at) = self.mtu_anno {
                    whole.set_anno(at, waiting.longest.to_ne_bytes());
                }
                Some(whole)
            }
            None => {
                cx.drop(Reason::NoMemory, packet);
                None
            }
        }
    }

    /// Gives up packets that have waited too long.
    fn reap(&mut self, cx: &mut Cx<'_>, now: Nanos) {
        if now >= self.reap_at {
            self.reap_at = now + REAP_EVERY;
            let old: Vec<Key> =
                self.waiting.iter().filter(|(_, w)| w.last_seen + TIMEOUT < now).map(|(k, _)| *k).collect();
            old.into_iter().for_each(|key| self.give_up(cx, key, Reason::ReassemblyTimeout));
        }
    }

    /// Gives up the oldest until three quarters of the memory suffice.
    fn relieve(&mut self, cx: &mut Cx<'_>) {
        let mut by_age: Vec<(Nanos, Key)> = self.waiting.iter().map(|(k, w)| (w.last_seen, *k)).collect();
        by_age.sort_unstable();
        for (_, key) in by_age {
            if self.used <= self.himem / 4 * 3 {
                break;
            }
            self.give_up(cx, key, Reason::ReassemblyLimit);
        }
    }

    fn give_up(&mut self, cx: &mut Cx<'_>, key: Key, reason: Reason) {
        let Some(waiting) = self.waiting.remove(&key) else { return };
        self.used -= waiting.memory();
        self.failed += 1;
        match waiting.packet() {
            Some(packet) => cx.push_one_or_drop(1, packet, reason),
            None => cx.count_drops(reason, 1),
        }
    }
}

/// A copy of a fragment's headers.
fn head_of(packet: &Packet, place: &Place) -> Option<Packet> {
    let mut head = Packet::copy_of(&packet.data()[..place.transport])?;
    head.copy_annotations(packet);
    let ip_at = packet.network_offset().and_then(|at| usize::try_from(at).ok())?;
    head.set_network(ip_at, place.transport - ip_at);
    if let Some(mac) = packet.mac_offset().filter(|mac| *mac >= 0) {
        head.set_mac_offset(mac);
    }
    Some(head)
}

fn is_fragment(packet: &Packet) -> bool {
    header(packet).is_some_and(|h| h[6] & 0x3f != 0 || h[7] != 0)
}

impl Element for IpReassembler {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.himem = args.keyword("HIMEM", 256 * 1024);
        self.mtu_anno = args.keyword_opt::<Anno<2>>("MAX_MTU_ANNO").map(|anno| anno.0);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        if !batch.iter().any(is_fragment) {
            return batch;
        }
        let mut out = Batch::new();
        for packet in batch.drain(..) {
            match is_fragment(&packet) {
                true => out.extend(self.take(cx, packet)),
                false => out.push(packet),
            }
        }
        out
    }

    fn read(&mut self, _: &mut Cx<'_>, _: &str, _: &str) -> Result<String, HandlerError> {
        let mut lines: Vec<String> = self
            .waiting
            .iter()
            .map(|((a, id, _), w)| {
                let id = u16::from_be_bytes(*id);
                let have: String = w.have.iter().map(|(s, e)| format!(" ({s},{e})")).collect();
                let [a, b, c, d, e, f, g, h] = a;
                format!(" {a}.{b}.{c}.{d} > {e}.{f}.{g}.{h} {id}{have}\n")
            })
            .collect();
        lines.sort_unstable();
        Ok(format!(
            "frags seen total:    {}\ngood reassemblies:   {}\nfailed reassemblies: {}\nbad fragments seen:  {}\n\
             cached chunk data:\n{}",
            self.seen,
            self.good,
            self.failed,
            self.bad,
            lines.concat()
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples::{datagram, seal, sealed};
    use super::*;
    use crate::testing::Rig;

    fn fragment(id: u8, start: usize, len: usize, more: bool) -> Packet {
        let mut p = datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[], len);
        let b = p.data_mut();
        b[5] = id;
        let field = (start / 8) as u16 | if more { 0x2000 } else { 0 };
        b[6..8].copy_from_slice(&field.to_be_bytes());
        for (i, byte) in b[20..].iter_mut().enumerate() {
            *byte = (start + i) as u8;
        }
        seal(b);
        p
    }

    fn whole(len: usize) -> Vec<u8> {
        (0..len).map(|i| i as u8).collect()
    }

    // conformance: RFC1812-4.2.2.8
    #[test]
    fn whatever_the_order() {
        let cuts = [(0, 16, true), (16, 24, true), (40, 5, false)];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            for burst in [1, 32] {
                let mut packets: Vec<_> =
                    order.iter().map(|i| cuts[*i]).map(|(s, l, m)| fragment(1, s, l, m)).collect();
                packets.insert(1, fragment(2, 0, 8, true));
                let config = "IPReassembler(MAX_MTU_ANNO 20)";
                let mut run = Rig::new(config).burst(burst).packets(packets).run();
                let out = run.out("o0");
                assert!(out.len() == 1 && sealed(out[0].data()));
                assert_eq!((&out[0].data()[20..], &out[0].data()[6..8]), (&whole(45)[..], &[0, 0][..]));
                assert_eq!(
                    (out[0].anno::<2>(20), out[0].transport_offset()),
                    (44u16.to_ne_bytes(), Some(20))
                );
                assert!(run.read("e.dump").ends_with("data:\n 1.2.3.4 > 5.6.7.8 4610 (0,8)\n"));
            }
        }
    }

    #[test]
    fn bad_fragments() {
        let check = |packets: Vec<Packet>, want| {
            let run = Rig::new("IPReassembler").packets(packets).run();
            assert_eq!((run.drops("e"), run.out("o0").len()), (vec![(Reason::BadFragment, want)], 0));
        };
        check(vec![fragment(1, 0, 9, true)], 1);
        check(vec![fragment(1, 65528, 8, false)], 1);
        check(vec![fragment(1, 8, 8, false), fragment(1, 16, 8, true), fragment(1, 8, 16, false)], 2);
        let mut short = fragment(1, 0, 8, true);
        short.trim(1);
        check(vec![short], 1);
    }

    #[test]
    fn memory_is_limited_and_other_packets_pass() {
        let mut packets: Vec<_> = (0..4).map(|id| fragment(id, 0, 800, true)).collect();
        packets.push(datagram(9, [1; 4], [2; 4], &[], 3));
        let run = Rig::new("IPReassembler(HIMEM 1600)").outputs(2).packets(packets).run();
        assert_eq!((run.out("o0").len(), run.out("o1").len()), (1, 2));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Against a naive account of which units have come.
        #[test]
        fn completes_exactly_when_all_is_there(cuts in prop::collection::vec((0usize..6, 1usize..4), 1..12)) {
            let mut packets = vec![fragment(1, 48, 3, false)];
            let mut have = [false; 6];
            for (start, len) in cuts {
                let len = len.min(6 - start);
                packets.push(fragment(1, start * 8, len * 8, true));
                have[start..start + len].fill(true);
                if have.iter().all(|h| *h) {
                    break;
                }
            }
            let out = Rig::new("IPReassembler").packets(packets).run().bytes("o0");
            prop_assert_eq!(out.len(), usize::from(have.iter().all(|h| *h)));
            prop_assert!(out.iter().all(|p| p[20..] == whole(51)));
        }
    }
}
