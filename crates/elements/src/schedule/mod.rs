// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that choose among inputs or limit rates.

mod drr_sched;
mod meter;
mod prio_sched;
mod rated_splitter;
mod round_robin_sched;
mod shaper;
mod stride;

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[
    drr_sched::CLASS,
    meter::BYTES,
    meter::PACKETS,
    prio_sched::PRIO_SCHED,
    prio_sched::SIMPLE_PRIO_SCHED,
    rated_splitter::BYTES,
    rated_splitter::PACKETS,
    round_robin_sched::CLASS,
    shaper::BYTES,
    shaper::PACKETS,
    stride::SCHED,
    stride::SWITCH,
];
