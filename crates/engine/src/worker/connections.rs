// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where outputs lead and inputs are fed from, and what went through them on one worker.

use sync::zeros::zeros;

use crate::ports::{Edge, PortStats, PortTable};
use crate::shared::Shared;
use element::{ElementId, IndexVec, PortIndex};

/// See the module. A pushed packet is counted at the output that it left by, a pulled one at the input that it was fetched by.
pub(super) struct Connections {
    outputs: PortTable,
    inputs: PortTable,
    sent: Vec<PortStats>,
    fetched: Vec<PortStats>,
}

impl Connections {
    pub(super) fn new(shared: &Shared) -> Connections {
        let (outputs, inputs) = (shared.outputs.clone(), shared.inputs.clone());
        Connections { sent: zeros(outputs.edges.len()), fetched: zeros(inputs.edges.len()), outputs, inputs }
    }

    #[inline]
    pub(super) fn outputs(&self) -> &PortTable {
        &self.outputs
    }

    #[inline]
    pub(super) fn inputs(&self) -> &PortTable {
        &self.inputs
    }

    /// An output among all, if it is connected.
    #[inline]
    pub(super) fn output(&self, element: ElementId, port: PortIndex) -> Option<usize> {
        self.outputs.at(element, port)
    }

    /// An input among all, if it is connected.
    #[inline]
    pub(super) fn input(&self, element: ElementId, port: PortIndex) -> Option<usize> {
        self.inputs.at(element, port)
    }

    /// Where an output leads.
    #[inline]
    pub(super) fn to(&self, output: usize) -> Edge {
        self.outputs.edges[output]
    }

    /// What an input is fed from.
    #[inline]
    pub(super) fn from(&self, input: usize) -> Edge {
        self.inputs.edges[input]
    }

    /// Where an output leads, and its counters.
    #[inline(always)]
    pub(super) fn output_mut(&mut self, output: usize) -> Option<(Edge, &mut PortStats)> {
        let stats = self.sent.get_mut(output)?;
        Some((*self.outputs.edges.get(output)?, stats))
    }

    /// Counts a batch that leaves by an output.
    #[inline]
    pub(super) fn count_sent(&mut self, output: usize, packets: usize) {
        let stats = &mut self.sent[output];
        stats.packets += packets as u64;
        stats.batches += 1;
    }

    /// Counts packets that join a batch which was counted.
    #[inline]
    pub(super) fn count_joined(&mut self, output: usize, packets: usize) {
        self.sent[output].packets += packets as u64;
    }

    /// Counts what was fetched by an input.
    #[inline]
    pub(super) fn count_fetched(&mut self, input: usize, packets: usize) {
        let stats = &mut self.fetched[input];
        stats.packets += packets as u64;
        stats.batches += u64::from(packets > 0);
    }

    /// All counters: of outputs, and of inputs.
    pub(super) fn counters(&self) -> (&[PortStats], &[PortStats]) {
        (&self.sent, &self.fetched)
    }

    /// Counters of an element's outputs, to be put back by [`Connections::restore`].
    pub(super) fn save(&self, element: ElementId) -> Vec<PortStats> {
        self.sent[self.outputs.range(element)].to_vec()
    }

    pub(super) fn restore(&mut self, element: ElementId, saved: &[PortStats]) {
        let ports = self.outputs.range(element);
        self.sent[ports].copy_from_slice(saved);
    }

    /// What left by an output, pushed or pulled.
    pub(super) fn output_stats(&self, element: ElementId, port: PortIndex) -> PortStats {
        let Some(at) = self.output(element, port) else { return PortStats::default() };
        let (pushed, edge) = (self.sent[at], self.to(at));
        // A pull output is counted where it is asked.
        match self.input(edge.element, edge.port) {
            Some(fed) if pushed.batches == 0 => self.fetched[fed],
            _ => pushed,
        }
    }

    /// Adds to what left by an output, pushed or pulled.
    pub(super) fn add_output_stats(
        &mut self,
        element: ElementId,
        port: PortIndex,
        is_pull: bool,
        more: PortStats,
    ) {
        let Some(at) = self.output(element, port) else { return };
        let edge = self.to(at);
        *match self.input(edge.element, edge.port) {
            Some(fed) if is_pull => &mut self.fetched[fed],
            _ => &mut self.sent[at],
        } += more;
    }

    /// Packets that came to each element, pushed or fetched.
    pub(super) fn arrivals(&self, elements: usize) -> IndexVec<ElementId, u64> {
        let mut came = IndexVec::filled(0, elements);
        for (edge, sent) in self.outputs.edges.iter().zip(&self.sent) {
            came[edge.element] += sent.packets;
        }
        for (e, came) in came.iter_mut_enumerated() {
            let fetched = &self.fetched[self.inputs.range(e)];
            *came += fetched.iter().map(|f| f.packets).sum::<u64>();
        }
        came
    }
}
