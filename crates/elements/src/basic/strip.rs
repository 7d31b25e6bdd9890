// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Strip
//!
//! `Strip(LENGTH)`
//!
//! Removes the first LENGTH bytes from each packet.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `LENGTH` bytes to remove. They stay in the headroom, where Unstrip finds them.
//!
//! **Metadata:** header positions stay with their bytes.
//!
//! **Drops:** `too-short`, packets of fewer than LENGTH bytes.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> Strip(14) -> Discard;
//! ```
//!
//! See also: Unstrip, StripToNetworkHeader, Truncate

use element::args::Args;
use element::clock::Nanos;
use element::program::{Op, Program};
use element::{Class, Cx, Element, Reason};
use packet::Batch;

/// The descriptor.
pub const CLASS: Class = Class::new("Strip", "1/1", || Box::new(Strip::default())).pure().file(file!());

#[derive(Default)]
pub(crate) struct Strip {
    length: usize,
}

impl Element for Strip {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.length = args.required("LENGTH");
    }

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        program.add(Op::Strip(self.length));
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let length = self.length;
        let strip = |p: &mut packet::Packet| {
            let enough = p.len() >= length;
            if enough {
                p.strip(length);
            }
            enough
        };
        batch.partition(strip, |p| cx.drop(Reason::TooShort, p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn strips_and_drops_the_short() {
        for burst in [1, 32] {
            let run = Rig::new("Strip(2)").burst(burst).inputs(&[b"abc", b"a", b"ab", b"wxyz"]).run();
            assert_eq!(run.bytes("o0"), [&b"c"[..], b"", b"yz"]);
            assert_eq!(run.drops("e"), [(Reason::TooShort, 1)]);
        }
    }

    #[test]
    fn wants_its_argument() {
        assert_eq!(Rig::new("Strip").errors(), ["e: missing argument LENGTH: a whole number"]);
    }
}
