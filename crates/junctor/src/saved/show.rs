// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor config show`, `diff` and `history`.

use std::time::{Duration, SystemTime};

use saved::{Commit, Entry, Files, State};
use serde_json::{Value, json};

use super::apply::{in_service, now};
use super::{Stop, Store, Where, far, files_of, shown};
use crate::{exit, outcome};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The commit [default: the one that starts after a reboot].
    commit: Option<u64>,
    /// One of its files.
    file: Option<String>,
    /// Print JSON.
    #[arg(long, conflicts_with = "file")]
    json: bool,
    #[command(flatten)]
    place: Where,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DiffArgs {
    /// The older commit [default: the one in service].
    from: Option<u64>,
    /// The newer commit [default: the files].
    to: Option<u64>,
    /// The exit status is 1 if there is a difference.
    #[arg(long)]
    exit_code: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Where,
}

/// A moment for people and programs.
fn time(seconds: u64) -> String {
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

pub(super) fn show(args: &ShowArgs) -> Result<u8, Stop> {
    if let Some(far) = far(&args.place)? {
        return far.show(args.commit, args.file.as_deref(), args.json);
    }
    let place = args.place.find().map_err(Stop::Usage)?;
    let store = place.store()?;
    let number = match args.commit {
        Some(number) => number,
        None => {
            store.confirmed()?.ok_or_else(|| Stop::Failed(format!("service {} has no commit", place.name)))?
        }
    };
    let commit = store.commit(number)?;
    if let Some(path) = &args.file {
        return file(&store, &commit, path);
    }
    if args.json {
        return Ok(outcome::print_or_fail(format!("{}\n", object(&commit, None)).as_bytes()));
    }
    let mut text = format!(
        "commit {number} ({})\nauthor  {}\ntime    {}\n",
        state(&commit),
        commit.author,
        time(commit.time_s)
    );
    text += &commit.parent.map(|parent| format!("parent  {parent}\n")).unwrap_or_default();
    text += &format!("\n    {}\n\n", commit.comment);
    for Entry { path, bytes, mode, .. } in &commit.files {
        let secret = if mode & 0o077 == 0 { "  (secret)" } else { "" };
        text += &format!("  {mode:04o} {bytes:>9}  {path}{secret}\n");
    }
    Ok(outcome::print_or_fail(text.as_bytes()))
}

/// Prints a file of a commit.
fn file(store: &Store, commit: &Commit, path: &str) -> Result<u8, Stop> {
    let number = commit.number;
    let Some(entry) = commit.files.iter().find(|entry| entry.path == path) else {
        let all: Vec<&str> = commit.files.iter().map(|entry| entry.path.as_str()).collect();
        return Err(Stop::Usage(format!("commit {number} has no file '{path}'; it has {}", all.join(", "))));
    };
    if entry.is_secret() {
        return Err(Stop::Usage(format!(
            "'{path}' is a secret: only its owner may read it, so it is not shown"
        )));
    }
    let bytes = files_of(store, number)?.remove(path).map(|file| file.bytes).unwrap_or_default();
    match String::from_utf8(bytes) {
        Ok(text) => Ok(outcome::print_or_fail(shown(text).as_bytes())),
        Err(why) => Ok(outcome::print_or_fail(why.as_bytes())),
    }
}

fn state(commit: &Commit) -> String {
    match &commit.state {
        State::Failed { why } | State::Returned { why } => {
            format!("{}: {}", commit.state.word(), why.lines().next().unwrap_or_default())
        }
        other => other.word().to_owned(),
    }
}

/// A commit for programs. Of secrets there is no digest, by which one could try them out.
fn object(commit: &Commit, running: Option<bool>) -> Value {
    let file = |entry: &Entry| {
        let Entry { path, bytes, mode, .. } = entry;
        let sha256 = (!entry.is_secret()).then_some(&entry.sha256);
        json!({ "path": path, "bytes": bytes, "mode": format!("{mode:04o}"), "secret": entry.is_secret(), "sha256": sha256 })
    };
    let why = match &commit.state {
        State::Failed { why } | State::Returned { why } => Some(why),
        State::Pending | State::Confirmed => None,
    };
    let mut object = json!({
        "number": commit.number, "state": commit.state.word(), "why": why, "comment": commit.comment,
        "author": { "uid": commit.author.uid, "user": commit.author.user, "sudo_user": commit.author.sudo_user },
        "time": time(commit.time_s), "parent": commit.parent,
        "confirm_within_s": commit.confirm_within_ms.map(|ms| ms as f64 / 1000.0),
        "files": commit.files.iter().map(file).collect::<Vec<_>>(),
    });
    if let Some(running) = running {
        object["in_service"] = json!(running);
    }
    object
}

pub(super) fn diff(args: &DiffArgs) -> Result<u8, Stop> {
    let found = match far(&args.place)? {
        Some(far) => far.diff(args.from, args.to)?,
        None => difference(args)?,
    };
    let text = found["diff"].as_str().unwrap_or_default();
    let printed = match args.json {
        true => outcome::print_or_fail(format!("{found}\n").as_bytes()),
        false => outcome::print_or_fail(text.as_bytes()),
    };
    Ok(if args.exit_code && !text.is_empty() { exit::FAILURE } else { printed })
}

fn difference(args: &DiffArgs) -> Result<Value, Stop> {
    let place = args.place.find().map_err(Stop::Usage)?;
    let store = place.store()?;
    let from = match args.from {
        Some(number) => Some(number),
        None => in_service(&place, &store)?,
    };
    let old = from.map(|number| files_of(&store, number)).transpose()?.unwrap_or_default();
    let new: Files = match args.to {
        Some(number) => files_of(&store, number)?,
        None => saved::disk::read_files(&place.etc)?,
    };
    Ok(json!({ "from": from, "to": args.to, "diff": shown(saved::diff(&old, &new)) }))
}

pub(super) fn history(place: &Where, as_json: bool) -> Result<u8, Stop> {
    if let Some(far) = far(place)? {
        return far.history(as_json);
    }
    let place = place.find().map_err(Stop::Usage)?;
    let store = place.store()?;
    let (now, confirmed) = (now(&place)?, store.confirmed()?);
    let running = now.as_ref().map(|now| now.running).or(confirmed);
    let mut commits = Vec::new();
    for number in store.numbers()?.into_iter().rev() {
        match store.commit(number) {
            Ok(commit) => commits.push(commit),
            // It may have been removed meanwhile.
            Err(saved::Error::NoCommit(_)) => {}
            Err(why) => errln!("junctor: {why}"),
        }
    }
    if as_json {
        let list: Vec<Value> =
            commits.iter().map(|commit| object(commit, Some(running == Some(commit.number)))).collect();
        let waiting = now
            .and_then(|now| now.waiting)
            .map(|w| json!({ "commit": w.commit, "parent": w.parent, "left_s": w.left_ms as f64 / 1000.0 }));
        let object = json!({
            "service": place.name, "in_service": running, "confirmed": confirmed, "waiting": waiting, "commits": list,
        });
        return Ok(outcome::print_or_fail(format!("{object}\n").as_bytes()));
    }
    let mut text = String::new();
    for commit in &commits {
        let marks = match (running == Some(commit.number), confirmed == Some(commit.number)) {
            (true, true) => "in service, boots",
            (true, false) => "in service",
            (false, true) => "boots",
            (false, false) => "",
        };
        let comment = commit.comment.lines().next().unwrap_or_default();
        text += &format!(
            "{:>5}  {:9}  {}  {:16}  {:17}  {comment}",
            commit.number,
            commit.state.word(),
            time(commit.time_s),
            commit.author.to_string(),
            marks
        );
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    Ok(outcome::print_or_fail(text.as_bytes()))
}
