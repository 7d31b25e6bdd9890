// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mappers: they choose one of several patterns for each new flow of the rewriters that name them.

#[cfg(test)]
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};

use tables::flow::FlowKey;

use super::spec::Target;

/// How one is chosen.
#[derive(Debug)]
enum Way {
    /// One after the other; where one can make no mapping the next is asked.
    Turns(AtomicUsize),
    /// Points on a ring and whose they are, in order: an address belongs to the next point (consistent hashing, Karger et al.
    /// 1997), so that a pattern more or less moves few addresses.
    Ring(Vec<(u64, usize)>),
}

/// Patterns and the way of choosing.
#[derive(Debug)]
pub(super) struct Mapper {
    pub targets: Vec<Target>,
    way: Way,
}

/// Mixes the bits of a number (the finalizer of SplitMix64, Steele et al. 2014).
const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

const fn hash(seed: u64, x: u64) -> u64 {
    mix(mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ x)
}

fn on_ring(ring: &[(u64, usize)], flow: &FlowKey) -> usize {
    let key = mix(u64::from(flow.src));
    let at = ring.partition_point(|(point, _)| *point < key);
    ring.get(at).or(ring.first()).map_or(0, |(_, i)| *i)
}

impl Mapper {
    /// Patterns by turns.
    pub fn turns(targets: Vec<Target>) -> Mapper {
        Mapper { targets, way: Way::Turns(AtomicUsize::new(0)) }
    }

    /// Patterns by source address: each has an identity, and `points` places on the ring.
    pub fn by_source(targets: Vec<Target>, identities: &[u16], points: usize, seed: u64) -> Mapper {
        let point = |id: u16, n: usize| hash(seed, u64::from(id) << 32 | n as u64);
        let all = identities.iter().enumerate();
        let mut ring: Vec<_> = all.flat_map(|(i, id)| (0..points).map(move |n| (point(*id, n), i))).collect();
        // Which of two equal points counts must not depend on the order of the patterns.
        ring.sort_unstable_by_key(|(point, i)| (*point, identities[*i]));
        Mapper { targets, way: Way::Ring(ring) }
    }

    /// How often [`Mapper::pick`] should be asked for one flow.
    pub fn tries(&self) -> usize {
        match self.way {
            Way::Turns(_) => self.targets.len(),
            Way::Ring(_) => 1,
        }
    }

    /// The pattern whose turn it is for this flow.
    pub fn pick(&self, flow: &FlowKey) -> usize {
        match &self.way {
            // Rewriters on other workers may take turns at the same time; flows begin far less often than packets come.
            Way::Turns(next) => next.fetch_add(1, Ordering::Relaxed) % self.targets.len().max(1),
            Way::Ring(ring) => on_ring(ring, flow),
        }
    }

    /// The pattern whose turn it would be for this flow after so many others, without taking it.
    pub fn peek(&self, flow: &FlowKey, others: usize) -> usize {
        match &self.way {
            Way::Turns(next) => next.load(Ordering::Relaxed).wrapping_add(others) % self.targets.len().max(1),
            Way::Ring(ring) => on_ring(ring, flow),
        }
    }

    /// How many of the addresses of 10.0.0.0/16 go to each pattern, for tests.
    #[cfg(test)]
    pub fn shares(&self) -> Vec<usize> {
        let mut shares = vec![0; self.targets.len()];
        self.picks().for_each(|i| shares[i] += 1);
        shares
    }

    #[cfg(test)]
    pub fn picks(&self) -> impl Iterator<Item = usize> + '_ {
        let first = Ipv4Addr::new(10, 0, 0, 0).to_bits();
        (0..1 << 16).map(move |n| {
            self.pick(&FlowKey { src: first + n, dst: 1, sport: 1, dport: 1, proto: 17, zone: 0 })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use element::args::Names;

    fn targets(n: usize) -> Vec<Target> {
        (0..n).map(|_| Target::parse(&["-", "-", "-", "-", "0", "0"], &Names::default()).unwrap()).collect()
    }

    #[test]
    fn shares_are_even() {
        for seed in 0..20 {
            for share in Mapper::by_source(targets(4), &[5, 6, 7, 1000], 200, seed).shares() {
                assert!((11_000..22_500).contains(&share), "{share} of 65536 with seed {seed}");
            }
        }
    }

    #[test]
    fn a_pattern_more_takes_from_all_and_moves_nothing_else() {
        let four = Mapper::by_source(targets(4), &[5, 6, 7, 8], 100, 9);
        // The new one first: the order must not matter.
        let five = Mapper::by_source(targets(5), &[1, 5, 6, 7, 8], 100, 9);
        let mut taken = [0; 4];
        for (old, new) in four.picks().zip(five.picks()) {
            match new {
                0 => taken[old] += 1,
                new => assert_eq!(old, new - 1),
            }
        }
        assert!(taken.iter().all(|n| *n > 500), "{taken:?}");
    }
}
