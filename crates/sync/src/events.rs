// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events: what locks tell a profiler, in a ring of each thread's own.
//!
//! A thread writes records of 32 bytes into its ring by ordinary stores, and older ones give way to newer ones, like in a flight recorder.
//! Whoever wants them reads all rings ([`Reader`]) while they are written, and learns how many were lost to it.
//!
//! What a record costs is a look at the cycle counter when the lock is taken, another when it is released, and about 50 instructions: the thread's
//! ring is found by a pointer, its slots lie side by side in whole lines, and nothing is divided, compared with a limit or allocated.
//!
//! While nothing is recorded, a lock pays a load and a test of a byte that nobody writes. What is recorded is recorded *after* the lock was
//! released: within it, the recording would make others wait, and inflate what it measures.
//!
//! # Ordering argument
//!
//! 1. *A reader takes no torn record.* The writer announces a slot (`begun`, Relaxed, then a Release fence) before it stores the words, and
//!    the record (`done`, Release) after. The reader takes records below `done` (Acquire), then looks at `begun` behind an Acquire fence: had
//!    any word come from a later record, the fences would make that record's announcement visible, and the slot is given up as lost.
//!    Model: `a_reader_takes_no_torn_record`.
//! 2. *What is done is whole, also when the reader comes back later.* `done` (Release, then Acquire) carries the words of all records below it.
//!    Model: `what_is_done_is_read_or_counted_as_lost`.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU32};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::padded::CachePadded;
use crate::prim::{AtomicU64, Ordering, fence};

#[cfg(all(test, loom))]
mod models;

/// Records that a thread's ring holds.
pub const RING: usize = if cfg!(loom) { 2 } else { 4096 };

/// Threads that have ended whose rings are kept.
const ENDED_KEPT: usize = 16;

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Nothing.
    Off = 0,
    /// Locks that somebody had to wait for.
    Waits = 1,
    /// Every lock that is taken.
    All = 2,
}

static LEVEL: AtomicU8 = AtomicU8::new(Level::Off as u8);

/// Says what is recorded from now on, in the whole process.
pub fn record(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Whether so much is recorded.
#[inline(always)]
pub(crate) fn records(level: Level) -> bool {
    LEVEL.load(Ordering::Relaxed) >= level as u8
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A lock was released: `subject` is its number ([`lock::all`](crate::lock::all)), `other` the thread that held it when this
    /// one asked (0 if it was free), `first` the cycles waited, `second` the cycles held.
    Lock = 1,
}

/// A record. Cycles are those of [`tsc`](crate::tsc), at most `u32::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in cycles.
    pub at: u64,
    /// What.
    pub kind: Kind,
    /// The thread that recorded it ([`threads`]).
    pub thread: u32,
    /// What it is about.
    pub subject: u32,
    /// Who else had to do with it.
    pub other: u32,
    /// Depends on the kind.
    pub first: u32,
    /// Depends on the kind.
    pub second: u32,
}

const _: () = assert!(size_of::<Event>() == 32);

const fn two(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

impl Event {
    fn words(self) -> [u64; 4] {
        let Event { at, kind, thread, subject, other, first, second } = self;
        [at, two(kind as u32, thread), two(subject, other), two(first, second)]
    }

    fn from_words(words: [u64; 4]) -> Option<Event> {
        let [at, what, who, how] = words;
        let part = |word: u64| (word as u32, (word >> 32) as u32);
        let (((kind, thread), (subject, other)), (first, second)) = ((part(what), part(who)), part(how));
        let kind = (kind == Kind::Lock as u32).then_some(Kind::Lock)?;
        Some(Event { at, kind, thread, subject, other, first, second })
    }
}

/// Where a record lies: never on two lines.
#[repr(align(32))]
struct Slot([AtomicU64; 4]);

/// The ring of a thread.
struct Ring {
    /// Records begun and done since the thread's first.
    begun: CachePadded<AtomicU64>,
    done: AtomicU64,
    /// The number of its thread.
    thread: u32,
    /// So many, as the type says: places in it need no check.
    slots: Box<[Slot; RING]>,
}

impl Ring {
    fn new(thread: u32) -> Ring {
        let slot = |_| Slot(std::array::from_fn(|_| AtomicU64::new(0)));
        let slots: Box<[Slot]> = (0..RING).map(slot).collect();
        let slots = slots.try_into().unwrap_or_else(|_| unreachable!("there are so many"));
        Ring { begun: CachePadded::new(AtomicU64::new(0)), done: AtomicU64::new(0), thread, slots }
    }

    /// To be called by its thread only.
    #[inline(always)]
    fn push(&self, event: Event) {
        let n = self.done.load(Ordering::Relaxed);
        self.begun.store(n + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (slot, word) in self.slots[n as usize % RING].0.iter().zip(event.words()) {
            slot.store(word, Ordering::Relaxed);
        }
        self.done.store(n + 1, Ordering::Release);
    }

    /// Takes records from number `from` on; returns the number of the next one, and how many were lost.
    fn read(&self, from: u64, mut each: impl FnMut(Event)) -> (u64, u64) {
        let done = self.done.load(Ordering::Acquire);
        let mut at = from.max(done.saturating_sub(RING as u64));
        let mut lost = at - from;
        while at < done {
            let slot = &self.slots[at as usize % RING].0;
            let words = std::array::from_fn(|i| slot[i].load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            // Record `at + RING` lies in the same slot.
            if self.begun.load(Ordering::Relaxed) > at + RING as u64 {
                lost += 1;
            } else if let Some(event) = Event::from_words(words) {
                each(event);
            }
            at += 1;
        }
        (done, lost)
    }
}

/// A thread that has had to do with locks.
struct Known {
    name: String,
    ring: Option<Arc<Ring>>,
}

static THREADS: Mutex<Vec<Known>> = Mutex::new(Vec::new());

fn known() -> MutexGuard<'static, Vec<Known>> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    /// The thread's ring, which `OWN` keeps; null before its first record, and when it ends. Nobody frees this, so it is found without a
    /// look whether it is still there.
    static RECORDS: Cell<*const Ring> = const { Cell::new(std::ptr::null()) };
    static OWN: Cell<Option<Own>> = const { Cell::new(None) };
}

/// What a thread has of its ring.
struct Own {
    _ring: Arc<Ring>,
}

impl Drop for Own {
    fn drop(&mut self) {
        // Locks may be taken after this, by what else ends with the thread.
        RECORDS.set(std::ptr::null());
    }
}

/// The number of the calling thread, from 1 on.
#[inline(always)]
pub(crate) fn me() -> u32 {
    let number = NUMBER.get();
    if number == 0 { introduce() } else { number }
}

#[cold]
fn introduce() -> u32 {
    let name = std::thread::current().name().unwrap_or("(unnamed)").to_owned();
    let mut known = known();
    known.push(Known { name, ring: None });
    let number = known.len() as u32;
    NUMBER.set(number);
    number
}

/// Names of the threads that have taken locks: that of number `n` stands at `n - 1`.
pub fn threads() -> Vec<String> {
    known().iter().map(|k| k.name.clone()).collect()
}

/// Gives up the rings of all threads that have ended but the last few.
fn forget_old(known: &mut [Known]) {
    let ended = known.iter_mut().rev().filter(|k| k.ring.as_ref().is_some_and(|r| Arc::strong_count(r) == 1));
    ended.skip(ENDED_KEPT).for_each(|k| k.ring = None);
}

/// Adds a record to the calling thread's ring: at this time, about a subject and who else had to do with it, with two numbers.
#[inline(always)]
pub(crate) fn push(at: u64, kind: Kind, (subject, other): (u32, u32), (first, second): (u32, u32)) {
    let event = |thread| Event { at, kind, thread, subject, other, first, second };
    // SAFETY: the pointer is that of the ring which `OWN`, of this thread, keeps; it is reset before that is dropped (`Own`).
    match unsafe { RECORDS.get().as_ref() } {
        Some(ring) => ring.push(event(ring.thread)),
        None => push_first(event(0)),
    }
}

/// The first record of a thread.
#[cold]
#[inline(never)]
fn push_first(event: Event) {
    let ring = begin();
    // SAFETY: as in `push`; a pointer that was not set is null.
    if let Some(ring) = unsafe { ring.as_ref() } {
        ring.push(Event { thread: ring.thread, ..event });
    }
}

/// Gives the calling thread a ring, unless it is about to end.
fn begin() -> *const Ring {
    let number = me();
    let ring = Arc::new(Ring::new(number));
    let records = Arc::as_ptr(&ring);
    if OWN.try_with(|own| own.set(Some(Own { _ring: ring.clone() }))).is_err() {
        return std::ptr::null();
    }
    let mut known = known();
    forget_old(&mut known);
    known[number as usize - 1].ring = Some(ring);
    RECORDS.set(records);
    records
}

/// Reads what all threads record, from the moment that it is made.
pub struct Reader {
    /// For each thread, the number of the next record.
    next: Vec<u64>,
}

impl Reader {
    /// From now on.
    #[expect(clippy::new_without_default, reason = "when it is made means something")]
    pub fn new() -> Reader {
        let done = |k: &Known| k.ring.as_ref().map_or(0, |r| r.done.load(Ordering::Relaxed));
        Reader { next: known().iter().map(done).collect() }
    }

    /// Gives `each` what was recorded since the last time, thread by thread; returns how many records were lost.
    pub fn read(&mut self, mut each: impl FnMut(Event)) -> u64 {
        let rings: Vec<_> = known().iter().map(|k| k.ring.clone()).collect();
        self.next.resize(rings.len().max(self.next.len()), 0);
        let mut all_lost = 0;
        for (next, ring) in self.next.iter_mut().zip(&rings) {
            if let Some(ring) = ring {
                let lost;
                (*next, lost) = ring.read(*next, &mut each);
                all_lost += lost;
            }
        }
        all_lost
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("threads", &self.next.len()).finish()
    }
}

/// Numbers for what events are about.
pub(crate) fn next_subject() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn event(n: u32) -> Event {
        Event {
            at: u64::from(n) << 20,
            kind: Kind::Lock,
            thread: n,
            subject: n,
            other: n,
            first: n,
            second: n,
        }
    }

    #[test]
    fn a_ring_gives_back_what_it_holds_and_counts_the_rest() {
        let ring = Ring::new(1);
        let read = |from| {
            let mut all = Vec::new();
            let (next, lost) = ring.read(from, |e| all.push(e));
            (all, next, lost)
        };
        assert_eq!(read(0), (vec![], 0, 0));
        (1..=3).for_each(|n| ring.push(event(n)));
        assert_eq!(read(0), (vec![event(1), event(2), event(3)], 3, 0));
        assert_eq!(read(2), (vec![event(3)], 3, 0));
        (4..=RING as u32 + 5).for_each(|n| ring.push(event(n)));
        let (all, next, lost) = read(3);
        assert_eq!((all.len(), all[0], next, lost), (RING, event(6), RING as u64 + 5, 2));
    }

    #[test]
    fn a_reader_beside_a_writer_takes_whole_records_in_order() {
        let rounds = if cfg!(miri) { 50 } else { 200_000 };
        let ring = Ring::new(1);
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
