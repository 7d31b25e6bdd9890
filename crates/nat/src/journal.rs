// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who got which ports, and when they came back (RFC 6888, 4).
//!
//! Events are kept as they are, and become text when somebody reads them.

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use rulefile::names::protocol_name;

/// Events that are kept.
const KEPT: usize = 8192;

/// What is noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Log {
    /// Nothing.
    #[default]
    Nothing,
    /// Blocks of ports, and packets that there was no room for.
    Blocks,
    /// Each port, too.
    Ports,
    /// Each session, too.
    Sessions,
}

impl Log {
    /// What may be noted, with its name.
    pub const ALL: [(&'static str, Log); 3] =
        [("blocks", Log::Blocks), ("ports", Log::Ports), ("sessions", Log::Sessions)];
}

/// Whether something begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It begins.
    Begins,
    /// It ends.
    Ends,
}

/// An address, and a port or the identifier of an ICMP query.
pub type End<A> = (A, u16);

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A subscriber has a block of ports. Of IPv6 hosts that is a network of 64 bits, by its first address.
    Block {
        /// Whether it gets or returns the block.
        change: Change,
        /// The subscriber.
        inside: IpAddr,
        /// The outside address.
        outside: Ipv4Addr,
        /// The first and the last port.
        ports: (u16, u16),
    },
    /// A host has an outside port.
    Port {
        /// Whether it gets or returns the port.
        change: Change,
        /// The protocol.
        protocol: u8,
        /// The host and its own port.
        inside: End<IpAddr>,
        /// The outside address and port.
        outside: End<Ipv4Addr>,
    },
    /// A host has a session.
    Session {
        /// Whether it begins or ends.
        change: Change,
        /// The protocol.
        protocol: u8,
        /// The host and its own port.
        inside: End<IpAddr>,
        /// The outside address and port.
        outside: End<Ipv4Addr>,
        /// The other end.
        peer: End<Ipv4Addr>,
    },
    /// There was no room for another session of a host.
    NoRoom {
        /// What there was too much or too little of.
        lack: Lack,
        /// The protocol.
        protocol: u8,
        /// The host and its own port.
        inside: End<IpAddr>,
        /// The outside address whose ports are all in use; none if each address of the pool has none.
        outside: Option<Ipv4Addr>,
        /// How many there may be; of ports the line of the statement.
        number: u32,
    },
}

/// What there is too much or too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The subscriber has as many sessions or ports as it may have.
    Limit,
    /// No outside port is free.
    Ports,
    /// The table is full.
    Sessions,
}

impl What {
    /// From what on it is noted.
    pub(crate) fn level(&self) -> Log {
        match self {
            What::Block { .. } | What::NoRoom { .. } => Log::Blocks,
            What::Port { .. } => Log::Ports,
            What::Session { .. } => Log::Sessions,
        }
    }
}

/// Nine words: what, protocol, inside address and port, outside address, first and last port, the other end's address and port; `-` for what there is not. A tenth one where there was no room: how many there may be, or the
/// line of the statement whose ports are all in use.
impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |change: &Change, begins, ends| if *change == Change::Begins { begins } else { ends };
        match self {
            What::Block { change, inside, outside, ports } => {
                let (what, inside) = (name(change, "given", "returned"), subscriber_text(*inside));
                write!(f, "{what} - {inside} - {outside} {} {} - -", ports.0, ports.1)
            }
            What::Port { change, protocol, inside, outside } => {
                let (what, protocol) = (name(change, "given", "returned"), protocol_name(*protocol));
                let (address, port) = outside;
                write!(f, "{what} {protocol} {} {} {address} {port} {port} - -", inside.0, inside.1)
            }
            What::Session { change, protocol, inside, outside, peer } => {
                let (what, protocol) = (name(change, "begun", "ended"), protocol_name(*protocol));
                let (address, port) = outside;
                write!(
                    f,
                    "{what} {protocol} {} {} {address} {port} {port} {} {}",
                    inside.0, inside.1, peer.0, peer.1
                )
            }
            What::NoRoom { lack, protocol, inside, outside, number } => {
                let what = match lack {
                    Lack::Limit => "host-limit",
                    Lack::Ports => "no-port",
                    Lack::Sessions => "table-full",
                };
                let outside = outside.map_or_else(|| "-".to_owned(), |outside| outside.to_string());
                let protocol = protocol_name(*protocol);
                write!(f, "{what} {protocol} {} {} {outside} - - - - {number}", inside.0, inside.1)
            }
        }
    }
}

/// A subscriber as people write it: an IPv4 host, or a network of IPv6 hosts.
pub fn subscriber_text(inside: IpAddr) -> String {
    match inside {
        IpAddr::V4(host) => host.to_string(),
        IpAddr::V6(network) => format!("{network}/64"),
    }
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at_ns: u64,
    /// What.
    pub what: What,
}

/// The last events.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    kept: VecDeque<Event>,
    next: u64,
}

impl Journal {
    pub(crate) fn note(&mut self, event: Event) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(event);
        self.next += 1;
    }

    /// The number of the next event.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The events from a number on, with their numbers.
    pub(crate) fn from(&self, number: u64) -> impl Iterator<Item = (u64, Event)> + '_ {
        let first = self.next - self.kept.len() as u64;
        let skipped = number.saturating_sub(first).min(self.kept.len() as u64) as usize;
        (first + skipped as u64..).zip(self.kept.iter().skip(skipped).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_stay() {
        let localhost = Ipv4Addr::LOCALHOST;
        let what = What::Block {
            change: Change::Begins,
            inside: localhost.into(),
            outside: localhost,
            ports: (1, 2),
        };
        let event = |at_ns| Event { at_ns, what };
        let mut journal = Journal::default();
        assert_eq!(journal.from(0).count(), 0);
        (0..KEPT as u64 + 5).for_each(|n| journal.note(event(n)));
        assert_eq!(journal.next(), KEPT as u64 + 5);
        assert_eq!(journal.from(0).next().map(|(number, event)| (number, event.at_ns)), Some((5, 5)));
        assert_eq!(
            journal.from(journal.next() - 1).map(|(number, _)| number).collect::<Vec<_>>(),
            [KEPT as u64 + 4]
        );
        assert_eq!(journal.from(u64::MAX).count(), 0);
    }
}
