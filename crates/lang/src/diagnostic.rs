// SPDX-License-Identifier: MIT OR Apache-2.0
//! What went wrong, where, why, and how to fix it.
//!
//! Codes beginning with `E` are errors: no graph comes out. `W01` codes are warnings that Click gives too; `W02` codes
//! are advice of ours, which the `click`-compatible output leaves out because scripts compare that output.

use std::collections::HashSet;

use crate::source::Span;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For information.
    Note,
    /// The configuration works, but probably not as meant.
    Warning,
    /// The configuration cannot be used.
    Error,
}

impl Severity {
    /// The word that stands in messages and in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// One finding about a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Stable code, such as `E0201`.
    pub code: &'static str,
    /// What is wrong, in one line.
    pub message: String,
    /// The place.
    pub span: Option<Span>,
    /// Short text next to the place; may be empty.
    pub label: String,
    /// Further places and facts.
    pub notes: Vec<(Option<Span>, String)>,
    /// How to fix it.
    pub help: Option<String>,
    /// What was being done with which element, for Click's form: its place, `While configuring 'x :: Class'`, and the message
    /// without the element's name.
    pub during: Option<(Span, String, String)>,
}

impl Diagnostic {
    /// A finding of a given severity.
    #[must_use]
    pub fn new(severity: Severity, code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity,
            code,
            message: message.into(),
            span: None,
            label: String::new(),
            notes: Vec::new(),
            help: None,
            during: None,
        }
    }

    /// An error.
    #[must_use]
    pub fn error(code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Error, code, message)
    }

    /// A warning.
    #[must_use]
    pub fn warning(code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Warning, code, message)
    }

    /// Sets the place.
    #[must_use]
    pub fn at(mut self, span: impl Into<Option<Span>>) -> Diagnostic {
        self.span = span.into();
        self
    }

    /// Says what was being done with an element, and the message as it reads after that.
    #[must_use]
    pub fn during(mut self, span: Span, what: impl Into<String>, message: impl Into<String>) -> Diagnostic {
        self.during = Some((span, what.into(), message.into()));
        self
    }

    /// Sets the text next to the place.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// Adds a fact, with its own place if it has one.
    #[must_use]
    pub fn note(mut self, span: impl Into<Option<Span>>, text: impl Into<String>) -> Diagnostic {
        self.notes.push((span.into(), text.into()));
        self
    }

    /// Sets the way to fix it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Sets the help if there is a suggestion: ``did you mean `x`?``.
    #[must_use]
    pub fn did_you_mean(self, name: Option<&str>) -> Diagnostic {
        match name {
            Some(name) => self.help(format!("did you mean `{name}`?")),
            None => self,
        }
    }
}

/// Findings past this many are dropped: nobody reads them, and adversarial input could ask for millions.
const MAX_DIAGNOSTICS: usize = 1000;
/// Near names are searched for the first errors only: the search looks at every known name.
const MAX_SUGGESTIONS: usize = 64;

/// Gathers findings: each place and message once, a bounded number in all.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    list: Vec<Diagnostic>,
    seen: HashSet<(&'static str, Option<Span>, String)>,
    errors: usize,
    dropped: usize,
    suggestions: usize,
    shape_errors: usize,
    /// A library is missing, so names that seem unknown may be its own: they aren't complained about.
    pub(crate) names_missing: bool,
}

/// Errors about names: the shape of the graph is sound in spite of them.
const NAME_ERRORS: &str = "E02";

impl Sink {
    pub(crate) fn push(&mut self, diag: Diagnostic) {
        if self.names_missing && matches!(diag.code, "E0201" | "E0203" | "E0406") {
            return;
        }
        let error = diag.severity == Severity::Error;
        self.errors += usize::from(error);
        self.shape_errors += usize::from(error && !diag.code.starts_with(NAME_ERRORS));
        if self.list.len() >= MAX_DIAGNOSTICS {
            self.dropped += 1;
        } else if self.seen.insert((diag.code, diag.span, diag.message.clone())) {
            self.list.push(diag);
        }
    }

    pub(crate) fn errors(&self) -> usize {
        self.errors
    }

    /// Whether the errors so far, if any, leave it clear which ports are connected.
    pub(crate) fn shape_is_sound(&self) -> bool {
        self.shape_errors == 0
    }

    /// Whether a search for a near name may still be afforded.
    pub(crate) fn may_suggest(&mut self) -> bool {
        self.suggestions += 1;
        self.suggestions <= MAX_SUGGESTIONS
    }

    /// The findings in the order of the source.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        self.list.sort_by_key(|d| d.span.map_or((u32::MAX, 0), |s| (s.file, s.start)));
        if self.dropped > 0 {
            self.list.push(Diagnostic::new(
                Severity::Note,
                "N0001",
                format!("{} further messages are not shown", self.dropped),
            ));
        }
        self.list
    }
}
