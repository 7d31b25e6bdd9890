// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asking for a cache line ahead of its use.
//!
//! A lookup in a table larger than the cache waits for memory; a batch of lookups need wait only once, if all lines are
//! asked for before the first is used.

/// Begins to load the line in which `target` starts. A hint: it changes nothing but timing.
#[inline(always)]
pub fn prefetch<T>(target: &T) {
    prefetch_at(std::ptr::from_ref(target));
}

/// The same for an address, which may be any.
#[inline(always)]
pub fn prefetch_at<T>(target: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch touches no memory and never faults, for any address. SSE is part of x86-64. (There is no safe form;
    // bench `flow` of the tables shows the gain.)
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(target.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = target;
}
