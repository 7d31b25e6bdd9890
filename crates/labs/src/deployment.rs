// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deployments that a lab runs, as a user would: it writes the file, and `junctor up` starts the planes.
//!
//! Planes are made to outlive `junctor up`, and a lab must leave none behind:
//!
//! * A [`Deployment`] that is dropped is stopped in order, and its files are removed.
//! * After SIGINT, SIGTERM or SIGHUP, all of them are stopped before the lab ends ([`watch`]).
//! * `junctor up` stops its planes if the lab is killed.
//! * If both are killed, the next lab stops what is left ([`clean`]).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use crate::Error;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use planes::protocol::{self, Answer, Request, Row};
use planes::up::Files;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;
use testbed::process::Process;
use testbed::rig::{Namespace, Resident, wait_for};

/// How long planes may take to become ready, or to end: debug builds on busy machines take tens of seconds.
const PATIENCE: Duration = Duration::from_secs(90);
/// How many lines of what planes print are shown when one fails.
const LINES: usize = 30;
/// What deployments and directories of labs are called, before the process and a number.
const PREFIX: &str = "lab";

/// A deployment that runs until this is dropped.
pub(super) struct Deployment {
    name: String,
    files: Files,
    /// Holds the deployment's file and what it names.
    directory: TempDir,
    up: Option<Supervisor>,
}

/// `junctor up`, in a network namespace or in that of the lab.
enum Supervisor {
    There(Resident),
    Here(Process),
}

impl Supervisor {
    fn start(
        home: Option<&Namespace>,
        command: Command,
        what: String,
        cores: &[usize],
    ) -> Result<Supervisor, Error> {
        let Some(home) = home else {
            return on_cores(cores, || Process::spawn(command, what))?
                .map(Supervisor::Here)
                .map_err(Error::from);
        };
        Ok(home.settle(command, what, cores).map(Supervisor::There)?)
    }

    fn process(&mut self) -> &mut Process {
        match self {
            Supervisor::There(resident) => &mut resident.process,
            Supervisor::Here(process) => process,
        }
    }
}

/// Keeps the calling thread, and the threads that it starts, on these cores.
pub(super) fn stay_on(cores: &[usize]) -> Result<(), Error> {
    let failed = |why| Error::Cores { doing: format!("cannot use cores {cores:?}"), why };
    let mut set = CpuSet::new();
    cores.iter().try_for_each(|core| set.set(*core)).map_err(failed)?;
    sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).map_err(failed)
}

/// Does something on these cores; what it starts stays there.
pub(super) fn on_cores<T>(cores: &[usize], what: impl FnOnce() -> T) -> Result<T, Error> {
    let me = nix::unistd::Pid::from_raw(0);
    let before = sched_getaffinity(me)
        .map_err(|why| Error::Cores { doing: "cannot learn my cores".to_owned(), why })?;
    stay_on(cores)?;
    let done = what();
    sched_setaffinity(me, &before)
        .map_err(|why| Error::Cores { doing: "cannot have my cores back".to_owned(), why })?;
    Ok(done)
}

/// The deployments of this process: their supervisors, and where they have their files.
static RUNNING: Mutex<Vec<(u32, [PathBuf; 2])>> = Mutex::new(Vec::new());

impl Deployment {
    /// Starts the planes in a network namespace, or in that of the lab, and waits until all are ready. `text` is the deployment without its name; `beside` are
    /// the files that it names, with their texts. `cores` are those that planes may use.
    pub(super) fn start(
        home: Option<&Namespace>,
        text: &str,
        beside: &[(&str, &str)],
        cores: &[usize],
    ) -> Result<Deployment, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        watch()?;
        let name = format!("{PREFIX}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let files = client::files_of(&name)?;
        let prefix = format!("junctor-{name}-");
        let wrong = Error::system("the deployment cannot be written");
        let directory = tempfile::Builder::new().prefix(&prefix).tempdir().map_err(&wrong)?;
        let path = directory.path().join("deployment.toml");
        for (file, text) in beside {
            std::fs::write(directory.path().join(file), text).map_err(&wrong)?;
        }
        std::fs::write(&path, format!("name = \"{name}\"\n{text}")).map_err(&wrong)?;
        let mut command = Command::new(program()?);
        command.args(["up", "--parent", &std::process::id().to_string()]).arg(&path);
        let mut up = Supervisor::start(home, command, format!("junctor up of {name}"), cores)?;
        let own = [files.directory().to_owned(), directory.path().to_owned()];
        running().push((up.process().id(), own));
        let mut deployment = Deployment { name, files, directory, up: Some(up) };
        deployment.wait_until_up().map_err(|why| why.after(format_args!("\nthe deployment was:\n{text}")))?;
        Ok(deployment)
    }

    fn wait_until_up(&mut self) -> Result<(), Error> {
        let Some(up) = &mut self.up else { return Ok(()) };
        // It may have to wait for the machine as well as for planes.
        Ok(up.process().wait_for_text("planes are ready", PATIENCE)?)
    }

    /// The last lines that `junctor up` and the planes have printed.
    pub(super) fn said(&self) -> String {
        let all = self.up.as_ref().map_or_else(String::new, |up| {
            let process = match up {
                Supervisor::There(resident) => &resident.process,
                Supervisor::Here(process) => process,
            };
            process.stderr() + &process.stdout()
        });
        let lines: Vec<&str> = all.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    /// Where planes start, with the files that the deployment names.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The planes as `junctor ps` shows them.
    pub(super) fn rows(&self) -> Result<Vec<Row>, Error> {
        match protocol::ask(&self.files.socket(), &Request::Ps) {
            Ok(Answer::Planes { planes }) => Ok(planes),
            Ok(Answer::Done { text: why } | Answer::Failed { why }) => Err(Error::Refused(why)),
            Err(why) => Err(Error::Supervisor { name: self.name.clone(), why }),
        }
    }

    /// One of them.
    pub(super) fn row(&self, plane: &str) -> Result<Row, Error> {
        let mut rows = self.rows()?.into_iter();
        rows.find(|row| row.plane == plane)
            .ok_or_else(|| Error::nothing(format!("{}: no plane {plane}", self.name)))
    }

    /// The control socket of a user plane.
    pub(super) fn control(&self, plane: &str) -> PathBuf {
        self.files.control(plane)
    }

    /// Stops all planes in order.
    pub(super) fn stop(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(mut up) = self.up.take() else { return Ok(()) };
        let pid = up.process().id();
        let ended = end(pid, up);
        running().retain(|(other, _)| *other != pid);
        // Its log has been read, if anybody wanted to.
        let _ = std::fs::remove_dir_all(self.files.directory());
        ended
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        // What is left is for the next lab.
        let _ = self.end();
    }
}

fn end(pid: u32, mut up: Supervisor) -> Result<(), Error> {
    ask_to_end(pid);
    wait_for("the planes' end", PATIENCE, || up.process().ended().is_some())?;
    Ok(())
}

fn ask_to_end(pid: u32) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        // It may have ended.
        let _ = kill_process(pid, Signal::TERM);
    }
}

fn lives(pid: u32) -> bool {
    Pid::from_raw(pid.cast_signed()).is_some_and(|pid| test_kill_process(pid).is_ok())
}

/// This program's own file.
pub(super) fn program() -> Result<PathBuf, Error> {
    std::env::current_exe().map_err(Error::system("this program's own file"))
}

fn running() -> std::sync::MutexGuard<'static, Vec<(u32, [PathBuf; 2])>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on, a signal that ends this process stops its deployments first.
pub(super) fn watch() -> Result<(), Error> {
    static ONCE: Once = Once::new();
    let mut result = Ok(());
    ONCE.call_once(|| {
        let signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]);
        result = signals.map_err(Error::system("cannot watch for signals")).map(|mut signals| {
            std::thread::spawn(move || {
                let Some(signal) = signals.forever().next() else { return };
                stop_all();
                std::process::exit(128 + signal);
            });
        });
    });
    result
}

fn stop_all() {
    // Nothing is started any more: a thread that wants to must wait for this lock.
    let running = running();
    running.iter().for_each(|(pid, _)| ask_to_end(*pid));
    for (pid, directories) in &*running {
        // This process has not waited for it, so its number stays; what has ended is a zombie.
        let ended = || !lives(*pid) || is_zombie(*pid);
        let _ = wait_for("the planes' end", PATIENCE, ended);
        directories.iter().for_each(|directory| {
            let _ = std::fs::remove_dir_all(directory);
        });
    }
}

fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// Stops what labs have left behind that were killed together with their supervisors.
pub(super) fn clean() -> Result<(), Error> {
    let program = program()?;
    let here = client::deployments()?;
    for name in left_in(&here, &format!("{PREFIX}-")) {
        // Its status and words are of no use: what cannot be stopped stays listed in `junctor ps`.
        let _ = Command::new(&program).args(["down", "--deployment", &name]).output();
        let _ = std::fs::remove_dir_all(here.join(&name));
    }
    let scratch = std::env::temp_dir();
    for name in left_in(&scratch, &format!("junctor-{PREFIX}-")) {
        let _ = std::fs::remove_dir_all(scratch.join(name));
    }
    Ok(())
}

/// What a directory holds of this prefix and a process that has ended.
fn left_in(directory: &Path, prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let left = |name: &String| {
        let pid = name.strip_prefix(prefix).and_then(|rest| rest.split('-').next()?.parse().ok());
        pid.is_some_and(|pid| !lives(pid))
    };
    names.filter(left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dead_labs_left_is_found() {
        let dir = tempfile::tempdir().unwrap();
        // No process has a number beyond the kernel's greatest.
        let dead = "lab-2000000000-1";
        for name in [dead, &format!("lab-{}-1", std::process::id()), "lab-x", "edge"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        assert_eq!(left_in(dir.path(), "lab-"), [dead]);
    }
}
