// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rule sets of nftables become rule files of the firewall and of address translation, as far as those can say the same.
//!
//! ```
//! use junctor_nftables::{Options, import};
//!
//! let listing = r#"{"nftables": [
//!   {"table": {"family": "inet", "name": "t"}},
//!   {"chain": {"family": "inet", "table": "t", "name": "f", "type": "filter", "hook": "forward", "prio": 0, "policy": "drop"}},
//!   {"rule": {"family": "inet", "table": "t", "chain": "f", "handle": 2, "expr": [
//!     {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established", "related"]}}, {"accept": null}]}},
//!   {"rule": {"family": "inet", "table": "t", "chain": "f", "handle": 3, "expr": [
//!     {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth1"}}, {"accept": null}]}}
//! ]}"#;
//! let imported = import(listing, &Options::default())?;
//! assert!(imported.rules.contains("\naccept from eth1\n") && imported.rules.contains("\ndefault drop\n"));
//! assert!(imported.findings.is_empty());
//! # Ok::<(), junctor_nftables::Refused>(())
//! ```
//!
//! [`import`] reads the output of `nft -j list ruleset`:
//! 1. For packets from the router, to the router and through the router, it walks through the base chains that they meet, and writes out all jumps ([`walk`]).
//! 2. Each match becomes a [condition](cond) of a rule file, or a reason why there is none.
//! 3. Rules of which something cannot be said are left out and [named](Finding). A file never lets more pass than the rule set did without naming the rule.
//! 4. It looks for rules that refuse packets of connections, which a rule file always lets pass ([`connections`]).
//! 5. The firewall's own reader checks the result.
#![forbid(unsafe_code)]

mod cond;
mod connections;
mod matching;
mod names;
mod nat;
mod part;
mod ranges;
mod rule;
mod ruleset;
mod scope;
mod text;
mod walk;
mod write;

use std::collections::HashSet;
use std::fmt;
use std::net::Ipv4Addr;
use std::path::Path;

use crate::part::{Origin, Part, Written};
use crate::ruleset::{Chain, Ruleset};
use crate::scope::{Links, Scope, Section, State};
use crate::walk::Walk;

/// Base chains that a packet meets, at most: each is followed inside the one before.
const BASES_MAX: usize = 64;
/// Warnings that are repeated at the head of a file, at most.
const WARNINGS_MAX: usize = 100;

/// What chains of type nat refuse.
const NAT_REFUSES: &str =
    "a rule file refuses nothing in chains of type nat: refuse it in a chain of type filter";

/// How to import.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Write a rule that drops more where a rule that drops cannot be said, in place of leaving it out.
    pub strict: bool,
    /// Links of the router that the rules do not name.
    pub links: Vec<String>,
    /// The outside address, for `masquerade` and for forwards of the router's own address.
    pub outside: Option<Ipv4Addr>,
    /// The inside addresses, for rules that translate all.
    pub inside: Option<Vec<String>>,
    /// Whether to import chains of type nat.
    pub nat: bool,
}

/// Where a rule stands in nftables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// The family of the table.
    pub family: String,
    /// The table.
    pub table: String,
    /// The chain.
    pub chain: String,
    /// The number by which `nft -a` shows the rule or the chain.
    pub handle: Option<u64>,
}

/// What a rule file lets pass, compared with the rule set, because something is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// The same packets.
    Same,
    /// Fewer packets.
    Narrower,
    /// More packets.
    Wider,
}

/// Something that could not be imported as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where it stands.
    pub place: Place,
    /// The rule as `nft` prints it.
    pub rule: String,
    /// What its absence does.
    pub effect: Effect,
    /// Why.
    pub why: String,
}

/// The result of an import.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The text of a rule file of the firewall.
    pub rules: String,
    /// The text of a file of address translation, if it was asked for.
    pub nat: Option<String>,
    /// What is missing or different.
    pub findings: Vec<Finding>,
    /// For each rule of [`Imported::rules`] and its default: the line, and the rule or the chain's policy that it comes from.
    pub origins: Vec<(u32, Place)>,
}

/// Why nothing is imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The text is no JSON.
    #[error("not JSON: {0}; give the output of `nft -j list ruleset`")]
    NotJson(String),
    /// It is JSON of something else.
    #[error("JSON without a list of objects under \"nftables\"; give the output of `nft -j list ruleset`")]
    NotARuleset,
    /// It is a list of commands.
    #[error(
        "a list of commands, not a listing; load it with `nft -j -f`, then give the output of `nft -j list ruleset`"
    )]
    Commands,
    /// Its schema is newer.
    #[error("JSON schema version {0}; version 1 is known")]
    Version(u64),
    /// No chain has a hook, so the kernel lets everything pass.
    #[error(
        "the listing has no chain with a hook, so there is nothing to import, and the kernel lets everything pass; read it as root, in the right network namespace"
    )]
    Nothing,
    /// A rule names a chain that is not listed.
    #[error("table '{table}' has no chain '{chain}'; give the whole output of `nft -j list ruleset`")]
    NoChain {
        /// The table.
        table: String,
        /// The chain.
        chain: String,
    },
    /// Jumps are too deep.
    #[error("jumps to chain '{chain}' are too deep to be written out; let it end without `return` or `goto`")]
    TooDeep {
        /// The chain.
        chain: String,
    },
    /// Something is too large.
    #[error("too many {what}: at most {most}; import fewer tables at a time, or use sets in place of chains")]
    TooMany {
        /// Of what there is too much.
        what: &'static str,
        /// How much there may be.
        most: usize,
    },
    /// The result cannot be used.
    #[error("the imported rules cannot be used: {0}")]
    Unusable(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.chain.is_empty() {
            return f.write_str("nftables");
        }
        let names = [&self.family, &self.table, &self.chain].map(|name| text::line(name));
        write!(f, "{}", names.join(" "))?;
        match self.handle {
            Some(handle) => write!(f, " handle {handle}"),
            None => Ok(()),
        }
    }
}

impl Effect {
    /// Its word in written files and in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Effect::Same => "NOTE",
            Effect::Narrower => "NARROWER",
            Effect::Wider => "WIDER",
        }
    }
}

impl Finding {
    /// Two lines for a written file.
    fn remark(&self) -> String {
        let (effect, place, rule) = (self.effect.word(), &self.place, &self.rule);
        format!("# {effect}: {place}: {rule}\n#   {}\n", text::line(&self.why))
    }

    fn new(origin: &Origin, effect: Effect, why: &str) -> Finding {
        Finding { place: origin.place.clone(), rule: origin.text.clone(), effect, why: why.to_owned() }
    }
}

/// The base chains of a section, with the scope of each.
fn bases<'a>(
    ruleset: &'a Ruleset,
    links: &'a Links,
    section: Section,
    state: State,
) -> (Vec<&'a Chain>, Vec<Scope<'a>>) {
    let chains: Vec<&Chain> =
        section.hooks().iter().flat_map(|hook| ruleset.at(hook, &["filter", "route"])).collect();
    let scopes = chains.iter().map(|chain| Scope::of(ruleset, links, chain, section, state)).collect();
    (chains, scopes)
}

/// What the rules of each section become, for packets in a state.
fn walked(ruleset: &Ruleset, links: &Links, options: &Options, state: State) -> Result<Vec<Part>, Refused> {
    let sections = [Section::Out, Section::In, Section::Through].into_iter();
    let walks = sections.map(|section| {
        let (chains, scopes) = bases(ruleset, links, section, state);
        if chains.len() > BASES_MAX {
            return Err(Refused::TooMany { what: "base chains that a packet meets", most: BASES_MAX });
        }
        Walk::new(chains, scopes, section, state, options).run()
    });
    let mut parts: Vec<Part> = walks.collect::<Result<_, _>>()?;
    part::settle(&mut parts);
    Ok(parts)
}

/// Chains that packets through a router do not meet, or that are switched off.
fn elsewhere(ruleset: &Ruleset, options: &Options) -> Vec<Finding> {
    let mut found = Vec::new();
    for chain in ruleset.chains() {
        let Some(base) = &chain.base else { continue };
        let family = chain.table.0.as_str();
        let refuses = base.drops
            || chain.rules.iter().flat_map(|rule| &rule.statements).any(|statement| {
                ["drop", "reject", "vmap", "jump", "goto"].iter().any(|key| statement.get(key).is_some())
            });
        let (effect, why) = if ruleset.dormant.contains(&chain.table) {
            (Effect::Same, "its table is dormant")
        } else if ["arp", "bridge"].contains(&family) {
            (Effect::Same, "it is not about packets that a router forwards")
        } else if base.kind == "nat" {
            match (base.drops, options.nat) {
                (true, _) => (Effect::Wider, NAT_REFUSES),
                (false, true) => continue,
                (false, false) => (Effect::Same, "it translates addresses: import it with --nat FILE"),
            }
        } else if family == "netdev" || ["ingress", "egress"].contains(&base.hook.as_str()) {
            let effect = if refuses { Effect::Wider } else { Effect::Same };
            (effect, "a rule file has no rules of a device")
        } else {
            continue;
        };
        let (family, table) = chain.table.clone();
        let place = Place { family, table, chain: chain.name.clone(), handle: chain.handle };
        let rule = format!("type {} hook {} ({} rules)", base.kind, base.hook, chain.rules.len());
        found.push(Finding { place, rule, effect, why: why.to_owned() });
    }
    for chain in ruleset.met(&["nat"]) {
        for rule in chain.rules.iter().filter(|rule| ruleset.refuses(&chain.table, rule)) {
            let (place, why) = (rule.place.clone(), NAT_REFUSES.to_owned());
            found.push(Finding { place, rule: text::rule(&rule.statements), effect: Effect::Wider, why });
        }
    }
    found
}

/// Imports the output of `nft -j list ruleset`.
///
/// # Errors
/// It is no such text, or too large to be written out.
pub fn import(listing: &str, options: &Options) -> Result<Imported, Refused> {
    let ruleset = Ruleset::read(listing)?;
    if !ruleset.has_hooks() {
        return Err(Refused::Nothing);
    }
    let links = Links::default();
    for link in &options.links {
        if links.number(link).is_none() {
            return Err(Refused::Unusable(format!("a rule file has no place for the link '{link}'")));
        }
    }
    // The first time finds the links, which `eth*` needs.
    walked(&ruleset, &links, options, State::New)?;
    find_links(&ruleset, &links, options)?;
    let new = walked(&ruleset, &links, options, State::New)?;
    let accepted: Vec<Written> = new.iter().flat_map(|part| part.written.iter().cloned()).collect();
    let mut known = walked(&ruleset, &links, options, State::Established)?;
    known.extend(walked(&ruleset, &links, options, State::Related)?);
    let mut findings = elsewhere(&ruleset, options);
    let refusals = connections::refusals(&accepted, &known);
    let known_wider = |place: &Place| {
        let mut remarks = new.iter().flat_map(|part| &part.remarks);
        remarks.any(|remark| remark.effect == Effect::Wider && remark.origin.place == *place)
    };
    for (origin, states) in refusals.all.iter().filter(|(origin, _)| !known_wider(&origin.place)) {
        let states: Vec<&str> = states.iter().map(|state| state.word()).collect();
        let states = states.join(" and ");
        let why = format!(
            "nftables applies it to {states} packets of accepted connections, too; with a rule file those pass: \
             refuse both directions"
        );
        findings.push(Finding::new(origin, Effect::Wider, &why));
    }
    if refusals.is_cut {
        let why = "the rules are too many to find those that refuse packets of connections";
        let (place, rule) = (Place::default(), "all rules".to_owned());
        findings.push(Finding { place, rule, effect: Effect::Wider, why: why.to_owned() });
    }
    let mut nat = None;
    if options.nat {
        let mut translated = nat::translate(&ruleset, &links, options)?;
        nat = Some(nat_text(&mut translated));
        findings.append(&mut translated.findings);
    }
    ruleset.spendable()?;
    let (rules, origins) = rules_text(new, &links, &mut findings);
    check(&rules)?;
    Ok(Imported { rules, nat, findings, origins })
}

/// Finds the links of all rules, and takes no more: what `eth*` means must not change between rules.
fn find_links(ruleset: &Ruleset, links: &Links, options: &Options) -> Result<(), Refused> {
    for chain in ruleset.met(&["filter", "route"]) {
        let scope = Scope::of(ruleset, links, chain, Section::Through, State::New);
        chain.rules.iter().for_each(|rule| drop(scope.parse(rule)));
    }
    if options.nat {
        nat::translate(ruleset, links, options)?;
    }
    links.close();
    Ok(())
}

/// The file of address translation.
fn nat_text(translated: &mut nat::Translated) -> String {
    let body = nat::write(translated);
    let mut head = "# Address translation, imported from nftables.\n".to_owned();
    if !translated.outside.is_empty() {
        let links: Vec<&str> = translated.outside.iter().map(String::as_str).collect();
        head += &format!("# Outside links: {}\n", text::line(&links.join(" ")));
    }
    for finding in &translated.findings {
        head += &finding.remark();
    }
    head + "\n" + &body
}

/// The rule file. Adds what is found while it is written.
fn rules_text(new: Vec<Part>, links: &Links, findings: &mut Vec<Finding>) -> (String, Vec<(u32, Place)>) {
    let mut file = write::File::new(&links.names());
    let mut seen = HashSet::new();
    for Part { section, written, remarks, .. } in new {
        file.line(match section {
            Section::Out => "# From the router itself.",
            Section::In => "\n# To the router itself.",
            Section::Through => "\n# Through the router.",
        });
        let last = written.len();
        let mut has_default = false;
        for at in 0..=last {
            for remark in remarks.iter().filter(|remark| remark.at == at) {
                let finding = Finding::new(&remark.origin, remark.effect, &remark.why);
                if seen.insert((finding.place.clone(), finding.effect, finding.why.clone())) {
                    file.finding(&finding);
                    findings.push(finding);
                }
            }
            let Some(one) = written.get(at) else { break };
            let is_rest = at + 1 == last && one.cond.is_all() && section == Section::Through;
            if is_rest && one.cond.log.is_none() {
                file.default(one);
                has_default = true;
            } else {
                put(&mut file, one, findings);
            }
        }
        if section == Section::Through && !has_default {
            file.line("default drop");
        }
    }
    file.finish(&head(findings))
}

/// Writes a rule, or says why there is none.
fn put(file: &mut write::File, one: &Written, findings: &mut Vec<Finding>) {
    if let Err(why) = file.rule(one) {
        let effect = if one.action == "accept" { Effect::Narrower } else { Effect::Wider };
        let finding = Finding::new(&one.from, effect, why);
        file.finding(&finding);
        findings.push(finding);
    }
}

/// The first lines.
fn head(findings: &[Finding]) -> String {
    let mut text =
        "# Firewall rules, imported from nftables. Each follows the rule that it comes from.\n".to_owned();
    let wider: Vec<&Finding> = findings.iter().filter(|finding| finding.effect == Effect::Wider).collect();
    if !findings.is_empty() {
        text += &format!(
            "# {} findings. NARROWER: fewer packets pass than in nftables. WIDER: more do.\n",
            findings.len()
        );
    }
    if !wider.is_empty() {
        text += &format!("# WARNING: {} of them let packets pass that nftables refused:\n", wider.len());
        wider.iter().take(WARNINGS_MAX).for_each(|finding| text += &finding.remark());
    }
    text
}

/// The firewall reads what was written: it must be able to use it.
fn check(rules: &str) -> Result<(), Refused> {
    if rules.len() as u64 > firewall::FILE_MAX {
        let why =
            format!("too many bytes: {}, and a rule file has at most {}", rules.len(), firewall::FILE_MAX);
        return Err(Refused::Unusable(why));
    }
    let reading = firewall::read("import", rules, Path::new(""));
    match reading.policy {
        Some(policy) => firewall::Ruleset::new(policy).map(drop).map_err(Refused::Unusable),
        None => {
            let first = reading.diagnostics.first().map(|fault| fault.message.clone());
            Err(Refused::Unusable(first.unwrap_or_default()))
        }
    }
}

impl Imported {
    /// Whether everything was imported as it was.
    pub fn is_whole(&self) -> bool {
        self.findings.is_empty()
    }
}
