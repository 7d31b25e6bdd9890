// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of a rule file.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::rc::Rc;

use firewall::MacRange;
use rulefile::{AddressRange, names};

use crate::cond::{Cond, Family, ICMP, ICMP6, MAC_MAX, Numbers, PerSource};
use crate::part::{Origin, Written};
use crate::ranges::Ranges;
use crate::scope::{OTHERS, Section};
use crate::text;
use crate::{Finding, Place};

/// Values that stand in a rule; more are put into a set.
const INLINE_MAX: usize = 16;
/// Types of ICMP that stand in a rule.
const TYPES_MAX: u128 = 256;
/// Members of a set in a line.
const PER_LINE: usize = 8;
/// What members of sets are, besides addresses of either family.
const PORTS: &str = "ports";
const MACS: &str = "macs";
/// Protocols with words of their own.
const WORDS: [&str; 6] = ["tcp", "udp", "sctp", "dccp", "icmp", "icmp6"];

/// The table and the name of a set.
type Key = (Rc<(String, String)>, Rc<str>);

/// Members of a set: their kind, and their ranges.
type Members = (&'static str, Vec<(u128, u128)>);

/// A file that is being written.
pub(crate) struct File {
    zones: Vec<String>,
    /// Sets by the table and the name, or by what the members are, and the members.
    sets: HashMap<Key, String>,
    lists: HashMap<Members, String>,
    declared: String,
    names: Vec<String>,
    body: String,
    lines: u32,
    /// The lines of the body with rules, and where they come from.
    pub(crate) origins: Vec<(u32, Place)>,
    last: Option<Rc<Origin>>,
}

/// A name for a rule file that is none of `taken`.
fn name(wanted: &str, taken: &[String]) -> String {
    let is_sound = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let mut base: String = wanted.chars().map(|c| if is_sound(c) { c } else { '_' }).collect();
    if base.is_empty() || base.starts_with('-') {
        base.insert(0, 'x');
    }
    let mut found = base.clone();
    let mut n = 2;
    while taken.contains(&found) {
        found = format!("{base}-{n}");
        n += 1;
    }
    found
}

fn address(range: (u128, u128), family: Family) -> AddressRange {
    match family {
        Family::Four => AddressRange::Four(range.0 as u32, range.1 as u32),
        Family::Six => AddressRange::Six(range.0, range.1),
    }
}

/// The family of addresses in a condition: one that asks for addresses has one.
fn family_of(cond: &Cond) -> Family {
    cond.family.unwrap_or(Family::Four)
}

fn mac((first, last): (u128, u128)) -> String {
    MacRange { first: first as u64, last: last as u64 }.to_string()
}

fn numbers((low, high): (u128, u128)) -> String {
    if low == high { low.to_string() } else { format!("{low}-{high}") }
}

/// A text in quotes: a rule file has no quotes in quotes.
fn quoted(words: &str) -> String {
    format!("\"{}\"", text::line(&words.replace('"', "'")))
}

impl File {
    /// A file with a zone for each link.
    pub(crate) fn new(links: &[String]) -> File {
        let mut zones = vec!["any".to_owned(), "self".to_owned()];
        let mut declared = String::new();
        for link in links {
            let zone = name(link, &zones);
            let _ = writeln!(declared, "zone {zone} {link}");
            zones.push(zone);
        }
        zones.drain(..2);
        File {
            zones,
            sets: HashMap::new(),
            lists: HashMap::new(),
            declared,
            names: Vec::new(),
            body: String::new(),
            lines: 0,
            origins: Vec::new(),
            last: None,
        }
    }

    /// Adds a line to the rules.
    pub(crate) fn line(&mut self, text: &str) {
        self.body.push_str(text);
        self.body.push('\n');
        self.lines += 1 + text.matches('\n').count() as u32;
    }

    /// Adds what could not be imported, as a remark.
    pub(crate) fn finding(&mut self, finding: &Finding) {
        self.line(finding.remark().trim_end());
    }

    /// Adds a rule. Returns why it cannot be written.
    pub(crate) fn rule(&mut self, one: &Written) -> Result<(), &'static str> {
        let rule = self.text(one)?;
        if self.last.as_ref() != Some(&one.from) {
            // Zones of links that no rule names are not in the list.
            let more = if is_open(&one.cond) { " [name zones here that are added later]" } else { "" };
            self.line(&format!("# {}: {}{more}", one.from.place, one.from.text));
            self.last = Some(Rc::clone(&one.from));
        }
        self.line(&rule);
        self.origins.push((self.lines, one.from.place.clone()));
        Ok(())
    }

    /// Adds what becomes of all other packets.
    pub(crate) fn default(&mut self, one: &Written) {
        self.line(&format!("# {}: {}\ndefault {}", one.from.place, one.from.text, one.action));
        self.origins.push((self.lines, one.from.place.clone()));
    }

    fn text(&mut self, one: &Written) -> Result<String, &'static str> {
        let cond = &one.cond;
        let mut words = vec![one.action.to_owned()];
        let own = match one.section {
            Section::Out => [Some("self"), None],
            Section::In => [None, Some("self")],
            Section::Through => [None, None],
        };
        for (n, word) in ["from", "to"].into_iter().enumerate() {
            match (own[n], &cond.links[n]) {
                (Some(zone), _) => words.push(format!("{word} {zone}")),
                (None, Some(links)) => words.push(format!("{word} {}", self.zones(links)?)),
                (None, None) => {}
            }
        }
        self.protocols(&mut words, cond);
        let is_family_said = self.sides(&mut words, cond);
        if let Some(macs) = &cond.mac {
            words.push(format!("mac {}", self.listed(macs, MAC_MAX, MACS, mac)));
        }
        for (n, word) in ["sport", "port"].into_iter().enumerate() {
            if let Some(ports) = &cond.ports[n] {
                words.push(format!("{word} {}", self.ports(ports)));
            }
        }
        let icmp = self.icmp(&mut words, cond)?;
        if let Some(family) = cond.family.filter(|_| !is_family_said && !icmp) {
            words.push(family.word().to_owned());
        }
        if let Some(limit) = cond.limit {
            words.push(format!("limit {}/{} burst {}", limit.number, limit.per, limit.burst));
        }
        if let Some(PerSource { most, .. }) = cond.per_source.filter(|_| one.action == "accept") {
            words.push(format!("max-per-source {most}"));
        }
        if let Some(log) = &cond.log {
            words.push(if log.is_empty() { "log".to_owned() } else { format!("log {}", quoted(log.trim())) });
        }
        if let Some(comment) = &one.from.comment {
            words.push(format!("comment {}", quoted(comment)));
        }
        Ok(words.join(" "))
    }

    fn zones(&self, links: &Numbers) -> Result<String, &'static str> {
        let named: Vec<&str> = (0..)
            .zip(&self.zones)
            .filter(|(n, _)| links.ranges.holds(*n))
            .map(|(_, zone)| zone.as_str())
            .collect();
        if named.is_empty() {
            return Err("it is for links that no rule names: name them with --link");
        }
        Ok(named.join(","))
    }

    fn protocols(&self, words: &mut Vec<String>, cond: &Cond) {
        let Some(protocols) = &cond.protocols else { return };
        let all = protocols.ranges.iter().flat_map(|(low, high)| low..=high);
        let named: Vec<String> = all.map(|number| names::protocol_name(number as u8)).collect();
        let are_words = named.iter().all(|name| WORDS.contains(&name.as_str()));
        words.push(format!("{}{}", if are_words { "" } else { "proto " }, named.join(",")));
    }

    /// Source and destination. Returns whether they tell the family.
    fn sides(&mut self, words: &mut Vec<String>, cond: &Cond) -> bool {
        let mut tells = false;
        for (n, word) in ["src", "dst"].into_iter().enumerate() {
            let Some(side) = &cond.sides[n] else { continue };
            let family = family_of(cond);
            let one = |range| address(range, family).to_string();
            let listed = self.listed(side, family.most(), family.word(), one);
            tells |= !listed.starts_with('!');
            words.push(format!("{word} {listed}"));
        }
        tells
    }

    /// Numbers up to `most`, perhaps by a set. These, or `!` and all others: the shorter text.
    fn listed(
        &mut self,
        numbers: &Numbers,
        most: u128,
        kind: &'static str,
        one: impl Fn((u128, u128)) -> String,
    ) -> String {
        if let Some(named) = &numbers.named {
            let ranges = if named.negated { numbers.ranges.not(most) } else { (*numbers.ranges).clone() };
            let key = (Rc::clone(&named.table), Rc::clone(&named.name));
            let set = self.set(key, (&named.name, kind), &ranges, one);
            return format!("{}@{set}", if named.negated { "!" } else { "" });
        }
        let others = numbers.ranges.not(most);
        let length = |ranges: &Ranges| ranges.iter().map(|range| one(range).len() + 1).sum::<usize>();
        let is_negated = match others.len() {
            0 => false,
            few if few <= INLINE_MAX && numbers.ranges.len() <= INLINE_MAX => {
                length(&others) < length(&numbers.ranges)
            }
            count => count < numbers.ranges.len(),
        };
        let ranges = if is_negated { &others } else { &*numbers.ranges };
        format!("{}{}", if is_negated { "!" } else { "" }, self.values(ranges, kind, one))
    }

    /// Values with commas between them, or a set of them.
    fn values(
        &mut self,
        ranges: &Ranges,
        kind: &'static str,
        one: impl Fn((u128, u128)) -> String,
    ) -> String {
        if ranges.len() <= INLINE_MAX {
            return ranges.iter().map(one).collect::<Vec<_>>().join(",");
        }
        let key = (kind, ranges.iter().collect());
        let set = match self.lists.get(&key) {
            Some(set) => set.clone(),
            None => {
                let set = self.declare(("list", kind), ranges, one);
                self.lists.insert(key, set.clone());
                set
            }
        };
        format!("@{set}")
    }

    fn set(
        &mut self,
        key: Key,
        wanted: (&str, &'static str),
        ranges: &Ranges,
        one: impl Fn((u128, u128)) -> String,
    ) -> String {
        if let Some(set) = self.sets.get(&key) {
            return set.clone();
        }
        let set = self.declare(wanted, ranges, one);
        self.sets.insert(key, set.clone());
        set
    }

    fn declare(
        &mut self,
        (wanted, kind): (&str, &str),
        ranges: &Ranges,
        one: impl Fn((u128, u128)) -> String,
    ) -> String {
        let set = name(wanted, &self.names);
        self.names.push(set.clone());
        let word = if kind == MACS { " macs" } else { "" };
        let _ = write!(self.declared, "set {set}{word}");
        for (n, range) in ranges.iter().enumerate() {
            self.declared.push_str(if n > 0 && n % PER_LINE == 0 { " \\\n    " } else { " " });
            self.declared.push_str(&one(range));
        }
        self.declared.push('\n');
        set
    }

    fn ports(&mut self, ports: &Numbers) -> String {
        match &ports.named {
            Some(named) if !named.negated && !ports.ranges.is_empty() => {
                let key = (Rc::clone(&named.table), Rc::clone(&named.name));
                format!("@{}", self.set(key, (&named.name, PORTS), &ports.ranges, numbers))
            }
            _ => self.values(&ports.ranges, PORTS, numbers),
        }
    }

    /// Types and codes of ICMP. Returns whether they tell the family.
    fn icmp(&self, words: &mut Vec<String>, cond: &Cond) -> Result<bool, &'static str> {
        let only = |protocol: u8| {
            cond.protocols.as_ref().is_some_and(|all| *all.ranges == Ranges::one(protocol.into()))
        };
        let tells = only(ICMP) || only(ICMP6);
        let [types, codes] = &cond.icmp;
        if types.is_none() && codes.is_none() {
            return Ok(tells);
        }
        let count =
            |numbers: &Option<Numbers>, all: u128| numbers.as_ref().map_or(all, |n| n.ranges.count(all));
        if count(types, 256) * count(codes, 1) > TYPES_MAX {
            return Err("it asks for more types and codes of ICMP than a rule has room for");
        }
        let each = |numbers: &Option<Numbers>| -> Vec<u128> {
            let all = Ranges::new(vec![(0, 255)]);
            let ranges = numbers.as_ref().map_or(&all, |numbers| &numbers.ranges);
            ranges.iter().flat_map(|(low, high)| low..=high).collect()
        };
        let named = if only(ICMP6) { names::ICMP6_TYPES } else { names::ICMP_TYPES };
        let mut all = Vec::new();
        for kind in each(types) {
            let known = named.iter().find(|(_, number)| u128::from(*number) == kind);
            let kind = known.map_or_else(|| kind.to_string(), |(name, _)| (*name).to_owned());
            match codes {
                Some(_) => all.extend(each(codes).iter().map(|code| format!("{kind}/{code}"))),
                None => all.push(kind),
            }
        }
        words.push(format!("type {}", all.join(",")));
        Ok(tells)
    }

    /// The whole text, and the lines of rules in it.
    pub(crate) fn finish(mut self, head: &str) -> (String, Vec<(u32, Place)>) {
        let before = format!("{head}\n{}{}", self.declared, if self.declared.is_empty() { "" } else { "\n" });
        let lines = before.matches('\n').count() as u32;
        for (line, _) in &mut self.origins {
            *line += lines;
        }
        (before + &self.body, self.origins)
    }
}

/// Whether a rule is for links that no rule names: zones of such links must be added to it by hand.
fn is_open(cond: &Cond) -> bool {
    cond.links.iter().flatten().any(|links| links.ranges.holds(OTHERS))
}

/// An IPv4 address, if a set has no other.
pub(crate) fn only_address(numbers: &Numbers) -> Option<Ipv4Addr> {
    let mut ranges = numbers.ranges.iter();
    match (ranges.next(), ranges.next()) {
        (Some((first, last)), None) if first == last => u32::try_from(first).ok().map(Ipv4Addr::from),
        _ => None,
    }
}

/// Addresses with commas between them.
pub(crate) fn addresses(numbers: &Numbers, family: Family) -> String {
    numbers.ranges.iter().map(|range| address(range, family).to_string()).collect::<Vec<_>>().join(",")
}
