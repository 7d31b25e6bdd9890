// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several instances over common state.

use crate::element::Element;

/// An element whose instances share state. Classes with [`Sharing::Shared`](crate::Sharing::Shared) or
/// [`Sharing::Queue`](crate::Sharing::Queue) declare it, and those whose [`open`](Element::open) acquires something that the instances
/// share.
pub trait SharedState: Element {
    /// A further instance over the same state, for another worker. `None` if there is nothing to share, as it is configured.
    fn share(&self) -> Option<Box<dyn Element>>;
}
