// SPDX-License-Identifier: MIT OR Apache-2.0
//! `$x`, `${x}`, `${x-default}`, `${x[i]}`, and what they stand for.
//!
//! Scopes form a chain: each use of a compound opens one below the scope in which its class was written. A value is itself
//! expanded, in the scope where it's used, so definitions may come in any order. A variable inside its own value stays as
//! it is, and so does what lies deeper than ten values.
//! An unknown variable stays in the text as it is (a Script has variables of its own). No variable is seen inside
//! single quotes or comments; inside double quotes the value is quoted to fit. `$(...)` is left to the Script that
//! runs it, except that variables inside are replaced.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use crate::config::{quote, shift_word, skip_comments_and_space};

/// Values refer to other variables this deep at most.
const MAX_DEPTH: usize = 10;

#[derive(Debug)]
struct Variable {
    value: String,
    used: Cell<bool>,
}

/// The variables of one scope, and the scope around it.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    variables: HashMap<String, Variable>,
    parent: Option<Rc<Scope>>,
    /// 0 for the file, 1 for a compound written in it, and so on.
    depth: usize,
}

impl Scope {
    /// The scope below `parent`.
    pub(crate) fn inside(parent: &Rc<Scope>) -> Scope {
        Scope { variables: HashMap::new(), parent: Some(Rc::clone(parent)), depth: parent.depth + 1 }
    }

    /// The scope of that depth: `scope` itself or one around it.
    pub(crate) fn at_depth(scope: &Rc<Scope>, depth: usize) -> Rc<Scope> {
        let mut scope = scope;
        while scope.depth > depth {
            match &scope.parent {
                Some(parent) => scope = parent,
                None => break,
            }
        }
        Rc::clone(scope)
    }

    /// Defines a variable; false if it's there already, and then it keeps its value.
    pub(crate) fn define(&mut self, name: &str, value: &str) -> bool {
        match self.variables.entry(name.to_string()) {
            Entry::Occupied(_) => false,
            Entry::Vacant(slot) => {
                slot.insert(Variable { value: value.to_string(), used: Cell::new(false) });
                true
            }
        }
    }

    /// Whether a variable of this very scope was looked up.
    pub(crate) fn is_used(&self, name: &str) -> bool {
        self.variables.get(name).is_some_and(|v| v.used.get())
    }

    fn find(&self, name: &str) -> Option<&str> {
        let mut scope = self;
        loop {
            if let Some(variable) = scope.variables.get(name) {
                variable.used.set(true);
                return Some(&variable.value);
            }
            scope = scope.parent.as_deref()?;
        }
    }
}

/// The text grew past what its reader may spend.
#[derive(Debug)]
pub(crate) struct TooLarge;

/// Replaces the variables in a configuration string. `budget` is the number of bytes that may still be produced.
pub(crate) fn expand(text: &str, scope: &Scope, budget: &mut usize) -> Result<String, TooLarge> {
    Expander { scope, budget, open: Vec::new() }.expand(text, 0)
}

struct Expander<'a> {
    scope: &'a Scope,
    budget: &'a mut usize,
    /// Variables whose values are being expanded.
    open: Vec<String>,
}

/// A reference to a variable: how it is written, what stands between its marks, and where it ends.
struct Reference<'t> {
    form: Form,
    written: &'t str,
    inner: &'t str,
    end: usize,
    /// Whether it stands inside double quotes.
    quoted: bool,
}

/// A part of a text: as it stands, or to be replaced.
enum Piece<'t> {
    Text(&'t str),
    Reference(Reference<'t>),
}

/// Takes a text apart at its references.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let s = text.as_bytes();
    let mut pieces = Vec::new();
    let (mut i, mut copied, mut quote_mark) = (0, 0, 0u8);
    while i < s.len() {
        match s[i] {
            b'\\' if quote_mark == b'"' => i += 2,
            b @ (b'\'' | b'"') => {
                if quote_mark == 0 {
                    quote_mark = b;
                } else if quote_mark == b {
                    quote_mark = 0;
                }
                i += 1;
            }
            b'/' if quote_mark == 0 && matches!(s.get(i + 1), Some(b'/' | b'*')) => {
                i = skip_comments_and_space(s, i);
            }
            b'$' if quote_mark != b'\'' => match reference(text, i) {
                // A mark that's never closed ends the search, as in Click.
                Found::Unclosed => break,
                Found::Reference(mut reference) => {
                    pieces.push(Piece::Text(&text[copied..i]));
                    reference.quoted = quote_mark == b'"';
                    i = reference.end;
                    copied = i;
                    pieces.push(Piece::Reference(reference));
                }
                Found::Nothing => i += 1,
            },
            _ => i += 1,
        }
    }
    pieces.push(Piece::Text(&text[copied..]));
    pieces
}

/// Where a text names variables: byte ranges of the names.
pub(crate) fn mentions(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    mentions_in(text, 0, 0, &mut found);
    found
}

fn mentions_in(text: &str, at: usize, depth: usize, found: &mut Vec<std::ops::Range<usize>>) {
    if depth > MAX_DEPTH || !text.contains('$') {
        return;
    }
    for piece in pieces(text) {
        let Piece::Reference(reference) = piece else { continue };
        let behind = usize::from(reference.form != Form::Plain);
        let inner_at = at + reference.end - behind - reference.inner.len();
        let name = match reference.form {
            Form::Plain => reference.inner,
            Form::Braces => split_braces(reference.inner).0,
            Form::Parentheses => "",
        };
        if !name.is_empty() {
            let start = inner_at + reference.inner.len() - reference.inner.trim_start().len();
            found.push(start..start + name.len());
        }
        if reference.form != Form::Plain {
            mentions_in(reference.inner, inner_at, depth + 1, found);
        }
    }
}

/// What a text may refer to, as [`substitute`] asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<'t> {
    /// `$name`, `${name}`
    Variable(&'t str),
    /// `$(handler arguments)`
    Call(&'t str),
}

/// Replaces the references in a text by what `lookup` answers; what it does not know stays as it is, or takes the
/// default of `${name-default}`. References inside others are replaced first. Inside double quotes values are quoted to
/// fit; with `quote_all` also outside of quotes, so that unquoting the result gives them back unchanged.
pub fn substitute(
    text: &str,
    quote_all: bool,
    lookup: &mut dyn FnMut(Lookup<'_>) -> Option<String>,
) -> String {
    substitute_at(text, quote_all, lookup, 0)
}

fn substitute_at(
    text: &str,
    quote_all: bool,
    lookup: &mut dyn FnMut(Lookup<'_>) -> Option<String>,
    depth: usize,
) -> String {
    if depth > MAX_DEPTH || !text.contains('$') {
        return text.to_string();
    }
    let mut out = String::new();
    for piece in pieces(text) {
        let reference = match piece {
            Piece::Text(literal) => {
                out.push_str(literal);
                continue;
            }
            Piece::Reference(reference) => reference,
        };
        let inner = match reference.form {
            Form::Plain => reference.inner.to_string(),
            _ => substitute_at(reference.inner, false, lookup, depth + 1),
        };
        let value = match reference.form {
            Form::Plain => lookup(Lookup::Variable(&inner)),
            Form::Parentheses => lookup(Lookup::Call(&inner)),
            Form::Braces => {
                let (name, word, default) = split_braces(&inner);
                let name = if name.is_empty() { inner.trim() } else { name };
                let value = lookup(Lookup::Variable(name));
                let value = value.map(|v| word.map_or(v.clone(), |n| nth_word(&v, n).to_string()));
                value.or_else(|| default.map(str::to_string))
            }
        };
        match value {
            Some(value) if reference.quoted => out.push_str(&inside_quotes(&value)),
            Some(value) if quote_all => out.push_str(&quote(&value)),
            Some(value) => out.push_str(&value),
            None => out.push_str(reference.written),
        }
    }
    out
}

/// A value as it must stand between double quotes.
fn inside_quotes(value: &str) -> String {
    let quoted = quote(value);
    quoted[1..quoted.len() - 1].to_string()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `$x`
    Plain,
    /// `${x...}`
    Braces,
    /// `$(handler)`
    Parentheses,
}

impl Expander<'_> {
    fn spend(&mut self, bytes: usize) -> Result<(), TooLarge> {
        *self.budget = self.budget.checked_sub(bytes).ok_or(TooLarge)?;
        Ok(())
    }

    fn expand(&mut self, text: &str, depth: usize) -> Result<String, TooLarge> {
        if depth > MAX_DEPTH || !text.contains('$') {
            self.spend(text.len())?;
            return Ok(text.to_string());
        }
        let mut out = String::new();
        for piece in pieces(text) {
            match piece {
                Piece::Text(literal) => {
                    self.spend(literal.len())?;
                    out.push_str(literal);
                }
                Piece::Reference(reference) => self.replace(&reference, depth, &mut out)?,
            }
        }
        Ok(out)
    }

    /// Appends what a reference stands for, or the reference itself if nothing is known.
    fn replace(&mut self, reference: &Reference<'_>, depth: usize, out: &mut String) -> Result<(), TooLarge> {
        let written = reference.written;
        let nested = reference.form != Form::Plain && reference.inner.contains('$');
        let inner =
            if nested { self.expand(reference.inner, depth + 1)? } else { reference.inner.to_string() };
        let value = match self.value(&inner, reference.form, depth)? {
            Some(value) if reference.quoted => inside_quotes(&value),
            Some(value) => value,
            None if nested => format!("{}{inner}{}", &written[..2], &written[written.len() - 1..]),
            None => written.to_string(),
        };
        self.spend(value.len())?;
        out.push_str(&value);
        Ok(())
    }

    fn value(&mut self, inner: &str, form: Form, depth: usize) -> Result<Option<String>, TooLarge> {
        let (name, word, default) = match form {
            Form::Braces => split_braces(inner),
            Form::Plain | Form::Parentheses => (inner, None, None),
        };
        if let Some(value) = self.scope.find(name) {
            if self.open.iter().any(|open| open == name) {
                return Ok(None);
            }
            let value = value.to_string();
            self.open.push(name.to_string());
            let value = self.expand(&value, depth + 1)?;
            self.open.pop();
            return Ok(Some(match word {
                Some(n) => nth_word(&value, n).to_string(),
                None => value,
            }));
        }
        default.map(|text| self.expand(text, depth + 1)).transpose()
    }
}

fn nth_word(value: &str, n: usize) -> &str {
    let mut rest = value;
    let mut word = "";
    for _ in 0..=n {
        (word, rest) = shift_word(rest);
        if word.is_empty() {
            break;
        }
    }
    word
}

fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// What a `$` turns out to be.
enum Found<'t> {
    Reference(Reference<'t>),
    Unclosed,
    Nothing,
}

/// The reference that starts with the `$` at `i`.
fn reference(text: &str, i: usize) -> Found<'_> {
    let s = text.as_bytes();
    let found = |form, inner, end| {
        Found::Reference(Reference { form, written: &text[i..end], inner, end, quoted: false })
    };
    let enclosed = |form, end: Option<usize>| match end {
        Some(end) => found(form, &text[i + 2..end], end + 1),
        None => Found::Unclosed,
    };
    let plain = |end: usize| found(Form::Plain, &text[i + 1..end], end);
    match s.get(i + 1) {
        Some(b'{') => enclosed(Form::Braces, s[i + 2..].iter().position(|&b| b == b'}').map(|n| i + 2 + n)),
        Some(b'(') => enclosed(Form::Parentheses, closing_parenthesis(s, i + 2)),
        Some(&b) if is_name(b) => plain(i + 1 + s[i + 1..].iter().take_while(|&&b| is_name(b)).count()),
        Some(b'?' | b'#' | b'$') => plain(i + 2),
        _ => Found::Nothing,
    }
}

/// Where the parenthesis opened before `i` is closed, quotes respected.
fn closing_parenthesis(s: &[u8], mut i: usize) -> Option<usize> {
    let (mut level, mut quote_mark) = (1usize, 0u8);
    while i < s.len() {
        match s[i] {
            b'(' if quote_mark == 0 => level += 1,
            b')' if quote_mark == 0 => {
                level -= 1;
                if level == 0 {
                    return Some(i);
                }
            }
            b @ (b'\'' | b'"') if quote_mark == 0 => quote_mark = b,
            b if b == quote_mark => quote_mark = 0,
            b'\\' if quote_mark != b'\'' => i += 1,
            _ => {}
        }
        i += 1;
    }
    None
}

/// `name`, `name[i]` and `name-default`, as they stand between braces.
fn split_braces(inner: &str) -> (&str, Option<usize>, Option<&str>) {
    let trimmed = inner.trim_start();
    let end = trimmed.bytes().take_while(|&b| is_name(b)).count();
    let (name, mut rest) = (&trimmed[..end], trimmed[end..].trim_start());
    let mut word = None;
    if let Some((index, after)) = rest.strip_prefix('[').and_then(|r| r.split_once(']'))
        && let Ok(n) = index.trim_start().parse()
    {
        word = Some(n);
        rest = after.trim_start();
    }
    (name, word, rest.strip_prefix('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_substitute() {
        let check = |text: &str, quote_all: bool, want: &str| {
            let got = substitute(text, quote_all, &mut |what| match what {
                Lookup::Variable("x") => Some("1 2".into()),
                Lookup::Variable("q") => Some("\"".into()),
                Lookup::Variable("?") => Some("0".into()),
                Lookup::Variable(_) => None,
                Lookup::Call("fail") => None,
                Lookup::Call(call) => Some(format!("<{call}>")),
            });
            assert_eq!(got, want, "{text}");
        };
        check("a $x ${x} $y ${y-no}", false, "a 1 2 1 2 $y no");
        check("${x[1]} $? '$x' \"$q\"", false, "2 0 '$x' \"\\\"\"");
        check("$x", true, "\"1 2\"");
        check("$(add $x $(sub ${x[0]}))", false, "<add 1 2 <sub 1>>");
        check("$(fail) $(open", false, "$(fail) $(open");
        check("\"$(a \")\")\"", false, "\"<a \\\")\\\">\"");
    }

    fn check(text: &str, want: &str) {
        let mut scope = Scope::default();
        for (name, value) in [
            ("a", "1"),
            ("b", "$a 2"),
            ("words", "x 'y z' w"),
            ("quote", "say \"hi\""),
            ("loop", "<$loop>"),
            ("0", "digit"),
            ("n", "a"),
        ] {
            assert!(scope.define(name, value));
        }
        let mut budget = 10_000;
        assert_eq!(expand(text, &scope, &mut budget).unwrap(), want, "{text:?}");
    }

    #[test]
    fn replaces_variables() {
        check("", "");
        check("$a", "1");
        check("$a$a", "11");
        check("${a}b", "1b");
        check("$ab", "$ab");
        check("x$b.", "x1 2.");
        check("$0", "digit");
        check("$", "$");
        check("$ a", "$ a");
        check("a$", "a$");
    }

    #[test]
    fn defaults_and_words() {
        check("${nope-7}", "7");
        check("${a-7}", "1");
        check("${nope-$a}", "1");
        check("${nope-}", "");
        check("${nope}", "${nope}");
        check("${words[0]}", "x");
        check("${words[1]}", "'y z'");
        check("${words[2]}", "w");
        check("${words[3]}", "");
        check("${ words [1] }", "'y z'");
        check("${nope[1]-d}", "d");
        check("${words[x]}", "x 'y z' w");
        check("${a", "${a");
        check("${$n}", "1");
        check("${$n$n}", "${aa}");
    }

    #[test]
    fn quotes_and_comments() {
        check("'$a' $a", "'$a' 1");
        check("\"$a\"", "\"1\"");
        check("\"\\$a\"", "\"\\$a\"");
        check("\\$a", "\\1");
        check("\"$quote\"", "\"say \\\"hi\\\"\"");
        check("$quote", "say \"hi\"");
        check("a // $a\n$a", "a // $a\n1");
        check("a /* $a */ $a", "a /* $a */ 1");
        check("\"it's $a\"", "\"it's 1\"");
        check("'\"' $a '\"'", "'\"' 1 '\"'");
    }

    #[test]
    fn handlers_are_left_to_scripts() {
        check("$(x.count)", "$(x.count)");
        check("$(add $a 2)", "$(add 1 2)");
        check("$(add $(mul $a $a) 2)", "$(add $(mul 1 1) 2)");
        check("$(print ')' $a)", "$(print ')' 1)");
        check("$(open", "$(open");
        check("$? $# $$", "$? $# $$");
    }

    #[test]
    fn circles_end() {
        check("$loop", "<$loop>");
        check("'$loop' ${loop-x} \"$loop\"", "'$loop' <$loop> \"<\\$loop>\"");
        let mut scope = Scope::default();
        scope.define("a", "$b $b");
        scope.define("b", "$a ${a-x}");
        assert_eq!(expand("$a", &scope, &mut 1000).unwrap(), "$a ${a-x} $a ${a-x}");
        assert!(expand("$a", &scope, &mut 10).is_err());
    }

    #[test]
    fn inner_scopes_hide_outer_ones() {
        let mut outer = Scope::default();
        outer.define("x", "outer");
        outer.define("y", "$x");
        let outer = Rc::new(outer);
        let mut inner = Scope::inside(&outer);
        inner.define("x", "inner");
        let mut budget = 1000;
        assert_eq!(expand("$x $y", &inner, &mut budget).unwrap(), "inner inner");
        assert!(outer.is_used("y") && !outer.is_used("x"));
        let inner = Rc::new(inner);
        assert_eq!(Scope::at_depth(&inner, 0).depth, 0);
        assert_eq!(Scope::at_depth(&inner, 5).depth, 1);
    }
}
