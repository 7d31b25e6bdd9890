// SPDX-License-Identifier: MIT OR Apache-2.0
//! A running router as other threads reach it: by its handlers.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::error::HandlerError;
use crate::handler::{Access, Llrpc};

/// Where a session finds the handlers it calls.
pub trait Handlers {
    /// What handler `name` allows, if connections may see it.
    ///
    /// # Errors
    /// No such element, or no such handler.
    fn access(&mut self, name: &str) -> Result<Access, HandlerError>;

    /// Reads handler `name`.
    ///
    /// # Errors
    /// See [`HandlerError`].
    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError>;

    /// Executes write handler `name`; returns what there is to say about it, mostly nothing.
    ///
    /// # Errors
    /// See [`HandlerError`].
    fn write(&mut self, name: &str, value: &str) -> Result<String, HandlerError>;

    /// What programs call by number of an element: none behind a proxy.
    fn llrpcs(&mut self, _element: &str) -> &'static [Llrpc] {
        &[]
    }

    /// What kind of handler is missing when one is: empty, or a word and a space.
    fn kind(&self) -> &'static str {
        ""
    }
}

/// The running router, for an element that starts a thread.
pub trait Remote: Send + Sync {
    /// Its handlers, or those of one element by their names without the element's. The time that workers spend on the calls is added to
    /// `spent_ns`.
    fn handlers(&self, of: Option<&str>, spent_ns: &Arc<AtomicU64>) -> Box<dyn Handlers>;

    /// Writes a line where the user sees it, as elements do.
    fn print(&self, text: &str);
}
