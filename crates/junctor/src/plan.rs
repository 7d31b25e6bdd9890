// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor plan`: what a configuration would forward on so many cores, what would hold it back, and which worker should run
//! what; from costs measured here, on one core.

use conf::Form;
use harness::Subject;
use predict::Question;
use reconfigure::balance::Handoff;

use crate::config::{self, Source};
use crate::{exit, outcome};

/// Predict throughput, bottleneck and placement of a configuration on a number of cores, more than this machine's too.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor plan conf/ip-router.click --cores 8
  junctor plan conf/ip-router.click --cores 4 --json

The costs come from runs of the configuration on one core, on in-memory devices (see 'junctor bench engine --help' for their
traffic), on two cores whose workers go round by round in turn, so that all moves that would move but nobody waits, from two
copies side by side, and from packets moved between two cores. Waiting is computed. The model is held against what this
machine can measure: beside each prediction for 1 and 2 workers stands the measured rate, of processor time, and the error.
All of it is measured in many short rounds, and a prediction compared with what its own round measured: cores that others use,
too, change their speed from one moment to the next.")]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Cores to plan for.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    cores: u16,
    /// Receive and transmit queues that each device has, if not one for each core.
    #[arg(long, value_name = "NUMBER")]
    queues: Option<usize>,
    /// Rounds, in each of which everything is measured once.
    #[arg(long, value_name = "NUMBER", default_value_t = 45)]
    runs: usize,
    /// Length of a run in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 12)]
    run_ms: u64,
    /// What handing packets from core to core costs, instead of measuring that: nanoseconds for each packet and core, or six numbers
    /// as balancer.handoff_ns has them.
    #[arg(long, value_name = "NS")]
    handoff_ns: Option<Handoff>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

impl From<&Args> for Question {
    fn from(args: &Args) -> Question {
        Question { cores: args.cores.into(), rounds: args.runs, handoff: args.handoff_ns }
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
    let subject = match Subject::new(&graph, &loaded.text()) {
        Ok(subject) => {
            let subject = subject.with_run_ms(args.run_ms);
            match args.queues {
                Some(queues) => subject.with_queues(queues),
                None => subject,
            }
        }
        Err(why) => return outcome::usage(why),
    };
    match predict::plan(&subject, &args.into()) {
        Ok(forecast) if args.json => outcome::print_or_fail(format!("{}\n", forecast.json()).as_bytes()),
        Ok(forecast) => outcome::print_or_fail(forecast.text().as_bytes()),
        Err(why) => config::not_measured(&loaded, why),
    }
}
