// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory copy while the reflector runs: buffers of 16 KiB to 1 GiB, read, written and copied.

use super::super::shared::Setting;
use super::super::study::{Axis, Cell, Origin, Plot, Scale, Section, Series, Table};
use super::control::Control;
use super::kernels::Access;
use super::machine::{LabMachine, bytes_in_words};
use super::plane::Plane;
use super::{published, rounds};
use crate::Error;
use report::measure::Measured;

const ACCESSES: [Access; 3] = [Access::Read, Access::Write, Access::Copy];

/// What was found about a size.
struct Row {
    bytes: usize,
    /// In the order of [`ACCESSES`].
    slower: Vec<Measured>,
    /// Bytes copied a second, in GB.
    paused: f64,
    loaded: f64,
    /// Thousands of frames a second.
    frames: rounds::Pairs,
}

/// Sizes from 16 KiB to 1 GiB; those that do not fit stand apart.
fn sizes(quick: bool, free: usize) -> (Vec<usize>, Vec<usize>) {
    let mut all: Vec<usize> = (7..=15).map(|n| 1 << (2 * n)).collect();
    if quick {
        all.retain(|bytes| *bytes <= 1 << 20);
    }
    // Two buffers, and as much again for everybody else.
    all.into_iter().partition(|bytes| bytes * 4 <= free)
}

/// Measures.
pub(super) fn run(
    setting: &mut Setting<'_>,
    place: &LabMachine,
    plane: &mut Plane,
    control: &mut Control,
) -> Result<Section, Error> {
    let (fit, left_out) = sizes(setting.common.quick, place.free);
    let rounds = setting.common.rounds();
    setting.progress.expect(fit.len() * ACCESSES.len() * rounds);
    setting.progress.part("memory copy");
    let kernels: Vec<_> = fit.iter().flat_map(|bytes| ACCESSES.map(|access| (access, *bytes))).collect();
    let kernels = control.lay(&kernels, true)?;
    let mut rows = Vec::new();
    for (bytes, kernels) in fit.into_iter().zip(kernels.chunks(ACCESSES.len())) {
        let mut found = Vec::new();
        for kernel in kernels {
            let length = setting.common.length();
            let work = || kernel.run(control, length);
            let pairs = rounds::compare(rounds, &mut [plane], work, || setting.progress.step())?;
            found.extend(pairs);
        }
        rows.push(row(setting, bytes, found));
    }
    let mut text = vec![
        "The study copies a gigabyte. Here a kernel like lmbench's bw_mem goes through buffers word by word: 'read' adds the words up, 'write' fills the buffer, 'copy' copies it to a second one of the same size. All pages are written before. Times are processor time of the copying thread, so other programs take nothing from it but caches and clock.".to_owned(),
        place.in_words(),
    ];
    if !left_out.is_empty() {
        let sizes: Vec<String> = left_out.iter().map(|bytes| bytes_in_words(*bytes)).collect();
        text.push(format!(
            "Left out, since two buffers of the size would not fit into half of the {} that are free: {}.",
            bytes_in_words(place.free),
            sizes.join(", ")
        ));
    }
    find(setting, &rows);
    Ok(Section {
        title: "Memory copy".into(),
        text,
        plots: vec![plot(&rows)],
        tables: vec![table(&rows)],
        ..Section::default()
    })
}

fn row(setting: &mut Setting<'_>, bytes: usize, found: Vec<rounds::Pairs>) -> Row {
    let note = |(access, pairs): (Access, &rounds::Pairs)| {
        rounds::note(setting, &format!("copy_slower.{}.{bytes}", access.word()), pairs)
    };
    let slower = ACCESSES.into_iter().zip(&found).map(note).collect();
    let rate = |ns: &[f64]| 1024.0 / Measured::new("", "", ns.to_vec()).median().max(1e-9);
    let copied = found.last().cloned().unwrap_or_default();
    let (paused, loaded) = (rate(&copied.paused), rate(&copied.loaded));
    for (what, value) in [("paused", paused), ("loaded", loaded)] {
        setting.note(format!("interference.copy_gb_s.{what}.{bytes}"), "GB/s", vec![value]);
    }
    Row { bytes, slower, paused, loaded, frames: copied }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "How much longer a pass takes while the reflector works at line rate",
        &[
            ("buffer", Origin::Name),
            ("study: copy", Origin::Published),
            ("read", Origin::Measured),
            ("write", Origin::Measured),
            ("copy", Origin::Measured),
            ("copied, paused, GB/s", Origin::Measured),
            ("loaded", Origin::Measured),
            ("frames reflected meanwhile, thousands/s", Origin::Measured),
        ],
    );
    for row in rows {
        let study =
            if row.bytes == published::COPY_BYTES { Cell::new(published::COPY) } else { Cell::new("") };
        let mut cells = vec![Cell::new(bytes_in_words(row.bytes)), study];
        cells.extend(row.slower.iter().map(rounds::cell));
        cells.extend([Cell::number(row.paused), Cell::number(row.loaded), rounds::rate_cell(&row.frames)]);
        table.row(cells);
    }
    table
}

fn plot(rows: &[Row]) -> Plot {
    let series = ACCESSES.iter().enumerate().map(|(i, access)| Series {
        name: access.word().to_owned(),
        origin: Origin::Measured,
        colour: i,
        points: rows.iter().map(|row| (row.bytes as f64 / 1024.0, row.slower[i].median().max(0.0))).collect(),
    });
    Plot::Lines {
        caption: "How much longer it takes, percent (no slow-down is drawn as 0)".into(),
        x: Axis::new("buffer, KiB", Scale::Log),
        y: Axis::new("slower, %", Scale::Linear),
        series: series.collect(),
    }
}

fn find(setting: &mut Setting<'_>, rows: &[Row]) {
    let told = |row: &&Row| row.frames.median() > row.frames.notch();
    let worst = rows.iter().filter(told).max_by(|a, b| a.frames.median().total_cmp(&b.frames.median()));
    let most = match worst {
        Some(row) => format!("most at {}, {}", bytes_in_words(row.bytes), row.frames.in_words()),
        None => "no size is slowed down by more than the noise".to_owned(),
    };
    let largest = rows
        .last()
        .map_or(String::new(), |row| format!("; {} at {}", row.frames.in_words(), bytes_in_words(row.bytes)));
    setting.find(format!(
        "Memory copy with the reflector at line rate: {most}{largest} (study: {} for 1 GiB).",
        published::COPY
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_left_out() {
        let (fit, left_out) = sizes(false, 1 << 40);
        assert_eq!((fit.first(), fit.last(), left_out.len()), (Some(&(16 << 10)), Some(&(1 << 30)), 0));
        assert!(fit.windows(2).all(|pair| pair[0] < pair[1]), "{fit:?}");
        let (fit, left_out) = sizes(false, 1 << 30);
        assert_eq!((fit.last(), left_out), (Some(&(256 << 20)), vec![1 << 30]));
        assert!(sizes(true, 1 << 40).0.last() < Some(&(2 << 20)));
    }
}
