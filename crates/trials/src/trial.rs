// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test trial`: one rate for one time, and all that became of the frames.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::json;
use tester::search::medium;
use tester::station::{Detail, Verdict, Verdicts};
use tester::trial::Trial;

use super::agent::Reading;
use super::log::{gather, latency_curve};
use super::quantiles::{QUANTILES, TOO_FEW, cell};
use super::record::{Cause, Found, Record};
use super::variant::Scene;
use super::{Common, Facts, Failure, SHARED_CORE, calibrate, interrupt};
use crate::Error;

/// Send at one rate, and tell what became of the frames.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What all tests need to know.
    pub common: Common,
    /// Frame size in bytes, with the 4 of the FCS; the least of the flows' family without it.
    pub size: Option<usize>,
    /// Frames a second that each sending port offers.
    pub rate: f64,
    /// For how long.
    pub time: Duration,
    /// Bits a second of the links, which must carry that rate; the interfaces' speed without it.
    pub link: Option<f64>,
    /// How often.
    pub repeat: u16,
}

impl Settings {
    /// The least for the flows' family, unless another was asked for.
    fn size(&self) -> usize {
        self.size.unwrap_or(if self.common.ipv6 { 84 } else { 64 })
    }
}

/// Carries out the trials, prints what they found, and writes the files.
pub(super) fn run(args: &Settings) -> Result<(), Failure> {
    args.common.check_workers().and_then(|()| args.common.output.prepare())?;
    interrupt::heed()?;
    let causes = match measure(args) {
        Ok((record, text, failed)) => {
            let json = record.json();
            let mut causes = args.common.output.publish(&[record], &text, &json);
            causes.extend(failed);
            causes
        }
        Err(why) => vec![interrupt::came().map_or_else(|| why.to_string(), interrupt::cause)],
    };
    match interrupt::came() {
        Some(signal) => Err(Failure::Interrupted { signal, causes }),
        None => Failure::unless_empty(causes),
    }
}

/// Carries them out. If one comes to nothing, those before it are reported, and why.
fn measure(args: &Settings) -> Result<(Record, String, Option<String>), Error> {
    let modifiers = &args.common.modifiers;
    if modifiers.each() {
        return Err(Error::setting(
            "--each-modifier is for procedures; --beside and --filters choose a trial's",
        ));
    }
    if !modifiers.bursts().is_empty() {
        return Err(Error::setting("--bursts is for procedures; --burst chooses a trial's"));
    }
    let size = modifiers.average_size().unwrap_or(args.size());
    let mut found = Found::of_size(size);
    let cable = calibrate(&args.common, size)?;
    let mut plugged = args.common.plug(size)?;
    if let Some(bits) = args.link.map(|bits| bits as u64).or(plugged.link_bits) {
        let most = medium::ethernet_frames_per_s(bits, size as u64);
        if args.rate > most {
            return Err(Error::setting(format!(
                "--rate {}: a link of {bits} bits a second carries {most:.0} frames of {} bytes a second at most",
                args.rate, size
            )));
        }
    }
    let variant = modifiers.variants().pop();
    let given = plugged.station.plan().clone();
    let begun = variant.map(|variant| {
        variant.begin(&mut Scene {
            station: &mut plugged.station,
            routing: &plugged.routing,
            filtering: &plugged.filtering,
            filter_command: modifiers.filter_command(),
            running: plugged.running.as_mut(),
            bridged: plugged.bridged,
            is_optional: false,
            filtered: false,
            given: &given,
            seed: args.common.seed,
            warm_up: args.common.warm_up,
        })
    });
    let begun = begun.transpose()?.unwrap_or_default();
    plugged.notes.extend(begun.needs);
    plugged.notes.extend(modifiers.missing(&plugged.station).map(str::to_owned));
    let beside = args.common.modifiers.sent_beside(&plugged.station);
    let mut facts = Facts { beside, ..Facts::of(&plugged, &cable) };
    if let Some(filtered) = begun.filters {
        plugged.notes.push(format!("Filters {}.", filtered.seen.words()));
        facts.notes.clone_from(&plugged.notes);
        facts.filters.push(filtered);
    }
    let log = args.common.keep(&mut plugged.station, size, false)?;
    log.begin("trial");
    log.ask_for_all();
    let (mut text, mut failed) = (String::new(), None);
    let mut latency: Option<Histogram<u64>> = None;
    for _ in 0..args.repeat {
        let trial = Trial::new(args.rate, args.time);
        let detail = match plugged.station.run(trial) {
            Ok(detail) => detail,
            Err(why) => {
                let cause = interrupt::came().map_or_else(|| why.to_string(), interrupt::cause);
                found.invalid.push(Cause { size: Some(size), cause: cause.clone() });
                failed = Some(cause);
                break;
            }
        };
        text += &self::text(args, size, &facts, &detail);
        results(&detail, &mut found);
        if !detail.outcome.tester_kept_up() {
            // The device might have forwarded the rest, too.
            found.bound("test.received_mpps");
        }
        if !detail.outcome.is_of_device() {
            OF_THE_DEVICE.iter().for_each(|name| found.limited(&format!("test.{name}")));
        }
        for reading in log.readings() {
            text += &machine_text(&reading);
            reading.counted.into_iter().for_each(|q| found.note(q.name.clone(), q.unit, q.median()));
        }
        gather(&mut latency, detail.latency);
    }
    found.curves.extend(latency.map(|all| latency_curve("Latency", size, &all)));
    found.trials = log.take();
    found.unsent();
    let tried = found.tried(&[size]);
    found.note("test.cable.mpps".to_owned(), "Mpps", cable.rate / 1e6);
    found.note("test.cable.latency_us.p50".to_owned(), "us", cable.latency_ns as f64 / 1e3);
    text += &facts.beside(&mut found);
    found.deviate(&args.common.asked(&tried, args.link.is_some(), Duration::ZERO, &facts));
    let mut conditions = args.common.conditions(&facts);
    conditions.insert("size".to_owned(), json!(size));
    conditions.insert("rate".to_owned(), json!(args.rate));
    let link = args.link.or(facts.link_bits.map(|bits| bits as f64));
    conditions.insert("link".to_owned(), json!(link));
    conditions.insert("seconds".to_owned(), json!(args.time.as_secs_f64()));
    Ok((found.record("test trial", conditions), text, failed))
}

/// What a trial says of the device: nothing where it was sent another load than was asked for.
const OF_THE_DEVICE: [&str; 10] = [
    "loss_share",
    "vanished_share",
    "latency_us",
    "response_us",
    "reordered",
    "gaps",
    "duplicates",
    "stale",
    "misrouted",
    "damaged",
];

/// Frames to which something unwanted happened, by the name of the result, and what is said of them.
fn kinds(detail: &Detail) -> [(&'static str, u64, &'static str); 10] {
    let Detail { counts, damaged, old, foreign, missed, beside_unsent, .. } = detail;
    [
        ("missed", *missed, "of these, left the tester, but were lost by its own ports on arrival"),
        ("reordered", counts.reordered, "overtaken in their flow"),
        ("gaps", counts.gaps, "before which numbers of their flow were passed over"),
        ("duplicates", counts.duplicates, ""),
        ("stale", counts.stale, "too late to tell from duplicates"),
        ("misrouted", counts.misrouted, "at a wrong port"),
        ("damaged", *damaged, "the tester's by ports or addresses, but not as they were sent"),
        ("old", *old, "of a trial before"),
        ("foreign", *foreign, "not the tester's"),
        ("beside_unsent", *beside_unsent, "the test's could not be sent: the tester's fault"),
    ]
}

/// Times by the beginning of the names of their results.
fn times(detail: &Detail) -> [(&'static str, &Histogram<u64>); 3] {
    [("latency", &detail.latency), ("response", &detail.response), ("lateness", &detail.lateness)]
}

/// For people.
fn text(args: &Settings, size: usize, facts: &Facts, detail: &Detail) -> String {
    let outcome = &detail.outcome;
    let device = &args.common.device;
    let each = match facts.senders {
        1 => "1 port".to_owned(),
        n => format!("each of {n} ports"),
    };
    let mut text = format!(
        "{device}: {size}-byte frames, {} a second from {each} for {} s\n",
        args.rate,
        args.time.as_secs_f64()
    );
    let rate = |frames: u64| frames as f64 / outcome.duration.as_secs_f64() / 1e6;
    let mut line = |what: &str, frames: u64, note: String| {
        text += &format!("  {what:<12} {frames:>12} frames  {note}\n");
    };
    line("sent", outcome.sent, format!("{:.3} Mpps", rate(outcome.sent)));
    line("received", outcome.received, format!("{:.3} Mpps", rate(outcome.received)));
    let wrong = match outcome.lost() - detail.vanished() {
        0 => String::new(),
        wrong => format!(", of which {wrong} came out elsewhere or damaged"),
    };
    line("lost", outcome.lost(), format!("{:.6} % of those sent{wrong}", 100.0 * outcome.loss_ratio()));
    let own = [
        ("unsent", outcome.unsent(), "the tester's fault"),
        ("late", outcome.late, "left the tester late, in lumps that a device may have no room for"),
    ];
    for (what, frames, note) in own.into_iter().chain(kinds(detail)).filter(|(_, frames, _)| *frames > 0) {
        line(what.trim_end_matches("_unsent"), frames, note.to_owned());
    }
    text += &flows(&detail.verdicts);
    text += &latencies(times(detail));
    text += &facts.built();
    text += &super::left_out(&facts.left_out);
    if !facts.own_core {
        text += SHARED_CORE;
    }
    if outcome.is_doubtful() {
        text += "  No more frames were lost than left the tester in lumps: whether the device loses them at an even rate is not known.\n";
    }
    if !outcome.tester_kept_up() {
        text += "  The tester did not keep up with this rate: what the device could do is not known. Ask for less.\n";
    }
    text
}

/// How many flows lost frames, and what became of the worst; nothing where all frames arrived once, in order, where they should.
fn flows(verdicts: &Verdicts) -> String {
    let Some(worst) = verdicts.worst.first() else { return String::new() };
    let Verdict { flow, sent, counts } = worst;
    let place = |address: IpAddr, port| SocketAddr::new(address, port);
    let faults = [
        ("lost", worst.lost()),
        ("misrouted", counts.misrouted),
        ("duplicates", counts.duplicates),
        ("stale", counts.stale),
        ("reordered", counts.reordered),
    ];
    let faults: Vec<String> =
        faults.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{what} {n}")).collect();
    format!(
        "  {} of {} flows lost frames; worst {} to {}, of {sent} frames: {}\n",
        verdicts.lossy,
        verdicts.flows,
        place(flow.src, flow.src_port),
        place(flow.dst, flow.dst_port),
        faults.join(", ")
    )
}

/// The latency of every frame, what a user sees who sends on time, and the tester's own lateness: a column for each of them that is
/// known, a line for each quantile.
fn latencies(of: [(&str, &Histogram<u64>); 3]) -> String {
    let columns: Vec<(&str, &Histogram<u64>)> = of.into_iter().filter(|(_, all)| !all.is_empty()).collect();
    if columns.is_empty() {
        return String::new();
    }
    let mut text = "  microseconds".to_owned();
    columns.iter().for_each(|(what, _)| text += &format!(" {what:>10}"));
    let mut too_few = false;
    for quantile in QUANTILES {
        text += &format!("\n  {:<12}", quantile.name);
        for (_, all) in &columns {
            let us = quantile.us(all);
            too_few |= us.is_none();
            text += &format!(" {:>10}", cell(us));
        }
    }
    text += "\n";
    if too_few {
        text += &format!("  {TOO_FEW}\n");
    }
    text
}

/// What a machine did meanwhile, for people.
fn machine_text(reading: &Reading) -> String {
    let sum = |kind: &str| -> f64 {
        let prefix = format!("gather.{}.{kind}", reading.machine);
        reading.counted.iter().filter(|q| q.name.starts_with(&prefix)).map(|q| q.median()).sum()
    };
    let [busy, softirq] = reading.busy.map(|share| 100.0 * share);
    format!(
        "  {}: its processors {busy:.1} % busy, of all their time {softirq:.1} % in softirqs; a second {:.0} interrupts, {:.0} softirqs, \
         {:.4} million packets received and {:.4} sent\n",
        reading.machine,
        sum("interrupts_per_s."),
        sum("softirqs_per_s."),
        sum("rx_mpps."),
        sum("tx_mpps.")
    )
}

fn results(detail: &Detail, found: &mut Found) {
    let outcome = &detail.outcome;
    let mut one = |name: &str, unit, value: f64| found.note(format!("test.{name}"), unit, value);
    let rate = |frames: u64| frames as f64 / outcome.duration.as_secs_f64() / 1e6;
    one("sent_mpps", "Mpps", rate(outcome.sent));
    one("received_mpps", "Mpps", rate(outcome.received));
    one("unsent_share", "", outcome.unsent() as f64 / outcome.intended.max(1) as f64);
    one("late_share", "", outcome.late as f64 / outcome.intended.max(1) as f64);
    one("loss_share", "", outcome.loss_ratio());
    one("vanished_share", "", detail.vanished() as f64 / outcome.sent.max(1) as f64);
    kinds(detail).iter().for_each(|(name, frames, _)| one(name, "frames", *frames as f64));
    for (name, histogram) in times(detail) {
        // Of what did not arrive, or whose clock is another's, nothing is known; and of few frames no far quantile.
        let known = QUANTILES.iter().filter_map(|quantile| Some((quantile, quantile.us(histogram)?)));
        for (quantile, us) in known.filter(|_| !histogram.is_empty()) {
            one(&format!("{name}_us.{}", quantile.name), "us", us);
        }
    }
}
