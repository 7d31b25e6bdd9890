// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPRateMonitor
//!
//! `IPRateMonitor(TYPE, RATIO, THRESH [, MEMORY, ANNO])`
//!
//! Measures rates of IP traffic by address, in more detail where there is more of it.
//!
//! **Ports:** 1 to 2 inputs, as many outputs, agnostic. Packets leave by the output of their input's number. Packets at input 0 count
//! for their source address, those at input 1 for their destination.
//!
//! **Arguments**
//! * `TYPE` `PACKETS` or `BYTES`: what to count.
//! * `RATIO` 0 to 1: the share of packets, drawn at random, to look at. Pulled packets are all looked at.
//! * `THRESH` packets or bytes per second from which on a network is looked at in parts. It is scaled by RATIO.
//! * `MEMORY` kilobytes for the table, at least 100, at most 1048576; default 0, which stands for 65536.
//! * `ANNO` boolean, default true: annotates packets with the rates of their address.
//!
//! At first it measures all addresses with one first byte together. Where the rate reaches THRESH it measures by the second byte, and so
//! on. Once a second, parts whose network fell below THRESH are forgotten. A rate is an average over about 2.5 s.
//!
//! **Metadata read:** network header position. **Set:** forward rate and reverse rate annotations, for Block.
//!
//! **Drops:** none; packets without an IP header pass unseen.
//!
//! **Cores:** one worker at a time uses it; where several do, a lock stands before it.
//!
//! **Handlers**
//! * `look` read: hundredths of a second since the last reset, then lines of a network, the rate from it and the rate to it.
//! * `thresh` read: the threshold. `mem` read: bytes in use. `memmax` read/write: the argument MEMORY, in kilobytes.
//! * `anno_level` write: `ADDRESS LEVEL SECONDS`: looks at the networks around an address no closer than LEVEL (0 to 3) for so long.
//! * `reset` write: forgets all rates.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> IPRateMonitor(PACKETS, 1, 256) -> Discard;
//! ```
//!
//! See also: Block, Counter, AggregateIP

use std::fmt::Write;
use std::net::Ipv4Addr;

use element::args::{Args, FromArg, Names};
use element::clock::{Nanos, SECOND};
use element::{Class, Cx, Element, HandlerError, HotSwap, InitCx, Rehearsal, Rehearsed, handlers, swap};
use packet::{Batch, Packet, anno};

use super::header;
use crate::tools::{Probability, number};

/// The descriptor.
pub const CLASS: Class = Class::new("IPRateMonitor", "1-2/=", || Box::new(IpRateMonitor::default()))
    .flow("#/#")
    .serial("an address's rate is that of the packets of all workers")
    .handlers(handlers! { IpRateMonitor:
        read "look" => |monitor, cx| monitor.report(cx.now());
        read "thresh" => |monitor| monitor.thresh as u64;
        read "mem" => .used;
        both "memmax" => .memory_kb |monitor, cx, text: &str| {
            monitor.set_memory(number("memmax", text)?).map_err(HandlerError::Failed)?;
            monitor.forget_down_to_limit(cx.now());
        };
        write "anno_level" => |monitor, cx, text: &str| monitor.keep_whole(cx.now(), text).ok_or_else(|| {
            HandlerError::bad_value("anno_level", text, "ADDRESS LEVEL SECONDS, with a level from 0 to 3")
        })?;
        write "reset" => |monitor, cx| monitor.reset(cx.now());
    })
    .hot_swap::<IpRateMonitor>()
    .rehearsal::<IpRateMonitor>()
    .file(file!());

/// How often averages move.
const EPOCH: Nanos = SECOND * 8 / 100;
/// Share of an epoch in an average.
const WEIGHT: f64 = 1.0 / 32.0;
const DEFAULT_KB: usize = 65_536;
const MOST_KB: usize = 1 << 20;

/// What to count.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Unit {
    #[default]
    Packets,
    Bytes,
}

impl FromArg for Unit {
    const EXPECTED: &'static str = "PACKETS or BYTES";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        match text.to_ascii_uppercase().as_str() {
            "PACKETS" => Ok(Unit::Packets),
            "BYTES" => Ok(Unit::Bytes),
            _ => Err(String::new()),
        }
    }
}

/// Averages of what came from an address and went to it.
#[derive(Clone, Copy, Default)]
struct Rates {
    epoch: u64,
    pending: [u64; 2],
    average: [f64; 2],
}

impl Rates {
    fn update(&mut self, epoch: u64) {
        let passed = epoch.saturating_sub(self.epoch);
        if passed == 0 {
            return;
        }
        let keep = (1.0 - WEIGHT).powf((passed - 1) as f64);
        for (average, pending) in self.average.iter_mut().zip(&mut self.pending) {
            *average += (*pending as f64 - *average) * WEIGHT;
            *average *= keep;
            *pending = 0;
        }
        self.epoch = epoch;
    }

    fn add(&mut self, epoch: u64, way: usize, amount: u64) {
        self.update(epoch);
        self.pending[way] += amount;
    }

    fn per_second(&self) -> [f64; 2] {
        self.average.map(|average| average * SECOND as f64 / EPOCH as f64)
    }
}

/// A network, with its parts if it is looked at more closely.
#[derive(Default)]
struct Node {
    rates: Rates,
    parts: Option<Box<Level>>,
    /// Until then it is not divided.
    whole_until: Nanos,
}

/// Networks by their next byte.
struct Level(Vec<Option<Box<Node>>>);

const NODE_BYTES: usize = size_of::<Node>();
const LEVEL_BYTES: usize = 256 * size_of::<Option<Box<Node>>>();

impl Default for Level {
    fn default() -> Self {
        Level((0..256).map(|_| None).collect())
    }
}

impl Level {
    fn bytes(&self) -> usize {
        let node = |n: &Node| NODE_BYTES + n.parts.as_ref().map_or(0, |parts| parts.bytes());
        LEVEL_BYTES + self.0.iter().flatten().map(|n| node(n)).sum::<usize>()
    }

    /// Forgets the parts of networks whose rates are both below the threshold.
    fn fold(&mut self, epoch: u64, thresh: f64) {
        for node in self.0.iter_mut().flatten() {
            node.rates.update(epoch);
            if node.rates.per_second().iter().all(|rate| *rate < thresh) {
                node.parts = None;
            } else if let Some(parts) = &mut node.parts {
                parts.fold(epoch, thresh);
            }
        }
    }

    fn print(&mut self, epoch: u64, prefix: &str, out: &mut String) {
        for (byte, node) in self.0.iter_mut().enumerate() {
            let Some(node) = node else { continue };
            node.rates.update(epoch);
            let [from, to] = node.rates.per_second();
            if from <= 0.0 && to <= 0.0 {
                continue;
            }
            let _ = writeln!(out, "{prefix}{byte}\t{from:.3}\t{to:.3}");
            if let Some(parts) = &mut node.parts {
                parts.print(epoch, &format!("\t{prefix}{byte}."), out);
            }
        }
    }
}

#[derive(Default)]
struct IpRateMonitor {
    unit: Unit,
    ratio: f64,
    thresh: f64,
    memory_kb: usize,
    annotates: bool,
    base: Level,
    used: usize,
    folded_at: Nanos,
    since: Nanos,
}

impl IpRateMonitor {
    fn limit(&self) -> usize {
        self.memory_kb * 1024
    }

    fn set_memory(&mut self, kb: usize) -> Result<(), String> {
        if kb > MOST_KB {
            return Err(format!("MEMORY must be at most {MOST_KB} kilobytes, not {kb}"));
        }
        self.memory_kb = if kb == 0 { DEFAULT_KB } else { kb.max(100) };
        Ok(())
    }

    /// Counts a packet for an address; returns the rates of the smallest network around it that is measured.
    fn count(&mut self, now: Nanos, address: [u8; 4], way: usize, amount: Option<u64>) -> Option<[f64; 2]> {
        let (epoch, limit, thresh) = (now / EPOCH, self.limit(), self.thresh);
        let mut level = &mut self.base;
        for (depth, byte) in address.into_iter().enumerate() {
            let slot = &mut level.0[usize::from(byte)];
            if slot.is_none() {
                if self.used + NODE_BYTES > limit {
                    return None;
                }
                self.used += NODE_BYTES;
            }
            let node = slot.get_or_insert_default();
            node.rates.update(epoch);
            if let Some(amount) = amount {
                node.rates.add(epoch, way, amount);
            }
            let rates = node.rates.per_second();
            if node.parts.is_none() {
                let busy =
                    thresh > 0.0 && rates.iter().any(|rate| *rate >= thresh) && node.whole_until <= now;
                let room = self.used + LEVEL_BYTES + NODE_BYTES <= limit;
                if busy && room && depth < 3 {
                    // The part that the packet is of begins with the rate of the whole.
                    let mut parts = Level::default();
                    let part = Node { rates: node.rates, ..Node::default() };
                    parts.0[usize::from(address[depth + 1])] = Some(Box::new(part));
                    node.parts = Some(Box::new(parts));
                    self.used += LEVEL_BYTES + NODE_BYTES;
                }
                return Some(rates);
            }
            level = node.parts.as_mut()?;
        }
        None
    }

    fn look(&mut self, now: Nanos, packet: &mut Packet, way: usize, counts: bool) {
        let Some(ip) = header(packet).filter(|ip| ip[0] >> 4 == 4) else { return };
        let amount = match self.unit {
            Unit::Packets => 1,
            Unit::Bytes => u64::from(u16::from_be_bytes([ip[2], ip[3]])),
        };
        let at = if way == 0 { 12 } else { 16 };
        let address = [ip[at], ip[at + 1], ip[at + 2], ip[at + 3]];
        if let Some(rates) = self.count(now, address, way, counts.then_some(amount))
            && self.annotates
        {
            packet.set_anno_u32(anno::FORWARD_RATE, rates[0] as u32);
            packet.set_anno_u32(anno::REVERSE_RATE, rates[1] as u32);
        }
    }

    fn handle(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch, pushed: bool) -> Batch {
        let now = cx.now();
        for packet in batch.iter_mut() {
            let counts = !pushed || self.ratio >= 1.0 || cx.random().f64() < self.ratio;
            self.look(now, packet, port, counts);
        }
        if now.saturating_sub(self.folded_at) >= SECOND {
            self.fold(now);
        }
        batch
    }

    fn fold(&mut self, now: Nanos) {
        self.folded_at = now;
        self.base.fold(now / EPOCH, self.thresh);
        self.used = self.base.bytes();
    }

    fn reset(&mut self, now: Nanos) {
        (self.base, self.used, self.since, self.folded_at) = (Level::default(), LEVEL_BYTES, now, now);
    }

    /// Keeps the network of an address whole.
    fn keep_whole(&mut self, now: Nanos, text: &str) -> Option<()> {
        let mut words = text.split_whitespace();
        let address: Ipv4Addr = words.next()?.parse().ok()?;
        let depth: usize = words.next()?.parse().ok().filter(|depth| *depth < 4)?;
        let time: u64 = words.next()?.parse().ok().filter(|time| *time > 0)?;
        if words.next().is_some() {
            return None;
        }
        let mut level = &mut self.base;
        for (at, byte) in address.octets().into_iter().enumerate() {
            let Some(node) = level.0[usize::from(byte)].as_mut() else { break };
            if at == depth {
                node.whole_until = now.saturating_add(time.saturating_mul(SECOND));
                node.parts = None;
                self.used = self.base.bytes();
                break;
            }
            let Some(parts) = node.parts.as_mut() else { break };
            level = parts;
        }
        Some(())
    }
}

impl IpRateMonitor {
    fn report(&mut self, now: Nanos) -> String {
        let mut text = format!("{}\n", now.saturating_sub(self.since) / (SECOND / 100));
        self.base.print(now / EPOCH, "", &mut text);
        text
    }

    /// Forgets parts until the rest fits into the limit.
    fn forget_down_to_limit(&mut self, now: Nanos) {
        let thresh = self.thresh;
        while self.used > self.limit() && self.thresh < f64::from(u32::MAX) {
            self.thresh = (self.thresh * 2.0).max(1.0);
            self.fold(now);
        }
        self.thresh = thresh;
    }
}

impl Element for IpRateMonitor {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.unit = args.required("TYPE");
        self.ratio = args.required::<Probability>("RATIO").0;
        self.thresh = f64::from(args.required::<u32>("THRESH")) * self.ratio;
        if let Err(why) = self.set_memory(args.positional("MEMORY", 0)) {
            args.error(why);
        }
        self.annotates = args.positional("ANNO", true);
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        let now = cx.now();
        self.reset(now);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) {
        let batch = self.handle(cx, port, batch, true);
        cx.push(port, batch);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) -> Batch {
        let batch = cx.pull(port, max);
        self.handle(cx, port, batch, false)
    }
}

impl Rehearsal for IpRateMonitor {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        Rehearsed::passes(packet)
    }
}

impl HotSwap for IpRateMonitor {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<IpRateMonitor>(old) else { return false };
        if old.unit == self.unit {
            self.base = std::mem::take(&mut old.base);
            (self.used, self.since, self.folded_at) = (self.base.bytes(), old.since, old.folded_at);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::datagram;
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn rates_settle_and_networks_are_divided() {
        let text = "RatedSource(DATA \\<45000014 00000000 40110000 01020304 09090909>, RATE 1000, LIMIT 20000) -> MarkIPHeader
            -> e :: IPRateMonitor(PACKETS, 1, 100) -> o :: TestOut;";
        let mut run = Rig::text(text).run();
        let look = run.read("e.look");
        let lines: Vec<&str> = look.lines().skip(1).collect();
        let names: Vec<&str> = lines.iter().map(|l| l.trim_start().split('\t').next().unwrap()).collect();
        assert_eq!(names, ["1", "1.2", "1.2.3", "1.2.3.4"]);
        let rate: f64 = lines[3].trim_start().split('\t').nth(1).unwrap().parse().unwrap();
        assert!((rate - 1000.0).abs() < 20.0, "{look}");
        let last = run.out("o").pop().unwrap().anno_u32(anno::FORWARD_RATE);
        assert!((980..=1020).contains(&last), "{last}");
        run.write("e.anno_level", "1.2.3.4 1 60").unwrap();
        assert_eq!(run.read("e.look").lines().count(), 3);
        run.write("e.reset", "").unwrap();
        assert_eq!(run.read("e.look"), "0\n");
    }

    #[test]
    fn bytes_to_a_destination_at_the_second_input() {
        let text = "Idle -> [0] e :: IPRateMonitor(BYTES, 1, 1000000) [0] -> Discard; i :: TestIn -> [1] e [1] -> o :: TestOut;
            TimedSource(0.08, LIMIT 2) -> Discard;";
        for burst in [1, 32] {
            let packet = datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[], 12);
            let mut run =
                Rig::text(text).burst(burst).packets(vec![packet, Packet::copy_of(b"x").unwrap()]).run();
            assert_eq!(run.out("o").len(), 2);
            // 32 bytes in one epoch of 0.08 s, of which an average takes 1/32.
            assert!(run.read("e.look").contains("5\t0.000\t1"), "{}", run.read("e.look"));
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut monitor = IpRateMonitor { ratio: 1.0, thresh: 0.001, ..IpRateMonitor::default() };
        monitor.set_memory(100).unwrap();
        monitor.reset(0);
        for n in 0..200_000u32 {
            monitor.count(
                u64::from(n) * SECOND / 1000,
                n.wrapping_mul(2_654_435_761).to_be_bytes(),
                0,
                Some(1),
            );
            assert!(monitor.used <= 100 * 1024);
        }
        assert_eq!(monitor.used, monitor.base.bytes());
    }

    #[test]
    fn arguments_and_handlers_are_checked() {
        let errors = Rig::new("IPRateMonitor(X, 2, 1)").errors();
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert_eq!(
            Rig::new("IPRateMonitor(PACKETS, 1, 1, 1048577)").errors(),
            ["e: MEMORY must be at most 1048576 kilobytes, not 1048577"]
        );
        let mut run = Rig::new("IPRateMonitor(PACKETS, 0.5, 100, 7)").run();
        assert_eq!((run.read("e.thresh"), run.read("e.memmax")), ("50".into(), "100".into()));
        assert!(run.write("e.anno_level", "1.2.3.4 4 1").is_err());
        run.write("e.memmax", "200").unwrap();
        assert_eq!(run.read("e.memmax"), "200");
    }
}
