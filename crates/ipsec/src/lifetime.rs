// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long an association or a policy lives, and how much has passed by it (RFC 4301, 4.4.2.1).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sync::percore::Counter;
use sync::prefetch::prefetch;

/// What ends an association. Each limit is `None` for never.
///
/// At a soft limit a key daemon is asked for another one. At a hard limit the association is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes, soft and hard, as Linux counts them: outbound the packets before protection, inbound after.
    pub bytes: [Option<u64>; 2],
    /// Packets, soft and hard.
    pub packets: [Option<u64>; 2],
    /// Nanoseconds since it was made, soft and hard.
    pub age_ns: [Option<u64>; 2],
    /// Nanoseconds since its first packet, soft and hard.
    pub use_ns: [Option<u64>; 2],
}

/// Which limit of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reached {
    /// A new one is wanted.
    Soft,
    /// It is over.
    Hard,
}

impl Limits {
    /// Whether bytes or packets end it, so that each packet must look.
    pub fn count(&self) -> bool {
        self.bytes.iter().chain(&self.packets).any(Option::is_some)
    }

    /// The limit of bytes and packets that `usage` has reached.
    pub fn reached(&self, usage: Usage) -> Option<Reached> {
        let is_at = |kind: usize| {
            self.bytes[kind].is_some_and(|most| usage.bytes >= most)
                || self.packets[kind].is_some_and(|most| usage.packets >= most)
        };
        if is_at(1) { Some(Reached::Hard) } else { is_at(0).then_some(Reached::Soft) }
    }

    /// When time ends it for the first time after `after`: the moment, and whether that is soft or hard.
    pub fn next_end(
        &self,
        made_ns: u64,
        used_ns: Option<u64>,
        after: Option<Reached>,
    ) -> Option<(u64, Reached)> {
        let end = |kind: usize| {
            let by_age = self.age_ns[kind].map(|age| made_ns.saturating_add(age));
            let by_use = self.use_ns[kind].zip(used_ns).map(|(long, since)| since.saturating_add(long));
            by_age.into_iter().chain(by_use).min()
        };
        let soft = end(0).map(|at| (at, Reached::Soft)).filter(|_| after.is_none());
        let hard = end(1).map(|at| (at, Reached::Hard)).filter(|_| after != Some(Reached::Hard));
        soft.into_iter().chain(hard).min()
    }
}

/// Limits that may change while workers read them, each by itself. None stands for the largest number.
#[derive(Debug)]
pub(crate) struct Bounds([[AtomicU64; 2]; 4]);

impl Bounds {
    pub(crate) fn new(limits: &Limits) -> Bounds {
        let bounds = Bounds(Default::default());
        bounds.set(limits);
        bounds
    }

    pub(crate) fn set(&self, limits: &Limits) {
        let Limits { bytes, packets, age_ns, use_ns } = limits;
        let all = [bytes, packets, age_ns, use_ns].into_iter().flatten();
        for (bound, limit) in self.0.iter().flatten().zip(all) {
            bound.store(limit.unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self) -> Limits {
        let limit =
            |bound: &AtomicU64| Some(bound.load(Ordering::Relaxed)).filter(|limit| *limit != u64::MAX);
        let [bytes, packets, age_ns, use_ns] = self.0.each_ref().map(|pair| pair.each_ref().map(limit));
        Limits { bytes, packets, age_ns, use_ns }
    }
}

/// What has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The life of an association so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Life {
    /// What has passed.
    pub usage: Usage,
    /// Nanoseconds since it was made.
    pub age_ns: u64,
    /// Nanoseconds since its first packet, if there was one.
    pub used_ns: Option<u64>,
}

/// What a worker counts: one cache line, which it alone writes.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Line {
    /// Packets that passed.
    pub packets: Counter,
    /// Their bytes.
    pub bytes: Counter,
    /// Nanoseconds when its first packet passed, plus one; 0 before.
    pub first: Counter,
    /// Packets that were received before.
    pub replayed: Counter,
    /// Packets older than the window.
    pub too_old: Counter,
    /// Packets that failed the integrity check.
    pub forged: Counter,
    /// Dummy packets among those that passed.
    pub dummies: Counter,
}

const _: () = assert!(size_of::<Line>() == 64);

/// The most that may have passed before, so that sums never turn over.
const MOST: u64 = 1 << 62;

/// Lines of all workers. Most associations stay with one worker: the first one that counts has its line here. For others one is made when they first count.
#[derive(Debug)]
#[repr(C)]
pub struct Lines {
    /// The worker whose line is here, plus one; 0 for none yet.
    owner: AtomicUsize,
    others: Box<[OnceLock<Box<Line>>]>,
    own: Line,
}

impl Lines {
    /// Lines for `workers` workers.
    pub fn new(workers: usize) -> Lines {
        let others = (0..workers.max(1)).map(|_| OnceLock::new()).collect();
        Lines { owner: AtomicUsize::new(0), others, own: Line::default() }
    }

    /// Lines of an association that had a life before. Neither age may be more than `now_ns`: what was before that is not known.
    pub(crate) fn going_on(workers: usize, life: &Life, now_ns: u64) -> Lines {
        let lines = Lines::new(workers);
        if *life != Life::default() {
            // Not the line that the first worker is to have.
            let line = lines.others[lines.others.len() - 1].get_or_init(Box::default);
            line.packets.add(life.usage.packets.min(MOST));
            line.bytes.add(life.usage.bytes.min(MOST));
            line.first.set(life.used_ns.map_or(0, |used| now_ns.saturating_sub(used) + 1));
        }
        lines
    }

    /// The line of a worker. Another number than those of the workers there are counts as the last one.
    #[inline]
    pub fn of(&self, worker: usize) -> &Line {
        let worker = worker.min(self.others.len() - 1);
        if self.owner.load(Ordering::Relaxed) == worker + 1 { &self.own } else { self.of_other(worker) }
    }

    /// The line of a worker that may not have one yet. Who has one of the others keeps it, so no worker has two.
    #[cold]
    fn of_other(&self, worker: usize) -> &Line {
        let is_first = self.others[worker].get().is_none()
            && self.owner.compare_exchange(0, worker + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_first { &self.own } else { self.others[worker].get_or_init(Box::default) }
    }

    /// Asks for the line of a worker ahead of its use.
    #[inline]
    pub fn fetch(&self) {
        prefetch(self);
        prefetch(&self.own);
    }

    /// Counts a packet that passed at `now_ns`.
    #[inline]
    pub fn passed(&self, worker: usize, bytes: u64, now_ns: u64) {
        let line = self.of(worker);
        line.packets.add(1);
        line.bytes.add(bytes);
        if line.first.get() == 0 {
            line.first.set(now_ns + 1);
        }
    }

    /// The sum of a counter.
    pub fn sum(&self, counter: impl Fn(&Line) -> u64) -> u64 {
        self.made().map(counter).sum()
    }

    /// What has passed.
    pub fn usage(&self) -> Usage {
        Usage { packets: self.sum(|line| line.packets.get()), bytes: self.sum(|line| line.bytes.get()) }
    }

    /// When the first packet passed, in nanoseconds.
    pub fn first_ns(&self) -> Option<u64> {
        self.made().filter_map(|line| line.first.get().checked_sub(1)).min()
    }

    fn made(&self) -> impl Iterator<Item = &Line> {
        self.others.iter().filter_map(|line| line.get().map(Box::as_ref)).chain([&self.own])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_end_by_what_comes_first() {
        let limits = Limits {
            bytes: [Some(1000), Some(2000)],
            packets: [None, Some(3)],
            age_ns: [Some(50), Some(100)],
            use_ns: [Some(10), None],
        };
        let usage = |packets, bytes| limits.reached(Usage { packets, bytes });
        assert_eq!((usage(2, 999), usage(2, 1000)), (None, Some(Reached::Soft)));
        assert_eq!((usage(3, 0), usage(0, 2000)), (Some(Reached::Hard), Some(Reached::Hard)));
        assert_eq!(limits.next_end(1000, None, None), Some((1050, Reached::Soft)));
        assert_eq!(limits.next_end(1000, Some(1002), None), Some((1012, Reached::Soft)));
        assert_eq!(limits.next_end(1000, Some(1002), Some(Reached::Soft)), Some((1100, Reached::Hard)));
        assert_eq!(limits.next_end(1000, Some(1002), Some(Reached::Hard)), None);
        assert_eq!(Limits::default().next_end(0, Some(0), None), None);
    }

    #[test]
    fn lines_add_up() {
        let lines = Lines::new(2);
        assert_eq!((lines.usage(), lines.first_ns()), (Usage::default(), None));
        lines.passed(1, 100, 7);
        lines.passed(0, 50, 9);
        lines.passed(1, 1, 11);
        lines.passed(99, 1, 11);
        assert_eq!(lines.usage(), Usage { packets: 4, bytes: 152 });
        assert_eq!(lines.first_ns(), Some(7));
        let is_one = |worker| std::ptr::eq(lines.of(worker), lines.of(worker));
        assert!(is_one(0) && is_one(1) && !std::ptr::eq(lines.of(0), lines.of(1)));
        let life = Life { usage: Usage { packets: 3, bytes: 90 }, age_ns: 50, used_ns: Some(40) };
        let lines = Lines::going_on(2, &life, 100);
        lines.passed(1, 10, 101);
        assert_eq!((lines.usage(), lines.first_ns()), (Usage { packets: 4, bytes: 100 }, Some(60)));
    }
}
