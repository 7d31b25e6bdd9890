// SPDX-License-Identifier: MIT OR Apache-2.0
//! What elements say of packets that begin or end with them.

use std::ops::AddAssign;

/// What an element reports to have done with packets apart from passing, dropping and holding them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketAccount {
    /// Packets that did not come to it.
    pub made: u64,
    /// Packets that have served their purpose here.
    pub taken: u64,
}

sync::all_zero!(PacketAccount { made, taken });

impl AddAssign for PacketAccount {
    fn add_assign(&mut self, more: PacketAccount) {
        self.made += more.made;
        self.taken += more.taken;
    }
}
