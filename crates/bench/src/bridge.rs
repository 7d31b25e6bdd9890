// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench bridge`: what a frame costs in a bridge of so many stations, on in-memory devices.
//!
//! With each bridge a bare wire is measured, which takes the same frames from one device to the other. Receiving them (each is written to fresh
//! memory, as a network card would) and sending them is in the bridge's figure, too.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use engine::{Options, Router};
use serde_json::json;

use harness::{Bench, Pattern, Prepared};
use report::measure::Measured;

use crate::{Error, Failure, Findings};

/// Stations behind each of two ports and flows from there, by the name of how many there are in all.
const SIZES: [(&str, usize, usize); 2] = [("", 5_000, 8_192), (".64k", 32_768, 65_536)];

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Interleaved rounds.
    pub runs: usize,
    /// Length of a run in milliseconds.
    pub run_ms: u64,
    /// Packets handled at a time.
    pub burst: usize,
}

/// Measures what a frame costs in a bridge, and on a bare wire.
///
/// # Errors
/// No frame passes.
pub fn measure(args: &Settings) -> Result<Findings, Failure> {
    let conditions = json!({
        "workers": 1, "ports": 2, "frame_bytes": 60, "burst": args.burst, "run_ms": args.run_ms,
        "time": "processor time of the worker",
    });
    Ok(Findings { conditions, results: measure_all(args)? })
}

fn measure_all(args: &Settings) -> Result<Vec<Measured>, Error> {
    let mut subjects = Vec::new();
    for (size, stations, flows) in SIZES {
        for (what, text) in [("ns_per_packet", BRIDGE), ("wire_ns_per_packet", WIRE)] {
            subjects.push((
                format!("bridge.{what}{size}"),
                prepare(text, stations, flows, args)?,
                Vec::new(),
            ));
        }
    }
    for _ in 0..args.runs.max(1) {
        for (name, prepared, runs) in &mut subjects {
            let run =
                prepared.run_surely().map_err(|_| Error::Nothing(format!("{name}: no frame came out")))?;
            runs.push(run.ns_per_packet());
        }
    }
    Ok(subjects.into_iter().map(|(name, _, runs)| Measured::new(name, "ns", runs)).collect())
}

const BRIDGE: &str = "b :: Bridge(LEARN_RATE 100000000);
    FromDevice(m0, PROMISC true) -> [0]b[0] -> ToDevice(m0);
    FromDevice(m1, PROMISC true) -> [1]b[1] -> ToDevice(m1);";
const WIRE: &str = "FromDevice(m0, PROMISC true) -> ToDevice(m1);
    FromDevice(m1, PROMISC true) -> ToDevice(m0);";

fn prepare(text: &str, stations: usize, flows: usize, args: &Settings) -> Result<Prepared, Error> {
    let traffic = |device: &str, from: &str, to: &str| {
        format!("// bench: {device} from={from} to={to} stations={stations} flows={flows} length=60\n")
    };
    let [near, far] = ["02:00:00:01:00:00", "02:00:00:02:00:00"];
    let patterns: HashMap<String, Pattern> =
        Pattern::gather(&(traffic("m0", near, far) + &traffic("m1", far, near)))?;
    let parsed = lang::load_str("bridge", text, &elements::options());
    let graph = parsed.graph.ok_or_else(|| Error::configuration(parsed.diagnostics))?;
    let bench = Arc::new(Bench::new(patterns, 1));
    let burst = args.burst.clamp(1, 256);
    let options = Options { burst, placer: None, ..harness::options(bench.clone(), (1, vec![0])) };
    let router = Router::build(&graph, &conf::registry(false), options).map_err(Error::configuration)?;
    let mut prepared = Prepared::new(router, bench, Duration::from_millis(args.run_ms.max(1)));
    prepared.warm_up();
    Ok(prepared)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small bridges know their stations after a while, and all that comes in by one port then leaves by the other.
    #[test]
    fn what_comes_in_leaves_by_the_other_port() {
        let args = Settings { runs: 1, run_ms: 20, burst: 32 };
        for text in [BRIDGE, WIRE] {
            let mut prepared = prepare(text, 50, 100, &args).unwrap_or_else(|why| panic!("{why}"));
            // On a busy machine a run may be over before it began.
            for _ in 0..1000 {
                if prepared.sent() >= 1000 {
                    break;
                }
                prepared.run_for(Duration::from_millis(20));
            }
            let report = prepared.report();
            assert_eq!(report.elements.iter().map(|element| element.held).sum::<usize>(), 0);
            if text == BRIDGE {
                assert_eq!(prepared.read("b.count").as_deref(), Some("100"));
            }
        }
    }
}
