// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test rfc2544` and `junctor test mlr`: what a device carries, by frame size.
//!
//! The greatest rate that is tried is that of the link, if one is named, and else what the tester reaches on a cable. A rate that
//! the tester could not send is not called the device's: it has another name in the output, and the text says so.

use std::io::IsTerminal as _;
use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tester::search::throughput::Limit;
use tester::search::{Ledger, Watched, loss, medium, mlr as search, throughput};
use tester::station::Station;
use tester::trial::{Invalid, Measurer, Outcome, Trial};

use super::{Common, SHARED_CORE, calibrate, left_out};
use crate::measure::{self, Measured};
use crate::{cli, exit};

/// How exactly a procedure is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Profile {
    /// Durations and repetitions of the documents: hours.
    Rfc,
    /// Short trials: a first impression in minutes.
    Quick,
}

/// What both commands need.
#[derive(Clone, Debug, clap::Args)]
struct Search {
    #[command(flatten)]
    common: Common,
    /// Frame sizes in bytes, with the 4 of the FCS [default: RFC 2544's with rfc, 64, 512 and 1518 with quick].
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    size: Vec<usize>,
    /// How exactly the procedure is followed.
    #[arg(long, value_enum, default_value_t = Profile::Quick)]
    profile: Profile,
    /// Seconds of each trial, instead of the profile's.
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds)]
    trial: Option<Duration>,
    /// Bits a second of the links: k, M and G may follow the number [default: no link limits the rate].
    #[arg(long, value_name = "RATE", value_parser = super::bits)]
    link: Option<f64>,
    /// Print every trial on standard error, as is done on a terminal.
    #[arg(short, long)]
    verbose: bool,
}

/// The sizes of RFC 2544, section 9.1, for Ethernet.
const SIZES: [usize; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// Throughput, loss by load, and latency, as RFC 2544 has them.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "What is told for each frame size (names begin with test.rfc2544.):
  throughput_mpps.SIZE      the greatest rate without loss, of each sending port (section 26.1)
  reached_mpps.SIZE         instead of it, if the tester could not send more: the device may be faster
  latency_us.Q.SIZE         of every frame at that rate, by quantile (section 26.2)
  loss_share.SIZE.PERCENT   with --loss, at shares of the greatest rate (section 26.3)
What the documents ask for and was not done is listed.

Examples:
  junctor test rfc2544 self:conf/ip-router.click --size 64
  junctor test rfc2544 self:conf/ip-router.click --profile rfc --link 10G --loss --json")]
pub(super) struct Rfc2544 {
    #[command(flatten)]
    search: Search,
    /// Measure loss by load too.
    #[arg(long)]
    loss: bool,
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
struct Found {
    results: Vec<Measured>,
    text: String,
    deviations: Vec<Value>,
    /// The tester has no core of its own.
    shared_core: bool,
    /// The device's own addresses, to which nothing is sent.
    left_out: Vec<IpAddr>,
}

impl Found {
    fn note(&mut self, name: String, unit: &'static str, value: f64) {
        self.results.push(Measured::new(name, unit, vec![value]));
    }

    /// Lists what a document asks for and was not done, once.
    fn deviate(&mut self, ledger: &Ledger) {
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
    each_size(&args.search, "test rfc2544", |site, found| {
        let mut parameters = match args.search.profile {
            Profile::Rfc => throughput::Parameters::rfc(site.rate_max),
            Profile::Quick => throughput::Parameters::quick(site.rate_max),
        };
        if let Some(time) = args.search.trial {
            (parameters.search_trial, parameters.final_trial) = (time, time);
        }
        let report = throughput::run(&mut site.watched(), &parameters).map_err(|why| why.to_string())?;
        let (size, rate) = (site.size, report.rate());
        let (name, whose) = match report.limit() {
            Limit::Device => ("throughput_mpps", "the device's limit"),
            Limit::Medium if args.search.link.is_some() => ("throughput_mpps", "the link's rate"),
            Limit::Medium | Limit::Tester => ("reached_mpps", "the tester's limit: the device may be faster"),
        };
        found.note(format!("test.rfc2544.{name}.{size}"), "Mpps", rate / 1e6);
        found.text += &format!("{size:>6} bytes  throughput {:>9.4} Mpps  ({whose})\n", rate / 1e6);
        found.deviate(&report.ledger);
        if rate > 0.0 {
            latency(site, &args.search, rate, found)?;
        }
        if args.loss {
            loss_by_load(site, &args.search, found)?;
        }
        Ok(())
    })
}

/// Latency of every frame at the rate of the throughput.
fn latency(site: &mut Site, args: &Search, rate: f64, found: &mut Found) -> Result<(), String> {
    let (seconds, repetitions) = if args.profile == Profile::Rfc { (120, 20) } else { (1, 3) };
    let time = args.trial.unwrap_or(Duration::from_secs(seconds));
    let mut runs: [Vec<f64>; 4] = Default::default();
    let quantiles = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];
    for _ in 0..repetitions {
        let trial = Trial::new(rate, time);
        let detail = site.station.run(trial).map_err(|why| why.to_string())?;
        for (runs, (_, q)) in runs.iter_mut().zip(quantiles) {
            runs.push(detail.latency.value_at_quantile(q) as f64 / 1e3);
        }
    }
    found.text += "             latency at this rate, us:";
    for (runs, (name, _)) in runs.into_iter().zip(quantiles) {
        let measured = Measured::new(format!("test.rfc2544.latency_us.{name}.{}", site.size), "us", runs);
        found.text += &format!("  {name} {:.1}", measured.median());
        found.results.push(measured);
    }
    found.text += "\n";
    Ok(())
}

fn loss_by_load(site: &mut Site, args: &Search, found: &mut Found) -> Result<(), String> {
    let mut parameters = match args.profile {
        Profile::Rfc => loss::Parameters::rfc(site.rate_max),
        Profile::Quick => loss::Parameters::quick(site.rate_max),
    };
    parameters.trial = args.trial.unwrap_or(parameters.trial);
    let report = loss::run(&mut site.watched(), &parameters).map_err(|why| why.to_string())?;
    for point in &report.points {
        let percent = (100.0 * point.share).round();
        found.note(format!("test.rfc2544.loss_share.{}.{percent}", site.size), "", point.loss_ratio());
        let mark = if point.done.outcome.tester_kept_up() { "" } else { "  (the tester did not keep up)" };
        let loss = 100.0 * point.loss_ratio();
        found.text +=
            &format!("             loss at {percent:>3} % of the greatest rate: {loss:.4} %{mark}\n");
    }
    found.deviate(&report.ledger);
    Ok(())
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
struct Site {
    station: Station,
    size: usize,
    rate_max: f64,
    show: bool,
}

impl Site {
    /// The device, with every trial told as it ends.
    fn watched(&mut self) -> Watched<'_, impl FnMut(Trial, &Result<Outcome, Invalid>) + use<>> {
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
fn each_size(
    args: &Search,
    command: &str,
    mut procedure: impl FnMut(&mut Site, &mut Found) -> Result<(), String>,
) -> u8 {
    let sizes = match (&args.size[..], args.profile) {
        ([], Profile::Rfc) => SIZES.to_vec(),
        ([], Profile::Quick) => vec![64, 512, 1518],
        (sizes, _) => sizes.to_vec(),
    };
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
    let mut site = Site { station: plugged.station, size, rate_max, show };
    procedure(&mut site, found)
}

fn print(args: &Search, command: &str, sizes: &[usize], found: &Found) -> u8 {
    if args.common.json {
        let conditions = json!({
            "device": args.common.device.to_string(), "sizes": sizes, "workers": args.common.workers,
            "profile": if args.profile == Profile::Rfc { "rfc" } else { "quick" },
            "link": args.link, "one_way": args.common.one_way, "own_core": !found.shared_core, "left_out": found.left_out, "seed": args.common.seed,
        });
        let mut object = measure::object(command, &conditions, &found.results);
        object["deviations"] = json!(found.deviations);
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
