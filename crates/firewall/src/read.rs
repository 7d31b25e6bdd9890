// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the text of a rule file to a [`Policy`], with everything that is wrong in it.
//!
//! A file is read line by line, and a line word by word. A line that ends with a comma or a backslash goes on in the next one.

mod alg;
mod rule;
mod sources;
mod synproxy;

use std::collections::HashSet;
use std::path::Path;

use lang::{Diagnostic, SourceMap, Span, suggest};
use rulefile::{AddressRange, Faults, Line, Word, bounded, lines, names, time_ns};

use crate::macs::MacRange;
use crate::policy::{Action, Algs, Answer, Policy, PortRange, Set, SynProxy, Timeouts, ZONES_MAX, Zone};
use crate::set::{self, ENTRIES_MAX, Entry, Kind, Timed};

/// Rules at most.
const RULES_MAX: usize = 1 << 20;
/// Connections at most, and how many by default.
const CONNECTIONS_MAX: usize = 1 << 24;
const CONNECTIONS: usize = 1 << 18;

const STATEMENTS: [&str; 10] =
    ["zone", "set", "default", "timeout", "connections", "alg", "synproxy", "accept", "drop", "reject"];

/// A rule file that has been read.
#[derive(Debug)]
pub struct Reading {
    /// The policy, if there is no error.
    pub policy: Option<Policy>,
    /// What is wrong or strange.
    pub diagnostics: Vec<Diagnostic>,
    /// The texts, for messages.
    pub sources: SourceMap,
}

/// Reads the text of a rule file. Files that it names lie in `directory`.
pub fn read(name: &str, text: &str, directory: &Path) -> Reading {
    let mut sources = SourceMap::new();
    let file = sources.add(name, text);
    let mut reader = Reader { directory, faults: Faults::new("E0601"), names: HashSet::new() };
    let lines = lines(sources.text(file), file);
    let mut policy = Policy {
        zones: vec![Zone { name: "self".into(), links: Vec::new(), span: None }],
        sets: Vec::new(),
        rules: Vec::new(),
        default: Action::Drop,
        log_default: false,
        timeouts: Timeouts::default(),
        connections: CONNECTIONS,
        algs: Algs::default(),
        synproxy: SynProxy::default(),
    };
    reader.faults.open_quotes(&lines);
    // Names may be used above the line that declares them.
    let (declarations, others): (Vec<_>, Vec<_>) =
        lines.iter().partition(|line| matches!(line.words[0].text.as_str(), "zone" | "set"));
    declarations.into_iter().for_each(|line| reader.declaration(&mut policy, line));
    for line in others {
        reader.statement(&mut policy, line);
        if reader.faults.are_too_many() {
            break;
        }
    }
    let policy = (reader.faults.errors() == 0).then_some(policy);
    Reading { policy, diagnostics: reader.faults.into_diagnostics(), sources }
}

/// Reads a rule file.
///
/// # Errors
/// It cannot be read, or is too long.
pub fn read_file(path: &Path) -> Result<Reading, String> {
    let text = bounded(path)?;
    let directory = path.parent().unwrap_or(Path::new(""));
    Ok(read(&path.display().to_string(), &text, directory))
}

struct Reader<'a> {
    directory: &'a Path,
    faults: Faults,
    /// Names of rules so far.
    names: HashSet<String>,
}

impl Reader<'_> {
    fn wrong(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.faults.wrong(span, message, help);
    }

    fn unknown<'n>(&mut self, word: &Word, what: &str, names: impl Iterator<Item = &'n str> + Clone) {
        self.faults.unknown(word, what, names);
    }

    fn declaration(&mut self, policy: &mut Policy, line: &Line) {
        let Some(name) = line.words.get(1) else {
            let keyword = &line.words[0];
            let help = match keyword.text.as_str() {
                "zone" => "write `zone NAME LINK ...`",
                _ => "write `set NAME MEMBER ...` or `set NAME file PATH`",
            };
            return self.wrong(keyword.span, format!("'{}' needs a name", keyword.text), help);
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if name.is_quoted || !name.text.chars().all(is_name) || name.text.starts_with('-') {
            let help = "names are letters, digits, '_', '-' and '.'";
            return self.wrong(name.span, format!("'{}' is not a name", name.text), help);
        }
        match line.words[0].text.as_str() {
            "zone" => self.zone(policy, name, &line.words[2..]),
            _ => self.set(policy, name, &line.words[2..]),
        }
    }

    fn zone(&mut self, policy: &mut Policy, name: &Word, links: &[Word]) {
        if ["any", "self"].contains(&name.text.as_str()) {
            let help = "every file has `self`, the router's own zone, and `any`";
            return self.wrong(name.span, format!("'{}' cannot be declared", name.text), help);
        }
        if let Some(zone) = policy.zones.iter().find(|zone| zone.name == name.text) {
            let earlier = zone.span;
            self.wrong(
                name.span,
                format!("zone '{}' is declared twice", name.text),
                "list its links in one line",
            );
            self.faults.note(earlier, "first declared here");
            return;
        }
        if policy.zones.len() > ZONES_MAX {
            let help = format!("at most {ZONES_MAX} zones");
            return self.wrong(name.span, "too many zones", help);
        }
        let mut of_zone = Vec::new();
        for link in links.iter().flat_map(Word::parts) {
            let taken = policy.zones.iter().find(|zone| zone.links.contains(&link.text));
            if let Some(zone) = taken {
                let message = format!("link '{}' is in zone '{}', too", link.text, zone.name);
                self.wrong(link.span, message, "a link is in one zone");
            } else if !of_zone.contains(&link.text) {
                of_zone.push(link.text);
            }
        }
        if of_zone.is_empty() && links.is_empty() {
            self.wrong(name.span, format!("zone '{}' has no link", name.text), "write `zone NAME LINK ...`");
        }
        policy.zones.push(Zone { name: name.text.clone(), links: of_zone, span: Some(name.span) });
    }

    fn set(&mut self, policy: &mut Policy, name: &Word, members: &[Word]) {
        if policy.sets.iter().any(|set| set.name == name.text) {
            let message = format!("set '{}' is declared twice", name.text);
            return self.wrong(name.span, message, "list its members in one line");
        }
        // `file` and the words for kinds are no members.
        let mut words = members.iter().peekable();
        let named = words.peek().filter(|word| !word.is_quoted).and_then(|word| kind(&word.text));
        if named.is_some() {
            words.next();
        }
        let (mut kind, mut entries) = (named, Vec::new());
        while let Some(word) = words.next() {
            if word.text == "file" && !word.is_quoted {
                let Some(path) = words.next() else {
                    self.wrong(word.span, "'file' needs a path", "write `set NAME file PATH`");
                    continue;
                };
                self.file(path, &mut kind, &mut entries);
            } else {
                for part in word.parts() {
                    let member = Member { text: &part.text, time: None, line: 0 };
                    entries.extend(self.member(member, &mut kind, part.span));
                }
            }
            if entries.len() > ENTRIES_MAX {
                let message = format!("set '{}' has more than {ENTRIES_MAX} members", name.text);
                return self.wrong(name.span, message, "leave some out");
            }
        }
        let kind = kind.unwrap_or(Kind::Addresses);
        let (name, span) = (name.text.clone(), name.span);
        policy.sets.push(Set { name, kind, is_typed: named.is_some(), entries, span });
    }

    /// Reads the members of a set that a file lists.
    fn file(&mut self, path: &Word, kind: &mut Option<Kind>, entries: &mut Vec<Timed>) {
        let text = match bounded(&self.directory.join(&path.text)) {
            Ok(text) => text,
            Err(why) => {
                return self.wrong(path.span, why, "the path starts at the directory of the rule file");
            }
        };
        for member in members_of(&text) {
            let before = self.faults.errors();
            entries.extend(self.member(member, kind, path.span));
            if self.faults.are_too_many() || entries.len() > ENTRIES_MAX {
                return;
            }
            if self.faults.errors() > before {
                self.faults.note(None, format!("in line {} of '{}'", member.line, path.text));
            }
        }
    }

    /// Reads a member of a set. The first one says of which kind all are, unless the file does.
    fn member(
        &mut self,
        Member { text, time, .. }: Member<'_>,
        kind: &mut Option<Kind>,
        span: Span,
    ) -> Option<Timed> {
        let entry = match *kind.get_or_insert_with(|| kind_of(text)) {
            Kind::Ports => self.port_range(text, span).map(Entry::Ports),
            Kind::Addresses => self.address_range(text, span).map(Entry::Addresses),
            Kind::Macs => self.mac_range(text, span).map(Entry::Macs),
        };
        let time_ns = match time.map(|time| (time, time_ns(time))) {
            Some((time, None)) => {
                self.wrong(span, format!("'{time}' is not a time"), "write for example `10.0.0.1 for 1h`");
                None
            }
            time => time.and_then(|(_, ns)| ns),
        };
        Some((entry?, time_ns))
    }

    fn address_range(&mut self, text: &str, span: Span) -> Option<AddressRange> {
        AddressRange::parse(text)
            .map_err(|why| {
                let help = "write an address, ADDRESS/LENGTH, or FIRST-LAST, for example 10.0.0.0/8 or 2001:db8::/32";
                self.wrong(span, why, help);
            })
            .ok()
    }

    fn mac_range(&mut self, text: &str, span: Span) -> Option<MacRange> {
        MacRange::parse(text)
            .map_err(|why| {
                let help = "write an address, ADDRESS/LENGTH, or FIRST-LAST, for example 52:54:00:12:34:56 or 52:54:00:00:00:00/24";
                self.wrong(span, why, help);
            })
            .ok()
    }

    fn port_range(&mut self, text: &str, span: Span) -> Option<PortRange> {
        let range = set::ports(text);
        if range.is_none() {
            let help = match suggest(text, names::port_names()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => "write a number from 0 to 65535, LOW-HIGH, or a name such as https".into(),
            };
            self.wrong(span, format!("'{text}' is not a port"), help);
        }
        range
    }

    fn statement(&mut self, policy: &mut Policy, line: &Line) {
        let first = &line.words[0];
        match first.text.as_str() {
            "accept" | "drop" | "reject" if policy.rules.len() >= RULES_MAX => {
                self.wrong(first.span, format!("more than {RULES_MAX} rules"), "put addresses into sets");
            }
            "accept" | "drop" | "reject" => {
                if let Some(rule) = rule::read(self, policy, line) {
                    policy.rules.push(rule);
                }
            }
            "default" => self.default(policy, line),
            "timeout" => self.timeout(policy, line),
            "connections" => self.connections(policy, line),
            "alg" => self.alg(policy, line),
            "synproxy" => self.synproxy(policy, line),
            _ => self.unknown(first, "statement", STATEMENTS.into_iter()),
        }
    }

    /// `accept`, `drop`, `reject` or `reject with ANSWER`, and how many words that is.
    fn action(&mut self, words: &[Word]) -> Option<(Action, usize)> {
        let with = words.get(1).is_some_and(|word| word.text == "with");
        match words[0].text.as_str() {
            "accept" => Some((Action::Accept, 1)),
            "drop" => Some((Action::Drop, 1)),
            "reject" if with => {
                let names = Answer::ALL.into_iter().map(|(name, _)| name);
                let Some(word) = words.get(2) else {
                    let help = format!("one of {}", names.collect::<Vec<_>>().join(", "));
                    self.wrong(words[1].span, "'with' needs an answer", help);
                    return None;
                };
                let found = Answer::ALL.into_iter().find(|(name, _)| *name == word.text);
                if found.is_none() {
                    self.unknown(word, "answer", names);
                }
                found.map(|(_, answer)| (Action::Reject(answer), 3))
            }
            "reject" => Some((Action::Reject(Answer::Usual), 1)),
            _ => {
                self.unknown(&words[0], "action", ["accept", "drop", "reject"].into_iter());
                None
            }
        }
    }

    fn default(&mut self, policy: &mut Policy, line: &Line) {
        if line.words.len() < 2 {
            return self.wrong(line.words[0].span, "'default' needs an action", "accept, drop or reject");
        }
        let Some((action, count)) = self.action(&line.words[1..]) else { return };
        policy.default = action;
        match line.words.get(1 + count) {
            None => {}
            Some(word) if word.text == "log" && line.words.len() == 2 + count => policy.log_default = true,
            Some(word) => {
                self.wrong(word.span, format!("unexpected '{}'", word.text), "only `log` may follow")
            }
        }
    }

    fn timeout(&mut self, policy: &mut Policy, line: &Line) {
        let help = "write `timeout NAME TIME`, for example `timeout udp 2m`";
        let [_, name, time] = &line.words[..] else {
            return self.wrong(line.words[0].span, "'timeout' needs a name and a time", help);
        };
        let Some(place) = policy.timeouts.named(&name.text) else {
            return self.unknown(name, "timeout", Timeouts::NAMES.into_iter());
        };
        match time_ns(&time.text) {
            Some(time) => *place = time,
            None => {
                self.wrong(time.span, format!("'{}' is not a time", time.text), "write 30s, 5m, 2h or 500ms")
            }
        }
    }

    fn connections(&mut self, policy: &mut Policy, line: &Line) {
        let help = format!("write `connections NUMBER`, from 1 to {CONNECTIONS_MAX}");
        match line.words.get(1).map(|word| (word, word.text.parse::<usize>())) {
            Some((_, Ok(number))) if (1..=CONNECTIONS_MAX).contains(&number) && line.words.len() == 2 => {
                policy.connections = number;
            }
            Some((word, _)) => {
                self.wrong(word.span, format!("'{}' is not a number of connections", word.text), help)
            }
            None => self.wrong(line.words[0].span, "'connections' needs a number", help),
        }
    }
}

/// The kind of a set that has this member first.
fn kind_of(text: &str) -> Kind {
    if set::ports(text).is_some() {
        Kind::Ports
    } else if MacRange::parse(text).is_ok() {
        Kind::Macs
    } else {
        Kind::Addresses
    }
}

/// The kind of a word.
fn kind(word: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|(name, _)| *name == word).map(|(_, kind)| kind)
}

/// A member of a set as a file lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its text.
    pub text: &'a str,
    /// How long it is one, as `1h`; for ever without it.
    pub time: Option<&'a str>,
    /// The line, from 1.
    pub line: usize,
}

/// The members that a file lists: one in a line, with `#` or `;` before remarks. Behind a member may stand `for TIME`; other words do not count.
pub fn members_of(text: &str) -> impl Iterator<Item = Member<'_>> {
    text.lines().enumerate().filter_map(|(line, words)| {
        let mut words = words.split(['#', ';']).next()?.split_ascii_whitespace();
        let text = words.next()?;
        let time = words.next().filter(|word| *word == "for").and_then(|_| words.next());
        Some(Member { text, time, line: line + 1 })
    })
}

/// The members that a file lists for a set of a kind, each for ever or for a time in nanoseconds.
///
/// # Errors
/// The file cannot be read, or has too many members, or one that is none: the first one is named.
pub fn members(path: &Path, kind: Kind) -> Result<Vec<Timed>, String> {
    let text = bounded(path)?;
    let mut all = Vec::new();
    for Member { text, time, line } in members_of(&text) {
        let wrong = |why: String| format!("{}:{line}: {why}", path.display());
        let entry = Entry::parse(kind, text).map_err(wrong)?;
        let time = match time.map(|time| (time, time_ns(time))) {
            Some((time, None)) => return Err(wrong(format!("'{time}' is not a time: write 30s, 5m or 2h"))),
            time => time.and_then(|(_, ns)| ns),
        };
        if all.len() == ENTRIES_MAX {
            return Err(wrong(format!("a set has {ENTRIES_MAX} members at most")));
        }
        all.push((entry, time));
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
