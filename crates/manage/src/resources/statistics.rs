// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a router publishes, number by number: for `junctor top --remote`, and for those who compute rates themselves.

use serde_json::Value;

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::Route;
use crate::schema::{anything, list, object, with};

pub(super) const ROUTES: &[Route] = &[Route::get(
    "/api/v1/routers/{router}/statistics",
    "All counters of a router at one moment, and what they mean.",
    schema,
    read,
)];

fn schema() -> Value {
    let snapshot = object(&[
        "pid:integer The router's process.",
        "started_ns:integer When it began, since 1970.",
        "number:integer The number of the snapshot.",
        "wall_ns:integer When it was published, since 1970.",
        "monotonic_ns:integer The same on the machine's monotonic clock.",
        "cycles:integer The same in cycles of the time stamp counter.",
        "notes:[]string Decisions of the balancer, the latest last.",
        "values:[]integer In the order of series.",
    ]);
    let snapshot = with(snapshot, "metrics", list(anything()));
    with(with(snapshot, "objects", list(anything())), "series", list(anything()))
}

fn read(call: &Call) -> Result<Answer, Problem> {
    let found = call.shared.routers.published(call.part("router"))?;
    Ok(top::published(found.pid, found.started_ns, &found.reading).into())
}
