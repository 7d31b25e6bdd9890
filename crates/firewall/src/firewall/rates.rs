// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many connections sources begin in a time, in fixed room.
//!
//! Each source has a bucket of tokens, which fills at the rate of its rule; a connection takes one. A bucket lies in one of a few places that a keyed hash
//! chooses. If all are taken, the one that will be full soonest gives way, since a full bucket says as much as none. So a source can win only what it would
//! have got soon.

use std::net::IpAddr;

use super::sides::Source;
use crate::policy::Limit;
use crate::proxy::hash;

/// Groups of places; a power of two.
const GROUPS: usize = 16_384;
/// Places of a group.
const PLACES: usize = 4;

/// Bits of an address that its network has in common: 24 with IPv4, 64 with IPv6.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::V4((address.to_bits() & !0xff).into()),
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// The source's hash; 0 for nobody's.
    tag: u64,
    tokens: f64,
    filled_ns: u64,
    rate: f32,
    burst: u32,
}

impl Bucket {
    /// Tokens that it has at a time.
    fn tokens(&self, now_ns: u64) -> f64 {
        let passed = now_ns.saturating_sub(self.filled_ns) as f64 / 1e9;
        (self.tokens + passed * f64::from(self.rate)).min(f64::from(self.burst))
    }

    /// Seconds until it is full. Tokens say less: rules have rates of their own.
    fn full_in_s(&self, now_ns: u64) -> f64 {
        let lacks = f64::from(self.burst) - self.tokens(now_ns);
        if self.tag == 0 { -1.0 } else { lacks / f64::from(self.rate.max(f32::MIN_POSITIVE)) }
    }
}

/// The buckets. They have room from the first one on.
#[derive(Debug)]
pub(super) struct Rates {
    key: [u64; 2],
    groups: Vec<[Bucket; PLACES]>,
}

impl Rates {
    pub(super) fn new(seed: u64) -> Rates {
        Rates { key: [3, 4].map(|word| hash([seed, !seed], &[word])), groups: Vec::new() }
    }

    /// Whether a source, an address or a network, may begin a connection by the rule of a slot. It takes a token if `spends`.
    pub(super) fn allow(
        &mut self,
        now_ns: u64,
        slot: u32,
        (source, is_network): (Source, bool),
        limit: &Limit,
        spends: bool,
    ) -> bool {
        if self.groups.is_empty() {
            self.groups = vec![Default::default(); GROUPS];
        }
        let bits = match source.address {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        let kind = u64::from(source.vrf) << 48 | u64::from(slot) << 1 | u64::from(is_network);
        let tag = hash(self.key, &[bits as u64, (bits >> 64) as u64, kind]).max(1);
        let group = &mut self.groups[tag as usize % GROUPS];
        let known = group.iter().position(|bucket| bucket.tag == tag);
        let full_in_s = |place: &usize| group[*place].full_in_s(now_ns);
        let fullest = || (0..PLACES).min_by(|a, b| full_in_s(a).total_cmp(&full_in_s(b)));
        let Some(place) = known.or_else(fullest) else { return true };
        let tokens = match known {
            Some(place) => group[place].tokens(now_ns).min(limit.burst.into()),
            None => limit.burst.into(),
        };
        let has_one = tokens >= 1.0;
        if spends {
            let tokens = if has_one { tokens - 1.0 } else { tokens };
            let (rate, burst) = (limit.rate as f32, limit.burst);
            group[place] = Bucket { tag, tokens, filled_ns: now_ns, rate, burst };
        }
        has_one
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::policy::SECOND;

    const LIMIT: Limit = Limit { rate: 2.0, burst: 3 };

    fn source(n: u32) -> (Source, bool) {
        (Source { vrf: 0, address: Ipv4Addr::from(n).into() }, false)
    }

    #[test]
    fn sources_have_tokens_of_their_own() {
        let mut rates = Rates::new(1);
        for (now, expected) in [(0, 3), (0, 0), (SECOND / 2, 1), (SECOND, 1), (9 * SECOND, 3)] {
            assert_eq!(rates.allow(now, 1, source(7), &LIMIT, false), expected > 0);
            let allowed = (0..5).filter(|_| rates.allow(now, 1, source(7), &LIMIT, true)).count();
            assert_eq!(allowed, expected, "{now}");
        }
        // Others, other rules, the same address in another VRF, and the network of the same number.
        let elsewhere = Source { vrf: 1, ..source(7).0 };
        assert!(rates.allow(9 * SECOND, 1, (elsewhere, false), &LIMIT, true));
        assert!(rates.allow(9 * SECOND, 1, source(8), &LIMIT, true));
        assert!(rates.allow(9 * SECOND, 2, source(7), &LIMIT, true));
        assert!(rates.allow(9 * SECOND, 1, (source(7).0, true), &LIMIT, true));
    }

    #[test]
    fn many_sources_take_no_more_room_and_do_not_free_those_that_are_over() {
        let mut rates = Rates::new(1);
        for _ in 0..4 {
            rates.allow(0, 1, source(7), &LIMIT, true);
        }
        // Each begins one connection: its bucket is fuller than the empty one.
        for n in 100..400_100 {
            rates.allow(0, 1, source(n), &LIMIT, true);
        }
        assert!(!rates.allow(0, 1, source(7), &LIMIT, true));
        assert_eq!(rates.groups.len(), GROUPS);
    }

    #[test]
    fn sources_of_a_fast_rule_do_not_free_those_of_a_slow_one() {
        let mut rates = Rates::new(1);
        let slow = Limit { rate: 1.0 / 3600.0, burst: 3 };
        let fast = Limit { rate: 1000.0, burst: 1000 };
        for _ in 0..4 {
            rates.allow(0, 1, source(7), &slow, true);
        }
        // These lack more tokens, and have them sooner.
        for n in 100..300_100 {
            for _ in 0..5 {
                rates.allow(0, 2, source(n), &fast, true);
            }
        }
        assert!(!rates.allow(0, 1, source(7), &slow, true));
    }

    #[test]
    fn networks_are_of_24_and_64_bits() {
        for (address, expected) in [("10.1.2.3", "10.1.2.0"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::")] {
            assert_eq!(network(address.parse().unwrap()), expected.parse::<IpAddr>().unwrap());
        }
    }
}
