// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which of some packets something is true of.

use std::iter;
use std::ops::Range;

/// Packets that are looked at together at most.
pub const ROWS: usize = packet::ipv4::ROWS;

/// Some of up to [`ROWS`] packets, in their order: a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows(u64);

const _: () = assert!(ROWS == u64::BITS as usize);

impl Rows {
    /// None of them.
    pub const NONE: Rows = Rows(0);

    /// The first `n`.
    #[inline]
    pub fn first(n: usize) -> Rows {
        Rows(if n < ROWS { (1 << n) - 1 } else { u64::MAX })
    }

    /// Those for which `holds` holds.
    // Most often they are a range: then there is a branch for none of them.
    #[inline]
    pub fn filter(self, holds: impl Fn(usize) -> bool) -> Rows {
        let add = |rows: u64, row: usize| rows | u64::from(holds(row % ROWS)) << (row % ROWS);
        Rows(match self.range() {
            Some(range) => range.fold(0, add),
            None => self.iter().fold(0, add),
        })
    }

    /// Those whose byte has these bits of `mask` set, and of `mask` no others.
    // Eight bytes at a time, without a branch for any of them.
    #[inline(never)]
    pub fn with(bytes: &[u8; ROWS], mask: u8, bits: u8) -> Rows {
        const EACH: u64 = u64::from_le_bytes([1; 8]);
        const LOW: u64 = 0x7f * EACH;
        let (mask, bits) = (u64::from(mask) * EACH, u64::from(bits) * EACH);
        let eights = bytes.as_chunks::<8>().0.iter().enumerate();
        Rows(eights.fold(0, |rows, (at, eight)| {
            let differ = (u64::from_le_bytes(*eight) ^ bits) & mask;
            // The top bit of each byte, clear for those that are zero: no byte's sum reaches the next one.
            let others = ((differ & LOW) + LOW) | differ;
            // The product has the eight bits side by side at its top.
            let eight = ((!others & !LOW) >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            rows | (eight << (8 * at))
        }))
    }

    /// Those that are also among `others`.
    #[inline]
    pub fn and(self, others: Rows) -> Rows {
        Rows(self.0 & others.0)
    }

    /// Those that are not among `others`.
    #[inline]
    pub fn without(self, others: Rows) -> Rows {
        Rows(self.0 & !others.0)
    }

    /// Those before the first one that is also among `others`.
    #[inline]
    pub fn before(self, others: Rows) -> Rows {
        let both = self.0 & others.0;
        // All bits below the lowest one; all there are if there is none.
        Rows(self.0 & !both & both.wrapping_sub(1))
    }

    /// Those before the first for which `holds` does not hold.
    #[inline]
    pub fn while_all(self, holds: impl Fn(usize) -> bool) -> Rows {
        let first = match self.range() {
            Some(mut range) => range.find(|row| !holds(*row)),
            None => self.iter().find(|row| !holds(*row)),
        };
        first.map_or(self, |row| Rows(self.0 & ((1 << row) - 1)))
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many they are.
    #[inline]
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The first of them.
    #[inline]
    pub fn lowest(self) -> Option<usize> {
        (self.0 != 0).then_some(self.0.trailing_zeros() as usize)
    }

    /// Their numbers.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        iter::from_fn(move || {
            let row = Rows(rest).lowest()?;
            rest &= rest - 1;
            Some(row)
        })
    }

    /// The first `n` of them.
    #[inline]
    pub fn first_of(self, n: usize) -> Rows {
        match self.iter().nth(n) {
            Some(next) => self.before(Rows(1 << next)),
            None => self,
        }
    }

    /// Where they are, if no others are between them.
    #[inline]
    pub fn range(self) -> Option<Range<usize>> {
        let start = self.lowest()?;
        let from_start = self.0 >> start;
        (from_start & from_start.wrapping_add(1) == 0).then_some(start..start + self.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(rows: Rows) -> Vec<usize> {
        rows.iter().collect()
    }

    proptest! {
        #[test]
        fn rows_are_those_that_a_filter_finds(
            bytes in proptest::collection::vec(prop_oneof![Just(0), Just(128), Just(255), 0..4u8, any::<u8>()], ROWS),
            mask in prop_oneof![Just(127), Just(128), any::<u8>()],
            of in 0..ROWS,
            n in 0..=ROWS,
            others in any::<u64>(),
        ) {
            let bytes: [u8; ROWS] = bytes.try_into().unwrap();
            let bits = bytes[of] & mask;
            let all: Vec<usize> = (0..ROWS).filter(|row| bytes[*row] & mask == bits).collect();
            let rows = Rows::with(&bytes, mask, bits);
            prop_assert_eq!(set(rows), &all[..]);
            prop_assert_eq!(set(Rows::first(n)), Vec::from_iter(0..n));
            let is_other = |row: &usize| others >> row & 1 == 1;
            let found: Vec<usize> = all.iter().copied().filter(|row| is_other(row)).collect();
            prop_assert_eq!(set(rows.and(Rows(others))), &found[..]);
            prop_assert_eq!(set(rows.filter(|row| is_other(&row))), &found[..]);
            prop_assert_eq!(rows.and(Rows(others)).len(), found.len());
            let found: Vec<usize> = all.iter().copied().filter(|row| !is_other(row)).collect();
            prop_assert_eq!(set(rows.without(Rows(others))), found);
            let found: Vec<usize> = all.iter().copied().take_while(|row| !is_other(row)).collect();
            prop_assert_eq!(set(rows.before(Rows(others))), &found[..]);
            prop_assert_eq!(set(rows.while_all(|row| !is_other(&row))), found);
            let (first, last) = (all[0], all[all.len() - 1]);
            prop_assert_eq!(rows.range(), (last - first + 1 == all.len()).then_some(first..last + 1));
        }

        #[test]
        fn rows_in_a_row_are_a_range(start in 0..ROWS, n in 1..=ROWS) {
            let end = ROWS.min(start + n);
            prop_assert_eq!(Rows::first(end).without(Rows::first(start)).range(), Some(start..end));
        }
    }

    #[test]
    fn no_rows_have_neither_range_nor_first() {
        assert_eq!((Rows::NONE.range(), Rows::NONE.lowest(), Rows::NONE.len()), (None, None, 0));
        assert_eq!(Rows::first(ROWS).before(Rows::NONE), Rows::first(ROWS));
    }
}
