// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small process that keeps the rights to open devices, for a router that has given them up.
//!
//! The router starts it before it is confined, and names the interfaces of its configuration once. From then on it asks for each
//! call that takes a right, over a socket that only the two have. The opener makes the call and hands the descriptor over (SCM_RIGHTS). It ends
//! with the router.
//!
//! | call | made for | for |
//! |---|---|---|
//! | packet and AF_XDP sockets | [`Policy::interfaces`] not empty | any interface: the kernel lets their owner bind them anywhere |
//! | raw IP sockets | [`Policy::raw`] | |
//! | XDP and traffic control programs | interfaces of the policy | the programs of this crate, made by the opener: never code of the router |
//! | taps | [`Policy::taps`] | by name |
//! | flags, MTU, addresses by ioctl | [`Policy::taps`] | by the name in the request |
//! | addresses, masters, rules by rtnetlink | [`Policy::taps`] | by the index or name in the request; only messages that this crate makes, and no links |
//! | busy polling | sockets of the router | |
//!
//! The other side is in [`crate::opening`]. All else is refused with EPERM. What comes from the router is treated as adversarial: a wrong request is refused, and costs bounded memory.

mod policy;

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Mutex, OnceLock};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use sync::mutex::lock;

pub use policy::Policy;

/// Bytes of a request or an answer, at most.
const MOST_BYTES: usize = 4096;
/// The kind of the messages that have the policy, each with whole lines; the first number of the last one is [`LAST`].
pub(crate) const POLICY: u8 = 0;
pub(crate) const LAST: u32 = 1;
/// Descriptors in a message, at most.
const MOST_FDS: usize = 2;

/// What is asked for. Numbers and bytes are those of the function that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Call {
    /// Family, kind, protocol.
    Socket = 1,
    /// Flags; the name.
    Tap,
    /// Request, and 1 for an IPv6 socket; the structure.
    Interface,
    /// A message of rtnetlink.
    Route,
    /// Queues.
    XskMap,
    /// Queue; the map and the socket.
    XskSet,
    /// Frames in parts, the function of tags and its interface (0: none), urgent; the map.
    Redirect,
    /// Interface, generic; the program.
    Attach,
    /// The link and the program.
    Replace,
    /// Interface, urgent packets only.
    Swallow,
    /// Microseconds; the socket.
    BusyPoll,
}

impl Call {
    pub(crate) fn of(number: u8) -> Option<Call> {
        use Call::*;
        [Socket, Tap, Interface, Route, XskMap, XskSet, Redirect, Attach, Replace, Swallow, BusyPoll]
            .into_iter()
            .find(|call| *call as u8 == number)
    }
}

/// A request, or with an error number as its first number an answer.
#[derive(Debug, Default)]
pub(crate) struct Message {
    pub(crate) kind: u8,
    pub(crate) numbers: [u32; 4],
    pub(crate) bytes: Vec<u8>,
    pub(crate) fds: Vec<OwnedFd>,
}

const HEAD: usize = 17;

pub(crate) fn send(
    socket: &OwnedFd,
    kind: u8,
    numbers: [u32; 4],
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut message = vec![kind];
    numbers.iter().for_each(|number| message.extend(number.to_ne_bytes()));
    message.extend(bytes);
    if message.len() > MOST_BYTES {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    rustix::net::sendmsg(socket, &[io::IoSlice::new(&message)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next message; `None` when the other end is gone.
pub(crate) fn receive(socket: &OwnedFd) -> io::Result<Option<Message>> {
    let mut bytes = [0; MOST_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let into = &mut [io::IoSliceMut::new(&mut bytes)];
    let got = loop {
        match rustix::net::recvmsg(socket, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            got => break got?.bytes,
        }
    };
    let fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds = fds.flatten().collect();
    if got < HEAD {
        // The end, or nothing that the other end of ours sends.
        return Ok(None);
    }
    let number = |i: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|b| bytes[1 + 4 * i + b]));
    let numbers = [number(0), number(1), number(2), number(3)];
    Ok(Some(Message { kind: bytes[0], numbers, bytes: bytes[HEAD..got].to_vec(), fds }))
}

/// What this process has opened so far.
static OPENED: Mutex<Policy> = Mutex::new(Policy::NOTHING);

pub(crate) fn note(opened: impl FnOnce(&mut Policy)) {
    opened(&mut lock(&OPENED));
}

/// A policy that allows what this process has opened so far to be opened again.
pub fn for_what_is_open() -> Policy {
    let mut policy = lock(&OPENED).clone();
    for names in [&mut policy.interfaces, &mut policy.taps] {
        names.sort();
        names.dedup();
    }
    policy
}

/// A socket for the router, and its other end for the opener.
///
/// # Errors
/// There are no more descriptors.
pub fn sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (rustix::net::AddressFamily::UNIX, rustix::net::SocketType::SEQPACKET);
    Ok(rustix::net::socketpair(family, kind, rustix::net::SocketFlags::CLOEXEC, None)?)
}

thread_local! {
    /// Whether this thread is in another namespace than the opener.
    static ELSEWHERE: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread has entered another namespace, where it makes its calls itself.
pub(crate) fn is_elsewhere() {
    ELSEWHERE.set(true);
}

/// Whom the router asks.
static ASKED: OnceLock<Mutex<OwnedFd>> = OnceLock::new();

/// Whether this process asks an opener: it has no rights of its own.
pub(crate) fn is_asked() -> bool {
    ASKED.get().is_some()
}

/// From now on this process asks the opener at the other end of this socket, which may do so much for it. It can be said once.
///
/// # Errors
/// The opener is gone.
pub fn ask_at(socket: OwnedFd, policy: &Policy) -> io::Result<()> {
    send_policy(&socket, policy)?;
    let _ = ASKED.set(Mutex::new(socket));
    Ok(())
}

/// Sends a policy in as many messages as it takes.
pub(crate) fn send_policy(socket: &OwnedFd, policy: &Policy) -> io::Result<()> {
    let text = policy.text();
    let mut part = String::new();
    for line in text.split_inclusive('\n') {
        if HEAD + part.len() + line.len() > MOST_BYTES {
            send(socket, POLICY, [0; 4], part.as_bytes(), &[])?;
            part.clear();
        }
        part += line;
    }
    send(socket, POLICY, [LAST, 0, 0, 0], part.as_bytes(), &[])
}

/// Asks the opener for a call, if there is one to ask. Returns the bytes and the descriptors of its answer.
pub(crate) fn ask(
    call: Call,
    numbers: [u32; 4],
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> Option<io::Result<(Vec<u8>, Vec<OwnedFd>)>> {
    let socket = lock(ASKED.get().filter(|_| !ELSEWHERE.get())?);
    let asked = send(&socket, call as u8, numbers, bytes, fds).and_then(|()| receive(&socket));
    let gone = || io::Error::other("the process that opens devices is gone");
    Some(asked.and_then(|answer| answer.ok_or_else(gone)).and_then(|answer| match answer.numbers[0] {
        0 => Ok((answer.bytes, answer.fds)),
        error => Err(io::Error::from_raw_os_error(error as i32)),
    }))
}

/// The same for one descriptor.
pub(crate) fn ask_for_one(
    call: Call,
    numbers: [u32; 4],
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> Option<io::Result<OwnedFd>> {
    let none = || io::Error::other("the process that opens devices sent nothing");
    Some(ask(call, numbers, bytes, fds)?.and_then(|(_, fds)| fds.into_iter().next().ok_or_else(none)))
}

/// The same for nothing but its success.
pub(crate) fn ask_to(
    call: Call,
    numbers: [u32; 4],
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> Option<io::Result<()>> {
    Some(ask(call, numbers, bytes, fds)?.map(drop))
}
