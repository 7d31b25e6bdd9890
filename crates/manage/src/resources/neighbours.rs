// SPDX-License-Identifier: MIT OR Apache-2.0
//! Neighbours.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::Route;
use crate::schema::{anything, list, object, with};

pub(super) const ROUTES: &[Route] = &[Route::get(
    "/api/v1/routers/{router}/neighbours",
    "The neighbours that a router's elements keep.",
    schema,
    read,
)];

fn schema() -> Value {
    with(object(&[]), "neighbours", list(anything()))
}

fn read(call: &Call) -> Result<Answer, Problem> {
    Ok(json!({ "neighbours": ::routes::neighbours::of_router(&mut call.client()?)? }).into())
}
