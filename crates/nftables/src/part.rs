// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules that a walk has written, and what is wrong with them together.

use std::collections::HashMap;
use std::rc::Rc;

use crate::cond::Cond;
use crate::scope::{Section, State};
use crate::{Effect, Place};

/// Rules among which repeated ones are looked for, at most.
const REPEATS_MAX: usize = 512;

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
    /// Takes out what cannot stand or decides nothing.
    pub(crate) fn settle(&mut self) {
        self.shared_limits();
        self.repeats();
    }

    /// Takes out a rule; what is said behind it moves up.
    fn take(&mut self, at: usize) -> Written {
        self.remarks.iter_mut().filter(|remark| remark.at > at).for_each(|remark| remark.at -= 1);
        self.written.remove(at)
    }

    /// A rule that is written again for packets which its first writing has decided about decides nothing.
    fn repeats(&mut self) {
        if self.written.len() > REPEATS_MAX {
            return;
        }
        let mut at = 0;
        while at < self.written.len() {
            let one = &self.written[at];
            let is_again = |other: &Written| other.from == one.from && at + 1 < self.written.len();
            let is_decided = self.written[..at].iter().any(|other| one.cond.is_within(&other.cond));
            if is_decided && self.written[..at].iter().any(is_again) {
                self.take(at);
            } else {
                at += 1;
            }
        }
    }

    /// A limit that stands in several rules would let more pass: each has its own.
    fn shared_limits(&mut self) {
        let mut counts: HashMap<*const Origin, usize> = HashMap::new();
        let is_limited = |one: &Written| {
            one.action == "accept" && (one.cond.limit.is_some() || one.cond.per_source.is_some())
        };
        for one in self.written.iter().filter(|one| is_limited(one)) {
            *counts.entry(Rc::as_ptr(&one.from)).or_default() += 1;
        }
        let mut at = 0;
        while at < self.written.len() {
            let one = &self.written[at];
            if !is_limited(one) || counts.get(&Rc::as_ptr(&one.from)).is_none_or(|count| *count < 2) {
                at += 1;
                continue;
            }
            let gone = self.take(at);
            let why = "one limit holds for several rules".to_owned();
            self.remarks.push(Remark { origin: gone.from, effect: Effect::Narrower, why, at });
        }
    }
}
