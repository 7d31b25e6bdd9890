// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mutexes whose guarded values are whole after each statement, so that a panic elsewhere does not matter.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a mutex guards, also after a thread that held it has panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
