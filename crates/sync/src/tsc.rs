// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processor's time stamp counter.

/// The time stamp counter: cycles at a constant rate on every machine this runs on, about 20 cycles to read.
/// Zero on processors without one.
#[inline]
pub fn tsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction exists on every x86-64 processor and touches no memory.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}
