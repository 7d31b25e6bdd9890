// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who should place tasks: the study's 12 streams, uneven, under placements by the engine's rule, by the study's, by our solver, and
//! by the best hand there is, which tries everything.

use engine::balance::Problem;

use super::super::report::{Bar, Cell, Origin, Plot, Section, Table, digits};
use super::{STUDY_CORES, Setting, explain, graph};
use crate::bench::{Prepared, Run, Subject};
use crate::measure::Measured;
use crate::place::{self, Place};
use crate::plan::{Prediction, Trial};

/// Packets that hosts send, in proportion: each as much to each of the three others.
const SHARES: [u32; 4] = [12, 6, 4, 2];
/// Placements that are measured when there are more of them: the best by the model.
const TRIED_MAX: usize = 256;
/// Placements of those tried that are measured again, with the others.
const FINALISTS: usize = 8;

/// The router between four hosts, with what they send. None of it is for the router itself: what does not come out again would look
/// as if it were on its way for ever.
fn text() -> String {
    let interfaces: Vec<String> =
        (0..4).map(|i| format!("eth{i} 10.0.{i}.1/24 ETHER 02:00:00:00:00:0{}", i + 1)).collect();
    let mut text = String::new();
    for (i, share) in SHARES.iter().enumerate() {
        let others: Vec<String> = (0..4).filter(|o| *o != i).map(|o| format!("10.0.{o}.128/25")).collect();
        text += &format!(
            "// bench: eth{i} ether=02:00:00:00:00:0{} src=10.0.{i}.128/25 dst={} flows=768 share={share}\n",
            i + 1,
            others.join(",")
        );
    }
    text + &format!("r :: IPRouter({});\n", interfaces.join(", "))
}

/// A placement with the reason why it is looked at.
struct Candidate {
    key: &'static str,
    name: String,
    homes: Vec<usize>,
    measured: Option<Measured>,
}

/// The tasks, what they cost, and where they would go.
struct Tasks {
    names: Vec<String>,
    problem: Problem,
    engines: Vec<usize>,
}

impl Tasks {
    fn learn(setting: &Setting<'_>, subject: &Subject<'_>, workers: usize) -> Result<Tasks, String> {
        let trial = Trial::new(subject, setting.cores, &[]).and_then(|t| t.rounds(setting.common.rounds()));
        let costs = trial.map_err(explain)?.costs();
        let router = subject.build(workers).map_err(explain)?;
        let found = Prediction::new(&costs, router.shared(), workers, setting.handoff_ns);
        let names = found.items.iter().map(|e| router.shared().elements[*e].name.clone()).collect();
        Ok(Tasks { names, problem: found.problem, engines: found.homes })
    }

    fn places(&self, homes: &[usize]) -> Vec<Place> {
        self.names.iter().zip(homes).map(|(name, home)| Place::new(name.as_str(), vec![*home])).collect()
    }

    /// Who runs what, in words.
    fn words(&self, homes: &[usize]) -> String {
        let short = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
        let each = (0..self.problem.workers).map(|w| {
            let mine = self.names.iter().zip(homes).filter(|(_, home)| **home == w);
            mine.map(|(name, _)| short(name)).collect::<Vec<_>>().join(" ")
        });
        each.collect::<Vec<_>>().join(" | ")
    }
}

/// Every placement that differs by more than the workers' numbers.
fn all_placements(tasks: usize, workers: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..tasks {
        let longer = |homes: &Vec<usize>| {
            // A task goes to a worker that has one already, or to the first that has none.
            let used = homes.iter().max().map_or(0, |w| w + 1);
            (0..workers.min(used + 1))
                .map(|w| homes.iter().copied().chain([w]).collect())
                .collect::<Vec<Vec<usize>>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// Measures on as many cores as the study had, or as there are.
pub(super) fn run(setting: &mut Setting<'_>) -> Result<Section, String> {
    let workers = setting.cores.clamp(2, STUDY_CORES);
    let text = text();
    let plain = graph(&text)?;
    let subject = Subject::new(&plain, &text)?.with_queues(1);
    let subject = subject.with_run_ms(setting.run_ms());
    setting.progress.part("streams: what each task costs");
    let tasks = Tasks::learn(setting, &subject, workers)?;
    let mut all = all_placements(tasks.names.len(), workers);
    all.sort_by(|a, b| tasks.problem.peak(a).total_cmp(&tasks.problem.peak(b)));
    let placements = all.len();
    let best_by_model = all[0].clone();
    let tried = if setting.common.quick { 4 } else { TRIED_MAX };
    all.truncate(tried);
    let mut candidates = vec![
        candidate("solver", "our solver, with hand-off costs", tasks.problem.solve(None)),
        candidate(
            "largest_first",
            "largest first, blind for hand-offs (the study)",
            tasks.problem.largest_first(),
        ),
        candidate("engine", "the engine's own rule, no costs known", tasks.engines.clone()),
    ];
    let enough = setting.cores >= workers;
    let mut hand = vec![best_by_model];
    if enough {
        hand = screen(setting, &text, &tasks, &all)?;
    }
    for (n, homes) in hand.into_iter().enumerate() {
        let name = if enough { "by hand: the best of the search" } else { "best of all, by the model" };
        candidates.insert(n, candidate("hand", name, homes));
    }
    let mut rounds = Vec::new();
    if enough {
        rounds = finals(setting, &text, &tasks, &candidates)?;
    }
    judge(setting, &mut candidates, rounds);
    Ok(section(setting, &tasks, &candidates, placements, all.len()))
}

fn candidate(key: &'static str, name: &str, homes: Vec<usize>) -> Candidate {
    Candidate { key, name: name.to_owned(), homes, measured: None }
}

/// A router with the tasks placed so.
fn prepare(setting: &Setting<'_>, text: &str, tasks: &Tasks, homes: &[usize]) -> Result<Prepared, String> {
    let mut graph = graph(text)?;
    place::add(&mut graph, &tasks.places(homes));
    let subject = Subject::new(&graph, text)?.with_queues(1).with_run_ms(setting.run_ms());
    subject.prepare(tasks.problem.workers).map_err(explain)
}

/// Measures each placement once, and returns the best.
fn screen(
    setting: &mut Setting<'_>,
    text: &str,
    tasks: &Tasks,
    all: &[Vec<usize>],
) -> Result<Vec<Vec<usize>>, String> {
    setting.progress.expect(all.len());
    setting.progress.part(format!("streams: {} placements by hand", all.len()));
    let mut found = Vec::new();
    for homes in all {
        let rate = prepare(setting, text, tasks, homes)?.run_surely().map_err(explain)?.mpps();
        setting.progress.step();
        found.push((rate, homes));
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    Ok(found.into_iter().take(FINALISTS).map(|(_, homes)| homes.clone()).collect())
}

/// Measures all candidates in turn; rates by candidate.
fn finals(
    setting: &mut Setting<'_>,
    text: &str,
    tasks: &Tasks,
    candidates: &[Candidate],
) -> Result<Vec<Vec<f64>>, String> {
    let rounds = setting.common.rounds();
    setting.progress.expect(candidates.len() * rounds);
    setting.progress.part("streams: rounds of the placements that matter");
    let mut routers = Vec::new();
    for candidate in candidates {
        routers.push(prepare(setting, text, tasks, &candidate.homes)?);
    }
    let mut rates = vec![Vec::new(); routers.len()];
    for _ in 0..rounds {
        for (router, rates) in routers.iter_mut().zip(&mut rates) {
            let run: Run = router.run_surely().map_err(explain)?;
            rates.push(run.mpps());
            setting.progress.step();
        }
    }
    Ok(rates)
}

/// Keeps the best of those placed by hand, first, and notes what each made of what that one did.
fn judge(setting: &mut Setting<'_>, candidates: &mut Vec<Candidate>, rates: Vec<Vec<f64>>) {
    for (candidate, rates) in candidates.iter_mut().zip(rates) {
        let name = format!("parallelism.streams.{}_mpps", candidate.key);
        candidate.measured = Some(Measured::new(name, "Mpps", rates));
    }
    let rate = |c: &Candidate| c.measured.as_ref().map_or(0.0, Measured::median);
    candidates.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    // Whoever tries everything finds also what the others found. Without measurements, the best by the model is the hand's already.
    let hand = candidates.iter().position(|c| c.measured.is_some() || c.key == "hand").unwrap_or(0);
    let Candidate { homes, measured, .. } = &candidates[hand];
    let measured = measured.clone().map(|m| Measured { name: "parallelism.streams.hand_mpps".into(), ..m });
    let name = candidates.iter().find(|c| c.key == "hand").map_or_else(String::new, |c| c.name.clone());
    let hand = Candidate { key: "hand", name, homes: homes.clone(), measured };
    candidates.retain(|c| c.key != "hand");
    candidates.insert(0, hand);
    let best = candidates[0].measured.clone();
    for candidate in candidates.iter() {
        let (Some(measured), Some(best)) = (&candidate.measured, &best) else { continue };
        setting.results.push(measured.clone());
        if candidate.key != "hand" {
            let shares = measured.runs.iter().zip(&best.runs).map(|(rate, best)| rate / best).collect();
            setting.note(format!("parallelism.streams.{}_share", candidate.key), "ratio", shares);
        }
    }
}

fn section(
    setting: &mut Setting<'_>,
    tasks: &Tasks,
    candidates: &[Candidate],
    placements: usize,
    tried: usize,
) -> Section {
    let workers = tasks.problem.workers;
    let shares: Vec<String> = SHARES.iter().map(u32::to_string).collect();
    let tried = if tried < placements {
        format!("the {tried} of {placements} that the model finds best")
    } else {
        format!("all {placements}")
    };
    let mut text = vec![
        format!(
            "Four hosts send to each other through an IP router, in proportions of {}, each as much to each of the three others: 12 streams, and {} tasks to be placed on {workers} cores. A device gets no packet before the others have had their share, so the busiest core sets the rate.",
            shares.join(" : "),
            tasks.names.len()
        ),
        format!("By hand means: {tried} placements were each measured once, and the best {FINALISTS} of them again in rounds with the others; shown is the one of all these with the best median."),
        "The placement that sees costs is the engine's solver (engine::balance), fed with sampled costs before the run and left alone then; it does not move tasks while they run.".to_owned(),
    ];
    if setting.cores < workers {
        text.push(format!("This takes {workers} cores; only the model can speak here."));
    }
    let mut table = Table::new(
        format!("Placements of the tasks on {workers} cores"),
        &[
            ("placement", Origin::Name),
            ("Mpps", Origin::Measured),
            ("of the best by hand", Origin::Measured),
            ("Mpps", Origin::Modelled),
            ("tasks, core by core", Origin::Name),
        ],
    );
    let share_of = |setting: &Setting<'_>, key: &str| {
        let name = format!("parallelism.streams.{key}_share");
        setting.results.iter().find(|m| m.name == name).map(Measured::median)
    };
    let mut bars = Vec::new();
    for c in candidates {
        let mpps = 1e3 / tasks.problem.peak(&c.homes);
        setting.note(format!("parallelism.streams.{}_modelled_mpps", c.key), "Mpps", vec![mpps]);
        let share = share_of(setting, c.key).map(|share| Cell::new(format!("{:.1} %", 100.0 * share)));
        let lacking = || Cell::missing(setting.too_few());
        table.row(vec![
            Cell::new(c.name.clone()),
            c.measured.as_ref().map_or_else(lacking, Cell::measured),
            match &c.measured {
                Some(_) => share.unwrap_or_else(|| Cell::new("100 %")),
                None => lacking(),
            },
            Cell::number(mpps),
            Cell::new(tasks.words(&c.homes)),
        ]);
        let value = c.measured.as_ref().map_or(mpps, Measured::median);
        let origin = if c.measured.is_some() { Origin::Measured } else { Origin::Modelled };
        let spread = c.measured.as_ref().map(Measured::spread);
        bars.push(Bar { name: c.name.clone(), origin, value, spread });
    }
    if let (Some(solver), Some(largest)) = (share_of(setting, "solver"), share_of(setting, "largest_first")) {
        setting.find(format!(
            "12 uneven streams on {workers} cores: our solver's placement makes {:.1} % of the best one found by hand, the study's packing {:.1} %.",
            100.0 * solver,
            100.0 * largest
        ));
    }
    let costs = costs(tasks);
    let plots = vec![Plot::Bars {
        caption: format!("Rate by placement, {workers} cores, Mpps; median, least and greatest"),
        unit: "Mpps".into(),
        bars,
    }];
    Section { title: "Who places tasks best".into(), text, plots, tables: vec![table, costs], code: None }
}

/// What the placements were made from.
fn costs(tasks: &Tasks) -> Table {
    let mut table = Table::new(
        "What each task costs: nanoseconds for each packet of the whole router",
        &[
            ("task", Origin::Name),
            ("its own", Origin::Measured),
            ("for each end, if all it hands over changes cores", Origin::Modelled),
        ],
    );
    for (i, (name, item)) in tasks.names.iter().zip(&tasks.problem.items).enumerate() {
        let ends = |l: &&engine::balance::Link| l.ends.0 == i || l.ends.1 == i;
        let links: f64 = tasks.problem.links.iter().filter(ends).map(|l| l.cost).sum();
        table.row(vec![Cell::new(name.clone()), Cell::number(item.cost), Cell::new(digits(links))]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_differ_by_more_than_numbers() {
        // Numbers of partitions of 8 things into at most 2 and at most 4 parts.
        assert_eq!((all_placements(8, 2).len(), all_placements(8, 4).len()), (128, 2795));
        assert_eq!(all_placements(2, 3), [[0, 0], [0, 1]]);
    }

    #[test]
    fn the_router_has_eight_tasks_and_twelve_streams() {
        let text = text();
        let graph = graph(&text).expect("a graph");
        let subject = Subject::new(&graph, &text).expect("patterns").with_queues(1);
        let router = subject.build(2).ok().expect("a router");
        let tasks = router.shared().elements.iter().filter(|e| !e.place.tasks.is_empty());
        assert_eq!(tasks.map(|e| e.place.tasks.len()).collect::<Vec<_>>(), [1; 8]);
        assert_eq!(text.matches("10.0.2.128/25").count(), 4);
    }
}
