// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a service that is no router gives up: the management API and the control plane. See [`crate::run`] for routers.

use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use confine::Plan;
use confine::files::Files;
use confine::privileges::{Capability, Limits, User};

use crate::run::Confine;

/// Processes and threads that the user of a confined program may have.
pub(crate) const MOST_THREADS: u64 = 4096;

/// What a service may do once it serves.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Confinement")]
pub(crate) struct Options {
    /// Give up privileges, files and system calls before the first client: capabilities, Landlock, seccomp. 'junctor doctor --security --pid PID' shows
    /// what is in force.
    #[arg(long, value_name = "on|off", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    confine: Option<Confine>,
    /// With --confine: files in this directory may be read, too; may be repeated.
    #[arg(long, value_name = "DIR")]
    readable: Vec<PathBuf>,
    /// With --confine: files in this directory may be written and made, too; may be repeated.
    #[arg(long, value_name = "DIR")]
    writable: Vec<PathBuf>,
}

/// What such a service needs when it serves.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// The user to become.
    pub(crate) user: Option<User>,
    /// Capabilities that it keeps, at first.
    pub(crate) keep: Vec<Capability>,
    /// Directories to be listed.
    pub(crate) list: Vec<PathBuf>,
    /// Directories to be read.
    pub(crate) read: Vec<PathBuf>,
    /// Directories to be written.
    pub(crate) write: Vec<PathBuf>,
    /// Whether it starts this program again, for long work.
    pub(crate) runs_itself: bool,
}

/// The directories that a variable of the environment names. Options by the environment would conflict with options that stand alone.
fn named_by(variable: &str) -> Vec<PathBuf> {
    std::env::var_os(variable).map_or_else(Vec::new, |text| std::env::split_paths(&text).collect())
}

impl Options {
    /// What the command line says, or else JUNCTOR_CONFINE. A word there that is not known confines, too.
    fn mode(&self) -> Confine {
        let named = || {
            let word = std::env::var("JUNCTOR_CONFINE").ok().filter(|word| !word.is_empty())?;
            Some(Confine::from_str(&word, true).unwrap_or(Confine::On))
        };
        self.confine.or_else(named).unwrap_or_default()
    }

    /// Whether anything is given up.
    pub(crate) fn is_on(&self) -> bool {
        self.mode() != Confine::Off
    }

    /// Confines this process, if that is asked for.
    ///
    /// # Errors
    /// What could not be had.
    pub(crate) fn enter(&self, needs: Needs) -> Result<(), String> {
        if !self.is_on() {
            return Ok(());
        }
        let both = |ours: &[PathBuf], more: Vec<PathBuf>| ours.iter().cloned().chain(more).collect();
        let read = [needs.read, named_by("JUNCTOR_READABLE")].concat();
        let write = [needs.write, named_by("JUNCTOR_WRITABLE")].concat();
        let mut files = Files {
            read: both(&self.readable, read),
            write: both(&self.writable, write),
            list: needs.list,
            run: Vec::new(),
        };
        if needs.runs_itself {
            files.run_itself();
        }
        let limits = Limits { threads: needs.user.as_ref().map(|_| MOST_THREADS), ..Limits::default() };
        // What it serves belongs to the user that starts it, root among them.
        let plan = Plan { user: needs.user, stays: true, keep: needs.keep, files, limits };
        let report = plan.enforce().map_err(|why| format!("--confine: {why}"))?;
        if self.mode() != Confine::Quiet {
            report.weaker.iter().for_each(|line| errln!("junctor: warning: --confine: {line}"));
            errln!("junctor: confined: {}", report.summary);
        }
        Ok(())
    }
}

/// The directory of a file or socket.
pub(crate) fn directory(path: &Path) -> PathBuf {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    directory.unwrap_or(Path::new(".")).to_owned()
}
