// SPDX-License-Identifier: MIT OR Apache-2.0
//! What routes lead to, each once: the objects of the route feed.
//!
//! A route of a daemon names a next-hop object by the daemon's number, or lists its hops. Here both are objects with numbers of our own,
//! which count their routes. A named object may be unknown: its routes wait until the feed defines it.
//!
//! A daemon that was restarted numbers its objects anew. An object of its replay takes over a former one that means the same
//! ([`Objects::begin`]), so routes that did not change need not be sent again.

use std::collections::{BTreeSet, HashMap};

use feed::Object as FedObject;

use crate::model::{Hop, Kind, Object, Route, Source, Way};

type Hasher = foldhash::fast::RandomState;

/// The number of an object.
pub(crate) type ObjectId = u32;

/// Groups within groups at most.
const DEEPEST: usize = 8;

/// What an object is.
#[derive(Clone, Debug)]
enum What {
    /// Of a feed, by its number; `None` until the feed defines it.
    Named(Source, u32, Option<Object>),
    /// As a route lists it.
    Listed(Kind, Box<[Hop]>),
}

#[derive(Clone, Debug)]
struct Entry {
    what: What,
    /// Routes that lead to it.
    routes: u32,
    /// Whether the feed has given it another number, or forgotten it.
    is_former: bool,
}

/// All objects.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    entries: HashMap<ObjectId, Entry, Hasher>,
    last: ObjectId,
    named: HashMap<(Source, u32), ObjectId, Hasher>,
    listed: HashMap<(Kind, Box<[Hop]>), ObjectId, Hasher>,
    /// Groups by their members, all of them named.
    parents: HashMap<(Source, u32), BTreeSet<u32>, Hasher>,
    /// What objects of a feed meant before its replay.
    former: HashMap<(Source, FedObject), ObjectId, Hasher>,
    /// Objects that lost their last route since somebody asked.
    unused: Vec<ObjectId>,
}

/// How hops become those of the route feed.
pub(crate) trait Translate {
    /// The hop for the user plane; `None` if it leads nowhere now.
    fn hop(&mut self, hop: &Hop) -> Option<feed::Hop>;
    /// Whether the hop leads to the router itself.
    fn is_own(&self, hop: &Hop) -> bool;
}

impl Objects {
    /// The object of a route, with one route more; `None` for a route that leads to no object.
    pub(crate) fn acquire(&mut self, source: Source, route: Route) -> Option<ObjectId> {
        if route.kind == Kind::Throw {
            return None;
        }
        let id = match route.way {
            Way::Object(number) if route.kind == Kind::Unicast => self.named(source, number),
            Way::One(hop) if route.kind == Kind::Unicast => self.listed(Kind::Unicast, Box::new([hop])),
            Way::Many(hops) if route.kind == Kind::Unicast => self.listed(Kind::Unicast, hops),
            _ => self.listed(route.kind, Box::new([])),
        };
        self.entries.get_mut(&id).expect("just found").routes += 1;
        Some(id)
    }

    /// A route that led to the object has gone.
    pub(crate) fn release(&mut self, id: ObjectId) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.routes -= 1;
        if entry.routes == 0 {
            self.unused.push(id);
        }
    }

    /// Objects that have had no route since the last call, and those of them that are forgotten now.
    pub(crate) fn take_unused(&mut self) -> Vec<ObjectId> {
        let mut unused = std::mem::take(&mut self.unused);
        unused.retain(|id| self.entries.get(id).is_some_and(|entry| entry.routes == 0));
        unused.sort_unstable();
        unused.dedup();
        for id in &unused {
            let entry = &self.entries[id];
            match &entry.what {
                What::Named(..) if !entry.is_former => continue,
                What::Named(..) => {}
                What::Listed(kind, hops) => {
                    self.listed.remove(&(*kind, hops.clone()));
                }
            }
            self.entries.remove(id);
        }
        unused
    }

    /// Whether objects wait to be forgotten.
    pub(crate) fn has_unused(&self) -> bool {
        !self.unused.is_empty()
    }

    fn add(&mut self, what: What) -> ObjectId {
        self.last += 1;
        self.entries.insert(self.last, Entry { what, routes: 0, is_former: false });
        self.last
    }

    fn named(&mut self, source: Source, number: u32) -> ObjectId {
        if let Some(id) = self.named.get(&(source, number)) {
            return *id;
        }
        let id = self.add(What::Named(source, number, None));
        self.named.insert((source, number), id);
        id
    }

    fn listed(&mut self, kind: Kind, hops: Box<[Hop]>) -> ObjectId {
        let key = (kind, hops);
        if let Some(id) = self.listed.get(&key) {
            return *id;
        }
        let id = self.add(What::Listed(kind, key.1.clone()));
        self.listed.insert(key, id);
        id
    }

    /// A feed begins a full report: its numbers may mean something else from now on.
    pub(crate) fn begin(&mut self, source: Source, translate: &mut impl Translate) {
        let ids: Vec<((Source, u32), ObjectId)> =
            self.named.iter().filter(|((of, _), _)| *of == source).map(|(name, id)| (*name, *id)).collect();
        for (_, id) in &ids {
            if let Some(object) = self.meaning(*id, translate) {
                self.former.insert((source, object), *id);
            }
        }
        for (name, id) in ids {
            self.named.remove(&name);
            self.parents.remove(&name);
            self.abandon(id);
        }
    }

    /// The report is complete.
    pub(crate) fn end(&mut self, source: Source) {
        self.former.retain(|(of, _), _| *of != source);
    }

    /// No number leads to the object any more.
    fn abandon(&mut self, id: ObjectId) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.is_former = true;
        if entry.routes == 0 {
            self.unused.push(id);
        }
    }

    /// Defines an object of a feed. Returns all objects whose meaning may have changed.
    pub(crate) fn define(
        &mut self,
        source: Source,
        number: u32,
        object: Object,
        translate: &mut impl Translate,
    ) -> Vec<ObjectId> {
        if let Object::Group(members) = &object {
            for (member, _) in members {
                self.parents.entry((source, *member)).or_default().insert(number);
            }
        }
        let id = self.named(source, number);
        let entry = self.entries.get_mut(&id).expect("just named");
        let is_new = matches!(entry.what, What::Named(_, _, None)) && entry.routes == 0;
        entry.what = What::Named(source, number, Some(object));
        if is_new
            && !self.former.is_empty()
            && let Some(meaning) = self.meaning(id, translate)
            && let Some(former) = self.former.remove(&(source, meaning))
            && let Some(mut entry) = self.entries.remove(&id)
            && let Some(before) = self.entries.get(&former)
        {
            (entry.routes, entry.is_former) = (before.routes, false);
            self.entries.insert(former, entry);
            self.named.insert((source, number), former);
            return self.above(source, number);
        }
        self.above(source, number)
    }

    /// A feed's object goes. Returns all objects whose meaning may have changed, and the object itself if routes lead to it.
    pub(crate) fn forget(&mut self, source: Source, number: u32) -> (Vec<ObjectId>, Option<ObjectId>) {
        let concerned = self.above(source, number);
        let Some(id) = self.named.remove(&(source, number)) else { return (concerned, None) };
        self.abandon(id);
        let in_use = self.entries.get(&id).is_some_and(|entry| entry.routes > 0).then_some(id);
        (concerned, in_use)
    }

    /// The object of this name and the groups that contain it.
    fn above(&self, source: Source, number: u32) -> Vec<ObjectId> {
        let mut numbers = BTreeSet::from([number]);
        let mut next = vec![number];
        while let Some(number) = next.pop() {
            for parent in self.parents.get(&(source, number)).into_iter().flatten() {
                if numbers.insert(*parent) {
                    next.push(*parent);
                }
            }
        }
        numbers.iter().filter_map(|number| self.named.get(&(source, *number)).copied()).collect()
    }

    /// Objects in use with a hop that `concerns`.
    pub(crate) fn with_hop(&self, concerns: impl Fn(&Hop) -> bool) -> Vec<ObjectId> {
        let has = |id: &ObjectId| {
            let mut hops = Vec::new();
            self.hops(*id, 1, 0, &mut hops);
            hops.iter().any(|(hop, _)| concerns(hop))
        };
        self.entries.iter().filter(|(_, entry)| entry.routes > 0).map(|(id, _)| *id).filter(has).collect()
    }

    /// The feed's number of an object, if it has one.
    pub(crate) fn number(&self, id: ObjectId) -> Option<u32> {
        match self.entries.get(&id)?.what {
            What::Named(_, number, _) => Some(number),
            What::Listed(..) => None,
        }
    }

    /// How many objects there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// What an object means to the user plane; `None` while it is not known.
    pub(crate) fn meaning(&self, id: ObjectId, translate: &mut impl Translate) -> Option<FedObject> {
        match &self.entries.get(&id)?.what {
            What::Named(_, _, None) => return None,
            What::Named(_, _, Some(Object::Blackhole)) | What::Listed(Kind::Blackhole, _) => {
                return Some(FedObject::Blackhole);
            }
            What::Listed(Kind::Local | Kind::Multicast, _) => return Some(FedObject::Local),
            What::Listed(Kind::Unreachable, _) => return Some(FedObject::Unreachable),
            What::Listed(Kind::Prohibit, _) => return Some(FedObject::Prohibit),
            What::Named(..) | What::Listed(..) => {}
        }
        let mut hops = Vec::new();
        self.hops(id, WHOLE, 0, &mut hops);
        if hops.iter().any(|(hop, _)| translate.is_own(hop)) {
            return Some(FedObject::Local);
        }
        let live = hops.iter().filter(|(hop, _)| !hop.is_dead);
        let mut fed: Vec<(feed::Hop, u64)> =
            live.filter_map(|(hop, share)| Some((translate.hop(hop)?, *share))).collect();
        fed.truncate(feed::HOPS_MAX);
        if fed.is_empty() {
            return Some(FedObject::Unreachable);
        }
        weigh(&mut fed);
        Some(FedObject::Forward(fed.into_iter().map(|(hop, _)| hop).collect()))
    }

    /// The hops of an object with their parts of `share`.
    fn hops<'a>(&'a self, id: ObjectId, share: u64, depth: usize, found: &mut Vec<(&'a Hop, u64)>) {
        match self.entries.get(&id).map(|entry| &entry.what) {
            Some(What::Listed(_, hops)) => {
                let total: u64 = hops.iter().map(|hop| u64::from(hop.weight)).sum();
                found.extend(hops.iter().map(|hop| (hop, share * u64::from(hop.weight) / total.max(1))));
            }
            Some(What::Named(_, _, Some(Object::Hop(hop)))) => found.push((hop, share)),
            Some(What::Named(source, _, Some(Object::Group(members)))) if depth < DEEPEST => {
                let total: u64 = members.iter().map(|(_, weight)| u64::from(*weight)).sum();
                for (member, weight) in members {
                    if let Some(id) = self.named.get(&(*source, *member)) {
                        self.hops(*id, share * u64::from(*weight) / total.max(1), depth + 1, found);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The share of all hops together. Its many small divisors keep weights exact through nested groups.
const WHOLE: u64 = 2 * 2 * 2 * 2 * 2 * 2 * 2 * 2 * 3 * 3 * 3 * 3 * 5 * 5 * 5 * 7 * 7 * 11 * 13;

/// Gives hops the smallest weights that are as their shares.
fn weigh(hops: &mut [(feed::Hop, u64)]) {
    let gcd = hops.iter().fold(0, |gcd, (_, share)| divisor(gcd, *share)).max(1);
    let most = hops.iter().map(|(_, share)| share / gcd).max().unwrap_or(1);
    // Weights that do not fit lose their last places.
    let scale = most.div_ceil(u64::from(u16::MAX)).max(1);
    for (hop, share) in hops {
        hop.weight = (*share / gcd / scale).clamp(1, u64::from(u16::MAX)) as u16;
    }
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}
