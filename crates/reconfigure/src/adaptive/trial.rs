// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a move gained what was promised: one period compared with the periods around it.

use super::{
    BAN, Balancer, Entry, FULL, IDLE, KEEP, NOISE, OTHER_TRAFFIC, Outcome, REST, REST_MAX, Sample, moves,
    pattern, peak, shifted,
};

/// If the periods before and after a trial differ by so much (a logarithm), nothing can be said.
const UNCLEAR: f64 = 0.15;
/// How often it is repeated then.
const REPEATED_MAX: u32 = 3;

/// What a period showed, for each unit of the work that was done in it: packets at the prices that their tasks had before.
#[derive(Clone, Debug)]
pub(super) struct Look {
    /// Time of each task.
    pub(super) tasks: Vec<f64>,
    /// Time of the busiest worker.
    pub(super) peak: f64,
    /// Each task's share of the work.
    shares: Vec<f64>,
    /// The share of its time for which the busiest worker was busy.
    busy: f64,
}

impl Look {
    pub(super) fn new(sample: &Sample, prices: &[f64]) -> Look {
        let work: Vec<f64> = sample.tasks.iter().zip(prices).map(|(t, price)| t.packets * price).collect();
        let all = work.iter().sum::<f64>().max(1e-9);
        let busy = peak(&sample.loads());
        Look {
            tasks: sample.tasks.iter().map(|t| t.busy / all).collect(),
            peak: busy / all,
            shares: work.iter().map(|w| w / all).collect(),
            busy,
        }
    }

    /// Between two.
    fn mean(&self, other: &Look) -> Look {
        let tasks = self.tasks.iter().zip(&other.tasks).map(|(a, b)| (a + b) / 2.0).collect();
        Look { tasks, peak: (self.peak + other.peak) / 2.0, ..self.clone() }
    }
}

/// A placement that was left for another, until the other's gain is known.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    /// It was made only to see, and goes back after any outcome.
    pub(super) probe: bool,
    pub(super) before: Vec<usize>,
    pub(super) homes: Vec<usize>,
    /// The gain.
    pub(super) predicted: f64,
    /// What each task is expected to take more, as share of all work.
    pub(super) expected: Vec<f64>,
    /// What a packet of each task cost before, as share of a second.
    pub(super) prices: Vec<f64>,
    /// The period before.
    pub(super) first: Look,
    /// How often it was done again, because the machine's speed changed.
    pub(super) repeated: u32,
    /// The period under the other placement, once that is over and the tasks are back.
    pub(super) tried: Option<Look>,
}

impl Balancer {
    /// Compares what was measured with what was predicted. Says where tasks go now, if that is known.
    pub(super) fn judge(&mut self, sample: &Sample) -> Option<Vec<usize>> {
        let mut trial = self.trial.take()?;
        let now = Look::new(sample, &trial.prices);
        let other = shifted(&trial.first.shares, &now.shares) > OTHER_TRAFFIC && now.busy < FULL;
        let back = trial.tried.is_some();
        let strange = sample.homes() != *if back { &trial.before } else { &trial.homes };
        if strange || other || now.busy < IDLE {
            self.entry_of(&trial)?.outcome = Outcome::Unknown;
            // What was only tried does not stay for want of an answer.
            return (trial.probe && !back && !strange).then_some(trial.before);
        }
        let Some(tried) = trial.tried.take() else { return self.judge_first(sample, trial, now) };
        let drift = (now.peak / trial.first.peak).ln().abs();
        if drift > UNCLEAR && trial.repeated < REPEATED_MAX {
            let homes = trial.homes.clone();
            if !trial.probe {
                self.note_move(sample, &homes, Outcome::Again);
            }
            self.trial = Some(Trial { repeated: trial.repeated + 1, first: now, ..trial });
            return Some(homes);
        }
        self.noise = 0.8 * self.noise + 0.2 * drift.min(2.0 * UNCLEAR);
        let around = trial.first.mean(&now);
        self.learn(&trial, &around, &tried, 1.0);
        let observed = around.peak / tried.peak - 1.0;
        self.entry_of(&trial)?.observed = Some(observed);
        let better = if trial.probe {
            let problem = self.problem(sample);
            let gain = problem.peak(&trial.before) / problem.peak(&trial.homes).max(1e-9) - 1.0;
            observed.min(gain) >= KEEP
        } else {
            observed >= trial.predicted / 4.0 - NOISE
        };
        self.vain = if better { self.vain / 2 } else { self.vain + u32::from(trial.probe) };
        // The more often in vain, the rarer: at most one period in a hundred in the end.
        self.probe_at = self.period + 1 + u64::from(self.vain * self.vain / 8).min(REST_MAX);
        if !better {
            return None;
        }
        self.entry_of(&trial)?.outcome = if trial.probe { Outcome::Tried } else { Outcome::Kept };
        self.forgive(&trial.homes);
        self.note_move(sample, &trial.homes, Outcome::Again);
        Some(trial.homes)
    }

    /// The first look at a new placement.
    fn judge_first(&mut self, sample: &Sample, mut trial: Trial, now: Look) -> Option<Vec<usize>> {
        let observed = trial.first.peak / now.peak - 1.0;
        let entry = self.entry_of(&trial)?;
        entry.observed = Some(observed);
        if trial.probe {
            entry.outcome = Outcome::Tried;
        } else if observed >= trial.predicted / 4.0 - NOISE {
            entry.outcome = Outcome::Kept;
            self.forgive(&trial.homes);
            // Nothing says whether the machine became faster meanwhile.
            self.learn(&trial, &trial.first, &now, 2.0);
            return None;
        } else if trial.repeated == 0 {
            entry.outcome = Outcome::Disappointed;
            self.banned.push((pattern(&trial.homes), self.period + BAN));
            self.rest_until = self.period + REST;
            self.credit = 0.0;
            self.note_move(sample, &trial.before, Outcome::Returned);
        }
        trial.tried = Some(now);
        let before = trial.before.clone();
        self.trial = Some(trial);
        Some(before)
    }

    /// A placement is not what its first trial made it look like.
    fn forgive(&mut self, homes: &[usize]) {
        let wanted = pattern(homes);
        self.banned.retain(|(homes, _)| *homes != wanted);
        self.rest_until = 0;
    }

    /// The entry of a trial in the log.
    fn entry_of(&mut self, trial: &Trial) -> Option<&mut Entry> {
        self.log.last_to(&trial.homes)
    }

    /// Takes note of a move that needs no prediction.
    fn note_move(&mut self, sample: &Sample, to: &[usize], outcome: Outcome) {
        self.log.push(Entry {
            at: sample.at,
            moves: moves(sample, &sample.homes(), to),
            homes: to.to_vec(),
            loads: sample.loads(),
            expected: Vec::new(),
            predicted: 0.0,
            margin: None,
            observed: None,
            outcome,
        });
    }

    /// Learns from a placement what the model missed; `doubt` is how much less sure than usual it is.
    fn learn(&mut self, trial: &Trial, before: &Look, tried: &Look, doubt: f64) {
        let noise = self.noise.max(NOISE / 2.0) * doubt;
        // A machine that becomes slower makes all tasks of a worker dearer together; so these add up to that noise of its load.
        let deviation = |task: f64| noise * (task.max(0.0) * before.peak).sqrt() + 0.002;
        let each = before.tasks.iter().zip(&tried.tasks).zip(&trial.expected);
        let missed = each.map(|((b, tried), expected)| (tried - b - expected, deviation(*b)));
        let missed: Vec<(f64, f64)> = missed.collect();
        self.learnt.learn(&trial.before, &trial.homes, &missed);
    }
}
