// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of numbers: addresses, ports, protocols, types.

/// Ranges in ascending order that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<(u128, u128)>);

impl Ranges {
    /// The set of all numbers in these ranges, in any order.
    pub(crate) fn new(mut all: Vec<(u128, u128)>) -> Ranges {
        all.retain(|(first, last)| first <= last);
        all.sort_unstable();
        let mut kept: Vec<(u128, u128)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match kept.last_mut() {
                Some((_, before)) if before.checked_add(1).is_none_or(|next| first <= next) => {
                    *before = last.max(*before);
                }
                _ => kept.push((first, last)),
            }
        }
        Ranges(kept)
    }

    /// One number.
    pub(crate) fn one(number: u128) -> Ranges {
        Ranges(vec![(number, number)])
    }

    /// What is in both.
    pub(crate) fn and(&self, other: &Ranges) -> Ranges {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        while let (Some(&&(first, last)), Some(&&(from, to))) = (a.peek(), b.peek()) {
            let (start, end) = (first.max(from), last.min(to));
            if start <= end {
                both.push((start, end));
            }
            if last < to {
                a.next();
            } else {
                b.next();
            }
        }
        Ranges(both)
    }

    /// All numbers up to `most` that are not in it.
    pub(crate) fn not(&self, most: u128) -> Ranges {
        let mut left = Vec::with_capacity(self.0.len() + 1);
        let mut next = Some(0);
        for &(first, last) in &self.0 {
            if let Some(start) = next.filter(|start| *start < first) {
                left.push((start, first - 1));
            }
            next = last.checked_add(1);
        }
        if let Some(start) = next.filter(|start| *start <= most) {
            left.push((start, most));
        }
        Ranges(left)
    }

    /// Whether everything in it is in another.
    pub(crate) fn is_within(&self, other: &Ranges) -> bool {
        self.and(other) == *self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many ranges.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u128, u128)> + '_ {
        self.0.iter().copied()
    }

    /// Whether a number is in it.
    pub(crate) fn holds(&self, number: u128) -> bool {
        let at = self.0.partition_point(|(first, _)| *first <= number);
        at > 0 && self.0[at - 1].1 >= number
    }

    /// How many numbers are in it, at most `most`.
    pub(crate) fn count(&self, most: u128) -> u128 {
        let sizes = self.iter().map(|(first, last)| (last - first).saturating_add(1));
        sizes.fold(0, u128::saturating_add).min(most)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]
        #[test]
        fn sets_equal_lists(
            some in prop::collection::vec((0u8..60, 0u8..60), 0..8),
            more in prop::collection::vec((0u8..60, 0u8..60), 0..8),
        ) {
            let set = |of: &[(u8, u8)]| Ranges::new(of.iter().map(|(a, b)| (u128::from(*a), u128::from(*b))).collect());
            let has = |of: &[(u8, u8)], n: u8| of.iter().any(|(a, b)| (*a..=*b).contains(&n));
            let (a, b) = (set(&some), set(&more));
            for n in 0..64u8 {
                let (number, in_a, in_b) = (u128::from(n), has(&some, n), has(&more, n));
                prop_assert_eq!(a.holds(number), in_a);
                prop_assert_eq!(a.and(&b).holds(number), in_a && in_b);
                prop_assert_eq!(a.not(63).holds(number), !in_a);
            }
            let count = (0..64u8).filter(|n| has(&some, *n)).count() as u128;
            prop_assert_eq!(a.count(1000), count);
            prop_assert_eq!(a.is_within(&b), (0..64u8).all(|n| !has(&some, n) || has(&more, n)));
        }
    }

    #[test]
    fn the_last_number_has_no_next_one() {
        let all = Ranges::new(vec![(0, u128::MAX)]);
        assert!(all.not(u128::MAX).is_empty() && all.holds(u128::MAX));
        assert_eq!(Ranges::one(u128::MAX).not(u128::MAX).iter().next(), Some((0, u128::MAX - 1)));
    }
}
