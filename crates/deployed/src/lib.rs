// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deployments that this program runs.
//!
//! * [`check`] reads a deployment's file and compares it with the machine.
//! * [`up`] runs it. The crate `planes` supervises, and this program is its host.
//! * [`choose`] finds a deployment that runs, [`planes`] asks for its planes, and [`ask`] for anything else.
//! * [`down`] stops one; [`take_down`] one whose supervisor has ended.
//! * [`Logs`] has what planes have printed.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
extern crate report;

mod check;
mod host;
mod printer;
mod running;
mod shown;

use std::io;
use std::path::PathBuf;

use ::planes::protocol::AskError;
use ::planes::up::UpError;

pub use check::{Checked, check, check_from};
pub use host::{take_down, up};
pub use running::{Planes, Stopped, ask, choose, down, listed, planes};
pub use shown::Logs;

/// Why a deployment does not run, or does not answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its file cannot be read.
    #[error("{}: {}", file.display(), sync::os::reason(why))]
    Unread {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        why: io::Error,
    },
    /// Its file is longer than any deployment.
    #[error("{}: a deployment has at most {most} bytes", file.display())]
    TooLong {
        /// The file.
        file: PathBuf,
        /// Bytes at most.
        most: u64,
    },
    /// Its diagnostics, or those of a router's configuration, say what is wrong.
    #[error("the deployment is wrong")]
    Wrong,
    /// There is no place for files of deployments.
    #[error(transparent)]
    Place(#[from] client::Failure),
    /// This program's own file, from which planes are started, is not to be had.
    #[error("this program's own file: {0}")]
    NoProgram(#[source] io::Error),
    /// The supervisor.
    #[error(transparent)]
    Up(#[from] UpError),
    /// What was started is not known any more.
    #[error("the deployment was not saved")]
    NotSaved(#[source] io::Error),
    /// There is no deployment of this name.
    #[error("there is no deployment {name}; there are: {known}")]
    NoDeployment {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// None runs.
    #[error("no deployment is up; `junctor up FILE` starts one")]
    NoneUp,
    /// None was named, and several run.
    #[error("several deployments: {0}; choose one by --deployment")]
    Several(String),
    /// A supervisor refuses.
    #[error("{0}")]
    Refused(String),
    /// A supervisor does not answer.
    #[error("deployment {name}: {why}")]
    Silent {
        /// Its deployment.
        name: String,
        /// Why.
        #[source]
        why: AskError,
    },
    /// A plane has no log.
    #[error("deployment {deployment} has no log of a plane {plane}; there are: {known}")]
    NoLog {
        /// The deployment.
        deployment: String,
        /// The plane.
        plane: String,
        /// Planes that have one.
        known: String,
    },
    /// A log cannot be read.
    #[error("{}: {why}", file.display())]
    Log {
        /// Its file.
        file: PathBuf,
        /// Why.
        #[source]
        why: io::Error,
    },
}
