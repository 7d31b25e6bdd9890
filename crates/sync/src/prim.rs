// SPDX-License-Identifier: MIT OR Apache-2.0
//! The primitives the rest of the crate is written over: those of `std`, or, under `cfg(loom)`, those of the
//! model checker, which tries every interleaving and every value a relaxed load may return.

use std::mem::MaybeUninit;

#[cfg(loom)]
pub mod model;

#[cfg(loom)]
pub(crate) use {
    loom::{
        cell::UnsafeCell,
        hint::spin_loop,
        sync::atomic::{Ordering, fence},
        sync::{Mutex, MutexGuard},
        thread::yield_now,
    },
    model::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize},
};

#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Mutex, MutexGuard},
    thread::yield_now,
};

/// `std`'s cell with the closure interface that loom needs to see each access begin and end.
#[cfg(not(loom))]
#[repr(transparent)]
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

/// Copies the cells' values to `to`.
///
/// # Safety
/// No other thread writes to the cells meanwhile, `to` has room for as many values, and of each value only one copy is used on.
#[inline(always)]
pub(crate) unsafe fn copy_out<T>(cells: &[UnsafeCell<MaybeUninit<T>>], to: *mut T) {
    #[cfg(not(loom))]
    {
        // SAFETY: by contract. A cell is no more than its value.
        unsafe { std::ptr::copy_nonoverlapping(cells.as_ptr().cast::<T>(), to, cells.len()) };
    }
    #[cfg(loom)]
    for (at, cell) in cells.iter().enumerate() {
        // SAFETY: by contract.
        cell.with(|cell| unsafe { to.cast::<MaybeUninit<T>>().add(at).copy_from_nonoverlapping(cell, 1) });
    }
}

/// Copies values from `from` to the cells.
///
/// # Safety
/// No other thread uses the cells meanwhile, `from` has as many values, and of each only one copy is used on.
#[inline(always)]
pub(crate) unsafe fn copy_in<T>(from: *const T, cells: &[UnsafeCell<MaybeUninit<T>>]) {
    #[cfg(not(loom))]
    {
        // SAFETY: by contract. A cell is no more than its value, and may be written to through a shared reference.
        unsafe { std::ptr::copy_nonoverlapping(from, cells.as_ptr().cast::<T>().cast_mut(), cells.len()) };
    }
    #[cfg(loom)]
    for (at, cell) in cells.iter().enumerate() {
        // SAFETY: by contract.
        cell.with_mut(|cell| unsafe {
            cell.copy_from_nonoverlapping(from.cast::<MaybeUninit<T>>().add(at), 1)
        });
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
