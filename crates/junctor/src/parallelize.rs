// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor parallelize`: a configuration rewritten so that it feeds more cores.

use conf::{Form, Loaded};
use predict::{Goal, Outcome};
use reconfigure::balance::Handoff;

use crate::config::{self, Source};
use crate::{exit, outcome};

/// Rewrite a configuration so that it feeds more cores: flows are spread over workers where one task brings all packets, and
/// every flow keeps its order.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor parallelize router.click --cores 4 > router4.click
  junctor parallelize router.click --cores 4 --dry-run
  junctor plan --cores 4 router4.click

The new configuration goes to standard output; what was done, why, and what it is predicted to gain, to standard error. A step that
is not predicted to gain anything is not taken.")]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Cores to feed.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(2..=128))]
    cores: u16,
    /// Receive queues that each device has; a device with one for each core needs no help.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    queues: usize,
    /// Least gain, in percent, for which the configuration is changed.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    threshold: f64,
    /// What handing packets from core to core costs, instead of measuring that: nanoseconds for each packet and core, or six numbers
    /// as balancer.handoff_ns has them.
    #[arg(long, value_name = "NS")]
    handoff_ns: Option<Handoff>,
    /// Say what would be done, and print no configuration.
    #[arg(long)]
    dry_run: bool,
    /// Print what was done as JSON, with the new configuration in it.
    #[arg(long)]
    json: bool,
}

impl From<&Args> for Goal {
    fn from(args: &Args) -> Goal {
        Goal {
            cores: args.cores.into(),
            queues: args.queues,
            threshold: args.threshold,
            handoff: args.handoff_ns,
            runs: (31, 12),
        }
    }
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let mut loaded = match args.source.load() {
        Ok(loaded) => loaded,
        Err(why) => return outcome::usage(why),
    };
    loaded.report(&loaded.diagnostics, Form::Full, true);
    let Some(graph) = loaded.graph.take() else { return exit::USAGE };
    let (notes, goal) = (traffic_notes(&loaded), Goal::from(args));
    match predict::rewrite(&graph, &notes, &goal) {
        Ok(outcome) => print(&outcome, &goal, args),
        Err(why) => config::not_measured(&loaded, why),
    }
}

/// The lines that say what devices receive: the new configuration keeps them.
fn traffic_notes(loaded: &Loaded) -> String {
    let text = loaded.text();
    let notes = text.lines().map(str::trim).filter(|l| l.starts_with("// bench:"));
    notes.map(|l| format!("{l}\n")).collect()
}

fn print(outcome: &Outcome, goal: &Goal, args: &Args) -> u8 {
    if args.json {
        return outcome::print_or_fail(format!("{}\n", outcome.json(goal)).as_bytes());
    }
    err!("{}", outcome.explain(goal));
    if args.dry_run { exit::SUCCESS } else { outcome::print_or_fail(outcome.text.as_bytes()) }
}
