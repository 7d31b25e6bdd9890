// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench engine`: what a packet costs on its way through a configuration, on in-memory devices.

use std::sync::Arc;
use std::time::Duration;

use engine::clock::TimeSource;
use engine::{Options, Router};
use serde_json::json;

use crate::config::Source;
use crate::{exit, outcome};
use conf::Form;
use harness::{Bench, Pattern, Prepared};
use report::measure::Measured;

/// Measure what a packet costs in a configuration: processor time of the workers over packets sent, source and sink
/// included, on in-memory devices that replay distinct packets.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor bench engine conf/ip-router.click
  junctor bench engine -j 2 --json conf/ip-router.click
  junctor bench engine --scaling 2 --runs 9 --run-ms 100 conf/ip-router.click
  junctor bench engine -w 'rt.load routes.txt' conf/ip-router.click

The traffic of a device comes from a line in the configuration:
  // bench: eth0 ether=00:00:c0:ae:67:ef src=18.26.4.0/24 dst=18.26.7.0/24 flows=1024 length=60")]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Workers, pinned to the first cores: a number, or a list of cores such as 0,2-3.
    #[arg(short = 'j', long = "threads", value_name = "N|CORES", default_value = "1")]
    threads: String,
    /// Receive and transmit queues that each device has, if not one for each worker.
    #[arg(long, value_name = "NUMBER")]
    queues: Option<usize>,
    /// Packets handled at a time.
    #[arg(long, value_name = "PACKETS", default_value_t = engine::DEFAULT_BURST)]
    pub(super) burst: usize,
    /// Measured runs, after one to warm up.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    pub(super) runs: usize,
    /// Length of a run in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 400)]
    pub(super) run_ms: u64,
    /// Measure how much faster this many workers are than one, compared with as many programs of one worker each.
    #[arg(long, value_name = "WORKERS")]
    scaling: Option<usize>,
    /// Write a handler before measuring: `rt.load routes.txt` fills a table. May be repeated.
    #[arg(short = 'w', long = "write", value_name = "HANDLER VALUE")]
    writes: Vec<String>,
    /// Let every element run by itself: no chain runs as one pass.
    #[arg(long)]
    no_fuse: bool,
    /// Let only one worker at a time process packets: one big lock around all of it, to see what that costs.
    #[arg(long)]
    big_lock: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Print also what each element sent and dropped, and its sampled cost.
    #[arg(long)]
    report: bool,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    if let Some(workers) = args.scaling {
        return super::scaling::main(args, workers);
    }
    let mut loaded = match args.source.load() {
        Ok(loaded) => loaded,
        Err(why) => return outcome::usage(why),
    };
    loaded.report(&loaded.diagnostics, Form::Full, true);
    let Some(graph) = loaded.graph.take() else { return exit::USAGE };
    let patterns = match Pattern::gather(&loaded.text()) {
        Ok(patterns) => patterns,
        Err(why) => return outcome::usage(why),
    };
    let (workers, cores) = match conf::cores::parse(&args.threads) {
        Ok((workers, cores)) if cores.is_empty() => (workers, (0..workers).collect()),
        Ok(listed) => listed,
        Err(why) => return outcome::usage(why),
    };
    let bench = Arc::new(Bench::new(patterns, args.queues.unwrap_or(workers).max(1)));
    let options = Options {
        provider: bench.clone(),
        workers,
        reserve: 0,
        cores,
        burst: args.burst.clamp(1, 256),
        time: TimeSource::Real,
        seed: 1,
        print: None,
        placer: Some(reconfigure::placer()),
    };
    let mut router = match Router::build(&graph, &conf::registry(args.no_fuse), options) {
        Ok(router) => router,
        Err(errors) => {
            loaded.report(&errors, Form::Full, true);
            return exit::USAGE;
        }
    };
    for text in &args.writes {
        let (handler, value) = text.split_once(' ').unwrap_or((text, ""));
        if let Err(why) = router.write(handler, value.trim()) {
            return outcome::usage(format!("--write {handler}: {why}"));
        }
    }
    if args.big_lock {
        router.lock_all_processing();
    }
    let mut prepared = Prepared::new(router, bench, Duration::from_millis(args.run_ms.max(1)));
    prepared.warm_up();
    let runs: Result<Vec<_>, _> = (0..args.runs.max(1)).map(|_| prepared.run_surely()).collect();
    if args.report {
        err!("{}", services::answers::report(prepared.router()));
        err!("{}", prepared.read("big_lock").unwrap_or_default());
    }
    let Ok(runs) = runs else {
        return outcome::fail("no packet came out of the configuration; --report shows where they end");
    };
    let results = [
        Measured::new("engine.ns_per_packet", "ns", runs.iter().map(|r| r.ns_per_packet()).collect()),
        Measured::new(
            "engine.mpps",
            "Mpps",
            runs.iter().map(|r| r.packets as f64 / r.wall_ns * 1e3).collect(),
        ),
    ];
    let conditions = json!({ "workers": workers, "burst": args.burst, "run_ms": args.run_ms });
    outcome::show("bench engine", &conditions, &results, args.json)
}
