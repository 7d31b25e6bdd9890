// SPDX-License-Identifier: MIT OR Apache-2.0
//! Byte streams over two channels of messages, one each way: for protocols that were made for sockets.
//!
//! The first byte of a message says what it is:
//!
//! ```text
//! 0 NUMBER   begin: a connection of this number (8 bytes, little endian), sent by the client and returned by the server
//! 1 BYTES    data
//! ```
//!
//! A client that takes a dead one's seat begins a new connection, and so ends the old one. It skips what was meant for the dead one, up to
//! its own number. A server that takes a dead one's seat sends number 0, which no client has: so a client learns that its connection is over.

use std::io::{Error, ErrorKind, Read, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::error::ChannelError;
use crate::messages::{Receiver, Sender};

const BEGIN: u8 = 0;
const DATA: u8 = 1;
/// Messages that one call skips however little time it has. After them it ends when its time is over, also if more come.
const SKIPPED: usize = 64;
/// Bytes of the shortest message that an endpoint must take: one that begins a connection.
const LEAST: usize = 9;

impl From<ChannelError> for Error {
    fn from(why: ChannelError) -> Error {
        let kind = match why {
            ChannelError::Broken => ErrorKind::InvalidData,
            ChannelError::GivenUp => ErrorKind::BrokenPipe,
            ChannelError::Full => ErrorKind::TimedOut,
            ChannelError::Wait(kind) => kind,
            _ => ErrorKind::InvalidInput,
        };
        Error::new(kind, why)
    }
}

/// A connection over two channels. Reads and writes wait for the other side, `patience` at most; so it is not for a thread that forwards.
#[derive(Debug)]
pub struct Stream {
    sender: Sender,
    receiver: Receiver,
    patience: Duration,
    is_server: bool,
    /// The connection; 0 before there is one.
    number: u64,
    /// A connection that a client has started and the server has not yet accepted.
    begun: Option<u64>,
    /// What was received and not yet read, from `at` on.
    unread: Vec<u8>,
    at: usize,
}

impl Stream {
    /// The server's side. It has no connection until [`accept`](Self::accept) finds one.
    ///
    /// # Errors
    /// The endpoint's messages are too short for a stream.
    pub fn server(sender: Sender, receiver: Receiver, patience: Duration) -> std::io::Result<Stream> {
        let mut stream = Stream::new(sender, receiver, patience, true)?;
        // A full channel has nobody who would learn of it.
        let _ = stream.send_begin(0, Duration::ZERO);
        Ok(stream)
    }

    /// The client's side, connected.
    ///
    /// # Errors
    /// As [`server`](Self::server); no server has answered for as long as `patience`; and as [`Sender::send`].
    pub fn client(sender: Sender, receiver: Receiver, patience: Duration) -> std::io::Result<Stream> {
        let mut stream = Stream::new(sender, receiver, patience, false)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64);
        let number = now.max(1);
        stream.send_begin(number, patience)?;
        let mut time = Time::new(patience);
        loop {
            match stream.fetch(time.end)? {
                Taken::Begin(answered) if answered == number => {
                    stream.number = number;
                    return Ok(stream);
                }
                // Meant for one that was here before.
                Taken::Begin(_) | Taken::Data if !time.is_over() => stream.forget(),
                Taken::Begin(_) | Taken::Data | Taken::Nothing => {
                    let why = "nobody serves the other side of the channel";
                    return Err(Error::new(ErrorKind::TimedOut, why));
                }
            }
        }
    }

    fn new(
        sender: Sender,
        receiver: Receiver,
        patience: Duration,
        is_server: bool,
    ) -> std::io::Result<Stream> {
        if sender.longest() < LEAST {
            let why =
                format!("the endpoint's messages have {} bytes; a stream needs {LEAST}", sender.longest());
            return Err(Error::new(ErrorKind::InvalidInput, why));
        }
        let (number, begun, unread) = (0, None, Vec::new());
        Ok(Stream { sender, receiver, patience, is_server, number, begun, unread, at: 0 })
    }

    /// Lets reads and writes wait so long from now on.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Waits until a client begins a connection, which ends the one before; false if none has within `limit`.
    ///
    /// # Errors
    /// As [`Receiver::wait`].
    pub fn accept(&mut self, limit: Duration) -> std::io::Result<bool> {
        let mut time = Time::new(limit);
        self.forget();
        self.number = 0;
        loop {
            if let Some(number) = self.begun.take() {
                // A client that does not take its answer has gone, or will begin again.
                if self.send_begin(number, self.patience).is_ok() {
                    self.number = number;
                    return Ok(true);
                }
            }
            match self.fetch(time.end)? {
                Taken::Begin(number) => self.begun = Some(number),
                Taken::Data => self.forget(),
                Taken::Nothing if Instant::now() >= time.end => return Ok(false),
                Taken::Nothing => {}
            }
            if time.is_over() {
                return Ok(false);
            }
        }
    }

    /// Informs the client that its connection is over; for a server.
    ///
    /// # Errors
    /// As [`Sender::send`].
    pub fn hang_up(&mut self) -> std::io::Result<()> {
        self.number = 0;
        Ok(self.send_begin(0, Duration::ZERO)?)
    }

    fn send_begin(&mut self, number: u64, patience: Duration) -> Result<(), ChannelError> {
        let mut message = [BEGIN; LEAST];
        message[1..].copy_from_slice(&number.to_le_bytes());
        self.sender.send_within(&message, patience)
    }

    fn forget(&mut self) {
        self.unread.clear();
        self.at = 0;
    }

    /// Takes the next message; nothing if none has come before `end`, or the other side has come or gone.
    fn fetch(&mut self, end: Instant) -> std::io::Result<Taken> {
        let bytes = loop {
            if let Some(bytes) = self.receiver.next_bytes()? {
                break bytes;
            }
            let left = end.saturating_duration_since(Instant::now());
            // What a wait has seen may be gone again: a faulty peer takes words back.
            if !self.receiver.wait(Some(left))? || (left.is_zero() && self.receiver.next_bytes()?.is_none()) {
                return Ok(Taken::Nothing);
            }
        };
        self.unread.resize(bytes, 0);
        let received = self.receiver.receive(&mut self.unread)?;
        self.unread.truncate(received.unwrap_or(0));
        self.at = 1;
        match (self.unread.first(), self.unread.get(1..LEAST).and_then(|number| number.try_into().ok())) {
            (Some(&BEGIN), Some(number)) => {
                self.forget();
                Ok(Taken::Begin(u64::from_le_bytes(number)))
            }
            (Some(&DATA), _) => Ok(Taken::Data),
            _ => Err(Error::new(ErrorKind::InvalidData, "the other side does not speak as a stream does")),
        }
    }
}

/// What is left of the time of a call, also while the other side goes on sending.
struct Time {
    end: Instant,
    skipped: usize,
}

impl Time {
    fn new(limit: Duration) -> Time {
        Time { end: Instant::now() + limit, skipped: 0 }
    }

    /// Counts a message that is skipped; says whether the call has to end.
    fn is_over(&mut self) -> bool {
        self.skipped += 1;
        self.skipped > SKIPPED && Instant::now() >= self.end
    }
}

/// What [`Stream::fetch`] has found.
enum Taken {
    Begin(u64),
    /// It is in `unread`.
    Data,
    Nothing,
}

impl Read for Stream {
    /// Reads what has come, or waits for it. The end of a connection is the end of the stream for a server, and an error for a client.
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let late = || Error::new(ErrorKind::TimedOut, "the other side does not answer");
        let mut time = Time::new(self.patience);
        while self.at >= self.unread.len() {
            if self.number == 0 || self.begun.is_some() {
                return Ok(0);
            }
            // Looked at before the channel: a peer's last words are there before it has gone.
            let present = self.receiver.peer().present;
            let limit = if present { time.end } else { Instant::now() };
            match self.fetch(limit)? {
                Taken::Begin(number) if self.is_server => self.begun = Some(number),
                // The answer to a connection that was given up.
                Taken::Begin(number) if number != 0 && number != self.number => {}
                Taken::Begin(_) => {
                    self.number = 0;
                    return Err(Error::new(ErrorKind::ConnectionReset, "the other side has begun anew"));
                }
                Taken::Data => {}
                Taken::Nothing if !present => {
                    self.number = 0;
                    return Err(Error::new(ErrorKind::ConnectionReset, "the other side has gone"));
                }
                Taken::Nothing if Instant::now() >= time.end => return Err(late()),
                Taken::Nothing => {}
            }
            if self.at >= self.unread.len() && self.begun.is_none() && time.is_over() {
                return Err(late());
            }
        }
        let bytes = (self.unread.len() - self.at).min(buffer.len());
        buffer[..bytes].copy_from_slice(&self.unread[self.at..self.at + bytes]);
        self.at += bytes;
        Ok(bytes)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(self.sender.longest() - 1)];
        let message: Vec<u8> = std::iter::once(DATA).chain(bytes.iter().copied()).collect();
        self.sender.send_within(&message, self.patience)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
