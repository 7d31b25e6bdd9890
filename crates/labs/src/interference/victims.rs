// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is timed while causes are sought: kernels whose buffers lie in a certain cache, or in none.

use super::kernels::Access;
use super::machine::LabMachine;

/// The last level of caches, or in a quick run a size that is gone through at once.
fn last_level(place: &LabMachine, quick: bool) -> usize {
    if quick { place.last_level().min(1 << 20) } else { place.last_level() }
}

/// Buffers that are at home in the shared cache, and one that is not.
pub(super) struct Sizes {
    /// Of the second level, half.
    pub(super) second: usize,
    pub(super) quarter: usize,
    pub(super) half: usize,
    /// Four times the last level.
    pub(super) memory: usize,
}

impl Sizes {
    pub(super) fn of(place: &LabMachine, quick: bool) -> Sizes {
        let last = last_level(place, quick);
        let second = (place.caches[1] / 2).min(last / 8);
        // Copies and stressors have two buffers each, and there are a few of them.
        let memory = (4 * last).min((place.free / 64).max(1 << 20));
        Sizes { second, quarter: last / 4, half: last / 2, memory }
    }
}

/// Those that feel the shared cache, and one that feels the memory.
pub(super) fn usual(sizes: &Sizes) -> [(Access, usize); 3] {
    [(Access::Copy, sizes.quarter), (Access::Copy, sizes.memory), (Access::Chase, sizes.quarter)]
}
