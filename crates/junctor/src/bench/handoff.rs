// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench handoff`: what it costs to move a packet from one core to another through a Queue.

use std::time::Duration;

use harness::handoff::{Floor, MAX_BURST, Moving};
use serde_json::json;

use crate::cli;
use report::measure::Measured;

/// Measure what moving a packet between two cores through a Queue costs: the busy time of both sides over packets moved.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "What is counted, for each burst and way of synchronisation (names end in .WAY.BURST):
  handoff.ns_per_packet           pushing a batch into the Queue on one core, and on the other fetching it and reading
                                  each packet's descriptor and first 16 bytes of header
  handoff.one_core_ns_per_packet  the same with both on one core
  handoff.memory_ns_per_packet    beside it: taking frames and writing 64 bytes into each on the first core, and freeing
                                  them on the other; the frames return through the shared pool
  handoff.one_core_memory_ns_per_packet
  handoff.take_ns_per_packet      of the first, what the core pays that takes the packets
  handoff.floor_ns_per_packet     the same as the first without engine, queue and packets: two bare threads pass lists of
                                  frames, and the second reads the two lines that the first wrote for each of them
  handoff.lock_contended_share    with a lock: of the times it was taken, the share that had to wait
  handoff.lock_wait_ns_per_packet how long, over packets moved
handoff.ns_per_packet alone is that of the lock-free queue at burst 32. Times spent with a queue too full or empty to
move anything are left out; each side's two readings of the clock (about 16 ns) are in.

Examples:
  junctor bench handoff
  junctor bench handoff --json --sync lockfree,spin,adaptive --burst 32"
)]
pub(crate) struct Args {
    /// Packets handled at a time.
    #[arg(long, value_name = "PACKETS", value_delimiter = ',', default_values_t = [1, 8, 32, 64])]
    burst: Vec<usize>,
    /// Ways of synchronisation, as Queue's argument SYNC.
    #[arg(long, value_name = "WAY", value_delimiter = ',', default_values_t = ["lockfree".to_owned()])]
    sync: Vec<String>,
    /// The two cores.
    #[arg(long, value_name = "CORES", default_value = "0,1")]
    cores: String,
    /// Packets that the queue holds at most.
    #[arg(long, value_name = "PACKETS", default_value_t = 1000)]
    capacity: usize,
    /// Measured runs of each, after one to warm up.
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    runs: usize,
    /// Length of a run in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 50)]
    run_ms: u64,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    if sync::tsc() == 0 {
        return cli::fail("this processor has no time stamp counter that programs can read");
    }
    let cores = match conf::cores::parse(&args.cores) {
        Ok((2, cores)) => cores,
        Ok(_) => return cli::usage(format!("--cores expects two cores such as 0,1, not '{}'", args.cores)),
        Err(why) => return cli::usage(why),
    };
    if args.burst.iter().any(|burst| !(1..=MAX_BURST).contains(burst)) {
        return cli::usage(format!("--burst must lie between 1 and {MAX_BURST}"));
    }
    let mut results = Vec::new();
    for way in &args.sync {
        for burst in &args.burst {
            match measure_one(args, way, *burst, &cores) {
                Ok(measured) => results.extend(measured),
                Err(why) => return cli::usage(why),
            }
        }
    }
    let headline = "handoff.ns_per_packet.lockfree.32";
    if let Some(measured) = results.iter().find(|m| m.name == headline) {
        results.insert(0, Measured::new("handoff.ns_per_packet", "ns", measured.runs.clone()));
    }
    let conditions = json!({ "cores": cores, "capacity": args.capacity, "run_ms": args.run_ms });
    cli::show("bench handoff", &conditions, &results, args.json)
}

/// Quantities of a run, in the order in which they are told.
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

fn measure_one(args: &Args, way: &str, burst: usize, cores: &[usize]) -> Result<Vec<Measured>, String> {
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
