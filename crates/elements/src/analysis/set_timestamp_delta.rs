// SPDX-License-Identifier: MIT OR Apache-2.0
//! # SetTimestampDelta
//!
//! `SetTimestampDelta([keyword TYPE])`
//!
//! Replaces timestamps by differences. Unset timestamps stay as they are.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `TYPE` what to measure, default `RANGE`.
//!   * `RANGE`: the time since the first timestamp that the element saw.
//!   * `NOW`: the time from the timestamp to the present.
//!   * `FIRST`: the time since the packet's first-timestamp annotation.
//!
//! **Metadata read:** timestamp, first timestamp. **Set:** timestamp. A negative difference counts as 0.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `first` read: the first timestamp that the element saw, or 0.
//! * `reset` write: forgets it; the next timestamp takes its place.
//!
//! ```click
//! RatedSource(RATE 10, LIMIT 5, STOP true) -> SetTimestamp -> SetTimestampDelta -> Print(TIMESTAMP true) -> Discard;
//! ```
//!
//! See also: SetTimestamp, AdjustTimestamp, TimeRange

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use element::args::{Args, FromArg, Names};
use element::{Class, Cx, Element, HotSwap, Rehearsal, SharedState, Sharing, handlers, swap};
use packet::{Batch, anno};

use crate::tools::seconds;

/// The descriptor.
pub const CLASS: Class = Class::new("SetTimestampDelta", "1/1", || Box::new(SetTimestampDelta::default()))
    .sharing(Sharing::Shared)
    .handlers(handlers! { SetTimestampDelta:
        read "first" => |element| seconds(element.first.load(Ordering::Relaxed));
        write "reset" => |element| element.first.store(0, Ordering::Relaxed);
    })
    .hot_swap::<SetTimestampDelta>()
    .shared_state::<SetTimestampDelta>()
    .rehearsal::<SetTimestampDelta>()
    .file(file!());

#[derive(Clone, Copy, Default)]
enum Type {
    #[default]
    Range,
    Now,
    First,
}

impl FromArg for Type {
    const EXPECTED: &'static str = "RANGE, NOW or FIRST";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        match text {
            "RANGE" => Ok(Type::Range),
            "NOW" => Ok(Type::Now),
            "FIRST" => Ok(Type::First),
            _ => Err(String::new()),
        }
    }
}

#[derive(Clone, Default)]
struct SetTimestampDelta {
    kind: Type,
    /// The first timestamp seen by any worker; 0 until then.
    first: Arc<AtomicU64>,
}

impl SetTimestampDelta {
    /// The first timestamp, which is `time` if there was none before.
    fn first_or(&self, time: u64) -> u64 {
        match self.first.load(Ordering::Relaxed) {
            0 => match self.first.compare_exchange(0, time, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => time,
                Err(first) => first,
            },
            first => first,
        }
    }
}

impl Element for SetTimestampDelta {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.kind = args.keyword("TYPE", Type::Range);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        for packet in batch.iter_mut() {
            let time = packet.timestamp_ns();
            if time == 0 {
                continue;
            }
            let (from, to) = match self.kind {
                Type::Range => (self.first_or(time), time),
                Type::Now => (time, cx.wall()),
                Type::First => (u64::from_ne_bytes(packet.anno(anno::FIRST_TIMESTAMP)), time),
            };
            packet.set_timestamp_ns(to.saturating_sub(from));
        }
        batch
    }
}

impl Rehearsal for SetTimestampDelta {
    fn copy(&self) -> Option<Box<dyn Element>> {
        let first = AtomicU64::new(self.first.load(Ordering::Relaxed));
        Some(Box::new(SetTimestampDelta { first: Arc::new(first), ..*self }))
    }
}

impl SharedState for SetTimestampDelta {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

impl HotSwap for SetTimestampDelta {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<SetTimestampDelta>(old) else { return false };
        let first = old.first.swap(0, Ordering::Relaxed);
        if first != 0 {
            self.first.store(first, Ordering::Relaxed);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use packet::Packet;

    use super::*;
    use crate::testing::Rig;

    fn packets() -> Vec<Packet> {
        let packet = |ms: u64| {
            let mut packet = Packet::copy_of(b"a").unwrap();
            packet.set_timestamp_ns(ms * 1_000_000);
            packet.set_anno(anno::FIRST_TIMESTAMP, 1_000_000_000u64.to_ne_bytes());
            packet
        };
        vec![packet(0), packet(2000), packet(2500), packet(1500)]
    }

    #[test]
    fn differences_by_type() {
        let epoch = engine::clock::SIMULATION_EPOCH / 1_000_000;
        for (kind, want) in [
            ("RANGE", [0, 0, 500, 0]),
            ("FIRST", [0, 1000, 1500, 500]),
            ("NOW", [0, epoch - 2000, epoch - 2500, epoch - 1500]),
        ] {
            for burst in [1, 32] {
                let element = format!("SetTimestampDelta(TYPE {kind})");
                let out = Rig::new(&element).burst(burst).packets(packets()).run().out("o0");
                let times: Vec<u64> = out.iter().map(|p| p.timestamp_ns() / 1_000_000).collect();
                assert_eq!(times, want, "{kind}");
            }
        }
        let errors = Rig::new("SetTimestampDelta(TYPE X)").errors();
        assert_eq!(errors, ["e: argument TYPE should be RANGE, NOW or FIRST, not 'X'"]);
    }

    #[test]
    fn the_first_is_remembered_until_reset() {
        let mut run = Rig::new("SetTimestampDelta").packets(packets()).run();
        assert_eq!(run.read("e.first"), "2.000000");
        run.write("e.reset", "").unwrap();
        assert_eq!(run.read("e.first"), "0.000000");
    }
}
