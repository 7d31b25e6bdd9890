// SPDX-License-Identifier: MIT OR Apache-2.0
//! Both databases together, as a router has them.

mod adjust;
mod ahead;
mod error;
mod tended;
mod whole;
mod writer;

use std::cmp::Reverse;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use esp::sa::{SPI_MIN, SaError};
use sync::rcu::{Domain, Reader};

use crate::association::{Association, AssociationConfig, Id};
use crate::buckets::{Bucket, Buckets, Busy};
use crate::event::{Event, Events};
use crate::lifetime::Reached;
use crate::policy::{Action, Direction, Policy, PolicyKey};
use crate::predecessor::Predecessor;
use crate::selector::Flow;
use crate::spd::{Policies, Rule};
use crate::targets::{self, Target};
pub use ahead::AHEAD;
pub use error::{Error, ErrorKind};
pub use tended::{WalkPosition, Whose};
pub use whole::Configured;
use writer::{Group, Writer};

/// SPIs from which one is to be chosen.
pub type SpiRange = RangeInclusive<u32>;

/// How long a reserved SPI stays so, in nanoseconds: 165 s, as Linux has it.
const RESERVED_NS: u64 = 165_000_000_000;
/// Attempts to find a free SPI.
const ATTEMPTS: u32 = 64;
/// Associations that a worker looks at or takes out in one go.
const AT_ONCE: usize = 256;
/// How long a worker lets a thread go on that changes or lists, in nanoseconds.
const AGAIN_NS: u64 = 1_000_000;

/// An association and its identity, so that a lookup compares that without a look at the association.
type Entry = (Id, Arc<Association>);

const _: () = assert!(size_of::<Bucket<Entry>>() == 64);

/// The databases of a router. Workers read them by `outbound`, `inbound` and `admits`; other methods take a lock, and are for threads that change or list.
#[derive(Debug)]
pub struct Database {
    domain: Domain,
    workers: AtomicUsize,
    /// Whether an association goes by UDP, or did.
    by_udp: AtomicBool,
    associations: Buckets<Entry>,
    /// Where policies for packets that leave find associations that are tended.
    tended: Buckets<Arc<Target>>,
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

impl Database {
    /// Empty databases for `workers` workers, which are readers of `domain`.
    pub fn new(domain: &Domain, workers: usize) -> Database {
        let workers = AtomicUsize::new(workers);
        Database {
            domain: domain.clone(),
            workers,
            by_udp: AtomicBool::new(false),
            associations: Buckets::new(domain),
            tended: Buckets::new(domain),
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
        let wanted = Id { dst, spi };
        let entries = self.associations.of(hash(wanted), reader);
        entries.into_iter().find(|(id, _)| *id == wanted).map(|(_, association)| association)
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

    /// Whether a better policy than `found`, one that `differs`, could be about a later fragment: only the first fragment of a packet has ports, which would tell. Of other packets
    /// it is known, so they are not ambiguous.
    #[inline]
    pub fn is_ambiguous(
        &self,
        (flow, direction): (&Flow, Direction),
        found: Option<&Rule>,
        reader: &Reader,
        differs: impl Fn(&Rule) -> bool,
    ) -> bool {
        let policies = &self.policies[usize::from(direction != Direction::Out)];
        flow.lacks_ports() && policies.has_rival(flow, found, reader, differs)
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
        let asks = target.ask(now_ns);
        if asks {
            let (policy, template) = (rule.policy.clone(), template.clone());
            self.events.put(Event::Acquire { flow: *flow, policy, template });
        }
        asks
    }

    /// Counts a packet of an association. Returns false if it is over, and the packet must not pass.
    #[inline]
    pub fn count(&self, association: &Association, worker: usize, bytes: usize, now_ns: u64) -> bool {
        if association.is_over() {
            return false;
        }
        association.lines.passed(worker, bytes as u64, now_ns);
        if association.is_counted() {
            association.note_len(association.lines.of(worker).packets.get(), bytes);
            self.look_at_count(association)
        } else {
            true
        }
    }

    /// Counts a dummy packet. It uses up an association as others do. Returns false as [`count`](Self::count) does.
    pub fn count_dummy(&self, association: &Association, worker: usize, bytes: usize, now_ns: u64) -> bool {
        if association.is_over() {
            return false;
        }
        association.lines.passed(worker, bytes as u64, now_ns);
        association.lines.of(worker).dummies.add(1);
        self.look_at_count(association)
    }

    #[cold]
    fn look_at_count(&self, association: &Association) -> bool {
        if let Some(reached) = association.limits().reached(association.lines.usage()) {
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
        let Some(ports) = association.sa.udp() else { return };
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
        check(&config)?;
        let id = config.id();
        let mut writer = self.lock_to_change()?;
        let before = writer.associations.get(&id).cloned();
        if before.is_some() && !replaces {
            return Err(Error::Exists(id));
        }
        let same = before.as_ref().filter(|before| before.has_keys_of(&config));
        let reader = self.domain.register("ipsec");
        let association = self.make(config, same.map(Predecessor::from), now_ns, writer.made + 1)?;
        let count = writer.associations.len() + 1;
        self.associations.make_room(count, &reader, |(id, _)| hash(*id))?;
        self.associations.change(hash(id), &reader, |entries| {
            entries.retain(|(other, _)| *other != id);
            entries.push((id, association.clone()));
        })?;
        self.note_kind(&association);
        writer.made += 1;
        writer.reserved.remove(&id);
        if let Some(before) = &before {
            writer.leave(before);
        }
        writer.enter(&association);
        if let Some(before) = before {
            writer.unsettled.extend(Group::of_association(&before.config));
        }
        self.settle(&mut writer, &association.config);
        Ok(association)
    }

    /// The association that goes on from `before`, which has the same keys, if there is one.
    fn make(
        &self,
        mut config: AssociationConfig,
        before: Option<Predecessor<'_>>,
        now_ns: u64,
        generation: u64,
    ) -> Result<Arc<Association>, SaError> {
        // The same keys go on: no packet passes twice, and no number is used twice.
        if let Some(before) = before {
            config.progress = before.progress(&config);
        }
        erase::apart(|| {
            let mut association = Association::new(config, self.workers(), now_ns, generation)?;
            if let Some(before) = before {
                before.hand_over(&mut association);
            }
            Ok(Arc::new(association))
        })
    }

    /// Notes what some associations need and others do not.
    fn note_kind(&self, association: &Association) {
        self.by_udp.fetch_or(association.sa.by_udp, Ordering::Relaxed);
    }

    /// Takes an association out.
    ///
    /// # Errors
    /// There is none, or [`Error::Busy`].
    pub fn remove(&self, id: Id) -> Result<Arc<Association>, Error> {
        let mut writer = self.lock_to_change()?;
        if writer.reserved.remove(&id).is_some() && !writer.associations.contains_key(&id) {
            return Err(Error::NoAssociation(id));
        }
        self.take_out(&mut writer, id)
    }

    fn take_out(&self, writer: &mut Writer, id: Id) -> Result<Arc<Association>, Error> {
        let association = writer.associations.get(&id).cloned().ok_or(Error::NoAssociation(id))?;
        let reader = self.domain.register("ipsec");
        self.associations.change(hash(id), &reader, |entries| {
            entries.retain(|(other, _)| *other != id);
        })?;
        writer.leave(&association);
        self.settle(writer, &association.config);
        association.end();
        Ok(association)
    }

    /// Settles the templates that an association may have served, or may serve. What must wait for readers is settled by [`tidy`](Self::tidy).
    fn settle(&self, writer: &mut Writer, config: &AssociationConfig) {
        writer.unsettled.extend(Group::of_association(config));
        if writer.settle().is_err() {
            self.is_untidy.store(true, Ordering::Relaxed);
        }
        self.list_tended(writer);
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
        let Some(mut writer) = self.try_lock() else { return };
        self.is_untidy.store(false, Ordering::Relaxed);
        self.take_out_over(&mut writer);
        if writer.settle().is_err() {
            self.is_untidy.store(true, Ordering::Relaxed);
        }
        self.list_tended(&mut writer);
    }

    /// The association of this identity.
    pub fn association(&self, id: Id) -> Option<Arc<Association>> {
        self.lock().associations.get(&id).cloned()
    }

    /// How many associations there are.
    pub fn association_count(&self) -> usize {
        self.lock().associations.len()
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
    pub fn set_policy(&self, policy: Policy, replaces: bool) -> Result<(), Error> {
        check_policy(&policy)?;
        let mut writer = self.lock_to_change()?;
        let key = policy.key();
        let before = writer.rules.get(&key).cloned();
        if before.is_some() && !replaces {
            return Err(Error::PolicyExists(key.into()));
        }
        let rule = writer.make_rule(policy, before.as_deref(), &self.domain);
        let reader = self.domain.register("ipsec");
        let is_out = rule.policy.direction == Direction::Out;
        let put = self.policies_of(is_out).insert(rule.clone(), &reader);
        let released = if put.is_ok() { before.as_deref() } else { Some(&*rule) };
        if let Some(released) = released {
            writer.release(&released.policy);
        }
        self.list_tended(&mut writer);
        put?;
        writer.rules.insert(key, rule);
        Ok(())
    }

    fn policies_of(&self, is_out: bool) -> &Policies {
        &self.policies[usize::from(!is_out)]
    }

    /// Takes a policy out.
    ///
    /// # Errors
    /// There is none, or [`Error::Busy`].
    pub fn remove_policy(&self, key: &PolicyKey) -> Result<Policy, Error> {
        let mut writer = self.lock_to_change()?;
        let rule = writer.rules.get(key).cloned().ok_or_else(|| Error::NoPolicy(key.clone().into()))?;
        let reader = self.domain.register("ipsec");
        self.policies_of(key.direction == Direction::Out).remove(key, &reader)?;
        writer.rules.remove(key);
        writer.release(&rule.policy);
        self.list_tended(&mut writer);
        Ok(rule.policy.clone())
    }

    /// The policy of this direction and selector.
    pub fn policy(&self, key: &PolicyKey) -> Option<Arc<Rule>> {
        self.lock().rules.get(key).cloned()
    }

    /// How many policies there are.
    pub fn policy_count(&self) -> usize {
        self.lock().rules.len()
    }

    /// All policies, in the order in which they count.
    pub fn policies(&self) -> Vec<Arc<Rule>> {
        let mut all: Vec<_> = self.lock().rules.values().cloned().collect();
        all.sort_by_key(|rule| (rule.policy.direction, rule.policy.priority, rule.order));
        all
    }

    /// Ends what time or counts have ended by `now_ns`. Returns when to call it next, in nanoseconds, or `None` while time ends nothing.
    ///
    /// A call does a bounded amount of work, and it does not wait: while another thread changes or lists, it is to be called again.
    pub fn tick(&self, now_ns: u64) -> Option<u64> {
        let Some(mut writer) = self.try_lock() else { return Some(now_ns + AGAIN_NS) };
        for _ in 0..AT_ONCE {
            let Some(&Reverse((at, id, generation))) = writer.ends.peek() else { break };
            if at > now_ns {
                break;
            }
            writer.ends.pop();
            let is_due = |a: &&Arc<Association>| a.generation == generation && a.looks_at(at);
            let Some(association) = writer.associations.get(&id).filter(is_due).cloned() else { continue };
            let used = association.lines.first_ns();
            let end = association.limits().next_end(association.made_ns, used, association.reached());
            if let Some((_, reached)) = end.filter(|(at, _)| *at <= now_ns) {
                self.note(&association, reached);
            }
            if !association.is_over() {
                writer.look_again(&association, now_ns);
            }
        }
        let waits = self.take_out_over(&mut writer).then_some(now_ns);
        waits.or_else(|| writer.ends.peek().map(|Reverse((at, ..))| *at))
    }

    /// Takes out some of what is over. Returns whether there is more. While workers stall it stays, and passes no packet anyway.
    fn take_out_over(&self, writer: &mut Writer) -> bool {
        if self.publish(writer).is_err() {
            return false;
        }
        let all = || self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let over: Vec<Id> = {
            let mut all = all();
            let rest = all.len().saturating_sub(AT_ONCE);
            all.drain(rest..).collect()
        };
        let mut stalls = false;
        for id in over {
            // Another one may have taken its place.
            let is_over = writer.associations.get(&id).is_some_and(|association| association.is_over());
            if is_over && self.take_out(writer, id).is_err() {
                self.is_untidy.store(true, Ordering::Relaxed);
                all().push(id);
                stalls = true;
            }
        }
        let is_more = !all().is_empty();
        if is_more {
            self.is_untidy.store(true, Ordering::Relaxed);
        }
        is_more && !stalls
    }

    /// For workers, which do not wait.
    fn try_lock(&self) -> Option<MutexGuard<'_, Writer>> {
        match self.writer.try_lock() {
            Ok(writer) => Some(writer),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a single change, which must not come before tables that wait to be published.
    fn lock_to_change(&self) -> Result<MutexGuard<'_, Writer>, Busy> {
        let mut writer = self.lock();
        self.publish(&mut writer)?;
        Ok(writer)
    }
}

/// Whether what an association says of its ends fits together.
fn check(config: &AssociationConfig) -> Result<(), Error> {
    let ends = (config.src, config.dst);
    match config.esp.mode {
        esp::Mode::Tunnel { from, to } if (from, to) != ends => {
            Err(Error::Ends { spi: config.esp.spi, tunnel: (from, to), ends })
        }
        _ => Ok(()),
    }
}

fn check_policy(policy: &Policy) -> Result<(), Error> {
    let selector = &policy.selector;
    if selector.src.is_six() == selector.dst.is_six() {
        Ok(())
    } else {
        Err(Error::Families(policy.key().into()))
    }
}

#[inline]
fn hash(Id { dst, spi }: Id) -> u64 {
    let dst = match dst {
        IpAddr::V4(four) => four.to_bits().into(),
        IpAddr::V6(six) => (six.to_bits() >> 64) as u64 ^ six.to_bits() as u64,
    };
    wire::hash::mix(dst, spi.into(), 0x51_7cc1_b727)
}
