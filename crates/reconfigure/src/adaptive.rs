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
//! has earned 8 %. A large gain comes after two periods, a small one after four. What is worth less than 2 %
//! never comes, nor does anything while no worker is a fifth busy.
//!
//! *Judgement.* In the period after a move its gain is measured: the work that was done (packets, at the prices that their tasks had
//! before) over the load of the busiest worker. With that, a router that was overloaded shows its gain in packets, and
//! one that was not in spare time. Less than a quarter of what was predicted is a contradiction: the tasks go back, and this placement is
//! banned for 30 periods. If the period after the return says that the machine was slower, not the placement, it comes again.
//! When other tasks have the traffic than before, nothing can be said, and the move stays.
//!
//! *Learning.* What each task took under a placement that was tried, compared with what the model expected, teaches what the model does not know of
//! pairs of tasks, and how sure that is ([`learn`]). All predictions count it in.
//!
//! *Trials.* Sometimes nothing promises a gain, no traffic is new, and a worker is half busy at least. A placement is then tried for one
//! period that would gain 2 % if its prediction is off as far as it may well be ([`probe`]). The tasks go back in any case. A machine's speed changes
//! from second to second, so a placement is compared with the mean of the periods before and after it. If these differ much, it
//! is tried again. If it is better, it comes again and stays. The more trials were in vain since one was not, the longer is the time until the next.

mod learn;
mod live;
mod log;
mod probe;
mod trial;

use crate::balance::{Handoff, Item, Link, Problem};
use learn::Learnt;
use probe::Probe;
use trial::{Look, Trial};

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
/// The busiest worker's load from which another placement is tried only to see.
const BUSY: f64 = 0.5;
/// Periods for which no move was due, nor other traffic came, before that.
const CALM: u64 = 5;
/// The most periods between two such trials that brought nothing.
const REST_MAX: u64 = 100;
/// The least gain for which a placement stays that was tried.
const KEEP: f64 = 0.01;

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
    /// What the model misses; nothing while the traffic is unknown.
    learnt: Learnt,
    /// The placement of the last period, and the share of all packets that each task had.
    usual: (Vec<usize>, Vec<f64>),
    /// Two periods under one placement, with one of another between, differ by so much.
    noise: f64,
    /// Trials that brought nothing since the last that did, and when there may be the next.
    vain: u32,
    probe_at: u64,
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
            learnt: Learnt::default(),
            usual: (Vec::new(), Vec::new()),
            noise: NOISE,
            vain: 0,
            probe_at: 0,
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
        self.forget();
    }

    /// Forgets what it has learnt under another traffic.
    fn forget(&mut self) {
        self.learnt = Learnt::default();
        (self.vain, self.probe_at) = (0, self.period + CALM);
    }

    /// Takes note of a period, and says where tasks should run from now on, if that is not where they do.
    pub fn step(&mut self, sample: &Sample) -> Option<Vec<usize>> {
        self.period += 1;
        self.banned.retain(|(_, until)| *until > self.period);
        if self.costs.len() != sample.tasks.len() {
            self.reset();
        }
        self.watch_traffic(sample);
        if let Some(next) = self.judge(sample) {
            return Some(next);
        }
        let problem = self.problem(sample);
        let homes = sample.homes();
        let busy = peak(&sample.loads());
        if sample.workers < 2 || busy < IDLE || homes.iter().any(|w| *w >= sample.workers) {
            self.credit = 0.0;
            return None;
        }
        let rests = self.period < self.rest_until;
        let Some((better, gain)) = self.better(&problem, &homes).filter(|_| !rests) else {
            self.credit = 0.0;
            return self.probe(sample, &problem, &homes);
        };
        self.probe_at = self.probe_at.max(self.period + CALM);
        self.credit += gain.min(CREDIT_OF_PERIOD);
        if self.credit < CREDIT - 1e-9 {
            return None;
        }
        self.credit = 0.0;
        self.begin(sample, &problem, Probe { homes: better, gain, margin: None });
        self.trial.as_ref().map(|trial| trial.homes.clone())
    }

    /// A placement that may be better than the model thinks, now and then.
    fn probe(&mut self, sample: &Sample, problem: &Problem, homes: &[usize]) -> Option<Vec<usize>> {
        if self.period < self.probe_at || self.learnt.is_empty() || peak(&sample.loads()) < BUSY {
            return None;
        }
        let banned = |pattern: &[usize]| self.banned.iter().any(|(homes, _)| homes == pattern);
        let probe = probe::most_promising(problem, &self.learnt, homes, banned)?;
        if probe.gain + probe.margin.unwrap_or(0.0) < LEAST_GAIN {
            return None;
        }
        self.begin(sample, problem, probe);
        self.trial.as_ref().map(|trial| trial.homes.clone())
    }

    /// Forgets what was learnt when other tasks have the packets than before, and it's not because they were moved.
    fn watch_traffic(&mut self, sample: &Sample) {
        let (homes, all) = (sample.homes(), sample.tasks.iter().map(|t| t.packets).sum::<f64>().max(1e-9));
        let shares: Vec<f64> = sample.tasks.iter().map(|t| t.packets / all).collect();
        let limit = if peak(&sample.loads()) < FULL { OTHER_TRAFFIC } else { 2.0 * OTHER_TRAFFIC };
        if self.usual.0 != homes {
            self.usual = (homes, shares);
        } else if shifted(&self.usual.1, &shares) > limit {
            self.usual.1 = shares;
            self.forget();
        }
    }

    /// Whether tasks are where they are only for a trial.
    pub fn is_trying(&self) -> bool {
        self.trial.as_ref().is_some_and(|trial| trial.probe && trial.tried.is_none())
    }

    /// Gives up a trial: where the tasks belong that are at `homes`.
    pub fn give_up(&mut self, homes: &[usize]) -> Option<Vec<usize>> {
        let trying = self.is_trying();
        let trial = self.trial.take().filter(|trial| trying && trial.homes == homes)?;
        self.log.last_to(&trial.homes)?.outcome = Outcome::Unknown;
        Some(trial.before)
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
        if self.learnt.is_empty() {
            let shares: Vec<f64> = self.costs.iter().map(|cost| cost / all.max(1e-9)).collect();
            self.learnt = Learnt::new(&shares);
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
        let mut links: Vec<Link> = sample.flows.iter().map(link).collect();
        links.extend(self.learnt.links(sample.tasks.iter().map(|t| t.busy).sum()));
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

    /// Begins a trial of a placement.
    fn begin(&mut self, sample: &Sample, problem: &Problem, to: Probe) {
        let before = sample.homes();
        let price = |t: &TaskSample| if t.packets > 0.0 { t.busy / t.packets } else { 0.0 };
        let prices: Vec<f64> = sample.tasks.iter().map(price).collect();
        let work = sample.tasks.iter().map(|t| t.busy).sum::<f64>().max(1e-9);
        let paid = paid_by_task(problem, &to.homes).into_iter().zip(paid_by_task(problem, &before));
        self.log.push(Entry {
            at: sample.at,
            moves: moves(sample, &before, &to.homes),
            homes: to.homes.clone(),
            loads: sample.loads(),
            expected: problem.loads(&to.homes),
            predicted: to.gain,
            margin: to.margin,
            observed: None,
            outcome: Outcome::Moved,
        });
        self.trial = Some(Trial {
            probe: to.margin.is_some(),
            first: Look::new(sample, &prices),
            expected: paid.map(|(then, now)| (then - now) / work).collect(),
            predicted: to.gain,
            prices,
            before,
            homes: to.homes,
            tried: None,
            repeated: 0,
        });
    }
}

/// How much of all has gone from some to others.
fn shifted(then: &[f64], now: &[f64]) -> f64 {
    then.iter().zip(now).map(|(then, now)| (then - now).abs()).sum::<f64>() / 2.0
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

/// Which tasks are together, regardless of the workers' names: workers are alike.
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
