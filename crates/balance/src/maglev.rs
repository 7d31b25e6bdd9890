// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maglev hashing: which server does a hash lead to?
//!
//! A table has a prime number of places, far more than servers, and each place names a server (Eisenbud et al., *Maglev: A Fast and
//! Reliable Software Network Load Balancer*, 2016, section 3.4). Each server has an order of its own in which it wants the places.
//! Servers take turns, and each takes the first place of its order that is free.
//!
//! So shares differ by few places at most. When a server comes or goes, few places change apart from its own.
//!
//! **Weights.** The turns of a server are evenly spaced in a virtual time: the first one is at 0, the *n*-th one after it at *n* / weight. So the order
//! of the turns of others does not depend on a server's weight, and each server gets a place. With equal weights this is the paper's round-robin.
//!
//! **Size.** 65,537 places (128 KiB) for up to [`FEW`] servers, 655,373 (1.3 MB) for more. At least 100 places for each server keep its share within 1 %.
//! Another size moves nearly all places, so it follows from the servers of the file, alive or not.
//!
//! **Building** takes about `M ln M` looks at places. A [`Builder`] does some at a time, so that packets need not wait.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Places of a table.
pub const SIZE: u32 = 65_537;
/// Places for more servers.
pub const SIZE_MANY: u32 = 655_373;
/// So many servers have tables of [`SIZE`] places.
pub const FEW: usize = 100;

/// Places of a table for so many servers.
pub fn size_for(servers: usize) -> u32 {
    if servers <= FEW { SIZE } else { SIZE_MANY }
}

/// A place that nobody has taken.
const FREE: u16 = u16::MAX;

/// A server that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Who it is, wherever the file names it.
    pub identity: u64,
    /// Its weight, at least 1.
    pub weight: u16,
    /// What the table leads to.
    pub target: u32,
}

/// Mixes 64 bits, so that each bit of the result depends on all of them (Steele et al., *Fast Splittable Pseudorandom Number Generators*, 2014).
#[inline]
pub fn mix(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// A table from hashes to servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// For each place, which of the targets.
    places: Box<[u16]>,
    targets: Box<[u32]>,
    /// Places of each target.
    counts: Box<[u32]>,
    signature: u64,
}

impl Table {
    /// The table of some servers, made at once.
    pub fn of(members: &[Member], size: u32) -> Table {
        let mut builder = Builder::new(members, size);
        while !builder.step(usize::MAX) {}
        builder.finish()
    }

    /// The target of a hash; none if there are no servers.
    #[inline]
    pub fn pick(&self, hash: u64) -> Option<u32> {
        // A multiplication and a shift map 64 bits to any number of places (Lemire 2019).
        let place = ((u128::from(hash) * self.places.len() as u128) >> 64) as usize;
        self.targets.get(usize::from(*self.places.get(place)?)).copied()
    }

    /// How many places there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether it leads nowhere.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Targets, each with its number of places.
    pub fn shares(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.targets.iter().copied().zip(self.counts.iter().copied())
    }

    /// The target at each place.
    pub fn targets(&self) -> impl Iterator<Item = u32> + Clone + '_ {
        self.places.iter().map(|at| self.targets[usize::from(*at)])
    }

    /// Says by which servers it was made: see [`signature`].
    pub fn signature(&self) -> u64 {
        self.signature
    }
}

/// A number that differs where tables of these members do, in all likelihood.
pub fn signature(members: &[Member], size: u32) -> u64 {
    let part = members.iter().filter(|member| member.weight > 0);
    part.fold(u64::from(size), |sum, member| {
        let one = mix(member.identity) ^ mix(u64::from(member.target) << 16 | u64::from(member.weight));
        mix(sum.rotate_left(5) ^ one)
    })
}

/// A server's order of places: the first one, the distance, and the next one.
#[derive(Clone, Copy, Debug)]
struct Order {
    at: u32,
    skip: u32,
    /// Virtual time between turns.
    pace: u64,
}

/// Builds a table, some places at a time.
#[derive(Debug)]
pub struct Builder {
    places: Vec<u16>,
    orders: Vec<Order>,
    /// (time, identity, member) of the next turns.
    turns: BinaryHeap<Reverse<(u64, u64, u16)>>,
    taken: usize,
    targets: Box<[u32]>,
    counts: Box<[u32]>,
    signature: u64,
}

impl Builder {
    /// Begins a table with a prime number of places. Members with weight 0 take no part, nor do those after the first 65,535.
    pub fn new(members: &[Member], size: u32) -> Builder {
        let part: Vec<Member> =
            members.iter().copied().filter(|member| member.weight > 0).take(usize::from(FREE)).collect();
        let signature = signature(members, size);
        let size = if part.is_empty() { 0 } else { size };
        let order = |member: &Member| Order {
            at: (mix(member.identity) % u64::from(size)) as u32,
            skip: (mix(!member.identity) % u64::from(size - 1)) as u32 + 1,
            pace: (1 << 40) / u64::from(member.weight),
        };
        let orders: Vec<Order> = part.iter().map(order).collect();
        // Each has its first turn before anybody has a second one: so it gets a place, however small its weight is.
        let first = |(n, member): (usize, &Member)| Reverse((0, member.identity, n as u16));
        Builder {
            places: vec![FREE; size as usize],
            turns: part.iter().enumerate().map(first).collect(),
            taken: 0,
            counts: vec![0; part.len()].into(),
            targets: part.iter().map(|member| member.target).collect(),
            signature,
            orders,
        }
    }

    /// The signature of its members.
    pub fn signature(&self) -> u64 {
        self.signature
    }

    /// Looks at about so many places. Returns whether the table is complete.
    pub fn step(&mut self, looks: usize) -> bool {
        let (size, mut looked) = (self.places.len() as u32, 0);
        while self.taken < self.places.len() && looked < looks {
            let Some(mut turn) = self.turns.peek_mut() else { break };
            let Reverse((time, _, member)) = &mut *turn;
            let order = &mut self.orders[usize::from(*member)];
            loop {
                looked += 1;
                let place = order.at;
                order.at =
                    if place >= size - order.skip { place - (size - order.skip) } else { place + order.skip };
                if self.places[place as usize] == FREE {
                    self.places[place as usize] = *member;
                    break;
                }
                if looked >= looks {
                    return false;
                }
            }
            self.taken += 1;
            self.counts[usize::from(*member)] += 1;
            *time += order.pace;
        }
        self.taken == self.places.len()
    }

    /// The table.
    pub fn finish(self) -> Table {
        let Builder { places, targets, counts, signature, .. } = self;
        Table { places: places.into(), targets, counts, signature }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(weights: &[u16]) -> Vec<Member> {
        let one = |(n, weight): (usize, &u16)| Member {
            identity: mix(n as u64 + 77),
            weight: *weight,
            target: 1000 + n as u32,
        };
        weights.iter().enumerate().map(one).collect()
    }

    /// Places of each target.
    fn counts(table: &Table, n: usize) -> Vec<usize> {
        let mut counts = vec![0; n];
        table.targets().for_each(|target| counts[target as usize - 1000] += 1);
        assert!(table.shares().all(|(target, count)| counts[target as usize - 1000] == count as usize));
        counts
    }

    /// The part of places that lead elsewhere.
    fn moved(one: &Table, other: &Table) -> f64 {
        let all = one.targets().zip(other.targets());
        let count = all.clone().count() as f64;
        all.filter(|(one, other)| one != other).count() as f64 / count
    }

    #[test]
    fn shares_follow_weights() {
        for weights in [vec![1; 1000], vec![1; 3], vec![1, 2, 3, 10], (0..500).map(|n| 1 + n % 3).collect()] {
            let all = members(&weights);
            let table = Table::of(&all, size_for(all.len()));
            let places = table.targets().count() as f64;
            let sum: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
            for (count, weight) in counts(&table, all.len()).into_iter().zip(&weights) {
                let due = places * f64::from(*weight) / sum;
                assert!((count as f64 - due).abs() <= due / 100.0 + 1.0, "{count} in place of {due}");
            }
        }
    }

    #[test]
    fn each_server_has_a_place() {
        for (heavy, n) in [(99, 1), (50, 50), (4000, 96)] {
            let weights = [vec![1000; heavy], vec![1; n]].concat();
            let all = members(&weights);
            let counts = counts(&Table::of(&all, size_for(all.len())), all.len());
            assert!(counts.iter().all(|count| *count > 0), "{heavy} and {n}");
            assert!(counts[heavy..].iter().all(|count| *count <= 2), "{heavy} and {n}");
        }
    }

    /// The paper's program, as it is printed: whole permutations, and turns one after the other.
    fn naive(members: &[Member], size: u64) -> Vec<u32> {
        let mut members = members.to_vec();
        members.sort_by_key(|member| member.identity);
        let permutation = |member: &Member| {
            let (offset, skip) = (mix(member.identity) % size, mix(!member.identity) % (size - 1) + 1);
            (0..size).map(|j| ((offset + j * skip) % size) as usize).collect::<Vec<usize>>()
        };
        let permutations: Vec<Vec<usize>> = members.iter().map(permutation).collect();
        let (mut next, mut entry, mut filled) = (vec![0; members.len()], vec![None; size as usize], 0);
        loop {
            for (i, member) in members.iter().enumerate() {
                let mut place = permutations[i][next[i]];
                while entry[place].is_some() {
                    next[i] += 1;
                    place = permutations[i][next[i]];
                }
                entry[place] = Some(member.target);
                next[i] += 1;
                filled += 1;
                if filled == entry.len() {
                    return entry.into_iter().flatten().collect();
                }
            }
        }
    }

    #[test]
    fn equal_weights_give_the_table_of_the_paper() {
        for (n, size) in [(1, 7), (2, 7), (3, 7), (7, 13), (10, 1009), (50, 5003)] {
            let all = members(&vec![3; n]);
            let table = Table::of(&all, size);
            assert_eq!(table.targets().collect::<Vec<_>>(), naive(&all, size.into()), "{n} of {size}");
        }
    }

    #[test]
    fn few_places_move() {
        for n in [2usize, 3, 10, 100, 101, 300, 1000] {
            let size = size_for(n);
            let all = members(&vec![10; n]);
            let table = Table::of(&all, size_for(all.len()));
            let at = n / 2;
            let without: Vec<Member> = [&all[..at], &all[at + 1..]].concat();
            let mut lighter = all.clone();
            lighter[at].weight = 5;
            let mut heavier = all.clone();
            heavier[at].weight = 11;
            for (name, other) in [("gone", without), ("lighter", lighter), ("heavier", heavier)] {
                let moved = moved(&table, &Table::of(&other, size));
                assert!(moved <= 1.0 / n as f64 + 0.01, "{name} of {n}: {moved}");
            }
        }
    }

    #[test]
    fn a_table_does_not_depend_on_steps_or_on_the_order_of_the_file() {
        let all = members(&[3, 1, 0, 2, 7]);
        let table = Table::of(&all, size_for(all.len()));
        assert_eq!(table.signature(), signature(&all, SIZE));
        for looks in [1, 2, 1000] {
            let mut builder = Builder::new(&all, SIZE);
            while !builder.step(looks) {}
            assert_eq!(builder.finish(), table);
        }
        let turned: Vec<Member> = all.iter().rev().copied().collect();
        assert!(Table::of(&turned, SIZE).targets().eq(table.targets()));
        assert!(table.targets().all(|target| target != 1002));
        assert_eq!(Table::of(&members(&[0]), SIZE).pick(7), None);
        assert_eq!(Table::default().pick(7), None);
        assert_eq!(Table::of(&members(&[1]), SIZE).pick(u64::MAX), Some(1000));
    }
}
