// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Queue, SimpleQueue, ThreadSafeQueue
//!
//! `Queue([CAPACITY])`
//!
//! Stores packets in first-in-first-out order between a push path and a pull path.
//!
//! **Ports:** 1 push input (2 or more are taken alike), 1 pull output; output 1, if connected, is a push output for
//! packets that do not fit.
//!
//! **Arguments**
//! * `CAPACITY` packets it holds at most, default 1000.
//!
//! **Cores:** any number of workers may fill and drain it at once without a lock. When every worker that fills it
//! also drains it (it stands before a device with a transmit queue per core), each has a queue of its own of this
//! capacity and packets never change cores.
//!
//! **Drops:** `queue-full`.
//!
//! **Handlers**
//! * `length` read: packets held. `highwater_length` read: the most it ever held.
//! * `capacity` read: the argument.
//! * `drops` read: packets dropped because it was full.
//! * `reset_counts` write: sets `drops` and `highwater_length` to zero. `reset` write: drops what it holds, too.
//!
//! The three names are one element: every queue here may be used from several workers.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Queue(100) -> Unqueue -> Discard;
//! ```
//!
//! See also: Unqueue, RED, MixedQueue, FrontDropQueue

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use engine::args::Args;
use engine::{Class, Cx, Element, Handler, HandlerError, Provided, Reason, Sharing};
use packet::{Batch, Packet};
use sync::ring::Ring;

const fn class(name: &'static str) -> Class {
    Class::new(name, "1-/1-2", || Box::new(Queue::new(DEFAULT_CAPACITY)))
        .processing("h/lh")
        .sharing(Sharing::Queue)
        .handlers(HANDLERS)
        .file(file!())
}

const HANDLERS: &[Handler] = &[
    Handler::sum("length"),
    Handler::sum("highwater_length"),
    Handler::read("capacity"),
    Handler::sum("drops"),
    Handler::write("reset_counts"),
    Handler::write("reset"),
];

/// The descriptor.
pub const QUEUE: Class = class("Queue");
/// The descriptor of a synonym.
pub const SIMPLE_QUEUE: Class = class("SimpleQueue");
/// The descriptor of a synonym.
pub const THREAD_SAFE_QUEUE: Class = class("ThreadSafeQueue");

const DEFAULT_CAPACITY: usize = 1000;

/// What a queue lets other elements see ([`Element::provide`]): RED and schedulers ask for lengths.
#[derive(Debug)]
pub struct Store {
    ring: Ring<Packet>,
    highwater: AtomicUsize,
    drops: AtomicU64,
}

impl Store {
    /// Packets held.
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Packets it can hold.
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }
}

struct Queue {
    store: Arc<Store>,
    /// Further instances over the same store count nothing that the first one counts.
    first: bool,
}

impl Queue {
    fn new(capacity: usize) -> Queue {
        let store =
            Store { ring: Ring::new(capacity), highwater: AtomicUsize::new(0), drops: AtomicU64::new(0) };
        Queue { store: Arc::new(store), first: true }
    }
}

impl Element for Queue {
    fn configure(&mut self, args: &mut Args<'_>) {
        let capacity: usize = args.positional("CAPACITY", DEFAULT_CAPACITY);
        if capacity == 0 || capacity > 1 << 24 {
            args.error(format!("CAPACITY must lie between 1 and {}, not {capacity}", 1 << 24));
            return;
        }
        *self = Queue::new(capacity);
    }

    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(Queue { store: self.store.clone(), first: false }))
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        let store = &*self.store;
        let offered = batch.len();
        let mut packets = batch.drain(..);
        let stored = store.ring.push_many(&mut packets);
        drop_rest(packets, stored, offered, cx, store);
        let len = store.ring.len();
        if len > store.highwater.load(Ordering::Relaxed) {
            store.highwater.store(len, Ordering::Relaxed);
        }
    }

    fn pull(&mut self, _: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        let mut batch = Batch::new();
        self.store.ring.pop_many(max, |p| batch.push(p));
        batch
    }

    fn read(&mut self, _: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        let store = &*self.store;
        if !self.first && name != "capacity" {
            return Ok("0".into());
        }
        Ok(match name {
            "length" => store.len(),
            "highwater_length" => store.highwater.load(Ordering::Relaxed),
            "drops" => store.drops.load(Ordering::Relaxed) as usize,
            _ => store.capacity(),
        }
        .to_string())
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, _: &str) -> Result<(), HandlerError> {
        if name == "reset" {
            loop {
                let batch = self.pull(cx, 0, 256);
                if batch.is_empty() {
                    break;
                }
                cx.drop_batch(Reason::Discarded, batch);
            }
        }
        self.store.highwater.store(self.store.len(), Ordering::Relaxed);
        self.store.drops.store(0, Ordering::Relaxed);
        Ok(())
    }

    fn provide(&self) -> Option<Provided> {
        Some(self.store.clone())
    }

    fn held(&self) -> usize {
        if self.first { self.store.len() } else { 0 }
    }
}

/// Sends what did not fit to output 1, or drops it.
#[inline]
fn drop_rest(
    packets: impl Iterator<Item = Packet>,
    stored: usize,
    offered: usize,
    cx: &mut Cx<'_>,
    store: &Store,
) {
    if stored == offered {
        return;
    }
    store.drops.fetch_add((offered - stored) as u64, Ordering::Relaxed);
    cx.push_or_drop(1, packets.collect(), Reason::QueueFull);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn keeps_order_and_capacity() {
        for burst in [1, 32] {
            let mut run =
                Rig::text("i :: TestIn -> e :: Queue(3) -> u :: Unqueue(ACTIVE false) -> o :: TestOut;")
                    .burst(burst)
                    .inputs(&[b"a", b"b", b"c", b"d", b"e"])
                    .run();
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
    fn refuses_impossible_capacities() {
        assert_eq!(
            Rig::text("i :: TestIn -> e :: Queue(0) -> Discard;").errors(),
            ["e: CAPACITY must lie between 1 and 16777216, not 0"]
        );
    }
}
