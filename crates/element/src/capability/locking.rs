// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks that elements take.

use crate::element::Element;
use crate::locks::LockUse;

/// An element that takes locks of its own while it runs.
pub trait Locking: Element {
    /// The locks that it takes, as it is configured, so that a plan can name them. Asked after [`Element::open`].
    fn locks(&self) -> Vec<LockUse>;
}
