// SPDX-License-Identifier: MIT OR Apache-2.0
//! What telling of locks costs: `cargo run --release -p junctor-sync --example event_cost`.
//!
//! Takes and frees a lock that nobody else wants, with nothing recorded, waits only, and everything recorded, in turns, and prints
//! nanoseconds for each; the difference of the last to the first is what a record costs, with the two looks at the cycle counter that it
//! takes. `event_cost off|waits|all ROUNDS` does only one, for a count of instructions:
//! `valgrind --tool=callgrind event_cost off 1000000`.

use std::time::Instant;

use junctor_sync::events::{Level, record};
use junctor_sync::lock::SpinLock;

const ROUNDS: u64 = 2_000_000;
const RUNS: usize = 15;

#[inline(never)]
fn take(lock: &SpinLock<u64>, rounds: u64) {
    for _ in 0..rounds {
        *lock.lock() += 1;
    }
}

fn main() {
    let lock = SpinLock::new(0u64);
    let levels = [("off", Level::Off), ("waits", Level::Waits), ("all", Level::All)];
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [name, rounds] = &args[..] {
        if let Some((_, level)) = levels.iter().find(|l| l.0 == name) {
            record(*level);
            take(&lock, rounds.parse().unwrap_or(ROUNDS));
        }
        return;
    }
    let mut looks = Vec::new();
    let mut times = vec![Vec::new(); levels.len()];
    for _ in 0..RUNS {
        for ((_, level), times) in levels.iter().zip(&mut times) {
            record(*level);
            let start = Instant::now();
            take(&lock, ROUNDS);
            times.push(start.elapsed().as_nanos() as f64 / ROUNDS as f64);
        }
        let start = Instant::now();
        std::hint::black_box((0..ROUNDS).fold(0, |sum: u64, _| sum.wrapping_add(junctor_sync::tsc())));
        looks.push(start.elapsed().as_nanos() as f64 / ROUNDS as f64);
    }
    looks.sort_by(f64::total_cmp);
    println!("tsc    {:6.2} ns a look at the cycle counter, {:6.2} at least", looks[RUNS / 2], looks[0]);
    for ((name, _), times) in levels.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        println!("{name:<6} {:6.2} ns a lock and its release, {:6.2} at least", times[RUNS / 2], times[0]);
    }
}
