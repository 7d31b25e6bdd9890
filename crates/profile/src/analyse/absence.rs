// SPDX-License-Identifier: MIT OR Apache-2.0
//! When the router's threads had no processor: what takes them longer meanwhile is not of their doing.

use std::collections::HashMap;

use crate::clock::Timeline;
use crate::names::ThreadName;

/// Times that follow each other, of a thread, in nanoseconds of the monotonic clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Gaps {
    /// From when until when, and how much all before it take.
    all: Vec<(u64, u64, u64)>,
}

impl Gaps {
    fn add(&mut self, from: u64, to: u64) {
        // The kernel's events come in time, but for those that were lost.
        let before = self.all.last().map_or((0, 0), |(from, to, before)| (*to, before + (to - from)));
        if from >= before.0 && to > from {
            self.all.push((from, to, before.1));
        }
    }

    /// How much of them lies before this time.
    fn before(&self, ns: u64) -> u64 {
        let next = self.all.partition_point(|(from, ..)| *from < ns);
        let last = next.checked_sub(1).map(|i| self.all[i]);
        last.map_or(0, |(from, to, before)| before + ns.min(to) - from)
    }

    fn within(&self, from: u64, to: u64) -> u64 {
        self.before(to).saturating_sub(self.before(from))
    }
}

/// A thread's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Absence {
    /// It could have run.
    ready: Gaps,
    /// It could, or waited for something.
    away: Gaps,
}

impl Absence {
    /// It had no processor from one time to the other, though it could have run from `ready` on.
    pub(super) fn add(&mut self, from: u64, ready: u64, to: u64) {
        self.away.add(from, to);
        self.ready.add(ready, to);
    }
}

/// Of all threads.
pub(super) struct Absences {
    time: Timeline,
    /// By the number that events have.
    threads: HashMap<u32, Absence>,
}

impl Absences {
    /// From what is known by the kernel's numbers.
    pub(super) fn new(time: Timeline, known: HashMap<u32, Absence>, threads: &[ThreadName]) -> Absences {
        let number = |(i, t): (usize, &ThreadName)| Some((i as u32 + 1, known.get(&t.kernel_id)?.clone()));
        Absences { time, threads: threads.iter().enumerate().filter_map(number).collect() }
    }

    /// Whether the kernel reported when this thread had a processor.
    pub(super) fn knows(&self, thread: u32) -> bool {
        self.threads.contains_key(&thread)
    }

    /// Of a span in cycles, how many of them a thread had no processor.
    pub(super) fn away(&self, thread: u32, from: u64, to: u64) -> u64 {
        self.part(thread, from, to, |absence| &absence.away)
    }

    /// The same, as far as it could have run.
    pub(super) fn ready(&self, thread: u32, from: u64, to: u64) -> u64 {
        self.part(thread, from, to, |absence| &absence.ready)
    }

    fn part(&self, thread: u32, from: u64, to: u64, of: fn(&Absence) -> &Gaps) -> u64 {
        let Some(absence) = self.threads.get(&thread) else { return 0 };
        let ns = of(absence).within(self.time.ns(from), self.time.ns(to));
        // Both clocks are read one after the other, so a span may seem to be shorter than what lies in it.
        ((ns as f64 * self.time.ghz()) as u64).min(to.saturating_sub(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Pair;

    #[test]
    fn what_lies_in_a_span_is_told() {
        let mut absence = Absence::default();
        absence.add(100, 150, 200);
        absence.add(300, 300, 400);
        // One that goes back in time is not believed.
        absence.add(50, 50, 350);
        let pair = |cycles, ns| Pair { cycles, ns };
        let time = Timeline::new(&[pair(0, 0), pair(2000, 1000)]);
        let thread = |kernel_id| ThreadName { kernel_id, ..ThreadName::default() };
        let known = HashMap::from([(7, absence)]);
        let absences = Absences::new(time, known, &[thread(6), thread(7)]);
        assert_eq!([1, 2].map(|t| absences.knows(t)), [false, true]);
        let away = |from: u64, to: u64| absences.away(2, from * 2, to * 2) / 2;
        assert_eq!(
            [(0, 100), (0, 1000), (120, 130), (190, 310), (350, 390), (400, 900)].map(|(a, b)| away(a, b)),
            [0, 200, 10, 20, 40, 0]
        );
        let ready = |from: u64, to: u64| absences.ready(2, from * 2, to * 2) / 2;
        assert_eq!([(0, 150), (0, 1000), (190, 310)].map(|(a, b)| ready(a, b)), [0, 150, 20]);
        assert_eq!(absences.away(1, 0, 1000), 0);
    }
}
