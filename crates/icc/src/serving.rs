// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread of a serving node: takes connections, answers requests, frees the seats of who has gone. A client can make it hold a bounded
//! number of descriptors and nothing else; it never waits for one.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    self, RecvAncillaryBuffer, RecvAncillaryMessage, SendAncillaryBuffer, SendAncillaryMessage, SocketFlags,
};

use crate::endpoint::{NodeId, Role};
use crate::protocol::{REQUEST_BYTES, Reply, Request, Status, VERSION};
use crate::seats::{Holder, Seats};
use crate::server::Orders;

/// Connections in all.
const CONNECTIONS_MAX: usize = 128;
/// Connections of one user that is neither the superuser nor this process's.
const CONNECTIONS_OF_USER: usize = 16;
/// Seats that one connection may have.
const LEASES_MAX: usize = 128;

/// What the thread is asked to do by its own process.
#[derive(Debug)]
pub(crate) enum Command {
    /// Serves a connected socket.
    Join(OwnedFd),
    /// Ends.
    Stop,
}

/// A process on the other end, as the kernel attests it.
#[derive(Clone, Copy, Debug)]
struct Who {
    uid: u32,
    gid: u32,
    pid: u32,
}

#[derive(Debug)]
struct Client {
    socket: OwnedFd,
    who: Who,
    leases: Vec<Lease>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    id: u32,
    seats: usize,
    role: Role,
}

/// The state of the thread.
#[derive(Debug)]
pub(crate) struct Serving {
    id: NodeId,
    seats: Vec<Seats>,
    listener: Option<OwnedFd>,
    orders: Arc<Orders>,
    clients: Vec<Client>,
    last_lease: u32,
}

const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

impl Serving {
    pub(crate) fn new(
        id: NodeId,
        seats: Vec<Seats>,
        listener: Option<OwnedFd>,
        orders: Arc<Orders>,
    ) -> Serving {
        Serving { id, seats, listener, orders, clients: Vec::new(), last_lease: 0 }
    }

    pub(crate) fn run(mut self) {
        loop {
            let ready = self.wait();
            if ready.orders && self.obey() {
                return;
            }
            // From the end, so that numbers stay right when one goes.
            for client in ready.clients.into_iter().rev() {
                self.serve(client);
            }
            if ready.listener {
                self.accept();
            }
        }
    }

    fn wait(&self) -> Ready {
        let room = self.clients.len() < CONNECTIONS_MAX;
        let listener = self.listener.as_ref().filter(|_| room);
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(2 + self.clients.len());
        fds.push(PollFd::new(&self.orders.bell.0, PollFlags::IN));
        fds.extend(self.clients.iter().map(|client| PollFd::new(&client.socket, PollFlags::IN)));
        fds.extend(listener.map(|listener| PollFd::new(listener, PollFlags::IN)));
        if poll(&mut fds, None).is_err() {
            return Ready::default();
        }
        let at = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        let clients = (0..self.clients.len()).filter(|client| at(1 + client)).collect();
        Ready { orders: at(0), clients, listener: at(1 + self.clients.len()) }
    }

    /// Does what its own process asks; says whether it is to end.
    fn obey(&mut self) -> bool {
        // Only this thread reads it, and it was readable.
        let _ = rustix::io::read(&self.orders.bell.0, &mut [0; 8]);
        let commands = std::mem::take(&mut *self.orders.queue.lock().unwrap_or_else(PoisonError::into_inner));
        for command in commands {
            match command {
                Command::Join(socket) => self.join(socket),
                Command::Stop => return true,
            }
        }
        false
    }

    fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // If there are no descriptors left it stays in the queue; a moment's rest keeps this thread from spinning.
        match net::accept_with(listener, flags) {
            Ok(socket) => self.join(socket),
            Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE | rustix::io::Errno::NOMEM) => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            Err(_) => {}
        }
    }

    fn join(&mut self, socket: OwnedFd) {
        let Ok(cred) = net::sockopt::socket_peercred(&socket) else { return };
        let who = Who {
            uid: cred.uid.as_raw(),
            gid: cred.gid.as_raw(),
            pid: cred.pid.as_raw_nonzero().get().unsigned_abs(),
        };
        let own = [0, rustix::process::geteuid().as_raw()];
        let same = self.clients.iter().filter(|client| client.who.uid == who.uid).count();
        if own.contains(&who.uid) || same < CONNECTIONS_OF_USER {
            self.clients.push(Client { socket, who, leases: Vec::new() });
        }
    }

    /// Answers a client's request, or lets it go.
    fn serve(&mut self, client: usize) {
        // One byte more, so that a request which is too long is not taken for a whole one.
        let mut bytes = [0; REQUEST_BYTES + 1];
        let (request, memory) = match receive(&self.clients[client].socket, &mut bytes) {
            Ok((0, _)) => return self.forget(client),
            Ok((length, memory)) => (Request::decode(&bytes[..length.min(bytes.len())]), memory),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return,
            Err(_) => return self.forget(client),
        };
        let answered = match request {
            Ok(Request::Detach { lease }) => {
                self.detach(client, lease);
                true
            }
            Ok(Request::Attach { domain, role, reset, lends, endpoint, .. }) => {
                self.attach(client, domain, role, reset, (&endpoint, memory.filter(|_| lends)))
            }
            Ok(Request::Memory { lease }) => self.memory(client, lease),
            Err(status) => self.refuse(client, status, 0),
        };
        if !answered {
            self.forget(client);
        }
    }

    /// Answers a request to attach; says whether the client took the answer.
    fn attach(
        &mut self,
        client: usize,
        domain: u32,
        role: Role,
        reset: bool,
        (endpoint, memory): (&str, Option<OwnedFd>),
    ) -> bool {
        let who = self.clients[client].who;
        if domain != 0 && domain != self.id.domain {
            return self.refuse(client, Status::Domain, 0);
        }
        let Some(at) = self.find(endpoint) else { return self.refuse(client, Status::NoEndpoint, 0) };
        // One of many readers has no say in the writer's channel.
        let may_reset = !reset || self.seats[at].is_single(role);
        if !may_reset || !self.seats[at].endpoint.rights.allow(who.uid, who.gid, role) {
            return self.refuse(client, Status::Denied, 0);
        }
        if self.clients[client].leases.len() >= LEASES_MAX {
            return self.refuse(client, Status::TooMany, 0);
        }
        if self.seats[at].is_single(role)
            && let Some(holder) = self.seats[at].holder(role)
            && !self.is_gone(holder.lease)
            && !(reset && self.clients[client].leases.iter().any(|lease| lease.id == holder.lease))
        {
            return self.refuse(client, Status::Busy, holder.pid);
        }
        if reset && self.seats[at].reset().is_err() {
            return self.refuse(client, Status::System, 0);
        }
        if role == Role::Sender {
            // Who maps memory of another fills it with pages in its own name, so a stranger's is not passed on.
            let trusted = [0, rustix::process::geteuid().as_raw()].contains(&who.uid);
            self.seats[at].lent = memory.filter(|_| trusted);
        }
        self.last_lease = self.last_lease.wrapping_add(1);
        let id = self.last_lease;
        let reply = Reply { version: VERSION, status: 0, lease: id, seat: 0, node: self.id, pid: 0 };
        let Ok(given) = self.seats[at].take(role, Holder { lease: id, pid: who.pid }) else {
            self.seats[at].leave(role, id);
            return self.refuse(client, Status::System, 0);
        };
        let reply = Reply { seat: given.seat, ..reply };
        let fds: Vec<BorrowedFd<'_>> = std::iter::once(given.region.as_fd()).chain(given.other).collect();
        let sent = send(&self.clients[client].socket, &reply, &fds);
        self.clients[client].leases.push(Lease { id, seats: at, role });
        sent
    }

    /// Hands the memory that an endpoint's packets are lent from to its receiver.
    fn memory(&self, client: usize, lease: u32) -> bool {
        let leases = &self.clients[client].leases;
        let of = leases.iter().find(|l| l.id == lease && l.role == Role::Receiver);
        let Some((seat, memory)) = of.and_then(|lease| self.seats[lease.seats].lent()) else {
            return self.refuse(client, Status::NoMemory, 0);
        };
        let reply = Reply { version: VERSION, status: 0, lease, seat, node: self.id, pid: 0 };
        send(&self.clients[client].socket, &reply, &[memory])
    }

    fn find(&self, endpoint: &str) -> Option<usize> {
        let by_name = self.seats.iter().position(|s| s.endpoint.name == endpoint);
        by_name.or_else(|| {
            let port: u32 = endpoint.parse().ok()?;
            self.seats.iter().position(|s| s.endpoint.port == port)
        })
    }

    /// Whether the client that has this lease has closed its socket, and this thread has not come to notice.
    fn is_gone(&self, lease: u32) -> bool {
        let Some(client) = self.clients.iter().find(|c| c.leases.iter().any(|l| l.id == lease)) else {
            return true;
        };
        let mut fds = [PollFd::new(&client.socket, PollFlags::RDHUP)];
        poll(&mut fds, Some(&AT_ONCE)).is_ok()
            && fds[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR)
    }

    fn refuse(&self, client: usize, status: Status, pid: u32) -> bool {
        let reply = Reply { version: VERSION, status: status as u32, lease: 0, seat: 0, node: self.id, pid };
        send(&self.clients[client].socket, &reply, &[])
    }

    fn detach(&mut self, client: usize, lease: u32) {
        let leases = &mut self.clients[client].leases;
        if let Some(at) = leases.iter().position(|l| l.id == lease) {
            let Lease { id, seats, role } = leases.swap_remove(at);
            self.seats[seats].leave(role, id);
        }
    }

    /// Frees the seats of a client and closes its socket.
    fn forget(&mut self, client: usize) {
        for Lease { id, seats, role } in self.clients.swap_remove(client).leases {
            self.seats[seats].leave(role, id);
        }
    }
}

#[derive(Debug, Default)]
struct Ready {
    orders: bool,
    clients: Vec<usize>,
    listener: bool,
}

/// Receives a request, and the descriptor that came with it. Those for which there is no room are closed by the kernel.
fn receive(socket: &OwnedFd, bytes: &mut [u8]) -> rustix::io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = net::RecvFlags::DONTWAIT | net::RecvFlags::CMSG_CLOEXEC;
    let received = net::recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, flags)?;
    let fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    Ok((received.bytes, fds.flatten().next()))
}

fn send(socket: &OwnedFd, reply: &Reply, fds: &[BorrowedFd<'_>]) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return false;
    }
    let bytes = reply.encode();
    let flags = net::SendFlags::DONTWAIT | net::SendFlags::NOSIGNAL;
    net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, flags).is_ok()
}
