// SPDX-License-Identifier: MIT OR Apache-2.0
//! A node that attaches to endpoints which another one serves.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, SendAncillaryBuffer,
    SendAncillaryMessage, SocketFlags, SocketType,
};

use crate::blocks::{BlockReader, BlockWriter};
use crate::channel::{ChannelError, Link, Seated};
use crate::counters::{CounterReader, CounterWriter};
use crate::endpoint::{ChannelKind, NodeId, Role};
use crate::layout::{Channel, Layout, LayoutError};
use crate::memory::ReadOnly;
use crate::messages::{Receiver, Sender};
use crate::packets::{PacketReceiver, PacketSender};
use crate::protocol::{REPLY_BYTES, Reply, Request, Status};
use crate::region::{self, LentMemory, RegionError};
use crate::scalars::{ScalarReceiver, ScalarSender};
use crate::wait::{Bell, Ear};

/// How long a reply may take. The server answers at once if it lives.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a node could not attach.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// Nobody serves there.
    #[error("cannot reach the domain at {0}: {1}; is the node that serves it running?")]
    Unreachable(String, std::io::Error),
    /// The node that served has ended or answers nonsense.
    #[error("the node that serves the domain {0}")]
    Lost(&'static str),
    /// Another release.
    #[error("the node that serves the domain speaks version {0}, this program version {own}: use the same release of Junctor on both sides", own = crate::protocol::VERSION)]
    Version(u32),
    /// Another domain.
    #[error("that is domain {found}, not {wanted}")]
    Domain {
        /// What is there.
        found: u32,
        /// What was asked for.
        wanted: u32,
    },
    /// No such endpoint.
    #[error("node {0} has no endpoint '{1}'")]
    NoEndpoint(NodeId, String),
    /// The endpoint's rights forbid it.
    #[error("this user may not be {role} at endpoint '{endpoint}'; the endpoint's rights say who may")]
    Denied {
        /// The endpoint.
        endpoint: String,
        /// The role.
        role: &'static str,
    },
    /// Somebody else has the seat.
    #[error("endpoint '{endpoint}' has a {role} already, process {pid}")]
    Busy {
        /// The endpoint.
        endpoint: String,
        /// The role.
        role: &'static str,
        /// The process that has it.
        pid: u32,
    },
    /// It carries something else.
    #[error("endpoint '{endpoint}' carries {found}, not {wanted}")]
    Kind {
        /// The endpoint.
        endpoint: String,
        /// What it carries.
        found: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
    /// Too many attachments.
    #[error("the node that serves the domain takes no more attachments")]
    TooMany,
    /// The region is not usable.
    #[error("{0}")]
    Layout(#[from] LayoutError),
    /// The region's descriptor is not safe to map.
    #[error("the region's size is not sealed, so it is not safe to map")]
    NotSealed,
    /// The ring was left damaged.
    #[error("{0}")]
    Channel(#[from] ChannelError),
    /// The kernel refused.
    #[error("{0}")]
    System(#[from] std::io::Error),
}

impl From<RegionError> for AttachError {
    fn from(why: RegionError) -> AttachError {
        match why {
            RegionError::Layout(why) => AttachError::Layout(why),
            RegionError::System(why) => AttachError::System(why),
            RegionError::NotSealed => AttachError::NotSealed,
        }
    }
}

/// A connection to the node that serves a domain. Ends that were attached by it keep it open; when the last one goes, so does it, and the
/// server gives all seats to others.
#[derive(Clone, Debug)]
pub struct Node {
    connection: Arc<Connection>,
    id: NodeId,
}

#[derive(Debug)]
struct Connection {
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

/// A seat that is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Lease(
    Option<(Arc<Connection>, u32)>,
    #[allow(dead_code, reason = "dropped")] Option<crate::file::Seat>,
);

impl Lease {
    /// A seat in a file.
    pub(crate) fn of_file(seat: crate::file::Seat) -> Lease {
        Lease(None, Some(seat))
    }

    /// What a receiver asks for the memory of lent packets by; none in a file.
    pub(crate) fn memory_request(&self) -> Option<MemoryRequest> {
        let (connection, lease) = self.0.as_ref()?;
        Some(MemoryRequest { connection: connection.clone(), lease: *lease })
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

/// What an attachment brings.
struct Attached {
    region: OwnedFd,
    other: Option<OwnedFd>,
    reply: Reply,
}

impl Node {
    /// Connects to the domain that is served at `path` (`@NAME` for a name without a file), as node `id`. Domain 0 stands for any.
    ///
    /// # Errors
    /// [`AttachError::Unreachable`].
    pub fn connect(path: impl AsRef<Path>, id: NodeId) -> Result<Node, AttachError> {
        let path = path.as_ref();
        let reach = || -> rustix::io::Result<OwnedFd> {
            let socket =
                net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
            net::connect(&socket, &crate::server::address(path)?)?;
            Ok(socket)
        };
        let socket =
            reach().map_err(|why| AttachError::Unreachable(path.display().to_string(), why.into()))?;
        Ok(Node::over(socket, id))
    }

    /// Uses a socket that is connected already, such as one that a parent process handed down (`Domain::socket`).
    pub fn over(socket: OwnedFd, id: NodeId) -> Node {
        Node { connection: Arc::new(Connection { asking: Mutex::new(Asking { socket, lost: false }) }), id }
    }

    /// Whether the node that serves the domain still runs. If not, channels go on between those who have them, but nobody can be replaced: connect
    /// again when it is back.
    pub fn is_served(&self) -> bool {
        // Somebody who waits for a reply will find out.
        let Ok(asking) = self.connection.asking.try_lock() else { return true };
        let mut fds = [PollFd::new(&asking.socket, PollFlags::empty())];
        let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        !asking.lost && !fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Attaches as the sender of messages at an endpoint, given by name or number.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn sender(&self, endpoint: &str) -> Result<Sender, AttachError> {
        Ok(Sender::new(self.link(endpoint, Role::Sender, "messages")?)?)
    }

    /// Attaches as the receiver of messages.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn receiver(&self, endpoint: &str) -> Result<Receiver, AttachError> {
        Ok(Receiver::new(self.link(endpoint, Role::Receiver, "messages")?))
    }

    /// Attaches as the sender of scalars.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn scalar_sender(&self, endpoint: &str) -> Result<ScalarSender, AttachError> {
        Ok(ScalarSender::new(self.link(endpoint, Role::Sender, "scalars")?)?)
    }

    /// Attaches as the receiver of scalars.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn scalar_receiver(&self, endpoint: &str) -> Result<ScalarReceiver, AttachError> {
        Ok(ScalarReceiver::new(self.link(endpoint, Role::Receiver, "scalars")?))
    }

    /// Attaches as the sender of packets.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn packet_sender<T: AsRef<[u8]>>(&self, endpoint: &str) -> Result<PacketSender<T>, AttachError> {
        Ok(PacketSender::new(self.link(endpoint, Role::Sender, "packets")?)?)
    }

    /// Attaches as the sender of packets, which can be lent from a memory file. Its size must be sealed, and the descriptor should be one for reading only.
    /// Whoever receives can read all of it.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn packet_lender<T: AsRef<[u8]>>(
        &self,
        endpoint: &str,
        memory: BorrowedFd<'_>,
    ) -> Result<PacketSender<T>, AttachError> {
        Ok(PacketSender::new(self.link_lending(endpoint, Role::Sender, "packets", Some(memory))?)?)
    }

    /// Attaches as the receiver of packets.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn packet_receiver(&self, endpoint: &str) -> Result<PacketReceiver, AttachError> {
        let mut receiver = PacketReceiver::new(self.link(endpoint, Role::Receiver, "packets")?);
        if let Some(request) = receiver.memory_request()
            && let Some((seat, memory)) = request.ask()?
        {
            receiver.learn(seat, memory);
        }
        Ok(receiver)
    }

    /// Attaches as the writer of counters.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn counter_writer(&self, endpoint: &str) -> Result<CounterWriter, AttachError> {
        Ok(CounterWriter::new(self.link(endpoint, Role::Sender, "counters")?))
    }

    /// Attaches as a reader of counters.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn counter_reader(&self, endpoint: &str) -> Result<CounterReader, AttachError> {
        let (layout, words, lease) = self.read(endpoint)?;
        Ok(CounterReader::new(words, only(&layout, endpoint, "counters")?, lease))
    }

    /// Attaches as the writer of blocks.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn block_writer(&self, endpoint: &str) -> Result<BlockWriter, AttachError> {
        Ok(BlockWriter::new(self.link(endpoint, Role::Sender, "blocks")?))
    }

    /// Attaches as a reader of blocks.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn block_reader(&self, endpoint: &str) -> Result<BlockReader, AttachError> {
        let (layout, words, lease) = self.read(endpoint)?;
        Ok(BlockReader::new(words, only(&layout, endpoint, "blocks")?, lease))
    }

    /// Attaches as one of many readers.
    fn read(&self, endpoint: &str) -> Result<(Layout, ReadOnly, Lease), AttachError> {
        let Attached { region, reply, .. } = self.attach(endpoint, Role::Receiver, false)?;
        let lease = self.lease(reply.lease);
        let (layout, words) = region::map_to_read(region.as_fd())?;
        Ok((layout, words, lease))
    }

    /// Makes an endpoint anew, empty: for one of its sides that found the channel damaged. The other side's end is given up. The seat is free afterwards.
    ///
    /// # Errors
    /// See [`AttachError`]; the seat in this role must be free, or this node's own.
    pub fn reset(&self, endpoint: &str, role: Role) -> Result<(), AttachError> {
        let attached = self.attach(endpoint, role, true)?;
        drop(self.lease(attached.reply.lease));
        Ok(())
    }

    fn lease(&self, lease: u32) -> Lease {
        Lease(Some((self.connection.clone(), lease)), None)
    }

    fn link(&self, endpoint: &str, role: Role, wanted: &'static str) -> Result<Link, AttachError> {
        self.link_lending(endpoint, role, wanted, None)
    }

    fn link_lending(
        &self,
        endpoint: &str,
        role: Role,
        wanted: &'static str,
        memory: Option<BorrowedFd<'_>>,
    ) -> Result<Link, AttachError> {
        let Attached { region, other, reply } = self.attach_lending(endpoint, role, false, memory)?;
        let lease = self.lease(reply.lease);
        let (layout, words) = region::map(region.as_fd())?;
        let channel = only(&layout, endpoint, wanted)?.clone();
        let (bell, ear) = match role {
            Role::Sender => (other.map(Bell), None),
            Role::Receiver => (None, other.map(Ear)),
        };
        if role == Role::Receiver {
            region::lock(region.as_fd());
        }
        let seated = Seated { role, seat: reply.seat, bell, ear, lease, region: Some(region) };
        Ok(Link::new(words, channel, seated))
    }

    fn attach(&self, endpoint: &str, role: Role, reset: bool) -> Result<Attached, AttachError> {
        self.attach_lending(endpoint, role, reset, None)
    }

    fn attach_lending(
        &self,
        endpoint: &str,
        role: Role,
        reset: bool,
        memory: Option<BorrowedFd<'_>>,
    ) -> Result<Attached, AttachError> {
        let NodeId { domain, node } = self.id;
        let (lends, name) = (memory.is_some(), endpoint.to_owned());
        let request = Request::Attach { domain, node, role, reset, lends, endpoint: name };
        let (reply, mut fds) = self.connection.ask(&request, memory)?;
        let (name, role) = (endpoint.to_owned(), role.name());
        let refusal = match reply.status {
            s if s == Status::Attached as u32 => {
                let mut fds = fds.drain(..);
                let region = fds.next().ok_or(AttachError::Lost("sent no memory"))?;
                return Ok(Attached { region, other: fds.next(), reply });
            }
            s if s == Status::Version as u32 => AttachError::Version(reply.version),
            s if s == Status::Domain as u32 => {
                AttachError::Domain { found: reply.node.domain, wanted: domain }
            }
            s if s == Status::NoEndpoint as u32 => AttachError::NoEndpoint(reply.node, name),
            s if s == Status::Denied as u32 => AttachError::Denied { endpoint: name, role },
            s if s == Status::Busy as u32 => AttachError::Busy { endpoint: name, role, pid: reply.pid },
            s if s == Status::TooMany as u32 => AttachError::TooMany,
            s if s == Status::System as u32 => AttachError::Lost("has no memory or no descriptors left"),
            _ => AttachError::Lost("did not understand the request"),
        };
        Err(refusal)
    }
}

/// The one endpoint of a region, if it is of this kind.
fn only<'a>(layout: &'a Layout, endpoint: &str, wanted: &'static str) -> Result<&'a Channel, AttachError> {
    let [channel] = layout.channels.as_slice() else {
        return Err(AttachError::Lost("sent a region of several endpoints"));
    };
    of_kind(channel, endpoint, wanted)
}

/// The channel, if it is of this kind.
pub(crate) fn of_kind<'a>(
    channel: &'a Channel,
    endpoint: &str,
    wanted: &'static str,
) -> Result<&'a Channel, AttachError> {
    let found = ChannelKind::name(channel.kind);
    if found == wanted {
        return Ok(channel);
    }
    Err(AttachError::Kind { endpoint: endpoint.to_owned(), found, wanted })
}

impl Connection {
    /// Sends a request and waits for its reply, and no longer than the server may take.
    fn ask(
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
