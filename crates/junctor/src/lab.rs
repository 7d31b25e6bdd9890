// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor lab`: published experiments with multicore packet processing, repeated on the reader's own machine. The crate `labs` carries
//! them out; here are their options, and what becomes of a report: a page, JSON, text.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Subcommand;
use labs::interference::{self, work};
use labs::planes::{self, manager};
use labs::{Lab, Report, Wrong};
use report::{page, text};

use crate::{exit, outcome};

/// Repeat a published experiment on this machine, and see its figures next to the published ones.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    Bridge(Bridge),
    Forwarding(Forwarding),
    Interference(Interference),
    Parallelism(Parallelism),
    Planes(Planes),
    #[command(hide = true)]
    Manager(Manager),
    #[command(hide = true)]
    InterferenceControl(InterferenceControl),
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

impl From<&Common> for labs::Common {
    fn from(args: &Common) -> labs::Common {
        labs::Common { quick: args.quick, time: args.time, rounds: args.rounds, cores: args.cores }
    }
}

impl Common {
    /// Makes the directory, before anything is measured in vain.
    fn prepare(&self) -> Result<(), Wrong> {
        let Some(directory) = &self.out else { return Ok(()) };
        let doing = format!("cannot write the report: {}", directory.display());
        Ok(std::fs::create_dir_all(directory).map_err(labs::Error::system(doing))?)
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
                return outcome::fail(format!("cannot write the report: {why}"));
            }
        }
        let out = if self.json { format!("{json}\n") } else { text::render(&document) };
        outcome::print_or_fail(out.as_bytes())
    }
}

/// Ozaki and Nakahara 2015: a learning bridge under one big lock against one that all cores run at once, by frame size.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor lab bridge --quick
  junctor lab bridge --out report
  junctor lab bridge --rounds 15 --time 100 --json > bridge.json

All traffic is made and ends in memory; no interface is touched. What is measured beyond this machine's cores is the model's
(junctor plan), and marked as such.")]
struct Bridge {
    #[command(flatten)]
    common: Common,
}

/// Marineau-Mes: an IP router's table behind one lock, a table for each core, and one read without a lock, by frame size.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor lab forwarding --quick
  junctor lab forwarding --out report
  junctor lab forwarding --rounds 15 --time 100 --json > forwarding.json

All traffic is made and ends in memory. The last part, routes that change, needs root and FRR (Debian: frr), whose daemons live in
network namespaces of their own. Without these it is left out, and the report says so.")]
struct Forwarding {
    #[command(flatten)]
    common: Common,
}

/// Chen and Morris 2001: what more cores gain a router, what moving packets costs, who places tasks best, and what rewriting a
/// configuration gains.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor lab parallelism --quick
  junctor lab parallelism --out report
  junctor lab parallelism --rounds 15 --time 100 --json > parallelism.json

All traffic is made and ends in memory; no interface is touched. What is measured beyond this machine's cores is the model's
(junctor plan), and marked as such.")]
struct Parallelism {
    #[command(flatten)]
    common: Common,
}

/// De Witte et al.: user, control and management planes under SMP and AMP, and what they cost each other.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  sudo junctor lab planes --quick
  sudo junctor lab planes --out report
  sudo junctor lab planes --timeout 5 --rounds 27 --json > planes.json

All traffic stays within network namespaces of the lab's own. It needs root, and uses user-mode-linux, iperf and iperf3 where they are
installed. A ninth of --rounds is measured, since a round takes minutes. --time is the length of the trials of a search.")]
struct Planes {
    #[command(flatten)]
    common: Common,
    /// Seconds after which a management request counts as not answered.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
    /// Rounds of computing that a management request asks for.
    #[arg(long, value_name = "NUMBER", default_value_t = planes::WORK, value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    work: u64,
}

/// Garg and Sethi: what a user plane at line rate costs the control plane's work on another core, why, and what helps.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor lab interference --quick
  junctor lab interference --out report
  sudo junctor lab interference --part sip,routes --pjsua2 venv/bin/python

Frames are made and end in memory. SIP calls and routes need root: they have network namespaces of their own, and
sipp (Debian: sip-tester), PJSIP (pip install pjsua2-python==2.15.1) and FRR (Debian: frr). What is missing is left out, and the
report says so.")]
struct Interference {
    #[command(flatten)]
    common: Common,
    /// Only these parts [default: all].
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    part: Vec<Part>,
    /// Frames a second that the reflector is offered; 0 for as many as it takes.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    rate: u64,
    /// SIP calls set up and ended in each state.
    #[arg(long, value_name = "NUMBER", default_value_t = interference::CALLS, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    calls: u32,
    /// A Python with PJSIP (the package pjsua2-python) [default: python3].
    #[arg(long, value_name = "PYTHON")]
    pjsua2: Option<PathBuf>,
    /// Routes that FRR computes, as a file of routes [default: the whole table in shared/data next to the directory, or made up].
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// The most routes that it computes [default: all of a file; 100,000 that are made up].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=i64::from(interference::PREFIXES_MAX)))]
    prefixes: Option<u32>,
}

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Part {
    /// Memory copy.
    Copy,
    /// SIP calls.
    Sip,
    /// Routes that FRR computes.
    Routes,
    /// Which cause has which share.
    Why,
    /// What helps.
    Remedies,
}

impl From<Part> for interference::Part {
    fn from(part: Part) -> interference::Part {
        match part {
            Part::Copy => interference::Part::Copy,
            Part::Sip => interference::Part::Sip,
            Part::Routes => interference::Part::Routes,
            Part::Why => interference::Part::Why,
            Part::Remedies => interference::Part::Remedies,
        }
    }
}

impl From<Interference> for interference::Settings {
    fn from(args: Interference) -> interference::Settings {
        let Interference { common: _, part, rate, calls, pjsua2, routes, prefixes } = args;
        let part = part.into_iter().map(Into::into).collect();
        interference::Settings { part, rate, calls, pjsua2, routes, prefixes }
    }
}

/// The management plane of `junctor lab planes`. For the lab alone.
#[derive(Clone, Debug, clap::Args)]
struct Manager {
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// The control socket of the user plane whose configuration is changed.
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// The channel of calls that leads to it.
    #[arg(long, value_name = "NAME", conflicts_with = "control")]
    channel: Option<String>,
    /// The user plane's configuration.
    #[arg(long, value_name = "FILE")]
    configuration: Option<PathBuf>,
}

impl From<Manager> for manager::Settings {
    fn from(args: Manager) -> manager::Settings {
        let Manager { listen, control, channel, configuration } = args;
        manager::Settings { listen, control, channel, configuration }
    }
}

/// The control plane of `junctor lab interference`. For the lab alone.
#[derive(Clone, Debug, clap::Args)]
struct InterferenceControl {
    /// The socket at which it waits for the lab.
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
}

/// Runs the command.
pub(crate) fn main(args: Args) -> u8 {
    let (common, lab) = match args.what {
        What::Bridge(args) => (args.common, Lab::Bridge),
        What::Forwarding(args) => (args.common, Lab::Forwarding),
        What::Interference(args) => (args.common.clone(), Lab::Interference(args.into())),
        What::Parallelism(args) => (args.common, Lab::Parallelism),
        What::Planes(args) => {
            (args.common, Lab::Planes(planes::Settings { timeout: args.timeout, work: args.work }))
        }
        What::Manager(args) => return ended(manager::run(&args.into())),
        What::InterferenceControl(args) => return ended(work::run(&args.socket)),
    };
    match common.prepare().and_then(|()| labs::run(&lab, &(&common).into())) {
        Ok(report) => common.publish(&report),
        Err(Wrong::Usage(why)) => outcome::usage(why),
        Err(Wrong::Failure(why)) => outcome::fail(why),
    }
}

/// The exit status of a plane that a lab has started.
fn ended(how: Result<(), labs::Error>) -> u8 {
    how.map_or_else(outcome::fail, |()| exit::SUCCESS)
}
