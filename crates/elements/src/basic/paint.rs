// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Paint
//!
//! `Paint(COLOR [, ANNO])`
//!
//! Sets each packet's paint annotation.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `COLOR` 0 to 255.
//! * `ANNO` the 1-byte annotation to set, by offset or name; default PAINT.
//!
//! **Metadata set:** paint, or the annotation at ANNO.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `color` read/write: the argument.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Paint(2) -> Discard;
//! ```
//!
//! See also: PaintSwitch, PaintTee, CheckPaint, SetAnnoByte

use crate::tools::number;
use element::args::Args;
use element::clock::Nanos;
use element::program::{Op, Program};
use element::{Class, Cx, Element, HandlerError, handlers};
use packet::{Batch, anno};

use crate::tools::Anno;

/// The descriptor.
pub const CLASS: Class = Class::new("Paint", "1/1", || Box::new(Paint::default()))
    .handlers(handlers! { Paint:
        both "color" => .color |element, text: &str| element.color = color(text)?;
    })
    .pure()
    .reconfigurable()
    .forwards()
    .file(file!());

#[derive(Default)]
pub(crate) struct Paint {
    anno: usize,
    color: u8,
}

impl Element for Paint {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.color = args.required("COLOR");
        self.anno = args.positional("ANNO", Anno::<1>(anno::PAINT)).0;
    }

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        program.add(if self.anno == anno::PAINT { Op::Paint(self.color) } else { Op::Other });
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        for packet in batch.iter_mut() {
            packet.set_anno_u8(self.anno, self.color);
        }
        batch
    }
}

/// The color written to a handler.
pub(super) fn color(text: &str) -> Result<u8, HandlerError> {
    number("color", text).map_err(|e| e.said_as("expected uint8_t"))
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn paints() {
        for burst in [1, 32] {
            let mut run = Rig::new("Paint(7)").burst(burst).inputs(&[b"a", b"b"]).run();
            assert_eq!(run.out("o0").iter().map(|p| p.paint()).collect::<Vec<_>>(), [7, 7]);
            run.write("e.color", "8").unwrap();
            assert_eq!(run.read("e.color"), "8");
            assert!(run.write("e.color", "256").is_err());
        }
        let run = Rig::new("Paint(7, 20)").inputs(&[b"a"]).run();
        let p = &run.out("o0")[0];
        assert_eq!((p.paint(), p.anno_u8(20)), (0, 7));
    }

    #[test]
    fn refuses_wrong_arguments() {
        let bad = Rig::new("Paint(256, 48)").errors();
        assert_eq!(bad.len(), 2, "{bad:?}");
        assert!(bad[0].starts_with("e: argument COLOR should be"), "{bad:?}");
    }
}
