// SPDX-License-Identifier: MIT OR Apache-2.0
//! A BGP neighbour that announces IPv4 routes: a whole table, and then changes as they come (RFC 4271).
//!
//! It takes routes from nobody. When its session ends, it connects again and announces what is valid then. It says that it has
//! announced everything (End-of-RIB, RFC 4724), so that a daemon that was restarted can remove what has gone.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use wire::Prefix4;

use crate::rig::{Namespace, RigError};

/// The port that BGP listens on.
const PORT: u16 = 179;
/// Bytes of a message, at most, and of its header.
const MESSAGE_BYTES: usize = 4096;
const HEADER_BYTES: usize = 19;
/// Types of messages.
const OPEN: u8 = 1;
const UPDATE: u8 = 2;
const KEEPALIVE: u8 = 4;
/// How long a step of the greeting may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause between two attempts to connect, and between two looks whether the session has ended.
const PAUSE: Duration = Duration::from_millis(50);

/// A prefix with its next hop from now on; `None` withdraws it.
pub type Change = (Prefix4, Option<Ipv4Addr>);

/// Who speaks with whom.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// The speaker's autonomous system.
    pub number: u16,
    /// The speaker's address, which is its identifier, too.
    pub own: Ipv4Addr,
    /// The neighbour's address.
    pub peer: Ipv4Addr,
}

/// A speaker that runs until this is dropped.
#[derive(Debug)]
pub struct Speaker {
    changes: Sender<Vec<Change>>,
    shown: Arc<Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    sessions: AtomicU64,
    written: AtomicU64,
    is_open: AtomicBool,
}

impl Speaker {
    /// Starts a speaker in a namespace. It connects to its neighbour until that listens.
    ///
    /// # Errors
    /// The namespace cannot be entered.
    pub fn start(home: &Namespace, ends: Ends) -> Result<Speaker, RigError> {
        let (changes, receiver) = channel();
        let shown = Arc::new(Shown::default());
        let speaking = Speaking { ends, table: BTreeMap::new(), changes: receiver, shown: shown.clone() };
        // A thread lives where it was started.
        home.enter(|| drop(thread::spawn(move || speaking.run())))?;
        Ok(Speaker { changes, shown })
    }

    /// Announces and withdraws, now or when the session is open.
    pub fn send(&self, changes: Vec<Change>) {
        // If the thread has ended, it has panicked and said so; a test then waits in vain for routes.
        let _ = self.changes.send(changes);
    }

    /// Whether the session is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.shown.is_open.load(Ordering::Acquire)
    }

    /// Sessions so far.
    #[must_use]
    pub fn sessions(&self) -> u64 {
        self.shown.sessions.load(Ordering::Acquire)
    }

    /// Changes that have been written, those of whole tables included.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.shown.written.load(Ordering::Acquire)
    }
}

/// What the thread has.
struct Speaking {
    ends: Ends,
    table: BTreeMap<Prefix4, Ipv4Addr>,
    changes: Receiver<Vec<Change>>,
    shown: Arc<Shown>,
}

/// Nobody wants the speaker any more.
struct Over;

impl Speaking {
    fn run(mut self) {
        loop {
            if let Ok(stream) = self.greet() {
                self.shown.sessions.fetch_add(1, Ordering::AcqRel);
                let over = self.speak(stream);
                self.shown.is_open.store(false, Ordering::Release);
                match over {
                    Ok(Over) => return,
                    Err(_) => continue,
                }
            }
            match self.changes.recv_timeout(PAUSE) {
                Ok(changes) => self.note(&changes),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn note(&mut self, changes: &[Change]) {
        for (prefix, hop) in changes {
            match hop {
                Some(hop) => _ = self.table.insert(*prefix, *hop),
                None => _ = self.table.remove(prefix),
            }
        }
    }

    /// Connects, and opens a session.
    fn greet(&self) -> io::Result<TcpStream> {
        let mut stream =
            TcpStream::connect_timeout(&SocketAddrV4::new(self.ends.peer, PORT).into(), PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&message(OPEN, &open(self.ends)))?;
        expect(&mut stream, OPEN)?;
        stream.write_all(&message(KEEPALIVE, &[]))?;
        expect(&mut stream, KEEPALIVE)?;
        stream.set_read_timeout(None)?;
        Ok(stream)
    }

    /// Announces everything, and then what changes, until the session ends.
    fn speak(&mut self, mut stream: TcpStream) -> io::Result<Over> {
        let ended = Arc::new(AtomicBool::new(false));
        let (mut reading, seen) = (stream.try_clone()?, ended.clone());
        // Keepalives and the neighbour's own routes are read and forgotten.
        thread::spawn(move || {
            let mut buffer = [0; MESSAGE_BYTES];
            while let Ok(1..) = reading.read(&mut buffer) {}
            seen.store(true, Ordering::Release);
        });
        let mut all: Vec<Change> = self.table.iter().map(|(prefix, hop)| (*prefix, Some(*hop))).collect();
        // So that many share a message.
        all.sort_by_key(|(_, hop)| *hop);
        self.write(&mut stream, &all)?;
        stream.write_all(&message(UPDATE, &[0; 4]))?;
        self.shown.is_open.store(true, Ordering::Release);
        loop {
            match self.changes.recv_timeout(PAUSE) {
                Ok(changes) => {
                    self.note(&changes);
                    self.write(&mut stream, &changes)?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    stream.shutdown(std::net::Shutdown::Both)?;
                    return Ok(Over);
                }
            }
            if ended.load(Ordering::Acquire) {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
        }
    }

    fn write(&self, stream: &mut TcpStream, changes: &[Change]) -> io::Result<()> {
        for alike in changes.chunk_by(|(_, a), (_, b)| a == b) {
            // A prefix takes up to five bytes.
            for part in alike.chunks((MESSAGE_BYTES - 200) / 5) {
                stream.write_all(&message(UPDATE, &update(part, self.ends)))?;
                self.shown.written.fetch_add(part.len() as u64, Ordering::AcqRel);
            }
        }
        Ok(())
    }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![0xff; 16];
    message.extend(((HEADER_BYTES + body.len()) as u16).to_be_bytes());
    message.push(kind);
    message.extend(body);
    message
}

/// Reads messages until one of this type has come.
fn expect(stream: &mut TcpStream, wanted: u8) -> io::Result<()> {
    loop {
        let mut header = [0; HEADER_BYTES];
        stream.read_exact(&mut header)?;
        let len = usize::from(u16::from_be_bytes([header[16], header[17]]));
        let mut body = vec![0; len.saturating_sub(HEADER_BYTES)];
        stream.read_exact(&mut body)?;
        match header[18] {
            kind if kind == wanted => return Ok(()),
            KEEPALIVE => {}
            kind => return Err(io::Error::other(format!("a message of type {kind}: {body:?}"))),
        }
    }
}

/// Without a hold time, nobody need send keepalives; the end of the connection ends the session.
fn open(ends: Ends) -> Vec<u8> {
    let mut body = vec![4];
    body.extend(ends.number.to_be_bytes());
    body.extend([0, 0]);
    body.extend(ends.own.octets());
    let mut capabilities = vec![1, 4, 0, 1, 0, 1]; // IPv4 unicast (RFC 4760)
    capabilities.extend([65, 4, 0, 0]); // numbers of 4 bytes (RFC 6793)
    capabilities.extend(ends.number.to_be_bytes());
    capabilities.extend([64, 6, 0, 120, 0, 1, 1, 0x80]); // graceful restart for IPv4 unicast (RFC 4724)
    body.extend([capabilities.len() as u8 + 2, 2, capabilities.len() as u8]);
    body.extend(capabilities);
    body
}

/// Changes with the same next hop, or without one.
fn update(changes: &[Change], ends: Ends) -> Vec<u8> {
    let mut prefixes = Vec::new();
    for (prefix, _) in changes {
        prefixes.push(prefix.len());
        prefixes.extend(&prefix.addr().octets()[..usize::from(prefix.len()).div_ceil(8)]);
    }
    let Some((_, Some(hop))) = changes.first() else {
        let mut body = (prefixes.len() as u16).to_be_bytes().to_vec();
        body.extend(prefixes);
        body.extend([0, 0]);
        return body;
    };
    let mut attributes = vec![0x40, 1, 1, 0]; // ORIGIN: IGP
    attributes.extend([0x40, 2, 6, 2, 1, 0, 0]); // AS_PATH: one sequence
    attributes.extend(ends.number.to_be_bytes());
    attributes.extend([0x40, 3, 4]); // NEXT_HOP
    attributes.extend(hop.octets());
    let mut body = vec![0, 0];
    body.extend((attributes.len() as u16).to_be_bytes());
    body.extend(attributes);
    body.extend(prefixes);
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_the_rfc_draws_them() {
        let ends = Ends { number: 65002, own: [10, 0, 2, 2].into(), peer: [10, 0, 2, 1].into() };
        let open = message(OPEN, &open(ends));
        assert_eq!(usize::from(u16::from_be_bytes([open[16], open[17]])), open.len());
        assert_eq!(open[18..29], [1, 4, 0xfd, 0xea, 0, 0, 10, 0, 2, 2, 22]);
        let prefix = |text: &str| text.parse::<Prefix4>().expect("a prefix");
        let hop = Some(Ipv4Addr::new(10, 0, 2, 3));
        let body = update(&[(prefix("192.0.2.0/24"), hop), (prefix("10.128.0.0/9"), hop)], ends);
        assert_eq!(body[..4], [0, 0, 0, 20]);
        assert_eq!(body[4..24], [0x40, 1, 1, 0, 0x40, 2, 6, 2, 1, 0, 0, 0xfd, 0xea, 0x40, 3, 4, 10, 0, 2, 3]);
        assert_eq!(body[24..], [24, 192, 0, 2, 9, 10, 128]);
        assert_eq!(update(&[(prefix("192.0.2.0/24"), None)], ends), [0, 4, 24, 192, 0, 2, 0, 0]);
    }
}
