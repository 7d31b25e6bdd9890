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
//! [`enter_worker`] then takes more from each worker, and [`enter`] from other threads that need little. [`Spawner`] starts threads for workers, which would otherwise inherit their filter.
//! [`threads`] shows what is in force for each thread of any process.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod calls;
pub mod files;
pub mod needs;
pub mod privileges;
pub mod record;
mod spawner;
pub mod threads;
pub mod trap;

pub use needs::Needs;
pub use spawner::Spawner;

use std::time::{Duration, Instant};

use files::Files;
use privileges::{Capability, Limits, User};
use record::{Left, Reach};

/// What a thread is for. It decides which system calls the thread may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Not confined.
    Free,
    /// A thread that serves the router: control, statistics, hot swaps, reopened devices. The main thread is one until workers run.
    Service,
    /// The main thread while the router runs: it waits for the workers, and later prints what was asked for.
    Main,
    /// A thread that writes a recording, a capture or a trace.
    Recorder,
    /// A thread that processes packets.
    Worker,
}

impl Role {
    /// One word for it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Free => "unconfined",
            Role::Service => "service",
            Role::Main => "main",
            Role::Recorder => "recorder",
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
    /// Root is meant to stay root, without its capabilities.
    pub stays: bool,
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
        weaker.extend(kept.weaker.filter(|_| !self.stays));
        let reach = Reach::of(&self.files);
        let fenced = self.files.enforce()?;
        let left = Left { reach: fenced.is_fenced.then_some(reach), outer_filters: threads::own_filters() };
        if let Err(why) = left.leave() {
            weaker.push(format!("'junctor doctor --security' cannot show files and roles: {why}"));
        }
        weaker.extend(fenced.weaker);
        trap::catch()?;
        calls::enter_service(!self.files.run.is_empty())?;
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

/// Takes all capabilities from the calling thread, and from those that it starts from now on.
///
/// # Errors
/// The kernel refuses.
pub fn drop_capabilities() -> Result<(), Error> {
    privileges::none_for_this_thread()
}

/// Makes the calling thread one of this role: no capability, and only the system calls that the role needs. A service keeps what it has.
///
/// # Errors
/// The kernel refuses.
pub fn enter(role: Role) -> Result<(), Error> {
    match role {
        Role::Free | Role::Service => Ok(()),
        Role::Worker => enter_worker(Needs::default()),
        Role::Main | Role::Recorder => {
            privileges::none_for_this_thread()?;
            calls::enter(role)
        }
    }
}
