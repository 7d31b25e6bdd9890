// SPDX-License-Identifier: MIT OR Apache-2.0
//! All routes of all feeds, and which of them count.
//!
//! # Which route counts
//! For each destination, in this order: the kernel's local addresses; the route of FPM; the kernel's route with the lowest metric.
//! While FPM is there, kernel routes of FRR's own protocols count for nothing: they are copies that arrive later.
//!
//! Of several routes of the kernel, the next one is the [backup](backups).
//!
//! # Truth over time
//! * A withdrawal is held for [`HOLD`]. If the route is back by then, nothing has happened (FRR deletes and adds to change a route).
//! * A daemon that ends behind its zebra keeps its routes for the grace period. So does a BIRD that is killed, see [`restarts`].
//! * A route whose next-hop object is not known waits. What forwarded before it goes on, in a replay to a user plane for the grace period.
//! * Between [`Change::Begin`] and [`Change::End`] the kernel names all its routes; the others are swept.
//! * When a feed is lost, its routes stay for the grace period ([`Rib::set_grace`]), and are then withdrawn. A feed that is lost again and
//!   again does not prolong that: each route goes when the time is over that began with the first loss after it was named.
//! * A daemon that returns cannot say when it has named all its routes: one that was restarted learns most of them later. So those that
//!   it has not named stay for the grace period, too. They go earlier if it has named nearly all of that protocol ([`MISSING`]) and the
//!   protocol's own daemon has not been away.
//! * A user plane that has routes of an earlier control plane keeps them until all feeds have reported ([`Rib::expect`]).
//!
//! # Bounds
//! Each layer has [`MOST_ROUTES`] destinations, and [`MOST_METRICS`] further routes of each; [`crate::objects`] has its own bounds. What is
//! beyond is left out and counted. A replay fills the outbox step by step, as the user plane takes it.
//!
//! The RIB does no I/O, and the time is passed in.

mod aging;
mod audit;
mod backups;
mod holds;
mod replay;
mod restarts;
mod rules;
mod trees;
mod view;
mod vrfs;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use feed::{Destination, Update};

use crate::key::{DestinationKey, Map};
use crate::links::Links;
use crate::model::{Change, DAEMONS, Daemon, LOCAL, Link, MAIN, Route, Rule, Source};
use crate::objects::{ObjectId, Objects};
use crate::outbox::Outbox;

use aging::Deadlines;
pub use audit::{Dispute, Expected};
use holds::Holds;
use replay::Replay;
use restarts::Presence;
pub use restarts::SETTLE;
pub use trees::ShownTree;
use trees::Trees;
pub use view::{Counts, Shown};
pub use vrfs::Vrf;
use vrfs::layer_of;

/// How long a withdrawal waits for the route's return.
pub const HOLD: Duration = Duration::from_millis(5);
/// How long the routes of a lost feed stay, by default.
pub const GRACE: Duration = Duration::from_secs(120);
/// A returned daemon has named nearly all routes of a protocol if at most one in so many is missing.
pub const MISSING: usize = 100;
/// Destinations of a layer at most, and of each destination further routes.
pub const MOST_ROUTES: usize = 1 << 22;
/// See [`MOST_ROUTES`].
pub const MOST_METRICS: usize = 16;
/// Protocol numbers of FRR, as it gives them to its kernel routes.
const FRRS: &[u8] = &[11, 186, 187, 188, 189, 190, 191, 192, 193, 194, 195, 196, 197, 198];

type Hasher = foldhash::fast::RandomState;

/// A route as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stored {
    object: ObjectId,
    metric: u32,
    protocol: u8,
    /// Whether the kernel has removed it, and it stays for a while.
    is_leaving: bool,
    generation: u16,
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
    fn iter(&self) -> impl Iterator<Item = (DestinationKey, Stored)> {
        let others = self.others.iter().flat_map(|(key, list)| list.iter().map(move |route| (key, *route)));
        self.first.iter().map(|(key, route)| (key, *route)).chain(others)
    }

    /// Those of a destination.
    fn of(&self, key: &DestinationKey) -> impl Iterator<Item = Stored> {
        self.first.get(key).copied().into_iter().chain(self.others.get(key).into_iter().flatten().copied())
    }

    /// Replaces the route of that metric by this one.
    fn replace(&mut self, key: &DestinationKey, route: Stored) {
        if self.first.get(key).is_some_and(|first| first.metric == route.metric) {
            self.first.insert(key, route);
        } else if let Some(mut others) = self.others.remove(key) {
            let same = others.iter_mut().filter(|other| other.metric == route.metric);
            same.for_each(|other| *other = route);
            self.others.insert(key, others);
        }
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
    /// When the first routes go that it has not named since it was lost.
    pub stale_until: Option<Duration>,
    /// When a full report is over that does not end.
    ends_by: Option<Duration>,
    /// When it last named a route again that it had named before it was lost.
    renamed: Option<Duration>,
    /// Whether its first report is awaited before anything is swept from a user plane.
    is_expected: bool,
    generation: u16,
}

/// See the module.
#[derive(Debug)]
pub struct Rib {
    layers: [Routes; 3],
    objects: Objects,
    links: Links,
    /// Objects of destinations that have a backup.
    backed: HashMap<DestinationKey, ObjectId, Hasher>,
    /// Objects as the user plane has them.
    sent: HashMap<ObjectId, feed::Object, Hasher>,
    waiting: HashMap<ObjectId, HashSet<DestinationKey, Hasher>, Hasher>,
    /// Destinations without a route that have not been reported to the user plane yet.
    held: Holds,
    /// Routes that FPM has withdrawn a moment ago.
    leaving: Holds,
    /// Routes that FPM has withdrawn, and that stay longer because of their daemon.
    lingering: Holds,
    /// Destinations of routes that the kernel has removed, and that stay longer because of BIRD.
    settling: Holds,
    daemons: [Presence; DAEMONS],
    fpm: FeedState,
    kernel: FeedState,
    /// Of FPM and of the kernel.
    deadlines: [Deadlines; 2],
    grace: Duration,
    /// The numbers that destinations have for tables of Linux.
    tables: HashMap<u32, u8>,
    vrfs: Vec<Vrf>,
    /// The kernel's rules, of IPv4 and of IPv6.
    rules: [Vec<Rule>; 2],
    /// Linux's numbers of the tables that VRF devices have.
    devices: BTreeSet<u32>,
    trees: Trees,
    outbox: Outbox,
    /// The replay to the user plane that is under way.
    replay: Option<Replay>,
    /// Routes and objects that were left out.
    left_out: u64,
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
            backed: HashMap::default(),
            sent: HashMap::default(),
            waiting: HashMap::default(),
            held: Holds::default(),
            leaving: Holds::default(),
            lingering: Holds::default(),
            settling: Holds::default(),
            daemons: Default::default(),
            fpm: FeedState::default(),
            kernel: FeedState::default(),
            deadlines: Default::default(),
            grace: GRACE,
            tables: HashMap::from([(MAIN, 0), (LOCAL, 0)]),
            vrfs: Vec::new(),
            rules: Default::default(),
            devices: BTreeSet::new(),
            trees: Trees::default(),
            outbox: Outbox::default(),
            replay: None,
            left_out: 0,
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

    /// What is to be sent.
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// The state of a feed.
    #[must_use]
    pub fn feed(&self, source: Source) -> FeedState {
        match source {
            Source::Fpm => FeedState { stale_until: self.deadlines[0].first(self.grace), ..self.fpm },
            Source::Kernel => FeedState { stale_until: self.deadlines[1].first(self.grace), ..self.kernel },
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
            Change::Lost => self.lose(source, now),
            Change::Route { table, prefix, route } => {
                let layer = layer_of(source, table, &route);
                if let Some(key) = self.key(table, prefix).filter(|_| self.takes(layer)) {
                    self.set(layer, source, key, route, now);
                }
            }
            Change::Withdraw { table, prefix, metric } => {
                if let Some(key) = self.key(table, prefix) {
                    // The kernel leaves out a metric of 0. FPM has one route for each prefix, independent of its metric.
                    let metric = if source == Source::Kernel { Some(metric.unwrap_or(0)) } else { None };
                    self.withdraw(Layer::of(source, table), key, metric, now);
                    if source == Source::Kernel && key.table != 0 {
                        self.withdraw(Layer::Local, key, metric, now);
                    }
                }
            }
            Change::Object { id, .. } if !self.objects.has_room(source, id) => self.left_out += 1,
            Change::Object { id, object } => {
                let changed = self.objects.define(source, id, object, &mut self.links);
                changed.into_iter().for_each(|id| self.object_changed(id));
            }
            Change::DropObject { id } => self.forget_object(source, id, now),
            Change::Link { index, link } => self.link(index, link, now),
            // Daemons make them in the kernel alone.
            Change::Tree { .. } | Change::MulticastDaemons { .. } if source != Source::Kernel => {}
            Change::Tree { table, group, tree } => self.tree(table, group, tree, now),
            Change::MulticastDaemons { is_six, count } => self.multicast_daemons(is_six, count, now),
            Change::Label { label, route } => self.label(source, label, route, now),
            Change::Daemon { daemon, is_there } => self.daemon(daemon, is_there, now),
            Change::Rules { is_six, rules } => self.rules[usize::from(is_six)] = rules,
            Change::Address { .. } | Change::Neighbour { .. } => {}
        }
    }

    fn takes(&self, layer: Layer) -> bool {
        self.has_kernel_routes || layer != Layer::Kernel
    }

    /// The destination in the user plane; `None` for what is not for it.
    fn key(&self, table: u32, prefix: Destination) -> Option<DestinationKey> {
        let table = *self.tables.get(&table)?;
        let is_for_us = match prefix {
            Destination::V4(prefix) => !prefix.addr().is_loopback() && !prefix.addr().is_multicast(),
            // Each link has its own; what comes for them is for the kernel.
            Destination::V6(prefix) => {
                let addr = prefix.addr();
                !addr.is_loopback() && !addr.is_multicast() && !addr.is_unicast_link_local()
            }
            Destination::Label(_) => true,
        };
        is_for_us.then_some(DestinationKey { table, prefix })
    }

    fn set(&mut self, layer: Layer, source: Source, key: DestinationKey, route: Route, now: Duration) {
        let (metric, protocol) = (route.metric, route.protocol);
        let first = &self.layers[layer as usize].first;
        if first.len() >= MOST_ROUTES && first.get(&key).is_none()
            || !self.objects.has_room_for(source, &route)
        {
            self.left_out += 1;
            return;
        }
        let Some(object) = self.objects.acquire(source, route) else {
            return self.change(key, now, |rib| rib.remove(layer, &key, Some(metric)));
        };
        let generation = self.feed(source).generation;
        let stored = Stored { object, metric, protocol, is_leaving: false, generation };
        self.change(key, now, |rib| rib.insert(layer, &key, stored, now));
        self.settles_no_longer(&key);
    }

    fn insert(&mut self, layer: Layer, key: &DestinationKey, route: Stored, now: Duration) {
        if layer == Layer::Fpm {
            self.leaves_no_longer(key);
        }
        let Some(before) = self.layers[layer as usize].first.insert(key, route) else { return };
        if before.generation != route.generation {
            self.note_renamed(layer.source(), before.generation, now);
        }
        let routes = &mut self.layers[layer as usize];
        // A daemon of FPM has one route for each destination.
        if before.metric == route.metric || layer == Layer::Fpm {
            return self.objects.release(before.object);
        }
        let mut others = routes.others.remove(key).unwrap_or_default();
        if let Some(at) = others.iter().position(|other| other.metric == route.metric) {
            self.objects.release(others.swap_remove(at).object);
        }
        others.push(before);
        if others.len() > MOST_METRICS {
            let worst = (0..others.len()).max_by_key(|at| others[*at].metric).unwrap_or(0);
            self.objects.release(others.swap_remove(worst).object);
            self.left_out += 1;
        }
        self.promote(layer, key, others);
    }

    fn remove(&mut self, layer: Layer, key: &DestinationKey, metric: Option<u32>) {
        if layer == Layer::Fpm {
            self.leaves_no_longer(key);
        }
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
        self.settles_no_longer(key);
    }

    /// Puts the route with the lowest metric first.
    fn promote(&mut self, layer: Layer, key: &DestinationKey, mut others: Vec<Stored>) {
        let routes = &mut self.layers[layer as usize];
        others.extend(routes.first.remove(key));
        let Some(best) = (0..others.len()).min_by_key(|at| others[*at].metric) else { return };
        routes.first.insert(key, others.swap_remove(best));
        if !others.is_empty() {
            routes.others.insert(key, others);
        }
    }

    /// The route that counts, and where it comes from.
    fn best(&self, key: &DestinationKey) -> Option<(Layer, Stored)> {
        let first = |layer: Layer| Some((layer, *self.layers[layer as usize].first.get(key)?));
        first(Layer::Local).or_else(|| first(Layer::Fpm)).or_else(|| match first(Layer::Kernel)? {
            (_, route) if self.is_copy(key, &route) => self.best_original(key),
            found => Some(found),
        })
    }

    /// Of the kernel's further routes for a destination, the best that is no copy.
    fn best_original(&self, key: &DestinationKey) -> Option<(Layer, Stored)> {
        let others = self.layers[Layer::Kernel as usize].others.get(key)?.iter();
        let best = others.filter(|route| !self.is_copy(key, route)).min_by_key(|route| route.metric)?;
        Some((Layer::Kernel, *best))
    }

    /// Whether a kernel route is a copy of what FPM reports.
    fn is_copy(&self, key: &DestinationKey, route: &Stored) -> bool {
        FRRS.contains(&route.protocol) && self.covers_copies && self.is_replayed(key.table)
    }

    /// Makes a change of one destination's routes, and notes what the user plane is to do.
    fn change(&mut self, key: DestinationKey, now: Duration, change: impl FnOnce(&mut Rib)) {
        let before = self.ways(&key);
        change(self);
        let after = self.ways(&key);
        if before == after {
            return;
        }
        match self.back(key, after) {
            Some(object) => self.put_route(key, object),
            None => self.held.put(key, now + HOLD),
        }
    }

    fn put_route(&mut self, key: DestinationKey, object: ObjectId) {
        self.held.remove(&key);
        if !self.send_object(object) {
            self.waiting.entry(object).or_default().insert(key);
            return;
        }
        let DestinationKey { table, prefix } = key;
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
                if let Some(object) = self.way(&key) {
                    self.put_route(key, object);
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

    fn link(&mut self, index: u32, link: Option<Link>, now: Duration) {
        if self.links.is_full() {
            let hops = self.sent.values().filter_map(|object| match object {
                feed::Object::Forward(hops) => Some(hops),
                _ => None,
            });
            let used: HashSet<u16> = hops.flatten().map(|hop| hop.link).chain(self.trees.links()).collect();
            self.links.forget_gone(|number| used.contains(&number));
        }
        let table = |links: &Links| links.get(index).and_then(|link| link.vrf_table);
        let before = table(&self.links);
        if !self.links.set(index, link) {
            return;
        }
        if table(&self.links) != before {
            self.devices = self.links.vrf_tables();
            self.look_at_copies(now);
        }
        self.links.send(|update| self.outbox.put(update));
        // Hops by the loopback interface mean the router itself, independent of other changes.
        let concerned = self.objects.with_hop(|hop| hop.index == index && hop.gateway.is_none());
        concerned.into_iter().for_each(|id| self.object_changed(id));
    }

    /// Does what is due, and completes the batch. Call it when the feeds have nothing more for the moment.
    pub fn flush(&mut self, now: Duration) {
        self.leave_due(now);
        self.sweep_due(now);
        self.withdraw_due(now);
        self.drop_stale_trees(now);
        if !self.waiting.is_empty() {
            self.forget_resolved();
        }
        self.go_on_replaying(now);
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
            keys.retain(|key| self.way(key) == Some(*object));
            !keys.is_empty()
        });
        self.waiting = waiting;
    }

    fn withdraw_due(&mut self, now: Duration) {
        for DestinationKey { table, prefix } in self.held.take_due(now) {
            self.outbox.put(&Update::Withdraw { table, prefix });
        }
    }

    /// When [`flush`](Self::flush) has something to do, if nothing else happens.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        let holds = [&self.held, &self.leaving, &self.lingering, &self.settling];
        let held = holds.into_iter().filter_map(Holds::first);
        let later = self.next_deadline().into_iter().chain(self.trees.next_deadline());
        held.chain(self.replay_due()).chain(later).min()
    }
}

mod labels;

#[cfg(test)]
mod tests;
