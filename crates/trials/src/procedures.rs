// SPDX-License-Identifier: MIT OR Apache-2.0
//! What procedures find at one device for one frame size, in names and in words.

use hdrhistogram::Histogram;
use serde_json::json;
use tester::search::delay::{self, How, Latency, Told};
use tester::search::load::Load;
use tester::search::observe::{Look, Trials};
use tester::search::{back_to_back, loss};
use tester::station::{Delays, Detail, Stream};
use tester::trial::Outcome;

use super::log::{gather, latency_curve};
use super::networks;
use super::quantiles::{QUANTILES, Quantile, TOO_FEW, cell};
use super::record::{Curve, Found};
use super::rfc9004::Bursts;
use super::search::{Profile, Search, Site};
use crate::Error;
use report::measure::Measured;
use report::{Axis, Scale};

/// The trials of a profile in which these frames are looked at.
fn trials(args: &Search, look: Look) -> Trials {
    let trials = match args.profile {
        Profile::Rfc => Trials::rfc(look),
        Profile::Quick => Trials::quick(look),
    };
    Trials { duration: args.trial.unwrap_or(trials.duration), ..trials }
}

/// Notes a quantity, and hands back the median.
pub(super) fn quantity(found: &mut Found, name: String, unit: &'static str, runs: Vec<f64>) -> f64 {
    let median = Measured::new("", unit, runs.clone()).median();
    found.note_runs(name, unit, runs);
    median
}

/// Notes a quantity in microseconds with how it varied over the trials, and says both: the median, and the 1st and 99th percentile
/// (RFC 8219 7.2).
fn varied(found: &mut Found, name: &str, runs: Vec<f64>) -> String {
    let Some(delay::Repeated { median, p1, p99, .. }) = delay::repeated(&runs) else { return String::new() };
    found.note_runs(name.to_owned(), "us", runs);
    let base = name.rsplit_once('.');
    for (percentile, value) in [("p1", p1), ("p99", p99)] {
        let name = base
            .map_or_else(|| name.to_owned(), |(what, size)| format!("{what}.{percentile}_of_trials.{size}"));
        found.note(name, "us", value);
    }
    format!("{median:.1} ({p1:.1} to {p99:.1})")
}

/// Times by quantile, of each trial.
#[derive(Default)]
struct Runs([Vec<Option<f64>>; QUANTILES.len()]);

impl Runs {
    fn add(&mut self, times: &Histogram<u64>) {
        self.0.iter_mut().zip(QUANTILES).for_each(|(runs, quantile)| runs.push(quantile.us(times)));
    }

    /// Notes those for which every trial had frames enough, and hands back the medians.
    fn note(self, site: &Site, found: &mut Found, what: &str) -> [Option<f64>; QUANTILES.len()] {
        let mut quantiles = QUANTILES.iter();
        self.0.map(|runs| {
            let name = quantiles.next().map_or("", |quantile| quantile.name);
            let runs: Option<Vec<f64>> = runs.into_iter().collect();
            runs.map(|runs| quantity(found, site.name(&format!("{what}.{name}")), "us", runs))
        })
    }
}

/// How the tester kept to its schedule: how late frames left, and how long they took from when they were due, which is what a user sees
/// who sends on time.
#[derive(Default)]
struct Paced {
    response: Runs,
    lateness: Runs,
}

impl Paced {
    fn add(&mut self, detail: &Detail) {
        self.response.add(&detail.response);
        self.lateness.add(&detail.lateness);
    }

    fn note(self, site: &Site, found: &mut Found) {
        for (what, words, runs) in [
            ("response_us", "from when they were due, us:  every frame", self.response),
            ("lateness_us", "how late they left the tester, us:     ", self.lateness),
        ] {
            found.text += &format!("             {words}");
            let medians = runs.note(site, found, what);
            for (median, Quantile { name, .. }) in medians.into_iter().zip(QUANTILES) {
                if ["p50", "p99", "max"].contains(&name) {
                    found.text += &format!("  {name} {}", cell(median));
                }
            }
            found.text += "\n";
        }
    }
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The same, with what the plan says of destinations.
fn how(site: &Site, how: How) -> How {
    let to_one = |stream: &Stream| stream.flows.windows(2).all(|pair| pair[0].0.dst == pair[1].0.dst);
    How { one_destination: site.station.plan().streams.iter().all(to_one), ..how }
}

/// The average over the trials in which tagged frames arrived; nothing if they did in none. Says of the others that they have no part
/// in it: a frame that does not arrive takes no time that is known.
fn tagged_average(found: &mut Found, what: &str, averages: &[f64], trials: usize) -> Option<f64> {
    let without = trials - averages.len();
    if averages.is_empty() {
        found
            .unmeasured(format!("{what}: no tagged frame arrived in {trials} trials: is the rate too high?"));
        found.text += &format!("             {what}: no tagged frame arrived in {trials} trials\n");
        return None;
    }
    if without > 0 {
        found.text += &format!(
            "             {what}: in {without} of {trials} trials no tagged frame arrived: the average is of the others\n"
        );
    }
    Some(mean(averages))
}

/// Says at which load something was measured, and where that was not the throughput. Names that begin with one of `what` are marked if
/// the tester did not keep up. Lost frames, of which no time is known, are counted.
fn at_load(
    site: &Site,
    found: &mut Found,
    kind: &str,
    what: &[&str],
    (sections, load): (&[&'static str], &Load),
) {
    let Outcome { intended, sent, .. } = load.carried;
    found.note(site.name(&format!("{kind}_loss_share")), "", load.carried.loss_ratio());
    if !load.carried.is_of_device() {
        what.iter().for_each(|what| found.limited(&site.begins(what)));
        let share = |frames: u64| 100.0 * frames as f64 / intended.max(1) as f64;
        found.text += &format!(
            "               the tester sent {:.1} % of what was due, {:.1} % in lumps: this is not the device's at this rate\n",
            share(sent),
            share(load.carried.late)
        );
    }
    if load.carried.lost() > 0 {
        let share = 100.0 * load.carried.loss_ratio();
        found.text += &format!(
            "               {} of {sent} frames were lost ({share:.4} %): how late they would be is not known\n",
            load.carried.lost()
        );
    }
    sections.iter().for_each(|section| found.deviate(&load.ledger(section)));
}

/// Says of latency that it is not measured, where generator and sink have clocks of their own.
pub(super) fn is_untimed(site: &Site, section: &'static str, found: &mut Found) -> bool {
    let untimed = !site.station.is_timed();
    if untimed {
        found.text += "             latency: not measured, for generator and sink have clocks of their own\n";
        found.deviate(&delay::unmeasured_ledger(section));
    }
    untimed
}

/// Latency at a rate: of tagged frames, and of every frame (RFC 2544 26.2).
pub(super) fn latency(site: &mut Site, args: &Search, rate: f64, found: &mut Found) -> Result<(), Error> {
    let trials = trials(args, Look::Tagged);
    let (mut every, mut paced) = (Runs::default(), Paced::default());
    let (mut averages, mut all) = (Vec::new(), None);
    let mut load = Load::new(site.origin);
    site.begin("latency");
    let each = |detail: Detail, tagged: Delays| {
        every.add(&detail.latency);
        paced.add(&detail);
        averages.extend(delay::average_ns(&tagged.received()).map(|ns| ns / 1e3));
        load.carried.add(&detail.outcome);
        gather(&mut all, detail.latency);
    };
    let fewest = trials.run(&mut site.station, rate, each)?;
    if let Some(all) = all {
        found.draw(latency_curve(&site.titled("Latency at the throughput"), site.size, &all));
    }
    let how = How { trials: averages.len(), ..how(site, trials.how(rate, fewest)) };
    let average = tagged_average(found, "latency", &averages, trials.count);
    if let Some(average) = average {
        quantity(found, site.name("latency_us.tagged"), "us", averages);
        found.note(site.name("latency_us.average"), "us", average);
    }
    let average = cell(average);
    found.text += &format!("             latency at this rate, us:  tagged frames {average}; every frame");
    let medians = every.note(site, found, "latency_us");
    let too_few = if medians.iter().any(Option::is_none) { TOO_FEW } else { "" };
    for (number, (median, Quantile { name, .. })) in medians.into_iter().zip(QUANTILES).enumerate() {
        let before = if number % 5 == 0 { "\n             " } else { "" };
        found.text += &format!("{before}  {name} {}", cell(median));
    }
    found.text += "\n";
    if !too_few.is_empty() {
        found.text += &format!("               {too_few}\n");
    }
    paced.note(site, found);
    let what = ["latency_us.", "response_us.", "lateness_us."];
    at_load(site, found, "latency", &what, (&["RFC 2544 26.2"], &load));
    found.deviate(&delay::latency_ledger(&how).of("RFC 2544"));
    match (args.networks(), site.is_spread()) {
        (Some(_), true) => latency_apart(site, args, rate, found),
        // Its turn comes.
        (Some(_), false) => Ok(()),
        (None, _) => {
            let why = "tagged frames went where all others did; with --networks they are also sent to networks of their own";
            found.deviate(&delay::apart_ledger(Some(why)));
            Ok(())
        }
    }
}

/// Latency of tagged frames that go each to a network to which nothing else is sent in its trial, while all others go to one
/// destination (RFC 2544 26.2).
fn latency_apart(site: &mut Site, args: &Search, rate: f64, found: &mut Found) -> Result<(), Error> {
    let generated = args.is_generated();
    let Some((plan, networks)) = networks::apart(site.station.plan()).filter(|_| !generated) else {
        let why = match generated {
            true => "the kernel generates the frames, and sends tagged ones where all others go",
            false => "each port sends to one network only",
        };
        found.deviate(&delay::apart_ledger(Some(why)));
        return Ok(());
    };
    let trials = trials(args, Look::TaggedApart { networks });
    let usual = site.station.plan().clone();
    site.begin("latency to new networks");
    site.station.replan(&plan)?;
    let (mut averages, mut greatest) = (Vec::new(), 0);
    let mut load = Load::new(site.origin);
    let each = |detail: Detail, tagged: Delays| {
        load.carried.add(&detail.outcome);
        let tagged = tagged.received();
        averages.extend(delay::average_ns(&tagged).map(|ns| ns / 1e3));
        greatest = greatest.max(tagged.into_iter().max().unwrap_or(0));
    };
    trials.run(&mut site.station, rate, each)?;
    site.station.replan(&usual)?;
    let Some(average) = tagged_average(found, "latency to new networks", &averages, trials.count) else {
        found.deviate(&delay::apart_ledger(Some("no tagged frame arrived")));
        return Ok(());
    };
    quantity(found, site.name("latency_us.tagged_apart"), "us", averages);
    found.text += &format!(
        "             tagged frames to a new network each: {average:.1} us on average, {:.1} at most\n",
        greatest as f64 / 1e3
    );
    at_load(site, found, "latency_apart", &["latency_us.tagged_apart"], (&["RFC 2544 26.2"], &load));
    found.deviate(&delay::apart_ledger(None));
    Ok(())
}

/// Loss at falling rates (RFC 2544 26.3).
pub(super) fn loss_by_load(site: &mut Site, args: &Search, found: &mut Found) -> Result<(), Error> {
    let mut parameters = match args.profile {
        Profile::Rfc => loss::Parameters::rfc(site.rate_max),
        Profile::Quick => loss::Parameters::quick(site.rate_max),
    };
    parameters.trial = args.trial.unwrap_or(parameters.trial);
    site.begin("loss");
    let report = loss::run(&mut site.station, &parameters)?;
    let mut points = Vec::new();
    for point in &report.points {
        let percent = (100.0 * point.share).round();
        found.note(format!("{}.{percent}", site.name("loss_share")), "", point.loss_ratio());
        let kept_up = point.done.outcome.is_of_device();
        if !kept_up {
            found.limited(&format!("{}.{percent}", site.name("loss_share")));
        }
        let mark = if kept_up { "" } else { "  (the tester did not keep up)" };
        let loss = 100.0 * point.loss_ratio();
        points.push((percent, loss));
        found.text +=
            &format!("             loss at {percent:>3} % of the greatest rate: {loss:.4} %{mark}\n");
    }
    found.draw(Curve {
        name: site.titled("Loss by load"),
        size: Some(site.size),
        x: Axis::new("load, % of the greatest rate", Scale::Percent),
        y: Axis::new("frames lost, %", Scale::Percent),
        points,
    });
    found.deviate(&report.ledger);
    found.deviate(&loss::report_ledger(site.is_medium));
    Ok(())
}

/// The longest burst (RFC 2544 26.4), and with RFC 9004 the buffer that it implies.
pub(super) fn back_to_back(
    site: &mut Site,
    args: &Search,
    (throughput, judged): (f64, Bursts),
    document: &str,
    found: &mut Found,
) -> Result<(), Error> {
    let line = site.rate_max;
    let throughput = throughput.min(line);
    let corrected = document == "RFC 9004";
    if corrected {
        found.deviate(&back_to_back::prerequisites_ledger(site.size, site.origin, site.is_medium));
    }
    if corrected && throughput >= line {
        // RFC 9004 6.1: such sizes are not tested.
        found.text +=
            "             not tested: the throughput is the greatest rate, so bursts need no buffer\n";
        return Ok(());
    }
    let mut parameters = match args.profile {
        Profile::Rfc => back_to_back::Parameters::rfc(line, throughput),
        Profile::Quick => back_to_back::Parameters::quick(line, throughput),
    };
    if let Some(time) = args.trial {
        (parameters.longest, parameters.longest_retry, parameters.settle) = (time, time, time);
    }
    if !corrected {
        parameters.longest_retry = parameters.longest;
    }
    (parameters.origin, parameters.medium) = (site.origin, site.is_medium);
    parameters.failures = judged.loss_verification;
    let back_to_back::Parameters {
        longest, longest_retry, step_frames, failures, settle, repetitions, ..
    } = parameters;
    found.condition(
        "bursts",
        json!({
            "search": "binary",
            "longest_s": longest.as_secs_f64(),
            "longest_retry_s": longest_retry.as_secs_f64(),
            "step_frames": step_frames,
            "tries": failures,
            "settle_s": settle.as_secs_f64(),
            "repetitions": repetitions,
        }),
    );
    site.begin("bursts");
    let mut bursts = site.station.bursts(line, site.is_medium);
    let report = back_to_back::run(&mut bursts, &parameters)?;
    let whose = match () {
        () if report.limited_by_tester => ", the tester's limit: the device may hold more",
        () if report.at_longest > 0 => ", the longest that was tried: the device may hold more",
        () => "",
    };
    let mean = report.frames.mean;
    quantity(found, site.name("burst_frames"), "frames", report.bursts.iter().map(|n| *n as f64).collect());
    found.note(site.name("burst_frames.average"), "frames", mean);
    let is_bound = report.limited_by_tester || report.at_longest > 0;
    let mut told = vec!["burst_frames", "burst_frames.average"];
    found.text += &format!(
        "             longest burst without loss: {mean:.1} frames on average (standard deviation {:.1}){whose}\n",
        report.frames.stdev
    );
    if corrected {
        let back_to_back::Parameters { step_frames, failures, settle, repetitions, .. } = parameters;
        let (longest, settle) = (report.longest_frames, settle.as_secs_f64());
        found.note(site.name("longest_frames"), "frames", longest as f64);
        found.text += &format!(
            "             {repetitions} binary searches up to {longest} frames, to {step_frames}; a burst fails if it loses frames {failures} times; \
             {settle} s of rest after it at least\n"
        );
        let [implied, buffer] =
            [report.implied_buffer_time(), report.corrected_buffer_time()].map(|t| t.as_secs_f64() * 1e6);
        found.note(site.name("implied_buffer_us"), "us", implied);
        found.note(site.name("corrected_buffer_us"), "us", buffer);
        found.note(site.name("buffer_frames"), "frames", report.buffer_frames());
        told.extend(["implied_buffer_us", "corrected_buffer_us", "buffer_frames"]);
        let least = if is_bound { "at least " } else { "" };
        found.text += &format!(
            "             buffer: {least}{:.1} frames; time: implied {implied:.1} us, corrected {buffer:.1} us\n",
            report.buffer_frames()
        );
    }
    told.iter().filter(|_| is_bound).for_each(|what| found.bound(&site.name(what)));
    found.deviate(&if corrected { report.ledger } else { report.ledger.of(document) });
    Ok(())
}

/// Latency as RFC 8219 7.2 has it: typical and worst case, from tagged frames.
pub(super) fn tagged_latency(
    site: &mut Site,
    args: &Search,
    rate: f64,
    found: &mut Found,
) -> Result<(), Error> {
    let trials = trials(args, Look::Tagged);
    site.begin("latency");
    let (mut latencies, mut load) = (Vec::new(), Load::new(site.origin));
    let mut paced = Paced::default();
    let each = |detail: Detail, tagged: Delays| {
        paced.add(&detail);
        latencies.push(delay::latency(&tagged.received()));
        load.carried.add(&detail.outcome);
    };
    let fewest = trials.run(&mut site.station, rate, each)?;
    let latencies: Vec<Latency> = latencies.into_iter().flatten().collect();
    let how = How { trials: latencies.len(), ..how(site, trials.how(rate, fewest)) };
    let typical: Vec<f64> = latencies.iter().map(|latency| latency.typical_ns / 1e3).collect();
    found.deviate(&delay::latency_ledger(&how).of("RFC 8219"));
    let at = (&["RFC 8219 7.2"][..], &load);
    if tagged_average(found, "latency", &typical, trials.count).is_none() {
        paced.note(site, found);
        at_load(site, found, "latency", &["response_us.", "lateness_us."], at);
        return Ok(());
    }
    let worst = latencies.iter().map(|latency| latency.worst_ns / 1e3).collect();
    let typical = varied(found, &site.name("latency_us.typical"), typical);
    let worst = varied(found, &site.name("latency_us.worst"), worst);
    found.text += &format!("             latency, us: typical {typical}, worst case {worst}\n");
    paced.note(site, found);
    at_load(site, found, "latency", &["latency_us.", "response_us.", "lateness_us."], at);
    Ok(())
}

/// Delay variation as RFC 8219 7.3 has it: PDV and IPDV, from every frame.
pub(super) fn variation(site: &mut Site, args: &Search, rate: f64, found: &mut Found) -> Result<(), Error> {
    let trials = trials(args, Look::All { senders: site.senders });
    let mut pdvs = Vec::new();
    let mut ipdvs: [(&str, Vec<f64>); 4] = ["min", "median", "max", "mean_absolute"].map(|n| (n, Vec::new()));
    let (mut variations, mut load) = (Vec::new(), Load::new(site.origin));
    let each = |detail: Detail, delays: Delays| {
        load.carried.add(&detail.outcome);
        let pdv = delay::pdv_ns(&delays.received(), delays.lost());
        variations.push((pdv, delay::ipdv(&delays.in_order())));
    };
    trials.run(&mut site.station, rate, each)?;
    let is_finite = |variation: &(Option<f64>, Option<delay::Ipdv>)| variation.0.is_some_and(f64::is_finite);
    let ipdv = variations.iter().all(|(pdv, ipdv)| pdv.is_some() && ipdv.is_some());
    let pdv = ipdv && variations.iter().all(is_finite);
    found.deviate(&delay::variation_ledger(&how(site, trials.how(rate, 0)), Told { pdv, ipdv }));
    let told = variations.len();
    for (pdv, ipdv) in variations.into_iter().filter_map(|(pdv, ipdv)| pdv.zip(ipdv)) {
        pdvs.push(pdv / 1e3);
        let values = [ipdv.min_ns, ipdv.median_ns, ipdv.max_ns, ipdv.mean_absolute_ns];
        ipdvs.iter_mut().zip(values).for_each(|((_, runs), ns)| runs.push(ns / 1e3));
    }
    if pdvs.len() < told {
        // A trial of which nothing is known would be left out of what all are to say together.
        let why = "delay variation: in some trials no two successive frames arrived: is the rate too high?";
        found.unmeasured(why.to_owned());
        found.text += &format!("             {why}\n");
        at_load(site, found, "variation", &[], (&["RFC 8219 7.3.1", "RFC 8219 7.3.2"], &load));
        return Ok(());
    }
    // Where more than one frame in a thousand is lost, there is no finite value, and JSON has no other.
    let finite = pdvs.iter().all(|pdv| pdv.is_finite());
    let mut text = if finite {
        let pdv = varied(found, &site.name("pdv_us"), pdvs);
        format!("             delay variation, us: PDV {pdv}; IPDV")
    } else {
        "             delay variation, us: no PDV (more than 0.1 % of the frames was lost); IPDV".to_owned()
    };
    for (name, runs) in ipdvs {
        let told = varied(found, &site.name(&format!("ipdv_us.{name}")), runs);
        text += &format!(" {} {told}", name.replace('_', " "));
    }
    found.text += &text;
    found.text += "\n";
    at_load(
        site,
        found,
        "variation",
        &["pdv_us", "ipdv_us."],
        (&["RFC 8219 7.3.1", "RFC 8219 7.3.2"], &load),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_without_tagged_frames_have_no_part_in_the_average() {
        let mut found = Found::of_size(64);
        assert_eq!(tagged_average(&mut found, "latency", &[2.0, 4.0], 2), Some(3.0));
        assert!(found.text.is_empty() && found.invalid.is_empty());
        assert_eq!(tagged_average(&mut found, "latency", &[2.0, 4.0], 5), Some(3.0));
        assert!(found.text.contains("in 3 of 5 trials no tagged frame arrived") && found.invalid.is_empty());
        assert_eq!(tagged_average(&mut found, "latency", &[], 5), None);
        assert_eq!(found.invalid.len(), 1);
    }
}
