// SPDX-License-Identifier: MIT OR Apache-2.0
//! # BFD
//!
//! `BFD(LINK NAME [OUTPUT [OUTPUT6]], ... [, keywords SESSION, TABLE, TABLE6, VRF])`
//!
//! Watches neighbours by Bidirectional Forwarding Detection, and takes dead next hops out of routing tables.
//!
//! **Ports:** push inputs, one for each link, for packets with IP header whose UDP destination port is 3784, 3785 or 4784. Push outputs, one for
//! each link, for IPv4 packets with IP header; their destination annotation is the neighbour. As many outputs follow for IPv6, if
//! a session needs them.
//!
//! **Arguments**
//! * `LINK NAME [OUTPUT [OUTPUT6]]` a link, in the order of the ports. OUTPUT is the output of TABLE that leads there, OUTPUT6,
//!   default OUTPUT, that of TABLE6.
//! * `SESSION NEIGHBOUR LOCAL LINK [options]` a neighbour, the own address towards it, and its link; `-` as LINK for a neighbour
//!   several hops away. May be repeated. These are the options.
//!   `TX TIME`, `RX TIME`: intervals of sending and receiving, at least 1 ms, default 300 ms.
//!   `MULT N`: how many packets may be missing, default 3.
//!   `ECHO TIME`: shortest interval at which echo packets of the neighbour are returned, default 0: none.
//!   `ECHO_TX TIME`: interval at which own echo packets are sent, at least 1 ms, over one hop only, default 0: none.
//!   `ECHO_SOURCE ADDRESS`: another own address, from which they come, default LOCAL.
//!   `TTL N`: least TTL of received packets, over several hops only, default 254.
//!   `VRF NAME`: the VRF whose routes it takes, over several hops only, default the main table.
//!   `AUTH KIND KEY SECRET`: authenticates packets of both sides. KIND is `password`, `md5`, `meticulous-md5`, `sha1` or `meticulous-sha1`, KEY the number
//!   of the key, 0 to 255, SECRET without spaces. `AUTH none`, the default, authenticates nothing.
//!   `DISCRIMINATOR N`: the session's number, default random.
//!   `PASSIVE`: waits for the neighbour to begin.
//!   `DEPENDENT`: says that the session ends with the control plane.
//!   `DOWN`: holds it down.
//! * `TABLE` the StaticIPLookup, or one of its synonyms, and `TABLE6` the LookupIP6Route, whose next hops the sessions guard.
//!   Sessions over several hops send by the routes there.
//! * `VRF NAME NUMBER` the number of VRF NAME's table, 1 to 255, in TABLE and TABLE6, which need VRF_ANNO. May be repeated.
//!
//! When a session fails, its neighbour counts as dead. Groups of next hops in TABLE and TABLE6 leave it out, and so does a RouteFeed whose
//! `BFD` names this element. When the session is up again, the neighbour returns. A neighbour that is down for an administrative reason stays
//! in use, and so does one whose session has never been up (RFC 5882). Flows of other next hops do not move.
//!
//! Intervals are jittered (RFC 5880, 6.8.7), and until a session is up it sends once a second at most. Demand
//! mode is respected, but not asked for. A session whose AUTH changes begins anew. Handlers, recordings and messages show
//! `***` in place of secrets.
//!
//! **Echo packets** (RFC 5880, 6.8.9; RFC 5881, 4) are UDP packets to port 3785 from ECHO_SOURCE to LOCAL, both own addresses. The neighbour gets them by its Ethernet
//! address, and sends them back as it forwards any packet. They are sent while the session is up and the neighbour reports that it
//! returns them. When MULT of them in a row do not come back within their intervals, the session is down with the diagnostic "echo failed". Meanwhile
//! the neighbour may send control packets once a second. Where LOCAL is link-local, they go to ECHO_SOURCE. Elements that drop
//! packets from own addresses must let them pass: see `ECHO` of CheckIPAddresses and CheckIP6Header.
//!
//! **Drops:** `discarded` for packets that were read, `rate-exceeded` for echo packets that a neighbour sends faster than ECHO allows. `bad-hop-limit` for a TTL below
//! the session's, `inactive` for a session that is held down, `no-route` for packets over several hops. `bad-bfd`, `no-bfd-session`, `too-short`, `bad-length`,
//! `bad-version`, `bad-checksum`, `bad-protocol` for other packets that do not count. The handler `discards` counts by the rules of RFC 5880.
//!
//! **Handlers**
//! * `sessions` read: a line for each session. `json` read: the same as JSON, with the names of FRR's `show bfd peers json`.
//! * `discards` read: how many packets each rule of reception has discarded: `REASON COUNT`, a line each.
//! * `changes` read: how many times sessions have changed their states.
//! * `add` write: a session, as SESSION. `set` write: the same; changes it if there is one, and leaves AUTH and ECHO_SOURCE as they are where
//!   they are not named. `AUTH none` ends authentication. `remove` write: `NEIGHBOUR LINK`, or over several hops `NEIGHBOUR LOCAL - [VRF NAME]`.
//!
//! ```click
//! in :: Idle -> bfd :: BFD(LINK eth0 0, SESSION 10.0.0.2 10.0.0.1 eth0 TX 50ms RX 50ms MULT 3, TABLE rt);
//! bfd -> arp :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1) -> Discard;
//! Idle -> rt :: StaticIPLookup(10.1.0.0/16 10.0.0.2 0) -> [0]arp;
//! Idle -> [1]arp;
//! ```
//!
//! See also: RouteFeed, StaticIPLookup, LookupIP6Route. RFC 5880, RFC 5881, RFC 5882, RFC 5883

pub(crate) mod frame;
mod guard;
mod liveness;
mod peer;
mod show;
#[cfg(test)]
mod tests;

use element::clock::Nanos;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bfd::{
    Change, Discard, PACKET_MAX, PORT_ECHO, PORT_MULTI_HOP, PORT_SINGLE_HOP, Repr, Session, SessionKey,
    Sessions, State,
};
use element::args::{Args, FromArg, Names};
use element::{
    Class, Cx, Element, HandlerError, HotSwap, InitCx, OpenCx, Provide, Provided, Reason, Tasks, handlers,
};
use packet::{Batch, Packet};

use frame::{Path, Received};
use guard::Tables;
pub use liveness::Liveness;
pub(crate) use liveness::{Down, Follow, Neighbour};
use peer::{Count, Peer, Wanted, far, on_link};

use super::route_feed::Vrf;

/// The descriptor.
pub const CLASS: Class = Class::new("BFD", "-/-", || Box::new(Bfd::default()))
    .processing("h/h")
    .flow("x/y")
    .serial("each session sends by one schedule")
    .secrets(peer::secrets)
    .handlers(handlers! { Bfd:
        read "sessions" => |bfd, cx| bfd.shown(cx.now(), show::line).concat();
        read "json" => |bfd, cx| format!("[{}]", bfd.shown(cx.now(), show::json).join(",\n"));
        read "discards" => |bfd| bfd.show_discards();
        read "changes" => .changes;
        write "add" => |bfd, cx, text: &str| bfd.enter(cx, text, false)?;
        write "set" => |bfd, cx, text: &str| bfd.enter(cx, text, true)?;
        write "remove" => |bfd, cx, text: &str| {
            let done = bfd.remove_text(text);
            bfd.run(cx);
            done.map_err(HandlerError::failed)?;
        };
    })
    .hot_swap::<Bfd>()
    .provide::<Bfd>()
    .file(file!());

/// The only timer: when a session is due.
const NEXT: u32 = 0;
/// Packets that wait get this time before their senders count as silent. A worker looks at timers before devices, so each device has a turn.
const GRACE: Duration = Duration::from_millis(1);
/// UDP source ports (RFC 5881 section 4), one for each session.
const PORTS: std::ops::Range<u16> = 49152..65535;

/// A link and the outputs of the tables that lead to it.
#[derive(Clone, Debug)]
struct Link {
    name: Arc<str>,
    outputs: Option<[u32; 2]>,
}

impl FromArg for Link {
    const EXPECTED: &'static str = "a link's name and the tables' outputs that lead to it, as eth0 1";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let name = words.next().ok_or_else(String::new)?.into();
        let numbers: Result<Vec<u32>, _> = words.map(str::parse).collect();
        let outputs = match numbers.as_deref() {
            Ok(&[]) => None,
            Ok(&[both]) => Some([both; 2]),
            Ok(&[four, six]) => Some([four, six]),
            _ => return Err(String::new()),
        };
        Ok(Link { name, outputs })
    }
}

#[derive(Default)]
struct Bfd {
    links: Vec<Link>,
    /// Sessions of the configuration.
    wanted: Vec<Wanted>,
    table_names: [Option<String>; 2],
    /// The tables of VRFs.
    vrfs: HashMap<String, u8>,
    tables: Tables,
    sessions: Sessions,
    peers: HashMap<SessionKey, Peer>,
    discards: HashMap<Discard, u64>,
    liveness: Arc<Liveness>,
    noutputs: usize,
    changes: u64,
}

impl Bfd {
    fn shown(&self, now: Nanos, show: fn(&Peer, &Session, u64) -> String) -> Vec<String> {
        let shown = self.sorted().into_iter().filter_map(|key| {
            let (peer, session) = (self.peers.get(&key)?, self.sessions.get(key)?);
            Some(show(peer, session, now.saturating_sub(peer.since) / 1_000_000_000))
        });
        shown.collect()
    }

    fn show_discards(&self) -> String {
        let count = |why: &Discard| self.discards.get(why).copied().unwrap_or(0);
        Discard::ALL.iter().map(|why| format!("{} {}\n", why.name(), count(why))).collect()
    }

    /// Adds the session that a handler is given; with `changes` it changes one that is there.
    fn enter(&mut self, cx: &mut Cx<'_>, text: &str, changes: bool) -> Result<(), HandlerError> {
        let why = |why: String| if why.is_empty() { format!("expected {}", Wanted::EXPECTED) } else { why };
        let done = Wanted::from_arg(text, &Names::default()).map_err(why).and_then(|wanted| {
            let (key, _) = self.place(&wanted)?;
            match self.peers.get(&key) {
                Some(peer) if changes => {
                    let wanted = wanted.with_unsaid(&peer.wanted);
                    self.change(cx, key, wanted)
                }
                _ => self.add(cx, wanted, false),
            }
        });
        self.run(cx);
        done.map_err(HandlerError::failed)
    }
}

impl Element for Bfd {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.links = args.keyword_all("LINK");
        self.wanted = args.keyword_all("SESSION");
        self.table_names = [args.keyword_opt("TABLE"), args.keyword_opt("TABLE6")];
        for Vrf(name, number) in args.keyword_all("VRF") {
            if self.vrfs.values().any(|other| *other == number) || self.vrfs.contains_key(&name) {
                args.error(format!("VRF {name} {number}: the name or the table is given twice"));
            }
            self.vrfs.insert(name, number);
        }
        self.noutputs = args.noutputs;
        let n = self.links.len();
        if n == 0 {
            return args.error("name the links: LINK eth0");
        }
        if args.ninputs != n || (args.noutputs != n && args.noutputs != 2 * n) {
            let (ninputs, noutputs) = (args.ninputs, args.noutputs);
            args.error(format!(
                "{n} links need {n} inputs and {n} outputs, or {} outputs with IPv6, not {ninputs} and {noutputs}",
                2 * n
            ));
        }
        for (at, link) in self.links.iter().enumerate() {
            if self.links[..at].iter().any(|other| other.name == link.name) {
                args.error(format!("LINK {} is given twice", link.name));
            }
            if link.outputs.is_none() && self.table_names.iter().any(Option::is_some) {
                args.error(format!("LINK {} needs the output of the table that leads to it", link.name));
            }
        }
        let mut keys = Vec::new();
        for wanted in &self.wanted {
            match self.place(wanted) {
                Err(why) => args.error(why),
                Ok((key, _)) if keys.contains(&key) => {
                    args.error(format!("there are two sessions with {}", wanted.neighbour));
                }
                Ok((key, _)) => keys.push(key),
            }
        }
        if self.wanted.len() > bfd::SESSIONS_MAX {
            args.error(format!("there may be {} sessions", bfd::SESSIONS_MAX));
        }
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        self.liveness = cx.predecessor::<Liveness>().unwrap_or_default();
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        let has_vrfs = !self.vrfs.is_empty();
        self.tables = Tables::find(cx, &self.table_names, &self.links, has_vrfs, &self.liveness)?;
        if !cx.is_home() {
            return Ok(());
        }
        for wanted in std::mem::take(&mut self.wanted) {
            self.add(cx, wanted, true)?;
        }
        self.set_alarm(cx);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) {
        let now = Duration::from_nanos(cx.now());
        for packet in batch.drain(..) {
            match self.receive(cx, port, &packet, now) {
                Ok(()) => cx.drop(Reason::Discarded, packet),
                Err(why) => cx.drop(why, packet),
            }
        }
        self.run(cx);
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        self.run(cx);
    }
}

impl Provide for Bfd {
    fn provide(&self) -> Option<Provided> {
        Some(self.liveness.clone())
    }
}

impl HotSwap for Bfd {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let old: &mut dyn std::any::Any = old;
        let Some(old) = old.downcast_mut::<Bfd>() else { return false };
        for (why, count) in old.discards.drain() {
            *self.discards.entry(why).or_default() += count;
        }
        for (former, peer) in old.peers.drain() {
            let kept = self.inherit(cx, &mut old.sessions, former, peer);
            if let Some(neighbour) = kept.err() {
                self.liveness.set(neighbour, false);
            }
        }
        self.set_alarm(cx);
        true
    }
}

impl Bfd {
    /// The key and the link of a session.
    fn place(&self, wanted: &Wanted) -> Result<(SessionKey, Option<usize>), String> {
        let Some(name) = &wanted.link else {
            let family = usize::from(wanted.neighbour.is_ipv6());
            if self.table_names[family].is_none() {
                let keyword = ["TABLE", "TABLE6"][family];
                let why = format!("needs routes: name {keyword} the lookup element");
                return Err(format!("the session with {} {why}", wanted.neighbour));
            }
            let table = self.table(wanted.vrf.as_deref())?;
            return Ok((far(wanted.neighbour, wanted.local, table), None));
        };
        if wanted.neighbour.is_ipv6() && self.noutputs < 2 * self.links.len() {
            return Err(format!(
                "the session with {} needs outputs for IPv6: connect {} more",
                wanted.neighbour,
                self.links.len()
            ));
        }
        match self.links.iter().position(|link| *link.name == **name) {
            Some(link) => Ok((on_link(wanted.neighbour, link), Some(link))),
            None => Err(format!("there is no LINK {name}")),
        }
    }

    /// The number of a VRF's table, or of the main one.
    fn table(&self, vrf: Option<&str>) -> Result<u8, String> {
        let Some(name) = vrf else { return Ok(0) };
        self.vrfs
            .get(name)
            .copied()
            .ok_or_else(|| format!("there is no VRF {name}: name its table by VRF {name} NUMBER"))
    }

    fn add(&mut self, cx: &mut Cx<'_>, wanted: Wanted, configured: bool) -> Result<(), String> {
        let (key, link) = self.place(&wanted)?;
        let table = self.table(wanted.vrf.as_deref())?;
        let random = self.sessions.free_discriminator(cx.random().u32(1..));
        let config = wanted.config(wanted.discriminator.unwrap_or(random));
        self.sessions.add(key, config).map_err(|why| why.to_string())?;
        self.sessions.update(key, |session| {
            session.set_grace(GRACE);
            session.set_echo(wanted.echo_tx_us);
            if wanted.admin_down {
                session.set_admin_down(true);
            }
        });
        let (port, since) = (self.free_port(), cx.now());
        let peer = Peer {
            wanted,
            link,
            table,
            port,
            configured,
            received: Count::default(),
            sent: Count::default(),
            echoed: Count::default(),
            echo_next: Duration::ZERO,
            echo_sent: Count::default(),
            echo_returned: Count::default(),
            ups: 0,
            downs: 0,
            since,
        };
        self.peers.insert(key, peer);
        Ok(())
    }

    /// A source port that no session has: there are more ports than sessions.
    fn free_port(&self) -> u16 {
        let taken: std::collections::HashSet<u16> = self.peers.values().map(|peer| peer.port).collect();
        PORTS.clone().find(|port| !taken.contains(port)).unwrap_or(PORTS.start)
    }

    /// Changes a session; one whose fixed settings differ begins anew.
    fn change(&mut self, cx: &mut Cx<'_>, key: SessionKey, wanted: Wanted) -> Result<(), String> {
        let Some(peer) = self.peers.get_mut(&key) else { return self.add(cx, wanted, false) };
        if !wanted.continues(&peer.wanted) {
            let configured = peer.configured;
            self.remove(key);
            return self.add(cx, wanted, configured);
        }
        let discriminator = wanted.discriminator.or(peer.wanted.discriminator);
        let (intervals, down) = (wanted.intervals, wanted.admin_down);
        let (role, echo_tx_us) = ((wanted.passive, wanted.independent), wanted.echo_tx_us);
        peer.wanted = Wanted { discriminator, ..wanted };
        let changed = self.sessions.update(key, |session| {
            session.set_role(role.0, role.1);
            session.set_echo(echo_tx_us);
            (session.configure(intervals), session.set_admin_down(down))
        });
        let Some((configured, change)) = changed else { return Ok(()) };
        self.note(cx, key, change);
        configured.map_err(|why| why.to_string())
    }

    fn remove_text(&mut self, text: &str) -> Result<(), String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let address = |word: &str| word.parse::<IpAddr>().map_err(|_| format!("'{word}' is not an address"));
        let key = match &words[..] {
            [neighbour, local, "-"] => far(address(neighbour)?, address(local)?, 0),
            [neighbour, local, "-", "VRF", vrf] => {
                far(address(neighbour)?, address(local)?, self.table(Some(vrf))?)
            }
            [neighbour, name] if *name != "-" => {
                let link = self.links.iter().position(|link| *link.name == **name);
                on_link(address(neighbour)?, link.ok_or_else(|| format!("there is no LINK {name}"))?)
            }
            _ => {
                return Err(
                    "expected NEIGHBOUR LINK, or over several hops NEIGHBOUR LOCAL - [VRF NAME]".into()
                );
            }
        };
        match self.remove(key) {
            true => Ok(()),
            false => Err(format!("there is no session with {text}")),
        }
    }

    /// Ends a session. Its neighbour counts as alive: nobody watches it any more.
    fn remove(&mut self, key: SessionKey) -> bool {
        self.sessions.remove(key);
        let Some(peer) = self.peers.remove(&key) else { return false };
        if let Some(neighbour) = self.neighbour(&peer) {
            self.liveness.set(neighbour, false);
        }
        true
    }

    /// Takes a session of the configuration before. Gives back the neighbour whose session ends.
    fn inherit(
        &mut self,
        cx: &mut Cx<'_>,
        old: &mut Sessions,
        former: SessionKey,
        peer: Peer,
    ) -> Result<(), Neighbour> {
        let name = peer.wanted.link.clone();
        let ends = || {
            let link = name.clone().unwrap_or_default().into();
            Neighbour { link, address: peer.wanted.neighbour }
        };
        let Ok((key, link)) = self.place(&peer.wanted) else { return Err(ends()) };
        let fresh = self.peers.get(&key).map(|fresh| fresh.wanted.clone());
        let wanted = match fresh {
            Some(fresh) if fresh.continues(&peer.wanted) => fresh,
            // Its settings have changed, so it begins anew.
            Some(_) => return Err(ends()),
            None if peer.configured => return Err(ends()),
            None => peer.wanted.clone(),
        };
        let Some(session) = old.remove(former) else { return Err(ends()) };
        self.sessions.remove(key);
        let configured = self.peers.remove(&key).is_some();
        let (ended, table) = (ends(), self.table(wanted.vrf.as_deref()).unwrap_or(0));
        self.sessions.adopt(key, session).map_err(|_| ended)?;
        self.peers.insert(key, Peer { link, table, configured, ..peer });
        // The intervals may be new.
        let _ = self.change(cx, key, wanted);
        Ok(())
    }

    /// What a session guards; nothing over several hops.
    fn neighbour(&self, peer: &Peer) -> Option<Neighbour> {
        let link = &self.links.get(peer.link?)?.name;
        Some(Neighbour { link: link.clone(), address: peer.wanted.neighbour })
    }

    fn receive(
        &mut self,
        cx: &mut Cx<'_>,
        link: usize,
        packet: &Packet,
        now: Duration,
    ) -> Result<(), Reason> {
        let received = frame::read(packet.data())?;
        let (at, len) = received.payload;
        let payload = packet.data().get(at..at + len).ok_or(Reason::TooShort)?;
        let from = match received.port {
            PORT_SINGLE_HOP => on_link(received.src, link),
            PORT_MULTI_HOP => far(received.src, received.dst, self.tables.of(packet, received.dst)),
            PORT_ECHO => return self.echo(cx, link, &received, payload, now),
            _ => return Err(Reason::BadProtocol),
        };
        let (key, change) = self.sessions.receive(payload, from, received.ttl, now).map_err(|why| {
            *self.discards.entry(why).or_default() += 1;
            reason(why)
        })?;
        if let Some(peer) = self.peers.get_mut(&key) {
            peer.received.add(len);
        }
        self.note(cx, key, change);
        Ok(())
    }

    /// Takes an own echo packet that has returned, or returns one that a neighbour whose session is up has sent to our address. Those that come back
    /// have a lesser TTL, so none goes round for ever.
    fn echo(
        &mut self,
        cx: &mut Cx<'_>,
        link: usize,
        from: &Received,
        payload: &[u8],
        now: Duration,
    ) -> Result<(), Reason> {
        let key = on_link(from.src, link);
        // One router has forwarded it, or something nearer has turned it round.
        if from.ttl >= 254
            && let Some(own) = self.sessions.receive_echo(payload, link as u32, now)
        {
            self.peers.get_mut(&own).into_iter().for_each(|peer| peer.echo_returned.add(payload.len()));
            return Ok(());
        }
        let session = self.sessions.get(key).ok_or(Reason::NoBfdSession)?;
        if session.state() != State::Up || session.config().intervals.required_min_echo_rx_us == 0 {
            return Err(Reason::Inactive);
        }
        if from.ttl != 255 {
            return Err(Reason::BadHopLimit);
        }
        // A neighbour that sends more than was agreed upon must not fill the queue that is served first (RFC 5880 6.8.9).
        let intervals = session.config().intervals;
        let least = Duration::from_micros(intervals.required_min_echo_rx_us.into());
        let peer = self.peers.get_mut(&key).ok_or(Reason::NoBfdSession)?;
        if now < peer.echo_next {
            return Err(Reason::RateExceeded);
        }
        let allowed = now.saturating_sub(least * u32::from(intervals.detect_mult));
        peer.echo_next = peer.echo_next.max(allowed) + least * 3 / 4;
        peer.echoed.add(payload.len());
        let path = Path { src: from.dst, dst: from.src, ports: (PORT_ECHO, PORT_ECHO), ttl: 254 };
        let packet = frame::make(path, from.src, payload).ok_or(Reason::NoMemory)?;
        self.send(cx, link, from.src, packet);
        Ok(())
    }

    /// Does all that is due and sets the timer for the next.
    fn run(&mut self, cx: &mut Cx<'_>) {
        let now = Duration::from_nanos(cx.now());
        while let Some((key, step)) = self.sessions.poll(now, cx.random().u32(..)) {
            self.note(cx, key, step.change);
            if let Some(packet) = step.send {
                self.transmit(cx, key, &packet);
            }
            if let Some(payload) = step.echo {
                self.transmit_echo(cx, key, &payload);
            }
        }
        self.set_alarm(cx);
    }

    fn set_alarm(&self, cx: &mut Cx<'_>) {
        match self.sessions.next_due() {
            Duration::MAX => cx.clear_timer(NEXT),
            due => {
                let at = u64::try_from(due.as_nanos()).unwrap_or(u64::MAX).max(cx.now());
                cx.set_timer(NEXT, at);
            }
        }
    }

    fn transmit(&mut self, cx: &mut Cx<'_>, key: SessionKey, control: &Repr) {
        let (mut payload, random) = ([0; PACKET_MAX], cx.random().u32(..));
        let written = self.sessions.update(key, |session| session.write(control, random, &mut payload));
        let (Some(Ok(len)), Some(peer)) = (written, self.peers.get_mut(&key)) else { return };
        let Some(payload) = payload.get(..len) else { return };
        let (src, dst) = (peer.wanted.local, peer.wanted.neighbour);
        let (port, gateway, link) = match peer.link {
            Some(link) => (PORT_SINGLE_HOP, dst, link),
            None => match self.tables.towards(cx.rcu(), (peer.table, dst), &self.links) {
                Some((gateway, link)) => (PORT_MULTI_HOP, gateway, link),
                None => {
                    cx.made(1);
                    return cx.count_drops(Reason::NoRoute, 1);
                }
            },
        };
        let path = Path { src, dst, ports: (peer.port, port), ttl: 255 };
        let Some(packet) = frame::make(path, gateway, payload) else { return };
        peer.sent.add(payload.len());
        self.send(cx, link, gateway, packet);
    }

    fn transmit_echo(&mut self, cx: &mut Cx<'_>, key: SessionKey, payload: &[u8]) {
        let Some(peer) = self.peers.get_mut(&key) else { return };
        let Some(link) = peer.link else { return };
        let ((src, dst), gateway) = (peer.wanted.echo_addresses(), peer.wanted.neighbour);
        let path = Path { src, dst, ports: (PORT_ECHO, PORT_ECHO), ttl: 255 };
        let Some(packet) = frame::make(path, gateway, payload) else { return };
        peer.echo_sent.add(payload.len());
        self.send(cx, link, gateway, packet);
    }

    fn send(&self, cx: &mut Cx<'_>, link: usize, gateway: IpAddr, packet: Packet) {
        let port = if gateway.is_ipv6() { self.links.len() + link } else { link };
        cx.made(1);
        cx.push_one_or_drop(port, packet, Reason::NoOutput);
    }

    /// Counts a change of state, and says what it means for the next hop.
    fn note(&mut self, cx: &mut Cx<'_>, key: SessionKey, change: Option<Change>) {
        let (Some(change), Some(session)) = (change, self.sessions.get(key)) else { return };
        let is_administrative = session.remote_state() == State::AdminDown || change.to == State::AdminDown;
        let Some(peer) = self.peers.get_mut(&key) else { return };
        self.changes += 1;
        peer.since = cx.now();
        peer.ups += u64::from(change.to == State::Up);
        peer.downs += u64::from(change.from == State::Up);
        let is_down = change.is_loss() && !is_administrative;
        let Some(neighbour) = self.peers.get(&key).and_then(|peer| self.neighbour(peer)) else { return };
        if is_down || change.to == State::Up || is_administrative {
            self.liveness.set(neighbour, is_down);
        }
    }

    fn sorted(&self) -> Vec<SessionKey> {
        let mut keys: Vec<SessionKey> = self.peers.keys().copied().collect();
        keys.sort_by_key(|key| (key.place, key.address));
        keys
    }
}

/// The reason that drops are counted under.
fn reason(why: Discard) -> Reason {
    match why {
        Discard::Truncated => Reason::TooShort,
        Discard::Version => Reason::BadVersion,
        Discard::Length | Discard::LengthBeyondPayload => Reason::BadLength,
        Discard::DetectMult | Discard::Multipoint | Discard::MyDiscriminator | Discard::Authentication => {
            Reason::BadBfd
        }
        Discard::UnknownDiscriminator | Discard::MissingDiscriminator | Discard::UnknownNeighbor => {
            Reason::NoBfdSession
        }
        Discard::Ttl => Reason::BadHopLimit,
        Discard::AdminDown => Reason::Inactive,
    }
}
