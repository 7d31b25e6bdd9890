// SPDX-License-Identifier: MIT OR Apache-2.0
//! All routes of all feeds, and which of them count.
//!
//! # Which route counts
//! For each destination, in this order: the kernel's local addresses; the route of FPM; the kernel's route with the lowest metric.
//! While FPM is there, kernel routes of FRR's own protocols count for nothing: they are copies that arrive later.
//!
//! # Truth over time
//! * A withdrawal is held for [`HOLD`]. If the route is back by then, nothing has happened (FRR deletes and adds to change a route).
//! * A route whose next-hop object is not known waits. What forwarded before it goes on.
//! * Between [`Change::Begin`] and [`Change::End`] the kernel names all its routes; the others are swept.
//! * When a feed is lost, its routes stay for the grace period ([`Rib::set_grace`]), and are then withdrawn.
//! * A daemon that returns cannot say when it has named all its routes: one that was restarted learns most of them later. So those that
//!   it has not named stay for the grace period, too. They go earlier if it has named nearly all of that protocol ([`MISSING`]).
//! * A user plane that has routes of an earlier control plane keeps them until all feeds have reported ([`Rib::expect`]).
//!
//! The RIB does no I/O, and the time is passed in.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use feed::{Prefix, Update};

use crate::key::{Key, Map};
use crate::links::Links;
use crate::model::{Change, LOCAL, Link, MAIN, Route, Source};
use crate::objects::{ObjectId, Objects};
use crate::outbox::Outbox;

/// How long a withdrawal waits for the route's return.
pub const HOLD: Duration = Duration::from_millis(5);
/// How long the routes of a lost feed stay, unless told otherwise.
pub const GRACE: Duration = Duration::from_secs(120);
/// A returned daemon has named nearly all routes of a protocol if at most one in so many is missing.
pub const MISSING: usize = 100;
/// Protocol numbers of FRR, as it gives them to its kernel routes.
const FRRS: &[u8] = &[11, 186, 187, 188, 189, 190, 191, 192, 193, 194, 195, 196, 197, 198];
/// Where a table of Linux appears in the user plane.
const TABLES: usize = 256;

type Hasher = foldhash::fast::RandomState;

/// A route as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stored {
    object: ObjectId,
    metric: u32,
    protocol: u8,
    generation: u8,
}

/// Where routes are kept, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    Local,
    Fpm,
    Kernel,
}

impl Layer {
    const ALL: [Layer; 3] = [Layer::Local, Layer::Fpm, Layer::Kernel];

    fn of(source: Source, table: u32) -> Layer {
        match source {
            Source::Fpm => Layer::Fpm,
            Source::Kernel if table == LOCAL => Layer::Local,
            Source::Kernel => Layer::Kernel,
        }
    }

    fn source(self) -> Source {
        match self {
            Layer::Fpm => Source::Fpm,
            Layer::Local | Layer::Kernel => Source::Kernel,
        }
    }
}

/// The routes of one layer. Few destinations have several routes, with different metrics.
#[derive(Debug, Default)]
struct Routes {
    first: Map<Stored>,
    others: Map<Vec<Stored>>,
}

impl Routes {
    /// All of them, in no order.
    fn iter(&self) -> impl Iterator<Item = (Key, Stored)> {
        let others = self.others.iter().flat_map(|(key, list)| list.iter().map(move |route| (key, *route)));
        self.first.iter().map(|(key, route)| (key, *route)).chain(others)
    }

    fn len(&self) -> usize {
        self.first.len() + self.others.iter().map(|(_, others)| others.len()).sum::<usize>()
    }
}

/// The state of a feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedState {
    /// Whether it is there.
    pub is_up: bool,
    /// Whether a full report is under way.
    pub is_replaying: bool,
    /// When routes go that it has not named since it was lost.
    pub stale_until: Option<Duration>,
    /// Whether its first report is awaited before anything is swept from a user plane.
    is_expected: bool,
    generation: u8,
}

/// A route that counts, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The destination.
    pub key: Key,
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
    /// Routes that wait for a next-hop object.
    pub waiting: usize,
    /// Withdrawals that wait for the route's return.
    pub held: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Rib {
    layers: [Routes; 3],
    objects: Objects,
    links: Links,
    /// Objects as the user plane has them.
    sent: HashMap<ObjectId, feed::Object, Hasher>,
    waiting: HashMap<ObjectId, HashSet<Key, Hasher>, Hasher>,
    held: HashMap<Key, Duration, Hasher>,
    fpm: FeedState,
    kernel: FeedState,
    grace: Duration,
    tables: HashMap<u32, u8>,
    outbox: Outbox,
    /// The replay to the user plane lacks its end.
    is_end_due: bool,
    /// Whether the kernel's routes count, next to its local addresses.
    has_kernel_routes: bool,
    /// Whether FPM has reported, so that the kernel's copies of its routes count for nothing.
    covers_copies: bool,
}

impl Default for Rib {
    fn default() -> Self {
        Rib {
            layers: Default::default(),
            objects: Objects::default(),
            links: Links::default(),
            sent: HashMap::default(),
            waiting: HashMap::default(),
            held: HashMap::default(),
            fpm: FeedState::default(),
            kernel: FeedState::default(),
            grace: GRACE,
            tables: HashMap::from([(MAIN, 0), (LOCAL, 0)]),
            outbox: Outbox::default(),
            is_end_due: false,
            has_kernel_routes: true,
            covers_copies: false,
        }
    }
}

impl Rib {
    /// Lets the routes of a lost feed stay so long.
    pub fn set_grace(&mut self, grace: Duration) {
        self.grace = grace;
    }

    /// Says whether the kernel's routes count. Its interfaces and local addresses always do.
    pub fn set_kernel_routes(&mut self, count: bool) {
        self.has_kernel_routes = count;
    }

    /// Awaits the first report of a feed, for the grace period at most, before a user plane's older routes are swept.
    pub fn expect(&mut self, source: Source) {
        self.feed_mut(source).is_expected = true;
    }

    /// Says which table of the user plane gets the routes of a table of Linux. Without, only those of the main table are sent, to table 0.
    pub fn set_table(&mut self, table: u32, number: u8) {
        if self.tables.len() < TABLES {
            self.tables.insert(table, number);
            self.links.set_table(table, number);
        }
    }

    /// What is to be sent.
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// The state of a feed.
    #[must_use]
    pub fn feed(&self, source: Source) -> FeedState {
        match source {
            Source::Fpm => self.fpm,
            Source::Kernel => self.kernel,
        }
    }

    fn feed_mut(&mut self, source: Source) -> &mut FeedState {
        match source {
            Source::Fpm => &mut self.fpm,
            Source::Kernel => &mut self.kernel,
        }
    }

    /// Takes in what a feed reports.
    pub fn apply(&mut self, source: Source, change: Change, now: Duration) {
        match change {
            Change::Begin => self.begin(source, now),
            Change::End => self.end(source, now),
            Change::Lost => {
                let until = now + self.grace;
                let feed = self.feed_mut(source);
                (feed.is_up, feed.is_replaying, feed.stale_until) = (false, false, Some(until));
            }
            Change::Route { table, .. } if !self.counts_from(source, table) => {}
            Change::Route { table, prefix, route } => {
                if let Some(key) = self.key(table, prefix) {
                    self.set(Layer::of(source, table), source, key, route, now);
                }
            }
            Change::Withdraw { table, prefix, metric } => {
                if let Some(key) = self.key(table, prefix) {
                    let layer = Layer::of(source, table);
                    // The kernel leaves out a metric of 0. FPM has one route for each prefix, whatever its metric.
                    let metric = if source == Source::Kernel { Some(metric.unwrap_or(0)) } else { None };
                    self.change(key, now, |rib| rib.remove(layer, &key, metric));
                }
            }
            Change::Object { id, object } => {
                let changed = self.objects.define(source, id, object, &mut self.links);
                changed.into_iter().for_each(|id| self.object_changed(id));
            }
            Change::DropObject { id } => self.forget_object(source, id, now),
            Change::Link { index, link } => self.link(index, link),
            Change::Label { label, route } => self.label(source, label, route, now),
            Change::Address { .. } | Change::Neighbour { .. } | Change::Rules { .. } => {}
        }
    }

    fn counts_from(&self, source: Source, table: u32) -> bool {
        self.has_kernel_routes || Layer::of(source, table) != Layer::Kernel
    }

    /// The destination in the user plane; `None` for what is not for it.
    fn key(&self, table: u32, prefix: Prefix) -> Option<Key> {
        let table = *self.tables.get(&table)?;
        let is_for_us = match prefix {
            Prefix::V4(prefix) => !prefix.addr().is_loopback() && !prefix.addr().is_multicast(),
            // Each link has its own; what comes for them is for the kernel.
            Prefix::V6(prefix) => {
                let addr = prefix.addr();
                !addr.is_loopback() && !addr.is_multicast() && !addr.is_unicast_link_local()
            }
            Prefix::Label(_) => true,
        };
        is_for_us.then_some(Key { table, prefix })
    }

    fn begin(&mut self, source: Source, now: Duration) {
        self.objects.begin(source, &mut self.links);
        if source == Source::Kernel {
            self.links.begin();
        }
        let until = now + self.grace;
        let feed = self.feed_mut(source);
        feed.generation = feed.generation.wrapping_add(1);
        (feed.is_up, feed.is_replaying) = (true, true);
        feed.stale_until = match source {
            Source::Kernel => None,
            Source::Fpm => feed.stale_until.or(Some(until)),
        };
    }

    fn end(&mut self, source: Source, now: Duration) {
        if !std::mem::take(&mut self.feed_mut(source).is_replaying) {
            return;
        }
        self.feed_mut(source).is_expected = false;
        self.objects.end(source);
        let generation = self.feed(source).generation;
        if source == Source::Kernel {
            self.links.missing().into_iter().for_each(|index| self.link(index, None));
            return self.sweep(source, now, |route| route.generation != generation);
        }
        let doubtful = self.doubtful_protocols(generation);
        self.sweep(source, now, |route| {
            route.generation != generation && !doubtful[usize::from(route.protocol)]
        });
        if doubtful == [false; 256] {
            self.fpm.stale_until = None;
        }
        self.cover_copies(now);
    }

    /// Protocols of FPM of which too many routes have not been named since it returned: it may not have learnt them yet.
    fn doubtful_protocols(&self, generation: u8) -> [bool; 256] {
        let (mut all, mut missing) = ([0; 256], [0; 256]);
        for (_, route) in self.layers[Layer::Fpm as usize].first.iter() {
            all[usize::from(route.protocol)] += 1;
            missing[usize::from(route.protocol)] += usize::from(route.generation != generation);
        }
        std::array::from_fn(|protocol| missing[protocol] * MISSING > all[protocol])
    }

    /// FPM has reported everything: copies in the kernel that it does not name count no longer.
    fn cover_copies(&mut self, now: Duration) {
        self.covers_copies = true;
        for key in self.copies() {
            match self.best(&key) {
                None => _ = self.held.insert(key, now + HOLD),
                Some((Layer::Kernel, original)) => self.put_route(key, original.object),
                Some(_) => {}
            }
        }
    }

    /// Destinations of kernel routes that FRR made.
    fn copies(&self) -> Vec<Key> {
        let routes = self.layers[Layer::Kernel as usize].first.iter();
        routes.filter(|(_, route)| FRRS.contains(&route.protocol)).map(|(key, _)| key).collect()
    }

    /// Removes the routes of a feed that are `stale`.
    fn sweep(&mut self, source: Source, now: Duration, stale: impl Fn(&Stored) -> bool) {
        for layer in Layer::ALL.into_iter().filter(|layer| layer.source() == source) {
            let gone: Vec<(Key, Stored)> =
                self.layers[layer as usize].iter().filter(|(_, route)| stale(route)).collect();
            for (key, route) in gone {
                self.change(key, now, |rib| rib.remove(layer, &key, Some(route.metric)));
            }
        }
    }

    fn set(&mut self, layer: Layer, source: Source, key: Key, route: Route, now: Duration) {
        let (metric, protocol) = (route.metric, route.protocol);
        let Some(object) = self.objects.acquire(source, route) else {
            return self.change(key, now, |rib| rib.remove(layer, &key, Some(metric)));
        };
        let generation = self.feed(source).generation;
        let stored = Stored { object, metric, protocol, generation };
        self.change(key, now, |rib| rib.insert(layer, &key, stored));
    }

    fn insert(&mut self, layer: Layer, key: &Key, route: Stored) {
        let routes = &mut self.layers[layer as usize];
        let Some(before) = routes.first.insert(key, route) else { return };
        // A daemon of FPM has one route for each destination.
        if before.metric == route.metric || layer == Layer::Fpm {
            return self.objects.release(before.object);
        }
        let mut others = routes.others.remove(key).unwrap_or_default();
        if let Some(at) = others.iter().position(|other| other.metric == route.metric) {
            self.objects.release(others.swap_remove(at).object);
        }
        others.push(before);
        self.promote(layer, key, others);
    }

    fn remove(&mut self, layer: Layer, key: &Key, metric: Option<u32>) {
        let routes = &mut self.layers[layer as usize];
        let Some(first) = routes.first.get(key).copied() else { return };
        let mut others = routes.others.remove(key).unwrap_or_default();
        let is_meant =
            |route: &Stored| metric.is_none_or(|metric| layer == Layer::Fpm || metric == route.metric);
        for other in others.extract_if(.., |other| is_meant(other)) {
            self.objects.release(other.object);
        }
        if is_meant(&first) {
            routes.first.remove(key);
            self.objects.release(first.object);
        }
        self.promote(layer, key, others);
    }

    /// Puts the route with the lowest metric first.
    fn promote(&mut self, layer: Layer, key: &Key, mut others: Vec<Stored>) {
        let routes = &mut self.layers[layer as usize];
        others.extend(routes.first.remove(key));
        let Some(best) = (0..others.len()).min_by_key(|at| others[*at].metric) else { return };
        routes.first.insert(key, others.swap_remove(best));
        if !others.is_empty() {
            routes.others.insert(key, others);
        }
    }

    /// The route that counts, and where it comes from.
    fn best(&self, key: &Key) -> Option<(Layer, Stored)> {
        let first = |layer: Layer| Some((layer, *self.layers[layer as usize].first.get(key)?));
        first(Layer::Local).or_else(|| first(Layer::Fpm)).or_else(|| match first(Layer::Kernel)? {
            (_, route) if self.is_copy(&route) => self.best_original(key),
            found => Some(found),
        })
    }

    /// Of the kernel's further routes for a destination, the best that is no copy.
    fn best_original(&self, key: &Key) -> Option<(Layer, Stored)> {
        let others = self.layers[Layer::Kernel as usize].others.get(key)?.iter();
        let best = others.filter(|route| !self.is_copy(route)).min_by_key(|route| route.metric)?;
        Some((Layer::Kernel, *best))
    }

    /// Whether a kernel route is a copy of what FPM reports.
    fn is_copy(&self, route: &Stored) -> bool {
        FRRS.contains(&route.protocol) && self.covers_copies
    }

    /// Makes a change of one destination's routes, and notes what the user plane is to do.
    fn change(&mut self, key: Key, now: Duration, change: impl FnOnce(&mut Rib)) {
        let before = self.best(&key).map(|(_, route)| route.object);
        change(self);
        let after = self.best(&key).map(|(_, route)| route.object);
        match after {
            _ if before == after => {}
            Some(object) => self.put_route(key, object),
            None => _ = self.held.insert(key, now + HOLD),
        }
    }

    fn put_route(&mut self, key: Key, object: ObjectId) {
        if !self.held.is_empty() {
            self.held.remove(&key);
        }
        if !self.send_object(object) {
            self.waiting.entry(object).or_default().insert(key);
            return;
        }
        let Key { table, prefix } = key;
        self.outbox.put(&Update::Route { table, prefix, id: object });
    }

    /// Makes sure that the user plane knows an object; false if nobody does.
    fn send_object(&mut self, id: ObjectId) -> bool {
        if self.sent.contains_key(&id) {
            return true;
        }
        let Some(object) = self.objects.meaning(id, &mut self.links) else { return false };
        self.put_object(id, object);
        true
    }

    /// Sends what an object means, and first the links that it names.
    fn put_object(&mut self, id: ObjectId, object: feed::Object) {
        self.links.send(|update| self.outbox.put(update));
        self.outbox.put(&Update::Object { id, object: object.clone() });
        self.sent.insert(id, object);
    }

    /// An object may mean something else now.
    fn object_changed(&mut self, id: ObjectId) {
        if let Some(keys) = self.waiting.remove(&id) {
            for key in keys {
                // Another route may have come meanwhile.
                if let Some((_, route)) = self.best(&key) {
                    self.put_route(key, route.object);
                }
            }
        }
        let Some(sent) = self.sent.get(&id) else { return };
        let Some(object) = self.objects.meaning(id, &mut self.links) else { return };
        if *sent != object {
            self.put_object(id, object);
        }
    }

    fn forget_object(&mut self, source: Source, number: u32, now: Duration) {
        let (changed, in_use) = self.objects.forget(source, number);
        changed.into_iter().for_each(|id| self.object_changed(id));
        // The kernel removes the routes of an object with it, and says nothing.
        if let Some(id) = in_use.filter(|_| source == Source::Kernel) {
            self.sweep(source, now, |route| route.object == id);
        }
    }

    fn link(&mut self, index: u32, link: Option<Link>) {
        if self.links.is_full() {
            let hops = self.sent.values().filter_map(|object| match object {
                feed::Object::Forward(hops) => Some(hops),
                _ => None,
            });
            let used: HashSet<u16> = hops.flatten().map(|hop| hop.link).collect();
            self.links.forget_gone(|number| used.contains(&number));
        }
        if !self.links.set(index, link) {
            return;
        }
        self.links.send(|update| self.outbox.put(update));
        // Hops by the loopback interface mean the router itself, whatever else changes.
        let concerned = self.objects.with_hop(|hop| hop.index == index && hop.gateway.is_none());
        concerned.into_iter().for_each(|id| self.object_changed(id));
    }

    /// Does what is due, and completes the batch. Call it when the feeds have nothing more for the moment.
    pub fn flush(&mut self, now: Duration) {
        for source in [Source::Fpm, Source::Kernel] {
            if self.feed(source).stale_until.is_some_and(|until| until <= now) {
                self.feed_mut(source).stale_until = None;
                let FeedState { is_up, generation, .. } = self.feed(source);
                self.sweep(source, now, |route| !is_up || route.generation != generation);
                match source {
                    Source::Fpm if !is_up => self.uncover_copies(),
                    // A daemon that is never quiet has had its time.
                    Source::Fpm => self.end(source, now),
                    Source::Kernel => {}
                }
            }
        }
        self.withdraw_due(now);
        if self.is_end_due && self.is_complete(now) {
            self.outbox.put(&Update::End);
            self.is_end_due = false;
        }
        if !self.waiting.is_empty() {
            self.forget_resolved();
        }
        if self.held.is_empty() && self.waiting.is_empty() && self.objects.has_unused() {
            for id in self.objects.take_unused() {
                if self.sent.remove(&id).is_some() {
                    self.outbox.put(&Update::DropObject { id });
                }
            }
        }
        self.outbox.close();
    }

    /// Routes wait no longer that lead to another object now.
    fn forget_resolved(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|object, keys| {
            keys.retain(|key| self.best(key).is_some_and(|(_, route)| route.object == *object));
            !keys.is_empty()
        });
        self.waiting = waiting;
    }

    fn withdraw_due(&mut self, now: Duration) {
        let due: Vec<Key> =
            self.held.extract_if(|_, deadline| *deadline <= now).map(|(key, _)| key).collect();
        for Key { table, prefix } in due {
            self.outbox.put(&Update::Withdraw { table, prefix });
        }
    }

    /// FPM has gone for good: the kernel's copies count.
    fn uncover_copies(&mut self) {
        self.covers_copies = false;
        for key in self.copies() {
            if let Some((_, route)) = self.best(&key) {
                self.put_route(key, route.object);
            }
        }
    }

    /// When [`flush`](Self::flush) has something to do, if nothing else happens.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        let held = self.held.values().copied().min();
        let end = self.is_end_due.then_some(self.grace);
        held.into_iter().chain(end).chain(self.fpm.stale_until).chain(self.kernel.stale_until).min()
    }

    /// Puts everything that is valid into the outbox, for a user plane that knows nothing. The end of the replay follows by
    /// [`flush`](Self::flush), when all feeds have reported.
    pub fn replay(&mut self) {
        self.outbox.clear();
        self.sent.clear();
        self.links.forget_sent();
        self.held.clear();
        self.waiting.clear();
        self.outbox.put(&Update::Begin);
        self.links.send(|update| self.outbox.put(update));
        let mut keys: Vec<Key> = Vec::new();
        for layer in Layer::ALL {
            keys.extend(self.layers[layer as usize].first.iter().map(|(key, _)| key));
        }
        // In order, so that the user plane rebuilds each part of its table once.
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            if let Some((_, route)) = self.best(&key) {
                self.put_route(key, route.object);
            }
        }
        self.outbox.close();
        self.is_end_due = true;
    }

    /// Whether all feeds have reported, or have had their time.
    fn is_complete(&self, now: Duration) -> bool {
        !self.fpm.is_expected && !self.kernel.is_expected || now >= self.grace
    }

    /// How many there are.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let len = |layer: Layer| self.layers[layer as usize].len();
        Counts {
            fpm: len(Layer::Fpm),
            kernel: len(Layer::Kernel),
            local: len(Layer::Local),
            objects: self.objects.len(),
            waiting: self.waiting.values().map(HashSet::len).sum(),
            held: self.held.len(),
        }
    }

    /// Links that the kernel has reported, by index.
    pub fn links(&self) -> impl Iterator<Item = (u32, &Link)> {
        self.links.iter()
    }

    /// Routes for people, in order: all that count, or with `all` every one.
    pub fn show(&mut self, all: bool) -> Vec<Shown> {
        let mut found: Vec<(Key, Layer, Stored)> = Vec::new();
        for layer in Layer::ALL {
            found.extend(self.layers[layer as usize].iter().map(|(key, route)| (key, layer, route)));
        }
        found.sort_by_key(|(key, layer, route)| (*key, *layer as u8, route.metric));
        let mut shown = Vec::new();
        for (key, layer, route) in found {
            let is_best = self.best(&key) == Some((layer, route));
            if is_best || all {
                shown.push(self.show_one(key, layer, route, is_best));
            }
        }
        shown
    }

    /// The route that decides about an address in a table.
    pub fn lookup(&mut self, table: u8, address: IpAddr) -> Option<Shown> {
        let lengths = if address.is_ipv4() { 32 } else { 128 };
        let prefix = |len| match address {
            IpAddr::V4(address) => wire::Prefix4::new(address, len).map(Prefix::V4),
            IpAddr::V6(address) => wire::Prefix6::new(address, len).map(Prefix::V6),
        };
        let keys = (0..=lengths).rev().filter_map(prefix).map(|prefix| Key { table, prefix });
        let (key, (layer, route)) = keys.filter_map(|key| Some((key, self.best(&key)?))).next()?;
        Some(self.show_one(key, layer, route, true))
    }

    /// The name of the link with this number in the route feed.
    #[must_use]
    pub fn link_name(&self, number: u16) -> Option<&str> {
        self.links.name(number)
    }

    fn show_one(&mut self, key: Key, layer: Layer, route: Stored, is_best: bool) -> Shown {
        Shown {
            key,
            source: layer.source(),
            protocol: route.protocol,
            metric: route.metric,
            object: self.objects.number(route.object),
            way: self.objects.meaning(route.object, &mut self.links),
            is_best,
        }
    }
}

mod labels;

#[cfg(test)]
mod tests;
