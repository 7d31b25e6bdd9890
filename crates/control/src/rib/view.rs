// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people see of the routes.

use std::net::IpAddr;

use super::*;

/// A route that counts, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The destination.
    pub key: DestinationKey,
    /// Who reported it.
    pub source: Source,
    /// Linux's number of the protocol.
    pub protocol: u8,
    /// The metric.
    pub metric: u32,
    /// The feed's number of the next-hop object, if it has one.
    pub object: Option<u32>,
    /// What the user plane has; `None` while the object is not known.
    pub way: Option<feed::Object>,
    /// Whether it is the route that counts.
    pub is_best: bool,
    /// Whether the feed has not named it since it was lost, or has withdrawn it while its daemon was restarted.
    pub is_stale: bool,
}

/// How many routes and objects there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Routes that FPM has reported.
    pub fpm: usize,
    /// Routes that the kernel has reported, without local addresses.
    pub kernel: usize,
    /// Local addresses.
    pub local: usize,
    /// Next-hop objects.
    pub objects: usize,
    /// Multicast entries.
    pub trees: usize,
    /// Multicast entries that were left out: too many, or of tables that are no VRF's.
    pub trees_left_out: u64,
    /// Routes that wait for a next-hop object.
    pub waiting: usize,
    /// Withdrawals that wait for the route's return.
    pub held: usize,
    /// Withdrawals that wait longer, for a daemon that was restarted.
    pub lingering: usize,
    /// Routes and objects that were left out because there were too many.
    pub left_out: u64,
}

impl Rib {
    /// How many there are.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let len = |layer: Layer| self.layers[layer as usize].len();
        Counts {
            fpm: len(Layer::Fpm),
            kernel: len(Layer::Kernel),
            local: len(Layer::Local),
            objects: self.objects.len(),
            trees: self.trees.len(),
            trees_left_out: self.trees.left_out(),
            waiting: self.waiting.values().map(HashSet::len).sum(),
            held: self.held.len() + self.leaving.len(),
            lingering: self.lingering.len() + self.settling.len(),
            left_out: self.left_out,
        }
    }

    /// How many destinations of a table any feed has routes for; one of two feeds counts twice.
    #[must_use]
    pub fn destinations(&self, table: u8) -> usize {
        self.layers.iter().map(|layer| layer.first.len_of(table)).sum()
    }

    /// Links that the kernel has reported, by index.
    pub fn links(&self) -> impl Iterator<Item = (u32, &Link)> {
        self.links.iter()
    }

    /// The first destinations behind `after`, or from the beginning, in order.
    pub(super) fn keys_after(&self, after: Option<DestinationKey>, most: usize) -> Vec<DestinationKey> {
        let mut keys: Vec<DestinationKey> = Vec::new();
        for layer in &self.layers {
            keys.extend(layer.first.after(after).take(most).map(|(key, _)| key));
        }
        keys.sort_unstable();
        keys.dedup();
        keys.truncate(most);
        keys
    }

    /// Routes for people, in order: those of the first `most` destinations behind `after`, all of them that count, or with `all` every
    /// one. The second part is where to go on; `None` at the end.
    pub fn show(
        &mut self,
        all: bool,
        after: Option<DestinationKey>,
        most: usize,
    ) -> (Vec<Shown>, Option<DestinationKey>) {
        let keys = self.keys_after(after, most);
        let next = keys.last().copied().filter(|_| keys.len() == most);
        let mut shown = Vec::new();
        for key in keys {
            let best = self.best(&key);
            for layer in Layer::ALL {
                let mut routes: Vec<Stored> = self.layers[layer as usize].of(&key).collect();
                routes.sort_by_key(|route| route.metric);
                for route in routes {
                    let is_best = best == Some((layer, route));
                    if is_best || all {
                        shown.push(self.show_one(key, layer, route, is_best));
                    }
                }
            }
        }
        (shown, next)
    }

    /// The route that decides about an address in a table.
    pub fn lookup(&mut self, table: u8, address: IpAddr) -> Option<Shown> {
        let lengths = if address.is_ipv4() { 32 } else { 128 };
        let prefix = |len| match address {
            IpAddr::V4(address) => wire::Prefix4::new(address, len).map(Destination::V4),
            IpAddr::V6(address) => wire::Prefix6::new(address, len).map(Destination::V6),
        };
        let keys = (0..=lengths).rev().filter_map(prefix).map(|prefix| DestinationKey { table, prefix });
        let (key, (layer, route)) = keys.filter_map(|key| Some((key, self.best(&key)?))).next()?;
        Some(self.show_one(key, layer, route, true))
    }

    /// The name of the link with this number in the route feed.
    #[must_use]
    pub fn link_name(&self, number: u16) -> Option<&str> {
        self.links.name(number)
    }

    pub(super) fn show_one(
        &mut self,
        key: DestinationKey,
        layer: Layer,
        route: Stored,
        is_best: bool,
    ) -> Shown {
        let feed = self.feed(layer.source());
        let object = if is_best { self.way(&key).unwrap_or(route.object) } else { route.object };
        Shown {
            key,
            source: layer.source(),
            protocol: route.protocol,
            metric: route.metric,
            object: self.objects.number(route.object),
            way: self.objects.meaning(object, &mut self.links),
            is_best,
            is_stale: !feed.is_up
                || feed.generation != route.generation
                || route.is_leaving
                || layer == Layer::Fpm && self.is_leaving(&key),
        }
    }
}
