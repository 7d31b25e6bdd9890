// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection to the node that serves a domain, and the seats that are given back by it.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    self, RecvAncillaryBuffer, RecvAncillaryMessage, SendAncillaryBuffer, SendAncillaryMessage,
};

use crate::error::AttachError;
use crate::memory::Words;
use crate::prim::Ordering;
use crate::protocol::{REPLY_BYTES, Reply, Request, Status};
use crate::region::LentMemory;

/// How long a reply may take. The server answers at once if it lives.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Connection {
    /// Locked while a request waits for its reply.
    asking: Mutex<Asking>,
}

#[derive(Debug)]
struct Asking {
    /// Open as long as there are seats, even if nobody answers any more.
    socket: OwnedFd,
    /// Set once a reply was missed: the next one would be taken for another request's.
    lost: bool,
}

impl Connection {
    pub(crate) fn over(socket: OwnedFd) -> Connection {
        Connection { asking: Mutex::new(Asking { socket, lost: false }) }
    }

    /// Whether the server still runs.
    pub(crate) fn is_served(&self) -> bool {
        // Somebody who waits for a reply will find out.
        let Ok(asking) = self.asking.try_lock() else { return true };
        let mut fds = [PollFd::new(&asking.socket, PollFlags::empty())];
        let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        !asking.lost && !fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Sends a request and waits for its reply, and no longer than the server may take.
    pub(crate) fn ask(
        &self,
        request: &Request,
        memory: Option<BorrowedFd<'_>>,
    ) -> Result<(Reply, Vec<OwnedFd>), AttachError> {
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        if asking.lost {
            return Err(AttachError::Lost("did not answer before"));
        }
        let answer = converse(&asking.socket, request, memory);
        asking.lost = answer.is_err();
        answer
    }
}

/// Sends a request, with a descriptor if there is one.
fn say(socket: &OwnedFd, request: &Request, memory: Option<BorrowedFd<'_>>) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let memory: Vec<BorrowedFd<'_>> = memory.into_iter().collect();
    if !memory.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&memory));
    }
    let flags = net::SendFlags::NOSIGNAL | net::SendFlags::DONTWAIT;
    net::sendmsg(socket, &[std::io::IoSlice::new(&request.encode())], &mut ancillary, flags)
}

fn converse(
    socket: &OwnedFd,
    request: &Request,
    memory: Option<BorrowedFd<'_>>,
) -> Result<(Reply, Vec<OwnedFd>), AttachError> {
    say(socket, request, memory).map_err(|_| AttachError::Lost("has ended"))?;
    let limit = Timespec { tv_sec: PATIENCE.as_secs() as _, tv_nsec: 0 };
    loop {
        let mut fds = [PollFd::new(socket, PollFlags::IN)];
        match poll(&mut fds, Some(&limit)) {
            Ok(0) => return Err(AttachError::Lost("does not answer")),
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(why) => return Err(AttachError::System(why.into())),
        }
    }
    let (mut bytes, mut space) =
        ([0; REPLY_BYTES], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))]);
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut into = [std::io::IoSliceMut::new(&mut bytes)];
    let flags = net::RecvFlags::CMSG_CLOEXEC | net::RecvFlags::DONTWAIT;
    let received =
        net::recvmsg(socket, &mut into, &mut ancillary, flags).map_err(|_| AttachError::Lost("has ended"))?;
    let fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds: Vec<OwnedFd> = fds.flatten().collect();
    if received.bytes == 0 {
        return Err(AttachError::Lost("has ended"));
    }
    let reply = Reply::decode(&bytes[..received.bytes.min(REPLY_BYTES)]);
    Ok((reply.ok_or(AttachError::Lost("answers with something else"))?, fds))
}

/// The seat of an end in a file; free again when this is dropped.
#[derive(Debug)]
pub(crate) struct FileSeat {
    pub(crate) words: Words,
    pub(crate) at: usize,
    pub(crate) number: u64,
}

impl Drop for FileSeat {
    fn drop(&mut self) {
        let seat = &self.words[self.at];
        // Not if somebody else has taken it over meanwhile.
        let _ = seat.compare_exchange(
            self.number << 1 | 1,
            self.number << 1,
            Ordering::Release,
            Ordering::Relaxed,
        );
    }
}

/// A seat that is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Lease(
    Option<(Arc<Connection>, u32)>,
    #[allow(dead_code, reason = "dropped")] Option<FileSeat>,
);

impl Lease {
    /// A seat in a file.
    pub(crate) fn of_file(seat: FileSeat) -> Lease {
        Lease(None, Some(seat))
    }

    /// What a receiver asks for the memory of lent packets by; none in a file.
    pub(crate) fn memory_request(&self) -> Option<MemoryRequest> {
        let (connection, lease) = self.0.as_ref()?;
        Some(MemoryRequest { connection: connection.clone(), lease: *lease })
    }

    /// A seat that the server gave under this number.
    pub(crate) fn of_server(connection: Arc<Connection>, lease: u32) -> Lease {
        Lease(Some((connection, lease)), None)
    }

    /// Nothing to give back.
    pub(crate) fn none() -> Lease {
        Lease(None, None)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some((connection, lease)) = &self.0 {
            let asking = connection.asking.lock().unwrap_or_else(PoisonError::into_inner);
            let flags = net::SendFlags::NOSIGNAL | net::SendFlags::DONTWAIT;
            // A server that has ended has no seats any more.
            let _ = net::send(&asking.socket, &Request::Detach { lease: *lease }.encode(), flags);
        }
    }
}

/// The question of a receiver for the memory that its packets are lent from. It waits for an answer, so a user plane asks it on another thread.
#[derive(Clone, Debug)]
pub struct MemoryRequest {
    connection: Arc<Connection>,
    lease: u32,
}

impl MemoryRequest {
    /// Asks: the memory and the seat of the sender that lends from it, if it lends.
    ///
    /// # Errors
    /// The node that serves has ended, or the memory is not safe to map.
    pub fn ask(&self) -> Result<Option<(u64, LentMemory)>, AttachError> {
        let (reply, fds) = self.connection.ask(&Request::Memory { lease: self.lease }, None)?;
        let memory = fds.first().filter(|_| reply.status == Status::Attached as u32);
        Ok(memory
            .map(|memory| LentMemory::map(memory.as_fd()))
            .transpose()?
            .map(|memory| (reply.seat, memory)))
    }
}
