// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configurations: what runs, whether a text is right, and changes.
//!
//! Saved transactions over all planes (`junctor config`) have resources of their own, in `config`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::call::Call;
use crate::jobs::{self, Plan, Sort};
use crate::problem::{Kind, Problem};
use crate::route::{Method, Role, Route};
use crate::schema::{anything, list, object, with};

/// How long the compiler may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a change is waited for, before the answer says that it goes on.
const SOON: Duration = Duration::from_secs(10);

pub(super) const ROUTES: &[Route] = &[
    Route::get(
        "/api/v1/configurations/check",
        "Checks a configuration, without opening anything that it names.",
        checked_schema,
        check,
    )
    .by(Method::Post, Role::Operator)
    .with_body(text_body),
    Route::get(
        "/api/v1/routers/{router}/configuration",
        "The configuration that runs, as it was written and flat. Secrets are left out.",
        schema,
        read,
    ),
    Route::get(
        "/api/v1/routers/{router}/configuration/plan",
        "What would change, and whether the router could run it; changes nothing.",
        super::jobs::schema,
        plan,
    )
    .by(Method::Post, Role::Admin)
    .with_body(text_body)
    .answers(202),
    Route::get(
        "/api/v1/routers/{router}/configuration",
        "Gives a router another configuration without losing packets (hot swap).",
        super::jobs::schema,
        apply,
    )
    .by(Method::Put, Role::Admin)
    .with_body(apply_body)
    .answers(202),
    Route::get(
        "/api/v1/routers/{router}/configuration/status",
        "Whether a change waits for a confirmation.",
        message_schema,
        status,
    ),
    Route::get(
        "/api/v1/routers/{router}/configuration/confirm",
        "Keeps what was applied with confirm_s.",
        message_schema,
        confirm,
    )
    .by(Method::Post, Role::Admin),
    Route::get(
        "/api/v1/routers/{router}/configuration/rollback",
        "Brings the configuration before back.",
        message_schema,
        rollback,
    )
    .by(Method::Post, Role::Admin),
];

fn schema() -> Value {
    object(&["config:string As it was written.", "flat:string Compounds expanded, variables replaced."])
}

fn checked_schema() -> Value {
    with(object(&["sound:boolean Whether it could run."]), "diagnostics", list(anything()))
}

fn message_schema() -> Value {
    object(&["message:string What the router said."])
}

fn text_body() -> Value {
    object(&["text:string The configuration."])
}

fn apply_body() -> Value {
    object(&[
        "text:string The configuration.",
        "confirm_s*:integer? Brings the present one back after so many seconds, unless it is confirmed.",
    ])
}

fn text(call: &Call) -> Result<&str, Problem> {
    call.text("text")?.ok_or_else(|| {
        Problem::invalid("body: text", "there is no configuration", "send it as the field text")
    })
}

fn check(call: &Call) -> Result<Answer, Problem> {
    call.only(&text_body())?;
    let options = ["check".to_owned(), "--json".to_owned(), "--no-files".to_owned()];
    let mut command = call.shared.routers.command(None, &options, &["-".into()])?;
    let (status, output, words) = jobs::run(&mut command, text(call)?, PATIENCE)
        .map_err(|why| why.if_late("send a smaller configuration"))?;
    let diagnostics = serde_json::from_str::<Value>(&output).ok().filter(Value::is_array);
    let diagnostics = diagnostics.or_else(|| output.trim().is_empty().then(|| json!([])));
    let Some(diagnostics) = diagnostics else {
        let said = crate::words::shown(&words);
        return Err(Problem::new(Kind::Internal, format!("the compiler's answer is not understood: {said}")));
    };
    Ok(json!({ "sound": status == Some(0), "diagnostics": diagnostics }).into())
}

fn read(call: &Call) -> Result<Answer, Problem> {
    let mut client = call.client()?;
    let (config, flat) = (client.read("config")?, client.read("flatconfig")?);
    Ok(json!({ "config": config, "flat": flat }).into())
}

fn change(call: &Call, option: Option<String>) -> Result<Answer, Problem> {
    let plan = super::jobs::plan(call, "apply", None, None, "application/json");
    let plan = Plan { sort: Sort::Transaction, role: Role::Admin, ..plan };
    let options = ["apply".to_owned(), "--json".to_owned()].into_iter().chain(option).collect();
    let answer = super::jobs::start(call, plan, |_| options, &["-".into()], text(call)?)?;
    Ok(super::jobs::soon(call, answer, SOON))
}

fn plan(call: &Call) -> Result<Answer, Problem> {
    call.only(&text_body())?;
    change(call, Some("--dry-run".into()))
}

fn apply(call: &Call) -> Result<Answer, Problem> {
    call.only(&apply_body())?;
    let confirm = call.count("confirm_s", 86_400)?.map(|seconds| format!("--confirm={seconds}s"));
    change(call, confirm)
}

fn status(call: &Call) -> Result<Answer, Problem> {
    Ok(json!({ "message": call.client()?.read("apply")? }).into())
}

fn confirm(call: &Call) -> Result<Answer, Problem> {
    Ok(json!({ "message": call.client()?.write("apply_confirm", "")? }).into())
}

fn rollback(call: &Call) -> Result<Answer, Problem> {
    let mut client = call.client()?;
    client.be_patient();
    Ok(json!({ "message": client.write("apply_rollback", "")? }).into())
}
