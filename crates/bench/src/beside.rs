// SPDX-License-Identifier: MIT OR Apache-2.0
//! Legitimate traffic next to a flood: how much of it a router on one worker still delivers. What `bench flood` and `bench nat` share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::Router;
use packet::port::Provider;

use super::fib::thread_seconds;
use crate::Error;
use report::measure::Measured;

/// Packets that wait at an interface.
pub(super) const RING: u64 = 1024;

/// The longest time until a run has had its share of the processor.
const PATIENCE: Duration = Duration::from_secs(30);

/// The devices that both kinds of traffic come by.
pub(super) trait Source {
    /// Offers so many packets a second of each kind from now on; infinite for as many as are taken.
    fn offer(&self, good: f64, other: f64);

    /// Good packets offered and delivered, and packets taken of the others.
    fn counts(&self) -> [u64; 3];
}

/// What is measured, and what it is called.
pub(super) struct Course<'a> {
    /// The bench, and the case.
    pub(super) names: [&'a str; 2],
    /// Values: what of the good traffic is left, and the rate of the other.
    pub(super) values: [&'a str; 2],
    /// How much there is of the other traffic for each good packet, by name.
    pub(super) factors: &'a [(&'a str, f64)],
    /// What is said when no good packet arrives.
    pub(super) nothing: &'a str,
    /// Good traffic as a share of what the router forwards.
    pub(super) load: f64,
    pub(super) runs: usize,
    pub(super) run_ms: u64,
}

/// What one run showed: of the good packets offered, how many were delivered; packets delivered, and taken of the others, a second.
struct Run {
    share: f64,
    good_rate: f64,
    other_rate: f64,
}

impl Course<'_> {
    /// Measures the cost of one packet of the other traffic, in good packets, and the share of good traffic that remains next to it.
    ///
    /// # Errors
    /// No good packet arrives.
    pub(super) fn measure(&self, router: &mut Router, source: &dyn Source) -> Result<Vec<Measured>, Error> {
        let mut run = |good: f64, other: f64| self.run(router, source, (good, other));
        run(f64::INFINITY, 0.0); // neighbours and flows become known
        run(0.0, f64::INFINITY); // and tables are full of what the others leave
        let (mut costs, mut capacity) = (Vec::new(), Vec::new());
        for _ in 0..self.runs.max(1) {
            capacity.push(run(f64::INFINITY, 0.0).good_rate);
            costs.push(capacity[capacity.len() - 1] / run(0.0, f64::INFINITY).other_rate.max(1.0));
        }
        let capacity = Measured::new(String::new(), "", capacity).median();
        let [bench, case] = self.names;
        let mut results = vec![Measured::new(format!("{bench}.cost.{case}"), "", costs)];
        for (factor_name, factor) in self.factors {
            let rate = capacity * self.load;
            let (mut shares, mut others) = (Vec::new(), Vec::new());
            for _ in 0..self.runs.max(1) {
                let alone = run(rate, 0.0);
                let beside = run(rate, rate * factor);
                if alone.share == 0.0 {
                    return Err(Error::nothing(self.nothing));
                }
                shares.push(beside.share / alone.share);
                others.push(beside.other_rate / 1e6);
            }
            for (value, unit, measured) in [(self.values[0], "", shares), (self.values[1], "Mpps", others)] {
                results.push(Measured::new(format!("{bench}.{value}.{case}.{factor_name}"), unit, measured));
            }
        }
        Ok(results)
    }

    fn run(&self, router: &mut Router, source: &dyn Source, (good, other): (f64, f64)) -> Run {
        source.offer(good, other);
        let before = source.counts();
        let cpu = |router: &Router| router.cpu_ns().iter().sum::<u64>();
        let start = cpu(router);
        // On a busy machine a run may be over before it had much of the processor, or any of it.
        let begun = Instant::now();
        while cpu(router) - start < self.run_ms * 500_000 && begun.elapsed() < PATIENCE {
            router.resume();
            router.stop_after(Duration::from_millis(self.run_ms.max(1)));
            router.run();
        }
        let seconds = (cpu(router) - start).max(1) as f64 / 1e9;
        let after = source.counts();
        let [offered, delivered, taken] = std::array::from_fn(|at| (after[at] - before[at]) as f64);
        Run {
            share: delivered / offered.max(1.0),
            good_rate: delivered / seconds,
            other_rate: taken / seconds,
        }
    }
}

/// A router of this configuration on one worker.
///
/// # Errors
/// The configuration has errors.
pub(super) fn build(text: &str, provider: Arc<dyn Provider>) -> Result<Router, Error> {
    let parsed = lang::load_str("bench", text, &elements::options());
    let graph = parsed.graph.ok_or_else(|| Error::configuration(parsed.diagnostics))?;
    Router::build(&graph, &conf::registry(false), harness::options(provider, (1, vec![0])))
        .map_err(Error::configuration)
}

/// Packets that come at a rate by the clock of the thread's processor time, and wait in a ring.
#[derive(Default)]
pub(super) struct Pace {
    /// Processor time when it was asked last.
    last: f64,
    /// Packets that wait.
    due: f64,
}

impl Pace {
    /// Has `receive` take as many packets as have come. Returns how many those were, and how many more were lost.
    pub(super) fn take(
        &mut self,
        rate: f64,
        max: usize,
        receive: impl FnOnce(usize) -> usize,
    ) -> (usize, u64) {
        if rate == 0.0 || rate.is_infinite() {
            *self = Pace::default();
            return (if rate == 0.0 { 0 } else { receive(max) }, 0);
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
        let taken = if waiting == 0 { 0 } else { receive(max.min(waiting)) };
        self.due -= taken as f64;
        (taken, lost)
    }
}
