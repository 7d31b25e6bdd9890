// SPDX-License-Identifier: MIT OR Apache-2.0
//! # AggregateLast
//!
//! `AggregateLast([keywords NOTIFIER, STOP_AFTER_CLEAR, CAPACITY])`
//!
//! Passes the last packet of each aggregate: of each value of the aggregate annotation.
//!
//! **Ports:** 1 push input, 1 to 2 push outputs; the second for packets that others of their aggregate followed.
//!
//! **Arguments**
//! * `NOTIFIER` an AggregateIPFlows. When a flow has ended, its last packet leaves before the next packet comes in.
//! * `STOP_AFTER_CLEAR` boolean, default false: `clear` asks the driver to stop.
//! * `CAPACITY` aggregates whose last packets are held, 1 to 1048576, default 16384.
//!
//! Without NOTIFIER packets leave when `clear` is written, in the order of their aggregates.
//!
//! **Metadata read:** aggregate, timestamp. **Set:** extra packets, extra length and first timestamp, as of the whole aggregate.
//!
//! **Drops:** `not-matched`, packets that others followed, if there is no output 1; `no-memory`, packets of aggregates beyond CAPACITY.
//!
//! **Cores:** one worker at a time uses it; where several do, a lock stands before it.
//!
//! **Handlers**
//! * `clear` write: sends all packets that are held.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> AggregateIP(ip src) -> AggregateLast -> Discard;
//! ```
//!
//! See also: AggregateFirst, AggregateIP, AggregateIPFlows, AggregateCounter

use std::collections::BTreeMap;
use std::sync::Arc;

use element::args::Args;
use element::{Class, Cx, Element, InitCx, PacketHolder, Reason, Rehearsal, Rehearsed, carries, handlers};
use packet::{Batch, Packet, anno};

use super::notices::{Notices, listen};

/// The descriptor.
pub const CLASS: Class = Class::new("AggregateLast", "1/1-2", || Box::new(AggregateLast::default()))
    .processing("h/h")
    .serial("an aggregate has one last packet")
    .handlers(handlers! { AggregateLast:
        write "clear" => |element, cx| element.clear(cx);
    })
    .hot_swap::<AggregateLast>()
    .rehearsal::<AggregateLast>()
    .packet_holder::<AggregateLast>()
    .file(file!());

#[derive(Default)]
struct AggregateLast {
    last: BTreeMap<u32, Packet>,
    capacity: usize,
    stop: bool,
    notifier: Option<String>,
    notices: Option<Arc<Notices>>,
}

/// Gives a packet what is annotated for those of its aggregate before it.
fn follow(packet: &mut Packet, before: Option<&Packet>) {
    let Some(before) = before else {
        let first = packet.timestamp_ns().to_ne_bytes();
        return packet.set_anno(anno::FIRST_TIMESTAMP, first);
    };
    let add = |packet: &mut Packet, at, more: u32| {
        let sum = packet.anno_u32(at).wrapping_add(before.anno_u32(at)).wrapping_add(more);
        packet.set_anno_u32(at, sum);
    };
    add(packet, anno::EXTRA_PACKETS, 1);
    add(packet, anno::EXTRA_LENGTH, before.len() as u32);
    packet.set_anno::<8>(anno::FIRST_TIMESTAMP, before.anno(anno::FIRST_TIMESTAMP));
}

impl AggregateLast {
    /// Sends the last packets of aggregates that have ended.
    fn end(&mut self, cx: &mut Cx<'_>) {
        let ended = self.notices.as_ref().map(|n| n.fetch()).unwrap_or_default();
        let gone: Batch = ended.iter().filter_map(|aggregate| self.last.remove(aggregate)).collect();
        if !gone.is_empty() {
            cx.push(0, gone);
        }
    }
}

impl AggregateLast {
    fn clear(&mut self, cx: &mut Cx<'_>) {
        let all: Batch = std::mem::take(&mut self.last).into_values().collect();
        if !all.is_empty() {
            cx.push(0, all);
        }
        if self.stop {
            cx.please_stop();
        }
    }
}

impl Element for AggregateLast {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.notifier = args.keyword_opt("NOTIFIER");
        self.stop = args.keyword("STOP_AFTER_CLEAR", false);
        self.capacity = args.keyword_in("CAPACITY", 1 << 14, 1..=1 << 20);
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.notices = self.notifier.as_ref().map(|name| listen(cx, name)).transpose()?;
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        self.end(cx);
        let (mut followed, mut beyond) = (Batch::new(), Batch::new());
        for mut packet in batch.drain(..) {
            let aggregate = packet.anno_u32(anno::AGGREGATE);
            let before = self.last.remove(&aggregate);
            if before.is_none() && self.last.len() >= self.capacity {
                beyond.push(packet);
                continue;
            }
            follow(&mut packet, before.as_ref());
            self.last.insert(aggregate, packet);
            before.into_iter().for_each(|p| followed.push(p));
        }
        cx.push_or_drop(1, followed, Reason::NotMatched);
        cx.drop_batch(Reason::NoMemory, beyond);
    }
}

impl PacketHolder for AggregateLast {
    fn held(&self) -> usize {
        self.last.len()
    }
}

impl Rehearsal for AggregateLast {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        Rehearsed::passes(packet)
    }
}

carries!(AggregateLast: last; anew capacity, stop, notifier, notices);

#[cfg(test)]
mod tests {
    use element::clock::SECOND;

    use super::*;
    use crate::testing::Rig;

    fn packets(aggregates: &[u32]) -> Vec<Packet> {
        let made = |(n, aggregate): (usize, &u32)| {
            let mut packet = Packet::copy_of(&[n as u8; 10]).unwrap();
            packet.set_anno_u32(anno::AGGREGATE, *aggregate);
            packet.set_timestamp_ns((n as u64 + 1) * SECOND);
            packet
        };
        aggregates.iter().enumerate().map(made).collect()
    }

    #[test]
    fn the_last_of_each_leaves_when_cleared() {
        for burst in [1, 32] {
            let rig = Rig::new("AggregateLast").outputs(2).burst(burst);
            let mut run = rig.packets(packets(&[7, 5, 5, 7, 7])).run();
            let first = |all: Vec<Vec<u8>>| all.iter().map(|p| p[0]).collect::<Vec<_>>();
            assert_eq!((first(run.bytes("o0")), first(run.bytes("o1"))), (vec![], vec![1, 0, 3]));
            run.write("e.clear", "").unwrap();
            let run = run.again();
            let out = run.out("o0");
            assert_eq!(out.iter().map(|p| p.data()[0]).collect::<Vec<_>>(), [2, 4]);
            let last = &out[1];
            assert_eq!((last.anno_u32(anno::EXTRA_PACKETS), last.anno_u32(anno::EXTRA_LENGTH)), (2, 20));
            assert_eq!(u64::from_ne_bytes(last.anno(anno::FIRST_TIMESTAMP)), SECOND);
        }
    }

    #[test]
    fn what_has_no_place_is_dropped() {
        let run = Rig::new("AggregateLast(CAPACITY 1)").packets(packets(&[5, 7, 5])).run();
        assert_eq!(run.drops("e"), [(Reason::NoMemory, 1), (Reason::NotMatched, 1)]);
    }

    #[test]
    fn a_flow_that_ends_sends_its_last_packet() {
        let text = "i :: TestIn -> CheckIPHeader -> f :: AggregateIPFlows(UDP_TIMEOUT 10) -> e :: AggregateLast(NOTIFIER f) -> o :: TestOut;";
        let udp = |time: u64| {
            let mut bytes = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0x66, 0xcf, 10, 0, 0, 1, 10, 0, 0, 2];
            bytes.extend([0, 5, 0, 6, 0, 8, 0, 0]);
            let mut packet = Packet::copy_of(&bytes).unwrap();
            packet.set_timestamp_ns(time * SECOND);
            packet
        };
        let run = Rig::text(text).burst(1).packets(vec![udp(1), udp(2), udp(20)]).run();
        let times: Vec<_> = run.out("o").iter().map(|p| p.timestamp_ns() / SECOND).collect();
        assert_eq!(times, [2]);
        let two = "i :: TestIn -> f :: AggregateIPFlows -> AggregateFirst(NOTIFIER f) -> AggregateLast(NOTIFIER f) -> Discard;";
        assert_eq!(Rig::text(two).errors().len(), 1);
    }
}
