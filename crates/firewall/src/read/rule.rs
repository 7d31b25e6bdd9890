// SPDX-License-Identifier: MIT OR Apache-2.0
//! One rule: `ACTION MATCHES OPTIONS`, matches and options in any order.

use lang::Span;

use rulefile::{Line, Word, names};

use super::{Reader, sources, synproxy};
use crate::macs::Macs;
use crate::policy::{
    Family, ICMP, ICMP6, LIST_MAX, Limit, Matches, Policy, Ports, Rule, SELF, Side, TCP, UDP,
};
use crate::set::Kind;

const WORDS: [&str; 28] = [
    "from",
    "to",
    "ip",
    "ip6",
    "tcp",
    "udp",
    "sctp",
    "dccp",
    "icmp",
    "icmp6",
    "ping",
    "proto",
    "src",
    "dst",
    "mac",
    "port",
    "sport",
    "type",
    "log",
    "limit",
    "max-per-source",
    "max-per-network",
    "new-per-source",
    "new-per-network",
    "stateless",
    "synproxy",
    "name",
    "comment",
];
/// Protocols that are words of their own.
const PROTOCOLS: [&str; 6] = ["tcp", "udp", "sctp", "dccp", "icmp", "icmp6"];
/// Words that a rule has once.
const ONCE: [&str; 11] =
    ["src", "dst", "mac", "port", "dport", "sport", "type", "log", "limit", "name", "comment"];
/// Queries of either family.
const PING: &str = "ping";
/// The protocols of ports without a protocol.
const USUAL: [u8; 2] = [TCP, UDP];

/// The words of a rule that have not been read.
pub(super) struct Rest<'a> {
    words: &'a [Word],
    at: usize,
}

impl Rest<'_> {
    pub(super) fn next(&mut self) -> Option<Word> {
        self.at += 1;
        self.words.get(self.at - 1).cloned()
    }

    fn peek(&self) -> Option<&Word> {
        self.words.get(self.at)
    }
}

/// Reads a rule; `None` if something is wrong.
pub(super) fn read(reader: &mut Reader<'_>, policy: &Policy, line: &Line) -> Option<Rule> {
    let before = reader.faults.errors();
    let (action, count) = reader.action(&line.words)?;
    let mut rule = Rule {
        action,
        matches: Matches::default(),
        log: None,
        name: None,
        limit: None,
        per_source: None,
        per_network: None,
        source_rate: None,
        network_rate: None,
        is_stateless: false,
        is_proxied: false,
        comment: None,
        text: line.text(),
        line: line.number,
        span: line.span,
    };
    let mut rest = Rest { words: &line.words, at: count };
    // Where the protocol is named, for messages, and types of ICMP, which need it.
    let mut types = None;
    let mut ping = false;
    let mut given: Vec<String> = Vec::new();
    while let Some(word) = rest.next() {
        let matches = &mut rule.matches;
        let is_of_sources = sources::WORDS.contains(&word.text.as_str());
        if (ONCE.contains(&word.text.as_str()) || is_of_sources) && !word.is_quoted {
            let keyword = if word.text == "dport" { "port" } else { &word.text };
            if given.iter().any(|other| other == keyword) {
                let help = "write it once; several values stand with commas between them";
                reader.wrong(word.span, format!("'{}' is given twice", word.text), help);
            }
            given.push(keyword.to_owned());
        }
        match word.text.as_str() {
            "from" => zones(reader, policy, &word, &mut rest, &mut matches.from),
            "to" => zones(reader, policy, &word, &mut rest, &mut matches.to),
            "ip" => family(reader, &word, matches, Family::Four),
            "ip6" => family(reader, &word, matches, Family::Six),
            "proto" => {
                for part in values(reader, &word, &mut rest) {
                    match names::protocol(&part.text) {
                        Some(protocol) => matches.protocols.push(protocol),
                        None => {
                            reader.unknown(&part, "protocol", names::PROTOCOLS.iter().map(|(name, _)| *name))
                        }
                    }
                }
            }
            // `tcp,udp` is a list, too.
            text if !word.is_quoted
                && text.split(',').all(|part| part == PING || PROTOCOLS.contains(&part)) =>
            {
                ping |= text.split(',').any(|part| part == PING);
                matches.protocols.extend(text.split(',').filter_map(names::protocol));
            }
            "src" => matches.source = side(reader, policy, &word, &mut rest),
            "dst" => matches.destination = side(reader, policy, &word, &mut rest),
            "mac" => matches.macs = macs(reader, policy, &word, &mut rest),
            "port" | "dport" => matches.destination_ports = ports(reader, policy, &word, &mut rest),
            "sport" => matches.source_ports = ports(reader, policy, &word, &mut rest),
            "type" => types = Some((word.span, values(reader, &word, &mut rest))),
            "log" => {
                rule.log = Some(match rest.peek().filter(|word| word.is_quoted).cloned() {
                    Some(word) => {
                        rest.at += 1;
                        word.text
                    }
                    None => String::new(),
                });
            }
            "limit" => rule.limit = limit(reader, &word, &mut rest),
            _ if is_of_sources => sources::read(reader, &mut rule, &word, &mut rest),
            "stateless" => rule.is_stateless = true,
            "synproxy" => rule.is_proxied = true,
            "name" | "comment" => {
                let Some(text) = rest.next() else {
                    reader.wrong(word.span, format!("'{}' needs a text", word.text), "write it in quotes");
                    continue;
                };
                if word.text == "comment" {
                    rule.comment = Some(text.text);
                } else if !reader.names.insert(text.text.clone()) {
                    let message = format!("two rules have the name '{}'", text.text);
                    reader.wrong(text.span, message, "names keep counters apart: give each rule its own");
                } else {
                    rule.name = Some(text.text);
                }
            }
            _ => reader.unknown(&word, "word", WORDS.into_iter()),
        }
    }
    icmp(reader, &mut rule.matches, types, ping.then_some(line.span));
    if reader.faults.errors() == before {
        check(reader, &mut rule, line);
        sources::check(reader, &rule, line.span);
        synproxy::check(reader, &rule, line.span);
    }
    (reader.faults.errors() == before).then_some(rule)
}

/// The values after a keyword.
fn values(reader: &mut Reader<'_>, keyword: &Word, rest: &mut Rest<'_>) -> Vec<Word> {
    let parts: Vec<Word> = rest.next().iter().flat_map(Word::parts).collect();
    if parts.is_empty() {
        reader.wrong(keyword.span, format!("'{}' needs a value", keyword.text), "separate several by commas");
    } else if parts.len() > LIST_MAX {
        let message = format!("'{}' has more than {LIST_MAX} values", keyword.text);
        reader.wrong(keyword.span, message, "put them into a set");
        return Vec::new();
    }
    parts
}

fn zones(reader: &mut Reader<'_>, policy: &Policy, keyword: &Word, rest: &mut Rest<'_>, zones: &mut Vec<u8>) {
    for part in values(reader, keyword, rest) {
        if part.text == "any" {
            zones.clear();
            return;
        }
        match policy.zones.iter().position(|zone| zone.name == part.text) {
            Some(zone) if zones.contains(&(zone as u8)) => {}
            Some(zone) => zones.push(zone as u8),
            None => {
                let names = policy.zones.iter().map(|zone| zone.name.as_str());
                reader.unknown(&part, "zone", names.chain(["any"]));
            }
        }
    }
}

fn family(reader: &mut Reader<'_>, word: &Word, matches: &mut Matches, family: Family) {
    if matches.family.is_some_and(|other| other != family) {
        let help = "leave both out: rules are for both families";
        reader.wrong(word.span, "no packet has both families", help);
    }
    matches.family = Some(family);
}

fn side(reader: &mut Reader<'_>, policy: &Policy, keyword: &Word, rest: &mut Rest<'_>) -> Side {
    let mut side = Side { is_given: true, ..Side::default() };
    let mut ranges = Vec::new();
    for (n, mut part) in values(reader, keyword, rest).into_iter().enumerate() {
        if n == 0 && part.text.starts_with('!') {
            side.negated = true;
            part.text.remove(0);
        }
        match part.text.strip_prefix('@') {
            None => ranges.extend(reader.address_range(&part.text, part.span)),
            Some(name) => side.sets.extend(set(reader, policy, &part, (name, Kind::Addresses))),
        }
    }
    side.addresses = rulefile::Addresses::new(ranges);
    side
}

/// The number of a set of a kind.
fn set(reader: &mut Reader<'_>, policy: &Policy, part: &Word, (name, kind): (&str, Kind)) -> Option<usize> {
    let Some(number) = policy.sets.iter().position(|set| set.name == name) else {
        let part = part.with_text(name);
        reader.unknown(&part, "set", policy.sets.iter().map(|set| set.name.as_str()));
        return None;
    };
    let other = policy.sets[number].kind;
    if other != kind {
        let help = format!("use it after {}", other.keywords());
        reader.wrong(part.span, format!("set '{name}' has {}", other.words()), help);
        return None;
    }
    Some(number)
}

fn macs(reader: &mut Reader<'_>, policy: &Policy, keyword: &Word, rest: &mut Rest<'_>) -> Macs {
    let (mut negated, mut ranges, mut sets) = (false, Vec::new(), Vec::new());
    for (n, mut part) in values(reader, keyword, rest).into_iter().enumerate() {
        if n == 0 && part.text.starts_with('!') {
            negated = true;
            part.text.remove(0);
        }
        match part.text.strip_prefix('@') {
            None => ranges.extend(reader.mac_range(&part.text, part.span)),
            Some(name) => sets.extend(set(reader, policy, &part, (name, Kind::Macs))),
        }
    }
    Macs::new(negated, ranges, sets)
}

fn ports(reader: &mut Reader<'_>, policy: &Policy, keyword: &Word, rest: &mut Rest<'_>) -> Ports {
    let mut ports = Ports { is_given: true, ..Ports::default() };
    for part in values(reader, keyword, rest) {
        match part.text.strip_prefix('@') {
            None => ports.ranges.extend(reader.port_range(&part.text, part.span)),
            Some(name) => ports.sets.extend(set(reader, policy, &part, (name, Kind::Ports))),
        }
    }
    ports
}

/// `N/s`, `N/m`, `N/h`, and `burst N`.
pub(super) fn limit(reader: &mut Reader<'_>, keyword: &Word, rest: &mut Rest<'_>) -> Option<Limit> {
    let name = keyword.text.as_str();
    let help = format!("write for example `{name} 10/s` or `{name} 100/m burst 20`");
    let Some(word) = rest.next() else {
        reader.wrong(keyword.span, format!("'{name}' needs a rate"), help);
        return None;
    };
    let rate = word.text.split_once('/').and_then(|(number, unit)| {
        let seconds = match unit {
            "s" | "sec" | "second" => 1.0,
            "m" | "min" | "minute" => 60.0,
            "h" | "hour" => 3600.0,
            "d" | "day" => 86_400.0,
            _ => return None,
        };
        number.parse::<u32>().ok().filter(|n| *n > 0).map(|n| (n, f64::from(n) / seconds))
    });
    let Some((number, rate)) = rate else {
        reader.wrong(word.span, format!("'{}' is not a rate", word.text), help);
        return None;
    };
    // As much as in a second, at least 5, unless it is said.
    let mut burst = (rate as u32).max(5).min(number.max(5));
    if rest.peek().is_some_and(|word| word.text == "burst") {
        rest.at += 1;
        let word = rest.next();
        match word.as_ref().and_then(|word| word.text.parse::<u32>().ok()).filter(|n| *n > 0) {
            Some(number) => burst = number,
            None => reader.wrong(word.map_or(keyword.span, |w| w.span), "'burst' needs a number", help),
        }
    }
    Some(Limit { rate, burst })
}

/// Types of ICMP, by the names of the family.
fn icmp(
    reader: &mut Reader<'_>,
    matches: &mut Matches,
    types: Option<(Span, Vec<Word>)>,
    ping: Option<Span>,
) {
    if let Some(span) = ping {
        if matches.protocols.iter().any(|protocol| [ICMP, ICMP6].contains(protocol)) || types.is_some() {
            reader.wrong(span, "'ping' is a type of ICMP already", "write `ping`, or `icmp type ...`");
        }
        matches.protocols.extend([ICMP, ICMP6]);
        matches.icmp = vec![(8, None), (128, None)];
    }
    let Some((span, types)) = types else { return };
    let six = match matches.protocols[..] {
        [ICMP] => false,
        [ICMP6] => true,
        _ => {
            let help = "write `icmp type ...` or `icmp6 type ...`";
            return reader.wrong(span, "'type' needs one of the protocols icmp and icmp6", help);
        }
    };
    for word in types {
        let (kind, code) =
            word.text.split_once('/').map_or((&*word.text, None), |(kind, code)| (kind, Some(code)));
        let code = match code.map(str::parse::<u8>) {
            Some(Err(_)) => {
                reader.wrong(
                    word.span,
                    format!("'{}' has no code from 0 to 255", word.text),
                    "write TYPE/CODE",
                );
                continue;
            }
            code => code.and_then(Result::ok),
        };
        match names::icmp_type(six, kind) {
            Some(kind) => matches.icmp.push((kind, code)),
            None => {
                let names = if six { names::ICMP6_TYPES } else { names::ICMP_TYPES };
                reader.unknown(&word, "type", names.iter().map(|(name, _)| *name));
            }
        }
    }
}

/// What does not go together, and what follows from what is there.
fn check(reader: &mut Reader<'_>, rule: &mut Rule, line: &Line) {
    let matches = &mut rule.matches;
    let has_ports = matches.source_ports.is_given || matches.destination_ports.is_given;
    if has_ports && matches.protocols.is_empty() {
        matches.protocols = USUAL.to_vec();
    }
    if has_ports && !matches.protocols.iter().all(|protocol| wire::Protocol(*protocol).has_ports()) {
        let help = "tcp, udp, sctp and dccp have ports";
        reader.wrong(line.span, "the protocol has no ports", help);
    }
    if matches.from == [SELF] && matches.to == [SELF] {
        reader.wrong(line.span, "no packet goes from the router to itself", "name another zone");
    }
    if matches.from == [SELF] && matches.macs.is_given {
        let help = "leave out `mac`: only packets that come by a link have such a source";
        reader.wrong(line.span, "no packet can match: what the router sends comes from no MAC address", help);
    }
    let families = [&matches.source, &matches.destination].map(|side| {
        let given = side.is_given && side.sets.is_empty() && !side.negated;
        let has = |six: bool| {
            side.addresses.ranges().any(|range| matches!(range, rulefile::AddressRange::Six(..)) == six)
        };
        if given { [has(false), has(true)] } else { [true, true] }
    });
    let of_family = match matches.family {
        None => [true, true],
        Some(Family::Four) => [true, false],
        Some(Family::Six) => [false, true],
    };
    let of_protocol = match matches.protocols[..] {
        [ICMP] => [true, false],
        [ICMP6] => [false, true],
        _ => [true, true],
    };
    let both = |n: usize| families.iter().all(|f| f[n]) && of_family[n] && of_protocol[n];
    if !both(0) && !both(1) {
        let help = "source, destination, protocol and family must allow IPv4 or IPv6";
        reader.wrong(line.span, "no packet can match: its parts are of different families", help);
    }
}
