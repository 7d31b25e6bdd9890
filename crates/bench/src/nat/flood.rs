// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench nat --flood`: what one inside host that opens flows without end leaves to the flows of others.
//!
//! An address translator with three in-memory interfaces on one worker. Packets of established flows come by `m0`, at a share of
//! what the translator can do. By `m2` one host begins a flow with each packet, at as many packets a second and as fast as the
//! worker takes them. What counts is the share of established flows' packets that still leaves by `m1`.
//!
//! Packets arrive by the worker's processor time, so that what else runs on the machine takes none of them, and wait in a ring
//! as a device's does; what finds it full is lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use packet::port::{Device, Error, Info, Provider, QueueStats, RxQueue, Spec, TxQueue};
use packet::{Batch, Packet};
use ports::memory::Replay;
use serde_json::json;

use crate::beside::{self, Course, Pace, RING, Source};
use harness::Pattern;
use report::measure::Measured;

use crate::{Failure, Findings};

/// Established flows.
const FLOWS: usize = 1024;
/// Packets of the host as often as established flows', and as many as the worker takes.
const FACTORS: [(&str, f64); 2] = [("1", 1.0), ("all", f64::INFINITY)];

/// What becomes of the host's flows.
const CASES: [(&str, &str); 3] = [
    // All ports towards the peer are in use.
    ("full", ""),
    // The host has as many flows as it may.
    ("limit", "HOST_FLOWS 1000"),
    // Each flow takes the place of another of its own.
    ("churn", "GUARANTEE 0, MAPPING_CAPACITY 16384"),
];

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Packets of established flows offered, as a share of what the translator forwards when nothing else comes.
    pub load: f64,
    /// Measured runs of each case, with undisturbed ones between them.
    pub runs: usize,
    /// Length of a run in milliseconds.
    pub run_ms: u64,
    /// Only cases whose name begins so.
    pub only: String,
}

/// Measures what a host that opens flows without end leaves to established flows.
///
/// # Errors
/// A setting is wrong, or no packet passes.
pub fn measure(args: &Settings) -> Result<Findings, Failure> {
    if !(0.01..=0.9).contains(&args.load) {
        let why = "--load: established flows should be 0.01 to 0.9 of what the translator forwards";
        return Err(Failure::usage(why));
    }
    let mut results = Vec::new();
    for (name, more) in CASES.iter().filter(|case| case.0.starts_with(&args.only)) {
        results.extend(measure_case(args, name, more)?);
    }
    if results.is_empty() {
        return Err(Failure::usage("--only: cases are full, limit and churn"));
    }
    let conditions = json!({
        "workers": 1, "load": args.load, "ring": RING, "run_ms": args.run_ms, "flows": FLOWS,
        "burst": engine::DEFAULT_BURST, "time": "processor time of the worker",
    });
    Ok(Findings { conditions, results })
}

fn text(more: &str) -> String {
    let comma = if more.is_empty() { "" } else { ", " };
    format!(
        "rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop{comma}{more});
         FromDevice(m0) -> Strip(14) -> CheckIPHeader -> [0]rw;
         FromDevice(m2) -> Strip(14) -> CheckIPHeader -> [0]rw;
         FromDevice(m1) -> Strip(14) -> CheckIPHeader -> [1]rw;
         rw[0] -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:2, 2:0:0:0:0:9) -> ToDevice(m1);
         rw[1] -> Discard;"
    )
}

fn measure_case(args: &Settings, case: &str, more: &str) -> Result<Vec<Measured>, crate::Error> {
    let devices = Arc::new(Devices { one_port: case == "full", ..Devices::default() });
    let mut router = beside::build(&text(more), Arc::new(Shared(devices.clone())))?;
    let course = Course {
        names: ["nat", case],
        values: ["established_share", "new_mpps"],
        factors: &FACTORS,
        nothing: "no packet of an established flow arrived",
        load: args.load,
        runs: args.runs,
        run_ms: args.run_ms,
    };
    course.measure(&mut router, &*devices)
}

/// `m0` to `m2`.
#[derive(Default)]
struct Devices {
    /// Packets a second by each, as bits of a number; infinite for as many as are taken.
    rates: [AtomicU64; 3],
    offered: [AtomicU64; 3],
    /// Packets of established flows that came out.
    delivered: AtomicU64,
    known: Mutex<Vec<Arc<MemoryDevice>>>,
    /// Flows started so far.
    begun: AtomicU64,
    /// Whether all go to one port of the peer, and where a host has no further source ports the next one goes on.
    one_port: bool,
}

impl Devices {
    /// Makes each frame the first of a flow.
    fn begin(&self, frames: &mut [Packet]) {
        let first = self.begun.fetch_add(frames.len() as u64, Ordering::Relaxed);
        for (number, frame) in (first..).zip(frames) {
            let (port, more) = (number as u16, (number >> 16) as u16);
            let Some(bytes) = frame.data_mut().first_chunk_mut::<42>() else { continue };
            bytes[34..36].copy_from_slice(&port.to_be_bytes());
            if !self.one_port {
                bytes[36..38].copy_from_slice(&more.to_be_bytes());
                continue;
            }
            let field = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            let sum = wire::checksum::update16(field(24), field(28), more);
            bytes[24..26].copy_from_slice(&sum.to_be_bytes());
            bytes[28..30].copy_from_slice(&more.to_be_bytes());
        }
    }
}

impl Source for Devices {
    fn offer(&self, good: f64, other: f64) {
        self.rates[0].store(good.to_bits(), Ordering::Relaxed);
        self.rates[2].store(other.to_bits(), Ordering::Relaxed);
    }

    /// Packets of established flows offered and delivered, and packets taken of the host.
    fn counts(&self) -> [u64; 3] {
        [&self.offered[0], &self.delivered, &self.offered[2]].map(|count| count.load(Ordering::Relaxed))
    }
}

/// Opens them: devices need a share of their own.
struct Shared(Arc<Devices>);

/// Packets by each interface: established flows to one peer, and one of the host to another.
fn packets(number: usize) -> Vec<Vec<u8>> {
    let (from, to, flows) = match number {
        0 => ("10.1.0.0/16", "198.51.100.7/32", FLOWS),
        2 => ("10.3.0.1/32", "203.0.113.9/32", 1),
        _ => return vec![vec![0; 60]],
    };
    let line = format!("// bench: x ether=02:00:00:00:00:01 src={from} dst={to} flows={flows} length=60");
    let mut frames = Pattern::gather(&line).expect("a pattern")["x"].packets();
    for frame in frames.iter_mut().filter(|_| number == 2) {
        frame[40..42].fill(0); // no UDP checksum
    }
    frames
}

impl Provider for Shared {
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        let mut known = self.0.known.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(device) = known.iter().find(|device| device.name == spec.device) {
            return Ok(device.clone());
        }
        let number = spec.device.bytes().last().map_or(0, |digit| usize::from(digit - b'0')) % 3;
        let replay = Replay::new(&spec.device, &packets(number), 1, None)?;
        let device =
            Arc::new(MemoryDevice { name: spec.device.clone(), number, replay, devices: self.0.clone() });
        known.push(device.clone());
        Ok(device)
    }
}

struct MemoryDevice {
    name: String,
    number: usize,
    replay: Replay,
    devices: Arc<Devices>,
}

impl Device for MemoryDevice {
    fn info(&self) -> Info {
        self.replay.info()
    }

    fn rx(&self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        let inner = self.replay.rx(queue)?;
        Ok(Box::new(Rx { number: self.number, inner, devices: self.devices.clone(), pace: Pace::default() }))
    }

    fn tx(&self, queue: usize) -> Result<Box<dyn TxQueue>, Error> {
        let inner = self.replay.tx(queue)?;
        Ok(Box::new(Tx { inner, devices: self.devices.clone() }))
    }
}

struct Rx {
    number: usize,
    inner: Box<dyn RxQueue>,
    devices: Arc<Devices>,
    pace: Pace,
}

impl RxQueue for Rx {
    /// Takes packets that have come at the rate.
    fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        let rate = f64::from_bits(self.devices.rates[self.number].load(Ordering::Relaxed));
        let before = batch.len();
        let (taken, lost) = self.pace.take(rate, max, |most| self.inner.receive(batch, most));
        if self.number == 2 {
            self.devices.begin(&mut batch[before..]);
        }
        self.devices.offered[self.number].fetch_add(taken as u64 + lost, Ordering::Relaxed);
        taken
    }

    fn stats(&self) -> QueueStats {
        self.inner.stats()
    }
}

struct Tx {
    inner: Box<dyn TxQueue>,
    devices: Arc<Devices>,
}

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let established = |frame: &&Packet| frame.data().get(30..34) == Some(&[198, 51, 100, 7]);
        self.devices.delivered.fetch_add(batch.iter().filter(established).count() as u64, Ordering::Relaxed);
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

    /// Each case is what its name says, and packets of established flows arrive. How large a share is for quiet machines to say.
    #[test]
    fn new_flows_meet_what_they_should() {
        let args = Settings { load: 0.2, runs: 1, run_ms: 60, only: String::new() };
        for (name, more) in CASES {
            let results = measure_case(&args, name, more).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert_eq!(results.len(), 1 + 2 * FACTORS.len());
            assert!(results.iter().all(|r| r.median() > 0.0), "{name}: {results:?}");
        }
    }
}
