// SPDX-License-Identifier: MIT OR Apache-2.0
//! Segments, for look-ups.

use std::collections::BinaryHeap;
use std::sync::Arc;

use super::{FOREVER, Point};

/// Segments of a chunk at most, and in a new one.
const CHUNK_MAX: usize = 512;
const CHUNK_NEW: usize = 320;
/// A change joins chunks that become shorter with a neighbour.
const CHUNK_SHORT: usize = 64;

/// A range with an end in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<T> {
    /// Its first number.
    pub first: T,
    /// Its last number.
    pub last: T,
    /// From when on it holds nothing; [`FOREVER`] for never.
    pub ends_ns: u64,
}

/// Ranges that do not overlap, in ascending order. Copies share them.
#[derive(Clone, Debug)]
pub struct Segments<T> {
    spine: Arc<Spine<T>>,
}

#[derive(Debug)]
struct Spine<T> {
    /// The first number of each chunk.
    firsts: Box<[T]>,
    chunks: Box<[Arc<Chunk<T>>]>,
}

/// At least one segment.
#[derive(Debug)]
struct Chunk<T> {
    firsts: Box<[T]>,
    lasts: Box<[T]>,
    /// Nothing if none ends.
    ends: Box<[u64]>,
}

impl<T> Default for Segments<T> {
    fn default() -> Segments<T> {
        Segments { spine: Arc::new(Spine { firsts: Box::default(), chunks: Box::default() }) }
    }
}

impl<T: Point> Segments<T> {
    /// Segments in ascending order that do not overlap.
    pub(super) fn new(all: &[Segment<T>]) -> Segments<T> {
        Segments::of(all.chunks(CHUNK_NEW).map(Chunk::new).collect())
    }

    fn of(chunks: Vec<Arc<Chunk<T>>>) -> Segments<T> {
        let firsts = chunks.iter().map(|chunk| chunk.firsts[0]).collect();
        Segments { spine: Arc::new(Spine { firsts, chunks: chunks.into() }) }
    }

    /// Whether one of them holds a number at a time.
    #[inline]
    pub fn holds(&self, point: T, now_ns: u64) -> bool {
        let after = self.spine.firsts.partition_point(|first| *first <= point);
        after > 0 && self.spine.chunks[after - 1].holds(point, now_ns)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.spine.chunks.is_empty()
    }

    /// All of them, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Segment<T>> + '_ {
        self.spine.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        let of_chunk = |chunk: &Arc<Chunk<T>>| {
            size_of::<Chunk<T>>() + size_of_val(&*chunk.firsts) * 2 + size_of_val(&*chunk.ends)
        };
        let chunks: usize = self.spine.chunks.iter().map(of_chunk).sum();
        chunks + size_of_val(&*self.spine.firsts) + size_of_val(&*self.spine.chunks)
    }

    /// The same with others in place of what there is from `first` to `last`.
    pub(super) fn with(&self, first: T, last: T, new: &[Segment<T>]) -> Segments<T> {
        let Spine { firsts, chunks } = &*self.spine;
        // The chunks that may have to do with the range: one that begins before it may reach into it.
        let mut from = firsts.partition_point(|start| *start < first).saturating_sub(1);
        let mut to = firsts.partition_point(|start| *start <= last);
        let old = |from: usize, to: usize| chunks[from..to].iter().flat_map(|chunk| chunk.iter());
        let before = |from: usize, to: usize| {
            old(from, to).filter(move |s| s.first < first).filter_map(move |s| {
                let end = if s.last < first { Some(s.last) } else { first.before() };
                end.map(|last| Segment { last, ..s })
            })
        };
        let after = |from: usize, to: usize| {
            old(from, to).filter(move |s| s.last > last).filter_map(move |s| {
                let start = if s.first > last { Some(s.first) } else { last.next() };
                start.map(|first| Segment { first, ..s })
            })
        };
        let left = before(from, to).count() + new.len() + after(from, to).count();
        if left < CHUNK_SHORT {
            match (from, chunks.len() - to) {
                (_, 1..) => to += 1,
                (1.., _) => from -= 1,
                _ => {}
            }
        }
        let mut all: Vec<Segment<T>> = Vec::with_capacity(left + CHUNK_MAX);
        before(from, to).chain(new.iter().copied()).chain(after(from, to)).for_each(|s| append(&mut all, s));
        let parts = if all.len() <= CHUNK_MAX { CHUNK_MAX } else { CHUNK_NEW };
        let mut kept = Vec::with_capacity(chunks.len() + all.len() / parts + 1);
        kept.extend(chunks[..from].iter().cloned());
        kept.extend(all.chunks(parts).map(Chunk::new));
        kept.extend(chunks[to..].iter().cloned());
        Segments::of(kept)
    }
}

impl<T: Point> Chunk<T> {
    fn new(all: &[Segment<T>]) -> Arc<Chunk<T>> {
        let has_ends = all.iter().any(|s| s.ends_ns != FOREVER);
        Arc::new(Chunk {
            firsts: all.iter().map(|s| s.first).collect(),
            lasts: all.iter().map(|s| s.last).collect(),
            ends: all.iter().filter(|_| has_ends).map(|s| s.ends_ns).collect(),
        })
    }

    #[inline]
    fn holds(&self, point: T, now_ns: u64) -> bool {
        let after = self.firsts.partition_point(|first| *first <= point);
        after > 0
            && self.lasts[after - 1] >= point
            && self.ends.get(after - 1).is_none_or(|end| now_ns < *end)
    }

    fn iter(&self) -> impl Iterator<Item = Segment<T>> + '_ {
        self.firsts.iter().zip(&self.lasts).enumerate().map(|(n, (first, last))| Segment {
            first: *first,
            last: *last,
            ends_ns: self.ends.get(n).copied().unwrap_or(FOREVER),
        })
    }
}

/// Adds a segment behind others; it becomes one with the last if they touch and end alike.
fn append<T: Point>(all: &mut Vec<Segment<T>>, segment: Segment<T>) {
    match all.last_mut() {
        Some(before) if before.ends_ns == segment.ends_ns && before.last.next() == Some(segment.first) => {
            before.last = segment.last;
        }
        _ => all.push(segment),
    }
}

/// Segments with the latest ends of ranges that may overlap. They come in ascending order of their first numbers.
pub(super) fn without_overlaps<T: Point>(ranges: impl Iterator<Item = Segment<T>>) -> Vec<Segment<T>> {
    let mut all = Vec::with_capacity(ranges.size_hint().0);
    // Ranges that have started, the one with the latest end on top. Some are over.
    let mut open: BinaryHeap<(u64, T)> = BinaryHeap::new();
    // What is before this has its segments.
    let mut at = None;
    for range in ranges {
        at = fill(&mut all, &mut open, at, range.first.before());
        at = at.max(Some(range.first));
        open.push((range.ends_ns, range.last));
    }
    fill(&mut all, &mut open, at, at.map(|at| at.around(0).1));
    all
}

/// Makes the segments from `at` to a number. Returns where the next ones begin.
fn fill<T: Point>(
    all: &mut Vec<Segment<T>>,
    open: &mut BinaryHeap<(u64, T)>,
    mut at: Option<T>,
    to: Option<T>,
) -> Option<T> {
    while let (Some(first), Some(to)) = (at, to)
        && first <= to
        && let Some((ends_ns, last)) = open.peek().copied()
    {
        if last < first {
            open.pop();
            continue;
        }
        let last = last.min(to);
        append(all, Segment { first, last, ends_ns });
        at = last.next();
    }
    at
}
