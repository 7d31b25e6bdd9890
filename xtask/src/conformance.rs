// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requirements matrix: which test shows which requirement of an RFC.
//!
//! A list of requirements is `docs/conformance/rfcNNNN.toml`:
//!
//! ```toml
//! title = "Requirements for IP Version 4 Routers"
//! scope = "One paragraph: what is listed and what is not."
//!
//! [sections]
//! "4.3.2.7" = "When not to send ICMP errors"
//!
//! [[requirement]]
//! id = "RFC1812-4.3.2.7-a"        # RFC, section, and a letter or word where a section has several
//! level = "MUST NOT"
//! text = "Answer an ICMP error message with an ICMP error."
//! exception = "Only where no test shows it: why not, or what is done instead."
//! ```
//!
//! A test shows a requirement when a line comment `// conformance: ID [ID ...]` stands above it or in it; in a golden
//! case, a line `conformance: ID [ID ...]` of its `%info`. From both, a page `rfcNNNN.md` is made next to each list.
//! What is wrong: a MUST that nothing shows and no exception excuses, an exception that a test contradicts, a marker
//! that names no requirement, a page that is out of date.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Deserialize;

use crate::tidy::{files, read};

/// Where lists and pages are.
const DIRECTORY: &str = "docs/conformance";
/// Levels of RFC 2119, strongest first; the first two have to be shown or excused.
const LEVELS: [&str; 5] = ["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    title: String,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    sections: BTreeMap<String, String>,
    #[serde(default)]
    requirement: Vec<Requirement>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Requirement {
    id: String,
    level: String,
    text: String,
    exception: Option<String>,
}

impl Requirement {
    /// The section in `RFC1812-4.3.2.7-a`.
    fn section(&self) -> &str {
        self.id.split('-').nth(1).unwrap_or_default()
    }

    fn has_to_be_shown(&self) -> bool {
        self.level.starts_with("MUST")
    }
}

/// A test that shows something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shown {
    file: String,
    /// Its name, of a Rust test.
    test: Option<String>,
}

/// Tests by the requirement that they show.
type Markers = BTreeMap<String, Vec<Shown>>;

/// Makes the pages anew; prints what is wrong.
pub(crate) fn main(root: &Path) -> ExitCode {
    let mut wrong = Vec::new();
    for (path, page) in pages(root, &mut wrong) {
        if let Err(why) = std::fs::write(&path, page) {
            wrong.push(format!("{}: {why}", path.display()));
        }
    }
    wrong.iter().for_each(|line| eprintln!("conformance: {line}"));
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Adds what is wrong, with pages that are out of date.
pub(crate) fn check(root: &Path, wrong: &mut Vec<String>) {
    for (path, page) in pages(root, wrong) {
        if read(&path) != page {
            let shown = path.strip_prefix(root).unwrap_or(&path).display();
            wrong.push(format!("{shown} is out of date; 'cargo xtask conformance' makes it anew"));
        }
    }
}

/// The page of each list, and what is wrong.
fn pages(root: &Path, wrong: &mut Vec<String>) -> Vec<(PathBuf, String)> {
    let mut markers = markers(root);
    let mut pages = Vec::new();
    for path in files(&root.join(DIRECTORY), "toml") {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match toml::from_str::<List>(&read(&path)) {
            Ok(list) => {
                judge(&name, &list, &markers, wrong);
                pages.push((path.with_extension("md"), page(&name, &list, &markers)));
                list.requirement.iter().for_each(|r| drop(markers.remove(&r.id)));
            }
            Err(why) => wrong.push(format!("{name}.toml: {why}")),
        }
    }
    for (id, tests) in markers {
        wrong.push(format!("{}: no list in {DIRECTORY} has a requirement {id}", tests[0].file));
    }
    pages
}

fn judge(name: &str, list: &List, markers: &Markers, wrong: &mut Vec<String>) {
    let mut seen = std::collections::BTreeSet::new();
    let rfc = format!("{}-", name.to_uppercase());
    for requirement in &list.requirement {
        let id = &requirement.id;
        let mut fault = |what: &str| wrong.push(format!("{name}.toml: {id} {what}"));
        if !id.starts_with(&rfc) || requirement.section().is_empty() {
            fault(&format!("should be {rfc}SECTION or {rfc}SECTION-LETTER"));
        }
        if !seen.insert(id) {
            fault("is listed twice");
        }
        if !LEVELS.contains(&requirement.level.as_str()) {
            fault(&format!("has level '{}', which is none of {}", requirement.level, LEVELS.join(", ")));
        }
        match (markers.contains_key(id), &requirement.exception) {
            (true, Some(_)) => fault("has an exception, and a test that shows it"),
            (false, None) if requirement.has_to_be_shown() => {
                fault("is a MUST that no test shows and no exception excuses");
            }
            _ => {}
        }
    }
}

/// All markers next to tests.
fn markers(root: &Path) -> Markers {
    let mut markers = Markers::new();
    let sources = files(&root.join("crates"), "rs").into_iter().chain(files(&root.join("tests"), "rs"));
    for path in sources.chain(files(&root.join("tests"), "test")) {
        let file = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let text = read(&path);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let rust = path.extension().is_some_and(|x| x == "rs");
        let prefix = if rust { "// conformance:" } else { "conformance:" };
        for (at, ids) in lines.iter().enumerate().filter_map(|(at, l)| Some((at, l.strip_prefix(prefix)?))) {
            let shown = Shown {
                file: file.clone(),
                test: rust.then(|| test_at(&lines, at)).flatten().map(str::to_owned),
            };
            for id in ids.split([' ', ',']).filter(|id| !id.is_empty()) {
                markers.entry(id.to_owned()).or_default().push(shown.clone());
            }
        }
    }
    for tests in markers.values_mut() {
        tests.sort();
        tests.dedup();
    }
    markers
}

/// The function that a marker in line `at` stands above, or in.
fn test_at<'a>(lines: &[&'a str], at: usize) -> Option<&'a str> {
    let name = |line: &&'a str| {
        let rest = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("fn ")?;
        rest.split(['(', '<']).next()
    };
    let below = lines[at..].iter().find(|l| !l.is_empty() && !l.starts_with("//") && !l.starts_with("#["));
    below.and_then(name).or_else(|| lines[..at].iter().rev().find_map(name))
}

fn page(name: &str, list: &List, markers: &Markers) -> String {
    let number = name.trim_start_matches("rfc");
    let mut text = format!(
        "# RFC {number}: {}\n\nMade by `cargo xtask conformance` from [{name}.toml]({name}.toml) and the markers next to \
         the tests; changes belong there.\n\n",
        list.title
    );
    if !list.scope.is_empty() {
        let _ = writeln!(text, "{}\n", list.scope.trim());
    }
    text += "| level | requirements | shown by tests | exceptions | not shown |\n|---|---|---|---|---|\n";
    for level in LEVELS {
        let all: Vec<_> = list.requirement.iter().filter(|r| r.level == level).collect();
        let shown = all.iter().filter(|r| markers.contains_key(&r.id)).count();
        let excused = all.iter().filter(|r| r.exception.is_some()).count();
        if !all.is_empty() {
            let left = all.len() - shown - excused;
            let _ = writeln!(text, "| {level} | {} | {shown} | {excused} | {left} |", all.len());
        }
    }
    let mut section = "";
    for requirement in &list.requirement {
        if requirement.section() != section {
            section = requirement.section();
            let title = list.sections.get(section).map_or("", String::as_str);
            let _ = write!(text, "\n## {section} {title}",);
            text.truncate(text.trim_end().len());
            text += "\n\n| requirement | level | what | shown by |\n|---|---|---|---|\n";
        }
        let proof = match (&requirement.exception, markers.get(&requirement.id)) {
            (Some(why), _) => format!("exception: {why}"),
            (None, Some(tests)) => tests.iter().map(link).collect::<Vec<_>>().join(", "),
            (None, None) => "not shown".to_owned(),
        };
        let Requirement { id, level, text: what, .. } = requirement;
        let _ = writeln!(text, "| {id} | {level} | {} | {} |", cell(what), cell(&proof));
    }
    text
}

fn link(shown: &Shown) -> String {
    let file = &shown.file;
    let label = match &shown.test {
        Some(test) => format!("`{test}`"),
        None => file.trim_start_matches("tests/").trim_end_matches(".test").to_owned(),
    };
    format!("[{label}](../../{file})")
}

/// Text in a table's cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(requirements: &str) -> List {
        toml::from_str(&format!("title = \"T\"\n{requirements}")).unwrap()
    }

    const A: &str = "[[requirement]]\nid = \"RFC1-2-a\"\nlevel = \"MUST\"\ntext = \"Do a.\"\n";

    #[test]
    fn faults_of_lists() {
        let check = |requirements: &str, marked: &[&str], want: &[&str]| {
            let shown = vec![Shown { file: "f.rs".into(), test: Some("t".into()) }];
            let markers = marked.iter().map(|id| (id.to_string(), shown.clone())).collect();
            let mut wrong = Vec::new();
            judge("rfc1", &list(requirements), &markers, &mut wrong);
            assert_eq!(wrong, want, "{requirements}");
        };
        check(A, &["RFC1-2-a"], &[]);
        check(A, &[], &["rfc1.toml: RFC1-2-a is a MUST that no test shows and no exception excuses"]);
        check(&format!("{A}exception = \"x\""), &[], &[]);
        check(
            &format!("{A}exception = \"x\""),
            &["RFC1-2-a"],
            &["rfc1.toml: RFC1-2-a has an exception, and a test that shows it"],
        );
        check(&format!("{A}{A}"), &["RFC1-2-a"], &["rfc1.toml: RFC1-2-a is listed twice"]);
        check(&A.replace("MUST", "SHOULD"), &[], &[]);
        check(
            &A.replace("MUST", "OUGHT"),
            &[],
            &[
                "rfc1.toml: RFC1-2-a has level 'OUGHT', which is none of MUST, MUST NOT, SHOULD, SHOULD NOT, MAY",
            ],
        );
        check(
            &A.replace("RFC1-2-a", "RFC2"),
            &["RFC2"],
            &["rfc1.toml: RFC2 should be RFC1-SECTION or RFC1-SECTION-LETTER"],
        );
    }

    #[test]
    fn markers_name_their_test() {
        let lines =
            ["// conformance: X", "#[test]", "fn above() {", "// conformance: Y", "x();", "}", "fn z() {}"];
        assert_eq!((test_at(&lines, 0), test_at(&lines, 3)), (Some("above"), Some("above")));
    }

    #[test]
    fn a_page() {
        let shown = vec![Shown { file: "crates/f.rs".into(), test: Some("t".into()) }];
        let list = list(&format!("sections = {{ 2 = \"Two\" }}\n{A}"));
        let text = page("rfc1", &list, &[("RFC1-2-a".to_owned(), shown)].into());
        assert!(text.contains("| MUST | 1 | 1 | 0 | 0 |\n\n## 2 Two\n\n"), "{text}");
        assert!(text.ends_with("| RFC1-2-a | MUST | Do a. | [`t`](../../crates/f.rs) |\n"), "{text}");
    }
}
