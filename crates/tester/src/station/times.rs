// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times as they are counted while frames arrive: by the buckets of an HDR histogram, which they become in the end.
//!
//! Three times are counted for each frame. Of a [`Histogram`] each would bring its total, least and greatest up to date, all of which its
//! buckets tell; here it is one addition.

use hdrhistogram::Histogram;

/// Times above are counted as this: 100 s.
const LONGEST_NS: u64 = 100_000_000_000;
/// Buckets are as wide as three significant digits allow: 2^10 of them for each power of two, and single nanoseconds below 2^11.
const HALF_BITS: u32 = 10;

/// Counts of times in nanoseconds.
pub(super) struct Times(Box<[u64]>);

impl Default for Times {
    fn default() -> Times {
        Times(vec![0; bucket(LONGEST_NS) + 1].into())
    }
}

/// The bucket that a time falls into.
#[inline]
fn bucket(ns: u64) -> usize {
    let ns = ns.min(LONGEST_NS);
    let shift = u64::BITS - 1 - HALF_BITS - (ns | ((2 << HALF_BITS) - 1)).leading_zeros();
    ((shift as usize) << HALF_BITS) + (ns >> shift) as usize
}

/// The least time of a bucket.
fn least(bucket: usize) -> u64 {
    let shift = (bucket >> HALF_BITS).saturating_sub(1);
    ((bucket - (shift << HALF_BITS)) as u64) << shift
}

impl Times {
    #[inline]
    pub(super) fn record(&mut self, ns: u64) {
        self.record_n(ns, 1);
    }

    #[inline]
    pub(super) fn record_n(&mut self, ns: u64, frames: u64) {
        if let Some(count) = self.0.get_mut(bucket(ns)) {
            *count += frames;
        }
    }

    /// The longest, to its bucket; 0 of none.
    pub(super) fn greatest(&self) -> u64 {
        let last = self.0.iter().rposition(|frames| *frames > 0);
        last.map_or(0, |bucket| least(bucket + 1))
    }

    /// Nothing, yet.
    pub(super) fn empty() -> Histogram<u64> {
        Histogram::new_with_bounds(1, LONGEST_NS, 3)
            .unwrap_or_else(|_| unreachable!("these bounds are valid"))
    }

    /// What was counted.
    pub(super) fn histogram(&self) -> Histogram<u64> {
        let mut histogram = Times::empty();
        for (bucket, frames) in self.0.iter().enumerate().filter(|(_, frames)| **frames > 0) {
            histogram.saturating_record_n(least(bucket), *frames);
        }
        histogram
    }
}

/// How many of these times are longer.
pub(super) fn later_than(times: &Histogram<u64>, bound: std::time::Duration) -> u64 {
    let bound = bound.as_nanos().min(u128::from(LONGEST_NS)) as u64;
    times.iter_recorded().filter(|at| at.value_iterated_to() > bound).map(|at| at.count_at_value()).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Recorded by both. A histogram has some room beyond its bound.
    fn both(times: &[(u64, u64)]) -> (Histogram<u64>, Histogram<u64>) {
        let (mut counted, mut recorded) = (Times::default(), Times::empty());
        for (ns, frames) in times {
            counted.record_n(*ns, *frames);
            recorded.saturating_record_n((*ns).min(LONGEST_NS), *frames);
        }
        (counted.histogram(), recorded)
    }

    fn told(histogram: &Histogram<u64>) -> (u64, u64, u64, f64, Vec<u64>) {
        let quantiles = [0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0].map(|q| histogram.value_at_quantile(q));
        (histogram.len(), histogram.min(), histogram.max(), histogram.mean(), quantiles.to_vec())
    }

    #[test]
    fn buckets_are_those_of_the_histogram() {
        let (powers, around) = ((0..64).map(|bit| 1u64 << bit), [-1i64, 0, 1]);
        let ends = [0, LONGEST_NS - 1, LONGEST_NS, LONGEST_NS + 1, u64::MAX];
        let times = powers.flat_map(|power| around.map(|by| power.saturating_add_signed(by))).chain(ends);
        for ns in times {
            let (counted, recorded) = both(&[(ns, 3)]);
            assert_eq!(counted, recorded, "{ns}");
            assert_eq!(told(&counted), told(&recorded), "{ns}");
        }
        assert_eq!(Times::default().histogram(), Times::empty());
    }

    #[test]
    fn the_longest_is_known_to_its_bucket() {
        let mut times = Times::default();
        assert_eq!(times.greatest(), 0);
        for ns in [7, 5000, 3, 77_777_777, 9] {
            times.record(ns);
        }
        let greatest = times.greatest();
        assert!((77_777_777..77_777_777 * 1002 / 1000).contains(&greatest), "{greatest}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]
        #[test]
        fn what_is_counted_is_what_would_be_recorded(
            times in prop::collection::vec((0u32..40, any::<u64>(), 1u64..1000), 0..100),
        ) {
            let times: Vec<(u64, u64)> = times.iter().map(|(bits, any, n)| (any & ((1 << bits) - 1), *n)).collect();
            let (counted, recorded) = both(&times);
            prop_assert_eq!(told(&counted), told(&recorded));
            prop_assert_eq!(counted, recorded);
        }
    }
}
