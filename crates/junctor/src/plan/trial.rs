// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measurements that belong together, taken in turn: what the model is fed with, and what it is held against.
//!
//! A machine has phases, by its clock, its neighbours and whoever else computes on it, in which everything takes longer. What was
//! measured in one phase predicts nothing of another. So a round measures everything once, and rounds follow each other.

use crate::bench::{Distance, Failed, Prepared, Run, Subject, run_together, task_cycles};

use engine::balance::Handoff;

use super::costs::{self, Costs};

/// A configuration with all routers that its rounds need.
pub(crate) struct Trial {
    /// On one worker: the costs come from this one.
    one: Prepared,
    /// Two copies on a core each, if there are two.
    pair: Option<[Prepared; 2]>,
    /// What the model is held against, by number of workers.
    checks: Vec<(usize, Prepared)>,
    /// Moving packets between two cores, if that is asked.
    distance: Option<Distance>,
    rounds: Vec<Round>,
}

/// What one round showed.
struct Round {
    /// Processor time for each packet, alone, and of two copies at once.
    one_ns: f64,
    /// Cycles of the tasks of each element for each packet, alone.
    tasks: Vec<f64>,
    pair_ns: Option<[f64; 2]>,
    /// Rates by check.
    checked: Vec<Run>,
    /// What moving a packet costs two cores beyond what its queue costs on one.
    handoff: Option<Handoff>,
}

impl Trial {
    /// Routers of this configuration on a machine with so many cores, to be held against rates with these numbers of workers.
    pub(crate) fn new(subject: &Subject<'_>, cores: usize, checks: &[usize]) -> Result<Trial, Failed> {
        let pair = if cores > 1 { Some(subject.prepare_pair()?) } else { None };
        let checks = checks.iter().map(|workers| Ok((*workers, subject.prepare(*workers)?)));
        Ok(Trial {
            one: subject.prepare(1)?,
            pair,
            checks: checks.collect::<Result<_, Failed>>()?,
            distance: None,
            rounds: Vec::new(),
        })
    }

    /// The same, which also measures moving packets, where it can.
    pub(crate) fn with_distance(self, subject: &Subject<'_>) -> Trial {
        let distance = self.pair.is_some().then(|| Distance::new([0, 1], subject.length()).ok()).flatten();
        Trial { distance, ..self }
    }

    /// Measures everything once.
    pub(crate) fn round(&mut self) -> Result<(), Failed> {
        let (before, sent) = (self.one.report(), self.one.sent());
        let one_ns = self.one.run_timed()?.ns_per_packet();
        let sent = (self.one.sent() - sent) as f64;
        let tasks =
            task_cycles(&self.one.report(), &before).into_iter().map(|cycles| cycles / sent).collect();
        let pair_ns = match &mut self.pair {
            Some(pair) => {
                let runs = run_together(pair)?;
                Some([0, 1].map(|core| runs.get(core).map_or(one_ns, Run::ns_per_packet)))
            }
            None => None,
        };
        let checked =
            self.checks.iter_mut().map(|(_, router)| router.run_timed()).collect::<Result<_, _>>()?;
        let handoff = self.distance.as_mut().and_then(Distance::run).map(|moved| costs::handoff(&moved));
        self.rounds.push(Round { one_ns, tasks, pair_ns, checked, handoff });
        Ok(())
    }

    /// So many rounds.
    pub(crate) fn rounds(mut self, rounds: usize) -> Result<Trial, Failed> {
        for _ in 0..rounds.max(1) {
            self.round()?;
        }
        Ok(self)
    }

    /// What the rounds say of the configuration.
    pub(crate) fn costs(&self) -> Costs {
        let one = median(self.rounds.iter().map(|r| r.one_ns));
        let core = |i: usize| median(self.rounds.iter().filter_map(|r| Some(r.pair_ns?[i] / r.one_ns)));
        let together = core(0).zip(core(1)).map(|(first, second)| [first, second]);
        let report = self.one.report();
        let task = |e: usize| median(self.rounds.iter().map(|r| r.tasks[e])).unwrap_or(0.0);
        let tasks = (0..report.elements.len()).map(task).collect();
        Costs::new(&report, self.one.sent(), tasks, one.unwrap_or_default(), together)
    }

    /// What moving a packet costs two cores.
    pub(crate) fn handoff(&self) -> Option<Handoff> {
        costs::median_handoff(self.rounds.iter().filter_map(|r| r.handoff))
    }

    /// The runs with this number of workers, round by round.
    pub(crate) fn checked(&self, workers: usize) -> Option<Vec<&Run>> {
        let at = self.checks.iter().position(|c| c.0 == workers)?;
        Some(self.rounds.iter().map(|r| &r.checked[at]).collect())
    }

    /// What each worker's tasks took for a packet, medians.
    pub(crate) fn measured_loads(&self, workers: usize) -> Vec<f64> {
        let runs: Vec<Vec<f64>> =
            self.checked(workers).unwrap_or_default().into_iter().map(Run::loads_ns).collect();
        (0..workers).filter_map(|w| median(runs.iter().map(|loads| loads[w]))).collect()
    }

    /// The median rate with this number of workers.
    pub(crate) fn measured_mpps(&self, workers: usize) -> Option<f64> {
        median(self.checked(workers)?.into_iter().map(Run::mpps))
    }
}

pub(super) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
