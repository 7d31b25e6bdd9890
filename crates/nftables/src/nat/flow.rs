// SPDX-License-Identifier: MIT OR Apache-2.0
//! How packets go through chains of type nat: which rules meet them, and which take them from others.

use std::rc::Rc;

use serde_json::Value;

use super::{Reader, origin};
use crate::cond::{Cond, Family, Numbers};
use crate::matching::{CASES_MAX, meet};
use crate::part::Origin;
use crate::ruleset::{Chain, Rule};
use crate::scope::OTHERS;
use crate::{Effect, text};

/// Rules that are looked at, at most: chains may be reached by several jumps.
pub(super) const VISITS_MAX: usize = 1 << 14;
/// Jumps one in another.
const JUMPS_MAX: usize = 16;

/// Packets that a rule takes from the rules behind it.
#[derive(Default)]
struct Gone {
    /// From those of its chain.
    here: Vec<Cond>,
    /// From those of the chains that jumped there, too.
    everywhere: Vec<Cond>,
}

/// Whether a match asks for an address of the router itself.
fn is_local(of: &Value) -> bool {
    let fib = &of["left"]["fib"];
    fib["result"] == "type"
        && crate::ruleset::has_flag(&fib["flags"], "daddr")
        && of["right"] == "local"
        && of["op"] == "=="
}

/// What is left of packets when those that meet `gone` are. Only links divide packets: others stay as they are.
fn without(left: Vec<Cond>, gone: &Cond) -> Vec<Cond> {
    let rest = |mut cond: Cond| {
        if cond.is_within(gone) {
            return None;
        }
        for n in 0..2 {
            let Some(links) = &gone.links[n] else { continue };
            let mut all = gone.clone();
            all.links[n] = None;
            if cond.is_within(&all) {
                let others = links.ranges.not(OTHERS);
                let own =
                    cond.links[n].as_ref().map_or_else(|| others.clone(), |own| own.ranges.and(&others));
                cond.links[n] = Some(Numbers::new(own));
                return cond.links[n].as_ref().is_some_and(|own| !own.ranges.is_empty()).then_some(cond);
            }
        }
        Some(cond)
    };
    left.into_iter().filter_map(rest).collect()
}

/// Whether a condition asks for links alone.
fn is_by_link(cond: &Cond) -> bool {
    Cond { links: [None, None], ..cond.clone() } == Cond::of_family(Family::Four)
}

/// The statement of a rule that decides, or else the last one that does something.
fn deciding(rule: &Rule) -> Option<(&str, &Value)> {
    const DECIDE: [&str; 10] =
        ["dnat", "snat", "masquerade", "redirect", "accept", "drop", "reject", "return", "jump", "goto"];
    let mut pairs = rule.statements.iter().filter_map(|statement| statement.as_object()?.iter().next());
    let is_quiet = |key: &str| ["match", "counter", "log", "comment"].contains(&key);
    let decides = pairs.clone().rfind(|(key, _)| DECIDE.contains(&key.as_str()) || *key == "vmap");
    let found = decides.or_else(|| pairs.rfind(|(key, _)| !is_quiet(key)));
    found.map(|(key, value)| (key.as_str(), value))
}

/// Whether a chain ends some packets itself, or sends them on to one that may.
fn decides(chain: &Chain) -> bool {
    let keys = ["accept", "goto", "jump", "vmap"];
    let mut statements = chain.rules.iter().flat_map(|rule| &rule.statements);
    statements.any(|statement| keys.iter().any(|key| statement.get(key).is_some()))
}

impl<'a> Reader<'a, '_> {
    /// The rules of a chain. Returns the packets that it does not give back to the chain that jumped to it.
    pub(super) fn chain(&mut self, chain: &'a Chain, conds: &[Cond], local: bool, depth: usize) -> Vec<Cond> {
        let mut left = conds.to_vec();
        let mut everywhere = Vec::new();
        for rule in &chain.rules {
            self.out.visits += 1;
            if self.out.visits > VISITS_MAX || left.is_empty() {
                break;
            }
            let gone = self.rule(rule, &left, local, depth);
            for one in gone.here.iter().chain(&gone.everywhere) {
                self.out.visits += left.len() / CASES_MAX;
                left = without(left, one);
            }
            self.out.visits += gone.everywhere.len() / CASES_MAX;
            everywhere.extend(gone.everywhere);
        }
        everywhere
    }

    fn rule(&mut self, rule: &'a Rule, conds: &[Cond], local: bool, depth: usize) -> Gone {
        let origin = origin(rule);
        let (mut own, mut is_for_local) = (conds.to_vec(), local);
        for statement in &rule.statements {
            let Some((key, value)) = statement.as_object().and_then(|object| object.iter().next()) else {
                self.leave(&origin, Effect::Narrower, "its JSON is not understood");
                return Gone::default();
            };
            match key.as_str() {
                "match" if is_local(value) => is_for_local = true,
                "match" => own = meet(&own, &self.scope.conditions(value)),
                "limit" | "quota" | "ct count" | "set" | "meter" | "xt" => {
                    let words = text::rule(std::slice::from_ref(statement));
                    own = meet(&own, &[Cond::beyond(format!("a rule file cannot say `{words}`"))]);
                }
                _ => {}
            }
        }
        let Some((key, value)) = deciding(rule).filter(|_| !own.is_empty()) else { return Gone::default() };
        if let Some(why) = own.iter().find_map(|cond| cond.beyond.clone()) {
            self.leave(&origin, self.missing(key, value), &why);
            return Gone::default();
        }
        let gone = self.decided(&own, (key, value), [local, is_for_local], depth, &origin);
        // Conditions do not say that packets are for the router itself.
        if is_for_local == local { gone } else { Gone::default() }
    }

    /// What the absence of a rule does. Without an exception, rules behind it translate more packets.
    fn missing(&self, key: &str, value: &Value) -> Effect {
        let target =
            value["target"].as_str().and_then(|name| self.scope.ruleset.named(&self.scope.table, name));
        match key {
            "accept" | "return" | "goto" | "vmap" => Effect::Wider,
            "jump" if target.is_none_or(decides) => Effect::Wider,
            _ => Effect::Narrower,
        }
    }

    /// What a rule decides about its packets. `local`: whether the chain and the rule are for the router itself.
    fn decided(
        &mut self,
        own: &[Cond],
        (key, value): (&str, &'a Value),
        [is_chain_local, local]: [bool; 2],
        depth: usize,
        origin: &Rc<Origin>,
    ) -> Gone {
        let here = own.to_vec();
        match key {
            "jump" | "goto" => {
                let target = value["target"].as_str().unwrap_or_default();
                let ruleset = self.scope.ruleset;
                let everywhere = match ruleset.named(&self.scope.table, target).filter(|_| depth < JUMPS_MAX)
                {
                    Some(target) => self.chain(target, own, local, depth + 1),
                    None => {
                        self.leave(origin, Effect::Wider, "the chain cannot be followed");
                        Vec::new()
                    }
                };
                if key == "jump" {
                    return Gone { here: Vec::new(), everywhere };
                }
                if !here.iter().all(is_by_link) {
                    self.leave(origin, Effect::Wider, "rules behind it hold for its packets, too");
                }
                return Gone { here, everywhere };
            }
            "return" | "accept" => {
                let is_whole = local == is_chain_local && (key == "return" || !local);
                own.iter().for_each(|cond| self.exempt(cond, is_whole, origin));
                let everywhere = if key == "accept" { here.clone() } else { Vec::new() };
                return Gone { here, everywhere };
            }
            "dnat" => own.iter().for_each(|cond| self.destination(cond, local, value, origin)),
            "snat" | "masquerade" => own.iter().for_each(|cond| self.source(cond, key, value, origin)),
            "redirect" => self.leave(origin, Effect::Narrower, "nothing leads to the router itself"),
            // They are named with the rules of the firewall.
            "drop" | "reject" => {}
            _ => {
                let why = "a file of statements has nothing like it";
                self.leave(origin, self.missing(key, value), why);
                return Gone::default();
            }
        }
        // A translation ends the chain, and so does its refusal.
        Gone { everywhere: here, ..Gone::default() }
    }
}
