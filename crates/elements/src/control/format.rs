// SPDX-License-Identifier: MIT OR Apache-2.0
//! C's `sprintf` for scripts: the conversions `d i o u x X s %` with flags, width, precision and sizes.

use element::parse_integer;
use lang::config::{split_words, unquote_string};

/// Longest field: what Rust's own formatting allows, and more than a script has use for.
const MAX_FIELD: usize = 65535;

/// One conversion: what stands between `%` and the letter.
#[derive(Default)]
struct Field {
    left: bool,
    zeros: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
}

fn syntax_error<T>(what: &str) -> Result<T, String> {
    Err(format!("syntax error: {what}"))
}

/// Formats words: the first is the format, the others its values.
pub(super) fn sprintf(param: &str) -> Result<String, String> {
    let mut words = split_words(param).into_iter().map(unquote_string);
    let format = words.next().unwrap_or_default();
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let field = field(&mut chars, &mut words)?;
        let size = size(&mut chars);
        let text = match chars.next() {
            Some('%') => "%".to_owned(),
            Some(c @ ('d' | 'i')) => field.number(c, signed(value(&mut words)?, size)),
            Some(c @ ('o' | 'u' | 'x' | 'X')) => field.number(c, unsigned(value(&mut words)?, size)),
            Some('s') => match words.next() {
                Some(word) => field.text(&word),
                None => return syntax_error("too few values for the format"),
            },
            Some(c) => return syntax_error(&format!("no conversion '%{c}'")),
            None => return syntax_error("the format ends inside a conversion"),
        };
        out.push_str(&text);
    }
    match words.next() {
        Some(_) => syntax_error("more values than conversions"),
        None => Ok(out),
    }
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn digits(chars: &mut Chars<'_>) -> usize {
    let mut n = 0usize;
    while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
        n = n.saturating_mul(10).saturating_add(digit as usize);
        chars.next();
    }
    n.min(MAX_FIELD)
}

fn field(chars: &mut Chars<'_>, words: &mut impl Iterator<Item = String>) -> Result<Field, String> {
    let mut field = Field::default();
    while let Some(flag) = chars.peek().copied() {
        match flag {
            '-' => field.left = true,
            '0' => field.zeros = true,
            '+' => field.plus = true,
            ' ' => field.space = true,
            '#' => field.alternate = true,
            _ => break,
        }
        chars.next();
    }
    if chars.next_if_eq(&'*').is_some() {
        let width = value(words)?;
        field.left |= width < 0;
        field.width = width.unsigned_abs().min(MAX_FIELD as u128) as usize;
    } else {
        field.width = digits(chars);
    }
    if chars.next_if_eq(&'.').is_some() {
        field.precision = Some(match chars.next_if_eq(&'*') {
            Some(_) => match usize::try_from(value(words)?) {
                Ok(precision) => precision.min(MAX_FIELD),
                Err(_) => return syntax_error("a precision cannot be negative"),
            },
            None => digits(chars),
        });
    }
    Ok(field)
}

/// Whether the value is cut to 16 bits.
fn size(chars: &mut Chars<'_>) -> bool {
    let mut short = false;
    while let Some(c) = chars.next_if(|c| "hlLq".contains(*c)) {
        short = c == 'h';
    }
    short
}

fn value(words: &mut impl Iterator<Item = String>) -> Result<i128, String> {
    let Some(word) = words.next() else { return syntax_error("too few values for the format") };
    match parse_integer(&word).filter(|n| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(n)) {
        Some(n) => Ok(n),
        None => syntax_error(&format!("'{word}' is no whole number")),
    }
}

fn signed(n: i128, short: bool) -> i128 {
    if short { i128::from(n as i16) } else { i128::from(n as i64) }
}

fn unsigned(n: i128, short: bool) -> i128 {
    if short { i128::from(n as u16) } else { i128::from(n as u64) }
}

impl Field {
    fn number(&self, conversion: char, n: i128) -> String {
        let magnitude = n.unsigned_abs();
        let mut digits = match conversion {
            'o' => format!("{magnitude:o}"),
            'x' => format!("{magnitude:x}"),
            'X' => format!("{magnitude:X}"),
            _ => magnitude.to_string(),
        };
        if let Some(precision) = self.precision {
            digits = if precision == 0 && n == 0 { String::new() } else { format!("{digits:0>precision$}") };
        }
        let is_signed = matches!(conversion, 'd' | 'i');
        let prefix = match conversion {
            _ if n < 0 => "-",
            _ if is_signed && self.plus => "+",
            _ if is_signed && self.space => " ",
            'x' if self.alternate && n != 0 => "0x",
            'X' if self.alternate && n != 0 => "0X",
            'o' if self.alternate && !digits.starts_with('0') => "0",
            _ => "",
        };
        if self.zeros && !self.left && self.precision.is_none() {
            let width = self.width.saturating_sub(prefix.len());
            return format!("{prefix}{digits:0>width$}");
        }
        self.pad(&format!("{prefix}{digits}"))
    }

    fn text(&self, text: &str) -> String {
        match self.precision {
            Some(precision) => self.pad(&text.chars().take(precision).collect::<String>()),
            None => self.pad(text),
        }
    }

    fn pad(&self, text: &str) -> String {
        let width = self.width;
        if self.left { format!("{text:<width$}") } else { format!("{text:>width$}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        for (param, want) in [
            ("\"%05x\" 127", "0007f"),
            ("'%d %s' 5 abc", "5 abc"),
            ("%X 255", "FF"),
            ("%#x 255", "0xff"),
            ("%#o 8", "010"),
            ("%o 8", "10"),
            ("%+d 5", "+5"),
            ("'% d' 5", " 5"),
            ("%-5d| 5", "5    |"),
            ("%5d| -5", "   -5|"),
            ("%05d -5", "-0005"),
            ("%.3d 5", "005"),
            ("%*d 4 5", "   5"),
            ("%*d -4 5", "5   "),
            ("%.*s 2 abc", "ab"),
            ("%.2s abc", "ab"),
            ("%5s abc", "  abc"),
            ("%hu 65537", "1"),
            ("%hd 65535", "-1"),
            ("%llu 18446744073709551615", "18446744073709551615"),
            ("%u -1", "18446744073709551615"),
            ("100%%", "100%"),
            ("%s \"a b\"", "a b"),
            ("", ""),
        ] {
            assert_eq!(sprintf(param).as_deref(), Ok(want), "{param}");
        }
        for (param, want) in [
            ("%d", "too few"),
            ("%d x", "no whole number"),
            ("a b", "more values"),
            ("%c 1", "no conversion"),
            ("%", "ends inside"),
            ("%.*s -1 a", "precision"),
        ] {
            assert!(sprintf(param).is_err_and(|e| e.contains(want)), "{param}");
        }
    }

    #[test]
    fn fields_are_bounded() {
        assert_eq!(sprintf("%99999999999999999999d 1").map(|s| s.len()), Ok(MAX_FIELD));
    }
}
