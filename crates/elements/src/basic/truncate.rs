// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Truncate
//!
//! `Truncate(MAX [, keyword EXTRA_ANNO])`
//!
//! Cuts packets to at most MAX bytes.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `MAX` bytes that stay; `LENGTH` and `NBYTES` are synonyms.
//! * `EXTRA_ANNO` boolean, default true: adds the bytes cut off to the extra length annotation. `EXTRA_LENGTH` is a synonym.
//!
//! **Metadata set:** extra length, if EXTRA_ANNO.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `nbytes` read/write: MAX.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> Truncate(20) -> Discard;
//! ```
//!
//! See also: Pad, Resize, Strip, CheckLength

use element::args::Args;
use element::{Class, Cx, Element, handlers};
use packet::{Batch, anno};

/// The descriptor.
pub const CLASS: Class = Class::new("Truncate", "1/1", || Box::new(Truncate::default()))
    .handlers(handlers! { Truncate:
        both "nbytes" => .max;
    })
    .pure()
    .reconfigurable()
    .forwards()
    .file(file!());

#[derive(Default)]
struct Truncate {
    max: usize,
    annotate: bool,
}

impl Element for Truncate {
    fn configure(&mut self, args: &mut Args<'_>) {
        let named = args.keyword_opt("LENGTH").or(args.keyword_opt("NBYTES"));
        self.max = named.unwrap_or_else(|| args.required("MAX"));
        self.annotate = args.keyword_opt("EXTRA_LENGTH").unwrap_or_else(|| args.keyword("EXTRA_ANNO", true));
    }

    fn process(&mut self, _: &mut Cx<'_>, mut batch: Batch) -> Batch {
        for packet in batch.iter_mut().filter(|p| p.len() > self.max) {
            let extra = packet.len() - self.max;
            packet.trim(extra);
            if self.annotate {
                let before = packet.anno_u32(anno::EXTRA_LENGTH);
                packet.set_anno_u32(anno::EXTRA_LENGTH, before.saturating_add(extra as u32));
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn cuts() {
        for element in ["Truncate(2)", "Truncate(MAX 2)", "Truncate(NBYTES 2, EXTRA_ANNO false)"] {
            for burst in [1, 32] {
                let run = Rig::new(element).burst(burst).inputs(&[b"abcd", b"ab", b""]).run();
                let out = run.out("o0");
                assert_eq!(out.iter().map(|p| p.data()).collect::<Vec<_>>(), [&b"ab"[..], b"ab", b""]);
                let extra = if element.contains("false") { 0 } else { 2 };
                assert_eq!(
                    (out[0].anno_u32(anno::EXTRA_LENGTH), out[1].anno_u32(anno::EXTRA_LENGTH)),
                    (extra, 0)
                );
            }
        }
        assert_eq!(Rig::new("Truncate").errors(), ["e: missing argument MAX: a whole number"]);
    }
}
