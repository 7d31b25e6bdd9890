// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bonds: which server has a client address had? With them a client stays with its server when others come and go.
//!
//! A bond begins with a client's first session and lasts until the client has had no session for the time that the file says. Its server
//! changes only if that one takes no sessions. The table has a bound: bonds without an agreed session give way to others. If there are none,
//! a client goes by the hash alone. When a bond comes back to an earlier server, sessions of before count no more: it may end earlier.

use tables::flow::{FlowId, FlowKey6, FlowTable, Index};

use super::Balancer;
use crate::maglev::mix;
use crate::policy::{Policy, SECOND};

/// Zone of keys of bonds.
const BONDS: u16 = 2;
/// Bonds that are looked at when there is no room.
const SWEPT: usize = 64;
/// A bond that has sessions is looked at so often.
const RENEWED_NS: u64 = 60 * SECOND;

/// What is kept about a client address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bond {
    slot: u32,
    /// That of the slot when it was chosen: another server may have it now.
    serial: u32,
    /// Sessions that count for it.
    sessions: u32,
    /// Whether both sides have agreed on one of them.
    is_agreed: bool,
}

/// The table of bonds.
pub(super) type Table = FlowTable<Bond, FlowKey6>;

/// All bonds.
#[derive(Debug, Default)]
pub(super) struct Bonds {
    /// It is there if a service has persistence.
    table: Option<Table>,
    /// Where the search for one that gives way goes on.
    hand: usize,
}

/// A table of bonds, or the index of another capacity, made apart.
#[derive(Debug)]
pub(super) enum Room {
    Table(Table),
    Index(Index),
}

impl Bonds {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.table.as_ref().map_or(0, Table::len)
    }

    /// What a policy needs that is not here, if it is made: it takes its time.
    pub(super) fn lacks(&self, policy: &Policy) -> Option<Lack> {
        let wanted = policy.services.iter().any(|service| service.persist_ns.is_some());
        match &self.table {
            _ if !wanted => None,
            None => Some(Lack { capacity: policy.clients, present: None }),
            Some(table) if table.capacity_to_be() == policy.clients => None,
            Some(table) => Some(Lack { capacity: policy.clients, present: Some(table.capacity()) }),
        }
    }
}

/// What bonds need for another policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lack {
    capacity: usize,
    /// Without it there is no table.
    present: Option<usize>,
}

impl Lack {
    pub(super) fn make(self, seed: u64) -> Room {
        match self.present {
            None => Room::Table(FlowTable::new(self.capacity, seed)),
            Some(present) => Room::Index(Index::new(self.capacity, present, seed)),
        }
    }
}

/// A service, as its bonds know it in each file that names it.
pub(super) fn tag(name: &str) -> u64 {
    name.bytes().fold(mix(name.len() as u64), |sum, byte| mix(sum ^ u64::from(byte)))
}

fn key(client: u128, tag: u64) -> FlowKey6 {
    FlowKey6 { src: client, dst: tag.into(), sport: 0, dport: 0, proto: 0, zone: BONDS }
}

impl Balancer {
    /// The server of a session's first packet: that of the client's bond, or the one that the hash leads to.
    pub(super) fn server_for(&self, now_ns: u64, service: usize, client: u128, hash: u64) -> Option<u32> {
        self.bound(now_ns, service, client).or_else(|| self.choose(service, hash))
    }

    /// The server that a client is bound to, if it takes sessions.
    #[inline]
    pub(super) fn bound(&self, now_ns: u64, service: usize, client: u128) -> Option<u32> {
        self.policy.services[service].persist_ns?;
        let table = self.bonds.table.as_ref()?;
        let flow = table.flow(table.lookup(&key(client, self.faces[service].tag))?.id)?;
        let Bond { slot: number, serial, sessions, .. } = *flow.value;
        let slot = self.slots.get(number as usize)?;
        let is_its = slot.serial == serial && slot.service.map(usize::from) == Some(service);
        (is_its && slot.takes_new() && (flow.expires_ns > now_ns || sessions > 0)).then_some(number)
    }

    /// A client starts a session with a server. Returns whether it counts for the client's bond.
    pub(super) fn bind(&mut self, now_ns: u64, service: usize, client: u128, slot: u32) -> bool {
        let Some(persist_ns) = self.policy.services[service].persist_ns else { return false };
        let bound = self.bound(now_ns, service, client);
        if bound.is_some_and(|bound| bound != slot) {
            // Its port was in use with that server: this session alone is elsewhere.
            return false;
        }
        let (key, serial) = (key(client, self.faces[service].tag), self.slots[slot as usize].serial);
        let Some(table) = &mut self.bonds.table else { return false };
        let new = Bond { slot, serial, sessions: 0, is_agreed: false };
        let id = match table.lookup(&key) {
            Some(hit) => {
                if let Some(bond) = table.get_mut(hit.id).filter(|_| bound.is_none()) {
                    *bond = new;
                }
                Some(hit.id)
            }
            None => {
                if table.len() >= table.capacity() {
                    let gone = table.sweep(&mut self.bonds.hand, SWEPT, |flow| !flow.value.is_agreed);
                    gone.map(|id| table.remove(id));
                }
                table.insert(key, key, new, now_ns.saturating_add(persist_ns)).ok()
            }
        };
        let Some(id) = id else { return false };
        table.set_expiry(id, now_ns.saturating_add(persist_ns));
        table.get_mut(id).map(|bond| bond.sessions = bond.sessions.saturating_add(1)).is_some()
    }

    /// A client's bond with a slot.
    fn bond_of(&self, client: u128, slot: u32) -> Option<FlowId> {
        let (table, at) = (self.bonds.table.as_ref()?, &self.slots[slot as usize]);
        let id = table.lookup(&key(client, at.tag))?.id;
        table.get(id).filter(|bond| bond.slot == slot && bond.serial == at.serial).map(|_| id)
    }

    /// Both sides have agreed on a session that counts for a bond.
    #[cold]
    pub(super) fn agree(&mut self, client: u128, slot: u32) {
        let Some(id) = self.bond_of(client, slot) else { return };
        if let Some(bond) = self.bonds.table.as_mut().and_then(|table| table.get_mut(id)) {
            bond.is_agreed = true;
        }
    }

    /// A session that counts for a bond has ended.
    #[cold]
    pub(super) fn unbind(&mut self, client: u128, slot: u32) {
        let Some(id) = self.bond_of(client, slot) else { return };
        let service = self.slots[slot as usize].service.map(usize::from);
        let persist_ns = service.and_then(|at| self.policy.services[at].persist_ns);
        let Some(table) = &mut self.bonds.table else { return };
        if let Some(bond) = table.get_mut(id) {
            bond.sessions = bond.sessions.saturating_sub(1);
        }
        if let Some(persist_ns) = persist_ns {
            table.set_expiry(id, self.latest_ns.saturating_add(persist_ns));
        }
    }

    /// Ends bonds whose time has come; at most so many are looked at.
    pub(super) fn reap_bonds(&mut self, now_ns: u64, mut looks: usize) {
        let Some(table) = &mut self.bonds.table else { return };
        while let Some(id) = table.expired(now_ns, &mut looks) {
            match table.get(id) {
                Some(bond) if bond.sessions > 0 => table.set_expiry(id, now_ns.saturating_add(RENEWED_NS)),
                _ => drop(table.remove(id)),
            }
        }
    }

    /// Another policy is in force: it may want another number of bonds, or none.
    pub(super) fn make_room_for_bonds(&mut self, made: Option<Room>) {
        let wanted = self.policy.services.iter().any(|service| service.persist_ns.is_some());
        if !wanted {
            self.retired.bonds = self.bonds.table.take();
            return;
        }
        let Some(lack) = self.bonds.lacks(&self.policy) else { return };
        let room = made.unwrap_or_else(|| lack.make(self.rng.u64(..)));
        match (room, &mut self.bonds.table) {
            (Room::Index(index), Some(table)) => self.retired.indexes.extend(table.begin_resize(index)),
            (Room::Table(table), none) => *none = Some(table),
            // A table has gone since the draft, which is refused then.
            (Room::Index(_), None) => {}
        }
    }

    /// Goes on with the index of another number of bonds. Returns whether there is more to do.
    pub(super) fn resize_bonds(&mut self, most: usize) -> bool {
        let Some(table) = self.bonds.table.as_mut().filter(|table| table.is_resizing()) else { return false };
        self.retired.indexes.extend(table.resize_some(most));
        table.is_resizing()
    }
}
