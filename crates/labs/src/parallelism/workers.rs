// SPDX-License-Identifier: MIT OR Apache-2.0
//! What more cores gain: the IP router, and the same as an IPsec gateway, with the study's cipher and with today's.

use super::super::shared::counts;
use super::super::study::{Axis, Cell, Origin, Plot, Scale, Section, Series, Table};
use super::{STUDY_CORES, Setting, graph};
use crate::Error;
use harness::{Run, Subject};
use predict::{Prediction, Trial};
use report::measure::Measured;

const ROUTER: &str = include_str!("../../../../conf/ip-router.click");
/// Where in the router all packets pass, and what else happens to them there.
const PASS: (&str, &str) =
    ("GetIPAddress(16) -> [0]rt;", "GetIPAddress(16) -> IPsecEncrypt(ipsec, DEFAULT discard) -> [0]rt;");
/// The study's cipher, with keys of no secrecy.
pub(super) const TRIPLE_DES: &str = "enc 3des-cbc 0x0123456789abcdef23456789abcdef01456789abcdef0123 auth-trunc sha1 \
                          0x000102030405060708090a0b0c0d0e0f10111213 96";
/// A cipher of today.
pub(super) const AES_GCM: &str = "aead aes-gcm 0x000102030405060708090a0b0c0d0e0f10111213 128";
/// Cores up to which the model is shown, if there are fewer.
const MODELLED: [usize; 6] = [1, 2, 3, 4, 6, 8];

/// A configuration, and what the study measured of it.
struct Kind {
    key: &'static str,
    name: &'static str,
    study: &'static str,
    text: String,
    /// Packets for each second by number of processors.
    published: &'static [(usize, f64)],
}

/// The router as a gateway: a tunnel to a neighbour on each network protects all packets for it.
fn gateway(algorithm: &str) -> String {
    let tunnel = |net: &str, number: usize| {
        let ends = format!("src {net}.1 dst {net}.2");
        format!(
            "SA {ends} spi {} reqid {number} {algorithm}, POLICY dir out dst {net}.0/24 tmpl {ends} reqid {number} mode tunnel",
            255 + number
        )
    };
    let database = format!("ipsec :: IPsecDatabase({}, {});\n", tunnel("18.26.4", 1), tunnel("18.26.7", 2));
    ROUTER.replace(PASS.0, PASS.1) + &database
}

fn kinds() -> [Kind; 3] {
    [
        Kind {
            key: "router",
            name: "IP router",
            study: "IP router",
            text: ROUTER.to_owned(),
            published: &[(1, 302_000.0), (2, 494_000.0)],
        },
        Kind {
            key: "ipsec_3des",
            name: "IPsec gateway, 3DES",
            study: "IPsec gateway",
            text: gateway(TRIPLE_DES),
            published: &[(1, 23_000.0), (4, 87_000.0)],
        },
        Kind {
            key: "ipsec_gcm",
            name: "IPsec gateway, AES-128-GCM",
            study: "IPsec gateway, 3DES",
            text: gateway(AES_GCM),
            published: &[(1, 23_000.0), (4, 87_000.0)],
        },
    ]
}

/// What was found about one kind.
struct Found {
    kind: Kind,
    /// By number of workers: the rates of all rounds, and how many times one worker's.
    measured: Vec<(usize, Measured, Measured)>,
    /// By number of workers.
    modelled: Vec<(usize, f64)>,
    ns_per_packet: Measured,
}

/// Measures, and returns also what a packet costs on one core in the router.
pub(super) fn run(setting: &mut Setting<'_>) -> Result<(Section, Measured), Error> {
    let counts = counts(setting.cores);
    let kinds = kinds();
    setting.progress.expect(kinds.len() * (1 + setting.common.rounds()));
    let graphs = kinds.iter().map(|k| graph(&k.text)).collect::<Result<Vec<_>, _>>()?;
    let (mut subjects, mut trials) = (Vec::new(), Vec::new());
    for (kind, graph) in kinds.iter().zip(&graphs) {
        setting.progress.part(format!("workers: warming up the {}", kind.name));
        let subject = Subject::new(graph, &kind.text)?.with_run_ms(setting.run_ms());
        trials.push(Trial::new(&subject, setting.cores, &counts)?);
        subjects.push(subject);
        setting.progress.step();
    }
    setting.progress.part("workers: rounds of the IP router and the IPsec gateways");
    for _ in 0..setting.common.rounds() {
        for trial in &mut trials {
            trial.round()?;
            setting.progress.step();
        }
    }
    let mut found = Vec::new();
    for ((kind, subject), trial) in kinds.into_iter().zip(&subjects).zip(&trials) {
        let modelled = model(setting, subject, trial, &counts)?;
        found.push(gather(setting, kind, &counts, trial, modelled));
    }
    let packet_ns = found[0].ns_per_packet.clone();
    Ok((section(setting, &found), packet_ns))
}

/// Predicted rates by number of workers.
fn model(
    setting: &Setting<'_>,
    subject: &Subject<'_>,
    trial: &Trial,
    counts: &[usize],
) -> Result<Vec<(usize, f64)>, Error> {
    let costs = trial.costs();
    let mut all: Vec<usize> = counts.iter().copied().chain(MODELLED).collect();
    all.sort_unstable();
    all.dedup();
    let predict = |workers| {
        let router = subject.build(workers)?;
        Ok((workers, Prediction::new(&costs, router.shared(), workers, &setting.handoff).mpps()))
    };
    all.into_iter().map(predict).collect()
}

fn gather(
    setting: &mut Setting<'_>,
    kind: Kind,
    counts: &[usize],
    trial: &Trial,
    modelled: Vec<(usize, f64)>,
) -> Found {
    let key = kind.key;
    let runs = |workers: usize| trial.checked(workers).unwrap_or_default();
    let rates = |workers: usize| runs(workers).into_iter().map(Run::mpps).collect::<Vec<f64>>();
    let alone = rates(1);
    let mut measured = Vec::new();
    for workers in counts {
        let rates = rates(*workers);
        let times = rates.iter().zip(&alone).map(|(rate, one)| rate / one).collect();
        let rate = setting.note(format!("parallelism.{key}.mpps_{workers}"), "Mpps", rates);
        let times = setting.note(format!("parallelism.{key}.scaling_{workers}"), "times", times);
        measured.push((*workers, rate, times));
    }
    for (workers, mpps) in &modelled {
        setting.note(format!("parallelism.{key}.modelled_mpps_{workers}"), "Mpps", vec![*mpps]);
        if let Some((_, rate, _)) = measured.iter().find(|m| m.0 == *workers) {
            let error = mpps / rate.median() - 1.0;
            setting.note(format!("parallelism.{key}.model_error_{workers}"), "ratio", vec![error]);
        }
    }
    let ns = runs(1).into_iter().map(Run::ns_per_packet).collect();
    let ns_per_packet = setting.note(format!("parallelism.{key}.ns_per_packet"), "ns", ns);
    Found { kind, measured, modelled, ns_per_packet }
}

fn section(setting: &mut Setting<'_>, found: &[Found]) -> Section {
    let times = |kind: usize| found[kind].ns_per_packet.median() / found[0].ns_per_packet.median();
    let (old, new) = (times(1), times(2));
    let mut section = Section {
        title: "More cores".into(),
        text: vec![
            "Every core receives from a queue of its own of both interfaces and sends to one of its own, so that a packet stays on the core that received it. The study's cards had one queue each: there, packets moved.".into(),
            format!("ESP by 3DES with HMAC-SHA-1 makes a packet {old:.1} times as expensive as the router alone, and by AES-128-GCM {new:.1} times; in the study, 3DES made it 13.1 times."),
        ],
        ..Section::default()
    };
    section.plots.push(plot(found));
    for f in found {
        section.tables.push(table(setting, f));
        let (_, rate, times) = f.measured.last().expect("one worker at least");
        let workers = f.measured.len();
        if setting.cores > 1 {
            let study = f.kind.published;
            let ((n, last), first) = (study[study.len() - 1], study[0].1);
            setting.find(format!(
                "{}: {:.2} Mpps on {} cores, {:.2} times one core (the study's {}: {:.2} times on {n}).",
                f.kind.name,
                rate.median(),
                f.measured[workers - 1].0,
                times.median(),
                f.kind.study,
                last / first,
            ));
        }
    }
    section
}

fn plot(found: &[Found]) -> Plot {
    let mut series = Vec::new();
    let highest = found.iter().flat_map(|f| &f.modelled).map(|m| m.0).max().unwrap_or(1) as f64;
    series.push(Series {
        name: "as many times as cores".into(),
        origin: Origin::Name,
        colour: 0,
        points: vec![(1.0, 1.0), (highest, highest)],
    });
    for (i, f) in found.iter().enumerate() {
        let line = |name: &str, origin, colour, points| Series { name: name.into(), origin, colour, points };
        let one = f.modelled.first().map_or(1.0, |m| m.1);
        let modelled = f.modelled.iter().map(|(n, mpps)| (*n as f64, mpps / one)).collect();
        let measured = f.measured.iter().map(|(n, _, times)| (*n as f64, times.median())).collect();
        let alone = f.kind.published[0].1;
        let published = f.kind.published.iter().map(|(n, pps)| (*n as f64, pps / alone)).collect();
        series.push(line(&format!("{}, modelled", f.kind.name), Origin::Modelled, i, modelled));
        series.push(line(&format!("{}, measured", f.kind.name), Origin::Measured, i, measured));
        series.push(line(
            &format!("{}, the study", f.kind.study),
            Origin::Published,
            i + found.len(),
            published,
        ));
    }
    Plot::Lines {
        caption: "Rate over that of one core".into(),
        x: Axis::new("cores", Scale::Whole),
        y: Axis::new("times one core", Scale::Linear),
        series,
    }
}

fn table(setting: &Setting<'_>, found: &Found) -> Table {
    let mut table = Table::new(
        format!(
            "{} here, {} in the study; million packets of 64 bytes each second",
            found.kind.name, found.kind.study
        ),
        &[
            ("cores", Origin::Name),
            ("study, Mpps", Origin::Published),
            ("times one", Origin::Published),
            ("here, Mpps", Origin::Measured),
            ("times one", Origin::Measured),
            ("Mpps", Origin::Modelled),
            ("times one", Origin::Modelled),
            ("model's error", Origin::Modelled),
        ],
    );
    let alone = found.kind.published[0].1;
    let one = found.modelled.first().map_or(1.0, |m| m.1);
    for (workers, mpps) in &found.modelled {
        let study = found.kind.published.iter().find(|p| p.0 == *workers);
        let measured = found.measured.iter().find(|m| m.0 == *workers);
        let study_cell = |value: &dyn Fn(f64) -> String| match study {
            Some((_, pps)) => Cell::new(value(*pps)),
            None if *workers <= STUDY_CORES => Cell::new("not given"),
            None => Cell::new(format!("{STUDY_CORES} in the study")),
        };
        let here = |pick: fn(&(usize, Measured, Measured)) -> &Measured| match measured {
            Some(found) => Cell::measured(pick(found)),
            None if *workers > setting.cores => Cell::missing(setting.too_few()),
            None => Cell::new("not measured"),
        };
        let error = measured.map(|m| mpps / m.1.median() - 1.0);
        table.row(vec![
            Cell::new(workers.to_string()),
            study_cell(&|pps| format!("{:.3}", pps / 1e6)),
            study_cell(&|pps| format!("{:.2}", pps / alone)),
            here(|m| &m.1),
            here(|m| &m.2),
            Cell::number(*mpps),
            Cell::new(format!("{:.2}", mpps / one)),
            error.map_or_else(|| Cell::new("not known"), Cell::percent),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_is_protected() {
        let [router, gateways @ ..] = kinds();
        assert_eq!(router.text.matches(PASS.0).count(), 1);
        for gateway in gateways {
            assert!(gateway.text.contains(PASS.1) && graph(&gateway.text).is_ok(), "{}", gateway.name);
        }
    }
}
