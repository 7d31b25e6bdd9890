// SPDX-License-Identifier: MIT OR Apache-2.0
//! # SessionSync
//!
//! `SessionSync(PEER ADDRESS, LOCAL ADDRESS, KEY FILE, TABLES NAME ... [, keywords PORT, HELLO, DEAD, QUEUE])`
//!
//! Keeps the sessions of another router, and gives it ours, so that either router can go on alone.
//!
//! **Ports:** push. Input 0 is for packets for this router, from their IP header on. Output 0 sends to the peer: packets begin with their IP header, and have their destination annotation.
//! Packets that are not of the peer leave by output 1 as they are; without it they are dropped.
//!
//! **Arguments**
//! * `PEER ADDRESS` the address of the other router. `LOCAL ADDRESS` our own. Both are of IPv4 or of IPv6. A link of its own between the two is best.
//! * `KEY FILE` a file with the secret of both routers, at least 16 bytes, such as the output of `openssl rand -hex 32`. White space around it does not count.
//! * `TABLES NAME ...` the elements whose sessions are kept: NAT44, Firewall. Both routers give them the same names, and statements and rules that agree.
//! * `PORT N` the UDP port of both routers, default 3781.
//! * `HELLO TIME` how often the router says that it is there, default 200ms. `DEAD TIME` after what silence the peer is down, default 2s.
//! * `QUEUE N` changes of each table that may wait, default 65536. If there are more, all sessions are sent again.
//!
//! A session is sent once both sides have agreed on it: a connection of TCP with its handshake, others with the first answer. It is *owned* by the router through which its packets go, and *mirrored* by the
//! other one. What is mirrored ends when the owner says so. The first packet that goes through the other router makes that one the owner. So
//! a router that takes over needs no notice, and both may be active at once.
//!
//! If the peer is down, or has been restarted, its sessions are owned from then on. When it comes up, it gets all that are. If a change is lost, all are sent again, at most once a second.
//! Sequence numbers of TCP are not sent. A Firewall that takes a connection over lets its segments pass until both sides agree on their numbers, and checks them from then on.
//! It takes only what its own rules accept.
//! What a router owns is never given up for what the peer has. So if both gave the same outside port while they did not hear each other, each
//! keeps its own session, and refuses the other one's. Sessions of an interface's address (`to interface` of NAT44) are refused by a peer whose interface has another one.
//!
//! Datagrams are authenticated by HMAC-SHA-256, not encrypted, and none is taken twice. Those of another version are refused.
//!
//! **Metadata set:** destination annotation of what is sent.
//!
//! **Cores:** one worker does the work, in steps: every 5 ms, or every millisecond while there is more to do.
//!
//! **Drops:** `discarded` for packets that were read, `sync-refused` for those of the peer that are refused, `bad-protocol` for those that are not of the peer if there is no output 1.
//!
//! **Handlers**
//! * `peer` read: five lines. `state` is `up` or `down`. `waiting` is how many changes wait, and `frames` how many frames are not acknowledged. `lag-ms` is for how long the oldest of them is not.
//!   `sessions` says whether all sessions are being sent or taken: `idle`, `sending`, `taking`, `both`.
//! * `counts` read: `NAME COUNT`, a line each. Datagrams and frames come first, then streams: how often all sessions were sent. Records of the peer follow, and those that were not taken, by reason.
//! * `resync` write: sends all sessions again.
//!
//! ```click
//! nat :: NAT44(STATEMENT "translate 10.0.1.0/24 to 192.0.2.1");
//! Idle -> nat -> Discard; Idle -> [1]nat; nat[1] -> Discard;
//! // Any file with 16 bytes is taken: use one with a secret, such as /etc/junctor/sync.key.
//! Idle -> sync :: SessionSync(PEER 10.9.0.2, LOCAL 10.9.0.1, KEY /proc/version, TABLES nat) -> Discard;
//! ```
//!
//! See also: NAT44, Firewall. RFC 2104, RFC 4868

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use element::args::{Args, FromArg, Names};
use element::clock::Nanos;
use element::{Class, Cx, Element, HotSwap, InitCx, LockUse, Locking, Reason, When, handlers, swap};
use packet::{Batch, Packet};
use statesync::{Key, Link, Op, Records, Settings};
use sync::lock::How;

use super::nat44;
use crate::firewalls;
use crate::routing::frame::{self, Path};

mod applied;
mod steps;
#[cfg(test)]
mod tests;

use applied::Applied;
use steps::{Sessions, Steps};

/// The descriptor.
pub const CLASS: Class = Class::new("SessionSync", "1/1-2", || Box::new(SessionSync::default()))
    .processing("h/h")
    .flow("x/y")
    .serial("records have an order")
    .handlers(handlers! { SessionSync:
        read "peer" => |me, cx| me.show_peer(cx.now());
        read "counts" => |me| me.show_counts();
        write "resync" => |me| me.link.iter_mut().for_each(Link::restart);
    })
    .locking::<SessionSync>()
    .hot_swap::<SessionSync>()
    .file(file!());

/// The only timer.
const NEXT: u32 = 0;
const PORT: u16 = 3781;
/// Time between two steps, if there is nothing to do, and if there is.
const PAUSE: [Nanos; 2] = [5_000_000, 1_000_000];
/// Datagrams that are sent in a step.
const BURST: usize = 16;
const QUEUE: usize = 65_536;
const QUEUE_MAX: usize = 1 << 22;

#[derive(Default)]
struct SessionSync {
    peer: Option<IpAddr>,
    local: Option<IpAddr>,
    port: u16,
    settings: Settings,
    queue: usize,
    key_file: String,
    names: Vec<String>,
    key: Option<Key>,
    link: Option<Link>,
    steps: Steps,
    applied: Applied,
    has_rest: bool,
    /// Room for a datagram.
    datagram: Vec<u8>,
}

/// `ADDRESS`
struct Address(IpAddr);

impl FromArg for Address {
    const EXPECTED: &'static str = "an IPv4 or IPv6 address";

    fn from_arg(text: &str, _: &Names) -> Result<Address, String> {
        text.parse().map(Address).map_err(|_| String::new())
    }
}

/// Reads a file with a key.
fn read_key(file: &str) -> Result<Key, String> {
    rulefile::may_read(file.as_ref()).map_err(|why| format!("KEY {why}"))?;
    let text = std::fs::read(file).map_err(|why| format!("KEY {file}: {why}"))?;
    Key::new(text.trim_ascii()).map_err(|why| format!("KEY {file}: {why}"))
}

impl SessionSync {
    fn show_peer(&self, now: Nanos) -> String {
        let Some(link) = &self.link else { return String::new() };
        let (frames, since) = link.lag(now);
        let state = if link.is_up() { "up" } else { "down" };
        format!(
            "state {state}\nwaiting {}\nframes {frames}\nlag-ms {}\nsessions {}\n",
            self.steps.waiting(),
            since / 1_000_000,
            self.steps.doing(link)
        )
    }

    fn show_counts(&self) -> String {
        let Some(link) = &self.link else { return String::new() };
        let counts = link.counts();
        let mut text = format!(
            "sent {}\nreceived {}\nacknowledged {}\nsent-again {}\nstreams {}\nups {}\nrestarts {}\n",
            counts.sent,
            counts.received,
            counts.acknowledged,
            counts.resent,
            counts.streams,
            counts.ups,
            counts.restarts
        );
        for why in statesync::Refusal::ALL {
            let _ = writeln!(text, "refused-{} {}", why.name(), counts.refused[why as usize]);
        }
        text + &self.applied.shown()
    }

    /// Whether a packet is of the peer; and where its payload stands.
    fn of_peer(&self, packet: &Packet) -> Option<(usize, usize)> {
        let read = frame::read(packet.data()).ok()?;
        let is_its = Some(read.src) == self.peer && Some(read.dst) == self.local && read.port == self.port;
        is_its.then_some(read.payload)
    }

    fn receive(&mut self, now: Nanos, datagram: &[u8]) -> Result<(), Reason> {
        let link = self.link.as_mut().ok_or(Reason::Inactive)?;
        let records = link.receive(now, datagram).map_err(|_| Reason::SyncRefused)?;
        for record in Records::of(records) {
            match record.op {
                Some(Op::Begin) => self.steps.begin(),
                Some(Op::Over) => self.steps.sweep(),
                _ => self.applied.apply(now, &record, self.steps.tables()),
            }
        }
        Ok(())
    }

    /// Sends what is in `datagram`.
    fn transmit(&self, cx: &mut Cx<'_>) {
        let Some((src, dst)) = self.local.zip(self.peer) else { return };
        let path = Path { src, dst, ports: (self.port, self.port), ttl: 255 };
        cx.made(1);
        match frame::make(path, dst, &self.datagram) {
            Some(packet) => cx.push_one_or_drop(0, packet, Reason::NoOutput),
            None => cx.count_drops(Reason::NoMemory, 1),
        }
    }

    /// Sends datagrams that are due, so many at most.
    fn answer(&mut self, cx: &mut Cx<'_>, most: usize) {
        for _ in 0..most {
            let now = cx.now();
            let Some(link) = &mut self.link else { return };
            if !link.poll(now, &mut self.datagram) {
                return;
            }
            self.transmit(cx);
        }
    }

    /// A step: what is due, a part of what the tables need, and changes.
    fn step(&mut self, cx: &mut Cx<'_>) {
        self.answer(cx, BURST);
        let now = cx.now();
        let Some(link) = &mut self.link else { return };
        if self.steps.are_anew() {
            link.want();
        }
        self.steps.walk(now, link);
        if link.take_restart(now) {
            self.steps.start();
        }
        for _ in 0..BURST {
            let Some(link) = &mut self.link else { return };
            if !link.has_room() {
                break;
            }
            let (records, has_lost) = self.steps.records(now);
            if !records.is_empty() {
                link.send(now, records, &mut self.datagram);
            }
            let is_empty = records.is_empty();
            if has_lost {
                link.restart();
            }
            if is_empty {
                break;
            }
            self.transmit(cx);
        }
        let Some(link) = &self.link else { return };
        let pause = PAUSE[usize::from(self.steps.is_busy(link))];
        cx.set_timer(NEXT, now.saturating_add(pause));
    }
}

impl Element for SessionSync {
    fn configure(&mut self, args: &mut Args<'_>) {
        [self.peer, self.local] =
            ["PEER", "LOCAL"].map(|name| args.keyword_opt::<Address>(name).map(|one| one.0));
        self.key_file = args.keyword("KEY", String::new());
        let tables: String = args.keyword("TABLES", String::new());
        self.names = tables.split_ascii_whitespace().map(str::to_owned).collect();
        self.port = args.keyword("PORT", PORT);
        let hello = args.keyword("HELLO", Duration::from_millis(200));
        let dead = args.keyword("DEAD", Duration::from_secs(2));
        self.queue = args.keyword("QUEUE", QUEUE);
        self.has_rest = args.noutputs > 1;
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.settings = Settings { hello_ns: nanos(hello), dead_ns: nanos(dead) };
        match (self.peer, self.local) {
            (Some(peer), Some(local)) if peer == local => args.error("PEER and LOCAL are the same address"),
            (Some(peer), Some(local)) if peer.is_ipv4() != local.is_ipv4() => {
                args.error("PEER and LOCAL: one is of IPv4, the other of IPv6");
            }
            (Some(_), Some(_)) => {}
            _ => args.error("name both routers: PEER ADDRESS and LOCAL ADDRESS"),
        }
        if self.names.is_empty() {
            args.error("name the tables that are kept: TABLES nat44");
        }
        if hello < Duration::from_millis(10) || dead < 2 * hello {
            args.error("HELLO is 10ms at least, and DEAD twice HELLO at least");
        }
        if self.queue == 0 || self.queue > QUEUE_MAX {
            args.error(format!("QUEUE is from 1 to {QUEUE_MAX}"));
        }
        if self.key_file.is_empty() {
            return args.error("name a file with the secret of both routers: KEY FILE");
        }
        match read_key(&self.key_file) {
            Ok(key) => self.key = Some(key),
            Err(why) => args.error(why),
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        let key = self.key.clone().ok_or("the key could not be read")?;
        for name in &self.names {
            let nat = cx.find::<nat44::Link>(name).and_then(|link| link.nat().cloned()).map(Sessions::Nat);
            let mut judge = || cx.find::<firewalls::Link>(name).and_then(|link| link.judge().cloned());
            let sessions = nat.or_else(|| judge().map(Sessions::Firewall));
            let sessions =
                sessions.ok_or_else(|| format!("TABLES: '{name}' is neither a NAT44 nor a Firewall"))?;
            if !self.steps.add(name, sessions, self.queue) {
                return Err(format!(
                    "TABLES: the sessions of '{name}' are kept already: name each table once"
                ));
            }
        }
        self.link = Some(Link::new(self.settings, key, RandomState::new().hash_one(0)));
        if cx.is_home() {
            cx.set_timer_after(NEXT, PAUSE[1]);
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        let now = cx.now();
        let mut rest = Batch::new();
        for packet in batch.drain(..) {
            match self.of_peer(&packet) {
                None if self.has_rest => rest.push(packet),
                None => cx.drop(Reason::BadProtocol, packet),
                Some((at, length)) => {
                    let datagram = packet.data().get(at..at + length).unwrap_or_default();
                    match self.receive(now, datagram) {
                        Ok(()) => cx.drop(Reason::Discarded, packet),
                        Err(why) => cx.drop(why, packet),
                    }
                }
            }
        }
        self.answer(cx, 1);
        if !rest.is_empty() {
            cx.push(1, rest);
        }
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        self.step(cx);
    }
}

impl Locking for SessionSync {
    fn locks(&self) -> Vec<LockUse> {
        let why = "it reads changes of sessions, and enters those of the peer";
        let lock = |what| LockUse::new(How::Adaptive, what, When::EachBatch, why);
        vec![lock(nat44::SESSIONS), lock(firewalls::CONNECTIONS)]
    }
}

impl HotSwap for SessionSync {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<SessionSync>(old) else { return false };
        let is_same = (self.peer, self.local, self.port, self.settings, &self.names, &self.key_file)
            == (old.peer, old.local, old.port, old.settings, &old.names, &old.key_file);
        // With another key or peer the link begins anew, and adopts what there is.
        if is_same && self.key == old.key {
            self.link = old.link.take().or(self.link.take());
            self.applied = std::mem::take(&mut old.applied);
            // Sessions may have ended with the statements, and others may be taken: all are sent again, by both.
            self.link.iter_mut().for_each(Link::restart);
            self.link.iter_mut().for_each(Link::want);
        }
        cx.set_timer_after(NEXT, PAUSE[1]);
        true
    }
}
