// SPDX-License-Identifier: MIT OR Apache-2.0
//! Soak: one rate for hours, and in which seconds frames were lost.
//!
//! No RFC has it. A rate that passes a minute may lose a few frames every hour, to a timer, a log file or a neighbour on the same
//! machine; an average hides this, loss by interval does not.

use std::time::Duration;

use super::stream::{Bin, Step, Streams, Timeline};
use super::{Error, require, seconds};

/// How the procedure is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Frames a second for each sending port.
    pub rate: f64,
    /// For how long.
    pub duration: Duration,
    /// Width of an interval.
    pub bin: Duration,
}

impl Parameters {
    /// An hour in seconds.
    pub fn hour(rate: f64) -> Parameters {
        Parameters { rate, duration: Duration::from_secs(3600), bin: Duration::from_secs(1) }
    }

    /// A minute in tenths of a second.
    pub fn quick(rate: f64) -> Parameters {
        Parameters { rate, duration: Duration::from_secs(60), bin: Duration::from_millis(100) }
    }
}

/// What the procedure found.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// How it was done.
    pub parameters: Parameters,
    /// All intervals together.
    pub total: Bin,
    /// How many intervals saw loss.
    pub bins_with_loss: usize,
    /// The interval of greatest loss by share of what was sent, and its number; nothing if nothing was lost.
    pub worst: Option<(usize, Bin)>,
    /// When the first lost frame was sent, to the width of an interval.
    pub first_loss: Option<Duration>,
    /// The longest time without loss.
    pub longest_clean: Duration,
    /// How many intervals the tester did not fill as it should have.
    pub bins_unsent: usize,
    /// The course of it.
    pub timeline: Timeline,
}

impl Report {
    /// Share of all frames sent that was lost, 0 to 1.
    pub fn loss_ratio(&self) -> f64 {
        ratio(&self.total)
    }
}

/// Runs the stream and looks where it lost frames.
///
/// # Errors
/// A parameter makes no sense, or the stream was invalid.
pub fn run(streams: &mut dyn Streams, parameters: &Parameters) -> Result<Report, Error> {
    let Parameters { rate, duration, bin } = *parameters;
    require(rate.is_finite() && rate > 0.0, "the rate", rate, "above 0 frames/s")?;
    require(!bin.is_zero(), "the interval", seconds(bin), "above 0 s")?;
    require(duration >= bin, "the duration", seconds(duration), "at least one interval")?;
    let steps = [Step { rate, duration }];
    let timeline = streams.stream(&steps, bin).map_err(|cause| Error::trial("the soak", cause))?;
    Ok(evaluate(timeline, parameters))
}

fn evaluate(timeline: Timeline, parameters: &Parameters) -> Report {
    let bins = &timeline.bins;
    let lossy = || bins.iter().enumerate().filter(|(_, bin)| bin.lost > 0);
    let worst =
        lossy().max_by(|(_, a), (_, b)| ratio(a).total_cmp(&ratio(b))).map(|(index, bin)| (index, *bin));
    let longest = bins.split(|bin| bin.lost > 0).map(<[Bin]>::len).max().unwrap_or(0);
    let times = |count: usize| timeline.bin.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
    Report {
        parameters: *parameters,
        total: timeline.total(),
        bins_with_loss: lossy().count(),
        worst,
        first_loss: lossy().next().map(|(index, _)| times(index)),
        longest_clean: times(longest),
        bins_unsent: bins.iter().filter(|bin| bin.sent < bin.intended).count(),
        timeline,
    }
}

fn ratio(bin: &Bin) -> f64 {
    if bin.sent == 0 { 0.0 } else { bin.lost as f64 / bin.sent as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Invalid;

    /// Loses these numbers of frames in these seconds.
    struct Device(Vec<(usize, u64)>);

    impl Streams for Device {
        fn stream(&mut self, steps: &[Step], bin: Duration) -> Result<Timeline, Invalid> {
            let count = (steps[0].duration.as_secs_f64() / bin.as_secs_f64()).round() as usize;
            let frames = (steps[0].rate * bin.as_secs_f64()) as u64;
            let mut bins = vec![Bin { intended: frames, sent: frames, lost: 0 }; count];
            for (second, lost) in &self.0 {
                bins[*second].lost = *lost;
            }
            bins[count - 1].sent -= 1;
            Ok(Timeline { bin, bins, ..Timeline::default() })
        }
    }

    #[test]
    fn loss_is_found_where_it_was() {
        let mut device = Device(vec![(100, 5), (2000, 50), (2001, 7)]);
        let report = run(&mut device, &Parameters::hour(1000.0)).unwrap();
        assert_eq!((report.bins_with_loss, report.bins_unsent), (3, 1));
        assert_eq!((report.total.sent, report.total.lost), (3_599_999, 62));
        assert_eq!(report.worst, Some((2000, Bin { intended: 1000, sent: 1000, lost: 50 })));
        assert_eq!(report.first_loss, Some(Duration::from_secs(100)));
        assert_eq!(report.longest_clean, Duration::from_secs(1899));
        assert!((report.loss_ratio() - 62.0 / 3_599_999.0).abs() < 1e-15);
    }

    #[test]
    fn nothing_lost() {
        let report = run(&mut Device(Vec::new()), &Parameters::quick(1000.0)).unwrap();
        assert_eq!((report.worst, report.first_loss, report.loss_ratio()), (None, None, 0.0));
        assert_eq!(report.longest_clean, Duration::from_secs(60));
        let none = Parameters { bin: Duration::ZERO, ..Parameters::quick(1.0) };
        assert!(run(&mut Device(Vec::new()), &none).is_err());
    }
}
