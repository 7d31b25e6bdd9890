// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Firewall
//!
//! `Firewall(FILE, LINK NAME [PAINT], ... [, VRF NAME LINK ..., TRANSLATED LINK ..., LOG_BYTES])`
//!
//! Lets IPv4 and IPv6 packets pass that belong to connections which the rules of a file accept.
//!
//! **Ports:** push. Packets come when it is known where they go: input 0 is for those to the router itself, and one input follows for each link, in the order of LINK.
//! A router for both families has as many inputs again, for IPv6. What passes leaves by the output of the same number. Two outputs follow: packets that
//! are rejected, for ICMPError, and resets of TCP. With inputs for IPv6 two more follow, for ICMP6Error and for resets by IPv6.
//!
//! **Arguments**
//! * `FILE` the rule file.
//! * `LINK NAME [PAINT]` a link, in the order of the inputs, and the paint of packets that came by it, default its number
//!   from 1. Paint 0 is for packets from the router itself. Each link must be in a zone of FILE.
//! * `VRF NAME LINK ...` a VRF and its links, in the order of the values of the VRF annotation from 1. Other links are in the main table, number 0. May be repeated.
//! * `TRANSLATED LINK ...` links behind an address translator. It puts answers into the VRF of the host that they are for, so the firewall sees them there and not in that of the link.
//! * `LOG_BYTES` bytes that the journal keeps of each packet, from the IP header on. 0 to 1024, default 128.
//!
//! A rule file has a statement in each line; `#` begins a remark, and a line that ends with `,` or `\` goes on in the next one.
//!
//! ```text
//! zone inside eth1 eth2                 # links that rules treat alike; `self` is the router
//! zone outside eth0
//! set admins 10.0.1.5 10.0.1.16/28      # addresses, ports, or MAC addresses
//! set blocked file blocked.txt
//! default drop log                      # what matches no rule; without this line: drop
//! drop   from outside src @blocked
//! accept from inside to outside
//! accept from inside to self tcp port ssh src @admins log "login"
//! accept from outside to inside tcp port 443 dst 10.0.1.20 max-per-source 50
//! accept to self ping limit 10/s
//! ```
//!
//! The first rule that matches decides, and only about packets that begin a connection. The other packets of a connection pass in both directions, and so do ICMP
//! errors about them.
//! * Actions: `accept`, `drop`, `reject`, `reject with ANSWER`. `reject` answers with a reset for TCP, and for others with "port unreachable"; ANSWER is `prohibited`,
//!   `host`, `network` or `port`.
//! * Matches: `from ZONE`, `to ZONE`, `ip`, `ip6`, `tcp`, `udp`, `sctp`, `dccp`, `icmp`, `icmp6`, `ping`, `proto NUMBER`, `src ADDRESS`, `dst ADDRESS`, `port PORT`, `sport PORT`,
//!   `type TYPE`, `mac ADDRESS`. Several values stand with commas between them. An address is also a prefix, a range or `@SET`; after `!` all others match.
//! * `mac` asks for the source in the Ethernet header of the packet that begins a connection. This header must lie right before the IP header, with VLAN tags or without, and the link header
//!   position must show where: devices set it, and Strip keeps it. A packet without one, as from a tunnel, matches no rule with `mac`, nor one with `mac !`.
//! * `set NAME [addresses|ports|macs] MEMBER ...`, `set NAME [...] file PATH`: a file has a member in each line, perhaps with `for TIME` behind it, and may be compressed by gzip. Rules ask sets
//!   about each packet, so handlers change sets alone, and the next packet of any worker sees it. What they change is gone when the rules are loaded, or the configuration is swapped.
//! * `log ["TEXT"]` notes connections in the journal. `limit N/s [burst N]`: when more begin, the rule does not match. `max-per-source N`, `max-per-network N`: connections of an address
//!   or a network (24 bits, with IPv6 64) at a time. `new-per-source N/s [burst N]`, `new-per-network`: those that may begin.
//!   `synproxy`: the firewall answers SYNs by cookies, and the server sees clients that have proved their address. `stateless`: packets pass one by one. `name NAME`, `comment "TEXT"`.
//! * `timeout NAME TIME`, where NAME is `tcp` (2 h 4 min), `tcp-transitory` (4 min), `tcp-reset` (10 s), `udp` (5 min), `udp-single` (1 min),
//!   `icmp` (1 min) or `other` (10 min). `connections N`, at most 16777216, default 262144.
//! * `synproxy [above N/s] [mss N] [scale N|off] [sack on|off] [timestamps on|off]` says when rules with `synproxy` answer, default always, and what they promise for the servers. Defaults are
//!   the size of Ethernet, scale 7, SACK and timestamps. Above N SYNs a second the firewall begins to answer; it stops after 10 s with half as many.
//! * `alg ftp on|off`, default on: data connections of FTP pass that a control connection to port 21 announces, by PORT, EPRT, or the answers to PASV and EPSV. `alg tftp on|off`,
//!   default off: a TFTP server answers from another port. An announced connection passes once, within a minute, between the two hosts of the one that announces it. Ports below 1024 are refused.
//!
//! With `VRF`, a connection belongs to the VRF that its first packet's annotation names, and to that of the link by which this packet leaves: there its answers come. So the same addresses
//! and ports may be a connection in each VRF. Of two connections from different VRFs with the same answers, the second one is refused.
//!
//! Segments of TCP must lie in the window of their connection. Fragments have no ports: put IPReassembler in front.
//!
//! **Metadata read:** network header position, paint; with `VRF` the VRF annotation; with `mac` link header position. **Set:** of rejected packets the ICMP_PARAMPROB annotation, to the code of the error: see `CODE_ANNO` of ICMPError.
//!
//! **Cores:** the connections are in one table. Packets of known connections that leave their state as it is pass in all workers at the same time, and so do those that rules without
//! `limit` and `log` drop. New connections, changes of their state, and packets that are read or answered take turns.
//!
//! **Drops:** `firewall-rule`, `no-connection`, `out-of-window`, `connection-table-full`, `ambiguous-connection`, `source-limit`, `unreassembled`, `bad-length` for headers that are wrong. A full
//! table gives up connections that both sides have not agreed on yet or no more. `rate-exceeded` for resets above 1,000 per second, and for connections above `new-per-source` or `new-per-network`.
//!
//! **Handlers**
//! * `rules` read: for each rule its line in the file, packets, bytes, connections, seconds since the last match, and its text. The last line is the default.
//! * `connections` read, with a place as parameter, default 0: the place of the next ones, or `-`; then a line for each connection. It has protocol, source, port, destination, port,
//!   state, both zones, and the line of the rule. Packets and bytes there and back follow, then its age and the seconds until it ends, and the protocol that announced it, or `-`.
//!   With `VRF`, the VRF of its first packet and that of its answers end the line, `-` for the main table.
//!   The seconds are 0 if the end is up to the peer of a SessionSync.
//! * `synproxy` read: `on` or `off`, whether SYNs for rules with `synproxy` are answered now; then SYNs answered, cookies that came back, acknowledgements that were wrong, and
//!   connections that their server has accepted.
//! * `algs` read: a line each for `ftp` and `tftp`: connections that were announced, that have started, and announcements that were refused.
//! * `nconnections`, `capacity` read. `file` read: FILE.
//! * `refused` read: connections that the present rules would not accept, as in `connections`, at most 1,000. `unjudged` read: the same for those that depend on
//!   the MAC address of their first packet, which a connection does not keep.
//! * `journal` read, with the number of an event as parameter, default 0: the number of the next event, how many were too many, and how many are gone; then a line for each.
//! * `logged` read, with the number of an event as parameter, default 0: at most 256 events with their packets, as they were before the firewall. The first line has the
//!   number with which to go on, how many were too many, the number of the next event, and how many are gone. A line for each event follows. It has number, time, action
//!   and the rule's line: `-` for the default, `replaced` for an earlier rule. Then come the links by which the packet came and would go (`self` is the router). Its length,
//!   its first bytes in hexadecimal or `-`, and the rule's text end the line.
//! * `log_bytes` read: LOG_BYTES. `links` read: name and paint of each link, a line each.
//! * `load` write: reads FILE again, or the file named. Connections stay. If there is a mistake, the old rules stay.
//! * `load_keeping_sets` write: the same, but sets that have the name and kind of an old one keep what it holds.
//! * `sets` read: for each set its name, `addresses`, `ports` or `macs`, entries, how many of them end, and bytes that look-ups go through.
//! * `set` read, with `NAME [ENTRY]` as parameter: up to 8,192 entries of a set, from behind ENTRY on. The first line is the entry with which to go on, or `-`; then a line for each, with
//!   the seconds until it ends, or `-`.
//! * `set_test` read, with `NAME VALUE` as parameter: the entries that hold an address, a port, a MAC address, or all of a range; the same lines.
//! * `set_add` write: `NAME ENTRY ... [for TIME]`. Those that are there get the new end. `set_remove` write: `NAME ENTRY ...`; if one is not there, nothing changes.
//!   `set_load` write: `NAME PATH`, the entries of a file in place of those there are. `set_flush` write: `NAME`, without entries.
//! * `end` write: ends connections: `all`, `refused`, `ADDRESS [PORT]` for those with this end, or
//!   `PROTOCOL SOURCE PORT DESTINATION PORT [VRF]`, where VRF is that of the first packet.
//! * `handover` read, with a place as parameter, default 0: the place of the next ones, or `-`; then a line of hexadecimal digits for each connection on which both sides have
//!   agreed, but those with the router itself. Write: takes such lines, and `-` when all have come. A process that takes this one's place uses it.
//!
//! ```click
//! fw :: Firewall(/dev/null);
//! Idle -> fw -> Discard; fw[1] -> ICMPError(10.0.0.1, unreachable, CODE_ANNO ICMP_PARAMPROB) -> Discard; fw[2] -> Discard;
//! ```
//!
//! See also: SessionSync, IPFilter, IPClassifier, IPRewriter, CheckReversePath. RFC 792, RFC 4443, RFC 5382, RFC 4787, RFC 5508, RFC 5961

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use element::args::{Args, FromArg, Names};
use element::clock::Nanos;
use element::stats::{self, Stat};
use element::{
    Class, Cx, Element, HandlerError, HotSwap, InitCx, LockUse, Locking, LongHandlers, Provide, Reason,
    Rehearsal, Rehearsed, Rest, SharedState, Sharing, Statistics, When, handlers, swap,
};
use firewall::policy::{Answer, TCP};
use firewall::{Ahead, Cause, Decision, Firewall, PutOff, Ruleset, Standing, Verdict};
use packet::{Batch, Packet, anno};
use statesync::Table as _;
use sync::lock::How;
use sync::read_mostly::{ReadMostly, Reader};

use super::answers::{self, Sent};
use super::judge::{
    CONNECTIONS, Judge, Keep, Link, NOWHERE, SharedJudge, Vrf, check_vrfs, end, lock, replace, ruleset, some,
    standing, take,
};
use super::{reset, sets};
use crate::handover;
use crate::tools::{Runs, place};

/// Connections that `refused` and `unjudged` list.
const REFUSED: usize = 1000;
/// Bytes of packets that the journal keeps without `LOG_BYTES`, and at most.
const LOG_BYTES: u16 = 128;
const LOG_BYTES_MOST: u16 = 1024;
/// Looks for connections that are over before the others are counted.
const LOOKS: usize = 4096;

/// The descriptor.
pub const CLASS: Class = Class::new("Firewall", "1-/1-", || Box::new(Gate::default()))
    .processing("h/h")
    .sharing(Sharing::Shared)
    .handlers(handlers! { Gate:
        read "rules" => |gate, cx| lock(gate.judge()).rules(cx.now());
        read "connections" => |gate, cx, from: &str| some(gate.judge(), place("connections", from)?, cx.now());
        read "nconnections" => |gate, cx| gate.count(cx.now());
        read "capacity" => |gate| lock(gate.judge()).firewall.ruleset().policy.connections;
        read "file" => |gate| &gate.file;
        read "synproxy" => |gate, cx| lock(gate.judge()).synproxy(cx.now());
        read "algs" => |gate| lock(gate.judge()).algs();
        read "refused" => |gate, cx| standing(gate.judge(), Standing::Refused, REFUSED, cx.now()).concat();
        read "unjudged" => |gate, cx| standing(gate.judge(), Standing::Unjudged, REFUSED, cx.now()).concat();
        read "journal" => |gate, from: &str| gate.journal(place("journal", from)?);
        read "logged" => |gate, from: &str| logged(gate.judge(), place("logged", from)?);
        read "log_bytes" => |gate| gate.log_bytes;
        read "links" => |gate| gate.links.iter().map(|link| format!("{} {}\n", link.name, link.paint)).collect::<String>();
        read "sets" => |gate, cx| sets::about(gate.judge(), cx.now());
        read "set" => |gate, cx, which: &str| sets::list(gate.judge(), which, cx.now())?;
        read "set_test" => |gate, cx, which: &str| sets::test(gate.judge(), which, cx.now())?;
        write "load" => |gate, cx, path: &str| gate.load(path, Keep::File, cx.now())()?;
        write "load_keeping_sets" => |gate, cx, path: &str| gate.load(path, Keep::Present, cx.now())()?;
        write "set_add" => |gate, cx, which: &str| sets::add(gate.judge(), which, cx.now())?;
        write "set_remove" => |gate, cx, which: &str| sets::remove(gate.judge(), which, cx.now())?;
        write "set_load" => |gate, cx, which: &str| sets::load(gate.judge(), which, cx.now())?;
        write "set_flush" => |gate, cx, which: &str| sets::flush(gate.judge(), which, cx.now())?;
        write "end" => |gate, cx, which: &str| end_those(gate.judge(), cx.now(), which)?;
        both "handover" => |gate, cx, from: &str| handover::some(&mut lock(gate.judge()).firewall, place("handover", from)?, cx.now()),
            |gate, cx, text: &str| handover::take(&mut lock(gate.judge()).firewall, text, cx.now())?;
    })
    .provide::<Gate>()
    .statistics::<Gate>()
    .long_handlers::<Gate>()
    .rehearsal::<Gate>()
    .shared_state::<Gate>()
    .locking::<Gate>()
    .hot_swap::<Gate>()
    .file(file!());

/// `LINK NAME [PAINT]`
impl FromArg for Link {
    const EXPECTED: &'static str = "NAME [PAINT], a link and the paint of its packets from 1 to 255";

    fn from_arg(text: &str, _: &Names) -> Result<Link, String> {
        let mut words = text.split_ascii_whitespace();
        let (name, paint, more) = (words.next(), words.next(), words.next());
        let paint = paint.map_or(Ok(0), |paint| {
            paint.parse::<u8>().map_err(|_| String::new()).and_then(|paint| {
                if paint == 0 {
                    Err("paint 0 is for packets from the router itself".to_owned())
                } else {
                    Ok(paint)
                }
            })
        })?;
        match (name, more) {
            (Some(name), None) => Ok(Link { name: name.to_owned(), paint, is_translated: false }),
            _ => Err(String::new()),
        }
    }
}

/// `VRF NAME LINK ...`
impl FromArg for Vrf {
    const EXPECTED: &'static str = "NAME LINK ..., a VRF and the links in it";

    fn from_arg(text: &str, _: &Names) -> Result<Vrf, String> {
        let mut words = text.split_ascii_whitespace().map(str::to_owned);
        let (name, links) = (words.next(), words.collect::<Vec<_>>());
        name.filter(|_| !links.is_empty()).map(|name| Vrf { name, links }).ok_or_else(String::new)
    }
}

/// What instances and other elements share.
#[derive(Default)]
pub(crate) struct Provided {
    /// The connections, from the start on.
    judge: OnceLock<SharedJudge>,
    resets: reset::Rate,
}

impl Provided {
    pub(crate) fn judge(&self) -> Option<&SharedJudge> {
        self.judge.get()
    }
}

#[derive(Default)]
struct Gate {
    file: String,
    links: Vec<Link>,
    vrfs: Vec<Vrf>,
    /// Bytes of packets that the journal keeps.
    log_bytes: u16,
    ruleset: Option<Arc<Ruleset>>,
    link: Arc<Provided>,
    /// This instance's way to the connections, from its start on, and its number there.
    reader: Option<Reader<Judge>>,
    worker: usize,
    /// Whether it is another worker's instance, and another one shows the counts.
    is_further: bool,
    ninputs: usize,
    noutputs: usize,
    /// Packets of the last batch, and what was decided on them: room for those of the next.
    ahead: Vec<Ahead>,
    decisions: Vec<Option<Decision>>,
}

/// Ends connections that the handler's value names.
fn end_those(judge: &SharedJudge, now: Nanos, which: &str) -> Result<(), HandlerError> {
    let bad = || {
        let expected = "'all', 'refused', ADDRESS [PORT], or PROTOCOL SOURCE PORT DESTINATION PORT [VRF]";
        HandlerError::bad_value("end", which, expected)
    };
    let words: Vec<&str> = which.split_ascii_whitespace().collect();
    let side = |words: &[&str]| -> Result<(IpAddr, Option<u16>), HandlerError> {
        let port = words.get(1).map(|port| port.parse::<u16>()).transpose().map_err(|_| bad())?;
        Ok((words[0].parse().map_err(|_| bad())?, port))
    };
    let is = |(address, port): (IpAddr, Option<u16>), a: IpAddr, p: u16| {
        a == address && port.is_none_or(|port| port == p)
    };
    match words[..] {
        ["all"] => end(judge, now, |_, _| true),
        ["refused"] => end(judge, now, |ruleset, c| ruleset.refuses(c, now)),
        [_] | [_, _] => {
            let one = side(&words)?;
            end(judge, now, |_, c| is(one, c.source, c.ports[0]) || is(one, c.destination, c.ports[1]));
        }
        [protocol, ..] if [5, 6].contains(&words.len()) => {
            let protocol = firewall::protocol(protocol).ok_or_else(bad)?;
            let (one, other) = (side(&words[1..3])?, side(&words[3..])?);
            let ports = [one.1.ok_or_else(bad)?, other.1.ok_or_else(bad)?];
            let mut judge = lock(judge);
            let name = words.get(5).filter(|name| **name != "-").copied().unwrap_or_default();
            let Some(vrf) = judge.firewall.vrf_names().number(name) else {
                return Err(HandlerError::Failed(format!("there is no VRF '{name}'")));
            };
            judge.firewall.end_of(vrf, one.0, other.0, protocol, ports);
        }
        _ => return Err(bad()),
    }
    lock(judge).check_present().map_err(HandlerError::Failed)
}

/// Some events of the journal with their packets. Packets go on while these become text.
fn logged(judge: &SharedJudge, from: usize) -> String {
    let guard = lock(judge);
    let ruleset = Arc::clone(guard.firewall.ruleset());
    let logged = guard.journal.logged(from as u64);
    drop(guard);
    logged.text(&ruleset)
}

fn reason(cause: Cause) -> Reason {
    match cause {
        Cause::Rule => Reason::FirewallRule,
        Cause::NoConnection => Reason::NoConnection,
        Cause::Window => Reason::OutOfWindow,
        Cause::Malformed => Reason::BadLength,
        Cause::Fragment => Reason::Unreassembled,
        Cause::Full => Reason::ConnectionTableFull,
        Cause::SourceLimit => Reason::SourceLimit,
        Cause::SourceRate => Reason::RateExceeded,
        Cause::Ambiguous => Reason::AmbiguousConnection,
    }
}

/// The code of an "unreachable" message (RFC 792, RFC 1812, RFC 4443).
fn code(answer: Answer, six: bool) -> u8 {
    match (answer, six) {
        (Answer::Usual | Answer::Port, false) => 3,
        (Answer::Usual | Answer::Port, true) => 4,
        (Answer::Prohibited, false) => 13,
        (Answer::Prohibited, true) => 1,
        (Answer::Host, false) => 1,
        (Answer::Host, true) => 3,
        (Answer::Network, _) => 0,
    }
}

fn is_six(packet: &Packet) -> bool {
    packet.network().and_then(|ip| ip.first()).is_some_and(|first| first >> 4 == 6)
}

fn is_tcp(packet: &Packet) -> bool {
    let ip = packet.network().unwrap_or_default();
    match ip.first().map(|first| first >> 4) {
        Some(4) => ip.get(9) == Some(&TCP),
        Some(6) => wire::ipv6::View::new_checked(ip)
            .ok()
            .and_then(|view| view.upper_layer().ok())
            .is_some_and(|upper| upper.protocol.0 == TCP),
        _ => false,
    }
}

impl Gate {
    fn judge(&self) -> &SharedJudge {
        self.link.judge().expect("set by initialize")
    }

    fn count(&self, now: Nanos) -> usize {
        let mut judge = lock(self.judge());
        judge.firewall.reap(now, LOOKS);
        judge.firewall.len()
    }

    fn journal(&self, from: usize) -> String {
        let judge = lock(self.judge());
        judge.journal.text(from as u64, judge.firewall.ruleset())
    }

    /// Loads the rules of a file, or of FILE again; returns what there is to say about it.
    fn load(
        &self,
        path: &str,
        sets: Keep,
        now: Nanos,
    ) -> impl FnOnce() -> Result<String, HandlerError> + Send + use<> {
        let (judge, links) = (self.judge().clone(), self.links.clone());
        let path = if path.trim().is_empty() { self.file.clone() } else { path.trim().to_owned() };
        move || {
            let ruleset = ruleset(&path, &links).map_err(HandlerError::Failed)?;
            let rules = ruleset.policy.rules.len();
            ruleset.begin(now);
            replace(&judge, ruleset, &links, sets).map_err(HandlerError::Failed)?;
            Ok(format!("{path}: {rules} rules"))
        }
    }

    /// Outputs for rejected packets and for resets.
    fn answers(&self, six: bool) -> [usize; 2] {
        let first = self.ninputs + if six { 2 } else { 0 };
        [first, first + 1]
    }

    /// Where a packet goes that a decision was made on, and as what; or why it is dropped.
    fn route(
        &self,
        now: Nanos,
        decision: &Decision,
        port: usize,
        mut packet: Packet,
    ) -> Result<(usize, Packet), (Reason, Packet)> {
        let answer = match decision.verdict {
            Verdict::Pass => return Ok((port, packet)),
            Verdict::Drop(cause) => return Err((reason(cause), packet)),
            Verdict::Reject(answer) => answer,
            // Nobody asks where these go but rehearsals.
            Verdict::Answered => return Ok((port, packet)),
        };
        let six = is_six(&packet);
        let [rejected, resets] = self.answers(six);
        if answer == Answer::Usual && is_tcp(&packet) {
            if !self.link.resets.allows(now) {
                return Err((Reason::RateExceeded, packet));
            }
            return match reset::answer(&packet).filter(|_| resets < self.noutputs) {
                Some(reset) => Ok((resets, reset)),
                None => Err((Reason::FirewallRule, packet)),
            };
        }
        if rejected >= self.noutputs {
            return Err((Reason::FirewallRule, packet));
        }
        packet.set_anno_u8(anno::ICMP_PARAM_PROBLEM, code(answer, six));
        Ok((rejected, packet))
    }

    /// A packet of a connection that the firewall answers first. Others may leave in its place.
    fn send_answers(
        &self,
        cx: &mut Cx<'_>,
        runs: &mut Runs,
        firewall: &Firewall,
        decision: &Decision,
        (port, mut packet): (usize, Packet),
    ) {
        if decision.verdict == Verdict::Pass {
            answers::translate(firewall, &mut packet);
            return runs.push(cx, port, packet);
        }
        let [_, back] = self.answers(is_six(&packet));
        if let Verdict::Drop(cause) = decision.verdict {
            return cx.drop(reason(cause), packet);
        }
        match answers::sent(firewall.steps(), packet) {
            Err(packet) => cx.drop(Reason::NoMemory, packet),
            Ok(Sent::Onward(packet)) => runs.push(cx, port, packet),
            Ok(Sent::Back(packet)) => runs.push(cx, back, packet),
            Ok(Sent::Both(onward, answer)) => {
                cx.made(1);
                runs.push(cx, port, onward);
                runs.push(cx, back, answer);
            }
        }
    }

    /// Decides on the packets of a batch that change nothing but their own connection, while other workers may do the same. The others have no decision yet.
    /// Returns the epoch of the rules by which it has looked at all of them.
    fn decide_shared(&mut self, now: Nanos, port: usize, batch: &Batch) -> u64 {
        let Gate { reader, worker, ahead, decisions, .. } = self;
        decisions.clear();
        let Some(reader) = reader else {
            decisions.resize(batch.len(), Some(Decision::stray()));
            return 0;
        };
        let mut judge = reader.read();
        if judge.firewall.is_due(now) {
            drop(judge);
            lock(reader.lock()).firewall.reap(now, looks(batch));
            judge = reader.read();
        }
        judge.look_ahead(port, batch, ahead);
        let (hits, mut put_off) = (&judge.hits[*worker], PutOff::default());
        decisions.extend(batch.iter().zip(&*ahead).map(|(packet, ahead)| {
            match judge.from[usize::from(packet.paint())] {
                NOWHERE => Some(Decision::stray()),
                _ => judge.firewall.decide_shared(now, ahead, hits, &mut put_off),
            }
        }));
        judge.epoch
    }

    /// Sends the packets of a batch on, after it has decided on those that were put off. Other workers wait meanwhile.
    #[cold]
    fn decide_others(&mut self, cx: &mut Cx<'_>, runs: &mut Runs, port: usize, mut batch: Batch, epoch: u64) {
        let (now, shared) = (cx.now(), self.judge().clone());
        let mut judge = lock(&shared);
        judge.firewall.reap(now, looks(&batch));
        if judge.epoch != epoch {
            judge.look_ahead(port, &batch, &mut self.ahead);
        }
        for (n, packet) in batch.drain(..).enumerate() {
            let zones = judge.zones(port, &packet);
            let decision = match (self.decisions.get(n).copied().flatten(), zones[0]) {
                (Some(decision), _) => decision,
                (None, NOWHERE) => Decision::stray(),
                (None, _) => {
                    judge.firewall.judge_ahead(now, &self.ahead[n], packet.network().unwrap_or_default())
                }
            };
            if decision.logs {
                judge.note(cx.wall(), &decision, &packet, port, zones);
            }
            if decision.is_proxied {
                self.send_answers(cx, runs, &judge.firewall, &decision, (port, packet));
                continue;
            }
            self.send(cx, runs, &decision, port, packet);
        }
    }

    /// Sends a packet on that a decision was made on, or drops it.
    #[inline]
    fn send(&self, cx: &mut Cx<'_>, runs: &mut Runs, decision: &Decision, port: usize, packet: Packet) {
        match self.route(cx.now(), decision, port, packet) {
            Ok((output, packet)) => runs.push(cx, output, packet),
            Err((reason, packet)) => cx.drop(reason, packet),
        }
    }
}

/// How many connections are looked at to find those whose time is over: more than the packets of a batch can begin.
fn looks(batch: &Batch) -> usize {
    2 * batch.len() + 8
}

impl Element for Gate {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.file = args.required("FILE");
        self.links = args.keyword_all("LINK");
        for (n, link) in self.links.iter_mut().enumerate() {
            if link.paint == 0 {
                link.paint = u8::try_from(n + 1).unwrap_or(u8::MAX);
            }
        }
        self.vrfs = args.keyword_all("VRF");
        for names in args.keyword_all::<String>("TRANSLATED") {
            for name in names.split_ascii_whitespace() {
                match self.links.iter_mut().find(|link| link.name == name) {
                    Some(link) => link.is_translated = true,
                    None => args.error(format!("TRANSLATED '{name}' is none of the LINKs")),
                }
            }
        }
        self.log_bytes = args.keyword_in("LOG_BYTES", LOG_BYTES, 0..=LOG_BYTES_MOST);
        (self.ninputs, self.noutputs) = (args.ninputs, args.noutputs);
        let each = self.links.len() + 1;
        for (n, link) in self.links.iter().enumerate() {
            if self.links[..n].iter().any(|other| other.paint == link.paint || other.name == link.name) {
                args.error(format!("LINK {} {} has the name or the paint of another", link.name, link.paint));
            }
        }
        check_vrfs(&self.vrfs, &self.links).into_iter().for_each(|why| args.error(why));
        let expected = [(each, each + 2), (2 * each, 2 * each + 4)];
        if !expected.contains(&(args.ninputs, args.noutputs)) {
            args.error(format!(
                "with {} LINKs there should be {each} inputs and {} outputs, or {} and {} for both families, not {} and {}",
                self.links.len(),
                each + 2,
                2 * each,
                2 * each + 4,
                args.ninputs,
                args.noutputs
            ));
        }
        if !args.errors().is_empty() {
            return;
        }
        match ruleset(&self.file, &self.links) {
            Ok(ruleset) => self.ruleset = Some(ruleset),
            Err(why) => why.lines().for_each(|why| args.error(why.to_owned())),
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if !self.is_further {
            let ruleset = self.ruleset.take().ok_or("the rules could not be read")?;
            ruleset.begin(cx.now());
            let seed = RandomState::new().hash_one(0);
            let judge = Judge::new(ruleset, &self.links, &self.vrfs, self.log_bytes, seed);
            self.link.judge.set(ReadMostly::new(judge)).map_err(|_| "it is there already")?;
        }
        let worker = lock(self.judge()).join();
        self.worker = worker;
        self.reader = Some(self.judge().reader());
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) {
        let epoch = self.decide_shared(cx.now(), port, &batch);
        let mut runs = Runs::default();
        if self.decisions.iter().all(Option::is_some) {
            for (packet, decision) in batch.drain(..).zip(self.decisions.iter().flatten()) {
                self.send(cx, &mut runs, decision, port, packet);
            }
        } else {
            self.decide_others(cx, &mut runs, port, batch, epoch);
        }
        runs.finish(cx);
    }
}

impl SharedState for Gate {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(Gate {
            file: self.file.clone(),
            links: self.links.clone(),
            vrfs: self.vrfs.clone(),
            log_bytes: self.log_bytes,
            link: Arc::clone(&self.link),
            is_further: true,
            ninputs: self.ninputs,
            noutputs: self.noutputs,
            ..Gate::default()
        }))
    }
}

impl Provide for Gate {
    fn provide(&self) -> Option<element::Provided> {
        Some(self.link.clone())
    }
}

impl Statistics for Gate {
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        if self.is_further {
            return;
        }
        if let Some(judge) = self.link.judge().and_then(ReadMostly::try_write) {
            put(&stats::TABLE_ENTRIES, judge.firewall.len() as u64);
            put(&stats::TABLE_CAPACITY, judge.firewall.ruleset().policy.connections as u64);
        }
    }
}

impl LongHandlers for Gate {
    fn read_apart(&mut self, cx: &mut Cx<'_>, name: &str, param: &str) -> Option<Rest<String>> {
        let (judge, now, param) = (self.judge().clone(), cx.now(), param.to_owned());
        Some(match name {
            "connections" => Box::new(move || Ok(some(&judge, place("connections", &param)?, now))),
            "logged" => Box::new(move || Ok(logged(&judge, place("logged", &param)?))),
            "refused" => Box::new(move || Ok(standing(&judge, Standing::Refused, REFUSED, now).concat())),
            "unjudged" => Box::new(move || Ok(standing(&judge, Standing::Unjudged, REFUSED, now).concat())),
            "sets" => Box::new(move || Ok(sets::about(&judge, now))),
            "set" => Box::new(move || sets::list(&judge, &param, now)),
            "set_test" => Box::new(move || sets::test(&judge, &param, now)),
            _ => return None,
        })
    }

    fn write_apart(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Option<Rest<Option<String>>> {
        let keep = match name {
            "load" => Some(Keep::File),
            "load_keeping_sets" => Some(Keep::Present),
            _ => None,
        };
        if let Some(keep) = keep {
            let (load, element) = (self.load(value, keep, cx.now()), cx.name().to_owned());
            return Some(Box::new(move || Ok(Some(format!("{element}: {}", load()?)))));
        }
        let (judge, now, value) = (self.judge().clone(), cx.now(), value.to_owned());
        let change = match name {
            "end" => return Some(Box::new(move || end_those(&judge, now, &value).map(|()| None))),
            "set_add" => sets::add,
            "set_remove" => sets::remove,
            "set_load" => sets::load,
            "set_flush" => sets::flush,
            _ => return None,
        };
        Some(Box::new(move || change(&judge, &value, now).map(|()| None)))
    }
}

impl Rehearsal for Gate {
    fn rehearse(&mut self, cx: &mut Cx<'_>, port: usize, packet: Packet) -> Rehearsed {
        let now = cx.now();
        let shared = self.judge().clone();
        let mut judge = lock(&shared);
        let arrival = judge.arrival(port, &packet);
        let decision = match arrival.from {
            NOWHERE => Decision::stray(),
            _ => judge.firewall.rehearse_arrival(now, arrival),
        };
        let note = judge.firewall.ruleset().explain_arrival(&decision, &arrival);
        drop(judge);
        match self.route(now, &decision, port, packet) {
            Ok((output, packet)) => cx.push(output, Batch::of(packet)),
            Err((reason, packet)) => cx.drop(reason, packet),
        }
        Rehearsed::Noted(note)
    }
}

impl Locking for Gate {
    fn locks(&self) -> Vec<LockUse> {
        let why = "new connections, changes of their state and their ends; packets of known connections pass side by side";
        vec![LockUse::new(How::Adaptive, CONNECTIONS, When::Exceptions, why)]
    }
}

impl HotSwap for Gate {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<Gate>(old) else { return false };
        // Further instances share what the first one has taken.
        if !self.judge().is(old.judge()) && lock(old.judge()).check_present().is_ok() {
            let has_peer = lock(self.judge()).firewall.tells_changes();
            take(self.judge(), old.judge(), &self.links, &self.vrfs);
            if !has_peer {
                lock(self.judge()).firewall.leave_peer(cx.now());
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
