// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arguments of elements: Click's positional and keyword arguments, typed, with all errors gathered.
//!
//! ```
//! use junctor_element::args::{Args, Names};
//! let names = Names::default();
//! let mut args = Args::new("5, LIMIT 7", "source", (0, 1), &names);
//! let burst: u32 = args.positional("BURST", 1);
//! let limit: u32 = args.keyword("LIMIT", 0);
//! assert_eq!((burst, limit), (5, 7));
//! assert!(args.errors().is_empty());
//! ```
//!
//! An argument is given by keyword when its first word is in capitals and another word follows. A positional
//! argument may always be given by its keyword instead.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;

use lang::{Diagnostic, config};

use crate::hide::{self, Find};
use crate::ports::Processing;
use crate::values::BETWEEN;

pub use crate::names::{Names, TCP, UDP};
pub use crate::values::{Bandwidth, FromArg, Port, Raw, parse_bool};

/// One argument.
#[derive(Clone, Debug)]
struct Given {
    text: String,
    /// The first word, when it looks like a keyword, and the rest.
    keyword: Option<(String, String)>,
    used: bool,
}

/// An element's arguments while it reads them.
pub struct Args<'a> {
    given: Vec<Given>,
    /// Positional arguments asked for so far.
    next: usize,
    asked: Vec<&'static str>,
    errors: Vec<String>,
    /// How Click says some of the errors, by their place among them.
    click: BTreeMap<usize, String>,
    warnings: Vec<String>,
    /// The element's name.
    pub name: &'a str,
    /// Inputs that the configuration uses.
    pub ninputs: usize,
    /// Outputs that the configuration uses.
    pub noutputs: usize,
    /// Names defined in the configuration.
    pub names: &'a Names,
    processing: (&'a [Processing], &'a [Processing]),
    /// The grace periods of the router's workers: tables that elements make register with them.
    pub rcu: sync::rcu::Domain,
}

impl<'a> Args<'a> {
    /// The arguments in `config` for element `name` with so many inputs and outputs.
    pub fn new(
        config: &str,
        name: &'a str,
        (ninputs, noutputs): (usize, usize),
        names: &'a Names,
    ) -> Args<'a> {
        let given = config::split_args(config)
            .into_iter()
            .map(|arg| Given { keyword: keyword(&arg.text), text: arg.text.to_string(), used: false })
            .collect();
        Args {
            given,
            next: 0,
            asked: Vec::new(),
            errors: Vec::new(),
            click: BTreeMap::new(),
            warnings: Vec::new(),
            name,
            ninputs,
            noutputs,
            names,
            processing: (&[], &[]),
            rcu: sync::rcu::Domain::default(),
        }
    }

    /// Says how inputs and outputs work.
    pub fn with_processing(mut self, inputs: &'a [Processing], outputs: &'a [Processing]) -> Args<'a> {
        self.processing = (inputs, outputs);
        self
    }

    /// Says which grace periods tables belong to.
    pub fn with_rcu(mut self, rcu: &sync::rcu::Domain) -> Args<'a> {
        self.rcu = rcu.clone();
        self
    }

    /// Whether the element itself fetches the packets of input `port`.
    pub fn input_is_pull(&self, port: usize) -> bool {
        self.processing.0.get(port) == Some(&Processing::Pull)
    }

    /// Whether output `port` is asked for packets.
    pub fn output_is_pull(&self, port: usize) -> bool {
        self.processing.1.get(port) == Some(&Processing::Pull)
    }

    /// Argument `name`, which must be there: by position or keyword.
    pub fn required<T: FromArg + Default>(&mut self, name: &'static str) -> T {
        match self.take(name, true) {
            Some(text) => self.parse(name, &text).unwrap_or_default(),
            None => {
                self.missing(name, T::EXPECTED);
                T::default()
            }
        }
    }

    /// Argument `name` by position or keyword, or `default`.
    pub fn positional<T: FromArg>(&mut self, name: &'static str, default: T) -> T {
        self.positional_opt(name).unwrap_or(default)
    }

    /// Argument `name` by position or keyword, if it is there.
    pub fn positional_opt<T: FromArg>(&mut self, name: &'static str) -> Option<T> {
        let text = self.take(name, true)?;
        self.parse(name, &text)
    }

    /// Argument `name` by keyword only, or `default`.
    pub fn keyword<T: FromArg>(&mut self, name: &'static str, default: T) -> T {
        self.keyword_opt(name).unwrap_or(default)
    }

    /// Argument `name` by keyword only, if it is there.
    pub fn keyword_opt<T: FromArg>(&mut self, name: &'static str) -> Option<T> {
        let text = self.take(name, false)?;
        self.parse(name, &text)
    }

    /// Argument `name` by keyword only, which must be there.
    pub fn keyword_required<T: FromArg + Default>(&mut self, name: &'static str) -> T {
        match self.take(name, false) {
            Some(text) => self.parse(name, &text).unwrap_or_default(),
            None => {
                self.missing(name, T::EXPECTED);
                T::default()
            }
        }
    }

    /// As [`positional`](Args::positional), with the values that are allowed. Outside them there is an error, and the default stands.
    pub fn positional_in<T: FromArg + PartialOrd + Display>(
        &mut self,
        name: &'static str,
        default: T,
        allowed: RangeInclusive<T>,
    ) -> T {
        let given = self.positional_opt(name);
        self.allow(name, given, allowed).unwrap_or(default)
    }

    /// As [`keyword`](Args::keyword), with the values that are allowed. Outside them there is an error, and the default stands.
    pub fn keyword_in<T: FromArg + PartialOrd + Display>(
        &mut self,
        name: &'static str,
        default: T,
        allowed: RangeInclusive<T>,
    ) -> T {
        let given = self.keyword_opt(name);
        self.allow(name, given, allowed).unwrap_or(default)
    }

    /// As [`required`](Args::required), with the values that are allowed. Outside them there is an error, and the lowest stands.
    pub fn required_in<T: FromArg + Default + PartialOrd + Display + Copy>(
        &mut self,
        name: &'static str,
        allowed: RangeInclusive<T>,
    ) -> T {
        let before = self.errors.len();
        let given: T = self.required(name);
        if self.errors.len() > before {
            return *allowed.start();
        }
        let lowest = *allowed.start();
        self.allow(name, Some(given), allowed).unwrap_or(lowest)
    }

    /// The value if it is allowed; else an error that says which are.
    pub fn allow<T: PartialOrd + Display>(
        &mut self,
        name: &str,
        given: Option<T>,
        allowed: RangeInclusive<T>,
    ) -> Option<T> {
        let value = given?;
        if allowed.contains(&value) {
            return Some(value);
        }
        let (low, high) = allowed.into_inner();
        let bound = if value < low { &low } else { &high };
        let click = format!("{name}: out of range, bound {bound}");
        self.error_as(format!("{name} must lie between {low} and {high}, not {value}"), click);
        None
    }

    /// The names of the arguments that the element has asked for so far.
    pub fn asked(&self) -> &[&'static str] {
        &self.asked
    }

    /// All arguments by keyword `name`, for keywords that may be repeated.
    pub fn keyword_all<T: FromArg>(&mut self, name: &'static str) -> Vec<T> {
        self.asked.push(name);
        let given = self.given.iter_mut().filter(|g| !g.used);
        let named = given.filter_map(|g| {
            let (_, value) = g.keyword.as_ref().filter(|(keyword, _)| keyword == name)?;
            g.used = true;
            Some(value.clone())
        });
        named.collect::<Vec<_>>().iter().filter_map(|t| self.parse(name, t)).collect()
    }

    /// All arguments that nobody asked for yet, in order, as they stand: patterns, routes, instructions.
    /// Ask for keywords before.
    pub fn rest(&mut self) -> Vec<String> {
        let left = self.given.iter_mut().filter(|g| !g.used);
        left.map(|g| {
            g.used = true;
            g.text.clone()
        })
        .collect()
    }

    /// How many arguments there are in all.
    pub fn count(&self) -> usize {
        self.given.len()
    }

    /// Adds an error in the element's own words.
    pub fn error(&mut self, message: impl Into<String>) {
        self.errors.push(message.into());
    }

    /// Adds an error that says that argument `name` is not there.
    pub fn missing(&mut self, name: &str, expected: &str) {
        self.error_as(
            format!("missing argument {name}: {expected}"),
            format!("{name}: required argument missing"),
        );
    }

    /// Adds an error, and how Click says it.
    pub fn error_as(&mut self, message: String, click: String) {
        self.click.insert(self.errors.len(), click);
        self.errors.push(message);
    }

    /// Adds an error about the value of argument `name`, which Click calls a parse error.
    pub fn bad(&mut self, name: &str, message: impl Into<String>) {
        self.error_as(message.into(), format!("{name}: parse error"));
    }

    /// Adds a warning.
    pub fn warning(&mut self, message: impl Into<String>) {
        self.warnings.push(message.into());
    }

    /// Errors so far.
    pub fn errors(&self) -> &[String] {
        &self.errors
    }

    fn take(&mut self, name: &'static str, positional: bool) -> Option<String> {
        self.asked.push(name);
        let named = |g: &&mut Given| !g.used && g.keyword.as_ref().is_some_and(|(k, _)| k == name);
        // Of several, the last one counts.
        let mut by_keyword = None;
        for given in self.given.iter_mut().filter(named) {
            given.used = true;
            by_keyword = given.keyword.as_ref().map(|(_, value)| value.clone());
        }
        if by_keyword.is_some() {
            return by_keyword;
        }
        if !positional {
            return None;
        }
        let at = self.next;
        let (i, given) = self.given.iter_mut().enumerate().skip(at).find(|(_, g)| g.keyword.is_none())?;
        self.next = i + 1;
        given.used = true;
        // An empty argument keeps its place and takes the default.
        (!given.text.is_empty()).then(|| given.text.clone())
    }

    fn parse<T: FromArg>(&mut self, name: &'static str, text: &str) -> Option<T> {
        match T::from_arg(text, self.names) {
            Ok(value) => Some(value),
            Err(why) => {
                let click = match why.strip_prefix(BETWEEN).and_then(|bounds| bounds.split_once(" and ")) {
                    Some((low, _)) if text.trim().starts_with('-') => format!("out of range, bound {low}"),
                    Some((_, high)) => format!("out of range, bound {high}"),
                    None => "parse error".to_owned(),
                };
                let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
                self.error_as(
                    format!("argument {name} should be {}, not '{}'{why}", T::EXPECTED, T::shown(text)),
                    format!("{name}: {click}"),
                );
                None
            }
        }
    }

    /// Adds errors about arguments that nobody asked for; what was meant, perhaps.
    fn report_unused(&mut self) -> Vec<String> {
        let unused: Vec<Given> = self.given.iter().filter(|g| !g.used).cloned().collect();
        let (mut helps, mut positional) = (Vec::new(), Vec::new());
        for given in unused {
            match (&given.keyword, click_keyword(&given.text)) {
                (Some((keyword, _)), _) => {
                    self.error_as(
                        format!("unknown keyword {keyword}"),
                        format!("{keyword}: unknown argument"),
                    );
                    let near = lang::suggest(keyword, self.asked.iter().copied());
                    helps.extend(near.map(|near| format!("did you mean {near}?")));
                }
                (None, Some(word)) => self.error_as(
                    format!("too many arguments: '{}'", given.text),
                    format!("{word}: unknown argument"),
                ),
                (None, None) => positional.push(format!("'{}'", given.text)),
            }
        }
        if !positional.is_empty() {
            let message = format!("too many arguments: {}", positional.join(", "));
            self.error_as(message, "too many arguments".to_owned());
        }
        helps
    }

    /// Reports what was wrong, and arguments that nobody asked for.
    pub fn finish(mut self, element: &lang::Element, secrets: Option<Find>) -> Vec<Diagnostic> {
        let helps = self.report_unused();
        let mut help = helps.first().cloned();
        if help.is_none() && !self.asked.is_empty() {
            help = Some(format!("'junctor elements {}' prints its manual", element.class));
        }
        let span = element.config_span.unwrap_or(element.span);
        let what = format!("While configuring '{} :: {}'", element.name, element.class);
        let found = |found: Diagnostic, message: String| {
            let label = format!("in the arguments of this {}", element.class);
            found.at(span).label(label).during(element.span, what.clone(), message)
        };
        let named = |message: &str| format!("{}: {message}", element.name);
        let warnings = self
            .warnings
            .into_iter()
            .map(|m| found(Diagnostic::warning("W0103", named(&m)), m))
            .collect::<Vec<_>>();
        let mut click = self.click;
        let errors = self.errors.into_iter().enumerate().map(|(i, message)| {
            let message = hide::message(secrets, &message);
            let text = named(&message);
            let error = found(Diagnostic::error("E0301", text), click.remove(&i).unwrap_or(message));
            match &help {
                Some(help) => error.help(help.clone()),
                None => error,
            }
        });
        warnings.into_iter().chain(errors).collect()
    }
}

/// The word that Click takes for the keyword of an argument, if it does.
fn click_keyword(text: &str) -> Option<&str> {
    let part = |c: char| c.is_ascii_alphanumeric() || "_:.?!".contains(c);
    let end = text.find(|c| !part(c))?;
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let more = text[end..].starts_with(|c: char| c.is_ascii_whitespace());
    (begins && more).then(|| &text[..end])
}

/// The keyword that an argument begins with, and its value: `LIMIT 5`.
fn keyword(text: &str) -> Option<(String, String)> {
    let end = text.find(|c: char| c.is_ascii_whitespace())?;
    let (word, value) = text.split_at(end);
    let capital = word.starts_with(|c: char| c.is_ascii_uppercase());
    let rest = word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || "_-".contains(c));
    (capital && rest).then(|| (word.to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<R>(config: &str, read: impl FnOnce(&mut Args<'_>) -> R) -> (R, Vec<String>) {
        let names = Names::default();
        let mut args = Args::new(config, "e", (1, 1), &names);
        let read = read(&mut args);
        let unused = args.given.iter().filter(|g| !g.used).map(|g| format!("unused {}", g.text));
        let errors = args.errors.iter().cloned().chain(unused).collect();
        (read, errors)
    }

    #[test]
    fn positions_keywords_and_defaults() {
        let read = |a: &mut Args<'_>| {
            let x: u32 = a.required("X");
            let y: u32 = a.positional("Y", 9);
            let z: bool = a.keyword("Z", false);
            (x, y, z)
        };
        assert_eq!(check("1", read), ((1, 9, false), vec![]));
        assert_eq!(check("1, 2, Z true", read), ((1, 2, true), vec![]));
        assert_eq!(check("Y 3, X 4", read), ((4, 3, false), vec![]));
        assert_eq!(check("Z yes, 5, 6", read), ((5, 6, true), vec![]));
        assert_eq!(check("1, , Z 1", read), ((1, 9, true), vec![]));
        assert_eq!(check("1, 2, 3", read).1, ["unused 3"]);
        assert_eq!(check("1, W 3", read).1, ["unused W 3"]);
        assert_eq!(check("", read).1, ["missing argument X: a whole number"]);
        assert_eq!(check("-1", read).1, ["argument X should be a whole number, not '-1'"]);
    }

    #[test]
    fn the_rest_is_what_nobody_took() {
        let read = |a: &mut Args<'_>| (a.keyword("K", 0u8), a.rest());
        assert_eq!(check("12/0800, K 4, -", read), ((4, vec!["12/0800".into(), "-".into()]), vec![]));
    }
}
