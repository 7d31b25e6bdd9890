// SPDX-License-Identifier: MIT OR Apache-2.0
//! Open descriptors that go from one process to another, over a Unix socket (SCM_RIGHTS, unix(7)).

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, IntoRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::FdFlags;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, recvmsg, sendmsg, sendmsg_addr,
};

/// The longest names in a message, in bytes.
const NAMES: usize = 1 << 18;
/// Descriptors in a message, at most.
pub const MOST: usize = 200;
/// The first descriptor that a program inherits (sd_listen_fds(3)).
pub(crate) const FIRST: i32 = 3;

/// Sends bytes and descriptors, to an address if the socket has no peer. At most [`MOST`] go.
pub(crate) fn send(
    socket: impl AsFd,
    to: Option<&SocketAddrUnix>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("too many descriptors"));
    }
    let bytes = [IoSlice::new(bytes)];
    let flags = flags | SendFlags::NOSIGNAL;
    match to {
        Some(to) => sendmsg_addr(socket, to, &bytes, &mut ancillary, flags)?,
        None => sendmsg(socket, &bytes, &mut ancillary, flags)?,
    };
    Ok(())
}

/// Receives bytes and descriptors, which close when another program is started.
pub(crate) fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds = fds.flatten().collect();
    Ok((received.bytes, fds))
}

/// A descriptor with its name.
pub type Named = (String, OwnedFd);

/// Sends descriptors with their names, of which none has a line break. At most [`MOST`] go.
///
/// # Errors
/// The other end is closed.
pub fn send_named(mut socket: &UnixStream, named: &[Named]) -> io::Result<()> {
    let named = &named[..named.len().min(MOST)];
    let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
    let (names, fds) = (names.join("\n"), named.iter().map(|(_, fd)| fd.as_fd()).collect::<Vec<_>>());
    send(socket, None, &(names.len() as u64).to_le_bytes(), &fds, SendFlags::empty())?;
    socket.write_all(names.as_bytes())
}

/// Receives what [`send_named`] sends.
///
/// # Errors
/// The other end is closed, or sends something else.
pub fn receive_named(mut socket: &UnixStream) -> io::Result<Vec<Named>> {
    let mut length = [0; 8];
    let (_, fds) = receive(socket, &mut length)?;
    let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
    let mut names = vec![0; length.min(NAMES)];
    socket.read_exact(&mut names)?;
    let names = String::from_utf8_lossy(&names).into_owned();
    Ok(names.split('\n').map(str::to_owned).zip(fds).collect())
}

/// Leaves descriptors to the program that takes this process's place, from [`FIRST`] on.
///
/// # Errors
/// Another descriptor is in the way.
pub(crate) fn leave(fds: Vec<OwnedFd>) -> io::Result<()> {
    let above = FIRST + fds.len() as i32;
    let aside: Vec<OwnedFd> =
        fds.into_iter().map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, above)).collect::<Result<_, _>>()?;
    for (fd, place) in aside.iter().zip(FIRST..) {
        let placed = rustix::io::fcntl_dupfd_cloexec(fd, place)?;
        if placed.as_raw_fd() != place {
            return Err(io::Error::other(format!("descriptor {place} is in use")));
        }
        rustix::io::fcntl_setfd(&placed, FdFlags::empty())?;
        // Open until the program closes it.
        let _ = placed.into_raw_fd();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_arrive_with_their_message() {
        let (a, b) = UnixStream::pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        send(&a, None, b"two", &[writer.as_fd(), a.as_fd()], SendFlags::empty()).unwrap();
        drop(writer);
        let mut bytes = [0; 16];
        let (length, mut fds) = receive(&b, &mut bytes).unwrap();
        assert_eq!((&bytes[..length], fds.len()), (&b"two"[..], 2));
        std::fs::File::from(fds.remove(0)).write_all(b"through").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
        send(&a, None, b"none", &[], SendFlags::empty()).unwrap();
        assert_eq!(receive(&b, &mut bytes).unwrap().1.len(), 0);
    }

    #[test]
    fn names_arrive_with_their_descriptors() {
        let (a, b) = UnixStream::pair().unwrap();
        for count in [0, 1, MOST, MOST + 1] {
            let null = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
            let named: Vec<Named> = (0..count).map(|n| (format!("tap/{n}"), null())).collect();
            send_named(&a, &named).unwrap();
            let names: Vec<String> = receive_named(&b).unwrap().into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, (0..count.min(MOST)).map(|n| format!("tap/{n}")).collect::<Vec<_>>());
        }
    }
}
