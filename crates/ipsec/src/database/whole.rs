// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many changes at once: a configuration that another one follows, and flushing.
//!
//! New tables are made while workers read the old ones, and take their place whole. So workers find either all of the old policies of a direction or all of the new
//! ones. Three versions are retired, or four with associations that are tended, however many entries change.
//!
//! Where retired versions wait for a worker that stands still, the new tables wait, too ([`Pending`]): the old ones go on meanwhile, single changes are refused as
//! [`Error::Busy`], and [`Database::tidy`] tries again.

use std::collections::hash_map::Entry as WalkPosition;
use std::collections::{BTreeMap, HashMap, HashSet, btree_map};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::writer::{Group, Writer};
use super::{Database, Entry, Error, hash, tended};
use crate::association::{Association, AssociationConfig, Id};
use crate::buckets::{Busy, Row};
use crate::policy::{Direction, Policy, PolicyKey};
use crate::predecessor::Predecessor;
use crate::spd::{Rule, Tuples};
use crate::targets::{Target, TargetKey};

/// What a configuration puts into the databases.
#[derive(Clone, Debug, Default)]
pub struct Configured {
    associations: BTreeMap<Id, AssociationConfig>,
    policies: Vec<Policy>,
    /// Where each policy is.
    places: HashMap<PolicyKey, usize>,
    /// Associations of other databases that its own may go on from.
    others: Vec<Arc<Association>>,
    /// What must change, if it was found out before, and where what is followed then.
    planned: Option<(Arc<Configured>, Change)>,
}

impl Configured {
    /// Adds an association.
    ///
    /// # Errors
    /// It contradicts itself, or there is one of the same identity.
    pub fn add(&mut self, config: AssociationConfig) -> Result<(), Error> {
        super::check(&config)?;
        erase::apart(|| esp::Sa::new(&config.esp).map(drop))?;
        let id = config.id();
        match self.associations.entry(id) {
            btree_map::Entry::Occupied(_) => return Err(Error::Exists(id)),
            btree_map::Entry::Vacant(place) => place.insert(config),
        };
        Ok(())
    }

    /// Adds a policy.
    ///
    /// # Errors
    /// It contradicts itself, or there is one of the same direction and selector.
    pub fn add_policy(&mut self, policy: Policy) -> Result<(), Error> {
        super::check_policy(&policy)?;
        match self.places.entry(policy.key()) {
            WalkPosition::Occupied(place) => return Err(Error::PolicyExists(place.key().clone().into())),
            WalkPosition::Vacant(place) => place.insert(self.policies.len()),
        };
        self.policies.push(policy);
        Ok(())
    }

    /// Those of its associations that have SPI and keys of one of `others`, which are in use in another database, go on with the sequence numbers, window, age and counts of
    /// these.
    pub fn goes_on_from(&mut self, others: impl IntoIterator<Item = Arc<Association>>) {
        let spis: HashSet<u32> = self.associations.keys().map(|id| id.spi).collect();
        let fits = |other: &Arc<Association>| spis.contains(&other.sa.spi) && !other.is_over();
        self.others.extend(others.into_iter().filter(fits));
    }

    /// Finds out what must change in a database that is to follow, so that [`Database::follow`] need not. Threads that prepare a configuration call it: it takes time in proportion to both
    /// configurations, and [`Database::follow`] only to what differs.
    pub fn plan(&mut self, database: &Database) {
        let now = database.lock().configured.clone();
        let change = now.change_to(self);
        if change.come.is_empty() {
            self.others.clear();
        }
        self.planned = Some((now, change));
    }

    /// What must change where `self` was followed, and `next` is to be.
    fn change_to(&self, next: &Configured) -> Change {
        let stays = |id: &&Id| next.associations.contains_key(id);
        let had = |config: &&AssociationConfig| self.associations.get(&config.id()) == Some(config);
        let policy_stays = |key: &&PolicyKey| next.places.contains_key(key);
        let had_policy = |policy: &&Policy| {
            self.places.get(&policy.key()).is_some_and(|place| self.policies[*place] == **policy)
        };
        Change {
            gone: self.associations.keys().filter(|id| !stays(id)).copied().collect(),
            come: next.associations.values().filter(|config| !had(config)).cloned().collect(),
            policies_gone: self.places.keys().filter(|key| !policy_stays(key)).cloned().collect(),
            policies_come: next.policies.iter().filter(|policy| !had_policy(policy)).cloned().collect(),
        }
    }
}

/// Changes that are made together.
#[derive(Clone, Debug, Default)]
struct Change {
    gone: Vec<Id>,
    come: Vec<AssociationConfig>,
    policies_gone: Vec<PolicyKey>,
    policies_come: Vec<Policy>,
}

impl Change {
    fn is_empty(&self) -> bool {
        self.gone.is_empty()
            && self.come.is_empty()
            && self.policies_gone.is_empty()
            && self.policies_come.is_empty()
    }
}

/// Tables that are to take the place of those that workers read.
#[derive(Debug, Default)]
pub(super) struct Pending {
    associations: Option<Row<Entry>>,
    policies: [Option<Tuples>; 2],
    tended: Option<Row<Arc<Target>>>,
    /// Associations that the new tables lack.
    ended: Vec<Arc<Association>>,
}

impl Database {
    /// Follows a configuration after the one that was followed before, if any. What only that one had is taken out; what came by other ways stays, with all
    /// sequence numbers and windows. Returns what was followed before, to be dropped where there is time.
    ///
    /// # Errors
    /// Why the configuration cannot be followed. Nothing has changed.
    pub fn follow(&self, mut configured: Configured, now_ns: u64) -> Result<Arc<Configured>, Error> {
        let (others, planned) = (std::mem::take(&mut configured.others), configured.planned.take());
        let mut writer = self.lock();
        let planned = planned.filter(|(before, _)| Arc::ptr_eq(before, &writer.configured));
        let change = planned.map_or_else(|| writer.configured.change_to(&configured), |(_, change)| change);
        if !change.is_empty() {
            self.change_all(&mut writer, change, others, now_ns)?;
        }
        Ok(std::mem::replace(&mut writer.configured, Arc::new(configured)))
    }

    /// Takes all associations out. Returns how many there were.
    pub fn flush(&self) -> usize {
        let mut writer = self.lock();
        writer.reserved.clear();
        let change = Change { gone: writer.associations.keys().copied().collect(), ..Change::default() };
        let count = change.gone.len();
        // Only what comes can be wrong.
        let _ = self.change_all(&mut writer, change, Vec::new(), 0);
        count
    }

    /// Takes all policies out. Returns how many there were.
    pub fn flush_policies(&self) -> usize {
        let mut writer = self.lock();
        let change = Change { policies_gone: writer.rules.keys().cloned().collect(), ..Change::default() };
        let count = change.policies_gone.len();
        let _ = self.change_all(&mut writer, change, Vec::new(), 0);
        count
    }

    fn change_all(
        &self,
        writer: &mut Writer,
        change: Change,
        others: Vec<Arc<Association>>,
        now_ns: u64,
    ) -> Result<(), Error> {
        let made = self.make_all(writer, &change.gone, change.come, &others, now_ns)?;
        writer.made += made.len() as u64;
        let mut ended = Vec::new();
        let mut groups: HashSet<Group> = std::mem::take(&mut writer.unsettled).into_iter().collect();
        for id in change.gone {
            // What is not there any more was taken out by hand.
            let Some(association) = writer.associations.get(&id).cloned() else { continue };
            writer.leave(&association);
            groups.extend(Group::of_association(&association.config));
            ended.push(association);
        }
        for association in made {
            if let Some(before) = writer.associations.get(&association.id()).cloned() {
                writer.leave(&before);
                groups.extend(Group::of_association(&before.config));
            }
            groups.extend(Group::of_association(&association.config));
            self.note_kind(&association);
            writer.reserved.remove(&association.id());
            writer.enter(&association);
        }
        for key in change.policies_gone {
            if let Some(rule) = writer.rules.remove(&key) {
                writer.release(&rule.policy);
            }
        }
        for policy in change.policies_come {
            let key = policy.key();
            let before = writer.rules.get(&key).cloned();
            let rule = writer.make_rule(policy, before.as_deref(), &self.domain);
            if let Some(before) = before {
                writer.release(&before.policy);
            }
            writer.rules.insert(key, rule);
        }
        writer.retarget(&groups, &self.domain);
        self.make_tables(writer, ended);
        Ok(())
    }

    /// Makes associations, which go on from those whose keys they have: of their own identity, of another receiver that goes with this change, or of another database.
    fn make_all(
        &self,
        writer: &Writer,
        gone: &[Id],
        come: Vec<AssociationConfig>,
        others: &[Arc<Association>],
        now_ns: u64,
    ) -> Result<Vec<Arc<Association>>, Error> {
        let goes = gone.iter().filter_map(|id| writer.associations.get(id));
        let mut moved: HashMap<_, Predecessor<'_>> = HashMap::new();
        for one in others.iter().chain(goes) {
            let same = moved.entry((one.sa.spi, one.config.esp.spec.authentic_key()));
            same.and_modify(|same| same.consider(one)).or_insert(one.into());
        }
        let mut made = Vec::with_capacity(come.len());
        for config in come {
            let there = writer.associations.get(&config.id()).filter(|there| there.has_keys_of(&config));
            let before = there
                .map(Predecessor::from)
                .or_else(|| moved.get(&(config.esp.spi, config.esp.spec.authentic_key())).copied());
            // Tables take time to make. Until they are published, workers must not accept what a successor accepts that has a copy of the window.
            let ended = before.iter().flat_map(Predecessor::all).filter(|before| writer.has(before));
            ended.for_each(|before| before.end());
            made.push(self.make(config, before, now_ns, writer.made + 1 + made.len() as u64)?);
        }
        Ok(made)
    }

    /// Makes tables of all that the writer has, and publishes them as soon as may be.
    fn make_tables(&self, writer: &mut Writer, ended: Vec<Arc<Association>>) {
        let entries = writer.associations.values().map(|a| (hash(a.id()), (a.id(), a.clone())));
        let associations = self.associations.filled(writer.associations.len(), entries);
        let of = |is_out: bool| {
            let rules = writer.rules.values();
            rules.filter(move |rule| (rule.policy.direction == Direction::Out) == is_out).cloned()
        };
        let policies = [true, false].map(|is_out| Some(self.policies_of(is_out).filled(of(is_out))));
        let mut pending = writer.pending.take().unwrap_or_default();
        (pending.associations, pending.policies) = (Some(associations), policies);
        writer.unlisted.clear();
        let next = writer.to_be_tended();
        let before = std::mem::replace(&mut writer.tended, next);
        // Most databases have none before and after.
        if !before.is_empty() || !writer.tended.is_empty() || pending.tended.is_some() {
            let targets = writer.tended.values().map(|target| (tended::hash(target), target.clone()));
            pending.tended = Some(self.tended.filled(writer.tended.len(), targets));
        }
        pending.ended.extend(ended);
        writer.pending = Some(pending);
        let _ = self.publish(writer);
    }

    /// Publishes what waits for it.
    pub(super) fn publish(&self, writer: &mut Writer) -> Result<(), Busy> {
        let Some(mut pending) = writer.pending.take() else { return Ok(()) };
        if let Err(left) = self.publish_tables(&mut pending) {
            writer.pending = Some(pending);
            self.is_untidy.store(true, Ordering::Relaxed);
            return Err(left);
        }
        pending.ended.iter().for_each(|association| association.end());
        Ok(())
    }

    /// Associations first: a policy is not to lead to one that packets cannot come back by.
    fn publish_tables(&self, pending: &mut Pending) -> Result<(), Busy> {
        let reader = self.domain.register("ipsec");
        self.associations.replace(&mut pending.associations, &reader)?;
        for (is_out, tuples) in [true, false].into_iter().zip(&mut pending.policies) {
            self.policies_of(is_out).replace(tuples)?;
        }
        self.tended.replace(&mut pending.tended, &reader)
    }
}

impl Writer {
    /// Gives the templates of these groups whose best association is another now new targets, and their policies new rules.
    fn retarget(&mut self, groups: &HashSet<Group>, domain: &sync::rcu::Domain) {
        let mut changed = HashSet::new();
        for group in groups {
            let keys = self.groups.get(group).map_or_else(Vec::new, |members| members.targets.clone());
            for key in keys {
                let best = self.best(&key).cloned();
                let used = self.targets.get_mut(&key);
                if let Some(used) = used
                    && !used.target.leads_to(best.as_ref())
                {
                    used.target = Arc::new(used.target.successor(domain, best));
                    changed.insert(key);
                }
            }
        }
        if changed.is_empty() {
            return;
        }
        for rule in self.rules.values_mut() {
            if let Some(key) = TargetKey::of(&rule.policy).filter(|key| changed.contains(key)) {
                *rule = Arc::new(Rule::with_target(rule, self.targets[&key].target.clone()));
            }
        }
    }
}
