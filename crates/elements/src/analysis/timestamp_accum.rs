// SPDX-License-Identifier: MIT OR Apache-2.0
//! # TimestampAccum
//!
//! `TimestampAccum`
//!
//! Passes packets unchanged and adds up the time from each packet's timestamp to the present.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Metadata read:** timestamp.
//!
//! **Drops:** none.
//!
//! **Cores:** all workers share the sum; they take a lock once for each batch.
//!
//! **Handlers**
//! * `count` read: packets that passed. `time` read: the sum in seconds. `average_time` read: the mean in seconds.
//! * `reset_counts` write: sets count and sum to zero.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> SetTimestamp -> t :: TimestampAccum -> Discard;
//! DriverManager(wait, print t.count);
//! ```
//!
//! See also: SetTimestamp, SetTimestampDelta

use std::sync::Arc;

use element::args::Args;
use element::clock::SECOND;
use element::{
    Class, Cx, Element, HotSwap, LockUse, Locking, Rehearsal, SharedState, Sharing, When, handlers, swap,
};
use packet::Batch;

use crate::control::general;
use sync::lock::{AdaptiveLock, How};

/// The descriptor.
pub const CLASS: Class = Class::new("TimestampAccum", "1/1", || Box::new(TimestampAccum::default()))
    .sharing(Sharing::Shared)
    .handlers(handlers! { TimestampAccum:
        read "count" => |element| element.0.lock().count;
        read "time" => |element| seconds(element.0.lock().ns as f64);
        read "average_time" => |element| {
            let Sum { count, ns } = *element.0.lock();
            seconds(ns as f64 / count.max(1) as f64)
        };
        write "reset_counts" => |element| *element.0.lock() = Sum::default();
    })
    .hot_swap::<TimestampAccum>()
    .shared_state::<TimestampAccum>()
    .locking::<TimestampAccum>()
    .rehearsal::<TimestampAccum>()
    .file(file!());

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    ns: u128,
}

struct TimestampAccum(Arc<AdaptiveLock<Sum>>);

impl Default for TimestampAccum {
    fn default() -> Self {
        TimestampAccum(Arc::new(AdaptiveLock::new(Sum::default())))
    }
}

fn seconds(ns: f64) -> String {
    general(ns / SECOND as f64, 12)
}

impl Element for TimestampAccum {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        let now = cx.wall();
        let ns: u128 = batch.iter().map(|p| u128::from(now.saturating_sub(p.timestamp_ns()))).sum();
        let mut sum = self.0.lock();
        sum.count += batch.len() as u64;
        sum.ns += ns;
        drop(sum);
        batch
    }
}

impl Rehearsal for TimestampAccum {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(TimestampAccum(Arc::new(AdaptiveLock::new(*self.0.lock())))))
    }
}

impl Locking for TimestampAccum {
    fn locks(&self) -> Vec<LockUse> {
        vec![LockUse::new(How::Adaptive, "the sum", When::EachBatch, "every packet adds to it")]
    }
}

impl SharedState for TimestampAccum {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(TimestampAccum(self.0.clone())))
    }
}

impl HotSwap for TimestampAccum {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<TimestampAccum>(old) else { return false };
        let old = std::mem::take(&mut *old.0.lock());
        let mut sum = self.0.lock();
        sum.count += old.count;
        sum.ns += old.ns;
        true
    }
}

#[cfg(test)]
mod tests {
    use element::clock::SECOND;
    use engine::clock::SIMULATION_EPOCH;
    use packet::Packet;

    use crate::testing::Rig;

    #[test]
    fn adds_up_ages() {
        for burst in [1, 32] {
            let aged = |s: u64| {
                let mut packet = Packet::copy_of(b"a").unwrap();
                packet.set_timestamp_ns(SIMULATION_EPOCH - s * SECOND);
                packet
            };
            let mut run = Rig::new("TimestampAccum").burst(burst).packets(vec![aged(1), aged(2)]).run();
            assert_eq!((run.out("o0").len(), run.read("e.count").as_str()), (2, "2"));
            assert_eq!((run.read("e.time"), run.read("e.average_time")), ("3".into(), "1.5".into()));
            run.write("e.reset_counts", "").unwrap();
            assert_eq!((run.read("e.time"), run.read("e.average_time")), ("0".into(), "0".into()));
        }
    }
}
