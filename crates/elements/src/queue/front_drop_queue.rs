// SPDX-License-Identifier: MIT OR Apache-2.0
//! # FrontDropQueue
//!
//! `FrontDropQueue([CAPACITY])`
//!
//! Stores packets in first-in-first-out order; when it is full the oldest packet makes room for a new one.
//!
//! **Ports:** 1 push input, 1 pull output; output 1, if connected, is a push output for packets that had to make room.
//!
//! **Arguments**
//! * `CAPACITY` packets it holds at most, default 1000.
//!
//! **Cores:** one worker at a time uses it; where several do, a lock stands before it.
//!
//! **Drops:** `queue-full`, packets that had to make room.
//!
//! **Handlers**
//! * `length` read: packets held. `highwater_length` read: the most it ever held.
//! * `capacity` read/write: the argument.
//! * `drops` read: packets dropped because it was full.
//! * `reset_counts` write: sets `drops` and `highwater_length` to zero. `reset` write: drops what it holds, too.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> FrontDropQueue(100) -> Unqueue -> Discard;
//! ```
//!
//! See also: Queue, MixedQueue

use std::any::Any;

use element::args::Args;
use element::stats::Stat;
use element::{Class, Cx, Element, Provided, swap};
use packet::Batch;

use super::deque::{Deque, HANDLERS};

/// The descriptor.
pub const CLASS: Class = Class::new("FrontDropQueue", "1/1-2", || Box::new(FrontDropQueue::default()))
    .processing("h/lh")
    .serial("packets leave in the order they came, and the oldest make room")
    .handlers(HANDLERS)
    .file(file!());

#[derive(Default)]
struct FrontDropQueue(Deque);

impl Element for FrontDropQueue {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.0.configure(args);
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        let mut old = None;
        for packet in batch.drain(..) {
            if self.0.is_full() {
                old.get_or_insert_with(Batch::new).extend(self.0.packets.pop_front());
            }
            self.0.packets.push_back(packet);
        }
        self.0.changed();
        self.0.overflow(cx, old);
    }

    fn pull(&mut self, _: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        self.0.pull(max)
    }

    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        swap::same::<FrontDropQueue>(old).map(|old| self.0.take(&mut old.0)).is_some()
    }

    fn provide(&self) -> Option<Provided> {
        self.0.provide()
    }

    fn held(&self) -> usize {
        self.0.packets.len()
    }

    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        self.0.stats(put);
    }

    fn part(&mut self) -> Option<&mut dyn Any> {
        Some(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use element::Reason;

    use crate::testing::Rig;

    #[test]
    fn the_oldest_makes_room() {
        for burst in [1, 32] {
            let text = "i :: TestIn -> e :: FrontDropQueue(2) -> u :: Unqueue(ACTIVE false) -> o :: TestOut; e[1] -> x :: TestOut;";
            let mut run = Rig::text(text).burst(burst).inputs(&[b"a", b"b", b"c", b"d"]).run();
            assert_eq!(
                (run.bytes("x").concat(), run.read("e.drops"), run.read("e.length")),
                (b"ab".to_vec(), "2".into(), "2".into())
            );
            run.write("e.capacity", "1").unwrap();
            run.write("u.active", "true").unwrap();
            let run = run.again();
            assert_eq!((run.bytes("o"), run.bytes("x")), (vec![b"c".to_vec()], vec![b"d".to_vec()]));
        }
    }

    #[test]
    fn drops_are_counted() {
        let run = Rig::text("i :: TestIn -> e :: FrontDropQueue(1) -> Unqueue(ACTIVE false) -> Discard;");
        let mut run = run.inputs(&[b"a", b"b"]).run();
        assert_eq!(
            (run.drops("e"), run.read("e.highwater_length")),
            (vec![(Reason::QueueFull, 1)], "1".into())
        );
        assert_eq!(Rig::text("Idle -> e :: FrontDropQueue(0) -> Discard;").errors().len(), 1);
    }
}
