// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost model: the load of each worker is what its tasks cost, what packets cost that change workers, and what cores cost each
//! other; the busiest worker, or an element that only one worker at a time may run, sets the rate.
//!
//! The traffic is taken to arrive in the proportions in which it was measured on one worker.

use engine::balance::{Handoff, Item, Problem};
use engine::{Mode, Shared};

use super::costs::Costs;
use super::links::links;

/// What a configuration would do on a number of workers.
pub(crate) struct Prediction {
    pub(crate) workers: usize,
    /// Elements whose tasks are placed, one entry for each task.
    pub(crate) items: Vec<usize>,
    /// Which worker runs each of them.
    pub(crate) homes: Vec<usize>,
    /// Costs of tasks and hand-offs, before cores slow each other down.
    pub(crate) problem: Problem,
    /// Nanoseconds that each worker spends for one packet that leaves the router.
    pub(crate) loads: Vec<f64>,
    /// The element that only one worker at a time may run which costs most, with its cost.
    serial: Option<(usize, f64)>,
}

impl Prediction {
    pub(crate) fn new(costs: &Costs, shared: &Shared, workers: usize, handoff: &Handoff) -> Prediction {
        let elements = &shared.elements;
        let (mut items, mut homes, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for task in &costs.tasks {
            let on = &elements[task.element].place.tasks;
            for worker in on {
                items.push(task.element);
                homes.push(*worker);
                // A task that every worker has cannot be moved: it serves the worker's own queue of the device.
                let fixed = (on.len() > 1).then_some(*worker);
                parts.push(Item { cost: task.ns / on.len() as f64, fixed, begun: 0.0 });
            }
        }
        let links = links(costs, elements, &items, &mut parts, handoff);
        let problem = Problem { items: parts, links, frame_costs: handoff.memory_ns, workers };
        // Cores share a cache and a memory, and are not all as fast.
        let loads = problem.loads(&homes).into_iter().zip(costs.slower(workers));
        let loads = loads.map(|(load, slower)| load * slower).collect();
        let locked = elements.iter().enumerate().filter(|(_, e)| e.place.mode == Mode::Locked);
        let serial = locked.map(|(e, _)| (e, costs.elements[e])).max_by(|a, b| a.1.total_cmp(&b.1));
        Prediction { workers, items, homes, problem, loads, serial }
    }

    fn peak(&self) -> f64 {
        self.loads.iter().copied().fold(f64::MIN_POSITIVE, f64::max)
    }

    /// Packets that leave the router, million for each second.
    pub(crate) fn mpps(&self) -> f64 {
        let serial = self.serial.map_or(0.0, |s| s.1);
        1e3 / self.peak().max(serial)
    }

    /// What holds the rate where it is, in words.
    pub(crate) fn limit(&self, shared: &Shared) -> String {
        let peak = self.peak();
        match self.serial {
            Some((e, ns)) if ns > peak => {
                format!(
                    "{} runs on one worker at a time, {ns:.1} ns for each packet",
                    shared.elements[e].name
                )
            }
            _ => {
                let busiest = self.loads.iter().position(|l| *l >= peak).unwrap_or(0);
                let even = self.loads.iter().all(|l| *l > 0.9 * peak);
                let which = if even { "all workers alike".into() } else { format!("worker {busiest}") };
                format!("{which}, {peak:.1} ns for each packet")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Subject;

    /// A prediction from made-up costs: each task of `text` costs what `costs` says.
    fn predict(text: &str, given: &[(&str, f64)], workers: usize, together: f64) -> Prediction {
        let parsed = lang::load_str("test", text, &elements::options());
        let graph = parsed.graph.expect("a graph");
        let subject = Subject::new(&graph, text).expect("patterns");
        let Ok(router) = subject.build(workers) else { panic!("does not build") };
        let shared = router.shared();
        let costs = Costs { together: Some([together; 2]), ..Costs::made_up(shared, given) };
        Prediction::new(&costs, shared, workers, &Handoff::flat(10.0))
    }

    #[test]
    fn workers_with_their_own_queues_share_the_load() {
        let text = "fd :: FromDevice(a) -> Queue -> td :: ToDevice(b)";
        for (workers, together, mpps) in [(1, 1.0, 10.0), (2, 1.0, 20.0), (4, 1.0, 40.0), (4, 1.25, 25.6)] {
            let found = predict(text, &[("fd", 80.0), ("td", 20.0)], workers, together).mpps();
            assert!((found - mpps).abs() < 0.01, "{workers} workers: {found}, not {mpps}");
        }
    }

    #[test]
    fn a_locked_element_limits() {
        // A shaper counts all packets, so one worker at a time runs it.
        let text = "fd :: FromDevice(a) -> m :: Meter(1000000) -> Discard; m[1] -> Discard";
        let found = predict(text, &[("fd", 100.0)], 8, 1.0);
        assert!(found.mpps() <= 1e3 / 12.5 + 0.1);
    }

    #[test]
    fn packets_that_change_workers_cost_both() {
        let text = "s :: InfiniteSource -> Queue -> u :: Unqueue -> Discard";
        let one = predict(text, &[("s", 60.0), ("u", 40.0)], 1, 1.0);
        assert!((one.mpps() - 10.0).abs() < 0.01);
        let two = predict(text, &[("s", 60.0), ("u", 40.0)], 2, 1.0);
        let apart = two.problem.peak(&[0, 1]);
        assert!((apart - 70.0).abs() < 0.01, "60 and 10 for the hand-off, not {apart}");
    }

    #[test]
    fn frames_that_return_cost_nothing() {
        let text = "s :: InfiniteSource -> Queue -> u :: Unqueue -> Queue -> v :: Unqueue -> Discard";
        let parsed = lang::load_str("test", text, &elements::options());
        let graph = parsed.graph.expect("a graph");
        let subject = Subject::new(&graph, text).expect("patterns");
        let Ok(router) = subject.build(2) else { panic!("does not build") };
        let shared = router.shared();
        let costs = Costs::made_up(shared, &[("s", 60.0), ("u", 40.0), ("v", 20.0)]);
        let handoff = Handoff { memory_ns: [10.0, 2.0], ..Handoff::flat(1.0) };
        let problem = Prediction::new(&costs, shared, 2, &handoff).problem;
        for (homes, want) in [([0, 0, 0], [120.0, 0.0]), ([0, 1, 0], [82.0, 42.0]), ([0, 1, 1], [71.0, 63.0])]
        {
            assert_eq!(problem.loads(&homes), want, "{homes:?}");
        }
    }
}
