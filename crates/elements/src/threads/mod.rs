// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements about the workers that run a configuration: who runs what, and which packets go where.

mod balanced_thread_sched;
mod cpu_queue;
mod cpu_switch;
pub(crate) mod hash_demux;
mod spinlock;
mod static_thread_sched;

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[
    balanced_thread_sched::CLASS,
    cpu_queue::CLASS,
    cpu_switch::CLASS,
    hash_demux::CLASS,
    spinlock::ACQUIRE,
    spinlock::INFO,
    spinlock::PUSH,
    spinlock::RELEASE,
    static_thread_sched::CLASS,
];
