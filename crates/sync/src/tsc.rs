// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processor's time stamp counter.

/// The time stamp counter: cycles at a constant rate on every machine this runs on, about 20 cycles to read.
/// Zero on processors without one. Miri, which has none, counts a hundred for each look.
#[inline]
pub fn tsc() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction exists on every x86-64 processor and touches no memory.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(miri)]
    {
        use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
        static LOOKS: AtomicU64 = AtomicU64::new(0);
        LOOKS.fetch_add(100, Relaxed)
    }
    #[cfg(not(any(target_arch = "x86_64", miri)))]
    0
}
