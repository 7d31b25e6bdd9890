// SPDX-License-Identifier: MIT OR Apache-2.0
//! Placements as a file: one `ID = CPUS  # name` a line. Interrupts are found again by their names, since their numbers change
//! from boot to boot.

use crate::change::Change;
use crate::items::{Item, ItemKind};
use planes::Cpus;

/// The first line.
const HEAD: &str = "# junctor affinity, version 1";

/// The text of a file that holds how the items stand.
pub fn write(items: &[Item]) -> String {
    let width = items.iter().map(|i| i.id.len()).max().unwrap_or(0);
    let lines = items.iter().map(|i| format!("{:width$} = {:10} # {}\n", i.id, i.cpus, i.name));
    format!("{HEAD}\n{}", lines.collect::<String>())
}

/// What a file asks for here.
#[derive(Debug, Default)]
pub struct Wanted {
    /// What is to be changed.
    pub changes: Vec<Change>,
    /// Lines of things that are not here.
    pub missing: Vec<String>,
}

/// Reads a file.
///
/// # Errors
/// It is none of ours, or a line makes no sense.
pub fn read(file: &str, items: &[Item]) -> Result<Wanted, String> {
    if file.lines().next().map(str::trim_end) != Some(HEAD) {
        return Err(format!("this is no file of 'junctor affinity save': its first line is not '{HEAD}'"));
    }
    let mut wanted = Wanted::default();
    for (number, line) in file.lines().enumerate().skip(1) {
        let (rule, name) = line.split_once('#').unwrap_or((line, ""));
        if rule.trim().is_empty() {
            continue;
        }
        let bad = || format!("line {}: expected 'ID = CPUS', not '{}'", number + 1, rule.trim());
        let (id, cpus) = rule.split_once('=').ok_or_else(bad)?;
        let cpus = Cpus::parse_list(cpus).ok_or_else(bad)?;
        let (id, name) = (id.trim(), name.trim());
        match find(items, id, name) {
            Some(item) => wanted.changes.extend(Change::of(item, &cpus)),
            None => wanted.missing.push(format!("{id}{}{name}", if name.is_empty() { "" } else { " " })),
        }
    }
    Ok(wanted)
}

fn find<'a>(items: &'a [Item], id: &str, name: &str) -> Option<&'a Item> {
    let mut named =
        items.iter().filter(|i| i.kind == ItemKind::Interrupt && i.name == name && !name.is_empty());
    let by_id = || {
        items
            .iter()
            .find(|i| i.id == id && (i.kind != ItemKind::Interrupt || name.is_empty() || i.name == name))
    };
    match (id.starts_with("irq/"), named.next(), named.next()) {
        (true, Some(only), None) => Some(only),
        _ => by_id(),
    }
}
