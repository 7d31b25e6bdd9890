// SPDX-License-Identifier: MIT OR Apache-2.0
//! Another policy: tables are built before it comes in place, and sessions go on with their servers.
//!
//! A server is the same if its service has the same name and mode, and its address and port are the same. What a person has
//! changed about it ends: the file says now.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use tables::flow::Index;

use super::bonds::{self, Lack, Room, tag};
use super::servers::{Face, Slot, members};
use super::sessions::Hand;
use super::{Balancer, role};
use crate::health::{Health, Watch};
use crate::maglev::{Member, Table, signature};
use crate::packet::{address, number};
use crate::policy::{Kind, Mode, Policy, Server, Service};

/// Tables by what they were made of.
type Tables = HashMap<u64, Arc<Table>>;

/// A draft is out of date: another policy has come in place since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superseded;

impl std::fmt::Display for Superseded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("other statements came in place meanwhile: load the file again")
    }
}

impl std::error::Error for Superseded {}

/// A policy that is to come, with its tables.
#[derive(Debug)]
pub struct Draft {
    policy: Arc<Policy>,
    /// The policy that it is to follow.
    before: Arc<Policy>,
    seed: u64,
    /// The index of another number of sessions, and how many there may be now.
    sessions: Option<Index>,
    present: Option<usize>,
    /// The same for bonds.
    bonds: Option<Room>,
    lack: Option<Lack>,
    /// For each service: who takes part, and the places.
    wanted: Vec<(Vec<Member>, u32)>,
    tables: Tables,
    /// For each service a table that serves until its own is built.
    until: Vec<Arc<Table>>,
}

impl Draft {
    /// Builds the tables that are missing. It takes its time, and needs no balancer. Without it the balancer builds those of services bit by bit.
    pub fn build(&mut self) {
        for (members, size) in &self.wanted {
            let table = || Arc::new(Table::of(members, *size));
            self.tables.entry(signature(members, *size)).or_insert_with(table);
        }
        self.sessions = self.present.map(|present| Index::new(self.policy.sessions, present, self.seed));
        self.bonds = self.lack.map(|lack| lack.make(self.seed.rotate_left(32)));
    }

    /// Takes tables that another balancer has. If it has the same policy, its tables serve until others are built.
    pub fn take_tables(&mut self, other: &Balancer) {
        if Arc::ptr_eq(&self.policy, &other.policy) {
            self.until = other.faces.iter().map(|face| Arc::clone(&face.table)).collect();
        }
        self.tables.extend(other.faces.iter().map(|face| (face.table.signature(), Arc::clone(&face.table))));
    }
}

/// Tables that are no longer needed. To drop them takes time: they may be taken out of a balancer, and dropped without its lock.
#[derive(Debug, Default)]
pub struct Retired {
    pub(super) indexes: Vec<Index>,
    pub(super) bonds: Option<bonds::Table>,
}

/// How a service's servers are known.
type Known<'a> = HashMap<(&'a str, Mode, IpAddr, Option<u16>), u32>;

fn known<'a>(policy: &'a Policy, faces: &[Face]) -> Known<'a> {
    let mut known = Known::new();
    for (service, face) in policy.services.iter().zip(faces) {
        for (server, slot) in service.servers.iter().zip(&face.slots) {
            known.insert((&service.name, service.mode, server.address, server.port), *slot);
        }
    }
    known
}

fn find(known: &Known<'_>, service: &Service, server: &Server) -> Option<u32> {
    known.get(&(service.name.as_str(), service.mode, server.address, server.port)).copied()
}

impl Balancer {
    /// Begins to put another policy in place.
    pub fn draft(&mut self, policy: Arc<Policy>) -> Draft {
        let seed = self.rng.u64(..);
        let present = (policy.sessions != self.sessions.capacity_to_be()).then(|| self.sessions.capacity());
        let lack = self.bonds.lacks(&policy);
        let known = known(&self.policy, &self.faces);
        let wanted = policy.services.iter().map(|service| {
            let weight = |_: usize, server: &Server| {
                let is_down = find(&known, service, server).is_some_and(|slot| {
                    let health = self.slots[slot as usize].watch.health;
                    health == Health::Down && self.goes_on(slot, &policy, service, server)
                });
                if is_down || server.drains { 0 } else { server.weight }
            };
            (members(service, weight), service.table_size())
        });
        let wanted = wanted.collect();
        let before = Arc::clone(&self.policy);
        let (tables, until) = (Tables::new(), Vec::new());
        let (sessions, bonds) = (None, None);
        let mut draft = Draft { policy, before, seed, sessions, present, bonds, lack, wanted, tables, until };
        draft.take_tables(self);
        draft
    }

    /// Whether the checks of a server that was there stay the same with this policy: of a kind, from an address, to a port.
    fn goes_on(&self, slot: u32, policy: &Policy, service: &Service, server: &Server) -> bool {
        let check = |policy: &Policy, service: &Service| {
            let is_ping = service.check.map(|check| check.kind == Kind::Icmp);
            (is_ping, service.checked_port(server), policy.own_for(server.address))
        };
        let before = self.slots[slot as usize].service.map(|at| &self.policy.services[usize::from(at)]);
        before.is_some_and(|before| check(&self.policy, before) == check(policy, service))
    }

    /// Puts a policy in place. Returns how many sessions have lost their server: they get another one with their next packet.
    ///
    /// # Errors
    /// The draft was made for another policy than the one in force. Nothing has changed then.
    pub fn replace(&mut self, draft: Draft, now_ns: u64) -> Result<usize, Superseded> {
        if !Arc::ptr_eq(&self.policy, &draft.before) {
            return Err(Superseded);
        }
        self.put_in_place(draft, now_ns);
        Ok(self.slots.iter().filter(|slot| slot.service.is_none()).map(|slot| slot.sessions as usize).sum())
    }

    pub(super) fn put_in_place(&mut self, draft: Draft, now_ns: u64) {
        let Draft { policy, wanted, tables, until, sessions, bonds, .. } = draft;
        let (old, before) = (Arc::clone(&self.policy), std::mem::take(&mut self.faces));
        let known = known(&old, &before);
        let mut same = HashSet::new();
        for service in &policy.services {
            for server in &service.servers {
                let slot = find(&known, service, server);
                same.extend(slot.filter(|slot| self.goes_on(*slot, &policy, service, server)));
            }
        }
        self.policy = Arc::clone(&policy);
        self.epoch = self.epoch.wrapping_add(1);
        let counts: HashMap<&str, (u64, u64)> = old
            .services
            .iter()
            .zip(&before)
            .map(|(service, face)| (service.name.as_str(), (face.refused, face.by_hash)))
            .collect();
        self.slots.iter_mut().for_each(|slot| slot.service = None);
        for (at, service) in policy.services.iter().enumerate() {
            let slots = service.servers.iter().map(|server| {
                let slot = find(&known, service, server);
                self.enter(at as u16, service, server, slot, slot.is_some_and(|slot| same.contains(&slot)))
            });
            let slots: Vec<u32> = slots.collect();
            let (members, size) = &wanted[at];
            let table =
                tables.get(&signature(members, *size)).or_else(|| until.get(at)).cloned().unwrap_or_default();
            let (refused, by_hash) = counts.get(service.name.as_str()).copied().unwrap_or_default();
            let tag = tag(&service.name);
            self.faces.push(Face { slots, tag, table, is_stale: false, refused, by_hash });
        }
        for at in 0..self.faces.len() {
            // A server's health may have changed since the draft.
            let size = policy.services[at].table_size();
            self.faces[at].is_stale =
                signature(&self.members_now(at), size) != self.faces[at].table.signature();
        }
        self.free_idle();
        self.index();
        self.resize(sessions);
        self.make_room_for_bonds(bonds);
        self.restart_checks(now_ns);
    }

    /// The slot of a server: the one that it had, or another one.
    fn enter(
        &mut self,
        at: u16,
        service: &Service,
        server: &Server,
        known: Option<u32>,
        goes_on: bool,
    ) -> u32 {
        self.serials = self.serials.wrapping_add(1);
        let new = Slot::new(at, service, server, self.serials);
        if let Some(number) = known {
            let slot = &mut self.slots[number as usize];
            let watch = if goes_on { slot.watch } else { Watch::default() };
            *slot = Slot {
                watch,
                serial: slot.serial,
                sessions: slot.sessions,
                begun: slot.begun,
                packets: slot.packets,
                bytes: slot.bytes,
                ..new
            };
            return number;
        }
        match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = new;
                number
            }
            None => {
                self.slots.push(new);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// Slots without a server and sessions are free.
    fn free_idle(&mut self) {
        for (number, slot) in self.slots.iter_mut().enumerate() {
            if slot.service.is_none() && slot.sessions == 0 && !slot.is_free {
                slot.is_free = true;
                self.free.push(number as u32);
            }
        }
    }

    /// What packets are found by.
    fn index(&mut self) {
        self.roles.clear();
        self.ports.clear();
        self.behind.clear();
        let policy = Arc::clone(&self.policy);
        let mut note = |address: u128, bit: u8| *self.roles.entry(address).or_default() |= bit;
        policy.own.iter().flatten().for_each(|own| note(number(*own), role::OWN));
        for (at, (service, face)) in policy.services.iter().zip(&self.faces).enumerate() {
            let virtual_one = number(service.address);
            note(virtual_one, role::VIRTUAL);
            for (server, slot) in service.servers.iter().zip(&face.slots) {
                let server = number(server.address);
                if service.mode == Mode::Nat {
                    note(server, role::BEHIND);
                    self.behind.entry(server).or_default().push(*slot);
                }
                if service.check.is_some() {
                    note(server, role::PROBED);
                }
            }
            let all = [(0, 0)];
            let ranges = if service.ports.is_empty() { &all[..] } else { &service.ports };
            for port in ranges.iter().flat_map(|(low, high)| *low..=*high) {
                self.ports.insert((virtual_one, service.protocol, port), at as u16);
            }
        }
        // Sessions of servers that are gone still have answers under way.
        for slot in self.slots.iter().filter(|slot| slot.service.is_none() && !slot.is_free) {
            if slot.mode == Mode::Nat {
                *self.roles.entry(slot.address).or_default() |= role::BEHIND;
            }
        }
    }

    /// Another number of sessions. None ends: if there are too many, those give way first that are not agreed on.
    fn resize(&mut self, built: Option<Index>) {
        let count = self.policy.sessions;
        if self.sessions.capacity_to_be() == count {
            return;
        }
        let index = built.unwrap_or_else(|| Index::new(count, self.sessions.capacity(), self.rng.u64(..)));
        self.retired.indexes.extend(self.sessions.begin_resize(index));
        self.hand = Hand::default();
    }

    /// Goes on with another number of sessions or clients, by up to `most` records of each. Returns whether there is more to do.
    pub fn resize_some(&mut self, most: usize) -> bool {
        if self.sessions.is_resizing() {
            self.retired.indexes.extend(self.sessions.resize_some(most));
        }
        self.resize_bonds(most) || self.sessions.is_resizing()
    }

    /// Takes out what is no longer needed: see [`Retired`].
    pub fn retired(&mut self) -> Retired {
        std::mem::take(&mut self.retired)
    }

    /// The address of a slot.
    pub(super) fn address_of(&self, slot: u32) -> IpAddr {
        address(self.slots[slot as usize].address)
    }
}
