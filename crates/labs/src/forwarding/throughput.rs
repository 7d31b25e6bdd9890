// SPDX-License-Identifier: MIT OR Apache-2.0
//! The study's own procedure: for each frame size the greatest rate without loss, searched by the tester (RFC 2544 26.1).

use std::time::Duration;

use tester::search::throughput::Limit;

use super::super::shared::Setting;
use super::super::study::{Axis, Cell, Origin, Plot, Scale, Section, Series, Table, digits};
use super::frames::{Arrangement, STUDY_CORES, TableSharing, text};
use super::published::{self, ROWS};
use super::tables::name;
use crate::Error;
use report::measure::Measured;
use trials::inside::{self, Search};

/// What the study measured, and RCU.
const KINDS: [Arrangement; 4] = [
    Arrangement { way: TableSharing::Lock, workers: 1 },
    Arrangement { way: TableSharing::Lock, workers: STUDY_CORES },
    Arrangement { way: TableSharing::PerCore, workers: STUDY_CORES },
    Arrangement { way: TableSharing::Rcu, workers: STUDY_CORES },
];
/// Rounds of the other tables for each search: a search is many trials.
const ROUNDS_EACH: usize = 3;
/// Frame sizes of which one is searched for with `--quick`.
const QUICK_EACH: usize = 3;

/// What the searches for a frame size in one way found.
struct Found {
    kind: Arrangement,
    /// Thousands of frames a second for each port, if a search came to an end.
    rates: Option<Measured>,
    /// Remarks on them.
    remarks: Vec<&'static str>,
}

/// What they found for a frame size.
struct Row {
    study: published::Row,
    /// Thousands of frames a second for each port, of the tester alone; nothing if this size was left out.
    alone: Option<f64>,
    found: Vec<Found>,
}

/// Searches, and says what was found.
pub(super) fn section(setting: &mut Setting<'_>) -> Result<Section, Error> {
    let searches = setting.common.rounds().div_ceil(ROUNDS_EACH);
    let every = if setting.common.quick { QUICK_EACH } else { 1 };
    setting.progress.expect(ROWS.len().div_ceil(every) * searches);
    let mut rows = Vec::new();
    for (index, study) in ROWS.into_iter().enumerate() {
        if index % every > 0 {
            rows.push(Row { study, alone: None, found: Vec::new() });
            continue;
        }
        setting.progress.part(format!("throughput, frames of {} bytes", study.frame_bytes));
        rows.push(row(setting, study, searches)?);
    }
    find(setting, &rows);
    let es = if searches == 1 { "" } else { "es" };
    let trial = setting.common.length().as_secs_f64() * 1e3;
    let text = vec![
        format!(
            "The study's rates are throughput by RFC 2544, section 26.1: the greatest rate at which nothing is lost. Here the tester of 'junctor test rfc2544' searches for it, on the same router in the same process, between two ports in memory that hold 1024 frames each: {searches} search{es} in each way, in turn, by trials of {trial:.0} ms, the last of them {:.0} ms, where the document asks for 60 s.",
            5.0 * trial
        ),
        "Shared core: there were too few cores, and the tester ran on a worker's. Tester's limit: a step above, it was the tester that did not keep up, so the router may be faster.".into(),
        "A rate without loss is that of the worst moment: where a processor is taken from a worker for longer than its port holds frames, for milliseconds as hosts of virtual machines do, it tells of that and not of the table. The table before, of processor time, does not.".into(),
    ];
    Ok(Section {
        title: "Throughput without loss (RFC 2544)".into(),
        text,
        plots: vec![plot(&rows)],
        tables: vec![table(setting, &rows)],
        ..Section::default()
    })
}

/// All ways at one frame size, in turn.
fn row(setting: &mut Setting<'_>, study: published::Row, searches: usize) -> Result<Row, Error> {
    let size = study.bytes_in_memory() + published::CHECKSUM;
    let alone = inside::tester_alone(size)?;
    let search = Search {
        trial: Duration::from_millis(setting.run_ms()),
        resolution: if setting.common.quick { 0.05 } else { 0.01 },
        rate_max: alone,
    };
    let kinds = KINDS.into_iter().filter(|kind| kind.workers <= setting.cores);
    let mut all: Vec<(Arrangement, Vec<f64>, Vec<&'static str>)> =
        kinds.map(|kind| (kind, Vec::new(), Vec::new())).collect();
    for _ in 0..searches {
        for (kind, rates, remarks) in &mut all {
            let text = text(study.bytes_in_memory(), kind.way);
            let found = match inside::throughput("lab forwarding", &text, kind.workers, size, &search) {
                Ok(found) => found,
                Err(why) => {
                    setting.progress.say(&format!("{} bytes, {}: {why}", study.frame_bytes, name(*kind)));
                    continue;
                }
            };
            rates.push(found.report.rate() / 1e3);
            let mut remark = |holds, what| {
                if holds && !remarks.contains(&what) {
                    remarks.push(what);
                }
            };
            remark(!found.own_core, "shared core");
            remark(found.report.limit() != Limit::Device, "tester's limit");
            remark(found.report.rate() == 0.0, "at no rate in a search");
        }
        setting.progress.step();
    }
    let found = all.into_iter().map(|(kind, rates, remarks)| {
        let name =
            format!("forwarding.throughput_kpps.{}_{}.{}", kind.way.key(), kind.workers, study.frame_bytes);
        Found { kind, rates: setting.note_if_any(name, "kpps", rates), remarks }
    });
    Ok(Row { study, found: found.collect(), alone: Some(alone / 1e3) })
}

fn cell(found: &Found) -> Cell {
    let Some(rates) = &found.rates else { return Cell::missing("no result") };
    let mut cell = Cell::measured(rates);
    let beside: Vec<&str> = cell.spread.as_deref().into_iter().chain(found.remarks.iter().copied()).collect();
    cell.spread = (!beside.is_empty()).then(|| beside.join("; "));
    cell
}

fn table(setting: &Setting<'_>, rows: &[Row]) -> Table {
    let study = ["study: 1 CPU", "2 CPUs, one locked table", "2 CPUs, table per CPU"];
    let mut columns = vec![("frame, bytes".to_owned(), Origin::Name)];
    columns.extend(study.map(|head| (head.to_owned(), Origin::Published)));
    let head = |(i, kind): (usize, &Arrangement)| {
        (format!("{}{}", if i == 0 { "here: " } else { "" }, name(*kind)), Origin::Measured)
    };
    columns.extend(KINDS.iter().enumerate().map(head));
    columns.push(("tester alone".to_owned(), Origin::Measured));
    let caption = "Throughput without loss: thousands of packets a second for each port, both ports loaded";
    let mut table = Table { caption: caption.into(), columns, rows: Vec::new() };
    for row in rows {
        let mut cells = vec![Cell::new(row.study.frame_bytes.to_string())];
        cells.extend(row.study.rates().map(|rate| Cell::new(format!("{:.1}", rate / 1e3))));
        let left_out = || Cell::missing("left out");
        cells.extend(KINDS.map(|kind| match row.found.iter().find(|found| found.kind == kind) {
            Some(found) => cell(found),
            None if row.alone.is_none() => left_out(),
            None => Cell::missing(setting.too_few()),
        }));
        cells.push(row.alone.map_or_else(left_out, Cell::number));
        table.row(cells);
    }
    table
}

fn plot(rows: &[Row]) -> Plot {
    // Those that the ways have in the plot of processor time.
    let line = |(colour, kind): (usize, Arrangement)| {
        let rate =
            |row: &Row| Some(row.found.iter().find(|found| found.kind == kind)?.rates.as_ref()?.median());
        let points = rows.iter().filter_map(|row| Some((row.study.frame_bytes as f64, rate(row)?))).collect();
        Series { name: name(kind), origin: Origin::Measured, colour, points }
    };
    let series = [0, 2, 3, 4].into_iter().zip(KINDS).map(line).filter(|series| !series.points.is_empty());
    Plot::Lines {
        caption: "Here, without loss: thousands of packets a second for each port".into(),
        x: Axis::new("frame, bytes", Scale::Whole),
        y: Axis::new("thousand packets/s", Scale::Linear),
        series: series.collect(),
    }
}

/// Says what the shortest frames show.
fn find(setting: &mut Setting<'_>, rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    let one = |found: &Found| {
        let rate = found.rates.as_ref()?.median();
        let mut text = format!("{} on {}", digits(rate), name(found.kind));
        if !found.remarks.is_empty() {
            text += &format!(" ({})", found.remarks.join(", "));
        }
        Some(text)
    };
    let all: Vec<String> = first.found.iter().filter_map(one).collect();
    if all.is_empty() {
        return;
    }
    setting.find(format!(
        "Without loss, thousands of frames of {} bytes a second for each port: {}.",
        first.study.frame_bytes,
        all.join("; ")
    ));
}

/// What to say of the cores that the tester takes.
pub(super) fn lacks(setting: &Setting<'_>) -> Option<String> {
    let wanted = STUDY_CORES + 1;
    (setting.here < wanted).then(|| {
        format!(
            "Tester: a router on {STUDY_CORES} cores and a tester beside it take {wanted}; this machine has {}. Where it shares a worker's core, the row of the throughput table says so: the router is slower there than it would be.",
            setting.here
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_says_whose_limit_it_is() {
        let rates = Some(Measured::new("", "kpps", vec![100.0, 120.0, 110.0]));
        let kind = KINDS[1];
        let found = Found { kind, rates, remarks: vec!["shared core"] };
        assert_eq!(cell(&found).spread.as_deref(), Some("100 to 120; shared core"));
        let common = super::super::super::Common::quick();
        let mut setting = Setting::new(&common).expect("a setting");
        setting.cores = 1;
        let table = table(&setting, &[Row { study: ROWS[0], alone: Some(4000.0), found: vec![found] }]);
        let texts: Vec<&str> = table.rows[0].iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!(
            texts,
            ["64", "167.3", "323.4", "341.4", "1 core here", "110", "1 core here", "1 core here", "4000"]
        );
    }
}
