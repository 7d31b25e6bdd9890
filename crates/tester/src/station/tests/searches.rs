// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same search over and over, on a device whose rate is known and on time that nobody takes away; and what becomes of a trial when
//! somebody does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::super::*;
use super::MILLISECOND;
use super::faulty::*;
use crate::search::mlr::Goal;
use crate::search::{Summary, mlr, throughput};
use crate::trial::Measurer as _;

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

/// What a trial comes to when the tester has no turn for `gap_ns` while frame 3950 of all that it sends is on its way, and how many
/// trials it took. 4000 frames make a trial.
fn interrupted(gap_ns: u64) -> (Outcome, u64) {
    let clock: Arc<OnceLock<Arc<AtomicU64>>> = Arc::default();
    let later = clock.clone();
    let stops = move |frame: In| {
        if frame.number == 3950 {
            later.get().expect("a clock").fetch_add(gap_ns, Ordering::Relaxed);
        }
        frame.after(0)
    };
    let faulty = device(2, stops, Link::Up);
    clock.set(faulty.clock.clone()).expect("once");
    let plan = Plan { streams: vec![stream(1)], stragglers: MILLISECOND, ..Plan::default() };
    let mut station = station_at(&faulty, (0..2).map(|i| port(&faulty, i)).collect(), &plan);
    let outcome = station.measure(Trial::new(40_000.0, MILLISECOND * 100)).expect("a trial");
    (outcome, station.trials)
}

#[test]
fn a_trial_in_which_the_tester_had_no_turn_is_repeated() {
    let (whole, trials) = interrupted(0);
    assert_eq!((whole.sent, whole.unsent(), trials), (4000, 0, 1));
    let (repeated, trials) = interrupted(20_000_000);
    assert_eq!((repeated.sent, repeated.unsent(), trials), (4000, 0, 2));
}

/// The tester has no turn for `gap_ns` when it has sent 1000 frames of the first trial, 40 a millisecond; the device holds 100 and forwards
/// 50 a millisecond.
fn lumpy(gap_ns: u64) -> Station {
    let clock: Arc<OnceLock<Arc<AtomicU64>>> = Arc::default();
    let later = clock.clone();
    let mut serve = server(50_000.0, 100);
    let stops = move |frame: In| {
        if frame.number == 1000 {
            later.get().expect("a clock").fetch_add(gap_ns, Ordering::Relaxed);
        }
        serve(frame)
    };
    let faulty = device(2, stops, Link::Up);
    clock.set(faulty.clock.clone()).expect("once");
    let plan = Plan { streams: vec![stream(1)], stragglers: MILLISECOND * 5, ..Plan::default() };
    station_at(&faulty, (0..2).map(|i| port(&faulty, i)).collect(), &plan)
}

#[test]
fn what_a_device_loses_of_a_lump_is_the_tester_s_and_the_trial_is_repeated() {
    let trial = Trial::new(40_000.0, MILLISECOND * 100);
    let once = |gap_ns| lumpy(gap_ns).run(trial).expect("a trial").outcome;
    let even = once(0);
    assert_eq!((even.sent, even.lost(), even.late, even.is_of_device()), (4000, 0, 0, true));
    // 800 frames at once, of which the device can take 100 and a few.
    let lump = once(20_000_000);
    assert!(lump.tester_kept_up() && !lump.is_of_device(), "{lump:?}");
    assert!((500..800).contains(&lump.lost()) && (lump.lost()..=800).contains(&lump.late), "{lump:?}");
    // What fits its ports does no harm, and is none.
    let short = once(2_000_000);
    assert_eq!((short.tester_kept_up(), short.lost(), short.late), (true, 0, 0));
    let mut station = lumpy(20_000_000);
    let outcome = station.measure(trial).expect("a trial");
    assert_eq!((outcome.lost(), outcome.late, station.trials), (0, 0, 2));
}

/// Ten searches lie within 0.5 % of each other, and find what is there.
fn agree(search: impl Fn(&mut Station) -> f64) {
    let one = |seed| {
        let mut station = station(uneven(seed));
        station.clock.look_ns = 2000;
        search(&mut station)
    };
    let rates: Vec<f64> = (0..10).map(one).collect();
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
