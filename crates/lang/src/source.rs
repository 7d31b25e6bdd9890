// SPDX-License-Identifier: MIT OR Apache-2.0
//! Source texts and places in them.
//!
//! A [`Span`] is a byte range in one file of a [`SourceMap`]. Generated configurations carry `# N "file"` and `#line`
//! directives; they change the name and line that are *reported* for what follows, never the text that is shown.

use std::sync::Arc;

/// What some editors begin a text with; it says nothing in UTF-8.
pub(crate) const BYTE_ORDER_MARK: char = '\u{feff}';

/// A byte range in a file of a [`SourceMap`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// Index of the file in its [`SourceMap`].
    pub file: u32,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The smallest span that covers both, which lie in one file; otherwise `self`.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        if self.file != other.file {
            return self;
        }
        Span { file: self.file, start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// Where a span starts, as it is reported to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// File name, after line directives.
    pub name: Arc<str>,
    /// Line counted from 1, after line directives.
    pub line: u32,
    /// Column counted in characters from 1.
    pub column: u32,
}

/// From the byte `offset` on, lines are reported as `name` and counted from `line`.
#[derive(Clone, Debug)]
struct Remap {
    offset: u32,
    name: Arc<str>,
    line: u32,
}

#[derive(Clone, Debug)]
struct File {
    name: Arc<str>,
    text: Arc<str>,
    /// Byte offsets at which lines start; the first is 0.
    line_starts: Vec<u32>,
    /// Ordered by offset.
    remaps: Vec<Remap>,
}

/// All source texts of one configuration: the file itself and the libraries it requires.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<File>,
}

impl SourceMap {
    /// An empty map.
    #[must_use]
    pub fn new() -> SourceMap {
        SourceMap::default()
    }

    /// Adds a text and returns its file index. Bytes past 4 GiB are cut off, since spans are 32 bits wide.
    pub fn add(&mut self, name: &str, text: &str) -> u32 {
        // Some editors put a byte order mark first.
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let mut end = text.len().min(u32::MAX as usize - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = &text[..end];
        self.files.push(File {
            name: name.into(),
            text: text.into(),
            line_starts: line_starts(text),
            remaps: Vec::new(),
        });
        (self.files.len() - 1) as u32
    }

    /// Number of files.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is no file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The name under which `file` was added; empty for an unknown file.
    #[must_use]
    pub fn name(&self, file: u32) -> &str {
        self.files.get(file as usize).map_or("", |f| &f.name)
    }

    /// The text of `file`; empty for an unknown file.
    #[must_use]
    pub fn text(&self, file: u32) -> &str {
        self.files.get(file as usize).map_or("", |f| &f.text)
    }

    pub(crate) fn shared_text(&self, file: u32) -> Arc<str> {
        self.files.get(file as usize).map_or_else(|| "".into(), |f| Arc::clone(&f.text))
    }

    /// The source text of a span; empty when the span doesn't fit this map.
    #[must_use]
    pub fn snippet(&self, span: Span) -> &str {
        self.text(span.file).get(span.start as usize..span.end as usize).unwrap_or("")
    }

    /// Reported name, line and column of a span's start.
    #[must_use]
    pub fn location(&self, span: Span) -> Location {
        self.location_of(span.file, span.start)
    }

    /// Reported name, line and column of a byte offset.
    #[must_use]
    pub fn location_of(&self, file: u32, offset: u32) -> Location {
        let Some(f) = self.files.get(file as usize) else {
            return Location { name: "".into(), line: 0, column: 0 };
        };
        let physical = f.line_of(offset);
        let start = f.line_starts[physical] as usize;
        let end = (offset as usize).min(f.text.len()).max(start);
        let column = f.text.as_bytes()[start..end].iter().filter(|&&b| b & 0xc0 != 0x80).count() as u32 + 1;
        match f.remaps.iter().rev().find(|r| r.offset <= offset) {
            Some(r) => {
                let line = r.line.saturating_add((physical - f.line_of(r.offset)) as u32);
                Location { name: Arc::clone(&r.name), line, column }
            }
            None => Location { name: Arc::clone(&f.name), line: physical as u32 + 1, column },
        }
    }

    /// The whole lines that a span touches: their byte range and the reported number of the first.
    #[must_use]
    pub fn lines_around(&self, span: Span) -> (std::ops::Range<usize>, u32) {
        let Some(f) = self.files.get(span.file as usize) else { return (0..0, 0) };
        let (first, last) = (f.line_of(span.start), f.line_of(span.end.max(span.start)));
        let start = f.line_starts[first] as usize;
        let end = f.line_starts.get(last + 1).map_or(f.text.len(), |&e| e as usize);
        let text = &f.text[start..end];
        (
            start..start + text.trim_end_matches(['\r', '\n']).len(),
            self.location_of(span.file, start as u32).line,
        )
    }

    /// Records a line directive: from `offset` on lines count from `line`, under `name` (`None`: as before, empty: the
    /// file's own name).
    pub(crate) fn remap(&mut self, file: u32, offset: u32, name: Option<&str>, line: u32) {
        let Some(f) = self.files.get_mut(file as usize) else { return };
        let name = match name {
            Some("") => Arc::clone(&f.name),
            Some(n) => n.into(),
            None => f.remaps.last().map_or_else(|| Arc::clone(&f.name), |r| Arc::clone(&r.name)),
        };
        f.remaps.push(Remap { offset, name, line });
    }
}

impl File {
    /// Index of the physical line that holds a byte.
    fn line_of(&self, offset: u32) -> usize {
        self.line_starts.partition_point(|&s| s <= offset).saturating_sub(1)
    }
}

/// Line starts; LF, CR LF and CR alone end a line, as in Click.
fn line_starts(text: &str) -> Vec<u32> {
    let bytes = text.as_bytes();
    let mut starts = vec![0];
    for (i, &b) in bytes.iter().enumerate() {
        if b == b'\n' || (b == b'\r' && bytes.get(i + 1) != Some(&b'\n')) {
            starts.push(i as u32 + 1);
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, offset: u32, line: u32, column: u32) {
        let mut map = SourceMap::new();
        let file = map.add("f", text);
        let at = map.location_of(file, offset);
        assert_eq!((at.line, at.column), (line, column), "{text:?} at {offset}");
    }

    #[test]
    fn counts_lines_of_every_ending() {
        check("", 0, 1, 1);
        check("a\nb", 2, 2, 1);
        check("a\r\nb", 3, 2, 1);
        check("a\rb\rc", 4, 3, 1);
        check("é\néx", 5, 2, 2);
        check("ab", 100, 1, 3);
    }

    #[test]
    fn directives_change_what_is_reported() {
        let mut map = SourceMap::new();
        let file = map.add("f", "a\n#line 10 \"g\"\nb\nc\n");
        map.remap(file, 15, Some("g"), 10);
        assert_eq!(map.location_of(file, 0), Location { name: "f".into(), line: 1, column: 1 });
        assert_eq!(map.location_of(file, 15), Location { name: "g".into(), line: 10, column: 1 });
        assert_eq!(map.location_of(file, 17), Location { name: "g".into(), line: 11, column: 1 });
        map.remap(file, 17, Some(""), 3);
        assert_eq!(map.location_of(file, 17), Location { name: "f".into(), line: 3, column: 1 });
    }
}
