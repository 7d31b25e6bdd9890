// SPDX-License-Identifier: MIT OR Apache-2.0
//! What queues let other elements see, and the store of the queues that any number of workers may use at once.
//!
//! A ring cannot grow, so a queue whose capacity is raised beyond its ring's slots gets a further ring. The old one is closed to more packets. The
//! consumer goes on to the next one when nothing can come from the old one any more, so that each producer's packets keep their order. Slots at least
//! double each time, so there are few rings and the memory of all is at most twice that of the last.
//!
//! A list behind a lock is there to show what a lock costs ([`QueueSync`]); it is what queues between processors were made of
//! in the systems that experiments reproduce.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use element::args::{FromArg, Names};
use packet::{Batch, Packet};
use sync::lock::{AdaptiveLock, LockStats, SpinLock};
use sync::padded::CachePadded;
use sync::ring::Ring;

/// What a queue lets other elements see ([`element::Provide`]): RED and sources ask for lengths.
#[derive(Debug)]
pub struct Store {
    kind: Kind,
    holds_back: bool,
}

#[derive(Debug)]
enum Kind {
    Rings(Arc<Rings>),
    Gauge { len: AtomicUsize, capacity: AtomicUsize },
}

impl Store {
    pub(super) fn of(rings: Arc<Rings>, holds_back: bool) -> Store {
        Store { kind: Kind::Rings(rings), holds_back }
    }

    /// For a queue that says itself how long it is, by [`Store::set`].
    pub(super) fn gauge(capacity: usize) -> Store {
        let kind = Kind::Gauge { len: AtomicUsize::new(0), capacity: AtomicUsize::new(capacity) };
        Store { kind, holds_back: false }
    }

    pub(super) fn set(&self, new_len: usize, new_capacity: usize) {
        if let Kind::Gauge { len, capacity } = &self.kind {
            len.store(new_len, Ordering::Relaxed);
            capacity.store(new_capacity, Ordering::Relaxed);
        }
    }

    /// Whether sources wait while it is full, instead of making packets that it would drop.
    pub fn holds_back(&self) -> bool {
        self.holds_back
    }

    /// Packets held.
    pub fn len(&self) -> usize {
        match &self.kind {
            Kind::Rings(rings) => rings.len(),
            Kind::Gauge { len, .. } => len.load(Ordering::Relaxed),
        }
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Packets it can hold.
    pub fn capacity(&self) -> usize {
        match &self.kind {
            Kind::Rings(rings) => rings.capacity(),
            Kind::Gauge { capacity, .. } => capacity.load(Ordering::Relaxed),
        }
    }
}

/// How the workers that fill and drain a queue keep out of each other's way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum QueueSync {
    /// A ring whose places are reserved by atomic operations.
    #[default]
    LockFree,
    /// A list behind a lock whose waiters spin.
    Spin,
    /// A list behind a lock whose waiters spin shortly and then sleep.
    Adaptive,
}

impl FromArg for QueueSync {
    const EXPECTED: &'static str = "lockfree, spin or adaptive";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        match text {
            "lockfree" => Ok(QueueSync::LockFree),
            "spin" => Ok(QueueSync::Spin),
            "adaptive" => Ok(QueueSync::Adaptive),
            _ => Err(String::new()),
        }
    }
}

impl std::fmt::Display for QueueSync {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            QueueSync::LockFree => "lockfree",
            QueueSync::Spin => "spin",
            QueueSync::Adaptive => "adaptive",
        })
    }
}

/// What a queue holds, for any number of workers.
#[derive(Debug)]
pub(super) struct Rings {
    kept: Kept,
    // Written only by the threads that fill it, so not on the cache line where draining threads find the slots.
    pub(super) highwater: CachePadded<AtomicUsize>,
    pub(super) drops: CachePadded<AtomicU64>,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "the ring is the usual one, and a box would be one more line to fetch"
)]
enum Kept {
    Free(Link),
    Spin(Guarded<SpinLock<VecDeque<Packet>>>),
    Adaptive(Guarded<AdaptiveLock<VecDeque<Packet>>>),
}

#[derive(Debug)]
struct Link {
    ring: Ring<Packet>,
    next: OnceLock<Box<Link>>,
}

impl Link {
    fn new(capacity: usize) -> Link {
        Link { ring: Ring::new(capacity), next: OnceLock::new() }
    }

    #[inline]
    fn last(&self) -> &Link {
        let mut link = self;
        while let Some(next) = link.next.get() {
            link = next;
        }
        link
    }

    #[inline]
    fn push(&self, packets: &mut Batch) -> usize {
        let mut link = self.last();
        let mut stored = 0;
        loop {
            stored += link.ring.push_from(packets);
            // A ring that gets a successor takes no more.
            match link.next.get() {
                Some(next) if !packets.is_empty() => link = next,
                _ => return stored,
            }
        }
    }

    #[inline]
    fn pull(&self, max: usize, batch: &mut Batch) {
        let mut link = self;
        loop {
            let before = batch.len();
            link.ring.pop_into(max - before, batch);
            batch[before..].iter().for_each(Packet::prefetch);
            match link.next.get() {
                Some(next) if batch.len() < max && link.ring.is_finished() => link = next,
                _ => return,
            }
        }
    }

    fn set_capacity(&self, capacity: usize) {
        let mut link = self.last();
        while capacity > link.ring.slots() {
            // The next one first: who finds the old one closed is to have somewhere to go.
            let next = link.next.get_or_init(|| Box::new(Link::new(capacity)));
            link.ring.close();
            link = next;
        }
        link.ring.set_capacity(capacity);
    }
}

/// A list behind a lock, with its length and capacity where they can be read without it.
#[derive(Debug)]
struct Guarded<L> {
    list: L,
    len: CachePadded<AtomicUsize>,
    capacity: AtomicUsize,
}

impl<L> Guarded<L> {
    fn new(capacity: usize, lock: impl FnOnce(VecDeque<Packet>) -> L) -> Guarded<L> {
        let len = CachePadded::new(AtomicUsize::new(0));
        Guarded { list: lock(VecDeque::new()), len, capacity: AtomicUsize::new(capacity) }
    }

    /// To be called by the lock's holder.
    fn push(&self, list: &mut VecDeque<Packet>, packets: &mut Batch) -> usize {
        let before = list.len();
        let room = self.capacity.load(Ordering::Relaxed).saturating_sub(before);
        let stored = room.min(packets.len());
        list.extend(packets.drain(..stored));
        self.len.store(list.len(), Ordering::Relaxed);
        stored
    }

    /// To be called by the lock's holder.
    fn pull(&self, list: &mut VecDeque<Packet>, max: usize, batch: &mut Batch) {
        batch.extend(list.drain(..max.min(list.len())));
        self.len.store(list.len(), Ordering::Relaxed);
    }

    /// An empty queue is detected without the lock. Otherwise threads that wait for packets would keep out those that bring some.
    fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }
}

impl Rings {
    pub(super) fn new(capacity: usize, way: QueueSync) -> Rings {
        let kept = match way {
            QueueSync::LockFree => {
                // A ring has one slot at least.
                let link = Link::new(capacity.max(1));
                link.ring.set_capacity(capacity);
                Kept::Free(link)
            }
            QueueSync::Spin => Kept::Spin(Guarded::new(capacity, |list| SpinLock::new(list))),
            QueueSync::Adaptive => Kept::Adaptive(Guarded::new(capacity, |list| AdaptiveLock::new(list))),
        };
        Rings { kept, highwater: CachePadded::default(), drops: CachePadded::default() }
    }

    pub(super) fn way(&self) -> QueueSync {
        match &self.kept {
            Kept::Free(_) => QueueSync::LockFree,
            Kept::Spin(_) => QueueSync::Spin,
            Kept::Adaptive(_) => QueueSync::Adaptive,
        }
    }

    /// What the lock has been through, if there is one.
    pub(super) fn contention(&self) -> Option<LockStats> {
        match &self.kept {
            Kept::Free(_) => None,
            Kept::Spin(guarded) => Some(guarded.list.stats()),
            Kept::Adaptive(guarded) => Some(guarded.list.stats()),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        match &self.kept {
            Kept::Free(first) => std::iter::successors(Some(first), |link| link.next.get().map(Box::as_ref))
                .map(|link| link.ring.len())
                .sum(),
            Kept::Spin(guarded) => guarded.len.load(Ordering::Relaxed),
            Kept::Adaptive(guarded) => guarded.len.load(Ordering::Relaxed),
        }
    }

    /// Remembers the length if it never was so large. Exact where nobody drains the queue meanwhile.
    #[inline]
    pub(super) fn note_length(&self) {
        let highest = self.highwater.load(Ordering::Relaxed);
        // Usually the bound says enough, and those who drain the queue keep their lines.
        let bound = match &self.kept {
            Kept::Free(first) if first.next.get().is_none() => first.ring.len_bound(),
            _ => usize::MAX,
        };
        if bound > highest {
            let len = self.len();
            if len > highest {
                self.highwater.store(len, Ordering::Relaxed);
            }
        }
    }

    #[inline]
    pub(super) fn capacity(&self) -> usize {
        match &self.kept {
            Kept::Free(first) => first.last().ring.capacity(),
            Kept::Spin(guarded) => guarded.capacity.load(Ordering::Relaxed),
            Kept::Adaptive(guarded) => guarded.capacity.load(Ordering::Relaxed),
        }
    }

    /// Stores packets as far as there is room and says how many; the rest stay with the caller.
    #[inline]
    pub(super) fn push(&self, packets: &mut Batch) -> usize {
        match &self.kept {
            Kept::Free(first) => first.push(packets),
            Kept::Spin(guarded) => guarded.push(&mut guarded.list.lock(), packets),
            Kept::Adaptive(guarded) => guarded.push(&mut guarded.list.lock(), packets),
        }
    }

    /// Takes up to `max` packets, oldest first.
    #[inline]
    pub(super) fn pull(&self, max: usize) -> Batch {
        let mut batch = Batch::new();
        match &self.kept {
            Kept::Free(first) => first.pull(max, &mut batch),
            Kept::Spin(guarded) if !guarded.is_empty() => {
                guarded.pull(&mut guarded.list.lock(), max, &mut batch);
            }
            Kept::Adaptive(guarded) if !guarded.is_empty() => {
                guarded.pull(&mut guarded.list.lock(), max, &mut batch);
            }
            _ => {}
        }
        // Those who filled the queue wrote these lines last, perhaps on another core.
        batch.iter().for_each(Packet::prefetch_data);
        batch
    }

    /// Takes what `other` holds, behind what is here. Packets beyond the capacity stay until they are taken.
    pub(super) fn append(&self, other: &Rings) {
        let mut packets = other.pull(usize::MAX);
        let (capacity, needed) = (self.capacity(), self.len() + packets.len());
        if needed > capacity {
            self.set_capacity(needed);
        }
        self.push(&mut packets);
        self.set_capacity(capacity);
    }

    /// Changes the capacity. Packets beyond a smaller one stay until they are taken.
    pub(super) fn set_capacity(&self, capacity: usize) {
        match &self.kept {
            Kept::Free(first) => first.set_capacity(capacity),
            Kept::Spin(guarded) => guarded.capacity.store(capacity, Ordering::Relaxed),
            Kept::Adaptive(guarded) => guarded.capacity.store(capacity, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAYS: [QueueSync; 3] = [QueueSync::LockFree, QueueSync::Spin, QueueSync::Adaptive];

    fn packets(bytes: std::ops::Range<u8>) -> Batch {
        bytes.map(|b| Packet::copy_of(&[b]).unwrap()).collect()
    }

    #[test]
    fn growing_keeps_order() {
        WAYS.into_iter().for_each(keeps_order);
    }

    fn keeps_order(way: QueueSync) {
        let rings = Rings::new(3, way);
        assert_eq!(rings.push(&mut packets(0..5)), 3);
        rings.set_capacity(4);
        assert_eq!((rings.push(&mut packets(3..9)), rings.len(), rings.capacity()), (1, 4, 4));
        rings.set_capacity(9);
        assert_eq!((rings.push(&mut packets(4..8)), rings.len(), rings.capacity()), (4, 8, 9));
        let taken: Vec<u8> = rings.pull(6).iter().chain(rings.pull(9).iter()).map(|p| p.data()[0]).collect();
        assert_eq!((taken, rings.len()), ((0..8).collect(), 0));
        rings.set_capacity(2);
        assert_eq!((rings.push(&mut packets(0..5)), rings.capacity()), (2, 2));
    }

    #[test]
    fn nothing_is_lost_while_capacity_changes() {
        WAYS.into_iter().for_each(loses_nothing);
    }

    fn loses_nothing(way: QueueSync) {
        const EACH: u32 = 2000;
        let rings = Rings::new(2, way);
        let (filling, changing) = (AtomicUsize::new(2), AtomicUsize::new(1));
        let taken = std::thread::scope(|scope| {
            for producer in 0..2u8 {
                let (rings, filling) = (&rings, &filling);
                scope.spawn(move || {
                    for i in 0..EACH {
                        let bytes = [&[producer][..], &i.to_be_bytes()].concat();
                        let mut one = Batch::of(Packet::copy_of(&bytes).unwrap());
                        while rings.push(&mut one) == 0 {
                            std::thread::yield_now();
                        }
                    }
                    filling.fetch_sub(1, Ordering::Release);
                });
            }
            scope.spawn(|| {
                for capacity in [5, 1, 40, 3, 100, 7, 300, 2, 1000, 5, 3000] {
                    rings.set_capacity(capacity);
                    std::thread::yield_now();
                }
                changing.store(0, Ordering::Release);
            });
            // Judged when all threads have ended, or a fault would leave those who fill it waiting for room.
            let mut taken = Vec::new();
            loop {
                let last = filling.load(Ordering::Acquire) + changing.load(Ordering::Acquire) == 0;
                let pulled = rings.pull(16);
                taken.extend(
                    pulled
                        .iter()
                        .map(|p| (p.data()[0], u32::from_be_bytes(p.data()[1..5].try_into().unwrap()))),
                );
                if last && pulled.is_empty() {
                    return taken;
                }
            }
        });
        for producer in 0..2 {
            let got = taken.iter().filter(|(by, _)| *by == producer).map(|(_, i)| *i);
            assert!(got.eq(0..EACH), "{way}: packets of {producer} lost or out of order");
        }
        assert_eq!((taken.len(), rings.len()), (2 * EACH as usize, 0));
        let taken = rings.contention().map(|stats| stats.acquisitions);
        assert!(taken.is_none_or(|times| times >= 2 * u64::from(EACH)), "{way}: {taken:?}");
    }
}
