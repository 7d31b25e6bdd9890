// SPDX-License-Identifier: MIT OR Apache-2.0
//! # CheckLength
//!
//! `CheckLength(LENGTH [, keyword EXTRA_LENGTH])`
//!
//! Passes packets of at most LENGTH bytes; longer ones leave by output 1.
//!
//! **Ports:** 1 input, 1 or 2 outputs; agnostic, output 1 push.
//!
//! **Arguments**
//! * `LENGTH` bytes, the most that pass; `MAX` is a synonym.
//! * `EXTRA_LENGTH` boolean, default false: counts the bytes in the extra length annotation, too.
//!
//! **Metadata read:** extra length, if EXTRA_LENGTH.
//!
//! **Drops:** `too-long`, longer packets when output 1 is not connected.
//!
//! **Handlers**
//! * `length` read/write: LENGTH.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> c :: CheckLength(1500) -> Discard;
//! c[1] -> Discard;
//! ```
//!
//! See also: Truncate

use element::args::Args;
use element::{Class, Cx, Element, Reason, handlers};
use packet::{Batch, Packet, anno};

/// The descriptor.
pub const CLASS: Class = Class::new("CheckLength", "1/1-2", || Box::new(CheckLength::default()))
    .processing("a/ah")
    .handlers(handlers! { CheckLength:
        both "length" => .max;
    })
    .pure()
    .file(file!());

#[derive(Default)]
struct CheckLength {
    max: usize,
    extra: bool,
}

impl Element for CheckLength {
    fn configure(&mut self, args: &mut Args<'_>) {
        let named = args.keyword_opt("MAX");
        self.max = named.unwrap_or_else(|| args.required("LENGTH"));
        self.extra = args.keyword("EXTRA_LENGTH", false);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let max = self.max;
        let mut long = None;
        let rejected = |p: Packet| long.get_or_insert_with(Batch::new).push(p);
        if self.extra {
            batch.partition(|p| p.len() + p.anno_u32(anno::EXTRA_LENGTH) as usize <= max, rejected);
        } else {
            batch.partition(|p| p.len() <= max, rejected);
        }
        if let Some(long) = long {
            cx.push_or_drop(1, long, Reason::TooLong);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn sorts_by_length() {
        for burst in [1, 32] {
            let inputs: [&[u8]; 3] = [b"ab", b"abc", b""];
            let run = Rig::new("CheckLength(2)").outputs(2).burst(burst).inputs(&inputs).run();
            assert_eq!(
                (run.bytes("o0"), run.bytes("o1")),
                (vec![b"ab".to_vec(), vec![]], vec![b"abc".to_vec()])
            );
            let mut run = Rig::new("CheckLength(MAX 2)").burst(burst).inputs(&inputs).run();
            assert_eq!((run.bytes("o0").len(), run.drops("e")), (2, vec![(Reason::TooLong, 1)]));
            run.write("e.length", "3").unwrap();
            assert_eq!(run.read("e.length"), "3");
            run.give("i", vec![Packet::copy_of(b"abc").unwrap()]);
            assert_eq!(run.again().bytes("o0").len(), 1);
        }
    }

    #[test]
    fn counts_what_was_cut_off() {
        let mut packet = Packet::copy_of(b"ab").unwrap();
        packet.set_anno_u32(anno::EXTRA_LENGTH, 1);
        let run = Rig::new("CheckLength(2, EXTRA_LENGTH true)").outputs(2).packets(vec![packet]).run();
        assert_eq!((run.out("o0").len(), run.out("o1").len()), (0, 1));
    }
}
