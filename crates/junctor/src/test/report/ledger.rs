// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the documents ask, and whether it was done.

use super::super::record::{Clause, Record};
use super::groups;
use crate::report::{Cell, Origin, Section, Table};

/// A table for each procedure: each demand once, as met only if every device met it with each number of workers and all options, in all of
/// its runs.
pub(super) fn section(records: &[Record]) -> Section {
    let mut tables = Vec::new();
    for (command, group) in groups(records, |r| r.command.clone()) {
        let mut all: Vec<Clause> = Vec::new();
        for (_, runs) in groups(group, |r| (r.device().to_owned(), r.workers(), r.options().to_owned())) {
            for clause in joined(&runs) {
                match all.iter_mut().find(|known| known.is_same(&clause)) {
                    Some(known) => clause.deviation.iter().for_each(|how| known.deviate(how)),
                    None => all.push(clause),
                }
            }
        }
        if !all.is_empty() {
            tables.push(table(&command, &all));
        }
    }
    Section { title: "Conformance".into(), tables, ..Section::default() }
}

/// What became of each demand in all these runs of one device together. One that came to no trial takes nothing from the others.
fn joined(runs: &[&Record]) -> Vec<Clause> {
    let mut all: Vec<Clause> = Vec::new();
    let none = !runs.iter().any(|r| r.has_tried());
    for clause in runs.iter().filter(|r| none || r.has_tried()).flat_map(|r| &r.ledger) {
        match all.iter_mut().find(|known| known.is_same(clause)) {
            Some(known) => known.join(clause),
            None => all.push(clause.clone()),
        }
    }
    all
}

fn table(command: &str, all: &[Clause]) -> Table {
    let met = all.iter().filter(|clause| clause.met).count();
    let heads =
        ["section", "level", "met", "demand", "what was done instead"].map(|head| (head, Origin::Name));
    let caption = format!("{command}: {met} of {} demands met", all.len());
    let mut table = Table::new(caption, &heads);
    for clause in all {
        let fate = if clause.met { Cell::new("met") } else { Cell::missing("deviated") };
        let why = clause.deviation.clone().unwrap_or_default();
        let (section, level) = (clause.section.clone(), clause.level.clone());
        let demand = Cell::new(clause.demand.clone());
        table.row(vec![Cell::new(section), Cell::new(level), fate, demand, Cell::new(why)]);
    }
    table
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tester::search::setup::{ETHERNET_SIZES, Setup, ledger};

    use super::*;
    use crate::test::record::Found;

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

    /// Runs of a campaign have one frame size each; a device that saw all sizes has seen them, whatever another one has.
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
        assert_eq!(told(&both, "RFC 2544 9"), "deviated 2 sizes");
        assert_eq!(told(&both, "RFC 2544 9.1"), "deviated not measured: 128, 256, 512, 1024, 1280 bytes");
    }
}
