// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages of the book: their blocks of code, and code in the text itself.

use std::path::{Path, PathBuf};

/// A block of code.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// The word behind the fence.
    pub language: &'a str,
    /// What stands between the fences.
    pub text: &'a str,
    /// The line of the page where it begins.
    pub line: usize,
    /// What stands between it and the block before.
    pub before: &'a str,
}

/// A command of a block for the console, and what the page shows as its output.
#[derive(Clone, Debug, Default)]
pub struct Shown<'a> {
    /// The command, in one line and without a prompt.
    pub command: String,
    /// Lines that follow it.
    pub output: Vec<&'a str>,
}

/// The repository of the crate whose test runs.
pub fn root() -> PathBuf {
    let this = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    this.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into()).join("../..")
}

/// The pages below a directory of the repository, by name.
///
/// # Panics
/// They cannot be read.
pub fn pages(directory: &str) -> Vec<(String, String)> {
    fn below(directory: &Path, into: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).expect("a directory of pages").flatten() {
            let path = entry.path();
            if path.is_dir() {
                below(&path, into);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                into.push(path);
            }
        }
    }
    let (root, mut found) = (root(), Vec::new());
    below(&root.join(directory), &mut found);
    found.sort();
    let page = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a page");
        (path.strip_prefix(&root).unwrap_or(&path).display().to_string(), text)
    };
    found.into_iter().map(page).collect()
}

/// The blocks of a page.
pub fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let (mut rest, mut offset) = (page, 0);
    while let Some((before, language, text, after)) = next(rest) {
        let start = offset + before.len();
        let line = page[..start].matches('\n').count() + 1;
        found.push(Block { language, text, line, before });
        offset = page.len() - after.len();
        rest = after;
    }
    found
}

/// What stands before the next block, its language, its text, and the rest.
fn next(page: &str) -> Option<(&str, &str, &str, &str)> {
    let start = if page.starts_with("```") { 0 } else { page.find("\n```")? + 1 };
    let (language, inside) = page[start + 3..].split_once('\n')?;
    let end = if inside.starts_with("```") { 0 } else { inside.find("\n```")? + 1 };
    Some((&page[..start], language, &inside[..end], &inside[end + 3..]))
}

/// Code in the text itself.
pub fn spans(page: &str) -> Vec<&str> {
    let mut texts: Vec<&str> = blocks(page).into_iter().map(|block| block.before).collect();
    let mut rest = page;
    while let Some((.., after)) = next(rest) {
        rest = after;
    }
    texts.push(rest);
    texts.into_iter().flat_map(|text| text.split('`').skip(1).step_by(2)).collect()
}

impl<'a> Block<'a> {
    /// Whether it has commands.
    pub fn is_script(&self) -> bool {
        ["sh", "console"].contains(&self.language)
    }

    /// Its commands, each in one line. In a block for the console, a prompt stands before a command.
    ///
    /// # Panics
    /// A block for the console does not begin with a prompt.
    pub fn commands(&self) -> Vec<Shown<'a>> {
        let mut found: Vec<Shown<'a>> = Vec::new();
        let mut goes_on = false;
        for line in self.text.lines() {
            let prompt = if self.language == "console" { "$ " } else { "" };
            if !goes_on && !line.starts_with(prompt) {
                found.last_mut().expect("a prompt before output").output.push(line);
                continue;
            }
            let part = if goes_on { line.trim_start() } else { &line[prompt.len()..] };
            if !goes_on {
                found.push(Shown::default());
            }
            let command = &mut found.last_mut().expect("one").command;
            goes_on = part.ends_with('\\');
            command.push_str(part.strip_suffix('\\').unwrap_or(part));
        }
        found.retain(|shown| !shown.command.trim().is_empty());
        found
    }

    /// The file that it is, if its first line is a comment that names one.
    pub fn file(&self) -> Option<&'a str> {
        let name = self.text.lines().next()?.strip_prefix("# ")?;
        (name.contains('.') && !name.contains([' ', '/'])).then_some(name)
    }
}

/// Whether printed lines have those that a page shows, in this order. `...` stands for any words, and alone in a line for any lines.
///
/// # Errors
/// The first line that was not printed, and what was.
pub fn shows(printed: &str, shown: &[&str]) -> Result<(), String> {
    let mut rest = printed.lines();
    for line in shown.iter().filter(|line| !line.trim().is_empty() && line.trim() != "...") {
        if !rest.any(|real| is_like(real, line)) {
            return Err(format!("the page shows '{line}', and this was printed:\n{printed}"));
        }
    }
    Ok(())
}

/// Whether a line has the words of a pattern.
fn is_like(line: &str, pattern: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (line, pattern) = (plain(line), plain(pattern));
    let mut parts = pattern.split("...");
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    for (n, part) in parts.iter().enumerate() {
        let found = if n + 1 == parts.len() {
            rest.ends_with(part).then(|| rest.len() - part.len())
        } else {
            rest.find(part)
        };
        let Some(at) = found else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_what_stands_before_them() {
        let page =
            "# A `b`\n\n```sh\nx \\\n    y\n```\n\nThen `c`:\n\n```console\n$ p\nq\n\n$ r\n```\nlast `d`\n";
        let found = blocks(page);
        let [x, p] = &found[..] else { panic!("{found:?}") };
        assert_eq!((x.language, x.line, x.text), ("sh", 3, "x \\\n    y\n"));
        assert_eq!((p.language, p.line, p.before), ("console", 10, "\n\nThen `c`:\n\n"));
        assert_eq!(x.commands().iter().map(|shown| &*shown.command).collect::<Vec<_>>(), ["x y"]);
        let shown: Vec<_> = p.commands().into_iter().map(|shown| (shown.command, shown.output)).collect();
        assert_eq!(shown, [("p".to_owned(), vec!["q", ""]), ("r".to_owned(), vec![])]);
        assert_eq!(spans(page), ["b", "c", "d"]);
    }

    #[test]
    fn patterns_of_lines() {
        let printed = "a  b 17 c\nd\ne f\n";
        let check = |shown: &[&str]| shows(printed, shown).is_ok();
        assert!(check(&["a b ... c", "...", "e f"]) && check(&["a b 17 c", "d"]) && check(&["...", "e ..."]));
        assert!(
            !check(&["a b"]) && !check(&["d", "a b ... c"]) && !check(&["a b ... d"]) && !check(&["e f g"])
        );
    }
}
