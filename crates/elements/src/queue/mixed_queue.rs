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

use std::collections::VecDeque;

use element::Class;
use packet::Packet;

use super::deque::{DequeQueue, Discipline, HANDLERS};

/// The descriptor.
pub const CLASS: Class = DequeQueue::<Mixed>::with_capabilities(
    Class::new("MixedQueue", "2/1-2", || Box::new(DequeQueue::<Mixed>::default()))
        .processing("h/lh")
        .serial("packets leave by one order of first and last come")
        .handlers(HANDLERS)
        .file(file!()),
);

/// What comes by input 0 goes behind the others, if there is room; anything else before them, and the last one makes room.
#[derive(Default)]
struct Mixed;

impl Discipline for Mixed {
    fn enter(packets: &mut VecDeque<Packet>, is_full: bool, port: usize, packet: Packet) -> Option<Packet> {
        if port == 0 {
            if is_full {
                return Some(packet);
            }
            packets.push_back(packet);
            return None;
        }
        let last = if is_full { packets.pop_back() } else { None };
        packets.push_front(packet);
        last
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
