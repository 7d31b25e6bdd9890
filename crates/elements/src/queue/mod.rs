// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that store packets, and those that fetch them.

mod delay;
mod deque;
mod front_drop_queue;
mod link_unqueue;
mod mixed_queue;
#[expect(clippy::module_inception)]
mod queue;
mod rated_unqueue;
mod red;
mod store;
mod timed_unqueue;
mod unqueue;

pub use store::Store;

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[
    delay::SHAPER,
    delay::UNQUEUE,
    front_drop_queue::CLASS,
    link_unqueue::CLASS,
    mixed_queue::CLASS,
    queue::FULL_NOTE_QUEUE,
    queue::NOTIFIER_QUEUE,
    queue::QUEUE,
    queue::QUICK_NOTE_QUEUE,
    queue::SIMPLE_QUEUE,
    queue::THREAD_SAFE_QUEUE,
    rated_unqueue::BYTES,
    rated_unqueue::PACKETS,
    red::CLASS,
    timed_unqueue::BURSTER,
    timed_unqueue::TIMED_UNQUEUE,
    unqueue::CLASS,
];
