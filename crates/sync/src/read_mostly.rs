// SPDX-License-Identifier: MIT OR Apache-2.0
//! A readers-writer lock whose readers share no line: a *big-reader lock*.
//!
//! For tables that nearly every batch of packets only reads, while some packets change them: the sessions of a translator, the connections of a
//! firewall. Readers are registered, one for each worker, and each has a flag on a line of its own. So workers that only read do not disturb each other. A
//! writer takes a lock against other writers, says that it writes, and waits until no reader is inside.
//!
//! # Trade-offs
//!
//! * A reader pays one fence and a store to its own line for each section, also with many readers.
//! * A writer reads a line of each reader. It waits for the longest section that is under way, a batch of packets.
//! * Writers go first: a reader that meets one waits for its turn in the same queue as writers do, by spinning shortly and then sleeping.
//! * A reader that wants to write has to leave first. What it has seen may be gone by then.
//!
//! The counts ([`stats`](ReadMostly::stats)) are those of the writers' lock: writers, and readers that met one.
//!
//! # Ordering argument
//!
//! 1. *A writer is alone.* A reader sets its flag, then looks for a writer; a writer says that it writes, then looks at the flags. Between the two steps of each
//!    stands a sequentially consistent fence, so at least one of them sees the other. A reader that sees a writer takes its flag back, and comes in again while it holds the writers' lock.
//!    Model: `a_writer_is_alone`.
//! 2. *Each sees what the writer before did.* A writer ends with a Release store that a reader's look Acquires; readers that came in by the lock, and
//!    other writers, by the lock. Model: `a_writer_is_alone`.
//! 3. *A writer sees what readers did*, to atomics in the value: a reader leaves with a Release store of its flag, which the writer's look Acquires. Model: `a_writer_sees_what_readers_did`.

use crate::prim::{AtomicUsize, Ordering, UnsafeCell, fence, spin_until};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::lock::LockStats;
use crate::padded::CachePadded;

/// The lock of writers. Under loom one whose waiters spin: a model must not sleep.
#[cfg(not(loom))]
mod turn {
    pub(super) use crate::lock::{AdaptiveGuard as Guard, AdaptiveLock as Lock};
}
#[cfg(loom)]
mod turn {
    pub(super) use crate::lock::{SpinGuard as Guard, SpinLock as Lock};
}

/// Whether a reader is inside, 1, or not, 0.
type Seat = CachePadded<AtomicUsize>;

struct Inner<T> {
    /// 1 while somebody writes, or waits for readers to leave. Only the holder of `turn` stores to it.
    writing: CachePadded<AtomicUsize>,
    /// Held by a writer, and by a reader that comes in after one. It guards the list of readers' flags.
    turn: turn::Lock<Vec<Arc<Seat>>>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is given to one writer at a time, as if it were sent there and back, or to several readers by reference (case 1).
unsafe impl<T: Send + Sync> Sync for Inner<T> {}
// SAFETY: the lock owns its value.
unsafe impl<T: Send> Send for Inner<T> {}

/// A value that many read at the same time, and one changes at a time. A panic while it is held does not poison it. A thread that writes while
/// its own reader is inside waits for ever.
///
/// ```
/// use junctor_sync::read_mostly::ReadMostly;
/// let lock = ReadMostly::new(vec![1, 2]);
/// let mut reader = lock.reader();
/// assert_eq!(reader.read().len(), 2);
/// lock.write().push(3);
/// assert_eq!(reader.read().len(), 3);
/// ```
/// Readers have the value at the same time, so it has to be one that threads may share:
/// ```compile_fail
/// fn shared<T: Sync>(_: &T) {}
/// shared(&junctor_sync::read_mostly::ReadMostly::new(std::cell::Cell::new(1)));
/// ```
/// A reader cannot write while it reads:
/// ```compile_fail
/// let mut reader = junctor_sync::read_mostly::ReadMostly::new(1).reader();
/// let value = reader.read();
/// drop(reader.read());
/// drop(value);
/// ```
pub struct ReadMostly<T>(Arc<Inner<T>>);

impl<T> Clone for ReadMostly<T> {
    /// Another name of the same lock.
    fn clone(&self) -> Self {
        ReadMostly(Arc::clone(&self.0))
    }
}

impl<T: Send + Sync + 'static> ReadMostly<T> {
    /// A free lock without readers.
    #[track_caller]
    pub fn new(value: T) -> Self {
        ReadMostly(Arc::new(Inner {
            writing: CachePadded::new(AtomicUsize::new(0)),
            turn: turn::Lock::new(Vec::new()),
            value: UnsafeCell::new(value),
        }))
    }
}

impl<T> ReadMostly<T> {
    /// Registers a reader: a worker, say. Its place is free again when it has been dropped.
    pub fn reader(&self) -> Reader<T> {
        let seat = Arc::new(CachePadded::new(AtomicUsize::new(0)));
        let mut seats = self.0.turn.lock();
        seats.retain(|seat| Arc::strong_count(seat) > 1);
        seats.push(Arc::clone(&seat));
        drop(seats);
        Reader { lock: self.clone(), seat }
    }

    /// Takes the value, to change it: waits for other writers, then for readers to leave.
    #[inline]
    pub fn write(&self) -> WriteGuard<'_, T> {
        WriteGuard::after(&self.0, self.0.turn.lock())
    }

    /// The same, if no other writer has it or waits for it.
    pub fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        Some(WriteGuard::after(&self.0, self.0.turn.try_lock()?))
    }

    /// Whether two names are of the same lock.
    pub fn is(&self, other: &ReadMostly<T>) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How contended the lock of writers has been.
    pub fn stats(&self) -> LockStats {
        self.0.turn.stats()
    }
}

/// One who reads. Only one section of a reader can be open at a time.
pub struct Reader<T> {
    lock: ReadMostly<T>,
    seat: Arc<Seat>,
}

impl<T> Reader<T> {
    /// The value, for others to read at the same time.
    #[inline]
    pub fn read(&mut self) -> ReadGuard<'_, T> {
        let lock = &*self.lock.0;
        self.seat.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if lock.writing.load(Ordering::Acquire) != 0 {
            self.wait();
        }
        ReadGuard { lock, seat: &self.seat }
    }

    /// Comes in behind the writer that is there.
    #[cold]
    fn wait(&self) {
        self.seat.store(0, Ordering::Release);
        let turn = self.lock.0.turn.lock();
        // Nobody writes while this is held, and the next one to write will hold it after.
        self.seat.store(1, Ordering::Relaxed);
        drop(turn);
    }

    /// The lock.
    pub fn lock(&self) -> &ReadMostly<T> {
        &self.lock
    }
}

/// The value for one of its readers.
pub struct ReadGuard<'a, T> {
    lock: &'a Inner<T>,
    seat: &'a Seat,
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: while the flag of this reader is set, no writer has the value (case 1).
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.seat.store(0, Ordering::Release);
    }
}

/// The value for the one who changes it.
pub struct WriteGuard<'a, T> {
    lock: &'a Inner<T>,
    /// Dropped after the guard itself, which ends the writing.
    _turn: turn::Guard<'a, Vec<Arc<Seat>>>,
}

impl<'a, T> WriteGuard<'a, T> {
    /// A writer whose turn it is.
    #[inline]
    fn after(lock: &'a Inner<T>, turn: turn::Guard<'a, Vec<Arc<Seat>>>) -> WriteGuard<'a, T> {
        lock.writing.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        for seat in turn.iter() {
            spin_until(|| seat.load(Ordering::Acquire) == 0);
        }
        WriteGuard { lock, _turn: turn }
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one (case 1), and its shared borrow excludes `deref_mut` meanwhile.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one (case 1), and is borrowed exclusively.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.writing.store(0, Ordering::Release);
    }
}

impl<T> fmt::Debug for ReadMostly<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadMostly").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Reader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    const TURNS: u64 = if cfg!(miri) { 30 } else { 20_000 };

    /// Writers keep two words equal, but not in between; readers count their sections in a word of their own.
    #[test]
    fn readers_see_whole_changes_and_writers_what_readers_did() {
        struct Value {
            words: [u64; 2],
            sections: [AtomicU64; 2],
        }
        let value = Value { words: [0; 2], sections: [const { AtomicU64::new(0) }; 2] };
        let lock = ReadMostly::new(value);
        std::thread::scope(|scope| {
            for own in 0..2 {
                let mut reader = lock.reader();
                scope.spawn(move || {
                    for turn in 0..TURNS {
                        let value = reader.read();
                        assert_eq!(value.words[0], value.words[1]);
                        value.sections[own].store(turn + 1, std::sync::atomic::Ordering::Relaxed);
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..TURNS {
                        let mut value = lock.write();
                        value.words[0] += 1;
                        std::hint::black_box(&mut value.words);
                        value.words[1] += 1;
                    }
                });
            }
        });
        let value = lock.write();
        assert_eq!(value.words, [2 * TURNS; 2]);
        assert!(value.sections.iter().all(|n| n.load(std::sync::atomic::Ordering::Relaxed) == TURNS));
        assert!(lock.stats().acquisitions >= 2 * TURNS);
    }

    #[test]
    fn a_writer_waits_for_readers_and_readers_for_it() {
        let lock = ReadMostly::new(1);
        let mut reader = lock.reader();
        let inside = reader.read();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| *lock.write() += 1);
            assert_eq!(*inside, 1);
            // Whether it waits yet or not, it does not come in before.
            assert!(!writer.is_finished());
            drop(inside);
        });
        assert_eq!(*reader.read(), 2);
        let held = lock.write();
        assert!(lock.try_write().is_none());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| *reader.read());
            assert_eq!(*held, 2);
            drop(held);
            assert_eq!(waiting.join().expect("the reader"), 2);
        });
    }

    #[test]
    fn places_of_readers_are_used_again() {
        let lock = ReadMostly::new(0);
        for _ in 0..100 {
            let mut reader = lock.reader();
            assert_eq!(*reader.read(), 0);
        }
        assert!(lock.0.turn.lock().len() <= 2);
        assert!(lock.is(&lock.clone()) && !lock.is(&ReadMostly::new(0)));
    }

    #[test]
    fn a_panic_leaves_the_lock_usable() {
        let lock = ReadMostly::new(1);
        let mut reader = lock.reader();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _inside = reader.read();
            panic!("as the test wants");
        }));
        assert!(panicked.is_err());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = lock.write();
            panic!("as the test wants");
        }));
        assert!(panicked.is_err());
        // The reader has to be out before somebody writes.
        assert_eq!(*reader.read(), 1);
        assert_eq!(*lock.write(), 1);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::thread;

    fn model(body: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(body);
    }

    /// Loom sees when an access to a cell begins and ends, so the accesses stand in closures.
    #[test]
    fn a_writer_is_alone() {
        model(|| {
            let lock = ReadMostly::new([0usize; 2]);
            let mut reader = lock.reader();
            let writer = {
                let lock = lock.clone();
                thread::spawn(move || {
                    let held = lock.write();
                    // SAFETY: the guard is held.
                    held.lock.value.with_mut(|value| unsafe { *value = [1, 1] });
                })
            };
            let inside = reader.read();
            // SAFETY: the guard is held.
            let [one, two] = inside.lock.value.with(|value| unsafe { *value });
            assert_eq!(one, two);
            drop(inside);
            writer.join().unwrap();
            let inside = reader.read();
            // SAFETY: the guard is held.
            assert_eq!(inside.lock.value.with(|value| unsafe { *value }), [1, 1]);
        });
    }

    #[test]
    fn a_writer_sees_what_readers_did() {
        model(|| {
            let lock = ReadMostly::new(loom::sync::atomic::AtomicUsize::new(0));
            let mut reader = lock.reader();
            let other = thread::spawn(move || {
                let inside = reader.read();
                inside.lock.value.with(|value| {
                    // SAFETY: the guard is held.
                    unsafe { &*value }.store(1, Ordering::Relaxed);
                });
                drop(inside);
                // What it does after it has left is not the writer's.
                reader.seat.load(Ordering::Relaxed)
            });
            let held = lock.write();
            // SAFETY: the guard is held.
            let seen = held.lock.value.with(|value| unsafe { &*value }.load(Ordering::Relaxed));
            drop(held);
            other.join().unwrap();
            let held = lock.write();
            // SAFETY: the guard is held.
            let last = held.lock.value.with(|value| unsafe { &*value }.load(Ordering::Relaxed));
            assert!(seen <= 1 && last == 1);
        });
    }
}
