// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles and nanoseconds on one line of time.
//!
//! Threads stamp their events by the processor's time stamp counter, the kernel its own by the monotonic clock. While a recording runs, both are read
//! together now and then ([`Pair::now`]); between two such pairs time runs evenly ([`Timeline`]).

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The time stamp counter.
    pub cycles: u64,
    /// The monotonic clock.
    pub ns: u64,
}

/// The monotonic clock, in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Looks taken for one pair; the one during which the fewest cycles passed counts.
const LOOKS: usize = 20;

impl Pair {
    /// Reads both.
    pub fn now() -> Pair {
        let look = |_| {
            let before = sync::tsc();
            let ns = monotonic_ns();
            let took = sync::tsc().saturating_sub(before);
            (took, Pair { cycles: before + took / 2, ns })
        };
        (0..LOOKS).map(look).min_by_key(|(took, _)| *took).map_or(Pair { cycles: 0, ns: 0 }, |(_, pair)| pair)
    }
}

/// How fast the time stamp counter goes, in cycles in a nanosecond; 0 where there is none. It takes 2 ms.
pub fn ghz() -> f64 {
    let (start, before) = (Instant::now(), sync::tsc());
    while start.elapsed() < Duration::from_millis(2) {
        std::hint::spin_loop();
    }
    sync::tsc().saturating_sub(before) as f64 / start.elapsed().as_nanos() as f64
}

/// Time in a recording, from the pairs in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// By cycles, both rising.
    pairs: Vec<Pair>,
    ghz: f64,
}

impl Timeline {
    /// From these pairs. Those that go back in time are left out.
    pub fn new(pairs: &[Pair]) -> Timeline {
        let mut kept: Vec<Pair> = Vec::new();
        for pair in pairs {
            if kept.last().is_none_or(|last| pair.cycles > last.cycles && pair.ns > last.ns) {
                kept.push(*pair);
            }
        }
        let ghz = match (kept.first(), kept.last()) {
            (Some(a), Some(b)) if b.ns > a.ns => (b.cycles - a.cycles) as f64 / (b.ns - a.ns) as f64,
            _ => 1.0,
        };
        Timeline { pairs: kept, ghz }
    }

    /// Cycles for each nanosecond, that is the counter's frequency in GHz.
    pub fn ghz(&self) -> f64 {
        self.ghz
    }

    /// When a moment was, on the monotonic clock.
    pub fn ns(&self, cycles: u64) -> u64 {
        let Some(last) = self.pairs.last() else { return cycles };
        let at = self.pairs.partition_point(|p| p.cycles <= cycles);
        let (from, ghz) = match (at.checked_sub(1).map(|i| self.pairs[i]), self.pairs.get(at)) {
            (Some(a), Some(b)) => (a, (b.cycles - a.cycles) as f64 / (b.ns - a.ns) as f64),
            (None, Some(b)) => (*b, self.ghz),
            _ => (*last, self.ghz),
        };
        let away = (cycles as f64 - from.cycles as f64) / ghz;
        // Far from any pair a damaged file's time stops instead of coming round.
        (from.ns as f64 + away).clamp(0.0, u64::MAX as f64 / 2.0) as u64
    }

    /// How long so many cycles are.
    pub fn span_ns(&self, cycles: u64) -> f64 {
        cycles as f64 / self.ghz
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_runs_evenly_between_pairs_and_beyond_them() {
        let pair = |cycles, ns| Pair { cycles, ns };
        let line =
            Timeline::new(&[pair(1000, 10_000), pair(3000, 11_000), pair(2000, 12_000), pair(9000, 14_000)]);
        // The third goes back. In the mean two cycles for each nanosecond.
        assert_eq!(line.ghz(), 2.0);
        assert_eq!(
            [1000, 2000, 3000, 6000, 9000].map(|c| line.ns(c)),
            [10_000, 10_500, 11_000, 12_500, 14_000]
        );
        assert_eq!([0, 11_000].map(|c| line.ns(c)), [9_500, 15_000]);
        assert_eq!(line.span_ns(10), 5.0);
        assert_eq!(Timeline::new(&[]).ns(5), 5);
    }

    #[test]
    fn both_clocks_go_forward() {
        let pairs = [Pair::now(), Pair::now()];
        assert!(pairs[1].ns > pairs[0].ns && pairs[1].cycles >= pairs[0].cycles);
    }
}
