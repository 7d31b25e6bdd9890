// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor lab`: published experiments with multicore packet processing, repeated on the reader's own machine.
//!
//! Each lab is a file that measures and hands back a [`Report`]: prose, tables and plots of which every value says whether it
//! was measured here, comes from a model, or was published. What becomes of a report (a page, JSON, text) is the same for all of them.
//! The crate `lab` has the rigs of network namespaces for labs that need a network.

mod bridge;
mod deployment;
mod forwarding;
mod interference;
mod parallelism;
mod planes;
mod report;
mod shared;

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;

use self::report::Report;
use crate::cli;
use ::report::progress::Progress;
use ::report::{page, text};

/// Repeat a published experiment on this machine, and see its figures next to the published ones.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    Bridge(bridge::Args),
    Forwarding(forwarding::Args),
    Interference(interference::Args),
    Parallelism(parallelism::Args),
    Planes(planes::Args),
    #[command(hide = true)]
    Manager(planes::manager::Args),
    #[command(hide = true)]
    InterferenceControl(interference::work::Args),
}

/// What all labs ask.
#[derive(Clone, Debug, clap::Args)]
struct Common {
    /// Take seconds instead of minutes: everything once and short, to see that it works.
    #[arg(long)]
    quick: bool,
    /// Length of each run in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    time: u64,
    /// Rounds in each of which everything is measured once.
    #[arg(long, value_name = "NUMBER", default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Cores to measure on, the first ones of the machine; by default all.
    #[arg(long, value_name = "NUMBER")]
    cores: Option<usize>,
    /// Write the report into this directory: a page for a browser, and JSON.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

impl Common {
    /// For tests of what is made of values, which measure nothing.
    #[cfg(test)]
    fn quick() -> Common {
        Common { quick: true, time: 1, rounds: 1, cores: None, out: None, json: false }
    }

    fn length(&self) -> Duration {
        Duration::from_millis(if self.quick { 20 } else { self.time })
    }

    fn rounds(&self) -> usize {
        if self.quick { 1 } else { usize::from(self.rounds) }
    }

    /// Makes the directory, before anything is measured in vain.
    fn prepare(&self) -> Result<(), Wrong> {
        let Some(directory) = &self.out else { return Ok(()) };
        let wrong = |why| Wrong::Failure(format!("cannot write the report: {}: {why}", directory.display()));
        std::fs::create_dir_all(directory).map_err(wrong)
    }

    /// Prints the report of a lab and writes its files.
    fn publish(&self, report: &Report) -> u8 {
        let (json, document) = (report.json(), report.document());
        if let Some(directory) = &self.out {
            let write = |suffix: &str, text: &str| {
                let path = directory.join(format!("{}.{suffix}", report.name));
                std::fs::write(&path, text).map_err(|why| format!("{}: {why}", path.display()))?;
                errln!("{}", path.display());
                Ok::<_, String>(())
            };
            let written =
                write("html", &page::render(&document)).and_then(|()| write("json", &format!("{json}\n")));
            if let Err(why) = written {
                return cli::fail(format!("cannot write the report: {why}"));
            }
        }
        let out = if self.json { format!("{json}\n") } else { text::render(&document) };
        cli::print_or_fail(out.as_bytes())
    }
}

/// Why there is no report.
enum Wrong {
    /// What was asked for cannot be.
    Usage(String),
    /// It did not work.
    Failure(String),
}

impl From<String> for Wrong {
    fn from(why: String) -> Wrong {
        Wrong::Failure(why)
    }
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    type Run<'a> = Box<dyn Fn() -> Result<Report, Wrong> + 'a>;
    let (common, run): (&Common, Run<'_>) = match &args.what {
        What::Bridge(lab) => (&lab.common, Box::new(|| bridge::run(&lab.common))),
        What::Forwarding(lab) => (&lab.common, Box::new(|| forwarding::run(&lab.common))),
        What::Interference(lab) => (&lab.common, Box::new(|| interference::run(lab))),
        What::Parallelism(lab) => (&lab.common, Box::new(|| parallelism::run(&lab.common))),
        What::Planes(lab) => (&lab.common, Box::new(|| planes::run(lab))),
        What::Manager(manager) => return planes::manager::run(manager),
        What::InterferenceControl(control) => return interference::work::run(control),
    };
    match common.prepare().and_then(|()| run()) {
        Ok(report) => common.publish(&report),
        Err(Wrong::Usage(why)) => cli::usage(why),
        Err(Wrong::Failure(why)) => cli::fail(why),
    }
}
