// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that zebra connects to.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::sockopt;

use super::Session;
use crate::feeder::{self, Feeder, Handle, Notices, Reports, Stopped};
use crate::model::{Change, Source};

/// Bytes read at a time. A frame has at most 65,535.
const READ_BYTES: usize = 256 << 10;
/// How long a connection may be silent before the kernel asks whether its peer is still there.
const IDLE: Duration = Duration::from_secs(10);

/// How the feed of FRR is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen, as zebra's `fpm address` says.
    pub listen: SocketAddr,
    /// The network namespace that zebra lives in: a name of `ip netns`, or a path. `None` is that of this process.
    pub namespace: Option<PathBuf>,
    /// A replay has ended when nothing has come for this long.
    pub quiet: Duration,
    /// Called by the feed's thread when it listens: it may give up rights.
    pub opened: fn(),
}

impl Default for Settings {
    fn default() -> Settings {
        let listen = SocketAddr::from(([127, 0, 0, 1], super::PORT));
        Settings { listen, namespace: None, quiet: Duration::from_secs(1), opened: || () }
    }
}

/// Starts the feed.
///
/// # Errors
/// The namespace cannot be entered, or the address cannot be listened on.
pub fn spawn(settings: Settings, reports: Reports, notices: Notices) -> io::Result<Handle> {
    let Settings { listen, namespace, quiet, opened } = settings;
    let open = move || {
        let failed =
            |e: io::Error| io::Error::new(e.kind(), format!("cannot listen for FPM on {listen}: {e}"));
        let listener = TcpListener::bind(listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(listener)
    };
    let run = move |feeder: &mut Feeder, listener| {
        opened();
        Listening { feeder, listener, quiet, connection: None }.run()
    };
    feeder::start(Source::Fpm, namespace.as_deref(), notices, reports, open, run)
}

/// The state of the thread.
struct Listening<'a> {
    feeder: &'a mut Feeder,
    listener: TcpListener,
    quiet: Duration,
    connection: Option<Connection>,
}

/// A zebra that is connected.
struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    session: Session,
    buffer: Box<[u8]>,
    /// How many bytes at the start of the buffer wait for the rest of their frame.
    waiting: usize,
}

/// What reading gave.
enum Got {
    /// Bytes; perhaps there are more.
    Some,
    /// Nothing for now.
    Nothing,
    /// The connection is over, for this reason.
    End(String),
}

impl Listening<'_> {
    fn run(mut self) -> Result<(), Stopped> {
        loop {
            let ends_at = self.connection.as_ref().and_then(|connection| connection.session.ends_at());
            let timeout = ends_at.map(|at| at.saturating_sub(self.feeder.now()));
            let stream = self.connection.as_ref().map(|connection| connection.stream.as_fd());
            let [asked, _] = self.feeder.wait([Some(self.listener.as_fd()), stream], timeout)?;
            // A zebra that has gone is read to its end before another is let in.
            let more = self.read()?;
            if asked && !more {
                self.accept()?;
            }
        }
    }

    /// Reads once and reports. Says whether there may be more.
    fn read(&mut self) -> Result<bool, Stopped> {
        let Some(connection) = &mut self.connection else { return Ok(false) };
        let mut changes = Vec::new();
        let got = connection.read(self.feeder, &mut changes);
        if let Got::Nothing = got {
            connection.session.look(self.feeder.now(), &mut changes);
        }
        if let Got::End(why) = &got {
            self.feeder.notice(format!("FPM connection from {} is over: {why}", connection.peer));
            self.connection = None;
            changes.push(Change::Lost);
        }
        self.feeder.report(changes)?;
        Ok(matches!(got, Got::Some))
    }

    fn accept(&mut self) -> Result<(), Stopped> {
        let (stream, peer) = match self.listener.accept() {
            Ok(accepted) => accepted,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(e) => {
                self.feeder.notice(format!("FPM connection not accepted: {e}"));
                // So that lasting trouble, such as too few descriptors, does not keep a core busy.
                self.feeder.wait([], Some(Duration::from_millis(100)))?;
                return Ok(());
            }
        };
        if let Some(connection) = &self.connection {
            let present = connection.peer;
            self.feeder.notice(format!(
                "FPM connection from {peer} refused: {present} is connected, and one zebra at a time may be"
            ));
            self.feeder.tally.refused += 1;
            return self.feeder.report(Vec::new());
        }
        if let Err(e) = prepare(&stream) {
            self.feeder.notice(format!("FPM connection from {peer} refused: {e}"));
            return Ok(());
        }
        self.feeder.notice(format!("FPM connection from {peer}"));
        self.feeder.tally.reports += 1;
        let mut changes = Vec::new();
        let session = Session::new(self.quiet, self.feeder.now(), &mut changes);
        let buffer = vec![0; READ_BYTES].into_boxed_slice();
        self.connection = Some(Connection { stream, peer, session, buffer, waiting: 0 });
        self.feeder.report(changes)
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, IDLE)?;
    sockopt::set_tcp_keepintvl(stream, IDLE)?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    Ok(())
}

impl Connection {
    fn read(&mut self, feeder: &mut Feeder, changes: &mut Vec<Change>) -> Got {
        let read = match self.stream.read(&mut self.buffer[self.waiting..]) {
            Ok(0) if self.waiting > 0 => return Got::End("it ended within a frame".to_owned()),
            Ok(0) => return Got::End("zebra closed it".to_owned()),
            Ok(read) => read,
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock) => return Got::Nothing,
            Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted) => return Got::Some,
            Err(e) => return Got::End(e.to_string()),
        };
        feeder.tally.bytes += read as u64;
        let filled = self.waiting + read;
        // A route takes some 60 bytes with next-hop groups.
        changes.reserve(filled / 56 + 1);
        match self.session.take(&self.buffer[..filled], feeder.now(), changes, &mut feeder.tally) {
            Ok(taken) => {
                self.buffer.copy_within(taken..filled, 0);
                self.waiting = filled - taken;
                Got::Some
            }
            Err(e) => {
                feeder.tally.malformed += 1;
                Got::End(e.to_string())
            }
        }
    }
}
