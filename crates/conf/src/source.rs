// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loading configurations from a file, standard input or a text, and reporting what is wrong with them.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use lang::{Diagnostic, Graph, SourceMap};

/// Where the text of a configuration comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Standard input.
    #[default]
    Input,
    /// This file.
    File(String),
    /// It is this text.
    Text(String),
}

/// Where a configuration comes from, and what replaces its variables.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Where the text comes from.
    pub origin: Origin,
    /// Values of variables, which win over the configuration's own; of two for one variable, the later wins.
    pub defines: Vec<(String, String)>,
    /// Directories that are searched for required libraries, after the usual ones.
    pub search_path: Vec<PathBuf>,
}

/// A configuration that was read, with its diagnostics.
pub struct Loaded {
    /// The files that were read.
    pub sources: SourceMap,
    /// The flat graph, unless there were errors.
    pub graph: Option<Graph>,
    /// Errors and warnings, in order.
    pub diagnostics: Vec<Diagnostic>,
}

/// Why an empty configuration is not run.
pub const NOTHING: &str = "the configuration has no elements, so there is nothing to run";

/// How diagnostics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Like a compiler's.
    Full,
    /// `FILE:LINE: message`, as Click does.
    Click,
    /// JSON on standard output.
    Json,
}

impl Source {
    /// The configuration of a file; of standard input, if the path is `-`.
    pub fn file(path: &str) -> Source {
        let origin = if path == "-" { Origin::Input } else { Origin::File(path.to_owned()) };
        Source { origin, ..Source::default() }
    }

    /// The configuration that is this text.
    pub fn text(text: &str) -> Source {
        Source { origin: Origin::Text(text.to_owned()), ..Source::default() }
    }

    /// How configurations are elaborated: variables and where libraries are.
    pub fn options(&self) -> lang::Options {
        let mut options = elements::options();
        options.defines.extend(self.defines.iter().cloned());
        options.search_path.extend(self.search_path.iter().cloned());
        options
    }

    /// Reads and elaborates the configuration. Warns on standard error of values for variables that it does not have.
    pub fn load(&self) -> Loaded {
        self.load_with(&self.options())
    }

    /// The same, but a library that the configuration requires is an error.
    pub fn load_alone(&self) -> Loaded {
        let mut options = self.options();
        options.library_roots = Some(Vec::new());
        self.load_with(&options)
    }

    fn load_with(&self, options: &lang::Options) -> Loaded {
        let parsed = match &self.origin {
            Origin::Text(text) => lang::load_str("config", text, options),
            Origin::File(path) => lang::load_file(path, options),
            Origin::Input => match lang::read_text_of("<stdin>", std::io::stdin().lock()) {
                Ok(text) => lang::load_bytes("<stdin>", &text, options),
                Err(why) => lang::failed("<stdin>", *why),
            },
        };
        let loaded = Loaded::from(parsed);
        let text = loaded.text();
        for (name, _) in self.defines.iter().filter(|(name, _)| !uses(&text, name)) {
            errln!("warning: the configuration has no variable ${name}, so {name}=... changes nothing");
        }
        loaded
    }
}

impl From<lang::Parsed> for Loaded {
    fn from(parsed: lang::Parsed) -> Loaded {
        Loaded { sources: parsed.sources, graph: parsed.graph, diagnostics: parsed.diagnostics }
    }
}

/// Whether a configuration names this variable.
fn uses(text: &str, name: &str) -> bool {
    text.split('$').skip(1).any(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest).strip_prefix(name);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
    })
}

impl Loaded {
    /// The text of all files that were read.
    pub fn text(&self) -> String {
        (0..self.sources.len() as u32).map(|file| self.sources.text(file)).collect()
    }

    /// Says that there is nothing to run, if so. A file that declares compound classes for others to use may have no elements of its own.
    pub fn nothing(&self) -> Option<Diagnostic> {
        let empty = self.graph.as_ref().is_some_and(|graph| graph.elements.is_empty());
        (empty && !self.text().contains("elementclass")).then(|| {
            Diagnostic::error("E0109", NOTHING)
                .help("'junctor init' writes configurations; 'junctor elements' lists element classes")
        })
    }

    /// Writes diagnostics; without warnings if `warnings` is false. JSON goes to standard output, all else to
    /// standard error.
    pub fn report(&self, diagnostics: &[Diagnostic], form: Form, warnings: bool) {
        let shown: Vec<Diagnostic> =
            diagnostics.iter().filter(|d| warnings || d.severity == lang::Severity::Error).cloned().collect();
        match form {
            Form::Json => outln!("{}", lang::to_json(&shown, &self.sources)),
            _ if shown.is_empty() => {}
            Form::Full => {
                let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
                err!("{}", without_secrets(lang::render(&shown, &self.sources, color)));
            }
            Form::Click => err!("{}", without_secrets(lang::render_click(&shown, &self.sources))),
        }
    }

    /// Diagnostics as JSON.
    pub fn json(&self, diagnostics: &[Diagnostic]) -> serde_json::Value {
        lang::to_json(diagnostics, &self.sources)
    }
}

/// A message that shows lines of a configuration, without secrets.
pub fn without_secrets(message: String) -> String {
    engine::message_without_secrets(message, &elements::registry())
}

/// The element classes, with the passes over chains of them unless `no_fuse` is asked for.
pub fn registry(no_fuse: bool) -> engine::Registry {
    let registry = elements::registry();
    if no_fuse { registry.without_fusions() } else { registry }
}

/// The configuration that a router runs, without what its command line added.
pub fn present(flat: &str) -> lang::Graph {
    let added = |line: &&str| line.starts_with("click_driver@@") || line.starts_with("--place ");
    let text: Vec<&str> = flat.lines().filter(|line| !added(line)).collect();
    lang::load_str("present", &text.join("\n"), &elements::options()).graph.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::uses;

    #[test]
    fn variables_are_found_where_they_stand_whole() {
        for text in ["a($X)", "a(${X})", "a(${X-5})", "$X:eth", "define($X 1);"] {
            assert!(uses(text, "X"), "{text}");
        }
        for text in ["a($XY)", "a(X)", "$x", "${Y}X", ""] {
            assert!(!uses(text, "X"), "{text}");
        }
    }
}
