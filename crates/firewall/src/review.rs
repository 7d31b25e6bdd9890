// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is strange in a policy that can be used: rules that no packet reaches, names that nothing uses.

use lang::Diagnostic;

use crate::compile::{FOUR, Part, SIX, parts};
use crate::policy::{Policy, Rule};

/// Earlier boxes that one box is compared with, at most: the search is not for long lists without end.
const COMPARED_MAX: usize = 20_000_000;

/// Warnings about a policy.
pub fn review(policy: &Policy) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (number, zone) in (0u8..).zip(&policy.zones).skip(1) {
        let is_used = |rule: &Rule| rule.matches.from.contains(&number) || rule.matches.to.contains(&number);
        if !policy.rules.iter().any(is_used) {
            let message = format!("no rule names zone '{}'", zone.name);
            found.push(Diagnostic::warning("W0602", message).at(zone.span));
        }
    }
    for (number, set) in policy.sets.iter().enumerate() {
        let uses = |rule: &Rule| {
            let matches = &rule.matches;
            let lists = [
                &matches.source.sets,
                &matches.destination.sets,
                &matches.source_ports.sets,
                &matches.destination_ports.sets,
                &matches.macs.sets,
            ];
            lists.iter().any(|sets| sets.contains(&number))
        };
        if !policy.rules.iter().any(uses) {
            let message = format!("no rule uses set '{}'", set.name);
            found.push(Diagnostic::warning("W0603", message).at(set.span));
        }
        // A set that commands fill says of what it is.
        if set.entries.is_empty() && !set.is_typed {
            let help = format!(
                "if commands fill it, write `set {} addresses`, `set {0} ports` or `set {0} macs`",
                set.name
            );
            let message = format!("set '{}' is empty", set.name);
            found.push(Diagnostic::warning("W0604", message).at(set.span).help(help));
        }
    }
    let mut hidden = shadowed(policy);
    hidden.sort_by_key(|(rule, _)| *rule);
    for (rule, by) in hidden {
        let rule = &policy.rules[rule as usize];
        let earlier: Vec<&Rule> = by.iter().map(|by| &policy.rules[*by as usize]).collect();
        let same = earlier.iter().all(|earlier| earlier.action == rule.action);
        let message = if same {
            "this rule decides nothing: earlier ones do the same to all its packets"
        } else {
            "this rule decides nothing: earlier ones take all its packets"
        };
        let mut diagnostic = Diagnostic::warning("W0601", message).at(rule.span).help(if same {
            "leave it out"
        } else {
            "move it before them, or leave it out"
        });
        for earlier in earlier.iter().take(3) {
            diagnostic = diagnostic.note(earlier.span, "this one comes first");
        }
        found.push(diagnostic);
    }
    found
}

/// Rules all of whose boxes lie within boxes of earlier rules that do not ask, and those rules.
fn shadowed(policy: &Policy) -> Vec<(u32, Vec<u32>)> {
    let mut covers: Vec<Option<Vec<u32>>> = vec![Some(Vec::new()); policy.rules.len()];
    if let Ok(all) = parts::<FOUR>(policy) {
        cover(&all, &mut covers);
    }
    if let Ok(all) = parts::<SIX>(policy) {
        cover(&all, &mut covers);
    }
    let rules = covers.into_iter().enumerate();
    rules.filter_map(|(rule, by)| Some((rule as u32, by.filter(|by| !by.is_empty())?))).collect()
}

fn cover<const W: usize>(all: &[Part<W>], covers: &mut [Option<Vec<u32>>]) {
    let mut compared = 0;
    for (at, part) in all.iter().enumerate() {
        let Some(by) = &mut covers[part.rule as usize] else { continue };
        compared += at;
        let around = |other: &&Part<W>| other.rule < part.rule && !other.shape.asks && is_within(part, other);
        let found = if compared > COMPARED_MAX { None } else { all[..at].iter().find(around) };
        match found {
            Some(other) if by.contains(&other.rule) => {}
            Some(other) => by.push(other.rule),
            None => covers[part.rule as usize] = None,
        }
    }
}

/// Whether every packet in a box is in another one, too.
fn is_within<const W: usize>(inner: &Part<W>, outer: &Part<W>) -> bool {
    let (inner, outer) = (&inner.shape, &outer.shape);
    let mut words = inner.words.iter().zip(&outer.words);
    let mut ports = inner.ports.iter().zip(&outer.ports);
    words.all(|(i, o)| o.mask & !i.mask == 0 && (i.value ^ o.value) & o.mask == 0)
        && ports.all(|(i, o)| o.low <= i.low && i.high <= o.high)
        && outer.kind.mask & !inner.kind.mask == 0
        && (inner.kind.value ^ outer.kind.value) & outer.kind.mask == 0
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn rules_behind_others_are_found() {
        let text = "zone inside eth1
zone outside eth0
zone garden eth2
set unused 10.0.0.1
accept from inside to outside
drop from inside to outside tcp port 25
accept from inside to outside udp
accept src 10.0.0.0/8 tcp port 80-90 limit 3/s
accept src 10.1.0.0/16 tcp port 85
accept src 10.0.0.0/9
accept src 10.128.0.0/9
drop src 10.64.0.0/10,10.128.0.0/10
drop src 10.64.0.0/10,11.0.0.0/10
reject to garden";
        let reading = crate::read("test", text, Path::new("."));
        let policy = reading.policy.unwrap();
        let found: Vec<String> = review(&policy)
            .iter()
            .map(|d| {
                let at = d
                    .span
                    .map(|span| reading.sources.text(0)[..span.start as usize].matches('\n').count() + 1);
                format!("{}: {}", at.unwrap_or(0), d.message)
            })
            .collect();
        assert_eq!(
            found,
            [
                "4: no rule uses set 'unused'",
                "6: this rule decides nothing: earlier ones take all its packets",
                "7: this rule decides nothing: earlier ones do the same to all its packets",
                "12: this rule decides nothing: earlier ones take all its packets",
            ]
        );
    }
}
