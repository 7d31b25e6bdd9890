// SPDX-License-Identifier: MIT OR Apache-2.0
//! Predicts slow-downs of pairs that never ran together, after SLOMO: A. Manousis and others, "Contention-Aware Performance Prediction
//! For Virtualized Network Functions", SIGCOMM 2020.
//!
//! Two *dials* are stressors whose intensity can be set from nothing to all: one takes the shared cache, one the memory's bandwidth.
//! A victim's *sensitivity* is a curve for each dial: its slow-down at each level. An aggressor's *contentiousness* is the pair of
//! levels that hurts two probes as much as the aggressor does. SLOMO reads contentiousness from counters of the last-level cache and
//! learns the curves by regression; without counters the probes stand for them, as in Bubble-Up (J. Mars and others, MICRO 2011).
//! Time lost to two causes adds up, so a prediction is the sum of both curves at the aggressor's levels.

/// Causes that are distinguished.
pub(super) const DIALS: usize = 2;
/// Steps of the search for levels.
const STEPS: usize = 200;

/// Slow-down in percent by a dial's level, from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Curve {
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// As near to these points, in the order of their levels, as a curve can be that begins at nothing and never falls: more of a
    /// stressor makes nobody faster. Points that fall are put together with the ones before (pool adjacent violators).
    pub(super) fn new(points: &[(f64, f64)]) -> Curve {
        // Sums, and how many points they are of.
        let mut pools: Vec<(f64, usize)> = Vec::new();
        let mean = |pool: &(f64, usize)| pool.0 / pool.1 as f64;
        for (_, slower) in points {
            let mut pool = (*slower, 1);
            while let Some(last) = pools.pop_if(|last| mean(last) > mean(&pool)) {
                pool = (pool.0 + last.0, pool.1 + last.1);
            }
            pools.push(pool);
        }
        let values = pools.iter().flat_map(|pool| std::iter::repeat_n(mean(pool).max(0.0), pool.1));
        let levels = points.iter().map(|(level, _)| *level);
        Curve { points: std::iter::once((0.0, 0.0)).chain(levels.zip(values)).collect() }
    }

    /// Between two points in proportion; beyond the last one, as there.
    pub(super) fn at(&self, level: f64) -> f64 {
        let upper = self.points.iter().position(|(x, _)| *x >= level);
        match upper {
            Some(0) => self.points[0].1,
            Some(i) => {
                let ((x0, y0), (x1, y1)) = (self.points[i - 1], self.points[i]);
                y0 + (y1 - y0) * (level - x0) / (x1 - x0).max(f64::EPSILON)
            }
            None => self.points.last().map_or(0.0, |(_, y)| *y),
        }
    }

    fn most(&self) -> f64 {
        self.points.iter().map(|(_, y)| y.abs()).fold(0.0, f64::max)
    }
}

/// How a victim answers to each dial.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sensitivity {
    pub(super) curves: [Curve; DIALS],
}

/// Levels of the dials.
pub(super) type Contentiousness = [f64; DIALS];

impl Sensitivity {
    /// The slow-down next to an aggressor, in percent.
    pub(super) fn predict(&self, aggressor: Contentiousness) -> f64 {
        self.curves.iter().zip(aggressor).map(|(curve, level)| curve.at(level)).sum()
    }

    /// What one percent of slow-down weighs: a probe that hardly answers says little.
    fn weight(&self) -> f64 {
        1.0 / self.curves.iter().map(Curve::most).fold(1.0, f64::max)
    }
}

/// The levels that come closest to how the probes slowed down next to an aggressor; the least of those that are equally close.
pub(super) fn contentiousness(probes: &[(Sensitivity, f64)]) -> Contentiousness {
    let error = |levels: Contentiousness| -> f64 {
        probes.iter().map(|(probe, slower)| ((probe.predict(levels) - slower) * probe.weight()).powi(2)).sum()
    };
    let level = |step: usize| step as f64 / STEPS as f64;
    let all = (0..=STEPS).flat_map(|a| (0..=STEPS).map(move |b| [level(a), level(b)]));
    let mut best = ([0.0; DIALS], error([0.0; DIALS]));
    for levels in all {
        let found = error(levels);
        if found < best.1 - 1e-12 {
            best = (levels, found);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A straight line and one that saturates.
    fn sensitivity(linear: f64, bent: f64) -> Sensitivity {
        let line = Curve::new(&[(0.5, linear / 2.0), (1.0, linear)]);
        let bend = Curve::new(&[(0.25, bent * 0.7), (0.5, bent * 0.9), (1.0, bent)]);
        Sensitivity { curves: [line, bend] }
    }

    #[test]
    fn curves_go_through_their_points() {
        let curve = Curve::new(&[(0.5, 10.0), (1.0, 14.0)]);
        for (level, want) in [(0.0, 0.0), (0.25, 5.0), (0.5, 10.0), (0.75, 12.0), (1.0, 14.0), (3.0, 14.0)] {
            assert!((curve.at(level) - want).abs() < 1e-9, "{level}: {}", curve.at(level));
        }
        assert_eq!(Curve::default().at(0.5), 0.0);
        assert_eq!(Curve::new(&[]).at(0.5), 0.0);
    }

    #[test]
    fn noise_does_not_make_a_curve_fall() {
        let curve = Curve::new(&[(0.25, -2.0), (0.5, 8.0), (0.75, 4.0), (1.0, 20.0)]);
        assert_eq!(curve.points, [(0.0, 0.0), (0.25, 0.0), (0.5, 6.0), (0.75, 6.0), (1.0, 20.0)]);
    }

    #[test]
    fn an_aggressor_of_known_levels_is_found_and_predicted() {
        // The first probe feels the first dial most, the second one the other; the victim is like neither.
        let probes = [sensitivity(40.0, 4.0), sensitivity(3.0, 60.0)];
        let victim = sensitivity(25.0, 30.0);
        for levels in [[0.0, 0.0], [0.3, 0.1], [0.8, 0.4], [1.0, 1.0], [0.05, 0.9]] {
            let seen = probes.clone().map(|probe| {
                let slower = probe.predict(levels);
                (probe, slower)
            });
            let found = contentiousness(&seen);
            let error = (victim.predict(found) - victim.predict(levels)).abs();
            assert!(error < 0.5, "{levels:?} was taken for {found:?}: {error} points");
        }
    }

    #[test]
    fn noise_of_a_point_costs_about_a_point() {
        let probes = [sensitivity(40.0, 4.0), sensitivity(3.0, 60.0)];
        let victim = sensitivity(25.0, 30.0);
        let levels = [0.4, 0.3];
        let noise = [1.0, -1.0];
        let seen: Vec<_> =
            probes.iter().zip(noise).map(|(p, noise)| (p.clone(), p.predict(levels) + noise)).collect();
        assert!((victim.predict(contentiousness(&seen)) - victim.predict(levels)).abs() < 2.0);
    }

    #[test]
    fn an_aggressor_that_hurts_nobody_has_level_nothing() {
        let probes = [(sensitivity(40.0, 4.0), -0.5), (sensitivity(3.0, 60.0), 0.0)];
        assert_eq!(contentiousness(&probes), [0.0, 0.0]);
        assert_eq!(contentiousness(&[]), [0.0, 0.0]);
    }
}
