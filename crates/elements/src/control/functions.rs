// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of scripts, which are read handlers with parameters: arithmetic, comparison, logic and text.
//!
//! Parameters are words. Numbers are whole (64 bits, also hexadecimal and octal) as long as all are, and else
//! floating-point. Whole numbers wrap.

use element::args::parse_bool;
use element::parse_integer;
use lang::config::{shift_word, split_words, unquote, unquote_string};

type Answer = Result<String, String>;

/// The value of function `name`, or `None` if there is no such function.
pub(super) fn call(name: &str, param: &str) -> Option<Answer> {
    Some(match name {
        "add" | "sub" | "min" | "max" | "mul" | "div" | "idiv" => fold(name, param),
        "mod" | "rem" => remainder(name, param),
        "neg" | "abs" | "ceil" | "floor" | "round" => unary(name, param),
        "avg" => average(param),
        "count" => Ok(split_words(param).len().to_string()),
        "popcount" => integer(param).map(|x| x.count_ones().to_string()),
        "eq" | "ne" | "lt" | "le" | "gt" | "ge" => compare(name, param),
        "not" => truth(param).map(|b| (!b).to_string()),
        "and" | "or" | "nand" | "nor" => junction(name, param),
        "if" => choose(param),
        "in" => Ok(is_in(param).to_string()),
        "first" => Ok(shift_word(param).0.to_owned()),
        "sprintf" => super::format::sprintf(param),
        "length" => Ok(param.len().to_string()),
        "unquote" => Ok(unquote_string(param)),
        "htons" | "ntohs" => integer(param).map(|x| u16::from_be(x as u16).to_string()),
        "htonl" | "ntohl" => integer(param).map(|x| u32::from_be(x as u32).to_string()),
        _ => return None,
    })
}

/// A number as it was written: whole or not.
#[derive(Clone, Copy)]
enum Number {
    Whole(i64),
    Real(f64),
}

impl Number {
    fn parse(word: &str) -> Option<Number> {
        let word = unquote_string(word);
        match parse_integer(&word).and_then(|n| i64::try_from(n).ok()) {
            Some(n) => Some(Number::Whole(n)),
            None => {
                // Rust also reads names of numbers that are none.
                let numeric = word.contains(|c: char| c.is_ascii_digit());
                word.parse().ok().filter(|_| numeric).map(Number::Real)
            }
        }
    }

    fn real(self) -> f64 {
        match self {
            Number::Whole(n) => n as f64,
            Number::Real(x) => x,
        }
    }
}

/// Reads a whole number of any sign.
pub(super) fn integer(text: &str) -> Result<i64, String> {
    match Number::parse(text.trim()) {
        Some(Number::Whole(n)) => Ok(n),
        _ => Err(format!("syntax error: expected a whole number, not '{text}'")),
    }
}

fn fold(name: &str, param: &str) -> Answer {
    let numbers: Option<Vec<Number>> = split_words(param).into_iter().map(Number::parse).collect();
    let numbers = numbers.ok_or("expected list of numbers")?;
    let whole: Option<Vec<i64>> = numbers
        .iter()
        .map(|n| match n {
            Number::Whole(n) => Some(*n),
            Number::Real(_) => None,
        })
        .collect();
    let empty = if name == "add" || name == "sub" { 0 } else { 1 };
    let exact = match name {
        "add" => i64::wrapping_add,
        "sub" => i64::wrapping_sub,
        "min" => i64::min,
        "max" => i64::max,
        _ => i64::wrapping_mul,
    };
    let divides = name == "div" || name == "idiv";
    if let Some(whole) = whole.filter(|_| !divides) {
        return Ok(whole.into_iter().reduce(exact).unwrap_or(empty).to_string());
    }
    let real = match name {
        "add" => |a, b| a + b,
        "sub" => |a, b| a - b,
        "min" => f64::min,
        "max" => f64::max,
        "mul" => |a, b| a * b,
        _ => |a, b| a / b,
    };
    let value = numbers.into_iter().map(Number::real).reduce(real).unwrap_or(empty as f64);
    if name != "idiv" {
        return Ok(general(value, 12));
    }
    if value.is_finite() { Ok((value as i64).to_string()) } else { Err("division by zero".into()) }
}

/// The words, if they are as many.
fn words<const N: usize>(param: &str) -> Option<[&str; N]> {
    split_words(param).try_into().ok()
}

fn remainder(name: &str, param: &str) -> Answer {
    let expected = "expected two numbers";
    let [a, b] = words(param).ok_or(expected)?;
    match (Number::parse(a), Number::parse(b)) {
        (Some(Number::Whole(_)), Some(Number::Whole(0))) => Err("division by zero".into()),
        (Some(Number::Whole(a)), Some(Number::Whole(b))) => Ok(a.wrapping_rem(b).to_string()),
        (Some(a), Some(b)) if name == "rem" => Ok(general(a.real() % b.real(), 12)),
        _ => Err(expected.into()),
    }
}

fn unary(name: &str, param: &str) -> Answer {
    let number = Number::parse(param.trim()).ok_or("expected one number")?;
    Ok(match (name, number) {
        ("neg", Number::Whole(n)) => n.wrapping_neg().to_string(),
        ("abs", Number::Whole(n)) => n.wrapping_abs().to_string(),
        (_, Number::Whole(n)) => n.to_string(),
        ("neg", Number::Real(x)) => general(-x, 12),
        ("abs", Number::Real(x)) => general(x.abs(), 12),
        ("floor", Number::Real(x)) => general(x.floor(), 12),
        ("round", Number::Real(x)) => general(x.round(), 12),
        (_, Number::Real(x)) => general(x.ceil(), 12),
    })
}

fn average(param: &str) -> Answer {
    let numbers: Option<Vec<Number>> = split_words(param).into_iter().map(Number::parse).collect();
    let numbers = numbers.filter(|n| !n.is_empty()).ok_or("expected list of numbers")?;
    let sum: f64 = numbers.iter().map(|n| n.real()).sum();
    Ok(general(sum / numbers.len() as f64, 12))
}

fn compare(name: &str, param: &str) -> Answer {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let [a, b] = words(param).ok_or("expected two numbers")?;
    let order = match (Number::parse(a), Number::parse(b)) {
        (Some(Number::Whole(a)), Some(Number::Whole(b))) => Some(a.cmp(&b)),
        (Some(a), Some(b)) => a.real().partial_cmp(&b.real()),
        _ => Some(unquote(a).cmp(&unquote(b))),
    };
    let holds = match name {
        "eq" => order == Some(Equal),
        "ne" => order != Some(Equal),
        "lt" => order == Some(Less),
        "le" => matches!(order, Some(Less | Equal)),
        "gt" => order == Some(Greater),
        _ => matches!(order, Some(Greater | Equal)),
    };
    Ok(holds.to_string())
}

/// Reads a truth value.
pub(super) fn truth(text: &str) -> Result<bool, String> {
    parse_bool(unquote_string(text).trim())
        .ok_or_else(|| format!("syntax error: expected true or false, not '{text}'"))
}

fn junction(name: &str, param: &str) -> Answer {
    let (all, negated) = (name.ends_with("and"), name.starts_with('n'));
    let mut value = all;
    for word in split_words(param) {
        value = truth(word)?;
        // Like C's operators, it stops at the first value that decides.
        if value != all {
            break;
        }
    }
    Ok((value != negated).to_string())
}

fn choose(param: &str) -> Answer {
    let (condition, rest) = shift_word(param);
    let (yes, rest) = shift_word(rest);
    let (no, _) = shift_word(rest);
    Ok(if truth(condition)? { yes } else { no }.to_owned())
}

fn is_in(param: &str) -> bool {
    let mut words = split_words(param).into_iter().map(unquote);
    words.next().is_some_and(|word| !word.is_empty() && words.any(|other| other == word))
}

/// A number with so many significant digits, as C's `%g` writes it.
pub(crate) fn general(x: f64, digits: usize) -> String {
    if !x.is_finite() {
        let name = if x.is_nan() { "nan" } else { "inf" };
        return format!("{}{name}", if x.is_sign_negative() { "-" } else { "" });
    }
    let digits = digits.max(1);
    let scientific = format!("{x:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |s: &str| match s.contains('.') {
        true => s.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => s.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(mantissa), exponent.abs());
    }
    trim(&format!("{x:.*}", (digits as i32 - 1 - exponent) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls written as `name parameters`; an answer that begins with `!` is part of an error.
    fn check(cases: &[(&str, &str)]) {
        for (text, want) in cases {
            let (name, param) = text.split_once(' ').unwrap_or((text, ""));
            match (call(name, param).expect(name), want.strip_prefix('!')) {
                (Ok(got), None) => assert_eq!(got, *want, "{text}"),
                (Err(why), Some(part)) => assert!(why.contains(part), "{text}: {why}"),
                (got, _) => panic!("{text}: {got:?}, not {want}"),
            }
        }
    }

    #[test]
    fn arithmetic() {
        check(&[
            ("add 10 5 2", "17"),
            ("add", "0"),
            ("add 1 0x10 010", "25"),
            ("add 1.5 1", "2.5"),
            ("add 0.1 0.2", "0.3"),
            ("add 9223372036854775807 1", "-9223372036854775808"),
            ("add 9223372036854775808 0", "9.22337203685e+18"),
            ("add 1 x", "!expected list of numbers"),
            ("add nan", "!expected list"),
            ("sub 10 5 2", "3"),
            ("sub 7", "7"),
            ("min 10 6 20", "6"),
            ("max -1 6 3", "6"),
            ("max 1 2.5", "2.5"),
            ("mul 1 2 3", "6"),
            ("mul", "1"),
            ("mul 1e10 1e10", "1e+20"),
            ("div 75 2.5 5", "6"),
            ("div 1 3", "0.333333333333"),
            ("div 1 0", "inf"),
            ("idiv 60 2 5", "6"),
            ("idiv 7 2", "3"),
            ("idiv -7 2", "-3"),
            ("idiv 1 0", "!division by zero"),
            ("mod 7 3", "1"),
            ("mod -7 3", "-1"),
            ("mod 7 0", "!division by zero"),
            ("mod 7.5 2", "!expected two numbers"),
            ("rem 7.5 2", "1.5"),
            ("rem 7 3", "1"),
            ("rem 7", "!expected two numbers"),
            ("rem 7 3 1", "!expected two numbers"),
            ("neg 5", "-5"),
            ("neg -1.5", "1.5"),
            ("abs -5", "5"),
            ("abs -2.5", "2.5"),
            ("abs", "!expected one number"),
            ("ceil 1.2", "2"),
            ("ceil 7", "7"),
            ("floor 1.8", "1"),
            ("floor -1.2", "-2"),
            ("floor 7", "7"),
            ("round 1.5", "2"),
            ("round -1.5", "-2"),
            ("round 1.4", "1"),
            ("round x", "!expected one number"),
            ("avg 1 2 3", "2"),
            ("avg 1 2", "1.5"),
            ("avg 0.5 2.5 0x3", "2"),
            ("avg", "!expected list of numbers"),
            ("avg 1 x", "!expected list of numbers"),
            ("count a 'b c' d", "3"),
            ("count", "0"),
            ("popcount 255", "8"),
            ("popcount 0x10", "1"),
            ("popcount 0", "0"),
            ("popcount x", "!syntax error"),
            ("htons 1", "256"),
            ("htonl 1", "16777216"),
            ("ntohl 16777216", "1"),
            ("htons x", "!syntax error"),
        ]);
    }

    #[test]
    fn comparison_and_logic() {
        check(&[
            ("eq 10 0xA", "true"),
            ("eq 10x 10x", "true"),
            ("eq \"a b\" 'a b'", "true"),
            ("eq 1", "!expected two numbers"),
            ("eq 1 2 3", "!expected two numbers"),
            ("ne 1 1.0", "false"),
            ("lt 9 10", "true"),
            ("lt 9x 10x", "false"),
            ("le 9 8", "false"),
            ("gt 2.5 2", "true"),
            ("ge 2 2", "true"),
            ("not true", "false"),
            ("not 0", "true"),
            ("not x", "!syntax error"),
            ("and true 1 yes", "true"),
            ("and true false x", "false"),
            ("and", "true"),
            ("or false 0", "false"),
            ("or false true x", "true"),
            ("or", "false"),
            ("nand true true", "false"),
            ("nor false false", "true"),
            ("nor x", "!syntax error"),
            ("if true a b", "a"),
            ("if 0 a \"b c\"", "\"b c\""),
            ("if false a", ""),
            ("if x a b", "!syntax error"),
            ("in foo bar foo", "true"),
            ("in foo bar", "false"),
            ("in \"a b\" 'a b'", "true"),
            ("in", "false"),
        ]);
    }

    #[test]
    fn text() {
        check(&[
            ("first  a b", "a"),
            ("first \"a b\" c", "\"a b\""),
            ("first", ""),
            ("length abcde", "5"),
            ("length", "0"),
            ("unquote \"a\\tb\"", "a\tb"),
            ("unquote 'x'y", "xy"),
        ]);
        assert!(call("substr", "").is_none());
    }

    #[test]
    fn numbers_look_like_those_of_c() {
        for (x, want) in [
            (0.0, "0"),
            (100000.0, "100000"),
            (1e11, "100000000000"),
            (1e12, "1e+12"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (123456.789, "123456.789"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(general(x, 12), want);
        }
    }
}
