// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last events that rules with `log` have seen.
//!
//! They are kept as they are and become text when somebody reads them, so a worker neither writes nor formats.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use element::clock::{Nanos, SECOND};
use firewall::policy::{Action, Rule};
use firewall::{Decision, Ruleset, Seen, Verdict};

/// Events that are kept.
const KEPT: usize = 1024;
/// Events that are taken in a second, and at once.
const RATE: u64 = 1000;
/// Events in one answer that has packets: it stays below the MiB that a client may always have.
const LISTED: usize = 256;

/// What happened.
#[derive(Clone, Debug)]
struct Event {
    number: u64,
    /// Nanoseconds since the epoch.
    wall: Nanos,
    rule: Option<u32>,
    /// The rule was one of a file that others have replaced.
    is_replaced: bool,
    action: Action,
    /// Another connection announced the one that it begins.
    is_related: bool,
    seen: Seen,
    /// The link by which the packet came, and the one by which it would go.
    links: [Arc<str>; 2],
    /// Bytes of the packet that are kept.
    head: u16,
}

/// The events.
#[derive(Debug, Default)]
pub(super) struct Journal {
    kept: VecDeque<Event>,
    /// Bytes of each packet that are kept at most.
    head_bytes: usize,
    /// The first bytes of packets, those of an event at its number modulo [`KEPT`]. They have room from the first event on.
    heads: Vec<u8>,
    /// The number of the next event.
    next: u64,
    /// The second in which events were taken last, and how many of it.
    second: u64,
    taken: u64,
    /// Events that were too many for their second.
    missed: u64,
}

impl Journal {
    /// A journal that keeps the first `head_bytes` of each packet.
    pub(super) fn new(head_bytes: u16) -> Journal {
        Journal { head_bytes: usize::from(head_bytes), ..Journal::default() }
    }

    /// Notes a decision on a packet between two zones, and the links by which the packet came and would go.
    #[cold]
    pub(super) fn note(
        &mut self,
        wall: Nanos,
        decision: &Decision,
        ip: &[u8],
        [from, to]: [u8; 2],
        links: impl FnOnce() -> [Arc<str>; 2],
    ) {
        let Ok(seen) = Seen::of(ip, from, to) else { return };
        if self.second != wall / SECOND {
            (self.second, self.taken) = (wall / SECOND, 0);
        }
        if self.taken == RATE {
            self.missed += 1;
            return;
        }
        self.taken += 1;
        match self.kept.len() {
            KEPT => _ = self.kept.pop_front(),
            0 => self.make_room(),
            _ => {}
        }
        let action = match decision.verdict {
            Verdict::Pass | Verdict::Answered => Action::Accept,
            Verdict::Drop(_) => Action::Drop,
            Verdict::Reject(answer) => Action::Reject(answer),
        };
        // What follows the packet in its frame is no part of it.
        let head = ip.len().min(seen.length as usize).min(self.head_bytes);
        let place = self.place(self.next);
        self.heads[place..place + head].copy_from_slice(&ip[..head]);
        self.kept.push_back(Event {
            number: self.next,
            wall,
            rule: decision.rule,
            is_replaced: false,
            action,
            is_related: decision.is_related,
            seen,
            links: links(),
            head: head as u16,
        });
        self.next += 1;
    }

    /// Makes room for all events there may be. A router without rules that log needs none.
    fn make_room(&mut self) {
        self.kept.reserve_exact(KEPT);
        self.heads.resize(KEPT * self.head_bytes, 0);
    }

    /// Where the head of this event's packet begins.
    fn place(&self, number: u64) -> usize {
        (number % KEPT as u64) as usize * self.head_bytes
    }

    /// The first bytes of an event's packet.
    fn head(&self, event: &Event) -> &[u8] {
        let place = self.place(event.number);
        &self.heads[place..place + usize::from(event.head)]
    }

    /// Goes on with the events of another journal, and keeps as many bytes of packets as this one did.
    pub(super) fn adopt(&mut self, other: &mut Journal) {
        let mut mine = Journal::new(self.head_bytes as u16);
        if mine.head_bytes == other.head_bytes {
            *self = std::mem::take(other);
            return;
        }
        let all = std::mem::take(&mut other.kept);
        if !all.is_empty() {
            mine.make_room();
        }
        for mut event in all {
            event.head = event.head.min(mine.head_bytes as u16);
            let place = mine.place(event.number);
            let head = other.head(&event);
            mine.heads[place..place + head.len()].copy_from_slice(head);
            mine.kept.push_back(event);
        }
        (mine.next, mine.second) = (other.next, other.second);
        (mine.taken, mine.missed) = (other.taken, other.missed);
        *self = mine;
    }

    /// Forgets which rules events belong to: there are others now.
    pub(super) fn forget_rules(&mut self) {
        for event in &mut self.kept {
            event.is_replaced |= event.rule.take().is_some();
        }
    }

    /// Some events from a number on, with the first bytes of their packets.
    pub(super) fn logged(&self, from: u64) -> Logged {
        let first = self.kept.front().map_or(self.next, |event| event.number);
        let skipped = from.saturating_sub(first).min(KEPT as u64) as usize;
        let events = self.kept.iter().skip(skipped).take(LISTED);
        let events: Vec<_> = events.map(|event| (event.clone(), self.head(event).to_vec())).collect();
        Logged {
            next: events.last().map_or(self.next, |(event, _)| event.number + 1),
            missed: self.missed,
            end: self.next,
            gone: first.saturating_sub(from),
            events,
        }
    }

    /// What is there from an event on. The first line is the number of the next event, how many were not taken, and how many are gone.
    pub(super) fn text(&self, from: u64, ruleset: &Ruleset) -> String {
        let first = self.kept.front().map_or(self.next, |event| event.number);
        let mut text = format!("{} {} {}\n", self.next, self.missed, first.saturating_sub(from));
        for event in self.kept.iter().filter(|event| event.number >= from) {
            let (facts, policy) = (&event.seen.facts, &ruleset.policy);
            let zone = |zone: u8| policy.zones.get(usize::from(zone)).map_or("-", |zone| &zone.name);
            let rule = event.rule(ruleset);
            let line = rule.map_or_else(|| "-".to_owned(), |rule| rule.line.to_string());
            let words = rule.and_then(|rule| rule.log.as_deref()).unwrap_or_default();
            let [source, destination] = ends(&event.seen);
            let _ = writeln!(
                text,
                "{} {line} {} {} {} {} {source} {destination} {words}",
                event.beginning(),
                zone(facts.from),
                zone(facts.to),
                firewall::protocol_name(facts.protocol),
                event.seen.length,
            );
        }
        text
    }
}

impl Event {
    /// Its rule, if it is one of these.
    fn rule<'a>(&self, ruleset: &'a Ruleset) -> Option<&'a Rule> {
        self.rule.and_then(|rule| ruleset.policy.rules.get(rule as usize))
    }

    /// With what its line begins: number, time, action.
    fn beginning(&self) -> String {
        let action = self.action.to_string().replace(' ', "-");
        let related = if self.is_related { "-related" } else { "" };
        format!("{} {}.{:09} {action}{related}", self.number, self.wall / SECOND, self.wall % SECOND)
    }
}

/// Events that have been taken out of a journal, to become text while it goes on.
#[derive(Debug)]
pub(super) struct Logged {
    /// The number of the event after these.
    next: u64,
    missed: u64,
    /// The number of the next event of the journal.
    end: u64,
    gone: u64,
    events: Vec<(Event, Vec<u8>)>,
}

impl Logged {
    /// The first line: the event with which to go on, how many were not taken, the journal's next event, and how many are gone.
    pub(super) fn text(&self, ruleset: &Ruleset) -> String {
        let mut text = format!("{} {} {} {}\n", self.next, self.missed, self.end, self.gone);
        for (event, head) in &self.events {
            let rule = event.rule(ruleset);
            let line = match rule {
                Some(rule) => rule.line.to_string(),
                None => (if event.is_replaced { "replaced" } else { "-" }).to_owned(),
            };
            let words = rule.and_then(|rule| rule.log.as_deref()).unwrap_or_default();
            let head = if head.is_empty() { "-".to_owned() } else { wire::fields::hex(head) };
            let ([came, goes], length) = (&event.links, event.seen.length);
            let _ = writeln!(text, "{} {line} {came} {goes} {length} {head} {words}", event.beginning());
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A journal with so many events; the packet of each has its number as its identification and is 100 bytes long.
    fn journal(head_bytes: u16, events: u16) -> Journal {
        let mut journal = Journal::new(head_bytes);
        for n in 0..events {
            note(&mut journal, n);
        }
        journal
    }

    fn note(journal: &mut Journal, n: u16) {
        let headers = format!("ip 10.0.0.2 to 192.0.2.1 / udp {} to 53 / payload 72", n + 1);
        let mut ip = wire::compose::compose(&headers).unwrap().bytes;
        ip[4..6].copy_from_slice(&n.to_be_bytes());
        // The padding of a frame.
        ip.extend([0xee; 6]);
        let decision = Decision::stray();
        let links = || ["eth1".into(), "self".into()];
        // A second has room for some only.
        journal.note(u64::from(n) * SECOND, &decision, &ip, [0, 0], links);
    }

    /// Numbers, identifications and lengths of the heads of what is logged from an event on.
    fn heads(journal: &Journal, from: u64) -> Vec<(u64, u16, usize)> {
        let logged = journal.logged(from).events.into_iter();
        logged
            .map(|(event, head)| (event.number, u16::from_be_bytes([head[4], head[5]]), head.len()))
            .collect()
    }

    #[test]
    fn the_last_events_have_the_heads_of_their_packets() {
        for (bytes, events, from, first, count) in [
            (128, 3, 0, 0, 3),
            (64, 3, 2, 2, 1),
            (64, 3, 9, 3, 0),
            (20, 1500, 0, 476, LISTED as u64),
            (1024, 1500, 1300, 1300, 200),
        ] {
            let journal = journal(bytes, events);
            let head = usize::from(bytes).min(100);
            let want: Vec<_> = (first..first + count).map(|n| (n, n as u16, head)).collect();
            assert_eq!(heads(&journal, from), want, "{bytes} {events} {from}");
            let logged = journal.logged(from);
            let next = if count == 0 { u64::from(events) } else { first + count };
            assert_eq!((logged.next, logged.end), (next, u64::from(events)));
            assert_eq!(logged.gone, u64::from(events).saturating_sub(KEPT as u64).saturating_sub(from));
            assert_eq!(journal.heads.len(), KEPT * usize::from(bytes));
        }
    }

    #[test]
    fn what_is_not_needed_takes_no_room() {
        let empty = Journal::new(128);
        assert_eq!((empty.heads.capacity(), empty.kept.capacity()), (0, 0));
        let none = journal(0, 2);
        assert_eq!((none.heads.capacity(), none.logged(0).events[1].1.len()), (0, 0));
    }

    #[test]
    fn a_new_journal_goes_on_with_the_events_of_an_old_one() {
        for (old, new) in [(128, 128), (128, 30), (30, 128)] {
            for events in [0, 3, 1500] {
                let (mut old_journal, mut new_journal) = (journal(old, events), Journal::new(new));
                new_journal.adopt(&mut old_journal);
                note(&mut new_journal, events);
                let from = u64::from(events).saturating_sub(2);
                let want: Vec<_> = (from..u64::from(events))
                    .map(|n| (n, n as u16, usize::from(old.min(new)).min(100)))
                    .chain([(u64::from(events), events, usize::from(new).min(100))])
                    .collect();
                assert_eq!(heads(&new_journal, from), want, "{old} {new} {events}");
            }
        }
    }
}
