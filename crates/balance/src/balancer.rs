// SPDX-License-Identifier: MIT OR Apache-2.0
//! The load balancer: which server does a packet go to?
//!
//! A *session* is a connection of a client with a service, and remembers its server. Packets of a known session take one look-up. Others go by
//! the service's table (see [`maglev`](crate::maglev)), and begin a session.
//!
//! **The table of sessions may be full.** Sessions that both sides have not agreed on give way. If there are none, the one gives way that is idle for
//! longest, of those that a stranger can have made: of UDP, or with direct return. If there is none either, packets go by the table of the
//! service alone. So a flood ends no agreed connection that is in use, and keeps out new ones only if their answers would be ambiguous.
//!
//! **Servers change.** A server that drains, or has weight 0, keeps its sessions. Sessions of a server that is down or gone are moved with
//! their next packet. A server has a *slot*, which lasts as long as its sessions do, also when the file no longer names it.
//!
//! **Memory.** A session takes a record of 128 bytes, 26 of the index and 16 of a heap; the index is there from the start. A service has its table as well.
//!
//! Keys of the client's packets have zone 0, those of answers, with address translation, zone 1.

mod apply;
mod bonds;
mod checks;
mod errors;
mod listing;
mod replace;
mod servers;
mod sessions;

use std::collections::HashMap;
use std::sync::Arc;

use fastrand::Rng;
use foldhash::fast::FixedState;
use tables::flow::{Flow, FlowId, FlowKey6, FlowTable, Prepared};

use crate::packet::{ACK, Quoted, SYN, Unseen, Upper, View, addresses, is_icmp};
use crate::policy::{Mode, Policy, TCP, UDP};
use crate::tally::{Marks, Tally};
use crate::track::{Side, Track};
use bonds::Bonds;
use checks::Checks;
pub use listing::{ServerView, ServiceView, Session};
pub use replace::{Draft, Retired, Superseded};
pub use servers::{Change, State};
use servers::{Face, Slot};

/// Zone of keys of packets from clients.
const CLIENTS: u16 = 0;
/// Zone of keys of packets from servers.
const SERVERS: u16 = 1;

/// Where packets meet the balancer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// In one place, before they are routed: requests and answers.
    #[default]
    Only,
    /// Before they are routed. Answers are translated by [`Stage::Leaving`].
    Arriving,
    /// After they were routed: answers alone. A firewall in between then sees the servers' own addresses in both directions.
    Leaving,
}

impl Stage {
    /// Whether requests get their server here.
    #[inline]
    fn takes_requests(self) -> bool {
        self != Stage::Leaving
    }

    /// Whether answers get the address of their service here.
    #[inline]
    fn takes_answers(self) -> bool {
        self != Stage::Arriving
    }
}

/// What is done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It goes on as it is.
    Unchanged,
    /// It goes on as it is, by this next hop.
    Direct(std::net::IpAddr),
    /// It goes on with this destination.
    Translated(std::net::IpAddr),
    /// It goes on with the service's address as its source.
    Answered,
    /// It was the answer to a probe, and ends here.
    Consumed,
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
    /// No server of its service is alive.
    NoServer,
    /// Each server that was tried has a session with this client's address and port already, by another service.
    Taken,
    /// There is no room for its session, and without one its answers would be ambiguous.
    Full,
    /// It has come from outside, and its source is a server's address.
    Spoofed,
}

impl From<Unseen> for Cause {
    fn from(why: Unseen) -> Cause {
        match why {
            Unseen::Malformed => Cause::Malformed,
            Unseen::Fragment => Cause::Fragment,
        }
    }
}

/// What is kept about a session.
#[derive(Clone, Copy, Debug)]
struct Entry {
    slot: u32,
    began_s: u32,
    tally: Tally,
    /// The policy that it was last compared with.
    epoch: u16,
    track: Track,
    marks: Marks,
}

// A record of the table then has two lines.
const _: () = assert!(size_of::<Option<Entry>>() == 28);

/// The table of sessions.
type Sessions = FlowTable<Entry, FlowKey6>;

/// What an address is, in bits.
mod role {
    /// That of a service.
    pub(super) const VIRTUAL: u8 = 1;
    /// That of a server with address translation.
    pub(super) const BEHIND: u8 = 2;
    /// The router's own, from which probes come.
    pub(super) const OWN: u8 = 4;
    /// That of a server that is probed.
    pub(super) const PROBED: u8 = 8;
}

/// What a packet is, by its addresses.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// None of ours.
    Other,
    /// Ours, and it cannot be used.
    Wrong(Unseen),
    /// From a client to a service.
    Client(View, Prepared<FlowKey6>),
    /// From a server with address translation.
    Server(View, Prepared<FlowKey6>),
    /// An error about what a service has sent.
    ErrorIn(View, Quoted),
    /// An error about what was sent to a server.
    ErrorOut(View, Quoted),
    /// From a server that is probed to the router.
    Own(View, Stage),
}

/// A packet that was looked at, and whose session has been asked for.
#[derive(Clone, Copy, Debug)]
pub struct Ahead(Way);

/// A load balancer.
#[derive(Debug)]
pub struct Balancer {
    policy: Arc<Policy>,
    faces: Vec<Face>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    sessions: Sessions,
    bonds: Bonds,
    roles: HashMap<u128, u8, FixedState>,
    /// The service of an address, a protocol and a port; port 0 stands for all others.
    ports: HashMap<(u128, Option<u8>, u16), u16, FixedState>,
    /// Slots of each server with address translation.
    behind: HashMap<u128, Vec<u32>, FixedState>,
    hand: sessions::Hand,
    /// Until then answers may come to packets that went without a session.
    by_hash_until_ns: u64,
    /// Counts policies.
    epoch: u16,
    checks: Checks,
    rng: Rng,
    /// Counts slots that were taken.
    serials: u32,
    /// When sessions were last looked at.
    latest_ns: u64,
    /// What is no longer needed, and takes time to go.
    retired: Retired,
}

/// The key of a packet, in a zone.
#[inline(always)]
fn key(view: &View, zone: u16) -> FlowKey6 {
    let [sport, dport] = view.ports();
    FlowKey6 { src: view.source, dst: view.destination, sport, dport, proto: view.protocol(), zone }
}

impl Balancer {
    /// A load balancer by a policy. `seed` should be random.
    pub fn new(policy: Arc<Policy>, seed: u64, now_ns: u64) -> Balancer {
        let empty = Policy { services: Vec::new(), own: [None; 2], ..Policy::clone(&policy) };
        let mut balancer = Balancer {
            sessions: FlowTable::new(empty.sessions, seed),
            bonds: Bonds::default(),
            policy: Arc::new(empty),
            faces: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            roles: HashMap::default(),
            ports: HashMap::default(),
            behind: HashMap::default(),
            hand: sessions::Hand::default(),
            by_hash_until_ns: 0,
            epoch: 0,
            checks: Checks::default(),
            rng: Rng::with_seed(seed),
            serials: 0,
            latest_ns: now_ns,
            retired: Retired::default(),
        };
        let mut draft = balancer.draft(policy);
        draft.build();
        balancer.put_in_place(draft, now_ns);
        balancer
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

    /// How many client addresses are known that keep their server.
    pub fn clients(&self) -> usize {
        self.bonds.len()
    }

    /// Ends sessions whose time has come; at most so many are looked at.
    #[inline]
    pub fn reap(&mut self, now_ns: u64, mut looks: usize) {
        self.latest_ns = self.latest_ns.max(now_ns);
        self.reap_bonds(now_ns, looks);
        while let Some(id) = self.sessions.expired(now_ns, &mut looks) {
            self.end(id);
        }
    }

    /// Looks at packets, so that their sessions are in the cache when each is balanced.
    #[inline]
    pub fn look_ahead<'a>(
        &self,
        packets: impl Iterator<Item = &'a [u8]>,
        stage: Stage,
        ahead: &mut Vec<Ahead>,
    ) {
        ahead.clear();
        ahead.extend(packets.map(|ip| Ahead(self.way(ip, stage, true))));
        for Ahead(way) in ahead {
            if let Way::Client(_, key) | Way::Server(_, key) = way {
                self.sessions.approach(key);
            }
        }
    }

    #[inline]
    fn role(&self, address: u128) -> u8 {
        self.roles.get(&address).copied().unwrap_or_default()
    }

    /// Whether the source of a packet is a server with address translation. Such packets never come from outside.
    #[inline]
    pub fn is_from_server(&self, ip: &[u8]) -> bool {
        addresses(ip).is_some_and(|[source, _]| self.role(source) & role::BEHIND != 0)
    }

    /// What a packet is. `answers`: it may answer a probe.
    #[inline]
    fn way(&self, ip: &[u8], stage: Stage, answers: bool) -> Way {
        let Some([source, destination]) = addresses(ip) else { return Way::Other };
        let (mut from, mut to) = (self.role(source), self.role(destination));
        if !stage.takes_answers() {
            from &= !role::BEHIND;
        }
        if !stage.takes_requests() {
            to = 0;
        }
        let is_own = answers && to & role::OWN != 0 && from & role::PROBED != 0;
        if !is_own && to & role::VIRTUAL == 0 && from & role::BEHIND == 0 {
            return if stage.takes_answers() { self.error_from_afar(ip) } else { Way::Other };
        }
        let view = match View::of(ip) {
            Ok(view) => view,
            Err(_) if is_own && to & role::VIRTUAL == 0 => return Way::Other,
            Err(why) => return Way::Wrong(why),
        };
        match view.upper {
            _ if is_own => Way::Own(view, stage),
            Upper::Alone => Way::Other,
            Upper::Error(quoted) if stage.takes_answers() && self.is_about_server(&quoted) => {
                Way::ErrorOut(view, quoted)
            }
            Upper::Error(quoted) if to & role::VIRTUAL != 0 => Way::ErrorIn(view, quoted),
            Upper::Error(_) => Way::Other,
            _ if to & role::VIRTUAL != 0 => Way::Client(view, self.sessions.prepare(key(&view, CLIENTS))),
            _ => Way::Server(view, self.sessions.prepare(key(&view, SERVERS))),
        }
    }

    /// A router between may send errors about what was sent to a server.
    #[inline]
    fn error_from_afar(&self, ip: &[u8]) -> Way {
        if self.behind.is_empty() || !is_icmp(ip) {
            return Way::Other;
        }
        match View::of(ip) {
            Ok(view) => match view.upper {
                Upper::Error(quoted) if self.is_about_server(&quoted) => Way::ErrorOut(view, quoted),
                _ => Way::Other,
            },
            Err(_) => Way::Other,
        }
    }

    fn is_about_server(&self, quoted: &Quoted) -> bool {
        self.role(quoted.destination) & role::BEHIND != 0
    }

    /// Balances a packet that was looked at.
    #[inline]
    pub fn arriving(&mut self, now_ns: u64, ip: &mut [u8], ahead: &Ahead) -> Outcome {
        self.go(now_ns, ip, &ahead.0)
    }

    fn go(&mut self, now_ns: u64, ip: &mut [u8], way: &Way) -> Outcome {
        match way {
            Way::Other => Outcome::Unchanged,
            Way::Wrong(why) => Outcome::Drop((*why).into()),
            Way::Client(view, key) => self.client_packet(now_ns, ip, view, key),
            Way::Server(view, key) => self.server_packet(now_ns, ip, view, key),
            Way::ErrorIn(view, quoted) => self.error_in(now_ns, ip, view, quoted),
            Way::ErrorOut(view, quoted) => self.error_out(now_ns, ip, view, quoted),
            Way::Own(view, _) if self.answer(now_ns, ip, view) => Outcome::Consumed,
            Way::Own(_, stage) => {
                let way = self.way(ip, *stage, false);
                self.go(now_ns, ip, &way)
            }
        }
    }

    /// Does the same to a copy of a packet, and leaves everything else as it is.
    pub fn rehearse(&self, now_ns: u64, ip: &mut [u8], stage: Stage) -> Outcome {
        let way = match self.way(ip, stage, true) {
            Way::Own(view, _) if self.answered(ip, &view).is_none() => self.way(ip, stage, false),
            way => way,
        };
        match way {
            Way::Other => Outcome::Unchanged,
            Way::Wrong(why) => Outcome::Drop(why.into()),
            Way::Client(view, key) => self.rehearse_client(now_ns, ip, &view, &key.key()),
            Way::Server(view, key) => match self.source_of(now_ns, &view, &key) {
                Some((_, service)) => apply::answer(ip, &view, service),
                None => Outcome::Unchanged,
            },
            Way::ErrorIn(view, quoted) => self.error_in(now_ns, ip, &view, &quoted),
            Way::ErrorOut(view, quoted) => self.error_out(now_ns, ip, &view, &quoted),
            Way::Own(..) => Outcome::Consumed,
        }
    }

    #[inline]
    fn client_packet(
        &mut self,
        now_ns: u64,
        ip: &mut [u8],
        view: &View,
        key: &Prepared<FlowKey6>,
    ) -> Outcome {
        if let Some(hit) = self.sessions.lookup_prepared(key) {
            if let Some(slot) = self.stays(now_ns, hit.id, view.flags()) {
                self.renew(hit.id);
                self.note(now_ns, hit.id, view, Side::Client);
                return apply::request(ip, view, &self.slots[slot as usize]);
            }
            self.end(hit.id);
        }
        self.begin(now_ns, ip, view, &key.key())
    }

    /// The slot of a session, if a packet of its client goes on with it.
    #[inline]
    fn stays(&self, now_ns: u64, id: FlowId, flags: u8) -> Option<u32> {
        let flow = self.sessions.flow(id).filter(|flow| flow.expires_ns > now_ns)?;
        let slot = &self.slots[flow.value.slot as usize];
        let is_anew = flow.value.track.begins_anew(slot.mode, flags);
        let goes_on = slot.serves() && (!is_anew || slot.takes_new()) && self.may_stay(&flow, is_anew);
        goes_on.then_some(flow.value.slot)
    }

    /// Whether another policy leaves a session with its service. A connection that is agreed on stays to its end.
    #[inline]
    fn may_stay(&self, flow: &Flow<&Entry, FlowKey6>, is_anew: bool) -> bool {
        flow.value.epoch == self.epoch
            || self.is_still_its(flow)
            || (flow.forward.proto == TCP && flow.value.track.is_settled() && !is_anew)
    }

    /// Whether the port of a session still belongs to its service.
    #[cold]
    fn is_still_its(&self, flow: &Flow<&Entry, FlowKey6>) -> bool {
        let FlowKey6 { proto, dst, dport, .. } = flow.forward;
        let service = self.slots[flow.value.slot as usize].service.map(usize::from);
        service.is_some() && self.service_of(proto, dst, dport) == service
    }

    /// Notes that a session agrees with the policy, so that its next packets need not ask.
    #[inline]
    fn renew(&mut self, id: FlowId) {
        let is_old = self.sessions.get(id).is_some_and(|entry| entry.epoch != self.epoch);
        if !is_old || !self.sessions.flow(id).is_some_and(|flow| self.is_still_its(&flow)) {
            return;
        }
        if let Some(entry) = self.sessions.get_mut(id) {
            entry.epoch = self.epoch;
        }
    }

    fn server_packet(
        &mut self,
        now_ns: u64,
        ip: &mut [u8],
        view: &View,
        key: &Prepared<FlowKey6>,
    ) -> Outcome {
        let Some((id, service)) = self.source_of(now_ns, view, key) else { return Outcome::Unchanged };
        if let Some(id) = id {
            self.note(now_ns, id, view, Side::Server);
        }
        apply::answer(ip, view, service)
    }

    /// The address and port of the service that a server's packet answers for, and its session, if it has one.
    #[inline]
    fn source_of(
        &self,
        now_ns: u64,
        view: &View,
        key: &Prepared<FlowKey6>,
    ) -> Option<(Option<FlowId>, (u128, u16))> {
        if let Some(hit) = self.sessions.lookup_prepared(key)
            && let Some(flow) = self.sessions.flow(hit.id).filter(|flow| flow.expires_ns > now_ns)
        {
            return Some((Some(hit.id), (flow.forward.dst, flow.forward.dport)));
        }
        if now_ns >= self.by_hash_until_ns {
            return None;
        }
        Some((None, self.service_by_hash(now_ns, view)?))
    }

    /// The service that a server's packet answers for by the hash alone. Packets that ask or begin a connection are the server's own.
    fn service_by_hash(&self, now_ns: u64, view: &View) -> Option<(u128, u16)> {
        let asks = match view.upper {
            Upper::Ports { flags, .. } => flags & (SYN | ACK) == SYN,
            Upper::Query { .. } => true,
            _ => false,
        };
        if asks { None } else { self.only_service_of(now_ns, &key(view, SERVERS)) }
    }

    /// The address and port of the only service whose hash leads the client of an answer to the server that it comes from.
    fn only_service_of(&self, now_ns: u64, answer: &FlowKey6) -> Option<(u128, u16)> {
        let has_ports = matches!(answer.proto, TCP | UDP);
        let mut found = None;
        for number in self.behind.get(&answer.src)? {
            let slot = &self.slots[*number as usize];
            let Some(at) = slot.service.map(usize::from) else { continue };
            let service = &self.policy.services[at];
            let before = match slot.port.filter(|_| has_ports) {
                Some(own) if own == answer.sport => service.only_port(),
                Some(_) => None,
                None => Some(answer.sport).filter(|port| service.has_port(*port)),
            };
            let Some(port) = before else { continue };
            let dst = crate::packet::number(service.address);
            let request = FlowKey6 { dst, dport: port, zone: CLIENTS, ..answer.reversed() };
            let is_its = self.service_of(request.proto, dst, port) == Some(at)
                && self.server_for(now_ns, at, request.src, self.hash(at, &request)) == Some(*number);
            if is_its && found.replace((dst, port)).is_some() {
                return None;
            }
        }
        found
    }

    /// The service that packets to an address and port are for.
    fn service_of(&self, protocol: u8, address: u128, port: u16) -> Option<usize> {
        let find = |protocol: Option<u8>, port: u16| self.ports.get(&(address, protocol, port)).copied();
        let exact = if port == 0 { None } else { find(Some(protocol), port) };
        exact.or_else(|| find(Some(protocol), 0)).or_else(|| find(None, 0)).map(usize::from)
    }

    /// How a slot's packets travel.
    fn mode(&self, slot: u32) -> Mode {
        self.slots[slot as usize].mode
    }
}

#[cfg(test)]
mod tests;
