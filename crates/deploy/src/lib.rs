// SPDX-License-Identifier: MIT OR Apache-2.0
//! Written deployments of a router whose routes and keys come from daemons.
//!
//! [`Wanted`] says what a deployment is to have. [`Wanted::check`] finds what is wrong with it, and [`Checked::write`] writes a directory: the deployment
//! itself, the router's configuration, and a configuration for each daemon, all of them to be edited.
//!
//! [`charon::Start`] starts strongSwan's key daemon with the router in the place of Linux' IPsec, as such a deployment does.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod charon;
mod daemons;
mod dhcp;
mod strongswan;
mod vrrp;
mod written;

use std::io;
use std::path::{Path, PathBuf};

pub use daemons::{Protocols, Suite};
pub use written::{Checked, Wanted, Written};

/// Why a deployment was not written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It contradicts itself, or cannot be understood.
    #[error("{0}")]
    Wrong(String),
    /// The directory cannot have this name, since configurations of daemons are to name it.
    #[error("{0:?}: take a directory without control characters in its name")]
    Directory(PathBuf),
    /// A file or a directory was not written.
    #[error("{}: {why}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        why: io::Error,
    },
}

impl Error {
    fn file(path: &Path, why: io::Error) -> Error {
        Error::File { path: path.to_owned(), why }
    }
}
