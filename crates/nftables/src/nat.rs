// SPDX-License-Identifier: MIT OR Apache-2.0
//! Address translation: chains of type nat become statements of a second file.

mod flow;

use std::collections::BTreeSet;
use std::rc::Rc;

use serde_json::Value;

use crate::cond::{Cond, Family, Numbers, TCP, UDP};
use crate::matching::{addresses, bare, meet};
use crate::part::Origin;
use crate::ranges::Ranges;
use crate::ruleset::{Chain, Rule, Ruleset};
use crate::scope::{Knows, Links, OTHERS, Scope, Section, State};
use crate::write::{addresses as listed, only_address};
use crate::{Effect, Finding, Options, Place, Refused, text};
use flow::VISITS_MAX;

/// Ports that all lead to one port, at most: each is a statement.
const PORTS_MAX: u128 = 64;
/// Times that statements are looked at together: what is wrong is left out each time.
const ROUNDS: usize = 16;
/// What rules with a link become.
const LINKS: &str = "statements hold for all links between inside and outside";

/// A statement and where it comes from.
pub(crate) struct Statement {
    pub(crate) text: String,
    pub(crate) origin: Rc<Origin>,
}

/// What chains of type nat become.
#[derive(Default)]
pub(crate) struct Translated {
    pub(crate) statements: Vec<Statement>,
    pub(crate) findings: Vec<Finding>,
    /// Outside links that rules name.
    pub(crate) outside: BTreeSet<String>,
    /// Sources of one address, with the number of the statement: with its counterpart each is a static translation.
    sources: Vec<([u32; 2], usize)>,
    /// Destinations of one address for all protocols.
    destinations: Vec<([u32; 2], Rc<Origin>)>,
    /// Sources that earlier rules translate.
    translated: Vec<Numbers>,
    /// The links of [`Translated::outside`] by number, and perhaps all that no rule names.
    outside_links: Ranges,
    visits: usize,
}

struct Reader<'a, 'o> {
    scope: Scope<'a>,
    options: &'o Options,
    out: &'o mut Translated,
}

/// Translates the chains at prerouting and postrouting.
///
/// # Errors
/// Jumps lead to too many rules.
pub(crate) fn translate(ruleset: &Ruleset, links: &Links, options: &Options) -> Result<Translated, Refused> {
    // Postrouting names the outside links, which forwards depend on. Forwards come first in the file.
    let mut later = at_hooks(ruleset, links, options, &["postrouting"], Ranges::default())?;
    let outside = std::mem::take(&mut later.outside_links);
    let mut out = at_hooks(ruleset, links, options, &["prerouting"], outside)?;
    let before = out.statements.len();
    out.statements.append(&mut later.statements);
    out.sources.extend(later.sources.iter().map(|(both, at)| (*both, at + before)));
    out.findings.append(&mut later.findings);
    out.outside = later.outside;
    let mut own = at_hooks(ruleset, links, options, &["input", "output"], Ranges::default())?;
    out.findings.append(&mut own.findings);
    out.pair_up();
    Ok(out)
}

/// Translates the chains at some hooks.
fn at_hooks(
    ruleset: &Ruleset,
    links: &Links,
    options: &Options,
    hooks: &[&str],
    outside_links: Ranges,
) -> Result<Translated, Refused> {
    let mut out = Translated { outside_links, ..Translated::default() };
    for hook in hooks {
        for chain in ruleset.at(hook, &["nat"]) {
            // Addresses are translated where packets pass the router; links are known in any chain of NAT.
            let mut scope = Scope::of(ruleset, links, chain, Section::Through, State::New);
            (scope.knows, scope.translated) = ([Knows::Always; 2], [false; 2]);
            scope.knows_macs = false;
            let is_own = ["input", "output"].contains(hook);
            let mut reader = Reader { scope, options, out: &mut out };
            if chain.table.0 == "ip6" || is_own {
                let why = match is_own {
                    true => "packets of the router itself are not translated",
                    false => "translation is for IPv4 addresses",
                };
                chain.rules.iter().for_each(|rule| reader.leave(&origin(rule), Effect::Same, why));
                continue;
            }
            reader.chain(chain, &[Cond::of_family(Family::Four)], false, 0);
            if out.visits > VISITS_MAX {
                let what = "rules of address translation when chains are written out";
                return Err(Refused::TooMany { what, most: VISITS_MAX });
            }
        }
    }
    Ok(out)
}

fn origin(rule: &Rule) -> Rc<Origin> {
    let text = text::rule(&rule.statements);
    Rc::new(Origin { place: rule.place.clone(), text, comment: rule.comment.clone() })
}

impl Translated {
    /// A source and a destination that become each other are a static translation.
    fn pair_up(&mut self) {
        for (both, origin) in std::mem::take(&mut self.destinations) {
            let [inside, outside] = both.map(std::net::Ipv4Addr::from);
            let text = format!("static {inside} to {outside}");
            match self.sources.iter().find(|(other, _)| *other == both) {
                Some((_, statement)) => self.statements[*statement].text = text,
                None => {
                    let why = format!("`{text}` would translate what {inside} sends, too: no rule does that");
                    self.findings.push(Finding::new(&origin, Effect::Narrower, &why));
                }
            }
        }
    }
}

impl<'a> Reader<'a, '_> {
    fn leave(&mut self, origin: &Rc<Origin>, effect: Effect, why: &str) {
        self.out.findings.push(Finding::new(origin, effect, why));
    }

    fn say(&mut self, text: String, origin: &Rc<Origin>) {
        self.out.statements.push(Statement { text, origin: Rc::clone(origin) });
    }

    /// `snat` and `masquerade`.
    fn source(&mut self, cond: &Cond, key: &str, value: &Value, origin: &Rc<Origin>) {
        let is_plain = cond.ports == [None, None] && cond.icmp == [None, None] && cond.links[0].is_none();
        let both = Cond::of_protocols(&[TCP, UDP]);
        let is_for_most = Cond { protocols: both.protocols, ..Cond::default() }
            .is_within(&Cond { protocols: cond.protocols.clone(), ..Cond::default() });
        if !is_plain || !is_for_most {
            return self.leave(
                origin,
                Effect::Narrower,
                "a translation is for all packets of its inside addresses",
            );
        }
        self.leads_outside(cond);
        let outside = match self.outside(key, value) {
            Ok(outside) => outside,
            Err(why) => return self.leave(origin, Effect::Narrower, &why),
        };
        let inside = match (&cond.sides[0], &self.options.inside) {
            (Some(inside), _) => inside.clone(),
            (None, Some(inside)) => Numbers::new(Ranges::new(
                inside
                    .iter()
                    .filter_map(|text| addresses(&Value::from(text.as_str()), Family::Four))
                    .collect(),
            )),
            (None, None) => {
                let why = "it is for all addresses: say which are inside with --inside";
                return self.leave(origin, Effect::Narrower, why);
            }
        };
        if let Some(to) = &cond.sides[1] {
            // All but some destinations are translated: those are exempt.
            let others = to.ranges.not(Family::Four.most());
            if others.len() > to.ranges.len() || others.is_empty() {
                return self.leave(origin, Effect::Narrower, "a translation is for all destinations");
            }
            let others = listed(&Numbers::new(others), Family::Four);
            self.say(format!("exempt {} to {others}", listed(&inside, Family::Four)), origin);
        }
        if let (Some(one), Ok(to), None) =
            (only_address(&inside), outside.parse::<std::net::Ipv4Addr>(), &cond.protocols)
        {
            self.out.sources.push(([one.into(), to.into()], self.out.statements.len()));
        }
        let text = format!("translate {} to {outside}", listed(&inside, Family::Four));
        self.out.translated.push(inside);
        self.say(text, origin);
    }

    /// Notes the links by which translated packets go.
    fn leads_outside(&mut self, cond: &Cond) {
        let Some(links) = &cond.links[1] else { return };
        self.out.outside_links =
            Ranges::new(self.out.outside_links.iter().chain(links.ranges.iter()).collect());
        if !links.ranges.holds(OTHERS) {
            let names = self.scope.links.names();
            let named = (0..).zip(&names).filter(|(n, _)| links.ranges.holds(*n));
            self.out.outside.extend(named.map(|(_, name)| name.clone()));
        }
    }

    /// The outside addresses of a statement, with their ports.
    fn outside(&self, key: &str, value: &Value) -> Result<String, String> {
        let ports = match &value["port"] {
            Value::Null => String::new(),
            Value::Number(port) => format!(" ports {port}-{port}"),
            port => match port["range"].as_array().map(Vec::as_slice) {
                Some([low, high]) if low.is_u64() && high.is_u64() => format!(" ports {low}-{high}"),
                _ => return Err("the outside ports are not understood".to_owned()),
            },
        };
        if key == "masquerade" {
            let Some(outside) = self.options.outside else {
                return Err("the outside address is that of the link: write it with --outside".to_owned());
            };
            return Ok(format!("{outside}{ports}"));
        }
        match addresses(&value["addr"], Family::Four) {
            Some(range) => {
                let numbers = Numbers::new(Ranges::new(vec![range]));
                Ok(listed(&numbers, Family::Four) + &ports)
            }
            None => Err("the outside address comes from a map, or is not IPv4".to_owned()),
        }
    }

    /// Packets that earlier rules leave alone. `is_whole`: the rules behind know without those that differ in links.
    fn exempt(&mut self, cond: &Cond, is_whole: bool, origin: &Rc<Origin>) {
        let hook = |chain: &Chain| chain.base.as_ref().is_some_and(|base| base.hook == "postrouting");
        let is_post =
            self.scope.ruleset.at("postrouting", &["nat"]).iter().any(|chain| {
                hook(chain) && chain.name == origin.place.chain && chain.table == *self.scope.table
            });
        let is_plain = cond.ports == [None, None] && cond.protocols.is_none() && cond.icmp == [None, None];
        let (Some(from), Some(to), true, true) = (&cond.sides[0], &cond.sides[1], is_post, is_plain) else {
            let only_links = is_whole && is_plain && cond.sides == [None, None];
            if only_links && cond.links == [None, None] {
                return;
            }
            let effect = if only_links { Effect::Same } else { Effect::Wider };
            return self.leave(
                origin,
                effect,
                if only_links { LINKS } else { "only packets of addresses to others are exempt" },
            );
        };
        if self.out.translated.iter().any(|inside| !inside.ranges.and(&from.ranges).is_empty()) {
            let why = "an earlier rule translates these packets; `exempt` would hold for them, too";
            return self.leave(origin, Effect::Narrower, why);
        }
        let text = format!("exempt {} to {}", listed(from, Family::Four), listed(to, Family::Four));
        self.say(text, origin);
    }

    /// `dnat`.
    fn destination(&mut self, cond: &Cond, local: bool, value: &'a Value, origin: &Rc<Origin>) {
        if cond.sides[0].is_some() || cond.ports[0].is_some() || cond.icmp != [None, None] {
            return self.leave(origin, Effect::Narrower, "a forward is for all sources");
        }
        let Some(map) = value["addr"].get("map") else {
            return self.forward(cond, local, &value["addr"], &value["port"], origin);
        };
        let elements = match self.scope.elements(&map["data"]) {
            Ok(elements) => elements,
            Err(why) => return self.leave(origin, Effect::Narrower, &why),
        };
        for element in elements {
            let Some([wanted, to]) = element.as_array().map(Vec::as_slice) else {
                return self.leave(origin, Effect::Narrower, "the map's JSON is not understood");
            };
            let (key, wanted, to) = (&map["key"], bare(wanted), bare(to));
            let conds = match key["concat"].as_array().zip(wanted["concat"].as_array()) {
                Some((keys, values)) if keys.len() == values.len() => keys
                    .iter()
                    .zip(values)
                    .fold(vec![cond.clone()], |all, (k, v)| meet(&all, &self.scope.compare(k, "==", v))),
                _ => meet(std::slice::from_ref(cond), &self.scope.compare(key, "==", wanted)),
            };
            let (address, port) = match to["concat"].as_array().map(Vec::as_slice) {
                Some([address, port]) => (address, port),
                _ => (to, &value["port"]),
            };
            for cond in &conds {
                match &cond.beyond {
                    Some(why) => self.leave(origin, Effect::Narrower, why),
                    None => self.forward(cond, local, address, port, origin),
                }
            }
        }
    }

    fn forward(&mut self, cond: &Cond, local: bool, address: &Value, port: &Value, origin: &Rc<Origin>) {
        let outside = &self.out.outside_links;
        if cond.links[0].as_ref().is_some_and(|links| outside.is_empty() || !outside.is_within(&links.ranges))
        {
            let why = "a forward is for all outside links, and it is not known that this one is: \
                       name them with `oifname` in rules that translate, or leave out `iifname` here";
            return self.leave(origin, Effect::Narrower, why);
        }
        let inside = addresses(address, Family::Four).filter(|(first, last)| first == last);
        let Some(inside) = inside.and_then(|(first, _)| u32::try_from(first).ok()) else {
            return self.leave(origin, Effect::Narrower, "a forward leads to one IPv4 address");
        };
        let outside = match &cond.sides[1] {
            Some(numbers) => match only_address(numbers) {
                Some(outside) => Some(outside),
                None => return self.leave(origin, Effect::Narrower, "a forward is for one outside address"),
            },
            None if local => self.options.outside,
            None => None,
        };
        let (None, None, true) = (&cond.protocols, &cond.ports[1], port.is_null()) else {
            return self.ports(cond, outside, inside, port, origin);
        };
        match outside {
            Some(outside) => self.out.destinations.push(([inside, outside.into()], Rc::clone(origin))),
            None => self.leave(origin, Effect::Narrower, "a forward is for ports of TCP or UDP"),
        }
    }

    fn ports(
        &mut self,
        cond: &Cond,
        outside: Option<std::net::Ipv4Addr>,
        inside: u32,
        port: &Value,
        origin: &Rc<Origin>,
    ) {
        let usual = Cond::of_protocols(&[TCP, UDP]);
        let protocols = cond
            .protocols
            .as_ref()
            .filter(|all| usual.protocols.as_ref().is_some_and(|usual| all.ranges.is_within(&usual.ranges)));
        let (Some(protocols), Some(ports)) = (protocols, &cond.ports[1]) else {
            return self.leave(origin, Effect::Narrower, "a forward is for ports of TCP or UDP");
        };
        let fixed = match port {
            Value::Null => None,
            other => match other.as_u64().and_then(|port| u16::try_from(port).ok()) {
                Some(port) => Some(port),
                None => {
                    return self.leave(
                        origin,
                        Effect::Narrower,
                        "a forward leads to one port, or to the same ones",
                    );
                }
            },
        };
        if fixed.is_some() && ports.ranges.count(PORTS_MAX + 1) > PORTS_MAX {
            return self.leave(origin, Effect::Narrower, "too many ports lead to one");
        }
        let on = outside.map(|outside| format!(" on {outside}")).unwrap_or_default();
        let inside = std::net::Ipv4Addr::from(inside);
        for (number, word) in [(TCP, "tcp"), (UDP, "udp")] {
            if !protocols.ranges.holds(number.into()) {
                continue;
            }
            for (low, high) in ports.ranges.iter() {
                match fixed {
                    None if low == high => self.say(format!("forward {word} {low}{on} to {inside}"), origin),
                    None => self.say(format!("forward {word} {low}-{high}{on} to {inside}"), origin),
                    Some(to) => {
                        for port in low..=high {
                            self.say(format!("forward {word} {port}{on} to {inside} port {to}"), origin);
                        }
                    }
                }
            }
        }
    }
}

/// The text of a file with these statements. Those that do not go together with others become remarks.
pub(crate) fn write(translated: &mut Translated) -> String {
    let statements = std::mem::take(&mut translated.statements);
    let mut wrong: std::collections::BTreeMap<usize, String> = std::collections::BTreeMap::new();
    let mut seen = BTreeSet::new();
    let all: Vec<Statement> = statements.into_iter().filter(|one| seen.insert(one.text.clone())).collect();
    // Without those that are wrong, others may be wrong: a forward whose outside address is gone.
    for round in 0..=ROUNDS {
        if round == ROUNDS {
            wrong.extend((0..all.len()).map(|n| (n, "the statements contradict each other".to_owned())));
            break;
        }
        let line = |(n, one): (usize, &Statement)| match wrong.contains_key(&n) {
            true => "\n".to_owned(),
            false => format!("{}\n", one.text),
        };
        let reading = ::nat::read("import", &all.iter().enumerate().map(line).collect::<String>());
        if reading.policy.is_some() {
            break;
        }
        for fault in &reading.diagnostics {
            let start = fault.span.map_or(0, |span| span.start as usize);
            let at = reading.sources.text(0)[..start].matches('\n').count();
            wrong
                .entry(at)
                .or_insert_with(|| format!("{}: {}", fault.message, fault.help.clone().unwrap_or_default()));
        }
    }
    let mut text = String::new();
    let mut last: Option<&Place> = None;
    for (n, one) in all.iter().enumerate() {
        if last != Some(&one.origin.place) {
            text += &format!("# {}: {}\n", one.origin.place, one.origin.text);
            last = Some(&one.origin.place);
        }
        match wrong.get(&n) {
            None => text += &format!("{}\n", one.text),
            Some(why) => {
                text += &format!("# {}\n", one.text);
                translated.findings.push(Finding::new(&one.origin, Effect::Narrower, why));
            }
        }
    }
    text
}
