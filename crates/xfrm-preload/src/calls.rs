// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions that stand in the place of the C library's.
//!
//! # Safety
//! Each has the conditions of the function of its name. A pointer is read or written where that function reads or writes it, and as far.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use libc::{epoll_event, msghdr, size_t, sockaddr, sockaddr_nl, socklen_t, ssize_t};

use crate::next::{self, errno, fail};
use crate::sockets::{self, Socket, find};
use crate::wire;

const NETLINK_XFRM: c_int = 6;
const SOL_NETLINK: c_int = 270;
const NETLINK_ADD_MEMBERSHIP: c_int = 1;
const NETLINK_DROP_MEMBERSHIP: c_int = 2;
const NETLINK_CAP_ACK: c_int = 10;
const NETLINK_EXT_ACK: c_int = 11;
/// Bits of the options in the message to the server.
const WORDS: u32 = 1;
const HEADS: u32 = 2;

const UDP_ENCAP: c_int = 100;
const IP_XFRM_POLICY: c_int = 17;
const IPV6_XFRM_POLICY: c_int = 35;

/// Errors by which sending says that the server has gone.
fn is_gone(errno: c_int) -> bool {
    matches!(errno, libc::EPIPE | libc::ECONNRESET | libc::ENOTCONN | libc::ECONNREFUSED)
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if domain == libc::AF_NETLINK && protocol == NETLINK_XFRM && sockets::place().is_some() {
        return sockets::open(kind).unwrap_or_else(fail);
    }
    // SAFETY: no pointers.
    let fd = unsafe { next::socket(domain, kind, protocol) };
    // One of ours had this number, and was closed in some other way.
    if let Some(socket) = find(fd) {
        socket.forget();
    }
    fd
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    if let Some(socket) = find(fd) {
        socket.forget();
    } else if fd >= 0 {
        sockets::closes(fd);
    }
    // SAFETY: the caller's.
    unsafe { next::close(fd) }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_ctl(
    watcher: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: the caller's.
    let done = unsafe { next::epoll_ctl(watcher, operation, fd, event) };
    let Some(socket) = find(fd).filter(|_| done == 0) else { return done };
    if operation == libc::EPOLL_CTL_DEL {
        socket.unwatched();
    } else if !event.is_null() {
        // SAFETY: the call has succeeded, so the event is there.
        socket.watched(watcher, unsafe { event.read_unaligned() });
    }
    done
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn bind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    let Some(socket) = find(fd) else {
        // SAFETY: the caller's.
        return unsafe { next::bind(fd, addr, len) };
    };
    if addr.is_null() || (len as usize) < size_of::<sockaddr_nl>() {
        return fail(libc::EINVAL);
    }
    // SAFETY: the caller says that so many bytes are there.
    let addr = unsafe { addr.cast::<sockaddr_nl>().read_unaligned() };
    if c_int::from(addr.nl_family) != libc::AF_NETLINK {
        return fail(libc::EINVAL);
    }
    if addr.nl_pid != 0 {
        socket.port.store(addr.nl_pid, Ordering::Relaxed);
    }
    socket.groups.store(addr.nl_groups, Ordering::Relaxed);
    changed(socket)
}

/// Says to the server what has changed.
fn changed(socket: &Socket) -> c_int {
    if socket.changed() { 0 } else { fail(libc::ENOBUFS) }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    if find(fd).is_some() {
        // To the kernel, to whom it is connected anyway.
        return 0;
    }
    // SAFETY: the caller's.
    unsafe { next::connect(fd, addr, len) }
}

/// Writes an address of netlink, as far as there is room.
///
/// # Safety
/// Null pointers, or `*len` bytes at `to`.
unsafe fn put_addr(port: u32, groups: u32, to: *mut sockaddr, len: *mut socklen_t) {
    if to.is_null() || len.is_null() {
        return;
    }
    // SAFETY: zeros are a value of this structure.
    let mut addr: sockaddr_nl = unsafe { std::mem::zeroed() };
    addr.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    addr.nl_pid = port;
    addr.nl_groups = groups;
    // SAFETY: the caller's; no more than both have is copied.
    unsafe {
        let room = (*len as usize).min(size_of::<sockaddr_nl>());
        std::ptr::copy_nonoverlapping((&raw const addr).cast::<u8>(), to.cast::<u8>(), room);
        *len = size_of::<sockaddr_nl>() as socklen_t;
    }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    let Some(socket) = find(fd) else {
        // SAFETY: the caller's.
        return unsafe { next::getsockname(fd, addr, len) };
    };
    let (port, groups) = (socket.port.load(Ordering::Relaxed), socket.groups.load(Ordering::Relaxed));
    // SAFETY: the caller's.
    unsafe { put_addr(port, groups, addr, len) };
    0
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller's.
    let done = unsafe { next::getsockopt(fd, level, name, value, len) };
    let shown = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => NETLINK_XFRM,
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => libc::AF_NETLINK,
        (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_RAW,
        _ => return done,
    };
    // SAFETY: the call has succeeded, so these pointers were good, and so many bytes were written.
    if done == 0 && find(fd).is_some() && unsafe { *len } as usize == size_of::<c_int>() {
        // SAFETY: as above.
        unsafe { value.cast::<c_int>().write_unaligned(shown) };
    }
    done
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    if let Some(socket) = find(fd).filter(|_| level == SOL_NETLINK) {
        if value.is_null() || (len as usize) < size_of::<c_int>() {
            return fail(libc::EINVAL);
        }
        // SAFETY: the caller says that so many bytes are there.
        return set_netlink(socket, name, unsafe { value.cast::<u32>().read_unaligned() });
    }
    let is_of_kernel = matches!(
        (level, name),
        (libc::IPPROTO_UDP, UDP_ENCAP)
            | (libc::IPPROTO_IP, IP_XFRM_POLICY)
            | (libc::IPPROTO_IPV6, IPV6_XFRM_POLICY)
    );
    if is_of_kernel && sockets::place().is_some() {
        return 0;
    }
    // SAFETY: the caller's.
    unsafe { next::setsockopt(fd, level, name, value, len) }
}

fn set_netlink(socket: &Socket, name: c_int, value: u32) -> c_int {
    let option = |bit: u32| {
        if value == 0 {
            socket.options.fetch_and(!bit, Ordering::Relaxed);
        } else {
            socket.options.fetch_or(bit, Ordering::Relaxed);
        }
    };
    match name {
        NETLINK_ADD_MEMBERSHIP | NETLINK_DROP_MEMBERSHIP => {
            let Some(group) = value.checked_sub(1).and_then(|bit| 1u32.checked_shl(bit)) else {
                return fail(libc::EINVAL);
            };
            if name == NETLINK_ADD_MEMBERSHIP {
                socket.groups.fetch_or(group, Ordering::Relaxed);
            } else {
                socket.groups.fetch_and(!group, Ordering::Relaxed);
            }
        }
        NETLINK_CAP_ACK => option(HEADS),
        NETLINK_EXT_ACK => option(WORDS),
        // Of the others none changes what is sent.
        _ => return 0,
    }
    changed(socket)
}

/// Sends a datagram of `len` bytes, whose first ones are `head`, by `call`.
fn sends(socket: &Socket, head: &[u8], len: size_t, call: impl Fn() -> ssize_t) -> ssize_t {
    loop {
        if !socket.wait() {
            return fail(libc::ECONNREFUSED) as ssize_t;
        }
        let generation = socket.generation();
        let asked = socket.asks(head);
        let sent = call();
        let why = errno();
        if sent >= 0 && socket.is_still(generation) {
            return sent;
        }
        // Who found that the server has gone has answered the request, if it was noted before. If not, it went where nobody reads it.
        if asked.is_some_and(|asked| !asked.take_back()) {
            return len as ssize_t;
        }
        if sent < 0 && (!is_gone(why) || !socket.lost(generation)) {
            return fail(why) as ssize_t;
        }
    }
}

/// The bytes at a pointer, at most those of a header.
///
/// # Safety
/// `len` bytes are there.
unsafe fn head<'a>(data: *const c_void, len: size_t) -> &'a [u8] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts(data.cast(), len.min(wire::HEADER_LEN)) }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    let Some(socket) = find(fd) else {
        // SAFETY: the caller's.
        return unsafe { next::send(fd, data, len, flags) };
    };
    // SAFETY: the caller's.
    sends(socket, unsafe { head(data, len) }, len, || unsafe {
        next::send(fd, data, len, flags | libc::MSG_NOSIGNAL)
    })
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t {
    if find(fd).is_some() {
        // SAFETY: the caller's.
        return unsafe { send(fd, data, len, 0) };
    }
    // SAFETY: the caller's.
    unsafe { next::write(fd, data, len) }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    data: *const c_void,
    len: size_t,
    flags: c_int,
    addr: *const sockaddr,
    addr_len: socklen_t,
) -> ssize_t {
    if find(fd).is_some() {
        // SAFETY: the caller's.
        return unsafe { send(fd, data, len, flags) };
    }
    // SAFETY: the caller's.
    unsafe { next::sendto(fd, data, len, flags, addr, addr_len) }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    let Some(socket) = find(fd).filter(|_| !message.is_null()) else {
        // SAFETY: the caller's.
        return unsafe { next::sendmsg(fd, message, flags) };
    };
    // SAFETY: the caller's.
    let mut bare = unsafe { message.read() };
    (bare.msg_name, bare.msg_namelen) = (std::ptr::null_mut(), 0);
    (bare.msg_control, bare.msg_controllen) = (std::ptr::null_mut(), 0);
    // SAFETY: the caller's.
    let head = unsafe { first_part(&bare).map_or(&[][..], |(data, len)| head(data, len)) };
    // SAFETY: the caller's.
    let len = unsafe { whole_len(&bare) };
    // SAFETY: the caller's.
    sends(socket, head, len, || unsafe { next::sendmsg(fd, &raw const bare, flags | libc::MSG_NOSIGNAL) })
}

/// The first of the parts that a message has.
///
/// # Safety
/// The message is a good one.
unsafe fn first_part(message: &msghdr) -> Option<(*mut c_void, size_t)> {
    if message.msg_iovlen == 0 || message.msg_iov.is_null() {
        return None;
    }
    // SAFETY: the caller's.
    let part = unsafe { message.msg_iov.read() };
    Some((part.iov_base, part.iov_len))
}

/// Receives a datagram by `call` into `data`, where `len` bytes have room.
///
/// # Safety
/// They have.
unsafe fn receives(
    socket: &Socket,
    data: *const c_void,
    len: size_t,
    flags: c_int,
    call: impl Fn() -> ssize_t,
) -> ssize_t {
    loop {
        let generation = socket.generation();
        let got = call();
        let is_end = got == 0 && (len > 0 || flags & libc::MSG_TRUNC != 0);
        if is_end || got < 0 && errno() == libc::ECONNRESET {
            if !socket.lost(generation) {
                return fail(libc::ECONNRESET) as ssize_t;
            }
            continue;
        }
        if got <= 0 || data.is_null() || flags & libc::MSG_PEEK != 0 {
            return got;
        }
        // SAFETY: the caller's; so many bytes were written.
        let datagram: &[u8] = unsafe { std::slice::from_raw_parts(data.cast(), len.min(got as usize)) };
        if wire::is_overrun(datagram) {
            return fail(libc::ENOBUFS) as ssize_t;
        }
        socket.heard(datagram);
        return got;
    }
}

/// Bytes of all parts of a message.
///
/// # Safety
/// The message is a good one.
unsafe fn whole_len(message: &msghdr) -> size_t {
    if message.msg_iov.is_null() {
        return 0;
    }
    // SAFETY: the caller's.
    let parts = unsafe { std::slice::from_raw_parts(message.msg_iov, message.msg_iovlen) };
    parts.iter().map(|part| part.iov_len).sum()
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recv(fd: c_int, data: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    let Some(socket) = find(fd) else {
        // SAFETY: the caller's.
        return unsafe { next::recv(fd, data, len, flags) };
    };
    // SAFETY: the caller's.
    unsafe { receives(socket, data, len, flags, || next::recv(fd, data, len, flags)) }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(fd: c_int, data: *mut c_void, len: size_t) -> ssize_t {
    if find(fd).is_some() {
        // SAFETY: the caller's.
        return unsafe { recv(fd, data, len, 0) };
    }
    // SAFETY: the caller's.
    unsafe { next::read(fd, data, len) }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    data: *mut c_void,
    len: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> ssize_t {
    if find(fd).is_none() {
        // SAFETY: the caller's.
        return unsafe { next::recvfrom(fd, data, len, flags, addr, addr_len) };
    }
    // SAFETY: the caller's.
    let got = unsafe { recv(fd, data, len, flags) };
    if got >= 0 {
        // SAFETY: the caller's.
        unsafe { put_addr(0, 0, addr, addr_len) };
    }
    got
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    let Some(socket) = find(fd).filter(|_| !message.is_null()) else {
        // SAFETY: the caller's.
        return unsafe { next::recvmsg(fd, message, flags) };
    };
    // SAFETY: the caller's.
    unsafe {
        let (name, room) = ((*message).msg_name, (*message).msg_namelen);
        let (data, len) = first_part(&*message).unwrap_or((std::ptr::null_mut(), 0));
        let got = receives(socket, data, len, flags, || next::recvmsg(fd, message, flags));
        if got >= 0 {
            (*message).msg_namelen = room;
            put_addr(0, 0, name.cast(), &raw mut (*message).msg_namelen);
        }
        got
    }
}

/// The form of [`recv`] that programs compiled with checks of their buffers call.
///
/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    data: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    if len > room {
        std::process::abort();
    }
    // SAFETY: the caller's.
    unsafe { recv(fd, data, len, flags) }
}

/// The form of [`recvfrom`] that programs compiled with checks of their buffers call.
///
/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    data: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> ssize_t {
    if len > room {
        std::process::abort();
    }
    // SAFETY: the caller's.
    unsafe { recvfrom(fd, data, len, flags, addr, addr_len) }
}
