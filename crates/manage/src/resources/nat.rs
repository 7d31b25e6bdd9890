// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statements and hosts of an address translator.

use serde_json::{Value, json};
use views::{answers, nat};

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::{Parameter, Route};
use crate::schema::{anything, list, object, with};

const ELEMENT: &[Parameter] = &[("element", "string", "The element, if there are several.")];

pub(super) const ROUTES: &[Route] = &[
    Route::get(
        "/api/v1/routers/{router}/nat/statements",
        "Statements of a translator with their counters.",
        statements_schema,
        statements,
    )
    .with_query(ELEMENT),
    Route::get("/api/v1/routers/{router}/nat/hosts", "Inside hosts that have sessions.", hosts_schema, hosts)
        .with_query(ELEMENT),
];

fn statements_schema() -> Value {
    with(object(&["element:string The element."]), "statements", list(anything()))
}

fn hosts_schema() -> Value {
    with(object(&["element:string The element."]), "hosts", list(anything()))
}

fn statements(call: &Call) -> Result<Answer, Problem> {
    let mut client = call.client()?;
    let (element, _) = answers::find(&mut client, call.word("element")?, &["NAT44"])?;
    let found = nat::statements_json(&nat::statements(&mut client, &element)?);
    Ok(json!({ "element": element, "statements": found }).into())
}

fn hosts(call: &Call) -> Result<Answer, Problem> {
    let mut client = call.client()?;
    let (element, _) = answers::find(&mut client, call.word("element")?, &["NAT44"])?;
    let found = nat::hosts_json(&nat::hosts(&mut client, &element)?);
    Ok(json!({ "element": element, "hosts": found }).into())
}
