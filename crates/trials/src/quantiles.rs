// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency by quantile, from the median to one frame in a million, as far as there are frames enough to tell it.

use hdrhistogram::Histogram;

/// A share of the frames that were at most so late.
#[derive(Clone, Copy, Debug)]
pub struct Quantile {
    /// In stable names and in tables.
    pub name: &'static str,
    share: f64,
    /// With fewer frames than this not one of them is beyond the quantile, and it would be the maximum by another name.
    pub frames_min: u64,
}

impl Quantile {
    /// Microseconds; nothing if too few frames arrived to tell.
    pub fn us(self, latency: &Histogram<u64>) -> Option<f64> {
        let enough = latency.len() >= self.frames_min;
        enough.then(|| latency.value_at_quantile(self.share) as f64 / 1e3)
    }
}

/// The quantiles that every procedure reports.
pub const QUANTILES: [Quantile; 9] = [
    Quantile { name: "min", share: 0.0, frames_min: 1 },
    Quantile { name: "p50", share: 0.5, frames_min: 1 },
    Quantile { name: "p90", share: 0.9, frames_min: 10 },
    Quantile { name: "p99", share: 0.99, frames_min: 100 },
    Quantile { name: "p99.9", share: 0.999, frames_min: 1_000 },
    Quantile { name: "p99.99", share: 0.9999, frames_min: 10_000 },
    Quantile { name: "p99.999", share: 0.99999, frames_min: 100_000 },
    Quantile { name: "p99.9999", share: 0.999999, frames_min: 1_000_000 },
    Quantile { name: "max", share: 1.0, frames_min: 1 },
];

/// For people: microseconds, or a dash.
pub(super) fn cell(us: Option<f64>) -> String {
    us.map_or_else(|| "-".to_owned(), |us| format!("{us:.1}"))
}

/// What is said where a dash stands.
pub(super) const TOO_FEW: &str = "-: too few frames arrived to tell (p99.9999 takes 1000000 in a trial)";

#[cfg(test)]
mod tests {
    use super::*;

    /// What is reported of frames that took 1, 2, 3 ... µs, by name.
    fn told(frames: u64) -> Vec<(&'static str, Option<f64>)> {
        let mut latency = Histogram::<u64>::new(3).unwrap();
        (1..=frames).for_each(|us| latency.record(us * 1000).unwrap());
        QUANTILES.iter().map(|quantile| (quantile.name, quantile.us(&latency))).collect()
    }

    #[test]
    fn a_quantile_is_told_only_if_a_frame_is_beyond_it() {
        for (frames, last) in [
            (9, "p50"),
            (10, "p90"),
            (999, "p99"),
            (1_000, "p99.9"),
            (99_999, "p99.99"),
            (100_000, "p99.999"),
            (999_999, "p99.999"),
            (1_000_000, "p99.9999"),
        ] {
            let told = told(frames);
            let greatest = told.iter().rfind(|(name, us)| us.is_some() && *name != "max").unwrap().0;
            assert_eq!(greatest, last, "{frames} frames");
            assert!(told.last().unwrap().1.is_some(), "the maximum is always known");
        }
        assert!(told(0).iter().all(|(_, us)| us.is_none()));
    }

    #[test]
    fn quantiles_are_those_of_a_sorted_list() {
        // To three digits, as precise as the histogram is.
        for (name, us) in told(1_000_000) {
            let rank = match name.strip_prefix('p') {
                Some(percent) => (percent.parse::<f64>().unwrap() * 10_000.0).round(),
                None => f64::from(if name == "min" { 1 } else { 1_000_000 }),
            };
            let us = us.unwrap();
            assert!((us - rank).abs() <= rank / 1000.0, "{name}: {us}, the list has {rank}");
        }
    }
}
