// SPDX-License-Identifier: MIT OR Apache-2.0
//! The policy database: the best policy of a flow.
//!
//! # Layout
//! Tuple space search (Srinivasan, Suri, Varghese, *Packet Classification using Tuple Space Search*, SIGCOMM 1999). Policies with the same two prefix lengths are in one hash
//! table by their masked addresses. A lookup asks each of these tables, unless the best policy so far beats all that is in it.
//!
//! ```text
//! (24, 24) --> 10.1.1.0, 10.2.2.0 --> policies of this pair of prefixes, the best first
//! (16,  0) --> 10.1.0.0, 0.0.0.0  --> ...
//! ```
//!
//! # Cost
//! One hash lookup for each pair of lengths in use. A gateway has few: networks of its own, and those of its peers. A hundred thousand
//! tunnels between hosts and networks cost as much as one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use arrayvec::ArrayVec;
use sync::prefetch::prefetch;
use sync::rcu::{Cell, Domain, Reader};
use wire::Prefix;

use crate::buckets::{Bucket, Buckets, Busy};
use crate::database::AHEAD;
use crate::policy::{Policy, PolicyKey};
use crate::selector::{Flow, Selector};
use crate::targets::Target;

mod fragment;

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// A policy in the database. What packets need of it comes first, on two lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Rule {
    /// Where its packets find their association, if it protects them.
    pub target: Option<Arc<Target>>,
    /// The second in which a packet last met it, plus one; 0 for never.
    used: AtomicU64,
    /// The order in which policies came.
    pub order: u64,
    /// The policy.
    pub policy: Policy,
}

impl Rule {
    pub(crate) fn new(policy: Policy, target: Option<Arc<Target>>, order: u64) -> Rule {
        Rule { target, used: AtomicU64::new(0), order, policy }
    }

    /// Notes that a packet meets it. Workers write the line once a second.
    #[inline]
    pub fn note_use(&self, now_ns: u64) {
        let second = now_ns / SECOND + 1;
        if self.used.load(Ordering::Relaxed) != second {
            self.used.store(second, Ordering::Relaxed);
        }
    }

    /// When a packet last met it, in nanoseconds, to the second; `None` for never.
    pub fn last_use_ns(&self) -> Option<u64> {
        self.used.load(Ordering::Relaxed).checked_sub(1).map(|second| second * SECOND)
    }

    /// The same policy with another target.
    pub(crate) fn with_target(&self, target: Arc<Target>) -> Rule {
        let used = AtomicU64::new(self.used.load(Ordering::Relaxed));
        Rule { target: Some(target), used, order: self.order, policy: self.policy.clone() }
    }

    /// Asks for it ahead of its use.
    #[inline]
    fn fetch(&self) {
        prefetch(self);
        prefetch(&self.policy.action);
    }

    fn rank(&self) -> (u32, u64) {
        (self.policy.priority, self.order)
    }
}

/// Policies of one pair of prefixes, the best first. It fits a [bucket](Buckets)'s line.
#[derive(Clone, Debug)]
struct Pair {
    key: Key,
    first: Arc<Rule>,
    /// The others; `None` where the first is the only one.
    others: Option<Arc<Vec<Arc<Rule>>>>,
}

const _: () = assert!(size_of::<Bucket<Pair>>() == 64);

impl Pair {
    /// `None` for no policies.
    fn new(key: Key, mut rules: Vec<Arc<Rule>>) -> Option<Pair> {
        rules.sort_by_key(|rule| rule.rank());
        let mut rules = rules.into_iter();
        let first = rules.next()?;
        let others: Vec<_> = rules.collect();
        Some(Pair { key, first, others: (!others.is_empty()).then(|| Arc::new(others)) })
    }

    #[inline]
    fn rules(&self) -> impl Iterator<Item = &Arc<Rule>> {
        std::iter::once(&self.first).chain(self.others.iter().flat_map(|others| others.iter()))
    }
}

/// Masked addresses of source and destination.
type Key = (u128, u128);

/// What is common to policies in one hash table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    is_six: bool,
    src_len: u8,
    dst_len: u8,
}

impl Shape {
    fn of(selector: &Selector) -> Shape {
        Shape { is_six: selector.src.is_six(), src_len: selector.src.len(), dst_len: selector.dst.len() }
    }
}

#[derive(Debug)]
pub(crate) struct Tuple {
    shape: Shape,
    masks: Key,
    /// No policy here has a lower priority. It may be lower itself, after one has gone.
    best: AtomicU32,
    pairs: AtomicUsize,
    buckets: Buckets<Pair>,
}

fn bits(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(four) => four.to_bits().into(),
        IpAddr::V6(six) => six.to_bits(),
    }
}

fn mask(len: u8, is_six: bool) -> u128 {
    if is_six { wire::addr::mask6(len) } else { wire::addr::mask4(len).into() }
}

#[inline]
fn hash(&(src, dst): &Key) -> u64 {
    let fold = |bits: u128| (bits >> 64) as u64 ^ bits as u64;
    wire::hash::mix(fold(src).rotate_left(32) ^ fold(dst), src as u64, 0x9e37_79b9)
}

fn key_of(selector: &Selector) -> Key {
    let bits = |prefix: Prefix| bits(prefix.addr());
    (bits(selector.src), bits(selector.dst))
}

impl Tuple {
    fn new(shape: Shape, domain: &Domain) -> Tuple {
        let masks = (mask(shape.src_len, shape.is_six), mask(shape.dst_len, shape.is_six));
        let (best, pairs) = (AtomicU32::new(u32::MAX), AtomicUsize::new(0));
        Tuple { shape, masks, best, pairs, buckets: Buckets::new(domain) }
    }

    /// One with these policies.
    fn filled(shape: Shape, pairs: HashMap<Key, Vec<Arc<Rule>>>, domain: &Domain) -> Tuple {
        let mut tuple = Tuple::new(shape, domain);
        let priorities = pairs.values().flatten().map(|rule| rule.policy.priority);
        tuple.best = AtomicU32::new(priorities.min().unwrap_or(u32::MAX));
        tuple.pairs = AtomicUsize::new(pairs.len());
        let sorted = |(key, rules): (Key, Vec<Arc<Rule>>)| Some((hash(&key), Pair::new(key, rules)?));
        tuple.buckets = Buckets::with(domain, pairs.len(), pairs.into_iter().filter_map(sorted));
        tuple
    }

    #[inline]
    fn find<'a>(&'a self, key: Key, reader: &'a Reader) -> Option<&'a Pair> {
        self.buckets.of(hash(&key), reader).into_iter().find(|pair| pair.key == key)
    }

    /// Asks for the buckets of flows, and then for the first policy of each.
    fn fetch<'a>(
        &'a self,
        flows: &[(Flow, usize)],
        reader: &'a Reader,
        rules: &mut ArrayVec<(&'a Rule, usize), AHEAD>,
    ) {
        let mut wanted: ArrayVec<(Key, u64, usize), AHEAD> = ArrayVec::new();
        for (flow, len) in flows.iter().take(AHEAD).filter(|(flow, _)| flow.is_six() == self.shape.is_six) {
            let key = (bits(flow.src) & self.masks.0, bits(flow.dst) & self.masks.1);
            let hash = hash(&key);
            self.buckets.fetch_cell(hash, reader);
            wanted.push((key, hash, *len));
        }
        wanted.iter().for_each(|(_, hash, _)| self.buckets.fetch_bucket(*hash, reader));
        for (key, hash, len) in wanted {
            let mut pairs = self.buckets.of(hash, reader).into_iter();
            let Some(pair) = pairs.find(|pair| pair.key == key) else { continue };
            pair.first.fetch();
            // Of flows that have a policy in several tables, some may find no place. They are looked up all the same.
            let _ = rules.try_push((&*pair.first, len));
        }
    }

    /// Changes the policies of a pair of prefixes.
    fn change(
        &self,
        key: Key,
        reader: &Reader,
        change: impl FnOnce(&mut Vec<Arc<Rule>>),
    ) -> Result<(), Busy> {
        let before = self.find(key, reader);
        let mut rules = before.map(|pair| pair.rules().cloned().collect()).unwrap_or_default();
        change(&mut rules);
        let after = Pair::new(key, rules);
        let pairs =
            self.pairs.load(Ordering::Relaxed) - usize::from(before.is_some()) + usize::from(after.is_some());
        self.buckets.make_room(pairs, reader, |pair| hash(&pair.key))?;
        if let Some(after) = &after {
            // Before readers see the policy, so that none passes its table over.
            self.best.fetch_min(after.first.policy.priority, Ordering::Release);
        }
        self.buckets.change(hash(&key), reader, |entries| {
            entries.retain(|pair| pair.key != key);
            entries.extend(after);
        })?;
        self.pairs.store(pairs, Ordering::Relaxed);
        Ok(())
    }
}

/// All tables of a direction.
pub(crate) type Tuples = Vec<Arc<Tuple>>;

/// The policies of one direction. One thread at a time may change them.
#[derive(Debug)]
pub(crate) struct Policies {
    tuples: Cell<Tuples>,
    domain: Domain,
}

impl Policies {
    pub fn new(domain: &Domain) -> Policies {
        Policies { tuples: Cell::new(domain, Vec::new()), domain: domain.clone() }
    }

    /// The best policy for a flow.
    #[inline]
    pub fn find<'a>(&'a self, flow: &Flow, reader: &'a Reader) -> Option<&'a Arc<Rule>> {
        let (is_six, src, dst) = (flow.is_six(), bits(flow.src), bits(flow.dst));
        let mut found: Option<&Arc<Rule>> = None;
        for tuple in self.tuples.read(reader) {
            let is_beaten =
                found.is_some_and(|rule| rule.policy.priority < tuple.best.load(Ordering::Acquire));
            if tuple.shape.is_six != is_six || is_beaten {
                continue;
            }
            let Some(pair) = tuple.find((src & tuple.masks.0, dst & tuple.masks.1), reader) else { continue };
            let rule = pair.rules().find(|rule| rule.policy.selector.contains_upper(flow));
            if rule.is_some_and(|rule| found.is_none_or(|found| rule.rank() < found.rank())) {
                found = rule;
            }
        }
        found
    }

    /// Whether it has a table that is worth asking for ahead.
    #[inline]
    pub fn is_large(&self, reader: &Reader) -> bool {
        self.tuples.read(reader).iter().any(|tuple| tuple.buckets.is_large(reader))
    }

    /// Asks for the policies of flows ahead of their use, each with the length of its packet. Returns those that are likely to count, of [`AHEAD`] flows at most.
    #[inline]
    pub fn fetch<'a>(
        &'a self,
        flows: &[(Flow, usize)],
        reader: &'a Reader,
    ) -> ArrayVec<(&'a Rule, usize), AHEAD> {
        let mut rules = ArrayVec::new();
        let tuples = self.tuples.read(reader).iter();
        tuples
            .filter(|tuple| tuple.buckets.is_large(reader))
            .for_each(|tuple| tuple.fetch(flows, reader, &mut rules));
        rules
    }

    /// Calls `each` for the policies in some buckets, at most `most`, from a place on: of a table, and of a bucket in it. Returns where the next ones are.
    pub fn walk<'a>(
        &'a self,
        (mut table, mut bucket): (usize, usize),
        most: usize,
        reader: &'a Reader,
        mut each: impl FnMut(&'a Rule),
    ) -> Option<(usize, usize)> {
        let tuples = self.tuples.read(reader);
        for _ in 0..most {
            match tuples.get(table)?.buckets.at(bucket, reader) {
                Some(pairs) => {
                    pairs.into_iter().flat_map(Pair::rules).for_each(|rule| each(rule));
                    bucket += 1;
                }
                None => (table, bucket) = (table + 1, 0),
            }
        }
        Some((table, bucket))
    }

    /// Tables with these policies.
    pub fn filled(&self, rules: impl Iterator<Item = Arc<Rule>>) -> Tuples {
        let mut shapes: HashMap<Shape, HashMap<Key, Vec<Arc<Rule>>>> = HashMap::new();
        for rule in rules {
            let selector = &rule.policy.selector;
            let pairs = shapes.entry(Shape::of(selector)).or_default();
            pairs.entry(key_of(selector)).or_default().push(rule);
        }
        shapes.into_iter().map(|(shape, pairs)| Arc::new(Tuple::filled(shape, pairs, &self.domain))).collect()
    }

    /// Puts other tables in the place of all. They are left where they are if they have to wait.
    pub fn replace(&self, next: &mut Option<Tuples>) -> Result<(), Busy> {
        let Some(tuples) = next.take() else { return Ok(()) };
        self.tuples.publish(tuples).map_err(|stalled| {
            *next = Some(stalled.value);
            Busy
        })
    }

    /// Puts a policy in, in the place of one with the same selector.
    pub fn insert(&self, rule: Arc<Rule>, reader: &Reader) -> Result<(), Busy> {
        let shape = Shape::of(&rule.policy.selector);
        let key = key_of(&rule.policy.selector);
        let put = |rules: &mut Vec<Arc<Rule>>| {
            rules.retain(|other| other.policy.key() != rule.policy.key());
            rules.push(rule.clone());
        };
        let tuples = self.tuples.read(reader);
        if let Some(tuple) = tuples.iter().find(|tuple| tuple.shape == shape) {
            return tuple.change(key, reader, put);
        }
        let tuple = Arc::new(Tuple::new(shape, &self.domain));
        tuple.change(key, reader, put)?;
        Ok(self.tuples.publish(tuples.iter().cloned().chain([tuple]).collect())?)
    }

    /// Takes a policy out.
    pub fn remove(&self, policy: &PolicyKey, reader: &Reader) -> Result<(), Busy> {
        let shape = Shape::of(&policy.selector);
        let tuples = self.tuples.read(reader);
        let Some(tuple) = tuples.iter().find(|tuple| tuple.shape == shape) else { return Ok(()) };
        tuple.change(key_of(&policy.selector), reader, |rules| {
            rules.retain(|rule| rule.policy.key() != *policy);
        })?;
        if tuple.pairs.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        Ok(self.tuples.publish(tuples.iter().filter(|tuple| tuple.shape != shape).cloned().collect())?)
    }
}
