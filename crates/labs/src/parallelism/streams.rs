// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who should place tasks: the study's 12 streams, uneven, under placements by the engine's rule, by the study's, by our solver, and
//! by the best hand there is, which tries everything.

use std::time::Duration;

use reconfigure::balance::Problem;

use super::super::study::{Bar, Cell, Origin, Plot, Section, Table, digits};
use super::{STUDY_CORES, Setting, graph};
use crate::Error;
use conf::place::{self, TaskPlacement};
use harness::{Prepared, Run, Subject};
use predict::{Prediction, Trial};
use report::measure::Measured;

/// Packets that hosts send, in proportion: each as much to each of the three others.
const SHARES: [u32; 4] = [12, 6, 4, 2];
/// Placements that are measured when there are more of them: the best by the model.
const TRIED_MAX: usize = 256;
/// Placements of those tried that are measured in rounds among themselves, to pick the hand's.
const FINALISTS: usize = 8;
/// How long the balancer's periods are here, and how many of them it has until it must have settled.
const PERIOD: Duration = Duration::from_millis(100);
const PERIODS: u32 = 80;

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
    found: Option<Found>,
}

/// What a placement made, over the rounds.
#[derive(Clone, Default)]
struct Found {
    mpps: Vec<f64>,
    /// What the busiest worker's tasks take for each packet.
    busiest_ns: Vec<f64>,
    /// That over the mean of all workers.
    imbalance: Vec<f64>,
}

impl Found {
    fn add(&mut self, run: &Run) {
        self.mpps.push(run.mpps());
        self.busiest_ns.push(run.busiest_ns());
        self.imbalance.push(run.imbalance());
    }

    fn busiest(&self) -> f64 {
        Measured::new("", "", self.busiest_ns.clone()).median()
    }
}

/// The tasks, what they cost, and where they would go.
struct Tasks {
    names: Vec<String>,
    problem: Problem,
    engines: Vec<usize>,
    /// Tasks that moved no packet in the trial, and so have no cost to place them by.
    silent: usize,
}

impl Tasks {
    fn learn(setting: &Setting<'_>, subject: &Subject<'_>, workers: usize) -> Result<Tasks, Error> {
        let trial = Trial::new(subject, setting.cores, &[]).and_then(|t| t.rounds(setting.common.rounds()));
        let costs = trial?.costs();
        let router = subject.build(workers)?;
        let found = Prediction::new(&costs, router.shared(), workers, &setting.handoff);
        let all: usize = router.shared().elements.iter().map(|e| e.place.tasks.len()).sum();
        let silent = all.saturating_sub(found.items.len());
        let names: Vec<String> =
            found.items.iter().map(|e| router.shared().elements[*e].name.to_string()).collect();
        Ok(Tasks { names, problem: found.problem, engines: found.homes, silent })
    }

    fn places(&self, homes: &[usize]) -> Vec<TaskPlacement> {
        self.names
            .iter()
            .zip(homes)
            .map(|(name, home)| TaskPlacement::new(name.as_str(), vec![*home]))
            .collect()
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
pub(super) fn run(setting: &mut Setting<'_>) -> Result<Section, Error> {
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
        candidate("solver", "solver, before the run", tasks.problem.solve(None)),
        candidate("largest_first", "largest first (the study)", tasks.problem.largest_first()),
        candidate("engine", "the engine's own rule", tasks.engines.clone()),
    ];
    let mut log = String::new();
    if setting.cores >= workers {
        let hand = search(setting, &text, &tasks, &all)?;
        candidates.insert(0, candidate("hand", "by hand", hand));
        let adaptive = settle(setting, &subject, &tasks)?;
        log = adaptive.log;
        let name = "adaptive, settled";
        candidates.insert(1, candidate("adaptive", name, adaptive.homes));
        finals(setting, &text, &tasks, &mut candidates, adaptive.router)?;
        judge(setting, &candidates);
    } else {
        candidates.insert(0, candidate("hand", "best of all, by the model", best_by_model));
    }
    let mut section = section(setting, &tasks, &candidates, placements, all.len());
    if !log.is_empty() {
        section.code = Some(("What the balancer decided, in periods of 0.1 s (balancer.log)".into(), log));
    }
    Ok(section)
}

fn candidate(key: &'static str, name: &str, homes: Vec<usize>) -> Candidate {
    Candidate { key, name: name.to_owned(), homes, found: None }
}

/// A router with the tasks placed so.
fn prepare(setting: &Setting<'_>, text: &str, tasks: &Tasks, homes: &[usize]) -> Result<Prepared, Error> {
    let mut graph = graph(text)?;
    place::add(&mut graph, &tasks.places(homes));
    let subject = Subject::new(&graph, text)?.with_queues(1).with_run_ms(setting.run_ms());
    Ok(subject.prepare(tasks.problem.workers)?)
}

/// Tries placements: each once, then the best in rounds, and returns the best of these. What the busiest worker's tasks take
/// decides: it repeats better than rates do.
fn search(
    setting: &mut Setting<'_>,
    text: &str,
    tasks: &Tasks,
    all: &[Vec<usize>],
) -> Result<Vec<usize>, Error> {
    let rounds = setting.common.rounds();
    setting.progress.expect(all.len() + rounds);
    setting.progress.part(format!("streams: {} placements by hand", all.len()));
    let mut tried = Vec::new();
    for homes in all {
        let run = prepare(setting, text, tasks, homes)?.run_timed()?;
        setting.progress.step();
        tried.push((run.busiest_ns(), homes));
    }
    tried.sort_by(|a, b| a.0.total_cmp(&b.0));
    tried.truncate(FINALISTS);
    setting.progress.part("streams: rounds of the best of them");
    let mut routers = Vec::new();
    for (_, homes) in &tried {
        routers.push((prepare(setting, text, tasks, homes)?, Found::default(), homes));
    }
    for _ in 0..rounds {
        for (router, found, _) in &mut routers {
            found.add(&router.run_timed()?);
        }
        setting.progress.step();
    }
    let best = routers.into_iter().min_by(|a, b| a.1.busiest().total_cmp(&b.1.busiest()));
    Ok(best.map(|(.., homes)| homes.to_vec()).unwrap_or_default())
}

/// A router whose tasks the balancer has placed.
struct Settled {
    router: Prepared,
    homes: Vec<usize>,
    log: String,
}

/// Lets the balancer move the tasks of a router that begins with the engine's own placement, and switches it off then.
fn settle(setting: &mut Setting<'_>, subject: &Subject<'_>, tasks: &Tasks) -> Result<Settled, Error> {
    setting.progress.part("streams: the balancer places tasks while they run");
    let mut router = subject.prepare(tasks.problem.workers)?;
    router.write("balancer.handoff_ns", &setting.handoff.to_string())?;
    router.write("balancer.period", &format!("{}ms", PERIOD.as_millis()))?;
    router.write("balancer.active", "true")?;
    let periods = if setting.common.quick { PERIODS / 8 } else { PERIODS };
    router.run_for(PERIOD * periods);
    // A run may end while a placement is only tried.
    for _ in 0..10 {
        if router.read("balancer.trying").as_deref() != Some("true") {
            break;
        }
        router.run_for(PERIOD * 4);
    }
    router.write("balancer.active", "false")?;
    let log = router.read("balancer.log").unwrap_or_default();
    let shared = router.router().shared();
    let home = |name: &String| {
        let place = shared.lookup(name, None).map(|e| &shared.elements[e].place);
        place.and_then(|place| place.tasks.first().copied()).unwrap_or(0)
    };
    let homes = tasks.names.iter().map(home).collect();
    Ok(Settled { homes, log, router })
}

/// Measures all candidates in turn; the adaptive one's router is the one that the balancer left.
fn finals(
    setting: &mut Setting<'_>,
    text: &str,
    tasks: &Tasks,
    candidates: &mut [Candidate],
    settled: Prepared,
) -> Result<(), Error> {
    let rounds = setting.common.rounds();
    setting.progress.expect(rounds);
    setting.progress.part("streams: rounds of the placements that matter");
    let (mut routers, mut settled) = (Vec::new(), Some(settled));
    for candidate in candidates.iter() {
        let left = if candidate.key == "adaptive" { settled.take() } else { None };
        routers.push(match left {
            Some(router) => router,
            None => prepare(setting, text, tasks, &candidate.homes)?,
        });
    }
    for _ in 0..rounds {
        for (router, candidate) in routers.iter_mut().zip(candidates.iter_mut()) {
            let run = router.run_timed()?;
            candidate.found.get_or_insert_default().add(&run);
        }
        setting.progress.step();
    }
    Ok(())
}

/// Notes what each placement reached. Compared with the hand's: shares of its rate, and of its busiest worker's time, round by round.
fn judge(setting: &mut Setting<'_>, candidates: &[Candidate]) {
    let hand = candidates.iter().find(|c| c.key == "hand");
    let Some(best) = hand.and_then(|c| c.found.clone()) else { return };
    for Candidate { key, found, .. } in candidates {
        let Some(found) = found else { continue };
        let mut note = |what: &str, unit, runs| {
            setting.note(format!("parallelism.streams.{key}_{what}"), unit, runs);
        };
        note("mpps", "Mpps", found.mpps.clone());
        note("busiest_ns", "ns", found.busiest_ns.clone());
        note("imbalance", "ratio", found.imbalance.clone());
        if *key != "hand" {
            note("share", "ratio", over(&found.mpps, &best.mpps));
            note("busiest_share", "ratio", over(&best.busiest_ns, &found.busiest_ns));
        }
    }
}

/// Ratios within rounds.
fn over(of: &[f64], to: &[f64]) -> Vec<f64> {
    of.iter().zip(to).map(|(of, to)| of / to).collect()
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
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
        format!("the {tried} of {placements} placements that the model finds best")
    } else if placements == 1 {
        "the only placement".to_owned()
    } else {
        format!("all {placements} placements")
    };
    let mut text = vec![
        format!(
            "Four hosts send to each other through an IP router, in proportions of {}, each as much to each of the three others: 12 streams, and {} to be placed on {workers} cores. A device gets no packet before the others have had their share, so the busiest core sets the rate.",
            shares.join(" : "),
            counted(tasks.names.len(), "task")
        ),
        format!(
            "By hand means: {tried} were each measured once, and the best {} of them in rounds among themselves; the best of those then stood in further rounds beside the others.",
            FINALISTS.min(placements)
        ),
        format!(
            "Adaptive means (junctor run --adaptive): the router began as the engine places tasks by itself, its balancer moved them while they ran, for {PERIODS} periods of {} ms, and was switched off before the rounds. The solver (reconfigure::balance) is what the balancer asks, too; in its own row it was fed with sampled costs before the run and left alone then.",
            PERIOD.as_millis()
        ),
        "A rate is set by the busiest core. What its tasks take for each packet, waiting not counted, repeats better than the rate itself, so that the search goes by it; how much more the busiest has to do than the mean of all stands beside it. Shares are medians of ratios within rounds: above 100 % is better than the hand's.".to_owned(),
    ];
    if tasks.silent > 0 {
        text.push(format!(
            "{} of the router moved no packet while costs were learnt, and stayed where the engine put them; with longer runs (--time) all do.",
            counted(tasks.silent, "further task")
        ));
    }
    if setting.cores < workers {
        text.push(format!("This takes {workers} cores; only the model can speak here."));
    }
    let mut table = Table::new(
        format!("Placements of the tasks on {workers} cores"),
        &[
            ("placement", Origin::Name),
            ("Mpps", Origin::Measured),
            ("of the hand's", Origin::Measured),
            ("busiest, ns", Origin::Measured),
            ("of the hand's", Origin::Measured),
            ("over the mean", Origin::Measured),
            ("Mpps", Origin::Modelled),
            ("tasks, core by core", Origin::Name),
        ],
    );
    let (mut rates, mut loads) = (Vec::new(), Vec::new());
    for c in candidates {
        let mpps = 1e3 / tasks.problem.peak(&c.homes);
        setting.note(format!("parallelism.streams.{}_modelled_mpps", c.key), "Mpps", vec![mpps]);
        let value = |what: &str| {
            let name = format!("parallelism.streams.{}_{what}", c.key);
            setting.results.iter().find(|m| m.name == name)
        };
        let cell = |what: &str| match (value(what), &c.found) {
            (Some(found), _) if what.ends_with("share") => percentage(found),
            (Some(found), _) => Cell::measured(found),
            (None, Some(_)) => Cell::new("100 %"),
            (None, None) => Cell::missing(setting.too_few()),
        };
        let mut row = vec![Cell::new(c.name.clone())];
        row.extend(["mpps", "share", "busiest_ns", "busiest_share", "imbalance"].map(cell));
        row.extend([Cell::number(mpps), Cell::new(tasks.words(&c.homes))]);
        table.row(row);
        rates.push(bar(c, value("mpps"), mpps));
        loads.extend(value("busiest_ns").map(|ns| bar(c, Some(ns), ns.median())));
    }
    find(setting, candidates, workers);
    let costs = costs(tasks);
    let mut plots = vec![Plot::Bars {
        caption: format!("Rate by placement, {workers} cores, Mpps; median, least and greatest"),
        unit: "Mpps".into(),
        bars: rates,
    }];
    if !loads.is_empty() {
        plots.push(Plot::Bars {
            caption: "What the busiest core's tasks take for each packet, ns (less is better)".into(),
            unit: "ns".into(),
            bars: loads,
        });
    }
    Section {
        title: "Who places tasks best".into(),
        text,
        plots,
        tables: vec![table, costs],
        ..Section::default()
    }
}

/// A share with its spread.
fn percentage(share: &Measured) -> Cell {
    let (low, high) = share.spread();
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let spread = (share.runs.len() > 1).then(|| format!("{} to {}", percent(low), percent(high)));
    Cell { text: percent(share.median()), spread, missing: false }
}

fn bar(candidate: &Candidate, measured: Option<&Measured>, modelled: f64) -> Bar {
    Bar {
        name: candidate.name.clone(),
        origin: if measured.is_some() { Origin::Measured } else { Origin::Modelled },
        value: measured.map_or(modelled, Measured::median),
        spread: measured.map(Measured::spread),
    }
}

/// Which elements are together, independent of the cores' names.
fn pattern(homes: &[usize]) -> Vec<usize> {
    let first = |home: &usize| homes.iter().position(|h| h == home).unwrap_or(0);
    homes.iter().map(first).collect()
}

/// Says what the adaptive placement makes of the best one, and the study's packing.
fn find(setting: &mut Setting<'_>, candidates: &[Candidate], workers: usize) {
    let share = |key: &str, what: &str| {
        let name = format!("parallelism.streams.{key}_{what}");
        let found = setting.results.iter().find(|m| m.name == name)?;
        let (low, high) = found.spread();
        let [median, low, high] = [found.median(), low, high].map(|share| 100.0 * share);
        Some(format!("{median:.1} % ({low:.1} to {high:.1})"))
    };
    let both = |key: &str| Some((share(key, "share")?, share(key, "busiest_share")?));
    if let (Some(adaptive), Some(largest)) = (both("adaptive"), both("largest_first")) {
        let homes = |key| candidates.iter().find(|c| c.key == key).map(|c| pattern(&c.homes));
        let same = if homes("adaptive") == homes("hand") { ", which is the same placement" } else { "" };
        setting.find(format!(
            "12 uneven streams on {workers} cores: once settled, the adaptive placement makes {} of the rate of the best one found by hand{same}, by the busiest core's time {}; the study's packing {} and {}.",
            adaptive.0, adaptive.1, largest.0, largest.1
        ));
    }
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
        let end = |l: &reconfigure::balance::Link| match l.ends {
            (a, _) if a == i => l.costs[0],
            (_, b) if b == i => l.costs[1],
            _ => 0.0,
        };
        let frames = tasks.problem.frame_costs[usize::from(item.begun < 0.0)] * item.begun.abs();
        let links = tasks.problem.links.iter().map(end).sum::<f64>() + frames;
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
        assert_eq!(pattern(&[1, 0, 1, 2]), pattern(&[0, 2, 0, 1]));
        assert_ne!(pattern(&[1, 0, 1]), pattern(&[1, 0, 0]));
    }

    #[test]
    fn the_router_has_eight_tasks_and_twelve_streams() {
        let text = text();
        let graph = graph(&text).expect("a graph");
        let subject = Subject::new(&graph, &text).expect("patterns").with_queues(1);
        let router = subject.build(2).expect("a router");
        let tasks = router.shared().elements.iter().filter(|e| !e.place.tasks.is_empty());
        assert_eq!(tasks.map(|e| e.place.tasks.len()).collect::<Vec<_>>(), [1; 8]);
        assert_eq!(text.matches("10.0.2.128/25").count(), 4);
    }
}
