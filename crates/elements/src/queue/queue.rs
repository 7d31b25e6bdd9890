// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Queue, FullNoteQueue, NotifierQueue, QuickNoteQueue, SimpleQueue, ThreadSafeQueue
//!
//! `Queue([CAPACITY, SYNC lockfree|spin|adaptive])`
//!
//! Stores packets in first-in-first-out order between a push path and a pull path.
//!
//! **Ports:** 1 push input (2 or more are taken alike), 1 pull output; output 1, if connected, is a push output for
//! packets that do not fit.
//!
//! **Arguments**
//! * `CAPACITY` packets it holds at most, default 1000.
//! * `SYNC` how workers that use it at once keep out of each other's way: `lockfree`, the default, or for comparison a list
//!   behind a lock, `spin` (waiters spin) or `adaptive` (they spin shortly, then sleep).
//!
//! **Cores:** any number of workers may fill and drain it at once, without a lock unless `SYNC` asks for one. When every worker that fills it
//! also drains it (it stands before a device with a transmit queue per core), each has a queue of its own of this
//! capacity and packets never change cores.
//!
//! **Drops:** `queue-full`.
//!
//! **Handlers**
//! * `length` read: packets held. `highwater_length` read: the most it ever held.
//! * `capacity` read/write: the argument. Packets that a smaller capacity leaves no room for are dropped, the last ones
//!   first; where several workers share the queue they stay until they are fetched.
//! * `drops` read: packets dropped because it was full.
//! * `sync` read: the argument. `contention` read: how often the lock was taken, how often someone waited, and for how many ns
//!   in all; empty without a lock.
//! * `reset_counts` write: sets `drops` and `highwater_length` to zero. `reset` write: drops what it holds, too.
//!
//! Every queue here may be used from several workers. Sources wait while it is full, except before a NotifierQueue or a
//! SimpleQueue, which overflow.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Queue(100) -> Unqueue -> Discard;
//! ```
//!
//! See also: Unqueue, RED, MixedQueue, FrontDropQueue

use std::sync::Arc;
use std::sync::atomic::Ordering;

use element::Policy;
use element::args::Args;
use element::stats::{self, Stat};
use element::{
    Class, Cx, Element, Handler, HandlerError, HotSwap, LockUse, Locking, PacketHolder, Provide, Provided,
    Reason, Rehearsal, Rehearsed, SharedState, Sharing, Statistics, When, handlers, swap,
};
use packet::{Batch, Packet};
use sync::lock::How;

use super::store::{QueueSync, Rings, Store};
use crate::tools::number;

const fn class(name: &'static str, make: fn() -> Box<dyn Element>) -> Class {
    Class::new(name, "1-/1-2", make)
        .processing("h/lh")
        .sharing(Sharing::Queue)
        .handlers(HANDLERS)
        .hot_swap::<Queue>()
        .shared_state::<Queue>()
        .locking::<Queue>()
        .rehearsal::<Queue>()
        .packet_holder::<Queue>()
        .statistics::<Queue>()
        .provide::<Queue>()
        .file(file!())
}

const HANDLERS: &[Handler] = handlers! { Queue:
    sum "length" => |queue| queue.once(|rings| rings.len());
    sum "highwater_length" => |queue| queue.once(|rings| rings.highwater.load(Ordering::Relaxed));
    both "capacity".argument(Some(0), "CAPACITY") => |queue| queue.rings.capacity(),
        |queue, cx, text: &str| queue.resize(cx, capacity_value("capacity", text)?);
    sum "drops" => |queue| queue.once(|rings| rings.drops.load(Ordering::Relaxed) as usize);
    write "reset_counts" => |queue| queue.reset_counts();
    write "reset" => |queue, cx| {
        queue.discard(cx);
        queue.reset_counts();
    };
    read "sync" => |queue| queue.rings.way();
    join "contention" => |queue| if queue.first { contention(&queue.rings) } else { String::new() };
};

/// The descriptor.
pub const QUEUE: Class = class("Queue", holds_back);
/// The descriptor of one that sources fill until it overflows.
pub const SIMPLE_QUEUE: Class = class("SimpleQueue", overflows);
/// The descriptor of a synonym.
pub const THREAD_SAFE_QUEUE: Class = class("ThreadSafeQueue", holds_back);
/// The descriptor of a synonym.
pub const FULL_NOTE_QUEUE: Class = class("FullNoteQueue", holds_back);
/// The descriptor of a synonym.
pub const QUICK_NOTE_QUEUE: Class = class("QuickNoteQueue", holds_back);
/// The descriptor of one that sources fill until it overflows.
pub const NOTIFIER_QUEUE: Class = class("NotifierQueue", overflows);

/// Makes a queue for whose room sources wait.
fn holds_back() -> Box<dyn Element> {
    Box::new(Queue::new(DEFAULT_CAPACITY, QueueSync::LockFree, true))
}

/// Makes a queue that says nothing when it is full.
fn overflows() -> Box<dyn Element> {
    Box::new(Queue::new(DEFAULT_CAPACITY, QueueSync::LockFree, false))
}

pub(super) const DEFAULT_CAPACITY: usize = 1000;

/// The most packets that a queue can hold.
const MAX_CAPACITY: usize = 1 << 24;

/// Reads the argument `CAPACITY`.
pub(super) fn capacity_argument(args: &mut Args<'_>) -> usize {
    let capacity: usize = args.positional("CAPACITY", DEFAULT_CAPACITY);
    // A queue for no packets is one of Click's ways to drop them.
    let least = usize::from(!Policy::of_process().as_click);
    if !(least..=MAX_CAPACITY).contains(&capacity) {
        args.error(format!("CAPACITY must lie between 1 and {MAX_CAPACITY}, not {capacity}"));
        return DEFAULT_CAPACITY;
    }
    capacity
}

/// Reads a capacity written to a handler.
pub(super) fn capacity_value(name: &str, value: &str) -> Result<usize, HandlerError> {
    let capacity = number::<usize>(name, value).map_err(|e| e.said_as("CAPACITY: parse error"))?;
    let least = usize::from(!Policy::of_process().as_click);
    if (least..=MAX_CAPACITY).contains(&capacity) {
        Ok(capacity)
    } else {
        Err(HandlerError::bad_value(name, value, "1 to 16777216 packets"))
    }
}

struct Queue {
    rings: Arc<Rings>,
    store: Arc<Store>,
    /// Held once by each instance over the same rings.
    instances: Arc<()>,
    /// Further instances over the same rings count nothing that the first one counts.
    first: bool,
}

impl Queue {
    fn new(capacity: usize, way: QueueSync, holds_back: bool) -> Queue {
        let rings = Arc::new(Rings::new(capacity, way));
        Queue {
            store: Arc::new(Store::of(rings.clone(), holds_back)),
            rings,
            instances: Arc::new(()),
            first: true,
        }
    }

    fn resize(&mut self, cx: &mut Cx<'_>, capacity: usize) {
        if Arc::strong_count(&self.instances) > 1 {
            self.rings.set_capacity(capacity);
            return;
        }
        let mut kept = self.rings.pull(usize::MAX);
        self.rings.set_capacity(capacity);
        self.rings.push(&mut kept);
        drop_rest(kept, cx, &self.rings);
    }
}

impl Queue {
    /// Counts something once for all instances over the same rings, so that their sum is right.
    fn once(&self, count: impl Fn(&Rings) -> usize) -> usize {
        if self.first { count(&self.rings) } else { 0 }
    }

    fn discard(&self, cx: &mut Cx<'_>) {
        loop {
            let batch = self.rings.pull(256);
            if batch.is_empty() {
                break;
            }
            cx.drop_batch(Reason::Discarded, batch);
        }
    }

    fn reset_counts(&self) {
        self.rings.highwater.store(self.rings.len(), Ordering::Relaxed);
        self.rings.drops.store(0, Ordering::Relaxed);
    }
}

impl Element for Queue {
    fn configure(&mut self, args: &mut Args<'_>) {
        let capacity = capacity_argument(args);
        // Nobody waits for room that never comes.
        let holds_back = self.store.holds_back() && capacity > 0;
        *self = Queue::new(capacity, args.keyword("SYNC", QueueSync::LockFree), holds_back);
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        let rings = &*self.rings;
        rings.push(&mut batch);
        if !batch.is_empty() && rings.capacity() > 0 && rings.drops.load(Ordering::Relaxed) == 0 {
            cx.print_once(&format!("{}: overflow", cx.declaration()));
        }
        drop_rest(batch, cx, rings);
        rings.note_length();
    }

    fn pull(&mut self, _: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        self.rings.pull(max)
    }
}

impl Provide for Queue {
    fn provide(&self) -> Option<Provided> {
        Some(self.store.clone())
    }
}

impl Statistics for Queue {
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        if self.first {
            put(&stats::QUEUE_LENGTH, self.rings.len() as u64);
            put(&stats::QUEUE_CAPACITY, self.rings.capacity() as u64);
            put(&stats::QUEUE_HIGHWATER, self.rings.highwater.load(Ordering::Relaxed) as u64);
        }
    }
}

impl PacketHolder for Queue {
    fn held(&self) -> usize {
        if self.first { self.rings.len() } else { 0 }
    }
}

impl Rehearsal for Queue {
    fn rehearse(&mut self, cx: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        rehearse(cx, packet, self.rings.len(), self.rings.capacity())
    }
}

impl Locking for Queue {
    fn locks(&self) -> Vec<LockUse> {
        let how = match self.rings.way() {
            QueueSync::LockFree => return Vec::new(),
            QueueSync::Spin => How::Spin,
            QueueSync::Adaptive => How::Adaptive,
        };
        let why = "who fills it and who drains it write the same list (SYNC; lockfree takes none)";
        vec![LockUse::new(how, "the list of packets", When::EachBatch, why)]
    }
}

impl SharedState for Queue {
    fn share(&self) -> Option<Box<dyn Element>> {
        let (rings, store, instances) = (self.rings.clone(), self.store.clone(), self.instances.clone());
        Some(Box::new(Queue { rings, store, instances, first: false }))
    }
}

impl HotSwap for Queue {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<Queue>(old) else { return false };
        let (mine, theirs) = (&*self.rings, &*old.rings);
        mine.append(theirs);
        let highwater = theirs.highwater.swap(0, Ordering::Relaxed).max(mine.len());
        mine.highwater.fetch_max(highwater, Ordering::Relaxed);
        mine.drops.fetch_add(theirs.drops.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        true
    }
}

fn contention(rings: &Rings) -> String {
    rings.contention().map_or(String::new(), |stats| format!("queue {stats}\n"))
}

/// What a queue would do with a packet that already holds `len`.
fn rehearse(cx: &mut Cx<'_>, packet: Packet, len: usize, capacity: usize) -> Rehearsed {
    if len >= capacity {
        cx.push_one_or_drop(1, packet, Reason::QueueFull);
        return Rehearsed::Done;
    }
    Rehearsed::Waits(packet, format!("behind {len} packets; there is room for {capacity}"))
}

/// Sends what did not fit to output 1, or drops it.
#[inline]
fn drop_rest(rest: Batch, cx: &mut Cx<'_>, rings: &Rings) {
    if !rest.is_empty() {
        rings.drops.fetch_add(rest.len() as u64, Ordering::Relaxed);
        cx.found_full(cx.index());
        cx.push_or_drop(1, rest, Reason::QueueFull);
    }
}

#[cfg(test)]
mod tests {
    use sync::events::{self, EventKind, Mask, Reader};

    use super::*;
    use crate::testing::Rig;

    #[test]
    fn keeps_order_and_capacity() {
        for (burst, way) in [(1, "lockfree"), (32, "lockfree"), (1, "spin"), (32, "spin"), (32, "adaptive")] {
            let text = format!(
                "i :: TestIn -> e :: Queue(3, SYNC {way}) -> u :: Unqueue(ACTIVE false) -> o :: TestOut;"
            );
            let mut run = Rig::text(&text).burst(burst).inputs(&[b"a", b"b", b"c", b"d", b"e"]).run();
            assert_eq!(
                (run.read("e.sync"), run.read("e.contention").is_empty()),
                (way.into(), way == "lockfree")
            );
            assert_eq!(run.read("e.length"), "3");
            assert_eq!((run.read("e.drops"), run.read("e.highwater_length")), ("2".into(), "3".into()));
            assert_eq!(run.drops("e"), [(Reason::QueueFull, 2)]);
            run.write("u.active", "true").unwrap();
            let run = run.again();
            assert_eq!(run.bytes("o"), [b"a", b"b", b"c"]);
        }
    }

    #[test]
    fn what_does_not_fit_leaves_by_output_1() {
        let text = "i :: TestIn -> e :: Queue(1) -> Unqueue(ACTIVE false) -> Discard; e[1] -> o :: TestOut;";
        let run = Rig::text(text).inputs(&[b"a", b"b", b"c"]).run();
        assert_eq!(run.bytes("o"), [b"b", b"c"]);
        assert_eq!(run.drops("e"), []);
    }

    #[test]
    fn capacity_changes_while_it_runs() {
        let text = "i :: TestIn -> e :: Queue(3, SYNC $way) -> u :: Unqueue(ACTIVE false) -> o :: TestOut; e[1] -> x :: TestOut; s :: TimedSource(1, z, ACTIVE false, LIMIT 9) -> e;";
        for (burst, way) in [(1, "lockfree"), (32, "lockfree"), (32, "spin"), (1, "adaptive")] {
            let text = text.replace("$way", way);
            let mut run = Rig::text(&text).burst(burst).inputs(&[b"a", b"b", b"c"]).run();
            run.write("e.capacity", "10").unwrap();
            assert_eq!((run.read("e.capacity"), run.read("e.length")), ("10".into(), "3".into()));
            run.write("s.active", "true").unwrap();
            let mut run = run.again();
            assert_eq!((run.read("e.length"), run.read("e.drops")), ("10".into(), "2".into()));
            run.write("e.capacity", "2").unwrap();
            assert_eq!((run.read("e.capacity"), run.read("e.length")), ("2".into(), "2".into()));
            assert!(run.write("e.capacity", "0").is_err());
            run.write("u.active", "true").unwrap();
            let run = run.again();
            assert_eq!((run.bytes("o"), run.out("x").len()), (vec![b"a".to_vec(), b"b".to_vec()], 10));
        }
    }

    /// How often this thread recorded meanwhile that the queue of this index is full.
    fn told_full(reader: &mut Reader, queue: element::ElementId) -> usize {
        // Other tests' threads tell of queues of the same number.
        events::push(0, EventKind::Sleep, (u32::MAX, 0), (0, 0));
        let mut all = Vec::new();
        reader.read(|event| all.push(event));
        let me = all.iter().find(|e| (e.kind, e.subject) == (EventKind::Sleep, u32::MAX)).map(|e| e.thread);
        all.iter()
            .filter(|e| Some(e.thread) == me && (e.kind, e.subject) == (EventKind::Full, queue.number()))
            .count()
    }

    #[test]
    fn a_recording_tells_when_a_queue_becomes_full() {
        events::record(Mask::QUEUES);
        let mut reader = Reader::new();
        for class in ["Queue", "FrontDropQueue", "CPUQueue"] {
            let text = format!("i :: TestIn -> e :: {class}(2) -> u :: Unqueue(ACTIVE false) -> TestOut;");
            let run = Rig::text(&text).burst(1).inputs(&[b"a", b"b", b"c", b"d", b"e"]).run();
            // Once, and not for each that comes while it is full.
            assert_eq!(told_full(&mut reader, run.index("e")), 1, "{class}");
            if class == "CPUQueue" {
                continue;
            }
            let mut run = run;
            run.write("u.active", "true").unwrap();
            let run = run.again();
            run.give("i", ["f", "g"].map(|b| Packet::copy_of(b.as_bytes()).unwrap()).into());
            let run = run.again();
            assert_eq!(told_full(&mut reader, run.index("e")), 0, "{class}");
        }
        // A source that waits for room, and ends only when the queue has some again.
        let text =
            "s :: InfiniteSource(LIMIT 9) -> e :: Queue(3) -> u :: Unqueue(ACTIVE false) -> o :: TestOut;";
        let mut run = Rig::text(text).run();
        assert_eq!((run.read("e.length"), run.drops("e")), ("3".into(), vec![]));
        assert_eq!(told_full(&mut reader, run.index("e")), 1);
        events::record(Mask::NOTHING);
        run.write("u.active", "true").unwrap();
        let run = run.again();
        assert_eq!((run.out("o").len(), told_full(&mut reader, run.index("e"))), (9, 0));
    }

    #[test]
    fn refuses_impossible_capacities() {
        assert_eq!(
            Rig::text("i :: TestIn -> e :: Queue(0) -> Discard;").errors(),
            ["e: CAPACITY must lie between 1 and 16777216, not 0"]
        );
    }

    #[test]
    fn its_lock_is_listed_with_its_name() {
        for way in ["spin", "adaptive"] {
            let text = format!("i :: TestIn -> named :: Queue(3, SYNC {way}) -> Unqueue -> o :: TestOut;");
            let mut run = Rig::text(&text).inputs(&[b"a", b"b"]).run();
            let locks = run.read("locks");
            let mine: Vec<_> = locks.lines().filter(|l| l.starts_with("named ")).collect();
            let [line] = mine[..] else { panic!("{locks}") };
            let taken = line.strip_prefix(&format!("named {way} acquisitions ")).expect(line);
            assert!(
                !taken.starts_with("0 ") && taken.contains(" contended 0 wait_ns 0 worst_ns 0 "),
                "{line}"
            );
            assert!(line.contains("queue/store.rs:"), "{line}");
        }
    }
}
