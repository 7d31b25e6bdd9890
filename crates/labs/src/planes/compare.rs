// SPDX-License-Identifier: MIT OR Apache-2.0
//! The study's findings, and which of them this machine shows.

use super::super::shared::Setting;
use super::super::study::{Cell, Origin, Section, Table, digits};
use super::measure::{Found, LOAD_PAYLOAD};
use super::subject::{Device, Placement, Subject};
use report::measure::Measured;

/// Rates that differ by less count as equal.
const EQUAL: f64 = 0.1;
/// Payload from which on the study's placements route alike, and from which on its passthrough is no longer far slower.
const ALIKE: usize = 564;
const LARGE: usize = 1064;

/// What is to be said of a finding: what was measured, and whether it agrees. None if it was not measured.
type Verdict = Option<(String, bool)>;

/// A finding of the study, and how it is looked for here.
struct Finding {
    says: &'static str,
    here: fn(&[Found]) -> Verdict,
}

const FINDINGS: [Finding; 6] = [
    Finding {
        says: "Kernel routing: AMP forwards fewer packets than SMP with payloads below about 564 bytes, and as many above.",
        here: short_payloads,
    },
    Finding {
        says: "Kernel routing: management load costs throughput under AMP, and none under SMP.",
        here: routing_and_requests,
    },
    Finding {
        says: "User passthrough is far slower than kernel routing with payloads below 1064 bytes, under SMP and AMP.",
        here: passthrough_is_slower,
    },
    Finding {
        says: "User passthrough with large payloads: SMP nearly fills 1 Gb/s, AMP saturates near 600 Mb/s.",
        here: large_payloads,
    },
    Finding {
        says: "User passthrough under AMP: management requests slow the user plane, although each has its own core.",
        here: passthrough_and_requests,
    },
    Finding {
        says: "Responses of the management plane under SMP suffer from user-plane load, most from user-space processing; some time out after 60 s.",
        here: responses,
    },
];

/// The section, and a sentence for each finding that was looked for.
pub(super) fn section(setting: &mut Setting<'_>, all: &[Found]) -> Section {
    let columns = [("the study", Origin::Published), ("here", Origin::Measured), ("the same?", Origin::Name)];
    let mut table = Table::new("The study's findings and this machine's", &columns);
    let mut short = Vec::new();
    for Finding { says, here } in FINDINGS {
        let [measured, verdict] = match here(all) {
            Some((measured, agrees)) => {
                let verdict = if agrees { "yes" } else { "no" };
                short.push(if agrees { "yes" } else { "no" });
                [Cell::new(measured), Cell::new(verdict)]
            }
            None => [Cell::missing("not measured"), Cell::missing("-")],
        };
        table.row(vec![Cell::new(says), measured, verdict]);
    }
    if !short.is_empty() {
        let same = short.iter().filter(|verdict| **verdict == "yes").count();
        setting.find(format!(
            "Of the study's {} findings that were looked for, this machine shows {same}; the first table has them.",
            short.len()
        ));
    }
    let text = format!(
        "Rates are those that arrive when more is sent, as the study has them. Those that differ by less than {:.0} % count as equal. AMP is that of processes. What shares a core here and did not there stands in the rows of the tables below: on two cores, the tester is in management's place.",
        100.0 * EQUAL
    );
    Section {
        title: "What the study found".into(),
        text: vec![text],
        tables: vec![table],
        ..Section::default()
    }
}

fn of(all: &[Found], device: Device, placement: Placement) -> Option<&Found> {
    all.iter().find(|found| found.subject == Subject { device, placement } && found.why_not.is_none())
}

fn kpps(found: &Found, payload: usize, asked: bool) -> Option<f64> {
    let rates = found.rates(payload, asked)?;
    Some(Measured::new("", "", rates.forwarded.kpps.clone()).median()).filter(|kpps| *kpps > 0.0)
}

/// Rates of one over another, by payload.
fn ratios(over: (&Found, bool), under: (&Found, bool)) -> Vec<(usize, f64)> {
    let ratio = |(payload, _): &(usize, _)| {
        Some((*payload, kpps(over.0, *payload, over.1)? / kpps(under.0, *payload, under.1)?))
    };
    over.0.throughput.iter().filter_map(ratio).collect()
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| Measured::new("", "", values).median())
}

fn is_less(ratio: f64) -> bool {
    ratio < 1.0 - EQUAL
}

fn is_equal(ratio: f64) -> bool {
    (ratio - 1.0).abs() <= EQUAL
}

fn short_payloads(all: &[Found]) -> Verdict {
    let [smp, amp] = [Placement::Smp, Placement::Process].map(|placement| of(all, Device::Kernel, placement));
    let ratios = ratios((amp?, false), (smp?, false));
    let part =
        |long: bool| median(ratios.iter().filter(|(p, _)| (*p >= ALIKE) == long).map(|(_, ratio)| *ratio));
    let (short, long) = (part(false)?, part(true)?);
    let measured = format!(
        "AMP forwards {} times what SMP does with payloads below {ALIKE} bytes, and {} times from there on.",
        digits(short),
        digits(long)
    );
    Some((measured, is_less(short) && is_equal(long)))
}

/// What requests leave of the throughput in both placements.
fn left(all: &[Found], device: Device) -> Option<(f64, f64)> {
    let left = |placement| {
        let found = of(all, device, placement)?;
        median(ratios((found, true), (found, false)).into_iter().map(|(_, ratio)| ratio))
    };
    Some((left(Placement::Smp)?, left(Placement::Process)?))
}

fn left_in_words((smp, amp): (f64, f64)) -> String {
    format!(
        "with requests, {:.0} % of the rate is left under SMP and {:.0} % under AMP (medians over payloads).",
        100.0 * smp,
        100.0 * amp
    )
}

fn routing_and_requests(all: &[Found]) -> Verdict {
    let left = left(all, Device::Kernel)?;
    Some((left_in_words(left), !is_less(left.0) && is_less(left.1)))
}

fn passthrough_and_requests(all: &[Found]) -> Verdict {
    let left = left(all, Device::Passthrough)?;
    Some((left_in_words(left), is_less(left.1)))
}

fn passthrough_is_slower(all: &[Found]) -> Verdict {
    let share = |placement| {
        let (user, kernel) = (of(all, Device::Passthrough, placement)?, of(all, Device::Kernel, placement)?);
        let ratios = ratios((user, false), (kernel, false));
        median(ratios.into_iter().filter(|(payload, _)| *payload < LARGE).map(|(_, ratio)| ratio))
    };
    let (smp, amp) = (share(Placement::Smp)?, share(Placement::Process)?);
    let measured = format!(
        "below {LARGE} bytes it forwards {:.0} % of what the kernel routes under SMP, and {:.0} % under AMP.",
        100.0 * smp,
        100.0 * amp
    );
    // Far: less than two thirds.
    Some((measured, smp < 0.67 && amp < 0.67))
}

fn large_payloads(all: &[Found]) -> Verdict {
    let [smp, amp] =
        [Placement::Smp, Placement::Process].map(|placement| of(all, Device::Passthrough, placement));
    let (smp, amp) = (smp?, amp?);
    let payload = smp.throughput.iter().map(|(payload, _)| *payload).max()?;
    let mbps = |found| Some(kpps(found, payload, false)? * payload as f64 * 8.0 / 1e3);
    let (one, other) = (mbps(smp)?, mbps(amp)?);
    let measured = format!(
        "with payloads of {payload} bytes SMP forwards {} Mbit/s, and AMP {} Mbit/s; no wire of 1 Gb/s sets a limit.",
        digits(one),
        digits(other)
    );
    Some((measured, is_less(other / one)))
}

fn responses(all: &[Found]) -> Verdict {
    let times = |device| {
        let found = of(all, device, Placement::Smp)?;
        let idle = median(found.response.idle.took_ms.iter().copied())?;
        Some((median(found.response.asked.took_ms.iter().copied())? / idle, found.response.asked.timeouts))
    };
    let (kernel, user) = (times(Device::Kernel)?, times(Device::Passthrough)?);
    let measured = format!(
        "under SMP a request takes {} times as long beside kernel routing and {} times beside the passthrough, at payloads of {LOAD_PAYLOAD} bytes; {} timed out.",
        digits(kernel.0),
        digits(user.0),
        kernel.1 + user.1
    );
    Some((measured, user.0 > kernel.0 && user.0 > 1.0 + EQUAL))
}

#[cfg(test)]
mod tests {
    use super::super::measure::{Pair, Rate, Rates};
    use super::*;

    fn found(device: Device, placement: Placement, rates: &[(usize, f64, f64)]) -> Found {
        let rate = |kpps: f64| {
            let rate = Rate { kpps: vec![kpps], testers_limit: false };
            Rates { lossless: rate.clone(), forwarded: rate }
        };
        let mut found = Found::new(Subject { device, placement });
        let pair = |idle, asked| Pair { idle: rate(idle), asked: rate(asked) };
        found.throughput =
            rates.iter().map(|(payload, idle, asked)| (*payload, pair(*idle, *asked))).collect();
        found.response.idle.took_ms = vec![10.0];
        found.response.asked.took_ms = vec![if device == Device::Kernel { 12.0 } else { 30.0 }];
        found
    }

    /// Figures as the study describes them.
    fn study() -> Vec<Found> {
        vec![
            found(Device::Kernel, Placement::Smp, &[(64, 100.0, 100.0), (1064, 50.0, 50.0)]),
            found(Device::Kernel, Placement::Process, &[(64, 60.0, 40.0), (1064, 50.0, 40.0)]),
            found(Device::Passthrough, Placement::Smp, &[(64, 20.0, 20.0), (1064, 45.0, 45.0)]),
            found(Device::Passthrough, Placement::Process, &[(64, 15.0, 9.0), (1064, 30.0, 20.0)]),
        ]
    }

    #[test]
    fn what_the_study_found_is_recognised() {
        let all = study();
        for Finding { says, here } in FINDINGS {
            assert!(here(&all).expect("measured").1, "{says}");
        }
        assert!(short_payloads(&all).expect("measured").0.starts_with("AMP forwards 0.60 times"));
        assert!(responses(&all).expect("measured").0.contains("3.00 times beside the passthrough"));
    }

    #[test]
    fn the_opposite_is_too_and_what_is_missing_is_said() {
        let mut all = study();
        for found in &mut all {
            found.subject.placement =
                if found.subject.placement == Placement::Smp { Placement::Process } else { Placement::Smp };
        }
        assert!(!short_payloads(&all).expect("measured").1);
        assert!(!routing_and_requests(&all).expect("measured").1);
        assert!(!large_payloads(&all).expect("measured").1);
        all[1].why_not = Some("1 core here".into());
        assert!(short_payloads(&all).is_none());
        let common = super::super::super::Common::quick();
        let mut setting = Setting::new(&common).expect("a setting");
        let table = &section(&mut setting, &all).tables[0];
        assert_eq!(table.rows[0][1].text, "not measured");
        assert_eq!(table.rows.len(), FINDINGS.len());
    }
}
