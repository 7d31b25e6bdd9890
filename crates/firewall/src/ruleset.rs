// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules with their sets, ready for look-ups.

use std::sync::{Mutex, PoisonError};

use crate::compile::Compiled;
use crate::firewall::Connection;
use crate::policy::{Action, Facts, Policy, SELF};
use crate::set::{Contents, ENTRIES_MAX, Entry, Kind, Timed, View};

/// A policy that packets can be judged by.
#[derive(Debug)]
pub struct Ruleset {
    /// What was read, without the entries of its sets.
    pub policy: Policy,
    compiled: Compiled,
    /// Whether rules ask for MAC addresses.
    asks_macs: bool,
    /// The sets. Packets never wait for those who change them: they see a view.
    sets: Mutex<Sets>,
    view: Mutex<View>,
}

#[derive(Debug)]
struct Sets {
    contents: Vec<Contents>,
    /// Whether other rules have taken what they hold.
    is_taken: bool,
    /// The entries of sets in which some are for a time, until it is known when that begins.
    waiting: Vec<(usize, Vec<Timed>)>,
}

/// What the present rules say of a connection that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// They would accept it if it began now, by this rule.
    Accepted(Option<u32>),
    /// They would not.
    Refused,
    /// They depend on the MAC address of its first packet, which nobody has kept.
    Unjudged,
}

/// A set, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its name.
    pub name: String,
    /// What it is made of.
    pub kind: Kind,
    /// How many entries it has.
    pub entries: usize,
    /// How many of them have an end.
    pub ending: usize,
    /// Bytes that look-ups go through.
    pub bytes: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ruleset {
    /// Makes a policy ready.
    ///
    /// # Errors
    /// Its rules are too many.
    pub fn new(mut policy: Policy) -> Result<Ruleset, String> {
        let compiled = Compiled::new(&policy)?;
        let contents: Vec<Contents> = policy.sets.iter().map(|set| Contents::of(set, 0)).collect();
        let mut waiting = Vec::new();
        for (number, set) in policy.sets.iter_mut().enumerate() {
            let entries = std::mem::take(&mut set.entries);
            if entries.iter().any(|(_, time)| time.is_some()) {
                waiting.push((number, entries));
            }
        }
        let view = Mutex::new(View::of(&contents));
        let asks_macs = policy.rules.iter().any(|rule| rule.matches.macs.is_given);
        Ok(Ruleset {
            policy,
            compiled,
            asks_macs,
            sets: Mutex::new(Sets { contents, is_taken: false, waiting }),
            view,
        })
    }

    /// Lets the times begin of entries that are in sets for a time. Before, they count from 0.
    pub fn begin(&self, now_ns: u64) {
        let mut sets = lock(&self.sets);
        for (set, entries) in std::mem::take(&mut sets.waiting) {
            sets.contents[set].replace(&entries, now_ns);
        }
        *lock(&self.view) = View::of(&sets.contents);
    }

    /// Takes the entries of another one's sets, where a set has the same name and kind. The other one's cannot change any more, so that no change is lost.
    pub fn adopt(&self, other: &Ruleset) {
        let mut theirs = lock(&other.sets);
        theirs.is_taken = true;
        let mut sets = lock(&self.sets);
        for (number, set) in self.policy.sets.iter().enumerate() {
            if let Ok((from, kind)) = other.set(&set.name)
                && kind == set.kind
            {
                sets.contents[number] = theirs.contents[from].clone();
                sets.waiting.retain(|(waiting, _)| *waiting != number);
            }
        }
        *lock(&self.view) = View::of(&sets.contents);
    }

    /// What the sets hold now.
    pub fn view(&self) -> View {
        lock(&self.view).clone()
    }

    /// All sets at a time. Entries whose time is over do not count.
    pub fn sets(&self, now_ns: u64) -> Vec<About> {
        let mut sets = lock(&self.sets);
        sets.contents.iter_mut().for_each(|contents| contents.purge(now_ns));
        let about = |(set, contents): (&crate::policy::Set, &Contents)| About {
            name: set.name.clone(),
            kind: set.kind,
            entries: contents.len(),
            ending: contents.ending(),
            bytes: contents.bytes(),
        };
        self.policy.sets.iter().zip(&sets.contents).map(about).collect()
    }

    /// The number and the kind of a set.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn set(&self, name: &str) -> Result<(usize, Kind), String> {
        let found = self.policy.sets.iter().position(|set| set.name == name);
        found.map(|number| (number, self.policy.sets[number].kind)).ok_or_else(|| {
            let names: Vec<&str> = self.policy.sets.iter().map(|set| set.name.as_str()).collect();
            match &names[..] {
                [] => format!(
                    "there is no set '{name}': the rules have none; add `set {name} addresses` to them"
                ),
                names => format!("there is no set '{name}'; the rules have {}", names.join(", ")),
            }
        })
    }

    /// Looks at the entries of a set.
    pub fn look<R>(&self, set: usize, look: impl FnOnce(&Contents) -> R) -> R {
        look(&lock(&self.sets).contents[set])
    }

    /// Changes a set, by which `new` may be added. Then `publish` gets what rules see of all sets, and puts it in place; changes follow each other in the same order as it is called.
    ///
    /// # Errors
    /// The set would have too many entries, or other rules have taken what it holds: nothing is changed.
    pub fn change<R>(
        &self,
        set: usize,
        now_ns: u64,
        new: &[Entry],
        change: impl FnOnce(&mut Contents) -> R,
        publish: impl FnOnce(View),
    ) -> Result<R, String> {
        let mut sets = lock(&self.sets);
        if sets.is_taken {
            return Err("the rules were replaced meanwhile: say it again".to_owned());
        }
        let contents = &mut sets.contents[set];
        contents.purge(now_ns);
        if !contents.fits(new, ENTRIES_MAX) {
            let name = &self.policy.sets[set].name;
            let has = contents.len();
            return Err(format!(
                "set '{name}' has {has} entries and {ENTRIES_MAX} at most: remove some first"
            ));
        }
        let done = change(contents);
        let view = View::of(&sets.contents);
        *lock(&self.view) = view.clone();
        publish(view);
        Ok(done)
    }

    /// The first rule that a packet matches at a time, without regard to limits.
    pub fn find(&self, facts: &Facts, now_ns: u64) -> Option<u32> {
        self.first(&self.view(), facts, now_ns, |_| false)
    }

    /// The first rule that a packet matches. `refuses` may say that a rule does not hold, though all fields do.
    #[inline]
    pub(crate) fn first(
        &self,
        sets: &View,
        facts: &Facts,
        now_ns: u64,
        refuses: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        self.compiled.find(&self.policy, sets, facts, now_ns, refuses)
    }

    /// What a rule says, or the default. What the router says by itself passes, unless a rule matches it.
    pub(crate) fn action(&self, rule: Option<u32>, from: u8) -> Action {
        match rule {
            Some(rule) => self.policy.rules[rule as usize].action,
            None if from == SELF => Action::Accept,
            None => self.policy.default,
        }
    }

    /// Whether rules ask for MAC addresses: only then packets are looked at for theirs.
    pub fn asks_macs(&self) -> bool {
        self.asks_macs
    }

    /// Whether a connection would be refused if it began now.
    pub fn refuses(&self, connection: &Connection, now_ns: u64) -> bool {
        self.standing(connection, now_ns) == Standing::Refused
    }

    /// What would happen to a connection if it began now.
    pub fn standing(&self, connection: &Connection, now_ns: u64) -> Standing {
        self.standing_of(&self.view(), &connection.facts(), now_ns)
    }

    /// The same by what is known of its first packet. Connections do not know the MAC address that it came from.
    pub(crate) fn standing_of(&self, sets: &View, facts: &Facts, now_ns: u64) -> Standing {
        let facts = &Facts { mac: None, ..*facts };
        let accepts = |rule| self.action(rule, facts.from) == Action::Accept;
        // The first rule that holds with any MAC address. Those before it may hold with some.
        let rule = self.first(sets, facts, now_ns, |_| false);
        let is_accepted = accepts(rule);
        let mut depends = false;
        if self.asks_macs {
            let take = |rule| depends |= accepts(Some(rule)) != is_accepted;
            self.compiled.by_mac(&self.policy, sets, facts, now_ns, rule, take);
        }
        match (depends, is_accepted) {
            (true, _) => Standing::Unjudged,
            (false, true) => Standing::Accepted(rule),
            (false, false) => Standing::Refused,
        }
    }

    /// Bytes that its structures take.
    pub fn bytes(&self) -> usize {
        self.compiled.bytes()
    }
}
