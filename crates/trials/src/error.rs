// SPDX-License-Identifier: MIT OR Apache-2.0
//! What went wrong with a device, a tester, an agent or a file.

use std::fmt::Display;
use std::io;

use engine::HandlerError;
use reconfigure::SwapError;
use serde_json::Error as JsonError;
use testbed::rig::RigError;
use tester::search;
use tester::trial::Invalid;

/// What went wrong with a device, a tester, an agent or a file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A test or a device cannot do what a setting asks for; the text says what it can.
    #[error("{0}")]
    Setting(String),
    /// What is there is not as the test needs it; the text says how to fix it.
    #[error("{0}")]
    Unfit(String),
    /// A file, a socket or a process: what was done to it, the system's answer, and advice.
    #[error("{doing}: {why}{advice}")]
    System {
        /// What was done, and to what.
        doing: String,
        /// The system's answer.
        #[source]
        why: io::Error,
        /// How to fix it, with what separates it from the rest.
        advice: String,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// A part of the program panicked; its thread has said why.
    #[error("{0} panicked")]
    Panicked(&'static str),
    /// What the kernel counts cannot be read.
    #[error("{file}: {why}")]
    Counters {
        /// The file in /proc.
        file: &'static str,
        /// Why.
        #[source]
        why: procfs::ProcError,
    },
    /// The tester's station cannot do its part.
    #[error(transparent)]
    Station(#[from] Invalid),
    /// A station cannot do its part, perhaps because of what the device's owner has not done.
    #[error("{why}; {needs}")]
    Needs {
        /// What went wrong.
        #[source]
        why: Invalid,
        /// What the owner must have done.
        needs: String,
    },
    /// A procedure has no result.
    #[error(transparent)]
    Procedure(#[from] search::Error),
    /// A port cannot be opened or used.
    #[error(transparent)]
    Port(#[from] packet::port::Error),
    /// A rig's namespace, cable or process.
    #[error(transparent)]
    Rig(#[from] RigError),
    /// This machine lets nobody build a rig.
    #[error(
        "a rig cannot be built: {why}; sudo apt-get install iproute2 ethtool, and sudo junctor {arguments}"
    )]
    NoRig {
        /// Why not.
        #[source]
        why: RigError,
        /// The arguments of the program.
        arguments: String,
    },
    /// What a configuration says of its traffic cannot be used.
    #[error(transparent)]
    Traffic(#[from] harness::Error),
    /// Packet memory cannot be reserved.
    #[error(transparent)]
    Memory(#[from] packet::MemoryError),
    /// The device's configuration has errors, which have been printed.
    #[error("{0}")]
    Configuration(String),
    /// The device does not run.
    #[error("the device does not run")]
    NotRunning,
    /// A handler of the device refuses.
    #[error(transparent)]
    Handler(#[from] HandlerError),
    /// Another configuration cannot take the place of the device's.
    #[error("{}", in_place(.0))]
    Swap(SwapError),
    /// Something was done for a purpose, which did not work: the purpose comes first, advice last.
    #[error("{purpose}: {why}{advice}")]
    During {
        /// What was to be done.
        purpose: String,
        /// Why it was not.
        #[source]
        why: Box<Error>,
        /// How to fix it, with what separates it from the rest.
        advice: &'static str,
    },
    /// An agent cannot be talked to.
    #[error("agent {label}: {why}{advice}")]
    Agent {
        /// Its name and address.
        label: String,
        /// Why not.
        #[source]
        why: ChannelError,
        /// How to fix it, with what separates it from the rest.
        advice: &'static str,
    },
    /// An agent says what is wrong at its machine.
    #[error("agent {label}: {said}")]
    Refused {
        /// Its name and address.
        label: String,
        /// Its words.
        said: String,
    },
    /// A file holds something else than it should; the text says where, and how to fix it.
    #[error("{0}")]
    Content(String),
    /// A file is no JSON.
    #[error("{}", no_json(.file, .why))]
    NoJson {
        /// The file.
        file: String,
        /// The parser's answer.
        #[source]
        why: JsonError,
    },
    /// The JSON of a result lacks something.
    #[error("{file}: a part is missing or wrong: {why}")]
    Part {
        /// The file.
        file: String,
        /// The parser's answer.
        #[source]
        why: JsonError,
    },
    /// Two results cannot be compared.
    #[error("{0}")]
    Incomparable(String),
    /// The system's answer says all.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    pub(crate) fn setting(text: impl Into<String>) -> Error {
        Error::Setting(text.into())
    }

    pub(crate) fn unfit(text: impl Into<String>) -> Error {
        Error::Unfit(text.into())
    }

    /// What the system's answer to `doing` becomes.
    pub(crate) fn system(doing: impl Display) -> impl Fn(io::Error) -> Error {
        Error::advised(doing, "")
    }

    /// The same with advice, which begins with what separates it from the rest.
    pub(crate) fn advised(doing: impl Display, advice: impl Display) -> impl Fn(io::Error) -> Error {
        move |why| Error::System { doing: doing.to_string(), why, advice: advice.to_string() }
    }

    /// The same error, which says first what was to be done.
    pub(crate) fn during(self, purpose: impl Display) -> Error {
        Error::During { purpose: purpose.to_string(), why: Box::new(self), advice: "" }
    }
}

/// Why nothing was said or heard.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The connection failed.
    #[error("{}", said(.0))]
    Io(#[from] io::Error),
    /// The other side does not hold the key.
    #[error("not the same key, or no agent of junctor's; see that all machines have the same file of --key")]
    Stranger,
    /// The other side speaks another version: its own, and this side's.
    #[error(
        "the other side is of another version of junctor: it speaks version {0} of the agents' protocol, this one {1}; \
         install the same on all machines"
    )]
    Version(u32, u32),
    /// The agent has no place left, of so many.
    #[error("{0} controllers are served there already; end one of them, or wait")]
    Busy(usize),
    /// A message is not what was sent.
    #[error("the connection was tampered with")]
    Tampered,
    /// A message is no JSON of the protocol.
    #[error("what was said is not understood: {0}")]
    Unclear(#[from] serde_json::Error),
    /// A message is longer than so many bytes.
    #[error("more than {0} bytes at once")]
    TooLong(usize),
}

/// An error in the words of those who talk to each other.
fn said(why: &io::Error) -> String {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
    match why.kind() {
        BrokenPipe | ConnectionReset | UnexpectedEof => "the other side hung up".to_owned(),
        TimedOut | WouldBlock => "the other side said nothing for too long".to_owned(),
        _ => why.to_string(),
    }
}

/// The parser's answer has the line, too, which goes in front.
fn no_json(file: &str, why: &JsonError) -> String {
    let said = why.to_string();
    let said = said.split(" at line ").next().unwrap_or_default();
    format!("{file}, line {}: this is no JSON: {said}; name what a test printed with --json", why.line())
}

/// What a device says that keeps its configuration.
fn in_place(why: &SwapError) -> String {
    match why {
        SwapError::Refused(errors) => errors.first().map_or_else(String::new, |error| error.message.clone()),
        SwapError::Busy => "another configuration is being put in place".to_owned(),
        SwapError::Stopped => "the device has stopped".to_owned(),
        SwapError::Stalled(worker) => worker.clone(),
    }
}
