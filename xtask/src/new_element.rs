// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask new-element KIND Name`: what an element needs, so that its author begins with something that works and that all rules are
//! content with: its file with manual and test, its place in the lists, and a golden case. It begins as what `templates/` holds.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const SOURCE: &str = include_str!("../templates/element.rs");
const CASE: &str = include_str!("../templates/element.test");
/// The name that the templates have in place of the element's.
const PLACEHOLDER: &str = "NewElement";
/// The list of classes of which a hot swap takes nothing over.
const SWAPPED: &str = "crates/elements/src/swapped_all.rs";

/// Makes an element.
pub(crate) fn main(root: &Path, kind: Option<String>, name: Option<String>) -> ExitCode {
    let (Some(kind), Some(name)) = (kind, name) else {
        eprintln!("usage: cargo xtask new-element KIND Name; kinds: {}", kinds(root).join(" "));
        return ExitCode::from(2);
    };
    match make(root, &kind, &name) {
        Ok(files) => {
            let sources = files.iter().filter(|file| file.extension().is_some_and(|x| x == "rs"));
            // Without it, lists stay as they are until `cargo fmt`.
            let _ = Command::new("rustfmt").args(["--edition", "2024"]).args(sources).status();
            for file in &files {
                println!("{}", file.strip_prefix(root).unwrap_or(file).display());
            }
            println!("now: cargo nextest run -p junctor-elements {}", snake(&name));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("new-element: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Folders of elements with a list of classes.
fn kinds(root: &Path) -> Vec<String> {
    let folders = std::fs::read_dir(root.join("crates/elements/src")).into_iter().flatten().flatten();
    let has_list =
        |folder: &PathBuf| crate::tidy::read(&folder.join("mod.rs")).contains("pub static CLASSES");
    let mut all: Vec<String> = folders
        .map(|entry| entry.path())
        .filter(has_list)
        .filter_map(|folder| Some(folder.file_name()?.to_string_lossy().into_owned()))
        .collect();
    all.sort();
    all
}

/// Writes and changes files; returns which.
fn make(root: &Path, kind: &str, name: &str) -> Result<Vec<PathBuf>, String> {
    if !name.starts_with(|c: char| c.is_ascii_uppercase()) || !name.chars().all(|c| c.is_ascii_alphanumeric())
    {
        return Err(format!(
            "'{name}' is no name of a class: it begins with a capital letter, as MirrorBytes, and has letters and digits only"
        ));
    }
    if !kinds(root).iter().any(|known| known == kind) {
        return Err(format!("no kind '{kind}': choose from {}", kinds(root).join(" ")));
    }
    let file = snake(name);
    let folder = root.join("crates/elements/src").join(kind);
    let [source, list, swapped, case] = [
        folder.join(format!("{file}.rs")),
        folder.join("mod.rs"),
        root.join(SWAPPED),
        root.join("tests/golden").join(kind).join(format!("{}.test", file.replace('_', "-"))),
    ];
    for place in [&source, &case] {
        if place.exists() {
            return Err(format!("{} is there already", place.display()));
        }
    }
    let lists = [
        (&list, listed(&crate::tidy::read(&list), &file)),
        (&swapped, entered(&crate::tidy::read(&swapped), "const NOTHING: ", &format!("\"{name}\""))),
    ];
    for (place, text) in &lists {
        let text = text.as_ref().ok_or_else(|| format!("{}: no list to enter it in", place.display()))?;
        write(place, text)?;
    }
    write(&source, &SOURCE.replace(PLACEHOLDER, name))?;
    write(&case, &CASE.replace(PLACEHOLDER, name))?;
    Ok(vec![source, list, swapped, case])
}

fn write(place: &Path, text: &str) -> Result<(), String> {
    let folder = place.parent().unwrap_or(place);
    let made = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(place, text));
    made.map_err(|why| format!("{}: {why}", place.display()))
}

/// `IPRateMonitor` is in `ip_rate_monitor.rs`.
fn snake(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut text = String::new();
    for (at, c) in chars.iter().enumerate() {
        let after_small = at > 0 && !chars[at - 1].is_ascii_uppercase();
        let before_small = at > 0 && chars.get(at + 1).is_some_and(char::is_ascii_lowercase);
        if c.is_ascii_uppercase() && (after_small || before_small) {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

/// A kind's list with one more file in it.
fn listed(text: &str, file: &str) -> Option<String> {
    let module = |line: &str| {
        let bare = line.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
        Some(bare.strip_prefix("mod ")?.trim_end_matches(";").to_owned())
    };
    let mut lines: Vec<&str> = text.lines().collect();
    let is_before = |line: &&str| module(line).is_some_and(|other| *other < *file);
    let at = match lines.iter().rposition(is_before) {
        Some(before) => before + 1,
        None => {
            let first = lines.iter().position(|line| module(line).is_some())?;
            let is_apart = |line: &&str| !line.starts_with("#[") && !line.starts_with("///");
            lines[..first].iter().rposition(is_apart).map_or(first, |apart| apart + 1)
        }
    };
    let declared = format!("mod {file};");
    lines.insert(at, &declared);
    entered(&(lines.join("\n") + "\n"), "pub static CLASSES: ", &format!("{file}::CLASS"))
}

/// The text with one entry more in the list that begins so, where the order of the alphabet has it.
fn entered(text: &str, list: &str, entry: &str) -> Option<String> {
    let begin = text.find(list)?;
    let begin = begin + text[begin..].find('=')?;
    let begin = begin + text[begin..].find("&[")? + "&[".len();
    let end = begin + text[begin..].find("];")?;
    let line = format!("    {entry},\n");
    let is_before = |other: &&str| other.trim().is_empty() || **other < *line;
    let lines = text[begin..end].split_inclusive('\n').take_while(is_before);
    // A list on one line is rustfmt's to order.
    let at = begin + lines.filter(|line| line.ends_with('\n')).map(str::len).sum::<usize>();
    Some(format!("{}{line}{}", &text[..at], &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_as_ours() {
        for (name, file) in [
            ("Strip", "strip"),
            ("IPRateMonitor", "ip_rate_monitor"),
            ("CheckIP6Header", "check_ip6_header"),
            ("DecIPTTL", "dec_ipttl"),
        ] {
            assert_eq!(snake(name), file);
        }
    }

    /// A copy of what is looked at, without what is not.
    fn copy(from: &Path, to: &Path) {
        for file in ["rs", "test"].iter().flat_map(|extension| crate::tidy::files(from, extension)) {
            let place = to.join(file.strip_prefix(from).unwrap());
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::copy(file, place).unwrap();
        }
    }

    /// The rules of [`crate::tidy`] are content with an element of each kind, and each list holds it.
    #[test]
    fn a_new_element_of_each_kind_is_tidy() {
        let (root, copied) = (crate::root(), tempfile::tempdir().unwrap());
        for part in ["crates/elements/src", "tests/golden"] {
            copy(&root.join(part), &copied.path().join(part));
        }
        for kind in kinds(&root) {
            let name = format!("Mirror{}Bytes", kind.to_ascii_uppercase());
            let files = make(copied.path(), &kind, &name).unwrap();
            for file in files {
                let text = crate::tidy::read(&file);
                assert!(
                    text.contains(&name) || text.contains(&format!("{}::CLASS", snake(&name))),
                    "{file:?}"
                );
                assert!(
                    file.extension().is_none_or(|x| x != "rs") || syn::parse_file(&text).is_ok(),
                    "{file:?}"
                );
            }
            assert!(make(copied.path(), &kind, &name).unwrap_err().contains("is there already"));
        }
        let mut wrong = Vec::new();
        crate::tidy::rules_of_elements(copied.path(), &mut wrong);
        assert_eq!(wrong, Vec::<String>::new());
    }

    #[test]
    fn what_cannot_be_made_is_refused() {
        let root = crate::root();
        for (kind, name, why) in [
            ("basic", "mirror", "is no name of a class"),
            ("basic", "../X", "is no name"),
            ("nokind", "Mirror", "choose from analysis balance basic"),
        ] {
            assert!(make(&root, kind, name).unwrap_err().contains(why));
        }
    }
}
