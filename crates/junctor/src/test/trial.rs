// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test trial`: one rate for one time, and all that became of the frames.

use std::time::Duration;

use serde_json::json;
use tester::station::Detail;
use tester::trial::Trial;

use super::device::Plugged;
use super::{Cable, Common, SHARED_CORE, calibrate};
use crate::cli;
use crate::measure::{self, Measured};

/// Send at one rate, and tell what became of the frames.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "What is told (names begin with test.):
  sent_mpps, received_mpps       frames sent and received by all ports, millions a second
  unsent_share                   of the frames that the schedule held, those that the tester did not send: its fault, no loss
  loss_share                     of the frames sent, those that did not arrive
  reordered, duplicates, stale, misrouted, damaged, foreign
                                 frames: overtaken in their flow; arrived twice; too late to tell; at a wrong port;
                                 with a wrong checksum; not the tester's
  latency_us.min, p50 ... max       from a frame's departure to its arrival
  response_us.min, p50 ... max      from when it was due: what a user sees who sends on time
  lateness_us.min, p50 ... max      how late frames left the tester: its own error
  cable.mpps, cable.latency_us.p50
                                 what the tester reaches on a cable, measured before

Examples:
  junctor test trial self:conf/ip-router.click --rate 1M
  junctor test trial cable --rate 10M --time 2 --json")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Frame size in bytes, with the 4 of the FCS.
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    size: usize,
    /// Frames a second that each sending port offers; k and M may follow the number.
    #[arg(long, value_name = "RATE", default_value = "100k", value_parser = super::rate)]
    rate: f64,
    /// For how many seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = super::seconds)]
    time: Duration,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    match run(args) {
        Ok(report) => cli::print_or_fail(report.as_bytes()),
        Err(why) => cli::fail(why),
    }
}

fn run(args: &Args) -> Result<String, String> {
    let size = args.common.modifiers.average_size().unwrap_or(args.size);
    let cable = calibrate(&args.common, size)?;
    let mut plugged = args.common.plug(size)?;
    let detail = plugged.station.run(Trial::new(args.rate, args.time)).map_err(|why| why.to_string())?;
    if !args.common.json {
        return Ok(text(args, size, &plugged, &detail, &cable));
    }
    let conditions = json!({
        "device": args.common.device.to_string(), "size": size, "rate": args.rate, "seconds": args.time.as_secs_f64(),
        "senders": plugged.senders, "own_core": plugged.own_core, "left_out": plugged.station.left_out(), "workers": args.common.workers, "seed": args.common.seed,
        "modifiers": args.common.modifiers.json(),
    });
    let mut results = results(&detail);
    results.push(Measured::new("test.cable.mpps", "Mpps", vec![cable.rate / 1e6]));
    results.push(Measured::new("test.cable.latency_us.p50", "us", vec![cable.latency_ns as f64 / 1e3]));
    Ok(format!("{}\n", measure::object("test trial", &conditions, &results)))
}

/// Quantiles that are told.
const QUANTILES: [(&str, f64); 6] =
    [("min", 0.0), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// For people.
fn text(args: &Args, size: usize, plugged: &Plugged, detail: &Detail, cable: &Cable) -> String {
    let Detail { outcome, counts, damaged, foreign, latency, response, lateness } = detail;
    let device = &args.common.device;
    let each = match plugged.senders {
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
    line("lost", outcome.lost(), format!("{:.6} % of those sent", 100.0 * outcome.loss_ratio()));
    for (what, frames, note) in [
        ("unsent", outcome.unsent(), "the tester's fault"),
        ("reordered", counts.reordered, "overtaken in their flow"),
        ("duplicates", counts.duplicates, ""),
        ("stale", counts.stale, "too late to tell from duplicates"),
        ("misrouted", counts.misrouted, "at a wrong port"),
        ("damaged", *damaged, "wrong checksum, or of a trial before"),
        ("foreign", *foreign, "not the tester's"),
    ] {
        if frames > 0 {
            line(what, frames, note.to_owned());
        }
    }
    text += &format!("  {:<12}", "microseconds");
    QUANTILES.iter().for_each(|(name, _)| text += &format!(" {name:>10}"));
    for (what, histogram) in [("latency", latency), ("response", response), ("lateness", lateness)] {
        text += &format!("\n  {what:<12}");
        let values = QUANTILES.map(|(_, q)| histogram.value_at_quantile(q) as f64 / 1e3);
        values.iter().for_each(|us| text += &format!(" {us:>10.1}"));
    }
    text += &format!(
        "\n  The tester alone, on a cable: {:.3} Mpps, {:.1} us.\n",
        cable.rate / 1e6,
        cable.latency_ns as f64 / 1e3
    );
    text += &super::left_out(&plugged.station.left_out());
    if !plugged.own_core {
        text += SHARED_CORE;
    }
    if !outcome.tester_kept_up() {
        text += "  The tester did not keep up with this rate: what the device could do is not known. Ask for less.\n";
    }
    text
}

fn results(detail: &Detail) -> Vec<Measured> {
    let Detail { outcome, counts, damaged, foreign, latency, response, lateness } = detail;
    let one = |name: &str, unit, value: f64| Measured::new(format!("test.{name}"), unit, vec![value]);
    let rate = |frames: u64| frames as f64 / outcome.duration.as_secs_f64() / 1e6;
    let mut all = vec![
        one("sent_mpps", "Mpps", rate(outcome.sent)),
        one("received_mpps", "Mpps", rate(outcome.received)),
        one("unsent_share", "", outcome.unsent() as f64 / outcome.intended.max(1) as f64),
        one("loss_share", "", outcome.loss_ratio()),
        one("reordered", "frames", counts.reordered as f64),
        one("duplicates", "frames", counts.duplicates as f64),
        one("stale", "frames", counts.stale as f64),
        one("misrouted", "frames", counts.misrouted as f64),
        one("damaged", "frames", *damaged as f64),
        one("foreign", "frames", *foreign as f64),
    ];
    for (name, histogram) in [("latency_us", latency), ("response_us", response), ("lateness_us", lateness)] {
        for (quantile, q) in QUANTILES {
            let ns = histogram.value_at_quantile(q);
            all.push(one(&format!("{name}.{quantile}"), "us", ns as f64 / 1e3));
        }
    }
    all
}
