// SPDX-License-Identifier: MIT OR Apache-2.0
//! # CPUQueue
//!
//! `CPUQueue([CAPACITY])`
//!
//! Stores packets in first-in-first-out order, in a ring for each worker that brings some, so that those who bring packets
//! never write to the same memory.
//!
//! **Ports:** 1 push input, 1 or more pull outputs.
//!
//! **Arguments**
//! * `CAPACITY` packets that each ring holds at most, default 128.
//!
//! Packets that one worker brought keep their order; those of several are fetched in turn, a batch of each ring.
//!
//! **Cores:** any number of workers may fill and drain it at once without a lock. With one that drains, each pair of workers
//! has its own ring. Sources do not wait while it is full.
//!
//! **Drops:** `queue-full`.
//!
//! **Handlers**
//! * `length` read: packets held. `capacity` read: the argument.
//! * `drops` read: packets dropped because a ring was full. `reset_counts` write: sets it to zero.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> CPUQueue(100) -> Unqueue -> Discard;
//! ```
//!
//! See also: Queue, Spread, CPUSwitch

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use element::args::Args;
use element::{
    Class, Cx, Element, HotSwap, OpenCx, PacketHolder, PlacementRules, Reason, Rehearsal, Rehearsed,
    SharedState, Sharing, Tasks, handlers, swap,
};
use packet::{Batch, Packet};
use sync::ring::Ring;

/// The descriptor.
pub const CLASS: Class = Class::new("CPUQueue", "1/1-", || Box::new(CpuQueue::default()))
    .processing("h/l")
    .sharing(Sharing::Shared)
    .handlers(handlers! { CpuQueue:
        read "length" => |queue| queue.rings.len();
        read "capacity" => .capacity;
        read "drops" => |queue| queue.rings.drops.load(Ordering::Relaxed);
        write "reset_counts" => |queue| queue.rings.drops.store(0, Ordering::Relaxed);
    })
    .hot_swap::<CpuQueue>()
    .shared_state::<CpuQueue>()
    .placement_rules::<CpuQueue>()
    .rehearsal::<CpuQueue>()
    .packet_holder::<CpuQueue>()
    .file(file!());

const DEFAULT_CAPACITY: usize = 128;
/// The most packets that a ring can hold.
const MAX_CAPACITY: usize = 1 << 20;

/// What all instances share.
struct Rings {
    by_worker: Vec<Ring<Packet>>,
    /// Off the path of packets that fit.
    drops: AtomicU64,
}

impl Rings {
    fn new(workers: usize, capacity: usize) -> Arc<Rings> {
        let by_worker = (0..workers).map(|_| Ring::new(capacity)).collect();
        Arc::new(Rings { by_worker, drops: AtomicU64::new(0) })
    }

    fn len(&self) -> usize {
        self.by_worker.iter().map(Ring::len).sum()
    }
}

struct CpuQueue {
    rings: Arc<Rings>,
    capacity: usize,
    /// The ring that is asked first.
    next: usize,
    /// Further instances over the same rings hold nothing that the first one does not.
    first: bool,
}

impl Default for CpuQueue {
    fn default() -> Self {
        CpuQueue { rings: Rings::new(0, 1), capacity: DEFAULT_CAPACITY, next: 0, first: true }
    }
}

impl Element for CpuQueue {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.capacity = args.positional("CAPACITY", DEFAULT_CAPACITY);
        if self.capacity == 0 || self.capacity > MAX_CAPACITY {
            args.error(format!("CAPACITY must lie between 1 and {MAX_CAPACITY}, not {}", self.capacity));
        }
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        self.rings = Rings::new(cx.workers, self.capacity);
        Ok(Tasks::None)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        self.rings.by_worker[cx.worker()].push_from(&mut batch);
        if !batch.is_empty() {
            self.rings.drops.fetch_add(batch.len() as u64, Ordering::Relaxed);
            cx.found_full(cx.index());
            cx.drop_batch(Reason::QueueFull, batch);
        }
    }

    fn pull(&mut self, _: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        let rings = &self.rings.by_worker;
        let mut batch = Batch::new();
        let first = self.next;
        for at in (first..rings.len()).chain(0..first) {
            rings[at].pop_into(max - batch.len(), &mut batch);
            if batch.len() == max {
                // The others come first the next time.
                self.next = if at + 1 == rings.len() { 0 } else { at + 1 };
                break;
            }
        }
        // Those who filled the rings wrote these lines last, on other cores.
        batch.iter().for_each(Packet::prefetch);
        batch.iter().for_each(Packet::prefetch_data);
        batch
    }
}

impl PacketHolder for CpuQueue {
    fn held(&self) -> usize {
        if self.first { self.rings.len() } else { 0 }
    }
}

impl Rehearsal for CpuQueue {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        Rehearsed::Waits(packet, format!("behind {} packets of all workers' queues", self.rings.len()))
    }
}

impl PlacementRules for CpuQueue {
    fn tells_workers_apart(&self) -> bool {
        true
    }
}

impl SharedState for CpuQueue {
    fn share(&self) -> Option<Box<dyn Element>> {
        let (rings, capacity) = (self.rings.clone(), self.capacity);
        Some(Box::new(CpuQueue { rings, capacity, next: 0, first: false }))
    }
}

impl HotSwap for CpuQueue {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<CpuQueue>(old) else { return false };
        // The first instance takes all; nobody fills or drains while configurations change.
        for (at, ring) in old.rings.by_worker.iter().enumerate() {
            let mut packets = Batch::new();
            while ring.pop_many(usize::MAX, |packet| packets.push(packet)) > 0 {}
            let mine = &self.rings.by_worker[at % self.rings.by_worker.len()];
            let mut packets = packets.drain(..);
            mine.push_many(&mut packets);
            let rest: Batch = packets.collect();
            if !rest.is_empty() {
                self.rings.drops.fetch_add(rest.len() as u64, Ordering::Relaxed);
                cx.drop_batch(Reason::HotSwap, rest);
            }
        }
        self.rings.drops.fetch_add(old.rings.drops.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn keeps_order_and_drops_what_does_not_fit() {
        let text = "i :: TestIn -> q :: CPUQueue(3) -> u :: Unqueue(ACTIVE false) -> o :: TestOut;";
        let mut run = Rig::text(text).inputs(&[b"a", b"b", b"c", b"d"]).run();
        assert_eq!(["q.length", "q.capacity", "q.drops"].map(|h| run.read(h)), ["3", "3", "1"]);
        run.write("u.active", "true").unwrap();
        run.write("q.reset_counts", "").unwrap();
        let mut run = run.again();
        assert_eq!(run.bytes("o").concat(), b"abc");
        assert_eq!(["q.length", "q.drops"].map(|h| run.read(h)), ["0", "0"]);
    }

    #[test]
    fn each_worker_has_its_room_and_its_turn() {
        let text = "i :: TestIn -> q :: CPUQueue(4); j :: TestIn -> q; q -> u :: Unqueue(ACTIVE false) -> o :: TestOut;
                    StaticThreadSched(i 0, j 1, u 0);";
        let run = Rig::text(text).workers(2).burst(2).ready();
        run.give("i", [b"a", b"b", b"c", b"d"].map(|b| packet::Packet::copy_of(b).unwrap()).into());
        run.give("j", [b"1", b"2", b"3", b"4"].map(|b| packet::Packet::copy_of(b).unwrap()).into());
        let mut run = run.again();
        assert_eq!(["q.length", "q.drops"].map(|h| run.read(h)), ["8", "0"]);
        run.write("u.active", "true").unwrap();
        assert_eq!(run.again().bytes("o").concat(), b"ab12cd34");
    }

    #[test]
    fn bad_capacities() {
        for capacity in ["0", "2000000"] {
            let errors = Rig::new(&format!("CPUQueue({capacity})")).errors();
            assert!(
                errors.iter().any(|e| e.contains("CAPACITY must lie between 1 and 1048576")),
                "{errors:?}"
            );
        }
    }
}
