// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the databases hold, as those who change them see it: tables that workers read are made from this.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use sync::rcu::Domain;

use super::whole::{Configured, Pending};
use crate::association::{Association, AssociationConfig, Id};
use crate::buckets::Busy;
use crate::policy::{Direction, Policy, PolicyKey};
use crate::spd::Rule;
use crate::targets::{Target, TargetKey};

/// An association that waits for its first packet is looked at this often, in nanoseconds, if its life depends on it.
const LOOK_NS: u64 = 1_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Writer {
    pub associations: BTreeMap<Id, Arc<Association>>,
    pub rules: HashMap<PolicyKey, Arc<Rule>>,
    pub targets: HashMap<TargetKey, Used>,
    /// What the table of tended targets has, and what may have changed about it.
    pub tended: HashMap<TargetKey, Arc<Target>>,
    pub unlisted: Vec<TargetKey>,
    pub groups: HashMap<Group, Members>,
    /// Numbers that are promised, and until when.
    pub reserved: HashMap<Id, u64>,
    /// Groups whose templates are to be settled.
    pub unsettled: Vec<Group>,
    /// When an association is to be looked at.
    pub ends: BinaryHeap<Reverse<(u64, Id, u64)>>,
    pub made: u64,
    /// What the configuration has put in.
    pub configured: Arc<Configured>,
    /// Whole tables that could not be published yet.
    pub pending: Option<Pending>,
}

#[derive(Debug)]
pub(super) struct Used {
    pub target: Arc<Target>,
    pub users: usize,
    /// Users whose packets leave.
    pub outs: usize,
}

impl Used {
    pub fn is_to_be_tended(&self) -> bool {
        self.outs > 0 && self.target.is_tended()
    }
}

/// What templates and associations have in common, so that a change of one finds the others without looking at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Group {
    Reqid(u32),
    Ends(IpAddr, IpAddr),
    Any,
}

#[derive(Debug, Default)]
pub(super) struct Members {
    pub targets: Vec<TargetKey>,
    /// By generation: the newest last.
    associations: BTreeSet<(u64, Id)>,
}

impl Group {
    pub fn of_target(key: &TargetKey) -> Group {
        match (key.template.reqid, key.ends()) {
            (0, None) => Group::Any,
            (0, Some((from, to))) => Group::Ends(from, to),
            (reqid, _) => Group::Reqid(reqid),
        }
    }

    pub fn of_association(config: &AssociationConfig) -> [Group; 3] {
        [Group::Reqid(config.reqid), Group::Ends(config.src, config.dst), Group::Any]
    }
}

impl Writer {
    /// The newest association that fits a template and is not over.
    pub fn best(&self, key: &TargetKey) -> Option<&Arc<Association>> {
        let members = self.groups.get(&Group::of_target(key))?;
        let all = members.associations.iter().rev().filter_map(|(_, id)| self.associations.get(id));
        all.into_iter().find(|association| !association.is_over() && key.fits(association))
    }

    /// Settles the templates of groups that wait for it.
    pub fn settle(&mut self) -> Result<(), Busy> {
        while let Some(group) = self.unsettled.last() {
            if let Some(members) = self.groups.get(group) {
                for key in &members.targets {
                    if self.targets[key].target.settle(self.best(key))? {
                        self.unlisted.push(key.clone());
                    }
                }
            }
            self.unsettled.pop();
        }
        Ok(())
    }

    /// Whether it has this very association.
    pub fn has(&self, association: &Arc<Association>) -> bool {
        self.associations.get(&association.id()).is_some_and(|there| Arc::ptr_eq(there, association))
    }

    pub fn enter(&mut self, association: &Arc<Association>) {
        let id = association.id();
        for group in Group::of_association(&association.config) {
            self.groups.entry(group).or_default().associations.insert((association.generation, id));
        }
        self.associations.insert(id, association.clone());
        self.look_again(association, association.made_ns);
    }

    pub fn leave(&mut self, association: &Association) {
        let id = association.id();
        for group in Group::of_association(&association.config) {
            self.change_group(group, |members| {
                members.associations.remove(&(association.generation, id));
            });
        }
        self.associations.remove(&id);
    }

    fn change_group(&mut self, group: Group, change: impl FnOnce(&mut Members)) {
        let members = self.groups.entry(group).or_default();
        change(members);
        if members.targets.is_empty() && members.associations.is_empty() {
            self.groups.remove(&group);
        }
    }

    /// Notes when time may end an association.
    pub fn look_again(&mut self, association: &Association, now_ns: u64) {
        let limits = association.limits();
        let used = association.lines.first_ns();
        let end = limits.next_end(association.made_ns, used, association.reached());
        let waits = used.is_none() && limits.use_ns.iter().any(Option::is_some);
        let look = waits.then_some(now_ns + LOOK_NS);
        if let Some(at) = end.map(|(at, _)| at).into_iter().chain(look).min() {
            association.look_at(at);
            self.ends.push(Reverse((at, association.id(), association.generation)));
        }
    }

    /// The target of a template, made if there is none.
    fn target(&mut self, key: TargetKey, is_out: bool, domain: &Domain) -> Arc<Target> {
        self.unlisted.push(key.clone());
        if let Some(used) = self.targets.get_mut(&key) {
            used.users += 1;
            used.outs += usize::from(is_out);
            return used.target.clone();
        }
        let target = Arc::new(Target::new(domain, self.best(&key).cloned()));
        self.groups.entry(Group::of_target(&key)).or_default().targets.push(key.clone());
        self.targets.insert(key, Used { target: target.clone(), users: 1, outs: is_out.into() });
        target
    }

    /// The rule of a policy, which may take the place of another one.
    pub fn make_rule(&mut self, mut policy: Policy, before: Option<&Rule>, domain: &Domain) -> Arc<Rule> {
        self.made += 1;
        // One that is replaced keeps its place among equals.
        let order = before.map_or(self.made, |before| before.order);
        if policy.index == 0 {
            policy.index = before.map_or(index(policy.direction, order), |before| before.policy.index);
        }
        let target =
            TargetKey::of(&policy).map(|key| self.target(key, policy.direction == Direction::Out, domain));
        Arc::new(Rule::new(policy, target, order))
    }

    /// The targets of packets that leave whose associations are tended.
    pub fn to_be_tended(&self) -> HashMap<TargetKey, Arc<Target>> {
        let tended = self.targets.iter().filter(|(_, used)| used.is_to_be_tended());
        tended.map(|(key, used)| (key.clone(), used.target.clone())).collect()
    }

    /// A policy no longer uses its template.
    pub fn release(&mut self, policy: &Policy) {
        let Some(key) = TargetKey::of(policy) else { return };
        let Some(used) = self.targets.get_mut(&key) else { return };
        self.unlisted.push(key.clone());
        used.users -= 1;
        used.outs -= usize::from(policy.direction == Direction::Out);
        if used.users == 0 {
            self.targets.remove(&key);
            self.change_group(Group::of_target(&key), |members| {
                members.targets.retain(|other| *other != key)
            });
        }
    }
}

/// A number for a policy, which says its direction in the low bits, as Linux' does.
fn index(direction: Direction, order: u64) -> u32 {
    let code = match direction {
        Direction::In => 0,
        Direction::Out => 1,
        Direction::Forward => 2,
    };
    (order as u32) << 3 | code
}
