// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why an experiment has no report, or a part of it no figure.

use std::fmt::Display;
use std::io;

use engine::HandlerError;
use nix::errno::Errno;
use planes::protocol::AskError;
use testbed::rig::RigError;
use tester::search;
use tester::trial::Invalid;

/// Why an experiment has no report, or a part of it no figure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting cannot be used; the text says what can.
    #[error("{0}")]
    Setting(String),
    /// This machine lacks a program or a core that the lab needs.
    #[error("{0}")]
    Missing(String),
    /// What was measured, or waited for, did not come to pass.
    #[error("{0}")]
    Nothing(String),
    /// Another process says why it cannot do its part.
    #[error("{0}")]
    Refused(String),
    /// A configuration of the lab does not run, or a route file cannot be read.
    #[error("{}", explain(.0))]
    Harness(#[from] harness::Error),
    /// A benchmark that the lab runs.
    #[error(transparent)]
    Bench(#[from] bench::Error),
    /// A test that the lab runs.
    #[error(transparent)]
    Trials(#[from] trials::Error),
    /// The tester's station cannot do its part.
    #[error(transparent)]
    Station(#[from] Invalid),
    /// A procedure of the tester has no result.
    #[error(transparent)]
    Procedure(#[from] search::Error),
    /// A network namespace, a cable, or a process in it.
    #[error(transparent)]
    Rig(#[from] RigError),
    /// This machine lets nobody build the network of a lab.
    #[error(
        "lab planes builds network namespaces: {0}; sudo apt-get install iproute2 ethtool, and sudo junctor lab planes"
    )]
    NoNetwork(#[source] RigError),
    /// A router does not answer.
    #[error(transparent)]
    Router(#[from] client::Failure),
    /// A handler of a router refuses.
    #[error(transparent)]
    Handler(#[from] HandlerError),
    /// A supervisor does not answer.
    #[error("deployment {name}: {why}")]
    Supervisor {
        /// Its deployment.
        name: String,
        /// Why not.
        #[source]
        why: AskError,
    },
    /// What one process asks another, or the answer, is no JSON of theirs.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A thread cannot be kept on its cores.
    #[error("{doing}: {why}")]
    Cores {
        /// What was done.
        doing: String,
        /// The system's answer.
        #[source]
        why: Errno,
    },
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
    /// Something happened to a part of the lab, or during an action.
    #[error("{part}: {why}")]
    Of {
        /// Which part, or action.
        part: String,
        /// What happened.
        #[source]
        why: Box<Error>,
    },
    /// Something happened, and processes said this before.
    #[error("{why}{said}")]
    After {
        /// What happened.
        #[source]
        why: Box<Error>,
        /// What is known besides, with what separates it from the rest.
        said: String,
    },
}

impl Error {
    pub(crate) fn nothing(what: impl Into<String>) -> Error {
        Error::Nothing(what.into())
    }

    /// What the system's answer to `doing` becomes.
    pub fn system(doing: impl Display) -> impl Fn(io::Error) -> Error {
        move |why| Error::System { doing: doing.to_string(), why }
    }

    /// The same error, which names the part of the lab that it happened to.
    pub(crate) fn of(self, part: impl Display) -> Error {
        Error::Of { part: part.to_string(), why: Box::new(self) }
    }

    /// The same error, with what is known besides.
    pub(crate) fn after(self, said: impl Display) -> Error {
        Error::After { why: Box::new(self), said: said.to_string() }
    }
}

/// What a configuration of a lab cannot do.
fn explain(failed: &harness::Error) -> String {
    match failed {
        harness::Error::Configuration(_) => format!("a configuration of the lab is wrong here: {failed}"),
        harness::Error::Silent => {
            "no packet came out of a configuration in a run; try a longer --time".to_owned()
        }
        other => other.to_string(),
    }
}
