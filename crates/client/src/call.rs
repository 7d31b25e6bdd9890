// SPDX-License-Identifier: MIT OR Apache-2.0
//! A conversation with a router by its control protocol.

use std::io::{BufRead as _, ErrorKind, Read as _, Write as _};
use std::time::Duration;

use icc::AttachError;
use planes::up::domain::VARIABLE;
use zeroize::{Zeroize as _, Zeroizing};

use crate::connection::Connection;

/// How long a router may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// After this time it is said that it has not answered yet.
pub(crate) const SOON: Duration = Duration::from_secs(4);
/// How long it may take to build another configuration.
const BUILDING: Duration = Duration::from_secs(300);

/// What is wanted of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// To read it; the value is its parameter.
    Read,
    /// To write it.
    Write,
    /// To read it, or, if it can only be written, to write it.
    Any,
}

/// What came of it.
#[derive(Debug)]
pub enum Done {
    /// The value read.
    Read(String),
    /// Written, and what the router said about it.
    Written(String),
}

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The router refused: its code and words.
    #[error("{1}")]
    Refused(u16, String),
    /// There was no router, or nothing was to be had from it.
    #[error("{0}")]
    Unreachable(String),
    /// It ended before it answered.
    #[error("the router ended before it answered; see what it said")]
    Ended,
    /// No channel leads to it, for this program is in no deployment.
    #[error(
        "channel '{0}': this program was not started by 'junctor up', so it has no channels; set {VARIABLE} to the socket of a \
         deployment's domain, or name a control socket by --socket"
    )]
    NoChannels(String),
    /// A deployment has no such channel of statistics.
    #[error("channel '{0}': there is no such channel of statistics; see [channels] in the deployment")]
    NoStatistics(String),
    /// A channel cannot be had.
    #[error("channel '{channel}': {why}")]
    Channel {
        /// Its name.
        channel: String,
        /// Why not.
        #[source]
        why: AttachError,
    },
    /// Nobody answers at the other end of a channel.
    #[error("channel '{channel}': {why}")]
    Silent {
        /// Its name.
        channel: String,
        /// Why not.
        #[source]
        why: std::io::Error,
    },
    /// Nobody serves a domain.
    #[error(transparent)]
    Domain(#[from] AttachError),
    /// There is no directory for files of deployments.
    #[error(
        "deployments have their files in $XDG_RUNTIME_DIR, which is not set; set it to a directory of yours"
    )]
    NoDirectory,
    /// What is meant is not clear, or not to be had.
    #[error("{0}")]
    Unclear(String),
}

/// A router's words, for which it is waited with patience, but not without a word.
struct Patient {
    stream: Connection,
    patience: Duration,
}

impl std::io::Read for Patient {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.stream.set_read_timeout(SOON)?;
        match self.stream.read(into) {
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            done => return done,
        }
        errln!(
            "junctor: the router has not answered for {} s; waiting for it ({} s at most)",
            SOON.as_secs(),
            self.patience.as_secs()
        );
        self.stream.set_read_timeout(self.patience - SOON)?;
        self.stream.read(into)
    }
}

/// Bytes that are read at once.
const AT_ONCE: usize = 8192;

/// A buffered reader that leaves nothing of what it has read in memory.
struct Forgetful {
    from: Patient,
    held: Zeroizing<Vec<u8>>,
    at: usize,
}

impl std::io::Read for Forgetful {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let n = self.fill_buf()?.read(into)?;
        self.consume(n);
        Ok(n)
    }
}

impl std::io::BufRead for Forgetful {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.at == self.held.len() {
            self.at = 0;
            self.held.zeroize();
            self.held.resize(AT_ONCE, 0);
            let read = self.from.read(&mut self.held);
            self.held.truncate(read.as_ref().map_or(0, |n| *n));
            read?;
        }
        Ok(&self.held[self.at..])
    }

    fn consume(&mut self, n: usize) {
        self.at += n;
    }
}

/// Another way to the handlers of a router than its control socket.
pub trait Far: Send {
    /// Reads or writes a handler.
    ///
    /// # Errors
    /// The router refuses, or is not reached.
    fn call(&mut self, name: &str, value: &str, want: Want) -> Result<Done, Failure>;
}

enum Way {
    Near(Box<Forgetful>),
    Far(Box<dyn Far>),
}

/// A conversation with a router. What is said may have keys: it is erased, but for what callers get.
pub struct Client(Way);

impl Client {
    /// Waits for the router's greeting.
    ///
    /// # Errors
    /// It does not come, or is not that of a router.
    pub fn new(stream: impl Into<Connection>) -> std::io::Result<Client> {
        let stream = stream.into();
        let from = Patient { stream, patience: PATIENCE };
        let mut near = Forgetful { from, held: Zeroizing::default(), at: 0 };
        let greeting = near.line()?;
        if !greeting.starts_with("Click::ControlSocket/1.") {
            let why = format!("it does not speak the control protocol, but '{}'", greeting.escape_debug());
            return Err(std::io::Error::new(ErrorKind::InvalidData, why));
        }
        Ok(Client(Way::Near(Box::new(near))))
    }

    /// The same over another way.
    pub fn far(way: impl Far + 'static) -> Client {
        Client(Way::Far(Box::new(way)))
    }

    /// Waits longer for answers.
    pub fn be_patient(&mut self) {
        if let Way::Near(near) = &mut self.0 {
            near.from.patience = BUILDING;
        }
    }

    /// Reads a handler.
    ///
    /// # Errors
    /// The router refuses, or ends.
    pub fn read(&mut self, name: &str) -> Result<String, Failure> {
        let near = match &mut self.0 {
            Way::Near(near) => near,
            Way::Far(far) => {
                let (name, parameter) = name.split_once(' ').unwrap_or((name, ""));
                let (Done::Read(text) | Done::Written(text)) = far.call(name, parameter, Want::Read)?;
                return Ok(text);
            }
        };
        let (code, why) = near.ask(&format!("READ {name}"), "").map_err(lost)?;
        if code / 100 == 2 { near.data().map_err(lost) } else { Err(Failure::Refused(code, why)) }
    }

    /// Writes a handler; returns what the router said about it.
    ///
    /// # Errors
    /// The router refuses, or ends.
    pub fn write(&mut self, name: &str, value: &str) -> Result<String, Failure> {
        let near = match &mut self.0 {
            Way::Near(near) => near,
            Way::Far(far) => {
                let (Done::Read(said) | Done::Written(said)) = far.call(name, value, Want::Write)?;
                return Ok(said);
            }
        };
        let (code, text) = near.ask(&format!("WRITEDATA {name} {}", value.len()), value).map_err(lost)?;
        // The first line only says whether it succeeded.
        let said = text.split_once('\n').map_or("", |(_, said)| said).to_owned();
        if code / 100 == 2 {
            return Ok(said);
        }
        Err(Failure::Refused(code, if said.is_empty() { text } else { said }))
    }

    /// Reads or writes a handler.
    ///
    /// # Errors
    /// The router refuses, or ends.
    pub fn call(&mut self, name: &str, value: &str, want: Want) -> Result<Done, Failure> {
        let near = match &mut self.0 {
            Way::Near(near) => near,
            Way::Far(far) => return far.call(name, value, want),
        };
        let mut write = want == Want::Write;
        if want == Want::Any {
            let (code, why) = near.ask(&format!("CHECKREAD {name}"), "").map_err(lost)?;
            // One that exists, but is not for reading.
            write = code != 200 && near.ask(&format!("CHECKWRITE {name}"), "").map_err(lost)?.0 == 200;
            if code != 200 && !write {
                return Err(Failure::Refused(code, why));
            }
        }
        let command = if write { "WRITEDATA" } else { "READDATA" };
        let (code, why) = near.ask(&format!("{command} {name} {}", value.len()), value).map_err(lost)?;
        match (code / 100, write) {
            (2, true) => Ok(Done::Written(why.split_once('\n').map_or("", |(_, said)| said).into())),
            (2, false) => near.data().map(Done::Read).map_err(lost),
            _ => Err(Failure::Refused(code, why)),
        }
    }
}

impl Forgetful {
    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        match self.read_line(&mut line)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end_matches(['\r', '\n']).to_owned()),
        }
    }

    /// Sends a command with its data; returns the code and text of the answer.
    fn ask(&mut self, command: &str, data: &str) -> std::io::Result<(u16, String)> {
        // Room for all, so that no copy is left elsewhere.
        let mut request = Zeroizing::new(Vec::with_capacity(command.len() + 2 + data.len()));
        for part in [command, "\r\n", data] {
            request.extend_from_slice(part.as_bytes());
        }
        self.from.stream.write_all(&request)?;
        let mut text = Vec::new();
        loop {
            let line = self.line()?;
            let bad = || std::io::Error::new(ErrorKind::InvalidData, format!("unexpected answer '{line}'"));
            let code = line.get(..3).and_then(|c| c.parse().ok()).ok_or_else(bad)?;
            text.push(line.get(4..).unwrap_or_default().to_owned());
            if line.as_bytes().get(3) != Some(&b'-') {
                return Ok((code, text.join("\n")));
            }
        }
    }

    /// The data that follows the answer to a read.
    fn data(&mut self) -> std::io::Result<String> {
        let line = self.line()?;
        let bad = || std::io::Error::new(ErrorKind::InvalidData, format!("unexpected answer '{line}'"));
        let len: usize = line.strip_prefix("DATA ").and_then(|n| n.parse().ok()).ok_or_else(bad)?;
        let mut data = Zeroizing::new(Vec::with_capacity(len.min(LONGEST)));
        while data.len() < len {
            let there = self.fill_buf()?;
            if there.is_empty() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let n = there.len().min(len - data.len());
            data.extend_from_slice(&there[..n]);
            self.consume(n);
        }
        // Text is handed on as it is, without a copy.
        Ok(String::from_utf8(std::mem::take(&mut *data))
            .unwrap_or_else(|why| String::from_utf8_lossy(&Zeroizing::new(why.into_bytes())).into()))
    }
}

/// Bytes for which room is made before they come.
const LONGEST: usize = 1 << 20;

/// The conversation broke off.
pub fn lost(e: std::io::Error) -> Failure {
    match e.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Failure::Ended,
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Failure::Unreachable(format!(
            "the router has not answered for {} s; see whether it is stopped (kill -CONT), and what else its processors do",
            PATIENCE.as_secs()
        )),
        _ => Failure::Unreachable(format!("the router's answer: {e}")),
    }
}
