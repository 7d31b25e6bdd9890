// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readiness and heartbeats by the protocol of sd_notify(3): datagrams of `NAME=VALUE` lines to the socket that `$NOTIFY_SOCKET`
//! names. systemd speaks it, as do FRR's watchfrr, strongSwan, keepalived and others, so planes need no word of ours.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::{SendFlags, SocketAddrUnix};

use crate::descriptors;

/// The variable that names the socket.
pub const SOCKET: &str = "NOTIFY_SOCKET";
/// The variable that says in how many microseconds a heartbeat is expected.
pub const HEARTBEAT_US: &str = "WATCHDOG_USEC";
/// The variable that says how many descriptors the manager holds for this process (systemd.exec(5)).
pub const ROOM: &str = "FDSTORE";
/// The longest datagram that is read.
const LONGEST: usize = 4096;

/// How long a listener may take to read before a descriptor is left with it.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a process says of itself.
#[derive(Debug)]
pub enum Said {
    /// It is ready.
    Ready,
    /// It is well.
    Heartbeat,
    /// It leaves a descriptor under a name, for the process that takes its place.
    Store(String, OwnedFd),
    /// The descriptor of this name is not needed any more.
    Forget(String),
}

/// Why a descriptor is not left with the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStored {
    /// It holds as many as it may.
    #[error("systemd or the service holds {0} descriptors at most (FileDescriptorStoreMax=)")]
    Full(usize),
    /// It does not read what it is sent.
    #[error("the manager does not answer")]
    Unheard,
}

/// One who is to be notified.
#[derive(Debug)]
pub struct Notifier {
    socket: UnixDatagram,
    to: SocketAddrUnix,
    /// Where the socket lies, if it lies anywhere.
    path: Option<PathBuf>,
    /// The listener does not read.
    is_stuck: AtomicBool,
    /// Descriptors that it holds at most, if it says how many.
    room: Option<usize>,
    /// Names of those that it holds.
    held: Mutex<BTreeSet<String>>,
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
        let mut notifier = Notifier::to(&name, heartbeat)?;
        let read = |name: &str| std::env::var(name).ok();
        notifier.room = read(ROOM).and_then(|room| room.parse().ok());
        if read("LISTEN_PID").is_some_and(|pid| pid == std::process::id().to_string()) {
            // It goes on to hold what it handed over.
            let names = read("LISTEN_FDNAMES").unwrap_or_default();
            notifier.held = Mutex::new(names.split(':').map(str::to_owned).collect());
        }
        Some(notifier)
    }

    fn to(name: &OsStr, heartbeat: Option<Duration>) -> Option<Notifier> {
        let to = match name.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddrUnix::new_abstract_name(name),
            None => SocketAddrUnix::new(name),
        };
        let path = (!name.as_bytes().starts_with(b"@")).then(|| PathBuf::from(name));
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_write_timeout(Some(PATIENCE)).ok()?;
        let (is_stuck, held) = (AtomicBool::new(false), Mutex::default());
        Some(Notifier { socket, to: to.ok()?, path, is_stuck, room: None, held, heartbeat })
    }

    /// Sends lines of `NAME=VALUE`. It does not wait, and nothing fails if nobody listens: a supervisor may be restarting.
    pub fn send(&self, lines: &str) {
        let _ = descriptors::send(&self.socket, Some(&self.to), lines.as_bytes(), &[], SendFlags::DONTWAIT);
    }

    /// Leaves a descriptor under a name, for the process that takes this one's place. It waits a moment if the listener has much to read.
    ///
    /// # Errors
    /// It is not left there.
    pub fn store(&self, name: &str, descriptor: BorrowedFd<'_>) -> Result<(), NotStored> {
        let mut held = self.held();
        if let Some(room) = self.room
            && held.len() >= room
            && !held.contains(name)
        {
            return Err(NotStored::Full(room));
        }
        match self.wait_to_send(&format!("FDSTORE=1\nFDNAME={name}"), &[descriptor]) {
            true => _ = held.insert(name.to_owned()),
            false => return Err(NotStored::Unheard),
        }
        Ok(())
    }

    fn held(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a descriptor of this name was left, and not taken back.
    #[must_use]
    pub fn holds(&self, name: &str) -> bool {
        self.held().contains(name)
    }

    /// Remembers that it holds a descriptor which the program before this one left.
    pub fn holds_already(&self, name: &str) {
        self.held().insert(name.to_owned());
    }

    /// Takes it back.
    pub fn forget(&self, name: &str) {
        self.held().remove(name);
        self.wait_to_send(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), &[]);
    }

    /// Sends lines and descriptors; returns whether they went. A listener that did not read in time is not waited for until it reads again.
    fn wait_to_send(&self, lines: &str, fds: &[BorrowedFd<'_>]) -> bool {
        let flags = match self.is_stuck.load(Ordering::Relaxed) {
            true => SendFlags::DONTWAIT,
            false => SendFlags::empty(),
        };
        let sent = descriptors::send(&self.socket, Some(&self.to), lines.as_bytes(), fds, flags);
        let is_stuck = sent.as_ref().is_err_and(|why| why.kind() == ErrorKind::WouldBlock);
        self.is_stuck.store(is_stuck, Ordering::Relaxed);
        sent.is_ok()
    }

    /// Who listens, to be compared: another listener has made another socket, at another time if under the same number.
    #[must_use]
    pub fn listener(&self) -> Option<(u64, i64, i64)> {
        let found = std::fs::metadata(self.path.as_ref()?).ok()?;
        Some((found.ino(), found.ctime(), found.ctime_nsec()))
    }
}

/// Where the datagrams of one process arrive.
#[derive(Debug)]
pub struct Listener {
    socket: UnixDatagram,
    closed: AtomicBool,
}

impl Listener {
    /// Listens at a path; what was there is removed.
    ///
    /// # Errors
    /// The path cannot be used.
    pub fn bind(path: &Path) -> std::io::Result<Listener> {
        let _ = std::fs::remove_file(path);
        Ok(Listener { socket: UnixDatagram::bind(path)?, closed: AtomicBool::new(false) })
    }

    /// The next datagram's news; none if it holds nothing of interest.
    ///
    /// # Errors
    /// The socket fails; of kind [`ErrorKind::NotConnected`] once it is closed and all has been read.
    pub fn next(&self) -> std::io::Result<Vec<Said>> {
        let mut datagram = [0; LONGEST];
        let (length, descriptors) = descriptors::receive(&self.socket, &mut datagram)?;
        if length == 0 && self.closed.load(Ordering::Acquire) {
            return Err(ErrorKind::NotConnected.into());
        }
        Ok(read(&datagram[..length], descriptors))
    }

    /// Ends it. Who waits for news gets those that have arrived, and an error after them.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

fn read(datagram: &[u8], descriptors: Vec<OwnedFd>) -> Vec<Said> {
    let has = |line: &[u8]| datagram.split(|byte| *byte == b'\n').any(|known| known == line);
    let name = datagram.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"FDNAME="));
    let name = name.map_or_else(|| "stored".into(), |name| String::from_utf8_lossy(name).into_owned());
    let mut news = Vec::new();
    if has(b"READY=1") {
        news.push(Said::Ready);
    }
    if has(b"WATCHDOG=1") {
        news.push(Said::Heartbeat);
    }
    if has(b"FDSTOREREMOVE=1") {
        news.push(Said::Forget(name));
    } else if has(b"FDSTORE=1") {
        // The colon parts names when they are handed over.
        let name = name.replace(|c: char| c == ':' || c.is_control(), "_");
        news.extend(descriptors.into_iter().map(|descriptor| Said::Store(name.clone(), descriptor)));
    }
    news
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn what_is_sent_arrives() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        std::fs::write(&path, "left behind").unwrap();
        let listener = Listener::bind(&path).unwrap();
        let notifier = Notifier::to(path.as_os_str(), None).unwrap();
        notifier.send("STATUS=forwarding\nREADY=1\nWATCHDOG=1\n");
        assert!(matches!(listener.next().unwrap()[..], [Said::Ready, Said::Heartbeat]));
        notifier.send("READY=0\nWATCHDOG=trigger\n\0\u{ff}");
        assert!(listener.next().unwrap().is_empty());
        notifier.store("tap:1", std::io::stdin().as_fd()).unwrap();
        assert!(matches!(&listener.next().unwrap()[..], [Said::Store(name, _)] if name == "tap_1"));
        notifier.forget("tap");
        assert!(matches!(&listener.next().unwrap()[..], [Said::Forget(name)] if name == "tap"));
        let first = notifier.listener();
        let _another = Listener::bind(&path).unwrap();
        assert!(first.is_some() && notifier.listener() != first);
        drop(listener);
        notifier.send("READY=1");
    }

    #[test]
    fn a_listener_that_does_not_read_is_waited_for_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let listener = Listener::bind(&path).unwrap();
        let notifier = Notifier::to(path.as_os_str(), None).unwrap();
        let mut sent = 0;
        while !notifier.is_stuck.load(Ordering::Relaxed) {
            _ = notifier.store(&format!("tap{sent}"), std::io::stdin().as_fd());
            sent += 1;
        }
        // These wait for nothing, and are lost.
        (0..1000).for_each(|_| notifier.forget("tap"));
        assert!(notifier.is_stuck.load(Ordering::Relaxed));
        (1..sent).for_each(|_| drop(listener.next().unwrap()));
        notifier.forget("tap");
        assert!(!notifier.is_stuck.load(Ordering::Relaxed));
        assert!(matches!(&listener.next().unwrap()[..], [Said::Forget(name)] if name == "tap"));
    }

    #[test]
    fn a_manager_without_room_is_sent_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let listener = Listener::bind(&path).unwrap();
        let mut notifier = Notifier::to(path.as_os_str(), None).unwrap();
        notifier.room = Some(2);
        let store = |name: &str| notifier.store(name, std::io::stdin().as_fd());
        assert_eq!((store("a"), store("b"), store("b")), (Ok(()), Ok(()), Ok(())));
        assert_eq!(
            (store("c"), notifier.holds("b"), notifier.holds("c")),
            (Err(NotStored::Full(2)), true, false)
        );
        notifier.forget("a");
        assert_eq!(store("c"), Ok(()));
        let names = ["a", "b", "b", "a", "c"].map(|name| match &listener.next().unwrap()[..] {
            [Said::Store(said, _) | Said::Forget(said)] => said == name,
            _ => false,
        });
        assert_eq!(names, [true; 5]);
        drop(listener);
        assert_eq!(store("b"), Err(NotStored::Unheard));
    }

    /// What a process said before it ended is read, and not taken for words of the next one, which has a listener of its own.
    #[test]
    fn a_closed_listener_ends_behind_what_arrived() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let before = Listener::bind(&path).unwrap();
        let notifier = Notifier::to(path.as_os_str(), None).unwrap();
        notifier.send("READY=1");
        let next = Listener::bind(&path).unwrap();
        before.close();
        assert!(matches!(before.next().unwrap()[..], [Said::Ready]));
        assert_eq!(before.next().unwrap_err().kind(), ErrorKind::NotConnected);
        notifier.send("WATCHDOG=1");
        assert!(matches!(next.next().unwrap()[..], [Said::Heartbeat]));
        // Who waits already is woken.
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| next.next().unwrap_err().kind());
            next.close();
            assert_eq!(waits.join().unwrap(), ErrorKind::NotConnected);
        });
    }
}
