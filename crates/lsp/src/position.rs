// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places in a text, as the protocol has them: lines from 0, and columns in UTF-16 units.

use serde_json::{Value, json};

/// A place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) line: u32,
    pub(crate) character: u32,
}

impl Position {
    /// Reads a place of the protocol.
    pub(crate) fn of(value: &Value) -> Option<Position> {
        let number = |name: &str| Some(u32::try_from(value.get(name)?.as_u64()?).unwrap_or(u32::MAX));
        Some(Position { line: number("line")?, character: number("character")? })
    }

    pub(crate) fn json(self) -> Value {
        json!({ "line": self.line, "character": self.character })
    }
}

/// Where the lines of a text begin, and its characters that are not ASCII. A line ends with LF, CR LF, or CR.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    starts: Vec<usize>,
    /// For each character that is not ASCII where it ends, and how many bytes more than units the text has up to there.
    wide: Vec<(usize, usize)>,
}

impl Lines {
    pub(crate) fn of(text: &str) -> Lines {
        let s = text.as_bytes();
        let ends = |i: &usize| s[*i] == b'\n' || (s[*i] == b'\r' && s.get(*i + 1) != Some(&b'\n'));
        let starts = std::iter::once(0).chain((0..s.len()).filter(ends).map(|i| i + 1)).collect();
        let mut more = 0;
        let wide = text.char_indices().filter(|(_, c)| !c.is_ascii()).map(|(at, c)| {
            more += c.len_utf8() - c.len_utf16();
            (at + c.len_utf8(), more)
        });
        Lines { starts, wide: wide.collect() }
    }

    /// UTF-16 units between the beginning of a line and a byte, both where characters begin.
    fn units(&self, start: usize, byte: usize) -> usize {
        let more = |byte: usize| match self.wide.partition_point(|(end, _)| *end <= byte) {
            0 => 0,
            n => self.wide[n - 1].1,
        };
        (byte - start) - (more(byte) - more(start))
    }

    /// The place of a byte. A byte inside a character counts as that character's first one.
    pub(crate) fn position(&self, text: &str, byte: usize) -> Position {
        let byte = floor(text, byte);
        let line = self.starts.partition_point(|&start| start <= byte) - 1;
        Position { line: line as u32, character: self.units(self.starts[line], byte) as u32 }
    }

    /// The byte at a place. Behind the end of a line it is the line's end, behind the last line the text's.
    pub(crate) fn byte(&self, text: &str, at: Position) -> usize {
        let line = at.line as usize;
        let Some(&start) = self.starts.get(line) else { return text.len() };
        let end = self.starts.get(line + 1).copied().unwrap_or(text.len());
        let (mut low, mut high) = (start, start + text[start..end].trim_end_matches(['\r', '\n']).len());
        while low < high {
            let middle = (low + high).div_ceil(2);
            if self.units(start, floor(text, middle)) <= at.character as usize {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        floor(text, low)
    }
}

/// The byte, or the first one of the character that it is in.
fn floor(text: &str, byte: usize) -> usize {
    let mut byte = byte.min(text.len());
    while !text.is_char_boundary(byte) {
        byte -= 1;
    }
    byte
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The units of the lines of a text, written out one by one.
    fn naive(text: &str, byte: usize) -> Position {
        let (mut line, mut character) = (0, 0);
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if at + c.len_utf8() > byte {
                break;
            }
            let goes_on = c == '\r' && chars.peek().is_some_and(|(_, next)| *next == '\n');
            if (c == '\n' || c == '\r') && !goes_on {
                (line, character) = (line + 1, 0);
            } else {
                character += c.encode_utf16(&mut [0; 2]).len() as u32;
            }
        }
        Position { line, character }
    }

    proptest! {
        #[test]
        fn places_are_those_of_a_naive_count(text in "([a-z\u{e9}\u{4e2d}\u{1f600}\n\r]){0,40}") {
            let lines = Lines::of(&text);
            for byte in 0..=text.len() {
                let at = lines.position(&text, byte);
                prop_assert_eq!(at, naive(&text, byte), "{:?} at {}", text, byte);
                let s = text.as_bytes();
                let in_line_end = byte > 0 && s[byte - 1] == b'\r' && s.get(byte) == Some(&b'\n');
                if text.is_char_boundary(byte) && !in_line_end {
                    prop_assert_eq!(lines.byte(&text, at), byte, "{:?}", text);
                }
            }
        }

        #[test]
        fn any_place_is_in_the_text(text in "([a\u{1f600}\n\r]){0,20}", line in 0..9u32, character in 0..9u32) {
            let at = Lines::of(&text).byte(&text, Position { line, character });
            prop_assert!(text.is_char_boundary(at));
        }
    }
}
