// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Idle, SimpleIdle
//!
//! `Idle`
//!
//! Never sends a packet; discards what it receives. The two names are one element.
//!
//! **Ports:** any number of inputs and outputs, agnostic. Its inputs lead to no output.
//!
//! **Drops:** `discarded`, for every packet pushed in. Pull inputs are never asked.
//!
//! ```click
//! Idle -> Discard;
//! ```
//!
//! See also: Discard, InfiniteSource

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::Batch;

/// The descriptor.
pub const IDLE: Class = Class::new("Idle", "-/-", || Box::new(Idle)).flow("x/y").pure().file(file!());
/// The descriptor of a synonym.
pub const SIMPLE_IDLE: Class =
    Class::new("SimpleIdle", "-/-", || Box::new(Idle)).flow("x/y").pure().file(file!());

struct Idle;

impl Element for Idle {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        cx.drop_batch(Reason::Discarded, batch);
    }

    fn pull(&mut self, _: &mut Cx<'_>, _: usize, _: usize) -> Batch {
        Batch::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn swallows_packets_and_gives_none() {
        let run = Rig::new("Idle").inputs(&[b"a", b"b"]).run();
        assert_eq!(run.drops("e"), [(Reason::Discarded, 2)]);
        assert_eq!(Rig::text("Idle -> Unqueue -> o :: TestOut;").run().out("o").len(), 0);
    }
}
