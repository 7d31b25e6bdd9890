// SPDX-License-Identifier: MIT OR Apache-2.0
//! What elements and their tasks cost, by what is timed of it.

/// How many times as long as others in the mean a run takes that was interrupted, or looks so.
const INTERRUPTED: u64 = 50;
/// Timed runs after which a mean is known.
const KNOWN: u64 = 8;

/// Whether what is timed counts.
///
/// A run in which the machine did something else for a while stands for many others when it is counted, so it is left out; not so
/// two in succession, which say that runs take longer now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Judge {
    /// The last one took so long that it was left out.
    left_out: bool,
}

impl Judge {
    /// Whether a run of so many cycles counts, after `timed` others that led to expect about `usual`.
    #[inline]
    fn admits(&mut self, cycles: u64, timed: u64, usual: u64) -> bool {
        self.left_out = !self.left_out && timed >= KNOWN && cycles / INTERRUPTED > usual;
        !self.left_out
    }
}

/// Sampled cost of an element on one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CycleStats {
    /// Time stamp counter cycles of the sampled dispatches.
    pub cycles: u64,
    /// Packets that they processed.
    pub packets: u64,
    /// How many they were.
    pub timed: u64,
    judge: Judge,
}

impl CycleStats {
    /// Counts a timed batch of so many packets, if nothing interrupted it.
    #[inline]
    pub(super) fn time(&mut self, cycles: u64, packets: usize) {
        let packets = packets as u64;
        // What a batch costs grows with its packets, but not from nothing.
        let each = self.cycles / self.timed.max(1);
        let usual = each.max((self.cycles / self.packets.max(1)).saturating_mul(packets));
        if self.judge.admits(cycles, self.timed, usual) {
            self.add(CycleStats { cycles, packets, timed: 1, ..CycleStats::default() });
        }
    }

    /// Adds what another one counted.
    pub(crate) fn add(&mut self, more: CycleStats) {
        self.cycles += more.cycles;
        self.packets += more.packets;
        self.timed += more.timed;
    }
}

/// What the tasks of an element cost: runs, and the time of some of them with all that followed from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskStats {
    /// Runs that did work.
    pub runs: u64,
    /// Timed runs.
    pub timed: u64,
    /// Time stamp counter cycles of these, until nothing was left of what they sent.
    pub cycles: u64,
    judge: Judge,
}

impl TaskStats {
    /// Counts a timed run, if nothing interrupted it.
    #[inline]
    pub(super) fn time(&mut self, cycles: u64) {
        let usual = self.cycles / self.timed.max(1);
        if self.judge.admits(cycles, self.timed, usual) {
            self.timed += 1;
            self.cycles += cycles;
        }
    }

    /// Adds what another one counted.
    pub(crate) fn add(&mut self, more: TaskStats) {
        self.runs += more.runs;
        self.timed += more.timed;
        self.cycles += more.cycles;
    }

    /// What was counted since `before`; nothing of what has fallen.
    #[must_use]
    pub fn since(&self, before: &TaskStats) -> TaskStats {
        TaskStats {
            runs: self.runs.saturating_sub(before.runs),
            timed: self.timed.saturating_sub(before.timed),
            cycles: self.cycles.saturating_sub(before.cycles),
            judge: Judge::default(),
        }
    }

    /// Cycles of all runs, judged by the timed ones.
    pub fn all_cycles(&self) -> f64 {
        if self.timed == 0 { 0.0 } else { self.cycles as f64 * self.runs as f64 / self.timed as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cycles and packets that count of these batches.
    fn counted(batches: impl IntoIterator<Item = (u64, usize)>) -> (u64, u64) {
        let mut stats = CycleStats::default();
        batches.into_iter().for_each(|(cycles, packets)| stats.time(cycles, packets));
        (stats.cycles, stats.packets)
    }

    #[test]
    fn an_interrupted_batch_does_not_count() {
        let usual = || std::iter::repeat_n((50, 32), 100);
        let preempted = usual().chain([(3_000_000, 32)]).chain(usual());
        assert_eq!(counted(preempted), (200 * 50, 200 * 32));
        // Twice in succession it is no accident.
        let slower = usual().chain([(3_000_000, 32); 2]);
        assert_eq!(counted(slower), (100 * 50 + 3_000_000, 101 * 32));
    }

    #[test]
    fn batches_of_another_size_count() {
        // Single packets, each of which costs about as much as a batch, and batches after single packets.
        let alone = std::iter::repeat_n((320, 256), 100).chain([(250, 1); 9]);
        assert_eq!(counted(alone), (100 * 320 + 9 * 250, 100 * 256 + 9));
        let together = std::iter::repeat_n((100, 1), 100).chain([(25_600, 256); 9]);
        assert_eq!(counted(together), (100 * 100 + 9 * 25_600, 100 + 9 * 256));
    }

    #[test]
    fn an_interrupted_run_of_a_task_does_not_count() {
        let mut stats = TaskStats::default();
        (0..20).for_each(|_| stats.time(100));
        stats.time(1_000_000);
        assert_eq!((stats.timed, stats.cycles), (20, 2000));
        stats.time(1_000_000);
        assert_eq!((stats.timed, stats.cycles), (21, 1_002_000));
    }
}
