// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls that several drivers need, each wrapped once.

use std::io;
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, mpsc};

use sync::mutex::lock;

use crate::opener::{self, Call};

/// The result of a system call that returns -1 on failure.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// What went wrong, for the middle of a sentence.
pub(crate) fn words(error: &io::Error) -> String {
    let text = sync::os::reason(error);
    if error.raw_os_error().is_some() { text.to_lowercase() } else { text }
}

/// A socket that is closed on exec and never blocks.
pub(crate) fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    let takes_a_right =
        matches!((domain, kind), (libc::AF_PACKET | libc::AF_XDP, _) | (libc::AF_INET, libc::SOCK_RAW));
    let numbers = [domain as u32, kind as u32, protocol as u32, 0];
    if takes_a_right && let Some(asked) = opener::ask_for_one(Call::Socket, numbers, &[], &[]) {
        return asked;
    }
    // SAFETY: touches no memory of ours.
    let fd =
        check(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, protocol) })?;
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a socket option to a plain value.
pub(crate) fn set_option<T>(fd: &impl AsRawFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `value`.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const *value).cast(), len) })?;
    Ok(())
}

/// Reads a socket option of a plain type.
pub(crate) fn get_option<T: Plain>(fd: &impl AsRawFd, level: i32, name: i32) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes; `T: Plain`, so zeros and all bytes that it writes are valid values.
    unsafe {
        check(libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &mut len))?;
        Ok(value.assume_init())
    }
}

/// Types of which every bit pattern is a value.
///
/// # Safety
/// As it says.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: any four bytes are an i32.
unsafe impl Plain for i32 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for [u32; 9] {}

/// The pending error of a socket, which reading clears.
pub(crate) fn take_error(fd: &impl AsRawFd) -> Option<io::Error> {
    match get_option::<i32>(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
        Ok(0) | Err(_) => None,
        Ok(code) => Some(io::Error::from_raw_os_error(code)),
    }
}

/// Lets a socket receive only what a classic BPF program accepts, instead of what an earlier one did.
pub(crate) fn attach_filter(fd: &impl AsRawFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // The kernel copies the program and does not write to it.
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Lets a socket receive all again.
pub(crate) fn detach_filter(fd: &impl AsRawFd) {
    // There is nothing to fix if there was no filter.
    let _ = set_option(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32);
}

fn internet_address(address: Ipv4Addr, port: u16) -> libc::sockaddr_in {
    // SAFETY: zeros are a value.
    let mut to: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    to.sin_family = libc::AF_INET as libc::sa_family_t;
    to.sin_port = port.to_be();
    to.sin_addr.s_addr = u32::from(address).to_be();
    to
}

/// Binds an IPv4 socket.
pub(crate) fn bind(fd: &impl AsRawFd, address: Ipv4Addr, port: u16) -> io::Result<()> {
    let to = internet_address(address, port);
    let len = size_of_val(&to) as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of the address.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const to).cast(), len) })?;
    Ok(())
}

/// Sends a datagram over an IPv4 socket, without waiting.
pub(crate) fn send_to(fd: &impl AsRawFd, bytes: &[u8], address: Ipv4Addr) -> io::Result<()> {
    let to = internet_address(address, 0);
    let len = size_of_val(&to) as libc::socklen_t;
    // SAFETY: the kernel reads `bytes` and `len` bytes of the address.
    let sent = unsafe {
        let (bytes, len_bytes) = (bytes.as_ptr().cast(), bytes.len());
        libc::sendto(fd.as_raw_fd(), bytes, len_bytes, libc::MSG_DONTWAIT, (&raw const to).cast(), len)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives a datagram, without waiting; returns its whole length, which may exceed the buffer's.
pub(crate) fn receive(fd: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: the kernel writes at most `buffer.len()` bytes there.
    let got = unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Packets that a socket lost because too many waited.
pub(crate) fn dropped(fd: &impl AsRawFd) -> u64 {
    const SO_MEMINFO: i32 = 55;
    /// `SK_MEMINFO_DROPS`, the last of nine numbers.
    const DROPS: usize = 8;
    get_option::<[u32; 9]>(fd, libc::SOL_SOCKET, SO_MEMINFO).map_or(0, |info| info[DROPS].into())
}

/// A shared mapping of a descriptor, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Map {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping may be used and unmapped from any thread; its users coordinate access to the content.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    pub(crate) fn new(fd: &impl AsRawFd, len: usize, offset: i64) -> io::Result<Map> {
        // SAFETY: the kernel chooses a free address.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd.as_raw_fd(),
                offset,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Map { start: NonNull::new(at.cast()).expect("a mapping is not null"), len })
    }

    /// Address of byte `offset`.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.len, "offset outside the mapping");
        self.start.as_ptr().wrapping_add(offset)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and every holder of pointers into it holds `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A descriptor that is readable when the socket behind it is, and stays the same when that socket is replaced by
/// another: a thread that waits on a queue need not know that its interface vanished and returned.
#[derive(Debug)]
pub(crate) struct Doorbell(OwnedFd);

impl Doorbell {
    pub(crate) fn new() -> io::Result<Doorbell> {
        // SAFETY: touches no memory of ours; the descriptor is fresh and ours alone.
        unsafe {
            let fd = check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?;
            Ok(Doorbell(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// Listens to `socket` until that is closed.
    pub(crate) fn listen(&self, socket: &impl AsRawFd) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: the kernel reads the event.
        check(unsafe {
            libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, socket.as_raw_fd(), &raw mut event)
        })?;
        Ok(())
    }

    /// Listens to `socket` no more.
    pub(crate) fn ignore(&self, socket: &impl AsRawFd) {
        // SAFETY: no memory is passed.
        unsafe {
            libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_DEL, socket.as_raw_fd(), std::ptr::null_mut())
        };
    }

    pub(crate) fn fd(&self) -> std::os::fd::RawFd {
        self.0.as_raw_fd()
    }
}

/// Runs a job on a new thread of this name.
pub type Spawn = Box<dyn Fn(&str, Box<dyn FnOnce() + Send>) -> io::Result<()> + Send + Sync>;

static SPAWN: OnceLock<Spawn> = OnceLock::new();

/// From now on, threads that open devices anew are started so: where workers have fewer rights than other threads, theirs would not do. It can be
/// said once in a process.
pub fn start_threads_by(spawn: Spawn) {
    let _ = SPAWN.set(spawn);
    let held = lock(&HELD).take();
    for (name, body) in held.into_iter().flatten() {
        // What these do may be left out.
        let _ = self::spawn(&name, body);
    }
}

/// Jobs for threads that are not to start yet, if any are held back.
type Held = Vec<(String, Box<dyn FnOnce() + Send>)>;

static HELD: Mutex<Option<Held>> = Mutex::new(None);

/// Starts no threads until [`start_threads_by`] says how: they would keep the rights that this process is about to give up.
pub fn hold_threads() {
    lock(&HELD).get_or_insert_default();
}

pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    if let Some(spawn) = SPAWN.get() {
        return spawn(name, Box::new(body));
    }
    if let Some(held) = &mut *lock(&HELD) {
        held.push((name.to_owned(), Box::new(body)));
        return Ok(());
    }
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}

/// Work that may take the kernel long, done by a thread next to the worker, whose other ports go on meanwhile. An example is closing
/// and opening sockets of an interface that came back. That waits for locks that other programs hold, and for the former user of a queue.
pub(crate) struct Aside<T>(Option<mpsc::Receiver<T>>);

impl<T> Default for Aside<T> {
    fn default() -> Self {
        Aside(None)
    }
}

impl<T: Send + 'static> Aside<T> {
    /// The result of the started work, if it is there; starts `work` if nothing is under way.
    pub(crate) fn look(&mut self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        if let Some(under_way) = &self.0 {
            match under_way.try_recv() {
                Ok(result) => {
                    self.0 = None;
                    return Some(result);
                }
                Err(mpsc::TryRecvError::Empty) => return None,
                Err(mpsc::TryRecvError::Disconnected) => {}
            }
        }
        let (tell, told) = mpsc::channel();
        self.0 = Some(told);
        let begun = spawn("reopen", move || {
            // Nobody may want it any more.
            let _ = tell.send(work());
        });
        if begun.is_err() {
            self.0 = None;
        }
        None
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.0.is_some()
    }

    /// Waits for what is under way.
    pub(crate) fn finish(&mut self) -> Option<T> {
        self.0.take()?.recv().ok()
    }
}

/// A monotonic clock that costs a few nanoseconds and advances every few milliseconds, in milliseconds.
pub(crate) fn coarse_ms() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to `now`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut now) };
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Nanoseconds on the monotonic clock, of which BPF programs read the same.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to `now`.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Nanoseconds since the epoch.
pub(crate) fn wall_clock_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// Counters of one queue, those apart that the kernel keeps. One thread adds; others may read.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    packets: AtomicU64,
    bytes: AtomicU64,
    completed: AtomicU64,
    no_memory: AtomicU64,
    errors: AtomicU64,
}

/// Adds without a locked instruction, which is enough for one writer.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn moved(&self, packets: usize, bytes: usize) {
        add(&self.packets, packets as u64);
        add(&self.bytes, bytes as u64);
    }

    pub(crate) fn completed(&self, n: usize) {
        add(&self.completed, n as u64);
    }

    pub(crate) fn no_memory(&self, n: usize) {
        add(&self.no_memory, n as u64);
    }

    pub(crate) fn errors(&self, n: usize) {
        add(&self.errors, n as u64);
    }

    pub(crate) fn read(&self) -> packet::port::QueueStats {
        packet::port::QueueStats {
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            completed: self.completed.load(Ordering::Relaxed),
            no_memory: self.no_memory.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            ..Default::default()
        }
    }
}
