// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lock of one byte, for one of many small records.
//!
//! For a table of millions of records that several workers read under a shared lock ([`read_mostly`](crate::read_mostly)), where a packet changes
//! a few words of its own record: the window of a TCP connection, say. The byte stands on the record's own line, which the packet needs anyway.
//!
//! # Trade-offs
//!
//! * A section costs one atomic exchange and one store. Nothing is counted or recorded: a count would be as large as the record.
//! * [`try_lock`](ByteLock::try_lock) gives up after a short spin, since the holder may have been taken off its core. The caller then goes another way,
//!   such as the lock of the whole table. So no packet waits for a thread that does not run.
//! * The owner of the whole record needs no lock: [`get_mut`](ByteLock::get_mut).
//!
//! # Ordering argument
//!
//! 1. *Only one holds, and it sees what the former did.* The byte is set by one atomic compare-and-exchange that Acquires, and cleared by a store that Releases. Who fails stores nothing. Model:
//!    `one_at_a_time`.
//! 2. *Who gives up has seen nothing.* Without the byte no reference to the value is made. Model: `who_gives_up_has_seen_nothing`.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::prim::{AtomicU8, Ordering, UnsafeCell, spin_loop, spin_until};

/// Looks at the byte before a caller gives up. A section takes some 50 ns, and its line must come from another core.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 200 };

/// A value that one thread has at a time. A panic while it is held does not poison it.
///
/// ```
/// use junctor_sync::byte_lock::ByteLock;
/// let mut window = ByteLock::new(5u32);
/// *window.try_lock().expect("nobody has it") += 1;
/// assert_eq!((window.get(), *window.get_mut()), (6, 6));
/// assert_eq!(size_of::<ByteLock<u32>>(), 8);
/// ```
/// The value must be one that threads may share, because a guard may be:
/// ```compile_fail
/// fn shared<T: Sync>(_: &T) {}
/// shared(&junctor_sync::byte_lock::ByteLock::new(std::cell::Cell::new(1)));
/// ```
#[repr(C)]
pub struct ByteLock<T> {
    value: UnsafeCell<T>,
    /// 1 while somebody has the value, or else 0.
    held: AtomicU8,
}

// SAFETY: the lock gives the value to one thread at a time (case 1). A guard that several threads share gives them the value by reference, which `T: Sync` allows.
unsafe impl<T: Send + Sync> Sync for ByteLock<T> {}
// SAFETY: the lock owns its value.
unsafe impl<T: Send> Send for ByteLock<T> {}

impl<T> ByteLock<T> {
    /// A free lock.
    pub fn new(value: T) -> Self {
        ByteLock { value: UnsafeCell::new(value), held: AtomicU8::new(0) }
    }

    /// Takes the lock. Gives up if it is not free after a short spin.
    #[inline]
    pub fn try_lock(&self) -> Option<ByteGuard<'_, T>> {
        // Made only then: a guard that is dropped gives the value back.
        (self.exchange() || self.spin()).then(|| ByteGuard { lock: self })
    }

    #[inline(always)]
    fn exchange(&self) -> bool {
        self.held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn spin(&self) -> bool {
        for _ in 0..LOOKS {
            if self.held.load(Ordering::Relaxed) == 0 && self.exchange() {
                return true;
            }
            spin_loop();
        }
        false
    }

    /// The value for its owner, who needs no lock.
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: the exclusive borrow says that there is no guard, and none comes while it lasts.
        self.value.with_mut(|value| unsafe { &mut *value })
    }

    /// A copy of the value. It waits for the holder, so it is for those who list records, not for packets.
    pub fn get(&self) -> T
    where
        T: Copy,
    {
        spin_until(|| self.exchange());
        *ByteGuard { lock: self }
    }
}

impl<T: Copy> Clone for ByteLock<T> {
    /// A lock of its own, with a copy of the value.
    fn clone(&self) -> Self {
        ByteLock::new(self.get())
    }
}

impl<T: Copy + PartialEq> PartialEq for ByteLock<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Copy + Eq> Eq for ByteLock<T> {}

impl<T: Copy + fmt::Debug> fmt::Debug for ByteLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// The value for the one who has it.
pub struct ByteGuard<'a, T> {
    lock: &'a ByteLock<T>,
}

impl<T> Deref for ByteGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one (case 1), and its shared borrow excludes `deref_mut` meanwhile.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for ByteGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one (case 1), and is borrowed exclusively.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for ByteGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.held.store(0, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const TURNS: u64 = if cfg!(miri) { 30 } else { 20_000 };

    #[test]
    fn one_has_it_at_a_time() {
        let lock = ByteLock::new([0u64; 2]);
        let counted: u64 = std::thread::scope(|scope| {
            let worker = || {
                (0..TURNS)
                    .filter(|_| {
                        let Some(mut words) = lock.try_lock() else { return false };
                        assert_eq!(words[0], words[1]);
                        words[0] += 1;
                        std::hint::black_box(&mut *words);
                        words[1] += 1;
                        true
                    })
                    .count() as u64
            };
            let other = scope.spawn(worker);
            worker() + other.join().expect("the other")
        });
        assert_eq!(lock.get(), [counted; 2]);
    }

    #[test]
    fn who_comes_second_gives_up() {
        let lock = ByteLock::new(1);
        let held = lock.try_lock().expect("free");
        assert!(lock.try_lock().is_none());
        drop(held);
        assert_eq!((lock.get(), lock.clone()), (1, ByteLock::new(1)));
    }

    #[test]
    fn a_panic_leaves_the_lock_free() {
        let lock = ByteLock::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = lock.try_lock();
            panic!("as the test wants");
        }));
        assert!(panicked.is_err() && lock.try_lock().is_some());
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::thread;
    use std::sync::Arc;

    /// Adds one if the lock is free; returns whether it was. Loom sees when an access to a cell begins and ends, so the access stands in a closure.
    fn add(lock: &ByteLock<usize>) -> bool {
        let Some(held) = lock.try_lock() else { return false };
        // SAFETY: the guard is held.
        held.lock.value.with_mut(|value| unsafe { *value += 1 });
        true
    }

    #[test]
    fn one_at_a_time() {
        loom::model(|| {
            let lock = Arc::new(ByteLock::new(0));
            let theirs = lock.clone();
            let other = thread::spawn(move || usize::from(add(&theirs)) + usize::from(add(&theirs)));
            let mine = usize::from(add(&lock));
            let all = mine + other.join().unwrap();
            // SAFETY: the other thread has ended.
            assert_eq!(lock.value.with(|value| unsafe { *value }), all);
            assert!(all >= 1);
        });
    }

    #[test]
    fn who_gives_up_has_seen_nothing() {
        loom::model(|| {
            let lock = Arc::new(ByteLock::new(0));
            let theirs = lock.clone();
            let held = lock.try_lock();
            let other = thread::spawn(move || add(&theirs));
            if let Some(held) = &held {
                // SAFETY: the guard is held.
                held.lock.value.with_mut(|value| unsafe { *value += 1 });
            }
            drop(held);
            let all = 1 + usize::from(other.join().unwrap());
            // SAFETY: the other thread has ended.
            assert_eq!(lock.value.with(|value| unsafe { *value }), all);
        });
    }
}
