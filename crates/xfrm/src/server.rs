// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients on a Unix socket of the kind SEQPACKET: a datagram there is one of netlink's.
//!
//! A client says first which port and groups it has ([`hello`]), and again when that changes. Then it sends requests. A request is read when all answers to those before have
//! been taken, so no client makes the server keep more than a few answers. Events wait in a queue of bounded length; where it is full they are lost, and the client hears
//! that they were (`NLMSG_OVERRUN`), as netlink says it by `ENOBUFS`. A datagram that is too long is refused with `EMSGSIZE`, and none of its requests is carried out.
//!
//! One thread carries out all requests, in order. Another one waits for events.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ipsec::{Event, Heard};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    recv, socket_with,
};

use zeroize::Zeroize as _;

use crate::event::message_of;
use crate::kernel::{Kernel, Refusal};
use crate::netlink::{Builder, Bytes, Message, Messages, control};
use crate::request::{Answer, Client, answer, is_list, refused};

/// Bytes of the longest datagram that a client may send.
const LONGEST: usize = 1 << 16;
/// Events that wait for a client.
const MOST_EVENTS: usize = 1024;
/// Clients at once.
const MOST_CLIENTS: usize = 64;
/// How long no client is accepted after that failed, as where descriptors have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// Options in [`hello`].
const WORDS: u32 = 1;
const HEADS: u32 = 2;

/// The message by which a client says what it is.
pub fn hello(client: &Client) -> Bytes {
    let mut message = Builder::new(control::HELLO, 0, 0, client.port);
    let option = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
    let options = option(client.wants_words, WORDS) | option(client.wants_heads, HEADS);
    message.put(&client.groups.to_ne_bytes()).put(&options.to_ne_bytes());
    message.finish()
}

/// A server, which ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    is_over: Arc<AtomicBool>,
    waker: UnixDatagram,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Serves `kernel` on a Unix socket at `path`, to processes of this user and of root. `events` waits for events, for less than a second, and returns those that came.
    /// Where it says that some were lost, all listeners hear that.
    ///
    /// # Errors
    /// The socket cannot be made, or another process serves there.
    pub fn start(
        path: &Path,
        kernel: impl Kernel + 'static,
        events: impl FnMut() -> Heard + Send + 'static,
    ) -> io::Result<Server> {
        let listener = listen_at(path)?;
        let (waker, woken) = UnixDatagram::pair()?;
        waker.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (sender, come) = sync_channel(MOST_EVENTS);
        let wait = waiting(events, sender, waker.try_clone()?, is_over.clone());
        let (kernel, clients) = (Box::new(kernel), Vec::new());
        let mut host =
            Host { listener, woken, come, kernel, clients, buffer: vec![0; LONGEST], paused_until: None };
        let ends = is_over.clone();
        let serve = move || {
            while !ends.load(Ordering::Acquire) {
                host.turn();
            }
        };
        let name = |name: &str| thread::Builder::new().name(name.to_owned());
        // If one of the threads cannot be made, all ends with this.
        let mut server = Server { path: path.to_owned(), is_over, waker, threads: Vec::new() };
        server.threads.push(name("xfrm").spawn(serve)?);
        server.threads.push(name("xfrm-events").spawn(wait)?);
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // As long as this one listens, the socket is its own. Afterwards another server may have put one there.
        let _ = std::fs::remove_file(&self.path);
        self.is_over.store(true, Ordering::Release);
        let _ = self.waker.send(&[0]);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// What the thread for events does. `None` stands for events that were lost.
fn waiting(
    mut events: impl FnMut() -> Heard + Send,
    sender: SyncSender<Option<Event>>,
    waker: UnixDatagram,
    is_over: Arc<AtomicBool>,
) -> impl FnOnce() + Send {
    move || {
        while !is_over.load(Ordering::Acquire) {
            let Heard { lost, events, .. } = events();
            let lost = (lost > 0).then_some(None);
            for event in lost.into_iter().chain(events.into_iter().map(Some)) {
                // A full channel: the server takes from it when it wakes.
                let _ = waker.send(&[0]);
                if sender.send(event).is_err() {
                    return;
                }
            }
            let _ = waker.send(&[0]);
        }
    }
}

fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let new = || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let (listener, address) = (new()?, SocketAddrUnix::new(path)?);
    if std::fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket()) {
        match connect(new()?, &address) {
            Err(Errno::CONNREFUSED) => std::fs::remove_file(path)?,
            _ => return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process serves there")),
        }
    }
    bind(&listener, &address)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listen(&listener, 16)?;
    Ok(listener)
}

/// A connected client.
struct Guest {
    socket: UnixDatagram,
    client: Client,
    /// Datagrams that the socket has had no room for.
    waiting: VecDeque<Bytes>,
    /// What follows them.
    dump: Option<Box<dyn Iterator<Item = Bytes> + Send>>,
    /// Whether events were lost that it has not heard of.
    is_overrun: bool,
    is_gone: bool,
}

impl Guest {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.dump.is_none() && !self.is_overrun
    }

    fn wants(&self) -> PollFlags {
        if self.is_idle() { PollFlags::IN } else { PollFlags::OUT }
    }

    /// Sends what waits, as far as the socket has room.
    fn flush(&mut self) {
        loop {
            if self.waiting.is_empty() {
                if let Some(datagram) = self.dump.as_mut().and_then(Iterator::next) {
                    self.waiting.push_back(datagram);
                } else {
                    self.dump = None;
                }
            }
            if self.waiting.is_empty() && std::mem::take(&mut self.is_overrun) {
                self.waiting.push_back(Builder::new(control::OVERRUN, 0, 0, 0).finish());
            }
            let Some(datagram) = self.waiting.front() else { return };
            match self.socket.send(datagram) {
                Ok(_) => drop(self.waiting.pop_front()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.is_gone = true;
                    return;
                }
            }
        }
    }

    fn hears(&mut self, group: u32, event: &[u8]) {
        if self.client.groups & 1 << (group - 1) == 0 {
            return;
        }
        // After a loss all are lost until the client has heard of it, so that it knows where.
        if self.waiting.len() < MOST_EVENTS && !self.is_overrun {
            self.waiting.push_back(event.to_vec().into());
        } else {
            self.is_overrun = true;
        }
    }

    /// Events were lost before they came here.
    fn misses(&mut self) {
        self.is_overrun |= self.client.groups != 0;
    }

    /// Reads a datagram and carries out its requests.
    fn read(&mut self, kernel: &mut dyn Kernel, buffer: &mut [u8]) {
        let (len, whole) = match recv(&self.socket, &mut *buffer, RecvFlags::TRUNC) {
            Ok((len @ 1.., whole)) => (len, whole),
            Err(Errno::WOULDBLOCK | Errno::INTR) => return,
            _ => {
                self.is_gone = true;
                return;
            }
        };
        if whole > len {
            self.refuse_long(&buffer[..len], whole);
        } else {
            Messages(&buffer[..len]).for_each(|message| self.carry_out(kernel, &message));
        }
        // Keys may have been in it.
        buffer[..len].zeroize();
    }

    fn carry_out(&mut self, kernel: &mut dyn Kernel, message: &Message<'_>) {
        match message.kind {
            control::HELLO => self.greet(message.port, message.body),
            control::ECHO => self.waiting.push_back(message.body.to_vec().into()),
            _ if self.dump.is_some() && is_list(message) => {
                let why = Refusal::new(libc::EBUSY, "another list is not at its end: ask again behind it");
                self.waiting.push_back(refused(&self.client, message, why));
            }
            _ => {
                let Answer { datagrams, dump } = answer(kernel, &self.client, message);
                self.waiting.extend(datagrams);
                self.dump = self.dump.take().or(dump);
            }
        }
    }

    /// A datagram of `whole` bytes, which begins like this, is too long.
    fn refuse_long(&mut self, start: &[u8], whole: usize) {
        if let Some(head) = Messages(start).head() {
            let why = format!("the datagram has {whole} bytes, and {LONGEST} is the most: send several");
            let client = Client { wants_heads: true, ..self.client };
            self.waiting.push_back(refused(&client, &head, Refusal::new(libc::EMSGSIZE, why)));
        }
    }

    fn greet(&mut self, port: u32, body: &[u8]) {
        let number = |at: usize| body.get(at..).and_then(|rest| rest.first_chunk());
        let number = |at: usize| number(at).map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let (groups, options) = (number(0), number(4));
        let (wants_words, wants_heads) = (options & WORDS != 0, options & HEADS != 0);
        self.client = Client { port, groups, wants_words, wants_heads };
    }
}

/// What the thread for requests has.
struct Host {
    listener: OwnedFd,
    woken: UnixDatagram,
    come: Receiver<Option<Event>>,
    kernel: Box<dyn Kernel>,
    clients: Vec<Guest>,
    buffer: Vec<u8>,
    /// Until when no client is accepted.
    paused_until: Option<Instant>,
}

impl Host {
    /// Waits until there is something to do, and does it.
    fn turn(&mut self) {
        let pause = self.paused_until.map(|until| until.saturating_duration_since(Instant::now()));
        let is_full = self.clients.len() >= MOST_CLIENTS || pause.is_some_and(|pause| !pause.is_zero());
        let pause = pause.and_then(|pause| Timespec::try_from(pause).ok());
        let (wants, ready): (Vec<_>, Vec<_>);
        {
            let accepts = if is_full { PollFlags::empty() } else { PollFlags::IN };
            let first = [PollFd::new(&self.listener, accepts), PollFd::new(&self.woken, PollFlags::IN)];
            let clients = self.clients.iter().map(|guest| PollFd::new(&guest.socket, guest.wants()));
            let mut all: Vec<PollFd<'_>> = first.into_iter().chain(clients).collect();
            match poll(&mut all, pause.as_ref()) {
                Ok(_) => {}
                Err(Errno::INTR) => return,
                Err(_) => return thread::sleep(PAUSE),
            }
            ready = all.iter().map(|fd| !fd.revents().is_empty()).collect();
            wants = self.clients.iter().map(Guest::is_idle).collect();
        }
        for ((guest, ready), was_idle) in self.clients.iter_mut().zip(&ready[2..]).zip(wants) {
            if *ready && was_idle {
                guest.read(&mut *self.kernel, &mut self.buffer);
            }
        }
        if ready[1] {
            self.tell();
        }
        self.clients.iter_mut().for_each(Guest::flush);
        self.clients.retain(|guest| !guest.is_gone);
        if ready[0] && !is_full {
            self.welcome();
        }
    }

    /// Passes events on.
    fn tell(&mut self) {
        while self.woken.recv(&mut [0; 8]).is_ok() {}
        while let Ok(event) = self.come.try_recv() {
            let Some(event) = event else {
                self.clients.iter_mut().for_each(Guest::misses);
                continue;
            };
            let found = match &event {
                Event::Expire { id, .. } => self.kernel.association(*id).ok(),
                Event::Acquire { .. } | Event::Mapping { .. } => None,
            };
            let (group, message) = message_of(&event, found.as_ref());
            self.clients.iter_mut().for_each(|guest| guest.hears(group, &message));
        }
    }

    fn welcome(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match accept_with(&self.listener, flags) {
            Ok(socket) => socket,
            // The client has gone again.
            Err(Errno::WOULDBLOCK | Errno::INTR | Errno::CONNABORTED) => return,
            Err(_) => {
                self.paused_until = Some(Instant::now() + PAUSE);
                return;
            }
        };
        self.paused_until = None;
        let mine = rustix::process::geteuid();
        let is_friend = socket_peercred(&socket).is_ok_and(|peer| peer.uid == mine || peer.uid.is_root());
        if is_friend {
            self.clients.push(Guest {
                // The standard library has no name for this kind of socket; one of datagrams is used in the same way.
                socket: socket.into(),
                client: Client::default(),
                waiting: VecDeque::new(),
                dump: None,
                is_overrun: false,
                is_gone: false,
            });
        }
    }
}
