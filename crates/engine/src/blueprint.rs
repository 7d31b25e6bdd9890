// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a configuration was made from, kept so that its tasks can be placed anew.

use std::sync::Arc;

use lang::Graph;

use crate::graph::Checked;
use crate::homes::Wished;
use crate::plan::{self, How, Placed};
use element::{Element, ElementId, IndexVec, Tasks};

/// What a configuration was made from, kept so that its tasks can be placed anew.
pub(crate) struct Blueprint {
    pub(crate) graph: Arc<Graph>,
    pub(crate) checked: Checked,
    pub(crate) tasks: IndexVec<ElementId, Tasks>,
    pub(crate) hows: IndexVec<ElementId, How>,
    /// Workers that the configuration asks for.
    pub(crate) wished: Wished,
    /// Elements that treat packets by the worker that brings them ([`PlacementRules::tells_workers_apart`](element::PlacementRules::tells_workers_apart)).
    pub(crate) by_worker: IndexVec<ElementId, bool>,
}

impl Blueprint {
    /// Where everything runs if tasks run where they are wished, on the first `active` workers.
    pub(crate) fn places(&self, wished: &Wished, active: usize) -> Placed {
        let within = |wished: &Option<Vec<usize>>| -> Option<Vec<usize>> {
            let mut workers: Vec<usize> = Vec::new();
            for w in wished.as_ref()?.iter().map(|w| w % active) {
                if !workers.contains(&w) {
                    workers.push(w);
                }
            }
            Some(workers)
        };
        let wished: Wished = wished.iter().map(within).collect();
        plan::plan(&self.checked, &self.tasks, &wished, &self.hows, active)
    }
}

/// How each element may be shared.
pub(crate) fn hows(
    checked: &Checked,
    primaries: &IndexVec<ElementId, Box<dyn Element>>,
) -> IndexVec<ElementId, How> {
    primaries.iter_enumerated().map(|(e, primary)| How::of(checked, e, &**primary)).collect()
}
