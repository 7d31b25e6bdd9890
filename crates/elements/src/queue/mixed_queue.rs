// SPDX-License-Identifier: MIT OR Apache-2.0
//! # MixedQueue
//!
//! `MixedQueue([CAPACITY])`
//!
//! Stores packets: those from input 0 come out first in, first out, and those from input 1 last in, first out and before the others.
//!
//! **Ports:** 2 push inputs, 1 pull output; output 1, if connected, is a push output for packets without room.
//!
//! **Arguments**
//! * `CAPACITY` packets it holds at most, default 1000.
//!
//! **Cores:** one worker at a time uses it; where several do, a lock stands before it.
//!
//! **Drops:** `queue-full`: when it is full, a packet for input 0, or the packet at the far end to make room for one from input 1.
//!
//! **Handlers**
//! * `length` read: packets held. `highwater_length` read: the most it ever held.
//! * `capacity` read/write: the argument.
//! * `drops` read: packets dropped because it was full.
//! * `reset_counts` write: sets `drops` and `highwater_length` to zero. `reset` write: drops what it holds, too.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> q :: MixedQueue(100) -> Unqueue -> Discard;
//! Idle -> [1] q;
//! ```
//!
//! See also: Queue, FrontDropQueue

use std::any::Any;

use element::args::Args;
use element::stats::Stat;
use element::{Class, Cx, Element, Provided, swap};
use packet::Batch;

use super::deque::{Deque, HANDLERS};

/// The descriptor.
pub const CLASS: Class = Class::new("MixedQueue", "2/1-2", || Box::new(MixedQueue::default()))
    .processing("h/lh")
    .serial("packets leave by one order of first and last come")
    .handlers(HANDLERS)
    .file(file!());

#[derive(Default)]
struct MixedQueue(Deque);

impl Element for MixedQueue {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.0.configure(args);
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) {
        let mut lost = None;
        for packet in batch.drain(..) {
            match (port, self.0.is_full()) {
                (0, false) => self.0.packets.push_back(packet),
                (0, true) => lost.get_or_insert_with(Batch::new).push(packet),
                (_, full) => {
                    if full {
                        lost.get_or_insert_with(Batch::new).extend(self.0.packets.pop_back());
                    }
                    self.0.packets.push_front(packet);
                }
            }
        }
        self.0.changed();
        self.0.overflow(cx, lost);
    }

    fn pull(&mut self, _: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        self.0.pull(max)
    }

    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        swap::same::<MixedQueue>(old).map(|old| self.0.take(&mut old.0)).is_some()
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
    fn input_1_is_a_stack() {
        for burst in [1, 32] {
            let text = "i :: TestIn -> s :: HashSwitch(1, 1) -> e :: MixedQueue(5) -> u :: Unqueue(ACTIVE false) -> o :: TestOut; s[1] -> [1] e; e[1] -> x :: TestOut;";
            let inputs: [&[u8]; 7] = [b"a\0", b"b\0", b"c\x01", b"d\0", b"e\x01", b"f\0", b"g\x01"];
            let mut run = Rig::text(text).burst(1).inputs(&inputs).run();
            assert_eq!((run.bytes("x").concat(), run.read("e.drops")), (b"f\0d\0".to_vec(), "2".into()));
            run.write("u.active", "true").unwrap();
            assert_eq!(run.again().bytes("o").concat(), b"g\x01e\x01c\x01a\0b\0");
            let text = "i :: TestIn -> [1] e :: MixedQueue(2) -> u :: Unqueue(ACTIVE false) -> o :: TestOut; Idle -> e;";
            let mut run = Rig::text(text).burst(burst).inputs(&[b"a", b"b", b"c"]).run();
            assert_eq!(run.drops("e"), [(Reason::QueueFull, 1)]);
            run.write("u.active", "true").unwrap();
            assert_eq!(run.again().bytes("o").concat(), b"cb");
        }
    }
}
