// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is counted: what rules decide, what they may still accept, and the connections of sources.

use std::collections::HashMap;
use std::net::IpAddr;

use super::{Entry, NO_RULE};
use crate::policy::Policy;

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

/// What a rule may still accept.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    last_ns: u64,
}

#[derive(Debug)]
pub(super) struct Book {
    /// One for each rule, and one for the default.
    counts: Vec<Counts>,
    /// One for each rule; without a limit it stays as it is.
    buckets: Vec<Bucket>,
    limits: Vec<Option<crate::policy::Limit>>,
    /// Connections by rule and source.
    sources: HashMap<(u32, IpAddr), u32>,
}

fn buckets(policy: &Policy) -> Vec<Bucket> {
    let full = |rule: &crate::policy::Rule| rule.limit.map_or(0.0, |limit| f64::from(limit.burst));
    policy.rules.iter().map(|rule| Bucket { tokens: full(rule), last_ns: 0 }).collect()
}

impl Book {
    pub(super) fn new(policy: &Policy) -> Book {
        Book {
            counts: vec![Counts::default(); policy.rules.len() + 1],
            buckets: buckets(policy),
            limits: policy.rules.iter().map(|rule| rule.limit).collect(),
            sources: HashMap::new(),
        }
    }

    pub(super) fn counts(&self) -> &[Counts] {
        &self.counts
    }

    /// Takes other rules. Connections are to be told to [`Book::began`] again.
    pub(super) fn replace(&mut self, new: &Policy, moved: &[Option<u32>]) {
        let mut other = Book::new(new);
        for (old, new) in moved.iter().enumerate() {
            if let Some(new) = new {
                let counts = &mut other.counts[*new as usize];
                *counts = Counts { connections: 0, ..self.counts[old] };
                if self.limits[old] == other.limits[*new as usize] {
                    other.buckets[*new as usize] = self.buckets[old];
                }
            }
        }
        if let (Some(default), Some(old)) = (other.counts.last_mut(), self.counts.last()) {
            *default = Counts { connections: 0, ..*old };
        }
        *self = other;
    }

    fn place(&self, rule: Option<u32>) -> usize {
        rule.map_or(self.counts.len() - 1, |rule| rule as usize)
    }

    pub(super) fn count(&mut self, rule: Option<u32>, length: u32, now_ns: u64) {
        let at = self.place(rule);
        let counts = &mut self.counts[at];
        counts.packets += 1;
        counts.bytes += u64::from(length);
        counts.last_ns = now_ns;
    }

    /// Whether a rule's limit is reached.
    pub(super) fn is_exhausted(&mut self, rule: u32, now_ns: u64) -> bool {
        let at = rule as usize;
        let Some(limit) = self.limits[at] else { return false };
        let bucket = &mut self.buckets[at];
        let passed = now_ns.saturating_sub(bucket.last_ns) as f64 / 1e9;
        bucket.tokens = (bucket.tokens + passed * limit.rate).min(f64::from(limit.burst));
        bucket.last_ns = now_ns;
        bucket.tokens < 1.0
    }

    /// A rule has decided.
    pub(super) fn spend(&mut self, rule: u32) {
        let at = rule as usize;
        if self.limits[at].is_some() {
            self.buckets[at].tokens -= 1.0;
        }
    }

    /// Whether a source has as many connections as a rule allows.
    pub(super) fn has_too_many(&self, rule: u32, source: IpAddr, policy: &Policy) -> bool {
        let most = policy.rules[rule as usize].per_source;
        most.is_some_and(|most| self.sources.get(&(rule, source)).is_some_and(|has| *has >= most))
    }

    pub(super) fn began(&mut self, entry: &mut Entry, source: IpAddr, policy: &Policy) {
        let rule = (entry.rule != NO_RULE).then_some(entry.rule);
        let at = self.place(rule);
        self.counts[at].connections += 1;
        entry.is_counted = rule.is_some_and(|rule| policy.rules[rule as usize].per_source.is_some());
        if entry.is_counted {
            *self.sources.entry((entry.rule, source)).or_default() += 1;
        }
    }

    pub(super) fn ended(&mut self, entry: &Entry, source: IpAddr) {
        let at = self.place((entry.rule != NO_RULE).then_some(entry.rule));
        self.counts[at].connections = self.counts[at].connections.saturating_sub(1);
        if entry.is_counted
            && let Some(has) = self.sources.get_mut(&(entry.rule, source))
        {
            *has -= 1;
            if *has == 0 {
                self.sources.remove(&(entry.rule, source));
            }
        }
    }
}
