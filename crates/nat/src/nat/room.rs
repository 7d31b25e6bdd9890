// SPDX-License-Identifier: MIT OR Apache-2.0
//! Room for more sessions: it comes in steps, along with packets.

use tables::flow::Index;

use super::Nat;

/// Records that a batch of packets moves.
const MOVED: usize = 64;

impl Nat {
    /// Begins to have room for more sessions.
    pub(super) fn grow(&mut self, count: usize, seed: u64) {
        if self.sessions.capacity_to_be() < count {
            let index = |present: usize, seed| Index::new(count, present, seed);
            drop(self.mappings.begin_resize(index(self.mappings.capacity(), seed.rotate_left(32))));
            drop(self.sessions.begin_resize(index(self.sessions.capacity(), seed)));
        }
    }

    /// Whether room for more sessions is being made.
    #[inline]
    pub(super) fn is_growing(&self) -> bool {
        self.mappings.is_resizing() || self.sessions.is_resizing()
    }

    /// Goes on with room for more sessions. Mappings come first: each session may need one.
    #[inline]
    pub(super) fn grow_along(&mut self) {
        if self.mappings.is_resizing() {
            drop(self.mappings.resize_some(MOVED));
        } else if self.sessions.is_resizing() {
            drop(self.sessions.resize_some(MOVED));
        }
    }
}
