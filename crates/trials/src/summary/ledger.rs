// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the documents ask, and whether it was done.

use super::super::record::{Clause, Joined, Record, join};
use report::{Cell, Origin, Section, Table};

/// What a run's ledger says, or that of many runs together: each demand once.
pub(super) fn section(records: &[Record]) -> Section {
    let table = match records {
        [one] => single(&one.command, &one.ledger),
        many => joined(&join(many)),
    };
    let (tables, text) = match table.rows.is_empty() {
        true => (Vec::new(), Vec::new()),
        false if records.len() > 1 => (vec![table], vec![TOGETHER.to_owned()]),
        false => (vec![table], Vec::new()),
    };
    Section { title: "Conformance".into(), text, tables, ..Section::default() }
}

/// How the ledger of many runs is to be read.
const TOGETHER: &str = "A demand is met if every run that it is on meets it. Those on a whole suite (frame sizes, modifiers one by one, \
networks, bursts) are met if the runs of each device with each number of cores meet them together.";

/// Columns of both.
const HEADS: [&str; 4] = ["section", "level", "met", "demand"];

fn empty(caption: &str, met: usize, all: usize, last: &str) -> Table {
    let heads = HEADS.into_iter().chain([last]).map(|head| (head, Origin::Name)).collect::<Vec<_>>();
    Table::new(format!("{caption}: {met} of {all} demands met"), &heads)
}

fn row(section: &str, level: &str, met: bool, demand: &str, why: String) -> Vec<Cell> {
    let verdict = if met { Cell::new("met") } else { Cell::missing("deviated") };
    vec![Cell::new(section), Cell::new(level), verdict, Cell::new(demand), Cell::new(why)]
}

fn single(command: &str, all: &[Clause]) -> Table {
    let met = all.iter().filter(|clause| clause.met).count();
    let mut table = empty(command, met, all.len(), "what was done instead");
    for clause in all {
        let why = clause.deviation.clone().unwrap_or_default();
        table.row(row(&clause.section, &clause.level, clause.met, &clause.demand, why));
    }
    table
}

fn joined(all: &[Joined]) -> Table {
    let met = all.iter().filter(|clause| clause.met).count();
    let mut table = empty("all runs together", met, all.len(), "what was done instead, and where");
    for clause in all {
        let why = clause.deviation.clone().unwrap_or_default();
        table.row(row(&clause.section, &clause.level, clause.met, &clause.demand, why));
    }
    table
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tester::search::setup::{ETHERNET_SIZES, Setup, ledger};

    use super::*;
    use crate::record::Found;

    fn run(device: &str, size: usize) -> Record {
        let mut found = Found::of_size(size);
        let stragglers = Duration::from_secs(if size == 128 { 1 } else { 2 });
        found.deviate(&ledger(&Setup { sizes: vec![size], stragglers, ..Setup::default() }));
        found.record("test rfc2544", json!({ "device": device }).as_object().cloned().unwrap_or_default())
    }

    fn told(records: &[Record], of: &str) -> String {
        let section = section(records);
        let row = section.tables[0].rows.iter().find(|row| row[0].text == of).expect("a demand");
        format!("{} {}", row[2].text, row[4].text)
    }

    /// Runs of a campaign have one frame size each; a device that saw all sizes has seen them, independent of other devices.
    #[test]
    fn sizes_are_those_of_all_runs_of_a_device() {
        let of = |device, sizes: &[usize]| sizes.iter().map(|size| run(device, *size)).collect::<Vec<_>>();
        let all = of("x", &ETHERNET_SIZES);
        assert_eq!(told(&all, "RFC 2544 9"), "met ");
        assert_eq!(told(&all, "RFC 2544 9.1"), "met ");
        assert!(told(&all, "RFC 2544 23 d").starts_with("deviated"), "one run missed it");
        let mut without = run("x", 9000);
        let nothing = Setup { untried: true, ..Setup::default() };
        let mut found = Found::default();
        found.deviate(&ledger(&nothing));
        without.ledger = found.record("test rfc2544", without.conditions.clone()).ledger;
        assert!(told(&[without.clone()], "RFC 2544 25").starts_with("deviated not tried"));
        let beside = [&all[..], &[without]].concat();
        assert_eq!(
            (told(&beside, "RFC 2544 9"), told(&beside, "RFC 2544 25")),
            ("met ".into(), "met ".into())
        );
        let both = [all, of("y", &[64, 1518])].concat();
        assert_eq!(told(&both, "RFC 2544 9"), "deviated 2 sizes: y");
        assert_eq!(told(&both, "RFC 2544 9.1"), "deviated not measured: 128, 256, 512, 1024, 1280 bytes: y");
    }
}
