// SPDX-License-Identifier: MIT OR Apache-2.0
//! # AggregatePacketCounter
//!
//! `AggregatePacketCounter([keywords ANNO, CAPACITY])`
//!
//! Counts packets by aggregate and packet number, for each input: it finds packets that were sent but did not arrive.
//!
//! **Ports:** 1 or more inputs, as many outputs, agnostic. Packets leave by the output of their input's number.
//!
//! **Arguments**
//! * `ANNO` the 4-byte annotation with the packet number, by offset or name, or `NONE`; default `SEQUENCE_NUMBER`. `PACKET_NUMBER` is
//!   another name of it.
//! * `CAPACITY` packet numbers to know at most, over all aggregates, 1 to 16777216, default 1048576. Packets with further ones are
//!   not counted.
//!
//! Packets of aggregate 0 are not counted.
//!
//! **Metadata read:** aggregate, packet number.
//!
//! **Drops:** none.
//!
//! **Cores:** one worker at a time uses it; where several do, a lock stands before it.
//!
//! **Handlers**
//! * `count` read: packets counted. `clear` write: forgets everything.
//! * `received AGGREGATE` read: packet numbers that came in anywhere, line by line.
//! * `undelivered AGGREGATE` read: packet numbers that came to input 0 more often than to input 1.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> AggregateIP(ip src) -> [0] a :: AggregatePacketCounter [0] -> Discard;
//! Idle -> [1] a [1] -> Discard;
//! ```
//!
//! See also: AggregateCounter, AggregateIP, AggregateIPFlows

use std::collections::BTreeMap;
use std::fmt::Write;

use element::args::{Args, FromArg, Names};
use element::{Class, Cx, Element, HandlerError, HotSwap, Rehearsal, Rehearsed, handlers, swap};
use packet::{Batch, Packet, anno};

use crate::tools::{Anno, number};

/// The descriptor.
pub const CLASS: Class =
    Class::new("AggregatePacketCounter", "1-/=", || Box::new(AggregatePacketCounter::default()))
        .flow("#/#")
        .serial("a packet number counts at all inputs together")
        .handlers(handlers! { AggregatePacketCounter:
            read "count" => |counter| counter.counts.values().flatten().map(|n| u64::from(*n)).sum::<u64>();
            read "received" => |counter, text: &str| counter.list(aggregate("received", text)?, |_| true);
            read "undelivered" => |counter, text: &str| counter.undelivered(aggregate("undelivered", text)?)?;
            write "clear" => |counter| counter.counts.clear();
        })
        .hot_swap::<AggregatePacketCounter>()
        .rehearsal::<AggregatePacketCounter>()
        .file(file!());

const CAPACITY: usize = 1 << 20;
const CAPACITY_MOST: usize = 1 << 24;

/// Where packet numbers are; nowhere for `NONE`.
struct Place(Option<usize>);

impl FromArg for Place {
    const EXPECTED: &'static str = "a 4-byte annotation, or NONE";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        match text {
            "NONE" => Ok(Place(None)),
            "PACKET_NUMBER" => Ok(Place(Some(anno::SEQUENCE))),
            _ => Anno::<4>::from_arg(text, names).map(|place| Place(Some(place.0))),
        }
    }
}

#[derive(Default)]
struct AggregatePacketCounter {
    place: Option<usize>,
    capacity: usize,
    ninputs: usize,
    /// By aggregate and packet number, packets of each input.
    counts: BTreeMap<(u32, u32), Box<[u32]>>,
}

impl AggregatePacketCounter {
    fn count(&mut self, port: usize, batch: &Batch) {
        for packet in batch.iter() {
            let aggregate = packet.anno_u32(anno::AGGREGATE);
            let key = (aggregate, self.place.map_or(0, |at| packet.anno_u32(at)));
            let full = self.counts.len() >= self.capacity;
            if aggregate == 0 || (full && !self.counts.contains_key(&key)) {
                continue;
            }
            let counts = self.counts.entry(key).or_insert_with(|| vec![0; self.ninputs].into());
            counts[port] = counts[port].saturating_add(1);
        }
    }

    /// Packet numbers of an aggregate whose counts are such, line by line.
    fn list(&self, aggregate: u32, such: impl Fn(&[u32]) -> bool) -> String {
        let all = self.counts.range((aggregate, 0)..=(aggregate, u32::MAX));
        all.filter(|(_, counts)| such(counts)).fold(String::new(), |mut text, ((_, number), _)| {
            let _ = writeln!(text, "{number}");
            text
        })
    }
}

impl AggregatePacketCounter {
    fn undelivered(&self, aggregate: u32) -> Result<String, HandlerError> {
        match self.ninputs {
            0 | 1 => Err(HandlerError::failed("undelivered packets are known with two inputs only")),
            _ => Ok(self.list(aggregate, |counts| counts[0] > counts[1])),
        }
    }
}

impl Element for AggregatePacketCounter {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.place = args.keyword("ANNO", Place(Some(anno::SEQUENCE))).0;
        self.capacity = args.keyword_in("CAPACITY", CAPACITY, 1..=CAPACITY_MOST);
        self.ninputs = args.ninputs;
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) {
        self.count(port, &batch);
        cx.push(port, batch);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) -> Batch {
        let batch = cx.pull(port, max);
        self.count(port, &batch);
        batch
    }
}

impl Rehearsal for AggregatePacketCounter {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        Rehearsed::passes(packet)
    }
}

impl HotSwap for AggregatePacketCounter {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<AggregatePacketCounter>(old) else { return false };
        if old.ninputs == self.ninputs {
            self.counts.append(&mut old.counts);
        }
        true
    }
}

/// The aggregate in the parameter of handler `name`, by default 0.
fn aggregate(name: &str, text: &str) -> Result<u32, HandlerError> {
    if text.trim().is_empty() { Ok(0) } else { number(name, text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    /// Packets of one aggregate with these numbers.
    fn packets(aggregate: u32, numbers: &[u32]) -> Vec<Packet> {
        let made = |number: &u32| {
            let mut packet = Packet::copy_of(b"a").unwrap();
            packet.set_anno_u32(anno::AGGREGATE, aggregate);
            packet.set_anno_u32(anno::SEQUENCE, *number);
            packet
        };
        numbers.iter().map(made).collect()
    }

    #[test]
    fn finds_what_did_not_arrive() {
        let text = "i :: TestIn -> [0] e :: AggregatePacketCounter [0] -> o0 :: TestOut; j :: TestIn -> [1] e [1] -> o1 :: TestOut;";
        for burst in [1, 32] {
            let run = Rig::text(text).burst(burst).packets(packets(7, &[1, 2, 3, 3, 9])).run();
            run.give("j", packets(7, &[2, 3, 4]));
            run.give("j", packets(0, &[1]));
            let mut run = run.again();
            assert_eq!((run.out("o0").len(), run.out("o1").len(), run.read("e.count").as_str()), (5, 4, "8"));
            assert_eq!(run.read_with("e.received", "7"), "1\n2\n3\n4\n9\n");
            assert_eq!(
                (run.read_with("e.undelivered", "7"), run.read_with("e.undelivered", "8")),
                ("1\n3\n9\n".into(), "".into())
            );
            run.write("e.clear", "").unwrap();
            assert_eq!(run.read("e.count"), "0");
        }
    }

    #[test]
    fn numbers_from_other_places_and_bounds() {
        let mut run = Rig::new("AggregatePacketCounter(ANNO NONE)").packets(packets(7, &[1, 2])).run();
        assert_eq!(run.read_with("e.received", "7"), "0\n");
        assert!(
            run.try_read_with("e.undelivered", "7").is_err() && run.try_read_with("e.received", "x").is_err()
        );
        let mut run = Rig::new("AggregatePacketCounter(CAPACITY 1)").packets(packets(7, &[1, 2, 1])).run();
        assert_eq!((run.read("e.count"), run.read_with("e.received", "7")), ("2".into(), "1\n".into()));
        assert_eq!(Rig::new("AggregatePacketCounter(ANNO PAINT)").errors().len(), 1);
    }
}
