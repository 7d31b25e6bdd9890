// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handlers declared for a part of an element.

use std::any::Any;

use crate::element::Element;

/// An element whose handlers are declared for a part of it, which several types have ([`handlers!`](crate::handlers)).
pub trait HandlerPart: Element {
    /// That part.
    fn part(&mut self) -> &mut dyn Any;
}
