// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a configuration costs on one core, task by task, and what two cores cost each other.

use engine::Report;

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
    /// How much more a packet costs on each of two cores that share nothing than on one alone, if there are two.
    pub(crate) together: Option<f64>,
}

/// What one task costs with all that follows from its runs.
pub(crate) struct TaskCost {
    pub(crate) element: usize,
    pub(crate) ns: f64,
}

impl Costs {
    /// From what the elements did on one worker, where `sent` packets left the router and each cost this much.
    pub(super) fn new(report: &Report, sent: u64, ns_per_packet: f64, together: Option<f64>) -> Costs {
        let elements = &report.elements;
        let mut cycles: Vec<f64> = elements.iter().map(|e| e.tasks.all_cycles()).collect();
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
        let ns_per_cycle = ns_per_packet * packets / all;
        let left = |e: &engine::ElementReport| e.outputs.iter().map(|o| o.packets).sum::<u64>() as f64;
        let through: Vec<f64> = elements.iter().map(|e| left(e) / packets).collect();
        let own = elements.iter().zip(&through).map(|(e, through)| {
            let sampled = e.cycles.packets.max(1) as f64;
            e.cycles.cycles as f64 / sampled * ns_per_cycle * through
        });
        Costs { ns_per_packet, tasks, elements: own.collect(), through, together }
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
            together: None,
        }
    }
}
