// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loading configurations from a file, standard input or the command line, and reporting what is wrong with them.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use lang::{Diagnostic, Graph, SourceMap};

/// Where a configuration comes from and what replaces its variables.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Source {
    /// Configuration file; `-` or nothing reads standard input. Words of the form NAME=VALUE set variables.
    #[arg(value_name = "CONF|NAME=VALUE")]
    pub(crate) words: Vec<String>,
    /// Configuration file (as the positional argument).
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<String>,
    /// Take the configuration from this text.
    #[arg(short, long, value_name = "TEXT", conflicts_with = "file")]
    pub(crate) expression: Option<String>,
    /// Set a variable of the configuration; wins over its own definitions.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Directories to search for required libraries, separated by colons.
    #[arg(short = 'C', long = "clickpath", value_name = "PATH", env = "CLICKPATH")]
    pub(crate) clickpath: Option<String>,
}

/// A configuration that was read, with its diagnostics.
pub(crate) struct Loaded {
    pub(crate) sources: SourceMap,
    pub(crate) graph: Option<Graph>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// How diagnostics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Like a compiler's.
    Full,
    /// `FILE:LINE: message`, as Click does.
    Click,
    /// JSON on standard output.
    Json,
}

impl Source {
    /// The words that name files, and those that set variables.
    fn sort(&self) -> (Vec<&str>, Vec<(String, String)>) {
        let mut files: Vec<&str> = self.file.iter().map(String::as_str).collect();
        let mut defines = Vec::new();
        for word in &self.words {
            match assignment(word) {
                Some(pair) if word != "-" && !std::path::Path::new(word).exists() => defines.push(pair),
                _ => files.push(word),
            }
        }
        (files, defines)
    }

    /// The file that the configuration comes from, if it comes from one that can be read again.
    pub(crate) fn path(&self) -> Option<&str> {
        let (files, _) = self.sort();
        files.first().copied().filter(|f| *f != "-" && self.expression.is_none())
    }

    /// How configurations are elaborated: variables and where libraries are.
    pub(crate) fn options(&self) -> Result<lang::Options, String> {
        let mut options = elements::options();
        options.defines.extend(self.sort().1);
        for word in &self.set {
            let pair = assignment(word).ok_or_else(|| format!("--set expects NAME=VALUE, not '{word}'"))?;
            options.defines.push(pair);
        }
        if let Some(path) = &self.clickpath {
            options.search_path.extend(path.split(':').filter(|p| !p.is_empty()).map(PathBuf::from));
        }
        Ok(options)
    }

    /// Reads and elaborates the configuration.
    pub(crate) fn load(&self) -> Result<Loaded, String> {
        let options = self.options()?;
        let (files, _) = self.sort();
        if files.len() + usize::from(self.expression.is_some()) > 1 {
            return Err("router configuration specified twice".into());
        }
        let parsed = match (&self.expression, files.first()) {
            (Some(text), _) => lang::load_str("config", text, &options),
            (None, Some(path)) if *path != "-" => lang::load_file(path, &options),
            _ => match lang::read_text_of("<stdin>", std::io::stdin().lock()) {
                Ok(text) => lang::load_bytes("<stdin>", &text, &options),
                Err(why) => lang::failed("<stdin>", *why),
            },
        };
        let loaded = Loaded::from(parsed);
        let text = loaded.text();
        let given = self.sort().1.into_iter().chain(self.set.iter().filter_map(|word| assignment(word)));
        for (name, _) in given.filter(|(name, _)| !uses(&text, name)) {
            errln!("warning: the configuration has no variable ${name}, so {name}=... changes nothing");
        }
        Ok(loaded)
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

fn assignment(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let good = !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    good.then(|| (name.to_owned(), value.to_owned()))
}

impl Loaded {
    /// The text of all files that were read.
    pub(crate) fn text(&self) -> String {
        (0..self.sources.len() as u32).map(|file| self.sources.text(file)).collect()
    }

    /// Writes diagnostics; without warnings if `warnings` is false. JSON goes to standard output, all else to
    /// standard error.
    pub(crate) fn report(&self, diagnostics: &[Diagnostic], form: Form, warnings: bool) {
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
    pub(crate) fn json(&self, diagnostics: &[Diagnostic]) -> serde_json::Value {
        lang::to_json(diagnostics, &self.sources)
    }
}

/// A message that shows lines of a configuration, without secrets.
pub(crate) fn without_secrets(message: String) -> String {
    engine::message_without_secrets(message, &elements::registry())
}

/// The element classes, with the passes over chains of them unless `no_fuse` is asked for.
pub(crate) fn registry(no_fuse: bool) -> engine::Registry {
    let registry = elements::registry();
    if no_fuse { registry.without_fusions() } else { registry }
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
