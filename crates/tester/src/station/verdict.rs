// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of each flow's frames: the flows of which not all arrived once, in order, where they should.

use std::cmp::Reverse;

use crate::account::Counts;
use crate::frame::Flow;

/// Flows that are reported by name.
const TOLD: usize = 16;

/// What became of one flow's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Which.
    pub flow: Flow,
    /// Frames that left the tester.
    pub sent: u64,
    /// What became of them.
    pub counts: Counts,
}

impl Verdict {
    /// Frames that did not arrive where they should.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.counts.received)
    }

    /// How bad it is: what is lost counts most.
    fn faults(&self) -> [u64; 5] {
        let Counts { misrouted, duplicates, stale, reordered, .. } = self.counts;
        [self.lost(), misrouted, duplicates, stale, reordered]
    }
}

/// The flows that met with something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// How many flows were sent.
    pub flows: usize,
    /// How many of them lost frames.
    pub lossy: usize,
    /// Those of which not all frames arrived once, in order, where they should; the worst first.
    pub worst: Vec<Verdict>,
    /// How many more of these there are.
    pub left_out: usize,
}

impl Verdicts {
    /// Of these flows.
    pub(super) fn of(all: impl Iterator<Item = Verdict>) -> Verdicts {
        let mut verdicts = Verdicts::default();
        for verdict in all {
            verdicts.flows += 1;
            verdicts.lossy += usize::from(verdict.lost() > 0);
            if verdict.faults() != [0; 5] {
                verdicts.worst.push(verdict);
            }
        }
        verdicts.worst.sort_by_key(|verdict| Reverse(verdict.faults()));
        verdicts.left_out = verdicts.worst.len().saturating_sub(TOLD);
        verdicts.worst.truncate(TOLD);
        verdicts
    }
}

/// How many of a port's first frames are those of the flow at a place among so many.
pub(super) fn share(frames: u64, place: u64, flows: u64) -> u64 {
    (frames + flows - 1).saturating_sub(place) / flows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_are_told_of_and_the_others_counted() {
        let flow = |n: u8| Flow { src: [10, 0, 0, n].into(), ..super::super::host_flow(0, (0, 0), (1, 0)) };
        let verdict = |(n, received, reordered): (u8, u64, u64)| Verdict {
            flow: flow(n),
            sent: 100,
            counts: Counts { received, reordered, ..Counts::default() },
        };
        let some = [(0, 100, 0), (1, 100, 7), (2, 99, 0), (3, 50, 0)];
        let verdicts = Verdicts::of(some.into_iter().chain((4..40).map(|n| (n, 98, 0))).map(verdict));
        assert_eq!(
            (verdicts.flows, verdicts.lossy, verdicts.worst.len(), verdicts.left_out),
            (40, 38, 16, 23)
        );
        assert_eq!(
            verdicts.worst[..2].iter().map(|verdict| verdict.flow).collect::<Vec<_>>(),
            [flow(3), flow(4)]
        );
        assert_eq!(Verdicts::of([verdict((0, 100, 0))].into_iter()).worst, []);
    }

    #[test]
    fn frames_are_shared_out_in_turn() {
        for (frames, flows) in [(0u64, 3u64), (1, 3), (7, 3), (9, 3), (5, 1), (2, 4)] {
            for place in 0..flows {
                let counted = (0..frames).filter(|number| number % flows == place).count() as u64;
                assert_eq!(share(frames, place, flows), counted, "{frames} {place} {flows}");
            }
        }
    }
}
