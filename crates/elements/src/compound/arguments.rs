// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the arguments of the ready routers have in common, in either family: interfaces, routes and keywords.

use std::fmt::Display;
use std::str::FromStr;

use element::interfaces;
use lang::config::{split_words, unquote_string};
use lang::{Fault, Use};

/// The MTU of Ethernet, in bytes.
pub const MTU: u16 = 1500;

/// An argument that is being read, a word at a time; gathers what is wrong with it.
pub(super) struct Words<'f> {
    number: usize,
    words: std::vec::IntoIter<String>,
    faults: &'f mut Vec<Fault>,
}

impl Words<'_> {
    /// The words of argument `number`.
    pub(super) fn of<'f>(arg: &str, number: usize, faults: &'f mut Vec<Fault>) -> Words<'f> {
        let words: Vec<String> = split_words(arg).into_iter().map(unquote_string).collect();
        Words { number, words: words.into_iter(), faults }
    }

    /// The next word.
    pub(super) fn next(&mut self) -> Option<String> {
        self.words.next()
    }

    /// Reports that the argument is wrong.
    pub(super) fn fault(&mut self, what: impl Into<String>, help: impl Into<String>) {
        self.faults.push(Fault::new(Some(self.number), what, help));
    }

    /// Reads `text`, or reports that it is not what `form` says.
    pub(super) fn read<T: FromStr>(&mut self, what: &str, text: Option<String>, form: &str) -> Option<T> {
        let read = text.as_ref().and_then(|t| t.parse().ok());
        if read.is_none() {
            let message = match text {
                Some(text) => format!("'{text}' is not {what}"),
                None => format!("{what} is missing"),
            };
            self.fault(message, format!("write {form}"));
        }
        read
    }

    /// A boolean, the value of `keyword`.
    pub(super) fn boolean(&mut self, keyword: &str) -> Option<bool> {
        let text = self.next();
        let form = format!("{keyword} true");
        match text.as_deref() {
            Some("true" | "1" | "yes") => Some(true),
            Some("false" | "0" | "no") => Some(false),
            _ => self.read("a boolean", text, &form),
        }
    }

    /// A number of at least `least`, the value of `keyword`.
    pub(super) fn number<T>(&mut self, keyword: &str, least: T) -> Option<T>
    where
        T: FromStr + PartialOrd + Display,
    {
        let text = self.next();
        let number: Option<T> = text.as_ref().and_then(|t| t.parse().ok()).filter(|n| *n >= least);
        if number.is_none() {
            let given = text.unwrap_or_default();
            self.fault(
                format!("{keyword} '{given}' is not a number that fits"),
                format!("the least is {least}"),
            );
        }
        number
    }

    /// Nothing may follow.
    pub(super) fn end(mut self, form: &str) {
        if let Some(word) = self.next() {
            self.fault(format!("'{word}' stands too much here"), format!("write {form}"));
        }
    }
}

/// Whether a configuration can hold the name of an interface unquoted.
pub fn is_interface_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.:-@".contains(c))
}

/// The longest IP packet that an interface carries: as this machine has it, else as Ethernet does.
pub fn interface_mtu(name: &str) -> u16 {
    interfaces::mtu(name).map_or(MTU, |mtu| mtu.min(65535) as u16)
}

/// The keyword that an argument begins with, of those that there are.
pub(super) fn keyword<'k>(arg: &str, keywords: &[&'k str]) -> Option<&'k str> {
    let first = split_words(arg).first().copied().unwrap_or_default();
    keywords.iter().find(|k| **k == first).copied()
}

/// A first word in capitals is no interface but a keyword that there isn't; reports it.
pub(super) fn unknown_keyword(arg: &str, keywords: &[&str], class: &str) -> Option<(String, String)> {
    let first = *split_words(arg).first()?;
    let capitals = first.len() > 1 && first.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let near = lang::suggest(first, keywords.iter().copied());
    let help = match near {
        Some(near) => format!("did you mean {near}?"),
        None => format!("'junctor elements {class}' prints its manual"),
    };
    capitals.then(|| (format!("unknown keyword {first}"), help))
}

/// Reports ports that a router has not.
pub(super) fn ports(request: &Use<'_>, faults: &mut Vec<Fault>) {
    for (count, side) in request.ports.iter().zip(["input", "output"]) {
        if *count > 1 {
            let what = format!("{side} {} is connected, but there is one {side} only", count - 1);
            faults.push(Fault::new(None, what, format!("connect {side} 0, or none")));
        }
    }
}
