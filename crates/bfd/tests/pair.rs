// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two sessions over a lossy, delayed channel in virtual time.

#[path = "common/channel.rs"]
mod channel;
mod common;

use std::time::Duration;

use channel::Pair;
use common::{config, every, ms};
use junctor_bfd::{Config, Diagnostic, Flags, Intervals, State};
use proptest::prelude::*;

fn pair(interval_ms: u32, mult: u8, seed: u64) -> Pair {
    Pair::new(config(1, every(interval_ms, mult)), config(2, every(interval_ms, mult)), seed)
}

/// Up and settled: no poll sequence is in progress.
fn up(mut pair: Pair) -> Pair {
    pair.run(ms(5000));
    assert!(pair.both_up());
    pair.log.clear();
    pair
}

/// Intervals between packets that are no answers to polls.
fn gaps(pair: &Pair, side: usize) -> Vec<Duration> {
    let sent = pair.sent(side).into_iter().filter(|(_, p)| !p.flags.contains(Flags::FINAL));
    let times: Vec<Duration> = sent.map(|(at, _)| at).collect();
    assert!(times.len() > 2, "side {side} sent next to nothing");
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

fn intervals() -> impl Strategy<Value = Intervals> {
    (5u32..300, 5u32..300, 1u8..6).prop_map(|(tx_ms, rx_ms, detect_mult)| Intervals {
        desired_min_tx_us: tx_ms * 1000,
        required_min_rx_us: rx_ms * 1000,
        required_min_echo_rx_us: 0,
        detect_mult,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn both_are_up_after_the_channel_heals(
        a in intervals(), b in intervals(), passive: bool, seed: u64, loss in 0u64..=100, back in 0u64..=100, bad_ms in 0u64..8000,
    ) {
        let mut pair = Pair::new(config(1, a), Config { passive, ..config(2, b) }, seed);
        (pair.loss, pair.delay) = ([loss, back], (ms(0), ms(50)));
        pair.run(ms(bad_ms));
        (pair.loss, pair.delay) = ([0, 0], (ms(2), ms(2)));
        // A side that hears its neighbour again may wait for the detection time first: up to 5 slow intervals.
        pair.run(ms(15_000));
        prop_assert!(pair.both_up());
        pair.log.clear();
        pair.run(ms(3000));
        prop_assert!(pair.both_up() && pair.changes().is_empty(), "{:?}", pair.changes());
        for side in 0..2 {
            prop_assert!(pair.sent(side).iter().all(|(_, p)| p.flags == Flags::default()));
        }
    }

    #[test]
    fn a_silent_path_is_noticed_within_the_detection_time(a in intervals(), b in intervals(), seed: u64, up_us in 0u64..500_000) {
        let mut pair = up(Pair::new(config(1, a), config(2, b), seed));
        pair.run(Duration::from_micros(up_us));
        let times = [0, 1].map(|side| pair.sides[side].detection_time());
        let interval = |from: Intervals, to: Intervals| from.desired_min_tx_us.max(to.required_min_rx_us) * u32::from(from.detect_mult);
        prop_assert_eq!(times.map(|t| t.as_micros() as u32), [interval(b, a), interval(a, b)]);
        pair.loss = [100, 100];
        pair.run(ms(2));
        let last_rx = pair.last_rx;
        pair.log.clear();
        pair.run(ms(10_000));
        let changes = pair.changes();
        prop_assert_eq!(changes.len(), 2);
        for (at, side, change) in changes {
            prop_assert!(change.is_loss());
            prop_assert_eq!(change.diagnostic, Diagnostic::DETECTION_TIME_EXPIRED);
            prop_assert_eq!(at, last_rx[side] + times[side]);
        }
    }

    #[test]
    fn intervals_change_while_up(changes in proptest::collection::vec((intervals(), 0usize..2, 0u64..400), 1..12), seed: u64) {
        let mut pair = up(pair(50, 3, seed));
        for (intervals, side, wait_ms) in changes {
            pair.sides[side].configure(intervals).unwrap();
            pair.run(ms(wait_ms));
        }
        pair.run(ms(3000));
        prop_assert!(pair.changes().is_empty(), "{:?}", pair.changes());
        let [a, b] = &pair.sides;
        for (from, to) in [(a, b), (b, a)] {
            let (sender, receiver) = (from.config().intervals, to.config().intervals);
            let interval = sender.desired_min_tx_us.max(receiver.required_min_rx_us);
            prop_assert_eq!(from.tx_interval().as_micros(), u128::from(interval));
            prop_assert_eq!(to.detection_time(), from.tx_interval() * sender.detect_mult.into());
        }
    }

    #[test]
    fn jitter_shortens_by_a_quarter_at_most(mult in 1u8..4, seed: u64) {
        let mut pair = up(pair(100, mult, seed));
        pair.run(ms(3000));
        let most = if mult == 1 { 90 } else { 100 };
        for gap in gaps(&pair, 0) {
            prop_assert!(gap >= ms(75) && gap <= ms(most), "{gap:?}");
        }
    }
}

#[test]
fn one_direction_alone_brings_nobody_up() {
    let mut pair = pair(10, 3, 1);
    pair.loss = [0, 100];
    pair.run(ms(20_000));
    assert_eq!(pair.sides.each_ref().map(|s| s.state()), [State::Down, State::Init]);
    assert!(pair.changes().iter().all(|(_, _, change)| change.to != State::Up));
    // A session that is not up sends slowly, independent of its settings.
    assert!(gaps(&pair, 0).iter().all(|gap| *gap >= ms(750) && *gap <= ms(1000)));
}

#[test]
fn three_times_ten_milliseconds() {
    let mut pair = up(pair(10, 3, 7));
    pair.run(ms(1000));
    assert!((100..=134).contains(&pair.sent(0).len()), "{}", pair.sent(0).len());
    pair.loss = [0, 100];
    let cut = pair.now;
    pair.log.clear();
    pair.run(ms(100));
    let changes = pair.changes();
    // One side notices, and informs the other, which still hears it.
    assert_eq!(changes[0].1, 0);
    assert_eq!(changes[0].2.diagnostic, Diagnostic::DETECTION_TIME_EXPIRED);
    assert!(changes[0].0 <= cut + ms(31), "{:?}", changes[0].0 - cut);
    assert_eq!(changes[1].1, 1);
    assert_eq!(changes[1].2.diagnostic, Diagnostic::NEIGHBOR_SIGNALED_DOWN);
    assert_eq!(changes[1].0, changes[0].0 + ms(1));
}

#[test]
fn slower_sending_waits_for_the_neighbour() {
    let mut pair = up(pair(10, 3, 3));
    // The answers of the neighbour do not come: nothing is confirmed, so the old pace goes on.
    pair.sides[0].configure(every(100, 3)).unwrap();
    pair.loss = [100, 0];
    pair.run(ms(25));
    assert!(gaps(&pair, 0).iter().all(|gap| *gap <= ms(10)));
    let polls: Vec<bool> = pair.sent(0).iter().map(|(_, p)| p.flags.contains(Flags::POLL)).collect();
    assert!(polls.len() >= 3 && polls.iter().all(|poll| *poll));
    pair.loss = [0, 0];
    pair.run(ms(50));
    pair.log.clear();
    pair.run(ms(2000));
    assert!(pair.changes().is_empty());
    assert!(gaps(&pair, 0).iter().all(|gap| *gap >= ms(75) && *gap <= ms(100)));
}

#[test]
fn admin_down_is_reported_and_taken_back() {
    let mut pair = up(pair(10, 3, 5));
    let change = pair.sides[0].set_admin_down(true).unwrap();
    assert_eq!((change.to, change.is_loss()), (State::AdminDown, false));
    pair.run(ms(10_000));
    assert_eq!(pair.sides.each_ref().map(|s| s.state()), [State::AdminDown, State::Down]);
    assert_eq!(pair.sides[1].remote_state(), State::AdminDown);
    assert_eq!(pair.sides[1].diagnostic(), Diagnostic::NEIGHBOR_SIGNALED_DOWN);
    assert_eq!(pair.changes().len(), 1);
    assert_eq!(pair.sides[0].set_admin_down(false).unwrap().to, State::Down);
    pair.run(ms(5000));
    assert!(pair.both_up());
}

#[test]
fn a_failure_of_the_path_is_reported() {
    let mut pair = up(pair(10, 3, 5));
    assert!(pair.sides[0].fail(Diagnostic::PATH_DOWN).unwrap().is_loss());
    assert_eq!(pair.sides[0].fail(Diagnostic::PATH_DOWN), None);
    pair.run(ms(2));
    assert_eq!(pair.sides[1].state(), State::Down);
    assert_eq!(pair.sent(0)[0].1.diagnostic, Diagnostic::PATH_DOWN);
    pair.run(ms(5000));
    assert!(pair.both_up());
    assert_eq!(pair.sides[0].diagnostic(), Diagnostic::NONE);
}
