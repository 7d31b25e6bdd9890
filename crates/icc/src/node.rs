// SPDX-License-Identifier: MIT OR Apache-2.0
//! A node that attaches to endpoints which another one serves.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

use crate::blocks::{BlockReader, BlockWriter};
use crate::channel::{Link, Seated};
use crate::connection::{Connection, Lease};
use crate::counters::{CounterReader, CounterWriter};
use crate::endpoint::{ChannelKind, NodeId, Role};
use crate::error::AttachError;
use crate::layout::{Channel, Layout};
use crate::memory::ReadOnly;
use crate::messages::{Receiver, Sender};
use crate::packets::{PacketReceiver, PacketSender};
use crate::protocol::{Reply, Request, Status, address};
use crate::region;
use crate::scalars::{ScalarReceiver, ScalarSender};
use crate::wait::{Bell, Ear};

/// A connection to the node that serves a domain. Ends that were attached by it keep it open; when the last one goes, so does it, and the
/// server gives all seats to others.
#[derive(Clone, Debug)]
pub struct Node {
    connection: Arc<Connection>,
    id: NodeId,
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
            net::connect(&socket, &address(path)?)?;
            Ok(socket)
        };
        let socket =
            reach().map_err(|why| AttachError::Unreachable(path.display().to_string(), why.into()))?;
        Ok(Node::over(socket, id))
    }

    /// Uses a socket that is connected already, such as one that a parent process handed down (`Domain::socket`).
    pub fn over(socket: OwnedFd, id: NodeId) -> Node {
        Node { connection: Arc::new(Connection::over(socket)), id }
    }

    /// Whether the node that serves the domain still runs. If not, channels go on between those who have them, but nobody can be replaced: connect
    /// again when it is back.
    pub fn is_served(&self) -> bool {
        self.connection.is_served()
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
    /// The receiver can read all of it.
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
        Lease::of_server(self.connection.clone(), lease)
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
