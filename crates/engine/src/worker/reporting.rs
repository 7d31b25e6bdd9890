// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counters of one worker, for reports.

use super::{Costs, Worker};
use crate::ports::PortStats;
use crate::report::{ElementReport, Report};
use element::{ElementId, PacketHolder, PortIndex, first_ids};

impl Worker {
    /// What left by output `port` of `element`, pushed or pulled.
    pub(crate) fn output_stats(&self, element: ElementId, port: PortIndex) -> PortStats {
        self.connections.output_stats(element, port)
    }

    /// What its elements cost.
    pub(crate) fn costs(&self) -> &Costs {
        &self.costs
    }

    /// The element that holds packets in the place of `element`.
    fn holder(&self, element: ElementId) -> Option<ElementId> {
        let name = self.capability::<dyn PacketHolder>(element)?.held_by()?;
        self.shared.lookup(name, Some(element))
    }

    /// The counters of this worker.
    pub(crate) fn report(&self) -> Report {
        let inputs = self.connections.arrivals(self.instances.len());
        let element = |e: ElementId| ElementReport {
            inputs: inputs[e],
            outputs: first_ids(self.shared.elements[e].outputs().len())
                .map(|port| self.output_stats(e, port))
                .collect(),
            drops: self.drops(e).iter().collect(),
            account: *self.accounts.account(e),
            cycles: self.costs.cycles()[e],
            tasks: self.costs.tasks()[e],
            handed: self.costs.traffic().of(e),
            held: self.held(e),
            held_by: self.holder(e),
        };
        Report { elements: self.instances.ids().map(element).collect(), gone: Vec::new() }
    }
}
