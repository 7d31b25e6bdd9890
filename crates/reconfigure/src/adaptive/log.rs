// SPDX-License-Identifier: MIT OR Apache-2.0
//! The decision log: what was moved when and why, and what came of it.

use std::collections::VecDeque;
use std::fmt;

/// Decisions that are remembered.
const KEPT: usize = 200;

/// What came of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The tasks were moved; the gain is measured in the next period.
    Moved,
    /// The gain was there.
    Kept,
    /// It was not, and the tasks go back.
    Disappointed,
    /// Other traffic came, or somebody else moved tasks.
    Unknown,
    /// This was the way back.
    Returned,
    /// It was tried for one period.
    Tried,
    /// What was tried, or had disappointed, is better than the periods around it, and comes again.
    Again,
    /// The tasks could not be moved.
    Refused(String),
}

/// One decision.
#[derive(Clone, Debug)]
pub struct Entry {
    /// When, in seconds.
    pub at: f64,
    /// Tasks, from which worker, to which.
    pub moves: Vec<(String, usize, usize)>,
    /// The placement that came.
    pub homes: Vec<usize>,
    /// Load of each worker before.
    pub loads: Vec<f64>,
    /// The same as predicted.
    pub expected: Vec<f64>,
    /// How much more the busiest worker could do, as predicted.
    pub predicted: f64,
    /// How much more than predicted it may be, if that is why it was tried.
    pub margin: Option<f64>,
    /// The same as measured one period later, and then compared with what came after it.
    pub observed: Option<f64>,
    /// What came of it.
    pub outcome: Outcome,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent =
            |loads: &[f64]| loads.iter().map(|l| format!("{:.0}%", l * 100.0)).collect::<Vec<_>>().join(" ");
        let moves = self.moves.iter().map(|(name, from, to)| format!("{name} {from}->{to}"));
        let moves = moves.collect::<Vec<_>>().join(", ");
        write!(f, "{:.3} ", self.at)?;
        match self.outcome {
            Outcome::Returned => return write!(f, "back: {moves}; loads {}", percent(&self.loads)),
            Outcome::Again => return write!(f, "again: {moves}; loads {}", percent(&self.loads)),
            _ => {}
        }
        let what = if self.margin.is_some() { "tried" } else { "moved" };
        write!(f, "{what} {moves}; loads {}, predicted {}", percent(&self.loads), percent(&self.expected))?;
        write!(f, "; gain predicted {:+.1}%", self.predicted * 100.0)?;
        if let Some(margin) = self.margin {
            write!(f, " and up to {:.1}% more", margin * 100.0)?;
        }
        if let Some(observed) = self.observed {
            write!(f, ", observed {:+.1}%", observed * 100.0)?;
        }
        match &self.outcome {
            Outcome::Moved => write!(f, ", not measured yet"),
            Outcome::Kept | Outcome::Returned | Outcome::Tried | Outcome::Again => Ok(()),
            Outcome::Disappointed => write!(f, ": a contradiction"),
            Outcome::Unknown => write!(f, ": other traffic, or others moved tasks: nothing can be said"),
            Outcome::Refused(why) => write!(f, "; not done: {why}"),
        }
    }
}

/// The last decisions.
#[derive(Clone, Debug, Default)]
pub struct Log(VecDeque<Entry>);

impl Log {
    pub(super) fn push(&mut self, entry: Entry) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(entry);
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut Entry> {
        self.0.back_mut()
    }

    /// The last to bring a placement for the sake of a gain.
    pub(super) fn last_to(&mut self, homes: &[usize]) -> Option<&mut Entry> {
        let gains = |e: &Entry| !matches!(e.outcome, Outcome::Returned | Outcome::Again);
        self.0.iter_mut().rev().find(|e| gains(e) && e.homes == homes)
    }

    /// All that are remembered, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.0.iter()
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|entry| writeln!(f, "{entry}"))
    }
}
