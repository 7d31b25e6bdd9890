// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes that were made, or would be.

use planes::Cpus;
use planes::machine::{Machine, Roots};
use serde_json::{Value, json};

use crate::Change;

/// A change, and what came of it.
pub struct Made<'a> {
    change: &'a Change,
    /// It is only shown.
    dry_run: bool,
    failure: Option<String>,
}

/// Why not all of these changes can be made, if so.
pub fn check(machine: &Machine, changes: &[Change]) -> Option<String> {
    let mut wrong = changes.iter().filter_map(|change| change.check(machine).err());
    let first = wrong.next()?;
    Some(match wrong.count() {
        0 => first,
        more => format!("{first} (and {more} more alike)"),
    })
}

/// Makes changes, unless they are only to be shown. One that fails does not keep the others from being made.
pub fn make<'a>(roots: &Roots, changes: &'a [Change], dry_run: bool) -> Vec<Made<'a>> {
    let make = |change: &'a Change| {
        let failure = if dry_run { None } else { change.apply(roots).err() };
        Made { change, dry_run, failure }
    };
    changes.iter().map(make).collect()
}

impl Made<'_> {
    /// Why it was not made, if so.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// For people; nothing of one that failed.
    pub fn text(&self) -> String {
        let Change { id, from, to, .. } = self.change;
        match (self.dry_run, &self.failure) {
            (true, _) => format!("{}  # {id}: {from} -> {to}\n", self.change.command()),
            (_, None) => format!("{id}: {from} -> {to}\n"),
            _ => String::new(),
        }
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let numbers = |cpus: &Cpus| cpus.iter().collect::<Vec<_>>();
        json!({ "id": self.change.id, "from": numbers(&self.change.from), "to": numbers(&self.change.to),
            "command": self.change.command(), "error": self.failure })
    }
}
