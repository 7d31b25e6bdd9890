// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is timed while causes are sought: kernels whose buffers lie in a certain cache, or in none.

use std::time::Duration;

use super::kernels::{Access, Buffers, Kernel};
use super::machine::{Place, bytes_in_words};

/// A kernel with buffers of its own.
#[derive(Debug)]
pub(super) struct Victim {
    pub(super) access: Access,
    pub(super) bytes: usize,
    buffers: Buffers,
    kernel: Kernel,
}

impl Victim {
    pub(super) fn new(access: Access, bytes: usize) -> Victim {
        let mut buffers = Buffers::new(bytes);
        let kernel = Kernel::new(access, bytes, &mut buffers);
        Victim { access, bytes, buffers, kernel }
    }

    /// Its name in tables.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.access.word(), bytes_in_words(self.bytes))
    }

    /// Its name in results.
    pub(super) fn key(&self) -> String {
        format!("{}_{}", self.access.word(), self.bytes)
    }

    /// Nanoseconds of processor time for each KiB, over about so long.
    pub(super) fn run(&mut self, length: Duration) -> f64 {
        self.kernel.run(&mut self.buffers, length)
    }
}

/// The last level of caches, or in a quick run a size that is gone through at once.
fn last_level(place: &Place, quick: bool) -> usize {
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
    pub(super) fn of(place: &Place, quick: bool) -> Sizes {
        let last = last_level(place, quick);
        let second = (place.caches[1] / 2).min(last / 8);
        // Copies and stressors have two buffers each, and there are a few of them.
        let memory = (4 * last).min((place.free / 64).max(1 << 20));
        Sizes { second, quarter: last / 4, half: last / 2, memory }
    }
}

/// Those that feel the shared cache, and one that feels the memory.
pub(super) fn usual(sizes: &Sizes) -> Vec<Victim> {
    vec![
        Victim::new(Access::Copy, sizes.quarter),
        Victim::new(Access::Copy, sizes.memory),
        Victim::new(Access::Chase, sizes.quarter),
    ]
}
