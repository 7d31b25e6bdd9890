// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs: long work, its progress and its results.

use std::time::Duration;

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::call::Call;
use crate::jobs::{Plan, Sort};
use crate::problem::Problem;
use crate::route::{Method, Role, Route};
use crate::schema::{anything, list, object, with};

pub(super) const ROUTES: &[Route] = &[
    Route::get("/api/v1/jobs", "All jobs. One that has ended is removed after an hour.", all_schema, all),
    Route::get("/api/v1/jobs/{job}", "One job.", schema, one),
    Route::get(
        "/api/v1/jobs/{job}/messages",
        "Lines that a job has written as messages; 'next' is where the next ones begin.",
        lines_schema,
        lines,
    )
    .with_query(&[("from", "integer", "The 'next' of the answer before (0).")]),
    Route::get(
        "/api/v1/jobs/{job}/result",
        "What a job has found, to download. Needs the role that starting the job needs.",
        anything,
        result,
    )
    .by(Method::Get, Role::Operator),
    Route::get(
        "/api/v1/jobs/{job}",
        "Cancels a job that runs; removes one that has ended. Needs the role that starting the job needs.",
        schema,
        end,
    )
    .by(Method::Delete, Role::Operator),
];

/// A job.
pub(super) fn schema() -> Value {
    object(&[
        "id:integer Its number.",
        "kind:string capture, trace, recording, view, test or apply.",
        "router:string? Its router.",
        "by:string Who asked for it.",
        "state:string running, done, failed or cancelled.",
        "seconds:number How long it took until now.",
        "progress:number? From 0 to 1; null if that is not known.",
        "bytes:integer The size of its result.",
        "media_type:string The type of its result.",
        "exit_status:integer? 0 if it succeeded.",
        "message:string The last that it said.",
    ])
}

fn all_schema() -> Value {
    with(object(&[]), "jobs", list(schema()))
}

fn all(call: &Call) -> Result<Answer, Problem> {
    Ok(json!({ "jobs": call.shared.jobs.list() }).into())
}

fn one(call: &Call) -> Result<Answer, Problem> {
    call.shared.jobs.get(call.part("job")).map(Answer::from)
}

fn lines_schema() -> Value {
    object(&["text:string Whole lines, 64 KiB at most.", "next:integer Where the next ones begin."])
}

fn lines(call: &Call) -> Result<Answer, Problem> {
    let from = call.number("from", 0, crate::jobs::BYTES)?;
    let (text, next) = call.shared.jobs.lines(call.part("job"), from)?;
    Ok(json!({ "text": text, "next": next }).into())
}

fn result(call: &Call) -> Result<Answer, Problem> {
    let (path, media_type, name) = call.shared.jobs.result(call.part("job"), call.who.role)?;
    Ok(Answer::File(path, media_type, name))
}

fn end(call: &Call) -> Result<Answer, Problem> {
    call.shared.jobs.end(call.part("job"), call.who.role).map(Answer::from)
}

/// What a job about the router of a request is, if operators may start it. `expected_s` is the time that it takes, if that is known.
pub(super) fn plan(
    call: &Call,
    kind: &'static str,
    expected_s: Option<u64>,
    file: Option<&'static str>,
    media_type: &'static str,
) -> Plan {
    let (router, by) = (Some(call.part("router").to_owned()), call.who.name.clone());
    let (sort, role) = (Sort::Work, Role::Operator);
    Plan { sort, role, kind, router, by, expected: expected_s.map(Duration::from_secs), file, media_type }
}

/// Starts a job for a request: a command of `junctor` with options and words.
pub(super) fn start(
    call: &Call,
    plan: Plan,
    options: impl FnOnce(&str) -> Vec<String>,
    words: &[String],
    input: &str,
) -> Result<Answer, Problem> {
    let router = plan.router.clone();
    let command = |file: &std::path::Path| {
        call.shared.routers.command(router.as_deref(), &options(&file.display().to_string()), words)
    };
    let id = call.shared.jobs.start(plan, command, input)?;
    let job = call.shared.jobs.get(&id.to_string())?;
    Ok(Answer::Made(job, format!("/api/v1/jobs/{id}")))
}

/// The answer about a job that was started, after it has ended or this time has passed: most such jobs end at once.
pub(super) fn soon(call: &Call, answer: Answer, patience: Duration) -> Answer {
    let Answer::Made(job, place) = answer else { return answer };
    let id = job["id"].as_u64().unwrap_or_default();
    call.shared.jobs.wait(id, patience);
    Answer::Made(call.shared.jobs.get(&id.to_string()).unwrap_or(job), place)
}
