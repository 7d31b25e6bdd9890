// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements of a router and what they do.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::Route;
use crate::schema::{list, object, with};
use crate::words::absent;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/api/v1/routers/{router}/elements", "Elements with their rates and costs.", all_schema, all)
        .with_query(&[
            ("filter", "string", "Only elements with this text in their name or class."),
            ("limit", "integer", "So many at most (1000)."),
            ("from", "integer", "The number of the first one, for the next page."),
        ]),
    Route::get("/api/v1/routers/{router}/elements/{element}", "One element.", schema, one),
];

fn schema() -> Value {
    object(&[
        "name:string Its name.",
        "class:string Its class.",
        "packets:integer Packets that came in; without inputs, that went out.",
        "packets_per_s:number The same for each second.",
        "packets_per_batch:number? Packets of a batch.",
        "cycles_per_packet:number? What a packet costs.",
        "busy_share:number? The share of a processor that it takes.",
        "task_busy_share:number? The share that its task takes with all that follows.",
        "dropped:integer Packets that it dropped.",
        "dropped_per_s:number The same for each second.",
        "held:integer Packets that it holds.",
    ])
}

fn all_schema() -> Value {
    let page = object(&[
        "count:integer All that fit the filter.",
        "seconds:number The time that rates are of.",
        "next:integer? The first of the next page.",
    ]);
    with(page, "elements", list(schema()))
}

fn all(call: &Call) -> Result<Answer, Problem> {
    let look = call.shared.samplers.look(&*call.shared.routers, call.part("router"))?;
    let (limit, from) =
        (call.number("limit", 1000, 10_000)? as usize, call.number("from", 0, u32::MAX.into())? as usize);
    let filter = call.asked("filter").unwrap_or_default().to_lowercase();
    let has = |element: &&top::Element| {
        [&element.name, &element.class].iter().any(|text| text.to_lowercase().contains(&filter))
    };
    let fit: Vec<&top::Element> = look.rates.elements.iter().filter(has).collect();
    let next = (from + limit < fit.len()).then_some(from + limit);
    let shown: Vec<&&top::Element> = fit.iter().skip(from).take(limit).collect();
    Ok(json!({ "count": fit.len(), "seconds": look.rates.seconds, "next": next, "elements": shown }).into())
}

fn one(call: &Call) -> Result<Answer, Problem> {
    let look = call.shared.samplers.look(&*call.shared.routers, call.part("router"))?;
    let name = call.part("element");
    let found = look.rates.elements.iter().find(|element| element.name == name);
    let fix = "see /api/v1/routers/{router}/elements; write a slash in a name as %2F";
    found.map(|element| json!(element).into()).ok_or_else(|| absent("element", name, fix))
}
