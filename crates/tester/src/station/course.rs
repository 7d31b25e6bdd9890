// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loss over time: what was sent when and did not arrive.
//!
//! Each port's frames are numbered through. What is missing of them is a list of runs: one begins when a number is left out, and is
//! cut in two when a frame in its midst arrives after all. So nothing need be remembered of what arrived, however late a frame
//! comes. Where there are too many runs, those within one bin of the timeline become one, which then has several holes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::pace::Schedule;
use crate::search::stream::{Bin, Gap, Timeline};

/// Runs that are kept apart at least, for each port.
const RUNS: usize = 1 << 16;

/// Frames of a port that are missing: `frames` out of those from `first` to `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Run {
    first: u64,
    last: u64,
    frames: u64,
    /// When the frame before arrived.
    before_ns: Option<u64>,
    /// When the frame after arrived.
    after_ns: Option<u64>,
}

impl Run {
    fn is_whole(&self) -> bool {
        self.frames == self.last - self.first + 1
    }
}

/// One port's frames.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Track {
    /// The number after the greatest seen.
    next: u64,
    /// When that arrived.
    last_ns: Option<u64>,
    runs: Vec<Run>,
    /// Frames that arrived, by when they were due.
    bins: Vec<u64>,
}

impl Track {
    /// Puts down a frame that had been missing until now.
    #[cold]
    fn late(&mut self, number: u64, now_ns: u64) {
        let index = self.runs.partition_point(|run| run.first <= number);
        let Some(index) = index.checked_sub(1) else { return };
        let run = self.runs[index];
        if number > run.last {
            return;
        }
        if !run.is_whole() {
            self.runs[index].frames -= 1;
        } else if run.frames == 1 {
            self.runs.remove(index);
        } else if number == run.first {
            self.runs[index] =
                Run { first: number + 1, frames: run.frames - 1, before_ns: Some(now_ns), ..run };
        } else {
            self.runs[index] =
                Run { last: number - 1, frames: number - run.first, after_ns: Some(now_ns), ..run };
            if number < run.last {
                let frames = run.last - number;
                let rest = Run { first: number + 1, frames, before_ns: Some(now_ns), ..run };
                self.runs.insert(index + 1, rest);
            }
        }
    }
}

/// How a stream fares.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Course {
    start_ns: u64,
    bin_ns: u64,
    tracks: Vec<Track>,
    /// Moments at which runs are kept apart.
    marks_ns: Vec<u64>,
    /// When something was done to the device.
    event_ns: Option<u64>,
    most: usize,
}

impl Course {
    /// Of a stream by so many ports, in bins of this width.
    pub(super) fn new(schedule: &Schedule, start_ns: u64, bin: Duration, ports: usize) -> Course {
        let bin_ns = (bin.as_nanos() as u64).max(1);
        let bins = (schedule.end_ns() - start_ns).div_ceil(bin_ns) as usize;
        let track = Track { bins: vec![0; bins], ..Track::default() };
        let marks_ns = schedule.starts_ns().collect();
        let most = RUNS.max(4 * bins);
        Course { start_ns, bin_ns, tracks: vec![track; ports], marks_ns, event_ns: None, most }
    }

    /// The stream starts then, although what was prepared had it start at 0.
    pub(super) fn starts(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
        self.marks_ns.iter_mut().for_each(|mark| *mark += start_ns);
    }

    /// The same with all times from the start.
    pub(super) fn rebased(mut self) -> Course {
        let start_ns = std::mem::take(&mut self.start_ns);
        let since = |ns: &mut u64| *ns = ns.saturating_sub(start_ns);
        self.marks_ns.iter_mut().chain(&mut self.event_ns).for_each(since);
        for track in &mut self.tracks {
            track.last_ns.iter_mut().for_each(since);
            track
                .runs
                .iter_mut()
                .flat_map(|run| run.before_ns.iter_mut().chain(&mut run.after_ns))
                .for_each(since);
        }
        self
    }

    /// Adds what others saw of the same stream. Of each port's frames, those of one of them are taken: where the most arrived.
    pub(super) fn add(&mut self, others: Course) {
        let arrived = |track: &Track| track.bins.iter().sum::<u64>();
        for (track, other) in self.tracks.iter_mut().zip(others.tracks) {
            if arrived(&other) > arrived(track) {
                *track = other;
            }
        }
    }

    /// Something is done to the device now.
    pub(super) fn event(&mut self, now_ns: u64) {
        self.event_ns = Some(now_ns);
        self.marks_ns.push(now_ns);
    }

    fn bin(&self, due_ns: u64) -> usize {
        (due_ns.saturating_sub(self.start_ns) / self.bin_ns) as usize
    }

    /// A port's frame of this number, due then, was received.
    #[inline]
    pub(super) fn received(&mut self, port: usize, number: u64, schedule: &Schedule, now_ns: u64) {
        let bin = self.bin(schedule.due_ns(number));
        let track = &mut self.tracks[port];
        if let Some(bin) = track.bins.get_mut(bin) {
            *bin += 1;
        }
        if number < track.next {
            return track.late(number, now_ns);
        }
        if number > track.next {
            let (first, last) = (track.next, number - 1);
            let (before_ns, after_ns) = (track.last_ns, Some(now_ns));
            track.runs.push(Run { first, last, frames: number - first, before_ns, after_ns });
            if track.runs.len() > self.most {
                self.join(port, schedule);
            }
        }
        let track = &mut self.tracks[port];
        (track.next, track.last_ns) = (number + 1, Some(now_ns));
    }

    /// Makes the runs of each bin one.
    #[cold]
    fn join(&mut self, port: usize, schedule: &Schedule) {
        let place = |number: u64| {
            let due_ns = schedule.due_ns(number);
            (self.bin(due_ns), self.marks_ns.iter().filter(|mark| **mark <= due_ns).count())
        };
        let mut joined: Vec<Run> = Vec::new();
        for run in &self.tracks[port].runs {
            match joined.last_mut() {
                Some(before) if place(before.first) == place(run.last) => {
                    before.last = run.last;
                    before.frames += run.frames;
                    before.after_ns = run.after_ns;
                }
                _ => joined.push(*run),
            }
        }
        self.tracks[port].runs = joined;
    }

    /// What came of it; how many frames each port was to send, and sent.
    pub(super) fn timeline(mut self, schedule: &Schedule, ports: &[(u64, u64)]) -> Timeline {
        let since = |ns: u64| Duration::from_nanos(ns.saturating_sub(self.start_ns));
        let bins = self.tracks.first().map_or(0, |track| track.bins.len());
        let mut timeline = Timeline {
            steps: schedule.starts_ns().map(since).collect(),
            end: since(
                ports.iter().map(|(_, sent)| schedule.due_ns(sent.saturating_sub(1))).max().unwrap_or(0),
            ),
            event: self.event_ns.map(since),
            bin: Duration::from_nanos(self.bin_ns),
            bins: vec![Bin::default(); bins],
            gaps: Vec::new(),
            late: 0,
        };
        for (track, (_, sent)) in self.tracks.iter_mut().zip(ports).filter(|(_, (intended, _))| *intended > 0)
        {
            let mut before = 0;
            for (index, (bin, received)) in timeline.bins.iter_mut().zip(&track.bins).enumerate() {
                // What is due within the bin: until the last nanosecond of it.
                let until = schedule.due_until(self.start_ns + (index as u64 + 1) * self.bin_ns - 1);
                let sent = until.min(*sent).saturating_sub(before.min(*sent));
                bin.intended += until - before;
                bin.sent += sent;
                bin.lost += sent.saturating_sub(*received);
                before = until;
            }
            if track.next < *sent {
                let (first, last) = (track.next, sent - 1);
                track.runs.push(Run {
                    first,
                    last,
                    frames: sent - first,
                    before_ns: track.last_ns,
                    after_ns: None,
                });
            }
            timeline.gaps.extend(track.runs.iter().map(|run| Gap {
                frames: run.frames,
                first_sent: since(schedule.due_ns(run.first)),
                last_sent: since(schedule.due_ns(run.last)),
                arrived_before: run.before_ns.map(since),
                arrived_after: run.after_ns.map(since),
            }));
        }
        timeline.gaps.sort_by_key(|gap| gap.first_sent);
        timeline
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A stream of 100 frames a second for `seconds`, of which these arrive 5 ms after they were due, in this order.
    fn timeline(seconds: u32, arrivals: &[u64], most: usize) -> Timeline {
        let schedule = Schedule::steps(&[(100.0, SECOND * seconds)], 1, 1000).expect("a rate");
        let mut course = Course::new(&schedule, 1000, Duration::from_millis(100), 1);
        course.most = most;
        for number in arrivals {
            course.received(0, *number, &schedule, schedule.due_ns(*number) + 5_000_000);
        }
        course.timeline(&schedule, &[(schedule.frames(), schedule.frames())])
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn what_is_missing_has_its_time() {
        let arrivals: Vec<u64> = (0..20).chain(25..60).chain(70..95).collect();
        let timeline = timeline(1, &arrivals, RUNS);
        let gap = |frames, first, last, before, after: Option<u64>| Gap {
            frames,
            first_sent: ms(first),
            last_sent: ms(last),
            arrived_before: Some(ms(before)),
            arrived_after: after.map(ms),
        };
        let gaps = [
            gap(5, 200, 240, 195, Some(255)),
            gap(10, 600, 690, 595, Some(705)),
            gap(5, 950, 990, 945, None),
        ];
        assert_eq!(timeline.gaps, gaps);
        let lost: Vec<u64> = timeline.bins.iter().map(|bin| bin.lost).collect();
        assert_eq!(lost, [0, 0, 5, 0, 0, 0, 10, 0, 0, 5]);
        assert!(timeline.bins.iter().all(|bin| (bin.intended, bin.sent) == (10, 10)));
        assert_eq!((timeline.end, timeline.event, timeline.steps), (ms(990), None, vec![ms(0)]));
    }

    #[test]
    fn nothing_at_all_is_one_gap_and_unsent_frames_are_none() {
        let schedule = Schedule::steps(&[(100.0, SECOND)], 1, 0).expect("a rate");
        // The third port was not to send anything.
        let mut course = Course::new(&schedule, 0, ms(500), 3);
        course.event(300_000_000);
        let timeline = course.timeline(&schedule, &[(100, 60), (100, 0), (0, 0)]);
        assert_eq!(timeline.bins[1], Bin { intended: 100, sent: 10, lost: 10 });
        assert_eq!((timeline.gaps.len(), timeline.gaps[0].arrived_before), (1, None));
        assert!(!timeline.tester_kept_up());
        assert_eq!((timeline.end, timeline.event), (ms(590), Some(ms(300))));
    }

    #[test]
    fn too_many_gaps_become_one_for_each_bin() {
        let odd: Vec<u64> = (0..1000).filter(|number| number % 2 == 1).collect();
        let all = timeline(10, &odd, RUNS);
        assert_eq!(all.gaps.len(), 500);
        let few = timeline(10, &odd, 120);
        assert!(few.gaps.len() <= 121, "{}", few.gaps.len());
        assert_eq!(few.gaps.iter().map(|gap| gap.frames).sum::<u64>(), 500);
        assert_eq!((&few.bins, few.end), (&all.bins, all.end));
        // What arrives late is found in what was joined, too.
        let late: Vec<u64> = odd.iter().copied().chain([2, 4]).collect();
        assert_eq!(timeline(10, &late, 120).gaps.iter().map(|gap| gap.frames).sum::<u64>(), 498);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
        /// Compared with a set of all that arrived, in any order.
        #[test]
        fn gaps_are_what_a_set_lacks(arrivals in prop::collection::vec(0u64..100, 0..150)) {
            let mut seen = BTreeSet::new();
            let first: Vec<u64> = arrivals.into_iter().filter(|number| seen.insert(*number)).collect();
            let found = timeline(1, &first, RUNS);
            let mut missing: Vec<(u64, u64)> = Vec::new();
            for number in (0..100).filter(|number| !seen.contains(number)) {
                match missing.last_mut() {
                    Some((_, last)) if *last + 1 == number => *last = number,
                    _ => missing.push((number, number)),
                }
            }
            let due = |at: Duration| at.as_millis() as u64 / 10;
            let gaps: Vec<(u64, u64)> =
                found.gaps.iter().map(|gap| (due(gap.first_sent), due(gap.last_sent))).collect();
            prop_assert_eq!(&gaps, &missing);
            for (gap, (first, last)) in found.gaps.iter().zip(missing) {
                prop_assert_eq!(gap.frames, last - first + 1);
                // Neighbours of a gap have arrived, 5 ms after they were sent.
                prop_assert_eq!(gap.arrived_before, (first > 0).then(|| ms(first * 10 - 5)));
                prop_assert_eq!(gap.arrived_after, (last < 99).then(|| ms(last * 10 + 15)));
            }
        }
    }
}
