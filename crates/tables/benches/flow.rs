// SPDX-License-Identifier: MIT OR Apache-2.0
//! Speed of the per-core hash tables: `cargo bench -p junctor-tables --bench flow`.
//!
//! Lookups of known keys, uniform and Zipf 1.0 in trains, at several sizes; `std`'s map with the same number of entries and
//! its default hash is the yardstick of the same run. Each figure is the median of interleaved rounds.

use junctor_tables::{
    flow::{FlowKey, FlowTable},
    mac::MacTable,
};
use std::{collections::HashMap, hint::black_box, time::Instant};

const LOOKUPS: usize = 1 << 20;
const BATCH: usize = 32;
const ROUNDS: usize = 5;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// Which of `count` keys each lookup asks for: uniform, and Zipf with trains of up to eight.
fn choices(count: usize) -> [(&'static str, Vec<usize>); 2] {
    let mut random = Random(42);
    let uniform = (0..LOOKUPS).map(|_| random.below(count)).collect();
    let mut sums = Vec::with_capacity(count);
    let mut sum = 0.0;
    for rank in 1..=count {
        sum += 1.0 / rank as f64;
        sums.push(sum);
    }
    let mut zipf = Vec::with_capacity(LOOKUPS + 8);
    while zipf.len() < LOOKUPS {
        let drawn = (random.next() >> 11) as f64 / (1u64 << 53) as f64 * sum;
        let key = sums.partition_point(|sum| *sum < drawn).min(count - 1);
        zipf.extend(std::iter::repeat_n(key, 1 + random.below(8)));
    }
    zipf.truncate(LOOKUPS);
    [("uniform", uniform), ("zipf", zipf)]
}

fn ns_each(mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_nanos() as f64 / LOOKUPS as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn report(name: &str, size: usize, ours: Vec<f64>, theirs: Vec<f64>) {
    let (ours, theirs) = (median(ours), median(theirs));
    println!(
        "{name:<22} {size:>9} {ours:>7.2} ns {:>7.1} M/s   std {theirs:>7.2} ns, ratio {:>5.2}",
        1e3 / ours,
        theirs / ours
    );
}

fn flows(count: usize) {
    let mut random = Random(7);
    let keys: Vec<FlowKey> = (0..count)
        .map(|serial| FlowKey {
            src: random.next() as u32,
            dst: serial as u32,
            sport: random.next() as u16,
            dport: 443,
            proto: 6,
            zone: 0,
        })
        .collect();
    let mut table = FlowTable::new(count, 99);
    for key in &keys {
        table.insert(*key, key.reversed(), [0u64; 2], 0).expect("room");
    }
    let map: HashMap<FlowKey, [u64; 2]> =
        keys.iter().flat_map(|key| [*key, key.reversed()]).map(|key| (key, [0; 2])).collect();
    for (name, choice) in choices(count) {
        let asked: Vec<FlowKey> = choice.into_iter().map(|at| keys[at]).collect();
        let mut hits = [None; BATCH];
        let (mut ours, mut single, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(ns_each(|| {
                for batch in asked.as_chunks::<BATCH>().0 {
                    table.lookup_batch(batch, &mut hits);
                    black_box(&hits);
                }
            }));
            single.push(ns_each(|| asked.iter().for_each(|key| _ = black_box(table.lookup(key)))));
            theirs.push(ns_each(|| asked.iter().for_each(|key| _ = black_box(map.get(key)))));
        }
        report(&format!("flow.batch.{name}"), count, ours, theirs.clone());
        report(&format!("flow.single.{name}"), count, single, theirs);
    }
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for (serial, key) in keys.iter().enumerate() {
            let id = table.lookup(key).expect("known").id;
            table.remove(id);
            table.insert(*key, key.reversed(), [0; 2], serial as u64).expect("room");
        }
        rounds.push(start.elapsed().as_nanos() as f64 / count as f64);
    }
    println!("{:<22} {count:>9} {:>7.0} ns", "flow.replace", median(rounds));
}

fn macs(count: usize) {
    let mut random = Random(3);
    let keys: Vec<[u8; 6]> = (0..count)
        .map(|_| {
            let [_, b, c, d, e, f, ..] = random.next().to_le_bytes();
            [2, b, c, d, e, f]
        })
        .collect();
    let mut table = MacTable::new(1 << 40, 1 << 21, 5);
    keys.iter().for_each(|mac| _ = table.learn(*mac, 0, 1, 0));
    let map: HashMap<[u8; 6], (u16, u64)> = keys.iter().map(|mac| (*mac, (1, 0))).collect();
    for (name, choice) in choices(count) {
        let asked: Vec<[u8; 6]> = choice.into_iter().map(|at| keys[at]).collect();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(ns_each(|| asked.iter().for_each(|mac| _ = black_box(table.lookup(*mac, 0, 1)))));
            theirs.push(ns_each(|| asked.iter().for_each(|mac| _ = black_box(map.get(mac)))));
        }
        report(&format!("mac.{name}"), count, ours, theirs);
    }
}

fn main() {
    for count in [4_000, 64_000, 1_000_000] {
        flows(count);
        macs(count);
    }
}
