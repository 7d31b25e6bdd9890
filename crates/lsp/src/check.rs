// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks a text as 'junctor check' does, and says what is wrong in the protocol's form.

use std::path::{Path, PathBuf};

use lang::{Diagnostic, Severity, SourceMap, Span};
use serde_json::{Value, json};

use crate::document::{Checked, Document, Language, location_in};

/// A longer text is not checked, so that no text holds an editor up for long.
const CHECKED_BYTES: usize = 8 << 20;
/// Problems of a text that are published at most: editors keep all of them.
const PUBLISHED: usize = 1000;
/// The code of a library that was left out.
const LEFT_OUT: &str = "E0505";

/// Where libraries may be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Libraries {
    /// The folders that the editor has open.
    pub(crate) folders: Vec<PathBuf>,
    /// Where required libraries are looked for, too.
    pub(crate) search_path: Vec<PathBuf>,
}

/// Checks a text. Opens nothing but libraries in the project's folders.
pub(crate) fn check(document: &Document, libraries: &Libraries, registry: &engine::Registry) -> Checked {
    if document.text().len() > CHECKED_BYTES {
        let message =
            format!("this text is larger than {} MiB, so it is not checked here", CHECKED_BYTES >> 20);
        let mut sources = SourceMap::new();
        sources.add("", "");
        let diagnostics = vec![Diagnostic::new(Severity::Note, "N0002", message).help("use 'junctor check'")];
        return Checked { diagnostics, sources, graph: None };
    }
    rulefile::without_files(|| match document.language {
        Language::Click => configuration(document, libraries, registry),
        Language::Firewall => {
            // No file that the rules name is read, so their directory does not matter.
            let reading = firewall::read(&document.name(), document.text(), Path::new(""));
            let reviewed = reading.policy.as_ref().map(firewall::review).unwrap_or_default();
            let diagnostics = reading.diagnostics.into_iter().chain(reviewed).collect();
            Checked { diagnostics, sources: reading.sources, graph: None }
        }
        Language::Nat => {
            let reading = nat::read(&document.name(), document.text());
            Checked { diagnostics: reading.diagnostics, sources: reading.sources, graph: None }
        }
    })
}

fn configuration(document: &Document, libraries: &Libraries, registry: &engine::Registry) -> Checked {
    let mut options = elements::options();
    options.search_path.extend(libraries.search_path.iter().cloned());
    let next_to = document.path.as_deref().and_then(Path::parent).map(Path::to_path_buf);
    let roots = libraries.folders.iter().chain(&libraries.search_path).cloned().chain(next_to);
    options.library_roots = Some(roots.collect());
    let (name, path) = (document.name(), document.path.as_deref());
    let parsed = lang::load_data(&name, path, document.text().as_bytes(), &options);
    let mut diagnostics = parsed.diagnostics;
    if let Some(graph) = &parsed.graph {
        match engine::check(graph, registry) {
            Ok(checked) => diagnostics.extend(checked.warnings),
            Err(errors) => diagnostics.extend(errors),
        }
    }
    Checked { diagnostics, sources: parsed.sources, graph: parsed.graph }
}

/// What was found, in the protocol's form.
pub(crate) fn published(document: &Document, checked: &Checked) -> Value {
    let all = checked.diagnostics.iter().take(PUBLISHED);
    let all = all.map(|found| published_one(document, checked, found));
    json!({
        "uri": document.uri,
        "version": document.version,
        "diagnostics": all.collect::<Vec<_>>(),
    })
}

fn published_one(document: &Document, checked: &Checked, found: &Diagnostic) -> Value {
    let mut message = found.message.clone();
    let mut add = |lead: &str, text: &str| {
        message.push('\n');
        message.push_str(lead);
        message.push_str(text);
    };
    if !found.label.is_empty() {
        add("", &found.label);
    }
    let mut related = Vec::new();
    for (span, text) in &found.notes {
        match span {
            Some(span) => related.push(place(document, checked, *span, text)),
            None => add("note: ", text),
        }
    }
    if let Some(help) = &found.help {
        add("help: ", help);
    }
    // What is wrong in a library is shown at the beginning of the text that needs it.
    let range = match found.span {
        Some(span) if span.file == 0 => document.span(span),
        Some(span) => {
            related.insert(0, place(document, checked, span, &found.message));
            document.range(0..0)
        }
        None => document.range(0..0),
    };
    json!({
        "range": range,
        "severity": severity(found),
        "code": found.code,
        "source": "junctor",
        "message": message,
        "relatedInformation": related,
    })
}

fn place(document: &Document, checked: &Checked, span: Span, text: &str) -> Value {
    let location = match span.file {
        0 => document.location(span),
        file => location_in(checked.sources.name(file), checked.sources.text(file), span),
    };
    json!({ "location": location, "message": text })
}

/// The protocol's number. That a file was not read here is no fault of the text.
fn severity(found: &Diagnostic) -> u32 {
    match found.severity {
        Severity::Error if found.code == LEFT_OUT || found.message.contains(rulefile::NOT_READ) => 3,
        Severity::Error => 1,
        Severity::Warning => 2,
        Severity::Note => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_floods_the_editor() {
        let text: String = (0..2 * PUBLISHED).map(|n| format!("q{n} :: Queue;\n")).collect();
        let document = Document::open("file:///a.click", "click", 1, text);
        let checked = check(&document, &Libraries::default(), &elements::registry());
        assert!(checked.diagnostics.len() > PUBLISHED);
        let published = published(&document, &checked);
        assert_eq!(published["diagnostics"].as_array().map(Vec::len), Some(PUBLISHED));
    }
}
