// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Resize
//!
//! `Resize([HEAD, TAIL])`
//!
//! Adds or removes bytes at the front and the end of each packet.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `HEAD` bytes put in front, negative to remove, default 0.
//! * `TAIL` bytes put at the end, negative to remove, default 0.
//!
//! New bytes have no particular value; in front they are what was removed there, if it was. A packet with fewer bytes than
//! are to be removed becomes empty.
//!
//! **Drops:** `no-memory`, packets for which no larger frame was to be had.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Resize(-14, +4) -> Discard;
//! ```
//!
//! See also: Strip, Unstrip, Truncate, Pad

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::{Batch, Packet};

/// The descriptor.
pub const CLASS: Class = Class::new("Resize", "1/1", || Box::new(Resize::default())).pure().file(file!());

#[derive(Default)]
struct Resize {
    head: i32,
    tail: i32,
}

impl Resize {
    fn resize(&self, packet: &mut Packet) -> bool {
        let n = self.head.unsigned_abs() as usize;
        if self.head < 0 {
            packet.strip(n.min(packet.len()));
        } else if !packet.unstrip(n) && packet.push(n).is_none() {
            return false;
        }
        let n = self.tail.unsigned_abs() as usize;
        if self.tail < 0 {
            packet.trim(n.min(packet.len()));
            return true;
        }
        n == 0 || packet.put(n).is_some()
    }
}

impl Element for Resize {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.head = args.positional("HEAD", 0);
        self.tail = args.positional("TAIL", 0);
        if self.head > 65535 || self.tail > 65535 {
            args.error("HEAD and TAIL must be at most 65535 bytes");
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        batch.partition(|p| self.resize(p), |p| cx.drop(Reason::NoMemory, p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn both_ends_move() {
        for burst in [1, 32] {
            let text = "i :: TestIn -> Resize(-2) -> Resize(+1, -1) -> Resize -> o :: TestOut;";
            let run = Rig::text(text).burst(burst).inputs(&[b"abcd", b"x"]).run();
            assert_eq!(run.bytes("o"), [&b"bc"[..], b""]);
        }
        let run = Rig::new("Resize(3000, 2)").inputs(&[b"abc"]).run();
        assert_eq!(run.bytes("o0")[0].len(), 3005);
        assert_eq!(Rig::new("Resize(70000)").errors(), ["e: HEAD and TAIL must be at most 65535 bytes"]);
    }
}
