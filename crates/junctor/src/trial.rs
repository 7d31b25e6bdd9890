// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trial of a configuration in a process of its own, before a running router takes it.
//!
//! The router starts its own program again, hands it the text, and waits. That process reads the text, configures every element, plans
//! the workers and makes the instances, within limits of memory and time. It opens no device, file or socket. If it panics, runs out of
//! memory or time, it alone ends, and the router refuses the configuration and goes on. What is merely wrong with a configuration it
//! leaves to the router to say, which finds the same.

use std::io::{Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};

use crate::config::Source;
use crate::{exit, outcome};
use explain::queues;

/// How long a trial may take.
const LONGEST: Duration = Duration::from_secs(60);
/// How often the router looks after it.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How much of the memory that is available a trial may fill: the router needs as much again, beside what it has.
const SHARE: f64 = 0.45;
/// What a trial may take even where little is available.
const LEAST: u64 = 64 << 20;
/// How much of what it says is kept.
const MOST_SAID: u64 = 16 << 10;

/// Try a configuration from standard input for a router that runs.
#[derive(Clone, Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// The name of the text, or its path.
    #[arg(long)]
    name: String,
    /// The text comes from a file of that name.
    #[arg(long)]
    from_file: bool,
    /// Workers of the router.
    #[arg(long)]
    workers: usize,
    /// Bytes of address space.
    #[arg(long)]
    space: u64,
}

/// Runs the command: the trial itself.
pub(crate) fn main(args: &Args) -> u8 {
    if let Err(why) = confine(args.space) {
        return outcome::fail(why);
    }
    let mut text = Vec::new();
    if let Err(why) = std::io::stdin().read_to_end(&mut text) {
        return outcome::fail(why);
    }
    let options = match args.source.options() {
        Ok(options) => options,
        Err(why) => return outcome::fail(why),
    };
    let path = PathBuf::from(&args.name);
    let parsed = lang::load_data(&args.name, args.from_file.then_some(path.as_path()), &text, &options);
    if let Some(graph) = &parsed.graph {
        let _ = engine::trial(graph, &conf::registry(false), args.workers, Box::new(queues));
    }
    exit::SUCCESS
}

/// Limits this process, and lets it end with the router.
fn confine(space: u64) -> Result<(), String> {
    let failed = |e: rustix::io::Errno| format!("cannot limit the trial: {e}");
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed)?;
    // Where memory runs out, the kernel ends this process and not the router.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let limit = |resource, to: u64| {
        let Rlimit { current, maximum } = getrlimit(resource);
        let to = current.map_or(to, |now| now.min(to));
        setrlimit(resource, Rlimit { current: Some(to), maximum }).map_err(failed)
    };
    limit(Resource::As, space)?;
    limit(Resource::Core, 0)?;
    limit(Resource::Cpu, LONGEST.as_secs())
}

/// Tries a configuration in a process of its own.
///
/// # Errors
/// That it must not be built here, and why.
pub(crate) fn of(
    name: &str,
    path: Option<&Path>,
    text: &[u8],
    source: &Source,
    workers: usize,
) -> Result<(), String> {
    let options = source.options()?;
    let available = available();
    let memory = ((available as f64 * SHARE) as u64).max(LEAST);
    let mut command = Command::new("/proc/self/exe");
    command.arg0("junctor").arg("trial").args(["--name", path.and_then(Path::to_str).unwrap_or(name)]);
    command.args(["--workers", &workers.to_string()]);
    // Tables reserve more than they fill.
    command.args(["--space", &available.saturating_mul(4).max(8 << 30).to_string()]);
    if path.is_some() {
        command.arg("--from-file");
    }
    for (name, value) in &options.defines {
        command.arg(format!("--set={name}={value}"));
    }
    if let Some(path) = &source.clickpath {
        command.arg(format!("--clickpath={path}"));
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let cannot = |e: std::io::Error| {
        format!("a new configuration is tried in a process of its own first, and that cannot start: {e}")
    };
    let mut child = command.spawn().map_err(cannot)?;
    let (said, ended) = std::thread::scope(|scope| {
        let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
        // It may end before it has read all.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(text)));
        let said = scope.spawn(move || {
            let mut said = Vec::new();
            let mut stderr = stderr?;
            let _ = stderr.by_ref().take(MOST_SAID).read_to_end(&mut said);
            let _ = std::io::copy(&mut stderr, &mut std::io::sink());
            Some(String::from_utf8_lossy(&said).into_owned())
        });
        let ended = watch(&mut child, memory);
        (said.join().ok().flatten().unwrap_or_default(), ended)
    });
    match ended? {
        status if status.success() => Ok(()),
        status => Err(format!("{REFUSED}: {}", describe(status, &said))),
    }
}

const REFUSED: &str = "this configuration would endanger the router: a trial of it in a process of its own";

/// Waits until the trial has ended, and ends it if it takes too much.
fn watch(child: &mut Child, memory: u64) -> Result<ExitStatus, String> {
    let begun = Instant::now();
    let resident = format!("/proc/{}/statm", child.id());
    loop {
        if let Some(status) = child.try_wait().map_err(|e| format!("{REFUSED} was lost: {e}"))? {
            return Ok(status);
        }
        let pages =
            std::fs::read_to_string(&resident).ok().and_then(|t| t.split(' ').nth(1)?.parse::<u64>().ok());
        let bytes = pages.unwrap_or(0) * rustix::param::page_size() as u64;
        let why = match () {
            () if bytes > memory => {
                format!(
                    "took more than {} MiB, all that it may take of the memory that is available",
                    memory >> 20
                )
            }
            () if begun.elapsed() > LONGEST => format!("was not done in {} s", LONGEST.as_secs()),
            () => {
                std::thread::sleep(LOOK_EVERY);
                continue;
            }
        };
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("{REFUSED} {why}"));
    }
}

/// How a trial ended, and the last that it said.
fn describe(status: ExitStatus, said: &str) -> String {
    // A panic says more than the note about it.
    let last = said.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with("note:")).take(2);
    let last = last.collect::<Vec<_>>().join(" ");
    let how = match status.signal() {
        Some(signal) => format!("ended by signal {signal}"),
        None => status.to_string(),
    };
    if last.is_empty() { how } else { format!("{how} ({last})") }
}

/// Bytes of memory that may still be taken: of the machine, and of the control group that this process is in.
fn available() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let line = |text: &str, name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name).map(str::to_owned))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    let machine = line(&read("/proc/meminfo"), "MemAvailable:").map_or(1 << 30, |kib| kib << 10);
    let group = read("/proc/self/cgroup");
    let group = group.lines().find_map(|l| l.strip_prefix("0::")).map(|path| format!("/sys/fs/cgroup{path}"));
    let number = |file: &str| read(&format!("{}/{file}", group.as_ref()?)).trim().parse::<u64>().ok();
    let free = number("memory.max").zip(number("memory.current")).map(|(max, now)| max.saturating_sub(now));
    machine.min(free.unwrap_or(u64::MAX))
}
