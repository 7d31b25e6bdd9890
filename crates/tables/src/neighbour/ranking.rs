// SPDX-License-Identifier: MIT OR Apache-2.0
//! The heaviest of many, where weights change by little: constant time for a change by one, and for the answer.
//!
//! Members of equal weight stand in one bucket, in the order in which they came to that weight; buckets stand in a list by weight. A change by one
//! moves a member to the bucket next to its own, or makes one there, or, if the member is alone, changes what is written on its bucket. (The
//! structure is that of Shah, Mitra and Matani, 2010, for the least frequently used.)
//!
//! ```text
//!   Ranks { lightest, heaviest } --> [weight 1: a, d, e] <-> [weight 2: c] <-> [weight 9: b]
//! ```
//!
//! One [`Ranking`] serves many parents, each with [`Ranks`] of its own: a member belongs to one of them, and its owner knows which.

use crate::slab::Id;

const NONE: u32 = u32::MAX;

/// The members of one parent: its buckets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranks {
    lightest: u32,
    heaviest: u32,
}

impl Default for Ranks {
    fn default() -> Self {
        Ranks { lightest: NONE, heaviest: NONE }
    }
}

#[derive(Clone, Copy, Debug)]
struct Member {
    /// None while it has no weight.
    bucket: u32,
    previous: u32,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    weight: usize,
    first: u32,
    last: u32,
    lighter: u32,
    /// The next heavier one, or the next free one.
    heavier: u32,
}

/// Weights of members, which are small numbers.
#[derive(Debug)]
pub(super) struct Ranking {
    members: Vec<Member>,
    buckets: Vec<Bucket>,
    free: u32,
}

impl Default for Ranking {
    fn default() -> Self {
        Ranking { members: Vec::new(), buckets: Vec::new(), free: NONE }
    }
}

impl Ranking {
    /// The member of greatest weight; among equals, the one that has had it longest.
    #[inline]
    pub(super) fn heaviest(&self, ranks: &Ranks) -> Option<Id> {
        (ranks.heaviest != NONE).then(|| self.buckets[ranks.heaviest as usize].first)
    }

    /// A member's weight.
    #[inline]
    pub(super) fn weight(&self, id: Id) -> usize {
        let bucket = self.members.get(id as usize).map_or(NONE, |member| member.bucket);
        if bucket == NONE { 0 } else { self.buckets[bucket as usize].weight }
    }

    /// Changes a member's weight; it begins with none, and one of none is forgotten.
    pub(super) fn change(&mut self, ranks: &mut Ranks, id: Id, by: isize) {
        let at = id as usize;
        if self.members.len() <= at {
            self.members.resize(at + 1, Member { bucket: NONE, previous: NONE, next: NONE });
        }
        let old = self.members[at].bucket;
        let weight = self.weight(id);
        let new = weight.saturating_add_signed(by);
        if new == weight {
            return;
        }
        if new == 0 {
            return self.take_out(ranks, id);
        }
        // The buckets between which the new weight belongs.
        let (mut lighter, mut heavier);
        if new > weight {
            lighter = old;
            heavier = if old == NONE { ranks.lightest } else { self.buckets[old as usize].heavier };
            while heavier != NONE && self.buckets[heavier as usize].weight < new {
                (lighter, heavier) = (heavier, self.buckets[heavier as usize].heavier);
            }
        } else {
            (lighter, heavier) = (self.buckets[old as usize].lighter, old);
            while lighter != NONE && self.buckets[lighter as usize].weight > new {
                (lighter, heavier) = (self.buckets[lighter as usize].lighter, lighter);
            }
        }
        let has = |bucket: u32| bucket != NONE && self.buckets[bucket as usize].weight == new;
        let target = if has(heavier) {
            heavier
        } else if has(lighter) {
            lighter
        } else {
            let alone = old != NONE && self.buckets[old as usize].first == self.buckets[old as usize].last;
            if alone && (lighter == old || heavier == old) {
                self.buckets[old as usize].weight = new;
                return;
            }
            self.make(ranks, new, lighter, heavier)
        };
        if old != NONE {
            self.take_out(ranks, id);
        }
        let bucket = &mut self.buckets[target as usize];
        let previous = std::mem::replace(&mut bucket.last, id);
        match previous {
            NONE => bucket.first = id,
            _ => self.members[previous as usize].next = id,
        }
        self.members[at] = Member { bucket: target, previous, next: NONE };
    }

    /// Makes a bucket between two.
    fn make(&mut self, ranks: &mut Ranks, weight: usize, lighter: u32, heavier: u32) -> u32 {
        let new = Bucket { weight, first: NONE, last: NONE, lighter, heavier };
        let bucket = if self.free == NONE {
            self.buckets.push(new);
            self.buckets.len() as u32 - 1
        } else {
            let bucket = self.free;
            self.free = std::mem::replace(&mut self.buckets[bucket as usize], new).heavier;
            bucket
        };
        self.join(ranks, lighter, bucket);
        self.join(ranks, bucket, heavier);
        bucket
    }

    /// Makes two buckets neighbours; none stands for the end.
    fn join(&mut self, ranks: &mut Ranks, lighter: u32, heavier: u32) {
        match lighter {
            NONE => ranks.lightest = heavier,
            _ => self.buckets[lighter as usize].heavier = heavier,
        }
        match heavier {
            NONE => ranks.heaviest = lighter,
            _ => self.buckets[heavier as usize].lighter = lighter,
        }
    }

    /// Takes a member out of its bucket, and that out of the list if it is empty then.
    fn take_out(&mut self, ranks: &mut Ranks, id: Id) {
        let Member { bucket, previous, next } = self.members[id as usize];
        self.members[id as usize].bucket = NONE;
        let old = &mut self.buckets[bucket as usize];
        match previous {
            NONE => old.first = next,
            _ => self.members[previous as usize].next = next,
        }
        match next {
            NONE => old.last = previous,
            _ => self.members[next as usize].previous = previous,
        }
        if old.first == NONE {
            let Bucket { lighter, heavier, .. } = *old;
            old.heavier = std::mem::replace(&mut self.free, bucket);
            self.join(ranks, lighter, heavier);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..Default::default() })]

        /// Two parents' members against a vector of each, in the order in which members came to their weights.
        #[test]
        fn equals_a_vector(ops in prop::collection::vec((0..12u32, -4..4isize), 1..300)) {
            let mut ranking = Ranking::default();
            let mut ranks = [Ranks::default(); 2];
            let mut want: [Vec<(u32, usize)>; 2] = Default::default();
            for (id, by) in ops {
                let parent = id as usize % 2;
                ranking.change(&mut ranks[parent], id, by);
                let all = &mut want[parent];
                let at = all.iter().position(|(other, _)| *other == id);
                let weight = at.map_or(0, |at| all[at].1);
                let new = weight.saturating_add_signed(by);
                if new != weight {
                    at.map(|at| all.remove(at));
                    all.extend((new > 0).then_some((id, new)));
                }
                for (ranks, all) in ranks.iter().zip(&want) {
                    let most = all.iter().map(|(_, weight)| *weight).max();
                    let first = all.iter().find(|(_, weight)| Some(*weight) == most).map(|(id, _)| *id);
                    prop_assert_eq!(ranking.heaviest(ranks), first);
                }
                prop_assert_eq!(ranking.weight(id), new);
                prop_assert!(ranking.buckets.len() <= 13);
            }
        }
    }
}
