// SPDX-License-Identifier: MIT OR Apache-2.0
//! What telling of locks costs: `cargo run --release -p junctor-sync --example event_cost`.
//!
//! Takes and frees a lock that nobody else wants, with nothing recorded, waits only, and everything recorded, and one like it that cannot
//! record (`bare`), in turns, and prints nanoseconds for each. The difference of `all` to `off` is what a record costs, with the two looks
//! at the cycle counter that it takes, which are printed, too; that of `off` to `bare` is what it costs that there could be one.
//! `event_cost bare|off|waits|all ROUNDS` does only one, for a count of instructions:
//! `valgrind --tool=callgrind event_cost off 1000000`.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Instant;

use junctor_sync::events::{Mask, record};
use junctor_sync::lock::SpinLock;

/// A lock that counts as ours do, and records no event.
struct Bare {
    held: AtomicUsize,
    acquisitions: AtomicU64,
    value: AtomicU64,
}

impl Bare {
    #[inline]
    fn add(&self, me: usize) {
        while self.held.compare_exchange(0, me, Acquire, Relaxed).is_err() {
            std::hint::spin_loop();
        }
        for count in [&self.acquisitions, &self.value] {
            count.store(count.load(Relaxed) + 1, Relaxed);
        }
        self.held.store(0, Release);
    }
}

const ROUNDS: u64 = 2_000_000;
const RUNS: usize = 15;

#[inline(never)]
fn take(lock: &SpinLock<u64>, rounds: u64) {
    for _ in 0..rounds {
        *lock.lock() += 1;
    }
}

#[inline(never)]
fn take_bare(lock: &Bare, rounds: u64) {
    for _ in 0..rounds {
        lock.add(std::hint::black_box(1));
    }
}

fn main() {
    let bare = Bare { held: AtomicUsize::new(0), acquisitions: AtomicU64::new(0), value: AtomicU64::new(0) };
    let lock = SpinLock::new(0u64);
    let levels = [("off", Mask::NOTHING), ("waits", Mask::WAITS), ("all", Mask::LOCKS)];
    let mut bare_times = Vec::new();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [name, rounds] = &args[..] {
        let rounds = rounds.parse().unwrap_or(ROUNDS);
        if name == "bare" {
            take_bare(&bare, rounds);
        }
        if let Some((_, level)) = levels.iter().find(|l| l.0 == name) {
            record(*level);
            take(&lock, rounds);
        }
        return;
    }
    let mut looks = Vec::new();
    let mut times = vec![Vec::new(); levels.len()];
    for _ in 0..RUNS {
        let start = Instant::now();
        take_bare(&bare, ROUNDS);
        bare_times.push(start.elapsed().as_nanos() as f64 / ROUNDS as f64);
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
    let all = std::iter::once(("bare", &mut bare_times)).chain(levels.iter().map(|l| l.0).zip(&mut times));
    for (name, times) in all {
        times.sort_by(f64::total_cmp);
        println!("{name:<6} {:6.2} ns a lock and its release, {:6.2} at least", times[RUNS / 2], times[0]);
    }
}
