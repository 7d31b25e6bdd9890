// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a whole router: what each element sent, dropped, held and cost.

use crate::cost::{CycleStats, TaskStats};
use crate::ports::{Handed, PortStats};
use element::account::PacketAccount;
use element::drops::Reason;
use element::{ElementId, IndexVec};

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
    pub account: PacketAccount,
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
        let had = i128::from(self.inputs) + i128::from(self.account.made);
        had - i128::from(left) - i128::from(dropped) - i128::from(self.account.taken) - self.held as i128
    }

    fn add(&mut self, other: &ElementReport) {
        self.outputs.resize(self.outputs.len().max(other.outputs.len()), PortStats::default());
        for (mine, theirs) in self.outputs.iter_mut().zip(&other.outputs) {
            *mine += *theirs;
        }
        self.inputs += other.inputs;
        self.account += other.account;
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
