// SPDX-License-Identifier: MIT OR Apache-2.0
//! # TimeRange
//!
//! `TimeRange([keyword SIMPLE])`
//!
//! Passes packets unchanged and remembers the earliest and the latest of their timestamps.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `SIMPLE` boolean, default false: promises that timestamps never go back. The last one then counts as the latest.
//!
//! **Metadata read:** timestamp.
//!
//! **Drops:** none.
//!
//! **Cores:** all workers share the range; they take a lock once for each batch.
//!
//! **Handlers**
//! * `first`, `last` read: the earliest and the latest timestamp, or 0.
//! * `range` read: both. `interval` read: the time between them.
//! * `reset` write: forgets them.
//!
//! ```click
//! RatedSource(RATE 10, LIMIT 5, STOP true) -> SetTimestamp -> t :: TimeRange -> Discard;
//! DriverManager(wait, print t.interval);
//! ```
//!
//! See also: TimeFilter, SetTimestampDelta

use std::sync::Arc;

use element::args::Args;
use element::{
    Class, Cx, Element, HotSwap, LockUse, Locking, Rehearsal, SharedState, Sharing, When, handlers, swap,
};
use packet::Batch;
use sync::lock::{AdaptiveLock, How};

use crate::tools::seconds;

/// The descriptor.
pub const CLASS: Class = Class::new("TimeRange", "1/1", || Box::new(TimeRange::default()))
    .sharing(Sharing::Shared)
    .handlers(handlers! { TimeRange:
        read "first" => |element| seconds(element.range.lock().first);
        read "last" => |element| seconds(element.range.lock().last);
        read "range" => |element| {
            let Range { first, last } = *element.range.lock();
            format!("{} {}", seconds(first), seconds(last))
        };
        read "interval" => |element| {
            let Range { first, last } = *element.range.lock();
            seconds(last.saturating_sub(first))
        };
        write "reset" => |element| *element.range.lock() = Range::default();
    })
    .hot_swap::<TimeRange>()
    .shared_state::<TimeRange>()
    .locking::<TimeRange>()
    .rehearsal::<TimeRange>()
    .file(file!());

/// The earliest and the latest timestamp; both 0 before the first.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    first: u64,
    last: u64,
}

impl Range {
    fn add(&mut self, time: u64, simple: bool) {
        if self.first == 0 {
            *self = Range { first: time, last: time };
        } else if simple || time > self.last {
            self.last = time;
        } else if time < self.first {
            self.first = time;
        }
    }
}

struct TimeRange {
    simple: bool,
    range: Arc<AdaptiveLock<Range>>,
}

impl Default for TimeRange {
    fn default() -> Self {
        TimeRange { simple: false, range: Arc::new(AdaptiveLock::new(Range::default())) }
    }
}

impl Element for TimeRange {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.simple = args.keyword("SIMPLE", false);
    }

    fn process(&mut self, _: &mut Cx<'_>, batch: Batch) -> Batch {
        let mut range = self.range.lock();
        batch.iter().for_each(|p| range.add(p.timestamp_ns(), self.simple));
        drop(range);
        batch
    }
}

impl Rehearsal for TimeRange {
    fn copy(&self) -> Option<Box<dyn Element>> {
        let range = AdaptiveLock::new(*self.range.lock());
        Some(Box::new(TimeRange { simple: self.simple, range: Arc::new(range) }))
    }
}

impl Locking for TimeRange {
    fn locks(&self) -> Vec<LockUse> {
        vec![LockUse::new(How::Adaptive, "the range", When::EachBatch, "every packet may widen it")]
    }
}

impl SharedState for TimeRange {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(TimeRange { simple: self.simple, range: self.range.clone() }))
    }
}

impl HotSwap for TimeRange {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<TimeRange>(old) else { return false };
        let old = std::mem::take(&mut *old.range.lock());
        if old.first != 0 {
            let mut range = self.range.lock();
            range.add(old.first, false);
            range.add(old.last, false);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use packet::Packet;

    use crate::testing::Rig;

    fn packets(seconds: &[u64]) -> Vec<Packet> {
        let stamped = |s: &u64| {
            let mut packet = Packet::copy_of(b"a").unwrap();
            packet.set_timestamp_ns(s * 1_000_000_000);
            packet
        };
        seconds.iter().map(stamped).collect()
    }

    #[test]
    fn finds_the_range() {
        for (element, want) in
            [("TimeRange", "2.000000 9.000000"), ("TimeRange(SIMPLE true)", "5.000000 4.000000")]
        {
            for burst in [1, 32] {
                let mut run = Rig::new(element).burst(burst).packets(packets(&[5, 9, 2, 4])).run();
                assert_eq!((run.out("o0").len(), run.read("e.range").as_str()), (4, want));
            }
        }
        let mut run = Rig::new("TimeRange").packets(packets(&[5, 9, 2])).run();
        assert_eq!((run.read("e.first"), run.read("e.last")), ("2.000000".into(), "9.000000".into()));
        assert_eq!(run.read("e.interval"), "7.000000");
        run.write("e.reset", "").unwrap();
        assert_eq!(run.read("e.range"), "0.000000 0.000000");
    }
}
