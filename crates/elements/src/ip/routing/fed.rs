// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes that a control plane feeds, among those of the configuration.
//!
//! A fed route names an *object* by the control plane's number. Each object is a group of next hops of its own, so a change of one
//! object repairs all its routes, and a route is the feed's exactly if its next hop is such a group. Nothing is stored for each route.
//!
//! A fed route covers a configured one of the same prefix. The configured one lies *beneath* and returns when the fed one goes.
//!
//! A replay stands between [`begin`](Routes::fed_begin) and [`end`](Routes::fed_end). Meanwhile the tables note the prefixes that are
//! named; at the end, the other fed routes go. A replay numbers its objects anew. Those that mean the same keep their groups, so their
//! routes need no change.

use std::collections::{HashMap, HashSet};

use tables::next_hop::{Member, NextHopId};

use super::routes::Routes;
use super::{Family, Hop};

type Hasher = foldhash::fast::RandomState;
/// A route's table and prefix.
type Key<F> = (u8, <F as Family>::Prefix);
/// Weighted next hops.
pub(crate) type Members<F> = [(Hop<<F as Family>::Addr>, u32)];
/// A route that is to lead to an object, by its number, or to go.
pub(crate) type FedChange<F> = (Key<F>, Option<u32>);

/// A change of one table's route: its next hop from now on, or its end.
type Decided<F> = (<F as Family>::Prefix, Option<NextHopId>);

/// What a feed has put into the tables.
pub(super) struct Fed<F: Family> {
    /// Groups by the numbers of the objects that they stand for.
    objects: HashMap<u32, NextHopId, Hasher>,
    /// Those from before the replay under way, which has not named them yet, by their members.
    former: HashMap<Vec<Member>, Vec<NextHopId>, Hasher>,
    /// Whether an id is one of these groups.
    owned: Vec<bool>,
    /// Configured routes that fed ones cover. Each has its reference.
    beneath: HashMap<Key<F>, NextHopId, Hasher>,
    /// What the replay under way has named.
    seen: Option<HashSet<Key<F>, Hasher>>,
    /// Somebody else has removed fed routes.
    is_disturbed: bool,
}

impl<F: Family> Default for Fed<F> {
    fn default() -> Self {
        Fed {
            objects: HashMap::default(),
            former: HashMap::default(),
            owned: Vec::new(),
            beneath: HashMap::default(),
            seen: None,
            is_disturbed: false,
        }
    }
}

impl<F: Family> Fed<F> {
    pub(super) fn owns(&self, id: NextHopId) -> bool {
        self.owned.get(id.0 as usize).copied().unwrap_or(false)
    }

    fn own(&mut self, id: NextHopId, owned: bool) {
        let at = id.0 as usize;
        if self.owned.len() <= at {
            self.owned.resize(at + 1, false);
        }
        self.owned[at] = owned;
    }

    /// The next hop that the configuration gave a route, if it gave one: `id`, or what lies beneath it.
    pub(super) fn configured(&self, key: &Key<F>, id: NextHopId) -> Option<NextHopId> {
        if self.owns(id) { self.beneath.get(key).copied() } else { Some(id) }
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
            if let Err(why) = self.fed_commit(part) {
                self.fed.seen = Some(seen);
                return Err(why);
            }
        }
        for id in std::mem::take(&mut self.fed.former).into_values().flatten() {
            self.disown(id);
        }
        Ok(())
    }

    /// Whether a route of the feed was removed by somebody else, so that a replay is needed.
    pub(crate) fn fed_is_disturbed(&self) -> bool {
        self.fed.is_disturbed
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
        self.fed.own(id, true);
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
        self.fed.own(id, false);
        self.hops.release(id);
    }

    /// Makes changes of routes, in order. Each object must be defined.
    ///
    /// # Errors
    /// The tables cannot be changed now; the call may be repeated.
    pub(crate) fn fed_commit(&mut self, changes: &[FedChange<F>]) -> Result<(), String> {
        self.fed_publish()?;
        for part in changes.chunk_by(|a, b| a.0.0 == b.0.0) {
            self.commit_to(part[0].0.0, part)?;
        }
        Ok(())
    }

    /// Makes changes in one table.
    fn commit_to(&mut self, table: u8, changes: &[FedChange<F>]) -> Result<(), String> {
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
        let fib = self.tables.get_mut(&table).expect("just made");
        let found = F::commit(fib, &list)?;
        for ((prefix, id), found) in list.iter().zip(found) {
            let key = (table, *prefix);
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
        copy.fed_commit(&changes)?;
        for number in former {
            let id = copy.fed.objects.remove(&number).expect("defined above");
            let members = copy.hops.members(id).expect("objects are groups").to_vec();
            copy.fed.former.entry(members).or_default().push(id);
        }
        copy.fed.seen.clone_from(&self.fed.seen);
        copy.fed.is_disturbed = self.fed.is_disturbed;
        Ok(())
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
