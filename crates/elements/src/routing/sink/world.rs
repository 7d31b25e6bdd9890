// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a feed has said of links and objects, in its own terms.

use std::collections::{HashMap, HashSet};

use feed::{Hop, Object};

use super::{Hasher, Vrfs};
use crate::routing::bfd::{Down, Neighbour};

/// Objects that a feed may define.
const MOST_OBJECTS: usize = 1 << 16;
/// Hops of all objects.
pub(super) const MOST_HOPS: usize = 1 << 18;
/// The number in an answer of a table that the feed does not know.
const NO_TABLE: u8 = u8::MAX;
/// Links that a feed may name.
const MOST_LINKS: usize = 1 << 12;

/// Links and objects in the feed's terms.
#[derive(Clone, Default)]
pub(super) struct World {
    pub links: HashMap<u16, Link>,
    pub objects: HashMap<u32, Object, Hasher>,
    /// The VRFs of tables other than 0, and the numbers of their tables here.
    tables: HashMap<u8, Table>,
    /// Neighbours that do not answer, even if the control plane knows them.
    pub down: Down,
    /// Hops of all objects.
    hops: usize,
    /// Objects were refused for which there was no room.
    lacks_objects: bool,
}

#[derive(Clone)]
struct Table {
    name: String,
    /// `None` if there is no such VRF here.
    number: Option<u8>,
}

#[derive(Clone)]
pub(super) struct Link {
    pub name: String,
    pub up: bool,
}

impl World {
    /// Nothing but neighbours that are down.
    pub(super) fn new(down: Down) -> World {
        World { down, ..World::default() }
    }

    /// Notes which VRF a table is of.
    pub(super) fn set_table(&mut self, table: u8, name: &str, vrfs: &Vrfs) {
        let number = vrfs.get(name).copied();
        self.tables.insert(table, Table { name: name.to_owned(), number });
    }

    /// Finds the tables of all VRFs again.
    pub(super) fn find_tables(&mut self, vrfs: &Vrfs) {
        self.tables.values_mut().for_each(|table| table.number = vrfs.get(&table.name).copied());
    }

    /// The number that a table of the feed has here.
    pub(super) fn table(&self, table: u8) -> Result<u8, String> {
        if table == 0 {
            return Ok(0);
        }
        let found = self.tables.get(&table).ok_or_else(|| format!("table {table} is not known"))?;
        found.number.ok_or_else(|| format!("the router has no VRF '{}'", found.name))
    }

    /// The number that the feed has for a table, or [`NO_TABLE`].
    pub(super) fn table_of_feed(&self, number: u8) -> u8 {
        let found = self.tables.iter().find(|(_, table)| table.number == Some(number));
        if number == 0 { 0 } else { found.map_or(NO_TABLE, |(table, _)| *table) }
    }

    /// Notes what an object stands for.
    pub(super) fn define(&mut self, id: u32, object: Object) -> Result<(), String> {
        let before = self.objects.get(&id);
        let hops = self.hops + count(&object) - before.map_or(0, count);
        let refused = match before {
            None if self.objects.len() >= MOST_OBJECTS => {
                format!("more than {MOST_OBJECTS} next-hop objects")
            }
            _ if hops > MOST_HOPS => format!("more than {MOST_HOPS} next hops in all objects"),
            _ => {
                self.hops = hops;
                self.objects.insert(id, object);
                return Ok(());
            }
        };
        self.lacks_objects = true;
        Err(refused)
    }

    pub(super) fn forget(&mut self, id: u32) {
        let object = self.objects.remove(&id);
        self.hops -= object.as_ref().map_or(0, count);
    }

    /// Notes the state of a link. The objects with hops there follow.
    pub(super) fn set_link(&mut self, number: u16, link: Link) -> Result<Vec<u32>, String> {
        if !self.links.contains_key(&number) && self.links.len() >= MOST_LINKS {
            return Err(format!("more than {MOST_LINKS} links"));
        }
        self.links.insert(number, link);
        let is_concerned = |object: &Object| match object {
            Object::Forward(hops) => hops.iter().any(|hop| hop.link == number),
            _ => false,
        };
        Ok(self.objects.iter().filter(|(_, object)| is_concerned(object)).map(|(id, _)| *id).collect())
    }

    /// Whether the neighbour behind a hop does not answer.
    pub(super) fn is_down(&self, hop: &Hop) -> bool {
        let neighbour =
            |address| Some(Neighbour { link: self.links.get(&hop.link)?.name.as_str().into(), address });
        !self.down.is_empty()
            && hop.gateway.and_then(neighbour).is_some_and(|neighbour| self.down.contains(&neighbour))
    }

    /// Objects with a hop whose neighbour is down.
    pub(super) fn through_dead(&self) -> HashSet<u32> {
        let is_concerned = |object: &Object| match object {
            Object::Forward(hops) => hops.iter().any(|hop| self.is_down(hop)),
            _ => false,
        };
        self.objects.iter().filter(|(_, object)| is_concerned(object)).map(|(id, _)| *id).collect()
    }

    /// Whether there is room for objects that were refused.
    pub(super) fn has_room_again(&self) -> bool {
        let is_below = |count: usize, most: usize| count < most - most / 8;
        self.lacks_objects && is_below(self.objects.len(), MOST_OBJECTS) && is_below(self.hops, MOST_HOPS)
    }
}

/// Hops of an object.
fn count(object: &Object) -> usize {
    match object {
        Object::Forward(hops) => hops.len(),
        _ => 1,
    }
}
