// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the text of a file to a [`Policy`], with everything that is wrong in it.

mod outside;
mod together;
mod vrfs;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use lang::{Diagnostic, SourceMap, Span};
use rulefile::{AddressRange, Faults, Line, Rest, Word, bounded, lines, names, time_ns};

use crate::hosts::is_stand_in;
use crate::journal::Log;
use crate::policy::{
    Address, Algs, Allocation, Exemption, Filter, Forward, Policy, Range, Statements, Static, TCP, Timeouts,
    Translation, UDP,
};
use crate::prefix::Prefix64;
use crate::vrf;
use outside::{INTERFACE, On};

/// Sessions at most, and how many by default.
const SESSIONS_MAX: usize = 1 << 24;
const SESSIONS: usize = 1 << 18;
/// Statements of a kind at most.
const STATEMENTS_MAX: usize = 1 << 12;
/// Outside addresses of a pool at most.
const POOL_MAX: u64 = 1 << 16;
/// Blocks of a subscriber where a translation does not say.
const BLOCKS: u16 = 64;
/// Ports of all forwards at most.
const FORWARDED_MAX: usize = 1 << 16;
/// Outside ports where a translation does not say.
const PORTS: (u16, u16) = (1024, u16::MAX);

/// IPv6 hosts of forwards and static translations at most.
const HOSTS_MAX: usize = 1 << 16;

const STATEMENTS: [&str; 10] =
    ["translate", "forward", "static", "exempt", "prefix", "filter", "alg", "timeout", "sessions", "log"];

/// A file that has been read.
#[derive(Debug)]
pub struct Reading {
    /// The policy, if there is no error.
    pub policy: Option<Policy>,
    /// What is wrong.
    pub diagnostics: Vec<Diagnostic>,
    /// The text, for messages.
    pub sources: SourceMap,
}

/// Reads the text of a file.
pub fn read(name: &str, text: &str) -> Reading {
    let mut sources = SourceMap::new();
    let file = sources.add(name, text);
    let lines = lines(sources.text(file), file);
    let policy = Statements {
        translations: Vec::new(),
        statics: Vec::new(),
        forwards: Vec::new(),
        exemptions: Vec::new(),
        prefix: None,
        hosts: Vec::new(),
        vrfs: Vec::new(),
        filter: Filter::EndpointIndependent,
        algs: Algs::default(),
        timeouts: Timeouts::default(),
        sessions: SESSIONS,
        log: Log::Nothing,
    };
    let (faults, spans) = (Faults::new("E0701"), Spans::default());
    let mut reader = Reader { faults, policy, spans };
    reader.faults.open_quotes(&lines);
    // A forward may do without its outside address if there is one alone: the others come first.
    let (forwards, others): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.words[0].text == "forward");
    for line in others.into_iter().chain(forwards) {
        if reader.faults.are_too_many() {
            break;
        }
        reader.statement(line);
    }
    reader.check_prefix();
    reader.check_together();
    let is_sound = reader.faults.errors() == 0;
    Reading {
        policy: is_sound.then(|| Policy::new(reader.policy)),
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

/// Where the first range is that meets an earlier one.
fn twice<A: Address>(all: &[(Range<A>, Span)]) -> Option<Span> {
    let meets = |n: usize, range: Range<A>| all[..n].iter().any(|(other, _)| other.meets(range));
    all.iter().enumerate().find(|(n, (range, _))| meets(*n, *range)).map(|(_, (_, span))| *span)
}

/// Where statements stand, for messages that need several.
#[derive(Default)]
struct Spans {
    translations: Vec<Span>,
    statics: Vec<Span>,
    forwards: Vec<Span>,
    prefix: Option<Span>,
    hosts: Vec<Span>,
}

struct Reader {
    faults: Faults,
    policy: Statements,
    spans: Spans,
}

impl Reader {
    fn wrong(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) -> Option<()> {
        self.faults.wrong(span, message, help);
        None
    }

    fn statement(&mut self, line: &Line) {
        let first = &line.words[0];
        // Each returns nothing if something is wrong, which has been noted.
        let _ = match first.text.as_str() {
            "translate" => self.translation(line),
            "forward" => self.forward(line),
            "static" => self.one_by_one(line),
            "exempt" => self.exemption(line),
            "prefix" => self.prefix(line),
            "filter" => self.filter(line),
            "alg" => self.alg(line),
            "timeout" => self.timeout(line),
            "sessions" => self.sessions(line),
            "log" => self.log(line),
            _ => {
                self.faults.unknown(first, "statement", STATEMENTS.into_iter());
                None
            }
        };
    }

    /// The next word, which must be there.
    fn word<'a>(&mut self, rest: &mut Rest<'a>, what: &str, help: &str) -> Option<&'a Word> {
        let word = rest.next();
        if word.is_none() {
            self.wrong(rest.place(), format!("{what} is missing"), help);
        }
        word
    }

    /// The next word, which must be this one.
    fn keyword(&mut self, rest: &mut Rest<'_>, keyword: &str, help: &str) -> Option<()> {
        let word = self.word(rest, &format!("'{keyword}'"), help)?;
        if word.text != keyword {
            return self.wrong(
                word.span,
                format!("unexpected '{}' in place of '{keyword}'", word.text),
                help,
            );
        }
        Some(())
    }

    /// Nothing may follow.
    fn end(&mut self, rest: &mut Rest<'_>, help: &str) -> Option<()> {
        match rest.next() {
            None => Some(()),
            Some(word) => self.wrong(word.span, format!("unexpected '{}'", word.text), help),
        }
    }

    /// Addresses of a list, of both families.
    fn both(&mut self, word: &Word) -> Option<(Vec<Range>, Vec<Range<u128>>)> {
        let (mut four, mut six) = (Vec::new(), Vec::new());
        for part in word.parts() {
            match AddressRange::parse(&part.text) {
                Ok(AddressRange::Four(first, last)) => four.push((Range { first, last }, part.span)),
                Ok(AddressRange::Six(first, last)) => six.push((Range { first, last }, part.span)),
                Err(why) => {
                    let help = "write an address, ADDRESS/LENGTH, or FIRST-LAST, for example 10.0.0.0/8";
                    self.wrong(part.span, why, help);
                }
            }
        }
        if let Some(span) = twice(&four).or_else(|| twice(&six)) {
            return self
                .wrong(span, "an address is listed twice", "leave one out")
                .map(|()| Default::default());
        }
        let count = word.parts().count();
        (four.len() + six.len() == count && count > 0).then(|| {
            (
                four.into_iter().map(|(range, _)| range).collect(),
                six.into_iter().map(|(range, _)| range).collect(),
            )
        })
    }

    /// IPv4 addresses of a list.
    fn ranges(&mut self, word: &Word) -> Option<Vec<Range>> {
        let (four, six) = self.both(word)?;
        if six.is_empty() {
            return Some(four);
        }
        let help = "IPv6 addresses may be inside, in `translate`, `static` and `forward`";
        self.wrong(word.span, "an IPv6 address in place of IPv4 addresses", help).map(|()| Vec::new())
    }

    fn one_range(&mut self, word: &Word) -> Option<Range> {
        match self.ranges(word)?[..] {
            [one] => Some(one),
            _ => self.several(word),
        }
    }

    fn several<T>(&mut self, word: &Word) -> Option<T> {
        self.wrong(word.span, "several ranges of addresses", "write one statement for each");
        None
    }

    /// One range of inside addresses; for IPv6 hosts and those of a VRF the addresses that stand for them.
    fn inside(&mut self, word: &Word, vrf: Option<u32>) -> Option<Range> {
        let (four, six) = self.both(word)?;
        if let Some(vrf) = vrf {
            return match (&four[..], &six[..]) {
                ([one], []) => {
                    let (first, count) = (vrf::host(vrf, one.first), one.count());
                    self.hosts(word, first, 1 << 64, count.into())
                }
                (_, [_, ..]) => self.six_in_vrf(word.span),
                _ => self.several(word),
            };
        }
        match (&four[..], &six[..]) {
            ([one], []) if is_stand_in(one.first) => {
                let help = "no packet on a wire has such an address: write others";
                self.wrong(word.span, format!("'{}' begins in 0.0.0.0/8", word.text), help);
                None
            }
            ([one], []) => Some(*one),
            ([], [one]) => self.hosts(word, one.first, 1, (one.last - one.first).saturating_add(1)),
            _ => self.several(word),
        }
    }

    /// Hosts of a statement, as sessions know them, and the addresses that stand for them.
    fn hosts(&mut self, word: &Word, first: u128, step: u128, count: u128) -> Option<Range> {
        let known = self.policy.hosts.len();
        if count > (HOSTS_MAX - known) as u128 {
            let message = format!("more than {HOSTS_MAX} IPv6 hosts of forwards and static translations");
            self.wrong(word.span, message, "name fewer of them");
            return None;
        }
        // One host may have several forwards.
        let again = self.policy.hosts.iter().position(|host| u128::from(*host) == first);
        if let (Some(at), 1) = (again, count) {
            return Some(Range { first: at as u32 + 1, last: at as u32 + 1 });
        }
        let hosts = (0..count).map(|n| Ipv6Addr::from(first + n * step));
        let is_unicast = |host: &Ipv6Addr| {
            !(host.is_multicast()
                || host.is_unspecified()
                || host.is_loopback()
                || host.is_unicast_link_local())
        };
        let is_in_vrf = step > 1;
        if let Some(other) = hosts.clone().find(|host| !is_in_vrf && !is_unicast(host)) {
            let help = "write the host's global or unique local address";
            self.wrong(word.span, format!("no host is reached by {other}"), help);
            return None;
        }
        if let Some(twice) = hosts.clone().find(|host| self.policy.hosts.contains(host)) {
            let name = vrf::of_listed(twice.into()).map(|(_, address)| address.to_string());
            let message = format!("{} is in another statement, too", name.unwrap_or(twice.to_string()));
            self.wrong(word.span, message, "write statements for single hosts");
            return None;
        }
        self.spans.hosts.extend(hosts.clone().map(|_| word.span));
        self.policy.hosts.extend(hosts);
        Some(Range { first: known as u32 + 1, last: self.policy.hosts.len() as u32 })
    }

    fn address(&mut self, word: &Word) -> Option<u32> {
        let found = word.text.parse::<Ipv4Addr>();
        if found.is_err() {
            let help = "write one address, for example 192.0.2.1";
            self.wrong(word.span, format!("'{}' is not an IPv4 address", word.text), help);
        }
        found.ok().map(u32::from)
    }

    fn number<T: TryFrom<u64>>(&mut self, word: &Word, range: std::ops::RangeInclusive<u64>) -> Option<T> {
        let found = word.text.parse::<u64>().ok().filter(|number| range.contains(number));
        if found.is_none() {
            let help = format!("write a number from {} to {}", range.start(), range.end());
            self.wrong(word.span, format!("'{}' is not such a number", word.text), help);
        }
        found.and_then(|number| T::try_from(number).ok())
    }

    /// A port, or the first and the last one.
    fn ports(&mut self, word: &Word) -> Option<(u16, u16)> {
        let both = match word.text.split_once('-') {
            Some((low, high)) if low.parse::<u16>().is_ok() => names::port(low).zip(names::port(high)),
            _ => names::port(&word.text).map(|port| (port, port)),
        };
        let both = both.filter(|(low, high)| *low > 0 && low <= high);
        if both.is_none() {
            let help = "write a number from 1 to 65535, LOW-HIGH, or a name such as https";
            self.wrong(word.span, format!("'{}' is not a port", word.text), help);
        }
        both
    }

    fn has_room(&mut self, line: &Line, count: usize) -> Option<()> {
        if count >= STATEMENTS_MAX {
            let help = "put addresses into one statement, with commas between them";
            return self.wrong(
                line.span,
                format!("more than {STATEMENTS_MAX} statements of this kind"),
                help,
            );
        }
        Some(())
    }

    fn translation(&mut self, line: &Line) -> Option<()> {
        const HELP: &str = "write `translate INSIDE [vrf NAME] to OUTSIDE|interface NAME [ports LOW-HIGH] [block SIZE [max N]] [deterministic] \
                            [max-sessions N] [max-ports N]`";
        self.has_room(line, self.policy.translations.len())?;
        let mut rest = Rest::of(line);
        let inside = self.word(&mut rest, "the inside addresses", HELP)?;
        let inside_span = inside.span;
        let (mut inside, mut inside6) = self.both(inside)?;
        let is_network = |range: &Range<u128>| range.first as u64 == 0 && range.last as u64 == u64::MAX;
        if let Some(vrf) = self.vrf(&mut rest)? {
            if !inside6.is_empty() {
                return self.six_in_vrf(inside_span);
            }
            inside6 = inside.drain(..).map(|range| vrf::hosts(vrf, range)).collect();
        } else if inside6.iter().any(|range| range.last >> 120 == 0xff) {
            return self.wrong(inside_span, "no host has a multicast address", "write the hosts' networks");
        }
        if !inside6.iter().all(is_network) {
            let help = "write networks of 64 bits or less: each such network is a subscriber";
            return self.wrong(inside_span, "part of an IPv6 network of 64 bits", help);
        }
        self.keyword(&mut rest, "to", HELP)?;
        let pool = self.word(&mut rest, "the outside addresses", HELP)?;
        let pool_span = pool.span;
        let interface = self.interface(pool, &mut rest)?;
        let pool = if interface.is_some() { Vec::new() } else { self.ranges(pool)? };
        if pool.iter().map(|range| range.count()).sum::<u64>() > POOL_MAX {
            return self.wrong(pool_span, format!("more than {POOL_MAX} outside addresses"), "use fewer");
        }
        let mut new = Translation {
            inside,
            inside6,
            pool,
            interface,
            ports: PORTS,
            allocation: Allocation::Random,
            sessions_max: u32::MAX,
            ports_max: u32::MAX,
            line: line.number,
            text: line.text(),
        };
        let mut said: Vec<&str> = Vec::new();
        while let Some(word) = rest.next() {
            if said.contains(&word.text.as_str()) {
                return self.wrong(word.span, format!("'{}' is given twice", word.text), "leave one out");
            }
            said.push(&word.text);
            match word.text.as_str() {
                "ports" => {
                    let word = self.word(&mut rest, "the range of ports", HELP)?;
                    new.ports = self.ports(word)?;
                }
                "block" => {
                    let word = self.word(&mut rest, "the size of a block", HELP)?;
                    let size = self.number(word, 1..=16384)?;
                    new.allocation = Allocation::Blocks { size, most: BLOCKS };
                }
                "max" => {
                    let word = self.word(&mut rest, "the number of blocks", HELP)?;
                    let most = self.number(word, 1..=65535)?;
                    match &mut new.allocation {
                        Allocation::Blocks { most: place, .. } => *place = most,
                        _ => {
                            return self.wrong(
                                word.span,
                                "'max' without 'block'",
                                "write `block SIZE max N`",
                            );
                        }
                    }
                }
                "deterministic" => new.allocation = Allocation::Deterministic,
                "max-sessions" => {
                    let word = self.word(&mut rest, "the number of sessions", HELP)?;
                    new.sessions_max = self.number(word, 1..=u64::from(u32::MAX))?;
                }
                "max-ports" => {
                    let word = self.word(&mut rest, "the number of ports", HELP)?;
                    new.ports_max = self.number(word, 1..=65535)?;
                }
                _ => {
                    let names = ["ports", "block", "max", "deterministic", "max-sessions", "max-ports"];
                    self.faults.unknown(word, "option", names.into_iter());
                    return None;
                }
            }
        }
        if said.contains(&"block") && said.contains(&"deterministic") {
            let help = "a deterministic translation has one block for each inside address";
            return self.wrong(line.span, "'block' and 'deterministic' exclude each other", help);
        }
        if new.allocation == Allocation::Deterministic && !new.inside6.is_empty() {
            let help = "write a statement of its own for IPv6 addresses and those of a VRF, for example with `block`";
            return self.wrong(inside_span, "'deterministic' is for IPv4 addresses of the main table", help);
        }
        if new.allocation == Allocation::Deterministic && new.interface.is_some() {
            let help = "name the outside addresses, or leave it out";
            return self.wrong(pool_span, "'deterministic' needs addresses that are known beforehand", help);
        }
        match new.allocation {
            Allocation::Blocks { size, .. } if u32::from(size) > new.width() => {
                return self.wrong(
                    line.span,
                    "no block fits into the range of ports",
                    "write a smaller block",
                );
            }
            Allocation::Deterministic if new.share() > u64::from(new.width()) => {
                let (share, width) = (new.share(), new.width());
                let message =
                    format!("{share} inside addresses would share the {width} ports of an outside address");
                return self.wrong(line.span, message, "use more outside addresses");
            }
            _ => {}
        }
        self.policy.translations.push(new);
        self.spans.translations.push(line.span);
        Some(())
    }

    fn forward(&mut self, line: &Line) -> Option<()> {
        const HELP: &str = "write `forward tcp|udp PORT[-PORT] [on OUTSIDE|interface NAME] to INSIDE [vrf NAME] [port PORT]`";
        self.has_room(line, self.policy.forwards.len())?;
        let mut rest = Rest::of(line);
        let protocol = self.word(&mut rest, "the protocol", HELP)?;
        let protocol = match protocol.text.as_str() {
            "tcp" => TCP,
            "udp" => UDP,
            _ => {
                self.faults.unknown(protocol, "protocol of a forward", ["tcp", "udp"].into_iter());
                return None;
            }
        };
        let ports = self.word(&mut rest, "the outside port", HELP)?;
        let ports = self.ports(ports)?;
        let mut word = self.word(&mut rest, "'to'", HELP)?;
        let mut on = None;
        if word.text == "on" {
            let address = self.word(&mut rest, "the outside address", HELP)?;
            on = Some(match self.interface(address, &mut rest)? {
                Some(interface) => On::Interface(interface),
                None => On::Address(self.address(address)?),
            });
            word = self.word(&mut rest, "'to'", HELP)?;
        }
        if word.text != "to" {
            return self.wrong(word.span, format!("unexpected '{}' in place of 'to'", word.text), HELP);
        }
        let inside = self.word(&mut rest, "the inside address", HELP)?;
        let vrf = self.vrf(&mut rest)?;
        let inside = match self.inside(inside, vrf)? {
            one if one.count() == 1 => one.first,
            _ => return self.wrong(inside.span, "several inside addresses", "write one address"),
        };
        let mut port = ports.0;
        if let Some(word) = rest.next() {
            if word.text != "port" {
                return self.wrong(word.span, format!("unexpected '{}'", word.text), HELP);
            }
            let first = self.word(&mut rest, "the inside port", HELP)?;
            let range = self.ports(first)?;
            if range.1 != range.0 && range.1 - range.0 != ports.1 - ports.0 {
                return self.wrong(
                    first.span,
                    "as many inside ports as outside ports are needed",
                    "write the first one alone",
                );
            }
            port = range.0;
        }
        if port.checked_add(ports.1 - ports.0).is_none() {
            return self.wrong(line.span, "the inside ports would be above 65535", "write a smaller port");
        }
        self.end(&mut rest, HELP)?;
        let Some(on) = on.or_else(|| self.only_outside()) else {
            let help = "write `on ADDRESS` or `on interface NAME`: there is not exactly one outside address to choose";
            return self.wrong(line.words[0].span, "a forward without outside address", help);
        };
        let count = |one: &Forward| usize::from(one.ports.1 - one.ports.0) + 1;
        let ports_before: usize = self.policy.forwards.iter().map(count).sum();
        if ports_before + usize::from(ports.1 - ports.0) >= FORWARDED_MAX {
            let message = format!("forwards of more than {FORWARDED_MAX} ports");
            return self.wrong(line.span, message, "use `static` for a host that gets all of them");
        }
        let text = line.text();
        let (outside, interface) = match on {
            On::Address(address) => (vec![address], None),
            On::Interface(name) => (Vec::new(), Some(name)),
        };
        self.policy.forwards.push(Forward {
            protocol,
            outside,
            interface,
            ports,
            inside,
            port,
            line: line.number,
            text,
        });
        self.spans.forwards.push(line.span);
        Some(())
    }

    fn one_by_one(&mut self, line: &Line) -> Option<()> {
        const HELP: &str =
            "write `static INSIDE [vrf NAME] to OUTSIDE`, for example `static 10.0.1.9 to 192.0.2.9`";
        self.has_room(line, self.policy.statics.len())?;
        let mut rest = Rest::of(line);
        let inside = self.word(&mut rest, "the inside address", HELP)?;
        let vrf = self.vrf(&mut rest)?;
        let inside = self.inside(inside, vrf)?;
        self.keyword(&mut rest, "to", HELP)?;
        let outside = self.word(&mut rest, "the outside address", HELP)?;
        let span = outside.span;
        if outside.text == INTERFACE {
            let help = "name its address, or write `forward` for the ports that lead inside";
            return self.wrong(span, "an address of an interface is shared, so no host has it alone", help);
        }
        let outside = self.one_range(outside)?;
        self.end(&mut rest, HELP)?;
        if inside.count() != outside.count() {
            let message = format!("{} inside addresses for {} outside ones", inside.count(), outside.count());
            return self.wrong(span, message, "write as many of both");
        }
        self.policy.statics.push(Static { inside, outside, line: line.number, text: line.text() });
        self.spans.statics.push(line.span);
        Some(())
    }

    fn exemption(&mut self, line: &Line) -> Option<()> {
        const HELP: &str =
            "write `exempt SOURCE to DESTINATION`, for example `exempt 10.0.1.0/24 to 10.9.0.0/16`";
        self.has_room(line, self.policy.exemptions.len())?;
        let mut rest = Rest::of(line);
        let from = self.word(&mut rest, "the source", HELP)?;
        let from = self.ranges(from)?;
        self.keyword(&mut rest, "to", HELP)?;
        let to = self.word(&mut rest, "the destination", HELP)?;
        let to = self.ranges(to)?;
        self.end(&mut rest, HELP)?;
        self.policy.exemptions.push(Exemption { from, to });
        Some(())
    }

    fn prefix(&mut self, line: &Line) -> Option<()> {
        const HELP: &str = "write `prefix ADDRESS/LENGTH`, for example `prefix 64:ff9b::/96`";
        let mut rest = Rest::of(line);
        let word = self.word(&mut rest, "the prefix", HELP)?;
        self.faults.once("prefix", line.span)?;
        let both = word
            .text
            .split_once('/')
            .and_then(|(address, length)| Some((address.parse().ok()?, length.parse().ok()?)));
        let found = match both {
            Some((address, length)) => Prefix64::new(address, length),
            None => Err(format!("'{}' is not an IPv6 prefix", word.text)),
        };
        match found {
            Ok(prefix) => self.policy.prefix = Some(prefix),
            Err(why) => return self.wrong(word.span, why, HELP),
        }
        self.spans.prefix = Some(word.span);
        self.end(&mut rest, HELP)
    }

    fn filter(&mut self, line: &Line) -> Option<()> {
        let names = Filter::ALL.map(|(name, _)| name);
        let help = format!("write `filter MODE`, one of {}", names.join(", "));
        let mut rest = Rest::of(line);
        let word = self.word(&mut rest, "the mode", &help)?;
        let Some((_, mode)) = Filter::ALL.into_iter().find(|(name, _)| *name == word.text) else {
            self.faults.unknown(word, "filter", names.into_iter());
            return None;
        };
        self.faults.once("filter", line.span)?;
        self.policy.filter = mode;
        self.end(&mut rest, &help)
    }

    fn alg(&mut self, line: &Line) -> Option<()> {
        const HELP: &str = "write `alg NAME on` or `alg NAME off`, for example `alg ftp off`";
        let mut rest = Rest::of(line);
        let name = self.word(&mut rest, "the protocol", HELP)?;
        if self.policy.algs.named(&name.text).is_none() {
            self.faults.unknown(name, "protocol", Algs::NAMES.into_iter());
            return None;
        }
        self.faults.once(&format!("alg {}", name.text), line.span)?;
        let word = self.word(&mut rest, "'on' or 'off'", HELP)?;
        let is_on = match word.text.as_str() {
            "on" => true,
            "off" => false,
            _ => return self.wrong(word.span, format!("'{}' is neither on nor off", word.text), HELP),
        };
        self.policy.algs.named(&name.text).into_iter().for_each(|place| *place = is_on);
        self.end(&mut rest, HELP)
    }

    fn log(&mut self, line: &Line) -> Option<()> {
        const HELP: &str = "write `log blocks`, `log ports` or `log sessions`";
        let mut rest = Rest::of(line);
        let word = self.word(&mut rest, "what to note", HELP)?;
        let Some((_, what)) = Log::ALL.into_iter().find(|(name, _)| *name == word.text) else {
            self.faults.unknown(word, "thing to note", Log::ALL.map(|(name, _)| name).into_iter());
            return None;
        };
        self.faults.once("log", line.span)?;
        self.policy.log = what;
        self.end(&mut rest, HELP)
    }

    fn timeout(&mut self, line: &Line) -> Option<()> {
        const HELP: &str = "write `timeout NAME TIME`, for example `timeout udp 2m`";
        let mut rest = Rest::of(line);
        let name = self.word(&mut rest, "the name", HELP)?;
        if self.policy.timeouts.named(&name.text).is_none() {
            self.faults.unknown(name, "timeout", Timeouts::NAMES.into_iter());
            return None;
        }
        self.faults.once(&format!("timeout {}", name.text), line.span)?;
        let Some(time) = rest.next() else {
            return self.wrong(rest.place(), "the time is missing", HELP);
        };
        match time_ns(&time.text).zip(self.policy.timeouts.named(&name.text)) {
            Some((found, place)) => *place = found,
            None => {
                return self.wrong(
                    time.span,
                    format!("'{}' is not a time", time.text),
                    "write 30s, 5m, 2h or 500ms",
                );
            }
        }
        self.end(&mut rest, HELP)
    }

    fn sessions(&mut self, line: &Line) -> Option<()> {
        let help = format!("write `sessions NUMBER`, from 1 to {SESSIONS_MAX}");
        let mut rest = Rest::of(line);
        let word = self.word(&mut rest, "the number", &help)?;
        self.faults.once("sessions", line.span)?;
        self.policy.sessions = self.number(word, 1..=SESSIONS_MAX as u64)?;
        self.end(&mut rest, &help)
    }
}

#[cfg(test)]
mod tests;
