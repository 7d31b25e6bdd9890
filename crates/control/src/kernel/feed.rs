// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread and its sockets.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use super::Core;
use crate::feeder::{self, Feeder, Handle, Notices, Reports, Stopped};
use crate::model::{Change, Source};

/// Bytes of notifications that the kernel keeps for us.
const RECEIVE_BYTES: usize = 16 << 20;
/// Bytes read at a time. The kernel sends dumps in parts of at most 32 KiB.
const READ_BYTES: usize = 64 << 10;
/// The most notifications that are reported together.
const TOGETHER: usize = 256;
/// More notifications than the kernel can have kept for us.
const QUEUED_MAX: usize = 1 << 20;
/// The groups whose notifications are received (`linux/rtnetlink.h`): links, neighbours, addresses, multicast entries and routes of both
/// families, their rules and settings, routes of MPLS, next-hop objects.
const GROUPS: [u32; 14] = [1, 3, 5, 6, 7, 8, 9, 10, 11, 19, 24, 25, 27, 32];

/// How the feed of the kernel is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The network namespace: a name of `ip netns`, or a path such as `/proc/1234/ns/net`. `None` is that of this process.
    pub namespace: Option<PathBuf>,
    /// The longest time between two full reports; `None` for as long as nothing calls for one.
    pub audit: Option<Duration>,
    /// Called by the feed's thread when its sockets are open: it may give up rights.
    pub opened: fn(),
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { namespace: None, audit: Some(Duration::from_secs(300)), opened: || () }
    }
}

/// Starts the feed. Nothing but its sockets needs the namespace, so it may go without harm.
///
/// # Errors
/// The namespace cannot be entered, or the sockets cannot be opened.
pub fn spawn(settings: Settings, reports: Reports, notices: Notices) -> io::Result<Handle> {
    let Settings { namespace, audit, opened } = settings;
    let run = move |feeder: &mut Feeder, sockets: Sockets| {
        opened();
        let buffer = vec![0; READ_BYTES].into_boxed_slice();
        Following { feeder, sockets, core: Core::new(audit), buffer }.run()
    };
    feeder::start(Source::Kernel, namespace.as_deref(), notices, reports, Sockets::open, run)
}

/// One socket for requests and their answers, one for notifications.
struct Sockets {
    answers: Socket,
    notifications: Socket,
}

impl Sockets {
    fn open() -> io::Result<Sockets> {
        let failed = |what| move |e: io::Error| io::Error::new(e.kind(), format!("netlink: {what}: {e}"));
        let mut notifications = Socket::new(NETLINK_ROUTE).map_err(failed("no socket"))?;
        // Without the right to do so, the system's limit holds (net.core.rmem_max).
        if set_socket_recv_buffer_size_force(&notifications, RECEIVE_BYTES).is_err() {
            let _ = notifications.set_rx_buf_sz(RECEIVE_BYTES as libc::c_int);
        }
        notifications.bind_auto()?;
        for group in GROUPS {
            notifications.add_membership(group).map_err(failed("cannot join a group"))?;
        }
        notifications.set_non_blocking(true)?;

        let mut answers = Socket::new(NETLINK_ROUTE).map_err(failed("no socket"))?;
        answers.bind_auto()?;
        answers.connect(&SocketAddr::new(0, 0))?;
        answers.set_non_blocking(true)?;
        // Kernels before 4.20 do not know it, and do not mind.
        let _ = answers.set_netlink_get_strict_chk(true);
        Ok(Sockets { answers, notifications })
    }
}

/// The state of the thread.
struct Following<'a> {
    feeder: &'a mut Feeder,
    sockets: Sockets,
    core: Core,
    buffer: Box<[u8]>,
}

impl Following<'_> {
    fn run(mut self) -> Result<(), Stopped> {
        loop {
            self.start()?;
            let timeout = self.core.due().map(|due| due.saturating_sub(self.feeder.now()));
            let from = [self.sockets.answers.as_fd(), self.sockets.notifications.as_fd()].map(Some);
            let [answered, notified] = self.feeder.wait(from, timeout)?;
            if answered {
                self.answers()?;
            }
            if notified {
                self.notifications()?;
            }
        }
    }

    /// Starts a dump if one is due.
    fn start(&mut self) -> Result<(), Stopped> {
        let mut changes = Vec::new();
        if let Some(request) = self.core.start(self.feeder.now(), &mut changes, &mut self.feeder.tally) {
            self.send(&request);
        }
        self.feeder.report(changes)
    }

    fn send(&mut self, request: &[u8]) {
        if let Err(e) = self.sockets.answers.send(request, 0) {
            self.feeder.notice(format!("netlink: cannot ask the kernel: {e}"));
            self.core.failed(self.feeder.now(), &mut self.feeder.tally);
        }
    }

    /// Reads one part of a dump.
    fn answers(&mut self) -> Result<(), Stopped> {
        let now = self.feeder.now();
        let bytes = match receive(&self.sockets.answers, &mut self.buffer) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(()),
            Err(e) => {
                self.feeder.notice(format!("netlink: a dump failed: {e}"));
                self.core.failed(now, &mut self.feeder.tally);
                return Ok(());
            }
        };
        self.feeder.tally.bytes += bytes.len() as u64;
        let mut changes = Vec::new();
        let tally = &mut self.feeder.tally;
        match self.core.answer(bytes, now, &mut changes, tally) {
            Ok(Some(request)) => self.send(&request),
            Ok(None) => {}
            Err(e) => self.feeder.notice(e.to_string()),
        }
        self.report(changes)
    }

    /// Reads the notifications that have come.
    fn notifications(&mut self) -> Result<(), Stopped> {
        let mut changes = Vec::new();
        let mut reads = TOGETHER;
        let mut is_lossy = false;
        while reads > 0 {
            reads -= 1;
            let now = self.feeder.now();
            let tally = &mut self.feeder.tally;
            match receive(&self.sockets.notifications, &mut self.buffer) {
                // Older than the full report that is to come. What was lost may have taken it back.
                Ok(Some(_)) if is_lossy => {}
                Ok(Some(bytes)) => {
                    tally.bytes += bytes.len() as u64;
                    self.core.notify(bytes, now, &mut changes, tally);
                }
                Ok(None) => break,
                Err(e) => {
                    self.core.overrun(now, tally);
                    if !is_lossy {
                        (is_lossy, reads) = (true, QUEUED_MAX);
                    }
                    if e.raw_os_error() != Some(libc::ENOBUFS) {
                        self.feeder.notice(format!("netlink: notifications were lost: {e}"));
                        break;
                    }
                }
            }
        }
        self.report(changes)
    }

    fn report(&mut self, changes: Vec<Change>) -> Result<(), Stopped> {
        if let Some(e) = self.core.take_malformed() {
            self.feeder.notice(e.to_string());
        }
        self.feeder.report(changes)
    }
}

/// Receives one datagram of the kernel; `None` if there is none.
fn receive<'a>(socket: &Socket, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
    loop {
        let mut room = &mut *buffer;
        let (len, from) = match socket.recv_from(&mut room, libc::MSG_TRUNC) {
            Ok(received) => received,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        // Other processes may send to a socket, too.
        if from.port_number() != 0 {
            continue;
        }
        if len > buffer.len() {
            return Err(io::Error::other("a message longer than 64 KiB"));
        }
        return Ok(Some(&buffer[..len]));
    }
}
