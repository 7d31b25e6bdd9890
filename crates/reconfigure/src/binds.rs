// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which tasks stay where they are: those whose move could change the order of a flow's packets.

use element::{ElementId, Mode, Sharing};
use engine::Shared;

/// Whether moving a task of this element could change the order of a flow's packets, and why: an element behind it treats
/// packets by the worker that brings them.
pub fn binds(shared: &Shared, element: ElementId) -> Option<String> {
    let reached = shared.reached().from(element);
    reached.into_iter().find_map(|e| {
        let info = &shared.elements[e];
        let queue = shared.how(e).sharing == Sharing::Queue && info.place.mode == Mode::PerCore;
        let device = info.place.workers.len() > 1 && shared.has_opened(e);
        if (queue || device) && e != element && !info.place.pushed_by.is_empty() {
            return Some(format!("'{}' has a queue for each worker", info.name));
        }
        shared.tells_workers_apart(e).then(|| format!("'{}' tells workers apart", info.name))
    })
}
