// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the text of a file to a [`Policy`], with everything that is wrong in it.

mod statements;
mod together;

use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

use lang::{Diagnostic, SourceMap, Span};
use rulefile::{Faults, Line, Rest, Word, bounded, lines, time_ns};

use crate::policy::{Policy, Service, Timeouts};

/// Sessions at most, and how many by default.
const SESSIONS_MAX: u64 = 1 << 24;
const SESSIONS: usize = 1 << 18;
/// Client addresses that keep their server, by default.
const CLIENTS: usize = 1 << 16;

const STATEMENTS: [&str; 9] =
    ["service", "server", "check", "persist", "own", "timeout", "sessions", "clients", "seed"];

/// A file that has been read.
#[derive(Debug)]
pub struct Reading {
    /// The policy, if there is no error.
    pub policy: Option<Policy>,
    /// What is wrong, and what is strange.
    pub diagnostics: Vec<Diagnostic>,
    /// The text, for messages.
    pub sources: SourceMap,
}

/// Reads the text of a file.
pub fn read(name: &str, text: &str) -> Reading {
    let mut sources = SourceMap::new();
    let file = sources.add(name, text);
    let lines = lines(sources.text(file), file);
    let policy = Policy {
        services: Vec::new(),
        own: [None; 2],
        timeouts: Timeouts::default(),
        sessions: SESSIONS,
        clients: CLIENTS,
        seed: 0,
    };
    let mut reader = Reader { faults: Faults::new("E0801"), policy, spans: Vec::new() };
    reader.faults.open_quotes(&lines);
    // Servers and checks name services, which may stand anywhere.
    let (services, others): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.words[0].text == "service");
    for line in services.into_iter().chain(others) {
        if reader.faults.are_too_many() {
            break;
        }
        // Errors have been noted.
        let _ = reader.statement(line);
    }
    reader.check_together();
    let is_sound = reader.faults.errors() == 0;
    Reading {
        policy: is_sound.then_some(reader.policy),
        diagnostics: reader.faults.into_diagnostics(),
        sources,
    }
}

/// Reads a file.
///
/// # Errors
/// It cannot be read, or is too long.
pub fn read_file(path: &Path) -> Result<Reading, String> {
    Ok(read(&path.display().to_string(), &bounded(path)?))
}

struct Reader {
    faults: Faults,
    policy: Policy,
    /// Where each service stands.
    spans: Vec<Span>,
}

/// The words behind the first one of a line, and how the statement is written.
struct Words<'a> {
    rest: Rest<'a>,
    usage: &'static str,
}

impl<'a> Words<'a> {
    fn of(line: &'a Line, usage: &'static str) -> Words<'a> {
        Words { rest: Rest::of(line), usage }
    }

    fn next(&mut self) -> Option<&'a Word> {
        self.rest.next()
    }
}

impl Reader {
    /// Notes an error; nothing comes of the statement.
    fn wrong<T>(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) -> Option<T> {
        self.faults.wrong(span, message, help);
        None
    }

    fn unknown<T>(&mut self, word: &Word, what: &str, known: &[&str]) -> Option<T> {
        self.faults.unknown(word, what, known.iter().copied());
        None
    }

    fn statement(&mut self, line: &Line) -> Option<()> {
        let first = &line.words[0];
        match first.text.as_str() {
            "service" => self.service(line),
            "server" => self.server(line),
            "check" => self.check(line),
            "persist" => self.persist(line),
            "own" => self.own(line),
            "timeout" => self.timeout(line),
            "sessions" => self.sessions(line),
            "clients" => self.clients(line),
            "seed" => self.seed(line),
            _ => self.unknown(first, "statement", &STATEMENTS),
        }
    }

    /// The next word, which must be there.
    fn word<'a>(&mut self, words: &mut Words<'a>, what: &str) -> Option<&'a Word> {
        let (last, usage) = (words.rest.place(), words.usage);
        words.next().or_else(|| self.wrong(last, format!("{what} is missing"), format!("write `{usage}`")))
    }

    /// Nothing may follow.
    fn end(&mut self, words: &mut Words<'_>) -> Option<()> {
        let usage = words.usage;
        match words.next() {
            None => Some(()),
            Some(word) => {
                self.wrong(word.span, format!("unexpected '{}'", word.text), format!("write `{usage}`"))
            }
        }
    }

    /// What a word says, or an error with what it should be.
    fn value<T: FromStr>(&mut self, word: &Word, what: &str, help: &str) -> Option<T> {
        let found = word.text.parse().ok();
        found.or_else(|| self.wrong(word.span, format!("'{}' is not {what}", word.text), help))
    }

    fn address(&mut self, word: &Word) -> Option<IpAddr> {
        let found: IpAddr =
            self.value(word, "an IP address", "write one address, for example 192.0.2.80 or 2001:db8::80")?;
        let is_host = !found.is_unspecified() && !found.is_multicast();
        if !is_host || found != found.to_canonical() {
            let message = format!("'{}' is not the address of a host", word.text);
            return self.wrong(word.span, message, "write an address of one host, IPv4 or IPv6");
        }
        Some(found)
    }

    fn number(&mut self, word: &Word, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
        let found = word.text.parse().ok().filter(|number| range.contains(number));
        found.or_else(|| {
            let help = format!("write a number from {} to {}", range.start(), range.end());
            self.wrong(word.span, format!("'{}' is not such a number", word.text), help)
        })
    }

    fn time(&mut self, word: &Word) -> Option<u64> {
        time_ns(&word.text).or_else(|| {
            let help = "write a number with ms, s, m, h or d, for example 2s";
            self.wrong(word.span, format!("'{}' is not a time", word.text), help)
        })
    }

    /// The service that a statement is about.
    fn named(&mut self, words: &mut Words<'_>) -> Option<usize> {
        let word = self.word(words, "the name of the service")?;
        let found = self.policy.services.iter().position(|service| service.name == word.text);
        if found.is_none() {
            let names: Vec<String> = self.policy.services.iter().map(|one| one.name.clone()).collect();
            self.faults.unknown(word, "service", names.iter().map(String::as_str));
        }
        found
    }

    fn named_service(&mut self, at: usize) -> &mut Service {
        &mut self.policy.services[at]
    }
}

#[cfg(test)]
mod tests;
