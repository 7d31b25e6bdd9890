// SPDX-License-Identifier: MIT OR Apache-2.0
//! # AggregateLength
//!
//! `AggregateLength([keyword IP])`
//!
//! Sets each packet's aggregate annotation to its length in bytes. Bytes that a capture left out count too.
//!
//! **Ports:** 1 input, 1 to 2 outputs; the first is agnostic, the second one push.
//!
//! **Arguments**
//! * `IP` boolean, default false: the length counts from the network header.
//!
//! **Metadata read:** extra length; network header position for IP. **Set:** aggregate.
//!
//! **Drops:** `not-matched`, packets without a network header, if IP is true and there is no output 1.
//!
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 5, STOP true) -> AggregateLength -> AggregateCounter -> Discard;
//! ```
//!
//! See also: AggregateIP, AggregateCounter

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::{Batch, Packet, anno};

/// The descriptor.
pub const CLASS: Class = Class::new("AggregateLength", "1/1-2", || Box::new(AggregateLength { ip: false }))
    .processing("a/ah")
    .pure()
    .file(file!());

struct AggregateLength {
    ip: bool,
}

impl AggregateLength {
    fn annotate(&self, packet: &mut Packet) -> Option<()> {
        let link = if self.ip { packet.network_offset()? } else { 0 };
        let length = (packet.len() as u32).wrapping_add(packet.anno_u32(anno::EXTRA_LENGTH));
        packet.set_anno_u32(anno::AGGREGATE, length.wrapping_sub(link as u32));
        Some(())
    }
}

impl Element for AggregateLength {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.ip = args.keyword("IP", false);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let mut without = Batch::new();
        batch.partition(|p| self.annotate(p).is_some(), |p| without.push(p));
        cx.push_or_drop(1, without, Reason::NotMatched);
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    fn packets() -> Vec<Packet> {
        let mut with_header = Packet::copy_of(&[0; 50]).unwrap();
        with_header.set_network_offset(14);
        with_header.set_anno_u32(anno::EXTRA_LENGTH, 100);
        vec![with_header, Packet::copy_of(&[0; 7]).unwrap()]
    }

    #[test]
    fn lengths_with_and_without_link_header() {
        for burst in [1, 32] {
            let lengths = |run: &crate::testing::Run| -> Vec<u32> {
                run.out("o0").iter().map(|p| p.anno_u32(anno::AGGREGATE)).collect()
            };
            let run = Rig::new("AggregateLength").burst(burst).packets(packets()).run();
            assert_eq!(lengths(&run), [150, 7]);
            let run = Rig::new("AggregateLength(IP true)").outputs(2).burst(burst).packets(packets()).run();
            assert_eq!((lengths(&run), run.out("o1").len()), (vec![136], 1));
        }
        let run = Rig::new("AggregateLength(IP true)").packets(packets()).run();
        assert_eq!(run.drops("e"), [(Reason::NotMatched, 1)]);
    }
}
