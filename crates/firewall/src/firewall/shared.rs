// SPDX-License-Identifier: MIT OR Apache-2.0
//! What several workers do at the same time, each with a shared reference.
//!
//! A packet passes here if its connection stays in its state. It changes no more than this:
//!
//! 1. The numbers of TCP. The connection has a lock for them alone ([`Tcp::pass`](crate::track::Tcp::pass)).
//! 2. The time at which the connection ends. Any worker may store it, and no exact value matters.
//! 3. Counters. Each direction of a connection has its own, and so has each worker ([`Hits`]).
//!
//! So does a packet that a rule drops or rejects, or that a stateless rule accepts. For all others [`Firewall::decide_shared`] returns `None`, and has
//! changed nothing: they are for [`Firewall::judge_ahead`], after the others of the batch.
//!
//! The order within a connection is kept: once one of its packets has been put off, those behind it are, too ([`PutOff`]). So the decisions are those of
//! [`Firewall::judge_ahead`] for the packets in turn, unless the table is full: then a packet that was put off may end another connection, whose packets of the same batch
//! have passed before.

use tables::flow::{Direction, Flow, FlowId, FlowTable, Hit};

use super::related::Service;
use super::{
    Addresses, Ahead, Cause, Decision, Entry, Firewall, Hits, Prepared, Side, Track, quoted_flow, verdict,
};
use crate::policy::{Action, SELF};
use crate::seen::{Part, Quoted, Seen, Unjudged};
use crate::track::{Fault, State, Tcp, timeout};

/// What packets of a batch have been put off: connections, as a set that may hold others, too; and packets without one.
#[derive(Clone, Copy, Debug, Default)]
pub struct PutOff {
    known: u64,
    unknown: bool,
}

impl PutOff {
    #[inline(always)]
    fn bit<K: Addresses>(id: FlowId) -> u64 {
        1 << (FlowTable::<Entry, K>::number(id) % 64)
    }
}

/// What one look needs.
struct Look<'a> {
    now_ns: u64,
    seen: &'a Seen,
    hits: &'a Hits,
    put_off: &'a mut PutOff,
}

impl Firewall {
    /// Whether a connection may have to end, or another number of connections is coming: then [`reap`](Self::reap) has something to do.
    #[inline]
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.four.table.next_bound().min(self.six.table.next_bound()) <= now_ns || self.is_resizing()
    }

    /// Decides as [`judge_ahead`](Self::judge_ahead) does, if that changes nothing that others look at. Only the worker of `hits` counts in them.
    #[inline]
    pub fn decide_shared(
        &self,
        now_ns: u64,
        ahead: &Ahead,
        hits: &Hits,
        put_off: &mut PutOff,
    ) -> Option<Decision> {
        let seen = match &ahead.seen {
            Ok(seen) => seen,
            Err(Unjudged::Malformed) => return Some(Decision::dropped(Cause::Malformed)),
            // What has become of its first one may be decided in this batch.
            Err(Unjudged::Later(_)) => return None,
        };
        let mut look = Look { now_ns, seen, hits, put_off };
        match (&ahead.key, seen.facts.source.is_ipv4()) {
            (Prepared::Four(key), _) => self.decide_with(&self.four, &mut look, key),
            (Prepared::Six(key), _) => self.decide_with(&self.six, &mut look, key),
            (Prepared::None, true) => self.lone_shared(&self.four, &mut look),
            (Prepared::None, false) => self.lone_shared(&self.six, &mut look),
        }
    }

    #[inline]
    fn decide_with<K: Addresses>(
        &self,
        side: &Side<K>,
        look: &mut Look<'_>,
        key: &tables::flow::Prepared<K>,
    ) -> Option<Decision> {
        let Some(hit) = side.table.lookup_prepared(key) else {
            let decision = self.unknown_shared(look);
            look.put_off.unknown |= decision.is_none();
            return decision;
        };
        let bit = PutOff::bit::<K>(hit.id);
        let decision = if look.put_off.known & bit != 0 { None } else { self.known_shared(side, look, hit) };
        if decision.is_none() {
            look.put_off.known |= bit;
        }
        decision
    }

    /// A packet of a connection.
    #[inline]
    fn known_shared<K: Addresses>(&self, side: &Side<K>, look: &Look<'_>, hit: Hit) -> Option<Decision> {
        let (seen, way) = (look.seen, usize::from(hit.direction == Direction::Reply));
        let Flow { expires_ns, value: entry, .. } = side.table.flow(hit.id)?;
        // The first fragment of a packet is remembered, and texts that announce connections are read.
        let is_plain = seen.fragment.is_none() && entry.proxy.is_none() && !self.may_announce(seen);
        let idle = timeout(&self.ruleset.policy.timeouts, seen.facts.protocol, entry.track.state());
        if !is_plain
            || expires_ns <= look.now_ns
            || !FlowTable::<Entry, K>::extends(expires_ns, look.now_ns, idle)
        {
            return None;
        }
        let taken = match (&entry.track, &seen.part) {
            (Track::Tcp(tcp), Part::Tcp(segment)) => tcp.pass(way, segment)?,
            // Two hosts that ask each other with the same identifier.
            (_, Part::Query(..)) if way == 1 => Err(Fault::Flags),
            (_, Part::Answer(..)) if way == 0 => Err(Fault::Flags),
            (Track::Other(state), _) if way == 0 || *state == State::Open => Ok(()),
            _ => return None,
        };
        match taken {
            Ok(()) => {}
            Err(Fault::Window) => return Some(Decision::dropped(Cause::Window)),
            Err(_) => return Some(Decision::dropped(Cause::NoConnection)),
        }
        side.table.extend(hit.id, expires_ns, look.now_ns, idle);
        side.count(hit.id, way, seen.length);
        Some(Decision::known(self.book.rule(entry.slot), false))
    }

    /// Whether a packet may be one that the firewall reads.
    #[inline]
    fn may_announce(&self, seen: &Seen) -> bool {
        let algs = self.ruleset.policy.algs;
        seen.facts.ports.is_some_and(|ports| Service::of(algs, seen.facts.protocol, ports).is_some())
    }

    /// A packet that has no connection of its own.
    fn lone_shared<K: Addresses>(&self, side: &Side<K>, look: &mut Look<'_>) -> Option<Decision> {
        let decision = match &look.seen.part {
            _ if look.seen.fragment.is_some() => None,
            Part::Error(quoted) => self.error_shared(side, look, quoted),
            _ => self.alone_shared(look),
        };
        look.put_off.unknown |= decision.is_none();
        decision
    }

    /// An ICMP error passes with the connection of the packet that it is about.
    fn error_shared<K: Addresses>(
        &self,
        side: &Side<K>,
        look: &Look<'_>,
        quoted: &Quoted,
    ) -> Option<Decision> {
        let Some((hit, flow)) = quoted_flow(&side.table, look.seen, quoted, look.now_ns) else {
            return self.alone_shared(look);
        };
        let entry = flow.value;
        if entry.proxy.is_some() || look.put_off.known & PutOff::bit::<K>(hit.id) != 0 {
            return None;
        }
        if let (Track::Tcp(tcp), Some(sequence)) = (&entry.track, quoted.sequence)
            && !tcp.try_has_sent(usize::from(hit.direction == Direction::Reply), sequence)?
        {
            return Some(Decision::dropped(Cause::Window));
        }
        Some(Decision::known(self.book.rule(entry.slot), false))
    }

    /// A packet that neither belongs to a connection nor begins one.
    fn alone_shared(&self, look: &Look<'_>) -> Option<Decision> {
        let (rule, action) = self.ask_shared(look)?;
        self.count_shared(look, rule);
        Some(Decision { verdict: verdict(action), rule, ..Decision::stray() })
    }

    /// A packet of an address pair and ports that no connection has.
    fn unknown_shared(&self, look: &Look<'_>) -> Option<Decision> {
        let seen = look.seen;
        let begins = match &seen.part {
            Part::Tcp(segment) => Tcp::new(segment).is_ok(),
            part => !matches!(part, Part::Answer(..)),
        };
        let is_awaited = begins && self.related.find(look.now_ns, &seen.facts).is_some();
        if seen.fragment.is_some() || is_awaited || self.flood.expects(look.now_ns) {
            return None;
        }
        let (rule, action) = self.ask_shared(look)?;
        let is_stateless = rule.is_some_and(|rule| self.ruleset.policy.rules[rule as usize].is_stateless);
        if action == Action::Accept && !is_stateless {
            if begins {
                return None;
            }
            // It would pass as part of a connection only. The router knows its own.
            if seen.facts.from != SELF {
                return Some(Decision::dropped(Cause::NoConnection));
            }
        }
        self.count_shared(look, rule);
        Some(Decision { verdict: verdict(action), rule, ..Decision::stray() })
    }

    /// The rule that holds for a packet without a connection, if no other one is put off, and to ask and to note it changes nothing.
    fn ask_shared(&self, look: &Look<'_>) -> Option<(Option<u32>, Action)> {
        if look.put_off.unknown {
            return None;
        }
        let (facts, mut is_limited) = (&look.seen.facts, false);
        let rule = self.ruleset.first(&self.sets, facts, look.now_ns, |rule| {
            is_limited |= self.book.is_limited(rule);
            false
        });
        let policy = &self.ruleset.policy;
        let is_noted = match rule {
            Some(rule) => {
                let rule = &policy.rules[rule as usize];
                rule.log.is_some() || rule.is_proxied
            }
            None => policy.log_default,
        };
        (!is_limited && !is_noted).then(|| (rule, self.ruleset.action(rule, facts.from)))
    }

    #[inline]
    fn count_shared(&self, look: &Look<'_>, rule: Option<u32>) {
        look.hits.count(self.book.slot(rule), look.seen.length, look.now_ns);
    }
}
