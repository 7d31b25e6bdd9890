// SPDX-License-Identifier: MIT OR Apache-2.0
//! A text that an editor has open, and what is known of it.

use std::cell::OnceCell;
use std::ops::Range;
use std::path::{Path, PathBuf};

use lang::syntax::Syntax;
use lang::{Graph, SourceMap, Span};
use serde_json::{Value, json};

use crate::position::{Lines, Position};

/// What a text is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Click,
    Firewall,
    Nat,
}

impl Language {
    /// By the ending of the file's name, or by what the editor calls it.
    fn of(uri: &str, id: &str) -> Language {
        let ends = |ending: &str| uri.ends_with(ending);
        match id {
            _ if ends(".click") => Language::Click,
            _ if ends(".fw") => Language::Firewall,
            _ if ends(".nat") => Language::Nat,
            "junctor-firewall" => Language::Firewall,
            "junctor-nat" => Language::Nat,
            _ => Language::Click,
        }
    }
}

/// What came of checking a text.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) diagnostics: Vec<lang::Diagnostic>,
    pub(crate) sources: SourceMap,
    pub(crate) graph: Option<Graph>,
}

/// An open text.
pub(crate) struct Document {
    pub(crate) uri: String,
    pub(crate) path: Option<PathBuf>,
    pub(crate) language: Language,
    pub(crate) version: i64,
    /// It was changed since it was checked.
    pub(crate) is_changed: bool,
    pub(crate) checked: Option<Checked>,
    text: String,
    lines: Lines,
    syntax: OnceCell<Syntax>,
}

impl Document {
    pub(crate) fn open(uri: &str, language: &str, version: i64, text: String) -> Document {
        Document {
            uri: uri.to_owned(),
            path: path_of(uri),
            language: Language::of(uri, language),
            version,
            is_changed: true,
            checked: None,
            lines: Lines::of(&text),
            text,
            syntax: OnceCell::new(),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Replaces a part of the text, or all of it.
    pub(crate) fn replace(&mut self, range: Option<(Position, Position)>, new: &str) {
        match range {
            Some((start, end)) => {
                let (start, end) = (self.lines.byte(&self.text, start), self.lines.byte(&self.text, end));
                self.text.replace_range(start..end.max(start), new);
            }
            None => new.clone_into(&mut self.text),
        }
        self.lines = Lines::of(&self.text);
        self.syntax = OnceCell::new();
        self.is_changed = true;
        self.checked = None;
    }

    /// The text, taken apart.
    pub(crate) fn syntax(&self) -> &Syntax {
        self.syntax.get_or_init(|| Syntax::of(&self.text))
    }

    /// Bytes of a byte order mark, which spans do not count.
    fn mark(&self) -> usize {
        if self.text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }
    }

    /// The byte of the compiler's text at a place.
    pub(crate) fn byte(&self, at: Position) -> usize {
        self.lines.byte(&self.text, at).saturating_sub(self.mark())
    }

    pub(crate) fn position(&self, byte: usize) -> Position {
        self.lines.position(&self.text, byte + self.mark())
    }

    pub(crate) fn range(&self, bytes: Range<usize>) -> Value {
        json!({ "start": self.position(bytes.start).json(), "end": self.position(bytes.end).json() })
    }

    pub(crate) fn span(&self, span: Span) -> Value {
        self.range(span.start as usize..span.end as usize)
    }

    /// All of the text.
    pub(crate) fn whole(&self) -> Value {
        json!({
            "start": { "line": 0, "character": 0 },
            "end": self.lines.position(&self.text, self.text.len()).json(),
        })
    }

    /// A place in this document.
    pub(crate) fn location(&self, span: Span) -> Value {
        json!({ "uri": self.uri, "range": self.span(span) })
    }

    /// The name that messages give it.
    pub(crate) fn name(&self) -> String {
        self.path.as_deref().map_or_else(|| self.uri.clone(), |path| path.display().to_string())
    }
}

/// A place in another text.
pub(crate) fn location_in(name: &str, text: &str, span: Span) -> Value {
    let lines = Lines::of(text);
    let at = |byte: u32| lines.position(text, byte as usize).json();
    json!({ "uri": uri_of(Path::new(name)), "range": { "start": at(span.start), "end": at(span.end) } })
}

/// The path of a `file:` URI.
pub(crate) fn path_of(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let path = &rest[rest.find('/')?..];
    let mut bytes = Vec::with_capacity(path.len());
    let mut at = path.bytes();
    while let Some(byte) = at.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [at.next()?, at.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    Some(PathBuf::from(String::from_utf8(bytes).ok()?))
}

/// The URI of a path.
pub(crate) fn uri_of(path: &Path) -> String {
    let mut uri = String::from("file://");
    for &byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_paths() {
        let check =
            |uri: &str, path: Option<&str>| assert_eq!(path_of(uri), path.map(PathBuf::from), "{uri}");
        check("file:///etc/a.click", Some("/etc/a.click"));
        check("file://host/a%20b.click", Some("/a b.click"));
        check("file:///%C3%A9", Some("/\u{e9}"));
        check("file:///%zz", None);
        check("file:///a%4", None);
        check("untitled:Untitled-1", None);
        for path in ["/a b/\u{e9}%.click", "/plain"] {
            assert_eq!(path_of(&uri_of(Path::new(path))).as_deref(), Some(Path::new(path)));
        }
    }
}
