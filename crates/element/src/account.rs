// SPDX-License-Identifier: MIT OR Apache-2.0
//! What elements say of packets that begin or end with them.

use std::ops::AddAssign;

/// What an element did with packets beside passing, dropping and holding them, by its own word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deeds {
    /// Packets that did not come to it.
    pub made: u64,
    /// Packets that have served their purpose here.
    pub taken: u64,
}

sync::all_zero!(Deeds { made, taken });

impl AddAssign for Deeds {
    fn add_assign(&mut self, more: Deeds) {
        self.made += more.made;
        self.taken += more.taken;
    }
}
