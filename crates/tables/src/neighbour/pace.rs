// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast sources may ask for neighbours that nobody asked for before, and how many packets for unknown neighbours a worker
//! brings to the table at all.
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

/// Packets of one interface that may come at once after a rest.
const AT_ONCE: u64 = 512;
/// The same of one source.
const AT_ONCE_OF_SOURCE: u64 = 256;
/// A source has this part of its interface's rate.
const SOURCE_PART: u64 = 8;
/// Interfaces told apart.
const INTERFACES: usize = 16;

/// One worker's limit on packets for neighbours that are not known, asked before the table is.
///
/// Whoever floods a router with packets to neighbours that are not there makes it ask, queue and evict, each of which costs
/// many times what forwarding a packet does. Who gets beyond the limit is turned away for the price of two lines
/// of memory; an interface and a source have limits of their own, so that others go on being asked for.
#[derive(Debug)]
pub struct Admission {
    seed: u64,
    /// Time for one packet of an interface, 0 without limit.
    interval_ns: u64,
    /// When each would have all its packets again (virtual scheduling).
    interfaces: Box<[u64; INTERFACES]>,
    sources: Box<[u64; BUCKETS]>,
}

impl Admission {
    /// `rate` packets of each interface in a second, 512 at once after a rest, and of each source an eighth of that rate
    /// and half as many at once; 0 means any number. `seed` should be random.
    pub fn new(rate: u32, seed: u64) -> Self {
        let interval_ns = SECOND.checked_div(rate.into()).map_or(0, |ns| ns.max(1));
        Self { seed, interval_ns, interfaces: Box::new([0; INTERFACES]), sources: Box::new([0; BUCKETS]) }
    }

    /// Whether a packet of `share` may go to the table now; if so it counts.
    #[inline]
    pub fn admits(&mut self, share: Share, now_ns: u64) -> bool {
        if self.interval_ns == 0 {
            return true;
        }
        let (whole_ns, part_ns) = (self.interval_ns, self.interval_ns * SOURCE_PART);
        let hash = hash128(self.seed, share.source, share.interface.into());
        let interface = &mut self.interfaces[share.interface as usize % INTERFACES];
        let source = &mut self.sources[hash as usize % BUCKETS];
        let interface_ns = now_ns.max(*interface) + whole_ns;
        let source_ns = now_ns.max(*source) + part_ns;
        let ok =
            interface_ns <= now_ns + AT_ONCE * whole_ns && source_ns <= now_ns + AT_ONCE_OF_SOURCE * part_ns;
        if ok {
            (*interface, *source) = (interface_ns, source_ns);
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

    #[test]
    fn a_flood_takes_its_interface_and_its_source_only() {
        let mut admission = Admission::new(2000, 1);
        let mut admitted = |interface, sources: std::ops::Range<u64>, at_ms: u64, packets: usize| {
            let shares = sources.cycle().map(|source| Share { interface, source });
            shares.take(packets).filter(|share| admission.admits(*share, at_ms * SECOND / 1000)).count()
        };
        assert_eq!(admitted(1, 7..8, 0, 9000), 256, "one source");
        assert_eq!(admitted(1, 0..5000, 0, 9000), 256, "what is left to the interface");
        assert_eq!(admitted(2, 0..5000, 0, 9000), 512, "another interface");
        assert_eq!(admitted(1, 7..8, 100, 9000), 25, "an eighth of the rate");
        assert_eq!(admitted(1, 0..5000, 100, 9000), 175, "the rest of it");
        let mut without = Admission::new(0, 1);
        assert!((0..9000).all(|_| without.admits(Share::default(), 0)));
    }
}
