// SPDX-License-Identifier: MIT OR Apache-2.0
//! What rewriting a configuration gains: one with work for two cores becomes one with flow-disjoint streams for more.

use super::super::study::{Cell, Origin, Section, Table};
use super::{STUDY_CORES, Setting, graph};
use crate::Error;
use harness::{Prepared, Run, Subject};
use predict::{Goal, Outcome};
use report::measure::Measured;

/// One task receives and computes, one sends: work for two cores, most of it the first one's.
const BEFORE: &str = "\
// bench: in length=60 flows=1024 share=1
// bench: out length=60
from :: FromDevice(in) -> Strip(14) -> check :: CheckIPHeader -> work :: Work(300) -> DecIPTTL
  -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> Queue -> to :: ToDevice(out);
";

/// A rewriting for a number of cores.
struct Rewritten {
    cores: usize,
    outcome: Outcome,
    /// Rates before and after.
    measured: Option<[Measured; 2]>,
}

/// Rewrites and measures.
pub(super) fn run(setting: &mut Setting<'_>) -> Result<Section, Error> {
    let notes: String = BEFORE.lines().take(2).map(|line| format!("{line}\n")).collect();
    let before = graph(BEFORE)?;
    let goals = 2..=STUDY_CORES;
    setting.progress.expect(goals.clone().count());
    let mut all = Vec::new();
    for cores in goals {
        setting.progress.part(format!("rewriting for {cores} cores"));
        let goal = Goal {
            cores,
            queues: 1,
            threshold: 5.0,
            handoff: None,
            // Short rounds, and more of them.
            runs: (4 * setting.common.rounds().min(8), setting.run_ms().div_ceil(4)),
        };
        let outcome = predict::rewrite(&before, &notes, &goal)?;
        let measured = if cores <= setting.cores { Some(measure(setting, &outcome, cores)?) } else { None };
        setting.note(
            format!("parallelism.rewriting.before_modelled_mpps_{cores}"),
            "Mpps",
            vec![outcome.before_mpps],
        );
        setting.note(
            format!("parallelism.rewriting.after_modelled_mpps_{cores}"),
            "Mpps",
            vec![outcome.after_mpps],
        );
        setting.progress.step();
        all.push(Rewritten { cores, outcome, measured });
    }
    Ok(section(setting, &all))
}

/// Runs both configurations in turn.
fn measure(setting: &mut Setting<'_>, outcome: &Outcome, cores: usize) -> Result<[Measured; 2], Error> {
    let mut routers: Vec<Prepared> = Vec::new();
    for text in [BEFORE, &outcome.text] {
        let graph = graph(text)?;
        let subject = Subject::new(&graph, text)?.with_queues(1).with_run_ms(setting.run_ms());
        routers.push(subject.prepare(cores)?);
    }
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..setting.common.rounds() {
        for (router, rates) in routers.iter_mut().zip(&mut rates) {
            let run: Run = router.run_surely()?;
            rates.push(run.mpps());
        }
    }
    let [before, after] = rates;
    let gains = before.iter().zip(&after).map(|(before, after)| after / before).collect();
    setting.note(format!("parallelism.rewriting.gain_{cores}"), "times", gains);
    Ok([
        setting.note(format!("parallelism.rewriting.before_mpps_{cores}"), "Mpps", before),
        setting.note(format!("parallelism.rewriting.after_mpps_{cores}"), "Mpps", after),
    ])
}

fn section(setting: &mut Setting<'_>, all: &[Rewritten]) -> Section {
    let mut table = Table::new(
        "Before and after 'junctor parallelize', Mpps",
        &[
            ("cores", Origin::Name),
            ("streams", Origin::Name),
            ("before", Origin::Measured),
            ("after", Origin::Measured),
            ("times", Origin::Measured),
            ("before", Origin::Modelled),
            ("after", Origin::Modelled),
            ("times", Origin::Modelled),
            ("model's errors", Origin::Modelled),
        ],
    );
    for r in all {
        let gain =
            setting.results.iter().find(|m| m.name == format!("parallelism.rewriting.gain_{}", r.cores));
        let missing = || Cell::missing(setting.too_few());
        // Where the model found nothing to gain, it has made nothing that could be measured against it.
        let same = r.measured.is_some() && r.outcome.steps.is_empty();
        let unknown = || if same { Cell::missing("not rewritten") } else { missing() };
        let measured = |i: usize| r.measured.as_ref().map_or_else(missing, |m| Cell::measured(&m[i]));
        let streams = r.outcome.steps.iter().map(|s| s.streams.to_string()).collect::<Vec<_>>().join(", ");
        table.row(vec![
            Cell::new(r.cores.to_string()),
            Cell::new(if streams.is_empty() { "not rewritten".to_owned() } else { streams }),
            measured(0),
            measured(1),
            gain.map_or_else(missing, Cell::measured),
            Cell::number(r.outcome.before_mpps),
            Cell::number(r.outcome.after_mpps),
            Cell::number(r.outcome.after_mpps / r.outcome.before_mpps),
            r.outcome.errors().map_or_else(unknown, |errors| {
                let [before, after] = errors.map(|error| Cell::percent(error).text);
                Cell::new(format!("{before}, {after}"))
            }),
        ]);
    }
    for r in all.iter().filter(|r| !r.outcome.steps.is_empty()) {
        let gain =
            setting.results.iter().find(|m| m.name == format!("parallelism.rewriting.gain_{}", r.cores));
        if let Some(times) = gain.map(Measured::median) {
            let what = format!(
                "Rewritten for {} cores, a configuration with one heavy task makes {times:.2} times its rate (the model: {:.2}).",
                r.cores,
                r.outcome.after_mpps / r.outcome.before_mpps
            );
            setting.find(what);
        }
    }
    let shown = all.iter().find(|r| r.cores == 3).or(all.last());
    let code = shown.map(|r| {
        let head = format!("The configuration, and behind it the one for {} cores", r.cores);
        (head, format!("{BEFORE}\n{}", r.outcome.text))
    });
    Section {
        title: "Before and after rewriting".into(),
        text: vec![
            "The study rewrites by hand a configuration that two processors can share: a hash of the flow splits what is received into three streams that share no flow, each with a queue and a task of its own. The study gives no rates for it alone.".into(),
            "Here 'junctor parallelize' does it: a Spread behind the heavy task is a HashDemux with a queue and a task for each stream, and what follows runs on each stream's core without being written again. The interface has one receive queue.".into(),
        ],
        plots: Vec::new(),
        tables: vec![table],
        code,
        folded: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_sound() {
        assert!(graph(BEFORE).is_ok());
    }
}
