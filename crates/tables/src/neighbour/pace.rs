// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast sources may ask for neighbours that nobody asked for before.
//!
//! Token buckets in a fixed array, chosen by a seeded hash of the [`Share`]: constant memory and one cache line for each
//! question, so that refusing a scan costs less than forwarding it. Sources that fall into one bucket share it.

use super::{SECOND, Share};
use crate::hash::hash128;

const BUCKETS: usize = 256;

#[derive(Debug)]
pub(super) struct Pace {
    seed: u64,
    /// For each bucket the time at which it would be full again (the virtual scheduling form of a token bucket).
    full_ns: Box<[u64; BUCKETS]>,
}

impl Pace {
    pub(super) fn new(seed: u64) -> Self {
        Pace { seed, full_ns: Box::new([0; BUCKETS]) }
    }

    /// Whether `share` may make another entry now, at `rate` a second and `rate` at once; 0 means any number.
    pub(super) fn allows(&mut self, share: Share, rate: u32, now_ns: u64) -> bool {
        if rate == 0 {
            return true;
        }
        let hash = hash128(self.seed, share.source, share.interface.into());
        let full_ns = &mut self.full_ns[hash as usize % BUCKETS];
        let next_ns = now_ns.max(*full_ns) + SECOND / u64::from(rate);
        let ok = next_ns <= now_ns + SECOND;
        if ok {
            *full_ns = next_ns;
        }
        ok
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_at_once_then_the_rate() {
        let mut pace = Pace::new(1);
        let share = Share { interface: 1, source: 7 };
        let mut allowed = |from: u64, to: u64| {
            let each = (from..to).filter(|ms| pace.allows(share, 10, ms * SECOND / 1000));
            each.count()
        };
        assert_eq!(allowed(0, 1), 1);
        assert_eq!(allowed(1, 100), 9);
        assert_eq!(allowed(100, 1100), 10);
        assert_eq!(allowed(9000, 9050), 10);
        assert!((0..99).all(|_| pace.allows(share, 0, 0)));
    }
}
