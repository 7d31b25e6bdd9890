// SPDX-License-Identifier: MIT OR Apache-2.0
//! Another number of connections: it comes in steps, and none ends for it. While there are too many, no new ones begin.

use tables::flow::Index;

use super::{Addresses, Firewall, Moves, Ruleset, Side};

/// Records of each family that a batch of packets moves.
const MOVED: usize = 32;

impl<K: Addresses> Side<K> {
    /// Begins to have room for another number of connections. Returns an index that is no longer needed.
    fn begin_resize(&mut self, index: Index) -> Option<Index> {
        self.hand = 0;
        self.table.begin_resize(index)
    }
}

impl Moves {
    /// The indexes that other rules need, for both families: to make them takes time for many connections.
    pub(super) fn indexes(from: &Ruleset, to: &Ruleset) -> Option<[Index; 2]> {
        let (before, after) = (from.policy.connections, to.policy.connections);
        (before != after).then(|| [(); 2].map(|()| Index::new(after, before, 0)))
    }
}

impl Firewall {
    /// Begins to have room for as many connections as the rules say.
    pub(super) fn begin_resize(&mut self, made: Option<[Index; 2]>) {
        let count = self.ruleset.policy.connections;
        if self.four.table.capacity_to_be() == count && self.six.table.capacity_to_be() == count {
            return;
        }
        let present = self.four.table.capacity().max(self.six.table.capacity());
        let made = made.unwrap_or_else(|| [(); 2].map(|()| Index::new(count, present, 0)));
        let [four, six] = made.map(|index| index.seeded(self.seed));
        self.retired.extend(self.four.begin_resize(four));
        self.retired.extend(self.six.begin_resize(six));
    }

    /// Goes on with another number of connections, by up to `most` records of each family. Returns whether there is more to do.
    pub fn resize_some(&mut self, most: usize) -> bool {
        if self.is_resizing() {
            self.retired.extend(self.four.table.resize_some(most));
            self.retired.extend(self.six.table.resize_some(most));
        }
        self.is_resizing()
    }

    pub(super) fn is_resizing(&self) -> bool {
        self.four.table.is_resizing() || self.six.table.is_resizing()
    }

    /// The same along with packets.
    #[inline]
    pub(super) fn resize_along(&mut self) {
        if self.is_resizing() {
            self.resize_some(MOVED);
        }
    }

    /// Takes out what is no longer needed. To drop it takes time, which nobody waits for.
    pub fn retired(&mut self) -> Vec<Index> {
        std::mem::take(&mut self.retired)
    }

    /// How many connections there may be now.
    pub(super) fn bound(&self) -> usize {
        self.ruleset.policy.connections.min(self.four.table.capacity()).min(self.six.table.capacity())
    }
}
