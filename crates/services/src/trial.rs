// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trial of a configuration in a process of its own, before a running router takes it.
//!
//! The router starts its own program again, hands it the text, and waits. That process reads the text, configures every element, plans
//! the workers and makes the instances, within limits of memory and time. It opens no device, file or socket. If it panics, runs out of
//! memory or time, it alone ends, and the router refuses the configuration and goes on. What is merely wrong with a configuration it
//! leaves to the router to say, which finds the same.

use std::io::{self, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};

/// How long a trial may take.
const LONGEST: Duration = Duration::from_secs(60);
/// How often the router looks after it.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How much of the memory that is available a trial may fill: the router needs as much again, in addition to what it has.
const SHARE: f64 = 0.45;
/// What a trial may take even where little is available.
const LEAST: u64 = 64 << 20;
/// How much of what it says is kept.
const MOST_SAID: u64 = 16 << 10;

/// Why a configuration must not be built in the router.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This process, which tries one, cannot be limited.
    #[error("cannot limit the trial: {0}")]
    Limit(#[source] rustix::io::Errno),
    /// There is no process for the trial.
    #[error("a new configuration is tried in a process of its own first, and that cannot start: {0}")]
    NotStarted(#[source] io::Error),
    /// Nobody knows how it ended.
    #[error("{REFUSED} was lost: {0}")]
    Lost(#[source] io::Error),
    /// It took too much memory or time.
    #[error("{REFUSED} {0}")]
    TooMuch(String),
    /// It died: how, and the last that it said.
    #[error("{REFUSED}: {0}")]
    Died(String),
}

const REFUSED: &str = "this configuration would endanger the router: a trial of it in a process of its own";

/// Limits this process, and lets it end with the router.
///
/// # Errors
/// The kernel refuses.
pub fn confine(space: u64) -> Result<(), Error> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(Error::Limit)?;
    // Where memory runs out, the kernel ends this process and not the router.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let limit = |resource, to: u64| {
        let Rlimit { current, maximum } = getrlimit(resource);
        let to = current.map_or(to, |now| now.min(to));
        setrlimit(resource, Rlimit { current: Some(to), maximum }).map_err(Error::Limit)
    };
    limit(Resource::As, space)?;
    limit(Resource::Core, 0)?;
    limit(Resource::Cpu, LONGEST.as_secs())
}

/// How much a trial may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of memory.
    memory: u64,
    /// Bytes of address space.
    pub space: u64,
}

impl Limits {
    /// By what is available now.
    pub fn now() -> Limits {
        let available = available();
        let memory = ((available as f64 * SHARE) as u64).max(LEAST);
        // Tables reserve more than they fill.
        Limits { memory, space: available.saturating_mul(4).max(8 << 30) }
    }

    /// Tries a configuration by this command, a process that confines itself and reads the text from standard input.
    ///
    /// # Errors
    /// That it must not be built here, and why.
    pub fn try_by(self, mut command: Command, text: &[u8]) -> Result<(), Error> {
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(Error::NotStarted)?;
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
            let ended = watch(&mut child, self.memory);
            (said.join().ok().flatten().unwrap_or_default(), ended)
        });
        match ended? {
            status if status.success() => Ok(()),
            status => Err(Error::Died(describe(status, &said))),
        }
    }
}

/// Waits until the trial has ended, and ends it if it takes too much.
fn watch(child: &mut Child, memory: u64) -> Result<ExitStatus, Error> {
    let begun = Instant::now();
    let resident = format!("/proc/{}/statm", child.id());
    loop {
        if let Some(status) = child.try_wait().map_err(Error::Lost)? {
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
        return Err(Error::TooMuch(why));
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
pub(crate) fn available() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let line = |text: &str, name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name).map(str::to_owned))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    let machine = line(&read("/proc/meminfo"), "MemAvailable:").map_or(1 << 30, |kib| kib << 10);
    machine.min(left_in_groups(&read("/proc/self/cgroup"), read).unwrap_or(u64::MAX))
}

/// What the control groups of a process leave it, by the text of its `cgroup` in /proc: the least of its own and all above it. Pages of files that
/// were not used of late do not count as taken.
fn left_in_groups(groups: &str, read: impl Fn(&str) -> String) -> Option<u64> {
    let all = groups.lines().filter_map(|line| {
        let (hierarchy, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let has_memory = controllers.split(',').any(|controller| controller == "memory");
        match (hierarchy, has_memory) {
            ("0", _) => Some(("/sys/fs/cgroup", path, ["memory.max", "memory.current", "inactive_file "])),
            (_, true) => Some((
                "/sys/fs/cgroup/memory",
                path,
                ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "],
            )),
            _ => None,
        }
    });
    let left = |(base, path, [most, now, idle]): (&str, &Path, [&str; 3])| {
        let file =
            |name: &str| read(&format!("{base}{}/{name}", path.display().to_string().trim_end_matches('/')));
        let number = |name: &str| file(name).trim().parse::<u64>().ok();
        let idle = file("memory.stat").lines().find_map(|line| line.strip_prefix(idle)?.parse::<u64>().ok());
        let taken = number(now)?.saturating_sub(idle.unwrap_or(0));
        Some(number(most)?.saturating_sub(taken))
    };
    all.flat_map(|(base, path, names)| {
        Path::new(path).ancestors().filter_map(move |path| left((base, path, names))).collect::<Vec<_>>()
    })
    .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_group_counts() {
        let files = [
            ("/sys/fs/cgroup/memory.max", ""),
            ("/sys/fs/cgroup/system.slice/memory.max", "max\n"),
            ("/sys/fs/cgroup/system.slice/memory.current", "70\n"),
            ("/sys/fs/cgroup/system.slice/r/memory.max", "1000\n"),
            ("/sys/fs/cgroup/system.slice/r/memory.current", "700\n"),
            ("/sys/fs/cgroup/system.slice/r/memory.stat", "anon 500\ninactive_file 100\n"),
            ("/sys/fs/cgroup/system.slice/r/planes/memory.max", "max\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "800\n"),
            ("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "500\n"),
            ("/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "600\n"),
            ("/sys/fs/cgroup/memory/x/memory.stat", "inactive_file 1\ntotal_inactive_file 250\n"),
        ];
        let read = |path: &str| {
            files.iter().find(|(name, _)| *name == path).map_or(String::new(), |(_, text)| (*text).to_owned())
        };
        let check = |groups: &str, want: Option<u64>| {
            assert_eq!(left_in_groups(groups, read), want, "{groups}");
        };
        check("0::/system.slice/r\n", Some(400));
        check("0::/system.slice/r/planes\n", Some(400));
        check("0::/\n", None);
        check("5:cpu,cpuacct:/y\n4:memory:/x\n0::/\n", Some(150));
        check("4:memory:/\n", Some(9_223_372_036_854_771_712 - 800));
        check("nonsense\n", None);
    }
}
