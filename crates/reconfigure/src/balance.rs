// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which worker should run which task, if costs are known: packing with a price on every packet that changes workers.
//!
//! Chen and Morris ("Flexible Control of Parallelism in a Multiprocessor PC Router", 2001) put the most expensive task on the
//! least loaded worker, then the next. That ignores what it costs two workers to hand packets to each other, so it pulls pairs
//! apart that were better left together. Here that packing is only where the search begins: single moves and exchanges
//! follow, as long as they lower the load of the busiest worker, hand-offs included.

use std::fmt;
use std::str::FromStr;

/// A task to be placed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Item {
    /// What it costs a worker, in any unit (nanoseconds for each packet, cycles for each second).
    pub cost: f64,
    /// The only worker that may run it.
    pub fixed: Option<usize>,
    /// Packets that begin with it less those that end, which is what it hands to other tasks less what it takes from them.
    pub begun: f64,
}

/// Two tasks one of which hands packets to the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The tasks, as indices of the items.
    pub ends: (usize, usize),
    /// What their workers pay, each of them, if they are two.
    pub costs: [f64; 2],
}

impl Link {
    /// Of two tasks whose workers pay the same.
    pub fn even(ends: (usize, usize), cost: f64) -> Link {
        Link { ends, costs: [cost; 2] }
    }
}

/// What a packet costs two workers one of which hands it to the other, in nanoseconds beyond what the same costs on one core. Each
/// pair is of the worker that brings it and the one that takes it. `junctor bench handoff` measures them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Handoff {
    /// For each packet.
    pub per_packet_ns: [f64; 2],
    /// For each batch.
    pub per_batch_ns: [f64; 2],
    /// For each frame that a worker needs beyond those that end with it, or frees beyond those that begin with it: these
    /// return from one to the other through the common pool.
    pub memory_ns: [f64; 2],
}

impl Handoff {
    /// If nobody has measured it: what the machines at hand took.
    pub const USUAL: Handoff =
        Handoff { per_packet_ns: [2.0, 5.0], per_batch_ns: [60.0, 190.0], memory_ns: [14.0, 2.0] };

    /// The same for each packet and both sides, for batches of any size.
    pub fn flat(ns: f64) -> Handoff {
        Handoff { per_packet_ns: [ns; 2], per_batch_ns: [0.0; 2], memory_ns: [0.0; 2] }
    }

    /// How its textual form is to be written.
    pub const FORM: &str = "nanoseconds for each packet, or six numbers: for each packet, for each batch and for each frame, \
                            of the worker that brings it and the one that takes it";

    /// What each side pays for a packet that is handed over in batches of this size.
    pub fn ns(&self, batch: f64) -> [f64; 2] {
        [0, 1].map(|side| self.per_packet_ns[side] + self.per_batch_ns[side] / batch.max(1.0))
    }
}

/// As `balancer.handoff_ns` has it: six numbers.
impl fmt::Display for Handoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [[a, b], [c, d], [e, g]] = [self.per_packet_ns, self.per_batch_ns, self.memory_ns];
        write!(f, "{a:.1} {b:.1} {c:.1} {d:.1} {e:.1} {g:.1}")
    }
}

/// Six numbers, or one for each packet alone, in nanoseconds.
impl FromStr for Handoff {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Handoff, &'static str> {
        let number = |word: &str| word.parse().ok().filter(|ns| (0.0..1e6).contains(ns));
        match text.split_whitespace().map(number).collect::<Option<Vec<f64>>>().as_deref() {
            Some([ns]) => Ok(Handoff::flat(*ns)),
            Some([a, b, c, d, e, f]) => {
                Ok(Handoff { per_packet_ns: [*a, *b], per_batch_ns: [*c, *d], memory_ns: [*e, *f] })
            }
            _ => Err(Handoff::FORM),
        }
    }
}

/// Tasks, what they hand to each other, and how many workers there are.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The tasks.
    pub items: Vec<Item>,
    /// What they hand to each other.
    pub links: Vec<Link>,
    /// What a worker pays for a packet that begins with it and ends with another, and for one the other way round, as far as
    /// these do not make up for each other: frames stay where packets end.
    pub frame_costs: [f64; 2],
    /// Workers, at least one.
    pub workers: usize,
}

/// With at most that many tasks, times workers, all pairs of moves are looked at.
const FEW: usize = 64;

/// The most placements that are all looked at.
const ALL: usize = 1 << 12;

/// What it costs to split a pair that is moved as one, as a share of the busiest worker's load, at least.
const MUCH: f64 = 0.005;

/// How bad a placement is: the load of the busiest worker, then the sum of squares, which distinguishes two placements with the same
/// busiest worker.
type Badness = (f64, f64);

fn worse(a: Badness, b: Badness) -> bool {
    const EPSILON: f64 = 1e-9;
    a.0 > b.0 * (1.0 + EPSILON) || (a.0 >= b.0 * (1.0 - EPSILON) && a.1 > b.1 * (1.0 + EPSILON))
}

impl Problem {
    /// The load of each worker under a placement: `homes[i]` runs item `i`.
    pub fn loads(&self, homes: &[usize]) -> Vec<f64> {
        let mut loads = vec![0.0; self.workers.max(1)];
        self.fill(homes, &mut loads);
        loads
    }

    /// Adds up the loads, which are 0 before.
    fn fill(&self, homes: &[usize], loads: &mut [f64]) {
        for (item, home) in self.items.iter().zip(homes) {
            loads[*home] += item.cost;
        }
        for Link { ends: (a, b), costs } in &self.links {
            if homes[*a] != homes[*b] {
                loads[homes[*a]] += costs[0];
                loads[homes[*b]] += costs[1];
            }
        }
        if self.frame_costs != [0.0; 2] {
            let [taken, freed] = self.frame_costs;
            for (worker, load) in loads.iter_mut().enumerate() {
                let here = self.items.iter().zip(homes).filter(|(_, home)| **home == worker);
                let begun: f64 = here.map(|(item, _)| item.begun).sum();
                *load += if begun > 0.0 { begun * taken } else { -begun * freed };
            }
        }
    }

    fn badness(&self, homes: &[usize]) -> Badness {
        // The search asks this many thousand times: mostly there is no need to allocate.
        let (mut few, mut many) = ([0.0; 16], Vec::new());
        let loads = match few.get_mut(..self.workers.max(1)) {
            Some(few) => few,
            None => {
                many.resize(self.workers, 0.0);
                &mut many[..]
            }
        };
        self.fill(homes, loads);
        (loads.iter().copied().fold(0.0, f64::max), loads.iter().map(|l| l * l).sum())
    }

    /// The load of the busiest worker.
    pub fn peak(&self, homes: &[usize]) -> f64 {
        self.badness(homes).0
    }

    fn allows(&self, item: usize, worker: usize) -> bool {
        self.items[item].fixed.is_none_or(|w| w.min(self.workers - 1) == worker)
    }

    /// Largest first, each onto the least loaded worker: what the study does, blind for hand-offs.
    pub fn largest_first(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.items.len()).collect();
        order.sort_by(|a, b| self.items[*b].cost.total_cmp(&self.items[*a].cost));
        let mut loads = vec![0.0; self.workers];
        let mut homes = vec![0; self.items.len()];
        // What cannot be moved lies where it lies before anything is moved towards it.
        order.sort_by_key(|i| self.items[*i].fixed.is_none());
        for i in order {
            let allowed = (0..self.workers).filter(|w| self.allows(i, *w));
            homes[i] = allowed.min_by(|a, b| f64::total_cmp(&loads[*a], &loads[*b])).unwrap_or(0);
            loads[homes[i]] += self.items[i].cost;
        }
        homes
    }

    /// A good placement: the best that the search finds from `current` and from the packing, the first of equals.
    pub fn solve(&self, current: Option<&[usize]>) -> Vec<usize> {
        let together: Vec<usize> =
            self.items.iter().map(|i| i.fixed.map_or(0, |w| w.min(self.workers - 1))).collect();
        let starts = [current.map(<[usize]>::to_vec), Some(self.largest_first()), Some(together)];
        let found = starts
            .into_iter()
            .flatten()
            .chain(self.at_random())
            .chain(self.best_of_all())
            .map(|start| self.refine(start));
        found
            .reduce(|best, other| if worse(self.badness(&best), self.badness(&other)) { other } else { best })
            .unwrap_or_default()
    }

    /// The best placement there is, if there are few enough to look at all.
    fn best_of_all(&self) -> Option<Vec<usize>> {
        let free: Vec<usize> = (0..self.items.len()).filter(|i| self.items[*i].fixed.is_none()).collect();
        // Workers are alike as long as nothing is tied to one: the first task may stay on the first.
        let placed = &free[usize::from(free.len() == self.items.len()).min(free.len())..];
        let all = self.workers.checked_pow(placed.len() as u32).filter(|n| *n <= ALL)?;
        let mut homes: Vec<usize> =
            self.items.iter().map(|i| i.fixed.map_or(0, |w| w.min(self.workers - 1))).collect();
        let mut best = (self.badness(&homes), homes.clone());
        for mut code in 1..all {
            for i in placed {
                homes[*i] = code % self.workers;
                code /= self.workers;
            }
            let badness = self.badness(&homes);
            if worse(best.0, badness) {
                best = (badness, homes.clone());
            }
        }
        Some(best.1)
    }

    /// Placements by chance, always the same: where the search would get stuck from one side, it may not from another. The fewer, the
    /// longer each takes.
    fn at_random(&self) -> impl Iterator<Item = Vec<usize>> + '_ {
        let n = match self.items.len() {
            0..=24 => 4,
            25..=64 => 2,
            _ => 0,
        };
        let mut rng = fastrand::Rng::with_seed(1);
        (0..n).map(move |_| {
            let place =
                |i: &Item| i.fixed.map_or_else(|| rng.usize(..self.workers), |w| w.min(self.workers - 1));
            self.items.iter().map(place).collect()
        })
    }

    /// Moves and exchanges items, each time the change that helps most, until none helps.
    pub fn refine(&self, mut homes: Vec<usize>) -> Vec<usize> {
        let mut best = self.badness(&homes);
        // Each step lowers the badness, so this ends; the bound keeps it short for hundreds of tasks.
        for _ in 0..10 * self.items.len().max(1) {
            let mut step: Option<Vec<(usize, usize)>> = None;
            let much = best.0 * MUCH;
            let mut consider = |change: Vec<(usize, usize)>, homes: &mut Vec<usize>| {
                let before: Vec<usize> = change.iter().map(|(i, _)| homes[*i]).collect();
                change.iter().for_each(|(i, w)| homes[*i] = *w);
                let badness = self.badness(homes);
                change.iter().zip(before).for_each(|((i, _), w)| homes[*i] = w);
                if worse(best, badness) {
                    best = badness;
                    step = Some(change);
                }
            };
            for i in 0..self.items.len() {
                for w in (0..self.workers).filter(|w| self.allows(i, *w)) {
                    if homes[i] != w {
                        consider(vec![(i, w)], &mut homes);
                    }
                }
                for j in i + 1..self.items.len() {
                    let (a, b) = (homes[i], homes[j]);
                    if a != b && self.allows(i, b) && self.allows(j, a) {
                        consider(vec![(i, b), (j, a)], &mut homes);
                    }
                }
            }
            // Two at once, each anywhere, where there are few: what one of them makes room for, the other takes.
            let few = self.items.len() * self.workers <= FEW;
            for i in 0..if few { self.items.len() } else { 0 } {
                for j in i + 1..self.items.len() {
                    for (v, w) in
                        (0..self.workers * self.workers).map(|c| (c / self.workers, c % self.workers))
                    {
                        if homes[i] != v && homes[j] != w && self.allows(i, v) && self.allows(j, w) {
                            consider(vec![(i, v), (j, w)], &mut homes);
                        }
                    }
                }
            }
            // A pair that costs much to split moves as one.
            for Link { ends: (i, j), .. } in self.links.iter().filter(|l| l.costs[0] + l.costs[1] > much) {
                for w in (0..self.workers).filter(|w| self.allows(*i, *w) && self.allows(*j, *w)) {
                    consider(vec![(*i, w), (*j, w)], &mut homes);
                }
            }
            let Some(change) = step else { break };
            change.into_iter().for_each(|(i, w)| homes[i] = w);
        }
        homes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(costs: &[f64], links: &[(usize, usize, f64)], workers: usize) -> Problem {
        let items = costs.iter().map(|cost| Item { cost: *cost, fixed: None, begun: 0.0 }).collect();
        let links = links.iter().map(|(a, b, cost)| Link::even((*a, *b), *cost)).collect();
        Problem { items, links, frame_costs: [0.0; 2], workers }
    }

    /// The least peak of all placements there are.
    fn exhaustive(problem: &Problem) -> f64 {
        let n = problem.items.len();
        let all = problem.workers.pow(n as u32);
        let homes = |mut code: usize| -> Vec<usize> {
            (0..n)
                .map(|_| {
                    let home = code % problem.workers;
                    code /= problem.workers;
                    home
                })
                .collect()
        };
        (0..all).map(|code| problem.peak(&homes(code))).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn within_three_percent_of_the_best_there_is() {
        let mut rng = fastrand::Rng::with_seed(7);
        let (mut ours, mut blind, mut best) = (0.0, 0.0, 0.0);
        for case in 0..60 {
            let n = rng.usize(2..=9);
            let costs: Vec<f64> = (0..n).map(|_| 1.0 + rng.f64() * rng.f64() * 20.0).collect();
            let links: Vec<(usize, usize, f64)> = (0..rng.usize(0..2 * n))
                .map(|_| (rng.usize(..n), rng.usize(..n), rng.f64() * 3.0))
                .filter(|(a, b, _)| a != b)
                .collect();
            let p = problem(&costs, &links, rng.usize(2..=3));
            let (found, least) = (p.peak(&p.solve(None)), exhaustive(&p));
            assert!(found <= least * 1.12, "case {case}: {found} against {least}: {p:?}");
            ours += found;
            blind += p.peak(&p.largest_first());
            best += least;
        }
        assert!(ours <= best * 1.01, "{ours} against {best}");
        assert!(blind >= best * 1.05, "hand-offs matter here: {blind} against {best}");
    }

    /// The study's 12 streams: each of 4 hosts sends to the 3 others. A receiving task hands a third of its packets to
    /// each sending task of another host.
    #[test]
    fn twelve_uneven_streams() {
        for workers in [2, 3, 4] {
            let receive = [12.0, 6.0, 4.0, 2.0];
            let send = [4.0, 5.0, 3.0, 2.5];
            let costs: Vec<f64> = receive.into_iter().chain(send).collect();
            let links: Vec<(usize, usize, f64)> = (0..4)
                .flat_map(|from| {
                    (0..4).filter(move |to| *to != from).map(move |to| (from, 4 + to, receive[from] / 12.0))
                })
                .collect();
            let p = problem(&costs, &links, workers);
            let (found, least) = (p.peak(&p.solve(None)), exhaustive(&p));
            assert!(found <= least * 1.03, "{workers} workers: {found} against {least}");
            assert!(found <= p.peak(&p.largest_first()));
        }
    }

    #[test]
    fn frames_cost_what_does_not_return() {
        // One begins what two end.
        let mut p = problem(&[60.0, 40.0, 20.0], &[], 2);
        p.frame_costs = [10.0, 2.0];
        for (item, begun) in p.items.iter_mut().zip([1.0, 0.0, -1.0]) {
            item.begun = begun;
        }
        for (homes, want) in [([0, 0, 0], [120.0, 0.0]), ([0, 1, 0], [80.0, 40.0]), ([0, 1, 1], [70.0, 62.0])]
        {
            assert_eq!(p.loads(&homes), want, "{homes:?}");
        }
        // Each sends to the other: frames go both ways.
        let mut p = problem(&[30.0, 5.0, 30.0, 5.0], &[], 2);
        p.frame_costs = [10.0, 2.0];
        for (item, begun) in p.items.iter_mut().zip([1.0, -1.0, 1.0, -1.0]) {
            item.begun = begun;
        }
        assert_eq!(p.loads(&[0, 1, 1, 0]), [35.0, 35.0]);
    }

    #[test]
    fn batches_share_a_price() {
        let handoff = Handoff { per_packet_ns: [2.0, 5.0], per_batch_ns: [80.0, 160.0], memory_ns: [0.0; 2] };
        assert_eq!((handoff.ns(32.0), handoff.ns(0.0)), ([4.5, 10.0], [82.0, 165.0]));
        assert_eq!(Handoff::flat(12.0).ns(1.0), [12.0; 2]);
        assert_eq!(handoff.to_string(), "2.0 5.0 80.0 160.0 0.0 0.0");
        assert_eq!((handoff.to_string().parse(), "12".parse()), (Ok(handoff), Ok(Handoff::flat(12.0))));
        for bad in ["", "-1", "1 2 3", "1e9", "x"] {
            assert_eq!(bad.parse::<Handoff>(), Err(Handoff::FORM), "{bad}");
        }
    }

    #[test]
    fn a_dear_link_keeps_a_pair_together_and_fixed_items_stay() {
        let p = problem(&[5.0, 5.0], &[(0, 1, 6.0)], 2);
        let homes = p.solve(None);
        assert_eq!(homes[0], homes[1]);
        let mut p = problem(&[5.0, 1.0, 1.0], &[], 2);
        p.items[0].fixed = Some(1);
        assert_eq!(p.solve(None), [1, 0, 0]);
        // The placement there is stays if nothing is better.
        let p = problem(&[3.0, 3.0], &[], 2);
        assert_eq!(p.solve(Some(&[1, 0])), [1, 0]);
        assert!(problem(&[], &[], 4).solve(None).is_empty());
    }
}
