// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who sits where at an endpoint, as the serving node knows it; what it writes to shared memory about that is for information only.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::endpoint::{Endpoint, NodeId, Role};
use crate::prim::Ordering;
use crate::region::{Region, RegionError};
use crate::wait::{Bell, Ear};

/// A process that has a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) lease: u32,
    pub(crate) pid: u32,
}

#[derive(Debug, Default)]
struct Seat {
    /// How many have had it.
    count: u64,
    holder: Option<Holder>,
}

/// An endpoint that is served.
#[derive(Debug)]
pub(crate) struct Seats {
    node: NodeId,
    pub(crate) endpoint: Endpoint,
    region: Region,
    sender: Seat,
    receiver: Seat,
    /// Rung by the sender.
    bell: Option<Bell>,
    /// What the receiver sleeps on.
    ear: Option<Ear>,
    /// Rung from here when something has changed. Nobody else has it, so nobody can make this one block.
    notice: Bell,
    /// The memory that the newest sender's packets are lent from. It stays when that has ended, for packets that still wait.
    pub(crate) lent: Option<OwnedFd>,
}

/// What a process gets with its seat.
pub(crate) struct Given<'a> {
    pub(crate) seat: u64,
    pub(crate) region: OwnedFd,
    pub(crate) other: Option<BorrowedFd<'a>>,
}

impl Seats {
    /// Makes an endpoint's memory.
    pub(crate) fn new(node: NodeId, endpoint: &Endpoint) -> Result<Seats, RegionError> {
        Ok(Seats {
            node,
            region: Region::make(node, 1, endpoint)?,
            endpoint: endpoint.clone(),
            sender: Seat::default(),
            receiver: Seat::default(),
            bell: None,
            ear: None,
            notice: Bell::new()?,
            lent: None,
        })
    }

    /// Whether only one process at a time can have the role.
    pub(crate) fn is_single(&self, role: Role) -> bool {
        role == Role::Sender || !self.endpoint.kind.is_published()
    }

    pub(crate) fn holder(&self, role: Role) -> Option<Holder> {
        self.seat(role).holder
    }

    /// The memory that packets are lent from, and which sender's it is.
    pub(crate) fn lent(&self) -> Option<(u64, BorrowedFd<'_>)> {
        self.lent.as_ref().map(|memory| (self.sender.count, memory.as_fd()))
    }

    fn seat(&self, role: Role) -> &Seat {
        match role {
            Role::Sender => &self.sender,
            Role::Receiver => &self.receiver,
        }
    }

    fn seat_mut(&mut self, role: Role) -> &mut Seat {
        match role {
            Role::Sender => &mut self.sender,
            Role::Receiver => &mut self.receiver,
        }
    }

    /// Makes the memory anew. Attached nodes are informed that the old one was given up, and have to attach again.
    pub(crate) fn reset(&mut self) -> Result<(), RegionError> {
        let next = Region::make(self.node, self.region.layout.generation + 1, &self.endpoint)?;
        self.region.words[self.region.layout.channels[0].given_up()].store(1, Ordering::Release);
        self.notice.ring();
        self.region = next;
        (self.sender.holder, self.receiver.holder) = (None, None);
        (self.bell, self.ear) = (None, None);
        Ok(())
    }

    /// Seats a process; the seat is free, or one of many.
    pub(crate) fn take(&mut self, role: Role, holder: Holder) -> std::io::Result<Given<'_>> {
        let rings = !self.endpoint.kind.is_published();
        match role {
            Role::Sender if rings => {
                // A new one each time: the sender before may have spoilt its own.
                let bell = Bell::new()?;
                if let Some(ear) = &self.ear {
                    ear.listen(&bell)?;
                }
                self.bell = Some(bell);
            }
            Role::Receiver if rings => {
                // A new one each time, or a receiver before that kept its own would take this one's rings away.
                let ear = Ear::new()?;
                ear.listen(&self.notice)?;
                if let Some(bell) = &self.bell {
                    ear.listen(bell)?;
                }
                self.ear = Some(ear);
            }
            Role::Sender | Role::Receiver => {}
        }
        let single = self.is_single(role);
        let seat = self.seat_mut(role);
        seat.count += 1;
        if single {
            seat.holder = Some(holder);
        }
        let number = seat.count;
        self.show(role);
        let region = match role {
            Role::Receiver if !rings => self.region.readable()?,
            Role::Sender | Role::Receiver => self.region.writable()?,
        };
        let other = match role {
            Role::Sender => self.bell.as_ref().map(|bell| bell.0.as_fd()),
            Role::Receiver => self.ear.as_ref().map(AsFd::as_fd),
        };
        Ok(Given { seat: number, region, other: other.filter(|_| rings) })
    }

    /// Frees a seat, if this lease has it.
    pub(crate) fn leave(&mut self, role: Role, lease: u32) {
        let seat = self.seat_mut(role);
        if seat.holder.is_some_and(|holder| holder.lease == lease) {
            seat.holder = None;
            self.show(role);
        }
    }

    /// Writes who sits where to shared memory, and wakes the receiver.
    fn show(&self, role: Role) {
        let channel = &self.region.layout.channels[0];
        let seat = self.seat(role);
        let shown = seat.count << 1 | u64::from(seat.holder.is_some());
        self.region.words[channel.seat(role)].store(shown, Ordering::Release);
        self.notice.ring();
    }
}
