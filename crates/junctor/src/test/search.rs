// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test rfc2544`, `mlr`, `rfc8219`, `rfc9004` and `soak`: what a device carries, by frame size.
//!
//! The greatest rate that is tried is that of the link, if one is named, and else what the tester reaches on a cable. A rate that
//! the tester could not send is not called the device's: it has another name in the output, and the text says so.

use std::io::IsTerminal as _;
use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tester::search::stream::Bin;
use tester::search::throughput::Limit;
use tester::search::{Ledger, Watched, medium, mlr as search, soak, throughput};
use tester::station::Station;
use tester::trial::{Invalid, Measurer, Outcome, Trial};

use super::device::Running;
use super::{Common, SHARED_CORE, calibrate, left_out, procedures, reset};
use crate::measure::{self, Measured};
use crate::{cli, exit};

/// How exactly a procedure is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Profile {
    /// Durations and repetitions of the documents: hours.
    Rfc,
    /// Short trials: a first impression in minutes.
    Quick,
}

/// What all these commands need.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Search {
    #[command(flatten)]
    common: Common,
    /// Frame sizes in bytes, with the 4 of the FCS [default: RFC 2544's with rfc, 64, 512 and 1518 with quick].
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    size: Vec<usize>,
    /// How exactly the procedure is followed.
    #[arg(long, value_enum, default_value_t = Profile::Quick)]
    pub(super) profile: Profile,
    /// Seconds of each trial (of each burst and the wait after it; of the overload and the time after it; before and after a
    /// reset), instead of the profile's.
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds)]
    pub(super) trial: Option<Duration>,
    /// Bits a second of the links: k, M and G may follow the number [default: no link limits the rate].
    #[arg(long, value_name = "RATE", value_parser = super::bits)]
    link: Option<f64>,
    /// Print every trial on standard error, as is done on a terminal.
    #[arg(short, long)]
    verbose: bool,
}

/// The sizes of RFC 2544, section 9.1, for Ethernet.
const SIZES: [usize; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

impl Search {
    fn sizes(&self) -> Vec<usize> {
        if let Some(average) = self.common.modifiers.average_size() {
            return vec![average];
        }
        match (&self.size[..], self.profile) {
            ([], Profile::Rfc) => SIZES.to_vec(),
            ([], Profile::Quick) => vec![64, 512, 1518],
            (sizes, _) => sizes.to_vec(),
        }
    }
}

/// A procedure of RFC 2544, section 26.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Procedure {
    Throughput,
    Latency,
    Loss,
    BackToBack,
    Recovery,
    Reset,
}

/// Throughput, latency, loss by load, bursts, recovery and reset, as RFC 2544 has them.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "What is told for each frame size (names begin with test.rfc2544.):
  throughput_mpps.SIZE      the greatest rate without loss, of each sending port (section 26.1)
  reached_mpps.SIZE         instead of it, if the tester could not send more: the device may be faster
  latency_us.tagged.SIZE    at that rate: the average over the tagged frames of each trial (section 26.2), and
  latency_us.average.SIZE   over all trials
  latency_us.Q.SIZE         of every frame of these trials, by quantile
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
  junctor test rfc2544 self:conf/ip-router.click --profile rfc --link 10G --json
  junctor test rfc2544 self:conf/ip-router.click --only reset --at 100k --reset swap")]
pub(super) struct Rfc2544 {
    #[command(flatten)]
    search: Search,
    /// Which procedures are done [default: throughput and latency; with --profile rfc all but reset].
    #[arg(long, value_enum, value_name = "PROCEDURE", value_delimiter = ',')]
    only: Vec<Procedure>,
    /// Measure loss by load too.
    #[arg(long)]
    loss: bool,
    /// The throughput in frames a second of each sending port, if it is known: it is not searched for.
    #[arg(long, value_name = "RATE", value_parser = super::rate)]
    at: Option<f64>,
    #[command(flatten)]
    reset: reset::Args,
}

impl Rfc2544 {
    fn procedures(&self) -> Vec<Procedure> {
        use Procedure::{BackToBack, Latency, Loss, Recovery, Throughput};
        let mut all = match (&self.only[..], self.search.profile) {
            ([], Profile::Quick) => vec![Throughput, Latency],
            ([], Profile::Rfc) => vec![Throughput, Latency, Loss, BackToBack, Recovery],
            (only, _) => only.to_vec(),
        };
        if self.loss && !all.contains(&Loss) {
            all.push(Loss);
        }
        all
    }
}

/// Latency and delay variation, as RFC 8219 has them.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "What is told for each frame size (names begin with test.rfc8219.); each value is the median over the trials:
  latency_us.typical.SIZE   the median of the latencies of 500 tagged frames (section 7.2)
  latency_us.worst.SIZE     their 99.9th percentile
  pdv_us.SIZE               the 99.9th percentile of all frames' delays less the least delay (section 7.3.1)
  ipdv_us.V.SIZE            how the delays of successive frames differ: min, median, max, mean_absolute (section 7.3.2)
The rate is the throughput, which is searched for as test rfc2544 does and told by the same names, unless --at names it.

Examples:
  junctor test rfc8219 self:conf/ip-router.click --size 64
  junctor test rfc8219 self:conf/ip6-router.click --profile rfc --at 1M --json"
)]
pub(super) struct Rfc8219 {
    #[command(flatten)]
    search: Search,
    /// Frames a second of each sending port [default: the throughput, which is searched for].
    #[arg(long, value_name = "RATE", value_parser = super::rate)]
    at: Option<f64>,
}

/// Bursts, and the buffer that they show, as RFC 9004 has it.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "What is told for each frame size whose throughput is below the greatest rate (names begin with test.rfc9004.):
  burst_frames.SIZE, burst_frames.average.SIZE
                            the longest burst without loss, of each repetition and on average
  implied_buffer_us.SIZE    how long it takes
  corrected_buffer_us.SIZE  the same less what the device forwarded meanwhile
  buffer_frames.SIZE        the buffer that this comes to
The throughput is searched for as test rfc2544 does and told by the same names, unless --at names it.

Examples:
  junctor test rfc9004 self:conf/ip-router.click --size 64 --link 10G
  junctor test rfc9004 self:conf/ip-router.click --profile rfc --at 1M --link 10G --json"
)]
pub(super) struct Rfc9004 {
    #[command(flatten)]
    search: Search,
    /// The throughput in frames a second of each sending port, if it is known: it is not searched for.
    #[arg(long, value_name = "RATE", value_parser = super::rate)]
    at: Option<f64>,
}

/// One rate for a long time, and when frames were lost.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "What is told for each frame size (names begin with test.soak.):
  sent_frames, lost_frames, loss_share, unsent_share   of the whole time, of all ports
  bins, bins_with_loss                                 intervals, and in how many of them frames were lost
  worst_bin_loss_share, first_loss_s                   if frames were lost
  longest_clean_s                                      the longest time without loss
With --json, 'bins' lists every interval that saw loss. Frames count when they were sent.

Examples:
  junctor test soak self:conf/ip-router.click --rate 100k --time 3600
  junctor test soak self:conf/ip-router.click --rate 1M --time 60 --bin 0.1 --json")]
pub(super) struct Soak {
    #[command(flatten)]
    search: Search,
    /// Frames a second that each sending port offers; k and M may follow the number.
    #[arg(long, value_name = "RATE", value_parser = super::rate)]
    rate: f64,
    /// For how many seconds [default: an hour with --profile rfc, a minute with quick].
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds)]
    time: Option<Duration>,
    /// Width of an interval in seconds [default: 1 for an hour, 0.1 for a minute].
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds)]
    bin: Option<Duration>,
}

/// NDR and PDR by multiple loss ratio search (RFC 9971).
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "What is told for each frame size and goal (names begin with test.mlr.):
  throughput_mpps.GOAL.SIZE   the conditional throughput of each sending port; GOAL is ndr, or pdr (loss up to 0.5 %)
  reached_mpps.GOAL.SIZE      instead of it, if the tester could not send more: the device may be faster

Examples:
  junctor test mlr self:conf/ip-router.click --size 64
  junctor test mlr cable --size 64,1518 --json")]
pub(super) struct Mlr {
    #[command(flatten)]
    search: Search,
}

/// What was found: quantities, and lines for people.
#[derive(Default)]
pub(super) struct Found {
    pub(super) results: Vec<Measured>,
    pub(super) text: String,
    /// Intervals of a soak that saw loss: frame size, when, and what.
    pub(super) bins: Vec<(usize, f64, Bin)>,
    deviations: Vec<Value>,
    /// The tester has no core of its own.
    shared_core: bool,
    /// The device's own addresses, to which nothing is sent.
    left_out: Vec<IpAddr>,
}

impl Found {
    pub(super) fn note(&mut self, name: String, unit: &'static str, value: f64) {
        self.results.push(Measured::new(name, unit, vec![value]));
    }

    /// Lists what a document asks for and was not done, once.
    pub(super) fn deviate(&mut self, ledger: &Ledger) {
        for clause in ledger.deviations() {
            let entry = json!({
                "section": clause.section, "demand": clause.asks, "deviation": clause.deviation,
            });
            if !self.deviations.contains(&entry) {
                self.deviations.push(entry);
            }
        }
    }
}

/// Runs `junctor test rfc2544`.
pub(super) fn rfc2544(args: &Rfc2544) -> u8 {
    let (search, wanted) = (&args.search, args.procedures());
    let least = search.sizes().into_iter().min();
    each_size(search, "test rfc2544", |site, found| {
        for procedure in &wanted {
            // Loss by load needs no throughput, all else does.
            let mut rate = || throughput(site, search, args.at, found);
            match procedure {
                Procedure::Loss => procedures::loss_by_load(site, search, found)?,
                Procedure::Throughput => {
                    rate()?;
                }
                _ if rate()? == 0.0 => {}
                Procedure::Latency => procedures::latency(site, search, site.throughput(), found)?,
                Procedure::BackToBack => {
                    procedures::back_to_back(site, search, site.throughput(), "RFC 2544", found)?;
                }
                Procedure::Recovery => procedures::recovery(site, search, site.throughput(), found)?,
                Procedure::Reset if Some(site.size) == least => {
                    procedures::reset(site, search, &args.reset, site.throughput(), found)?;
                }
                Procedure::Reset => {}
            }
        }
        Ok(())
    })
}

/// The greatest rate without loss, measured once for each size, unless it is known.
fn throughput(site: &mut Site, args: &Search, known: Option<f64>, found: &mut Found) -> Result<f64, String> {
    if let Some(rate) = site.throughput {
        return Ok(rate);
    }
    if let Some(rate) = known {
        found.text += &format!("{:>6} bytes  at {:.4} Mpps, as was asked\n", site.size, rate / 1e6);
        site.throughput = known;
        return Ok(rate);
    }
    let rate = greatest_rate(site, args, "rfc2544", found)?;
    site.throughput = Some(rate);
    Ok(rate)
}

/// Searches for the greatest rate without loss, and tells it by names that begin with `test.` and `document`.
pub(super) fn greatest_rate(
    site: &mut Site,
    args: &Search,
    document: &str,
    found: &mut Found,
) -> Result<f64, String> {
    let mut parameters = match args.profile {
        Profile::Rfc => throughput::Parameters::rfc(site.rate_max),
        Profile::Quick => throughput::Parameters::quick(site.rate_max),
    };
    if let Some(time) = args.trial {
        (parameters.search_trial, parameters.final_trial) = (time, time);
    }
    let report = throughput::run(&mut site.watched(), &parameters).map_err(|why| why.to_string())?;
    let (size, rate) = (site.size, report.rate());
    let (name, whose) = match report.limit() {
        Limit::Device => ("throughput_mpps", "the device's limit"),
        Limit::Medium if args.link.is_some() => ("throughput_mpps", "the link's rate"),
        Limit::Medium | Limit::Tester => ("reached_mpps", "the tester's limit: the device may be faster"),
    };
    found.note(format!("test.{document}.{name}.{size}"), "Mpps", rate / 1e6);
    let what = if document.ends_with("broadcast") { "broadcast " } else { "" };
    found.text += &format!("{size:>6} bytes  {what}throughput {:>9.4} Mpps  ({whose})\n", rate / 1e6);
    found.deviate(&report.ledger);
    Ok(rate)
}

/// Runs `junctor test rfc8219`.
pub(super) fn rfc8219(args: &Rfc8219) -> u8 {
    each_size(&args.search, "test rfc8219", |site, found| {
        let rate = throughput(site, &args.search, args.at, found)?;
        if rate > 0.0 {
            procedures::tagged_latency(site, &args.search, rate, found)?;
            procedures::variation(site, &args.search, rate, found)?;
        }
        Ok(())
    })
}

/// Runs `junctor test rfc9004`.
pub(super) fn rfc9004(args: &Rfc9004) -> u8 {
    each_size(&args.search, "test rfc9004", |site, found| {
        let rate = throughput(site, &args.search, args.at, found)?;
        procedures::back_to_back(site, &args.search, rate, "RFC 9004", found)
    })
}

/// Runs `junctor test soak`.
pub(super) fn soak(args: &Soak) -> u8 {
    let usual = match args.search.profile {
        Profile::Rfc => soak::Parameters::hour(args.rate),
        Profile::Quick => soak::Parameters::quick(args.rate),
    };
    let duration = args.time.or(args.search.trial).unwrap_or(usual.duration);
    let bin = args.bin.unwrap_or(usual.bin).min(duration);
    let parameters = soak::Parameters { duration, bin, ..usual };
    each_size(&args.search, "test soak", |site, found| procedures::soak(site, &parameters, found))
}

/// Runs `junctor test mlr`.
pub(super) fn mlr(args: &Mlr) -> u8 {
    each_size(&args.search, "test mlr", |site, found| {
        let mut parameters = match args.search.profile {
            Profile::Rfc => search::Parameters::rfc(site.rate_max),
            Profile::Quick => search::Parameters::quick(site.rate_max),
        };
        if let Some(time) = args.search.trial {
            for goal in &mut parameters.goals {
                let trials =
                    (goal.duration_sum.as_secs_f64() / goal.final_trial.as_secs_f64()).round() as u32;
                (goal.initial_trial, goal.final_trial) = (time, time);
                goal.duration_sum = time * trials.max(1);
            }
        }
        let report = search::run(&mut site.watched(), &parameters).map_err(|why| why.to_string())?;
        for result in &report.results {
            let goal = if result.goal.loss_ratio == 0.0 { "ndr" } else { "pdr" };
            let open = result.upper.is_none() && args.search.link.is_none();
            let (name, rate, whose) = match result.conditional_throughput() {
                Some(rate) if !open => ("throughput_mpps", rate, ""),
                Some(rate) => ("reached_mpps", rate, "  (the tester's limit: the device may be faster)"),
                None if result.limited_by_tester => {
                    let reached = result.lower.map_or(0.0, |lower| lower.rate * lower.forwarding_ratio);
                    ("reached_mpps", reached, "  (the tester's limit: the device may be faster)")
                }
                None => (
                    "throughput_mpps",
                    0.0,
                    "  (nothing found: even the least load is too much, or time ran out)",
                ),
            };
            let size = site.size;
            found.note(format!("test.mlr.{name}.{goal}.{size}"), "Mpps", rate / 1e6);
            found.text +=
                &format!("{size:>6} bytes  {} {:>9.4} Mpps{whose}\n", goal.to_uppercase(), rate / 1e6);
        }
        found.deviate(&report.ledger);
        Ok(())
    })
}

/// A device, for frames of one size.
pub(super) struct Site {
    pub(super) station: Station,
    /// The device, if it is one of this process.
    pub(super) running: Option<Running>,
    pub(super) size: usize,
    /// How many ports send.
    pub(super) senders: usize,
    /// Frames a second that are tried at most, of each sending port.
    pub(super) rate_max: f64,
    /// For how long stragglers are waited for.
    pub(super) stragglers: Duration,
    /// The greatest rate without loss, once it is known.
    throughput: Option<f64>,
    show: bool,
}

impl Site {
    fn throughput(&self) -> f64 {
        self.throughput.unwrap_or(0.0)
    }

    /// The device, with every trial told as it ends.
    pub(super) fn watched(&mut self) -> Watched<'_, impl FnMut(Trial, &Result<Outcome, Invalid>) + use<>> {
        let (show, size) = (self.show, self.size);
        let station: &mut dyn Measurer = &mut self.station;
        Watched::new(station, move |trial: Trial, result: &Result<Outcome, Invalid>| {
            if let (true, Ok(outcome)) = (show, result) {
                eprintln!(
                    "  {size} bytes, {:.4} Mpps for {} s: lost {}, unsent {}",
                    trial.rate / 1e6,
                    trial.duration.as_secs_f64(),
                    outcome.lost(),
                    outcome.unsent()
                );
            }
        })
    }
}

/// Measures size by size. What was found before something failed is told nevertheless.
pub(super) fn each_size(
    args: &Search,
    command: &str,
    mut procedure: impl FnMut(&mut Site, &mut Found) -> Result<(), String>,
) -> u8 {
    let sizes = args.sizes();
    let mut found = Found::default();
    let mut failed = None;
    for size in &sizes {
        if let Err(why) = one_size(args, *size, &mut found, &mut procedure) {
            failed = Some(why);
            break;
        }
    }
    let status = print(args, command, &sizes, &found);
    match failed {
        Some(why) => cli::fail(why),
        None => status,
    }
}

fn one_size(
    args: &Search,
    size: usize,
    found: &mut Found,
    procedure: &mut impl FnMut(&mut Site, &mut Found) -> Result<(), String>,
) -> Result<(), String> {
    let cable = calibrate(&args.common, size)?;
    found.note(format!("test.cable.mpps.{size}"), "Mpps", cable.rate / 1e6);
    let plugged = args.common.plug(size)?;
    let own = cable.rate / plugged.senders.max(1) as f64;
    let rate_max = args.link.map_or(own, |bits| medium::ethernet_frames_per_s(bits as u64, size as u64));
    let show = args.verbose || std::io::stderr().is_terminal();
    if !plugged.own_core && !found.shared_core {
        found.shared_core = true;
        found.text.insert_str(0, SHARED_CORE);
    }
    found.left_out = plugged.station.left_out();
    if let Some(missing) = args.common.modifiers.missing(&plugged.station) {
        found.text += &format!("  {missing}\n");
    }
    let (station, running, senders) = (plugged.station, plugged.running, plugged.senders);
    let stragglers = args.common.stragglers;
    let mut site = Site { station, running, size, senders, rate_max, stragglers, throughput: None, show };
    procedure(&mut site, found)
}

fn print(args: &Search, command: &str, sizes: &[usize], found: &Found) -> u8 {
    if args.common.json {
        let conditions = json!({
            "device": args.common.device.to_string(), "sizes": sizes, "workers": args.common.workers,
            "profile": if args.profile == Profile::Rfc { "rfc" } else { "quick" },
            "link": args.link, "one_way": args.common.one_way, "own_core": !found.shared_core, "left_out": found.left_out, "seed": args.common.seed,
            "modifiers": args.common.modifiers.json(),
        });
        let mut object = measure::object(command, &conditions, &found.results);
        object["deviations"] = json!(found.deviations);
        if command == "test soak" {
            let bin = |(size, start_s, bin): &(usize, f64, Bin)| json!({ "size": size, "start_s": start_s, "sent": bin.sent, "lost": bin.lost });
            object["bins"] = found.bins.iter().map(bin).collect();
        }
        return cli::print_or_fail(format!("{object}\n").as_bytes());
    }
    let mut text = format!("{}, rates of each sending port\n{}", args.common.device, found.text);
    text += &left_out(&found.left_out);
    if !found.deviations.is_empty() {
        text += "Not as the documents have it:\n";
        for entry in &found.deviations {
            let part = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            text += &format!("  {}: {}: {}\n", part("section"), part("demand"), part("deviation"));
        }
    }
    if found.text.is_empty() { exit::SUCCESS } else { cli::print_or_fail(text.as_bytes()) }
}
