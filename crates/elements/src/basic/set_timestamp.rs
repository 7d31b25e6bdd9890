// SPDX-License-Identifier: MIT OR Apache-2.0
//! # SetTimestamp
//!
//! `SetTimestamp([TIMESTAMP, keywords FIRST, DELTA])`
//!
//! Sets each packet's timestamp, to now by default.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `TIMESTAMP` seconds since the epoch, default the present.
//! * `FIRST` boolean, default false: sets the first-timestamp annotation instead.
//! * `DELTA` boolean, default false: sets the timestamp to its difference from the first-timestamp annotation.
//!
//! **Metadata set:** timestamp, or first timestamp.
//!
//! **Drops:** none.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> SetTimestamp -> Print(TIMESTAMP true) -> Discard;
//! ```
//!
//! See also: Print, DelayShaper, DelayUnqueue

use std::time::Duration;

use element::args::Args;
use element::{Class, Cx, Element};
use packet::{Batch, anno};

/// The descriptor.
pub const CLASS: Class =
    Class::new("SetTimestamp", "1/1", || Box::new(SetTimestamp::default())).pure().forwards().file(file!());

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Action {
    #[default]
    Timestamp,
    First,
    Delta,
}

#[derive(Default)]
struct SetTimestamp {
    time: Option<Duration>,
    action: Action,
}

impl Element for SetTimestamp {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.time = args.positional_opt("TIMESTAMP");
        let (first, delta) = (args.keyword("FIRST", false), args.keyword("DELTA", false));
        if delta && (first || self.time.is_some()) {
            args.error("DELTA does not go with TIMESTAMP or FIRST");
        }
        self.action = match (first, delta) {
            (_, true) => Action::Delta,
            (true, _) => Action::First,
            _ => Action::Timestamp,
        };
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let time = self.time.map_or_else(|| cx.wall(), |t| t.as_nanos() as u64);
        for packet in batch.iter_mut() {
            match self.action {
                Action::Timestamp => packet.set_timestamp_ns(time),
                Action::First => packet.set_anno(anno::FIRST_TIMESTAMP, time.to_ne_bytes()),
                Action::Delta => {
                    let first = u64::from_ne_bytes(packet.anno(anno::FIRST_TIMESTAMP));
                    let delta = packet.timestamp_ns().saturating_sub(first);
                    packet.set_timestamp_ns(delta);
                }
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn sets_now_then_or_the_difference() {
        let stamp = |element: &str| Rig::new(element).inputs(&[b"a"]).run().out("o0")[0].timestamp_ns();
        assert_eq!(stamp("SetTimestamp"), engine::clock::SIMULATION_EPOCH);
        assert_eq!(stamp("SetTimestamp(1.5)"), 1_500_000_000);
        let text = "i :: TestIn -> SetTimestamp(1, FIRST true) -> SetTimestamp(3) -> SetTimestamp(DELTA true) -> o :: TestOut;";
        for burst in [1, 32] {
            let run = Rig::text(text).burst(burst).inputs(&[b"a"]).run();
            assert_eq!(run.out("o")[0].timestamp_ns(), 2_000_000_000);
        }
        let errors = Rig::new("SetTimestamp(1, DELTA true)").errors();
        assert_eq!(errors, ["e: DELTA does not go with TIMESTAMP or FIRST"]);
    }
}
