// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that elements keep.

use crate::element::Element;

/// An element that keeps packets: a queue, or one whose packets wait in a table. See the [account](crate::account) of packets.
pub trait PacketHolder: Element {
    /// Packets this instance holds.
    fn held(&self) -> usize {
        0
    }

    /// The name of the element that holds packets that came to this one, where they wait in a table that several share: who sends them on may be another
    /// of these, so they have one account together.
    fn held_by(&self) -> Option<&str> {
        None
    }
}
