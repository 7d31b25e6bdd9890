// SPDX-License-Identifier: MIT OR Apache-2.0
//! When frames are due: at a constant rate, independent of the ones before.
//!
//! The schedule is absolute. A frame that could not leave when it was due leaves as soon as it can, and its lateness is noted ([`Pace::lateness`]). A
//! sender that kept a distance between frames instead would slow down with the device and hide what it did (coordinated omission).

use std::time::Duration;

/// Frames at a constant rate, from a moment on.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    start_ns: u64,
    /// Between two frames, in 2^-32 ns.
    interval: u128,
    /// How many there are.
    frames: u64,
    /// So many are due at a time, at the time of the first of them.
    burst: u64,
}

impl Pace {
    /// `rate` frames a second for `duration`, the first at `start_ns`. None if the rate is no positive number.
    pub fn new(rate: f64, duration: Duration, start_ns: u64) -> Option<Pace> {
        if !(rate > 0.0 && rate < 1e12) {
            return None;
        }
        let frames = (rate * duration.as_secs_f64()).round() as u64;
        let interval = (1e9 / rate * (1u64 << 32) as f64).round() as u128;
        Some(Pace { start_ns, interval, frames, burst: 1 })
    }

    /// How many frames there are.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// The same with frames that come in bursts of so many (RFC 2544 21), each as close together as the sender can.
    pub fn in_bursts(self, burst: u64) -> Pace {
        Pace { burst: burst.max(1), ..self }
    }

    /// When the frame of this number is due.
    #[inline]
    pub fn due_ns(&self, number: u64) -> u64 {
        let first = if self.burst == 1 { number } else { number - number % self.burst };
        self.start_ns + ((self.interval * u128::from(first)) >> 32) as u64
    }

    /// How many frames are due until this moment.
    #[inline]
    pub fn due_until(&self, now_ns: u64) -> u64 {
        match now_ns.checked_sub(self.start_ns) {
            None => 0,
            Some(passed) => {
                let due = ((u128::from(passed) + 1) << 32).div_ceil(self.interval.max(1));
                let due = u64::try_from(due).unwrap_or(u64::MAX);
                let due =
                    if self.burst == 1 { due } else { due.div_ceil(self.burst).saturating_mul(self.burst) };
                due.min(self.frames)
            }
        }
    }

    /// When the time is over: when a further frame would be due.
    pub fn end_ns(&self) -> u64 {
        self.start_ns + ((self.interval * u128::from(self.frames)) >> 32) as u64
    }
}

/// Frames at one rate after another, without a pause between; numbered through.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The number of each part's first frame, and the part.
    parts: Vec<(u64, Pace)>,
    frames: u64,
    end_ns: u64,
}

impl Schedule {
    /// Each rate in frames a second for its time, the first frame at `start_ns`, in bursts of so many frames. None if there is no
    /// step, or a rate is no positive number.
    pub fn steps(steps: &[(f64, Duration)], burst: u64, start_ns: u64) -> Option<Schedule> {
        let (mut parts, mut frames, mut at) = (Vec::new(), 0, start_ns);
        for (rate, duration) in steps {
            let pace = Pace::new(*rate, *duration, at)?.in_bursts(burst);
            parts.push((frames, pace));
            frames += pace.frames;
            at += duration.as_nanos() as u64;
        }
        (!parts.is_empty()).then_some(Schedule { parts, frames, end_ns: at })
    }

    /// So many frames at a rate.
    pub fn burst(rate: f64, frames: u64, start_ns: u64) -> Option<Schedule> {
        let pace = Pace { frames, ..Pace::new(rate, Duration::ZERO, start_ns)? };
        Some(Schedule { parts: vec![(0, pace)], frames, end_ns: pace.end_ns() })
    }

    /// How many frames there are.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// When the frame of this number is due.
    #[inline]
    pub fn due_ns(&self, number: u64) -> u64 {
        let part = self.parts.iter().rev().find(|(first, _)| *first <= number);
        part.map_or(0, |(first, pace)| pace.due_ns(number - first))
    }

    /// How many frames are due until this moment.
    #[inline]
    pub fn due_until(&self, now_ns: u64) -> u64 {
        let part = self.parts.iter().rev().find(|(_, pace)| pace.start_ns <= now_ns);
        part.map_or(0, |(first, pace)| first + pace.due_until(now_ns))
    }

    /// The parts: when the first frame is due, how long it takes to the next in 2^-32 ns, and how many there are.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (u64, u128, u64)> {
        self.parts.iter().map(|(_, pace)| (pace.start_ns, pace.interval, pace.frames))
    }

    /// How many frames are due at a time.
    pub(crate) fn burst_frames(&self) -> u64 {
        self.parts.first().map_or(1, |(_, pace)| pace.burst)
    }

    /// When each part begins.
    pub fn starts_ns(&self) -> impl Iterator<Item = u64> {
        self.parts.iter().map(|(_, pace)| pace.start_ns)
    }

    /// When the time is over.
    pub fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// How late the frame of this number is, if it leaves now.
    #[inline]
    pub fn lateness(&self, number: u64, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.due_ns(number))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_rate_is_kept_over_a_minute() {
        let pace = Pace::new(14_880_952.38, Duration::from_secs(60), 1000).expect("a rate");
        assert_eq!(pace.frames(), 892_857_143);
        assert!(pace.end_ns().abs_diff(60_000_001_000) < 300, "{}", pace.end_ns());
        assert_eq!(
            (pace.due_until(999), pace.due_until(1000), pace.due_until(u64::MAX)),
            (0, 1, 892_857_143)
        );
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Pace::new(bad, Duration::from_secs(1), 0).is_none(), "{bad}");
        }
    }

    #[test]
    fn rates_follow_each_other_without_a_gap() {
        let second = Duration::from_secs(1);
        let schedule = Schedule::steps(&[(1000.0, second), (500.0, second * 2)], 1, 77).expect("rates");
        assert_eq!((schedule.frames(), schedule.end_ns()), (2000, 3_000_000_077));
        assert_eq!(schedule.starts_ns().collect::<Vec<_>>(), [77, 1_000_000_077]);
        for (number, due_ns) in [(0, 77), (999, 999_000_077), (1000, 1_000_000_077), (1001, 1_002_000_077)] {
            assert_eq!(schedule.due_ns(number), due_ns, "{number}");
            assert_eq!((schedule.due_until(due_ns - 1), schedule.due_until(due_ns)), (number, number + 1));
        }
        assert_eq!((schedule.lateness(0, 577), schedule.lateness(10, 577)), (500, 0));
        assert_eq!(schedule.due_until(u64::MAX), 2000);
        let burst = Schedule::burst(1e6, 5, 0).expect("a rate");
        assert_eq!((burst.frames(), burst.due_ns(4), burst.end_ns()), (5, 4000, 5000));
        assert!(Schedule::steps(&[], 1, 0).is_none() && Schedule::steps(&[(0.0, second)], 1, 0).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
        #[test]
        fn what_is_due_is_counted(rate in 1.0f64..1e8, number in 0u64..1_000_000, burst in 1u64..70) {
            let pace = Pace::new(rate, Duration::from_secs(1_000_001), 77).expect("a rate").in_bursts(burst);
            prop_assume!(number + burst < pace.frames());
            let due = pace.due_ns(number);
            prop_assert!(pace.due_until(due) > number);
            prop_assert!(due == 77 || pace.due_until(due - 1) <= number);
            prop_assert_eq!(pace.due_until(due) % burst, 0);
            prop_assert_eq!(pace.due_ns(number - number % burst), due);
        }
    }
}
