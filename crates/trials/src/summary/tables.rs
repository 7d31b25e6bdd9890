// SPDX-License-Identifier: MIT OR Apache-2.0
//! All results by frame size, and all trials.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::{Map, Value};

use super::super::quantiles::{self, QUANTILES};
use super::super::record::{FlowRow, Quantity, Record, TrialRow};
use super::{Names, groups, rates, words};
use report::{Cell, Origin, Section, Table, digits};

/// Tables for each device and procedure. Those of tests with several frame sizes have a row for each size (RFC 2544 26), that of a single
/// trial one for each quantity.
pub(super) fn results(records: &[Record], names: &Names) -> Section {
    let some = |(_, group): (_, Vec<&Record>)| {
        let has_sizes = group[0].procedure() != "trial"
            && group.iter().flat_map(|r| &r.results).any(|q| q.size.is_some());
        if has_sizes { by_size(&group, names) } else { vec![by_quantity(&group, names)] }
    };
    let key = |r: &Record| {
        let of_procedure = [&r.command, r.options(), r.modifier()].map(str::to_owned);
        (of_procedure, r.device().to_owned(), r.workers())
    };
    let tables = groups(records, key).into_iter().flat_map(some).filter(|t| !t.rows.is_empty()).collect();
    Section { title: "All results".into(), tables, ..Section::default() }
}

/// A quantity of a group of records, of any size.
type Named = (String, String);

/// The quantities of these records, in the order in which they first come: label and unit.
fn quantities(group: &[&Record]) -> Vec<Named> {
    let mut all: Vec<Named> = Vec::new();
    for quantity in group.iter().flat_map(|r| &r.results) {
        let named = (quantity.label(), quantity.unit.clone());
        if !all.contains(&named) {
            all.push(named);
        }
    }
    all
}

fn find<'a>(group: &[&'a Record], label: &str, size: Option<usize>) -> Option<&'a Quantity> {
    group.iter().flat_map(|r| &r.results).find(|q| q.size == size && q.label() == label)
}

fn sizes(group: &[&Record]) -> Vec<Option<usize>> {
    let sizes: BTreeSet<Option<usize>> = group.iter().flat_map(|r| &r.results).map(|q| q.size).collect();
    sizes.into_iter().collect()
}

fn caption(record: &Record, names: &Names) -> String {
    let who = names.who(record);
    if who.is_empty() { format!("{}, {}", record.procedure(), record.device()) } else { who }
}

/// Whether a quantity is also reported as a share of the link.
fn has_share(group: &[&Record], label: &str, sizes: &[Option<usize>]) -> bool {
    let is_rate = |size: &Option<usize>| find(group, label, *size).is_some_and(rates::is_rate);
    group[0].number("link").is_some() && sizes.iter().any(is_rate)
}

fn share(record: &Record, found: Option<&Quantity>) -> Cell {
    let share = found.and_then(|q| rates::share_of_link(record, q));
    share.map_or_else(|| Cell::new(""), |share| Cell::new(format!("{:.2}", 100.0 * share)))
}

/// Columns that fit next to each other.
const COLUMNS: usize = 8;

/// Parts at the end of a name that say which of several values of one quantity it is.
const STATISTICS: [&str; 8] =
    ["min", "mean", "average", "max", "typical", "worst", "by_loss", "by_timestamps"];

/// What a label is a value of: `latency_us.p99.9` is one of `latency_us`.
fn topic(label: &str) -> &str {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    match label.rsplit_once('.') {
        Some((rest, last))
            if is_number(last.strip_prefix('p').unwrap_or(last)) || STATISTICS.contains(&last) =>
        {
            topic(rest)
        }
        _ => label,
    }
}

/// A row for each size: a table for each quantity of which there are several values, and before these one of the others.
fn by_size(group: &[&Record], names: &Names) -> Vec<Table> {
    let mut topics: Vec<(String, Vec<Named>)> = Vec::new();
    for named in quantities(group) {
        let topic = topic(&named.0).to_owned();
        match topics.iter_mut().find(|(known, _)| *known == topic) {
            Some((_, some)) => some.push(named),
            None => topics.push((topic, vec![named])),
        }
    }
    let (many, few): (Vec<_>, Vec<_>) = topics.into_iter().partition(|(_, some)| some.len() > 2);
    let few: Vec<Named> = few.into_iter().flat_map(|(_, some)| some).collect();
    let caption = caption(group[0], names);
    let few = few.chunks(COLUMNS).map(|some| sized(group, caption.clone(), "", some));
    let many = many.iter().map(|(topic, some)| {
        let about = words(group[0], topic);
        sized(group, format!("{caption}: {about}"), &about, some)
    });
    few.chain(many).collect()
}

/// A row for each size, of these quantities, which are all about the same.
fn sized(group: &[&Record], caption: String, about: &str, quantities: &[Named]) -> Table {
    let (record, sizes) = (group[0], sizes(group));
    let mut columns = vec![("frame, bytes".to_owned(), Origin::Name)];
    let mut rows: Vec<Vec<Cell>> =
        sizes.iter().map(|size| vec![Cell::new(size.map_or("all".to_owned(), |s| s.to_string()))]).collect();
    for (label, unit) in quantities {
        let name = words(record, label);
        let name = match name.strip_prefix(about).map(str::trim_start) {
            Some(rest) if !rest.is_empty() => rest.to_owned(),
            _ => name,
        };
        let head = if unit.is_empty() { name.clone() } else { format!("{name}, {unit}") };
        columns.push((head, Origin::Measured));
        let found = |size: &Option<usize>| find(group, label, *size);
        for (row, size) in rows.iter_mut().zip(&sizes) {
            row.push(found(size).map_or_else(|| Cell::new(""), cell));
        }
        if has_share(group, label, &sizes) {
            columns.push((format!("{name}, of the link, %"), Origin::Measured));
            rows.iter_mut().zip(&sizes).for_each(|(row, size)| row.push(share(record, found(size))));
        }
    }
    // What was not measured of a size has no row.
    rows.retain(|row| row[1..].iter().any(|cell| !cell.text.is_empty()));
    Table { caption, columns, rows }
}

/// A row for each quantity.
fn by_quantity(group: &[&Record], names: &Names) -> Table {
    let (record, sizes) = (group[0], sizes(group));
    let head = |size: &Option<usize>| {
        (size.map_or_else(|| "all".to_owned(), |size| format!("{size} bytes")), Origin::Measured)
    };
    let mut columns = vec![("quantity".to_owned(), Origin::Name), ("unit".to_owned(), Origin::Name)];
    columns.extend(sizes.iter().map(head));
    let mut table = Table { caption: caption(record, names), columns, rows: Vec::new() };
    for (label, unit) in quantities(group) {
        let cells: Vec<Option<&Quantity>> = sizes.iter().map(|size| find(group, &label, *size)).collect();
        let name = Cell::new(words(record, &label));
        let values = cells.iter().map(|found| found.map_or_else(|| Cell::new(""), cell));
        table.rows.push([name.clone(), Cell::new(unit)].into_iter().chain(values).collect());
        if has_share(group, &label, &sizes) {
            let name = Cell::new(format!("{}, of the link", name.text));
            let shares = cells.iter().map(|found| share(record, *found));
            table.rows.push([name, Cell::new("%")].into_iter().chain(shares).collect());
        }
    }
    table
}

fn cell(quantity: &Quantity) -> Cell {
    // What is counted has no parts of one; and a loss of one frame in millions is no zero.
    let is_counted = ["", "frames", "addresses"].contains(&quantity.unit.as_str());
    let number = |value: f64| match value.abs() {
        _ if is_counted && value.fract() == 0.0 => format!("{value:.0}"),
        small if small != 0.0 && small < 0.01 => format!("{value:.3e}"),
        _ => digits(value),
    };
    let spread = (quantity.runs > 1).then(|| format!("{} to {}", number(quantity.min), number(quantity.max)));
    let limited = quantity.tester_limited.then(|| LIMITED.to_owned());
    let text = number(quantity.value);
    let text = if quantity.at_least { format!("≥ {text}") } else { text };
    let below: Vec<String> = spread.into_iter().chain(limited).collect();
    let spread = (!below.is_empty()).then(|| below.join("; "));
    Cell { text, spread, missing: quantity.tester_limited }
}

/// How a value is marked that is of another load than was asked for.
pub(super) const LIMITED: &str = "tester-limited";

/// Columns of the list of trials.
const TRIAL: [&str; 8] = ["for", "Mpps", "s", "intended", "sent", "received", "lost", "unsent"];

/// And how the tester kept to its schedule.
const PACING: [&str; 4] = ["from due p50, us", "from due p99, us", "left late p99, us", "left late max, us"];

/// Every trial, a table for each device, procedure and size.
pub(super) fn trials(records: &[Record], names: &Names) -> Section {
    let mut tables = Vec::new();
    for record in records {
        let mut sizes: Vec<usize> = record.trials.iter().map(|trial| trial.size).collect();
        sizes.dedup();
        for size in sizes {
            let all: Vec<&TrialRow> = record.trials.iter().filter(|trial| trial.size == size).collect();
            let who = names.who(record);
            let who = if who.is_empty() { who } else { format!("{who}, ") };
            let latency: Vec<String> = QUANTILES.iter().map(|q| format!("{}, us", q.name)).collect();
            let heads = TRIAL.into_iter().chain(latency.iter().map(String::as_str)).chain(PACING);
            let columns: Vec<(&str, Origin)> = heads
                .enumerate()
                .map(|(i, head)| (head, [Origin::Name, Origin::Measured][i.min(1)]))
                .collect();
            let many = if all.len() == 1 { "" } else { "s" };
            let mut table = Table::new(format!("{who}{size} bytes: {} trial{many}", all.len()), &columns);
            all.iter().for_each(|trial| table.row(trial_row(trial)));
            tables.push(table);
        }
    }
    Section { title: "Trials".into(), tables, folded: true, ..Section::default() }
}

/// So many trials of a size have their flows listed.
const FLOWS_OF: usize = 10;

/// Columns of flows.
const FLOW: [&str; 12] = [
    "for",
    "Mpps",
    "flows with loss",
    "from",
    "to",
    "sent",
    "received",
    "lost",
    "reordered",
    "duplicates",
    "stale",
    "misrouted",
];

/// The worst flows of trials in which not all frames of each arrived once, in order, where they should; a table for each device, procedure
/// and size. Where there are many such trials, those at the lowest rates: at high ones loss is no surprise.
pub(super) fn flows(records: &[Record], names: &Names) -> Section {
    let columns: Vec<(&str, Origin)> = FLOW
        .iter()
        .map(|head| {
            (*head, if ["for", "from", "to"].contains(head) { Origin::Name } else { Origin::Measured })
        })
        .collect();
    let mut tables = Vec::new();
    for record in records {
        let all: Vec<&TrialRow> = record.trials.iter().filter(|trial| !trial.flows.is_empty()).collect();
        let mut sizes: Vec<usize> = all.iter().map(|trial| trial.size).collect();
        sizes.dedup();
        for size in sizes {
            let mut of_size: Vec<&TrialRow> =
                all.iter().filter(|trial| trial.size == size).copied().collect();
            let count = of_size.len();
            // Those of one rate stay in their order.
            of_size.sort_by(|a, b| a.rate.total_cmp(&b.rate));
            of_size.truncate(FLOWS_OF);
            let who = names.who(record);
            let who = if who.is_empty() { who } else { format!("{who}, ") };
            let which = match count {
                1 => "1 trial".to_owned(),
                few if few <= FLOWS_OF => format!("{few} trials"),
                many => format!("of {many} trials, the {FLOWS_OF} at the lowest rates"),
            };
            let mut table = Table::new(format!("{who}{size} bytes: {which}"), &columns);
            of_size.iter().for_each(|trial| flow_rows(trial).into_iter().for_each(|row| table.row(row)));
            tables.push(table);
        }
    }
    Section {
        title: "Flows that lost frames, or had others go wrong".into(),
        tables,
        folded: true,
        ..Section::default()
    }
}

/// A row for each flow that a trial reports, and one for the other flows.
fn flow_rows(trial: &TrialRow) -> Vec<Vec<Cell>> {
    let begin = || {
        let rate = format!("{:.4}", trial.rate / 1e6);
        [trial.phase.clone(), rate, trial.flows_with_loss.to_string()].map(Cell::new)
    };
    let row = |flow: &FlowRow| {
        let end = |address, port| Cell::new(SocketAddr::new(address, port).to_string());
        let FlowRow { sent, received, lost, reordered, duplicates, stale, misrouted, .. } = *flow;
        let counts = [sent, received, lost, reordered, duplicates, stale, misrouted];
        let ends = [end(flow.src, flow.src_port), end(flow.dst, flow.dst_port)];
        begin().into_iter().chain(ends).chain(counts.map(|frames| Cell::new(frames.to_string()))).collect()
    };
    let mut rows: Vec<Vec<Cell>> = trial.flows.iter().map(row).collect();
    if trial.flows_left_out > 0 {
        let more = Cell::new(format!("{} more flows", trial.flows_left_out));
        let rest = std::iter::repeat_n(Cell::new(""), FLOW.len() - 4);
        rows.push(begin().into_iter().chain([more]).chain(rest).collect());
    }
    rows
}

/// Columns of what machines did.
const MACHINE: [&str; 10] = [
    "for",
    "Mpps",
    "machine",
    "busy, %",
    "softirqs, %",
    "interrupts/s",
    "softirqs/s",
    "received, Mpps",
    "sent, Mpps",
    "dropped/s",
];

/// What the machines of a test did in each trial, as their agents reported; a table for each device and procedure.
pub(super) fn machines(records: &[Record], names: &Names) -> Section {
    let columns: Vec<(&str, Origin)> = MACHINE
        .iter()
        .map(|head| (*head, if ["for", "machine"].contains(head) { Origin::Name } else { Origin::Measured }))
        .collect();
    let mut tables = Vec::new();
    for record in records {
        let mut table = Table::new(names.who(record), &columns);
        for trial in &record.trials {
            for (machine, row) in &trial.machines {
                let share = |share: f64| Cell::new(format!("{:.1}", 100.0 * share));
                let rate = |kind: &str| Cell::new(format!("{:.0}", row.sum(kind)));
                let mpps = |kind: &str| Cell::new(format!("{:.4}", row.sum(kind)));
                table.row(vec![
                    Cell::new(trial.phase.clone()),
                    Cell::new(format!("{:.4}", trial.rate / 1e6)),
                    Cell::new(machine.clone()),
                    share(row.busy_share),
                    share(row.softirq_share),
                    rate("interrupts_per_s."),
                    rate("softirqs_per_s."),
                    mpps("rx_mpps."),
                    mpps("tx_mpps."),
                    Cell::new(format!("{:.0}", row.sum("rx_dropped_per_s.") + row.sum("tx_dropped_per_s."))),
                ]);
            }
        }
        tables.extend((!table.rows.is_empty()).then_some(table));
    }
    Section { title: "What the machines did".into(), tables, folded: true, ..Section::default() }
}

fn trial_row(trial: &TrialRow) -> Vec<Cell> {
    let us = |times: &Option<Map<String, Value>>, name: &str| {
        let value = times.as_ref().and_then(|all| all.get(name)).and_then(Value::as_f64);
        // Of what did not arrive nothing is known; of few frames no far quantile is.
        Cell::new(if times.is_some() { quantiles::cell(value) } else { String::new() })
    };
    let count = |frames: u64| Cell::new(frames.to_string());
    let phase = match &trial.invalid {
        Some(why) => Cell::missing(format!("invalid: {why}")),
        None => Cell::new(trial.phase.clone()),
    };
    let marked = |frames: u64| Cell { missing: frames > 0, ..count(frames) };
    let bound = |frames: u64| Cell::new(format!("{}{frames}", if trial.at_least { "≥ " } else { "" }));
    let mut cells = vec![
        phase,
        Cell::new(format!("{:.4}", trial.rate / 1e6)),
        Cell::new(trial.seconds.to_string()),
        count(trial.intended),
        bound(trial.sent),
        bound(trial.received),
        count(trial.lost),
        marked(trial.unsent),
    ];
    cells.extend(QUANTILES.map(|quantile| us(&trial.latency_us, quantile.name)));
    cells.extend(["p50", "p99"].map(|name| us(&trial.response_us, name)));
    cells.extend(["p99", "max"].map(|name| us(&trial.lateness_us, name)));
    cells
}
