// SPDX-License-Identifier: MIT OR Apache-2.0
//! All trials of a station, shown as they end and kept for the report.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;
use tester::station::Station;

use super::agent::Reading;
use super::record::{Curve, TrialRow};
use report::{Axis, Scale};

/// The trials of one frame size.
#[derive(Clone, Default)]
pub(super) struct Log {
    rows: Arc<Mutex<Vec<TrialRow>>>,
    phase: Arc<Mutex<String>>,
    /// Trials whose frames the tester did not all send say nothing.
    asks_for_all: Arc<AtomicBool>,
    /// What machines did in the trial that has just ended.
    readings: Arc<Mutex<Vec<Reading>>>,
    /// The same of all trials.
    read: Arc<Mutex<Vec<Reading>>>,
}

impl Log {
    /// Keeps every trial of this station from now on, with frames of `size` bytes; with `show` each is reported on standard error.
    pub(super) fn of(station: &mut Station, size: usize, show: bool) -> Log {
        let log = Log::default();
        let Log { rows, phase, asks_for_all, readings, read } = log.clone();
        station.watch(Box::new(move |trial, seen, worth| {
            let mut row = TrialRow::new(size, &held(&phase), trial, seen, worth);
            if asks_for_all.load(Ordering::Relaxed) {
                row.ask_for_all();
            }
            let mut readings = std::mem::take(&mut *held(&readings));
            row.tell_machines(&readings);
            held(&read).append(&mut readings);
            if show {
                let (mpps, seconds) = (row.rate / 1e6, row.seconds);
                let outcome = match &row.invalid {
                    None => format!("lost {}, unsent {}{}", row.lost, row.unsent, lateness(&row)),
                    Some(why) => format!("invalid: {why}"),
                };
                errln!("  {size} bytes, {mpps:.4} Mpps for {seconds} s: {outcome}");
            }
            held(&rows).push(row);
        }));
        log
    }

    /// What is being measured from now on.
    pub(super) fn begin(&self, phase: &str) {
        phase.clone_into(&mut held(&self.phase));
    }

    /// From now on, a trial says nothing unless the tester sends all that is due: its rate is one that was asked for, not one that a
    /// search tries.
    pub(super) fn ask_for_all(&self) {
        self.asks_for_all.store(true, Ordering::Relaxed);
    }

    /// What machines did in a trial that ends now.
    pub(super) fn read(&self, readings: Vec<Reading>) {
        *held(&self.readings) = readings;
    }

    /// What machines did in all trials.
    pub(super) fn readings(&self) -> Vec<Reading> {
        std::mem::take(&mut *held(&self.read))
    }

    /// All trials, in order.
    pub(super) fn take(&self) -> Vec<TrialRow> {
        std::mem::take(&mut *held(&self.rows))
    }
}

/// How late the tester's frames left, for people; nothing if none did.
fn lateness(row: &TrialRow) -> String {
    let [p99, most] = ["p99", "max"].map(|name| row.lateness(name));
    match (p99, most) {
        (Some(p99), _) => format!(", 99 % left within {p99:.1} us of when they were due"),
        (None, Some(most)) => format!(", the latest left {most:.1} us late"),
        (None, None) => String::new(),
    }
}

/// What a lock holds; a thread that panicked with it has said why.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The latencies of one more trial.
pub(super) fn gather(all: &mut Option<Histogram<u64>>, one: Histogram<u64>) {
    match all {
        Some(all) => {
            // Of one range and precision, they can be added.
            let _ = all.add(&one);
        }
        None => *all = Some(one),
    }
}

/// Latency by quantile, as far as there are frames enough.
pub(super) fn latency_curve(name: &str, size: usize, latency: &Histogram<u64>) -> Curve {
    let shares = [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998];
    let finer = (3..=6).flat_map(|nines| [1.0, 0.5, 0.2].map(|part| 1.0 - part * 10_f64.powi(-nines)));
    let shares = shares.into_iter().chain(finer).filter(|q| latency.len() as f64 * (1.0 - q) >= 1.0);
    Curve {
        name: name.to_owned(),
        size: Some(size),
        x: Axis::new("share of the frames", Scale::Quantile),
        y: Axis::new("us", Scale::Log),
        points: shares.map(|q| (q, latency.value_at_quantile(q) as f64 / 1e3)).collect(),
    }
}
