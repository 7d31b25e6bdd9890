// SPDX-License-Identifier: MIT OR Apache-2.0
//! The descriptors that look like sockets of NETLINK_XFRM, and what is behind each.
//!
//! The table has no locks, for a process may fork at any time. A slot is changed by the thread that has made it [`BUSY`].
//!
//! ```text
//!                    socket()                lost()                 redial()
//! FREE --> BUSY --> CONNECTED --> BUSY --> LOST --> BUSY --> CONNECTED     and from CONNECTED or LOST: close() --> BUSY --> FREE
//! ```

use std::ffi::{CString, c_int, c_void};
use std::os::unix::ffi::OsStringExt as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::{next, wire};

/// Sockets at once.
const MOST: usize = 64;
/// How long a server may be away before calls fail.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between attempts to reach it.
const PAUSE: Duration = Duration::from_millis(20);
/// How long the answer that was made up for a lost one may wait to be read.
const READING: Duration = Duration::from_millis(500);

const FREE: u32 = 0;
const BUSY: u32 = 1;
const CONNECTED: u32 = 2;
const LOST: u32 = 3;

/// The ports of a process' second socket and later ones begin here; the first one's is the process' number, as with the kernel.
const FURTHER_PORTS: u32 = 0xffff_e000;
/// Set in [`Socket::asked`] where there is a number.
const ASKED: u64 = 1 << 32;

/// One of them.
pub struct Socket {
    state: AtomicU32,
    fd: AtomicI32,
    /// Our end of the pair whose other one is behind the descriptor, while the server is away.
    peer: AtomicI32,
    /// Changes whenever something else is put behind the descriptor.
    generation: AtomicU32,
    pub port: AtomicU32,
    pub groups: AtomicU32,
    pub options: AtomicU32,
    /// The number of the request whose answer has not come yet.
    asked: AtomicU64,
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
        asked: AtomicU64::new(0),
    }
}; MOST];
/// How many are in use, so that other descriptors cost one load.
static COUNT: AtomicUsize = AtomicUsize::new(0);
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
    SOCKETS.iter().find(is_it)
}

/// Closes a descriptor of ours.
fn shut(fd: c_int) {
    if fd >= 0 {
        // SAFETY: it is ours, and nobody else's.
        unsafe { next::close(fd) };
    }
}

/// A connection to the server, or the number of an error.
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
    // SAFETY: no pointers.
    let fd = unsafe { next::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
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

/// Sends bytes that are ours.
fn put(fd: c_int, bytes: &[u8]) -> bool {
    // SAFETY: the bytes are there during the call.
    unsafe { next::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) == bytes.len() as isize }
}

/// Makes a socket. Returns its descriptor, or the number of an error.
pub fn open(kind: c_int) -> Result<c_int, c_int> {
    let claim = |socket: &&Socket| {
        socket.state.compare_exchange(FREE, BUSY, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    let socket = SOCKETS.iter().find(claim).ok_or(libc::EMFILE)?;
    let start = Instant::now();
    let fd = loop {
        match dial() {
            Ok(fd) => break fd,
            Err(errno)
                if start.elapsed() > PATIENCE || !matches!(errno, libc::ENOENT | libc::ECONNREFUSED) =>
            {
                socket.state.store(FREE, Ordering::Release);
                return Err(errno);
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    };
    if kind & libc::SOCK_NONBLOCK != 0 {
        // SAFETY: no pointers.
        unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) };
    }
    let port = match MADE.fetch_add(1, Ordering::Relaxed) {
        0 => std::process::id(),
        more => FURTHER_PORTS.wrapping_add(more),
    };
    socket.port.store(port, Ordering::Relaxed);
    for zero in [&socket.groups, &socket.options] {
        zero.store(0, Ordering::Relaxed);
    }
    socket.asked.store(0, Ordering::Relaxed);
    socket.fd.store(fd, Ordering::Release);
    COUNT.fetch_add(1, Ordering::AcqRel);
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

    /// The same, after a change. While the server is away, it will hear when it is back.
    pub fn changed(&self) {
        if self.state.load(Ordering::Acquire) == CONNECTED {
            self.greet(self.fd());
        }
    }

    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Puts another file behind the descriptor. The slot is busy.
    fn put_behind(&self, new: c_int) {
        let fd = self.fd();
        // SAFETY: no pointers. The descriptor is the caller's as long as the slot is not free, which it cannot become now.
        unsafe {
            let flags = libc::fcntl(fd, libc::F_GETFL);
            libc::fcntl(new, libc::F_SETFL, flags & libc::O_NONBLOCK);
            libc::dup3(new, fd, libc::O_CLOEXEC);
        }
        shut(new);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The server has gone from what was behind the descriptor at `generation`. Returns whether something else is there by now.
    pub fn lost(&self, generation: u32) -> bool {
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
        let asked = self.asked.swap(0, Ordering::AcqRel);
        if asked & ASKED != 0 {
            put(ours, &wire::error(asked as u32, self.port.load(Ordering::Relaxed), libc::EBUSY));
        }
        self.peer.store(ours, Ordering::Release);
        self.put_behind(theirs);
        self.state.store(LOST, Ordering::Release);
        dial_again();
        true
    }

    /// Waits until the server is there. Returns whether it is.
    pub fn wait(&self) -> bool {
        let start = Instant::now();
        loop {
            match self.state.load(Ordering::Acquire) {
                CONNECTED => return true,
                FREE => return false,
                _ if start.elapsed() > PATIENCE => return false,
                _ => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// Notes a request that is about to be sent.
    pub fn asks(&self, datagram: &[u8]) {
        if let Some(sequence) = wire::request(datagram) {
            self.asked.store(ASKED | u64::from(sequence), Ordering::Release);
        }
    }

    /// Nothing was sent.
    pub fn asked_nothing(&self) {
        self.asked.store(0, Ordering::Release);
    }

    /// Notes a datagram that has come.
    pub fn heard(&self, datagram: &[u8]) {
        let asked = self.asked.load(Ordering::Acquire);
        if asked & ASKED != 0 && wire::answers(datagram, asked as u32) {
            let _ = self.asked.compare_exchange(asked, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Forgets it, before its descriptor is closed.
    pub fn forget(&self) {
        if self.take(&[CONNECTED, LOST]).is_none() {
            return;
        }
        shut(self.peer.swap(-1, Ordering::AcqRel));
        self.fd.store(-1, Ordering::Release);
        COUNT.fetch_sub(1, Ordering::AcqRel);
        self.state.store(FREE, Ordering::Release);
    }

    /// Whether what was put into our end of the pair has been read.
    fn is_read(&self) -> bool {
        let mut left: c_int = 0;
        // SAFETY: there is room for a number.
        unsafe {
            libc::ioctl(self.peer.load(Ordering::Acquire), libc::TIOCOUTQ, (&raw mut left).cast::<c_void>())
        };
        left == 0
    }

    /// Puts a new connection behind the descriptor.
    fn redial(&self) {
        let Ok(new) = dial() else { return };
        let start = Instant::now();
        while !self.is_read() && start.elapsed() < READING {
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.take(&[LOST]).is_none() {
            shut(new);
            return;
        }
        self.greet(new);
        self.put_behind(new);
        // Who polls the pair wakes, and finds the new one.
        shut(self.peer.swap(-1, Ordering::AcqRel));
        self.state.store(CONNECTED, Ordering::Release);
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
