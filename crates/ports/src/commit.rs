// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet memory that is there before packets come: a machine without room for it refuses to start a router, and does not end one later,
//! under load.

use std::io;

/// Has the kernel back all packet memory now.
///
/// # Errors
/// There is no room for it (ENOMEM), or the kernel cannot do it (EINVAL, before Linux 5.14).
pub fn commit_memory() -> io::Result<()> {
    let (start, len) = packet::memory().region();
    // SAFETY: the mapping is the process's packet memory, which is never unmapped; the call changes no byte of it.
    let result = unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_POPULATE_WRITE) };
    crate::sys::check(result).map(drop)
}
