// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a ring costs: `cargo run --release -p junctor-sync --example ring_cost`.
//!
//! Prints nanoseconds per item for each kind of ring and several batch sizes, first on one thread (push then pop,
//! everything cached: the instructions' cost), then from one thread to another (the lines' travel).

use junctor_sync::ring::{Consumers, Producers, Ring};
use std::time::Instant;

const ITEMS: usize = 4_000_000;

fn alone(ring: &Ring<usize>, batch: usize) -> f64 {
    let mut sum = 0usize;
    let start = Instant::now();
    for _ in 0..ITEMS / batch {
        ring.push_many(0..batch);
        ring.pop_many(batch, |item| sum = sum.wrapping_add(item));
    }
    std::hint::black_box(sum);
    start.elapsed().as_nanos() as f64 / ITEMS as f64
}

fn across(ring: &Ring<usize>, batch: usize) -> f64 {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut sent = 0;
            while sent < ITEMS {
                let pushed = ring.push_many(sent..ITEMS.min(sent + batch));
                sent += pushed;
                if pushed == 0 {
                    std::hint::spin_loop();
                }
            }
        });
        let start = Instant::now();
        let (mut got, mut sum) = (0, 0usize);
        while got < ITEMS {
            let popped = ring.pop_many(batch, |item| sum = sum.wrapping_add(item));
            got += popped;
            if popped == 0 {
                std::hint::spin_loop();
            }
        }
        std::hint::black_box(sum);
        start.elapsed().as_nanos() as f64 / ITEMS as f64
    })
}

fn median(mut runs: Vec<f64>) -> f64 {
    runs.sort_by(f64::total_cmp);
    runs[runs.len() / 2]
}

fn main() {
    println!("{:<12} {:>5} {:>14} {:>14}", "sides", "batch", "alone ns/item", "across ns/item");
    for batch in [1, 8, 32, 256] {
        for (name, producers, consumers) in [
            ("one/one", Producers::One, Consumers::One),
            ("many/one", Producers::Many, Consumers::One),
            ("many/many", Producers::Many, Consumers::Many),
        ] {
            // SAFETY: `alone` uses one thread, `across` one for each side, joined before the next run.
            let ring = unsafe { Ring::with_sides(1024, producers, consumers) };
            let here = median((0..5).map(|_| alone(&ring, batch)).collect());
            let there = median((0..5).map(|_| across(&ring, batch)).collect());
            println!("{name:<12} {batch:>5} {here:>14.2} {there:>14.2}");
        }
    }
}
