// SPDX-License-Identifier: MIT OR Apache-2.0
//! Secrets leave no copies in memory.
//!
//! The crate `zeroize` overwrites a value that its owner drops. Three kinds of copies escape it, and each has its remedy:
//!
//! * Keys of other crates that do not erase themselves: [`Erased`].
//! * The stack of functions that have returned, where values were moved and expanded: [`apart`].
//! * Blocks that a growing vector has left, and texts on their way: the program's heap, `sync::heap::LineHeap`, erases all that is freed.
#![warn(clippy::undocumented_unsafe_blocks)]

#[allow(unsafe_code)]
mod erased;
mod stack;

pub use erased::Erased;
pub use stack::apart;
