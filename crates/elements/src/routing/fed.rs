// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes that a control plane feeds, among those of the configuration.
//!
//! A fed route names an *object* by the control plane's number. Each object is a group of next hops of its own, so a change of one
//! object repairs all its routes, and a route is the feed's exactly if its next hop is such a group. Nothing is stored for each route.
//!
//! A fed route covers a configured one of the same prefix. The configured one lies *beneath* and returns when the fed one goes.
//!
//! A table takes [`MOST_ROUTES`] routes at most, or as many as its CAPACITY says. Changes for which there is no room are handed back
//! ([`LeftOut`]), so that they can be tried again.
//!
//! A replay stands between [`begin`](Routes::fed_begin) and [`end`](Routes::fed_end). Meanwhile the tables note the prefixes that are
//! named; at the end, the other fed routes go. A replay numbers its objects anew. Those that mean the same keep their groups, so their
//! routes need no change.

use std::collections::{HashMap, HashSet};

use tables::next_hop::{Member, NextHopId};

use super::routes::{Routes, full};
use super::{Family, Hop, Unmade};

type Hasher = foldhash::fast::RandomState;
/// A route's table and prefix.
type Key<F> = (u8, <F as Family>::Prefix);
/// Weighted next hops.
pub(crate) type Members<F> = [(Hop<<F as Family>::Addr>, u32)];
/// A route that is to lead to an object, by its number, or to go.
pub(crate) type FedChange<F> = (Key<F>, Option<u32>);

/// Routes of all tables at most, if the configuration does not limit them.
pub(crate) const MOST_ROUTES: usize = 1 << 22;
/// Of changes for which there is no room, so many are given up together.
const GIVEN_UP: usize = 64;

/// Changes for which there is no room.
pub(crate) struct LeftOut<F: Family> {
    pub changes: Vec<FedChange<F>>,
    /// Why.
    pub why: String,
}

impl<F: Family> Default for LeftOut<F> {
    fn default() -> Self {
        LeftOut { changes: Vec::new(), why: String::new() }
    }
}

/// Whose a next hop is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Owner {
    /// The configuration's.
    #[default]
    Others,
    /// A group of the feed from before the replay under way.
    Former,
    /// The feed's object of this number.
    Object(u32),
}

/// A change of one table's route: its next hop from now on, or its end.
type Decided<F> = (<F as Family>::Prefix, Option<NextHopId>);

/// What a feed has put into the tables.
pub(super) struct Fed<F: Family> {
    /// Groups by the numbers of the objects that they stand for.
    objects: HashMap<u32, NextHopId, Hasher>,
    /// Those from before the replay under way, which has not named them yet, by their members.
    former: HashMap<Vec<Member>, Vec<NextHopId>, Hasher>,
    /// Whose an id is.
    owners: Vec<Owner>,
    /// Configured routes that fed ones cover. Each has its reference.
    beneath: HashMap<Key<F>, NextHopId, Hasher>,
    /// What the replay under way has named.
    seen: Option<HashSet<Key<F>, Hasher>>,
    /// Somebody else has removed fed routes.
    is_disturbed: bool,
    /// Routes of the feed that have gone, also if others took their place.
    removed: u64,
}

impl<F: Family> Default for Fed<F> {
    fn default() -> Self {
        Fed {
            objects: HashMap::default(),
            former: HashMap::default(),
            owners: Vec::new(),
            beneath: HashMap::default(),
            seen: None,
            is_disturbed: false,
            removed: 0,
        }
    }
}

impl<F: Family> Fed<F> {
    pub(super) fn owns(&self, id: NextHopId) -> bool {
        self.owner(id) != Owner::Others
    }

    pub(super) fn owner(&self, id: NextHopId) -> Owner {
        self.owners.get(id.0 as usize).copied().unwrap_or_default()
    }

    fn own(&mut self, id: NextHopId, owner: Owner) {
        let at = id.0 as usize;
        if self.owners.len() <= at {
            self.owners.resize(at + 1, Owner::Others);
        }
        self.owners[at] = owner;
    }

    /// The next hop that the configuration gave a route, if it gave one: `id`, or what lies beneath it.
    pub(super) fn configured(&self, key: &Key<F>, id: NextHopId) -> Option<NextHopId> {
        if self.owns(id) { self.beneath.get(key).copied() } else { Some(id) }
    }

    /// Sets or takes away the configured route that a fed one covers, with its reference; that of the one before is the caller's.
    pub(super) fn set_beneath(&mut self, key: Key<F>, id: Option<NextHopId>) -> Option<NextHopId> {
        match id {
            Some(id) => self.beneath.insert(key, id),
            None => self.beneath.remove(&key),
        }
    }

    /// Somebody else has changed a fed route.
    pub(super) fn note_disturbance(&mut self) {
        self.is_disturbed = true;
    }

    /// All routes have been replaced.
    pub(super) fn disturb(&mut self) -> Vec<NextHopId> {
        self.is_disturbed |= !self.objects.is_empty();
        self.beneath.drain().map(|(_, id)| id).collect()
    }
}

impl<F: Family> Routes<F> {
    /// Begins a replay, which numbers its objects anew.
    pub(crate) fn fed_begin(&mut self) {
        self.fed.seen = Some(HashSet::default());
        self.fed.is_disturbed = false;
        for (_, id) in std::mem::take(&mut self.fed.objects) {
            let members = self.hops.members(id).expect("objects are groups").to_vec();
            self.fed.former.entry(members).or_default().push(id);
            self.fed.own(id, Owner::Former);
        }
    }

    /// Ends a replay: what it did not name goes.
    ///
    /// # Errors
    /// The tables cannot be changed now; the call may be repeated.
    pub(crate) fn fed_end(&mut self) -> Result<(), String> {
        let Some(seen) = self.fed.seen.take() else { return Ok(()) };
        let mut stale: Vec<FedChange<F>> = Vec::new();
        for (table, fib) in &self.tables {
            let fed = F::routes(fib).filter(|(_, id)| self.fed.owns(*id)).map(|(prefix, _)| (*table, prefix));
            stale.extend(fed.filter(|key| !seen.contains(key)).map(|key| (key, None)));
        }
        for part in stale.chunks(AT_ONCE) {
            let done = self.fed_commit(part);
            if let Err(why) =
                done.and_then(|left| if left.changes.is_empty() { Ok(()) } else { Err(left.why) })
            {
                self.fed.seen = Some(seen);
                return Err(why);
            }
        }
        for id in std::mem::take(&mut self.fed.former).into_values().flatten() {
            self.disown(id);
        }
        Ok(())
    }

    /// Removes all fed routes; configured ones return.
    ///
    /// # Errors
    /// As [`fed_end`](Self::fed_end).
    pub(crate) fn fed_purge(&mut self) -> Result<(), String> {
        if self.fed.seen.is_none() || !self.fed.objects.is_empty() {
            self.fed_begin();
        }
        self.fed_end()
    }

    /// Prefixes that the replay under way has named.
    #[cfg(test)]
    pub(crate) fn fed_seen(&self) -> usize {
        self.fed.seen.as_ref().map_or(0, HashSet::len)
    }

    /// Whether a route of the feed was removed by somebody else, so that a replay is needed.
    pub(crate) fn fed_is_disturbed(&self) -> bool {
        self.fed.is_disturbed
    }

    /// How many routes of the feed have gone.
    pub(crate) fn fed_removed(&self) -> u64 {
        self.fed.removed
    }

    /// Defines or changes an object. Readers see it with the next [`fed_commit`](Self::fed_commit) or [`fed_publish`](Self::fed_publish).
    ///
    /// # Errors
    /// The table of next hops is full; nothing has changed.
    pub(crate) fn fed_object(&mut self, number: u32, members: &Members<F>) -> Result<(), String> {
        let mut held: Vec<Member> = Vec::with_capacity(members.len());
        let mut outcome = Ok(());
        for (hop, weight) in members {
            match self.hops.intern(*hop) {
                Ok(id) => held.push((id, *weight)),
                Err(why) => {
                    outcome = Err(why.to_string());
                    break;
                }
            }
        }
        let outcome = outcome.and_then(|()| self.define(number, &held));
        held.iter().for_each(|(id, _)| self.hops.release(*id));
        outcome
    }

    fn define(&mut self, number: u32, members: &[Member]) -> Result<(), String> {
        if let Some(id) = self.fed.objects.get(&number) {
            return self.hops.set_group(*id, members).map_err(|why| why.to_string());
        }
        let mut sorted = members.to_vec();
        sorted.sort_unstable();
        let id = match self.fed.former.get_mut(&sorted).and_then(Vec::pop) {
            Some(id) => id,
            None => self.hops.new_group(members, self.limits.buckets).map_err(|why| why.to_string())?,
        };
        self.fed.objects.insert(number, id);
        self.fed.own(id, Owner::Object(number));
        Ok(())
    }

    /// Shows readers the objects as they are now.
    ///
    /// # Errors
    /// Readers hold old versions; the call may be repeated.
    pub(crate) fn fed_publish(&mut self) -> Result<(), String> {
        self.hops.publish().map_err(|why| why.to_string())
    }

    /// Forgets an object.
    ///
    /// # Errors
    /// Routes lead to it; it stays.
    pub(crate) fn fed_drop(&mut self, number: u32) -> Result<(), String> {
        let Some(id) = self.fed.objects.get(&number).copied() else { return Ok(()) };
        match self.hops.references(id) - 1 {
            0 => {
                self.fed.objects.remove(&number);
                self.disown(id);
                Ok(())
            }
            n => Err(format!("object {number} is in use by {n} routes")),
        }
    }

    fn disown(&mut self, id: NextHopId) {
        self.fed.own(id, Owner::Others);
        self.hops.release(id);
    }

    /// Makes changes of routes, in order, and hands back those for which there is no room. Each object must be defined.
    ///
    /// # Errors
    /// The tables cannot be changed now; the call may be repeated.
    pub(crate) fn fed_commit(&mut self, changes: &[FedChange<F>]) -> Result<LeftOut<F>, String> {
        self.fed_publish()?;
        let mut left = LeftOut::default();
        let mut sorted = Vec::new();
        let is_mixed = changes.windows(2).any(|pair| pair[0].0.0 != pair[1].0.0);
        let changes = if is_mixed {
            // Each table is changed once, in the order of its changes.
            sorted.extend_from_slice(changes);
            sorted.sort_by_key(|((table, _), _)| *table);
            &sorted
        } else {
            changes
        };
        for part in changes.chunk_by(|a, b| a.0.0 == b.0.0) {
            self.commit_to(part[0].0.0, part, &mut left)?;
        }
        Ok(left)
    }

    /// Makes changes in one table.
    fn commit_to(
        &mut self,
        table: u8,
        changes: &[FedChange<F>],
        left: &mut LeftOut<F>,
    ) -> Result<(), String> {
        let withdraws = changes.iter().any(|(_, number)| number.is_none());
        if withdraws
            && changes.iter().all(|(_, number)| number.is_none())
            && !self.tables.contains_key(&table)
        {
            return Ok(());
        }
        self.make_table(table)?;
        let list = match withdraws {
            false => self.ids_of(changes)?,
            true => self.decided(&last_of_each::<F>(changes))?,
        };
        let list = self.fitting(table, list, left);
        self.make(table, &list, left)
    }

    /// The changes for which the table may have room.
    fn fitting(&self, table: u8, mut list: Vec<Decided<F>>, left: &mut LeftOut<F>) -> Vec<Decided<F>> {
        let (limit, mut count) = (self.limits.routes.min(MOST_ROUTES), self.len());
        if count + list.len() <= limit {
            return list;
        }
        let mut added: HashSet<F::Prefix, Hasher> = HashSet::default();
        count -= list.iter().filter(|(_, id)| id.is_none()).count();
        list.retain(|(prefix, id)| {
            let fits = id.is_none() || self.get(table, *prefix).is_some() || added.contains(prefix);
            if fits {
                return true;
            }
            if count >= limit {
                left.changes.push(((table, *prefix), self.number_of(*id)));
                left.why = full(limit);
                return false;
            }
            count += 1;
            added.insert(*prefix)
        });
        list
    }

    /// The object of a fed route; `None` for what withdraws one.
    fn number_of(&self, id: Option<NextHopId>) -> Option<u32> {
        match self.fed.owner(id?) {
            Owner::Object(number) => Some(number),
            Owner::Others | Owner::Former => None,
        }
    }

    /// Makes changes in a table. Where there is no room for all, halves are tried.
    fn make(&mut self, table: u8, list: &[Decided<F>], left: &mut LeftOut<F>) -> Result<(), String> {
        let fib = self.tables.get_mut(&table).expect("just made");
        match F::commit(fib, list) {
            Ok(found) => self.settle(table, list, found),
            Err(Unmade::Busy(why)) => Err(why),
            Err(Unmade::Full(_)) if list.len() > GIVEN_UP => {
                let (first, second) = list.split_at(list.len() / 2);
                self.make(table, first, left)?;
                self.make(table, second, left)
            }
            Err(Unmade::Full(why)) => {
                let changes = list.iter().map(|(prefix, id)| ((table, *prefix), self.number_of(*id)));
                left.changes.extend(changes);
                left.why = why;
                Ok(())
            }
        }
    }

    /// Sets references and notes right after changes in a table, which `found` these next hops.
    fn settle(
        &mut self,
        table: u8,
        list: &[Decided<F>],
        found: Vec<Option<NextHopId>>,
    ) -> Result<(), String> {
        for ((prefix, id), found) in list.iter().zip(found) {
            let key = (table, *prefix);
            self.follow(table, *prefix);
            if let Some(id) = id {
                let is_fed = self.fed.owns(*id);
                if is_fed {
                    self.hops.retain(*id).map_err(|why| why.to_string())?;
                    self.fed.seen.iter_mut().for_each(|seen| _ = seen.insert(key));
                } else {
                    // What lay beneath returns with its reference.
                    self.fed.beneath.remove(&key);
                }
            }
            if id.is_none_or(|id| !self.fed.owns(id)) {
                self.fed.seen.iter_mut().for_each(|seen| _ = seen.remove(&key));
            }
            let goes = id.is_none_or(|id| !self.fed.owns(id));
            self.fed.removed += u64::from(goes && found.is_some_and(|old| self.fed.owns(old)));
            let covered = match found {
                Some(old) if self.fed.owns(old) => Some(old),
                Some(old) => self.fed.beneath.insert(key, old),
                None => None,
            };
            covered.into_iter().for_each(|id| self.hops.release(id));
        }
        Ok(())
    }

    /// Changes with the ids of their objects.
    fn ids_of(&self, changes: &[FedChange<F>]) -> Result<Vec<Decided<F>>, String> {
        let unknown = |number: u32| format!("object {number} is not known");
        let find = |number| self.fed.objects.get(&number).copied().ok_or_else(|| unknown(number));
        changes.iter().map(|(key, number)| Ok((key.1, number.map(find).transpose()?))).collect()
    }

    /// The same for changes of which each has another prefix. Of those that withdraw, what is not the feed's is left out, and what uncovers
    /// a configured route sets that instead.
    fn decided(&self, changes: &[FedChange<F>]) -> Result<Vec<Decided<F>>, String> {
        let mut list = Vec::with_capacity(changes.len());
        for ((key, number), (prefix, id)) in changes.iter().zip(self.ids_of(changes)?) {
            if number.is_some() {
                list.push((prefix, id));
            } else if self.get(key.0, prefix).is_some_and(|present| self.fed.owns(present)) {
                list.push((prefix, self.fed.beneath.get(key).copied()));
            }
        }
        Ok(list)
    }

    /// Brings what the feed has put here into a copy that has the configured routes.
    ///
    /// # Errors
    /// The copy has no room.
    pub(super) fn copy_feed(&self, copy: &mut Routes<F>) -> Result<(), String> {
        let mut numbers: HashMap<NextHopId, u32, Hasher> =
            self.fed.objects.iter().map(|(number, id)| (*id, *number)).collect();
        // Groups from before a replay have numbers for the time of copying.
        let mut free = (0..=u32::MAX).filter(|number| !self.fed.objects.contains_key(number));
        let former: Vec<u32> = free.by_ref().take(self.fed.former.values().map(Vec::len).sum()).collect();
        numbers.extend(self.fed.former.values().flatten().copied().zip(former.iter().copied()));
        for (id, number) in &numbers {
            let members = self.hops.members(*id).expect("objects are groups").iter();
            let hop = |id| *self.hops.get(id).expect("members are hops");
            let members: Vec<_> = members.map(|(member, weight)| (hop(*member), *weight)).collect();
            copy.fed_object(*number, &members)?;
        }
        let mut changes: Vec<FedChange<F>> = Vec::new();
        for (table, fib) in &self.tables {
            let fed = F::routes(fib).filter_map(|(prefix, id)| Some((prefix, *numbers.get(&id)?)));
            changes.extend(fed.map(|(prefix, number)| ((*table, prefix), Some(number))));
        }
        let left = copy.fed_commit(&changes)?;
        if !left.changes.is_empty() {
            return Err(left.why);
        }
        for number in former {
            let id = copy.fed.objects.remove(&number).expect("defined above");
            copy.fed.own(id, Owner::Former);
            let members = copy.hops.members(id).expect("objects are groups").to_vec();
            copy.fed.former.entry(members).or_default().push(id);
        }
        copy.fed.seen.clone_from(&self.fed.seen);
        copy.fed.is_disturbed = self.fed.is_disturbed;
        Ok(())
    }

    /// Gives fed routes with addresses in a range, and the numbers of their objects. At most `most` routes are looked at; says whether there are
    /// more.
    pub(crate) fn fed_range(
        &self,
        from: u64,
        to: u64,
        most: usize,
        mut found: impl FnMut(u8, F::Prefix, u32),
    ) -> bool {
        let routes = self
            .tables
            .iter()
            .flat_map(|(table, fib)| F::range(fib, from, to).map(move |(prefix, id)| (*table, prefix, id)));
        for (scanned, (table, prefix, id)) in routes.enumerate() {
            if scanned == most {
                return true;
            }
            match self.fed.owner(id) {
                Owner::Others => {}
                Owner::Former => found(table, prefix, feed::audit::NO_OBJECT),
                Owner::Object(number) => found(table, prefix, number),
            }
        }
        false
    }

    /// Whether an object's group has these members.
    pub(crate) fn fed_holds(&self, number: u32, members: &Members<F>) -> bool {
        let Some(held) = self.fed.objects.get(&number).and_then(|id| self.hops.members(*id)) else {
            return false;
        };
        let mut wanted: HashMap<Hop<F::Addr>, u32, Hasher> = HashMap::default();
        for (hop, weight) in members {
            *wanted.entry(*hop).or_default() += weight;
        }
        held.len() == wanted.len()
            && held
                .iter()
                .all(|(id, weight)| self.hops.get(*id).is_some_and(|hop| wanted.get(hop) == Some(weight)))
    }

    /// Fed routes with the numbers of their objects, for tables that take the place of these.
    pub(crate) fn fed_routes(&self) -> Vec<(u8, F::Prefix, u32)> {
        let numbers: HashMap<NextHopId, u32, Hasher> =
            self.fed.objects.iter().map(|(number, id)| (*id, *number)).collect();
        let mut all = Vec::new();
        for (table, fib) in &self.tables {
            all.extend(F::routes(fib).filter_map(|(prefix, id)| Some((*table, prefix, *numbers.get(&id)?))));
        }
        all
    }
}

/// Routes that are swept at a time.
const AT_ONCE: usize = 4096;

/// Of changes of the same prefix, the last.
fn last_of_each<F: Family>(changes: &[FedChange<F>]) -> Vec<FedChange<F>> {
    let mut named: HashSet<Key<F>, Hasher> = HashSet::default();
    let mut kept: Vec<FedChange<F>> =
        changes.iter().rev().filter(|(key, _)| named.insert(*key)).copied().collect();
    kept.reverse();
    kept
}
