// SPDX-License-Identifier: MIT OR Apache-2.0
//! What workers share: a firewall, the zones of links, the journal.
//!
//! Workers read it at the same time. What they change by that is the connections' own (see [`Firewall::decide_shared`]), or the worker's own ([`Judge::hits`]).

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use element::clock::{Nanos, SECOND};
use firewall::policy::SELF;
use firewall::{
    Ahead, AnnouncedCounts, Arrival, Connection, Decision, Firewall, Hits, Moves, ProxyCounts, Ruleset,
    Service, Standing, VrfNames,
};
use packet::{Batch, Packet, anno};
use sync::read_mostly::{ReadMostly, WriteGuard};
use wire::{EtherType, MacAddr, ethernet};

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
    /// Whether what comes from there is in the VRF of the host that it is for, because a translator puts it there.
    pub(super) is_translated: bool,
}

/// A VRF as the configuration names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Vrf {
    pub(super) name: String,
    pub(super) links: Vec<String>,
}

/// VRFs at most: their numbers are bytes, and 0 is the main table.
const VRFS_MOST: usize = 254;

/// What is wrong with VRFs.
pub(super) fn check_vrfs(vrfs: &[Vrf], links: &[Link]) -> Vec<String> {
    let mut wrong = Vec::new();
    if vrfs.len() > VRFS_MOST {
        wrong.push(format!("there are {} VRFs, and {VRFS_MOST} may be", vrfs.len()));
    }
    for (n, vrf) in vrfs.iter().enumerate() {
        if vrf.name == "-" || vrfs[..n].iter().any(|other| other.name == vrf.name) {
            wrong.push(format!("VRF {} has the name of another, or none", vrf.name));
        }
        for link in &vrf.links {
            if !links.iter().any(|known| known.name == *link) {
                wrong.push(format!("VRF {} has '{link}', which is none of the LINKs", vrf.name));
            }
            let is_here = |other: &Vrf| other.links.contains(link);
            if vrfs[..n].iter().any(is_here) || vrf.links.iter().filter(|one| *one == link).count() > 1 {
                wrong.push(format!("link '{link}' is in two VRFs"));
            }
        }
    }
    wrong
}

/// Which VRFs packets are in, by their lasting numbers.
#[derive(Debug)]
struct Vrfs {
    /// By the VRF annotation.
    of_packet: Box<[u16; 256]>,
    /// By input: those of links. Answers to the router itself come in the VRF of the packet.
    of_link: Vec<Option<Beyond>>,
}

/// Where a link leads.
#[derive(Clone, Copy, Debug)]
struct Beyond {
    vrf: u16,
    /// IPv4 packets are translated there, and their answers come in the VRF of the packet.
    is_translated: bool,
}

impl Vrfs {
    fn new(firewall: &mut Firewall, links: &[Link], vrfs: &[Vrf]) -> Vrfs {
        let numbers = firewall.add_vrfs(vrfs.iter().map(|vrf| vrf.name.as_str()));
        let mut of_packet = Box::new([0; 256]);
        for (place, number) in of_packet[1..].iter_mut().zip(&numbers) {
            *place = *number;
        }
        let of = |link: &Link| {
            let found = vrfs.iter().position(|vrf| vrf.links.contains(&link.name));
            let vrf = found.map_or(0, |vrf| numbers[vrf]);
            Some(Beyond { vrf, is_translated: link.is_translated })
        };
        Vrfs { of_packet, of_link: std::iter::once(None).chain(links.iter().map(of)).collect() }
    }

    /// The VRF of a packet that came to an input, and that of its answers.
    #[inline]
    fn of(&self, port: usize, packet: &Packet) -> [u16; 2] {
        let own = self.of_packet[usize::from(packet.anno_u8(anno::VRF))];
        let is_four = || packet.network().and_then(|ip| ip.first()).is_none_or(|first| first >> 4 == 4);
        match self.of_link[port % self.of_link.len()] {
            Some(beyond) if !(beyond.is_translated && is_four()) => [own, beyond.vrf],
            _ => [own, own],
        }
    }
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
    /// The VRFs, if there are some.
    vrfs: Option<Vrfs>,
    /// What each worker has counted that no other one counts, by the numbers that [`join`](Self::join) gives.
    pub(super) hits: Vec<Hits>,
    /// Grows when the zones of links have other numbers.
    pub(super) epoch: u64,
    /// Whether another configuration goes on with its connections.
    is_gone: bool,
    /// Paints and names of links, for the journal: the router itself, then the others in the order of the inputs.
    names: Vec<(u8, Arc<str>)>,
}

pub(crate) type SharedJudge = ReadMostly<Judge>;

/// The shared judge for a moment, in which no worker has it.
pub(super) fn lock(judge: &SharedJudge) -> WriteGuard<'_, Judge> {
    judge.write()
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

/// The source of a packet on its link, if an Ethernet header lies right before its IP header.
fn mac_of(packet: &Packet) -> Option<MacAddr> {
    let length = packet.network_offset()?.checked_sub(packet.mac_offset()?)?;
    let header = packet.mac()?.get(..usize::try_from(length).ok()?)?;
    let layer = ethernet::network_layer(header)?;
    let is_ip = [EtherType::IPV4, EtherType::IPV6].contains(&layer.ethertype) && layer.offset == header.len();
    let source = header.get(6..)?.first_chunk::<6>()?;
    is_ip.then_some(MacAddr(*source))
}

impl Judge {
    /// A firewall that keeps the first `log_bytes` of packets that rules log.
    pub(super) fn new(
        ruleset: Arc<Ruleset>,
        links: &[Link],
        vrfs: &[Vrf],
        log_bytes: u16,
        seed: u64,
    ) -> Judge {
        let itself = (0, Arc::from("self"));
        let others = links.iter().map(|link| (link.paint, Arc::from(&*link.name)));
        let mut judge = Judge {
            firewall: Firewall::new(ruleset, seed),
            journal: Journal::new(log_bytes),
            to: Vec::new(),
            from: Box::new([NOWHERE; 256]),
            vrfs: None,
            hits: Vec::new(),
            epoch: 0,
            is_gone: false,
            names: std::iter::once(itself).chain(others).collect(),
        };
        judge.place(links);
        judge.place_vrfs(links, vrfs);
        judge
    }

    /// The number of another worker, which counts by itself from now on.
    pub(super) fn join(&mut self) -> usize {
        self.hits.push(Hits::default());
        self.collect();
        self.hits.len() - 1
    }

    /// Takes over what workers have counted by themselves.
    fn collect(&mut self) {
        self.hits.iter_mut().for_each(|hits| self.firewall.collect(hits));
    }

    /// The zones of a packet that came to an input; [`NOWHERE`] if its paint is no link's.
    #[inline]
    pub(super) fn zones(&self, port: usize, packet: &Packet) -> [u8; 2] {
        [self.from[usize::from(packet.paint())], self.to[port % self.to.len()]]
    }

    /// Looks at the packets of a batch, so that their connections are in the cache when each is judged.
    #[inline]
    pub(super) fn look_ahead(&self, port: usize, batch: &Batch, ahead: &mut Vec<Ahead>) {
        self.firewall.look_ahead(batch.iter().map(|packet| self.arrival(port, packet)), ahead);
    }

    /// A packet for the rules. Its link header is read only if they ask for it; what the router sends has none of its own.
    #[inline]
    pub(super) fn arrival<'a>(&self, port: usize, packet: &'a Packet) -> Arrival<'a> {
        let [from, to] = self.zones(port, packet);
        let mac = if self.firewall.ruleset().asks_macs() && from != SELF { mac_of(packet) } else { None };
        let vrfs = self.vrfs.as_ref().map_or([0; 2], |vrfs| vrfs.of(port, packet));
        Arrival { ip: packet.network().unwrap_or_default(), from, to, vrfs, mac }
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

    /// Notes which VRFs packets and links are in. Their numbers are the firewall's, so this follows on another one.
    fn place_vrfs(&mut self, links: &[Link], vrfs: &[Vrf]) {
        self.vrfs = (!vrfs.is_empty()).then(|| Vrfs::new(&mut self.firewall, links, vrfs));
    }

    /// Puts other rules in place. Returns the old ones, which take time to go.
    fn replace(&mut self, ruleset: Arc<Ruleset>, moves: Moves, links: &[Link]) -> Arc<Ruleset> {
        self.journal.forget_rules();
        self.collect();
        let old = self.firewall.replace(ruleset, moves);
        // Other rules have other slots.
        self.collect();
        self.place(links);
        self.epoch += 1;
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
    fn take(&mut self, other: &mut Judge, links: &[Link], vrfs: &[Vrf]) {
        other.is_gone = true;
        // Each has counted for its own rules.
        self.collect();
        other.collect();
        let mine = Arc::clone(self.firewall.ruleset());
        std::mem::swap(&mut self.firewall, &mut other.firewall);
        self.journal.adopt(&mut other.journal);
        let moves = Moves::new(self.firewall.ruleset(), &mine);
        self.replace(mine, moves, links);
        self.place_vrfs(links, vrfs);
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
    pub(super) fn rules(&mut self, now: Nanos) -> String {
        self.collect();
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
pub(super) fn take(judge: &SharedJudge, other: &SharedJudge, links: &[Link], vrfs: &[Vrf]) {
    lock(judge).take(&mut lock(other), links, vrfs);
    finish_resize(judge);
}

/// Finishes another number of connections, in steps that packets can go between.
fn finish_resize(judge: &SharedJudge) {
    while lock(judge).firewall.resize_some(MOVED) {}
    let retired = lock(judge).firewall.retired();
    drop(retired);
}

/// A line for a connection.
fn line(rules: &Rules, connection: &Connection, now: Nanos) -> String {
    let policy = &rules.ruleset.policy;
    let zone = |zone: u8| policy.zones.get(usize::from(zone)).map_or("-", |zone| zone.name.as_str());
    let rule = connection.rule.and_then(|rule| policy.rules.get(rule as usize));
    let c = connection;
    let vrfs = match rules.has_vrfs {
        true => c.vrfs.map(|vrf| format!(" {}", rules.vrfs.name(vrf).unwrap_or("-"))).concat(),
        false => String::new(),
    };
    format!(
        "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}{vrfs}\n",
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

/// What words about connections need.
pub(super) struct Rules {
    pub(super) ruleset: Arc<Ruleset>,
    vrfs: VrfNames,
    /// Whether the configuration has VRFs.
    has_vrfs: bool,
}

/// Passes connections to `take`, some at a time: packets go on meanwhile. Each `take` gets some with the rules that they are of, and says whether it wants more.
/// Returns the place where to go on.
pub(super) fn each_some(
    judge: &SharedJudge,
    mut from: usize,
    now: Nanos,
    mut take: impl FnMut(&Rules, Vec<Connection>) -> bool,
) -> Option<usize> {
    loop {
        let mut found = Vec::new();
        let guard = lock(judge);
        let rules = Rules {
            ruleset: Arc::clone(guard.firewall.ruleset()),
            vrfs: guard.firewall.vrf_names().clone(),
            has_vrfs: guard.vrfs.is_some(),
        };
        let next = guard.firewall.some(from, LISTED, |connection| found.push(connection));
        drop(guard);
        found.retain(|connection| connection.expires_ns > now);
        let wants_more = take(&rules, found);
        from = match next {
            Some(next) if wants_more => next,
            next => return next,
        };
    }
}

/// Connections that the rules would refuse if they began now, or cannot judge: a line for each, up to a number.
pub(super) fn standing(judge: &SharedJudge, which: Standing, most: usize, now: Nanos) -> Vec<String> {
    let mut lines = Vec::new();
    each_some(judge, 0, now, |rules, found| {
        let some = found.iter().filter(|connection| rules.ruleset.standing(connection, now) == which);
        lines.extend(some.map(|connection| line(rules, connection, now)));
        lines.len() < most
    });
    lines.truncate(most);
    lines
}

/// Ends connections that are chosen.
pub(super) fn end(judge: &SharedJudge, now: Nanos, chosen: impl Fn(&Ruleset, &Connection) -> bool) {
    each_some(judge, 0, now, |rules, found| {
        let chosen: Vec<_> = found.iter().filter(|connection| chosen(&rules.ruleset, connection)).collect();
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
    let next = each_some(judge, from, now, |rules, found| {
        found.iter().for_each(|connection| lines += &line(rules, connection, now));
        count += 1;
        count < SLICES
    });
    let next = next.map_or_else(|| "-".to_owned(), |next| next.to_string());
    format!("{next}\n{lines}")
}
