// SPDX-License-Identifier: MIT OR Apache-2.0
//! Live values: ports, queues, workers and tables, and the stream of all of them.

use serde::Serialize;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::{Method, Role, Route, Run};
use crate::schema::{list, object, text, with};

pub(super) const ROUTES: &[Route] = &[
    Route::get("/api/v1/routers/{router}/ports", "Ports with their rates and losses.", ports_schema, ports),
    Route::get("/api/v1/routers/{router}/queues", "Queues with their lengths.", queues_schema, queues),
    Route::get("/api/v1/routers/{router}/workers", "Workers and their cores.", workers_schema, workers),
    Route::get("/api/v1/routers/{router}/tables", "Tables with their sizes.", tables_schema, tables),
    Route {
        method: Method::Get,
        path: "/api/v1/routers/{router}/live",
        role: Role::Viewer,
        summary: "A stream of server-sent events: each second an event 'rates' with what 'junctor top --json' prints, 'lost' with the \
                  number of events that the client was too slow for, and 'end' when the router has ended.",
        query: &[],
        body: None,
        answer: (200, text),
        run: Run::Live,
    },
];

fn several(name: &str, fields: &[&str]) -> Value {
    with(object(&["seconds:number The time that rates are of."]), name, list(object(fields)))
}

fn ports_schema() -> Value {
    let fields = [
        "name:string The element.",
        "class:string Its class.",
        "packets:integer Packets that came or went.",
        "packets_per_s:number For each second.",
        "bytes_per_s:number? For each second.",
        "missed:integer Packets lost before they were fetched.",
        "missed_per_s:number For each second.",
        "no_memory:integer Times without a free frame.",
    ];
    several("ports", &fields)
}

fn queues_schema() -> Value {
    let fields = [
        "name:string The element.",
        "class:string Its class.",
        "length:integer Packets in it.",
        "capacity:integer Packets for which it has room.",
        "highwater:integer? The most that were in it.",
        "received_per_s:number Packets that come in each second.",
        "packets_per_s:number Packets that leave each second.",
        "dropped_per_s:number Packets dropped each second.",
    ];
    several("queues", &fields)
}

fn workers_schema() -> Value {
    let fields = [
        "worker:integer Its number.",
        "cpu:integer? The processor that it ran on last.",
        "active:boolean Whether it takes part.",
        "stalled:boolean Whether it stands still.",
        "busy_share:number The share of time with work.",
        "ran_share:number The share of time on a processor.",
        "waited_share:number The share of time waiting for one.",
        "packets_per_s:number Packets moved each second.",
        "rounds_per_s:number Rounds each second.",
        "task_runs_per_s:number Runs of tasks each second.",
    ];
    several("workers", &fields)
}

fn tables_schema() -> Value {
    let fields = [
        "name:string The element.",
        "class:string Its class.",
        "entries:integer Entries.",
        "capacity:integer? Entries for which there is room.",
        "memory_bytes:integer? Memory.",
    ];
    several("tables", &fields)
}

/// A list of what was seen, and the time that it is of.
fn part<T: Serialize>(call: &Call, name: &str, of: impl Fn(&top::Look) -> &[T]) -> Result<Answer, Problem> {
    let look = call.shared.samplers.look(&*call.shared.routers, call.part("router"))?;
    Ok(json!({ "seconds": look.rates.seconds, name: of(&look.rates) }).into())
}

fn ports(call: &Call) -> Result<Answer, Problem> {
    part(call, "ports", |look| &look.ports)
}

fn queues(call: &Call) -> Result<Answer, Problem> {
    part(call, "queues", |look| &look.queues)
}

fn workers(call: &Call) -> Result<Answer, Problem> {
    part(call, "workers", |look| &look.cores)
}

fn tables(call: &Call) -> Result<Answer, Problem> {
    part(call, "tables", |look| &look.tables)
}
