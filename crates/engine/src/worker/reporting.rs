// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counters of one worker, for reports.

use super::Worker;
use crate::cost::{CycleStats, TaskStats};
use crate::ports::PortStats;
use crate::report::{ElementReport, Report};
use element::{ElementId, IndexVec, PortIndex, first_ids};

impl Worker {
    /// What left by output `port` of `element`, pushed or pulled.
    pub(crate) fn output_stats(&self, element: ElementId, port: PortIndex) -> PortStats {
        let Some(at) = self.outputs.at(element, port) else { return PortStats::default() };
        let (pushed, edge) = (self.sent[at], self.outputs.edges[at]);
        // A pull output is counted where it is asked.
        match self.inputs.at(edge.element, edge.port) {
            Some(fed) if pushed.batches == 0 => self.fetched[fed],
            _ => pushed,
        }
    }

    /// What came to each element, pushed or fetched.
    fn input_packets(&self) -> IndexVec<ElementId, u64> {
        let mut came = IndexVec::filled(0, self.slots.len());
        for (edge, sent) in self.outputs.edges.iter().zip(&self.sent) {
            came[edge.element] += sent.packets;
        }
        for (e, came) in came.iter_mut_enumerated() {
            let fetched = &self.fetched[self.inputs.range(e)];
            *came += fetched.iter().map(|f| f.packets).sum::<u64>();
        }
        came
    }

    /// The element that holds packets in the place of `element`.
    fn holder(&self, element: ElementId) -> Option<ElementId> {
        let name = self.slots[element].as_ref()?.held_by()?;
        self.shared.lookup(name, Some(element))
    }

    pub(crate) fn cycle_stats(&self, element: ElementId) -> CycleStats {
        self.cycles[element]
    }

    pub(crate) fn task_stats(&self, element: ElementId) -> TaskStats {
        self.task_stats[element]
    }

    /// The counters of this worker.
    pub(crate) fn report(&self) -> Report {
        let inputs = self.input_packets();
        let element = |e: ElementId| ElementReport {
            inputs: inputs[e],
            outputs: first_ids(self.shared.elements[e].outputs().len())
                .map(|port| self.output_stats(e, port))
                .collect(),
            drops: self.drops(e).iter().collect(),
            deeds: self.deeds[e],
            cycles: self.cycle_stats(e),
            tasks: self.task_stats(e),
            handed: self.traffic.of(e),
            held: self.slots[e].as_ref().map_or(0, |i| i.held()),
            held_by: self.holder(e),
        };
        Report { elements: self.slots.ids().map(element).collect(), gone: Vec::new() }
    }
}
