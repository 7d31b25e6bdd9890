// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dropped packets.

use serde_json::{Value, json};
use views::drops;

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::Route;
use crate::schema::{list, object, with};
use crate::words::absent;

pub(super) const ROUTES: &[Route] = &[
    Route::get(
        "/api/v1/routers/{router}/drops",
        "What a router dropped, by reason and element.",
        schema,
        read,
    )
    .with_query(&[("reason", "string", "Only this reason.")]),
    Route::get("/api/v1/drop-reasons", "All reasons for drops, and what they mean.", reasons_schema, reasons),
];

fn schema() -> Value {
    let element = object(&["element:string The element.", "packets:integer Packets that it dropped."]);
    let reason = object(&["reason:string The reason.", "packets:integer Packets of all elements."]);
    with(object(&[]), "drops", list(with(reason, "elements", list(element))))
}

fn reasons_schema() -> Value {
    with(object(&[]), "reasons", list(object(&["name:string Its name.", "text:string What it means."])))
}

fn read(call: &Call) -> Result<Answer, Problem> {
    let mut found = drops::read(&mut call.client()?)?;
    if let Some(reason) = call.asked("reason") {
        if reason.parse::<engine::Reason>().is_err() {
            return Err(absent("reason", reason, "see /api/v1/drop-reasons").at("query: reason"));
        }
        found.retain(|name, _| name == reason);
    }
    Ok(json!({ "drops": drops::json(&found) }).into())
}

fn reasons(_: &Call) -> Result<Answer, Problem> {
    Ok(drops::list_json().into())
}
