// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which statement is for an address? One search among sorted intervals, however many statements there are.

use std::collections::BTreeMap;

use crate::policy::{Address, Range};

/// Intervals that do not overlap, each with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Intervals<A = u32> {
    /// Last address, first address, value; ascending.
    all: Vec<(A, A, u32)>,
}

impl<A> Default for Intervals<A> {
    fn default() -> Intervals<A> {
        Intervals { all: Vec::new() }
    }
}

impl<A: Address> Intervals<A> {
    /// Of ranges that overlap the first one counts.
    pub(crate) fn new(ranges: impl IntoIterator<Item = (Range<A>, u32)>) -> Intervals<A> {
        let mut kept: BTreeMap<A, (A, u32)> = BTreeMap::new();
        for (range, value) in ranges {
            let mut gaps = Vec::new();
            let mut from = Some(range.first);
            let near = kept.range(..=range.last).rev().take_while(|(_, (last, _))| *last >= range.first);
            let mut met: Vec<(A, A)> = near.map(|(first, (last, _))| (*first, *last)).collect();
            met.reverse();
            for (first, last) in met {
                if let Some(start) = from.filter(|start| *start < first) {
                    gaps.push((start, first.before()));
                }
                from = last.after();
            }
            gaps.extend(from.filter(|start| *start <= range.last).map(|start| (start, range.last)));
            kept.extend(gaps.into_iter().map(|(first, last)| (first, (last, value))));
        }
        Intervals { all: kept.into_iter().map(|(first, (last, value))| (last, first, value)).collect() }
    }

    /// The value of the interval that an address is in.
    #[inline]
    pub(crate) fn find(&self, address: A) -> Option<u32> {
        let at = match &self.all[..] {
            [] => return None,
            [_] => 0,
            all => all.partition_point(|(last, ..)| *last < address),
        };
        let (last, first, value) = *self.all.get(at)?;
        (first <= address && address <= last).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_range_counts(ranges in proptest::collection::vec((0u32..60, 0u32..20), 0..8)) {
            let ranges: Vec<Range> = ranges.into_iter().map(|(first, more)| Range { first, last: first + more }).collect();
            let all = Intervals::new(ranges.iter().copied().zip(0..));
            for address in 0..100 {
                let expected = ranges.iter().position(|range| range.holds(address)).map(|n| n as u32);
                prop_assert_eq!(all.find(address), expected, "{} in {:?}", address, ranges);
            }
        }
    }

    #[test]
    fn the_ends_of_all_addresses_are_addresses() {
        let all = Intervals::new([
            (Range { first: 5, last: u32::MAX }, 1),
            (Range { first: 0, last: u32::MAX }, 2),
        ]);
        assert_eq!(
            [0, 4, 5, u32::MAX].map(|address| all.find(address)),
            [Some(2), Some(2), Some(1), Some(1)]
        );
        assert_eq!(Intervals::<u32>::default().find(0), None);
    }
}
