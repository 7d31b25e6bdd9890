// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configuration strings. In one line, arguments have a comma and a space between them. In several lines they stay as they are,
//! but for the indentation of those lines that begin between two arguments: it moves with the line that the string begins in.

use lang::config::split_args;

/// Where the string stood and where it is to stand: columns behind its parenthesis, and the indentations of the lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    /// Columns behind the parenthesis, before and after.
    pub(crate) column: (usize, usize),
    /// Spaces before the line, before and after.
    pub(crate) indent: (usize, usize),
}

impl Move {
    /// Where a line goes that was indented so far: with the parenthesis, if it began right of it, or else with the line.
    fn indentation(self, old: usize) -> usize {
        let (before, after) = if old >= self.column.0 { self.column } else { self.indent };
        (old + after).saturating_sub(before)
    }
}

/// A part of a configuration string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Space,
    Newline,
    Comma,
    Comment,
    /// A line directive.
    Directive,
    Text,
}

/// The unit that begins at a byte, and where it ends.
fn unit(s: &[u8], i: usize) -> (Unit, usize) {
    let until = |end: &[u8]| {
        let from = i + 2;
        s[from.min(s.len())..]
            .windows(end.len())
            .position(|w| w == end)
            .map_or(s.len(), |n| from + n + end.len())
    };
    let line_end = || i + s[i..].iter().take_while(|b| !matches!(b, b'\n' | b'\r')).count();
    match s[i] {
        b'\r' if s.get(i + 1) == Some(&b'\n') => (Unit::Newline, i + 2),
        b'\n' | b'\r' => (Unit::Newline, i + 1),
        b' ' | b'\t' | 0x0b | 0x0c => (Unit::Space, i + 1),
        b',' => (Unit::Comma, i + 1),
        b'#' if i > 0 && matches!(s[i - 1], b'\n' | b'\r') => (Unit::Directive, line_end()),
        b'/' if s.get(i + 1) == Some(&b'/') => (Unit::Comment, line_end()),
        b'/' if s.get(i + 1) == Some(&b'*') => (Unit::Comment, until(b"*/")),
        b'\'' | b'"' => (Unit::Text, quoted(s, i)),
        b'\\' if s.get(i + 1) == Some(&b'<') => (Unit::Text, until(b">")),
        // A comma in them ends an argument, but a space more would be one more in their value.
        b'$' if s.get(i + 1) == Some(&b'{') => (Unit::Text, until(b"}")),
        b'$' if s.get(i + 1) == Some(&b'(') => (Unit::Text, until(b")")),
        _ => (Unit::Text, i + 1),
    }
}

/// The end of a quoted part.
fn quoted(s: &[u8], start: usize) -> usize {
    let mut i = start + 1;
    while i < s.len() && s[i] != s[start] {
        i += if s[i] == b'\\' && s[start] == b'"' { 2 } else { 1 };
    }
    (i + 1).min(s.len())
}

fn units(config: &str) -> impl Iterator<Item = (Unit, &str)> {
    let s = config.as_bytes();
    let mut i = 0;
    std::iter::from_fn(move || {
        let start = i;
        let (kind, mut end) = unit(s, (i < s.len()).then_some(i)?);
        while !config.is_char_boundary(end) {
            end += 1;
        }
        i = end;
        Some((kind, &config[start..end]))
    })
}

/// Whether it has several lines.
pub(crate) fn is_long(config: &str) -> bool {
    config.contains(['\n', '\r'])
}

/// What must stay of a configuration string: its arguments as the compiler has them, and its line directives.
pub(crate) fn essence(config: &str) -> (Vec<String>, Vec<&str>) {
    let directives =
        units(config).filter(|(kind, _)| *kind == Unit::Directive).map(|(_, text)| text).collect();
    let rest: String =
        units(config).filter(|(kind, _)| *kind != Unit::Directive).map(|(_, text)| text).collect();
    (split_args(&rest).into_iter().map(|arg| arg.text).collect(), directives)
}

/// A configuration string in one line.
pub(crate) fn in_line(config: &str) -> String {
    let trimmed = config.trim_matches([' ', '\t']);
    let mut args = vec![String::new()];
    for (kind, text) in units(trimmed) {
        match kind {
            Unit::Comment => return trimmed.to_owned(),
            Unit::Comma => args.push(String::new()),
            _ => args.last_mut().expect("there is one").push_str(text),
        }
    }
    let spaced = args.iter().map(|arg| arg.trim_matches([' ', '\t'])).collect::<Vec<_>>().join(", ");
    if essence(&spaced) == essence(trimmed) {
        spaced.trim_end_matches(' ').to_owned()
    } else {
        trimmed.to_owned()
    }
}

/// A configuration string in several lines, moved.
pub(crate) fn moved(config: &str, to: Move) -> String {
    let is_text = |kind: Unit| matches!(kind, Unit::Text | Unit::Comma);
    let mut at = 0;
    let mut last = 0;
    for (kind, text) in units(config) {
        at += text.len();
        if is_text(kind) {
            last = at;
        }
    }
    let mut out = String::with_capacity(config.len());
    let (mut between, mut indentation, mut behind) = (true, None, 0);
    for (kind, text) in units(config) {
        behind += text.len();
        match kind {
            Unit::Newline if between || behind > last => {
                out.truncate(out.trim_end_matches([' ', '\t']).len());
                out.push_str(text);
                indentation = Some(0);
                continue;
            }
            Unit::Space if indentation.is_some() => {
                let so_far = indentation.unwrap_or(0);
                indentation = Some(if text == "\t" { so_far / 8 * 8 + 8 } else { so_far + 1 });
                continue;
            }
            // A `#` at the beginning of a line is a directive, and none elsewhere.
            _ if text.starts_with('#') => out.push_str(&" ".repeat(indentation.take().unwrap_or(0))),
            _ => {
                if let Some(old) = indentation.take() {
                    out.push_str(&" ".repeat(to.indentation(old)));
                }
            }
        }
        out.push_str(text);
        between = match kind {
            Unit::Text => false,
            Unit::Comma => true,
            _ => between,
        };
    }
    if let Some(old) = indentation {
        out.push_str(&" ".repeat(to.indentation(old)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_in_a_line() {
        let check = |config: &str, want: &str| assert_eq!(in_line(config), want, "{config:?}");
        check("", "");
        check("  ", "");
        check("a,b ,c", "a, b, c");
        check(" a  b,c", "a  b, c");
        check("'a,b',\"c,\\\",d\",e", "'a,b', \"c,\\\",d\", e");
        check("\\<2c,2c>,d", "\\<2c,2c>, d");
        check("a,/* x,y */b", "a,/* x,y */b");
        check("${a-b,c},d", "${a-b,c}, d");
        check("$(a b,c),d", "$(a b,c), d");
        check("a,,b", "a, , b");
        check(",", ",");
        check("a,", "a,");
        check("\u{e9},\u{fc}", "\u{e9}, \u{fc}");
        check("'a,b", "'a,b");
    }

    #[test]
    fn lines_move() {
        let check = |config: &str, column: (usize, usize), indent: (usize, usize), want: &str| {
            assert_eq!(moved(config, Move { column, indent }), want, "{config:?}");
        };
        check("a,\n    b,\n    c", (4, 6), (0, 0), "a,\n      b,\n      c");
        check("\n  a,\n  b  \n", (20, 30), (0, 4), "\n      a,\n      b\n    ");
        check("a\n  b, c", (0, 9), (0, 9), "a\n  b, c");
        check("'a,\n b',\n c", (1, 2), (0, 0), "'a,\n b',\n  c");
        check("a, // x\n b", (1, 3), (0, 0), "a, // x\n   b");
        check("a,\n\n b", (1, 3), (0, 0), "a,\n\n   b");
        check("a,\n\tb", (8, 4), (0, 0), "a,\n    b");
        check("a,\n# 3 \"f\"\nb", (5, 9), (0, 4), "a,\n# 3 \"f\"\n    b");
        check("a,\n  #b", (2, 0), (2, 0), "a,\n  #b");
        check("a,\r\n b", (1, 2), (0, 0), "a,\r\n  b");
    }
}
