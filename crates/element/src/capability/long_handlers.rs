// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handlers whose calls take long.

use crate::cx::Cx;
use crate::element::{Element, Rest};

/// An element with handlers that take long, of which a thread that is not a worker does a part.
#[allow(unused_variables)]
pub trait LongHandlers: Element {
    /// Begins a read whose answer takes long: takes out what the answer is made of, and returns the
    /// rest. `None` leaves all of it to the worker, as other reads.
    fn read_apart(&mut self, cx: &mut Cx<'_>, name: &str, param: &str) -> Option<Rest<String>> {
        None
    }

    /// The same for a write. The rest may return a text for the user, such as a warning.
    fn write_apart(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Option<Rest<Option<String>>> {
        None
    }
}
