// SPDX-License-Identifier: MIT OR Apache-2.0
//! Typed access to the tables of a TOML file, with all errors gathered. What is not asked for is an unknown key.

use std::time::Duration;

use lang::{Diagnostic, Span};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where findings go.
pub(super) struct Findings {
    pub(super) file: u32,
    pub(super) list: Vec<Diagnostic>,
}

impl Findings {
    pub(super) fn span<T>(&self, of: &Spanned<T>) -> Span {
        self.range(of.span())
    }

    pub(super) fn range(&self, range: std::ops::Range<usize>) -> Span {
        Span { file: self.file, start: range.start as u32, end: range.end as u32 }
    }

    /// A word that is none of those that `key` expects.
    pub(super) fn unknown_word<'w>(
        &mut self,
        (text, at): Placed<&str>,
        key: &str,
        words: impl Iterator<Item = &'w str> + Clone,
    ) {
        let all: Vec<&str> = words.clone().collect();
        let wrong = format!("`{key}` expects one of {}, not \"{text}\"", all.join(", "));
        let near = lang::suggest(text, words);
        self.list.push(Diagnostic::error("E0703", wrong).at(at).did_you_mean(near));
    }

    pub(super) fn wrong_value(&mut self, at: Span, message: impl Into<String>) {
        self.list.push(Diagnostic::error("E0703", message).at(at));
    }
}

/// A table whose keys are taken one by one.
pub(super) struct Fields<'t, 'i> {
    /// What it describes, for messages: ``plane `user` ``.
    what: String,
    table: &'t DeTable<'i>,
    known: Vec<&'static str>,
    /// The table itself, for what is missing from it.
    pub(super) at: Span,
}

/// A value and its place.
pub(super) type Placed<T> = (T, Span);

impl<'t, 'i> Fields<'t, 'i> {
    pub(super) fn new(what: String, table: &'t DeTable<'i>, at: Span) -> Fields<'t, 'i> {
        Fields { what, table, known: Vec::new(), at }
    }

    fn take(&mut self, key: &'static str) -> Option<&'t Spanned<DeValue<'i>>> {
        self.known.push(key);
        self.table.get(key)
    }

    /// Reports each key that was not asked for.
    pub(super) fn end(self, found: &mut Findings) {
        for key in self.table.keys().filter(|key| !self.known.contains(&key.get_ref().as_ref())) {
            let name = key.get_ref();
            let near = lang::suggest(name, self.known.iter().copied());
            let unknown = Diagnostic::error("E0702", format!("{} has no setting `{name}`", self.what));
            let unknown = unknown.at(found.span(key));
            found.list.push(match near {
                Some(_) => unknown.did_you_mean(near),
                None => unknown.help(format!("settings are: {}", self.known.join(", "))),
            });
        }
    }

    /// Reports that a setting is missing.
    pub(super) fn missing(&self, found: &mut Findings, what: &str, help: &str) {
        let missing = Diagnostic::error("E0704", format!("{} has no {what}", self.what));
        found.list.push(missing.at(self.at).help(help));
    }

    /// A value of one kind.
    fn value<T>(
        &mut self,
        found: &mut Findings,
        key: &'static str,
        expected: &str,
        read: impl FnOnce(&'t DeValue<'i>) -> Option<T>,
    ) -> Option<Placed<T>> {
        let value = self.take(key)?;
        let at = found.span(value);
        let taken = read(value.get_ref());
        if taken.is_none() {
            let given = value.get_ref().as_str();
            let given =
                given.map_or_else(|| value.get_ref().type_str().to_owned(), |text| format!("\"{text}\""));
            found.wrong_value(at, format!("`{key}` expects {expected}, not {given}"));
        }
        taken.map(|value| (value, at))
    }

    pub(super) fn text(&mut self, found: &mut Findings, key: &'static str) -> Option<Placed<&'t str>> {
        self.value(found, key, "a string", DeValue::as_str)
    }

    pub(super) fn flag(&mut self, found: &mut Findings, key: &'static str) -> Option<bool> {
        self.value(found, key, "true or false", DeValue::as_bool).map(|(flag, _)| flag)
    }

    /// A whole number in a range.
    pub(super) fn number(
        &mut self,
        found: &mut Findings,
        key: &'static str,
        range: std::ops::RangeInclusive<i32>,
    ) -> Option<i32> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let read = |value: &DeValue<'_>| {
            let integer = value.as_integer()?;
            let number = i32::from_str_radix(integer.as_str(), integer.radix()).ok()?;
            range.contains(&number).then_some(number)
        };
        self.value(found, key, &expected, read).map(|(number, _)| number)
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(
        &mut self,
        found: &mut Findings,
        key: &'static str,
        words: &'static [(&'static str, T)],
    ) -> Option<Placed<T>> {
        let (text, at) = self.text(found, key)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some((*value, at));
        }
        found.unknown_word((text, at), key, words.iter().map(|(word, _)| *word));
        None
    }

    /// A text that `read` understands.
    pub(super) fn parsed<T>(
        &mut self,
        found: &mut Findings,
        key: &'static str,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<Placed<T>> {
        self.value(found, key, expected, |value| read(value.as_str()?))
    }

    /// A time with a unit.
    pub(super) fn time(&mut self, found: &mut Findings, key: &'static str) -> Option<Placed<Duration>> {
        let longest = Duration::from_secs(24 * 3600);
        let read = |text: &str| humantime::parse_duration(text).ok().filter(|time| *time <= longest);
        self.parsed(found, key, "a time of at most a day with its unit, such as \"500ms\" or \"10s\"", read)
    }

    /// A list of strings.
    pub(super) fn texts(&mut self, found: &mut Findings, key: &'static str) -> Vec<Placed<String>> {
        let Some((list, _)) = self.value(found, key, "a list of strings", DeValue::as_array) else {
            return Vec::new();
        };
        let mut texts = Vec::new();
        for value in list {
            match value.get_ref().as_str() {
                Some(text) => texts.push((text.to_owned(), found.span(value))),
                None => {
                    let at = found.span(value);
                    let given = value.get_ref().type_str();
                    found.wrong_value(at, format!("`{key}` expects strings, not {given}"));
                }
            }
        }
        texts
    }

    /// A command: a list of strings, or one string that the shell takes apart.
    pub(super) fn command(&mut self, found: &mut Findings, key: &'static str) -> Option<Placed<Vec<String>>> {
        let value = self.table.get(key)?;
        if value.get_ref().as_array().is_some() {
            let at = found.span(value);
            let words: Vec<String> = self.texts(found, key).into_iter().map(|(text, _)| text).collect();
            if words.first().is_none_or(String::is_empty) {
                found.wrong_value(at, format!("`{key}` names no program"));
                return None;
            }
            return Some((words, at));
        }
        let shell = |text: &str| {
            let empty = text.trim().is_empty();
            (!empty).then(|| vec!["/bin/sh".to_owned(), "-c".to_owned(), format!("exec {text}")])
        };
        self.parsed(found, key, "a list of strings, or a string for the shell", shell)
    }

    /// A table of strings; numbers and flags are taken as they are written.
    pub(super) fn pairs(&mut self, found: &mut Findings, key: &'static str) -> Vec<(String, String)> {
        let expected = "a table such as { NAME = \"value\" }";
        let Some((table, _)) = self.value(found, key, expected, DeValue::as_table) else {
            return Vec::new();
        };
        let mut pairs = Vec::new();
        for (name, value) in table.iter() {
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
                DeValue::Float(number) => number.as_str().to_owned(),
                DeValue::Boolean(flag) => flag.to_string(),
                other => {
                    let (at, given) = (found.span(value), other.type_str());
                    found
                        .wrong_value(at, format!("`{key}.{}` expects a string, not {given}", name.get_ref()));
                    continue;
                }
            };
            pairs.push((name.get_ref().to_string(), text));
        }
        pairs
    }

    /// A table of tables, by name, in the file's order.
    #[allow(clippy::type_complexity)]
    pub(super) fn tables(
        &mut self,
        found: &mut Findings,
        key: &'static str,
    ) -> Vec<(Placed<String>, &'t DeTable<'i>)> {
        let Some((tables, _)) = self.value(found, key, "tables such as [planes.user]", DeValue::as_table)
        else {
            return Vec::new();
        };
        let mut list = Vec::new();
        for (name, value) in tables.iter() {
            let at = found.span(name);
            match value.get_ref().as_table() {
                Some(table) => list.push(((name.get_ref().to_string(), at), table)),
                None => found.wrong_value(at, format!("`{key}.{}` expects a table", name.get_ref())),
            }
        }
        list.sort_by_key(|((_, at), _)| at.start);
        list
    }
}
