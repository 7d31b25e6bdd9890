// SPDX-License-Identifier: MIT OR Apache-2.0
//! The texts below the options in a command's help, broken to fit the terminal.
//!
//! clap breaks what is too long wherever it is, so that tables lose their shape. Here what does not fit goes on in its column, and what
//! the source of the text has broken is joined first.

use clap::Command;
use textwrap::{Options, WordSplitter};

/// Wider lines are hard to read.
const WIDEST: usize = 100;
/// A line of prose that is shorter ends where it is to end.
const FULL: usize = 72;

/// A command whose texts, and whose subcommands', fit the terminal.
pub(super) fn fitted(command: Command) -> Command {
    let columns = || std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let width = terminal_size::terminal_size().map(|(width, _)| width.0.into()).or_else(columns);
    fitted_to(command, width.unwrap_or(WIDEST).clamp(40, WIDEST))
}

/// The same for so many columns.
pub(super) fn fitted_to(command: Command, width: usize) -> Command {
    fit(command.term_width(width), width)
}

fn fit(command: Command, width: usize) -> Command {
    let text = command.get_after_help().map(|text| reflow(&text.to_string(), width));
    let command = text.into_iter().fold(command, Command::after_help);
    command.mut_subcommands(|below| fit(below, width))
}

/// What is one line, if there is room.
struct Paragraph {
    indent: usize,
    /// Where an explanation begins, behind two spaces or more.
    column: Option<usize>,
    text: String,
    last: usize,
}

impl Paragraph {
    fn new(line: &str) -> Paragraph {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        let column = text.find("  ").map(|at| {
            let rest = text[at..].trim_start();
            line.chars().count() - rest.chars().count()
        });
        Paragraph { indent, column, text: text.to_owned(), last: line.len() }
    }

    /// Takes a line that goes on with it.
    fn join(&mut self, line: &Paragraph) -> bool {
        let goes_on = match self.column {
            Some(column) => line.indent == column,
            // Examples and the like stand two spaces to the right, one a line.
            None => line.indent == self.indent && (self.indent == 0 || self.indent > 8) && self.last > FULL,
        };
        if goes_on && !self.text.is_empty() && !line.text.is_empty() && line.column.is_none() {
            self.text = format!("{} {}", self.text, line.text);
            self.last = line.last;
            return true;
        }
        false
    }

    fn lines(&self, width: usize) -> String {
        let fill = |text: &str, indent, hang| {
            let (first, rest) = (" ".repeat(indent), " ".repeat(hang));
            let options = Options::new(width)
                .initial_indent(&first)
                .subsequent_indent(&rest)
                .break_words(false)
                .word_splitter(WordSplitter::NoHyphenation);
            textwrap::fill(text, options)
        };
        let fits = self.indent + self.text.chars().count() <= width;
        // What goes on is not taken for the next example.
        let deeper = self.indent + if (1..=8).contains(&self.indent) { 4 } else { 0 };
        match self.column {
            Some(column) if fits || column <= width / 2 => fill(&self.text, self.indent, column),
            // A column that leaves too little room begins below.
            Some(_) => {
                let (left, right) = self.text.split_once("  ").unwrap_or((&self.text, ""));
                format!(
                    "{}\n{}",
                    fill(left, self.indent, deeper),
                    fill(right.trim_start(), self.indent + 6, self.indent + 6)
                )
            }
            None => fill(&self.text, self.indent, deeper),
        }
    }
}

fn reflow(text: &str, width: usize) -> String {
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    for line in text.lines().map(Paragraph::new) {
        if !paragraphs.last_mut().is_some_and(|before| before.join(&line)) {
            paragraphs.push(line);
        }
    }
    paragraphs.iter().map(|paragraph| paragraph.lines(width)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn what_does_not_fit_goes_on_in_its_column() {
        let text = "Prose that is longer than what counts as a full line, and therefore goes on in the\nnext one.\n\n\
                    Devices:\n  cable      two ports that are joined, in memory, or by\n             a cable\n  other      one";
        assert_eq!(
            reflow(text, 40),
            "Prose that is longer than what counts as\na full line, and therefore goes on in\nthe next one.\n\n\
             Devices:\n  cable      two ports that are joined,\n             in memory, or by a cable\n  other      one"
        );
        assert!(
            reflow(text, 100)
                .contains("\n  cable      two ports that are joined, in memory, or by a cable\n")
        );
    }

    #[test]
    fn examples_stay_one_a_line() {
        let text = format!(
            "Examples:\n  junctor {0}\n  junctor {0}      {1}",
            "word ".repeat(14).trim_end(),
            "why ".repeat(9)
        );
        let lines = reflow(&text, 80);
        assert!(lines.starts_with("Examples:\n  junctor word"), "{lines}");
        assert_eq!(lines.lines().filter(|line| line.starts_with("  junctor")).count(), 2, "{lines}");
        assert!(lines.lines().all(|line| line.len() <= 80), "{lines}");
        assert!(lines.ends_with("why why why why why why why why why"), "{lines}");
    }

    fn all(command: &Command, check: &mut impl FnMut(&str, &str)) {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        check(command.get_name(), &text);
        command.get_subcommands().for_each(|below| all(below, check));
    }

    #[test]
    fn help_fits_the_least_terminal_and_loses_no_word() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        all(&super::super::Cli::command(), &mut |name, text| {
            for width in [80, WIDEST] {
                let fitting = reflow(text, width);
                assert_eq!(words(&fitting), words(text), "{name}");
                let wide = fitting.lines().find(|line| line.chars().count() > width && words(line).len() > 1);
                assert_eq!(wide, None, "{name}");
                assert_eq!(reflow(&fitting, width), fitting, "{name}");
            }
        });
    }
}
