// SPDX-License-Identifier: MIT OR Apache-2.0
//! The judge: which packets pass, and what they leave behind.

mod book;
mod explain;
mod fragments;
mod hits;
mod listing;
mod mirror;
mod moves;
mod proxied;
mod rates;
mod related;
mod room;
mod shared;
mod sides;
mod vrfs;
mod watch;
mod zones;

use std::net::IpAddr;
use std::sync::Arc;

use tables::flow::{Direction, Flow, FlowId, FlowKey, FlowKey6, FlowTable, Hit, Index};
use wire::MacAddr;

use crate::policy::{Action, Answer, Facts, SELF};
use crate::proxy::cookie::Cookies;
use crate::ruleset::Ruleset;
use crate::seen::{Part, Quoted, Seen, Unjudged};
use crate::set::View;
use crate::track::{Fault, State, Tcp, Use, timeout};
use book::Book;
pub use book::Counts;
use fragments::Fragments;
pub use hits::Hits;
pub use listing::Connection;
use mirror::Told;
pub use moves::Moves;
use proxied::{Flood, Proxy};
pub use proxied::{ProxyCounts, Steps, Translation};
use rates::Rates;
use related::Related;
pub use related::{AnnouncedCounts, Parent, Service};
pub use shared::PutOff;
use sides::{Addresses, Room, Side, Source};
pub use vrfs::VrfNames;
use zones::Zones;

/// Connections that are looked at for each packet to find those whose time is over.
const REAPED: usize = 4;

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes.
    Pass,
    /// It is dropped.
    Drop(Cause),
    /// It is dropped, and its sender gets this answer.
    Reject(Answer),
    /// The firewall sends other packets in its place: see [`Firewall::steps`].
    Answered,
}

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A rule says so, or the default.
    Rule,
    /// It belongs to no connection and begins none.
    NoConnection,
    /// Its sequence numbers do not belong to its connection.
    Window,
    /// Its headers are wrong.
    Malformed,
    /// It is a fragment.
    Fragment,
    /// There is no room for another connection.
    Full,
    /// Its source has as many connections as the rule allows.
    SourceLimit,
    /// Its source begins more connections than the rule allows.
    SourceRate,
    /// A connection from another VRF has the same answers.
    Ambiguous,
}

/// What was decided on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What happens to it.
    pub verdict: Verdict,
    /// The rule that decided, now or when the connection began; `None` for the default and where no rule was asked.
    pub rule: Option<u32>,
    /// Whether it belongs to a known connection.
    pub is_known: bool,
    /// Whether a known connection has announced the one that it begins.
    pub is_related: bool,
    /// Whether the firewall answers its client first: see [`Firewall::steps`].
    pub is_proxied: bool,
    /// Whether it is to be logged.
    pub logs: bool,
}

impl Decision {
    fn dropped(cause: Cause) -> Decision {
        Decision {
            verdict: Verdict::Drop(cause),
            rule: None,
            is_known: false,
            is_related: false,
            is_proxied: false,
            logs: false,
        }
    }

    /// Of a packet of a connection that this rule has accepted.
    #[inline]
    fn known(rule: Option<u32>, is_proxied: bool) -> Decision {
        let verdict = Verdict::Pass;
        Decision { verdict, rule, is_known: true, is_related: false, is_proxied, logs: false }
    }

    /// Of a packet that comes from no zone.
    pub fn stray() -> Decision {
        Decision::dropped(Cause::Rule)
    }
}

/// What is known of a connection. Packets of connections share it, so it changes by an exclusive reference alone, but for the numbers of TCP. What each
/// packet needs stands first: of a record with an IPv4 key it is the second cache line.
#[derive(Clone, Debug)]
#[repr(C)]
struct Entry {
    /// If the firewall has answered its client.
    proxy: Option<Proxy>,
    /// The slot of the rule that accepted it.
    slot: u32,
    track: Track,
    /// Lasting numbers of zones.
    zones: [u16; 2],
    /// What announced it.
    parent: Option<Parent>,
    began_s: u32,
    /// Whether its source's connections are counted for the rule.
    counts_source: bool,
    /// A peer knows it (see `firewall/mirror.rs`).
    is_told: bool,
    /// The peer is putting all its connections, and has not put this one.
    is_marked: bool,
}

const _: () = assert!(size_of::<Option<Entry>>() <= 104);

impl Entry {
    /// Whether both sides have agreed on it, and still do.
    fn is_settled(&self) -> bool {
        is_settled(self.track.state())
    }
}

fn is_settled(state: State) -> bool {
    matches!(state, State::Open | State::HalfClosed)
}

#[derive(Clone, Debug)]
enum Track {
    Tcp(Tcp),
    Other(State),
}

impl Track {
    fn state(&self) -> State {
        match self {
            Track::Tcp(tcp) => tcp.state(),
            Track::Other(state) => *state,
        }
    }
}

/// A packet and where it comes from and goes to.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Its bytes, from the IP header on.
    pub ip: &'a [u8],
    /// The zone that it comes from.
    pub from: u8,
    /// The zone that it goes to.
    pub to: u8,
    /// Its VRF, and the one in which its answers come: lasting numbers, see [`Firewall::add_vrfs`]. 0 is the main table.
    pub vrfs: [u16; 2],
    /// Its source on the link: needed if the rules [ask for it](Ruleset::asks_macs).
    pub mac: Option<MacAddr>,
}

/// A packet that has been looked at.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    seen: Result<Seen, Unjudged>,
    key: Prepared,
}

/// The key of its connection.
#[derive(Clone, Copy, Debug)]
enum Prepared {
    /// It has none.
    None,
    Four(tables::flow::Prepared<FlowKey>),
    Six(tables::flow::Prepared<FlowKey6>),
}

/// A firewall: a policy, and the connections that it has accepted.
#[derive(Debug)]
pub struct Firewall {
    ruleset: Arc<Ruleset>,
    /// What its sets hold now.
    sets: View,
    four: Side<FlowKey>,
    six: Side<FlowKey6>,
    book: Book,
    zones: Zones,
    vrfs: VrfNames,
    fragments: Fragments,
    related: Related,
    rates: Rates,
    flood: Flood,
    cookies: Cookies,
    steps: Steps,
    seed: u64,
    /// What is no longer needed, and takes time to go.
    retired: Vec<Index>,
}

impl Firewall {
    /// A firewall without connections; `seed` should be random.
    pub fn new(ruleset: Arc<Ruleset>, seed: u64) -> Firewall {
        let capacity = ruleset.policy.connections;
        Firewall {
            book: Book::new(&ruleset.policy),
            zones: Zones::new(&ruleset.policy),
            vrfs: VrfNames::default(),
            fragments: Fragments::default(),
            related: Related::default(),
            rates: Rates::new(seed),
            flood: Flood::default(),
            cookies: Cookies::new(seed),
            steps: Steps::default(),
            four: Side::new(capacity, seed),
            six: Side::new(capacity, seed),
            sets: ruleset.view(),
            ruleset,
            seed,
            retired: Vec::new(),
        }
    }

    /// Its rules.
    pub fn ruleset(&self) -> &Arc<Ruleset> {
        &self.ruleset
    }

    /// Puts what the sets of these rules hold now in place of what they held. Returns what is not needed any more: it takes time to go.
    pub fn put_sets(&mut self, ruleset: &Arc<Ruleset>, view: View) -> View {
        // Rules that are replaced already have sets of their own.
        if !Arc::ptr_eq(&self.ruleset, ruleset) {
            return view;
        }
        std::mem::replace(&mut self.sets, view)
    }

    /// Connections that it has.
    pub fn len(&self) -> usize {
        self.four.table.len() + self.six.table.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What rules have decided; the last one is the default.
    pub fn counts(&self) -> Vec<Counts> {
        self.book.counts()
    }

    /// Decides on a packet without an Ethernet header that goes between two zones at a time.
    pub fn judge(&mut self, now_ns: u64, ip: &[u8], from: u8, to: u8) -> Decision {
        self.judge_arrival(now_ns, Arrival { ip, from, to, vrfs: [0; 2], mac: None })
    }

    /// Decides on a packet at a time.
    pub fn judge_arrival(&mut self, now_ns: u64, packet: Arrival<'_>) -> Decision {
        self.reap(now_ns, REAPED);
        let ahead = self.look(packet);
        self.judge_ahead(now_ns, &ahead, packet.ip)
    }

    /// What [`judge`](Self::judge) would decide. Nothing is counted, and no connection begins or changes.
    pub fn rehearse(&mut self, now_ns: u64, ip: &[u8], from: u8, to: u8) -> Decision {
        self.rehearse_arrival(now_ns, Arrival { ip, from, to, vrfs: [0; 2], mac: None })
    }

    /// What [`judge_arrival`](Self::judge_arrival) would decide.
    pub fn rehearse_arrival(&mut self, now_ns: u64, packet: Arrival<'_>) -> Decision {
        self.reap(now_ns, REAPED);
        let ahead = self.look(packet);
        self.decide(now_ns, &ahead, packet.ip, true)
    }

    /// Looks at packets that will be judged soon, so that their connections are in the cache by then.
    pub fn look_ahead<'a>(&self, packets: impl Iterator<Item = Arrival<'a>>, ahead: &mut Vec<Ahead>) {
        ahead.clear();
        ahead.extend(packets.map(|packet| {
            let seen = Seen::arrived(&packet);
            let key = match &seen {
                Ok(seen) if !matches!(seen.part, Part::Error(_) | Part::Alone) => self.prepare(seen),
                _ => Prepared::None,
            };
            Ahead { seen, key }
        }));
        for one in ahead {
            match &one.key {
                Prepared::None => {}
                Prepared::Four(key) => self.four.approach(key),
                Prepared::Six(key) => self.six.approach(key),
            }
        }
    }

    /// Decides on a packet that has been looked at. `ip` are its bytes.
    pub fn judge_ahead(&mut self, now_ns: u64, ahead: &Ahead, ip: &[u8]) -> Decision {
        let decision = self.decide(now_ns, ahead, ip, false);
        if decision.verdict == Verdict::Pass {
            self.watch(now_ns, ahead, ip);
        }
        decision
    }

    fn prepare(&self, seen: &Seen) -> Prepared {
        let Facts { vrfs: [vrf, _], source, destination, protocol, .. } = seen.facts;
        let ports = seen.flow_ports();
        match (
            FlowKey::make(vrf, source, destination, protocol, ports),
            FlowKey6::make(vrf, source, destination, protocol, ports),
        ) {
            (Some(key), _) => Prepared::Four(self.four.table.prepare(key)),
            (_, Some(key)) => Prepared::Six(self.six.table.prepare(key)),
            _ => Prepared::None,
        }
    }

    fn decide(&mut self, now_ns: u64, ahead: &Ahead, ip: &[u8], rehearses: bool) -> Decision {
        self.steps = Steps::default();
        let seen = match &ahead.seen {
            Ok(seen) => seen,
            Err(Unjudged::Malformed) => return Decision::dropped(Cause::Malformed),
            Err(Unjudged::Later(fragment)) => {
                let first = self.fragments.find(fragment, now_ns);
                return first.unwrap_or(Decision::dropped(Cause::Fragment));
            }
        };
        let (bound, present) = (self.bound(), self.len());
        let (free, is_over) = (bound.saturating_sub(present), present > bound);
        let (ruleset, sets, book, zones) = (&*self.ruleset, &self.sets, &mut self.book, &self.zones);
        let (related, flood, steps) = (&mut self.related, &mut self.flood, &mut self.steps);
        let (rates, cookies, has_vrfs) = (&mut self.rates, &self.cookies, self.vrfs.are_some());
        let mut bench = Bench {
            ruleset,
            sets,
            book,
            zones,
            related,
            rates,
            flood,
            cookies,
            steps,
            ip,
            now_ns,
            free,
            is_over,
            has_vrfs,
            rehearses,
        };
        let decision = match (&ahead.key, seen.facts.source.is_ipv4()) {
            (Prepared::Four(key), _) => bench.judge(&mut self.four, &mut self.six, seen, key),
            (Prepared::Six(key), _) => bench.judge(&mut self.six, &mut self.four, seen, key),
            (Prepared::None, true) => bench.lone(&self.four.table, seen),
            (Prepared::None, false) => bench.lone(&self.six.table, seen),
        };
        // What others could do is known without it.
        if let Some(fragment) = seen.fragment.filter(|_| !rehearses && decision.verdict == Verdict::Pass) {
            self.fragments.note(fragment, &decision, now_ns);
        }
        decision
    }

    fn look(&self, packet: Arrival<'_>) -> Ahead {
        let mut ahead = Vec::with_capacity(1);
        self.look_ahead(std::iter::once(packet), &mut ahead);
        ahead.remove(0)
    }

    /// Ends connections whose time is over, after so many looks at most for each family. Those that are left are over, too: their packets begin anew.
    pub fn reap(&mut self, now_ns: u64, most: usize) {
        self.resize_along();
        self.four.reap(now_ns, most, &mut self.book);
        self.six.reap(now_ns, most, &mut self.book);
    }

    /// Ends a connection, if it is still there.
    pub fn end(&mut self, connection: &Connection) {
        let Connection { vrfs: [vrf, _], source, destination, protocol, ports, .. } = *connection;
        self.end_of(vrf, source, destination, protocol, ports);
    }

    /// Ends the connection whose first packet was of this VRF and of these addresses and ports, if it is there.
    pub fn end_of(&mut self, vrf: u16, source: IpAddr, destination: IpAddr, protocol: u8, ports: [u16; 2]) {
        let book = &mut self.book;
        if let Some(key) = FlowKey::make(vrf, source, destination, protocol, ports) {
            self.four.end(&key, book);
        }
        if let Some(key) = FlowKey6::make(vrf, source, destination, protocol, ports) {
            self.six.end(&key, book);
        }
    }

    /// Puts other rules in place. Connections stay; rules that are the same, by name or by text, keep their counts. Returns the old rules.
    ///
    /// It takes time for the rules alone, and little if `moves` is between the present rules and these. With another number of connections,
    /// [`resize_some`](Self::resize_some) goes on until it is done; packets do some of it, too.
    pub fn replace(&mut self, ruleset: Arc<Ruleset>, moves: Moves) -> Arc<Ruleset> {
        let old = std::mem::replace(&mut self.ruleset, ruleset);
        // The old rules hold the old sets, too.
        self.sets = self.ruleset.view();
        let new = &self.ruleset.policy;
        let is_between = Arc::ptr_eq(&moves.from, &old) && Arc::ptr_eq(&moves.to, &self.ruleset);
        let moves = if is_between { moves } else { Moves::new(&old, &self.ruleset) };
        self.book.replace(new, &moves.moved);
        self.zones.replace(new);
        self.book.told.iter_mut().for_each(Told::lose);
        self.begin_resize(moves.indexes);
        old
    }
}

/// All that one decision needs.
struct Bench<'a> {
    ruleset: &'a Ruleset,
    sets: &'a View,
    book: &'a mut Book,
    zones: &'a Zones,
    related: &'a mut Related,
    rates: &'a mut Rates,
    flood: &'a mut Flood,
    cookies: &'a Cookies,
    steps: &'a mut Steps,
    /// The packet.
    ip: &'a [u8],
    now_ns: u64,
    free: usize,
    /// Whether there are more than there may be: no other one comes then, and none ends for it.
    is_over: bool,
    /// Whether there are VRFs besides the main table.
    has_vrfs: bool,
    /// Whether everything stays as it is.
    rehearses: bool,
}

impl Bench<'_> {
    /// A packet that has no connection of its own.
    fn lone<K: Addresses>(&mut self, table: &FlowTable<Entry, K>, seen: &Seen) -> Decision {
        match &seen.part {
            Part::Error(quoted) => self.error(table, seen, quoted),
            _ => self.alone(seen),
        }
    }

    fn judge<K: Addresses>(
        &mut self,
        side: &mut Side<K>,
        other: &mut dyn Room,
        seen: &Seen,
        key: &tables::flow::Prepared<K>,
    ) -> Decision {
        // Another index may have come since the key was prepared.
        if let Some(hit) = side.table.lookup(&key.key()) {
            match self.known(side, hit.id, hit.direction, seen) {
                Ok(decision) => return decision,
                // Its addresses and ports are used again.
                Err(Fault::Anew) if self.rehearses => {}
                Err(Fault::Anew) => drop(side.remove(hit.id, self.book)),
                Err(Fault::Flags) => return Decision::dropped(Cause::NoConnection),
                Err(Fault::Window) => return Decision::dropped(Cause::Window),
            }
        }
        self.unknown(side, other, key.key(), seen)
    }

    /// A packet of a connection.
    fn known<K: Addresses>(
        &mut self,
        side: &mut Side<K>,
        id: FlowId,
        direction: Direction,
        seen: &Seen,
    ) -> Result<Decision, Fault> {
        let way = usize::from(direction == Direction::Reply);
        let Some(flow) = side.table.flow(id) else { return Err(Fault::Flags) };
        if flow.expires_ns <= self.now_ns {
            // Its time is over, and nobody has looked yet.
            return Err(Fault::Anew);
        }
        if flow.value.proxy.is_some() {
            return self.known_proxied(side, id, direction, seen);
        }
        let mut copy = self.rehearses.then(|| flow.value.clone());
        let Some(entry) = copy.as_mut().or_else(|| side.table.get_mut(id)) else { return Err(Fault::Flags) };
        let (mut renews, before) = (true, entry.track.state());
        match (&mut entry.track, &seen.part) {
            (Track::Tcp(tcp), Part::Tcp(segment)) => renews = tcp.take(way, segment)? == Use::Counts,
            // Two hosts that ask each other with the same identifier.
            (_, Part::Query(..)) if way == 1 => return Err(Fault::Flags),
            (_, Part::Answer(..)) if way == 0 => return Err(Fault::Flags),
            (Track::Other(state), _) if way == 1 => *state = State::Open,
            _ => {}
        }
        let rule = self.book.rule(entry.slot);
        self.settle(side, id, way, seen, renews, before);
        Ok(Decision::known(rule, false))
    }

    /// Counts a packet of a connection, whose state was `before` and is what it is after it.
    fn settle<K: Addresses>(
        &mut self,
        side: &mut Side<K>,
        id: FlowId,
        way: usize,
        seen: &Seen,
        renews: bool,
        before: State,
    ) {
        let Some(entry) = side.table.get_mut(id).filter(|_| !self.rehearses) else { return };
        let state = entry.track.state();
        let idle = timeout(&self.ruleset.policy.timeouts, seen.facts.protocol, state);
        if entry.counts_source && matches!(state, State::Closed | State::Reset) {
            // It is no connection of its source any more.
            entry.counts_source = false;
            let slot = entry.slot;
            side.table.flow(id).iter().for_each(|flow| self.book.left(slot, flow.forward.source()));
        }
        side.count(id, way, seen.length);
        if self.book.told.is_some() {
            mirror::note_change(self.book, &side.table, id, before, renews);
        }
        if renews {
            let expires_ns = side.table.flow(id).map_or(0, |flow| flow.expires_ns);
            let lives_on = before == state && side.table.extend(id, expires_ns, self.now_ns, idle);
            if !lives_on {
                side.table.set_expiry(id, self.now_ns + idle);
            }
        }
    }

    /// An ICMP error passes with the connection of the packet that it is about.
    fn error<K: Addresses>(&mut self, table: &FlowTable<Entry, K>, seen: &Seen, quoted: &Quoted) -> Decision {
        let Some((hit, flow)) = quoted_flow(table, seen, quoted, self.now_ns) else {
            return self.alone(seen);
        };
        let entry = flow.value;
        let side = usize::from(hit.direction == Direction::Reply);
        let mut is_proxied = false;
        if let (Track::Tcp(tcp), Some(sequence)) = (&entry.track, quoted.sequence) {
            let known;
            (known, is_proxied) = self.quoted(entry, side, sequence);
            if !tcp.has_sent(side, known) {
                return Decision::dropped(Cause::Window);
            }
        }
        Decision::known(self.book.rule(entry.slot), is_proxied)
    }

    /// A packet that neither belongs to a connection nor begins one.
    fn alone(&mut self, seen: &Seen) -> Decision {
        let (rule, action, logs) = self.ask(seen);
        self.spend(rule, seen);
        Decision {
            verdict: verdict(action),
            rule,
            is_known: false,
            is_related: false,
            is_proxied: false,
            logs,
        }
    }

    /// A rule has decided.
    fn spend(&mut self, rule: Option<u32>, seen: &Seen) {
        if !self.rehearses {
            self.book.count(rule, seen.length, self.now_ns);
            self.book.spend(rule);
        }
    }

    /// The rule that holds for a packet.
    fn ask(&mut self, seen: &Seen) -> (Option<u32>, Action, bool) {
        let policy = &self.ruleset.policy;
        let (book, now_ns) = (&mut *self.book, self.now_ns);
        let refuses = |rule| book.is_exhausted(rule, now_ns);
        let rule = self.ruleset.first(self.sets, &seen.facts, now_ns, refuses);
        let logs = match rule {
            Some(rule) => policy.rules[rule as usize].log.is_some(),
            None => policy.log_default,
        };
        (rule, self.ruleset.action(rule, seen.facts.from), logs)
    }

    fn unknown<K: Addresses>(
        &mut self,
        side: &mut Side<K>,
        other: &mut dyn Room,
        key: K,
        seen: &Seen,
    ) -> Decision {
        let tcp = match &seen.part {
            Part::Tcp(segment) => Some(Tcp::new(segment)),
            _ => None,
        };
        let mut begins = !matches!(tcp, Some(Err(_))) && !matches!(seen.part, Part::Answer(..));
        let track = match tcp {
            Some(Ok(tcp)) => Track::Tcp(tcp),
            _ => Track::Other(State::Single),
        };
        let mut begun = Begun { track, rule: None, slot: 0, parent: None, proxy: None };
        if let Part::Tcp(segment) = &seen.part
            && self.is_own_cookie(seen, segment)
        {
            // No rule is for what the firewall has to ask.
            return Decision { is_proxied: false, ..self.decides(Verdict::Pass, None, false) };
        }
        if begins
            && let Some(parent) = self.related.find(self.now_ns, &seen.facts)
            && let Some(slot) = self.slot_of_parent(&side.table, parent, seen)
        {
            return self.begin_related(side, other, key, seen, Begun { slot, parent: Some(parent), ..begun });
        }
        let (rule, action, logs) = self.ask(seen);
        let is_stateless = rule.is_some_and(|rule| self.ruleset.policy.rules[rule as usize].is_stateless);
        let mut syn = None;
        if let Some(number) = rule.filter(|rule| self.ruleset.policy.rules[*rule as usize].is_proxied)
            && let Part::Tcp(segment) = &seen.part
        {
            if begins && self.answers_syn() {
                return self.send_cookie(seen, segment, Some(number), false);
            } else if !begins && seen.facts.from != SELF && self.expects_cookie(segment) {
                let Some(proved) = self.proved(seen, segment) else { return self.wrong_cookie() };
                begun = Begun { track: Track::Tcp(proved.tcp), proxy: Some(proved.proxy), ..begun };
                (begins, syn) = (true, Some(proved.syn));
            }
        }
        // What a rule refuses is refused by it; the others would pass as part of a connection only. The router knows its own.
        if !begins && !is_stateless && action == Action::Accept && seen.facts.from != SELF {
            return Decision::dropped(Cause::NoConnection);
        }
        self.spend(rule, seen);
        let is_proxied = syn.is_some();
        let verdict = if is_proxied { Verdict::Answered } else { verdict(action) };
        let decision = Decision { verdict, rule, is_known: false, is_related: false, is_proxied, logs };
        if action != Action::Accept || is_stateless || !begins {
            return decision;
        }
        let source = key.source();
        let ambiguous = self.is_ambiguous(side, key.back(seen.facts.vrfs[1])).then_some(Cause::Ambiguous);
        if let Some(cause) = ambiguous.or_else(|| rule.and_then(|rule| self.beyond(rule, source))) {
            return Decision { verdict: Verdict::Drop(cause), ..decision };
        }
        if self.rehearses {
            return decision;
        }
        (begun.rule, begun.slot) = (rule, self.book.slot(rule));
        if !self.begin(side, other, key, seen, begun) {
            return Decision { verdict: Verdict::Drop(Cause::Full), ..decision };
        }
        self.ask_server(syn);
        decision
    }

    /// Whether a connection from another VRF has these answers, so that nobody could say whose they are. One whose time is over ends.
    fn is_ambiguous<K: Addresses>(&mut self, side: &mut Side<K>, back: K) -> bool {
        if !self.has_vrfs {
            return false;
        }
        let Some(id) = side.table.lookup(&back).map(|hit| hit.id) else { return false };
        let is_over = side.table.flow(id).is_some_and(|flow| flow.expires_ns <= self.now_ns);
        if is_over && !self.rehearses {
            side.remove(id, self.book);
        }
        !is_over
    }

    /// Why a source may not begin another connection by a rule.
    fn beyond(&mut self, rule: u32, source: Source) -> Option<Cause> {
        let policy = &self.ruleset.policy;
        if self.book.has_too_many(rule, source, policy) {
            return Some(Cause::SourceLimit);
        }
        let (slot, limits) = (self.book.slot(Some(rule)), &policy.rules[rule as usize]);
        let rates = [limits.source_rate, limits.network_rate];
        let exceeds = rates.into_iter().zip(book::kinds(source)).any(|(limit, kind)| {
            limit.is_some_and(|limit| !self.rates.allow(self.now_ns, slot, kind, &limit, !self.rehearses))
        });
        exceeds.then_some(Cause::SourceRate)
    }

    /// Begins a connection that another one has announced.
    fn begin_related<K: Addresses>(
        &mut self,
        side: &mut Side<K>,
        other: &mut dyn Room,
        key: K,
        seen: &Seen,
        begun: Begun,
    ) -> Decision {
        let rule = self.book.rule(begun.slot);
        let logs = rule.is_some_and(|rule| self.ruleset.policy.rules[rule as usize].log.is_some());
        let decision = Decision {
            verdict: Verdict::Pass,
            rule,
            is_known: false,
            is_related: true,
            is_proxied: false,
            logs,
        };
        if self.is_ambiguous(side, key.back(seen.facts.vrfs[1])) {
            return Decision { verdict: Verdict::Drop(Cause::Ambiguous), ..decision };
        }
        if self.rehearses {
            return decision;
        }
        self.related.begun(&seen.facts);
        match self.begin(side, other, key, seen, begun) {
            true => decision,
            false => Decision { verdict: Verdict::Drop(Cause::Full), ..decision },
        }
    }

    /// The slot of the rule that accepted the parent of a connection, if both go between the same zones.
    fn slot_of_parent<K: Addresses>(
        &self,
        table: &FlowTable<Entry, K>,
        parent: Parent,
        seen: &Seen,
    ) -> Option<u32> {
        let facts = parent.facts(seen.facts);
        let key = K::make(facts.vrfs[0], facts.source, facts.destination, facts.protocol, facts.ports?)?;
        let hit = table.lookup(&key).filter(|hit| hit.direction == Direction::Forward)?;
        let flow = table.flow(hit.id).filter(|flow| flow.expires_ns > self.now_ns)?;
        let is_over = matches!(flow.value.track.state(), State::Closed | State::Reset);
        let zones = [facts.from, facts.to].map(|zone| self.zones.lasting(zone));
        (!is_over && flow.value.zones == zones).then_some(flow.value.slot)
    }

    /// Begins a connection; returns whether there is room for it.
    fn begin<K: Addresses>(
        &mut self,
        side: &mut Side<K>,
        other: &mut dyn Room,
        key: K,
        seen: &Seen,
        begun: Begun,
    ) -> bool {
        let (book, now_ns) = (&mut *self.book, self.now_ns);
        if self.is_over {
            return false;
        }
        let has_room = self.free > 0 || side.make(now_ns, book) || other.make(now_ns, book);
        if !has_room {
            return false;
        }
        self.related.forget_earlier(&seen.facts);
        let Begun { track, rule, slot, parent, proxy } = begun;
        let (source, back) = (key.source(), key.back(seen.facts.vrfs[1]));
        let counts_source =
            rule.is_some_and(|rule| self.ruleset.policy.rules[rule as usize].counts_sources());
        let idle = timeout(&self.ruleset.policy.timeouts, seen.facts.protocol, track.state());
        let entry = Entry {
            track,
            slot,
            zones: [seen.facts.from, seen.facts.to].map(|zone| self.zones.lasting(zone)),
            counts_source,
            parent,
            proxy,
            is_told: false,
            is_marked: false,
            began_s: (self.now_ns / 1_000_000_000) as u32,
        };
        self.book.began(slot, source, counts_source);
        let is_there = side.insert([key, back], entry, self.now_ns + idle, Some(seen.length));
        if !is_there {
            self.book.ended(slot, source, counts_source);
        }
        is_there
    }
}

/// The connection of the packet that an ICMP error quotes, if its time is not over. That packet came in the VRF that the error goes to.
#[inline]
fn quoted_flow<'a, K: Addresses>(
    table: &'a FlowTable<Entry, K>,
    seen: &Seen,
    quoted: &Quoted,
    now_ns: u64,
) -> Option<(Hit, Flow<&'a Entry, K>)> {
    let vrf = seen.facts.vrfs[1];
    let key = K::make(vrf, quoted.source, quoted.destination, quoted.protocol, quoted.ports)?;
    let hit = table.lookup(&key).filter(|_| quoted.source == seen.facts.destination)?;
    table.flow(hit.id).filter(|flow| flow.expires_ns > now_ns).map(|flow| (hit, flow))
}

/// A connection that begins.
struct Begun {
    track: Track,
    /// The rule that accepts it itself.
    rule: Option<u32>,
    slot: u32,
    parent: Option<Parent>,
    proxy: Option<Proxy>,
}

fn verdict(action: Action) -> Verdict {
    match action {
        Action::Accept => Verdict::Pass,
        Action::Drop => Verdict::Drop(Cause::Rule),
        Action::Reject(answer) => Verdict::Reject(answer),
    }
}

#[cfg(test)]
mod tests;
