// SPDX-License-Identifier: MIT OR Apache-2.0
//! # NAT44
//!
//! `NAT44([FILE] [, STATEMENT TEXT ..., OWN ADDRESS ..., INTERFACE NAME ..., VRF NAME ..., keywords OUTSIDE, RESERVED, HAIRPINS])`
//!
//! Translates addresses and ports of IPv4 between an inside and an outside, by the statements of a file.
//!
//! **Ports:** push. Input 0 is for all packets that arrive, before they are routed: those to an outside address get their inside destination. Each further input is for
//! packets that leave by an outside link, after they have been routed: those from an inside address get an outside source. Packets leave by the output of the same number, changed or not. One more output, if it is
//! there, is for packets that leave no room for another session, for ICMPError.
//!
//! **Arguments**
//! * `FILE` the file of statements. `STATEMENT TEXT` a statement in the configuration itself, in quotes if it has commas; may be repeated, in place of FILE.
//! * `OWN ADDRESS` an outside address that is the router's own. Packets to it that belong to no session pass; packets to other outside addresses are dropped then. May be
//!   repeated.
//! * `INTERFACE NAME [ADDRESS ...|ELEMENT]` an interface that statements may name in place of outside addresses. Its addresses are these, or those that the kernel has at the moment on the device of an element such as
//!   FromHost, in its namespace. With neither, or where the kernel reports none, as of FromDevice, they are those that were last written to the handler `addresses`. Those that a statement uses are the router's own. May be
//!   repeated.
//! * `VRF NAME` a VRF, in the order of the values of the VRF annotation from 1; may be repeated. 0 is the main table.
//! * `OUTSIDE PAINT ...` the paints of packets that have come by outside links. They are dropped if they have an inside address, translated or static, of the main table or of their own VRF, as their source or destination, unless they are
//!   exempt. Without it, anyone may send from or to inside addresses.
//! * `RESERVED PORT[-PORT] ...` ports of the router's own addresses that inside hosts do not get, because programs of the router use them.
//! * `HAIRPINS N` the last N inputs are for packets that leave by inside links, default 0. With such inputs, packets between inside hosts by outside addresses keep their source
//!   until there. A Firewall in between then sees the hosts' own addresses in both directions.
//!
//! A file has a statement in each line; `#` begins a remark, and a line that ends with `,` or `\` goes on in the next one.
//!
//! ```text
//! translate 10.0.1.0/24 to 192.0.2.1                         # a home or an office
//! translate 100.64.0.0/20 to 192.0.2.16/28 block 512 max 4   # a provider: blocks of ports
//! translate 100.65.0.0/24 to 192.0.2.32 deterministic        # ports follow from addresses
//! static 10.0.3.9 to 192.0.2.9                               # addresses alone, both ways
//! forward tcp https on 192.0.2.1 to 10.0.1.20 port 8443
//! exempt 10.0.1.0/24 to 10.9.0.0/16
//! ```
//!
//! * `translate INSIDE to OUTSIDE` gives inside hosts ports of outside addresses. A host keeps one outside address. A port is the same towards everyone (endpoint-independent mapping).
//!   The first statement for an address decides. `ports LOW-HIGH` (1024-65535), `max-sessions N` and `max-ports N` for each inside host.
//!   Ports are random; with `block SIZE [max N]` they come from blocks that one host has, 64 at most by default, with `deterministic` they follow from the inside address (RFC 7422).
//! * `forward tcp|udp PORT[-PORT] [on OUTSIDE] to INSIDE [port PORT]` leads an outside port inside, also for what the inside port sends first. Forwards have half of the sessions at most.
//! * IPv6 addresses may be inside in `translate`, `forward` and `static`; a NAT64 makes IPv4 packets of theirs. Then each network of 64 bits is a subscriber. `prefix PREFIX`
//!   says behind what IPv6 hosts see IPv4 addresses, default 64:ff9b::/96.
//! * `vrf NAME` behind inside IPv4 addresses in `translate`, `forward` and `static` means those of a VRF: packets with its annotation. Each host is a subscriber. Hosts of several VRFs may have the
//!   same address and share an outside one. What comes back gets the host's VRF annotation, and 0 if the host is in the main table. What is for the router itself keeps that of its link.
//! * `interface NAME` in place of an outside address in `translate`, and behind `on` in `forward`, stands for the addresses that the interface has now, eight at most: those of a DHCP lease, for example. Before it has one, packets of
//!   its hosts are dropped as `no-outside-address`. When an address goes, its sessions end, and are noted. Not used are addresses that a statement has inside, or names in `static` or a pool.
//! * `static INSIDE to OUTSIDE` translates addresses one by one, for all protocols. It takes no sessions, but for FTP and SIP, whose text changes; those count as sessions of forwards.
//! * `exempt SOURCE to DESTINATION` leaves packets alone.
//! * `filter MODE` says who may send to a port: `endpoint-independent` (everyone, the default), `address-dependent` or `address-and-port-dependent`.
//! * `alg ftp on|off`, default on. Clients inside say their address on a connection to port 21, and so do servers inside at port 21: PORT, EPRT, and
//!   the answers to PASV and EPSV. The text gets an outside address, by which they are reached. `alg tftp on|off`, default off: a server answers a client inside from another port. The filter may be any.
//! * `alg sip on|off`, default off: phones inside say outside addresses in SIP over UDP from or to port 5060, and hear their own; also in descriptions of media (SDP), whose ports then lead inside. A host has 1,024 ports
//!   for media at a time at most. SIP over TCP, IPv6 hosts and candidates of ICE are left alone.
//! * `timeout NAME TIME`, where NAME is `tcp` (2 h 4 min), `tcp-transitory` (4 min), `udp` (5 min), `icmp` (1 min), `other` (10 min), or `hold` (2 min): how long a port waits that is given up. `sessions N`, at most 16777216, default 262144.
//! * `log blocks` notes which host gets which block of ports and when it comes back, and, 16 times a second at most, which host finds no room. `log ports` notes each port as well,
//!   and `log sessions` each session, too.
//!
//! Inside hosts reach each other by their outside addresses, too (hairpinning). ICMP errors are translated with the packet that they quote. Protocols without ports have
//! one inside host for each peer. A UDP port or ICMP identifier at which everyone may send is nobody else's for the time `hold` afterwards. So is a block that had one; the host that had it may have it again. Fragments have no ports: put IPReassembler in front.
//!
//! **Metadata read:** network header position, paint with OUTSIDE, with VRF the VRF annotation. **Set:** with VRF the VRF annotation of packets for inside hosts; destination annotation of packets that arrive, to the inside destination; ICMP_PARAMPROB of those for ICMPError, to the code of the error. With HAIRPINS, input 0
//! sets the sequence number annotation, and the last inputs read it; so does NAT64 of packets for IPv6 hosts.
//!
//! **Cores:** the sessions are in one table for all workers. Packets of known sessions pass side by side. New sessions, changes of their state (both sides have agreed, one has
//! finished), watched texts and ends take turns.
//!
//! **Drops:** `reverse-path` for inside addresses from outside, `no-mapping`, `mapping-filtered`, `no-free-port`, `no-outside-address`, `subscriber-limit`, `mapping-table-full`, `unreassembled`, `bad-length` for headers that are wrong. A full
//! table gives up sessions that both sides have not agreed on yet or no more.
//!
//! **Handlers**
//! * `statements` read: for each translation its line in the file, inside hosts, sessions, and ports in use; for others zeros; then its text.
//! * `sessions` read, with a place as parameter, default 0: the place of the next ones, or `-`; then a line for each session. It has protocol, inside address and port, outside address and port,
//!   peer and port, and state. Packets and bytes from inside and to it follow, then its age and the seconds until it ends: 0 if
//!   that is up to the peer of a SessionSync. With VRF, `-` and twice the host's VRF end the line, `-` for the main table.
//! * `subscribers` read: a line for each inside host, at most 10,000: inside address, or network of IPv6 hosts, outside address, line of its statement, sessions, ports for TCP, UDP and ICMP, blocks as `FIRST:USED`.
//! * `journal` read, with the number of an event as parameter, default 0: the number of the next event and how many are gone; then a line for each of those that `log` notes. It has its
//!   number, the time, and nine words, `-` for what there is not. They are what happened, protocol, inside address and port, outside address, first and last port, peer and its port. What happened is `given` or
//!   `returned` for ports, `begun` or `ended` for sessions, or that there was no room: `host-limit`, `no-port` or `table-full`. Those have a tenth word: how many sessions or ports there may be, or for `no-port` the line of the statement. `no-port` has the outside address whose ports
//!   are all in use, or `-` if no address of the statement has one. The last 8,192 are kept.
//! * `owner` read, with `PROTOCOL ADDRESS PORT` as parameter: the inside address and port that have an outside one, or nothing.
//! * `algs` read: `ftp`, how many addresses in texts have been replaced, and how many were left because they are of another host or there was no port; then `sip`, the same for messages, and those that are wrong.
//! * `addresses` read: a line for each address of each INTERFACE: its name, the address, and `used` or `unused: WHY`; `NAME - none` if it has none. Write: `NAME ADDRESS ...`, or `NAME -` for none, unless the
//!   kernel says them. So the script of a DHCP or PPP client may say what it has got.
//! * `nsessions`, `nmappings`, `capacity` read. `file` read: FILE.
//! * `load` write: reads FILE again, or the file that is named. Sessions stay where the new statements allow them. If there is a mistake, the old statements stay.
//! * `end` write: ends sessions: `all`, `ADDRESS [PORT]` for those with this end, or `PROTOCOL INSIDE PORT PEER PORT [VRF]`.
//!   A host in a VRF stands as `10.0.1.2@red` in `subscribers` and `journal`, and with its VRF at the end in `owner`.
//! * `handover` read, with a place as parameter, default 0: the place of the next ones, or `-`; then a line of hexadecimal digits for each session on which both sides have agreed. Write: takes
//!   such lines, and `-` when all have come. A process that takes this one's place uses it.
//!
//! ```click
//! nat :: NAT44(/dev/null);
//! Idle -> nat -> Discard; Idle -> [1]nat; nat[1] -> Discard;
//! ```
//!
//! See also: NAT64, IPRewriter, ICMPRewriter, Firewall, IPReassembler. RFC 4787, RFC 5382, RFC 5508, RFC 6056, RFC 6888, RFC 7422, RFC 7857

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use element::args::{Args, FromArg, Names};
use element::clock::{Nanos, SECOND};
use element::stats::{self, Stat};
use element::{
    Class, Cx, Element, HandlerError, HotSwap, InitCx, LockUse, Locking, LongHandlers, Provide, Provided,
    Reason, Rehearsal, Rehearsed, Rest, SharedState, Sharing, Statistics, When, handlers, swap,
};
use nat::policy::Policy;
use nat::{Addresses, Ahead, Cause, Nat, Outcome, PutOff};
use packet::{Batch, Packet, anno};
use statesync::Table as _;
use sync::lock::How;
use sync::read_mostly::{ReadMostly, Reader, WriteGuard};

use crate::handover;
use crate::tools::{Paints, Runs, place};

mod interfaces;
mod views;
mod vrfs;
pub(super) mod watched;
mod way;

use interfaces::Interfaces;
use views::{end_those, reaped, some, statements, subscribers};
use vrfs::Vrfs;
use way::Way;

/// The name of the lock, for the profiler.
pub(super) const SESSIONS: &str = "the sessions";
/// The timer by which addresses of interfaces are looked at.
const LOOK: u32 = 0;
/// The code of "communication administratively prohibited" (RFC 1812, 5.2.7.1; RFC 6888, REQ-12).
const PROHIBITED: u8 = 13;

/// The descriptor.
pub const CLASS: Class = Class::new("NAT44", "2-/2-", || Box::new(Translator::default()))
    .processing("h/h")
    .sharing(Sharing::Shared)
    .handlers(handlers! { Translator:
        read "statements" => |me, cx| statements(me.nat(), cx.now());
        read "sessions" => |me, cx, from: &str| some(me.nat(), &me.vrfs, place("sessions", from)?, cx.now());
        read "subscribers" => |me, cx| subscribers(me.nat(), &me.vrfs, cx.now());
        read "journal" => |me, cx, from: &str| me.journal(from, cx.now(), cx.wall())?;
        read "owner" => |me, cx, which: &str| me.owner(which, cx.now())?;
        read "nsessions" => |me, cx| reaped(me.nat(), cx.now()).len();
        read "nmappings" => |me, cx| reaped(me.nat(), cx.now()).mappings();
        read "capacity" => |me| me.lock().policy().sessions;
        read "algs" => |me| me.algs();
        read "file" => |me| &me.file;
        both "addresses" => |me| me.interfaces.shown(me.nat()), |me, cx, text: &str| me.change_addresses(text, cx.now())?()?;
        write "load" => |me, path: &str| me.load(path)()?;
        both "handover" => |me, cx, from: &str| handover::some(&mut *me.nat().write(), place("handover", from)?, cx.now()),
            |me, cx, text: &str| handover::take(&mut *me.nat().write(), text, cx.now())?;
        write "end" => |me, cx, which: &str| end_those(me.nat(), &me.vrfs, which, cx.now())?;
    })
    .provide::<Translator>()
    .statistics::<Translator>()
    .long_handlers::<Translator>()
    .rehearsal::<Translator>()
    .shared_state::<Translator>()
    .locking::<Translator>()
    .hot_swap::<Translator>()
    .file(file!());

type SharedNat = ReadMostly<Nat>;

/// A translator for other elements.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// It is there from its start on.
    nat: OnceLock<SharedNat>,
    /// Paints of packets from outside.
    outside: OnceLock<Vec<u8>>,
    /// Whether a NAT64 makes IPv6 packets of those for IPv6 hosts.
    has_six: AtomicBool,
    /// Whether the element of another configuration has taken the sessions over.
    is_taken: AtomicBool,
}

impl Link {
    pub(super) fn nat(&self) -> Option<&SharedNat> {
        self.nat.get()
    }

    /// Whether packets of this paint come from outside.
    pub(super) fn is_outside(&self, paint: u8) -> bool {
        self.outside.get().is_some_and(|paints| paints.contains(&paint))
    }

    /// A NAT64 is there.
    pub(super) fn join(&self) {
        self.has_six.store(true, Ordering::Relaxed);
    }
}

/// Marks a packet for an IPv6 host with the host that it is for, so that the NAT64 makes no packet for another one that has got its number since.
fn mark(nat: &Nat, packet: &mut Packet) {
    let destination = packet.network().and_then(|ip| ip.get(16..20)?.first_chunk::<4>().copied());
    let host = destination.map(u32::from_be_bytes).filter(|address| nat::is_stand_in(*address));
    if let Some(host) = host.and_then(|address| nat.mark(address)) {
        packet.set_anno_u32(anno::SEQUENCE, host.get());
    }
}

/// Whether a packet that arrives has got the address of an inside host.
#[inline]
fn is_for_inside(outcome: Option<Outcome>) -> bool {
    matches!(outcome, Some(Outcome::Translated | Outcome::Watched(_) | Outcome::Hairpin(_)))
}

/// The way of a packet that came to an input.
#[inline]
fn way(port: usize, outside: &[u8], vrfs: &Vrfs, packet: &Packet) -> Way {
    Way { leaves: port > 0, from_outside: outside.contains(&packet.paint()), vrf: vrfs.number(packet) }
}

/// A value of the sequence number annotation: the source of the packet is an outside address already.
pub(super) const TRANSLATED: u32 = u32::MAX;

#[derive(Default)]
struct Translator {
    /// Empty, if the statements are in the configuration.
    file: String,
    own: Vec<u32>,
    /// Paints of packets from outside.
    outside: Vec<u8>,
    reserved: Vec<(u16, u16)>,
    interfaces: Interfaces,
    vrfs: Vrfs,
    policy: Option<Arc<Policy>>,
    link: Arc<Link>,
    /// This instance's way to the sessions, from its start on.
    reader: Option<Reader<Nat>>,
    /// Whether it is another worker's instance, and another one shows the counts.
    is_further: bool,
    ninputs: usize,
    noutputs: usize,
    /// The first input for packets that leave by inside links.
    inward: usize,
    /// Packets of the last batch, and what has become of them: room for those of the next.
    ahead: Vec<Ahead>,
    outcomes: Vec<Option<Outcome>>,
}

/// Reads a file of statements.
///
/// # Errors
/// What is wrong with it, a line each.
fn policy(path: &str) -> Result<Arc<Policy>, String> {
    sound(nat::read_file(Path::new(path))?)
}

/// The policy of statements that are right.
fn sound(reading: nat::Reading) -> Result<Arc<Policy>, String> {
    let shown = || lang::render_short(&reading.diagnostics, &reading.sources).trim_end().to_owned();
    reading.policy.map(Arc::new).ok_or_else(shown)
}

/// `PORT[-PORT] ...`
struct PortRanges(Vec<(u16, u16)>);

impl FromArg for PortRanges {
    const EXPECTED: &'static str = "PORT[-PORT] ..., ports or ranges of ports";

    fn from_arg(text: &str, _: &Names) -> Result<PortRanges, String> {
        let range = |word: &str| {
            let (low, high) = word.split_once('-').unwrap_or((word, word));
            Some((low.parse::<u16>().ok()?, high.parse::<u16>().ok()?)).filter(|(low, high)| low <= high)
        };
        let all: Option<Vec<_>> = text.split_ascii_whitespace().map(range).collect();
        all.map(PortRanges).ok_or_else(String::new)
    }
}

/// Whether there was no room for a session.
pub(super) fn is_lack(cause: Cause) -> bool {
    matches!(cause, Cause::SubscriberLimit | Cause::NoPort | Cause::Full)
}

pub(super) fn reason(cause: Cause) -> Reason {
    match cause {
        Cause::Malformed => Reason::BadLength,
        Cause::Fragment => Reason::Unreassembled,
        Cause::NoMapping => Reason::NoMapping,
        Cause::Filtered => Reason::MappingFiltered,
        Cause::Spoofed => Reason::ReversePath,
        Cause::SubscriberLimit => Reason::SubscriberLimit,
        Cause::NoPort => Reason::NoFreePort,
        Cause::NoAddress => Reason::NoOutsideAddress,
        Cause::Full => Reason::MappingTableFull,
    }
}

impl Translator {
    fn nat(&self) -> &SharedNat {
        self.link.nat().expect("set by initialize")
    }

    fn lock(&self) -> WriteGuard<'_, Nat> {
        self.nat().write()
    }

    /// What has become of addresses in texts.
    fn algs(&self) -> String {
        let counts = self.lock().alg_counts();
        let (ftp, sip) = ([counts.ftp_rewritten, counts.ftp_left], [counts.sip_rewritten, counts.sip_left]);
        format!("ftp {} {}\nsip {} {}", ftp[0], ftp[1], sip[0], sip[1])
    }

    /// Events from a number on.
    fn journal(&self, from: &str, now: Nanos, wall: Nanos) -> Result<String, HandlerError> {
        let from = place("journal", from)? as u64;
        let (next, events) = self.lock().journal(from);
        let first = events.first().map_or(next, |(number, _)| *number);
        let mut text = format!("{next} {}\n", first.saturating_sub(from));
        for (number, event) in events {
            let at = wall.saturating_sub(now.saturating_sub(event.at_ns));
            let what = self.vrfs.shown(event.what);
            let _ = writeln!(text, "{number} {}.{:09} {what}", at / SECOND, at % SECOND);
        }
        Ok(text)
    }

    fn owner(&self, which: &str, now: Nanos) -> Result<String, HandlerError> {
        let bad = || HandlerError::bad_value("owner", which, "PROTOCOL ADDRESS PORT");
        let words: Vec<&str> = which.split_ascii_whitespace().collect();
        let [protocol, address, port] = words[..] else { return Err(bad()) };
        let protocol = rulefile::names::protocol(protocol).ok_or_else(bad)?;
        let outside = (address.parse().map_err(|_| bad())?, port.parse().map_err(|_| bad())?);
        let found = reaped(self.nat(), now).owner(protocol, outside);
        Ok(found.map_or_else(String::new, |(address, port)| self.vrfs.owner(address, port)))
    }

    /// An interface has the addresses that are said; returns what is left to do.
    fn change_addresses(
        &self,
        text: &str,
        now: Nanos,
    ) -> Result<impl FnOnce() -> Result<(), HandlerError> + Send + use<>, HandlerError> {
        let (name, all) = self.interfaces.said(text)?;
        let (nat, link) = (self.nat().clone(), Arc::clone(&self.link));
        Ok(move || {
            let mut shared = nat.write();
            if link.is_taken.load(Ordering::Relaxed) {
                return Err(HandlerError::failed("the configuration was replaced: say it again"));
            }
            interfaces::change(&mut shared, now, &name, all);
            drop(shared);
            interfaces::settle(&nat, now);
            Ok(())
        })
    }

    /// Loads the statements of a file, or of FILE again; returns what there is to say about it.
    fn load(&self, path: &str) -> impl FnOnce() -> Result<String, HandlerError> + Send + use<> {
        let (nat, own, link) = (self.nat().clone(), self.own.clone(), Arc::clone(&self.link));
        let (interfaces, vrfs) = (self.interfaces.shared(), self.vrfs.clone());
        let path = if path.trim().is_empty() { self.file.clone() } else { path.trim().to_owned() };
        move || {
            if path.is_empty() {
                return Err(HandlerError::failed(
                    "the statements are in the configuration: name a file, or change the configuration",
                ));
            }
            let policy = policy(&path).map_err(HandlerError::Failed)?;
            interfaces.have_all_of(&policy).map_err(HandlerError::Failed)?;
            vrfs.have_all_of(&policy).map_err(HandlerError::Failed)?;
            if policy.prefix.is_some() && !link.has_six.load(Ordering::Relaxed) {
                return Err(HandlerError::failed(
                    "IPv6 addresses are inside, and no NAT64 is in the configuration: write that again, with `junctor init router --nat FILE`",
                ));
            }
            let mut nat = nat.write();
            if link.is_taken.load(Ordering::Relaxed) {
                return Err(HandlerError::failed("the configuration was replaced: say it again"));
            }
            let lost = nat.replace(policy, &own, RandomState::new().hash_one(0));
            Ok(format!("{path}: {lost} sessions have ended"))
        }
    }

    /// Decides on the packets of a batch, and translates them. Those of known sessions go first, while other workers may do the same. The others wait for their turn.
    fn decide(&mut self, now: Nanos, port: usize, batch: &mut Batch) {
        let Translator { reader, ahead, outcomes, outside, link, vrfs, .. } = self;
        let has_six = port == 0 && link.has_six.load(Ordering::Relaxed);
        let Some(reader) = reader else { return };
        outcomes.clear();
        // More than new sessions can make.
        let most = 2 * batch.len() + 8;
        {
            let mut nat = reader.read();
            if nat.is_due(now) {
                drop(nat);
                reader.lock().write().reap(now, most);
                nat = reader.read();
            }
            let packets = batch.iter().map(|packet| packet.network().unwrap_or_default());
            nat.look_ahead(packets, port > 0, ahead);
            let mut put_off = PutOff::default();
            for (packet, ahead) in batch.iter_mut().zip(&*ahead) {
                let is_translated = port > 0 && packet.anno_u32(anno::SEQUENCE) == TRANSLATED;
                if is_translated {
                    packet.set_anno_u32(anno::SEQUENCE, 0);
                }
                let way = way(port, outside, vrfs, packet);
                let mut outcome = match packet.network_mut() {
                    None => Some(Outcome::Drop(Cause::Malformed)),
                    Some(_) if is_translated => Some(Outcome::Unchanged),
                    Some(ip) => way.shared(&nat, now, ip, ahead, &mut put_off),
                };
                if port == 0 && is_for_inside(outcome) && !vrfs.place(&nat, packet, way.from_outside) {
                    outcome = Some(Outcome::Drop(Cause::NoMapping));
                }
                outcomes.push(outcome);
                if has_six {
                    mark(&nat, packet);
                }
            }
        }
        if outcomes.iter().all(Option::is_some) {
            return;
        }
        let mut nat = reader.lock().write();
        nat.reap(now, most);
        for ((packet, ahead), outcome) in batch.iter_mut().zip(&*ahead).zip(outcomes) {
            if outcome.is_some() {
                continue;
            }
            let way = way(port, outside, vrfs, packet);
            let mut decided = match packet.network_mut() {
                None => Outcome::Drop(Cause::Malformed),
                Some(ip) => way.exclusive(&mut nat, now, ip, ahead),
            };
            if let Outcome::Watched(number) = decided {
                watched::edit(&mut nat, now, number, usize::from(port == 0), packet);
            }
            if port == 0 && is_for_inside(Some(decided)) && !vrfs.place(&nat, packet, way.from_outside) {
                decided = Outcome::Drop(Cause::NoMapping);
            }
            if has_six {
                mark(&nat, packet);
            }
            *outcome = Some(decided);
        }
    }

    /// Packets that leave by an inside link: most came from elsewhere.
    fn leave_inside(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) {
        if batch.iter().any(|packet| packet.anno_u32(anno::SEQUENCE) != 0)
            && let Some(reader) = &mut self.reader
        {
            let nat = reader.read();
            for packet in batch.iter_mut() {
                Translator::inward(&nat, packet);
            }
        }
        cx.push(port, batch);
    }

    /// Gives a packet that leaves by an inside link the source that was kept back.
    fn inward(nat: &Nat, packet: &mut Packet) -> Outcome {
        let number = packet.anno_u32(anno::SEQUENCE);
        if number == 0 {
            return Outcome::Unchanged;
        }
        packet.set_anno_u32(anno::SEQUENCE, 0);
        packet.network_mut().map_or(Outcome::Unchanged, |ip| nat.leaving_inside(ip, number - 1))
    }

    /// Where a packet goes that a decision was made on; or why it is dropped.
    fn route(&self, outcome: Outcome, port: usize, packet: &mut Packet) -> Result<usize, Reason> {
        let cause = match outcome {
            Outcome::Unchanged => return Ok(port),
            Outcome::Translated | Outcome::Watched(_) | Outcome::Hairpin(_) => {
                if let Outcome::Hairpin(number) = outcome {
                    packet.set_anno_u32(anno::SEQUENCE, number.wrapping_add(1));
                }
                if port == 0
                    && let Some(destination) =
                        packet.network().and_then(|ip| ip.get(16..20)?.first_chunk::<4>().copied())
                {
                    // Nobody would make an IPv6 packet of it.
                    if nat::is_stand_in(u32::from_be_bytes(destination))
                        && !self.link.has_six.load(Ordering::Relaxed)
                    {
                        return Err(Reason::NoMapping);
                    }
                    packet.set_dst_ip(destination);
                }
                return Ok(port);
            }
            Outcome::Drop(cause) => cause,
        };
        if is_lack(cause) && port > 0 && self.noutputs > self.ninputs {
            packet.set_anno_u8(anno::ICMP_PARAM_PROBLEM, PROHIBITED);
            return Ok(self.ninputs);
        }
        Err(reason(cause))
    }
}

impl Element for Translator {
    fn configure(&mut self, args: &mut Args<'_>) {
        let statements = args.keyword_all::<String>("STATEMENT");
        match statements.is_empty() {
            true => self.file = args.required("FILE"),
            false => self.file = args.positional("FILE", String::new()),
        }
        if !statements.is_empty() && !self.file.is_empty() {
            args.error("FILE and STATEMENT: the statements stand in one of them");
        }
        self.own = args.keyword_all::<Ipv4Addr>("OWN").into_iter().map(u32::from).collect();
        self.outside = args.keyword_all::<Paints>("OUTSIDE").into_iter().flat_map(|all| all.0).collect();
        let reserved = args.keyword_all::<PortRanges>("RESERVED");
        self.reserved = reserved.into_iter().flat_map(|all| all.0).collect();
        self.interfaces.configure(args);
        match Vrfs::new(args.keyword_all("VRF")) {
            Ok(vrfs) => self.vrfs = vrfs,
            Err(why) => args.error(why),
        }
        (self.ninputs, self.noutputs) = (args.ninputs, args.noutputs);
        if ![self.ninputs, self.ninputs + 1].contains(&self.noutputs) {
            args.error(format!(
                "with {0} inputs there should be {0} outputs, or {1}, not {2}",
                self.ninputs,
                self.ninputs + 1,
                self.noutputs
            ));
        }
        let hairpins = args.keyword("HAIRPINS", 0usize);
        if hairpins.saturating_add(2) > self.ninputs {
            args.error(format!(
                "HAIRPINS {hairpins} leaves no input for packets that leave by outside links"
            ));
        }
        self.inward = self.ninputs.saturating_sub(hairpins);
        if !args.errors().is_empty() {
            return;
        }
        let read = match statements.is_empty() {
            true => policy(&self.file),
            false => sound(nat::read("STATEMENT", &statements.join("\n"))),
        };
        match read {
            Ok(policy) => {
                self.interfaces.have_all_of(&policy).unwrap_or_else(|why| args.error(why));
                self.vrfs.have_all_of(&policy).unwrap_or_else(|why| args.error(why));
                self.policy = Some(policy);
            }
            Err(why) => why.lines().for_each(|why| args.error(why.to_owned())),
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if self.is_further {
            self.reader = Some(self.nat().reader());
            return Ok(());
        }
        let policy = self.policy.take().ok_or("the statements could not be read")?;
        let mut nat = Nat::new(policy, &self.own, RandomState::new().hash_one(0));
        nat.split_hairpins(self.inward < self.ninputs);
        self.reserved.iter().for_each(|range| nat.reserve_own(*range));
        nat.set_addresses(0, self.interfaces.with_written(Addresses::default()));
        self.interfaces.initialize(cx, LOOK)?;
        let _ = self.link.outside.set(self.outside.clone());
        let nat = ReadMostly::new(nat);
        self.reader = Some(nat.reader());
        let is_first = self.link.nat.set(nat).is_ok();
        is_first.then_some(()).ok_or_else(|| "it is there already".to_owned())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) {
        if port >= self.inward {
            return self.leave_inside(cx, port, batch);
        }
        self.decide(cx.now(), port, &mut batch);
        let mut runs = Runs::default();
        for (n, mut packet) in batch.drain(..).enumerate() {
            let outcome = self.outcomes[n].unwrap_or(Outcome::Drop(Cause::NoMapping));
            match self.route(outcome, port, &mut packet) {
                Ok(output) => runs.push(cx, output, packet),
                Err(reason) => cx.drop(reason, packet),
            }
        }
        runs.finish(cx);
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        let Translator { interfaces, link, .. } = self;
        if let Some(nat) = link.nat() {
            interfaces.look(cx, timer, nat);
        }
    }
}

impl SharedState for Translator {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(Translator {
            file: self.file.clone(),
            own: self.own.clone(),
            outside: self.outside.clone(),
            reserved: self.reserved.clone(),
            interfaces: self.interfaces.shared(),
            vrfs: self.vrfs.clone(),
            link: Arc::clone(&self.link),
            is_further: true,
            ninputs: self.ninputs,
            noutputs: self.noutputs,
            inward: self.inward,
            ..Translator::default()
        }))
    }
}

impl Provide for Translator {
    fn provide(&self) -> Option<Provided> {
        Some(self.link.clone())
    }
}

impl Statistics for Translator {
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        if self.is_further {
            return;
        }
        if let Some(nat) = self.link.nat().and_then(ReadMostly::try_write) {
            put(&stats::TABLE_ENTRIES, nat.len() as u64);
            put(&stats::TABLE_CAPACITY, nat.policy().sessions as u64);
        }
    }
}

impl LongHandlers for Translator {
    fn read_apart(&mut self, cx: &mut Cx<'_>, name: &str, param: &str) -> Option<Rest<String>> {
        let (nat, now, param) = (self.nat().clone(), cx.now(), param.to_owned());
        let vrfs = self.vrfs.clone();
        match name {
            "sessions" => Some(Box::new(move || Ok(some(&nat, &vrfs, place("sessions", &param)?, now)))),
            "statements" => Some(Box::new(move || Ok(statements(&nat, now)))),
            "subscribers" => Some(Box::new(move || Ok(subscribers(&nat, &vrfs, now)))),
            _ => None,
        }
    }

    fn write_apart(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Option<Rest<Option<String>>> {
        match name {
            "end" => {
                let (nat, value, now) = (self.nat().clone(), value.to_owned(), cx.now());
                let vrfs = self.vrfs.clone();
                Some(Box::new(move || end_those(&nat, &vrfs, &value, now).map(|()| None)))
            }
            "load" => {
                let (load, element) = (self.load(value), cx.name().to_owned());
                Some(Box::new(move || Ok(Some(format!("{element}: {}", load()?)))))
            }
            "addresses" => {
                let change = self.change_addresses(value, cx.now());
                Some(Box::new(move || change?().map(|()| None)))
            }
            _ => None,
        }
    }
}

impl Rehearsal for Translator {
    fn rehearse(&mut self, cx: &mut Cx<'_>, port: usize, mut packet: Packet) -> Rehearsed {
        let shared = self.nat().clone();
        let mut nat = shared.write();
        let way = way(port, &self.outside, &self.vrfs, &packet);
        let before = packet.network().unwrap_or_default().to_vec();
        let is_translated = port > 0 && packet.anno_u32(anno::SEQUENCE) == TRANSLATED;
        let outcome = match packet.network_mut() {
            None => Outcome::Drop(Cause::Malformed),
            Some(_) if port >= self.inward => Translator::inward(&nat, &mut packet),
            Some(_) if is_translated => Outcome::Unchanged,
            Some(ip) => way.rehearse(&mut nat, cx.now(), ip),
        };
        let is_placed =
            port > 0 || !is_for_inside(Some(outcome)) || self.vrfs.place(&nat, &mut packet, way.from_outside);
        let outcome = if is_placed { outcome } else { Outcome::Drop(Cause::NoMapping) };
        let note = nat.explain(outcome, &before, packet.network().unwrap_or_default());
        if port == 0 && self.link.has_six.load(Ordering::Relaxed) {
            mark(&nat, &mut packet);
        }
        drop(nat);
        match self.route(outcome, port, &mut packet) {
            Ok(output) => cx.push(output, Batch::of(packet)),
            Err(reason) => cx.drop(reason, packet),
        }
        Rehearsed::Noted(note)
    }
}

impl Locking for Translator {
    fn locks(&self) -> Vec<LockUse> {
        let why = "new sessions, changes of their state and their ends; packets of known sessions pass side by side";
        vec![LockUse::new(How::Adaptive, SESSIONS, When::Exceptions, why)]
    }
}

impl HotSwap for Translator {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<Translator>(old) else { return false };
        // Further instances share what the first one has taken.
        if !self.nat().is(old.nat()) && !old.link.is_taken.swap(true, Ordering::Relaxed) {
            let mut mine = self.lock();
            let mut theirs = old.lock();
            let (policy, own) = (Arc::clone(mine.policy()), self.own.clone());
            let has_peer = mine.tells_changes();
            theirs.reserve_instead(&self.reserved);
            let addresses = self.interfaces.with_written(theirs.addresses().clone());
            theirs.addresses_instead(addresses);
            theirs.replace(policy, &own, RandomState::new().hash_one(0));
            theirs.split_hairpins(self.inward < self.ninputs);
            std::mem::swap(&mut *mine, &mut *theirs);
            if !has_peer {
                mine.leave_peer(cx.now());
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
