// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements about the workers that run a configuration: who runs what, and which packets go where.

mod cpu_switch;
pub(crate) mod hash_demux;
mod static_thread_sched;

/// The classes of this kind.
pub static CLASSES: &[engine::Class] = &[cpu_switch::CLASS, hash_demux::CLASS, static_thread_sched::CLASS];
