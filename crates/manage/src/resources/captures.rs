// SPDX-License-Identifier: MIT OR Apache-2.0
//! Captures of packets.

use serde_json::Value;

use crate::answer::Answer;
use crate::call::Call;
use crate::jobs::LONGEST;
use crate::problem::Problem;
use crate::route::{Method, Role, Route};
use crate::schema::object;
use crate::words::word;

pub(super) const ROUTES: &[Route] = &[Route::get(
    "/api/v1/routers/{router}/captures",
    "Begins a capture; its result is a pcapng file of at most 64 MiB.",
    super::jobs::schema,
    begin,
)
.by(Method::Post, Role::Operator)
.with_body(body)
.answers(202)];

fn body() -> Value {
    object(&[
        "points*:[]string? Where: ELEMENT or ELEMENT:PORT; at least one, unless drops is given.",
        "drops*:string? Packets dropped for this reason; for any reason if it is empty.",
        "filter*:string? Which packets, as for tcpdump.",
        "direction*:string? in, out or both.",
        "snap*:integer? Bytes kept of each packet.",
        "count*:integer? Ends after so many packets.",
        "time_s*:integer? Ends after so many seconds (10).",
    ])
}

/// The words of a list in the body.
pub(super) fn words(call: &Call, name: &str, most: usize) -> Result<Vec<String>, Problem> {
    let place = format!("body: {name}");
    let fix = format!("send a list of at most {most} words");
    let wrong = |detail: &str| Problem::invalid(place.clone(), detail, fix.clone());
    let list = match &call.body[name] {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) if list.len() <= most => list,
        _ => return Err(wrong("this is no list of so few words")),
    };
    list.iter()
        .map(|item| {
            word(item.as_str().ok_or_else(|| wrong("an entry is no text"))?, &place).map(str::to_owned)
        })
        .collect()
}

/// The time in the body, in seconds.
pub(super) fn time(call: &Call, usual: u64) -> Result<u64, Problem> {
    Ok(call.count("time_s", LONGEST.as_secs())?.unwrap_or(usual))
}

fn begin(call: &Call) -> Result<Answer, Problem> {
    call.only(&body())?;
    let points = words(call, "points", 16)?;
    let drops = call.text("drops")?;
    if points.is_empty() && drops.is_none() {
        return Err(Problem::invalid(
            "body: points",
            "there is no point to capture at",
            "name an element, or send drops",
        ));
    }
    let seconds = time(call, 10)?;
    let mut options: Vec<String> = vec!["capture".into(), format!("--time={seconds}s")];
    if let Some(filter) = call.text("filter")? {
        options.push(format!("--filter={filter}"));
    }
    if let Some(direction) = call.text("direction")? {
        options.push(format!("--direction={}", word(direction, "body: direction")?));
    }
    if let Some(snap) = call.count("snap", 262_144)? {
        options.push(format!("--snap={snap}"));
    }
    if let Some(count) = call.count("count", u64::MAX)? {
        options.push(format!("--count={count}"));
    }
    if let Some(reason) = drops {
        options.push(format!("--drops={reason}"));
    }
    let plan = super::jobs::plan(
        call,
        "capture",
        Some(seconds),
        Some("packets.pcapng"),
        "application/vnd.tcpdump.pcap",
    );
    let with_file = |file: &str| {
        options.push(format!("--write={file}"));
        options
    };
    super::jobs::start(call, plan, with_file, &points, "")
}
