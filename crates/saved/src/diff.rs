// SPDX-License-Identifier: MIT OR Apache-2.0
//! The difference between two sets of files, in the unified form that `diff -u` and git print.

use std::fmt::Write as _;
use std::time::Duration;

use similar::{Algorithm, TextDiff};

use crate::commit::{File, Files};

/// Lines around a change.
const CONTEXT: usize = 3;
/// Files of more bytes are only said to differ.
const LONGEST: usize = 1 << 20;
/// After this time a difference is shown less finely.
const PATIENCE: Duration = Duration::from_secs(2);

/// The difference of two texts; empty if there is none.
#[must_use]
pub fn unified(old: &str, new: &str, names: (&str, &str)) -> String {
    if old == new {
        return String::new();
    }
    let diff = TextDiff::configure().algorithm(Algorithm::Myers).timeout(PATIENCE).diff_lines(old, new);
    diff.unified_diff().context_radius(CONTEXT).header(names.0, names.1).to_string()
}

/// The difference of two sets of files; empty if there is none. Secrets are only said to differ.
#[must_use]
pub fn diff(old: &Files, new: &Files) -> String {
    let mut text = String::new();
    let mut paths: Vec<&String> = old.keys().chain(new.keys()).collect();
    paths.sort();
    paths.dedup();
    for path in paths {
        one(path, old.get(path), new.get(path), &mut text);
    }
    text
}

fn one(path: &str, old: Option<&File>, new: Option<&File>, text: &mut String) {
    if old == new {
        return;
    }
    let names = (name("a", path, old), name("b", path, new));
    let word = match (old, new) {
        (None, _) => "added",
        (_, None) => "removed",
        _ => "changed",
    };
    if let (Some(old), Some(new)) = (old, new)
        && old.mode != new.mode
    {
        let _ = writeln!(text, "{path}: permissions {:o}, were {:o}", new.mode, old.mode);
    }
    if let (Some(old), Some(new)) = (old, new)
        && old.owner != new.owner
    {
        let ((uid, gid), (was_uid, was_gid)) = (new.owner, old.owner);
        let _ = writeln!(text, "{path}: owner {uid}:{gid}, was {was_uid}:{was_gid}");
    }
    let same = old.is_some_and(|old| new.is_some_and(|new| old.bytes == new.bytes));
    if same {
        return;
    }
    if [old, new].into_iter().flatten().any(File::is_secret) {
        let _ = writeln!(text, "{path}: (secret, {word})");
        return;
    }
    match (readable(old), readable(new)) {
        (Some(old), Some(new)) => {
            let lines = unified(old, new, (&names.0, &names.1));
            // A file without a line has none to show.
            if lines.is_empty() {
                let _ = writeln!(text, "{path}: (empty, {word})");
            }
            text.push_str(&lines);
        }
        _ => {
            let _ = writeln!(text, "{path}: (no text, or too long, {word})");
        }
    }
}

fn name(side: &str, path: &str, file: Option<&File>) -> String {
    file.map_or_else(|| "/dev/null".to_owned(), |_| format!("{side}/{path}"))
}

/// The text of a file, if it is one that people read. A missing file has an empty one.
fn readable(file: Option<&File>) -> Option<&str> {
    let Some(file) = file else { return Some("") };
    let text = std::str::from_utf8(&file.bytes).ok()?;
    let plain = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r');
    (text.len() <= LONGEST && text.chars().all(plain)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str, u32)]) -> Files {
        let file = |&(path, text, mode): &(&str, &str, u32)| {
            (path.to_owned(), File { bytes: text.as_bytes().to_vec(), mode, owner: (0, 0) })
        };
        list.iter().map(file).collect()
    }

    #[test]
    fn a_change_is_shown_with_its_lines() {
        let old = files(&[("r", "1\n2\n3\n4\n5\n", 0o644)]);
        let new = files(&[("r", "1\n2\n3\n4\nfive\n", 0o644)]);
        assert_eq!(diff(&old, &new), "--- a/r\n+++ b/r\n@@ -2,4 +2,4 @@\n 2\n 3\n 4\n-5\n+five\n");
        assert_eq!(diff(&old, &old), "");
    }

    #[test]
    fn files_come_and_go() {
        let one = files(&[("r", "x\n", 0o644), ("e", "", 0o644)]);
        assert_eq!(
            diff(&Files::new(), &one),
            "e: (empty, added)\n--- /dev/null\n+++ b/r\n@@ -0,0 +1 @@\n+x\n"
        );
        assert!(diff(&one, &Files::new()).ends_with("--- a/r\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"));
    }

    #[test]
    fn secrets_and_bytes_are_not_shown() {
        let old = files(&[("k", "hidden-1", 0o600), ("b", "\u{1}", 0o644), ("p", "x", 0o644)]);
        let new = files(&[("k", "hidden-2", 0o600), ("b", "\u{2}", 0o644), ("p", "x", 0o640)]);
        let text = diff(&old, &new);
        assert_eq!(
            text,
            "b: (no text, or too long, changed)\nk: (secret, changed)\np: permissions 640, were 644\n"
        );
        // A file that was a secret before is one, too.
        let open = files(&[("k", "hidden-1\nx", 0o644)]);
        assert!(!diff(&old, &open).contains("hidden"));
    }
}
