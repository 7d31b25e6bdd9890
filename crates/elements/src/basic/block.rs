// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Block
//!
//! `Block(THRESH)`
//!
//! Sends packets whose source exceeds a rate to another output.
//!
//! **Ports:** 1 push input, 2 push outputs.
//!
//! **Arguments**
//! * `THRESH` the rate, in units of the IPRateMonitor that annotates packets; 0 for no limit.
//!
//! Packets leave by output 1 if their forward rate annotation exceeds THRESH, and else by output 0.
//!
//! **Metadata read:** forward rate annotation.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `thresh` read/write: the argument.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> IPRateMonitor(PACKETS, 1, 256) -> b :: Block(500);
//! b[0] -> Discard; b[1] -> Discard;
//! ```
//!
//! See also: IPRateMonitor, Meter

use element::args::Args;
use element::{Class, Cx, Element, handlers};
use packet::{Batch, anno};

use crate::tools::Splitter;

/// The descriptor.
pub const CLASS: Class = Class::new("Block", "1/2", || Box::new(Block::default()))
    .processing("h/h")
    .handlers(handlers! { Block:
        both "thresh" => .thresh;
    })
    .pure()
    .file(file!());

#[derive(Default)]
struct Block {
    thresh: u32,
    splitter: Splitter,
}

impl Element for Block {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.thresh = args.required("THRESH");
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        let thresh = self.thresh;
        let exceeds = |rate: u32| usize::from(thresh > 0 && rate > thresh);
        self.splitter.split(cx, batch, |p| exceeds(p.anno_u32(anno::FORWARD_RATE)));
    }
}

#[cfg(test)]
mod tests {
    use packet::Packet;

    use super::*;
    use crate::testing::Rig;

    #[test]
    fn splits_by_rate() {
        for (element, want) in [("Block(5)", (2, 1)), ("Block(0)", (3, 0))] {
            for burst in [1, 32] {
                let packets = [4, 5, 6].map(|rate| {
                    let mut packet = Packet::copy_of(b"a").unwrap();
                    packet.set_anno_u32(anno::FORWARD_RATE, rate);
                    packet
                });
                let run = Rig::new(element).outputs(2).burst(burst).packets(packets.into()).run();
                assert_eq!((run.out("o0").len(), run.out("o1").len()), want, "{element}");
            }
        }
        let mut run = Rig::new("Block(5)").outputs(2).run();
        run.write("e.thresh", "7").unwrap();
        assert_eq!(run.read("e.thresh"), "7");
        assert_eq!(Rig::new("Block").outputs(2).errors(), ["e: missing argument THRESH: a whole number"]);
    }
}
