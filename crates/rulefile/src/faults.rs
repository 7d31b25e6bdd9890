// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is wrong with a file, with its place and a remedy.

use lang::{Diagnostic, Span, suggest};

use crate::Word;

/// What is found after so many errors is not reported.
const ERRORS_MAX: usize = 100;

/// What was found in a file.
#[derive(Debug)]
pub struct Faults {
    code: &'static str,
    diagnostics: Vec<Diagnostic>,
    errors: usize,
    /// Settings that have been given: each may be once.
    settings: Vec<(String, Span)>,
}

impl Faults {
    /// None yet. `code` is that of errors.
    pub fn new(code: &'static str) -> Faults {
        Faults { code, diagnostics: Vec::new(), errors: 0, settings: Vec::new() }
    }

    /// How many errors there are.
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// Whether there are so many that no more is said.
    pub fn are_too_many(&self) -> bool {
        self.errors >= ERRORS_MAX
    }

    /// Adds an error.
    pub fn wrong(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.errors += 1;
        if self.errors <= ERRORS_MAX {
            self.diagnostics.push(Diagnostic::error(self.code, message).at(span).help(help));
        }
    }

    /// Adds a note about another place to the last one.
    pub fn note(&mut self, span: Option<Span>, message: impl Into<String>) {
        if let Some(diagnostic) = self.diagnostics.last_mut() {
            diagnostic.notes.push((span, message.into()));
        }
    }

    /// Notes a setting, which may be given once. None, if it has been given: that is an error.
    pub fn once(&mut self, setting: &str, span: Span) -> Option<()> {
        if let Some((_, earlier)) = self.settings.iter().find(|(other, _)| other == setting) {
            let earlier = *earlier;
            self.wrong(span, format!("'{setting}' is given twice"), "leave one out");
            self.note(Some(earlier), "the other one");
            return None;
        }
        self.settings.push((setting.to_owned(), span));
        Some(())
    }

    /// Adds something that is strange but no error.
    pub fn strange(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Adds an error about a word, where the help is a name that looks like it, or else all names.
    pub fn unknown<'n>(&mut self, word: &Word, what: &str, names: impl Iterator<Item = &'n str> + Clone) {
        let help = match suggest(&word.text, names.clone()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => {
                let some: Vec<&str> = names.take(24).collect();
                if some.is_empty() {
                    format!("declare a {what} first")
                } else {
                    format!("known: {}", some.join(", "))
                }
            }
        };
        self.wrong(word.span, format!("unknown {what} '{}'", word.text), help);
    }

    /// Adds an error for each quote that does not end.
    pub fn open_quotes(&mut self, lines: &[crate::Line]) {
        for word in lines.iter().flat_map(|line| &line.words).filter(|word| word.is_open) {
            self.wrong(word.span, "the quote does not end", "write \" at the end of the text");
        }
    }

    /// All that was found.
    pub fn into_diagnostics(self) -> Vec<Diagnostic> {
        self.diagnostics
    }
}
