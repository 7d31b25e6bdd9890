// SPDX-License-Identifier: MIT OR Apache-2.0
//! Units of time, and what a thread has used of it.

/// Nanoseconds.
pub type Nanos = u64;

/// One second in nanoseconds.
pub const SECOND: Nanos = 1_000_000_000;

/// Processor time that the calling thread has used so far.
pub fn thread_cpu_ns() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as Nanos * SECOND + time.tv_nsec as Nanos
}
