// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor check`: all that is wrong with a configuration, without running or opening anything.

use crate::config::{Form, Source};
use crate::{cli, exit};

/// Check a configuration and print all that is wrong with it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor check router.click
  junctor check --flat router.click > flat.click
  junctor check --json -e 'Idle -> Discrad'")]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Print the flat configuration: compounds expanded, variables replaced.
    #[arg(long)]
    flat: bool,
    /// Print the diagnostics as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let loaded = match args.source.load() {
        Ok(loaded) => loaded,
        Err(why) => return cli::usage(why),
    };
    let mut diagnostics = loaded.diagnostics.clone();
    if let Some(graph) = &loaded.graph
        && let Err(errors) = engine::check(graph, &elements::registry())
    {
        diagnostics.extend(errors);
    }
    let bad = loaded.graph.is_none() || diagnostics.iter().any(|d| d.severity == lang::Severity::Error);
    loaded.report(&diagnostics, if args.json { Form::Json } else { Form::Full }, true);
    if let (true, Some(graph)) = (args.flat && !bad, &loaded.graph) {
        return cli::print_or_fail(graph.to_click().as_bytes());
    }
    if bad { exit::USAGE } else { exit::SUCCESS }
}
