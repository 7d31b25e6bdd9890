// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast sources may ask for neighbours that nobody asked for before, and how many packets for unknown neighbours a worker
//! brings to the table at all.
//!
//! Token buckets in a fixed array, chosen by a seeded hash of the [`Share`]: constant memory and one cache line for each
//! question, so that refusing a scan costs less than forwarding it. Sources that fall into one bucket share it.

use super::filter::Filter;
use super::{Address, SECOND, Share};
use crate::hash::hash128;
use std::sync::Arc;

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
/// Interfaces that are distinguished.
const INTERFACES: usize = 16;

/// A bucket's tokens, by the time at which it would have all of them again (virtual scheduling).
fn has_one(full_ns: u64, now_ns: u64, each_ns: u64, at_once: u64) -> Option<u64> {
    let next_ns = now_ns.max(full_ns) + each_ns;
    (next_ns <= now_ns + at_once * each_ns).then_some(next_ns)
}

/// One worker's limit on packets for neighbours that are not known, asked before the table is.
///
/// A sender that floods a router with packets to absent neighbours makes it ask, queue and evict. Each of these costs many times
/// what forwarding a packet does. While the table is crowded with neighbours that do not answer, so many packets as the
/// limit says go to it, and the others are turned away for the price of a few lines of memory.
///
/// Others should go on being asked for. A source has its own limit, a part of its interface's: one that floods, or a few, leave the
/// rest to others. Where there are so many that the interface's limit is reached, a first packet may be turned away. But then its
/// destination is remembered for a second or two. A packet that tries again finds a limit of its own, as large. (Forged sources
/// and destinations at more than some 100,000 packets a second fill that memory; then all have the same chance with each packet.)
#[derive(Debug)]
pub struct Admission {
    seed: u64,
    /// Time for one packet of an interface, 0 without limit.
    interval_ns: u64,
    /// Whether the table is crowded.
    filter: Arc<Filter>,
    /// When each would have all its packets again: first ones, and those that try again.
    interfaces: Box<[[u64; 2]; INTERFACES]>,
    sources: Box<[u64; BUCKETS]>,
    tried: Tried,
}

impl Admission {
    /// `rate` packets of each interface in a second, 512 at once after a rest, and of each source an eighth of that rate
    /// and half as many at once; 0 means any number. `seed` should be random.
    pub(super) fn new(rate: u32, seed: u64, filter: Arc<Filter>) -> Self {
        let interval_ns = SECOND.checked_div(rate.into()).map_or(0, |ns| ns.max(1));
        let (interfaces, sources) = (Box::new([[0; 2]; INTERFACES]), Box::new([0; BUCKETS]));
        Self { seed, interval_ns, filter, interfaces, sources, tried: Tried::default() }
    }

    /// Whether a packet of `sender` for `ip` may go to the table now; if so it counts. The sender is a host, though hosts may have
    /// one share of the table together.
    #[inline]
    pub fn admits<A: Address>(&mut self, sender: impl FnOnce() -> Share, ip: A, now_ns: u64) -> bool {
        self.interval_ns == 0 || !self.filter.crowded() || self.has_room(sender(), ip.word(), now_ns)
    }

    fn has_room(&mut self, share: Share, ip: u64, now_ns: u64) -> bool {
        let (whole_ns, part_ns) = (self.interval_ns, self.interval_ns * SOURCE_PART);
        let hash = hash128(self.seed, share.source, share.interface.into());
        let source = &mut self.sources[hash as usize % BUCKETS];
        let Some(source_ns) = has_one(*source, now_ns, part_ns, AT_ONCE_OF_SOURCE) else { return false };
        let [first, again] = &mut self.interfaces[share.interface as usize % INTERFACES];
        if let Some(next_ns) = has_one(*first, now_ns, whole_ns, AT_ONCE) {
            *first = next_ns;
        } else if self.tried.before(hash128(self.seed, ip, 1), now_ns)
            && let Some(next_ns) = has_one(*again, now_ns, whole_ns, AT_ONCE)
        {
            *again = next_ns;
        } else {
            return false;
        }
        *source = source_ns;
        true
    }
}

/// Bits of [`Tried`] for one second.
const TRIED: usize = 1 << 17;

/// What was turned away lately: a Bloom filter with one hash function for this second and one for the last. There is none until
/// something is turned away.
#[derive(Debug, Default)]
struct Tried {
    /// When the younger one began.
    since_ns: u64,
    seconds: [Vec<u64>; 2],
}

impl Tried {
    /// Whether this was here before; if not, it is from now on.
    fn before(&mut self, hash: u64, now_ns: u64) -> bool {
        if self.seconds[0].is_empty() || now_ns >= self.since_ns + SECOND {
            // After a long rest both are old.
            let rested = self.seconds[0].is_empty() || now_ns >= self.since_ns + 2 * SECOND;
            self.since_ns = now_ns;
            self.seconds.swap(0, 1);
            for second in &mut self.seconds[..if rested { 2 } else { 1 }] {
                second.clear();
                second.resize(TRIED / 64, 0);
            }
        }
        let (word, bit) = (hash as usize % TRIED / 64, 1 << (hash >> 58));
        let [now, last] = &mut self.seconds;
        let known = (now[word] | last[word]) & bit != 0;
        now[word] |= bit;
        known
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

    fn limited(rate: u32) -> Admission {
        let filter = Arc::new(Filter::default());
        filter.crowd(true);
        Admission::new(rate, 1, filter)
    }

    #[test]
    fn a_flood_takes_its_interface_and_its_source_only() {
        let mut admission = limited(2000);
        let mut ip = 0u32;
        let mut admitted = |interface, sources: std::ops::Range<u64>, at_ms: u64, packets: usize| {
            let shares = sources.cycle().map(|source| Share { interface, source });
            let mut admits = |share: &Share| {
                ip += 1;
                admission.admits(|| *share, ip, at_ms * SECOND / 1000)
            };
            shares.take(packets).filter(|share| admits(share)).count()
        };
        assert_eq!(admitted(1, 7..8, 0, 9000), 256, "one source");
        // Some seem to try again.
        let within =
            |got: usize, first: usize| assert!((first..first + 500).contains(&got), "{got}, not {first}");
        within(admitted(1, 0..5000, 0, 4000), 256);
        within(admitted(2, 0..5000, 0, 4000), 512);
        assert_eq!(admitted(1, 7..8, 100, 9000), 25, "an eighth of the rate");
        within(admitted(1, 0..5000, 100, 4000), 175);
        let mut without = limited(0);
        assert!((0..9000u32).all(|ip| without.admits(Share::default, ip, 0)));
    }

    #[test]
    fn nobody_is_turned_away_while_there_is_room() {
        let mut admission = limited(10);
        admission.filter.crowd(false);
        assert!((0..9000u32).all(|ip| admission.admits(Share::default, ip, 0)));
        admission.filter.crowd(true);
        assert!((0..9000u32).any(|ip| !admission.admits(Share::default, ip, 0)));
    }

    /// During a flood of forged sources and destinations, a sender that is turned away tries again after a second.
    #[test]
    fn who_tries_again_gets_in() {
        let mut admission = limited(20_000);
        let mut rng = 1u64;
        let mut random = || {
            rng = hash128(7, rng, 1);
            rng
        };
        let mut flood = |admission: &mut Admission, from_ms: u64| {
            for us in (from_ms * 1000..from_ms * 1000 + 900_000).step_by(20) {
                let share = Share { interface: 1, source: random() };
                admission.admits(|| share, random() as u32, us * 1000);
            }
        };
        let tries = |admission: &mut Admission, ms: u64| {
            let all = 0xf000_0000..0xf000_0200u32;
            let share = |ip: u32| Share { interface: 1, source: ip.into() };
            all.filter(|ip| admission.admits(|| share(*ip), *ip, ms * SECOND / 1000)).count()
        };
        flood(&mut admission, 0);
        let first = tries(&mut admission, 900);
        flood(&mut admission, 1000);
        let again = tries(&mut admission, 1900);
        assert!(first < 256 && again >= 500, "{first} and {again} of 512");
    }
}
