// SPDX-License-Identifier: MIT OR Apache-2.0
//! From chains that jump to each other to one list of rules.
//!
//! In a rule file the first rule that matches decides, and no rule jumps. A chain that is jumped to is written out in its place, and
//! its rules have the conditions of the jump, too. `return`, `goto`, and `accept` before another base chain are followed to their end at once: the
//! rules behind them meet no such packets. This may make many rules; [`WORK_MAX`] and [`WRITTEN_MAX`] bound it.

use std::collections::HashMap;
use std::rc::Rc;

use crate::cond::{Cond, Family};
use crate::part::{Origin, Part, Remark, Written};
use crate::rule::{Parsed, Verdict};
use crate::ruleset::{Base, Chain, Rule};
use crate::scope::{Scope, Section, State};
use crate::{Effect, Options, Place, Refused};

/// Conditions and ranges that are looked at, at most.
const WORK_MAX: u64 = 20_000_000;
/// Rules that are written, at most.
pub(crate) const WRITTEN_MAX: usize = 1 << 16;
/// Jumps one in another, as in the kernel.
const JUMPS_MAX: usize = 16;
/// Chains that are followed one in another, jumps and what goes on elsewhere together.
const DEPTH_MAX: usize = 128;

/// Chains that go on where one ends.
enum Callers<'a, 'c> {
    /// The policy of a base chain, by number.
    Base(usize),
    /// A chain from a rule on.
    Chain(&'a Chain, usize, &'c Callers<'a, 'c>),
}

/// How a chain ends: the text of a log for all packets that fall through its end, or nothing if none does.
type Ended = Option<Option<Rc<str>>>;

/// A rule as it is read, and where it comes from.
type Read = (Parsed, Rc<Origin>);

/// What has been written so far.
pub(crate) struct Walk<'a> {
    scopes: Vec<Scope<'a>>,
    bases: Vec<&'a Chain>,
    options: &'a Options,
    section: Section,
    state: State,
    written: Vec<Written>,
    remarks: Vec<Remark>,
    work: u64,
    depth: usize,
    parsed: HashMap<(usize, *const Rule), Rc<Read>>,
}

/// What becomes of packets that fall through the end of a base chain.
fn policy(chain: &Chain) -> (&'static str, Rc<Origin>) {
    let drops = chain.base.as_ref().is_some_and(|base: &Base| base.drops);
    let (family, table) = chain.table.clone();
    let place = Place { family, table, chain: chain.name.clone(), handle: chain.handle };
    let action = if drops { "drop" } else { "accept" };
    (action, Rc::new(Origin { place, text: format!("policy {action}"), comment: None }))
}

fn family(chain: &Chain) -> Option<Family> {
    match chain.table.0.as_str() {
        "ip" => Some(Family::Four),
        "ip6" => Some(Family::Six),
        _ => None,
    }
}

impl<'a> Walk<'a> {
    /// A walk through base chains. Each has its scope.
    pub(crate) fn new(
        bases: Vec<&'a Chain>,
        scopes: Vec<Scope<'a>>,
        section: Section,
        state: State,
        options: &'a Options,
    ) -> Walk<'a> {
        Walk {
            scopes,
            bases,
            options,
            section,
            state,
            written: Vec::new(),
            remarks: Vec::new(),
            work: 0,
            depth: 0,
            parsed: HashMap::new(),
        }
    }

    /// Writes what becomes of all packets.
    pub(crate) fn run(mut self) -> Result<Part, Refused> {
        self.base(0, &Cond::default(), None)?;
        Ok(Part { section: self.section, state: self.state, written: self.written, remarks: self.remarks })
    }

    fn spend(&mut self, work: u64, what: &'static str) -> Result<(), Refused> {
        self.work += work;
        if self.work > WORK_MAX || self.written.len() > WRITTEN_MAX {
            return Err(Refused::TooMany { what, most: WRITTEN_MAX });
        }
        Ok(())
    }

    fn write(&mut self, action: &'static str, cond: &Cond, from: &Rc<Origin>) -> Result<(), Refused> {
        self.spend(1, "rules when chains are written out")?;
        let written = Written { section: self.section, action, cond: cond.clone(), from: Rc::clone(from) };
        self.written.push(written);
        Ok(())
    }

    fn remark(&mut self, origin: &Rc<Origin>, effect: Effect, why: impl Into<String>) {
        let (origin, at) = (Rc::clone(origin), self.written.len());
        self.remarks.push(Remark { origin, effect, why: why.into(), at });
    }

    /// What becomes of packets that base chains before this one accept. Nothing of them is left.
    fn base(&mut self, number: usize, cond: &Cond, by: Option<&Rc<Origin>>) -> Result<(), Refused> {
        let Some(&chain) = self.bases.get(number) else {
            let none = || {
                let place = Place::default();
                Rc::new(Origin { place, text: "no chain is about these packets".to_owned(), comment: None })
            };
            let origin = by.cloned().unwrap_or_else(none);
            return self.write("accept", cond, &origin);
        };
        let of_family = family(chain).map_or_else(Cond::default, Cond::of_family);
        let Some(own) = cond.and(&of_family) else { return self.base(number + 1, cond, by) };
        let ended = self.chain(chain, 0, &Callers::Base(number), &own)?;
        // Packets of the other family meet the next chain, together with what this one lets through.
        let is_split = own.family != cond.family;
        let drops = chain.base.as_ref().is_some_and(|base| base.drops);
        if let Some(log) = ended.filter(|_| drops || !is_split) {
            self.policy(number, &Cond { log: log.or(own.log.clone()), ..own.clone() }, by)?;
        }
        if is_split { self.base(number + 1, cond, by) } else { Ok(()) }
    }

    fn policy(&mut self, number: usize, cond: &Cond, by: Option<&Rc<Origin>>) -> Result<(), Refused> {
        let (action, origin) = policy(self.bases[number]);
        match action {
            "drop" => self.write(action, cond, &origin),
            _ => self.base(number + 1, cond, by.or(Some(&origin))),
        }
    }

    /// What becomes of packets behind the end of a chain. Nothing of them is left.
    fn rest(&mut self, callers: &Callers<'a, '_>, cond: &Cond) -> Result<(), Refused> {
        match callers {
            Callers::Base(number) => self.policy(*number, cond, None),
            Callers::Chain(chain, at, up) => match self.chain(chain, *at, up, cond)? {
                Some(log) => self.rest(up, &Cond { log: log.or(cond.log.clone()), ..cond.clone() }),
                None => Ok(()),
            },
        }
    }

    /// The rule as it is read for a base chain.
    fn parse(&mut self, base: usize, rule: &'a Rule) -> Rc<Read> {
        let scope = &self.scopes[base];
        let read = || {
            let text = crate::text::rule(&rule.statements);
            let origin = Origin { place: rule.place.clone(), text, comment: rule.comment.clone() };
            Rc::new((scope.parse(rule), Rc::new(origin)))
        };
        Rc::clone(self.parsed.entry((base, std::ptr::from_ref(rule))).or_insert_with(read))
    }

    /// Writes the rules of a chain from one on.
    fn chain(
        &mut self,
        chain: &'a Chain,
        from: usize,
        callers: &Callers<'a, '_>,
        cond: &Cond,
    ) -> Result<Ended, Refused> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Refused::TooDeep { chain: chain.name.clone() });
        }
        let base = callers.base();
        let mut cond = cond.clone();
        let mut log = None;
        for (at, rule) in chain.rules.iter().enumerate().skip(from) {
            let parsed = self.parse(base, rule);
            self.spend(cond.weight(), "conditions when chains are written out")?;
            match self.rule((chain, at), callers, &cond, &parsed)? {
                Step::On => {}
                Step::Log(text) => {
                    cond.log = Some(Rc::clone(&text));
                    log = Some(text);
                }
                Step::End => {
                    self.depth -= 1;
                    return Ok(Some(log));
                }
                Step::Decided => {
                    self.depth -= 1;
                    return Ok(None);
                }
            }
        }
        self.depth -= 1;
        Ok(Some(log))
    }

    /// One rule.
    fn rule(
        &mut self,
        (chain, at): (&'a Chain, usize),
        callers: &Callers<'a, '_>,
        cond: &Cond,
        parsed: &Read,
    ) -> Result<Step, Refused> {
        let (parsed, origin) = parsed;
        for (effect, words) in &parsed.left_out {
            self.remark(origin, *effect, format!("`{words}` is left out"));
        }
        let accepts = parsed.cases.iter().any(|case| case.verdict == Verdict::Accept);
        if parsed.strays && accepts && self.state == State::New {
            self.remark(
                origin,
                Effect::Narrower,
                "packets that neither belong to a connection nor begin one are dropped",
            );
        }
        let mut own_log: Option<Rc<str>> = parsed.log.as_deref().map(Rc::from);
        let is_log = parsed.cases.iter().all(|case| case.verdict == Verdict::Continue);
        if let Some(text) = own_log.clone().filter(|_| is_log) {
            return Ok(self.log_alone((chain, at), cond, text, parsed, origin));
        }
        own_log = own_log.or_else(|| self.log_before(chain, at, callers.base()));
        for case in &parsed.cases {
            let limited = case.conds.iter().filter(|cond| cond.limit.is_some()).count() > 1;
            for own in &case.conds {
                // What falls through the end goes on with the caller anyway.
                self.spend(cond.weight() + own.weight(), "conditions when chains are written out")?;
                let is_whole = cond.is_within(own);
                if is_whole && parsed.over.is_none() && case.verdict == Verdict::Return {
                    return Ok(Step::End);
                }
                let Some(mut own_cond) = cond.and(own) else { continue };
                self.spend(own_cond.weight(), "conditions when chains are written out")?;
                own_cond.log = own_log.clone().or(own_cond.log);
                if limited {
                    own_cond.beyond.get_or_insert_with(|| "one limit holds for several rules".into());
                }
                if parsed.over.is_some() {
                    self.over((chain, at), callers, &own_cond, parsed, origin)?;
                    continue;
                }
                let is_new = own_cond.beyond.is_some() && cond.beyond.is_none();
                self.verdict((chain, at), callers, &own_cond, is_new, &case.verdict, origin)?;
                let decides = matches!(
                    case.verdict,
                    Verdict::Accept | Verdict::Drop | Verdict::Reject(_) | Verdict::Goto(_)
                );
                if is_whole && decides {
                    return Ok(Step::Decided);
                }
            }
        }
        Ok(Step::On)
    }

    /// Packets of a rule go where its verdict says. `is_new`: the rule asks for something that cannot be said.
    fn verdict(
        &mut self,
        (chain, at): (&'a Chain, usize),
        callers: &Callers<'a, '_>,
        cond: &Cond,
        is_new: bool,
        verdict: &Verdict,
        origin: &Rc<Origin>,
    ) -> Result<(), Refused> {
        // A limit counts all packets together: it cannot be written into several rules.
        let mut cond = cond.clone();
        let is_last = callers.base() + 1 == self.bases.len();
        let splits = match verdict {
            Verdict::Accept => !is_last,
            Verdict::Drop | Verdict::Reject(_) | Verdict::Continue => false,
            _ => true,
        };
        if cond.limit.is_some() && splits && cond.beyond.is_none() {
            return self.beyond(
                &Cond { limit: None, ..cond },
                "one limit holds for several rules",
                verdict,
                origin,
            );
        }
        if let Some(why) = cond.beyond.clone() {
            match verdict {
                Verdict::Continue => {}
                // Less is said of the rules of that chain than they ask.
                Verdict::Jump(_) => {}
                // Behind a jump that asks for more than can be said, returning is like going on.
                Verdict::Return if !is_new => return Ok(()),
                _ => {
                    cond.limit = None;
                    return self.beyond(&cond, &why, verdict, origin);
                }
            }
        }
        match verdict {
            Verdict::Accept => self.base(callers.base() + 1, &cond, Some(origin)),
            Verdict::Drop => self.write("drop", &cond, origin),
            Verdict::Reject(action) => self.write(action, &cond, origin),
            Verdict::Return => self.rest(callers, &cond),
            Verdict::Continue => Ok(()),
            Verdict::Elsewhere(why) => self.beyond(&cond, why, verdict, origin),
            Verdict::Jump(name) | Verdict::Goto(name) => {
                let scope = &self.scopes[callers.base()];
                let Some(target) = scope.ruleset.named(&scope.table, name) else {
                    return Err(Refused::NoChain { table: scope.table.1.clone(), chain: name.clone() });
                };
                if callers.count() >= JUMPS_MAX {
                    return Err(Refused::TooDeep { chain: name.clone() });
                }
                if matches!(verdict, Verdict::Jump(_)) {
                    let here = Callers::Chain(chain, at + 1, callers);
                    return self.chain(target, 0, &here, &cond).map(|_| ());
                }
                match self.chain(target, 0, callers, &cond)? {
                    Some(_) => self.rest(callers, &cond),
                    None => Ok(()),
                }
            }
        }
    }

    /// A rule that asks for more than can be said.
    fn beyond(
        &mut self,
        cond: &Cond,
        why: &str,
        verdict: &Verdict,
        origin: &Rc<Origin>,
    ) -> Result<(), Refused> {
        if *verdict == Verdict::Accept {
            self.remark(origin, Effect::Narrower, why);
            return Ok(());
        }
        let action = if let Verdict::Reject(action) = verdict { action } else { "drop" };
        if self.options.strict {
            let more = match verdict {
                Verdict::Drop | Verdict::Reject(_) => "more packets are refused than it asked for",
                _ => "all its packets are refused",
            };
            self.remark(origin, Effect::Narrower, format!("{why}: {more}"));
            return self.write(action, &Cond { beyond: None, log: None, ..cond.clone() }, origin);
        }
        // Packets that connection tracking knows are looked at again later: see `connections`.
        self.remark(origin, Effect::Wider, why);
        if self.state != State::New { self.write(action, cond, origin) } else { Ok(()) }
    }

    /// A rule that refuses what is more than a limit: what it does not refuse has the limit.
    fn over(
        &mut self,
        (chain, at): (&'a Chain, usize),
        callers: &Callers<'a, '_>,
        cond: &Cond,
        parsed: &Parsed,
        origin: &Rc<Origin>,
    ) -> Result<(), Refused> {
        let verdict = parsed.cases.last().map_or(Verdict::Continue, |case| case.verdict.clone());
        let why = "a limit is only for rules that accept, and not exactly one rule behind it does";
        let family =
            parsed.over.as_ref().and_then(|over| over.family).map_or_else(Cond::default, Cond::of_family);
        // A limit of sources of one family says nothing of the other.
        let Some(cond) = cond.and(&family) else { return Ok(()) };
        let (Some(over), Verdict::Drop | Verdict::Reject(_)) = (&parsed.over, &verdict) else {
            let why = "a rule file has no rule for what is more than a limit";
            return self.beyond(&cond, why, &verdict, origin);
        };
        let is_sound = |within: &Cond| within.beyond.is_none() && self.state == State::New;
        let Some(within) = cond.and(over).filter(is_sound) else {
            return self.beyond(&cond, why, &verdict, origin);
        };
        let (written, remarks) = (self.written.len(), self.remarks.len());
        let here = Callers::Chain(chain, at + 1, callers);
        self.rest(&here, &Cond { log: None, ..within.clone() })?;
        let accepts = self.written[written..].iter().filter(|one| one.action == "accept").count();
        let is_whole = self.remarks[remarks..].iter().all(|remark| remark.effect == Effect::Same);
        if accepts != 1 || !is_whole {
            self.written.truncate(written);
            self.remarks.truncate(remarks);
            return self.beyond(&cond, why, &verdict, origin);
        }
        for one in &mut self.written[written..] {
            if one.action != "accept" {
                (one.cond.limit, one.cond.per_source) = (None, None);
            }
        }
        // The firewall itself drops connections of a source that has too many.
        if over.limit.is_some() {
            let action = if let Verdict::Reject(action) = verdict { action } else { "drop" };
            self.write(action, &Cond { limit: None, ..within }, origin)?;
        } else if let Verdict::Reject(_) = verdict {
            self.remark(
                origin,
                Effect::Same,
                "connections of a source that has too many are dropped, not rejected",
            );
        }
        Ok(())
    }

    /// A rule that logs and does not decide.
    fn log_alone(
        &mut self,
        (chain, at): (&'a Chain, usize),
        cond: &Cond,
        text: Rc<str>,
        parsed: &Parsed,
        origin: &Rc<Origin>,
    ) -> Step {
        let is_for_all = parsed.cases.iter().any(|case| case.conds.iter().any(|own| cond.is_within(own)));
        if is_for_all && self.state == State::New {
            return Step::Log(text);
        }
        let next_decides = chain.rules.get(at + 1).is_some_and(|next| asks(next) == asks(&chain.rules[at]));
        if self.state == State::New && !next_decides {
            self.remark(origin, Effect::Same, "a rule that logs must decide, too: nothing is logged");
        }
        Step::On
    }

    /// The log of the rule before, if that only logs what this one decides.
    fn log_before(&mut self, chain: &'a Chain, at: usize, base: usize) -> Option<Rc<str>> {
        let before = &chain.rules[at.checked_sub(1)?];
        let has_log = before.statements.iter().any(|statement| statement.get("log").is_some());
        if !has_log || asks(before) != asks(&chain.rules[at]) {
            return None;
        }
        let (parsed, _) = &*self.parse(base, before);
        let decides = parsed.cases.iter().any(|case| case.verdict != Verdict::Continue);
        parsed.log.as_deref().filter(|_| !decides).map(Rc::from)
    }
}

/// How a rule leaves its packets.
enum Step {
    /// To the next rule.
    On,
    /// To the next rule, with a log.
    Log(Rc<str>),
    /// To the end of the chain.
    End,
    /// Nothing is left.
    Decided,
}

impl Callers<'_, '_> {
    fn base(&self) -> usize {
        match self {
            Callers::Base(number) => *number,
            Callers::Chain(_, _, up) => up.base(),
        }
    }

    fn count(&self) -> usize {
        match self {
            Callers::Base(_) => 0,
            Callers::Chain(_, _, up) => 1 + up.count(),
        }
    }
}

/// The matches of a rule.
fn asks(rule: &Rule) -> Vec<&serde_json::Value> {
    rule.statements.iter().filter_map(|statement| statement.get("match")).collect()
}
