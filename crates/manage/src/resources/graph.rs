// SPDX-License-Identifier: MIT OR Apache-2.0
//! The graph of a router: elements with their places in a drawing, connections, and the load of both by worker.

use std::collections::HashMap;

use explain::places::{Graph, Places, places};
use serde::Serialize;
use serde_json::{Value, json};

use super::rates::{Done, Rates};
use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::Route;
use crate::sampler::Look;
use crate::schema::{anything, list, object, with};

/// Elements for which places are computed; the work grows faster than their number.
const DRAWN: usize = 3000;

pub(super) const ROUTES: &[Route] = &[
    Route::get(
        "/api/v1/routers/{router}/graph",
        "Elements with places for a drawing, connections with their rates, and the load of each worker.",
        schema,
        read,
    ),
    Route::get(
        "/api/v1/routers/{router}/graph/loads",
        "The load of elements and their outputs for a drawing that a client has already. The router is not asked, and elements at rest are left out.",
        loads_schema,
        loads,
    ),
];

/// Fields of an element's load.
const LOADED: [&str; 5] = [
    "packets_per_s:number Packets that come in or, without inputs, go out.",
    "cycles_per_packet:number? What a packet costs.",
    "busy_share:number? The share of a processor that it takes.",
    "dropped_per_s:number Packets that it drops.",
    "hand_off:boolean Whether packets go from one worker to another in it.",
];

/// What one worker does for an element.
fn load_schema() -> Value {
    object(&[
        "worker:integer The worker.",
        "received_per_s:number Packets that come in.",
        "packets_per_s:number Packets that leave.",
        "busy_share:number The share of the processor.",
    ])
}

fn loads_schema() -> Value {
    let named: Vec<&str> = ["name:string Its name."].into_iter().chain(LOADED).collect();
    let element = with(object(&named), "workers", list(load_schema()));
    let element = with(element, "outputs", list(json!({ "type": "number" })));
    with(object(&["seconds:number The time that rates are of."]), "elements", list(element))
}

fn schema() -> Value {
    let fields = [
        "name:string Its name.",
        "class:string Its class.",
        "config:string Its arguments; secrets are left out.",
        "x:number? The middle of its box, in pixels; null if there are too many elements to draw.",
        "y:number? The middle of its box.",
        "width:number? The width of its box.",
    ];
    let element = object(&fields.into_iter().chain(LOADED).collect::<Vec<_>>());
    let edge = object(&[
        "from:string The element that sends.",
        "output:integer Its output.",
        "to:string The element that gets.",
        "input:integer Its input.",
        "packets_per_s:number? Packets; null if they are not counted.",
        "hand_off:boolean Whether the other side runs on other workers.",
    ]);
    let page = object(&[
        "width:number? Of the drawing.",
        "height:number? Of the drawing.",
        "seconds:number The time that rates are of.",
    ]);
    let page = with(page, "elements", list(with(element, "workers", list(load_schema()))));
    with(with(page, "edges", list(with(edge, "points", anything()))), "workers", list(anything()))
}

/// What one worker does for an element, see [`load_schema`].
#[derive(Serialize)]
struct WorkerLoad {
    worker: u64,
    received_per_s: f64,
    packets_per_s: f64,
    busy_share: f64,
}

/// The load of an element, see [`LOADED`].
#[derive(Serialize)]
struct Load<'a> {
    name: &'a str,
    packets_per_s: f64,
    cycles_per_packet: Option<f64>,
    busy_share: Option<f64>,
    dropped_per_s: f64,
    hand_off: bool,
    workers: Vec<WorkerLoad>,
    /// What leaves by each output, for a client that has the drawing.
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<Vec<f64>>,
}

/// The load of an element, by what the sampler saw of it.
fn load<'a>(name: &'a str, seen: Option<&top::Element>, done: &Done, hz: f64) -> Load<'a> {
    let acts = done
        .workers
        .iter()
        .filter(|(_, load)| load.packets > 0.0 || load.received > 0.0 || load.cycles() > 0.0);
    let workers = acts.map(|(worker, load)| WorkerLoad {
        worker: *worker,
        received_per_s: load.received,
        packets_per_s: load.packets,
        busy_share: if hz > 0.0 { (load.cycles() / hz).min(1.0) } else { 0.0 },
    });
    Load {
        name,
        packets_per_s: seen.map_or(0.0, |seen| seen.packets),
        cycles_per_packet: seen.and_then(|seen| seen.cycles),
        busy_share: seen.and_then(|seen| seen.busy),
        dropped_per_s: seen.map_or(0.0, |seen| seen.drops),
        hand_off: done.is_hand_off(),
        workers: workers.collect(),
        outputs: None,
    }
}

/// An element with its place and load.
fn element(element: &lang::Element, place: Option<(f64, f64, f64)>, load: &Load<'_>) -> Value {
    let (x, y, width) = place.map_or((None, None, None), |(x, y, width)| (Some(x), Some(y), Some(width)));
    let mut found = json!(load);
    found["class"] = json!(&*element.class);
    found["config"] = json!(&*element.config);
    (found["x"], found["y"], found["width"]) = (json!(x), json!(y), json!(width));
    found
}

/// The processor's clock, in cycles for each second.
fn hz(look: &Look) -> f64 {
    let (then, now) = (&look.before.reading.snapshot, &look.now.reading.snapshot);
    let ns = now.monotonic_ns.saturating_sub(then.monotonic_ns);
    if ns > 0 { now.cycles.saturating_sub(then.cycles) as f64 * 1e9 / ns as f64 } else { 0.0 }
}

fn drawn(graph: &lang::Graph, look: &Look) -> Value {
    let names: Vec<(&str, &str)> = graph.elements.iter().map(|e| (&*e.name, &*e.class)).collect();
    let edges: Vec<(usize, usize)> =
        graph.connections.iter().map(|c| (c.from.element, c.to.element)).collect();
    let placed: Option<Places> =
        (names.len() <= DRAWN).then(|| places(&Graph { names: &names, edges: &edges }));
    let rates = Rates::between(&look.before.reading, &look.now.reading);
    let hz = hz(look);
    let by_name: HashMap<&str, &top::Element> =
        look.rates.elements.iter().map(|element| (&*element.name, element)).collect();
    let elements: Vec<Value> = graph
        .elements
        .iter()
        .enumerate()
        .map(|(i, e)| {
            let place = placed.as_ref().map(|placed| placed.boxes[i]);
            let seen = by_name.get(&*e.name).copied();
            element(e, place, &load(&e.name, seen, rates.of(&e.name), hz))
        })
        .collect();
    let edges: Vec<Value> = graph
        .connections
        .iter()
        .enumerate()
        .map(|(i, c)| {
            let (from, to) = (names[c.from.element].0, names[c.to.element].0);
            let points = placed.as_ref().map(|placed| &placed.routes[i]);
            json!({
                "from": from, "output": c.from.port, "to": to, "input": c.to.port,
                "packets_per_s": rates.of(from).output(c.from.port as u64),
                "hand_off": rates.of(from).is_hand_off() || rates.of(to).is_hand_off(), "points": points,
            })
        })
        .collect();
    json!({
        "width": placed.as_ref().map(|placed| placed.width), "height": placed.as_ref().map(|placed| placed.height),
        "seconds": look.rates.seconds, "elements": elements, "edges": edges, "workers": look.rates.cores,
    })
}

fn read(call: &Call) -> Result<Answer, Problem> {
    let look = call.shared.samplers.look(&*call.shared.routers, call.part("router"))?;
    let flat = call.client()?.read("flatconfig")?;
    Ok(drawn(&conf::present(&flat), &look).into())
}

fn loads(call: &Call) -> Result<Answer, Problem> {
    #[derive(Serialize)]
    struct Loads<'a> {
        seconds: f64,
        elements: Vec<Load<'a>>,
    }
    let look = call.shared.samplers.look(&*call.shared.routers, call.part("router"))?;
    let rates = Rates::between(&look.before.reading, &look.now.reading);
    let hz = hz(&look);
    let elements = look.rates.elements.iter().filter_map(|seen| {
        let done = rates.of(&seen.name);
        let load = load(&seen.name, Some(seen), done, hz);
        let is_at_rest = load.workers.is_empty() && seen.drops == 0.0;
        (!is_at_rest).then(|| Load { outputs: Some(done.outputs()), ..load })
    });
    Ok(Answer::json(&Loads { seconds: look.rates.seconds, elements: elements.collect() }))
}
