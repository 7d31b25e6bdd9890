// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that store packets, and those that fetch them.

#[expect(clippy::module_inception)]
mod queue;
mod unqueue;

pub use queue::Store;

/// The classes of this kind.
pub static CLASSES: &[engine::Class] =
    &[queue::QUEUE, queue::SIMPLE_QUEUE, queue::THREAD_SAFE_QUEUE, unqueue::CLASS];
