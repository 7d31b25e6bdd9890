// SPDX-License-Identifier: MIT OR Apache-2.0
//! # PaintTee
//!
//! `PaintTee(COLOR [, ANNO])`
//!
//! Passes every packet and sends a copy of those of one paint out of output 1.
//!
//! **Ports:** 1 input, 2 outputs; agnostic, output 1 push.
//!
//! **Arguments**
//! * `COLOR` 0 to 255.
//! * `ANNO` the 1-byte annotation to look at, by offset or name; default PAINT.
//!
//! **Metadata read:** paint, or the annotation at ANNO.
//!
//! **Drops:** `no-memory`, copies for which packet memory did not suffice.
//!
//! **Handlers**
//! * `color` read/write: the argument.
//!
//! Routers use it to tell a sender of a better way: a packet that leaves by the interface it came from is painted so.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Paint(2) -> t :: PaintTee(2) -> Discard;
//! t[1] -> Discard;
//! ```
//!
//! See also: Paint, CheckPaint, Tee, ICMPError

use super::paint::color;
use element::args::Args;
use element::clock::Nanos;
use element::program::{Op, Program};
use element::{Class, Cx, Element, Reason, handlers};
use packet::{Batch, anno};

use crate::tools::Anno;

/// The descriptor.
pub const CLASS: Class = Class::new("PaintTee", "1/2", || Box::new(PaintTee::default()))
    .processing("a/ah")
    .handlers(handlers! { PaintTee:
        both "color" => .color |element, text: &str| element.color = color(text)?;
    })
    .pure()
    .file(file!());

#[derive(Default)]
pub(crate) struct PaintTee {
    anno: usize,
    color: u8,
}

impl Element for PaintTee {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.color = args.required("COLOR");
        self.anno = args.positional("ANNO", Anno::<1>(anno::PAINT)).0;
    }

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        program.add(if self.anno == anno::PAINT { Op::RefusePaint(self.color) } else { Op::Other });
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let (mut copies, mut failed) = (None, 0);
        for packet in batch.iter_mut().filter(|p| p.anno_u8(self.anno) == self.color) {
            match packet.share() {
                Some(copy) => copies.get_or_insert_with(Batch::new).push(copy),
                None => failed += 1,
            }
        }
        cx.made(failed as usize + copies.as_ref().map_or(0, |copies| copies.len()));
        cx.count_drops(Reason::NoMemory, failed);
        if let Some(copies) = copies {
            cx.push(1, copies);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn copies_packets_of_its_paint() {
        for burst in [1, 32] {
            let text = "i :: TestIn -> Paint(3) -> e :: PaintTee(3) -> o0 :: TestOut; e[1] -> o1 :: TestOut;";
            let mut run = Rig::text(text).burst(burst).inputs(&[b"a", b"b"]).run();
            assert_eq!(
                (run.bytes("o0"), run.bytes("o1")),
                (vec![b"a".to_vec(), b"b".to_vec()], vec![b"a".to_vec(), b"b".to_vec()])
            );
            assert_eq!(run.read("e.color"), "3");
            let run = Rig::new("PaintTee(3)").outputs(2).burst(burst).inputs(&[b"a"]).run();
            assert_eq!((run.bytes("o0").len(), run.bytes("o1").len()), (1, 0));
        }
    }
}
