// SPDX-License-Identifier: MIT OR Apache-2.0
//! # NewElement
//!
//! `NewElement(LENGTH)`
//!
//! Passes packets on whose length is LENGTH bytes or more.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `LENGTH` the least length, in bytes.
//!
//! **Drops:** `too-short`, packets of fewer than LENGTH bytes.
//!
//! **Handlers**
//! * `length` read/write: the argument.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> NewElement(14) -> Discard;
//! ```
//!
//! See also: CheckLength

use element::args::Args;
use element::{Class, Cx, Element, Reason, handlers};
use packet::Batch;

/// The descriptor.
pub const CLASS: Class = Class::new("NewElement", "1/1", || Box::new(NewElement::default()))
    .handlers(handlers! { NewElement:
        both "length" => .length;
    })
    .file(file!());

#[derive(Default)]
struct NewElement {
    length: usize,
}

impl Element for NewElement {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.length = args.required("LENGTH");
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let length = self.length;
        batch.partition(|p| p.len() >= length, |p| cx.drop(Reason::TooShort, p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn drops_the_short() {
        for burst in [1, 32] {
            let run = Rig::new("NewElement(2)").burst(burst).inputs(&[b"abc", b"a", b"ab"]).run();
            assert_eq!(run.bytes("o0"), [&b"abc"[..], b"ab"]);
            assert_eq!(run.drops("e"), [(Reason::TooShort, 1)]);
        }
    }
}
