// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which placement is worth a trial: the one that would be best if the model is as wrong about it as it may well be.

use super::learn::Learnt;
use super::{alike, pattern, peak};
use crate::balance::Problem;

/// Standard deviations by which a prediction may be off.
const DEVIATIONS: f64 = 1.5;
/// The most placements that are all looked at.
const ALL: usize = 1 << 10;

/// A placement, and the gain that it promises.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub(super) homes: Vec<usize>,
    /// As predicted.
    pub(super) gain: f64,
    /// How much more it may be, which is the reason for a trial.
    pub(super) margin: Option<f64>,
}

/// The most promising placement but for `homes`.
pub(super) fn most_promising(
    problem: &Problem,
    learnt: &Learnt,
    homes: &[usize],
    banned: impl Fn(&[usize]) -> bool,
) -> Option<Probe> {
    let (now, here) = (problem.peak(homes), pattern(homes));
    let work: f64 = problem.loads(homes).iter().sum();
    let probe = |to: Vec<usize>| {
        let loads = problem.loads(&to);
        let deviations = learnt.deviations(homes, &to, problem.workers);
        let lucky: Vec<f64> =
            loads.iter().zip(deviations).map(|(load, d)| load - DEVIATIONS * d * work).collect();
        let gain = now / peak(&loads) - 1.0;
        (now / peak(&lucky) - 1.0, gain, to)
    };
    let others = candidates(problem, homes).into_iter().filter(|to| {
        let to = pattern(to);
        to != here && !banned(&to)
    });
    let (best, gain, to) = others.map(probe).max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(Probe { homes: alike(problem, to, homes), gain, margin: Some(best - gain) })
}

/// All placements if they are few, else those that one move or one exchange makes.
fn candidates(problem: &Problem, homes: &[usize]) -> Vec<Vec<usize>> {
    let free: Vec<usize> = (0..homes.len()).filter(|i| problem.items[*i].fixed.is_none()).collect();
    // Workers are alike as long as nothing is tied to one: the first task may stay where it is.
    let placed = &free[usize::from(free.len() == homes.len()).min(free.len())..];
    let workers = problem.workers;
    if let Some(all) = workers.checked_pow(placed.len() as u32).filter(|all| *all <= ALL) {
        let place = |mut code: usize| {
            let mut to = homes.to_vec();
            for i in placed {
                to[*i] = code % workers;
                code /= workers;
            }
            to
        };
        return (0..all).map(place).collect();
    }
    let with = |changes: &[(usize, usize)]| {
        let mut to = homes.to_vec();
        changes.iter().for_each(|(i, w)| to[*i] = *w);
        to
    };
    let moves = free.iter().flat_map(|i| (0..workers).map(|w| with(&[(*i, w)])));
    let pairs = free.iter().flat_map(|i| free.iter().filter(move |j| *j > i).map(move |j| (*i, *j)));
    moves.chain(pairs.map(|(i, j)| with(&[(i, homes[j]), (j, homes[i])]))).collect()
}
