// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor demo`: the standard IP router on in-process wires with live traffic, a live view, and a summary. Needs no
//! root and no network card.

use std::time::Duration;

use engine::Router;
use harness::demo;
use services::running;

use crate::{exit, outcome};

/// Run a router on in-process wires with live traffic: no root and no network card needed.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor demo
  junctor demo --seconds 30 -j 2
  junctor demo --config > my-router.click")]
pub(crate) struct Args {
    /// How long to run.
    #[arg(long, value_name = "SECONDS", default_value_t = 8)]
    seconds: u64,
    /// Workers [default: all cores].
    #[arg(short = 'j', long = "threads", value_name = "WORKERS")]
    workers: Option<usize>,
    /// Print the router's configuration and end.
    #[arg(long)]
    config: bool,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    if args.config {
        return outcome::print_or_fail(demo::ROUTER.as_bytes());
    }
    let cores: Vec<usize> =
        core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|c| c.id).collect();
    let workers = args.workers.unwrap_or(cores.len()).clamp(1, 64);
    let time = Duration::from_secs(args.seconds.clamp(1, 86_400));
    let run = |router: &mut Router| running::run(router, None, running::Signalled::default(), drop);
    demo::run((workers, cores), time, width(), run).map_or_else(outcome::fail, |()| exit::SUCCESS)
}

/// Columns that a line may take.
fn width() -> usize {
    let said = || std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let terminal = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)).filter(|n| *n > 0);
    terminal.or_else(said).unwrap_or(80).max(20) - 1
}
