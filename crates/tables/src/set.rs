// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of ranges of numbers, such as addresses or ports, that change while others look up: is this number in it?
//!
//! # What an answer means
//!
//! A [`RangeSet`] has *entries*: ranges, each for ever or until a time. Entries may overlap. A number is in the set if an entry holds it whose time is
//! not over. So the end of one entry takes nothing away from another, and no timer is needed: a look-up compares times.
//!
//! # Layout
//!
//! ```text
//! entries, for those who change the set      segments, for those who look up
//! (first, last) -> end, a tree               firsts of chunks    chunk: up to 512 segments
//!                                            +----+----+----+    +---------------------------+
//!                                            | 10 | 90 | .. |--->| firsts | lasts | ends     |
//!                                            +----+----+----+    +---------------------------+
//! ```
//!
//! *Segments* do not overlap, and each has the latest end of the entries over it. A look-up is two binary searches: for the chunk, and in the chunk.
//! Chunks without ends have none stored.
//!
//! # Changes
//!
//! [`Segments`] never change. A change of an entry makes new ones, which share all chunks but those that the entry touches. It copies the list of chunks:
//! some 10 microseconds with a million entries, and none of it while a look-up waits. Look-ups get the new segments by one exchange of a pointer.
//!
//! # Size and trade-offs
//!
//! A segment takes 8 bytes for IPv4, 32 for IPv6, and 8 more in chunks with ends. The entries take about three times as much.
//! A change of many entries makes all segments anew, which is cheaper than one after the other. Ranges that are no prefixes are searched one by one
//! when an entry changes: a set of a million of them takes a millisecond for each change.

mod segments;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use segments::{Segment, Segments};

/// The end of entries that have none.
pub const FOREVER: u64 = u64::MAX;

/// Of so many entries for each change, all segments are made anew.
const SHARE: usize = 64;

/// A number that ranges are made of.
pub trait Point: Copy + Ord + std::fmt::Debug {
    /// How many bits it has.
    const BITS: u32;
    /// The next number, unless it is the last.
    fn next(self) -> Option<Self>;
    /// The number before, unless it is the first.
    fn before(self) -> Option<Self>;
    /// The first and the last number whose leading bits, so many of them, are those of this one.
    fn around(self, length: u32) -> (Self, Self);
}

macro_rules! point {
    ($($number:ty)*) => {
        $(impl Point for $number {
            const BITS: u32 = <$number>::BITS;

            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }

            fn before(self) -> Option<Self> {
                self.checked_sub(1)
            }

            fn around(self, length: u32) -> (Self, Self) {
                let host = <$number>::MAX.checked_shr(length).unwrap_or(0);
                (self & !host, self | host)
            }
        })*
    };
}

point!(u16 u32 u64 u128);

/// A set and its entries.
#[derive(Clone, Debug)]
pub struct RangeSet<T> {
    /// Their ends, by first and last number.
    entries: BTreeMap<(T, T), u64>,
    /// Those that are no prefixes.
    odd: BTreeSet<(T, T)>,
    /// Those that end, by their ends.
    ending: BTreeSet<(u64, (T, T))>,
    segments: Segments<T>,
}

impl<T: Point> Default for RangeSet<T> {
    fn default() -> RangeSet<T> {
        RangeSet {
            entries: BTreeMap::new(),
            odd: BTreeSet::new(),
            ending: BTreeSet::new(),
            segments: Segments::default(),
        }
    }
}

/// A change of an entry: it is there until a time from now on, or no more.
pub type Change<T> = ((T, T), Option<u64>);

impl<T: Point> RangeSet<T> {
    /// What it holds now, for look-ups.
    pub fn segments(&self) -> &Segments<T> {
        &self.segments
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many entries have an end.
    pub fn ending(&self) -> usize {
        self.ending.len()
    }

    /// The end of an entry, if it is there.
    pub fn get(&self, range: (T, T)) -> Option<u64> {
        self.entries.get(&range).copied()
    }

    /// Makes changes, of which the last one of an entry counts. Returns how many entries are new or gone, or have another end.
    pub fn change(&mut self, changes: &[Change<T>]) -> usize {
        let few = changes.len().saturating_mul(SHARE) < self.entries.len().max(SHARE + 1);
        let mut done = 0;
        for (range, end) in changes {
            if self.put(*range, *end) {
                done += 1;
                if few {
                    self.renew(*range);
                }
            }
        }
        if !few && done > 0 {
            self.renew_all();
        }
        done
    }

    /// Has these entries in place of those there were; the last one of a range counts.
    pub fn replace(&mut self, entries: impl IntoIterator<Item = ((T, T), u64)>) {
        *self = RangeSet::default();
        for (range, end) in entries {
            self.put(range, Some(end));
        }
        self.renew_all();
    }

    /// Removes entries whose time is over; returns how many.
    pub fn purge(&mut self, now_ns: u64) -> usize {
        let over: Vec<Change<T>> = self
            .ending
            .iter()
            .take_while(|(end, _)| *end <= now_ns)
            .map(|(_, range)| (*range, None))
            .collect();
        self.change(&over)
    }

    /// Some entries with their ends, in ascending order, from behind a range on; all if there is none.
    pub fn entries(&self, behind: Option<(T, T)>) -> impl Iterator<Item = ((T, T), u64)> + '_ {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = behind.map_or(Unbounded, Excluded);
        self.entries.range((from, Unbounded)).map(|(range, end)| (*range, *end))
    }

    /// The entries that hold a number, with their ends, in ascending order.
    pub fn holding(&self, point: T) -> Vec<((T, T), u64)> {
        let odd = self.odd_before(point).filter(|(_, last)| *last >= point);
        let mut found: Vec<_> =
            self.prefixes_over(point).chain(odd).map(|range| (range, self.entries[&range])).collect();
        found.sort_unstable();
        found
    }

    /// Entries that are prefixes and hold a number.
    fn prefixes_over(&self, point: T) -> impl Iterator<Item = (T, T)> + '_ {
        (0..=T::BITS).map(move |length| point.around(length)).filter(|range| self.entries.contains_key(range))
    }

    /// Entries that are no prefixes and begin at a number or before it.
    fn odd_before(&self, point: T) -> impl Iterator<Item = (T, T)> + '_ {
        let greatest = point.around(0).1;
        self.odd.range(..=(point, greatest)).copied()
    }

    /// Makes a change; returns whether there is one. The segments do not know it yet.
    fn put(&mut self, range: (T, T), end: Option<u64>) -> bool {
        let old = match end {
            Some(end) => self.entries.insert(range, end),
            None => self.entries.remove(&range),
        };
        if let Some(old) = old.filter(|old| *old != FOREVER) {
            self.ending.remove(&(old, range));
        }
        if let Some(end) = end.filter(|end| *end != FOREVER) {
            self.ending.insert((end, range));
        }
        let is_prefix = || (0..=T::BITS).any(|length| range.0.around(length) == range);
        match (old, end) {
            (Some(_), None) => _ = self.odd.remove(&range),
            (None, Some(_)) if !is_prefix() => _ = self.odd.insert(range),
            _ => {}
        }
        old != end
    }

    /// Makes the segments within a range anew.
    fn renew(&mut self, (first, last): (T, T)) {
        // Entries that begin before the range and reach into it, then those that begin in it.
        let reaches = |range: &(T, T)| range.0 < first && range.1 >= first;
        let before = self.prefixes_over(first).chain(self.odd_before(first)).filter(reaches);
        let before = before.map(|range| (range, self.entries[&range]));
        let within =
            self.entries.range((first, first)..=(last, last.around(0).1)).map(|(range, end)| (*range, *end));
        let clipped = before.chain(within).map(|((from, to), ends_ns)| Segment {
            first: from.max(first),
            last: to.min(last),
            ends_ns,
        });
        let new = segments::without_overlaps(clipped);
        self.segments = self.segments.with(first, last, &new);
    }

    /// Makes all segments anew.
    fn renew_all(&mut self) {
        let all = self.entries.iter().map(|((first, last), end)| Segment {
            first: *first,
            last: *last,
            ends_ns: *end,
        });
        self.segments = Segments::new(&segments::without_overlaps(all));
    }
}
