// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench sets`: what named sets of a firewall cost: making, asking, and changing them one entry at a time.
//!
//! Half of the numbers asked for are in the set, in random order, so that the set is as cold in the caches as it can be; the others are random.

use std::hint::black_box;
use std::time::Instant;

use report::measure::Measured;
use serde_json::json;
use tables::set::{FOREVER, Point, RangeSet};

use super::fib::thread_seconds;
use crate::{Failure, Findings};

/// Numbers asked for in a round.
const ASKED: usize = 1 << 16;
/// Entries that change in a round.
const CHANGED: usize = 256;
/// Entries of a set at most, as rule files have it.
const ENTRIES_MAX: usize = 1 << 22;

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Entries of each set.
    pub entries: Vec<usize>,
    /// Rounds.
    pub runs: usize,
    /// Where entries and numbers begin.
    pub seed: u64,
}

/// Measures sets of IPv4 hosts, of IPv4 networks whose entries have an end, and of IPv6 networks.
///
/// # Errors
/// A set is empty or too large.
pub fn measure(args: &Settings) -> Result<Findings, Failure> {
    if let Some(entries) = args.entries.iter().find(|entries| !(1..=ENTRIES_MAX).contains(*entries)) {
        return Err(Failure::usage(format!(
            "--entries takes numbers from 1 to {ENTRIES_MAX}, not {entries}"
        )));
    }
    let mut results = Vec::new();
    for entries in &args.entries {
        let mut dice = fastrand::Rng::with_seed(args.seed);
        let host = |dice: &mut fastrand::Rng| dice.u32(..).around(32);
        results.extend(one_set("hosts4", *entries, args.runs, FOREVER, &mut dice, host, |dice| dice.u32(..)));
        let network = |dice: &mut fastrand::Rng| dice.u32(..).around(dice.u32(20..=32));
        results.extend(one_set("ending4", *entries, args.runs, 1, &mut dice, network, |dice| dice.u32(..)));
        // Networks of one provider lie close together.
        let six = |dice: &mut fastrand::Rng| 0x2001 << 112 | dice.u128(..) >> 24;
        let network6 = |dice: &mut fastrand::Rng| six(dice).around(dice.u32(48..=64));
        results.extend(one_set("networks6", *entries, args.runs, FOREVER, &mut dice, network6, six));
    }
    let conditions = json!({
        "asked": ASKED, "changed": CHANGED, "seed": args.seed,
        "time": "look-ups: processor time of the thread; making and changing: elapsed time",
    });
    Ok(Findings { conditions, results })
}

fn one_set<T: Point>(
    kind: &str,
    count: usize,
    runs: usize,
    end: u64,
    dice: &mut fastrand::Rng,
    entry: impl Fn(&mut fastrand::Rng) -> (T, T),
    other: impl Fn(&mut fastrand::Rng) -> T,
) -> Vec<Measured> {
    let entries: Vec<(T, T)> = (0..count).map(|_| entry(dice)).collect();
    let asked: Vec<T> = (0..ASKED)
        .map(|n| if n.is_multiple_of(2) { entries[dice.usize(..count)].0 } else { other(dice) })
        .collect();
    let (mut asks, mut makes, mut changes) = (Vec::new(), Vec::new(), Vec::new());
    let mut set = RangeSet::default();
    for run in 0..=runs.max(1) {
        let since = Instant::now();
        set.replace(entries.iter().map(|range| (*range, end)));
        let made = since.elapsed().as_secs_f64() * 1e3;
        let segments = set.segments().clone();
        let since = thread_seconds();
        let found = asked.iter().filter(|number| segments.holds(black_box(**number), 0)).count();
        let ask = (thread_seconds() - since) * 1e9 / ASKED as f64;
        assert!(black_box(found) >= ASKED / 2, "half of them are in the set");
        let some: Vec<(T, T)> = (0..CHANGED).map(|_| entry(dice)).collect();
        let since = Instant::now();
        for range in &some {
            set.change(&[(*range, Some(end))]);
            set.change(&[(*range, None)]);
        }
        let change = since.elapsed().as_secs_f64() * 1e6 / (2 * CHANGED) as f64;
        // The first round warms up.
        if run > 0 {
            asks.push(ask);
            makes.push(made);
            changes.push(change);
        }
    }
    let name = |what: &str| format!("sets.{what}.{kind}.{count}");
    vec![
        Measured::new(name("lookup_ns"), "ns", asks),
        Measured::new(name("change_us"), "us", changes),
        Measured::new(name("make_ms"), "ms", makes),
        Measured::new(name("bytes_per_entry"), "B", vec![set.segments().bytes() as f64 / count as f64]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_are_measured() {
        let args = Settings { entries: vec![10, 3000], runs: 1, seed: 3 };
        let found = measure(&args).unwrap().results;
        assert_eq!(found.len(), 24);
        assert!(found.iter().all(|measured| measured.median() > 0.0), "{found:?}");
        assert!(measure(&Settings { entries: vec![0], ..args }).is_err());
    }
}
