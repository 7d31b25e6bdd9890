// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the statements of a rule to conditions and verdicts.

use serde_json::Value;

use crate::cond::{Cond, Family, Limit, PerSource, TCP};
use crate::matching::{CASES_MAX, bare, implied, is_inside, meet, with_ports};
use crate::ruleset::Rule;
use crate::scope::Scope;
use crate::{Effect, text};

/// Where packets go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accept,
    Drop,
    /// With the words of a rule file.
    Reject(&'static str),
    Return,
    Jump(String),
    Goto(String),
    /// With the next rule.
    Continue,
    /// Something that a rule file does not have decides.
    Elsewhere(String),
}

/// Packets of a rule, and where they go on.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) conds: Vec<Cond>,
    pub(crate) verdict: Verdict,
}

/// A rule.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parsed {
    pub(crate) cases: Vec<Case>,
    pub(crate) log: Option<String>,
    /// The rule is for packets that are more than this allows.
    pub(crate) over: Option<Cond>,
    /// What it does besides that is left out, and what passes without it.
    pub(crate) left_out: Vec<(Effect, String)>,
    /// It is for packets that are never in a connection.
    pub(crate) strays: bool,
}

impl Parsed {
    /// The rule is for what is more than a limit. It can be so once.
    fn is_more_than(&mut self, limit: Cond, conds: &mut Vec<Cond>) {
        if self.over.replace(limit).is_some() {
            *conds = meet(conds, &[Cond::beyond("two limits hold for it")]);
        }
    }
}

/// A rule that is being read.
struct Draft {
    /// The number of the rule.
    number: usize,
    parsed: Parsed,
    conds: Vec<Cond>,
    decided: Option<Verdict>,
}

/// Statements that decide nothing, and what passes without them.
const SIDE_EFFECTS: [(&str, Effect); 11] = [
    ("mangle", Effect::Same),
    ("flow", Effect::Same),
    ("dup", Effect::Same),
    ("secmark", Effect::Same),
    ("ct timeout", Effect::Same),
    ("meta", Effect::Same),
    ("tcp option", Effect::Same),
    ("map", Effect::Same),
    // Related connections, of FTP for example, are not known here.
    ("ct helper", Effect::Narrower),
    ("ct expectation", Effect::Narrower),
    // The firewall tracks these packets, so rules for `ct state new` meet them.
    ("notrack", Effect::Wider),
];

fn side_effect(key: &str) -> Option<Effect> {
    SIDE_EFFECTS.iter().find(|(other, _)| *other == key).map(|(_, effect)| *effect)
}

/// A verdict with its words: `{"jump": {"target": "x"}}`.
fn verdict(key: &str, value: &Value) -> Option<Verdict> {
    let target = || value["target"].as_str().unwrap_or_default().to_owned();
    Some(match key {
        "accept" => Verdict::Accept,
        "drop" => Verdict::Drop,
        "reject" => Verdict::Reject(answer(value)),
        "return" => Verdict::Return,
        "continue" => Verdict::Continue,
        "jump" => Verdict::Jump(target()),
        "goto" => Verdict::Goto(target()),
        _ => return None,
    })
}

/// The word for the error that a sender gets.
fn answer(reject: &Value) -> &'static str {
    match (reject["type"].as_str(), reject["expr"].as_str()) {
        (Some("tcp reset"), _) => "reject",
        (_, Some("host-unreachable" | "addr-unreachable")) => "reject with host",
        (_, Some("net-unreachable" | "no-route" | "reject-route")) => "reject with network",
        (_, Some("admin-prohibited" | "host-prohibited" | "net-prohibited" | "policy-fail")) => {
            "reject with prohibited"
        }
        _ => "reject with port",
    }
}

/// The packets that a reject of this type is for: a listing leaves out a match that says the same.
fn answerable(key: &str, reject: &Value) -> Cond {
    match reject["type"].as_str().filter(|_| key == "reject") {
        Some("icmp") => Cond::of_family(Family::Four),
        Some("icmpv6") => Cond::of_family(Family::Six),
        Some("tcp reset") => Cond::of_protocols(&[TCP]),
        _ => Cond::default(),
    }
}

/// A limit as rule files write it, if they can.
fn limit(value: &Value, rule: usize) -> Option<Limit> {
    let is_packets = |unit: &Value| unit.is_null() || unit == "packets";
    let number = value["rate"].as_u64().and_then(|rate| u32::try_from(rate).ok()).filter(|rate| *rate > 0)?;
    let (number, per) = match value["per"].as_str()? {
        "second" => (number, 's'),
        "minute" => (number, 'm'),
        "hour" => (number, 'h'),
        "day" => (number, 'd'),
        _ => return None,
    };
    // The kernel has five packets of room where a rule does not say.
    let burst = value["burst"].as_u64().map_or(Some(5), |burst| u32::try_from(burst).ok())?;
    (is_packets(&value["rate_unit"]) && is_packets(&value["burst_unit"])).then_some(Limit {
        number,
        per,
        burst: burst.max(1),
        rule,
    })
}

impl<'a> Scope<'a> {
    /// What a rule says, for packets of the state that is asked about.
    pub(crate) fn parse(&self, rule: &'a Rule) -> Parsed {
        let mut draft = Draft {
            number: rule.number,
            parsed: Parsed::default(),
            conds: vec![Cond::default()],
            decided: None,
        };
        for statement in &rule.statements {
            self.statement(&mut draft, statement);
        }
        let Draft { mut parsed, conds, decided, .. } = draft;
        let is_unknown = conds.iter().any(|cond| cond.beyond.is_some());
        let verdict = match decided {
            Some(verdict) => verdict,
            // An extension of iptables may decide by itself.
            None if is_unknown && rule.statements.iter().any(is_foreign) => {
                Verdict::Elsewhere("an extension of iptables may decide".to_owned())
            }
            None => Verdict::Continue,
        };
        parsed.cases.push(Case { conds, verdict });
        for case in &mut parsed.cases {
            case.conds = with_ports(std::mem::take(&mut case.conds));
        }
        parsed
    }

    fn statement(&self, draft: &mut Draft, statement: &'a Value) {
        let Draft { number, parsed, conds, decided } = draft;
        let Some((key, value)) = statement.as_object().and_then(|object| object.iter().next()) else {
            decided.get_or_insert(Verdict::Elsewhere("its JSON is not understood".to_owned()));
            return;
        };
        let words = || text::rule(std::slice::from_ref(statement));
        let unsaid = || format!("a rule file cannot say `{}`", words());
        match key.as_str() {
            "match" => {
                *conds = meet(conds, &self.conditions(value));
                parsed.strays |= self.is_about_strays(value);
            }
            "counter" | "comment" | "last" => {}
            "log" => parsed.log = Some(value["prefix"].as_str().unwrap_or_default().to_owned()),
            "limit" => match limit(value, *number) {
                Some(limit) => {
                    let cond = Cond { limit: Some(limit), ..Cond::default() };
                    if value["inv"] == true {
                        parsed.is_more_than(cond, conds);
                    } else {
                        *conds = meet(conds, &[cond]);
                    }
                }
                // A limit with a name is shared between rules.
                None => {
                    let named = value.as_str().and_then(|name| self.ruleset.limit(&self.table, name));
                    let why = named.map_or_else(unsaid, |limit| {
                        format!("{}, which is `{}`", unsaid(), text::limit(limit))
                    });
                    *conds = meet(conds, &[Cond::beyond(why)]);
                }
            },
            "meter" | "set" => match per_source(key, value, *number) {
                Some(cond) => parsed.is_more_than(cond, conds),
                None => *conds = meet(conds, &[Cond::beyond(unsaid())]),
            },
            "vmap" => {
                self.map(parsed, conds, value);
                *decided = Some(Verdict::Continue);
            }
            "queue" | "fwd" | "tproxy" | "synproxy" => {
                decided.get_or_insert(Verdict::Elsewhere(unsaid()));
            }
            // What follows would see other headers.
            "mangle" if value["key"].get("payload").is_some() => {
                decided.get_or_insert(Verdict::Elsewhere(unsaid()));
            }
            key => match (side_effect(key), verdict(key, value)) {
                (Some(effect), _) => parsed.left_out.push((effect, words())),
                (None, Some(found)) => {
                    *conds = meet(conds, &[answerable(key, value)]);
                    *decided = Some(found);
                }
                (None, None) => *conds = meet(conds, &[Cond::beyond(unsaid())]),
            },
        }
    }

    /// A case for each verdict of a map.
    fn map(&self, parsed: &mut Parsed, conds: &[Cond], map: &'a Value) {
        let fail = |parsed: &mut Parsed, why: String| {
            let conds = meet(conds, &[Cond::beyond(why.clone())]);
            parsed.cases.push(Case { conds, verdict: Verdict::Elsewhere(why) });
        };
        let elements = match self.few(&map["data"]) {
            Ok(elements) if elements.len() <= CASES_MAX => elements,
            Ok(_) => return fail(parsed, format!("a map of more than {CASES_MAX} verdicts")),
            Err(why) => return fail(parsed, why),
        };
        let mut last = None;
        for element in elements {
            let pair = element.as_array().map(Vec::as_slice);
            let Some([value, what]) = pair else {
                return fail(parsed, "the map's JSON is not understood".to_owned());
            };
            let (value, what) = (bare(value), bare(what));
            let found = what.as_object().and_then(|object| object.iter().next());
            let Some(verdict) = found.and_then(|(key, value)| verdict(key, value)) else {
                return fail(parsed, "the map has no verdicts".to_owned());
            };
            // What stands for all others comes last.
            let key = &map["key"];
            if value == "*" {
                last = Some(Case { conds: meet(conds, &[implied(key)]), verdict });
                continue;
            }
            let wanted = match key["concat"].as_array().zip(value["concat"].as_array()) {
                Some((keys, values)) if keys.len() == values.len() => {
                    let each = keys.iter().zip(values).map(|(key, value)| self.compare(key, "==", value));
                    each.fold(vec![Cond::default()], |all, more| meet(&all, &more))
                }
                Some(_) => return fail(parsed, "the map's JSON is not understood".to_owned()),
                None if key["ct"]["key"] == "state" => self.compare(key, "in", value),
                None => self.compare(key, "==", value),
            };
            parsed.cases.push(Case { conds: meet(conds, &wanted), verdict });
        }
        parsed.cases.extend(last);
    }
}

/// Whether a statement is an extension of iptables.
fn is_foreign(statement: &Value) -> bool {
    const KNOWN: [&str; 6] = ["match", "counter", "limit", "log", "set", "meter"];
    let known = |key: &String| KNOWN.contains(&key.as_str()) || side_effect(key).is_some();
    !statement.as_object().is_some_and(|object| object.keys().next().is_some_and(known))
}

/// More than so many connections of one source.
fn per_source(key: &str, value: &Value, rule: usize) -> Option<Cond> {
    let (element, each) = match key {
        "meter" => (&value["key"], &value["stmt"]),
        _ => (&value["elem"], &value["stmt"]),
    };
    let each = match each {
        Value::Array(all) if all.len() == 1 => &all[0],
        other => other,
    };
    let count = each.get("ct count").filter(|count| count["inv"] == true)?;
    let most = count["val"].as_u64().and_then(|most| u32::try_from(most).ok()).filter(|most| *most > 0)?;
    let field = &bare(element)["payload"];
    if is_inside(bare(element)) {
        return None;
    }
    let family = match (field["protocol"].as_str()?, field["field"].as_str()?) {
        ("ip", "saddr") => Family::Four,
        ("ip6", "saddr") => Family::Six,
        _ => return None,
    };
    Some(Cond { per_source: Some(PerSource { most, rule }), ..Cond::of_family(family) })
}
