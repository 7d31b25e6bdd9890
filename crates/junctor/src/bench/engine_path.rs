// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench engine`: the options of what a packet costs on its way through a configuration, on in-memory devices.

use std::process::Command;

use bench::engine::{Error, Settings, measure};
use bench::{Failure, scaling};
use conf::Form;
use serde_json::json;

use super::{show, tell};
use crate::config::Source;
use crate::{exit, outcome};

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
    burst: usize,
    /// Measured runs, after one to warm up.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    runs: usize,
    /// Length of a run in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 400)]
    run_ms: u64,
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
    json: bool,
    /// Print also what each element sent and dropped, and its sampled cost.
    #[arg(long)]
    report: bool,
}

impl TryFrom<&Args> for Settings {
    type Error = String;

    fn try_from(args: &Args) -> Result<Settings, String> {
        let workers = match conf::cores::parse(&args.threads)? {
            (workers, cores) if cores.is_empty() => (workers, (0..workers).collect()),
            listed => listed,
        };
        Ok(Settings {
            workers,
            queues: args.queues,
            burst: args.burst,
            runs: args.runs,
            run_ms: args.run_ms,
            writes: args.writes.clone(),
            no_fuse: args.no_fuse,
            big_lock: args.big_lock,
        })
    }
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    if let Some(workers) = args.scaling {
        return scale(args, workers).unwrap_or_else(|why| tell(&why));
    }
    let mut loaded = match args.source.load() {
        Ok(loaded) => loaded,
        Err(why) => return outcome::usage(why),
    };
    loaded.report(&loaded.diagnostics, Form::Full, true);
    let Some(graph) = loaded.graph.take() else { return exit::USAGE };
    let settings = match Settings::try_from(args) {
        Ok(settings) => settings,
        Err(why) => return outcome::usage(why),
    };
    let found = measure(&settings, (&graph, &loaded.text()), |prepared| {
        if args.report {
            err!("{}", services::answers::report(prepared.router()));
            err!("{}", prepared.read("big_lock").unwrap_or_default());
        }
    });
    match found {
        Ok(found) => show("bench engine", Ok(found), args.json),
        Err(Error::Failure(why)) => tell(&why),
        Err(Error::Configuration(errors)) => {
            loaded.report(&errors, Form::Full, true);
            exit::USAGE
        }
    }
}

/// Compares several workers with one, by processes of this program.
fn scale(args: &Args, workers: usize) -> Result<u8, Failure> {
    let cores = match conf::cores::parse(&workers.to_string()).map_err(Failure::usage)? {
        (n, cores) if n > 1 && cores.len() >= n => cores[..n].to_vec(),
        (_, cores) => {
            return Err(Failure::usage(format!(
                "--scaling needs at least 2 workers and a core for each; there are {}",
                cores.len()
            )));
        }
    };
    let program = std::env::current_exe().map_err(bench::Error::system("cannot find this program"))?;
    let same = same_arguments(std::env::args().skip(1));
    let mut found =
        scaling::measure(&scaling::Settings { cores: cores.clone(), runs: args.runs }, |cores| {
            let mut command = Command::new(&program);
            command.args(&same).args(["--json", "--runs", "1", "--threads", cores]);
            command
        })?;
    found.conditions =
        json!({ "workers": workers, "burst": args.burst, "run_ms": args.run_ms, "cores": cores });
    Ok(show("bench engine --scaling", Ok(found), args.json))
}

/// This process's arguments without those that say what is measured and how it is printed.
fn same_arguments(args: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut args = args;
    while let Some(arg) = args.next() {
        let name = arg.split('=').next().unwrap_or_default();
        match name {
            "--json" | "--report" => {}
            "--scaling" | "--runs" | "--threads" | "-j" => {
                if name == arg {
                    args.next();
                }
            }
            _ => kept.push(arg),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_passed_on_but_for_the_question() {
        let args = "bench engine --scaling 2 --runs=9 --json -j 4 --run-ms 50 -w x conf.click";
        let kept = same_arguments(args.split(' ').map(str::to_owned));
        assert_eq!(kept, ["bench", "engine", "--run-ms", "50", "-w", "x", "conf.click"]);
    }
}
