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

use std::collections::VecDeque;

use element::Class;
use packet::Packet;

use super::deque::{DequeQueue, Discipline, HANDLERS};

/// The descriptor.
pub const CLASS: Class = DequeQueue::<FrontDrop>::with_capabilities(
    Class::new("FrontDropQueue", "1/1-2", || Box::new(DequeQueue::<FrontDrop>::default()))
        .processing("h/lh")
        .serial("packets leave in the order they came, and the oldest make room")
        .handlers(HANDLERS)
        .file(file!()),
);

/// The oldest packet makes room.
#[derive(Default)]
struct FrontDrop;

impl Discipline for FrontDrop {
    fn enter(packets: &mut VecDeque<Packet>, is_full: bool, _: usize, packet: Packet) -> Option<Packet> {
        let oldest = if is_full { packets.pop_front() } else { None };
        packets.push_back(packet);
        oldest
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
