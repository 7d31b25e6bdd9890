// SPDX-License-Identifier: MIT OR Apache-2.0
//! A configuration rewritten so that it feeds more cores.
//!
//! The study "Flexible Control of Parallelism in a Multiprocessor PC Router" does this by hand. Where a configuration has fewer streams of packets
//! than there are cores, it splits a stream by a hash of the flow, gives each part a queue and a task, and copies what follows. Here what follows
//! need not be copied, since the engine makes an instance for each worker that reaches an element. So a rewriting is a number of Spread elements,
//! each behind the output of a task, and the question is only where.

use std::collections::HashMap;
use std::fmt::Write as _;

use engine::{ElementId, Processing, Shared, Sharing};
use harness::{Error, Subject};
use lang::Graph;
use reconfigure::balance::Handoff;
use report::measure;
use serde_json::{Value, json};

use crate::model::Prediction;
use crate::trial::{Against, Trial};

/// What is wanted of a rewriting.
pub struct Goal {
    /// Cores to feed.
    pub cores: usize,
    /// Receive queues of each device.
    pub queues: usize,
    /// Least gain, in percent.
    pub threshold: f64,
    /// What packets cost two cores that one hands to the other, if that is not to be measured.
    pub handoff: Option<Handoff>,
    /// Measured runs, and their length.
    pub runs: (usize, u64),
}

/// One stream of packets that was split.
pub struct Step {
    /// The element whose task brings it, and its output.
    pub source: String,
    output: usize,
    /// How many streams it is split into.
    pub streams: usize,
    /// Elements that every part goes through, up to the next queues.
    replicated: Vec<String>,
    /// Of these, what one worker at a time runs.
    serial: Vec<String>,
}

/// What was found.
pub struct Outcome {
    /// The configuration, rewritten or not.
    pub text: String,
    /// What was split.
    pub steps: Vec<Step>,
    /// The rate that is predicted as it was, in Mpps.
    pub before_mpps: f64,
    /// The rate that is predicted as it is now, in Mpps.
    pub after_mpps: f64,
    /// The rounds before and after, if there are so many cores.
    pub against: Option<[Against; 2]>,
    /// Why nothing was changed, where that is so.
    kept: Option<String>,
}

impl Outcome {
    /// How far the model lies off, before and after, from rates measured in the rounds that fed it.
    pub fn errors(&self) -> Option<[f64; 2]> {
        Some(self.against.as_ref()?.each_ref().map(Against::error))
    }

    /// The rates that were measured.
    fn measured(&self) -> Option<[f64; 2]> {
        Some(self.against.as_ref()?.each_ref().map(Against::measured_mpps))
    }

    fn gain(&self) -> f64 {
        self.after_mpps / self.before_mpps - 1.0
    }

    /// For programs; `goal` is what it was rewritten for.
    pub fn json(&self, goal: &Goal) -> Value {
        let steps = self.steps.iter().map(|s| {
            json!({ "source": s.source, "output": s.output, "streams": s.streams, "replicated": s.replicated, "serial": s.serial })
        });
        let value = |name: &str, mpps: f64| json!({ "name": name, "value": mpps, "unit": "Mpps", "min": mpps, "max": mpps, "runs": 1 });
        let mut results = vec![
            value("parallelize.before_mpps", self.before_mpps),
            value("parallelize.after_mpps", self.after_mpps),
        ];
        if let Some([before, after]) = self.measured() {
            results.push(value("parallelize.measured_before_mpps", before));
            results.push(value("parallelize.measured_after_mpps", after));
        }
        for (name, against) in ["before", "after"].iter().zip(self.against.iter().flatten()) {
            let ([low, high], error) = (against.half(), against.error());
            let name = format!("parallelize.error_{name}");
            results.push(json!({ "name": name, "value": error, "unit": "ratio", "min": low, "max": high, "runs": against.rounds() }));
        }
        json!({
            "command": "parallelize", "version": env!("CARGO_PKG_VERSION"), "machine": measure::machine(),
            "conditions": { "cores": goal.cores, "queues": goal.queues, "steps": steps.collect::<Vec<_>>(), "kept_because": self.kept, "configuration": self.text },
            "results": results,
        })
    }

    /// What was done and why, for people; `goal` is what it was rewritten for.
    pub fn explain(&self, goal: &Goal) -> String {
        let mut text = String::new();
        if let Some(why) = &self.kept {
            let _ = writeln!(
                text,
                "Nothing changed: no rewriting was found that gains {} % on {} cores ({:.2} Mpps predicted as it is).",
                goal.threshold, goal.cores, self.before_mpps
            );
            let _ = writeln!(text, "  Why: {why}.");
            return text;
        }
        for step in &self.steps {
            let _ = writeln!(
                text,
                "{} brings, by one task, more than a core's share of the work. Spread({}) behind its output {} hands each\n  \
             flow to one of {} workers.",
                step.source, step.streams, step.output, step.streams
            );
            let _ = writeln!(text, "  On each of them run: {}.", step.replicated.join(", "));
            let _ = writeln!(
                text,
                "  Order: all packets of a flow have one hash, so one ring, one worker, and each queue behind takes what a\n  \
             worker brings in the order in which it brings it."
            );
            if !step.serial.is_empty() {
                let _ = writeln!(
                    text,
                    "  One worker at a time runs {}; they see packets of different flows in another order than before.",
                    step.serial.join(", ")
                );
            }
        }
        let _ = writeln!(
            text,
            "Predicted on {} cores: {:.2} Mpps before, {:.2} after ({:+.0} %).",
            goal.cores,
            self.before_mpps,
            self.after_mpps,
            100.0 * self.gain()
        );
        if let Some(([before, after], [before_error, after_error])) = self.measured().zip(self.errors()) {
            let _ = writeln!(
                text,
                "Measured here:         {before:.2} Mpps before, {after:.2} after ({:+.0} %). Predicted over measured: {:+.1} % before, {:+.1} % \
             after.",
                100.0 * (after / before - 1.0),
                100.0 * before_error,
                100.0 * after_error
            );
        }
        text
    }
}

/// Looks for a rewriting of a configuration on devices with this traffic.
///
/// # Errors
/// The configuration cannot be measured.
pub fn rewrite(graph: &Graph, notes: &str, goal: &Goal) -> Result<Outcome, Error> {
    let cores = goal.cores;
    let subject = |graph| {
        let subject = Subject::new(graph, notes)?;
        Ok::<_, Error>(subject.with_queues(goal.queues).with_run_ms(goal.runs.1))
    };
    let before = subject(graph)?;
    let router = before.build(cores)?;
    let here = std::thread::available_parallelism().map_or(1, usize::from);
    let checks: Vec<usize> = [cores].into_iter().filter(|cores| *cores <= here).collect();
    let mut trial = Trial::new(&before, here, &checks)?;
    trial = trial.with_distance(&before, goal.handoff).rounds(goal.runs.0)?;
    let old = Prediction::new(&trial.costs(), router.shared(), cores, &trial.handoff());
    let before_mpps = old.mpps();
    let unchanged = |before_mpps, why| Outcome {
        text: graph.to_click(),
        steps: Vec::new(),
        before_mpps,
        after_mpps: before_mpps,
        against: None,
        kept: Some(why),
    };
    let streams = Streams::new(router.shared(), &old, cores);
    let steps = streams.steps();
    if steps.is_empty() {
        return Ok(unchanged(before_mpps, streams.why_none()));
    }
    let text = with_spreads(graph, &steps);
    let parsed = lang::load_str("parallelized", &text, &elements::options());
    let new_graph = parsed.graph.ok_or(Error::Configuration(parsed.diagnostics))?;
    let after = subject(&new_graph)?;
    // Both in turn, so that a slow phase of the machine does not look like a loss or a gain.
    let mut after_trial = Trial::new(&after, here, &checks)?.with_distance(&after, goal.handoff);
    for _ in 0..goal.runs.0.max(1) {
        trial.round()?;
        after_trial.round()?;
    }
    let new_router = after.build(cores)?;
    let both = [(&trial, router.shared()), (&after_trial, new_router.shared())];
    let against = both.map(|(trial, shared)| trial.against(shared, cores));
    let against = match against {
        [Some(before), Some(after)] => Some([before, after]),
        _ => None,
    };
    let [before_mpps, after_mpps] = match &against {
        Some(both) => both.each_ref().map(Against::predicted_mpps),
        None => both.map(|(t, shared)| Prediction::new(&t.costs(), shared, cores, &trial.handoff()).mpps()),
    };
    let outcome =
        Outcome { text: format!("{notes}{text}"), steps, before_mpps, after_mpps, against, kept: None };
    if outcome.gain() * 100.0 >= goal.threshold {
        return Ok(outcome);
    }
    let tried: Vec<String> = outcome.steps.iter().map(Step::in_short).collect();
    let why = format!(
        "with {} {after_mpps:.2} Mpps are predicted ({:+.1} %)",
        tried.join(" and "),
        100.0 * outcome.gain()
    );
    Ok(unchanged(before_mpps, why))
}

impl Step {
    /// For a list of what was tried.
    fn in_short(&self) -> String {
        let at = format!("Spread({}) behind {} [{}]", self.streams, self.source, self.output);
        if self.serial.is_empty() {
            at
        } else {
            format!("{at}, where one worker at a time runs {},", self.serial.join(", "))
        }
    }
}

/// The tasks that bring packets, each for all cores, and what they cost.
struct Streams<'a> {
    shared: &'a Shared,
    cores: usize,
    /// Elements whose one task brings packets, with the share of all work that is done by it.
    sources: Vec<(ElementId, f64)>,
}

impl<'a> Streams<'a> {
    fn new(shared: &'a Shared, prediction: &Prediction, cores: usize) -> Self {
        let load = |e: ElementId| -> f64 {
            let items = prediction.items.iter().zip(&prediction.problem.items);
            items.filter(|(element, _)| **element == e).map(|(_, item)| item.cost).sum()
        };
        let all: f64 = prediction.problem.items.iter().map(|i| i.cost).sum();
        let single = |e: &ElementId| brings(shared, *e) && shared.elements[*e].place.tasks.len() == 1;
        let sources = shared.elements.ids().filter(single).map(|e| (e, load(e) / all)).collect();
        Self { shared, cores, sources }
    }

    /// Those that cost more than a core's share: a source that costs less does not hold the others back.
    fn heavy(&self) -> impl Iterator<Item = (ElementId, f64)> {
        let share = 1.05 / self.cores as f64;
        self.sources.iter().copied().filter(move |(_, of_all)| *of_all > share)
    }

    /// The streams that are worth splitting.
    fn steps(&self) -> Vec<Step> {
        let shared = self.shared;
        let mut steps = Vec::new();
        for (e, of_all) in self.heavy() {
            let streams = ((of_all * self.cores as f64).ceil() as usize).clamp(2, self.cores);
            for (output, engine::GraphPort { processing, peers }) in
                shared.elements[e].outputs().iter().enumerate()
            {
                if processing != Processing::Push || peers.is_empty() {
                    continue;
                }
                let replicated = behind(shared, peers.iter().map(|p| p.element));
                let names = |pick: &dyn Fn(ElementId) -> bool| -> Vec<String> {
                    replicated
                        .iter()
                        .filter(|e| pick(**e))
                        .map(|e| shared.elements[*e].name.to_string())
                        .collect()
                };
                let serial = names(&|e| shared.elements[e].class.sharing == Sharing::Serial);
                let source = shared.elements[e].name.to_string();
                // A queue right behind the task, and nothing to share out.
                if !replicated.is_empty() {
                    steps.push(Step { source, output, streams, replicated: names(&|_| true), serial });
                }
            }
        }
        steps
    }

    /// Why there are no such steps.
    fn why_none(&self) -> String {
        let name = |e: ElementId| &self.shared.elements[e].name;
        let share = 100.0 / self.cores as f64;
        if let Some((e, of_all)) = self.heavy().next() {
            let percent = 100.0 * of_all;
            return format!(
                "{} brings {percent:.0} % of the work by one task, but right behind it are queues, so nothing is to be shared out",
                name(e)
            );
        }
        if let Some((e, of_all)) = self.sources.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)) {
            return format!(
                "no task brings more than a core's share of the work, {share:.0} %; most has that of {}, {:.0} %",
                name(e),
                100.0 * of_all
            );
        }
        match self.shared.elements.ids().find(|e| brings(self.shared, *e)) {
            Some(e) => format!("packets come in on every core already, by tasks of {}", name(e)),
            None => "no task pushes packets into it".to_owned(),
        }
    }
}

/// Whether an element's tasks bring packets and push them on. What draws from a queue is a stream of its own already.
fn brings(shared: &Shared, e: ElementId) -> bool {
    let info = &shared.elements[e];
    let pushes = info.outputs().iter().any(|port| port.processing == Processing::Push);
    let draws = info.inputs().iter().any(|port| port.processing == Processing::Pull);
    !info.place.tasks.is_empty() && pushes && !draws
}

/// Elements that packets reach from these by pushes, up to queues.
fn behind(shared: &Shared, from: impl Iterator<Item = ElementId>) -> Vec<ElementId> {
    let mut todo: Vec<ElementId> = from.collect();
    let mut found = Vec::new();
    while let Some(e) = todo.pop() {
        let info = &shared.elements[e];
        if found.contains(&e) || info.class.sharing == Sharing::Queue {
            continue;
        }
        found.push(e);
        let pushes = info.outputs().iter().filter(|port| port.processing == Processing::Push);
        todo.extend(pushes.flat_map(|port| port.peers.iter().map(|p| p.element)));
    }
    found.sort_unstable();
    found
}

/// The configuration with a Spread behind the output of each step.
fn with_spreads(graph: &Graph, steps: &[Step]) -> String {
    let mut graph = graph.clone();
    let index: HashMap<String, usize> =
        graph.elements.iter().enumerate().map(|(i, e)| (e.name.to_string(), i)).collect();
    for step in steps {
        let Some(source) = index.get(&step.source).copied() else { continue };
        let mut name = format!("{}_spread{}", step.source.replace(['/', '@'], "_"), step.output);
        while graph.elements.iter().any(|e| e.name == name) {
            name.push('_');
        }
        let spread = graph.elements.len();
        let like = graph.elements[source].clone();
        graph.elements.push(lang::Element {
            name: name.into(),
            class: "Spread".into(),
            config: format!("WORKERS {}", step.streams).into(),
            config_span: None,
            ..like
        });
        let mut bridge = None;
        for c in &mut graph.connections {
            if (c.from.element, c.from.port) == (source, step.output) {
                bridge = Some(c.clone());
                c.from.element = spread;
                c.from.port = 0;
            }
        }
        if let Some(mut bridge) = bridge {
            bridge.to.element = spread;
            bridge.to.port = 0;
            graph.connections.push(bridge);
        }
    }
    graph.connections.sort_by_key(|c| (c.from, c.to));
    graph.to_click()
}

#[cfg(test)]
mod tests {
    use engine::Mode;

    use super::*;

    fn streams_of<T>(
        text: &str,
        costs: &[(&str, f64)],
        (queues, cores): (usize, usize),
        ask: impl Fn(&Streams<'_>) -> T,
    ) -> (Graph, T) {
        let graph = lang::load_str("test", text, &elements::options()).graph.expect("a graph");
        let subject = Subject::new(&graph, "").map(|s| s.with_queues(queues)).expect("patterns");
        let Ok(router) = subject.build(cores) else { panic!("does not build") };
        let shared = router.shared();
        let costs = crate::costs::Costs::made_up(shared, costs);
        let prediction = Prediction::new(&costs, shared, cores, &Handoff::flat(10.0));
        let told = ask(&Streams::new(shared, &prediction, cores));
        (graph, told)
    }

    fn steps_of(text: &str, costs: &[(&str, f64)], cores: usize) -> (Graph, Vec<Step>) {
        streams_of(text, costs, (1, cores), |streams| streams.steps())
    }

    fn why_none(text: &str, costs: &[(&str, f64)], size: (usize, usize)) -> String {
        let why = |streams: &Streams<'_>| {
            assert!(streams.steps().is_empty());
            streams.why_none()
        };
        streams_of(text, costs, size, why).1
    }

    /// Nothing is changed without a word why.
    #[test]
    fn why_nothing_is_split() {
        let line = "a :: FromDevice(x) -> Null -> Queue -> b :: ToDevice(y);";
        let even = why_none(line, &[("a", 50.0), ("b", 50.0)], (1, 2));
        assert_eq!(
            even,
            "no task brings more than a core's share of the work, 50 %; most has that of a, 50 %"
        );
        let queue =
            why_none("a :: FromDevice(x) -> Queue -> b :: ToDevice(y);", &[("a", 90.0), ("b", 10.0)], (1, 2));
        assert_eq!(
            queue,
            "a brings 90 % of the work by one task, but right behind it are queues, so nothing is to be shared out"
        );
        let queues = why_none("a :: FromDevice(x) -> b :: ToDevice(y);", &[("a", 90.0)], (2, 2));
        assert_eq!(queues, "packets come in on every core already, by tasks of a");
    }

    /// A configuration good for 2 cores becomes one with flow-disjoint streams for more.
    #[test]
    fn a_stream_is_split_and_the_result_is_a_configuration() {
        let text = "a :: FromDevice(x) -> n :: Null -> Queue -> b :: ToDevice(y);";
        let (graph, steps) = steps_of(text, &[("a", 90.0), ("b", 10.0)], 4);
        assert_eq!(steps.len(), 1);
        assert_eq!((steps[0].source.as_str(), steps[0].streams), ("a", 4));
        assert_eq!(steps[0].replicated, ["n"]);
        let text = with_spreads(&graph, &steps);
        let parsed = lang::load_str("new", &text, &elements::options());
        assert!(parsed.diagnostics.is_empty(), "{:?}\n{text}", parsed.diagnostics);
        let graph = parsed.graph.expect("a graph");
        assert_eq!(graph.elements.iter().filter(|e| e.class == "Unqueue").count(), 4);
        let subject = Subject::new(&graph, "").map(|s| s.with_queues(1)).expect("patterns");
        let Ok(router) = subject.build(4) else { panic!("does not build") };
        let n = router.shared().lookup("n", None).expect("n");
        assert_eq!(router.shared().elements[n].place.mode, Mode::PerCore);
        assert_eq!(router.shared().elements[n].place.workers, [0, 1, 2, 3]);
    }

    #[test]
    fn what_feeds_all_cores_already_is_left_alone() {
        let text = "a :: FromDevice(x) -> Null -> Discard; b :: FromDevice(y) -> Null -> Discard;";
        assert!(steps_of(text, &[("a", 50.0), ("b", 50.0)], 2).1.is_empty());
        // Only the heavy one of two is split.
        let (_, steps) = steps_of(text, &[("a", 80.0), ("b", 20.0)], 4);
        assert_eq!(steps.iter().map(|s| (s.source.as_str(), s.streams)).collect::<Vec<_>>(), [("a", 4)]);
    }
}
