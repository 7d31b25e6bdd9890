// SPDX-License-Identifier: MIT OR Apache-2.0
//! What queues let other elements see, and the store of the queues that any number of workers may use at once.
//!
//! A ring cannot grow, so a queue whose capacity is raised beyond its ring's slots gets a further ring: the old one takes
//! no more packets, and whoever drains the queue empties the old one first. Slots at least double each time, so there are
//! few rings and the memory of all is at most twice that of the last.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use packet::{Batch, Packet};
use sync::ring::Ring;

/// What a queue lets other elements see ([`engine::Element::provide`]): RED and sources ask for lengths.
#[derive(Debug)]
pub struct Store(Kind);

#[derive(Debug)]
enum Kind {
    Rings(Arc<Rings>),
    Gauge { len: AtomicUsize, capacity: AtomicUsize },
}

impl Store {
    pub(super) fn of(rings: Arc<Rings>) -> Store {
        Store(Kind::Rings(rings))
    }

    /// For a queue that says itself how long it is, by [`Store::set`].
    pub(super) fn gauge(capacity: usize) -> Store {
        Store(Kind::Gauge { len: AtomicUsize::new(0), capacity: AtomicUsize::new(capacity) })
    }

    pub(super) fn set(&self, new_len: usize, new_capacity: usize) {
        if let Kind::Gauge { len, capacity } = &self.0 {
            len.store(new_len, Ordering::Relaxed);
            capacity.store(new_capacity, Ordering::Relaxed);
        }
    }

    /// Packets held.
    pub fn len(&self) -> usize {
        match &self.0 {
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
        match &self.0 {
            Kind::Rings(rings) => rings.capacity(),
            Kind::Gauge { capacity, .. } => capacity.load(Ordering::Relaxed),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Rings {
    first: Link,
    pub(super) highwater: AtomicUsize,
    pub(super) drops: AtomicU64,
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
}

impl Rings {
    pub(super) fn new(capacity: usize) -> Rings {
        Rings { first: Link::new(capacity), highwater: AtomicUsize::new(0), drops: AtomicU64::new(0) }
    }

    fn links(&self) -> impl Iterator<Item = &Link> {
        std::iter::successors(Some(&self.first), |link| link.next.get().map(Box::as_ref))
    }

    #[inline]
    fn last(&self) -> &Link {
        let mut link = &self.first;
        while let Some(next) = link.next.get() {
            link = next;
        }
        link
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.links().map(|link| link.ring.len()).sum()
    }

    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.last().ring.capacity()
    }

    /// Stores packets as far as there is room and says how many; the rest stay with the caller.
    #[inline]
    pub(super) fn push(&self, packets: &mut impl ExactSizeIterator<Item = Packet>) -> usize {
        let mut link = self.last();
        let mut stored = 0;
        loop {
            stored += link.ring.push_many(&mut *packets);
            // A ring that gets a successor takes no more.
            match link.next.get() {
                Some(next) if packets.len() > 0 => link = next,
                _ => return stored,
            }
        }
    }

    /// Takes up to `max` packets, oldest first.
    #[inline]
    pub(super) fn pull(&self, max: usize) -> Batch {
        let mut batch = Batch::new();
        let mut link = &self.first;
        loop {
            link.ring.pop_many(max - batch.len(), |p| batch.push(p));
            match link.next.get() {
                Some(next) if batch.len() < max => link = next,
                _ => return batch,
            }
        }
    }

    /// Takes what `other` holds, behind what is here. Packets beyond the capacity stay until they are taken.
    pub(super) fn append(&self, other: &Rings) {
        let mut packets = other.pull(usize::MAX);
        let (capacity, needed) = (self.capacity(), self.len() + packets.len());
        if needed > capacity {
            self.set_capacity(needed);
        }
        self.push(&mut packets.drain(..));
        self.set_capacity(capacity);
    }

    /// Changes the capacity. Packets beyond a smaller one stay until they are taken.
    pub(super) fn set_capacity(&self, capacity: usize) {
        let mut link = self.last();
        while capacity > link.ring.slots() {
            link.ring.set_capacity(0);
            link = link.next.get_or_init(|| Box::new(Link::new(capacity)));
        }
        link.ring.set_capacity(capacity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(bytes: std::ops::Range<u8>) -> std::vec::IntoIter<Packet> {
        bytes.map(|b| Packet::copy_of(&[b]).unwrap()).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn growing_keeps_order() {
        let rings = Rings::new(3);
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
        let rings = Rings::new(2);
        const EACH: u32 = 2000;
        let taken = std::thread::scope(|scope| {
            for producer in 0..2u8 {
                let rings = &rings;
                scope.spawn(move || {
                    for i in 0..EACH {
                        let mut one =
                            vec![Packet::copy_of(&[&[producer][..], &i.to_be_bytes()].concat()).unwrap()]
                                .into_iter();
                        while rings.push(&mut one) == 0 {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            scope.spawn(|| {
                for capacity in [5, 1, 40, 3, 100, 7, 300] {
                    rings.set_capacity(capacity);
                    std::thread::yield_now();
                }
            });
            let mut next = [0; 2];
            while next.iter().sum::<u32>() < 2 * EACH {
                for packet in rings.pull(16).iter() {
                    let (producer, i) = packet.data().split_first().unwrap();
                    assert_eq!(u32::from_be_bytes(i.try_into().unwrap()), next[usize::from(*producer)]);
                    next[usize::from(*producer)] += 1;
                }
            }
            next
        });
        assert_eq!((taken, rings.len()), ([EACH; 2], 0));
    }
}
