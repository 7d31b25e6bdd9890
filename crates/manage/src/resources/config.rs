// SPDX-License-Identifier: MIT OR Apache-2.0
//! Saved configurations: their commits, and the transactions that put one into service. All of it is done by `junctor config` in
//! a process of its own, so answers are those of the command.

use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::call::Call;
use crate::jobs::{self, Plan, Sort};
use crate::problem::{Kind, Problem};
use crate::route::{Method, Parameter, Role, Route};
use crate::schema::{anything, list, object, with};
use crate::words::{absent, shown};

/// The variable that names the client for which `junctor config` acts.
pub const ACTS_FOR: &str = "JUNCTOR_ACTS_FOR";
/// How long a question may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a transaction is waited for, before the answer says that it goes on.
const SOON: Duration = Duration::from_secs(10);
/// A path, a comment, or a time may have so many bytes.
const LONGEST: usize = 1000;

const FORMAT: Parameter = ("format", "string", "'text' for the text that 'junctor config' prints.");

pub(super) const ROUTES: &[Route] = &[
    Route::get("/api/v1/config", "Services with saved configurations.", services_schema, services),
    Route::get(
        "/api/v1/config/{service}/history",
        "The commits of a service, which is in service, which boots, and which waits to be confirmed.",
        history_schema,
        history,
    )
    .with_query(&[FORMAT]),
    Route::get(
        "/api/v1/config/{service}/commits/{commit}",
        "A commit by its number, or 'confirmed' for the one that boots.",
        commit_schema,
        show,
    )
    .with_query(&[FORMAT]),
    Route::get(
        "/api/v1/config/{service}/commits/{commit}/file",
        "A file of a commit. Secrets are not shown.",
        file_schema,
        file,
    )
    .with_query(&[("path", "string", "Its path.")]),
    Route::get(
        "/api/v1/config/{service}/diff",
        "The difference from one commit to another, or to the working files.",
        diff_schema,
        diff,
    )
    .with_query(&[
        ("from", "integer", "The older commit; the one in service without it."),
        ("to", "integer", "The newer commit; the working files without it."),
    ]),
    Route::get(
        "/api/v1/config/{service}/check",
        "Says all that is wrong with the working files.",
        check_schema,
        check,
    )
    .by(Method::Post, Role::Operator),
    Route::get(
        "/api/v1/config/{service}/plan",
        "What applying the working files would do about planes; changes nothing.",
        plan_schema,
        plan,
    )
    .by(Method::Post, Role::Admin),
    Route::get(
        "/api/v1/config/{service}/apply",
        "Saves the working files as a commit and puts it into service, as one transaction.",
        super::jobs::schema,
        apply,
    )
    .by(Method::Post, Role::Admin)
    .with_body(apply_body)
    .answers(202),
    Route::get(
        "/api/v1/config/{service}/confirm",
        "Keeps the commit that waits to be confirmed.",
        message_schema,
        confirm,
    )
    .by(Method::Post, Role::Admin),
    Route::get(
        "/api/v1/config/{service}/rollback",
        "Takes back the commit that waits to be confirmed; otherwise goes back to an earlier commit.",
        super::jobs::schema,
        rollback,
    )
    .by(Method::Post, Role::Admin)
    .with_body(rollback_body)
    .answers(202),
];

fn services_schema() -> Value {
    with(object(&[]), "services", list(object(&["name:string Its name."])))
}

fn commit_schema() -> Value {
    let file = object(&[
        "path:string Its path.",
        "bytes:integer Its length.",
        "mode:string Its permissions.",
        "secret:boolean Only its owner may read it.",
        "sha256:string? Its digest; null for a secret.",
    ]);
    let author = object(&[
        "uid:integer The user's number.",
        "user:string The user's name.",
        "sudo_user:string? Who became that user, or asked this API.",
    ]);
    let commit = object(&[
        "number:integer Its number.",
        "state:string pending, confirmed, failed or returned.",
        "why:string? Why it failed or was taken back.",
        "comment:string Why the change was made.",
        "time:string When.",
        "parent:integer? The commit that it was made from.",
        "confirm_within_s:number? It comes back unless it is confirmed in this time.",
        "in_service*:boolean? Whether it is in service.",
    ]);
    with(with(commit, "author", author), "files", list(file))
}

fn history_schema() -> Value {
    let history = object(&[
        "service:string Its name.",
        "in_service:integer? The commit in service.",
        "confirmed:integer? The commit that boots.",
    ]);
    let mut waiting = object(&[
        "commit:integer Its number.",
        "parent:integer The one that comes back.",
        "left_s:number Seconds until then.",
    ]);
    waiting["type"] = json!(["object", "null"]);
    with(with(history, "waiting", waiting), "commits", list(commit_schema()))
}

fn file_schema() -> Value {
    object(&["commit:integer Its commit.", "path:string Its path.", "text:string Its text."])
}

fn diff_schema() -> Value {
    object(&[
        "from:integer? The older commit.",
        "to:integer? The newer commit; null for the working files.",
        "diff:string In the unified form; empty if there is no difference.",
    ])
}

fn check_schema() -> Value {
    let checked = object(&["sound:boolean Whether it could be applied.", "text:string The same for people."]);
    with(checked, "diagnostics", list(anything()))
}

fn plan_schema() -> Value {
    let action = object(&[
        "action:string swap, supervise, stop, start, restart or restart-all.",
        "plane:string? Its plane.",
        "text:string What is done.",
    ]);
    with(object(&[]), "actions", list(action))
}

fn message_schema() -> Value {
    object(&["message:string What the service said."])
}

fn apply_body() -> Value {
    object(&[
        "comment*:string? Why the change is made.",
        "confirm_within_s*:integer? The commit before it comes back unless it is confirmed in so many seconds.",
        "parent*:integer? The commit that the files were edited from; the last that was applied from them without it.",
        "force*:boolean? Whatever is in service.",
        "keep*:integer? Keeps so many commits.",
        "format*:string? 'text' for a result as 'junctor config' prints it.",
    ])
}

fn rollback_body() -> Value {
    object(&[
        "commit*:integer? The commit; without it, the one before.",
        "comment*:string? Why.",
        "confirm_within_s*:integer? As for apply.",
        "dry_run*:boolean? Only says what would be done.",
        "format*:string? 'text' for a result as 'junctor config' prints it.",
    ])
}

/// The words of a subcommand for the service of the path.
fn options(call: &Call, subcommand: &str) -> Result<Vec<String>, Problem> {
    let name = call.part("service");
    let known = call.shared.routers.services().into_iter().find(|known| known.name == name);
    let known =
        known.ok_or_else(|| absent("service", name, "see /api/v1/config for those of this machine"))?;
    let mut words = vec!["config".to_owned(), subcommand.to_owned(), format!("--name={name}")];
    for (option, path) in ["etc", "state", "run"].iter().zip(known.directories.iter().flatten()) {
        words.push(format!("--{option}={}", path.display()));
    }
    Ok(words)
}

/// What to do about a subcommand that took too long and was ended.
fn remedy(subcommand: &str) -> &'static str {
    match subcommand {
        // The service may still carry out what it was asked.
        "confirm" => {
            "see /api/v1/config/{service}/history: if the commit still waits, confirm it again before the time is over; and see the \
             service's journal"
        }
        "history" | "show" | "diff" => {
            "ask again when the disk of the saved commits is less busy; an apply with 'keep' leaves fewer commits"
        }
        "check" | "apply" => "ask again when the machine is less busy, or make the working files smaller",
        _ => "ask again when the machine is less busy",
    }
}

/// Runs a subcommand; returns its status, its output and its words.
fn run(call: &Call, options: &[String], words: &[String]) -> Result<(i32, String, String), Problem> {
    let mut command = call.shared.routers.command(None, options, words)?;
    finish(&mut command, options.get(1).map_or("", String::as_str), PATIENCE)
}

/// Waits for the command of a subcommand, for at most so long.
fn finish(
    command: &mut Command,
    subcommand: &str,
    patience: Duration,
) -> Result<(i32, String, String), Problem> {
    let done = jobs::run(command, "", patience);
    let (status, output, said) = done.map_err(|why| why.if_late(remedy(subcommand)))?;
    let said = said.trim_end().strip_prefix("junctor: ").unwrap_or(said.trim_end()).to_owned();
    Ok((status.unwrap_or(-1), output, said))
}

/// The same for one that has to succeed.
fn good(call: &Call, options: &[String], words: &[String]) -> Result<String, Problem> {
    match run(call, options, words)? {
        (0, output, _) => Ok(output),
        (2, _, said) => Err(Problem::new(Kind::Refused, said)),
        (_, _, said) => Err(Problem::new(Kind::Conflict, said)),
    }
}

fn json_of(text: &str) -> Result<Value, Problem> {
    let broken = |_| Problem::new(Kind::Broken, "the answer of 'junctor config' is not understood");
    serde_json::from_str(text).map_err(broken)
}

/// Whether the text for people is wanted.
fn wants_text(format: Option<&str>, place: &str) -> Result<bool, Problem> {
    match format {
        None | Some("json") => Ok(false),
        Some("text") => Ok(true),
        Some(other) => {
            let detail = format!("there is no format '{}'", shown(other));
            Err(Problem::invalid(place, detail, "give json or text"))
        }
    }
}

/// What a subcommand prints, in the format that is wanted.
fn print(call: &Call, subcommand: &str, words: &[String]) -> Result<Answer, Problem> {
    let mut options = options(call, subcommand)?;
    if wants_text(call.asked("format"), "query: format")? {
        return Ok(Answer::Text("text/plain; charset=utf-8", good(call, &options, words)?));
    }
    options.push("--json".into());
    Ok(json_of(&good(call, &options, words)?)?.into())
}

fn services(call: &Call) -> Result<Answer, Problem> {
    let names = call.shared.routers.services().into_iter().map(|known| json!({ "name": known.name }));
    Ok(json!({ "services": names.collect::<Vec<_>>() }).into())
}

fn history(call: &Call) -> Result<Answer, Problem> {
    print(call, "history", &[])
}

/// The commit of the path, as a word of the command; none for the one that boots.
fn commit(call: &Call) -> Result<Option<String>, Problem> {
    let text = call.part("commit");
    match text.parse::<u64>() {
        Ok(number) => Ok(Some(number.to_string())),
        Err(_) if text == "confirmed" => Ok(None),
        Err(_) => {
            let detail = format!("'{}' is no number of a commit", shown(text));
            Err(Problem::invalid("path: commit", detail, "give its number, or confirmed"))
        }
    }
}

fn show(call: &Call) -> Result<Answer, Problem> {
    print(call, "show", &commit(call)?.into_iter().collect::<Vec<_>>())
}

fn file(call: &Call) -> Result<Answer, Problem> {
    let path = call.asked("path").unwrap_or_default();
    let is_path = !path.is_empty() && path.len() <= LONGEST && !path.contains(char::is_control);
    if !is_path {
        let fix = "give the path of a file, as the commit lists it";
        return Err(Problem::invalid("query: path", "there is no path of a file", fix));
    }
    let number = match commit(call)? {
        Some(number) => number,
        None => {
            let mut options = options(call, "show")?;
            options.push("--json".into());
            json_of(&good(call, &options, &[])?)?["number"].to_string()
        }
    };
    let text = good(call, &options(call, "show")?, &[number.clone(), path.to_owned()])?;
    let number = number.parse::<u64>().unwrap_or_default();
    Ok(json!({ "commit": number, "path": path, "text": text }).into())
}

fn diff(call: &Call) -> Result<Answer, Problem> {
    let mut options = options(call, "diff")?;
    options.push("--json".into());
    let number = |name| call.asked(name).map(|_| call.number(name, 0, u64::MAX)).transpose();
    let words: Vec<String> = match (number("from")?, number("to")?) {
        (None, Some(_)) => {
            let fix = "give from, too";
            return Err(Problem::invalid("query: to", "it is not known from which commit", fix));
        }
        (from, to) => from.into_iter().chain(to).map(|number| number.to_string()).collect(),
    };
    Ok(json_of(&good(call, &options, &words)?)?.into())
}

fn check(call: &Call) -> Result<Answer, Problem> {
    let mut options = options(call, "check")?;
    let (status, output, said) = run(call, &options, &[])?;
    options.push("--json".into());
    let diagnostics = match run(call, &options, &[])? {
        (0 | 2, text, _) if text.trim_start().starts_with('[') => json_of(&text)?,
        (0, ..) => json!([]),
        // What has no place in a file, such as a directory that cannot be read.
        (_, _, said) => return Err(Problem::new(Kind::Conflict, said)),
    };
    let text = if status == 0 { format!("{output}{said}") } else { format!("{said}\n") };
    Ok(json!({ "sound": status == 0, "diagnostics": diagnostics, "text": text }).into())
}

fn plan(call: &Call) -> Result<Answer, Problem> {
    let mut options = options(call, "apply")?;
    options.extend(["--dry-run", "--json"].map(str::to_owned));
    Ok(json_of(&good(call, &options, &[])?)?.into())
}

/// Options that apply and rollback have in common.
fn common(call: &Call, options: &mut Vec<String>) -> Result<&'static str, Problem> {
    if let Some(comment) = call.text("comment")? {
        if comment.len() > LONGEST {
            let fix = "send a shorter one";
            return Err(Problem::invalid("body: comment", "the comment is too long", fix));
        }
        options.push(format!("--comment={comment}"));
    }
    if let Some(seconds) = call.count("confirm_within_s", 86_400)? {
        options.push(format!("--confirm-within={seconds}s"));
    }
    if wants_text(call.text("format")?, "body: format")? {
        return Ok("text/plain");
    }
    options.push("--json".into());
    Ok("application/json")
}

fn flag(call: &Call, name: &str) -> Result<bool, Problem> {
    match &call.body[name] {
        Value::Null => Ok(false),
        Value::Bool(flag) => Ok(*flag),
        other => {
            let detail = format!("expected true or false, not {}", shown(&other.to_string()));
            Err(Problem::invalid(format!("body: {name}"), detail, "send true or false"))
        }
    }
}

/// Begins a transaction, and waits a little for its end.
fn transaction(
    call: &Call,
    kind: &'static str,
    media_type: &'static str,
    options: &[String],
    words: &[String],
) -> Result<Answer, Problem> {
    let by = call.who.name.clone();
    let (sort, role) = (Sort::Transaction, Role::Admin);
    let plan =
        Plan { sort, role, kind, router: None, by: by.clone(), expected: None, file: None, media_type };
    let command = |_: &std::path::Path| {
        let mut command = call.shared.routers.command(None, options, words)?;
        command.env(ACTS_FOR, OsString::from(by));
        Ok(command)
    };
    let id = call.shared.jobs.start(plan, command, "")?;
    call.shared.jobs.wait(id, SOON);
    Ok(Answer::Made(call.shared.jobs.get(&id.to_string())?, format!("/api/v1/jobs/{id}")))
}

fn apply(call: &Call) -> Result<Answer, Problem> {
    call.only(&apply_body())?;
    let mut options = options(call, "apply")?;
    let media_type = common(call, &mut options)?;
    for name in ["parent", "keep"] {
        if let Some(number) = call.count(name, u64::MAX)? {
            options.push(format!("--{name}={number}"));
        }
    }
    if flag(call, "force")? {
        options.push("--force".into());
    }
    transaction(call, "config-apply", media_type, &options, &[])
}

fn confirm(call: &Call) -> Result<Answer, Problem> {
    let said = good(call, &options(call, "confirm")?, &[])?;
    Ok(json!({ "message": said.trim_end() }).into())
}

fn rollback(call: &Call) -> Result<Answer, Problem> {
    call.only(&rollback_body())?;
    let mut options = options(call, "rollback")?;
    let media_type = common(call, &mut options)?;
    if flag(call, "dry_run")? {
        options.push("--dry-run".into());
    }
    let words: Vec<String> =
        call.count("commit", u64::MAX)?.map(|number| number.to_string()).into_iter().collect();
    transaction(call, "config-rollback", media_type, &options, &words)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each command that takes too long has a remedy of its own. None is about a body that was not sent.
    #[test]
    fn what_takes_too_long_has_a_remedy_of_its_own() {
        let late = |subcommand: &str| {
            let mut command = Command::new("sleep");
            finish(command.arg("1000"), subcommand, Duration::ZERO).unwrap_err()
        };
        for (subcommand, words) in
            [("confirm", "confirm it again"), ("history", "fewer commits"), ("check", "the working files")]
        {
            let problem = late(subcommand);
            assert_eq!(problem.kind, Kind::TimedOut);
            assert!(problem.fix.contains(words), "{subcommand}: {}", problem.fix);
        }
    }
}
