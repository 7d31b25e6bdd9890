// SPDX-License-Identifier: MIT OR Apache-2.0
//! Neighbours.

use ::routes::neighbours::{Place, page};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::Route;
use crate::rows::Rows;
use crate::schema::{anything, list, object, with};
use crate::words::shown;

pub(super) const ROUTES: &[Route] = &[Route::get(
    "/api/v1/routers/{router}/neighbours",
    "The neighbours that a router's elements keep.",
    schema,
    read,
)
.with_query(&[
    ("limit", "integer", "So many at most (1000)."),
    ("cursor", "string", "The field 'next' of the page before."),
])];

fn schema() -> Value {
    let page = object(&["next:string? The cursor of the next page."]);
    with(page, "neighbours", list(anything()))
}

fn read(call: &Call) -> Result<Answer, Problem> {
    let limit = call.number("limit", 1000, 10_000)?.max(1) as usize;
    let wrong = |text: &str| {
        let detail = format!("'{}' is no cursor", shown(text));
        Problem::invalid("query: cursor", detail, "give the field 'next' of the page before")
    };
    let cursor = call.word("cursor")?;
    let from = cursor.map(|text| Place::parse(text).ok_or_else(|| wrong(text))).transpose()?;
    let mut rows = Rows::default();
    let next = page(&mut call.client()?, from, limit, |row| rows.push(&row.to_string()))?;
    Ok(rows.answer(json!({ "next": next.map(|place| place.to_string()) }), "neighbours"))
}
