// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many error messages may be sent: token buckets for all together and for each destination (RFC 1812, 4.3.2.8;
//! RFC 4443, 2.4 f).
//!
//! The destinations are remembered in a table of fixed size, so a flood from forged sources takes no memory; it can make
//! a destination be forgotten, whose bucket is then full again, but the limit on all together holds.

use std::sync::Arc;

use element::args::Args;
use element::clock::Nanos;
use element::{LockUse, When};
use sync::lock::{AdaptiveLock, How};

use crate::shared_limit::SharedLimit;
use crate::tools::TokenBucket;
use element::swap::Carried;

/// Destinations remembered at a time.
const DESTINATIONS: usize = 4096;
/// Places at which a destination can be remembered.
const WAYS: usize = 4;
/// Messages at once by default: to all, and to one.
const BURSTS: (u64, u64) = (50, 6);

/// The limits of an element, common to its instances. Without any it costs nothing; without those on destinations it
/// takes no lock.
#[derive(Clone, Default)]
pub(crate) struct Limits {
    all: Option<Arc<SharedLimit>>,
    each: Option<Arc<AdaptiveLock<Destinations>>>,
}

/// A bucket for each destination.
struct Destinations {
    fresh: TokenBucket,
    slots: Vec<(u128, TokenBucket)>,
}

impl Limits {
    /// Reads `RATE`, `BURST`, `DST_RATE` and `DST_BURST`; a rate of 0 is no limit.
    pub(crate) fn from_args(args: &mut Args<'_>) -> Limits {
        Limits::from_args_or(args, None)
    }

    /// The same, with a limit on all together where none is given.
    pub(crate) fn from_args_or(args: &mut Args<'_>, default: Option<u64>) -> Limits {
        let mut limit = |rate_name, burst_name, rate, usual| {
            let rate: Option<u64> = args.keyword_opt(rate_name).or(rate);
            let burst: Option<u64> = args.keyword_opt(burst_name);
            match (rate, burst) {
                (_, Some(0)) => args.error(format!("{burst_name} must be at least 1")),
                (None, Some(_)) => args.error(format!("{burst_name} needs {rate_name}")),
                _ => {}
            }
            rate.filter(|rate| *rate > 0).map(|rate| (rate, burst.unwrap_or(usual).max(1)))
        };
        let all = limit("RATE", "BURST", default, BURSTS.0);
        let each = limit("DST_RATE", "DST_BURST", None, BURSTS.1);
        let destinations = |(rate, burst)| {
            let fresh = TokenBucket::new(rate, burst);
            Arc::new(AdaptiveLock::new(Destinations { slots: vec![(0, fresh.clone()); DESTINATIONS], fresh }))
        };
        Limits {
            all: all.map(|(rate, burst)| Arc::new(SharedLimit::new(rate, burst))),
            each: each.map(destinations),
        }
    }

    /// The lock that they take.
    pub(crate) fn locks(&self) -> Vec<LockUse> {
        let why = "each message looks at its destination's bucket (DST_RATE; without it there is no lock)";
        let lock = || LockUse::new(How::Adaptive, "the destinations' limits", When::EachBatch, why);
        self.each.iter().map(|_| lock()).collect()
    }

    /// Whether another message may be sent to `to` now, which then counts.
    #[inline]
    pub(crate) fn admit(&self, now: Nanos, to: u128) -> bool {
        let all = || self.all.as_ref().is_none_or(|all| all.allows(now));
        let Some(each) = &self.each else { return all() };
        // In a flood this refuses nearly all, with one load and without the lock.
        if self.all.as_ref().is_some_and(|all| !all.has_room(now)) {
            return false;
        }
        let mut each = each.lock();
        let bucket = each.bucket(now, to);
        bucket.refill(now);
        // What one limit refuses does not count against the other.
        let admitted = bucket.contains(1) && all();
        if admitted {
            bucket.remove(1);
        }
        admitted
    }
}

impl Carried for Limits {
    fn carry(&mut self, now: Nanos, old: &mut Limits) {
        self.all.carry(now, &mut old.all);
        if let (Some(mine), Some(theirs)) = (&self.each, &old.each) {
            let lock = |each: &AdaptiveLock<Destinations>| std::mem::take(&mut each.lock().slots);
            let theirs = lock(theirs);
            let mut mine = mine.lock();
            // Instances share the buckets: the first instance takes them.
            for (slot, (to, mut bucket)) in mine.slots.iter_mut().zip(theirs) {
                slot.0 = to;
                slot.1.carry(now, &mut bucket);
            }
        }
    }
}

impl Destinations {
    /// The bucket of a destination. A new one takes the place of that which is most nearly full.
    fn bucket(&mut self, now: Nanos, to: u128) -> &mut TokenBucket {
        // Fibonacci hashing (Knuth, volume 3, 6.4) of the two halves, which differ in their low bits.
        let mixed = (to as u64 ^ ((to >> 64) as u64).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let first = (mixed >> 32) as usize % (DESTINATIONS / WAYS) * WAYS;
        let ways = &mut self.slots[first..first + WAYS];
        let at = ways.iter().position(|(key, _)| *key == to).unwrap_or_else(|| {
            ways.iter_mut().for_each(|(_, bucket)| bucket.refill(now));
            let fullest = (0..WAYS).max_by_key(|way| ways[*way].1.tokens()).unwrap_or(0);
            ways[fullest] = (to, self.fresh.clone());
            fullest
        });
        &mut ways[at].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use element::args::Names;
    use element::clock::SECOND;

    fn limits(config: &str) -> (Limits, Vec<String>) {
        let names = Names::default();
        let mut args = Args::new(config, "e", (1, 1), &names);
        let limits = Limits::from_args(&mut args);
        (limits, args.errors().to_vec())
    }

    fn admitted(limits: &Limits, now: Nanos, to: impl Iterator<Item = u128>) -> usize {
        to.filter(|to| limits.admit(now, *to)).count()
    }

    #[test]
    fn buckets_fill_with_time() {
        let (all, _) = limits("RATE 10, BURST 5");
        assert_eq!(admitted(&all, 0, 0..100), 5);
        assert_eq!(admitted(&all, SECOND / 10 * 3, 0..100), 3);
        assert_eq!(admitted(&all, 100 * SECOND, 0..100), 5);
        let (each, _) = limits("DST_RATE 1");
        assert_eq!(admitted(&each, 0, (0..100).map(|i| i % 2)), 12);
        assert_eq!(admitted(&each, SECOND, (0..100).map(|i| i % 2)), 2);
        assert_eq!(admitted(&limits("").0, 0, 0..100), 100);
    }

    #[test]
    fn a_refused_message_counts_nowhere() {
        let (both, _) = limits("RATE 1, BURST 10, DST_RATE 1, DST_BURST 2");
        assert_eq!(admitted(&both, 0, std::iter::repeat_n(7, 50)), 2);
        assert_eq!(admitted(&both, 0, 100..150), 8, "what was refused to one is left for the others");
    }

    #[test]
    fn many_destinations_take_no_memory_and_forget_the_fullest_first() {
        let (each, _) = limits("DST_RATE 1, DST_BURST 3");
        assert_eq!(admitted(&each, 0, std::iter::repeat_n(u128::MAX, 3)), 3);
        assert_eq!(admitted(&each, 0, 0..2000), 2000);
        assert!(!each.admit(0, u128::MAX), "still empty");
    }

    #[test]
    fn arguments() {
        assert_eq!(limits("RATE 1, BURST 0").1, ["BURST must be at least 1"]);
        assert_eq!(limits("DST_BURST 3").1, ["DST_BURST needs DST_RATE"]);
    }
}
