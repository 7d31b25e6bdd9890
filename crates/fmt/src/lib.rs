// SPDX-License-Identifier: MIT OR Apache-2.0
//! The formatter of configurations: a text in, the same configuration in one style out.
//!
//! ```
//! let text = "q::Queue(10,20)[1]->Discard;  Idle\n  ->q;";
//! assert_eq!(junctor_fmt::format(text)?, "q :: Queue(10, 20)[1] -> Discard;\nIdle\n    -> q;\n");
//! # Ok::<(), junctor_fmt::Error>(())
//! ```
//!
//! * A statement begins a line, with four spaces for each brace around it. A compound that was written in one line stays in one.
//! * A chain goes on in a new line where its author broke it, or where it grows longer than [`WIDTH`]. The break is before the arrow.
//! * Comments, line directives and single blank lines stay. Arguments stay as they were written, and in the lines in which they were.
//!
//! The result is compared with what was given, piece by piece, so a mistake of the formatter is an error and changes nothing.
#![forbid(unsafe_code)]

mod arguments;
mod diff;
mod layout;
mod tree;

use lang::Diagnostic;
use lang::syntax::{Piece, PieceKind, Syntax};

pub use diff::unified;

/// Columns of a line. Arguments and comments may be longer.
pub const WIDTH: usize = 120;

/// Why a text is not formatted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read as a configuration.
    #[error("the configuration has syntax errors")]
    Syntax(Box<Unreadable>),
    /// The formatter would have changed what it means.
    #[error(
        "formatting would change the configuration at byte {at}, so it is left as it is; please report this"
    )]
    Changed {
        /// Where.
        at: u32,
    },
}

/// A text that cannot be read.
#[derive(Debug)]
pub struct Unreadable {
    /// What is wrong.
    pub diagnostics: Vec<Diagnostic>,
    /// The text, for messages.
    pub sources: lang::SourceMap,
}

/// Formats a configuration.
///
/// # Errors
/// It has syntax errors, or the formatter is at fault.
pub fn format(text: &str) -> Result<String, Error> {
    let syntax = Syntax::of(text);
    if syntax.has_errors() {
        let diagnostics = syntax.diagnostics().to_vec();
        return Err(Error::Syntax(Box::new(Unreadable { diagnostics, sources: syntax.sources().clone() })));
    }
    let mark = if text.starts_with('\u{feff}') { "\u{feff}" } else { "" };
    let formatted = format!("{mark}{}", layout::formatted(&syntax));
    match change(&syntax, &Syntax::of(&formatted)) {
        Some(at) => Err(Error::Changed { at }),
        None => Ok(formatted),
    }
}

/// Where the second text says something else than the first one.
fn change(before: &Syntax, after: &Syntax) -> Option<u32> {
    let mut new = after.pieces().iter();
    for piece in before.pieces() {
        if new.next().is_none_or(|other| !is_same(before, piece, after, other)) {
            return Some(piece.span.start);
        }
    }
    new.next().map(|_| before.source().len() as u32)
}

fn is_same(before: &Syntax, piece: &Piece, after: &Syntax, other: &Piece) -> bool {
    let (old, new) = (before.sources().snippet(piece.span), after.sources().snippet(other.span));
    let same = match piece.kind {
        PieceKind::Config => old == new || arguments::essence(old) == arguments::essence(new),
        PieceKind::LineComment | PieceKind::BlockComment => old.trim_end() == new.trim_end(),
        _ => old == new,
    };
    same && piece.kind == other.kind && piece.starts_statement == other.starts_statement
}
