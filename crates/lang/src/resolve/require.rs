// SPDX-License-Identifier: MIT OR Apache-2.0
//! `define` and `require`, the statements that look like elements' configurations.

use std::path::PathBuf;

use super::{MAX_LIBRARY_DEPTH, Resolver};
use crate::ast::Config;
use crate::config::{Arg, shift_word, split_args, split_words, unquote_string};
use crate::diagnostic::Diagnostic;
use crate::graph::Requirement;
use crate::library;
use crate::program::Definition;
use crate::source::Span;

/// What a router of Click's at user level may come with, and this one does: the driver, properties, and groups of elements.
const BUILT_IN: [&str; 18] = [
    "userlevel",
    "linux",
    "int64",
    "multithread",
    "umultithread",
    "ip6",
    "ipsec",
    "analysis",
    "app",
    "aqm",
    "ethernet",
    "etherswitch",
    "icmp",
    "ip",
    "json",
    "standard",
    "tcpudp",
    "threads",
];

impl Resolver<'_> {
    /// The place of an argument; of the whole string if line directives were taken out of it.
    fn arg_span(&self, config: &Config, arg: &Arg) -> Span {
        let start = config.span.start + arg.start as u32;
        let span = Span { start, end: start + arg.text.len() as u32, ..config.span };
        if self.sources.snippet(span) == arg.text { span } else { config.span }
    }

    pub(super) fn define(&mut self, config: &Config) {
        for arg in split_args(&config.text).iter().filter(|a| !a.text.is_empty()) {
            let span = self.arg_span(config, arg);
            let (variable, value) = shift_word(&arg.text);
            let name = variable.strip_prefix('$').unwrap_or("");
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                self.sink.push(
                    Diagnostic::error("E0501", "bad 'define' declaration: not a variable")
                        .at(span)
                        .label(format!("`{variable}` is not a variable"))
                        .help("write `define($NAME value, ...)`"),
                );
                continue;
            }
            let body = &mut self.here().body;
            let parameter = body.parameters.iter().find(|p| p.name == name).map(|p| p.span);
            let first = parameter.or_else(|| body.defines.iter().find(|d| d.name == name).map(|d| d.span));
            match first {
                Some(first) => self.sink.push(
                    Diagnostic::error("E0502", format!("parameter '${name}' multiply defined"))
                        .at(span)
                        .note(first, "first here"),
                ),
                None => {
                    body.defines.push(Definition { name: name.to_string(), value: value.to_string(), span })
                }
            }
        }
    }

    pub(super) fn require(&mut self, config: &Config) {
        for arg in split_args(&config.text) {
            let span = self.arg_span(config, &arg);
            let words = split_words(&arg.text);
            let kind = words.first().map(|w| unquote_string(w)).unwrap_or_default();
            match (kind.as_str(), words.as_slice()) {
                (_, []) => {}
                ("compact_config", [_]) => self.requirement("compact_config", String::new(), span),
                ("package", [_, value]) => self.requirement("package", unquote_string(value), span),
                ("library", [_, value]) => self.library(&unquote_string(value), span),
                (value, [_]) if !value.is_empty() && value != "package" && value != "library" => {
                    self.requirement("package", kind, span);
                }
                _ => self.sink.push(Diagnostic::error("E0504", "syntax error at requirement").at(span).help(
                    "write `require(package NAME)`, `require(library FILE)` or `require(compact_config)`",
                )),
            }
        }
    }

    fn requirement(&mut self, kind: &str, value: String, span: Span) {
        if kind == "package" && !BUILT_IN.contains(&value.as_str()) {
            let message = format!("package '{value}' is not known, so nothing of it is loaded");
            self.sink.push(Diagnostic::warning("W0104", message).at(span));
        }
        self.requirements.push(Requirement { kind: kind.to_string(), value, span });
    }

    fn library(&mut self, name: &str, span: Span) {
        if self.builders.len() > 1 {
            let message = "'require library' must be used at file scope";
            self.sink.push(
                Diagnostic::error("E0503", message).at(span).help("move it out of the compound element"),
            );
            return;
        }
        let found = library::find(name, self.sources.name(span.file), &self.options.search_path);
        let path = match found {
            Ok(path) => path,
            Err(tried) => {
                let mut diagnostic =
                    Diagnostic::error("E0503", format!("library '{name}' not found in CLICKPATH/conf"))
                        .at(span);
                for path in tried {
                    diagnostic = diagnostic.note(None, format!("looked for {}", path.display()));
                }
                self.sink.push(diagnostic.help("set CLICKPATH, or give the path of the library"));
                self.sink.names_missing = true;
                return;
            }
        };
        let identity = library::identity(&path);
        let holds = |root: &PathBuf| identity.starts_with(library::identity(root));
        if self.options.library_roots.as_ref().is_some_and(|roots| !roots.iter().any(holds)) {
            let message = format!("library '{name}' is not read here: it lies outside of the project");
            self.sink
                .push(Diagnostic::error("E0505", message).at(span).help("keep the library in the project"));
            self.sink.names_missing = true;
            return;
        }
        if !self.libraries.insert(identity) {
            return;
        }
        if self.library_depth >= MAX_LIBRARY_DEPTH {
            let message = format!("libraries require each other more than {MAX_LIBRARY_DEPTH} levels deep");
            self.sink.push(Diagnostic::error("E0503", message).at(span));
            return;
        }
        match library::read(&path) {
            Ok(text) => {
                let file = self.sources.add(&path.display().to_string(), &text);
                let statements = crate::parser::parse(self.sources, self.sink, file);
                self.library_depth += 1;
                self.statements(&statements);
                self.library_depth -= 1;
            }
            Err(error) => {
                self.sink.push(Diagnostic::error("E0503", format!("{}: {error}", path.display())).at(span));
                self.sink.names_missing = true;
            }
        }
    }
}
