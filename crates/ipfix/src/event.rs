// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of an address translator, and their values (RFC 8158).

use std::net::{IpAddr, Ipv4Addr};

use crate::Element;
use crate::message::Writer;
use crate::template::Kind;

/// Something that happened at a translator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A session.
    Session {
        /// Whether it began or ended.
        change: Change,
        /// Its protocol.
        protocol: u8,
        /// The inside host and its port.
        inside: (IpAddr, u16),
        /// The outside address and port.
        outside: (Ipv4Addr, u16),
        /// Who it is with, as the outside sees it; without it, the record does not say.
        peer: Option<(Ipv4Addr, u16)>,
    },
    /// An outside port that an inside host has, towards all peers.
    Binding {
        /// Whether it got the port or gave it back.
        change: Change,
        /// The protocol.
        protocol: u8,
        /// The inside host.
        inside: IpAddr,
        /// Its port, if that is known.
        inside_port: Option<u16>,
        /// The outside address and port.
        outside: (Ipv4Addr, u16),
    },
    /// A block of ports, for all protocols.
    Block {
        /// Whether the host got it or gave it back.
        change: Change,
        /// The inside host.
        inside: IpAddr,
        /// The outside address.
        outside: Ipv4Addr,
        /// The first and the last port.
        ports: (u16, u16),
    },
    /// No address of a pool was free.
    AddressesExhausted {
        /// The pool's number.
        pool: u32,
    },
    /// No port of an address was free.
    PortsExhausted {
        /// The outside address.
        outside: Ipv4Addr,
        /// The protocol.
        protocol: u8,
    },
    /// A limit was reached.
    QuotaExceeded(Quota),
}

/// Whether something began or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It began.
    Created,
    /// It ended.
    Deleted,
}

/// A limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// Sessions of the translator, at most.
    Sessions(u32),
    /// Bindings of the translator, at most.
    Bindings(u32),
    /// What one inside host may have.
    OfHost {
        /// The host.
        inside: IpAddr,
        /// Sessions or ports, at most.
        most: u32,
    },
}

impl Event {
    /// The kind of its record.
    pub(crate) fn kind(&self) -> Kind {
        let (four, six) = match self.what {
            What::Session { peer: None, .. } => (Kind::Nat44Session, Kind::Nat64Session),
            What::Session { peer: Some(_), .. } => (Kind::Nat44SessionTo, Kind::Nat64SessionTo),
            What::Binding { inside_port: Some(_), .. } => (Kind::Nat44Binding, Kind::Nat64Binding),
            What::Binding { inside_port: None, .. } => (Kind::Nat44Port, Kind::Nat64Port),
            What::Block { .. } => (Kind::Block, Kind::BlockOfIpv6),
            What::AddressesExhausted { .. } => return Kind::AddressesExhausted,
            What::PortsExhausted { .. } => return Kind::PortsExhausted,
            What::QuotaExceeded(Quota::Sessions(_)) => return Kind::SessionQuota,
            What::QuotaExceeded(Quota::Bindings(_)) => return Kind::BindingQuota,
            What::QuotaExceeded(Quota::OfHost { .. }) => (Kind::HostQuota, Kind::HostQuotaOfIpv6),
        };
        if self.inside().is_some_and(|(address, _)| address.is_ipv6()) { six } else { four }
    }

    /// Writes its record.
    pub(crate) fn write(&self, to: &mut Writer) {
        for field in self.kind().template().fields {
            to.number(self.value(*field), field.length());
        }
    }

    /// The value of a field; 0 for what it does not have, which its template does not ask for.
    fn value(&self, field: Element) -> u128 {
        let port = |end: Option<(Ipv4Addr, u16)>| end.map_or(0, |(_, port)| port.into());
        let address = |end: Option<(Ipv4Addr, u16)>| end.map_or(0, |(address, _)| address.to_bits().into());
        match field {
            Element::ObservationTimeMilliseconds => self.at_ms.into(),
            Element::NatEvent => self.nat_event().into(),
            Element::SourceIpv4Address | Element::SourceIpv6Address => match self.inside() {
                Some((IpAddr::V4(address), _)) => address.to_bits().into(),
                Some((IpAddr::V6(address), _)) => address.to_bits(),
                None => 0,
            },
            Element::SourceTransportPort => self.inside().map_or(0, |(_, port)| port.into()),
            Element::PostNatSourceIpv4Address => address(self.outside()),
            Element::PostNaptSourceTransportPort => port(self.outside()),
            Element::DestinationIpv4Address | Element::PostNatDestinationIpv4Address => address(self.peer()),
            Element::DestinationTransportPort | Element::PostNaptDestinationTransportPort => {
                port(self.peer())
            }
            Element::ProtocolIdentifier => self.protocol().into(),
            Element::PortRangeStart => self.ports().0.into(),
            Element::PortRangeEnd => self.ports().1.into(),
            Element::PortRangeStepSize => 1,
            // All 65,536 ports do not fit.
            Element::PortRangeNumPorts => {
                self.ports().1.saturating_sub(self.ports().0).saturating_add(1).into()
            }
            Element::NatPoolId => match self.what {
                What::AddressesExhausted { pool } => pool.into(),
                _ => 0,
            },
            Element::NatQuotaExceededEvent => self.quota().0.into(),
            Element::MaxSessionEntries | Element::MaxBibEntries | Element::MaxEntriesPerUser => {
                self.quota().1.into()
            }
            Element::ExportingProcessId | Element::NotSentFlowTotalCount => 0,
        }
    }

    /// The number of the event (RFC 8158, 4.2).
    fn nat_event(&self) -> u8 {
        // The number of the creation, of an IPv6 host's, and whether it is a deletion, which has the next one.
        let (four, six, change) = match self.what {
            What::AddressesExhausted { .. } => return 3,
            What::PortsExhausted { .. } => return 12,
            What::QuotaExceeded(_) => return 13,
            What::Session { change, .. } => (4, 6, change),
            What::Binding { change, .. } => (8, 10, change),
            What::Block { change, .. } => (16, 16, change),
        };
        let created = if self.inside().is_some_and(|(address, _)| address.is_ipv6()) { six } else { four };
        created + u8::from(change == Change::Deleted)
    }

    fn inside(&self) -> Option<(IpAddr, u16)> {
        match self.what {
            What::Session { inside, .. } => Some(inside),
            What::Binding { inside, inside_port, .. } => Some((inside, inside_port.unwrap_or_default())),
            What::Block { inside, .. } | What::QuotaExceeded(Quota::OfHost { inside, .. }) => {
                Some((inside, 0))
            }
            _ => None,
        }
    }

    fn outside(&self) -> Option<(Ipv4Addr, u16)> {
        match self.what {
            What::Session { outside, .. } | What::Binding { outside, .. } => Some(outside),
            What::Block { outside, .. } | What::PortsExhausted { outside, .. } => Some((outside, 0)),
            _ => None,
        }
    }

    fn peer(&self) -> Option<(Ipv4Addr, u16)> {
        match self.what {
            What::Session { peer, .. } => peer,
            _ => None,
        }
    }

    fn protocol(&self) -> u8 {
        match self.what {
            What::Session { protocol, .. }
            | What::Binding { protocol, .. }
            | What::PortsExhausted { protocol, .. } => protocol,
            _ => 0,
        }
    }

    fn ports(&self) -> (u16, u16) {
        match self.what {
            What::Block { ports, .. } => ports,
            _ => (0, 0),
        }
    }

    /// The number of a limit and its value (RFC 8158, 4.3).
    fn quota(&self) -> (u32, u32) {
        match self.what {
            What::QuotaExceeded(Quota::Sessions(most)) => (1, most),
            What::QuotaExceeded(Quota::Bindings(most)) => (2, most),
            What::QuotaExceeded(Quota::OfHost { most, .. }) => (3, most),
            _ => (0, 0),
        }
    }
}
