// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Unstrip
//!
//! `Unstrip(LENGTH)`
//!
//! Puts LENGTH bytes back in front of each packet.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `LENGTH` bytes to put in front: what Strip removed, if it did, and otherwise bytes of no particular value.
//!
//! **Metadata:** header positions stay with their bytes.
//!
//! **Drops:** `no-memory`, packets without headroom for which no larger frame was to be had.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> Strip(14) -> Unstrip(14) -> Discard;
//! ```
//!
//! See also: Strip, StripToNetworkHeader

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::Batch;

/// The descriptor.
pub const CLASS: Class = Class::new("Unstrip", "1/1", || Box::new(Unstrip::default())).pure().file(file!());

#[derive(Default)]
struct Unstrip {
    length: usize,
}

impl Element for Unstrip {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.length = args.required("LENGTH");
        if self.length > 65535 {
            args.error("LENGTH must be at most 65535 bytes");
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let length = self.length;
        batch.partition(|p| p.unstrip(length) || p.push(length).is_some(), |p| cx.drop(Reason::NoMemory, p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn gives_back_what_strip_took() {
        for burst in [1, 32] {
            let text = "i :: TestIn -> Strip(3) -> e :: Unstrip(2) -> o :: TestOut;";
            let run = Rig::text(text).burst(burst).inputs(&[b"abcd", b"xyz"]).run();
            assert_eq!(run.bytes("o"), [&b"bcd"[..], b"yz"]);
        }
    }

    #[test]
    fn makes_room_where_there_is_none() {
        let run = Rig::new("Unstrip(3000)").inputs(&[b"abc"]).run();
        let out = run.bytes("o0");
        assert_eq!((out[0].len(), &out[0][3000..]), (3003, &b"abc"[..]));
        assert_eq!(Rig::new("Unstrip(70000)").errors(), ["e: LENGTH must be at most 65535 bytes"]);
    }
}
