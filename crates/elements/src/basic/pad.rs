// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Pad
//!
//! `Pad([LENGTH, keyword ZERO])`
//!
//! Lengthens packets, to LENGTH bytes or by what was cut off before.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `LENGTH` bytes that each packet has at least; default 0: packets grow by their extra length annotation.
//! * `ZERO` boolean, default true: the new bytes are zero; otherwise they have no particular value.
//!
//! **Metadata read and set:** extra length, which becomes 0.
//!
//! **Drops:** `no-memory`, packets for which no larger frame was to be had.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> Truncate(20) -> Pad -> Discard;
//! ```
//!
//! See also: Truncate, Resize

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::{Batch, Packet, anno};

/// The descriptor.
pub const CLASS: Class = Class::new("Pad", "1/1", || Box::new(Pad::default())).pure().file(file!());

#[derive(Default)]
struct Pad {
    length: u16,
    zero: bool,
}

impl Pad {
    fn pad(&self, packet: &mut Packet) -> bool {
        let before = packet.len();
        let extra = match usize::from(self.length) {
            0 => packet.anno_u32(anno::EXTRA_LENGTH) as usize,
            length => length.saturating_sub(before),
        };
        if extra > 0 {
            let Some(bytes) = packet.put(extra) else { return false };
            if self.zero {
                bytes[before..].fill(0);
            }
        }
        if packet.anno_u32(anno::EXTRA_LENGTH) != 0 {
            packet.set_anno_u32(anno::EXTRA_LENGTH, 0);
        }
        true
    }
}

impl Element for Pad {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.length = args.positional("LENGTH", 0);
        self.zero = args.keyword("ZERO", true);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        batch.partition(|p| self.pad(p), |p| cx.drop(Reason::NoMemory, p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn pads() {
        for burst in [1, 32] {
            let run = Rig::new("Pad(3)").burst(burst).inputs(&[b"a", b"abcd"]).run();
            assert_eq!(run.bytes("o0"), [&b"a\0\0"[..], b"abcd"]);
            let text = "i :: TestIn -> Truncate(2) -> Pad -> o :: TestOut;";
            let run = Rig::text(text).burst(burst).inputs(&[b"abcd", b"x"]).run();
            assert_eq!(run.bytes("o"), [&b"ab\0\0"[..], b"x"]);
        }
    }

    #[test]
    fn drops_what_cannot_grow() {
        let mut packet = Packet::copy_of(b"a").unwrap();
        packet.set_anno_u32(anno::EXTRA_LENGTH, 1 << 30);
        let run = Rig::new("Pad").packets(vec![packet]).run();
        assert_eq!(run.drops("e"), [(Reason::NoMemory, 1)]);
    }
}
