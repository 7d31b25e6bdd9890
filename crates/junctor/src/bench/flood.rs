// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench flood`: what a flood on one interface leaves of good traffic on another.
//!
//! A router of three in-memory interfaces on one worker. Good packets come by `m0` at a fixed rate, a given share of what the
//! router can do; they go to hosts behind `m1` that answer ARP or neighbour solicitations. A flood comes by `m2`, at as many
//! packets a second, at twice as many, and as fast as the worker takes it: to hosts behind `m1` that are not there, or fragments
//! that nothing completes, forwarded or put together on the way. Or the three are ports of a bridge, and each frame of the flood comes
//! from an Ethernet address that was never seen before, so that its table is full and it is always asked to learn; or goes to one, so
//! that it would leave by all ports, which storm control bounds, or does not.
//!
//! What can be asked of one worker: it takes as much from each interface in turn, so with a flood of any rate good packets have
//! half of its rounds, and at a load of 0.3 a packet of the flood may cost 2.3 times what a good one does before any is
//! lost (at 0.4, 1.5 times). So the bar is on two things: exceptions must not cost (much) more than forwarding, and what the flood
//! fills, be it tables, queues or caches, must still be there for others. The cost is printed beside the share.
//!
//! Good packets arrive by the worker's processor time, so that what else runs on the machine takes none of them, and wait in a
//! ring as a device's does; what finds it full is lost.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::clock::TimeSource;
use engine::{Options, Router};
use fastrand::Rng;
use packet::port::{Device, Error, Info, Provider, QueueStats, RxQueue, Spec, TxQueue};
use packet::{Batch, Packet};
use ports::memory::Replay;
use serde_json::json;
use tester::hosts;
use wire::Protocol;

use super::fib::thread_seconds;
use super::traffic::Pattern;
use crate::measure::{self, Measured};
use crate::{cli, config, init};

/// Packets that may wait at an interface.
const RING: u64 = 1024;
/// Frames of a flood before it repeats.
const FRAMES: usize = 65_536;
/// Stations that send good frames through a bridge, and to as many others.
const STATIONS: usize = 1024;
/// The first of those that send, of those sent to, and of those from whom a flood comes whose sources are known.
const SENDERS: &str = "02:00:00:01:00:00";
const HOSTS: &str = "02:00:00:02:00:00";
const ATTACKERS: &str = "02:00:00:03:00:00";
/// Frames to unknown stations that each port of a bridge with storm control may have flooded in a second.
const UNKNOWN_RATE: u64 = 10_000;
/// How many times as fast as good packets a flood comes; the last is as fast as the worker takes it.
const FACTORS: [(&str, f64); 3] = [("1", 1.0), ("2", 2.0), ("all", f64::INFINITY)];

/// Measure what floods leave of good traffic: a router of three in-memory interfaces on one worker, good packets at a fixed
/// rate by one, a flood by another.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor bench flood
  junctor bench flood --only unresolvable --load 0.3 --json
  junctor bench flood --only unknown")]
pub(crate) struct Args {
    /// Good packets offered, as a share of what the router forwards when nothing else comes.
    #[arg(long, value_name = "SHARE", default_value_t = 0.3)]
    load: f64,
    /// Measured runs of each flood, with undisturbed ones between them.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    runs: usize,
    /// Length of a run in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500)]
    run_ms: u64,
    /// Measure only floods whose name begins so: unresolvable, fragments, reassembly, the same with 6 for IPv6; through a bridge
    /// stations (from unknown ones), unknown (to unknown ones) and unknown_unlimited (without storm control).
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// What comes by `m2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// To hosts that do not answer, from many sources.
    Unresolvable,
    /// Pieces without the rest, forwarded.
    Fragments,
    /// The same, and the router puts fragments together.
    Reassembly,
    /// From stations that nobody has seen, through a bridge.
    Stations,
    /// To such stations, through a bridge with storm control, and through one without.
    Unknown,
    UnknownUnlimited,
}

impl Kind {
    const BRIDGED: [Kind; 3] = [Kind::Stations, Kind::Unknown, Kind::UnknownUnlimited];

    /// The bytes of a frame where the address stands that was never seen.
    fn forged(self) -> Option<Range<usize>> {
        match self {
            Kind::Stations => Some(6..12),
            Kind::Unknown | Kind::UnknownUnlimited => Some(0..6),
            Kind::Unresolvable | Kind::Fragments | Kind::Reassembly => None,
        }
    }
}

/// A flood of IPv4 or IPv6 packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flood {
    kind: Kind,
    six: bool,
}

impl Flood {
    fn all() -> impl Iterator<Item = Flood> {
        let kinds = [Kind::Unresolvable, Kind::Fragments, Kind::Reassembly];
        let routers = [false, true].into_iter().flat_map(move |six| kinds.map(|kind| Flood { kind, six }));
        routers.chain(Kind::BRIDGED.map(|kind| Flood { kind, six: false }))
    }

    fn name(self) -> String {
        let kind = match self.kind {
            Kind::Unresolvable => "unresolvable",
            Kind::Fragments => "fragments",
            Kind::Reassembly => "reassembly",
            Kind::Stations => "stations",
            Kind::Unknown => "unknown",
            Kind::UnknownUnlimited => "unknown_unlimited",
        };
        format!("{kind}{}", if self.six { "6" } else { "" })
    }

    /// The router that `junctor init router` writes; for reassembly, with a reassembler in the way of all packets. Or a bridge.
    fn config(self) -> Result<String, String> {
        if Kind::BRIDGED.contains(&self.kind) {
            let port = |n| format!("FromDevice(m{n}, PROMISC true) -> [{n}]b[{n}] -> ToDevice(m{n});\n");
            let limit = if self.kind == Kind::Unknown { UNKNOWN_RATE } else { 0 };
            let bridge = format!("b :: Bridge(PORTS 3, UNKNOWN_RATE {limit});\n");
            return Ok(bridge + &(0..3).map(port).collect::<String>());
        }
        let interfaces = match self.six {
            false => ["m0=10.1.0.1/16", "m1=10.2.0.1/16", "m2=10.3.0.1/16"],
            true => ["m0=2001:db8:1::1/64", "m1=2001:db8:2::1/64", "m2=2001:db8:3::1/64"],
        };
        let text = init::router(&interfaces.map(String::from), &[], &[], false, None)?;
        let (way, reassembler) = match self.six {
            false => ("-> GetIPAddress(16) -> rt;", "IPReassembler"),
            true => ("-> hop6 :: IP6HopByHop", "IP6Reassembler"),
        };
        match self.kind {
            Kind::Reassembly if text.contains(way) => {
                Ok(text.replace(way, &format!("-> {reassembler} {way}")))
            }
            Kind::Reassembly => Err("the router has changed: there is no place for a reassembler".into()),
            _ => Ok(text),
        }
    }

    /// Prefixes of the good packets' sources, of hosts that are there, of the flood's sources, and of hosts that are not there.
    fn prefixes(self) -> [&'static str; 4] {
        match self.six {
            false => ["10.1.0.0/16", "10.2.1.0/25", "10.3.0.0/16", "10.2.128.0/17"],
            true => ["2001:db8:1::/64", "2001:db8:2::/121", "2001:db8:3::/64", "2001:db8:2:0:8000::/96"],
        }
    }

    /// UDP packets for the router's interface with this number in its Ethernet address.
    fn packets(self, interface: u8, from: &str, to: &str, flows: usize) -> Vec<Vec<u8>> {
        // 58 bytes make an IPv4 payload of a multiple of eight, as a fragment must have; 78 leave an IPv6 one room for its header.
        let fragment6 = self.six && self.kind != Kind::Unresolvable && interface == 3;
        let length = if fragment6 {
            78
        } else if self.six {
            62
        } else {
            58
        };
        let stations = match (Kind::BRIDGED.contains(&self.kind), interface) {
            (true, 2) => format!("from={HOSTS} to={SENDERS} stations={flows}"),
            (true, 3) => format!("from={ATTACKERS} to={HOSTS} stations={STATIONS}"),
            (true, _) => format!("from={SENDERS} to={HOSTS} stations={STATIONS}"),
            (false, _) => String::new(),
        };
        let line = format!(
            "// bench: x {stations} ether=02:00:00:00:00:{interface:02x} src={from} dst={to} flows={flows} length={length}"
        );
        Pattern::gather(&line).expect("a pattern")["x"].packets()
    }

    fn frames(self) -> Vec<Vec<u8>> {
        let [_, there, from, nowhere] = self.prefixes();
        let to = if self.kind == Kind::Unresolvable { nowhere } else { there };
        let mut frames = self.packets(3, from, to, FRAMES);
        let mut rng = Rng::with_seed(3);
        for frame in &mut frames {
            // A first piece or a later one, more to come.
            let offset = if rng.bool() { 0 } else { rng.u16(1..180) };
            match (self.kind, self.six) {
                (Kind::Unresolvable, false) => {}
                (kind, _) if kind.forged().is_some() => {}
                (Kind::Unresolvable, true) => rng.fill(&mut frame[28..30]),
                (_, false) => {
                    rng.fill(&mut frame[18..20]);
                    frame[20..22].copy_from_slice(&(0x2000 | offset).to_be_bytes());
                    frame[24..26].fill(0);
                    let sum = wire::checksum::internet(&frame[14..34]);
                    frame[24..26].copy_from_slice(&sum.to_be_bytes());
                }
                (_, true) => {
                    // Sources count by /64.
                    rng.fill(&mut frame[28..30]);
                    frame[20] = Protocol::IPV6_FRAGMENT.0;
                    let [high, low] = (offset << 3 | 1).to_be_bytes();
                    frame[54..58].copy_from_slice(&[Protocol::UDP.0, 0, high, low]);
                    rng.fill(&mut frame[58..62]);
                }
            }
        }
        frames
    }
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    if !(0.01..=0.9).contains(&args.load) {
        return cli::usage("--load: good packets should be 0.01 to 0.9 of what the router forwards");
    }
    let mut results = Vec::new();
    for flood in Flood::all().filter(|flood| flood.name().starts_with(&args.only)) {
        match measure(args, flood) {
            Ok(measured) => results.extend(measured),
            Err(why) => return cli::fail(why),
        }
    }
    if results.is_empty() {
        return cli::usage(
            "--only: floods are unresolvable, fragments, reassembly, the same with 6, stations, unknown and unknown_unlimited",
        );
    }
    let conditions = json!({
        "workers": 1, "load": args.load, "ring": RING, "run_ms": args.run_ms, "burst": engine::DEFAULT_BURST,
        "time": "processor time of the worker",
    });
    measure::print("bench flood", &conditions, &results, args.json)
}

/// What one run showed: of the good packets offered, how many were delivered; packets delivered and taken of the flood a second.
struct Run {
    share: f64,
    good_rate: f64,
    flood_rate: f64,
}

fn measure(args: &Args, flood: Flood) -> Result<Vec<Measured>, String> {
    let devices = Arc::new(Devices::new(flood));
    let mut router = build(&flood.config()?, &devices)?;
    let mut run = |good: f64, bad: f64| {
        devices.good.store(good.to_bits(), Ordering::Relaxed);
        devices.bad.store(bad.to_bits(), Ordering::Relaxed);
        let before = devices.counts();
        let cpu = |router: &Router| router.cpu_ns().iter().sum::<u64>();
        let start = cpu(&router);
        // On a busy machine a run may be over before it had much of the processor.
        for _ in 0..20 {
            router.resume();
            router.stop_after(Duration::from_millis(args.run_ms.max(1)));
            router.run();
            if cpu(&router) - start >= args.run_ms * 500_000 {
                break;
            }
        }
        let seconds = (cpu(&router) - start).max(1) as f64 / 1e9;
        let after = devices.counts();
        let [offered, delivered, taken] = std::array::from_fn(|at| (after[at] - before[at]) as f64);
        Run {
            share: delivered / offered.max(1.0),
            good_rate: delivered / seconds,
            flood_rate: taken / seconds,
        }
    };
    run(f64::INFINITY, 0.0); // neighbours become known
    run(0.0, f64::INFINITY); // and tables are full of what the flood leaves
    let mut costs = Vec::new();
    let mut capacity = Vec::new();
    for _ in 0..args.runs.max(1) {
        capacity.push(run(f64::INFINITY, 0.0).good_rate);
        costs.push(capacity[capacity.len() - 1] / run(0.0, f64::INFINITY).flood_rate.max(1.0));
    }
    let capacity = Measured::new(String::new(), "", capacity).median();
    let name = |what: &str| format!("flood.{what}.{}", flood.name());
    let mut results = vec![Measured::new(name("cost"), "", costs)];
    for (factor_name, factor) in FACTORS {
        let rate = capacity * args.load;
        let (mut shares, mut floods) = (Vec::new(), Vec::new());
        for _ in 0..args.runs.max(1) {
            let alone = run(rate, 0.0);
            let beside = run(rate, rate * factor);
            if alone.share == 0.0 {
                return Err("no good packet arrived, flood or not".into());
            }
            shares.push(beside.share / alone.share);
            floods.push(beside.flood_rate / 1e6);
        }
        let name = |what: &str| format!("{}.{factor_name}", name(what));
        results.push(Measured::new(name("good_share"), "", shares));
        results.push(Measured::new(name("flood_mpps"), "Mpps", floods));
    }
    Ok(results)
}

fn build(text: &str, devices: &Arc<Devices>) -> Result<Router, String> {
    let parsed = lang::load_str("flood", text, &elements::options());
    let shown =
        |all: &[lang::Diagnostic]| all.iter().map(|d| d.message.clone()).collect::<Vec<_>>().join("; ");
    let graph = parsed.graph.ok_or_else(|| shown(&parsed.diagnostics))?;
    let options = Options {
        provider: Arc::new(Shared(devices.clone())),
        workers: 1,
        reserve: 0,
        cores: vec![0],
        burst: engine::DEFAULT_BURST,
        time: TimeSource::Real,
        seed: 1,
        print: Some(Box::new(|_| {})),
    };
    Router::build(&graph, &config::registry(false), options).map_err(|errors| shown(&errors))
}

/// `m0` to `m2`.
struct Devices {
    flood: Flood,
    known: Mutex<HashMap<String, Arc<MemoryDevice>>>,
    /// Packets a second, good ones and of the flood, as bits of a number; infinite for as many as are taken.
    good: AtomicU64,
    bad: AtomicU64,
    offered: AtomicU64,
    delivered: AtomicU64,
    taken: AtomicU64,
    /// Hosts' answers, for `m1` to receive.
    answers: Mutex<Vec<Packet>>,
    /// Stations that nobody had seen before.
    strangers: AtomicU64,
}

impl Devices {
    fn new(flood: Flood) -> Self {
        // A bridge has to see each host once, or it floods what is for them.
        let seen = match flood.kind.forged() {
            Some(_) => flood.packets(2, "10.2.1.0/25", "10.1.0.0/16", STATIONS),
            None => Vec::new(),
        };
        Self {
            flood,
            known: Mutex::default(),
            good: AtomicU64::new(0),
            bad: AtomicU64::new(0),
            offered: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            answers: Mutex::new(seen.iter().filter_map(|frame| Packet::copy_of(frame)).collect()),
            strangers: AtomicU64::new(0),
        }
    }

    /// Puts addresses that were never seen into frames.
    fn forge(&self, at: &Range<usize>, frames: &mut [Packet]) {
        let first = self.strangers.fetch_add(frames.len() as u64, Ordering::Relaxed);
        for (number, frame) in (first..).zip(frames) {
            let [.., a, b, c, d, e] =
                number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).to_be_bytes();
            if let Some(address) = frame.data_mut().get_mut(at.clone()) {
                address.copy_from_slice(&[6, a, b, c, d, e]);
            }
        }
    }

    /// Good packets offered and delivered, and packets taken of the flood.
    fn counts(&self) -> [u64; 3] {
        [&self.offered, &self.delivered, &self.taken].map(|count| count.load(Ordering::Relaxed))
    }
}

/// Opens them: devices need a share of their own.
struct Shared(Arc<Devices>);

impl Provider for Shared {
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        let mut known = self.0.known.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(device) = known.get(&spec.device) {
            return Ok(device.clone());
        }
        let flood = self.0.flood;
        let [from, there, ..] = flood.prefixes();
        let (number, packets) = match spec.device.as_str() {
            "m0" => (1, flood.packets(1, from, there, STATIONS)),
            "m1" => (2, flood.packets(2, there, from, 1)),
            _ => (3, flood.frames()),
        };
        let replay = Replay::new(&spec.device, &packets, 1, None)?;
        let device = Arc::new(MemoryDevice { number, replay, devices: self.0.clone() });
        known.insert(spec.device.clone(), device.clone());
        Ok(device)
    }
}

struct MemoryDevice {
    number: u8,
    replay: Replay,
    devices: Arc<Devices>,
}

impl Device for MemoryDevice {
    fn info(&self) -> Info {
        Info { mac: Some([2, 0, 0, 0, 0, self.number]), ..self.replay.info() }
    }

    fn rx(&self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        let inner = self.replay.rx(queue)?;
        Ok(Box::new(Rx { number: self.number, inner, devices: self.devices.clone(), last: 0.0, due: 0.0 }))
    }

    fn tx(&self, queue: usize) -> Result<Box<dyn TxQueue>, Error> {
        let inner = self.replay.tx(queue)?;
        Ok(Box::new(Tx { number: self.number, inner, devices: self.devices.clone() }))
    }
}

struct Rx {
    number: u8,
    inner: Box<dyn RxQueue>,
    devices: Arc<Devices>,
    /// Processor time when it was asked last.
    last: f64,
    /// Packets that wait.
    due: f64,
}

impl Rx {
    /// Takes packets that have come at a rate; returns how many those were, and how many more were lost.
    fn paced(&mut self, batch: &mut Batch, max: usize, rate: f64) -> (u64, u64) {
        if rate == 0.0 || rate.is_infinite() {
            (self.last, self.due) = (0.0, 0.0);
            let taken = if rate == 0.0 { 0 } else { self.inner.receive(batch, max) };
            return (taken as u64, 0);
        }
        let now = thread_seconds();
        // Each run is a thread of its own.
        if self.last > 0.0 && now > self.last {
            self.due += (now - self.last) * rate;
        }
        self.last = now;
        let lost = (self.due as u64).saturating_sub(RING);
        self.due -= lost as f64;
        let waiting = self.due as usize;
        let taken = if waiting == 0 { 0 } else { self.inner.receive(batch, max.min(waiting)) };
        self.due -= taken as f64;
        (taken as u64, lost)
    }
}

impl RxQueue for Rx {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        let rate = |bits: &AtomicU64| f64::from_bits(bits.load(Ordering::Relaxed));
        let (taken, offered, count) = match self.number {
            1 => {
                let (taken, lost) = self.paced(batch, max, rate(&self.devices.good));
                (taken, taken + lost, &self.devices.offered)
            }
            2 => {
                let answers =
                    std::mem::take(&mut *self.devices.answers.lock().unwrap_or_else(|e| e.into_inner()));
                let count = answers.len();
                batch.extend(answers);
                return count;
            }
            _ => {
                let before = batch.len();
                let (taken, _) = self.paced(batch, max, rate(&self.devices.bad));
                if let Some(at) = self.devices.flood.kind.forged() {
                    self.devices.forge(&at, &mut batch[before..]);
                }
                (taken, taken, &self.devices.taken)
            }
        };
        count.fetch_add(offered, Ordering::Relaxed);
        taken as usize
    }

    fn stats(&self) -> QueueStats {
        self.inner.stats()
    }
}

/// What the hosts behind `m1` see of a frame.
enum Seen {
    /// A good packet.
    Good,
    /// A question about one of them.
    Asked,
    Other,
}

fn see(frame: &[u8]) -> Seen {
    let Some((addresses, rest)) = frame.split_at_checked(14) else { return Seen::Other };
    match (addresses[12], addresses[13]) {
        (8, 0) if rest.get(12..14) == Some(&[10, 1]) => Seen::Good,
        (8, 6) if rest.get(24..27) == Some(&[10, 2, 1]) => Seen::Asked,
        (0x86, 0xdd) if rest.get(6) == Some(&Protocol::UDP.0) => {
            if rest.get(12..14) == Some(&[0, 1]) {
                Seen::Good
            } else {
                Seen::Other
            }
        }
        // The target of a solicitation: who is not there has the upper half.
        (0x86, 0xdd) if rest.get(48 + 8) == Some(&0) => Seen::Asked,
        _ => Seen::Other,
    }
}

struct Tx {
    number: u8,
    inner: Box<dyn TxQueue>,
    devices: Arc<Devices>,
}

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        if self.number == 2 {
            let (mut delivered, mut answers) = (0, Vec::new());
            for frame in batch.iter().map(Packet::data) {
                match see(frame) {
                    Seen::Good => delivered += 1,
                    Seen::Asked => answers.extend(hosts::answer(frame)),
                    Seen::Other => {}
                }
            }
            self.devices.delivered.fetch_add(delivered, Ordering::Relaxed);
            if !answers.is_empty() {
                self.devices.answers.lock().unwrap_or_else(|e| e.into_inner()).extend(answers);
            }
        }
        self.inner.transmit(batch)
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn stats(&self) -> QueueStats {
        self.inner.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every flood goes its way through the router, and good packets arrive. How large a share is for quiet machines to say.
    #[test]
    fn floods_reach_the_router_and_good_packets_arrive() {
        let args = Args { load: 0.2, runs: 1, run_ms: 60, only: String::new(), json: true };
        for flood in Flood::all() {
            let results = measure(&args, flood).unwrap_or_else(|why| panic!("{flood:?}: {why}"));
            assert_eq!(results.len(), 1 + 2 * FACTORS.len());
            assert!(results.iter().all(|r| r.median() > 0.0), "{flood:?}: {results:?}");
        }
    }
}
