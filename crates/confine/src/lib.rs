// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fences around a router's process, which it puts up before packets arrive and cannot take down again.
//!
//! A router parses packets from anybody. An error in a parser must not give a stranger what root has. [`Plan::enforce`] therefore gives up
//! what the process no longer needs, when its devices, files and sockets are open:
//!
//! * Capabilities, and root itself if there is a user to be ([`privileges`]).
//! * Files that its configuration does not name, by Landlock ([`files`]).
//! * System calls, by seccomp filters for each [role](Role) of a thread ([`calls`], [`trap`]).
//! * Core dumps, and memory that other processes of its user may read.
//!
//! [`enter_worker`] then takes more from each worker. [`Spawner`] starts threads for workers, which would otherwise inherit their filter.
//! [`threads`] shows what is in force for each thread of any process.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod calls;
pub mod files;
pub mod needs;
pub mod privileges;
mod spawner;
pub mod threads;
pub mod trap;

pub use needs::Needs;
pub use spawner::Spawner;

use std::time::{Duration, Instant};

use files::Files;
use privileges::{Capability, Limits, User};

/// What a thread is for. It decides which system calls the thread may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Not confined.
    Free,
    /// The main thread and all that serve the router: control, statistics, recordings, hot swaps, reopened devices.
    Service,
    /// A thread that processes packets.
    Worker,
}

impl Role {
    /// One word for it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Free => "unconfined",
            Role::Service => "service",
            Role::Worker => "worker",
        }
    }
}

/// Why a process could not be confined. It has then lost some of its rights, and should end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such user.
    #[error("--user {0}: there is no such user; sudo useradd --system {0}, or name another")]
    NoUser(String),
    /// A user is named, and nothing is to be given up.
    #[error("--user needs --confine")]
    NotConfined,
    /// This process may not become another user.
    #[error("--user {0}: only root can become another user; start as root, or leave --user out")]
    NotRoot(String),
    /// The kernel refuses a step.
    #[error("cannot {what}: {why}")]
    Refused {
        /// The step.
        what: &'static str,
        /// The kernel's answer.
        #[source]
        why: std::io::Error,
    },
    /// A filter of system calls could not be made or installed.
    #[error("cannot filter system calls: {0}; it takes a kernel with CONFIG_SECCOMP_FILTER")]
    Filter(String),
    /// A fence around files could not be made or installed.
    #[error("cannot fence files off by Landlock: {0}")]
    Files(String),
}

pub(crate) fn refused(what: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |why| Error::Refused { what, why }
}

/// What a process gives up, and what it keeps.
#[derive(Debug, Default)]
pub struct Plan {
    /// The user to become; `None` stays who it is.
    pub user: Option<User>,
    /// Capabilities that service threads keep. Workers have none.
    pub keep: Vec<Capability>,
    /// The files and directories that stay within reach.
    pub files: Files,
    /// Resource limits.
    pub limits: Limits,
}

/// What came of it, in words for the user.
#[derive(Clone, Debug)]
pub struct Report {
    /// One line for each thing that is weaker than it could be, with its fix.
    pub weaker: Vec<String>,
    /// All in one line.
    pub summary: String,
}

impl Plan {
    /// Confines the calling thread, and with it all threads that it starts from now on.
    ///
    /// # Errors
    /// What could not be had.
    pub fn enforce(self) -> Result<Report, Error> {
        let mut weaker = Vec::new();
        let mut keep = self.keep;
        if !self.limits.apply()? {
            keep.push(Capability::IpcLock);
        }
        let kept = privileges::give_up(self.user.as_ref(), &keep)?;
        if let Some(line) = kept.weaker {
            weaker.push(line);
        }
        let fenced = self.files.enforce()?;
        weaker.extend(fenced.weaker);
        trap::catch()?;
        calls::enter_service()?;
        if let Some(names) = lasting_others() {
            weaker.push(format!(
                "threads that ran before keep capabilities and files, though not all system calls: {names}; start the domain of \
                 channels by 'junctor up' instead"
            ));
        }
        let user =
            self.user.map_or_else(|| format!("user {}", kept.uid), |user| format!("user {}", user.name));
        let capabilities = match kept.names.is_empty() {
            true => "no capabilities".to_owned(),
            false => format!("capabilities of service threads: {}", kept.names.join(", ")),
        };
        let summary = format!("{user}, {capabilities}, {}, system calls filtered by role", fenced.text);
        Ok(Report { weaker, summary })
    }
}

/// How long threads that are about to end may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Other threads of this process that do not end soon: an announcement of a new interface does.
fn lasting_others() -> Option<String> {
    let start = Instant::now();
    loop {
        let others = threads::others();
        if others.is_empty() || start.elapsed() > PATIENCE {
            return (!others.is_empty()).then(|| others.join(", "));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Makes the calling thread a worker of a confined process: no capability, and only the system calls that workers need.
///
/// # Errors
/// The kernel refuses.
pub fn enter_worker(needs: Needs) -> Result<(), Error> {
    privileges::none_for_this_thread()?;
    calls::enter_worker(needs)
}
