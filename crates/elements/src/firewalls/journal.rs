// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last events that rules with `log` have seen.
//!
//! They are kept as they are and become text when somebody reads them, so a worker neither writes nor formats.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::IpAddr;

use element::clock::{Nanos, SECOND};
use firewall::policy::Action;
use firewall::{Decision, Ruleset, Seen, Verdict};

/// Events that are kept.
const KEPT: usize = 1024;
/// Events that are taken in a second, and at once.
const RATE: u64 = 1000;

/// What happened.
#[derive(Clone, Copy, Debug)]
struct Event {
    number: u64,
    /// Nanoseconds since the epoch.
    wall: Nanos,
    rule: Option<u32>,
    action: Action,
    seen: Seen,
}

/// The events.
#[derive(Debug, Default)]
pub(super) struct Journal {
    kept: VecDeque<Event>,
    /// The number of the next event.
    next: u64,
    /// The second in which events were taken last, and how many of it.
    second: u64,
    taken: u64,
    /// Events that were too many for their second.
    missed: u64,
}

impl Journal {
    /// Notes a decision on a packet between two zones.
    #[cold]
    pub(super) fn note(&mut self, wall: Nanos, decision: &Decision, ip: &[u8], [from, to]: [u8; 2]) {
        let Ok(seen) = Seen::of(ip, from, to) else { return };
        if self.second != wall / SECOND {
            (self.second, self.taken) = (wall / SECOND, 0);
        }
        if self.taken == RATE {
            self.missed += 1;
            return;
        }
        self.taken += 1;
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        let action = match decision.verdict {
            Verdict::Pass => Action::Accept,
            Verdict::Drop(_) => Action::Drop,
            Verdict::Reject(answer) => Action::Reject(answer),
        };
        self.kept.push_back(Event { number: self.next, wall, rule: decision.rule, action, seen });
        self.next += 1;
    }

    /// Forgets which rules events belong to: there are others now.
    pub(super) fn forget_rules(&mut self) {
        self.kept.iter_mut().for_each(|event| event.rule = None);
    }

    /// What is there from an event on. The first line is the number of the next event, how many were not taken, and how many are gone.
    pub(super) fn text(&self, from: u64, ruleset: &Ruleset) -> String {
        let first = self.kept.front().map_or(self.next, |event| event.number);
        let mut text = format!("{} {} {}\n", self.next, self.missed, first.saturating_sub(from));
        for event in self.kept.iter().filter(|event| event.number >= from) {
            let (facts, policy) = (&event.seen.facts, &ruleset.policy);
            let zone = |zone: u8| policy.zones.get(usize::from(zone)).map_or("-", |zone| &zone.name);
            let rule = event.rule.and_then(|rule| policy.rules.get(rule as usize));
            let line = rule.map_or_else(|| "-".to_owned(), |rule| rule.line.to_string());
            let words = rule.and_then(|rule| rule.log.as_deref()).unwrap_or_default();
            let [source, destination] = ends(&event.seen);
            let _ = writeln!(
                text,
                "{} {}.{:09} {} {line} {} {} {} {} {source} {destination} {words}",
                event.number,
                event.wall / SECOND,
                event.wall % SECOND,
                event.action.to_string().replace(' ', "-"),
                zone(facts.from),
                zone(facts.to),
                firewall::protocol_name(facts.protocol),
                event.seen.length,
            );
        }
        text
    }
}

/// Source and destination, with ports where there are some, with the type of ICMP at the destination.
fn ends(seen: &Seen) -> [String; 2] {
    let facts = &seen.facts;
    let with = |address: IpAddr, port: u16| match address {
        IpAddr::V4(address) => format!("{address}:{port}"),
        IpAddr::V6(address) => format!("[{address}]:{port}"),
    };
    match (facts.ports, facts.icmp) {
        (Some([source, destination]), _) => {
            [with(facts.source, source), with(facts.destination, destination)]
        }
        (_, Some([kind, code])) => [facts.source.to_string(), format!("{}#{kind}/{code}", facts.destination)],
        _ => [facts.source.to_string(), facts.destination.to_string()],
    }
}
