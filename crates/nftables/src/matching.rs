// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a match of nftables to conditions of a rule file.

use std::rc::Rc;

use firewall::MacRange;
use rulefile::{AddressRange, names as ports};
use serde_json::Value;

use crate::cond::{Cond, Family, ICMP, ICMP6, MAC_MAX, Named, Numbers, TCP, UDP, WITH_PORTS};
use crate::names;
use crate::ranges::Ranges;
use crate::scope::{Knows, OTHERS, Scope, State};
use crate::text;

/// Conditions that one rule may become.
pub(crate) const CASES_MAX: usize = 1024;
/// Flags of segments that begin a connection: SYN, perhaps with URG.
const OPENING: [u8; 2] = [0x02, 0x22];
/// Flags that connection tracking in Linux takes for sound, without those that may be anything.
const SOUND: [u8; 9] = [0x02, 0x22, 0x12, 0x04, 0x14, 0x11, 0x31, 0x10, 0x30];
/// Flags that may be anything: PSH, ECE, CWR.
const FREE: u8 = 0xc8;

/// What a match is about.
enum Field {
    Link(usize),
    Family,
    Protocol,
    Address(usize, Family),
    Port(usize),
    /// The type or the code of ICMP.
    Icmp(usize, bool),
    /// The source on the link.
    Mac,
    State,
    Direction,
    Flags(Option<u8>),
    /// The first header behind that of IPv6.
    NextHeader,
    Other,
}

/// What the numbers of a set stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Address(Family),
    Port,
    Protocol,
    /// The type or the code of ICMP, or that of ICMPv6.
    Icmp(usize, bool),
    Mac,
}

impl Field {
    /// What its numbers stand for, if it has some.
    fn kind(&self) -> Option<Kind> {
        match *self {
            Field::Address(_, family) => Some(Kind::Address(family)),
            Field::Port(_) => Some(Kind::Port),
            Field::Protocol => Some(Kind::Protocol),
            Field::Icmp(n, six) => Some(Kind::Icmp(n, six)),
            Field::Mac => Some(Kind::Mac),
            _ => None,
        }
    }
}

/// The number of `value` or the numbers of its range.
type Leaf<'f> = &'f dyn Fn(&Value) -> Option<(u128, u128)>;

/// A number or a name for one.
fn number(value: &Value, most: u128, name: impl Fn(&str) -> Option<u128>) -> Option<u128> {
    let found = match value {
        Value::String(text) => name(text).or_else(|| text.parse().ok()),
        other => other.as_u64().map(u128::from),
    };
    found.filter(|number| *number <= most)
}

/// An element without what is said about it.
pub(crate) fn bare(value: &Value) -> &Value {
    value.get("elem").and_then(|elem| elem.get("val")).unwrap_or(value)
}

fn range(value: &Value, leaf: impl Fn(&Value) -> Option<u128>) -> Option<(u128, u128)> {
    match value["range"].as_array().map(Vec::as_slice) {
        Some([first, last]) => Some((leaf(first)?, leaf(last)?)).filter(|(first, last)| first <= last),
        Some(_) => None,
        None => leaf(value).map(|number| (number, number)),
    }
}

/// An address, a prefix or a range of a family.
pub(crate) fn addresses(value: &Value, family: Family) -> Option<(u128, u128)> {
    let of_text = |text: &str| match (AddressRange::parse(text), family) {
        (Ok(AddressRange::Four(first, last)), Family::Four) => Some((first.into(), last.into())),
        (Ok(AddressRange::Six(first, last)), Family::Six) => Some((first, last)),
        _ => None,
    };
    if let Some(prefix) = value.get("prefix") {
        let (address, length) = (prefix["addr"].as_str()?, prefix["len"].as_u64()?);
        return of_text(&format!("{address}/{length}"));
    }
    range(value, |value| of_text(value.as_str()?).map(|(first, _)| first))
        .filter(|_| value["range"].is_array())
        .or_else(|| of_text(value.as_str()?))
}

/// A MAC address, a prefix or a range.
fn macs(value: &Value) -> Option<(u128, u128)> {
    let of_text = |text: &str| {
        MacRange::parse(text).ok().map(|range| (u128::from(range.first), u128::from(range.last)))
    };
    if let Some(prefix) = value.get("prefix") {
        let (address, length) = (prefix["addr"].as_str()?, prefix["len"].as_u64()?);
        return of_text(&format!("{address}/{length}"));
    }
    range(value, |value| of_text(value.as_str()?).map(|(first, _)| first))
}

/// Flags of TCP: a name, a number, or several.
fn flags(value: &Value) -> Option<u8> {
    match value {
        Value::String(name) => {
            let names = ["fin", "syn", "rst", "psh", "ack", "urg", "ecn", "cwr"];
            names.iter().position(|other| other == name).map(|bit| 1 << bit)
        }
        Value::Array(all) => all.iter().try_fold(0, |sum, one| Some(sum | flags(one)?)),
        Value::Object(object) => object.get("|").or_else(|| object.get("set")).and_then(flags),
        other => other.as_u64().and_then(|number| u8::try_from(number).ok()),
    }
}

/// Whether a field is one of a packet in a tunnel.
pub(crate) fn is_inside(of: &Value) -> bool {
    !of["payload"]["tunnel"].is_null()
}

/// Two matches of ports that nft has put together: 32 bits from the start of the transport header.
fn both_ports(left: &Value, op: &str, right: &Value) -> Option<Cond> {
    let raw = &left["payload"];
    let is_both =
        raw["base"] == "th" && raw["offset"] == 0 && raw["len"] == 32 && op == "==" && !is_inside(left);
    let both = right.as_u64().and_then(|both| u32::try_from(both).ok()).filter(|_| is_both)?;
    let ports = [both >> 16, both & 0xffff].map(|port| Some(Numbers::new(Ranges::one(port.into()))));
    Some(Cond { ports, ..Cond::default() })
}

fn payload(protocol: &str, field: &str) -> (Field, Cond) {
    let of = Cond::of_protocols;
    match (protocol, field) {
        ("ip", "saddr") => (Field::Address(0, Family::Four), Cond::of_family(Family::Four)),
        ("ip", "daddr") => (Field::Address(1, Family::Four), Cond::of_family(Family::Four)),
        ("ip6", "saddr") => (Field::Address(0, Family::Six), Cond::of_family(Family::Six)),
        ("ip6", "daddr") => (Field::Address(1, Family::Six), Cond::of_family(Family::Six)),
        ("ip", "protocol") => (Field::Protocol, Cond::of_family(Family::Four)),
        ("ip6", "nexthdr") => (Field::NextHeader, Cond::of_family(Family::Six)),
        ("ip", _) => (Field::Other, Cond::of_family(Family::Four)),
        ("ip6", _) => (Field::Other, Cond::of_family(Family::Six)),
        ("th", "sport") => (Field::Port(0), Cond::default()),
        ("th", "dport") => (Field::Port(1), Cond::default()),
        ("tcp", "flags") => (Field::Flags(None), of(&[TCP])),
        ("tcp" | "udp" | "sctp" | "dccp", _) => {
            let number = match protocol {
                "tcp" => TCP,
                "udp" => UDP,
                "dccp" => WITH_PORTS[2],
                _ => WITH_PORTS[3],
            };
            let field = match field {
                "sport" => Field::Port(0),
                "dport" => Field::Port(1),
                _ => Field::Other,
            };
            (field, of(&[number]))
        }
        ("icmp" | "icmpv6", _) => {
            let six = protocol == "icmpv6";
            let (family, number) = if six { (Family::Six, ICMP6) } else { (Family::Four, ICMP) };
            let cond = Cond { family: Some(family), ..of(&[number]) };
            match field {
                "type" => (Field::Icmp(0, six), cond),
                "code" => (Field::Icmp(1, six), cond),
                _ => (Field::Other, cond),
            }
        }
        ("ether", "type") => (Field::Family, Cond::default()),
        ("ether", "saddr") => (Field::Mac, Cond::default()),
        _ => (Field::Other, Cond::default()),
    }
}

/// What follows from a key alone: a packet without that header has none.
pub(crate) fn implied(key: &Value) -> Cond {
    let keys = key["concat"].as_array().map_or(std::slice::from_ref(key), Vec::as_slice);
    let conds = keys.iter().map(|key| field(key).1);
    conds.reduce(|all, one| all.and(&one).unwrap_or(all)).unwrap_or_default()
}

/// What the left side is about, and what follows from that alone.
fn field(left: &Value) -> (Field, Cond) {
    // Headers inside of a tunnel are none of the packet's own.
    if is_inside(left) {
        return (Field::Other, Cond::default());
    }
    if let Some(part) = left.get("payload") {
        return payload(part["protocol"].as_str().unwrap_or(""), part["field"].as_str().unwrap_or(""));
    }
    if let Some([inner, mask]) = left["&"].as_array().map(Vec::as_slice) {
        return match (field(inner), flags(mask)) {
            ((Field::Flags(None), cond), Some(mask)) => (Field::Flags(Some(mask)), cond),
            ((_, cond), _) => (Field::Other, cond),
        };
    }
    let found = match (left["meta"]["key"].as_str(), left["ct"]["key"].as_str()) {
        (Some("iif" | "iifname"), _) => Field::Link(0),
        (Some("oif" | "oifname"), _) => Field::Link(1),
        (Some("l4proto"), _) => Field::Protocol,
        (Some("nfproto" | "protocol"), _) => Field::Family,
        (_, Some("state")) => Field::State,
        (_, Some("direction")) => Field::Direction,
        _ => Field::Other,
    };
    (found, Cond::default())
}

impl<'a> Scope<'a> {
    /// The conditions of which one must be met. None: no packet that is asked about matches.
    pub(crate) fn conditions(&self, of: &'a Value) -> Vec<Cond> {
        let op = of["op"].as_str().unwrap_or("==");
        self.compare(&of["left"], op, &of["right"])
    }

    /// The same for a comparison.
    pub(crate) fn compare(&self, left: &'a Value, op: &str, right: &'a Value) -> Vec<Cond> {
        match left["concat"].as_array() {
            Some(keys) => self.concatenation(left, keys, op, right),
            None => self.single(left, op, right),
        }
    }

    fn concatenation(&self, left: &Value, keys: &'a [Value], op: &str, right: &'a Value) -> Vec<Cond> {
        let elements = match self.few(right) {
            Ok(elements) if ["==", "in"].contains(&op) && elements.len() <= CASES_MAX => elements,
            Ok(_) => return vec![Cond::beyond(self.unsaid(left, op, right))],
            Err(why) => return vec![Cond::beyond(why)],
        };
        let mut all = Vec::new();
        for element in elements {
            let Some(values) = bare(element)["concat"].as_array().filter(|values| values.len() == keys.len())
            else {
                return vec![Cond::beyond(self.unsaid(left, op, right))];
            };
            let mut conds = vec![Cond::default()];
            for (key, value) in keys.iter().zip(values) {
                conds = meet(&conds, &self.single(key, "==", value));
            }
            all.extend(conds);
            if all.len() > CASES_MAX {
                return vec![Cond::beyond("it becomes too many rules")];
            }
        }
        all
    }

    fn unsaid(&self, left: &Value, op: &str, right: &Value) -> String {
        format!("a rule file cannot say `{}`", text::comparison(left, op, right))
    }

    fn single(&self, left: &'a Value, op: &str, right: &'a Value) -> Vec<Cond> {
        if let Some(both) = both_ports(left, op, right) {
            return vec![both];
        }
        let (field, implied) = field(left);
        let unsaid = |implied: Cond, why: Option<String>| {
            let why = why.unwrap_or_else(|| self.unsaid(left, op, right));
            vec![Cond { beyond: Some(why.into()), ..implied }]
        };
        let found = match field {
            Field::State => return self.state(op, right).unwrap_or_else(|| unsaid(implied, None)),
            Field::Direction if self.state == State::New && op == "==" && right.is_string() => {
                return if right == "original" { vec![implied] } else { Vec::new() };
            }
            Field::Flags(mask) => {
                return match self.segment(mask, op, right) {
                    Some(true) => vec![implied],
                    Some(false) => Vec::new(),
                    None => unsaid(implied, None),
                };
            }
            Field::Link(n) => return self.link(n, op, right).unwrap_or_else(|why| unsaid(implied, why)),
            Field::Family => return self.family(op, right).unwrap_or_else(|| unsaid(implied, None)),
            Field::Other | Field::Direction => return unsaid(implied, None),
            Field::NextHeader => {
                let why = "`ip6 nexthdr` is the first header only: write `meta l4proto` in nftables";
                return unsaid(implied, Some(why.to_owned()));
            }
            Field::Mac if !self.knows_macs => return unsaid(implied, None),
            Field::Address(n, _) | Field::Port(n) if self.translated[n] => {
                return unsaid(
                    implied,
                    Some("it sees packets before or after address translation".to_owned()),
                );
            }
            ref numbers => self.numbers(numbers, op, right),
        };
        let numbers = match found {
            Ok(numbers) => Some(numbers),
            Err(why) => return unsaid(implied, why),
        };
        if let Some(empty) = numbers.as_ref().filter(|numbers| numbers.ranges.is_empty()) {
            match (&empty.named, &field) {
                (None, _) => return Vec::new(),
                (Some(_), Field::Address(..) | Field::Mac) => {}
                (Some(named), _) => return unsaid(implied, Some(format!("set '{}' is empty", named.name))),
            }
        }
        let mut cond = Cond::default();
        match field {
            Field::Protocol => cond.protocols = numbers,
            Field::Address(n, _) => cond.sides[n] = numbers,
            Field::Port(n) => cond.ports[n] = numbers,
            Field::Icmp(n, _) => cond.icmp[n] = numbers,
            Field::Mac => cond.mac = numbers,
            _ => {}
        }
        implied.and(&cond).into_iter().collect()
    }

    /// The numbers that a comparison is true for.
    fn numbers(&self, field: &Field, op: &str, right: &'a Value) -> Result<Numbers, Option<String>> {
        let byte = |value: &Value, name: fn(&str) -> Option<u8>| {
            range(value, |value| number(value, u8::MAX.into(), |text| name(text).map(u128::from)))
        };
        let kind = field.kind().ok_or(None)?;
        let of = |most: u128, leaf: Leaf<'_>| self.ranges((op, kind), right, most, leaf);
        let port = |value: &Value| {
            range(value, |value| number(value, u16::MAX.into(), |text| ports::port(text).map(u128::from)))
        };
        match *field {
            Field::Address(_, family) => of(family.most(), &|value| addresses(value, family)),
            Field::Port(_) => of(u16::MAX.into(), &port),
            Field::Mac => of(MAC_MAX, &macs),
            Field::Protocol => of(u8::MAX.into(), &|value| byte(value, names::protocol)),
            Field::Icmp(0, false) => of(u8::MAX.into(), &|value| byte(value, |t| names::icmp_type(false, t))),
            Field::Icmp(0, true) => of(u8::MAX.into(), &|value| byte(value, |t| names::icmp_type(true, t))),
            Field::Icmp(_, false) => of(u8::MAX.into(), &|value| byte(value, |t| names::icmp_code(false, t))),
            Field::Icmp(_, true) => of(u8::MAX.into(), &|value| byte(value, |t| names::icmp_code(true, t))),
            _ => Err(None),
        }
    }

    /// The same for numbers up to `most`. Those of a set with a name are kept: many rules may use it.
    fn ranges(
        &self,
        (op, kind): (&str, Kind),
        right: &'a Value,
        most: u128,
        leaf: Leaf<'_>,
    ) -> Result<Numbers, Option<String>> {
        match self.set(right) {
            Some(set) => {
                let set = set.map_err(Some)?;
                set.numbers((op, kind), || self.converted(op, right, most, leaf))
            }
            None => self.converted(op, right, most, leaf),
        }
    }

    fn converted(
        &self,
        op: &str,
        right: &'a Value,
        most: u128,
        leaf: Leaf<'_>,
    ) -> Result<Numbers, Option<String>> {
        let elements = self.elements(right).map_err(Some)?;
        let found: Option<Vec<_>> = elements.iter().map(|element| leaf(bare(element))).collect();
        let written = Ranges::new(found.ok_or(None)?);
        let only = || written.iter().next().filter(|(first, last)| elements.len() == 1 && first == last);
        let ranges = match op {
            "==" | "in" => written,
            "!=" => written.not(most),
            "<" => Ranges::new(vec![(0, only().ok_or(None)?.0)]).and(&written.not(most)),
            "<=" => Ranges::new(vec![(0, only().ok_or(None)?.0)]),
            ">" => Ranges::new(vec![(only().ok_or(None)?.0, most)]).and(&written.not(most)),
            ">=" => Ranges::new(vec![(only().ok_or(None)?.0, most)]),
            _ => return Err(None),
        };
        let named = match self.set(right) {
            Some(Ok(set)) => Some(Named {
                name: set.name.as_str().into(),
                negated: op == "!=",
                table: Rc::new(set.table.clone()),
            }),
            _ => None,
        };
        Ok(Numbers { ranges: Rc::new(ranges), named })
    }

    /// Links by name. The loopback device is none of the router's links.
    fn link(&self, n: usize, op: &str, right: &'a Value) -> Result<Vec<Cond>, Option<String>> {
        let mut numbers = Vec::new();
        let elements = self.elements(right).map_err(Some)?;
        if elements.is_empty() {
            return Err(Some("a set of links is empty".to_owned()));
        }
        for element in elements {
            let name = bare(element).as_str().ok_or(None)?;
            match name.strip_suffix('*').filter(|begins| !begins.ends_with('\\')) {
                Some(begins) => {
                    numbers.extend(self.links.beginning(begins));
                    numbers.push(OTHERS);
                }
                None if name == "lo" => {}
                None => {
                    let why = || Some(format!("a rule file has no place for the link '{name}'"));
                    numbers.push(self.links.number(name).ok_or_else(why)?);
                }
            }
        }
        let ranges = Ranges::new(numbers.into_iter().map(|n| (n, n)).collect());
        let ranges = match op {
            "==" | "in" => ranges,
            "!=" => ranges.not(OTHERS),
            _ => return Err(None),
        };
        match self.knows[n] {
            Knows::Always => {}
            // A packet has no such link here; versions of the kernel differ in what `!=` says then.
            Knows::Never if op != "!=" => return Ok(Vec::new()),
            _ => return Err(None),
        }
        if ranges == Ranges::new(vec![(0, OTHERS)]) {
            return Ok(vec![Cond::default()]);
        }
        let mut cond = Cond::default();
        let is_empty = ranges.is_empty();
        cond.links[n] = Some(Numbers::new(ranges));
        Ok(if is_empty { Vec::new() } else { vec![cond] })
    }

    fn family(&self, op: &str, right: &'a Value) -> Option<Vec<Cond>> {
        let mut has = [false; 2];
        for element in self.elements(right).ok()? {
            match bare(element) {
                Value::String(name) if ["ipv4", "ip"].contains(&name.as_str()) => has[0] = true,
                Value::String(name) if ["ipv6", "ip6"].contains(&name.as_str()) => has[1] = true,
                Value::String(name) if ["arp", "vlan"].contains(&name.as_str()) => {}
                _ => return None,
            }
        }
        match op {
            "==" | "in" => {}
            "!=" => has = has.map(|has| !has),
            _ => return None,
        }
        Some(match has {
            [true, true] => vec![Cond::default()],
            [true, false] => vec![Cond::of_family(Family::Four)],
            [false, true] => vec![Cond::of_family(Family::Six)],
            [false, false] => Vec::new(),
        })
    }

    /// Names of states of connection tracking.
    fn states(&self, right: &'a Value) -> Option<Vec<&'a str>> {
        let all = match right {
            Value::Array(all) => all.as_slice(),
            Value::Object(object) if object.contains_key("|") => object["|"].as_array()?,
            other => self.elements(other).ok()?,
        };
        let known = [(1, "invalid"), (2, "established"), (4, "related"), (8, "new"), (64, "untracked")];
        let name = |element: &'a Value| match bare(element) {
            Value::String(name) => Some(name.as_str()),
            other => known.into_iter().find_map(|(n, name)| (other.as_u64() == Some(n)).then_some(name)),
        };
        all.iter().map(name).collect()
    }

    /// Whether packets in the state that is asked about match.
    fn state(&self, op: &str, right: &'a Value) -> Option<Vec<Cond>> {
        let all = self.states(right)?;
        let is_one = all.contains(&self.state.word());
        let is_single = all.len() == 1 || right.get("set").is_some();
        let holds = match op {
            "in" => is_one,
            "!" => !is_one,
            "==" if is_single => is_one,
            "!=" if is_single => !is_one,
            _ => return None,
        };
        Some(if holds { vec![Cond::default()] } else { Vec::new() })
    }

    /// Whether a match is for packets alone that are in no connection, nor begin one.
    pub(crate) fn is_about_strays(&self, of: &'a Value) -> bool {
        let is_state = of["left"]["ct"]["key"] == "state" && (of["op"] == "==" || of["op"] == "in");
        let stray = |name: &&str| ["invalid", "untracked"].contains(name);
        is_state && self.states(&of["right"]).is_some_and(|all| all.iter().all(stray))
    }

    /// Whether segments in the state that is asked about have such flags; nothing if only some have.
    fn segment(&self, mask: Option<u8>, op: &str, right: &Value) -> Option<bool> {
        let wanted = flags(right)?;
        let all: &[u8] = if self.state == State::New { &OPENING } else { &SOUND };
        let mask = mask.unwrap_or(u8::MAX);
        let (mut holds, mut fails) = (false, false);
        for segment in all {
            let (some, others) = match op {
                "in" | "!" => (segment & wanted != 0, segment & wanted == 0 && wanted & FREE == 0),
                "==" | "!=" => {
                    let is_equal = segment & mask & !FREE == wanted & !FREE;
                    (is_equal, !is_equal || mask & FREE != 0)
                }
                _ => return None,
            };
            let free = ["in", "!"].contains(&op) && wanted & FREE != 0;
            holds |= some || free;
            fails |= others || free && !some;
        }
        match (holds, fails, op.starts_with('!')) {
            (true, true, _) => None,
            (holds, _, is_not) => Some(holds != is_not),
        }
    }
}

/// The same conditions, where those with ports name protocols that have some.
pub(crate) fn with_ports(conds: Vec<Cond>) -> Vec<Cond> {
    let mut all = Vec::with_capacity(conds.len());
    for cond in conds {
        if cond.ports == [None, None] {
            all.push(cond);
            continue;
        }
        all.extend(cond.and(&Cond::of_protocols(&WITH_PORTS)));
        let others: Vec<u8> = (0..=u8::MAX).filter(|number| !WITH_PORTS.contains(number)).collect();
        if let Some(other) = cond.and(&Cond::of_protocols(&others)) {
            let why = "only tcp, udp, sctp and dccp have ports in a rule file";
            all.push(Cond { beyond: Some(why.into()), ports: [None, None], ..other });
        }
    }
    all
}

/// Conditions that meet one of both lists.
pub(crate) fn meet(some: &[Cond], others: &[Cond]) -> Vec<Cond> {
    if some.len() * others.len() > CASES_MAX {
        return vec![Cond::beyond("it becomes too many rules")];
    }
    some.iter().flat_map(|one| others.iter().filter_map(|other| one.and(other))).collect()
}
