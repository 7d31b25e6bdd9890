// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is counted: what rules decide, what they may still accept, and the connections of sources.
//!
//! Connections outlast rules. So a rule has a *slot*, which its connections name; a rule of another file that is the same has the same slot. To put other rules in
//! place takes time for the rules, and none for the connections.

use std::collections::HashMap;

use super::hits::Hits;
use super::mirror::Told;
use super::rates::network;
use super::sides::Source;
use crate::policy::{Limit, Policy};

/// The slot of the default.
pub(super) const DEFAULT: u32 = 0;

/// What a rule has decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that it was the first to match; of connections, the first packet.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the last one came, in nanoseconds; 0 if none has.
    pub last_ns: u64,
    /// Connections that it has accepted and that have not ended.
    pub connections: u64,
}

/// What is kept of a rule, or of one that is gone and whose connections are not.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    counts: Counts,
    /// The rule's number, if it is in place.
    rule: Option<u32>,
    limit: Option<Limit>,
    /// Connections that it may accept now.
    tokens: f64,
    /// When that was.
    filled_ns: u64,
}

impl Slot {
    /// For a rule that begins.
    fn new(rule: u32, limit: Option<Limit>) -> Slot {
        let tokens = limit.map_or(0.0, |limit| f64::from(limit.burst));
        Slot { rule: Some(rule), limit, tokens, ..Slot::default() }
    }
}

#[derive(Debug)]
pub(super) struct Book {
    /// The first one is the default's.
    slots: Vec<Slot>,
    /// The slot of each rule.
    of_rule: Vec<u32>,
    /// Connections by slot, and by source or network. Each has one at least, so there are no more than twice the connections.
    sources: HashMap<(u32, Source, bool), u32>,
    /// What is to be reported to a peer.
    pub(super) told: Option<Told>,
}

impl Book {
    pub(super) fn new(policy: &Policy) -> Book {
        let mut book =
            Book { slots: vec![Slot::default()], of_rule: Vec::new(), sources: HashMap::new(), told: None };
        book.replace(policy, &[]);
        book
    }

    /// For each rule what it has decided, and for the default at the end.
    pub(super) fn counts(&self) -> Vec<Counts> {
        let slots = self.of_rule.iter().chain([&DEFAULT]);
        slots.map(|slot| self.slots[*slot as usize].counts).collect()
    }

    /// Takes other rules. `moved` says for each old one which new one it is.
    pub(super) fn replace(&mut self, new: &Policy, moved: &[Option<u32>]) {
        self.slots.iter_mut().for_each(|slot| slot.rule = None);
        let mut of_rule: Vec<Option<u32>> = vec![None; new.rules.len()];
        for (old, new) in moved.iter().enumerate() {
            if let Some(new) = new {
                of_rule[*new as usize] = Some(self.of_rule[old]);
            }
        }
        for (number, slot) in of_rule.iter().enumerate() {
            let Some(at) = *slot else { continue };
            let slot = &mut self.slots[at as usize];
            let limit = new.rules[number].limit;
            if slot.limit != limit {
                *slot = Slot { counts: slot.counts, ..Slot::new(0, limit) };
            }
            slot.rule = Some(number as u32);
        }
        let is_free = |(_, slot): &(usize, &Slot)| slot.rule.is_none() && slot.counts.connections == 0;
        let mut free: Vec<usize> =
            self.slots.iter().enumerate().skip(1).filter(is_free).map(|(at, _)| at).collect();
        self.of_rule = of_rule
            .iter()
            .enumerate()
            .map(|(number, slot)| {
                slot.unwrap_or_else(|| {
                    let slot = Slot::new(number as u32, new.rules[number].limit);
                    let at = free.pop().unwrap_or(self.slots.len());
                    match self.slots.get_mut(at) {
                        Some(place) => *place = slot,
                        None => self.slots.push(slot),
                    }
                    at as u32
                })
            })
            .collect();
    }

    /// The slot of a rule, or of the default.
    #[inline]
    pub(super) fn slot(&self, rule: Option<u32>) -> u32 {
        rule.map_or(DEFAULT, |rule| self.of_rule[rule as usize])
    }

    /// The rule of a slot, if it is in place.
    #[inline]
    pub(super) fn rule(&self, slot: u32) -> Option<u32> {
        self.slots[slot as usize].rule
    }

    /// How many slots there are.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Whether a rule has a limit, so that to ask for it changes something.
    #[inline]
    pub(super) fn is_limited(&self, rule: u32) -> bool {
        self.slots[self.slot(Some(rule)) as usize].limit.is_some()
    }

    /// Takes over what a worker has counted.
    pub(super) fn collect(&mut self, hits: &mut Hits) {
        for (slot, (packets, bytes, last_ns)) in self.slots.iter_mut().zip(hits.take()) {
            let counts = &mut slot.counts;
            counts.packets += packets;
            counts.bytes += bytes;
            counts.last_ns = counts.last_ns.max(last_ns);
        }
    }

    pub(super) fn count(&mut self, rule: Option<u32>, length: u32, now_ns: u64) {
        let slot = self.slot(rule);
        let counts = &mut self.slots[slot as usize].counts;
        counts.packets += 1;
        counts.bytes += u64::from(length);
        counts.last_ns = now_ns;
    }

    /// Whether a rule's limit is reached.
    pub(super) fn is_exhausted(&mut self, rule: u32, now_ns: u64) -> bool {
        let slot = self.slot(Some(rule));
        let slot = &mut self.slots[slot as usize];
        let Some(limit) = slot.limit else { return false };
        let passed = now_ns.saturating_sub(slot.filled_ns) as f64 / 1e9;
        slot.tokens = (slot.tokens + passed * limit.rate).min(f64::from(limit.burst));
        slot.filled_ns = now_ns;
        slot.tokens < 1.0
    }

    /// A rule has decided.
    pub(super) fn spend(&mut self, rule: Option<u32>) {
        let slot = self.slot(rule);
        let slot = &mut self.slots[slot as usize];
        if slot.limit.is_some() {
            slot.tokens -= 1.0;
        }
    }

    /// Whether a source, or its network, has as many connections as a rule allows.
    pub(super) fn has_too_many(&self, rule: u32, source: Source, policy: &Policy) -> bool {
        let (slot, limits) = (self.slot(Some(rule)), &policy.rules[rule as usize]);
        let reaches = |most: Option<u32>, (address, is_network)| {
            most.is_some_and(|most| {
                self.sources.get(&(slot, address, is_network)).is_some_and(|has| *has >= most)
            })
        };
        let [own, network] = kinds(source);
        reaches(limits.per_source, own) || reaches(limits.per_network, network)
    }

    /// A connection begins. Its source's are counted if `counts_source`.
    pub(super) fn began(&mut self, slot: u32, source: Source, counts_source: bool) {
        self.slots[slot as usize].counts.connections += 1;
        if counts_source {
            for (address, is_network) in kinds(source) {
                *self.sources.entry((slot, address, is_network)).or_default() += 1;
            }
        }
    }

    /// It ends.
    pub(super) fn ended(&mut self, slot: u32, source: Source, counts_source: bool) {
        self.slots[slot as usize].counts.connections -= 1;
        if counts_source {
            self.left(slot, source);
        }
    }

    /// A connection does not count as one of its source any more.
    pub(super) fn left(&mut self, slot: u32, source: Source) {
        for (address, is_network) in kinds(source) {
            let key = (slot, address, is_network);
            if let Some(has) = self.sources.get_mut(&key) {
                *has -= 1;
                if *has == 0 {
                    self.sources.remove(&key);
                }
            }
        }
    }
}

/// A source as an address and as a network.
pub(super) fn kinds(source: Source) -> [(Source, bool); 2] {
    [(source, false), (Source { address: network(source.address), ..source }, true)]
}
