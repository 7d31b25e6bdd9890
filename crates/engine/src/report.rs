// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a whole router: what each element sent, dropped, held and cost.

use crate::ports::PortStats;
use crate::worker::{CycleStats, Handed, TaskStats, Worker};
use element::account::Deeds;
use element::drops::Reason;
use element::{ElementId, IndexVec, PortIndex, first_ids};

/// Counters of a router at one moment, over all workers.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// By element.
    pub elements: IndexVec<ElementId, ElementReport>,
    /// Drops at elements that are gone since a hot swap.
    pub gone: Vec<(Reason, u64)>,
}

/// Counters of one element.
#[derive(Clone, Debug, Default)]
pub struct ElementReport {
    /// Packets that came in, by all inputs.
    pub inputs: u64,
    /// What left by each output.
    pub outputs: Vec<PortStats>,
    /// Drops by reason.
    pub drops: Vec<(Reason, u64)>,
    /// What it made and ended, as it says.
    pub deeds: Deeds,
    /// Sampled cost.
    pub cycles: CycleStats,
    /// Sampled cost of its tasks, with all that followed from them.
    pub tasks: TaskStats,
    /// What its tasks handed to others in the timed runs, by the element between them.
    pub handed: Vec<(ElementId, Handed)>,
    /// Packets that the element holds.
    pub held: usize,
    /// The element that holds, and may send, packets that came to this one.
    pub held_by: Option<ElementId>,
}

impl Report {
    /// Adds the counters of another worker.
    pub(crate) fn add(&mut self, other: &Report) {
        let more = other.elements.len().saturating_sub(self.elements.len());
        self.elements.extend((0..more).map(|_| ElementReport::default()));
        for (mine, theirs) in self.elements.iter_mut().zip(&other.elements) {
            mine.add(theirs);
        }
    }
}

impl ElementReport {
    /// Packets that came in or were made, less those that left, were dropped, are held, or were ended for their purpose: 0, if all are accounted for.
    pub fn missing(&self) -> i128 {
        let left: u64 = self.outputs.iter().map(|o| o.packets).sum();
        let dropped: u64 = self.drops.iter().map(|(_, n)| n).sum();
        let had = i128::from(self.inputs) + i128::from(self.deeds.made);
        had - i128::from(left) - i128::from(dropped) - i128::from(self.deeds.taken) - self.held as i128
    }

    fn add(&mut self, other: &ElementReport) {
        self.outputs.resize(self.outputs.len().max(other.outputs.len()), PortStats::default());
        for (mine, theirs) in self.outputs.iter_mut().zip(&other.outputs) {
            *mine += *theirs;
        }
        self.inputs += other.inputs;
        self.deeds += other.deeds;
        self.cycles.add(other.cycles);
        self.tasks.add(other.tasks);
        for (queue, handed) in &other.handed {
            match self.handed.iter_mut().find(|(known, _)| known == queue) {
                Some((_, known)) => *known += *handed,
                None => self.handed.push((*queue, *handed)),
            }
        }
        self.held += other.held;
        self.held_by = self.held_by.or(other.held_by);
        for (reason, n) in &other.drops {
            match self.drops.iter_mut().find(|d| d.0 == *reason) {
                Some(known) => known.1 += n,
                None => self.drops.push((*reason, *n)),
            }
        }
    }
}

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
