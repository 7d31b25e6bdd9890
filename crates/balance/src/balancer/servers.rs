// SPDX-License-Identifier: MIT OR Apache-2.0
//! Servers: which of them take connections, and which one a hash leads to.

use std::net::IpAddr;
use std::sync::Arc;

use tables::flow::FlowKey6;

use super::Balancer;
use super::bonds::tag;
use crate::health::{Health, Watch};
use crate::maglev::{Member, Table, mix};
use crate::packet::number;
use crate::policy::{Mode, Server, Service};

/// So many places of a table are tried for a server that takes connections, before all are looked at.
const TRIES: u64 = 8;

/// Where a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It takes connections; no check has said so.
    Unchecked,
    /// It takes connections, as a check says, or a person does.
    Up,
    /// It keeps its connections, and gets no new ones.
    Draining,
    /// It gets no packets.
    Down,
}

impl State {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            State::Unchecked => "unchecked",
            State::Up => "up",
            State::Draining => "draining",
            State::Down => "down",
        }
    }
}

/// What a person changes about a server, until a file is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its weight.
    Weight(u16),
    /// Whether it gets no new connections.
    Drain(bool),
    /// It is up, or down, and checks do not count. Without, they decide.
    Force(Option<bool>),
}

/// A server of a service, and what is known about it.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// Which service of the policy; none if the file no longer names it.
    pub(super) service: Option<u16>,
    /// What bonds know its service by, and which one of all slots it is.
    pub(super) tag: u64,
    pub(super) serial: u32,
    pub(super) mode: Mode,
    pub(super) address: u128,
    pub(super) port: Option<u16>,
    pub(super) weight: u16,
    pub(super) drains: bool,
    pub(super) forced: Option<bool>,
    pub(super) watch: Watch,
    /// Sessions that it has, and has had.
    pub(super) sessions: u32,
    pub(super) begun: u64,
    /// To it, and from it with address translation.
    pub(super) packets: [u64; 2],
    pub(super) bytes: [u64; 2],
    /// Nobody's.
    pub(super) is_free: bool,
}

impl Slot {
    pub(super) fn new(at: u16, service: &Service, server: &Server, serial: u32) -> Slot {
        Slot {
            service: Some(at),
            tag: tag(&service.name),
            serial,
            mode: service.mode,
            address: number(server.address),
            port: server.port,
            weight: server.weight,
            drains: server.drains,
            forced: None,
            watch: Watch::default(),
            sessions: 0,
            begun: 0,
            packets: [0; 2],
            bytes: [0; 2],
            is_free: false,
        }
    }

    /// Whether it gets packets of sessions that it has.
    #[inline]
    pub(super) fn serves(&self) -> bool {
        self.service.is_some() && self.forced.unwrap_or(self.watch.health != Health::Down)
    }

    /// Whether it gets new sessions.
    #[inline]
    pub(super) fn takes_new(&self) -> bool {
        self.serves() && self.weight > 0 && !self.drains
    }

    pub(super) fn state(&self) -> State {
        match () {
            () if !self.serves() => State::Down,
            () if !self.takes_new() => State::Draining,
            () if self.forced.is_none() && self.watch.health == Health::Unknown => State::Unchecked,
            () => State::Up,
        }
    }
}

/// A service, as packets meet it.
#[derive(Clone, Debug)]
pub(super) struct Face {
    /// The slots of its servers, in the order of the file.
    pub(super) slots: Vec<u32>,
    /// What bonds know it by.
    pub(super) tag: u64,
    /// Leads to places of `slots`.
    pub(super) table: Arc<Table>,
    /// Whether another table is due.
    pub(super) is_stale: bool,
    /// Packets that no server was alive for, and those that went without a session.
    pub(super) refused: u64,
    pub(super) by_hash: u64,
}

/// Who takes part in a table: each server with what it weighs now.
pub(super) fn members(service: &Service, weight: impl Fn(usize, &Server) -> u16) -> Vec<Member> {
    let one = |(at, server): (usize, &Server)| {
        let address = number(server.address);
        let port = u64::from(server.port.unwrap_or(0));
        let identity = mix(mix((address >> 64) as u64) ^ address as u64) ^ mix(port);
        Member { identity, weight: weight(at, server), target: at as u32 }
    };
    service.servers.iter().enumerate().map(one).collect()
}

impl Balancer {
    /// Who takes part in the table of a service now.
    pub(super) fn members_now(&self, service: usize) -> Vec<Member> {
        let slots = &self.faces[service].slots;
        members(&self.policy.services[service], |at, _| {
            let slot = &self.slots[slots[at] as usize];
            if slot.takes_new() { slot.weight } else { 0 }
        })
    }

    /// The hash of a session's first packet, by which its server is chosen.
    pub(super) fn hash(&self, service: usize, key: &FlowKey6) -> u64 {
        let fold = |sum: u64, word: u128| mix(mix(sum ^ word as u64).wrapping_add((word >> 64) as u64));
        let of_client = fold(mix(self.policy.seed), key.src);
        if self.policy.services[service].persist_ns.is_some() {
            return mix(of_client);
        }
        let ports = u64::from(key.sport) << 32 | u64::from(key.dport) << 16 | u64::from(key.proto);
        mix(fold(of_client, key.dst) ^ mix(ports))
    }

    /// The server that a hash leads to.
    pub(super) fn choose(&self, service: usize, hash: u64) -> Option<u32> {
        let face = &self.faces[service];
        let taking = |at: u32| {
            let slot = *face.slots.get(at as usize)?;
            self.slots[slot as usize].takes_new().then_some(slot)
        };
        // The table may still name servers that take no more; another place then stands for theirs.
        for n in 0..TRIES {
            let hash = if n == 0 { hash } else { mix(hash ^ mix(n)) };
            if let Some(slot) = face.table.pick(hash).and_then(taking) {
                return Some(slot);
            }
        }
        if !face.is_stale {
            return None;
        }
        let first = (hash % face.slots.len().max(1) as u64) as u32;
        let all = face.slots.len() as u32;
        (first..all).chain(0..first).find_map(taking)
    }

    /// Changes a server until a file is loaded.
    ///
    /// # Errors
    /// There is no such service, or no such server.
    pub fn set(
        &mut self,
        service: &str,
        address: IpAddr,
        port: Option<u16>,
        change: Change,
    ) -> Result<(), String> {
        let Some(at) = self.policy.services.iter().position(|one| one.name == service) else {
            let names: Vec<&str> = self.policy.services.iter().map(|one| one.name.as_str()).collect();
            return Err(format!("there is no service '{service}': there is {}", names.join(", ")));
        };
        let servers = self.policy.services[at].servers.iter().enumerate();
        let is_it = |one: &Server| one.address == address && (port.is_none() || one.port == port);
        let found: Vec<usize> = servers.filter(|(_, one)| is_it(one)).map(|(n, _)| n).collect();
        if found.is_empty() {
            let port = port.map_or_else(String::new, |port| format!(" port {port}"));
            return Err(format!("service '{service}' has no server {address}{port}"));
        }
        for n in found {
            let slot = &mut self.slots[self.faces[at].slots[n] as usize];
            match change {
                Change::Weight(weight) => slot.weight = weight,
                Change::Drain(drains) => slot.drains = drains,
                Change::Force(forced) => slot.forced = forced,
            }
        }
        self.outdate(at);
        Ok(())
    }

    /// The table of a service is due anew.
    pub(super) fn outdate(&mut self, service: usize) {
        self.faces[service].is_stale = true;
        self.checks.has_stale = true;
    }
}
