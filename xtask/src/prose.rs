// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rule of plain English: no sentence over 40 words, and no house word.
//!
//! It reads Markdown files and the comments of Rust files. Code, tables and headings do not count. `cargo xtask prose` lists all that is
//! found; `cargo xtask tidy` fails where there is anything.

use std::collections::BTreeMap;
use std::path::Path;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::tidy::{files, read};

/// The most words of a sentence.
const LONGEST: usize = 40;

/// The most findings that a message shows.
const SHOWN: usize = 5;

/// House words, and what readers know instead.
const HOUSE: &[(&str, &str)] = &[
    ("begun", "started"),
    ("beside", "next to, or compared with"),
    ("crew", "stations"),
    ("deeds", "packet account"),
    ("depot", "device pool"),
    ("fate", "verdict"),
    ("heritage", "previous configuration"),
    ("hostile", "adversarial"),
    ("hulls", "placeholder workers"),
    ("likewise", "also"),
    ("mend", "fix"),
    ("mended", "fixed"),
    ("mends", "fixes"),
    ("plant", "runtime"),
    ("restless", "chaos test"),
    ("sight", "observation"),
    ("sights", "observations"),
    ("tells", "reports, or shows"),
    ("thereof", "of it"),
    ("told", "recorded, or reported"),
    ("untold", "unrecorded"),
    ("whatever", "a name for it"),
    ("whoever", "the subject"),
    ("witness", "observer"),
    ("witnesses", "observers"),
    ("witnessing", "observing"),
];

/// What a crate or folder has.
#[derive(Default)]
struct Found {
    /// Number of words, and where.
    long: Vec<(usize, String)>,
    house: Vec<String>,
}

/// Adds a line for each crate or folder that has any.
pub(crate) fn check(root: &Path, wrong: &mut Vec<String>) {
    for (place, found) in all(root) {
        let sentences: Vec<String> = found.long.into_iter().map(|(_, text)| text).collect();
        wrong.extend(judged(&place, &format!("sentences over {LONGEST} words"), &sentences));
        wrong.extend(judged(&place, "house words", &found.house));
    }
}

/// Prints everything that is found.
pub(crate) fn main(root: &Path) {
    for found in all(root).values() {
        found.long.iter().map(|(_, text)| text).chain(&found.house).for_each(|text| println!("{text}"));
    }
}

fn judged(place: &str, what: &str, found: &[String]) -> Option<String> {
    let shown: Vec<&str> = found.iter().take(SHOWN).map(String::as_str).collect();
    let count = found.len();
    (count > 0).then(|| format!("{place}: {count} {what}, and there may be none:\n  {}", shown.join("\n  ")))
}

/// By crate, folder or file at the root; the longest sentences first.
fn all(root: &Path) -> BTreeMap<String, Found> {
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    for file in files(root, "md").into_iter().chain(files(root, "rs")) {
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        let text = if shown.ends_with(".rs") { comments(&read(&file)) } else { read(&file) };
        let (long, house) = findings(&text, &shown);
        if long.len() + house.len() > 0 {
            let of = found.entry(place(&shown)).or_default();
            of.long.extend(long);
            of.house.extend(house);
        }
    }
    found.values_mut().for_each(|f| f.long.sort_by_key(|(words, _)| std::cmp::Reverse(*words)));
    found
}

/// The crate, or the folder at the top, or the file there.
fn place(file: &str) -> String {
    let parts: Vec<&str> = file.split('/').collect();
    let is_deep = ["crates", "docs"].contains(&parts[0]) && parts.len() > 2;
    parts[..1 + usize::from(is_deep)].join("/")
}

/// The comments of a Rust file as Markdown, each line in its place. Those behind code on a line do not count.
fn comments(text: &str) -> String {
    let body = |line: &str| {
        let line = line.trim_start().strip_prefix("//").filter(|line| !line.starts_with(" SPDX"))?;
        let line = line.strip_prefix(['/', '!']).unwrap_or(line);
        Some(line.strip_prefix(' ').unwrap_or(line).to_owned())
    };
    let lines: Vec<String> = text.lines().map(|line| body(line).unwrap_or_default()).collect();
    lines.join("\n")
}

/// Sentences that are too long, and house words.
fn findings(text: &str, file: &str) -> (Vec<(usize, String)>, Vec<String>) {
    let (mut long, mut house) = (Vec::new(), Vec::new());
    for (line, paragraph) in paragraphs(text) {
        for sentence in sentences(&paragraph) {
            let words = words(sentence);
            if words.len() > LONGEST {
                long.push((
                    words.len(),
                    format!("{file}:{line}: {} words: {}", words.len(), sentence.trim()),
                ));
            }
            for word in words.iter().map(|w| w.to_lowercase()) {
                if let Some((_, better)) = HOUSE.iter().find(|(house, _)| *house == word) {
                    house.push(format!("{file}:{line}: '{word}', say {better}: {}", sentence.trim()));
                }
            }
        }
    }
    (long, house)
}

/// Paragraphs and items with the line where they start; `x` in place of code.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let (mut found, mut open, mut skipped) = (Vec::new(), (0, String::new()), 0);
    let mut close = |open: &mut (usize, String), at: usize| {
        let (start, body) = std::mem::replace(open, (at, String::new()));
        if !body.trim().is_empty() {
            found.push((text[..start].matches('\n').count() + 1, body));
        }
    };
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(_) | Tag::Table(_) | Tag::Heading { .. }) => {
                close(&mut open, range.start);
                skipped += 1;
            }
            Event::End(TagEnd::CodeBlock | TagEnd::Table | TagEnd::Heading(_)) => skipped -= 1,
            Event::Start(Tag::Paragraph | Tag::Item | Tag::List(_)) => close(&mut open, range.start),
            Event::End(TagEnd::Paragraph | TagEnd::Item) => close(&mut open, range.end),
            Event::Text(part) if skipped == 0 => open.1 += &part,
            Event::Code(_) if skipped == 0 => open.1.push('x'),
            Event::SoftBreak | Event::HardBreak => open.1.push(' '),
            _ => {}
        }
    }
    close(&mut open, text.len());
    found
}

/// Cuts behind `.`, `!` and `?`, and what they close, if a space and no lower-case letter follow.
fn sentences(paragraph: &str) -> Vec<&str> {
    let (mut found, mut from) = (Vec::new(), 0);
    for (at, end) in paragraph.match_indices(['.', '!', '?']) {
        let closing = paragraph[at + end.len()..].chars().take_while(|c| ")*\"".contains(*c)).count();
        let behind = at + end.len() + closing;
        let rest = &paragraph[behind..];
        let next = rest.trim_start().chars().next();
        if rest.starts_with(char::is_whitespace) && next.is_some_and(|c| !c.is_lowercase() || c == 'x') {
            found.push(&paragraph[from..behind]);
            from = behind;
        }
    }
    found.push(&paragraph[from..]);
    found
}

fn words(sentence: &str) -> Vec<&str> {
    let parts = sentence.split(|c: char| !c.is_alphanumeric() && !"'’-".contains(c));
    parts.filter(|part| part.starts_with(char::is_alphabetic)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sentences_and_house_words_are_found_where_they_stand() {
        let long = "word ".repeat(LONGEST + 1);
        let text = format!(
            "# A title that was told\n\nShort one.\n\n- {long}\n- It is told `whoever` \"x\". Good.\n"
        );
        let (sentences, house) = findings(&text, "a.md");
        assert_eq!(sentences.len(), 1);
        assert!(sentences[0].1.starts_with("a.md:5: 41 words: word word"), "{sentences:?}");
        assert_eq!(house, ["a.md:6: 'told', say recorded, or reported: It is told x \"x\"."]);
    }

    #[test]
    fn code_and_tables_do_not_count_and_items_end_sentences() {
        let half = "word ".repeat(LONGEST / 2);
        let long = "word ".repeat(LONGEST + 1);
        let text = format!(
            "- {half}\n- {half}\n\n```\n{long}\n```\n\n| a |\n|---|\n| {long} |\n\n{half}. {half}\n\n({half}.) {half}\n"
        );
        assert!(findings(&text, "a.md").0.is_empty());
    }

    #[test]
    fn comments_keep_their_lines() {
        let (_, house) =
            findings(&comments("// SPDX\n//! One.\n//!\n//! Two tells.\nfn tells() {} // tells\n"), "a.rs");
        assert_eq!(house, ["a.rs:4: 'tells', say reports, or shows: Two tells."]);
    }

    #[test]
    fn nothing_passes() {
        let found: Vec<String> = (0..3).map(|n| format!("f:{n}")).collect();
        assert_eq!(judged("p", "words", &[]), None);
        assert!(judged("p", "words", &found).unwrap().contains("p: 3 words, and there may be none:\n  f:0"));
    }

    #[test]
    fn places_are_crates_and_folders() {
        let places = ["crates/a/src/b.rs", "docs/book/src/c.md", "docs/json.md", "README.md"].map(place);
        assert_eq!(places, ["crates/a", "docs/book", "docs", "README.md"]);
    }
}
