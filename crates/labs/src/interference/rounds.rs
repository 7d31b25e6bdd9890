// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paused against loaded, in turn.
//!
//! A value is taken while the user plane is paused, then loaded, then paused again, and so on. A slow-down is the loaded value over
//! the mean of the two paused ones around it, so that what else happens on the machine meets both sides alike.

use std::time::Instant;

use super::super::shared::Setting;
use super::super::study::{Cell, digits};
use super::stress::Neighbour;
use crate::Error;
use report::measure::Measured;

/// What was found about some work and a neighbour: a value for each round.
#[derive(Clone, Debug, Default)]
pub(super) struct Pairs {
    pub(super) paused: Vec<f64>,
    pub(super) loaded: Vec<f64>,
    /// How much longer it took, in percent.
    pub(super) slower: Vec<f64>,
    /// Thousands a second of what the neighbour did meanwhile: frames, or turns.
    pub(super) rate: Vec<f64>,
}

impl Pairs {
    /// Takes a round: values before, during and after.
    fn add(&mut self, before: f64, during: f64, after: f64, rate: f64) {
        let paused = (before + after) / 2.0;
        self.paused.push(paused);
        self.loaded.push(during);
        self.slower.push(100.0 * (during / paused - 1.0));
        self.rate.push(rate);
    }

    /// From values in the order in which [`compare`] with one neighbour asks for them, and that neighbour's rates.
    pub(super) fn of_values(values: &[f64], rates: &[f64]) -> Pairs {
        let mut pairs = Pairs::default();
        // The first one warms up.
        let values = values.get(1..).unwrap_or_default();
        for (three, rate) in values.windows(3).step_by(2).zip(rates) {
            pairs.add(three[0], three[1], three[2], *rate);
        }
        pairs
    }

    /// How far the median may be from the truth, in points: the notch of a box plot (McGill, Tukey and Larsen, 1978). Medians whose
    /// notches do not overlap differ, nineteen times of twenty. Fewer than four rounds do not tell.
    pub(super) fn notch(&self) -> f64 {
        let mut sorted = self.slower.clone();
        sorted.sort_by(f64::total_cmp);
        if sorted.len() < 4 {
            return f64::INFINITY;
        }
        let quartile = |share: f64| {
            let at = share * (sorted.len() - 1) as f64;
            let (low, part) = (at as usize, at.fract());
            sorted[low] + part * (sorted[(low + 1).min(sorted.len() - 1)] - sorted[low])
        };
        1.57 * (quartile(0.75) - quartile(0.25)) / (sorted.len() as f64).sqrt()
    }

    /// The slow-down in words: with its notch, or that it is within the noise.
    pub(super) fn in_words(&self) -> String {
        let (median, notch) = (tenths(self.median()), self.notch());
        match notch {
            n if n.is_infinite() => format!("{median:+.1} % (too few rounds to know the noise)"),
            n if median.abs() > n => format!("{median:+.1} % (give or take {n:.1})"),
            n => format!("{median:+.1} %, within the noise of {n:.1} points"),
        }
    }

    /// By how many points this is slower than something else, if the difference exceeds the noise.
    pub(super) fn above(&self, other: &Pairs) -> Option<f64> {
        let points = self.median() - other.median();
        (points.abs() > self.notch() + other.notch()).then_some(points)
    }

    /// The median slow-down in percent.
    pub(super) fn median(&self) -> f64 {
        Measured::new("", "", self.slower.clone()).median()
    }
}

/// Measures `work` next to each neighbour in turn, once a round. `work` gives nanoseconds for a unit of it. Neighbours are paused before
/// and after.
pub(super) fn compare(
    rounds: usize,
    neighbours: &mut [&mut dyn Neighbour],
    mut work: impl FnMut() -> Result<f64, Error>,
    mut round_is_done: impl FnMut(),
) -> Result<Vec<Pairs>, Error> {
    let mut found = vec![Pairs::default(); neighbours.len()];
    // To warm up.
    work()?;
    let mut before = work()?;
    for _ in 0..rounds {
        for (neighbour, pairs) in neighbours.iter_mut().zip(&mut found) {
            neighbour.resume()?;
            let (count, started) = (neighbour.done()?, Instant::now());
            let during = work();
            let rate = (neighbour.done()? - count) as f64 / started.elapsed().as_secs_f64() / 1e3;
            neighbour.pause()?;
            let after = work()?;
            pairs.add(before, during?, after, rate);
            before = after;
        }
        round_is_done();
    }
    Ok(found)
}

/// Notes a slow-down, in percent.
pub(super) fn note(setting: &mut Setting<'_>, name: &str, pairs: &Pairs) -> Measured {
    setting.note(format!("interference.{name}"), "%", pairs.slower.clone())
}

/// A slow-down with its spread.
pub(super) fn cell(slower: &Measured) -> Cell {
    let mut cell = Cell::measured(slower);
    cell.text = format!("{:+.1} %", tenths(slower.median()));
    let (low, high) = slower.spread();
    let between = || format!("{:+.1} to {:+.1}", tenths(low), tenths(high));
    cell.spread = (slower.runs.len() > 1).then(between);
    cell
}

/// To a tenth; nothing is not less than nothing.
fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0 + 0.0
}

/// In place of five values, and why there are none.
pub(super) fn absent(why: String) -> impl Iterator<Item = Cell> {
    std::iter::repeat_with(|| Cell::missing("none")).take(5).chain([Cell::missing(why)])
}

/// The rate of a neighbour: frames a second.
pub(super) fn rate_cell(pairs: &Pairs) -> Cell {
    let rate = Measured::new("", "kpps", pairs.rate.clone());
    Cell::new(digits(rate.median()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Fake<'a> {
        on: &'a Cell<bool>,
        count: u64,
    }

    impl Neighbour for Fake<'_> {
        fn resume(&mut self) -> Result<(), Error> {
            self.on.set(true);
            Ok(())
        }

        fn pause(&mut self) -> Result<(), Error> {
            self.on.set(false);
            Ok(())
        }

        fn done(&mut self) -> Result<u64, Error> {
            self.count += 1;
            Ok(self.count)
        }
    }

    #[test]
    fn loaded_is_compared_with_what_is_around_it() {
        let on = [Cell::new(false), Cell::new(false)];
        let mut fakes = on.each_ref().map(|on| Fake { on, count: 0 });
        let [one, two] = &mut fakes;
        // It drifts, and is slower by half next to the first, twice as slow next to the second.
        let mut time = 100.0;
        let work = || {
            time += 1.0;
            let factor = match (on[0].get(), on[1].get()) {
                (true, true) => panic!("both at once"),
                (true, _) => 1.5,
                (_, true) => 2.0,
                _ => 1.0,
            };
            Ok(time * factor)
        };
        let mut rounds = 0;
        let found = compare(3, &mut [one, two], work, || rounds += 1).expect("values");
        assert_eq!(rounds, 3);
        for (pairs, slower) in found.iter().zip([50.0, 100.0]) {
            assert!(pairs.slower.iter().all(|s| (s - slower).abs() < 1e-9), "{pairs:?}");
            assert!(pairs.rate.iter().all(|r| *r > 0.0) && pairs.slower.len() == 3);
        }
        assert!(!on[0].get() && !on[1].get());
    }

    #[test]
    fn differences_are_told_when_notches_do_not_overlap() {
        let pairs = |slower: &[f64]| Pairs { slower: slower.to_vec(), ..Pairs::default() };
        let (low, high) = (pairs(&[1.0, 2.0, 3.0, 2.0, 2.0]), pairs(&[9.0, 10.0, 11.0, 10.0, 10.0]));
        assert_eq!((low.notch(), high.above(&low), low.above(&high)), (0.0, Some(8.0), Some(-8.0)));
        let wide = pairs(&[0.0, 5.0, 10.0, 15.0, 20.0]);
        assert!((wide.notch() - 1.57 * 10.0 / 5f64.sqrt()).abs() < 1e-9);
        assert_eq!(wide.above(&pairs(&[5.0; 5])), None);
        assert_eq!(high.in_words(), "+10.0 % (give or take 0.0)");
        assert_eq!(wide.in_words(), "+10.0 % (give or take 7.0)");
        let little = pairs(&[-5.0, 0.0, 1.0, 5.0, 10.0]);
        assert_eq!(little.in_words(), "+1.0 %, within the noise of 3.5 points");
        assert!(pairs(&[1.0]).notch().is_infinite() && pairs(&[9.0]).above(&pairs(&[1.0])).is_none());
    }

    #[test]
    fn other_values_of_the_same_rounds() {
        let pairs = Pairs::of_values(&[9.0, 1.0, 3.0, 2.0, 4.0, 2.0], &[7.0, 8.0]);
        assert_eq!((pairs.paused, pairs.loaded), (vec![1.5, 2.0], vec![3.0, 4.0]));
        assert_eq!((pairs.slower, pairs.rate), (vec![100.0, 100.0], vec![7.0, 8.0]));
        assert!(Pairs::of_values(&[], &[]).slower.is_empty());
    }

    #[test]
    fn work_that_fails_leaves_the_neighbour_paused() {
        let on = Cell::new(false);
        let mut fake = Fake { on: &on, count: 0 };
        let failed = compare(
            1,
            &mut [&mut fake],
            || if on.get() { Err(Error::nothing("no")) } else { Ok(1.0) },
            || {},
        );
        assert!(failed.is_err() && !on.get());
    }
}
