// SPDX-License-Identifier: MIT OR Apache-2.0
//! The graph of a router: elements with their places in a drawing, connections, and the load of both by worker.

use std::collections::HashMap;

use explain::places::{Graph, Places, places};
use serde_json::{Value, json};

use super::rates::Rates;
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

/// The load of an element, by what the sampler saw of it.
fn load(name: &str, seen: Option<&Value>, rates: &Rates<'_>, hz: f64) -> Value {
    let of = rates.of(name);
    let rate = |key: &str| seen.map_or(Value::Null, |found| found[key].clone());
    let or_zero = |value: Value| if value.is_null() { json!(0.0) } else { value };
    let workers: Vec<Value> = of
        .workers
        .iter()
        .filter(|(_, load)| load.packets > 0.0 || load.received > 0.0 || load.cycles() > 0.0)
        .map(|(worker, load)| {
            let busy = if hz > 0.0 { (load.cycles() / hz).min(1.0) } else { 0.0 };
            json!({
                "worker": worker, "received_per_s": load.received, "packets_per_s": load.packets, "busy_share": busy,
            })
        })
        .collect();
    json!({
        "name": name, "packets_per_s": or_zero(rate("packets_per_s")), "cycles_per_packet": rate("cycles_per_packet"),
        "busy_share": rate("busy_share"), "dropped_per_s": or_zero(rate("dropped_per_s")),
        "hand_off": of.is_hand_off(), "workers": workers,
    })
}

/// An element with its place and load.
fn element(element: &lang::Element, place: Option<(f64, f64, f64)>, mut load: Value) -> Value {
    let (x, y, width) = place.map_or((None, None, None), |(x, y, width)| (Some(x), Some(y), Some(width)));
    load["class"] = json!(&*element.class);
    load["config"] = json!(&*element.config);
    (load["x"], load["y"], load["width"]) = (json!(x), json!(y), json!(width));
    load
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
    let all = look.rates["elements"].as_array();
    let by_name: HashMap<&str, &Value> =
        all.into_iter().flatten().filter_map(|e| Some((e["name"].as_str()?, e))).collect();
    let elements: Vec<Value> = graph
        .elements
        .iter()
        .enumerate()
        .map(|(i, e)| {
            let place = placed.as_ref().map(|placed| placed.boxes[i]);
            element(e, place, load(&e.name, by_name.get(&*e.name).copied(), &rates, hz))
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
        "seconds": look.rates["seconds"], "elements": elements, "edges": edges, "workers": look.rates["cores"],
    })
}

fn read(call: &Call) -> Result<Answer, Problem> {
    let look = call.shared.samplers.look(&*call.shared.routers, call.part("router"))?;
    let flat = call.client()?.read("flatconfig")?;
    Ok(drawn(&conf::present(&flat), &look).into())
}

fn loads(call: &Call) -> Result<Answer, Problem> {
    let look = call.shared.samplers.look(&*call.shared.routers, call.part("router"))?;
    let rates = Rates::between(&look.before.reading, &look.now.reading);
    let hz = hz(&look);
    let all = look.rates["elements"].as_array();
    let elements: Vec<Value> = all
        .into_iter()
        .flatten()
        .filter_map(|seen| {
            let name = seen["name"].as_str()?;
            let mut load = load(name, Some(seen), &rates, hz);
            let is_at_rest =
                load["workers"].as_array().is_none_or(Vec::is_empty) && seen["dropped_per_s"] == 0.0;
            load["outputs"] = json!(rates.of(name).outputs());
            (!is_at_rest).then_some(load)
        })
        .collect();
    Ok(json!({ "seconds": look.rates["seconds"], "elements": elements }).into())
}
