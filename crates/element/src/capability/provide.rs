// SPDX-License-Identifier: MIT OR Apache-2.0
//! State that elements offer to others.

use crate::element::{Element, Provided};

/// An element that offers state to other elements.
pub trait Provide: Element {
    /// State for other elements that name this one (a queue's length, a rewriter's patterns), found by
    /// [`InitCx::find`](crate::InitCx::find). It must exist after [`Element::configure`].
    fn provide(&self) -> Option<Provided>;
}
