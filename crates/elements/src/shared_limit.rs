// SPDX-License-Identifier: MIT OR Apache-2.0
//! A limit on events per second that all workers share without a lock.
//!
//! The state is one number: when the next event would be due if all came evenly (the generic cell rate algorithm of
//! ITU-T I.371, which allows what a token bucket allows). A refused event costs one load, so a flood of events, which
//! is what such limits are for, moves no cache line between cores.

use std::sync::atomic::{AtomicU64, Ordering};

use element::clock::{Nanos, SECOND};
use element::swap::Follows;

/// The limit.
#[derive(Debug)]
pub(crate) struct SharedLimit {
    /// Time between events that come evenly.
    interval: Nanos,
    /// How much earlier than due an event may come.
    tolerance: Nanos,
    due: AtomicU64,
}

impl SharedLimit {
    /// Allows `rate` events per second, `burst` of them at once after a rest. The rate is not 0.
    pub(crate) fn new(rate: u64, burst: u64) -> SharedLimit {
        let interval = SECOND.div_ceil(rate.max(1));
        let tolerance = interval.saturating_mul(burst.saturating_sub(1));
        SharedLimit { interval, tolerance, due: AtomicU64::new(0) }
    }

    /// Whether an event might happen now; nothing is counted.
    #[inline]
    pub(crate) fn has_room(&self, now: Nanos) -> bool {
        self.due.load(Ordering::Relaxed).saturating_sub(now) <= self.tolerance
    }

    /// Whether an event may happen now; one that may is counted.
    pub(crate) fn allows(&self, now: Nanos) -> bool {
        let step = |due: Nanos| {
            let early = due.saturating_sub(now);
            (early <= self.tolerance).then(|| due.max(now).saturating_add(self.interval))
        };
        // Nothing else is published by this number, so no ordering beyond its own.
        self.due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).is_ok()
    }
}

impl Follows for SharedLimit {
    /// Goes on from `old`: the next event is due as it was, but no later than if all that this limit allows had just happened.
    fn follow(&self, now: Nanos, old: &SharedLimit) {
        let latest = now.saturating_add(self.tolerance).saturating_add(self.interval);
        self.due.fetch_max(old.due.load(Ordering::Relaxed).min(latest), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tools::TokenBucket;

    #[test]
    fn extremes() {
        let allowed = |rate, burst| {
            let limit = SharedLimit::new(rate, burst);
            (0..100).filter(|i| limit.allows(i * SECOND)).count()
        };
        assert_eq!((allowed(u64::MAX, 1), allowed(1, u64::MAX), allowed(1, 0)), (100, 100, 100));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        /// Against the token bucket, at rates whose interval is a whole number.
        #[test]
        fn allows_what_a_token_bucket_allows(
            exponent in 0u32..9,
            burst in 1u64..20,
            gaps in prop::collection::vec(0u64..3_000_000_000, 1..100),
        ) {
            let rate = 10u64.pow(exponent);
            let (limit, mut bucket) = (SharedLimit::new(rate, burst), TokenBucket::new(rate, burst));
            let mut now = 0;
            for gap in gaps {
                // Gaps around the interval, so that some events come too early.
                now += gap / rate;
                bucket.refill(now);
                let allowed = bucket.contains(1);
                prop_assert_eq!(limit.has_room(now), allowed, "at {}", now);
                if allowed {
                    bucket.remove(1);
                }
                prop_assert_eq!(limit.allows(now), allowed, "at {}", now);
            }
        }
    }
}
