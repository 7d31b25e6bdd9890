// SPDX-License-Identifier: MIT OR Apache-2.0
//! The buckets of a group: how many each member is due, and handing them over with as few changes as possible.

use super::Member;
use std::{cmp::Ordering, collections::BinaryHeap, sync::Arc};

/// A bucket that nobody has yet.
const NOBODY: u16 = u16::MAX;

/// Which member each bucket belongs to.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    owners: Arc<[u16]>,
}

impl Buckets {
    /// `count` buckets of nobody; a power of two.
    pub(super) fn new(count: usize) -> Self {
        Self { owners: vec![NOBODY; count].into() }
    }

    pub(super) fn len(&self) -> usize {
        self.owners.len()
    }

    pub(super) fn ids(&self) -> &[u16] {
        &self.owners
    }

    /// For readers.
    pub(super) fn shared(&self) -> Arc<[u16]> {
        self.owners.clone()
    }

    /// Gives each of `members` (sorted by id, weights above 0, no more than buckets) its due. A member keeps its buckets as far as they are due to it.
    pub(super) fn assign(&mut self, members: &[Member]) {
        let mut due = apportion(members, self.len());
        let mut owners = self.owners.to_vec();
        let place = |owner: u16| members.binary_search_by_key(&u32::from(owner), |(id, _)| id.0).ok();
        let mut loose = Vec::new();
        for (bucket, owner) in owners.iter().enumerate() {
            match place(*owner) {
                Some(member) if due[member] > 0 => due[member] -= 1,
                _ => loose.push(bucket),
            }
        }
        // Turn by turn, so that members lie scattered: flows of a weak hash fall into neighbouring buckets.
        let mut member = 0;
        for bucket in loose {
            while due[member] == 0 {
                member = (member + 1) % members.len();
            }
            due[member] -= 1;
            owners[bucket] = members[member].0.0 as u16;
            member = (member + 1) % members.len();
        }
        self.owners = owners.into();
    }
}

/// Who is next in line for a bucket: the greatest weight for each `2n + 1`, `n` being the buckets it has.
#[derive(PartialEq, Eq)]
struct Claim {
    weight: u64,
    divisor: u64,
    member: usize,
}

impl Ord for Claim {
    fn cmp(&self, other: &Self) -> Ordering {
        let (ours, theirs) = (self.weight * other.divisor, other.weight * self.divisor);
        ours.cmp(&theirs).then(other.member.cmp(&self.member))
    }
}

impl PartialOrd for Claim {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Webster's method: `count` buckets in proportion to the weights.
fn apportion(members: &[Member], count: usize) -> Vec<usize> {
    let claim =
        |(member, (_, weight)): (usize, &Member)| Claim { weight: (*weight).into(), divisor: 1, member };
    let mut claims: BinaryHeap<Claim> = members.iter().enumerate().map(claim).collect();
    let mut due = vec![0; members.len()];
    for _ in 0..count {
        let mut next = claims.peek_mut().expect("a group has members");
        due[next.member] += 1;
        next.divisor += 2;
    }
    due
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::next_hop::NextHopId;

    fn group(weights: &[(u32, u32)]) -> Vec<Member> {
        weights.iter().map(|(id, weight)| (NextHopId(*id), *weight)).collect()
    }

    #[test]
    fn shares_follow_the_weights() {
        let check = |weights: &[u32], count, want: &[usize]| {
            let members: Vec<(u32, u32)> = (0..).zip(weights.iter().copied()).collect();
            assert_eq!(apportion(&group(&members), count), want, "{weights:?} of {count}");
        };
        check(&[1], 8, &[8]);
        check(&[1, 1], 8, &[4, 4]);
        check(&[1, 3], 8, &[2, 6]);
        check(&[1, 1, 1], 8, &[3, 3, 2]);
        check(&[u32::MAX, u32::MAX, 1], 8, &[4, 4, 0]);
        check(&[5, 3, 2], 100, &[50, 30, 20]);
    }

    #[test]
    fn members_lie_scattered() {
        let mut buckets = Buckets::new(8);
        buckets.assign(&group(&[(3, 1), (7, 1)]));
        assert_eq!(buckets.ids(), [3, 7, 3, 7, 3, 7, 3, 7]);
        buckets.assign(&group(&[(7, 1)]));
        assert_eq!(buckets.ids(), [7; 8]);
        buckets.assign(&group(&[(7, 3), (9, 1)]));
        assert_eq!(buckets.ids().iter().filter(|id| **id == 9).count(), 2);
    }
}
