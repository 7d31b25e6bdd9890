// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test rfc2544`: which of the procedures are done, in which order, and how the device is reset.

use clap::ValueEnum as _;
use serde_json::{Value, json};
use tester::search::setup;

use super::record::Found;
use super::rfc9004::Bursts;
use super::search::{Profile, Search, Site, each_size, throughput};
use super::{procedures, reset, streams};
use crate::cli;

/// A procedure of RFC 2544, section 26.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Procedure {
    Throughput,
    Latency,
    Loss,
    BackToBack,
    Recovery,
    Reset,
}

/// Throughput, latency, loss by load, bursts, recovery and reset, as RFC 2544 has them.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::help("What is told for each frame size (names begin with test.rfc2544.):
  throughput_mpps.SIZE      the greatest rate without loss, of each sending port (section 26.1)
  reached_mpps.SIZE         instead of it, if the tester could not send more: the device may be faster
  latency_us.tagged.SIZE    at that rate: the average over the tagged frames of each trial (section 26.2), and
  latency_us.average.SIZE   over all trials
  latency_us.Q.SIZE         of every frame of these trials; Q is min, p50, p90, p99, p99.9 ... p99.9999 or max, and
                            a quantile beyond which a trial had not one frame is left out
  latency_loss_share.SIZE   of the frames of these trials, those that were lost: their latency is not known
  response_us.Q.SIZE        the same from when frames were due: what a user sees who sends on time
  lateness_us.Q.SIZE        how late frames left the tester: its own error
  loss_share.SIZE.PERCENT   at shares of the greatest rate (section 26.3)
  burst_frames.SIZE         the longest burst without loss, of each repetition (section 26.4), and
  burst_frames.average.SIZE   on average
  recovery_ms.SIZE          from the end of an overload to the last loss (section 26.5), and
  recovery_ms.average.SIZE    on average
  reset_ms.METHOD.SIZE      how long forwarding stops for a reset, by_loss or by_timestamps (section 26.6, RFC 6201); of the
                            least size only
  reset_lost_frames.SIZE, reset_interruptions.SIZE
                            frames lost for a reset, and how often forwarding stopped
What the documents ask for and was not done is listed.

Examples:
  junctor test rfc2544 self:conf/ip-router.click --size 64
  junctor test rfc2544 self:conf/ip-router.click --link 10G --loss --report router.html --csv router.csv
  junctor test rfc2544 self:conf/ip-router.click --profile rfc --link 10G --json
  junctor test rfc2544 self:conf/ip-router.click --only reset --at 100k --reset swap
  sudo junctor test rfc2544 kernel-bridge --size 64,1518 --only throughput"))]
pub(super) struct Rfc2544 {
    #[command(flatten)]
    search: Search,
    #[command(flatten)]
    wanted: Wanted,
}

/// Which of RFC 2544's procedures are done, and how.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Wanted {
    /// Which procedures are done [default: throughput and latency; with --profile rfc all, a reset where it is known how].
    #[arg(long, value_enum, value_name = "PROCEDURE", value_delimiter = ',')]
    only: Vec<Procedure>,
    /// Measure loss by load too.
    #[arg(long)]
    loss: bool,
    /// The throughput in frames a second of each sending port, if it is known: it is not searched for.
    #[arg(long, value_name = "RATE", value_parser = super::rate)]
    at: Option<f64>,
    #[command(flatten)]
    bursts: Bursts,
    #[command(flatten)]
    reset: reset::Args,
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
    pub(super) fn check(&self, search: &Search) -> Result<(), String> {
        match self.no_reset(search) {
            Some(why) if self.procedures(search).contains(&Procedure::Reset) => Err(why),
            _ => Ok(()),
        }
    }

    /// Why the device cannot be reset, if it cannot.
    fn no_reset(&self, search: &Search) -> Option<String> {
        self.reset.check(&search.common.device, search.common.workers.unwrap_or(1)).err()
    }

    /// The names of those that are not done. All but loss take the throughput, which is measured unless it is known.
    fn left_out(&self, wanted: &[Procedure]) -> Vec<String> {
        let is_searched = self.at.is_none() && wanted.iter().any(|what| *what != Procedure::Loss);
        let is_done = |what: &Procedure| match what {
            Procedure::Throughput => is_searched,
            what => wanted.contains(what),
        };
        let left_out = Procedure::value_variants().iter().filter(|what| !is_done(what));
        left_out.filter_map(|what| Some(what.to_possible_value()?.get_name().to_owned())).collect()
    }

    /// Carries them out; a reset only with the `least` of all sizes.
    pub(super) fn run(
        &self,
        site: &mut Site,
        search: &Search,
        least: usize,
        found: &mut Found,
    ) -> Result<(), String> {
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

/// Runs `junctor test rfc2544`.
pub(super) fn main(args: &Rfc2544) -> u8 {
    if let Err(why) = args.wanted.check(&args.search) {
        return cli::fail(why);
    }
    let least = args.search.sizes().into_iter().min().unwrap_or(0);
    each_size(&args.search, "test rfc2544", |site, found| {
        found.ask(args.wanted.asked(&args.search));
        args.wanted.run(site, &args.search, least, found)
    })
}
