// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor profile record`: of a run that begins with it, or of a router that runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use profile::record::{Mode, Options, Recorder};
use profile::trigger::Trigger;
use sync::events::Mask;

use crate::ctl::{self, Which};
use crate::{exit, outcome, run};
use client::{Client, lost};
use conf::Form;
use observe::recorded::{self, Error, RING_MAX};
use observe::recording;
use observe::until::{self, Armed, Condition};
use observe::watched::interrupts;

/// Record what a router and the kernel do.
///
/// A configuration is run and recorded from beginning to end; with --pid or --socket, or without a configuration, a router that runs is recorded for
/// a time. It writes the file itself; what a confined router may not write is copied from its own directory at the end.
///
/// With --until, the recording ends when a condition comes true. For drop=REASON, a packet is dropped for this reason ('junctor drops --list' has
/// them all). For drop alone, it is dropped for any reason but 'discarded'. For 'stall>BOUND', a worker takes longer than this for one round. The
/// report names what took longest. Time of other programs on the processor of an idle worker does not count. For 'latency>BOUND', a packet is in the
/// router for longer than this. That is a sample of 4 packets at a time. Quote both, since > means something to shells.
///
/// The packets concerned, 1000 at most, are written next to the recording (FILE with the suffix .pcapng): of a stall the first 4 in hand. Those of
/// stalls and late ones are cut at 128 bytes. The exit status is 1 if the condition did not come true.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor profile record -o run.prof --time 5s router.click
  junctor profile record -o run.prof -- -j 2 --burst 32 router.click    options of 'junctor run' behind --
  junctor profile record -o run.prof --pid 4711 --time 10s              a router that runs
  junctor profile record -o run.prof --mode flight --ring 1000000       only what happened last
  junctor profile record -o loss.prof --pid 4711 --until drop=queue-full   what came before a loss, and the packets (loss.pcapng)
  junctor profile record -o slow.prof --pid 4711 --until 'stall>2ms'        what made a worker slow
  junctor profile record -o late.prof --pid 4711 --until 'latency>5ms'      where a packet was for so long
  junctor profile record -o run.prof --events waits,control --no-kernel")]
pub(crate) struct Args {
    /// The file to write.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// How long; a run that is recorded ends with it [default: until the run ends, of a running router 5s].
    #[arg(long, value_name = "TIME", help_heading = "End")]
    time: Option<String>,
    /// What threads record, with commas: waits (for locks), locks (all), tasks, batches, queues, drops, control (sleeps, calls, swaps and others), all.
    #[arg(long, value_name = "KINDS", default_value_t = profile::record::USUAL, help_heading = "Events")]
    events: Mask,
    /// Record one in so many runs of tasks, with all that follows from it. 1 records each, and follows packets from batch to batch.
    #[arg(long, value_name = "N", default_value_t = Options::default().one_in, help_heading = "Events")]
    one_in: u32,
    /// Events that each thread's ring holds, 32 bytes each; rounded up to a power of two
    #[arg(long, value_name = "EVENTS", default_value_t = Options::default().ring_records, help_heading = "Events")]
    ring: usize,
    /// stream: write all the time; flight: what rings hold at the end, so what happened last; stop: until rings are full, so what happened first
    /// [default: stream, with --until flight].
    #[arg(long, value_name = "MODE", help_heading = "Events")]
    mode: Option<Mode>,
    /// End at a drop, a stall or a late packet: drop, drop=REASON, 'stall>5ms', 'latency>5ms'; may be repeated.
    #[arg(long, value_name = "CONDITION", help_heading = "End")]
    until: Vec<Condition>,
    /// How long the recording goes on then.
    #[arg(long, value_name = "TIME", default_value = "10ms", requires = "until", help_heading = "End")]
    after: String,
    /// Leave the kernel's events out.
    #[arg(long, help_heading = "Events")]
    no_kernel: bool,
    #[command(flatten)]
    router: Which,
    /// A configuration, or behind -- what 'junctor run' takes.
    #[arg(value_name = "RUN", num_args = 0.., trailing_var_arg = true, conflicts_with_all = ["socket", "pid"])]
    run: Vec<String>,
}

/// The arguments of `junctor run` alone.
#[derive(Parser, Debug)]
#[command(name = "junctor run", no_binary_name = true)]
struct Run {
    #[command(flatten)]
    args: run::Args,
}

/// How long a running router is recorded unless something else is asked for.
const USUAL_TIME: Duration = Duration::from_secs(5);

impl TryFrom<&Args> for Options {
    type Error = String;

    fn try_from(args: &Args) -> Result<Options, String> {
        let time = outcome::time_above_0(args.time.as_deref(), "5s or 500ms")?;
        if args.one_in == 0 {
            return Err("--one-in expects 1 (each run of a task) or more (one in so many), not 0".into());
        }
        if !(2..=RING_MAX).contains(&args.ring) {
            return Err(format!("--ring expects 2 to {RING_MAX} events, not {}", args.ring));
        }
        let after = engine::parse_duration(&args.after);
        let after =
            after.ok_or_else(|| format!("--after expects a time such as 10ms, not '{}'", args.after))?;
        if args.output.as_os_str() == "-" {
            return Err(
                "-o expects the name of a file: a recording is written by the router, and not in one go"
                    .into(),
            );
        }
        let usual = match args.until.is_empty() {
            true => Mode::Stream,
            false => until::packets_file(&args.output).map(|_| Mode::Flight)?,
        };
        Ok(Options {
            events: args.events,
            one_in: args.one_in,
            ring_records: args.ring,
            mode: args.mode.unwrap_or(usual),
            kernel: !args.no_kernel,
            time,
            after,
        })
    }
}

/// Runs the command.
pub(super) fn main(args: Args) -> u8 {
    match Options::try_from(&args) {
        Ok(options) if args.run.is_empty() => running(&args, options),
        Ok(options) => beginning(args, options),
        Err(why) => outcome::usage(why),
    }
}

/// Runs a configuration and records it.
fn beginning(args: Args, options: Options) -> u8 {
    let mut words = args.run.as_slice();
    let is_program = |word: &String| Path::new(word).file_name().is_some_and(|n| n == "junctor");
    if let [program, rest @ ..] = words
        && is_program(program)
    {
        words = rest;
    }
    if let [run, rest @ ..] = words
        && run == "run"
    {
        words = rest;
    }
    let mut run = match Run::try_parse_from(words) {
        Ok(run) => run.args,
        Err(why) => why.exit(),
    };
    if run.clock.time.is_none() {
        run.clock.time = args.time;
    }
    let (output, until) = (args.output, args.until);
    run.confinement.may_write(&output);
    run::execute_beside(&run, Form::Full, move |router| {
        let names = recording::names(router.control());
        let options = Options { time: None, ..options };
        let trigger = match until.is_empty() {
            true => None,
            false => {
                let file = until::packets_file(&output)?;
                Some(Box::new(Armed::before_run(router, until.clone(), file)?) as Box<dyn Trigger>)
            }
        };
        let recorder = Recorder::start(&output, options, &super::command_line(), names, trigger);
        let recorder = recorder.map_err(|e| e.to_string())?;
        err!("{}", recording::shortfalls(&recorder));
        Ok(move || told(recorded::end(recorder, &until, &output, &options)))
    })
}

/// Says what became of a recording; returns the exit status.
fn told(done: Result<bool, Error>) -> u8 {
    match done {
        Ok(true) => exit::SUCCESS,
        Ok(false) => exit::FAILURE,
        Err(Error::Router(why)) => ctl::tell(&why),
        Err(why) => outcome::fail(why),
    }
}

/// Records a router that runs.
fn running(args: &Args, options: Options) -> u8 {
    let usual = if args.until.is_empty() { Some(USUAL_TIME) } else { None };
    // The router ends it by itself, should this command be ended before.
    let options = Options { time: options.time.or(usual), ..options };
    let file = match std::path::absolute(&args.output) {
        Ok(file) => file,
        Err(e) => {
            let file = args.output.display();
            return outcome::usage(format!("-o expects the name of a file to write, not '{file}': {e}"));
        }
    };
    // From before it begins, so that no interrupt leaves it behind.
    let interrupted = interrupts();
    let connect = || ctl::find(&args.router).and_then(|stream| Client::new(stream).map_err(lost));
    told(recorded::of_router(connect, (&options, &args.until), &file, &interrupted))
}
