// SPDX-License-Identifier: MIT OR Apache-2.0
//! What workers waited for: the locks of the table, as they counted themselves while the rates were measured.

use super::super::shared::{Setting, cell};
use super::super::study::{Cell, Origin, Section, Table};
use super::frames::{Found, Row, TableSharing, Waiting};
use super::tables::name;
use report::measure::Measured;

/// The section, and what is to be said of it.
pub(super) fn section(setting: &mut Setting<'_>, rows: &[Row]) -> Section {
    let mut table = Table::new(
        "Locks of the table, shortest frames",
        &[
            ("", Origin::Name),
            ("taken, for each packet", Origin::Measured),
            ("of these had to wait, %", Origin::Measured),
            ("waited, ns for each packet", Origin::Measured),
        ],
    );
    for found in rows.iter().take(1).flat_map(|row| &row.found) {
        let noted = note(setting, rows[0].study.frame_bytes, found);
        let mut cells = vec![Cell::new(name(found.kind))];
        match found.kind.way {
            TableSharing::Rcu => cells.extend((0..3).map(|_| Cell::new("no lock"))),
            _ => cells.extend(noted.iter().map(|m| cell(m.as_ref()))),
        }
        table.row(cells);
    }
    Section {
        title: "Where workers wait".into(),
        text: vec!["The study finds its lock in a profile of the running system. Here every lock counts how often it is taken, how often somebody had to wait for it, and how long ('junctor ctl locks' shows the same of a running router). A wait costs more than its own time: the lock's line, and the counts behind it, come from the other core each time it changes hands.".into()],
        tables: vec![table],
        ..Section::default()
    }
}

/// Notes what the locks of a kind went through.
fn note(setting: &mut Setting<'_>, frame_bytes: usize, found: &Found) -> [Option<Measured>; 3] {
    if found.kind.way == TableSharing::Rcu {
        return [None, None, None];
    }
    let mut one = |what: &str, unit, of: fn(&Waiting) -> f64| {
        let name =
            format!("forwarding.lock_{what}.{}_{}.{frame_bytes}", found.kind.way.key(), found.kind.workers);
        setting.note_if_any(name, unit, found.waiting.iter().map(of).collect())
    };
    [
        one("taken", "times", |w| w.acquisitions),
        one("contended", "%", |w| 100.0 * w.contended),
        one("wait_ns", "ns", |w| w.wait_ns),
    ]
}
