// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handlers: named values and commands of elements, Click's window into a running router.
//!
//! A handler belongs to an element, but an element may have an instance on each worker. [`Merge`] says how the
//! instances' answers become one; writes reach every instance.

use crate::drops::Reason;

/// What a handler allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Writing only.
    Write,
    /// Both.
    ReadWrite,
}

/// How the answers of an element's instances become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// All instances answer alike: the first one's is taken.
    First,
    /// Numbers are added.
    Sum,
    /// The largest number is taken.
    Max,
    /// Texts are joined, line by line.
    Join,
    /// Lines of a number and what it counts, in any order: numbers of the same things are added.
    Tally,
}

/// What callers of a handler know of it.
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    /// Its name.
    pub name: &'static str,
    /// What it allows.
    pub access: Access,
    /// How several instances answer a read.
    pub merge: Merge,
    /// Each instance has what it writes, also where they share the rest ([`Sharing::Shared`](crate::Sharing::Shared)).
    pub everywhere: bool,
    /// Not for other programs: a control connection must not reach it.
    pub private: bool,
    /// The argument that a write replaces in the text that `config` shows: its position, if it has one, and its keyword.
    pub argument: Option<(Option<usize>, &'static str)>,
    /// The engine answers it, for every element whose class has none of this name.
    pub common: bool,
}

impl Signature {
    const fn new(name: &'static str, access: Access) -> Signature {
        Signature {
            name,
            access,
            merge: Merge::First,
            everywhere: false,
            private: false,
            argument: None,
            common: false,
        }
    }

    /// A read handler whose instances answer alike.
    pub const fn read(name: &'static str) -> Signature {
        Signature::new(name, Access::Read)
    }

    /// A write handler.
    pub const fn write(name: &'static str) -> Signature {
        Signature::new(name, Access::Write)
    }

    /// A handler that can be read and written.
    pub const fn both(name: &'static str) -> Signature {
        Signature::new(name, Access::ReadWrite)
    }

    /// Writes it to all instances of an element that shares the rest of its state.
    pub const fn everywhere(mut self) -> Signature {
        self.everywhere = true;
        self
    }

    /// Sets how several instances answer a read.
    pub const fn merge(mut self, merge: Merge) -> Signature {
        self.merge = merge;
        self
    }

    /// Says that a write replaces an argument in the text that `config` shows: the one of this keyword, or else the one at this position. An empty
    /// keyword is none.
    pub const fn argument(mut self, position: Option<usize>, keyword: &'static str) -> Signature {
        self.argument = Some((position, keyword));
        self
    }

    /// Leaves the handler to the engine.
    pub const fn common(mut self) -> Signature {
        self.common = true;
        self
    }

    /// Keeps the handler from control connections.
    pub const fn private(mut self) -> Signature {
        self.private = true;
        self
    }

    /// Whether it can be read.
    pub fn readable(&self) -> bool {
        self.access != Access::Write
    }

    /// Whether it can be written.
    pub fn writable(&self) -> bool {
        self.access != Access::Read
    }
}

/// A function of an element that programs call by Click's number for it (an LLRPC of the control protocol), and the handler that does
/// the same.
#[derive(Clone, Copy, Debug)]
pub struct Llrpc {
    /// Click's number. It also says which way bytes move, and how many.
    pub number: u32,
    /// The value that the program sends to mean this handler and no other of the same number.
    pub with: Option<i32>,
    /// The handler.
    pub handler: &'static str,
    /// Whether the value is written to the handler, and not answered from it.
    pub writes: bool,
}

impl Llrpc {
    /// Answers the number in a read handler.
    pub const fn read(number: u32, handler: &'static str) -> Llrpc {
        Llrpc { number, with: None, handler, writes: false }
    }

    /// The same for programs that send this value.
    pub const fn with(mut self, value: i32) -> Llrpc {
        self.with = Some(value);
        self
    }

    /// Writes the number that the program sends.
    pub const fn write(number: u32, handler: &'static str) -> Llrpc {
        Llrpc { writes: true, ..Llrpc::read(number, handler) }
    }
}

/// A configuration whose argument `keyword`, or else the one at `position`, is `value`.
pub fn with_argument(config: &str, position: Option<usize>, keyword: &str, value: &str) -> String {
    let keyword_of = |arg: &str| {
        let (word, rest) = lang::config::shift_word(arg);
        let letters = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_';
        let is_keyword = word.starts_with(|c: char| c.is_ascii_uppercase()) && word.bytes().all(letters);
        (is_keyword && !rest.is_empty()).then(|| word.to_owned())
    };
    let mut args: Vec<String> = lang::config::split_args(config).into_iter().map(|arg| arg.text).collect();
    let given = args.iter().any(|arg| keyword_of(arg).as_deref() == Some(keyword));
    match position.and_then(|at| args.get_mut(at)) {
        Some(arg) if keyword.is_empty() || (!given && keyword_of(arg).is_none()) => *arg = value.to_owned(),
        _ => {
            args.retain(|arg| keyword_of(arg).as_deref() != Some(keyword));
            args.push(format!("{keyword} {value}"));
        }
    }
    lang::config::join_args(&args)
}

/// Splits `element.handler` at its last dot; a name without dot is a global handler (empty element).
/// Element names may hold dots of numbers no more than Click's do, so the last dot is the right one.
pub fn split_name(full: &str) -> (&str, &str) {
    full.rsplit_once('.').unwrap_or(("", full))
}

/// Whether `name` matches a shell-like pattern of `*`, `?` and `[...]`.
pub fn glob_match(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    // Where to take up again when a later part fails: just behind the last star, one character further on.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        let (ok, next) = match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, n));
                p += 1;
                continue;
            }
            Some('?') => (true, p + 1),
            Some('[') => in_set(&pattern[p + 1..], name[n])
                .map_or((name[n] == '[', p + 1), |(ok, len)| (ok, p + 1 + len)),
            Some(c) => (*c == name[n], p + 1),
            None => (false, p),
        };
        if ok {
            (p, n) = (next, n + 1);
        } else if let Some((after, at)) = star {
            (p, n) = (after, at + 1);
            star = Some((after, at + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Whether a set, given from behind its `[`, holds `c`, and its length with the `]`.
fn in_set(set: &[char], c: char) -> Option<(bool, usize)> {
    let negated = matches!(set.first(), Some('^' | '!'));
    let body = &set[usize::from(negated)..];
    let end = 1 + body.iter().skip(1).position(|c| *c == ']')?;
    let (mut i, mut found) = (0, false);
    while i < end {
        if i + 2 < end && body[i + 1] == '-' {
            found |= (body[i]..=body[i + 2]).contains(&c);
            i += 3;
        } else {
            found |= body[i] == c;
            i += 1;
        }
    }
    Some((found != negated, usize::from(negated) + end + 1))
}

/// Merges the answers of an element's instances.
pub fn merge(how: Merge, answers: Vec<String>) -> String {
    if answers.len() <= 1 {
        return answers.into_iter().next().unwrap_or_default();
    }
    match how {
        Merge::First => answers.into_iter().next().unwrap_or_default(),
        Merge::Join => {
            let mut all = String::new();
            for answer in answers.iter().filter(|a| !a.is_empty()) {
                all.push_str(answer);
                if !all.ends_with('\n') {
                    all.push('\n');
                }
            }
            all
        }
        Merge::Tally => tally(&answers),
        Merge::Sum => combine(&answers, |a, b| a.wrapping_add(b), |a, b| a + b),
        Merge::Max => combine(&answers, i128::max, f64::max),
    }
}

/// Adds up lines that count the same; the first number of a line is its count.
fn tally(answers: &[String]) -> String {
    let mut counts: Vec<(&str, &str, u64)> = Vec::new();
    for line in answers.iter().flat_map(|a| a.lines()) {
        let number = |w: &&str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_digit());
        let found = line.split([' ', '\t']).find(number);
        let at = found.map_or(line.len(), |word| word.as_ptr() as usize - line.as_ptr() as usize);
        let (before, after) = (&line[..at], &line[at + found.map_or(0, str::len)..]);
        let n = found.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        match counts.iter_mut().find(|(b, a, _)| (*b, *a) == (before, after)) {
            Some((.., count)) => *count += n,
            None => counts.push((before, after, n)),
        }
    }
    // Drops in the order of their reasons, wherever they were counted first.
    let reason = |name: &str| Reason::ALL.iter().position(|r| r.name() == name.trim());
    counts.sort_by_key(|(before, ..)| reason(before));
    counts.iter().map(|(before, after, n)| format!("{before}{n}{after}\n")).collect()
}

fn combine(answers: &[String], whole: fn(i128, i128) -> i128, real: fn(f64, f64) -> f64) -> String {
    if let Ok(numbers) = answers.iter().map(|a| a.trim().parse()).collect::<Result<Vec<i128>, _>>() {
        return numbers.into_iter().reduce(whole).unwrap_or(0).to_string();
    }
    match answers.iter().map(|a| a.trim().parse()).collect::<Result<Vec<f64>, _>>() {
        Ok(numbers) => numbers.into_iter().reduce(real).unwrap_or(0.0).to_string(),
        Err(_) => merge(Merge::Join, answers.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_merge() {
        let check = |how, answers: &[&str], want: &str| {
            assert_eq!(merge(how, answers.iter().map(|a| a.to_string()).collect()), want);
        };
        check(Merge::Sum, &["3", "4"], "7");
        check(Merge::Sum, &["3"], "3");
        check(Merge::Sum, &["1.5", "2"], "3.5");
        check(Merge::Max, &["3", "14", "5"], "14");
        check(Merge::Join, &["a", "", "b\n"], "a\nb\n");
        check(Merge::First, &["x", "y"], "x");
        check(
            Merge::Tally,
            &["bad-checksum 2\n", "too-short 1\nbad-checksum 3\n"],
            "too-short 1\nbad-checksum 5\n",
        );
        check(
            Merge::Tally,
            &["3\tbad header\n", "", "4\tbad header\n1\tworse\n"],
            "7\tbad header\n1\tworse\n",
        );
        check(Merge::First, &[], "");
    }

    #[test]
    fn globs() {
        let check = |pattern: &str, yes: &[&str], no: &[&str]| {
            assert!(yes.iter().all(|n| glob_match(pattern, n)), "{pattern} {yes:?}");
            assert!(no.iter().all(|n| !glob_match(pattern, n)), "{pattern} {no:?}");
        };
        check("*", &["", "a/b"], &[]);
        check("c?", &["c1", "cx"], &["c", "c12"]);
        check("a*b*c", &["abc", "aXbYc", "abbcc"], &["ab", "acb"]);
        check("q[0-2x]", &["q0", "q2", "qx"], &["q3", "q"]);
        check("q[^a]z", &["qbz"], &["qaz"]);
        check("q[", &["q["], &["qx"]);
    }

    #[test]
    fn an_argument_is_replaced() {
        for (config, want) in [
            ("", "CAPACITY 7"),
            ("5", "7"),
            ("5, A b", "7, A b"),
            ("CAPACITY 5, A b", "A b, CAPACITY 7"),
            ("A b", "A b, CAPACITY 7"),
        ] {
            assert_eq!(with_argument(config, Some(0), "CAPACITY", "7"), want, "{config}");
        }
        assert_eq!(with_argument("TCP a, -", Some(0), "", "udp"), "udp, -");
        assert_eq!(with_argument("1, 2", None, "LIMIT", "3"), "1, 2, LIMIT 3");
    }

    #[test]
    fn names_split_at_the_last_dot() {
        assert_eq!(split_name("a/b.count"), ("a/b", "count"));
        assert_eq!(split_name("stop"), ("", "stop"));
    }
}
