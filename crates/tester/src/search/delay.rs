// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency and its variation from the times of single frames (RFC 8219 7.2 and 7.3, which refine RFC 2544 26.2).
//!
//! | quantity | of one trial | section |
//! |---|---|---|
//! | typical latency | the median of the latencies of the tagged frames | 7.2 |
//! | worst-case latency | their 99.9th percentile | 7.2 |
//! | PDV | the 99.9th percentile of all frames' delays less the least delay; lost frames count as infinitely late | 7.3.1 |
//! | IPDV | difference of the delays of each two successive frames | 7.3.2 |
//!
//! Over the trials, which are at least 20, the median of each quantity is the result and its 1st and 99th percentile say how it
//! varied. Percentiles are those of the empirical distribution (RFC 2330 11.3): the least value that enough of the sample does
//! not exceed, hence always a value of the sample; the median of an even number is the mean of the middle two.
//!
//! Times are nanoseconds from the sending of a frame to its arrival.

use std::time::Duration;

use super::{Ledger, Level, seconds};

/// Trials that RFC 2544 26.2 and RFC 8219 7.2 ask for.
pub const RFC_TRIALS: usize = 20;
/// Tagged frames of a trial that RFC 8219 7.2 asks for.
pub const RFC_TAGGED_FRAMES: usize = 500;
/// Length of a latency trial (RFC 2544 26.2).
pub const RFC_LATENCY_TRIAL: Duration = Duration::from_secs(120);
/// Frames are tagged after this time (RFC 2544 26.2).
pub const RFC_TAGGED_AFTER: Duration = Duration::from_secs(60);
/// Length of a trial for delay variation (RFC 8219 7.3).
pub const RFC_VARIATION_TRIAL: Duration = Duration::from_secs(60);

/// The least value of `sorted` that `part` of `of` of the values do not exceed; nothing of an empty sample.
///
/// ```
/// use junctor_tester::search::delay::percentile;
/// let sorted: Vec<u64> = (1..=1000).collect();
/// assert_eq!(percentile(&sorted, 999, 1000), Some(999));
/// assert_eq!(percentile(&sorted, 0, 100), Some(1));
/// ```
pub fn percentile<T: Copy>(sorted: &[T], part: u64, of: u64) -> Option<T> {
    let rank = (sorted.len() as u128 * u128::from(part)).div_ceil(u128::from(of.max(1)));
    sorted.get((rank.max(1) - 1) as usize).copied()
}

/// The middle value of a sorted sample.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { (sorted[middle - 1] + upper) / 2.0 })
}

/// Latency in one trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// Typical latency: the median.
    pub typical_ns: f64,
    /// Worst-case latency: the 99.9th percentile.
    pub worst_ns: f64,
    /// Tagged frames that arrived.
    pub frames: usize,
}

/// Latency from the tagged frames of one trial; nothing if none arrived.
pub fn latency(tagged_ns: &[u64]) -> Option<Latency> {
    let mut sorted: Vec<f64> = tagged_ns.iter().map(|ns| *ns as f64).collect();
    sorted.sort_by(f64::total_cmp);
    let worst_ns = percentile(&sorted, 999, 1000)?;
    Some(Latency { typical_ns: median(&sorted)?, worst_ns, frames: sorted.len() })
}

/// The average of the latencies of one trial's tagged frames (RFC 2544 26.2); nothing if none arrived.
pub fn average_ns(tagged_ns: &[u64]) -> Option<f64> {
    let sum: f64 = tagged_ns.iter().map(|ns| *ns as f64).sum();
    (!tagged_ns.is_empty()).then(|| sum / tagged_ns.len() as f64)
}

/// Packet delay variation of one trial: the 99.9th percentile of the delays less the least one.
///
/// `delays_ns` are those of the frames that arrived, in any order. `lost` is the number of those that did not, which count as
/// infinitely late. So with more than 0.1 % lost there is no finite value, and the result is `f64::INFINITY`.
/// Nothing if no frame arrived.
pub fn pdv_ns(delays_ns: &[u64], lost: u64) -> Option<f64> {
    let mut sorted = delays_ns.to_vec();
    sorted.sort_unstable();
    let least = *sorted.first()?;
    let all = sorted.len() as u128 + u128::from(lost);
    let rank = (all * 999).div_ceil(1000).max(1) - 1;
    let late = usize::try_from(rank).ok().and_then(|rank| sorted.get(rank));
    Some(late.map_or(f64::INFINITY, |late| (late - least) as f64))
}

/// Inter-packet delay variation of one trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ipdv {
    /// The least: the most that a frame caught up with the one before it. Usually negative.
    pub min_ns: f64,
    /// The median.
    pub median_ns: f64,
    /// The greatest: the most that a frame fell behind the one before it.
    pub max_ns: f64,
    /// Mean of the values without their sign.
    pub mean_absolute_ns: f64,
    /// Pairs of frames.
    pub pairs: usize,
}

/// Inter-packet delay variation from the delays in order of sending, `None` for a lost frame. A pair of which one frame
/// was lost has no variation (RFC 3393 2.4) and is left out. Nothing if there is no pair.
pub fn ipdv(delays_ns: &[Option<u64>]) -> Option<Ipdv> {
    let pair = |pair: &[Option<u64>]| Some(pair[1]? as f64 - pair[0]? as f64);
    let mut sorted: Vec<f64> = delays_ns.windows(2).filter_map(pair).collect();
    sorted.sort_by(f64::total_cmp);
    let absolute: f64 = sorted.iter().map(|ns| ns.abs()).sum();
    Some(Ipdv {
        min_ns: *sorted.first()?,
        median_ns: median(&sorted)?,
        max_ns: *sorted.last()?,
        mean_absolute_ns: absolute / sorted.len() as f64,
        pairs: sorted.len(),
    })
}

/// One quantity over the trials (RFC 8219 7.2): the result and how it varied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repeated {
    /// The result.
    pub median: f64,
    /// 1st percentile.
    pub p1: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Trials.
    pub trials: usize,
}

/// The median of one value per trial, with 1st and 99th percentile; nothing for no trials.
pub fn repeated(values: &[f64]) -> Option<Repeated> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (p1, p99) = (percentile(&sorted, 1, 100)?, percentile(&sorted, 99, 100)?);
    Some(Repeated { median: median(&sorted)?, p1, p99, trials: sorted.len() })
}

/// How a test of single frames' delays was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Trials.
    pub trials: usize,
    /// How long each was.
    pub duration: Duration,
    /// From when on frames were tagged.
    pub tagged_after: Duration,
    /// Tagged frames that arrived, in the trial with fewest.
    pub tagged: usize,
    /// One out of how many frames' delays were kept.
    pub one_in: u64,
    /// Whether each port sent to one destination.
    pub one_destination: bool,
}

/// Notes that a stream has one destination, and that results are in a table with what belongs to them.
fn stream_and_table(ledger: &mut Ledger, section: &'static str, how: &How) {
    ledger.note(
        section,
        Level::Plain,
        "the stream goes to one destination",
        how.one_destination,
        "each port sent to all destinations of its flows in turn; --flows-per-port 1 has it send to one",
    );
    ledger.note_table(section);
    // Rates that were searched for are in a table of their own, rates that were named in the command line.
    ledger.never(
        section,
        Level::Should,
        "its columns have the frame size, the rate, the media, and the results",
        "they have the frame size and the results; rate and medium stand elsewhere in the report",
    );
}

/// RFC 2544 26.2, RFC 8219 7: how often it is done.
fn twenty_trials(ledger: &mut Ledger, section: &'static str, how: &How) {
    let done = format_args!("{} trials", how.trials);
    ledger.note(section, Level::Must, "at least 20 trials", how.trials >= RFC_TRIALS, done);
}

/// What the documents ask of a latency test, given how it was done.
pub fn latency_ledger(how: &How) -> Ledger {
    use Level::{Must, Plain, Should};
    let mut ledger = Ledger::default();
    for section in ["RFC 2544 26.2", "RFC 8219 7.2"] {
        ledger.note(
            section,
            Should,
            "the stream lasts at least 120 s",
            how.duration >= RFC_LATENCY_TRIAL,
            format_args!("it lasted {}", seconds(how.duration)),
        );
        ledger.note(
            section,
            Should,
            "frames are tagged after 60 s",
            how.tagged_after >= RFC_TAGGED_AFTER,
            format_args!("after {}", seconds(how.tagged_after)),
        );
        let asks = "tagged frames are known by the receiver, and the time of their arrival recorded";
        ledger.note(section, Must, asks, how.tagged > 0, "in some trial none arrived");
        ledger.never(
            section,
            if section == "RFC 8219 7.2" { Must } else { Plain },
            "the time of departure is when the frame has been sent whole",
            "it is when the tester hands it to its port",
        );
        twenty_trials(&mut ledger, section, how);
        ledger.never(
            section,
            Must,
            "the report says which of RFC 1242's definitions of latency it has",
            "it has neither: from when the tester hands a frame to its port to when it takes it from another",
        );
        stream_and_table(&mut ledger, section, how);
    }
    ledger.note(
        "RFC 8219 7.2",
        Should,
        "at least 500 frames are tagged",
        how.tagged >= RFC_TAGGED_FRAMES,
        format_args!("{} tagged frames arrived in the trial with fewest", how.tagged),
    );
    // Every frame has a signature there.
    ledger.always("RFC 8219 7.2", Should, "the tag stands behind the UDP header");
    let (any, none) = (how.trials > 0, "no tagged frame arrived");
    let asks = "typical latency is the median, worst-case latency the 99.9th percentile";
    ledger.note("RFC 8219 7.2", Should, asks, any, none);
    ledger.note("RFC 2544 26.2", Must, "the average over the trials is reported", any, none);
    ledger.note("RFC 8219 7.2", Must, "of both, the median over the trials is reported", any, none);
    ledger
}

/// Whether latency was also measured with tagged frames to networks that no other frame of the trial went to, and if not, why.
pub fn apart_ledger(why_not: Option<&str>) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.note(
        "RFC 2544 26.2",
        Level::Should,
        "the test is repeated with each test frame to a new destination network",
        why_not.is_none(),
        why_not.unwrap_or_default(),
    );
    ledger
}

/// What is said of a test of latency in a `section` that could not be carried out.
pub fn unmeasured_ledger(section: &'static str) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.note(
        section,
        Level::Plain,
        "the time from a frame's departure to its arrival is measured",
        false,
        "generator and sink are machines with clocks of their own: what lies between two readings of different clocks is not known",
    );
    ledger
}

/// What could be reported of delay variation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// PDV: in each trial, 99.9 % of the frames arrived.
    pub pdv: bool,
    /// IPDV: in each trial, two successive frames did.
    pub ipdv: bool,
}

/// What RFC 8219 asks of a test of delay variation, given how it was done.
pub fn variation_ledger(how: &How, told: Told) -> Ledger {
    use Level::{Must, Plain, Should};
    let mut ledger = Ledger::default();
    // One stream serves both.
    for section in ["RFC 8219 7.3.1", "RFC 8219 7.3.2"] {
        ledger.note(
            section,
            Should,
            "the stream lasts at least 60 s",
            how.duration >= RFC_VARIATION_TRIAL,
            format_args!("it lasted {}", seconds(how.duration)),
        );
        ledger.note(
            section,
            Plain,
            "the delay of every frame is measured",
            how.one_in <= 1,
            format_args!("of one frame in {}, in blocks of successive ones", how.one_in),
        );
        twenty_trials(&mut ledger, section, how);
        ledger.never(section, Should, "the unit is the millisecond", "microseconds");
        stream_and_table(&mut ledger, section, how);
    }
    // Both are computed from every stream.
    ledger.always("RFC 8219 7.3", Should, "PDV is measured");
    let section = "RFC 8219 7.3.1";
    let none = "none is told: in some trials more than 0.1 % of the frames was lost, or no two successive ones arrived";
    ledger.note(section, Must, "the median over the trials is reported", told.pdv, none);
    let asks = "the 1st and 99th percentile over the trials are calculated";
    ledger.note(section, Should, asks, told.pdv, none);
    ledger.note(
        "RFC 8219 7.3.2",
        Should,
        "least, median and greatest IPDV are reported, each as the median over the trials",
        told.ipdv,
        "none is told: in some trials no two successive frames arrived",
    );
    ledger
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn latency_of_known_values() {
        let all: Vec<u64> = (1..=1000).rev().collect();
        let latency = latency(&all).unwrap();
        assert_eq!((latency.typical_ns, latency.worst_ns, latency.frames), (500.5, 999.0, 1000));
        assert_eq!(super::latency(&[]), None);
        assert_eq!(super::latency(&[7]).unwrap().worst_ns, 7.0);
        assert_eq!((average_ns(&all), average_ns(&[])), (Some(500.5), None));
    }

    #[test]
    fn lost_frames_are_infinitely_late() {
        let all: Vec<u64> = (101..=1100).collect();
        assert_eq!(pdv_ns(&all, 0), Some(998.0));
        // 1001 frames, of which one may be later than the percentile.
        assert_eq!(pdv_ns(&all, 1), Some(999.0));
        assert_eq!(pdv_ns(&all, 2), Some(f64::INFINITY));
        assert_eq!(pdv_ns(&[], 5), None);
    }

    #[test]
    fn ipdv_is_signed_and_skips_pairs_with_a_lost_frame() {
        let delays = [Some(100), Some(150), None, Some(500), Some(400), Some(400)];
        let ipdv = ipdv(&delays).unwrap();
        assert_eq!((ipdv.min_ns, ipdv.median_ns, ipdv.max_ns, ipdv.pairs), (-100.0, 0.0, 50.0, 3));
        assert_eq!(ipdv.mean_absolute_ns, 50.0);
        assert_eq!(super::ipdv(&[Some(1), None, Some(2)]), None);
    }

    #[test]
    fn trials_are_summed_up_by_their_median() {
        let trials: Vec<f64> = (1..=20).map(f64::from).collect();
        let all = repeated(&trials).unwrap();
        assert_eq!((all.median, all.p1, all.p99, all.trials), (10.5, 1.0, 20.0, 20));
        assert_eq!(repeated(&[]), None);
    }

    #[test]
    fn deviations_of_a_short_test() {
        let rfc = How {
            trials: RFC_TRIALS,
            duration: RFC_LATENCY_TRIAL,
            tagged_after: RFC_TAGGED_AFTER,
            tagged: RFC_TAGGED_FRAMES,
            one_in: 1,
            one_destination: true,
        };
        let none = How {
            trials: 0,
            duration: Duration::ZERO,
            tagged_after: Duration::ZERO,
            tagged: 0,
            one_in: 2,
            one_destination: false,
        };
        let missed = |how, document| latency_ledger(how).of(document).deviations().count();
        let both = |how| ["RFC 2544", "RFC 8219"].map(|document| missed(how, document));
        // What no run meets: when a frame has left, RFC 1242's definitions, and columns.
        assert_eq!((both(&rfc), both(&none)), ([3, 3], [9, 11]));
        assert_eq!([None, Some("why")].map(|why| apart_ledger(why).deviations().count()), [0, 1]);
        let missed = |how, all| variation_ledger(how, Told { pdv: all, ipdv: all }).deviations().count();
        // For each of the two, the unit and columns.
        assert_eq!((missed(&rfc, true), missed(&none, false)), (4, 15));
    }

    proptest! {
        /// The definition of the percentile, by counting.
        #[test]
        fn percentile_by_counting(mut sample in prop::collection::vec(0_u64..100, 1..300), part in 1_u64..=1000) {
            sample.sort_unstable();
            let found = percentile(&sample, part, 1000).unwrap();
            let at_most = |bound: u64| sample.iter().filter(|value| **value <= bound).count() as u64 * 1000;
            let enough = sample.len() as u64 * part;
            prop_assert!(at_most(found) >= enough);
            prop_assert!(found == 0 || at_most(found - 1) < enough);
        }

        /// A constant added to all delays changes neither variation.
        #[test]
        fn variation_ignores_the_delay_itself(sample in prop::collection::vec(0_u64..10_000, 2..200), more in 0_u64..1_000_000) {
            let later: Vec<u64> = sample.iter().map(|ns| ns + more).collect();
            prop_assert_eq!(pdv_ns(&sample, 0), pdv_ns(&later, 0));
            let some = |delays: &[u64]| ipdv(&delays.iter().copied().map(Some).collect::<Vec<_>>());
            prop_assert_eq!(some(&sample), some(&later));
        }
    }
}
