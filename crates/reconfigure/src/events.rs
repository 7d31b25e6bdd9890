// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events for a profiler: another configuration has come, or tasks have come to other workers.

use sync::events::{self, EventKind, Mask, short};

use engine::Shared;

use crate::outcome::Swapped;
use crate::placement::{Moved, MovedTask};

/// The workers have gone on at this time with another configuration.
pub(crate) fn swap(at: u64, swapped: &Swapped) {
    if events::recorded().meets(Mask::CONTROL) {
        let paused_us = short(swapped.pause.as_micros() as u64);
        events::push(at, EventKind::Swap, (0, 0), (paused_us, short(swapped.lost())));
    }
}

/// The workers have gone on at this time with tasks placed otherwise.
pub(crate) fn moves(at: u64, shared: &Shared, moved: &Moved) {
    if !events::recorded().meets(Mask::CONTROL) {
        return;
    }
    let paused_us = short(moved.pause.as_micros() as u64);
    for MovedTask { name, before, now } in &moved.tasks {
        let Some(element) = shared.named(name) else { continue };
        for (from, to) in before.iter().zip(now).filter(|(from, to)| from != to) {
            events::push(at, EventKind::Move, (element.number(), *from as u32), (paused_us, *to as u32));
        }
    }
}
