// SPDX-License-Identifier: MIT OR Apache-2.0
//! What nftables does with packets of connections that the file accepts.
//!
//! In a rule file such packets pass, in both directions. In nftables they meet all rules, and usually one of the first accepts them. A rule that would refuse some is named.

use std::rc::Rc;

use crate::cond::{Cond, ICMP, ICMP6};
use crate::part::{Origin, Part, Written};
use crate::scope::{Section, State};

/// Comparisons at most.
const COMPARED_MAX: u64 = 2_000_000;

/// Rules that refuse packets of connections which the file accepts.
pub(crate) struct Refusals {
    pub(crate) all: Vec<(Rc<Origin>, Vec<State>)>,
    /// Whether the search ended early.
    pub(crate) is_cut: bool,
}

/// The section of answers.
fn answered(section: Section) -> Section {
    match section {
        Section::Out => Section::In,
        Section::In => Section::Out,
        Section::Through => Section::Through,
    }
}

/// The packets of a connection that a rule accepts: those of its own direction, and answers.
fn packets(one: &Written, state: State) -> [(Section, Cond, bool); 2] {
    // Later packets may come from another MAC address, and the file does not look.
    let there =
        Cond { mac: None, limit: None, per_source: None, log: None, beyond: None, ..one.cond.clone() };
    let back = one.cond.answered();
    let seen = |cond: Cond| match state {
        // Errors come from any router on the way, and their protocol is ICMP.
        State::Related => {
            let errors = Cond { links: cond.links, family: cond.family, ..Cond::default() };
            errors.and(&Cond::of_protocols(&[ICMP, ICMP6])).and_then(Cond::settle).unwrap_or(errors)
        }
        _ => cond,
    };
    [(one.section, seen(there), false), (answered(one.section), seen(back), true)]
}

struct Search<'w> {
    accepted: &'w [Written],
    compared: u64,
    found: Refusals,
}

impl Search<'_> {
    /// Looks for a rule of a list that refuses packets of connections which rule `at` accepts.
    fn ask(&mut self, at: usize, list: &Part, cond: &Cond, is_back: bool) {
        for rule in &list.written {
            self.compared += cond.weight() + rule.cond.weight();
            if self.compared > COMPARED_MAX {
                self.found.is_cut = true;
                return;
            }
            if rule.action == "accept" {
                if cond.is_within(&rule.cond) {
                    return;
                }
                continue;
            }
            let Some(refused) = cond.and(&rule.cond).and_then(Cond::settle) else { continue };
            if self.is_refused_before(at, list.state, &refused, is_back) {
                continue;
            }
            let known = self.found.all.iter_mut().find(|(origin, _)| **origin == *rule.from);
            match known {
                Some((_, states)) if states.contains(&list.state) => {}
                Some((_, states)) => states.push(list.state),
                None => self.found.all.push((Rc::clone(&rule.from), vec![list.state])),
            }
            return;
        }
    }

    /// Whether the connections of these packets are refused by rules before the one that would accept them.
    fn is_refused_before(&mut self, at: usize, state: State, refused: &Cond, is_back: bool) -> bool {
        let mut first = if is_back { refused.answered() } else { refused.clone() };
        if state == State::Related {
            first = Cond { links: first.links, family: first.family, ..Cond::default() };
        }
        (first.beyond, first.mac) = (None, None);
        let one = &self.accepted[at];
        let Some(first) = one.cond.and(&first) else { return true };
        let earlier = self.accepted[..at].iter().filter(|other| other.section == one.section);
        for rule in earlier.filter(|other| other.action != "accept") {
            self.compared += rule.cond.weight();
            if first.is_within(&rule.cond) {
                return true;
            }
        }
        false
    }
}

/// Finds the rules that refuse packets of connections. `written` are the rules of all sections.
pub(crate) fn refusals(written: &[Written], known: &[Part]) -> Refusals {
    let found = Refusals { all: Vec::new(), is_cut: false };
    let mut search = Search { accepted: written, compared: 0, found };
    for (at, one) in written.iter().enumerate().filter(|(_, one)| one.action == "accept") {
        for list in known {
            let [there, back] = packets(one, list.state);
            for (section, cond, is_back) in [there, back] {
                if section == list.section && !search.found.is_cut {
                    search.ask(at, list, &cond, is_back);
                }
            }
        }
    }
    search.found
}
