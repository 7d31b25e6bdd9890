// SPDX-License-Identifier: MIT OR Apache-2.0
//! What procedures find whose loss has its time: recovery from overload, resets, and soaks, in names and in words.

use tester::search::stream::Bin;
use tester::search::{recovery, reset, soak};

use super::procedures::{mean, quantity};
use super::record::{BinRow, Curve, Found};
use super::reset as resetting;
use super::search::{Profile, Search, Site, mpps};
use crate::Error;
use report::{Axis, Scale};

/// How long loss goes on after an overload (RFC 2544 26.5).
pub(super) fn recovery(
    site: &mut Site,
    args: &Search,
    throughput: f64,
    found: &mut Found,
) -> Result<(), Error> {
    let parameters = match args.profile {
        Profile::Rfc => recovery::Parameters::rfc(site.rate_max, throughput),
        Profile::Quick => recovery::Parameters::quick(site.rate_max, throughput),
    };
    let mut parameters =
        recovery::Parameters { is_medium: site.is_medium, origin: site.origin, ..parameters };
    if let Some(time) = args.trial {
        (parameters.overload, parameters.watch, parameters.quiet) = (time, time, time / 5);
    }
    parameters.repeats = args.repeats();
    site.begin("recovery");
    let report = recovery::run(&mut site.station, &parameters)?;
    let times: Option<Vec<f64>> =
        report.recoveries.iter().map(|r| Some(r.time?.as_secs_f64() * 1e3)).collect();
    let overloaded = report.recoveries.iter().all(|recovery| recovery.overloaded);
    let kept_up = report.recoveries.iter().all(|recovery| recovery.timeline.tester_kept_up());
    let rate = parameters.overload_rate() / 1e6;
    let recovered = times.is_some();
    let text = match times {
        // What lost nothing has nothing to recover from, and took no time for it.
        _ if !overloaded => {
            let tester = match () {
                () if !kept_up => ", of which the tester did not send all",
                () if parameters.is_less() => ", the most that the tester reaches",
                () => "",
            };
            format!("not measured: nothing was lost at {rate:.4} Mpps{tester}, which is no overload")
        }
        None => {
            let watched = parameters.watch.as_secs_f64();
            format!("not measured: {watched} s after the overload ended frames were still lost")
        }
        Some(times) => {
            let average = mean(&times);
            quantity(found, site.name("recovery_ms"), "ms", times);
            found.note(site.name("recovery_ms.average"), "ms", average);
            let in_lumps = report.recoveries.iter().any(recovery::Recovery::is_doubtful);
            if !kept_up || in_lumps {
                found.limited(&site.begins("recovery_ms"));
            }
            let tester = match (kept_up, in_lumps) {
                (false, _) => "  (the tester could not offer all of the overload)",
                (true, true) => {
                    "  (the tester sent as many frames in lumps as were lost after it: it may be less)"
                }
                (true, false) => "",
            };
            format!("{average:.3} ms on average{tester}")
        }
    };
    if !overloaded || !recovered {
        found.unmeasured(format!("recovery from overload: {text}"));
    }
    found.text += &format!("             recovery from overload: {text}\n");
    found.deviate(&report.ledger);
    Ok(())
}

/// How long forwarding stops for a reset (RFC 2544 26.6, RFC 6201).
pub(super) fn reset(
    site: &mut Site,
    args: &Search,
    how: &resetting::Method,
    rate: f64,
    found: &mut Found,
) -> Result<(), Error> {
    let kind = how.kind();
    let parameters = match args.profile {
        Profile::Rfc => reset::Parameters::rfc(kind, rate),
        Profile::Quick => reset::Parameters::quick(kind, rate),
    };
    let (sending_ports, repeats) = (site.senders as u32, args.repeats());
    let least_size = site.station.plan().smallest();
    let (origin, size, linked) = (site.origin, site.size, site.is_medium);
    let mut parameters =
        reset::Parameters { origin, size, least_size, linked, sending_ports, repeats, ..parameters };
    if let Some(time) = args.trial {
        (parameters.before, parameters.after) = (time, time);
    }
    site.begin("reset");
    let report = {
        let mut reset = how.of(site.running.as_mut())?;
        reset::run(&mut site.station.resets(&mut *reset), &parameters)?
    };
    // Frames and bits of all ports that send (RFC 6201 1.4).
    let offered = rate * sending_ports as f64;
    let bits = offered * 8.0 * size as f64 / 1e6;
    let mut text = format!("             {kind} at {} Mpps, {bits:.3} Mbit/s:", mpps(offered));
    for (method, times) in [
        ("by_loss", report.outages.iter().map(|o| o.by_loss).collect::<Option<Vec<_>>>()),
        ("by_timestamps", report.outages.iter().map(|o| o.by_timestamps).collect()),
    ] {
        let words = method.replace('_', " ");
        match times {
            None => {
                let within = parameters.after.as_secs_f64();
                text += &format!("  {words}: forwarding did not come back within {within} s");
                found.unmeasured(format!("{kind}, {words}: forwarding did not come back within {within} s"));
            }
            Some(times) => {
                let times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
                text += &format!("  {words} {:.3} ms", mean(&times));
                quantity(found, site.name(&format!("reset_ms.{method}")), "ms", times);
            }
        }
    }
    // While forwarding has not come back, what is lost says how long was watched.
    if report.outages.iter().all(reset::Outage::recovered) {
        let lost = report.outages.iter().map(|outage| outage.lost as f64).collect();
        quantity(found, site.name("reset_lost_frames"), "frames", lost);
        let interruptions = report.outages.iter().map(|outage| outage.interruptions as f64).collect();
        let interruptions = quantity(found, site.name("reset_interruptions"), "", interruptions);
        text += &format!(", interruptions {interruptions}");
    }
    let kept_up = report.outages.iter().all(|outage| outage.timeline.tester_kept_up());
    let in_lumps = report.outages.iter().any(reset::Outage::is_doubtful);
    if !kept_up {
        text += "  (the tester could not offer the rate: what it did not send is not known to be lost)";
    } else if in_lumps {
        text += "  (the tester sent as many frames in lumps as were lost: that may be why)";
    }
    if !kept_up || in_lumps {
        found.limited(&site.begins("reset_"));
    }
    found.text += &format!("{text}\n");
    found.deviate(&report.ledger);
    Ok(())
}

/// Loss over a long time.
pub(super) fn soak(site: &mut Site, parameters: &soak::Parameters, found: &mut Found) -> Result<(), Error> {
    site.begin("soak");
    let report = soak::run(&mut site.station, parameters)?;
    let size = site.size;
    let ratio = |bin: &Bin| bin.lost as f64 / bin.sent.max(1) as f64;
    let Bin { intended, sent, lost } = report.total;
    let mut note = |what: &str, unit, value| found.note(site.name(what), unit, value);
    note("sent_frames", "frames", sent as f64);
    note("lost_frames", "frames", lost as f64);
    note("loss_share", "", report.loss_ratio());
    note("unsent_share", "", intended.saturating_sub(sent) as f64 / intended.max(1) as f64);
    note("bins", "", report.timeline.bins.len() as f64);
    note("bins_with_loss", "", report.bins_with_loss as f64);
    note("longest_clean_s", "s", report.longest_clean.as_secs_f64());
    let bin_s = report.timeline.bin.as_secs_f64();
    let mut text = format!(
        "{size:>6} bytes  lost {lost} of {sent} frames ({:.7} %), in {} of {} bins of {bin_s} s\n",
        100.0 * report.loss_ratio(),
        report.bins_with_loss,
        report.timeline.bins.len()
    );
    note("worst_bin_loss_share", "", report.worst.map_or(0.0, |(_, worst)| ratio(&worst)));
    if let (Some((index, worst)), Some(first)) = (report.worst, report.first_loss) {
        note("first_loss_s", "s", first.as_secs_f64());
        text += &format!(
            "             first at {:.1} s; worst at {:.1} s: {} of {}; longest without loss {:.1} s\n",
            first.as_secs_f64(),
            index as f64 * bin_s,
            worst.lost,
            worst.sent,
            report.longest_clean.as_secs_f64()
        );
    }
    if report.bins_unsent > 0 {
        text += &format!(
            "             the tester did not keep up in {} bins: what was lost there may be its fault\n",
            report.bins_unsent
        );
        found.limited(&format!("test.{}", site.prefix("soak")));
    }
    if report.timeline.is_doubtful(lost) {
        text += &format!(
            "             {} frames left the tester in lumps: what was lost may be its fault\n",
            report.timeline.late
        );
    }
    if report.bins_unsent > 0 || report.timeline.is_doubtful(lost) {
        for what in ["lost_", "loss_", "bins_", "worst_", "first_"] {
            found.limited(&site.begins(what));
        }
    }
    let mut points = Vec::new();
    for (index, bin) in report.timeline.bins.iter().enumerate() {
        let start_s = index as f64 * bin_s;
        points.push((start_s, 100.0 * ratio(bin)));
        if bin.lost > 0 {
            found.bins.push(BinRow { size, start_s, sent: bin.sent, lost: bin.lost });
        }
    }
    found.draw(Curve {
        name: "Loss over time".to_owned(),
        size: Some(size),
        x: Axis::new("s", Scale::Linear),
        y: Axis::new("frames lost, %", Scale::Linear),
        points,
    });
    found.text += &text;
    Ok(())
}
