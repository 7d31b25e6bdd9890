// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench rules`: what it costs to find the first rule that a packet matches, without packets around it.
//!
//! For lists of several [shapes] and lengths: the time that the list's structure takes to be made, its size, and what a look-up costs. In
//! short lists also what the same look-up costs rule by rule. Each header is made from a random rule, so that all
//! rules are met, long ones at the end of the list too; a tenth are random headers.

mod shapes;

use std::hint::black_box;
use std::time::Instant;

use report::measure::Measured;
use serde_json::json;
use tables::rules::{Key, NONE, Rules};

use super::fib::thread_seconds;
pub use shapes::Shape;

use crate::{Failure, Findings};

/// Headers looked up in a round.
const HEADERS: usize = 1 << 16;
/// Headers that ask together.
const BATCH: usize = 32;
/// Lists up to this length are also asked rule by rule.
const LINEAR_MAX: usize = 1000;

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Rules of each list.
    pub rules: Vec<usize>,
    /// The shapes; all if there is none.
    pub shapes: Vec<Shape>,
    /// Rounds.
    pub runs: usize,
    /// Where lists and headers begin.
    pub seed: u64,
}

/// Measures making lists, and look-ups.
///
/// # Errors
/// A list is empty or too long.
pub fn measure(args: &Settings) -> Result<Findings, Failure> {
    if let Some(rules) = args.rules.iter().find(|rules| !(1..=tables::rules::RULES_MAX).contains(*rules)) {
        let most = tables::rules::RULES_MAX;
        return Err(Failure::usage(format!("--rules takes lengths from 1 to {most}, not {rules}")));
    }
    let shapes = if args.shapes.is_empty() { &Shape::ALL[..] } else { &args.shapes };
    let mut results = Vec::new();
    for shape in shapes {
        for rules in &args.rules {
            results.extend(one_list(*shape, *rules, args));
        }
    }
    let conditions = json!({
        "batch": BATCH, "headers": HEADERS, "seed": args.seed,
        "time": "look-ups: processor time of the thread; making: elapsed time",
    });
    Ok(Findings { conditions, results })
}

fn one_list(shape: Shape, count: usize, args: &Settings) -> Vec<Measured> {
    let list = shape.list(count, args.seed);
    let keys = shapes::headers(&list, HEADERS, args.seed);
    let (mut made, mut looked_up, mut linear) = (Vec::new(), Vec::new(), Vec::new());
    let mut rules = Rules::default();
    for run in 0..=args.runs.max(1) {
        let since = Instant::now();
        rules = black_box(Rules::new(&list));
        let took = since.elapsed().as_secs_f64() * 1e3;
        let mut found = [0; BATCH];
        let cost = each(&keys, |batch| {
            rules.find_all(batch, &mut found, &mut |_, _| true);
            black_box(&found);
        });
        // The first round warms up.
        if run == 0 {
            continue;
        }
        made.push(took);
        looked_up.push(cost);
        if count <= LINEAR_MAX {
            linear.push(each(&keys[..HEADERS / 16], |batch| {
                for key in batch {
                    let first = list.iter().find(|(rule, _)| rule.holds(black_box(key)));
                    black_box(first.map_or(NONE, |(_, number)| *number));
                }
            }));
        }
    }
    let name = |what: &str| format!("rules.{what}.{}.{count}", shape.name());
    let mut results = vec![
        Measured::new(name("lookup_ns"), "ns", looked_up),
        Measured::new(name("make_ms"), "ms", made),
        Measured::new(name("bytes_per_rule"), "B", vec![rules.bytes() as f64 / count as f64]),
        Measured::new(name("tables"), "tables", vec![rules.tables() as f64]),
    ];
    if !linear.is_empty() {
        results.insert(1, Measured::new(name("one_by_one_ns"), "ns", linear));
    }
    results
}

/// Nanoseconds for each key.
fn each(keys: &[Key<2>], mut go: impl FnMut(&[Key<2>])) -> f64 {
    let since = thread_seconds();
    keys.chunks_exact(BATCH).for_each(&mut go);
    (thread_seconds() - since) * 1e9 / keys.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_all_shapes_are_looked_up_right() {
        for (shape, seed) in Shape::ALL.into_iter().flat_map(|shape| [1, 2].map(|seed| (shape, seed))) {
            let list = shape.list(3000, seed);
            let rules = Rules::new(&list);
            let keys = shapes::headers(&list, 2000, seed);
            let mut found = vec![0; keys.len()];
            rules.find_all(&keys, &mut found, &mut |_, _| true);
            for (key, found) in keys.iter().zip(found) {
                let want = list.iter().find(|(rule, _)| rule.holds(key)).map_or(NONE, |(_, number)| *number);
                assert_eq!(found, want, "{} {key:?}", shape.name());
            }
        }
    }
}
