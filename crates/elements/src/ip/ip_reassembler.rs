// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPReassembler
//!
//! `IPReassembler([keywords HIMEM, MAX_PACKETS, MAX_PER_SOURCE, OVERLAP, TIMEOUT, MAX_MTU_ANNO, VRF_ANNO, VRF])`
//!
//! Puts the fragments of IP packets together again; other packets pass unchanged.
//!
//! **Ports:** 1 input; output 0 for whole packets; output 1, if connected, for what was put together of packets that
//! are given up: from its beginning if the first fragment came, and otherwise still a later fragment. An ICMPError there
//! (`timeexceeded, reassembly`) answers the former only, as it should.
//!
//! **Arguments**
//! * `HIMEM` bytes that may wait for missing fragments, default 262,144. Beyond, packets are given up, oldest
//!   first, until three quarters remain.
//! * `MAX_PACKETS` packets that may wait, default no limit but HIMEM's; beyond, as with HIMEM.
//! * `MAX_PER_SOURCE` packets of one source address that may wait, default no limit; fragments of more are dropped.
//! * `OVERLAP` what happens where fragments overlap: `replace` (default, as in Click), later bytes replace earlier ones;
//!   `drop`, the packet is given up with all its fragments, also those to come. Bytes that came twice alike are no overlap.
//! * `TIMEOUT` time without a fragment after which a packet is given up, default 30 s, at least 1 s; looked at three times
//!   as often.
//! * `MAX_MTU_ANNO` 2-byte annotation that receives the length of the longest fragment.
//! * `VRF_ANNO` annotation of one byte, as `VRF`: fragments in which it differs are of different packets, and so are their
//!   sources.
//! * `VRF NAME` a VRF, in the order of the values of `VRF_ANNO` from 1; may be repeated. By its name, fragments that wait stay in their VRF when another configuration takes over and
//!   numbers VRFs otherwise. Those are dropped whose VRF is gone, or had no name; 0 is the main table.
//!
//! **Metadata:** network header position and `VRF_ANNO` read; the whole has the annotations of its first fragment and the timestamp of
//! the one that completed it.
//!
//! **Drops:** `bad-fragment`, fragments with impossible lengths or offsets and those that contradict the end already known;
//! `fragment-overlap`, with `OVERLAP drop`; `fragment-ecn`; `reassembly-timeout`; `reassembly-limit`; `no-memory`; `hot-swap`, fragments of a VRF that is not in
//! the new configuration.
//!
//! A fragment that met congestion (CE) marks the whole, if all fragments are of a transport that takes such marks (ECT).
//! Packets of which only some fragments are Not-ECT are dropped, as Linux does (RFC 3168, 5.3).
//!
//! **Handlers**
//! * `dump` read: counts, and what waits. `joined` read: fragments that became part of the packet of another.
//!
//! Overlapping fragments serve to smuggle headers past filters, and nobody sends them in good faith: where that matters,
//! choose `OVERLAP drop`, which IPv6 demands (RFC 5722). One instance serves all workers, because the fragments of one
//! packet may come to any of them; packets that are no fragments cost one look at their header.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> IPReassembler -> Discard;
//! ```
//!
//! See also: IPFragmenter, ICMPError. RFC 791 (3.2), RFC 815, RFC 1122 (3.3.2), RFC 1858, RFC 3128, RFC 3168, RFC 5722

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::Ipv4Addr;
use std::time::Duration;

use element::args::{Args, FromArg, Names};
use element::clock::Nanos;
use element::program::{HeaderCheck, Headers, Op, Program, Rows, Version};
use element::swap::Count;
use element::{Class, Cx, Element, HotSwap, PacketHolder, Reason, Rehearsal, Rehearsed, handlers, swap};
use packet::{Batch, Packet};
use tables::slab::{Id, List, Slab};

use self::waiting::{DatagramKey, FragmentPlace, Waiting, make_head, place, renumbered, source, vrf};
use super::header;
use super::vrf_names::VrfNames;
use crate::tools::{Anno, Spare};

mod waiting;

/// The descriptor.
pub const CLASS: Class = Class::new("IPReassembler", "1/1-2", || Box::<IpReassembler>::default())
    .processing("a/ah")
    .serial("the fragments of a packet meet in one place, whichever worker they come by")
    .handlers(handlers! { IpReassembler:
        read "dump" => |reassembler| reassembler.dump();
        read "joined" => .joined;
    })
    .consumes()
    .hot_swap::<IpReassembler>()
    .rehearsal::<IpReassembler>()
    .packet_holder::<IpReassembler>()
    .file(file!());

/// Default time without a fragment after which a packet is given up.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Looks at that in its course.
const LOOKS: u64 = 3;
/// Stretches for which a place keeps room when its packet is gone.
const KEPT_STRETCHES: usize = 8;

/// What happens where fragments overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Overlap {
    #[default]
    Replace,
    Drop,
}

impl FromArg for Overlap {
    const EXPECTED: &'static str = "'replace' or 'drop'";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        match text {
            "replace" => Ok(Overlap::Replace),
            "drop" => Ok(Overlap::Drop),
            _ => Err(String::new()),
        }
    }
}

#[derive(Default)]
struct IpReassembler {
    himem: usize,
    max_packets: usize,
    max_per_source: u32,
    overlap: Overlap,
    timeout: Nanos,
    mtu_anno: Option<usize>,
    vrfs: VrfNames,
    waiting: Slab<DatagramKey, Waiting, 1>,
    /// Those packets, the one whose last fragment came longest ago first.
    ages: List,
    spare: Spare,
    /// Packets that wait by source address; kept only where they are limited.
    by_source: HashMap<u64, u32>,
    used: usize,
    reap_at: Nanos,
    /// Whether the timer is set.
    looks: bool,
    seen: Count,
    joined: Count,
    good: Count,
    failed: Count,
    bad: Count,
}

impl IpReassembler {
    /// Takes a fragment; the whole packet when it was the last one missing.
    fn take(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Option<Packet> {
        self.seen += 1;
        let now = cx.now();
        self.reap(cx, now);
        let Some(place) = place(&packet, &self.vrfs) else {
            self.bad += 1;
            cx.drop(Reason::BadFragment, packet);
            return None;
        };
        if self.used > self.himem {
            self.relieve(cx);
        }
        let Some(id) = self.waiting.find(place.key) else {
            self.begin(cx, packet, &place, now);
            return None;
        };
        let stamp_ns = packet.timestamp_ns();
        if let Err((reason, packet)) = self.add(cx, id, packet, &place, now) {
            self.bad += u64::from(reason == Reason::BadFragment || reason == Reason::FragmentOverlap);
            cx.drop(reason, packet);
            return None;
        }
        self.joined += 1;
        if !self.waiting[id].complete() {
            return None;
        }
        let whole = self.whole(id, stamp_ns);
        match (&whole, self.remove(id)) {
            (Ok(_), head) => {
                cx.made(1);
                head.iter().for_each(|head| cx.absorbed(head));
            }
            (Err(reason), Some(head)) => cx.drop(*reason, head),
            (Err(reason), None) => cx.count_drops(*reason, 1),
        }
        whole.ok()
    }

    /// Adds a fragment to those of its packet.
    fn add(
        &mut self,
        cx: &mut Cx<'_>,
        id: Id,
        mut packet: Packet,
        place: &FragmentPlace,
        now: Nanos,
    ) -> Result<(), (Reason, Packet)> {
        let waiting = &mut self.waiting[id];
        self.used -= waiting.memory();
        waiting.open(|| self.spare.take());
        let bytes = &packet.data()[place.transport..place.transport + (place.end - place.start)];
        let refused = if waiting.spoilt {
            Some(Reason::FragmentOverlap)
        } else if self.overlap == Overlap::Drop && waiting.overlaps(place, bytes) {
            waiting.spoil();
            self.failed += 1;
            Some(Reason::FragmentOverlap)
        } else if waiting.add(place, bytes) {
            waiting.last_seen = now;
            waiting.longest = waiting.longest.max(place.ip_len);
            None
        } else {
            Some(Reason::BadFragment)
        };
        self.used += waiting.memory();
        if let Some(reason) = refused {
            return Err((reason, packet));
        }
        if place.start == 0 {
            make_head(&mut packet, place.transport);
            cx.holds(&packet);
            waiting.has_first = true;
            waiting.head.replace(packet).iter().for_each(|head| cx.absorbed(head));
        } else {
            cx.absorbed(&packet);
        }
        self.waiting.unlink(0, &mut self.ages, id);
        self.waiting.link_last(0, &mut self.ages, id);
        Ok(())
    }

    /// Makes room for the packet of a fragment that is the first to come of it, and keeps the fragment.
    fn begin(&mut self, cx: &mut Cx<'_>, packet: Packet, place: &FragmentPlace, now: Nanos) {
        if self.waiting.len() >= self.max_packets {
            self.relieve(cx);
        }
        if self.max_per_source < u32::MAX {
            let of_source = self.by_source.entry(source(place.key)).or_default();
            if *of_source >= self.max_per_source {
                return cx.drop(Reason::ReassemblyLimit, packet);
            }
            *of_source += 1;
        }
        let id = self.waiting.add(place.key);
        self.waiting.link_last(0, &mut self.ages, id);
        self.waiting[id].begin(packet, place, now);
        self.used += self.waiting[id].memory();
        // One look at a time goes round, while anything waits.
        if !self.looks {
            self.looks = true;
            cx.set_timer_after(0, self.timeout / LOOKS);
        }
    }

    fn whole(&mut self, id: Id, stamp_ns: u64) -> Result<Packet, Reason> {
        let waiting = &self.waiting[id];
        let tos = waiting.head.as_ref().and_then(header).map_or(0, |h| h[1]);
        let Some(ecn) = waiting.ecn.merged(tos) else {
            self.failed += 1;
            return Err(Reason::FragmentEcn);
        };
        self.good += 1;
        let mut whole = waiting.packet(ecn).ok_or(Reason::NoMemory)?;
        if stamp_ns > 0 {
            whole.set_timestamp_ns(stamp_ns);
        }
        if let Some(at) = self.mtu_anno {
            whole.set_anno(at, waiting.longest.to_ne_bytes());
        }
        Ok(whole)
    }

    /// Forgets a packet, and returns its head.
    fn remove(&mut self, id: Id) -> Option<Packet> {
        let key = self.waiting.key(id);
        self.waiting.unlink(0, &mut self.ages, id);
        self.waiting.remove(id);
        let waiting = &mut self.waiting[id];
        self.used -= waiting.memory();
        self.spare.give(std::mem::take(&mut waiting.payload));
        if let Some(n) = self.by_source.get_mut(&source(key)) {
            *n -= 1;
            if *n == 0 {
                self.by_source.remove(&source(key));
            }
        }
        // A flood of pieces must not leave its lists in every place.
        waiting.have.shrink_to(KEPT_STRETCHES);
        waiting.head.take()
    }

    /// Gives up packets that have waited too long.
    fn reap(&mut self, cx: &mut Cx<'_>, now: Nanos) {
        if now < self.reap_at {
            return;
        }
        self.reap_at = now + self.timeout / LOOKS;
        while let Some(id) = self.ages.first()
            && self.waiting[id].last_seen + self.timeout < now
        {
            self.give_up(cx, id, Reason::ReassemblyTimeout);
        }
    }

    /// Gives up the oldest until three quarters of what is allowed suffice.
    fn relieve(&mut self, cx: &mut Cx<'_>) {
        while let Some(id) = self.ages.first()
            && (self.used > self.himem / 4 * 3 || self.waiting.len() > self.max_packets / 4 * 3)
        {
            self.give_up(cx, id, Reason::ReassemblyLimit);
        }
    }

    fn give_up(&mut self, cx: &mut Cx<'_>, id: Id, reason: Reason) {
        let waiting = &mut self.waiting[id];
        self.failed += u64::from(!waiting.spoilt);
        // Nobody puts together what nobody looks at.
        let reported = cx.connected(1) && !waiting.spoilt;
        let reason = if waiting.spoilt { Reason::FragmentOverlap } else { reason };
        let mut packet = None;
        if reported {
            self.used -= waiting.memory();
            waiting.open(|| self.spare.take());
            packet = waiting.packet(0);
            self.used += waiting.memory();
        }
        match (packet, self.remove(id)) {
            (Some(packet), head) => {
                cx.made(1);
                head.iter().for_each(|head| cx.absorbed(head));
                cx.push_one(1, packet);
            }
            (None, Some(head)) => cx.drop(reason, head),
            (None, None) => cx.count_drops(reason, 1),
        }
    }
}

impl IpReassembler {
    /// One that knows what this one does of a single packet.
    fn apart(&self, key: DatagramKey) -> Option<IpReassembler> {
        let mut apart = IpReassembler {
            himem: self.himem,
            max_packets: usize::MAX,
            max_per_source: self.max_per_source,
            overlap: self.overlap,
            timeout: self.timeout,
            mtu_anno: self.mtu_anno,
            vrfs: self.vrfs.clone(),
            waiting: Slab::new(0),
            by_source: self
                .by_source
                .get_key_value(&source(key))
                .map(|(k, n)| (*k, *n))
                .into_iter()
                .collect(),
            reap_at: self.reap_at,
            looks: true,
            ..IpReassembler::default()
        };
        if let Some(id) = self.waiting.find(key) {
            let waiting = self.waiting[id].again()?;
            let id = apart.waiting.add(key);
            apart.waiting.link_last(0, &mut apart.ages, id);
            apart.used = waiting.memory();
            apart.waiting[id] = waiting;
        }
        Some(apart)
    }

    fn try_fragment(&self, cx: &mut Cx<'_>, packet: Packet) -> Rehearsed {
        if self.used > self.himem {
            return Rehearsed::Unknown(
                "the memory for fragments is used up, and others would be given up first".into(),
            );
        }
        let key = place(&packet, &self.vrfs).map_or(DatagramKey::default(), |place| place.key);
        let Some(mut apart) = self.apart(key) else {
            return Rehearsed::Unknown("packet memory is exhausted".into());
        };
        match apart.take(cx, packet) {
            Some(mut whole) => {
                // It is a packet that was made.
                whole.follow(0);
                Rehearsed::passes(whole)
            }
            None if apart.bad == 0 && apart.waiting.find(key).is_some() => {
                Rehearsed::Keeps("until the other fragments of its packet have come".into())
            }
            None => Rehearsed::Done,
        }
    }
}

fn is_fragment(packet: &Packet) -> bool {
    header(packet).is_some_and(is_part)
}

/// Whether a header is that of a fragment.
fn is_part(header: &[u8; 20]) -> bool {
    header[6] & 0x3f != 0 || header[7] != 0
}

impl IpReassembler {
    fn dump(&self) -> String {
        let mut lines: Vec<String> = self
            .waiting
            .list(0, self.ages)
            .map(|id| {
                let ((addresses, number), w) = (self.waiting.key(id), &self.waiting[id]);
                let have: String = w.have.iter().map(|(s, e)| format!(" ({s},{e})")).collect();
                let address = |bits: u64| Ipv4Addr::from_bits(bits as u32);
                let id = number >> 8 & 0xffff;
                format!(" {} > {} {id}{have}\n", address(addresses >> 32), address(addresses))
            })
            .collect();
        lines.sort_unstable();
        format!(
            "frags seen total:    {}\ngood reassemblies:   {}\nfailed reassemblies: {}\nbad fragments seen:  {}\n\
             cached chunk data:\n{}",
            self.seen,
            self.good,
            self.failed,
            self.bad,
            lines.concat()
        )
    }
}

/// What passes untouched.
struct Whole;

impl HeaderCheck for Whole {
    fn while_ordinary(&self, headers: &Headers<'_>, rows: Rows) -> Rows {
        headers.while_all(rows, |header| !is_part(header))
    }
}

impl Element for IpReassembler {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.himem = args.keyword("HIMEM", 256 * 1024);
        self.max_packets = args.keyword("MAX_PACKETS", usize::MAX);
        self.max_per_source = args.keyword("MAX_PER_SOURCE", u32::MAX);
        self.overlap = args.keyword("OVERLAP", Overlap::default());
        let timeout = args.keyword("TIMEOUT", TIMEOUT);
        self.mtu_anno = args.keyword_opt::<Anno<2>>("MAX_MTU_ANNO").map(|anno| anno.0);
        self.vrfs = VrfNames::configure(args);
        self.timeout = u64::try_from(timeout.as_nanos()).unwrap_or(Nanos::MAX / 2).min(Nanos::MAX / 2);
        self.waiting = Slab::new(RandomState::new().hash_one(0));
        self.spare = Spare::new(self.himem / 2);
        if timeout < Duration::from_secs(1) {
            args.error("TIMEOUT must be at least 1 s");
        }
        if self.max_packets == 0 || self.max_per_source == 0 {
            args.error("MAX_PACKETS and MAX_PER_SOURCE must be at least 1");
        }
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        let now = cx.now();
        self.reap(cx, now);
        self.looks = !self.waiting.is_empty();
        if self.looks {
            cx.set_timer_after(0, self.timeout / LOOKS);
        }
    }

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        program.add(Op::Check(Version::Four, &Whole));
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
}

impl PacketHolder for IpReassembler {
    fn held(&self) -> usize {
        self.waiting.len()
    }
}

impl Rehearsal for IpReassembler {
    fn rehearse(&mut self, cx: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        if is_fragment(&packet) { self.try_fragment(cx, packet) } else { Rehearsed::passes(packet) }
    }
}

impl IpReassembler {
    /// Takes over what waits in another one, of which nothing waits here. Each VRF is known by its name.
    fn take_waiting(&mut self, cx: &mut Cx<'_>, old: &mut IpReassembler) {
        if self.vrfs.are_those(&old.vrfs) {
            std::mem::swap(&mut self.waiting, &mut old.waiting);
            std::mem::swap(&mut self.ages, &mut old.ages);
            std::mem::swap(&mut self.used, &mut old.used);
            return;
        }
        let mut theirs = std::mem::take(&mut old.waiting);
        let ids: Vec<Id> = theirs.list(0, std::mem::take(&mut old.ages)).collect();
        old.used = 0;
        for id in ids {
            let (key, mut waiting) = (theirs.key(id), std::mem::take(&mut theirs[id]));
            let Some(number) = self.vrfs.heir(&old.vrfs, vrf(key)) else {
                self.failed += u64::from(!waiting.spoilt);
                match waiting.head {
                    Some(head) => cx.drop(Reason::HotSwap, head),
                    None => cx.count_drops(Reason::HotSwap, 1),
                }
                continue;
            };
            waiting.head.iter_mut().for_each(|head| self.vrfs.mark(head, number));
            let id = self.waiting.add(renumbered(key, number));
            self.waiting.link_last(0, &mut self.ages, id);
            self.used += waiting.memory();
            self.waiting[id] = waiting;
        }
    }
}

impl HotSwap for IpReassembler {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<IpReassembler>(old) else { return false };
        self.seen.take(&mut old.seen);
        self.joined.take(&mut old.joined);
        self.good.take(&mut old.good);
        self.failed.take(&mut old.failed);
        self.bad.take(&mut old.bad);
        if self.waiting.is_empty() {
            self.take_waiting(cx, old);
            self.by_source.clear();
            if self.max_per_source < u32::MAX {
                let keys = self.waiting.list(0, self.ages).map(|id| self.waiting.key(id));
                keys.for_each(|key| *self.by_source.entry(source(key)).or_default() += 1);
            }
            if !self.waiting.is_empty() {
                self.looks = true;
                cx.set_timer_after(0, self.timeout / LOOKS);
            }
        }
        true
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

    #[test]
    fn fragments_wait_through_a_swap() {
        let text = "i :: TestIn -> e :: IPReassembler -> o :: TestOut;";
        let first = vec![fragment(1, 0, 16, true), fragment(1, 16, 24, true), fragment(2, 0, 16, true)];
        let mut run = Rig::text(text).packets(first).ready().run_for(Duration::from_millis(1));
        assert!(run.out("o").is_empty());
        let swapped =
            run.swap("i :: TestIn -> Null -> e :: IPReassembler(TIMEOUT 9) -> o :: TestOut;").unwrap();
        assert_eq!((swapped.lost(), swapped.moved), (0, 1), "{swapped}");
        run.give("i", vec![fragment(1, 40, 5, false)]);
        // The other one's time runs out, though it was set before.
        let mut run = run.again();
        assert_eq!((run.out("o").len(), run.read("e.joined")), (1, "2".into()));
        assert_eq!(run.drops("e").iter().map(|d| d.1).sum::<u64>(), 1);
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
                let run = Rig::new(config).burst(burst).packets(packets).run();
                let out = run.out("o0");
                assert!(out.len() == 1 && sealed(out[0].data()));
                assert_eq!((&out[0].data()[20..], &out[0].data()[6..8]), (&whole(45)[..], &[0, 0][..]));
                assert_eq!(
                    (out[0].anno::<2>(20), out[0].transport_offset()),
                    (44u16.to_ne_bytes(), Some(20))
                );
                assert_eq!(run.drops("e"), [(Reason::ReassemblyTimeout, 1)]);
            }
        }
    }

    /// Elements behind a Strip read where a packet came from on its link.
    #[test]
    fn the_link_header_of_the_first_fragment_stays_in_front() {
        let framed = |start, len, more, host| {
            let mut p = fragment(1, start, len, more);
            p.push(14).unwrap()[..14].copy_from_slice(&[9, 9, 9, 9, 9, 9, 2, 0, 0, 0, 0, host, 8, 0]);
            p.set_mac_offset(0);
            p.strip(14);
            p
        };
        for order in [[0, 1], [1, 0]] {
            let pieces = [framed(0, 16, true, 1), framed(16, 5, false, 2)];
            let mut pieces = pieces.map(Some);
            let packets = order.iter().filter_map(|n| pieces[*n].take()).collect();
            let out = Rig::new("IPReassembler").packets(packets).run().out("o0");
            assert_eq!((out[0].mac_offset(), &out[0].data()[20..]), (Some(-14), &whole(21)[..]));
            assert_eq!(out[0].mac().unwrap()[6..14], [2, 0, 0, 0, 0, 1, 8, 0]);
        }
    }

    #[test]
    fn journeys_of_fragments_end_with_the_whole() {
        let cuts = [(0, 16, true), (16, 24, true), (40, 5, false)];
        let piece = |i: usize| fragment(1, cuts[i].0, cuts[i].1, cuts[i].2);
        crate::testing::journeys::check_reassembly("IPReassembler", piece);
        // Whose headers are the whole's for a while is held until the first fragment takes its place.
        let mut packets: Vec<_> = [2, 0, 1].map(piece).into();
        packets.iter_mut().zip(1..).for_each(|(packet, number)| packet.follow(number));
        let mut run =
            Rig::text("i :: TestIn -> e :: IPReassembler -> d :: Discard;").packets(packets).ready();
        let journeys = crate::testing::journeys::Journeys::of(&mut run);
        let run = run.again();
        let told = journeys.told(&run);
        assert_eq!(told[&1], ["held by e", "ends in e"]);
        assert_eq!(told[&2][..3], ["held by e", "made by e", "ends in e"]);
    }

    /// Three fragments with these congestion fields, in every order of arrival; want the whole's, or a drop.
    #[test]
    fn congestion_fields_are_merged() {
        let cuts = [(0, 16, true), (16, 24, true), (40, 5, false)];
        let check = |points: [u8; 3], want: Option<u8>| {
            for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [1, 0, 2]] {
                let marked = |i: usize| {
                    let mut p = fragment(1, cuts[i].0, cuts[i].1, cuts[i].2);
                    p.data_mut()[1] = 0xb8 | points[i];
                    seal(p.data_mut());
                    p
                };
                let run = Rig::new("IPReassembler").packets(order.map(marked).into()).run();
                let tos: Vec<u8> = run.bytes("o0").iter().map(|p| p[1]).collect();
                assert_eq!(tos, want.map(|point| 0xb8 | point).into_iter().collect::<Vec<_>>(), "{points:?}");
                assert!(run.bytes("o0").iter().all(|p| sealed(p)));
                let drops = if want.is_none() { vec![(Reason::FragmentEcn, 1)] } else { vec![] };
                assert_eq!(run.drops("e"), drops, "{points:?}");
            }
        };
        for points in 0..64u8 {
            let points = [points & 3, points >> 2 & 3, points >> 4];
            let (some, all) = (points.contains(&0), points == [0; 3]);
            let want = match (some && !all, points.contains(&3)) {
                (true, _) => None,
                (false, true) => Some(3),
                (false, false) => Some(points[0]),
            };
            check(points, want);
        }
    }

    #[test]
    fn a_copy_of_a_fragment_says_nothing_of_congestion() {
        let mut copy = fragment(1, 0, 16, true);
        copy.data_mut()[1] = 3;
        seal(copy.data_mut());
        let packets = vec![fragment(1, 0, 16, true), copy, fragment(1, 16, 8, false)];
        let run = Rig::new("IPReassembler").packets(packets).run();
        assert_eq!(run.drops("e"), []);
        assert_eq!(run.out("o0").len(), 1);
    }

    #[test]
    fn bad_fragments() {
        let check = |packets: Vec<Packet>, want| {
            let run = Rig::new("IPReassembler").packets(packets).run();
            assert_eq!(
                (run.drops("e").first(), run.out("o0").len()),
                (Some(&(Reason::BadFragment, want)), 0)
            );
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
        let run = Rig::new("IPReassembler(HIMEM 1600)").packets(packets).run();
        let given_up = [(Reason::ReassemblyTimeout, 2), (Reason::ReassemblyLimit, 2)];
        assert_eq!((run.out("o0").len(), run.drops("e")), (1, given_up.to_vec()));
    }

    #[test]
    fn packets_are_limited_in_all_and_by_source() {
        let from = |last: u8, id| {
            let mut p = fragment(id, 0, 8, true);
            p.data_mut()[15] = last;
            seal(p.data_mut());
            p
        };
        let check = |config: &str, limit, timeout| {
            let packets = (0..20).map(|id| from(id % 2, id)).collect();
            let run = Rig::new(&format!("IPReassembler({config})")).packets(packets).run();
            let want = [(Reason::ReassemblyTimeout, timeout), (Reason::ReassemblyLimit, limit)];
            assert_eq!(run.drops("e"), want, "{config}");
        };
        check("MAX_PACKETS 8", 12, 8);
        check("MAX_PACKETS 1", 19, 1);
        check("MAX_PER_SOURCE 3", 14, 6);
    }

    #[test]
    fn fragments_of_two_vrfs_are_of_different_packets() {
        let of = |vrf: u8, id, start, more| {
            let mut p = fragment(id, start, 8, more);
            p.set_anno_u8(packet::anno::VRF, vrf);
            p
        };
        let all = [(1, 0), (2, 8), (2, 0), (1, 8)];
        let packets = || all.map(|(vrf, start)| of(vrf, 7, start, start == 0)).into_iter();
        for (config, wholes) in [("VRF_ANNO VRF", vec![2, 1]), ("", vec![1, 2])] {
            let run = Rig::new(&format!("IPReassembler({config})")).packets(packets().collect()).run();
            let found: Vec<u8> = run.out("o0").iter().map(|p| p.anno_u8(packet::anno::VRF)).collect();
            assert_eq!(found, wholes, "{config}");
        }
        // Sources count in each VRF.
        let begun = (0..8).map(|id| of(id % 2, id, 0, true)).collect();
        let run = Rig::new("IPReassembler(VRF_ANNO VRF, MAX_PER_SOURCE 3)").packets(begun).run();
        assert_eq!(run.drops("e"), [(Reason::ReassemblyTimeout, 6), (Reason::ReassemblyLimit, 2)]);
    }

    #[test]
    fn fragments_stay_in_their_vrf_through_a_swap() {
        // The identification says which VRF a fragment was of before.
        let of = |before: u8, vrf: u8, start, more| {
            let mut p = fragment(before, start, 8, more);
            p.set_anno_u8(packet::anno::VRF, vrf);
            p
        };
        let text = |vrfs: &str| {
            format!("i :: TestIn -> e :: IPReassembler(MAX_PER_SOURCE 9{vrfs}) -> o :: TestOut;")
        };
        let both = ", VRF_ANNO VRF, VRF red, VRF blue";
        // Which are put together: by their numbers before and after.
        for (before, after, wholes) in [
            (both, both, vec![(0, 0), (1, 1), (2, 2)]),
            (both, ", VRF_ANNO VRF, VRF blue, VRF red", vec![(0, 0), (1, 2), (2, 1)]),
            (both, ", VRF_ANNO VRF, VRF new, VRF blue", vec![(0, 0), (2, 2)]),
            (both, ", VRF_ANNO VRF, VRF blue", vec![(0, 0), (2, 1)]),
            (both, ", VRF_ANNO VRF, VRF crimson, VRF navy", vec![(0, 0)]),
            (both, ", VRF_ANNO VRF", vec![(0, 0)]),
            (", VRF_ANNO VRF", ", VRF_ANNO VRF", vec![(0, 0)]),
            (", VRF_ANNO VRF", both, vec![(0, 0)]),
            (both, "", vec![(0, 0)]),
        ] {
            let first = [0, 1, 2].map(|vrf| of(vrf, vrf, 0, true)).into();
            let run = Rig::text(&text(before)).packets(first).ready();
            let mut run = run.run_for(Duration::from_millis(1));
            let swapped = run.swap(&text(after)).unwrap();
            assert_eq!(swapped.lost(), 0, "{before} {after}: {swapped}");
            let dropped =
                run.drops("e").iter().find(|(reason, _)| *reason == Reason::HotSwap).map_or(0, |one| one.1);
            assert_eq!(dropped, 3 - wholes.len() as u64, "{before} {after}");
            run.give("i", (0..12).map(|n| of(n / 4, n % 4, 8, false)).collect());
            let run = run.again();
            let found: Vec<(u8, u8)> =
                run.out("o").iter().map(|p| (p.data()[5], p.anno_u8(packet::anno::VRF))).collect();
            assert_eq!(found, wholes, "{before} {after}");
        }
        for (vrfs, why) in [
            (", VRF red", "say which by VRF_ANNO"),
            (", VRF_ANNO VRF, VRF red, VRF red", "VRF red stands here twice"),
        ] {
            let found = Rig::text(&text(vrfs)).errors();
            assert!(found.iter().any(|error| error.contains(why)), "{found:?}");
        }
    }

    #[test]
    fn a_source_may_begin_anew_when_its_packets_are_done() {
        let packets = (0..9).flat_map(|id| [fragment(id, 0, 8, true), fragment(id, 8, 8, false)]).collect();
        assert_eq!(Rig::new("IPReassembler(MAX_PER_SOURCE 1)").packets(packets).run().out("o0").len(), 9);
    }

    #[test]
    fn overlapping_fragments() {
        let other = |start, len, more| {
            let mut p = fragment(1, start, len, more);
            p.data_mut()[20] ^= 0xff;
            p
        };
        let packets = || {
            let twice_alike = fragment(1, 8, 8, true);
            vec![fragment(1, 0, 16, true), twice_alike, other(8, 16, true), fragment(1, 24, 8, false)]
        };
        let run = Rig::new("IPReassembler").packets(packets()).run();
        let mut want = whole(32);
        want[8] ^= 0xff;
        assert_eq!((run.bytes("o0")[0][20..].to_vec(), run.drops("e")), (want, vec![]));
        let drop = || Rig::new("IPReassembler(OVERLAP drop)");
        let run = drop().packets(packets()).run();
        assert_eq!((run.out("o0").len(), run.drops("e")), (0, vec![(Reason::FragmentOverlap, 3)]));
        let mut alike = packets();
        alike[2] = fragment(1, 8, 16, true);
        assert_eq!(drop().packets(alike).run().bytes("o0")[0][20..], whole(32));
    }

    // conformance: RFC1812-4.3.3.4
    #[test]
    fn a_timeout_is_reported_to_who_sent_the_first_fragment() {
        let text = "i :: TestIn -> r :: IPReassembler(TIMEOUT 6) -> o :: TestOut;
            r[1] -> t :: Tee -> x :: TestOut;
            t[1] -> e :: ICMPError(9.9.9.9, timeexceeded, reassembly) -> y :: TestOut;";
        let packets = vec![fragment(1, 0, 16, true), fragment(2, 16, 16, true), fragment(2, 40, 8, true)];
        let run = Rig::text(text).packets(packets).run();
        let (given_up, answers) = (run.bytes("x"), run.bytes("y"));
        assert_eq!(
            given_up.iter().map(|p| (p[5], p[6], p[7], p.len())).collect::<Vec<_>>(),
            [(1, 0x20, 0, 36), (2, 0x20, 2, 52)]
        );
        assert!(given_up.iter().all(|p| sealed(p)));
        assert_eq!(run.drops("e"), [(Reason::NoIcmpError, 1)]);
        assert_eq!(
            (answers.len(), &answers[0][20..22], &answers[0][28..]),
            (1, &[11, 1][..], &given_up[0][..])
        );
    }

    #[test]
    fn arguments() {
        let errors = |config: &str| Rig::new(&format!("IPReassembler({config})")).errors();
        assert_eq!(
            errors("OVERLAP first"),
            ["e: argument OVERLAP should be 'replace' or 'drop', not 'first'"]
        );
        assert_eq!(errors("TIMEOUT 0.5"), ["e: TIMEOUT must be at least 1 s"]);
        assert_eq!(errors("MAX_PACKETS 0"), ["e: MAX_PACKETS and MAX_PER_SOURCE must be at least 1"]);
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
