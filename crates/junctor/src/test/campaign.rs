// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test campaign`: many runs from one file, which outlast interruptions.
//!
//! Each run is a process of its own, `junctor test ... --json`: a device that takes its process down takes no other result with it,
//! and whatever `junctor test` can do, a campaign can. A result is in its file before the next run begins, and so is what a run found
//! that failed or was interrupted: a part, which is reported as such until a whole takes its place.

mod plan;
mod store;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::output::csv;
use super::record::{All, FORM, Record};
use super::{interrupt, report};
use crate::progress::Progress;
use crate::report::{Document, markdown, page, text};
use crate::{cli, exit, files, measure};
use plan::{Plan, Run};
use store::{Place, Store};

/// Test devices at many frame sizes and numbers of cores, by many procedures, as a file says.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "The file is TOML; every combination of its lists is one run:
  devices = [\"self:conf/ip-router.click\", \"passthrough\"]   as on the command line of junctor test
  sizes = [64, 512, 1518]       frame sizes in bytes
  cores = [1, 2]                of each device (-j) [default: 1]; those that are not of this machine's cores take 1 only
  options = [\"--one-way\"]       for every run

  [[procedure]]
  test = \"rfc2544\"              any procedure of junctor test
  options = [\"--loss\"]          its own

Each finished run is written to DIR/runs at once. What fails is listed with its cause, and the campaign goes on; what such a run,
or one that was interrupted, has found until then is kept in DIR/runs too (....part.json) and reported as a part. --resume skips
what is done and measures the rest, also what failed or is a part, and what was measured with a configuration that has changed
since, or is in another form. What another version or machine has measured is kept; that is said, here and in the report.
In the end DIR has report.html, campaign.json, campaign.csv and campaign.md over all.

Exit status: 0 if every run has a whole result, 1 if one has not, 2 if the file is wrong.

Examples:
  junctor test campaign conf/campaign.toml --dir results
  junctor test campaign conf/campaign.toml --dir results --resume
  junctor test compare monday/campaign.json tuesday/campaign.json")]
pub(super) struct Args {
    /// What to measure.
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Where results go [default: the file's name without .toml, here].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Go on with what an earlier campaign left in DIR.
    #[arg(long)]
    resume: bool,
    /// Print one JSON object over all runs (docs/schema/test.json).
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn main(args: &Args) -> u8 {
    let plan = match Plan::read(&args.file) {
        Ok(plan) => plan,
        Err(why) => return cli::usage(why),
    };
    let directory =
        args.dir.clone().unwrap_or_else(|| PathBuf::from(args.file.file_stem().unwrap_or_default()));
    let store = match Store::open(&directory) {
        Ok(store) => store,
        Err(why) => return cli::fail(why),
    };
    match store.count() {
        0 => {}
        _ if args.resume => {}
        n => {
            let place = directory.display();
            return cli::usage(format!(
                "{place} has the results of {n} runs already; --resume goes on with them, --dir names another place"
            ));
        }
    }
    if let Err(why) = interrupt::heed() {
        return cli::fail(why);
    }
    match do_what_is_left(&plan, &store) {
        Ok((all, Some(signal))) => stopped(&plan, &directory, &all, signal),
        Ok((all, None)) => finish(args, &plan, &directory, &all),
        Err(why) => cli::fail(why),
    }
}

/// What is told of a campaign that was interrupted.
fn stopped(plan: &Plan, directory: &Path, all: &All, signal: i32) -> u8 {
    let parts = match all.parts() {
        0 => String::new(),
        n => format!(", and of {n} a part"),
    };
    cli::fail(format!(
        "{}: {} of {} runs are done{parts}; what they found is kept in {}; --resume does the others",
        interrupt::cause(signal),
        all.records.len() - all.parts(),
        plan.runs.len(),
        directory.join("runs").display()
    ));
    interrupt::status(signal)
}

/// Does what is not done yet, as far as no signal ends it.
fn do_what_is_left(plan: &Plan, store: &Store) -> Result<(All, Option<i32>), String> {
    let mut all = All {
        command: "test campaign".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        form: FORM.to_owned(),
        records: Vec::new(),
        invalid: Vec::new(),
    };
    let known: Vec<Known> = plan.runs.iter().map(|run| known(run, store)).collect();
    let done = known.iter().filter(|known| known.whole.is_some()).count();
    if done > 0 {
        errln!("{done} of {} runs are done already and are not repeated", plan.runs.len());
    }
    tell_strangers(&known);
    let mut progress = Progress::new(plan.runs.len() - done);
    for (run, known) in plan.runs.iter().zip(known) {
        let options = &run.options;
        if let Some(record) = known.whole {
            all.records.push(record.with_options(options));
            continue;
        }
        if let Some(signal) = interrupt::came() {
            return Ok((all, Some(signal)));
        }
        progress.part(&run.name);
        let place = store.reserve(&run.key)?;
        let Came { record, cause } = keep(carry_out(run), known.part, place)?;
        let (part, is_whole) = (record.is_some(), cause.is_none());
        all.records.extend(record.map(|record| record.with_options(options)));
        if let Some(cause) = cause {
            let what = if part { "not all was measured" } else { "no result" };
            progress.say(&format!("{}: {what}: {cause}", run.name));
            all.invalid.push(run.failed(cause, part));
        }
        if let Some(signal) = interrupt::came().filter(|_| !is_whole) {
            return Ok((all, Some(signal)));
        }
        progress.step();
    }
    Ok((all, None))
}

/// What came of a run.
struct Came {
    /// What it found; with a cause, a part.
    record: Option<Record>,
    /// Why it is not whole.
    cause: Option<String>,
}

/// Puts what came of a run where it stays. Where it failed again, the greater of both parts does.
fn keep(came: Came, before: Option<Record>, place: Place) -> Result<Came, String> {
    let size = |record: &Option<Record>| record.as_ref().map(Record::found);
    match (&came.record, &came.cause) {
        (Some(record), None) => place.keep(record.json().as_bytes())?,
        (Some(record), Some(_)) if size(&came.record) >= size(&before) => {
            place.keep_part(record.json().as_bytes())?;
        }
        (_, Some(cause)) => {
            let record = before.map(|record| record.with_cause(cause));
            return Ok(Came { record, cause: came.cause });
        }
        (None, None) => {}
    }
    Ok(came)
}

/// What earlier campaigns have left of a run.
struct Known {
    whole: Option<Record>,
    /// What it found before it failed.
    part: Option<Record>,
}

/// What is known of a run; no whole if it has to be done.
fn known(run: &Run, store: &Store) -> Known {
    match store.read(&run.key).and_then(|bytes| usable(run, &bytes)) {
        None => Known { part: store.read_part(&run.key).and_then(|bytes| usable(run, &bytes)), whole: None },
        whole => Known { whole, part: None },
    }
}

/// The record in a file, unless it says nothing of what the run would measure now.
fn usable(run: &Run, bytes: &[u8]) -> Option<Record> {
    let damaged = |why: serde_json::Error| {
        errln!("{}: its file is damaged and the run is repeated: {why}", run.name);
    };
    let value: Value = serde_json::from_slice(bytes).map_err(damaged).ok()?;
    if value["form"] != FORM {
        let form = value["form"].as_str().unwrap_or("none");
        errln!("{}: its result has the form {form:?} and not {FORM:?}, and the run is repeated", run.name);
        return None;
    }
    let record: Record = serde_json::from_value(value).map_err(damaged).ok()?;
    // Of other devices nobody knows it but those that they ran on.
    let now = run.configuration();
    if !now.is_null() && record.conditions.get("configuration") != Some(&now) {
        errln!("{}: the configuration has changed since, and the run is repeated", run.name);
        return None;
    }
    Some(record)
}

/// On what a record was measured, and by what, in words.
fn origin(record: &Record) -> String {
    measure::machine_line(&record.machine, &record.version)
}

/// Says which of the results that are kept another machine, or another version, has measured.
fn tell_strangers(known: &[Known]) {
    let here = measure::machine_line(&measure::machine(), env!("CARGO_PKG_VERSION"));
    let kept = known.iter().flat_map(|known| known.whole.iter().chain(&known.part)).map(origin);
    let strangers: BTreeSet<String> = kept.filter(|origin| *origin != here).collect();
    for stranger in strangers {
        errln!(
            "junctor: results that are kept are of another machine or version: {stranger} This is {here} In a new directory (--dir) \
             all is measured alike."
        );
    }
}

/// One run, in a process of its own.
fn carry_out(run: &Run) -> Came {
    let output = std::env::current_exe().and_then(|program| {
        let mut command = Command::new(program);
        command.args(&run.arguments).stdin(Stdio::null());
        interrupt::attend(command)
    });
    match output {
        Ok(output) => came(&output),
        Err(why) => Came { record: None, cause: Some(format!("cannot start this program again: {why}")) },
    }
}

/// What a run's output says. One that failed may have found something before, and one may fail after it found all.
fn came(output: &Output) -> Came {
    let record = serde_json::from_slice::<Record>(&output.stdout);
    let said = || {
        said(&output.stderr).unwrap_or_else(|| format!("it ended with {} and said nothing", output.status))
    };
    match record {
        Ok(record) if output.status.success() || record.invalid.is_empty() => {
            if !output.status.success() {
                errln!("{}", said());
            }
            Came { record: Some(record), cause: None }
        }
        Ok(record) => {
            let cause = record.causes();
            Came { record: Some(record).filter(Record::has_found), cause: Some(cause) }
        }
        Err(why) if output.status.success() => {
            Came { record: None, cause: Some(format!("its output is not understood: {why}")) }
        }
        Err(_) => Came { record: None, cause: Some(said()) },
    }
}

/// What a program complained of. The cause stands last; a message may have some lines before.
fn said(stderr: &[u8]) -> Option<String> {
    let said = String::from_utf8_lossy(stderr);
    let mut said: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    said.drain(..said.len().saturating_sub(12));
    let lines = said.iter().map(|line| line.strip_prefix("junctor: ").unwrap_or(line));
    Some(lines.collect::<Vec<_>>().join("; ")).filter(|said| !said.is_empty())
}

/// The report over all.
fn finish(args: &Args, plan: &Plan, directory: &Path, all: &All) -> u8 {
    let document = document(plan, all);
    // A map's keys are strings and no number is infinite: nothing of this fails.
    let json = serde_json::to_string(all).unwrap_or_default() + "\n";
    for (name, text) in [
        ("campaign.json", json.clone()),
        ("campaign.csv", csv(&all.records, &all.invalid)),
        ("campaign.md", markdown::render(&document)),
        ("report.html", page::render(&document)),
    ] {
        let path = directory.join(name);
        if let Err(why) = files::replace(&path, |file| file.write_all(text.as_bytes())) {
            return cli::fail(format!(
                "cannot write {}: {why}; the results of all runs are in {}, and --resume writes the report",
                path.display(),
                directory.join("runs").display()
            ));
        }
        errln!("{}", path.display());
    }
    let printed = if args.json { json } else { text::render(&document) };
    match cli::print_or_fail(printed.as_bytes()) {
        exit::SUCCESS if !all.invalid.is_empty() => cli::fail(unfinished(all, plan.runs.len())),
        status => status,
    }
}

/// How many runs have no result, or only a part.
fn unfinished(all: &All, runs: usize) -> String {
    let (parts, failed) = (all.parts(), all.invalid.len());
    let none = failed - parts;
    match (none, parts) {
        (_, 0) => format!("{none} of {runs} runs have no result"),
        (0, _) => format!("{parts} of {runs} runs have only a part of their results"),
        _ => format!("{none} of {runs} runs have no result, and {parts} only a part"),
    }
}

fn document(plan: &Plan, all: &All) -> Document {
    let mut document = report::document(&all.records);
    document.title.clone_from(&plan.title);
    // Of a part, its record says what it lacks.
    let failed = all.invalid.iter().filter(|failed| !failed.part);
    let failed = failed.map(|failed| format!("{}: no result: {}", failed.run, failed.cause));
    let origins: BTreeSet<String> = all.records.iter().map(origin).collect();
    let several = (origins.len() > 1).then(|| {
        let origins = origins.into_iter().collect::<Vec<_>>().join(" ");
        format!("The runs are not all of one machine and version, so what tells them apart may be these: {origins}")
    });
    if let Some(note) = document.notes.iter_mut().find(|note| note.class == "lacks") {
        note.items.splice(0..0, failed.chain(several));
    }
    document
}
