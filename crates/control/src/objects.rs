// SPDX-License-Identifier: MIT OR Apache-2.0
//! What routes lead to, each once: the objects of the route feed.
//!
//! A route of a daemon names a next-hop object by the daemon's number, or lists its hops. Here both are objects with numbers of our own,
//! which count their routes. A named object may be unknown: its routes wait until the feed defines it.
//!
//! There are [`MOST_OBJECTS`] at most, with [`MOST_PARTS`] hops and members in all; a feed's further ones are left out.
//!
//! A daemon that was restarted numbers its objects anew. An object of its replay takes over a former one that means the same
//! ([`Objects::begin`]), so routes that did not change need not be sent again.

use std::collections::{BTreeSet, HashMap};

use feed::Object as FedObject;

use crate::model::{Hop, Object, Route, RouteKind, RouteWay, Source};

type Hasher = foldhash::fast::RandomState;

/// The number of an object.
pub(crate) type ObjectId = u32;

/// Objects at most, and hops and members of all of them.
const MOST_OBJECTS: usize = 1 << 17;
const MOST_PARTS: usize = 1 << 20;
/// Groups within groups at most, and members of all of them.
const DEEPEST: usize = 4;
const MOST_MEMBERS: usize = 4096;

/// What an object is.
#[derive(Clone, Debug)]
enum What {
    /// Of a feed, by its number; `None` until the feed defines it.
    Named(Source, u32, Option<Object>),
    /// As a route lists it.
    Listed(RouteKind, Box<[Hop]>),
    /// One object, and the one that steps in for it.
    Backed(ObjectId, ObjectId),
}

impl What {
    /// Hops or members.
    fn parts(&self) -> usize {
        match self {
            What::Named(_, _, Some(Object::Group(members))) => members.len(),
            What::Named(..) => 1,
            What::Listed(_, hops) => hops.len(),
            What::Backed(..) => 2,
        }
    }
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
    /// Hops and members of all of them.
    parts: usize,
    last: ObjectId,
    named: HashMap<(Source, u32), ObjectId, Hasher>,
    listed: HashMap<(RouteKind, Box<[Hop]>), ObjectId, Hasher>,
    backed: HashMap<(ObjectId, ObjectId), ObjectId, Hasher>,
    /// Objects by those that stand in them for the first or the second way.
    pairs: HashMap<ObjectId, BTreeSet<ObjectId>, Hasher>,
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
    /// The number of the routing table that the hop leads to, if its link is a VRF.
    fn table(&self, hop: &Hop) -> Option<u8>;
    /// Whether the hop leads to the router itself.
    fn is_own(&self, hop: &Hop) -> bool;
}

impl Objects {
    fn is_full(&self) -> bool {
        self.entries.len() >= MOST_OBJECTS || self.parts >= MOST_PARTS
    }

    /// Whether a feed may define the object of this number.
    pub(crate) fn has_room(&self, source: Source, number: u32) -> bool {
        !self.is_full() || self.parts < 2 * MOST_PARTS && self.named.contains_key(&(source, number))
    }

    /// Whether there is the object of a route, or room for it.
    pub(crate) fn has_room_for(&self, source: Source, route: &Route) -> bool {
        if !self.is_full() {
            return true;
        }
        match &route.way {
            RouteWay::Object(number) => self.named.contains_key(&(source, *number)),
            RouteWay::One(hop) => self.listed.contains_key(&(route.kind, Box::from([hop.clone()]))),
            RouteWay::Many(hops) => self.listed.contains_key(&(route.kind, hops.clone())),
            RouteWay::None => true,
        }
    }

    /// The object of a route, with one route more; `None` for a route that leads to no object.
    pub(crate) fn acquire(&mut self, source: Source, route: Route) -> Option<ObjectId> {
        if route.kind == RouteKind::Throw {
            return None;
        }
        let id = match route.way {
            RouteWay::Object(number) if route.kind == RouteKind::Unicast => self.named(source, number),
            RouteWay::One(hop) if route.kind == RouteKind::Unicast => {
                self.listed(RouteKind::Unicast, Box::new([hop]))
            }
            RouteWay::Many(hops) if route.kind == RouteKind::Unicast => self.listed(RouteKind::Unicast, hops),
            _ => self.listed(route.kind, Box::new([])),
        };
        self.entries.get_mut(&id).expect("just found").routes += 1;
        Some(id)
    }

    /// The object for routes that lead to `first`, and to `second` where that is dead, with one route more; `None` if there is no room.
    pub(crate) fn backed(&mut self, first: ObjectId, second: ObjectId) -> Option<ObjectId> {
        let id = match self.backed.get(&(first, second)) {
            Some(id) => *id,
            None if self.is_full() => return None,
            None => {
                let id = self.add(What::Backed(first, second));
                self.backed.insert((first, second), id);
                // It is a route to each.
                for part in [first, second] {
                    self.entries.get_mut(&part)?.routes += 1;
                    self.pairs.entry(part).or_default().insert(id);
                }
                id
            }
        };
        self.entries.get_mut(&id)?.routes += 1;
        Some(id)
    }

    /// Objects that have one of these behind them, and these.
    fn with_backed(&self, ids: impl Iterator<Item = ObjectId>) -> Vec<ObjectId> {
        let mut all = BTreeSet::new();
        for id in ids {
            all.insert(id);
            all.extend(self.pairs.get(&id).into_iter().flatten());
        }
        all.into_iter().collect()
    }

    /// The object is there no longer that has one of these ways, and the other one if that is dead.
    fn unpair(&mut self, id: ObjectId, ways: [ObjectId; 2]) {
        self.backed.remove(&(ways[0], ways[1]));
        for way in ways {
            if let Some(pairs) = self.pairs.get_mut(&way) {
                pairs.remove(&id);
                if pairs.is_empty() {
                    self.pairs.remove(&way);
                }
            }
        }
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
        let mut parts = Vec::new();
        for id in &unused {
            let entry = &self.entries[id];
            match &entry.what {
                What::Backed(first, second) => {
                    let ways = [*first, *second];
                    self.unpair(*id, ways);
                    parts.extend(ways);
                }
                What::Named(..) if !entry.is_former => continue,
                What::Named(..) => {}
                What::Listed(kind, hops) => {
                    let key = (*kind, hops.clone());
                    if self.listed.get(&key) == Some(id) {
                        self.listed.remove(&key);
                    }
                }
            }
            let gone = self.entries.remove(id);
            self.parts -= gone.map_or(0, |entry| entry.what.parts());
        }
        if !self.former.is_empty() {
            self.former.retain(|_, id| self.entries.contains_key(id));
        }
        // These go the next time.
        parts.into_iter().for_each(|id| self.release(id));
        unused
    }

    /// Whether objects wait to be forgotten.
    pub(crate) fn has_unused(&self) -> bool {
        !self.unused.is_empty()
    }

    fn add(&mut self, what: What) -> ObjectId {
        self.last += 1;
        self.parts += what.parts();
        self.entries.insert(self.last, Entry { what, routes: 0, is_former: false });
        self.last
    }

    /// Lets an object stand for something else.
    fn redefine(&mut self, id: ObjectId, what: What) {
        let entry = self.entries.get_mut(&id).expect("it is there");
        self.parts += what.parts();
        self.parts -= std::mem::replace(&mut entry.what, what).parts();
    }

    fn named(&mut self, source: Source, number: u32) -> ObjectId {
        if let Some(id) = self.named.get(&(source, number)) {
            return *id;
        }
        let id = self.add(What::Named(source, number, None));
        self.named.insert((source, number), id);
        id
    }

    fn listed(&mut self, kind: RouteKind, hops: Box<[Hop]>) -> ObjectId {
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
            // What leads nowhere now may have led anywhere.
            if let Some(object) =
                self.meaning(*id, translate).filter(|object| *object != FedObject::Unreachable)
            {
                self.former.insert((source, object), *id);
            }
        }
        self.freeze(ids.iter().map(|(_, id)| *id));
        self.parents.retain(|(of, _), _| *of != source);
        for (name, id) in ids {
            self.named.remove(&name);
            self.abandon(id);
        }
    }

    /// Lists the hops of groups that have routes: their members' numbers will mean something else.
    fn freeze(&mut self, ids: impl Iterator<Item = ObjectId>) {
        let is_group = |what: &What| matches!(what, What::Named(_, _, Some(Object::Group(_))));
        let groups: Vec<ObjectId> = ids
            .filter(|id| self.entries.get(id).is_some_and(|entry| entry.routes > 0 && is_group(&entry.what)))
            .collect();
        for id in groups {
            let hops = self.hops(id);
            let mut shares: Vec<(Hop, u64)> =
                hops.into_iter().map(|(hop, share)| (hop.clone(), share)).collect();
            weigh(&mut shares, |hop, weight| hop.weight = weight);
            let hops = shares.into_iter().map(|(hop, _)| hop).collect();
            self.redefine(id, What::Listed(RouteKind::Unicast, hops));
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
        self.leave_members(source, number);
        if let Object::Group(members) = &object {
            for (member, _) in members {
                self.parents.entry((source, *member)).or_default().insert(number);
            }
        }
        let id = self.named(source, number);
        let entry = &self.entries[&id];
        let is_new = matches!(entry.what, What::Named(_, _, None)) && entry.routes == 0;
        self.redefine(id, What::Named(source, number, Some(object)));
        if is_new && !self.former.is_empty() {
            self.adopt(source, number, id, translate);
        }
        self.above(source, number)
    }

    /// Lets a new object be a former one that means the same.
    fn adopt(&mut self, source: Source, number: u32, id: ObjectId, translate: &mut impl Translate) {
        let Some(meaning) = self.meaning(id, translate) else { return };
        let Some(former) = self.former.remove(&(source, meaning)) else { return };
        let Some(routes) =
            self.entries.get(&former).filter(|entry| entry.is_former).map(|entry| entry.routes)
        else {
            return;
        };
        let Some(mut entry) = self.entries.remove(&id) else { return };
        (entry.routes, entry.is_former) = (routes, false);
        let replaced = self.entries.insert(former, entry);
        self.parts -= replaced.map_or(0, |entry| entry.what.parts());
        self.named.insert((source, number), former);
    }

    /// The object of this name is not the group any more that it was.
    fn leave_members(&mut self, source: Source, number: u32) {
        let entry = self.named.get(&(source, number)).and_then(|id| self.entries.get(id));
        let Some(What::Named(_, _, Some(Object::Group(members)))) = entry.map(|entry| &entry.what) else {
            return;
        };
        for member in members.iter().map(|(member, _)| *member).collect::<Vec<_>>() {
            if let Some(parents) = self.parents.get_mut(&(source, member)) {
                parents.remove(&number);
                if parents.is_empty() {
                    self.parents.remove(&(source, member));
                }
            }
        }
    }

    /// A feed's object goes. Returns all objects whose meaning may have changed, and the object itself if routes lead to it.
    pub(crate) fn forget(&mut self, source: Source, number: u32) -> (Vec<ObjectId>, Option<ObjectId>) {
        self.leave_members(source, number);
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
        let named = numbers.iter().filter_map(|number| self.named.get(&(source, *number)).copied());
        self.with_backed(named)
    }

    /// Objects in use with a hop that `concerns`.
    pub(crate) fn with_hop(&self, concerns: impl Fn(&Hop) -> bool) -> Vec<ObjectId> {
        let has = |id: &ObjectId| self.hops(*id).iter().any(|(hop, _)| concerns(hop));
        self.entries.iter().filter(|(_, entry)| entry.routes > 0).map(|(id, _)| *id).filter(has).collect()
    }

    /// The feed's number of an object, if it has one.
    pub(crate) fn number(&self, id: ObjectId) -> Option<u32> {
        match self.entries.get(&id)?.what {
            What::Named(_, number, _) => Some(number),
            What::Listed(..) | What::Backed(..) => None,
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
            What::Named(_, _, Some(Object::Blackhole)) | What::Listed(RouteKind::Blackhole, _) => {
                return Some(FedObject::Blackhole);
            }
            What::Named(_, _, Some(Object::Local))
            | What::Listed(RouteKind::Local | RouteKind::Multicast, _) => {
                return Some(FedObject::Local);
            }
            What::Listed(RouteKind::Unreachable, _) => return Some(FedObject::Unreachable),
            What::Listed(RouteKind::Prohibit, _) => return Some(FedObject::Prohibit),
            What::Backed(first, second) => {
                let first = self.meaning(*first, translate)?;
                return Some(backed(first, self.meaning(*second, translate)));
            }
            What::Named(..) | What::Listed(..) => {}
        }
        let hops = self.hops(id);
        if hops.iter().any(|(hop, _)| translate.is_own(hop)) {
            return Some(FedObject::Local);
        }
        if let Some(table) = hops.iter().find_map(|(hop, _)| translate.table(hop)) {
            return Some(FedObject::Table(table));
        }
        let live = hops.iter().filter(|(hop, _)| !hop.is_dead);
        let mut fed: Vec<(feed::Hop, u64)> =
            live.filter_map(|(hop, share)| Some((translate.hop(hop)?, *share))).collect();
        fed.truncate(feed::HOPS_MAX);
        if fed.is_empty() {
            return Some(FedObject::Unreachable);
        }
        weigh(&mut fed, |hop, weight| hop.weight = weight);
        Some(FedObject::Forward(fed.into_iter().map(|(hop, _)| hop).collect()))
    }

    /// The hops of an object with their shares.
    fn hops(&self, id: ObjectId) -> Vec<(&Hop, u64)> {
        let mut walk = Walk { found: Vec::new(), members: 0 };
        self.walk(id, WHOLE, 0, &mut walk);
        walk.found
    }

    fn walk<'a>(&'a self, id: ObjectId, share: u64, depth: usize, walk: &mut Walk<'a>) {
        match self.entries.get(&id).map(|entry| &entry.what) {
            Some(What::Listed(_, hops)) => {
                let total: u64 = hops.iter().map(|hop| u64::from(hop.weight)).sum();
                let part = |hop: &Hop| share * u64::from(hop.weight) / total.max(1);
                walk.found.extend(hops.iter().map(|hop| (hop, part(hop))));
            }
            Some(What::Named(_, _, Some(Object::Hop(hop)))) => walk.found.push((hop, share)),
            Some(What::Backed(first, second)) => {
                self.walk(*first, share, depth, walk);
                self.walk(*second, share, depth, walk);
            }
            Some(What::Named(source, _, Some(Object::Group(members)))) if depth < DEEPEST => {
                let total: u64 = members.iter().map(|(_, weight)| u64::from(*weight)).sum();
                for (member, weight) in members {
                    // A group that contains itself many times must not take for ever.
                    walk.members += 1;
                    if walk.members > MOST_MEMBERS {
                        return;
                    }
                    if let Some(id) = self.named.get(&(*source, *member)) {
                        self.walk(*id, share * u64::from(*weight) / total.max(1), depth + 1, walk);
                    }
                }
            }
            _ => {}
        }
    }
}

/// One way, and the hops of another one for when it is dead.
fn backed(first: FedObject, second: Option<FedObject>) -> FedObject {
    match (first, second) {
        (FedObject::Unreachable, Some(second)) => second,
        (FedObject::Forward(mut hops), Some(FedObject::Forward(second))) => {
            let is_new = |hop: &feed::Hop| !hops.contains(hop);
            let further: Vec<feed::Hop> = second.into_iter().filter(is_new).collect();
            hops.extend(further.into_iter().map(|hop| feed::Hop { backup: true, ..hop }));
            hops.truncate(feed::HOPS_MAX);
            FedObject::Forward(hops)
        }
        (first, _) => first,
    }
}

/// A walk through groups within groups.
struct Walk<'a> {
    found: Vec<(&'a Hop, u64)>,
    members: usize,
}

/// The share of all hops together. Its many small divisors keep weights exact through nested groups.
const WHOLE: u64 = 2 * 2 * 2 * 2 * 2 * 2 * 2 * 2 * 3 * 3 * 3 * 3 * 5 * 5 * 5 * 7 * 7 * 11 * 13;

/// Gives hops the smallest weights that are as their shares.
fn weigh<H>(hops: &mut [(H, u64)], set: impl Fn(&mut H, u16)) {
    let gcd = hops.iter().fold(0, |gcd, (_, share)| divisor(gcd, *share)).max(1);
    let most = hops.iter().map(|(_, share)| share / gcd).max().unwrap_or(1);
    // Weights that do not fit lose their last places.
    let scale = most.div_ceil(u64::from(u16::MAX)).max(1);
    for (hop, share) in hops {
        set(hop, (*share / gcd / scale).clamp(1, u64::from(u16::MAX)) as u16);
    }
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}
