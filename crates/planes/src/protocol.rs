// SPDX-License-Identifier: MIT OR Apache-2.0
//! How `junctor ps`, `down` and `restart` speak to a supervisor: one line of JSON each way, over a Unix socket in the deployment's
//! directory, which its owner alone may enter.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::Error;
use serde::{Deserialize, Serialize};

/// The longest line of a request.
const LONGEST: u64 = 4096;
/// The longest line of an answer.
const LONGEST_ANSWER: u64 = 1 << 20;
/// How long a client may take to ask.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is asked of a supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub enum Request {
    /// What are the planes doing?
    Ps,
    /// Stop all of them.
    Down,
    /// Restart one.
    Restart {
        /// Its name.
        plane: String,
    },
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Answer {
    /// The planes.
    Planes {
        /// Each, in the file's order.
        planes: Vec<Row>,
    },
    /// It was done.
    Done {
        /// What, in words.
        text: String,
    },
    /// It could not be done.
    Failed {
        /// Why.
        why: String,
    },
}

/// A plane as `junctor ps` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub plane: String,
    /// What it is for.
    pub kind: String,
    /// What it does: waiting, starting, ready, stopping, down.
    pub state: String,
    /// Its process.
    pub pid: Option<u32>,
    /// Seconds since its process began.
    pub uptime_s: Option<f64>,
    /// How often it was started again.
    pub restarts: u64,
    /// Its cores.
    pub cores: String,
    /// How it is kept there.
    pub partition: String,
    /// Its scheduling class.
    pub scheduler: String,
    /// Bytes of memory that it has in use.
    pub memory: Option<u64>,
    /// Descriptors that it has left with the supervisor for the process that takes its place.
    pub kept: usize,
}

/// Why a supervisor could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens.
    #[error("no supervisor runs this deployment")]
    NotRunning,
    /// It does not answer.
    #[error("the supervisor does not answer; it may have been stopped (SIGSTOP), or be busy")]
    Silent,
    /// It did not answer.
    #[error("the supervisor did not answer: {0}")]
    Io(#[from] std::io::Error),
    /// It answered something else.
    #[error("the supervisor is of another version: {0}")]
    Version(String),
}

/// Asks the supervisor at a socket. What changes something may take its time: planes need theirs to end. So it is asked first whether
/// it answers at all.
///
/// # Errors
/// See [`AskError`].
pub fn ask(socket: &Path, request: &Request) -> Result<Answer, AskError> {
    if *request != Request::Ps {
        converse(socket, &Request::Ps)?;
    }
    converse(socket, request)
}

fn converse(socket: &Path, request: &Request) -> Result<Answer, AskError> {
    let mut stream = UnixStream::connect(socket).map_err(|_| AskError::NotRunning)?;
    if *request == Request::Ps {
        stream.set_read_timeout(Some(PATIENCE))?;
    }
    stream.set_write_timeout(Some(PATIENCE))?;
    let line = serde_json::to_string(request).map_err(|why| AskError::Version(why.to_string()))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    let mut answer = String::new();
    let heard = BufReader::new(stream.take(LONGEST_ANSWER)).read_line(&mut answer);
    heard.map_err(|why| match why.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => AskError::Silent,
        _ => AskError::Io(why),
    })?;
    serde_json::from_str(&answer).map_err(|_| AskError::Version(format!("it said '{}'", answer.trim_end())))
}

/// Reads a request.
///
/// # Errors
/// It is none, or does not come in time.
pub(crate) fn read(stream: &UnixStream) -> Result<Request, Error> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST)).read_line(&mut line)?;
    serde_json::from_str(&line).map_err(|why| Error::Json { what: "not a request".to_owned(), why })
}

/// Whether a client has hung up.
pub(crate) fn has_gone(stream: &UnixStream) -> bool {
    let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
    matches!(rustix::net::recv(stream, &mut [0u8], flags), Ok((_, 0)))
}

/// Sends an answer; a client that has gone is none of our business.
pub(crate) fn answer(mut stream: &UnixStream, answer: &Answer) {
    let line = serde_json::to_string(answer).unwrap_or_default();
    let _ = stream.write_all(format!("{line}\n").as_bytes());
}
