// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bridge's figures by frame size as tables, plots and sentences.

use super::super::shared::{NO_TURN, Setting, cell, cores_in_words as cores, too_few};
use super::super::study::{Axis, Cell, Origin, Plot, Scale, Section, Series, Table};
use super::frames::Row;
use super::published::{self, COUNTS};
use report::measure::Measured;

/// The section, and what is to be said of it.
pub(super) fn section(setting: &mut Setting<'_>, rows: &[Row]) -> Section {
    let text = vec![
        format!("The study takes the bridge of NetBSD, all of which ran under one lock, and lets every core run it: the list of members and the table of addresses are read under passive serialization, ports have a queue for each core. Long frames fill its wires, so that more cores gain nothing there: frames of {} bytes and more on 8 cores.", published::full_from_bytes()),
        "Here every worker receives from a queue of its own of both ports, runs the same bridge over one table of addresses, and sends to a queue of its own. Beside it the same with one lock around all that a worker does in a round.".into(),
    ];
    find(setting, rows);
    Section {
        title: "Frames a second by frame size".into(),
        text,
        plots: plots(rows),
        tables: vec![rates(setting.cores, rows), ratios(setting.cores, rows)],
        ..Section::default()
    }
}

/// Numbers of cores that are modelled because this machine has fewer.
fn beyond(cores: usize, rows: &[Row]) -> Vec<usize> {
    let all = rows.first().map(|row| row.modelled.iter().map(|m| m.0).collect::<Vec<_>>());
    all.unwrap_or_default().into_iter().filter(|n| *n > cores).collect()
}

fn modelled(row: &Row, workers: usize) -> Option<f64> {
    row.modelled.iter().find(|m| m.0 == workers)?.1
}

/// The same in millions instead of thousands.
fn in_millions(thousands: Option<&Measured>) -> Cell {
    let millions = |m: &Measured| Measured::new("", "", m.runs.iter().map(|rate| rate / 1e3).collect());
    cell(thousands.map(millions).as_ref())
}

fn rates(here: usize, rows: &[Row]) -> Table {
    let beyond = beyond(here, rows);
    let mut columns = vec![("frame, bytes".to_owned(), Origin::Name)];
    columns.push(("study: big lock".into(), Origin::Published));
    columns.extend(COUNTS.iter().map(|n| (cores(*n), Origin::Published)));
    columns.push((format!("here: big lock, {}", cores(here)), Origin::Measured));
    let counts = rows.first().map(|row| row.safe.iter().map(|s| s.0).collect::<Vec<_>>()).unwrap_or_default();
    columns.extend(counts.iter().map(|n| (cores(*n), Origin::Measured)));
    columns.extend(beyond.iter().map(|n| (cores(*n), Origin::Modelled)));
    let caption = "Frames a second, both directions together: the study's in thousands, ours in millions";
    let mut table = Table { caption: caption.into(), columns, rows: Vec::new() };
    for row in rows {
        let mut cells = vec![Cell::new(row.study.frame_bytes.to_string())];
        let published = [row.study.big_lock].into_iter().chain(row.study.safe);
        cells.extend(published.map(|rate| Cell::new(format!("{rate:.1}"))));
        cells.push(in_millions(row.big_lock.as_ref()));
        cells.extend(row.safe.iter().map(|(_, rate)| in_millions(rate.as_ref())));
        let model = |n: &usize| {
            modelled(row, *n).map_or_else(|| Cell::missing(NO_TURN), |rate| Cell::number(rate / 1e3))
        };
        cells.extend(beyond.iter().map(model));
        table.row(cells);
    }
    table
}

fn ratios(here: usize, rows: &[Row]) -> Table {
    let beyond = beyond(here, rows);
    let mut columns = vec![("frame, bytes".to_owned(), Origin::Name)];
    columns.push(("study: 1 core over big lock".into(), Origin::Published));
    columns.extend(COUNTS[1..].iter().map(|n| (format!("{n} over 1"), Origin::Published)));
    columns.push(("here: 1 core over big lock".into(), Origin::Measured));
    columns.push((format!("all {here} over big lock"), Origin::Measured));
    let counts: Vec<usize> = rows
        .first()
        .map(|row| row.times.iter().map(|t| t.0).filter(|n| *n > 1).collect())
        .unwrap_or_default();
    columns.extend(counts.iter().map(|n| (format!("{n} over 1"), Origin::Measured)));
    columns.extend(beyond.iter().map(|n| (format!("{n} over 1"), Origin::Modelled)));
    columns.push((format!("model's error, {}", cores(here)), Origin::Modelled));
    let mut table = Table { caption: "How many times as many".into(), columns, rows: Vec::new() };
    for row in rows {
        let study = &row.study;
        let mut cells = vec![Cell::new(study.frame_bytes.to_string())];
        let published = [study.safe[0] / study.big_lock].into_iter();
        let published = published.chain(study.safe[1..].iter().map(|rate| rate / study.safe[0]));
        cells.extend(published.map(Cell::number));
        cells.push(cell(row.one_over_lock.as_ref()));
        cells.push(cell(row.all_over_lock.as_ref()));
        let times = row.times.iter().filter(|t| t.0 > 1);
        cells.extend(times.map(|(_, times)| cell(times.as_ref())));
        let one = modelled(row, 1).filter(|rate| *rate > 0.0);
        let model = |n: &usize| modelled(row, *n).zip(one).map(|(rate, one)| Cell::number(rate / one));
        cells.extend(beyond.iter().map(|n| model(n).unwrap_or_else(|| Cell::missing(NO_TURN))));
        cells.push(error(here, row).map_or_else(|| Cell::missing(NO_TURN), Cell::percent));
        table.row(cells);
    }
    table
}

/// The model's rate on all cores over the measured one, less 1.
fn error(here: usize, row: &Row) -> Option<f64> {
    let measured = row.safe.iter().find(|s| s.0 == here)?.1.as_ref()?.median();
    Some(modelled(row, here)? / measured - 1.0).filter(|error| error.is_finite())
}

/// Colours that tell ways apart: the big lock, and each number of cores.
fn colour(workers: Option<usize>) -> usize {
    let at = |n| COUNTS.iter().position(|count| *count == n).unwrap_or(n % COUNTS.len());
    workers.map_or(COUNTS.len(), at)
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let line = |name: String, origin, colour, value: &dyn Fn(&Row) -> Option<f64>| {
        let point = |row: &Row| Some((row.study.frame_bytes as f64, value(row)?));
        Series { name, origin, colour, points: rows.iter().filter_map(point).collect() }
    };
    let plot = |caption: &str, y: &str, series: Vec<Series>| Plot::Lines {
        caption: caption.into(),
        x: Axis::new("frame, bytes", Scale::Whole),
        y: Axis::new(y, Scale::Linear),
        series: series.into_iter().filter(|s| !s.points.is_empty()).collect(),
    };
    let lock = |name: &str, origin, value: &dyn Fn(&Row) -> Option<f64>| {
        line(name.to_owned(), origin, colour(None), value)
    };
    let mut study = vec![lock("one big lock", Origin::Published, &|row| Some(row.study.big_lock))];
    for (i, n) in COUNTS.iter().enumerate() {
        study.push(line(cores(*n), Origin::Published, colour(Some(*n)), &|row| Some(row.study.safe[i])));
    }
    let millions = |measured: &Option<Measured>| measured.as_ref().map(|m| m.median() / 1e3);
    let mut here = vec![lock("one big lock", Origin::Measured, &|row| millions(&row.big_lock))];
    let (first, measured) = (rows.first(), |n: usize| {
        move |row: &Row| row.safe.iter().find(|s| s.0 == n).and_then(|s| millions(&s.1))
    });
    for n in first.iter().flat_map(|row| &row.safe).map(|s| s.0) {
        here.push(line(cores(n), Origin::Measured, colour(Some(n)), &measured(n)));
    }
    let counted = first.map(|row| row.safe.len()).unwrap_or(0);
    for n in first.iter().flat_map(|row| &row.modelled).map(|m| m.0).skip(counted) {
        let name = format!("{}, modelled", cores(n));
        here.push(line(name, Origin::Modelled, colour(Some(n)), &|row| Some(modelled(row, n)? / 1e3)));
    }
    vec![
        plot("The study: thousands of frames a second, both directions", "thousand frames/s", study),
        plot("Here: millions of frames a second, both directions", "million frames/s", here),
    ]
}

/// Says what the shortest frames show, and whether all sizes agree.
fn find(setting: &mut Setting<'_>, rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    let published::Row { frame_bytes, big_lock, safe } = first.study;
    let here = setting.cores;
    if let (Some(one), Some(all)) = (&first.one_over_lock, &first.all_over_lock) {
        let (under, all) = match here {
            1 => ("it does".to_owned(), String::new()),
            n => (format!("{n} do"), format!(", and {n} cores {:.2} times", all.median())),
        };
        setting.find(format!(
            "Frames of {frame_bytes} bytes: without the big lock one core bridges {:.2} times what {under} under it{all}; in the study, one core {:.2} times and 8 {:.2} times.",
            one.median(),
            safe[0] / big_lock,
            safe[3] / big_lock
        ));
    }
    let last = first.times.iter().rfind(|t| t.0 > 1).and_then(|(n, times)| Some((*n, times.as_ref()?)));
    if let Some((n, times)) = last {
        let study = COUNTS.iter().position(|count| *count == n);
        let study = study.map(|at| format!(" (in the study {:.2})", safe[at] / safe[0])).unwrap_or_default();
        let all: Vec<f64> = rows
            .iter()
            .flat_map(|row| &row.times)
            .filter(|t| t.0 == n)
            .filter_map(|t| Some(t.1.as_ref()?.median()))
            .collect();
        let all = Measured::new("", "", all);
        let (low, high) = all.spread();
        setting.find(format!(
            "{n} cores bridge {:.2} times the frames of {frame_bytes} bytes that one does{study}; over all sizes {:.2} times ({low:.2} to {high:.2}).",
            times.median(),
            all.median(),
        ));
    } else if here == 1 {
        setting.find(format!("What more cores gain is modelled: {}.", too_few(here)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(measured: bool) -> Row {
        let value = |v: f64| measured.then(|| Measured::new("", "", vec![v]));
        Row {
            study: published::ROWS[0],
            big_lock: value(9000.0),
            safe: vec![(1, value(10_000.0)), (2, value(19_000.0))],
            modelled: [1, 2, 4, 8].map(|n| (n, measured.then_some(10_000.0 * n as f64))).to_vec(),
            one_over_lock: value(1.1),
            all_over_lock: value(2.1),
            times: vec![(1, value(1.0)), (2, value(1.9))],
        }
    }

    #[test]
    fn values_stand_under_their_origin() {
        let table = rates(2, &[row(true)]);
        let texts: Vec<&str> = table.rows[0].iter().map(|c| c.text.as_str()).collect();
        let want =
            ["74", "99.3", "329.0", "527.7", "705.4", "1147.1", "9.00", "10.0", "19.0", "40.0", "80.0"];
        assert_eq!(texts, want);
        assert_eq!(table.columns[9], ("4 cores".to_owned(), Origin::Modelled));
        let table = ratios(2, &[row(true)]);
        let texts: Vec<&str> = table.rows[0].iter().map(|c| c.text.as_str()).collect();
        assert_eq!(
            texts,
            ["74", "3.31", "1.60", "2.14", "3.49", "1.10", "2.10", "1.90", "4.00", "8.00", "+5.3 %"]
        );
    }

    #[test]
    fn what_no_run_gave_is_missing_and_not_drawn() {
        let rows = [row(false)];
        for table in [rates(2, &rows), ratios(2, &rows)] {
            let measured = table.columns.iter().zip(&table.rows[0]);
            let ours = measured.filter(|(c, _)| matches!(c.1, Origin::Measured | Origin::Modelled));
            assert!(ours.into_iter().all(|(_, cell)| cell.missing && cell.text == NO_TURN));
        }
        let Plot::Lines { series, .. } = &plots(&rows)[1] else { panic!("lines") };
        assert!(series.is_empty());
    }
}
