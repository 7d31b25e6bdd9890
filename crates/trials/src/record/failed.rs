// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs of a campaign without a result.

use serde::{Deserialize, Serialize};

/// Why a run has no result, or not all of it. Earlier campaigns recorded only the run and the cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failed {
    /// Which, for people.
    pub(crate) run: String,
    /// As a record of it would have these.
    #[serde(default)]
    pub(crate) command: String,
    #[serde(default)]
    pub(crate) device: String,
    #[serde(default)]
    pub(crate) workers: usize,
    #[serde(default)]
    pub(crate) size: usize,
    #[serde(default)]
    pub(crate) options: String,
    #[serde(default)]
    pub(crate) modifier: String,
    /// What it found before is among the records.
    #[serde(default)]
    pub(crate) part: bool,
    pub(crate) cause: String,
}

/// So many runs are named in a sentence; a campaign's JSON has all.
const NAMED: usize = 8;

/// Some runs in a sentence.
pub(crate) fn named(runs: &[&str]) -> String {
    let names = runs.iter().take(NAMED).copied().collect::<Vec<_>>().join("; ");
    match runs.len().saturating_sub(NAMED) {
        0 => names,
        more => format!("{names}; and {more} more"),
    }
}

/// Each cause once, behind the runs that have no result for it.
pub(crate) fn by_cause<'a>(all: impl IntoIterator<Item = &'a Failed>) -> Vec<(String, &'a str)> {
    let mut causes: Vec<(&str, Vec<&str>)> = Vec::new();
    for failed in all {
        match causes.iter_mut().find(|(cause, _)| *cause == failed.cause) {
            Some((_, runs)) => runs.push(&failed.run),
            None => causes.push((&failed.cause, vec![&failed.run])),
        }
    }
    causes.into_iter().map(|(cause, runs)| (named(&runs), cause)).collect()
}
