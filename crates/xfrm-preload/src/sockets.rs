// SPDX-License-Identifier: MIT OR Apache-2.0
//! The descriptors that look like sockets of NETLINK_XFRM, and what is behind each.
//!
//! The table has no locks, for a process may fork at any time. A slot is changed by the thread that has made it [`BUSY`].
//!
//! ```text
//!                    socket()                lost()                 redial()
//! FREE --> BUSY --> CONNECTED --> BUSY --> LOST --> BUSY --> CONNECTED     and from CONNECTED or LOST: close() --> BUSY --> FREE
//! ```

use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStringExt as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::next::Uncancelled;
use crate::{next, wire};

/// Sockets at once.
const MOST: usize = 64;
/// How long a server may be away before calls fail.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between attempts to reach it.
const PAUSE: Duration = Duration::from_millis(20);
const FREE: u32 = 0;
const BUSY: u32 = 1;
const CONNECTED: u32 = 2;
const LOST: u32 = 3;

/// The ports of a process' second socket and later ones begin here; the first one's is the process' number, as with the kernel.
const FURTHER_PORTS: u32 = 0xffff_e000;
/// Set in [`Socket::asked`] where there is a number.
const ASKED: u64 = 1 << 32;
/// Set there, too, if the answer is known: `EBUSY`.
const REFUSED: u64 = 1 << 33;
/// Requests of one socket that are noted. charon sends one at a time, and with `parallel_xfrm = yes` one by each of its threads.
const MOST_ASKED: usize = 128;

/// One of them.
pub struct Socket {
    state: AtomicU32,
    fd: AtomicI32,
    /// Our end of the pair whose other one is behind the descriptor. Not -1 only while it is there, so that what is read from the descriptor is ours.
    peer: AtomicI32,
    /// Changes whenever something else is put behind the descriptor.
    generation: AtomicU32,
    pub port: AtomicU32,
    pub groups: AtomicU32,
    pub options: AtomicU32,
    /// The epoll descriptor that watches it, or -1; for what, and with what that is returned.
    watcher: AtomicI32,
    watched_for: AtomicU32,
    watched_as: AtomicU64,
    /// The numbers of requests whose answers have not come yet, in any order.
    asked: [AtomicU64; MOST_ASKED],
    /// Where the next one goes if all places are taken.
    turn: AtomicUsize,
}

/// A request that was noted.
pub struct Asked<'a> {
    place: &'a AtomicU64,
    value: u64,
}

impl Asked<'_> {
    /// Forgets it. Returns whether it was noted until now: if not, it has been answered.
    pub fn take_back(&self) -> bool {
        self.place.compare_exchange(self.value, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

static SOCKETS: [Socket; MOST] = [const {
    Socket {
        state: AtomicU32::new(FREE),
        fd: AtomicI32::new(-1),
        peer: AtomicI32::new(-1),
        generation: AtomicU32::new(0),
        port: AtomicU32::new(0),
        groups: AtomicU32::new(0),
        options: AtomicU32::new(0),
        watcher: AtomicI32::new(-1),
        watched_for: AtomicU32::new(0),
        watched_as: AtomicU64::new(0),
        asked: [const { AtomicU64::new(0) }; MOST_ASKED],
        turn: AtomicUsize::new(0),
    }
}; MOST];
/// How many are in use, so that other descriptors cost one load.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// How many of the first ones have been in use at some time: others are not searched.
static TOUCHED: AtomicUsize = AtomicUsize::new(0);
static MADE: AtomicU32 = AtomicU32::new(0);
/// Whether a thread tries to reach the server.
static DIALLING: AtomicBool = AtomicBool::new(false);

/// The server's place, if there is to be one.
pub fn place() -> Option<&'static CString> {
    static PLACE: OnceLock<Option<CString>> = OnceLock::new();
    let read = || {
        let path = std::env::var_os("JUNCTOR_XFRM").filter(|path| !path.is_empty())?;
        CString::new(path.into_vec()).ok()
    };
    PLACE.get_or_init(read).as_ref()
}

/// The socket of a descriptor.
pub fn find(fd: c_int) -> Option<&'static Socket> {
    // A slot that is being filled has -1.
    if fd < 0 || COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    let is_it = |socket: &&Socket| {
        socket.fd.load(Ordering::Acquire) == fd && socket.state.load(Ordering::Acquire) != FREE
    };
    SOCKETS[..TOUCHED.load(Ordering::Acquire)].iter().find(is_it)
}

/// In a child of `fork(2)`: other threads are gone, and with them what they were about to do. Outstanding requests are the parent's.
extern "C" fn in_child() {
    DIALLING.store(false, Ordering::Release);
    for socket in SOCKETS.iter().filter(|socket| socket.state.load(Ordering::Acquire) != FREE) {
        socket.asked.iter().for_each(|asked| asked.store(0, Ordering::Release));
        // The parent uses the pair. This end of it stays open, until the child starts another program.
        socket.peer.store(-1, Ordering::Release);
        if socket.state.load(Ordering::Acquire) == BUSY {
            // What is behind the descriptor is not known.
            let is_open = socket.fd.load(Ordering::Acquire) >= 0;
            socket.state.store(if is_open { LOST } else { FREE }, Ordering::Release);
        }
    }
}

/// Has [`in_child`] called in children.
fn watch_forks() {
    static ONCE: AtomicBool = AtomicBool::new(false);
    if !ONCE.swap(true, Ordering::AcqRel) {
        // SAFETY: the function is there as long as this library, which is never unloaded, and calls nothing but atomic operations.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}

/// A descriptor is about to be closed: if it is of epoll, it watches nothing any more.
pub fn closes(fd: c_int) {
    for socket in &SOCKETS[..TOUCHED.load(Ordering::Acquire)] {
        let _ = socket.watcher.compare_exchange(fd, -1, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Closes a descriptor of ours.
fn shut(fd: c_int) {
    if fd >= 0 {
        // SAFETY: it is ours, and nobody else's.
        unsafe { next::close(fd) };
    }
}

/// A connection to the server, which blocks nobody, or the number of an error.
fn dial() -> Result<c_int, c_int> {
    let path = place().ok_or(libc::ENOENT)?.as_bytes();
    // SAFETY: zeros are a value of this structure.
    let mut addr: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    addr.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if path.len() >= addr.sun_path.len() {
        return Err(libc::ENAMETOOLONG);
    }
    for (to, from) in addr.sun_path.iter_mut().zip(path) {
        *to = *from as libc::c_char;
    }
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers.
    let fd = unsafe { next::socket(libc::AF_UNIX, kind, 0) };
    if fd < 0 {
        return Err(next::errno());
    }
    // SAFETY: the structure is whole, and its length is passed.
    let connected =
        unsafe { next::connect(fd, (&raw const addr).cast(), size_of_val(&addr) as libc::socklen_t) };
    if connected != 0 {
        let errno = next::errno();
        shut(fd);
        return Err(errno);
    }
    Ok(fd)
}

/// Sends bytes that are ours, if there is room.
fn put(fd: c_int, bytes: &[u8]) -> bool {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the bytes are there during the call.
    unsafe { next::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) == bytes.len() as isize }
}

/// Lets calls wait on a descriptor, or not.
fn block(fd: c_int, waits: bool) {
    // SAFETY: no pointers.
    unsafe { libc::fcntl(fd, libc::F_SETFL, if waits { 0 } else { libc::O_NONBLOCK }) };
}

/// Makes a socket. Returns its descriptor, or the number of an error.
pub fn open(kind: c_int) -> Result<c_int, c_int> {
    watch_forks();
    let _whole = Uncancelled::new();
    let claim = |socket: &Socket| {
        socket.state.compare_exchange(FREE, BUSY, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    let index = SOCKETS.iter().position(claim).ok_or(libc::EMFILE)?;
    TOUCHED.fetch_max(index + 1, Ordering::AcqRel);
    let socket = &SOCKETS[index];
    let start = Instant::now();
    let fd = loop {
        match dial() {
            Ok(fd) => break fd,
            Err(errno)
                if start.elapsed() > PATIENCE
                    || !matches!(errno, libc::ENOENT | libc::ECONNREFUSED | libc::EAGAIN) =>
            {
                socket.state.store(FREE, Ordering::Release);
                return Err(errno);
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    };
    block(fd, kind & libc::SOCK_NONBLOCK == 0);
    let port = match MADE.fetch_add(1, Ordering::Relaxed) {
        0 => std::process::id(),
        more => FURTHER_PORTS.wrapping_add(more),
    };
    socket.port.store(port, Ordering::Relaxed);
    socket.watcher.store(-1, Ordering::Relaxed);
    for zero in [&socket.groups, &socket.options] {
        zero.store(0, Ordering::Relaxed);
    }
    socket.asked.iter().for_each(|asked| asked.store(0, Ordering::Relaxed));
    COUNT.fetch_add(1, Ordering::AcqRel);
    socket.fd.store(fd, Ordering::Release);
    socket.greet(fd);
    socket.state.store(CONNECTED, Ordering::Release);
    Ok(fd)
}

impl Socket {
    fn fd(&self) -> c_int {
        self.fd.load(Ordering::Acquire)
    }

    /// Takes it for a change, from one of these states. `None` if it is in another one.
    fn take(&self, from: &[u32]) -> Option<u32> {
        loop {
            let state = self.state.load(Ordering::Acquire);
            if state == BUSY {
                std::thread::yield_now();
            } else if !from.contains(&state) {
                return None;
            } else if self.state.compare_exchange(state, BUSY, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Some(state);
            }
        }
    }

    /// Says to the server who we are.
    fn greet(&self, fd: c_int) -> bool {
        let [port, groups, options] =
            [&self.port, &self.groups, &self.options].map(|x| x.load(Ordering::Relaxed));
        put(fd, &wire::hello(port, groups, options))
    }

    /// The same, after a change. A server that is away hears it when it is back. Returns whether there was room for it.
    pub fn changed(&self) -> bool {
        let is_there = self.state.load(Ordering::Acquire) == CONNECTED;
        !is_there || self.greet(self.fd()) || next::errno() != libc::EAGAIN
    }

    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Puts another file behind the descriptor. The slot is busy.
    fn put_behind(&self, new: c_int) {
        let fd = self.fd();
        // SAFETY: no pointers. The descriptor is the caller's as long as the slot is not free, which it cannot become now.
        unsafe {
            block(new, libc::fcntl(fd, libc::F_GETFL) & libc::O_NONBLOCK == 0);
            libc::dup3(new, fd, libc::O_CLOEXEC);
        }
        shut(new);
        self.watch_again(fd);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// No epoll descriptor watches it any more.
    pub fn unwatched(&self) {
        self.watcher.store(-1, Ordering::Release);
    }

    /// An epoll descriptor watches it from now on.
    pub fn watched(&self, by: c_int, event: libc::epoll_event) {
        self.watched_for.store(event.events, Ordering::Relaxed);
        self.watched_as.store(event.u64, Ordering::Relaxed);
        self.watcher.store(by, Ordering::Release);
    }

    /// An epoll descriptor watches files, not descriptors, so it knows nothing of a new one.
    fn watch_again(&self, fd: c_int) {
        let watcher = self.watcher.load(Ordering::Acquire);
        let (events, u64) =
            (self.watched_for.load(Ordering::Relaxed), self.watched_as.load(Ordering::Relaxed));
        let mut event = libc::epoll_event { events, u64 };
        if watcher >= 0 {
            // SAFETY: the pointer is to a variable here. If there is no such descriptor any more, nothing happens.
            unsafe { next::epoll_ctl(watcher, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        }
    }

    /// The server has gone from what was behind the descriptor at `generation`. Returns whether something else is there by now.
    pub fn lost(&self, generation: u32) -> bool {
        let _whole = Uncancelled::new();
        if self.take(&[CONNECTED]).is_none() {
            return self.generation() != generation;
        }
        if self.generation() != generation {
            self.state.store(CONNECTED, Ordering::Release);
            return true;
        }
        let mut pair = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: there is room for two numbers.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) } != 0 {
            self.state.store(CONNECTED, Ordering::Release);
            return false;
        }
        let [ours, theirs] = pair;
        self.put_behind(theirs);
        self.peer.store(ours, Ordering::Release);
        self.refuse_asked(ours);
        self.state.store(LOST, Ordering::Release);
        dial_again();
        true
    }

    /// Answers all requests that were noted with `EBUSY`. So many small datagrams have room at a new end of a pair.
    fn refuse_asked(&self, fd: c_int) {
        for asked in &self.asked {
            let asked = asked.swap(0, Ordering::AcqRel);
            if asked & ASKED != 0 {
                put(fd, &wire::error(asked as u32, self.port.load(Ordering::Relaxed), libc::EBUSY));
            }
        }
    }

    /// Waits until the server is there. Returns whether it is.
    pub fn wait(&self) -> bool {
        let start = Instant::now();
        loop {
            match self.state.load(Ordering::Acquire) {
                CONNECTED => return true,
                FREE => return false,
                _ if start.elapsed() > PATIENCE => return false,
                state => {
                    // The thread that reaches it could not be made, or was the parent's.
                    if state == LOST && !DIALLING.load(Ordering::Acquire) {
                        dial_again();
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        }
    }

    /// Notes a request that is about to be sent. Returns its place, if an answer is expected.
    pub fn asks(&self, datagram: &[u8]) -> Option<Asked<'_>> {
        let value = ASKED | u64::from(wire::request(datagram)?);
        Some(Asked { place: self.note(value), value })
    }

    fn note(&self, value: u64) -> &AtomicU64 {
        let claim = |place: &&AtomicU64| {
            place.compare_exchange(0, value, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        self.asked.iter().find(claim).unwrap_or_else(|| {
            // Some have sent requests and wait for no answer: one of these is forgotten.
            let place = &self.asked[self.turn.fetch_add(1, Ordering::Relaxed) % MOST_ASKED];
            place.store(value, Ordering::Release);
            place
        })
    }

    /// Notes a datagram that has come.
    pub fn heard(&self, datagram: &[u8]) {
        for place in &self.asked {
            let value = place.load(Ordering::Acquire);
            if value & ASKED != 0 && wire::answers(datagram, value as u32) {
                (Asked { place, value }).take_back();
            }
        }
    }

    /// Whether the server of this generation is still behind the descriptor. Waits for a thread that changes that.
    pub fn is_still(&self, generation: u32) -> bool {
        while self.state.load(Ordering::Acquire) == BUSY {
            std::thread::yield_now();
        }
        self.state.load(Ordering::Acquire) == CONNECTED && self.generation() == generation
    }

    /// Forgets it, before its descriptor is closed.
    pub fn forget(&self) {
        let _whole = Uncancelled::new();
        if self.take(&[CONNECTED, LOST]).is_none() {
            return;
        }
        shut(self.peer.swap(-1, Ordering::AcqRel));
        self.fd.store(-1, Ordering::Release);
        COUNT.fetch_sub(1, Ordering::AcqRel);
        self.state.store(FREE, Ordering::Release);
    }

    /// Puts a new connection behind the descriptor.
    fn redial(&self) {
        let Ok(new) = dial() else { return };
        if self.take(&[LOST]).is_none() {
            shut(new);
            return;
        }
        let peer = self.peer.swap(-1, Ordering::AcqRel);
        self.greet(new);
        if peer >= 0 {
            self.pass_on(new);
        }
        self.put_behind(new);
        if peer >= 0 {
            // Who waits at the pair wakes, and finds the new one; even if a child has a copy of this end.
            // SAFETY: no pointers.
            unsafe { libc::shutdown(peer, libc::SHUT_RDWR) };
            shut(peer);
        }
        self.state.store(CONNECTED, Ordering::Release);
    }

    /// Lets the server send what was put into our end of the pair and has not been read.
    fn pass_on(&self, new: c_int) {
        let mut datagram = [0; wire::ERROR_LEN];
        loop {
            // SAFETY: there is so much room.
            let got = unsafe {
                next::recv(self.fd(), datagram.as_mut_ptr().cast(), datagram.len(), libc::MSG_DONTWAIT)
            };
            if got != datagram.len() as isize {
                return;
            }
            // If this server goes, too, the answer is made once more.
            self.note(ASKED | REFUSED | u64::from(wire::sequence(&datagram)));
            put(new, &wire::echo(&datagram));
        }
    }
}

/// Lets a thread reach the server again, if none does.
fn dial_again() {
    if DIALLING.swap(true, Ordering::AcqRel) {
        return;
    }
    // The daemon's signals are for its own threads.
    // SAFETY: zeros are a value of the type, and the pointers are to variables here.
    let before = unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    };
    let thread =
        std::thread::Builder::new().name("junctor-xfrm".to_owned()).stack_size(1 << 16).spawn(dialling);
    if thread.is_err() {
        DIALLING.store(false, Ordering::Release);
    }
    // SAFETY: the pointer is to a variable here.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
}

fn dialling() {
    let is_lost = |socket: &Socket| socket.state.load(Ordering::Acquire) == LOST;
    loop {
        SOCKETS.iter().filter(|socket| is_lost(socket)).for_each(Socket::redial);
        if !SOCKETS.iter().any(is_lost) {
            DIALLING.store(false, Ordering::Release);
            // One that was lost meanwhile may have seen this thread.
            if !SOCKETS.iter().any(is_lost) || DIALLING.swap(true, Ordering::AcqRel) {
                return;
            }
        }
        std::thread::sleep(PAUSE);
    }
}
