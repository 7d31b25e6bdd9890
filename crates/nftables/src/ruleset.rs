// SPDX-License-Identifier: MIT OR Apache-2.0
//! The objects of a listing: tables, chains, rules, sets and maps.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::cond::Numbers;
use crate::matching::{Kind, bare};
use crate::{Place, Refused};

/// Rules at most.
const RULES_MAX: usize = 1 << 18;

/// Elements of sets that are looked at for rules, at most. A set with a name counts once for each way to use it.
const ELEMENTS_MAX: usize = 1 << 25;

/// A family and the name of a table in it.
pub(crate) type Table = (String, String);

/// A rule of a listing.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Its number in the listing.
    pub(crate) number: usize,
    pub(crate) place: Place,
    pub(crate) comment: Option<String>,
    pub(crate) statements: Vec<Value>,
}

/// Where packets meet a base chain.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) kind: String,
    pub(crate) hook: String,
    pub(crate) priority: i64,
    /// Whether its policy is drop.
    pub(crate) drops: bool,
}

/// A chain with its rules.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) table: Table,
    pub(crate) name: String,
    pub(crate) handle: Option<u64>,
    pub(crate) base: Option<Base>,
    pub(crate) rules: Vec<Rule>,
}

/// Whether it is the elements or all others, what they stand for, and their numbers.
type Converted = ((bool, Kind), Option<Numbers>);

/// A set or a map.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) table: Table,
    pub(crate) elements: Vec<Value>,
    /// Packets or time add and remove elements.
    pub(crate) changes: bool,
    /// Elements match only within a limit.
    pub(crate) is_limited: bool,
    /// Where a map sends packets.
    verdicts: Verdicts,
    /// The numbers of its elements as they are, and all others; none where they are none of the kind.
    converted: RefCell<Vec<Converted>>,
}

impl Set {
    /// The numbers for a comparison, converted once.
    ///
    /// # Errors
    /// There are none, perhaps with a reason.
    pub(crate) fn numbers(
        &self,
        (op, kind): (&str, Kind),
        convert: impl FnOnce() -> Result<Numbers, Option<String>>,
    ) -> Result<Numbers, Option<String>> {
        let key = match op {
            "==" | "in" => (true, kind),
            "!=" => (false, kind),
            _ => return convert(),
        };
        let known = |one: &Converted| (one.0 == key).then(|| one.1.clone());
        let found = self.converted.borrow().iter().find_map(known);
        if let Some(numbers) = found {
            return numbers.ok_or(None);
        }
        let numbers = convert();
        self.converted.borrow_mut().push((key, numbers.as_ref().ok().cloned()));
        numbers
    }
}

/// Verdicts that rules depend on.
#[derive(Debug, Default)]
struct Verdicts {
    /// One drops or rejects.
    refuse: bool,
    /// Chains that some jump to.
    targets: Vec<String>,
}

/// A listing.
#[derive(Debug, Default)]
pub(crate) struct Ruleset {
    chains: Vec<Chain>,
    names: HashMap<(Table, String), usize>,
    sets: HashMap<(Table, String), Set>,
    /// Limits with a name.
    limits: HashMap<(Table, String), Value>,
    /// Tables that are switched off.
    pub(crate) dormant: Vec<Table>,
    /// Rules that were read.
    rules: usize,
    /// Elements of sets that were looked at for rules.
    spent: Cell<usize>,
}

fn text(object: &Value, key: &str) -> String {
    object[key].as_str().unwrap_or_default().to_owned()
}

impl Verdicts {
    fn add(&mut self, verdict: &Value) {
        self.refuse |= ["drop", "reject"].iter().any(|key| verdict.get(key).is_some());
        let targets = ["jump", "goto"].into_iter().filter_map(|key| verdict[key]["target"].as_str());
        self.targets.extend(targets.map(str::to_owned));
    }

    /// Those of a map.
    fn of(elements: &[Value]) -> Verdicts {
        let mut verdicts = Verdicts::default();
        elements.iter().filter_map(|element| element.get(1)).for_each(|one| verdicts.add(bare(one)));
        verdicts
    }
}

/// Whether something may keep an element of a set from matching, as a limit or a quota.
pub(crate) fn is_limited(element: &Value) -> bool {
    const FREE: [&str; 5] = ["val", "timeout", "expires", "comment", "counter"];
    let own = |value: &Value| {
        let parts = value["elem"].as_object().into_iter().flatten();
        parts.into_iter().any(|(key, _)| !FREE.contains(&key.as_str()))
    };
    own(element) || element.as_array().is_some_and(|pair| pair.iter().any(own))
}

/// Whether all elements of a set have statements that may keep them from matching.
fn has_statements(all: &Value) -> bool {
    let is_free = |one: &Value| one.get("counter").is_some() || one.get("last").is_some() || one == "counter";
    let is_none_or_free = all.as_array().map_or(all.is_null(), |all| all.iter().all(is_free));
    !is_none_or_free
}

/// Whether a flag is given, alone or in a list.
pub(crate) fn has_flag(flags: &Value, flag: &str) -> bool {
    flags == flag || flags.as_array().is_some_and(|all| all.iter().any(|one| one == flag))
}

impl Ruleset {
    /// Reads the output of `nft -j list ruleset`.
    pub(crate) fn read(text: &str) -> Result<Ruleset, Refused> {
        let whole: Value = serde_json::from_str(text).map_err(|why| Refused::NotJson(why.to_string()))?;
        let Some(objects) = whole["nftables"].as_array() else { return Err(Refused::NotARuleset) };
        let mut ruleset = Ruleset::default();
        for object in objects {
            let Some((kind, object)) = object.as_object().and_then(|object| object.iter().next()) else {
                return Err(Refused::NotARuleset);
            };
            ruleset.add(kind, object)?;
        }
        ruleset.mark_changing();
        Ok(ruleset)
    }

    fn add(&mut self, kind: &str, object: &Value) -> Result<(), Refused> {
        let table = (text(object, "family"), text(object, "table"));
        match kind {
            "metainfo" => {
                if let Some(version) = object["json_schema_version"].as_u64().filter(|version| *version > 1) {
                    return Err(Refused::Version(version));
                }
            }
            "table" if has_flag(&object["flags"], "dormant") => {
                self.dormant.push((table.0, text(object, "name")));
            }
            "chain" => self.chain(table, object),
            "rule" => self.rule(table, object)?,
            "set" | "map" => {
                let name = text(object, "name");
                let elements = object["elem"].as_array().cloned().unwrap_or_default();
                let has_times = elements.iter().any(|one| !one["elem"]["timeout"].is_null());
                let flags = &object["flags"];
                let changes = has_flag(flags, "dynamic") || has_flag(flags, "timeout") || has_times;
                let verdicts = Verdicts::of(&elements);
                let stands = has_statements(&object["stmt"]);
                let is_limited = stands || elements.iter().any(is_limited);
                let (own, name_too) = (table.clone(), name.clone());
                let converted = RefCell::default();
                let set =
                    Set { name: name_too, table: own, elements, changes, is_limited, verdicts, converted };
                self.sets.insert((table, name), set);
            }
            "limit" => {
                self.limits.insert((table, text(object, "name")), object.clone());
            }
            // Command lists of `nft -j -f` are no listing.
            "add" | "insert" | "delete" | "replace" | "flush" => return Err(Refused::Commands),
            _ => {}
        }
        Ok(())
    }

    fn chain(&mut self, table: Table, object: &Value) {
        let base = object["hook"].as_str().map(|hook| Base {
            kind: text(object, "type"),
            hook: hook.to_owned(),
            priority: object["prio"].as_i64().unwrap_or(0),
            drops: object["policy"] == "drop",
        });
        let name = text(object, "name");
        self.names.insert((table.clone(), name.clone()), self.chains.len());
        let handle = object["handle"].as_u64();
        self.chains.push(Chain { table, name, handle, base, rules: Vec::new() });
    }

    fn rule(&mut self, table: Table, object: &Value) -> Result<(), Refused> {
        let name = text(object, "chain");
        let Some(chain) = self.names.get(&(table.clone(), name.clone())) else {
            return Err(Refused::NoChain { table: table.1, chain: name });
        };
        let rules = &mut self.chains[*chain].rules;
        if rules.len() >= RULES_MAX {
            return Err(Refused::TooMany { what: "rules", most: RULES_MAX });
        }
        let (family, table) = table;
        self.rules += 1;
        rules.push(Rule {
            number: self.rules,
            place: Place { family, table, chain: name, handle: object["handle"].as_u64() },
            comment: object["comment"].as_str().map(str::to_owned),
            statements: match &object["expr"] {
                Value::Array(statements) => statements.clone(),
                other => vec![other.clone()],
            },
        });
        Ok(())
    }

    /// Listings of older versions do not say that a set is dynamic, but rules add elements to it.
    fn mark_changing(&mut self) {
        let mut changed = HashSet::new();
        for chain in &self.chains {
            for statement in chain.rules.iter().flat_map(|rule| &rule.statements) {
                let named = [&statement["set"]["set"], &statement["map"]["map"]];
                for name in named.into_iter().filter_map(|name| name.as_str()?.strip_prefix('@')) {
                    changed.insert((chain.table.clone(), name.to_owned()));
                }
            }
        }
        for key in changed {
            if let Some(set) = self.sets.get_mut(&key) {
                set.changes = true;
            }
        }
    }

    /// Counts elements that are looked at.
    ///
    /// # Errors
    /// There were too many before.
    pub(crate) fn spend(&self, elements: usize) -> Result<(), String> {
        self.spent.set(self.spent.get().saturating_add(elements));
        self.spendable().map_err(|why| why.to_string())
    }

    /// Whether all elements that rules name were looked at.
    ///
    /// # Errors
    /// There were too many.
    pub(crate) fn spendable(&self) -> Result<(), Refused> {
        let too_many = Refused::TooMany { what: "elements of sets in all rules", most: ELEMENTS_MAX };
        if self.spent.get() > ELEMENTS_MAX { Err(too_many) } else { Ok(()) }
    }

    /// All chains.
    pub(crate) fn chains(&self) -> &[Chain] {
        &self.chains
    }

    /// A chain by name.
    pub(crate) fn named(&self, table: &Table, name: &str) -> Option<&Chain> {
        self.names.get(&(table.clone(), name.to_owned())).map(|chain| &self.chains[*chain])
    }

    /// A set or a map by name.
    pub(crate) fn set(&self, table: &Table, name: &str) -> Option<&Set> {
        self.sets.get(&(table.clone(), name.to_owned()))
    }

    /// A limit by name.
    pub(crate) fn limit(&self, table: &Table, name: &str) -> Option<&Value> {
        self.limits.get(&(table.clone(), name.to_owned()))
    }

    /// Whether a rule refuses packets, or sends some where they are refused at once.
    pub(crate) fn refuses(&self, table: &Table, rule: &Rule) -> bool {
        let mut found = Verdicts::default();
        rule.statements
            .iter()
            .for_each(|statement| self.verdicts(table, statement, &mut |one| found.refuse |= one.refuse));
        found.refuse
    }

    /// Passes on the verdicts of a statement.
    fn verdicts(&self, table: &Table, statement: &Value, take: &mut dyn FnMut(&Verdicts)) {
        let data = &statement["vmap"]["data"];
        match data.as_str().and_then(|name| name.strip_prefix('@')) {
            Some(name) => self.set(table, name).into_iter().for_each(|set| take(&set.verdicts)),
            None => {
                let mut found = Verdicts::of(data["set"].as_array().map_or(&[], Vec::as_slice));
                found.add(statement);
                take(&found);
            }
        }
    }

    /// Chains that packets meet from base chains of some kinds on.
    pub(crate) fn met(&self, kinds: &[&str]) -> Vec<&Chain> {
        let is_base = |base: &Base| kinds.contains(&base.kind.as_str());
        let bases = self.chains.iter().filter(|chain| self.is_used(chain));
        let mut found: Vec<&Chain> = bases.filter(|chain| chain.base.as_ref().is_some_and(is_base)).collect();
        let mut seen: HashSet<*const Chain> = found.iter().copied().map(std::ptr::from_ref).collect();
        // Maps with a name may stand in many rules.
        let mut maps: HashSet<*const Verdicts> = HashSet::new();
        let mut at = 0;
        while let Some(&chain) = found.get(at) {
            at += 1;
            for statement in chain.rules.iter().flat_map(|rule| &rule.statements) {
                let is_named = statement["vmap"]["data"].is_string();
                self.verdicts(&chain.table, statement, &mut |verdicts| {
                    if is_named && !maps.insert(std::ptr::from_ref(verdicts)) {
                        return;
                    }
                    for next in verdicts.targets.iter().filter_map(|name| self.named(&chain.table, name)) {
                        if seen.insert(std::ptr::from_ref(next)) {
                            found.push(next);
                        }
                    }
                });
            }
        }
        found
    }

    /// Whether a chain is in a table that is about IP and switched on.
    fn is_used(&self, chain: &Chain) -> bool {
        ["ip", "ip6", "inet"].contains(&chain.table.0.as_str()) && !self.dormant.contains(&chain.table)
    }

    /// Whether packets meet any chain.
    pub(crate) fn has_hooks(&self) -> bool {
        self.chains.iter().any(|chain| chain.base.is_some())
    }

    /// Base chains at a hook that are in use, in the order in which packets meet them.
    pub(crate) fn at(&self, hook: &str, kinds: &[&str]) -> Vec<&Chain> {
        let is_there = |base: &Base| base.hook == hook && kinds.contains(&base.kind.as_str());
        let mut found: Vec<&Chain> = self
            .chains
            .iter()
            .filter(|chain| chain.base.as_ref().is_some_and(is_there) && self.is_used(chain))
            .collect();
        found.sort_by_key(|chain| chain.base.as_ref().map(|base| base.priority));
        found
    }
}
