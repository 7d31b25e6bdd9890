// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a file about load balancing says, without its text.

use std::net::IpAddr;

use crate::maglev::{SIZE_MANY, size_for};

/// The protocol number of ICMP.
pub const ICMP: u8 = 1;
/// The protocol number of TCP.
pub const TCP: u8 = 6;
/// The protocol number of UDP.
pub const UDP: u8 = 17;
/// The protocol number of ICMPv6.
pub const ICMP6: u8 = 58;

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// Probes in a second at most: half of the events that a balancer has time for.
pub const PROBES_MAX: u64 = 30_000;

/// How a packet reaches its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The packet stays as it is; only its next hop is the server. Answers go to the client directly.
    Direct,
    /// The destination becomes the server's, and answers get the service's address back.
    Nat,
}

impl Mode {
    /// Its word in files.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Direct => "direct",
            Mode::Nat => "nat",
        }
    }
}

/// How a server is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A SYN to this port, or to the port that packets go to.
    Tcp(Option<u16>),
    /// An ICMP echo request.
    Icmp,
}

/// Checks of a service's servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// How.
    pub kind: Kind,
    /// Time from one probe to the next.
    pub every_ns: u64,
    /// Time for the answer.
    pub timeout_ns: u64,
    /// Answers in a row that bring a server up.
    pub rise: u8,
    /// Failures in a row that bring a server down.
    pub fall: u8,
}

/// A server of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its address.
    pub address: IpAddr,
    /// The port that packets get, with [`Mode::Nat`]; otherwise they keep theirs.
    pub port: Option<u16>,
    /// Its share of new connections, relative to the others'.
    pub weight: u16,
    /// It gets no new connections.
    pub drains: bool,
}

/// A service: an address, a protocol and ports that several servers answer for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Its protocol; all of them without.
    pub protocol: Option<u8>,
    /// The virtual address.
    pub address: IpAddr,
    /// Its ports, from the first to the last of each range; empty for all.
    pub ports: Vec<(u16, u16)>,
    /// How packets reach servers.
    pub mode: Mode,
    /// If all connections of a client address go to one server: how long that lasts behind the last one.
    pub persist_ns: Option<u64>,
    /// Whether the table has room for more than [`FEW`](crate::maglev::FEW) servers from the start.
    pub is_large: bool,
    /// How servers are checked, if they are.
    pub check: Option<Check>,
    /// Its servers.
    pub servers: Vec<Server>,
    /// Its line in the file.
    pub line: u32,
    /// The text of that line.
    pub text: String,
}

impl Service {
    /// Places of its table.
    pub fn table_size(&self) -> u32 {
        if self.is_large { SIZE_MANY } else { size_for(self.servers.len()) }
    }

    /// The only port, if there is one.
    pub fn only_port(&self) -> Option<u16> {
        match self.ports[..] {
            [(low, high)] if low == high => Some(low),
            _ => None,
        }
    }

    /// Whether packets to a port are for it.
    pub fn has_port(&self, port: u16) -> bool {
        self.ports.is_empty() || self.ports.iter().any(|(low, high)| (*low..=*high).contains(&port))
    }

    /// The port that a TCP check of a server asks, if it is known.
    pub fn checked_port(&self, server: &Server) -> Option<u16> {
        match self.check?.kind {
            Kind::Icmp => None,
            Kind::Tcp(port) => port.or(server.port).or(self.ports.first().map(|(low, _)| *low)),
        }
    }
}

/// How long a session may be idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// A TCP connection that is agreed on.
    pub tcp: u64,
    /// A TCP connection that begins or ends.
    pub tcp_transitory: u64,
    /// UDP.
    pub udp: u64,
    /// All others.
    pub other: u64,
}

impl Default for Timeouts {
    /// Those of RFC 5382 and RFC 4787, but for TCP connections that begin or end: servers keep those no longer.
    fn default() -> Timeouts {
        Timeouts { tcp: 7440 * SECOND, tcp_transitory: 60 * SECOND, udp: 300 * SECOND, other: 600 * SECOND }
    }
}

/// What a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The services.
    pub services: Vec<Service>,
    /// The router's own addresses, from which probes come: one of IPv4, one of IPv6.
    pub own: [Option<IpAddr>; 2],
    /// How long sessions may be idle.
    pub timeouts: Timeouts,
    /// Sessions at most.
    pub sessions: usize,
    /// Client addresses at most that keep their server.
    pub clients: usize,
    /// Changes which server a hash leads to.
    pub seed: u64,
}

impl Policy {
    /// The own address of the same family.
    pub fn own_for(&self, address: IpAddr) -> Option<IpAddr> {
        self.own[usize::from(address.is_ipv6())]
    }

    /// Servers of all services.
    pub fn servers(&self) -> usize {
        self.services.iter().map(|service| service.servers.len()).sum()
    }
}
