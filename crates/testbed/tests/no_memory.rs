// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that copy packets while packet memory is exhausted: the copies that are missing are counted, the originals
//! go on.

use std::time::Duration;

use junctor_testbed::account::Accounted;
use packet::{Config, HEADROOM, Memory, Packet};

const FRAME: [u8; 60] = {
    let mut frame = [0; 60];
    (frame[0], frame[5], frame[6], frame[11]) = (2, 2, 2, 1);
    frame
};

/// Takes all ordinary frames of packet memory.
fn exhaust() -> Vec<Packet> {
    std::iter::from_fn(|| Packet::alloc(HEADROOM, FRAME.len())).collect()
}

// One test, for packet memory is common to the process.
#[test]
fn a_switch_counts_the_copies_it_cannot_make() {
    Memory::reserve(Config { frames: 2048, ..Config::default() }).unwrap();
    for (class, ports) in [("EtherSwitch", 4), ("ListenEtherSwitch", 3)] {
        for burst in [1, 32] {
            let mut text = format!("s :: {class};\n");
            for port in 0..ports {
                text += &format!("FromDevice(d{port}) -> [{port}] s; s[{port}] -> ToDevice(d{port});\n");
            }
            if class == "ListenEtherSwitch" {
                text += "s[3] -> ToDevice(d3);";
            }
            let mut router = Accounted::new(&text, burst).unwrap();
            for _ in 0..5 {
                assert!(router.inject(0, &FRAME));
            }
            let held = exhaust();
            router.run(Duration::from_millis(10));
            drop(held);
            // Three other outputs: two copies of each frame are missing, and the original leaves by the last.
            assert_eq!(router.drops().get("no-memory"), Some(&10), "{class}, burst {burst}");
            assert_eq!(router.collect().len(), 5);
            for _ in 0..5 {
                assert!(router.inject(0, &FRAME));
            }
            router.run(Duration::from_millis(10));
            assert_eq!(router.drops().get("no-memory"), Some(&10));
            assert_eq!(router.collect().len(), 15);
        }
    }
}
