// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many packets a source may take at a time, by what they cost.
//!
//! A worker asks its sources in turn. If each takes a whole burst, the share of time that a source has grows with what its packets cost, and somebody who
//! sends costly ones starves the others. So a burst of a source costs at most a [quarter](TIMES) more than one of the source whose packets cost
//! least. Sources that have packets waiting then have about equal shares of the worker's time, independent of what comes by the others.
//!
//! What packets cost comes from the runs that are timed anyway ([`super::cost`]). On simulated time nothing is limited, for there a run must repeat exactly.

use element::ElementId;

/// How many times as much as the cheapest source's burst may another one's cost: numerator and denominator.
const TIMES: (u64, u64) = (5, 4);
/// A whole burst, as a limit.
const WHOLE: u64 = 128;
/// The least burst: what is left of a whole one. Small batches cost more for each packet.
const LEAST: u64 = WHOLE / 8;
/// Rounds after which a source that had no packets counts no more.
const LATELY: u32 = 2048;
/// Cycles are counted for so many packets.
const PACKETS: u64 = 16;
/// A run that took so many times as long as usual was interrupted.
const INTERRUPTED: u64 = 8;

/// What a source's packets cost lately.
#[derive(Debug)]
struct Source {
    element: ElementId,
    /// Cycles for [`PACKETS`] packets, all that follows from them included.
    cycles: u64,
    /// The round of the last timed run.
    seen: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Fairness {
    /// The element that asked last.
    asked: Option<ElementId>,
    sources: Vec<Source>,
    /// By element, how much of a burst it may take, in parts of [`WHOLE`]; 0 and what is missing are unlimited.
    limits: Vec<u8>,
}

impl Fairness {
    pub(super) fn new() -> Fairness {
        Fairness { asked: None, sources: Vec::new(), limits: Vec::new() }
    }

    /// How many packets of `most` this source may take now.
    #[inline]
    pub(crate) fn burst(&mut self, element: ElementId, most: usize) -> usize {
        self.asked = Some(element);
        match self.limits.get(element.index()).copied() {
            None | Some(0) => most,
            Some(limit) => (most * usize::from(limit) / WHOLE as usize).max(1),
        }
    }

    /// Whether this element is the one that asked last.
    pub(super) fn has_asked(&self, element: ElementId) -> bool {
        self.asked == Some(element)
    }

    /// Takes note of a timed run of a source: what its packets cost, and in which round.
    pub(super) fn note(&mut self, element: ElementId, (cycles, packets): (u64, u64), round: u32) {
        if packets == 0 {
            return;
        }
        let cost = (cycles * PACKETS / packets).max(1);
        match self.sources.iter_mut().find(|source| source.element == element) {
            Some(source) => {
                let cost = cost.min(source.cycles.saturating_mul(INTERRUPTED));
                (source.cycles, source.seen) = ((source.cycles * 3 + cost).div_ceil(4), round);
            }
            None => self.sources.push(Source { element, cycles: cost, seen: round }),
        }
        let lately = self.sources.iter().filter(|source| round.wrapping_sub(source.seen) < LATELY);
        let Some(least) = lately.map(|source| source.cycles).min() else { return };
        for source in &self.sources {
            let at = source.element.index();
            if self.limits.len() <= at {
                self.limits.resize(at + 1, 0);
            }
            let most = least.saturating_mul(TIMES.0 * WHOLE) / TIMES.1;
            let limit = (most / source.cycles.max(1)).clamp(LEAST, WHOLE);
            // A whole burst stands as no limit.
            self.limits[at] = if limit == WHOLE { 0 } else { limit as u8 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes runs of sources, by element, cycles for each packet and packets of a run, and says what they may take of 64.
    fn bursts(fairness: &mut Fairness, round: u32, runs: &[(u32, u64, u64)]) -> Vec<usize> {
        for _ in 0..40 {
            for (element, cost, packets) in runs {
                fairness.note(ElementId::from(*element), (cost * packets, *packets), round);
            }
        }
        runs.iter().map(|(element, ..)| fairness.burst(ElementId::from(*element), 64)).collect()
    }

    #[test]
    fn a_costly_source_takes_less_at_a_time() {
        let check = |runs: &[(u32, u64, u64)], want: &[usize]| {
            assert_eq!(bursts(&mut Fairness::new(), 1, runs), want, "{runs:?}");
        };
        check(&[(3, 100, 64)], &[64]);
        check(&[(3, 100, 64), (9, 100, 64)], &[64, 64]);
        // Small differences make none.
        check(&[(3, 100, 64), (9, 125, 64)], &[64, 64]);
        check(&[(3, 100, 64), (9, 250, 64)], &[64, 32]);
        check(&[(3, 100, 64), (9, 250, 64), (11, 500, 64)], &[64, 32, 16]);
        // Not below an eighth.
        check(&[(3, 100, 64), (9, 100_000, 64)], &[64, 8]);
    }

    #[test]
    fn a_source_that_is_silent_limits_nobody() {
        let mut fairness = Fairness::new();
        assert_eq!(bursts(&mut fairness, 1, &[(3, 100, 64), (9, 250, 64)]), [64, 32]);
        assert_eq!(bursts(&mut fairness, LATELY + 1, &[(9, 250, 64)]), [64]);
        // The number of rounds begins anew.
        let mut fairness = Fairness::new();
        assert_eq!(bursts(&mut fairness, u32::MAX, &[(3, 100, 64)]), [64]);
        assert_eq!(bursts(&mut fairness, 3, &[(9, 250, 64)]), [32]);
    }

    #[test]
    fn one_run_that_was_interrupted_changes_little() {
        let mut fairness = Fairness::new();
        bursts(&mut fairness, 1, &[(3, 100, 64), (9, 100, 64)]);
        fairness.note(ElementId::new(9), (100 * 64 * 1000, 64), 1);
        assert!(fairness.burst(ElementId::new(9), 64) >= 24);
        assert_eq!(bursts(&mut fairness, 1, &[(3, 100, 64), (9, 100, 64)]), [64, 64]);
        // A burst of one stays one.
        bursts(&mut fairness, 1, &[(3, 100, 64), (9, 100_000, 64)]);
        assert_eq!(fairness.burst(ElementId::new(9), 1), 1);
    }
}
