// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules for which workers run what.

use crate::element::Element;
use crate::place::Home;

/// An element that restricts the placement of elements on workers.
#[allow(unused_variables)]
pub trait PlacementRules: Element {
    /// Where the tasks of other elements are to run. Asked when all elements are open, with the number of workers.
    fn homes(&self, workers: usize) -> Vec<Home> {
        Vec::new()
    }

    /// Whether it does different things with packets of different workers (sends them different ways, say), so that moving a
    /// task that reaches it would change what happens to a flow. Such tasks are moved only by hand.
    fn tells_workers_apart(&self) -> bool {
        false
    }

    /// Why this element, as it is configured, must see all packets in one order, and so stay one instance although its class
    /// allows more ([`Sharing::Serial`](crate::Sharing::Serial)); `None` if copies of it do the same. Asked after
    /// [`Element::configure`].
    fn one_order(&self) -> Option<&'static str> {
        None
    }
}
