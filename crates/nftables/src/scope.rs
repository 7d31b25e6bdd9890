// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a rule is read: which packets meet it, and which names it may use.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde_json::Value;

use crate::matching::CASES_MAX;
use crate::ruleset::{Chain, Ruleset, Set, Table, is_limited};

/// Links that a file may name: a zone for each, and room for one more.
const LINKS_MAX: usize = 249;
/// Stands for all links that no rule names.
pub(crate) const OTHERS: u128 = u16::MAX as u128;

/// The links that rules name, by number.
#[derive(Debug, Default)]
pub(crate) struct Links {
    all: RefCell<Vec<String>>,
    /// There are no more.
    is_closed: Cell<bool>,
}

impl Links {
    /// The number of a link. There is none if a rule file cannot say the name, or has no room.
    pub(crate) fn number(&self, name: &str) -> Option<u128> {
        let mut all = self.all.borrow_mut();
        if let Some(at) = all.iter().position(|other| other == name) {
            return Some(at as u128);
        }
        let is_sound = |c: char| !c.is_whitespace() && !c.is_control() && !"#\",\\*".contains(c);
        if self.is_closed.get() || all.len() >= LINKS_MAX || name.is_empty() || !name.chars().all(is_sound) {
            return None;
        }
        all.push(name.to_owned());
        Some(all.len() as u128 - 1)
    }

    /// Takes no more links.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
    }

    /// The links whose names begin with a text.
    pub(crate) fn beginning(&self, with: &str) -> Vec<u128> {
        let all = self.all.borrow();
        (0..).zip(all.iter()).filter(|(_, name)| name.starts_with(with)).map(|(n, _)| n).collect()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.all.borrow().clone()
    }
}

/// Which packets a part of the file is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// From the router itself.
    Out,
    /// To the router itself.
    In,
    /// Through the router.
    Through,
}

impl Section {
    /// The hooks that these packets meet, in order.
    pub(crate) fn hooks(self) -> &'static [&'static str] {
        match self {
            Section::Out => &["output", "postrouting"],
            Section::In => &["prerouting", "input"],
            Section::Through => &["prerouting", "forward", "postrouting"],
        }
    }
}

/// What connection tracking says of the packets that are asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    New,
    Established,
    Related,
}

impl State {
    pub(crate) fn word(self) -> &'static str {
        match self {
            State::New => "new",
            State::Established => "established",
            State::Related => "related",
        }
    }
}

/// Whether a hook knows a link of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knows {
    Always,
    Never,
    /// Kernels differ.
    Perhaps,
}

/// Where a rule is read.
#[derive(Clone, Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) ruleset: &'a Ruleset,
    pub(crate) links: &'a Links,
    pub(crate) table: Rc<Table>,
    pub(crate) state: State,
    /// Whether the links by which packets come and go are known.
    pub(crate) knows: [Knows; 2],
    /// Whether MAC addresses are those that a rule file asks for.
    pub(crate) knows_macs: bool,
    /// Whether source and destination are others than in the file, because of address translation.
    pub(crate) translated: [bool; 2],
}

impl<'a> Scope<'a> {
    /// That of a base chain.
    pub(crate) fn of(
        ruleset: &'a Ruleset,
        links: &'a Links,
        base: &Chain,
        section: Section,
        state: State,
    ) -> Scope<'a> {
        let (hook, priority) = base.base.as_ref().map_or(("", 0), |base| (base.hook.as_str(), base.priority));
        let nat = |at: &str, is_apart: fn(i64, i64) -> bool| {
            let mut chains = ruleset.at(at, &["nat"]).into_iter().filter_map(|chain| chain.base.as_ref());
            hook == at && chains.any(|nat| is_apart(priority, nat.priority))
        };
        let comes = match (section, hook) {
            (Section::Out, _) => Knows::Never,
            (_, "postrouting") => Knows::Perhaps,
            _ => Knows::Always,
        };
        let is_before = section == Section::In || hook == "prerouting";
        Scope {
            ruleset,
            links,
            table: Rc::new(base.table.clone()),
            state,
            knows: [comes, if is_before { Knows::Never } else { Knows::Always }],
            // Where packets leave, kernels differ in what they keep of the header that a packet came with.
            knows_macs: comes == Knows::Always,
            // The kernel translates at these priorities, even if those of chains are others.
            translated: [
                nat("postrouting", |priority, nat| priority > 100 || priority >= nat),
                nat("prerouting", |priority, nat| priority < -100 || priority <= nat),
            ],
        }
    }

    /// The set or map that a word with `@` names.
    pub(crate) fn set(&self, value: &Value) -> Option<Result<&'a Set, String>> {
        let name = value.as_str()?.strip_prefix('@')?;
        Some(match self.ruleset.set(&self.table, name) {
            None => Err(format!("there is no set '{name}'")),
            Some(set) if set.is_limited => Err(format!("elements of set '{name}' have limits of their own")),
            Some(set) if set.changes => Err(format!("packets or time change the elements of set '{name}'")),
            Some(set) => Ok(set),
        })
    }

    /// The elements of a set with or without a name; a single value is its own element.
    pub(crate) fn elements(&self, value: &'a Value) -> Result<&'a [Value], String> {
        let listed = self.listed(value)?;
        self.ruleset.spend(listed.len())?;
        let is_named = self.set(value).is_some();
        match is_named || !listed.iter().any(is_limited) {
            true => Ok(listed),
            false => Err("elements of a set have limits of their own".to_owned()),
        }
    }

    /// The elements of a set that becomes a rule for each, or the whole list if that is too long for it.
    pub(crate) fn few(&self, value: &'a Value) -> Result<&'a [Value], String> {
        let listed = self.listed(value)?;
        if listed.len() > CASES_MAX { Ok(listed) } else { self.elements(value) }
    }

    fn listed(&self, value: &'a Value) -> Result<&'a [Value], String> {
        match self.set(value) {
            Some(set) => set.map(|set| &set.elements[..]),
            None => Ok(value["set"].as_array().map_or(std::slice::from_ref(value), Vec::as_slice)),
        }
    }
}
