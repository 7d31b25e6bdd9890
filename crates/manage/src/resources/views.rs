// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views of a recording: what the profiler's report and its other forms make of it.

use std::time::Duration;

use serde_json::Value;

use crate::answer::Answer;
use crate::call::Call;
use crate::jobs::Plan;
use crate::problem::{Kind, Problem};
use crate::route::{Method, Role, Route};
use crate::schema::object;

/// Views that may be made: name, options of `junctor profile`, and type.
const VIEWS: [(&str, &[&str], &str); 4] = [
    ("report", &["report", "--json"], "application/json"),
    ("timeline", &["export", "--format=html"], "text/html"),
    ("perfetto", &["export", "--format=perfetto"], "application/x-protobuf"),
    ("csv", &["export", "--format=csv"], "text/csv"),
];
/// How long a view is waited for, before the answer says that it goes on.
const SOON: Duration = Duration::from_secs(5);

pub(super) const ROUTES: &[Route] = &[Route::get(
    "/api/v1/jobs/{job}/views",
    "Makes a view of a recording; the result is the view.",
    super::jobs::schema,
    begin,
)
.by(Method::Post, Role::Operator)
.with_body(body)
.answers(202)];

fn body() -> Value {
    object(&["view:string report (JSON), timeline (HTML), perfetto or csv."])
}

fn begin(call: &Call) -> Result<Answer, Problem> {
    call.only(&body())?;
    let asked = call.text("view")?.unwrap_or_default();
    let Some((_, options, media_type)) = VIEWS.into_iter().find(|(name, ..)| *name == asked) else {
        let fix = format!("use one of {}", VIEWS.map(|(name, ..)| name).join(", "));
        return Err(Problem::invalid("body: view", "there is no such view", fix));
    };
    let recording = call.part("job");
    if call.shared.jobs.get(recording)?["kind"] != "recording" {
        let fix = "name a job that POST /api/v1/routers/{router}/recordings has started";
        return Err(Problem::new(Kind::Conflict, "the job is no recording").fix(fix));
    }
    let (path, ..) = call.shared.jobs.result(recording, call.who.role)?;
    let options: Vec<String> = ["profile"].iter().chain(options).map(|word| (*word).to_owned()).collect();
    let plan = Plan { router: None, ..super::jobs::plan(call, "view", None, None, media_type) };
    let answer = super::jobs::start(call, plan, |_| options, &[path.display().to_string()], "")?;
    Ok(super::jobs::soon(call, answer, SOON))
}
