// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor check`: all that is wrong with a configuration, without running or opening anything.

use engine::fuse::FusedChain;
use serde_json::json;

use crate::config::{Form, Source};
use crate::{cli, exit};

/// Check a configuration and print all that is wrong with it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor check router.click
  junctor check --flat router.click > flat.click
  junctor check --explain router.click
  junctor check --json -e 'Idle -> Discrad'")]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Print the flat configuration: compounds expanded, variables replaced.
    #[arg(long)]
    flat: bool,
    /// Print how it will run: which chains of elements run as one pass.
    #[arg(long)]
    explain: bool,
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
    let checked = loaded.graph.as_ref().map(|graph| engine::check(graph, &elements::registry()));
    if let Some(Err(errors)) = &checked {
        diagnostics.extend(errors.iter().cloned());
    }
    let bad = loaded.graph.is_none() || diagnostics.iter().any(|d| d.severity == lang::Severity::Error);
    loaded.report(&diagnostics, if args.json { Form::Json } else { Form::Full }, true);
    if let (true, Some(graph)) = (args.flat && !bad, &loaded.graph) {
        return cli::print_or_fail(graph.to_click().as_bytes());
    }
    if let (true, Some(graph), Some(Ok(checked))) = (args.explain && !bad, &loaded.graph, &checked) {
        let fused = checked.fused(&elements::registry());
        return cli::print_or_fail(explain(graph, &fused, args.json).as_bytes());
    }
    if bad { exit::USAGE } else { exit::SUCCESS }
}

/// How a configuration will run.
fn explain(graph: &lang::Graph, fused: &[FusedChain], json: bool) -> String {
    let names = |elements: &[usize]| -> Vec<String> {
        elements.iter().map(|e| graph.elements[*e].name.clone()).collect()
    };
    if json {
        let chain = |c: &FusedChain| {
            let branches = c.branches.iter().map(|(port, b)| json!({ "output": port, "elements": names(b) }));
            let branches: Vec<_> = branches.collect();
            json!({ "pass": c.name, "elements": names(&c.elements), "branches": branches })
        };
        let chains: Vec<_> = fused.iter().map(chain).collect();
        return format!("{}\n", json!({ "fused": chains }));
    }
    if fused.is_empty() {
        return "fused: no chain of elements that a pass could run\n".to_owned();
    }
    let width = fused.iter().map(|c| c.name.len()).max().unwrap_or(0);
    let mut text =
        "fused: one pass runs each of these chains (--no-fuse lets the elements run by themselves)\n"
            .to_owned();
    for chain in fused {
        text += &format!("  {:width$}  {}\n", chain.name, names(&chain.elements).join(" -> "));
        for (port, branch) in &chain.branches {
            text += &format!("  {:width$}    [{port}] -> {}\n", "", names(branch).join(" -> "));
        }
    }
    text
}
