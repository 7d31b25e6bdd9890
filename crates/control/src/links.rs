// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interfaces of the control namespace, and their numbers in the route feed.

use std::collections::BTreeMap;

use feed::Update;

use crate::model::{Hop, Link};
use crate::objects::Translate;

/// Links at most: their numbers have 16 bits.
const MOST: usize = 1 << 12;

#[derive(Clone, Debug)]
struct Entry {
    number: u16,
    link: Option<Link>,
    /// Told to the user plane since it changed.
    is_sent: bool,
}

/// All links by the kernel's index.
#[derive(Debug, Default)]
pub(crate) struct Links {
    entries: BTreeMap<u32, Entry>,
}

impl Links {
    /// The number of the link with this index, made up if the kernel has not told of it yet.
    fn number(&mut self, index: u32) -> Option<u16> {
        if let Some(entry) = self.entries.get(&index) {
            return Some(entry.number);
        }
        let number = u16::try_from(self.entries.len()).ok().filter(|_| self.entries.len() < MOST)?;
        self.entries.insert(index, Entry { number, link: None, is_sent: false });
        Some(number)
    }

    /// Notes what is known of a link; whether anything that matters to routes has changed.
    pub(crate) fn set(&mut self, index: u32, link: Option<Link>) -> bool {
        if self.number(index).is_none() {
            return false;
        }
        let entry = self.entries.get_mut(&index).expect("it has a number");
        let matters = |link: &Option<Link>| link.as_ref().map(|link| (link.name.clone(), link.is_up));
        let is_changed = matters(&entry.link) != matters(&link);
        entry.is_sent &= !is_changed;
        entry.link = link;
        is_changed
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Link> {
        self.entries.get(&index)?.link.as_ref()
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
            // A link that the kernel has not told of yet, or that has gone, takes no packets.
            let (name, up) = entry.link.as_ref().map_or(("?", false), |link| (&*link.name, link.is_up));
            put(&Update::Link { link: entry.number, up, name });
            entry.is_sent = true;
        }
    }
}

impl Translate for Links {
    fn hop(&mut self, hop: &Hop) -> Option<feed::Hop> {
        let link = self.number(hop.index)?;
        let Hop { gateway, weight, labels, .. } = *hop;
        Some(feed::Hop { gateway, link, weight: weight.max(1), backup: false, labels })
    }

    fn is_own(&self, hop: &Hop) -> bool {
        hop.gateway.is_none() && self.get(hop.index).is_some_and(|link| link.name == "lo")
    }
}
