// SPDX-License-Identifier: MIT OR Apache-2.0
//! What workers share: a firewall, the zones of links, the journal.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use element::clock::{Nanos, SECOND};
use firewall::{
    AnnouncedCounts, Connection, Decision, Firewall, Moves, ProxyCounts, Ruleset, Service, Standing,
};
use packet::Packet;
use sync::lock::{AdaptiveGuard, AdaptiveLock};

use super::journal::Journal;

/// The name of the lock, for the profiler.
pub(crate) const CONNECTIONS: &str = "the connections";
/// Connections that are looked at while the lock is held.
const LISTED: usize = 128;
/// Records that are moved at a time, if there may be another number of connections.
const MOVED: usize = 256;
/// How many times so many a handler's answer lists.
const SLICES: usize = 32;

/// A link as the configuration names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) name: String,
    /// The paint of packets that came from there.
    pub(super) paint: u8,
}

/// That what was said is of no use any more.
pub(super) const REPLACED: &str = "the rules were replaced meanwhile: say it again";

/// No zone.
pub(super) const NOWHERE: u8 = u8::MAX;

/// A firewall between links.
#[derive(Debug)]
pub(crate) struct Judge {
    pub(crate) firewall: Firewall,
    pub(super) journal: Journal,
    /// The zones that inputs lead to: the router's own, then those of the links.
    pub(super) to: Vec<u8>,
    /// The zones by the paint of packets.
    pub(super) from: Box<[u8; 256]>,
    /// Whether another configuration goes on with its connections.
    is_gone: bool,
    /// Paints and names of links, for the journal: the router itself, then the others in the order of the inputs.
    names: Vec<(u8, Arc<str>)>,
}

pub(crate) type SharedJudge = Arc<AdaptiveLock<Judge>>;

/// The shared judge, for a moment.
pub(super) fn lock(judge: &SharedJudge) -> AdaptiveGuard<'_, Judge> {
    judge.lock()
}

/// Reads a rule file.
///
/// # Errors
/// What is wrong with it, a line each.
pub(super) fn ruleset(path: &str, links: &[Link]) -> Result<Arc<Ruleset>, String> {
    let reading = firewall::read_file(Path::new(path))?;
    let Some(policy) = reading.policy else {
        return Err(lang::render_short(&reading.diagnostics, &reading.sources).trim_end().to_owned());
    };
    for link in links {
        if !policy.zones.iter().any(|zone| zone.links.contains(&link.name)) {
            return Err(format!(
                "{path}: link '{0}' is in no zone: add it to one, as `zone NAME {0}`",
                link.name
            ));
        }
    }
    Ruleset::new(policy).map(Arc::new).map_err(|why| format!("{path}: {why}"))
}

impl Judge {
    /// A firewall that keeps the first `log_bytes` of packets that rules log.
    pub(super) fn new(ruleset: Arc<Ruleset>, links: &[Link], log_bytes: u16, seed: u64) -> Judge {
        let itself = (0, Arc::from("self"));
        let others = links.iter().map(|link| (link.paint, Arc::from(&*link.name)));
        let mut judge = Judge {
            firewall: Firewall::new(ruleset, seed),
            journal: Journal::new(log_bytes),
            to: Vec::new(),
            from: Box::new([NOWHERE; 256]),
            is_gone: false,
            names: std::iter::once(itself).chain(others).collect(),
        };
        judge.place(links);
        judge
    }

    /// Notes a decision on a packet that came to an input.
    pub(super) fn note(
        &mut self,
        wall: Nanos,
        decision: &Decision,
        packet: &Packet,
        port: usize,
        zones: [u8; 2],
    ) {
        let (ip, names) = (packet.network().unwrap_or_default(), &self.names);
        self.journal.note(wall, decision, ip, zones, || {
            let came = names.iter().find(|(paint, _)| *paint == packet.paint());
            let goes = &names[port % names.len()].1;
            [came.map_or_else(|| Arc::from("-"), |(_, name)| Arc::clone(name)), Arc::clone(goes)]
        });
    }

    /// Notes which zones the links are in.
    fn place(&mut self, links: &[Link]) {
        let zones = &self.firewall.ruleset().policy.zones;
        let zone = |link: &Link| {
            let found = zones.iter().position(|zone| zone.links.contains(&link.name));
            found.map_or(NOWHERE, |zone| zone as u8)
        };
        self.to = std::iter::once(firewall::policy::SELF).chain(links.iter().map(zone)).collect();
        *self.from = [NOWHERE; 256];
        self.from[0] = firewall::policy::SELF;
        for (link, zone) in links.iter().zip(&self.to[1..]) {
            self.from[usize::from(link.paint)] = *zone;
        }
    }

    /// Puts other rules in place. Returns the old ones, which take time to go.
    fn replace(&mut self, ruleset: Arc<Ruleset>, moves: Moves, links: &[Link]) -> Arc<Ruleset> {
        self.journal.forget_rules();
        let old = self.firewall.replace(ruleset, moves);
        self.place(links);
        old
    }

    /// Checks that what is said to this one counts: another configuration may have come while a handler worked.
    ///
    /// # Errors
    /// It has.
    pub(super) fn check_present(&self) -> Result<(), String> {
        match self.is_gone {
            true => Err("the configuration was replaced: say it again".to_owned()),
            false => Ok(()),
        }
    }

    /// Goes on with what another one knows, by its own rules.
    fn take(&mut self, other: &mut Judge, links: &[Link]) {
        other.is_gone = true;
        let mine = Arc::clone(self.firewall.ruleset());
        std::mem::swap(&mut self.firewall, &mut other.firewall);
        self.journal.adopt(&mut other.journal);
        let moves = Moves::new(self.firewall.ruleset(), &mine);
        self.replace(mine, moves, links);
    }

    /// A line for each protocol that announces connections: announced, started, refused.
    pub(super) fn algs(&self) -> String {
        let announced = self.firewall.announced().into_iter();
        let line = |(service, counts): (Service, AnnouncedCounts)| {
            format!("{} {} {} {}\n", service.name(), counts.announced, counts.begun, counts.refused)
        };
        announced.map(line).collect()
    }

    /// Whether the firewall answers SYNs, and what has become of those.
    pub(super) fn synproxy(&self, now: Nanos) -> String {
        let (is_on, counts) = self.firewall.synproxy(now);
        let ProxyCounts { sent, right, wrong, opened } = counts;
        format!("{} {sent} {right} {wrong} {opened}\n", if is_on { "on" } else { "off" })
    }

    /// A line for each rule: its line in the file, packets, bytes, connections, seconds since it matched last, its text. The last one is the default.
    pub(super) fn rules(&self, now: Nanos) -> String {
        let policy = &self.firewall.ruleset().policy;
        let default = format!("default {}{}", policy.default, if policy.log_default { " log" } else { "" });
        let rules =
            policy.rules.iter().map(|rule| (rule.line, rule.text.as_str())).chain([(0, default.as_str())]);
        let mut text = String::new();
        for ((line, words), counts) in rules.zip(self.firewall.counts()) {
            let last = match counts.last_ns {
                0 => "-".to_owned(),
                at => (now.saturating_sub(at) / SECOND).to_string(),
            };
            let (packets, bytes, connections) = (counts.packets, counts.bytes, counts.connections);
            let _ = writeln!(text, "{line} {packets} {bytes} {connections} {last} {words}");
        }
        text
    }
}

/// What sets hold when other rules come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// What the new file says.
    File,
    /// What sets of the same name hold.
    Present,
}

/// The rules in place.
///
/// # Errors
/// Another configuration goes on with the connections. It may have these very rules, so they must stay as they are.
pub(super) fn present(judge: &SharedJudge) -> Result<Arc<Ruleset>, String> {
    let guard = lock(judge);
    guard.check_present()?;
    Ok(Arc::clone(guard.firewall.ruleset()))
}

/// Puts other rules in place. Packets wait for no more than what must be done at once.
///
/// # Errors
/// Something else was put in place meanwhile, and the rules would do nothing, or keep what sets held earlier.
pub(super) fn replace(
    judge: &SharedJudge,
    ruleset: Arc<Ruleset>,
    links: &[Link],
    sets: Keep,
) -> Result<(), String> {
    let present = present(judge)?;
    let moves = Moves::new(&present, &ruleset);
    if sets == Keep::Present {
        // Late: from here on until the rules are in place, sets cannot change.
        ruleset.adopt(&present);
    }
    let mut guard = lock(judge);
    guard.check_present()?;
    if sets == Keep::Present && !Arc::ptr_eq(&present, guard.firewall.ruleset()) {
        return Err(REPLACED.to_owned());
    }
    let old = guard.replace(ruleset, moves, links);
    drop(guard);
    finish_resize(judge);
    drop((old, present));
    Ok(())
}

/// Goes on with the connections of another judge, by its own rules.
pub(super) fn take(judge: &SharedJudge, other: &SharedJudge, links: &[Link]) {
    lock(judge).take(&mut lock(other), links);
    finish_resize(judge);
}

/// Finishes another number of connections, in steps that packets can go between.
fn finish_resize(judge: &SharedJudge) {
    while lock(judge).firewall.resize_some(MOVED) {}
    let retired = lock(judge).firewall.retired();
    drop(retired);
}

/// A line for a connection.
fn line(ruleset: &Ruleset, connection: &Connection, now: Nanos) -> String {
    let policy = &ruleset.policy;
    let zone = |zone: u8| policy.zones.get(usize::from(zone)).map_or("-", |zone| zone.name.as_str());
    let rule = connection.rule.and_then(|rule| policy.rules.get(rule as usize));
    let c = connection;
    format!(
        "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}\n",
        firewall::protocol_name(c.protocol),
        c.source,
        c.ports[0],
        c.destination,
        c.ports[1],
        c.state.name(),
        zone(c.zones[0]),
        zone(c.zones[1]),
        rule.map_or_else(|| "-".to_owned(), |rule| rule.line.to_string()),
        c.packets[0],
        c.bytes[0],
        c.packets[1],
        c.bytes[1],
        now.saturating_sub(c.began_ns) / SECOND,
        if c.expires_ns == u64::MAX { 0 } else { c.expires_ns.saturating_sub(now).div_ceil(SECOND) },
        c.parent.map_or("-", |parent| parent.service.name()),
    )
}

/// Passes connections to `take`, some at a time: packets go on meanwhile. Each `take` gets some with the rules that they are of, and says whether it wants more.
/// Returns the place where to go on.
pub(super) fn each_some(
    judge: &SharedJudge,
    mut from: usize,
    now: Nanos,
    mut take: impl FnMut(&Arc<Ruleset>, Vec<Connection>) -> bool,
) -> Option<usize> {
    loop {
        let mut found = Vec::new();
        let guard = lock(judge);
        let ruleset = Arc::clone(guard.firewall.ruleset());
        let next = guard.firewall.some(from, LISTED, |connection| found.push(connection));
        drop(guard);
        found.retain(|connection| connection.expires_ns > now);
        let wants_more = take(&ruleset, found);
        from = match next {
            Some(next) if wants_more => next,
            next => return next,
        };
    }
}

/// Connections that the rules would refuse if they began now, or cannot judge: a line for each, up to a number.
pub(super) fn standing(judge: &SharedJudge, which: Standing, most: usize, now: Nanos) -> Vec<String> {
    let mut lines = Vec::new();
    each_some(judge, 0, now, |ruleset, found| {
        let some = found.iter().filter(|connection| ruleset.standing(connection, now) == which);
        lines.extend(some.map(|connection| line(ruleset, connection, now)));
        lines.len() < most
    });
    lines.truncate(most);
    lines
}

/// Ends connections that are chosen.
pub(super) fn end(judge: &SharedJudge, now: Nanos, chosen: impl Fn(&Ruleset, &Connection) -> bool) {
    each_some(judge, 0, now, |ruleset, found| {
        let chosen: Vec<_> = found.iter().filter(|connection| chosen(ruleset, connection)).collect();
        if !chosen.is_empty() {
            let mut judge = lock(judge);
            chosen.into_iter().for_each(|connection| judge.firewall.end(connection));
        }
        true
    });
}

/// Some connections: in the first line the place where to go on, or `-`; then a line each.
pub(super) fn some(judge: &SharedJudge, from: usize, now: Nanos) -> String {
    let (mut lines, mut count) = (String::new(), 0);
    let next = each_some(judge, from, now, |ruleset, found| {
        found.iter().for_each(|connection| lines += &line(ruleset, connection, now));
        count += 1;
        count < SLICES
    });
    let next = next.map_or_else(|| "-".to_owned(), |next| next.to_string());
    format!("{next}\n{lines}")
}
