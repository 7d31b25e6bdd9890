// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring of a thread. Its ordering argument stands in [`events`](super).

use super::Event;
use crate::padded::CachePadded;
use crate::prim::{AtomicU64, Ordering, fence};

/// Where a record lies: never on two lines.
#[repr(align(32))]
struct Slot([AtomicU64; 4]);

/// Records of one thread, which alone writes them.
pub(super) struct Ring {
    /// Records started and done since the thread's first.
    begun: CachePadded<AtomicU64>,
    done: AtomicU64,
    /// Records for which there was no room.
    refused: AtomicU64,
    /// The number of its thread.
    pub(super) thread: u32,
    /// The number of the first record, if the thread had another ring before.
    first: u64,
    /// A power of two.
    slots: Box<[Slot]>,
    /// The number of the first record for which there is no room; the reader writes it.
    limit: CachePadded<AtomicU64>,
}

/// There is always room.
const NO_LIMIT: u64 = u64::MAX;

impl Ring {
    /// A ring for so many records, a power of two; the thread has written `first` before, and `refused` found no room.
    pub(super) fn new(thread: u32, records: usize, first: u64, refused: u64) -> Ring {
        assert!(records.is_power_of_two());
        let slot = |_| Slot(std::array::from_fn(|_| AtomicU64::new(0)));
        Ring {
            begun: CachePadded::new(AtomicU64::new(first)),
            done: AtomicU64::new(first),
            refused: AtomicU64::new(refused),
            thread,
            first,
            slots: (0..records).map(slot).collect(),
            limit: CachePadded::new(AtomicU64::new(NO_LIMIT)),
        }
    }

    /// Records that it holds.
    pub(super) fn records(&self) -> usize {
        self.slots.len()
    }

    /// Records done so far.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Records refused so far.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Whether a record that finds no place is refused, from now on.
    pub(super) fn set_stops(&self, stops: bool) {
        let limit = if stops { self.done() + self.slots.len() as u64 } else { NO_LIMIT };
        self.limit.store(limit, Ordering::Release);
    }

    /// All records before `next` have been read.
    pub(super) fn make_room(&self, next: u64) {
        if self.limit.load(Ordering::Relaxed) != NO_LIMIT {
            self.limit.store(next + self.slots.len() as u64, Ordering::Release);
        }
    }

    #[inline(always)]
    fn slot(&self, n: u64) -> &[AtomicU64; 4] {
        let at = n as usize & (self.slots.len() - 1);
        // SAFETY: the number of slots is a power of two (`new`), so this lies below it. A record is written in some 10 ns, of which a check
        // took more than one (examples/event_cost.rs).
        &unsafe { self.slots.get_unchecked(at) }.0
    }

    /// To be called by its thread only.
    #[inline(always)]
    pub(super) fn push(&self, event: Event) {
        let n = self.done.load(Ordering::Relaxed);
        if n >= self.limit.load(Ordering::Acquire) {
            return self.refuse();
        }
        self.begun.store(n + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (slot, word) in self.slot(n).iter().zip(event.words()) {
            slot.store(word, Ordering::Relaxed);
        }
        self.done.store(n + 1, Ordering::Release);
    }

    #[cold]
    fn refuse(&self) {
        self.refused.store(self.refused() + 1, Ordering::Relaxed);
    }

    /// Takes records from number `from` on; returns the number of the next one, and how many were lost.
    pub(super) fn read(&self, from: u64, mut each: impl FnMut(Event)) -> (u64, u64) {
        let done = self.done.load(Ordering::Acquire);
        let records = self.slots.len() as u64;
        let mut at = from.max(done.saturating_sub(records)).max(self.first);
        let mut lost = at - from;
        while at < done {
            let slot = self.slot(at);
            let words = std::array::from_fn(|i| slot[i].load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            // Record `at + records` lies in the same slot.
            if self.begun.load(Ordering::Relaxed) > at + records {
                lost += 1;
            } else if let Some(event) = Event::from_words(words) {
                each(event);
            }
            at += 1;
        }
        (done, lost)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{EventKind, RING_RECORDS};
    use super::*;

    /// Miri takes minutes for more.
    const RECORDS: usize = if cfg!(miri) { 64 } else { RING_RECORDS };

    fn event(n: u32) -> Event {
        Event {
            at: u64::from(n) << 20,
            kind: EventKind::Lock,
            thread: n,
            subject: n,
            other: n,
            first: n,
            second: n,
        }
    }

    #[test]
    fn a_ring_gives_back_what_it_holds_and_counts_the_rest() {
        let ring = Ring::new(1, RECORDS, 0, 0);
        let read = |from| {
            let mut all = Vec::new();
            let (next, lost) = ring.read(from, |e| all.push(e));
            (all, next, lost)
        };
        assert_eq!(read(0), (vec![], 0, 0));
        (1..=3).for_each(|n| ring.push(event(n)));
        assert_eq!(read(0), (vec![event(1), event(2), event(3)], 3, 0));
        assert_eq!(read(2), (vec![event(3)], 3, 0));
        (4..=RECORDS as u32 + 5).for_each(|n| ring.push(event(n)));
        let (all, next, lost) = read(3);
        assert_eq!((all.len(), all[0], next, lost), (RECORDS, event(6), RECORDS as u64 + 5, 2));
    }

    #[test]
    fn a_ring_that_stops_keeps_the_oldest_and_counts_what_had_no_room() {
        let ring = Ring::new(1, 4, 10, 5);
        ring.set_stops(true);
        (1..=6).for_each(|n| ring.push(event(n)));
        let mut all = Vec::new();
        // Two were written into a former ring, and never read.
        let (next, lost) = ring.read(8, |e| all.push(e));
        assert_eq!((all, next, lost, ring.refused()), ((1..=4).map(event).collect(), 14, 2, 7));
        ring.make_room(next);
        (7..=9).for_each(|n| ring.push(event(n)));
        let mut all = Vec::new();
        assert_eq!(ring.read(next, |e| all.push(e)), (17, 0));
        assert_eq!((all, ring.refused()), ((7..=9).map(event).collect(), 7));
        ring.set_stops(false);
        (1..=6).for_each(|n| ring.push(event(n)));
        assert_eq!((ring.done(), ring.refused()), (23, 7));
    }

    #[test]
    fn a_reader_beside_a_writer_takes_whole_records_in_order() {
        let rounds = if cfg!(miri) { 50 } else { 200_000 };
        let ring = Ring::new(1, RECORDS, 0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| (1..=rounds).for_each(|n| ring.push(event(n))));
            let (mut next, mut lost, mut seen, mut last) = (0, 0, 0, 0);
            while next < u64::from(rounds) {
                let more;
                (next, more) = ring.read(next, |e| {
                    assert_eq!(e, event(e.thread));
                    assert!(e.thread > last);
                    (last, seen) = (e.thread, seen + 1);
                });
                lost += more;
            }
            assert_eq!(seen + lost, u64::from(rounds));
        });
    }
}
