// SPDX-License-Identifier: MIT OR Apache-2.0
//! The translator: which address and port does a packet get?
//!
//! A *session* is known by the addresses and ports of both ends: its keys are those of its packets inside and outside. What a packet
//! becomes is the other key, so a packet of a known session takes one look-up.
//!
//! A *mapping* gives an inside address and port the same outside address and port towards everyone (RFC 4787, REQ-1). It lives as long as
//! one of its sessions.
//!
//! **Outsiders make no state but by forwards**, and by connections to `static` hosts whose text is looked at, which count as those of forwards. What comes to a mapping from an address that its owner has not sent to passes by the mapping alone, if the filter lets it.
//! A session begins when the inside answers. Forwards have half of the sessions at most, and those of them that nobody has agreed on give way first.
//!
//! **Several may use it at a time.** A packet that changes nothing but counters and the time of its session needs a shared reference alone
//! ([`Nat::leaving_shared`], [`Nat::arriving_shared`]). All else, new sessions and other states among them, needs an exclusive one.
//!
//! Keys of packets as they are inside have zone 0, those of packets as they are outside have zone 1. So the same addresses may be
//! in use on both sides.

mod addresses;
mod adopt;
mod alg;
mod errors;
mod explain;
mod hairpins;
mod held;
mod listing;
mod lives;
mod mirror;
mod room;
mod shared;
mod sip;
mod six;
mod subscribers;
mod vrfs;

use std::collections::HashMap;
use std::sync::Arc;

use fastrand::Rng;
use tables::flow::{Direction, Flow, FlowId, FlowKey, FlowTable, Prepared, Tally};

use crate::hosts::{Hosts, is_stand_in};
use crate::journal::{Event, Lack, Log};
use crate::packet::{End, RST, Unseen, Upper, View, destination, rewrite, rewrite_address, source};
use crate::policy::{Filter, Policy, TCP};
use crate::ports::Kind;
use crate::stream::Stream;
use crate::track::Track;
use addresses::Following;
pub use alg::AlgCounts;
pub use listing::{Session, Subscriber};
pub use shared::PutOff;
pub use sip::Edit;
use subscribers::Subscribers;

/// Zone of keys of packets as they are inside.
const INSIDE: u16 = 0;
/// Zone of keys of packets as they are outside.
const OUTSIDE: u16 = 1;
/// Sessions that are looked at when there is no room.
const SWEPT: usize = 128;

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It goes on as it is.
    Unchanged,
    /// It goes on with other addresses.
    Translated,
    /// The same; and its text may have to change, or its sequence numbers, because it belongs to the session with this number: see [`Nat::speaker`].
    Watched(u32),
    /// It goes on with another destination, and gets another source by this number when it leaves: see [`Nat::split_hairpins`].
    Hairpin(u32),
    /// It is dropped.
    Drop(Cause),
}

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its headers are wrong.
    Malformed,
    /// It is a later fragment.
    Fragment,
    /// It belongs to no session or mapping, and cannot begin one.
    NoMapping,
    /// The filter does not let its sender in.
    Filtered,
    /// It comes from outside, with an inside address as its source or destination.
    Spoofed,
    /// Its subscriber has as many sessions or ports as it may have.
    SubscriberLimit,
    /// No outside port is free.
    NoPort,
    /// The outside interface has no address that can be used.
    NoAddress,
    /// There is no room for another session.
    Full,
}

/// In place of the number of a mapping: none.
const NO_MAPPING: u32 = u32::MAX;

/// What is kept about a session. With its keys and times it fills one cache line, which readers share.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The number of the mapping that it goes by, which is there as long as the session, or [`NO_MAPPING`].
    mapping: u32,
    began_s: u32,
    track: Track,
    /// Whether it counts for the subscriber with its inside address. One of a forward does not.
    counts: bool,
    /// Whether its text is looked at.
    is_watched: bool,
}

const _: () = assert!(size_of::<Option<Entry>>() == 12);

/// What is kept about a mapping.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    sessions: u32,
    /// What its port was given by; the router's own have none.
    translation: Option<u16>,
}

/// A packet that was looked at, and whose session has been asked for.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    view: Result<View, Unseen>,
    key: Option<Prepared<FlowKey>>,
}

/// A translator of IPv4 addresses and ports.
#[derive(Debug)]
pub struct Nat {
    policy: Arc<Policy>,
    /// Outside addresses that are the router's own; first those that are always.
    own: Vec<u32>,
    written_own: Vec<u32>,
    /// Addresses of interfaces.
    following: Following,
    sessions: FlowTable<Entry>,
    /// Their packets and bytes, by their numbers.
    tally: Tally,
    mappings: FlowTable<Mapping>,
    /// By protocol, outside address and port: the inside ones; and the other way round.
    forwards: HashMap<(u8, u32, u16), (u32, u16)>,
    forwarded: HashMap<(u8, u32, u16), (u32, u16)>,
    /// Sessions of forwards.
    of_forwards: usize,
    subscribers: Subscribers,
    /// With the address-dependent filter: how many sessions a mapping has with an address.
    peers: HashMap<(FlowId, u32), u32>,
    rng: Rng,
    hand: usize,
    splits_hairpins: bool,
    /// Ports of its own addresses that subscribers do not get.
    reserved: Vec<(u16, u16)>,
    /// Whether other ports are to be kept than were.
    is_stale: bool,
    /// What has become of the text of sessions, by their numbers: from inside, and to it.
    streams: HashMap<u32, [Stream; 2]>,
    /// The session by which a server waits for the client of a connection of FTP, by that one's number.
    awaited: HashMap<u32, FlowId>,
    algs: AlgCounts,
    /// How many ports of an inside host wait for a peer that may come from any of its ports.
    expected: HashMap<u32, u32>,
    /// The keys of the session by which the last rehearsal has kept a source back.
    tried: Option<(FlowKey, FlowKey)>,
    /// Sessions that a rehearsal has made.
    rehearsed: Option<Vec<FlowId>>,
    /// What is to be reported to a peer.
    changes: Option<mirror::Told>,
}

/// The key of a packet as it is on a side.
#[inline(always)]
fn key(view: &View, zone: u16) -> FlowKey {
    let [sport, dport] = view.ports();
    FlowKey { src: view.source, dst: view.destination, sport, dport, proto: view.protocol, zone }
}

/// The keys of a mapping: of what is inside, and of what is outside.
fn mapping_keys(protocol: u8, inside: (u32, u16), outside: (u32, u16)) -> [FlowKey; 2] {
    let none = FlowKey { src: 0, dst: 0, sport: 0, dport: 0, proto: protocol, zone: INSIDE };
    [
        FlowKey { src: inside.0, sport: inside.1, ..none },
        FlowKey { dst: outside.0, dport: outside.1, zone: OUTSIDE, ..none },
    ]
}

impl Nat {
    /// A translator by a policy. `own` are the outside addresses that are the router's own; `seed` should be random.
    pub fn new(policy: Arc<Policy>, own: &[u32], seed: u64) -> Nat {
        let sessions = policy.sessions;
        let mut nat = Nat {
            own: own.to_vec(),
            written_own: own.to_vec(),
            following: Following::default(),
            sessions: FlowTable::new(sessions, seed),
            tally: Tally::default(),
            mappings: FlowTable::new(sessions, seed.rotate_left(32)),
            forwards: HashMap::new(),
            forwarded: HashMap::new(),
            of_forwards: 0,
            subscribers: Subscribers::default(),
            peers: HashMap::new(),
            rng: Rng::with_seed(seed),
            hand: 0,
            splits_hairpins: false,
            reserved: Vec::new(),
            is_stale: false,
            streams: HashMap::new(),
            awaited: HashMap::new(),
            algs: AlgCounts::default(),
            expected: HashMap::new(),
            tried: None,
            rehearsed: None,
            changes: None,
            policy,
        };
        nat.subscribers.log = nat.policy.log;
        nat.subscribers.hold_ns = nat.policy.timeouts.hold;
        nat.subscribers.hosts = Hosts::new(&nat.policy);
        nat.reserve();
        nat
    }

    /// Whether packets between inside hosts by outside addresses keep their source when they arrive, and get another one by
    /// [`leaving_inside`](Self::leaving_inside). A firewall between sees the addresses that the hosts have, in both directions.
    pub fn split_hairpins(&mut self, splits: bool) {
        self.splits_hairpins = splits;
    }

    /// Enters the forwards, whose ports are nobody else's.
    fn reserve(&mut self) {
        let policy = Arc::clone(&self.policy);
        for one in &policy.forwards {
            for (n, port) in (one.ports.0..=one.ports.1).enumerate() {
                let target = (one.inside, one.port + n as u16);
                for outside in one.outside.iter().copied() {
                    self.forwards.entry((one.protocol, outside, port)).or_insert(target);
                    self.forwarded.entry((one.protocol, target.0, target.1)).or_insert((outside, port));
                    if let Some(kind) = Kind::of(one.protocol) {
                        self.subscribers.space(outside).take(kind, port);
                    }
                }
            }
        }
    }

    /// The policy in force.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// The number of the next event, and the events from a number on: who got which ports.
    pub fn journal(&self, from: u64) -> (u64, Vec<(u64, Event)>) {
        (self.subscribers.journal.next(), self.subscribers.journal.from(from).collect())
    }

    /// How many mappings there are.
    pub fn mappings(&self) -> usize {
        self.mappings.len()
    }

    /// Ends sessions whose time has come; at most so many are looked at.
    #[inline]
    pub fn reap(&mut self, now_ns: u64, mut looks: usize) {
        self.grow_along();
        self.follow_along(looks);
        self.subscribers.pass(now_ns);
        while let Some(id) = self.sessions.expired(now_ns, &mut looks) {
            self.remove(id);
        }
    }

    /// Keeps a range of ports of the router's own addresses from subscribers: programs of the router use them.
    pub fn reserve_own(&mut self, range: (u16, u16)) {
        self.reserved.push(range);
        let own: Vec<u32> =
            self.own.iter().copied().filter(|address| self.policy.is_outside(*address)).collect();
        own.into_iter().for_each(|address| self.reserve_range(address, range));
    }

    fn reserve_range(&mut self, address: u32, (low, high): (u16, u16)) {
        for kind in [Kind::Tcp, Kind::Udp] {
            (low..=high).for_each(|port| self.subscribers.space(address).take(kind, port));
        }
    }

    /// Keeps ports of addresses that have become the router's own.
    fn reserve_on(&mut self, addresses: &[u32]) {
        for range in self.reserved.clone() {
            addresses.iter().for_each(|address| self.reserve_range(*address, range));
        }
    }

    /// Other ports are kept from now on; the next [`replace`](Self::replace) finds out which sessions go on.
    pub fn reserve_instead(&mut self, ranges: &[(u16, u16)]) {
        if self.reserved != ranges {
            self.reserved = ranges.to_vec();
            self.is_stale = true;
        }
    }

    /// Looks at packets of one direction (`leaving` or arriving), so that their sessions are in the cache when each is translated.
    #[inline]
    pub fn look_ahead<'a>(
        &self,
        packets: impl Iterator<Item = &'a [u8]>,
        leaving: bool,
        ahead: &mut Vec<Ahead>,
    ) {
        ahead.clear();
        let zone = if leaving { INSIDE } else { OUTSIDE };
        ahead.extend(packets.map(|ip| {
            // What arrives for others is not looked at. No packet comes from an address that stands for something.
            if (!leaving && !self.is_for_outside(ip)) || source(ip).is_none_or(is_stand_in) {
                return Ahead { view: Err(Unseen::Malformed), key: None };
            }
            self.ahead(ip, zone)
        }));
        for key in ahead.iter().filter_map(|one| one.key.as_ref()) {
            if let Some((number, _)) = self.sessions.approach(key) {
                self.tally.approach(number, usize::from(!leaving));
            }
        }
    }

    /// Looks at a packet as it is on a side.
    #[inline]
    fn ahead(&self, ip: &[u8], zone: u16) -> Ahead {
        let view = View::of(ip);
        let has_key = view.is_ok_and(|view| !matches!(view.upper, Upper::Error(_) | Upper::Alone));
        let key = view.ok().filter(|_| has_key).map(|view| self.sessions.prepare(key(&view, zone)));
        Ahead { view, key }
    }

    /// Whether a packet's destination is an outside address.
    #[inline]
    fn is_for_outside(&self, ip: &[u8]) -> bool {
        destination(ip).is_some_and(|destination| self.policy.is_outside(destination))
    }

    /// Whether packets from an address are translated.
    fn is_inside(&self, address: u32) -> bool {
        self.policy.static_outside(address).is_some() || self.translation(address).is_some()
    }

    /// The translation of an inside address, by number.
    #[inline]
    fn translation(&self, inside: u32) -> Option<usize> {
        match is_stand_in(inside) {
            true => self.subscribers.hosts.translation(inside),
            false => self.policy.translation(inside),
        }
    }

    /// Translates a packet that leaves for the outside: its source.
    #[inline]
    pub fn leaving(&mut self, now_ns: u64, ip: &mut [u8], ahead: &Ahead) -> Outcome {
        let view = match ahead.view {
            Ok(view) => view,
            Err(_) if !self.has_inside_source(ip) => return Outcome::Unchanged,
            Err(why) => return Outcome::Drop(why.into()),
        };
        match self.session_ahead(now_ns, ahead, Direction::Forward) {
            Some(id) => self.known(now_ns, ip, &view, id, 0),
            None => self.leaving_unknown(now_ns, ip, &view),
        }
    }

    /// The session of a packet that was looked at, if it goes in this direction and has not expired.
    #[inline]
    fn session_ahead(&mut self, now_ns: u64, ahead: &Ahead, direction: Direction) -> Option<FlowId> {
        // Another index may have come since the key was prepared.
        let hit = self.sessions.lookup(&ahead.key.as_ref()?.key())?;
        (hit.direction == direction && self.is_alive(hit.id, now_ns)).then_some(hit.id)
    }

    /// Whether a packet's source is translated.
    fn has_inside_source(&self, ip: &[u8]) -> bool {
        source(ip).is_some_and(|source| self.is_inside(source))
    }

    /// Whether a packet from outside has an inside address, though it is not exempt.
    fn is_spoofed(&self, ip: &[u8]) -> bool {
        let Some((source, destination)) = source(ip).zip(destination(ip)) else { return false };
        (self.is_inside(source) || self.is_inside(destination)) && !self.policy.is_exempt(destination, source)
    }

    /// Translates a packet that arrives: its destination, if that is an outside address. If it comes from inside,
    /// its source, too (hairpinning: RFC 4787, REQ-9). `from_outside`: it came by an outside link, and has no inside address.
    #[inline]
    pub fn arriving(&mut self, now_ns: u64, ip: &mut [u8], ahead: &Ahead, from_outside: bool) -> Outcome {
        if ahead.key.is_none() && !self.is_for_outside(ip) {
            return self.passing(ip, from_outside);
        }
        let view = match ahead.view {
            Ok(view) => view,
            Err(why) => return Outcome::Drop(why.into()),
        };
        match self.session_ahead(now_ns, ahead, Direction::Reply) {
            Some(id) => self.known(now_ns, ip, &view, id, 1),
            _ if !self.is_inside(view.source) => self.arriving_unknown(now_ns, ip, &view),
            _ if from_outside && !self.policy.is_exempt(view.destination, view.source) => {
                Outcome::Drop(Cause::Spoofed)
            }
            _ if from_outside => self.arriving_unknown(now_ns, ip, &view),
            _ => self.hairpin(now_ns, ip, &view),
        }
    }

    /// A packet that arrives and is not for an outside address.
    fn passing(&self, ip: &[u8], from_outside: bool) -> Outcome {
        if destination(ip).is_some_and(is_stand_in) || source(ip).is_some_and(is_stand_in) {
            return Outcome::Drop(Cause::Malformed);
        }
        if from_outside && self.is_spoofed(ip) {
            return Outcome::Drop(Cause::Spoofed);
        }
        Outcome::Unchanged
    }

    /// Does the same to a copy of a packet, and forgets it. Only sessions that expired are gone afterwards.
    pub fn rehearse(&mut self, now_ns: u64, ip: &mut [u8], leaving: bool, from_outside: bool) -> Outcome {
        let mut ahead = Vec::with_capacity(1);
        self.look_ahead(std::iter::once(&*ip), leaving, &mut ahead);
        self.trying(now_ns, |nat| match leaving {
            true => nat.leaving(now_ns, ip, &ahead[0]),
            false => nat.arriving(now_ns, ip, &ahead[0], from_outside),
        })
    }

    /// Does something to a copy of a packet: the sessions that it makes are gone afterwards.
    fn trying(&mut self, now_ns: u64, decide: impl FnOnce(&mut Nat) -> Outcome) -> Outcome {
        // What has ended is noted, and not hidden by this.
        self.reap(now_ns, SWEPT);
        self.rehearsed = Some(Vec::new());
        self.subscribers.log = Log::Nothing;
        self.subscribers.is_trying = true;
        let outcome = decide(self);
        let made = self.rehearsed.take().unwrap_or_default();
        self.tried = match outcome {
            Outcome::Hairpin(number) => self.sessions.numbered(number).map(|flow| (flow.forward, flow.reply)),
            _ => None,
        };
        // Their ports have never been used.
        made.into_iter().for_each(|id| self.take_out(id, false));
        self.subscribers.is_trying = false;
        self.subscribers.log = self.policy.log;
        outcome
    }

    /// Whether a session has not expired, and its address is there. One without is gone afterwards.
    #[inline]
    fn is_alive(&mut self, id: FlowId, now_ns: u64) -> bool {
        let is_alive = self
            .sessions
            .flow(id)
            .is_some_and(|flow| flow.expires_ns > now_ns && !self.following.has_lost(flow.reply.dst));
        if !is_alive {
            self.remove(id);
        }
        is_alive
    }

    /// A packet of a known session, from a side.
    #[inline]
    fn known(&mut self, now_ns: u64, ip: &mut [u8], view: &View, id: FlowId, side: usize) -> Outcome {
        let Some(Flow { forward, reply, value, .. }) = self.sessions.flow(id) else {
            return Outcome::Drop(Cause::NoMapping);
        };
        let is_watched = value.is_watched;
        if !goes_well(view, side) {
            return Outcome::Drop(Cause::NoMapping);
        }
        if self.rehearsed.is_none() {
            self.note(now_ns, view, id, side);
        }
        translate(ip, view, side, &forward, &reply);
        if is_watched && self.rehearsed.is_none() {
            self.watch(now_ns, view, Nat::number(id), side);
            return Outcome::Watched(Nat::number(id));
        }
        Outcome::Translated
    }

    /// Notes a packet of a session: counters, state, time.
    #[inline]
    fn note(&mut self, now_ns: u64, view: &View, id: FlowId, side: usize) {
        let Some(entry) = self.sessions.get_mut(id) else { return };
        let track = after(view, entry.track, side);
        let before = std::mem::replace(&mut entry.track, track);
        let idle = track.timeout(view.protocol, &self.policy.timeouts);
        let renews = Track::renews(view.protocol, side);
        if self.changes.is_some() {
            self.note_change(id, view.protocol, [before, track], renews);
        }
        let expires_ns = self.sessions.flow(id).map_or(0, |flow| flow.expires_ns);
        let lives_on = before == track && self.extend(now_ns, view, (id, side), expires_ns, idle);
        if !lives_on && renews {
            self.sessions.set_expiry(id, now_ns.saturating_add(idle));
        }
        self.tally.count(Nat::number(id), side, view.length.into());
    }

    /// A packet that leaves and belongs to no session. None if it may begin one.
    fn leaving_alone(&self, now_ns: u64, ip: &mut [u8], view: &View) -> Option<Outcome> {
        if let Upper::Error(quoted) = view.upper {
            return Some(self.error_outward(now_ns, ip, view, &quoted));
        }
        if self.policy.is_exempt(view.source, view.destination) {
            return Some(Outcome::Unchanged);
        }
        if let Some(outside) = self.policy.static_outside(view.source) {
            if self.has_text(&key(view, INSIDE)) {
                return None;
            }
            rewrite_address(ip, view, End::Source, outside);
            return Some(Outcome::Translated);
        }
        let begins = self.translation(view.source).is_some()
            || (self.own.contains(&view.source) && self.may_clash(view))
            || (self.policy.is_outside(view.source) && !self.own.contains(&view.source))
            || self.forwarded.contains_key(&(view.protocol, view.source, view.ports()[0]));
        (!begins).then_some(Outcome::Unchanged)
    }

    fn leaving_unknown(&mut self, now_ns: u64, ip: &mut [u8], view: &View) -> Outcome {
        if let Some(outcome) = self.leaving_alone(now_ns, ip, view) {
            return outcome;
        }
        if let Some(outside) = self.policy.static_outside(view.source) {
            if let Some(id) = self.begin_static(now_ns, view, key(view, INSIDE), outside) {
                return self.known(now_ns, ip, view, id, 0);
            }
            rewrite_address(ip, view, End::Source, outside);
            return Outcome::Translated;
        }
        let [port, _] = view.ports();
        if let Some(outside) = self.forwarded.get(&(view.protocol, view.source, port)).copied() {
            return match self.begin_forwarded(now_ns, view, outside) {
                Ok(id) => self.known(now_ns, ip, view, id, 0),
                Err(cause) => self.no_room(view, cause),
            };
        }
        let by = match self.translation(view.source) {
            Some(number) => Some(number as u16),
            None if self.own.contains(&view.source) && self.may_clash(view) => None,
            // Nobody but the router sends from outside addresses.
            None if self.policy.is_outside(view.source) && !self.own.contains(&view.source) => {
                return Outcome::Drop(Cause::Spoofed);
            }
            None => return Outcome::Unchanged,
        };
        let begins = match view.upper {
            Upper::Answer { .. } | Upper::Alone => false,
            Upper::Ports { flags, .. } => view.protocol != TCP || flags & RST == 0,
            _ => true,
        };
        if !begins {
            // The answer to a stranger who has come by the mapping alone.
            let mapping = self.mapping_from(view.protocol, (view.source, port));
            if let Some((_, outside)) = mapping.filter(|_| view.protocol == TCP) {
                rewrite(ip, view, End::Source, outside.0, outside.1);
                return Outcome::Translated;
            }
            return if by.is_some() { Outcome::Drop(Cause::NoMapping) } else { Outcome::Unchanged };
        }
        match self.begin(now_ns, view, by) {
            Ok(id) => self.known(now_ns, ip, view, id, 0),
            Err(cause) => self.no_room(view, cause),
        }
    }

    /// There was no room for a session of a packet that leaves.
    fn no_room(&mut self, view: &View, cause: Cause) -> Outcome {
        let lack = match cause {
            Cause::SubscriberLimit => Some(Lack::Limit),
            Cause::NoPort => Some(Lack::Ports),
            Cause::Full => Some(Lack::Sessions),
            _ => None,
        };
        let inside = (view.source, view.ports()[0]);
        let policy = Arc::clone(&self.policy);
        lack.into_iter().for_each(|lack| self.subscribers.note_lack(&policy, lack, view.protocol, inside));
        Outcome::Drop(cause)
    }

    /// Whether a packet of the router itself has a port that a subscriber may get, too.
    fn may_clash(&self, view: &View) -> bool {
        let [port, _] = view.ports();
        let is_reserved = self.reserved.iter().any(|(low, high)| *low <= port && port <= *high);
        if is_reserved && matches!(Kind::of(view.protocol), Some(Kind::Tcp | Kind::Udp)) {
            return false;
        }
        let mut of =
            self.policy.translations.iter().filter(|one| one.pool.iter().any(|r| r.holds(view.source)));
        of.any(|one| Kind::of(view.protocol).is_none() || (one.ports.0 <= port && port <= one.ports.1))
    }

    fn arriving_unknown(&mut self, now_ns: u64, ip: &mut [u8], view: &View) -> Outcome {
        if let Some(outcome) = self.arriving_alone(now_ns, ip, view) {
            return outcome;
        }
        if let Some(inside) = self.policy.static_inside(view.destination) {
            let begun = match self.rehearsed {
                Some(_) => None,
                None => self.begin_static(now_ns, view, forward_of(view, inside), view.destination),
            };
            if let Some(id) = begun {
                return self.known(now_ns, ip, view, id, 1);
            }
            rewrite_address(ip, view, End::Destination, inside);
            return Outcome::Translated;
        }
        let forward = (view.protocol, view.destination, view.ports()[1]);
        let Some(target) = self.forwards.get(&forward).copied() else {
            return Outcome::Drop(Cause::NoMapping);
        };
        if self.rehearsed.is_some() {
            rewrite(ip, view, End::Destination, target.0, target.1);
            return Outcome::Translated;
        }
        match self.begin_forward(now_ns, view, target) {
            Ok(id) => self.known(now_ns, ip, view, id, 1),
            Err(cause) => Outcome::Drop(cause),
        }
    }

    /// A packet that arrives and belongs to no session. None if a forward leads it inside, by a session of its own.
    fn arriving_alone(&self, now_ns: u64, ip: &mut [u8], view: &View) -> Option<Outcome> {
        if let Upper::Error(quoted) = view.upper {
            return Some(self.error_inward(now_ns, ip, view, &quoted));
        }
        if let Some(inside) = self.policy.static_inside(view.destination) {
            if self.has_text(&forward_of(view, inside)) {
                return None;
            }
            rewrite_address(ip, view, End::Destination, inside);
            return Some(Outcome::Translated);
        }
        let [_, port] = view.ports();
        if self.forwards.contains_key(&(view.protocol, view.destination, port)) {
            return None;
        }
        Some(self.arriving_at_mapping(ip, view, port))
    }

    /// A packet of a stranger to a port of an outside address.
    fn arriving_at_mapping(&self, ip: &mut [u8], view: &View, port: u16) -> Outcome {
        let mapping = self.mapping_of(view.protocol, view.destination, port);
        // Answers of ICMP are for those who have asked.
        let is_answer = matches!(view.upper, Upper::Answer { .. });
        let Some((id, inside)) = mapping.filter(|_| !is_answer) else {
            return self.unmapped(view.destination);
        };
        if !self.lets_in(id, view, inside) {
            return Outcome::Drop(Cause::Filtered);
        }
        rewrite(ip, view, End::Destination, inside.0, inside.1);
        Outcome::Translated
    }

    /// A packet to an outside address that nobody inside has asked for: it may be for the router itself.
    fn unmapped(&self, destination: u32) -> Outcome {
        if self.own.contains(&destination) { Outcome::Unchanged } else { Outcome::Drop(Cause::NoMapping) }
    }

    /// The mapping of an outside address and port, with the inside ones.
    fn mapping_of(&self, protocol: u8, address: u32, port: u16) -> Option<(FlowId, (u32, u16))> {
        let [_, outside] = mapping_keys(protocol, (0, 0), (address, port));
        let hit = self.mappings.lookup(&outside)?;
        let flow = self.mappings.flow(hit.id)?;
        Some((hit.id, (flow.forward.src, flow.forward.sport)))
    }

    /// The mapping of an inside address and port, with the outside ones.
    fn mapping_from(&self, protocol: u8, inside: (u32, u16)) -> Option<(FlowId, (u32, u16))> {
        let [inner, _] = mapping_keys(protocol, inside, (0, 0));
        let hit = self.mappings.lookup(&inner)?;
        let flow = self.mappings.flow(hit.id).filter(|flow| !self.following.has_lost(flow.reply.dst))?;
        Some((hit.id, (flow.reply.dst, flow.reply.dport)))
    }

    /// Whether the filter lets an address that its owner has no session with send to a mapping.
    fn lets_in(&self, mapping: FlowId, view: &View, inside: (u32, u16)) -> bool {
        match self.policy.filter {
            Filter::EndpointIndependent => true,
            Filter::AddressDependent => self.peers.contains_key(&(mapping, view.source)),
            Filter::AddressAndPortDependent => self.is_expected(view.protocol, inside, view.source),
        }
    }
}

/// The key that a packet from outside has inside, where its destination alone is another one.
fn forward_of(view: &View, inside: u32) -> FlowKey {
    FlowKey { src: inside, zone: INSIDE, ..key(view, OUTSIDE).reversed() }
}

/// The state after a packet of a side.
#[inline]
fn after(view: &View, mut track: Track, side: usize) -> Track {
    let flags = if let Upper::Ports { flags, .. } = view.upper { flags } else { 0 };
    track.note(view.protocol, side, flags);
    track
}

/// Whether a packet may go this way: an answer to a query never goes the query's.
#[inline]
fn goes_well(view: &View, side: usize) -> bool {
    match view.upper {
        Upper::Query { .. } => side == 0,
        Upper::Answer { .. } => side == 1,
        _ => true,
    }
}

/// Gives a packet of a session, from a side, its other addresses and ports.
#[inline]
fn translate(ip: &mut [u8], view: &View, side: usize, forward: &FlowKey, reply: &FlowKey) {
    match side {
        0 => rewrite(ip, view, End::Source, reply.dst, reply.dport),
        _ => rewrite(ip, view, End::Destination, forward.src, forward.sport),
    }
}

impl From<Unseen> for Cause {
    fn from(why: Unseen) -> Cause {
        match why {
            Unseen::Malformed => Cause::Malformed,
            Unseen::Fragment => Cause::Fragment,
        }
    }
}

#[cfg(test)]
mod tests;
