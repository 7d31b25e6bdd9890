// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adaptive placement: which worker should run which task, decided anew in every period from what the tasks did in the last.
//!
//! ```text
//!  what each task cost, what crossed between workers --> balance --> a better placement? --> credit --> move
//!                                                                                           one period later: as predicted?
//!                                                                                           if not: back, and not again for long
//! ```
//!
//! [`Balancer`] is a pure state machine: it is given a [`Sample`] for each period and answers with homes for the tasks, or
//! with nothing. Reading counters and moving tasks is done by others (`live`), so that all it does can be tested without
//! threads and clocks.
//!
//! *Costs.* A task's busy time holds what it pays for packets that change workers now. That is taken off by price (for packets,
//! the batches they come in, and frames that do not return by themselves: [`Handoff`]), and every placement is charged with what would
//! cross in it ([`balance`](crate::balance)). Which task hands how much to which is counted in those of their runs that are timed.
//!
//! *Credit.* A placement whose busiest worker would have less to do earns its gain in every period, at most 4 %, and comes when it
//! has earned 8 %: a large gain after two periods, a small one when it has been there for four. What is worth less than 2 %
//! never comes, nor does anything while no worker is a fifth busy.
//!
//! *Judgement.* In the period after a move its gain is measured: the work that was done (packets, at the prices that their tasks had
//! before) over the load of the busiest worker. With that, a router that was overloaded shows its gain in packets, and
//! one that was not in spare time. Less than a quarter of what was predicted is a contradiction: the tasks go back, and this placement is
//! banned for 30 periods. When other tasks have the traffic than before, nothing can be said, and the move stays.

mod live;
mod log;

use crate::balance::{Handoff, Item, Link, Problem};

pub(crate) use live::Live;
pub use log::{Entry, Log, Outcome};

/// A placement comes when it has earned this share.
const CREDIT: f64 = 0.08;
/// The most it earns in a period.
const CREDIT_OF_PERIOD: f64 = 0.04;
/// The least gain that earns anything.
const LEAST_GAIN: f64 = 0.02;
/// The busiest worker's load below which nobody needs help.
const IDLE: f64 = 0.2;
/// A task that takes less than this share of all work stays where it is.
const NEGLIGIBLE: f64 = 0.002;
/// Periods for which a placement is not tried again that disappointed.
const BAN: u64 = 30;
/// Periods of rest after such a return.
const REST: u64 = 5;
/// What measurements differ from each other without a reason.
const NOISE: f64 = 0.02;
/// If this share of the work has gone from some tasks to others, it is another traffic.
const OTHER_TRAFFIC: f64 = 0.2;
/// A worker that is that busy takes all packets it can.
const FULL: f64 = 0.95;

/// What one task did in a period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskSample {
    /// Its element.
    pub name: String,
    /// The worker that runs it.
    pub home: usize,
    /// Whether it stays there.
    pub fixed: bool,
    /// The share of the period that its worker spent on it, with all that followed.
    pub busy: f64,
    /// Packets that it moved, for each second.
    pub packets: f64,
}

/// Packets that one task hands to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// The task that brings them.
    pub from: usize,
    /// The one that takes them.
    pub to: usize,
    /// For each second.
    pub packets: f64,
    /// Packets in a batch.
    pub batch: f64,
}

/// What the router did in a period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// When it ended, in seconds.
    pub at: f64,
    /// Tasks; the same and in the same order until [`Balancer::reset`].
    pub tasks: Vec<TaskSample>,
    /// What tasks hand to others.
    pub flows: Vec<Flow>,
    /// Workers that take part.
    pub workers: usize,
}

impl Sample {
    fn homes(&self) -> Vec<usize> {
        self.tasks.iter().map(|t| t.home).collect()
    }

    fn loads(&self) -> Vec<f64> {
        let mut loads = vec![0.0; self.workers];
        self.tasks.iter().filter(|t| t.home < self.workers).for_each(|t| loads[t.home] += t.busy);
        loads
    }
}

/// A move whose gain has not been measured yet.
#[derive(Clone, Debug)]
struct Trial {
    before: Vec<usize>,
    predicted: f64,
    /// What a packet of each task cost before, as share of a second.
    prices: Vec<f64>,
    work: Vec<f64>,
    peak: f64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Balancer {
    handoff: Handoff,
    /// Costs of tasks, smoothed.
    costs: Vec<f64>,
    credit: f64,
    trial: Option<Trial>,
    period: u64,
    rest_until: u64,
    /// Placements that disappointed, and until when they are not tried again.
    banned: Vec<(Vec<usize>, u64)>,
    /// What was done, and why.
    pub log: Log,
}

impl Default for Balancer {
    fn default() -> Self {
        Balancer {
            handoff: Handoff::USUAL,
            costs: Vec::new(),
            credit: 0.0,
            trial: None,
            period: 0,
            rest_until: 0,
            banned: Vec::new(),
            log: Log::default(),
        }
    }
}

/// The load of the busiest worker; never 0, so that one can divide by it.
fn peak(loads: &[f64]) -> f64 {
    loads.iter().copied().fold(1e-9, f64::max)
}

impl Balancer {
    /// What handing packets over costs, from now on.
    pub fn set_handoff(&mut self, handoff: Handoff) {
        self.handoff = handoff;
    }

    /// What it reckons with.
    pub fn handoff(&self) -> Handoff {
        self.handoff
    }

    /// Forgets what it knows of the tasks: there are others.
    pub fn reset(&mut self) {
        self.costs.clear();
        self.banned.clear();
        (self.credit, self.trial) = (0.0, None);
    }

    /// Takes note of a period, and says where tasks should run from now on, if that is not where they do.
    pub fn step(&mut self, sample: &Sample) -> Option<Vec<usize>> {
        self.period += 1;
        self.banned.retain(|(_, until)| *until > self.period);
        if self.costs.len() != sample.tasks.len() {
            self.reset();
        }
        if let Some(back) = self.judge(sample) {
            return Some(back);
        }
        let problem = self.problem(sample);
        let homes = sample.homes();
        let quiet = peak(&sample.loads()) < IDLE || self.period < self.rest_until;
        if sample.workers < 2 || quiet || homes.iter().any(|w| *w >= sample.workers) {
            self.credit = 0.0;
            return None;
        }
        let Some((better, gain)) = self.better(&problem, &homes) else {
            self.credit = 0.0;
            return None;
        };
        self.credit += gain.min(CREDIT_OF_PERIOD);
        if self.credit < CREDIT - 1e-9 {
            return None;
        }
        self.credit = 0.0;
        self.begin(sample, &problem, &better, gain);
        Some(better)
    }

    /// A move that was asked for could not be made.
    pub fn refused(&mut self, why: &str) {
        self.trial = None;
        if let Some(entry) = self.log.last_mut() {
            entry.outcome = Outcome::Refused(why.to_owned());
            let homes = pattern(&entry.homes);
            self.banned.push((homes, self.period + BAN));
        }
    }

    /// What the tasks cost and hand to each other, apart from what is paid for hand-offs now.
    fn problem(&mut self, sample: &Sample) -> Problem {
        let mut problem = self.paid(sample);
        let paid: Vec<f64> = paid_by_task(&problem, &sample.homes());
        let costs: Vec<f64> = sample.tasks.iter().zip(paid).map(|(task, paid)| task.busy - paid).collect();
        let all: f64 = sample.tasks.iter().map(|t| t.busy).sum();
        // What cost a task has can't be less than this part of what it was busy: the rest was taken for hand-offs.
        let least = |i: usize| sample.tasks[i].busy * 0.1;
        let costs: Vec<f64> = costs.iter().enumerate().map(|(i, c)| c.max(least(i))).collect();
        if self.costs.len() == costs.len() {
            for (known, now) in self.costs.iter_mut().zip(&costs) {
                // Noise is smoothed, other traffic is believed at once.
                let jump = (*known - now).abs() > 0.01 * all;
                *known = if jump { *now } else { (*known + now) / 2.0 };
            }
        } else {
            self.costs = costs;
        }
        for ((item, task), cost) in problem.items.iter_mut().zip(&sample.tasks).zip(&self.costs) {
            let fixed = task.fixed || *cost < NEGLIGIBLE * all;
            (item.cost, item.fixed) = (*cost, fixed.then_some(task.home));
        }
        problem
    }

    /// What tasks hand to each other, at its price; they themselves cost nothing.
    fn paid(&self, sample: &Sample) -> Problem {
        let seconds = |ns: [f64; 2], packets: f64| ns.map(|ns| ns * 1e-9 * packets);
        let mut items = vec![Item { cost: 0.0, fixed: None, begun: 0.0 }; sample.tasks.len()];
        let link = |flow: &Flow| {
            items[flow.from].begun += flow.packets;
            items[flow.to].begun -= flow.packets;
            Link { ends: (flow.from, flow.to), costs: seconds(self.handoff.ns(flow.batch), flow.packets) }
        };
        let links = sample.flows.iter().map(link).collect();
        Problem {
            items,
            links,
            frame_costs: seconds(self.handoff.memory_ns, 1.0),
            workers: sample.workers.max(1),
        }
    }

    /// A placement that is worth its while and not banned, and its gain.
    fn better(&self, problem: &Problem, homes: &[usize]) -> Option<(Vec<usize>, f64)> {
        let now = problem.peak(homes);
        let near = problem.refine(homes.to_vec());
        let far = alike(problem, problem.solve(None), homes);
        // What moves less is preferred if it is as good.
        let best = problem.peak(&near).min(problem.peak(&far));
        let mut candidates = [near, far];
        if problem.peak(&candidates[0]) > best * 1.005 {
            candidates.reverse();
        }
        candidates.into_iter().find_map(|candidate| {
            let candidate = fewer_moves(problem, candidate, homes);
            let gain = now / problem.peak(&candidate).max(1e-9) - 1.0;
            let pattern = pattern(&candidate);
            let banned = self.banned.iter().any(|(homes, _)| *homes == pattern);
            (gain >= LEAST_GAIN && !banned).then_some((candidate, gain))
        })
    }

    fn begin(&mut self, sample: &Sample, problem: &Problem, better: &[usize], gain: f64) {
        let before = sample.homes();
        let price = |t: &TaskSample| if t.packets > 0.0 { t.busy / t.packets } else { 0.0 };
        self.trial = Some(Trial {
            prices: sample.tasks.iter().map(price).collect(),
            work: sample.tasks.iter().map(|t| t.busy).collect(),
            peak: peak(&sample.loads()),
            predicted: gain,
            before: before.clone(),
        });
        let moves = moves(sample, &before, better);
        self.log.push(Entry {
            at: sample.at,
            moves,
            homes: better.to_vec(),
            loads: sample.loads(),
            expected: problem.loads(better),
            predicted: gain,
            observed: None,
            outcome: Outcome::Moved,
        });
    }

    /// Compares the last move's gain with what was predicted; the way back if it disappointed.
    fn judge(&mut self, sample: &Sample) -> Option<Vec<usize>> {
        let trial = self.trial.take()?;
        let work: Vec<f64> = sample.tasks.iter().zip(&trial.prices).map(|(t, p)| t.packets * p).collect();
        let (before, after) = (trial.work.iter().sum::<f64>().max(1e-9), work.iter().sum::<f64>());
        let loads = sample.loads();
        let observed = (after / peak(&loads)) / (before / trial.peak) - 1.0;
        let share = |(then, now): (&f64, &f64)| (then / before - now / after.max(1e-9)).abs();
        let shifted = trial.work.iter().zip(&work).map(share).sum::<f64>() / 2.0;
        let other = (shifted > OTHER_TRAFFIC && peak(&loads) < FULL) || peak(&loads) < IDLE;
        let now = sample.homes();
        let entry = self.log.last_mut()?;
        entry.observed = Some(observed);
        // Somebody else has moved tasks meanwhile.
        if now != entry.homes || other {
            entry.outcome = Outcome::Unknown;
            return None;
        }
        if observed >= trial.predicted / 4.0 - NOISE {
            entry.outcome = Outcome::Kept;
            return None;
        }
        entry.outcome = Outcome::Disappointed;
        self.banned.push((pattern(&now), self.period + BAN));
        self.rest_until = self.period + REST;
        self.credit = 0.0;
        self.log.push(Entry {
            at: sample.at,
            moves: moves(sample, &now, &trial.before),
            homes: trial.before.clone(),
            loads,
            expected: Vec::new(),
            predicted: 0.0,
            observed: None,
            outcome: Outcome::Returned,
        });
        Some(trial.before)
    }
}

/// What each task pays for hand-offs under a placement. What a worker pays for frames is shared among those that begin more than they
/// end, or end more than they begin, whichever they are too many of.
fn paid_by_task(problem: &Problem, homes: &[usize]) -> Vec<f64> {
    let mut paid = vec![0.0; problem.items.len()];
    for Link { ends: (a, b), costs } in problem.links.iter().filter(|l| homes[l.ends.0] != homes[l.ends.1]) {
        paid[*a] += costs[0];
        paid[*b] += costs[1];
    }
    for worker in 0..problem.workers {
        let here = || (0..homes.len()).filter(|i| homes[*i] == worker);
        let begun: f64 = here().map(|i| problem.items[i].begun).sum();
        let price = if begun > 0.0 { problem.frame_costs[0] } else { problem.frame_costs[1] };
        let same = |i: &usize| problem.items[*i].begun * begun > 0.0;
        let all: f64 = here().filter(same).map(|i| problem.items[i].begun).sum();
        here().filter(same).for_each(|i| paid[i] += begun.abs() * price * problem.items[i].begun / all);
    }
    paid
}

fn moves(sample: &Sample, from: &[usize], to: &[usize]) -> Vec<(String, usize, usize)> {
    let each = sample.tasks.iter().zip(from.iter().zip(to));
    each.filter(|(_, (a, b))| a != b).map(|(t, (a, b))| (t.name.clone(), *a, *b)).collect()
}

/// Who is together with whom, whatever the workers are called: they are alike.
fn pattern(homes: &[usize]) -> Vec<usize> {
    let mut names: Vec<usize> = Vec::new();
    let mut name = |w: &usize| {
        names.iter().position(|n| n == w).unwrap_or_else(|| {
            names.push(*w);
            names.len() - 1
        })
    };
    homes.iter().map(&mut name).collect()
}

/// The same placement with workers renamed so that most work stays where it is.
fn alike(problem: &Problem, placed: Vec<usize>, homes: &[usize]) -> Vec<usize> {
    if problem.items.iter().any(|i| i.fixed.is_some()) {
        return placed;
    }
    let n = problem.workers;
    let mut overlap = vec![0.0; n * n];
    for ((item, new), old) in problem.items.iter().zip(&placed).zip(homes) {
        overlap[new * n + old] += item.cost;
    }
    let mut pairs: Vec<usize> = (0..n * n).collect();
    pairs.sort_by(|a, b| overlap[*b].total_cmp(&overlap[*a]));
    let (mut names, mut taken) = (vec![None; n], vec![false; n]);
    for (new, old) in pairs.into_iter().map(|p| (p / n, p % n)) {
        if names[new].is_none() && !taken[old] {
            (names[new], taken[old]) = (Some(old), true);
        }
    }
    placed.into_iter().map(|w| names[w].unwrap_or(w)).collect()
}

/// The same without the moves that bring next to nothing.
fn fewer_moves(problem: &Problem, mut placed: Vec<usize>, homes: &[usize]) -> Vec<usize> {
    let most = problem.peak(&placed) * 1.002;
    for i in 0..placed.len() {
        let new = std::mem::replace(&mut placed[i], homes[i]);
        if problem.peak(&placed) > most {
            placed[i] = new;
        }
    }
    placed
}

#[cfg(test)]
mod tests;
