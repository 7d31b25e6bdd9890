// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench fib`: what the forwarding tables can do on this machine, without packets around them.
//!
//! The stages, for each family:
//!
//! 1. Build the table whole several times.
//! 2. Apply the stream of updates.
//! 3. Look up three workloads, in interleaved rounds.
//! 4. Let a reader on each core look up while one of them changes routes at a fixed pace, for each of the three strategies of sharing ([`together`]).

mod data;
mod table;
mod together;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use sync::rcu::Domain;
use tables::fib4::Fib4Writer;
use tables::fib6::Fib6Writer;

pub(super) use data::{Data, Sources};
use data::{Workload, workloads};
use report::measure::Measured;

use crate::{Error, Failure, Findings};
use table::Table;
use together::{Strategy, Together};
pub(super) use together::{cores, thread_seconds};

/// Addresses looked up in one call.
const BATCH: usize = 32;

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// IPv4 only.
    pub v4: bool,
    /// IPv6 only.
    pub v6: bool,
    /// A file with routes; without it, the shared real tables, or a generated one.
    pub routes: Option<PathBuf>,
    /// A file with updates; without it, the shared ones, or generated.
    pub updates: Option<PathBuf>,
    /// Updates a second that disturb the readers.
    pub pace: u64,
    /// Interleaved rounds.
    pub runs: usize,
    /// Length of each run of readers with a writer, in milliseconds.
    pub run_ms: u64,
    /// Whether nothing is said about where routes come from.
    pub quiet: bool,
}

/// Measures lookups, memory, building, updates, and what updates leave of the readers' rate.
///
/// # Errors
/// There are no such routes, or something did not work.
pub fn measure(args: &Settings) -> Result<Findings, Failure> {
    let sources = Sources { routes: args.routes.clone(), updates: args.updates.clone() };
    let mut results = Vec::new();
    let mut conditions = json!({
        "batch": BATCH, "pace_updates_per_s": args.pace, "run_ms": args.run_ms,
        "readers": together::cores().len(), "updating_core": together::cores().last(),
        "time": "processor time of each thread; readers' without what updates take, the pace per second of the updating one's",
    });
    if !args.v6 {
        results.extend(family::<Fib4Writer>(args, &sources, &mut conditions)?);
    }
    if !args.v4 {
        results.extend(family::<Fib6Writer>(args, &sources, &mut conditions)?);
    }
    Ok(Findings { conditions, results })
}

/// Says on a terminal what is being done.
fn progress(what: &str) {
    if std::io::stderr().is_terminal() {
        err!("\r\x1b[K{what}");
    }
}

fn family<T: Table>(
    args: &Settings,
    sources: &Sources,
    conditions: &mut Value,
) -> Result<Vec<Measured>, Error> {
    progress(&format!("{}: reading routes", T::NAME));
    let data = Data::<T>::load(sources)?;
    progress("");
    if !args.quiet {
        errln!(
            "{}: {} routes: {}; {} updates: {}",
            T::NAME,
            data.routes.len(),
            data.source,
            data.updates.len(),
            data.updates_source
        );
    }
    conditions[T::NAME] = json!({
        "routes": data.routes.len(), "source": data.source,
        "updates": data.updates.len(), "updates_source": data.updates_source,
    });
    let loads = workloads(&data.routes);
    let mut results = still(args, &data, &loads)?;
    results.extend(disturbed(args, &data, &loads)?);
    progress("");
    Ok(results)
}

/// One thread and one table.
fn still<T: Table>(args: &Settings, data: &Data<T>, loads: &[Workload<T>]) -> Result<Vec<Measured>, Error> {
    let domain = Domain::default();
    let mut table = T::open(&domain)?;
    let mut reader = domain.register("bench");
    let mut builds = Vec::new();
    let mut rates = vec![Vec::new(); loads.len()];
    let mut memory = 0.0;
    for run in 0..=args.runs.max(1) {
        progress(&format!("{}: lookups, round {run} of {}", T::NAME, args.runs));
        table.replace(&[])?;
        reader.quiescent();
        let start = thread_seconds();
        table.replace(&data.routes)?;
        let built = (thread_seconds() - start) * 1e3;
        reader.quiescent();
        memory = table.memory().lookup_bytes as f64 / 1e6;
        if run > 0 {
            builds.push(built);
        }
        let fib = table.reader();
        for (load, rates) in loads.iter().zip(&mut rates) {
            let rate = pass::<T>(&fib, &mut reader, &load.addrs);
            if run > 0 {
                rates.push(rate);
            }
        }
    }
    let name = |what: &str| format!("{}.{what}", T::NAME);
    let mut results: Vec<Measured> = loads
        .iter()
        .zip(rates)
        .map(|(load, rates)| Measured::new(name(&format!("mlps.{}", load.name)), "Mlookups/s", rates))
        .collect();
    results.push(Measured::new(name("memory_mb"), "MB", vec![memory]));
    results.push(Measured::new(name("build_ms"), "ms", builds));

    progress(&format!("{}: updates", T::NAME));
    let mut updates = Vec::new();
    for part in data.updates.chunks(data.updates.len().div_ceil(args.runs.max(1)).max(1)) {
        let start = thread_seconds();
        for (prefix, id) in part {
            while !table.change(*prefix, *id)? {
                reader.quiescent();
            }
            reader.quiescent();
        }
        updates.push(part.len() as f64 / (thread_seconds() - start));
    }
    results.push(Measured::new(name("updates_per_s"), "updates/s", updates));
    Ok(results)
}

/// Million lookups a second over all addresses, after a pass that is not timed.
fn pass<T: Table>(fib: &T::Reader, reader: &mut sync::rcu::Reader, addrs: &[T::Addr]) -> f64 {
    let mut out = [0; BATCH];
    let mut go = || {
        for batch in addrs.chunks_exact(BATCH) {
            T::lookup(fib, reader, batch, &mut out);
            std::hint::black_box(&out);
            reader.quiescent();
        }
    };
    go();
    let start = thread_seconds();
    go();
    addrs.len() as f64 / (thread_seconds() - start) / 1e6
}

/// Readers on all cores next to a writer, for each strategy.
fn disturbed<T: Table>(
    args: &Settings,
    data: &Data<T>,
    loads: &[Workload<T>],
) -> Result<Vec<Measured>, Error> {
    let length = Duration::from_millis(args.run_ms.max(1));
    let mut results = Vec::new();
    let of = |name: &str| loads.iter().find(|load| load.name == name).expect("one of the three");
    // A table at a time, so that no strategy's copies push another's out of the caches.
    let runs = [
        (Strategy::Rcu, "pfx", ""),
        (Strategy::Rcu, "zipf", ".zipf"),
        (Strategy::PerCore, "pfx", ".percore"),
        (Strategy::Lock, "pfx", ".lock"),
    ];
    for (strategy, load, suffix) in runs {
        progress(&format!("{}: readers beside a writer, {strategy:?}, {load}", T::NAME));
        let mut together = Together::<T>::new(strategy, data)?;
        let (mut share, mut worst, mut alone, mut pace) = (vec![], vec![], vec![], vec![]);
        let before = together.contention();
        for _ in 0..args.runs.max(1) {
            let idle = together.run(&of(load).addrs, &data.updates, None, length)?;
            let busy = together.run(&of(load).addrs, &data.updates, Some(args.pace), length)?;
            let ratios = busy.mlps.iter().zip(&idle.mlps).map(|(busy, idle)| busy / idle);
            worst.push(ratios.fold(f64::INFINITY, f64::min));
            share.push(busy.mlps.iter().sum::<f64>() / idle.mlps.iter().sum::<f64>());
            alone.push(idle.mlps.iter().sum());
            pace.push(busy.updates_per_s);
        }
        let after = together.contention();
        let name = |what: &str| format!("{}.{what}{suffix}", T::NAME);
        results.push(Measured::new(name("reader_share"), "", share));
        results.push(Measured::new(name("reader_share_least"), "", worst));
        results.push(Measured::new(name("reader_mlps"), "Mlookups/s", alone));
        results.push(Measured::new(name("paced_updates_per_s"), "updates/s", pace));
        if strategy != Strategy::Rcu {
            let taken = (after.acquisitions - before.acquisitions).max(1) as f64;
            let contended = (after.contended - before.contended) as f64;
            let wait = (after.wait_ns - before.wait_ns) as f64;
            results.push(Measured::new(name("lock_acquisitions"), "", vec![taken]));
            results.push(Measured::new(name("lock_contended"), "", vec![contended]));
            results.push(Measured::new(name("lock_wait_ms"), "ms", vec![wait / 1e6]));
        }
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All names appear, with figures that can be: the command on small generated tables.
    #[test]
    fn small_tables_give_every_figure() {
        let args = Settings {
            v4: false,
            v6: false,
            routes: None,
            updates: None,
            pace: 1000,
            runs: 1,
            run_ms: 5,
            quiet: true,
        };
        fn check<T: Table>(args: &Settings) {
            let data = Data::<T>::generated(2000, 500);
            assert!(data.source.contains("generated"), "{}", data.source);
            let loads = workloads(&data.routes);
            let mut results = still(args, &data, &loads).expect("a table");
            results.extend(disturbed(args, &data, &loads).expect("readers and a writer"));
            for name in [
                "mlps.rand",
                "mlps.pfx",
                "mlps.zipf",
                "memory_mb",
                "build_ms",
                "updates_per_s",
                "reader_share",
                "reader_share.lock",
            ] {
                let name = format!("{}.{name}", T::NAME);
                let found = results.iter().find(|result| result.name == name).expect(&name);
                assert!(found.median().is_finite() && found.median() > 0.0, "{name}: {}", found.median());
            }
            let taken = results.iter().find(|result| result.name.ends_with("lock_acquisitions.percore"));
            assert!(taken.expect("counted").median() > 1.0);
        }
        check::<Fib4Writer>(&args);
        check::<Fib6Writer>(&args);
    }
}
