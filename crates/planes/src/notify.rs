// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readiness and heartbeats by the protocol of sd_notify(3): datagrams of `NAME=VALUE` lines to the socket that `$NOTIFY_SOCKET`
//! names. systemd speaks it, as do FRR, strongSwan, keepalived and others, so planes need no word of ours.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

/// The variable that names the socket.
pub const SOCKET: &str = "NOTIFY_SOCKET";
/// The variable that says in how many microseconds a heartbeat is expected.
pub const HEARTBEAT_US: &str = "WATCHDOG_USEC";
/// The longest datagram that is read.
const LONGEST: usize = 4096;

/// What a process says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It is ready.
    Ready,
    /// It is well.
    Heartbeat,
}

/// One who is to be notified.
#[derive(Debug)]
pub struct Notifier {
    socket: UnixDatagram,
    to: SocketAddr,
    /// In which time a heartbeat is expected.
    pub heartbeat: Option<Duration>,
}

impl Notifier {
    /// The one that the environment names, if any.
    #[must_use]
    pub fn from_environment() -> Option<Notifier> {
        let name = std::env::var_os(SOCKET)?;
        let heartbeat =
            std::env::var(HEARTBEAT_US).ok().and_then(|us| us.parse().ok()).map(Duration::from_micros);
        Notifier::to(&name, heartbeat)
    }

    fn to(name: &OsStr, heartbeat: Option<Duration>) -> Option<Notifier> {
        let to = match name.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name),
            None => SocketAddr::from_pathname(name),
        };
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_nonblocking(true).ok()?;
        Some(Notifier { socket, to: to.ok()?, heartbeat })
    }

    /// Sends lines of `NAME=VALUE`. Nothing waits, and nothing fails if nobody listens: a supervisor may be restarting.
    pub fn send(&self, lines: &str) {
        let _ = self.socket.send_to_addr(lines.as_bytes(), &self.to);
    }
}

/// Where the datagrams of one process arrive.
#[derive(Debug)]
pub struct Listener(UnixDatagram);

impl Listener {
    /// Listens at a path; what was there is removed.
    ///
    /// # Errors
    /// The path cannot be used.
    pub fn bind(path: &Path) -> std::io::Result<Listener> {
        let _ = std::fs::remove_file(path);
        UnixDatagram::bind(path).map(Listener)
    }

    /// The next datagram's news; none if it holds nothing of interest.
    ///
    /// # Errors
    /// The socket fails.
    pub fn next(&self) -> std::io::Result<Vec<Said>> {
        let mut datagram = [0; LONGEST];
        let length = self.0.recv(&mut datagram)?;
        Ok(read(&datagram[..length]))
    }
}

fn read(datagram: &[u8]) -> Vec<Said> {
    let lines = datagram.split(|byte| *byte == b'\n');
    let known = lines.filter_map(|line| match line {
        b"READY=1" => Some(Said::Ready),
        b"WATCHDOG=1" => Some(Said::Heartbeat),
        _ => None,
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_arrives() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        std::fs::write(&path, "left behind").unwrap();
        let listener = Listener::bind(&path).unwrap();
        let notifier = Notifier::to(path.as_os_str(), None).unwrap();
        notifier.send("STATUS=forwarding\nREADY=1\nWATCHDOG=1\n");
        assert_eq!(listener.next().unwrap(), [Said::Ready, Said::Heartbeat]);
        notifier.send("READY=0\nWATCHDOG=trigger\n\0\u{ff}");
        assert_eq!(listener.next().unwrap(), []);
        drop(listener);
        notifier.send("READY=1");
    }
}
