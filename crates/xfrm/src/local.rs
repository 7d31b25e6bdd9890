// SPDX-License-Identifier: MIT OR Apache-2.0
//! Databases in this process.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ipsec::{Association, AssociationConfig, Database, Error, Id, Policy, PolicyKey, Rule, SpiRange};

use crate::kernel::{All, Carried, Found, Kernel, Refusal};

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// An [`ipsec::Database`] of this process.
pub struct Local {
    database: Arc<Database>,
    now_ns: Box<dyn Fn() -> u64 + Send>,
}

impl Local {
    /// The database, whose time `now_ns` gives.
    pub fn new(database: Arc<Database>, now_ns: impl Fn() -> u64 + Send + 'static) -> Local {
        Local { database, now_ns: Box::new(now_ns) }
    }
}

/// Seconds since 1970.
pub(crate) fn wall() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn found(association: &Association, now_ns: u64, wall: u64) -> Found<AssociationConfig> {
    let what = AssociationConfig { progress: association.progress(), ..association.current() };
    let ago = |then: u64| wall.saturating_sub(now_ns.saturating_sub(then) / SECOND);
    let sum = |counter: fn(&ipsec::Line) -> u64| association.lines.sum(counter);
    let carried = Carried {
        usage: association.lines.usage(),
        made: ago(association.made_ns),
        used: association.lines.first_ns().map_or(0, ago),
        replayed: sum(|line| line.replayed.get()),
        too_old: sum(|line| line.too_old.get()),
        forged: sum(|line| line.forged.get()),
    };
    Found { what, carried }
}

fn found_policy(rule: &Rule, now_ns: u64, wall: u64) -> Found<Policy> {
    let used = rule.last_use_ns().map_or(0, |used| wall.saturating_sub(now_ns.saturating_sub(used) / SECOND));
    let carried = Carried { used, ..Carried::default() };
    Found { what: rule.policy.clone(), carried }
}

impl Kernel for Local {
    fn add(&mut self, config: AssociationConfig) -> Result<(), Refusal> {
        self.database.add(config, false, (self.now_ns)())?;
        Ok(())
    }

    fn update(&mut self, config: AssociationConfig) -> Result<(), Refusal> {
        Ok(self.database.adjust(config, (self.now_ns)())?)
    }

    fn remove(&mut self, id: Id) -> Result<(), Refusal> {
        if !self.database.give_back(id, (self.now_ns)()) {
            self.database.remove(id)?;
        }
        Ok(())
    }

    fn association(&mut self, id: Id) -> Result<Found<AssociationConfig>, Refusal> {
        let association = self.database.association(id).ok_or(Error::NoAssociation(id))?;
        Ok(found(&association, (self.now_ns)(), wall()))
    }

    fn associations(&mut self) -> Result<All<AssociationConfig>, Refusal> {
        let (now_ns, wall) = ((self.now_ns)(), wall());
        let all = self.database.associations().into_iter();
        Ok(Box::new(all.map(move |association| found(&association, now_ns, wall))))
    }

    fn count(&mut self) -> Result<usize, Refusal> {
        Ok(self.database.association_count())
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        self.database.flush();
        Ok(())
    }

    fn reserve(&mut self, dst: IpAddr, range: SpiRange) -> Result<u32, Refusal> {
        Ok(self.database.reserve(dst, range, (self.now_ns)(), || fastrand::u32(..))?)
    }

    fn set_policy(&mut self, policy: Policy, replaces: bool) -> Result<(), Refusal> {
        Ok(self.database.set_policy(policy, replaces)?)
    }

    fn remove_policy(&mut self, key: &PolicyKey) -> Result<(), Refusal> {
        self.database.remove_policy(key)?;
        Ok(())
    }

    fn policy(&mut self, key: &PolicyKey) -> Result<Found<Policy>, Refusal> {
        let rule = self.database.policy(key).ok_or_else(|| Error::NoPolicy(key.clone().into()))?;
        Ok(found_policy(&rule, (self.now_ns)(), wall()))
    }

    fn policies(&mut self) -> Result<All<Policy>, Refusal> {
        let (now_ns, wall) = ((self.now_ns)(), wall());
        Ok(Box::new(self.database.policies().into_iter().map(move |rule| found_policy(&rule, now_ns, wall))))
    }

    fn flush_policies(&mut self) -> Result<(), Refusal> {
        self.database.flush_policies();
        Ok(())
    }
}
