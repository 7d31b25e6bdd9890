// SPDX-License-Identifier: MIT OR Apache-2.0
//! # AggregateFirst
//!
//! `AggregateFirst([keywords NOTIFIER, CAPACITY])`
//!
//! Passes the first packet of each aggregate: of each value of the aggregate annotation.
//!
//! **Ports:** 1 input, 1 to 2 outputs; the first is agnostic, the second one push: the packets that are not the first.
//!
//! **Arguments**
//! * `NOTIFIER` an AggregateIPFlows. What is kept for a flow that has ended is forgotten.
//! * `CAPACITY` aggregates to know at most, 1 to 16777216, default 1048576. Packets of further ones count as not the first.
//!
//! **Metadata read:** aggregate.
//!
//! **Drops:** `not-matched`, packets that are not the first, if there is no output 1.
//!
//! **Cores:** one worker at a time uses it; where several do, a lock stands before it.
//!
//! **Handlers**
//! * `clear` write: forgets all aggregates.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> AggregateIP(ip src) -> AggregateFirst -> Discard;
//! ```
//!
//! See also: AggregateLast, AggregateIP, AggregateIPFlows, AggregateCounter

use std::collections::HashSet;
use std::sync::Arc;

use element::args::Args;
use element::{Class, Cx, Element, InitCx, Reason, Rehearsal, Rehearsed, carries, handlers};
use packet::{Batch, Packet, anno};

use super::notices::{Notices, listen};

/// The descriptor.
pub const CLASS: Class = Class::new("AggregateFirst", "1/1-2", || Box::new(AggregateFirst::default()))
    .processing("a/ah")
    .serial("an aggregate has one first packet")
    .handlers(handlers! { AggregateFirst:
        write "clear" => |element| element.seen.clear();
    })
    .hot_swap::<AggregateFirst>()
    .rehearsal::<AggregateFirst>()
    .file(file!());

#[derive(Default)]
struct AggregateFirst {
    seen: HashSet<u32, foldhash::fast::RandomState>,
    capacity: usize,
    notifier: Option<String>,
    notices: Option<Arc<Notices>>,
}

impl Element for AggregateFirst {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.notifier = args.keyword_opt("NOTIFIER");
        self.capacity = args.keyword_in("CAPACITY", 1 << 20, 1..=1 << 24);
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.notices = self.notifier.as_ref().map(|name| listen(cx, name)).transpose()?;
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        for ended in self.notices.iter().flat_map(|n| n.fetch()) {
            self.seen.remove(&ended);
        }
        let mut others = Batch::new();
        let (seen, capacity) = (&mut self.seen, self.capacity);
        let first = |p: &mut Packet| {
            let aggregate = p.anno_u32(anno::AGGREGATE);
            if seen.len() >= capacity { false } else { seen.insert(aggregate) }
        };
        batch.partition(first, |p| others.push(p));
        cx.push_or_drop(1, others, Reason::NotMatched);
        batch
    }
}

impl Rehearsal for AggregateFirst {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        Rehearsed::passes(packet)
    }
}

carries!(AggregateFirst: seen; anew capacity, notifier, notices);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    fn packets(aggregates: &[u32]) -> Vec<Packet> {
        let made = |(n, aggregate): (usize, &u32)| {
            let mut packet = Packet::copy_of(&[n as u8]).unwrap();
            packet.set_anno_u32(anno::AGGREGATE, *aggregate);
            packet
        };
        aggregates.iter().enumerate().map(made).collect()
    }

    #[test]
    fn the_first_of_each_passes() {
        for burst in [1, 32] {
            let run = Rig::new("AggregateFirst").outputs(2).burst(burst);
            let mut run = run.packets(packets(&[5, 7, 5, 0, 7, 0, 9])).run();
            assert_eq!(
                (run.bytes("o0").concat(), run.bytes("o1").concat()),
                (vec![0, 1, 3, 6], vec![2, 4, 5])
            );
            run.write("e.clear", "").unwrap();
            run.give("i", packets(&[5, 5]));
            assert_eq!(run.again().bytes("o0").concat(), [0]);
        }
        let run = Rig::new("AggregateFirst(CAPACITY 1)").packets(packets(&[5, 7, 5])).run();
        assert_eq!((run.bytes("o0").len(), run.drops("e")), (1, vec![(Reason::NotMatched, 2)]));
    }

    #[test]
    fn a_notifier_must_be_one() {
        let errors = Rig::text("i :: TestIn -> e :: AggregateFirst(NOTIFIER i) -> Discard;").errors();
        assert_eq!(errors, ["'e' could not start: i is not an AggregateNotifier"]);
    }
}
