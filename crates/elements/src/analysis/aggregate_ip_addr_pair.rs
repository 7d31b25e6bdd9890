// SPDX-License-Identifier: MIT OR Apache-2.0
//! # AggregateIPAddrPair
//!
//! `AggregateIPAddrPair([keywords TIMEOUT, REAP, CAPACITY])`
//!
//! Numbers pairs of IP addresses: it sets each packet's aggregate annotation to its pair's number, and its paint to the direction.
//!
//! **Ports:** 1 input, 1 to 2 outputs; the first is agnostic, the second one push.
//!
//! **Arguments** (times are those of the packets' timestamps)
//! * `TIMEOUT` seconds without a packet after which a pair gets another number, default 0: never.
//! * `REAP` how often to forget such pairs, default 20 minutes.
//! * `CAPACITY` pairs to know at most, 1 to 16777216, default 1048576.
//!
//! Pairs are numbered from 1. Packets in the direction of a pair's first one get paint 0, the others paint 1.
//!
//! **Metadata read:** network header position; timestamp if there is a TIMEOUT. **Set:** aggregate, paint; the timestamp where there is none.
//!
//! **Drops:** `not-matched`, packets without an IP header and those of further pairs, if there is no output 1.
//!
//! **Cores:** one worker at a time uses it; where several do, a lock stands before it.
//!
//! **Handlers**
//! * `clear` write: forgets all pairs.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> AggregateIPAddrPair -> AggregateCounter -> Discard;
//! ```
//!
//! See also: AggregateIPFlows, AggregateIP, AggregateCounter

use std::collections::HashMap;
use std::time::Duration;

use element::args::Args;
use element::clock::SECOND;
use element::{Class, Cx, Element, HotSwap, Reason, Rehearsal, Rehearsed, handlers, swap};
use packet::{Batch, Packet, anno};

/// The descriptor.
pub const CLASS: Class =
    Class::new("AggregateIPAddrPair", "1/1-2", || Box::new(AggregateIpAddrPair::default()))
        .processing("a/ah")
        .serial("pairs are numbered in the order in which they come")
        .handlers(handlers! { AggregateIpAddrPair:
            write "clear" => |element| element.pairs.clear();
        })
        .hot_swap::<AggregateIpAddrPair>()
        .rehearsal::<AggregateIpAddrPair>()
        .file(file!());

const CAPACITY: usize = 1 << 20;
const CAPACITY_MOST: usize = 1 << 24;

struct Pair {
    number: u32,
    /// Its first packet went from the second address to the first.
    reverse: bool,
    /// The last packet's second.
    last: u64,
}

#[derive(Default)]
struct AggregateIpAddrPair {
    pairs: HashMap<(u32, u32), Pair, foldhash::fast::RandomState>,
    capacity: usize,
    timeout: u64,
    reap: u64,
    reap_at: u64,
    last_number: u32,
}

impl AggregateIpAddrPair {
    /// Forgets pairs that had no packet for too long.
    fn forget(&mut self, now: u64) {
        let timeout = self.timeout;
        self.pairs.retain(|_, pair| now.saturating_sub(pair.last) <= timeout);
        self.reap_at = now.saturating_add(self.reap);
    }

    fn annotate(&mut self, packet: &mut Packet, wall: u64) -> Option<()> {
        let ip = *packet.network_chunk::<20>()?;
        let address = |at: usize| u32::from_be_bytes([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]);
        let (src, dst) = (address(12), address(16));
        if self.timeout > 0 && packet.timestamp_ns() == 0 {
            packet.set_timestamp_ns(wall);
        }
        let now = packet.timestamp_ns() / SECOND;
        if self.timeout > 0 && now > self.reap_at {
            self.forget(now);
        }
        let key = (src.min(dst), src.max(dst));
        let ended = |pair: &Pair| self.timeout > 0 && now.saturating_sub(pair.last) > self.timeout;
        match self.pairs.get(&key) {
            Some(pair) if !ended(pair) => {}
            None if self.pairs.len() >= self.capacity => return None,
            _ => {
                self.last_number = self.last_number.checked_add(1).unwrap_or(1);
                let pair = Pair { number: self.last_number, reverse: src > dst, last: now };
                self.pairs.insert(key, pair);
            }
        }
        let pair = self.pairs.get_mut(&key)?;
        pair.last = now;
        packet.set_anno_u32(anno::AGGREGATE, pair.number);
        packet.set_paint(u8::from(pair.reverse != (src > dst)));
        Some(())
    }
}

impl Element for AggregateIpAddrPair {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.timeout = args.keyword("TIMEOUT", Duration::ZERO).as_secs();
        self.reap = args.keyword("REAP", Duration::from_secs(20 * 60)).as_secs();
        self.capacity = args.keyword_in("CAPACITY", CAPACITY, 1..=CAPACITY_MOST);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let (wall, mut without) = (cx.wall(), Batch::new());
        batch.partition(|p| self.annotate(p, wall).is_some(), |p| without.push(p));
        cx.push_or_drop(1, without, Reason::NotMatched);
        batch
    }
}

impl Rehearsal for AggregateIpAddrPair {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        Rehearsed::passes(packet)
    }
}

impl HotSwap for AggregateIpAddrPair {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<AggregateIpAddrPair>(old) else { return false };
        self.pairs.extend(old.pairs.drain());
        self.last_number = self.last_number.max(old.last_number);
        self.reap_at = old.reap_at;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    /// Packets between hosts at times in seconds.
    fn packets(all: &[(u64, u8, u8)]) -> Vec<Packet> {
        let made = |(time, src, dst): &(u64, u8, u8)| {
            let mut packet = crate::ip::samples::datagram(9, [1, 0, 0, *src], [1, 0, 0, *dst], &[], 0);
            packet.set_timestamp_ns(time * SECOND);
            packet
        };
        all.iter().map(made).collect()
    }

    fn check(args: &str, all: &[(u64, u8, u8)], want: &[(u32, u8)], others: usize) {
        for burst in [1, 32] {
            let rig = Rig::new(&format!("AggregateIPAddrPair({args})")).outputs(2).burst(burst);
            let run = rig.packets(packets(all)).run();
            let got: Vec<_> =
                run.out("o0").iter().map(|p| (p.anno_u32(anno::AGGREGATE), p.paint())).collect();
            assert_eq!((got, run.out("o1").len()), (want.to_vec(), others), "{args}");
        }
    }

    #[test]
    fn pairs_have_numbers_and_directions() {
        check("", &[(1, 2, 1), (1, 1, 2), (1, 1, 3), (9999, 2, 1)], &[(1, 0), (1, 1), (2, 0), (1, 0)], 0);
        check("TIMEOUT 10", &[(1, 2, 1), (11, 1, 2), (22, 1, 2)], &[(1, 0), (1, 1), (2, 0)], 0);
        check("TIMEOUT 10, REAP 5", &[(1, 2, 1), (50, 1, 2)], &[(1, 0), (2, 0)], 0);
        check("CAPACITY 1", &[(1, 2, 1), (1, 3, 1), (1, 1, 2)], &[(1, 0), (1, 1)], 1);
    }

    #[test]
    fn what_is_no_ip_leaves_by_the_second_output() {
        let mut run = Rig::new("AggregateIPAddrPair").inputs(&[b"x"]).run();
        assert_eq!(run.drops("e"), [(Reason::NotMatched, 1)]);
        run.write("e.clear", "").unwrap();
        let want = "e: CAPACITY must lie between 1 and 16777216, not 0";
        assert_eq!(Rig::new("AggregateIPAddrPair(CAPACITY 0)").errors(), [want]);
    }
}
