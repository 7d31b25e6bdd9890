// SPDX-License-Identifier: MIT OR Apache-2.0
//! The book (`make docs`), and the rule that every link in our Markdown leads somewhere.
//!
//! The book's pages lie in `docs/book/src`. Pages of `docs/` join them under the same names, and the program writes those
//! below `reference/` from its own definitions (`junctor man --markdown`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitCode};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::tidy::{files, read};

/// What the book takes from `docs/`, in addition to its own pages.
const ALSO: &[&str] = &[
    "json.md",
    "stats-segment.md",
    "icc.md",
    "metrics.md",
    "openapi.json",
    "measurements",
    "images",
    "schema",
];
/// Where the pages are that the program writes.
const GENERATED: &str = "reference/";

/// Puts the book together in `target/book-src` and renders it into `target/book`.
pub(crate) fn main(root: &Path, program: &str) -> ExitCode {
    match build(root, program) {
        Ok(()) => {
            println!("The book: {}", root.join("target/book/index.html").display());
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("book: {why}");
            ExitCode::FAILURE
        }
    }
}

fn build(root: &Path, program: &str) -> Result<(), String> {
    let place = root.join("target/book-src");
    let said = |why: std::io::Error| format!("{}: {why}", place.display());
    if place.exists() {
        std::fs::remove_dir_all(&place).map_err(said)?;
    }
    let src = place.join("src");
    for (page, source) in pages(root) {
        let to = src.join(page);
        std::fs::create_dir_all(to.parent().unwrap_or(&src)).map_err(said)?;
        std::fs::copy(source, to).map_err(said)?;
    }
    std::fs::copy(root.join("docs/book/book.toml"), place.join("book.toml")).map_err(said)?;
    run(Command::new(program).args(["man", "--markdown"]).arg(src.join(GENERATED)))?;
    let summary = with_kinds(&read(&src.join("SUMMARY.md")), &files(&src.join("reference/elements"), "md"));
    std::fs::write(src.join("SUMMARY.md"), summary).map_err(said)?;
    let mut wrong = Vec::new();
    check_pages(&place, &all_files(&src), &mut wrong);
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    run(Command::new("mdbook").arg("build").arg(&place).arg("--dest-dir").arg(root.join("target/book")))
}

fn run(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{:?}: {status}", command.get_program())),
        Err(why) => Err(format!("{:?}: {why}", command.get_program())),
    }
}

/// The table of contents with a line for each kind of element.
fn with_kinds(summary: &str, kinds: &[PathBuf]) -> String {
    let mut text = String::new();
    for line in summary.lines() {
        text += line;
        text.push('\n');
        if line.contains("(reference/elements.md)") {
            let indent = " ".repeat(line.len() - line.trim_start().len() + 2);
            for kind in kinds.iter().filter_map(|k| k.file_stem()).map(|k| k.to_string_lossy()) {
                text += &format!("{indent}- [{kind}](reference/elements/{kind}.md)\n");
            }
        }
    }
    text
}

/// The book's files but for those that the program writes: their place in the book, and where they come from.
fn pages(root: &Path) -> BTreeMap<PathBuf, PathBuf> {
    let mut pages = all_files(&root.join("docs/book/src"));
    for name in ALSO {
        let source = root.join("docs").join(name);
        if source.is_dir() {
            let below = all_files(&source);
            pages.extend(below.into_iter().map(|(page, from)| (Path::new(name).join(page), from)));
        } else {
            pages.insert(PathBuf::from(name), source);
        }
    }
    pages
}

/// Files below a directory, by their path in it.
fn all_files(dir: &Path) -> BTreeMap<PathBuf, PathBuf> {
    let mut found = BTreeMap::new();
    for path in std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()) {
        let name = PathBuf::from(path.file_name().unwrap_or_default());
        if path.is_dir() {
            found.extend(all_files(&path).into_iter().map(|(page, from)| (name.join(page), from)));
        } else {
            found.insert(name, path);
        }
    }
    found
}

/// The rule of `cargo xtask tidy`: links in the repository's Markdown, and in the book, lead to files and headings that are there. So do paths
/// that pages for contributors name.
pub(crate) fn check(root: &Path, wrong: &mut Vec<String>) {
    let book = root.join("docs/book");
    let outside = files(root, "md").into_iter().filter(|file| !file.starts_with(&book));
    for file in outside {
        let text = read(&file);
        for link in links(&text) {
            let target = file.parent().unwrap_or(root).join(&link.path);
            let found = if link.path.is_empty() { Some(text.clone()) } else { contents(&target) };
            report(&file, root, &link, found, wrong);
        }
    }
    check_pages(root, &pages(root), wrong);
    let contributors = files(&book.join("src/internals"), "md").into_iter();
    for file in contributors.chain([root.join("ARCHITECTURE.md")]) {
        let is_there = |path: &String| root.join(path).exists() || root.join("crates").join(path).exists();
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        let gone = named_paths(&read(&file)).into_iter().filter(|path| !is_there(path));
        wrong.extend(gone.map(|path| format!("{shown} names {path}, which is not there")));
    }
}

/// Paths that stand in a text as code.
fn named_paths(text: &str) -> Vec<String> {
    let code = Parser::new_ext(text, Options::ENABLE_TABLES).filter_map(|event| match event {
        Event::Code(part) => Some(part.to_string()),
        _ => None,
    });
    let is_path = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    code.filter(|part| part.contains('/') && !part.starts_with('/') && part.chars().all(is_path)).collect()
}

fn check_pages(root: &Path, pages: &BTreeMap<PathBuf, PathBuf>, wrong: &mut Vec<String>) {
    let generated = pages.keys().any(|page| page.starts_with(GENERATED));
    let markdown = pages.iter().filter(|(page, _)| page.extension().is_some_and(|x| x == "md"));
    for (page, source) in markdown {
        let text = read(source);
        for link in links(&text) {
            let target = normal(&page.parent().unwrap_or(Path::new("")).join(&link.path));
            if target.starts_with(GENERATED) && !generated {
                continue;
            }
            let found = match pages.get(&target) {
                _ if link.path.is_empty() => Some(text.clone()),
                Some(from) => contents(from),
                None => None,
            };
            report(source, root, &link, found, wrong);
        }
    }
    let listed: BTreeSet<PathBuf> = pages
        .get(Path::new("SUMMARY.md"))
        .map(|summary| links(&read(summary)).into_iter().map(|link| PathBuf::from(link.path)).collect())
        .unwrap_or_default();
    let unlisted =
        pages.keys().filter(|page| page.extension().is_some_and(|x| x == "md") && !listed.contains(*page));
    for page in unlisted.filter(|page| *page != Path::new("SUMMARY.md") && !page.starts_with(GENERATED)) {
        wrong.push(format!("docs/book/src/SUMMARY.md does not list {}", page.display()));
    }
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// What a link's target holds: nothing if it is not there, and no text if it is a directory or not text.
fn contents(path: &Path) -> Option<String> {
    path.exists().then(|| read(path))
}

fn report(file: &Path, root: &Path, link: &Link, found: Option<String>, wrong: &mut Vec<String>) {
    let shown = file.strip_prefix(root).unwrap_or(file).display();
    let (path, anchor) = (&link.path, &link.anchor);
    match found {
        None => wrong.push(format!("{shown} links to {path}, which is not there")),
        Some(text) if !anchor.is_empty() && !anchors(&text).contains(anchor) => {
            wrong.push(format!("{shown} links to {path}#{anchor}, but no heading there is called so"));
        }
        Some(_) => {}
    }
}

/// A link to a file; one to elsewhere is none of ours.
#[derive(Debug, PartialEq)]
struct Link {
    path: String,
    anchor: String,
}

fn links(text: &str) -> Vec<Link> {
    let target = |event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url),
        _ => None,
    };
    let parser = Parser::new_ext(text, Options::ENABLE_TABLES);
    let ours = parser.filter_map(target).filter(|url| !url.contains("://") && !url.starts_with("mailto:"));
    let split = |url: pulldown_cmark::CowStr<'_>| {
        let (path, anchor) = url.split_once('#').unwrap_or((&url, ""));
        Link { path: path.to_owned(), anchor: anchor.to_owned() }
    };
    ours.map(split).collect()
}

/// The names by which headings are linked to: lower case, words joined by hyphens, other signs left out.
fn anchors(text: &str) -> BTreeSet<String> {
    let (mut found, mut heading) = (BTreeSet::new(), None::<String>);
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match (event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::Text(part) | Event::Code(part), Some(words)) => words.push_str(&part),
            (Event::End(TagEnd::Heading(_)), Some(words)) => {
                let kept = words.to_lowercase().replace(' ', "-");
                found.insert(kept.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect());
                heading = None;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_headings_are_found() {
        let text = "# A `b` c, d\n\n[x](other.md#how) ![p](p.png) [e](https://e.invalid/) [s](#a-b-c-d)\n\n```text\n[no](no.md)\n```\n";
        let found: Vec<_> = links(text).into_iter().map(|l| format!("{}#{}", l.path, l.anchor)).collect();
        assert_eq!(found, ["other.md#how", "p.png#", "#a-b-c-d"]);
        assert!(anchors(text).contains("a-b-c-d"));
    }

    #[test]
    fn paths_are_found_in_code_alone() {
        let text = "`a/b.rs` c/d.rs `e.rs` `Some::f/g` `h/`\n\n| `i/j` |\n|---|\n";
        assert_eq!(named_paths(text), ["a/b.rs", "h/", "i/j"]);
    }

    #[test]
    fn kinds_stand_below_the_list_of_elements() {
        let summary = with_kinds("- [Elements](reference/elements.md)\n- x", &[PathBuf::from("e/ip.md")]);
        assert_eq!(summary, "- [Elements](reference/elements.md)\n  - [ip](reference/elements/ip.md)\n- x\n");
    }

    #[test]
    fn paths_are_made_plain() {
        assert_eq!(normal(Path::new("a/../b/./c.md")), Path::new("b/c.md"));
    }
}
