// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which tasks stay where they are: those whose move could change the order of a flow's packets.

use crate::build::Blueprint;
use crate::router::Shared;
use element::{ElementId, Mode, Sharing};

impl Shared {
    /// Whether moving a task of this element could change the order of a flow's packets, and why: something behind it treats
    /// packets by the worker that brings them.
    pub fn binds(&self, element: ElementId) -> Option<String> {
        let blueprint: &Blueprint = &self.blueprint;
        let reached = crate::plan::Reached::new(&blueprint.checked).from(element);
        reached.into_iter().find_map(|e| {
            let info = &self.elements[e];
            let queue = blueprint.hows[e].sharing == Sharing::Queue && info.place.mode == Mode::PerCore;
            let device = info.place.workers.len() > 1 && self.holdings.has_opened(&info.name);
            if (queue || device) && e != element && !info.place.pushed_by.is_empty() {
                return Some(format!("'{}' has a queue for each worker", info.name));
            }
            blueprint.telling[e].then(|| format!("'{}' tells workers apart", info.name))
        })
    }
}
