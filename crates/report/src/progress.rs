// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far long work has come: a bar on a terminal, and a line for each part of the work elsewhere.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::time::Instant;

use crate::errln;

/// Columns of the bar.
const WIDTH: usize = 30;

/// Steps of which the number is known before.
pub struct Progress {
    steps: usize,
    done: usize,
    what: String,
    terminal: bool,
    started: Instant,
}

impl Progress {
    /// So many steps.
    pub fn new(steps: usize) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        Progress { steps: steps.max(1), done: 0, what: String::new(), terminal, started: Instant::now() }
    }

    /// A part of the work begins.
    pub fn part(&mut self, what: impl Into<String>) {
        self.what = what.into();
        if self.terminal {
            self.draw();
        } else {
            errln!("[{:3} %] {}", self.percent(), self.what);
        }
    }

    /// A line of its own, above the bar.
    pub fn say(&self, what: &str) {
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        errln!("{clear}{what}");
    }

    /// More steps than were thought.
    pub fn expect(&mut self, steps: usize) {
        self.steps += steps;
    }

    /// One step is done.
    pub fn step(&mut self) {
        self.done += 1;
        if self.terminal {
            self.draw();
        }
    }

    fn percent(&self) -> usize {
        (100 * self.done / self.steps).min(100)
    }

    fn bar(&self) -> String {
        let full = (WIDTH * self.done / self.steps).min(WIDTH);
        let mut line = format!("[{:<WIDTH$}] {:3} %", "#".repeat(full), self.percent());
        let passed = self.started.elapsed().as_secs_f64();
        if self.done > 0 && passed > 2.0 {
            let left = passed * (self.steps.saturating_sub(self.done)) as f64 / self.done as f64;
            let _ = write!(line, " {left:.0} s left");
        }
        line
    }

    fn draw(&self) {
        // Back to the first column, and nothing left of a longer line.
        let mut out = std::io::stderr().lock();
        let _ = write!(out, "\r\x1b[K{}  {}", self.bar(), self.what).and_then(|()| out.flush());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills() {
        let mut progress = Progress::new(4);
        progress.terminal = false;
        assert_eq!(progress.bar(), format!("[{}]   0 %", " ".repeat(WIDTH)));
        (0..2).for_each(|_| progress.step());
        assert!(progress.bar().starts_with(&format!("[{}{}]  50 %", "#".repeat(15), " ".repeat(15))));
        (0..9).for_each(|_| progress.step());
        assert!(progress.bar().ends_with("100 %"));
    }
}
