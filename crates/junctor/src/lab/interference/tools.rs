// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other programs on the control plane's core: started, timed, and never left behind.

use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use lab::rig::{Namespace, Resident};

/// How long something took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    pub(super) wall_s: f64,
    /// Nanoseconds of processor time.
    pub(super) cpu_ns: f64,
}

/// Where a program is.
pub(super) fn on_path(program: &str) -> Option<PathBuf> {
    planes::deployment::find_program(program, std::path::Path::new("/"))
}

/// A command that is killed with the thread that starts it, however that ends. Its program and arguments are to follow.
pub(super) fn bound() -> Command {
    // The kernel is asked to kill it; then it looks whether that came too late.
    let alive = "[ \"$PPID\" = \"$0\" ] && exec \"$@\"";
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "sh", "-c", alive, &std::process::id().to_string()]);
    command
}

/// Starts a program in a namespace on a CPU. It is killed when this process ends, however that comes.
pub(super) fn in_namespace(namespace: &Namespace, words: &[&str], cpu: usize) -> Result<Resident, String> {
    let mut command = bound();
    command.args(words);
    let what = words.iter().take(1).copied().collect();
    namespace.settle(command, what, &[cpu]).map_err(|e| e.to_string())
}

/// The same for a program that changes its user, which makes the kernel forget that it is to be killed: it lives in a process
/// namespace of its own, and goes with the first process there.
pub(super) fn enclosed(namespace: &Namespace, words: &[&str], cpu: usize) -> Result<Resident, String> {
    let shell = "\"$@\" & wait";
    let mut all = vec!["unshare", "--pid", "--fork", "--kill-child=KILL", "--", "sh", "-c", shell, "sh"];
    all.extend(words);
    in_namespace(namespace, &all, cpu)
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
pub(super) fn finish(
    mut resident: Resident,
    patience: Duration,
) -> Result<(ExitStatus, f64, String), String> {
    let (started, before) = (Instant::now(), children_ns());
    loop {
        if let Some(status) = resident.process.ended() {
            let output = format!("{}\n{}", resident.process.stdout(), resident.process.stderr());
            return Ok((status, children_ns() - before, output));
        }
        if started.elapsed() > patience {
            return Err(format!("it did not end within {} s", patience.as_secs()));
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
    fn a_bound_command_runs_its_program() {
        let ran = bound().args(["echo", "a b", "c"]).output().expect("setpriv");
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "a b c\n");
    }

    #[test]
    fn a_process_has_used_its_processor() {
        assert!(thread_ns(std::process::id()) > 0.0);
        assert_eq!(thread_ns(u32::MAX), 0.0);
        assert!(on_path("sh").is_some() && on_path("no-such-program-here").is_none());
    }
}
