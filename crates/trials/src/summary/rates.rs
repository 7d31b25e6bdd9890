// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rates by frame size, next to what the link allows, and by workers.

use tester::search::medium::ethernet_frames_per_s;

use super::super::record::{Better, Quantity, Record, with_modifier};
use super::{Names, groups, words, workers};
use report::{Axis, Bar, Cell, Origin, Plot, Scale, Section, Series, Table, digits};

/// Whether a quantity is a rate of the device's.
pub(super) fn is_rate(quantity: &Quantity) -> bool {
    quantity.unit.ends_with("pps") && quantity.better == Some(Better::Higher)
}

/// Adds a point to the line of this name. Who was the limit may differ from point to point; it is the same quantity, and the name
/// says if some points are lower bounds.
fn add(lines: &mut Vec<Series>, name: &str, quantity: &Quantity, point: (f64, f64)) {
    let name = name.replace("reached", "throughput");
    let bound = format!("{name}, in part reached only");
    let colour = lines.len();
    match lines.iter_mut().find(|line| line.name == name || line.name == bound) {
        Some(known) => {
            known.points.push(point);
            known.points.sort_by(|a, b| a.0.total_cmp(&b.0));
            if quantity.is_bound() {
                known.name = bound;
            }
        }
        None => {
            let name = if quantity.is_bound() { bound } else { name };
            lines.push(Series { name, origin: Origin::Measured, colour, points: vec![point] });
        }
    }
}

/// Rates of all ports together: a trial's, and those that RFC 2889 asks for.
const OF_ALL: [&str; 4] = [
    "test.sent_mpps",
    "test.received_mpps",
    "test.rfc2889.forwarding_mpps",
    "test.rfc2889.max_forwarding_mpps",
];

/// Whether a rate is that of all ports together.
pub(super) fn is_of_all(quantity: &Quantity) -> bool {
    OF_ALL.iter().any(|name| quantity.name.starts_with(name))
}

/// A value of a rate, for each sending port.
fn of_port(record: &Record, value: f64, quantity: &Quantity) -> f64 {
    let ports = if is_of_all(quantity) { record.number("senders").unwrap_or(1.0).max(1.0) } else { 1.0 };
    value / ports
}

/// Share of the link that frames take at this rate, 0 to 1; nothing without a link.
pub(super) fn share_of_link(record: &Record, quantity: &Quantity) -> Option<f64> {
    let (bits, size) = (record.number("link")?, quantity.size?);
    Some(of_port(record, quantity.value, quantity) * 1e6 / ethernet_frames_per_s(bits as u64, size as u64))
}

/// A line for each rate of each device, and what bounds them.
pub(super) fn by_size(records: &[Record], names: &Names) -> Section {
    let mut series: Vec<Series> = Vec::new();
    for record in records {
        for quantity in record.results.iter().filter(|q| is_rate(q)) {
            let Some(size) = quantity.size else { continue };
            let (who, what) = (names.who(record), words(record, &quantity.label()));
            let name = if who.is_empty() { what } else { format!("{who}: {what}") };
            add(&mut series, &name, quantity, (size as f64, of_port(record, quantity.value, quantity)));
        }
    }
    let plots = if series.iter().any(|s| s.points.len() > 1) {
        let bounds = bounds(records, &series);
        series.extend(bounds);
        let (x, y) =
            (Axis::new("frame, bytes", Scale::Linear), Axis::new("Mpps of each port", Scale::Linear));
        vec![Plot::Lines { caption: String::new(), x, y, series }]
    } else {
        bars(records, names)
    };
    Section { title: "Rate by frame size".into(), plots, ..Section::default() }
}

/// With a single size, a bar for each rate, and for what bounds them.
fn bars(records: &[Record], names: &Names) -> Vec<Plot> {
    let bar = |record: &Record, q: &Quantity| {
        let (who, size) = (names.who(record), q.size.map(|s| format!(", {s} bytes")).unwrap_or_default());
        let who = if who.is_empty() { who } else { format!("{who}: ") };
        let spread = (q.runs > 1).then_some((of_port(record, q.min, q), of_port(record, q.max, q)));
        let name = format!("{who}{}{size}", words(record, &q.label()));
        Bar { name, origin: Origin::Measured, value: of_port(record, q.value, q), spread }
    };
    let mut bars: Vec<Bar> = records
        .iter()
        .flat_map(|r| r.results.iter().filter(|q| is_rate(q)).map(move |q| bar(r, q)))
        .collect();
    if bars.is_empty() {
        return Vec::new();
    }
    for record in records {
        let mut sizes: Vec<usize> =
            record.results.iter().filter(|q| is_rate(q)).filter_map(|q| q.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let (bound, points) = bound(record, &sizes);
        for (size, value) in points.into_iter().filter(|(size, _)| sizes.contains(&(*size as usize))) {
            let name = format!("{bound}, {size} bytes");
            if bars.iter().all(|bar| bar.name != name) {
                bars.push(Bar { name, origin: Origin::Theory, value, spread: None });
            }
        }
    }
    vec![Plot::Bars { caption: "of each port".into(), unit: "Mpps".into(), bars }]
}

/// What no device on these links, and no measurement of this tester, can exceed.
fn bounds(records: &[Record], measured: &[Series]) -> Vec<Series> {
    let sizes = || measured.iter().flat_map(|s| &s.points).map(|p| p.0 as usize);
    let (least, most) = (sizes().min().unwrap_or(64), sizes().max().unwrap_or(1518));
    let sizes: Vec<usize> = (least..=most).step_by(8).chain([most]).collect();
    let mut lines: Vec<Series> = Vec::new();
    for record in records {
        let (name, points) = bound(record, &sizes);
        if points.len() > 1 && lines.iter().all(|line| line.name != name) {
            lines.push(Series { name, origin: Origin::Theory, colour: 0, points });
        }
    }
    lines
}

/// What bounds the rates of a record: its link at these sizes or, where there is none, the tester at those at which it was calibrated.
fn bound(record: &Record, sizes: &[usize]) -> (String, Vec<(f64, f64)>) {
    match record.number("link") {
        Some(bits) => {
            let rate = |size: usize| ethernet_frames_per_s(bits as u64, size as u64) / 1e6;
            let points = sizes.iter().map(|size| (*size as f64, rate(*size))).collect();
            (format!("a link of {} Gbit/s, in theory", digits(bits / 1e9)), points)
        }
        None => {
            let senders = record.number("senders").unwrap_or(1.0).max(1.0);
            let cable = record.results.iter().filter(|q| q.name.starts_with("test.cable.mpps"));
            let point = |q: &Quantity| q.size.map(|size| (size as f64, q.value / senders));
            let mut points: Vec<(f64, f64)> = cable.filter_map(point).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            ("the tester alone, on a cable".to_owned(), points)
        }
    }
}

/// Rates by workers, if a device was measured with several numbers of them.
pub(super) fn by_workers(records: &[Record]) -> Vec<Section> {
    let mut section = Section { title: "Rate by cores".into(), ..Section::default() };
    let procedure = |r: &Record| {
        format!("{} {}", r.command, r.options()).trim_end().to_owned() + &with_modifier(r.modifier())
    };
    for ((command, device), group) in groups(records, |r| (procedure(r), r.device().to_owned())) {
        let mut counts: Vec<usize> = group.iter().map(|r| r.workers()).collect();
        counts.sort_unstable();
        counts.dedup();
        if counts.len() < 2 {
            continue;
        }
        let (series, table) = scaling(&group, &counts, format!("{command}, {device}"));
        if series.is_empty() {
            continue;
        }
        let series = [&series[..], &in_proportion(&series, &counts)].concat();
        let (x, y) =
            (Axis::new("cores of the device", Scale::Whole), Axis::new("Mpps of each port", Scale::Linear));
        let caption = format!("{command}, {device}");
        section.plots.push(Plot::Lines { caption, x, y, series });
        section.tables.push(table);
    }
    if section.plots.is_empty() { Vec::new() } else { vec![section] }
}

/// What each line would be if its rate grew as the number of workers does, from the fewest on.
fn in_proportion(measured: &[Series], counts: &[usize]) -> Vec<Series> {
    let ideal = |line: &Series| {
        let (first, rate) =
            line.points.first().copied().filter(|(first, rate)| *first > 0.0 && *rate > 0.0)?;
        let from_there = counts.iter().map(|count| *count as f64).filter(|count| *count >= first);
        let points: Vec<(f64, f64)> = from_there.map(|count| (count, rate * count / first)).collect();
        let measured = line.name.trim_end_matches(", in part reached only");
        let name = format!("{measured}, in proportion to the cores");
        // Dashed, in the colour of the line that it belongs to.
        (points.len() > 1).then_some(Series { name, origin: Origin::Modelled, colour: line.colour, points })
    };
    measured.iter().filter_map(ideal).collect()
}

/// A line for each rate and size, and the same as a table.
fn scaling(group: &[&Record], counts: &[usize], caption: String) -> (Vec<Series>, Table) {
    let mut series: Vec<Series> = Vec::new();
    for record in group {
        for q in record.results.iter().filter(|q| is_rate(q)) {
            let size = q.size.map(|size| format!(", {size} bytes")).unwrap_or_default();
            let name = format!("{}{size}", words(record, &q.label()));
            add(&mut series, &name, q, (record.workers() as f64, of_port(record, q.value, q)));
        }
    }
    let mut columns = vec![("rate, Mpps".to_owned(), Origin::Name)];
    columns.extend(counts.iter().map(|count| (workers(*count), Origin::Measured)));
    let mut table = Table { caption, columns, rows: Vec::new() };
    for line in &series {
        let first = line.points.first().map_or(0.0, |p| p.1);
        let cell = |count: &usize| match line.points.iter().find(|p| p.0 == *count as f64) {
            Some((_, rate)) if first > 0.0 => Cell {
                text: digits(*rate),
                spread: Some(format!("{:.2} times", rate / first)),
                missing: false,
            },
            Some((_, rate)) => Cell::number(*rate),
            None => Cell::missing("not measured"),
        };
        let cells = counts.iter().map(cell);
        table.rows.push([Cell::new(line.name.clone())].into_iter().chain(cells).collect());
    }
    (series, table)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::record::Found;
    use super::*;

    /// A trial of two ports that send, on a device with so many workers.
    fn trial(workers: usize) -> Record {
        let mut found = Found::of_size(64);
        for name in ["test.sent_mpps", "test.received_mpps"] {
            found.note(name.to_owned(), "Mpps", 0.1 * workers as f64);
        }
        let conditions = json!({ "device": "x", "senders": 2, "workers": workers });
        found.record("test trial", conditions.as_object().cloned().unwrap_or_default())
    }

    #[test]
    fn what_all_ports_received_is_shown_of_each_port() {
        let records = [trial(1), trial(2)];
        let by_size = by_size(&records[..1], &Names::of(&records[..1]));
        let [Plot::Bars { bars, .. }] = &by_size.plots[..] else { panic!("bars") };
        assert_eq!(bars.iter().map(|bar| bar.value).collect::<Vec<_>>(), [0.05]);
        let by_workers = by_workers(&records);
        let [Plot::Lines { series, .. }] = &by_workers[0].plots[..] else { panic!("lines") };
        assert_eq!(series[0].points, [(1.0, 0.05), (2.0, 0.1)]);
    }

    #[test]
    fn the_proportional_line_begins_with_the_fewest_cores() {
        let line = |name: &str, points: &[(f64, f64)]| Series {
            name: name.to_owned(),
            origin: Origin::Measured,
            colour: 1,
            points: points.to_vec(),
        };
        let measured = [
            line("a, in part reached only", &[(2.0, 3.0), (4.0, 5.0)]),
            line("none", &[(2.0, 0.0)]),
            line("last", &[(4.0, 1.0)]),
        ];
        let ideal = in_proportion(&measured, &[1, 2, 4]);
        let [only] = &ideal[..] else { panic!("{ideal:?}") };
        assert_eq!(only.name, "a, in proportion to the cores");
        assert_eq!((only.points.clone(), only.colour), (vec![(2.0, 3.0), (4.0, 6.0)], 1));
    }
}
