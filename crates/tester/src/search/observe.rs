// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repeated trials in which frames are looked at one by one: which trials the documents ask for, and from when on frames are tagged.

use std::time::Duration;

use super::delay::{How, RFC_LATENCY_TRIAL, RFC_TAGGED_FRAMES, RFC_TRIALS, RFC_VARIATION_TRIAL};
use super::{Error, require, seconds};
use crate::station::{DELAYS_MAX, Delays, Sampling};
use crate::trial::{Invalid, Trial};

/// Something that carries out trials and reports the delays of single frames.
pub trait Observer {
    /// What else it reports of a trial.
    type Detail;

    /// Carries out a trial, and keeps the delays of these frames.
    ///
    /// # Errors
    /// Something other than the device decided it.
    fn observe(&mut self, trial: Trial, sampling: Sampling) -> Result<(Self::Detail, Delays), Invalid>;
}

/// Which trials there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trials {
    /// How many.
    pub count: usize,
    /// How long each is.
    pub duration: Duration,
    /// Which frames are looked at.
    pub look: Look,
}

/// Which frames of a trial are looked at one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// About 500 of its second half, as tagged frames (RFC 2544 26.2, RFC 8219 7.2).
    Tagged,
    /// At most so many of its second half, one for each network that nothing else is sent to (RFC 2544 26.2).
    TaggedApart {
        /// Networks.
        networks: usize,
    },
    /// All of each of so many sending ports, as far as there is room (RFC 8219 7.3).
    All {
        /// Ports that send.
        senders: usize,
    },
}

impl Trials {
    /// Those that the documents ask for.
    pub fn rfc(look: Look) -> Trials {
        let duration = match look {
            Look::Tagged | Look::TaggedApart { .. } => RFC_LATENCY_TRIAL,
            Look::All { .. } => RFC_VARIATION_TRIAL,
        };
        Trials { count: RFC_TRIALS, duration, look }
    }

    /// A few seconds.
    pub fn quick(look: Look) -> Trials {
        Trials { count: 3, duration: Duration::from_secs(1), look }
    }

    /// From when on frames are tagged: half of the time, as the documents have it.
    fn tagged_after(&self) -> Duration {
        match self.look {
            Look::Tagged | Look::TaggedApart { .. } => self.duration / 2,
            Look::All { .. } => Duration::ZERO,
        }
    }

    /// The sample of a trial at this rate (frames a second of each port).
    fn sampling(&self, rate: f64) -> Sampling {
        let frames = |time: Duration| (rate * time.as_secs_f64()).round() as u64;
        let all = frames(self.duration);
        match self.look {
            Look::Tagged => Sampling::tags(all, frames(self.tagged_after()), RFC_TAGGED_FRAMES as u64),
            Look::TaggedApart { networks } => {
                Sampling::at_most(all, frames(self.tagged_after()), networks as u64)
            }
            Look::All { senders } => Sampling::all(all, DELAYS_MAX / senders.max(1) as u64),
        }
    }

    /// How it was done, for the ledger, to several destinations, where so many frames of the sample arrived in the trial with fewest.
    pub fn how(&self, rate: f64, tagged: usize) -> How {
        let Trials { count: trials, duration, .. } = *self;
        let one_in = match self.look {
            Look::Tagged | Look::TaggedApart { .. } => 1,
            Look::All { .. } => self.sampling(rate).one_in(),
        };
        let tagged_after = self.tagged_after();
        How { trials, duration, tagged_after, tagged, one_in, one_destination: false }
    }

    /// Carries them out at `rate` frames a second of each sending port, and hands `each` what it showed. Returns how many frames of
    /// the sample arrived in the trial with fewest.
    ///
    /// # Errors
    /// There is no trial or no time, or a trial was invalid.
    pub fn run<O: Observer>(
        &self,
        observer: &mut O,
        rate: f64,
        mut each: impl FnMut(O::Detail, Delays),
    ) -> Result<usize, Error> {
        require(self.count > 0, "the number of trials", self.count, "at least 1")?;
        require(!self.duration.is_zero(), "the trial", seconds(self.duration), "above 0 s")?;
        let mut fewest = usize::MAX;
        for _ in 0..self.count {
            let trial = Trial::new(rate, self.duration);
            let (detail, delays) = observer.observe(trial, self.sampling(rate)).map_err(|cause| {
                Error::trial(format_args!("{rate:.0} frames/s for {}", seconds(self.duration)), cause)
            })?;
            fewest = fewest.min(delays.received().len());
            each(detail, delays);
        }
        Ok(fewest)
    }
}

#[cfg(test)]
mod tests {
    use super::super::delay::{self, Told, latency_ledger, variation_ledger};
    use super::*;

    /// A device whose frames take as many nanoseconds as their number in a trial, which takes no time.
    #[derive(Default)]
    struct Counting {
        asked: Vec<Trial>,
        broken_after: Option<usize>,
    }

    impl Observer for Counting {
        type Detail = ();

        fn observe(&mut self, trial: Trial, sampling: Sampling) -> Result<((), Delays), Invalid> {
            if self.broken_after == Some(self.asked.len()) {
                return Err(Invalid::new("link down", "look at the cable"));
            }
            self.asked.push(trial);
            let frames = (trial.rate * trial.duration.as_secs_f64()) as u64;
            let mut delays = Delays::new(sampling, [frames].into_iter());
            (0..frames).for_each(|number| delays.note(0, number, number));
            Ok(((), delays))
        }
    }

    #[test]
    fn latency_takes_twenty_trials_of_two_minutes_and_tags_from_the_second_on() {
        let mut device = Counting::default();
        let trials = Trials::rfc(Look::Tagged);
        let mut typical = Vec::new();
        let fewest = trials
            .run(&mut device, 1000.0, |(), tagged| {
                let numbers = tagged.received();
                assert!(numbers.iter().all(|number| (60_000..120_000).contains(number)));
                assert_eq!(numbers[0], 60_000, "the first tagged frame leaves after 60 s");
                typical.push(delay::latency(&numbers).unwrap().typical_ns);
            })
            .unwrap();
        assert_eq!(device.asked, vec![Trial::new(1000.0, Duration::from_secs(120)); 20]);
        assert_eq!((fewest, typical.len()), (500, 20));
        // 500 tagged frames, 120 apart, from number 60000 on.
        assert!(typical.iter().all(|ns| *ns == 89_940.0), "{typical:?}");
        let ledger = latency_ledger(&trials.how(1000.0, fewest)).of("RFC 8219");
        assert_eq!(ledger.deviations().count(), 4, "what no run meets, and several destinations");
    }

    #[test]
    fn variation_takes_twenty_trials_of_a_minute_and_looks_at_every_frame() {
        let mut device = Counting::default();
        let trials = Trials::rfc(Look::All { senders: 1 });
        let mut values = Vec::new();
        let fewest = trials.run(&mut device, 1000.0, |(), all| {
            let ipdv = delay::ipdv(&all.in_order()).unwrap();
            values.push((delay::pdv_ns(&all.received(), all.lost()), ipdv.min_ns, ipdv.max_ns, ipdv.pairs));
        });
        assert_eq!(fewest, Ok(60_000));
        assert_eq!(device.asked, vec![Trial::new(1000.0, Duration::from_secs(60)); 20]);
        assert_eq!(values, vec![(Some(59_939.0), 1.0, 1.0, 59_999); 20]);
        let told = Told { pdv: true, ipdv: true };
        let missed = |rate| variation_ledger(&trials.how(rate, 0), told).deviations().count();
        assert_eq!(missed(1000.0), 6, "what no run meets, and several destinations");
        assert_eq!(missed(1e6), 8, "not all fit in");
    }

    #[test]
    fn an_invalid_trial_and_no_trials_are_errors() {
        let mut device = Counting { broken_after: Some(2), ..Counting::default() };
        let mut seen = 0;
        let error = Trials::quick(Look::Tagged).run(&mut device, 700.0, |(), _| seen += 1).unwrap_err();
        assert_eq!(
            (seen, error.to_string().as_str()),
            (2, "700 frames/s for 1 s: link down; look at the cable")
        );
        let none = Trials { count: 0, ..Trials::quick(Look::Tagged) };
        assert!(none.run(&mut device, 700.0, |(), _| ()).is_err());
        let no_time = Trials { duration: Duration::ZERO, ..Trials::quick(Look::Tagged) };
        assert!(no_time.run(&mut device, 700.0, |(), _| ()).is_err());
    }
}
