// SPDX-License-Identifier: MIT OR Apache-2.0
//! What elements and their tasks cost, by what is timed of it.
//!
//! One in so many batches is timed in the element that it comes to ([`CycleStats`]), and one in so many runs of tasks, timers and descriptors with all that
//! follows ([`TaskStats`]). Of such a run the element has for its own what it took before anything followed, less what it took to fetch: this is timed, too,
//! and is the cost of the elements it was fetched from. What is not in a timed run costs a look at one field when packets are fetched, and nothing else.

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

sync::all_zero!(Judge { left_out });

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

sync::all_zero!(CycleStats { cycles, packets, timed, judge });

impl CycleStats {
    /// Counts a timed batch of so many packets, if nothing interrupted it.
    #[inline]
    pub(crate) fn time(&mut self, cycles: u64, packets: usize) {
        let packets = packets as u64;
        // What a batch costs grows with its packets, but not from nothing.
        let each = self.cycles / self.timed.max(1);
        let usual = each.max((self.cycles / self.packets.max(1)).saturating_mul(packets));
        if self.judge.admits(cycles, self.timed, usual) {
            self.add(CycleStats { cycles, packets, timed: 1, ..CycleStats::default() });
        }
    }

    /// Cycles of so many packets, judged by the timed ones.
    pub fn of(&self, packets: u64) -> f64 {
        self.cycles as f64 * packets as f64 / self.packets.max(1) as f64
    }

    /// Adds what another one counted.
    pub(crate) fn add(&mut self, more: CycleStats) {
        self.cycles += more.cycles;
        self.packets += more.packets;
        self.timed += more.timed;
    }
}

/// What runs of an element cost, which are not for a batch that has come, but for its task, or for a timer or descriptor: how many there were, and the time of some
/// of them with all that followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskStats {
    /// Runs that did work.
    pub runs: u64,
    /// Timed runs.
    pub timed: u64,
    /// Time stamp counter cycles of these, until nothing was left of what they sent.
    pub cycles: u64,
    /// Of these, what the element took itself.
    pub own: u64,
    /// The last run found nothing to do.
    pub(crate) idle: bool,
    judge: Judge,
}

sync::all_zero!(TaskStats { runs, timed, cycles, own, idle, judge });

impl TaskStats {
    /// Counts a timed run, if nothing interrupted it: its cycles, and those of them that were the element's own.
    #[inline]
    pub(crate) fn time(&mut self, cycles: u64, own: u64) {
        let usual = self.cycles / self.timed.max(1);
        if self.judge.admits(cycles, self.timed, usual) {
            self.timed += 1;
            self.cycles += cycles;
            self.own += own;
        }
    }

    /// Adds what another one counted.
    pub(crate) fn add(&mut self, more: TaskStats) {
        self.runs += more.runs;
        self.timed += more.timed;
        self.cycles += more.cycles;
        self.own += more.own;
    }

    /// What was counted since `before`; nothing of what has fallen.
    #[must_use]
    pub fn since(&self, before: &TaskStats) -> TaskStats {
        TaskStats {
            runs: self.runs.saturating_sub(before.runs),
            timed: self.timed.saturating_sub(before.timed),
            cycles: self.cycles.saturating_sub(before.cycles),
            own: self.own.saturating_sub(before.own),
            idle: self.idle,
            judge: Judge::default(),
        }
    }

    /// Cycles of all runs, judged by the timed ones.
    pub fn all_cycles(&self) -> f64 {
        self.of_all_runs(self.cycles)
    }

    /// Of these, what the element took itself.
    pub fn all_own(&self) -> f64 {
        self.of_all_runs(self.own)
    }

    fn of_all_runs(&self, timed: u64) -> f64 {
        if self.timed == 0 { 0.0 } else { timed as f64 * self.runs as f64 / self.timed as f64 }
    }
}

/// Whose the time is that passes: the run that is being timed, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// What is fetched is to be timed.
    on: bool,
    /// Cycles of the run that others took within it.
    others: u64,
}

/// A run that is being timed.
#[derive(Debug)]
pub(crate) struct Span {
    /// When it began, in cycles.
    pub(crate) begun: u64,
    /// What it lies in.
    around: Meter,
}

impl Meter {
    /// Whether what is fetched is to be timed.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// A run begins, in which what is fetched is to be timed or not.
    pub(crate) fn begin(&mut self, on: bool) -> Span {
        let around = std::mem::replace(self, Meter { on, others: 0 });
        Span { around, begun: sync::tsc() }
    }

    /// It has ended: returns its cycles without those that others took within it. For the run around it all of them are others'.
    pub(crate) fn end(&mut self, span: &Span) -> u64 {
        let cycles = sync::tsc().saturating_sub(span.begun);
        let own = cycles.saturating_sub(self.others);
        *self = Meter { on: span.around.on, others: span.around.others.saturating_add(cycles) };
        own
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
        (0..20).for_each(|_| stats.time(100, 30));
        stats.time(1_000_000, 30);
        assert_eq!((stats.timed, stats.cycles, stats.own), (20, 2000, 600));
        stats.time(1_000_000, 30);
        assert_eq!((stats.timed, stats.cycles, stats.own), (21, 1_002_000, 630));
    }

    #[test]
    fn what_lies_in_a_run_is_not_its_own() {
        let mut meter = Meter::default();
        let run = meter.begin(true);
        let fetched = meter.begin(true);
        let further = meter.begin(true);
        let own_further = meter.end(&further);
        let own_fetched = meter.end(&fetched);
        assert!(meter.is_on());
        let others = meter.others;
        assert!(own_further + own_fetched <= others, "{own_further} and {own_fetched} of {others}");
        let own = meter.end(&run);
        assert!(!meter.is_on());
        assert_eq!(own + others, meter.others, "all of it is the time of a run around it");
    }
}
