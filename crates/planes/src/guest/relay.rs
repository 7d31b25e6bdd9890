// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control sockets of planes on the machine, for programs in a guest. A guest shares no socket with the machine, but memory. The guest's
//! first process listens under the same name. It passes on what it hears by messages ([`icc`]) to the machine's side of the guest,
//! and that speaks to the plane.
//!
//! ```text
//! junctor ctl -- /run/junctor/user.sock -- init == messages in shared memory == host -- user.sock -- junctor run
//! ```
//! A message is a byte that says what it is, the connection's number, and bytes: a name to open, or data. Neither side trusts the
//! other: names that the deployment does not give to the guest are refused, and unknown connections ignored.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::Error;
use icc::{Endpoint, FileRegion, Receiver, Sender};
use sync::mutex::lock;

/// The longest message.
const LONGEST: usize = 4096;
/// Messages that are under way in each direction.
const COUNT: u32 = 64;
/// Kind and connection.
const HEAD: usize = 5;
/// Connections at a time.
const MOST: usize = 64;
/// How long the other side may leave messages where they are.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a look for messages waits.
const LOOK: Duration = Duration::from_millis(500);

const OPEN: u8 = 0;
const DATA: u8 = 1;
const CLOSE: u8 = 2;

pub(super) fn endpoints() -> [Endpoint; 2] {
    [
        Endpoint::messages(1, "to-host", LONGEST as u32, COUNT),
        Endpoint::messages(2, "to-guest", LONGEST as u32, COUNT),
    ]
}

/// What both sides have: a way to send, and the connections.
struct Relay {
    sender: Mutex<Sender>,
    ends: Mutex<HashMap<u32, UnixStream>>,
}

impl Relay {
    fn new(sender: Sender) -> Arc<Relay> {
        Arc::new(Relay { sender: Mutex::new(sender), ends: Mutex::default() })
    }

    /// Sends a message; returns whether it could be.
    fn send(&self, kind: u8, connection: u32, bytes: &[u8]) -> bool {
        let mut message = vec![kind];
        message.extend(connection.to_le_bytes());
        message.extend(bytes);
        lock(&self.sender).send_within(&message, PATIENCE).is_ok()
    }

    /// Takes a connection: what the other side sends goes to it. Returns what a thread is to read from it.
    fn take(&self, connection: u32, stream: UnixStream) -> std::io::Result<UnixStream> {
        let mut ends = lock(&self.ends);
        if ends.len() >= MOST {
            return Err(std::io::Error::other("too many connections"));
        }
        stream.set_write_timeout(Some(PATIENCE))?;
        let reader = stream.try_clone()?;
        ends.insert(connection, stream);
        Ok(reader)
    }

    /// Starts a thread that sends what a connection says.
    fn send_all(self: &Arc<Relay>, connection: u32, mut reader: UnixStream) {
        let relay = self.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; LONGEST - HEAD];
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                if !relay.send(DATA, connection, &bytes[..length]) {
                    break;
                }
            }
            relay.close(connection);
            relay.send(CLOSE, connection, &[]);
        });
    }

    fn close(&self, connection: u32) {
        if let Some(stream) = lock(&self.ends).remove(&connection) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Writes bytes to a connection.
    fn deliver(&self, connection: u32, bytes: &[u8]) {
        let stream = lock(&self.ends).get(&connection).and_then(|stream| stream.try_clone().ok());
        if let Some(mut stream) = stream
            && stream.write_all(bytes).is_err()
        {
            self.close(connection);
        }
    }

    /// Takes messages until the channel fails. `open` makes a connection of a name.
    fn run(self: &Arc<Relay>, mut receiver: Receiver, open: impl Fn(&str) -> Option<UnixStream>) {
        let mut message = [0; LONGEST];
        loop {
            let length = match receiver.receive(&mut message) {
                Ok(Some(length)) => length,
                Ok(None) => match receiver.wait(Some(LOOK)) {
                    Ok(_) => continue,
                    Err(_) => return,
                },
                Err(_) => return,
            };
            let Some((head, bytes)) = message[..length].split_first_chunk::<HEAD>() else { continue };
            let connection = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
            match head[0] {
                DATA => self.deliver(connection, bytes),
                CLOSE => self.close(connection),
                OPEN => {
                    let stream = std::str::from_utf8(bytes).ok().and_then(&open);
                    match stream.and_then(|stream| self.take(connection, stream).ok()) {
                        Some(reader) => self.send_all(connection, reader),
                        None => drop(self.send(CLOSE, connection, &[])),
                    }
                }
                _ => {}
            }
        }
    }
}

/// The machine's side: connects the guest to the sockets of these planes.
///
/// # Errors
/// The region is not a relay's.
pub(super) fn host(region: &FileRegion, planes: Vec<(String, PathBuf)>) -> Result<(), Error> {
    let failed = Error::region(region.path());
    let sender = region.sender("to-guest").map_err(&failed)?;
    let receiver = region.receiver("to-host").map_err(&failed)?;
    let relay = Relay::new(sender);
    std::thread::spawn(move || {
        relay.run(receiver, |name| {
            let (_, path) = planes.iter().find(|(known, _)| known == name)?;
            UnixStream::connect(path).ok()
        });
    });
    Ok(())
}

/// The guest's side: listens under the names of these planes in a directory.
///
/// # Errors
/// There is no region, or the directory cannot be used.
pub(super) fn guest((file, bytes): (&Path, u64), directory: &Path, planes: &[String]) -> Result<(), Error> {
    let failed = Error::region(file);
    let region = FileRegion::open(file, bytes as usize).map_err(&failed)?;
    let sender = region.sender("to-host").map_err(&failed)?;
    let receiver = region.receiver("to-guest").map_err(&failed)?;
    let relay = Relay::new(sender);
    let listening = relay.clone();
    std::thread::spawn(move || listening.run(receiver, |_| None));
    let next = Arc::new(AtomicU32::new(1));
    std::fs::create_dir_all(directory).map_err(Error::file(directory))?;
    for plane in planes {
        let path = directory.join(format!("{plane}.sock"));
        let listener = UnixListener::bind(&path).map_err(Error::file(&path))?;
        // By this, `junctor ctl` knows that somebody serves it.
        if let Some(record) = crate::record::Record::of_this_process() {
            let _ = std::fs::write(directory.join(format!("{plane}.pid")), record.text());
        }
        let (relay, next, plane) = (relay.clone(), next.clone(), plane.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let connection = next.fetch_add(1, Ordering::Relaxed);
                // The other side may answer at once, so the connection is known before; and it hears of it before its first bytes.
                let Ok(reader) = relay.take(connection, stream) else { continue };
                match relay.send(OPEN, connection, plane.as_bytes()) {
                    true => relay.send_all(connection, reader),
                    false => relay.close(connection),
                }
            }
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both sides in one process.
    #[test]
    fn a_guest_speaks_to_a_plane_through_memory() {
        let directory = tempfile::tempdir().unwrap();
        let (file, socket) = (directory.path().join("memory"), directory.path().join("plane.sock"));
        let plane = UnixListener::bind(&socket).unwrap();
        std::thread::spawn(move || {
            for stream in plane.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut stream = stream;
                    let _ = stream.write_all(b"hello\n");
                    let mut copy = stream.try_clone().unwrap();
                    let _ = std::io::copy(&mut copy, &mut stream);
                });
            }
        });
        let bytes = FileRegion::bytes(&endpoints()).unwrap();
        let region = FileRegion::make(&file, bytes, icc::NodeId::new(1, 1), &endpoints()).unwrap();
        host(&region, vec![("user".to_owned(), socket)]).unwrap();
        let inside = directory.path().join("guest");
        guest((&file, bytes as u64), &inside, &["user".to_owned(), "other".to_owned()]).unwrap();
        let long: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
        let speak = |number: u8| {
            let mut stream = UnixStream::connect(inside.join("user.sock")).unwrap();
            let mut greeting = [0; 6];
            stream.read_exact(&mut greeting).unwrap();
            assert_eq!(&greeting, b"hello\n");
            let mut writer = stream.try_clone().unwrap();
            let text: Vec<u8> = long.iter().map(|byte| byte ^ number).collect();
            let mut back = vec![0; text.len()];
            std::thread::scope(|scope| {
                scope.spawn(|| writer.write_all(&text).unwrap());
                stream.read_exact(&mut back).unwrap();
            });
            assert!(back == text, "{number}");
        };
        std::thread::scope(|scope| (0..4).for_each(|number| drop(scope.spawn(move || speak(number)))));
        // The plane speaks first, before anybody has done more than connect.
        for _ in 0..100 {
            let mut stream = UnixStream::connect(inside.join("user.sock")).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream.read_exact(&mut [0; 6]).unwrap();
        }
        // What the deployment does not give to the guest is closed at once.
        let mut other = UnixStream::connect(inside.join("other.sock")).unwrap();
        let mut nothing = Vec::new();
        other.read_to_end(&mut nothing).unwrap();
        assert!(nothing.is_empty());
    }
}
