// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which of many slots is due first: a tree whose inner nodes hold the earlier time of their two children.

use std::time::Duration;

/// The times of `slots` slots, a power of two. The root is node 1; the leaf of slot `s` is node `slots + s`.
#[derive(Debug)]
pub(crate) struct Due {
    nodes: Vec<Duration>,
}

impl Due {
    /// No slot is ever due.
    pub(crate) fn new(slots: usize) -> Self {
        Due { nodes: vec![Duration::MAX; 2 * slots.next_power_of_two()] }
    }

    /// Sets when `slot` is due; `Duration::MAX` for never.
    pub(crate) fn set(&mut self, slot: usize, due: Duration) {
        let mut node = self.nodes.len() / 2 + slot;
        self.nodes[node] = due;
        while node > 1 {
            node /= 2;
            let earlier = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
            // Nodes above depend on this one alone.
            if self.nodes[node] == earlier {
                return;
            }
            self.nodes[node] = earlier;
        }
    }

    /// The earliest time.
    pub(crate) fn earliest(&self) -> Duration {
        self.nodes[1]
    }

    /// A slot that is due at the earliest time.
    pub(crate) fn first(&self) -> usize {
        let mut node = 1;
        while node < self.nodes.len() / 2 {
            node *= 2;
            node += usize::from(self.nodes[node + 1] < self.nodes[node]);
        }
        node - self.nodes.len() / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_the_earliest(sets in proptest::collection::vec((0usize..8, 0u64..20), 1..40)) {
            let mut due = Due::new(8);
            let mut naive = [Duration::MAX; 8];
            for (slot, at) in sets {
                // 19 stands for never.
                let at = if at == 19 { Duration::MAX } else { Duration::from_secs(at) };
                due.set(slot, at);
                naive[slot] = at;
                let earliest = *naive.iter().min().unwrap();
                prop_assert_eq!(due.earliest(), earliest);
                prop_assert_eq!(naive[due.first()], earliest);
            }
        }
    }
}
