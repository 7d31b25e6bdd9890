// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test soak`, and what all tests by frame size share: the greatest rate without loss, and a device for frames of one size.
//!
//! The greatest rate that is tried is that of the link, if one is named, and else what the tester reaches on a cable. A rate that
//! the tester could not send is not called the device's: it has another name in the output, and the text says so.

use std::io::IsTerminal as _;
use std::time::Duration;

use serde_json::json;
use tester::search::load::Origin;
use tester::search::throughput::Limit;
use tester::search::{medium, setup, soak, throughput};
use tester::station::{Plan, Station};

use super::device::{Driver, Forget, Name, Running};
use super::log::Log;
use super::record::{Cause, Found, Record};
use super::variant::{Scene, Variant};
use super::{Common, Facts, Failure, SHARED_CORE, calibrate, interrupt, left_out, streams};
use crate::Error;

/// Whose procedures are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Document {
    Rfc2544,
    Rfc2889,
    Rfc5180,
    Rfc8219,
    Rfc9004,
    Mlr,
    Soak,
}

impl Document {
    /// As commands and the names of results have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Document::Rfc2544 => "rfc2544",
            Document::Rfc2889 => "rfc2889",
            Document::Rfc5180 => "rfc5180",
            Document::Rfc8219 => "rfc8219",
            Document::Rfc9004 => "rfc9004",
            Document::Mlr => "mlr",
            Document::Soak => "soak",
        }
    }
}

/// How exactly a procedure is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Durations and repetitions of the documents: hours.
    Rfc,
    /// Short trials: a first impression in minutes.
    Quick,
}

/// What all these commands need.
#[derive(Clone, Debug)]
pub struct Search {
    /// What all tests need to know.
    pub common: Common,
    /// Frame sizes in bytes, with the 4 of the FCS; the profile's, if there are none.
    pub size: Vec<usize>,
    /// How exactly the procedure is followed.
    pub profile: Profile,
    /// Length of each trial, instead of the profile's.
    pub trial: Option<Duration>,
    /// For how long the device is left alone after each trial, instead of the profile's time.
    pub settle: Option<Duration>,
    /// Bits a second of the links; without it, no link limits the rate.
    pub link: Option<f64>,
    /// How often the procedure is done for each size.
    pub repeat: u16,
    /// Whether every trial is printed on standard error, as is done on a terminal.
    pub verbose: bool,
}

impl Search {
    /// The same for flows of IPv6, with those of IPv4 at hand.
    pub(super) fn with_both_families(&self) -> Search {
        let mut search = self.clone();
        (search.common.ipv6, search.common.both) = (true, true);
        search
    }

    /// Refuses what only a test with one set of flows can do.
    pub(super) fn without_filters(&self, document: &str) -> Result<(), Error> {
        match self.common.modifiers.filters() {
            true => Err(Error::setting(format!(
                "--filters and --each-modifier are RFC 2544's; {document} has no tests with filters"
            ))),
            false => Ok(()),
        }
    }

    /// In how many networks destinations are chosen at random, if they are.
    pub(super) fn networks(&self) -> Option<u32> {
        self.common.modifiers.networks()
    }

    /// What a site sends in addition to the test's frames.
    pub(super) fn sent_beside(&self, site: &Site) -> Vec<setup::Beside> {
        self.common.modifiers.sent_beside(&site.station).into_iter().chain(site.beside).collect()
    }

    /// Whether the tester has set up the device's addresses.
    pub(super) fn is_rig(&self) -> bool {
        matches!(self.common.device, Name::KernelRouter(_))
    }

    /// A plan with UDP ports drawn at random, if that is asked for.
    pub(super) fn with_ports(&self, plan: &Plan) -> Plan {
        let mut plan = plan.clone();
        let mut random = fastrand::Rng::with_seed(self.common.seed);
        plan.streams.iter_mut().for_each(|stream| self.common.modifiers.draw_ports(stream, &mut random));
        plan
    }

    /// Whether the kernel generates the frames.
    pub(super) fn is_generated(&self) -> bool {
        self.common.driver == Driver::Bpf
    }

    /// How often everything is done.
    pub(super) fn repeats(&self) -> u32 {
        self.repeat.into()
    }

    /// How long the device may take until it forwards.
    pub(super) fn warm_up(&self) -> Duration {
        self.common.warm_up
    }

    /// For how long it is left alone after each trial.
    fn settle(&self) -> Duration {
        self.settle.unwrap_or(match self.profile {
            Profile::Rfc => setup::SETTLE,
            Profile::Quick => Duration::ZERO,
        })
    }

    /// How long before a trial's frames updates of routes are sent.
    fn ahead(&self) -> Duration {
        match self.profile {
            Profile::Rfc => setup::AHEAD,
            Profile::Quick => Duration::ZERO,
        }
    }

    pub(super) fn sizes(&self) -> Vec<usize> {
        if let Some(average) = self.common.modifiers.average_size() {
            return vec![average];
        }
        let usual: &[usize] = match (self.profile, self.common.ipv6) {
            (Profile::Rfc, false) => &setup::ETHERNET_SIZES,
            (Profile::Quick, false) => &[64, 512, 1518],
            // 64 bytes have no room for a signature; 84 have.
            (Profile::Rfc, true) => &[84, 128, 256, 512, 1024, 1280, 1518],
            (Profile::Quick, true) => &[128, 512, 1518],
        };
        if self.size.is_empty() { usual.to_vec() } else { self.size.clone() }
    }
}

/// One rate for a long time, and when frames were lost.
#[derive(Clone, Debug)]
pub struct Soak {
    /// What all tests by frame size need to know.
    pub search: Search,
    /// Frames a second that each sending port offers.
    pub rate: f64,
    /// For how long, instead of the profile's time.
    pub time: Option<Duration>,
    /// Width of an interval, instead of the profile's.
    pub bin: Option<Duration>,
}

/// The greatest rate without loss, measured once for each size, unless it is known.
pub(super) fn throughput(
    site: &mut Site,
    args: &Search,
    known: Option<f64>,
    found: &mut Found,
) -> Result<f64, Error> {
    if let Some(rate) = site.throughput {
        return Ok(rate);
    }
    if let Some(rate) = known {
        // People name whole frames.
        if site.is_medium && rate > site.rate_max.ceil() {
            return Err(Error::setting(format!(
                "--at {rate}: the link carries {:.0} frames of {} bytes a second at most",
                site.rate_max, site.size
            )));
        }
        let rate = if site.is_medium { rate.min(site.rate_max) } else { rate };
        site.origin = Origin::Named;
        let which = [&site.variant, &site.series].into_iter().filter(|part| !part.is_empty());
        let what: String = which.map(|part| format!("{}, ", part.replace('_', " "))).collect();
        found.text += &format!("{:>6} bytes  {what}at {} Mpps, as was asked\n", site.size, mpps(rate));
        site.throughput = Some(rate);
        return Ok(rate);
    }
    // Where a document only refers to it, it has RFC 2544's name.
    let document = if site.document == Document::Rfc5180 { "rfc5180" } else { "rfc2544" };
    let names = site.prefix(document);
    let rate = greatest_rate(site, args, &names, found)?;
    site.throughput = Some(rate);
    Ok(rate)
}

/// Searches for the greatest rate without loss, and reports it by names that begin with `test.` and `document`.
pub(super) fn greatest_rate(
    site: &mut Site,
    args: &Search,
    document: &str,
    found: &mut Found,
) -> Result<f64, Error> {
    let mut parameters = match args.profile {
        Profile::Rfc => throughput::Parameters::rfc(site.rate_max),
        Profile::Quick => throughput::Parameters::quick(site.rate_max),
    };
    if let Some(time) = args.trial {
        (parameters.search_trial, parameters.final_trial) = (time, time);
    }
    site.begin("throughput");
    let report = throughput::run(&mut site.station, &parameters).inspect_err(|why| {
        if let Some(so_far) = why.so_far() {
            found.text += &format!("{:>6} bytes  {so_far}\n", site.size);
        }
    })?;
    let (size, rate) = (site.size, report.rate());
    let (name, whose) = match report.limit() {
        Limit::Device => ("throughput_mpps", "the device's limit"),
        Limit::Medium if site.is_medium => ("throughput_mpps", "the link's rate"),
        Limit::Medium | Limit::Tester => ("reached_mpps", "the tester's limit: the device may be faster"),
    };
    site.origin = if name == "reached_mpps" { Origin::Reached } else { Origin::Found };
    found.note(format!("test.{document}.{name}.{size}"), "Mpps", rate / 1e6);
    let what = document.split_once('.').map_or(String::new(), |(_, series)| format!("{series} "));
    let what = what.replace('_', " ");
    // What is the tester's limit is not called the device's throughput.
    let found_or_not = if name == "reached_mpps" { "none; reached " } else { "" };
    found.text +=
        &format!("{size:>6} bytes  {what}throughput {found_or_not}{:>9} Mpps  ({whose})\n", mpps(rate));
    // A bridge's throughput is another document's.
    if !document.starts_with("rfc2889") {
        found.deviate(&report.ledger);
        found.deviate(&throughput::report_ledger(size, site.is_medium));
    }
    Ok(rate)
}

/// A rate in Mpps, with as many digits as a small one takes.
pub(super) fn mpps(rate: f64) -> String {
    let digits = if rate > 0.0 && rate < 1000.0 { 7 } else { 4 };
    format!("{:.digits$}", rate / 1e6)
}

/// Does the soak for each frame size.
pub(super) fn soak(args: &Soak) -> Result<(), Failure> {
    let usual = match args.search.profile {
        Profile::Rfc => soak::Parameters::hour(args.rate),
        Profile::Quick => soak::Parameters::quick(args.rate),
    };
    let duration = args.time.or(args.search.trial).unwrap_or(usual.duration);
    let bin = args.bin.unwrap_or(usual.bin).min(duration);
    let parameters = soak::Parameters { duration, bin, ..usual };
    each_size(&args.search, Document::Soak, |site, found| {
        let (time_s, bin_s) = (parameters.duration.as_secs_f64(), parameters.bin.as_secs_f64());
        found.ask(json!({ "rate": args.rate, "time_s": time_s, "bin_s": bin_s }));
        site.log.ask_for_all();
        streams::soak(site, &parameters, found)
    })
}

/// A device, for frames of one size.
pub(super) struct Site {
    pub(super) station: Station,
    /// The device, if it is one of this process.
    pub(super) running: Option<Running>,
    /// Makes a bridge forget addresses, where that takes no new start.
    pub(super) forget: Option<Box<Forget>>,
    pub(super) size: usize,
    /// How many ports send.
    pub(super) senders: usize,
    /// Frames a second that are tried at most, of each sending port.
    pub(super) rate_max: f64,
    /// Whether that is the link's rate, and not what the tester reaches.
    pub(super) is_medium: bool,
    /// Where the rate comes from at which procedures run that run at the throughput.
    pub(super) origin: Origin,
    /// For how long stragglers are waited for.
    pub(super) stragglers: Duration,
    /// What is sent with addresses of the other family, where that is known.
    pub(super) other: Option<Plan>,
    /// Numbers of the device's processors, if they are this machine's.
    pub(super) device_cores: Vec<usize>,
    /// Whose procedures are done.
    document: Document,
    /// With which addresses, if that changes: `networks_256`.
    variant: String,
    /// What is sent in addition to the test's frames in this variant.
    pub(super) beside: Option<setup::Beside>,
    /// Under which condition, if there are several: `chain`.
    series: String,
    /// The greatest rate without loss, once it is known.
    throughput: Option<f64>,
    /// All trials.
    pub(super) log: Log,
}

impl Site {
    /// From now on, results are reported under this name; nothing is known of it yet.
    pub(super) fn begin_series(&mut self, name: &str) {
        name.clone_into(&mut self.series);
        self.throughput = None;
    }

    /// How names of a document's results begin here, without `test.`.
    pub(super) fn prefix(&self, document: &str) -> String {
        let parts = [document, &self.variant, &self.series];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".")
    }

    /// Whether destinations are spread over many networks here.
    pub(super) fn is_spread(&self) -> bool {
        self.variant.starts_with("networks")
    }

    /// The stable name of a quantity: `test.rfc2544.latency_us.p50.64`.
    pub(super) fn name(&self, what: &str) -> String {
        format!("test.{}.{what}.{}", self.prefix(self.document.name()), self.size)
    }

    /// How the names of quantities begin that begin so.
    pub(super) fn begins(&self, what: &str) -> String {
        format!("test.{}.{what}", self.prefix(self.document.name()))
    }

    /// A title with the condition, if there are several.
    pub(super) fn titled(&self, title: &str) -> String {
        let parts = [title, &self.variant, &self.series].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(", ").replace('_', " ")
    }

    /// What is being measured from now on, for the list of trials.
    pub(super) fn begin(&self, phase: &str) {
        self.log.begin(&self.titled(phase));
    }

    /// Refuses a test of nothing but latency where that cannot be measured.
    pub(super) fn timed(&self) -> Result<(), Error> {
        if self.station.is_timed() {
            return Ok(());
        }
        Err(Error::setting(
            "generator and sink have clocks of their own, so latency cannot be measured; have one agent generate and receive",
        ))
    }

    pub(super) fn throughput(&self) -> f64 {
        self.throughput.unwrap_or(0.0)
    }
}

/// Measures size by size. Results that were found before something failed are reported nevertheless.
pub(super) fn each_size(
    args: &Search,
    document: Document,
    procedure: impl FnMut(&mut Site, &mut Found) -> Result<(), Error>,
) -> Result<(), Failure> {
    each_size_and(args, document, procedure, |_, _| ())
}

/// The same; at the end, `judge` is given the sizes of which there were trials.
pub(super) fn each_size_and(
    args: &Search,
    document: Document,
    mut procedure: impl FnMut(&mut Site, &mut Found) -> Result<(), Error>,
    judge: impl FnOnce(&[usize], &mut Found),
) -> Result<(), Failure> {
    let sizes = args.sizes();
    args.common.check_workers().and_then(|()| args.common.output.prepare())?;
    interrupt::heed()?;
    let (mut found, mut facts) = (Found::default(), None);
    let mut failed: Vec<(usize, String)> = Vec::new();
    for (place, size) in sizes.iter().enumerate() {
        let done = one_size(args, document, *size, &mut found, &mut facts, &mut procedure);
        if let Some(signal) = interrupt::came() {
            // Sizes that were not started have no result for the same reason.
            failed.extend(sizes[place..].iter().map(|size| (*size, interrupt::cause(signal))));
            break;
        }
        // Each size has a device and a warm-up of its own: what one cannot do, another may.
        failed.extend(done.err().map(|why| (*size, why.to_string())));
    }
    let causes = failed.iter().map(|(size, cause)| Cause { size: Some(*size), cause: cause.clone() });
    found.invalid.extend(causes);
    found.size = None;
    let tried = found.tried(&sizes);
    judge(&tried, &mut found);
    // Nobody shared a core with a device that was not there.
    let mut facts: Facts = facts.unwrap_or_else(|| Facts { own_core: true, ..Facts::default() });
    facts.ahead = args.ahead();
    let told = facts.beside(&mut found);
    found.text += &told;
    // What is asked of a bridge's test is another document's, and nobody asks anything of a soak.
    if !matches!(document, Document::Rfc2889 | Document::Soak) {
        found.deviate(&args.common.asked(&tried, args.link.is_some(), args.settle(), &facts));
    }
    let mut text = std::mem::take(&mut found.text);
    // The text reports filters where they were set.
    let mut conditions = args.common.conditions(&facts.with_filters_noted());
    conditions.insert("sizes".to_owned(), json!(sizes));
    conditions
        .insert("profile".to_owned(), json!(if args.profile == Profile::Rfc { "rfc" } else { "quick" }));
    let link = args.link.or(facts.link_bits.map(|bits| bits as f64));
    conditions.insert("link".to_owned(), json!(link));
    conditions.insert("repeat".to_owned(), json!(args.repeat));
    conditions.insert("settle_s".to_owned(), json!(args.settle().as_secs_f64()));
    conditions.insert("trial_s".to_owned(), json!(args.trial.map(|time| time.as_secs_f64())));
    let record = found.record(&format!("test {}", document.name()), conditions);
    if !text.is_empty() {
        text = frame(&record, &facts, &text);
    }
    let json = record.json();
    let mut causes = args.common.output.publish(&[record], &text, &json);
    match interrupt::came() {
        Some(signal) => {
            causes.push(interrupt::cause(signal));
            Err(Failure::Interrupted { signal, causes })
        }
        None => {
            causes.extend(failures(&failed, sizes.len()));
            Failure::unless_empty(causes)
        }
    }
}

/// Why sizes have no result, of so many: each cause once, with the sizes if they are not all.
fn failures(failed: &[(usize, String)], sizes: usize) -> Vec<String> {
    let mut causes: Vec<(&str, Vec<String>)> = Vec::new();
    for (size, cause) in failed {
        match causes.iter_mut().find(|(known, _)| known == cause) {
            Some((_, of)) => of.push(size.to_string()),
            None => causes.push((cause, vec![size.to_string()])),
        }
    }
    let told = |(cause, of): (&str, Vec<String>)| match of.len() == sizes {
        true => cause.to_owned(),
        false => format!("{} bytes: {cause}", of.join(", ")),
    };
    causes.into_iter().map(told).collect()
}

fn one_size(
    args: &Search,
    document: Document,
    size: usize,
    found: &mut Found,
    facts: &mut Option<Facts>,
    procedure: &mut impl FnMut(&mut Site, &mut Found) -> Result<(), Error>,
) -> Result<(), Error> {
    found.size = Some(size);
    let cable = calibrate(&args.common, size)?;
    found.note(format!("test.cable.mpps.{size}"), "Mpps", cable.rate / 1e6);
    found.note(format!("test.cable.latency_us.p50.{size}"), "us", cable.latency_ns as f64 / 1e3);
    let mut plugged = args.common.plug(size)?;
    let beside = args.common.modifiers.sent_beside(&plugged.station);
    *facts = Some(Facts { beside, ..Facts::of(&plugged, &cable) });
    let show = args.verbose || std::io::stderr().is_terminal();
    let log = args.common.keep(&mut plugged.station, size, show)?;
    let own = cable.rate / plugged.senders.max(1) as f64;
    let link = args.link.or(plugged.link_bits.map(|bits| bits as f64));
    // A mix is called by the size that it has on usual ports; the longest frames of these may be others.
    let carried = args.common.modifiers.average_on(plugged.station.longest()).unwrap_or(size);
    let rate_max = link.map_or(own, |bits| medium::ethernet_frames_per_s(bits as u64, carried as u64));
    if let Some(missing) = args.common.modifiers.missing(&plugged.station) {
        found.text += &format!("  {missing}\n");
    }
    let mut site = Site {
        station: plugged.station,
        running: plugged.running,
        forget: plugged.forget,
        size,
        senders: plugged.senders,
        rate_max,
        is_medium: link.is_some(),
        origin: Origin::default(),
        stragglers: args.common.stragglers,
        other: plugged.other,
        device_cores: plugged.device_cores,
        document,
        variant: String::new(),
        beside: None,
        series: String::new(),
        throughput: None,
        log,
    };
    site.station.settle(args.settle());
    site.station.update_ahead(args.ahead());
    let given = site.station.plan().clone();
    let (modifiers, seed) = (&args.common.modifiers, args.common.seed);
    let variants = modifiers.variants();
    let all = (0..args.repeat).flat_map(|_| &variants);
    let result = all.into_iter().try_for_each(|variant| {
        site.variant = variant.name();
        site.beside = if let Variant::Beside(what) = variant { Some(what.demand()) } else { None };
        site.begin_series("");
        site.begin("warm-up");
        let begun = variant.begin(&mut Scene {
            station: &mut site.station,
            routing: &plugged.routing,
            filtering: &plugged.filtering,
            filter_command: modifiers.filter_command(),
            running: site.running.as_mut(),
            bridged: plugged.bridged,
            is_optional: modifiers.each(),
            filtered: facts.as_ref().is_some_and(|facts| !facts.filters.is_empty()),
            given: &given,
            seed,
            warm_up: args.common.warm_up,
        });
        let begun = match (begun, facts.as_mut()) {
            (Err(why), Some(facts)) if modifiers.each() && variant.modifies() => {
                let name = site.variant.replace('_', " ");
                found.text += &format!("{size:>6} bytes  {name}: left out: {why}\n");
                facts.undone.push(format!("{name}: {why}"));
                return Ok(());
            }
            (begun, _) => begun?,
        };
        if let Variant::Beside(what) = variant {
            facts.iter_mut().for_each(|facts| facts.beside.push(what.demand()));
            found.text += &format!("{size:>6} bytes  with {} frames beside these\n", what.name());
        }
        if let (Some(needs), Some(facts)) = (begun.needs, facts.as_mut())
            && !facts.notes.contains(&needs)
        {
            facts.notes.push(needs);
        }
        if let (Some(announced), Some(facts)) = (begun.announced, facts.as_mut()) {
            facts.announced = announced;
        }
        if let (Some(filtered), Some(facts)) = (begun.filters, facts.as_mut()) {
            let seen = filtered.seen.words();
            found.text += &format!("{size:>6} bytes  {}: {seen}\n", site.variant.replace('_', " "));
            facts.filters.push(filtered);
        }
        procedure(&mut site, found)
    });
    let trials = std::mem::replace(&mut found.trials, site.log.take());
    found.unsent();
    found.trials.splice(0..0, trials);
    result
}

/// How late frames left the tester in the worst of all trials.
fn pacing(record: &Record) -> String {
    let trials = record.trials.iter().filter(|trial| !trial.phase.starts_with("warm-up"));
    let greatest = |name| trials.clone().filter_map(|trial| trial.lateness(name)).max_by(f64::total_cmp);
    match (greatest("p99"), greatest("max")) {
        (Some(p99), Some(most)) => {
            format!(
                "  The tester's pacing: in each trial 99 % of the frames left within {p99:.1} us of when they were due, all within {most:.1} us.\n"
            )
        }
        (None, Some(most)) => {
            format!("  The tester's pacing: all frames left within {most:.1} us of when they were due.\n")
        }
        (_, None) => String::new(),
    }
}

/// What people get: the procedure's report, and the circumstances around it.
fn frame(record: &Record, facts: &Facts, told: &str) -> String {
    let mut text = format!("{}, rates of each sending port\n", record.device());
    if !facts.own_core {
        text += SHARED_CORE;
    }
    text += told;
    text += &pacing(record);
    text += &facts.built();
    text += &left_out(&facts.left_out);
    let repeated: Vec<_> =
        record.results.iter().filter(|q| q.runs > 1 && record.number("repeat") > Some(1.0)).collect();
    if !repeated.is_empty() {
        text += "Median of the runs, least and greatest:\n";
        for q in repeated {
            text +=
                &format!("  {:<40} {:>12.4} {:<6} {:.4} to {:.4}\n", q.name, q.value, q.unit, q.min, q.max);
        }
    }
    if record.ledger.iter().any(|clause| !clause.met) {
        text += "Not as the documents have it:\n";
        for clause in record.ledger.iter().filter(|clause| !clause.met) {
            let deviation = clause.deviation.as_deref().unwrap_or_default();
            text += &format!("  {}: {}: {deviation}\n", clause.section, clause.demand);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_of_several_sizes_is_said_once() {
        let said = |failed: &[(usize, &str)], sizes| {
            let failed: Vec<_> = failed.iter().map(|(size, why)| (*size, (*why).to_owned())).collect();
            failures(&failed, sizes)
        };
        assert_eq!(said(&[], 3), Vec::<String>::new());
        assert_eq!(said(&[(64, "no rights"), (512, "no rights")], 2), ["no rights"]);
        assert_eq!(
            said(&[(64, "too short"), (512, "link down"), (1518, "link down")], 4),
            ["64 bytes: too short", "512, 1518 bytes: link down"]
        );
    }
}
