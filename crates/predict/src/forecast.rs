// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a configuration would forward on so many cores, what would hold it back, and which worker should run what.

use std::fmt::Write as _;
use std::sync::Arc;

use engine::Shared;
use harness::{Error, Subject};
use reconfigure::balance::{Handoff, Problem};
use report::measure;
use serde_json::{Value, json};

use crate::costs::Costs;
use crate::model::Prediction;
use crate::trial::{Against, Trial};

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Cores to plan for.
    pub cores: usize,
    /// Rounds, in each of which everything is measured once.
    pub rounds: usize,
    /// What handing packets from core to core costs, if that is not to be measured.
    pub handoff: Option<Handoff>,
}

/// A prediction for as many workers as this machine has cores, and what it measured.
struct Held {
    prediction: Prediction,
    against: Against,
    /// What the workers' tasks took for each packet, waiting not counted.
    measured_loads: Vec<f64>,
}

/// The answer.
pub struct Forecast {
    costs: Costs,
    handoff: Handoff,
    held: Vec<Held>,
    prediction: Prediction,
    shared: Arc<Shared>,
}

/// Measures a configuration here, and predicts what it forwards on the cores that are asked about.
///
/// # Errors
/// The configuration cannot be measured.
pub fn plan(subject: &Subject<'_>, question: &Question) -> Result<Forecast, Error> {
    let here = std::thread::available_parallelism().map_or(1, usize::from);
    let checks: Vec<usize> = [1, 2].into_iter().filter(|w| *w <= here).collect();
    let trial = Trial::new(subject, here, &checks)?
        .with_distance(subject, question.handoff)
        .rounds(question.rounds)?;
    let (costs, handoff) = (trial.costs(), trial.handoff());
    let mut held = Vec::new();
    for workers in checks {
        let router = subject.build(workers)?;
        let prediction = Prediction::new(&costs, router.shared(), workers, &handoff);
        let measured_loads = trial.measured_loads(workers);
        let against = trial.against(router.shared(), workers);
        held.extend(against.map(|against| Held { prediction, against, measured_loads }));
    }
    let router = subject.build(question.cores)?;
    let shared = router.shared().clone();
    let prediction = Prediction::new(&costs, &shared, question.cores, &handoff);
    Ok(Forecast { costs, handoff, held, prediction, shared })
}

impl Forecast {
    /// For people.
    pub fn text(&self) -> String {
        let Forecast { costs, handoff, held, prediction, shared } = self;
        let mut text = String::new();
        let one = 1e3 / costs.ns_per_packet;
        let _ = writeln!(
            text,
            "{} cores: {:.2} Mpps predicted, {:.2} times one core.",
            prediction.workers,
            prediction.mpps(),
            prediction.mpps() / one
        );
        let _ = writeln!(text, "Limit: {}.", prediction.limit(shared));
        let _ = writeln!(text, "\n{:>6}  {:>9}  {:>5}  tasks", "worker", "ns/packet", "busy");
        let peak = prediction.loads.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        for (w, load) in prediction.loads.iter().enumerate() {
            let mine = prediction.items.iter().zip(&prediction.homes).filter(|(_, home)| **home == w);
            let tasks: Vec<&str> = mine.map(|(e, _)| shared.elements[*e].name.as_str()).collect();
            let _ = writeln!(text, "{w:>6}  {load:>9.1}  {:>4.0}%  {}", 100.0 * load / peak, tasks.join(" "));
        }
        let _ = writeln!(
            text,
            "\n{:>9}  {:>5}  task, with all that follows from it (one core)",
            "ns/packet", "share"
        );
        for task in &costs.tasks {
            let share = 100.0 * task.ns / costs.ns_per_packet;
            let _ = writeln!(text, "{:>9.1}  {share:>4.0}%  {}", task.ns, name(shared, task.element));
        }
        match better(prediction) {
            Some((moved, mpps)) => {
                let _ =
                    writeln!(text, "\nBetter, {mpps:.2} Mpps, with these tasks elsewhere ('junctor run'):");
                for (element, worker) in moved {
                    let _ = writeln!(text, "  --place {}={worker}", shared.elements[element].name);
                }
            }
            None => text.push_str("\nNo better placement of these tasks was found.\n"),
        }
        text.push_str("\nThe model against this machine:\n");
        for Held { prediction, against, measured_loads } in held {
            let [low, high] = against.half();
            let _ = writeln!(
                text,
                "  {} worker{}: predicted {:.2} Mpps, measured {:.2}: {:+.1} % (half of the rounds: {:+.1} to {:+.1} %)",
                prediction.workers,
                if prediction.workers == 1 { " " } else { "s" },
                against.predicted_mpps(),
                against.measured_mpps(),
                100.0 * against.error(),
                100.0 * low,
                100.0 * high,
            );
            let loads =
                |loads: &[f64]| loads.iter().map(|ns| format!("{ns:.1}")).collect::<Vec<_>>().join(" ");
            let _ = writeln!(
                text,
                "             ns for each packet, worker by worker: predicted {}, measured {}",
                loads(&prediction.loads),
                loads(measured_loads)
            );
        }
        let _ = writeln!(
            text,
            "Each is the median of rounds, of which each predicts its own measurement; the error is that of their ratios.\n\
         Handing a packet over costs those who bring and take it {:.1} and {:.1} ns more than on one core, and a batch {:.0} and {:.0};\n\
         a frame that ends on another core than it began on costs them {:.1} and {:.1}. For two workers it is not these that count, but\n\
         what their tasks took when they went round by round in turn; for more, these are corrected by that.",
            handoff.per_packet_ns[0],
            handoff.per_packet_ns[1],
            handoff.per_batch_ns[0],
            handoff.per_batch_ns[1],
            handoff.memory_ns[0],
            handoff.memory_ns[1]
        );
        match costs.together {
            Some([first, second]) => {
                let _ = writeln!(
                    text,
                    "Of two copies that share nothing, side by side, a packet costs the first core {first:.2} times as much as alone, and\n\
                 the second {second:.2} times; beyond two, each doubling of cores is taken to cost the mean again."
                );
            }
            None => text.push_str(
                "With one core here, what cores cost each other is not known and taken as nothing.\n",
            ),
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let Forecast { costs, held, prediction, shared, .. } = self;
        let value = |name: &str, value: f64, unit: &str| json!({ "name": name, "value": value, "unit": unit, "min": value, "max": value, "runs": 1 });
        let mut results = vec![
            value("plan.mpps", prediction.mpps(), "Mpps"),
            value("plan.scaling", prediction.mpps() * costs.ns_per_packet / 1e3, "ratio"),
            value("plan.ns_per_packet_1", costs.ns_per_packet, "ns"),
        ];
        for h in held {
            let w = h.prediction.workers;
            results.push(value(&format!("plan.predicted_mpps_{w}"), h.against.predicted_mpps(), "Mpps"));
            results.push(value(&format!("plan.measured_mpps_{w}"), h.against.measured_mpps(), "Mpps"));
            let [low, high] = h.against.half();
            let error = h.against.error();
            let name = format!("plan.error_{w}");
            results.push(json!({ "name": name, "value": error, "unit": "ratio", "min": low, "max": high, "runs": h.against.rounds() }));
        }
        let places: Vec<Value> = prediction
            .items
            .iter()
            .zip(&prediction.homes)
            .map(|(e, home)| json!({ "task": shared.elements[*e].name.as_str(), "worker": home }))
            .collect();
        let moves = better(prediction).map(|(moved, mpps)| {
            let moved =
                moved.iter().map(|(e, w)| json!({ "task": shared.elements[*e].name.as_str(), "worker": w }));
            json!({ "mpps": mpps, "moves": moved.collect::<Vec<_>>() })
        });
        json!({
            "command": "plan", "version": env!("CARGO_PKG_VERSION"), "machine": measure::machine(),
            "conditions": {
                "cores": prediction.workers, "together": costs.together.map(|_| costs.mean_slower()), "limit": prediction.limit(shared),
                "loads_ns": prediction.loads, "placement": places, "better": moves,
            },
            "results": results,
        })
    }
}

fn name(shared: &engine::Shared, element: engine::ElementId) -> String {
    let info = &shared.elements[element];
    format!("{} ({})", info.name, info.class.name)
}

/// The tasks that should run elsewhere than the engine would have them, with their workers, and the rate then.
fn better(prediction: &Prediction) -> Option<(Vec<(engine::ElementId, usize)>, f64)> {
    let problem: &Problem = &prediction.problem;
    let best = problem.solve(Some(&prediction.homes));
    let gain = problem.peak(&prediction.homes) / problem.peak(&best).max(f64::MIN_POSITIVE);
    let moved = prediction.items.iter().zip(&best).zip(&prediction.homes);
    let moved: Vec<_> = moved.filter(|((_, new), old)| new != old).map(|((e, new), _)| (*e, *new)).collect();
    // Less than that is within the model's own error.
    (gain > 1.02 && !moved.is_empty()).then_some((moved, gain * prediction.mpps()))
}
