// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times of other programs.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::Error;
use serde::{Deserialize, Serialize};
use testbed::process::Process;

/// How long something took.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(in super::super) struct Time {
    pub(in super::super) wall_s: f64,
    /// Nanoseconds of processor time.
    pub(in super::super) cpu_ns: f64,
}

/// Where a program is.
pub(in super::super) fn on_path(program: &str) -> Option<PathBuf> {
    planes::deployment::find_program(program, std::path::Path::new("/"))
}

/// Nanoseconds of processor time of all threads of a process that are there.
pub(super) fn thread_ns(process: u32) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let of = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0)
    };
    tasks.map(of).sum()
}

/// Waits for a program's end: how it ended, its processor time in nanoseconds, and what it wrote.
pub(super) fn finish(mut process: Process, patience: Duration) -> Result<(ExitStatus, f64, String), Error> {
    let (started, before) = (Instant::now(), children_ns());
    loop {
        if let Some(status) = process.ended() {
            let output = format!("{}\n{}", process.stdout(), process.stderr());
            return Ok((status, children_ns() - before, output));
        }
        if started.elapsed() > patience {
            return Err(Error::nothing(format!("it did not end within {} s", patience.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Nanoseconds of processor time of children that have ended.
fn children_ns() -> f64 {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike as _;
    getrusage(UsageWho::RUSAGE_CHILDREN)
        .map_or(0.0, |usage| (usage.user_time() + usage.system_time()).num_microseconds() as f64 * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_used_its_processor() {
        assert!(thread_ns(std::process::id()) > 0.0);
        assert_eq!(thread_ns(u32::MAX), 0.0);
        assert!(on_path("sh").is_some() && on_path("no-such-program-here").is_none());
    }
}
