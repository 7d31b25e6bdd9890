// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor profile record`: of a run that begins with it, or of a router that runs.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use clap::Parser;
use profile::record::{Mode, Options, Recorder};
use sync::events::Mask;

use super::live::{self, RECORDING};
use crate::config::Form;
use crate::ctl::{self, Client, Failure, Which};
use crate::{cli, exit, run};

/// Record what a router and the kernel do.
///
/// A configuration is run and recorded from beginning to end; with --pid or --socket, or without a configuration, a router that runs is recorded for
/// a time. It writes the file itself, so the file is one of its machine and of its user.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor profile record -o run.prof --time 5s router.click
  junctor profile record -o run.prof -- -j 2 --burst 32 router.click    options of 'junctor run' behind --
  junctor profile record -o run.prof --pid 4711 --time 10s              a router that runs
  junctor profile record -o run.prof --mode flight --ring 1000000       only what happened last
  junctor profile record -o run.prof --events waits,control --no-kernel")]
pub(super) struct Args {
    /// The file to write.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// How long; a run that is recorded ends with it [default: until the run ends, of a running router 5s].
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// What threads tell: waits (for locks), locks (all that are taken), tasks, batches, queues, drops, control, all; several with commas.
    #[arg(long, value_name = "KINDS", default_value_t = profile::record::USUAL)]
    events: Mask,
    /// Tell of one in so many runs of tasks, with all that follows from it. 1 tells of each, and follows packets from batch to batch.
    #[arg(long, value_name = "N", default_value_t = Options::default().one_in)]
    one_in: u32,
    /// Events that each thread's ring holds, 32 bytes each.
    #[arg(long, value_name = "EVENTS", default_value_t = Options::default().ring_records)]
    ring: usize,
    /// stream: write all the time; flight: what rings hold at the end, so what happened last; stop: until rings are full, so what happened first.
    #[arg(long, value_name = "MODE", default_value_t = Mode::Stream)]
    mode: Mode,
    /// Leave the kernel's events out.
    #[arg(long)]
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

/// Runs the command.
pub(super) fn main(args: Args) -> u8 {
    let time = match args.time.as_deref().map(|text| (text, engine::parse_duration(text))) {
        None => None,
        Some((_, Some(time))) if !time.is_zero() => Some(time),
        Some((text, _)) => {
            return cli::usage(format!("--time expects a time above 0 such as 5s or 500ms, not '{text}'"));
        }
    };
    if args.one_in == 0 || args.ring < 2 || args.ring > 1 << 26 {
        return cli::usage("--one-in expects 1 or more, --ring 2 to 67108864 events");
    }
    let options = Options {
        events: args.events,
        one_in: args.one_in,
        ring_records: args.ring,
        mode: args.mode,
        kernel: !args.no_kernel,
        time,
    };
    if args.run.is_empty() { running(&args, options) } else { beginning(args, options) }
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
    if run.time.is_none() {
        run.time = args.time;
    }
    let output = args.output;
    run::execute_beside(&run, Form::Full, move |router| {
        let names = live::names(router.control());
        let options = Options { time: None, ..options };
        let recorder =
            Recorder::start(&output, options, &live::command(), names).map_err(|e| e.to_string())?;
        eprint!("{}", live::shortfalls(&recorder));
        Ok(move || ended(recorder, &output))
    })
}

fn ended(mut recorder: Recorder, output: &Path) -> u8 {
    let done = recorder.end();
    let (progress, file) = (recorder.progress(), output.display());
    match done {
        Ok(()) => {
            eprintln!(
                "junctor: recorded {progress} in {file}; look into it by 'junctor profile report {file}'"
            );
            exit::SUCCESS
        }
        Err(why) => cli::fail(format!("{file}: the recording ended early: {why}; kept: {progress}")),
    }
}

/// Records a router that runs.
fn running(args: &Args, options: Options) -> u8 {
    let time = options.time.unwrap_or(USUAL_TIME);
    // The router ends it by itself, should this command be ended before.
    let options = Options { time: Some(time), ..options };
    let file = match std::path::absolute(&args.output) {
        Ok(file) => file,
        Err(e) => return cli::usage(format!("{}: {e}", args.output.display())),
    };
    let done = ctl::find(&args.router).and_then(|stream| {
        let mut client = Client::new(stream).map_err(ctl::lost)?;
        let order = format!("start {}\n{}", live::options_to_words(&options), file.display());
        let said = client.write(RECORDING, &order)?;
        eprint!("{said}{}", if said.is_empty() || said.ends_with('\n') { "" } else { "\n" });
        wait(&mut client, time).map_err(|why| gone(why, &file))?;
        client.write(RECORDING, "stop").map_err(|why| gone(why, &file))
    });
    match done {
        Ok(said) => {
            let shown = file.display();
            eprintln!(
                "junctor: recorded {said} in {shown}; look into it by 'junctor profile report {shown}'"
            );
            exit::SUCCESS
        }
        Err(why) => why.tell(),
    }
}

/// Says what is left when the router has gone.
fn gone(why: Failure, file: &Path) -> Failure {
    match why {
        Failure::Unreachable(why) => Failure::Unreachable(format!(
            "{why}: it was gone in mid-record; {} has what it recorded until then",
            file.display()
        )),
        other => other,
    }
}

/// Waits until the time is over, somebody interrupts, or the router has ended it or gone.
fn wait(client: &mut Client, time: Duration) -> Result<(), Failure> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let (interrupt, interrupted) = channel();
    let signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]);
    if let Ok(mut signals) = signals {
        std::thread::spawn(move || signals.forever().for_each(|_| interrupt.send(()).unwrap_or_default()));
    }
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match interrupted.recv_timeout(left.min(Duration::from_millis(500))) {
            Ok(()) => return Ok(()),
            // Without signals it is waited as long.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(left.min(Duration::from_millis(500))),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if until <= Instant::now() || !client.read(RECORDING)?.starts_with("recording") {
            return Ok(());
        }
    }
}
