// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measurements that belong together, taken in turn: what the model is fed with, and what it is held against.
//!
//! A machine has phases, by its clock, its neighbours and other programs on it, in which everything takes longer. What was measured in one phase
//! predicts nothing of another. So a round measures everything once, and rounds follow each other.

use harness::handoff::Distance;
use harness::{Error, Prepared, Run, Subject, run_together};

use engine::{Shared, first_ids};
use reconfigure::balance::Handoff;

use super::costs::{self, Costs, InTurn, Measures};
use super::model::Prediction;

/// Rounds of which one measures what moving a packet costs.
const DISTANCE_EVERY: usize = 4;

/// A configuration with all routers that its rounds need.
pub struct Trial {
    /// On one worker: the costs come from this one.
    one: Prepared,
    /// On two cores, if there are two.
    two: Option<Two>,
    /// What the model is held against, by number of workers.
    checks: Vec<(usize, Prepared)>,
    /// Moving packets between two cores, if that is asked.
    distance: Option<Distance>,
    given: Option<Handoff>,
    in_proportion: bool,
    rounds: Vec<Round>,
}

/// Routers on two cores.
struct Two {
    /// Two copies, one on each: at once, and round by round in turn.
    pair: [Prepared; 2],
    pair_in_turn: [Prepared; 2],
    /// One on two workers that take turns.
    in_turn: Prepared,
}

/// What these did in a round.
struct TwoRuns {
    pair: [Run; 2],
    pair_in_turn: [Run; 2],
    in_turn: Run,
}

/// What one round showed.
struct Round {
    /// On one worker.
    one: Run,
    two: Option<TwoRuns>,
    /// Rates by check.
    checked: Vec<Run>,
    /// What moving a packet costs two cores beyond what its queue costs on one.
    handoff: Option<Handoff>,
}

impl Trial {
    /// Routers of this configuration on a machine with so many cores, to be held against rates with these numbers of workers.
    pub fn new(subject: &Subject<'_>, cores: usize, checks: &[usize]) -> Result<Trial, Error> {
        let checks = checks.iter().map(|workers| Ok((*workers, subject.prepare(*workers)?)));
        Ok(Trial {
            one: subject.prepare(1)?,
            two: if cores > 1 { Some(Two::new(subject)?) } else { None },
            checks: checks.collect::<Result<_, Error>>()?,
            distance: None,
            given: None,
            in_proportion: subject.in_proportion(),
            rounds: Vec::new(),
        })
    }

    /// The same, which also measures moving packets, where it can, unless it is `given` what that costs: then that price counts, and
    /// not what two workers paid in turn.
    pub(crate) fn with_distance(self, subject: &Subject<'_>, given: Option<Handoff>) -> Trial {
        let measures = given.is_none() && self.two.is_some();
        let distance = measures.then(|| Distance::new([0, 1], subject.length()).ok()).flatten();
        Trial { distance, given, ..self }
    }

    /// Measures everything once.
    pub fn round(&mut self) -> Result<(), Error> {
        let one = self.one.run_timed()?;
        let two = self.two.as_mut().map(Two::run).transpose()?;
        let checked =
            self.checks.iter_mut().map(|(_, router)| router.run_timed()).collect::<Result<_, _>>()?;
        // Its prices only say how what was found of this configuration is shared out, so they need not be measured as often.
        let due = self.rounds.len().is_multiple_of(DISTANCE_EVERY);
        let distance = self.distance.as_mut().filter(|_| due);
        let handoff = distance.and_then(Distance::run).map(|moved| costs::handoff(&moved));
        self.rounds.push(Round { one, two, checked, handoff });
        Ok(())
    }

    /// So many rounds.
    pub fn rounds(mut self, rounds: usize) -> Result<Trial, Error> {
        for _ in 0..rounds.max(1) {
            self.round()?;
        }
        Ok(self)
    }

    /// What the rounds say of the configuration.
    pub fn costs(&self) -> Costs {
        self.costs_of(Measures::medians(&self.measures()))
    }

    /// What each round measured. What is known from few timed runs only is taken from all rounds, as a share of what the round took.
    fn measures(&self) -> Vec<Measures> {
        // A worker that loses its processor for a while spoils its round's, so it is not the round's own that counts.
        let beside = self.rounds.iter().filter_map(|r| Some(r.two.as_ref()?.beside_tasks()));
        // No number, where no run of a task was timed.
        let beside = median(beside.filter(|times| times.is_normal())).unwrap_or(1.0);
        let mut all: Vec<Measures> = self.rounds.iter().map(|round| round.measures(beside)).collect();
        costs::share_out_elements(&mut all);
        all
    }

    fn costs_of(&self, measures: Measures) -> Costs {
        let in_turn = measures.in_turn.filter(|_| self.given.is_none());
        Costs::new(&self.one.report(), self.one.sent(), Measures { in_turn, ..measures }, self.in_proportion)
    }

    /// What the model predicts of each round from what that round measured, with its measured rate with so many workers.
    pub fn against(&self, shared: &Shared, workers: usize) -> Option<Against> {
        let at = self.checks.iter().position(|c| c.0 == workers)?;
        let handoff = self.handoff();
        let both = self.rounds.iter().zip(self.measures()).map(|(round, measures)| {
            let costs = self.costs_of(measures);
            [Prediction::new(&costs, shared, workers, &handoff).mpps(), round.checked[at].mpps()]
        });
        Some(Against(both.collect()))
    }

    /// What moving a packet costs two cores.
    pub fn handoff(&self) -> Handoff {
        let measured = || costs::median_handoff(self.rounds.iter().filter_map(|r| r.handoff));
        self.given.or_else(measured).unwrap_or(Handoff::USUAL)
    }

    /// The runs with this number of workers, round by round.
    pub fn checked(&self, workers: usize) -> Option<Vec<&Run>> {
        let at = self.checks.iter().position(|c| c.0 == workers)?;
        Some(self.rounds.iter().map(|r| &r.checked[at]).collect())
    }

    /// What each worker's tasks took for a packet, medians.
    pub(crate) fn measured_loads(&self, workers: usize) -> Vec<f64> {
        let runs: Vec<Vec<f64>> =
            self.checked(workers).unwrap_or_default().into_iter().map(Run::loads_ns).collect();
        (0..workers).filter_map(|w| median(runs.iter().map(|loads| loads[w]))).collect()
    }
}

/// Predictions compared with measurements, round by round.
pub struct Against(Vec<[f64; 2]>);

impl Against {
    /// How many rounds there were.
    pub fn rounds(&self) -> usize {
        self.0.len()
    }

    /// The median of what was predicted, in Mpps.
    pub(crate) fn predicted_mpps(&self) -> f64 {
        median(self.0.iter().map(|round| round[0])).unwrap_or_default()
    }

    /// The median of what was measured.
    pub(crate) fn measured_mpps(&self) -> f64 {
        median(self.0.iter().map(|round| round[1])).unwrap_or_default()
    }

    /// How far predictions lie off, as shares of what was measured, from the lowest to the highest.
    fn errors(&self) -> Vec<f64> {
        let mut errors: Vec<f64> =
            self.0.iter().map(|[predicted, measured]| predicted / measured - 1.0).collect();
        errors.sort_by(f64::total_cmp);
        errors
    }

    /// The median of these.
    pub fn error(&self) -> f64 {
        median(self.errors().into_iter()).unwrap_or_default()
    }

    /// Between which half of them lie.
    pub fn half(&self) -> [f64; 2] {
        let errors = self.errors();
        [1, 3].map(|quarter| errors.get(errors.len() * quarter / 4).copied().unwrap_or_default())
    }
}

impl Two {
    fn new(subject: &Subject<'_>) -> Result<Two, Error> {
        let (pair, pair_in_turn) = (subject.prepare_pair()?, subject.prepare_pair_in_turn()?);
        Ok(Two { pair, pair_in_turn, in_turn: subject.prepare_in_turn()? })
    }

    fn run(&mut self) -> Result<TwoRuns, Error> {
        let pair_in_turn = run_together(&mut self.pair_in_turn)?;
        Ok(TwoRuns { pair_in_turn, in_turn: self.in_turn.run_timed()?, pair: run_together(&mut self.pair)? })
    }
}

impl TwoRuns {
    /// How much longer workers take in turn than their timed tasks say, over how much longer copies do.
    fn beside_tasks(&self) -> f64 {
        let over_tasks = |runs: &[Run], tasks_ns: f64| least_ns(runs) / tasks_ns;
        let copies = self.pair_in_turn.iter().map(|run| run.busiest_ns() * run.packets()).sum();
        let workers = self.in_turn.loads_ns().iter().sum::<f64>() * self.in_turn.packets();
        over_tasks(std::slice::from_ref(&self.in_turn), workers) / over_tasks(&self.pair_in_turn, copies)
    }

    /// What two workers pay, by what they paid in turn, and what two copies pay more at once than in turn.
    fn in_turn(&self, beside_tasks: f64) -> InTurn {
        let core = |i: usize| self.pair[i].ns_per_packet() / self.pair_in_turn[i].busiest_ns() * beside_tasks;
        let (cores, elements) = ([core(0), core(1)], first_ids(self.in_turn.elements()));
        let tasks = |w: usize| elements.clone().map(|e| self.in_turn.task_ns(w, e) * cores[w]).collect();
        let own = |e: engine::ElementId| self.in_turn.element_ns(e) * (cores[0] + cores[1]) / 2.0;
        InTurn { tasks: [tasks(0), tasks(1)], elements: elements.clone().map(own).collect() }
    }
}

/// How long workers took that went in turn. Each is busy all the time, by working or by waiting for its turn. One that lost its processor
/// for a while was waited for, so the least counts.
fn least_ns(runs: &[Run]) -> f64 {
    runs.iter().map(Run::least_ns).fold(f64::INFINITY, f64::min)
}

impl Round {
    fn measures(&self, beside_tasks: f64) -> Measures {
        let elements = first_ids(self.one.elements());
        let ns_per_packet = self.one.ns_per_packet();
        let together =
            self.two.as_ref().map(|two| [0, 1].map(|i| two.pair[i].ns_per_packet() / ns_per_packet));
        Measures {
            ns_per_packet,
            tasks: elements.clone().map(|e| self.one.task_ns(0, e)).collect(),
            elements: elements.map(|e| self.one.element_ns(e)).collect(),
            together,
            in_turn: self.two.as_ref().map(|two| two.in_turn(beside_tasks)),
        }
    }
}

pub(super) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_is_held_against_itself() {
        // The machine's speed changes from round to round, and the median round is off by 2 %.
        let rounds = [[10.0, 10.0], [20.4, 20.0], [5.3, 5.0], [8.0, 10.0], [31.0, 30.0]];
        let against = Against(rounds.to_vec());
        assert_eq!((against.rounds(), against.predicted_mpps(), against.measured_mpps()), (5, 10.0, 10.0));
        assert!((against.error() - 0.02).abs() < 1e-9);
        let [low, high] = against.half();
        assert!(low.abs() < 1e-9 && (high - 1.0 / 30.0).abs() < 1e-9, "{low} {high}");
    }

    /// Two workers and two copies in turn, on cores that others use, too: each ends although the other has ended.
    #[test]
    fn a_trial_measures_all_that_the_model_needs() {
        let text = "FromDevice(a) -> CheckIPHeader(14) -> q :: Queue -> Unqueue -> Discard;
            b :: FromDevice(b) -> Queue -> ToDevice(a)";
        let graph = lang::load_str("test", text, &elements::options()).graph.expect("a graph");
        let subject = Subject::new(&graph, text).expect("patterns").with_run_ms(10).with_queues(1);
        let Ok(trial) =
            Trial::new(&subject, 2, &[1, 2]).and_then(|t| t.with_distance(&subject, None).rounds(3))
        else {
            panic!("cannot be measured")
        };
        let costs = trial.costs();
        let in_turn = costs.in_turn.as_ref().expect("two took turns");
        let build = |workers| subject.build(workers).expect("builds");
        let router = build(2);
        for task in &costs.tasks {
            let ns: f64 = in_turn.tasks.iter().map(|tasks| tasks[task.element]).sum();
            assert!(ns.is_finite() && ns >= 0.0, "{}", router.shared().elements[task.element].name);
        }
        assert!(in_turn.tasks.iter().flatten().sum::<f64>() > 0.0);
        for workers in [1, 2] {
            let against = trial.against(build(workers).shared(), workers).expect("measured");
            assert_eq!(against.rounds(), 3);
            assert!(against.predicted_mpps() > 0.0 && against.measured_mpps() > 0.0);
        }
        assert!(trial.against(build(3).shared(), 3).is_none());
    }
}
