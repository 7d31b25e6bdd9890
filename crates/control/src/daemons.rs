// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which routing daemons are there.
//!
//! Each of FRR's has a Unix socket for `vtysh`, such as `/run/frr/bgpd.vty`; BIRD has one for `birdc`. A connection to it says nothing, and
//! means nothing to the daemon. The kernel ends it at the instant at which the daemon ends, however that comes about, and before
//! anybody can have restarted it.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;

use crate::feeder::{self, Feeder, Handle, Notices, Reports, Stopped};
use crate::model::{Change, DAEMONS, Daemon, Source};

/// How often daemons are looked for that are not there.
const LOOK: Duration = Duration::from_millis(200);

/// Where daemons have their sockets, now or later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sockets {
    /// The directory of those of FRR, such as `/run/frr`.
    pub frr: Option<PathBuf>,
    /// That of BIRD, such as `/run/bird/bird.ctl`.
    pub bird: Option<PathBuf>,
}

impl Sockets {
    /// Where a daemon has its socket, if it is to be watched.
    fn of(&self, daemon: Daemon) -> Option<PathBuf> {
        match daemon {
            Daemon::Bird => self.bird.clone(),
            _ => Some(self.frr.as_ref()?.join(format!("{}.vty", daemon.program()))),
        }
    }
}

/// Watches the daemons that have these sockets, and reports each [`Change::Daemon`].
///
/// # Errors
/// The thread cannot be started.
pub fn watch(sockets: Sockets, reports: Reports, notices: Notices) -> io::Result<Handle> {
    let run = move |feeder: &mut Feeder, ()| {
        Watching { feeder, sockets, known: std::array::from_fn(|_| Known::default()), has_refused: false }
            .run()
    };
    feeder::start(Source::Fpm, None, notices, reports, || Ok(()), run)
}

/// What is known of a daemon.
#[derive(Default)]
struct Known {
    connection: Option<UnixStream>,
    /// Its process, or its last one.
    process: Option<i32>,
    is_away: bool,
}

struct Watching<'a> {
    feeder: &'a mut Feeder,
    sockets: Sockets,
    known: [Known; DAEMONS],
    /// Whether a notice was given that a socket cannot be used.
    has_refused: bool,
}

impl Watching<'_> {
    fn run(mut self) -> Result<(), Stopped> {
        loop {
            let mut changes = Vec::new();
            for daemon in Daemon::ALL {
                changes.extend(self.look(daemon));
            }
            self.feeder.report(changes)?;
            let connections = self.known.each_ref().map(|known| known.connection.as_ref().map(AsFd::as_fd));
            let ready = self.feeder.wait(connections, Some(LOOK))?;
            for (known, _) in self.known.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
                known.read();
            }
        }
    }

    /// Connects to a daemon that is not connected. Says what has changed.
    fn look(&mut self, daemon: Daemon) -> Vec<Change> {
        let known = &mut self.known[daemon as usize];
        let Some(path) = self.sockets.of(daemon).filter(|_| known.connection.is_none()) else {
            return Vec::new();
        };
        let found = match connect(&path) {
            Ok(connection) => Some((process(&connection), connection)),
            // It is there, and busy.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Vec::new(),
            Err(e) => {
                let is_usual = matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
                if !is_usual && !std::mem::replace(&mut self.has_refused, true) {
                    let path = path.display();
                    self.feeder.notice(format!("{path}: {e}; nobody notices whether daemons end"));
                }
                None
            }
        };
        let ended = Change::Daemon { daemon, is_there: false };
        let returned = Change::Daemon { daemon, is_there: true };
        let was_there = known.process.is_some() && !known.is_away;
        let Some((process, connection)) = found else {
            known.is_away |= was_there;
            return was_there.then_some(ended).into_iter().collect();
        };
        let is_same = known.process == process;
        (known.connection, known.process) = (Some(connection), process);
        match (std::mem::take(&mut known.is_away), was_there && !is_same) {
            (true, _) => vec![returned],
            // It was restarted in no time.
            (false, true) => vec![ended, returned],
            (false, false) => Vec::new(),
        }
    }
}

impl Known {
    /// Reads what a daemon has to say, which means nothing, or that it has gone.
    fn read(&mut self) {
        let mut buffer = [0; 256];
        let Some(connection) = &mut self.connection else { return };
        match connection.read(&mut buffer) {
            Ok(1..) => {}
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            _ => self.connection = None,
        }
    }
}

fn connect(path: &std::path::Path) -> io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    // Not to wait where a daemon is too busy to accept anybody.
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// The process that listens at the other end.
fn process(connection: &UnixStream) -> Option<i32> {
    socket_peercred(connection).ok().map(|peer| peer.pid.as_raw_nonzero().get())
}
