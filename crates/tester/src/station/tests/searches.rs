// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same search over and over, on a device whose rate is known and on time that nobody takes away.

use super::super::*;
use super::faulty::*;
use crate::search::mlr::Goal;
use crate::search::{Summary, mlr, throughput};

/// What the device forwards a second, on average.
const CAPACITY: f64 = 100_000.0;
/// Frames that it holds.
const BUFFER: f64 = 8.0;
/// A trial has 2000 frames of that rate: what fits the buffer passes for 0.4 % more.
const TRIAL: Duration = Duration::from_millis(20);
const RATE_MAX: f64 = 4.0 * CAPACITY;

/// Serves each frame in its time, give or take a fiftieth.
fn uneven(seed: u64) -> impl FnMut(In) -> Out + Send {
    let (mut random, mut free_ns) = (fastrand::Rng::with_seed(seed), 0.0f64);
    move |frame: In| {
        let (now_ns, service_ns) = (frame.now_ns as f64, 1e9 / CAPACITY);
        if (free_ns - now_ns) / service_ns >= BUFFER {
            return Vec::new();
        }
        free_ns = free_ns.max(now_ns) + service_ns * (0.98 + 0.04 * random.f64());
        vec![(1 - frame.port, free_ns as u64, frame.packet)]
    }
}

/// Ten searches lie within 0.5 % of each other, and find what is there.
fn agree(search: impl Fn(&mut Station) -> f64) {
    let rates: Vec<f64> = (0..10).map(|seed| search(&mut station(uneven(seed)))).collect();
    let Summary { min, max, mean, .. } = Summary::of(&rates).expect("ten");
    assert!((max - min) / max <= 0.005, "{rates:?}");
    assert!((mean / CAPACITY - 1.0).abs() <= 0.01, "{rates:?}");
}

#[test]
fn ten_throughput_searches_agree() {
    let parameters = throughput::Parameters {
        resolution: 0.001,
        search_trial: TRIAL,
        final_trial: TRIAL * 2,
        ..throughput::Parameters::quick(RATE_MAX)
    };
    agree(|station| {
        let report = throughput::run(station, &parameters).expect("a report");
        report.throughput().expect("the device's limit")
    });
}

#[test]
fn ten_multiple_loss_ratio_searches_agree() {
    let goal = Goal {
        width: 0.001,
        initial_trial: TRIAL,
        final_trial: TRIAL,
        duration_sum: TRIAL * 3,
        ..Goal::ndr()
    };
    let parameters = mlr::Parameters { goals: vec![goal], ..mlr::Parameters::quick(RATE_MAX) };
    agree(|station| {
        let report = mlr::run(station, &parameters).expect("a report");
        report.results[0].conditional_throughput().expect("the device's limit")
    });
}
