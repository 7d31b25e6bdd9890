// SPDX-License-Identifier: MIT OR Apache-2.0
//! The primitives the rest of the crate is written over: those of `std`, or, under `cfg(loom)`, those of the
//! model checker, which tries every interleaving and every value a relaxed load may return.

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Mutex, MutexGuard},
    thread::yield_now,
};

#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Mutex, MutexGuard},
    thread::yield_now,
};

/// `std`'s cell with the closure interface that loom needs to see each access begin and end.
#[cfg(not(loom))]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// Spins until `done`, politely: pauses first, then gives the processor away, because the thread waited for may
/// have been taken off its core. Under loom each turn is a yield, or the model would never end.
#[inline]
pub(crate) fn spin_until(mut done: impl FnMut() -> bool) {
    const PAUSES: u32 = if cfg!(loom) { 0 } else { 128 };
    let mut turns = 0;
    while !done() {
        if turns < PAUSES {
            turns += 1;
            spin_loop();
        } else {
            yield_now();
        }
    }
}
