// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text to tokens, on demand.
//!
//! Configuration strings follow rules of their own, and only the parser knows where one starts, so it asks for it with
//! [`Lexer::config`] right after an opening parenthesis. Line directives are taken out here, wherever they stand.

use std::sync::Arc;

use crate::config::{is_space, skip_comment, skip_hex, skip_quoted, unquote_string};
use crate::diagnostic::{Diagnostic, Sink};
use crate::source::{SourceMap, Span};
use crate::syntax::{Piece, PieceKind};
use crate::text::Text;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Ident,
    /// `$name`; the token's text is the name.
    Variable,
    /// `->`
    Arrow,
    /// `=>`
    DoubleArrow,
    /// `::`
    DoubleColon,
    /// `||`
    DoubleBar,
    /// `...`
    Ellipsis,
    ElementClass,
    Require,
    Provide,
    Define,
    /// Any other character.
    Char(char),
    End,
}

impl TokenKind {
    /// What it is for those who see the text as it was written.
    fn piece(self) -> PieceKind {
        match self {
            TokenKind::Ident => PieceKind::Ident,
            TokenKind::Variable => PieceKind::Variable,
            TokenKind::ElementClass | TokenKind::Require | TokenKind::Provide | TokenKind::Define => {
                PieceKind::Keyword
            }
            _ => PieceKind::Symbol,
        }
    }

    /// How messages speak of it.
    pub(crate) fn describe(self) -> String {
        let text = match self {
            TokenKind::Ident => return "identifier".into(),
            TokenKind::Variable => return "variable".into(),
            TokenKind::End => return "end of file".into(),
            TokenKind::Char(c) => return format!("'{c}'"),
            TokenKind::Arrow => "->",
            TokenKind::DoubleArrow => "=>",
            TokenKind::DoubleColon => "::",
            TokenKind::DoubleBar => "||",
            TokenKind::Ellipsis => "...",
            TokenKind::ElementClass => "elementclass",
            TokenKind::Require => "require",
            TokenKind::Provide => "provide",
            TokenKind::Define => "define",
        };
        format!("'{text}'")
    }
}

/// A token and its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
}

/// A configuration string: its text without line directives, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) text: Text,
    pub(crate) span: Span,
}

/// Reads one file of a source map.
pub(crate) struct Lexer<'a> {
    pub(crate) sources: &'a mut SourceMap,
    pub(crate) sink: &'a mut Sink,
    file: u32,
    text: Arc<str>,
    pos: usize,
    /// What was read, in order, for those who need the text as it was written.
    pieces: Option<Vec<Piece>>,
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'@'
}

fn is_variable(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(sources: &'a mut SourceMap, sink: &'a mut Sink, file: u32) -> Lexer<'a> {
        let text = sources.shared_text(file);
        Lexer { sources, sink, file, text, pos: 0, pieces: None }
    }

    /// Keeps what it reads from here on.
    pub(crate) fn keep_pieces(&mut self) {
        self.pieces = Some(Vec::new());
    }

    /// What was read since [`Lexer::keep_pieces`].
    pub(crate) fn into_pieces(self) -> Vec<Piece> {
        self.pieces.unwrap_or_default()
    }

    fn keep(&mut self, kind: PieceKind, start: usize, end: usize) {
        let span = self.span(start, end);
        if let Some(pieces) = &mut self.pieces {
            pieces.push(Piece { kind, span, starts_statement: false });
        }
    }

    /// Records that a statement begins at the token at `start`.
    pub(crate) fn statement_at(&mut self, start: u32) {
        let Some(pieces) = &mut self.pieces else { return };
        let ahead = pieces.iter_mut().rev().take_while(|piece| piece.span.start >= start);
        if let Some(piece) = ahead.last().filter(|piece| piece.span.start == start) {
            piece.starts_statement = true;
        }
    }

    pub(crate) fn span(&self, start: usize, end: usize) -> Span {
        Span { file: self.file, start: start as u32, end: end as u32 }
    }

    /// The text of a span of this file.
    pub(crate) fn str(&self, span: Span) -> &str {
        &self.text[span.start as usize..span.end as usize]
    }

    /// The next token.
    pub(crate) fn token(&mut self) -> Token {
        self.skip_blank();
        let text = Arc::clone(&self.text);
        let s = text.as_bytes();
        let start = self.pos;
        let Some(&first) = s.get(start) else {
            // Shown behind the last thing written, not on an empty line.
            let end = text.trim_end().len();
            return Token { kind: TokenKind::End, span: self.span(end, end) };
        };
        let (kind, len) = if is_word(first) {
            let end = word_end(s, start);
            (keyword(&text[start..end]), end - start)
        } else if first == b'$' && s.get(start + 1).is_some_and(|&b| is_variable(b)) {
            let len = s[start + 1..].iter().take_while(|&&b| is_variable(b)).count();
            (TokenKind::Variable, len + 1)
        } else {
            symbol(&text[start..])
        };
        self.pos = start + len;
        self.keep(kind.piece(), start, start + len);
        let name = if kind == TokenKind::Variable { start + 1 } else { start };
        Token { kind, span: self.span(name, start + len) }
    }

    /// The configuration string whose opening parenthesis was the last token, up to but without the closing one.
    pub(crate) fn config(&mut self) -> Config {
        let text = Arc::clone(&self.text);
        let s = text.as_bytes();
        let start = self.pos;
        let (mut i, mut kept, mut depth) = (start, start, 0usize);
        let mut out = String::new();
        let mut unclosed = None;
        while i < s.len() {
            i = match s[i] {
                b'(' => {
                    depth += 1;
                    i + 1
                }
                b')' if depth == 0 => break,
                b')' => {
                    depth -= 1;
                    i + 1
                }
                b'#' if i > 0 && matches!(s[i - 1], b'\n' | b'\r') => {
                    out.push_str(&text[kept..i]);
                    kept = self.directive(i);
                    kept
                }
                b'/' if matches!(s.get(i + 1), Some(b'/' | b'*')) => skip_comment(s, i),
                b'\'' | b'"' => {
                    let end = skip_quoted(s, i);
                    if end == s.len() {
                        unclosed = Some(i);
                    }
                    end
                }
                b'\\' if s.get(i + 1) == Some(&b'<') => skip_hex(s, i),
                _ => i + 1,
            };
        }
        let config = if out.is_empty() {
            &text[kept..i]
        } else {
            out.push_str(&text[kept..i]);
            &out
        };
        let config = Text::from(config);
        self.pos = i;
        self.keep(PieceKind::Config, start, i);
        if let (Some(quote), true) = (unclosed, i == s.len()) {
            let c = char::from(s[quote]);
            self.sink.push(
                Diagnostic::error("E0103", "expected ')'")
                    .at(self.span(quote, quote + 1))
                    .label("this quote is never closed")
                    .note(self.span(start.saturating_sub(1), start), "the configuration string starts here")
                    .help(format!("close the quote with {c}, or write an apostrophe inside double quotes")),
            );
        }
        Config { text: config, span: self.span(start, i) }
    }

    /// Skips white space, comments and line directives.
    fn skip_blank(&mut self) {
        let text = Arc::clone(&self.text);
        let s = text.as_bytes();
        while let Some(&b) = s.get(self.pos) {
            let i = self.pos;
            self.pos = match b {
                _ if is_space(b) => i + 1,
                b'/' if s.get(i + 1) == Some(&b'*') => {
                    let end = skip_comment(s, i);
                    if end < i + 4 || !s[..end].ends_with(b"*/") {
                        self.sink.push(
                            Diagnostic::warning("W0101", "comment runs to the end of the file")
                                .at(self.span(i, i + 2))
                                .help("close it with `*/`"),
                        );
                    }
                    self.keep(PieceKind::BlockComment, i, end);
                    end
                }
                b'/' if s.get(i + 1) == Some(&b'/') => {
                    let end = skip_comment(s, i);
                    let written = text[i..end].trim_end_matches(['\r', '\n']).len();
                    self.keep(PieceKind::LineComment, i, i + written);
                    end
                }
                b'#' if i == 0 || matches!(s[i - 1], b'\n' | b'\r') => {
                    let end = self.directive(i);
                    self.keep(PieceKind::Directive, i, end);
                    end
                }
                _ => return,
            };
        }
    }

    /// Takes the line directive at `start`, and returns where its line ends (before the line's end characters).
    fn directive(&mut self, start: usize) -> usize {
        let text = Arc::clone(&self.text);
        let s = text.as_bytes();
        let blank = |i: usize| i + s[i..].iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
        let end = start + s[start..].iter().take_while(|b| !matches!(b, b'\n' | b'\r')).count();
        let mut i = blank(start + 1);
        if s[i..].starts_with(b"line") && matches!(s.get(i + 4), Some(b' ' | b'\t')) {
            i = blank(i + 4);
        }
        let digits = s[i..].iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            self.sink.push(
                Diagnostic::error("E0102", "unknown preprocessor directive")
                    .at(self.span(start, end))
                    .label("only `# N \"file\"` and `#line N \"file\"` may start with `#` at a line's start")
                    .help("comments start with `//`"),
            );
            return end;
        }
        // A number too large to mean a line counts from 0 rather than failing: it only names places.
        let line = text[i..i + digits].parse().unwrap_or(0);
        i = blank(i + digits);
        let name = (s.get(i) == Some(&b'"')).then(|| {
            let close = skip_quoted(&s[..end], i);
            let closed = close > i + 1 && s[close - 1] == b'"';
            unquote_string(&format!("{}{}", &text[i..close], if closed { "" } else { "\"" }))
        });
        let ending = if s[end..].starts_with(b"\r\n") { 2 } else { 1 };
        self.sources.remap(self.file, (end + ending) as u32, name.as_deref(), line);
        end
    }
}

/// The end of the identifier at `start`: a slash belongs to it if a word character follows.
fn word_end(s: &[u8], start: usize) -> usize {
    let mut i = start;
    loop {
        i += s[i..].iter().take_while(|&&b| is_word(b)).count();
        if s.get(i) == Some(&b'/') && s.get(i + 1).is_some_and(|&b| is_word(b)) {
            i += 1;
        } else {
            return i;
        }
    }
}

fn keyword(word: &str) -> TokenKind {
    match word {
        "elementclass" => TokenKind::ElementClass,
        "require" => TokenKind::Require,
        "provide" => TokenKind::Provide,
        "define" => TokenKind::Define,
        _ => TokenKind::Ident,
    }
}

/// The symbol a nonempty text starts with, and its length.
fn symbol(text: &str) -> (TokenKind, usize) {
    const SYMBOLS: [(&str, TokenKind); 5] = [
        ("->", TokenKind::Arrow),
        ("=>", TokenKind::DoubleArrow),
        ("::", TokenKind::DoubleColon),
        ("||", TokenKind::DoubleBar),
        ("...", TokenKind::Ellipsis),
    ];
    match SYMBOLS.iter().find(|(s, _)| text.starts_with(s)) {
        Some(&(s, kind)) => (kind, s.len()),
        None => text.chars().next().map_or((TokenKind::End, 0), |c| (TokenKind::Char(c), c.len_utf8())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        let (mut sources, mut sink) = (SourceMap::new(), Sink::default());
        let file = sources.add("t", text);
        let mut lexer = Lexer::new(&mut sources, &mut sink, file);
        let mut out = Vec::new();
        loop {
            let token = lexer.token();
            if token.kind == TokenKind::End {
                return out;
            }
            let mark = if token.kind == TokenKind::Variable { "$" } else { "" };
            out.push(format!("{mark}{}", lexer.str(token.span)));
        }
    }

    #[test]
    fn splits_into_tokens() {
        let check = |text: &str, want: &[&str]| assert_eq!(tokens(text), want, "{text:?}");
        check("", &[]);
        check("a->b", &["a", "->", "b"]);
        check("a/b//c", &["a/b"]);
        check("a/b/*c*/d", &["a/b", "d"]);
        check("a/ b", &["a", "/", "b"]);
        check("X@1 _a 0b", &["X@1", "_a", "0b"]);
        check("$a $ {$_1}", &["$a", "$", "{", "$_1", "}"]);
        check("[0]=>(||...::", &["[", "0", "]", "=>", "(", "||", "...", "::"]);
        check("a.b..", &["a", ".", "b", ".", "."]);
        check("a é -", &["a", "é", "-"]);
        check("a\n# 3 \"f\"\nb", &["a", "b"]);
        check("# 3 \"f\"\r\nb", &["b"]);
        check("a # 3", &["a", "#", "3"]);
        check("/* never closed", &[]);
        check("a // end", &["a"]);
    }

    #[test]
    fn cuts_out_configuration_strings() {
        let check = |text: &str, want: &str| {
            let (mut sources, mut sink) = (SourceMap::new(), Sink::default());
            let file = sources.add("t", text);
            let mut lexer = Lexer::new(&mut sources, &mut sink, file);
            assert_eq!(lexer.config().text, want, "{text:?}");
        };
        check("a, b) c", "a, b");
        check("f(a(b)) ) c", "f(a(b)) ");
        check("')') c", "')'");
        check("\"\\\")\" ) c", "\"\\\")\" ");
        check("/* ) */ a) c", "/* ) */ a");
        check("// )\n a) c", "// )\n a");
        check("\\<29 /*>*/ > ) c", "\\<29 /*>*/ > ");
        check("\\) c", "\\");
        check("a\n# 7 \"x\"\nb) c", "a\n\nb");
        check("a", "a");
    }
}
