// SPDX-License-Identifier: MIT OR Apache-2.0
//! What there is, for people.

use std::net::{IpAddr, Ipv4Addr};

use tables::flow::{Flow, FlowId, FlowKey, State};

use super::subscribers::Subscribers;
use super::{Entry, INSIDE, Nat};
use crate::hosts::Hosts;
use crate::policy::SECOND;

/// A session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its protocol.
    pub protocol: u8,
    /// The inside address and port; of a query of ICMP the identifier.
    pub inside: (IpAddr, u16),
    /// What it is outside.
    pub outside: (Ipv4Addr, u16),
    /// The other end.
    pub peer: (Ipv4Addr, u16),
    /// Where it is.
    pub state: State,
    /// Packets from inside, and to it.
    pub packets: [u32; 2],
    /// Their bytes.
    pub bytes: [u64; 2],
    /// When it began.
    pub began_ns: u64,
    /// When it ends, if nothing comes. `u64::MAX` if it is a peer's, which says when.
    pub expires_ns: u64,
}

/// An inside address that has sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber {
    /// The inside address; of IPv6 hosts the first one of their network of 64 bits.
    pub inside: IpAddr,
    /// Its outside address.
    pub outside: Ipv4Addr,
    /// Its translation, by number; none for the router itself.
    pub translation: Option<u16>,
    /// Sessions.
    pub sessions: u32,
    /// Ports for TCP, for UDP, and identifiers for ICMP.
    pub ports: [u32; 3],
    /// Blocks: the first port of each, and how many ports are in use.
    pub blocks: Vec<(u16, u16)>,
}

fn session(hosts: &Hosts, flow: &Flow<&Entry>, (packets, bytes): ([u32; 2], [u64; 2])) -> Session {
    let Flow { forward, reply, expires_ns, value } = flow;
    Session {
        protocol: forward.proto,
        inside: (hosts.name(forward.src), forward.sport),
        outside: (reply.dst.into(), reply.dport),
        peer: (forward.dst.into(), forward.dport),
        state: value.track.state(forward.proto),
        packets,
        bytes,
        began_ns: u64::from(value.began_s) * SECOND,
        expires_ns: *expires_ns,
    }
}

impl Nat {
    /// Passes the sessions at up to `most` places from `from` on to `take`. Returns where to go on, or `None` at the end.
    pub fn some(&self, from: usize, most: usize, mut take: impl FnMut(Session)) -> Option<usize> {
        self.sessions.some(from, most, |id, flow| take(self.listed(id, &flow)))
    }

    /// All sessions.
    pub fn sessions(&self) -> impl Iterator<Item = Session> + '_ {
        self.sessions.iter().map(|(id, flow)| self.listed(id, &flow))
    }

    fn listed(&self, id: FlowId, flow: &Flow<&Entry>) -> Session {
        session(&self.subscribers.hosts, flow, self.tally.of(Nat::number(id)))
    }

    /// All inside addresses that have sessions.
    pub fn subscribers(&self) -> impl Iterator<Item = Subscriber> + '_ {
        self.subscribers.iter().map(|(inside, account)| Subscriber {
            inside,
            outside: account.outside.into(),
            translation: account.by,
            sessions: account.sessions,
            ports: account.ports,
            blocks: Subscribers::blocks_of(account).collect(),
        })
    }

    /// Ends a session; returns whether it was there.
    pub fn end(&mut self, protocol: u8, inside: (IpAddr, u16), peer: (Ipv4Addr, u16)) -> bool {
        let src = match inside.0 {
            IpAddr::V4(address) => Some(address.into()),
            IpAddr::V6(address) => self.subscribers.hosts.number(address.into()),
        };
        let Some(src) = src else { return false };
        let key = FlowKey {
            src,
            dst: peer.0.into(),
            sport: inside.1,
            dport: peer.1,
            proto: protocol,
            zone: INSIDE,
        };
        let found = self.sessions.lookup(&key);
        found.into_iter().for_each(|hit| self.remove(hit.id));
        found.is_some()
    }
}
