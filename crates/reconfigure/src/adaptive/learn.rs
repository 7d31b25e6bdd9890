// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the model misses, learnt from placements that were seen.
//!
//! The model knows what tasks cost and what it costs to hand packets over. It does not know which tasks stand in each other's way in
//! a core's caches, or make each other's batches shorter. So for each pair of tasks one number is learnt: what the first costs more,
//! or less, than the model says, while the second is on another worker. A placement that differs from the one before in some
//! pairs shows, task by task, the sum of these numbers.
//!
//! That is linear regression with a prior, one for each task, done anew with each observation (recursive least squares). It yields
//! the numbers and how sure they are. So it also says for every placement how far its prediction may be off, and thus what is worth
//! a trial.

use crate::balance::Link;

/// More tasks than that teach too little about each pair, and take too long.
const TASKS_MAX: usize = 16;
/// Numbers that are less than this share of all work are left out.
const LEAST: f64 = 2e-4;
/// How much of its own cost a task may be off by for each other task, before anything is known.
const PAIR: f64 = 0.1;

/// One task: what each other task does to its cost when it is elsewhere.
#[derive(Clone, Debug)]
struct Row {
    mean: Vec<f64>,
    /// Rows of a symmetric matrix.
    covariance: Vec<f64>,
}

impl Row {
    fn new(n: usize, deviation: f64) -> Row {
        let mut covariance = vec![0.0; n * n];
        (0..n).for_each(|i| covariance[i * n + i] = deviation * deviation);
        Row { mean: vec![0.0; n], covariance }
    }

    /// The covariance times a vector.
    fn spread(&self, pairs: &[f64]) -> Vec<f64> {
        let dot = |row: &[f64]| row.iter().zip(pairs).map(|(a, b)| a * b).sum();
        self.covariance.chunks(pairs.len()).map(dot).collect()
    }

    fn variance(&self, pairs: &[f64]) -> f64 {
        self.spread(pairs).iter().zip(pairs).map(|(a, b)| a * b).sum::<f64>().max(0.0)
    }

    /// The sum of some pairs' numbers was `missed` more than expected, give or take a deviation.
    fn learn(&mut self, pairs: &[f64], missed: f64, deviation: f64) {
        let n = pairs.len();
        let spread = self.spread(pairs);
        let variance = spread.iter().zip(pairs).map(|(a, b)| a * b).sum::<f64>() + deviation * deviation;
        if variance <= 0.0 {
            return;
        }
        for i in 0..n {
            self.mean[i] += spread[i] * missed / variance;
            (0..n).for_each(|j| self.covariance[i * n + j] -= spread[i] * spread[j] / variance);
        }
    }
}

/// What has been learnt. All numbers are shares of all tasks' work.
#[derive(Clone, Debug, Default)]
pub(super) struct Learnt {
    rows: Vec<Row>,
}

impl Learnt {
    /// Nothing yet, of tasks that take these shares of the work.
    pub(super) fn new(shares: &[f64]) -> Learnt {
        let n = shares.len();
        let rows = shares.iter().map(|share| Row::new(n, PAIR * share));
        Learnt { rows: if n <= TASKS_MAX { rows.collect() } else { Vec::new() } }
    }

    /// Whether it was given no tasks yet, or too many.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What is paid beyond the model by tasks that are apart, if all of them have so much work.
    pub(super) fn links(&self, work: f64) -> Vec<Link> {
        let n = self.rows.len();
        let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
        let link = |(a, b): (usize, usize)| {
            let costs = [self.rows[a].mean[b] * work, self.rows[b].mean[a] * work];
            costs.iter().any(|cost| cost.abs() > LEAST * work).then_some(Link { ends: (a, b), costs })
        };
        pairs.filter_map(link).collect()
    }

    /// How far each worker's predicted share of the work may be off (one standard deviation), if what it is at `from` is known.
    pub(super) fn deviations(&self, from: &[usize], to: &[usize], workers: usize) -> Vec<f64> {
        let mut variances = vec![0.0; workers];
        for (i, row) in self.rows.iter().enumerate() {
            variances[to[i]] += row.variance(&changes(i, from, to));
        }
        variances.into_iter().map(f64::sqrt).collect()
    }

    /// Under `to`, each task took so much more of the work than expected, compared with `from`; and how sure that is.
    pub(super) fn learn(&mut self, from: &[usize], to: &[usize], missed: &[(f64, f64)]) {
        for (i, (row, (missed, deviation))) in self.rows.iter_mut().zip(missed).enumerate() {
            row.learn(&changes(i, from, to), *missed, *deviation);
        }
    }
}

/// Which tasks are apart from task `i` under one placement and were together under the other (1), or the other way round (-1).
fn changes(i: usize, from: &[usize], to: &[usize]) -> Vec<f64> {
    let apart = |homes: &[usize], j: usize| f64::from(u8::from(homes[i] != homes[j]));
    (0..from.len()).map(|j| apart(to, j) - apart(from, j)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_learnt_from_sums() {
        let mut rng = fastrand::Rng::with_seed(3);
        let (n, shares) = (6, [0.3, 0.2, 0.2, 0.1, 0.1, 0.1]);
        let truth: Vec<Vec<f64>> =
            shares.map(|s| (0..n).map(|_| s * 0.1 * (rng.f64() - 0.5)).collect()).to_vec();
        let cost = |i: usize, homes: &[usize]| -> f64 {
            (0..n).filter(|j| homes[*j] != homes[i]).map(|j| truth[i][j]).sum()
        };
        let mut learnt = Learnt::new(&shares);
        let at = vec![0, 0, 0, 1, 1, 1];
        let all: Vec<Vec<usize>> = (0..32).map(|c| (0..n).map(|i| (c >> i) & 1).collect()).collect();
        let predicted = |learnt: &Learnt, i: usize, homes: &[usize]| -> f64 {
            let links = learnt.links(1.0);
            let apart = links.iter().filter(|l| homes[l.ends.0] != homes[l.ends.1]);
            apart
                .map(|l| {
                    if l.ends.0 == i {
                        l.costs[0]
                    } else if l.ends.1 == i {
                        l.costs[1]
                    } else {
                        0.0
                    }
                })
                .sum()
        };
        let errors = |learnt: &Learnt| -> f64 {
            let one = |i: usize, h: &[usize]| {
                let change = predicted(learnt, i, h) - predicted(learnt, i, &at);
                (change - (cost(i, h) - cost(i, &at))).powi(2)
            };
            all.iter().map(|h| (0..n).map(|i| one(i, h)).sum::<f64>()).sum()
        };
        let (before, unsure) = (errors(&learnt), learnt.deviations(&at, &[0; 6], 2));
        assert!(unsure[0] > 0.02 && unsure[1] == 0.0, "{unsure:?}");
        for _ in 0..24 {
            let to = &all[rng.usize(..all.len())];
            let missed = (0..n).map(|i| {
                let change = predicted(&learnt, i, to) - predicted(&learnt, i, &at);
                (cost(i, to) - cost(i, &at) - change, 1e-4)
            });
            let missed: Vec<(f64, f64)> = missed.collect();
            learnt.learn(&at, to, &missed);
        }
        assert!(errors(&learnt) < before / 100.0, "{} of {before}", errors(&learnt));
        assert!(learnt.deviations(&at, &[0; 6], 2)[0] < unsure[0] / 5.0);
        assert_eq!(learnt.deviations(&at, &at, 2), [0.0; 2]);
    }
}
