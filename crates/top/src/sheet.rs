// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a look shows as tables of text: for the terminal and for paper alike. And how numbers are written.

use super::look::{Core, Look};

/// What rows are sorted by.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SortKey {
    Text(String),
    Number(f64),
}

/// A cell: what it shows, and what it counts for.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) key: SortKey,
    /// How much it asks to be looked at: 0 not at all, 1 a little, 2 now.
    pub(super) alarm: u8,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Texts stand to the left, numbers to the right.
    pub(super) is_text: bool,
    /// Those with the highest go first where there is no room for all.
    pub(super) rank: u8,
}

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Sheet {
    pub(super) title: &'static str,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<Cell>>,
}

/// The column of [`elements`] that has each one's share of a core.
pub(super) const BUSY: usize = 5;

/// A number in at most six characters: `0`, `12.3`, `999`, `1.23k`, `45.6M`.
pub(super) fn short(value: f64) -> String {
    const UNITS: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let (mut value, mut unit) = (value, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = match value {
        _ if unit == 0 && value.fract() == 0.0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{}", UNITS[unit])
}

/// A share as a percentage.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// Time since the router began.
pub(super) fn time(seconds: f64) -> String {
    let s = seconds as u64;
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        3600..86_400 => format!("{}h{:02}m", s / 3600, s / 60 % 60),
        _ => format!("{}d{:02}h", s / 86_400, s / 3600 % 24),
    }
}

impl Cell {
    fn text(text: &str) -> Cell {
        Cell { text: text.to_owned(), key: SortKey::Text(text.to_lowercase()), alarm: 0 }
    }

    fn number(value: f64) -> Cell {
        Cell { text: short(value), key: SortKey::Number(value), alarm: 0 }
    }

    /// All digits.
    fn count(value: u64) -> Cell {
        Cell { text: value.to_string(), key: SortKey::Number(value as f64), alarm: 0 }
    }

    fn share(share: f64) -> Cell {
        Cell { text: percent(share), key: SortKey::Number(share), alarm: 0 }
    }

    /// What may not be known.
    fn known<T>(value: Option<T>, of: impl FnOnce(T) -> Cell) -> Cell {
        value.map_or(Cell { text: "-".into(), key: SortKey::Number(-1.0), alarm: 0 }, of)
    }

    fn alarm(self, alarm: u8) -> Cell {
        Cell { alarm, ..self }
    }
}

/// More than nothing asks for attention.
fn some(rate: f64) -> u8 {
    2 * u8::from(rate > 0.0)
}

/// How alarming it is to be so full.
pub(super) fn fullness(share: f64) -> u8 {
    match share {
        s if s >= 0.95 => 2,
        s if s >= 0.75 => 1,
        _ => 0,
    }
}

fn columns(titles: &[(&'static str, u8)], texts: usize) -> Vec<Column> {
    let column = |(at, (title, rank)): (usize, &(&'static str, u8))| Column {
        title,
        is_text: at < texts,
        rank: *rank,
    };
    titles.iter().enumerate().map(column).collect()
}

fn state(core: &Core) -> Cell {
    match core {
        _ if core.stalled => Cell::text("stalled").alarm(2),
        _ if !core.active => Cell::text("off"),
        _ => Cell::text(""),
    }
}

/// Workers and their cores.
pub(super) fn cores(look: &Look) -> Sheet {
    let row = |c: &Core| {
        vec![
            Cell::count(c.worker as u64),
            Cell::known(c.cpu, Cell::count),
            Cell::share(c.busy).alarm(fullness(c.busy)),
            Cell::number(c.packets),
            Cell::share(c.ran),
            Cell::share(c.waited).alarm(u8::from(c.waited > 0.1)),
            Cell::number(c.runs),
            Cell::number(c.rounds),
            state(c),
        ]
    };
    let titles = [
        ("worker", 0),
        ("cpu", 3),
        ("busy", 0),
        ("packets/s", 1),
        ("ran", 4),
        ("waited", 4),
        ("runs/s", 5),
        ("rounds/s", 6),
        ("state", 2),
    ];
    let mut columns = columns(&titles, 0);
    columns[8].is_text = true;
    Sheet { title: "cores", columns, rows: look.cores.iter().map(row).collect() }
}

/// Elements.
pub(super) fn elements(look: &Look) -> Sheet {
    let row = |e: &super::look::Element| {
        vec![
            Cell::text(&e.name),
            Cell::text(&e.class),
            Cell::number(e.packets),
            Cell::known(e.cycles, Cell::number),
            Cell::known(e.batch, Cell::number),
            Cell::known(e.busy, Cell::share),
            Cell::known(e.task, Cell::share),
            Cell::number(e.drops).alarm(some(e.losses)),
            Cell::count(e.held),
            Cell::count(e.total),
        ]
    };
    let titles = [
        ("element", 0),
        ("class", 5),
        ("packets/s", 0),
        ("cycles/p", 1),
        ("batch", 3),
        ("busy", 4),
        ("task", 6),
        ("drops/s", 2),
        ("held", 7),
        ("packets", 8),
    ];
    Sheet { title: "elements", columns: columns(&titles, 2), rows: look.elements.iter().map(row).collect() }
}

/// Elements that speak to devices.
pub(super) fn ports(look: &Look) -> Sheet {
    let row = |p: &super::look::Port| {
        vec![
            Cell::text(&p.name),
            Cell::text(&p.class),
            Cell::number(p.packets),
            Cell::known(p.bytes, Cell::number),
            Cell::number(p.misses).alarm(some(p.misses)),
            Cell::count(p.missed),
            Cell::count(p.total),
        ]
    };
    let titles = [
        ("port", 0),
        ("class", 3),
        ("packets/s", 0),
        ("bytes/s", 2),
        ("missed/s", 1),
        ("missed", 4),
        ("packets", 5),
    ];
    Sheet { title: "ports", columns: columns(&titles, 2), rows: look.ports.iter().map(row).collect() }
}

/// Queues.
pub(super) fn queues(look: &Look) -> Sheet {
    let row = |q: &super::look::Queue| {
        let full = if q.capacity > 0 { q.length as f64 / q.capacity as f64 } else { 0.0 };
        vec![
            Cell::text(&q.name),
            Cell::text(&q.class),
            Cell::count(q.length).alarm(fullness(full)),
            Cell::count(q.capacity),
            Cell::known(q.highwater, Cell::count),
            Cell::number(q.received),
            Cell::number(q.packets),
            Cell::number(q.drops).alarm(some(q.drops)),
        ]
    };
    let titles = [
        ("queue", 0),
        ("class", 5),
        ("length", 0),
        ("of", 1),
        ("highest", 4),
        ("in/s", 3),
        ("out/s", 3),
        ("drops/s", 2),
    ];
    Sheet { title: "queues", columns: columns(&titles, 2), rows: look.queues.iter().map(row).collect() }
}

/// Drops by reason and element.
pub(super) fn drops(look: &Look) -> Sheet {
    let row = |d: &super::look::Drops| {
        vec![
            Cell::text(&d.reason),
            Cell::text(&d.element),
            Cell::number(d.packets).alarm(if d.is_loss() { some(d.packets) } else { 0 }),
            Cell::count(d.total),
        ]
    };
    let titles = [("reason", 0), ("element", 0), ("drops/s", 0), ("packets", 1)];
    Sheet { title: "drops", columns: columns(&titles, 2), rows: look.drops.iter().map(row).collect() }
}

/// Tables.
pub(super) fn tables(look: &Look) -> Sheet {
    let row = |t: &super::look::Table| {
        let full = t.capacity.filter(|c| *c > 0).map_or(0.0, |c| t.entries as f64 / c as f64);
        vec![
            Cell::text(&t.name),
            Cell::text(&t.class),
            Cell::count(t.entries).alarm(fullness(full)),
            Cell::known(t.capacity, Cell::count),
            Cell::known(t.bytes, |bytes| Cell::number(bytes as f64)),
        ]
    };
    let titles = [("table", 0), ("class", 3), ("entries", 0), ("of", 1), ("bytes", 2)];
    Sheet { title: "tables", columns: columns(&titles, 2), rows: look.tables.iter().map(row).collect() }
}

impl Sheet {
    /// Sorts by a column, the largest numbers and the first texts first, or the other way round. Rows that are alike stay as they are.
    pub(super) fn sort(&mut self, column: usize, reversed: bool) {
        let order = |a: &Vec<Cell>, b: &Vec<Cell>| {
            let order = match (a.get(column).map(|c| &c.key), b.get(column).map(|c| &c.key)) {
                (Some(SortKey::Number(a)), Some(SortKey::Number(b))) => b.total_cmp(a),
                (Some(SortKey::Text(a)), Some(SortKey::Text(b))) => a.cmp(b),
                _ => std::cmp::Ordering::Equal,
            };
            if reversed { order.reverse() } else { order }
        };
        self.rows.sort_by(order);
    }

    /// The columns for which there is room, and the width of each: two spaces stand between them. The first is cut if need be.
    pub(super) fn layout(&self, room: usize) -> Vec<(usize, usize)> {
        let natural = |at: usize| {
            let cells = self.rows.iter().map(|row| row[at].text.chars().count());
            cells.max().unwrap_or(0).max(self.columns[at].title.chars().count())
        };
        let mut kept: Vec<(usize, usize)> = (0..self.columns.len()).map(|at| (at, natural(at))).collect();
        let needed = |kept: &[(usize, usize)]| kept.iter().map(|(_, width)| width + 2).sum::<usize>() - 2;
        while needed(&kept) > room {
            let last =
                kept.iter().enumerate().skip(1).max_by_key(|(i, (at, _))| (self.columns[*at].rank, *i));
            match last.map(|(i, _)| i).filter(|i| self.columns[kept[*i].0].rank > 0) {
                // A first column that can be cut to what people recognise keeps the others.
                Some(i) if kept[0].1 <= 12 || self.columns[kept[i].0].rank > 1 => {
                    kept.remove(i);
                }
                Some(_) | None if kept[0].1 > 6 => kept[0].1 -= 1,
                Some(i) => {
                    kept.remove(i);
                }
                None if kept.len() > 1 => {
                    kept.pop();
                }
                None => {
                    kept[0].1 = room;
                    break;
                }
            }
        }
        kept
    }
}

/// A text in so many characters, cut or filled up.
pub(super) fn fit(text: &str, width: usize, left: bool) -> String {
    if text.chars().count() > width {
        let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
        cut.extend((width > 0).then_some('…'));
        return cut;
    }
    if left { format!("{text:<width$}") } else { format!("{text:>width$}") }
}

#[cfg(test)]
mod tests {
    use super::super::look::tests::example;
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, want) in [
            (0.0, "0"),
            (7.0, "7"),
            (0.5, "0.50"),
            (12.34, "12.3"),
            (999.0, "999"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (1234.0, "1.23k"),
            (45_600_000.0, "45.6M"),
            (999_999.0, "1.00M"),
            (1e21, "1000000P"),
        ] {
            assert_eq!(short(value), want);
        }
    }

    #[test]
    fn times_have_two_units() {
        let times = [0.9, 59.0, 61.0, 3700.0, 90_000.0].map(time);
        assert_eq!(times, ["0s", "59s", "1m01s", "1h01m", "1d01h"]);
    }

    #[test]
    fn the_important_columns_stay() {
        let sheet = elements(&example());
        let titles = |room: usize| {
            let kept = sheet.layout(room);
            let width: usize = kept.iter().map(|(_, width)| width + 2).sum::<usize>() - 2;
            assert!(width <= room, "{width} in {room}");
            kept.iter().map(|(at, _)| sheet.columns[*at].title).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(titles(200), "element class packets/s cycles/p batch busy task drops/s held packets");
        assert_eq!(titles(40), "element packets/s cycles/p drops/s");
        assert_eq!(titles(20), "element packets/s");
        (1..100).for_each(|room| drop(titles(room)));
        for sheet in [cores, elements, ports, queues, drops, tables].map(|sheet| sheet(&example())) {
            assert!(sheet.rows.iter().all(|row| row.len() == sheet.columns.len()), "{}", sheet.title);
            (1..100).for_each(|room| {
                let width: usize = sheet.layout(room).iter().map(|(_, width)| width + 2).sum::<usize>() - 2;
                assert!(width <= room, "{}: {width} in {room}", sheet.title);
            });
        }
    }

    #[test]
    fn rows_are_sorted_by_what_they_count() {
        let mut sheet = elements(&example());
        let names = |sheet: &Sheet| sheet.rows.iter().map(|row| row[0].text.clone()).collect::<Vec<_>>();
        sheet.sort(0, false);
        assert_eq!(names(&sheet), ["in", "q", "rt", "src"]);
        sheet.sort(2, false);
        assert_eq!(names(&sheet)[..2], ["src", "q"]);
        sheet.sort(0, true);
        assert_eq!(names(&sheet)[0], "src");
    }

    #[test]
    fn what_is_too_long_is_cut() {
        assert_eq!(
            [fit("abc", 5, true), fit("abc", 5, false), fit("abcdef", 4, true), fit("ab", 0, true)],
            ["abc  ", "  abc", "abc…", ""]
        );
    }
}
