// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor check`: all that is wrong with a configuration, without running or opening anything.

use lang::Diagnostic;
use serde_json::{Value, json};

use crate::config::Source;
use crate::{exit, outcome, up};
use conf::Form;
use explain::{Explained, queues, svg};

/// Check a configuration and print all that is wrong with it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor check router.click
  junctor check --flat router.click > flat.click
  junctor check --explain -j 4 router.click
  junctor check --explain --no-fuse router.click
  junctor check --svg router.svg router.click
  junctor check --json -e 'Idle -> Discrad'
  junctor check deployment.toml          planes and their cores, see junctor up")]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Print the flat configuration: compounds expanded, variables replaced.
    #[arg(long)]
    flat: bool,
    /// Print how it will run: which worker runs which task and reaches which element, what sharing costs and how to avoid
    /// it, and which chains of elements run as one pass.
    #[arg(long)]
    explain: bool,
    /// Explain it as `junctor run --no-fuse` runs it: every element by itself.
    #[arg(long, requires = "explain")]
    no_fuse: bool,
    /// Draw that as a picture, coloured by worker, into this file (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    svg: Option<String>,
    /// Workers to explain it for: a number, or a list of cores such as 0,2-3 [default: all cores].
    #[arg(short = 'j', long = "threads", value_name = "CORES")]
    threads: Option<String>,
    /// Print the diagnostics, or what --explain says, as JSON.
    #[arg(long)]
    json: bool,
    /// Read no file that the configuration names: it may come from somebody who may not read it.
    #[arg(long, hide = true)]
    no_files: bool,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    if args.no_files {
        return rulefile::without_files(|| checked(args));
    }
    checked(args)
}

fn checked(args: &Args) -> u8 {
    if let Some(path) = args.source.path().filter(|path| up::is_deployment(path)) {
        return deployment(args, std::path::Path::new(path));
    }
    let loaded = match if args.no_files { args.source.load_alone() } else { args.source.load() } {
        Ok(loaded) => loaded,
        Err(why) => return outcome::usage(why),
    };
    let mut diagnostics = loaded.diagnostics.clone();
    diagnostics.extend(loaded.nothing());
    let registry = conf::registry(args.no_fuse);
    let checked = loaded.graph.as_ref().map(|graph| engine::check(graph, &registry));
    match &checked {
        Some(Err(errors)) => diagnostics.extend(errors.iter().cloned()),
        Some(Ok(checked)) => diagnostics.extend(checked.warnings.iter().cloned()),
        None => {}
    }
    let mut bad = loaded.graph.is_none() || diagnostics.iter().any(|d| d.severity == lang::Severity::Error);
    // What --explain says as JSON holds the diagnostics, so that there is one value to read.
    let told = |diagnostics: &[Diagnostic]| match (args.explain, args.json) {
        (true, true) => {}
        (_, json) => loaded.report(diagnostics, if json { Form::Json } else { Form::Full }, true),
    };
    told(&diagnostics);
    if let (true, Some(graph)) = (args.flat && !bad, &loaded.graph) {
        return outcome::print_or_fail(graph.to_click().as_bytes());
    }
    let wanted = args.explain || args.svg.is_some();
    if let (true, Some(graph), Some(Ok(checked))) = (wanted && !bad, &loaded.graph, checked) {
        let (workers, cores) = match conf::cores::planned(args.threads.as_deref()) {
            Ok(known) => known,
            Err(why) => return outcome::usage(why),
        };
        let fused = checked.fused(&registry);
        match checked.plan(graph, workers, Box::new(queues)) {
            Ok(elements) => {
                let explained = Explained { graph, elements, fused, no_fuse: args.no_fuse, workers, cores };
                return explain(args, &explained, || loaded.json(&diagnostics));
            }
            Err(errors) => {
                told(&errors);
                diagnostics.extend(errors);
                bad = true;
            }
        }
    }
    if args.explain && args.json {
        outln!("{}", json!({ "diagnostics": loaded.json(&diagnostics) }));
    }
    if bad { exit::USAGE } else { exit::SUCCESS }
}

/// Checks a deployment: its file, and what it asks of this machine.
fn deployment(args: &Args, path: &std::path::Path) -> u8 {
    let checked = match deployed::check(path) {
        Ok(checked) => checked,
        Err(why) => return outcome::usage(why),
    };
    let form = if args.json { Form::Json } else { Form::Full };
    checked.loaded.report(&checked.loaded.diagnostics, form, true);
    if !args.json {
        checked.shared.iter().for_each(|line| outln!("{line}"));
    }
    if checked.sound { exit::SUCCESS } else { exit::USAGE }
}

/// Prints and draws how a configuration will run.
fn explain(args: &Args, explained: &Explained<'_>, diagnostics: impl FnOnce() -> Value) -> u8 {
    match args.svg.as_deref() {
        Some("-") => return outcome::print_or_fail(svg::draw(explained).as_bytes()),
        Some(file) => {
            if let Err(why) = std::fs::write(file, svg::draw(explained)) {
                return outcome::fail(format!("{file}: {why}"));
            }
        }
        None => {}
    }
    match (args.explain, args.json) {
        (true, true) => {
            let mut plan = explained.json();
            plan["diagnostics"] = diagnostics();
            outcome::print_or_fail(format!("{plan}\n").as_bytes())
        }
        (true, false) => outcome::print_or_fail(explained.text().as_bytes()),
        _ => exit::SUCCESS,
    }
}
