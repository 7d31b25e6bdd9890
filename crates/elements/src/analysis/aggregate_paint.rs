// SPDX-License-Identifier: MIT OR Apache-2.0
//! # AggregatePaint
//!
//! `AggregatePaint([BITS, keyword INCREMENTAL])`
//!
//! Sets each packet's aggregate annotation to its paint annotation.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `BITS` 1 to 8, default 8: how many of the paint's lower bits to take.
//! * `INCREMENTAL` boolean, default false: appends the bits to those of the annotation.
//!
//! **Metadata read:** paint. **Set:** aggregate.
//!
//! **Drops:** none.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Paint(3) -> AggregatePaint -> AggregateCounter -> Discard;
//! ```
//!
//! See also: AggregateIP, AggregateLength, AggregateCounter, Paint

use element::args::Args;
use element::{Class, Cx, Element};
use packet::{Batch, anno};

/// The descriptor.
pub const CLASS: Class =
    Class::new("AggregatePaint", "1/1", || Box::new(AggregatePaint { bits: 8, incremental: false }))
        .pure()
        .file(file!());

struct AggregatePaint {
    bits: u32,
    incremental: bool,
}

impl Element for AggregatePaint {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.bits = args.positional_in("BITS", 8, 1..=8);
        self.incremental = args.keyword("INCREMENTAL", false);
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        for packet in batch.iter_mut() {
            let old = if self.incremental { packet.anno_u32(anno::AGGREGATE) << self.bits } else { 0 };
            let paint = u32::from(packet.paint()) & ((1 << self.bits) - 1);
            packet.set_anno_u32(anno::AGGREGATE, old.wrapping_add(paint));
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use packet::anno;

    use crate::testing::Rig;

    #[test]
    fn takes_bits_of_the_paint() {
        for (element, want) in [
            ("AggregatePaint", 7),
            ("AggregatePaint(2)", 3),
            ("AggregatePaint(3, INCREMENTAL true)", 7 * 8 + 7),
        ] {
            let text = format!("i :: TestIn -> Paint(7) -> AggregatePaint -> {element} -> o :: TestOut;");
            for burst in [1, 32] {
                let out = Rig::text(&text).burst(burst).inputs(&[b"a", b"b"]).run().out("o");
                assert_eq!(out.iter().map(|p| p.anno_u32(anno::AGGREGATE)).collect::<Vec<_>>(), [want, want]);
            }
        }
        assert_eq!(Rig::new("AggregatePaint(9)").errors(), ["e: BITS must lie between 1 and 8, not 9"]);
    }
}
