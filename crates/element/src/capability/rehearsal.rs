// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that are only tried.

use packet::Packet;

use crate::cx::Cx;
use crate::element::Element;
use crate::rehearsal::Rehearsed;

/// An element that packets can pass which are only tried (`junctor trace --packet`), though it remembers something of packets. Classes that
/// are [pure](crate::Class::pure) need no more than that.
#[allow(unused_variables)]
pub trait Rehearsal: Element {
    /// A copy of it for packets that are only tried, which gets its memory of its own: it may count and remember, and is then thrown away. `None` where
    /// a packet changes what copies would share.
    fn copy(&self) -> Option<Box<dyn Element>> {
        None
    }

    /// What it would do with a packet at input `port`, pushed or pulled, without remembering, counting or learning anything. An element
    /// without inputs is asked what it would do with a packet that comes from outside. Not asked of an element that can be
    /// [copied](Rehearsal::copy).
    fn rehearse(&mut self, cx: &mut Cx<'_>, port: usize, packet: Packet) -> Rehearsed {
        Rehearsed::unknown()
    }
}
