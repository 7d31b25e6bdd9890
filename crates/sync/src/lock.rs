// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks that tell how contended they are.
//!
//! Packet paths take no locks, with two exceptions: elements of the `Serial` class, and the historical strategies that are
//! there to show their cost. Both want numbers, so these locks count: how often taken, how often someone had to wait, and
//! for how long. The counts are written by the holder while it holds the lock, with ordinary stores, so an uncontended
//! acquisition costs the one atomic exchange and little more.
//!
//! * [`SpinLock`] waits by spinning (and, after a while, by yielding the processor): for sections of nanoseconds between
//!   pinned workers.
//! * [`AdaptiveLock`] spins shortly and then sleeps in the kernel: wherever a holder may sleep or be descheduled.
//!
//! Neither is fair: no tickets, whose strict order makes one descheduled waiter stop all others (convoys); the next
//! taker is whoever sees the lock free first.
//!
//! # Ordering argument
//!
//! 1. *A holder sees what the former did.* Release store on unlocking, Acquire exchange on locking. *Only one holds*: the
//!    exchange is one atomic step. Model: `one_at_a_time`.

use crate::prim::{AtomicUsize, Ordering, UnsafeCell, spin_until};
use std::{
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    sync::{
        Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// What a lock has been through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockStats {
    /// Times taken.
    pub acquisitions: u64,
    /// Of these, times that it was not free at once.
    pub contended: u64,
    /// Time spent waiting, as far as the takers gave a clock ([`SpinLock::lock_timed`], [`AdaptiveLock::lock_timed`]).
    pub wait_ns: u64,
}

impl fmt::Display for LockStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LockStats { acquisitions, contended, wait_ns } = self;
        write!(f, "acquisitions {acquisitions} contended {contended} wait_ns {wait_ns}")
    }
}

/// [`LockStats`] being counted; written by the lock's holder only.
#[derive(Default)]
struct Counts {
    acquisitions: AtomicU64,
    contended: AtomicU64,
    wait_ns: AtomicU64,
}

impl Counts {
    #[inline(always)]
    fn taken(&self, waited_ns: Option<u64>) {
        let add = |count: &AtomicU64, more| count.store(count.load(Relaxed) + more, Relaxed);
        add(&self.acquisitions, 1);
        if let Some(waited_ns) = waited_ns {
            add(&self.contended, 1);
            add(&self.wait_ns, waited_ns);
        }
    }

    fn get(&self) -> LockStats {
        LockStats {
            acquisitions: self.acquisitions.load(Relaxed),
            contended: self.contended.load(Relaxed),
            wait_ns: self.wait_ns.load(Relaxed),
        }
    }
}

/// A lock whose waiters spin.
///
/// ```
/// let tokens = junctor_sync::lock::SpinLock::new(5);
/// *tokens.lock() -= 1;
/// assert_eq!((*tokens.lock(), tokens.stats().acquisitions), (4, 2));
/// ```
/// The guard lends its value to other threads only if the value may be shared:
/// ```compile_fail
/// fn shared<T: Sync>(_: &T) {}
/// let lock = junctor_sync::lock::SpinLock::new(std::cell::Cell::new(1));
/// shared(&lock.lock());
/// ```
pub struct SpinLock<T> {
    held: AtomicUsize,
    counts: Counts,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives the value to one thread at a time (case 1), which amounts to sending it there and back.
unsafe impl<T: Send> Sync for SpinLock<T> {}
// SAFETY: the lock owns its value.
unsafe impl<T: Send> Send for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// A free lock.
    pub fn new(value: T) -> Self {
        Self { held: AtomicUsize::new(0), counts: Counts::default(), value: UnsafeCell::new(value) }
    }

    /// Takes the lock, waiting for it if need be.
    #[inline]
    pub fn lock(&self) -> SpinGuard<'_, T> {
        self.lock_timed(|| 0)
    }

    /// As [`lock`](Self::lock); `now_ns` is asked before and after only when there is a wait, which is then counted.
    #[inline]
    pub fn lock_timed(&self, now_ns: impl Fn() -> u64) -> SpinGuard<'_, T> {
        let waited_ns = (!self.exchange()).then(|| self.wait(now_ns));
        self.counts.taken(waited_ns);
        SpinGuard { lock: self, _lends: PhantomData }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        self.exchange().then(|| {
            self.counts.taken(None);
            SpinGuard { lock: self, _lends: PhantomData }
        })
    }

    /// How contended the lock has been.
    pub fn stats(&self) -> LockStats {
        self.counts.get()
    }

    #[inline(always)]
    fn exchange(&self) -> bool {
        self.held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait(&self, now_ns: impl Fn() -> u64) -> u64 {
        let start = now_ns();
        // Looking before swapping: waiters share the line until it changes. (A model may be shown the old value for ever.)
        spin_until(|| (cfg!(loom) || self.held.load(Ordering::Relaxed) == 0) && self.exchange());
        now_ns().saturating_sub(start)
    }
}

/// Access to the value of a [`SpinLock`]; dropping it frees the lock.
pub struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
    /// For Send and Sync this is a borrow of the value, not of the lock.
    _lends: PhantomData<&'a mut T>,
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard holds the lock, and its shared borrow excludes `deref_mut` meanwhile.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the lock, and is borrowed exclusively.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.held.store(0, Ordering::Release);
    }
}

impl<T> fmt::Debug for SpinLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpinLock").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// A lock whose waiters spin shortly, then sleep. A panic while it is held does not poison it.
#[derive(Default)]
pub struct AdaptiveLock<T> {
    counts: Counts,
    value: Mutex<T>,
}

impl<T> AdaptiveLock<T> {
    /// A free lock.
    pub fn new(value: T) -> Self {
        Self { counts: Counts::default(), value: Mutex::new(value) }
    }

    /// Takes the lock, waiting for it if need be.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.lock_timed(|| 0)
    }

    /// As [`lock`](Self::lock); `now_ns` is asked before and after only when there is a wait, which is then counted.
    #[inline]
    pub fn lock_timed(&self, now_ns: impl Fn() -> u64) -> MutexGuard<'_, T> {
        if let Some(guard) = self.try_lock() {
            return guard;
        }
        let start = now_ns();
        let guard = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        self.counts.taken(Some(now_ns().saturating_sub(start)));
        guard
    }

    /// As [`lock_timed`](Self::lock_timed), for waiters that have something else to do, without which the holder may not come to an
    /// end: they never sleep.
    pub fn lock_meanwhile(&self, now_ns: impl Fn() -> u64, mut meanwhile: impl FnMut()) -> MutexGuard<'_, T> {
        if let Some(guard) = self.try_lock() {
            return guard;
        }
        let start = now_ns();
        loop {
            meanwhile();
            if let Some(guard) = self.free() {
                self.counts.taken(Some(now_ns().saturating_sub(start)));
                return guard;
            }
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let guard = self.free()?;
        self.counts.taken(None);
        Some(guard)
    }

    fn free(&self) -> Option<MutexGuard<'_, T>> {
        match self.value.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// How contended the lock has been.
    pub fn stats(&self) -> LockStats {
        self.counts.get()
    }
}

impl<T> fmt::Debug for AdaptiveLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveLock").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const TURNS: u64 = if cfg!(miri) { 50 } else { 20_000 };

    #[test]
    fn spin_lock_excludes_and_counts() {
        let lock = SpinLock::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..TURNS).for_each(|_| *lock.lock() += 1));
            }
        });
        let stats = lock.stats();
        assert_eq!((*lock.lock(), stats.acquisitions, stats.wait_ns), (3 * TURNS, 3 * TURNS, 0));
        assert!(stats.contended <= stats.acquisitions);
    }

    #[test]
    fn adaptive_lock_excludes_and_counts() {
        let lock = AdaptiveLock::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..TURNS).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!((*lock.lock(), lock.stats().acquisitions), (3 * TURNS, 3 * TURNS + 1));
    }

    /// A waiter's clock shows how long it waited: it reads 100, then 250.
    #[test]
    fn waits_are_measured_on_the_takers_clock() {
        let (spin, adaptive) = (SpinLock::new(()), AdaptiveLock::new(()));
        let ticks = AtomicU64::new(0);
        let (waiting, waiter) = std::sync::mpsc::channel();
        let now_ns = |waiting: &std::sync::mpsc::Sender<()>| {
            waiting.send(()).expect("the main thread listens");
            100 + 150 * ticks.fetch_add(1, Relaxed)
        };
        std::thread::scope(|scope| {
            let held = spin.lock();
            assert!(spin.try_lock().is_none());
            let sender = waiting.clone();
            let (spin, now_ns) = (&spin, &now_ns);
            let thread = scope.spawn(move || drop(spin.lock_timed(|| now_ns(&sender))));
            waiter.recv().expect("it began to wait");
            drop(held);
            thread.join().expect("the waiter");
        });
        assert_eq!(spin.stats(), LockStats { acquisitions: 2, contended: 1, wait_ns: 150 });
        ticks.store(0, Relaxed);
        std::thread::scope(|scope| {
            let held = adaptive.lock();
            assert!(adaptive.try_lock().is_none());
            let (adaptive, now_ns) = (&adaptive, &now_ns);
            let _ = waiter.try_iter().count();
            let thread = scope.spawn(move || drop(adaptive.lock_timed(|| now_ns(&waiting))));
            waiter.recv().expect("it began to wait");
            drop(held);
            thread.join().expect("the waiter");
        });
        assert_eq!(adaptive.stats(), LockStats { acquisitions: 2, contended: 1, wait_ns: 150 });
    }

    #[test]
    fn a_waiter_can_do_something_meanwhile() {
        let lock = AdaptiveLock::new(1);
        let mut held = Some(lock.lock());
        let ticks = AtomicU64::new(0);
        let taken = *lock.lock_meanwhile(|| ticks.fetch_add(5, Relaxed), || drop(held.take()));
        assert_eq!((taken, lock.stats()), (1, LockStats { acquisitions: 2, contended: 1, wait_ns: 5 }));
    }

    #[test]
    fn a_panicking_holder_leaves_the_locks_usable() {
        let (spin, adaptive) = (SpinLock::new(1), AdaptiveLock::new(1));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _both = (spin.lock(), adaptive.lock());
            panic!("as the test wants");
        }));
        assert!(panicked.is_err());
        assert_eq!((*spin.lock(), *adaptive.lock()), (1, 1));
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn one_at_a_time() {
        loom::model(|| {
            let lock = Arc::new(SpinLock::new(0));
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let lock = lock.clone();
                    loom::thread::spawn(move || {
                        let guard = lock.lock();
                        // SAFETY: the guard is held; the cell is used directly so that loom sees the access end.
                        guard.lock.value.with_mut(|value| unsafe { *value += 1 });
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(*lock.lock(), 2);
        });
    }
}
