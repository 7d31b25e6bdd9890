// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configurations on one to four workers with real threads: counters sum up, no packet is lost unnamed, and all frames
//! return. Nothing here depends on how fast or in which order workers run.

use engine::clock::TimeSource;
use junctor_testbed::account::Accounted;

const SOURCES: u64 = 6;
const LIMIT: u64 = 1000;
const ALL: u64 = SOURCES * LIMIT;

/// Sources on all workers into `in`; the router ends when all of them have sent what they should.
fn sources() -> String {
    let mut text = String::new();
    for i in 0..SOURCES {
        text += &format!("s{i} :: InfiniteSource(LENGTH {}, LIMIT {LIMIT}, STOP true) -> in;\n", 60 + i);
    }
    text + &format!("DriverManager(wait_stop {SOURCES}, stop);\n")
}

/// Runs a configuration behind `in` and checks its handlers' values: sums are exact where packets cannot be lost.
fn check(name: &str, behind: &str, values: &[(&str, u64)]) {
    for workers in 1..=4 {
        for burst in [1, 32] {
            let text = format!("in :: Null; {}in -> {behind}", sources());
            let what = format!("{name}, {workers} workers, burst {burst}");
            let before = packet::memory().usage();
            let mut router = Accounted::build(&text, burst, workers, TimeSource::Real)
                .unwrap_or_else(|why| panic!("{what}:\n{why}"));
            router.run_to_end();
            router.check().unwrap_or_else(|why| panic!("{what}:\n{why}"));
            for (handler, want) in values {
                assert_eq!(router.read(handler).trim(), want.to_string(), "{what}: {handler}");
            }
            drop(router);
            assert_eq!(packet::memory().usage(), before, "{what}: frames are missing");
        }
    }
}

// One test, for packet memory is common to the process.
#[test]
fn totals_hold_on_any_number_of_workers() {
    check("per core", "c :: Counter -> d :: Discard;", &[("c.count", ALL), ("d.count", ALL)]);
    check(
        "split and joined",
        "c0 :: Counter -> t :: Tee(3); t[0] -> c1 :: Counter -> d :: Discard;
         t[1] -> Paint(1) -> d; t[2] -> Strip(14) -> c2 :: Counter -> d;",
        &[("c0.count", ALL), ("c1.count", ALL), ("c2.count", ALL), ("d.count", 3 * ALL)],
    );
    check(
        "changed copies",
        "t :: Tee; t[0] -> StoreData(0, abc) -> d :: Discard; t[1] -> StoreData(2, x) -> d;",
        &[("d.count", 2 * ALL)],
    );
    check("queue", "c :: Counter -> Queue(64) -> Unqueue -> Discard;", &[("c.count", ALL)]);
    check(
        "queue after queue",
        "Queue(50) -> Unqueue -> Counter -> Queue(20) -> Unqueue -> Queue(10) -> Discard;",
        &[],
    );
    check(
        "queues side by side",
        "r :: RoundRobinSwitch; s :: RoundRobinSched -> Unqueue -> Discard;
         r[0] -> Queue(100) -> [0]s; r[1] -> Queue(100) -> [1]s;",
        &[],
    );
    check("serial queue", "c :: Counter -> FrontDropQueue(30) -> Unqueue -> Discard;", &[("c.count", ALL)]);
    check("serial meter", "m :: Meter(1000); m[0] -> d :: Discard; m[1] -> d;", &[("d.count", ALL)]);
    check("serial shaper", "Queue(40) -> Shaper(100000) -> Unqueue -> Discard;", &[]);
    check(
        "shared table",
        "SetIPAddress(10.0.0.9) -> rt :: StaticIPLookup(10.0.0.0/24 0, 0.0.0.0/0 1);
         rt[0] -> d :: Discard; rt[1] -> Discard;",
        &[("d.count", ALL)],
    );
}
