// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a benchmark found nothing.

use std::fmt::Display;
use std::io;

use control::fpm;
use icc::{AttachError, LayoutError, ServeError};
use lang::Diagnostic;
use packet::MemoryError;
use sync::lines::NoMemory;
use tables::fib4::Fib4Error;
use tables::fib6::Fib6Error;
use testbed::rig::RigError;

/// Why a benchmark found nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting cannot be used; the text says what can.
    #[error("{0}")]
    Setting(String),
    /// This machine cannot do what is measured.
    #[error("{0}")]
    Unsupported(&'static str),
    /// A program or a part of the deployment is missing.
    #[error("{0}")]
    Missing(String),
    /// What was measured did not come to pass.
    #[error("{0}")]
    Nothing(String),
    /// A configuration of the benchmark has errors or does not run, or a route file cannot be read.
    #[error(transparent)]
    Harness(#[from] harness::Error),
    /// A forwarding table of IPv4 refuses routes.
    #[error(transparent)]
    Fib4(#[from] Fib4Error),
    /// A forwarding table of IPv6 refuses routes.
    #[error(transparent)]
    Fib6(#[from] Fib6Error),
    /// A table of Ethernet addresses cannot be made.
    #[error(transparent)]
    Fdb(#[from] NoMemory),
    /// Routes of the benchmark are not understood.
    #[error(transparent)]
    Fpm(#[from] fpm::Error),
    /// A shared-memory domain cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Channels do not fit into shared memory.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A channel in shared memory cannot be attached to.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// Packet memory cannot be reserved.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A port cannot be opened.
    #[error(transparent)]
    Port(#[from] packet::port::Error),
    /// A network namespace, a cable, or a process in it.
    #[error(transparent)]
    Rig(#[from] RigError),
    /// Something was waited for in vain.
    #[error("{why}{known}")]
    Waited {
        /// For what.
        #[source]
        why: RigError,
        /// What is known instead, with what separates it from the rest.
        known: String,
    },
    /// A router or a control plane does not answer.
    #[error(transparent)]
    Router(#[from] client::Failure),
    /// An answer is no JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A file, a socket or a process: what was done to it, and the system's answer.
    #[error("{doing}: {why}")]
    System {
        /// What was done, and to what.
        doing: String,
        /// The system's answer.
        #[source]
        why: io::Error,
    },
    /// The system's answer says all.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A thread panicked, and has said why.
    #[error("{0} panicked")]
    Panicked(&'static str),
}

impl Error {
    /// This processor has no clock that programs can read.
    pub(crate) const NO_TSC: Error =
        Error::Unsupported("this processor has no time stamp counter that programs can read");

    pub(crate) fn nothing(what: impl Into<String>) -> Error {
        Error::Nothing(what.into())
    }

    pub(crate) fn missing(what: impl Into<String>) -> Error {
        Error::Missing(what.into())
    }

    /// A configuration of the benchmark has these errors.
    pub(crate) fn configuration(errors: Vec<Diagnostic>) -> Error {
        harness::Error::Configuration(errors).into()
    }

    /// What the system's answer to `doing` becomes.
    pub fn system(doing: impl Display) -> impl Fn(io::Error) -> Error {
        move |why| Error::System { doing: doing.to_string(), why }
    }
}
