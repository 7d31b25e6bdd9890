// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost model. The load of each worker is what its tasks cost, what packets and shared data cost that move between cores, and what cores cost
//! each other. The busiest of the workers that hand packets to each other sets their rate. Waiting for elements that only one worker at a time may
//! run takes its share of it.
//!
//! For two workers, whose rounds can be tried in turn, what moves is measured. For more, prices of hand-offs are corrected by that.

use engine::{ElementId, ElementInfo, IndexVec, Mode, Shared};
use reconfigure::balance::{Handoff, Item, Link, Problem};

use super::costs::{Costs, InTurn};
use super::links::links;
use super::waiting::share_of_free;

/// What a configuration would do on a number of workers.
pub struct Prediction {
    pub(crate) workers: usize,
    /// Elements whose tasks are placed, one entry for each task.
    pub items: Vec<ElementId>,
    /// Which worker runs each of them.
    pub homes: Vec<usize>,
    /// Costs of tasks and hand-offs, before cores slow each other down.
    pub problem: Problem,
    /// Nanoseconds that each worker spends for one packet that leaves the router, waiting for each other not counted.
    pub loads: Vec<f64>,
    /// Million packets for each second, if nobody waited for an element that one worker at a time may run.
    free_mpps: f64,
    /// The share of this that waiting leaves.
    share_of_free: f64,
    /// The element that only one worker at a time may run which costs most, with its cost.
    serial: Option<(ElementId, f64)>,
}

impl Prediction {
    /// What follows from these costs for so many workers that run this router.
    pub fn new(costs: &Costs, shared: &Shared, workers: usize, handoff: &Handoff) -> Prediction {
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
        let mut problem = Problem { items: parts, links, frame_costs: handoff.memory_ns, workers };
        let tried =
            costs.in_turn.as_ref().filter(|tried| workers > 1 && tried.tells_of(&homes, costs.ns_per_packet));
        tried.into_iter().for_each(|tried| correct(&mut problem, &items, costs, tried));
        // Cores share a cache and a memory, and are not all as fast.
        let slower = costs.slower(workers);
        let loads: Vec<f64> = match tried.filter(|_| workers == 2) {
            Some(tried) => tried.tasks.iter().map(|tasks| tasks.iter().sum()).collect(),
            None => {
                // What packets cost that change cores was measured while both were busy.
                let own =
                    Problem { links: Vec::new(), frame_costs: [0.0; 2], ..problem.clone() }.loads(&homes);
                let both = problem.loads(&homes).into_iter().zip(own).zip(&slower);
                both.map(|((all, own), slower)| all + own * (slower - 1.0)).collect()
            }
        };
        let mean_slower = slower.iter().sum::<f64>() / workers as f64;
        let own = |e: ElementId| match tried {
            Some(tried) => tried.elements[e] * mean_slower / costs.mean_slower(),
            None => costs.elements[e] * mean_slower,
        };
        let locked = elements.iter_enumerated().filter(|(_, e)| e.place.mode == Mode::Locked);
        let locked: Vec<(ElementId, f64, usize)> =
            locked.map(|(e, info)| (e, own(e), info.place.workers.len())).collect();
        let serial = locked.iter().map(|(e, ns, _)| (*e, *ns)).max_by(|a, b| a.1.total_cmp(&b.1));
        let who_wait = locked.iter().map(|l| l.2).max().unwrap_or(1).min(workers);
        let held: Vec<f64> = locked.iter().map(|l| l.1).collect();
        let all: f64 = loads.iter().sum();
        let share_of_free = share_of_free(who_wait, (all - held.iter().sum::<f64>()).max(0.0), &held);
        let free_mpps = free_mpps(costs, elements, &problem, &items, &homes, &loads);
        Prediction { workers, items, homes, problem, loads, free_mpps, share_of_free, serial }
    }

    fn peak(&self) -> f64 {
        self.loads.iter().copied().fold(f64::MIN_POSITIVE, f64::max)
    }

    /// Packets that leave the router, million for each second.
    pub fn mpps(&self) -> f64 {
        self.free_mpps * self.share_of_free
    }

    /// What holds the rate where it is, in words.
    pub fn limit(&self, shared: &Shared) -> String {
        let peak = self.peak();
        let busiest = self.loads.iter().position(|l| *l >= peak).unwrap_or(0);
        let even = self.loads.iter().all(|l| *l > 0.9 * peak);
        let which = if even { "all workers alike".into() } else { format!("worker {busiest}") };
        let mut text = format!("{which}, {peak:.1} ns for each packet");
        if let Some((e, ns)) = self.serial.filter(|_| self.workers > 1) {
            text += &format!(
                "; {} runs on one worker at a time, {ns:.1} ns, for which the others wait: {:.0} % of the rate",
                shared.elements[e].name,
                100.0 * (1.0 - self.share_of_free)
            );
        }
        text
    }
}

/// Workers that hand packets to each other go on at one rate, that of the busiest. Those that do not, each with devices of its own that
/// bring as much as it takes, go on as fast as they can.
fn free_mpps(
    costs: &Costs,
    elements: &IndexVec<ElementId, ElementInfo>,
    problem: &Problem,
    items: &[ElementId],
    homes: &[usize],
    loads: &[f64],
) -> f64 {
    let peak = |workers: &[usize]| workers.iter().map(|w| loads[*w]).fold(f64::MIN_POSITIVE, f64::max);
    let mut group: Vec<usize> = (0..problem.workers).collect();
    for Link { ends: (a, b), .. } in &problem.links {
        let (a, b) = (group[homes[*a]], group[homes[*b]]);
        group.iter_mut().filter(|g| **g == b).for_each(|g| *g = a);
    }
    if costs.in_proportion {
        group.fill(0);
    }
    // What comes in with each worker's tasks.
    let mut brought = vec![0.0; problem.workers];
    for (e, home) in items.iter().zip(homes).filter(|(e, _)| elements[**e].inputs().is_empty()) {
        brought[*home] += costs.through[*e] / elements[*e].place.tasks.len() as f64;
    }
    let all: f64 = brought.iter().sum();
    let members = |g: usize| (0..problem.workers).filter(|w| group[*w] == g).collect::<Vec<_>>();
    let groups = (0..problem.workers).map(members).filter(|workers| !workers.is_empty());
    let rates = groups.map(|workers| {
        let share = workers.iter().map(|w| brought[*w]).sum::<f64>() / all;
        if share > 0.0 { share * 1e3 / peak(&workers) } else { 0.0 }
    });
    if all > 0.0 { rates.sum() } else { 1e3 / peak(&(0..problem.workers).collect::<Vec<_>>()) }
}

/// Puts what was found in turn in place of what prices of hand-offs say, task by task: each end of its links is so much dearer or
/// cheaper. A task that hands nothing over may pay for what it shares otherwise.
fn correct(problem: &mut Problem, items: &[ElementId], costs: &Costs, tried: &InTurn) {
    let found = |item: usize| {
        let alone = costs.tasks.iter().find(|task| task.element == items[item]).map_or(0.0, |task| task.ns);
        let slower = costs.together.unwrap_or([1.0; 2]);
        tried.tasks.iter().zip(slower).map(|(tasks, slower)| tasks[items[item]] / slower).sum::<f64>() - alone
    };
    let [taken, freed] = problem.frame_costs;
    let frames = |item: &Item| if item.begun > 0.0 { item.begun * taken } else { -item.begun * freed };
    let mut priced: Vec<f64> = problem.items.iter().map(frames).collect();
    for Link { ends: (a, b), costs } in &problem.links {
        priced[*a] += costs[0];
        priced[*b] += costs[1];
    }
    // Of tasks of one element the sum was measured.
    let of = |e: ElementId, values: &[f64]| {
        items.iter().zip(values).filter(|(i, _)| **i == e).map(|(_, v)| v).sum::<f64>()
    };
    let times = |item: usize| {
        let priced = of(items[item], &priced);
        if priced > 0.0 { (found(item) / priced).clamp(0.0, 5.0) } else { 1.0 }
    };
    let (mut frame_all, mut frame_priced) = ([0.0; 2], [0.0; 2]);
    for (i, item) in problem.items.iter().enumerate().filter(|(_, item)| item.begun != 0.0) {
        let side = usize::from(item.begun < 0.0);
        frame_priced[side] += item.begun.abs();
        frame_all[side] += item.begun.abs() * times(i);
    }
    for Link { ends: (a, b), costs } in &mut problem.links {
        costs[0] *= times(*a);
        costs[1] *= times(*b);
    }
    for side in 0..2 {
        if frame_priced[side] > 0.0 {
            problem.frame_costs[side] *= frame_all[side] / frame_priced[side];
        }
    }
    for (i, item) in problem.items.iter_mut().enumerate() {
        if of(items[i], &priced) <= 0.0 {
            let copies = items.iter().filter(|e| **e == items[i]).count() as f64;
            let corrected = item.cost + found(i) / copies;
            // In a short run too few passes may have been timed to say anything.
            if corrected > 0.0 && corrected.is_finite() {
                item.cost = corrected;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::Subject;

    /// A prediction from made-up costs: each task of `text` costs what `costs` says.
    fn predict(text: &str, given: &[(&str, f64)], workers: usize, together: f64) -> Prediction {
        let costs =
            |shared: &Shared| Costs { together: Some([together; 2]), ..Costs::made_up(shared, given) };
        prediction(text, workers, costs)
    }

    fn prediction(text: &str, workers: usize, costs: impl Fn(&Shared) -> Costs) -> Prediction {
        let parsed = lang::load_str("test", text, &elements::options());
        let graph = parsed.graph.expect("a graph");
        let subject = Subject::new(&graph, text).expect("patterns");
        let Ok(router) = subject.build(workers) else { panic!("does not build") };
        let shared = router.shared();
        Prediction::new(&costs(shared), shared, workers, &Handoff::flat(10.0))
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
        assert!(found.mpps() <= 1e3 / 30.0 && found.mpps() > 30.0, "{}", found.mpps());
        // Two seldom meet there.
        let found = predict(text, &[("fd", 100.0)], 2, 1.0);
        assert!((18.0..20.0).contains(&found.mpps()), "{}", found.mpps());
    }

    #[test]
    fn workers_that_share_nothing_go_on_as_fast_as_they_can() {
        let text = "fd :: FromDevice(a) -> Queue -> td :: ToDevice(b)";
        for (in_proportion, mpps) in [(true, 13.333), (false, 16.667)] {
            let found = prediction(text, 2, |shared| Costs {
                together: Some([1.0, 1.5]),
                in_proportion,
                ..Costs::made_up(shared, &[("fd", 80.0), ("td", 20.0)])
            });
            assert!((found.mpps() - mpps).abs() < 0.01, "{in_proportion}: {}", found.mpps());
        }
    }

    #[test]
    fn what_two_paid_in_turn_counts_for_two_and_corrects_prices_for_more() {
        let text = "s :: InfiniteSource -> Queue -> u :: Unqueue -> Discard; StaticThreadSched(s 0, u 1)";
        let costs = |shared: &Shared| {
            let index = |name: &str| shared.lookup(name, None).expect("an element");
            let mut tasks = [0, 1].map(|_| IndexVec::filled(0.0, shared.elements.len()));
            // 5 and 30 more than alone; the price of both is 10.
            tasks[0][index("s")] = 65.0;
            tasks[1][index("u")] = 70.0;
            let in_turn = Some(InTurn { tasks, elements: IndexVec::filled(0.0, shared.elements.len()) });
            Costs { together: Some([1.0; 2]), in_turn, ..Costs::made_up(shared, &[("s", 60.0), ("u", 40.0)]) }
        };
        let two = prediction(text, 2, costs);
        assert_eq!(two.loads, [65.0, 70.0]);
        assert!((two.mpps() - 1e3 / 70.0).abs() < 0.01);
        assert_eq!(
            two.problem.loads(&[0, 1]),
            [65.0, 70.0],
            "a search for placements goes by the same prices"
        );
        assert_eq!(two.problem.loads(&[0, 0]), [100.0, 0.0]);
        assert_eq!(prediction(text, 3, costs).loads, [65.0, 70.0, 0.0]);
    }

    #[test]
    fn what_was_not_timed_in_turn_is_taken_from_prices() {
        let text = "s :: InfiniteSource -> Queue -> u :: Unqueue -> Discard; StaticThreadSched(s 0, u 1)";
        for unknown in [0.0, f64::INFINITY, f64::NAN] {
            let found = prediction(text, 2, |shared| {
                let mut tasks = [0, 1].map(|_| IndexVec::filled(0.0, shared.elements.len()));
                tasks[0][shared.lookup("s", None).expect("an element")] = 65.0;
                tasks[1][shared.lookup("u", None).expect("an element")] = unknown;
                let in_turn = Some(InTurn { tasks, elements: IndexVec::filled(0.0, shared.elements.len()) });
                Costs { in_turn, ..Costs::made_up(shared, &[("s", 60.0), ("u", 40.0)]) }
            });
            assert!((found.mpps() - 1e3 / 70.0).abs() < 0.01, "{unknown}: {}", found.mpps());
        }
    }

    #[test]
    fn what_was_hardly_timed_in_turn_makes_no_task_cheap() {
        let found = prediction("s :: InfiniteSource -> Discard", 4, |shared: &Shared| {
            // Only a few short runs of a task that takes 6 µs a packet were timed.
            let tasks = [0, 1].map(|_| IndexVec::filled(2.0, shared.elements.len()));
            let in_turn = Some(InTurn { tasks, elements: IndexVec::filled(0.0, shared.elements.len()) });
            Costs { in_turn, ..Costs::made_up(shared, &[("s", 6000.0)]) }
        });
        assert!(found.loads.iter().sum::<f64>() > 5999.0, "{:?}", found.loads);
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
