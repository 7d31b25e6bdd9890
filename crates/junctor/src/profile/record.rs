// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor profile record`: of a run that begins with it, or of a router that runs.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use clap::Parser;
use profile::file::Recording;
use profile::record::{Mode, Options, Progress, Recorder};
use profile::trigger::Trigger;
use sync::events::Mask;

use crate::ctl::{self, Which};
use crate::{exit, outcome, run};
use client::{Client, Failure, lost};
use conf::Form;
use observe::recording::{self, ENDED_WITH_ROUTER, FIRED, RECORDING};
use observe::until::{self, Armed, Condition};
use observe::watched::interrupts;

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
  junctor profile record -o loss.prof --pid 4711 --until drop=queue-full   what came before a loss, and the packets (loss.pcapng)
  junctor profile record -o slow.prof --pid 4711 --until 'stall>2ms'        what made a worker slow
  junctor profile record -o late.prof --pid 4711 --until 'latency>5ms'      where a packet was for so long
  junctor profile record -o run.prof --events waits,control --no-kernel")]
pub(super) struct Args {
    /// The file to write.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// How long; a run that is recorded ends with it [default: until the run ends, of a running router 5s].
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// What threads record: waits (for locks), locks (all that are taken), tasks, batches, queues, drops, control (sleep, grace periods, calls of handlers, changes of routes, swaps, moves), all; several with commas.
    #[arg(long, value_name = "KINDS", default_value_t = profile::record::USUAL)]
    events: Mask,
    /// Record one in so many runs of tasks, with all that follows from it. 1 records each, and follows packets from batch to batch.
    #[arg(long, value_name = "N", default_value_t = Options::default().one_in)]
    one_in: u32,
    /// Events that each thread's ring holds, 32 bytes each; rounded up to a power of two
    #[arg(long, value_name = "EVENTS", default_value_t = Options::default().ring_records)]
    ring: usize,
    /// stream: write all the time; flight: what rings hold at the end, so what happened last; stop: until rings are full, so what happened first
    /// [default: stream, with --until flight].
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
    /// End when this happens; may be repeated. drop=REASON: a packet is dropped for this reason ('junctor drops --list' has them all). drop: the same for any reason but 'discarded'.
    /// 'stall>BOUND': a worker takes longer than this, say 5ms, until it looks at its tasks, timers and messages again. The element that took longest is named. Time in which others
    /// have the processor of a worker with nothing to do does not count. 'latency>BOUND': a packet is in the router for longer than this, from its source until it is sent, dropped or
    /// done with. The place where it was for most of that time is named. It is a sample, 4 packets at a time. Quote both, since > means something to shells. The packets
    /// concerned, 1000 at most (of a stall the first 128 bytes of the first 4 in hand, of a late packet the first 128), are written next to the recording
    /// (FILE with the suffix .pcapng). A run that is recorded ends
    /// with it, and a running router is recorded until it happens, unless --time ends it before. Exit status 1 if it did not happen.
    #[arg(long, value_name = "CONDITION")]
    until: Vec<Condition>,
    /// How long the recording goes on then.
    #[arg(long, value_name = "TIME", default_value = "10ms", requires = "until")]
    after: String,
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

/// Events that a ring may hold at most.
const RING_MAX: usize = 1 << 26;
/// How long a running router is recorded unless something else is asked for.
const USUAL_TIME: Duration = Duration::from_secs(5);

/// How often a router is asked whether it still records.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// Runs the command.
pub(super) fn main(args: Args) -> u8 {
    let time = match args.time.as_deref().map(|text| (text, engine::parse_duration(text))) {
        None => None,
        Some((_, Some(time))) if !time.is_zero() => Some(time),
        Some((text, _)) => {
            return outcome::usage(format!(
                "--time expects a time above 0 such as 5s or 500ms, not '{text}'"
            ));
        }
    };
    if args.one_in == 0 {
        return outcome::usage("--one-in expects 1 (each run of a task) or more (one in so many), not 0");
    }
    if !(2..=RING_MAX).contains(&args.ring) {
        return outcome::usage(format!("--ring expects 2 to {RING_MAX} events, not {}", args.ring));
    }
    let Some(after) = engine::parse_duration(&args.after) else {
        return outcome::usage(format!("--after expects a time such as 10ms, not '{}'", args.after));
    };
    if args.output.as_os_str() == "-" {
        return outcome::usage(
            "-o expects the name of a file: a recording is written by the router, and not in one go",
        );
    }
    if let (false, Err(why)) = (args.until.is_empty(), until::packets_file(&args.output)) {
        return outcome::usage(why);
    }
    let usual = if args.until.is_empty() { Mode::Stream } else { Mode::Flight };
    let options = Options {
        events: args.events,
        one_in: args.one_in,
        ring_records: args.ring,
        mode: args.mode.unwrap_or(usual),
        kernel: !args.no_kernel,
        time,
        after,
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
    let (output, until) = (args.output, args.until);
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
        Ok(move || ended(recorder, &until, &output, &options))
    })
}

fn ended(mut recorder: Recorder, until: &[Condition], output: &Path, options: &Options) -> u8 {
    let done = recorder.end();
    let (progress, file) = (recorder.progress(), output.display());
    let status = match until {
        [] => exit::SUCCESS,
        until => {
            let (outcome, fired) = until::outcome(until, progress.fired.get());
            errln!("junctor: {outcome}");
            if fired { exit::SUCCESS } else { exit::FAILURE }
        }
    };
    match done {
        Ok(()) => {
            say_recorded(&progress.to_string(), output, options);
            status
        }
        Err(why) => outcome::fail(format!("{file}: {}", recording::failed(&why, progress))),
    }
}

fn say_recorded(progress: &str, file: &Path, options: &Options) {
    let file = file.display();
    errln!("junctor: recorded {progress} in {file}; look into it by 'junctor profile report {file}'");
    // The number before this word.
    let number = |unit| {
        let before = progress.split(unit).next().filter(|before| before.len() < progress.len())?;
        before.rsplit([' ', '(']).next()?.parse::<u64>().ok()
    };
    let of = |unit| number(unit).unwrap_or(0);
    let (kept, kernel) = (of(" engine events"), of(" of the kernel's"));
    let lost = of(" lost") - kernel;
    // Rings that are emptied at the end are to run over.
    if options.mode == Mode::Stream && lost > 0 {
        errln!("junctor: {}", too_small(kept, lost, options));
    }
    if kernel > 0 {
        errln!(
            "junctor: the kernel's rings ran over, since the thread that empties them had no processor for so long: leave one to others (-j), or do without the kernel's events (--no-kernel)"
        );
    }
}

/// What to do where rings ran over.
fn too_small(kept: u64, lost: u64, options: &Options) -> String {
    // As many events as there were in the time in which those that were kept were written.
    let times = (kept + lost).div_ceil(kept.max(1)).clamp(2, 1 << 10).next_power_of_two();
    let larger = options.ring_records.saturating_mul(times as usize).min(RING_MAX);
    let fewer = options.one_in.saturating_mul(times as u32);
    let share = 100.0 * lost as f64 / (kept + lost) as f64;
    let ring = match larger > options.ring_records {
        true => format!("where they come in bursts, larger rings keep more (--ring {larger}); "),
        false => String::new(),
    };
    format!(
        "{share:.1} % of the events were lost, for rings ran over before they were emptied: {ring}where they always come so fast, tell of fewer runs (--one-in {fewer}) or kinds (--events)"
    )
}

/// Records a router that runs.
fn running(args: &Args, options: Options) -> u8 {
    let usual = if args.until.is_empty() { Some(USUAL_TIME) } else { None };
    let time = options.time.or(usual);
    // The router ends it by itself, should this command be ended before.
    let options = Options { time, ..options };
    let file = match std::path::absolute(&args.output) {
        Ok(file) => file,
        Err(e) => {
            let file = args.output.display();
            return outcome::usage(format!("-o expects the name of a file to write, not '{file}': {e}"));
        }
    };
    // From before it begins, so that no interrupt leaves it behind.
    let interrupted = interrupts();
    let mut begun = false;
    let done = ctl::find(&args.router).and_then(|stream| {
        let mut client = Client::new(stream).map_err(lost)?;
        let order =
            format!("start {}\n{}", recording::options_to_words(&options, &args.until), file.display());
        let said = client.write(RECORDING, &order)?;
        err!("{said}{}", if said.is_empty() || said.ends_with('\n') { "" } else { "\n" });
        begun = true;
        match wait(&mut client, &interrupted, time)? {
            Waited::Enough => client.write(RECORDING, "stop").map(Some),
            Waited::Gone => Ok(None),
        }
    });
    match done {
        Ok(Some(said)) => {
            let (progress, outcome) = said.split_once('\n').unwrap_or((&said, ""));
            told(progress, outcome, &file, &options)
        }
        Ok(None) => ended_otherwise("somebody else has ended the recording", &args.until, &file, &options),
        Err(Failure::Ended) if begun => {
            let how = "the router has ended, and the recording with it";
            ended_otherwise(how, &args.until, &file, &options)
        }
        Err(why) => ctl::tell(&why),
    }
}

/// Says what came of a recording that the router has ended.
fn told(progress: &str, outcome: &str, file: &Path, options: &Options) -> u8 {
    let fired = outcome.strip_prefix(FIRED);
    if !outcome.is_empty() {
        errln!("junctor: {}", fired.unwrap_or(outcome));
    }
    say_recorded(progress, file, options);
    if outcome.is_empty() || fired.is_some() { exit::SUCCESS } else { exit::FAILURE }
}

/// The recording did not end as it was to, but `how`. A router that ends in order writes what there is; of one that was killed the file has what came until
/// then.
fn ended_otherwise(how: &str, until: &[Condition], file: &Path, options: &Options) -> u8 {
    let read = std::fs::read(file).map_err(|e| e.to_string());
    let recording = read.and_then(|bytes| {
        let recording = Recording::read(&bytes).map_err(|e| e.to_string())?;
        Ok((recording, bytes.len()))
    });
    let (recording, bytes) = match recording {
        Ok(read) => read,
        Err(why) => {
            return outcome::fail(format!(
                "the router ended while it was recorded; {}: {why}",
                file.display()
            ));
        }
    };
    let [events, kernel] = [recording.events.len(), recording.kernel.len()];
    let Some(end) = &recording.end else {
        let lost = match recording.mode() {
            Mode::Stream => "",
            Mode::Flight | Mode::Stop => "; its rings, which this mode empties at the end, are lost",
        };
        return outcome::fail(format!(
            "the router was killed while it was recorded; {} has what was written until then: {events} engine events, {kernel} kernel events{lost}",
            file.display()
        ));
    };
    errln!("junctor: {how}");
    if end.no_room > 0 {
        return outcome::fail(format!("{}: not all was written: {}", file.display(), end.why));
    }
    let lost = end.lost.iter().sum::<u64>() + end.lost_kernel + end.over_kernel + end.no_room;
    let progress = Progress {
        events: (events as u64).into(),
        kernel_events: (kernel as u64).into(),
        lost: lost.into(),
        lost_kernel: end.lost_kernel.into(),
        bytes: (bytes as u64).into(),
        ..Progress::default()
    };
    let (outcome, fired) = until::outcome(until, end.fired.as_ref());
    let outcome = match until {
        [] => String::new(),
        _ => format!("{}{outcome}", if fired { FIRED } else { "" }),
    };
    told(&progress.to_string(), &outcome, file, options)
}

/// What became of a recording that was waited for.
enum Waited {
    /// It is to end, or has ended by itself.
    Enough,
    /// The router has no recording any more.
    Gone,
}

/// Waits until the time is over, somebody interrupts, or the router has ended it.
fn wait(client: &mut Client, interrupted: &Receiver<()>, time: Option<Duration>) -> Result<Waited, Failure> {
    let until = time.and_then(|time| Instant::now().checked_add(time));
    let left = || until.map_or(ASK_EVERY, |until| until.saturating_duration_since(Instant::now()));
    loop {
        let wait = left().min(ASK_EVERY);
        match interrupted.recv_timeout(wait) {
            Ok(()) => return Ok(Waited::Enough),
            // Without signals it is waited as long.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(wait),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let status = client.read(RECORDING)?;
        if status.starts_with("idle") {
            return Ok(Waited::Gone);
        }
        if status.starts_with(ENDED_WITH_ROUTER) {
            return Err(Failure::Ended);
        }
        if left().is_zero() || !status.starts_with("recording") {
            return Ok(Waited::Enough);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_advised_follows_from_what_was_lost() {
        let of = |ring_records| Options { ring_records, one_in: 16, ..Options::default() };
        let said = too_small(1000, 5000, &of(65536));
        assert!(said.starts_with("83.3 % of the events"), "{said}");
        assert!(said.contains("(--ring 524288)") && said.contains("(--one-in 128)"), "{said}");
        let said = too_small(1_000_000, 1, &of(65536));
        assert!(said.contains("(--ring 131072)") && said.contains("(--one-in 32)"), "{said}");
        // None is larger, and nothing was kept.
        let said = too_small(0, 7, &of(RING_MAX));
        assert!(!said.contains("--ring") && said.contains("--one-in"), "{said}");
    }
}
