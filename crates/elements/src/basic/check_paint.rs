// SPDX-License-Identifier: MIT OR Apache-2.0
//! # CheckPaint
//!
//! `CheckPaint(COLOR [, ANNO])`
//!
//! Passes packets of one paint to output 0 and all others to output 1.
//!
//! **Ports:** 1 input, 1 or 2 outputs; agnostic, output 1 push.
//!
//! **Arguments**
//! * `COLOR` 0 to 255.
//! * `ANNO` the 1-byte annotation to look at, by offset or name; default PAINT.
//!
//! **Metadata read:** paint, or the annotation at ANNO.
//!
//! **Drops:** `not-matched`, packets of another paint when output 1 is not connected.
//!
//! **Handlers**
//! * `color` read/write: the argument.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Paint(2) -> c :: CheckPaint(2) -> Discard;
//! c[1] -> Discard;
//! ```
//!
//! See also: Paint, PaintSwitch, PaintTee

use super::paint::color;
use element::args::Args;
use element::clock::Nanos;
use element::program::{Op, Program};
use element::{Class, Cx, Element, Reason, handlers};
use packet::{Batch, anno};

use crate::tools::Anno;

/// The descriptor.
pub const CLASS: Class = Class::new("CheckPaint", "1/1-2", || Box::new(CheckPaint::default()))
    .processing("a/ah")
    .handlers(handlers! { CheckPaint:
        both "color" => .color |element, text: &str| element.color = color(text)?;
    })
    .pure()
    .file(file!());

#[derive(Default)]
pub(crate) struct CheckPaint {
    anno: usize,
    color: u8,
}

impl Element for CheckPaint {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.color = args.required("COLOR");
        self.anno = args.positional("ANNO", Anno::<1>(anno::PAINT)).0;
    }

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        program.add(if self.anno == anno::PAINT { Op::DemandPaint(self.color) } else { Op::Other });
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let (anno, color) = (self.anno, self.color);
        let mut others = Batch::new();
        batch.partition(|p| p.anno_u8(anno) == color, |p| others.push(p));
        cx.push_or_drop(1, others, Reason::NotMatched);
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;
    use packet::Packet;

    pub(super) fn painted(paints: &[u8]) -> Vec<Packet> {
        let packet = |paint: &u8| {
            let mut p = Packet::copy_of(&[*paint]).unwrap();
            p.set_paint(*paint);
            p
        };
        paints.iter().map(packet).collect()
    }

    #[test]
    fn sorts_by_paint() {
        for burst in [1, 32] {
            let run = Rig::new("CheckPaint(1)").outputs(2).burst(burst).packets(painted(&[1, 2, 1, 0])).run();
            assert_eq!((run.bytes("o0"), run.bytes("o1")), (vec![vec![1], vec![1]], vec![vec![2], vec![0]]));
            let run = Rig::new("CheckPaint(1)").burst(burst).packets(painted(&[1, 2, 1, 0])).run();
            assert_eq!((run.bytes("o0").len(), run.drops("e")), (2, vec![(Reason::NotMatched, 2)]));
        }
    }
}
