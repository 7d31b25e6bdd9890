// SPDX-License-Identifier: MIT OR Apache-2.0
//! What labs that run configurations on in-memory devices have in common.

use serde_json::{Value, json};

use super::study::Cell;
use report::progress::Progress;

use super::{Common, Wrong};
use crate::Error;
use reconfigure::balance::Handoff;
use report::measure::{self, Measured};

/// What all parts of a lab need to know, and where they put what they find.
pub(super) struct Setting<'a> {
    pub(super) common: &'a Common,
    /// Cores that are measured on.
    pub(super) cores: usize,
    /// Cores that this machine has.
    pub(super) here: usize,
    /// What packets cost two cores that one hands to the other: the usual, until a lab measures it.
    pub(super) handoff: Handoff,
    pub(super) progress: Progress,
    pub(super) results: Vec<Measured>,
    pub(super) findings: Vec<String>,
    /// Values that no run gave.
    missing: usize,
}

impl<'a> Setting<'a> {
    /// Nothing is found yet.
    pub(super) fn new(common: &'a Common) -> Result<Setting<'a>, Wrong> {
        let (cores, here) = cores(common.cores).map_err(Wrong::Usage)?;
        // Before any thread is bound.
        let _ = measure::machine();
        Ok(Setting {
            common,
            cores,
            here,
            handoff: Handoff::USUAL,
            progress: Progress::new(0),
            results: Vec::new(),
            findings: Vec::new(),
            missing: 0,
        })
    }

    /// Notes a result, and hands it back.
    pub(super) fn note(&mut self, name: impl Into<String>, unit: &'static str, runs: Vec<f64>) -> Measured {
        let measured = Measured::new(name, unit, runs);
        self.results.push(measured.clone());
        measured
    }

    /// The same where runs may have given no value: then there is no result, and [`Setting::turns`] says so.
    pub(super) fn note_if_any(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        runs: Vec<f64>,
    ) -> Option<Measured> {
        let runs: Vec<f64> = runs.into_iter().filter(|value| value.is_finite()).collect();
        if runs.is_empty() {
            self.missing += 1;
            return None;
        }
        Some(self.note(name, unit, runs))
    }

    pub(super) fn find(&mut self, what: String) {
        self.findings.push(what);
    }

    pub(super) fn run_ms(&self) -> u64 {
        self.common.length().as_millis() as u64
    }

    /// In place of a value that takes more cores.
    pub(super) fn too_few(&self) -> String {
        too_few(self.cores)
    }

    /// The conditions, for programs.
    pub(super) fn conditions(&self) -> Value {
        json!({
            "cores": self.cores, "rounds": self.common.rounds(), "run_ms": self.run_ms(), "burst": engine::DEFAULT_BURST,
            "quick": self.common.quick,
        })
    }

    /// How `what` is measured in rounds, in words.
    pub(super) fn rounds_in_words(&self, what: &str) -> String {
        let (rounds, ms) = (self.common.rounds(), self.run_ms());
        let s = if rounds == 1 { "" } else { "s" };
        format!(
            "{rounds} round{s}, in each of which {what} is measured once for {ms} ms in every way, in turn, after one run to warm up. Values are medians over the rounds, with the least and the greatest below them; ratios are taken within a round."
        )
    }

    /// What to say where the study had more cores.
    pub(super) fn fewer_than(&self, study: usize) -> Option<String> {
        (self.cores < study)
            .then(|| format!("Cores: the study had {study}, this run has {} of {}.", self.cores, self.here))
    }

    /// What to say of values that are missing.
    pub(super) fn turns(&self) -> Option<String> {
        (self.missing > 0).then(|| {
            format!(
                "Turns: {} values are missing, because in runs of {} ms a worker had no turn beside what else runs on this machine. A longer --time gives them.",
                self.missing,
                self.run_ms()
            )
        })
    }
}

/// The graph of a configuration of a lab.
pub(super) fn graph(lab: &str, text: &str) -> Result<lang::Graph, Error> {
    let parsed = lang::load_str(lab, text, &elements::options());
    parsed.graph.ok_or_else(|| harness::Error::Configuration(parsed.diagnostics).into())
}

/// How many cores to measure on, if so many are asked for, and how many there are.
fn cores(asked: Option<usize>) -> Result<(usize, usize), Error> {
    let here = std::thread::available_parallelism().map_or(1, usize::from);
    match asked.unwrap_or(here) {
        cores if (1..=here).contains(&cores) => Ok((cores, here)),
        _ => Err(Error::Setting(format!("--cores must lie between 1 and {here}, the cores of this machine"))),
    }
}

/// In place of a value that takes more cores.
pub(super) fn too_few(cores: usize) -> String {
    match cores {
        1 => "1 core here".to_owned(),
        n => format!("{n} cores here"),
    }
}

/// So many cores, in words.
pub(super) fn cores_in_words(n: usize) -> String {
    match n {
        1 => "1 core".to_owned(),
        n => format!("{n} cores"),
    }
}

/// In place of a value that no run gave.
pub(super) const NO_TURN: &str = "missing: a worker had no turn";

/// A measured value, if any run gave one.
pub(super) fn cell(measured: Option<&Measured>) -> Cell {
    measured.map_or_else(|| Cell::missing(NO_TURN), Cell::measured)
}

/// Ratios of two rates of the same round, where both are there.
pub(super) fn ratios(over: &[Option<f64>], under: &[Option<f64>]) -> Vec<f64> {
    let both = over.iter().zip(under).filter_map(|(over, under)| Some(((*over)?, (*under)?)));
    both.filter(|(_, under)| *under > 0.0).map(|(over, under)| over / under).collect()
}

/// A configuration with other words in its lines of traffic: each `key=value` takes the place of the word with its key.
pub(super) fn with_traffic(text: &str, words: &[(&str, usize)]) -> String {
    let lines = text.lines().map(|line| match line.strip_prefix("// bench:") {
        Some(rest) => {
            let given =
                |word: &str| words.iter().any(|(key, _)| word.split_once('=').is_some_and(|w| w.0 == *key));
            let mut kept: Vec<String> =
                rest.split_ascii_whitespace().filter(|word| !given(word)).map(str::to_owned).collect();
            kept.extend(words.iter().map(|(key, value)| format!("{key}={value}")));
            format!("// bench: {}\n", kept.join(" "))
        }
        None => format!("{line}\n"),
    });
    lines.collect()
}

/// Numbers of workers to measure: each up to 4, then twice as many each time, and all.
pub(super) fn counts(cores: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = (1..=cores.min(4)).collect();
    counts.extend((3..).map(|n| 1 << n).take_while(|n| *n < cores));
    if cores > 4 {
        counts.push(cores);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_without_a_value_has_no_ratio() {
        assert_eq!(
            ratios(&[Some(4.0), None, Some(3.0), Some(1.0)], &[Some(2.0), Some(1.0), None, Some(0.0)]),
            [2.0]
        );
        assert!(ratios(&[], &[Some(1.0)]).is_empty());
    }

    #[test]
    fn words_of_the_traffic_are_replaced() {
        let text = "a;\n// bench: eth0 flows=3 src=1.0.0.0/8 length=60\n";
        assert_eq!(
            with_traffic(text, &[("length", 124)]),
            "a;\n// bench: eth0 flows=3 src=1.0.0.0/8 length=124\n"
        );
    }

    #[test]
    fn numbers_of_workers() {
        assert_eq!(counts(1), [1]);
        assert_eq!(counts(2), [1, 2]);
        assert_eq!(counts(6), [1, 2, 3, 4, 6]);
        assert_eq!(counts(8), [1, 2, 3, 4, 8]);
        assert_eq!(counts(24), [1, 2, 3, 4, 8, 16, 24]);
    }
}
