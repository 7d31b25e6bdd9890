// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stack of functions that have returned.
//!
//! A value that is moved leaves its bytes on the stack, and so does a function that is inlined. Where a function that handles secrets has returned, [`apart`]
//! overwrites the stack that it has used, as libgcrypt does. What a signal handler or the kernel has saved of registers is out of reach.

use std::hint::black_box;

use zeroize::Zeroize as _;

/// Words of stack that are overwritten: several times what a handshake takes, or an association that is made.
/// Without optimisation, values are moved from frame to frame, and that takes more.
const WORDS: usize = (if cfg!(debug_assertions) { 128 << 10 } else { 32 << 10 }) / size_of::<u64>();

/// Runs what handles secrets, then overwrites the stack that it has used, 32 KiB at most. What it returns should be small, or be a secret behind a pointer: a result is
/// moved.
///
/// ```
/// let key = junctor_erase::apart(|| Box::new([7u8; 32]));
/// assert_eq!(key.len(), 32);
/// ```
pub fn apart<R>(work: impl FnOnce() -> R) -> R {
    let result = call(work);
    overwrite();
    result
}

/// A frame of its own, which lies where that of [`overwrite`] will lie.
#[inline(never)]
fn call<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[inline(never)]
fn overwrite() {
    let mut stack = [0u64; WORDS];
    stack.zeroize();
    black_box(&stack);
}
