// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces: packets followed element by element, and packets that are only tried.

use serde_json::Value;

use super::captures::time;
use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::{Method, Role, Route};
use crate::schema::object;
use crate::words::{shown, word};

pub(super) const ROUTES: &[Route] = &[Route::get(
    "/api/v1/routers/{router}/traces",
    "Follows packets; with 'packet' or 'hex' one of your own, of which nothing comes. The result is a line of JSON for each.",
    super::jobs::schema,
    begin,
)
.by(Method::Post, Role::Operator)
.with_body(body)
.answers(202)];

fn body() -> Value {
    object(&[
        "filter*:string? Which packets, as for tcpdump.",
        "at*:string? From this element on: ELEMENT or ELEMENT:PORT.",
        "count*:integer? How many (10).",
        "time_s*:integer? For so many seconds (10).",
        "packet*:string? Tries a packet with these headers, such as 'ip 10.0.0.1 to 10.0.1.9 / udp 1 to 2'.",
        "hex*:string? Tries the packet of these bytes.",
        "format*:string? 'text' for a result as 'junctor trace' prints it.",
    ])
}

fn begin(call: &Call) -> Result<Answer, Problem> {
    call.only(&body())?;
    let mut options: Vec<String> = vec!["trace".into()];
    let media_type = match call.text("format")? {
        Some("text") => "text/plain",
        None | Some("json") => {
            options.push("--json".into());
            "application/x-ndjson"
        }
        Some(other) => {
            let detail = format!("there is no format '{}'", shown(other));
            return Err(Problem::invalid("body: format", detail, "give json or text"));
        }
    };
    if let Some(at) = call.text("at")? {
        options.push(format!("--at={}", word(at, "body: at")?));
    }
    let own = match (call.text("packet")?, call.text("hex")?) {
        (Some(_), Some(_)) => {
            return Err(Problem::invalid(
                "body: hex",
                "there is a packet already",
                "send packet or hex, not both",
            ));
        }
        (Some(headers), None) => Some(format!("--packet={headers}")),
        (None, Some(digits)) => Some(format!("--hex={digits}")),
        (None, None) => None,
    };
    let (mut words, mut expected) = (Vec::new(), None);
    match own {
        Some(option) => options.push(option),
        None => {
            let seconds = time(call, 10)?;
            expected = Some(seconds);
            options.push(format!("--time={seconds}s"));
            options.push(format!("--count={}", call.count("count", 10_000)?.unwrap_or(10)));
            words.extend(call.text("filter")?.map(str::to_owned));
        }
    }
    let plan = super::jobs::plan(call, "trace", expected, None, media_type);
    super::jobs::start(call, plan, |_| options, &words, "")
}
