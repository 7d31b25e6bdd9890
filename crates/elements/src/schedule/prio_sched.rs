// SPDX-License-Identifier: MIT OR Apache-2.0
//! # PrioSched, SimplePrioSched
//!
//! `PrioSched`
//!
//! Fetches packets from the first input that has any.
//!
//! **Ports:** 1 or more pull inputs, 1 pull output.
//!
//! **Drops:** none.
//!
//! The two names are one element.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Queue -> [0] s :: PrioSched -> Discard;
//! InfiniteSource(LIMIT 5) -> Queue -> [1] s;
//! ```
//!
//! See also: RoundRobinSched, StrideSched, DRRSched, PullSwitch

use element::args::Args;
use element::{Class, Cx, Element};
use packet::Batch;

/// The descriptor.
pub const PRIO_SCHED: Class =
    Class::new("PrioSched", "1-/1", || Box::new(PrioSched)).processing("l/l").pure().file(file!());
/// The descriptor of a synonym.
pub const SIMPLE_PRIO_SCHED: Class =
    Class::new("SimplePrioSched", "1-/1", || Box::new(PrioSched)).processing("l/l").pure().file(file!());

struct PrioSched;

impl Element for PrioSched {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        let mut batch = Batch::new();
        for port in 0..cx.ninputs() {
            let mut more = cx.pull(port, max - batch.len());
            batch.append(&mut more);
            if batch.len() >= max {
                break;
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn the_first_goes_first() {
        for (class, burst) in [("PrioSched", 1), ("PrioSched", 32), ("SimplePrioSched", 2)] {
            let text = format!(
                "InfiniteSource(a, 3) -> e :: {class} -> Unqueue -> o :: TestOut; InfiniteSource(b, 2) -> [1] e; InfiniteSource(c, 2) -> [2] e;"
            );
            assert_eq!(Rig::text(&text).burst(burst).run().bytes("o").concat(), b"aaabbcc");
        }
    }
}
