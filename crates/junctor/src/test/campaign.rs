// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test campaign`: many runs from one file, which outlast interruptions.
//!
//! Each run is a process of its own, `junctor test ... --json`: a device that takes its process down takes no other result with it,
//! and whatever `junctor test` can do, a campaign can. A result is in its file before the next run begins.

mod plan;
mod store;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::output::csv;
use super::record::{All, FORM, Failed, Record};
use super::{interrupt, report};
use crate::progress::Progress;
use crate::report::{Document, markdown, page, text};
use crate::{cli, exit, files};
use plan::{Plan, Run};
use store::Store;

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

Each finished run is written to DIR/runs at once. What fails is listed with its cause, and the campaign goes on. --resume skips
what is done and measures the rest, also what failed, and what was measured with a configuration that has changed since.
In the end DIR has report.html, campaign.json, campaign.csv and campaign.md over all.

Exit status: 0 if every run has a result, 1 if one has not, 2 if the file is wrong.

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
    match (measure(&plan, &store), interrupt::came()) {
        (Ok(all), Some(signal)) if all.records.len() + all.invalid.len() < plan.runs.len() => {
            cli::fail(format!(
                "{}: {} of {} runs are done, and their results are kept in {}; --resume does the others",
                interrupt::cause(signal),
                all.records.len(),
                plan.runs.len(),
                directory.join("runs").display()
            ));
            interrupt::status(signal)
        }
        (Ok(all), _) => finish(args, &plan, &directory, &all),
        (Err(why), _) => cli::fail(why),
    }
}

/// Does what is not done yet.
fn measure(plan: &Plan, store: &Store) -> Result<All, String> {
    let mut all = All {
        command: "test campaign".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        form: FORM.to_owned(),
        records: Vec::new(),
        invalid: Vec::new(),
    };
    let known: Vec<Option<Record>> = plan.runs.iter().map(|run| known(run, store)).collect();
    let done = known.iter().flatten().count();
    if done > 0 {
        errln!("{done} of {} runs are done already and are not repeated", plan.runs.len());
    }
    let mut progress = Progress::new(plan.runs.len() - done);
    for (run, known) in plan.runs.iter().zip(known) {
        if let Some(record) = known {
            all.records.push(record.with_options(&run.options));
            continue;
        }
        progress.part(&run.name);
        let place = store.reserve(&run.key)?;
        match carry_out(run) {
            Ok(record) => {
                place.keep(record.json().as_bytes())?;
                all.records.push(record.with_options(&run.options));
            }
            Err(_) if interrupt::came().is_some() => break,
            Err(cause) => {
                progress.say(&format!("{}: no result: {cause}", run.name));
                all.invalid.push(Failed { run: run.name.clone(), cause });
            }
        }
        progress.step();
    }
    Ok(all)
}

/// What is known of a run; nothing if it has to be done.
fn known(run: &Run, store: &Store) -> Option<Record> {
    let record: Record = match serde_json::from_slice(&store.read(&run.key)?) {
        Ok(record) => record,
        Err(why) => {
            errln!("{}: its file is damaged and the run is repeated: {why}", run.name);
            return None;
        }
    };
    // Of other devices nobody knows it but those that they ran on.
    let now = run.configuration();
    if !now.is_null() && record.conditions.get("configuration") != Some(&now) {
        errln!("{}: the configuration has changed since, and the run is repeated", run.name);
        return None;
    }
    Some(record)
}

/// One run, in a process of its own.
fn carry_out(run: &Run) -> Result<Record, String> {
    let program = std::env::current_exe().map_err(|why| format!("cannot find this program: {why}"))?;
    let mut command = Command::new(program);
    command.args(&run.arguments).stdin(Stdio::null());
    let output =
        interrupt::attend(command).map_err(|why| format!("cannot start this program again: {why}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let mut said: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    // The cause stands last; a message may have some lines before.
    said.drain(..said.len().saturating_sub(12));
    let said =
        said.iter().map(|line| line.strip_prefix("junctor: ").unwrap_or(line)).collect::<Vec<_>>().join("; ");
    if !output.status.success() {
        let status = output.status;
        return Err(if said.is_empty() { format!("it ended with {status} and said nothing") } else { said });
    }
    serde_json::from_slice(&output.stdout).map_err(|why| format!("its output is not understood: {why}"))
}

/// The report over all.
fn finish(args: &Args, plan: &Plan, directory: &Path, all: &All) -> u8 {
    let document = document(plan, all);
    // A map's keys are strings and no number is infinite: nothing of this fails.
    let json = serde_json::to_string(all).unwrap_or_default() + "\n";
    for (name, text) in [
        ("campaign.json", json.clone()),
        ("campaign.csv", csv(&all.records)),
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
        exit::SUCCESS if !all.invalid.is_empty() => {
            cli::fail(format!("{} of {} runs have no result", all.invalid.len(), plan.runs.len()))
        }
        status => status,
    }
}

fn document(plan: &Plan, all: &All) -> Document {
    let mut document = report::document(&all.records);
    document.title.clone_from(&plan.title);
    let failed = all.invalid.iter().map(|failed| format!("{}: no result: {}", failed.run, failed.cause));
    if let Some(note) = document.notes.iter_mut().find(|note| note.class == "lacks") {
        note.items.splice(0..0, failed);
    }
    document
}
