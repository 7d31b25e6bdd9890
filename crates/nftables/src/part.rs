// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules that a walk has written, and what is wrong with them together.

use std::collections::HashMap;
use std::rc::Rc;

use crate::cond::{Cond, Family, TCP};
use crate::scope::{Section, State};
use crate::{Effect, Place};

/// Comparisons for rules that repeat others, at most.
const REPEATS_MAX: u64 = 4_000_000;

/// A rule of the file.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) section: Section,
    /// `accept`, `drop` or `reject ...`.
    pub(crate) action: &'static str,
    pub(crate) cond: Cond,
    /// The rule that it comes from; a policy has the place of its chain.
    pub(crate) from: Rc<Origin>,
}

/// Where a rule comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) place: Place,
    pub(crate) text: String,
    pub(crate) comment: Option<String>,
}

/// Why a rule is missing or another one than it was.
pub(crate) struct Remark {
    pub(crate) origin: Rc<Origin>,
    pub(crate) effect: Effect,
    pub(crate) why: String,
    /// How many rules are before it.
    pub(crate) at: usize,
}

/// The rules of a section, for packets in a state.
pub(crate) struct Part {
    pub(crate) section: Section,
    pub(crate) state: State,
    pub(crate) written: Vec<Written>,
    pub(crate) remarks: Vec<Remark>,
}

impl Part {
    /// Takes out rules; what is said behind them moves up.
    fn take_out(&mut self, gone: &[bool]) {
        let mut before = Vec::with_capacity(gone.len() + 1);
        before.push(0);
        for is_gone in gone {
            before.push(before[before.len() - 1] + usize::from(*is_gone));
        }
        self.remarks.iter_mut().for_each(|remark| remark.at -= before[remark.at]);
        let mut flags = gone.iter();
        self.written.retain(|_| flags.next() != Some(&true));
    }

    /// Leaves out ICMP of the other family, which a rule file cannot name, and says so where a later rule accepts it.
    fn odd_icmp(&mut self) {
        let mut compared = 0;
        for (at, one) in self.written.iter().enumerate().filter(|(_, one)| one.action != "accept") {
            let odd: Vec<Cond> = one.cond.unsettled().collect();
            let later = self.written[at + 1..].iter().filter(|_| !odd.is_empty());
            // A rule that names protocols does not accept it either.
            let accepts = |other: &&Written| other.action == "accept" && other.cond.protocols.is_none();
            let passes = later.filter(accepts).any(|other| {
                compared += other.cond.weight();
                let meets = |cond: &Cond| cond.and(&other.cond).is_some();
                compared > REPEATS_MAX || odd.iter().any(meets)
            });
            if passes {
                let why = "a rule file cannot refuse ICMPv6 over IPv4 and ICMP over IPv6, and later rules accept it";
                let origin = Rc::clone(&one.from);
                self.remarks.push(Remark { origin, effect: Effect::Wider, why: why.to_owned(), at });
            }
        }
        let settled: Vec<Option<Cond>> = self.written.iter().map(|one| one.cond.clone().settle()).collect();
        let gone: Vec<bool> = settled.iter().map(Option::is_none).collect();
        self.written.iter_mut().zip(settled).for_each(|(one, cond)| one.cond = cond.unwrap_or_default());
        self.take_out(&gone);
    }

    /// A rule that is written again for packets which its first writing has decided about decides nothing.
    fn repeats(&mut self) {
        let work: u64 = self.written.iter().map(|one| one.cond.weight()).sum();
        if self.written.len() as u64 * work > REPEATS_MAX {
            return;
        }
        let last = self.written.len().saturating_sub(1);
        let is_again = |at: usize| {
            let (one, before) = (&self.written[at], &self.written[..at]);
            at < last
                && before.iter().any(|other| other.from == one.from)
                && before.iter().any(|other| one.cond.is_within(&other.cond))
        };
        let gone: Vec<bool> = (0..self.written.len()).map(is_again).collect();
        self.take_out(&gone);
    }

    /// A limit that stands in several rules would let more pass: each has its own.
    fn shared_limits(&mut self, uses: &HashMap<LimitKey, usize>) {
        let mut gone = vec![false; self.written.len()];
        for (at, one) in self.written.iter_mut().enumerate() {
            if !limits(one).any(|key| uses.get(&key).is_some_and(|count| *count > 1)) {
                continue;
            }
            let (origin, why) = (Rc::clone(&one.from), "one limit holds for several rules".to_owned());
            self.remarks.push(Remark { origin, effect: Effect::Narrower, why, at });
            // Rules behind this one accept without a limit on sources what is left for them.
            match one.cond.per_source.take() {
                Some(_) => (one.action, one.cond.limit) = ("drop", None),
                None => gone[at] = true,
            }
        }
        self.take_out(&gone);
    }

    /// Names limits that count fewer packets than in nftables.
    fn first_packets(&mut self) {
        let tcp = Cond::of_protocols(&[TCP]);
        let is_less = |one: &Written| {
            let protocols = Cond { protocols: one.cond.protocols.clone(), ..Cond::default() };
            one.action == "accept" && one.cond.limit.is_some() && !protocols.is_within(&tcp)
        };
        for (at, one) in self.written.iter().enumerate().filter(|(_, one)| is_less(one)) {
            let why = "nftables counts each packet until a flow has an answer; a rule file counts the first one alone";
            let origin = Rc::clone(&one.from);
            self.remarks.push(Remark { origin, effect: Effect::Wider, why: why.to_owned(), at });
        }
    }
}

/// A limit by the number of its rule; those on sources by their family, too: different ones have nothing in common.
type LimitKey = (usize, Option<Option<Family>>);

/// The limits that a rule accepts within.
fn limits(one: &Written) -> impl Iterator<Item = LimitKey> {
    let rate = one.cond.limit.map(|limit| (limit.rule, None));
    let sources = one.cond.per_source.map(|limit| (limit.rule, Some(one.cond.family)));
    let is_accepted = one.action == "accept";
    rate.into_iter().chain(sources).filter(move |_| is_accepted)
}

/// Takes out of all sections what cannot stand or decides nothing.
pub(crate) fn settle(parts: &mut [Part]) {
    let mut uses: HashMap<LimitKey, usize> = HashMap::new();
    for part in parts.iter_mut().filter(|part| part.state == State::New) {
        part.odd_icmp();
    }
    for key in parts.iter().flat_map(|part| &part.written).flat_map(limits) {
        *uses.entry(key).or_default() += 1;
    }
    for part in parts {
        part.shared_limits(&uses);
        part.repeats();
        if part.state == State::New {
            part.first_packets();
        }
    }
}
