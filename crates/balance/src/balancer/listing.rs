// SPDX-License-Identifier: MIT OR Apache-2.0
//! What there is to see of a balancer.

use std::net::IpAddr;

use tables::flow::FlowKey6;

use super::servers::State;
use super::{Balancer, CLIENTS};
use crate::packet::{address, number};
use crate::policy::{SECOND, Service};

/// A service and what has come of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceView<'a> {
    /// What the file says.
    pub service: &'a Service,
    /// Servers that take connections.
    pub taking: usize,
    /// Sessions.
    pub sessions: u64,
    /// Packets from clients, and from servers with address translation.
    pub packets: [u64; 2],
    /// The same in bytes.
    pub bytes: [u64; 2],
    /// Packets that were dropped, because no server was alive.
    pub refused: u64,
    /// Packets that went without a session.
    pub by_hash: u64,
}

/// A server and what is known about it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerView<'a> {
    /// The name of its service.
    pub service: &'a str,
    /// Its address.
    pub address: IpAddr,
    /// The port that packets get, if they do not keep theirs.
    pub port: Option<u16>,
    /// Its weight.
    pub weight: u16,
    /// Its state.
    pub state: State,
    /// Whether a person has said so.
    pub is_forced: bool,
    /// Its part of new connections, from 0 to 1.
    pub share: f64,
    /// Sessions that it has.
    pub sessions: u32,
    /// Sessions that it has had.
    pub begun: u64,
    /// Packets to it, and from it with address translation.
    pub packets: [u64; 2],
    /// The same in bytes.
    pub bytes: [u64; 2],
    /// When its last check had a result, and whether it answered.
    pub checked: Option<(u64, bool)>,
    /// When it last went up or down.
    pub since_ns: u64,
}

/// A session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its protocol.
    pub protocol: u8,
    /// The client and its port.
    pub client: (IpAddr, u16),
    /// The virtual address and port.
    pub service: (IpAddr, u16),
    /// The server and its port.
    pub server: (IpAddr, u16),
    /// Packets from the client and from the server.
    pub packets: [u64; 2],
    /// The same in bytes.
    pub bytes: [u64; 2],
    /// Where it is.
    pub state: tables::flow::State,
    /// When it began.
    pub began_ns: u64,
    /// When it ends, if nothing comes.
    pub expires_ns: u64,
}

impl Balancer {
    /// All services, in the order of the file.
    pub fn services(&self) -> impl Iterator<Item = ServiceView<'_>> {
        self.policy.services.iter().zip(&self.faces).map(|(service, face)| {
            let mut view = ServiceView {
                service,
                taking: 0,
                sessions: 0,
                packets: [0; 2],
                bytes: [0; 2],
                refused: face.refused,
                by_hash: face.by_hash,
            };
            for slot in face.slots.iter().map(|slot| &self.slots[*slot as usize]) {
                view.taking += usize::from(slot.takes_new());
                view.sessions += u64::from(slot.sessions);
                for side in 0..2 {
                    view.packets[side] += slot.packets[side];
                    view.bytes[side] += slot.bytes[side];
                }
            }
            view
        })
    }

    /// All servers, by service and in the order of the file.
    pub fn servers(&self) -> impl Iterator<Item = ServerView<'_>> {
        (0..self.faces.len()).flat_map(|service| self.servers_of(service))
    }

    /// The servers of a service by its number, in the order of the file; none if there is no such service.
    pub fn servers_of(&self, service: usize) -> impl Iterator<Item = ServerView<'_>> {
        let (face, name) =
            (self.faces.get(service), self.policy.services.get(service).map(|one| &one.name[..]));
        let slots = face.map_or(&[][..], |face| &face.slots);
        let mut places = vec![0; slots.len()];
        let table = face.map(|face| &face.table);
        table
            .into_iter()
            .flat_map(|table| table.shares())
            .for_each(|(at, count)| places[at as usize] = count);
        let all = table.map_or(1, |table| table.len().max(1)) as f64;
        slots.iter().zip(places).map(move |(slot, places)| {
            let slot = &self.slots[*slot as usize];
            ServerView {
                service: name.unwrap_or_default(),
                address: address(slot.address),
                port: slot.port,
                weight: slot.weight,
                state: slot.state(),
                is_forced: slot.forced.is_some(),
                share: f64::from(places) / all,
                sessions: slot.sessions,
                begun: slot.begun,
                packets: slot.packets,
                bytes: slot.bytes,
                checked: slot.watch.last,
                since_ns: slot.watch.since_ns,
            }
        })
    }

    /// Passes up to `most` sessions to `take`, from place `from` on. Returns where to go on, if there are more.
    pub fn some(&self, from: usize, most: usize, mut take: impl FnMut(Session)) -> Option<usize> {
        self.sessions.some(from, most, |_, flow| {
            let (forward, slot) = (flow.forward, flow.value.slot);
            let port = if flow.reply == forward { forward.dport } else { flow.reply.sport };
            take(Session {
                protocol: forward.proto,
                client: (address(forward.src), forward.sport),
                service: (address(forward.dst), forward.dport),
                server: (self.address_of(slot), port),
                packets: flow.value.tally.packets(),
                bytes: flow.value.tally.bytes(flow.value.marks),
                state: flow.value.track.state(forward.proto),
                began_ns: u64::from(flow.value.began_s) * SECOND,
                expires_ns: flow.expires_ns,
            });
        })
    }

    /// Ends the session of a client's address and port with a service's, if it is there.
    pub fn end_of(&mut self, protocol: u8, client: (IpAddr, u16), service: (IpAddr, u16)) {
        let key = FlowKey6 {
            src: number(client.0),
            dst: number(service.0),
            sport: client.1,
            dport: service.1,
            proto: protocol,
            zone: CLIENTS,
        };
        if let Some(hit) = self.sessions.lookup(&key) {
            self.end(hit.id);
        }
    }

    /// Says in words what happened to a packet that was rehearsed.
    pub fn explain(&self, outcome: super::Outcome) -> String {
        use super::{Cause, Outcome};
        match outcome {
            Outcome::Unchanged => "it belongs to no service".to_owned(),
            Outcome::Direct(server) => format!("server {server}, direct return"),
            Outcome::Translated(server) => format!("server {server}, destination translated"),
            Outcome::Answered => "it gets its service's address".to_owned(),
            Outcome::Consumed => "it answers a probe".to_owned(),
            Outcome::Drop(Cause::NoServer) => "no server of its service is alive".to_owned(),
            Outcome::Drop(Cause::Taken) => {
                "its client port is in use with each server that was tried".to_owned()
            }
            Outcome::Drop(Cause::Spoofed) => {
                "it came from outside, with a server's address as its source".to_owned()
            }
            Outcome::Drop(Cause::Full) => "there is no room for its session".to_owned(),
            Outcome::Drop(Cause::Fragment) => "it is a later fragment".to_owned(),
            Outcome::Drop(Cause::Malformed) => "its headers are wrong".to_owned(),
        }
    }
}
