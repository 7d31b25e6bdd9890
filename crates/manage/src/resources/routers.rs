// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running routers.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::Route;
use crate::routers::Found;
use crate::schema::{list, object, with};
use crate::words::absent;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/api/v1/routers", "The routers that run on this machine.", all_schema, all),
    Route::get("/api/v1/routers/{router}", "One router.", schema, one),
];

fn schema() -> Value {
    object(&[
        "name:string Its name in paths.",
        "pid:integer? Its process.",
        "socket:string Its control socket.",
    ])
}

fn all_schema() -> Value {
    with(object(&[]), "routers", list(schema()))
}

fn shown(found: &Found) -> Value {
    json!({ "name": found.name, "pid": found.pid, "socket": found.socket })
}

fn all(call: &Call) -> Result<Answer, Problem> {
    let routers: Vec<Value> = call.shared.routers.list().iter().map(shown).collect();
    Ok(json!({ "routers": routers }).into())
}

fn one(call: &Call) -> Result<Answer, Problem> {
    let name = call.part("router");
    let list = call.shared.routers.list();
    let found = list.iter().find(|found| found.name == name);
    found.map(|found| shown(found).into()).ok_or_else(|| absent("router", name, "see /api/v1/routers"))
}
