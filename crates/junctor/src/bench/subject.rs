// SPDX-License-Identifier: MIT OR Apache-2.0
//! A configuration on in-memory devices with traffic, to be built for any number of workers and measured.

use std::collections::HashMap;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use engine::clock::TimeSource;
use engine::{Options, Report, Router};
use lang::{Diagnostic, Graph};

use super::traffic::{Bench, Pattern};

/// Why a configuration cannot be measured.
pub(crate) enum Failed {
    /// It is wrong.
    Configuration(Vec<Diagnostic>),
    /// No packet came out of it.
    Silent,
    /// What it says of its traffic is wrong.
    Traffic(String),
}

/// A configuration with its traffic.
pub(crate) struct Subject<'a> {
    graph: &'a Graph,
    patterns: HashMap<String, Pattern>,
    /// Queues of each device, if not one for each worker.
    queues: Option<usize>,
    runs: usize,
    run: Duration,
}

/// What the runs of a router showed.
pub(crate) struct Measurement {
    /// Packets that left it, those of the warm-up too.
    pub(crate) packets: u64,
    /// What its elements did meanwhile.
    pub(crate) report: Report,
    /// Processor time of all workers for each packet, and millions of packets for each second of the busiest worker's
    /// processor time, by run: who else uses the machine does not count.
    ns_and_mpps: Vec<(f64, f64)>,
}

impl Measurement {
    fn median(&self, pick: impl Fn(&(f64, f64)) -> f64) -> f64 {
        let mut values: Vec<f64> = self.ns_and_mpps.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    }

    /// Processor time for each packet, the median of the runs.
    pub(crate) fn ns_per_packet(&self) -> f64 {
        self.median(|run| run.0)
    }

    /// The median rate.
    pub(crate) fn mpps(&self) -> f64 {
        self.median(|run| run.1)
    }
}

impl<'a> Subject<'a> {
    /// A configuration, whose text says what its devices receive.
    pub(crate) fn new(graph: &'a Graph, text: &str) -> Result<Subject<'a>, String> {
        let patterns = Pattern::gather(text)?;
        Ok(Subject { graph, patterns, queues: None, runs: 5, run: Duration::from_millis(200) })
    }

    /// So many runs of so many milliseconds instead.
    pub(crate) fn with_runs(self, runs: usize, run_ms: u64) -> Subject<'a> {
        Subject { runs: runs.max(1), run: Duration::from_millis(run_ms.max(1)), ..self }
    }

    /// So many queues for each device instead of one for each worker.
    pub(crate) fn with_queues(self, queues: usize) -> Subject<'a> {
        Subject { queues: Some(queues.max(1)), ..self }
    }

    /// A router on this number of workers, not started.
    pub(crate) fn build(&self, workers: usize) -> Result<Router, Failed> {
        self.on_cores(workers, (0..workers).collect()).map(|(router, _)| router)
    }

    fn on_cores(&self, workers: usize, cores: Vec<usize>) -> Result<(Router, Arc<Bench>), Failed> {
        let bench = Arc::new(Bench::new(self.patterns.clone(), self.queues.unwrap_or(workers)));
        let options = Options {
            provider: bench.clone(),
            workers,
            cores,
            burst: engine::DEFAULT_BURST,
            time: TimeSource::Real,
            seed: 1,
            // Which driver serves a device is no news here.
            print: Some(Box::new(|_| {})),
        };
        let router = Router::build(self.graph, &elements::registry(), options);
        router.map(|router| (router, bench)).map_err(Failed::Configuration)
    }

    /// Runs it on this number of workers.
    pub(crate) fn measure(&self, workers: usize) -> Result<Measurement, Failed> {
        let (mut router, bench) = self.on_cores(workers, (0..workers).collect())?;
        self.run(&mut router, &bench, || {})
    }

    /// Runs two copies of it side by side, on one worker each, and returns the processor time for each packet of both.
    pub(crate) fn measure_together(&self) -> Result<f64, Failed> {
        let mut copies = [self.on_cores(1, vec![0])?, self.on_cores(1, vec![1])?];
        let start = Barrier::new(2);
        let measured: Vec<Result<Measurement, Failed>> = std::thread::scope(|scope| {
            let threads: Vec<_> = copies
                .iter_mut()
                .map(|(router, bench)| {
                    let start = &start;
                    scope.spawn(move || {
                        self.run(router, bench, || {
                            start.wait();
                        })
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap_or(Err(Failed::Silent))).collect()
        });
        let mut sum = 0.0;
        for copy in measured {
            sum += copy?.ns_per_packet() / 2.0;
        }
        Ok(sum)
    }

    fn run(&self, router: &mut Router, bench: &Bench, before_each: impl Fn()) -> Result<Measurement, Failed> {
        let runs = runs(router, bench, self.runs, self.run, before_each);
        let ns_and_mpps: Vec<(f64, f64)> = runs
            .iter()
            .map(|run| {
                let packets = run.packets as f64;
                let busiest = run.worker_ns.iter().copied().fold(1.0, f64::max);
                (run.cpu_ns() / packets, packets / busiest * 1e3)
            })
            .collect();
        let silent = ns_and_mpps.iter().any(|(ns, _)| !ns.is_finite());
        let measurement = Measurement { packets: bench.sent() as u64, report: router.report(), ns_and_mpps };
        if silent { Err(Failed::Silent) } else { Ok(measurement) }
    }
}

/// One measured run of a router.
pub(super) struct Run {
    /// Packets sent by its devices.
    pub(super) packets: usize,
    /// Processor time of each worker.
    worker_ns: Vec<f64>,
    /// Elapsed time.
    pub(super) wall_ns: f64,
}

impl Run {
    /// Processor time of all workers.
    pub(super) fn cpu_ns(&self) -> f64 {
        self.worker_ns.iter().sum()
    }
}

/// Runs a router once to warm up, in which neighbours are resolved, and then `count` times (once at least) for `length` each.
pub(super) fn runs(
    router: &mut Router,
    bench: &Bench,
    count: usize,
    length: Duration,
    before_each: impl Fn(),
) -> Vec<Run> {
    let mut runs = Vec::new();
    for run in 0..=count.max(1) {
        before_each();
        let (sent, before) = (bench.sent(), router.cpu_ns());
        let started = Instant::now();
        router.resume();
        router.stop_after(length);
        router.run();
        if run == 0 {
            bench.settle();
            continue;
        }
        let wall_ns = started.elapsed().as_nanos() as f64;
        let used = router.cpu_ns().into_iter().zip(before).map(|(now, then)| (now - then) as f64);
        runs.push(Run { packets: bench.sent() - sent, worker_ns: used.collect(), wall_ns });
    }
    runs
}
