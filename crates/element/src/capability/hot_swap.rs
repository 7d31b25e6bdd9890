// SPDX-License-Identifier: MIT OR Apache-2.0
//! State that elements keep over a hot swap.

use crate::cx::Cx;
use crate::element::Element;

/// An element that gathers something which a hot swap carries over: counts, tables, packets. [`carries!`](crate::carries) writes it for
/// most types.
pub trait HotSwap: Element {
    /// Takes over, when a new configuration replaces one that runs, what `old` has gathered.
    /// `old` is an instance of the element of the same name and class ([`swap::same`](crate::swap::same) checks its
    /// type); this instance has been initialised. Take, leaving nothing behind, and add to what is here: where workers and
    /// instances are paired differently than before, either may be met more than once. What the new configuration
    /// says wins over what was written to handlers. Returns whether there was something to take.
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool;
}
