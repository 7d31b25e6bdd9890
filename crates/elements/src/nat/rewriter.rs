// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPRewriter
//!
//! `IPRewriter(INPUTSPEC, ... [, keywords TCP_TIMEOUT, TCP_DONE_TIMEOUT, TCP_NODATA_TIMEOUT, TCP_GUARANTEE, UDP_TIMEOUT,`
//! `UDP_STREAMING_TIMEOUT, UDP_GUARANTEE, TIMEOUT, GUARANTEE, MAPPING_CAPACITY, DST_ANNO, REAP_INTERVAL])`
//!
//! Rewrites addresses and ports of TCP and UDP flows, both ways: network address and port translation.
//!
//! **Ports:** push; as many inputs as there are INPUTSPECs, 1 to 256 outputs.
//!
//! **Arguments**
//! * `INPUTSPEC` for each input, what happens to packets of unknown flows there:
//!   * `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`: a mapping is made. The flow's packets get these addresses and
//!     ports (`-` leaves one as it is) and leave by FOUTPUT; answers are rewritten back and leave by ROUTPUT. SPORT may be a
//!     range `LOW-HIGH`: the flow's own port if it lies in it and is free, else any free one; behind it, `?` means any free
//!     one, and `#` the next one. `pattern NAME FOUTPUT ROUTPUT` takes the pattern from IPRewriterPatterns.
//!   * `keep FOUTPUT ROUTPUT`: a mapping that changes nothing.
//!   * `nochange [OUTPUT]` (or `pass`): sends them on without a mapping.
//!   * `drop`: drops them.
//! * `TCP_TIMEOUT` 24 h, `TCP_DONE_TIMEOUT` 4 min (after RST, or FIN from both sides), `TCP_NODATA_TIMEOUT` 5 min (until both
//!   sides have sent data), `UDP_TIMEOUT` 5 min, `UDP_STREAMING_TIMEOUT` (with answers, default UDP_TIMEOUT): idle
//!   times after which mappings end. `TIMEOUT` is a synonym for the UDP one.
//! * `TCP_GUARANTEE`, `UDP_GUARANTEE`, `GUARANTEE` default 5 s: a mapping this young does not give way to another one.
//! * `MAPPING_CAPACITY` mappings at most, default 65536; when there are more, the one that would end first goes.
//! * `DST_ANNO` boolean, default true: sets the destination annotation.
//! * `REAP_INTERVAL` is accepted; mappings end on time without it.
//!
//! **Metadata read:** network and transport header positions. **Set:** destination address.
//!
//! **Cores:** the mappings are in one table, which one worker may use at a time.
//!
//! **Drops:** `no-mapping`, also for later fragments and other protocols unless the input has `nochange`;
//! `mapping-table-full`, when neither a port nor a place for a mapping is free; `too-short`.
//!
//! **Handlers**
//! * `mappings`, `table` read: a line for each mapping and direction. `tcp_mappings`, `udp_mappings` read: of one protocol.
//! * `nmappings`, `size` read: mappings. `mapping_failures` read: mappings refused. `patterns` read: the INPUTSPECs.
//! * `capacity` read/write. `clear` write: ends all mappings.
//!
//! ```click
//! rw :: IPRewriter(pattern 1.0.0.1 1024-65535 - - 0 1, drop);
//! Idle -> [0]rw; Idle -> [1]rw; rw[0] -> Discard; rw[1] -> Discard;
//! ```
//!
//! UDPRewriter and TCPRewriter are this element for one protocol's timeouts.
//!
//! See also: IPRewriterPatterns, IPAddrRewriter, ICMPRewriter; RFC 1624, RFC 3022

use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use engine::args::{Args, Names};
use engine::clock::Nanos;
use engine::{Class, Cx, Element, Handler, HandlerError, InitCx, Reason, Sharing, parse_integer};
use packet::{Batch, Packet};
use tables::flow::{Direction, Flow, FlowId, FlowKey, FlowTable, InsertError};
use wire::checksum::{update16, update16_udp, update32, update32_udp};

use super::pattern::Pattern;
use super::patterns::PatternSet;

const fn class(name: &'static str, make: fn() -> Box<dyn Element>) -> Class {
    Class::new(name, "1-/1-256", make)
        .processing("h/h")
        .sharing(Sharing::Serial)
        .handlers(HANDLERS)
        .file(file!())
}

const HANDLERS: &[Handler] = &[
    Handler::read("mappings"),
    Handler::read("table"),
    Handler::read("tcp_mappings"),
    Handler::read("udp_mappings"),
    Handler::read("nmappings"),
    Handler::read("size"),
    Handler::read("mapping_failures"),
    Handler::read("patterns"),
    Handler::both("capacity"),
    Handler::write("clear"),
];

/// The descriptor.
pub const IP: Class = class("IPRewriter", || Box::new(Rewriter::new(&[TCP, UDP])));
/// The descriptor of the one for UDP; like Click's it takes TCP packets too, with UDP's timeouts.
pub const UDP_REWRITER: Class =
    class("UDPRewriter", || Box::new(Rewriter { plain: true, ..Rewriter::new(&[TCP, UDP]) }));
/// The descriptor of the one for TCP.
pub const TCP_REWRITER: Class = class("TCPRewriter", || Box::new(Rewriter::new(&[TCP])));

const TCP: u8 = 6;
const UDP: u8 = 17;
const SECOND: u64 = 1_000_000_000;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const DEFAULT_CAPACITY: usize = 65536;

/// What an input does with packets of unknown flows.
#[derive(Clone, Debug)]
enum Spec {
    Drop,
    Pass(usize),
    Keep(usize, usize),
    Pattern(Arc<Pattern>, usize, usize),
    /// A pattern by name, until the elements are found.
    Named(String, usize, usize),
}

/// Reads `FOUTPUT ROUTPUT`.
pub(super) fn outputs(words: &[&str], noutputs: usize) -> Result<(usize, usize), String> {
    let [forward, reply] = words else { return Err("expected FOUTPUT ROUTPUT".into()) };
    let port = |word: &str| {
        let port = parse_integer(word).and_then(|n| usize::try_from(n).ok());
        port.filter(|p| *p < noutputs).ok_or_else(|| format!("output '{word}' is out of range"))
    };
    Ok((port(forward)?, port(reply)?))
}

impl Spec {
    fn parse(text: &str, names: &Names, noutputs: usize) -> Result<Spec, String> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let Some((kind, rest)) = words.split_first() else { return Err("empty argument".into()) };
        match *kind {
            "drop" | "discard" if rest.is_empty() => Ok(Spec::Drop),
            "nochange" | "pass" | "passthrough" => match rest {
                [] => Ok(Spec::Pass(0)),
                [output] => outputs(&[output, "0"], noutputs).map(|(output, _)| Spec::Pass(output)),
                _ => Err(format!("expected '{kind} [OUTPUT]'")),
            },
            "keep" => outputs(rest, noutputs).map(|(f, r)| Spec::Keep(f, r)),
            "pattern" | "xpattern" if rest.len() >= 3 => {
                let (pattern, ports) = rest.split_at(rest.len() - 2);
                let (forward, reply) = outputs(ports, noutputs)?;
                if let [name] = pattern {
                    return Ok(Spec::Named((*name).to_owned(), forward, reply));
                }
                Ok(Spec::Pattern(Arc::new(Pattern::parse(pattern, names)?), forward, reply))
            }
            "pattern" | "xpattern" => {
                Err("expected 'pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT'".into())
            }
            other => Err(format!("unknown specification '{other}'")),
        }
    }

    fn text(&self) -> String {
        match self {
            Spec::Drop => "<drop>".into(),
            Spec::Pass(_) => "<nochange>".into(),
            Spec::Keep(..) => "<keep>".into(),
            Spec::Pattern(pattern, ..) => pattern.text(),
            Spec::Named(name, ..) => name.clone(),
        }
    }
}

/// What is kept about a mapping beside its flow keys.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    outputs: [usize; 2],
    input: usize,
    /// Sides that have sent FIN, and sides that have sent data, forward first.
    done: [bool; 2],
    data: [bool; 2],
    guaranteed_until: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Timeouts {
    tcp: u64,
    tcp_done: u64,
    tcp_nodata: u64,
    tcp_guarantee: u64,
    udp: u64,
    udp_streaming: u64,
    udp_guarantee: u64,
}

struct Rewriter {
    protocols: &'static [u8],
    /// All flows have UDP's timeouts.
    plain: bool,
    specs: Vec<Spec>,
    timeouts: Timeouts,
    table: FlowTable<Mapping>,
    capacity: usize,
    dst_anno: bool,
    failures: u64,
}

impl Rewriter {
    fn new(protocols: &'static [u8]) -> Rewriter {
        Rewriter {
            protocols,
            plain: false,
            specs: Vec::new(),
            timeouts: Timeouts {
                tcp: 86_400 * SECOND,
                tcp_done: 240 * SECOND,
                tcp_nodata: 300 * SECOND,
                tcp_guarantee: 5 * SECOND,
                udp: 300 * SECOND,
                udp_streaming: 300 * SECOND,
                udp_guarantee: 5 * SECOND,
            },
            table: FlowTable::new(0, 0),
            capacity: DEFAULT_CAPACITY,
            dst_anno: true,
            failures: 0,
        }
    }

    fn configure_timeouts(&mut self, args: &mut Args<'_>) {
        let mut time = |name, default: u64| {
            let time = args.keyword(name, Duration::from_nanos(default));
            u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
        };
        let t = &mut self.timeouts;
        t.udp = time("TIMEOUT", t.udp);
        t.udp = time("UDP_TIMEOUT", t.udp);
        t.udp_streaming = time("UDP_STREAMING_TIMEOUT", t.udp);
        t.udp_guarantee = time("GUARANTEE", t.udp_guarantee);
        t.tcp_guarantee = time("TCP_GUARANTEE", t.udp_guarantee);
        t.udp_guarantee = time("UDP_GUARANTEE", t.udp_guarantee);
        t.tcp = time("TCP_TIMEOUT", t.tcp);
        t.tcp_done = time("TCP_DONE_TIMEOUT", t.tcp_done);
        t.tcp_nodata = time("TCP_NODATA_TIMEOUT", t.tcp_nodata);
        time("REAP_INTERVAL", 0);
        time("REAP_TIME", 0);
    }

    /// Makes a mapping for the first packet of a flow.
    fn map(&mut self, cx: &mut Cx<'_>, flow: FlowKey, input: usize, now: Nanos) -> Result<FlowId, Reason> {
        let table = &self.table;
        let taken = |reply: &FlowKey| table.lookup(reply).is_some();
        let (to, forward, reply) = match &self.specs[input] {
            Spec::Keep(forward, reply) => (Some(flow), *forward, *reply),
            Spec::Pattern(pattern, forward, reply) => {
                (pattern.rewrite(flow, cx.random(), taken), *forward, *reply)
            }
            _ => return Err(Reason::NoMapping),
        };
        let tcp = flow.proto == TCP && !self.plain;
        let guarantee = if tcp { self.timeouts.tcp_guarantee } else { self.timeouts.udp_guarantee };
        let mapping = Mapping {
            outputs: [forward, reply],
            input,
            done: [false; 2],
            data: [false; 2],
            guaranteed_until: now.saturating_add(guarantee),
        };
        let expires = now.saturating_add(self.timeout(flow.proto, &mapping));
        let id = to.and_then(|to| self.insert(flow, to.reversed(), mapping, expires, now));
        if id.is_none() {
            self.failures += 1;
        }
        id.ok_or(Reason::MappingTableFull)
    }

    /// Enters a mapping; another one that is in the way or would end soonest goes for it.
    fn insert(
        &mut self,
        flow: FlowKey,
        reply: FlowKey,
        mapping: Mapping,
        expires: Nanos,
        now: Nanos,
    ) -> Option<FlowId> {
        for _ in 0..3 {
            match self.table.insert(flow, reply, mapping, expires) {
                Ok(id) => return Some(id),
                Err(InsertError::Exists { other, .. }) => drop(self.table.remove(other)),
                Err(InsertError::Full { .. }) => {
                    let (id, _) = self.table.soonest()?;
                    if self.table.get(id)?.guaranteed_until > now {
                        return None;
                    }
                    self.table.remove(id);
                }
            }
        }
        None
    }

    fn timeout(&self, proto: u8, mapping: &Mapping) -> u64 {
        let t = &self.timeouts;
        if proto != TCP || self.plain {
            return if mapping.data[1] { t.udp_streaming } else { t.udp };
        }
        match (mapping.done, mapping.data) {
            ([true, true], _) => t.tcp_done,
            (_, [true, true]) => t.tcp,
            _ => t.tcp_nodata,
        }
    }

    /// Finds or makes the packet's mapping, rewrites it, and says where it goes.
    fn rewrite(
        &mut self,
        cx: &mut Cx<'_>,
        input: usize,
        packet: &mut Packet,
        now: Nanos,
    ) -> Result<usize, Reason> {
        let Some(flow) = flow_of(packet, self.protocols) else {
            return match self.specs[input] {
                Spec::Pass(output) => Ok(output),
                _ => Err(Reason::NoMapping),
            };
        };
        let (id, direction) = match self.table.lookup(&flow) {
            Some(hit) => (hit.id, hit.direction),
            None => match self.specs[input] {
                Spec::Pass(output) => return Ok(output),
                _ => (self.map(cx, flow, input, now)?, Direction::Forward),
            },
        };
        let Some(Flow { forward, reply, value, .. }) = self.table.flow(id) else {
            return Err(Reason::NoMapping);
        };
        let side = usize::from(direction == Direction::Reply);
        let to = if side == 0 { reply.reversed() } else { forward.reversed() };
        let mut mapping = *value;
        let flags = apply(packet, &flow, &to).ok_or(Reason::TooShort)?;
        if self.dst_anno {
            packet.set_dst_ip(to.dst.to_be_bytes());
        }
        mapping.note(side, flow.proto, flags, packet);
        let expires = now.saturating_add(self.timeout(flow.proto, &mapping));
        if let Some(kept) = self.table.get_mut(id) {
            *kept = mapping;
        }
        self.table.set_expiry(id, expires);
        Ok(mapping.outputs[side])
    }

    fn mappings(&self, now: Nanos, proto: Option<u8>) -> String {
        let mut flows: Vec<_> = self.table.iter().map(|(_, flow)| flow).collect();
        flows.retain(|f| proto.is_none_or(|p| f.forward.proto == p));
        flows.sort_by_key(|f| f.forward);
        let mut text = String::new();
        for f in flows {
            let [forward, reply] = f.value.outputs;
            let left = f.expires_ns.saturating_sub(now).saturating_add(SECOND / 2) / SECOND;
            let (input, to, back) = (f.value.input, f.reply.reversed(), f.forward.reversed());
            let (from, reply_from) = (flow_text(&f.forward), flow_text(&f.reply));
            let _ = writeln!(text, "{from} => {} [*{forward} {reply}] i{input} exp{left}", flow_text(&to));
            let _ = writeln!(
                text,
                "{reply_from} => {} [{forward} *{reply}] i{input} exp{left}",
                flow_text(&back)
            );
        }
        text
    }
}

impl Mapping {
    /// Notes what a packet says about the state of its connection.
    fn note(&mut self, side: usize, proto: u8, flags: u8, packet: &Packet) {
        if proto != TCP {
            self.data[side] = true;
            return;
        }
        if flags & RST != 0 {
            self.done = [true; 2];
        } else if flags & FIN != 0 {
            self.done[side] = true;
        } else if flags & SYN != 0 {
            self.done[side] = false;
        }
        let header = packet.transport().and_then(|t| t.get(12)).map_or(5, |b| usize::from(b >> 4));
        let end = packet
            .network()
            .and_then(|n| n.get(2..4))
            .map_or(0, |b| usize::from(b[0]) << 8 | usize::from(b[1]));
        let ip = packet.network().and_then(|n| n.first()).map_or(20, |b| usize::from(b & 15) * 4);
        self.data[side] |= end > ip + header * 4;
    }
}

fn flow_text(key: &FlowKey) -> String {
    let (src, dst) = (Ipv4Addr::from_bits(key.src), Ipv4Addr::from_bits(key.dst));
    format!("({src}, {}, {dst}, {})", key.sport, key.dport)
}

/// The flow of a packet that can be rewritten: one of the protocols, first fragment, ports there.
fn flow_of(packet: &Packet, protocols: &[u8]) -> Option<FlowKey> {
    let ip = packet.network()?.first_chunk::<20>()?;
    let transport = packet.transport()?;
    let word = |b: &[u8]| u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
    let first = u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff == 0;
    if !first || !protocols.contains(&ip[9]) || transport.len() < 8 {
        return None;
    }
    let ports = word(transport.first_chunk::<4>()?);
    let (sport, dport) = ((ports >> 16) as u16, ports as u16);
    Some(FlowKey { src: word(&ip[12..16]), dst: word(&ip[16..20]), sport, dport, proto: ip[9], zone: 0 })
}

/// Writes addresses and ports and mends the checksums (RFC 1624); returns the TCP flags. Changes nothing where the transport header is cut off.
fn apply(packet: &mut Packet, from: &FlowKey, to: &FlowKey) -> Option<u8> {
    let at = usize::try_from(packet.transport_offset()? - packet.network_offset()?).ok()?;
    let bytes = packet.network_mut()?;
    let (ip, transport) = bytes.split_at_mut_checked(at)?;
    let sum_at = if from.proto == TCP { 16 } else { 6 };
    if transport.len() < sum_at + 2 || ip.len() < 20 {
        return None;
    }
    let sum = u16::from_be_bytes([ip[10], ip[11]]);
    let sum = update32(update32(sum, from.src, to.src), from.dst, to.dst);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip[12..16].copy_from_slice(&to.src.to_be_bytes());
    ip[16..20].copy_from_slice(&to.dst.to_be_bytes());
    let old = u16::from_be_bytes([transport[sum_at], transport[sum_at + 1]]);
    let new = if from.proto == UDP {
        // RFC 3022: a UDP checksum of zero means that there is none.
        let addresses = update32_udp(update32_udp(old, from.src, to.src), from.dst, to.dst);
        update16_udp(update16_udp(addresses, from.sport, to.sport), from.dport, to.dport)
    } else {
        let addresses = update32(update32(old, from.src, to.src), from.dst, to.dst);
        update16(update16(addresses, from.sport, to.sport), from.dport, to.dport)
    };
    transport[sum_at..sum_at + 2].copy_from_slice(&new.to_be_bytes());
    transport[..2].copy_from_slice(&to.sport.to_be_bytes());
    transport[2..4].copy_from_slice(&to.dport.to_be_bytes());
    Some(if from.proto == TCP { transport[13] } else { 0 })
}

impl Element for Rewriter {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.configure_timeouts(args);
        self.capacity = args.keyword("CAPACITY", self.capacity);
        self.capacity = args.keyword("MAPPING_CAPACITY", self.capacity);
        self.dst_anno = args.keyword("DST_ANNO", true);
        let specs = args.rest();
        if specs.len() != args.ninputs {
            let (want, got) = (args.ninputs, specs.len());
            args.error(format!("needs as many input specifications as inputs: {want}, not {got}"));
        }
        for (n, text) in specs.iter().enumerate() {
            match Spec::parse(text, args.names, args.noutputs) {
                Ok(spec) => self.specs.push(spec),
                Err(why) => args.error(format!("input spec {n}: {why}")),
            }
        }
        let seed = RandomState::new().hash_one(0);
        self.table = FlowTable::new(self.capacity, seed);
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        for (n, spec) in self.specs.iter_mut().enumerate() {
            if let Spec::Named(name, forward, reply) = spec {
                let found = PatternSet::find(cx, name);
                let pattern = found.ok_or_else(|| format!("input spec {n}: no such pattern '{name}'"))?;
                *spec = Spec::Pattern(pattern, *forward, *reply);
            }
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) {
        let now = cx.now();
        while self.table.pop_expired(now).is_some() {}
        // Runs of packets that leave by the same output stay together.
        let mut run: Option<(usize, Batch)> = None;
        for mut packet in batch.drain(..) {
            match self.rewrite(cx, port, &mut packet, now) {
                Ok(output) => match &mut run {
                    Some((current, out)) if *current == output => out.push(packet),
                    _ => {
                        if let Some((output, out)) = run.replace((output, Batch::of(packet))) {
                            cx.push(output, out);
                        }
                    }
                },
                Err(reason) => cx.drop(reason, packet),
            }
        }
        if let Some((output, out)) = run {
            cx.push(output, out);
        }
    }

    fn read(&mut self, cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        let now = cx.now();
        while self.table.pop_expired(now).is_some() {}
        Ok(match name {
            "mappings" | "table" => self.mappings(now, None),
            "tcp_mappings" => self.mappings(now, Some(TCP)),
            "udp_mappings" => self.mappings(now, Some(UDP)),
            "mapping_failures" => self.failures.to_string(),
            "capacity" => self.capacity.to_string(),
            "patterns" => self.specs.iter().map(|s| s.text() + "\n").collect(),
            _ => self.table.len().to_string(),
        })
    }

    fn write(&mut self, _: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        if name == "capacity" {
            let capacity = value.trim().parse().ok().filter(|c| *c <= 1 << 24);
            self.capacity =
                capacity.ok_or_else(|| HandlerError::bad_value(name, value, "mappings, up to 16777216"))?;
            let old = std::mem::replace(
                &mut self.table,
                FlowTable::new(self.capacity, RandomState::new().hash_one(0)),
            );
            let mut flows: Vec<_> =
                old.iter().map(|(_, f)| (f.expires_ns, f.forward, f.reply, *f.value)).collect();
            flows.sort_by_key(|f| std::cmp::Reverse(f.0));
            for (expires, forward, reply, mapping) in flows {
                let _ = self.table.insert(forward, reply, mapping, expires);
            }
            return Ok(());
        }
        self.table.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;
    use wire::checksum;

    const HOME: [u8; 4] = [10, 0, 0, 1];
    const PEER: [u8; 4] = [8, 8, 8, 8];
    const US: [u8; 4] = [1, 0, 0, 1];

    /// A packet with right checksums.
    fn packet(proto: u8, src: ([u8; 4], u16), dst: ([u8; 4], u16), flags: u8) -> Packet {
        let mut t = vec![0; if proto == TCP { 20 } else { 8 }];
        t[..2].copy_from_slice(&src.1.to_be_bytes());
        t[2..4].copy_from_slice(&dst.1.to_be_bytes());
        if proto == TCP {
            (t[12], t[13]) = (0x50, flags);
        } else {
            t[5] = 8;
        }
        let sum = checksum::transport_v4(src.0.into(), dst.0.into(), wire::Protocol(proto), &t);
        let at = if proto == TCP { 16 } else { 6 };
        t[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        let mut ip = [0x45, 0, 0, 20 + t.len() as u8, 0, 0, 0, 0, 64, proto, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        ip[12..16].copy_from_slice(&src.0);
        ip[16..].copy_from_slice(&dst.0);
        let sum = checksum::header20_checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let mut p = Packet::copy_of(&[&ip[..], &t].concat()).unwrap();
        p.set_network(0, 20);
        p
    }

    /// The flow, after a check of the checksums by full sums.
    fn seen(p: &Packet) -> String {
        let ip = p.network().unwrap();
        let key = flow_of(p, &[TCP, UDP]).unwrap();
        assert!(checksum::header20_ok(ip.first_chunk().unwrap()), "{p:?}");
        let proto = wire::Protocol(key.proto);
        assert!(checksum::transport_v4_ok(
            Ipv4Addr::from_bits(key.src),
            Ipv4Addr::from_bits(key.dst),
            proto,
            &ip[20..]
        ));
        flow_text(&key)
    }

    /// Inside packets enter at input 0, outside ones at input 1.
    fn rig(class: &str, args: &str) -> Rig {
        Rig::text(&format!(
            "i :: TestIn -> e :: {class}({args}); j :: TestIn -> [1]e; e[0] -> o0 :: TestOut; e[1] -> o1 :: TestOut;"
        ))
    }

    #[test]
    fn rewrites_both_ways() {
        for (class, proto) in
            [("IPRewriter", UDP), ("IPRewriter", TCP), ("UDPRewriter", UDP), ("TCPRewriter", TCP)]
        {
            let run = rig(class, "pattern 1.0.0.1 1024-1030# - - 0 1, drop")
                .packets(vec![
                    packet(proto, (HOME, 4000), (PEER, 53), 0),
                    packet(proto, (HOME, 4001), (PEER, 53), 0),
                ])
                .run();
            let out = run.out("o0");
            assert_eq!(seen(&out[0]), "(1.0.0.1, 1024, 8.8.8.8, 53)");
            assert_eq!((seen(&out[1]), out[1].dst_ip()), ("(1.0.0.1, 1025, 8.8.8.8, 53)".into(), PEER));
            run.give(
                "j",
                vec![packet(proto, (PEER, 53), (US, 1025), 0), packet(proto, (PEER, 53), (US, 1026), 0)],
            );
            let mut run = run.again();
            assert_eq!(run.out("o1").iter().map(seen).collect::<Vec<_>>(), ["(8.8.8.8, 53, 10.0.0.1, 4001)"]);
            assert_eq!(run.drops("e"), [(Reason::NoMapping, 1)]);
            assert_eq!(run.read("e.nmappings"), "2");
            assert!(run.read("e.mappings").starts_with(
                "(10.0.0.1, 4000, 8.8.8.8, 53) => (1.0.0.1, 1024, 8.8.8.8, 53) [*0 1] i0 exp300\n"
            ));
            run.write("e.clear", "").unwrap();
            assert_eq!(run.read("e.size"), "0");
        }
    }

    #[test]
    fn no_checksum_stays_none() {
        let mut p = packet(UDP, (HOME, 4000), (PEER, 53), 0);
        p.data_mut()[26..28].fill(0);
        let run = rig("UDPRewriter", "pattern 1.0.0.1 - - - 0 1, drop").packets(vec![p]).run();
        assert_eq!(run.out("o0")[0].data()[26..28], [0, 0]);
    }

    #[test]
    fn capacity_refuses_while_guaranteed() {
        let packets = || (0..3).map(|n| packet(UDP, (HOME, 4000 + n), (PEER, 53), 0)).collect::<Vec<_>>();
        let mut run = rig("UDPRewriter", "keep 0 1, drop, MAPPING_CAPACITY 2").packets(packets()).run();
        assert_eq!((run.out("o0").len(), run.read("e.mapping_failures")), (2, "1".into()));
        assert_eq!(run.drops("e"), [(Reason::MappingTableFull, 1)]);
        let mut run =
            rig("UDPRewriter", "keep 0 1, drop, MAPPING_CAPACITY 2, GUARANTEE 0").packets(packets()).run();
        assert_eq!((run.out("o0").len(), run.read("e.size")), (3, "2".into()));
    }

    #[test]
    fn connections_end() {
        let to = |flags| packet(TCP, (HOME, 4000), (PEER, 80), flags);
        let from = |flags| packet(TCP, (PEER, 80), (US, 4000), flags);
        let mut run =
            rig("TCPRewriter", "pattern 1.0.0.1 - - - 0 1, drop").packets(vec![to(SYN), to(FIN)]).run();
        assert!(run.read("e.mappings").contains("exp300"));
        run.give("j", vec![from(FIN)]);
        let mut run = run.again();
        assert!(run.read("e.mappings").contains("exp240"), "{}", run.read("e.mappings"));
    }

    #[test]
    fn fragments_and_strangers() {
        let mut fragment = packet(UDP, (HOME, 4000), (PEER, 53), 0);
        fragment.data_mut()[7] = 1;
        let icmp = packet(1, (HOME, 0), (PEER, 0), 0);
        let run = rig("IPRewriter", "keep 0 1, nochange 1").packets(vec![fragment, icmp]).run();
        assert_eq!(run.drops("e"), [(Reason::NoMapping, 2)]);
        run.give("j", vec![packet(1, (HOME, 0), (PEER, 0), 0), packet(UDP, (PEER, 1), (HOME, 2), 0)]);
        assert_eq!(run.again().out("o1").len(), 2);
    }

    #[test]
    fn errors() {
        let check = |args: &str, want: &str| {
            let errors = Rig::new(&format!("IPRewriter({args})")).errors();
            assert!(errors.iter().any(|e| e.contains(want)), "{errors:?}");
        };
        check("", "needs as many input specifications as inputs: 1, not 0");
        check("pattern 1.0.0.1 5 - - 0 9", "input spec 0: output '9' is out of range");
        check("pattern x 5 - - 0 0", "input spec 0: bad source address 'x'");
        check("keep 0", "input spec 0: expected FOUTPUT ROUTPUT");
        check("foo bar", "input spec 0: unknown specification 'foo'");
        check("foo", "input spec 0: unknown specification 'foo'");
        check("pattern foo 0 0", "input spec 0: no such pattern 'foo'");
    }
}
