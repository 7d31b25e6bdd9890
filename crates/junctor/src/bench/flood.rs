// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench flood`: what a flood on one interface leaves of good traffic on another.
//!
//! A router of three in-memory interfaces on one worker. Good packets come by `m0` at a fixed rate, a given share of what the
//! router can do; they go to hosts behind `m1` that answer ARP. A flood comes by `m2`, as fast as the worker takes it:
//! to hosts behind `m1` that are not there, or fragments that nothing completes, forwarded or put together on the way.
//!
//! Good packets arrive by the worker's processor time, so that what else runs on the machine takes none of them, and wait in a
//! ring as a device's does; what finds it full is lost. So the share tells two things: whether
//! tables that the flood fills are still there for others, and whether a flood's packets cost so much that others
//! wait for too long.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::clock::TimeSource;
use engine::{Options, Router};
use fastrand::Rng;
use packet::port::{Device, Error, Info, Provider, QueueStats, RxQueue, Spec, TxQueue};
use packet::{Batch, Packet};
use ports::memory::Replay;
use serde_json::json;

use super::fib::thread_seconds;
use super::traffic::{Pattern, answer};
use crate::measure::{self, Measured};
use crate::{cli, config, init};

/// Good packets that may wait.
const RING: u64 = 1024;
/// Frames of a flood before it repeats.
const FRAMES: usize = 65_536;
/// Behind `m1` there are these hosts, and no others.
const THERE: &str = "10.2.1.0/25";

/// Measure what floods leave of good traffic: a router of three in-memory interfaces on one worker, good packets at a fixed
/// rate by one, a flood by another as fast as the worker takes it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor bench flood
  junctor bench flood --load 0.4 --json")]
pub(crate) struct Args {
    /// Good packets offered, as a share of what the router forwards when nothing else comes.
    #[arg(long, value_name = "SHARE", default_value_t = 0.25)]
    load: f64,
    /// Measured runs of each flood, with undisturbed ones between them.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    runs: usize,
    /// Length of a run in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500)]
    run_ms: u64,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// What comes by `m2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flood {
    /// To hosts that do not answer, from many sources.
    Unresolvable,
    /// Pieces without the rest, forwarded.
    Fragments,
    /// The same, and the router puts fragments together.
    Reassembly,
}

impl Flood {
    const ALL: [Self; 3] = [Self::Unresolvable, Self::Fragments, Self::Reassembly];

    fn name(self) -> &'static str {
        match self {
            Self::Unresolvable => "unresolvable",
            Self::Fragments => "fragments",
            Self::Reassembly => "reassembly",
        }
    }

    /// The router that `junctor init router` writes; for the last, with a reassembler in the way of all packets.
    fn config(self) -> Result<String, String> {
        let interfaces = ["m0=10.1.0.1/16", "m1=10.2.0.1/16", "m2=10.3.0.1/16"].map(String::from);
        let text = init::router(&interfaces, &[], &[], false, None)?;
        let way = "GetIPAddress(16) -> rt;";
        match self {
            Self::Reassembly if text.contains(way) => {
                Ok(text.replace(way, &format!("IPReassembler -> {way}")))
            }
            Self::Reassembly => Err("the router has changed: there is no place for a reassembler".into()),
            _ => Ok(text),
        }
    }

    fn frames(self) -> Vec<Vec<u8>> {
        let to = if self == Self::Unresolvable { "10.2.128.0/17" } else { THERE };
        let mut frames = frames(3, "10.3.0.0/16", to, FRAMES);
        if self != Self::Unresolvable {
            let mut rng = Rng::with_seed(3);
            for frame in &mut frames {
                // A first piece or a later one, more to come.
                let offset = if rng.bool() { 0 } else { rng.u16(1..180) };
                let identification = rng.u16(..);
                frame[18..20].copy_from_slice(&identification.to_be_bytes());
                frame[20..22].copy_from_slice(&(0x2000 | offset).to_be_bytes());
                frame[24..26].fill(0);
                let sum = wire::checksum::internet(&frame[14..34]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
        }
        frames
    }
}

/// UDP packets for the router's interface with this number in its Ethernet address.
fn frames(interface: u8, from: &str, to: &str, flows: usize) -> Vec<Vec<u8>> {
    // 58 bytes make payloads of a multiple of eight, as fragments must have.
    let line = format!(
        "// bench: x ether=02:00:00:00:00:{interface:02x} src={from} dst={to} flows={flows} length=58"
    );
    Pattern::gather(&line).expect("a pattern")["x"].packets()
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    if !(0.01..=0.9).contains(&args.load) {
        return cli::usage("--load: good packets should be 0.01 to 0.9 of what the router forwards");
    }
    let mut results = Vec::new();
    for flood in Flood::ALL {
        match measure(args, flood) {
            Ok(measured) => results.extend(measured),
            Err(why) => return cli::fail(why),
        }
    }
    let conditions = json!({
        "workers": 1, "load": args.load, "ring": RING, "run_ms": args.run_ms, "burst": engine::DEFAULT_BURST,
        "time": "processor time of the worker",
    });
    measure::print("bench flood", &conditions, &results, args.json)
}

fn measure(args: &Args, flood: Flood) -> Result<Vec<Measured>, String> {
    let devices = Arc::new(Devices::new(flood));
    let mut router = build(&flood.config()?, &devices)?;
    let mut run = |rate: f64, flooding: bool| {
        devices.rate.store(rate.to_bits(), Ordering::Relaxed);
        devices.flooding.store(flooding, Ordering::Relaxed);
        let before = devices.counts();
        let cpu = router.cpu_ns().iter().sum::<u64>();
        router.resume();
        router.stop_after(Duration::from_millis(args.run_ms.max(1)));
        router.run();
        let seconds = (router.cpu_ns().iter().sum::<u64>() - cpu) as f64 / 1e9;
        let after = devices.counts();
        let [offered, delivered, bad] = std::array::from_fn(|at| (after[at] - before[at]) as f64);
        (delivered / offered.max(1.0), delivered / seconds, bad / seconds)
    };
    run(f64::INFINITY, false); // neighbours become known
    let (_, capacity, _) = run(f64::INFINITY, false);
    let rate = capacity * args.load;
    let (mut shares, mut floods, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.runs.max(1) {
        let (alone, ..) = run(rate, false);
        let (share, delivered, bad) = run(rate, true);
        if alone == 0.0 {
            return Err("no good packet arrived, flood or not".into());
        }
        shares.push(share / alone);
        floods.push(bad / 1e6);
        rates.push(delivered / 1e6);
    }
    let name = |what: &str| format!("flood.{what}.{}", flood.name());
    Ok(vec![
        Measured::new(name("good_share"), "", shares),
        Measured::new(name("good_mpps"), "Mpps", rates),
        Measured::new(name("flood_mpps"), "Mpps", floods),
    ])
}

fn build(text: &str, devices: &Arc<Devices>) -> Result<Router, String> {
    let parsed = lang::load_str("flood", text, &elements::options());
    let shown =
        |all: &[lang::Diagnostic]| all.iter().map(|d| d.message.clone()).collect::<Vec<_>>().join("; ");
    let graph = parsed.graph.ok_or_else(|| shown(&parsed.diagnostics))?;
    let options = Options {
        provider: Arc::new(Shared(devices.clone())),
        workers: 1,
        cores: vec![0],
        burst: engine::DEFAULT_BURST,
        time: TimeSource::Real,
        seed: 1,
        print: None,
    };
    Router::build(&graph, &config::registry(false), options).map_err(|errors| shown(&errors))
}

/// `m0` to `m2`.
struct Devices {
    flood: Flood,
    known: Mutex<HashMap<String, Arc<MemoryDevice>>>,
    /// Good packets a second, as bits of a number; infinite for as many as are taken.
    rate: AtomicU64,
    flooding: AtomicBool,
    offered: AtomicU64,
    delivered: AtomicU64,
    bad: AtomicU64,
    /// Hosts' answers to ARP, for `m1` to receive.
    answers: Mutex<Vec<Packet>>,
}

impl Devices {
    fn new(flood: Flood) -> Self {
        Self {
            flood,
            known: Mutex::default(),
            rate: AtomicU64::new(0),
            flooding: AtomicBool::new(false),
            offered: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            bad: AtomicU64::new(0),
            answers: Mutex::default(),
        }
    }

    /// Good packets offered and delivered, bad ones taken.
    fn counts(&self) -> [u64; 3] {
        [&self.offered, &self.delivered, &self.bad].map(|count| count.load(Ordering::Relaxed))
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
        let (number, packets) = match spec.device.as_str() {
            "m0" => (1, frames(1, "10.1.0.0/16", THERE, 1024)),
            "m1" => (2, frames(2, "10.2.0.0/16", THERE, 1)),
            _ => (3, self.0.flood.frames()),
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
    /// Good packets that wait.
    due: f64,
}

impl Rx {
    /// Good packets that have come and not been taken.
    fn waiting(&mut self) -> usize {
        let rate = f64::from_bits(self.devices.rate.load(Ordering::Relaxed));
        if rate.is_infinite() {
            self.last = 0.0;
            return usize::MAX;
        }
        let now = thread_seconds();
        // Each run is a thread of its own.
        let came = if self.last == 0.0 || now < self.last { 0.0 } else { (now - self.last) * rate };
        self.last = now;
        self.due += came;
        let whole = self.due as u64;
        if whole > RING {
            self.devices.offered.fetch_add(whole - RING, Ordering::Relaxed);
            self.due -= (whole - RING) as f64;
        }
        self.due as usize
    }
}

impl RxQueue for Rx {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        match self.number {
            1 => {
                let taken = match self.waiting() {
                    0 => 0,
                    waiting => self.inner.receive(batch, max.min(waiting)),
                };
                self.due = (self.due - taken as f64).max(0.0);
                self.devices.offered.fetch_add(taken as u64, Ordering::Relaxed);
                taken
            }
            2 => {
                let answers =
                    std::mem::take(&mut *self.devices.answers.lock().unwrap_or_else(|e| e.into_inner()));
                let count = answers.len();
                batch.extend(answers);
                count
            }
            _ if self.devices.flooding.load(Ordering::Relaxed) => {
                let taken = self.inner.receive(batch, max);
                self.devices.bad.fetch_add(taken as u64, Ordering::Relaxed);
                taken
            }
            _ => 0,
        }
    }

    fn stats(&self) -> QueueStats {
        self.inner.stats()
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
                match frame {
                    // Good packets come from 10.1.0.0/16.
                    [_, _, _, _, _, _, _, _, _, _, _, _, 8, 0, ..] => {
                        delivered += u64::from(frame.get(26..28) == Some(&[10, 1][..]));
                    }
                    // Those behind 10.2.1.0 are there.
                    _ if frame.get(38..41) == Some(&[10, 2, 1][..]) => answers.extend(answer(frame)),
                    _ => {}
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
        let args = Args { load: 0.2, runs: 1, run_ms: 150, json: true };
        for flood in Flood::ALL {
            let results = measure(&args, flood).unwrap_or_else(|why| panic!("{flood:?}: {why}"));
            let of = |name: &str| results.iter().find(|r| r.name.contains(name)).expect(name).median();
            assert!(of("good_mpps") > 0.0 && of("flood_mpps") > 0.0, "{flood:?}: {results:?}");
        }
    }
}
