// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a configuration costs on one core, task by task, and what two cores cost each other.

use engine::Report;
use engine::balance::Handoff;

use super::trial::median;
use crate::bench::{Distance, Moved};

/// Measured costs, all in nanoseconds for each packet that leaves the router.
pub(crate) struct Costs {
    /// On one worker, with everything.
    pub(crate) ns_per_packet: f64,
    /// By task.
    pub(crate) tasks: Vec<TaskCost>,
    /// What each element costs by itself, by index; 0 where it was not sampled.
    pub(crate) elements: Vec<f64>,
    /// Packets that go through each element for one that leaves the router, by index.
    pub(crate) through: Vec<f64>,
    /// Packets in a batch that leaves an element, by index and output; 0 where none did.
    pub(crate) batches: Vec<Vec<f64>>,
    /// What the tasks of each element put into queues and took out of them where that was looked at, by index.
    pub(crate) handed: Vec<Vec<(usize, engine::Handed)>>,
    /// How many times as much a packet costs on each of two cores that share nothing as on the first alone, if there are two. Cores
    /// differ: whoever else uses a machine uses one of them more.
    pub(crate) together: Option<[f64; 2]>,
}

/// What one task costs with all that follows from its runs.
pub(crate) struct TaskCost {
    pub(crate) element: usize,
    pub(crate) ns: f64,
}

impl Costs {
    /// From what the elements did on one worker, where `sent` packets left the router and each cost this much; `cycles` are those of
    /// each element's tasks for a packet.
    pub(super) fn new(
        report: &Report,
        sent: u64,
        mut cycles: Vec<f64>,
        ns_per_packet: f64,
        together: Option<[f64; 2]>,
    ) -> Costs {
        let elements = &report.elements;
        // Too short to time a single run: then they count alike.
        if cycles.iter().all(|c| *c == 0.0) {
            cycles = elements.iter().map(|e| e.tasks.runs as f64).collect();
        }
        // The share of each task is known better than its cycles, in which lies all that interrupted it.
        let all: f64 = cycles.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let mut tasks: Vec<TaskCost> = cycles
            .iter()
            .enumerate()
            .filter(|(_, c)| **c > 0.0)
            .map(|(element, c)| TaskCost { element, ns: ns_per_packet * c / all })
            .collect();
        tasks.sort_by(|a, b| b.ns.total_cmp(&a.ns));
        let packets = sent.max(1) as f64;
        let ns_per_cycle = ns_per_packet / all;
        let left = |e: &engine::ElementReport| e.outputs.iter().map(|o| o.packets).sum::<u64>() as f64;
        let through: Vec<f64> = elements.iter().map(|e| left(e) / packets).collect();
        let own = elements.iter().zip(&through).map(|(e, through)| {
            let sampled = e.cycles.packets.max(1) as f64;
            e.cycles.cycles as f64 / sampled * ns_per_cycle * through
        });
        let batch = |o: &engine::PortStats| o.packets as f64 / o.batches.max(1) as f64;
        let batches = elements.iter().map(|e| e.outputs.iter().map(batch).collect()).collect();
        let handed = elements.iter().map(|e| e.handed.clone()).collect();
        Costs { ns_per_packet, tasks, elements: own.collect(), batches, handed, through, together }
    }

    /// How many times as much a packet costs on each of so many cores as on the first alone. Of two it was measured; beyond, each
    /// doubling is taken to cost what the first did.
    pub(super) fn slower(&self, workers: usize) -> Vec<f64> {
        let [first, second] = self.together.unwrap_or([1.0; 2]);
        match workers {
            2 => vec![first, second],
            _ => vec![self.mean_slower().max(1.0).powf((workers as f64).log2()); workers],
        }
    }

    /// The mean of both cores.
    pub(super) fn mean_slower(&self) -> f64 {
        self.together.map_or(1.0, |cores| cores.iter().sum::<f64>() / 2.0)
    }

    /// Costs as a test wants them, by task.
    #[cfg(test)]
    pub(crate) fn made_up(shared: &engine::Shared, given: &[(&str, f64)]) -> Costs {
        let index = |name: &str| shared.lookup(name, None).expect("an element");
        Costs {
            ns_per_packet: given.iter().map(|g| g.1).sum(),
            tasks: given.iter().map(|(name, ns)| TaskCost { element: index(name), ns: *ns }).collect(),
            elements: vec![30.0; shared.elements.len()],
            through: vec![1.0; shared.elements.len()],
            batches: vec![Vec::new(); shared.elements.len()],
            handed: vec![Vec::new(); shared.elements.len()],
            together: None,
        }
    }
}

/// What handing packets over costs, from what was measured at both sizes of batches.
pub(crate) fn handoff(moved: &Moved) -> Handoff {
    let [small, large] = Distance::BATCHES.map(|n| n as f64);
    let extra =
        |i: usize, side: usize| (moved.apart[i].moving[side] - moved.together[i].moving[side]).max(0.0);
    // The line through both, as long as it falls with the size.
    let per_batch = |side| ((extra(0, side) - extra(1, side)) / (1.0 / small - 1.0 / large)).max(0.0);
    let per_batch_ns = [0, 1].map(per_batch);
    let per_packet_ns = [0, 1].map(|side| (extra(1, side) - per_batch_ns[side] / large).max(0.0));
    let memory = |side: usize| (moved.apart[1].memory[side] - moved.together[1].memory[side]).max(0.0);
    Handoff { per_packet_ns, per_batch_ns, memory_ns: [0, 1].map(memory) }
}

/// The median of each price by itself; nothing, if there is no measurement.
pub(crate) fn median_handoff(all: impl Iterator<Item = Handoff>) -> Option<Handoff> {
    let all: Vec<Handoff> = all.collect();
    let price = |of: fn(&Handoff) -> [f64; 2]| {
        let [a, b] = [0, 1].map(|side| median(all.iter().map(|h| of(h)[side])));
        Some([a?, b?])
    };
    Some(Handoff {
        per_packet_ns: price(|h| h.per_packet_ns)?,
        per_batch_ns: price(|h| h.per_batch_ns)?,
        memory_ns: price(|h| h.memory_ns)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read_off_two_sizes_of_batches() {
        let mut moved = Moved::default();
        for (i, batch) in Distance::BATCHES.into_iter().enumerate() {
            let batch = batch as f64;
            moved.together[i].moving = [1.0, 3.0];
            moved.apart[i].moving = [1.0 + 2.0 + 80.0 / batch, 3.0 + 5.0 + 160.0 / batch];
            moved.together[i].memory = [4.0, 1.0];
            moved.apart[i].memory = [14.0, 3.0];
        }
        let found = handoff(&moved);
        let close = |found: [f64; 2], want: [f64; 2]| {
            assert!(found.iter().zip(want).all(|(f, w)| (f - w).abs() < 1e-9), "{found:?}, not {want:?}");
        };
        close(found.per_packet_ns, [2.0, 5.0]);
        close(found.per_batch_ns, [80.0, 160.0]);
        close(found.memory_ns, [10.0, 2.0]);
        assert_eq!(median_handoff([found; 3].into_iter()), Some(found));
        assert_eq!(median_handoff(std::iter::empty()), None);
    }
}
