// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench flood`: what a flood on one interface leaves of legitimate traffic on another.
//!
//! A router of three in-memory interfaces on one worker. Legitimate packets come by `m0` at a fixed rate, a given share of what
//! the router can do. They go to hosts behind `m1` that answer ARP or neighbour solicitations. A flood comes by `m2`: as many
//! packets a second, twice as many, and as fast as the worker takes them. [`kind`] has a flood for each way in which a packet can
//! be an exception. It has the same for a gateway and a bridge.
//!
//! A worker takes as much from each interface in turn. So with a flood of any rate legitimate packets have half of its rounds. At a load of 0.3 a
//! packet of the flood may cost 2.3 times as much as a legitimate one before any is lost (1.5 times at 0.4). So there are two bars. An exception must
//! cost at most twice as much as a forwarded packet. And what the flood fills, be it tables, queues or caches, must still be there for others. The
//! cost is printed next to the share.
//!
//! Legitimate packets arrive by the worker's processor time, so that other programs take none of them. They wait in a ring as a
//! device's does; what finds it full is lost.

use std::sync::Arc;

use serde_json::json;

use super::beside::{self, Course, RING};
use report::measure::Measured;

use crate::{Error, Failure, Findings};

mod devices;
mod kind;

use devices::{Devices, Shared};
use kind::Flood;

/// How many times as fast as legitimate packets a flood comes; the last is as fast as the worker takes it.
const FACTORS: [(&str, f64); 3] = [("1", 1.0), ("2", 2.0), ("all", f64::INFINITY)];

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Legitimate packets offered, as a share of what the router forwards when nothing else comes.
    pub load: f64,
    /// Measured runs of each flood, with undisturbed ones between them.
    pub runs: usize,
    /// Length of a run in milliseconds.
    pub run_ms: u64,
    /// Only floods whose name begins so.
    pub only: String,
    /// Only what packets cost, not what is left of other traffic.
    pub cost_only: bool,
}

/// The names of all floods.
pub fn names() -> impl Iterator<Item = String> {
    Flood::all().map(|flood| flood.name().to_string())
}

/// Measures what floods leave of legitimate traffic.
///
/// # Errors
/// A setting is wrong, or no packet passes.
pub fn measure(args: &Settings) -> Result<Findings, Failure> {
    if !(0.01..=0.9).contains(&args.load) {
        let why = "--load: legitimate packets should be 0.01 to 0.9 of what the router forwards";
        return Err(Failure::usage(why));
    }
    let mut results = Vec::new();
    for flood in Flood::all().filter(|flood| flood.name().starts_with(&args.only)) {
        results.extend(measure_one(args, flood)?);
    }
    if results.is_empty() {
        let why = "--only: no flood has this name; --list prints the names";
        return Err(Failure::usage(why));
    }
    let conditions = json!({
        "workers": 1, "load": args.load, "ring": RING, "run_ms": args.run_ms, "burst": engine::DEFAULT_BURST,
        "time": "processor time of the worker",
    });
    Ok(Findings { conditions, results })
}

fn measure_one(args: &Settings, flood: Flood) -> Result<Vec<Measured>, Error> {
    let devices = Arc::new(Devices::new(flood));
    let mut router = beside::build(&flood.config()?, Arc::new(Shared(devices.clone())))?;
    let course = Course {
        names: ["flood", &flood.name()],
        values: ["good_share", "flood_mpps"],
        factors: if args.cost_only { &[] } else { &FACTORS },
        nothing: "no legitimate packet arrived, flood or not",
        load: args.load,
        runs: args.runs,
        run_ms: args.run_ms,
    };
    course.measure(&mut router, &*devices)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every flood goes its way through the router, and legitimate packets arrive. How large a share is for quiet machines to say.
    #[test]
    fn floods_reach_the_router_and_legitimate_packets_arrive() {
        for flood in Flood::all() {
            // The measurement with legitimate traffic is the same for all other floods.
            let cost_only = !["unresolvable", "unresolvable6", "unknown"].contains(&&*flood.name());
            let (load, only) = (0.2, String::new());
            let args = Settings { load, runs: 1, run_ms: 20, only, cost_only };
            let results = measure_one(&args, flood).unwrap_or_else(|why| panic!("{flood:?}: {why}"));
            assert_eq!(results.len(), if cost_only { 1 } else { 1 + 2 * FACTORS.len() });
            assert!(results.iter().all(|r| r.median() > 0.0), "{flood:?}: {results:?}");
        }
    }
}
