// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench handoff`: what it costs to move a packet from one core to another through a Queue.

use std::time::Duration;

use harness::handoff::{Floor, MAX_BURST, Moving};
use serde_json::json;

use report::measure::Measured;

use crate::{Error, Failure, Findings};

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Packets handled at a time.
    pub burst: Vec<usize>,
    /// Ways of synchronisation, as Queue's argument SYNC.
    pub sync: Vec<String>,
    /// The two cores.
    pub cores: [usize; 2],
    /// Packets that the queue holds at most.
    pub capacity: usize,
    /// Measured runs, after one to warm up.
    pub runs: usize,
    /// Length of a run in milliseconds.
    pub run_ms: u64,
}

/// Measures what it costs to move a packet between two cores.
///
/// # Errors
/// A setting is wrong, or the processor has no clock that programs can read.
pub fn measure(args: &Settings) -> Result<Findings, Failure> {
    if sync::tsc() == 0 {
        return Err(Error::NO_TSC.into());
    }
    if args.burst.iter().any(|burst| !(1..=MAX_BURST).contains(burst)) {
        return Err(Failure::usage(format!("--burst must lie between 1 and {MAX_BURST}")));
    }
    let mut results = Vec::new();
    for way in &args.sync {
        for burst in &args.burst {
            results.extend(measure_one(args, way, *burst, &args.cores).map_err(Failure::Usage)?);
        }
    }
    let headline = "handoff.ns_per_packet.lockfree.32";
    if let Some(measured) = results.iter().find(|m| m.name == headline) {
        results.insert(0, Measured::new("handoff.ns_per_packet", "ns", measured.runs.clone()));
    }
    let conditions = json!({ "cores": args.cores, "capacity": args.capacity, "run_ms": args.run_ms });
    Ok(Findings { conditions, results })
}

/// Quantities of a run, in the order in which they are reported.
const NAMES: [(&str, &str); 8] = [
    ("ns_per_packet", "ns"),
    ("memory_ns_per_packet", "ns"),
    ("one_core_ns_per_packet", "ns"),
    ("one_core_memory_ns_per_packet", "ns"),
    ("take_ns_per_packet", "ns"),
    ("floor_ns_per_packet", "ns"),
    ("lock_contended_share", ""),
    ("lock_wait_ns_per_packet", "ns"),
];

fn measure_one(args: &Settings, way: &str, burst: usize, cores: &[usize]) -> Result<Vec<Measured>, Error> {
    let mut runs = NAMES.map(|_| Vec::new());
    let length = Duration::from_millis(args.run_ms.max(1));
    let mut two = Moving::new(args.capacity, way, burst, cores.to_vec())?;
    let mut one = Moving::new(args.capacity, way, burst, cores[..1].to_vec())?;
    let floor = Floor::new([cores[1], cores[0]], burst);
    for run in 0..=args.runs.max(1) {
        let before = two.contention();
        let [source, sink] = two.sides(length);
        let [apart, apart_memory] = [0, 1].map(|i| source[i] + sink[i]);
        let after = two.contention();
        let [together, together_memory] = one.run(length);
        let floor = floor.sides(length).iter().sum();
        if run == 0 {
            continue;
        }
        let values = [apart, apart_memory, together, together_memory, sink[0], floor];
        runs.iter_mut().zip(values).for_each(|(runs, value)| runs.push(value));
        if let (Some(before), Some(after)) = (before, after) {
            let [taken, contended, wait_ns] = [0, 1, 2].map(|i| after[i] - before[i]);
            runs[6].push(contended / taken.max(1.0));
            runs[7].push(wait_ns / two.moved().max(1.0));
        }
    }
    let measured = NAMES.iter().zip(runs).filter(|(_, runs)| !runs.is_empty());
    let name = |name| format!("handoff.{name}.{way}.{burst}");
    Ok(measured.map(|((quantity, unit), runs)| Measured::new(name(quantity), unit, runs)).collect())
}
