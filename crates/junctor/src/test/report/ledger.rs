// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the documents ask, and whether it was done.

use super::super::record::{Clause, Record};
use super::groups;
use crate::report::{Cell, Origin, Section, Table};

/// A table for each procedure: each demand once, as met only if every run met it.
pub(super) fn section(records: &[Record]) -> Section {
    let mut tables = Vec::new();
    for (command, group) in groups(records, |r| r.command.clone()) {
        let mut all: Vec<Clause> = Vec::new();
        for clause in group.iter().flat_map(|r| &r.ledger) {
            match all
                .iter_mut()
                .find(|known| known.section == clause.section && known.demand == clause.demand)
            {
                Some(known) => clause.deviation.iter().for_each(|how| known.deviate(how)),
                None => all.push(clause.clone()),
            }
        }
        if !all.is_empty() {
            tables.push(table(&command, &all));
        }
    }
    Section { title: "Conformance".into(), tables, ..Section::default() }
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
