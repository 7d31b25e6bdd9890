// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings of the profiler.

use serde_json::Value;

use super::captures::time;
use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::{Method, Role, Route};
use crate::schema::object;
use crate::words::word;

pub(super) const ROUTES: &[Route] = &[Route::get(
    "/api/v1/routers/{router}/recordings",
    "Records what a router's threads do; the result is a file for 'junctor profile report' and 'export'.",
    super::jobs::schema,
    begin,
)
.by(Method::Post, Role::Operator)
.with_body(body)
.answers(202)];

fn body() -> Value {
    object(&[
        "time_s*:integer? For so many seconds (5).",
        "events*:string? Kinds of events, with commas.",
        "mode*:string? stream, flight or stop.",
        "until*:string? Ends when this happens: drop=REASON, stall>TIME or latency>TIME.",
        "kernel*:boolean? Whether the kernel's events are recorded, too (false).",
    ])
}

fn begin(call: &Call) -> Result<Answer, Problem> {
    call.only(&body())?;
    let seconds = time(call, 5)?;
    let mut options: Vec<String> = vec!["profile".into(), "record".into(), format!("--time={seconds}s")];
    for name in ["events", "mode", "until"] {
        if let Some(text) = call.text(name)? {
            options.push(format!("--{name}={}", word(text, &format!("body: {name}"))?));
        }
    }
    if call.body["kernel"] != true {
        options.push("--no-kernel".into());
    }
    let plan =
        super::jobs::plan(call, "recording", Some(seconds), Some("run.prof"), "application/octet-stream");
    let with_file = |file: &str| {
        options.push(format!("--output={file}"));
        options
    };
    super::jobs::start(call, plan, with_file, &[], "")
}
