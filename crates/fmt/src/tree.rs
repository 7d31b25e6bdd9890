// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each piece is for: which brackets belong together, and what they enclose.

use lang::syntax::{Piece, PieceKind, Syntax};

/// What a piece is for the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A name, a variable or a keyword.
    Word,
    /// `->` or `=>`
    Arrow,
    /// `{`, or the `(` of a group, with the number of the piece that closes it.
    Open(usize),
    /// `}`, or the `)` of a group.
    Close,
    /// `||`
    Bar,
    /// `|` behind parameters.
    ParameterBar,
    /// `(` before a configuration string.
    OpenConfig,
    /// A configuration string.
    Config,
    /// `)` behind a configuration string.
    CloseConfig,
    /// `[`
    OpenPorts,
    /// `]`
    ClosePorts,
    /// Anything between `[` and `]`.
    Port,
    /// `,`
    Comma,
    /// `;`
    Semicolon,
    /// Any other sign: `::`, `...`
    Sign,
    /// A comment up to the end of its line.
    LineComment,
    /// Another comment.
    BlockComment,
    /// A line directive.
    Directive,
}

impl Part {
    /// Whether it is no part of a statement.
    pub(crate) fn is_aside(self) -> bool {
        matches!(self, Part::LineComment | Part::BlockComment | Part::Directive)
    }
}

/// The parts of a text that has no syntax errors.
pub(crate) fn parts(syntax: &Syntax) -> Vec<Part> {
    let pieces = syntax.pieces();
    let mut parts: Vec<Part> = Vec::with_capacity(pieces.len());
    let (mut open, mut in_ports) = (Vec::new(), false);
    for (number, piece) in pieces.iter().enumerate() {
        let text = syntax.sources().snippet(piece.span);
        let mut part = part(pieces, number, piece, text);
        match part {
            Part::OpenPorts => in_ports = true,
            Part::ClosePorts => in_ports = false,
            Part::Open(_) => open.push(number),
            Part::Close => {
                if let Some(opening) = open.pop() {
                    parts[opening] = Part::Open(number);
                }
            }
            _ if in_ports && !part.is_aside() && part != Part::Comma => part = Part::Port,
            _ => {}
        }
        parts.push(part);
    }
    parts
}

fn part(pieces: &[Piece], number: usize, piece: &Piece, text: &str) -> Part {
    let is_config =
        |n: Option<usize>| n.and_then(|n| pieces.get(n)).is_some_and(|p| p.kind == PieceKind::Config);
    match piece.kind {
        PieceKind::Ident | PieceKind::Variable | PieceKind::Keyword => Part::Word,
        PieceKind::Config => Part::Config,
        PieceKind::LineComment => Part::LineComment,
        PieceKind::BlockComment => Part::BlockComment,
        PieceKind::Directive => Part::Directive,
        PieceKind::Symbol => match text {
            "->" | "=>" => Part::Arrow,
            "(" if is_config(Some(number + 1)) => Part::OpenConfig,
            ")" if is_config(number.checked_sub(1)) => Part::CloseConfig,
            "{" | "(" => Part::Open(number),
            "}" | ")" => Part::Close,
            "||" => Part::Bar,
            "|" => Part::ParameterBar,
            "[" => Part::OpenPorts,
            "]" => Part::ClosePorts,
            "," => Part::Comma,
            ";" => Part::Semicolon,
            _ => Part::Sign,
        },
    }
}
