// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a plane, or what it needs, cannot be had.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use icc::AttachError;
use nix::errno::Errno;

/// Why a plane, or what it needs, cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is there is not as a plane needs it; the text says what is wrong.
    #[error("{0}")]
    Unfit(String),
    /// A file, a socket or a process: which one, or what was done, and the system's answer.
    #[error("{doing}: {why}")]
    System {
        /// Which one, or what was done.
        doing: String,
        /// The system's answer.
        #[source]
        why: io::Error,
    },
    /// A namespace, a mount or a signal: what was done, and the system's answer.
    #[error("{doing}: {why}")]
    Kernel {
        /// What was done.
        doing: String,
        /// The system's answer.
        #[source]
        why: Errno,
    },
    /// The system's answer says all.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The same of a system call that `nix` makes.
    #[error(transparent)]
    Call(#[from] Errno),
    /// `ip` refuses.
    #[error("ip {arguments}: {said}")]
    Ip {
        /// Its arguments.
        arguments: String,
        /// What it said.
        said: String,
    },
    /// A message or a file is not the JSON that it should be.
    #[error("{what}: {why}")]
    Json {
        /// Which one.
        what: String,
        /// The parser's answer.
        #[source]
        why: serde_json::Error,
    },
    /// Something cannot be written as JSON.
    #[error(transparent)]
    NotWritten(#[from] serde_json::Error),
    /// The memory that a guest shares cannot be used.
    #[error("{}: {why}", .file.display())]
    Region {
        /// Its file.
        file: PathBuf,
        /// Why not.
        #[source]
        why: AttachError,
    },
    /// The cores of a group of processes are no partition.
    #[error("{}: {why}", .group.display())]
    Group {
        /// The group's directory.
        group: PathBuf,
        /// Why not.
        #[source]
        why: Box<Error>,
    },
    /// The drivers of a guest's kernel cannot be loaded.
    #[error("drivers: {}", joined(.0, ", "))]
    Drivers(Vec<Error>),
    /// Several things, the first of which led to the others.
    #[error("{}", joined(.0, "; "))]
    Several(Vec<Error>),
    /// A guest says why it did not start its program.
    #[error("{0}")]
    Guest(String),
}

impl Error {
    pub(crate) fn unfit(what: impl Into<String>) -> Error {
        Error::Unfit(what.into())
    }

    /// What the system's answer to `doing` becomes.
    pub(crate) fn system(doing: impl Display) -> impl Fn(io::Error) -> Error {
        move |why| Error::System { doing: doing.to_string(), why }
    }

    /// The same of a file, or of what is in the place of one.
    pub(crate) fn file(path: &Path) -> impl Fn(io::Error) -> Error {
        Error::system(path.display())
    }

    /// The same of what `nix` asks of the kernel.
    pub(crate) fn kernel(doing: impl Display) -> impl Fn(Errno) -> Error {
        move |why| Error::Kernel { doing: doing.to_string(), why }
    }

    /// What the answer of shared memory in a file becomes.
    pub(crate) fn region(file: &Path) -> impl Fn(AttachError) -> Error {
        move |why| Error::Region { file: file.to_owned(), why }
    }
}

fn joined(all: &[Error], by: &str) -> String {
    all.iter().map(Error::to_string).collect::<Vec<_>>().join(by)
}
