// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configuration strings: what stands between the parentheses of a declaration.
//!
//! Commas separate arguments and white space separates words, but neither inside `'...'`, `"..."` or `\<...>`.
//! Comments count as one space. A trailing empty argument is dropped, so `(a, b,)` has two. Unquoting a word joins
//! its parts: `a'b c'"\n"` is one word of six bytes. Inside double quotes the escapes of C hold, `\x` takes any number of
//! hexadecimal digits (the last two count), and `\<48 69>` gives bytes, also outside of quotes.

use std::ops::Range;

/// One argument of a configuration string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// The argument with outer white space and comments removed, quotes and escapes as written.
    pub text: String,
    /// Byte offset of the argument's first character in the configuration string.
    pub start: usize,
}

/// White space as C's `isspace` has it.
pub(crate) fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn starts_comment(s: &[u8], i: usize) -> bool {
    s[i] == b'/' && matches!(s.get(i + 1), Some(b'/' | b'*'))
}

/// The end of the comment that starts at `i`; a line's end belongs to its comment.
pub(crate) fn skip_comment(s: &[u8], i: usize) -> usize {
    if s[i + 1] == b'/' {
        match s[i + 2..].iter().position(|&b| b == b'\n' || b == b'\r') {
            Some(n) if s[i + 2 + n] == b'\r' && s.get(i + 3 + n) == Some(&b'\n') => i + 4 + n,
            Some(n) => i + 3 + n,
            None => s.len(),
        }
    } else {
        s[i + 2..].windows(2).position(|w| w == b"*/").map_or(s.len(), |n| i + 2 + n + 2)
    }
}

/// The end of `\<...>`, or of any other escape, that starts at `i`.
fn skip_escape(s: &[u8], i: usize) -> usize {
    match s.get(i + 1) {
        None => s.len(),
        Some(b'<') => skip_hex(s, i),
        Some(b'\r') if s.get(i + 2) == Some(&b'\n') => i + 3,
        Some(_) => i + 2,
    }
}

/// The end of the `\<...>` that starts at `i`; comments may stand in it.
pub(crate) fn skip_hex(s: &[u8], i: usize) -> usize {
    let mut i = i + 2;
    while i < s.len() {
        if s[i] == b'>' {
            return i + 1;
        }
        i = if starts_comment(s, i) { skip_comment(s, i) } else { i + 1 };
    }
    s.len()
}

/// The end of the quoted part that starts with the quote at `i`; the text's end if it's never closed.
pub(crate) fn skip_quoted(s: &[u8], i: usize) -> usize {
    let quote = s[i];
    let mut i = i + 1;
    while i < s.len() {
        if s[i] == quote {
            return i + 1;
        }
        i = if s[i] == b'\\' && quote == b'"' { skip_escape(s, i) } else { i + 1 };
    }
    s.len()
}

pub(crate) fn skip_comments_and_space(s: &[u8], mut i: usize) -> usize {
    while i < s.len() {
        if is_space(s[i]) {
            i += 1;
        } else if starts_comment(s, i) {
            i = skip_comment(s, i);
        } else {
            break;
        }
    }
    i
}

/// The end of one unit of text: a quoted part, `\<...>`, or a byte.
fn skip_unit(s: &[u8], i: usize) -> usize {
    match s[i] {
        b'\'' | b'"' => skip_quoted(s, i),
        b'\\' if s.get(i + 1) == Some(&b'<') => skip_hex(s, i),
        _ => i + 1,
    }
}

/// One argument from `from` on, up to a comma if `commas`: its text, its start, and where it ended.
fn clean(config: &str, from: usize, commas: bool) -> (Arg, usize) {
    let s = config.as_bytes();
    let start = skip_comments_and_space(s, from);
    let (mut i, mut left, mut right) = (start, start, start);
    let mut after_comment = false;
    let mut text = String::new();
    while i < s.len() {
        if is_space(s[i]) {
            i += 1;
        } else if starts_comment(s, i) {
            i = skip_comment(s, i);
            after_comment = true;
        } else if s[i] == b',' && commas {
            break;
        } else {
            if after_comment {
                text.push_str(&config[left..right]);
                text.push(' ');
                left = i;
                after_comment = false;
            }
            i = skip_unit(s, i);
            right = i;
        }
    }
    text.push_str(&config[left..right]);
    (Arg { text, start }, i)
}

/// Splits a configuration string into its arguments.
///
/// ```
/// use junctor_lang::config::split_args;
/// let args: Vec<_> = split_args(r#" 10 /* ms */, "a, b", "#).into_iter().map(|a| a.text).collect();
/// assert_eq!(args, ["10", r#""a, b""#]);
/// ```
#[must_use]
pub fn split_args(config: &str) -> Vec<Arg> {
    let mut args = Vec::new();
    let mut from = 0;
    while from < config.len() {
        let (arg, end) = clean(config, from, true);
        if !arg.text.is_empty() || end < config.len() {
            args.push(arg);
        }
        from = end + 1;
    }
    args
}

/// Joins arguments with commas, the inverse of [`split_args`].
#[must_use]
pub fn join_args<S: AsRef<str>>(args: &[S]) -> String {
    args.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ")
}

/// Removes outer white space and turns comments into single spaces.
#[must_use]
pub fn uncomment(text: &str) -> String {
    clean(text, 0, false).0.text
}

fn next_word(text: &str, from: usize) -> Range<usize> {
    let s = text.as_bytes();
    let start = skip_comments_and_space(s, from);
    let mut i = start;
    while i < s.len() && !is_space(s[i]) && !starts_comment(s, i) {
        i = skip_unit(s, i);
    }
    start..i
}

/// Splits a text at unquoted white space and comments; quotes and escapes stay as written.
#[must_use]
pub fn split_words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut word = next_word(text, 0);
    while !word.is_empty() {
        let end = word.end;
        words.push(&text[word]);
        word = next_word(text, end);
    }
    words
}

/// The first word, and what follows it without leading white space.
#[must_use]
pub fn shift_word(text: &str) -> (&str, &str) {
    let word = next_word(text, 0);
    let rest = skip_comments_and_space(text.as_bytes(), word.end);
    (&text[word], &text[rest..])
}

/// Removes one level of quoting and resolves escapes. Values may be any bytes.
///
/// ```
/// use junctor_lang::config::unquote;
/// assert_eq!(unquote(r#""a\tb" 'c$' \<7A 7a>"#), b"a\tb c$ zz");
/// ```
#[must_use]
pub fn unquote(text: &str) -> Vec<u8> {
    let text = uncomment(text);
    let s = text.as_bytes();
    let mut out = Vec::with_capacity(s.len());
    let (mut i, mut quote) = (0, 0);
    while i < s.len() {
        match s[i] {
            b @ (b'"' | b'\'') if quote == 0 => {
                quote = b;
                i += 1;
            }
            b if b == quote && quote != 0 => {
                quote = 0;
                i += 1;
            }
            b'\\' if i + 1 < s.len() && (quote == b'"' || (quote == 0 && s[i + 1] == b'<')) => {
                i = unescape(s, i, &mut out);
            }
            b => {
                out.push(b);
                i += 1;
            }
        }
    }
    out
}

/// As [`unquote`], with bytes that aren't UTF-8 replaced by U+FFFD.
#[must_use]
pub fn unquote_string(text: &str) -> String {
    String::from_utf8(unquote(text)).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

/// Appends what the escape at `i` stands for, and returns its end.
fn unescape(s: &[u8], i: usize, out: &mut Vec<u8>) -> usize {
    let hex = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    match s[i + 1] {
        b'\n' => return i + 2,
        b'\r' => return skip_escape(s, i),
        b'0'..=b'7' => {
            let digits = s[i + 1..].iter().take(3).take_while(|b| matches!(b, b'0'..=b'7')).count();
            out.push(
                s[i + 1..i + 1 + digits].iter().fold(0u8, |v, b| v.wrapping_mul(8).wrapping_add(b - b'0')),
            );
            return i + 1 + digits;
        }
        b'x' => {
            let digits = s[i + 2..].iter().map_while(|&b| hex(b));
            let (value, n) = digits.fold((0u8, 0), |(v, n), d| (v.wrapping_mul(16).wrapping_add(d), n + 1));
            out.push(value);
            return i + 2 + n;
        }
        b'<' => {
            let end = skip_hex(s, i);
            let (mut j, mut high) = (i + 2, None);
            while j < end {
                if starts_comment(s, j) {
                    j = skip_comment(s, j);
                    continue;
                }
                if let Some(digit) = hex(s[j]) {
                    match high.take() {
                        Some(h) => out.push(h * 16 + digit),
                        None => high = Some(digit),
                    }
                }
                j += 1;
            }
            return end;
        }
        b'a' => out.push(7),
        b'b' => out.push(8),
        b'f' => out.push(12),
        b'n' => out.push(b'\n'),
        b'r' => out.push(b'\r'),
        b't' => out.push(b'\t'),
        b'v' => out.push(11),
        b => out.push(b),
    }
    i + 2
}

/// A double-quoted string that [`unquote`] turns back into `text`.
#[must_use]
pub fn quote(text: &str) -> String {
    quote_bytes(text.as_bytes())
}

/// A double-quoted string that [`unquote`] turns back into `bytes`.
#[must_use]
pub fn quote_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for &b in bytes {
        match b {
            b'\\' | b'"' | b'$' => {
                out.push('\\');
                out.push(b as char);
            }
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            b'\n' => out.push_str("\\n"),
            0x20..=0x7e => out.push(b as char),
            _ => out.push_str(&format!("\\{b:03o}")),
        }
    }
    out.push('"');
    out
}

/// Whether a text could stand between parentheses and be read back unchanged: balanced, nothing left open.
#[must_use]
pub fn is_self_contained(text: &str) -> bool {
    let s = text.as_bytes();
    let (mut i, mut depth) = (0, 0usize);
    // `open` is set by a quote, `\<` or comment that runs into the text's end without its own end.
    while i < s.len() {
        let end = match s[i] {
            b'(' => {
                depth += 1;
                i + 1
            }
            b')' if depth == 0 => return false,
            b')' => {
                depth -= 1;
                i + 1
            }
            b'#' if i > 0 && matches!(s[i - 1], b'\n' | b'\r') => return false,
            b'/' if starts_comment(s, i) => {
                let end = skip_comment(s, i);
                let closed = if s[i + 1] == b'*' {
                    end >= i + 4 && s[..end].ends_with(b"*/")
                } else {
                    matches!(s[end - 1], b'\n' | b'\r')
                };
                if !closed {
                    return false;
                }
                end
            }
            q @ (b'\'' | b'"') => {
                let end = skip_quoted(s, i);
                // Scanning again with a quote appended distinguishes an unclosed part from one that ends with an escape.
                if end == s.len() && !closes(s, i, q) {
                    return false;
                }
                end
            }
            b'\\' if s.get(i + 1) == Some(&b'<') => {
                let end = skip_hex(s, i);
                if s[end - 1] != b'>' || end < i + 3 {
                    return false;
                }
                end
            }
            _ => i + 1,
        };
        i = end;
    }
    depth == 0
}

/// Whether the quoted part from `i` on has its closing quote as the text's last byte.
fn closes(s: &[u8], i: usize, quote: u8) -> bool {
    let mut j = i + 1;
    while j < s.len() {
        if s[j] == quote {
            return true;
        }
        j = if s[j] == b'\\' && quote == b'"' { skip_escape(s, j) } else { j + 1 };
    }
    false
}

/// Binds arguments to the parameters of a compound element, or `None` if they don't fit.
///
/// `keywords` holds one entry for each parameter: `""` for a positional one, `__REST__` for the remaining arguments, otherwise the keyword
/// that introduces the argument. Every positional and keyword parameter must be given.
#[must_use]
pub(crate) fn assign<S: AsRef<str>>(args: &[S], keywords: &[&str]) -> Option<Vec<String>> {
    let positional = keywords.iter().take_while(|k| k.is_empty()).count();
    let takes_rest = keywords.last() == Some(&"__REST__");
    let named = &keywords[positional..keywords.len() - usize::from(takes_rest)];
    if args.len() < positional {
        return None;
    }
    let mut values: Vec<Option<String>> = vec![None; keywords.len()];
    let mut rest: Vec<&str> = Vec::new();
    for (i, arg) in args.iter().map(AsRef::as_ref).enumerate() {
        if i < positional {
            values[i] = Some(arg.to_string());
            continue;
        }
        let (word, value) = shift_word(arg);
        match named.iter().position(|k| *k == word) {
            Some(n) => values[positional + n] = Some(value.to_string()),
            None if takes_rest => rest.push(arg),
            None => return None,
        }
    }
    if takes_rest {
        *values.last_mut()? = Some(join_args(&rest));
    }
    values.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(config: &str) -> Vec<String> {
        split_args(config).into_iter().map(|a| a.text).collect()
    }

    #[test]
    fn arguments() {
        let check = |config: &str, want: &[&str]| assert_eq!(texts(config), want, "{config:?}");
        check("", &[]);
        check("  ", &[]);
        check("a", &["a"]);
        check("a,", &["a"]);
        check("a, ", &["a"]);
        check(",", &[""]);
        check(",,", &["", ""]);
        check(", a", &["", "a"]);
        check(" a   b ,c", &["a   b", "c"]);
        check("a /* x, y */ b", &["a b"]);
        check("a // x, y\n, b", &["a", "b"]);
        check("/* x */ a", &["a"]);
        check("a /* x */", &["a"]);
        check("'a, b', c", &["'a, b'", "c"]);
        check("\"a, \\\" b\", c", &["\"a, \\\" b\"", "c"]);
        check("\\<2c , 2c>, d", &["\\<2c , 2c>", "d"]);
        check("f(a, b), c", &["f(a", "b)", "c"]);
        check("'/* no comment */'", &["'/* no comment */'"]);
        check("\"unclosed, x", &["\"unclosed, x"]);
        check("a /* unclosed", &["a"]);
        check("12/34 udp", &["12/34 udp"]);
        check("é, ü", &["é", "ü"]);
    }

    #[test]
    fn argument_offsets() {
        let config = " one, /* c */ two ,\n three";
        for arg in split_args(config) {
            assert_eq!(&config[arg.start..arg.start + arg.text.len()], arg.text);
        }
    }

    #[test]
    fn words() {
        let check = |text: &str, want: &[&str]| assert_eq!(split_words(text), want, "{text:?}");
        check("", &[]);
        check("a  b\tc", &["a", "b", "c"]);
        check("'a b'c d", &["'a b'c", "d"]);
        check("a/*x*/b", &["a", "b"]);
        check("a, b", &["a,", "b"]);
        check("\\<1 2> 3", &["\\<1 2>", "3"]);
        check("\"a\\\" b\" c", &["\"a\\\" b\"", "c"]);
        assert_eq!(shift_word("  KEY 'a b' c "), ("KEY", "'a b' c "));
        assert_eq!(shift_word(""), ("", ""));
    }

    #[test]
    fn unquoting() {
        let check = |text: &str, want: &[u8]| assert_eq!(unquote(text), want, "{text:?}");
        check("abc", b"abc");
        check(" abc ", b"abc");
        check("'a\\n'", b"a\\n");
        check("\"a\\n\"", b"a\n");
        check("\"\\a\\b\\t\\n\\v\\f\\r\\\\\\$\\,\\'\\\"\"", b"\x07\x08\t\n\x0b\x0c\r\\$,'\"");
        check("\"\\101\\60\\0\"", b"A0\0");
        check("\"\\1018\"", b"A8");
        check("\"\\x41\\x0141\"", b"AA");
        check("\"\\x\"", b"\0");
        check("\"a\\\nb\"", b"ab");
        check("\"a\\\r\nb\"", b"ab");
        check("\\<48 65 6C/* l */6c 6F>", b"Hello");
        check("x\\<48>y", b"xHy");
        check("\\<4>", b"");
        check("\"\\<41 42>\"", b"AB");
        check("'a'\"b\"c", b"abc");
        check("a\\nb", b"a\\nb");
        check("\"a /* b */ c\"", b"a /* b */ c");
        check("\"a\\", b"a\\");
        check("\\<41", b"A");
    }

    #[test]
    fn self_contained() {
        let check = |text: &str, want: bool| assert_eq!(is_self_contained(text), want, "{text:?}");
        check("", true);
        check("a, (b)", true);
        check("(", false);
        check(")(", false);
        check("')'", true);
        check("'", false);
        check("''", true);
        check("\"\\\"", false);
        check("\"\\\\\"", true);
        check("a // b", false);
        check("a // b\n", true);
        check("/* */", true);
        check("/*/", false);
        check("/* ", false);
        check("\\<41", false);
        check("\\<41>", true);
        check("a\n# 1", false);
        check("\\)", false);
    }

    #[test]
    fn assignment() {
        let check = |args: &[&str], keys: &[&str], want: Option<&[&str]>| {
            let got = assign(args, keys);
            assert_eq!(
                got.as_deref(),
                want.map(|w| w.iter().map(|s| (*s).to_string()).collect::<Vec<_>>()).as_deref()
            );
        };
        check(&[], &[], Some(&[]));
        check(&["a"], &[], None);
        check(&["a"], &[""], Some(&["a"]));
        check(&[], &[""], None);
        check(&["a", "b"], &[""], None);
        check(&["K 1"], &["K"], Some(&["1"]));
        check(&["a", "K 1"], &["", "K"], Some(&["a", "1"]));
        check(&["a", "L 2", "K 1"], &["", "K", "L"], Some(&["a", "1", "2"]));
        check(&["a"], &["", "K"], None);
        check(&["a", "J 1"], &["", "K"], None);
        check(&["a", "b", "K 1", "c"], &["", "K", "__REST__"], Some(&["a", "1", "b, c"]));
        check(&[], &["__REST__"], Some(&[""]));
    }

    proptest::proptest! {
        #[test]
        fn quote_is_undone_by_unquote(bytes in proptest::collection::vec(0u8..=255, 0..40)) {
            let quoted = quote_bytes(&bytes);
            proptest::prop_assert!(is_self_contained(&quoted));
            proptest::prop_assert_eq!(unquote(&quoted), bytes);
        }

        #[test]
        fn tools_take_any_text(text in ".{0,40}") {
            for arg in split_args(&text) {
                let _ = unquote(&arg.text);
                let _ = split_words(&arg.text);
            }
            let _ = is_self_contained(&text);
        }
    }
}
