// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a packet costs on its way through a configuration, on in-memory devices.

use std::sync::Arc;
use std::time::Duration;

use engine::{Options, Router};
use harness::{Bench, Pattern, Prepared};
use lang::{Diagnostic, Graph};
use report::measure::Measured;
use serde_json::json;

use crate::{Failure, Findings};

/// What is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many workers, and on which cores.
    pub workers: (usize, Vec<usize>),
    /// Queues of each device, if not one for each worker.
    pub queues: Option<usize>,
    /// Packets handled at a time.
    pub burst: usize,
    /// Runs.
    pub runs: usize,
    /// Milliseconds of each.
    pub run_ms: u64,
    /// Handlers that are written before, and values, as `HANDLER VALUE`.
    pub writes: Vec<String>,
    /// No chain runs as one pass.
    pub no_fuse: bool,
    /// One lock is around all processing.
    pub big_lock: bool,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration cannot be built.
    #[error("the configuration cannot be used")]
    Configuration(Vec<Diagnostic>),
    /// Something else.
    #[error(transparent)]
    Failure(#[from] Failure),
}

/// Measures a configuration, whose text says what its devices send. `inspect` sees the router after the runs.
///
/// # Errors
/// The configuration cannot be built, or no packet comes out of it.
pub fn measure(
    settings: &Settings,
    (graph, text): (&Graph, &str),
    inspect: impl FnOnce(&mut Prepared),
) -> Result<Findings, Error> {
    let patterns = Pattern::gather(text).map_err(|why| Failure::Usage(why.into()))?;
    let workers = settings.workers.0;
    let bench = Arc::new(Bench::new(patterns, settings.queues.unwrap_or(workers).max(1)));
    let burst = settings.burst.clamp(1, 256);
    let options = Options { burst, print: None, ..harness::options(bench.clone(), settings.workers.clone()) };
    let router = Router::build(graph, &conf::registry(settings.no_fuse), options);
    let mut router = router.map_err(Error::Configuration)?;
    for text in &settings.writes {
        let (handler, value) = text.split_once(' ').unwrap_or((text, ""));
        let done = router.write(handler, value.trim());
        done.map_err(|why| Failure::usage(format!("--write {handler}: {why}")))?;
    }
    if settings.big_lock {
        router.lock_all_processing();
    }
    let mut prepared = Prepared::new(router, bench, Duration::from_millis(settings.run_ms.max(1)));
    prepared.warm_up();
    let runs: Result<Vec<_>, _> = (0..settings.runs.max(1)).map(|_| prepared.run_surely()).collect();
    inspect(&mut prepared);
    let silent = "no packet came out of the configuration; --report shows where they end";
    let runs = runs.map_err(|_| Failure::Failed(crate::Error::nothing(silent)))?;
    let results = vec![
        Measured::new("engine.ns_per_packet", "ns", runs.iter().map(|r| r.ns_per_packet()).collect()),
        Measured::new(
            "engine.mpps",
            "Mpps",
            runs.iter().map(|r| r.packets as f64 / r.wall_ns * 1e3).collect(),
        ),
    ];
    let (burst, run_ms) = (settings.burst, settings.run_ms);
    Ok(Findings { conditions: json!({ "workers": workers, "burst": burst, "run_ms": run_ms }), results })
}
