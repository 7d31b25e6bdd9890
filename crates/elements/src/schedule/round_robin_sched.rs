// SPDX-License-Identifier: MIT OR Apache-2.0
//! # RoundRobinSched
//!
//! `RoundRobinSched`
//!
//! Fetches packets from its inputs in turn, a packet from each; inputs that have none are passed over.
//!
//! **Ports:** 1 or more pull inputs, 1 pull output.
//!
//! **Drops:** none.
//!
//! **Cores:** all workers take one turn; where several reach it, behind a lock.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Queue -> [0] s :: RoundRobinSched -> Discard;
//! InfiniteSource(LIMIT 5) -> Queue -> [1] s;
//! ```
//!
//! See also: PrioSched, StrideSched, DRRSched, RoundRobinSwitch

use element::args::Args;
use element::{Class, Cx, Element, Rehearsal, Rehearsed};
use packet::{Batch, Packet};

/// The descriptor.
pub const CLASS: Class = Class::new("RoundRobinSched", "1-/1", || Box::new(RoundRobinSched::default()))
    .processing("l/l")
    .serial("inputs take turns in one order")
    .rehearsal::<RoundRobinSched>()
    .file(file!());

#[derive(Default)]
struct RoundRobinSched {
    next: usize,
}

impl Element for RoundRobinSched {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        let n = cx.ninputs();
        let mut batch = Batch::new();
        let (mut port, mut in_vain) = (self.next, 0);
        while batch.len() < max && in_vain < n {
            let mut one = cx.pull(port, 1);
            port = if port + 1 == n { 0 } else { port + 1 };
            if one.is_empty() {
                in_vain += 1;
            } else {
                in_vain = 0;
                self.next = port;
                batch.append(&mut one);
            }
        }
        batch
    }
}

impl Rehearsal for RoundRobinSched {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        Rehearsed::passes(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn inputs_take_turns() {
        let text = "InfiniteSource(a, 3) -> e :: RoundRobinSched -> Unqueue -> o :: TestOut; InfiniteSource(b, 1) -> [1] e; InfiniteSource(c, 4) -> [2] e;";
        for burst in [1, 5, 32] {
            assert_eq!(Rig::text(text).burst(burst).run().bytes("o").concat(), b"abcacacc");
        }
    }
}
