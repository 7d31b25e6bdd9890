// SPDX-License-Identifier: MIT OR Apache-2.0
//! Both databases together, as a router has them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use esp::sa::{SPI_MIN, SaError};
use sync::rcu::{Domain, Reader};

use crate::association::{Association, AssociationConfig, Id, Progress};
use crate::buckets::{Buckets, Busy};
use crate::event::{Event, Events};
use crate::lifetime::{Limits, Reached};
use crate::policy::{Action, Direction, Policy, PolicyKey};
use crate::selector::Flow;
use crate::spd::{Policies, Rule};
use crate::targets::{self, Target, TargetKey};

/// SPIs from which one is to be chosen.
pub type SpiRange = RangeInclusive<u32>;

/// How long a reserved SPI stays so, in nanoseconds: 165 s, as Linux has it.
const RESERVED_NS: u64 = 165_000_000_000;
/// Attempts to find a free SPI.
const ATTEMPTS: u32 = 64;
/// An association that waits for its first packet is looked at this often, in nanoseconds, if its life depends on it.
const LOOK_NS: u64 = 1_000_000_000;

/// Why a change was not made. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is one already.
    #[error("there is an association with SPI {:#x} to {} already", .0.spi, .0.dst)]
    Exists(Id),
    /// There is none.
    #[error("there is no association with SPI {:#x} to {}", .0.spi, .0.dst)]
    NoAssociation(Id),
    /// There is one already.
    #[error("there is a policy of this direction and selector already")]
    PolicyExists,
    /// There is none.
    #[error("there is no policy of this direction and selector")]
    NoPolicy,
    /// A tunnel's ends differ from the association's.
    #[error("the tunnel's ends are not the association's")]
    Ends,
    /// The two prefixes of a selector are of two families.
    #[error("source and destination are of two families")]
    Families,
    /// No number is left.
    #[error("no SPI between {:#x} and {:#x} is free, or none was found in {ATTEMPTS} attempts", .0.start(), .0.end())]
    NoSpi(SpiRange),
    /// Something is wrong about the association.
    #[error(transparent)]
    Sa(#[from] SaError),
    /// Old versions wait for workers.
    #[error("too many changes wait for the workers: try again")]
    Busy,
}

impl From<Busy> for Error {
    fn from(_: Busy) -> Error {
        Error::Busy
    }
}

/// The databases of a router. Workers read them by `outbound`, `inbound` and `admits`; other methods take a lock, and are for threads that change or list.
#[derive(Debug)]
pub struct Database {
    domain: Domain,
    workers: AtomicUsize,
    /// Whether an association goes by UDP, or did.
    by_udp: AtomicBool,
    associations: Buckets<(u32, Arc<Association>)>,
    /// Policies of packets that leave, and of packets that come or are forwarded.
    policies: [Policies; 2],
    writer: Mutex<Writer>,
    /// Associations that counts have ended, and which are still in the tables.
    over: Mutex<Vec<Id>>,
    /// Whether there are such, or templates that are to be settled.
    is_untidy: AtomicBool,
    /// What a key daemon must hear of.
    pub events: Events,
}

#[derive(Debug, Default)]
struct Writer {
    associations: BTreeMap<Id, Arc<Association>>,
    rules: HashMap<PolicyKey, Arc<Rule>>,
    targets: HashMap<TargetKey, Used>,
    groups: HashMap<Group, Members>,
    /// Numbers that are promised, and until when.
    reserved: HashMap<Id, u64>,
    /// Groups whose templates are to be settled.
    unsettled: Vec<Group>,
    /// When an association is to be looked at.
    ends: BinaryHeap<Reverse<(u64, Id, u64)>>,
    made: u64,
}

#[derive(Debug)]
struct Used {
    target: Arc<Target>,
    users: usize,
}

/// What templates and associations have in common, so that a change of one finds the others without looking at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Group {
    Reqid(u32),
    Ends(IpAddr, IpAddr),
    Any,
}

#[derive(Debug, Default)]
struct Members {
    targets: Vec<TargetKey>,
    /// By generation: the newest last.
    associations: BTreeSet<(u64, Id)>,
}

impl Group {
    fn of_target(key: &TargetKey) -> Group {
        match (key.template.reqid, key.ends()) {
            (0, None) => Group::Any,
            (0, Some((from, to))) => Group::Ends(from, to),
            (reqid, _) => Group::Reqid(reqid),
        }
    }

    fn of_association(config: &AssociationConfig) -> [Group; 3] {
        [Group::Reqid(config.reqid), Group::Ends(config.src, config.dst), Group::Any]
    }
}

impl Writer {
    /// The newest association that fits a template and is not over.
    fn best(&self, key: &TargetKey) -> Option<&Arc<Association>> {
        let members = self.groups.get(&Group::of_target(key))?;
        let all = members.associations.iter().rev().filter_map(|(_, id)| self.associations.get(id));
        all.into_iter().find(|association| !association.is_over() && key.fits(association))
    }

    /// Settles the templates of groups that wait for it.
    fn settle(&mut self, reader: &Reader) -> Result<(), Busy> {
        while let Some(group) = self.unsettled.last() {
            if let Some(members) = self.groups.get(group) {
                for key in &members.targets {
                    self.targets[key].target.settle(reader, self.best(key))?;
                }
            }
            self.unsettled.pop();
        }
        Ok(())
    }

    fn enter(&mut self, association: &Arc<Association>) {
        let id = association.id();
        for group in Group::of_association(&association.config) {
            self.groups.entry(group).or_default().associations.insert((association.generation, id));
        }
        self.associations.insert(id, association.clone());
        self.look_again(association, association.made_ns);
    }

    fn leave(&mut self, association: &Association) {
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
    fn look_again(&mut self, association: &Association, now_ns: u64) {
        let limits: &Limits = &association.config.limits;
        let used = association.lines.first_ns();
        let end = limits.next_end(association.made_ns, used, association.reached());
        let waits = used.is_none() && limits.use_ns.iter().any(Option::is_some);
        let look = waits.then_some(now_ns + LOOK_NS);
        if let Some(at) = end.map(|(at, _)| at).into_iter().chain(look).min() {
            self.ends.push(Reverse((at, association.id(), association.generation)));
        }
    }

    /// The target of a template, made if there is none.
    fn target(&mut self, key: TargetKey, domain: &Domain) -> Arc<Target> {
        if let Some(used) = self.targets.get_mut(&key) {
            used.users += 1;
            return used.target.clone();
        }
        let target = Arc::new(Target::new(domain, self.best(&key).cloned()));
        self.groups.entry(Group::of_target(&key)).or_default().targets.push(key.clone());
        self.targets.insert(key, Used { target: target.clone(), users: 1 });
        target
    }

    /// A policy no longer uses its template.
    fn release(&mut self, policy: &Policy) {
        let Action::Protect(template) = &policy.action else { return };
        let key = TargetKey::of(template, &policy.selector);
        let Some(used) = self.targets.get_mut(&key) else { return };
        used.users -= 1;
        if used.users == 0 {
            self.targets.remove(&key);
            self.change_group(Group::of_target(&key), |members| {
                members.targets.retain(|other| *other != key)
            });
        }
    }
}

impl Database {
    /// Empty databases for `workers` workers, which are readers of `domain`.
    pub fn new(domain: &Domain, workers: usize) -> Database {
        let workers = AtomicUsize::new(workers);
        Database {
            domain: domain.clone(),
            workers,
            by_udp: AtomicBool::new(false),
            associations: Buckets::new(domain),
            policies: [Policies::new(domain), Policies::new(domain)],
            writer: Mutex::default(),
            over: Mutex::default(),
            is_untidy: AtomicBool::new(false),
            events: Events::default(),
        }
    }

    /// Says how many workers there will be, before anything is put in.
    pub fn set_workers(&self, workers: usize) {
        self.workers.store(workers, Ordering::Relaxed);
    }

    /// Whether an association goes by UDP, or did.
    #[inline]
    pub fn goes_by_udp(&self) -> bool {
        self.by_udp.load(Ordering::Relaxed)
    }

    fn workers(&self) -> usize {
        self.workers.load(Ordering::Relaxed)
    }

    /// The association of a packet that came to `dst` under this number.
    #[inline]
    pub fn inbound<'a>(&'a self, dst: IpAddr, spi: u32, reader: &'a Reader) -> Option<&'a Arc<Association>> {
        let entries = self.associations.of(hash(Id { dst, spi }), reader);
        let is_it = |(number, association): &&(u32, Arc<Association>)| {
            *number == spi && association.config.dst == dst
        };
        entries.iter().find(is_it).map(|(_, association)| association)
    }

    /// The policy for a packet that leaves.
    #[inline]
    pub fn outbound<'a>(&'a self, flow: &Flow, reader: &'a Reader) -> Option<&'a Arc<Rule>> {
        self.policies[0].find(flow, reader)
    }

    /// The policy for a packet that came, or is forwarded.
    #[inline]
    pub fn arriving<'a>(&'a self, flow: &Flow, reader: &'a Reader) -> Option<&'a Arc<Rule>> {
        self.policies[1].find(flow, reader)
    }

    /// Whether packets of this policy may arrive by `association`.
    #[inline]
    pub fn admits(rule: &Rule, association: &Association) -> bool {
        match &rule.policy.action {
            Action::Protect(template) => targets::admits(&rule.policy, template, association),
            Action::Bypass | Action::Discard => false,
        }
    }

    /// A packet found no association for its policy: asks a key daemon, unless that has just been done. Returns whether it did.
    pub fn acquire(&self, rule: &Rule, flow: &Flow, now_ns: u64) -> bool {
        let (Some(target), Action::Protect(template)) = (&rule.target, &rule.policy.action) else {
            return false;
        };
        target.ask(now_ns)
            && self.events.put(Event::Acquire {
                flow: *flow,
                policy: rule.policy.clone(),
                template: template.clone(),
            })
    }

    /// Counts a packet of an association. Returns false if it is over, and the packet must not pass.
    #[inline]
    pub fn count(&self, association: &Association, worker: usize, bytes: usize, now_ns: u64) -> bool {
        if association.is_over() {
            return false;
        }
        association.lines.passed(worker, bytes as u64, now_ns);
        if association.is_counted { self.look_at_count(association) } else { true }
    }

    #[cold]
    fn look_at_count(&self, association: &Association) -> bool {
        if let Some(reached) = association.config.limits.reached(association.lines.usage()) {
            self.note(association, reached);
        }
        // The packet that reaches a limit still passes.
        true
    }

    /// An association has no sequence numbers left: it is over, and a key daemon hears of it.
    #[cold]
    pub fn exhausted(&self, association: &Association) {
        self.note(association, Reached::Hard);
    }

    /// A genuine packet came by UDP from this address and port. If its association knows its peer elsewhere, a key daemon hears of it, once a second at most.
    #[inline]
    pub fn came_from(&self, association: &Association, from: (IpAddr, u16), now_ns: u64) {
        let config = &association.config;
        let Some(ports) = config.esp.udp else { return };
        let before = (config.src, ports.from);
        if before != from && association.say_moved(now_ns) {
            self.events.put(Event::Mapping { id: config.id(), reqid: config.reqid, before, after: from });
        }
    }

    /// Notes that an association has reached a limit, and says so to the key daemon once.
    fn note(&self, association: &Association, reached: Reached) {
        if association.note(reached) {
            let (id, reqid) = (association.id(), association.config.reqid);
            if reached == Reached::Hard {
                self.over.lock().unwrap_or_else(PoisonError::into_inner).push(id);
                self.is_untidy.store(true, Ordering::Relaxed);
            }
            self.events.put(Event::Expire { id, reqid, reached });
        }
    }

    /// Adds an association. With `replaces` it takes the place of one with the same identity.
    ///
    /// # Errors
    /// Why not.
    pub fn add(
        &self,
        config: AssociationConfig,
        replaces: bool,
        now_ns: u64,
    ) -> Result<Arc<Association>, Error> {
        let id = config.id();
        if let esp::Mode::Tunnel { from, to } = config.esp.mode
            && (from, to) != (config.src, config.dst)
        {
            return Err(Error::Ends);
        }
        let mut writer = self.lock();
        let before = writer.associations.get(&id).cloned();
        if before.is_some() && !replaces {
            return Err(Error::Exists(id));
        }
        let reader = self.domain.register("ipsec");
        let mut config = config;
        // The same keys go on: no packet passes twice, and no number is used twice.
        let same = before.as_ref().filter(|before| before.config.esp.spec == config.esp.spec);
        if let Some(same) = same
            && config.progress == Progress::default()
        {
            config.progress = same.successor_progress(config.esp.window);
        }
        let mut association = Association::new(config, self.workers(), now_ns, writer.made + 1)?;
        if let Some(same) = same {
            association.take_counts(same);
        }
        let association = Arc::new(association);
        let count = writer.associations.len() + 1;
        self.associations.make_room(count, &reader, |(_, association)| hash(association.id()))?;
        self.associations.change(hash(id), &reader, |entries| {
            entries.retain(|(_, other)| other.id() != id);
            entries.push((id.spi, association.clone()));
        })?;
        self.by_udp.fetch_or(association.sa.udp.is_some(), Ordering::Relaxed);
        writer.made += 1;
        writer.reserved.remove(&id);
        if let Some(before) = &before {
            writer.leave(before);
        }
        writer.enter(&association);
        if let Some(before) = before {
            writer.unsettled.extend(Group::of_association(&before.config));
        }
        self.settle(&mut writer, &association.config, &reader);
        Ok(association)
    }

    /// Takes an association out.
    ///
    /// # Errors
    /// There is none, or [`Error::Busy`].
    pub fn remove(&self, id: Id) -> Result<Arc<Association>, Error> {
        let mut writer = self.lock();
        if writer.reserved.remove(&id).is_some() && !writer.associations.contains_key(&id) {
            return Err(Error::NoAssociation(id));
        }
        self.take_out(&mut writer, id)
    }

    fn take_out(&self, writer: &mut Writer, id: Id) -> Result<Arc<Association>, Error> {
        let association = writer.associations.get(&id).cloned().ok_or(Error::NoAssociation(id))?;
        let reader = self.domain.register("ipsec");
        self.associations.change(hash(id), &reader, |entries| {
            entries.retain(|(_, other)| other.id() != id);
        })?;
        writer.leave(&association);
        self.settle(writer, &association.config, &reader);
        association.end();
        Ok(association)
    }

    /// Settles the templates that an association may have served, or may serve. What must wait for readers is settled by [`tidy`](Self::tidy).
    fn settle(&self, writer: &mut Writer, config: &AssociationConfig, reader: &Reader) {
        writer.unsettled.extend(Group::of_association(config));
        if writer.settle(reader).is_err() {
            self.is_untidy.store(true, Ordering::Relaxed);
        }
    }

    /// Takes out what counts have ended, and settles what had to wait. Workers call it after each batch; nearly always it is one load.
    #[inline]
    pub fn tidy(&self) {
        if self.is_untidy.load(Ordering::Relaxed) {
            self.tidy_up();
        }
    }

    #[cold]
    fn tidy_up(&self) {
        // Another thread is changing the tables; the next batch tries again.
        let Ok(mut writer) = self.writer.try_lock() else { return };
        self.is_untidy.store(false, Ordering::Relaxed);
        self.take_out_over(&mut writer);
        let reader = self.domain.register("ipsec");
        if writer.settle(&reader).is_err() {
            self.is_untidy.store(true, Ordering::Relaxed);
        }
    }

    /// Takes all associations out. Returns how many there were.
    ///
    /// # Errors
    /// [`Error::Busy`]; some may have gone.
    pub fn flush(&self) -> Result<usize, Error> {
        let mut writer = self.lock();
        writer.reserved.clear();
        let all: Vec<Id> = writer.associations.keys().copied().collect();
        all.iter().try_for_each(|id| self.take_out(&mut writer, *id).map(drop))?;
        Ok(all.len())
    }

    /// The association of this identity.
    pub fn association(&self, id: Id) -> Option<Arc<Association>> {
        self.lock().associations.get(&id).cloned()
    }

    /// All associations, by receiver and number.
    pub fn associations(&self) -> Vec<Arc<Association>> {
        self.lock().associations.values().cloned().collect()
    }

    /// Promises a number to a key daemon, which adds the association later. `random` gives random numbers.
    ///
    /// # Errors
    /// [`Error::NoSpi`].
    pub fn reserve(
        &self,
        dst: IpAddr,
        range: SpiRange,
        now_ns: u64,
        mut random: impl FnMut() -> u32,
    ) -> Result<u32, Error> {
        let mut writer = self.lock();
        writer.reserved.retain(|_, until| *until > now_ns);
        let (first, last) = ((*range.start()).max(SPI_MIN), *range.end());
        let count = u64::from(last).checked_sub(first.into()).ok_or(Error::NoSpi(range.clone()))? + 1;
        for _ in 0..ATTEMPTS {
            let spi = first + (u64::from(random()) % count) as u32;
            let id = Id { dst, spi };
            if !writer.associations.contains_key(&id) && !writer.reserved.contains_key(&id) {
                writer.reserved.insert(id, now_ns + RESERVED_NS);
                return Ok(spi);
            }
        }
        Err(Error::NoSpi(range))
    }

    /// Whether a number is promised, and no association has it yet.
    pub fn is_reserved(&self, id: Id, now_ns: u64) -> bool {
        self.lock().reserved.get(&id).is_some_and(|until| *until > now_ns)
    }

    /// Puts a policy in. With `replaces` it takes the place of one of the same direction and selector.
    ///
    /// # Errors
    /// Why not.
    pub fn set_policy(&self, mut policy: Policy, replaces: bool) -> Result<(), Error> {
        if policy.selector.src.is_six() != policy.selector.dst.is_six() {
            return Err(Error::Families);
        }
        let mut writer = self.lock();
        let key = policy.key();
        let before = writer.rules.get(&key).cloned();
        if before.is_some() && !replaces {
            return Err(Error::PolicyExists);
        }
        writer.made += 1;
        // One that is replaced keeps its place among equals.
        let order = before.as_ref().map_or(writer.made, |before| before.order);
        if policy.index == 0 {
            policy.index =
                before.as_ref().map_or(index(policy.direction, order), |before| before.policy.index);
        }
        let target = match &policy.action {
            Action::Protect(template) => {
                Some(writer.target(TargetKey::of(template, &policy.selector), &self.domain))
            }
            Action::Bypass | Action::Discard => None,
        };
        let rule = Arc::new(Rule::new(policy, target, order));
        let reader = self.domain.register("ipsec");
        let put = self.policies_of(rule.policy.direction).insert(rule.clone(), &reader);
        let released = if put.is_ok() { before.as_deref() } else { Some(&*rule) };
        if let Some(released) = released {
            writer.release(&released.policy);
        }
        put?;
        writer.rules.insert(key, rule);
        Ok(())
    }

    fn policies_of(&self, direction: Direction) -> &Policies {
        &self.policies[usize::from(direction != Direction::Out)]
    }

    /// Takes a policy out.
    ///
    /// # Errors
    /// There is none, or [`Error::Busy`].
    pub fn remove_policy(&self, key: &PolicyKey) -> Result<Policy, Error> {
        let mut writer = self.lock();
        self.take_policy_out(&mut writer, key)
    }

    fn take_policy_out(&self, writer: &mut Writer, key: &PolicyKey) -> Result<Policy, Error> {
        let rule = writer.rules.get(key).cloned().ok_or(Error::NoPolicy)?;
        let reader = self.domain.register("ipsec");
        self.policies_of(key.direction).remove(key, &reader)?;
        writer.rules.remove(key);
        writer.release(&rule.policy);
        Ok(rule.policy.clone())
    }

    /// Takes all policies out. Returns how many there were.
    ///
    /// # Errors
    /// [`Error::Busy`]; some may have gone.
    pub fn flush_policies(&self) -> Result<usize, Error> {
        let mut writer = self.lock();
        let all: Vec<PolicyKey> = writer.rules.keys().cloned().collect();
        all.iter().try_for_each(|key| self.take_policy_out(&mut writer, key).map(drop))?;
        Ok(all.len())
    }

    /// The policy of this direction and selector.
    pub fn policy(&self, key: &PolicyKey) -> Option<Arc<Rule>> {
        self.lock().rules.get(key).cloned()
    }

    /// All policies, in the order in which they count.
    pub fn policies(&self) -> Vec<Arc<Rule>> {
        let mut all: Vec<_> = self.lock().rules.values().cloned().collect();
        all.sort_by_key(|rule| (rule.policy.direction, rule.policy.priority, rule.order));
        all
    }

    /// Ends what time or counts have ended by `now_ns`. Returns when time ends the next one, in nanoseconds, or `None` while it ends none.
    pub fn tick(&self, now_ns: u64) -> Option<u64> {
        let mut writer = self.lock();
        while let Some(&Reverse((at, id, generation))) = writer.ends.peek()
            && at <= now_ns
        {
            writer.ends.pop();
            let association = writer.associations.get(&id).filter(|a| a.generation == generation).cloned();
            let Some(association) = association else { continue };
            let used = association.lines.first_ns();
            let end = association.config.limits.next_end(association.made_ns, used, association.reached());
            if let Some((_, reached)) = end.filter(|(at, _)| *at <= now_ns) {
                self.note(&association, reached);
            }
            if !association.is_over() {
                writer.look_again(&association, now_ns);
            }
        }
        self.take_out_over(&mut writer);
        writer.ends.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes out what is over. While workers stall it stays, and passes no packet anyway.
    fn take_out_over(&self, writer: &mut Writer) {
        let over = std::mem::take(&mut *self.over.lock().unwrap_or_else(PoisonError::into_inner));
        for id in over {
            // Another one may have taken its place.
            let is_over = writer.associations.get(&id).is_some_and(|association| association.is_over());
            if is_over && self.take_out(writer, id).is_err() {
                self.is_untidy.store(true, Ordering::Relaxed);
                self.over.lock().unwrap_or_else(PoisonError::into_inner).push(id);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
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

#[inline]
fn hash(Id { dst, spi }: Id) -> u64 {
    let dst = match dst {
        IpAddr::V4(four) => four.to_bits().into(),
        IpAddr::V6(six) => (six.to_bits() >> 64) as u64 ^ six.to_bits() as u64,
    };
    wire::hash::mix(dst, spi.into(), 0x51_7cc1_b727)
}
