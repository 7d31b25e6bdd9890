// SPDX-License-Identifier: MIT OR Apache-2.0
//! Overwriting what secrets leave behind.
//!
//! Secrets erase themselves when they are dropped, but values that are moved, and functions that are inlined, leave copies on the stack. Where a function that handles secrets has
//! returned, [`apart`] overwrites the stack that it has used, as libgcrypt and others do. What a signal handler or the kernel has saved of registers is out of reach.

use std::hint::black_box;

use zeroize::Zeroize as _;

/// Words of stack that are overwritten: several times what a handshake takes.
const WORDS: usize = (32 << 10) / size_of::<u64>();

/// Runs what handles secrets, then overwrites the stack that it has used.
pub(crate) fn apart<R>(work: impl FnOnce() -> R) -> R {
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
