// SPDX-License-Identifier: MIT OR Apache-2.0
//! The traits of a port: what the elements of input and output ask of a device.
//!
//! A device is opened by name through a [`Provider`], once for all elements that name it. Each of its receive and
//! transmit queues is then taken by one worker and never shared. Devices are non-blocking: a queue with nothing to
//! do says so, and a worker with nothing to do anywhere waits on the queues' descriptors.

use std::fmt;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::Batch;
use crate::filter::Filter;

/// What an element asks for when it opens a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// The device's name: a network interface, or what else the provider knows.
    pub device: String,
    /// The driver to use (`AF_XDP`, `AF_PACKET`, `TAP`, ...); `None` lets the provider choose the best that works.
    pub method: Option<String>,
    /// Receive queues wanted; `None` means all.
    pub queues: Option<usize>,
    /// Receive frames addressed to others.
    pub promiscuous: bool,
    /// Leave the kernel its own copy of what is received, as a sniffer does. `None`: the driver's own way.
    pub sniffer: Option<bool>,
    /// Only packets that a filter accepts are wanted: a driver whose kernel runs filters suits best.
    pub filtered: bool,
    /// Receive packets of BFD by a ring of their own, and before others. The kernel's protocols get them only if `sniffer` says so. Drivers that cannot have
    /// two rings have one for all.
    pub urgent: bool,
    /// Receive also the frames that this host sends.
    pub outbound: bool,
    /// Bytes of each frame to receive at most; 0 means whole frames.
    pub snaplen: usize,
    /// Headroom in bytes before each received frame.
    pub headroom: usize,
    /// Further driver settings, `KEY value` as the element was given them.
    pub settings: Vec<(String, String)>,
}

/// Names of drivers, for [`Spec::method`]; compared without regard to case.
pub mod method {
    /// AF_XDP on the driver's own hook, zero-copy when the driver offers it.
    pub const AF_XDP: &str = "AF_XDP";
    /// AF_XDP on the kernel's generic hook, for drivers that have none.
    pub const AF_XDP_GENERIC: &str = "AF_XDP_GENERIC";
    /// A packet socket. Click's names `LINUX` and `PCAP` mean the same here.
    pub const AF_PACKET: &str = "AF_PACKET";
    /// A kernel Ethernet tap, made when it does not exist.
    pub const TAP: &str = "TAP";
    /// A kernel IP tunnel interface, made when it does not exist.
    pub const TUN: &str = "TUN";
    /// A raw IPv4 socket, for the protocol in the setting PROTOCOL.
    pub const RAW_IP: &str = "RAW_IP";
    /// A named wire in this process. `NAME/END` names one end; bare `NAME` makes a new end at each open.
    pub const MEMORY: &str = "MEMORY";
    /// A packet channel to another plane, by its endpoint; with the setting [`PLANE_SENDS`] its sending direction.
    pub const PLANE: &str = "PLANE";
    /// See [`PLANE`].
    pub const PLANE_SENDS: &str = "SENDS";
    /// A capture file: its receive queue reads it, its transmit queue writes it.
    pub const FILE: &str = "FILE";
}

/// Link-layer types as capture files number them, for [`Device::link_type`].
pub mod link_type {
    /// BSD loopback: four bytes of address family in the writer's byte order, then the packet.
    pub const NULL: u32 = 0;
    /// Ethernet.
    pub const ETHERNET: u32 = 1;
    /// An IPv4 or IPv6 packet without link header.
    pub const RAW: u32 = 101;
    /// Linux "cooked" capture, 16-byte header.
    pub const LINUX_SLL: u32 = 113;
    /// An IPv4 packet without link header.
    pub const IPV4: u32 = 228;
    /// An IPv6 packet without link header.
    pub const IPV6: u32 = 229;
    /// Linux "cooked" capture version 2, 20-byte header.
    pub const LINUX_SLL2: u32 = 276;
}

/// What a device is, as far as its driver knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// The device's name.
    pub name: String,
    /// Driver, mode and why: printed at start, `af_xdp native copy (zero-copy refused by veth)` for instance.
    pub driver: String,
    /// Link-level address, when it has one.
    pub mac: Option<[u8; 6]>,
    /// Largest payload of a frame, without the link header.
    pub mtu: usize,
    /// Receive queues.
    pub rx_queues: usize,
    /// Transmit queues.
    pub tx_queues: usize,
}

/// Counters of one queue since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Packets moved.
    pub packets: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Packets that the kernel or the wire dropped before we could take them.
    pub missed: u64,
    /// Packets received whose checksum the sender had left to hardware, and which we completed.
    pub completed: u64,
    /// Packets that could not be moved for want of memory.
    pub no_memory: u64,
    /// Packets the device refused for another reason (too long, link down).
    pub errors: u64,
}

/// Why a port could not be opened or used. Displayed in full to the user.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{device}: {what}{}{}", if .mend.is_empty() { "" } else { "; " }, .mend)]
pub struct Error {
    /// The device.
    pub device: String,
    /// What went wrong.
    pub what: String,
    /// What the user can do about it, a command where there is one.
    pub mend: String,
}

impl Error {
    /// An error of `device`.
    pub fn new(device: &str, what: impl fmt::Display, mend: impl fmt::Display) -> Error {
        Error { device: device.to_owned(), what: what.to_string(), mend: mend.to_string() }
    }
}

/// Whether the device can carry packets at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// It can.
    Up,
    /// The device is there, but down or without carrier.
    Down,
    /// The device has vanished; the driver takes it up again when one of its name returns.
    Gone,
}

/// An open device.
pub trait Device: Send + Sync {
    /// What it is.
    fn info(&self) -> Info;

    /// Takes receive queue `queue` for one worker.
    ///
    /// # Errors
    /// The queue does not exist, is taken, or the driver refuses.
    fn rx(&self, queue: usize) -> Result<Box<dyn RxQueue>, Error>;

    /// Takes transmit queue `queue` for one worker.
    ///
    /// # Errors
    /// As for [`Device::rx`].
    fn tx(&self, queue: usize) -> Result<Box<dyn TxQueue>, Error>;

    /// Whether its packets' types say which frames were sent to other hosts
    /// ([`PacketType::OtherHost`](crate::PacketType::OtherHost)). A device without addressees, such as a file or a tap
    /// whose other end is the kernel, cannot know.
    fn tells_addressees(&self) -> bool {
        false
    }

    /// The state of the link.
    fn link(&self) -> Link {
        Link::Up
    }

    /// How often the link was lost since the device was opened: also where it came back, or another interface took its name, before
    /// anybody looked. What was learnt behind it before may be wrong. `None` where links are never lost.
    fn breaks(&self) -> Option<u64> {
        None
    }

    /// Bytes of the longest packet, without link header, that the link carries at this moment. `None` where that never changes, and while the
    /// link is not there.
    fn mtu(&self) -> Option<usize> {
        None
    }

    /// How often its queues are to be looked at also while nothing comes or goes ([`RxQueue::receive`], [`TxQueue::flush`]), if they need that.
    fn tend_every(&self) -> Option<Duration> {
        None
    }

    /// IP addresses with their prefix lengths that the kernel has on it at this moment, in the order in which it prefers them. `None` where
    /// nobody but us changes them.
    fn addresses(&self) -> Option<Vec<(IpAddr, u8)>> {
        None
    }

    /// IP addresses that the kernel has on virtual interfaces over this one, which is a twin: those of virtual routers. Packets for them
    /// are the kernel's.
    fn virtual_addresses(&self) -> Vec<IpAddr> {
        Vec::new()
    }

    /// What the first bytes of its packets are, as capture files number it (see [`link_type`]).
    fn link_type(&self) -> u32 {
        link_type::ETHERNET
    }
}

/// A receive queue, used by one worker.
pub trait RxQueue: Send {
    /// Appends up to `max` received packets to `batch` without waiting; returns how many.
    /// A device in trouble returns 0, counts, and repairs itself in later calls.
    fn receive(&mut self, batch: &mut Batch, max: usize) -> usize;

    /// The same for packets that are marked as [having arrived](crate::Packet::arrive) at `wall_ns`. Returns also the first bytes
    /// of all of them, joined bit by bit: few batches hold a frame to a group. A driver that writes descriptors anyway does it in
    /// the same pass.
    fn receive_arrived(&mut self, batch: &mut Batch, max: usize, wall_ns: u64) -> (usize, u8) {
        let before = batch.len();
        let received = self.receive(batch, max);
        let first = batch[before..].iter_mut().fold(0, |seen, packet| {
            packet.arrive(wall_ns);
            seen | packet.data().first().copied().unwrap_or(0)
        });
        (received, first)
    }

    /// Delivers from now on only packets that the filter accepts, and says so; a driver that cannot do better than its
    /// caller leaves it to the caller.
    fn narrow(&mut self, _filter: &Arc<Filter>) -> bool {
        false
    }

    /// Delivers all packets again, after any [`RxQueue::narrow`].
    fn widen(&mut self) {}

    /// Descriptor that becomes readable when packets wait; `None` when there is nothing to wait for.
    fn fd(&self) -> Option<RawFd> {
        None
    }

    /// Whether the queue will never again deliver a packet (end of file).
    fn ended(&self) -> bool {
        false
    }

    /// What is wrong with the queue at present, to be shown to the user: a truncated file, a vanished device.
    fn fault(&self) -> Option<Error> {
        None
    }

    /// Counters.
    fn stats(&self) -> QueueStats;
}

/// A transmit queue, used by one worker.
pub trait TxQueue: Send {
    /// Takes packets from the front of `batch` as far as there is room, without waiting; returns how many it took.
    /// What stays in `batch` may be offered again. Packets that can never be sent are taken and counted as errors.
    fn transmit(&mut self, batch: &mut Batch) -> usize;

    /// Makes sure that what was taken is on its way (doorbells, file buffers). Called when a worker has no more to
    /// send for now.
    fn flush(&mut self) {}

    /// Whether the device has not started to send all that it took, and will not before [`TxQueue::flush`] is called again: a while
    /// later, for it has no room at present.
    fn lags(&self) -> bool {
        false
    }

    /// Descriptor that becomes writable when there is room again.
    fn fd(&self) -> Option<RawFd> {
        None
    }

    /// What is wrong with the queue at present, to be shown to the user.
    fn fault(&self) -> Option<Error> {
        None
    }

    /// Counters.
    fn stats(&self) -> QueueStats;
}

/// Opens devices by name; elements reach devices only through this.
pub trait Provider: Send + Sync {
    /// Opens the device, or returns the one already open under this name.
    ///
    /// # Errors
    /// What was missing, and how to fix it.
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error>;

    /// Compiles a filter expression for packets that begin as [`Device::link_type`] says.
    ///
    /// # Errors
    /// What is wrong with the expression, or what is missing on this machine. [`Error::device`] is the expression.
    fn filter(&self, expression: &str, _link: u32) -> Result<Filter, Error> {
        Err(Error::new(expression, "there is no compiler for filters here", ""))
    }
}
