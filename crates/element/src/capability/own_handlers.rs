// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handlers that elements answer themselves.

use crate::cx::Cx;
use crate::element::Element;
use crate::error::HandlerError;
use crate::handler::Access;

/// An element with handlers that are not declared with what they do: its configuration names them, say.
#[allow(unused_variables)]
pub trait OwnHandlers: Element {
    /// Handlers that only this element's configuration gives it, beyond those of its class: their names and what they
    /// allow. The name `*` stands for every name that is not taken.
    fn own_handlers(&self) -> Vec<(String, Access)> {
        Vec::new()
    }

    /// Answers read handler `name` that is not declared with what it does; `param` is empty unless the caller gave one.
    ///
    /// # Errors
    /// [`HandlerError`], shown to the caller.
    fn read(&mut self, cx: &mut Cx<'_>, name: &str, param: &str) -> Result<String, HandlerError> {
        Err(HandlerError::unknown(name))
    }

    /// Executes write handler `name` that is not declared with what it does.
    ///
    /// # Errors
    /// [`HandlerError`], shown to the caller; the element is unchanged.
    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        Err(HandlerError::unknown(name))
    }
}
