// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules and sets of a firewall.

use serde_json::{Value, json};
use views::{answers, firewall};

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::{Parameter, Route};
use crate::schema::{list, object, with};

const ELEMENT: &[Parameter] = &[("element", "string", "The element, if there are several.")];

pub(super) const ROUTES: &[Route] = &[
    Route::get(
        "/api/v1/routers/{router}/firewall/rules",
        "Rules with their counters; the default is the last one.",
        schema,
        rules,
    )
    .with_query(ELEMENT),
    Route::get(
        "/api/v1/routers/{router}/firewall/sets",
        "Named sets of addresses and ports.",
        sets_schema,
        sets,
    )
    .with_query(ELEMENT),
];

fn schema() -> Value {
    let rule = object(&[
        "line:integer? Its line in the file; null for the default.",
        "packets:integer Packets that it was the first to match.",
        "bytes:integer Their bytes.",
        "connections:integer Connections that it accepted and that have not ended.",
        "last_s:integer? Seconds since the last match.",
        "text:string Its text.",
    ]);
    with(object(&["element:string The element."]), "rules", list(rule))
}

fn sets_schema() -> Value {
    let set = object(&[
        "name:string Its name.",
        "kind:string addresses or ports.",
        "entries:integer Its entries.",
        "ending:integer Of these, with an end.",
        "bytes:integer Memory of look-ups.",
    ]);
    with(object(&["element:string The element."]), "sets", list(set))
}

fn rules(call: &Call) -> Result<Answer, Problem> {
    let mut client = call.client()?;
    let (element, _) = answers::find(&mut client, call.word("element")?, &["Firewall"])?;
    let rules = firewall::rules_json(&firewall::rules(&mut client, &element)?);
    Ok(json!({ "element": element, "rules": rules }).into())
}

fn sets(call: &Call) -> Result<Answer, Problem> {
    let mut client = call.client()?;
    let (element, _) = answers::find(&mut client, call.word("element")?, &["Firewall"])?;
    let sets = firewall::sets_json(&firewall::sets(&mut client, &element)?);
    Ok(json!({ "element": element, "sets": sets }).into())
}
