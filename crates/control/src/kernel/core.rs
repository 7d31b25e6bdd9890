// SPDX-License-Identifier: MIT OR Apache-2.0
//! What to ask the kernel, and what its answers and notifications mean.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::request::{ALL, Stage};
use crate::Change;
use crate::counters::Tally;
use crate::model::{RouteKind, RouteWay, Rule};
use crate::netlink::{self, DumpEnd, Error, Message, kind};
use feed::Destination;

/// The most bytes of notifications that are held back during a full report. More cause another one.
const HELD_BYTES_MAX: usize = 64 << 20;
/// How often an inconsistent dump is repeated at once.
const REPEATS_MAX: u32 = 3;
/// How long after an interface or an address the kernel has removed what depends on it.
const SETTLES: Duration = Duration::from_millis(100);
/// How long after a next-hop object its routes are looked at again. Daemons remove objects that no route names.
const SETTLES_LATER: Duration = Duration::from_secs(2);
/// How long after a failure a dump is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// A full report is followed by this many times its duration without another.
const PAUSES: u32 = 3;
/// Errors of kernels that do not know what is asked for: EOPNOTSUPP, EAFNOSUPPORT.
const UNKNOWN: [i32; 2] = [95, 97];
/// The protocol of routes that a router advertised (`RTPROT_RA`).
const ADVERTISED: u8 = 9;

/// A route's table, prefix and metric.
type Key = (u32, Destination, u32);

/// The state of the feed.
#[derive(Debug)]
pub struct Core {
    audit: Option<Duration>,
    sequence: u32,
    dump: Option<Dump>,
    /// When the next full report is due.
    due: Option<Duration>,
    rules_are_due: bool,
    /// No full report begins before.
    allowed: Duration,
    /// Interfaces, and whether they are up.
    links: HashMap<u32, bool>,
    /// Routes of which there may be several, or that have several hops which go one by one.
    several: HashSet<Key>,
    /// The newest malformed message that nobody has asked for yet.
    malformed: Option<Error>,
}

/// A dump that runs.
#[derive(Debug)]
struct Dump {
    stages: &'static [Stage],
    /// Whether it is a full report, or only of rules.
    is_full: bool,
    begun: Duration,
    is_interrupted: bool,
    repeats: u32,
    /// The route that came last.
    last: Option<Key>,
    rules: [Vec<Rule>; 2],
    /// Notifications that wait for the end.
    held: Vec<u8>,
}

impl Core {
    /// Begins with nothing known; a full report is due. `audit` is the longest time between two.
    #[must_use]
    pub fn new(audit: Option<Duration>) -> Core {
        Core {
            audit,
            sequence: 0,
            dump: None,
            due: Some(Duration::ZERO),
            rules_are_due: false,
            allowed: Duration::ZERO,
            links: HashMap::new(),
            several: HashSet::new(),
            malformed: None,
        }
    }

    /// The newest malformed message since the last call. The others around it were taken.
    pub fn take_malformed(&mut self) -> Option<Error> {
        self.malformed.take()
    }

    fn note(&mut self, error: Error, tally: &mut Tally) {
        tally.malformed += 1;
        self.malformed = Some(error);
    }

    /// When [`start`](Self::start) has something to do; `None` while a dump runs.
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        if self.dump.is_some() {
            return None;
        }
        let full = self.due.map(|due| due.max(self.allowed));
        if self.rules_are_due { Some(Duration::ZERO) } else { full }
    }

    /// Starts a dump if one is due; returns the request to be sent.
    pub fn start(&mut self, now: Duration, changes: &mut Vec<Change>, tally: &mut Tally) -> Option<Vec<u8>> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        let is_full = self.due.is_some_and(|due| due.max(self.allowed) <= now);
        if is_full {
            changes.push(Change::Begin);
            tally.reports += 1;
            self.due = None;
            self.links.clear();
            self.several.clear();
        }
        self.rules_are_due = false;
        let stages = if is_full { &ALL[..] } else { &[Stage::Rules] };
        let dump = Dump {
            stages,
            is_full,
            begun: now,
            is_interrupted: false,
            repeats: 0,
            last: None,
            rules: Default::default(),
            held: Vec::new(),
        };
        self.dump = Some(dump);
        self.ask()
    }

    /// The request for the stage that is to be dumped now.
    fn ask(&mut self) -> Option<Vec<u8>> {
        let dump = self.dump.as_mut()?;
        (dump.is_interrupted, dump.last) = (false, None);
        dump.rules = Default::default();
        self.sequence = self.sequence.wrapping_add(1);
        Some(dump.stages.first()?.request(self.sequence))
    }

    /// Calls for a full report after a while.
    fn call(&mut self, at: Duration, tally: &mut Tally) {
        if self.due.is_none_or(|due| due > at) {
            self.due = Some(at);
            tally.resyncs += 1;
        }
    }

    /// The kernel lost notifications. Those that came before are to be thrown away until there are none left: a full report
    /// is newer than they are, and what they say may have been taken back by those that were lost.
    pub fn overrun(&mut self, now: Duration, tally: &mut Tally) {
        if let Some(dump) = &mut self.dump {
            dump.held = Vec::new();
        }
        self.call(now, tally);
    }

    /// The dump cannot go on. It begins anew after a while.
    pub fn failed(&mut self, now: Duration, tally: &mut Tally) {
        self.dump = None;
        self.call(now + RETRY, tally);
    }

    /// Takes what the kernel answers to a request; returns the next request, if there is one.
    ///
    /// # Errors
    /// The kernel refused the request, or its answer cannot be cut into messages. The dump is over; another will follow.
    pub fn answer(
        &mut self,
        bytes: &[u8],
        now: Duration,
        changes: &mut Vec<Change>,
        tally: &mut Tally,
    ) -> Result<Option<Vec<u8>>, Error> {
        for message in netlink::messages(bytes) {
            let message = match message {
                Ok(message) if message.sequence == self.sequence => message,
                // Of a request that was given up.
                Ok(_) => continue,
                Err(e) => {
                    self.failed(now, tally);
                    return Err(e);
                }
            };
            let Some(dump) = &mut self.dump else { break };
            dump.is_interrupted |= message.is_interrupted();
            match message.dump_end() {
                Some(DumpEnd::Failed(error)) if !UNKNOWN.contains(&error) => {
                    self.failed(now, tally);
                    return Err(Error {
                        at: message.at,
                        kind: message.kind,
                        what: "the kernel refused a dump",
                    });
                }
                Some(_) => return Ok(self.stage_ends(now, changes, tally)),
                None => {
                    if let Err(e) = self.entry(&message, changes, tally) {
                        self.note(e, tally);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Takes one entry of a dump.
    fn entry(
        &mut self,
        message: &Message<'_>,
        changes: &mut Vec<Change>,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        let Some(dump) = &mut self.dump else { return Ok(()) };
        if message.kind == kind::NEW_RULE {
            if let Some((is_six, rule)) = netlink::rule(message)? {
                dump.rules[usize::from(is_six)].push(rule);
            }
            return Ok(());
        }
        let before = changes.len();
        tally.count(netlink::decode(message, changes)?);
        match changes.get(before) {
            Some(Change::Route { table, prefix, route }) => {
                let key = (*table, *prefix, route.metric);
                let is_second = dump.last.replace(key) == Some(key);
                if is_second || matches!((prefix, &route.way), (Destination::V6(_), RouteWay::Many(_))) {
                    self.several.insert(key);
                }
                if is_second || is_everywhere(*prefix, route.kind) {
                    changes.pop();
                }
            }
            Some(Change::Link { index, link: Some(link) }) => {
                self.links.insert(*index, link.is_up);
            }
            _ => {}
        }
        Ok(())
    }

    /// A stage has ended: it is repeated, or the next begins, or the dump is over.
    fn stage_ends(&mut self, now: Duration, changes: &mut Vec<Change>, tally: &mut Tally) -> Option<Vec<u8>> {
        let dump = self.dump.as_mut()?;
        let mut is_inconsistent = false;
        if dump.is_interrupted {
            dump.repeats += 1;
            if dump.repeats <= REPEATS_MAX {
                return self.ask();
            }
            is_inconsistent = true;
        }
        if dump.stages.first() == Some(&Stage::Rules) {
            let [four, six] = std::mem::take(&mut dump.rules);
            changes.push(Change::Rules { is_six: false, rules: four });
            changes.push(Change::Rules { is_six: true, rules: six });
        }
        dump.stages = &dump.stages[1..];
        dump.repeats = 0;
        if is_inconsistent {
            self.call(now + RETRY, tally);
        }
        if let Some(request) = self.ask() {
            return Some(request);
        }
        let dump = self.dump.take()?;
        if dump.is_full {
            changes.push(Change::End);
            self.allowed = now + PAUSES * (now - dump.begun);
            // The next one is not called for by anything wrong, so it is no resync.
            if let (None, Some(audit)) = (self.due, self.audit) {
                self.due = Some(now + audit);
            }
        }
        self.notify(&dump.held, now, changes, tally);
        None
    }

    /// Takes notifications.
    pub fn notify(&mut self, bytes: &[u8], now: Duration, changes: &mut Vec<Change>, tally: &mut Tally) {
        if let Some(dump) = self.dump.as_mut().filter(|dump| dump.is_full) {
            if dump.held.len() + bytes.len() > HELD_BYTES_MAX {
                self.overrun(now, tally);
            } else {
                dump.held.extend(bytes);
                dump.held.resize(dump.held.len().next_multiple_of(4), 0);
            }
            return;
        }
        for message in netlink::messages(bytes) {
            let taken = message.and_then(|message| self.notification(&message, now, changes, tally));
            if let Err(e) = taken {
                self.note(e, tally);
            }
        }
    }

    fn notification(
        &mut self,
        message: &Message<'_>,
        now: Duration,
        changes: &mut Vec<Change>,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        match message.kind {
            kind::NEW_RULE | kind::DEL_RULE => {
                self.rules_are_due = true;
                return Ok(());
            }
            kind::OVERRUN => {
                self.overrun(now, tally);
                return Ok(());
            }
            _ => {}
        }
        let before = changes.len();
        tally.count(netlink::decode(message, changes)?);
        let Some(change) = changes.get(before) else { return Ok(()) };
        let is_kept = match change {
            Change::Link { index, link } => {
                let is_up = link.as_ref().map(|link| link.is_up);
                let was_up = match is_up {
                    Some(is_up) => self.links.insert(*index, is_up),
                    None => self.links.remove(index),
                };
                if was_up != is_up {
                    self.call(now + SETTLES, tally);
                }
                true
            }
            Change::Address { present: false, .. } => {
                self.call(now + SETTLES, tally);
                true
            }
            Change::DropObject { .. } => {
                self.call(now + SETTLES_LATER, tally);
                true
            }
            Change::Route { table, prefix, route } => {
                let key = (*table, *prefix, route.metric);
                let is_many = matches!((prefix, &route.way), (Destination::V6(_), RouteWay::Many(_)));
                let is_behind = message.appends() && matches!(prefix, Destination::V4(_));
                if is_many || is_behind {
                    self.several.insert(key);
                }
                !is_behind && !is_everywhere(*prefix, route.kind)
            }
            Change::Withdraw { table, prefix, metric } => {
                let key = (*table, *prefix, metric.unwrap_or(0));
                self.withdrawal_is_certain(key, message, now, tally)
            }
            _ => true,
        };
        if !is_kept {
            changes.truncate(before);
        }
        Ok(())
    }

    /// Whether nothing of a route is left after this withdrawal. If it is not sure, a full report will tell.
    fn withdrawal_is_certain(
        &mut self,
        key: Key,
        message: &Message<'_>,
        now: Duration,
        tally: &mut Tally,
    ) -> bool {
        let is_six = matches!(key.1, Destination::V6(_));
        let is_link_local = is_everywhere(key.1, RouteKind::Unicast);
        if is_link_local || (is_six && is_everywhere(key.1, RouteKind::Multicast)) {
            return false;
        }
        let is_whole = is_six && netlink::names_hops(message);
        if is_whole {
            self.several.remove(&key);
            return true;
        }
        let is_uncertain =
            self.several.contains(&key) || (is_six && message.body.get(5) == Some(&ADVERTISED));
        if is_uncertain {
            self.call(now + SETTLES, tally);
        }
        !is_uncertain
    }
}

/// Whether every interface has the same route of IPv6: link-local, or to groups.
fn is_everywhere(prefix: Destination, kind: RouteKind) -> bool {
    match prefix {
        Destination::V4(_) | Destination::Label(_) => false,
        Destination::V6(prefix) => match kind {
            RouteKind::Unicast => prefix.addr().is_unicast_link_local() && prefix.len() >= 10,
            RouteKind::Multicast => prefix.addr().is_multicast(),
            _ => false,
        },
    }
}

#[cfg(test)]
mod tests;
