// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device whose kernel side cannot keep up: nothing stays behind when its turn comes.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::{PATIENCE, on_rig, open, spec};
use junctor_ports::SystemProvider;
use packet::{Batch, Packet};
use testbed::rig::{Cable, Rig, wait_for};

fn frame(number: u32) -> Packet {
    let mut bytes = vec![0xff; 6];
    bytes.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    bytes.extend(number.to_be_bytes());
    bytes.resize(1000, 0x5a);
    Packet::copy_of(&bytes).unwrap()
}

/// More frames are sent at once than the socket's buffer has room for, while the receiver's side waits for a processor that others use.
/// What the kernel left in the ring goes out although nothing else is sent. A queue that lags says so.
fn check_lag() {
    const FRAMES: u32 = 1500;
    let rig = Rig::new(Cable { untouched: true, ..Cable::default() }).unwrap();
    let mut observer =
        rig.a.enter(|| open(&SystemProvider::new(), &spec("a0", "AF_PACKET")).rx(0).unwrap()).unwrap();
    let mut tx =
        rig.dut.enter(|| open(&SystemProvider::new(), &spec("d0", "AF_XDP")).tx(0).unwrap()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let mut seen = vec![0u8; FRAMES as usize];
        let mut batch: Batch = (0..FRAMES).map(frame).collect();
        let mut lagged = 0;
        let result = wait_for("all frames", PATIENCE, || {
            if !batch.is_empty() {
                tx.transmit(&mut batch);
                tx.flush();
            }
            // From here on nothing is sent any more: only a queue that says that it lags is asked to go on.
            if tx.lags() {
                lagged += 1;
                tx.flush();
            }
            let mut got = Batch::new();
            observer.receive(&mut got, 64);
            for packet in got.iter().filter(|packet| packet.len() == 1000) {
                let number = u32::from_be_bytes(*packet.data()[14..].first_chunk().unwrap());
                seen[number as usize] += 1;
            }
            !tx.lags() && batch.is_empty() && tx.stats().packets == u64::from(FRAMES)
        });
        stop.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|e| panic!("{e}; lagged {lagged} times, {:?}", tx.stats()));
        // The observer's own ring may have lost some; none came twice.
        assert!(seen.iter().all(|n| *n <= 1));
    });
}

on_rig! {
    af_xdp_leaves_nothing_behind => check_lag();
}
