// SPDX-License-Identifier: MIT OR Apache-2.0
//! What modifiers cost: rates and latencies under each, next to those without (RFC 2544 11).

use super::super::record::{Quantity, Record};
use super::tables::LIMITED;
use super::{groups, rates, words, workers};
use report::{Cell, Origin, Section, Table, digits};

/// Latencies that are reported next to rates.
const LATENCIES: [&str; 2] = ["latency_us.p50", "latency_us.p99"];

/// A table for each test of each device that a campaign has done without a modifier and with one.
pub(super) fn section(records: &[Record]) -> Section {
    let test = |r: &Record| (r.command.clone(), r.options().to_owned(), r.device().to_owned(), r.workers());
    let under = records.iter().filter(|record| !record.modifier().is_empty());
    let tables: Vec<Table> = groups(under, test).into_iter().filter_map(|(_, group)| table(&group)).collect();
    let text = if tables.is_empty() { Vec::new() } else { vec![TEXT.to_owned()] };
    Section { title: "What modifiers cost".into(), text, tables, ..Section::default() }
}

const TEXT: &str = "Below each value stands by how much it differs from that of the same test without modifiers. \
Filters, networks and bursts have a measurement without them in the same run, too.";

fn table(group: &[&Record]) -> Option<Table> {
    let (plain, modified): (Vec<&Record>, Vec<_>) = group.iter().partition(|r| r.modifier() == "none");
    let first = plain.first().filter(|_| !modified.is_empty())?;
    let told = |record: &&Record| {
        let of = |q: &Quantity| (record.modifier().to_owned(), q.label().replace("reached", "throughput"));
        record.results.iter().filter(|q| is_told(q)).map(of).collect::<Vec<_>>()
    };
    let mut rows: Vec<(String, String)> = Vec::new();
    for row in plain.iter().chain(&modified).flat_map(told) {
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let mut sizes: Vec<Option<usize>> =
        group.iter().flat_map(|r| &r.results).filter(|q| is_told(q)).map(|q| q.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let heads = ["with", "quantity", "unit"].map(|head| (head.to_owned(), Origin::Name));
    let by_size = |size: &Option<usize>| {
        (size.map_or("all".to_owned(), |size| format!("{size} bytes")), Origin::Measured)
    };
    let columns = heads.into_iter().chain(sizes.iter().map(by_size)).collect();
    let test = format!("{} {}", first.procedure(), first.options());
    let caption = format!("{}, {}, {}", test.trim_end(), first.device(), workers(first.workers()));
    let mut table = Table { caption, columns, rows: Vec::new() };
    for (modifier, label) in &rows {
        let of: Vec<&Record> = group.iter().filter(|r| r.modifier() == modifier).copied().collect();
        let unit = of.iter().find_map(|r| r.results.iter().find(|q| is_of(q, label)));
        let head = [modifier.clone(), words(first, label), unit.map(|q| q.unit.clone()).unwrap_or_default()];
        let cells = sizes.iter().map(|size| {
            let before = find(&plain, label, *size).or_else(|| find(&plain, &without_variant(label), *size));
            let before = before.filter(|_| modifier != "none");
            find(&of, label, *size).map_or_else(|| Cell::new(""), |q| cell(q, before))
        });
        table.rows.push(head.map(Cell::new).into_iter().chain(cells).collect());
    }
    (!table.rows.is_empty()).then_some(table)
}

fn is_told(q: &Quantity) -> bool {
    // The tester itself has no modifiers.
    if q.name.starts_with("test.cable.") {
        return false;
    }
    let is_rate = rates::is_rate(q) && !q.name.contains("_bound_");
    is_rate || LATENCIES.iter().any(|what| q.label().ends_with(what))
}

/// Whether a quantity is called so, independent of what limited it.
fn is_of(q: &Quantity, label: &str) -> bool {
    q.label().replace("reached", "throughput") == label
}

fn find<'a>(records: &[&'a Record], label: &str, size: Option<usize>) -> Option<&'a Quantity> {
    records.iter().flat_map(|r| &r.results).find(|q| q.size == size && is_of(q, label))
}

/// `rfc2544.filters_25.throughput_mpps` is `rfc2544.throughput_mpps` where nothing is changed.
fn without_variant(label: &str) -> String {
    let mut parts: Vec<&str> = label.split('.').collect();
    if parts.len() > 2 {
        parts.remove(1);
    }
    parts.join(".")
}

/// A value, and what it differs by from another one. Of bounds and of other loads than were asked for that is not known.
fn cell(q: &Quantity, before: Option<&Quantity>) -> Cell {
    let is_known = |q: &Quantity| !q.is_bound() && !q.tester_limited;
    let change = before.filter(|before| is_known(before) && is_known(q) && before.value != 0.0);
    let spread = change.map(|before| format!("{:+.1} %", 100.0 * (q.value / before.value - 1.0)));
    let spread = if q.tester_limited { Some(LIMITED.to_owned()) } else { spread };
    let bound = if q.is_bound() { "≥ " } else { "" };
    Cell { text: format!("{bound}{}", digits(q.value)), spread, missing: q.tester_limited }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::record::Found;
    use super::*;

    fn run(modifier: &str, results: &[(&str, f64)]) -> Record {
        let mut found = Found::of_size(64);
        for (name, value) in results {
            let unit = if name.contains("_us") { "us" } else { "Mpps" };
            found.note(format!("test.rfc2544.{name}.64"), unit, *value);
        }
        let conditions = json!({ "device": "x", "modifier": modifier });
        found.record("test rfc2544", conditions.as_object().cloned().unwrap_or_default())
    }

    #[test]
    fn what_differs_is_told_beside_what_it_differs_from() {
        let all = [
            run("none", &[("throughput_mpps", 2.0), ("latency_us.p50", 10.0)]),
            run("broadcast", &[("throughput_mpps", 1.0), ("latency_us.p50", 15.0), ("latency_us.p90", 1.0)]),
            run("filters", &[("throughput_mpps", 2.0), ("filters_25.throughput_mpps", 0.5)]),
            run("routing", &[("reached_mpps", 3.0)]),
        ];
        let section = section(&all);
        let [table] = &section.tables[..] else { panic!("{:?}", section.tables) };
        let told: Vec<String> = table
            .rows
            .iter()
            .map(|row| {
                format!("{}: {} {}", row[0].text, row[1].text, row[3].spread.clone().unwrap_or_default())
            })
            .collect();
        assert_eq!(
            told,
            [
                "none: throughput ",
                "none: latency p50 ",
                "broadcast: throughput -50.0 %",
                "broadcast: latency p50 +50.0 %",
                "filters: throughput +0.0 %",
                "filters: filters 25 throughput -75.0 %",
                "routing: throughput ",
            ]
        );
        assert_eq!(table.rows[6][3].text, "≥ 3.00");
        assert!(super::section(&all[..1]).tables.is_empty() && super::section(&all[1..]).tables.is_empty());
    }
}
