// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Balance
//!
//! `Balance([FILE] [, STATEMENT TEXT ..., keywords OUTSIDE, LEAVING])`
//!
//! Shares the connections of services among servers, by the statements of a file. IPv4 and IPv6.
//!
//! **Ports:** push. Input 0 is for all packets that arrive, before they are routed: what clients send, what servers answer, and answers to probes. They leave by output 0, changed or
//! not. A router with a path of its own for IPv6 connects input 1 and output 1 there. Probes leave by output 0, those of IPv6 by output 1 if it is there. With LEAVING, further
//! inputs with outputs of the same numbers are for packets that leave.
//!
//! **Arguments**
//! * `FILE` the file of statements. `STATEMENT TEXT` a statement in the configuration itself, in quotes if it has commas; may be repeated, in place of FILE.
//! * `LEAVING N` the last N inputs are for packets that leave, after they have been routed, default 0. With such inputs, answers of servers, and errors about what was sent to them, get the
//!   address of their service there, and not when they arrive. A Firewall in between then sees the servers' own addresses in both directions.
//! * `OUTSIDE PAINT ...` the paints of packets that have come by outside links, where no server with `nat` is. Packets that arrive there from the address of such a server are dropped. Without it, a stranger
//!   who can send from a server's address can agree on connections, or end them.
//!
//! A file has a statement in each line; `#` begins a remark, and a line that ends with `,` or `\` goes on in the next one.
//!
//! ```text
//! own 10.0.1.1                                        # the router's address: probes come from it
//! service web tcp 192.0.2.80 port http,https direct   # or nat
//! server web 10.0.1.11 weight 2
//! server web 10.0.1.12-10.0.1.14
//! server web 10.0.1.15 drain                          # no new connections
//! check web tcp every 2s timeout 1s rise 2 fall 3     # or icmp, or none
//! persist web source for 10m                          # a client address keeps its server
//! ```
//!
//! * `service NAME tcp|udp|any ADDRESS [port PORT[-PORT],...] [direct|nat] [large]` a virtual address with its ports, all of them by default. NAME has letters, digits, `-`, `_` and `.` only. `nat`, the default, writes the server's address, and port, into
//!   packets; answers have to come back through this element. `direct` leaves packets as they are and only sets their next hop (direct server return). Servers then are on a
//!   link of this router and have the virtual address on their loopback.
//! * `server SERVICE ADDRESS[-ADDRESS] [port PORT] [weight N] [drain]`, with weights from 0 to 1000, default 1. `drain` or weight 0 leaves a server its connections. `port` goes with `nat`.
//! * `check SERVICE tcp|icmp|none [port PORT] [every TIME] [timeout TIME] [rise N] [fall N]`: a SYN to the server's port, which is reset, or a ping. Defaults: every 2 s, timeout 1 s, rise 2, fall 3. The first result decides at
//!   once; until then a server counts as alive. Servers are asked at their own addresses.
//! * `persist SERVICE source [for TIME]` chooses servers by the client's address alone. A client keeps its server when others come and go, until it has had no session for TIME, default 5 min. It gets
//!   another one if that server takes no new connections. `clients N` such clients at most, default 65536. If there are more, those give way that have agreed on no session with their server; without any, the hash alone decides.
//! * `timeout NAME TIME`, where NAME is `tcp` (2 h 4 min), `tcp-transitory` (1 min), `udp` (5 min) or `other` (10 min). `sessions N`, at most 16777216, default 262144. `seed N` changes which server a hash leads to.
//!
//! Servers are chosen by Maglev hashing (Eisenbud et al. 2016, section 3.4). If one of N servers comes, goes or changes, 1/N and one percent of what has no session moves at most. A table has 65,537 places, with more than 100
//! servers 655,373. A service that grows beyond 100 is `large` from the start: another size moves everything that has no session.
//!
//! A known connection stays with its server while that is up and in the file. With the next packet after that it goes to another one, which resets it. With fewer `sessions` than there are, none ends at once: new ones take the places of those that are not agreed on. If there is no room for another session, those give way that both sides have
//! not agreed on. If there are none, one of UDP or with `direct` gives way that is idle for a minute. If there is none either, packets go by the hash alone, unless with `nat` their answers would be ambiguous. What `set` has changed holds until a file is loaded or the configuration changes.
//!
//! ICMP errors go to the server whose packet they quote. Pings and other protocols to a virtual address pass, but for a service for `any`. Fragments have no ports: put IPReassembler in front.
//! With `nat`, clients are not on the servers' link, or answers do not come back through the router.
//!
//! **Metadata read:** network header position, paint with OUTSIDE. **Set:** destination annotation of packets to servers, and of probes.
//!
//! **Cores:** the sessions are in one table, which one worker may use at a time.
//!
//! **Drops:** `no-server`; `reverse-path` for servers' addresses from outside; `unreassembled`, `bad-length` for headers that are wrong, `discarded` for answers to probes. `mapping-taken` for a client port that is in use with each server that was tried, by another
//! service. The other session gives way if it has ended, or is not agreed on and idle for 10 s. `mapping-table-full` for a packet without a session whose answer would be ambiguous.
//!
//! **Handlers**
//! * `services` read: a line for each service: its line in the file, servers that take connections, servers, sessions. Then packets and bytes from clients, and from servers; packets dropped as
//!   `no-server`, and packets without a session; its text.
//! * `servers` read: a line for each server: service, address, port or `-`, weight, state, `set` or `-`, share of new connections in percent. The state is `up`, `unchecked`, `draining` or `down`; `set` says that a
//!   person has forced it. Then sessions, and sessions that it has had; packets and bytes to it, and from it. At the end `ok`, `failed` or `-` for the last check, and its age in seconds.
//! * `sessions` read, with a place as parameter, default 0: the place of the next ones, or `-`; then a line for each session. It has protocol, client and port, virtual address and port, server and port, and
//!   state. Packets and bytes from the client and from the server follow, then its age and the seconds until it ends.
//! * `nsessions`, `capacity`, `nclients` read: sessions, how many there may be, clients that keep their server. `file` read: FILE.
//! * `set` write: `SERVICE ADDRESS [PORT] CHANGE`, where CHANGE is `weight N`, `drain`, `active` (drains no more), `down`, `up`, or `auto` (as checks say).
//! * `end` write: ends sessions: `all`, `ADDRESS [PORT]` for those with this end, or `PROTOCOL CLIENT PORT SERVICE PORT` by their addresses. The next packet begins a session again.
//! * `load` write: reads FILE again, or the file that is named. Connections stay with servers that are still named. If there is a mistake, or other statements come in place meanwhile, the old ones stay.
//!
//! ```click
//! in :: Idle -> CheckIPHeader -> lb :: Balance(STATEMENT service web tcp 192.0.2.80 port 80,
//!     STATEMENT server web 10.0.1.11, STATEMENT server web 10.0.1.12 weight 2)
//!   -> rt :: StaticIPLookup(10.0.1.0/24 0, 0/0 1);
//! rt[0] -> Discard; rt[1] -> Discard;
//! ```
//!
//! See also: NAT44, IPRewriter, Firewall, IPReassembler. RFC 5508, RFC 6528

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use balance::policy::Policy;
use balance::{Ahead, Balancer, Cause, Change, Outcome, Probe, Stage};
use element::args::Args;
use element::clock::{Nanos, SECOND};
use element::stats::{self, Stat};
use element::{
    Class, Cx, Element, HandlerError, HotSwap, InitCx, LockUse, Locking, LongHandlers, Reason, Rehearsal,
    Rehearsed, Rest, Statistics, When, handlers, swap,
};
use packet::{Batch, HEADROOM, Packet, anno};
use sync::lock::{AdaptiveGuard, AdaptiveLock, How};

use crate::tools::{Paints, Runs, place, set_earlier};

mod views;

use views::{end_those, reaped, servers, services, some};

/// The name of the lock, for the profiler.
const SESSIONS: &str = "the sessions";
/// The only timer: when checks or tables go on.
const NEXT: u32 = 0;
/// Records that are moved at a time, if there may be another number of sessions.
const MOVED: usize = 256;
/// While a file is loaded, the timer looks so often whether that is done.
const LOADING_NS: Nanos = SECOND / 20;

/// The descriptor.
pub const CLASS: Class = Class::new("Balance", "1-/=", || Box::new(Balance::default()))
    .processing("h/h")
    .serial("the packets of a connection meet in one table, whichever worker they come by")
    .handlers(handlers! { Balance:
        read "services" => |me, cx| services(me.shared(), cx.now());
        read "servers" => |me, cx| servers(me.shared(), cx.now());
        read "sessions" => |me, cx, from: &str| some(me.shared(), place("sessions", from)?, cx.now());
        read "nsessions" => |me, cx| reaped(me.shared(), cx.now()).len();
        read "capacity" => |me| me.lock().policy().sessions;
        read "nclients" => |me, cx| reaped(me.shared(), cx.now()).clients();
        read "file" => |me| &me.file;
        write "set" => |me, cx, what: &str| me.set(cx, what)?;
        write "end" => |me, which: &str| end_those(me.shared(), which)?;
        write "load" => |me, cx, path: &str| {
            let now = cx.now();
            me.load(path, now)()?;
            me.turn(cx);
        };
    })
    .statistics::<Balance>()
    .long_handlers::<Balance>()
    .rehearsal::<Balance>()
    .locking::<Balance>()
    .hot_swap::<Balance>()
    .file(file!());

type Shared = Arc<AdaptiveLock<Balancer>>;

#[derive(Default)]
struct Balance {
    /// Empty, if the statements are in the configuration.
    file: String,
    policy: Option<Arc<Policy>>,
    balancer: Option<Shared>,
    /// Inputs for packets that arrive, and for all packets.
    arriving: usize,
    ninputs: usize,
    /// Whether another configuration goes on with its sessions. It changes under the lock alone.
    is_gone: Arc<AtomicBool>,
    /// Paints of packets from outside.
    outside: Vec<u8>,
    /// Files that are being loaded.
    loading: Arc<AtomicUsize>,
    /// Packets of the last batch: room for those of the next.
    ahead: Vec<Ahead>,
}

/// Reads a file of statements.
///
/// # Errors
/// What is wrong with it, a line each.
fn policy(path: &str) -> Result<Arc<Policy>, String> {
    sound(balance::read_file(Path::new(path))?)
}

/// The policy of statements that are right.
fn sound(reading: balance::Reading) -> Result<Arc<Policy>, String> {
    let shown = || lang::render_short(&reading.diagnostics, &reading.sources).trim_end().to_owned();
    reading.policy.map(Arc::new).ok_or_else(shown)
}

fn reason(cause: Cause) -> Reason {
    match cause {
        Cause::Malformed => Reason::BadLength,
        Cause::Fragment => Reason::Unreassembled,
        Cause::NoServer => Reason::NoServer,
        Cause::Taken => Reason::MappingTaken,
        Cause::Full => Reason::MappingTableFull,
        Cause::Spoofed => Reason::ReversePath,
    }
}

/// Notes where a packet goes.
fn annotate(packet: &mut Packet, to: IpAddr) {
    match to {
        IpAddr::V4(to) => packet.set_dst_ip(to.octets()),
        IpAddr::V6(to) => packet.set_anno(anno::DST_IP, to.octets()),
    }
}

/// A probe as a packet, unless there is no memory.
fn packet_of(probe: &Probe) -> Option<Packet> {
    let bytes = probe.bytes();
    let mut packet = Packet::alloc(HEADROOM, bytes.len())?;
    packet.data_mut().copy_from_slice(bytes);
    packet.set_network(0, if probe.to().is_ipv4() { 20 } else { 40 });
    annotate(&mut packet, probe.to());
    Some(packet)
}

/// Does what there is to do to a packet; the reason if it ends here.
fn done(outcome: Outcome, packet: &mut Packet) -> Result<(), Reason> {
    match outcome {
        Outcome::Unchanged | Outcome::Answered => Ok(()),
        Outcome::Direct(to) | Outcome::Translated(to) => {
            annotate(packet, to);
            Ok(())
        }
        Outcome::Consumed => Err(Reason::Discarded),
        Outcome::Drop(cause) => Err(reason(cause)),
    }
}

/// What `set` says: service, server, port, change.
fn change(text: &str) -> Option<(&str, IpAddr, Option<u16>, Change)> {
    let mut words = text.split_ascii_whitespace();
    let (service, address) = (words.next()?, words.next()?.parse().ok()?);
    let mut word = words.next()?;
    let port = word.parse().ok();
    if port.is_some() {
        word = words.next()?;
    }
    let change = match word {
        "weight" => Change::Weight(words.next()?.parse().ok().filter(|weight| *weight <= 1000)?),
        "drain" => Change::Drain(true),
        "active" => Change::Drain(false),
        "down" => Change::Force(Some(false)),
        "up" => Change::Force(Some(true)),
        "auto" => Change::Force(None),
        _ => return None,
    };
    words.next().is_none().then_some((service, address, port, change))
}

impl Balance {
    fn shared(&self) -> &Shared {
        self.balancer.as_ref().expect("set by initialize")
    }

    fn lock(&self) -> AdaptiveGuard<'_, Balancer> {
        self.shared().lock()
    }

    fn set(&self, cx: &mut Cx<'_>, text: &str) -> Result<(), HandlerError> {
        let expected = "SERVICE ADDRESS [PORT] weight N|drain|active|down|up|auto, with weights to 1000";
        let (service, address, port, change) =
            change(text).ok_or_else(|| HandlerError::bad_value("set", text, expected))?;
        self.lock().set(service, address, port, change).map_err(HandlerError::Failed)?;
        let now = cx.now();
        set_earlier(cx, NEXT, Some(now));
        Ok(())
    }

    /// Loads the statements of a file, or of FILE again; returns what there is to say about it. Tables are built while packets go on.
    fn load(&self, path: &str, now: Nanos) -> impl FnOnce() -> Result<String, HandlerError> + Send + use<> {
        let (shared, is_gone) = (Arc::clone(self.shared()), Arc::clone(&self.is_gone));
        let path = if path.trim().is_empty() { self.file.clone() } else { path.trim().to_owned() };
        move || {
            if path.is_empty() {
                return Err(HandlerError::failed(
                    "the statements are in the configuration: name a file, or change the configuration",
                ));
            }
            let policy = policy(&path).map_err(HandlerError::Failed)?;
            let mut draft = shared.lock().draft(policy);
            draft.build();
            let mut balancer = shared.lock();
            if is_gone.load(Ordering::Relaxed) {
                return Err(HandlerError::failed("the configuration was replaced: say it again"));
            }
            let replaced = balancer.replace(draft, now);
            drop(balancer);
            let lost = replaced.map_err(|why| HandlerError::failed(format!("{path}: {why}")))?;
            // Packets go on between two steps, and while old tables go.
            while shared.lock().resize_some(MOVED) {}
            let retired = shared.lock().retired();
            drop(retired);
            Ok(format!("{path}: {lost} sessions have lost their server"))
        }
    }

    /// Where an input stands.
    fn stage(&self, port: usize) -> Stage {
        match () {
            () if self.arriving == self.ninputs => Stage::Only,
            () if port < self.arriving => Stage::Arriving,
            () => Stage::Leaving,
        }
    }

    /// Whether a packet that arrives from outside says that a server has sent it.
    #[inline]
    fn is_spoofed(&self, balancer: &Balancer, port: usize, paint: u8, ip: &[u8]) -> bool {
        port < self.arriving && self.outside.contains(&paint) && balancer.is_from_server(ip)
    }

    /// Goes on with checks and tables.
    fn turn(&self, cx: &mut Cx<'_>) {
        let (now, mut probes) = (cx.now(), [Batch::new(), Batch::new()]);
        let (mut made, mut lost) = (0, 0);
        // A load that ends after this still gets a look: asked later, it could be missed.
        let is_loading = self.loading.load(Ordering::Acquire) > 0;
        let next = self.lock().work(now, |probe| {
            made += 1;
            match packet_of(probe) {
                Some(packet) => probes[usize::from(probe.to().is_ipv6())].push(packet),
                None => lost += 1,
            }
        });
        cx.made(made);
        cx.count_drops(Reason::NoMemory, lost);
        for (family, batch) in probes.into_iter().enumerate() {
            if !batch.is_empty() {
                cx.push(family.min(self.arriving - 1), batch);
            }
        }
        let look = is_loading.then_some(now + LOADING_NS);
        match next.into_iter().chain(look).min() {
            Some(at) => cx.set_timer(NEXT, at),
            None => cx.clear_timer(NEXT),
        }
    }
}

impl Element for Balance {
    fn configure(&mut self, args: &mut Args<'_>) {
        let statements = args.keyword_all::<String>("STATEMENT");
        match statements.is_empty() {
            true => self.file = args.required("FILE"),
            false => self.file = args.positional("FILE", String::new()),
        }
        if !statements.is_empty() && !self.file.is_empty() {
            args.error("FILE and STATEMENT: the statements stand in one of them");
        }
        let leaving = args.keyword("LEAVING", 0usize);
        self.outside = args.keyword_all::<Paints>("OUTSIDE").into_iter().flat_map(|all| all.0).collect();
        (self.ninputs, self.arriving) = (args.ninputs, args.ninputs.saturating_sub(leaving));
        if !(1..=2).contains(&self.arriving) {
            args.error(format!(
                "{} inputs with LEAVING {leaving}: there should be one or two for packets that arrive",
                self.ninputs
            ));
        }
        if !args.errors().is_empty() {
            return;
        }
        let read = match statements.is_empty() {
            true => policy(&self.file),
            false => sound(balance::read("STATEMENT", &statements.join("\n"))),
        };
        match read {
            Ok(policy) => self.policy = Some(policy),
            Err(why) => why.lines().for_each(|why| args.error(why.to_owned())),
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        let policy = self.policy.take().ok_or("the statements could not be read")?;
        let (seed, now) = (cx.random().u64(..), cx.now());
        let balancer = Balancer::new(policy, seed, now);
        let has_checks = balancer.policy().services.iter().any(|service| service.check.is_some());
        self.balancer = Some(Arc::new(AdaptiveLock::new(balancer)));
        if has_checks && cx.is_home() {
            cx.set_timer_after(NEXT, 0);
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) {
        let now = cx.now();
        let shared = Arc::clone(self.shared());
        let mut balancer = shared.lock();
        // More than new sessions can make.
        balancer.reap(now, 2 * batch.len() + 8);
        let packets = batch.iter().map(|packet| packet.network().unwrap_or_default());
        balancer.look_ahead(packets, self.stage(port), &mut self.ahead);
        let (mut runs, mut is_answered) = (Runs::default(), false);
        for (n, mut packet) in batch.drain(..).enumerate() {
            let paint = packet.paint();
            let outcome = match packet.network_mut() {
                None => Outcome::Drop(Cause::Malformed),
                Some(ip) if self.is_spoofed(&balancer, port, paint, ip) => Outcome::Drop(Cause::Spoofed),
                Some(ip) => balancer.arriving(now, ip, &self.ahead[n]),
            };
            is_answered |= outcome == Outcome::Consumed;
            match done(outcome, &mut packet) {
                Ok(()) => runs.push(cx, port, packet),
                Err(reason) => cx.drop(reason, packet),
            }
        }
        runs.finish(cx);
        drop(balancer);
        if is_answered {
            self.turn(cx);
        }
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        self.turn(cx);
    }
}

impl Statistics for Balance {
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        if let Some(balancer) = self.balancer.as_ref().and_then(|shared| shared.try_lock()) {
            put(&stats::TABLE_ENTRIES, balancer.len() as u64);
            put(&stats::TABLE_CAPACITY, balancer.policy().sessions as u64);
        }
    }
}

impl LongHandlers for Balance {
    fn read_apart(&mut self, cx: &mut Cx<'_>, name: &str, param: &str) -> Option<Rest<String>> {
        let (shared, now, param) = (Arc::clone(self.shared()), cx.now(), param.to_owned());
        match name {
            "sessions" => Some(Box::new(move || Ok(some(&shared, place("sessions", &param)?, now)))),
            "services" => Some(Box::new(move || Ok(services(&shared, now)))),
            "servers" => Some(Box::new(move || Ok(servers(&shared, now)))),
            _ => None,
        }
    }

    fn write_apart(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Option<Rest<Option<String>>> {
        if name != "load" {
            return None;
        }
        let (load, element) = (self.load(value, cx.now()), cx.name().to_owned());
        let loading = Arc::clone(&self.loading);
        loading.fetch_add(1, Ordering::AcqRel);
        // The thread that loads has no timer: this one looks for what is new.
        let soon = cx.now() + LOADING_NS;
        set_earlier(cx, NEXT, Some(soon));
        Some(Box::new(move || {
            let loaded = load();
            loading.fetch_sub(1, Ordering::AcqRel);
            Ok(Some(format!("{element}: {}", loaded?)))
        }))
    }
}

impl Rehearsal for Balance {
    fn rehearse(&mut self, cx: &mut Cx<'_>, port: usize, mut packet: Packet) -> Rehearsed {
        let now = cx.now();
        let balancer = self.lock();
        let paint = packet.paint();
        let outcome = match packet.network_mut() {
            None => Outcome::Drop(Cause::Malformed),
            Some(ip) if self.is_spoofed(&balancer, port, paint, ip) => Outcome::Drop(Cause::Spoofed),
            Some(ip) => balancer.rehearse(now, ip, self.stage(port)),
        };
        let note = balancer.explain(outcome);
        drop(balancer);
        match done(outcome, &mut packet) {
            Ok(()) => cx.push(port, Batch::of(packet)),
            Err(reason) => cx.drop(reason, packet),
        }
        Rehearsed::Noted(note)
    }
}

impl Locking for Balance {
    fn locks(&self) -> Vec<LockUse> {
        let why = "every packet may begin a session, and writes when it was last used";
        vec![LockUse::new(How::Adaptive, SESSIONS, When::EachBatch, why)]
    }
}

impl HotSwap for Balance {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<Balance>(old) else { return false };
        let now = cx.now();
        if !Arc::ptr_eq(self.shared(), old.shared()) {
            let mut mine = self.lock();
            let mut theirs = old.lock();
            let mut draft = theirs.draft(Arc::clone(mine.policy()));
            draft.take_tables(&mine);
            if theirs.replace(draft, now).is_err() {
                return false;
            }
            std::mem::swap(&mut *mine, &mut *theirs);
            // A load that is still at work would change what nobody uses.
            old.is_gone.store(true, Ordering::Relaxed);
        }
        set_earlier(cx, NEXT, Some(now));
        true
    }
}

#[cfg(test)]
mod tests;
