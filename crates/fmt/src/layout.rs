// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pieces to lines: what stands between two pieces, and how far lines are indented.

use lang::syntax::{Piece, Syntax};

use crate::WIDTH;
use crate::arguments::{self, Move};
use crate::tree::{Part, parts};

const STEP: usize = 4;

/// The text in the formatter's style.
pub(crate) fn formatted(syntax: &Syntax) -> String {
    let text = syntax.source();
    let count = |end: &str| text.matches(end).count();
    let ending = if count("\n") > 0 && count("\r\n") == count("\n") { "\r\n" } else { "\n" };
    let (pieces, parts) = (syntax.pieces(), parts(syntax));
    let file = Body { is_line: false, indent: 0, closing: 0, close: pieces.len() };
    let out = String::with_capacity(text.len() + text.len() / 8);
    let (rows, next) = (rows(text, pieces), statement_pieces(&parts));
    let bodies = vec![file];
    let mut layout = Layout { text, pieces, parts, rows, next, out, ending, column: 0, indent: 0, bodies };
    for number in 0..pieces.len() {
        layout.piece(number);
    }
    let mut out = layout.out;
    if !out.is_empty() && !out.ends_with('\n') {
        out.push_str(ending);
    }
    out
}

/// Columns of a text in one line.
fn wide(text: &str) -> usize {
    text.chars().fold(0, |n, c| if c == '\t' { n / 8 * 8 + 8 } else { n + 1 })
}

/// How many lines end before each piece.
fn rows(text: &str, pieces: &[Piece]) -> Vec<usize> {
    let (mut row, mut at) = (0, 0);
    let mut count = |piece: &Piece| {
        row += line_ends(&text[at..piece.span.start as usize]);
        at = piece.span.start as usize;
        row
    };
    pieces.iter().map(&mut count).collect()
}

fn line_ends(text: &str) -> usize {
    let s = text.as_bytes();
    let alone = |i: usize| s[i] == b'\r' && s.get(i + 1) != Some(&b'\n');
    (0..s.len()).filter(|&i| s[i] == b'\n' || alone(i)).count()
}

/// For each piece the first one from there on that is neither a comment nor a directive.
fn statement_pieces(parts: &[Part]) -> Vec<usize> {
    let mut next = parts.len();
    let mut found: Vec<usize> = Vec::with_capacity(parts.len());
    for (number, part) in parts.iter().enumerate().rev() {
        next = if part.is_aside() { next } else { number };
        found.push(next);
    }
    found.reverse();
    found
}

/// Braces or a group that are open.
struct Body {
    /// It stands in one line.
    is_line: bool,
    /// Spaces before its statements.
    indent: usize,
    /// Spaces before what closes it.
    closing: usize,
    /// The piece that closes it.
    close: usize,
}

/// What stands between two pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    Nothing,
    Spaces(usize),
    /// A line's end, perhaps an empty line, and this many spaces.
    Line {
        is_apart: bool,
        indent: usize,
    },
}

struct Layout<'a> {
    text: &'a str,
    pieces: &'a [Piece],
    parts: Vec<Part>,
    /// How many lines end before each piece.
    rows: Vec<usize>,
    /// For each piece the first one from there on that is part of a statement.
    next: Vec<usize>,
    out: String,
    ending: &'static str,
    /// Columns of the current line so far, and how far it is indented.
    column: usize,
    indent: usize,
    bodies: Vec<Body>,
}

impl<'a> Layout<'a> {
    fn written(&self, number: usize) -> &'a str {
        let span = self.pieces[number].span;
        &self.text[span.start as usize..span.end as usize]
    }

    /// The white space before a piece.
    fn gap(&self, number: usize) -> &'a str {
        let before = number.checked_sub(1).map_or(0, |n| self.pieces[n].span.end as usize);
        &self.text[before..self.pieces[number].span.start as usize]
    }

    /// Line ends right before a piece.
    fn lines(&self, number: usize) -> usize {
        line_ends(self.gap(number))
    }

    /// Whether a piece and what it opens are in several lines.
    fn is_in_lines(&self, open: usize, close: usize) -> bool {
        self.rows[open] != self.rows[close]
    }

    fn body(&self) -> &Body {
        self.bodies.last().expect("the file's own is always open")
    }

    fn push(&mut self, text: &str) {
        match text.rfind(['\n', '\r']) {
            Some(n) => self.column = text[n + 1..].chars().count(),
            None => self.column += text.chars().count(),
        }
        self.out.push_str(text);
    }

    fn push_spaces(&mut self, spaces: usize) {
        self.out.extend(std::iter::repeat_n(' ', spaces));
        self.column += spaces;
    }

    fn piece(&mut self, number: usize) {
        match self.between(number) {
            Between::Nothing => {}
            Between::Spaces(spaces) => self.push_spaces(spaces),
            Between::Line { is_apart, indent } => self.new_line(is_apart, indent),
        }
        let written = self.written(number);
        match self.parts[number] {
            Part::Config => self.arguments(number),
            Part::LineComment => self.push(written.trim_end()),
            _ => self.push(written),
        }
        match self.parts[number] {
            Part::Open(close) => self.open(number, close),
            Part::Close => _ = self.bodies.pop(),
            _ => {}
        }
    }

    fn new_line(&mut self, is_apart: bool, indent: usize) {
        self.out.push_str(self.ending);
        if is_apart {
            self.out.push_str(self.ending);
        }
        self.column = 0;
        self.indent = indent;
        self.push_spaces(indent);
    }

    fn open(&mut self, number: usize, close: usize) {
        let rest = WIDTH.saturating_sub(self.column);
        let is_line = self.body().is_line
            || !self.is_in_lines(number, close) && self.width(number + 1, close + 1, rest) < rest;
        self.bodies.push(Body { is_line, indent: self.indent + STEP, closing: self.indent, close });
    }

    fn arguments(&mut self, number: usize) {
        let written = self.written(number);
        if !arguments::is_long(written) {
            self.push(&arguments::in_line(written));
            return;
        }
        let start = self.pieces[number].span.start as usize;
        // The indentation and the width of the line so far, measured alike before and after.
        let measured = |text: &str| {
            let line = &text[text.rfind(['\n', '\r']).map_or(0, |n| n + 1)..];
            let indent = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
            (wide(line), wide(indent))
        };
        let (before, after) = (measured(&self.text[..start]), measured(&self.out));
        let to = Move { column: (before.0, after.0), indent: (before.1, after.1) };
        self.push(&arguments::moved(written, to));
    }

    /// What stands before a piece.
    fn between(&self, number: usize) -> Between {
        let (part, lines) = (self.parts[number], self.lines(number));
        let Some(before) = number.checked_sub(1) else { return Between::Nothing };
        let body = self.body();
        let is_first = matches!(self.parts[before], Part::Open(_) | Part::Bar | Part::ParameterBar);
        let is_apart = lines > 1 && !is_first && !matches!(part, Part::Close | Part::Bar);
        if part == Part::Directive {
            return Between::Line { is_apart, indent: 0 };
        }
        let is_broken = matches!(self.parts[before], Part::LineComment | Part::Directive);
        let is_outer = self.is_between_statements(number);
        let line = Between::Line {
            is_apart: is_apart && is_outer,
            indent: match part {
                Part::Close | Part::Bar => body.closing,
                _ if is_outer => body.indent,
                _ => body.indent + STEP,
            },
        };
        if is_broken {
            return line;
        }
        match part {
            Part::LineComment | Part::BlockComment if lines > 0 => line,
            Part::LineComment => Between::Spaces(self.gap(number).chars().count().max(1)),
            Part::BlockComment => Between::Spaces(1),
            Part::Close | Part::Bar if body.is_line => Between::Spaces(1),
            Part::Close if matches!(self.parts[before], Part::Open(_)) => Between::Spaces(1),
            Part::Close | Part::Bar => line,
            _ if self.pieces[number].starts_statement => {
                let follows_comment = self.parts[before] == Part::BlockComment && lines == 0;
                if body.is_line || follows_comment { Between::Spaces(1) } else { line }
            }
            _ if !body.is_line && self.goes_on_below(number, lines) => line,
            _ => Between::Spaces(usize::from(self.is_spaced(number))),
        }
    }

    /// Whether a piece is no part of a statement, but stands before one or behind the last one.
    fn is_between_statements(&self, number: usize) -> bool {
        let next = self.next[number];
        next == self.pieces.len()
            || self.pieces[next].starts_statement
            || matches!(self.parts[next], Part::Close | Part::Bar)
    }

    /// Whether a piece inside a statement begins a line.
    fn goes_on_below(&self, number: usize, lines: usize) -> bool {
        match self.parts[number] {
            Part::Arrow => {
                // An arrow at the end of a line moves to the next one, with the element behind it.
                let next = number + 1;
                let is_element =
                    matches!(self.parts.get(next), Some(Part::Word | Part::Open(_) | Part::OpenPorts));
                let is_behind = is_element && !self.pieces[next].starts_statement && self.lines(next) > 0;
                lines > 0 || is_behind || self.is_too_long(number)
            }
            Part::Word | Part::Open(_) | Part::OpenPorts => {
                lines > 0 && self.parts[number - 1] == Part::Comma
            }
            _ => false,
        }
    }

    /// Whether the part of a chain from an arrow on would end behind [`WIDTH`].
    fn is_too_long(&self, arrow: usize) -> bool {
        let column = self.column + 1;
        let close = self.body().close;
        let mut end = arrow + 1;
        while end < close {
            match self.parts[end] {
                Part::Open(close) => end = close,
                Part::Arrow | Part::LineComment | Part::Directive => break,
                _ if self.pieces[end].starts_statement => break,
                _ => {}
            }
            end += 1;
        }
        let width = self.width(arrow, end.min(self.pieces.len()), WIDTH);
        let below = self.body().indent + STEP;
        column + width > WIDTH && (below + width <= WIDTH || column > WIDTH / 2)
    }

    /// Columns of pieces in one line, up to their first line end; a number above `limit` once they are more.
    fn width(&self, from: usize, to: usize, limit: usize) -> usize {
        let mut width = 0;
        for number in from..to {
            width += usize::from(number > from && self.is_spaced(number));
            let written = self.written(number);
            let has_lines = match self.parts[number] {
                Part::Config if arguments::is_long(written) => {
                    width += written.lines().next().unwrap_or_default().chars().count();
                    true
                }
                Part::Config => {
                    width += arguments::in_line(written).chars().count();
                    false
                }
                Part::Open(close) => {
                    width += 1;
                    self.is_in_lines(number, close)
                }
                _ => {
                    width += written.chars().count();
                    false
                }
            };
            if has_lines || width > limit {
                break;
            }
        }
        width
    }

    /// Whether a space stands before a piece in the same line.
    fn is_spaced(&self, number: usize) -> bool {
        let before = self.parts[number - 1];
        if self.pieces[number].starts_statement || self.parts[number].is_aside() || before.is_aside() {
            return true;
        }
        match self.parts[number] {
            Part::Comma | Part::Semicolon | Part::ClosePorts => false,
            Part::OpenConfig | Part::Config | Part::CloseConfig => false,
            Part::Port => before == Part::Comma,
            Part::OpenPorts => !matches!(before, Part::Word | Part::CloseConfig | Part::Close),
            Part::Word | Part::Open(_) => before != Part::ClosePorts,
            _ => true,
        }
    }
}
