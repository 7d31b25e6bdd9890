// SPDX-License-Identifier: MIT OR Apache-2.0
//! All that is wrong with the files of a configuration, before anything runs: the deployment, routers' configurations, and rule
//! files that these name.

use std::path::Path;

use lang::{Diagnostic, Severity, SourceMap};
use saved::Files;
use serde_json::Value;

use super::layout::{self, DEPLOYMENT};
use crate::findings::diagnose;

/// Readers of rule files, by the class of the elements that name them.
type Reader = fn(&Path) -> Result<(Vec<Diagnostic>, SourceMap), String>;

const READERS: &[(&str, Reader)] = &[
    ("Firewall", |path| {
        let reading = firewall::read_file(path)?;
        let mut diagnostics = reading.diagnostics;
        diagnostics.extend(reading.policy.iter().flat_map(firewall::review));
        Ok((diagnostics, reading.sources))
    }),
    ("NAT44", |path| nat::read_file(path).map(|reading| (reading.diagnostics, reading.sources))),
    ("Balance", |path| balance::read_file(path).map(|reading| (reading.diagnostics, reading.sources))),
];

/// What was found.
#[derive(Default)]
pub(crate) struct Checked {
    found: Vec<(Vec<Diagnostic>, SourceMap)>,
    /// There are errors.
    pub(crate) is_bad: bool,
}

impl Checked {
    fn add(&mut self, diagnostics: Vec<Diagnostic>, sources: SourceMap) {
        self.is_bad |= diagnostics.iter().any(|found| found.severity == Severity::Error);
        if !diagnostics.is_empty() {
            self.found.push((diagnostics, sources));
        }
    }

    /// Prints all, as a compiler does or as one list of JSON.
    pub(crate) fn report(&self, as_json: bool) {
        if !as_json {
            self.found.iter().for_each(|(diagnostics, sources)| diagnose(diagnostics, sources, false));
            return;
        }
        let lists = self.found.iter().map(|(diagnostics, sources)| lang::to_json(diagnostics, sources));
        let all = lists.flat_map(|list| match list {
            Value::Array(list) => list,
            other => vec![other],
        });
        outln!("{}", Value::Array(all.collect()));
    }
}

/// Checks the files in a directory. This process goes there: relative paths begin in it, as they do for a router that runs.
///
/// # Errors
/// There is nothing to check, or the directory cannot be entered.
pub(crate) fn check(name: &str, directory: &Path, files: &Files) -> Result<Checked, String> {
    std::env::set_current_dir(directory).map_err(|why| format!("{}: {why}", directory.display()))?;
    let mut checked = Checked::default();
    if files.contains_key(DEPLOYMENT) {
        let found = deployed::check(Path::new(DEPLOYMENT)).map_err(|why| why.to_string())?;
        checked.is_bad = !found.sound;
        checked.add(found.loaded.diagnostics, found.loaded.sources);
        if checked.is_bad {
            return Ok(checked);
        }
    }
    let mut seen = Vec::new();
    for (config, set) in layout::routers(name, files)? {
        router(&config, set, files, &mut seen, &mut checked);
    }
    Ok(checked)
}

fn router(
    config: &str,
    set: Vec<(String, String)>,
    files: &Files,
    seen: &mut Vec<String>,
    checked: &mut Checked,
) {
    let source = conf::Source { defines: set, ..conf::Source::file(config) };
    let loaded = source.load();
    let mut diagnostics = loaded.diagnostics;
    if let Some(graph) = &loaded.graph {
        match engine::check(graph, &conf::registry(false)) {
            Ok(found) => diagnostics.extend(found.warnings.iter().cloned()),
            Err(errors) => diagnostics.extend(errors),
        }
        for element in &graph.elements {
            rules(element, files, seen, checked);
        }
    }
    // An error without a place is one all the same.
    checked.is_bad |= loaded.graph.is_none();
    checked.add(diagnostics, loaded.sources);
}

/// Reads the rule files that an element names, each once.
fn rules(element: &lang::Element, files: &Files, seen: &mut Vec<String>, checked: &mut Checked) {
    let Some((_, read)) = READERS.iter().find(|(class, _)| *class == &*element.class) else { return };
    for argument in lang::config::split_args(&element.config) {
        let word = argument.text.rsplit(char::is_whitespace).next().unwrap_or_default().trim_matches('"');
        let path = word.trim_start_matches("./");
        if !files.contains_key(path) || seen.iter().any(|old| old == path) {
            continue;
        }
        seen.push(path.to_owned());
        // What cannot be read was said by the element.
        if let Ok((diagnostics, sources)) = read(Path::new(path)) {
            checked.add(diagnostics, sources);
        }
    }
}
