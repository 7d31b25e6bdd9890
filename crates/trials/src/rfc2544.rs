// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test rfc2544`: which of the procedures are done, in which order, and how the device is reset.

use serde_json::{Value, json};
use tester::search::setup;

use super::record::Found;
use super::rfc9004::Bursts;
use super::search::{Document, Profile, Search, Site, each_size, throughput};
use super::{Failure, procedures, reset, streams};
use crate::Error;

/// A procedure of RFC 2544, section 26.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// The greatest rate without loss (26.1).
    Throughput,
    /// Latency at that rate (26.2).
    Latency,
    /// Loss by load (26.3).
    Loss,
    /// The longest burst without loss (26.4).
    BackToBack,
    /// The time after an overload until no frame is lost (26.5).
    Recovery,
    /// How long forwarding stops for a reset (26.6).
    Reset,
}

impl Procedure {
    const ALL: [Procedure; 6] = {
        use Procedure::{BackToBack, Latency, Loss, Recovery, Reset, Throughput};
        [Throughput, Latency, Loss, BackToBack, Recovery, Reset]
    };

    /// As reports have it.
    fn name(self) -> &'static str {
        match self {
            Procedure::Throughput => "throughput",
            Procedure::Latency => "latency",
            Procedure::Loss => "loss",
            Procedure::BackToBack => "back-to-back",
            Procedure::Recovery => "recovery",
            Procedure::Reset => "reset",
        }
    }
}

/// Throughput, latency, loss by load, bursts, recovery and reset, as RFC 2544 has them.
#[derive(Clone, Debug)]
pub struct Rfc2544 {
    /// What all tests by frame size need to know.
    pub search: Search,
    /// Which procedures.
    pub wanted: Wanted,
}

/// Which of RFC 2544's procedures are done, and how.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// These procedures; the profile's, if there are none.
    pub only: Vec<Procedure>,
    /// Loss by load too.
    pub loss: bool,
    /// Frames a second of each sending port; without it, the throughput is searched for.
    pub at: Option<f64>,
    /// How bursts are judged.
    pub bursts: Bursts,
    /// How the device is reset.
    pub reset: reset::Method,
}

impl Wanted {
    fn procedures(&self, search: &Search) -> Vec<Procedure> {
        use Procedure::{BackToBack, Latency, Loss, Recovery, Reset, Throughput};
        let mut all = match (&self.only[..], search.profile) {
            ([], Profile::Quick) => vec![Throughput, Latency],
            ([], Profile::Rfc) => vec![Throughput, Latency, Loss, BackToBack, Recovery],
            (only, _) => only.to_vec(),
        };
        if self.only.is_empty() && search.profile == Profile::Rfc && self.no_reset(search).is_none() {
            all.push(Reset);
        }
        if self.loss && !all.contains(&Loss) {
            all.push(Loss);
        }
        all
    }

    /// Whether bursts are measured.
    pub(super) fn has_bursts(&self, search: &Search) -> bool {
        self.procedures(search).contains(&Procedure::BackToBack)
    }

    /// What results depend on, for comparisons.
    pub(super) fn asked(&self, search: &Search) -> Value {
        let wanted = self.procedures(search);
        let reset = wanted.contains(&Procedure::Reset).then(|| self.reset.words());
        let tries = self.bursts.told().filter(|_| wanted.contains(&Procedure::BackToBack));
        json!({ "at": self.at, "reset": reset, "loss_verification": tries })
    }

    /// Sees that what is asked for can be done to the device, before anything is measured.
    pub(super) fn check(&self, search: &Search) -> Result<(), Error> {
        match self.no_reset(search) {
            Some(why) if self.procedures(search).contains(&Procedure::Reset) => Err(Error::Setting(why)),
            _ => Ok(()),
        }
    }

    /// Why the device cannot be reset, if it cannot.
    fn no_reset(&self, search: &Search) -> Option<String> {
        self.reset
            .check(&search.common.device, search.common.workers.unwrap_or(1))
            .err()
            .map(|why| why.to_string())
    }

    /// The names of those that are not done. All but loss take the throughput, which is measured unless it is known.
    fn left_out(&self, wanted: &[Procedure]) -> Vec<String> {
        let is_searched = self.at.is_none() && wanted.iter().any(|what| *what != Procedure::Loss);
        let is_done = |what: &Procedure| match what {
            Procedure::Throughput => is_searched,
            what => wanted.contains(what),
        };
        let left_out = Procedure::ALL.iter().filter(|what| !is_done(what));
        left_out.map(|what| what.name().to_owned()).collect()
    }

    /// Carries them out; a reset only with the `least` of all sizes.
    pub(super) fn run(
        &self,
        site: &mut Site,
        search: &Search,
        least: usize,
        found: &mut Found,
    ) -> Result<(), Error> {
        if self.only == [Procedure::Latency] {
            site.timed()?;
        }
        let wanted = self.procedures(search);
        let why = self.no_reset(search).filter(|_| search.profile == Profile::Rfc && self.only.is_empty());
        if let Some(why) = &why {
            found.text += &format!("{:>6} bytes  reset: left out: {why}\n", site.size);
        }
        found.deviate(&setup::tests_ledger(&self.left_out(&wanted), why.as_deref()));
        for procedure in wanted {
            if procedure == Procedure::Latency && procedures::is_untimed(site, "RFC 2544 26.2", found) {
                continue;
            }
            // Loss by load needs no throughput, all else does.
            let mut rate = || throughput(site, search, self.at, found);
            match procedure {
                Procedure::Loss => procedures::loss_by_load(site, search, found)?,
                Procedure::Throughput => {
                    rate()?;
                }
                _ if rate()? == 0.0 => {}
                Procedure::Latency => procedures::latency(site, search, site.throughput(), found)?,
                Procedure::BackToBack => {
                    procedures::back_to_back(
                        site,
                        search,
                        (site.throughput(), self.bursts),
                        "RFC 2544",
                        found,
                    )?;
                }
                Procedure::Recovery => streams::recovery(site, search, site.throughput(), found)?,
                // RFC 2544 26.6: only with networks to which the device is connected.
                Procedure::Reset if site.size == least && !site.is_spread() => {
                    streams::reset(site, search, &self.reset, site.throughput(), found)?;
                }
                Procedure::Reset => {}
            }
        }
        Ok(())
    }
}

/// Does the procedures for each frame size.
pub(super) fn run(args: &Rfc2544) -> Result<(), Failure> {
    args.wanted.check(&args.search)?;
    let least = args.search.sizes().into_iter().min().unwrap_or(0);
    each_size(&args.search, Document::Rfc2544, |site, found| {
        found.ask(args.wanted.asked(&args.search));
        args.wanted.run(site, &args.search, least, found)
    })
}
