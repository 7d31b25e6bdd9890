// SPDX-License-Identifier: MIT OR Apache-2.0
//! What clients write, in messages and on its way to routers.

use crate::problem::{Kind, Problem};

/// The longest parameter, in bytes.
pub(crate) const LONGEST: usize = 1024;

/// Refuses what is no single word.
pub(crate) fn word<'a>(text: &'a str, place: &str) -> Result<&'a str, Problem> {
    let is_plain = !text.is_empty()
        && text.len() <= LONGEST
        && !text.contains(|c: char| c.is_whitespace() || c.is_control());
    is_plain.then_some(text).ok_or_else(|| {
        Problem::invalid(
            place,
            format!("'{}' is no single word", shown(text)),
            format!("use at most {LONGEST} bytes without spaces and control characters"),
        )
    })
}

/// A text of a client as a message may show it.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

/// There is no such thing.
pub(crate) fn absent(what: &str, name: &str, fix: &str) -> Problem {
    Problem::new(Kind::NotFound, format!("there is no {what} '{}'", shown(name))).fix(fix)
}
