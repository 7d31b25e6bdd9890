// SPDX-License-Identifier: MIT OR Apache-2.0
//! The router's figures by frame size as tables, plots and sentences.

use super::super::shared::{Setting, cell, cores_in_words, ratios};
use super::super::study::{Axis, Cell, Origin, Plot, Scale, Section, Series, Table};
use super::frames::{Arrangement, Found, Row, STUDY_CORES, TableSharing, kinds};
use report::measure::Measured;

/// The section, and what is to be said of it.
pub(super) fn section(setting: &mut Setting<'_>, rows: &[Row]) -> Section {
    let text = vec![
        "The study loads two ports in both directions with eight frame sizes: on one processor, on two that look destinations up in one table behind a lock, and on two with a table each. From 512 bytes on its links are full, so only the three shortest sizes tell the ways apart.".into(),
        "Here the same IP router does so with its table shared in the study's two ways, and with one table that is read without a lock (RCU), which is how it works by default.".into(),
    ];
    find(setting, rows);
    Section {
        title: "Packets a second by frame size".into(),
        text,
        plots: plots(setting.cores, rows),
        tables: vec![rates(setting, rows), scaling(setting, rows)],
        ..Section::default()
    }
}

/// A kind in words.
pub(super) fn name(kind: Arrangement) -> String {
    format!("{}, {}", cores_in_words(kind.workers), kind.way.in_words())
}

/// The kinds of a table: also those of the study for which this machine has too few cores.
fn columns(cores: usize) -> Vec<Arrangement> {
    kinds(cores.max(STUDY_CORES))
}

fn value(
    setting: &Setting<'_>,
    row: &Row,
    kind: Arrangement,
    of: impl Fn(&Found) -> Option<&Measured>,
) -> Cell {
    match row.get(kind.way, kind.workers) {
        Some(found) => cell(of(found)),
        None => Cell::missing(setting.too_few()),
    }
}

fn rates(setting: &Setting<'_>, rows: &[Row]) -> Table {
    let mut columns_of = vec![("frame, bytes".to_owned(), Origin::Name)];
    let study = ["study: 1 CPU", "2 CPUs, one locked table", "2 CPUs, table per CPU"];
    columns_of.extend(study.map(|head| (head.to_owned(), Origin::Published)));
    let kinds = columns(setting.cores);
    let head = |(i, kind): (usize, &Arrangement)| {
        (format!("{}{}", if i == 0 { "here: " } else { "" }, name(*kind)), Origin::Measured)
    };
    columns_of.extend(kinds.iter().enumerate().map(head));
    let caption = "Thousands of packets a second for each port, both ports loaded";
    let mut table = Table { caption: caption.into(), columns: columns_of, rows: Vec::new() };
    for row in rows {
        let mut cells = vec![Cell::new(row.study.frame_bytes.to_string())];
        let full = |rate: f64| if rate > 0.999 * row.study.line_rate() { " (link full)" } else { "" };
        cells.extend(row.study.rates().map(|rate| Cell::new(format!("{:.1}{}", rate / 1e3, full(rate)))));
        cells.extend(kinds.iter().map(|kind| value(setting, row, *kind, |f| f.rate.as_ref())));
        table.row(cells);
    }
    table
}

fn scaling(setting: &Setting<'_>, rows: &[Row]) -> Table {
    let kinds: Vec<Arrangement> = columns(setting.cores).split_off(1);
    let mut columns_of = vec![("frame, bytes".to_owned(), Origin::Name)];
    let study = ["study: 2 CPUs, one locked table", "2 CPUs, table per CPU"];
    columns_of.extend(study.map(|head| (head.to_owned(), Origin::Published)));
    let head = |(i, kind): (usize, &Arrangement)| {
        (format!("{}{}", if i == 0 { "here: " } else { "" }, name(*kind)), Origin::Measured)
    };
    columns_of.extend(kinds.iter().enumerate().map(head));
    let caption = "How many times as many as one core with one locked table";
    let mut table = Table { caption: caption.into(), columns: columns_of, rows: Vec::new() };
    for row in rows {
        let [one, locked, per_core] = row.study.rates();
        let mut cells = vec![Cell::new(row.study.frame_bytes.to_string())];
        cells.extend([locked / one, per_core / one].map(Cell::number));
        cells.extend(kinds.iter().map(|kind| value(setting, row, *kind, |f| f.times.as_ref())));
        table.row(cells);
    }
    table
}

fn plots(cores: usize, rows: &[Row]) -> Vec<Plot> {
    let line = |name: String, origin, colour, value: &dyn Fn(&Row) -> Option<f64>| {
        let point = |row: &Row| Some((row.study.frame_bytes as f64, value(row)?));
        Series { name, origin, colour, points: rows.iter().filter_map(point).collect() }
    };
    let plot = |caption: &str, series: Vec<Series>| Plot::Lines {
        caption: caption.into(),
        x: Axis::new("frame, bytes", Scale::Whole),
        y: Axis::new("thousand packets/s", Scale::Linear),
        series: series.into_iter().filter(|s| !s.points.is_empty()).collect(),
    };
    let study = ["1 CPU", "2 CPUs, one locked table", "2 CPUs, a table per CPU"];
    let study = study.into_iter().enumerate().map(|(i, name)| {
        line(name.to_owned(), Origin::Published, [0, 2, 3][i], &move |row| Some(row.study.rates()[i] / 1e3))
    });
    let here = kinds(cores).into_iter().enumerate().map(|(i, kind)| {
        let rate = move |row: &Row| Some(row.get(kind.way, kind.workers)?.rate.as_ref()?.median());
        line(name(kind), Origin::Measured, i, &rate)
    });
    vec![
        plot("The study: thousands of packets a second for each port", study.collect()),
        plot("Here: thousands of packets a second for each port", here.collect()),
    ]
}

/// Says what the shortest frames show.
fn find(setting: &mut Setting<'_>, rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    let [one, locked, per_core] = first.study.rates();
    let times = |way| first.get(way, STUDY_CORES).and_then(|f| f.times.as_ref()).map(Measured::median);
    if let (Some(lock), Some(each), Some(rcu)) =
        (times(TableSharing::Lock), times(TableSharing::PerCore), times(TableSharing::Rcu))
    {
        setting.find(format!(
            "Frames of {} bytes: with one locked table 2 cores forward {lock:.2} times what one does (in the study {:.2}), with a table each {each:.2} times ({:.2}), and with one table that is read without a lock {rcu:.2} times.",
            first.study.frame_bytes,
            locked / one,
            per_core / one
        ));
    }
    let over = |over: TableSharing, under: TableSharing, workers: usize| {
        let rounds = |way| first.get(way, workers).map(|f| f.rounds.clone()).unwrap_or_default();
        let all = ratios(&rounds(over), &rounds(under));
        (!all.is_empty()).then(|| Measured::new("", "", all).median())
    };
    if let Some(each) = over(TableSharing::PerCore, TableSharing::Lock, STUDY_CORES) {
        setting.find(format!(
            "On 2 cores a table each gains {:+.1} % over one locked table; in the study {:+.1} %.",
            100.0 * (each - 1.0),
            100.0 * (per_core / locked - 1.0)
        ));
    }
    if let Some(alone) = over(TableSharing::Rcu, TableSharing::Lock, 1) {
        setting.find(format!(
            "On one core, where nobody waits, the table without a lock gains {:+.1} %: what the lock and its counting for each route cost.",
            100.0 * (alone - 1.0)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::Waiting;
    use super::super::published::ROWS;
    use super::*;

    fn row(cores: usize) -> Row {
        let found = kinds(cores).into_iter().enumerate().map(|(i, kind)| {
            let value = |v: f64| Some(Measured::new("", "", vec![v]));
            let rate = 1000.0 * (i + 1) as f64;
            Found {
                kind,
                rounds: vec![Some(rate)],
                rate: value(rate),
                times: value((i + 1) as f64),
                waiting: vec![Waiting::default()],
            }
        });
        Row { study: ROWS[0], found: found.collect() }
    }

    fn setting(common: &super::super::super::Common, cores: usize) -> Setting<'_> {
        let mut setting = Setting::new(common).expect("a setting");
        setting.cores = cores;
        setting
    }

    #[test]
    fn values_stand_under_their_origin() {
        let common = super::super::super::Common::quick();
        let mut two = setting(&common, 2);
        let rows = [row(2)];
        let table = rates(&two, &rows);
        let texts: Vec<&str> = table.rows[0].iter().map(|c| c.text.as_str()).collect();
        assert_eq!(texts, ["64", "167.3", "323.4", "341.4", "1000", "2000", "3000", "4000", "5000"]);
        let table = scaling(&two, &rows);
        let texts: Vec<&str> = table.rows[0].iter().map(|c| c.text.as_str()).collect();
        assert_eq!(texts, ["64", "1.93", "2.04", "2.00", "3.00", "4.00", "5.00"]);
        find(&mut two, &rows);
        assert!(
            two.findings[0].contains("3.00 times what one does (in the study 1.93), with a table each 4.00")
        );
        assert!(
            two.findings[1].contains("+33.3 % over one locked table; in the study +5.6 %"),
            "{:?}",
            two.findings
        );
    }

    #[test]
    fn too_few_cores_are_said() {
        let common = super::super::super::Common::quick();
        let one = setting(&common, 1);
        let table = rates(&one, &[row(1)]);
        let last = table.rows[0].last().expect("a cell");
        assert!(last.missing && last.text == "1 core here", "{last:?}");
    }
}
