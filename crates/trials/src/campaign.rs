// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test campaign`: many runs from one file, which outlast interruptions.
//!
//! Each run is a process of its own, `junctor test ... --json`: a device that takes its process down takes no other result with it, and a campaign
//! can do all that `junctor test` can. A result is in its file before the next run begins, and so is what a run found that failed or was interrupted:
//! a part, which is reported as such until a whole takes its place.

mod modifier;
mod plan;
mod store;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::failure::print;
use super::output::csv;
use super::record::{All, FORM, Record, by_cause, join, named};
use super::{Error, Failure, interrupt, summary};
use plan::Run;
use report::progress::Progress;
use report::{Document, markdown, page, text};
use report::{files, measure};
use store::{ResultPlace, Store};

pub use plan::{Misuse, Plan, Program};

/// Many runs, and where their results go.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// What to measure.
    pub plan: Plan,
    /// Where results go.
    pub directory: PathBuf,
    /// Whether to go on with what an earlier campaign left there.
    pub resume: bool,
    /// Whether to print one JSON object over all runs.
    pub json: bool,
}

/// Does what the plan asks for and is not done yet, and writes the report over all.
pub(super) fn run(args: &Campaign) -> Result<(), Failure> {
    let Campaign { plan, directory, .. } = args;
    let store = Store::open(directory)?;
    match store.count() {
        0 => {}
        _ if args.resume => {}
        n => {
            let place = directory.display();
            return Err(Failure::Usage(format!(
                "{place} has the results of {n} runs already; --resume goes on with them, --dir names another place"
            )));
        }
    }
    interrupt::heed()?;
    let Done { all, stopped } = do_what_is_left(plan, &store);
    let causes = finish(args, &all, stopped.is_none());
    match stopped {
        Some(stop) => Err(stop.failure(causes, args, &all)),
        None => Failure::unless_empty(causes),
    }
}

/// What came of a campaign, as far as it went.
struct Done {
    all: All,
    stopped: Option<Stop>,
}

/// Why a campaign went no further.
enum Stop {
    /// A signal.
    Signal(i32),
    /// A result could not be kept.
    NoPlace(Error),
}

impl Stop {
    fn cause(&self) -> String {
        match self {
            Stop::Signal(signal) => interrupt::cause(*signal),
            Stop::NoPlace(why) => why.to_string(),
        }
    }

    /// How far the campaign came, after what else went wrong.
    fn failure(&self, mut causes: Vec<String>, args: &Campaign, all: &All) -> Failure {
        match self {
            Stop::NoPlace(why) => {
                causes.push(why.to_string());
                Failure::Failed(causes)
            }
            Stop::Signal(signal) => {
                causes.push(format!(
                    "{}: {}; what they found is kept in {}; --resume does the others",
                    interrupt::cause(*signal),
                    how_far(all, args.plan.runs.len()),
                    args.directory.join("runs").display()
                ));
                Failure::Interrupted { signal: *signal, causes }
            }
        }
    }
}

/// How many runs are done, and how many in part.
fn how_far(all: &All, runs: usize) -> String {
    let parts = match all.parts() {
        0 => String::new(),
        n => format!(", and of {n} a part"),
    };
    format!("{} of {runs} runs are done{parts}", all.records.len() - all.parts())
}

/// Does what is not done yet, until something ends it. Of the other runs, earlier results are reported.
fn do_what_is_left(plan: &Plan, store: &Store) -> Done {
    let known: Vec<Known> = plan.runs.iter().map(|run| known(run, store)).collect();
    let done = known.iter().filter(|known| known.whole.is_some()).count();
    if done > 0 {
        errln!("{done} of {} runs are done already and are not repeated", plan.runs.len());
    }
    tell_strangers(&known);
    let mut progress = Progress::new(plan.runs.len() - done);
    let (mut records, mut invalid, mut stopped) = (Vec::new(), Vec::new(), None);
    for (run, known) in plan.runs.iter().zip(known) {
        let is_done = known.whole.is_some();
        let came = match (known, &stopped) {
            (Known { whole: Some(record), .. }, _) => Came { record: Some(record), cause: None },
            (known, None) => {
                let (came, stop) = one_more(run, known, store, &mut progress);
                stopped = stop;
                came
            }
            (known, Some(_)) => not_begun(known),
        };
        if !is_done && stopped.is_none() {
            progress.step();
        }
        invalid.extend(came.cause.map(|cause| run.failed(cause, came.record.is_some())));
        records.extend(came.record.map(|record| run.label(record)));
    }
    let all = All {
        command: "test campaign".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        form: FORM.to_owned(),
        ledger: join(&records),
        records,
        invalid,
        interrupted: stopped.as_ref().map(Stop::cause),
    };
    Done { all, stopped }
}

/// Carries a run out and keeps what comes of it; with what stops the campaign, if something does.
fn one_more(run: &Run, known: Known, store: &Store, progress: &mut Progress) -> (Came, Option<Stop>) {
    if let Some(signal) = interrupt::came() {
        return (not_begun(known), Some(Stop::Signal(signal)));
    }
    progress.part(&run.name);
    let place = match store.reserve(&run.key) {
        Ok(place) => place,
        Err(why) => return (not_begun(known), Some(Stop::NoPlace(why))),
    };
    let (came, kept) = keep(carry_out(run), known.part, place);
    if let Some(cause) = &came.cause {
        let what = if came.record.is_some() { "not all was measured" } else { "no result" };
        progress.say(&format!("{}: {what}: {cause}", run.name));
    }
    let signal = interrupt::came().filter(|_| came.cause.is_some()).map(Stop::Signal);
    let stop = kept.err().map(Stop::NoPlace).or(signal);
    (came, stop)
}

/// What is known of a run before which the campaign has ended.
fn not_begun(known: Known) -> Came {
    let cause = NOT_BEGUN.to_owned();
    Came { record: known.part.map(|part| part.with_cause(&cause)), cause: Some(cause) }
}

/// Why there is no result of a run before which the campaign has ended.
const NOT_BEGUN: &str = "not begun: the campaign was interrupted before";

/// What came of a run.
struct Came {
    /// What it found; with a cause, a part.
    record: Option<Record>,
    /// Why it is not whole.
    cause: Option<String>,
}

/// Stores the result of a run. If it failed again, the greater of both parts is kept. A result that cannot be stored is reported all the
/// same.
fn keep(came: Came, before: Option<Record>, place: ResultPlace) -> (Came, Result<(), Error>) {
    let size = |record: &Option<Record>| record.as_ref().map(Record::found);
    let kept = match (&came.record, &came.cause) {
        (Some(record), None) => place.keep(record.json().as_bytes()),
        (Some(record), Some(_)) if size(&came.record) >= size(&before) => {
            place.keep_part(record.json().as_bytes())
        }
        (_, Some(cause)) => {
            let record = before.map(|record| record.with_cause(cause));
            return (Came { record, cause: came.cause }, Ok(()));
        }
        (None, None) => Ok(()),
    };
    (came, kept)
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

/// Writes and prints the report over all. Returns what went wrong: each file that cannot be written, and runs without a result.
fn finish(args: &Campaign, all: &All, is_whole: bool) -> Vec<String> {
    let Campaign { plan, directory, .. } = args;
    let document = document(plan, all);
    // A map's keys are strings and no number is infinite: nothing of this fails.
    let json = serde_json::to_string(all).unwrap_or_default() + "\n";
    let mut causes = Vec::new();
    for (name, text) in [
        ("campaign.json", json.clone()),
        ("campaign.csv", csv(&all.records, &all.invalid)),
        ("campaign.md", markdown::render(&document)),
        ("report.html", page::render(&document)),
    ] {
        let path = directory.join(name);
        match files::replace(&path, |file| file.write_all(text.as_bytes())) {
            Ok(()) => errln!("{}", path.display()),
            Err(why) => causes.push(format!("cannot write {}: {why}", path.display())),
        }
    }
    let unwritten = !causes.is_empty();
    let printed = if args.json { json } else { text::render(&document) };
    causes.extend(print(&printed).err().map(|why| why.to_string()));
    if unwritten {
        causes.push(format!(
            "the results of all runs are in {}, and --resume writes the report",
            directory.join("runs").display()
        ));
    }
    if is_whole && !all.invalid.is_empty() {
        causes.push(unfinished(all, plan.runs.len()));
    }
    causes
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
    let mut document = summary::document(&all.records);
    document.title.clone_from(&plan.title);
    let mut lacks = Vec::new();
    let (not_begun, failed): (Vec<_>, Vec<_>) =
        all.invalid.iter().filter(|failed| !failed.part).partition(|failed| failed.cause == NOT_BEGUN);
    if let Some(cause) = &all.interrupted {
        document.title += " (interrupted)";
        let done = how_far(all, plan.runs.len());
        lacks.push(format!("The campaign is not complete: {cause}. {done}; --resume does the others."));
    }
    if !not_begun.is_empty() {
        let runs: Vec<&str> = not_begun.iter().map(|failed| failed.run.as_str()).collect();
        let were = if runs.len() == 1 { "run was" } else { "runs were" };
        lacks.push(format!("{} {were} not begun: {}.", runs.len(), named(&runs)));
    }
    // Of a part, its record says what it lacks.
    let causes = by_cause(failed.iter().copied()).into_iter();
    lacks.extend(causes.map(|(runs, cause)| format!("{runs}: no result: {cause}")));
    let origins: BTreeSet<String> = all.records.iter().map(origin).collect();
    if origins.len() > 1 {
        let origins = origins.into_iter().collect::<Vec<_>>().join(" ");
        lacks.push(format!(
            "The runs are not all of one machine and version, so what tells them apart may be these: {origins}"
        ));
    }
    if let Some(note) = document.notes.iter_mut().find(|note| note.class == "lacks") {
        note.items.splice(0..0, lacks);
    }
    document
}
