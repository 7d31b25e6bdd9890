// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calling a handler in the midst of a batch, so that it takes effect at its packet as it does with packets one by one.

use element::{Cx, Element};
use packet::Batch;

/// Sends what came before, with all that follows from it. An element that stands in a loop gets its own packets by `deputy`.
pub(super) fn settle(cx: &mut Cx<'_>, deputy: Option<Box<dyn Element>>, before: [&mut Batch; 2]) {
    if before.iter().all(|batch| batch.is_empty()) {
        return;
    }
    if let Some(deputy) = deputy {
        cx.lend(deputy);
    }
    for (port, batch) in before.into_iter().enumerate().filter(|(_, batch)| !batch.is_empty()) {
        let batch = std::mem::take(batch);
        cx.push_or_drop(port, batch, element::Reason::NoOutput);
    }
    cx.settle();
}

/// Calls a write handler, which may be one of this element's own: `deputy` answers for it meanwhile. What goes wrong is printed.
pub(super) fn call(cx: &mut Cx<'_>, deputy: Option<Box<dyn Element>>, handler: &str, value: &str) {
    if let Some(deputy) = deputy {
        cx.lend(deputy);
    }
    if let Err(why) = cx.write_handler(handler, value) {
        cx.print(&format!("{}: {handler}: {why}", cx.name()));
    }
}
