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

/// The longest names of a hand-over, in bytes.
const NAMES: usize = 1 << 20;
/// Descriptors in one message. The kernel takes at most 253 (`SCM_MAX_FD`, unix(7)).
const TOGETHER: usize = 200;
/// Descriptors of a hand-over, at most: those of all planes of a deployment.
pub const MOST: usize = 4096;
/// The first descriptor that a program inherits (sd_listen_fds(3)).
pub(crate) const FIRST: i32 = 3;

/// Sends bytes and descriptors, to an address if the socket has no peer. More than [`TOGETHER`] are an error.
pub(crate) fn send(
    socket: impl AsFd,
    to: Option<&SocketAddrUnix>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(TOGETHER))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let is_too_much = fds.len() > TOGETHER;
    if is_too_much || (!fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds))) {
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
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(TOGETHER))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds = fds.flatten().collect();
    Ok((received.bytes, fds))
}

/// Sends a text and descriptors over a stream. The text says how many descriptors there are.
///
/// The first message has the text's length and the first descriptors. Behind the text come the others, each message with a byte of its own. A receiver of
/// an older program takes the first message and the text alone.
pub(crate) fn send_with_text(mut socket: &UnixStream, text: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let (first, rest) = fds.split_at(fds.len().min(TOGETHER));
    send(socket, None, &(text.len() as u64).to_le_bytes(), first, SendFlags::empty())?;
    socket.write_all(text)?;
    rest.chunks(TOGETHER).try_for_each(|fds| send(socket, None, &[0], fds, SendFlags::empty()))
}

/// Receives what [`send_with_text`] sends. `count` reads from the text how many descriptors there are.
///
/// Fewer descriptors come if this process may have no more. Then those that came are the first ones.
pub(crate) fn receive_with_text<T>(
    mut socket: &UnixStream,
    longest: usize,
    count: impl FnOnce(&[u8], usize) -> io::Result<(T, usize)>,
) -> io::Result<(T, Vec<OwnedFd>)> {
    let mut length = [0; 8];
    let (mut received, mut fds) = receive(socket, &mut length)?;
    while received < length.len() {
        match socket.read(&mut length[received..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => received += more,
        }
    }
    let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > longest {
        return Err(io::Error::other(format!("a text of {length} bytes; at most {longest} are read")));
    }
    let mut text = vec![0; length];
    socket.read_exact(&mut text)?;
    let (read, count) = count(&text, fds.len())?;
    let count = count.min(MOST);
    // A message that is cut short has lost its last descriptors. Those of the next ones would get wrong names.
    while fds.len() < count && fds.len() % TOGETHER == 0 && !fds.is_empty() {
        let (bytes, more) = receive(socket, &mut [0])?;
        if bytes == 0 || more.is_empty() {
            break;
        }
        fds.extend(more);
    }
    fds.truncate(count);
    Ok((read, fds))
}

/// A descriptor with its name.
pub type Named = (String, OwnedFd);

/// Descriptors that came from another process.
#[derive(Debug)]
pub struct Received {
    /// Those that came.
    pub named: Vec<Named>,
    /// Names of those that did not: this process may have no more.
    pub missing: Vec<String>,
}

/// Sends descriptors with their names, of which none has a line break.
///
/// # Errors
/// The other end is closed, or there are more than [`MOST`].
pub fn send_named(socket: &UnixStream, named: &[Named]) -> io::Result<()> {
    let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
    let (names, fds) = (names.join("\n"), named.iter().map(|(_, fd)| fd.as_fd()).collect::<Vec<_>>());
    if fds.len() > MOST || names.len() > NAMES {
        return Err(io::Error::other(format!("{} descriptors; at most {MOST} are handed over", fds.len())));
    }
    send_with_text(socket, names.as_bytes(), &fds)
}

/// Receives what [`send_named`] sends.
///
/// # Errors
/// The other end is closed, or sends something else.
pub fn receive_named(socket: &UnixStream) -> io::Result<Received> {
    let read = |text: &[u8], came: usize| {
        let text = String::from_utf8_lossy(text).into_owned();
        // One descriptor may have an empty name.
        let is_none = text.is_empty() && came == 0;
        let names: Vec<String> = match is_none {
            true => Vec::new(),
            false => text.split('\n').map(str::to_owned).collect(),
        };
        let count = names.len();
        Ok((names, count))
    };
    let (mut names, fds) = receive_with_text(socket, NAMES, read)?;
    let missing = names.split_off(fds.len().min(names.len()));
    Ok(Received { named: names.into_iter().zip(fds).collect(), missing })
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
    fn all_names_arrive_with_their_descriptors() {
        let (a, b) = UnixStream::pair().unwrap();
        // Each is another pipe, so that a wrong name shows.
        for count in [0, 1, TOGETHER, TOGETHER + 1, 450] {
            let (readers, named): (Vec<_>, Vec<Named>) = (0..count)
                .map(|n| {
                    let (reader, writer) = std::io::pipe().unwrap();
                    (reader, (format!("tap/{n}"), OwnedFd::from(writer)))
                })
                .unzip();
            send_named(&a, &named).unwrap();
            drop(named);
            let Received { named, missing } = receive_named(&b).unwrap();
            assert_eq!((named.len(), missing.len()), (count, 0));
            for ((name, fd), (n, mut reader)) in named.into_iter().zip(readers.into_iter().enumerate()) {
                assert_eq!(name, format!("tap/{n}"));
                std::fs::File::from(fd).write_all(name.as_bytes()).unwrap();
                let mut through = String::new();
                reader.read_to_string(&mut through).unwrap();
                assert_eq!(through, name);
            }
        }
    }

    #[test]
    fn what_is_too_much_is_an_error() {
        let (a, b) = UnixStream::pair().unwrap();
        send(&a, None, &u64::MAX.to_le_bytes(), &[], SendFlags::empty()).unwrap();
        assert!(receive_named(&b).unwrap_err().to_string().contains("at most"));
        let null = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let many: Vec<BorrowedFd<'_>> = std::iter::repeat_n(null.as_fd(), TOGETHER + 1).collect();
        assert!(send(&a, None, b"x", &many, SendFlags::empty()).is_err());
        // An older program sends names of more descriptors than it sends.
        let names = (0..=TOGETHER).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
        send(&a, None, &(names.len() as u64).to_le_bytes(), &many[1..], SendFlags::empty()).unwrap();
        (&a).write_all(names.as_bytes()).unwrap();
        a.shutdown(std::net::Shutdown::Write).unwrap();
        let Received { named, missing } = receive_named(&b).unwrap();
        assert_eq!((named.len(), missing), (TOGETHER, vec![TOGETHER.to_string()]));
    }
}
