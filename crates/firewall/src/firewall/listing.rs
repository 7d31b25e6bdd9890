// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections for people: all of them, or some at a time.

use std::net::IpAddr;

use tables::flow::{Flow, FlowId, FlowTable};

use super::{Addresses, Entry, Firewall, Parent, Side};
use crate::policy::{Facts, ICMP, ICMP6};
use crate::track::State;

/// The place of the first IPv6 connection, for [`Firewall::some`].
pub(super) const SIX_FROM: usize = 1 << 32;

/// A connection, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The VRF of its first packet and that of its answers: see [`VrfNames`](super::VrfNames).
    pub vrfs: [u16; 2],
    /// The source of its first packet.
    pub source: IpAddr,
    /// The destination of its first packet.
    pub destination: IpAddr,
    /// Its protocol.
    pub protocol: u8,
    /// Source and destination port of its first packet; identifier and type of ICMP queries.
    pub ports: [u16; 2],
    /// The zones that its first packet went between.
    pub zones: [u8; 2],
    /// Where it is.
    pub state: State,
    /// The rule that accepted it.
    pub rule: Option<u32>,
    /// The connection that announced it.
    pub parent: Option<Parent>,
    /// Packets there and back.
    pub packets: [u32; 2],
    /// Bytes there and back.
    pub bytes: [u64; 2],
    /// When it began, in nanoseconds.
    pub began_ns: u64,
    /// When it ends if nothing comes.
    pub expires_ns: u64,
}

impl Firewall {
    /// All connections, in no order.
    pub fn connections(&self) -> impl Iterator<Item = Connection> + '_ {
        let four = self.four.table.iter().map(|(id, flow)| self.connection(&self.four, id, &flow));
        four.chain(self.six.table.iter().map(|(id, flow)| self.connection(&self.six, id, &flow)))
    }

    /// Passes some connections to `take`, from a place on that an earlier call has returned; 0 is the first. Returns where to go on.
    pub fn some(&self, from: usize, most: usize, mut take: impl FnMut(Connection)) -> Option<usize> {
        if from < SIX_FROM {
            let next =
                self.four.table.some(from, most, |id, flow| take(self.connection(&self.four, id, &flow)));
            return Some(next.unwrap_or(SIX_FROM));
        }
        let from = from - SIX_FROM;
        let next = self.six.table.some(from, most, |id, flow| take(self.connection(&self.six, id, &flow)));
        next.map(|next| next + SIX_FROM)
    }

    fn connection<K: Addresses>(&self, side: &Side<K>, id: FlowId, flow: &Flow<&Entry, K>) -> Connection {
        let (source, destination, protocol, ports) = flow.forward.parts();
        let entry = flow.value;
        let (packets, bytes) = side.tally.of(FlowTable::<Entry, K>::number(id));
        Connection {
            vrfs: [flow.forward.vrf(), flow.reply.vrf()],
            source,
            destination,
            protocol,
            ports,
            zones: entry.zones.map(|zone| self.zones.present(zone)),
            state: entry.track.state(),
            rule: self.book.rule(entry.slot),
            parent: entry.parent,
            packets,
            bytes,
            began_ns: u64::from(entry.began_s) * 1_000_000_000,
            expires_ns: flow.expires_ns,
        }
    }
}

impl Connection {
    /// What rules saw of its first packet, or of that of the connection that announced it.
    pub fn facts(&self) -> Facts {
        let is_icmp = [ICMP, ICMP6].contains(&self.protocol);
        let has_ports = wire::Protocol(self.protocol).has_ports();
        let facts = Facts {
            from: self.zones[0],
            to: self.zones[1],
            vrfs: self.vrfs,
            source: self.source,
            destination: self.destination,
            protocol: self.protocol,
            ports: has_ports.then_some(self.ports),
            icmp: is_icmp.then_some([self.ports[1] as u8, 0]),
            mac: None,
        };
        self.parent.map_or(facts, |parent| parent.facts(facts))
    }
}
