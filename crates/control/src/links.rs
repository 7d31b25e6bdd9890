// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interfaces of the control namespace, and their numbers in the route feed.

use std::collections::{BTreeMap, BTreeSet};

use feed::Update;

use crate::model::{Hop, Link};
use crate::objects::Translate;

/// Links at most: their numbers have 16 bits.
const MOST: usize = 1 << 12;

#[derive(Clone, Debug)]
struct Entry {
    number: u16,
    link: Option<Link>,
    /// Sent to the user plane since it changed.
    is_sent: bool,
    /// Named by the full report under way, or by the latest.
    is_named: bool,
}

/// All links by the kernel's index.
#[derive(Debug, Default)]
pub(crate) struct Links {
    entries: BTreeMap<u32, Entry>,
    /// Numbers of entries.
    taken: BTreeSet<u16>,
    /// The numbers of tables by those of Linux.
    tables: BTreeMap<u32, u8>,
}

impl Links {
    /// The number of the link with this index, made up if the kernel has not reported it yet.
    pub(crate) fn number(&mut self, index: u32) -> Option<u16> {
        if let Some(entry) = self.entries.get(&index) {
            return Some(entry.number);
        }
        let number = (0..MOST as u16).find(|number| !self.taken.contains(number))?;
        self.taken.insert(number);
        self.entries.insert(index, Entry { number, link: None, is_sent: false, is_named: true });
        Some(number)
    }

    /// Notes the number of a table of Linux.
    pub(crate) fn set_table(&mut self, table: u32, number: u8) {
        self.tables.insert(table, number);
    }

    /// Whether no number is left.
    pub(crate) fn is_full(&self) -> bool {
        self.taken.len() >= MOST
    }

    /// Forgets links that have gone, but those whose numbers are in use.
    pub(crate) fn forget_gone(&mut self, is_used: impl Fn(u16) -> bool) {
        self.entries.retain(|_, entry| entry.link.is_some() || is_used(entry.number));
        self.taken = self.entries.values().map(|entry| entry.number).collect();
    }

    /// A full report begins.
    pub(crate) fn begin(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.is_named = false);
    }

    /// The full report is complete: the indices of links that it has not named.
    pub(crate) fn missing(&self) -> Vec<u32> {
        let missing = self.entries.iter().filter(|(_, entry)| entry.link.is_some() && !entry.is_named);
        missing.map(|(index, _)| *index).collect()
    }

    /// Notes what is known of a link; whether anything that matters to routes has changed.
    pub(crate) fn set(&mut self, index: u32, link: Option<Link>) -> bool {
        if self.number(index).is_none() {
            return false;
        }
        let entry = self.entries.get_mut(&index).expect("it has a number");
        let matters =
            |link: &Option<Link>| link.as_ref().map(|link| (link.name.clone(), link.is_up, link.vrf_table));
        let is_changed = matters(&entry.link) != matters(&link);
        entry.is_sent &= !is_changed;
        entry.link = link;
        entry.is_named = true;
        is_changed
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Link> {
        self.entries.get(&index)?.link.as_ref()
    }

    /// Linux's numbers of the tables that VRF devices have.
    pub(crate) fn vrf_tables(&self) -> BTreeSet<u32> {
        self.iter().filter_map(|(_, link)| link.vrf_table).collect()
    }

    /// The name of the link with this number.
    pub(crate) fn name(&self, number: u16) -> Option<&str> {
        let entry = self.entries.values().find(|entry| entry.number == number)?;
        entry.link.as_ref().map(|link| &*link.name)
    }

    /// All links that are known.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Link)> {
        self.entries.iter().filter_map(|(index, entry)| Some((*index, entry.link.as_ref()?)))
    }

    /// Everything is to be sent again.
    pub(crate) fn forget_sent(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.is_sent = false);
    }

    /// Reports what the user plane does not know yet.
    pub(crate) fn send(&mut self, mut put: impl FnMut(&Update<'_>)) {
        for entry in self.entries.values_mut().filter(|entry| !entry.is_sent) {
            // A link that the kernel has not reported yet, or that has gone, takes no packets.
            let (name, up) = entry.link.as_ref().map_or(("?", false), |link| (&*link.name, link.is_up));
            put(&Update::Link { link: entry.number, up, name });
            entry.is_sent = true;
        }
    }
}

impl Translate for Links {
    fn hop(&mut self, hop: &Hop) -> Option<feed::Hop> {
        let link = self.number(hop.index)?;
        let Hop { gateway, weight, labels, propagates_ttl, .. } = *hop;
        Some(feed::Hop { gateway, link, weight: weight.max(1), backup: false, labels, propagates_ttl })
    }

    fn table(&self, hop: &Hop) -> Option<u8> {
        let table = self.get(hop.index).filter(|_| hop.gateway.is_none())?.vrf_table?;
        self.tables.get(&table).copied()
    }

    fn is_own(&self, hop: &Hop) -> bool {
        hop.gateway.is_none() && self.get(hop.index).is_some_and(|link| link.name == "lo")
    }
}
